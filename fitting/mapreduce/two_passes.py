"""VFE, FITC, DTC, power EP and low-rank GPs as programs: two passes over the rows, as in `fitting.diagonal`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.basis import Basis
from fitting.data import Data
from fitting.diagonal import Diagonal, Fit, Middle, Moments
from fitting.evaluation import Evaluation
from fitting.features.basis import FeatureBasis
from fitting.features.kernel import FeatureKernel
from fitting.inducing import InducingBasis
from fitting.members import Member, member
from fitting.prior_means import PriorMean
from fitting.rows import Stream
from fitting.stacked import Triangle
from gpbounds.arrays import Array, Float
from gpbounds.kernels import Kernel
from gpbounds.law import GramLaw
from gpbounds.linalg.workspace import Workspace
from gpbounds.mapreduce.program import Round, Rows
from gpbounds.mapreduce.statistics import Statistics


class StrongData(ArithmeticError):
    """The data are strong (`gpbounds.law.strong`): the first pass must sum the triangle of all rows, too."""


@dataclass(frozen=True, eq=False)
class First(Statistics):
    """Sums of the first pass; ``triangle`` is 0 unless the data are strong."""

    moments: Moments
    triangle: Triangle | float


@dataclass(frozen=True, eq=False)
class TwoPasses:
    """The value of an objective at one point, and its derivatives.

    Attributes
    ----------
    member : Diagonal
    kernel : Kernel
        A `FeatureKernel` has no Z.
    Z : array (M, D) or None
    N : int
        Number of rows of all partitions.
    jitter, relative_jitter : float
        As in `fitting.inducing.InducingBasis`.
    shift, scale : arrays (P,), or 0 and 1
        The model is one of (y − shift)/scale.
    gradient : bool
        False computes the value only.
    prior_mean : PriorMean or None
        The mean function of the prior; None is 0.
    stacked : bool
        Whether the first pass also sums the triangle that strong data need.
    """

    member: Diagonal
    kernel: Kernel
    Z: Array | None
    N: int
    jitter: float = 0.0
    relative_jitter: float = 0.0
    shift: Float | float = 0.0
    scale: Float | float = 1.0
    gradient: bool = True
    prior_mean: PriorMean | None = None
    stacked: bool = False

    @classmethod
    def of(cls, method: str | Member, kernel: Kernel, noise: float, *, Z: Array, N: int, **options: Any) -> TwoPasses:
        """The program of a method of `fitting.family.member` that keeps K − Q on its diagonal, or drops it."""
        chosen = member(method) if isinstance(method, str) else method
        return cls(Diagonal(chosen.power, noise, kept=chosen.structure != "none"), kernel, Z, N, **options)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Both passes."""
        return Round(self.map1, self.middle), Round(self.map2, self.finish)

    def begin(self) -> Basis:
        """The features, with the factor of Kuu."""
        if isinstance(self.kernel, FeatureKernel):
            return FeatureBasis.of(self.kernel)
        assert self.Z is not None
        basis = InducingBasis(self.kernel, self.Z, self.jitter, self.relative_jitter)
        basis.prepare()
        return basis

    def map1(self, basis: Basis, rows: Rows) -> First:
        """The sums of the first pass over one partition."""
        stream = self._stream(basis, rows)
        return First(self.member.forward(stream), self.member.stacked(stream) if self.stacked else 0.0)

    def law(self, sums: First) -> GramLaw:
        """q(v) from the sums of all partitions; raises `StrongData` if the triangle is missing."""

        def triangle() -> Triangle:
            if not isinstance(sums.triangle, Triangle):
                raise StrongData
            return sums.triangle

        return self.member.law(sums.moments, triangle)

    def middle(self, basis: Basis, sums: First) -> Middle:
        """What the second pass needs."""
        middle = self.member.middle(basis, self.law(sums), sums.moments, self.N, gradient=self.gradient)
        if self.gradient and self.member.power > 0.0:
            middle.q.covariance  # noqa: B018  (computed once, not once for each partition)
        return middle

    def map2(self, middle: Middle, rows: Rows) -> Fit:
        """The sums of the second pass over one partition."""
        return self.member.backward(self._stream(middle.basis, rows), middle)

    def finish(self, middle: Middle, back: Fit) -> Evaluation:
        """F, and its derivatives."""
        return self.member.finish(middle, back)

    def _stream(self, basis: Basis, rows: Rows) -> Stream:
        return stream_over(basis, rows._replace(Y=(rows.Y - self.shift) / self.scale), self.prior_mean)


def stream_over(basis: Basis, rows: Rows, prior_mean: PriorMean | None = None) -> Stream:
    """The chunks of one partition; nothing is kept from one pass to the next."""
    X = rows.X.astype(np.float64, copy=False)
    return Data(X, rows.Y, single=False, space=Workspace(0), prior_mean=prior_mean).stream_of(basis)


@dataclass(frozen=True, eq=False)
class PosteriorPass(TwoPasses):
    """The first of the two passes: the features, and q(v)."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The first pass."""
        return (Round(self.map1, self.both),)

    def both(self, basis: Basis, sums: First) -> tuple[Basis, GramLaw]:
        """The features and q(v)."""
        return basis, self.law(sums)


def settled(program: TwoPasses, run: Any) -> Any:
    """``run(program)``; a second time with the triangle, if the data are strong."""
    try:
        return run(program)
    except StrongData:
        return run(replace(program, stacked=True))
