"""Low-rank Gaussian processes with trained features: Fourier, Mercer, Hilbert-space, or a map that the user wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fitting.divergence import LowRankKL, low_rank_kl
from fitting.estimators.base import GaussianProcess
from fitting.estimators.partitioned import some_rows
from fitting.estimators.regression import Regression
from fitting.estimators.trainer import Outcome, Trainer
from fitting.features import Composed, FeatureKernel, FourierMap, MixedMap, Projection, Scaled
from fitting.features.base import TrainedMap
from fitting.features.choices import ORDERS, even, of_families
from fitting.features.hilbert_space import Box
from fitting.features.mixed import require_lines
from fitting.features.named import NAMES, approximated, chosen_again, named_map
from fitting.features.objects import check_features, trained_map
from fitting.features.transform import Projected, kernel_map
from fitting.objectives.goals import Evidence, ExpectedLosses, Goal
from fitting.objectives.laws import FreeLaw, LowRankLaw, ModelLaw
from fitting.objectives.objective import Member, Objective, at_point, member
from fitting.objectives.packing import Packing
from fitting.objectives.point import Parameters
from fitting.prior_means import residuals
from fitting.rows.columns import Columns
from fitting.starts.starts import choose_inducing, mean_square, passed_kernel, units, with_noise_apart
from fitting.training import Run, Session
from fitting.training.adam import Stale
from gpbounds.arrays import Float, host
from gpbounds.bound import UP
from gpbounds.errors import shown
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.families import Family
from gpbounds.lowrank.features.mercer import on_grid
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.rows import Source, is_elsewhere, source
from gpbounds.rows.source import changed
from gpbounds.validation import choice, count, positive

RANK = 100
"""Columns of features that have a name, where no rank is given."""

ROUNDS = 3
"""Largest number of trainings with ``order="best"``; each has the leading eigenfunctions where the one before ended."""

SCHEMES = ("variational", "semi-stochastic")

FREQUENCIES, WEIGHTS = 6, 7
"""Streams of random numbers; batches, restarts, inducing points, draws and pilot fits use streams 1 to 5."""


@dataclass(eq=False, repr=False)
class LowRankGP(Regression, GaussianProcess):
    """Gaussian process y ~ N(0, ΞΞᵀ + σ²I) with r features in each row of Ξ; its objective is log p(y).

    A step takes O(Nr²) time and O(r² + r·chunk + N) memory.  There is no residual K − Q: far from the data the variance
    is that of the features, less than that of the kernel which they approximate.

    Parameters
    ----------
    features : "fourier", "leverage", "mercer", "hilbert", or an object
        "fourier": cosines and sines of random frequencies, which are drawn once; the hyperparameters are trained.
        "leverage": frequencies of large ridge leverage at the start of training are drawn more often; squared
        exponential only.  "mercer": eigenfunctions of the squared exponential kernel under normal inputs.
        "hilbert": products of sines that vanish at 1.5 times the half widths of the least box around the rows, for
        squared exponential and Matérn kernels; inputs beyond are an error.  `fitting.features.Hilbert` takes other
        factors, boxes and numbers per dimension.
        An object is a `fitting.features.MLP`, with which the kernel is deep, or any other
        `fitting.features.FeatureMap`; its parameters and a factor ("variance") of ΞΞᵀ are trained.
    rank : int, optional
        r, number of columns of Ξ, at most the number of rows; 300 frequencies are rank 600.  None: 100.  "hilbert" has
        m_d functions in dimension d, in several dimensions with Πm_d ≤ r, such that the highest frequencies are nearly
        equal in lengthscales of the start.  An object has
        its own: another number is an error.
    kernel : Kernel, optional
        As in `ExactGP`, of the projected inputs if there is a projection.  "fourier" takes functions of x − x' with
        known frequencies: SquaredExponential, Matern, RationalQuadratic, Periodic and Constant, their sums and
        products, and kernels on columns.  The frequencies of a sum are shared equally by its terms; those of a
        rational quadratic kernel are smooth functions of its shape, which is trained; a periodic kernel has lines,
        whose weights depend on its lengthscale: those of largest weight at the start, or in a product random lines,
        whose weights become more uneven as the lengthscale moves away from the start.
    noise : float, optional
        As in `ExactGP`.
    dim : int, optional
        d: the kernel is one of the standardised projection z = (x − mean)W of the inputs to d dimensions, and W (D, d)
        is trained.  None: a kernel of all columns of x.  With a projection several starts help (``n_restarts``), as the
        evidence has several optima.
    order : "degree", "best" or "grid"
        For "mercer", which eigenfunctions are kept: by total degree as in the paper; those of the largest eigenvalues,
        chosen again after each of at most three trainings; or rank^(1/d) for each dimension.  Other features have no
        such choice, and any but the default is an error.
    batch_size : int, optional
        Rows of a mini-batch, for optimizer="adam" and one output.  log p(y) is the maximum over q(v) of the ELBO
        (`ExpectedLosses`), which each step estimates from random rows: a natural-gradient step for q, and Adam's for
        all else.  The point that is best on one fixed batch is kept, and a pass over all rows computes its
        ``objective_`` and its posterior.
    scheme : "variational" or "semi-stochastic"
        How mini-batches train weights, as those of a network.  "variational": as ``batch_size`` says.
        "semi-stochastic" (Al-Shedivat et al., 2017; Daskalakis et al., supplement D.2): a pass over all rows computes
        log p(y), its derivatives and q; the weights then take a step for each batch at this q, and all else one step
        (`fitting.training.adam.train_semi_stochastic`).  ``max_iter`` counts passes then, and the point with the
        largest log p(y) is kept.
    optimizer, max_iter, tol, learning_rate, n_restarts, start, lengthscales, fixed, limits, normalize_y, mean, \
