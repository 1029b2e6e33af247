"""The one objective: rows × law × goal, as a function of a point.

| part | what it is                                                | its classes                         |
|------|-----------------------------------------------------------|-------------------------------------|
| rows | the data, in memory or held by an engine                  | `Data`, `Held` of `fitting.rows.data` |
| law  | q of the inducing variables or of the weights of features | `fitting.objectives.laws`           |
| goal | the number that training minimises                        | `fitting.objectives.goals`          |

`objective` and `variational_objective`, and `fitting.bounds`, make the usual ones from arrays.  Estimates by iterations
are objectives of their own, see `fitting.iterative`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.objectives.collapsed import Member, member, row_by_row
from fitting.objectives.goals import Evidence, ExpectedLosses, Goal, LossGoal, Target, Terms, loss_of
from fitting.objectives.laws import FamilyLaw, FreeLaw, ModelLaw, law_of
from fitting.objectives.losses import Sampling
from fitting.objectives.packing import Packing, law, packing_of
from fitting.objectives.point import Evaluation, Parameters
from fitting.posterior import Posterior
from fitting.prior_means import PriorMean
from fitting.rows.data import Data, Dataset, Held, Partition, neighbourhoods, partition
from fitting.starts.starts import default_likelihood
from fitting.training import NaturalSteps
from gpbounds.arrays import Array, as_points, namespace
from gpbounds.kernels import Kernel
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.linalg import Jitter
from gpbounds.linalg.workspace import Workspace
from gpbounds.validation import closed_unit, count, jitter_or_auto, positive, scalar
from gpbounds.vecchia import Blocks as Neighbourhoods
from gpbounds.whitening import as_targets


@dataclass(frozen=True, eq=False)
class Objective:
    """The goal of one law and one data set, as a function of a point: a `fitting.objectives.point.Minimised`.

    Attributes
    ----------
    data : Data or Held
        The rows.
    law : ModelLaw
    goal : Goal
    weight : float
        N/n where n rows stand for N: the factor of a sum over rows.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> point = at_point(SquaredExponential(), 0.1, np.array([[0.0], [2.0]]))
    >>> vfe = FamilyLaw(Member("diagonal", 0.0))
    >>> [round(Objective(Data(X, y, True), vfe, Evidence(b)).minimised(point).value, 6) for b in (1.0, 0.1)]
    [4.509929, 1.792132]
    """

    data: Dataset
    law: ModelLaw
    goal: Goal
    weight: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.data, Held) and isinstance(self.law, FamilyLaw):
            member = self.law.member
            if member.penalty is None or self.data.blocks is None:
                row_by_row(member)

    @property
    def N(self) -> int:
        """Number of rows."""
        return self.data.N

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the parameters on which the objective does not depend."""
        return self.goal.held if isinstance(self.law, FreeLaw) else ()

    @property
    def member(self) -> Member:
        """The member of the family whose posterior q is, or where a free q starts."""
        return self.law.member if isinstance(self.law, FamilyLaw) else self.loss_goal.member

    @property
    def likelihood(self) -> Likelihood:
        """The start of the likelihood, for `ExpectedLosses`."""
        return self.expected_losses.likelihood

    @property
    def loss_goal(self) -> LossGoal:
        """The goal, which must be a function of expected losses and KL(q‖p)."""
        if not isinstance(self.goal, LossGoal):
            raise ValueError(f"goal: expected one of expected losses and KL(q‖p), got {self.goal!r}")
        return self.goal

    @property
    def expected_losses(self) -> ExpectedLosses:
        """The goal, which must be `fitting.objectives.goals.ExpectedLosses`."""
        if not isinstance(self.goal, ExpectedLosses):
            raise ValueError(f"goal: expected ExpectedLosses, got {self.goal!r}")
        return self.goal

    @property
    def is_vfe(self) -> bool:
        """Whether this is the ELBO at its best q, for Gaussian noise."""
        return isinstance(self.goal, Evidence) and self.law == FamilyLaw(member("vfe"))

    def complete(self, point: Parameters) -> Parameters:
        """``point`` with a free q if it has none; for other laws ``point`` itself."""
        return self.law.complete(self, point)

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """The goal at ``point``; the next call may overwrite the arrays of the gradient.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, or where the value is not finite.
        NotPositiveDefinite
            when Kuu or a block does not factorise with any admitted jitter.
        """
        return self.goal.value(self.about(point.prior_mean), point, gradient=gradient)

    def about(self, mean: PriorMean | None) -> Objective:
        """The same objective with another prior mean, and with derivatives in its coefficients; None keeps it."""
        return self if mean is None else replace(self, data=self.data.about(mean))

    def batch(self, rows: ArrayLike | Array) -> Objective:
        """An estimate from the n given rows, whose sum counts N/n times.

        For sums of losses and for evidences of members without blocks.  For a sum over random rows, value and
        derivatives are unbiased; those of VFE are at every given q, as KL(q‖p) counts once.  `Target` at random rows is
        no bound: since B is concave in R_S (P-04), it is smaller than B on average (P-46).
        """
        part = self.law.some(self.data, rows, sums=isinstance(self.goal, LossGoal))
        goal, times = self.goal.of_rows(rows), self.data.N / part.N
        if isinstance(goal, Evidence) and self.is_vfe:
            goal = replace(goal, beta=goal.beta / times)
        return replace(self, data=part, goal=goal, weight=self.weight * times)

    def standing_for(self, N: int) -> Objective:
        """The objective in which the n rows count N/n times."""
        return replace(self, weight=N / self.data.N)

    def evaluate(
        self,
        kernel: Kernel,
        likelihood: Likelihood | float,
        Z: ArrayLike | Array | None = None,
        mean: ArrayLike | Array | None = None,
        factor: ArrayLike | Array | None = None,
        rows: ArrayLike | Array | None = None,
        *,
        gradient: bool = True,
    ) -> Evaluation:
        """Minus the goal, such as log p(y) or −B, with its derivatives in all blocks of the point.

        Parameters
        ----------
        kernel : Kernel
            Derivatives are in the logarithms of its hyperparameters.
        likelihood : Likelihood or float
            A number is the noise variance σ² of a Gaussian likelihood, in squared units of y.
        Z : array (M, D), NumPy or CuPy as X is
            Inducing inputs; None for features, and where the objective does not depend on them.
        mean : array (M,) or (M, 1)
            w of a free q(v) = N(w, CCᵀ), v = L⁻¹u, L Lᵀ = Kuu + jitter·I; its derivative has shape (M, 1).
        factor : array (M, M)
            C, lower triangular with a positive diagonal.
        rows : array (n,) of int, optional
            The sum is estimated from these rows only, as in `batch`.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite, NotPositiveDefinite
            as `minimised`.
        """
        problem = self if rows is None else self.batch(rows)
        return -problem.minimised(self._point(kernel, likelihood, Z, mean, factor), gradient=gradient)

    def terms(self, kernel: Kernel, likelihood: Likelihood | float, *more: ArrayLike | Array | None) -> Terms:
        """R_S over all data, KL, B and the jitter, for a `Target`; arguments and errors as in `evaluate`."""
        return self.terms_at(self._point(kernel, likelihood, *more))

    def terms_at(self, point: Parameters) -> Terms:
        """As `terms`, at a point."""
        assert isinstance(self.goal, Target)
        return self.goal.terms(self.minimised(point, gradient=False))

    def posterior(self, kernel: Kernel, likelihood: Likelihood | float, *more: ArrayLike | Array | None) -> Posterior:
        """The law of f minus the prior mean; arguments and errors as in `evaluate`."""
        return self.posterior_at(self._point(kernel, likelihood, *more))

    def posterior_at(self, point: Parameters) -> Posterior:
        """As `posterior`, at a point, whose prior mean the data must have (`about`)."""
        if self.goal.temper == 1.0:
            return self.law.posterior(self.data, point)
        tempered = replace(point, likelihood=Gaussian(self.goal.temper * point.noise))
        posterior: Any = self.law.posterior(self.data, tempered)
        return replace(posterior, noise=point.noise)

    def packing(self, start: Parameters, **options: Any) -> Packing:
        """The conversion between points and vectors, for training that starts at ``start``, completed.

        ``options`` are those of `fitting.objectives.packing.packing_of`: learn_Z, fixed, limits, scale, tied, natural.
        """
        fixed = tuple(dict.fromkeys((*options.pop("fixed", ()), *self.held)))
        return packing_of(self.complete(start), fixed=fixed, **options)

    def natural(self, start: Parameters, rate: float | None = None) -> NaturalSteps:
        """Natural-gradient steps for a free q; by default ρ = 1 where one step reaches the optimum, and 0.1 elsewhere.

        Parameters
        ----------
        start : Parameters
            Its likelihood and its number of inducing inputs count.
        rate : float in (0, 1], optional
            ρ.
        """
        return self.expected_losses.natural(start, rate, weight=self.weight)

    def with_goal(self, **changes: Any) -> Objective:
        """The objective whose `ExpectedLosses` have other attributes."""
        return replace(self, goal=replace(self.expected_losses, **changes))

    def sampled(self, sampling: Sampling, seed: int) -> Objective:
        """The objective of "log-loss" whose losses are sampled, with the samples that ``seed`` determines."""
        return replace(self, goal=self.expected_losses.sampled(sampling, seed))

    def _point(
        self, kernel: Kernel, likelihood: Likelihood | float, Z: Any = None, mean: Any = None, factor: Any = None
    ) -> Parameters:
        if mean is None:
            return at_point(kernel, likelihood, Z)
        points = None if Z is None else self.data.inputs(Z)
        M = kernel.features.rank if points is None else int(points.shape[0])  # type: ignore[attr-defined]
        return replace(at_point(kernel, likelihood, points), q=law(mean, factor, M))


