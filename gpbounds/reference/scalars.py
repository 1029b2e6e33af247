"""F, G, F̂, ψ, g_n in mpmath, straight from the ledger's definitions."""

from __future__ import annotations

from typing import Any

import mpmath as mp


def scaled_log(x: Any, beta: Any) -> Any:
    """log(1 + βx)/β, x at β = 0."""
    return mp.log(1 + beta * x) / beta if beta else mp.mpf(x)


def G(x: Any, alpha: Any) -> Any:
    """½[log(1+βx)/β - log(1+x)]."""
    return (scaled_log(x, 1 - alpha) - mp.log(1 + x)) / 2


def F(x: Any, alpha: Any) -> Any:
    """½[log(1+βx)/β + αx/(1+βx) - log(1+x)]."""
    beta = 1 - alpha
    return (scaled_log(x, beta) + alpha * x / (1 + beta * x) - mp.log(1 + x)) / 2


def tangency(alpha: Any) -> Any:
    """x0 > 0 with F'(x0) x0 = F(x0), for ½ < α < 1, by bisection in log x."""
    beta = 1 - alpha

    def turned(x: Any) -> bool:
        slope = (1 / (1 + beta * x) + alpha / (1 + beta * x) ** 2 - 1 / (1 + x)) / 2
        return bool(slope * x < F(x, alpha))

    low, high = mp.mpf(-60), mp.mpf(2) - 2 * mp.log(beta)
    for _ in range(mp.mp.prec + 10):
        middle = (low + high) / 2
        if turned(mp.exp(middle)):
            high = middle
        else:
            low = middle
    return mp.exp(high)


def F_hat(x: Any, alpha: Any) -> Any:
    """Concave envelope of F."""
    if alpha <= mp.mpf(1) / 2:
        return F(x, alpha)
    if alpha == 1:
        return mp.mpf(x)
    x0 = tangency(alpha)
    return x / x0 * F(x0, alpha) if x < x0 else F(x, alpha)


def psi(x: Any, alpha: Any) -> Any:
    """αx/((1+βx)(1+x)) up to 1/√β, (1-√β)/(1+√β) beyond."""
    root = mp.sqrt(1 - alpha)
    if x * root >= 1:
        return (1 - root) / (1 + root)
    return alpha * x / ((1 + (1 - alpha) * x) * (1 + x))


def trace_term(T: Any, n: Any, noise: Any, alpha: Any) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²))."""
    return alpha * n / 2 * scaled_log(mp.mpf(T) / (n * noise), 1 - alpha)


def trace_floor(t: Any, n: int, alpha: Any) -> Any:
    """nǦ(t/n), Ǧ the steepest line that touches G at some u <= t/n where G is convex and is below it at t (N-floor)."""
    t, beta = mp.mpf(t), 1 - alpha
    if t == 0 or n == 0:
        return mp.mpf(0)

    def line(u: Any, x: Any) -> Any:
        return G(u, alpha) + alpha * u / (2 * (1 + beta * u) * (1 + u)) * (x - u)

    low, high = mp.mpf(0), t / n if beta == 0 else min(t / n, 1 / mp.sqrt(beta))
    if line(high, t) <= G(t, alpha):
        return n * line(high, t / n)
    for _ in range(mp.mp.prec + 10):
        middle = (low + high) / 2
        low, high = (middle, high) if line(middle, t) <= G(t, alpha) else (low, middle)
    return n * line(low, t / n)
