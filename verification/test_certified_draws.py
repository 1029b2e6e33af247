"""``rate(..., y=y, draws=R, rigor="auto")`` against the theorems for the exact K, to 80 digits (N-enclosed)."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer
from scipy.linalg import expm

from gpbounds import Empirical, Matern, SquaredExponential, kdpp, rate
from gpbounds.kernels import Constant, Kernel, Linear, Periodic, Polynomial, RationalQuadratic
from gpbounds.kernels.errors import entry_errors
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.linalg import errors as decomposition
from gpbounds.linalg import psd
from gpbounds.rates.draws.errors import EnclosedRows, certified_share
from gpbounds.reference import kdpp as reference_kdpp
from gpbounds.reference import rates as reference
from gpbounds.reference import spectra as reference_kernels

seeds = st.integers(0, 2**32 - 1)
DIGITS = 80


def matrix(kernel: Kernel, X: np.ndarray) -> Any:
    """K for exact doubles, from the definition."""
    return reference_kernels.gram(kernel_to_plain(kernel), X.tolist())


def truth(K: Any, Y: np.ndarray, M: int, noise: float, alpha: float, p: Any, law: str) -> Any:
    """The bound of the theorem for K; eigenvalues below 10⁻⁶⁰ are 0.

    It is affine in the squares, and what does not depend on y counts once for each output.
    """
    values, vectors = mp.eigsy(K)
    clean = [value if value > mp.mpf(10) ** -60 else mp.mpf(0) for value in values]
    squares = [mp.fsum((vectors[:, i].T * mp.matrix(y.tolist()))[0] ** 2 for y in Y.T) for i in range(K.rows)]
    function = reference.tilted_given if law == "tilted" else reference.best_given
    at = lambda s: function(clean, s, M, mp.mpf(noise), mp.mpf(alpha), p)  # noqa: E731
    return at(squares) + (Y.shape[1] - 1) * at([mp.mpf(0)] * K.rows)


def random_kernel(rng: np.random.Generator, D: int) -> Kernel:
    scale = 10.0 ** rng.uniform(-1.0, 1.5, D)
    choices: list[Kernel] = [
        SquaredExponential(rng.uniform(0.1, 3.0), scale),
        Matern(float(rng.integers(4)) + 0.5, rng.uniform(0.1, 3.0), scale),
    ]
    kind = int(rng.integers(4))
    if kind < 2:
        return choices[kind]
    return choices[0] + choices[1] if kind == 2 else choices[0] * choices[1]


@pytest.mark.claim("N-enclosed")
@given(seed=seeds)
@example(seed=686)
def test_the_error_of_each_kernel_entry_is_enclosed(observe: Observer, seed: int) -> None:
    """Near, far, equal and offset points, to 60 digits; at seed 686 both factors of a product underflow."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    X = rng.standard_normal((5, D)) * 10.0 ** rng.uniform(-3.0, 1.5) + 10.0 ** rng.uniform(0, 4) * rng.integers(2)
    X[1], X[2] = X[0], X[0] + 1e-9
    kernel = random_kernel(rng, D)
    computed, errors = kernel(X), entry_errors(kernel, X)
    with mp.workdps(60):
        exact = matrix(kernel, X)
        for i in range(5):
            for j in range(5):
                observe.upper(
                    "N-enclosed", abs(exact[i, j] - mp.mpf(float(computed[i, j]))), mp.mpf(float(errors[i, j]))
                )
    if np.abs(X).max() < 10.0:
        assert errors.max() <= 1e-11 * kernel.max_variance


