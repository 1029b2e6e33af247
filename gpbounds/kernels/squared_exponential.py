"""The squared exponential (RBF, Gaussian) kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, Float, namespace
from gpbounds.kernels import errors, pairs
from gpbounds.kernels.stationary import Stationary, pull_sums
from gpbounds.linalg.products import product
from gpbounds.numerics.pairs import Pair, exp

CLOSE = 100.0
"""Largest sum of two squared distances from the middle, in lengthscales, for which a matrix product gives log k: its
terms are at most as large, so that rounding changes k by less than 1e-13 of itself."""


@dataclass(frozen=True, eq=False)
class SquaredExponential(Stationary, facts_hold=True):
    """k(x, x') = variance · exp(-r²/2), r² = Σ_d (x_d - x'_d)²/lengthscale_d².

    Parameters
    ----------
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        In the units of x.

    Raises
    ------
    ValueError
        for a variance or lengthscale that is not positive and finite.

    >>> SquaredExponential(variance=2.0, lengthscale=0.5)([[0.0], [0.5]]).round(4)
    array([[2.    , 1.2131],
           [1.2131, 2.    ]])
    """

    def correlation(self, squared: Array) -> Array:
        """exp(-r²/2)."""
        return namespace(squared).exp(-0.5 * squared)

    @property
    def formula(self) -> str:
        return "variance * exp(-0.5 * s)"

    @property
    def slope_formula(self) -> str:
        return "k"

    def covariance(self, squared: Array) -> Array:
        squared *= -0.5
        K = namespace(squared).exp(squared, out=squared)
        K *= self.variance
        return K

    def fill_products(self, X1: Array, X2: Array, out: Array) -> Array:
        """By log k = x·z − |x|²/2 − |z|²/2 + log variance, where all points are close to their middle."""
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        if namespace(left) is not np or left.dtype != np.float64 or not left.size:
            return self.fill(X1, X2, out)
        middle = right.mean(axis=0)
        weights = self._weights(left.shape[1])
        x, z = (left - middle) * weights, (right - middle) * weights
        to_x, to_z = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", z, z)
        if not float(to_x.max()) + float(to_z.max()) <= CLOSE:
            return self.fill(X1, X2, out)
        rows = np.concatenate([x, to_x[:, None], np.ones((x.shape[0], 1))], axis=1)
        columns = np.concatenate(
            [z, np.full((z.shape[0], 1), -0.5), (math.log(self.variance) - 0.5 * to_z)[:, None]], axis=1
        )
        return np.exp(product(rows, columns.T, out), out=out)

    def products_error(self, dim: int) -> float:
        """The rounding of dim + 2 terms with Σ|terms| ≤ `CLOSE` + |log variance|, and of their factors."""
        return (dim + 4) * EPS * (CLOSE + abs(math.log(self.variance)))

    in_pairs = True

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        squared = pairs.squared_distances(X1, X2, self.lengthscales(X1.shape[-1]))
        return pairs.times(exp((-0.5 * squared[0], -0.5 * squared[1])), self.variance)

    def pair_error(self, reach: Float) -> float:
        """N-pairs."""
        c = 32.0 + 6.0 * len(reach)
        return self.variance * (1.05 * pairs.U2 * ((c + 8.0) / math.e + 38.0) + pairs.TINY)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """From the error κ = (s/2)(D + 9)u + 16u of log k, as |d log k/d log s| = s/2."""
        rounded = 0.5 * self._squared(X) * (X.shape[1] + 9.0) + 2 * errors.EXP_ULPS + 8.0
        return errors.of_logarithms(self.variance, K, 1.01 * errors.U * rounded)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float]:
        return self._proved(1.02 * errors.U * ((X.shape[1] + 9.0) / math.e + 2 * errors.EXP_ULPS + 8.0))

    def bend(self, step: float) -> float:
        """√k(0)·step²/8, k(0) = 3v/ℓ⁴."""
        ratio = step / float(self.lengthscales(1)[0])
        return math.sqrt(3.0 * self.variance) * ratio**2 / 8.0

    def slope(self, squared: Array) -> Array:
        """−2 dρ/d(r²) = ρ."""
        return self.correlation(squared)

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        cotangent *= self(X1, X2) if value is None else value
        return self._pulled(self._in_powers(X1, "X1"), self._in_powers(X2, "X2"), cotangent, float(cotangent.sum()))

    def pull_rows(
        self, X1: Array, X2: Array, Y: Array, weights: Array, a: Array, b: Array, value: Array
    ) -> tuple[Float, Array]:
        Y *= value
        sums = pull_sums(self._in_powers(X1, "X1"), self._in_powers(X2, "X2"), Y, weights, value, a, b)
        return self._in_units(*sums)

    def pull_both(self, X1: Array, X2: Array, cotangent: Array, value: Array) -> tuple[Float, Array, Array]:
        cotangent *= value
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        parameters, moved = self._pulled(left, right, cotangent, float(cotangent.sum()))
        _, back = self._pulled(right, left, cotangent.T, 0.0)
        return parameters, moved, back
