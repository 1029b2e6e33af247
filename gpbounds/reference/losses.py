"""Means of bounded losses over N(m, v) in mpmath: the closed forms of the ledger, and quadrature of the definition.

d = y − m, a = (d − ε)/s, b = (d + ε)/s throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import diff, erfc, exp, mpf, ncdf, npdf, quad, sqrt


def cdf(x: Any) -> Any:
    """Φ(x), relatively accurate in the lower tail."""
    return erfc(-x / sqrt(mpf(2))) / 2


def mean(loss: Callable[[Any], Any], breaks: Sequence[Any], m: Any, s: Any) -> Any:
    """E loss(f), f ~ N(m, v), by quadrature between the kinks and jumps of the loss."""
    inner = sorted({(mpf(v) - m) / s for v in breaks} | {mpf(k) for k in (-6, -3, 0, 3, 6)})
    points = [mpf(-30), *(z for z in inner if -30 < z < 30), mpf(30)]
    return quad(lambda z: loss(m + s * z) * npdf(z), points)


def band(y: Any, m: Any, s2: Any, epsilon: Any) -> Any:
    """Φ(a) + Φ(−b)  (P-30)."""
    s = sqrt(s2)
    return cdf((y - m - epsilon) / s) + cdf(-(y - m + epsilon) / s)


def interval(low: Any, high: Any, m: Any, s2: Any) -> Any:
    """P(f ∉ [low, high])  (P-33)."""
    s = sqrt(s2)
    return cdf((low - m) / s) + cdf((m - high) / s)


def sign(y: Any, m: Any, s2: Any) -> Any:
    """P(y f ≤ 0)  (N-sign)."""
    return cdf(-y * m / sqrt(s2))


def squared(y: Any, m: Any, s2: Any, epsilon: Any) -> Any:
    """1 + (1 − (d²+s²)/ε²)(Φ(a) − Φ(b)) + (s/ε²)[(d−ε)ϕ(b) − (d+ε)ϕ(a)]  (P-31)."""
    s, d = sqrt(s2), y - m
    a, b = (d - epsilon) / s, (d + epsilon) / s
    inside = cdf(b) - cdf(a) if a < 0 else cdf(-a) - cdf(-b)
    edges = (d - epsilon) * npdf(b) - (d + epsilon) * npdf(a)
    return 1 - (1 - (d * d + s2) / epsilon**2) * inside + s / epsilon**2 * edges


def printed_squared(y: Any, m: Any, s2: Any, epsilon: Any) -> Any:
    """Eq. 27 as printed: the sign of its second term and 1/ε are wrong."""
    s, d = sqrt(s2), y - m
    a, b = (d - epsilon) / s, (d + epsilon) / s
    first = (1 - (d * d + s2) / epsilon**2) * (ncdf(a) - ncdf(b)) + 1
    return first - s / epsilon * (d - epsilon) * npdf(b) - s / epsilon * (d + epsilon) * npdf(a)


def exponential(y: Any, m: Any, s2: Any, epsilon: Any) -> Any:
    """1 − (ε/√u) exp(−d²/u), u = ε² + 2s²  (P-32)."""
    u = epsilon**2 + 2 * s2
    return 1 - epsilon / sqrt(u) * exp(-((y - m) ** 2) / u)


def printed_exponential(y: Any, m: Any, s2: Any, epsilon: Any) -> Any:
    """Eq. 28 as printed: 2s + ε² in the exponent."""
    return 1 - epsilon / sqrt(epsilon**2 + 2 * s2) * exp(-((y - m) ** 2) / (2 * sqrt(s2) + epsilon**2))


def relative(y: Any, m: Any, s2: Any, epsilon: Any = 1) -> Any:
    """{d[2Φ(d/s) − Φ(a) − Φ(b)] + s[2ϕ(d/s) − ϕ(a) − ϕ(b)]}/c + 1 − Φ(b) + Φ(a), ε → c = ε|y|  (P-34)."""
    s, d, c = sqrt(s2), y - m, epsilon * abs(y)
    a, b, delta = (d - c) / s, (d + c) / s, d / s
    lean = d * (2 * cdf(delta) - cdf(a) - cdf(b)) + s * (2 * npdf(delta) - npdf(a) - npdf(b))
    return lean / c + cdf(-b) + cdf(a)


def gradient(function: Callable[[Any, Any], Any], m: Any, s2: Any) -> tuple[Any, Any]:
    """Numerical ∂/∂m and ∂/∂s² of ``function(m, s²)`` with relative steps in s²."""
    s = sqrt(s2)
    by_mean = diff(lambda t: function(m + s * t, s2), 0) / s
    by_variance = diff(lambda t: function(m, s2 * (1 + t)), 0) / s2
    return by_mean, by_variance
