"""Rows as arrays: which an estimator takes, which it copies, and which it holds after training."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float, exactly, is_frame
from gpbounds.sources import is_elsewhere


def for_sklearn(X: Any) -> Any:
    """X through `gpbounds.arrays.exactly`, before scikit-learn converts it; a table keeps the names of its columns."""
    given = exactly("X", X)
    return X if is_frame(X) else given


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


def held_rows(X: Float) -> Float:
    """The training rows ``X``, of which a model holds none if it read them by partitions: that is an error."""
    if len(X) == 0:
        raise ValueError(
            "model: expected one that was fitted to arrays, got one of rows that were read by partitions and are not "
            "held: pass them, log_evidence_bounds(X, y), or fit again to rows that fit into memory"
        )
    return X
