"""The bounds on low-rank GPs with ``rigor="sharp"``: outer ends of balls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank import dirichlet, frequencies
from gpbounds.lowrank.approximation import kappa_inverse
from gpbounds.lowrank.dirichlet import LATTICE, SLOWEST, Sines
from gpbounds.lowrank.frequencies import LeverageDensity
from gpbounds.numerics.balls import residual, root
from gpbounds.numerics.search import first_double, least
from gpbounds.rigor import above, at_bits, end_above, exact, outer, rounded, sign, within
from gpbounds.sandwich import roots

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


# Hilbert-space GPs in balls: images, tails, boundary derivatives and nodes (N-hilbert-*).


@dataclass(frozen=True)
class EnclosedSines:
    """The arguments of a Hilbert-space GP as balls, in lengthscales and in units of the variance; D = len(reach).

    ``box`` holds the same in doubles, from which only free choices are taken: numbers of nodes, the better of two
    bounds, and η, which is then checked.
    """

    box: Sines
    reach: list[Any]
    length: list[Any]
    level: Any

    @classmethod
    def of(cls, box: Sines, widths: Float, lengthscales: Float, variance: float, noise: float) -> EnclosedSines:
        """From the arguments of the bound, which are exact."""
        sides = list(zip(widths.tolist(), lengthscales.tolist(), strict=True))
        quotients = {side: exact(side[0]) / exact(side[1]) for side in sides}
        reach = [quotients[side] for side in sides]  # equal sides have the same ball
        length = [exact(c) * S for c, S in zip(box.c.tolist(), reach, strict=True)]
        return cls(box, reach, length, exact(noise) / exact(variance))

    # The kernel, its density and its images.

    def correlation(self, r: Any) -> Any:
        """ρ(r), r ≥ 0."""
        if self.box.nu == math.inf:
            return (-r * r / 2).exp()
        z = exact(2.0 * self.box.nu).sqrt() * r
        return {0.5: exact(1.0), 1.5: 1 + z, 2.5: 1 + z + z * z / 3}[self.box.nu] * (-z).exp()

    def density(self, w: Any) -> Any:
        """s(ω) in one dimension."""
        if self.box.nu == math.inf:
            return (2 * _pi()).sqrt() * (-w * w / 2).exp()
        nu = exact(self.box.nu)
        power = (nu + exact(0.5)).gamma() / nu.gamma()
        return 2 * _pi() * power / (2 * nu * _pi()).sqrt() / (1 + w * w / (2 * nu)) ** (nu + exact(0.5))

    def beyond(self, a: Any) -> Any:
        """P(|ω| > a)."""
        if self.box.nu == math.inf:
            return (a / exact(2.0).sqrt()).erfc()
        y = a / exact(2.0 * self.box.nu).sqrt()
        q = 1 / (1 + y * y)
        taken = {0.5: exact(0.0), 1.5: y * q, 2.5: y * q * (1 + 2 * q / 3)}[self.box.nu]
        return 2 / _pi() * ((1 / y).atan() - taken)

    def _steps(self, first: Any, step: Any) -> Any:
        """Σ_{n≥0} ρ(first + n·step), with the remainder of `dirichlet`."""
        total, last = exact(0.0), first
        for n in range(2 + int(50.0 / float(step))):
            last = first + n * step
            total += self.correlation(last)
        return total + 11 * self.correlation(last) / (10 * step)

    def _pairs(self, first: Any, step: Any, width: Any) -> Any:
        return self._steps(first - width, step) + self._steps(first, step)

    def images(self) -> Any:
        """ε with 0 ≤ k − k_∞ ≤ ε."""
        ends = zip(self.reach, self.length, strict=True)
        return self._joint([self._pairs(2 * L, 4 * L, 2 * S) for S, L in ends])

    def _joint(self, parts: list[Any]) -> Any:
        """1 − Π(1 − p_d) for a product of kernels, else Σp_d; at most 1."""
        if self.box.dim == 1:
            return parts[0]
        if not self.box.product:
            return sum(parts, exact(0.0)).min(exact(1.0))
        kept = exact(1.0)
        for part in parts:
            kept *= 1 - part.min(exact(1.0))
        return 1 - kept

    def explained(self, distance: Any) -> Any:
        """r²: the share of the variance of f, at a distance from a half-space of R³, that the values there explain."""
        last = round(2.0 * self.box.nu)
        y = 2 * exact(2.0 * self.box.nu).sqrt() * distance
        total = term = exact(1.0)
        for k in range(1, last):
            term = term * y / k
            total += term
        return (-y).exp() * (total + last * term * y / last / (last + 1))

    def predicted(self) -> Any:
        """Ω ≥ Σ r over all images of a point of the box."""
        rate = exact(2.0 * self.box.nu).sqrt() / (2 * self.box.dim)
        far, everywhere, inside = [], exact(1.0), exact(1.0)
        for S, L in zip(self.reach, self.length, strict=True):
            edges = [2 * n * L for n in range(1, LATTICE + 1)]
            far.append([exact(0.0), *(edge - 2 * S for edge in edges), *(edge - S for edge in edges)])
            near = sum(((-rate * u).exp() for u in far[-1]), exact(0.0))
            rest = 2 * (-rate * (2 * (LATTICE + 1) * L - 2 * S)).exp() / (1 - (-2 * rate * L).exp())
            everywhere, inside = everywhere * (near + rest), inside * near
        levels = [[(float(u), u, self.explained(u).sqrt()) for u in distances] for distances in far]
        total = exact(-1.0)
        for combined in itertools.product(*levels):
            total += max(combined, key=lambda level: level[0])[2]
        return total + exact(SLOWEST[self.box.nu]) * (everywhere - inside)

    # What is left out.

    def tail(self, d: int) -> Any:
        """t of one dimension."""
        m, L, nu = int(self.box.m[d]), self.length[d], self.box.nu
        step = _pi() / (2 * L)
        turn = exact(1.0) if nu == math.inf else (exact(nu) / exact(nu + 1.0)).sqrt()
        start = (m + exact(0.5)) * step
        share = self.beyond(start if start >= turn else m * step)
        cosine = (_pi() / (2 * exact(float(self.box.c[d])))).cos()
        return (share + self.density((m + 1) * step) / (2 * L * cosine)).min(2 * share)

    def omitted(self) -> Any:
        """A bound on k_∞(x, x) − k_m(x, x)."""
        return self._joint([self.tail(d) for d in range(self.box.dim)])

    # The divergence.

    def bound(self) -> Any:
        """The bound of N-hilbert-kl that is best in doubles."""
        box = self.box
        if box.at_nodes and box.nu == math.inf:
            joined = dirichlet.joined(box, dirichlet.by_images(box))
            if dirichlet.at_nodes(box, kept=True) < joined:
                return self.at_nodes(kept=True)
        return self.joined(self.by_images())

    def joined(self, divergence: Any) -> Any:
        """κ + ½φ(x) + ½ηx with the η of the doubles where it holds, else any η ≥ 0 with φ(η) ≥ 2κ."""
        if not divergence.is_finite():
            return divergence
        x = exact(self.box.N) * self.omitted() / self.level
        eta = exact(dirichlet.by_images(self.box).eta * (1.0 + 1e-9) + 1e-300)
        if self.box.dim > 1 or self.box.nu == math.inf or not self._within(eta):
            eta = exact(float(roots(above(divergence), minus_one=True)[1]) * (1.0 + 1e-9) + 1e-300)
            while not residual(eta) >= 2 * divergence:
                eta = 2 * eta
        return divergence + (residual(x) + eta * x) / 2

    def by_images(self) -> Any:
        """κ: by the ends, nodes or prediction where these are better in doubles, else by the sup-norm."""
        box = self.box
        norm = dirichlet.by_norm(box)
        if dirichlet.by_images(box).divergence < norm:
            if box.nu == math.inf:
                return self.at_nodes(kept=False)
            return self.at_ends() if box.dim == 1 else self.by_prediction()
        delta = exact(box.N) * self.images() / self.level
        return delta * delta / (4 * (1 - delta)) if delta < 1 else exact(math.inf)

    def by_prediction(self) -> Any:
        """κ(q), q² = NΩ²/level."""
        q = (exact(self.box.N) / self.level).sqrt() * self.predicted()
        return kappa(q) if q < 1 else exact(math.inf)

    def at_ends(self) -> Any:
        """KL of the derivatives at ±S, both ways: even and odd parts."""
        parts = [_both_ways(math.isqrt(len(C)), C, B) for C, B in self._ends()]
        return (parts[0][0] + parts[1][0]).max(parts[0][1] + parts[1][1])

    def _within(self, eta: Any) -> bool:
        """Whether C ⪯ (1 + η)C_∞ for the derivatives at ±S: leading minors of the difference."""
        from flint import arb_mat

        for C, B in self._ends():
            p = math.isqrt(len(C))
            gap = [(1 + eta) * b - c for b, c in zip(B, C, strict=True)]
            minors = (
                arb_mat(k, k, [gap[i * p + j] for i in range(k) for j in range(k)]).det() for k in range(1, p + 1)
            )
            if not all(bool(minor > 0) for minor in minors):
                return False
        return True

    def _ends(self) -> list[tuple[list[Any], list[Any]]]:
        """C and C_∞ of the derivatives at ±S by rows: even and odd parts."""
        scale = exact(2.0 * self.box.nu).sqrt()
        S, L, p = scale * self.reach[0], scale * self.length[0], round(self.box.nu + 0.5)

        def even(u: Any, i: int, j: int) -> Any:  # derivatives of k(x − x') + k(x + x' …) in pairs ±u
            return _derivative(p, i + j, u) * (1 + (-1) ** (i + j))

        def both(u: Any, i: int, j: int) -> Any:
            return _derivative(p, i + j, u + 2 * S) + (-1) ** (i + j) * _derivative(p, i + j, u - 2 * S)

        last = 2 + int((ctx_bits() + 40) / float(L))
        first_left_out = 2 * (last + 1) * L - 2 * S
        rest = 20 * (1 + first_left_out) ** 2 * (-first_left_out).exp() / (1 - (-L).exp())
        blocks: list[tuple[list[Any], list[Any]]] = []
        for parity in (1, -1):
            C, E = [], []
            for i, j in itertools.product(range(p), repeat=2):
                sign = (-1) ** j
                C.append(sign * _derivative(p, i + j, exact(0.0)) + parity * _derivative(p, i + j, 2 * S))
                total = rest * within(0.0, 1.0)
                for n in range(1, last + 1):
                    a, b = sign * even(2 * n * L, i, j), both(2 * n * L, i, j)
                    total += a + parity * b if n % 2 == 0 else -(b + parity * a)
                E.append(total)
            blocks.append((C, [c + e for c, e in zip(C, E, strict=True)]))
        return blocks

    def at_nodes(self, *, kept: bool) -> Any:
        """KL at Lobatto's nodes with noise level/N, both ways, plus what interpolation adds."""
        chosen = dirichlet.nodes(self.box)
        assert chosen is not None
        numbers, N = chosen[0], exact(self.box.N)
        noise, size = self.level / N, math.prod(numbers)
        if len(numbers) == 1:
            value = _line_kl(self._blocks(0, numbers[0], kept), noise)
        else:
            with at_bits(max(256, ctx_bits())):
                value = _products_kl(self._sides(numbers, kept), noise)
        first = second = exact(1.0)
        for d, r in enumerate(numbers):
            error = self._interpolation(d, r)
            first, second = first * (1 + error), second * (1 + error * (2 + (2 * _pi()).sqrt() / self.length[d]))
        delta = N * (first.max(second) - 1) / self.level
        return value + _remainder(N, size, value, delta)

    def _sides(self, numbers: list[int], kept: bool) -> list[_Dimension]:
        """The spectra of every dimension; dimensions that are alike share theirs."""
        c, m, known = self.box.c.tolist(), self.box.m.tolist(), {}
        alike = [(id(S), *rest) for S, *rest in zip(self.reach, c, m, strict=True)]
        for d, (r, like) in enumerate(zip(numbers, alike, strict=True)):
            if like not in known:
                known[like] = _Dimension.of(self._blocks(d, r, kept))
        return [known[like] for like in alike]

    def _interpolation(self, d: int, r: int) -> Any:
        """κ with |k − IkI| ≤ κ in dimension d."""
        S, alpha = self.reach[d], exact(float(dirichlet.steepness(float(self.box.reach[d]), r)))
        bulge = (S * S * alpha.sinh() ** 2 / 2 - r * alpha).exp()
        return 2 * bulge / (1 - (-alpha).exp()) * (1 + exact(r).sqrt()) ** 2

    def _blocks(self, d: int, r: int, kept: bool) -> list[tuple[Any, Any]]:
        """K and K_m or K_∞ at the nodes of dimension d, in blocks of even and odd functions of x."""
        from flint import arb_mat

        x, half = [self.reach[d] * node for node in _lobatto(r)], r // 2
        series = self._series(d, x) if kept else None
        ours: Any = {1: [], -1: []}
        theirs: Any = {1: [], -1: []}
        for i, j in itertools.product(range(half, r), repeat=2):
            pair = []
            for k in (j, r - 1 - j):
                entry = self.correlation(abs(x[i] - x[k]))
                pair.append((entry, entry + self._added(d, x[i], x[k]) if series is None else series[i, k]))
            for parity in (1, -1):
                ours[parity].append(pair[0][0] + parity * pair[1][0])
                theirs[parity].append(pair[0][1] + parity * pair[1][1])
        return [(arb_mat(half, half, ours[parity]), arb_mat(half, half, theirs[parity])) for parity in (1, -1)]

    def _series(self, d: int, x: list[Any]) -> Any:
        """K_m at the points x of dimension d."""
        from flint import arb_mat

        L, m = self.length[d], int(self.box.m[d])
        rows = []
        for j in range(1, m + 1):
            w = j * _pi() / (2 * L)
            scale = (self.density(w) / L).sqrt()
            rows.append([scale * (w * (point + L)).sin() for point in x])
        features = arb_mat(rows)
        return features.transpose() * features

    def _added(self, d: int, x: Any, y: Any) -> Any:
        """k_∞ − k for the squared exponential kernel: images at ±2nL, the rest in a ball."""
        S, L = self.reach[d], self.length[d]
        last = 2 + int(math.sqrt(2.0 * ctx_bits()) / float(2 * L)) + int(float(S / L))
        total = exact(0.0)
        for n in range(1, last + 1):
            centre = x - y if n % 2 == 0 else x + y
            pair = self.correlation(abs(centre + 2 * n * L)) + self.correlation(abs(centre - 2 * n * L))
            total += pair if n % 2 == 0 else -pair
        first = 2 * (last + 1) * L - 2 * S
        return total + within(0.0, 1.0) * 2 * self.correlation(first) / (1 - (-2 * first * L).exp())


