"""log p(y) and the gap with all rounding proved, at noise down to 1e-27, against 100 digits (N-exact, N-nystrom)."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.kernels import Constant, Kernel, Linear, Periodic
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.linalg import pair_solve
from gpbounds.linalg.pair_cholesky import PairFactor, pair_cholesky, residual
from gpbounds.numerics.pairs import Pair
from gpbounds.reference import evidence as reference
from gpbounds.reference import spectra
from gpbounds.renyi import evidence, gap, pairs
from gpbounds.rigor import above, at_bits, below

seeds = st.integers(0, 2**32 - 1)
DIGITS = 100


def exact(number: Any) -> Any:
    return mp.mpf(float(number))


def drawn(seed: int) -> tuple[Kernel, np.ndarray, np.ndarray, float]:
    """Kernels whose K has eigenvalues down to 1e-60, rows of which some are equal or close, y smooth or rough, σ²."""
    rng = np.random.default_rng(seed)
    N, D, P = int(rng.integers(1, 9)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-2.0, 1.0)
    if N > 4 and rng.integers(2):
        X[1], X[3] = X[0], X[2] * (1.0 + 1e-9)
    scale, v = 10.0 ** rng.uniform(-1.0, 1.5), 10.0 ** rng.choice([0.0, rng.uniform(-290.0, 290.0)])
    choices: list[Kernel] = [
        SquaredExponential(v, scale),
        Matern(float(rng.integers(4)) + 0.5, v, scale),
        Constant(v) + SquaredExponential(v, scale) * Matern(1.5, 0.5, scale),
    ]
    Y = np.sin(X[:, :1] / scale + np.arange(P)) + rng.choice([0.0, 1e-6, 1.0]) * rng.standard_normal((N, P))
    Y *= np.sqrt(v) * rng.choice([0.0, 1.0, 1e-9], p=[0.1, 0.7, 0.2])
    kernel, least = choices[int(rng.integers(3))], 1e-300
    return kernel, X, Y, max(float(v * 10.0 ** rng.uniform(-28.0, 2.0)), least)


def matrix(kernel: Kernel, X: np.ndarray, Z: np.ndarray | None = None) -> Any:
    plain = kernel_to_plain(kernel)
    if Z is None:
        return spectra.gram(plain, X.tolist())
    both = spectra.gram(plain, [*X.tolist(), *Z.tolist()])
    return both[: len(X), len(X) :].T


def evidences(kernel: Kernel, X: np.ndarray, Y: np.ndarray, noise: float) -> Any:
    """Σ_p log N(y_p; 0, K + σ²I) in 100 digits."""
    return reference.log_evidence(matrix(kernel, X), mp.matrix(Y.tolist()), exact(noise))


@pytest.mark.claim("N-exact")
@example(seed=97427)  # v about 1e-288
@given(seed=seeds)
def test_the_exact_evidence_is_enclosed(observe: Observer, seed: int) -> None:
    """The ball contains log p(y), and is narrow; where it is refused, the noise that the error names is accepted."""
    kernel, X, Y, noise = drawn(seed)
    try:
        lower, upper = evidence(kernel, X, Y, None, noise=noise, rigor="sharp")
    except ValueError as error:
        assert noise < 1e-26 * len(X) * kernel.max_variance
        noise = 2.0 * float(str(error).split("at least ")[1].split(",")[0])
        lower, upper = evidence(kernel, X, Y, None, noise=noise, rigor="sharp")
    assert lower.certified
    assert upper.certified
    with mp.workdps(DIGITS):
        truth = evidences(kernel, X, Y, noise)
        observe.lower("N-exact", truth, exact(lower))
        observe.upper("N-exact", truth, exact(upper))
        density = len(X) * mp.log(2 * mp.pi) * Y.shape[1] + 2 * abs(truth) + 1e3
        wide = exact(1e-28 * kernel.max_variance / noise) * len(X) ** 2 + mp.mpf("1e-14")
        assert exact(upper) - exact(lower) <= wide * density * (
            1 + mp.sqrt(kernel.max_variance / noise) * mp.mpf("1e-14")
        )


@pytest.mark.claim("N-nystrom", "N-exact-gap")
@example(seed=536)
@given(seed=seeds)
def test_bounds_from_inducing_points_enclose_the_evidence(observe: Observer, seed: int) -> None:
    """Points among the rows and others, and rows twice; "elbo 1" is also below L_VI of the exact Q, so gaps are not
    below the exact ones."""
    kernel, X, Y, noise = drawn(seed)
    X, Y = X[:6], Y[:6]
    rng, M = np.random.default_rng(seed + 1), int(np.random.default_rng(seed).integers(1, 6))
    noise = max(noise, 1e-22 * kernel.max_variance)
    Z = np.concatenate([X[: M // 2 + 1], X[:1] + rng.standard_normal((M - M // 2, X.shape[1]))])
    try:
        lower, upper = evidence(kernel, X, Y, Z, noise=noise, rigor="sharp", members="cheap")
    except ValueError as error:
        assert str(error).startswith("noise: expected σ² of at least")  # noqa: PT017
        return
    with mp.workdps(DIGITS):
        truth = evidences(kernel, X, Y, noise)
        for name in ("elbo 1", "determinant"):
            observe.lower("N-nystrom", truth, exact(lower.terms[name]))
        for name in ("trace", "determinant"):
            observe.upper("N-nystrom", truth, exact(upper.terms[name]))
        distinct = np.unique(Z, axis=0)
        Kff, Kuf, Kuu = matrix(kernel, X), matrix(kernel, X, distinct), matrix(kernel, distinct)
        alpha = 1.0 if seed % 5 else 0.3
        elbo = reference.elbo(Kff, Kuf, Kuu, mp.matrix(Y.tolist()), exact(noise), exact(alpha))
        if alpha == 1.0:
            observe.lower("N-nystrom", elbo, exact(lower.terms["elbo 1"]))
        low, high = gap(kernel, X, Y, Z, alpha, noise=noise, rigor="sharp")
        observe.upper("N-nystrom", truth - elbo, exact(high))
        observe.lower("N-exact-gap", max(truth - elbo, mp.mpf(0)), exact(low))  # 0 up to the rounding of mpmath


@pytest.mark.claim("N-exact-gap")
@given(
    seed=seeds,
    noise=st.sampled_from([1e-12, 1e-8, 1e-4, 0.1]),
    jitter=st.sampled_from([0.0, 1e-15, 1e-12, 1e-6]),
    alpha=st.sampled_from([1.0, 1.0, 0.3, 0.8]),
)
def test_gaps_with_clustered_inducing_points(
    observe: Observer, seed: int, noise: float, jitter: float, alpha: float
) -> None:
    """Seven free points within .3 or .003 lengthscales, cond(Kuu) to 1e35: both ends, which meet at a jitter."""
    rng = np.random.default_rng(seed)
    kernel: Kernel = SquaredExponential(1.0, 1.3) if seed % 4 else Periodic(9.0) + Linear(0.5)
    shift = float(rng.choice([0.0, 1.7e9]))
    X, Z = rng.standard_normal((9, 1)) + shift, rng.choice([0.3, 0.003]) * rng.standard_normal((7, 1)) + shift
    y = np.sin(2.0 * (X - shift)) + np.sqrt(noise) * rng.standard_normal((9, 1))
    if noise < 1e-8 and seed % 4 == 0 and shift:
        noise = 1e-8  # the linear kernel has a variance of 1e18 there
    lower, upper = gap(kernel, X, y, Z, alpha, noise=noise, jitter=jitter, rigor="sharp")
    with mp.workdps(DIGITS):
        Kff, Kuf, Kuu = matrix(kernel, X), matrix(kernel, X, Z), matrix(kernel, Z) + exact(jitter) * mp.eye(7)
        elbo = reference.elbo(Kff, Kuf, Kuu, mp.matrix(y.tolist()), exact(noise), exact(alpha))
        truth = evidences(kernel, X, y, noise) - elbo
        observe.lower("N-exact-gap", truth, exact(lower))
        observe.upper("N-exact-gap", truth, exact(upper))
        if jitter >= 1e-12 and noise >= 1e-8 and seed % 4:
            assert float(upper) - float(lower) <= 1e-6 * float(truth)
    if jitter == 0.0 and any("left out" in text for text in lower.assumptions):
        assert float(lower) == 0.0


@pytest.mark.claim("N-nystrom")
@given(seed=seeds, worse=st.sampled_from([1e-14, 1e-8, 1e-3]))
def test_wrong_factors_give_bounds_as_well(observe: Observer, seed: int, worse: float) -> None:
    """L, F, a and w off by a share ``worse``."""
    kernel, X, Y, noise = drawn(seed)
    noise = max(noise, 1e-3 * kernel.max_variance, min(1.0, 1e4 * worse) * kernel.max_variance)
    rng, solve = np.random.default_rng(seed), pair_solve.solve_lower

    def off(L: Pair, B: Pair) -> Pair:
        high, low = solve(L, B)
        return high * (1.0 + worse * rng.standard_normal(high.shape)), low

    def factor(block: Any, N: int, name: str = "matrix", negligible: float = 0.0) -> PairFactor:
        right = pair_cholesky(block, N, name, negligible)
        L = right.L[0] * (1.0 + worse * rng.standard_normal(right.L[0].shape)), right.L[1]
        return PairFactor(L, right.pivots, residual(block, L))

    with pytest.MonkeyPatch.context() as patch:
        for module in (pairs, pair_solve):
            patch.setattr(module, "solve_lower", off)
        patch.setattr(pairs, "pair_cholesky", factor)
        try:
            lower, upper = evidence(kernel, X, Y, X[::2], noise=noise, rigor="sharp", members="all")
        except ValueError as error:
            assert str(error).startswith("noise: expected σ² of at least")  # noqa: PT017
            return
    with mp.workdps(DIGITS):
        truth = evidences(kernel, X, Y, noise)
        for name in ("exact", "elbo 1", "determinant"):
            observe.lower("N-nystrom", truth, exact(lower.terms[name]))
        for name in ("exact", "trace", "determinant"):
            observe.upper("N-nystrom", truth, exact(upper.terms[name]))


@pytest.mark.claim("N-exact")
@pytest.mark.parametrize("N", [4, 9, 14])
def test_hilbert_matrices(observe: Observer, N: int) -> None:
    """log|A| and yᵀA⁻¹y, condition numbers up to 1e19; entries are pairs."""
    with mp.workdps(DIGITS):
        whole = [[mp.mpf(1) / (i + j + 1) for j in range(N)] for i in range(N)]
        high = np.array([[float(entry) for entry in row] for row in whole])
        low = np.array([[float(entry - mp.mpf(float(entry))) for entry in row] for row in whole])
        A = mp.matrix(whole)
        least = float(mp.eigsy(A, eigvals_only=True)[0] * mp.mpf("0.999"))
        Y = np.random.default_rng(N).standard_normal((N, 2))
        factor = pair_cholesky(lambda rows, columns: (high[rows, columns], low[rows, columns]), N)
        known = {"least": least, "further": N * 2.0**-106}
        with at_bits(192):
            volume = pair_solve.log_det(factor, **known)
            forms = pair_solve.quadratic(factor, (Y, np.zeros_like(Y)), **known)
            ends = [(below(ball), above(ball)) for ball in (volume, *forms)]
        solved = [mp.lu_solve(A, mp.matrix(Y[:, p].tolist())) for p in range(2)]
        truths = [mp.log(mp.det(A))] + [
            mp.fsum(exact(y) * x for y, x in zip(Y[:, p], solved[p], strict=True)) for p in range(2)
        ]
        for truth, (lowest, highest) in zip(truths, ends, strict=True):
            observe.lower("N-exact", truth, exact(lowest))
            observe.upper("N-exact", truth, exact(highest))
            assert exact(highest) - exact(lowest) <= abs(truth) * exact(1e-30 * N**2 / least) + mp.mpf("1e-13") * abs(
                truth
            )
