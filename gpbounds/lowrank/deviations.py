"""Upper deviations of the mean of N independent variables in [0, B] (ledger L-41, L-43)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.numerics.log1p import entropy_residual

NEWTON = 24
"""Newton steps of :func:`chernoff`; every iterate is an upper bound, so stopping early is valid."""
STEP = 200.0 * 2.0**-53
"""A Newton step in doubles ends at most this share of its start below the root (N-mercer-rounding)."""


def chebyshev(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """Λ + √(BΛ/(Nδ)): Eq. 20 as printed (L-41); the variance is at most BΛ."""
    return mean + np.sqrt(mean) * np.sqrt(top / (N * delta))


def cantelli(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """Λ + √((B−Λ)Λ(1−δ)/(Nδ)), never above Eq. 20 (L-43).

    Beyond its maximum in Λ it is replaced by B, so it increases in Λ and stays valid if Λ is an upper bound.
    """
    odds = (1.0 - delta) / (N * delta)
    turn = 0.5 * top * (1.0 + 1.0 / np.sqrt(1.0 + odds))
    return np.where(mean < turn, np.minimum(mean + np.sqrt(mean) * np.sqrt((top - mean) * odds), top), top)


def markov(mean: Float, top: Float, delta: Float) -> Any:
    """min(Λ/δ, B)."""
    return np.minimum(mean / delta, top)


def chernoff(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """B·max{q: kl(q‖Λ/B) ≤ log(1/δ)/N}, by Newton's method from above (L-43).

    kl(·‖p) is convex and increasing on [p, 1), and kl(q‖p) ≥ (q−p)²/(2q) gives a first q above the root; Newton's
    method then stays above it.  What rounding may take from the last step that moved is added.
    """
    shape = np.broadcast_shapes(*(np.shape(a) for a in (mean, top, N, delta)))
    p, level = np.broadcast_to(mean / top, shape), np.broadcast_to(-np.log(delta) / N, shape)
    inside = (p > 0.0) & (p < 1.0)
    p = np.maximum(np.where(inside, p, 0.5), 1e-305)  # a larger Λ gives a larger bound; excess/p must not overflow
    reachable = inside & (-np.log(p) > level)
    complement = 1.0 - p
    excess = np.minimum(level + np.sqrt(level * level + 2.0 * p * level), complement * (1.0 - 2.0**-53))
    start = excess
    for _ in range(NEWTON):
        value = p * entropy_residual(excess / p) + complement * entropy_residual(-excess / complement)
        step = np.maximum(value - level, 0.0) / (np.log1p(excess / p) - np.log1p(-excess / complement))
        start = np.where(step > 0.0, excess, start)
        excess = excess - step
    q = np.where(reachable, np.minimum(p + (excess + STEP * start), 1.0), 1.0)
    return top * np.where(np.broadcast_to(mean, shape) > 0.0, q, 0.0)


def mean_above(mean: ArrayLike, top: ArrayLike, N: ArrayLike, delta: ArrayLike) -> Any:
    """A threshold that the mean of N independent variables in [0, B] exceeds with probability at most δ.

    Y_i independent with values in [0, B], E Y_i ≤ Λ:

        P(mean Y > a) ≤ δ,   a = min{Cantelli, Chernoff, Markov}.

    The three thresholds are constants, so the least of them holds with the same δ.  L-43, sharper than Eq. 20 of
    Daskalakis et al. (L-41).  The threshold increases with Λ, so it is valid for an upper bound of Λ.

    Parameters
    ----------
    mean : number(s) in [0, top]
        Λ, or an upper bound of it.
    top : positive number(s)
        B.
    N : whole number(s)
    delta : number(s) in (0, 1)

    Raises
    ------
    ValueError
        for an argument out of range.

    >>> float(np.round(mean_above(0.029, 1.0, 400, 0.01), 4))
    0.0578
    """
    top, N, delta = validation.positive("top", top), validation.whole("N", N), validation.open_unit("delta", delta)
    mean = validation.non_negative("mean", mean)
    if (mean > top).any():
        raise ValueError(f"mean: expected at most top, got {mean.max()} with top {top.min()}")
    return least(mean, top, N, delta)


def least(mean: Float, top: Float, N: Float, delta: Float) -> Any:
    """:func:`mean_above` for checked arguments."""
    above = np.minimum(cantelli(mean, top, N, delta), chernoff(mean, top, N, delta))
    return np.minimum(above, markov(mean, top, delta))
