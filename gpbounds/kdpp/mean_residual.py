"""The record of the mean of K − Q under a k-DPP, and the functions of it that theorems use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.once import cached_property
from gpbounds.validation import finite, non_negative, scalar


@dataclass(frozen=True, eq=False)
class EigenvalueEnds:
    """Bounds on the eigenvalues of K, a number M of points and the noise: what means under the tilted law depend on.

    Attributes
    ----------
    M : int
    eigenvalues, lowest : array (n,)
        Upper and lower bounds of λ_i, in the order of the argument; one array if they are exact.
    noise : float or None
    """

    M: int
    eigenvalues: Float
    lowest: Float
    noise: float | None


@dataclass(frozen=True, eq=False)
class ExpectedResidual(EigenvalueEnds):
    """E_Z(K − Q_Z) = V diag(rho) Vᵀ for K = V diag(λ) Vᵀ, and the functions of it that theorems use.

    If the eigenvalues have a rounding error, ``miss``, ``rho``, ``ratio``, ``trace`` and all functions of them are
    upper bounds, up to their own last digits (a relative 1e-13 covers these).

    Attributes
    ----------
    M, eigenvalues, lowest, noise : as of `EigenvalueEnds`
    miss : array (n,)
        1 − E(P_Z)_ii, the mean share of eigenvector i that Z misses.
    rho : array (n,)
        λ_i·miss_i, the eigenvalues of the mean residual.
    ratio : float
        r_M = e_M/e_{M−1}, an upper bound on λ_max of the mean residual; inf at M = 0.
    """

    miss: Float
    rho: Float
    ratio: float

    @property
    def trace(self) -> float:
        """E Tr(K − Q) = Σ ρ_i."""
        return float(self.rho.sum())

    @cached_property
    def shares(self) -> Float:
        """h_i = λ_i/(λ_i + σ²), the eigenvalues of K K_n⁻¹, K_n = K + σ²I."""
        noise = self._noise()
        return self.eigenvalues / (self.eigenvalues + noise)

    @cached_property
    def omega(self) -> float:
        """E Tr[K_n⁻¹(K − Q)] = Σ miss_i h_i."""
        return float((self.miss * self.shares).sum())

    @cached_property
    def excess(self) -> float:
        """b̄ = E Tr[(I/σ² − K_n⁻¹)(K − Q)] = Σ ρ_i h_i/σ²."""
        return float((self.rho * self.shares).sum()) / self._noise()

    def omega_above(self, a: float) -> float:
        """Ω_a = Σ miss_i (h_i − a)₊."""
        return float((self.miss * np.maximum(self.shares - scalar(finite, "a", a), 0.0)).sum())

    def quadratic(self, squares: ArrayLike) -> float:
        """q̄ = E yᵀK_n⁻¹(K − Q)K_n⁻¹y = Σ ρ_i (Vᵀy)_i²/(λ_i + σ²)², from the n squares (Vᵀy)_i²."""
        shifted = self.lowest + self._noise()  # whose square may be beyond the doubles
        return float((self.rho / shifted * (self._weights(squares) / shifted)).sum())

    def _weights(self, squares: ArrayLike) -> Float:
        weights = non_negative("squares", squares)
        if weights.shape != self.rho.shape:
            raise ValueError(f"squares: expected one for each eigenvalue, {self.rho.shape}, got {weights.shape}")
        return weights

    @cached_property
    def greatest_weight(self) -> float:
        """max_i ρ_i/(λ_i + σ²)²: q̄ is at most ‖y‖² times this."""
        shifted = self.lowest + self._noise()
        return float((self.rho / shifted / shifted).max())

    def _noise(self) -> float:
        if self.noise is None:
            raise ValueError("noise: expected the noise variance, got None: pass it to expected_residual")
        return self.noise
