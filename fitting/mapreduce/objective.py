"""VFE, FITC, DTC, power EP and low-rank GPs as objectives over partitions: as `fitting.family`, for any engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.inducing import InducingBasis
from fitting.mapreduce.two_passes import PosteriorPass, TwoPasses, settled
from fitting.members import Member
from fitting.posterior import InducingPosterior
from fitting.prior_means import PriorMean
from gpbounds.arrays import Array, Float, as_points
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.workspace import Workspace
from gpbounds.mapreduce.program import Engine
from gpbounds.validation import positive, scalar
from gpbounds.whitening import with_jitter


@dataclass(frozen=True, eq=False)
class Held:
    """The rows that an engine holds, and how the model sees them.

    Attributes
    ----------
    engine : Engine
    N, D, P : int
        Numbers of rows, of columns of X and of columns of Y.
    single : bool
        Whether y has the shape (N,).
    shift, scale : arrays (P,)
        The model is one of (y − shift)/scale.
    prior_mean : PriorMean or None
        The mean function of its prior; None is 0.
    """

    engine: Engine
    N: int
    D: int
    P: int
    single: bool
    shift: Float
    scale: Float
    space: Workspace = field(default_factory=lambda: Workspace(0), repr=False)
    prior_mean: PriorMean | None = None

    def about(self, mean: PriorMean | None) -> Held:
        """The same rows with another prior mean; None keeps it."""
        return self if mean is None else replace(self, prior_mean=mean)

    def release(self) -> None:
        """Free the memory of the rows."""
        self.engine.release()

    def inputs(self, Z: ArrayLike | None) -> Float:
        """The inducing inputs as a checked float64 array."""
        if Z is None:
            raise ValueError(f"Z: expected inducing inputs of shape (M, {self.D}), got None")
        return as_points(Z, "Z", self.D).astype(np.float64, copy=False)

    def settings(self) -> dict[str, Any]:
        """The arguments that all programs over these rows share."""
        return {"N": self.N, "shift": self.shift, "scale": self.scale, "prior_mean": self.prior_mean}


@dataclass(frozen=True, eq=False)
class PartitionedObjective:
    """F of a member that keeps K − Q on its diagonal, or drops it: `fitting.family.FamilyObjective` over partitions.

    Attributes
    ----------
    member : Member
    data : Held
    jitter : float or "auto"
        Added to the diagonal of Kuu.
    """

    member: Member
    data: Held
    jitter: Jitter = "auto"

    weight = 1.0
    held = ()

    def __post_init__(self) -> None:
        row_by_row(self.member)

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    @property
    def P(self) -> int:
        """Number of outputs."""
        return self.data.P

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """F at (kernel, noise, Z), with its derivatives; arguments and errors as `FamilyObjective.evaluate`."""
        points = self.data.inputs(Z)

        def attempt(amount: float) -> Evaluation:
            program = self._program(TwoPasses, kernel, noise, points, amount, gradient=gradient)
            return replace(settled(program, self.data.engine.run), jitter=amount)

        return finite_or_refused(with_jitter(attempt, kernel, points, self.jitter))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """−F at ``point``: an `fitting.evaluation.Objective`."""
        about = self.about(point.prior_mean)
        return -about.evaluate(point.kernel, point.noise, point.Z, gradient=gradient)

    def about(self, mean: PriorMean | None) -> PartitionedObjective:
        """As `FamilyObjective.about`."""
        return replace(self, data=self.data.about(mean))

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def batch(self, rows: Array) -> PartitionedObjective:
        """Raises an error."""
        raise ValueError("rows: expected all of them, as partitions are read in full, got some")

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | None = None) -> InducingPosterior:
        """The posterior at (kernel, noise, Z), in local memory."""
        points = self.data.inputs(Z)

        def attempt(amount: float) -> Any:
            program = self._program(PosteriorPass, kernel, noise, points, amount)
            return settled(program, self.data.engine.run)

        basis, q = with_jitter(attempt, kernel, points, self.jitter)
        assert isinstance(basis, InducingBasis)
        return InducingPosterior(basis.inducing, float(noise), q, self.data.single)

    def _program(
        self, kind: type[TwoPasses], kernel: Kernel, noise: float, Z: Float, jitter: float, **options: Any
    ) -> TwoPasses:
        member = Diagonal(self.member.power, scalar(positive, "noise", noise), kept=self.member.structure != "none")
        relative = jitter / kernel.largest_variance(Z) if self.jitter == "auto" else 0.0
        return kind(member, kernel, Z, jitter=jitter, relative_jitter=relative, **self.data.settings(), **options)


def row_by_row(member: Member) -> Member:
    """``member``; refuses one whose K − Q joins several rows."""
    if not member.is_diagonal:
        raise ValueError(
            f"method: expected 'vfe', 'fitc', 'dtc' or 'pep' for rows that are read by partitions, got {member}: its "
            "blocks would straddle partitions"
        )
    return member
