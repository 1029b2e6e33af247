"""One family of objectives: a power a of K − Q restricted to a structure.

With R = K − Q on its diagonal, on blocks of it, in full, or nowhere, and a in [0, 1]:

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

a = 0 is the same for every structure; a ↦ F is not monotone for diagonals, and non-decreasing when R is full (R-mono).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fitting import exact
from fitting.blocks import Blocks
from fitting.diagonal import Diagonal
from fitting.functional import Law, Loss, Outer, collapsed
from fitting.inner import Evaluation
from fitting.members import METHODS, Member, member, one_number
from fitting.partition import Partition, partition
from fitting.posterior import BlockPosterior, InducingPosterior, Posterior, exact_posterior
from fitting.streamed import KEEP, Stream, Workspace, stream
from gpbounds.arrays import Array, as_points, namespace
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.lanes import suited
from gpbounds.validation import count, positive
from gpbounds.whitening import CHUNK, as_targets, with_jitter

__all__ = ["METHODS", "Member", "Objective", "checked", "member", "objective"]


@dataclass(frozen=True, eq=False)
class Objective:
    """F of one member and one data set, as a function of (kernel, noise, Z); made by `objective`.

    Attributes
    ----------
    member : Member
    X : array (N, D)
        Sorted by block where there are blocks.
    Y : array (N, P)
        P outputs, independent given the hyperparameters, which they share.
    parts : Partition
        The blocks.
    single : bool
        Whether y came as (N,): predictions have the same shape.
    jitter, chunk, space : as in `objective`
    """

    member: Member
    X: Array
    Y: Array
    parts: Partition
    single: bool
    jitter: Jitter = "auto"
    chunk: int = CHUNK
    space: Workspace = field(default_factory=Workspace, repr=False)

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.X.shape[0])

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
            Inducing inputs; may be None where F = log p(y), in which they do not enter.
        gradient : bool
            False for the value alone.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu or a block does not factorise with the jitter allowed.
        """
        s2 = one_number("noise", positive("noise", noise))
        with np.errstate(over="ignore", invalid="ignore"), suited(self._work(Z)):
            return checked(self._evaluate(kernel, s2, Z, gradient))

    def _evaluate(self, kernel: Kernel, s2: float, Z: ArrayLike | Array | None, gradient: bool) -> Evaluation:
        if self.member.is_evidence:
            centres = None if Z is None else self._centres(Z)
            return exact.evaluate(kernel, self.X, self.Y, s2, centres, gradient=gradient, space=self.space)
        room = self._room(s2)

        def attempt(amount: float) -> Evaluation:
            relative = amount / kernel.max_variance if self.jitter == "auto" else 0.0
            source = self.stream(kernel, Z, amount)
            return room.evaluate(source, self.Y, gradient=gradient, relative_jitter=relative)

        return with_jitter(attempt, kernel, self.jitter)

    def functional(
        self,
        kernel: Kernel,
        noise: float,
        Z: ArrayLike | Array,
        loss: Loss,
        outer: Callable[[float, Law], Outer],
    ) -> Evaluation:
        """Another function of the same posterior, with its derivatives: outer(Σ losses, q(v)); diagonal members only.

        ``loss`` and ``outer`` as in :mod:`fitting.functional`; the other arguments and errors as in `evaluate`.
        """
        if not self.member.is_diagonal:
            raise ValueError(f"method: expected a member with K - Q on its diagonal, got {self.member}")
        s2 = one_number("noise", positive("noise", noise))
        room = Diagonal(self.member.power, s2, kept=self.member.structure != "none")

        def attempt(amount: float) -> Evaluation:
            relative = amount / kernel.max_variance if self.jitter == "auto" else 0.0
            source = self.stream(kernel, Z, amount)
            return collapsed(room, source, self.Y, loss, outer, relative_jitter=relative)

        with np.errstate(over="ignore", invalid="ignore"), suited(self._work(Z)):
            return checked(with_jitter(attempt, kernel, self.jitter))

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """The posterior at (kernel, noise, Z); arguments and errors as in `evaluate`."""
        s2 = one_number("noise", positive("noise", noise))
        if self.member.is_evidence and self.member.inside:
            return exact_posterior(kernel, self.X, self.Y, s2, self.single)
        room = self._room(s2)

        def attempt(amount: float) -> Posterior:
            source = self.stream(kernel, Z, amount)
            state, _ = room.forward(source, self.Y)
            if self.member.inside:
                return BlockPosterior(source.inducing, s2, state, self.single, self.X, self.Y, self.parts)
            return InducingPosterior(source.inducing, s2, state, self.single)

        return with_jitter(attempt, kernel, self.jitter)

    def stream(self, kernel: Kernel, Z: ArrayLike | Array | None, jitter: float) -> Stream:
        """The chunks that `evaluate` reads, for functions of one's own of the same posterior."""
        centres = self._centres(Z)
        pieces = None if self.member.is_diagonal else self.parts.chunks(self.chunk)
        return stream(kernel, self.X, centres, jitter, chunk=self.chunk, parts=pieces, space=self.space)

    def _work(self, Z: ArrayLike | Array | None) -> int:
        """N·M² or the like, for `suited`."""
        widest = 0 if Z is None else len(Z)  # type: ignore[arg-type]
        if not self.member.is_diagonal:
            widest = max(widest, *(rows.stop - rows.start for rows in self.parts.blocks))
        return self.N * widest**2

    def _centres(self, Z: ArrayLike | Array | None) -> Array:
        if Z is None:
            raise ValueError(f"Z: expected inducing inputs of shape (M, {self.X.shape[1]}), got None")
        namespace(self.X, Z)
        return as_points(Z, "Z", self.X.shape[1]).astype(np.float64, copy=False)

    def _room(self, noise: float) -> Diagonal | Blocks:
        if self.member.is_diagonal:
            return Diagonal(self.member.power, noise, kept=self.member.structure != "none")
        return Blocks(self.member.power, noise, self.parts.blocks)


