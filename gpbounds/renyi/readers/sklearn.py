"""Kernel and noise of Gaussian process regressors of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.kernels import (
    Kernel,
    Linear,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    White,
)
from gpbounds.kernels.plain import stationary
from gpbounds.renyi.models import Model
from gpbounds.renyi.readers.shared import Term, added, imported, multiplied, needs, total, unknown_kernel

SUPPORTED = (
    "ConstantKernel, RBF, Matern, RationalQuadratic, ExpSineSquared of one input, DotProduct and WhiteKernel, their "
    "sums, products and whole powers"
)


def from_sklearn(model: Any) -> Model:
    """The kernel and noise of a ``GaussianProcessRegressor``: of its fitted ``kernel_``, or of ``kernel`` before a fit.

    The noise is ``alpha`` plus the level of every WhiteKernel.  Z is None.

    Raises
    ------
    ValueError
        for a kernel other than ConstantKernel, RBF, Matern, RationalQuadratic, ExpSineSquared, DotProduct and
        WhiteKernel, their sums, products and whole powers; ExpSineSquared of several inputs, which is not positive
        semi-definite; ``normalize_y=True``; an ``alpha`` for each target; or no noise at all.

    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> model = from_sklearn(GaussianProcessRegressor(2.0 * RBF(0.5) + WhiteKernel(0.1)))
    >>> model.kernel, round(model.noise, 6)
    (SquaredExponential(variance=2.0, lengthscale=0.5), 0.1)
    """
    needs(model, "scikit-learn GaussianProcessRegressor", "kernel", "alpha", "normalize_y")
    if model.normalize_y:
        raise ValueError(
            "model: expected normalize_y=False, got a model whose hyperparameters belong to (y - mean)/std. Normalise "
            "y yourself, fit again with normalize_y=False, and pass the normalised y to the bounds."
        )
    alpha = np.unique(np.asarray(model.alpha, dtype=np.float64))
    if alpha.size != 1:
        raise ValueError(f"model: expected one alpha for all targets, got {np.size(model.alpha)} that differ")
    kernel = getattr(model, "kernel_", None) or model.kernel
    terms = [Term(1.0, SquaredExponential())] if kernel is None else _terms(kernel)  # None: its documented default
    return imported(terms, float(alpha[0]), None, SUPPORTED)


def kernel_of_sklearn(kernel: Any) -> Kernel:
    """A kernel object of scikit-learn as one of gpbounds; the levels of its WhiteKernels are a `White`.

    Raises
    ------
    ValueError
        for kernels that `from_sklearn` does not read, noise alone, and hyperparameters that are "fixed".

    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> kernel_of_sklearn(2.0 * RBF(0.5) + WhiteKernel(0.1))
    Sum(k1=SquaredExponential(variance=2.0, lengthscale=0.5), k2=White(variance=0.1))
    """
    held = [each.name for each in kernel.hyperparameters if each.fixed]
    if held:
        raise ValueError(
            f"kernel: expected a scikit-learn kernel without fixed hyperparameters, got fixed {', '.join(held)}: name "
            "them in the argument fixed instead, such as fixed=('lengthscale',)"
        )
    try:
        smooth, white = total(_terms(kernel))
    except ValueError as error:
        raise ValueError(f"kernel:{str(error).removeprefix('model:')}") from None
    if smooth is None:
        raise ValueError(f"kernel: expected {SUPPORTED}, got noise alone")
    return Sum(smooth, White(white)) if white else smooth


def _terms(kernel: Any) -> list[Term]:
    name = type(kernel).__name__
    if name == "ConstantKernel":
        return [Term(float(kernel.constant_value))]
    if name == "WhiteKernel":
        return [Term(float(kernel.noise_level), white=True)]
    if name == "RBF":
        return [Term(1.0, SquaredExponential(1.0, kernel.length_scale))]
    if name == "Matern":
        return [Term(1.0, stationary(kernel.nu, 1.0, kernel.length_scale))]
    if name == "RationalQuadratic":
        return [Term(1.0, RationalQuadratic(kernel.alpha, 1.0, kernel.length_scale))]
    if name == "ExpSineSquared":  # of a distance, which is a kernel in one dimension alone
        return [Term(1.0, Periodic([float(kernel.periodicity)], 1.0, float(kernel.length_scale)))]
    if name == "DotProduct":
        offset = float(kernel.sigma_0) ** 2
        return [Term(1.0, Linear()), *([Term(offset)] if offset else [])]
    if name in ("Sum", "Product"):
        return (added if name == "Sum" else multiplied)([_terms(kernel.k1), _terms(kernel.k2)])
    if name == "Exponentiation":
        return _power(kernel.kernel, float(kernel.exponent))
    raise unknown_kernel(name, SUPPORTED)


def _power(kernel: Any, exponent: float) -> list[Term]:
    if exponent < 1.0 or not exponent.is_integer():
        raise ValueError(f"model: expected a whole exponent >= 1, for which powers are kernels, got {exponent:g}")
    if type(kernel).__name__ == "DotProduct" and kernel.sigma_0:
        return [Term(1.0, Polynomial(int(exponent), 1.0, float(kernel.sigma_0) ** 2))]
    return multiplied([_terms(kernel)] * int(exponent))
