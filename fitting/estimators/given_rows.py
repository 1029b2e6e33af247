"""The gate of estimators for rows, targets and weights: real numbers of the right shapes, or one sentence.

What passes here, scikit-learn takes without an error of its own, except about names of columns.  Some messages contain
words that scikit-learn's checks of estimators look for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import exactly, host, is_cupy, is_dask, is_frame, require_finite_rows, unmasked
from gpbounds.errors import NonFinite, NotNumbers, shown

NUMBERS = "(argument must be no string or other object, but a number)"


def table(model: Any, X: Any, *, reset: bool) -> Any:
    """Rows X (N, D) for scikit-learn, which looks at the names of columns; a table of pandas keeps its own.

    Raises
    ------
    ValueError
        for all but finite real numbers of shape (N, D), N, D >= 1; with ``reset`` False, for another D than before.
    """
    given = reals("X", X)
    if given.ndim != 2:
        remedy = ", X[:, None] for one input, X[None, :] for one row" if given.ndim == 1 else ""
        raise ValueError(f"X: expected shape (N, D), got {given.shape}. Reshape your data{remedy}")
    if 0 in given.shape:
        what = ("sample", given.shape[0]) if given.shape[0] == 0 else ("feature", given.shape[1])
        raise ValueError(
            f"X: expected rows of shape (N, D), N, D >= 1, got {what[1]} {what[0]}(s) (shape={given.shape}) while a "
            "minimum of 1 is required."
        )
    require_finite_rows("X", given)
    if is_frame(X):
        return X
    if not reset and given.shape[1] != model.n_features_in_:
        name, D = type(model).__name__, model.n_features_in_
        raise ValueError(
            f"X: expected shape (N, {D}), as for training, got {given.shape}: X has {given.shape[1]} features, but "
            f"{name} is expecting {D} features as input"
        )
    return given


def reals(name: str, value: Any) -> Any:
    """``value`` as an array of real numbers of any shape in host memory."""
    given = exactly(name, value)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected rows of equal length, got {shown(value)}") from None
    if array.dtype.kind not in "biuf":
        if hasattr(value, "tocoo"):
            raise NotNumbers(f"{name}: expected an array, got sparse data, {type(value).__name__}: pass .toarray()")
        raise NotNumbers(f"{name}: expected real numbers, got {shown(value)} {NUMBERS}")
    return array


def targets(model: Any, y: Any, N: int) -> Any:
    """Targets y of N rows, real and finite, shape (N,) or (N, P), P >= 1.

    Raises
    ------
    ValueError
        for anything else.
    """
    array = reals("y", _passed(model, y))
    _check_shape(array, N)
    try:
        require_finite_rows("y", array)
    except NonFinite as error:
        raise NonFinite(f"{error}: Input y contains NaN or infinity") from None
    return array


def labels(model: Any, y: Any, N: int) -> Any:
    """Labels y of N rows, of any kind, shape (N,) or (N, 1)."""
    array = labels_of("y", _passed(model, y))
    _check_shape(array, N)
    if array.size != N:
        raise ValueError(f"y: expected one label for each row of X, shape ({N},), got {array.shape}")
    return unmasked("y", y)


def labels_of(name: str, values: Any) -> Any:
    """``values`` as an array of labels that have an order, of any shape in host memory."""
    try:
        array = np.asarray(host(unmasked(name, values)))
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected one label for each row, got {shown(values)}") from None
    if array.ndim == 0:
        raise ValueError(f"{name}: expected one label for each row, got {shown(values)}")
    different = sorted_labels(name, array)
    if array.dtype.kind == "O" and not all(isinstance(label, str) for label in different):
        kind = type(different[0]).__name__
        raise ValueError(
            f"{name}: expected labels that are numbers or words, got objects of type {kind} (Unknown label type: "
            "unknown): make them an array of numbers, .astype(int)"
        )
    return array


def sorted_labels(name: str, values: Any) -> Any:
    """The different labels among ``values``, an array of numbers or words, in their order.

    Raises
    ------
    ValueError
        for NaN, infinity, complex numbers, records, None, and labels of types that have no order.
    """
    kind = values.dtype.kind
    if kind in "cV":
        what = "complex numbers (Complex data not supported)" if kind == "c" else "records"
        raise ValueError(f"{name}: expected labels, got {what}")
    if kind == "f":
        try:
            require_finite_rows(name, values)
        except NonFinite as error:
            raise NonFinite(f"{error}: Input {name} contains NaN or infinity") from None
    try:
        different = set(values.ravel().tolist())
    except TypeError:
        raise ValueError(f"{name}: expected labels that are numbers or words, got other objects") from None
    if any(label is None or isinstance(label, complex) or label != label for label in different):
        raise ValueError(f"{name}: expected labels, got None, NaN or complex numbers (Input {name} contains NaN)")
    try:
        return sorted(different)
    except TypeError:
        kinds = " and ".join(sorted({type(label).__name__ for label in different}))
        raise ValueError(f"{name}: expected labels of one type, got {kinds}") from None


def _passed(model: Any, y: Any) -> Any:
    if y is None:
        raise ValueError(
            f"y: expected targets, got None: this {type(model).__name__} estimator requires y to be passed, but the "
            "target y is None"
        )
    return y


def _check_shape(array: Any, N: int) -> None:
    if array.ndim not in (1, 2) or len(array) != N or 0 in array.shape:
        raise ValueError(f"y: expected shape ({N},) or ({N}, P), a target for each row of X, got {array.shape}")


def scored(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Targets and weights of rows X on which a fitted regressor is scored, for scikit-learn.

    Raises
    ------
    ValueError
        for other shapes than those of the predictions, and as `targets` and `weights`.
    """
    model._fitted()
    if is_cupy(X) or is_dask(X):
        return exactly("y", y), None if sample_weight is None else exactly("sample_weight", sample_weight)
    N = int(table(model, X, reset=False).shape[0])
    array, shape = targets(model, y, N), (N, *model.y_train_.shape[1:])
    if array.size != math.prod(shape):
        raise ValueError(f"y: expected the shape of the predictions, {shape}, got {array.shape}")
    return array, weights(sample_weight, N)


def weights(value: Any, N: int) -> Any:
    """Weights of N rows, finite and >= 0, some above 0; None stays.

    Raises
    ------
    ValueError
        for anything else.
    """
    if value is None:
        return None
    array = reals("sample_weight", host(value) if is_cupy(value) else value).astype(np.float64)
    if array.shape != (N,):
        raise ValueError(f"sample_weight: expected shape ({N},), a weight for each row, got {array.shape}")
    require_finite_rows("sample_weight", array)
    if (array < 0.0).any():
        raise ValueError(
            f"sample_weight: expected weights >= 0, got {array.min():.3g} (Negative values in data passed to "
            "`sample_weight`)"
        )
    if not (array > 0.0).any():
        raise ValueError("sample_weight: expected a weight above zero, got none")
    return array
