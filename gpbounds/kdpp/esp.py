"""Elementary symmetric polynomials of a spectrum, without overflow, underflow or cancellation.

With λ sorted downwards and R_j[m] = e_j(λ_1…λ_m) / (λ_1⋯λ_j), the recurrence e_j ← e_j + λ_m e_{j−1} reads

    R_j[m] = R_j[m−1] + (λ_m/λ_j) R_{j−1}[m−1],      1 ≤ R_j[m] ≤ C(m, j),

so no ratio exceeds 1, and a summand that underflows is negligible.  R_j grows fastest for a flat spectrum, by at most
C(m₁, j)/C(m₀, j) between m₀ and m₁.  The eigenvalues are therefore divided into segments over which this factor stays
below 2^900; powers of two are stored apart after each segment.  A segment's table is filled along its longer dimension.
"""

from __future__ import annotations

from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, kind_of_caller
from gpbounds.linalg.psd import computed_eigenvalues
from gpbounds.numerics.search import bisected
from gpbounds.row_noise import OF_EIGENVALUES, one_for_all
from gpbounds.validation import count, within_memory

Exponent = NDArray[np.int64]
_LOG_2 = log(2.0)
_HEADROOM = 900 * _LOG_2


@kind_of_caller
def log_esp(eigenvalues: ArrayLike, k_max: int) -> Float:
    """Logarithms of the elementary symmetric polynomials e_0 … e_kmax of a non-negative spectrum.

    e_j = Σ over all sets of j eigenvalues of their product; a k-DPP of size M has normaliser e_M.  All terms of the
    recurrence are positive, so nothing cancels; eigenvalues from 1e-300 to 1e300 may occur together.  O(N k_max) time,
    O(N) memory; the error of log e_j stays below 1e-12·max(1, |log e_j|) for N = 50 000.

    Ledger: R-lem3 (numerics); every exact k-DPP expectation is computed from it.

    Parameters
    ----------
    eigenvalues : array (N,)
        Finite numbers ≥ 0 up to rounding, in any order.
    k_max : int
        Largest j; may exceed N.

    Returns
    -------
    array (k_max + 1,)
        log e_j; −inf where j exceeds the number of nonzero eigenvalues.

    Raises
    ------
    ValueError
        for a spectrum that is not one-dimensional, empty, negative or not finite, or a ``k_max`` that is not whole.

    >>> np.exp(log_esp([1.0, 2.0, 3.0], 4)).round(12)
    array([ 1.,  6., 11.,  6.,  0.])
    """
    mantissa, exponent = scaled_esp(eigenvalues, k_max)
    result = np.full(mantissa.size, -np.inf)
    nonzero = mantissa > 0
    result[nonzero] = np.log(mantissa[nonzero]) + exponent[nonzero] * _LOG_2
    return result


def scaled_esp(eigenvalues: ArrayLike, k_max: int) -> tuple[Float, Exponent]:
    """e_0 … e_kmax as mantissa·2^exponent, from which ratios have full relative precision; see :func:`log_esp`.

    >>> mantissa, exponent = scaled_esp([1e-200] * 3, 3)
    >>> print(f"{np.ldexp(mantissa[2] / mantissa[1], exponent[2] - exponent[1]):.12e}")  # e_2/e_1 = 3e-400 / 3e-200
    1.000000000000e-200
    """
    k_max = count("k_max", k_max, 0)
    values = descending(checked(eigenvalues))
    k = min(k_max, values.size)
    with within_memory("k_max"):
        mantissa, exponent = np.zeros(k_max + 1), np.zeros(k_max + 1, dtype=np.int64)
    R, shift = _fill(values, k)
    product, power = scaled_cumprod(values[:k])
    mantissa[0], mantissa[1 : k + 1], exponent[1 : k + 1] = 1.0, product, power
    mantissa[: k + 1], extra = np.frexp(mantissa[: k + 1] * R)
    exponent[: k + 1] += shift + extra
    return mantissa, exponent


