"""KL as a function of the rank: one matrix of features, many of its leading columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, namespace
from gpbounds.lowrank.divergence import as_features, covariance, noise_variance, shifted
from gpbounds.psd import cholesky
from gpbounds.validation import positive, whole


def kl_by_rank(K: ArrayLike, features: ArrayLike, noise: float, ranks: ArrayLike, *, scales: ArrayLike = 1.0) -> Float:
    """KL(N(0, K + σ²I)‖N(0, c_r Ξ_rΞ_rᵀ + σ²I)) in nats for many r, Ξ_r the first r columns of the features Ξ.

    With A = ΞᵀΞ, G = ΞᵀKΞ, B = σ²I_r + c A_rr (Woodbury, L-02, L-03):

    2KL = [Tr K − c Tr B⁻¹G_rr]/σ² − c Tr B⁻¹A_rr + log|σ²I_r + cA_rr| − r log σ² − log|I + K/σ²|.

    Claims L-02, L-03, L-11.  One Cholesky factor of K + σ²I and one product KΞ serve all ranks; each then costs O(r³).
    This is a difference of sums of size Tr K/σ²: good to about 1e-15·Tr K·λ_max(Sigma)/σ⁴ nats, at worst.  Use
    `kl_features` where KL is that small.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
    features : array (N, R)
        Ξ, on the same device.
    noise : float
        σ² > 0.
    ranks : whole number or array of them
        In 1 … R.
    scales : float or array, optional
        c_r > 0, broadcast with ``ranks``: 1/m for m random features whose squares are averaged.

    Returns
    -------
    array of the shape of ranks

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as in `kl`; for ranks outside 1 … R.

    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> kl_by_rank(K, np.linalg.cholesky(K), 0.1, [1, 2]).round(6) + 0.0
    array([2.074726, 0.      ])
    """
    s2 = noise_variance(noise)
    exact = covariance("K", K)
    factor = as_features(features, exact.shape[0])
    xp = namespace(exact, factor)
    wanted = whole("ranks", ranks).astype(np.int64)
    if wanted.size and wanted.max() > factor.shape[1]:
        raise ValueError(f"ranks: expected at most {factor.shape[1]}, the number of features, got {wanted.max()}")
    many, constants = np.broadcast_arrays(wanted, positive("scales", scales))
    log_det = cholesky(shifted(exact, s2), name="K + noise I").logdet - exact.shape[0] * np.log(s2)
    top = int(many.max(initial=1))
    factor = factor[:, :top]
    gram, weighted = factor.T @ factor, factor.T @ (exact @ factor)
    total = float(xp.trace(exact)) / s2

    def value(r: int, c: float) -> float:
        A, G = gram[:r, :r], weighted[:r, :r]
        inner = cholesky(xp.eye(r) + (c / s2) * A, name="I + ΞᵀΞ/σ²")
        inverse = inner.solve_lower(xp.eye(r))
        explained = float((inverse * inner.solve_lower(A + G / s2)).sum()) * c / s2
        return 0.5 * (total - explained + inner.logdet - log_det)

    found = [value(int(r), float(c)) for r, c in zip(many.ravel(), constants.ravel(), strict=True)]
    return np.array(found).reshape(many.shape)
