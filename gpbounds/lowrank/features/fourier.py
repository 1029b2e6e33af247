"""Classical random Fourier features: a cosine and a sine for each random frequency."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, shown
from gpbounds.kernels import Matern, Periodic, RationalQuadratic, SquaredExponential, Stationary
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank.features.base import Features
from gpbounds.lowrank.frequencies import LeverageDensity, leverage_density
from gpbounds.validation import count, positive, scalar

PIECE = 2**16
"""Numbers that are computed at a time: half a megabyte, which a core's cache holds; on a GPU 256 times as many."""

_Drawable = SquaredExponential | Matern | RationalQuadratic | Periodic
"""Kernels of x − x' whose frequencies can be drawn."""


class CosineSine(Features):
    """φ(x) = [a_k cos ω_kᵀx, a_k sin ω_kᵀx], k = 1 ... m = rank/2: a frequency and an amplitude for each pair."""

    def __init__(self, kernel: Stationary | Periodic, rank: int, rng: int | np.random.Generator) -> None:
        super().__init__(kernel, rank)
        if self.rank % 2:
            near = f"{self.rank - 1} or {self.rank + 1}" if self.rank > 1 else "2"
            raise ValueError(
                f"rank: expected an even number (a cosine and a sine for each frequency), got {self.rank}; use {near}"
            )
        seed = isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0
        if not seed and not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: expected a whole number >= 0 or a Generator, got {shown(rng)}")
        self._rng = rng
        self._frequencies = self._amplitudes = np.zeros(0)

    @property
    def frequencies(self) -> Float:
        """ω, shape (rank/2, D), in radians per unit of x; available after ``fit``."""
        self._fitted()
        return self._frequencies

    @property
    def amplitudes(self) -> Float:
        """a, shape (rank/2,): √(weight·variance/m); available after ``fit``."""
        self._fitted()
        return self._amplitudes

    @abstractmethod
    def _draw(self, m: int, points: Array, rng: np.random.Generator) -> tuple[Float, Float]:
        """``m`` frequencies (m, D) for the kernel with lengthscales 1, and their weights (m,)."""

    def _learn(self, points: Array) -> None:
        m = self.rank // 2
        units = self._units(int(points.shape[1]))
        standard, weights = self._draw(m, points, np.random.default_rng(self._rng))
        with np.errstate(over="ignore"):
            self._frequencies = standard / units
        self._amplitudes = np.sqrt(weights * (self.kernel.variance / m))

    def _units(self, dim: int) -> Float:
        """The divisors of the drawn frequencies: the lengthscales, or the radii of circles of one period."""
        if isinstance(self.kernel, Periodic):
            return self.kernel.scales(dim)[1] / (2.0 * math.pi)
        return self.kernel.lengthscales(dim)

    def _write(self, points: Array, out: Array, rows: int) -> None:
        xp = namespace(points)
        far = float(xp.abs(points).max()) * float(np.abs(self._frequencies).sum(axis=1).max())
        if not far < 0.1 * np.finfo(points.dtype).max:
            raise NonFinite(
                f"expected phases ωᵀx that {points.dtype} can hold, got {far:.3g}: shift or scale the inputs, or use "
                "a longer lengthscale or a larger ν"
            )
        cosines_and_sines(points, self._frequencies, self._amplitudes, out)


