"""What is bounded, by dense formulas in Arb's balls: as many bits as make a ball narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import acb_mat, arb, arb_mat, ctx

from adversarial.instances import Instance
from gpbounds import kernels

BITS = (256, 1200, 4800, 9600)
NARROW = 2.0**-100
"""Relative radius of a truth."""


Formula = Callable[[], Any]
"""A number in a ball at the present number of bits."""


class Undecided(Exception):
    """No number of bits makes the ball narrow: the matrix is singular."""


def narrow(formula: Formula) -> Any:
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


def once(build: Callable[[], Any]) -> Callable[[], Any]:
    """What ``build`` returns, built once at each number of bits, for several truths of one instance."""
    built: dict[int, Any] = {}

    def at_these_bits() -> Any:
        if ctx.prec not in built:
            built[ctx.prec] = build()
        return built[ctx.prec]

    return at_these_bits


def covariances(kernel: Any, A: np.ndarray, B: np.ndarray) -> arb_mat:
    """k(A, B) by the definition of the kernel; k(A, A) by its lower triangle."""
    if isinstance(kernel, kernels.Sum):
        return covariances(kernel.k1, A, B) + covariances(kernel.k2, A, B)
    if isinstance(kernel, kernels.Constant):
        return arb_mat(len(A), len(B), [arb(float(kernel.variance))] * (len(A) * len(B)))
    weights = [1 / arb(length) ** 2 for length in kernel.lengthscales(A.shape[1]).tolist()]
    rows, columns = ([[arb(x) for x in point] for point in points.tolist()] for points in (A, B))
    law = _of_squares(kernel)

    def entry(a: list[Any], b: list[Any]) -> Any:
        square = (a[0] - b[0]) ** 2 * weights[0]
        for d in range(1, len(weights)):
            square += (a[d] - b[d]) ** 2 * weights[d]
        return law(square)

    if A is not B:
        return arb_mat(len(A), len(B), [entry(a, b) for a in rows for b in columns])
    lower = [[entry(a, b) for b in columns[: i + 1]] for i, a in enumerate(rows)]
    N = range(len(A))
    return arb_mat(len(A), len(A), [lower[max(i, j)][min(i, j)] for i in N for j in N])


def _of_squares(kernel: Any) -> Callable[[Any], Any]:
    """‖(a − b)/ℓ‖² ↦ k(a, b)."""
    v = arb(float(kernel.variance))
    if isinstance(kernel, kernels.SquaredExponential):
        return lambda square: v * (-square / 2).exp()
    steep = arb(2 * kernel.nu)
    factors = {0.5: lambda t: v, 1.5: lambda t: v * (1 + t), 2.5: lambda t: v * (1 + t + t * t / 3)}
    factor = factors[float(kernel.nu)]

    def of_square(square: Any) -> Any:
        t = (steep * square).sqrt()
        return factor(t) * (-t).exp()

    return of_square


def identity(n: int, value: float) -> arb_mat:
    return arb_mat(n, n, [arb(value) if i == j else arb(0) for i in range(n) for j in range(n)])


def trace(A: arb_mat) -> Any:
    return sum((A[i, i] for i in range(A.nrows())), arb(0))


def eigenvalues(A: arb_mat) -> list[Any]:
    """Those of a symmetric matrix, decreasing."""
    try:
        values = [value.real for value in acb_mat(A).eig(multiple=True)]
    except ValueError:  # too few bits to part clusters
        raise ZeroDivisionError from None
    return sorted(values, key=lambda ball: ball.mid(), reverse=True)


def quadratic(C: arb_mat, y: np.ndarray) -> Any:
    """yᵀC⁻¹y, summed over the columns of y (N,) or (N, P)."""
    t = arb_mat(len(y), outputs(y), [arb(value) for value in y.ravel().tolist()])
    return trace(t.transpose() * C.solve(t))


def outputs(y: np.ndarray) -> int:
    """P."""
    return 1 if y.ndim == 1 else y.shape[1]


def log_normal(C: arb_mat, y: np.ndarray) -> Any:
    """log N(y; 0, C), summed over the columns of y."""
    return -(quadratic(C, y) + outputs(y) * (C.det().log() + len(y) * (2 * arb.pi()).log())) / 2


class Dense:
    """K, K + σ²I and Ξ = Q + β(K − Q) + σ²I, β = 1 − α, for a residual K − Q and targets (N,) or (N, P)."""

    def __init__(self, K: arb_mat, left: arb_mat, y: np.ndarray, noise: float, alpha: float = 1.0) -> None:
        self.N, self.y, self.noise, self.alpha, self.left = len(y), y, arb(noise), arb(alpha), left
        self.A = K + identity(self.N, noise)
        self.Xi = self.A - self.alpha * left

    @property
    def penalty(self) -> Any:
        """(α/(2β)) log|I + β(K − Q)/σ²|, which is Tr(K − Q)/(2σ²) at β = 0."""
        beta = 1 - self.alpha
        if beta == 0:
            return trace(self.left) / (2 * self.noise)
        return self.alpha / (2 * beta) * (identity(self.N, 1.0) + (beta / self.noise) * self.left).det().log()

    def evidence(self) -> Any:
        """log p(y)."""
        return log_normal(self.A, self.y)

    def objective(self) -> Any:
        """L_α = log N(y; 0, Ξ) − the penalty: the greatest of its values at all q(u)."""
        return log_normal(self.Xi, self.y) - outputs(self.y) * self.penalty

    def divergence(self) -> Any:
        """log p(y) − L_α, which is D_α[q*‖p]."""
        return self.evidence() - self.objective()

    def mean_divergence(self) -> Any:
        """The same averaged over y from the prior."""
        logs = self.Xi.det().log() - self.A.det().log()
        return (logs + trace(self.Xi.solve(self.A)) - self.N) / 2 + self.penalty


def of_case(case: Instance, jitter: float, alpha: float = 1.0) -> Dense:
    """K and Q = Kfu(Kuu + jI)⁻¹Kuf of an instance."""
    points = case.Z if jitter else np.unique(case.Z, axis=0)
    K, Kuf = covariances(case.kernel, case.X, case.X), covariances(case.kernel, points, case.X)
    Kuu = covariances(case.kernel, points, points) + identity(len(points), jitter)
    return Dense(K, K - Kuf.transpose() * Kuu.solve(Kuf), case.y, case.noise, alpha)


def noisy(case: Instance) -> Callable[[], arb_mat]:
    """K + σ²I, built once at each number of bits."""
    return once(lambda: covariances(case.kernel, case.X, case.X) + identity(len(case.X), case.noise))


def evidence(case: Instance) -> Formula:
    """log p(y)."""
    matrix = noisy(case)
    return lambda: log_normal(matrix(), case.y)


def dense(case: Instance, jitter: float, alpha: float = 1.0) -> Callable[[], Dense]:
    """The model with this jitter, built once at each number of bits."""
    return once(lambda: of_case(case, jitter, alpha))


def residual_trace(case: Instance, jitter: float) -> Formula:
    """Tr(K − Q)."""
    return lambda: trace(of_case(case, jitter).left)


def largest_residual(case: Instance, jitter: float) -> Formula:
    """λ_max(K − Q)/σ²."""
    return lambda: eigenvalues(of_case(case, jitter).left)[0] / arb(case.noise)


def divergence(case: Instance, jitter: float, alpha: float = 1.0) -> Formula:
    """D_α[q*‖p]; KL at α = 1."""
    return lambda: of_case(case, jitter, alpha).divergence()


def mean_divergence(case: Instance, jitter: float, alpha: float = 1.0) -> Formula:
    """E_y D_α[q*‖p]."""
    return lambda: of_case(case, jitter, alpha).mean_divergence()
