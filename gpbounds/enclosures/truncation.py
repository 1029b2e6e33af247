"""KL divergences of truncated Mercer expansions in balls, and the deviations of means behind them (L-41 ... L-43)."""

from __future__ import annotations

from typing import Any

from gpbounds.enclosures.newton import root
from gpbounds.enclosures.scalars import residual


def divergence(x: Any) -> Any:
    """½[x − log(1 + x)] (L-09)."""
    return residual(x) / 2


def chebyshev(mean: Any, top: Any, N: Any, delta: Any) -> Any:
    """Λ + √(BΛ/(Nδ)): Eq. 20 as printed (L-41)."""
    return mean + (top * mean / (N * delta)).sqrt()


def cantelli(mean: Any, top: Any, N: Any, delta: Any) -> Any:
    """Λ + √((B−Λ)Λ(1−δ)/(Nδ)) where it rises in Λ, and B beyond its maximum (L-43)."""
    odds = (1 - delta) / (N * delta)
    if mean < top / 2 * (1 + 1 / (1 + odds).sqrt()):
        return (mean + ((top - mean) * mean * odds).sqrt()).min(top)
    return top


def chernoff(mean: Any, top: Any, N: Any, delta: Any) -> Any:
    """B·max{q: kl(q‖p) ≤ log(1/δ)/N}, p = Λ/B (L-43).

    q = p + e with √(level·p(1−p)) ≤ e ≤ level + √(level² + 2p·level), from kl(q‖p) ≤ e²/(p(1−p)) and ≥ e²/(2q).
    """
    p, level = mean / top, -delta.log() / N
    if not (p > 0 and p < 1 and -p.log() > level):
        return top
    rest = 1 - p
    bracket = (level * p * rest).sqrt().union((level + (level * level + 2 * p * level).sqrt()).min(rest))

    def excess(e: Any) -> Any:
        return (p + e) * (e / p).log1p() + (rest - e) * (-e / rest).log1p() - level

    return top * (p + root(excess, lambda e: (e / p).log1p() - (-e / rest).log1p(), bracket))


def markov(mean: Any, top: Any, delta: Any) -> Any:
    """min{Λ/δ, B}."""
    return (mean / delta).min(top)


def mean_above(mean: Any, top: Any, N: Any, delta: Any) -> Any:
    """min{Cantelli, Chernoff, Markov}: the mean of N variables in [0, B] exceeds it with probability ≤ δ (L-43)."""
    return cantelli(mean, top, N, delta).min(chernoff(mean, top, N, delta)).min(markov(mean, top, delta))


def mean_divergence(mean: Any, top: Any, N: Any, noise: Any) -> Any:
    """½ min{NΛ/σ² − (1 − (1 − Λ/B)^N) log(1 + B/σ²), x − log(1 + x) + NΛ(B − Λ)/(2σ⁴)}, x = NΛ/σ² (N-mercer)."""
    x = N * mean / noise
    some = 1 - (1 - mean / top) ** N
    half = mean.min(top / 2)
    first = (x - some * (top / noise).log1p()) / 2
    second = divergence(x) + N * half * (top - half) / (4 * noise * noise)
    return first.min(second).min(x / 2)
