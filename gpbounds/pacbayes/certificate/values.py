"""How far the computed values of a prior's kernel may be from the exact ones, for points in a box around 0."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold


def value_error(kernel: Kernel, reach: Float) -> float:
    """Bound on the error of k(x, x') on any machine, for |x_d|, |x'_d| ≤ reach_d, in squared units of y.

    Priors are those of the exact x and hyperparameters.  Differences of coordinates are taken before anything is
    rounded, so that the error of a stationary kernel does not depend on ``reach``.

    Proof.  That of each kernel stands in its method ``value_bound``: `Stationary` says what holds for functions of the
    distance, `Periodic` and `InnerProduct` what holds in a box.

    A sum adds the errors and one of its own, and so does a product, each error times the largest value of the other
    factor.  |k(x, x')| is at most the largest k(x, x), as k is positive semi-definite.

    Parameters
    ----------
    kernel : Kernel
        One that `priors.hyperparameters` takes.
    reach : array (D,)
        The largest |x_d| among the inducing points and the rows.

    Raises
    ------
    ValueError
        where the largest value is not a double.

    >>> from gpbounds.kernels import Linear, SquaredExponential
    >>> value_error(SquaredExponential(2.0), np.ones(1)) / 2.0 < 4e-15
    True
    >>> value_error(Linear(2.0), np.array([10.0])) / 200.0 < 1e-15
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        error, largest = kernel.fold(_BOUNDS, reach)
    if not (math.isfinite(error) and math.isfinite(largest)):
        raise ValueError(
            "kernel: expected values that double precision can hold, got an overflow for inputs as large as "
            f"{float(reach.max()):.3g}: scale the inputs, or take a smaller variance or degree"
        )
    return error


Bounds = tuple[float, float]
"""The bound on the error, and one on |k(x, x')|."""


_BOUNDS: Fold[Float, Bounds] = Fold(
    lambda kernel, reach: kernel.value_bound(reach),
    lambda a, b: (a[0] + b[0] + EPS * (a[1] + b[1]), (a[1] + b[1]) * (1.0 + EPS)),
    lambda a, b: (
        (a[0] * b[1] + a[1] * b[0] + a[0] * b[0] + EPS * a[1] * b[1]) * (1.0 + 8.0 * EPS),
        a[1] * b[1] * (1.0 + EPS),
    ),
    lambda kernel, reach, inner: inner(kernel.chosen(reach[None, :])[0]),
)
