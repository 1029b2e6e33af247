"""The common part of the variational estimators: stages of training, β by validation, batches, predictive laws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators import given_rows
from fitting.estimators.fingerprint import seed_of
from fitting.estimators.inducing import WithInducing
from fitting.estimators.kinds import JITTER
from fitting.estimators.remarks import Remark
from fitting.estimators.trainer import Draw, Outcome, Trainer, with_inducing
from fitting.objectives.goals import LOSSES, Evidence, loss_of
from fitting.objectives.laws import OptimalLaw, law_of
from fitting.objectives.losses import PowerEP, Sampling
from fitting.objectives.narrowed import narrowable
from fitting.objectives.objective import Member, Objective, member, variational_objective
from fitting.objectives.packing import Packing, each_input
from fitting.objectives.point import Parameters
from fitting.prior_means import residuals
from fitting.rows.data import Data
from fitting.starts.starts import passed_kernel, typical_variance, within
from fitting.training import Run, Session, Steps
from fitting.training.ending import RESUMED
from fitting.training.watch import FAULTS, measured, no_start
from gpbounds.arrays import Array, Float, host, is_cupy, kind_of_caller, namespace, place
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.kernels import Kernel, Stationary
from gpbounds.kernels.families import Family
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.means import LinearMean
from gpbounds.montecarlo.addressed import Draws
from gpbounds.rows import is_elsewhere, source
from gpbounds.validation import choice, closed_unit, count, flag, positive, positive_unit, repetitions, scalar
from gpbounds.whitening import slices

# The state of an optimiser between calls of ``partial_fit``.


LARGE, MISSED = 30, 0.1
"""Counts from `LARGE` on are compared with their rates; the share `MISSED` of them may be wrong by a factor of 2."""


@dataclass(eq=False)
class _Online:
    """The vector of a model that batches train one after the other, and the state of its optimiser.

    Attributes
    ----------
    packing : Packing
        The point of the vector.
    steps : Steps
    rng : numpy.random.Generator
        For sampled gradients.
    N : int
        The number of rows that each batch stands for.
    jitter : float
    values : list of float
        The estimate of −J by each batch, before its step; −inf where J had no value.
    """

    packing: Packing
    steps: Steps
    rng: np.random.Generator
    N: int
    jitter: float
    values: list[float] = field(default_factory=list)
    _kept: Float | None = None

    def step(self, batch: Objective, sampling: Sampling | None) -> None:
        """One step by the losses of ``batch``, counted N/n times; back to the point before where J has no value."""
        problem = batch.standing_for(self.N)
        if sampling is not None:
            problem = problem.sampled(sampling, int(self.rng.integers(2**63)))
        with one_blas_thread():
            f, g, fault = measured(self.packing.loss(problem), self.steps.x)
        self.values.append(-f)
        if fault is None:
            self._kept = self.steps.x
            try:
                self.steps.take(g)
            except FAULTS:  # a natural step that is impossible in doubles
                self.steps.back(self._kept)
        elif self._kept is None:
            raise no_start(fault) from fault
        else:
            self.steps.back(self._kept)

    def settle(self, problem: Objective) -> Parameters:
        """The point after the last step, or the one before if its Kuu does not factorise."""
        point = self.packing.unpack(self.steps.x)
        try:
            problem.posterior_at(point)
        except FAULTS:
            assert self._kept is not None
            self.steps.back(self._kept)
            point = self.packing.unpack(self._kept)
        return point

    def remarks(self) -> list[Remark]:
        """A remark if the last step had no value."""
        text = "The objective had no value for the last batch; the point before is kept, and the step length is halved."
        return [Remark("stalled", text)] if self.steps.failed else []


# The stages in which a variational objective J is trained.
#
# The ELBO with β = 1 comes first, except where J is a β-ELBO or power EP.  Then J trains q alone, at the
# hyperparameters and inducing inputs of the ELBO, or everything: from the ELBO's optimum and from the first start,
# because a direct loss has several optima, and the better end is kept.
#
# For a Gaussian likelihood and all rows, the ELBO is trained with its optimal q in closed form.

_HYPERPARAMETERS = ("joint", "fixed")


@dataclass(frozen=True)
class _Stages:
    """How J is trained.

    Attributes
    ----------
    joint : bool
        Whether J trains the hyperparameters, too.
    restarts : int
        Number of random starts of the first stage besides the first one.
    """

    joint: bool
    restarts: int = 0

    def run(self, trainer: Trainer, start: Parameters, draw: Draw) -> tuple[Outcome, list[Run]]:
        """The best outcome, whose parameters hold q, and all runs."""
        problem = trainer.objective
        assert isinstance(problem, Objective)
        goal = problem.expected_losses
        if (goal.loss in ("elbo", "pep") and self.joint) or (goal.loss == "elbo" and goal.beta == 1.0):
            return self.by_elbo(trainer, problem, start, draw)
        elbo, runs = self.by_elbo(trainer, problem.with_goal(loss="elbo", beta=1.0), start, draw)
        if elbo.run.status == "interrupted" or trainer.optimizer is None:
            return replace(elbo, parameters=_at_its_best(problem, elbo.parameters)), runs
        outcomes = [self.onwards(trainer, problem, elbo.parameters, "after the ELBO")]
        if self.joint and goal.loss != "square-loss" and outcomes[0].run.status != "interrupted":
            with suppress(NotPositiveDefinite, NonFinite, ArithmeticError):  # the other start has a value
                outcomes.append(self.onwards(trainer, problem, replace(start, q=None), "from the start"))
        best = max(outcomes, key=lambda outcome: outcome.run.value)
        return best, [*runs, *(outcome.run for outcome in outcomes)]

    def by_elbo(self, trainer: Trainer, problem: Objective, start: Parameters, draw: Draw) -> tuple[Outcome, list[Run]]:
        """The best run that trains everything by a β-ELBO or power EP, from ``start`` and its restarts.

        With all rows q is the best one: in closed form, or found by steps, by L-BFGS-B for rows in memory.  Labels
        train q with the rest: where they let the variance grow, the search for q takes tens of steps.
        """
        chosen, by_steps = problem, isinstance(start.likelihood, Poisson | StudentT) and trainer.optimizer == "lbfgs"
        if trainer.batch_size is None and isinstance(start.likelihood, Gaussian) and _has_closed_form(problem):
            chosen = collapsed(problem)
        elif by_steps and isinstance(problem.data, Data):
            chosen = replace(problem, law=OptimalLaw())
            trainer = replace(trainer, ending=replace(trainer.ending, after=RESUMED))
        start = start if chosen is problem else replace(start, q=None)
        name = f"{problem.expected_losses.loss} {problem.expected_losses.beta:g}"
        outcomes = replace(trainer, objective=chosen, sampling=None).best_of(
            name, start, self.restarts, with_inducing(draw)
        )
        best = replace(outcomes[0], parameters=problem.complete(outcomes[0].parameters))
        return best, [outcome.run for outcome in outcomes]

    def onwards(self, trainer: Trainer, problem: Objective, point: Parameters, name: str) -> Outcome:
        """One run by J from ``point``: of q alone, or of everything.

        The square loss does not train the variances of the kernel: it falls to 0 as they grow.
        """
        names = (*point.kernel.parameter_names, *point.likelihood.parameter_names)
        if not self.joint:
            trainer, point = replace(trainer, fixed=names, learn_Z=False), _with_fixed_mean(point)
        elif problem.expected_losses.loss == "square-loss":
            variances = [each for each in point.kernel.parameter_names if "variance" in each]
            trainer = replace(trainer, fixed=(*trainer.fixed, *variances))
        return replace(trainer, objective=problem).run(name, _at_its_best(problem, point))


def _with_fixed_mean(point: Parameters) -> Parameters:
    """``point`` with a prior mean that is not trained."""
    return point if point.prior_mean is None else replace(point, prior_mean=point.prior_mean.held)


def _at_its_best(problem: Objective, point: Parameters) -> Parameters:
    """``point`` with the optimal q, if the likelihood is Gaussian and this q has a closed form."""
    goal = problem.expected_losses
    closed = (goal.loss == "square-loss" and goal.weights is None) or _has_closed_form(problem)
    closed = closed and isinstance(point.likelihood, Gaussian)
    return problem.complete(replace(point, q=None) if closed else point)


def _has_closed_form(problem: Objective) -> bool:
    """Whether `collapsed` is the minimum over q if the likelihood is Gaussian."""
    goal = problem.expected_losses
    if goal.weights is not None:
        return False
    return goal.loss == "elbo" or (goal.loss == "pep" and goal.beta == 1.0)


def collapsed(problem: Objective) -> Objective:
    """The minimum over q of a β-ELBO, or of power EP with β = 1, with a Gaussian likelihood."""
    return replace(problem, law=law_of(problem.member), goal=Evidence(problem.expected_losses.beta))


# The choice of β, the factor of KL(q‖p), by validation.

SHARE = 0.2
"""Share of the rows on which each β is judged."""

LEAST = 0.01
"""The smallest β that is tried; the largest is the number of fitted rows, and each is half of the one before."""

STREAM = 6
"""Stream of random numbers that chooses the rows held out."""


@dataclass(frozen=True, eq=False)
class _Betas:
    """The β that was chosen, each β with its loss on the rows held out, and all runs.

    Attributes
    ----------
    best : float
    path : array (k, 2)
    runs : list of Run
    point : Parameters
        The model of the fitted rows with the chosen β.
    """

    best: float
    path: Float
    runs: list[Run]
    point: Parameters

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.runs[-1].status == "interrupted"


def grid(n: int) -> list[float]:
    """n, n/2, n/4, … down to 0.01.

    >>> len(grid(1000)), grid(4)[:4]
    (17, [4.0, 2.0, 1.0, 0.5])
    """
    betas = [float(n)]
    while 0.5 * betas[-1] >= LEAST:
        betas.append(0.5 * betas[-1])
    return betas


def outwards(n: int) -> tuple[list[float], list[float]]:
    """The grid in two parts, each from the β next to 1 outwards: those below 1, and the others.

    >>> outwards(4)[0][:3], outwards(4)[1]
    ([0.5, 0.25, 0.125], [1.0, 2.0, 4.0])
    """
    betas = grid(n)
    return [beta for beta in betas if beta < 1.0], [beta for beta in betas[::-1] if beta >= 1.0]


def _chosen_beta(
    stages: _Stages,
    trainer: Trainer,
    problem: Objective,
    start: Parameters,
    draw: Callable[[Float, Float, Kernel], Any],
) -> _Betas:
    """The β with the least loss on a fifth of the rows, for models of the other rows.

    The ELBO (β = 1) comes first, and each β starts where its neighbour towards 1 ended.  A large β can make the kernel
    ignore the inputs, from which training with a smaller β does not recover.  The loss is the mean of
    −log E p(y|f), or of (y − m)² for the square loss.

    Parameters
    ----------
    draw : function
        (X, Y, kernel) ↦ the first inducing points, of the rows that are fitted.
    """
    N, data = problem.N, problem.data
    assert isinstance(data, Data)
    n_judging = round(SHARE * N)
    if n_judging < 1 or N - n_judging < 1:
        raise ValueError(f"beta: expected a number, or 'auto' with at least 3 rows, got 'auto' with {N}")
    rng = np.random.default_rng([trainer.session.seed & (2**63 - 1), STREAM])
    order = rng.permutation(N)
    fitted, judging = (data.only(np.sort(rows)) for rows in (order[: N - n_judging], order[N - n_judging :]))
    trainer = replace(trainer, N=fitted.N, prefix="validation ")
    if trainer.batch_size is not None and trainer.batch_size >= fitted.N:
        trainer = replace(trainer, batch_size=None)
    base = replace(problem, data=fitted)
    first = replace(start, Z=draw(host(fitted.X), host(fitted.Y), start.kernel))
    elbo, runs = stages.by_elbo(trainer, base.with_goal(loss="elbo", beta=1.0), first, lambda kernel, i: first.Z)
    tried: list[tuple[float, float, Parameters]] = []
    for betas in outwards(fitted.N):
        point = elbo.parameters
        for beta in betas:
            if runs[-1].status == "interrupted":
                break
            with_beta = base.with_goal(beta=beta)
            try:
                outcome = _trained(stages, trainer, with_beta, point)
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue  # such a β has no model
            runs.append(outcome.run)
            point = outcome.parameters
            tried.append((beta, _loss(with_beta, point, judging), point))
    if not tried:
        tried.append((1.0, _loss(base, elbo.parameters, judging), elbo.parameters))
    best, _, point = min(tried, key=lambda each: each[1])
    path = sorted(((beta, loss) for beta, loss, _ in tried), reverse=True)
    return _Betas(best, np.array(path), runs, point)


def _trained(stages: _Stages, trainer: Trainer, problem: Objective, point: Parameters) -> Outcome:
    name = f"{problem.expected_losses.beta:g}"
    if stages.joint and problem.expected_losses.loss in ("elbo", "pep"):
        outcomes, _ = _Stages(True).by_elbo(
            replace(trainer, otherwise=(), raises_noise=False), problem, point, lambda kernel, i: point.Z
        )
        return outcomes
    return stages.onwards(trainer, problem, _at_its_best(problem, point), name)


def _loss(problem: Objective, point: Parameters, out: Any) -> float:
    mean, variance = problem.posterior_at(point).predict(out.X)
    y, mean = out.Y[:, 0], mean.reshape(-1)
    if point.prior_mean is not None:
        mean = mean + point.prior_mean(out.X)[:, 0]
    if problem.expected_losses.loss == "square-loss":
        return float(((y - mean) ** 2).mean())
    value = -float(point.likelihood.log_expected_density(y, mean, variance).mean())
    return value if np.isfinite(value) else np.inf


# The common part of the variational estimators: their stages of training, and their predictive laws.

_GRADIENTS = ("exact", "bmc", "smooth-bmc", "ups")
"""Estimators of the derivatives of the losses."""

MANY = 20_000
"""Inducing points are chosen among so many random rows, if there are more."""

SHARED = "shared "
"""Prefix of the names of runs with one lengthscale for all inputs, where both kinds are compared."""

STEEPEST = 100.0
"""Largest variance of f in units of the link at the start of a classifier; training may exceed it."""


@dataclass(eq=False, repr=False, kw_only=True)
class Variational(WithInducing):
    """Sparse Gaussian process with a free q(v) and any likelihood; use `VariationalGP` or `VariationalGPClassifier`.

    Attributes
    ----------
    likelihood_ : Likelihood
        With its trained parameters.
    objective_ : float
        −J on all rows, constants included.  For the objective "elbo" and β = 1 it is a lower bound on log p(y).
    beta_ : float
        β.
    beta_path_ : array (k, 2)
        Only for ``beta="auto"``: each β that was tried, and its mean loss on the rows held out.
    sample_weight_ : array (N,)
        Only for a model whose rows were weighted: their weights above 0.
    """

    beta: Any = 1.0
    hyperparameters: str = "joint"
    gradient: str = "exact"
    samples: int = 10
    smoothing: float = 1e-4
    power: float = 1.0
    kernel: Kernel | str | None = None
    batch_size: int | None = None
    natural_rate: float | None = None
    structure: str | None = None
    _optimizers: ClassVar[tuple[str, ...]] = ("lbfgs", "adam", "natgrad")
    _by_evidence: ClassVar[bool] = False  # whether "auto" compares shared with separate lengthscales

    likelihood: Any
    objective: str

    @abstractmethod
    def _checked_likelihood(self, Y: Float) -> Likelihood:
        """The likelihood at its start, for the targets Y; refuses one that this estimator does not serve."""

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, client: Any = None) -> Self:
        """Train on X (N, D) and y (N,); `VariationalGP` also reads rows by partitions.

        A `numpy.memmap` X of doubles in C order stays on its disk: mini-batches read their rows, and passes over all
        rows read them in chunks (two such passes with ``batch_size``).  Memory is needed for y, and for the rows that
        the start and the choice of inducing points use, at most 20 000; ``beta="auto"`` reads all rows into memory.
        Mini-batches of a map beyond 4 GiB take their rows from 16 random blocks of 4096 rows at a time, so that each
        epoch reads the disk once, block by block; a warning says if the rows are ordered, which
        `gpbounds.rows.shuffle_to` changes.

        The model keeps the best point seen; after Ctrl-C, too, with a warning.  If Ctrl-C ends the choice of β, that is
        the model of the best β so far, which was trained on four fifths of the rows.

        Parameters
        ----------
        sample_weight : array (N,), optional
            Factors w_i ≥ 0 of the losses ℓ_i of rows in memory: J = Σ w_i ℓ_i + β·KL(q‖p).  A whole number counts its
            row that often; rows of weight 0 are left out.  J is no bound on log p(y) of the rows then, and
            `log_evidence_bounds` refuses.  Not for the objective "pep", sampled gradients and ``beta="auto"``.

        Raises
        ------
        ValueError
            for wrong arguments, targets that the likelihood does not admit, NaN or infinity, or a checkpoint of other
            data or settings.
        NotPositiveDefinite
            when a covariance does not factorise at the start of training.

        Warns
        -----
        ConvergenceWarning
            when all iterations were used, a line search failed, training was interrupted, or a hyperparameter lies on
            its limit.
        """
        if sample_weight is None:
            return super().fit(X, y, client=client)
        self._check_weighted(X)
        self._weights = sample_weight
        try:
            return super().fit(X, y, client=client)
        finally:
            del self._weights

    def _check_weighted(self, X: Any) -> None:
        """Refuse arguments with which weights of rows have no meaning here."""
        refused = {
            "beta": self.beta == "auto",
            "gradient": self.gradient != "exact",
            "normalize_y": bool(self.normalize_y),
            "objective": self.objective == "pep",
            "structure": self.structure is not None,
        }
        for name, wrong in refused.items():
            if wrong:
                raise ValueError(f"sample_weight: expected None for {name}={getattr(self, name)!r}, got weights")
        if is_elsewhere(X):
            raise ValueError("sample_weight: expected None for rows that are read by partitions, got weights")

    def _in_units(self, X: Float, Y: Float) -> tuple[Float, Float]:
        """As in the base class, without rows of weight 0; sets ``sample_weight_``."""
        points, columns = super()._in_units(X, Y)
        if self._weights is None:
            return points, columns
        weights = given_rows.weights(self._weights, len(points))
        kept = weights > 0.0
        if (weights[kept] != 1.0).any():
            self.sample_weight_ = weights[kept]
        return (points, columns) if kept.all() else (points[kept], columns[kept])

    def _train(self, X: Float, Y: Float) -> list[Remark]:
        likelihood = self._checked_likelihood(Y)
        likelihood.log_density(Y, 0.0)  # a likelihood may refuse targets
        loss = loss_of(likelihood, self.objective, self.power)
        if self.structure is not None:
            narrowable(likelihood)
        if not isinstance(loss, PowerEP):
            loss(Y[:1], Y[:1] * 0.0, np.ones(1))  # a likelihood may refuse a power
        session = self._session()
        given, start = self._begun(X, Y, session)
        trainer = self._trainer_from(start, given, session, X)
        runs: list[Run] = []
        kept: Parameters | None = None
        reason = "Interrupted while lengthscales were chosen: the better model so far is kept, not trained further."
        if self._compares(start.kernel):
            other = self._start(given, X, Y, session, prefix=SHARED)
            tied = self._trainer_from(other, given, session, X, tied=True, prefix=SHARED)
            trainer, start, kept, runs = self._compared([(trainer, start), (tied, other)], X, Y)
        problem: Any = trainer.objective
        if isinstance(self.beta, str) and kept is None:
            betas = self._validated(trainer, problem, start)
            self.beta_, self.beta_path_, runs = betas.best, betas.path, [*runs, *betas.runs]
            problem = problem.with_goal(beta=self.beta_)
            trainer, kept = replace(trainer, objective=problem), betas.point if betas.interrupted else None
            reason = (
                "Interrupted while beta was chosen: the model of the best one so far is kept, not trained on all rows."
            )
        if kept is not None:
            outcome = _untrained(trainer, kept, reason)
            more = [outcome.run]
        else:
            outcome, more = self._search(trainer, start, X, Y)
        self._adopt(problem, outcome, [*runs, *more])
        return self._remarks(outcome)

    def _trainer_from(
        self, start: Parameters, given: Parameters, session: Session, X: Float, **options: Any
    ) -> Trainer:
        """The trainer of the objective whose jitter is in units of the kernel's variance at ``start``."""
        problem = self._objective(JITTER * typical_variance(start.kernel, X))
        return self._trainer(problem, start, given, session, **self._steps, **options)

    def _compares(self, kernel: Kernel) -> bool:
        """Whether `_compared` chooses between separate and shared lengthscales."""
        named = isinstance(passed_kernel(self.kernel), Family | None)
        groups, fixed = each_input(kernel).values(), self._fixed_names(kernel, kernel.parameter_names)
        free = all(kernel.parameter_names[i] not in fixed for places in groups for i in places)
        fewer = any(len(places) > 1 for places in groups)
        asked = self._by_evidence and self.lengthscales == "auto" and self.optimizer is not None
        return asked and named and free and fewer

    def _compared(
        self, pairs: list[tuple[Trainer, Parameters]], X: Float, Y: Float
    ) -> tuple[Trainer, Parameters, Parameters | None, list[Run]]:
        """The trainer and its start with the larger evidence, of those with separate and with shared lengthscales.

        Each is trained by the ELBO; ½ ln N for each hyperparameter is subtracted.  The session keeps these runs.

        Returns
        -------
        trainer, start
        point : Parameters or None
            The better point so far, after Ctrl-C.
        runs : list of Run
            Those of the other one; after Ctrl-C all.
        """
        ends: list[tuple[float, Trainer, Parameters, Outcome, list[Run]]] = []
        for each, start in pairs:

            def draw(kernel: Kernel, i: int, start: Parameters = start, seed: int = each.session.seed) -> Any:
                return self._drawn(replace(start, kernel=kernel), X, Y, seed, i)

            problem: Any = each.objective
            elbo, first = problem.with_goal(loss="elbo", beta=1.0), replace(start, Z=draw(start.kernel, 0))
            outcome, runs = self._stages().by_elbo(each, elbo, first, draw)
            free = sum(1.0 if each.tied else len(places) for places in each_input(start.kernel).values())
            rows = problem.N if elbo.expected_losses.weights is None else float(elbo.expected_losses.weights.sum())
            evidence = -elbo.minimised(outcome.parameters, gradient=False).value - 0.5 * free * np.log(rows)
            ends.append((evidence, each, start, outcome, runs))
            if outcome.run.status == "interrupted":
                break
        _, chosen, start, outcome, _ = max(ends, key=lambda end: end[0])
        self.lengthscales_ = "shared" if chosen.tied else "separate"
        interrupted = ends[-1][3].run.status == "interrupted"
        rest = [run for end in ends if interrupted or end[1] is not chosen for run in end[4]]
        return chosen, start, outcome.parameters if interrupted else None, rest

    @property
    def _steps(self) -> dict[str, Any]:
        """The settings of stochastic steps."""
        return {"natural_rate": self.natural_rate, "sampling": self._sampling()}

    @one_blas_thread()
    def _partial_fit(self, X: Any, y: Any, N: int | None, **checking: Any) -> Self:
        self._check_arguments()
        if isinstance(self.beta, str):
            raise ValueError("beta: expected a number for partial_fit, got 'auto': fit chooses β by validation")
        if self.optimizer is None:
            raise ValueError("optimizer: expected 'adam', 'natgrad' or 'lbfgs' for partial_fit, got None")
        fresh = not hasattr(self, "posterior_")
        points, columns = self._take(X, y, **checking) if fresh else self._more(X, y)
        self._checked_likelihood(columns).log_density(columns, 0.0)  # a likelihood may refuse targets
        n = points.shape[0]
        if N is not None and count("N", N) < n:
            raise ValueError(f"N: expected the number of rows of all batches, at least {n}, got {N}")
        if not hasattr(self, "online_"):
            self.online_ = self._online(points, columns, fresh, n)
        online = self.online_
        online.N = online.N if N is None else int(N)
        whole = self._objective(online.jitter)
        size = n if self.batch_size is None else count("batch_size", self.batch_size)
        for rows in slices(n, size):
            online.step(whole.batch(np.arange(rows.start, rows.stop)), self._sampling())
        point = online.settle(whole)
        self._settle_at(whole, point)
        self.objective_, self.history_, self.runs_ = online.values[-1], np.array(online.values), ()
        self.n_iter_ = len(online.values)
        self.stop_reason_ = f"Steps of partial_fit: {self.n_iter_}."
        self._release()
        self._remark([*online.remarks(), *self._of_counts(points, columns)])
        return self

    def _of_counts(self, X: Float, Y: Float) -> list[Remark]:
        """A remark on large counts that the model misses by a factor of 2: Adam's steps may be too long for them."""
        many = Y[:, 0] >= LARGE
        if not isinstance(self.likelihood_, Poisson) or not many.any():
            return []
        mean, variance, _ = self._moments(X[many])
        with np.errstate(over="ignore", divide="ignore"):
            ratio = host(self.likelihood_.predictive_mean(mean, variance)) / Y[many, 0]
            share = float((np.abs(np.log(ratio)) > np.log(2.0)).mean())
        if share <= MISSED:
            return []
        text = (
            f"The model misses {share:.0%} of the counts of at least {LARGE} in this batch by a factor of 2: it "
            "needs more batches or shorter steps (learning_rate), or optimizer='natgrad', whose steps fit large counts."
        )
        return [Remark("stalled", text)]

    def _online(self, X: Float, Y: Float, fresh: bool, N: int) -> _Online:
        """The state of the optimiser before its first step."""
        session = Session(None, "", seed_of(self.random_state))
        if fresh:
            given, start = self._begun(X, Y, session)
            start, jitter = (
                replace(start, Z=self._drawn(start, X, Y, session.seed, 0)),
                JITTER * typical_variance(start.kernel, X),
            )
        else:
            xp = self._module()
            q = self.posterior_.q
            mean = self._fitted_mean()
            if mean is not None and not isinstance(self.mean, LinearMean):
                mean = mean.onwards(X, self._real(Y))
            Z = place(self.inducing_, xp)
            given = start = Parameters(self.kernel_, self.likelihood_, Z, q, prior_mean=mean)
            jitter = self.jitter_
        problem = self._objective(jitter).with_goal(settles=False)  # the rows of the first call are no sample of all
        trainer = self._trainer(problem, start, given, session, **self._steps)
        if self.hyperparameters == "fixed":
            names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
            trainer, start = replace(trainer, fixed=names, learn_Z=False), _with_fixed_mean(start)
        packing = trainer.packing(start)
        natural = None
        if self.optimizer == "natgrad":
            natural = problem.natural(packing.start, self.natural_rate or 0.1)
        steps = Steps(packing.pack(packing.start), packing.bounds, trainer.learning_rate, natural)
        return _Online(packing, steps, np.random.default_rng(session.seed), N, jitter)

    def _more(self, X: Any, y: Any) -> tuple[Float, Float]:
        """Further rows, in the units of the first ones."""
        points, targets = self._checked(X, y, reset=False)
        columns = (targets[:, None] - self.y_mean_) / self.y_scale_
        self.X_train_, self.y_train_ = points, columns[:, 0]
        self.__dict__.pop("sample_weight_", None)  # of other rows
        return points, columns

    @kind_of_caller
    def log_predictive_density(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Array:
        """log E p(y_i|f_i) at each row of X (N*, D), f ~ q: shape (N*,), on the device of X."""
        mean, variance, xp = self._moments(X)
        shift, scale = float(self.y_mean_[0]), float(self.y_scale_[0])
        targets = place(self._targets(y), xp)
        if tuple(targets.shape) != tuple(mean.shape):
            raise ValueError(f"y: expected one target for each row of X, shape {mean.shape}, got {targets.shape}")
        return self.likelihood_.log_expected_density((targets - shift) / scale, mean, variance) - np.log(scale)

    @kind_of_caller
    def latent(self, X: ArrayLike | Array, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of the latent f at X (N*, D), and on request its standard deviation or covariance."""
        return self._latent(X, return_std, return_cov)

    @kind_of_caller
    def sample_y(
        self,
        X: ArrayLike | Array,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        noisy: bool = False,
        noise: ArrayLike | None = None,
    ) -> Float:
        """As `GaussianProcess.sample_y`; ``noisy`` is for a Gaussian likelihood only."""
        self._fitted()
        if flag("noisy", noisy):
            self._gaussian_only("noisy")
        return super().sample_y(X, n_samples, random_state, noisy=noisy, noise=noise)

    def log_evidence_bounds(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """As `GaussianProcess.log_evidence_bounds`, for a Gaussian likelihood only."""
        self._fitted()
        rows = () if X is None else (source(X, y),)
        self._gaussian_only("log_evidence_bounds")
        if hasattr(self, "sample_weight_"):
            raise ValueError(
                "log_evidence_bounds: expected a model without sample_weight, got one whose rows count more or less "
                "than once: bounds on log p(y) of the rows would not be about what was trained"
            )
        return super().log_evidence_bounds(*rows, **options)

    # ------------------------------------------------------------------ arguments

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _member(self) -> Member:
        return member("vfe")

    def _check_arguments(self) -> None:
        super()._check_arguments()
        choice("objective", self.objective, LOSSES)
        choice("hyperparameters", self.hyperparameters, _HYPERPARAMETERS)
        choice("gradient", self.gradient, _GRADIENTS)
        count("samples", self.samples)
        scalar(positive, "smoothing", self.smoothing)
        if self.gradient != "exact" and self.objective != "log-loss":
            raise ValueError(f"gradient: expected 'exact' for objective={self.objective!r}, got {shown(self.gradient)}")
        if self.gradient != "exact" and self.optimizer == "lbfgs":
            raise ValueError(
                f"gradient: expected 'exact' for optimizer='lbfgs', got {shown(self.gradient)}: every step has new "
                "samples, which suits 'adam' and 'natgrad'"
            )
        count("n_inducing", self.n_inducing)
        scalar(closed_unit, "power", self.power)
        if self.objective == "square-loss" and self.optimizer == "natgrad":
            raise ValueError("optimizer: expected 'lbfgs' or 'adam' for objective='square-loss', got 'natgrad'")
        if self.natural_rate is not None:
            scalar(positive_unit, "natural_rate", self.natural_rate)
        if isinstance(self.beta, str):
            choice("beta", self.beta, ("auto",))
        else:
            scalar(positive, "beta", self.beta)
        if self.structure is not None:
            choice("structure", self.structure, ("diagonal",))
        if self.structure is not None and (self.objective != "elbo" or self.beta != 1.0):
            raise ValueError(
                f"structure: expected None for objective={self.objective!r}, beta={self.beta!r}, got "
                f"{shown(self.structure)}: it narrows the conditional law of f in the ELBO, objective='elbo' with "
                "beta=1"
            )

    def _gaussian_only(self, name: str) -> None:
        if not isinstance(self.likelihood_, Gaussian):
            raise ValueError(f"{name}: expected a Gaussian likelihood, got {shown(self.likelihood_)}")

    # ------------------------------------------------------------------ the start

    def _given(self, X: Float, Y: Float) -> Parameters:
        likelihood = self._checked_likelihood(Y)
        if isinstance(likelihood, Gaussian):
            return super()._given(X, Y)
        return replace(super()._given(X, _surrogate(likelihood, Y)), likelihood=likelihood)

    def _real(self, Y: Float) -> Float:
        return _surrogate(self._checked_likelihood(Y), Y)

    def _start(
        self, given: Parameters, X: Float, Y: Float, session: Session, attempt: int = 0, prefix: str = ""
    ) -> Parameters:
        """As in the base class; for other likelihoods by exact fits to real numbers that stand for the targets."""
        likelihood = given.likelihood
        if isinstance(likelihood, Gaussian) or not self._pilots:
            return super()._start(given, X, Y, session, attempt, prefix)
        real = self._real(Y)
        if real is not Y:
            real = residuals(given.prior_mean, X, real)
        mean = real.mean()
        fit = super()._start(super()._given(X, real - mean), X, real - mean, session, attempt, prefix)
        kernel = fit.kernel
        fixed = self._fixed_names(kernel, kernel.parameter_names)
        if isinstance(kernel, Stationary) and "variance" not in fixed:  # the prior mean of f is 0
            logs = kernel.log_parameters
            logs[0] = np.log(kernel.max_variance + mean**2)
            kernel = within(self._training_limits(given), kernel.with_log_parameters(logs))
        if isinstance(likelihood, StudentT) and isinstance(self.likelihood, str):
            likelihood = replace(likelihood, scale=float(np.sqrt(fit.noise * (1.0 - 2.0 / likelihood.df))))
        if isinstance(likelihood, Bernoulli) and isinstance(kernel, Stationary) and "variance" not in fixed:
            # f in units in which the noise of the link is 1
            logs = kernel.log_parameters
            logs[0] = np.clip(logs[0] - np.log(fit.noise), 0.0, np.log(STEEPEST))
            kernel = within(self._training_limits(given), kernel.with_log_parameters(logs))
        return replace(given, kernel=kernel, likelihood=likelihood)

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        if X.shape[0] > MANY:
            X = X[np.sort(rng.choice(X.shape[0], MANY, replace=False))]
        return super()._chosen(start, X, Y, M, rng)

    def _training_limits(self, given: Parameters) -> dict[str, tuple[float, float]]:
        limits = super()._training_limits(given)
        if self.objective == "power" and isinstance(given.likelihood, StudentT) and self.power > 0.0:
            low, high = limits["df"]
            limits["df"] = (max(low, 1.001 * (1.0 / self.power - 1.0)), high)  # p^a has finite mass
        return limits

    # ------------------------------------------------------------------ training

    def _objective(self, jitter: Jitter = "auto") -> Objective:
        X, y = self._placed()
        likelihood = self._checked_likelihood(self.y_train_ if len(X) else np.zeros(1))
        if len(X) == 0:  # a model in a file, of rows that were read by partitions: shapes are enough
            X, y = np.zeros((1, X.shape[1])), np.zeros(1)
        beta = getattr(self, "beta_", 1.0) if isinstance(self.beta, str) else float(self.beta)
        keep = None if self.batch_size is None else 0  # a pass over all rows is rare then, and must need little memory
        problem = variational_objective(
            X, y, likelihood, self.objective, beta=beta, power=self.power, jitter=jitter, keep=keep
        )
        if self.structure is not None:
            return problem.with_goal(structure=self.structure)
        if hasattr(self, "sample_weight_"):
            return problem.with_goal(weights=namespace(X).asarray(self.sample_weight_))
        return problem

    def _sampling(self) -> Sampling | None:
        if self.gradient == "exact":
            return None
        constant = self.smoothing if self.gradient == "smooth-bmc" else 0.0
        return Sampling(self.gradient, Draws.of(0), self.samples, constant)

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        return outcome.remarks(self.runs_, self.batch_size is not None or self.gradient != "exact", self.start)

    def _stages(self) -> _Stages:
        return _Stages(self.hyperparameters == "joint", repetitions("n_restarts", self.n_restarts, 0))

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, i)

        return self._stages().run(trainer, replace(start, Z=draw(start.kernel, 0)), draw)

    def _validated(self, trainer: Trainer, problem: Objective, start: Parameters) -> _Betas:
        """β by validation on a fifth of the rows."""

        def draw(X: Float, Y: Float, kernel: Kernel) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, 0)

        return _chosen_beta(self._stages(), trainer, problem, start, draw)

    def _adopt(self, problem: Any, outcome: Outcome, runs: list[Run]) -> None:
        point, run = problem.complete(outcome.parameters), outcome.run
        self._settle_at(problem, point)
        self.objective_ = -problem.minimised(point, gradient=False).value
        self.history_, self.stop_reason_, self.runs_ = np.array(run.values), run.reason, tuple(runs)
        self.n_iter_ = max(run.iterations, 1)
        problem.data.space.release()

    def _settle_at(self, problem: Objective, point: Parameters) -> None:
        """Set the fitted attributes that ``point`` determines."""
        self.kernel_, self.likelihood_, self.inducing_ = point.kernel, point.likelihood, host(point.Z)
        self._set_mean(point, True)
        if isinstance(point.likelihood, Gaussian):
            self.noise_ = point.noise
        self.beta_ = problem.expected_losses.beta
        posterior: Any = problem.posterior_at(point)
        self.posterior_ = posterior
        self.jitter_ = float(posterior.jitter)

    # ------------------------------------------------------------------ predictions

    def _moments(self, X: ArrayLike | Array) -> tuple[Array, Array, Any]:
        """Mean (N*,) and variance (N*,) of f in the units of the model, on the device of X, and its module."""
        self._fitted()
        points = self._new_points(X)
        mean, variance = self.posterior_.predict(place(self._inputs(points), self._module()))
        xp = namespace(points)
        return place(mean, xp).reshape(-1) + self._mean_at(points), place(variance, xp), xp

    def _targets(self, y: Any) -> Array:
        """Targets in the convention of the likelihood."""
        return given_rows.reals("y", host(y) if is_cupy(y) else y).astype(np.float64)


def _untrained(trainer: Trainer, point: Parameters, reason: str) -> Outcome:
    """The model that a choice before training has kept, without training."""
    outcome = replace(trainer, optimizer=None).run("kept", point)
    return replace(outcome, run=replace(outcome.run, status="interrupted", reason=reason))


def _surrogate(likelihood: Likelihood, Y: Float) -> Float:
    """Real numbers that stand for the targets in exact fits: labels ±1, and log(y + ½) for counts."""
    if isinstance(likelihood, Bernoulli):
        return np.where(Y > 0.0, 1.0, -1.0)
    return np.log(Y + 0.5) if isinstance(likelihood, Poisson) else Y