def undefined_size(M: int, rank: int) -> ValueError:
    """The error that no k-DPP of ``rank`` nonzero eigenvalues has M points."""
    return ValueError(
        f"M: expected at most {rank}, the number of nonzero eigenvalues, got {M}: the k-DPP of that size is undefined"
    )


LARGEST = 1e300
"""Eigenvalues beyond it are refused: sums and products of a few of them are no doubles."""


def checked(eigenvalues: ArrayLike) -> Float:
    """The eigenvalues as a checked array (N,) of finite numbers ≥ 0, by the rule of `computed_eigenvalues`."""
    values = computed_eigenvalues("eigenvalues", eigenvalues)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"eigenvalues: expected shape (N,) with N >= 1, got {values.shape}")
    if not values.max() <= LARGEST:
        raise ValueError(
            f"eigenvalues: expected numbers up to {LARGEST:g}, got {values.max():g}: state kernel and noise in "
            "a smaller unit"
        )
    return values


def descending(values: Float) -> Float:
    """The nonzero entries in decreasing order."""
    return np.sort(values[values > 0])[::-1]


def scaled_cumprod(values: Float) -> tuple[Float, Exponent]:
    """Running products of non-negative numbers as mantissa·2^exponent."""
    mantissa, exponent = np.frexp(values)
    exponent = np.cumsum(exponent, dtype=np.int64)
    for start in range(0, values.size, 512):  # 512 mantissas >= 1/2 cannot underflow
        part = slice(start, start + 512)
        carry = mantissa[start - 1] if start else 1.0
        mantissa[part], extra = np.frexp(carry * np.cumprod(mantissa[part]))
        exponent[part] += extra
        exponent[start + 512 :] += extra[-1]
    return mantissa, exponent


def _fill(values: Float, k: int) -> tuple[Float, Exponent]:
    """R_0 … R_k of all ``values`` (positive, decreasing, k ≤ their number) as mantissa and power of two."""
    R, shift = np.zeros(k + 1), np.zeros(k + 1, dtype=np.int64)
    R[0] = 1.0
    start = 0
    while start < values.size and k > 0:
        stop = _segment_end(start, values.size, k)
        # 2^(shift_{j-1} - shift_j): never above 2k since R_{j-1} <= j R_j; an underflow is a negligible summand
        factor = np.ldexp(1.0, np.diff(-shift))
        fill = _by_rows if stop - start >= min(k, stop) else _by_columns
        fill(values, R, factor, start, stop)
        R, extra = np.frexp(R)
        shift += extra
        start = stop
    return R, shift


def _by_rows(values: Float, R: Float, factor: Float, start: int, stop: int) -> None:
    """For every j one cumulative sum over the segment's eigenvalues; changes ``R`` in place."""
    size = stop - start
    before, after = np.full(size + 1, R[0]), np.empty(size + 1)  # R_{j-1} and R_j before each eigenvalue and at the end
    for j in range(1, min(R.size - 1, stop) + 1):
        first = max(j - 1, start) - start
        after[:first] = 0.0
        term = after[first + 1 :]
        np.divide(values[start + first : stop], values[j - 1], out=term)
        term *= before[first:-1]
        if factor[j - 1] != 1.0:
            term *= factor[j - 1]
        after[first] = R[j]
        np.cumsum(after[first:], out=after[first:])
        R[j] = after[-1]
        before, after = after, before


def _by_columns(values: Float, R: Float, factor: Float, start: int, stop: int) -> None:
    """For every eigenvalue of the segment one vector operation over all j; changes ``R`` in place."""
    for m in range(start, stop):
        top = min(R.size - 1, m + 1)
        term = values[m] / values[:top]
        term *= factor[:top]
        term *= R[:top]
        R[1 : top + 1] += term