random_state, device, progress, checkpoint : as in `ExactGP`
        ``random_state`` also draws the frequencies and the start of W.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that the features approximate; for an object, ΞΞᵀ itself.
    feature_kernel_ : FeatureKernel
        φ(x)ᵀφ(x'), the covariance function of the model.
    projection_ : array (D, d)
        W, for which z has the variance 1 in each dimension; with ``dim`` only.
    frequencies_ : array (r/2, d)
        In radians per unit of x or z; with Fourier features only.

    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = LowRankGP("fourier", rank=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1)
    True
    """

    features: Any = "fourier"
    rank: int | None = None
    kernel: Kernel | str | None = None
    noise: float | None = None
    _one_noise: ClassVar[str] = (
        "its sums over features count all rows alike; SparseGP and ExactGP take one for each row"
    )
    dim: int | None = field(default=None, kw_only=True)
    order: str = field(default="degree", kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)
    scheme: str = field(default="variational", kw_only=True)
    _partitions: ClassVar[bool] = True

    # ------------------------------------------------------------------ arguments

    @property
    def _named(self) -> bool:
        return isinstance(self.features, str)

    @property
    def _columns(self) -> int:
        """The rank r for features given by name."""
        return RANK if self.rank is None else int(self.rank)

    def _member(self) -> Member:
        return member("dtc")

    def _check_arguments(self) -> None:
        super()._check_arguments()
        choice("order", self.order, ORDERS)
        choice("scheme", self.scheme, SCHEMES)
        if self.scheme != SCHEMES[0] and self.batch_size is None:
            raise ValueError(f"scheme: expected {SCHEMES[0]!r} without batch_size, got {shown(self.scheme)}")
        if self.rank is not None:
            count("rank", self.rank)
        if self.dim is not None:
            count("dim", self.dim)
        if not self._named:
            check_features(self.features)
            for name in ("kernel", "dim"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: expected None for features that are an object, got {getattr(self, name)}"
                    )
            self._without_order("features that are an object", "; an object has its own, such as Mercer(20, order=...)")
            return
        choice("features", self.features, NAMES)
        kernel = passed_kernel(self.kernel)
        if isinstance(kernel, Family):
            kernel = kernel.at(1.0, np.ones(1), shared=True)
        if self.features != "mercer":
            self._without_order(f"features={self.features!r}", "")
        if self.features != "fourier":
            families = (SquaredExponential, *((Matern,) if self.features == "hilbert" else ()))
            of_families("kernel", kernel, repr(self.features), families)
        elif kernel is not None:
            require_lines(with_noise_apart(kernel, self.noise)[0])
        if self.features not in ("mercer", "hilbert"):
            even("rank", self._columns)

    def _without_order(self, kind: str, instead: str) -> None:
        if self.order != ORDERS[0]:
            raise ValueError(
                f"order: expected {ORDERS[0]!r} for {kind}, got {shown(self.order)}: it chooses among the "
                f"eigenfunctions of 'mercer'{instead}"
            )

    def _prepare(self, X: Float) -> None:
        N, D = X.shape
        if self._named:
            _at_most_rows(self._columns, N)
        if self.dim is not None and self.dim > D:
            raise ValueError(f"dim: expected at most the number of columns of X, {D}, got {self.dim}")
        if self._named and self.features == "mercer" and self.order == "grid":
            on_grid(self.dim or D, self._columns)
        self._projection = None if self.dim is None else Projection.of(X, self.dim)

    # ------------------------------------------------------------------ the start

    @property
    def _pilots(self) -> bool:
        return self._named and super()._pilots

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self._seed & (2**63 - 1), *stream])

    def _weights(self, X: Float, Y: Float, i: int) -> Float:
        """W at start i."""
        assert self._projection is not None
        return self._projection.first(X, Y, self._rng(WEIGHTS, i))

    def _projected(self, X: Float, Y: Float, i: int = 0) -> Float:
        """The inputs of the kernel at start i."""
        return X if self._projection is None else self._projection.project(self._weights(X, Y, i), X)

    def _given(self, X: Float, Y: Float) -> Parameters:
        if self._named:
            inputs = self._projected(X, Y)
            given = super()._given(inputs, Y)
            given.kernel.diag(inputs[np.arange(1)])  # a kernel of another dimension is an error
            return given
        kernel = self._of_object(Y)
        noise = 0.1 * mean_square(Y) if self.noise is None else float(positive("noise", self.noise))
        return at_point(kernel, noise)

    def _of_object(self, Y: Float, i: int = 0) -> FeatureKernel:
        """The covariance function of features that are an object, at start i."""
        X, y = self._placed()
        y = residuals(self._mean_of_start, X, y)
        rng = self._rng(WEIGHTS, i)
        features = trained_map(self.features, X, y[:, None] if y.ndim == 1 else y, rng)
        if self.rank not in (None, features.rank):
            raise ValueError(
                f"rank: expected None or {features.rank}, the number of features of {self.features!r}, got "
                f"{self.rank}: an object has its own"
            )
        _at_most_rows(features.rank, len(Y))
        kernel = FeatureKernel(features, features.start(X, rng))
        if not isinstance(features, Scaled):
            return kernel
        mean = max(float(kernel.diag(X).mean()), 1e-300)
        return kernel.with_log_parameters(np.array([math.log(mean_square(Y) / mean)]))

    def _start(
        self, given: Parameters, X: Float, Y: Float, session: Session, attempt: int = 0, prefix: str = ""
    ) -> Parameters:
        return super()._start(given, self._projected(X, Y), Y, session, attempt, prefix)

    def _rank(self, N: int) -> int:
        return self._columns

    # ------------------------------------------------------------------ training

    def _law_and_goal(self) -> tuple[ModelLaw, Goal]:
        return LowRankLaw(), Evidence()

    def _takes_single_rows(self) -> bool:
        return not self._named or self.dim is not None or super()._takes_single_rows()

    def _by_batches(self, trainer: Trainer, start: Parameters) -> Trainer:
        """The trainer of the ELBO, whose maximum over q is log p(y), by mini-batches."""
        problem: Any = trainer.objective
        if problem.data.P != 1:
            raise ValueError(f"batch_size: expected None for {problem.data.P} outputs, got {self.batch_size}")
        bound = replace(problem, law=FreeLaw(), goal=ExpectedLosses(start.likelihood))
        if self.scheme == SCHEMES[0]:
            return replace(trainer, objective=bound, optimizer="natgrad")
        size = trainer.batch_size
        assert size is not None
        return replace(trainer, stale=lambda packing: stale(problem, bound, packing, size))

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        if trainer.batch_size is not None:
            trainer = self._by_batches(trainer, start)
        box = self._box(X) if self._named and self.features == "hilbert" else None
        X, Y = self._some(X, Y, trainer.session)
        Y = self._about(start.prior_mean, X, Y)

        def redraw(point: Parameters, i: int) -> Parameters:
            if self._named:
                return self._featured(point, X, Y, i, box)
            if i == 0 or not hasattr(self.features, "prepare"):
                return point
            return replace(point, kernel=self._of_object(Y, i).with_log_parameters(point.kernel.log_parameters))

        outcomes = trainer.best_of("low rank", redraw(start, 0), self.n_restarts, redraw)
        best, runs = outcomes[0], [outcome.run for outcome in outcomes]
        if not (self._named and self.features == "mercer" and self.order == "best") or trainer.optimizer is None:
            return best, runs
        current = best
        for i in range(1, ROUNDS):
            point, again = current.parameters, chosen_again(current.parameters.kernel, self._columns, self.order)
            if again is None or runs[-1].status == "interrupted":
                break
            current = trainer.run(f"low rank round {i}", replace(point, kernel=again, q=None))
            runs.append(current.run)
            best = max(best, current, key=lambda outcome: outcome.run.value)
        return best, runs

    def _box(self, X: Any) -> Box:
        """A box that contains the kernel's inputs of all rows; those of a projection for all its weights."""
        if self._projection is None:
            return Box.around(X)
        return Box(np.zeros(self._projection.dim), np.full(self._projection.dim, UP * self._projection.reach(X)))

    def _featured(self, point: Parameters, X: Float, Y: Float, i: int, box: Box | None) -> Parameters:
        """``point`` with features of its kernel, and with W of start i."""
        kernel = point.kernel
        if isinstance(kernel, FeatureKernel):
            kernel = kernel_map(kernel.features).kernel_at(kernel.parameters)
        inputs = self._projected(X, Y, i)
        mean, stds = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
        if self._projection is None:
            mean, stds = _centre(inputs), units(inputs)
        rng = self._rng(FREQUENCIES)
        law: dict[str, Any] = {"order": self.order, "mean": mean, "stds": stds}
        inner = named_map(self.features, kernel, self._columns, inputs, rng, noise=point.noise, box=box, **law)
        features: TrainedMap = inner
        parameters = kernel.log_parameters
        if self._projection is not None:
            weights = self._weights(X, Y, i)
            features = Composed(inner, self._projection, weights)
            parameters = np.concatenate([parameters, weights])
        return replace(point, kernel=FeatureKernel(features, parameters))

    def _adopt(self, problem: Any, outcome: Outcome, runs: list[Run]) -> None:
        point, run = outcome.parameters, outcome.run
        problem = problem.about(self._set_mean(point, problem.data.single))
        self.noise_, self.jitter_ = point.noise, 0.0
        self.posterior_ = problem.posterior(point.kernel, point.noise)
        self.kernel_ = approximated(self.feature_kernel_)
        self.objective_ = run.value
        if self._batch(len(self.X_train_)) is not None:
            self.objective_ = problem.evaluate(point.kernel, point.noise, gradient=False).value
        self.history_, self.stop_reason_, self.runs_ = np.array(run.values), run.reason, tuple(runs)
        self.n_iter_ = max(run.iterations, 1)
        problem.data.space.release()

    # ------------------------------------------------------------------ the trained model

    @property
    def feature_kernel_(self) -> FeatureKernel:
        """φ(x)ᵀφ(x'), the covariance function of the model."""
        posterior: Any = self.posterior_
        return posterior.kernel

    @property
    def projection_(self) -> Float:
        """W (D, d)."""
        features = self.feature_kernel_.features
        if not (isinstance(features, Composed) and isinstance(features.transform, Projection)):
            raise AttributeError("projection_: this model has no linear projection")
        return features.transform.matrix(self.feature_kernel_.weights)

    @property
    def frequencies_(self) -> Float:
        """ω (r/2, d), in radians per unit of x or z."""
        kernel = self.feature_kernel_
        inner = None if isinstance(kernel.features, Scaled) else kernel_map(kernel.features)
        if not isinstance(inner, FourierMap | MixedMap):
            raise AttributeError("frequencies_: this model has no Fourier features")
        return inner.at(kernel.parameters[: inner.size]).frequencies

    @cached_property
    def kl_bound_(self) -> LowRankKL:
        """KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) on the training inputs, bounded and computed (`LowRankKL`).

        K is the matrix of ``kernel_``.  For hyperparameters fitted to these data, ``exact`` and ``residual`` remain
        true; ``prior`` is not proved.  Computed when it is read for the first time; the exact divergence takes O(N³).
        An object other than an `MLP` with kernel features has no such kernel, which is an error.
        """
        self._fitted()
        if len(self.X_train_) == 0:
            raise AttributeError(
                "kl_bound_: expected a model of rows in memory, got one of rows read by partitions, which it does not "
                "hold: pass them, kl_bound_of(X, y)"
            )
        if isinstance(self.feature_kernel_.features, Scaled):
            raise AttributeError("kl_bound_: expected features of a kernel, got an object")
        return low_rank_kl(self.feature_kernel_, self.X_train_, noise=self.noise_)

    def kl_bound_of(self, X: Any, y: Any = None) -> LowRankKL:
        """As ``kl_bound_``, on the inputs of rows that are passed.

        ``residual`` is the trace of a matrix and takes one pass over any rows; ``prior`` needs only their number;
        ``exact`` needs all of K and is None above 5000 rows.

        Parameters
        ----------
        X, y : as in `fit`
            The rows of training, for a model that read them by partitions; y may be missing for arrays.

        Raises
        ------
        ValueError
            for features that are an object without a kernel.
        """
        self._fitted()
        self._of_kernel("kl_bound_of")
        rows = source(X, y) if is_elsewhere(X) else self._new_points(X)
        return low_rank_kl(self.feature_kernel_, rows, noise=self.noise_)

    def _kernel_inputs(self, X: Any) -> Any:
        self._of_kernel("log_evidence_bounds")
        kernel = self.feature_kernel_
        if not isinstance(kernel.features, Composed):
            return X
        transform, weights = kernel.features.transform, kernel.weights
        return changed(X, Projected(transform, weights)) if isinstance(X, Source) else transform.project(weights, X)

    def _inducing_for(self, X: Any) -> Float:
        """As many inducing points as features, among the rows X."""
        points = some_rows(Columns(X), Columns(X, True), 0)[0] if isinstance(X, Source) else host(X)
        rank, rng = self.feature_kernel_.features.rank, np.random.default_rng(0)
        return choose_inducing(self.kernel_, points, rank, "greedy", rng)

    def _of_kernel(self, purpose: str) -> None:
        """Refuse features that are an object."""
        if isinstance(self.feature_kernel_.features, Scaled):
            raise ValueError(f"features: expected those of a kernel for {purpose}, got an object")


def stale(problem: Objective, bound: Objective, packing: Packing, size: int) -> Stale:
    """The losses of the semi-stochastic scheme for log p(y) of ``problem`` and the ELBO ``bound`` of the same rows.

    Raises
    ------
    ValueError
        for features without weights.
    """
    kernel: Any = packing.start.kernel
    total = kernel.weights.size
    if not total:
        raise ValueError(
            f"scheme: expected {SCHEMES[0]!r} for features without weights, as batches would train nothing, got "
            f"{SCHEMES[1]!r}"
        )

    def held(vector: Float) -> Callable[[Float, Any], Float]:
        point = bound.complete(packing.unpack(vector))
        kernel: Any = point.kernel

        def slopes(weights: Float, rows: Any) -> Float:
            gradient = bound.batch(rows).minimised(replace(point, kernel=kernel.with_weights(weights))).gradient
            assert gradient is not None
            assert gradient.weights is not None
            return gradient.weights

        return slopes

    first = packing.names.index("weight[0]")
    return Stale(packing.loss(problem), held, slice(first, first + total), problem.N, size)


@within_doubles
def _centre(X: Float) -> Any:
    return X.mean(axis=0)


def _at_most_rows(rank: int, N: int) -> None:
    if rank > N:
        raise ValueError(
            f"rank: expected at most the number of rows, {N}, got {rank}: an exact GP costs less than such features"
        )