@pytest.mark.claim("N-enclosed")
@given(seed=seeds)
def test_the_error_of_entries_of_other_kernels_is_enclosed(observe: Observer, seed: int) -> None:
    """Rational quadratic, periodic, linear, polynomial, constant, on columns, added and multiplied."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 2)) * 10.0 ** rng.uniform(-2.0, 1.5) + 10.0 ** rng.uniform(0, 3) * rng.integers(2)
    X[1], X[2] = X[0], -X[0]
    v, scale = float(10.0 ** rng.uniform(-1.0, 1.0)), 10.0 ** rng.uniform(-1.0, 1.5, 2)
    bounded = [RationalQuadratic(10.0 ** rng.uniform(-1.5, 2.0), v, scale), Periodic(scale, v, 2.0 * scale[::-1])]
    growing = [Linear(scale), Polynomial(int(rng.integers(1, 6)), scale, v), Constant(v), Linear(v).on([1])]
    first, second = bounded[rng.integers(2)], growing[rng.integers(4)]
    kernel = [first, second, first + second, first * second][rng.integers(4)]
    computed, errors = kernel(X), entry_errors(kernel, X)
    with mp.workdps(60):
        exact = matrix(kernel, X)
        for i, j in np.ndindex(4, 4):
            observe.upper("N-enclosed", abs(exact[i, j] - mp.mpf(float(computed[i, j]))), mp.mpf(float(errors[i, j])))


@pytest.mark.claim("N-enclosed")
@given(seed=seeds, worse=st.sampled_from([0.0, 1e-9, 1e-5, 1e-3]))
def test_the_distance_of_a_decomposition_is_enclosed(observe: Observer, seed: int, worse: float) -> None:
    """Decompositions off by up to 10⁻³ in values and vectors, the latter not orthogonal: to 50 digits."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    A = SquaredExponential(0.75, 10.0 ** rng.uniform(-1.0, 1.0))(rng.standard_normal((n, 1)))  # in units of 1
    Y = rng.standard_normal((n, 2))
    spectrum = psd.eigen(A, vectors=True)
    skew = np.triu(rng.standard_normal((n, n)), 1)
    W = spectrum.vectors @ expm(worse * (skew - skew.T)) @ (np.eye(n) + worse * 1e-2 * rng.standard_normal((n, n)))
    other = psd.Eigen(np.abs(spectrum.values + worse * rng.standard_normal(n)), W, 0.0, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decomposition, "eigen", lambda *args, **options: other)
        found = decomposition.enclosed_eigen(A, Y, np.zeros((n, n)))
    with mp.workdps(50):
        exact = mp.matrix(W.tolist())
        values, basis = mp.eigsy(exact.T * exact)
        root = basis * mp.diag([1 / mp.sqrt(v) for v in values]) * basis.T
        V = exact * root
        left = mp.matrix(A.tolist()) - V * mp.diag([mp.mpf(float(v)) for v in other.values]) * V.T
        distance = max(abs(v) for v in mp.eigsy(left, eigvals_only=True))
        observe.upper("N-enclosed", distance, mp.mpf(found.error))
        off = V.T * mp.matrix(Y.tolist()) - mp.matrix(found.components.tolist())
        observe.upper("N-enclosed", mp.mnorm(off, "f"), mp.mpf(found.components_error))
        if worse:
            observe.holds("N-enclosed", found.error <= 2.5 * mp.sqrt(n) * (distance + mp.mpf(1e-14)))
        else:
            assert found.error < 1e-13


@pytest.mark.claim("N-enclosed")
@given(seed=seeds)
@pytest.mark.parametrize("law", ["kdpp", "tilted"])
def test_a_certified_bound_is_above_that_of_the_exact_matrix(observe: Observer, seed: int, law: str) -> None:
    """Kernels up to a condition number beyond 1/eps, equal rows, several outputs; and by no more than rounding.

    An error ε of K changes yᵀ(Q_n⁻¹ − K_n⁻¹)y by about ε|y|²/σ⁴ in the directions that K hardly has.
    """
    rng = np.random.default_rng(seed)
    N, D, alpha = int(rng.integers(3, 8)), int(rng.integers(1, 3)), float(rng.choice([1.0, 0.5, 0.05]))
    X = rng.standard_normal((N, D))
    if seed % 3 == 0:
        X[-1] = X[0]
    kernel, noise = random_kernel(rng, D), 10.0 ** rng.uniform(-4.0, 1.0)
    Y = rng.standard_normal((N, 1 + seed % 2)) * 10.0 ** rng.uniform(-1.0, 2.0)
    M, R = int(rng.integers(1, N - 1)), int(rng.integers(1, 11))
    options: dict[str, Any] = {"inputs": Empirical(X), "y": Y, "noise": noise, "law": law, "draws": R}
    bound = rate(kernel, N, M, alpha, rigor="auto", **options)
    error = EnclosedRows(kernel, X, Y).error / noise
    added = 20.0 * error * (N + (Y**2).sum() / noise)
    allowed = added * float(bound) / bound.terms["mean"] if np.isfinite(float(bound)) else np.inf
    with mp.workdps(DIGITS):
        exact = truth(matrix(kernel, X), Y, M, noise, alpha, mp.mpf(0.05) ** (mp.mpf(1) / R), law)
        observe.upper("N-enclosed", exact, mp.mpf(float(bound)))
        if exact < 1e4:
            observe.holds("N-enclosed", float(bound) <= exact * (1 + mp.mpf("1e-6")) + mp.mpf(allowed))
    assert bound.certified == bool(np.isfinite(float(bound)))
    plain = rate(kernel, N, M, alpha, rigor="float", **options)
    assert not plain.certified
    if np.isfinite(float(plain)):
        assert float(bound) <= float(plain) * (1.0 + 1e-6) + allowed


