"""The mean of K − Q itself, not only of its trace, when Z is drawn by a k-DPP: diagonal in the eigenbasis of K."""

from __future__ import annotations

from math import exp, floor, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS, Float, kind_of_caller
from gpbounds.errors import shown
from gpbounds.kdpp.balls import enclosed_residual
from gpbounds.kdpp.esp import TINY, checked, log_tilt, undefined_size
from gpbounds.kdpp.mean_residual import EigenvalueEnds, ExpectedResidual
from gpbounds.linalg import cholesky
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.validation import count, finite, non_negative, positive, rigor_of, scalar

# Laws of sums of independent coins, and of the sums without one coin, from products of positive polynomials.
#
# A coin that shows heads with probability p is the polynomial (1 − p) + p·t.  A product tree multiplies them in pairs.
# On the way down each node receives the product of all coins outside of it; a node of n coins needs only its n + 1
# coefficients M − n … M.  N min(N, M) multiplications each way.

LEAVES = 32
"""Number of coins up to which all nodes of one size are processed together."""


def leave_one_out(tails: Float, heads: Float, M: int) -> tuple[Float, Float, float, float]:
    """P₋ᵢ(M), P₋ᵢ(M − 1) for every coin i, and P(M), P(M − 1): the numbers of heads without coin i, and with all.

    Sums of positive numbers only, so the relative error is a few roundings.

    Parameters
    ----------
    tails, heads : array (n,)
        Probabilities 1 − p_i and p_i, each to full relative precision.
    M : int
        1 ≤ M.

    >>> half = np.full(3, 0.5)
    >>> leave_one_out(half, half, 1)
    (array([0.5, 0.5, 0.5]), array([0.25, 0.25, 0.25]), 0.375, 0.125)
    """
    n = tails.size
    blocks = -(-n // LEAVES)
    leaves = np.zeros((blocks * LEAVES, 2))
    leaves[:, 0] = 1.0  # a coin that never shows heads changes nothing
    leaves[:n, 0], leaves[:n, 1] = tails, heads
    levels = [leaves]
    while levels[-1].shape[0] > blocks:
        levels.append(_multiplied(levels[-1][0::2], levels[-1][1::2]))
    outside = np.zeros((blocks, LEAVES + 1))
    whole = _outside_blocks(levels[-1], M, outside)
    for level in reversed(levels[:-1]):
        outside = _halved(outside, level)
    return outside[:n, 1], outside[:n, 0], _at(whole, M), _at(whole, M - 1)


def _multiplied(left: Float, right: Float) -> Float:
    """Row by row the product of two polynomials of equal length."""
    nodes, size = left.shape
    product = np.zeros((nodes, 2 * size - 1))
    for j in range(size):
        product[:, j : j + size] += left[:, j : j + 1] * right
    return product


def _halved(outside: Float, level: Float) -> Float:
    """From coefficients M − n … M outside each node those M − n/2 … M outside its two halves ``level``."""
    size = level.shape[1]
    result = np.zeros(level.shape)
    for child in (0, 1):
        sibling = level[1 - child :: 2]
        for j in range(size):
            result[child::2] += sibling[:, j : j + 1] * outside[:, size - 1 - j : 2 * size - 1 - j]
    return result


def _outside_blocks(blocks: Float, M: int, outside: Float) -> Float:
    """Fill in the coefficients M − LEAVES … M outside each block; return the product of all blocks up to t^M."""
    products: dict[tuple[int, int], Float] = {}

    def product(first: int, last: int) -> Float:
        """The product of blocks first … last − 1."""
        if last - first == 1:
            polynomial = blocks[first, : M + 1]
        else:
            middle = (first + last) // 2
            polynomial = np.convolve(product(first, middle), product(middle, last))[: M + 1]
        products[first, last] = polynomial
        return polynomial

    def descend(first: int, last: int, window: Float, lowest: int) -> None:
        """``window``: the coefficients from t^lowest to t^M of the product outside blocks first … last − 1."""
        if last - first == 1:
            outside[first, LEAVES + 1 - window.size :] = window
            return
        middle = (first + last) // 2
        for begin, end, sibling in ((first, middle, (middle, last)), (middle, last, (first, middle))):
            start = max(M - (end - begin) * LEAVES, 0)
            descend(begin, end, _windowed(window, lowest, products[sibling], start, M), start)

    whole = product(0, blocks.shape[0])
    alone = np.zeros(M + 1)
    alone[0] = 1.0
    lowest = max(M - blocks.shape[0] * LEAVES, 0)
    descend(0, blocks.shape[0], alone[lowest:], lowest)
    return whole


def _windowed(window: Float, lowest: int, factor: Float, start: int, M: int) -> Float:
    """The coefficients from t^start to t^M of the product of ``factor`` and a polynomial known from t^lowest on."""
    if start - lowest == factor.size - 1:
        return np.convolve(window, factor, "valid")
    return np.convolve(window, factor)[start - lowest : M + 1 - lowest]


def _at(polynomial: Float, power: int) -> float:
    return float(polynomial[power]) if power < polynomial.size else 0.0


# The mean of K − Q itself, not only of its trace, when Z is drawn by a k-DPP: diagonal in the eigenbasis of K.

LEAST = 1e-300
"""Least probability that is accepted: a sum of up to 1e7 terms that large has full precision in spite of underflow."""
_LOG_2 = log(2.0)


def expected_residual(
    eigenvalues: ArrayLike,
    M: int,
    *,
    noise: float | None = None,
    rounding: float = 0.0,
    rank: int | None = None,
    rigor: str = "auto",
) -> ExpectedResidual:
    """The exact mean of K − Q when the M inducing points are a k-DPP sample of the data, in K's eigenbasis.

    E_Z(K − Q_Z) = V diag(ρ) Vᵀ,   ρ_i = λ_i miss_i,   miss_i = e_M(λ₋ᵢ)/e_M(λ) = r_i/(λ_i + r_i),
    r_i = e_M(λ₋ᵢ)/e_{M−1}(λ₋ᵢ) ≤ r = e_M/e_{M−1};   hence E(K − Q) ⪯ rK(K + rI)⁻¹ ⪯ rI, r = E Tr(K − Q)_{M−1}/M.

    Hypotheses: Z ⊂ X, P(Z) ∝ |K_ZZ|, |Z| = M ≤ rank K.  Ledger: N-res.  An equality.  Every functional that is linear
    in K − Q has its exact mean from it: E vᵀ(K − Q)v = Σ ρ_i (Vᵀv)_i².

    The mean residual increases with K: K ⪯ A implies E(K − Q) ⪯ E(A − Q), each with its own k-DPP and Q (N-res).

    The relative error is about 1e-15, whatever the size of the eigenvalues: `gpbounds.kdpp.residual` adds positive
    numbers only; a miss_i below the smallest double becomes 0.  O(N min(N, M)) time.

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0 up to rounding, in squared units of y, in any order.
    M : int
        0 ≤ M ≤ rank.
    noise : float, optional
        σ², for the methods of the result that use K_n = K + σ²I.
    rounding : float
        Bound on the error of each eigenvalue.  The result is then an upper bound: r_i and ρ_i = λ_i r_i/(λ_i + r_i)
        increase with every eigenvalue, and miss_i is computed from the lower end of λ_i.
    rank : int, optional
        With ``rounding``: only the ``rank`` largest eigenvalues may differ from 0, for instance the number of distinct
        inputs; N by default.
    rigor : "auto", "float" or "sharp"
        "sharp": every number of the result and every function of it is an upper bound by construction, the double above
        an Arb ball (``lowest`` the double below).  At N = 1000, M = 200 it takes 0.7 s.

    Raises
    ------
    ValueError
        if M exceeds the number of eigenvalues that may differ from 0, because the k-DPP is then undefined; or, in
        doubles, if λ_{M+1}/λ_M is below 1e-600 or ρ below 1e-307, which rigor="sharp" computes.

    >>> found = expected_residual([3.0, 2.0, 1.0], 1)
    >>> found.miss.round(4), found.rho.round(4), round(found.trace, 4)
    (array([0.5   , 0.6667, 0.8333]), array([1.5   , 1.3333, 0.8333]), 3.6667)
    """
    ends = eigenvalue_ends(eigenvalues, M, noise=noise, rounding=rounding, rank=rank)
    nonzero = ends.eigenvalues > 0.0
    if rigor_of(rigor) == "sharp":
        return enclosed_residual(checked(eigenvalues).tolist(), float(rounding), nonzero, ends.M, ends.noise)
    return _between(ends.eigenvalues, ends.lowest, nonzero, ends.M, ends.noise)


def eigenvalue_ends(
    eigenvalues: ArrayLike, M: int, *, noise: float | None = None, rounding: float = 0.0, rank: int | None = None
) -> EigenvalueEnds:
    """The checked arguments of `expected_residual`, as bounds on the eigenvalues.

    >>> ends = eigenvalue_ends([3.0, 2.0, 0.0], 1, rounding=0.5, rank=2)
    >>> ends.eigenvalues, ends.lowest
    (array([3.5, 2.5, 0. ]), array([2.5, 1.5, 0. ]))
    """
    values, size, error = checked(eigenvalues), count("M", M, 0), scalar(non_negative, "rounding", rounding)
    variance = None if noise is None else scalar(positive, "noise", noise)
    nonzero = values > 0.0
    if error:
        nonzero = np.zeros(values.size, dtype=bool)
        nonzero[np.argsort(-values, kind="stable")[: values.size if rank is None else count("rank", rank)]] = True
    elif rank is not None:
        raise ValueError(f"rank: expected only with rounding > 0, where zeros are not exact, got {shown(rank)}")
    most = int(nonzero.sum())
    if size > most:
        raise undefined_size(size, most)
    upper = np.where(nonzero, values + error, 0.0)
    return EigenvalueEnds(size, upper, np.maximum(values - error, 0.0) if error else upper, variance)


def residual_between(lower: Float, upper: Float, M: int, *, noise: float | None = None) -> ExpectedResidual:
    """As `expected_residual`, for eigenvalues between two arrays; those whose upper bound is 0 are 0.

    >>> exact = expected_residual([3.0, 2.0, 1.0], 1)
    >>> found = residual_between(np.array([3.0, 2.0, 1.0]), np.array([3.0, 2.0, 1.1]), 1)
    >>> bool((found.miss >= exact.miss).all()), bool((found.rho >= exact.rho).all())
    (True, True)
    """
    nonzero = upper > 0.0
    if int(nonzero.sum()) < M:
        raise undefined_size(M, int(nonzero.sum()))
    return _between(upper, lower, nonzero, M, noise)


def _between(upper: Float, lowest: Float, nonzero: Any, size: int, variance: float | None) -> ExpectedResidual:
    rest, ratio = rest_ratios(upper[nonzero], size)
    miss, rho = np.ones(upper.size), np.zeros(upper.size)
    if size == 0:
        return ExpectedResidual(size, upper, lowest, variance, miss, upper.copy(), ratio)
    # both λr/(λ + r) and r/(λ + r) without overflow or underflow on the way
    high, low = upper[nonzero], lowest[nonzero]
    rho[nonzero] = np.minimum(high, rest) / (1.0 + np.minimum(high, rest) / np.maximum(high, rest))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        miss[nonzero] = np.where(low > 0.0, 1.0 / (1.0 + low / rest), 1.0)
    return ExpectedResidual(size, upper, lowest, variance, miss, rho, ratio)


def rest_ratios(values: Float, M: int) -> tuple[Float, float]:
    """r_i = e_M(λ₋ᵢ)/e_{M−1}(λ₋ᵢ) for every i, and r = e_M/e_{M−1}, of eigenvalues > 0.

    Coin i shows heads with probability cλ_i/(1 + cλ_i), and r = P(M heads)/(c P(M − 1 heads)).  Nothing underflows: for
    c from `log_tilt` the probability of M or M − 1 heads, with or without coin i, is at least (λ_{M+1}/λ_M)^½ up to
    factors of n, and coins with probabilities below 1e-308 change none of them, however far the spectrum goes.

    Raises
    ------
    ValueError
        where such a probability is below 1e-300, as for λ_M = 1e308 and λ_{M+1} = 1e-320, or an r_i below 2e-308.
    """
    n = values.size
    if M == 0:
        return np.full(n, np.inf), np.inf
    if M == n:  # every r_i is 0, and 1/r is the sum of the 1/λ_i
        least = float(values.min())
        return np.zeros(n), least / float((least / values).sum())
    mantissa, exponent = np.frexp(values)
    shift = int(exponent.max())
    exponent = exponent - shift
    # c = factor·2^power: one rounding for each of the odds cλ_i, which may be beyond the doubles
    middle = log_tilt(np.log(mantissa) + exponent * _LOG_2, M)
    power = floor(middle / _LOG_2)
    factor = exp(middle - power * _LOG_2)
    with np.errstate(over="ignore", under="ignore"):
        odds = np.ldexp(factor * mantissa, exponent + power)
        most = np.minimum(odds, 2.0**60)  # beyond it heads are 1 to the last digit
        above, below, all_above, all_below = leave_one_out(1.0 / (1.0 + odds), most / (1.0 + most), M)
        rest = np.ldexp(above / below / factor, shift - power)
    with np.errstate(over="ignore"):
        ratio = float(np.ldexp(all_above / all_below / factor, shift - power))
    least = min(float(above.min()), float(below.min()), all_above, all_below)
    if not (least >= LEAST and rest.min() >= TINY):
        raise ValueError(
            f"eigenvalues: expected a spectrum whose ratios of symmetric polynomials doubles hold for M = {M}, got "
            f"eigenvalues > 0 from {values.min():.3g} to {values.max():.3g}; rigor='sharp' computes them"
        )
    return rest, ratio


@kind_of_caller
def loewner(K: ArrayLike, ratio: float, V: ArrayLike) -> Float:
    """vᵀ rK(K + rI)⁻¹ v for every column v of V: an upper bound on E vᵀ(K − Q)v for a k-DPP, without eigenvectors.

    E_Z(K − Q_Z) ⪯ rK(K + rI)⁻¹ with r = e_M/e_{M−1} or an upper bound on it.  Ledger: N-res, hypotheses as
    :func:`expected_residual`.  An equality in the limit of a flat spectrum and large N; up to M times too large where
    eigenvalues fall fast.  One Cholesky factor of K + rI; with u = (K + rI)⁻¹v it is r(|Ku|² + r uᵀKu), a sum of
    positive numbers.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    ratio : float
        r > 0.
    V : array (N,) or (N, P)

    Returns
    -------
    array () or (P,)

    >>> loewner(np.diag([3.0, 1.0]), 1.0, np.array([2.0, 0.0]))  # 4 · 3/(3 + 1)
    array(3.)
    """
    matrix, r = symmetric_matrix("K", K, tolerance=1e-10), scalar(positive, "ratio", ratio)
    columns = finite("V", V)
    if columns.ndim not in (1, 2) or columns.shape[0] != matrix.shape[0]:
        raise ValueError(f"V: expected shape ({matrix.shape[0]},) or ({matrix.shape[0]}, P), got {columns.shape}")
    U = cholesky(matrix + r * np.eye(matrix.shape[0]), name="K + rI").solve(columns)
    KU = matrix @ U
    with np.errstate(over="ignore"):
        return np.asarray(r * ((KU * KU).sum(axis=0) + r * (U * KU).sum(axis=0)))


# The mean residual of inducing points drawn uniformly from the data.


@kind_of_caller
def uniform_residual(eigenvalues: ArrayLike, M: int, *, variance: float) -> Float:
    """Upper bound on the mean residual of M of N points drawn uniformly without replacement: E (K − Q) ⪯ (K⁻¹ + cI)⁻¹.

    ρ_i = λ_i/(1 + cλ_i), c = Σ_{k<M} 1/((N − k)·max K_ii).  Claim N-unif.  Skipping rows equal to one
    drawn amounts to drawing more rows, so the bound remains valid.  It is several to thousands of times the mean of a
    k-DPP.

    Parameters
    ----------
    eigenvalues : array (N,)
        All N eigenvalues of K, ≥ 0 up to rounding, zeros included, in squared units of y, or upper bounds of them.
    M : int
        0 ≤ M ≤ N.
    variance : float
        max K_ii, or an upper bound of it.

    Returns
    -------
    array (N,)
        ρ in the order of ``eigenvalues``; its sum bounds E Tr(K − Q).  Rounded upwards.

    Raises
    ------
    ValueError
        if M exceeds N, or a number is out of range.

    >>> uniform_residual([2.0, 1.0, 0.0], 1, variance=1.5).round(6)  # c = 1/4.5
    array([1.384615, 0.818182, 0.      ])
    """
    values, M = checked(eigenvalues), count("M", M, 0)
    if values.size < M:
        raise ValueError(f"M: expected at most N = {values.size} points, one for each eigenvalue, got {M}")
    c = float((1.0 / (values.size - np.arange(M))).sum()) / float(scalar(positive, "variance", variance))
    c *= 1.0 - (M + 4.0) * EPS
    return values / (1.0 + c * values) * (1.0 + 4.0 * EPS)


# The derivatives of the mean of Tr(K − Q) under a k-DPP in the eigenvalues of K.


def trace_slopes(eigenvalues: Float, M: int) -> tuple[Float, float]:
    """(g_i = ∂R/∂b_i, g0) for R = (M+1) e_{M+1}/e_M at b: (M+1) miss_i²(1 − r_i^(M+1)/r_i^(M)), rounded upwards.

    r_i^(m) = e_m/e_{m−1} of the others; miss_i = r_i/(b_i + r_i).

    >>> slopes, zero = trace_slopes(np.array([2.0, 1.0, 1.0]), 1)  # R = 2 e_2/e_1 = 2·5/4
    >>> slopes.round(4), round(zero, 4)
    (array([0.375, 0.875, 0.875]), 1.375)
    """
    values = validation.positive("eigenvalues", eigenvalues)
    rest, ratio = rest_ratios(values, M)
    rest_more, ratio_more = rest_ratios(values, M + 1)
    miss = 1.0 / (1.0 + values / rest)
    # 1e-13: rounding of the ratios, of which 1 is subtracted
    slopes = (M + 1.0) * miss**2 * (np.maximum(1.0 - rest_more / rest, 0.0) + 1e-13)
    zero = min((M + 1.0) * (1.0 - ratio_more / ratio + 1e-13), M + 1.0)  # r_M = τ_{M−1}/M
    return np.minimum(slopes, zero), zero
