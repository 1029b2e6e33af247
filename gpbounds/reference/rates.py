"""``rate`` in mpmath, from the tails of a spectrum, slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

from gpbounds.reference.scalars import F_hat, psi, trace_term


def sharpest_trace(tails: Sequence[Any], N: int, M: int, variance: Any, tv: Any, population: Any = mp.inf) -> Any:
    """t* = N·min{R, min_{k<=M} (M+1)/(M+1-k)·tails[k]} + (N-M)·v·tv, tails[k] = Σ_{m>k} λ_m, R = ``population``."""
    best = min(population, *(mp.mpf(M + 1) / (M + 1 - k) * tails[k] for k in range(M + 1)))
    return N * best + (N - M) * variance * tv


def printed_trace(tails: Sequence[Any], N: int, M: int, variance: Any, tv: Any) -> Any:
    """t = (M+1)·N·tails[M] + 2N·v·tv."""
    return (M + 1) * N * tails[M] + 2 * N * variance * tv


def prior_bound(t: Any, N: int, M: int, alpha: Any, noise: Any, delta: Any) -> Any:
    """R-thm1, sharper forms (a) and (b), the smaller."""
    n, beta = N - M, 1 - alpha
    best = n / delta * F_hat(t / (n * noise), alpha)
    for j in range(1, 7):
        tail = delta / 2**j
        tau, x = t / (delta - tail), mp.log(1 / tail)
        W = alpha * tau / (noise + beta * tau / n)
        w = min(alpha * tau / (noise + beta * tau), W)
        mean = min(n * F_hat(tau / (n * noise), alpha), trace_term(tau, n, noise, alpha) + (W - mp.log(1 + W)) / 2)
        best = min(best, mean + mp.sqrt(x * w * W) + x * w)
    return best


def any_bound(t: Any, N: int, M: int, alpha: Any, noise: Any, delta: Any, y_norm2: Any) -> Any:
    """R-thm2, sharper: g_{N-M}(t/δ) + ½ ‖y‖²/σ² ψ(t/(δσ²))."""
    return trace_term(t / delta, N - M, noise, alpha) + y_norm2 / noise * psi(t / (delta * noise), alpha) / 2


def rate(
    tails: Sequence[Any],
    N: int,
    M: int,
    alpha: Any,
    *,
    variance: Any = 1,
    noise: Any,
    delta: Any,
    y_norm2: Any = None,
    tv: Any = 0,
    form: str = "sharpest",
    population: Any = mp.inf,
) -> Any:
    """The bound on D_α[q*‖p] of :func:`gpbounds.rate`, from exact tails and R(μ) or a bound of it (N-pop)."""
    if form == "sharpest":
        t = sharpest_trace(tails, N, M, variance, tv, population)
    else:
        t = printed_trace(tails, N, M, variance, tv)
    with mp.workdps(mp.mp.dps + max(0, -int(mp.log10(t)))):  # enough digits for log(1 + t)
        if form == "printed":
            second = 1 if y_norm2 is None else y_norm2 / noise
            return trace_term(t, N, noise, alpha) / delta + alpha * t / (2 * delta * noise) * second
        if y_norm2 is None:
            return prior_bound(t, N, M, alpha, noise, delta)
        return any_bound(t, N, M, alpha, noise, delta, y_norm2)
