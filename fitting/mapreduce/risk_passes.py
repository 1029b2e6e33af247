"""PAC-Bayes bounds as programs: three passes for a posterior given the data, one for a free posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fitting.basis import Basis
from fitting.bounds.target import Target
from fitting.evaluation import Evaluation, Goal
from fitting.expected import ExpectedLoss, of_loss
from fitting.functional import Adjoints, LossSums, Priced, SingleSums, backward, free_sums, free_whole, losses_under
from fitting.inducing import InducingBasis
from fitting.mapreduce.two_passes import First, TwoPasses, stream_over
from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.mapreduce.program import Round, Rows


class _At(NamedTuple):
    """Features and posterior, and after the pass over the losses what the last pass needs."""

    basis: Basis
    q: GramLaw
    priced: Priced | None = None


@dataclass(frozen=True, eq=False)
class RiskPasses(TwoPasses):
    """B at the posterior of ``member``: a pass for q, one for the losses under q, and one for derivatives.

    Attributes
    ----------
    target : Target
    in_power : bool
        Whether the derivative in the power is computed, too.
    """

    target: Target | None = None
    in_power: bool = False

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Three passes; two without derivatives."""
        value = Round(self.map1, self.posterior), Round(self.losses, self.priced)
        return (*value, Round(self.back, self.whole)) if self.gradient else value

    @property
    def goal(self) -> Target:
        """B as a function of the losses' sum and the KL."""
        assert self.target is not None
        return self.target

    @property
    def loss(self) -> ExpectedLoss:
        """The expected losses."""
        return of_loss(self.goal.loss)

    def posterior(self, basis: Basis, sums: First) -> _At:
        """q from the sums of the first pass."""
        q = self.law(sums)
        q.covariance  # noqa: B018  (computed once, not once for each partition)
        return _At(basis, q)

    def losses(self, at: _At, rows: Rows) -> LossSums:
        """The losses of one partition under q."""
        return losses_under(at.q, self._stream(at.basis, rows), self.loss, gradient=self.gradient)

    def priced(self, at: _At, losses: LossSums) -> Any:
        """B, with what the last pass needs."""
        priced = Priced.of(at.q, losses, self.goal, gradient=self.gradient)
        return at._replace(priced=priced) if self.gradient else priced.evaluation

    def back(self, at: _At, rows: Rows) -> Adjoints:
        """The sums of the last pass over one partition."""
        assert at.priced is not None
        return backward(self.member, self._stream(at.basis, rows), self.loss, at.priced, in_power=self.in_power)

    def whole(self, at: _At, back: Adjoints) -> Evaluation:
        """B with its derivatives."""
        assert at.priced is not None
        return at.priced.whole(self.member, at.basis, back, in_power=self.in_power)


@dataclass(frozen=True, eq=False)
class FreeRiskPass:
    """B at a free q: one pass over rows in the units of the model.

    Attributes
    ----------
    target : Target
    kernel : Kernel
    Z : array (M, D)
    q : FactorLaw
    jitter, relative_jitter : float
        As in `fitting.inducing.InducingBasis`.
    gradient : bool
    """

    target: Target
    kernel: Kernel
    Z: Float
    q: FactorLaw
    jitter: float
    relative_jitter: float
    gradient: bool

    def begin(self) -> InducingBasis:
        """The features, with the factor of Kuu."""
        basis = InducingBasis(self.kernel, self.Z, self.jitter, self.relative_jitter)
        basis.prepare()
        return basis

    @property
    def rounds(self) -> tuple[Round, ...]:
        """One pass."""
        return (Round(self.sums, self.whole if self.gradient else self.value),)

    def sums(self, basis: InducingBasis, rows: Rows) -> LossSums:
        """The sums of one partition."""
        stream, loss = stream_over(basis, rows), of_loss(self.target.loss)
        if self.gradient:
            return free_sums(self.q, stream, loss)
        return losses_under(self.q, stream, loss, gradient=False)

    def value(self, basis: InducingBasis, sums: LossSums) -> Evaluation:
        """B."""
        goal: Goal = self.target
        total, kl = float(sums.total), self.q.kl
        return Evaluation(goal(total, kl)[0], None, total=total, kl=kl)

    def whole(self, basis: InducingBasis, sums: SingleSums) -> Evaluation:
        """B with its derivatives."""
        return free_whole(basis, self.q, sums, self.target)
