"""The exact Gaussian process, F = Σ_p log N(y_p; 0, K + σ²I): O(N³) time, O(N²) memory, no inducing points.

K̄ = ½[Σ_p α_pα_pᵀ − P(K + σ²I)⁻¹], α = (K + σ²I)⁻¹Y.
"""

from __future__ import annotations

import math

from fitting.backend import add_product, half_inverse
from fitting.inner import Evaluation, Gradient
from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.psd import Cholesky, cholesky


def factorised(kernel: Kernel, X: Array, noise: float) -> tuple[Array, Cholesky]:
    """K (N, N), and the factor of K + σ²I.

    Raises
    ------
    NotPositiveDefinite
        where σ² is below the rounding error of K.
    """
    xp, N = namespace(X), X.shape[0]
    K = kernel.fill(X, X, xp.empty((N, N)))
    if not bool(xp.isfinite(K.sum())):
        raise NonFinite("kernel: expected finite covariances, got NaN or infinity in K")
    noisy = K.copy()
    noisy.reshape(-1)[:: N + 1] += noise
    return K, cholesky(noisy, name="K + σ²I")


def evaluate(
    kernel: Kernel, X: Array, Y: Array, noise: float, Z: Array | None = None, *, gradient: bool = True
) -> Evaluation:
    """F and its derivatives; checked float64 arrays, Y (N, P).  Those in ``Z``, if it is given, are 0.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> round(evaluate(SquaredExponential(), X, Y, 0.1).value, 4)  # gpbounds.renyi.log_evidence
    -3.2002
    """
    (N, P), xp = Y.shape, namespace(Y)
    K, chol = factorised(kernel, X, noise)
    half = chol.solve_lower(Y)
    value = -0.5 * (P * (N * math.log(2.0 * math.pi) + chol.logdet) + float((half * half).sum()))
    if not gradient:
        return Evaluation(value, None)
    alpha = chol.solve(Y)
    cotangent = half_inverse(chol.L).T  # its transpose counts, too: K is symmetric
    cotangent *= -P
    add_product(0.5 * alpha, alpha.T, cotangent)
    slope = noise * float(cotangent.trace())
    parameters, _ = kernel.pull(X, X, cotangent, K)
    return Evaluation(value, Gradient(parameters, slope, None if Z is None else xp.zeros_like(Z)))
