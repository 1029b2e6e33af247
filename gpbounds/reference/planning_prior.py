"""Bounds for the best of several k-DPP draws, y from the prior or adversarial, in mpmath, slow and obvious.

Eigenvalues are lists; the means are written with elementary symmetric polynomials, as in the statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import esp


def miss(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """e_M(λ without λ_i)/e_M(λ), for each i."""
    values = [mp.mpf(v) for v in eigenvalues]
    whole = esp(values, M)[M]
    return [esp(values[:i] + values[i + 1 :], M)[M] / whole for i in range(len(values))]


def moment(weights: Sequence[Any], constant: Any, R: int) -> Any:
    """E (c + Σ w z²)^R: R! times the coefficient of t^R in exp(ct) Π (1 − 2w t)^(−1/2)."""
    series = [mp.mpf(constant) ** k / mp.factorial(k) for k in range(R + 1)]
    for w in weights:
        factor = [mp.binomial(2 * k, k) * (mp.mpf(w) / 2) ** k for k in range(R + 1)]
        series = [mp.fsum(series[j] * factor[k - j] for j in range(k + 1)) for k in range(R + 1)]
    return mp.factorial(R) * series[R]


def prior_moments(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any, a: Any) -> Any:
    """B of N-prior for one a, by bisection; inf where no B does."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m = miss(values, M)
    h = [v / (v + s2) for v in values]
    theta = [mi * hi for mi, hi in zip(m, h, strict=True)]
    excess = mp.fsum(mi * v * hi / s2 for mi, v, hi in zip(m, values, h, strict=True))
    omega = mp.fsum(mi * max(hi - a, 0) for mi, hi in zip(m, h, strict=True))

    moments = [moment(theta, excess, k) for k in range(R + 1)]

    def probability(B: Any) -> Any:
        """E (c(Q + excess) + αΩ)^R/(1 − αa)^R, by the binomial theorem."""
        c = alpha / (2 * B)
        terms = (mp.binomial(R, k) * c**k * moments[k] * (alpha * omega) ** (R - k) for k in range(R + 1))
        return mp.fsum(terms) / (1 - alpha * a) ** R

    low, high = mp.mpf(10) ** -30, mp.mpf(10) ** 30
    if probability(high) > delta:
        return mp.inf
    while high / low > 1 + mp.mpf(10) ** -20:
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if probability(middle) > delta else (low, middle)
    return high


def prior_large(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any, a: Any) -> Any:
    """B of N-prior2 for one a, the form by moments."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m = miss(values, M)
    h = [v / (v + s2) for v in values]
    x = [alpha * v for v in h]
    excess = mp.fsum(mi * v * hi / s2 for mi, v, hi in zip(m, values, h, strict=True))
    gamma = mp.fsum(mi * xi * max(xi - a, 0) / ((1 - xi) * (1 - a)) for mi, xi in zip(m, x, strict=True))
    weights = sorted((alpha * mi * hi / (1 - a) for mi, hi in zip(m, h, strict=True)), reverse=True)
    weights[0] += gamma
    return (moment(weights, alpha * excess, R) / delta) ** (mp.mpf(1) / R) / 2


def tilted(eigenvalues: Sequence[Any], M: int, noise: Any) -> tuple[list[Any], Any]:
    """(θ_i, Σ miss_i d_i²) of the law of μ_i = λ_i(λ_i + σ²), d_i = λ_i/σ² (N-tilt)."""
    values, s2 = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise)
    m = miss([v * (v + s2) for v in values], M)
    return [mi * v / s2 for mi, v in zip(m, values, strict=True)], mp.fsum(
        mi * (v / s2) ** 2 for mi, v in zip(m, values, strict=True)
    )


def tilted_prior(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any) -> Any:
    """(α/2) (E (Σ θ z² + Σ miss d²)^R/δ)^(1/R)  (N-tilt-prior)."""
    theta, determinant = tilted(eigenvalues, M, noise)
    return mp.mpf(alpha) / 2 * (moment(theta, determinant, R) / delta) ** (mp.mpf(1) / R)


def tilted_given(eigenvalues: Sequence[Any], squares: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """(α/(2p)) [Σ θ_i s_i/(λ_i + σ²) + Σ miss_i d_i²], s_i = (Vᵀy)_i²  (N-tilt-given)."""
    theta, determinant = tilted(eigenvalues, M, noise)
    parts = zip(theta, squares, eigenvalues, strict=True)
    return mp.mpf(alpha) / (2 * p) * (mp.fsum(t * mp.mpf(s) / (mp.mpf(v) + noise) for t, s, v in parts) + determinant)


def joint_mean(eigenvalues: Sequence[Any], M: int, noise: Any, alpha: Any) -> Any:
    """g(τ) + ½ Σ miss_i [x/(1 − x) + log(1 − x)] at x = αh_i  (N-one)."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m, n = miss(values, M), sum(1 for v in values if v > 0) - M
    if n == 0:
        return mp.mpf(0)
    trace = mp.fsum(mi * v for mi, v in zip(m, values, strict=True))
    beta = 1 - alpha
    g = trace / (2 * s2) if beta == 0 else alpha * n / (2 * beta) * mp.log(1 + beta * trace / (n * s2))
    x = [alpha * v / (v + s2) for v in values]
    return g + mp.fsum(mi * (xi / (1 - xi) + mp.log(1 - xi)) for mi, xi in zip(m, x, strict=True)) / 2


def trace_quantile(eigenvalues: Sequence[Any], M: int, p: Any) -> Any:
    """N-order with Cantelli's quantile over every set of greatest or least eigenvalues."""
    values = sorted((mp.mpf(v) for v in eigenvalues), reverse=True)
    m, n = miss(values, M), len(values)
    best = mp.inf
    for rest in [range(k) for k in range(n + 1)] + [range(k, n) for k in range(n + 1)]:
        inside = mp.fsum(values[i] * m[i] for i in range(n) if i not in rest)
        mean = mp.fsum(values[i] * m[i] for i in rest)
        variance = mp.fsum(values[i] ** 2 * m[i] * (1 - m[i]) for i in rest)
        best = min(best, inside / p + mean + mp.sqrt((1 / mp.mpf(p) - 1) * variance))
    return best


def trace_variance(eigenvalues: Sequence[Any], M: int) -> Any:
    """min{Σ λ_i ρ_i − τ_M(τ_M − τ_{M+1}), Σ λ_i² miss_i (1 − miss_i)}  (N-vart)."""
    values = [mp.mpf(v) for v in eigenvalues]
    m, e = miss(values, M), esp(values, M + 2)
    mean = (M + 1) * e[M + 1] / e[M]
    more = (M + 2) * e[M + 2] / e[M + 1] if e[M + 1] else mp.mpf(0)
    first = mp.fsum(v * v * mi for v, mi in zip(values, m, strict=True)) - mean * (mean - more)
    return min(first, mp.fsum(v * v * mi * (1 - mi) for v, mi in zip(values, m, strict=True)))
