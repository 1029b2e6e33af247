"""Members of the bracket for orders α < 1; they need all of K: O(N³) time, O(N²) memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg import Cholesky
from gpbounds.numerics.log1p import log1p_sum_bounds
from gpbounds.renyi.accuracy import U, gamma
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
    def errors(self) -> tuple[float, float]:
        """At least the error of log|Ξ|, and the share by which a form yᵀΞ⁻¹y or yᵀ(Ξ + sI)⁻¹y is off (N-dense).

        With ‖E‖_F ≤ ε for the factor of Ξ + E ⪰ σ²I: log|Ξ| moves by √N ε/(σ² − ε), a form by a share of ε/(σ² − ε);
        the triangular solve adds 2γ‖L‖_F‖L⁻¹‖.
        """
        record, noise, N = self.record, self.noise, self.record.N
        off = record.xi_error(self.alpha, noise=noise)
        if not off < 0.5 * noise:
            return np.inf, np.inf
        rest = noise - off
        solves = gamma(N + 4) * float(np.sqrt(1.1 * (record.K.diagonal().sum() + N * noise) / rest))
        logs = gamma(N + 8) * (abs(self.xi.logdet) + N)
        return 1.01 * (np.sqrt(N) * off / rest + logs), 1.01 * (off / rest + 2.1 * solves + gamma(N + 8))

    @cached_property
    def log_det_error(self) -> float:
        """At least the error of `Nystrom.log_det_term`, whose derivative in each eigenvalue is at most α/(2σ²)."""
        record = self.record
        moved = record.N * record.eigenvalue_error + record.moved[1]
        own = gamma(64) * abs(record.log_det_term(self.alpha, noise=self.noise))
        return 1.01 * (0.5 * self.alpha * moved / self.noise + own)

    @cached_property
    def elbo(self) -> float:
        """L_α summed over the outputs."""
        return self.elbo_and_error[0]

    @cached_property
    def elbo_and_error(self) -> tuple[float, float]:
        """`elbo`, and at least its error."""
        (in_log, share), P = self.errors, self.Y.shape[1]
        form = float((self.xi.solve_lower(self.Y) ** 2).sum())
        value = self.log_normaliser - 0.5 * form - P * self.record.log_det_term(self.alpha, noise=self.noise)
        error = 0.5 * (P * in_log + share * form) + P * self.log_det_error
        return value, error + 16.0 * U * (abs(self.log_normaliser) + form)

    @cached_property
    def upper(self) -> tuple[float, float]:
        """−½log|2πΞ| − ½(s²/q)log(1 + q/s) − ½yᵀ(Ξ + αλI)⁻¹y ≥ log p(y), s = αTr(Ξ⁻¹Δ), q = α²Tr((Ξ⁻¹Δ)²); its error.

        R-eq8 with λ = λ_max(Δ) has log(1 + s) as its second term; `log1p_sum_bounds` proves that (s²/q)log(1 + q/s) is
        larger.
        """
        record, a, (N, P) = self.record, self.alpha, self.Y.shape
        (in_log, share), moved = self.errors, record.moved
        if not np.isfinite(in_log):
            return self.log_normaliser, np.inf
        ratio = a * self.xi.solve(record.residual)
        size = 1.01 * float(np.linalg.norm(ratio))
        solved = 4.0 * gamma(N + 4) * (record.K.diagonal().sum() + N * self.noise) / self.noise * size
        s, q = float(ratio.trace()), float((ratio * ratio.T).sum())
        in_s = share * abs(s) + a * moved[1] / self.noise + np.sqrt(N) * solved + gamma(N) * size * np.sqrt(N)
        in_q = 2.1 * share * abs(q) + (2.0 * size + moved[0] / self.noise) * (a * moved[0] / self.noise + solved)
        in_q += (solved + gamma(N + 64) * size) * size
        log_det, _ = log1p_sum_bounds(s, q, N, np.inf, (1.01 * in_s, 1.01 * in_q))
        largest = record.largest + record.eigenvalue_error + moved[0]
        wider = record.xi_plus(a, a * max(largest, record.largest + record.rounding), noise=self.noise)
        form = float((wider.solve_lower(self.Y) ** 2).sum())
        value = self.log_normaliser - 0.5 * P * log_det - 0.5 * form
        return value, 0.5 * (P * in_log + share * form) + 16.0 * U * (abs(self.log_normaliser) + form)


def secant(first: Order, second: Order) -> tuple[float, float]:
    """L_α₁ + α₁/(α₂ − α₁)·(L_α₁ − L_α₂) ≥ log p(y) for 0 ≤ α₁ < α₂, as L is concave in α (N-conc); and its error."""
    share = first.alpha / (second.alpha - first.alpha)
    (one, in_one), (two, in_two) = first.elbo_and_error, second.elbo_and_error
    value = one + share * (one - two)
    return value, (1.0 + share) * in_one + share * in_two + 8.0 * U * (1.0 + share) * (abs(one) + abs(two))
