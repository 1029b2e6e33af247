"""How much one frequency matters: a bound on the ridge leverage of squared exponential kernels, and its density.

Frequencies are in cycles: k(x, x') = exp(−2π²|x − x'|²) = E cos 2πηᵀ(x − x') with η ~ p = N(0, I_D).  Any squared
exponential kernel is of this form after x_j → x_j/(2π ℓ_j), with noise/variance as the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_points
from gpbounds.kernels import SquaredExponential
from gpbounds.validation import count, positive

SHELLS = 48
"""Spherical shells on which the bound is taken as constant."""

LARGEST = 1e100
"""Widths and N·variance/noise beyond this are refused: their squares would overflow."""

ROUNDING = 1e-10
"""Relative amount by which heights are raised; their rounding error is below it."""


def scaled_widths(kernel: SquaredExponential, width: ArrayLike) -> Float:
    """Ranges of the scaled inputs x_j/(2π ℓ_j) from ``width``, those of the inputs: one per dimension, or one for all.

    >>> scaled_widths(SquaredExponential(lengthscale=[1.0, 2.0]), 2 * np.pi).tolist()
    [1.0, 0.5]
    """
    sides = positive("width", width)
    if sides.ndim > 1 or sides.size == 0:
        raise ValueError(f"width: expected a number or one per dimension, got shape {sides.shape}")
    dim = sides.size if sides.ndim and not (sides.size == 1 and kernel.dim) else kernel.dim or 1
    return np.broadcast_to(sides, (dim,)) / (2.0 * np.pi * kernel.lengthscales(dim))


def _checked(widths: ArrayLike, ratio: float) -> tuple[Float, float]:
    sides = np.atleast_1d(positive("widths", widths))
    number = positive("ratio", ratio)
    if sides.ndim != 1 or sides.size == 0:
        raise ValueError(f"widths: expected one per dimension, got shape {sides.shape}")
    if number.ndim:
        raise ValueError(f"ratio: expected one number, got shape {number.shape}")
    if (sides > LARGEST).any():
        raise ValueError(f"widths: expected at most {LARGEST:g}, got {sides.max():g}")
    if number > LARGEST:
        raise ValueError(f"ratio: expected N·variance/noise <= {LARGEST:g}, got {float(number)}")
    return sides, float(number)


def grid(sides: Float, ratio: float, farthest: float) -> tuple[Float, Float]:
    """The values of A and of h that are tried, for frequencies up to ``farthest``; each pair gives a bound."""
    widest = 10.0 + farthest * (1.0 + float(sides.max()))
    deepest = 1.0 + 1.2 * math.sqrt(max(math.log(ratio * sides.size**2), 0.0))
    return np.geomspace(1e-2, widest * widest, 96), np.linspace(0.25, deepest, 64)


def _tables(sides: Float, ratio: float, farthest: float) -> tuple[Float, Float, Float]:
    """A on its grid, log Π_j E(W'_j − |t|)₊, and log of (1 − Π_j (1 − d_j))², both over the grid (A, h)."""
    from scipy.special import erf, ndtr

    values, h = grid(sides, ratio, farthest)
    A = values[:, None]
    s = np.sqrt(A + 0.5) / (2.0 * np.pi)
    spread = np.sqrt(A / 2.0) / np.pi
    overlap, inside = np.zeros((A.size, h.size)), np.zeros((A.size, h.size))
    for side, times in zip(*np.unique(sides, return_counts=True), strict=True):
        wide = (side + 2.0 * h * s) / spread
        mean = wide * erf(wide / math.sqrt(2.0)) + math.sqrt(2.0 / math.pi) * np.expm1(-0.5 * wide * wide)
        overlap += times * np.log(spread * mean)
        inside += times * np.log1p(-(ndtr(-h) + ndtr(-h - side / s)))
    return values, overlap, 2.0 * np.log(-np.expm1(inside))


def _log_bounds(sides: Float, ratio: float, inner: Float, outer: Float) -> Float:
    """log of a bound on τ(η) for inner <= |η| <= outer, entry by entry, the least over the grid."""
    A, overlap, missed = _tables(sides, ratio, float(outer.max(initial=1.0)))
    gauss = math.log(ratio) - 0.5 * sides.size * math.log(2.0 * math.pi) - 0.5 * inner * inner
    best = np.empty(outer.size)
    for i, (radius, level) in enumerate(zip(outer, gauss, strict=True)):
        best[i] = np.logaddexp(overlap + (radius * radius / (4.0 * A))[:, None], missed + level).min()
    return np.minimum(best, gauss) + math.log1p(ROUNDING)


def leverage_bound(eta: ArrayLike, widths: ArrayLike, ratio: float) -> Float:
    """A bound on the ridge leverage τ(η) = p(η) z(η)*(K + λI)⁻¹z(η) that needs only the ranges of the data.

    z(η)_i = e^{−2πi ηᵀx_i}, K = k(X, X), λ > 0, n = N/λ.  With W_j at least the range of the data in dimension j, for
    every A > 0 and h > 0, s² = (A + ½)/(4π²), W'_j = W_j + 2hs, t ~ N(0, A/(2π²)):

        τ(η) ≤ e^{|η|²/(4A)} Π_j E(W'_j − |t|)₊ + n p(η) (1 − Π_j (1 − Φc(h) − Φc(h + W_j/s)))²,   τ(η) ≤ n p(η).

    The least over a grid of (A, h) is returned.  L-23; the mean overlap E(W' − |t|)₊ ≤ W' and the product in place
    of the sum Σ_j 2Φc(h) are sharper than the entry (N-shell).

    Proof.  τ(η) = min_f ‖f‖²_H + λ⁻¹Σ_i |f(x_i) − √p(η) e^{−2πi ηᵀx_i}|².  Take f = √p(η) e^{−2πi ηᵀx} Π_j w_j(x_j),
    w_j the indicator of an interval of length W'_j, centred on the data, convolved with N(0, s²).  On the data
    1 − w_j is a convex even function of the distance to the centre, hence largest at the ends:
    1 − w_j ≤ Φc(h) + Φc(h + W_j/s).  That is the second term.  And ‖f‖²_H = Π_j ∫|ŵ_j(u)|² e^{η_j u + u²/2} du with
    |ŵ_j(u)|² = e^{−4π²s²u²} ∬ e^{2πiu(x−y)}, x, y in the interval: it is ∬ G(x − y),
    |G(t)| = √(π/A) e^{η_j²/(4A) − π²t²/A}, that is e^{η_j²/(4A)} times E(W'_j − |t|)₊.

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
    sides, number = _checked(widths, ratio)
    radii = np.sqrt((as_points(eta, "eta", dim=sides.size) ** 2).sum(axis=1))
    return np.exp(_log_bounds(sides, number, radii, radii))


@dataclass(frozen=True, eq=False)
class LeverageDensity:
    """An upper bound τ̃ of the ridge leverage with a known integral, and exact draws from τ̃/s̃.

    τ̃(η) is constant on spherical shells, the bound of :func:`leverage_bound` on each, and n p(η) beyond the last:

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
        Integrals of τ̃ over each shell, and over what lies beyond.
    """

    widths: Float
    ratio: float
    radii: Float
    log_heights: Float
    masses: Float = field(repr=False)

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
        log_p = -0.5 * (self.dim * math.log(2.0 * math.pi) + (points**2).sum(axis=1))
        return np.exp(log_p + math.log(self.total) - self.log_density(points))

    def sample(self, m: int, rng: np.random.Generator) -> Float:
        """``m`` independent frequencies from τ̃/s̃, shape (m, D): exact, O(D) each.

        A shell is drawn by its mass and the radius by inversion, r^D uniform inside a shell and the χ² tail beyond
        the last; the direction is uniform.
        """
        from scipy.special import gammaincc, gammainccinv

        m = count("m", m)
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

    s̃ is the smaller of what shells give and n = ``ratio``: where shells do not pay, there are none.

    Parameters
    ----------
    widths : array (D,)
        Upper bounds on the ranges of the scaled inputs x_j/(2π ℓ_j); the positions do not matter.
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

    sides, number = _checked(widths, ratio)
    half = 0.5 * sides.size
    farthest = math.sqrt(2.0 * gammainccinv(half, min(1e-3 / number, 0.5)))
    radii = np.linspace(0.0, farthest, SHELLS + 1)
    log_heights = _log_bounds(sides, number, radii[:-1], radii[1:])
    # volume of the shell: π^(D/2)/Γ(D/2 + 1) (r₁^D − r₀^D)
    hollow = (radii[:-1] / radii[1:]) ** sides.size
    volumes = half * math.log(math.pi) - gammaln(half + 1.0) + sides.size * np.log(radii[1:]) + np.log1p(-hollow)
    with np.errstate(over="ignore"):
        shells = np.exp(log_heights + volumes)
    beyond = number * gammaincc(half, 0.5 * radii * radii)
    used = int(np.argmin(np.concatenate([[0.0], np.cumsum(shells)]) + beyond))
    return LeverageDensity(
        widths=sides,
        ratio=number,
        radii=radii[: used + 1],
        log_heights=log_heights[:used],
        masses=np.append(shells[:used], beyond[used]),
    )
