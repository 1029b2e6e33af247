"""Kinds of posterior Q of a certified model: that of the exact GP, a sparse one given data and Z, or a free one.

Each kind determines which bound is trained, how certificates describe Q, and how Q predicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fitting.bounds import Target, bound_of
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import FamilyLaw, FreeLaw, law_of
from fitting.objectives.objective import Member, Objective, data_of, member
from fitting.objectives.point import Parameters
from fitting.objectives.unit_noise import TargetOfRows, of_unit_rows
from fitting.posterior import InducingPosterior, Posterior
from fitting.rows.data import Dataset
from gpbounds.arrays import Array, DistinctRows, Float, host, namespace
from gpbounds.kernels import Kernel
from gpbounds.law import Law
from gpbounds.linalg.residuals import least_sound_jitter
from gpbounds.losses import Loss
from gpbounds.pacbayes import Exact, Sparse, Whitened
from gpbounds.pacbayes.certificate.posteriors import Posterior as Form
from gpbounds.row_noise import UnitNoise
from gpbounds.whitening import inducing

JITTER = 1e-8
"""Jitter on Kuu for a free q, in units of the kernel's variance at the start.  Without it inducing inputs approach one
another, rounding destroys the law of their differences, training stalls, and the certificate's allowances grow."""

Forms = Callable[[float], Form]
"""jitter on Kuu ↦ Q in the form in which certificates hold it."""


class Kind(ABC):
    """A kind of posterior Q."""

    @abstractmethod
    def bound(self, data: Dataset, loss: Loss, kernel: Kernel, **options: Any) -> Any:
        """The bound that is minimised, starting at ``kernel``; ``options`` are those of `Target`."""

    @abstractmethod
    def forms(self, point: Parameters) -> Forms:
        """Q at ``point``, as a function of the jitter."""

    @abstractmethod
    def posterior(self, data: Dataset, point: Parameters, jitter: float) -> Posterior:
        """Q with the kernel of ``point`` and the ``jitter`` of the certificate, for predictions."""

    def noise(self, point: Parameters) -> Any:
        """``noise_`` of the model."""
        return point.noise

    def power(self, point: Parameters) -> float | None:
        """The power of K − Q in a sparse Q given the data; None for the other kinds."""
        return None


@dataclass(frozen=True)
class Full(Kind):
    """The exact GP posterior, for rows in memory."""

    def bound(self, data: Dataset, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return bound_of(data, law_of(member("exact")), Target(loss, data.N, **options))

    def forms(self, point: Parameters) -> Forms:
        return lambda jitter: Exact(point.noise)

    def posterior(self, data: Dataset, point: Parameters, jitter: float) -> Posterior:
        return law_of(member("exact")).posterior(data, point)


@dataclass(frozen=True)
class FromData(Kind):
    """The posterior of FITC, VFE or another power of K − Q, given the data; a point's own power counts."""

    member: Member

    def bound(self, data: Dataset, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        return bound_of(data, FamilyLaw(self.member), Target(loss, data.N, **options))

    def forms(self, point: Parameters) -> Forms:
        return sparse_forms(point.Z, point.noise, _at_power(self.member, point))

    def posterior(self, data: Dataset, point: Parameters, jitter: float) -> Posterior:
        return FamilyLaw(_at_power(self.member, point)).posterior(replace(data, jitter=jitter), point)

    def power(self, point: Parameters) -> float | None:
        return _at_power(self.member, point).power


@dataclass(frozen=True)
class Free(Kind):
    """A free law q(v) = N(μ, CCᵀ), whose training starts at the posterior of FITC."""

    def bound(self, data: Dataset, loss: Loss, kernel: Kernel, **options: Any) -> Objective:
        rows = replace(data, jitter=JITTER * kernel.max_variance)
        return bound_of(rows, FreeLaw(), Target(loss, data.N, **options))

    def forms(self, point: Parameters) -> Forms:
        assert point.q is not None
        return whitened_forms(point.Z, point.q)

    def posterior(self, data: Dataset, point: Parameters, jitter: float) -> Posterior:
        assert point.q is not None
        assert point.Z is not None
        return InducingPosterior(inducing(point.kernel, point.Z, jitter), point.noise, point.q, single=True)


@dataclass(frozen=True, eq=False)
class OfRowNoise(Kind):
    """The posterior of rows with a noise each: that of a member of the family, or of the exact GP.

    A certificate states it by its law of the inducing variables, for an exact GP at the distinct rows, where it is that
    of VFE; so it needs no noise.

    Attributes
    ----------
    member : Member
    rows : UnitNoise
    noise_ : array (N,)
        The noise variances as they were passed.
    """

    member: Member
    rows: UnitNoise
    noise_: Float

    def bound(self, data: Dataset, loss: Loss, kernel: Kernel, **options: Any) -> Any:
        weights = namespace(self.rows.X).ascontiguousarray(self.rows.X[:, -1])
        goal = TargetOfRows(loss, data.N, **options, weights=weights)
        return of_unit_rows(bound_of(data, law_of(self.member), goal), self.rows)

    def _places(self, point: Parameters) -> Any:
        """Z, or the distinct rows."""
        if point.Z is not None:
            return point.Z
        return namespace(self.rows.X).asarray(DistinctRows.of(host(self.rows.X)[:, :-1]).rows)

    def least_jitter(self, point: Parameters) -> float:
        """The least jitter with which rounding leaves Kuu positive definite, whatever its condition."""
        return least_sound_jitter(host(point.kernel(self._places(point))))

    def _law(self, point: Parameters, jitter: float) -> InducingPosterior:
        points = self._places(point)
        chosen = member("vfe") if point.Z is None else _at_power(self.member, point)
        data = data_of(self.rows.X, self.rows.y, chosen, jitter=jitter)
        unit = Objective(data, FamilyLaw(chosen), Evidence())
        posterior = of_unit_rows(unit, self.rows).posterior_at(replace(point, Z=points))
        assert isinstance(posterior, InducingPosterior)
        return posterior

    def forms(self, point: Parameters) -> Forms:
        def form(jitter: float) -> Form:
            law = self._law(point, jitter)
            return whitened_forms(law.inducing.Z, law.q)(jitter)

        return form

    def posterior(self, data: Dataset, point: Parameters, jitter: float) -> Posterior:
        return self._law(point, jitter)

    def noise(self, point: Parameters) -> Any:
        return self.noise_

    def power(self, point: Parameters) -> float | None:
        return None if self.member.is_evidence else _at_power(self.member, point).power


def _at_power(own: Member, point: Parameters) -> Member:
    """``own``, or the member with the power that ``point`` has."""
    return own if point.power is None else Member("diagonal", point.power)


def sparse_forms(Z: Array, noise: float, member: Member) -> Forms:
    """The posterior of ``member``, which keeps the diagonal of K − Q or drops it, given the data."""
    points, power = host(Z), 0.0 if member.structure == "none" else member.power
    return lambda jitter: Sparse(points, noise, power, jitter)


def whitened_forms(Z: Array, q: Law) -> Forms:
    """u = Lv, v ~ q, for one output."""
    points, mean, factor = host(Z), host(q.mean)[:, 0], host(q.factor)
    return lambda jitter: Whitened(points, mean, factor, jitter)
