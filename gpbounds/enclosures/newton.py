"""The root of an increasing function in a ball: interval Newton steps, and halves where these do not narrow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
