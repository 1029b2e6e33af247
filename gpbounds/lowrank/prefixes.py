"""KL as a function of the rank, for leading columns of one matrix of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg import cholesky
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.lowrank.laws import as_features, noisy_factor
from gpbounds.validation import noise_variance, positive, whole


def kl_by_rank(K: ArrayLike, features: ArrayLike, ranks: ArrayLike, *, noise: float, scales: ArrayLike = 1.0) -> Float:
    """KL(N(0, K + σ²I)‖N(0, c_r Ξ_rΞ_rᵀ + σ²I)) in nats for many r, Ξ_r the first r columns of the features Ξ.

    With A = ΞᵀΞ, G = ΞᵀKΞ, B = σ²I_r + c A_rr (Woodbury, L-02, L-03):

    2KL = [Tr K − c Tr B⁻¹G_rr]/σ² − c Tr B⁻¹A_rr + log|σ²I_r + cA_rr| − r log σ² − log|I + K/σ²|.

    Claims L-02, L-03, L-11.  One Cholesky factor of K + σ²I and one product KΞ serve all ranks; each rank then costs
    O(r³).  The result is a difference of sums of size Tr K/σ², with an error of at most about
    1e-15·Tr K·λ_max(Sigma)/σ⁴ nats.  If KL is that small, use `kl_features`.

    Parameters
    ----------
    K : array (N, N), NumPy or CuPy
    features : array (N, R)
        Ξ, on the same device.
    ranks : whole number or array of them
        In 1 … R.
    noise : float
        σ² > 0.
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
    >>> kl_by_rank(K, np.linalg.cholesky(K), [1, 2], noise=0.1).round(6) + 0.0
    array([2.074726, 0.      ])
    """
    s2 = noise_variance(noise)
    exact = symmetric_matrix("K", K)
    factor = as_features(features, exact.shape[0])
    namespace(exact, factor)
    wanted = whole("ranks", ranks).astype(np.int64)
    if wanted.size and wanted.max() > factor.shape[1]:
        raise ValueError(f"ranks: expected at most {factor.shape[1]}, the number of features, got {wanted.max()}")
    many, constants = np.broadcast_arrays(wanted, positive("scales", scales))
    prefixes = Prefixes.of(exact, factor[:, : int(many.max(initial=1))], s2)
    divergences = [prefixes.kl(int(r), float(c)) for r, c in zip(many.ravel(), constants.ravel(), strict=True)]
    return np.array(divergences).reshape(many.shape)


@dataclass(frozen=True)
class Prefixes:
    """Sums over K and all features, from which `kl_by_rank` computes the divergence at each rank.

    Attributes
    ----------
    gram, weighted : arrays (R, R)
        ΞᵀΞ/σ², ΞᵀKΞ/σ⁴.
    trace, log_det : float
        Tr K/σ², log|I + K/σ²|.
    """

    gram: Array
    weighted: Array
    trace: float
    log_det: float

    @classmethod
    def of(cls, K: Array, features: Array, noise: float, *, log_det: float | None = None) -> Prefixes:
        """Compute the sums from K (N, N) and Ξ (N, R); ``log_det`` is log|I + K/σ²| if the caller knows it."""
        xp = namespace(K, features)
        if log_det is None:
            log_det = noisy_factor("K", K, noise).logdet - K.shape[0] * float(np.log(noise))
        weighted = features.T @ (K @ features) / noise**2
        return cls(features.T @ features / noise, weighted, float(xp.trace(K)) / noise, log_det)

    def kl(self, rank: int, scale: float = 1.0) -> float:
        """KL(N(0, K + σ²I)‖N(0, c Ξ_rΞ_rᵀ + σ²I)), c = ``scale``, by the first r columns."""
        xp = namespace(self.gram)
        A, G = scale * self.gram[:rank, :rank], scale * self.weighted[:rank, :rank]
        inner = cholesky(xp.eye(rank) + A, name="I + ΞᵀΞ/σ²")
        explained = float((inner.solve_lower(xp.eye(rank)) * inner.solve_lower(A + G)).sum())
        return 0.5 * (self.trace - explained + inner.logdet - self.log_det)
