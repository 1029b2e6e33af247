"""Kernel, mean and noise of Gaussian process regressors of scikit-learn, in units of the rows of their fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.kernels import (
    Kernel,
    Linear,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Sum,
    White,
)
from gpbounds.kernels.plain import stationary
from gpbounds.means import LinearMean
from gpbounds.renyi.models import Model
from gpbounds.renyi.readers.shared import (
    Term,
    added,
    imported,
    multiplied,
    needs,
    one_or_each,
    total,
    unknown_kernel,
)

SUPPORTED = (
    "ConstantKernel, RBF, Matern, RationalQuadratic, ExpSineSquared of one input, DotProduct and WhiteKernel, their "
    "sums, products and whole powers"
)


SCALERS = {
    "StandardScaler": ("with_mean", "mean_"),
    "MinMaxScaler": ("", ""),
    "RobustScaler": ("with_centering", "center_"),
    "MaxAbsScaler": ("", ""),
}
"""The scalers that are read; the parameter that lets them subtract a centre and the attribute that holds it, if any."""
ALONE = "read the regressor alone, from_sklearn(pipeline[-1]), and pass bounds the rows pipeline[:-1].transform(X)"
"""What to do if the transformers of a Pipeline cannot be read."""


@dataclass(frozen=True)
class _Scaling:
    """rate·x + offset, with one number for each column or one for all."""

    rate: Any = 1.0
    offset: Any = 0.0

    def then(self, later: _Scaling) -> _Scaling:
        """This scaling, and another one of its values."""
        return _Scaling(self.rate * later.rate, self.offset * later.rate + later.offset)

    @property
    def one_or_each(self) -> Any:
        """The rate, as one number where all columns have the same."""
        rates = np.ravel(self.rate)
        return float(rates[0]) if (rates == rates[0]).all() else rates


def from_sklearn(model: Any) -> Model:
    """The kernel, mean and noise of a fitted ``GaussianProcessRegressor``, in units of the X and y of its ``fit``.

    Scalers are read, too: a ``Pipeline`` of StandardScaler, MinMaxScaler, RobustScaler and MaxAbsScaler and the
    regressor, whose lengthscales are returned in units of the raw columns; and ``normalize_y=True`` or a
    ``TransformedTargetRegressor`` with a scaler, whose mean is ``Model.mean`` and whose squared scale multiplies kernel
    and noise.  The noise is ``alpha``, also one for each row, plus the level of every WhiteKernel.  Z is None.

    Raises
    ------
    ValueError
        for a model that is not fitted; a kernel other than ConstantKernel, RBF, Matern, RationalQuadratic,
        ExpSineSquared, DotProduct and WhiteKernel, their sums, products and whole powers; ExpSineSquared of several
        inputs, which is not positive semi-definite; DotProduct of shifted columns, which is no kernel of gpbounds in
        raw units; other transformers; several targets that are scaled; or no noise at all.

    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> kernel = 2.0 * RBF(0.5) + WhiteKernel(0.1)
    >>> fitted = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=None).fit([[0.0], [1.0]], [3.0, 7.0])
    >>> model = from_sklearn(fitted)
    >>> model.kernel, round(model.noise, 6), model.mean
    (SquaredExponential(variance=8.0, lengthscale=0.5), 0.4, LinearMean(intercept=5.0, slopes=None))
    """
    regressor, before, of_targets = _parts(model)
    needs(regressor, "scikit-learn GaussianProcessRegressor", "kernel", "alpha", "normalize_y")
    if not hasattr(regressor, "X_train_"):
        raise _unfitted(model)
    alpha = np.asarray(regressor.alpha, dtype=np.float64)
    own = float(alpha.ravel()[0]) if np.unique(alpha).size == 1 else alpha
    columns = _Scaling(np.ones(np.shape(regressor.X_train_)[1:]))
    for step in before:
        columns = columns.then(_scaling(step, ALONE))
    scale, mean = _units_of_y(regressor, of_targets)
    terms = [replace(term, scale=term.scale * scale**2) for term in _terms(regressor.kernel_, columns)]
    return imported(terms, own * scale**2, None, SUPPORTED, mean)


def _parts(model: Any) -> tuple[Any, list[Any], list[Any]]:
    """The regressor, the transformers of its inputs and those of its targets, each in the order of their work."""
    before: list[Any] = []
    of_targets: list[Any] = []
    while type(model).__name__ in ("Pipeline", "TransformedTargetRegressor"):
        if type(model).__name__ == "Pipeline":
            before += [step for _, step in model.steps[:-1]]
            model = model.steps[-1][1]
        elif hasattr(model, "regressor_"):
            of_targets.append(model.transformer_)
            model = model.regressor_
        else:
            raise _unfitted(model)
    return model, before, of_targets


def _unfitted(model: Any) -> ValueError:
    return ValueError(
        f"model: expected a fitted {type(model).__name__}, got one before fit: call fit(X, y); the regressor keeps the "
        "hyperparameters of its kernel with optimizer=None"
    )


def _scaling(step: Any, instead: str) -> _Scaling:
    """What a fitted scaler, or several in a Pipeline, do to numbers; ``instead`` ends the errors."""
    name = type(step).__name__
    if step is None or name == "str":  # "passthrough"
        return _Scaling()
    if name == "Pipeline":
        whole = _Scaling()
        for _, part in step.steps:
            whole = whole.then(_scaling(part, instead))
        return whole
    if name not in SCALERS or getattr(step, "clip", False):
        got = f"{name} with clip=True" if name in SCALERS else name
        raise ValueError(f"model: expected {', '.join(SCALERS)} as scalers, got {got}: {instead}")
    if name == "MinMaxScaler":
        return _Scaling(step.scale_, step.min_)
    rate = 1.0 if step.scale_ is None else 1.0 / step.scale_
    centred, centre = SCALERS[name]
    return _Scaling(rate, -getattr(step, centre) * rate if centred and getattr(step, centred) else 0.0)


def _units_of_y(regressor: Any, transformers: list[Any]) -> tuple[float, LinearMean | None]:
    """What one unit of the kernel's f is in units of y, and the mean of y."""
    if not regressor.normalize_y and not transformers:
        return 1.0, None
    if np.ndim(regressor.y_train_) == 2 and np.shape(regressor.y_train_)[1] != 1:
        P = np.shape(regressor.y_train_)[1]
        raise ValueError(f"model: expected one target where targets are scaled, got {P}: fit one model for each")
    scaled = _Scaling()
    for step in transformers:
        scaled = scaled.then(_scaling(step, "log p(y) of other transformed targets is not that of a Gaussian process"))
    rate, offset = (float(np.ravel(each)[0]) for each in (scaled.rate, scaled.offset))
    centre, scale = (float(np.ravel(each)[0]) for each in (regressor._y_train_mean, regressor._y_train_std))
    return scale / rate, LinearMean((centre - offset) / rate)


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
        smooth, white = total(_terms(kernel, _Scaling()))
    except ValueError as error:
        raise ValueError(f"kernel:{str(error).removeprefix('model:')}") from None
    if smooth is None:
        raise ValueError(f"kernel: expected {SUPPORTED}, got noise alone")
    return Sum(smooth, White(white)) if white else smooth


