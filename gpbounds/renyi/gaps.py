"""The Rényi gap of one data set: D_α(y) = log p(y) − L_α = D_α[q*‖p(f, U | y)], exactly and without cancellation.

The approximation q* always comes first; the papers' D_α[p‖q*] differs by a factor (R-dir, `direction_factor`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.numerics.scalars import G, log1p_residual
from gpbounds.renyi.residual import Nystrom, as_targets, nystrom
from gpbounds.validation import noise_variance, open_unit


@dataclass(frozen=True)
class Gap:
    """D_α as a function of y, for one Nyström record, noise and order.

    With H = Ξ^(−½)W√δ, Δ = W diag(δ)Wᵀ, the eigenvalues of αΞ⁻¹Δ are w = α·(singular values of H)².
    """

    record: Nystrom
    noise: float
    alpha: float

    @cached_property
    def xi(self) -> Cholesky:
        """Cholesky factor of Ξ."""
        return self.record.xi(self.alpha, noise=self.noise)

    @cached_property
    def H(self) -> Float:
        """Ξ^(−½)W√δ, shape (N, N − known)."""
        unknown = self.record.basis.shape[0]
        root = np.zeros((self.record.N, unknown))
        root[~self.record.known] = self.record.basis * np.sqrt(self.record.eigenvalues[:unknown])
        return self.xi.solve_lower(root)

    @cached_property
    def w(self) -> Float:
        """Eigenvalues of αΞ⁻¹Δ that may differ from 0."""
        return self.alpha * np.asarray(np.linalg.svd(self.H, compute_uv=False), dtype=np.float64) ** 2

    @property
    def total(self) -> float:
        """αTr(Ξ⁻¹Δ) = Σ w."""
        return self.alpha * float((self.H * self.H).sum())

    def at_zero(self) -> float:
        """D_α(0) = Σ G(d_i) + ½ log|I + (I + S₁)⁻¹(S − S₁)|, S = V(σ²I + βΔ)⁻¹Vᵀ, S₁ the same at β = 1.

        Both summands have the sign of α, so nothing cancels; the second is 0 when QΔ = 0.
        """
        record, noise, alpha = self.record, self.noise, self.alpha
        d = record.eigenvalues / noise
        beta = 1.0 - alpha
        rows = record.rotated(record.V)
        S1 = (rows / (noise * (1.0 + d))) @ rows.T
        change = np.sqrt(np.abs(alpha) * d / ((1.0 + beta * d) * (1.0 + d)) / noise)
        factor = cholesky(np.eye(record.M) + S1, name="I + S₁").solve_lower(rows * change)
        squares = np.linalg.svd(factor, compute_uv=False) ** 2
        return float(G(d, alpha).sum() + 0.5 * np.log1p(np.sign(alpha) * squares).sum())

    def from_targets(self, y: Float) -> float:
        """½ yᵀ(Ξ⁻¹ − K_n⁻¹)y = ½ α uᵀ(I + αHᵀH)⁻¹u, u = HᵀΞ^(−½)y."""
        if self.H.size == 0:  # every row of X is a row of Z
            return 0.0
        u = self.H.T @ self.xi.solve_lower(y)
        inner = cholesky(np.eye(u.size) + self.alpha * self.H.T @ self.H, name="I + αΞ⁻¹Δ")
        return float(0.5 * self.alpha * (inner.solve_lower(u) ** 2).sum())


def gap_record(kernel: Kernel, X: ArrayLike, Z: ArrayLike, noise: float, alpha: float, jitter: Jitter) -> Gap:
    """The checked arguments as a `Gap`."""
    noise = noise_variance(noise)
    record = nystrom(kernel, X, Z, jitter)
    return Gap(record, noise, record.order(alpha, noise=noise))


def exact_gap(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: float, jitter: Jitter = "auto"
) -> float:
    """The Rényi divergence D_α(y) between the best approximation q* of order α and the exact posterior.

    D_α(y) = L_det − ½ log|I + αΞ⁻¹Δ| + ½ yᵀ(Ξ⁻¹ − K_n⁻¹)y = log p(y) − L_α, L_det = (α/(2β)) log|I + (β/σ²)Δ|.

    Claim R-gap, for α < 1 + σ²/λ_max(Δ).  D_α ≥ 0 for α ≥ 0, ≤ 0 for α < 0, and 0 when K = Q.  It is computed as a sum
    of terms of one sign, so that small gaps keep their relative accuracy.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
    noise : float
        σ², in squared units of y.
    alpha : float
        Order; 1 is the Kullback-Leibler divergence.
    jitter : float or "auto"
        Added to the diagonal of Kuu; "auto" as in `nystrom`.

    Raises
    ------
    ValueError
        for α outside the range.
    NotPositiveDefinite
        when Kuu or Ξ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(exact_gap(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.3274
    """
    gap = gap_record(kernel, X, Z, noise, alpha, jitter)
    return gap.at_zero() + gap.from_targets(as_targets(y, gap.record.N))


def expected_gap(
    kernel: Kernel, X: ArrayLike, Z: ArrayLike, alpha: float, *, noise: float, jitter: Jitter = "auto"
) -> float:
    """The mean of D_α(y) over y drawn from the prior, y ~ N(0, K + σ²I).

    E_y D_α = L_det + ½ Σ [w_i − log(1 + w_i)], w = eigenvalues of αΞ⁻¹Δ.  Claim R-lem2 (exact form).
    Parameters and errors as in `exact_gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(expected_gap(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.5609
    """
    gap = gap_record(kernel, X, Z, noise, alpha, jitter)
    return gap.record.log_det_term(gap.alpha, noise=gap.noise) + float(0.5 * log1p_residual(gap.w).sum())


def gap_variance(
    kernel: Kernel, X: ArrayLike, Z: ArrayLike, alpha: float, *, noise: float, jitter: Jitter = "auto"
) -> float:
    """The variance of D_α(y) over y drawn from the prior: ½ Tr[(Ξ⁻¹K_n − I)²] = ½ Σ w_i².

    Claim R-lem2.  Parameters and errors as in `exact_gap`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(gap_variance(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0], 0.5, noise=0.1), 4)
    0.1435
    """
    return float(0.5 * (gap_record(kernel, X, Z, noise, alpha, jitter).w ** 2).sum())


def direction_factor(alpha: float) -> float:
    """max{α/(1−α), (1−α)/α}: a bound on the ratio of the two directions of the divergence.

    D_α[p‖q] = (α/(1−α)) D_(1−α)[q‖p], so D_α[q‖p]/factor ≤ D_α[p‖q] ≤ factor · D_α[q‖p], for 0 < α < 1.

    Claim R-dir (N-dir): the papers print [p‖q] where their proofs bound [q*‖p]; multiply such a bound by this factor.
    Equality at α = ½, where it is 1.

    Raises
    ------
    ValueError
        for α outside (0, 1); at α = 1 no factor exists.

    >>> round(direction_factor(0.9), 12)
    9.0
    """
    order = float(open_unit("alpha", alpha))
    return max(order / (1.0 - order), (1.0 - order) / order)