def cosines_and_sines(points: Array, frequencies: Float, amplitudes: Float, out: Array) -> None:
    """Write a∘cos XΩᵀ and a∘sin XΩᵀ into the left and right half of ``out`` (n, 2m).

    With t = tan(ωᵀx/2) and q = 2a/(1 + t²):  a cos ωᵀx = q − a,  a sin ωᵀx = tq.  One tangent takes the place of two
    functions, and NumPy computes it ten times as fast as each of them on processors with AVX-512.  Errors are a few
    units in the last place of a.

    Parameters
    ----------
    points : array (n, D)
        X.
    frequencies : array (m, D)
        Ω.
    amplitudes : array (m,)
        a.
    out : array (n, 2m)

    >>> out = np.empty((1, 2))
    >>> cosines_and_sines(np.array([[np.pi / 3]]), np.array([[1.0]]), np.array([2.0]), out)
    >>> out.round(6)  # 2 cos 60° and 2 sin 60°
    array([[1.      , 1.732051]])
    """
    xp, m = namespace(points), len(frequencies)
    W, scale = (xp.asarray(values, dtype=points.dtype) for values in (0.5 * frequencies.T, amplitudes))
    rows = max(8, (PIECE if xp is np else 2**8 * PIECE) // (2 * m))
    tangents = xp.empty((min(rows, points.shape[0]), m), dtype=points.dtype)
    for start in range(0, points.shape[0], rows):
        block = points[start : start + rows]
        t = xp.matmul(block, W, out=tangents[: block.shape[0]])
        xp.tan(t, out=t)
        q, sines = out[start : start + rows, :m], out[start : start + rows, m:]
        xp.multiply(t, t, out=q)
        q += 1.0
        xp.divide(2.0 * scale, q, out=q)
        xp.multiply(t, q, out=sines)
        q -= scale


class FourierFeatures(CosineSine):
    """Random Fourier features of a kernel of x − x': ΞΞᵀ is an unbiased estimate of K.

    φ(x) = √(2v/r) [cos ω₁ᵀx, …, cos ω_{r/2}ᵀx, sin ω₁ᵀx, …, sin ω_{r/2}ᵀx], v the variance, r the rank, and

        squared exponential   ω = z/ℓ, z ~ N(0, I): the density N(0, 2Δ) of exp(−τᵀΔτ), Δ = diag(1/(2ℓ²))  (L-55)
        Matérn-ν              ω = z/ℓ·√(2ν/χ²), one χ² of 2ν degrees of freedom for all coordinates:
                              a multivariate t  (N-student)
        rational quadratic-a  ω = z/ℓ·√(τ), one τ ~ Gamma(a, rate a) for all coordinates  (N-gamma)
        periodic              ω_d = 2πj_d/p_d, j_d the difference of two independent Poisson variables of mean
                              1/(2ℓ_d²): whole multiples of the base frequency only  (N-line)

    Each entry of ΞΞᵀ is a mean of r/2 independent terms within ±v whose expectation is k(x, x'); its diagonal is v.
    The paper prints the density and the features of another kernel (L-55).

    The proofs are those of N-student, N-gamma and N-line.  With an independent χ² for each coordinate the first kernel
    would be the product of one-dimensional Matérn kernels.

    Parameters
    ----------
    kernel : SquaredExponential, Matern, RationalQuadratic or Periodic
    rank : int
        Columns of Ξ, even: two for each frequency.
    rng : int or numpy.random.Generator
        ``fit`` draws the frequencies.  A number gives the same frequencies each time; a Generator advances.

    Raises
    ------
    ValueError
        for another kernel, a rank that is odd or below 1, or a call before ``fit``.
    NonFinite
        for inputs that are not finite, or frequencies too high for float64 (Matérn with ν far below ½).

    >>> from gpbounds import SquaredExponential
    >>> features = FourierFeatures(SquaredExponential(variance=2.0), rank=10_000, rng=0).fit([[0.0], [1.0]])
    >>> Xi = features([[0.0], [1.0]])
    >>> (Xi @ Xi.T).round(2)  # k: 2, 2 exp(-1/2) = 1.21
    array([[2.  , 1.21],
           [1.21, 2.  ]])
    """

    def __init__(self, kernel: _Drawable, rank: int, rng: int | np.random.Generator) -> None:
        if not has_formula(kernel, *get_args(_Drawable)):
            raise ValueError(
                "kernel: expected SquaredExponential, Matern, RationalQuadratic or Periodic, whose frequencies have a "
                f"law that can be drawn from, got {type(kernel).__name__}"
            )
        super().__init__(kernel, rank, rng)

    def _draw(self, m: int, points: Array, rng: np.random.Generator) -> tuple[Float, Float]:
        dim = int(points.shape[1])
        if isinstance(self.kernel, Periodic):
            mean = np.broadcast_to(0.125 * self.kernel.scales(dim)[0] ** 2, (m, dim))  # 1/(2ℓ²)
            if mean.max() > 1e15:
                raise NonFinite("lengthscale: expected more than 2.3e-8, below which float64 cannot hold the lines")
            return (rng.poisson(mean) - rng.poisson(mean)).astype(np.float64), np.ones(m)
        standard = rng.standard_normal((m, dim))
        if isinstance(self.kernel, Matern):
            standard = standard * student_factor(self.kernel.nu, m, rng)[:, None]
        elif isinstance(self.kernel, RationalQuadratic):
            shape = self.kernel.shape
            standard = standard * np.sqrt(rng.standard_gamma(shape, m) / shape)[:, None]
        return standard, np.ones(m)


def student_factor(nu: float, m: int, rng: np.random.Generator) -> Float:
    """``m`` draws of √(2ν/χ²), χ² with 2ν degrees of freedom: a normal vector times it is a multivariate t.

    χ²/2 is Gamma(ν), drawn as Gamma(ν + 1)·U^(1/ν): its logarithm does not underflow for small ν.

    >>> student_factor(1e6, 2, np.random.default_rng(0)).round(2)
    array([1., 1.])
    """
    log_gamma = np.log(rng.standard_gamma(nu + 1.0, m)) + np.log(1.0 - rng.random(m)) / nu
    with np.errstate(over="ignore"):
        factor = np.exp(0.5 * (math.log(nu) - log_gamma))
    if not np.isfinite(factor).all():
        raise NonFinite(
            f"nu: expected a Matérn kernel whose frequencies are below the float64 limit, got ν = {nu:g}: use ν >= 0.01"
        )
    return factor


# Random Fourier features with frequencies drawn by an upper bound on their ridge leverage.


class LeverageFourierFeatures(CosineSine):
    """Weighted Fourier features, which draw frequencies of large ridge leverage more often.

    φ(x) = √(v/m) [√w_k cos ω_kᵀx, √w_k sin ω_kᵀx], k = 1 … m = rank/2, ω = η/ℓ, η from τ̃/s̃ and w = p s̃/τ̃: ΞΞᵀ is
    an unbiased estimate of K (L-24).  τ̃ bounds the ridge leverage of N data of range at most W_j in dimension j
    (L-23, :func:`~gpbounds.lowrank.leverage_density`), so that the number of frequencies that a target KL
    needs grows with s̃ = ∫τ̃ instead of N·v/noise as for classical features (L-21, L-27, L-28).  If no shells reduce s̃,
    then s̃ = N·v/noise, and these are classical features with weights 1.

    The guarantee holds for the fitted data; at other inputs the features are unbiased.

    Parameters
    ----------
    kernel : SquaredExponential
    rank : int
        Columns of Ξ, even: two for each frequency.
    noise : float
        σ², in squared units of y.
    N : int
        Number of data, at least the number of rows in ``fit``.
    width : float or array (D,)
        W, at least the range of the data in each dimension, in the units of x.
    rng : int or numpy.random.Generator
        ``fit`` draws the frequencies.  A number gives the same frequencies each time; a Generator advances.

    Raises
    ------
    ValueError
        for another kernel, an odd rank, data wider than ``width`` or more than N, or a call before ``fit``.
    NonFinite
        for inputs that are not finite.

    >>> from gpbounds import SquaredExponential
    >>> X = np.linspace(0.0, 1.0, 500)
    >>> # s̃, where N·v/noise is 50 000
    >>> features = LeverageFourierFeatures(SquaredExponential(), 200, noise=0.01, N=500, width=1.0, rng=0)
    >>> Xi = features.fit(X)(X)
    >>> round(features.density.total, 1), round(float(np.abs(Xi @ Xi.T - SquaredExponential()(X)).max()), 2)
    (15.8, 0.06)
    """

    def __init__(
        self,
        kernel: SquaredExponential,
        rank: int,
        *,
        noise: float,
        N: int,
        width: ArrayLike,
        rng: int | np.random.Generator,
    ) -> None:
        if not has_formula(kernel, SquaredExponential):
            raise ValueError(f"kernel: expected SquaredExponential, got {type(kernel).__name__}")
        super().__init__(kernel, rank, rng)
        self.noise, self.N = scalar(positive, "noise", noise), count("N", N)
        self.width: Float = positive("width", width)
        if self.width.ndim > 1:
            raise ValueError(f"width: expected a number or one per dimension, got shape {self.width.shape}")
        self._density: LeverageDensity | None = None

    @property
    def density(self) -> LeverageDensity:
        """τ̃, over frequencies in cycles of the inputs x_j/(2πℓ_j); its ``total`` is s̃.  Available after ``fit``."""
        self._fitted()
        assert self._density is not None
        return self._density

    @property
    def weights(self) -> Float:
        """w_k = p(η_k) s̃/τ̃(η_k), shape (rank/2,); available after ``fit``."""
        return self.amplitudes**2 * (self.rank // 2) / self.kernel.variance

    def _draw(self, m: int, points: Array, rng: np.random.Generator) -> tuple[Float, Float]:
        dim = int(points.shape[1])
        if self.width.ndim and self.width.size != dim:
            raise ValueError(f"width: expected one per column of X ({dim}), got shape {self.width.shape}")
        if points.shape[0] > self.N:
            raise ValueError(
                f"X: expected at most N = {self.N} rows, got {points.shape[0]}: create features with a larger N"
            )
        xp = namespace(points)
        ranges = np.array([float(r) for r in xp.max(points, axis=0) - xp.min(points, axis=0)])
        widths = np.broadcast_to(self.width, (dim,))
        if (ranges > widths).any():
            j = int(np.argmax(ranges > widths))
            raise ValueError(
                f"width: expected at least the range of the data, got {widths[j]:g} for column {j}, whose range is "
                f"{ranges[j]:g}"
            )
        scaled = widths / (2.0 * np.pi * self._units(dim))
        self._density = leverage_density(scaled, self.N * self.kernel.variance / self.noise)
        eta = self._density.sample(m, rng)
        return eta, self._density.weights(eta)
