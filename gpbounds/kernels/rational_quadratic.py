"""The rational quadratic kernel: a mixture of squared exponential kernels of all lengthscales."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import errors, pairs, per_dimension
from gpbounds.kernels.expressions import DISTANCE, Expression, Leaf, Scalar
from gpbounds.kernels.stationary import Stationary, squared_distances
from gpbounds.numerics.pairs import Pair, add, divide, exp, log, multiply
from gpbounds.validation import as_log_parameters, exponentials, positive, scalar

FARTHEST = 1e300
"""Largest r²; larger ones are cut to it, as 0·∞ would be NaN."""
_SHAPES = 1e-6, 1e6
"""Least and largest shape of a kernel in pairs: its values err by 6e-31 of the variance times the shape."""
_FARTHEST_PAIRS = 1e130
"""Largest scaled distance in one dimension in pairs: the kernel falls so slowly that no distance counts as 0."""


@dataclass(frozen=True, eq=False, init=False)
class RationalQuadratic(Stationary, facts_hold=True):
    """k(x, x') = variance · (1 + r²/(2 shape))^(−shape), r² = Σ_d (x_d − x'_d)²/lengthscale_d².

    It is positive semi-definite as a mixture of squared exponential kernels: with τ ~ Gamma(shape, rate shape),
    E exp(−τr²/2) = (1 + r²/(2 shape))^(−shape).  shape → ∞ gives the squared exponential kernel.

    Parameters
    ----------
    shape : float
        > 0 (other libraries call it α): the smaller, the slower correlations fall at large distances.
    variance, lengthscale : as in :class:`~gpbounds.kernels.SquaredExponential`

    Raises
    ------
    ValueError
        for a parameter that is not positive and finite.

    >>> RationalQuadratic(shape=0.5, variance=2.0)([[0.0], [1.0]]).round(4)  # 2/√2
    array([[2.    , 1.4142],
           [1.4142, 2.    ]])
    """

    shape: float = 1.0

    def __init__(self, shape: float = 1.0, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> None:
        object.__setattr__(self, "shape", scalar(positive, "shape", shape))
        object.__setattr__(self, "variance", variance)
        object.__setattr__(self, "lengthscale", lengthscale)
        self.__post_init__()

    def _ratio(self, squared: Array) -> Array:
        """r²/(2 shape)."""
        farthest = min(FARTHEST, float(np.finfo(squared.dtype).max))
        # of the array's type: beside the Python float of the largest float32, NumPy 1 returns float64
        return namespace(squared).minimum(squared, squared.dtype.type(farthest)) / (2.0 * self.shape)

    def correlation(self, squared: Array) -> Array:
        xp = namespace(squared)
        return xp.exp(-self.shape * xp.log1p(self._ratio(squared)))

    def slope(self, squared: Array) -> Array:
        """−2 dρ/d(r²) = ρ/(1 + r²/(2 shape))."""
        return self.correlation(squared) / (1.0 + self._ratio(squared))

    @property
    def formula(self) -> str:
        return f"variance * exp(-shape * log1p(fmin(s, {FARTHEST!r}) / (2.0 * shape)))"

    @property
    def slope_formula(self) -> str:
        return f"k / (1.0 + fmin(s, {FARTHEST!r}) / (2.0 * shape))"

    @property
    def expression(self) -> Expression | None:
        ratio = f"(fmin(s, {FARTHEST!r}) / (2.0 * shape))"
        in_shape = f"k * shape * ({ratio} / (1.0 + {ratio}) - log1p({ratio}))"
        scalars = Scalar("variance", self.variance, "k"), Scalar("shape", self.shape, in_shape)
        return Leaf(self.formula, self.slope_formula, scalars, DISTANCE, 1.0 / np.asarray(self.lengthscale))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("variance", "shape", *per_dimension.names("lengthscale", self.lengthscale))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.concatenate([[self.variance, self.shape], np.atleast_1d(self.lengthscale)]))

    def with_log_parameters(self, values: ArrayLike) -> RationalQuadratic:
        variance, shape, *own = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        return replace(self, shape=shape, variance=variance, lengthscale=per_dimension.joined(own, self.lengthscale))

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        squared = squared_distances(left, right, self._weights(left.shape[1]) ** 2)
        xp, ratio = namespace(left), self._ratio(squared)
        logs = xp.log1p(ratio)
        cotangent *= self.variance * xp.exp(-self.shape * logs) if value is None else value
        whole = float(cotangent.sum())
        logs -= ratio / (1.0 + ratio)
        in_shape = -self.shape * float(xp.vdot(cotangent, logs))
        ratio += 1.0
        cotangent /= ratio
        slopes, moved = self._pulled(left, right, cotangent, whole)
        return np.insert(slopes, 1, in_shape), moved

    @property
    def in_pairs(self) -> bool:
        return _SHAPES[0] <= self.shape <= _SHAPES[1]

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        lengthscales = self.lengthscales(X1.shape[-1])
        squared = pairs.squared_distances(X1, X2, lengthscales, farthest=_FARTHEST_PAIRS)
        one = np.ones_like(squared[0]), np.zeros_like(squared[0])
        logarithm = log(add(one, divide(squared, np.float64(2.0 * self.shape))))
        correlation = exp(multiply(logarithm, (np.float64(-self.shape), np.float64(0.0))))
        return pairs.times(correlation, self.variance)

    def pair_error(self, reach: Float) -> float:
        """N-pairlog."""
        c = 32.0 + 6.0 * len(reach)
        return self.variance * (1.05 * pairs.U2 * ((c + 47.0) / math.e + 58.0 * self.shape + 38.0) + pairs.TINY)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """With κ = a t/(1 + t)·(D + 14)u + a log(1 + t)·(2·(exp's ulps) + 2)u + 16u, a the shape, t = s/(2a).

        |d log k/d log s| = a t/(1 + t).
        """
        D, a, ulps = X.shape[1], self.shape, 2 * errors.EXP_ULPS
        squared = self._squared(X)
        ratio = np.minimum(squared, FARTHEST) / (2.0 * a)
        logs = a * np.log1p(ratio)
        rounded = a * ratio / (1.0 + ratio) * (D + 14.0) + logs * (ulps + 2.0) + ulps + 8.0
        cut = np.where(squared >= FARTHEST, np.inf, 0.0)
        return errors.of_logarithms(self.variance, K, 1.01 * errors.U * rounded + cut)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float]:
        D, ulps = X.shape[1], 2 * errors.EXP_ULPS
        lengths = self.lengthscales(D)
        if not 1.01 * (errors.longest(X / lengths) + errors.longest(Z / lengths)) < math.sqrt(FARTHEST):  # r² is cut
            return self._proved(math.inf)
        return self._proved(1.02 * errors.U * (D + 14.0 + (ulps + 2.0) / math.e + ulps + 8.0))

    def value_bound(self, reach: Float) -> tuple[float, float]:
        """As for other stationary kernels, plus the error of a logarithm.

        With t = r²/(2a) and L = a log(1 + t), k = v e^{−L}: |dk/d ln r²| = v a t(1 + t)^{−a−1}, whose largest value, at
        t = 1/a, is v(1 + 1/a)^{−a−1} ≤ v/e; L has a relative error of at most 8 eps beside that of r², and
        L e^{−L} ≤ 1/e.
        """
        return self._anywhere(reach, further=4.0)

    def _key(self) -> tuple[object, ...]:
        return (*super()._key(), self.shape)
