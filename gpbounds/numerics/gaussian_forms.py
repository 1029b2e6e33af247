"""Gaussian quadratic forms c + Σ wᵢ zᵢ², z ~ N(0, I), w ≥ 0, c ≥ 0: moments and quantiles."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Float

MOST = 64
"""The highest moment used: of more than 64 draws the theorems count the first 64; 0.05^(1/64) = 0.954."""


def power_sums(weights: Float, count: int) -> tuple[Float, Float]:
    """(w, s) along the last axis: the greatest weight w, and s_k = Σ (wᵢ/w)^k for k = 1 … count; zeros where w is 0."""
    top = weights.max(axis=-1, initial=0.0)
    share = weights / np.where(top > 0.0, top, 1.0)[..., None]
    return top, np.array([(share**k).sum(axis=-1) for k in range(1, count + 1)])


def moment_ratios(mean: Float, top: Float, sums: Float) -> Float:
    """E Wⁿ/(E W)ⁿ for n = 0 … R, one row each, of W = c + Σ wᵢ zᵢ² with mean E W, greatest weight ``top``.

    ``sums`` holds Σ (wᵢ/top)^k, k = 1 … R, one row each.  With κ_k the cumulants, κ_k = 2^(k−1) (k−1)! Σ wᵢ^k for
    k ≥ 2, the moments obey m_n = Σ_k C(n−1, k−1) κ_k m_(n−k): every term is ≥ 0.  ``mean`` > 0, ``top`` and the rows
    of ``sums`` broadcast.

    >>> moment_ratios(np.array([1.0]), np.array([1.0]), np.ones(3)).ravel()  # (2n − 1)!! of a χ² with one degree
    array([ 1.,  1.,  3., 15.])
    """
    scale, R = top / mean, sums.shape[0]
    shape = np.broadcast_shapes(np.shape(scale), sums.shape[1:])
    moments = np.ones((R + 1, *shape))
    cumulants = np.ones((R + 1, *shape))  # κ_k/(k−1)!/mean^k
    for k in range(2, R + 1):
        cumulants[k] = 2.0 ** (k - 1) * scale**k * sums[k - 1]
    ones = (1,) * len(shape)
    for n in range(2, R + 1):
        ways = np.array([float(math.perm(n - 1, k - 1)) for k in range(1, n + 1)]).reshape(n, *ones)
        moments[n] = (ways * cumulants[1 : n + 1] * moments[n - 1 :: -1]).sum(axis=0)
    return moments


def norm(weights: Float, constant: float, R: int) -> Float:
    """(E (c + Σ wᵢ zᵢ²)^R)^(1/R), for the weights along the last axis.

    >>> norm(np.array([[1.0], [2.0]]), 0.0, 2) ** 2
    array([ 3., 12.])
    """
    mean = constant + weights.sum(axis=-1)
    top, sums = power_sums(weights, R)
    return np.asarray(mean * moment_ratios(np.where(mean > 0.0, mean, 1.0), top, sums)[R] ** (1.0 / R))


def chernoff_quantile(weights: Float, level: float) -> float:
    """q with P(Σ wᵢ zᵢ² > q) ≤ level: min over 0 < λ < 1/(2 max w) of [log(1/level) − ½ Σ log(1 − 2λwᵢ)]/λ.

    Every λ gives a bound; the function returns the least over a grid that is refined twice, within 1e-3 of the best.

    >>> round(chernoff_quantile(np.array([1.0]), 0.05), 1)  # χ² with one degree of freedom: 3.84
    9.2
    """
    top = float(weights.max(initial=0.0))
    if top == 0.0:
        return 0.0
    share = weights[weights > 0.0] / top
    low, high = 0.0, 1.0
    best = math.inf
    for _ in range(3):
        grid = np.linspace(low, high, 19)[1:-1]
        values = (-math.log(level) - 0.5 * np.log1p(-grid[:, None] * share).sum(axis=1)) / (0.5 * grid)
        i = int(values.argmin())
        best = min(best, float(values[i]))
        step = (high - low) / 18
        low, high = max(float(grid[i]) - step, low), min(float(grid[i]) + step, high)
    return top * best
