"""KL divergences of random Fourier features in balls, and the mass of their density (N-rff, N-shell, L-27, L-28)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpbounds.rigor import exact


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
        for inner, outer, log_height in zip(self.radii[:-1], self.radii[1:], self.log_heights, strict=True):
            volume = ball * (exact(outer) ** self.dim - exact(inner) ** self.dim)
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
