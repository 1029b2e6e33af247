"""From a posterior of `fitting` to a certificate: its numbers as a form, and a jitter whose rounding is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitting.posterior import InducingPosterior
from gpbounds.arrays import Float, host
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import AUTO_LADDER, cholesky
from gpbounds.pacbayes import Certificate, Sparse, Whitened
from gpbounds.pacbayes.certificate.forms import Posterior as Form

WORTH = 1e-4
"""A larger jitter is tried where rounding costs this share of the bound, and taken where the bound gains."""

PATIENCE = 3
"""Rungs in a row without a gain after which larger ones are not tried."""


def issue(
    X: Float, y: Float, form: Callable[[float], Form], jitter: float, goal: float, kernel: Kernel, **declared: Any
) -> Certificate:
    """The certificate of the Q that ``form`` makes of ``jitter``, or of a larger one where rounding forbids that one.

    A jitter on Kuu is part of Q and of the prior of u alike, not of the prior of f: each is as valid, and free (P-29,
    P-49).  Where Kuu is nearly singular its rounding is not known, or so large that the KL on record is.

    Parameters
    ----------
    X, y : arrays (N, D), (N,)
        Raw data.
    form : function of a jitter
    jitter : float
        The first one tried.
    goal : float
        The bound there, without what rounding may cost.
    kernel : Kernel
        On the grid.
    declared
        As `Certificate.issue` takes it.
    """
    rungs = [step * kernel.max_variance for step in AUTO_LADDER]
    best: Certificate | None = None
    fault: Exception | None = None
    idle = 0
    for amount in [jitter, *(rung for rung in rungs if rung > jitter)]:
        try:
            found = Certificate.issue(X, y, form(amount), kernel, **declared)
        except (NotPositiveDefinite, ValueError) as error:
            fault = fault or error
            continue
        if best is None or found.bound < best.bound:
            best, idle = found, 0
        else:
            idle += 1
        if idle == PATIENCE or best.bound <= goal * (1.0 + WORTH):
            break
    if best is None:
        assert fault is not None
        raise fault
    return best


def sparse_form(Z: Any, noise: float, alpha: float) -> Callable[[float], Sparse]:
    """jitter ↦ the posterior of VFE (α = 0), FITC (α = 1) or between, given the data."""
    points = host(Z)
    return lambda jitter: Sparse(points, noise, alpha, jitter)


def whitened_form(Z: Any, mean: Any, factor: Any) -> Callable[[float], Whitened]:
    """jitter ↦ u = Lv, v ~ N(μ, CCᵀ), with a mean (M,) or (M, 1)."""
    points, mu, C = host(Z), host(mean).ravel(), host(factor)
    return lambda jitter: Whitened(points, mu, C, jitter)


def whitened_law(posterior: InducingPosterior) -> tuple[Float, Float]:
    """μ (M,) and C, lower triangular, of q(v) = N(μ, CCᵀ), CCᵀ = (I + G)⁻¹, in host memory.

    The Cholesky factor of I + G with rows and columns in reverse order is an upper triangle U with UUᵀ = I + G, and
    C = U⁻ᵀ: no inverse is factorised.
    """
    G, mean = host(posterior.state.G), host(posterior.state.mean)
    one = np.eye(G.shape[0])
    turned = cholesky((one + G)[::-1, ::-1], name="I + VD⁻¹Vᵀ")
    C = np.ascontiguousarray(turned.solve_lower(one).T[::-1, ::-1])
    return mean[:, 0], np.tril(C)
