"""The common part of the variational estimators: their stages of training, and their predictive laws."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fitting.estimators.betas import Betas, chosen_beta
from fitting.estimators.fingerprint import seed_of
from fitting.estimators.inducing import WithInducing
from fitting.estimators.kinds import JITTER
from fitting.estimators.online import Online
from fitting.estimators.remarks import Remark
from fitting.estimators.stages import HYPERPARAMETERS, Stages, with_mean_held
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.goals import LOSSES, loss_of
from fitting.objectives.losses import PowerEP, Sampling
from fitting.objectives.objective import Member, Objective, member, variational_objective
from fitting.objectives.point import Parameters
from fitting.prior_means import PriorMean
from fitting.starts.starts import typical_variance, within
from fitting.training import Run, Session, Steps
from gpbounds.arrays import Array, Float, exactly, host, namespace, place
from gpbounds.kernels import Kernel, Stationary
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.means import LinearMean
from gpbounds.montecarlo.addressed import Draws
from gpbounds.validation import choice, closed_unit, count, positive, positive_unit, scalar
from gpbounds.whitening import slices

GRADIENTS = ("exact", "bmc", "smooth-bmc", "ups")
"""Estimators of the derivatives of the losses."""

MANY = 20_000
"""Inducing points are chosen among so many random rows, if there are more."""

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
    """

    beta: Any = 1.0
    hyperparameters: str = "joint"
    gradient: str = "exact"
    samples: int = 10
    smoothing: float = 1e-4
    power: float = 1.0
    kernel: Kernel | None = None
    batch_size: int | None = None
    natural_rate: float | None = None

    likelihood: Any
    objective: str

    @abstractmethod
    def _checked_likelihood(self, Y: Float) -> Likelihood:
        """The likelihood at its start, for the targets Y; refuses one that this estimator does not serve."""

    @one_blas_thread()
    def fit(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Self:
        """Train on X (N, D) and y (N,).

        A `numpy.memmap` X of doubles in C order stays on its disk: mini-batches read their rows, and passes over all
        rows read them in chunks (two such passes with ``batch_size``).  Memory is needed for y, and for the rows that
        the start and the choice of inducing points use, at most 20 000; ``beta="auto"`` reads all rows into memory.
        Mini-batches of a map beyond 4 GiB take their rows from 16 random blocks of 4096 rows at a time, so that each
        epoch reads the disk once, block by block; a warning says if the rows are ordered, which
        `gpbounds.sources.shuffle_to` changes.

        The model keeps the best point seen; after Ctrl-C, too, with a warning.  If Ctrl-C ends the choice of β, that is
        the model of the best β so far, which was trained on four fifths of the rows.

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
        self._check_arguments()
        points, columns = self._take(X, y)
        likelihood = self._checked_likelihood(columns)
        likelihood.log_density(columns, 0.0)  # a likelihood may refuse targets
        loss = loss_of(likelihood, self.objective, self.power)
        if not isinstance(loss, PowerEP):
            loss(columns[:1], columns[:1] * 0.0, np.ones(1))  # a likelihood may refuse a power
        session = self._session()
        given, start = self._begun(points, columns, session)
        problem = self._objective(JITTER * typical_variance(start.kernel, points))
        trainer = self._trainer(problem, start, given, session)
        runs: list[Run] = []
        betas: Betas | None = None
        if isinstance(self.beta, str):
            betas = self._validated(trainer, problem, start)
            self.beta_, self.beta_path_, runs = betas.best, betas.path, betas.runs
            problem = problem.with_goal(beta=self.beta_)
            trainer = replace(trainer, objective=problem)
        if betas is not None and betas.interrupted:
            outcome = _untrained(trainer, betas)
            more = [outcome.run]
        else:
            outcome, more = self._search(trainer, start, points, columns)
        self._adopt(problem, outcome, [*runs, *more])
        self._release()
        self._remark(self._remarks(outcome))
        return self

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
        self._remark(online.remarks())
        return self

    def _online(self, X: Float, Y: Float, fresh: bool, N: int) -> Online:
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
            q = self.posterior_.q  # type: ignore[attr-defined]
            mean = self._fitted_mean()
            if mean is not None and not isinstance(self.mean, LinearMean):
                mean = mean.onwards(X, self._real(Y))
            Z = place(self.inducing_, xp)
            given = start = Parameters(self.kernel_, self.likelihood_, Z, q, prior_mean=mean)
            jitter = self.jitter_
        problem = self._objective(jitter).with_goal(settles=False)  # the rows of the first call are no sample of all
        trainer = replace(self._trainer(problem, start, given, session), objective=problem)
        if self.hyperparameters == "fixed":
            names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
            trainer, start = replace(trainer, fixed=names, learn_Z=False), with_mean_held(start)
        packing = trainer.packing(start)
        natural = None
        if self.optimizer == "natgrad":
            natural = problem.natural(packing.start, self.natural_rate or 0.1)
        steps = Steps(packing.pack(packing.start), packing.bounds, trainer.learning_rate, natural)
        return Online(packing, steps, np.random.default_rng(session.seed), N, jitter)

    def _more(self, X: Any, y: Any) -> tuple[Float, Float]:
        """Further rows, in the units of the first ones."""
        points, targets = self._checked(X, y, reset=False)
        columns = (targets[:, None] - self.y_mean_) / self.y_scale_
        self.X_train_, self.y_train_ = points, columns[:, 0]
        return points, columns

    def log_predictive_density(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Array:
        """log E p(y_i|f_i) at each row of X (N*, D), f ~ q: shape (N*,), on the device of X."""
        mean, variance, xp = self._moments(X)
        shift, scale = float(self.y_mean_[0]), float(self.y_scale_[0])
        targets = place(self._targets(y), xp)
        if tuple(targets.shape) != tuple(mean.shape):
            raise ValueError(f"y: expected one target for each row of X, shape {mean.shape}, got {targets.shape}")
        return self.likelihood_.log_expected_density((targets - shift) / scale, mean, variance) - np.log(scale)

    def latent(self, X: ArrayLike | Array, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of the latent f at X (N*, D), and on request its standard deviation or covariance."""
        return self._latent(X, return_std, return_cov)

    def sample_y(
        self, X: ArrayLike | Array, n_samples: int = 1, random_state: Any = 0, *, noisy: bool = False
    ) -> Float:
        """As `GaussianProcess.sample_y`; ``noisy`` is for a Gaussian likelihood only."""
        self._fitted()
        if noisy:
            self._gaussian_only("noisy")
        return super().sample_y(X, n_samples, random_state, noisy=noisy)

    def log_evidence_bounds(self, **options: Any) -> Any:
        """As `GaussianProcess.log_evidence_bounds`, for a Gaussian likelihood only."""
        self._fitted()
        self._gaussian_only("log_evidence_bounds")
        return super().log_evidence_bounds(**options)

    # ------------------------------------------------------------------ arguments

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _optimizers(self) -> tuple[str, ...]:
        return ("lbfgs", "adam", "natgrad")

    def _member(self) -> Member:
        return member("vfe")

    def _check_arguments(self) -> None:
        super()._check_arguments()
        choice("objective", self.objective, LOSSES)
        choice("hyperparameters", self.hyperparameters, HYPERPARAMETERS)
        choice("gradient", self.gradient, GRADIENTS)
        count("samples", self.samples)
        scalar(positive, "smoothing", self.smoothing)
        if self.gradient != "exact" and self.objective != "log-loss":
            raise ValueError(f"gradient: expected 'exact' for objective={self.objective!r}, got {self.gradient!r}")
        if self.gradient != "exact" and self.optimizer == "lbfgs":
            raise ValueError(
                f"gradient: expected 'exact' for optimizer='lbfgs', got {self.gradient!r}: every step has new samples, "
                "which suits 'adam' and 'natgrad'"
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

    def _gaussian_only(self, name: str) -> None:
        if not isinstance(self.likelihood_, Gaussian):
            raise ValueError(f"{name}: expected a Gaussian likelihood, got {self.likelihood_!r}")

    # ------------------------------------------------------------------ the start

    def _given(self, X: Float, Y: Float) -> Parameters:
        likelihood = self._checked_likelihood(Y)
        if isinstance(likelihood, Gaussian):
            return super()._given(X, Y)
        return replace(super()._given(X, _surrogate(likelihood, Y)), likelihood=likelihood)

    def _indirect(self, Y: Float) -> bool:
        """Whether f has other units than the targets: they are labels or counts."""
        return isinstance(self._checked_likelihood(Y), Bernoulli | Poisson)

    def _real(self, Y: Float) -> Float:
        """Real numbers near f."""
        return _surrogate(self._checked_likelihood(Y), Y)

    def _first_mean(self, X: Any, Y: Any) -> PriorMean | None:
        return super()._first_mean(X, self._real(Y))

    def _about(self, mean: PriorMean | None, X: Any, Y: Any) -> Any:
        return Y if self._indirect(Y) else super()._about(mean, X, Y)

    def _start(self, given: Parameters, X: Float, Y: Float, session: Session, attempt: int = 0) -> Parameters:
        """As in the base class; for other likelihoods by exact fits to real numbers that stand for the targets."""
        likelihood = given.likelihood
        if isinstance(likelihood, Gaussian) or not self._pilots:
            return super()._start(given, X, Y, session, attempt)
        real = self._about(given.prior_mean, X, self._real(Y)) if self._indirect(Y) else Y
        mean = real.mean()
        fit = super()._start(super()._given(X, real - mean), X, real - mean, session, attempt)
        kernel = fit.kernel
        if isinstance(kernel, Stationary) and "variance" not in self.fixed:  # the prior mean of f is 0
            logs = kernel.log_parameters
            logs[0] = np.log(kernel.max_variance + mean**2)
            kernel = within(self._training_limits(given), kernel.with_log_parameters(logs))
        if isinstance(likelihood, StudentT) and isinstance(self.likelihood, str):
            likelihood = replace(likelihood, scale=float(np.sqrt(fit.noise * (1.0 - 2.0 / likelihood.df))))
        if isinstance(likelihood, Bernoulli) and isinstance(kernel, Stationary) and "variance" not in self.fixed:
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
        return problem.with_goal(settles=self.batch_size is None)  # mini-batches begin at the prior

    def _trainer(self, problem: Any, start: Parameters, given: Parameters, session: Session, **more: Any) -> Trainer:
        trainer = super()._trainer(problem, start, given, session, **more)
        gaussian = isinstance(given.likelihood, Gaussian)
        raises = trainer.raises_noise and gaussian
        return replace(trainer, raises_noise=raises, natural_rate=self.natural_rate, sampling=self._sampling())

    def _sampling(self) -> Sampling | None:
        if self.gradient == "exact":
            return None
        constant = self.smoothing if self.gradient == "smooth-bmc" else 0.0
        return Sampling(self.gradient, Draws.of(0), self.samples, constant)

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        return outcome.remarks(self.runs_, self.batch_size is not None or self.gradient != "exact")

    def _stages(self) -> Stages:
        return Stages(self.hyperparameters == "joint", count("n_restarts", self.n_restarts, 0))

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, i)

        return self._stages().run(trainer, replace(start, Z=draw(start.kernel, 0)), draw)

    def _validated(self, trainer: Trainer, problem: Objective, start: Parameters) -> Betas:
        """β by validation on a fifth of the rows."""

        def draw(X: Float, Y: Float, kernel: Kernel) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, 0)

        return chosen_beta(self._stages(), trainer, problem, start, draw)

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
        return np.asarray(host(exactly("y", y)), dtype=np.float64)


def _untrained(trainer: Trainer, betas: Betas) -> Outcome:
    """The model that the search for β has kept, without training on all rows."""
    outcome = replace(trainer, optimizer=None).run("kept", betas.point)
    reason = "Interrupted while beta was chosen: the model of the best one so far is kept, not trained on all rows."
    return replace(outcome, run=replace(outcome.run, status="interrupted", reason=reason))


def _surrogate(likelihood: Likelihood, Y: Float) -> Float:
    """Real numbers that stand for the targets in exact fits: labels ±1, and log(y + ½) for counts."""
    if isinstance(likelihood, Bernoulli):
        return np.where(Y > 0.0, 1.0, -1.0)
    return np.log(Y + 0.5) if isinstance(likelihood, Poisson) else Y