@pytest.mark.claim("N-enclosed")
@given(seed=seeds, size=st.sampled_from([1e-8, 1e-5, 1e-3]))
def test_every_matrix_within_the_errors_is_covered(observe: Observer, seed: int, size: float) -> None:
    """Entry errors of a given size, and matrices at the edge of what they allow: rank-one changes in the worst
    directions."""
    rng = np.random.default_rng(seed)
    N, M, noise = 6, int(rng.integers(1, 5)), 10.0 ** rng.uniform(-2.0, 0.0)
    X, kernel = rng.standard_normal((N, 1)), Matern(0.5, 1.0, 1.0)
    y = rng.standard_normal((N, 1)) * 3.0
    signs = np.sign(np.linalg.eigh(kernel(X))[1][:, rng.integers(N)] + 1e-12)
    K = kernel(X)
    below = np.linalg.eigvalsh(K)[0] > 2.0 * N * size and rng.integers(2)  # still positive definite
    K = K + (-1 if below else 1) * size * np.outer(signs, signs) * (1 - 1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpbounds.rates.draws.errors.entry_errors", lambda *args: np.full((N, N), size))
        options: dict[str, Any] = {"inputs": Empirical(X), "y": y, "noise": noise, "draws": 10, "rigor": "auto"}
        with mp.workdps(40):
            for law in ("kdpp", "tilted"):
                bound = rate(kernel, N, M, 1.0, law=law, **options)
                exact = truth(mp.matrix(K.tolist()), y, M, noise, 1.0, mp.mpf(0.05) ** mp.mpf("0.1"), law)
                observe.upper("N-enclosed", exact, mp.mpf(float(bound)))


@pytest.mark.claim("N-enclosed")
@given(delta=st.floats(1e-300, 0.999), draws=st.integers(1, 1000), tv=st.sampled_from([0.0, 0.1]))
def test_the_share_of_a_draw_is_rounded_down(observe: Observer, delta: float, draws: int, tv: float) -> None:
    with mp.workdps(40):
        exact = mp.mpf(delta) ** (mp.mpf(1) / draws) - mp.mpf(tv)
        p = mp.mpf(certified_share(delta, draws, tv))
        observe.lower("N-enclosed", exact, p)
        assert exact - p <= mp.mpf(2) ** -52


@pytest.mark.claim("N-enclosed")
@given(seed=seeds, N=st.integers(2, 60))
def test_the_rounding_of_sums_without_one_eigenvalue_is_within_the_allowance(
    observe: Observer, seed: int, N: int
) -> None:
    rng = np.random.default_rng(seed)
    values, M = 10.0 ** rng.uniform(-12.0, 3.0, N), int(rng.integers(1, N))
    found = kdpp.expected_residual(values, M)
    up = 1.0 + 40.0 * (N + 100) * 2.0**-52
    with mp.workdps(60):
        for i in rng.integers(N, size=3):
            rest = [mp.mpf(float(v)) for j, v in enumerate(values) if j != i]
            e = reference_kdpp.esp(rest, M)
            r = e[M] / e[M - 1]
            value = mp.mpf(float(values[i]))
            observe.upper("N-enclosed", value * r / (value + r), mp.mpf(float(found.rho[i]) * up))
            observe.upper("N-enclosed", r / (value + r), mp.mpf(float(found.miss[i]) * up))
