"""The theorems as functions of t, a bound on the expected trace of K - Q.

In all formulas T = Tr(K - Q), rank(K - Q) <= n = N - M, σ² = noise, and the randomness is in X, in Z and, for the
``prior`` forms, in y.  Arguments broadcast.  Each is a sum of positive, well-conditioned terms.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from gpbounds.arrays import blockwise
from gpbounds.numerics.scalars import F_hat, log1p_residual, psi, trace_term

SPLITS = tuple(2.0**-j for j in range(1, 7))
"""Shares δ₂/δ = ½, ¼ ... 1/64 at which :func:`prior_sharpest` evaluates :func:`prior_tail`."""


def prior_printed(t: Any, N: Any, noise: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    """R-thm1 as printed, y ~ prior: αt/(2δσ²) + g_N(t)/δ; returns the two summands."""
    return {"quadratic": alpha * t / (2.0 * delta * noise), "determinant": trace_term(t, N, alpha, noise=noise) / delta}


def prior_markov(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> Any:
    """R-thm1 (a), y ~ prior: (n/δ) F̂(t/(nσ²)): Markov's inequality for D_α, whose mean is at most n F̂(T/(nσ²))."""
    return n / delta * F_hat(t / (n * noise), alpha)


def prior_tail(t: Any, n: Any, noise: Any, alpha: Any, delta: Any, share: float) -> Any:
    """R-thm1 (b), y ~ prior: Markov's inequality for T with δ₁ = δ(1 - share), a χ² tail for y with δ₂ = δ·share.

    With τ = t/δ₁, W = ατ/(σ² + βτ/n), w = ατ/(σ² + βτ), x = log(1/δ₂):
    mean + √(x w W) + x w, mean = min{n F̂(τ/(nσ²)), g_n(τ) + ½[W - log(1 + W)]} (Laurent and Massart's inequality).
    """
    beta = 1.0 - alpha
    tau = t / (delta * (1.0 - share))
    x = -np.log(delta * share)
    W = alpha * tau / (noise + beta * tau / n)
    w = alpha * tau / (noise + beta * tau)  # <= W, since n >= 1
    mean = n * F_hat(tau / (n * noise), alpha)
    if np.max(alpha) > 0.5:  # otherwise F̂ = F and n F(x) is smaller: n[w - log(1 + w)] <= nw - log(1 + nw)
        mean = np.minimum(mean, trace_term(tau, n, alpha, noise=noise) + 0.5 * log1p_residual(W))
    return mean + np.sqrt(w) * np.sqrt(x * W) + x * w  # w·W may underflow


def prior_sharpest(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    """R-thm1, both sharper forms; the bound is the smaller one.  Computed in blocks that fit a cache."""

    def both(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> tuple[Any, Any]:
        tails = [prior_tail(t, n, noise, alpha, delta, share) for share in SPLITS]
        return prior_markov(t, n, noise, alpha, delta), reduce(np.minimum, tails)

    markov, tail = blockwise(both, t, n, noise, alpha, delta)
    return {"markov": markov, "tail": tail}


def any_printed(t: Any, N: Any, noise: Any, alpha: Any, delta: Any, y_norm2: Any) -> dict[str, Any]:
    """R-thm2 as printed, any y: g_N(t)/δ + (αt/(2δσ²))·‖y‖²/σ²; returns the two summands."""
    return {
        "determinant": trace_term(t, N, alpha, noise=noise) / delta,
        "quadratic": alpha * t / (2.0 * delta * noise) * (y_norm2 / noise),
    }


def any_markov(t: Any, n: Any, noise: Any, alpha: Any, delta: Any, y_norm2: Any) -> dict[str, Any]:
    """R-thm2, sharper, for all y at once: g_n(t/δ) + ½ (‖y‖²/σ²) ψ(t/(δσ²)); returns the two summands."""
    tau = t / delta
    return {
        "determinant": trace_term(tau, n, alpha, noise=noise),
        "quadratic": 0.5 * (y_norm2 / noise) * psi(tau / noise, alpha),
    }
