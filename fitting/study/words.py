"""Kernels, input laws and arguments in words, as reports and records have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpbounds.inputs import Empirical, InputLaw, Sampler, Uniform
from gpbounds.kernels import Kernel
from gpbounds.kernels.facts import Fold
from gpbounds.kernels.plain import STATIONARY, kernel_to_plain
from gpbounds.texts import short

Spelling = Callable[..., str]
"""How a note names an argument: its name, and its value if there is one, as Python spells them, or as a shell does."""


def argument(name: str, value: object = None) -> str:
    """An argument as Python spells it.

    >>> argument("rows"), argument("rows", 40), argument("y_norm2", "prior")
    ('rows', 'rows=40', "y_norm2='prior'")
    """
    return name if value is None else f"{name}={value!r}"


def smoothness(name: str) -> float:
    """The smoothness ν of a named kernel; infinity for the squared exponential.

    >>> smoothness("se"), smoothness("matern32"), smoothness("matern:0.7")
    (inf, 1.5, 0.7)
    """
    named = {"se": math.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
    if name in named:
        return named[name]
    family, _, nu = name.partition(":")
    try:
        value = float(nu) if family == "matern" else math.nan
    except ValueError:
        value = math.nan
    if not (0.0 < value < math.inf):
        raise ValueError(f"kernel: expected se, matern12, matern32, matern52 or matern:NU with NU > 0, got {name!r}")
    return value


def describe(inputs: InputLaw) -> str:
    """A short description of an input law."""
    if isinstance(inputs, Empirical):
        return f"the {inputs.N} given inputs"
    if isinstance(inputs, Uniform):
        return f"inputs Uniform({short(inputs.low)}, {short(inputs.high)})"
    if isinstance(inputs, Sampler):
        return f"inputs of the law {inputs.name}, dim={inputs.dim}"
    same = np.allclose(inputs.stds, inputs.stds[0], rtol=1e-12, atol=0.0)
    covariance = "with covariances, " if inputs.correlated else ""
    return f"inputs Gaussian({covariance}std={short(inputs.stds[0] if same else inputs.stds)}, dim={inputs.dim})"


def describe_kernel(kernel: Kernel, columns: Sequence[str] = ()) -> str:
    """A kernel with its hyperparameters to three digits; each lengthscale with the name of its column, up to ten.

    >>> from gpbounds.kernels import Linear, Matern, SquaredExponential
    >>> describe_kernel(SquaredExponential(2.0, [10.0, 0.5]), ["area", "age"])
    'SquaredExponential(variance=2, lengthscale=[area 10, age 0.5])'
    >>> describe_kernel(Matern(1.5) + Linear().on([1]))
    'Matern(1.5, variance=1, lengthscale=1) + Linear(variance=1) of input 2'
    """
    return kernel.fold(_DESCRIBED, tuple(columns))


_FIELDS = ("variance", "lengthscale", "shape", "period", "offset")
_NAMED_COLUMNS = 10
"""Up to here each lengthscale has the name of its column."""


def _described(kernel: Any, columns: tuple[str, ...]) -> str:
    """A kernel without parts in words."""
    parts = [f"{getattr(kernel, name):g}" for name in ("nu", "degree") if hasattr(kernel, name)]
    for name in _FIELDS:
        if not hasattr(kernel, name):
            continue
        values = np.asarray(getattr(kernel, name), dtype=np.float64)
        if values.size == len(columns) <= _NAMED_COLUMNS and values.ndim:
            each = ", ".join(f"{column} {short(value)}" for column, value in zip(columns, values, strict=True))
            parts.append(f"{name}=[{each}]")
        else:
            parts.append(f"{name}={short(values)}")
    return f"{type(kernel).__name__}({', '.join(parts)})"


def _on_columns(kernel: Any, columns: tuple[str, ...], inner: Callable[[tuple[str, ...]], str]) -> str:
    """A kernel of some inputs in words."""
    numbers = [int(j) for j in kernel.columns]
    names = tuple(columns[j] for j in numbers) if columns else tuple(str(j + 1) for j in numbers)
    plural = "" if len(numbers) == 1 else "s"
    return f"{inner(names if columns else ())} of input{plural} {', '.join(names)}"


def _product(first: str, second: str) -> str:
    return " * ".join(f"({part})" if " + " in part else part for part in (first, second))


_DESCRIBED: Fold[tuple[str, ...], str] = Fold(
    _described, lambda first, second: f"{first} + {second}", _product, _on_columns
)


def options_of(kernel: Kernel, noise: float) -> str | None:
    """The options that state a kernel and a noise variance with all digits; None for a kernel without such options.

    >>> from gpbounds.kernels import Matern
    >>> options_of(Matern(1.5, 2.0, [0.1, 3.0]), 0.25)
    '--kernel matern32 --variance 2.0 --lengthscale 0.1,3.0 --noise 0.25'
    """
    if type(kernel) not in STATIONARY.values():
        return None
    plain: Any = kernel_to_plain(kernel)
    names = {math.inf: "se", 0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}
    nu = plain.get("nu", math.inf)
    lengths = ",".join(repr(float(value)) for value in np.ravel(plain["lengthscale"]))
    name = names.get(nu, f"matern:{nu!r}")
    return f"--kernel {name} --variance {plain['variance']!r} --lengthscale {lengths} --noise {float(noise)!r}"


def headline(kernel: Kernel, noise: float) -> str:
    """A kernel and its noise as one line for a figure."""
    scale = np.asarray(getattr(kernel, "lengthscale", np.nan))
    if scale.size == 1:
        length = short(scale.item())
    else:
        length = f"{short(scale.min())} to {short(scale.max())} (one per input)"
    name = f"Matérn-{kernel.nu:g}" if hasattr(kernel, "nu") else "Squared exponential"
    return f"{name} kernel, variance {kernel.max_variance:.3g}, lengthscale {length}, noise variance {noise:.3g}"


def kernel_record(kernel: Kernel) -> dict[str, object]:
    """A kernel's parameters with all digits, ready for JSON."""
    plain = kernel_to_plain(kernel)
    return {"name": plain.pop("type"), **plain}
