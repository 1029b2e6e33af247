"""Random Fourier features with frequencies drawn by an upper bound on their ridge leverage."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank.features.fourier import CosineSine
from gpbounds.lowrank.leverage import LeverageDensity, leverage_density
from gpbounds.validation import count, positive, scalar


class LeverageFourierFeatures(CosineSine):
    """Weighted Fourier features, which draw frequencies of large ridge leverage more often.

    φ(x) = √(v/m) [√w_k cos ω_kᵀx, √w_k sin ω_kᵀx], k = 1 … m = rank/2, ω = η/ℓ, η from τ̃/s̃ and w = p s̃/τ̃: ΞΞᵀ is
    an unbiased estimate of K (L-24).  τ̃ bounds the ridge leverage of N data of range at most W_j in dimension j
    (L-23, :func:`~gpbounds.lowrank.leverage.leverage_density`), so that the number of frequencies that a target KL
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
        if not isinstance(kernel, SquaredExponential):
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
