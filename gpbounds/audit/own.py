"""The excess of a posterior's divergence over that of the best posterior with the same inducing variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.divergences import SparsePosterior, collapsed_posterior
from gpbounds.law import FactorLaw
from gpbounds.linalg import Cholesky


def excess(posterior: SparsePosterior, X: Any, y: Any, *, noise: float) -> float:
    """KL[q‖p] − KL[q*‖p] = KL[q(U)‖q*(U)] ≥ 0 for any q(U), with q* the best posterior of the same inducing variables.

    Claim N-excess; q(f, U) = p(f|U)q(U), p = p(f, U | y) the exact posterior, q* that of order 1 (R-qstar).  Also
    L_VI(q) = L_VI(q*) − KL[q(U)‖q*(U)].  In the coordinates in which q*(U) is N(0, I) it is a sum of terms ≥ 0, so that
    nothing cancels.

    Parameters
    ----------
    posterior : SparsePosterior
        q; its jitter belongs to the model, and q* has the same.
    X : array (N, D)
    y : array (N,)
    noise : float
        σ², in squared units of y.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `gpbounds.divergences.collapsed_posterior`.

    >>> from gpbounds.divergences import whitened_posterior
    >>> from gpbounds.kernels import SquaredExponential
    >>> q = whitened_posterior(SquaredExponential(), [0.0, 2.0], [0.9, -0.4], [[0.3, 0.0], [0.0, 0.3]])
    >>> round(excess(q, [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1), 4)
    0.169
    """
    kernel, Z = posterior.inducing.kernel, posterior.inducing.Z
    best = collapsed_posterior(kernel, X, y, Z, noise=noise, power=0.0, jitter=posterior.jitter)
    factor = Cholesky(best.factor, 0.0)
    mean = factor.solve_lower((posterior.mean - best.mean)[:, None])
    return FactorLaw(mean, np.tril(factor.solve_lower(posterior.factor))).kl
