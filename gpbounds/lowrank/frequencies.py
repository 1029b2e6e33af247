"""The number of random frequencies for a KL divergence, from the mass s̃ of their density and the effective dimension.

Frequencies η_1 … η_m iid ~ τ̃/s̃ with τ̃ ≥ τ_λ, weights w_k = p(η_k)s̃/τ̃(η_k), Σ = (1/m)Σ_k w_k Re z_k z_k*; λ is the noise
over the kernel's variance, s_λ = tr K(K + λI)⁻¹.  N, D and the data enter only through s̃ and s_λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_points, kind_of_caller
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank.approximation import kappa, kappa_inverse
from gpbounds.numerics.search import least
from gpbounds.validation import count, generator, positive, within_memory

GAPS = 1.0 - np.geomspace(1e-4, 0.95, 192)
"""Values of Δ that :func:`weighted_kl` tries; each gives a valid bound."""

ROUNDING = 5e-13
"""Relative rounding error of a failure probability and of a number of frequencies; both are rounded up by it."""


def lower_tail(x: Float) -> Any:
    """(e^x − 1)/(e^{2x} − 2x − 1), about e^{−x}; infinite for x < 0.1, where it is vacuous."""
    safe = np.maximum(x, 0.1)
    ratio = np.exp(-safe) * -np.expm1(-safe) / (-np.expm1(-2.0 * safe) - 2.0 * safe * np.exp(-2.0 * safe))
    return np.where(x < 0.1, np.inf, ratio)


def weighted_kl(m: Float, total: float, dimension: float, delta: float) -> Any:
    """A bound on KL(exact‖features) for each number m of frequencies, with probability at least 1 − δ (N-rff).

    For every Δ in (0, 1) with δ₂ = δ − s_λ (e^x − 1)/(e^{2x} − 2x − 1) > 0, x = mΔ²/(2s̃):

        KL ≤ (κ(Δ)/Δ²)·min{u²/δ₂, (u + √(2ℓ(s̃ + 2bu)/m) + bℓ/(3m))²},
        u² = s̃s_λ/m,  b² = s̃² + s_λ,  ℓ = log(1/δ₂).

    The result is the least value over a grid of Δ.  It depends on ε as L-28 does, with smaller constants, without
    ‖K‖ ≥ λ, and with log(1/δ) where L-28 has 1/δ.  It is infinite if m is too small for every Δ.

    The proof is that of N-rff.
    """
    return _over_gaps(m, total, dimension, delta).min(axis=-1)


def best_gap(m: float, total: float, dimension: float, delta: float) -> float:
    """The Δ of the grid with the least bound at m frequencies."""
    return float(GAPS[int(np.argmin(_over_gaps(np.asarray(m), total, dimension, delta)))])


def _over_gaps(m: Float, total: float, dimension: float, delta: float) -> Any:
    """The bound of :func:`weighted_kl` for each number of frequencies and each Δ of the grid."""
    m = np.asarray(m, dtype=np.float64)[..., None]
    with np.errstate(over="ignore"):
        failed = dimension * lower_tail(m * GAPS**2 / (2.0 * total)) * (1.0 + ROUNDING)
    remaining = delta - failed  # may cancel: rounded down
    valid = remaining > 0.0
    remaining = np.where(valid, remaining, 0.5)
    mean = total * dimension / m
    nats, top = -np.log(remaining), math.hypot(total, math.sqrt(dimension))
    with np.errstate(over="ignore"):
        norm = np.sqrt(mean) + np.sqrt(2.0 * nats * (total + 2.0 * top * np.sqrt(mean)) / m) + top * nats / (3.0 * m)
        value = kappa(GAPS) / GAPS**2 * np.minimum(mean / remaining, norm * norm)
    return np.where(valid, value, np.inf)


def sharpest(total: float, dimension: float, delta: float, target: float) -> float:
    """The least m with :func:`weighted_kl` <= target; exact up to 2^53, to 16 digits beyond."""

    def enough(m: int) -> bool:
        return bool(weighted_kl(np.asarray(float(m)), total, dimension, delta) <= target)

    m_least = least(enough, 1, share=2.0**-52)
    assert m_least is not None  # the bound falls to 0
    return float(m_least)


def _whole(m: float) -> float:
    return float(math.ceil(m * (1.0 + ROUNDING))) if m < math.inf else m


def spectral(total: float, dimension: float, delta: float, eps: float) -> float:
    """m = (8/3)Δ⁻² s̃ log((16s_λ + 8)/δ), Δ = min(κ⁻¹(ε), ½): KL ≤ εN by a Δ-spectral approximation (L-21, L-27)."""
    gap = min(float(kappa_inverse(eps)), 0.5)
    return _whole(8.0 / 3.0 / gap**2 * total * math.log((16.0 * dimension + 8.0) / delta))


def frobenius(total: float, dimension: float, delta: float, target: float) -> float:
    """m = max{(32/3)s̃ log((32s_λ + 16)/δ), 8κ(½)·s̃s_λ/(δεN)}: KL ≤ εN by the Frobenius norm (L-28)."""
    half = 32.0 / 3.0 * total * math.log((32.0 * dimension + 16.0) / delta)
    return _whole(max(half, 8.0 * float(kappa(0.5)) * total / delta * dimension / target))


# An upper bound on the ridge leverage of a frequency for squared exponential kernels, and the density it defines.
#
# Frequencies are in cycles: k(x, x') = exp(−2π²|x − x'|²) = E cos 2πηᵀ(x − x') with η ~ p = N(0, I_D).  Every squared
# exponential kernel has this form after x_j → x_j/(2π ℓ_j), with noise/variance as the noise.

_SHELLS = 48
"""Number of spherical shells on which the density is constant."""

LARGEST = 1e100
"""Largest allowed width and N·variance/noise; the squares of larger numbers could overflow."""

LEVERAGE_ROUNDING = 1e-10
"""Heights are increased by this relative amount, which exceeds their rounding error."""


def scaled_widths(kernel: SquaredExponential, width: ArrayLike) -> Float:
    """Ranges of the scaled inputs x_j/(2π ℓ_j) from the input ranges ``width``: one per dimension, or one for all.

    >>> scaled_widths(SquaredExponential(lengthscale=[1.0, 2.0]), 2 * np.pi).tolist()
    [1.0, 0.5]
    """
    widths = positive("width", width)
    if widths.ndim > 1 or widths.size == 0:
        raise ValueError(f"width: expected a number or one per dimension, got shape {widths.shape}")
    dim = widths.size if widths.ndim and not (widths.size == 1 and kernel.dim) else kernel.dim or 1
    return np.broadcast_to(widths, (dim,)) / (2.0 * np.pi * kernel.lengthscales(dim))


def _checked(widths: ArrayLike, ratio: float) -> tuple[Float, float]:
    checked = np.atleast_1d(positive("widths", widths))
    number = positive("ratio", ratio)
    if checked.ndim != 1 or checked.size == 0:
        raise ValueError(f"widths: expected one per dimension, got shape {checked.shape}")
    if number.ndim:
        raise ValueError(f"ratio: expected one number, got shape {number.shape}")
    if (checked > LARGEST).any():
        raise ValueError(f"widths: expected at most {LARGEST:g}, got {checked.max():g}")
    if number > LARGEST:
        raise ValueError(f"ratio: expected N·variance/noise <= {LARGEST:g}, got {float(number)}")
    return checked, float(number)


def grid(widths: Float, ratio: float, farthest: float) -> tuple[Float, Float]:
    """The values of A and h to try for frequencies up to ``farthest``; each pair gives a bound."""
    widest = 10.0 + farthest * (1.0 + float(widths.max()))
    deepest = 1.0 + 1.2 * math.sqrt(max(math.log(ratio * widths.size**2), 0.0))
    return np.geomspace(1e-2, widest * widest, 96), np.linspace(0.25, deepest, 64)


def _tables(widths: Float, ratio: float, farthest: float) -> tuple[Float, Float, Float]:
    """A on its grid, log Π_j E(W'_j − |t|)₊, and log of (1 − Π_j (1 − d_j))², both over the grid (A, h)."""
    from scipy.special import erf, ndtr

    values, h = grid(widths, ratio, farthest)
    A = values[:, None]
    s = np.sqrt(A + 0.5) / (2.0 * np.pi)
    spread = np.sqrt(A / 2.0) / np.pi
    overlap, inside = np.zeros((A.size, h.size)), np.zeros((A.size, h.size))
    for width, times in zip(*np.unique(widths, return_counts=True), strict=True):
        wide = (width + 2.0 * h * s) / spread
        mean = wide * erf(wide / math.sqrt(2.0)) + math.sqrt(2.0 / math.pi) * np.expm1(-0.5 * wide * wide)
        overlap += times * np.log(spread * mean)
        inside += times * np.log1p(-(ndtr(-h) + ndtr(-h - width / s)))
    return values, overlap, 2.0 * np.log(-np.expm1(inside))


def _log_bounds(widths: Float, ratio: float, inner: Float, outer: Float) -> Float:
    """log of a bound on τ(η) for inner <= |η| <= outer, for each entry: the least over the grid."""
    return _least_over_grid(widths, ratio, inner, outer)[0]


def _least_over_grid(
    widths: Float, ratio: float, inner: Float, outer: Float
) -> tuple[Float, list[tuple[float, float]]]:
    """The bounds of :func:`_log_bounds`, and the pair (A, h) of the grid that gives each."""
    farthest = float(outer.max(initial=1.0))
    A, overlap, missed = _tables(widths, ratio, farthest)
    h = grid(widths, ratio, farthest)[1]
    gauss = math.log(ratio) - 0.5 * widths.size * math.log(2.0 * math.pi) - 0.5 * inner * inner
    best, pairs = np.empty(outer.size), []
    for i, (radius, level) in enumerate(zip(outer, gauss, strict=True)):
        bounds = np.logaddexp(overlap + (radius * radius / (4.0 * A))[:, None], missed + level)
        k, j = np.unravel_index(int(np.argmin(bounds)), bounds.shape)
        best[i] = bounds[k, j]
        pairs.append((float(A[k]), float(h[j])))
    return np.minimum(best, gauss) + math.log1p(LEVERAGE_ROUNDING), pairs


@kind_of_caller
def leverage_bound(eta: ArrayLike, widths: ArrayLike, ratio: float) -> Float:
    """A bound on the ridge leverage τ(η) = p(η) z(η)*(K + λI)⁻¹z(η) that needs only the ranges of the data.

    z(η)_i = e^{−2πi ηᵀx_i}, K = k(X, X), λ > 0, n = N/λ.  With W_j at least the range of the data in dimension j, for
    every A > 0 and h > 0, s² = (A + ½)/(4π²), W'_j = W_j + 2hs, t ~ N(0, A/(2π²)):

        τ(η) ≤ e^{|η|²/(4A)} Π_j E(W'_j − |t|)₊ + n p(η) (1 − Π_j (1 − Φc(h) − Φc(h + W_j/s)))²,   τ(η) ≤ n p(η).

    The function returns the least value over a grid of (A, h).  L-23; the mean overlap E(W' − |t|)₊ ≤ W' and the
    product instead of the sum Σ_j 2Φc(h) make it sharper than the ledger's form (N-shell).

    The proofs are those of L-23 and N-shell.

    Parameters
    ----------
    eta : array (n, D)
        Frequencies in cycles per unit of the scaled inputs.
    widths : array (D,)
        Ranges of the scaled inputs x_j/(2π ℓ_j).
    ratio : float
        n = N·variance/noise.

    Raises
    ------
    ValueError
        for a width or ratio that is not positive or beyond 1e100, or frequencies of another dimension.

    >>> leverage_bound([[0.0], [2.0], [9.0]], [1.0], 1e6).round(6).tolist()
    [1.797823, 3.51671, 0.0]
    """
    ranges, number = _checked(widths, ratio)
    with np.errstate(over="ignore"):
        radii = np.sqrt((as_points(eta, "eta", dim=ranges.size) ** 2).sum(axis=1))
    radii = np.minimum(radii, 1e150)  # where the bound is 0 already
    return np.exp(_log_bounds(ranges, number, radii, radii))


@dataclass(frozen=True, eq=False)
class LeverageDensity:
    """An upper bound τ̃ on the ridge leverage with a known integral, and exact samples from τ̃/s̃.

    τ̃(η) is constant on spherical shells, where it is the bound of :func:`leverage_bound`, and n p(η) beyond the last:

        τ(η) ≤ τ̃(η),   s̃ = ∫τ̃ = Σ_k height_k·volume_k + n P(|η| > radius)   (L-21, L-23, N-shell).

    Without shells τ̃ = n p, s̃ = n: classical random Fourier features.  Made by :func:`leverage_density`.

    Attributes
    ----------
    widths : array (D,)
        Ranges of the scaled inputs for which τ ≤ τ̃.
    ratio : float
        n = N·variance/noise.
    radii : array (S + 1,)
        Radii of the shells, from 0 on.
    log_heights : array (S,)
        log τ̃ on each shell.
    masses : array (S + 1,)
        Integrals of τ̃ over each shell, and beyond the last shell.
    pairs : tuple of S pairs (A, h)
        Where the bound of N-shell is the height of the shell.
    """

    widths: Float
    ratio: float
    radii: Float
    log_heights: Float
    masses: Float = field(repr=False)
    pairs: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    @property
    def dim(self) -> int:
        """Number of dimensions D."""
        return self.widths.size

    @property
    def total(self) -> float:
        """s̃ = ∫τ̃, at most ``ratio``."""
        return float(self.masses.sum())

    def log_density(self, eta: ArrayLike) -> Float:
        """log τ̃ (not normalised) at frequencies of shape (n, D)."""
        points = as_points(eta, "eta", dim=self.dim)
        with np.errstate(over="ignore"):
            squared = (points**2).sum(axis=1)
        gauss = math.log(self.ratio) - 0.5 * (self.dim * math.log(2.0 * math.pi) + squared)
        shell = np.maximum(np.searchsorted(self.radii, np.sqrt(squared), side="left") - 1, 0)
        capped = np.append(self.log_heights, 0.0)[np.minimum(shell, self.log_heights.size)]
        return np.where(shell < self.log_heights.size, capped, gauss)

    def density(self, eta: ArrayLike) -> Float:
        """τ̃ (not normalised) at frequencies of shape (n, D)."""
        return np.exp(self.log_density(eta))

    def weights(self, eta: ArrayLike) -> Float:
        """Importance weights p(η)·s̃/τ̃(η) of frequencies drawn by :meth:`sample`; their mean is 1."""
        points = as_points(eta, "eta", dim=self.dim)
        with np.errstate(over="ignore"):
            log_p = -0.5 * (self.dim * math.log(2.0 * math.pi) + (points**2).sum(axis=1))
        beyond = np.isneginf(log_p)  # of all shells, where τ̃ = n p
        log_p, log_density = (np.where(beyond, 0.0, part) for part in (log_p, self.log_density(points)))
        weights = np.exp(log_p + math.log(self.total) - log_density)
        return np.where(beyond, self.total / self.ratio, weights)

    def sample(self, m: int, rng: np.random.Generator | int) -> Float:
        """``m`` independent frequencies from τ̃/s̃, shape (m, D): exact, O(D) each.

        The shell is drawn with probability proportional to its mass.  The radius is drawn by inversion: r^D is uniform
        in a shell, and χ² beyond the last one.  The direction is uniform.
        """
        with within_memory("m"):
            return self._drawn(count("m", m), generator(rng))

    def _drawn(self, m: int, rng: np.random.Generator) -> Float:
        from scipy.special import gammaincc, gammainccinv

        shell = np.minimum(
            np.searchsorted(np.cumsum(self.masses) / self.total, rng.random(m), side="right"), self.masses.size - 1
        )
        u = 1.0 - rng.random(m)  # in (0, 1]
        half, beyond = 0.5 * self.dim, shell == self.log_heights.size
        start = self.radii[-1]
        tail = gammaincc(half, 0.5 * start * start)
        radius = np.sqrt(2.0 * gammainccinv(half, u * tail))
        if self.log_heights.size:
            outer = self.radii[np.minimum(shell, self.log_heights.size - 1) + 1]
            hollow = (self.radii[np.minimum(shell, self.log_heights.size - 1)] / outer) ** self.dim
            radius = np.where(beyond, radius, outer * (hollow + u * (1.0 - hollow)) ** (1.0 / self.dim))
        direction = rng.standard_normal((m, self.dim))
        return direction * (radius / np.sqrt((direction**2).sum(axis=1)))[:, None]


def leverage_density(widths: ArrayLike, ratio: float) -> LeverageDensity:
    """The density proportional to a bound on the ridge leverage, for data of the given ranges.

    The number of shells minimises s̃; if no shells give less than n = ``ratio``, there are none and s̃ = n.

    Parameters
    ----------
    widths : array (D,)
        Upper bounds on the ranges of the scaled inputs x_j/(2π ℓ_j); the bound does not depend on their positions.
    ratio : float
        n = N·variance/noise.

    Raises
    ------
    ValueError
        for a width or ratio that is not positive or beyond 1e100.

    >>> density = leverage_density([1.0], 1e6)
    >>> round(density.total, 2)
    32.21
    >>> leverage_density([50.0], 10.0).total  # n is smaller: classical features
    10.0
    """
    from scipy.special import gammaincc, gammainccinv, gammaln

    ranges, number = _checked(widths, ratio)
    half = 0.5 * ranges.size
    farthest = math.sqrt(2.0 * gammainccinv(half, min(1e-3 / number, 0.5)))
    radii = np.linspace(0.0, farthest, _SHELLS + 1)
    log_heights, pairs = _least_over_grid(ranges, number, radii[:-1], radii[1:])
    # volume of the shell: π^(D/2)/Γ(D/2 + 1) (r₁^D − r₀^D)
    hollow = (radii[:-1] / radii[1:]) ** ranges.size
    volumes = half * math.log(math.pi) - gammaln(half + 1.0) + ranges.size * np.log(radii[1:]) + np.log1p(-hollow)
    with np.errstate(over="ignore"):
        shells = np.exp(log_heights + volumes)
    beyond = number * gammaincc(half, 0.5 * radii * radii)
    used = int(np.argmin(np.concatenate([[0.0], np.cumsum(shells)]) + beyond))
    return LeverageDensity(
        widths=ranges,
        ratio=number,
        radii=radii[: used + 1],
        log_heights=log_heights[:used],
        masses=np.append(shells[:used], beyond[used]),
        pairs=tuple(pairs[:used]),
    )
