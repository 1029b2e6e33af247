"""Kernel, mean, noise, inducing points and q(u) of models of GPJax."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Linear, Periodic, Polynomial, RationalQuadratic
from gpbounds.kernels.plain import stationary
from gpbounds.means import LinearMean
from gpbounds.renyi.models import InducingLaw, LatentModel, Model
from gpbounds.renyi.readers.shared import (
    MIXED,
    Term,
    added,
    as_numbers,
    columns_of,
    imported,
    imported_latent,
    inducing_law,
    labels_or_counts,
    multiplied,
    needs,
    on_columns,
    one_or_each,
    unknown_kernel,
)

SUPPORTED = (
    "RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial, Constant and White, their "
    "sums and products"
)
ORDERS = {"RBF": np.inf, "Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5}
OPERATORS = {"sum": "SumKernel", "prod": "ProductKernel"}
"""Names of sums and products by the operator that GPJax before 1.0 stores in a CombinationKernel."""


def from_gpjax(model: Any) -> Model | LatentModel:
    """The kernel, mean, noise, Z and q(u) of a GPJax model, conditioned or not, or of a variational family.

    Reads ``prior.kernel`` with its ``active_dims``, ``prior.mean_function``: Zero or Constant, the square of
    ``likelihood.obs_stddev``, and ``inducing_inputs`` (None without), each with the transformations that parameters are
    trained in.  A variational family holds the model as ``model``, before GPJax 1.0 as ``posterior``.  Periodic is
    `gpbounds.kernels.Periodic` with doubled lengthscales.  White adds to the noise.

    q(u) is that of a VariationalGaussian, of f(Z), or a WhitenedVariationalGaussian, of L⁻¹(f(Z) − m(Z)), with the
    ``jitter`` that GPJax adds to the diagonal of Kuu.  That which it adds to other diagonals is not part of the model.

    With a Bernoulli (probit) or Poisson likelihood (exp) the result is a `gpbounds.renyi.LatentModel`.  GPJax's probit
    mixes 0.001 of each label in; the model that is read does not.

    Numbers have the precision of the model: enable 64 bits (``jax_enable_x64``) before you train.

    Raises
    ------
    ValueError
        for another kernel, mean function or family, by its name; a negative constant or shift, for which a constant
        or a polynomial is no kernel; and for a likelihood other than a Gaussian with one ``obs_stddev``, a Bernoulli
        or a Poisson.
    """
    family = getattr(model, "family", model)  # of a conditioned variational family
    joint = next((getattr(family, name) for name in ("model", "posterior") if hasattr(family, name)), family)
    needs(joint, "GPJax model (a prior times a likelihood)", "prior", "likelihood")
    needs(joint.prior, "prior of GPJax", "kernel", "mean_function")
    links = {"Bernoulli": "inv_probit", "Poisson": "exp"}  # the only ones of GPJax
    link = links.get(type(joint.likelihood).__name__, "")
    latent = labels_or_counts(joint.likelihood, link)
    if latent is None:
        needs(joint.likelihood, "Gaussian likelihood", "obs_stddev")
    inducing = getattr(family, "inducing_inputs", None)
    Z = None if inducing is None else _numbers("inducing_inputs", inducing)
    mean = _mean(joint.prior.mean_function)
    q = None if Z is None else _law(family, joint, Z, mean)
    if latent is not None:
        notes = (MIXED,) if link == "inv_probit" else ()
        return imported_latent(_terms(joint.prior.kernel), latent, Z, SUPPORTED, mean, q, notes)
    noise = _number("likelihood.obs_stddev", joint.likelihood.obs_stddev) ** 2
    return imported(_terms(joint.prior.kernel), noise, Z, SUPPORTED, mean, q)


def _law(family: Any, joint: Any, Z: Float, prior: LinearMean | None) -> InducingLaw | None:
    """q(u) of a variational family; None for the collapsed one, whose q is the best one."""
    name = type(family).__name__
    if name == "CollapsedVariationalGaussian":
        return None
    if name not in ("VariationalGaussian", "WhitenedVariationalGaussian"):
        raise ValueError(
            "model: expected a VariationalGaussian, WhitenedVariationalGaussian or CollapsedVariationalGaussian, got "
            f"{name}"
        )
    holder = next((each for each in (family, joint.prior) if hasattr(each, "jitter")), None)
    if holder is None:
        raise ValueError("model: expected a prior or a variational family with its jitter, got none")
    mean = _numbers("variational_mean", family.variational_mean).ravel()
    root = _numbers("variational_root_covariance", family.variational_root_covariance)
    whitened = name == "WhitenedVariationalGaussian"
    if not whitened and prior is not None:
        mean = mean - prior(Z)
    return inducing_law(mean, root, whitened=whitened, jitter=_number("jitter", holder.jitter))


def _terms(kernel: Any) -> list[Term]:
    name = type(kernel).__name__
    if name == "CombinationKernel":
        operator = getattr(kernel.operator, "__name__", "")
        name = OPERATORS.get(operator, f"CombinationKernel with the operator {operator}")
    if name in ("SumKernel", "ProductKernel"):
        return (added if name == "SumKernel" else multiplied)([_terms(part) for part in kernel.kernels])
    if name == "Constant":
        constant = _number("constant", kernel.constant)
        if constant < 0.0:
            raise ValueError(f"model: expected a Constant kernel with a constant >= 0, got {constant:g}")
        return [Term(constant)] if constant else []
    if name == "White":
        return [Term(_number("variance", kernel.variance), white=True)]
    if name not in ("RationalQuadratic", "Periodic", "Linear", "Polynomial", *ORDERS):
        raise unknown_kernel(name, SUPPORTED)
    variance = _number("variance", kernel.variance)
    if name == "Linear":
        terms = [Term(1.0, Linear(variance))]
    elif name == "Polynomial":
        terms = _polynomial(int(kernel.degree), variance, _number("shift", kernel.shift))
    else:
        lengths = _numbers("lengthscale", kernel.lengthscale)
        if name == "Periodic":
            own: Any = Periodic(_number("period", kernel.period), 1.0, one_or_each(2.0 * lengths))
        elif name == "RationalQuadratic":
            own = RationalQuadratic(_number("alpha", kernel.alpha), 1.0, one_or_each(lengths))
        else:
            own = stationary(ORDERS[name], 1.0, one_or_each(lengths))
        terms = [Term(variance, own)]
    return on_columns(terms, columns_of(getattr(kernel, "active_dims", None)))


def _polynomial(degree: int, variance: float, shift: float) -> list[Term]:
    if degree < 1 or shift < 0.0:
        expected = "model: expected a Polynomial kernel of degree >= 1 with a shift >= 0"
        raise ValueError(f"{expected}, got degree {degree} and shift {shift:g}")
    if shift == 0.0:
        return multiplied([[Term(1.0, Linear(variance))]] * degree)
    return [Term(1.0, Polynomial(degree, variance, shift))]


def _mean(mean: Any) -> LinearMean | None:
    name = type(mean).__name__
    if name == "Zero":
        return None
    if name == "Constant":
        return LinearMean(_number("mean_function.constant", mean.constant))
    raise ValueError(f"model: expected the mean function Zero or Constant, got {name}")


def _numbers(name: str, value: Any) -> Float:
    """The numbers of a parameter, after its own transformations."""
    if hasattr(value, "unwrap"):  # GPJax 1.0: wrappers of Paramax, one in another; before that arrays
        value = import_module("paramax").unwrap(value)
    try:
        return as_numbers(value)
    except (TypeError, ValueError):
        raise ValueError(f"model: expected numbers as {name}, got {type(value).__name__}") from None


def _number(name: str, value: Any) -> float:
    numbers = _numbers(name, value)
    if numbers.size != 1:
        raise ValueError(f"model: expected one {name}, got shape {numbers.shape}")
    return float(numbers.ravel()[0])