def _segment_end(start: int, N: int, k: int) -> int:
    """The largest end of a segment over which no R_j can grow by more than 2^900."""

    def fits(stop: int) -> bool:
        if k <= start:
            return _log_comb(stop, k) - _log_comb(start, k) <= _HEADROOM
        return _log_comb(stop, min(stop - start, k, stop // 2)) <= _HEADROOM

    return bisected(lambda stop: not fits(stop), start + 1, N + 1) - 1


def _log_comb(n: int, j: int) -> float:
    return lgamma(n + 1.0) - lgamma(j + 1.0) - lgamma(n - j + 1.0)


# Independent coins that represent a k-DPP's choice of eigenvectors: odds c·λ_i, and M expected heads.
#
# Given M heads, the set of heads has probability ∝ Π λ_i, for every c.

TINY = float(np.finfo(np.float64).tiny)


def log_tilt(log_values: Float, M: int) -> float:
    """log c with Σ cλ_i/(1 + cλ_i) = M, to 1e-9, for 0 < M < n and n eigenvalues λ > 0 given by their logarithms.

    It is the root of Σ_{i>M} cλ_i/(1 + cλ_i) − Σ_{i≤M} 1/(1 + cλ_i), λ sorted downwards, where nothing cancels: where
    λ_M ≫ λ_{M+1}, c is in the middle between their inverses.

    >>> import numpy as np
    >>> round(log_tilt(np.log([4.0, 1.0, 0.25]), 1), 6)  # c = 0.406: 0.619 + 0.289 + 0.092 = 1
    -0.901044
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    rising = np.sort(log_values)
    rest, first = rising[:-M], rising[-M:]

    def excess(shift: float) -> float:
        heads, tails = float(expit(rest + shift).sum()), float(expit(-(first + shift)).sum())
        return log(max(heads, TINY)) - log(max(tails, TINY))

    level = log(M / rest.size)  # all probabilities would be M/n if all λ were equal
    low, high = level - float(rising[-1]) - 1.0, level - float(rising[0]) + 1.0
    return float(brentq(excess, low, high, xtol=1e-9))


# The tilted k-DPP of a matrix K and a noise variance: P(Z) ∝ |(K(K + σ²I))_ZZ|.


@kind_of_caller
def tilted_eigenvalues(eigenvalues: ArrayLike, *, noise: float) -> Float:
    """μ_i = λ_i(λ_i + σ²): the eigenvalues of K(K + σ²I), whose k-DPP is the tilted law of K.

    P(Z) = |(K(K + σ²I))_ZZ| / e_M(μ).  Draw by ``sample_eigen(λ, vectors, M, rng, weights=tilted_eigenvalues(λ,
    noise=σ²))``: K and K(K + σ²I) share their eigenvectors.  Since |(K(K + σ²I))_ZZ| = |K_ZZ| |Q_Z + σ²I| / (σ²)^{N−M},
    Q_Z = K_fZ K_ZZ⁻¹ K_Zf, it is the k-DPP of K times the determinant of the sparse model (claim N-tilt).

    Parameters
    ----------
    eigenvalues : array (n,)
        λ ≥ 0 up to rounding, in squared units of y.
    noise : float
        σ², in squared units of y.

    Returns
    -------
    array (n,)
        In the fourth power of the units of y.

    Raises
    ------
    ValueError
        if an eigenvalue is negative, the noise is not positive, or a product overflows.

    >>> tilted_eigenvalues([2.0, 1.0, 0.0], noise=0.5)
    array([5. , 1.5, 0. ])
    """
    values, s2 = checked(eigenvalues), one_for_all(noise, OF_EIGENVALUES)
    with np.errstate(over="ignore"):
        tilted: Any = values * (values + s2)
    if not np.isfinite(tilted).all():
        raise ValueError(f"eigenvalues: expected products λ(λ + σ²) below 1.8e308, got λ up to {values.max():.3g}")
    return tilted
