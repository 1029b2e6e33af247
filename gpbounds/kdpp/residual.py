"""The mean of K − Q itself, not only of its trace, when Z is drawn by a k-DPP: diagonal in the eigenbasis of K."""

from __future__ import annotations

from math import exp, floor, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.kdpp.balls import enclosed_residual
from gpbounds.kdpp.esp import checked, undefined_size
from gpbounds.kdpp.leave_one_out import leave_one_out
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kdpp.tilt import TINY, log_tilt
from gpbounds.linalg import cholesky
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.rigor import rigor_of
from gpbounds.validation import count, finite, non_negative, positive, scalar

LEAST = 1e-300
"""Least probability that is used: doubles hold the probabilities of up to 1e7 coins of which it is the sum."""
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

    The mean residual increases with K: K ⪯ A implies that of K ⪯ that of A.  The proofs are those of N-res.

    The relative error is about 1e-15, whatever the size of the eigenvalues: `gpbounds.kdpp.leave_one_out` adds positive
    numbers only.  A share miss_i below the doubles is 0.  O(N min(N, M)) time.

    Parameters
    ----------
    eigenvalues : array (N,)
        All eigenvalues of K, ≥ 0, in squared units of y, in any order.
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
    values, size, error = checked(eigenvalues), count("M", M, 0), scalar(non_negative, "rounding", rounding)
    variance = None if noise is None else scalar(positive, "noise", noise)
    some = values > 0.0
    if error:
        some = np.zeros(values.size, dtype=bool)
        some[np.argsort(-values, kind="stable")[: values.size if rank is None else count("rank", rank)]] = True
    elif rank is not None:
        raise ValueError(f"rank: expected only with rounding > 0, where zeros are not exact, got {rank!r}")
    most = int(some.sum())
    if size > most:
        raise undefined_size(size, most)
    if rigor_of(rigor) == "sharp":
        return enclosed_residual(values.tolist(), float(error), some, size, variance)
    upper = np.where(some, values + error, 0.0)
    lowest = np.maximum(values - error, 0.0) if error else upper
    return _between(upper, lowest, some, size, variance)


def residual_between(lower: Float, upper: Float, M: int, *, noise: float | None = None) -> ExpectedResidual:
    """As `expected_residual`, for eigenvalues between two arrays; those whose upper bound is 0 are 0.

    >>> exact = expected_residual([3.0, 2.0, 1.0], 1)
    >>> found = residual_between(np.array([3.0, 2.0, 1.0]), np.array([3.0, 2.0, 1.1]), 1)
    >>> bool((found.miss >= exact.miss).all()), bool((found.rho >= exact.rho).all())
    (True, True)
    """
    some = upper > 0.0
    if int(some.sum()) < M:
        raise undefined_size(M, int(some.sum()))
    return _between(upper, lower, some, M, noise)


def _between(upper: Float, lowest: Float, some: Any, size: int, variance: float | None) -> ExpectedResidual:
    rest, ratio = rest_ratios(upper[some], size)
    miss, rho = np.ones(upper.size), np.zeros(upper.size)
    if size == 0:
        return ExpectedResidual(size, upper, lowest, miss, upper.copy(), ratio, variance)
    # both λr/(λ + r) and r/(λ + r) without overflow or underflow on the way
    high, low = upper[some], lowest[some]
    rho[some] = np.minimum(high, rest) / (1.0 + np.minimum(high, rest) / np.maximum(high, rest))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        miss[some] = np.where(low > 0.0, 1.0 / (1.0 + low / rest), 1.0)
    return ExpectedResidual(size, upper, lowest, miss, rho, ratio, variance)


def rest_ratios(values: Float, M: int) -> tuple[Float, float]:
    """r_i = e_M(λ₋ᵢ)/e_{M−1}(λ₋ᵢ) for every i, and r = e_M/e_{M−1}, of eigenvalues > 0.

    A coin i shows heads with probability cλ_i/(1 + cλ_i), and r is P(M heads)/(c P(M − 1 heads)).  With the c of
    `log_tilt` M heads are probable, and M or M − 1 of them without coin i, or with all, have at least the probability
    (λ_{M+1}/λ_M)^½, up to factors of n: coins below 1e-308 add nothing to it, however far the spectrum goes.

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
    ratio = float(np.ldexp(all_above / all_below / factor, shift - power))
    least = min(float(above.min()), float(below.min()), all_above, all_below)
    if not (least >= LEAST and rest.min() >= TINY):
        raise ValueError(
            f"eigenvalues: expected a spectrum whose ratios of symmetric polynomials doubles hold for M = {M}, got "
            f"eigenvalues > 0 from {values.min():.3g} to {values.max():.3g}; rigor='sharp' computes them"
        )
    return rest, ratio


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
    return np.asarray(r * ((KU * KU).sum(axis=0) + r * (U * KU).sum(axis=0)))
