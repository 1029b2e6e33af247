"""The theorems for one draw as functions of t, a bound on the expected trace of K − Q, in balls.

n = N − M.  Each function increases in t, so that an upper bound of t gives an upper bound.  `gpbounds.rates.forms` has
the same formulas in doubles.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from gpbounds.enclosures.scalars import F_hat, psi, residual, trace_term
from gpbounds.rigor import exact

SPLITS = range(1, 7)
"""δ₂ = δ/2 ... δ/64 in `prior_tail`."""


def prior_markov(t: Any, n: Any, noise: Any, order: float, delta: Any) -> Any:
    """R-thm1 (a): (n/δ) F̂(t/(nσ²))."""
    return n / delta * F_hat(t / (n * noise), order)


def prior_tail(t: Any, n: Any, noise: Any, order: float, delta: Any) -> Any:
    """R-thm1 (b), least over δ₂: mean + √(x w W) + x w at τ = t/(δ − δ₂), x = log(1/δ₂).

    W = ατ/(σ² + βτ/n), w = ατ/(σ² + βτ), mean = min{n F̂(τ/(nσ²)), g_n(τ) + ½[W − log(1 + W)]}.
    """
    alpha = exact(order)
    beta = 1 - alpha

    def at(j: int) -> Any:
        second = delta / 2**j
        tau, x = t / (delta - second), -second.log()
        W, w = alpha * tau / (noise + beta * tau / n), alpha * tau / (noise + beta * tau)
        mean = n * F_hat(tau / (n * noise), order)
        mean = mean.min(trace_term(tau, n, order, noise) + residual(W) / 2)
        return mean + (x * w * W).sqrt() + x * w

    return reduce(lambda a, b: a.min(b), map(at, SPLITS))


def any_markov(t: Any, n: Any, noise: Any, order: float, delta: Any, y_norm2: Any) -> tuple[Any, Any]:
    """R-thm2, the two summands of g_n(t/δ) + ½ (‖y‖²/σ²) ψ(t/(δσ²))."""
    tau = t / delta
    return trace_term(tau, n, order, noise), y_norm2 / noise * psi(tau / noise, order) / 2


def printed(t: Any, N: Any, noise: Any, order: float, delta: Any, ratio: Any) -> tuple[Any, Any]:
    """R-thm1 and R-thm2 as printed, the two summands of g_N(t)/δ + αt·ratio/(2δσ²).

    The ratio is ‖y‖²/σ², or 1 for y from the prior.
    """
    return trace_term(t, N, order, noise) / delta, exact(order) * t / (2 * delta * noise) * ratio
