"""Kernels of other libraries as sums of terms: a number times a product of kernels, or noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpbounds.kernels import Constant, Kernel, Linear, OnColumns, Product, Stationary, Sum
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.white import has_one_variance

MOST = 64
"""Largest number of terms that a product or a power of sums may become."""


@dataclass(frozen=True)
class Term:
    """scale · kernel; a constant when ``kernel`` is None; noise when ``white``."""

    scale: float
    kernel: Kernel | None = None
    white: bool = False


def added(parts: Sequence[list[Term]]) -> list[Term]:
    """The sum of kernels."""
    return [term for part in parts for term in part]


def multiplied(parts: Sequence[list[Term]]) -> list[Term]:
    """The product of kernels, multiplied out."""
    product = [Term(1.0)]
    for part in parts:
        if len(product) * len(part) > MOST:
            raise ValueError(f"model: expected products of sums with at most {MOST} terms, got more")
        product = [_times(a, b) for a in product for b in part]
    return product


def on_columns(terms: list[Term], columns: Sequence[int] | None) -> list[Term]:
    """The kernels on these columns; None for all."""
    if columns is None:
        return terms
    return [term if term.kernel is None else replace(term, kernel=term.kernel.on(columns)) for term in terms]


def total(terms: list[Term]) -> tuple[Kernel | None, float]:
    """The kernel, None if the terms are noise alone, and the variance of the noise."""
    kernels = [_scaled(term.kernel or Constant(), term.scale) for term in terms if not term.white]
    whole: Kernel | None = None
    for kernel in kernels:
        whole = kernel if whole is None else Sum(whole, kernel)
    return whole, sum(term.scale for term in terms if term.white)


def _times(a: Term, b: Term) -> Term:
    scale = a.scale * b.scale
    if a.white or b.white:  # noise times a kernel of the same variance everywhere is noise
        for term in (a, b):
            if term.kernel is not None and not has_one_variance(term.kernel):
                raise ValueError(
                    f"model: expected white noise times kernels with the same k(x, x) for all x, got {term.kernel!r}"
                )
            scale *= 1.0 if term.kernel is None else term.kernel.max_variance
        return Term(scale, white=True)
    if a.kernel is None or b.kernel is None:
        return Term(scale, a.kernel or b.kernel)
    return Term(scale, Product(a.kernel, b.kernel))


def _scaled(kernel: Kernel, scale: float) -> Kernel:
    """scale · k, with the scale in the variance of a factor where that is linear in k."""
    if scale == 1.0:
        return kernel
    if isinstance(kernel, Product):
        return Product(_scaled(kernel.k1, scale), kernel.k2)
    if isinstance(kernel, OnColumns):
        return OnColumns(_scaled(kernel.kernel, scale), kernel.columns)
    if isinstance(kernel, Periodic):
        return Periodic(kernel.period, scale * kernel.variance, kernel.lengthscale)
    if isinstance(kernel, Stationary | Constant):
        return replace(kernel, variance=scale * kernel.variance)
    if isinstance(kernel, Linear):
        return Linear(scale * np.asarray(kernel.variance))
    return Product(Constant(scale), kernel)
