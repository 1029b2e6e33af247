"""The Gaussian likelihood: everything in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.likelihoods.base import BELOW, DerivativeRange, Likelihood, record
from gpbounds.likelihoods.special import HALF_LOG_TWO_PI, scipy_special
from gpbounds.numerics.hermite import Series, linear_series


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y|f) = N(y|f, σ²).

    log E p = log N(y|m, v + σ²) and E log p = −½ log 2πσ² − ((y − m)² + v)/(2σ²)  (D-05; Wei et al., §2).  With
    c = 1/(√(2π)σ): φ ∈ (0, c], |φ'| ≤ c/(√e σ), φ'' ∈ [−c/σ², 2c/(σ²e^{3/2})], all attained  (D-31; Table 1).

    Parameters
    ----------
    noise : float
        σ², a variance, in squared units of y.

    Raises
    ------
    ValueError
        for a noise that is not one positive finite number.

    >>> model = Gaussian(noise=0.5)
    >>> [round(float(mean(1.0, 0.0, 0.5)), 6) for mean in (model.log_expected_density, model.expected_log_density)]
    [-1.418939, -2.072365]
    """

    noise: float
    name = "gaussian"
    log_concave = True

    def __post_init__(self) -> None:
        self._one_positive("noise")

    def _targets(self, y: Array) -> Array:
        return y

    def _log_density(self, y: Array, f: Array) -> Array:
        return -HALF_LOG_TWO_PI - 0.5 * math.log(self.noise) - 0.5 * (y - f) ** 2 / self.noise

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        return (y - f) / self.noise, 0.0 * f - 1.0 / self.noise, 0.0 * f

    def _parameter_derivatives(self, y: Array, f: Array) -> tuple[Array, ...]:
        return (0.5 * ((y - f) ** 2 / self.noise - 1.0),)

    def slope_series(self, y: Float, m: Float, v: Float) -> Series:
        """ℓ' = (y − f)/σ²."""
        return linear_series((y - m) / self.noise, -1.0 / self.noise)

    def least_curvature(self, y: Float, low: Float, high: Float) -> Float:
        """1/σ² everywhere."""
        return np.full(np.shape(low), BELOW / self.noise)

    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        total, d = v + self.noise, y - m
        value = -HALF_LOG_TWO_PI - 0.5 * namespace(v).log(total) - 0.5 * d * d / total
        if not gradient:
            return (value,)
        by_variance = 0.5 * (d * d / total - 1.0) / total
        return value, d / total, by_variance, self.noise * by_variance

    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        d = y - m
        value = self._log_density(y, m) - 0.5 * v / self.noise
        if not gradient:
            return (value,)
        return value, d / self.noise, 0.0 * v - 0.5 / self.noise, 0.5 * ((d * d + v) / self.noise - 1.0)

    def _log_expected_power(self, y: Array, m: Array, v: Array, power: float, gradient: bool) -> tuple[Array, ...]:
        """N(y|f, σ²)^a is a multiple of N(y|f, σ²/a)."""
        own = self.noise / power
        if not own < math.inf:
            raise ValueError(f"power: expected a number for which σ²/power is a double, got {power!r}")
        wider = Gaussian(own)
        factor = (1.0 - power) * HALF_LOG_TWO_PI + 0.5 * (math.log(own) - power * math.log(self.noise))
        value, *rest = wider._log_expected_density(y, m, v, gradient)
        if not gradient:
            return (value + factor,)
        return value + factor, rest[0], rest[1], rest[2] + 0.5 * (1.0 - power)

    def _predictive_mean(self, m: Array, v: Array) -> Array:
        return m + 0.0 * v

    def _predictive_cdf(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        probability = scipy_special(y).ndtr((y - m) / namespace(v).sqrt(v + self.noise))
        return probability, probability

    def _predictive_quantile(self, p: Array, m: Array, v: Array) -> Array:
        return m + namespace(v).sqrt(v + self.noise) * scipy_special(p).ndtri(p)

    def _range(self, y: Array, form: str, repaired: bool) -> DerivativeRange:
        std = math.sqrt(self.noise)
        c = math.exp(-HALF_LOG_TWO_PI) / std
        steep = c / (math.sqrt(math.e) * std)
        ends = (0.0, c, -steep, steep, -c / self.noise, 2.0 * c / (self.noise * math.exp(1.5)))
        return record(y, ends, form, "D-31", repaired=repaired)
