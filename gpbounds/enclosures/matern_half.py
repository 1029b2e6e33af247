"""Matérn-½ kernels under uniform inputs on an interval: the roots of one equation in balls (L-49b)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.enclosures.newton import root
from gpbounds.rigor import exact


@dataclass(frozen=True)
class MaternHalf(Eigenvalues):
    """λ_k = v sin²θ_k/κ, κ = (high − low)/(2ℓ), θ = atan(κ/z), z = (k − 1)π/2 + θ, and Σ λ_k = v (L-49b)."""

    variance: float
    lengthscale: float
    low: float
    high: float
    dim = 1

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        from flint import ctx

        return [(value, 1) for value in _values(self, count, ctx.prec)]

    def tail(self, count: int) -> Any:
        return self.trace() - sum(self.flat(count), exact(0.0))

    def trace(self) -> Any:
        return exact(self.variance)

    def largest(self) -> Any:
        return exact(self.variance)

    def kappa(self) -> Any:
        """κ."""
        return (exact(self.high) - exact(self.low)) / (2 * exact(self.lengthscale))

    def eigenvalue(self, k: int) -> Any:
        """λ_k; z sin θ − κ cos θ increases in θ between 0 and π/2."""
        from flint import arb

        kappa, start = self.kappa(), (k - 1) * arb.pi() / 2
        above = (2 * kappa / (start + (start * start + 4 * kappa).sqrt())).min(arb.pi() / 2)

        def excess(theta: Any) -> Any:
            return (start + theta) * theta.sin() - kappa * theta.cos()

        def slope(theta: Any) -> Any:
            return (1 + kappa) * theta.sin() + (start + theta) * theta.cos()

        theta = root(excess, slope, exact(0.0).union(above))
        return exact(self.variance) * theta.sin() ** 2 / kappa


@lru_cache(maxsize=64)
def _values(law: MaternHalf, count: int, bits: int) -> list[Any]:
    """The first eigenvalues at the present precision, which is ``bits``; the longest list serves the shorter ones."""
    length = 1 << max(count - 1, 1).bit_length()
    return [law.eigenvalue(k) for k in range(1, count + 1)] if length == count else _values(law, length, bits)[:count]
