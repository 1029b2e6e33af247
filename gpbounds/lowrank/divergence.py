"""The KL divergence between an exact and an approximate GP, accurate from 1e-30 to 1e6 nats.

With Σ₁ = K + σ²I, Σ₂ = Sigma + σ²I, W any matrix with WΣ₂Wᵀ = I and E = W(K − Sigma)Wᵀ,

    KL = ½[Tr E − log|I + E|] = ½ Σ_i [s_i + φ(E_ii − s_i)],    φ(u) = u − log(1 + u) ≥ 0,

s_i the sum of squares left of the diagonal in row i of the Cholesky factor of I + E: its pivots are 1 + E_ii − s_i.
Every term is at least 0, so nothing cancels.  No eigenvalue is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, host, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.lowrank.laws import as_features, diagonal, noisy_factor
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.validation import noise_variance

SINGULAR = 1e-4
"""If a pivot of I + E is below this, log|I + E| is computed as log|Σ₁| − log|Σ₂|; KL ≥ 4 nats, so nothing cancels."""

THIN = 0.25
"""If r/N is at most this, `kl_features` does not form ΞΞᵀ."""


def kl(K: ArrayLike, Sigma: ArrayLike, *, noise: float) -> float:
    """KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) in nats, exact from approximate, without cancellation.

    KL = ½[Tr Σ₂⁻¹Σ₁ − N − log(|Σ₁|/|Σ₂|)],  Σ₁ = K + σ²I,  Σ₂ = Sigma + σ²I.

    Claims L-04, L-11 (Daskalakis et al., §4).  The result is exactly 0 for Sigma = K.  Its relative error, for
    exact entries of K and Sigma, is at most about eps·λ_max(Σ₂)/σ², however small KL is.  The function adds no jitter.
    It needs two Cholesky factorisations and two triangular solves, 8N³/3 flops, about the time of K's eigenvalues, and
    at most 4.2 N² numbers in addition to K and Sigma.

    Parameters
    ----------
    K, Sigma : arrays (N, N), NumPy or CuPy
        Exact and approximate covariance, symmetric positive semi-definite, in squared units of y.
    noise : float
        σ² > 0, in squared units of y.

    Raises
    ------
    ValueError
        for wrong shapes, asymmetric matrices or noise <= 0.
    NonFinite
        for NaN or infinity.
    NotPositiveDefinite
        if Sigma + σ²I or K + σ²I does not factorise, or if σ² is below the rounding error of their entries.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> kl(K, K, noise=0.1), round(kl(K, np.diag(np.diag(K)), noise=0.1), 6)
    (0.0, 0.115721)
    >>> round(kl(1e-15 * K, 0.0 * K, noise=1.0) * 1e30, 6)  # ¼(1 + 1 + ½)
    0.625
    """
    s2 = noise_variance(noise)
    exact, approximate = symmetric_matrix("K", K), symmetric_matrix("Sigma", Sigma)
    if exact.shape != approximate.shape:
        raise ValueError(f"K, Sigma: expected equal shapes, got {exact.shape} and {approximate.shape}")
    namespace(exact, approximate)
    return _dense(exact, approximate, s2)


def kl_features(K: ArrayLike, features: ArrayLike, *, noise: float) -> float:
    """KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) in nats, for features Ξ of any rank, without cancellation.

    Claims L-02, L-03, L-11.  With Ξ = QR and CCᵀ = I + RRᵀ/σ², T = I + Q(C − I)Qᵀ has Σ₂ = σ²TTᵀ.  So W = T⁻¹/σ with
    T⁻¹ = I + Q(C⁻¹ − I)Qᵀ and WΞΞᵀWᵀ = QC⁻¹(RRᵀ/σ²)C⁻ᵀQᵀ; the rest is as in `kl`: N³/3 + O(N²r) flops.  For r > N/4 the
    function forms ΞΞᵀ.  Entries of WKWᵀ and of WΞΞᵀWᵀ have a rounding error of about u = eps·max K/σ² before their
    difference is taken, so values below (Nu)² are meaningless.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
    features : array (N, r), r >= 1
        Ξ, on the same device.
    noise : float
        σ² > 0.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> round(kl_features(K, [[1.0], [0.5]], noise=0.1), 6)
    2.074726
    """
    s2 = noise_variance(noise)
    exact = symmetric_matrix("K", K)
    factor = as_features(features, exact.shape[0])
    xp = namespace(exact, factor)
    N, r = factor.shape
    if r > THIN * N:
        return _dense(exact, factor @ factor.T, s2)
    Q, R = xp.linalg.qr(factor)
    ratio = (R @ R.T) / s2
    inner = noisy_factor("RRᵀ/σ²", ratio, 1.0)
    inverse = inner.solve_lower(xp.eye(r))

    def whiten(A: Array) -> Array:
        return A + Q @ ((inverse - xp.eye(r)) @ (Q.T @ A))

    E = whiten(whiten(exact).T) / s2
    E -= Q @ (inverse @ ratio @ inverse.T) @ Q.T
    return _from_whitened(E, lambda: noisy_factor("K", exact, s2).logdet - N * np.log(s2), inner)


def _difference(A: Array, B: Array) -> Array | None:
    """The symmetric part of A − B, or None if A = B."""
    difference = A - B
    if not bool(difference.any()):
        return None
    return 0.5 * (difference + difference.T)


def _dense(K: Array, Sigma: Array, noise: float) -> float:
    difference = _difference(K, Sigma)
    if difference is None:
        return 0.0
    outer = noisy_factor("Sigma", Sigma, noise)
    half = outer.solve_lower(difference)
    del difference
    E = outer.solve_lower(half.T)
    del half
    return _from_whitened(E, lambda: noisy_factor("K", K, noise).logdet, outer)


def _from_whitened(E: Array, log_det_exact: Callable[[], float], outer: Cholesky) -> float:
    """½[Tr E − log|I + E|]; if I + E is nearly singular, log|I + E| is computed as log|Σ₁| − log|Σ₂|."""
    xp = namespace(E)
    E = xp.ascontiguousarray(E)
    values = host(diagonal(E)).copy()
    diagonal(E)[...] += 1.0
    try:
        L = xp.ascontiguousarray(cholesky(E, name="I + E").L)
    except NotPositiveDefinite:
        pivots = None
    else:
        diagonal(L)[...] = 0.0
        squares = host(xp.einsum("ij,ij->i", L, L))
        pivots = values - squares
    if pivots is None or pivots.min() < SINGULAR - 1.0:
        return float(0.5 * (values.sum() + outer.logdet - log_det_exact()))
    return float(0.5 * (squares.sum() + log1p_residual(pivots).sum()))
