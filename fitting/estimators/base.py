"""The base class of all estimators: scikit-learn's protocol around an objective, its training and its posterior."""

from __future__ import annotations

import copyreg
import math
import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from fitting.estimators import saving
from fitting.estimators.fingerprint import fingerprint, seed_of
from fitting.estimators.given_rows import table, targets
from fitting.estimators.partitioned import predictions_of_chunks, some_rows
from fitting.estimators.remarks import Remark, of_distance
from fitting.estimators.trainer import Outcome, Trainer
from fitting.features.stored import by_name
from fitting.objectives.goals import Evidence, Goal
from fitting.objectives.laws import ModelLaw, law_of
from fitting.objectives.objective import Member, Objective, at_point, data_of
from fitting.objectives.point import Minimised, Parameters
from fitting.objectives.unit_noise import at_rows, of_unit_rows
from fitting.prior_means import KINDS, PriorMean, Residuals, residuals
from fitting.rows.columns import Columns
from fitting.rows.data import Dataset, Held, nearest
from fitting.starts.pilot import SECOND, PilotFits, at_scale, numbers_of_rows
from fitting.starts.starts import (
    around,
    default_kernel,
    default_noise,
    mean_square,
    passed_kernel,
    spreads_from_zero,
    strides,
    units,
    with_noise_apart,
    within,
)
from fitting.training import Ending, Run, Session
from fitting.training.blocks import drawn_by_blocks
from fitting.training.passes import shown_passes
from gpbounds.arrays import (
    Array,
    DistinctRows,
    Float,
    as_points,
    exactly,
    host,
    is_constant,
    is_cupy,
    is_dask,
    kind_of_caller,
    namespace,
    place,
)
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite, shown, unpickled
from gpbounds.interval import Interval
from gpbounds.kernels import Constant, Kernel, Stationary
from gpbounds.kernels.families import Family
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg import eigen
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.means import LinearMean
from gpbounds.once import cached_property
from gpbounds.pacbayes import Scaling
from gpbounds.row_noise import UnitNoise, at_unit_noise, is_per_row, noise_of_rows
from gpbounds.rows import Source, is_elsewhere, source
from gpbounds.rows.copies import on_disk
from gpbounds.rows.source import changed, with_targets
from gpbounds.validation import (
    array_module,
    choice,
    count,
    flag,
    noise_variance,
    non_negative,
    positive,
    repetitions,
    scalar,
    within_memory,
)
from gpbounds.whitening import as_targets

# Rows as arrays: which an estimator takes, which it copies, and which it holds after training.


def own_points(X: Any, points: Any) -> Float:
    """A copy of the checked ``points`` of X; a memory map of doubles in C order stays on its disk."""
    if isinstance(X, np.memmap) and np.shares_memory(X, points) and points.flags.c_contiguous:
        return np.asarray(points)
    return np.array(points, order="C")


def in_memory(estimator: str, X: Any) -> None:
    """Refuse rows that are read by partitions, for an estimator of this name that needs all of them at once."""
    if is_elsewhere(X):
        raise ValueError(
            f"X: expected an array for {estimator}, which needs all rows in memory, got {type(X).__name__}: SparseGP, "
            "LowRankGP, SparsePACGP and VariationalGP read files and Dask collections"
        )


def _require_room(N: int) -> None:
    """Refuse so many rows that their covariance does not fit into memory, before it is computed."""
    try:
        np.empty((N, N))
    except (MemoryError, ValueError):
        raise ValueError(
            f"X: expected so few rows that their covariance fits into memory, got {N} rows, whose covariance takes "
            f"{8.0 * N**2 / 2**30:.0f} GiB: take fewer rows at a time"
        ) from None


def _held_rows(X: Float) -> Float:
    """The training rows ``X``, of which a model holds none if it read them by partitions: that is an error."""
    if len(X) == 0:
        raise ValueError(
            "model: expected one that was fitted to arrays, got one of rows that were read by partitions and are not "
            "held: pass them, log_evidence_bounds(X, y), or fit again to rows that fit into memory"
        )
    return X


@dataclass(eq=False)
class _Placed:
    """X (N, D) and y (N,) or (N, P) in host memory and on the device of ``xp``.

    Attributes
    ----------
    X, y : arrays
        In host memory.
    xp : module
    there : array (N, D) or None
        X on the device, if it is there already.
    """

    X: Any
    y: Any
    xp: Any
    there: Array | None = None

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """X and y on the device."""
        return place(self.X, self.xp) if self.there is None else self.there, place(self.y, self.xp)


# The base class of all estimators: scikit-learn's protocol around an objective, its training and its posterior.

GIVEN = "y stands for the targets minus the mean function of the prior."


_GROUPS = ("kernel", "mean", "all")
"""Names in ``fixed`` that stand for several parameters."""

FITTED = (
    "y stands for the targets minus the mean function of the prior, whose coefficients were trained on them; the bound "
    "holds for given targets, at these coefficients."
)


