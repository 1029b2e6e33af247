"""The mean residual of a k-DPP (N-res), by enumeration of every Z at many digits, and the fast function against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer
from test_kdpp import SPECTRA, kernel_matrix, rotated

from gpbounds import SquaredExponential, kdpp
from gpbounds.kdpp.streamed_residual import RitzForm, StreamedResidual, greatest_weight, streamed_residual
from gpbounds.linalg import eigen
from gpbounds.linalg.pivoted import pivoted
from gpbounds.rates.draws.rows import DenseRows
from gpbounds.reference import kdpp as reference
from gpbounds.reference.kdpp import esp

DIGITS = 90
spectra = st.builds(
    lambda kind, N, seed: SPECTRA[kind](np.random.default_rng(seed), N),
    st.sampled_from(sorted(SPECTRA)),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def many_digits(fifty_digits: None) -> Iterator[None]:
    with mp.workdps(DIGITS):
        yield


def largest(A: mp.matrix) -> Any:
    return max(abs(entry) for entry in A)


def least_eigenvalue(A: mp.matrix) -> Any:
    return min(mp.eigsy((A + A.T) / 2, eigvals_only=True))


def rank(values: Any) -> int:
    return sum(1 for value in values if value > 0)


@pytest.mark.claim("N-res")
@given(values=spectra, seed=seeds)
def test_mean_residual_is_diagonal_in_the_eigenbasis(observe: Observer, values: Any, seed: int) -> None:
    K = rotated(values, np.random.default_rng(seed))
    basis, exact = [mp.mpf(float(value)) for value in values], mp.mpf(float(max(values)))
    for M in range(1, rank(values) + 1):
        mean = reference.mean_residual(K, M)
        rho = [value * miss for value, miss in zip(basis, reference.miss(basis, M), strict=True)]
        expected = rotated([0.0] * len(values), np.random.default_rng(seed)) + with_eigenvalues(rho, seed)
        observe.holds("N-res", largest(mean - expected) <= exact * mp.mpf(10) ** -40)
        e = esp(basis, M)
        r = e[M] / e[M - 1]
        dominating = r * K * mp.inverse(K + r * mp.eye(K.rows))
        observe.holds("N-res", least_eigenvalue(dominating - mean) >= -exact * mp.mpf(10) ** -40)
        observe.holds("N-res", least_eigenvalue(r * mp.eye(K.rows) - dominating) >= -exact * mp.mpf(10) ** -40)


def with_eigenvalues(values: Any, seed: int) -> mp.matrix:
    """The matrix that `rotated` makes of values that are mpmath numbers."""
    rng = np.random.default_rng(seed)
    U = mp.eye(len(values))
    for _ in range(2):
        v = mp.matrix([mp.mpf(x) for x in rng.standard_normal(len(values))])
        U = U - (2 / (v.T * v)[0]) * (U * v) * v.T
    return U * mp.diag(values) * U.T


@pytest.mark.claim("N-res")
@example(seed=2376071, N=6)  # three equal points, and a minor of A that is 0 but for rounding
@given(seed=seeds, N=st.integers(2, 6))
def test_mean_residual_grows_with_the_matrix(observe: Observer, seed: int, N: int) -> None:
    """K ⪯ A: the mean residuals are in the same order, also where K has fewer than N distinct points."""
    rng = np.random.default_rng(seed)
    K, values = kernel_matrix(rng.integers(0, 4, N) * 0.7 if seed % 2 else rng.random(N), rng)
    B = mp.matrix(rng.standard_normal((N, int(rng.integers(1, N + 1)))).tolist())
    A = K + mp.mpf(10.0 ** rng.uniform(-4, 1)) * B * B.T
    for M in range(1, rank(values) + 1):
        difference = reference.mean_residual(A, M) - reference.mean_residual(K, M)
        observe.holds("N-res", least_eigenvalue(difference) >= -(mp.mpf(10) ** -20))


@pytest.mark.claim("N-res")
@given(seed=seeds, N=st.integers(1, 40), spread=st.floats(0.0, 120.0))
def test_fast_shares_agree_with_the_reference(observe: Observer, seed: int, N: int, spread: float) -> None:
    """To 1e-14 over 240 decades, with zeros and equal eigenvalues, in any order."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-spread, spread, N)
    values[rng.random(N) < 0.2] = values[0] if seed % 2 else 0.0
    if not values.any():
        return
    M = int(rng.integers(1, rank(values) + 1))
    with mp.workdps(40):
        basis = [mp.mpf(float(value)) for value in values]
        fast, exact = kdpp.expected_residual(values, M), reference.miss(basis, M)
        observe.equal("N-res", fast.miss, exact, rtol=1e-14)
        observe.equal("N-res", fast.rho, [a * b for a, b in zip(basis, exact, strict=True)], rtol=1e-14)
        e = esp(basis, M)
        observe.equal("N-res", fast.ratio, e[M] / e[M - 1], rtol=1e-14)
        observe.holds("N-res", all(r <= fast.ratio * (1 + mp.mpf(10) ** -30) + r * 1e-14 for r in
                                   reference.rest_ratios(basis, M)))  # fmt: skip


