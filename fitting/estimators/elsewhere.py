"""Estimators that read rows by partitions: from Parquet and .npy files, and from Dask collections."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fitting.objectives.objective import Objective, objective
from fitting.prior_means import Residuals
from fitting.rows.columns import Columns
from fitting.rows.data import Held
from fitting.training import Session
from fitting.training.passes import shown_passes
from gpbounds.arrays import Array, Float, exactly, is_dask
from gpbounds.rows import Source, is_elsewhere, source
from gpbounds.rows.copies import on_disk
from gpbounds.rows.dask_rows import one_chunk_of_columns
from gpbounds.rows.engines import Tell
from gpbounds.rows.source import changed, with_targets
from gpbounds.validation import array_module

CHOOSING = 100_000
"""Number of rows among which inducing points are chosen; all rows, if there are no more."""

STREAM = 8
"""Stream of the random numbers that draw these rows; see the streams of `fitting.estimators.inducing`."""


if TYPE_CHECKING:
    from fitting.estimators.base import GaussianProcess as Base
else:
    Base = object  # a `GaussianProcess` would undo the defaults of the estimators that come after it in the order


class FromElsewhere(Base):
    """The part of an estimator that reads rows by partitions; before other estimators, behind mixins of a protocol."""

    _held: Held | None = None
    _client: Any = None
    _tell: Tell | None = None

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Train on X (N, D) and y (N,) or (N, P): arrays, or rows that are read by partitions.

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
        if client is not None and not is_elsewhere(X):
            raise ValueError(
                "client: expected None for arrays in memory, which this process computes with: make a Dask array"
            )
        if not is_elsewhere(X):
            return super().fit(X, y)
        if self._takes_single_rows():
            return self._fit_on_disk(source(X, y, client))
        self._client = client
        try:
            with shown_passes(bool(self.progress)) as self._tell:
                return super().fit(X, y)
        finally:
            held, self._held, self._client, self._tell = self._held, None, None, None
            if held is not None:
                held.release()
                self.X_train_, self.y_train_ = np.empty((0, held.D)), np.empty((0,) if held.single else (0, held.P))

    def predict(
        self, X: ArrayLike | Array, return_std: bool = False, return_cov: bool = False, *, noisy: bool = False
    ) -> Any:
        """Mean of the latent f at X (N*, D), and on request its standard deviation or covariance.

        Parameters
        ----------
        X : array (N*, D), NumPy or CuPy
            The results live on the device of X.  For a Dask array or dataframe they are Dask arrays with its chunks of
            rows, of which nothing is computed yet.
        return_std, return_cov : bool
            At most one of the two may be True; no covariance for a Dask collection.
        noisy : bool
            True predicts new observations y = f + noise: σ² is added to the variances.

        Returns
        -------
        mean : array (N*,), or (N*, P) where y was (N, P)
        std : array of the same shape, or covariance (N*, N*), or (N*, N*, P)
        """
        if not is_dask(X):
            return super().predict(X, return_std, return_cov, noisy=noisy)
        if return_cov:
            raise ValueError("return_cov: expected False for a Dask collection, whose rows no worker holds together")
        self._fitted()
        rows = one_chunk_of_columns("X", self._without_names(X))
        from dask import delayed

        single, P = self.y_train_.ndim == 1, len(self.y_mean_)
        width = 2 * P if return_std else P
        both = rows.map_blocks(
            _predicted,
            model=delayed(self._light(), traverse=False),
            return_std=return_std,
            noisy=noisy,
            dtype=np.float64,
            chunks=(rows.chunks[0], (width,)),
            meta=np.empty((0, width)),
        )
        parts = [both[:, place] if single else both[:, place : place + P] for place in range(0, width, P)]
        return tuple(parts) if return_std else parts[0]

    def log_evidence_bounds(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        """Lower and upper bound on log p(y) at the trained kernel, noise and mean, by `gpbounds.renyi.evidence`.

        They hold for the targets as they were fitted, of which they see y − ``mean_``, and sum over P outputs.

        Parameters
        ----------
        X, y : as in `fit`, optional
            The rows of training, for a model that read them by partitions and holds none.  The bounds are then those
            in O(NM²) (``members="cheap"``).
        options
            Passed on: members, alphas, block, and Z for other inducing points.  The computation runs on the device of
            the model.
        """
        if X is None:
            return super().log_evidence_bounds(**options)
        from gpbounds.renyi import evidence

        self._fitted()
        rows = self._as_fitted(source(X, y))
        if "Z" not in options:
            options["Z"] = self._inducing_of(rows)
        return self._of_residuals(evidence(self.kernel_, rows, None, noise=self.noise_, **options))

    def _as_fitted(self, rows: Source) -> Source:
        """Raw rows as inputs of ``kernel_``, and targets of the model minus the prior mean."""
        own, mean = with_targets(rows, self.y_mean_, self.y_scale_), self._fitted_mean()
        return own if mean is None else changed(own, Residuals(mean))

    def _inducing_of(self, rows: Source) -> Float:
        """Inducing points of `log_evidence_bounds` for rows that are read by partitions."""
        return self.inducing_

    def _without_names(self, X: Any) -> Any:
        """The Dask array of a Dask array or dataframe, whose columns must be those of training."""
        if not hasattr(X, "to_dask_array"):
            return X
        names, trained = [str(name) for name in X.columns], list(getattr(self, "feature_names_in_", ()))
        if trained and names != trained:
            raise ValueError(f"X: expected the columns {trained}, got {names}")
        return X.map_partitions(_in_doubles, meta=dict.fromkeys(X.columns, np.float64)).to_dask_array()

    def _light(self) -> Self:
        """This model without what predictions of arrays do not need."""
        light = copy.copy(self)
        for name in {"X_train_", "y_train_", "runs_", "history_", "feature_names_in_"} & vars(light).keys():
            delattr(light, name)
        return light

    # ------------------------------------------------------------------ the steps of training

    def _takes_single_rows(self) -> bool:
        """Whether training needs more than sums over partitions: it then reads a memory map on this machine's disk."""
        return False

    def _check_source(self, rows: Source) -> None:
        """Refuse rows that this estimator does not take."""

    def _fit_on_disk(self, rows: Source) -> Self:
        """As `fit`, for rows that are copied to a memory map first."""
        self._check_arguments()
        self._check_source(rows)
        with on_disk(rows) as (points, targets):
            super().fit(points, targets[:, 0] if rows.single else targets)
            self.X_train_, self.y_train_ = np.empty((0, rows.D)), np.empty((0,) if rows.single else (0, rows.P))
        if rows.names:
            self.feature_names_in_ = np.array(rows.names, dtype=object)
        return self

    def _take(self, X: Any, y: Any, **checking: Any) -> tuple[Any, Any]:
        if not is_elsewhere(X):
            return super()._take(X, y, **checking)
        self._forget()
        self._check_elsewhere()
        rows = source(X, y, self._client, tell=self._tell)
        self.n_features_in_ = rows.D
        if rows.names:
            self.feature_names_in_ = np.array(rows.names, dtype=object)
        self._held, points, targets = self._in_units(rows)
        self._prepare(points)  # type: ignore[arg-type]
        self.X_train_, self.y_train_ = points, targets  # for the time of training
        return points, targets

    def _in_units(self, rows: Source) -> tuple[Held, Columns, Columns]:
        """The rows, X and Y, all in the units of the model."""
        self.y_mean_, self.y_scale_ = np.zeros(rows.P), np.ones(rows.P)
        if self.normalize_y:
            self.y_mean_, self.y_scale_ = rows.moments.mean[rows.D :], rows.moments.units[rows.D :]
        held = Held(rows.holder, rows.N, rows.D, rows.P, rows.single, self.y_mean_, self.y_scale_)
        return held, Columns(rows), Columns(rows, True, self.y_mean_, self.y_scale_)

    def _check_elsewhere(self) -> None:
        """Refuse arguments with which rows cannot be read by partitions."""
        if array_module(self.device) is not np:  # type: ignore[arg-type]
            raise ValueError(f"device: expected 'cpu' for rows that are read by partitions, got {self.device!r}")

    def _objective(self) -> Any:
        if self._held is not None:
            return Objective(self._held, *self._law_and_goal())
        if len(self.X_train_) > 0:
            return super()._objective()
        D, outputs = self.X_train_.shape[1], self.y_train_.shape[1:]  # a model in a file, which needs shapes only
        return objective(np.zeros((1, D)), np.zeros((1, *outputs)), self._member())

    def _some(self, X: Any, Y: Any, session: Session) -> tuple[Float, Float]:
        """The rows by which inducing points or features are chosen, the same for arrays and for others."""
        return some_rows(X, Y, 0 if self.random_state is None else session.seed)


def some_rows(X: Any, Y: Any, seed: int) -> tuple[Float, Float]:
    """All rows, or `CHOOSING` of them, which depend on the number of rows and ``seed`` only."""
    N = len(X)
    if N <= CHOOSING and not isinstance(X, Columns):
        return X, Y
    numbers = np.arange(N)
    if N > CHOOSING:
        rng = np.random.default_rng([seed & (2**63 - 1), STREAM])
        numbers = np.sort(rng.choice(N, CHOOSING, replace=False))
    return X[numbers], Y[numbers]


def _in_doubles(frame: Any) -> Any:
    """A partition of a dataframe with columns of doubles."""
    return type(frame)(exactly("X", frame), index=frame.index, columns=frame.columns)


def _predicted(block: Float, model: FromElsewhere, return_std: bool, noisy: bool) -> Float:
    """The columns of means, and of standard deviations if asked for, of one chunk."""
    if len(block) == 0:
        return np.empty((0, len(model.y_mean_) * (2 if return_std else 1)))
    moments = model.predict(block, return_std, noisy=noisy)
    return np.column_stack(moments if return_std else [moments])
