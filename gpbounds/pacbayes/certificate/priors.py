"""The prior P^θ: a zero-mean GP; the names of its kernel's hyperparameters are those of the grid's axes."""

from __future__ import annotations

import math
from typing import Any, cast

from gpbounds.kernels import Kernel, Matern, OnColumns, Product, SquaredExponential, Sum, plain
from gpbounds.pacbayes.grid import GridPoint, HyperGrid
from gpbounds.records import NUMBER, TEXT, Fields, shown, to_json

ALLOWED = tuple(format.kind for format in plain.FIELDS.values())
"""Kernels whose values have a bound on their rounding, `values.value_error`, besides those made of them."""


def hyperparameters(kernel: Kernel) -> dict[str, float]:
    """A kernel's hyperparameters by the names of a grid's axes; only for kernels with a bound on their rounding."""
    return plain.hyperparameters(_supported(kernel))


def _supported(kernel: Kernel) -> Kernel:
    if type(kernel) in (Sum, Product):
        pair = cast(Any, kernel)
        _supported(pair.k1)
        _supported(pair.k2)
    elif type(kernel) is OnColumns:
        _supported(kernel.kernel)
    elif type(kernel) not in ALLOWED:
        raise ValueError(
            f"kernel: expected {', '.join(kind.__name__ for kind in ALLOWED)}, or sums, products and kernels on "
            f"columns of them, whose values have a proved bound on their rounding, got {type(kernel).__name__}"
        )
    elif isinstance(kernel, Matern) and not kernel.is_half_integer:
        raise ValueError(f"kernel: expected a half-integer ν, for which rounding is bounded, got {kernel.nu}")
    return kernel


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
    elif not isinstance(kernel, SquaredExponential):
        record["structure"] = plain.kernel_to_plain(kernel)
    return {**record, "hyperparameters": hyperparameters(kernel)}


def from_dict(record: Any, where: str = "kernel") -> Kernel:
    """The kernel that `to_dict` wrote."""
    fields = Fields(record, where)
    family = fields.take("family", TEXT.read)
    kinds = (*(kind.__name__ for kind in ALLOWED), "OnColumns", "Sum", "Product")
    if family not in kinds:
        raise ValueError(f"{where}.family: expected one of {', '.join(map(repr, kinds))}, got {shown(family)}")
    if family not in plain.STATIONARY:
        return _from_structure(family, fields)
    nu = fields.take("nu", NUMBER.read) if family == "Matern" else math.inf
    named = Fields(fields.take("hyperparameters"), fields.at("hyperparameters"))
    dim = None if "lengthscale" in named.record else max(len(named.record) - 1, 1)
    variance, *scales = (named.take(name, NUMBER.read) for name in plain.hyperparameter_names(dim))
    named.done()
    fields.done()
    return plain.stationary(nu, variance, scales[0] if dim is None else scales)


def _from_structure(family: str, fields: Fields) -> Kernel:
    """A kernel that is described in full; the hyperparameters recorded beside it must be the same numbers."""
    structure, named = fields.take("structure"), fields.take("hyperparameters")
    fields.done()
    try:
        kernel = _supported(plain.kernel_from_plain(structure))
    except (TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        why = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{fields.where}.structure: expected what kernel_to_plain writes, got {shown(structure)} ({why})"
        ) from error
    written, given = (to_json(each, sort=True) for each in (plain.kernel_to_plain(kernel), structure))
    if type(kernel).__name__ != family or written != given:  # as JSON, in which true is not 1
        raise ValueError(
            f"{fields.where}.structure: expected a kernel of the family {family!r}, got {shown(structure)}"
        )
    if (own := hyperparameters(kernel)) != named:
        raise ValueError(f"{fields.where}.hyperparameters: expected those of the structure, {own}, got {shown(named)}")
    return kernel
