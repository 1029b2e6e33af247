"""Kernel, mean, noise, inducing points and q(u) of models of GPyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Linear, Periodic, Polynomial, RationalQuadratic
from gpbounds.kernels.plain import stationary
from gpbounds.likelihoods import Bernoulli
from gpbounds.linalg import cholesky
from gpbounds.means import LinearMean
from gpbounds.renyi.models import InducingLaw, LatentModel, Model, each_variance
from gpbounds.renyi.readers.shared import (
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
    unbatched,
    unknown_kernel,
)

SUPPORTED = (
    "RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel, PolynomialKernel and ConstantKernel, "
    "ScaleKernel, InducingPointKernel, AdditiveKernel and ProductKernel of them"
)


def from_gpytorch(model: Any, likelihood: Any = None) -> Model | LatentModel:
    """The kernel, mean, noise, Z and q(u) of a GPyTorch ``ExactGP`` or ``ApproximateGP``.

    Reads ``covar_module`` with its ``active_dims``; ``likelihood.noise``, from ``likelihood`` where the model holds
    none, one for each row from a FixedNoiseGaussianLikelihood; Z from an InducingPointKernel or
    ``variational_strategy.inducing_points`` (None without); and ``mean_module``: ZeroMean, ConstantMean or LinearMean.
    PeriodicKernel has the square root of its lengthscales.

    q(u) is that of a VariationalStrategy, which whitens by the factor of Kuu + ``jitter_val``·I, or of an
    UnwhitenedVariationalStrategy, with a Cholesky, MeanField or NaturalVariationalDistribution.  The former also adds
    ``jitter_val`` to the variances of f in predictions; the model that is read does not: its ELBO is larger by
    N·``jitter_val``/(2σ²).  Jitter that GPyTorch adds with a warning, when the factorisation fails, is not known here.

    With a BernoulliLikelihood (probit), or with one of `gpbounds.likelihoods` as ``likelihood`` (GPyTorch has none of
    counts), the result is a `gpbounds.renyi.LatentModel`.

    Raises
    ------
    ValueError
        for another kernel, mean, strategy or distribution, by its name; a strategy that was not called yet, which has
        no q(u); a DeltaVariationalDistribution, a point, whose divergence is infinite; batches; or another likelihood
        without one noise.
    """
    needs(model, "GPyTorch model", "covar_module")
    gaussian = getattr(model, "likelihood", None) if likelihood is None else likelihood
    if gaussian is None:
        raise ValueError("likelihood: expected one, since the model holds none; pass from_gpytorch(model, likelihood)")
    latent = Bernoulli("probit") if type(gaussian).__name__ == "BernoulliLikelihood" else labels_or_counts(gaussian, "")
    if latent is None:
        needs(gaussian, "Gaussian likelihood", "noise")
    inducing: list[Any] = []
    terms = _terms(model.covar_module, inducing)
    strategy = getattr(model, "variational_strategy", None)
    if strategy is not None:
        needs(strategy, "variational strategy", "inducing_points", "jitter_val", "_variational_distribution")
        inducing.append(strategy.inducing_points)
    if len(inducing) > 1:
        raise ValueError(f"model: expected one set of inducing points, got {len(inducing)}")
    Z = as_numbers(inducing[0]) if inducing else None
    mean = _mean(getattr(model, "mean_module", None))
    q = None if strategy is None else _law(strategy, as_numbers(inducing[0]), mean)
    if latent is not None:
        return imported_latent(terms, latent, Z, SUPPORTED, mean, q)
    if type(gaussian).__name__ == "FixedNoiseGaussianLikelihood":  # its noise holds second_noise
        return imported(terms, each_variance(as_numbers(gaussian.noise)), Z, SUPPORTED, mean, q)
    return imported(terms, one_number("likelihood.noise", gaussian.noise), Z, SUPPORTED, mean, q)


def _law(strategy: Any, Z: Any, prior: LinearMean | None) -> InducingLaw:
    """q(u) of a variational strategy; without whitening GPyTorch states that of f(Z), with its mean."""
    name = type(strategy).__name__
    if name not in ("VariationalStrategy", "UnwhitenedVariationalStrategy"):
        raise ValueError(f"model: expected a VariationalStrategy or an UnwhitenedVariationalStrategy, got {name}")
    if not as_numbers(getattr(strategy, "variational_params_initialized", 1.0)).all():
        raise ValueError("model: expected a trained model, got one whose q(u) GPyTorch sets at the first call")
    whitened, law = name == "VariationalStrategy", strategy._variational_distribution
    mean, root = _moments(law)
    if not whitened and prior is not None:
        mean = mean - prior(Z)
    return inducing_law(mean, root, whitened=whitened, jitter=float(strategy.jitter_val))


def _moments(law: Any) -> tuple[Float, Float]:
    """Mean and a root of the covariance of a variational distribution."""
    name = type(law).__name__
    if name == "CholeskyVariationalDistribution":
        return as_numbers(law.variational_mean), np.tril(as_numbers(law.chol_variational_covar))
    if name == "MeanFieldVariationalDistribution":
        return as_numbers(law.variational_mean), np.diag(as_numbers(law._variational_stddev).ravel())
    if name == "NaturalVariationalDistribution":
        factor = cholesky(-2.0 * as_numbers(law.natural_mat), name="the precision of q(u)")
        root = factor.solve_lower(np.eye(len(factor.L))).T
        return root @ (root.T @ as_numbers(law.natural_vec)), root
    if name == "DeltaVariationalDistribution":
        raise ValueError(
            "model: expected a q(u) with a density, got a DeltaVariationalDistribution: a point has an infinite "
            "divergence from the exact posterior; audit the best q with its points, renyi.Model(kernel, noise, Z, mean)"
        )
    raise ValueError(
        "model: expected a CholeskyVariationalDistribution, MeanFieldVariationalDistribution or "
        f"NaturalVariationalDistribution, got {name}"
    )


def _terms(kernel: Any, inducing: list[Any]) -> list[Term]:
    columns = columns_of(getattr(kernel, "active_dims", None))
    return on_columns(_on_all(kernel, inducing, columns is not None), columns)


def _on_all(kernel: Any, inducing: list[Any], on_some: bool) -> list[Term]:
    name = type(kernel).__name__
    if name == "ScaleKernel":
        scale = Term(one_number("outputscale", kernel.outputscale))
        # forward calls base_kernel.forward, which takes columns from the ScaleKernel, where they are copied
        return multiplied([[scale], _on_all(kernel.base_kernel, inducing, on_some)])
    if name == "InducingPointKernel":
        if on_some:
            raise ValueError("model: expected inducing points in all columns, got InducingPointKernel with active_dims")
        inducing.append(kernel.inducing_points)
        return _terms(kernel.base_kernel, inducing)
    if name in ("AdditiveKernel", "ProductKernel"):
        return (added if name == "AdditiveKernel" else multiplied)([_terms(k, inducing) for k in kernel.kernels])
    if name == "ConstantKernel":
        return [Term(one_number("constant", kernel.constant))]
    if name == "LinearKernel":
        return [Term(1.0, Linear(unbatched("variance", kernel.variance)))]
    if name == "PolynomialKernel":
        return [Term(1.0, Polynomial(int(kernel.power), 1.0, one_number("offset", kernel.offset)))]
    if name == "PeriodicKernel":
        squares, period = as_numbers(kernel.lengthscale), unbatched("period_length", kernel.period_length)
        return [Term(1.0, Periodic(period, 1.0, unbatched("lengthscale", np.sqrt(squares))))]
    if name not in ("RBFKernel", "MaternKernel", "RQKernel"):
        raise unknown_kernel(name, SUPPORTED)
    lengths = unbatched("lengthscale", kernel.lengthscale)
    if name == "RQKernel":
        return [Term(1.0, RationalQuadratic(one_number("alpha", kernel.alpha), 1.0, lengths))]
    return [Term(1.0, stationary(np.inf if name == "RBFKernel" else float(kernel.nu), 1.0, lengths))]


def _mean(mean: Any) -> LinearMean | None:
    name = type(mean).__name__
    if name in ("NoneType", "ZeroMean"):
        return None
    if name == "ConstantMean":
        return LinearMean(one_number("mean_module.constant", mean.constant))
    if name == "LinearMean":
        bias = getattr(mean, "bias", None)
        return LinearMean(0.0 if bias is None else one_number("mean_module.bias", bias), linear_slopes(mean.weights))
    raise ValueError(f"model: expected ZeroMean, ConstantMean or LinearMean, got {name}")
