"""Posteriors as arrays, written and read without rounding."""

from __future__ import annotations

from typing import Any

from fitting.posterior import BlockPosterior, InducingPosterior, Posterior
from gpbounds.arrays import host, namespace, place
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw, GramLaw
from gpbounds.linalg import Cholesky
from gpbounds.whitening import Inducing


def posterior_to_arrays(posterior: Posterior) -> dict[str, Any]:
    """The arrays of a posterior: L with G, the factor of I + G and w, or, for a free q, L with μ and C.

    The exact posterior needs no arrays: reading computes it again.
    """
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
