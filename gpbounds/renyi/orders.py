"""Members of the bracket for orders α < 1; they need all of K: O(N³) time, O(N²) memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg import Cholesky
from gpbounds.numerics.log1p import log1p_sum_bounds
from gpbounds.renyi.residual import Nystrom


@dataclass(frozen=True)
class Order:
    """One order α in [0, 1] for a dense record, targets (N, P) and noise."""

    record: Nystrom
    Y: Float
    noise: float
    alpha: float

    @cached_property
    def xi(self) -> Cholesky:
        """Cholesky factor of Ξ."""
        return self.record.xi(self.alpha, noise=self.noise)

    @property
    def log_normaliser(self) -> float:
        """−½ log|2πΞ|, times the number of outputs."""
        N, P = self.Y.shape
        return -0.5 * P * (N * float(np.log(2.0 * np.pi)) + self.xi.logdet)

    @cached_property
    def elbo(self) -> float:
        """L_α summed over the outputs."""
        fit = -0.5 * float((self.xi.solve_lower(self.Y) ** 2).sum())
        return self.log_normaliser + fit - self.Y.shape[1] * self.record.log_det_term(self.alpha, noise=self.noise)

    @property
    def upper(self) -> float:
        """−½log|2πΞ| − ½(s²/q)log(1 + q/s) − ½yᵀ(Ξ + αλI)⁻¹y ≥ log p(y), s = αTr(Ξ⁻¹Δ), q = α²Tr((Ξ⁻¹Δ)²).

        R-eq8 with λ = λ_max(Δ) has log(1 + s) as its second term; `log1p_sum_bounds` proves that (s²/q)log(1 + q/s) is
        larger.
        """
        record, a = self.record, self.alpha
        ratio = a * self.xi.solve(record.residual)
        log_det, _ = log1p_sum_bounds(float(ratio.trace()), float((ratio * ratio.T).sum()), record.N, np.inf)
        wider = record.xi_plus(a, a * (record.largest + record.rounding), noise=self.noise)
        return (
            self.log_normaliser - 0.5 * self.Y.shape[1] * log_det - 0.5 * float((wider.solve_lower(self.Y) ** 2).sum())
        )


def secant(first: Order, second: Order) -> float:
    """L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂) ≥ log p(y) for 0 ≤ α₁ < α₂, as L is concave in α (N-conc)."""
    slope = (first.elbo - second.elbo) / (second.alpha - first.alpha)
    return first.elbo + first.alpha * slope
