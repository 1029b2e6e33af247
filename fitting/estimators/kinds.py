"""Kinds of posterior Q of a certified model: that of the exact GP, a sparse one given data and Z, or a free one.

Each kind determines which bound is trained, how certificates describe Q, and how Q predicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fitting.bounds import Target, free_bound, risk_bound
from fitting.objectives.laws import FamilyLaw, FreeLaw
from fitting.objectives.objective import Member, Objective, objective
from fitting.objectives.point import Parameters
from fitting.posterior import InducingPosterior, Posterior
from fitting.rows.data import Held
from gpbounds.arrays import Array, host
from gpbounds.kernels import Kernel
from gpbounds.law import Law
from gpbounds.losses import Loss
from gpbounds.pacbayes import Exact, Sparse, Whitened
from gpbounds.pacbayes.certificate.posteriors import Posterior as Form
from gpbounds.whitening import inducing

JITTER = 1e-8
"""Jitter on Kuu for a free q, in units of the kernel's variance at the start.  Without it inducing inputs approach one
another, rounding destroys the law of their differences, training stalls, and the certificate's allowances grow."""

Forms = Callable[[float], Form]
"""jitter on Kuu ↦ Q in the form in which certificates hold it."""


class Kind(ABC):
    """A kind of posterior Q."""

    @abstractmethod
    def bound(self, X: Array, y: Array, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        """The bound that is minimised, starting at ``kernel``; ``options`` are those of `fitting.bounds.risk_bound`."""

    @abstractmethod
    def forms(self, point: Parameters) -> Forms:
        """Q at ``point``, as a function of the jitter."""

    @abstractmethod
    def posterior(self, X: Array, y: Array, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        """Q with the ``kernel`` and ``jitter`` of the certificate, for predictions."""


class SparseKind(Kind):
    """A kind with inducing points, which needs sums over rows only, so that rows may be read by partitions."""

    @abstractmethod
    def bound_over(self, held: Held, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        """As `bound`, for rows that are read by partitions."""

    @abstractmethod
    def posterior_over(self, held: Held, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        """As `posterior`, for rows that are read by partitions."""


@dataclass(frozen=True)
class Full(Kind):
    """The exact GP posterior."""

    def bound(self, X: Array, y: Array, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return risk_bound(X, y, loss, method="exact", **options)

    def forms(self, point: Parameters) -> Forms:
        return lambda jitter: Exact(point.noise)

    def posterior(self, X: Array, y: Array, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        return objective(X, y, "exact").posterior(kernel, point.noise)


@dataclass(frozen=True)
class FromData(SparseKind):
    """The posterior of FITC, VFE or another power of K − Q, given the data; a point's own power counts."""

    member: Member

    def _at(self, point: Parameters) -> Member:
        return self.member if point.power is None else Member("diagonal", point.power)

    def bound(self, X: Array, y: Array, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return risk_bound(X, y, loss, method=self.member, **options)

    def forms(self, point: Parameters) -> Forms:
        return sparse_forms(point.Z, point.noise, self._at(point))

    def bound_over(self, held: Held, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return Objective(held, FamilyLaw(self.member), Target(loss, held.N, **options))

    def posterior(self, X: Array, y: Array, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        return objective(X, y, self._at(point), jitter=jitter).posterior(kernel, point.noise, point.Z)

    def posterior_over(self, held: Held, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        law = FamilyLaw(self._at(point))
        return law.posterior(replace(held, jitter=jitter), replace(point, kernel=kernel))


@dataclass(frozen=True)
class Free(SparseKind):
    """A free law q(v) = N(μ, CCᵀ); training starts at that of FITC."""

    def bound(self, X: Array, y: Array, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return free_bound(X, y, loss, jitter=JITTER * kernel.max_variance, **options)

    def bound_over(self, held: Held, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        rows = replace(held, jitter=JITTER * kernel.max_variance)
        return Objective(rows, FreeLaw(), Target(loss, held.N, **options))

    def forms(self, point: Parameters) -> Forms:
        assert point.q is not None
        return whitened_forms(point.Z, point.q)

    def posterior(self, X: Array, y: Array, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        assert point.q is not None
        assert point.Z is not None
        return InducingPosterior(inducing(kernel, point.Z, jitter), point.noise, point.q, single=True)

    def posterior_over(self, held: Held, kernel: Kernel, point: Parameters, jitter: float) -> Posterior:
        return self.posterior(None, None, kernel, point, jitter)


def sparse_forms(Z: Array, noise: float, member: Member) -> Forms:
    """The posterior of ``member``, which keeps the diagonal of K − Q or drops it, given the data."""
    points, power = host(Z), 0.0 if member.structure == "none" else member.power
    return lambda jitter: Sparse(points, noise, power, jitter)


def whitened_forms(Z: Array, q: Law) -> Forms:
    """u = Lv, v ~ q, for one output."""
    points, mean, factor = host(Z), host(q.mean)[:, 0], host(q.factor)
    return lambda jitter: Whitened(points, mean, factor, jitter)