def checked(found: Evaluation) -> Evaluation:
    """``found``, refused where its value or a derivative is not finite."""
    parts = [("value", found.value)]
    if found.gradient is not None:
        g = found.gradient
        total = 0.0 if g.Z is None else float(g.Z.sum())
        parts += [("derivative in the hyperparameters", float(g.kernel.sum()) + g.noise), ("derivative in Z", total)]
    for name, number in parts:
        if not np.isfinite(number):
            raise NonFinite(
                f"objective: expected a finite {name}, got {number}. Usual causes: targets of a size whose square "
                "overflows, or a noise variance that is 0 beside them. Rescale y, or keep the noise away from 0."
            )
    return found


def objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    method: str | Member = "vfe",
    *,
    power: float | None = None,
    alpha: float | None = None,
    blocks: int | Sequence[int] | Array | None = None,
    jitter: Jitter = "auto",
    chunk: int = CHUNK,
    keep: int = KEEP,
) -> Objective:
    """The objective of one member on one data set.

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        Work is done where X lives, in float64.
    y : array (N,) or (N, P)
    method : str or Member
        See the table above.
    power : float
        a, for "pep".
    alpha : float
        Rényi order in [0, 1], for "renyi": 0 is the exact evidence, 1 is "vfe".
    blocks : int or array (N,)
        For "pic": rows of a block of consecutive rows, or a label for each row.
    jitter : float or "auto"
        On Kuu; "auto" takes the least of 0, 1e-12 … 1e-6 times the variance that works and says so in `Evaluation`.
    chunk : int
        Rows of X at a time.
    keep : int
        Bytes of Kuf and V kept between the two passes; beyond it they are computed twice.

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
    parts = partition(N if blocks is None else blocks, N)
    columns = targets[:, None] if single else targets
    if parts.order is not None:
        order = namespace(points).asarray(parts.order)
        points, columns = points[order], columns[order]
    return Objective(chosen, points, columns, parts, single, jitter, count("chunk", chunk), Workspace(keep))
