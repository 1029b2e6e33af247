"""The prior P^θ: a zero-mean GP; the names of its kernel's hyperparameters are those of the grid's axes."""

from __future__ import annotations

import math
from typing import Any

from gpbounds.arrays import EPS
from gpbounds.kernels import Kernel, Matern, Stationary, plain
from gpbounds.pacbayes.certificate.fields import Fields
from gpbounds.pacbayes.grid import GridPoint, HyperGrid


def hyperparameters(kernel: Kernel) -> dict[str, float]:
    """A kernel's hyperparameters by the names of a grid's axes; only for kernels with a bound on their rounding."""
    return plain.hyperparameters(_supported(kernel))


def _supported(kernel: Kernel) -> Stationary:
    if not isinstance(kernel, Stationary) or type(kernel) is not plain.STATIONARY.get(type(kernel).__name__):
        raise ValueError(f"kernel: expected a SquaredExponential or Matern kernel, got {type(kernel).__name__}")
    if isinstance(kernel, Matern) and not kernel.is_half_integer:
        raise ValueError(f"kernel: expected a half-integer ν, for which rounding is bounded, got {kernel.nu}")
    return kernel


def value_error(kernel: Kernel, dim: int) -> float:
    """Bound on the error of a value k(x, x') on any machine, for points in ``dim`` dimensions, in squared units of y.

    The prior is a function of the scaled inputs x/lengthscale as doubles, which are the same on every machine, so that
    only r², a function of it and a product are rounded.  r² is right to (dim + 3) eps and |dk/d ln r²| ≤ v/e; exp and
    the Matérn recurrence, all of whose terms are positive, have a relative error of at most 8 eps per step.

    >>> from gpbounds.kernels import SquaredExponential
    >>> value_error(SquaredExponential(2.0), 1) / 2.0 < 4e-15
    True
    """
    steps = kernel.nu + 0.5 if isinstance(kernel, Matern) else 1.0
    return kernel.max_variance * EPS * (0.4 * (dim + 3.0) + 8.0 * (steps + 1.0))


def with_hyperparameters(kernel: Kernel, point: GridPoint) -> Kernel:
    """The kernel of the same family (and ν) as ``kernel`` at a point of the grid.

    >>> grid = HyperGrid.shared()
    >>> with_hyperparameters(Matern(1.5), grid.round([1.0, 0.5])).lengthscale  # e^−0.69
    0.5015760690660556
    """
    named = hyperparameters(kernel)
    if set(named) != set(point.theta):
        raise ValueError(f"grid: expected the names {', '.join(named)} of the kernel, got {', '.join(point.theta)}")
    return plain.with_hyperparameters(_supported(kernel), point.theta)


def locate(kernel: Kernel, grid: HyperGrid) -> GridPoint:
    """The grid point of a kernel; hyperparameters off the grid are refused."""
    named = hyperparameters(kernel)
    if set(named) != set(grid.names):
        raise ValueError(
            f"grid: expected the names {', '.join(named)}, the kernel's hyperparameters, got {', '.join(grid.names)}"
        )
    return grid.locate(named)


def to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel ready for JSON."""
    record: dict[str, Any] = {"family": type(kernel).__name__}
    if isinstance(kernel, Matern):
        record["nu"] = kernel.nu
    return {**record, "hyperparameters": hyperparameters(kernel)}


def from_fields(fields: Fields) -> Kernel:
    """The kernel that `to_dict` wrote."""
    family = fields.text("family")
    if family not in plain.STATIONARY:
        kinds = ", ".join(map(repr, plain.STATIONARY))
        raise ValueError(f"{fields.where}.family: expected one of {kinds}, got {family!r}")
    nu = fields.number("nu") if family == "Matern" else math.inf
    named = fields.part("hyperparameters")
    dim = None if "lengthscale" in named.record else max(len(named.record) - 1, 1)
    variance, *scales = (named.number(name) for name in plain.hyperparameter_names(dim))
    named.done()
    fields.done()
    return plain.stationary(nu, variance, scales[0] if dim is None else scales)