def _terms(kernel: Any, columns: _Scaling) -> list[Term]:
    """The terms of a kernel of scaled columns, as a kernel of raw ones."""
    name = type(kernel).__name__
    if name == "ConstantKernel":
        return [Term(float(kernel.constant_value))]
    if name == "WhiteKernel":
        return [Term(float(kernel.noise_level), white=True)]
    if name in ("RBF", "Matern", "RationalQuadratic"):
        lengths = one_or_each(np.asarray(kernel.length_scale) / columns.one_or_each)
        if name == "RationalQuadratic":
            return [Term(1.0, RationalQuadratic(kernel.alpha, 1.0, lengths))]
        return [Term(1.0, stationary(np.inf if name == "RBF" else kernel.nu, 1.0, lengths))]
    if name == "ExpSineSquared":
        if np.size(columns.rate) > 1:
            raise ValueError(
                f"model: expected ExpSineSquared of one input, got {np.size(columns.rate)}: a sine of their Euclidean "
                "distance is not positive semi-definite"
            )
        period = float(kernel.periodicity) / columns.one_or_each
        return [Term(1.0, Periodic([period], 1.0, float(kernel.length_scale)))]
    if name == "DotProduct":
        offset = float(kernel.sigma_0) ** 2
        return [Term(1.0, Linear(_slopes(columns))), *([Term(offset)] if offset else [])]
    if name in ("Sum", "Product"):
        return (added if name == "Sum" else multiplied)([_terms(kernel.k1, columns), _terms(kernel.k2, columns)])
    if name == "Exponentiation":
        return _power(kernel.kernel, float(kernel.exponent), columns)
    raise unknown_kernel(name, SUPPORTED)


def _slopes(columns: _Scaling) -> Any:
    """Prior variances of the slopes of a linear function of raw columns; 1 for those of scaled ones."""
    if np.any(columns.offset):
        raise ValueError(
            "model: expected no DotProduct of columns that a scaler shifts, got one: gpbounds has no such kernel of "
            f"raw columns; fit with StandardScaler(with_mean=False) or MaxAbsScaler, or {ALONE}"
        )
    return columns.one_or_each**2


def _power(kernel: Any, exponent: float, columns: _Scaling) -> list[Term]:
    if exponent < 1.0 or not exponent.is_integer():
        raise ValueError(f"model: expected a whole exponent >= 1, for which powers are kernels, got {exponent:g}")
    if type(kernel).__name__ == "DotProduct" and kernel.sigma_0:
        return [Term(1.0, Polynomial(int(exponent), _slopes(columns), float(kernel.sigma_0) ** 2))]
    return multiplied([_terms(kernel, columns)] * int(exponent))
