"""Kernel, noise and inducing points of models trained with other libraries, for `evidence` and `gap`.

No library is imported: classes are recognised by their names, parameters by the attributes that the libraries document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float, as_points
from gpbounds.kernels import Kernel, Product, SquaredExponential, Sum
from gpbounds.kernels.plain import stationary
from gpbounds.kernels.stationary import Stationary
from gpbounds.validation import positive


@dataclass(frozen=True)
class Model:
    """Kernel, noise and inducing points of a trained model.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ², a variance.
    Z : array (M, D) or None
        Inducing inputs; None for a model without inducing points: choose Z yourself.
    """

    kernel: Kernel
    noise: float
    Z: Float | None


@dataclass(frozen=True)
class _Term:
    """scale · kernel; a constant when ``kernel`` is None; noise when ``white``."""

    scale: float
    kernel: Kernel | None = None
    white: bool = False


_SKLEARN = "ConstantKernel, RBF, Matern and WhiteKernel, their sums and products"
_GPFLOW = "SquaredExponential, Exponential, Matern12, Matern32 and Matern52, their sums and products"
_GPYTORCH = "RBFKernel and MaternKernel, ScaleKernel, InducingPointKernel, AdditiveKernel and ProductKernel of them"


def from_sklearn(model: Any) -> Model:
    """The kernel and noise of a ``GaussianProcessRegressor``: of its fitted ``kernel_``, or of ``kernel`` before a fit.

    The noise is ``alpha`` plus the level of every WhiteKernel.  Z is None.

    Raises
    ------
    ValueError
        for a kernel other than ConstantKernel, RBF, Matern and WhiteKernel, their sums and products; a constant that is
        added; ``normalize_y=True``; an ``alpha`` for each target; or no noise at all.

    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> model = from_sklearn(GaussianProcessRegressor(2.0 * RBF(0.5) + WhiteKernel(0.1)))
    >>> model.kernel, round(model.noise, 6)
    (SquaredExponential(variance=2.0, lengthscale=0.5), 0.1)
    """
    _needs(model, "scikit-learn GaussianProcessRegressor", "kernel", "alpha", "normalize_y")
    if model.normalize_y:
        raise ValueError(
            "model: expected normalize_y=False, got a model whose hyperparameters belong to (y - mean)/std. Normalise "
            "y yourself, fit again with normalize_y=False, and pass the normalised y to the bounds."
        )
    alpha = np.unique(np.asarray(model.alpha, dtype=np.float64))
    if alpha.size != 1:
        raise ValueError(f"model: expected one alpha for all targets, got {np.size(model.alpha)} that differ")
    kernel = getattr(model, "kernel_", None) or model.kernel
    terms = [_Term(1.0, SquaredExponential())] if kernel is None else _sklearn(kernel)  # None: its documented default
    return _model(terms, float(alpha[0]), None, _SKLEARN)


def from_gpflow(model: Any) -> Model:
    """The kernel, noise and Z of a GPflow ``GPR``, ``SGPR``, ``SVGP`` or another model with these attributes.

    Reads ``kernel``, ``likelihood.variance``, ``inducing_variable.Z`` (None without) and ``mean_function``, which must
    be zero.  Exponential is Matern12 with doubled lengthscales.

    Raises
    ------
    ValueError
        for a kernel other than SquaredExponential, Exponential, Matern12, Matern32 and Matern52, their sums and
        products; ``active_dims``; a likelihood other than a Gaussian with one variance; or a mean function.
    """
    _needs(model, "GPflow model", "kernel", "likelihood")
    _needs(model.likelihood, "Gaussian likelihood", "variance")
    if type(getattr(model, "mean_function", None)).__name__ not in ("NoneType", "Zero"):
        raise ValueError(
            f"model: expected a zero mean function, got {type(model.mean_function).__name__}: subtract the mean from y "
            "and train on the residuals"
        )
    inducing = getattr(model, "inducing_variable", None)
    if inducing is not None and not hasattr(inducing, "Z"):
        raise ValueError(f"model: expected inducing points with an attribute Z, got {type(inducing).__name__}")
    Z = None if inducing is None else _numbers(inducing.Z)
    return _model(_gpflow(model.kernel), _number("likelihood.variance", model.likelihood.variance), Z, _GPFLOW)


def from_gpytorch(model: Any, likelihood: Any = None) -> Model:
    """The kernel, noise and Z of a GPyTorch ``ExactGP`` or ``ApproximateGP``.

    Reads ``covar_module``; ``likelihood.noise``, from ``likelihood`` where the model holds none; Z from an
    InducingPointKernel or ``variational_strategy.inducing_points`` (None without); and ``mean_module``, which must be
    zero.

    Raises
    ------
    ValueError
        for a kernel other than RBFKernel and MaternKernel, ScaleKernel, InducingPointKernel, AdditiveKernel and
        ProductKernel of them; ``active_dims``; batches; a likelihood without one noise; or a mean that is not 0.
    """
    _needs(model, "GPyTorch model", "covar_module")
    gaussian = getattr(model, "likelihood", None) if likelihood is None else likelihood
    if gaussian is None:
        raise ValueError("likelihood: expected one, since the model holds none; pass from_gpytorch(model, likelihood)")
    _needs(gaussian, "Gaussian likelihood", "noise")
    mean = getattr(model, "mean_module", None)
    constant = float(np.abs(_numbers(getattr(mean, "constant", 0.0))).max())
    if type(mean).__name__ not in ("NoneType", "ZeroMean", "ConstantMean") or constant != 0.0:
        raise ValueError(
            f"model: expected a mean of 0, got {type(mean).__name__}: subtract it from y and train on the residuals"
        )
    inducing: list[Any] = []
    terms = _gpytorch(model.covar_module, inducing)
    strategy = getattr(model, "variational_strategy", None)
    if strategy is not None:
        _needs(strategy, "variational strategy", "inducing_points")
        inducing.append(strategy.inducing_points)
    if len(inducing) > 1:
        raise ValueError(f"model: expected one set of inducing points, got {len(inducing)}")
    Z = _numbers(inducing[0]) if inducing else None
    return _model(terms, _number("likelihood.noise", gaussian.noise), Z, _GPYTORCH)


# --- reading one library's kernels ------------------------------------------------------------------------------------


def _sklearn(kernel: Any) -> list[_Term]:
    name = type(kernel).__name__
    if name == "ConstantKernel":
        return [_Term(float(kernel.constant_value))]
    if name == "WhiteKernel":
        return [_Term(float(kernel.noise_level), white=True)]
    if name == "RBF":
        return [_Term(1.0, SquaredExponential(1.0, kernel.length_scale))]
    if name == "Matern":
        return [_Term(1.0, stationary(kernel.nu, 1.0, kernel.length_scale))]
    if name in ("Sum", "Product"):
        return _combined([_sklearn(kernel.k1), _sklearn(kernel.k2)], name == "Sum")
    raise _unknown(name, _SKLEARN)


def _gpflow(kernel: Any) -> list[_Term]:
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        return _combined([_gpflow(part) for part in kernel.kernels], name == "Sum")
    orders = {"SquaredExponential": np.inf, "Exponential": 0.5, "Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5}
    if name not in orders:
        raise _unknown(name, _GPFLOW)
    columns = getattr(kernel, "active_dims", None)
    if columns is not None and columns != slice(None) and columns != slice(None, None, 1):
        raise ValueError(f"model: expected a kernel on all columns, got active_dims = {columns!r}")
    lengthscale = _numbers(kernel.lengthscales) * (2.0 if name == "Exponential" else 1.0)
    return [_Term(_number("variance", kernel.variance), _stationary(orders[name], lengthscale))]


def _gpytorch(kernel: Any, inducing: list[Any]) -> list[_Term]:
    name = type(kernel).__name__
    if getattr(kernel, "active_dims", None) is not None:
        raise ValueError(f"model: expected a kernel on all columns, got {name} with active_dims")
    if name == "ScaleKernel":
        scale = _Term(_number("outputscale", kernel.outputscale))
        return _combined([[scale], _gpytorch(kernel.base_kernel, inducing)], False)
    if name == "InducingPointKernel":
        inducing.append(kernel.inducing_points)
        return _gpytorch(kernel.base_kernel, inducing)
    if name in ("AdditiveKernel", "ProductKernel"):
        return _combined([_gpytorch(part, inducing) for part in kernel.kernels], name == "AdditiveKernel")
    if name not in ("RBFKernel", "MaternKernel"):
        raise _unknown(name, _GPYTORCH)
    lengthscale = _numbers(kernel.lengthscale)
    if lengthscale.ndim > 2 or (lengthscale.ndim == 2 and lengthscale.shape[0] != 1):
        raise ValueError(f"model: expected one set of lengthscales, got a batch of shape {lengthscale.shape}")
    return [_Term(1.0, _stationary(np.inf if name == "RBFKernel" else float(kernel.nu), lengthscale.ravel()))]


# --- shared by all libraries --------------------------------------------------------------------------------------


def _stationary(nu: float, lengthscale: Float) -> Kernel:
    """One lengthscale is a number, several an array."""
    lengths = float(lengthscale.ravel()[0]) if lengthscale.size == 1 else lengthscale
    return stationary(nu, 1.0, lengths)


def _combined(parts: list[list[_Term]], add: bool) -> list[_Term]:
    if add:
        return [term for part in parts for term in part]
    product = [_Term(1.0)]
    for part in parts:
        product = [_times(a, b) for a in product for b in part]
    return product


def _times(a: _Term, b: _Term) -> _Term:
    scale = a.scale * b.scale
    if a.white or b.white:  # k(x, x) of a stationary kernel times noise is noise
        for term in (a, b):
            scale *= 1.0 if term.kernel is None else term.kernel.max_variance
        return _Term(scale, white=True)
    if a.kernel is None or b.kernel is None:
        return _Term(scale, a.kernel or b.kernel)
    return _Term(scale, Product(a.kernel, b.kernel))


def _scaled(kernel: Kernel, scale: float) -> Kernel:
    if isinstance(kernel, Product):
        return Product(_scaled(kernel.k1, scale), kernel.k2)
    assert isinstance(kernel, Stationary)
    return replace(kernel, variance=scale * kernel.variance)


def _model(terms: list[_Term], noise: float, Z: Float | None, supported: str) -> Model:
    if any(term.kernel is None and not term.white for term in terms):
        raise ValueError(f"model: expected {supported}, got a constant kernel that is added: centre y instead")
    kernels = [_scaled(term.kernel, term.scale) for term in terms if term.kernel is not None]
    if not kernels:
        raise ValueError(f"model: expected {supported}, got noise alone")
    total = kernels[0]
    for kernel in kernels[1:]:
        total = Sum(total, kernel)
    level = noise + sum(term.scale for term in terms if term.white)
    return Model(total, float(positive("noise", level)), None if Z is None else np.asarray(as_points(Z, "Z")))


def _unknown(name: str, supported: str) -> ValueError:
    return ValueError(f"model: expected a kernel made of {supported}, got {name}")


def _needs(part: Any, expected: str, *names: str) -> None:
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise ValueError(f"model: expected a {expected}, got {type(part).__name__} without {', '.join(missing)}")


def _numbers(value: Any) -> Float:
    """Parameters and tensors as NumPy numbers."""
    for step in ("detach", "cpu", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return np.asarray(value, dtype=np.float64)


def _number(name: str, value: Any) -> float:
    numbers = _numbers(value)
    if numbers.size != 1:
        raise ValueError(f"model: expected one {name}, got shape {numbers.shape}")
    return float(numbers.ravel()[0])
