"""Kernel, mean, noise, inducing points and q(u) of models of GPflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.kernels import Linear, Periodic, Polynomial, RationalQuadratic
from gpbounds.kernels.plain import stationary
from gpbounds.likelihoods import Likelihood
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
    linear_slopes,
    multiplied,
    needs,
    on_columns,
    one_number,
    one_or_each,
    unknown_kernel,
)

SUPPORTED = (
    "SquaredExponential, Exponential, Matern12, Matern32, Matern52, RationalQuadratic, Periodic of a "
    "SquaredExponential, Constant, Linear, Polynomial and White, their sums and products"
)


def from_gpflow(
    model: Any, *, default_jitter: float = 1e-6, likelihood: Likelihood | None = None
) -> Model | LatentModel:
    """The kernel, mean, noise, Z and q(u) of a GPflow ``GPR``, ``SGPR``, ``SVGP`` or a model with their attributes.

    Reads ``kernel`` with its ``active_dims``, ``likelihood.variance``, ``inducing_variable.Z`` (None without) and
    ``mean_function``: Zero, Constant or Linear.  Exponential is Matern12 with doubled lengthscales, Periodic is
    `gpbounds.kernels.Periodic` with doubled lengthscales.  White adds to the noise.

    q(u) of an SVGP has the mean ``q_mu`` and the root ``q_sqrt``, the standard deviations where ``q_diag``, in the
    coordinates that ``whiten`` says: u = f(Z) without the mean function, and Kuu with ``default_jitter`` on its
    diagonal.

    With a Bernoulli (inv_probit or sigmoid) or Poisson likelihood (exp or softplus, binsize 1) the result is a
    `gpbounds.renyi.LatentModel`.  GPflow's inv_probit mixes 0.001 of each label in; the model that is read does not.

    Parameters
    ----------
    model : GPflow model
    default_jitter : float
        ``gpflow.config.default_jitter()``, which is no attribute of the model.
    likelihood : Likelihood, optional
        One of `gpbounds.likelihoods`, in place of the model's: for an inverse link with another name.

    Raises
    ------
    ValueError
        for another kernel, mean function or kind of inducing variable, by its name; several outputs; and for a
        likelihood other than a Gaussian with one variance, a Bernoulli or a Poisson.
    """
    needs(model, "GPflow model", "kernel", "likelihood")
    own: Any = model.likelihood if likelihood is None else likelihood
    link = getattr(getattr(own, "invlink", None), "__name__", "")
    latent = labels_or_counts(own, link)
    if latent is None:
        needs(own, "Gaussian likelihood", "variance")
    elif one_number("likelihood.binsize", getattr(own, "binsize", 1.0)) != 1.0:
        raise ValueError("likelihood: expected a Poisson with binsize 1, got another: add its logarithm to the mean")
    inducing = getattr(model, "inducing_variable", None)
    if inducing is not None and not hasattr(inducing, "Z"):
        raise ValueError(f"model: expected inducing points with an attribute Z, got {type(inducing).__name__}")
    Z = None if inducing is None else as_numbers(inducing.Z)
    mean = _mean(getattr(model, "mean_function", None))
    if latent is not None:
        notes = (MIXED,) if link == "inv_probit" else ()
        return imported_latent(_terms(model.kernel), latent, Z, SUPPORTED, mean, _law(model, default_jitter), notes)
    noise = one_number("likelihood.variance", own.variance)
    return imported(_terms(model.kernel), noise, Z, SUPPORTED, mean, _law(model, default_jitter))


def _law(model: Any, jitter: float) -> InducingLaw | None:
    """q(u) of an SVGP; None for a model without one, as SGPR, whose q is the best one."""
    if not hasattr(model, "q_mu"):
        return None
    needs(model, "SVGP", "q_sqrt", "whiten")
    root = as_numbers(model.q_sqrt)
    if root.ndim not in (2, 3) or (root.shape[0] if root.ndim == 3 else root.shape[1]) != 1:
        raise ValueError(f"model: expected a q(u) of one output, got q_sqrt of shape {root.shape}")
    matrix = np.tril(root[0]) if root.ndim == 3 else np.diag(root[:, 0])
    return inducing_law(as_numbers(model.q_mu), matrix, whitened=bool(model.whiten), jitter=jitter)


def _terms(kernel: Any) -> list[Term]:
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        return (added if name == "Sum" else multiplied)([_terms(part) for part in kernel.kernels])
    orders = {"SquaredExponential": np.inf, "Exponential": 0.5, "Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5}
    if name == "Periodic":
        base = kernel.base_kernel
        if type(base).__name__ != "SquaredExponential":
            raise ValueError(
                f"model: expected a Periodic kernel of SquaredExponential, got one of {type(base).__name__}"
            )
        scale, period = one_number("variance", base.variance), one_or_each(as_numbers(kernel.period))
        single = Term(scale, Periodic(period, 1.0, one_or_each(2.0 * as_numbers(base.lengthscales))))
    elif name in ("Constant", "White"):
        return [Term(one_number("variance", kernel.variance), white=name == "White")]
    elif name == "Linear":
        single = Term(1.0, Linear(one_or_each(as_numbers(kernel.variance))))
    elif name == "Polynomial":
        degree = one_number("degree", kernel.degree)
        if degree < 1.0 or not degree.is_integer():
            raise ValueError(f"model: expected a Polynomial kernel of a whole degree >= 1, got {degree:g}")
        offset = one_number("offset", kernel.offset)
        single = Term(1.0, Polynomial(int(degree), one_or_each(as_numbers(kernel.variance)), offset))
    elif name == "RationalQuadratic":
        lengths = one_or_each(as_numbers(kernel.lengthscales))
        own = RationalQuadratic(one_number("alpha", kernel.alpha), 1.0, lengths)
        single = Term(one_number("variance", kernel.variance), own)
    elif name in orders:
        lengths = one_or_each(as_numbers(kernel.lengthscales) * (2.0 if name == "Exponential" else 1.0))
        single = Term(one_number("variance", kernel.variance), stationary(orders[name], 1.0, lengths))
    else:
        raise unknown_kernel(name, SUPPORTED)
    return on_columns([single], columns_of(getattr(kernel, "active_dims", None)))


def _mean(mean: Any) -> LinearMean | None:
    name = type(mean).__name__
    if name in ("NoneType", "Zero"):
        return None
    if name == "Constant":
        return LinearMean(one_number("mean_function.c", mean.c))
    if name == "Linear":
        return LinearMean(one_number("mean_function.b", mean.b), linear_slopes(mean.A))
    raise ValueError(f"model: expected the mean function Zero, Constant or Linear, got {name}")
