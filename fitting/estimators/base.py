"""What the three estimators share: scikit-learn's protocol around one member of the family."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from fitting.backend import array_module, host, place
from fitting.estimators import saving
from fitting.estimators.fingerprint import seed_of
from fitting.estimators.inputs import new_points, training_data
from fitting.estimators.sampling import normal_draws
from fitting.estimators.starting import starting_point, trainer_of
from fitting.estimators.trainer import Outcome, Trainer
from fitting.family import Member, Objective, objective
from fitting.parameters import Parameters
from fitting.starts import units
from fitting.training import Run
from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import Kernel
from gpbounds.validation import choice, count


class GaussianProcess(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression; use `ExactGP`, `RenyiGP` or `SparseGP`.

    The prior mean is 0: give targets about 0, or say ``normalize_y=True``.  Outputs are independent given the
    hyperparameters, which they share.

    Attributes
    ----------
    kernel_ : Kernel
    noise_ : float
        σ².
    objective_ : float
        F at (kernel_, noise_, inducing_), in nats, of the targets as they were fitted (normalised if asked for).
    history_ : array
        F at the start and after each iteration of the run that won; −inf where it had no value.
    stop_reason_ : str
    runs_ : tuple of Run
        All runs of the optimiser: those of every start and of every round.
    n_iter_ : int
    jitter_ : float
        What was added to the diagonal of Kuu.
    posterior_ : Posterior
        The predictive law, for the targets as they were fitted.
    y_mean_, y_scale_ : arrays (P,)
        What normalising subtracted and divided by: 0 and 1 unless asked for.
    X_train_, y_train_ : arrays
        The data as they were fitted.
    n_features_in_ : int
    """

    kernel: Kernel | None
    noise: float | None
    optimizer: str | None
    max_iter: int
    tol: float
    learning_rate: float
    n_restarts: int
    fixed: tuple[str, ...]
    limits: dict[str, tuple[float, float]] | None
    normalize_y: bool
    random_state: Any
    device: str
    progress: bool
    checkpoint: str | os.PathLike[str] | None

    @abstractmethod
    def _member(self) -> Member:
        """The member of the family, from the checked arguments."""

    @abstractmethod
    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """Train from ``start`` (without inducing points): the outcome that stays, and every run."""

    def _bracket_inducing(self) -> Float:
        """Inducing points of `log_evidence_bounds`."""
        return self.inducing_

    def _bracket_options(self) -> dict[str, Any]:
        return {}

    def fit(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Self:
        """Train on X (N, D) and y (N,) or (N, P).

        Hyperparameters are searched in log space.  The best point seen stays, also after Ctrl-C, with a warning.

        Raises
        ------
        ValueError
            for wrong arguments, NaN or infinity, or a checkpoint of other data.
        NotPositiveDefinite
            when a covariance does not factorise where training starts.

        Warns
        -----
        ConvergenceWarning
            when iterations ran out, nothing better was found, training was interrupted, or a hyperparameter sits on
            its limit.
        """
        member = self._member()
        self._check_arguments()
        self._forget()
        points, columns = self._settled(*training_data(self, X, y))
        start = starting_point(self, points, columns)
        trainer = trainer_of(self, lambda A, B: self._objective(member, A, B), points, columns, start)
        outcome, runs = self._search(trainer, start, points, columns)
        self._adopt(trainer, outcome, runs)
        for sentence in self._complaints(outcome):
            warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
        return self

    def predict(
        self, X: ArrayLike | Array, return_std: bool = False, return_cov: bool = False, *, noisy: bool = False
    ) -> Any:
        """Mean of f at X (N*, D), and its standard deviation or covariance if asked for.

        Parameters
        ----------
        X : array (N*, D), NumPy or CuPy
            The answer lives where X does.
        return_std, return_cov : bool
            At most one of the two.
        noisy : bool
            True for the law of new observations y = f + noise: σ² is added to the variances.

        Returns
        -------
        mean : array (N*,), or (N*, P) where y was (N, P)
        std : array of the same shape, or covariance (N*, N*), or (N*, N*, P)
        """
        if return_std and return_cov:
            raise ValueError("return_std, return_cov: expected at most one of them, got both")
        self._fitted()
        points = new_points(self, X)
        here, labels = place(self._inputs(points), namespace(self._home())), self._labels(points)
        mean, spread = self.posterior_.predict(here, full_cov=return_cov, noisy=noisy, blocks=labels)
        xp = namespace(points)
        mean, spread = place(mean, xp), place(spread, xp)
        scale, shift = xp.asarray(self.y_scale_), xp.asarray(self.y_mean_)
        if mean.ndim == 1:
            scale, shift = float(self.y_scale_[0]), float(self.y_mean_[0])
        centre = mean * scale + shift
        if return_std:
            std = xp.sqrt(spread)
            return centre, (std if mean.ndim == 1 else std[:, None]) * scale
        if return_cov:
            return centre, (spread if mean.ndim == 1 else spread[:, :, None]) * scale**2
        return centre

    def sample_y(
        self, X: ArrayLike | Array, n_samples: int = 1, random_state: Any = 0, *, noisy: bool = False
    ) -> Float:
        """Draws of f (of y with ``noisy``) at X jointly; shape (N*, n_samples), or (N*, P, n_samples).

        Eigenvalues of the covariance below 1e-8 of the prior's variance in absolute value that are negative count as 0.
        With a model on a device mean and covariance are computed there; they come to the host once, where they are
        factorised and draws are made.
        """
        n, rng = count("n_samples", n_samples), np.random.default_rng(seed_of(random_state))
        mean, cov = (host(part) for part in self.predict(X, return_cov=True, noisy=noisy))
        single = mean.ndim == 1
        means = mean[:, None] if single else mean
        shared = (cov if single else cov[:, :, 0]) / self.y_scale_[0] ** 2
        drawn = normal_draws(shared, 1e-8 * self.kernel_.max_variance, (means.shape[1], n), rng)
        drawn = means[:, :, None] + drawn * self.y_scale_[:, None]
        return drawn[:, 0] if single else drawn

    def log_evidence_bounds(self, **options: Any) -> Any:
        """Lower and upper bound on log p(y) of the trained kernel and noise: `gpbounds.renyi.evidence`.

        Of the targets as they were fitted; P outputs add.  ``options`` are those of `gpbounds.renyi.evidence`: members,
        alphas, block, and Z for other inducing points.  The work is done where the model is.
        """
        from gpbounds.renyi import evidence

        self._fitted()
        xp = namespace(self._home())
        given: dict[str, Any] = {"Z": self._bracket_inducing(), "jitter": "auto", **self._bracket_options(), **options}
        given["Z"] = place(given["Z"], xp)
        return evidence(self.kernel_, place(self.X_train_, xp), place(self.y_train_, xp), noise=self.noise_, **given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model, data included, to one .npz file (arrays and JSON, versioned, no pickle)."""
        self._fitted()
        saving.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> Self:
        """The model in the file that `save` wrote, on ``device`` or where it was; see `fitting.load`."""
        about, arrays = saving.read(path)
        kinds = {kind.__name__: kind for kind in (cls, *_descendants(cls))}
        if about["class"] not in kinds:
            raise ValueError(f"path: expected a saved {cls.__name__}, got a {about['class']} in {os.fspath(path)!r}")
        given = saving.arguments(about, arrays) | ({} if device is None else {"device": device})
        model = kinds[about["class"]](**given)
        saving.restore(model, about, arrays)
        xp = array_module(model.device)
        columns = model.y_train_[:, None] if model.y_train_.ndim == 1 else model.y_train_
        problem = model._objective(model._member(), place(model.X_train_, xp), place(columns, xp))
        model.posterior_ = saving.posterior(arrays, problem, model, xp)
        return model

    # ------------------------------------------------------------------ what subclasses and `fit` need

    def _forget(self) -> None:
        """Delete what an earlier fit left."""
        for name in [key for key in vars(self) if key.endswith("_") and not key.startswith("_")]:
            delattr(self, name)

    def _settled(self, X: Float, y: Float) -> tuple[Float, Float]:
        """X and y (N, P) in the units of the model, kept as ``X_train_`` and ``y_train_``."""
        single = y.ndim == 1
        points, columns = self._inputs(X), self._normalised(y[:, None] if single else y)
        self._prepare(points)
        self.X_train_, self.y_train_ = points, columns[:, 0] if single else columns
        return points, columns

    def _inputs(self, X: Array) -> Array:
        """X in the units of the model, where it lives."""
        return X

    def _limits(self, kernel: Kernel) -> dict[str, tuple[float, float]]:
        """What hyperparameters of ``kernel`` and the noise may be, where that is not left to the start."""
        return dict(self.limits or {})

    def _check_arguments(self) -> None:
        if self.optimizer is not None:
            choice("optimizer", self.optimizer, ("lbfgs", "adam"))
        count("n_restarts", self.n_restarts, 0)
        choice("device", self.device, ("cpu", "cuda", "auto"))

    def _batch(self, N: int) -> int | None:
        size = getattr(self, "batch_size", None)
        if size is None:
            return None
        if self.optimizer != "adam":
            raise ValueError(f"batch_size: expected None unless optimizer='adam', got {size!r} for {self.optimizer!r}")
        return count("batch_size", size) if count("batch_size", size) < N else None

    def _objective(self, member: Member, X: Array, Y: Array) -> Objective:
        """F of rows X (n, D), Y (n, P); predictions have the shape that y came in."""
        return objective(X, Y[:, 0] if self.y_train_.ndim == 1 else Y, member, blocks=self._partition())

    def _partition(self) -> Any:
        """Labels of blocks, for PIC."""
        return None

    def _prepare(self, X: Float) -> None:
        """What is settled by X before training."""

    def _labels(self, X: Array) -> Any:
        return None

    def _home(self) -> Array:
        """An array that lives where the posterior does."""
        posterior: Any = self.posterior_
        return posterior.inducing.Z

    def _fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "posterior_")

    def _normalised(self, Y: Float) -> Float:
        P = Y.shape[1]
        self.y_mean_, self.y_scale_ = np.zeros(P), np.ones(P)
        if self.normalize_y:
            self.y_mean_, self.y_scale_ = Y.mean(axis=0), units(Y)
        return (Y - self.y_mean_) / self.y_scale_

    def _adopt(self, trainer: Trainer, outcome: Outcome, runs: list[Run]) -> None:
        where, run = outcome.parameters, outcome.run
        problem = trainer.make(trainer.X, trainer.Y)
        self.kernel_, self.noise_ = where.kernel, where.noise
        if where.Z is not None:
            self.inducing_ = host(where.Z)
        self.posterior_ = problem.posterior(where.kernel, where.noise, where.Z)
        self.jitter_ = float(getattr(self.posterior_, "jitter", 0.0))
        self.objective_ = run.value
        if trainer.batch_size is not None:
            self.objective_ = problem.evaluate(where.kernel, where.noise, where.Z, gradient=False).value
        self.history_, self.stop_reason_, self.runs_ = np.array(run.values), run.reason, tuple(runs)
        self.n_iter_ = max(run.iterations, 1)
        problem.space.release()

    def _complaints(self, outcome: Outcome) -> list[str]:
        """What the user should know of how training ended, sentence by sentence."""
        return outcome.complaints(self.runs_, getattr(self, "batch_size", None) is not None)


def _descendants(cls: type) -> list[type]:
    found: list[type] = []
    children: list[type] = cls.__subclasses__()
    for child in children:
        found += [child, *_descendants(child)]
    return found
