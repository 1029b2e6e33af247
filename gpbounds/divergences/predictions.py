"""Predictions of a posterior, and checks of the arguments that all posteriors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Array, exactly, is_cupy, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.validation import non_negative, scalar

PriorMean = Callable[[Array], Array] | None
"""m(x) as a function of points (n, D) that gives (n,); None for m = 0."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Marginal laws N(mean, variance) of the latent f at n inputs, without noise, as a Gibbs risk needs them.

    Attributes
    ----------
    mean, variance : arrays (n,)
    mean_error, variance_error : arrays (n,)
        Bounds on their rounding errors; infinite where no bound exists.
    """

    mean: Array
    variance: Array
    mean_error: Array
    variance_error: Array


def absolute_error(value: Any) -> float:
    """An absolute error ≥ 0 of the kernel's values, one number."""
    return scalar(non_negative, "entry_error", value)


def mean_at(prior_mean: PriorMean, X: Array) -> Array:
    """m(x) at the rows of X, checked."""
    xp = namespace(X)
    if prior_mean is None:
        return xp.zeros(X.shape[0])
    values = xp.asarray(exactly("prior_mean", prior_mean(X)))
    if values.shape != (X.shape[0],) or values.dtype.kind not in "biuf":
        raise ValueError(f"prior_mean: expected {X.shape[0]} real numbers for {X.shape[0]} points, got {values!r}")
    if not bool(xp.isfinite(values).all()):
        raise NonFinite("prior_mean: expected finite values, got NaN or infinity")
    return values.astype(np.float64, copy=False)


def double(points: Array, name: str) -> Array:
    """``points`` in double precision; float32 is refused."""
    if points.dtype == np.float32:
        raise ValueError(
            f"{name}: expected float64, got float32: convert it, since the guarantee holds for exactly these numbers"
        )
    return points


def vector(name: str, value: Any, like: Array) -> Array:
    """Finite float64 numbers of shape (n,), n the number of rows of ``like``, on its device."""
    xp, n = namespace(like), like.shape[0]
    if is_cupy(value) != (xp is not np) and np.ndim(value):
        raise ValueError(f"{name}: expected an array of {xp.__name__} like the other arguments, got another kind")
    numbers = xp.asarray(exactly(name, value))
    if numbers.dtype.kind not in "biuf" or numbers.shape != (n,):
        raise ValueError(f"{name}: expected {n} real numbers, shape ({n},), got {numbers.dtype} of {numbers.shape}")
    if not bool(xp.isfinite(numbers).all()):
        raise NonFinite(f"{name}: expected finite numbers, got NaN or infinity")
    return numbers.astype(np.float64, copy=False)


def rounded_up(variance: Array, allowed: Any, name: str) -> Array:
    """``variance`` with negative entries set to 0; an entry below −``allowed`` is refused."""
    xp = namespace(variance)
    low = variance + allowed
    if bool((low < 0.0).any()):
        raise NotPositiveDefinite(
            f"{name}: expected variances >= 0, but one is {float(variance.min()):.3g}, less than rounding explains. "
            "Usual cause: inducing points so close that Kuu is nearly singular. Take fewer of them, or pass "
            "jitter='auto' or a larger jitter."
        )
    return xp.maximum(variance, 0.0)
