"""Data as a user gives them, checked as scikit-learn checks them; CuPy arrays by `gpbounds.arrays`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, as_points, host, is_cupy
from gpbounds.whitening import as_targets


def training_data(estimator: Any, X: Any, y: Any) -> tuple[Float, Float]:
    """Copies of X (N, D) and y (N,) or, for an estimator of several outputs, (N, P) in host memory.

    ``n_features_in_`` is set.
    """
    many = bool(estimator.__sklearn_tags__().target_tags.multi_output)
    if is_cupy(X) or is_cupy(y):
        points = as_points(X)
        targets = host(as_targets(y, points))
        if targets.ndim == 2 and not many:
            raise ValueError(f"y: expected one target for each row of X, shape (N,), got {tuple(targets.shape)}")
        estimator.n_features_in_ = int(points.shape[1])
        return host(points).astype(np.float64), targets.astype(np.float64)
    from sklearn.utils.validation import validate_data

    points, targets = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True, multi_output=many)
    return np.array(points), np.array(targets, dtype=np.float64)


def new_points(estimator: Any, X: Any) -> Array:
    """X (N*, D) as finite float64, where it lives."""
    if is_cupy(X):
        return as_points(X, "X", estimator.n_features_in_).astype(np.float64, copy=False)
    from sklearn.utils.validation import validate_data

    return validate_data(estimator, X, dtype=np.float64, reset=False)
