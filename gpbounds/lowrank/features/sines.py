"""Hilbert-space features: products of Dirichlet eigenfunctions of a box, with the spectral density as weights."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, Indices, namespace
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank.features.base import Features
from gpbounds.validation import each_dimension, finite, positive, whole

_MOST = 2**24
FARTHEST = 1e100
"""Half widths and their multiples have products that are doubles."""


def sides(m: ArrayLike, c: ArrayLike, half_width: ArrayLike) -> tuple[Float, Float, Float]:
    """m, c and S of every dimension, checked; there are as many dimensions as half widths."""
    widths = np.atleast_1d(positive("half_width", half_width))
    if widths.ndim > 1:
        raise ValueError(f"half_width: expected a number or one per dimension, got shape {widths.shape}")
    numbers, factors = whole("m", m), positive("c", c)
    for name, values in (("m", numbers), ("c", factors)):
        if values.ndim > 1 or values.size not in (1, widths.size):
            raise ValueError(
                f"{name}: expected a number or one for each of the {widths.size} dimension(s) of half_width, got shape "
                f"{values.shape}"
            )
    if not (factors > 1.0).all():
        raise ValueError(f"c: expected numbers above 1, as the functions vanish at ±c·half_width, got {factors.min()}")
    if not widths.size:
        raise ValueError("half_width: expected a number or one per dimension, got none")
    if not (float(factors.max()) < FARTHEST and (widths < FARTHEST).all()):
        raise ValueError(f"c, half_width: expected numbers below {FARTHEST:g}, got {factors.max():g}, {widths.max():g}")
    return np.broadcast_to(numbers, widths.shape), np.broadcast_to(factors, widths.shape), widths


def densities(kernel: Any, frequencies: Float) -> Float:
    """s(ω) of a SquaredExponential or Matern kernel at frequencies (m, D), with ∫s = (2π)^D·variance; shape (m,)."""
    dim = frequencies.shape[1]
    ells = kernel.lengthscales(dim)
    squared = ((frequencies * ells) ** 2).sum(axis=1)
    scale = kernel.variance * float(np.prod(ells)) * (2.0 * math.pi) ** (dim / 2.0)
    if has_formula(kernel, SquaredExponential):
        return scale * np.exp(-0.5 * squared)
    nu: float = kernel.nu
    constant = math.exp(math.lgamma(nu + 0.5 * dim) - math.lgamma(nu)) * nu ** (-0.5 * dim)
    return scale * constant * (1.0 + squared / (2.0 * nu)) ** -(nu + 0.5 * dim)


def products(m: ArrayLike) -> Indices:
    """All j in Π{1 … m_d}, the last coordinate fastest, shape (Πm_d, D)."""
    counts = np.atleast_1d(np.asarray(m, dtype=np.int64)).tolist()
    return np.array(list(itertools.product(*(range(1, count + 1) for count in counts))), dtype=np.int64)


class HilbertFeatures(Features):
    """Ξ with ΞΞᵀ = K̃, the Hilbert-space approximation of Solin & Särkkä with m_d functions in dimension d.

    φ_j(x) = √s(ω_j) Π_d sin(ω_{j,d}(x_d − o_d + L_d))/√L_d, ω_{j,d} = j_dπ/(2L_d), L_d = c_d S_d, for j in Π{1 … m_d},
    s the spectral density of the kernel, ∫s = (2π)^D·variance.  The box is Π[o_d − S_d, o_d + S_d]; there

        KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) ≤ hilbert_kl(kernel, N, m, c, half_width=S, noise=σ²)

    for every N inputs, and ``kl_features(K, Ξ, noise=)`` is its value at the given ones.

    Parameters
    ----------
    kernel : SquaredExponential or Matern
        Any ν; the bound is for ν = ½, 3/2 and 5/2.
    m, c : number(s), for all dimensions or one for each
        Functions per dimension, and boundary factors above 1.
    half_width : positive number(s), one per dimension
        S, in the units of x; a number means D = 1.
    centre : number(s)
        o, the middle of the box.

    Attributes
    ----------
    frequencies : array (rank, D)
        ω_j, in radians per unit of x, the last coordinate fastest.
    weights : array (rank,)
        s(ω_j).

    Raises
    ------
    ValueError
        for another kernel, numbers out of range, a rank above 2^24, or inputs outside ±c·half_width.

    >>> from gpbounds import SquaredExponential
    >>> from gpbounds.lowrank import kl_features
    >>> kernel, x = SquaredExponential(lengthscale=0.3), np.linspace(-1.0, 1.0, 50)[:, None]
    >>> Xi = HilbertFeatures(kernel, 14, 1.5, half_width=1.0).fit(x)(x)
    >>> round(kl_features(kernel(x), Xi, noise=0.1), 6)
    4.9e-05
    """

    def __init__(
        self,
        kernel: SquaredExponential | Matern,
        m: ArrayLike,
        c: ArrayLike,
        *,
        half_width: ArrayLike,
        centre: ArrayLike = 0.0,
    ) -> None:
        if not has_formula(kernel, SquaredExponential, Matern):
            raise ValueError(f"kernel: expected SquaredExponential or Matern, got {type(kernel).__name__}")
        numbers, factors, widths = sides(m, c, half_width)
        dim = widths.size
        rank = math.prod(int(n) for n in numbers)
        if rank > _MOST:
            raise ValueError(f"m: expected a product of at most {_MOST} functions, got {rank}")
        super().__init__(kernel, rank)
        self.half_width, self.c, self.m = widths, factors, numbers.astype(np.int64)
        self.centre: Float = each_dimension("centre", finite("centre", centre), dim)
        self._lengths = factors * widths
        self.indices = products(numbers)

    @property
    def frequencies(self) -> Float:
        """ω_j, shape (rank, D)."""
        return self.indices * (math.pi / (2.0 * self._lengths))

    @property
    def weights(self) -> Float:
        """s(ω_j), shape (rank,): variance·(2π)^D times the density of N(0, ℓ⁻²) or Student's with 2ν degrees."""
        return densities(self.kernel, self.frequencies)

    def _learn(self, points: Array) -> None:
        dim = self._lengths.size
        if points.shape[1] != dim:
            raise ValueError(f"X: expected {dim} column(s), one per half_width, got shape {points.shape}")

    def _write(self, points: Array, out: Array, rows: int) -> None:
        xp = namespace(points)
        columns = [xp.asarray(column - 1) for column in self.indices.T]
        amplitudes = xp.asarray(np.sqrt(self.weights / np.prod(self._lengths)))
        for start in range(0, points.shape[0], rows):
            shifted = points[start : start + rows].astype(np.float64) - xp.asarray(self.centre)
            if not bool((xp.abs(shifted) <= xp.asarray(self._lengths)).all()):
                raise ValueError(
                    f"X: expected inputs within c·half_width = {self._lengths.tolist()} of the centre, beyond which "
                    "the approximation is of no use"
                )
            values: Any = amplitudes
            for d, (count, length) in enumerate(zip(self.m.tolist(), self._lengths.tolist(), strict=True)):
                steps = xp.arange(1, count + 1) * (math.pi / (2.0 * length))
                values = values * xp.sin(steps * (shifted[:, d : d + 1] + length))[:, columns[d]]
            out[start : start + rows] = values
