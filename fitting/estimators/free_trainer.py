"""`Trainer` where the law of the inducing variables is free: more numbers, no noise, mini-batches of random rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitting.bounds import FreeBound, FreePacking
from fitting.estimators.trainer import Trainer
from fitting.parameters import Parameters
from fitting.training import Loss
from gpbounds.arrays import Array, Float


@dataclass(frozen=True, eq=False)
class FreePoint(Parameters):
    """Kernel and Z with a free law q(v) = N(μ, CCᵀ).

    Attributes
    ----------
    noise : float
        That of the FITC posterior which q started from; no part of Q.
    mean : array (M,)
        μ.
    factor : array (M, M)
        C, lower triangular with a positive diagonal.
    """

    mean: Array | None = None
    factor: Array | None = None


@dataclass(frozen=True, eq=False)
class _Packing:
    """`FreePacking` with the noise kept aside."""

    inner: FreePacking
    noise: float

    @property
    def start(self) -> FreePoint:
        return self._with_noise(self.inner.start)

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return self.inner.bounds

    def pack(self, point: Any) -> Float:
        return self.inner.pack(point)

    def unpack(self, vector: Float) -> FreePoint:
        return self._with_noise(self.inner.unpack(vector))

    def at_bounds(self, vector: Float) -> tuple[str, ...]:
        return self.inner.at_bounds(vector)

    def _with_noise(self, found: Any) -> FreePoint:
        return FreePoint(found.kernel, self.noise, found.Z, found.mean, found.factor)


class FreeTrainer(Trainer):
    """Trains (kernel, Z, μ, C); a start without μ and C gets those of FITC's posterior there."""

    def _packing(self, start: Parameters) -> _Packing:
        problem: FreeBound = self.make(self.X, self.Y)  # type: ignore[assignment]
        point = start if isinstance(start, FreePoint) else problem.start(start.kernel, start.noise, start.Z)
        skipped = (*self.fixed, "noise")
        limits = {key: pair for key, pair in self.limits.items() if key not in skipped}
        inner = problem.packing(
            point.kernel,
            point.Z,
            point.mean,
            point.factor,
            learn_Z=self.learn_Z,
            fixed=tuple(name for name in self.fixed if name != "noise"),
            limits=limits,
            scale=self.scale,
        )
        return _Packing(inner, start.noise)

    def _loss(self, how: Any) -> Loss:
        return how.inner.loss

    def _part(self, how: Any, rows: Array) -> Loss:
        """The bound with R_S estimated by these rows (P-46): random ones, drawn apart from Q."""
        return lambda vector: how.inner.loss(vector, rows)

    def _value(self, start: Any) -> float:
        problem: FreeBound = self.make(self.X, self.Y)  # type: ignore[assignment]
        return -problem.terms(start.kernel, start.Z, start.mean, start.factor).bound