@pytest.mark.claim("N-res")
@given(seed=seeds, N=st.integers(1, 12), levels=st.integers(1, 5))
def test_fast_shares_of_spectra_over_the_range_of_doubles(observe: Observer, seed: int, N: int, levels: int) -> None:
    """From 1e-294 to 1e294: eigenvalues at a few levels, whose gaps are beyond any double, or anywhere."""
    rng = np.random.default_rng(seed)
    decades = rng.uniform(-294.0, 294.0, levels if seed % 2 else N)
    if seed % 3 == 0:
        decades[0] = -294.0
        decades[-1] = 294.0
    values = 10.0 ** rng.choice(decades, N) * rng.uniform(0.5, 1.0, N)
    for M in range(1, N + 1):
        with mp.workdps(40):
            basis = [mp.mpf(float(value)) for value in values]
            fast, exact = kdpp.expected_residual(values, M), reference.miss(basis, M)
            for share, truth in zip(fast.miss.tolist(), exact, strict=True):
                if truth > 1e-300:
                    observe.equal("N-res", share, truth, rtol=1e-14)
                else:  # doubles may not hold it
                    observe.holds("N-res", share <= 1.1e-300)
            observe.equal("N-res", fast.rho, [a * b for a, b in zip(basis, exact, strict=True)], rtol=1e-14)
            e = esp(basis, M)
            observe.equal("N-res", fast.ratio, e[M] / e[M - 1], rtol=1e-14)


@pytest.mark.claim("N-res")
def test_weights_of_a_spectrum_whose_squares_doubles_do_not_hold(observe: Observer) -> None:
    values, squares = [1e250, 1e-20, 1e-250], [1e260, 1.0, 1e-260]
    residual = kdpp.expected_residual(values, 1, noise=1e-30)
    with mp.workdps(40):
        rho = [mp.mpf(v) * m for v, m in zip(values, reference.miss([mp.mpf(v) for v in values], 1), strict=True)]
        weights = [r / (mp.mpf(v) + mp.mpf(1e-30)) ** 2 for r, v in zip(rho, values, strict=True)]
        observe.equal("N-res", residual.greatest_weight, max(weights), rtol=1e-14)
        form = mp.fsum(w * mp.mpf(s) for w, s in zip(weights, squares, strict=True))
        observe.equal("N-res", residual.quadratic(squares), form, rtol=1e-14)


@pytest.mark.parametrize(("values", "M"), [([5e-324] * 3, 2), ([1.0, 2e-323, 2e-323], 2)])
def test_a_spectrum_beyond_the_doubles_is_refused_with_a_way_out(values: list[float], M: int) -> None:
    with pytest.raises(ValueError, match=r"eigenvalues: expected a spectrum whose ratios .* rigor='sharp'"):
        kdpp.expected_residual(values, M)
    assert np.isfinite(kdpp.expected_residual(values, M, rigor="sharp").rho).all()


