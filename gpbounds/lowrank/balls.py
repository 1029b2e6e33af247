"""The bounds on random Fourier features with ``rigor="sharp"``: outer ends of balls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank import frequencies
from gpbounds.lowrank.approximation import kappa_inverse
from gpbounds.lowrank.frequencies import LeverageDensity
from gpbounds.numerics.balls import residual, root
from gpbounds.numerics.search import first_double, least
from gpbounds.rigor import at_bits, end_above, exact, outer, rounded, sign

# KL divergences of random Fourier features in balls, and the mass of their density (N-rff, N-shell, L-27, L-28).


@dataclass(frozen=True)
class Density:
    """τ̃ in doubles: its shells, and for each shell the pair (A, h) with which N-shell proves τ ≤ τ̃ there.

    Attributes
    ----------
    widths, lengthscales : tuple of float
        Ranges W_j of the inputs, in the units of x, and ℓ_j; the scaled ranges are W_j/(2πℓ_j).
    radii : tuple of float
        r_0 < ... < r_S.
    log_heights : tuple of float
        log τ̃ on each shell.
    pairs : tuple of (float, float)
        (A, h).
    """

    widths: tuple[float, ...]
    lengthscales: tuple[float, ...]
    radii: tuple[float, ...]
    log_heights: tuple[float, ...]
    pairs: tuple[tuple[float, float], ...]

    @property
    def dim(self) -> int:
        """D."""
        return len(self.widths)

    def scaled(self) -> list[Any]:
        """W_j/(2πℓ_j)."""
        from flint import arb

        sides = zip(self.widths, self.lengthscales, strict=True)
        return [exact(width) / (2 * arb.pi() * exact(ell)) for width, ell in sides]

    def proves(self, n: Any) -> bool:
        """Whether the bound of N-shell, or n p(η), is at most τ̃ on every shell."""
        shells = zip(self.radii[:-1], self.radii[1:], self.log_heights, self.pairs, strict=True)
        widths = self.scaled()
        return all(
            shell_bound(widths, n, exact(inner), exact(outer), *map(exact, pair)) <= exact(log_height).exp()
            for inner, outer, log_height, pair in shells
        )

    def mass(self, n: Any) -> Any:
        """s̃ = Σ height·volume + n P(|η| > r_S)."""
        total, half = exact(0.0), exact(self.dim) / 2
        ball = _pi() ** half / (half + 1).gamma()
        for near, far, log_height in zip(self.radii[:-1], self.radii[1:], self.log_heights, strict=True):
            volume = ball * (exact(far) ** self.dim - exact(near) ** self.dim)
            total += exact(log_height).exp() * volume
        last = exact(self.radii[-1])
        beyond = (last * last / 2).gamma_upper(half, regularized=1) if self.radii[-1] else exact(1.0)
        return total + n * beyond


def shell_bound(widths: Sequence[Any], n: Any, inner: Any, outer: Any, A: Any, h: Any) -> Any:
    """A bound on τ(η) for r₀ = ``inner`` ≤ |η| ≤ r₁ = ``outer`` (N-shell), or n p(r₀) where this is less:

    e^(r₁²/(4A)) Π_j E(W'_j − |t|)₊ + n p(r₀) (1 − Π_j (1 − Φc(h) − Φc(h + W_j/s)))².
    """
    s, spread = (A + exact(0.5)).sqrt() / (2 * _pi()), (A / 2).sqrt() / _pi()
    overlap, inside = exact(1.0), exact(1.0)
    for width in widths:
        wide = (width + 2 * h * s) / spread
        overlap *= spread * (wide * (wide / exact(2.0).sqrt()).erf() + (2 / _pi()).sqrt() * (-wide * wide / 2).expm1())
        inside *= 1 - _upper_normal(h) - _upper_normal(h + width / s)
    gauss = n * (2 * _pi()) ** (-exact(len(widths)) / 2) * (-inner * inner / 2).exp()
    return ((outer * outer / (4 * A)).exp() * overlap + gauss * (1 - inside) ** 2).min(gauss)


def kappa(gap: Any) -> Any:
    """κ(Δ) = ½[Δ/(1 − Δ) + log(1 − Δ)] (L-25)."""
    return (gap / (1 - gap) + (-gap).log1p()) / 2


def weighted_kl(m: Any, mass: Any, dimension: Any, delta: Any, gap: Any) -> Any:
    """N-rff at one Δ; ∞ where it proves nothing.

    (κ(Δ)/Δ²)·min{u²/δ₂, (u + √(2ℓ(s̃ + 2bu)/m) + bℓ/(3m))²}, δ₂ = δ − s_λ(e^x − 1)/(e^(2x) − 2x − 1), x = mΔ²/(2s̃),
    u² = s̃s_λ/m, b² = s̃² + s_λ, ℓ = log(1/δ₂).
    """
    from flint import arb

    x = m * gap * gap / (2 * mass)
    fall = (-x).exp()
    left = delta - dimension * fall * (1 - fall) / (1 - (1 + 2 * x) * fall * fall)
    if not left > 0:
        return arb("inf")
    u, b, nats = (mass * dimension / m).sqrt(), (mass * mass + dimension).sqrt(), -left.log()
    norm = u + (2 * nats * (mass + 2 * b * u) / m).sqrt() + b * nats / (3 * m)
    return kappa(gap) / (gap * gap) * (u * u / left).min(norm * norm)


def spectral(mass: Any, dimension: Any, delta: Any, gap: Any) -> Any:
    """(8/3)Δ⁻² s̃ log((16s_λ + 8)/δ) (L-27)."""
    return 8 * mass / (3 * gap * gap) * ((16 * dimension + 8) / delta).log()


def frobenius(mass: Any, dimension: Any, delta: Any, target: Any) -> Any:
    """max{(32/3)s̃ log((32s_λ + 16)/δ), 8κ(½)·s̃s_λ/(δεN)} (L-28)."""
    half = 32 * mass / 3 * ((32 * dimension + 16) / delta).log()
    return half.max(8 * kappa(exact(0.5)) * mass * dimension / (delta * target))


def _upper_normal(x: Any) -> Any:
    """Φc(x)."""
    return (x / exact(2.0).sqrt()).erfc() / 2


def _pi() -> Any:
    from flint import arb

    return arb.pi()


# The bounds on random Fourier features with ``rigor="sharp"``: outer ends of balls.

_PROOF = 512
"""Bits with which the heights of the density are compared with their bounds."""


def enclosed_density(kernel: SquaredExponential, width: ArrayLike | None, density: LeverageDensity) -> Density:
    """``density`` with the widths of the inputs themselves, in the units of x."""
    dim = density.dim
    widths = np.broadcast_to(np.asarray(width, dtype=np.float64), (dim,))
    return Density(
        widths=tuple(widths.tolist()),
        lengthscales=tuple(kernel.lengthscales(dim).tolist()),
        radii=tuple(density.radii.tolist()),
        log_heights=tuple(density.log_heights.tolist()),
        pairs=density.pairs,
    )


@dataclass(frozen=True)
class EnclosedFrequencies:
    """s̃ and s_λ rounded up as exact numbers, and their nearest doubles, which choose Δ.

    Attributes
    ----------
    mass, dimension : balls of radius 0
        Upper ends.
    total, effective : float
        The same, computed in doubles.
    """

    mass: Any
    dimension: Any
    total: float
    effective: float

    @classmethod
    def checked(
        cls,
        N: int,
        variance: float,
        noise: float,
        effective_dimension: float | None,
        density: Density | None,
        total: float,
        effective: float,
    ) -> EnclosedFrequencies:
        """s̃ and s_λ for n = N·variance/noise; a density that is not proved to bound the leverage is refused."""

        def n() -> Any:
            return exact(N) * exact(variance) / exact(noise)

        with at_bits(_PROOF):  # heights exceed the bounds by 1e-10 of themselves
            if density is not None and not density.proves(n()):
                raise NotConverged(
                    "expected a density of frequencies above the ridge leverage, got one not proved to be"
                )
        mass = end_above(lambda: n() if density is None else density.mass(n()))

        def dimension() -> Any:
            known = mass.min(exact(N) / (1 + exact(noise) / exact(variance)))
            return known if effective_dimension is None else known.min(exact(float(effective_dimension)))

        return cls(mass, end_above(dimension), total, effective)

    @property
    def rounded_mass(self) -> float:
        """s̃ rounded up."""
        return rounded(lambda: self.mass, upwards=True)

    @property
    def rounded_dimension(self) -> float:
        """s_λ rounded up."""
        return rounded(lambda: self.dimension, upwards=True)

    def bound(self, m: Any, delta: float) -> Float:
        """N-rff for each number of frequencies, at the Δ that is best in doubles; the bound holds for any Δ."""
        return np.asarray(outer(lambda number: self._ball(number, delta), np.asarray(m, dtype=np.float64)))

    def _ball(self, m: float, delta: float) -> Any:
        gap = frequencies.best_gap(m, self.total, self.effective, delta)
        return weighted_kl(exact(m), self.mass, self.dimension, exact(delta), exact(gap))

    def number(self, rule: str, delta: float, level: float) -> float:
        """The least whole number of frequencies by a rule, rounded up; ``level`` as in `_Setting.number`."""
        if rule == "sharpest":
            m = least(lambda m: float(self.bound(float(m), delta)) <= level, 1, share=2.0**-52)
            assert m is not None  # the bound falls to 0
            return float(m)
        numbers = (self.mass, self.dimension, exact(delta))
        if rule == "frobenius":
            return rounded(lambda: frobenius(*numbers, exact(level)).ceil(), upwards=True)

        def small_enough(gap: float) -> bool:
            return gap <= 0.5 and sign(lambda: kappa(exact(gap)) - exact(level)) <= 0

        gap = first_double(small_enough, min(float(kappa_inverse(level)), 0.5), -math.inf)
        return rounded(lambda: spectral(*numbers, exact(gap)).ceil(), upwards=True)


# KL divergences of truncated Mercer expansions in balls, and the deviations of means behind them (L-41 ... L-43).


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
