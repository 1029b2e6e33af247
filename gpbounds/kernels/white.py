"""White noise as other libraries write it: a part of a sum of kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float
from gpbounds.errors import shown
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum, as_kernel
from gpbounds.kernels.facts import Fold
from gpbounds.validation import as_log_parameters, exponentials, positive, scalar


@dataclass(frozen=True)
class White(Kernel):
    """Independent noise of this variance in each observation: a way to write ``noise`` into a sum of kernels.

    Estimators read it as noise (``ExactGP(SquaredExponential() + White(0.1))`` starts at noise 0.1).  It is not a
    covariance function: two observations at one x have independent noise, so k(x, x') is undefined.  The theorems,
    which are about the noise-free f, take ``noise`` instead.

    Raises
    ------
    ValueError
        for a variance that is not positive and finite; wherever covariances are asked for.

    >>> from gpbounds.kernels import SquaredExponential
    >>> separated(SquaredExponential(2.0) + White(0.1))
    (SquaredExponential(variance=2.0, lengthscale=1.0), 0.1)
    """

    variance: float = 1.0
    is_noise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", scalar(positive, "variance", self.variance))

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        raise _noise_alone()

    def diag(self, X: ArrayLike | Array) -> Array:
        raise _noise_alone()

    @property
    def max_variance(self) -> float:
        raise _noise_alone()

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("variance",)

    @property
    def log_parameters(self) -> Float:
        return np.log(np.array([self.variance]))

    def with_log_parameters(self, values: ArrayLike) -> White:
        return White(*exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names))


def _noise_alone() -> ValueError:
    return ValueError(
        "kernel: expected a prior over functions, got one with White, which is noise: inducing points say nothing "
        "about it, and theorems on sparse posteriors would count it as f. Use kernel, noise = "
        "gpbounds.kernels.separated(kernel), and pass both."
    )


def separated(kernel: Kernel) -> tuple[Kernel, float]:
    """(kernel without White, noise variance σ²), σ² = 0 without White: k(X, X) + σ²I is the same matrix.

    White times a kernel whose k(x, x) is the same for all x is noise of that variance.

    Raises
    ------
    ValueError
        for White alone, and White times a kernel whose k(x, x) may vary, which is noise that varies with x.

    >>> from gpbounds.kernels import Constant, Linear, Matern
    >>> separated((Matern(0.5, 2.0) + White(0.5)) * Constant(3.0) + Linear())[1]
    1.5
    """
    smooth, noise = as_kernel(kernel).fold(_PARTS, None)
    if smooth is None:
        raise ValueError("kernel: expected a prior over functions beside the noise, got White alone")
    return smooth if noise else kernel, noise


Parts = tuple[Kernel | None, float]
"""A kernel without White, None if nothing remains, and the variance of the noise."""


def _leaf(kernel: Any, at: None) -> Parts:
    return (None, kernel.variance) if kernel.is_noise else (kernel, 0.0)


def _added(first: Parts, second: Parts) -> Parts:
    noise = first[1] + second[1]
    if first[0] is None or second[0] is None:
        return second[0] if first[0] is None else first[0], noise
    return Sum(first[0], second[0]), noise


def _multiplied(first: Parts, second: Parts) -> Parts:
    noise = first[1] * second[1]
    for (_, share), (other, _) in ((first, second), (second, first)):
        if share and other is not None:
            if not has_one_variance(other):
                raise ValueError(
                    f"kernel: expected White times kernels with the same k(x, x) for all x, got {shown(other)}: noise "
                    "that varies with x is not a noise variance"
                )
            noise += share * other.max_variance
    return None if first[0] is None or second[0] is None else Product(first[0], second[0]), noise


def _on(kernel: OnColumns, at: None, inner: Callable[[None], Parts]) -> Parts:
    smooth, noise = inner(at)
    return None if smooth is None else smooth.on(kernel.columns), noise


_PARTS = Fold(_leaf, _added, _multiplied, _on)


def has_one_variance(kernel: Kernel) -> bool:
    """Whether k(x, x) is known to be the same for all x.

    >>> from gpbounds.kernels import Constant, Linear, SquaredExponential
    >>> has_one_variance(SquaredExponential() + Constant()), has_one_variance(SquaredExponential() * Linear())
    (True, False)
    """
    return kernel.fold(_ONE_VARIANCE, None)


_ONE_VARIANCE: Fold[None, bool] = Fold(lambda kernel, at: kernel.has_one_variance, operator.and_, operator.and_)
