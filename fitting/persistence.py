"""Posteriors as arrays, written and read without rounding."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from fitting.features import FeatureKernel, Fourier, Mercer, Projected, Projection
from fitting.features.base import KernelMap, TrainedMap
from fitting.lowrank import FeaturePosterior
from fitting.posterior import BlockPosterior, InducingPosterior, Posterior
from gpbounds.arrays import host, namespace, place
from gpbounds.kernels import Kernel, SquaredExponential, Stationary
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.linalg import Cholesky
from gpbounds.whitening import Inducing


def posterior_to_arrays(posterior: Posterior) -> dict[str, Any]:
    """The arrays of a posterior: L or features, with G, the factor of I + G and w; for a free q, L with μ and C.

    The exact posterior needs no arrays: reading computes it again.
    """
    if isinstance(posterior, FeaturePosterior):
        return features_to_arrays(posterior)
    if not isinstance(posterior, InducingPosterior):
        return {}
    points, q = posterior.inducing, posterior.q
    values = {"L": points.chol.L, "jitter": points.chol.jitter}
    if isinstance(q, GramLaw):
        values |= {"G": q.G, "A": q.chol.L, "w": q.mean}
    else:
        values |= {"mean": q.mean[:, 0], "C": q.factor}
    return {f"posterior/{name}": host(value) for name, value in values.items()}


def posterior_from_arrays(arrays: dict[str, Any], problem: Any, kernel: Kernel, noise: float, Z: Any) -> Posterior:
    """The posterior of ``problem`` at (kernel, noise, Z), from the arrays of `posterior_to_arrays` if there are any."""
    if "posterior/parameters" in arrays:
        return features_from_arrays(arrays, problem.data, kernel, noise)
    if "posterior/L" not in arrays:
        return problem.posterior(kernel, noise, Z)
    data = problem.data
    part = {name.partition("/")[2]: value for name, value in arrays.items() if name.startswith("posterior/")}
    jitter = float(part.pop("jitter"))
    part = {name: place(value, namespace(data.X)) for name, value in part.items()}
    points = Inducing(kernel, Z, Cholesky(part["L"], jitter))
    if "C" in part:
        return InducingPosterior(points, noise, FactorLaw(part["mean"][:, None], part["C"]), data.single)
    q = GramLaw(part["w"], part["G"], Cholesky(part["A"], 0.0))
    if problem.member.inside:
        assert data.parts is not None
        return BlockPosterior(points, noise, q, data.single, data.X, data.Y, data.parts)
    return InducingPosterior(points, noise, q, data.single)


def features_to_arrays(posterior: FeaturePosterior) -> dict[str, Any]:
    """The arrays of a posterior of features of a kernel.

    Raises
    ------
    ValueError
        for features that a user wrote: they are code.
    """
    kernel, q = posterior.kernel, posterior.q
    outer = kernel.features
    inner = outer.inner if isinstance(outer, Projected) else outer
    if not isinstance(inner, Fourier | Mercer) or not isinstance(q, GramLaw):
        raise ValueError(
            "save: expected features given by name, got an object, which is code: store feature_kernel_.parameters "
            "and pass them to the object"
        )
    values = {"G": q.G, "A": q.chol.L, "w": q.mean, "parameters": kernel.parameters}
    values |= {f"map.{each.name}": getattr(inner, each.name) for each in fields(inner) if each.name != "kernel"}
    if isinstance(outer, Projected):
        values |= {f"projection.{each.name}": getattr(outer.projection, each.name) for each in fields(Projection)}
        values["start"] = outer.weights
    return {f"posterior/{name}": host(value) for name, value in values.items()}


def features_from_arrays(arrays: dict[str, Any], data: Any, kernel: Kernel, noise: float) -> FeaturePosterior:
    """The posterior, from the arrays of `features_to_arrays` and the kernel that the features approximate."""
    part = {name.partition("/")[2]: value for name, value in arrays.items() if name.startswith("posterior/")}
    parameters, own = part["parameters"], _group(part, "map.")
    assert isinstance(kernel, Stationary)
    features: TrainedMap
    inner: KernelMap
    if "degrees" in own:
        assert isinstance(kernel, SquaredExponential)
        features = inner = Mercer(kernel, **own)
    else:
        features = inner = Fourier(kernel, **own)
    if "start" in part:
        moments = _group(part, "projection.")
        features = Projected(inner, Projection(**{**moments, "dim": int(moments["dim"])}), part["start"])
    xp = namespace(data.X)
    q = GramLaw(place(part["w"], xp), place(part["G"], xp), Cholesky(place(part["A"], xp), 0.0))
    columns = int(data.X.shape[1])
    return FeaturePosterior(FeatureKernel(features, parameters), noise, q, data.single, columns)


def _group(part: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): np.asarray(v) for name, v in part.items() if name.startswith(prefix)}
