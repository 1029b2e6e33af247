"""The Student-t likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods.base import Likelihood
from gpbounds.likelihoods.mixture import log_mean_student, mean_log_student
from gpbounds.likelihoods.probabilities import mean_probabilities
from gpbounds.likelihoods.quantiles import upper_roots
from gpbounds.likelihoods.ranges import DerivativeRange, record
from gpbounds.likelihoods.special import scipy_special


def log_constant(df: float) -> float:
    """log Γ((ν+1)/2) − log Γ(ν/2) − ½ log πν, by its series for large ν, where the two cancel.

    >>> round(log_constant(1.0), 6), round(log_constant(1e6) + 0.5 * math.log(2.0 * math.pi), 12)
    (-1.14473, -2.5e-07)
    """
    if df < 60.0:
        return math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)
    a = 0.5 * df
    series = (-1 / 8 + (1 / 192 - (1 / 640 - (17 / 14336 - 31 / 18432 / a**2) / a**2) / a**2) / a**2) / a
    return series - 0.5 * math.log(2.0 * math.pi)


def log_constant_slope(df: float) -> float:
    """The derivative of `log_constant` in log ν.

    >>> up, down = log_constant(4.0 * math.exp(1e-5)), log_constant(4.0 * math.exp(-1e-5))
    >>> round((up - down) / 2e-5 / log_constant_slope(4.0), 8)
    1.0
    """
    if df < 60.0:
        from scipy.special import digamma

        return 0.5 * (df * float(digamma(0.5 * (df + 1.0)) - digamma(0.5 * df)) - 1.0)
    a = 0.5 * df
    return (1 / 8 - (3 / 192 - (5 / 640 - (119 / 14336 - 279 / 18432 / a**2) / a**2) / a**2) / a**2) / a


@dataclass(frozen=True)
class StudentT(Likelihood):
    """p(y|f) = c (1 + (y − f)²/(σ²ν))^(−(ν+1)/2), c = Γ((ν+1)/2)/(Γ(ν/2)√(πν)σ).

    As a function of f it is not log-concave, and N(m, v)·p can have two peaks.  Its means are integrals over one
    positive variable, because the Gaussian averages have a closed form (`gpbounds.likelihoods.mixture`).
    Ranges, all attained  (D-35; Table 1, whose √(πνσ) in c must be √(πν)σ; ``form="printed"`` keeps this, and is false
    for σ < 1):  |φ'| ≤ (c/σ)((ν+1)/ν)√(ν/(ν+2)) ((ν+2)/(ν+3))^((ν+3)/2) at (y−f)² = σ²ν/(ν+2), φ'' from
    −(c/σ²)(ν+1)/ν at f = y to 2(c/σ²)((ν+1)/ν)((ν+2)/(ν+5))^((ν+5)/2) at (y−f)² = 3σ²ν/(ν+2).

    Parameters
    ----------
    df : float
        ν > 0, degrees of freedom.
    scale : float
        σ > 0, in units of y.

    Raises
    ------
    ValueError
        for a df or scale that is not one positive finite number.

    >>> model = StudentT(df=4.0, scale=1.0)
    >>> [round(float(mean(8.0, 0.0, 1.0)), 6) for mean in (model.log_expected_density, model.expected_log_density)]
    [-7.839133, -8.030969]
    """

    df: float
    scale: float
    name = "student_t"

    def __post_init__(self) -> None:
        self._one_positive("df", "scale")

    def _targets(self, y: Array) -> Array:
        return y

    def _log_density(self, y: Array, f: Array) -> Array:
        z = (y - f) / self.scale
        return self._log_c - 0.5 * (self.df + 1.0) * namespace(f).log1p(z * z / self.df)

    @property
    def _log_c(self) -> float:
        return log_constant(self.df) - math.log(self.scale)

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        z, nu, scale = (y - f) / self.scale, self.df, self.scale
        total = nu + z * z
        first = (nu + 1.0) / scale * z / total
        second = (nu + 1.0) / scale**2 * (z * z - nu) / total**2
        third = 2.0 * (nu + 1.0) / scale**3 * z * (z * z - 3.0 * nu) / total**3
        return first, second, third

    def _parameter_derivatives(self, y: Array, f: Array) -> tuple[Array, ...]:
        """In log ν: ν·(log c)' + ½[w + ν(w − log(1 + x))], x = z²/ν, w = x/(1 + x); in log σ: (ν + 1)w − 1."""
        x = ((y - f) / self.scale) ** 2 / self.df
        w = 1.0 / (1.0 + 1.0 / x)  # right at 0 and at infinity
        in_df = log_constant_slope(self.df) + 0.5 * (w + self.df * (w - namespace(f).log1p(x)))
        return in_df, (self.df + 1.0) * w - 1.0

    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        parts = log_mean_student((y - m) / self.scale, v / self.scale**2, self.df, gradient)
        return self._rescaled(y - m, v, (parts[0] - math.log(self.scale), *parts[1:]))

    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        parts = mean_log_student((y - m) / self.scale, v / self.scale**2, self.df, gradient)
        value, *rest = self._rescaled(y - m, v, (parts[0] + self._log_c, *parts[1:]))
        if gradient:
            rest[2] = rest[2] + log_constant_slope(self.df)
        return (value, *rest)

    def _log_expected_power(self, y: Array, m: Array, v: Array, power: float, gradient: bool) -> tuple[Array, ...]:
        """p^a is a multiple of the density with ν' = a(ν + 1) − 1 and σ'² = σ²ν/ν'."""
        df = power * (self.df + 1.0) - 1.0
        if df <= 0.0:
            raise ValueError(
                f"power: expected more than 1/(df + 1) = {1.0 / (self.df + 1.0):.6g} for {self!r}, got {power:g}: the "
                "power of the density has infinite mass"
            )
        other = StudentT(df, self.scale * math.sqrt(self.df / df))
        value, *rest = other._log_expected_density(y, m, v, gradient)
        value = value + (power * self._log_c - other._log_c)
        if not gradient:
            return (value,)
        turn = power * self.df / df  # ∂ log ν'/∂ log ν
        widening = 0.5 * (1.0 - turn)  # ∂ log σ'/∂ log ν
        by_df = turn * (rest[2] - log_constant_slope(df)) + widening * (rest[3] + 1.0)
        return value, rest[0], rest[1], by_df + power * log_constant_slope(self.df), rest[3] + (1.0 - power)

    def _predictive_mean(self, m: Array, v: Array) -> Array:
        return m + 0.0 * v

    def _rescaled(self, d: Array, v: Array, parts: tuple[Array, ...]) -> tuple[Array, ...]:
        """Derivatives in d/σ = (y − m)/σ and v/σ² as derivatives in m, v, log ν and log σ."""
        if len(parts) == 1:
            return parts
        by_mean, by_variance = -parts[1] / self.scale, parts[2] / self.scale**2
        return parts[0], by_mean, by_variance, parts[3], d * by_mean - 2.0 * v * by_variance - 1.0

    def _predictive_cdf(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        xp, betainc = namespace(y), scipy_special(y).betainc

        def given(f: Array, y: Array) -> list[Array]:
            z, half = (y - f) / self.scale, 0.5 * self.df
            near = z * z < self.df  # incomplete beta functions lose digits where their argument is near 1
            x = 1.0 / (1.0 + xp.where(near, self.df / (z * z), z * z / self.df))
            both = 0.5 * xp.sign(z) * betainc(xp.where(near, 0.5, half), xp.where(near, half, 0.5), x)
            return [xp.where(near, 0.5 + both, (z > 0.0) - both)]

        width = 0.0 * y + self.scale * math.sqrt(self.df / (1.0 + self.df))
        (probability,) = mean_probabilities(given, (y,), m, v, y, width)
        return probability, probability

    def _predictive_quantile(self, p: Array, m: Array, v: Array) -> Array:
        """The root, from √(z² + t²) with the quantiles z of N(0, v) and t of the Student-t."""
        xp, special = namespace(p), scipy_special(p)
        tail, up = xp.minimum(p, 1.0 - p), xp.maximum(p, 1.0 - p)
        x = special.betaincinv(0.5 * self.df, 0.5, 2.0 * tail)
        guess = xp.hypot(self.scale * xp.sqrt(self.df * (1.0 / x - 1.0)), xp.sqrt(v) * special.ndtri(tail))
        if not bool(xp.isfinite(guess).all()):
            raise ValueError(f"p: expected quantiles below 1e308, got {float(tail.min())!r} for {self!r}")

        def excess(t: Array, part: Any) -> tuple[Array, Array]:
            centre, spread = 0.0 * t, v[part]
            density = xp.exp(self._log_expected_density(t, centre, spread, False)[0])
            return up[part] - self._predictive_cdf(t, centre, spread)[0], density

        return m + xp.sign(p - 0.5) * upper_roots(excess, guess)

    def _range(self, y: Array, form: str, repaired: bool) -> DerivativeRange:
        nu, c, holds, note = self.df, math.exp(self._log_c), True, ""
        if form == "printed" and not repaired:
            c *= math.sqrt(self.scale)
            holds = self.scale >= 1.0
            note = "Table 1 prints √(πνσ) for √(πν)σ in c: these numbers are √σ times the true ones."
        slope = c / self.scale * (nu + 1.0) / nu
        steep = slope * math.sqrt(nu / (nu + 2.0)) * math.exp(-0.5 * (nu + 3.0) * math.log1p(1.0 / (nu + 2.0)))
        low = -slope / self.scale
        high = 2.0 * slope / self.scale * math.exp(-0.5 * (nu + 5.0) * math.log1p(3.0 / (nu + 2.0)))
        return record(y, (0.0, c, -steep, steep, low, high), form, "D-35", holds=holds, note=note, repaired=repaired)
