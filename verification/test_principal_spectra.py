"""Gaussian inputs with a covariance: the spectrum is that of independent columns along the principal axes (N-cov)."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Gaussian, Matern, SquaredExponential, rate, spectrum
from gpbounds.kernels import Kernel
from gpbounds.lowrank.features import MercerFeatures
from gpbounds.reference import spectra as reference
from gpbounds.spectra.gaussian import principal_axes

seeds = st.integers(0, 2**32 - 1)


def covariance(rng: np.random.Generator, dim: int, rank: int | None = None) -> np.ndarray:
    """A random covariance with columns of different units."""
    A = rng.standard_normal((dim, rank or dim)) * np.exp(rng.normal(size=(dim, 1)))
    return A @ A.T


def discretised(kernel: Kernel, cov: np.ndarray, nodes: int) -> np.ndarray:
    """Nyström's eigenvalues in two dimensions, x = Az with the Cholesky factor A, z on a Gauss-Hermite grid."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    root = np.sqrt(np.outer(w, w).ravel()) / w.sum()
    return np.linalg.eigvalsh(root[:, None] * kernel(grid @ np.linalg.cholesky(cov).T) * root)[::-1]


@pytest.mark.claim("N-cov")
@pytest.mark.parametrize("correlation", [-0.95, 0.3, 0.8])
def test_eigenvalues_against_the_discretised_operator(observe: Observer, correlation: float) -> None:
    """The axes of the covariance are not those of the kernel, whose lengthscales differ."""
    cov = np.array([[1.0, 0.6 * correlation], [0.6 * correlation, 0.36]])
    kernel = SquaredExponential(2.0, [2.5, 1.0])
    true = discretised(kernel, cov, 30)[:12]
    law = spectrum(kernel, inputs=Gaussian(cov=cov))
    observe.equal("N-cov", law.eigenvalues(12), true, rtol=1e-7)
    observe.equal("N-cov", law.tail(np.arange(12)), 2.0 - np.append(0.0, np.cumsum(true)[:-1]), atol=1e-9)


@pytest.mark.claim("N-cov")
def test_matern_eigenvalues_against_the_discretised_operator(observe: Observer) -> None:
    """Every kernel of the scaled distance: Matérn-5/2 here, whose spectrum is an estimate."""
    cov, kernel = np.array([[1.0, 0.5], [0.5, 0.4]]), Matern(2.5, 1.0, [2.0, 1.0])
    law = spectrum(kernel, inputs=Gaussian(cov=cov))
    observe.equal("N-cov", law.eigenvalues(12), discretised(kernel, cov, 36)[:12], rtol=2e-3)
    assert not law.certified


@pytest.mark.claim("N-cov")
@given(seed=seeds, dim=st.integers(2, 3), M=st.integers(0, 12))
def test_tails_against_forty_digits(observe: Observer, seed: int, dim: int, M: int) -> None:
    """Outwards without a tolerance: the variances along the axes.  The tails: above the true ones, and close."""
    rng = np.random.default_rng(seed)
    cov, ells = covariance(rng, dim), np.exp(rng.normal(size=dim))
    inputs, kernel = Gaussian(cov=cov), SquaredExponential(1.0, ells)
    exact = [[mp.mpf(x) for x in row] for row in inputs.cov]
    true = reference.principal_variances(ells.tolist(), exact)
    _, law, _ = principal_axes(kernel, inputs)
    squares = [mp.mpf(float(std)) ** 2 for std in law.stds]
    observe.upper("N-cov", true, squares)
    observe.equal("N-cov", squares, true, atol=1e-13 * float(true[0]))
    values = reference.correlated_eigenvalues(ells.tolist(), exact, M, 13) if M else []
    rest = 1 - mp.fsum(values)
    observe.upper("N-cov", rest, mp.mpf(float(spectrum(kernel, inputs=inputs).tail(M))) * (1 + mp.mpf("1e-12")))
    if true[-1] > 1e-6 * true[0]:
        observe.equal("N-cov", float(spectrum(kernel, inputs=inputs).tail(M)), float(rest), rtol=1e-7, atol=1e-14)


