"""Rows in partitions: random rows on which an estimator bases its choices, and predictions of Dask collections."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fitting.rows.columns import Columns
from gpbounds.arrays import Float, exactly
from gpbounds.rows.dask_rows import one_chunk_of_columns

CHOOSING = 100_000
"""Number of rows among which inducing points are chosen; all rows, if there are no more."""

STREAM = 8
"""Stream of the random numbers that draw these rows; see the streams of `fitting.estimators.inducing`."""


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


# Predictions of Dask collections: the model goes to each chunk of rows.


def predictions_of_chunks(model: Any, X: Any, return_std: bool, noisy: bool, noise: Any = None) -> Any:
    """Means, and standard deviations if asked for, at a Dask array or dataframe: Dask arrays with its chunks of rows.

    Nothing is computed yet.
    """
    rows = one_chunk_of_columns("X", _without_names(model, X))
    from dask import delayed

    single, P = model.y_train_.ndim == 1, len(model.y_mean_)
    width = 2 * P if return_std else P
    both = rows.map_blocks(
        _at_chunk,
        model=delayed(_light(model), traverse=False),
        return_std=return_std,
        noisy=noisy,
        noise=noise,
        dtype=np.float64,
        chunks=(rows.chunks[0], (width,)),
        meta=np.empty((0, width)),
    )
    parts = [both[:, place] if single else both[:, place : place + P] for place in range(0, width, P)]
    return tuple(parts) if return_std else parts[0]


def _without_names(model: Any, X: Any) -> Any:
    """The Dask array of a Dask array or dataframe, whose columns must be those of training."""
    if not hasattr(X, "to_dask_array"):
        return X
    names, trained = [str(name) for name in X.columns], list(getattr(model, "feature_names_in_", ()))
    if trained and names != trained:
        raise ValueError(f"X: expected the columns {trained}, got {names}")
    return X.map_partitions(_in_doubles, meta=dict.fromkeys(X.columns, np.float64)).to_dask_array()


def _light(model: Any) -> Any:
    """A copy of ``model`` without the attributes that no prediction needs, such as the training rows."""
    light = copy.copy(model)
    for name in {"X_train_", "y_train_", "runs_", "history_", "feature_names_in_"} & vars(light).keys():
        delattr(light, name)
    return light


def _in_doubles(frame: Any) -> Any:
    """A partition of a dataframe with columns of doubles."""
    return type(frame)(exactly("X", frame), index=frame.index, columns=frame.columns)


def _at_chunk(block: Float, model: Any, return_std: bool, noisy: bool, noise: Any) -> Float:
    """The columns of means, and of standard deviations if asked for, of one chunk."""
    if len(block) == 0:
        return np.empty((0, len(model.y_mean_) * (2 if return_std else 1)))
    moments = model.predict(block, return_std, **({} if noise is None else {"noise": noise}), noisy=noisy)
    return np.column_stack(moments if return_std else [moments])