class _Arguments(BaseEstimator):
    """Arguments whose position each estimator decides, and attributes."""

    kernel: Kernel | str | None
    noise: Any
    n_features_in_: int
    kernel_: Kernel
    noise_: Any
    inducing_: Float
    mean_: LinearMean | tuple[LinearMean, ...] | None
    X_train_: Any
    y_train_: Any
    inputs_: Scaling
    sample_weight_: Float
    _weights: Any = None  # of rows, as they were passed, for the time of training
    _held: Held | None = None  # the rows that an engine holds, for the time of training
    _distance: float = 0.0  # of the targets minus the first prior mean from 0, in spreads


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianProcess(_Arguments):
    """A Gaussian process; use `ExactGP`, `RenyiGP` or `SparseGP`, and `VariationalGP` for other likelihoods.

    The prior mean is ``mean``, by default 0: pass targets near 0 then, or ``normalize_y=True``.  Outputs share the
    hyperparameters and are independent given them; each has a mean function of its own.

    Attributes
    ----------
    kernel_ : Kernel
    noise_ : float, or array (N,)
        σ².  Of a noise per row: the variances that were passed, in squared units of y.
    objective_ : float
        F at (kernel_, noise_, inducing_), in nats, for the targets as they were fitted (normalised or not).
    history_ : array
        F at the start and after each iteration of the best run; −inf where F had no value.
    stop_reason_ : str
    remarks_ : tuple of Remark
        Remarks on how training ended; each is also raised as a `ConvergenceWarning`.
    runs_ : tuple of Run
        All runs of the optimiser, from every start and in every round.
    n_iter_ : int
    jitter_ : float
        The number that was added to the diagonal of Kuu.
    posterior_ : Posterior
        The law of f minus ``mean_``, for the targets as they were fitted.
    mean_ : LinearMean, a tuple of P of them, or None
        The prior mean in the units of the model, for y (N,) or (N, P); None is 0.  Far from the data it is the
        prediction.
    y_mean_, y_scale_ : arrays (P,)
        The mean subtracted from and the scale divided out of each output: 0 and 1 without ``normalize_y``.
    X_train_, y_train_ : arrays
        The data as they were fitted, after scaling.
    n_features_in_ : int
    """

    optimizer: str | None = "lbfgs"
    max_iter: int = 1000
    tol: float | None = 0.01
    learning_rate: float = 0.05
    n_restarts: int = 0
    start: str = "auto"
    lengthscales: str = "auto"
    fixed: str | tuple[str, ...] = ()
    limits: dict[str, tuple[float, float]] | None = None
    normalize_y: bool = False
    mean: Any = "zero"
    random_state: Any = None
    device: str = "cpu"
    progress: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    _optimizers: ClassVar[tuple[str, ...]] = ("lbfgs", "adam")
    _many_optima: ClassVar[bool] = False  # so that the start decides where training ends
    _partitions: ClassVar[bool] = False  # whether `fit` takes rows that are read by partitions
    _blocking: ClassVar[Any] = None  # how rows are put into blocks of near ones, for objectives with such
    _one_noise: ClassVar[str] = ""  # why `noise` must be one number, if it must
    _subtracts_mean: ClassVar[bool] = False  # whether ``y_train_`` is what the prior mean leaves of the targets

    @abstractmethod
    def _member(self) -> Member:
        """The member of the family, from the checked arguments."""

    @abstractmethod
    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """Train from ``start`` (without inducing points); returns the best outcome and all runs."""

    @one_blas_thread()  # what is large runs in lanes; the bits do not depend on what other threads of the user do
    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Train on X (N, D) and y (N,) or (N, P): arrays; `SparseGP` and `LowRankGP` also read rows by partitions.

        Hyperparameters are searched in log space.  The model keeps the best point seen; after Ctrl-C, too, with a
        warning.  With ``progress`` a second bar shows the passes over partitions within an evaluation: how many of them
        the workers have finished.

        Parameters
        ----------
        X, y : arrays
            Or the path of a Parquet file or folder and the name of the column y (or a list of names); the paths of two
            .npy files; Dask arrays or dataframes.  See `gpbounds.rows.source`.  Rows may exceed the memory then:
            every evaluation reads them two or three times, and ``X_train_`` is empty.  Of more than 100 000 rows,
            so many choose inducing points and features; which, depends on ``random_state`` and on N only.
            Mini-batches, projections and features that are objects need single rows: such a model first copies them to
            a temporary memory map on this machine's disk, of 8·N·D bytes.
        client : distributed.Client, optional
            Where Dask computes; by default the current client, else its default scheduler.

        Raises
        ------
        ValueError
            for wrong arguments, NaN or infinity (with partition and rows), or a checkpoint of other data or settings.
        NotPositiveDefinite
            when a covariance does not factorise at the start of training.

        Warns
        -----
        ConvergenceWarning
            when all iterations were used, a line search failed, training was interrupted, or a hyperparameter lies on
            its limit.
        """
        self._check_arguments()
        with self._rows_of(X, y, client) as (points, columns):
            remarks = self._train(points, columns)
        self._remark(remarks)
        return self

    def _train(self, X: Float, Y: Float) -> list[Remark]:
        """Train on X (N, D) and Y (N, P) in the units of the model; sets the fitted attributes."""
        session = self._session()
        given, start = self._begun(X, Y, session)
        trainer = self._trainer(self._objective(), start, given, session)
        outcome, runs = self._search(trainer, start, X, Y)
        self._adopt(trainer.objective, outcome, runs)
        return self._remarks(outcome)

    def predict(
        self,
        X: ArrayLike | Array,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noisy: bool = False,
        noise: ArrayLike | None = None,
    ) -> Any:
        """Mean of the latent f at X (N*, D), and on request its standard deviation or covariance.

        ``return_std=True`` gives the standard deviation of f, without noise; ``noisy=True`` with it that of a new
        observation y = f + noise, as scikit-learn's regressor gives with a WhiteKernel.

        Parameters
        ----------
        X : array (N*, D), NumPy or CuPy
            The results live on the device of X.  For a Dask array or dataframe they are Dask arrays with its chunks of
            rows, of which nothing is computed yet.
        return_std, return_cov : bool
            At most one of the two may be True; no covariance for a Dask collection.
        noisy : bool
            True predicts new observations y = f + noise: σ² is added to the variances.
        noise : float or array (N*,), optional
            The noise variances of the new observations, in squared units of y; None: σ² of the model, which a model
            whose rows have a noise each does not know.

        Returns
        -------
        mean : array (N*,), or (N*, P) where y was (N, P)
        std : array of the same shape, or covariance (N*, N*), or (N*, N*, P)
            Where rounding may change a latent std by more than 1 %, and it cannot be computed anew, an upper end with a
            `gpbounds.errors.RoundingWarning` (N-small).
        """
        if not is_dask(X):
            return self._latent(X, return_std, return_cov, noisy=noisy, noise=noise)
        flag("return_std", return_std), flag("noisy", noisy)
        if flag("return_cov", return_cov):
            raise ValueError("return_cov: expected False for a Dask collection, whose rows no worker holds together")
        if noise is not None and np.ndim(noise):
            raise ValueError("noise: expected one number for a Dask collection, got one for each row")
        self._fitted()
        return predictions_of_chunks(self, X, return_std, noisy, noise)

    @kind_of_caller
    @one_blas_thread()
    def _latent(
        self,
        X: ArrayLike | Array,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noisy: bool = False,
        noise: ArrayLike | None = None,
    ) -> Any:
        if flag("return_std", return_std) & flag("return_cov", return_cov):
            raise ValueError("return_std, return_cov: expected at most one of them, got both")
        if noise is not None and not noisy:
            raise ValueError(
                "noise: expected None for predictions of f, got noise variances: pass noisy=True for those of y"
            )
        self._fitted()
        points = self._new_points(X)
        if return_cov:
            _require_room(len(points))
        inputs, xp, law = self._inputs(points), namespace(points), self.posterior_
        placed, labels = place(inputs, self._module()), self._labels(inputs)
        means_only = not (return_std or return_cov)
        options = {"full_cov": bool(return_cov), "noisy": flag("noisy", noisy), "blocks": labels}
        if noisy:
            options["noise"] = self._new_noise(noise, len(points))
        parts = [law.mean(placed, blocks=labels)] if means_only else law.predict(placed, **options)
        mean, *spread = (place(part, xp) for part in parts)
        mean = mean + self._mean_at(inputs)
        scale, shift = xp.asarray(self.y_scale_), xp.asarray(self.y_mean_)
        if mean.ndim == 1:
            scale, shift = float(self.y_scale_[0]), float(self.y_mean_[0])
        centre = mean * scale + shift
        if return_std:
            std = xp.sqrt(spread[0])
            return centre, (std if mean.ndim == 1 else std[:, None]) * scale
        if return_cov:
            return centre, (spread[0] if mean.ndim == 1 else spread[0][:, :, None]) * scale**2
        return centre

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
        """Joint draws of f (of y with ``noisy=True``, and ``noise`` as in `predict`) at X.

        The shape is (N*, n_samples), or (N*, P, n_samples).

        Negative eigenvalues of the covariance count as 0 if they are at most 1e-8 of the prior variance in absolute
        value.  A model on a device computes mean and covariance there; the host factorises them and makes the draws.
        """
        n, rng = count("n_samples", n_samples), np.random.default_rng(seed_of(random_state))
        mean, cov = (host(part) for part in self._latent(X, return_cov=True, noisy=noisy, noise=noise))
        single = mean.ndim == 1
        means = mean[:, None] if single else mean
        shared = (cov if single else cov[:, :, 0]) / self.y_scale_[0] ** 2
        points = place(self._inputs(self._new_points(X)), self._module())
        rounding = 1e-8 * self.posterior_.largest_prior_variance(points)
        eigenpairs = eigen(shared, "the predictive covariance", vectors=True, rounding=rounding)
        assert eigenpairs.vectors is not None
        with within_memory("n_samples"):
            normal = rng.standard_normal((len(shared), means.shape[1] * n))
        drawn = (eigenpairs.vectors * np.sqrt(eigenpairs.values) @ normal).reshape(*means.shape, n)
        drawn = means[:, :, None] + drawn * self.y_scale_[:, None]
        return drawn[:, 0] if single else drawn

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickles, which name a file that hides this package when they are read."""
        kind, state = type(self), self.__getstate__()
        if kind.__module__.partition(".")[0] != "fitting":
            return copyreg.__newobj__, (kind,), state  # type: ignore[attr-defined]
        return unpickled, (kind.__module__, kind.__qualname__), state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model and its data to one .npz file (arrays and JSON, with a version, no pickle)."""
        self._fitted()
        saving.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None, features: Any = None) -> Self:
        """The model in the file that `save` wrote, on ``device`` or on that of training; see `fitting.load`."""
        about, arrays = saving.read(path)
        getattr(sys.modules["fitting.estimators"], about["class"], None)  # the package loads its class of this name
        kinds = {kind.__name__: kind for kind in (cls, *_descendants(cls))}
        if about["class"] not in kinds:
            got = about["class"][:60]
            raise ValueError(f"path: expected a saved {cls.__name__}, got a {got} in {os.fspath(path)!r}")
        own = by_name(features)
        chosen: Any = about["arguments"].get("device", "cpu") if device is None else device
        array_module(chosen)  # an error about the device is none about the file
        with saving.refusing(path):
            arguments = saving.arguments(about, arrays, own) | {"device": chosen}
            model = kinds[about["class"]](**arguments)
            saving.restore(model, about, arrays)
            model.posterior_ = saving.posterior(model, arrays, own)
            saving.check(model)
        model._release()  # as after `fit`: a copy of the rows on a device, which no pickle takes
        return model

    # ------------------------------------------------------------------ data in, in the units of the model

    @contextmanager
    def _rows_of(self, X: Any, y: Any, client: Any) -> Iterator[tuple[Any, Any]]:
        """The rows of training in the units of the model, which are let go at the end."""
        if is_elsewhere(X) and is_per_row(self.noise):
            raise ValueError(
                "noise: expected one number for rows that are read by partitions, got one for each row: their noise "
                "would have to be read beside them; fit to arrays"
            )
        if not is_elsewhere(X) or not self._partitions:
            if client is not None:
                raise ValueError(
                    "client: expected None for arrays in memory, which this process computes with: make a Dask array"
                )
            yield self._take(X, y)
            self._release()
            return
        rows_of = self._from_disk if self._takes_single_rows() else self._by_partitions
        with rows_of(X, y, client) as taken:
            yield taken
        self._release()

    @contextmanager
    def _from_disk(self, X: Any, y: Any, client: Any) -> Iterator[tuple[Float, Float]]:
        """Rows that are read by partitions, copied to a memory map on this machine's disk first."""
        rows = source(X, y, client)
        self._check_source(rows)
        with on_disk(rows) as (points, targets):
            yield self._take(points, targets[:, 0] if rows.single else targets)
            self._drop_rows(rows.D, rows.P, rows.single)
        if rows.names:
            self.feature_names_in_ = np.array(rows.names, dtype=object)

    @contextmanager
    def _by_partitions(self, X: Any, y: Any, client: Any) -> Iterator[tuple[Columns, Columns]]:
        """Rows of which training sees sums over partitions, and the few that choose inducing points or features."""
        if array_module(self.device) is not np:  # type: ignore[arg-type]
            raise ValueError(f"device: expected 'cpu' for rows that are read by partitions, got {shown(self.device)}")
        with shown_passes(bool(self.progress)) as tell:
            self._forget()
            rows = source(X, y, client, tell=tell)
            self._check_source(rows)
            self.n_features_in_ = rows.D
            if rows.names:
                self.feature_names_in_ = np.array(rows.names, dtype=object)
            held = self._held_in_units(rows)
            try:
                self._held, points, targets = held
                self._prepare(points)  # type: ignore[arg-type]
                self.X_train_, self.y_train_ = points, targets  # for the time of training
                yield points, targets
            finally:
                self._held = None
                held[0].release()
                self._drop_rows(rows.D, rows.P, rows.single)

    def _drop_rows(self, D: int, P: int, single: bool) -> None:
        """Keep the shapes of the rows of training, and none of the rows."""
        self.X_train_, self.y_train_ = np.empty((0, D)), np.empty((0,) if single else (0, P))

    def _takes_single_rows(self) -> bool:
        """Whether training needs more than sums over partitions: it then reads a memory map on this machine's disk."""
        return getattr(self, "batch_size", None) is not None

    def _check_source(self, rows: Source) -> None:
        """Refuse rows, read by partitions, that this estimator does not take."""

    def _held_in_units(self, rows: Source) -> tuple[Held, Columns, Columns]:
        """The rows, X and Y, all in the units of the model."""
        self.y_mean_, self.y_scale_ = np.zeros(rows.P), np.ones(rows.P)
        if self.normalize_y:
            self.y_mean_, self.y_scale_ = rows.moments.mean[rows.D :], rows.moments.units[rows.D :]
        held = Held(rows.holder, rows.N, rows.D, rows.P, rows.single, self.y_mean_, self.y_scale_)
        return held, Columns(rows), Columns(rows, True, self.y_mean_, self.y_scale_)

    def _some(self, X: Any, Y: Any, session: Session) -> tuple[Float, Float]:
        """The rows by which inducing points or features are chosen, the same for arrays and for others."""
        return some_rows(X, Y, 0 if self.random_state is None else session.seed)

    def _take(self, X: Any, y: Any, **checking: Any) -> tuple[Float, Float]:
        """X (N, D) and Y (N, P) in host memory and in the units of the model; stored as ``X_train_`` and ``y_train_``.

        Data are checked as scikit-learn checks them.  Attributes of an earlier fit are deleted.
        """
        self._forget()
        in_memory(type(self).__name__, X)
        points, targets = self._checked(X, y, **checking)
        single = targets.ndim == 1
        points, columns = self._in_units(points, targets[:, None] if single else targets)
        self._prepare(points)
        self.X_train_, self.y_train_ = points, columns[:, 0] if single else columns
        self._take_noise()
        self._keep_placed(X)
        return points, columns

    def _take_noise(self) -> None:
        """Set ``noise_`` to the noise variances that were passed, if there is one for each row."""
        if not is_per_row(self.noise):
            return
        self.noise_ = noise_of_rows(exactly("noise", self.noise), len(self.X_train_)).copy()
        if np.unique(self.y_scale_).size > 1:
            raise ValueError(
                "normalize_y: expected False for a noise per row and several outputs, got True: each output is divided "
                "by a scale of its own, after which they have different noise"
            )

    @property
    def _row_noise(self) -> Float | None:
        """The noise variances of the rows of training in the units of the model; None where all rows share one."""
        noise = getattr(self, "noise_", None)
        return None if not is_per_row(noise) else noise / self.y_scale_[0] ** 2

    @property
    def _model_noise(self) -> Any:
        """``noise_`` in the units of the model."""
        noise = self._row_noise
        return self.noise_ if noise is None else noise

    def _new_noise(self, noise: Any, n: int) -> Any:
        """The noise of n new observations in the units of the model; None is that of the model."""
        if noise is None:
            return None
        given = positive("noise", exactly("noise", noise))
        if given.shape not in ((), (n,)):
            raise ValueError(f"noise: expected one number, or one for each of {n} rows of X, got shape {given.shape}")
        if np.unique(self.y_scale_).size > 1:
            raise ValueError(
                "noise: expected None for several outputs that were scaled by normalize_y, each by its own scale, got "
                "noise variances in squared units of y"
            )
        return given / self.y_scale_[0] ** 2

    def _forget(self) -> None:
        """Delete the results of an earlier fit."""
        for name in [key for key in vars(self) if key.endswith("_") and not key.startswith("_")]:
            delattr(self, name)

    def _checked(self, X: Any, y: Any, reset: bool = True) -> tuple[Float, Float]:
        """X and y as arrays of the estimator; without ``reset``, X must have the columns of the fit before."""
        many = bool(self.__sklearn_tags__().target_tags.multi_output)
        if is_cupy(X) or is_cupy(y):
            points = as_points(X, "X", None if reset else self.n_features_in_)
            columns = host(as_targets(y, points))
            if columns.ndim == 2 and not many:
                raise ValueError(f"y: expected one target for each row of X, shape (N,), got {tuple(columns.shape)}")
            self.n_features_in_ = int(points.shape[1])
            return host(points).astype(np.float64, order="C"), columns.astype(np.float64, order="C")
        from sklearn.utils.validation import validate_data

        given = table(self, X, reset=reset)
        passed = targets(self, y, given.shape[0])
        if passed.ndim == 2 and not many and passed.shape[1] > 1:
            raise ValueError(f"y: expected one target for each row of X, shape (N,), got {passed.shape}")
        points, columns = validate_data(
            self, given, passed, dtype=np.float64, y_numeric=True, multi_output=many, reset=reset
        )
        return own_points(X, points), np.array(columns, dtype=np.float64, order="C")

    def _in_units(self, X: Float, Y: Float) -> tuple[Float, Float]:
        """X (N, D) and Y (N, P) in the units of the model; sets ``y_mean_`` and ``y_scale_``."""
        P = Y.shape[1]
        self.y_mean_, self.y_scale_ = np.zeros(P), np.ones(P)
        if not self.normalize_y:
            return X, Y / self.y_scale_
        largest = np.abs(Y).max(axis=0)
        size = np.exp2(np.floor(np.log2(np.where(largest > 1e300, largest, 1.0))))  # so that sums do not overflow
        self.y_mean_, self.y_scale_ = (Y / size).mean(axis=0) * size, units(Y)
        with np.errstate(over="ignore"):
            rest = (Y - self.y_mean_) / self.y_scale_
        if not np.isfinite(rest).all():
            raise ValueError(f"y: expected numbers whose differences are doubles, got |y| up to {largest.max():.3g}")
        # what is left of a constant is the rounding of its mean
        return X, np.where(is_constant(rest.std(axis=0), largest / self.y_scale_), 0.0, rest)

    def _inputs(self, X: Array) -> Array:
        """X in the units of the model, on its own device; ``inputs_`` is the scaling that a certificate states."""
        scaling = getattr(self, "inputs_", None)
        if scaling is None:
            return X
        if not is_cupy(X):
            return scaling.apply(X)
        xp = namespace(X)
        return (X - xp.asarray(scaling.shift)) / xp.asarray(scaling.scale)

    def _prepare(self, X: Float) -> None:
        """Compute what depends on X only, before training."""

    def _new_points(self, X: Any) -> Array:
        """X (N*, D) as finite float64, on its own device."""
        if is_cupy(X):
            return as_points(X, "X", self.n_features_in_).astype(np.float64, copy=False)
        from sklearn.utils.validation import validate_data

        return validate_data(self, table(self, X, reset=False), dtype=np.float64, reset=False)

    def _module(self) -> Any:
        """The array module of the device on which the posterior lives."""
        return self.posterior_.module

    # ------------------------------------------------------------------ training

    def _check_arguments(self) -> None:
        self._member()
        if not self._subtracts_mean:
            self._check_mean()
        flag("normalize_y", self.normalize_y)
        flag("progress", self.progress)
        self._check_noise()
        scalar(positive, "learning_rate", self.learning_rate)
        if not isinstance(self.limits, Mapping | None):
            raise ValueError(f"limits: expected a dictionary of names with pairs (low, high), got {shown(self.limits)}")
        if not (isinstance(self.fixed, Collection) and all(isinstance(name, str) for name in self.fixed)):
            raise ValueError(f"fixed: expected a sequence of names, got {shown(self.fixed)}")
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise ValueError(f"checkpoint: expected a path, got {shown(self.checkpoint)}")
        if self.optimizer is not None:
            choice("optimizer", self.optimizer, self._optimizers)
        repetitions("n_restarts", self.n_restarts, 0)
        choice("start", self.start, ("auto", "evidence", "scale"))
        choice("lengthscales", self.lengthscales, ("auto", "separate", "shared"))
        choice("device", self.device, ("cpu", "cuda", "auto"))

    def _check_noise(self) -> None:
        if self.noise is None:
            return
        if not is_per_row(self.noise):
            noise_variance(self.noise)
        elif self._one_noise:
            shape = np.shape(self.noise)
            raise ValueError(
                f"noise: expected one number for {type(self).__name__}, got shape {shape}: {self._one_noise}"
            )

    def _data(self) -> Dataset:
        """The rows of training, as objectives take them: of unit noise, where each has a noise of its own."""
        if self._held is not None:
            return self._held
        X, y = self._placed()
        if len(X) == 0:  # a model in a file, of rows that were read by partitions: shapes are enough
            X, y = np.zeros((1, X.shape[1])), np.zeros((1, *y.shape[1:]))
        labels = self._labels(self.X_train_) if self._blocking is None else self._blocking.of(host(X))
        rows = self._unit_rows()
        if rows is not None:
            X, y = rows.X, rows.y
        return data_of(X, y, self._member(), blocks=labels)

    def _unit_rows(self) -> UnitNoise | None:
        """The rows of training at unit noise, where each has a noise of its own."""
        noise = self._row_noise
        return None if noise is None else at_unit_noise(Constant(), *self._placed(), noise)  # points have kernels

    def _objective(self) -> Any:
        """The objective of the training data; predictions have the shape of y."""
        return self._at_callers_rows(Objective(self._data(), *self._law_and_goal()))

    def _at_callers_rows(self, problem: Any) -> Any:
        """The objective of the caller's rows, from that of the rows of `_data`."""
        rows = self._unit_rows()
        return problem if rows is None else of_unit_rows(problem, rows)

    def _law_and_goal(self) -> tuple[ModelLaw, Goal]:
        """q, and what training minimises."""
        return law_of(self._member()), Evidence()

    def _labels(self, X: Array) -> Any:
        """For PIC the number of the nearest centre for each row, computed on the host, to which X is copied."""
        centres = getattr(self, "block_centres_", None)
        return None if centres is None else nearest(centres, host(X), self.block_units_)

    def _limits(self, kernel: Kernel) -> dict[str, tuple[float, float]]:
        """Limits of the hyperparameters of ``kernel`` and of the noise that the user has set."""
        return dict(self.limits or {})

    def _given(self, X: Float, Y: Float) -> Parameters:
        """The kernel and noise that the user passed, or those from the scale of the data, within the limits."""
        rows = self._row_noise
        kernel, noise = passed_kernel(self.kernel), None if rows is not None else self._passed_noise
        if kernel is None:
            kernel = default_kernel(X, Y)
            kernel = within(self._limits(kernel), kernel)
        elif isinstance(kernel, Family):
            kernel = kernel.at(mean_square(Y), units(X) * math.sqrt(X.shape[1]))
            kernel = within(self._limits(kernel), kernel)
        kernel, noise = with_noise_apart(kernel, noise)
        if self.start == "evidence":
            if not isinstance(kernel, Stationary):
                raise ValueError(
                    f"start: expected 'auto' or 'scale' for this kernel, got {shown(self.start)}, which varies the "
                    f"lengthscales of a squared exponential, Matérn or rational quadratic kernel, not of {kernel!r}"
                )
            if self.kernel is not None:
                kernel = at_scale(kernel, X, Y, self._limits(kernel), self._fixed_names(kernel))
        if rows is not None:
            if noise is not None:
                raise ValueError(
                    "kernel: expected one without White for a noise per row, which is not trained, got a White of "
                    f"variance {noise:g}: add this variance to ``noise``"
                )
            return at_rows(kernel, rows)
        if noise is None:
            noise = float(np.clip(default_noise(Y, kernel, X), *self._limits(kernel).get("noise", (0.0, np.inf))))
        return at_point(kernel, float(positive("noise", noise)))

    def _begun(self, X: Float, Y: Float, session: Session) -> tuple[Parameters, Parameters]:
        """`_given` and `_start` for the targets minus the prior mean, which both points hold."""
        mean = self._first_mean(X, Y)
        if mean is not None and "mean" in self._fixed_names():
            mean = mean.held
        self._mean_of_start = mean
        about = self._about(mean, X, Y)
        self._distance = self._spreads_from_mean(mean, X, Y)
        given = replace(self._given(X, about), prior_mean=mean)
        return given, self._start(given, X, about, session)

    def _fixed_names(self, kernel: Kernel | None = None, names: Sequence[str] = ()) -> tuple[str, ...]:
        """The names in ``fixed``: "kernel" stands for those of ``kernel``, "all" for ``names`` and the mean."""
        groups = {"kernel": () if kernel is None else kernel.parameter_names, "all": (*names, "mean")}
        given = (self.fixed,) if isinstance(self.fixed, str) else self.fixed
        return tuple(dict.fromkeys(each for name in given for each in groups.get(name, (name,))))

    @property
    def _passed_noise(self) -> float | None:
        """The noise that the user passed, as such or in a likelihood."""
        likelihood = getattr(self, "likelihood", None)
        return likelihood.noise if isinstance(likelihood, Gaussian) else self.noise

    @property
    def _pilots(self) -> bool:
        """Whether training starts from the best of several fits of some rows."""
        if self.start != "auto":
            return self.start == "evidence"
        kernel = passed_kernel(self.kernel)
        smooth = kernel is None or (isinstance(kernel, Family) and kernel.is_stationary)
        return smooth and self.optimizer is not None

    @property
    def _tied(self) -> bool:
        """Whether the lengthscales of all inputs keep their ratios."""
        return self.lengthscales == "shared"

    def _start(
        self, given: Parameters, X: Float, Y: Float, session: Session, attempt: int = 0, prefix: str = ""
    ) -> Parameters:
        """``given``, or the best of several fits of some rows; attempt 1 has more rows.

        With a ``prefix`` of the names of these fits their lengthscales keep their ratios.
        """
        if not self._pilots:
            return given
        names = (*given.kernel.parameter_names, *given.likelihood.parameter_names)
        held = (*self._fixed_names(given.kernel, names), *(() if self._passed_noise is None else ("noise",)))
        fixed = tuple(name for name in names if name in held)  # the likelihood that is trained may have others
        limits = {name: pair for name, pair in self._training_limits(given).items() if name in names}
        seed = 0 if self.random_state is None else session.seed
        on_host = array_module(self.device) is np  # type: ignore[arg-type]
        there = None if on_host else partial(self._some_placed, X, Y)
        tied = self._tied or bool(prefix)
        fits = PilotFits(X, Y, given, *self._rows, seed, self._many_optima, limits, fixed, session, there, tied, prefix)
        best = fits.second() if attempt else fits.start()
        best = replace(best, prior_mean=given.prior_mean, power=given.power)
        return best if self._row_noise is None else replace(best, likelihood=given.likelihood)  # of all rows

    @property
    def _rows(self) -> tuple[int, int]:
        """Numbers of rows of a first pilot fit and of a second one."""
        return numbers_of_rows(self.X_train_.shape, self._rank(len(self.X_train_)))

    def _others(self, given: Parameters, session: Session) -> list[Callable[[], Parameters]]:
        """Further starts, for when training ends where everything is noise: a pilot fit of more rows, and ``given``."""
        X, y = self.X_train_, self.y_train_
        again = self._rows[0] < self._rows[1] and SECOND not in session.runs  # else training has started from it
        columns = self._about(given.prior_mean, X, y[:, None] if y.ndim == 1 else y)
        more = [lambda: self._start(given, X, columns, session, 1)] if again else []
        return [*more, lambda: given] if self._pilots else []

    def _rank(self, N: int) -> int:
        """The number m for which a step of training costs about as much as N·m values of the kernel."""
        return max(N // 4, 1)

    def _training_limits(self, given: Parameters) -> dict[str, tuple[float, float]]:
        return {**around(given.kernel, given.likelihood, self._distance), **self._limits(given.kernel)}

    def _session(self) -> Session:
        """The runs of this training, and its seed."""
        X, y = self.X_train_, self.y_train_
        label = fingerprint(self, X, y[:, None] if y.ndim == 1 else y) if self.checkpoint else ""
        session = Session(self.checkpoint, label, seed_of(self.random_state))
        self._seed = session.seed
        return session

    def _trainer(
        self, problem: Minimised, start: Parameters, given: Parameters, session: Session, **more: Any
    ) -> Trainer:
        """The trainer of ``problem`` with the settings of this estimator; ``more`` are further ones, or others."""
        X, y = self.X_train_, self.y_train_
        known = (*given.kernel.parameter_names, *given.likelihood.parameter_names)
        for name in self.limits or {}:
            if name not in known:
                raise ValueError(f"limits: expected names among {', '.join(known)}, got {name!r}")
        fixed = self._fixed_names(given.kernel, known)
        held = () if self._row_noise is None else ("noise",)  # a noise per row is fixed, also where nobody says so
        for name in fixed:
            if name not in (*known, *held, *_GROUPS):
                groups = ", ".join(map(repr, _GROUPS))
                raise ValueError(f"fixed: expected names among {', '.join(known)}, or {groups}, got {name!r}")
        return Trainer(
            objective=problem,
            N=X.shape[0],
            optimizer=self.optimizer,
            max_iter=count("max_iter", self.max_iter),
            learning_rate=scalar(positive, "learning_rate", self.learning_rate),
            batch_size=self._batch(X.shape[0]),
            by_blocks=drawn_by_blocks(X, y, self._batch(X.shape[0])),
            limits=self._training_limits(given),
            fixed=tuple(name for name in fixed if name in known),
            learn_Z=bool(getattr(self, "learn_inducing", False)),
            scale=strides(start.kernel, X) if hasattr(self, "learn_inducing") else np.ones(X.shape[1]),
            session=session,
            seed=0 if self.random_state is None and self.optimizer == "lbfgs" else session.seed,
            progress=bool(self.progress),
            square=mean_square(self._about(given.prior_mean, X, y)),
            otherwise=self._others(given, session),
            raises_noise=self._pilots
            and self._passed_noise is None
            and "noise" not in fixed
            and isinstance(given.likelihood, Gaussian),
            **{"ending": Ending(self._tolerance(), float(X.shape[0]), "nats per datum"), "tied": self._tied, **more},
        )

    def _tolerance(self) -> float:
        return 0.0 if self.tol is None else scalar(non_negative, "tol", self.tol)

    def _batch(self, N: int) -> int | None:
        size = getattr(self, "batch_size", None)
        if size is None:
            return None
        if self.optimizer in (None, "lbfgs"):
            taking = " or ".join(f"optimizer={name!r}" for name in self._optimizers if name != "lbfgs")
            raise ValueError(
                f"batch_size: expected None for optimizer={self.optimizer!r}, whose steps need all rows, got {size!r}: "
                f"pass {taking} as well"
            )
        return count("batch_size", size) if count("batch_size", size) < N else None

    def _adopt(self, problem: Any, outcome: Outcome, runs: list[Run]) -> None:
        point, run = outcome.parameters, outcome.run
        problem = problem.about(self._set_mean(point, problem.data.single))
        self.kernel_ = point.kernel
        if self._row_noise is None:
            self.noise_ = point.noise
        if point.Z is not None:
            self.inducing_ = host(point.Z)
        self.posterior_ = problem.posterior(point.kernel, point.noise, point.Z)
        self.jitter_ = float(getattr(self.posterior_, "jitter", 0.0))
        self.objective_ = run.value
        if self._batch(len(self.X_train_)) is not None:
            self.objective_ = problem.evaluate(point.kernel, point.noise, point.Z, gradient=False).value
        self.history_, self.stop_reason_, self.runs_ = np.array(run.values), run.reason, tuple(runs)
        self.n_iter_ = max(run.iterations, 1)
        problem.data.space.release()

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        return outcome.remarks(self.runs_, getattr(self, "batch_size", None) is not None, self.start)

    def _remark(self, remarks: list[Remark]) -> None:
        """Store the remarks, and raise each as a warning."""
        others = () if self.normalize_y or hasattr(self, "sample_weight_") else ("normalize_y=True",)
        remarks = [*of_distance(self._distance, others), *remarks]
        self.remarks_, self._distance = tuple(remarks), 0.0
        for remark in remarks:
            warnings.warn(remark.text, ConvergenceWarning, stacklevel=4)  # the caller of `fit`

    def _fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "posterior_")

    # ------------------------------------------------------------------ the rows on the device of training

    def _placed(self) -> tuple[Array, Array]:
        """The training data on the device of training."""
        rows: _Placed | None = vars(self).get("_placed_rows")
        if rows is None or rows.X is not self.X_train_ or rows.y is not self.y_train_:
            xp = array_module(self.device)  # type: ignore[arg-type]
            rows = self._placed_rows = _Placed(self.X_train_, self.y_train_, xp)
        return rows.arrays

    def _keep_placed(self, X: Any) -> None:
        """Keep the checked array X of the training data if training runs where it is."""
        xp = array_module(self.device)  # type: ignore[arg-type]
        if is_cupy(X) and xp is not np and len(X) == len(self.X_train_):  # no row was left out
            there = self._inputs(as_points(X, finite=False).astype(np.float64))  # a copy: the user's may change
            self._placed_rows = _Placed(self.X_train_, self.y_train_, xp, there)

    def _some_placed(self, X: Float, Y: Float, numbers: Array) -> tuple[Array, Array]:
        """Some rows of X and Y (N, P), which may be the training data, on the device of training."""
        xp = array_module(self.device)  # type: ignore[arg-type]
        if xp is np or X is not self.X_train_ or not np.may_share_memory(Y, self.y_train_):
            return place(X[numbers], xp), place(Y[numbers], xp)
        (points, targets), chosen = self._placed(), xp.asarray(numbers)
        return points[chosen], targets[chosen].reshape(len(numbers), -1)

    def _release(self) -> None:
        """Free the memory of the device at the end of a fit."""
        self.__dict__.pop("_placed_rows", None)

    # ------------------------------------------------------------------ the prior mean

    def _check_mean(self) -> None:
        if not (isinstance(self.mean, LinearMean) or (isinstance(self.mean, str) and self.mean in KINDS)):
            words = ", ".join(map(repr, KINDS))
            raise ValueError(f"mean: expected {words} or a gpbounds.means.LinearMean, got {shown(self.mean)}")

    def _first_mean(self, X: Any, Y: Any) -> PriorMean | None:
        """The prior mean at the start of training: given, or by least squares; None for 0."""
        if isinstance(self.mean, LinearMean):
            return PriorMean.of((self.mean,) * Y.shape[1], X.shape[1])
        return None if self.mean == "zero" else PriorMean.least_squares(self.mean, X, self._real(Y))

    def _real(self, Y: Any) -> Any:
        """Y itself, or real numbers near f where f has other units than the targets: labels or counts."""
        return Y

    def _about(self, mean: PriorMean | None, X: Any, Y: Any) -> Any:
        """The targets Y minus a prior mean; Y itself where f has other units."""
        if isinstance(Y, Columns):
            return Y.about(mean)
        return residuals(mean, X, Y) if self._real(Y) is Y else Y

    def _spreads_from_mean(self, mean: PriorMean | None, X: Any, Y: Any) -> float:
        """The distance of the targets Y from the prior mean in spreads; 0 where f has other units than the targets."""
        return spreads_from_zero(self._about(mean, X, Y)) if self._real(Y) is Y else 0.0

    def _set_mean(self, point: Parameters, single: bool) -> PriorMean | None:
        """Set ``mean_`` to the prior mean of ``point``, and return it as a given function of the inputs."""
        functions = None if point.prior_mean is None else point.prior_mean.functions()
        self.mean_ = functions[0] if functions is not None and single else functions
        return self._fitted_mean()

    def _fitted_mean(self) -> PriorMean | None:
        """``mean_`` as a function of the inputs, in the units of the model."""
        if getattr(self, "mean_", None) is None:
            return None
        functions = self.mean_ if isinstance(self.mean_, tuple) else (self.mean_,)
        return PriorMean.of(functions, self.n_features_in_)  # type: ignore[arg-type]

    def _mean_of_targets(self) -> PriorMean | None:
        """What ``posterior_`` leaves out of ``y_train_``."""
        return None if self._subtracts_mean else self._fitted_mean()

    def _mean_at(self, X: Array) -> Array | float:
        """The prior mean at inputs in the units of the model: shape (n, P), or (n,) where y was (N,)."""
        mean = self._fitted_mean()
        if mean is None:
            return 0.0
        return mean(X) if isinstance(self.mean_, tuple) else mean(X)[:, 0]

    # ------------------------------------------------------------------ bounds on the evidence

    def log_evidence_bounds(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """Lower and upper bound on log p(y) at the trained kernel, noise and mean, by `gpbounds.renyi.evidence`.

        They hold for the targets as they were fitted, of which they see y − ``mean_``, and sum over P outputs: for
        given y they hold for every mean, also for one that was fitted to these rows.

        Parameters
        ----------
        X, y : as in `fit`, optional
            The rows of training, for a model that read them by partitions and holds none.  The bounds are then those
            in O(NM²) (``members="cheap"``).
        options
            Passed on: members, work, alphas, block, and Z for other inducing points.  By default they are as sharp as
            `gpbounds audit`: some 10 s of a core at 10 000 rows and above.  ``members="cheap"`` takes the time of an
            objective or two, and ``notes`` of the bounds say what is left out.  The computation runs on the device of
            the model.

        Unless ``options`` have Z, jitter or rigor, an objective that is a lower bound on log p(y), its ``structure`` of
        K − Q included, is a member for rows in memory: the lower bound is below it by its rounding at most, which is
        part of ``terms``, or a note says by how much.
        """
        from gpbounds.renyi import evidence
        from gpbounds.renyi.escalation import sharper

        self._fitted()
        if X is not None:
            if self._row_noise is not None:
                raise ValueError(
                    "X: expected None for a model with a noise per row, which holds its rows, got rows to be read"
                )
            given = source(X, y)
            if given.D != self.n_features_in_:
                raise ValueError(
                    f"X: expected {self.n_features_in_} column(s), as the rows of training have, got {given.D}"
                )
            rows = self._kernel_inputs(self._as_fitted(given))
            if "Z" not in options:
                options["Z"] = self._inducing_for(rows)
            return self._of_residuals(evidence(self.kernel_, rows, None, noise=self.noise_, **options))
        points, targets = self._residuals()
        settings = {"Z": self._inducing_for(points), "jitter": "auto", **options}
        settings["Z"] = place(settings["Z"], self._module())
        pair = evidence(self.kernel_, points, targets, noise=self._model_noise, **settings)
        member = None if {"Z", "jitter", "rigor"} & set(options) else self._own_member(pair.lower.terms["jitter"])
        if member is None:
            return self._of_residuals(pair)
        name, chosen = member
        own = settings | {"jitter": self.jitter_, "alphas": (1.0,)} | chosen  # no bound is below this ELBO
        try:
            other = evidence(self.kernel_, points, targets, noise=self._model_noise, **own)
            pair = sharper(other, pair)
            note = _unproved(other.lower.terms[name], pair.lower, self.jitter_)
        except (NotPositiveDefinite, ValueError) as error:
            note = f"The ELBO with the model's jitter, {self.jitter_:.3g}, has no proved error: {error}"
        if note:
            pair = Interval(*(replace(end, notes=(*end.notes, note)) for end in pair))
        return self._of_residuals(pair)

    def _own_member(self, jitter: float) -> tuple[str, dict[str, Any]] | None:
        """The member of `evidence` that is the objective, and options; None if the one with ``jitter`` is larger."""
        penalty, blocking = self._member().penalty, self._blocking
        if penalty is None:
            return None if self.jitter_ >= jitter else ("elbo 1", {"members": "cheap"})  # less jitter, a larger ELBO
        if blocking is None:
            return None if self.jitter_ == jitter else (penalty, {"members": "cheap"})  # it may move either way
        rung = "conditioned" if penalty == "vecchia" else "blocks"
        return rung, {"members": ("trace", rung), "block": blocking.of(host(self.X_train_))}

    def _of_residuals(self, bounds: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
        """Bounds for y minus the prior mean, which say so."""
        if self._mean_of_targets() is None:
            return bounds
        about = GIVEN if isinstance(self.mean, LinearMean) else FITTED
        lower, upper = (replace(bound, assumptions=(*bound.assumptions, about)) for bound in bounds)
        return lower, upper

    def _residuals(self) -> tuple[Array, Array]:
        """The rows of training as inputs of ``kernel_``, and their targets minus the prior mean, on the device."""
        X, xp = _held_rows(self.X_train_), self._module()
        return place(self._kernel_inputs(X), xp), place(residuals(self._mean_of_targets(), X, self.y_train_), xp)

    def _kernel_inputs(self, X: Any) -> Any:
        """Rows X in the units of the model, an array or a source, as inputs of ``kernel_``."""
        return X

    def _inducing_for(self, X: Any) -> Float:
        """Inducing points of `log_evidence_bounds` for rows X, which are inputs of ``kernel_``."""
        if hasattr(self, "inducing_"):
            return self.inducing_
        rows = self._kernel_inputs(_held_rows(self.X_train_)) if isinstance(X, Source) else X
        return DistinctRows.of(host(rows)).rows

    def _as_fitted(self, rows: Source) -> Source:
        """Raw rows in the units of the model, with targets minus the prior mean."""
        own, mean = with_targets(rows, self.y_mean_, self.y_scale_), self._fitted_mean()
        return own if mean is None else changed(own, Residuals(mean))


def _unproved(value: float, lower: Bound, jitter: float) -> str:
    """A sentence if the ``lower`` bound is below the objective's ``value`` by more than the rounding that it states."""
    below = value - float(lower)
    if below <= lower.terms["rounding"] + 1e-9 * abs(value):
        return ""
    return (
        f"The objective with the model's jitter, {jitter:.3g}, is {value:.8g} in doubles, but its proved error is more"
        f" than it gains: the lower bound is {below:.3g} below it."
    )


def _descendants(cls: type) -> list[type]:
    children: list[type] = cls.__subclasses__()
    return [each for child in children for each in (child, *_descendants(child))]
