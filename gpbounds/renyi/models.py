"""Kernel, mean, noise and inducing points of models trained with other libraries, for `evidence`, `gap`, audits.

No library is imported: classes are recognised by their names, parameters by the attributes that the libraries document.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_points
from gpbounds.kernels import Kernel, Linear, Periodic, Polynomial, RationalQuadratic, SquaredExponential
from gpbounds.kernels.plain import kernel_from_plain, kernel_to_plain, stationary
from gpbounds.means import LinearMean
from gpbounds.renyi.terms import Term, added, multiplied, on_columns, total
from gpbounds.validation import noise_variance, positive


@dataclass(frozen=True)
class Model:
    """Kernel, mean, noise and inducing points of a trained model.

    Attributes
    ----------
    kernel : Kernel
    noise : float
        σ², a variance.
    Z : array (M, D) or None
        Inducing inputs; None for a model without inducing points: choose Z yourself.
    mean : LinearMean or None
        The mean function; None for 0.  Bounds speak of y − mean: pass them `residuals`.
    """

    kernel: Kernel
    noise: float
    Z: Float | None
    mean: LinearMean | None = None

    def residuals(self, X: ArrayLike, y: ArrayLike) -> Float:
        """y − mean(x) for the rows of X (N, D) and y (N,) or (N, P), in host memory.

        The evidence of y under the model is that of these residuals under a zero mean.

        >>> from gpbounds.kernels import Matern
        >>> Model(Matern(0.5), 0.1, None, LinearMean(2.0)).residuals([0.0, 1.0], [2.0, 5.0])
        array([0., 3.])
        """
        targets = np.asarray(y, dtype=np.float64)
        if self.mean is None:
            return targets
        mean = self.mean(as_host_points(X, "X"))
        return targets - (mean if targets.ndim == 1 else mean[:, None])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, with all digits; `gpbounds audit --model` reads it.

        Raises
        ------
        ValueError
            for a kernel that is not one of gpbounds.
        """
        record = {
            "kind": KIND,
            "version": VERSION,
            "kernel": kernel_to_plain(self.kernel),
            "noise": self.noise,
            "Z": None if self.Z is None else self.Z.tolist(),
            "mean": None if self.mean is None else _mean_to_plain(self.mean),
        }
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, allow_nan=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """The model in a file that `save` wrote.

        Raises
        ------
        ValueError
            for a file of another kind, or with values that are no model.
        OSError
            if the file cannot be read.
        """
        name = os.fspath(path)
        wrong = f"{name}: expected a model that gpbounds.renyi.Model.save wrote"
        with open(path, encoding="utf-8") as file:
            try:
                record = json.load(file)
            except (json.JSONDecodeError, UnicodeDecodeError):
                raise ValueError(f"{wrong}, got a file that is not JSON") from None
        if not isinstance(record, dict) or record.get("kind") != KIND or record.get("version") != VERSION:
            raise ValueError(f"{wrong}, got another JSON file, or one of another version")
        try:
            Z = None if record["Z"] is None else np.asarray(as_points(record["Z"], "Z"), dtype=np.float64)
            mean = None if record["mean"] is None else LinearMean(**record["mean"])
            return cls(kernel_from_plain(record["kernel"]), noise_variance(record["noise"]), Z, mean)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{wrong}, got values that are no model: {error}") from None


KIND, VERSION = "imported model", 1
"""Marks of a file."""


def _mean_to_plain(mean: LinearMean) -> dict[str, Any]:
    return {"intercept": mean.intercept, "slopes": None if mean.slopes is None else np.asarray(mean.slopes).tolist()}


