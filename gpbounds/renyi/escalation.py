"""``rigor="auto"``: 30 digits where the rounding of doubles, and not a theorem, makes an interval wide."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gpbounds.arrays import Array, host, is_cupy, length, namespace
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import Exact
from gpbounds.exact import exact as exact_gp
from gpbounds.interval import Interval, Member, interval, possible
from gpbounds.kernels import Kernel
from gpbounds.renyi.accuracy import UNPROVED, U, errors_of_entries, gamma
from gpbounds.renyi.blocks import absolute_products
from gpbounds.renyi.pairs import enclosed_evidence
from gpbounds.renyi.streamed import lengths
from gpbounds.rigor import AFFORDABLE
from gpbounds.rows import is_elsewhere

# log p(y) from a Cholesky factor of K + σ²I in double precision, between proved ends (N-computed).

QUANTITY = "log p(y)"
_GAUSSIAN_PROCESS = "The model of y is the Gaussian process with this kernel and this noise variance."


def computed_evidence(kernel: Kernel, X: Array, Y: Array, *, noise: float, model: Exact | None = None) -> Interval:
    """log N(y; 0, K + σ²I), summed over the columns of Y (N, P), with a bound on all rounding: O(N³).

    Claim N-computed.  Proof.  The computed factor has LLᵀ = K_n + E, ‖E‖_F ≤ ε = γ_(N+4)Tr(LLᵀ) + Nκ, κ the error of an
    entry of K, and K_n ⪰ σ²I: so |log|LLᵀ| − log|K_n|| ≤ √N ε/(σ² − ε).  For v = (LLᵀ)⁻¹y as computed, and r = y −
    K_n v,
    yᵀK_n⁻¹y = vᵀ(y + r) + rᵀK_n⁻¹r, and 0 ≤ rᵀK_n⁻¹r ≤ |r|²/σ² (N-quad).  QED

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    Y : array (N, P)
    noise : float
    model : Exact, optional
        The exact GP of these data, if it is known already.

    Raises
    ------
    NotPositiveDefinite
        if K + σ²I does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> pair = computed_evidence(SquaredExponential(), X, Y, noise=0.1)
    >>> round(float(pair.lower), 4), pair.width < 1e-11, pair.upper.certified
    (-3.2002, True, True)
    """
    fit = exact_gp(kernel, X, Y, noise=noise) if model is None else model
    (N, P), xp, v = Y.shape, namespace(Y), fit.weights
    entry, proved = errors_of_entries(kernel, X, X)
    product, off = absolute_products(kernel, X, v, entry, noise=noise)
    r = Y - product
    base = float(host((v * (2.0 * Y - product)).sum()))
    sizes = xp.abs(v) * (off + gamma(N + P + 6) * (2.0 * xp.abs(Y) + xp.abs(product)))
    error, rest = 1.01 * float(sizes.sum()), float(((lengths(r) + lengths(off + U * xp.abs(r))) ** 2).sum())
    rest *= 1.01 / noise
    diagonal = np.abs(np.asarray(host(xp.diagonal(fit.chol.L))))
    trace = 1.01 * float(np.asarray(host(kernel.diag(X))).sum() + N * noise)
    moved = 1.01 * (gamma(N + 4) * trace + N * entry)
    logs = 2.0 * gamma(64) * float(np.abs(np.log(diagonal)).sum()) + 8.0 * U * N * (2.0 + abs(math.log(noise)))
    in_log = math.sqrt(N) * moved / (noise - moved) + logs if moved < 0.5 * noise else math.inf
    constant = N * math.log(2.0 * math.pi)
    value = -0.5 * (P * (constant + fit.chol.logdet) + base)
    own = 16.0 * U * (P * (constant + abs(fit.chol.logdet)) + abs(base))
    below = Member(value, 0.5 * (P * in_log + error + rest) + own, "R-gp", proved)
    above = Member(value, 0.5 * (P * in_log + error) + own, "R-gp", proved)
    assumptions = (_GAUSSIAN_PROCESS,) if proved else (_GAUSSIAN_PROCESS, UNPROVED)
    return interval(QUANTITY, {"exact": below}, {"exact": above}, assumptions=assumptions)


# ``rigor="auto"``: 30 digits where the rounding of doubles, and not a theorem, makes an interval wide.

_SPOILT = 0.01
"""Nats of rounding that ``rigor="auto"`` always accepts."""


def spoilt(pair: Interval) -> bool:
    """Whether the errors of evaluation in doubles, and not the theorems, make an interval wide."""
    rounding = max(float(end.terms["rounding"]) for end in pair)
    return not (rounding < math.inf and rounding <= max(_SPOILT, 0.05 * pair.width))


def thirty_digits(kernel: Kernel, X: Any, y: Any, noise: float) -> Interval | None:
    """log p(y) to 30 digits (N-exact), or None: above `AFFORDABLE` rows, and for kernels or noise that it refuses."""
    if is_elsewhere(X) or is_cupy(X) or not 0 < length(X) <= AFFORDABLE:
        return None
    try:
        return possible(enclosed_evidence(kernel, X, y, None, noise=noise, members="exact"))
    except (ValueError, ArithmeticError, ImportError):  # a kernel without 30 digits, or noise below them
        return None


def whole_evidence(kernel: Kernel, X: Array, Y: Array, *, noise: float) -> Interval:
    """Lower and upper bound on log p(y) of Y (N, P), rounding included; in 30 digits where doubles are too coarse.

    An end that neither can bound is infinite.  Arguments and errors as `computed_evidence`.
    """
    try:
        pair = computed_evidence(kernel, X, Y, noise=noise)
    except NotPositiveDefinite:
        exact = thirty_digits(kernel, X, Y, noise)
        if exact is None:
            raise
        return exact
    exact = thirty_digits(kernel, X, Y, noise) if spoilt(pair) else None
    return pair if exact is None else sharper(pair, exact)


def sharper(pair: Interval, other: Interval) -> Interval:
    """The intersection of two intervals for one number, with the terms of both."""

    def chosen(one: Bound, two: Bound, better: bool) -> Bound:
        best, terms = (two if better else one), {**one.terms, **two.terms}
        return replace(best, terms=terms | {"rounding": best.terms.get("rounding", 0.0)})

    return possible(
        (
            chosen(pair.lower, other.lower, float(other.lower) > float(pair.lower)),
            chosen(pair.upper, other.upper, float(other.upper) < float(pair.upper)),
        )
    )


def decided(pair: Interval, noise: float) -> Interval:
    """``pair`` if both ends are finite; otherwise σ² is too small for doubles, which is an error."""
    if np.isfinite(float(pair.lower)) and np.isfinite(float(pair.upper)):
        return pair
    raise ValueError(
        f"noise: expected σ² above the rounding error of K, where doubles decide log p(y), got {float(noise):.3g}: "
        "rounding may make K + σ²I indefinite. Use a larger noise variance, or rigor='sharp' where it is an argument."
    )
