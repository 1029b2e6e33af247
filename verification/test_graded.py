"""Eigenvalues of k(X, X) enclosed far below N·eps·λ_max, and bounds from them, against 100 digits (N-graded)."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Empirical, Matern, SquaredExponential, inducing_points, rate
from gpbounds.kernels import Kernel, Linear, Polynomial
from gpbounds.kernels.pairs import pair_covariances, pair_error
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.linalg import pair_eigen
from gpbounds.linalg.pair_cholesky import PairFactor, pair_cholesky, residual
from gpbounds.linalg.pair_eigen import enclosed_values
from gpbounds.reference import kdpp
from gpbounds.reference import spectra as reference
from gpbounds.spectra import spectrum
from gpbounds.spectra.pairs import EnclosedSpectrum

seeds = st.integers(0, 2**32 - 1)
DIGITS = 100


def drawn(seed: int) -> tuple[Kernel, np.ndarray]:
    """Rows some of which are equal or within 1e-6, and kernels whose K has eigenvalues down to 1e-60."""
    rng = np.random.default_rng(seed)
    N, D = int(rng.integers(2, 9)), int(rng.integers(1, 3))
    X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-2.0, 1.0)
    if N > 4:
        X[1], X[3] = X[0], X[2] + 1e-6
    scale = 10.0 ** rng.uniform(-1.0, 1.0)
    kernels: list[Kernel] = [
        SquaredExponential(2.0, scale),
        Matern(float(rng.integers(4)) + 0.5, 0.5, scale),
        SquaredExponential(1.0, scale) + Matern(2.5, 1e-8, scale),
    ]
    return kernels[int(rng.integers(3))], X


def eigenvalues(kernel: Kernel, X: np.ndarray) -> list[Any]:
    """Decreasing; those below 1e-80 are 0."""
    values = mp.eigsy(reference.gram(kernel_to_plain(kernel), X.tolist()), eigvals_only=True)
    return sorted((value if value > mp.mpf(10) ** -80 else mp.mpf(0) for value in values), reverse=True)


@pytest.mark.claim("N-graded")
@given(seed=seeds)
def test_every_eigenvalue_is_enclosed(observe: Observer, seed: int) -> None:
    """And the mean trace of ``rate(..., rigor="sharp")``; both close, down to 1e-27 of the largest."""
    kernel, X = drawn(seed)
    N = len(X)
    enclosure = spectrum(kernel, inputs=Empirical(X), rigor="sharp")
    assert isinstance(enclosure, EnclosedSpectrum)
    upper, lower = enclosure.upper_eigenvalues(), enclosure.lower_eigenvalues()
    assert (np.diff(upper) <= 0.0).all()
    with mp.workdps(DIGITS):
        truth = eigenvalues(kernel, X)
        for value, above, below in zip(truth, upper, lower, strict=True):
            observe.upper("N-graded", value, N * mp.mpf(float(above)))
            observe.lower("N-graded", value, N * mp.mpf(float(below)))
            assert N * mp.mpf(float(above)) <= value * (1 + mp.mpf("1e-11")) + mp.mpf("1e-27") * truth[0]
        for M in range(1, min(enclosure.rank, N - 1) + 1):
            if not truth[M - 1]:
                break
            bound = rate(kernel, N, M, 1.0, inputs=Empirical(X), noise=0.1, rigor="sharp")
            mean, trace = kdpp.expected_trace(truth, M), mp.mpf(float(bound.terms["expected_trace"]))
            observe.upper("N-graded", mean, trace)
            assert trace <= mean * (1 + mp.mpf("1e-9")) + mp.mpf("1e-25") * (M + 1) * N * truth[0]
            assert bound.certified
            assert "N-graded" in bound.claim


@pytest.mark.claim("N-graded")
@given(seed=seeds)
def test_eigenvalues_at_the_ends_of_double_precision(observe: Observer, seed: int) -> None:
    """Variances and lengthscales from 1e-300 to 1e300, up to 50 dimensions, one row, equal rows, single precision."""
    rng = np.random.default_rng(seed)
    N, D = int(rng.integers(1, 6)), int(rng.choice([1, 3, 50]))
    widest = 35.0 if seed % 2 else 300.0
    size, v = 10.0 ** rng.uniform(-widest, widest), 10.0 ** rng.uniform(-300.0, 300.0, 2)
    X = rng.standard_normal((N, D)) * size
    if N > 2:
        X[1], X[2] = X[0], X[0] * (1.0 + 1e-13)
    if seed % 2:
        X = X.astype(np.float32)
    scale = float(np.clip(size * np.sqrt(D) * 10.0 ** rng.uniform(-1.0, 2.0), 1e-305, 1e305))
    first, second = SquaredExponential(v[0], scale), Matern(1.5, v[1], scale)
    kernel = [first, second, first + second, first * Matern(0.5, 1.0 / v[0], scale), first.on([0])][seed % 5]
    enclosure = spectrum(kernel, inputs=Empirical(X), rigor="sharp")
    assert isinstance(enclosure, EnclosedSpectrum)
    with mp.workdps(DIGITS):
        top = mp.mpf(kernel.max_variance)
        K = reference.gram(kernel_to_plain(kernel), X.astype(np.float64).tolist()) / top
        truth = sorted((top * value for value in mp.eigsy(K, eigvals_only=True)), reverse=True)
        ends = zip(truth, enclosure.upper_eigenvalues(), enclosure.lower_eigenvalues(), strict=True)
        for value, above, below in ends:
            observe.upper("N-graded", value, N * mp.mpf(float(above)), tol=top * mp.mpf(10) ** -80)
            observe.lower("N-graded", value, N * mp.mpf(float(below)), tol=top * mp.mpf(10) ** -80)


def test_tv_counts_the_variance_of_rows_in_single_precision() -> None:
    """(N − M)·v·tv with v = 0.7, which single precision rounds down, and 0.1, which it rounds up."""
    X = np.arange(3, dtype=np.float32)[:, None]
    for v in (0.7, 0.1):
        options: dict[str, Any] = {"inputs": Empirical(X), "noise": 1.0, "rigor": "sharp"}
        without, added = (rate(SquaredExponential(v), 3, 1, 1.0, tv=tv, **options).terms for tv in (0.0, 1.0))
        assert added["expected_trace"] >= without["expected_trace"] + 2.0 * v


@pytest.mark.claim("N-graded")
@given(seed=seeds, worse=st.sampled_from([1e-12, 1e-6, 1e-2]))
def test_wrong_decompositions_are_enclosed_as_well(observe: Observer, seed: int, worse: float) -> None:
    """Factors off by a share ``worse``, and right singular vectors off by as much, which are not orthogonal."""
    kernel, X = drawn(seed)
    rng, N = np.random.default_rng(seed), len(X)
    K = pair_covariances(kernel, X, X)
    block = lambda rows, columns: (K[0][rows, columns], K[1][rows, columns])  # noqa: E731
    right = pair_cholesky(block, N)
    L = right.L[0] * (1.0 + worse * rng.standard_normal(right.L[0].shape)), right.L[1]
    vectors = pair_eigen._right_vectors

    def off(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, V = vectors(A)
        return values, V + worse * rng.standard_normal(V.shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_eigen, "_right_vectors", off)
        enclosure = enclosed_values(PairFactor(L, right.pivots, residual(block, L)), further=N * pair_error(kernel, X))
    with mp.workdps(DIGITS):
        for value, above, below in zip(eigenvalues(kernel, X), enclosure.upper, enclosure.lower, strict=True):
            observe.upper("N-graded", value, mp.mpf(float(above)))
            observe.lower("N-graded", value, mp.mpf(float(below)))


@pytest.mark.claim("N-graded")
@given(seed=seeds)
def test_the_distance_of_a_factor_is_bounded(observe: Observer, seed: int) -> None:
    """For computed factors, for factors that lack columns, and for the factor 0."""
    kernel, X = drawn(seed)
    rng, N = np.random.default_rng(seed), len(X)
    K = pair_covariances(kernel, X, X)
    block = lambda rows, columns: (K[0][rows, columns], K[1][rows, columns])  # noqa: E731
    whole = pair_cholesky(block, N).L
    kept = int(rng.integers(0, whole[0].shape[1] + 1))
    L = whole[0][:, :kept], whole[1][:, :kept]
    with mp.workdps(DIGITS):
        sums = [
            [mp.mpf(float(a)) + mp.mpf(float(b)) for a, b in zip(*rows, strict=True)] for rows in zip(*L, strict=True)
        ]
        apart = mp.mpf(0)
        for i, j in np.ndindex(N, N):
            entry = mp.mpf(float(K[0][i, j])) + mp.mpf(float(K[1][i, j]))
            apart += (entry - mp.fsum(a * b for a, b in zip(sums[i], sums[j], strict=True))) ** 2
        bound = residual(block, L)
        observe.upper("N-graded", mp.sqrt(apart), mp.mpf(bound))
        assert bound <= mp.sqrt(apart) * (1 + mp.mpf("1e-7")) + mp.mpf("1e-28") * N * K[0][0, 0]


def test_a_plan_no_longer_stops_at_the_rounding_of_double_precision() -> None:
    """400 rows: the target 1e-6 needs 21 points; N·eps·λ_max in each eigenvalue asks for 197."""
    X = np.random.default_rng(0).standard_normal((400, 1))
    options: dict[str, Any] = {"target": 1e-6, "inputs": Empirical(X), "noise": 0.1}
    usual, proved = (
        inducing_points(SquaredExponential(), 400, 1.0, rigor=flag, **options) for flag in ("float", "sharp")
    )
    assert proved.M is not None
    assert usual.M is not None
    assert proved.M < 30 < 150 < usual.M
    assert usual.needed <= proved.needed <= proved.M
    assert float(proved.bound) <= 1e-6 < float(proved.bound_before)


def test_kernels_without_30_digits_are_refused() -> None:
    X = np.zeros((3, 1))
    with pytest.raises(
        ValueError, match=r"kernel: expected squared exponential, periodic, constant, linear or polynomial kernels"
    ):
        rate(Matern(0.7), 3, 1, 1.0, inputs=Empirical(X), rigor="sharp")
    with pytest.raises(ValueError, match="rigor: expected at most 8192 rows"):
        rate(Matern(0.5), 8193, 1, 1.0, inputs=Empirical(np.zeros((8193, 1))), rigor="sharp")


def test_a_rate_of_inner_products_is_that_of_doubles() -> None:
    """k(x, x) has no largest value; that of the rows counts."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    for kernel in (Polynomial(2), SquaredExponential() + Linear()):
        proved, usual = (
            float(rate(kernel, 40, 4, 0.1, inputs=Empirical(X), rigor=rigor)) for rigor in ("sharp", "float")
        )
        assert usual * (1.0 - 1e-6) <= proved <= usual
