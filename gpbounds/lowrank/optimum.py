"""The least KL divergence of any approximation of rank r, and the least rank for a target (L-10)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.bound import Bound
from gpbounds.linalg import eigen
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.lowrank.approximation import KL
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.validation import noise_variance, non_negative, positive, scalar


def optimal_kl(eigenvalues: ArrayLike, *, noise: float) -> Bound:
    """Lower bound on the KL divergence of every approximation of rank at most r, for r = 0 … N at once.

    KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) ≥ ½ Σ_{i>r} [λ_i/σ² − log(1 + λ_i/σ²)]  for every PSD Sigma of rank ≤ r.

    Claim L-10, the "lowest possible rank" of Fig. 1; attained by the eigen-truncation of K.  The terms are
    summed in increasing order, without cancellation.

    Parameters
    ----------
    eigenvalues : array (N,) or matrix (N, N)
        Eigenvalues of K ≥ 0 in any order, in squared units of y; or K itself.
    noise : float
        σ² > 0.

    Returns
    -------
    Bound
        ``value`` has shape (N + 1,); entry r is for rank r, and the entries decrease to 0.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        for wrong arguments, or if K is not positive semi-definite.

    >>> optimal_kl([4.0, 2.0, 1.0], noise=1.0).value.round(6)
    array([1.799401, 0.60412 , 0.153426, 0.      ])
    """
    s2 = noise_variance(noise)
    if np.ndim(eigenvalues) == 2:
        values = eigen(symmetric_matrix("K", eigenvalues), "K").values
    else:
        values = non_negative("eigenvalues", eigenvalues)
        if values.ndim != 1:
            raise ValueError(f"eigenvalues: expected shape (N,) or a matrix (N, N), got {values.shape}")
    rising = 0.5 * log1p_residual(np.sort(values) / s2)
    value = np.concatenate([[0.0], np.cumsum(rising)])[::-1]
    assumptions = ("Sigma is any positive semi-definite matrix of rank at most r.",)
    return Bound(value, "lower", 1.0, "L-10", {"ranks": np.arange(value.size)}, assumptions, quantity=KL)


def optimal_rank(eigenvalues: ArrayLike, target: float, *, noise: float) -> int:
    """The least rank r, 0 … N, at which some approximation has KL ≤ target; no approximation of lower rank does.

    Claim L-10; attained by the eigen-truncation of K.

    Parameters
    ----------
    eigenvalues, noise : as in `optimal_kl`
    target : float
        In nats, > 0; εN in the paper.

    >>> optimal_rank([4.0, 2.0, 1.0], 0.2, noise=1.0), optimal_rank([4.0, 2.0, 1.0], 2.0, noise=1.0)
    (2, 0)
    """
    goal = scalar(positive, "target", target)
    return int(np.flatnonzero(np.asarray(optimal_kl(eigenvalues, noise=noise)) <= goal)[0])
