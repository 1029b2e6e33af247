"""Kernels, input laws and arguments in words, as reports and records have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.inputs import Empirical, InputLaw, Sampler, Uniform
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.texts import short

Spelling = Callable[..., str]
"""How a note names an argument: its name, and its value if there is one, as Python spells them, or as a shell does."""


def argument(name: str, value: object = None) -> str:
    """An argument as Python spells it.

    >>> argument("rows"), argument("rows", 40), argument("y_norm2", "prior")
    ('rows', 'rows=40', "y_norm2='prior'")
    """
    return name if value is None else f"{name}={value!r}"


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


def describe_kernel(kernel: Kernel) -> str:
    """A kernel with its hyperparameters to three digits."""
    name = type(kernel).__name__ + (f"({kernel.nu:g}, " if hasattr(kernel, "nu") else "(")
    scale = getattr(kernel, "lengthscale", np.nan)
    return f"{name}variance={short(kernel.max_variance)}, lengthscale={short(scale)})"


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
    """A kernel's parameters, ready for JSON."""
    plain = kernel_to_plain(kernel)
    return {"name": plain["type"], **{name: plain[name] for name in ("nu", "variance", "lengthscale") if name in plain}}
