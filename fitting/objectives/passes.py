"""Computations over rows: what an objective sums in its passes, in one stream or over partitions.

A `Passes` computes its result from the stream of rows in memory, which keeps features from one pass to the next.  Over
partitions it is the rounds of a program (`gpbounds.rows.program`) whose ``map`` takes the stream of one partition; the
first state is the basis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fitting.objectives.blocks import Blocks
from fitting.objectives.collapsed import Diagonal, Fit, Middle, Moments, Triangle
from fitting.objectives.free import (
    Adjoints,
    Losses,
    LossSums,
    Priced,
    SingleSums,
    backward,
    collapsed,
    free,
    free_sums,
    free_value,
    free_whole,
    losses_under,
    turn_of,
)
from fitting.objectives.point import Evaluation, Price
from fitting.rows.basis import Basis
from fitting.rows.stream import Stream
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.likelihoods import Likelihood
from gpbounds.rows.program import Round, Statistics

if TYPE_CHECKING:
    from fitting.objectives.goals import LossGoal


class StrongData(ArithmeticError):
    """The data are strong (`gpbounds.law.strong`): the first pass must sum the triangle of all rows, too."""


class Passes(ABC):
    """A computation; see the module."""

    @abstractmethod
    def over(self, source: Stream) -> Any:
        """The result for rows in memory."""

    @property
    @abstractmethod
    def rounds(self) -> tuple[Round, ...]:
        """The rounds over partitions."""

    def stacked(self) -> Passes:
        """The same computation with the sums that strong data need."""
        return self

    @property
    def in_blocks(self) -> bool:
        """Whether the computation reads the blocks of the stream."""
        return False


@dataclass(frozen=True, eq=False)
class First(Statistics):
    """Sums of the first pass; ``triangle`` is 0 unless the data are strong."""

    moments: Moments
    triangle: Triangle | float


@dataclass(frozen=True, eq=False)
class EvidencePasses(Passes):
    """The objective F of a member of the family, and its derivatives: two passes.

    Attributes
    ----------
    member : Diagonal or Blocks
        Over partitions a `Diagonal`.
    N : int
        Number of rows of all partitions.
    gradient : bool
        False computes the value only.
    sums_triangle : bool
        Whether the first pass also sums the triangle that strong data need.
    """

    member: Diagonal | Blocks
    N: int
    gradient: bool = True
    sums_triangle: bool = False

    def over(self, source: Stream) -> Any:
        return self.member.evaluate(source, gradient=self.gradient)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return Round(self.forward, self.middle), Round(self.backward, self.finish)

    def stacked(self) -> Passes:
        return replace(self, sums_triangle=True)

    @property
    def in_blocks(self) -> bool:
        return self.member.in_blocks

    def forward(self, basis: Basis, source: Stream) -> First:
        """The sums of the first pass over one partition."""
        member = self._diagonal
        return First(member.forward(source), member.stacked(source) if self.sums_triangle else 0.0)

    def law(self, sums: First) -> GramLaw:
        """q(v) from the sums of all partitions; raises `StrongData` if the triangle is missing."""

        def triangle() -> Triangle:
            if not isinstance(sums.triangle, Triangle):
                raise StrongData
            return sums.triangle

        return self._diagonal.law(sums.moments, triangle)

    def middle(self, basis: Basis, sums: First) -> Middle:
        """What the second pass needs."""
        middle = self._diagonal.middle(basis, self.law(sums), sums.moments, self.N, gradient=self.gradient)
        if self.gradient and self.member.power > 0.0:
            middle.q.covariance  # noqa: B018  (computed once, not once for each partition)
        return middle

    def backward(self, middle: Middle, source: Stream) -> Fit:
        """The sums of the second pass over one partition."""
        return self._diagonal.backward(source, middle)

    def finish(self, middle: Middle, back: Fit) -> Evaluation:
        """F, and its derivatives."""
        return self._diagonal.finish(middle, back)

    @property
    def _diagonal(self) -> Diagonal:
        assert isinstance(self.member, Diagonal)
        return self.member


@dataclass(frozen=True, eq=False)
class PosteriorPass(EvidencePasses):
    """The first of the two passes: the features, and q(v)."""

    def over(self, source: Stream) -> Any:
        return source.basis, self.member.posterior(source)[0]

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.forward, self.both),)

    def both(self, basis: Basis, sums: First) -> tuple[Basis, GramLaw]:
        """The features and q(v)."""
        return basis, self.law(sums)


@dataclass(frozen=True, eq=False)
class AtLosses:
    """A goal at a likelihood, for rows whose losses count ``weight`` times."""

    goal: LossGoal
    likelihood: Likelihood
    weight: float = 1.0

    @property
    def losses(self) -> Losses:
        """The losses of rows."""
        return self.goal.losses(self.likelihood)

    @property
    def price(self) -> Price:
        """The goal as a function of the sum of the losses and KL(q‖p)."""
        return partial(self.goal.price, weight=self.weight)


class _At(NamedTuple):
    """Features and posterior, and after the pass over the losses what the last pass needs."""

    basis: Basis
    q: GramLaw
    priced: Priced | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LossPasses(EvidencePasses):
    """A goal of losses at the posterior of ``member``: a pass for q, one for the losses under q, one for derivatives.

    Attributes
    ----------
    at : AtLosses
    in_power : bool
        Whether the derivative in the power is computed, too.
    """

    at: AtLosses
    in_power: bool = False

    def over(self, source: Stream) -> Evaluation:
        options = {"gradient": self.gradient, "in_power": self.in_power}
        return collapsed(self._diagonal, source, self.at.losses, self.at.price, **options)

    @property
    def rounds(self) -> tuple[Round, ...]:
        value = Round(self.forward, self.posterior), Round(self.losses, self.priced)
        return (*value, Round(self.back, self.whole)) if self.gradient else value

    def posterior(self, basis: Basis, sums: First) -> _At:
        """q from the sums of the first pass."""
        q = self.law(sums)
        q.covariance, q.gained  # noqa: B018  (computed once, not once for each partition)
        return _At(basis, q)

    def losses(self, at: _At, source: Stream) -> LossSums:
        """The losses of one partition under q."""
        turn = turn_of(self._diagonal, at.basis, at.q)
        return losses_under(at.q, source, self.at.losses, gradient=self.gradient, turn=turn)

    def priced(self, at: _At, losses: LossSums) -> Any:
        """The goal, with what the last pass needs."""
        priced = Priced.of(at.q, losses, self.at.price, gradient=self.gradient)
        return at._replace(priced=priced) if self.gradient else priced.evaluation

    def back(self, at: _At, source: Stream) -> Adjoints:
        """The sums of the last pass over one partition."""
        assert at.priced is not None
        return backward(self._diagonal, source, self.at.losses, at.priced, in_power=self.in_power)

    def whole(self, at: _At, back: Adjoints) -> Evaluation:
        """The goal with its derivatives."""
        assert at.priced is not None
        return at.priced.whole(self._diagonal, at.basis, back, in_power=self.in_power)


@dataclass(frozen=True, eq=False)
class FreePass(Passes):
    """A goal of losses at a free q: one pass.

    Attributes
    ----------
    q : FactorLaw
    at : AtLosses
    gradient : bool
        False computes the value only.
    in_covariance : bool
        As for `fitting.objectives.point.Parameters`.
    """

    q: FactorLaw
    at: AtLosses
    gradient: bool = True
    in_covariance: bool = False

    def over(self, source: Stream) -> Evaluation:
        options = {"gradient": self.gradient, "in_covariance": self.in_covariance}
        return free(source, self.q, self.at.losses, self.at.price, **options)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.sums, self.whole if self.gradient else self.value),)

    def sums(self, basis: Basis, source: Stream) -> LossSums:
        """The sums of one partition."""
        if self.gradient:
            return free_sums(self.q, source, self.at.losses)
        return losses_under(self.q, source, self.at.losses, gradient=False)

    def value(self, basis: Basis, sums: LossSums) -> Evaluation:
        """The goal."""
        return free_value(basis, self.q, sums, self.at.price)

    def whole(self, basis: Basis, sums: SingleSums) -> Evaluation:
        """The goal with its derivatives."""
        return free_whole(basis, self.q, sums, self.at.price, in_covariance=self.in_covariance)
