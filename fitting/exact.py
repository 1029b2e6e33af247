"""The exact Gaussian process as an objective: F = Σ_p log N(y_p; 0, K + σ²I) and its derivatives.

K̄ = ½[Σ_p t_pt_pᵀ − P(K + σ²I)⁻¹], t = (K + σ²I)⁻¹Y.  Only the lower triangles of the symmetric matrices are computed,
by the chunks of rows of `gpbounds.exact.Triangle`: the matrix C with 2K̄ below the diagonal and K̄ on it replaces K̄.
"""

from __future__ import annotations

import numpy as np

from fitting.evaluation import Evaluation, Gradient
from fitting.prior_means import PriorMean, derivatives
from gpbounds.arrays import Array, namespace
from gpbounds.exact import exact
from gpbounds.kernels import Kernel
from gpbounds.kernels.covariances import pull as pull_kernel
from gpbounds.linalg.inverses import inverse_by_rows
from gpbounds.linalg.parallel import ENTRY
from gpbounds.linalg.products import add_product
from gpbounds.linalg.workspace import Workspace


def log_evidence(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    noise: float,
    gradient: bool = True,
    space: Workspace | None = None,
    prior_mean: PriorMean | None = None,
) -> Evaluation:
    """F and its derivatives, from checked float64 arrays, Y (N, P); ``space`` is memory that later calls may reuse.

    With a ``prior_mean`` Hβ, Y is what it leaves of the targets, and the derivatives in β are HᵀT, T = (t_p).

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(evaluate(SquaredExponential(), X, Y, noise=0.1).value, 4)  # gpbounds.renyi.log_evidence
    -3.2002
    """
    P, xp = Y.shape[1], namespace(Y)
    gp = exact(kernel, X, Y, noise=noise, space=space)
    value, triangle = gp.log_evidence, gp.triangle
    if not gradient:
        return Evaluation(value, None)
    weights = gp.weights
    inverse = inverse_by_rows(gp.chol.L)
    turned, pulled = xp.ascontiguousarray(weights.T), [(0.0, np.zeros(0))] * len(triangle.parts)

    def pull(number: int, rows: slice, worker: int) -> None:
        steps = xp.arange(rows.stop - rows.start)
        cotangent = inverse.rows(number, worker)
        cotangent *= -P
        add_product(weights[rows], turned[:, : rows.stop], cotangent)
        corner = cotangent[:, rows]
        corner[...] = xp.tril(corner)
        corner[steps, steps] *= 0.5
        trace = float(corner.trace())
        pulled[number] = trace, pull_kernel(kernel, X[rows], X[: rows.stop], cotangent, triangle.chunks[number])[0]

    N = Y.shape[0]
    triangle.each(pull, N**3 / 3.0 + ENTRY * N**2 / 2.0)
    trace, parameters = sum(t for t, _ in pulled), np.sum([p for _, p in pulled], axis=0)
    in_mean = None if prior_mean is None else derivatives(prior_mean.pulled(X, weights))
    return Evaluation(value, Gradient(parameters, np.array([noise * trace]), prior_mean=in_mean))
