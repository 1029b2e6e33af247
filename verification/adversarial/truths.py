"""What is bounded, by dense formulas in Arb's balls: as many bits as make a ball narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from adversarial.instances import Instance
from gpbounds import kernels

BITS = (256, 1200, 4800, 9600)
NARROW = 2.0**-100
"""Relative radius of a truth."""


class Undecided(Exception):
    """No number of bits makes the ball narrow: the matrix is singular."""


def narrow(formula: Callable[[], Any]) -> Any:
    """The ball of a formula that is evaluated at more bits until it is narrow."""
    before = ctx.prec
    try:
        for bits in BITS:
            ctx.prec = bits
            try:
                ball = formula()
            except ZeroDivisionError:  # a pivot contains 0
                continue
            if ball.is_finite() and float(ball.rad()) <= NARROW * float(abs(ball).lower()):
                return ball
            if ball.is_finite() and float(ball.rad()) < 1e-300:  # 0, or next to it
                return ball
            if ball > arb("1e1000000"):  # infinity
                return ball
    finally:
        ctx.prec = before
    raise Undecided


def contains(low: float | None, truth: Any, high: float | None) -> bool:
    """Whether low ≤ truth ≤ high, as far as the ball of the truth decides it."""
    before = ctx.prec
    ctx.prec = BITS[-1]
    try:
        return not (low is not None and arb(low) > truth) and not (high is not None and arb(high) < truth)
    finally:
        ctx.prec = before


def covariances(kernel: Any, A: np.ndarray, B: np.ndarray) -> arb_mat:
    """k(A, B) by the definition of the kernel."""
    return arb_mat(len(A), len(B), [_covariance(kernel, a, b) for a in A for b in B])


def _covariance(kernel: Any, a: np.ndarray, b: np.ndarray) -> Any:
    if isinstance(kernel, kernels.Sum):
        return _covariance(kernel.k1, a, b) + _covariance(kernel.k2, a, b)
    if isinstance(kernel, kernels.Constant):
        return arb(float(kernel.variance))
    square = arb(0)
    for x, z, length in zip(a.tolist(), b.tolist(), kernel.lengthscales(len(a)).tolist(), strict=True):
        square += ((arb(x) - arb(z)) / arb(length)) ** 2
    v = arb(float(kernel.variance))
    if isinstance(kernel, kernels.SquaredExponential):
        return v * (-square / 2).exp()
    t = (arb(2 * kernel.nu) * square).sqrt()
    return v * {0.5: arb(1), 1.5: 1 + t, 2.5: 1 + t + t * t / 3}[float(kernel.nu)] * (-t).exp()


def identity(n: int, value: float) -> arb_mat:
    return arb_mat(n, n, [arb(value) if i == j else arb(0) for i in range(n) for j in range(n)])


def trace(A: arb_mat) -> Any:
    return sum((A[i, i] for i in range(A.nrows())), arb(0))


def log_normal(C: arb_mat, y: np.ndarray) -> Any:
    """log N(y; 0, C)."""
    t = arb_mat(len(y), 1, [arb(float(value)) for value in y])
    return -((t.transpose() * C.solve(t))[0, 0] + C.det().log() + len(y) * (2 * arb.pi()).log()) / 2


class Dense:
    """K, K + σ²I, Q = Kfu(Kuu + jI)⁻¹Kuf and Ξ = Q + β(K − Q) + σ²I, β = 1 − α, of an instance."""

    def __init__(self, case: Instance, jitter: float = 0.0, alpha: float = 1.0) -> None:
        self.N, self.y, self.noise, self.alpha = len(case.X), case.y, arb(case.noise), arb(alpha)
        points = case.Z if jitter else np.unique(case.Z, axis=0)
        self.K = covariances(case.kernel, case.X, case.X)
        self.A = self.K + identity(self.N, case.noise)
        Kuf = covariances(case.kernel, points, case.X)
        Kuu = covariances(case.kernel, points, points) + identity(len(points), jitter)
        self.left = self.K - Kuf.transpose() * Kuu.solve(Kuf)
        self.Xi = self.A - self.alpha * self.left

    @property
    def penalty(self) -> Any:
        """(α/(2β)) log|I + β(K − Q)/σ²|, which is Tr(K − Q)/(2σ²) at β = 0."""
        beta = 1 - self.alpha
        if beta == 0:
            return trace(self.left) / (2 * self.noise)
        return self.alpha / (2 * beta) * (identity(self.N, 1.0) + (beta / self.noise) * self.left).det().log()

    def objective(self) -> Any:
        """L_α = log N(y; 0, Ξ) − the penalty: the greatest of its values at all q(u)."""
        return log_normal(self.Xi, self.y) - self.penalty

    def divergence(self) -> Any:
        """log p(y) − L_α, which is D_α[q*‖p]."""
        return log_normal(self.A, self.y) - self.objective()

    def mean_divergence(self) -> Any:
        """The same averaged over y from the prior."""
        logs = self.Xi.det().log() - self.A.det().log()
        return (logs + trace(self.Xi.solve(self.A)) - self.N) / 2 + self.penalty


def evidence(case: Instance) -> Any:
    """log p(y)."""
    return narrow(
        lambda: log_normal(covariances(case.kernel, case.X, case.X) + identity(len(case.X), case.noise), case.y)
    )


def dense(formula: Callable[[Dense], Any], case: Instance, jitter: float, alpha: float = 1.0) -> Any:
    """A number of the model with this jitter."""
    return narrow(lambda: formula(Dense(case, jitter, alpha)))


def residual_trace(case: Instance, jitter: float) -> Any:
    """Tr(K − Q)."""
    return dense(lambda each: trace(each.left), case, jitter)


def objective(case: Instance, jitter: float, alpha: float = 1.0) -> Any:
    """L_α."""
    return dense(Dense.objective, case, jitter, alpha)


def divergence(case: Instance, jitter: float, alpha: float = 1.0) -> Any:
    """D_α[q*‖p]; KL at α = 1."""
    return dense(Dense.divergence, case, jitter, alpha)


def mean_divergence(case: Instance, jitter: float, alpha: float = 1.0) -> Any:
    """E_y D_α[q*‖p]."""
    return dense(Dense.mean_divergence, case, jitter, alpha)