@pytest.mark.claim("N-res")
@given(seed=seeds, N=st.integers(2, 40))
def test_rounded_eigenvalues_give_upper_bounds(observe: Observer, seed: int, N: int) -> None:
    """Exact eigenvalues anywhere within the rounding error: shares, mean residual and trace are not above."""
    rng = np.random.default_rng(seed)
    given_values = 10.0 ** rng.uniform(-6, 2, N)
    rounding = 10.0 ** rng.uniform(-12, -2)
    exact = np.maximum(given_values + rounding * rng.uniform(-1, 1, N), 0.0)
    if seed % 3 == 0:
        exact = np.maximum(given_values + rounding * rng.choice([-1.0, 1.0], N), 0.0)
    assume(rank(exact) > 0)
    M = int(rng.integers(1, rank(exact) + 1))
    bounds = kdpp.expected_residual(given_values, M, noise=0.1, rounding=rounding)
    truth = kdpp.expected_residual(exact, M, noise=0.1)
    up = 1.0 + 1e-13
    observe.upper("N-res", truth.miss, bounds.miss * up)
    observe.upper("N-res", truth.rho, bounds.rho * up)
    squares = rng.standard_normal(N) ** 2
    for name in ("trace", "ratio", "omega", "excess"):
        observe.upper("N-res", getattr(truth, name), getattr(bounds, name) * up)
    observe.upper("N-res", truth.quadratic(squares), bounds.quadratic(squares) * up)
    observe.upper("N-res", truth.omega_above(0.4), bounds.omega_above(0.4) * up)


