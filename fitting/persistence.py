"""Posteriors as arrays, written and read without rounding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fitting.features import FeatureKernel
from fitting.features.stored import from_plain, joined, parted, to_plain
from fitting.iterative.posterior import IterativePosterior
from fitting.posterior import BlockPosterior, FeaturePosterior, InducingPosterior, Posterior
from gpbounds.arrays import host, namespace, place
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.linalg import Cholesky
from gpbounds.whitening import Inducing


def posterior_to_arrays(posterior: Posterior) -> dict[str, Any]:
    """The arrays of a posterior: L or features, with G, the factor of I + G and w; for a free q, L with μ and C.

    Of the exact posterior by iterations the weights; that by a Cholesky factor needs no arrays: reading computes it
    again.
    """
    if isinstance(posterior, FeaturePosterior):
        return features_to_arrays(posterior)
    if isinstance(posterior, IterativePosterior):
        values = {"weights": posterior.weights, "mean_error": np.float64(posterior.mean_error)}
        return {f"posterior/{name}": host(value) for name, value in values.items()}
    if not isinstance(posterior, InducingPosterior):
        return {}
    points, q = posterior.inducing, posterior.q
    values = {"L": points.chol.L, "jitter": points.chol.jitter}
    if isinstance(q, GramLaw):
        values |= {"G": q.G, "A": q.chol.L, "w": q.mean}
    else:
        values |= {"mean": q.mean[:, 0], "C": q.factor}
    return {f"posterior/{name}": host(value) for name, value in values.items()}


def posterior_from_arrays(
    arrays: dict[str, Any], problem: Any, kernel: Kernel | None, noise: float, Z: Any, own: Mapping[str, Any]
) -> Posterior:
    """The posterior of ``problem`` at (kernel, noise, Z), from the arrays of `posterior_to_arrays` if there are any.

    ``own`` are the user's classes of features by name.
    """
    if "posterior/parameters" in arrays:
        return features_from_arrays(arrays, problem.data, noise, own)
    if "posterior/weights" in arrays:
        assert kernel is not None
        X, weights, error = problem.data.X, arrays["posterior/weights"], float(arrays["posterior/mean_error"])
        return IterativePosterior(kernel, noise, problem.data.single, X, place(weights, namespace(X)), error)
    if "posterior/L" not in arrays:
        return problem.posterior(kernel, noise, Z)
    data = problem.data
    assert kernel is not None
    part = {name.partition("/")[2]: value for name, value in arrays.items() if name.startswith("posterior/")}
    jitter = float(part.pop("jitter"))
    part = {name: place(value, namespace(data.X)) for name, value in part.items()}
    points = Inducing(kernel, Z, Cholesky(part["L"], jitter))
    if "C" in part:
        return InducingPosterior(points, noise, FactorLaw(part["mean"][:, None], part["C"]), data.single)
    q = GramLaw(part["w"], part["G"], Cholesky(part["A"], 0.0))
    if problem.member.inside:
        assert data.parts is not None
        return BlockPosterior(points, noise, q, data.single, data.X, data.residuals, data.parts)
    return InducingPosterior(points, noise, q, data.single)


def features_to_arrays(posterior: FeaturePosterior) -> dict[str, Any]:
    """The arrays of a posterior of features, and the JSON of their map as bytes.

    Raises
    ------
    ValueError
        for features that a user wrote, without methods that store them.
    """
    kernel, q = posterior.kernel, posterior.q
    plain, arrays = parted(to_plain(kernel.features), "posterior/features")
    arrays["posterior/features"] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    assert isinstance(q, GramLaw)
    values = {"G": q.G, "A": q.chol.L, "w": q.mean, "parameters": kernel.parameters}
    return arrays | {f"posterior/{name}": host(value) for name, value in values.items()}


def features_from_arrays(arrays: dict[str, Any], data: Any, noise: float, own: Mapping[str, Any]) -> FeaturePosterior:
    """The posterior, from the arrays of `features_to_arrays`; ``own`` are the user's classes by name."""
    plain = json.loads(arrays["posterior/features"].tobytes())
    features = from_plain(joined(plain, arrays), own)
    xp = namespace(data.X)
    G, A, w = (place(arrays[f"posterior/{name}"], xp) for name in ("G", "A", "w"))
    kernel = FeatureKernel(features, arrays["posterior/parameters"])
    return FeaturePosterior(kernel, noise, GramLaw(w, G, Cholesky(A, 0.0)), data.single, int(data.X.shape[1]))
