"""Statements about given rows with noise of their own: those about unit-noise rows, and what their rounding changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound, Plan
from gpbounds.inputs import Empirical
from gpbounds.rates.base import Statement, silent
from gpbounds.row_noise import UnitNoise, at_unit_noise

DRAWN_AT_UNIT_NOISE = (
    "The draws are those for the kernel and the rows of gpbounds.at_unit_noise: with S = diag(noise), S^(−½)KS^(−½) "
    "takes the place of K, and 1 that of σ²."
)


def rows_with_noise(kernel: Any, inputs: Empirical, y: Any, noise: Any, **refused: Any) -> UnitNoise:
    """The unit-noise rows for ``noise`` of each row of ``inputs``.

    Raises
    ------
    ValueError
        for arguments that have no meaning then, which are ``refused`` unless they are None.
    """
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"{name}: expected None with noise of each row, got {value!r}: {_REASONS[name]}")
    return at_unit_noise(kernel, inputs.X, y, noise)


_REASONS = {
    "y_norm2": "the bound needs Σ y_i²/noise_i; pass it as y_norm2 with the rows of gpbounds.at_unit_noise and noise=1",
    "simulate": "the noise of simulated rows is not known",
}


@dataclass(frozen=True, eq=False)
class NoisyRows(Statement):
    """The statement about rows with noise of their own that one about unit-noise rows implies (N-rows-noise).

    Attributes
    ----------
    unit : UnitNoise
    inner : Statement
        That about ``unit``.
    factor : number or array, or None
        The statement bounds this many times a Rényi gap; None where it bounds λ_max(K − Q)/σ².
    """

    unit: UnitNoise
    inner: Statement
    factor: Any

    @classmethod
    def of(cls, unit: UnitNoise, inner: Statement, criterion: str, direction: str, alpha: Any) -> NoisyRows:
        """The statement of a call of ``rate`` from that about ``unit``, whose arguments ``inner`` has checked."""
        if criterion == "operator":
            return cls(unit, inner, None)
        odds = 1.0 if direction == "q||p" else np.asarray(alpha) / (1.0 - np.asarray(alpha))
        return cls(unit, inner, np.maximum(odds, 1.0 / np.asarray(odds)))

    def bound(self, M: Float) -> Bound:
        """As in the base class."""
        return self._stated(self.inner.bound(M))

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        """As in the base class: the search is for a target that is larger by the change, and smaller where M misses it.

        ``needed`` is a bound for the larger target, and so holds for this one.
        """
        change = 1e-12 * target if self.factor is None else self.factor * self.unit.gap_error(2.0 * target)
        plan = self.inner.least(target + change, advance)
        if plan.bound is not None and not float(self._stated(plan.bound)) <= target:
            smaller = self.inner.least(max(target - change, 0.5 * target), advance)
            plan = replace(smaller, needed=plan.needed)
        bound, before = (None if end is None else self._stated(end) for end in (plan.bound, plan.bound_before))
        return replace(plan, target=target, bound=bound, bound_before=before)

    def _stated(self, bound: Bound) -> Bound:
        read = self.unit.of_ratio(bound) if self.factor is None else self.unit.of_rate(bound, self.factor)
        return replace(read, assumptions=(*read.assumptions, DRAWN_AT_UNIT_NOISE))
