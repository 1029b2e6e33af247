"""F, F̂, ψ and g_n of the Rényi bounds in balls, the two functions of log(1 + x) from which they are made, and roots.

Each ``balls.py`` evaluates formulas of its package in Arb balls at the caller's precision (`gpbounds.rigor.at_bits`).
A double argument stands for its exact rational value, so a ball encloses all roundings by construction.  The formulas
are written for readers and share no code with those in doubles, which only choose free parameters of bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gpbounds.rigor import at_bits, exact

SMALL = 2.0**-16
"""Below it `residual` is a series: x − log(1 + x) would lose more than 32 bits."""


def residual(x: Any) -> Any:
    """x − log(1 + x) for a ball x ≥ 0.

    Near 0 the sum x²/2 − x³/3 + ... ± x^K/K; the rest is between 0 and the next term, as the terms alternate and fall.

    >>> with at_bits(96):
    ...     float(residual(exact(2.0) ** -1000) * exact(2.0) ** 2000)
    0.5
    """
    from flint import arb, ctx

    if not bool(x < SMALL):
        return x - x.log1p()
    last = ctx.prec // 16 + 3
    total, power = arb(0), arb(1)
    for k in range(2, last):
        total += power / k
        power *= -x
    return x * x * (total + power * arb(0.5, 0.5) / last)


def scaled_log(x: Any, beta: Any) -> Any:
    """log(1 + βx)/β, and its limit x at β = 0."""
    return x if beta.is_zero() else (beta * x).log1p() / beta


def F(x: Any, alpha: Any) -> Any:
    """F(x) = ½[log(1 + βx)/β + αx/(1 + βx) − log(1 + x)] (R-lem2).

    With w = αx/(1 + βx): 1 + w = (1 + x)/(1 + βx), so that 2F = (α/β) log(1 + βx) + [w − log(1 + w)], which does not
    cancel.
    """
    beta = 1 - alpha
    return (alpha * scaled_log(x, beta) + residual(alpha * x / (1 + beta * x))) / 2


def _falls(x: Any, alpha: Any) -> bool | None:
    """Whether F(x)/x falls at x; None if the ball does not decide."""
    beta = 1 - alpha
    # F'(x) = ½[1/(1+βx) + α/(1+βx)² − 1/(1+x)]
    slope = (1 / (1 + beta * x) + alpha / (1 + beta * x) ** 2 - 1 / (1 + x)) / 2
    excess = slope * x - F(x, alpha)
    return True if excess < 0 else False if excess > 0 else None


@lru_cache(maxsize=256)
def tangent(order: float, bits: int) -> tuple[Any, Any, Any]:
    """(low, high, slope) for ½ < α < 1: F(x)/x has its maximum ``slope`` between low and high (N-Fhat).

    (1 + x)²(1 + βx)³·2F''(x) = α(2α − 1) − 3αβx − 3αβx² − αβ²x³ has one sign change, so F is convex, then concave, and
    F/x rises, then falls: the sign of its derivative brackets the maximum.
    """
    from flint import arb

    with at_bits(3 * bits + 256):
        alpha = exact(order)
        low = arb(2) ** -80  # F(x)/x = α + α(2α−1)x/4 + ... still rises there, as 2α − 1 is at least 2⁻⁵²
        high = 1 / (1 - alpha) ** 3 + 16
        assert _falls(low, alpha) is False
        assert _falls(high, alpha) is True
        while bool(high - low > low * arb(2) ** -bits):
            middle = (low * high).sqrt().mid() if bool(high > 2 * low) else ((low + high) / 2).mid()
            falls = _falls(middle, alpha)
            if falls is None:
                break
            low, high = (low, middle) if falls else (middle, high)
        # F increases: F(low)/high <= F(x)/x <= F(high)/low for every x of the bracket
        return low, high, (F(low, alpha) / high).union(F(high, alpha) / low)


def F_hat(x: Any, order: float) -> Any:
    """The least concave majorant of F (N-Fhat): F for α ≤ ½, x at α = 1, else a line through 0 up to its tangent point.

    >>> with at_bits(96):
    ...     round(float(F_hat(exact(0.5), 0.75)), 6), round(float(F(exact(0.5), exact(0.75))), 6)
    (0.200491, 0.1995)
    """
    from flint import ctx

    if order <= 0.5:
        return F(x, exact(order))
    if order == 1.0:
        return x
    low, high, slope = tangent(order, int(ctx.prec))
    if x <= low:
        return slope * x
    curve = F(x, exact(order))
    return curve if x >= high else curve.union(slope * x)


def psi(x: Any, order: float) -> Any:
    """ψ(x) = αx/((1 + βx)(1 + x)) up to x = 1/√β, its maximum (1 − √β)/(1 + √β) beyond (N-psi)."""
    alpha = exact(order)
    beta = 1 - alpha
    rising = alpha * x / ((1 + beta * x) * (1 + x))
    if beta.is_zero() or x * x * beta <= 1:
        return rising
    peak = alpha / (1 + beta.sqrt()) ** 2
    return peak if x * x * beta >= 1 else rising.union(peak)


def trace_term(T: Any, n: Any, order: float, noise: Any) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), T/(2σ²) at α = 1 (R-amgm)."""
    alpha = exact(order)
    return alpha * n * scaled_log(T / (n * noise), 1 - alpha) / 2


# The root of an increasing function in a ball: interval Newton steps, and halves where these do not narrow it.


def root(excess: Callable[[Any], Any], slope: Callable[[Any], Any], bracket: Any) -> Any:
    """A ball that contains the root of an increasing function, if ``bracket`` does.

    Newton: X ← X ∩ (m − excess(m)/slope(X)), m the middle of X, where ``slope(X)`` contains the derivative at every
    point of X: by the mean value theorem the root is m − excess(m)/slope(x) for some x in X.  Where this does not
    halve X, the sign of excess(m) does; where the sign is not decided, X comes back.  Parameters of ``excess`` may be
    balls, too: the result then contains the roots for all their points.

    >>> from gpbounds.rigor import at_bits, exact
    >>> with at_bits(96):
    ...     round(float(root(lambda x: x * x - 2, lambda x: 2 * x, exact(1.0).union(exact(2.0)))), 12)
    1.414213562373
    """
    from flint import ctx

    for _ in range(4 * ctx.prec + 64):
        middle = bracket.mid()
        value = excess(middle)
        step = middle - value / slope(bracket)
        narrower = bracket.intersection(step) if step.is_finite() and step.overlaps(bracket) else bracket
        if bool(2 * narrower.rad() < bracket.rad()):
            bracket = narrower
        elif value > 0:
            bracket = bracket.lower().union(middle)
        elif value < 0:
            bracket = bracket.upper().union(middle)
        else:
            return narrower
    return bracket
