"""The tail of a curve of training: what further iterations are expected to gain, and when that is less than matters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float

LEAST, RESUMED = 48, 16
"""Iterations before which no estimate is made: of a run, and of one that begins where another has ended."""

_PERIODS = 4
"""Number of periods that are compared; each ends where the next, twice as long, begins."""

SLOWEST, FASTEST = 0.95, 2.0 / 3.0
"""Limits of the ratio of the gains of successive periods.  At ⅔, twice the last gain is to come."""
# On 22 curves of 1000 iterations (VFE and PAC-Bayes bounds, up to 2000 rows), runs that ended by ratios of at least 0.6
# after at least 32 iterations left more than the tolerance on 6; with these limits, on 2, for 1.4 times the iterations.


@dataclass(frozen=True)
class Tail:
    """The end of a curve after ``iterations`` steps.

    The best value so far gains g₀ in the last half of all iterations, g₁ in the quarter before, g₂ in the eighth before
    that, and so on.  For a curve that approaches its limit as t^(−a), the ratio g₀/g₁ is 2^(−a) throughout, and all
    further doublings of the number of iterations gain g₀(r + r² + …) = g₀·r/(1 − r).

    Attributes
    ----------
    iterations : int
    gain : float
        g₀.
    ratio : float
        r, the geometric mean of g₀/g₁, g₁/g₂, g₂/g₃, and at least ⅔.
    """

    iterations: int
    gain: float
    ratio: float

    @property
    def to_come(self) -> float:
        """What all further iterations are expected to gain."""
        return self.gain * self.ratio / (1.0 - self.ratio)

    def until(self, tol: float) -> float:
        """The number of iterations after which no more than ``tol`` is expected to be gained."""
        if self.to_come <= tol:
            return self.iterations
        return self.iterations * 2.0 ** (math.log(tol / self.to_come) / math.log(self.ratio))


def tail_of(values: Sequence[float], after: int = LEAST) -> Tail | None:
    """The tail of a curve: its value at the start and after each iteration, larger is better; None if it is too short.

    ``after`` is the least number of iterations, at least 16.

    >>> curve = [-1.0 / t for t in range(1, 130)]
    >>> end = tail_of(curve)
    >>> end.iterations, round(end.gain, 4), round(end.to_come, 4)
    (128, 0.0076, 0.0153)
    """
    n = len(values) - 1
    if n < after:
        return None
    ends = [n >> j for j in range(_PERIODS + 1)]
    best = np.maximum.accumulate(np.asarray(values, dtype=np.float64))[ends]
    if not np.isfinite(best).all():
        return None
    gains = best[:-1] - best[1:]
    if gains[0] <= 0.0:
        return Tail(n, 0.0, FASTEST)
    ratio = (gains[0] / gains[-1]) ** (1.0 / (_PERIODS - 1)) if gains[-1] > 0.0 else SLOWEST
    return Tail(n, float(gains[0]), float(np.clip(ratio, FASTEST, SLOWEST)))


@dataclass(frozen=True)
class Ending:
    """When a run has settled: further iterations are expected to gain less than ``tol``, or not to reach ``least``.

    Attributes
    ----------
    tol : float
        In the unit below; 0 never ends a run.
    unit : float
        The unit in terms of the objective: N for nats per datum, 1 for a bound on the risk.
    name : str
        The unit in words.
    symbol : str
        How a progress bar names the objective.
    sign : 1 or −1
        The objective that is shown is ``sign`` times the value that is maximised.
    least : float
        The maximised value that another run has reached; a run ends if it is not expected to reach it.
    after : int
        Iterations before which no run ends.
    """

    tol: float
    unit: float = 1.0
    name: str = ""
    symbol: str = "F"
    sign: int = 1
    least: float = -math.inf
    after: int = LEAST

    def reason(self, values: Sequence[float]) -> str | None:
        """A sentence if the curve has settled, otherwise None."""
        end = tail_of(values, self.after) if self.tol > 0.0 or self.least > -math.inf else None
        if end is None:
            return None
        if max(values) + end.to_come < self.least:
            return (
                f"Stopped after {end.iterations} iterations: further ones are not expected to reach "
                f"{self.shown(self.least)} of another run."
            )
        if end.to_come > self.tol * self.unit or self.tol <= 0.0:
            return None
        to_come = f"{end.to_come / self.unit:.2g}{self.name and ' ' + self.name}"
        return (
            f"Stopped after {end.iterations} iterations: further ones are expected to gain {to_come}, and tol is "
            f"{self.tol:g}."
        )

    def expected(self, values: Sequence[float]) -> int | None:
        """The number of iterations after which the run is expected to have settled; None if that is not known yet."""
        end = tail_of(values, self.after) if self.tol > 0.0 else None
        if end is None:
            return None
        return math.ceil(min(end.until(self.tol * self.unit), 1e9))

    def outlook(self, values: Sequence[float]) -> str:
        """What further iterations are expected to gain against ``tol``, for a progress bar; empty if it is not known.

        >>> Ending(1e-3).outlook([-1.0 / t for t in range(1, 130)])
        ', to gain 0.015, tol 0.001'
        >>> Ending(1e-3).outlook([0.0])
        ''
        """
        end = tail_of(values, self.after) if self.tol > 0.0 else None
        return "" if end is None else f", to gain {end.to_come / self.unit:.2g}, tol {self.tol:g}"

    def shown(self, value: float) -> str:
        """The objective as a progress bar shows it."""
        return f"{self.symbol} = {self.sign * value:.6g}"


# The end of training on an estimated objective: no derivative differs significantly from 0.

WITHIN = 2.0
"""Standard errors within which a derivative counts as 0."""

EVERY = 4
"""Iterations from one comparison to the next, as standard errors take longer than an iteration."""

FAR, ANYWAY = 4.0, 24
"""Standard errors cost some four iterations.  As long as a derivative exceeds `FAR` times what counts as 0 by the last
ones, new ones are computed only after `ANYWAY` iterations."""


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
