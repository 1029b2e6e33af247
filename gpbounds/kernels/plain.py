"""Conversion of kernels to and from JSON values and named hyperparameters, without rounding.

The lengthscale of one dimension has two names: ``lengthscale[0]`` in `Kernel.parameter_names`, for training, and
``lengthscale_1`` in prior grids and certificates.  `hyperparameters` uses the second names in the order of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from numpy.typing import ArrayLike

from gpbounds.errors import shown
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.facts import Fold
from gpbounds.kernels.inner_products import Linear, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.rational_quadratic import RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.records import ANY, OBJECT, Format, Slot, Variants

STATIONARY: dict[str, type[Stationary]] = {"SquaredExponential": SquaredExponential, "Matern": Matern}
_LARGEST_NU = 1e4
"""Largest ν of a Matérn kernel in a file: a value takes ν steps, so without a limit a file could take any time."""


def stationary(nu: float, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> Stationary:
    """The kernel of smoothness ν: Matérn, or squared exponential for ν = ∞.

    >>> stationary(math.inf), stationary(1.5).nu
    (SquaredExponential(variance=1.0, lengthscale=1.0), 1.5)
    """
    return SquaredExponential(variance, lengthscale) if nu == math.inf else Matern(_readable(nu), variance, lengthscale)


NAMED = {"se": math.inf, "rbf": math.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
"""The smoothness ν of kernels that have a name of their own."""


def smoothness(name: str) -> float:
    """The smoothness ν of a named kernel; infinity for the squared exponential.

    >>> smoothness("se"), smoothness("matern32"), smoothness("matern:0.7")
    (inf, 1.5, 0.7)
    """
    if name in NAMED:
        return NAMED[name]
    family, _, nu = name.partition(":")
    try:
        value = float(nu) if family == "matern" else math.nan
    except ValueError:
        value = math.nan
    if not (0.0 < value < math.inf):
        raise ValueError(
            f"kernel: expected se (or rbf), matern12, matern32, matern52 or matern:NU with NU > 0, got {shown(name)}"
        )
    return value


def _readable(nu: Any) -> Any:
    if isinstance(nu, int | float) and nu > _LARGEST_NU:
        raise ValueError(f"nu: expected at most {_LARGEST_NU:g} in a file, got {nu:.6g}")
    return nu


NU = ANY._replace(read=lambda nu, where: _readable(nu))
FIELDS: dict[str, Format[Any]] = {
    kind.__name__: Format(kind, slots)
    for kind, slots in (
        (SquaredExponential, {"variance": ANY, "lengthscale": ANY}),
        (Matern, {"variance": ANY, "lengthscale": ANY, "nu": NU}),
        (RationalQuadratic, {"variance": ANY, "lengthscale": ANY, "shape": ANY}),
        (Periodic, {"variance": ANY, "lengthscale": ANY, "period": ANY}),
        (Constant, {"variance": ANY}),
        (Linear, {"variance": ANY}),
        (Polynomial, {"variance": ANY, "offset": ANY, "degree": ANY}),
    )
}
"""The fields of each kernel without parts."""


def kernel_to_plain(kernel: Kernel) -> dict[str, Any]:
    """A kernel as a JSON value; Python's JSON restores floats exactly.

    >>> kernel_to_plain(SquaredExponential(2.0, [0.1, 0.3]))
    {'type': 'SquaredExponential', 'variance': 2.0, 'lengthscale': [0.1, 0.3]}
    """
    return _from_leaves(kernel, lambda node, parts: KERNELS.write(node) | parts)


def kernel_from_plain(plain: Any) -> Kernel:
    """The kernel that `kernel_to_plain` wrote; another record is a ValueError.

    >>> kernel_from_plain(kernel_to_plain(Matern(1.5) + SquaredExponential(2.0))).k2.variance
    2.0
    """
    return _from_leaves(plain, lambda node, parts: KERNELS.read(node | parts if parts else node))


def _parts(node: Any) -> dict[str, Any]:
    """The parts of a kernel, or of a record of one, by name."""
    fields = node if isinstance(node, dict) else vars(node) if type(node) in (Sum, Product, OnColumns) else {}
    return {name: fields[name] for name in ("k1", "k2", "kernel") if name in fields}


def _from_leaves(whole: Any, made: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """Apply ``made`` to each node and its parts, leaves first, without recursion, which would limit long sums."""
    nodes: list[Any] = [whole]
    done: dict[int, Any] = {}
    for node in nodes:
        nodes.extend(_parts(node).values())
    for node in reversed(nodes):
        done[id(node)] = made(node, {name: done[id(part)] for name, part in _parts(node).items()})
    return done[id(whole)]


_PAIR = {"k1": OBJECT, "k2": OBJECT}
KERNEL = Slot(lambda record, where: kernel_from_plain(record), kernel_to_plain)
"""A field that holds a kernel."""
_MADE: dict[str, Format[Any]] = {
    "Sum": Format(Sum, _PAIR),
    "Product": Format(Product, _PAIR),
    "OnColumns": Format(OnColumns, {"kernel": OBJECT, "columns": ANY}),
}
KINDS = (*FIELDS, *_MADE)


def _wrong(name: str, expected: Iterable[str], given: Iterable[str]) -> str:
    got = ", ".join(str(key)[:60] for key in ("type", *given))
    return f"kernel: expected the fields type, {', '.join(expected)} of {name}, got {got}"


KERNELS: Variants[Kernel] = Variants(
    "type", {**FIELDS, **_MADE}, choices=f"kernel: expected one of {', '.join(KINDS)}", wrong=_wrong
)


def hyperparameter_names(dim: int | None) -> tuple[str, ...]:
    """Names for a kernel with one lengthscale (``dim`` is None), or with one for each of ``dim`` dimensions.

    >>> hyperparameter_names(2)
    ('variance', 'lengthscale_1', 'lengthscale_2')
    """
    each = ("lengthscale",) if dim is None else tuple(f"lengthscale_{d + 1}" for d in range(dim))
    return ("variance", *each)


def hyperparameters(kernel: Kernel) -> dict[str, float]:
    """The trained numbers of a kernel by their names in grids, in the order of ``kernel.parameter_names``.

    >>> hyperparameters(SquaredExponential(2.0, [0.5, 1.0]))
    {'variance': 2.0, 'lengthscale_1': 0.5, 'lengthscale_2': 1.0}
    >>> hyperparameters(Constant(3.0) + Linear())
    {'k1.variance': 3.0, 'k2.variance': 1.0}
    """
    return kernel.fold(_NAMED, None)


def _named_leaf(kernel: Kernel, at: None) -> dict[str, float]:
    named = {}
    for name in kernel.parameter_names:
        field, _, index = name.rstrip("]").partition("[")
        value = getattr(kernel, field)
        named[f"{field}_{int(index) + 1}" if index else field] = float(value[int(index)] if index else value)
    return named


def _named_pair(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    parts = (("k1", first), ("k2", second))
    return {f"{place}.{name}": value for place, part in parts for name, value in part.items()}


_NAMED = Fold(_named_leaf, _named_pair, _named_pair)


def with_hyperparameters(kernel: Kernel, values: Mapping[str, float]) -> Kernel:
    """``kernel`` with ``values``, whose names are those of `hyperparameters`.

    >>> with_hyperparameters(Matern(1.5), {"variance": 2.0, "lengthscale": 0.5})
    Matern(variance=2.0, lengthscale=0.5, nu=1.5)
    """
    return kernel.fold(_RENEWED, iter([values[name] for name in hyperparameters(kernel)]))


def _renewed(kernel: Kernel, numbers: Iterator[float]) -> Kernel:
    """The kernel with the next of ``numbers`` as its hyperparameters."""
    changes: dict[str, Any] = {}
    for name, number in zip(kernel.parameter_names, numbers, strict=False):
        field, _, index = name.partition("[")
        if index:
            changes.setdefault(field, []).append(number)
        else:
            changes[field] = number
    return replace(cast(Any, kernel), **changes)


_RENEWED: Fold[Iterator[float], Kernel] = Fold(
    _renewed, Sum, Product, lambda kernel, numbers, inner: inner(numbers).on(kernel.columns)
)