def _remainder(N: Any, size: int, value: Any, delta: Any) -> Any:
    """½[δ/(1−δ)·(N + 4κ + .39R) + N(δ − log(1−δ)) + N log(1+δ)] (N-hilbert-nodes)."""
    if not delta < 1:
        return exact(math.inf)
    trace = delta / (1 - delta) * (N + 4 * value + 39 * exact(size) / 100)
    return (trace + N * (delta - (-delta).log1p() + delta.log1p())) / 2


def _line_kl(blocks: list[tuple[Any, Any]], noise: Any) -> Any:
    """The larger of KL(N(0, A + noise I)‖N(0, B + noise I)) and its reverse, in blocks (A, B)."""
    parts = []
    for pair in blocks:
        size = pair[0].nrows()
        parts.append(_both_ways(size, *((A + noise * _identity(size)).entries() for A in pair)))
    return (parts[0][0] + parts[1][0]).max(parts[0][1] + parts[1][1])


def _identity(size: int) -> Any:
    from flint import arb_mat

    return arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])


@dataclass(frozen=True)
class _Eigenvectors:
    """A = OΛOᵀ + F for an orthogonal matrix O that is not computed, from approximate eigenvectors U.

    ``error`` ≥ ‖F‖, ``turned`` ≥ ‖U − O‖: ‖U − O‖ ≤ g = ‖UᵀU − I‖ for the orthogonal polar factor O of U, and
    ‖A − OΛOᵀ‖ ≤ ‖A − UΛUᵀ‖ + λ_max g(2 + g).
    """

    U: Any
    values: list[Any]
    error: Any
    turned: Any

    @property
    def norm(self) -> Any:
        """λ_max."""
        return _largest(self.values)

    @classmethod
    def of(cls, A: Any) -> _Eigenvectors:
        """Eigenvectors in doubles, made more accurate in up to six rounds, of which some may fail."""
        refined = cls._from(A, _exact_matrix(np.linalg.eigh(_doubles(A, range(A.nrows())))[1]))
        best = refined
        for _ in range(6):
            if best.error < exact(2.0) ** -112:
                break
            refined = cls._from(A, _more_accurate(A, refined))
            best = refined if refined.error < best.error else best
        return best

    @classmethod
    def _from(cls, A: Any, U: Any) -> _Eigenvectors:
        from flint import arb_mat

        size = A.nrows()
        turned = _frobenius(U.transpose() * U - _identity(size))
        inner = U.transpose() * A * U
        values = [inner[i, i].mid().max(exact(0.0)) for i in range(size)]
        scaled = arb_mat(size, size, [U[i, j] * values[j] for i in range(size) for j in range(size)])
        left = _frobenius(A - scaled * U.transpose())
        return cls(U, values, left + _largest(values) * turned * (2 + turned), turned)

    def seen(self, other: _Eigenvectors, A: Any) -> list[Any]:
        """Balls of o_iᵀA°o_i, A° = OΛOᵀ of ``other``, whose matrix is A, in these eigenvectors o_i."""
        radius = other.error + (other.norm + other.error) * self.turned * (2 + self.turned)
        inner = self.U.transpose() * A * self.U
        return [inner[i, i] + within(0.0, 1.0) * radius for i in range(len(self.values))]


