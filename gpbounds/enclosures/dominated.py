"""Squared exponential kernels on boxes, dominated by Gaussian inputs, in balls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.enclosures.spectra import Laws
from gpbounds.rigor import exact
from gpbounds.spectra.dominated import domination_family


@dataclass(frozen=True)
class Dominated(Eigenvalues):
    """λ_m ≤ C·λ_m(Gaussian), C = Π_d √(2π) s_d/W_d·e^(W_d²/(8s_d²)), for any stds s_d, W the widths of the box.

    The proof is that of `DominatedSpectrum`.  Which s serve best is decided in doubles, for each number of eigenvalues.
    """

    variance: float
    lengthscales: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    note = "Eigenvalues are upper bounds (squared exponential kernel, uniform inputs, dominated by Gaussian inputs)."

    @property
    def dim(self) -> int:  # type: ignore[override]
        """D."""
        return len(self.low)

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        factor, law = self._at(count)
        return [(factor * value, often) for value, often in law.eigenvalues(count)]

    def tail(self, count: int) -> Any:
        factor, law = self._at(count)
        return (factor * law.tail(count)).min(self.trace())

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def closed_trace(self, M: int) -> Any:
        if self.dim > 1:
            return None
        factor, law = self._at(M)
        return (factor * law.closed_trace(M)).min(self.trace())

    def _at(self, count: int) -> tuple[Any, Laws]:
        """(C, the Gaussian law) for ``count`` eigenvalues."""
        from flint import arb

        law = _best(self, count)
        factor = exact(1.0)
        for low, high, std in zip(self.low, self.high, law.stds, strict=True):
            width, s = exact(high) - exact(low), exact(std)
            factor *= (2 * arb.pi()).sqrt() * s / width * (width * width / (8 * s * s)).exp()
        return factor, law

    @cached_property
    def _family(self) -> list[tuple[float, Any, Any]]:
        halves = 0.5 * (np.array(self.high) - np.array(self.low))
        return domination_family(np.array(self.lengthscales), halves)


@lru_cache(maxsize=4096)
def _best(law: Dominated, count: int) -> Laws:
    """The Gaussian law of the family with the least C·tail."""
    log_shares = [log_C + float(gaussian.log_tail(count)) for log_C, _, gaussian in law._family]
    _, stds, _ = law._family[int(np.argmin(log_shares))]
    return Laws(law.variance, law.lengthscales, tuple(stds.tolist()))
