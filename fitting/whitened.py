"""The predictive law of a sparse GP whose law of the inducing variables is free: q(v) = N(μ, CCᵀ), u = Lv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitting.posterior import Posterior
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.whitening import Inducing, residual_diagonal


@dataclass(frozen=True, eq=False)
class WhitenedPosterior(Posterior):
    """f given u as under the prior, u = Lv, v ~ N(μ, CCᵀ)  (P-25, P-26).

    mean = Vᵀμ,   covariance = [K_** − VᵀV] + VᵀCCᵀV,   V = L⁻¹k(Z, ·).

    Attributes
    ----------
    inducing : Inducing
        Kernel, Z, and L with L Lᵀ = Kuu + jitter·I.
    noise : float
        σ² of new observations; no part of the law of f.
    mean : array (M,)
    factor : array (M, M)
        C, lower triangular.
    single : bool
    """

    inducing: Inducing
    noise: float
    mean: Array
    factor: Array
    single: bool = True

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """The prior's covariance function."""
        return self.inducing.kernel

    @property
    def dim(self) -> int:
        return int(self.inducing.Z.shape[1])

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        xp, V = namespace(X), self.inducing.whiten(X)
        half = self.factor.T @ V
        mean = (V.T @ self.mean)[:, None]
        if full:
            return mean, self.kernel(X) - V.T @ V + half.T @ half
        return mean, residual_diagonal(self.kernel.diag(X), V) + xp.einsum("ij,ij->j", half, half)
