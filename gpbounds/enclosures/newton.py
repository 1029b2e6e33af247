"""The root of an increasing function in a ball, by the interval Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def root(excess: Callable[[Any], Any], slope: Callable[[Any], Any], bracket: Any) -> Any:
    """A ball that contains the root of ``excess``, if ``bracket`` does: X ← X ∩ (m − excess(m)/slope(X)), m in X.

    ``slope(X)`` contains the derivative at every point of X.  By the mean value theorem the root is
    m − excess(m)/slope(x) for some x in X, so each step keeps it.  Parameters of ``excess`` may be balls, too: the
    result then contains the roots for all their points.  Where ``slope(X)`` contains 0 the bracket comes back.

    >>> from gpbounds.rigor import at_bits, exact
    >>> with at_bits(96):
    ...     round(float(root(lambda x: x * x - 2, lambda x: 2 * x, exact(1.0).union(exact(2.0)))), 12)
    1.414213562373
    """
    while True:
        middle = bracket.mid()
        step = middle - excess(middle) / slope(bracket)
        if not step.is_finite() or not step.overlaps(bracket):
            return bracket
        narrower = bracket.intersection(step)
        if not bool(2 * narrower.rad() < bracket.rad()):
            return narrower
        bracket = narrower