def at_point(kernel: Kernel, likelihood: Likelihood | float, Z: Array | None = None) -> Parameters:
    """The point (kernel, likelihood, Z); a number is the noise variance of a Gaussian likelihood."""
    return Parameters(kernel, likelihood if isinstance(likelihood, Likelihood) else Gaussian(likelihood), Z)


# One family of objectives: a power a of K − Q, restricted to a structure.
#
# R is K − Q restricted to its diagonal, to diagonal blocks, not at all, or set to 0; with a in [0, 1]:
#
#     F = Σ_p log N(y_p; 0, Q + aR + σ²I) − P·(1−a)/(2a)·log|I + aR/σ²|      (a → 0: … − P·Tr R/(2σ²))
#
# | method  | structure | a         |                                                   |
# |---------|-----------|-----------|---------------------------------------------------|
# | "vfe"   | diagonal  | 0         | variational free energy of Titsias, SGPR          |
# | "dtc"   | none      | –         | deterministic training conditional                |
# | "fitc"  | diagonal  | 1         | fully independent training conditional            |
# | "pep"   | diagonal  | ``power`` | power expectation propagation                     |
# | "pic"   | blocks    | 1         | partially independent conditional; PITC's F       |
# | "renyi" | full      | 1 − α     | Rényi α-ELBO, a lower bound on log p(y) (R-elbo*) |
# | "exact" | full      | 1         | log p(y)                                          |
#
# With ``structure`` VFE has another penalty than the trace, see `fitting.objectives.structured`.
# At a = 0 all structures agree.  F is non-decreasing in a when R is full (R-mono), and not monotone when R is diagonal.


def objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    method: str | Member = "vfe",
    *,
    power: float | None = None,
    alpha: float | None = None,
    structure: str | None = None,
    blocks: int | Sequence[int] | Array | Neighbourhoods | None = None,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> Objective:
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
    structure : "diagonal", "blocks" or "vecchia", optional
        For "vfe": the part of K − Q whose log-determinant takes the place of its trace, a larger lower bound on
        log p(y) with the same posterior (N-fischer; `fitting.objectives.structured`).
    blocks : int, array (N,) or gpbounds.vecchia.Blocks
        For "pic" and the structure "blocks": the number of consecutive rows in a block, or a label for each row.  For
        "vecchia": the blocks with the rows that each is given.
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
    chosen = method if isinstance(method, Member) else member(method, power=power, alpha=alpha, structure=structure)
    data = data_of(X, y, chosen, blocks=blocks, jitter=jitter, chunk=chunk, keep=keep)
    return Objective(data, law_of(chosen), Evidence())


def data_of(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    chosen: Member,
    *,
    blocks: int | Sequence[int] | Array | Neighbourhoods | None = None,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> Data:
    """The rows of an objective with the law of a member; arguments and errors as in `objective`."""
    points = as_points(X, "X").astype(np.float64, copy=False)
    targets = as_targets(y, points)
    N, single = points.shape[0], targets.ndim == 1
    columns = targets[:, None] if single else targets
    parts = _parts(chosen, blocks, N)
    if parts is not None and parts.order is not None:
        order = namespace(points).asarray(parts.order)
        points, columns = points[order], columns[order]
    rows = None if chunk is None else count("chunk", chunk)
    space = Workspace.on(namespace(points), keep)
    return Data(points, columns, single, jitter_or_auto(jitter), rows, parts, space)


def _parts(chosen: Member, blocks: Any, N: int) -> Partition | None:
    """The blocks of N rows, checked against what the member needs."""
    known, given = isinstance(blocks, Neighbourhoods), chosen.penalty == "vecchia"
    if (blocks is None) == chosen.needs_blocks or (known and chosen.structure == "blocks") or (given and not known):
        expected = "gpbounds.vecchia.Blocks" if given else "a size or labels" if chosen.needs_blocks else "None"
        raise ValueError(f"blocks: expected {expected} for {chosen}, got {blocks!r}")
    if not known:
        return partition(N if blocks is None else blocks, N) if chosen.joins_rows else None
    if blocks.order.size != N:
        raise ValueError(f"blocks: expected those of {N} rows, got those of {blocks.order.size}")
    parts = neighbourhoods(blocks)
    return parts if given else replace(parts, sets=None)


# The variational objective J, for any likelihood, as a function of (kernel, likelihood, Z, q(v) = N(w, CCᵀ)).
#
#     J = (N/n) Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p),      m_i = wᵀv_i,    s_i = r_i + v_iᵀCCᵀv_i,
#
# with the losses of `fitting.objectives.losses` and a sum over n of the N rows.  For the loss "elbo" and β = 1, −J is
# a lower bound on log p(y).  For another β and for the other losses J bounds nothing (D-01, D-02); they serve
# predictions.


def variational_objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    likelihood: str | Likelihood = "gaussian",
    objective: str = "elbo",
    *,
    beta: float = 1.0,
    power: float = 1.0,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> Objective:
    """J of variational inference and of direct loss minimisation, for one output.

    Claims D-01 … D-09 (Wei et al., DLM, §§1, 2, 5).

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        All computations run on the device of X, in float64.
    y : array (N,) or (N, 1)
        Real numbers; labels in {0, 1} or {−1, 1}; counts.
    likelihood : Likelihood, or "gaussian", "probit", "logit", "poisson", "poisson-softplus" or "student-t"
        A name stands for parameters at the scale of y.  It decides which y are admitted; each point has its own.
    objective : "elbo", "log-loss", "square-loss", "power" or "pep"
        The loss: a row of the table in `fitting.objectives.losses`, or `fitting.objectives.losses.PowerEP`.
    beta : float
        β > 0.
    power : float in [0, 1]
        a, for "power" and "pep".
    jitter, chunk, keep : as in `fitting.objectives.objective.objective`

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, and for y that the likelihood does not admit.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Z, kernel = np.linspace(0.0, 6.0, 50), np.array([[1.0], [3.0], [5.0]]), SquaredExponential()
    >>> J = variational_objective(X, np.sin(X) > 0.0, "probit")
    >>> start = J.complete(Parameters(kernel, J.likelihood, Z))
    >>> round(J.evaluate(kernel, J.likelihood, Z, start.q.mean, start.q.factor).value, 6)  # q is the prior
    -50.0
    """
    data = data_of(X, y, member("vfe"), jitter=jitter, chunk=chunk, keep=keep)
    if data.Y.shape[1] != 1:
        raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {data.Y.shape}")
    chosen = default_likelihood(likelihood, data.Y)
    loss_of(chosen, objective, power)
    chosen.log_density(data.Y, 0.0)  # a likelihood may refuse targets
    a, factor = scalar(closed_unit, "power", power), scalar(positive, "beta", beta)
    return Objective(data, FreeLaw(), ExpectedLosses(chosen, objective, factor, a))