def _largest(values: list[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = result.max(value)
    return result


def _exact_matrix(A: Float) -> Any:
    from flint import arb_mat

    return arb_mat(A.shape[0], A.shape[1], [exact(a) for a in A.ravel().tolist()])


def _frobenius(A: Any) -> Any:
    return sum((a * a for a in A.entries()), exact(0.0)).sqrt().upper()


def _doubles(A: Any, indices: Sequence[int]) -> Float:
    """The entries in these rows and columns, rounded."""
    return np.array([[float(A[i, j]) for j in indices] for i in indices])


def _more_accurate(A: Any, known: _Eigenvectors) -> Any:
    """Better eigenvectors: those of eigenvalues near 0 are turned as a matrix of their own size says, then all.

    The second is U(I + E), E_ij = (UᵀAU)_ij/(λ_j − λ_i), to first order; after each U becomes
    more orthogonal, U(3I − UᵀU)/2 twice.
    """
    from flint import arb_mat

    U, error, size = known.U, known.error, A.nrows()
    near = [i for i in range(size) if known.values[i] < 64 * size * error]
    if near:
        turn = np.eye(size)
        turn[np.ix_(near, near)] = np.linalg.eigh(_doubles(U.transpose() * A * U, near))[1]
        U = _orthogonal(U * _exact_matrix(turn))
    inner = U.transpose() * A * U
    entries = []
    for i, j in itertools.product(range(size), repeat=2):
        gap = inner[j, j] - inner[i, i]
        apart = i != j and abs(gap) > 4 * error
        entries.append((inner[i, j] / gap).mid() if apart else exact(float(i == j)))
    return _orthogonal(U * arb_mat(size, size, entries))


def _orthogonal(U: Any) -> Any:
    """Nearly orthogonal columns made more orthogonal, as exact numbers."""
    from flint import arb_mat

    for _ in range(2):
        U = U * (3 * _identity(U.nrows()) - U.transpose() * U) * exact(0.5)
        U = arb_mat(U.nrows(), U.ncols(), [u.mid() for u in U.entries()])
    return U


@dataclass(frozen=True)
class _Dimension:
    """Two matrices A, B of one dimension, each with the eigenvalues of A°, the diagonal of the other's matrix in its
    eigenvectors, and bounds on ‖A°‖ and ‖A − A°‖."""

    values: tuple[list[Any], list[Any]]
    seen: tuple[list[Any], list[Any]]
    norms: tuple[Any, Any]
    errors: tuple[Any, Any]

    @classmethod
    def of(cls, blocks: list[tuple[Any, Any]]) -> _Dimension:
        """From the blocks of A and B."""
        values: Any = ([], [])
        seen: Any = ([], [])
        norms, errors = [exact(0.0)] * 2, [exact(0.0)] * 2
        for pair in blocks:
            spectra = [_Eigenvectors.of(A) for A in pair]
            for which, of in enumerate(spectra):
                values[which].extend(of.values)
                seen[which].extend(of.seen(spectra[1 - which], pair[1 - which]))
                norms[which] = norms[which].max(of.norm)
                errors[which] = errors[which].max(of.error)
        return cls(values, seen, (norms[0], norms[1]), (errors[0], errors[1]))


def _products_kl(sides: list[_Dimension], noise: Any) -> Any:
    """The larger of KL(N(0, ⊗A_d + noise I)‖N(0, ⊗B_d + noise I)) and its reverse.

    Products of A° = OΛOᵀ in their place: the divergence of these from their eigenvalues and from the diagonal of one
    in the eigenvectors of the other, then as for interpolation, ‖⊗A − ⊗A°‖ ≤ Π(‖A°‖ + ‖F‖) − Π‖A°‖ (N-hilbert-nodes).
    """
    eigenvalues = [_outer_product([side.values[which] for side in sides]) for which in (0, 1)]
    size, parts, moved = len(eigenvalues[0]), [], exact(0.0)
    logs = sum((((b + noise) / (a + noise)).log() for a, b in zip(*eigenvalues, strict=True)), exact(0.0))
    for which, sign_of_logs in ((1, 1), (0, -1)):
        seen = _outer_product([side.seen[which] for side in sides])
        pairs = zip(seen, eigenvalues[which], strict=True)
        parts.append((sum(((q - b) / (b + noise) for q, b in pairs), exact(0.0)) + sign_of_logs * logs) / 2)
        norm = larger = exact(1.0)
        for side in sides:
            norm, larger = norm * side.norms[which], larger * (side.norms[which] + side.errors[which])
        moved = moved.max(larger - norm)
    value = parts[0].max(parts[1])
    return value + _remainder(exact(size), size, value, moved / noise)


def _both_ways(size: int, A: list[Any], B: list[Any]) -> list[Any]:
    """KL(N(0, A)‖N(0, B)) and KL(N(0, B)‖N(0, A)), matrices by rows."""
    from flint import arb, arb_mat

    first, second = arb_mat(size, size, A), arb_mat(size, size, B)
    try:
        there, back = second.solve(first), first.solve(second)
    except ZeroDivisionError:  # not enough bits to tell the matrix from a singular one
        return [arb("nan"), arb("nan")]
    logs = second.det().log() - first.det().log()
    traces = [sum((A[i, i] for i in range(size)), arb(0)) for A in (there, back)]
    return [(traces[0] - size + logs) / 2, (traces[1] - size - logs) / 2]


def ctx_bits() -> int:
    """Arb's precision now."""
    from flint import ctx

    return int(ctx.prec)


def _derivative(p: int, q: int, u: Any) -> Any:
    """k^(q)(u), u ≥ 0, of the Matérn kernel with ν = p − ½ in units of ℓ/√(2ν)."""
    coefficients = {1: [3], 2: [3, 3], 3: [3, 3, 1]}[p]  # three times the polynomial
    for _ in range(q):
        slope = [*[i * a for i, a in enumerate(coefficients)][1:], 0]
        coefficients = [b - a for a, b in zip(coefficients, slope, strict=True)]
    total = exact(0.0)
    for a in reversed(coefficients):
        total = total * u + a
    return total * (-u).exp() / 3


def _outer_product(lists: list[list[Any]]) -> list[Any]:
    """All products of one number from each list."""
    result = lists[0]
    for more in lists[1:]:
        result = [a * b for a in result for b in more]
    return result


def _lobatto(r: int) -> list[Any]:
    """Balls of Lobatto's nodes: (1 − x²)P'_{r−1}(x)/(r − 1) = P_{r−2} − xP_{r−1} changes its sign inside each."""
    from flint import arb

    n = r - 1

    def value(x: Any) -> Any:
        return x.legendre_p(n - 1) - x * x.legendre_p(n)

    nodes = [arb(-1)]
    for guess in dirichlet.lobatto(r)[1:-1].tolist():
        x = exact(guess)
        for _ in range(max(2, ctx_bits().bit_length() - 4)):
            x = (x + value(x) / (r * x.legendre_p(n))).mid()
        radius = arb(2) ** (40 - ctx_bits())
        while not value(x - radius) * value(x + radius) < 0:
            radius *= 4
            if not radius < exact(1e-6):
                raise NotConverged(f"expected a sign change near the node {guess}, found none")
        nodes.append(arb(x, radius))
    nodes.append(arb(1))
    return nodes
