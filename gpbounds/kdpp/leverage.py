"""Ridge leverage scores: the share of each point in the effective dimension."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, as_host_points, exactly
from gpbounds.kdpp.arguments import distinct_indices
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Eigen, cholesky, eigen
from gpbounds.validation import non_negative, positive, scalar
from gpbounds.whitening import slices


def ridge_leverage(kernel: Kernel, X: ArrayLike, ridge: float, landmarks: ArrayLike | None = None) -> Float:
    """Ridge leverage scores τ_i of the data: exact ones, or upper bounds from landmarks.

    τ_i = [K(K + ρI)⁻¹]_ii,  Στ_i = s_ρ(K), the effective dimension;  S landmarks among the rows of X:
    τ_i ≤ (1/ρ)(k_ii − k_iS(K_SS + ρI)⁻¹k_Si) and τ_i ≤ 1

    The proof is that of N-lev (Musco & Musco, 2017).  An equality if S is all of X, up to rounding k_ii·eps/ρ.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    ridge : float
        ρ > 0, in squared units of y; usually the noise variance.
    landmarks : array of int (r,), optional
        Distinct row numbers.  Without them the scores are exact, in O(N³) time and O(N²) memory; with them the bounds
        take O(N r²) time and O(r² + N) memory.

    Returns
    -------
    array (N,)
        In [0, 1].

    Raises
    ------
    ValueError
        for a ridge that is not positive, or row numbers that are out of range or repeated.

    >>> from gpbounds.kernels import SquaredExponential
    >>> tau = ridge_leverage(SquaredExponential(), [0.0, 0.1, 3.0], ridge=0.1)
    >>> tau.round(4), ridge_leverage(SquaredExponential(), [0.0, 0.1, 3.0], 0.1, landmarks=[0, 2]).round(4)
    (array([0.4999, 0.4998, 0.9091]), array([0.9091, 0.9993, 0.9091]))
    """
    as_kernel(kernel)
    landmarks = None if landmarks is None else exactly("landmarks", landmarks)
    points, rho = as_host_points(X), scalar(positive, "ridge", ridge)
    if landmarks is None:
        return exact_scores(eigen(kernel(points), "k(X, X)", vectors=True), rho)
    S = distinct_indices(landmarks, points.shape[0])
    diagonal = kernel.diag(points)
    tau = diagonal / rho
    if S.size:
        inner = kernel(points[S])
        chol = cholesky(inner + rho * np.eye(S.size), name="k(S, S) + ridge·I")
        for part in slices(points.shape[0]):
            V = chol.solve_lower(kernel(points[part], points[S]).T)
            tau[part] -= np.einsum("ij,ij->j", V, V) / rho
    # τ_i ≥ k_ii/(λ_max + ρ) ≥ k_ii/(Tr K + ρ): cancellation must not lead below this
    return np.clip(tau, diagonal / (diagonal.sum() + rho), 1.0)


def exact_scores(spectrum: Eigen, ridge: float) -> Float:
    """τ from K = U diag(λ) Uᵀ: a sum of positive terms."""
    assert spectrum.vectors is not None
    return np.minimum((spectrum.vectors**2) @ (spectrum.values / (spectrum.values + ridge)), 1.0)


def matching_ridge(eigenvalues: ArrayLike, M: float) -> float:
    """The ridge ρ at which the effective dimension Σ λ_m/(λ_m + ρ) is M.

    Unique for 0 < M < rank; N·eps·λ_max if the effective dimension is below M even there.

    Parameters
    ----------
    eigenvalues : array (n,)
        ≥ 0, not all 0, in squared units of y.
    M : float
        > 0.

    >>> round(matching_ridge([2.0, 2.0, 2.0], 2.0), 12)
    1.0
    """
    from scipy.optimize import brentq

    values, size = non_negative("eigenvalues", eigenvalues), float(positive("M", M))
    if values.ndim != 1 or not (values > 0).any():
        raise ValueError(f"eigenvalues: expected shape (n,), some > 0, got shape {values.shape}")
    top = float(values.max())
    low, high = values.size * EPS, float((values / top).sum()) / size

    def excess(log_rho: float) -> float:
        return float((values / (values + top * np.exp(log_rho))).sum()) - size

    if high <= low or excess(np.log(low)) <= 0:
        return top * low
    return top * float(np.exp(brentq(excess, np.log(low), np.log(high), xtol=1e-13)))
