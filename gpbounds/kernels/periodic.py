"""The periodic kernel: a squared exponential kernel on a circle for each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, is_cupy, namespace
from gpbounds.kernels import errors, pairs, per_dimension
from gpbounds.kernels.base import PIECE, Kernel, on_device
from gpbounds.kernels.expressions import WAVE, Expression, Leaf, Scalar
from gpbounds.numerics.pairs import Pair, divide, exp, sine_squared, whole_turns_removed
from gpbounds.validation import as_log_parameters, each_dimension, exponentials, positive, positive_each, scalar

_CIRCLES = 1e-100, 1e100
"""Least and largest lengthscale of a kernel in pairs."""
_MOST_TURNS = 1e30
"""Most periods between two points in pairs."""


@dataclass(frozen=True, eq=False, init=False)
class Periodic(Kernel):
    """k(x, x') = variance · exp(−2 Σ_d sin²(π(x_d − x'_d)/period_d)/lengthscale_d²).

    It is positive semi-definite as a squared exponential kernel of (cos, sin)(2πx_d/period_d), whose squared distances
    are 4 sin²(π(x_d − x'_d)/period_d).  Sums of squared sines over dimensions are of this form; the sine of a Euclidean
    distance in several dimensions is not, and has negative eigenvalues.

    Parameters
    ----------
    period : float or array (D,)
        > 0, in the units of x: one for all dimensions, or one for each.
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        > 0, without a unit, as it is one on circles of radius 1: one for all dimensions, or one for each.

    Raises
    ------
    ValueError
        for a parameter that is not positive and finite.

    >>> Periodic(period=2.0)([[0.0], [0.5], [2.0]]).round(4)
    array([[1.    , 0.3679, 1.    ],
           [0.3679, 1.    , 0.3679],
           [1.    , 0.3679, 1.    ]])
    """

    period: ArrayLike
    variance: float
    lengthscale: ArrayLike

    is_positive = has_one_variance = True

    def __init__(self, period: ArrayLike = 1.0, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> None:
        object.__setattr__(self, "period", positive_each("period", period))
        object.__setattr__(self, "variance", scalar(positive, "variance", variance))
        object.__setattr__(self, "lengthscale", positive_each("lengthscale", lengthscale))

    def scales(self, dim: int) -> tuple[Float, Float]:
        """2/lengthscale and period of each dimension; an error if the kernel has another number of them."""
        lengthscales = each_dimension("lengthscale", self.lengthscale, dim)
        return 2.0 / lengthscales, each_dimension("period", self.period, dim)

    def _waves(self, left: Array, right: Array) -> Iterator[tuple[Array, Array, float]]:
        """For each dimension: (x − z)/period, the same without whole periods, and 2/lengthscale."""
        xp = namespace(left)
        for d, (weight, period) in enumerate(zip(*self.scales(left.shape[1]), strict=True)):
            turns = (left[:, d, None] - right[None, :, d]) / float(period)
            yield turns, turns - xp.rint(turns), float(weight)

    def _covariance(self, left: Array, right: Array) -> Array:
        xp, total = namespace(left, right), None
        for _, turns, weight in self._waves(left, right):
            wave = xp.sin(math.pi * turns)
            wave *= weight
            wave *= wave
            total = wave if total is None else total + wave
        assert total is not None
        total *= -0.5
        K = xp.exp(total, out=total)
        K *= self.variance
        return K

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        if is_cupy(X1) and (K := on_device(self, X1, X2)) is not None:
            return K
        left = as_points(X1, "X1")
        right = left if X2 is None else as_points(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self._covariance(left, right)

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        if is_cupy(out):
            return super().fill(X1, X2, out)
        left, right = as_points(X1, "X1"), as_points(X2, "X2")
        step = max(1, PIECE // right.shape[0])
        for start in range(0, left.shape[0], step):
            out[start : start + step] = self._covariance(left[start : start + step], right)
        return out

    def diag(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X")
        self.scales(points.shape[1])  # refuses another number of dimensions
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    def lengths(self, X: Float) -> Float:
        weights, periods = self.scales(X.shape[1])
        return np.minimum(periods / (np.pi * weights), 0.25 * periods)

    @property
    def in_pairs(self) -> bool:
        lengths = np.atleast_1d(np.asarray(self.lengthscale))
        return bool((lengths >= _CIRCLES[0]).all() and (lengths <= _CIRCLES[1]).all())

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        """Each summand of the exponent is cut at `pairs.FAR`²."""
        dim, most = X1.shape[-1], pairs.FAR * pairs.FAR
        lengthscales = each_dimension("lengthscale", self.lengthscale, dim)
        _, periods = self.scales(dim)

        def term(d: int) -> Pair:
            turns = pairs.apart(X1, X2, d, float(periods[d]))
            _require_turns(float(np.abs(turns[0]).max(initial=0.0)))
            wave, scale = sine_squared(whole_turns_removed(turns)), np.float64(lengthscales[d])
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                exponent = divide(divide((2.0 * wave[0], 2.0 * wave[1]), scale), scale)
            return pairs.kept(exponent, exponent[0] < most, most)

        total = pairs.summed(X1, X2, term)
        return pairs.times(exp((-total[0], -total[1])), self.variance)

    def pair_error(self, reach: Float) -> float:
        """N-pairsine."""
        wave = (6.0 * len(reach) + 220.0) / math.e + 38.0
        return self.variance * min(1.05 * (pairs.U2 * wave + self._moved(reach)) + pairs.TINY, 1.01)

    def _moved(self, reach: Float) -> float:
        """Σ_d .86√2 π δ_d/ℓ_d, δ_d = u²(33 T_d + 33) the error of x − z in periods, T_d the most: N-pairsine."""
        weights, periods = self.scales(len(reach))
        with np.errstate(over="ignore"):
            turns = 2.0 * (reach / 4.0) / (periods / 4.0) * (1.0 + 4.0 * EPS)
            _require_turns(float(turns.max()))
            moved = float((0.5 * weights * 0.861 * math.sqrt(2.0) * math.pi * pairs.U2 * 33.0 * (turns + 1.0)).sum())
        return min(moved, 2.0)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """From the errors of log k; constants are rounded up by more than the rounding error of the bound.

        Proof.  t = (x − z)/period is off by 2.01u|t|, and subtracting whole periods is exact; sin(πt) is off by π times
        as much, and by a relative error of (2·(sine's ulps) + 3)u.  So g = 2 sin(πt)/lengthscale is off by e =
        (2/lengthscale)[2.01πu|t| + (2·ulps + 5)u|sin(πt)|], and log k = −½Σg² by Σ(|g|e + e²/2) + ½(D + 2)uΣg² and the
        rounding of exp.
        """
        log_error, total = np.zeros((len(X), len(X))), np.zeros((len(X), len(X)))
        for turns, reduced, weight in self._waves(X, X):
            sines = np.abs(np.sin(np.pi * reduced))
            error = weight * errors.U * (2.01 * np.pi * np.abs(turns) + (2 * errors.EXP_ULPS + 5.0) * sines)
            log_error += weight * sines * error + error * error
            total += (weight * sines) ** 2
        log_error = 1.02 * (log_error + errors.U * (0.5 * total * (X.shape[1] + 4.0) + 2 * errors.EXP_ULPS + 8.0))
        return errors.of_logarithms(self.variance, K, log_error)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float]:
        """|g|e^(−g²/2) ≤ e^-½, and g²e^(−g²/2) ≤ 2/e, as in `entry_errors`."""
        D, v, total = X.shape[1], self.variance, 0.0
        for d, (weight, period) in enumerate(zip(*self.scales(D), strict=True)):
            turns = (np.abs(X[:, d]).max(initial=0.0) + np.abs(Z[:, d]).max(initial=0.0)) / float(period)
            error = float(weight) * errors.U * (2.01 * math.pi * float(turns) + (2 * errors.EXP_ULPS + 5.0))
            total += math.exp(-0.5) * error + error * error
        relative = 1.03 * (total + errors.U * ((D + 4.0) / math.e + 2 * errors.EXP_ULPS + 8.0))
        return v * relative + errors.TINY * v, v

    def value_bound(self, reach: Float) -> tuple[float, float]:
        """In a box, for |t_d| ≤ 2 reach_d/p_d, t_d = (x_d − x'_d)/p_d.

        Proof.  k = v exp(−|g|²/2), g_d = (2/ℓ_d) sin(πt_d).  Subtracting whole periods is exact, so that g_d is off by
        at most e_d = (2/ℓ_d) u (2.01π|t_d| + 2·(sine's ulps) + 5), u = eps/2; the gradient of exp(−|g|²/2) has a norm
        of at most e^(−1/2), so that this moves k by .61 v|e|; |g|²/2 is summed to (D + 4)u, and s e^{−s} ≤ 1/e; exp and
        the last product add (2·(exp's ulps) + 2)u.
        """
        v, D, ulps = self.variance, reach.size, 2.0 * errors.EXP_ULPS
        weights, periods = self.scales(D)
        each = weights * errors.U * (2.01 * math.pi * (2.0 * reach / periods) + ulps + 5.0)
        return 1.01 * v * (0.61 * math.hypot(*each) + errors.U * (0.4 * (D + 4.0) + ulps + 2.0)), v

    @property
    def expression(self) -> Expression | None:
        scalars = (Scalar("variance", self.variance, "k"),)
        weights, frequencies = 2.0 / np.asarray(self.lengthscale), 1.0 / np.asarray(self.period)
        return Leaf("variance * exp(-0.5 * s)", "k", scalars, WAVE, weights, frequencies)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        own = per_dimension.names("lengthscale", self.lengthscale)
        return ("variance", *own, *per_dimension.names("period", self.period))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.concatenate([[self.variance], np.atleast_1d(self.lengthscale), np.atleast_1d(self.period)]))

    def with_log_parameters(self, values: ArrayLike) -> Periodic:
        variance, *each = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        lengths = np.size(self.lengthscale)
        return Periodic(
            per_dimension.joined(each[lengths:], self.period),
            variance,
            per_dimension.joined(each[:lengths], self.lengthscale),
        )

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = as_points(X1, "X1"), as_points(X2, "X2")
        xp, D = namespace(left, right), left.shape[1]
        cotangent *= self._covariance(left, right) if value is None else value
        _, periods = self.scales(D)
        in_lengths, in_periods, moved = np.zeros(D), np.zeros(D), xp.empty(right.shape, dtype=right.dtype)
        for d, (turns, reduced, weight) in enumerate(self._waves(left, right)):
            angles = math.pi * reduced
            waves = weight * xp.sin(angles)
            weighted = cotangent * waves
            in_lengths[d] = float(xp.vdot(weighted, waves))
            weighted *= xp.cos(angles)
            rate = math.pi * weight
            in_periods[d] = rate * float(xp.vdot(weighted, turns))
            moved[:, d] = weighted.sum(axis=0) * (rate / float(periods[d]))
        each = per_dimension.summed(in_lengths, self.lengthscale), per_dimension.summed(in_periods, self.period)
        return np.concatenate([[float(cotangent.sum())], *each]), moved

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        sums = np.zeros(self.log_parameters.size)
        sums[0] = self.variance * float(cotangent.sum())
        return sums

    def _key(self) -> tuple[object, ...]:
        values = self.variance, self.lengthscale, self.period
        return tuple((tuple(np.atleast_1d(np.asarray(value))), np.ndim(value)) for value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Periodic) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((Periodic, self._key()))


def _require_turns(largest: float) -> None:
    if not largest < _MOST_TURNS:
        raise ValueError(
            f"X: expected points within {_MOST_TURNS:g} periods of each other, beyond which 30 digits of x do not tell "
            "where in the period it is"
        )