_SKLEARN = (
    "ConstantKernel, RBF, Matern, RationalQuadratic, ExpSineSquared of one input, DotProduct and WhiteKernel, their "
    "sums, products and whole powers"
)
_GPFLOW = (
    "SquaredExponential, Exponential, Matern12, Matern32, Matern52, RationalQuadratic, Periodic of a "
    "SquaredExponential, Constant, Linear, Polynomial and White, their sums and products"
)
_GPYTORCH = (
    "RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel, PolynomialKernel and ConstantKernel, "
    "ScaleKernel, InducingPointKernel, AdditiveKernel and ProductKernel of them"
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
    terms = [Term(1.0, SquaredExponential())] if kernel is None else _sklearn(kernel)  # None: its documented default
    return _model(terms, float(alpha[0]), None, _SKLEARN)


def from_gpflow(model: Any) -> Model:
    """The kernel, mean, noise and Z of a GPflow ``GPR``, ``SGPR``, ``SVGP`` or another model with these attributes.

    Reads ``kernel`` with its ``active_dims``, ``likelihood.variance``, ``inducing_variable.Z`` (None without) and
    ``mean_function``: Zero, Constant or Linear.  Exponential is Matern12 with doubled lengthscales, Periodic is
    `gpbounds.kernels.Periodic` with doubled lengthscales.  White adds to the noise.

    Raises
    ------
    ValueError
        for another kernel, mean function or kind of inducing variable, by its name; and for a likelihood other than a
        Gaussian with one variance.
    """
    _needs(model, "GPflow model", "kernel", "likelihood")
    _needs(model.likelihood, "Gaussian likelihood", "variance")
    inducing = getattr(model, "inducing_variable", None)
    if inducing is not None and not hasattr(inducing, "Z"):
        raise ValueError(f"model: expected inducing points with an attribute Z, got {type(inducing).__name__}")
    Z = None if inducing is None else _numbers(inducing.Z)
    mean = _gpflow_mean(getattr(model, "mean_function", None))
    return _model(_gpflow(model.kernel), _number("likelihood.variance", model.likelihood.variance), Z, _GPFLOW, mean)


def from_gpytorch(model: Any, likelihood: Any = None) -> Model:
    """The kernel, mean, noise and Z of a GPyTorch ``ExactGP`` or ``ApproximateGP``.

    Reads ``covar_module`` with its ``active_dims``; ``likelihood.noise``, from ``likelihood`` where the model holds
    none; Z from an InducingPointKernel or ``variational_strategy.inducing_points`` (None without); and
    ``mean_module``: ZeroMean, ConstantMean or LinearMean.  PeriodicKernel has the square root of its lengthscales.

    Raises
    ------
    ValueError
        for another kernel or mean, by its name; batches; or a likelihood without one noise.
    """
    _needs(model, "GPyTorch model", "covar_module")
    gaussian = getattr(model, "likelihood", None) if likelihood is None else likelihood
    if gaussian is None:
        raise ValueError("likelihood: expected one, since the model holds none; pass from_gpytorch(model, likelihood)")
    _needs(gaussian, "Gaussian likelihood", "noise")
    inducing: list[Any] = []
    terms = _gpytorch(model.covar_module, inducing)
    strategy = getattr(model, "variational_strategy", None)
    if strategy is not None:
        _needs(strategy, "variational strategy", "inducing_points")
        inducing.append(strategy.inducing_points)
    if len(inducing) > 1:
        raise ValueError(f"model: expected one set of inducing points, got {len(inducing)}")
    Z = _numbers(inducing[0]) if inducing else None
    mean = _gpytorch_mean(getattr(model, "mean_module", None))
    return _model(terms, _number("likelihood.noise", gaussian.noise), Z, _GPYTORCH, mean)


# --- reading one library's kernels ------------------------------------------------------------------------------------


def _sklearn(kernel: Any) -> list[Term]:
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
        return (added if name == "Sum" else multiplied)([_sklearn(kernel.k1), _sklearn(kernel.k2)])
    if name == "Exponentiation":
        return _sklearn_power(kernel.kernel, float(kernel.exponent))
    raise _unknown(name, _SKLEARN)


def _sklearn_power(kernel: Any, exponent: float) -> list[Term]:
    if exponent < 1.0 or not exponent.is_integer():
        raise ValueError(f"model: expected a whole exponent >= 1, for which powers are kernels, got {exponent:g}")
    if type(kernel).__name__ == "DotProduct" and kernel.sigma_0:
        return [Term(1.0, Polynomial(int(exponent), 1.0, float(kernel.sigma_0) ** 2))]
    return multiplied([_sklearn(kernel)] * int(exponent))


def _gpflow(kernel: Any) -> list[Term]:
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        return (added if name == "Sum" else multiplied)([_gpflow(part) for part in kernel.kernels])
    orders = {"SquaredExponential": np.inf, "Exponential": 0.5, "Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5}
    if name == "Periodic":
        base = kernel.base_kernel
        if type(base).__name__ != "SquaredExponential":
            raise ValueError(
                f"model: expected a Periodic kernel of SquaredExponential, got one of {type(base).__name__}"
            )
        scale, period = _number("variance", base.variance), _shared(_numbers(kernel.period))
        single = Term(scale, Periodic(period, 1.0, _shared(2.0 * _numbers(base.lengthscales))))
    elif name in ("Constant", "White"):
        return [Term(_number("variance", kernel.variance), white=name == "White")]
    elif name == "Linear":
        single = Term(1.0, Linear(_shared(_numbers(kernel.variance))))
    elif name == "Polynomial":
        degree = _number("degree", kernel.degree)
        if degree < 1.0 or not degree.is_integer():
            raise ValueError(f"model: expected a Polynomial kernel of a whole degree >= 1, got {degree:g}")
        offset = _number("offset", kernel.offset)
        single = Term(1.0, Polynomial(int(degree), _shared(_numbers(kernel.variance)), offset))
    elif name == "RationalQuadratic":
        lengths = _shared(_numbers(kernel.lengthscales))
        own = RationalQuadratic(_number("alpha", kernel.alpha), 1.0, lengths)
        single = Term(_number("variance", kernel.variance), own)
    elif name in orders:
        lengths = _shared(_numbers(kernel.lengthscales) * (2.0 if name == "Exponential" else 1.0))
        single = Term(_number("variance", kernel.variance), stationary(orders[name], 1.0, lengths))
    else:
        raise _unknown(name, _GPFLOW)
    return on_columns([single], _columns(getattr(kernel, "active_dims", None)))


def _columns(active: Any) -> list[int] | None:
    """Column numbers from GPflow's ``active_dims``; None for all."""
    if active is None or (isinstance(active, slice) and active in (slice(None), slice(None, None, 1))):
        return None
    if isinstance(active, slice):
        start, step = active.start or 0, active.step or 1
        if active.stop is None or min(start, active.stop, step) < 0:
            raise ValueError(f"model: expected active_dims with column numbers >= 0 and an end, got {active!r}")
        return list(range(start, active.stop, step))
    return [int(column) for column in _numbers(active).ravel()]


def _gpflow_mean(mean: Any) -> LinearMean | None:
    name = type(mean).__name__
    if name in ("NoneType", "Zero"):
        return None
    if name == "Constant":
        return LinearMean(_number("mean_function.c", mean.c))
    if name == "Linear":
        return LinearMean(_number("mean_function.b", mean.b), _slopes(mean.A))
    raise ValueError(f"model: expected the mean function Zero, Constant or Linear, got {name}")


def _gpytorch(kernel: Any, inducing: list[Any]) -> list[Term]:
    active = getattr(kernel, "active_dims", None)
    columns = None if active is None else [int(column) for column in _numbers(active).ravel()]
    return on_columns(_gpytorch_on_all(kernel, inducing, columns is not None), columns)


def _gpytorch_on_all(kernel: Any, inducing: list[Any], on_some: bool) -> list[Term]:
    name = type(kernel).__name__
    if name == "ScaleKernel":
        scale = Term(_number("outputscale", kernel.outputscale))
        # forward calls base_kernel.forward, which takes columns from the ScaleKernel, where they are copied
        return multiplied([[scale], _gpytorch_on_all(kernel.base_kernel, inducing, on_some)])
    if name == "InducingPointKernel":
        if on_some:
            raise ValueError("model: expected inducing points in all columns, got InducingPointKernel with active_dims")
        inducing.append(kernel.inducing_points)
        return _gpytorch(kernel.base_kernel, inducing)
    if name in ("AdditiveKernel", "ProductKernel"):
        return (added if name == "AdditiveKernel" else multiplied)([_gpytorch(k, inducing) for k in kernel.kernels])
    if name == "ConstantKernel":
        return [Term(_number("constant", kernel.constant))]
    if name == "LinearKernel":
        return [Term(1.0, Linear(_unbatched("variance", kernel.variance)))]
    if name == "PolynomialKernel":
        return [Term(1.0, Polynomial(int(kernel.power), 1.0, _number("offset", kernel.offset)))]
    if name == "PeriodicKernel":
        squares, period = _numbers(kernel.lengthscale), _unbatched("period_length", kernel.period_length)
        return [Term(1.0, Periodic(period, 1.0, _unbatched("lengthscale", np.sqrt(squares))))]
    if name not in ("RBFKernel", "MaternKernel", "RQKernel"):
        raise _unknown(name, _GPYTORCH)
    lengths = _unbatched("lengthscale", kernel.lengthscale)
    if name == "RQKernel":
        return [Term(1.0, RationalQuadratic(_number("alpha", kernel.alpha), 1.0, lengths))]
    return [Term(1.0, stationary(np.inf if name == "RBFKernel" else float(kernel.nu), 1.0, lengths))]


def _gpytorch_mean(mean: Any) -> LinearMean | None:
    name = type(mean).__name__
    if name in ("NoneType", "ZeroMean"):
        return None
    if name == "ConstantMean":
        return LinearMean(_number("mean_module.constant", mean.constant))
    if name == "LinearMean":
        bias = getattr(mean, "bias", None)
        return LinearMean(0.0 if bias is None else _number("mean_module.bias", bias), _slopes(mean.weights))
    raise ValueError(f"model: expected ZeroMean, ConstantMean or LinearMean, got {name}")


# --- shared by all libraries --------------------------------------------------------------------------------------


def _shared(values: Float) -> float | Float:
    """One number that all dimensions share is a number, several are an array."""
    return float(values.ravel()[0]) if values.size == 1 else values


def _unbatched(name: str, value: Any) -> float | Float:
    numbers = _numbers(value)
    if numbers.ndim > 2 or (numbers.ndim == 2 and numbers.shape[0] != 1):
        raise ValueError(f"model: expected one set of {name}s, got a batch of shape {numbers.shape}")
    return _shared(numbers.ravel())


def _slopes(value: Any) -> Float:
    numbers = _numbers(value)
    if numbers.ndim != 2 or numbers.shape[1] != 1:
        raise ValueError(f"model: expected a linear mean of one output, got coefficients of shape {numbers.shape}")
    return numbers[:, 0]


def _model(terms: list[Term], noise: float, Z: Float | None, supported: str, mean: LinearMean | None = None) -> Model:
    kernel, white = total(terms)
    if kernel is None:
        raise ValueError(f"model: expected {supported}, got noise alone")
    points = None if Z is None else np.asarray(as_points(Z, "Z"))
    return Model(kernel, float(positive("noise", noise + white)), points, mean)


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
