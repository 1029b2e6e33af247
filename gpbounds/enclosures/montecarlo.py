"""Sample sizes of biased Monte Carlo in balls (D-41, D-48, D-50, N-cher)."""

from __future__ import annotations

from functools import reduce
from typing import Any

from gpbounds.enclosures.likelihoods import derivative_range
from gpbounds.likelihoods import Likelihood


def lemma6(low: Any, high: Any, mean: Any, relative_error: Any, delta: Any) -> Any:
    """(b−a)²/(2r²μ²)·ln(2/δ) (D-41)."""
    return ((high - low) / (relative_error * mean)) ** 2 / 2 * (2 / delta).log()


def failure_share(iteration: Any, delta: Any) -> Any:
    """6δ/(π²t²) (D-48)."""
    from flint import arb

    return 6 * delta / (arb.pi() * iteration) ** 2


def factors(likelihood: Likelihood, y: float, zeta: Any, a: Any, *, chernoff: bool) -> tuple[dict[str, Any], Any]:
    """({B²/ζ² or with ``chernoff`` 2a²/k, (B'−b')², (B''−b'')²}, B*) (D-50, N-cher)."""
    B, first, second = derivative_range(likelihood, y)
    parts = {"φ": (B / zeta) ** 2, "φ'": (first[1] - first[0]) ** 2, "φ''": (second[1] - second[0]) ** 2}
    if chernoff:
        parts["φ"] = parts["φ"].min(2 * a * a / relative_divergence(zeta / B, a))
    return parts, reduce(lambda u, v: u.max(v), map(abs, (B, *first, *second)))


def threshold(parts: dict[str, Any], n: Any, share: Any, a: Any) -> Any:
    """ln(6n/δ_t)/(2a²)·max of the factors (D-50)."""
    return (6 * n / share).log() / (2 * a * a) * reduce(lambda u, v: u.max(v), parts.values())


def relative_divergence(p: Any, a: Any) -> Any:
    """min kl((1±a)p‖p); ∞ where (1 + a)p > 1 for that sign, and for p ≥ 1."""
    from flint import arb

    if p >= 1:
        return arb("inf")
    smaller = divergence(p, -a)
    whole = (1 + a) * p
    return smaller if whole > 1 else smaller.min(divergence(p, a))


def divergence(p: Any, a: Any) -> Any:
    """kl((1+a)p‖p) = p[(1+a) log(1+a) − a] + (1−p)[(1−x) log(1−x) + x], x = pa/(1−p)."""
    x = p * a / (1 - p)
    return p * ((1 + a) * a.log1p() - a) + (1 - p) * ((1 - x) * (-x).log1p() + x)