@pytest.mark.claim("N-cov")
@given(seed=seeds, dim=st.integers(2, 6))
def test_what_leaves_the_spectrum_alone(observe: Observer, seed: int, dim: int) -> None:
    """Units of a column, the order of columns, the mean; for one lengthscale also rotations."""
    rng = np.random.default_rng(seed)
    cov, ells, M = covariance(rng, dim), np.exp(rng.normal(size=dim)), np.array([0, 1, 5, 30, 200])
    tails = spectrum(SquaredExponential(1.0, ells), inputs=Gaussian(cov=cov)).log_tail(M)
    units, order = np.exp(3.0 * rng.normal(size=dim)), rng.permutation(dim)
    rescaled = Gaussian(cov=cov * np.outer(units, units), mean=rng.normal(size=dim))
    observe.equal(
        "N-cov", spectrum(SquaredExponential(1.0, ells * units), inputs=rescaled).log_tail(M), tails, atol=1e-6
    )
    permuted = Gaussian(cov=cov[np.ix_(order, order)])
    observe.equal(
        "N-cov", spectrum(SquaredExponential(1.0, ells[order]), inputs=permuted).log_tail(M), tails, atol=1e-6
    )
    Q, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    kernel, turned = SquaredExponential(1.0, ells[0]), Q @ cov @ Q.T
    straight = spectrum(kernel, inputs=Gaussian(np.sqrt(np.maximum(np.linalg.eigvalsh(cov), 1e-300))))
    rotated = spectrum(kernel, inputs=Gaussian(cov=0.5 * (turned + turned.T)))
    observe.equal("N-cov", rotated.tail(M), straight.tail(M), rtol=1e-6, atol=1e-12)


@pytest.mark.claim("N-cov")
@given(seed=seeds, dim=st.integers(2, 5))
def test_tails_increase_with_the_covariance(observe: Observer, seed: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, cov, M = SquaredExponential(1.0, np.exp(rng.normal(size=dim))), covariance(rng, dim), np.arange(300)
    wider = cov + covariance(rng, dim, 1)
    less, more = (spectrum(kernel, inputs=Gaussian(cov=c)).tail(M) for c in (cov, wider))
    observe.upper("N-cov", less, more * (1 + 1e-11))


@pytest.mark.claim("N-cov")
@example(seed=95, dim=6, rank=2)
@example(seed=14129, dim=2, rank=1)
@given(seed=seeds, dim=st.integers(2, 6), rank=st.integers(1, 3))
def test_a_singular_covariance_has_the_spectrum_of_fewer_columns(
    observe: Observer, seed: int, dim: int, rank: int
) -> None:
    rng = np.random.default_rng(seed)
    A, ells = rng.standard_normal((dim, rank)), np.exp(rng.normal(size=dim))
    kernel, inputs = SquaredExponential(1.0, ells), Gaussian(cov=A @ A.T)
    scaled = A / ells[:, None]
    variances = np.linalg.eigvalsh(scaled.T @ scaled)[-min(rank, dim) :]
    fewer = spectrum(SquaredExponential(), inputs=Gaussian(np.sqrt(np.maximum(variances, 1e-30)), len(variances)))
    law, M = spectrum(kernel, inputs=inputs), np.arange(12)
    tails = law.tail(M)
    counted = 2.0**-53 * law.roundings(M, -np.log(tails))
    observe.upper("N-cov", fewer.tail(M), tails * (1.0 + 2.0 * counted))  # those of both
    observe.equal("N-cov", tails, fewer.tail(M), rtol=1e-6, atol=1e-11)
    assert inputs.slack > 0.0 or rank >= dim
    draws = inputs.sample(5, rng)
    assert np.linalg.matrix_rank(draws, tol=1e-6 * np.abs(draws).max()) <= rank


@pytest.mark.claim("N-cov")
@given(seed=seeds, dim=st.integers(2, 3))
def test_mercer_features_along_the_principal_axes(observe: Observer, seed: int, dim: int) -> None:
    """Orthonormal under the law (by quadrature), and K − ΞΞᵀ has the diagonal that the features state."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(-1.0, 1.0, (dim, dim)) + 1.5 * np.eye(dim)
    inputs = Gaussian(cov=A @ A.T, mean=rng.normal(size=dim))
    kernel = SquaredExponential(1.7, rng.uniform(3.0, 6.0, dim))
    X = inputs.sample(20, rng)
    features = MercerFeatures(kernel, 10, inputs=inputs).fit(X)
    left = np.diag(kernel(X) - features(X) @ features(X).T)
    observe.equal("N-cov", features.residual_diagonal(X), left, rtol=1e-9, atol=1e-12)
    z, w = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(*[z] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    weights = math.prod(np.meshgrid(*[w / w.sum()] * dim, indexing="ij")).ravel()
    Xi = features(grid @ np.linalg.cholesky(inputs.cov).T + inputs.means)
    gram = (Xi * weights[:, None]).T @ Xi
    observe.equal("N-cov", gram, np.diag(features.eigenvalues), atol=1e-9)
    observe.equal("N-cov", spectrum(kernel, inputs=inputs).tail(10), features.tail, rtol=1e-12)


def test_bounds_use_the_covariance() -> None:
    kernel, shared = SquaredExponential(1.0, [1.0, 1.0, 1.0]), {"noise": 0.1}
    cov = 0.9 * np.ones((3, 3)) + 0.1 * np.eye(3)
    correlated = rate(kernel, 1000, 60, 1.0, inputs=Gaussian(cov=cov), **shared)
    independent = rate(kernel, 1000, 60, 1.0, inputs=Gaussian(dim=3), **shared)
    assert float(correlated) < 0.1 * float(independent)
    assert correlated.certified
    assert "cov" in " ".join(correlated.assumptions)