@pytest.mark.claim("N-res")
def test_quadratic_forms_of_draws(observe: Observer) -> None:
    """600 draws at N = 40: vᵀ(K − Q)v has the mean that is promised, and the form without eigenvectors is above."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal(40)
    K = np.exp(-np.abs(X[:, None] - X) / 0.7)
    values, vectors = np.linalg.eigh(K)
    v = rng.standard_normal(40)
    residual = kdpp.expected_residual(values, 6)
    exact = float((residual.rho * (vectors.T @ v) ** 2).sum())
    drawn = []
    for _ in range(600):
        Z = kdpp.sample_eigen(values, vectors, 6, rng)
        drawn.append(v @ K @ v - (K[Z] @ v) @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z] @ v))
    score = (np.mean(drawn) - exact) / (np.std(drawn) / np.sqrt(len(drawn)))
    observe.holds("N-res", abs(score) < 5, cases=len(drawn))
    observe.upper("N-res", exact, kdpp.loewner(K, residual.ratio, v))
    observe.holds("N-res", kdpp.loewner(K, residual.ratio, v) <= 1.3 * exact)


@pytest.mark.claim("N-res")
@given(seed=seeds, N=st.integers(4, 40))
def test_pivots_alone_give_upper_bounds(observe: Observer, seed: int, N: int) -> None:
    """From FᵀF ⪯ K and Tr(K − FᵀF): no part of the mean residual of K is above, at any number of pivots."""
    rng = np.random.default_rng(seed)
    X, lengthscale = rng.standard_normal(N), rng.uniform(0.02, 1.0)
    distance = np.abs(X[:, None] - X) / lengthscale
    K = (1.0 + distance) * np.exp(-distance) * 10.0 ** rng.uniform(-2, 2)
    values, vectors = np.linalg.eigh(K)
    noise, y = 10.0 ** rng.uniform(-3, 1), rng.standard_normal(N)
    r = int(rng.integers(3, N + 1))
    chosen = pivoted(lambda picked, columns: K[picked][:, columns], K.diagonal(), r)
    kept = np.linalg.eigvalsh(chosen.factor @ chosen.factor.T)
    M = int(rng.integers(1, chosen.indices.size - 1))
    rounding = 1e-13 * N * float(values.max())
    exact = kdpp.expected_residual(np.maximum(values, 0.0), M, noise=noise)
    above = streamed_residual(np.maximum(kept, 0.0), float(chosen.traces[-1]), M, noise=noise, rounding=rounding)
    for name in ("trace", "ratio", "omega", "excess", "greatest_weight"):
        observe.upper("N-res", getattr(exact, name), getattr(above, name))
    for a in rng.random(3):
        observe.upper("N-res", exact.omega_above(a), above.omega_above(a))
    v = np.linalg.solve(K + noise * np.eye(N), y)
    columns = int(rng.integers(0, 15))  # also more than N
    basis = np.column_stack([v, rng.standard_normal((N, columns))])
    form = above.form(RitzForm.of(basis, K @ basis, v))
    observe.upper("N-res", exact.quadratic((vectors.T @ y) ** 2), form * (1 + 1e-9))


@pytest.mark.claim("N-res")
@pytest.mark.parametrize("lengthscale", [1.0, 3.0])
def test_beyond_the_numerical_rank(observe: Observer, lengthscale: float) -> None:
    """A smooth kernel whose eigenvalues end at 1e-30: from its rounded ones nothing comes out below the truth."""
    N, noise = 16, 1e-4
    X = np.linspace(0.0, 2.0, N)
    kernel = SquaredExponential(1.0, lengthscale)
    fast = eigen(kernel(X[:, None]), "K")
    exact = mp.matrix(N)
    for i in range(N):
        for j in range(N):
            exact[i, j] = mp.exp(-((mp.mpf(float(X[i])) - mp.mpf(float(X[j]))) ** 2) / (2 * mp.mpf(lengthscale) ** 2))
    rising, basis = mp.eigsy(exact)
    truth = list(rising)[::-1]
    y = np.random.default_rng(1).standard_normal(N)
    squares = [mp.fsum(basis[j, i] * mp.mpf(float(y[j])) for j in range(N)) ** 2 for i in reversed(range(N))]
    rows = DenseRows(kernel, X[:, None], y[:, None])
    numerical_rank = int((fast.values > fast.rounding).sum())
    observe.holds("N-res", numerical_rank < N - 3)
    for M in range(1, N):
        bounds = kdpp.expected_residual(fast.values, M, noise=noise, rounding=fast.rounding)
        missed = reference.miss(truth, M)
        rho = [value * share for value, share in zip(truth, missed, strict=True)]
        observe.upper("N-res", missed, bounds.miss)
        observe.upper("N-res", rho, bounds.rho)
        observe.upper("N-res", mp.fsum(rho), bounds.trace)
        form = mp.fsum(r * s / (v + noise) ** 2 for r, s, v in zip(rho, squares, truth, strict=True))
        observe.upper("N-res", form, rows.quadratic(rows.residual(M, noise)))


@pytest.mark.claim("N-res")
@given(ratio=st.floats(1e-12, 1e6), noise=st.floats(1e-6, 1e6))
def test_the_greatest_weight_is_at_the_root(observe: Observer, ratio: float, noise: float) -> None:
    """max over λ of rλ/((λ + r)(λ + σ²)²), at 2λ² + rλ = rσ², from above and to 2e-12."""
    r, s = mp.mpf(ratio), mp.mpf(noise)
    at = (mp.sqrt(r * r + 8 * r * s) - r) / 4
    truth = r * at / ((at + r) * (at + s) ** 2)
    for other in (at * mp.mpf("1.01"), at * mp.mpf("0.99")):
        assert r * other / ((other + r) * (other + s) ** 2) < truth
    observe.upper("N-res", truth, greatest_weight(ratio, noise))
    observe.holds("N-res", greatest_weight(ratio, noise) <= truth * (1 + mp.mpf("2e-12")))


@pytest.mark.claim("N-res")
@given(ratio=st.floats(1e-4, 1e4), noise=st.floats(1e-3, 1e3), value=st.floats(1e-3, 1e3), left=st.floats(1e-9, 1e3))
def test_what_the_pivots_leave_adds_at_most_the_greatest_slope(
    observe: Observer, ratio: float, noise: float, value: float, left: float
) -> None:
    """b̄ of eigenvalues λ that grow by T in all; the slope of φ is at most min(1/(4σ²), r/σ⁴) + r/(4σ⁴), and 1/σ²."""
    values = np.array([0.0, value])
    r, s, T = mp.mpf(ratio), mp.mpf(noise), mp.mpf(left)

    def phi(x: Any) -> Any:
        return r * x * x / ((x + r) * (x + s) * s)

    bound = StreamedResidual(1, ratio, 1.0, noise, left, values, values).excess
    start = phi(mp.mpf(value))
    for share in (0, mp.mpf("0.5"), 1):
        observe.upper("N-res", phi(mp.mpf(value) + share * T) + phi((1 - share) * T), bound * (1 + 1e-13))
    slope = min(min(1 / (4 * s), r / s**2) + r / (4 * s**2), 1 / s)
    observe.equal("N-res", bound, start + slope * T, rtol=1e-13)
