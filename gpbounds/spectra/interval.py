"""Half-integer Matérn kernels on an interval of length 1: a bound on sums of eigenvalues, and the phase equation.

Notation: p = ν - ½, γ = √(2ν)·width/lengthscale, f(ω) = A γ^(2p+1)/(γ² + ω²)^(p+1) = S(ω) for variance 1, where
the frequencies of the first p + 1 eigenvalues are near 0, the others near (m - 1 - p/2)π.
"""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Float
from gpbounds.spectra.legendre import gauss
from gpbounds.spectra.state_space import amplitude

TABLE = 4096
ROUNDING = 1e-12  # added to every logarithm of a bound: a hundred times the error of its evaluation, as measured


def log_density(p: int, gamma: float, omega: Float) -> Float:
    """log f(ω)."""
    ratio = np.hypot(1.0, omega / gamma)
    return math.log(amplitude(p) / gamma) - 2.0 * (p + 1.0) * np.log(ratio)


def log_integral(p: int, gamma: float, start: Float) -> Float:
    """log (1/π)∫_start^∞ f dω = log (A/π)∫_0^θ sin^(2p) t dt, θ = atan(γ/start); without cancellation.

    >>> float(np.exp(log_integral(2, 3.0, np.array(0.0))).round(12))
    1.0
    """
    theta = np.arctan2(gamma, start)
    nodes, weights = gauss(p + 16)
    total = np.zeros_like(theta)
    for u, w in zip(nodes, weights, strict=True):
        total += w * (np.sin(theta * u) / theta) ** (2 * p)
    return math.log(amplitude(p) / math.pi) + (2.0 * p + 1.0) * np.log(theta) + np.log(total)


class GridSum:
    """An upper bound on log Σ_{j>=J} f(jπ) for whole J >= 0, rounded upwards.

    The first terms are added, the smallest first; the rest is bounded by ∫_{J-½}^∞ where f is convex
    (Hermite-Hadamard), else by f(J) + ∫_J^∞, as f decreases.
    """

    def __init__(self, p: int, gamma: float) -> None:
        self.p, self.gamma = p, gamma
        self._size = int(min(TABLE, 256 + gamma))
        end = self._log_far(np.array([float(self._size)]))
        terms = log_density(p, gamma, math.pi * np.arange(self._size - 1.0, -1.0, -1.0))
        self._near = np.logaddexp.accumulate(np.concatenate([end, terms]))[::-1]

    def _log_far(self, J: Float) -> Float:
        p, gamma = self.p, self.gamma
        convex = (J - 0.5) * math.pi >= gamma / math.sqrt(2.0 * p + 3.0)
        middle = log_integral(p, gamma, (J - np.where(convex, 0.5, 0.0)) * math.pi)
        return np.where(convex, middle, np.logaddexp(middle, log_density(p, gamma, J * math.pi)))

    def __call__(self, J: Float) -> Float:
        far = self._log_far(np.maximum(J, self._size))
        near = self._near[np.minimum(J, self._size).astype(np.int64)]
        return np.where(self._size > J, near, far) + ROUNDING


def frequencies(p: int, gamma: float, index: Float) -> tuple[Float, Float]:
    """ω_m with eigenvalue λ_m = f(ω_m), and the logarithm of its relative error, both of the shape of ``index``.

    On a half-line the solution is f = sin(ωx - ψ) + decaying parts e^(-μ_j x), μ_j² = γ² - (γ² + ω²)e^(2πij/(p+1)),
    and the p + 1 boundary conditions are a Vandermonde system in closed form: ψ = Σ_j arg(μ_j + iω) - (p+1)atan(ω/γ).
    Both ends give ω = mπ + 2ψ(ω), up to a relative error e^(-min Re μ_j), which is 0 for p = 0 and below rounding if
    min Re μ_j > 37.  It is solved by Newton's method in the proved bracket (m - p - 1)π <= ω <= (m + p)π.
    """
    index = np.asarray(index, dtype=np.float64)
    low, high = np.maximum(index - p - 1.0, 0.0) * math.pi, (index + p) * math.pi
    omega = np.clip((index - 1.0 - p / 2.0) * math.pi, 0.5 * high / (index + p), high)
    turn = np.exp(2j * np.pi * np.arange(1, p + 1) / (p + 1)).reshape(-1, *([1] * index.ndim))
    mu = np.empty((0, *index.shape), dtype=complex)
    for _ in range(80):
        size = np.hypot(gamma, omega)
        mu = size * np.sqrt((gamma / size) ** 2 - turn)
        phase = np.angle(mu + 1j * omega).sum(axis=0) - (p + 1.0) * np.arctan2(omega, gamma)
        residual = omega - 2.0 * phase - index * math.pi
        slope = np.imag((1j - omega * turn / mu) / (mu + 1j * omega)).sum(axis=0)
        slope = 1.0 - 2.0 * slope + 2.0 * (p + 1.0) * gamma / size / size
        low, high = np.where(residual < 0.0, omega, low), np.where(residual < 0.0, high, omega)
        proposal = omega - residual / slope
        proposal = np.where((proposal < low) | (proposal > high), 0.5 * (low + high), proposal)
        converged = np.abs(proposal - omega) <= 4e-15 * size
        omega = proposal
        if converged.all():
            break
    log_error = -mu.real.min(axis=0) if p else np.full(index.shape, -np.inf)
    return omega, log_error
