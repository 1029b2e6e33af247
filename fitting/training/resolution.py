"""The end of training on an estimated objective: derivatives that nothing distinguishes from 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Float

WITHIN = 2.0
"""Standard errors within which a derivative counts as 0."""

EVERY = 4
"""Iterations from one comparison to the next, as standard errors take longer than an iteration."""

FAR, ANYWAY = 4.0, 24
"""A derivative beyond that multiple of what would count as 0 at the standard errors last computed will not count as 0:
new ones, which cost some four iterations, are computed for it only every 24 iterations."""


class Resolution:
    """Decides whether every derivative along which the bounds allow a move lies within two standard errors.

    Further iterations would then fit the random errors of the estimate.  A decrease of the estimate says nothing.
    The lengthscale of an input that does not matter has a small derivative, and a standard error that is smaller still:
    without ``small`` it alone would keep a run going.

    Parameters
    ----------
    errors : vector ↦ standard errors of the derivatives
    bounds : list of (low, high)
    worth : float
        Standard errors are computed only where every derivative is at most that.
    small : float
        A derivative of at most that counts as 0, whatever its standard error.

    >>> rule = Resolution(lambda x: np.array([0.5, 0.5]), [(-1.0, 1.0), (-1.0, 1.0)])
    >>> rule.reason(np.zeros(2), np.array([0.9, 2.0]), 8) is None
    True
    >>> rule.reason(np.array([0.0, -1.0]), np.array([0.9, 2.0]), 8)  # the second one cannot fall
    'Stopped after 8 iterations: every derivative lies within 2 standard errors of its estimate.'
    """

    def __init__(
        self,
        errors: Callable[[Float], Float],
        bounds: list[tuple[float, float]],
        worth: float = np.inf,
        small: float = 0.0,
    ) -> None:
        self._errors, self._worth, self._small = errors, worth, small
        self._last: tuple[int, Float] | None = None
        self._low, self._high = (np.array(ends, dtype=np.float64) for ends in zip(*bounds, strict=True))

    def reason(self, x: Float, g: Float, iterations: int) -> str | None:
        """A sentence if the gradient g of the loss at x is not distinguishable from 0."""
        free = ~(((x <= self._low) & (g > 0.0)) | ((x >= self._high) & (g < 0.0)))
        slopes = np.abs(g)[free]
        if iterations % EVERY or (slopes > self._worth).any():
            return None
        if self._last is not None:
            before, last = self._last
            if iterations < before + ANYWAY and (slopes > FAR * self._zero(last)[free]).any():
                return None
        errors = self._errors(x)
        self._last = iterations, errors
        if not (errors > 0.0).any() or (slopes > self._zero(errors)[free]).any():
            return None
        return (
            f"Stopped after {iterations} iterations: every derivative lies within {WITHIN:g} standard errors of its "
            "estimate" + (f", or is at most {self._small:g}." if self._small else ".")
        )

    def _zero(self, errors: Float) -> Float:
        """Largest absolute values of derivatives that count as 0."""
        return np.maximum(WITHIN * errors, self._small)
