"""One family of objectives: a power a of K − Q, restricted to a structure.

R is K − Q restricted to its diagonal, to diagonal blocks, not at all, or set to 0; with a in [0, 1]:

    F = Σ_p log N(y_p; 0, Q + aR + σ²I) − P·(1−a)/(2a)·log|I + aR/σ²|      (a → 0: … − P·Tr R/(2σ²))

| method  | structure | a         |                                                   |
|---------|-----------|-----------|---------------------------------------------------|
| "vfe"   | diagonal  | 0         | variational free energy of Titsias, SGPR          |
| "dtc"   | none      | –         | deterministic training conditional                |
| "fitc"  | diagonal  | 1         | fully independent training conditional            |
| "pep"   | diagonal  | ``power`` | power expectation propagation                     |
| "pic"   | blocks    | 1         | partially independent conditional; PITC's F       |
| "renyi" | full      | 1 − α     | Rényi α-ELBO, a lower bound on log p(y) (R-elbo*) |
| "exact" | full      | 1         | log p(y)                                          |

At a = 0 all structures agree.  F is non-decreasing in a when R is full (R-mono), and not monotone when R is diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fitting import exact
from fitting.blocks import Blocks
from fitting.data import Data
from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.members import METHODS, Member, member, one_number
from fitting.partition import partition
from fitting.posterior import BlockPosterior, ExactPosterior, InducingPosterior, Posterior
from fitting.prior_means import PriorMean
from gpbounds import exact as exact_gp
from gpbounds.arrays import Array, as_points, namespace
from gpbounds.kernels import Kernel
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.workspace import Workspace
from gpbounds.validation import count, positive
from gpbounds.whitening import Inducing, as_targets

__all__ = ["METHODS", "FamilyObjective", "Member", "member", "objective"]


@dataclass(frozen=True, eq=False)
class FamilyObjective:
    """F of one member and one data set, as a function of (kernel, noise, Z); made by `objective`.

    Attributes
    ----------
    member : Member
    data : Data
    weight : float
        Factor of F: N/n where n rows estimate the objective of N.
    """

    member: Member
    data: Data
    weight: float = 1.0

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """F at (kernel, noise, Z), with its derivatives in log hyperparameters, log noise and Z.

        Parameters
        ----------
        kernel : Kernel
        noise : float
            σ², in squared units of y.
        Z : array (M, D), NumPy or CuPy as X is
            Inducing inputs; may be None where F = log p(y), which does not depend on them.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu or a block does not factorise with any admitted jitter.
        """
        s2 = one_number("noise", positive("noise", noise))
        if self.member.is_evidence:
            evaluation = self._exact(kernel, s2, Z, gradient)
        else:
            approximation = self._approximation(s2)
            evaluation, jitter = self.data.sweep(
                kernel, Z, lambda source: approximation.evaluate(source, gradient=gradient)
            )
            evaluation = replace(evaluation, jitter=jitter)
        return finite_or_refused(evaluation if self.weight == 1.0 else evaluation.times(self.weight))

    held = ()

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.data.Y.shape[1])

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """−F at ``point``: an `fitting.evaluation.Objective`."""
        about = self.about(point.prior_mean)
        return -about.evaluate(point.kernel, point.noise, point.Z, gradient=gradient)

    def about(self, mean: PriorMean | None) -> FamilyObjective:
        """F of the targets minus a prior mean, with derivatives in its coefficients; None keeps that of the data."""
        return replace(self, data=self.data.about(mean))

    def batch(self, rows: Array) -> FamilyObjective:
        """N/n times F of the n given rows alone."""
        if self.member.structure == "blocks":
            raise ValueError("rows: expected all of them for PIC, as a subset of rows would split its blocks")
        part = self.data.only(rows)
        if self.data.parts is not None:
            part = replace(part, parts=partition(part.N, part.N))
        return replace(self, data=part, weight=self.weight * self.data.N / part.N)

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """The posterior of the targets minus the prior mean; arguments and errors as in `evaluate`."""
        s2, data = one_number("noise", positive("noise", noise)), self.data
        if self.member.is_evidence and self.member.inside:
            return ExactPosterior(exact_gp.exact(kernel, data.X, data.residuals, noise=s2), data.single)
        approximation = self._approximation(s2)
        (basis, q), _ = data.sweep(kernel, Z, lambda source: (source.basis, approximation.posterior(source)[0]))
        points: Inducing = basis.inducing  # type: ignore[attr-defined]
        if self.member.inside:
            assert data.parts is not None
            return BlockPosterior(points, s2, q, data.single, data.X, data.residuals, data.parts)
        return InducingPosterior(points, s2, q, data.single)

    def _exact(self, kernel: Kernel, s2: float, Z: ArrayLike | Array | None, gradient: bool) -> Evaluation:
        data = self.data
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            evaluation = exact.evaluate(
                kernel,
                data.X,
                data.residuals,
                noise=s2,
                gradient=gradient,
                space=data.space,
                prior_mean=data.prior_mean,
            )
        if Z is None or evaluation.gradient is None:
            return evaluation
        return replace(
            evaluation, gradient=replace(evaluation.gradient, Z=namespace(data.X).zeros_like(data.inputs(Z)))
        )

    def _approximation(self, noise: float) -> Diagonal | Blocks:
        if self.member.is_diagonal:
            return Diagonal(self.member.power, noise, kept=self.member.structure != "none")
        assert self.data.parts is not None
        return Blocks(self.member.power, noise, self.data.parts.blocks)


def objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    method: str | Member = "vfe",
    *,
    power: float | None = None,
    alpha: float | None = None,
    blocks: int | Sequence[int] | Array | None = None,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> FamilyObjective:
    """The objective of one member on one data set.

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        All computations run on the device of X, in float64.
    y : array (N,) or (N, P)
    method : str or Member
        A name in the table above, or a `Member`.
    power : float
        a, for "pep".
    alpha : float
        Rényi order in [0, 1], for "renyi": 0 is the exact evidence, 1 is "vfe".
    blocks : int or array (N,)
        For "pic": the number of consecutive rows in a block, or a label for each row.
    jitter : float or "auto"
        Added to the diagonal of Kuu; "auto" takes the smallest of 0, 1e-12 … 1e-6 times the variance with which Kuu
        factorises, and `Evaluation` reports it.
    chunk : int, optional
        Number of rows of X processed at a time.  None: 1024 on a CPU, whose cache holds them, and on a GPU up to
        65,536, as its free memory allows.
    keep : int, optional
        Bytes of Kuf and V that are kept between the two passes; further rows are computed twice.  None: 2²⁸ on a CPU,
        and half of the free memory of a GPU.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y, Z, kernel = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [[0.0], [2.0]], SquaredExponential()
    >>> renyi = [objective(X, y, "renyi", alpha=a) for a in (0.0, 0.5, 1.0)]
    >>> [round(F.evaluate(kernel, 0.1, Z).value, 4) for F in renyi]
    [-3.2002, -3.5277, -4.5099]
    """
    chosen = method if isinstance(method, Member) else member(method, power=power, alpha=alpha)
    points = as_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    N, single = points.shape[0], targets.ndim == 1
    if (blocks is None) == (chosen.structure == "blocks"):
        expected = "a size or labels" if blocks is None else "None"
        raise ValueError(f"blocks: expected {expected} for structure {chosen.structure!r}, got {blocks!r}")
    columns = targets[:, None] if single else targets
    parts = None if chosen.is_diagonal else partition(N if blocks is None else blocks, N)
    if parts is not None and parts.order is not None:
        order = namespace(points).asarray(parts.order)
        points, columns = points[order], columns[order]
    rows = None if chunk is None else count("chunk", chunk)
    space = Workspace.on(namespace(points), keep)
    return FamilyObjective(chosen, Data(points, columns, single, jitter, rows, parts, space))


def at_point(kernel: Kernel, noise: float, Z: Array | None = None) -> Parameters:
    """The point (kernel, Gaussian noise, Z)."""
    return Parameters(kernel, Gaussian(noise), Z)
