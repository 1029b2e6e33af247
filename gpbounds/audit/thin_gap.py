"""Half the relative Fisher information of a sparse law and a log-concave posterior, by Gauss-Hermite and Hermite sums.

A stand-in for the proved function of `gpbounds.renyi`: same interface, no proved errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.whitening import inducing


@dataclass(frozen=True, eq=False)
class PosteriorGap:
    bound: Bound
    estimate: float
    estimate_error: float
    of_q: float
    of_M: float


def posterior_gap(
    kernel: Any,
    X: Float,
    y: Float,
    likelihood: Any,
    Z: Float,
    q_mean: Float,
    q_factor: Float,
    *,
    jitter: Any = "auto",
    offset: Any = 0.0,
    method: str = "auto",
    rigor: str = "auto",
    rng: Any = 0,
    delta: float = 0.0,
) -> PosteriorGap:
    points = inducing(kernel, Z, jitter)
    V = points.whiten(X)
    K = kernel(X)
    Q = V.T @ V
    Delta = K - Q
    half = q_factor.T @ V
    Sigma = Delta + half.T @ half
    mean = offset + V.T @ q_mean
    s = np.sqrt(np.maximum(Sigma.diagonal(), 1e-300))
    t, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / math.sqrt(2.0 * math.pi)
    f = mean[:, None] + s[:, None] * t
    g, h, _ = likelihood.derivatives(y[:, None], f)
    rho = Sigma / np.outer(s, s)
    np.clip(rho, -1.0, 1.0, out=rho)
    gbar, slope = g @ w, h @ w
    C = np.zeros_like(K)
    power = np.ones_like(K)
    explained = np.zeros(len(y))
    previous, current = np.zeros_like(t), np.ones_like(t)
    for k in range(1, 30):
        previous, current = current, (t * current - math.sqrt(k - 1) * previous) / math.sqrt(k)
        a = g @ (w * current)
        power *= rho
        C += np.outer(a, a) * power
        explained += a * a
    var = (g * g) @ w - gbar**2
    np.fill_diagonal(C, np.maximum(var, C.diagonal()))
    M = len(q_mean)
    S = q_factor @ q_factor.T
    A = np.linalg.inv(S) - np.eye(M)
    residual = V @ gbar - q_mean
    of_q = residual @ residual + np.trace(A @ S @ A) + (Q * C).sum() + 2.0 * np.trace(A @ S @ (V * slope) @ V.T)
    of_M = gbar @ Delta @ gbar + (Delta * C).sum()
    rng = np.random.default_rng(rng)
    v = q_mean[:, None] + q_factor @ (z := rng.standard_normal((M, 1000)))
    root = np.linalg.cholesky(Delta + 1e-10 * np.eye(len(y)) * K.diagonal().max())
    F = np.asarray(offset + np.zeros(len(y)))[:, None] + V.T @ v + root @ rng.standard_normal((len(y), 1000))
    logs = likelihood.log_density(y[:, None], F).sum(0) - 0.5 * (v * v).sum(0) + 0.5 * (z * z).sum(0)
    estimate = 0.5 * logs.var()
    bound = Bound(0.5 * (of_q + of_M), "upper", 1.0, "N-fisher", {}, (), False, "KL[q||p]")
    return PosteriorGap(
        bound, float(estimate), float(estimate * math.sqrt(2 / 1000)), float(0.5 * of_q), float(0.5 * of_M)
    )
