"""Biased Monte Carlo, product sampling and rank tests in mpmath, from the ledger's D.2, D.3, D.5 and N-rank.

Means are enumerated or integrated by quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from mpmath import exp, expm1, factorial, inf, lambertw, log, mp, mpf, pi, quad, sqrt

from gpbounds.reference.likelihoods import LogDensity, highest

Function = Callable[[Any], Any]


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``total`` as an ordered sum of ``parts`` whole numbers >= 0."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def mean_over_samples(function: Callable[[tuple[int, ...]], Any], chances: Sequence[Any], L: int) -> Any:
    """E of a function of the counts of finitely many values in L independent draws."""
    total = mpf(0)
    for counts in compositions(L, len(chances)):
        weight = factorial(L)
        for count, chance in zip(counts, chances, strict=True):
            weight = weight / factorial(count) * chance**count
        total += weight * function(counts)
    return total


def log_mean(values: Sequence[Any], chances: Sequence[Any], L: int) -> Any:
    """E log X̄_L for a finite X > 0, by enumeration."""
    return mean_over_samples(
        lambda counts: log(sum(c * x for c, x in zip(counts, values, strict=True)) / L), chances, L
    )


def ratio_mean(numerators: Sequence[Any], values: Sequence[Any], chances: Sequence[Any], L: int) -> Any:
    """E[ΣA/ΣX], by enumeration."""

    def ratio(counts: tuple[int, ...]) -> Any:
        above = sum(c * a for c, a in zip(counts, numerators, strict=True))
        return above / sum(c * x for c, x in zip(counts, values, strict=True))

    return mean_over_samples(ratio, chances, L)


def log_mean_integral(laplace: Function, L: int) -> Any:
    """E log X̄_L = ∫₀^∞ [e^−t − (E e^(−tX/L))^L] dt/t  (D-21)."""
    return quad(lambda t: (exp(-t) - laplace(t / L) ** L) / t, [0, 1, 4, 16, 64, inf])


def ratio_integral(weighted: Function, laplace: Function, L: int) -> Any:
    """E[ΣA/ΣX] = L ∫₀^∞ E[A e^−tX] (E e^−tX)^(L−1) dt  (D-21)."""
    return L * quad(lambda t: weighted(t) * laplace(t) ** (L - 1), [0, 1, 4, 16, 64, inf])


def expansion(mean: Any, variance: Any, third: Any, L: Any) -> Any:
    """E log X̄_L to second order in 1/L  (D-20)."""
    first = variance / (2 * mean**2)
    return log(mean) - first / L + (third / (3 * mean**3) - 3 * variance**2 / (4 * mean**4)) / L**2


def two_samples(log_density: LogDensity, y: Any, m: Any, v: Any, step: Any, reach: Any = 12) -> Any:
    """E[−log X̄_2] as a double sum of the trapezoidal rule, which is accurate for smooth functions under a Gaussian."""
    count = int(reach / step)
    xs = [k * step for k in range(-count, count + 1)]
    weights = [exp(-(x**2) / 2) * step / sqrt(2 * pi) for x in xs]
    densities = [exp(log_density(y, m + sqrt(v) * x)) for x in xs]
    total = mpf(0)
    for i, (w, p) in enumerate(zip(weights, densities, strict=True)):
        total += w * w * log(p)
        total += 2 * sum(w * weights[j] * log((p + densities[j]) / 2) for j in range(i))
    return -total


def least_constant(log_density: LogDensity, y: Any, m: Any, v: Any, n: Any, low: Any, high: Any) -> Any:
    """K*(n) = √n sup_f p(y|f) e^(−(f−m)²(1−1/n)/(2v)), the supremum within (low, high)  (D-14)."""

    def height(f: Any) -> Any:
        return log_density(y, f) - (f - m) ** 2 * (1 - 1 / mpf(n)) / (2 * v)

    return sqrt(mpf(n)) * exp(height(highest(height, mpf(low), mpf(high))))


def poisson_touch(y: Any, m: Any, v: Any, n: Any) -> Any:
    """The f at which K*(n) is attained for the rate e^f: A − W₀(e^A/a), a = (1−1/n)/v, A = m + y/a  (D-14)."""
    a = (1 - 1 / mpf(n)) / v
    A = m + y / a
    return A - lambertw(exp(A) / a).real


def lemma6(low: Any, high: Any, mean: Any, alpha: Any, delta: Any) -> Any:
    """(b−a)²/(2α²μ²) ln(2/δ)  (D-41)."""
    return (high - low) ** 2 / (2 * alpha**2 * mean**2) * log(2 / mpf(delta))


def share(delta: Any, t: Any) -> Any:
    """δ_t = 6δ/(π²t²)  (D-48)."""
    return 6 * mpf(delta) / (pi**2 * t**2)


def threshold(n: Any, delta_t: Any, alpha: Any, M: Any) -> Any:
    """ln(6n/δ_t)/(2α²)·M  (D-42)."""
    return log(6 * n / mpf(delta_t)) / (2 * mpf(alpha) ** 2) * M


def printed_factor(B: Any, first: Any, second: Any, means: Any) -> Any:
    """M of Eq. 10; ``first``, ``second`` are the widths of the ranges, ``means`` E φ, E φ', E φ''  (D-42, D-50)."""
    P, Q = (abs(e) if e else 1 for e in means[1:])
    return max((B / means[0]) ** 2, (first / P) ** 2, (second / Q) ** 2)


def improved_factor(B: Any, first: Any, second: Any, zeta: Any) -> Any:
    """max{B²/ζ², (B'−b')², (B''−b'')²}  (D-50)."""
    return max((B / zeta) ** 2, first**2, second**2)


def relative_divergence(p: Any, alpha: Any) -> Any:
    """min kl((1±α)p‖p)."""

    def kl(q: Any) -> Any:
        return sum(a * log(a / b) if b else inf for a, b in ((q, p), (1 - q, 1 - p)) if a) if q <= 1 else inf

    with mp.workdps(2 * mp.dps + max(0, int(-2 * log(p, 10)))):  # for p = 1e-80 the terms cancel in 160 digits
        least = min(kl((1 - alpha) * p), kl((1 + alpha) * p))
    return +least


def centred(X: Any, s: Any) -> Any:
    """e^(−s(X−1)) − 1 + s(X−1)."""
    return expm1(-s * (X - 1)) + s * (X - 1)


def extremities(sets: Sequence[Sequence[float]]) -> list[int]:
    """e_j = min_s min(#{i: T^i_s ≤ T^j_s}, #{i: T^i_s ≥ T^j_s}) for m + 1 sets of S statistics."""
    extremes = []
    for own in sets:
        ranks = []
        for s, value in enumerate(own):
            ranks += [sum(other[s] <= value for other in sets), sum(other[s] >= value for other in sets)]
        extremes.append(min(ranks))
    return extremes


def p_value(sets: Sequence[Sequence[float]]) -> Fraction:
    """#{j: e_j ≤ e_0}/(m + 1) for the first set."""
    e = extremities(sets)
    return Fraction(sum(other <= e[0] for other in e), len(e))


def is_outside(sets: Sequence[Sequence[float]], delta: Fraction) -> bool:
    """Whether the first set is outside a range: e_0 ≤ c for the greatest c with #{j: e_j ≤ c} ≤ δ(m + 1)."""
    e = extremities(sets)
    c = max(c for c in range(len(e) + 1) if sum(other <= c for other in e) <= delta * len(e))
    return e[0] <= c
