"""The Bernoulli likelihood with the probit or the logit link."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, Float, namespace
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.base import BELOW, DerivativeRange, Likelihood, record
from gpbounds.likelihoods.concave import LogCdf, NormalCdf, Powered, Sigmoid, Softplus, log_mean
from gpbounds.likelihoods.special import HAZARD, log_cdf, mills, sigmoid, softplus
from gpbounds.likelihoods.trapezoid import WIDEST, narrow_means
from gpbounds.numerics.hermite import Analytic, Series, hermite_series
from gpbounds.validation import choice

LOGIT_ROUNDING = 32.0 * 0.5 * EPS
"""Error of 1/(1 + e^f) and, relative to ¼, of its derivative, if exp errs by at most 4 units in the last place."""
PROBIT_ROUNDING = 1e-13
"""Ten times the relative error of ϕ/Φ and of its derivative that was measured; it rests on SciPy's erfcx."""


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """p(y|f) = Φ(sf) (probit) or 1/(1 + e^−sf) (logit), s = ±1 the sign of the label.

    Labels are all in {0, 1} or all in {−1, 1}; 0 and −1 both mean s = −1, but not in one array.
    Probit: log E p = log Φ(sm/√(1 + v))  (D-06).  The other means are quadrature.
    The sharpest ranges for s = 1, which s = −1 mirrors: φ ∈ (0, 1), probit φ' ∈ (0, 1/√(2π)], |φ''| ≤ 1/√(2πe)  (D-32),
    logit φ' ∈ (0, ¼], |φ''| ≤ 1/(6√3)  (D-30); Table 1 has −φ' ≤ the same, and ¼ for the logit's φ''.

    Parameters
    ----------
    link : "probit" or "logit"

    Raises
    ------
    ValueError
        for another link, for other labels, and for 0 and −1 in one array.

    >>> model = Bernoulli("probit")
    >>> round(float(model.log_expected_density(1, 0.5, 3.0)), 6)  # log Φ(0.25)
    -0.512984
    >>> Bernoulli("logit").derivative_range(1).first
    (0.0, 0.25)
    """

    link: str = "probit"
    name = "bernoulli"

    def __post_init__(self) -> None:
        choice("link", self.link, ("probit", "logit"))

    def _targets(self, y: Array) -> Array:
        return _labels(y)

    def _known_targets(self, y: Array) -> Array:
        return namespace(y).where(y > 0.0, 1.0, -1.0)

    def _log_density(self, y: Array, f: Array) -> Array:
        return log_cdf(y * f) if self.link == "probit" else -softplus(-y * f)

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        z = y * f
        if self.link == "probit":
            first, second, third = mills(z)
        else:
            first, up = sigmoid(-z), sigmoid(z)
            second = -first * up
            third = second * (first - up)
        return y * first, second, y * third

    def slope_series(self, y: Float, m: Float, v: Float) -> Series:
        """ℓ' = sσ(−sf) or sM(sf), M = ϕ/Φ; the facts about both are proved in N-hermite."""
        one = np.ones_like(m)
        if self.link == "logit":
            known = Analytic(0.5 * math.pi, one, 0.0 * one, 0.25 * one, 0.1 * one, LOGIT_ROUNDING, True)
        else:
            known = Analytic(1.0, 2.0 * HAZARD * one, 2.0 * one, one, 7.0 * one, PROBIT_ROUNDING, False)
        return hermite_series(lambda y, f: self._derivatives(y, f)[:2], y, m, v, known)

    def least_curvature(self, y: Float, low: Float, high: Float) -> Float:
        """−ℓ'' falls with |f| (logit), or with sf (probit), as ϕ/Φ is convex (Sampford 1953)."""
        if self.link == "logit":
            return np.asarray(-BELOW * self._derivatives(y, np.maximum(np.abs(low), np.abs(high)))[1])
        return np.asarray(-BELOW * self._derivatives(y, np.where(y > 0.0, high, low))[1])

    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        xp = namespace(m)
        if xp is not np:
            probit = self.link == "probit"
            results = cuda.log_mean_cdf(y, m, v) if probit else cuda.log_mean_sigmoid(Sigmoid.step, y, m, v)
            return results if gradient else results[:1]
        if self.link == "probit":
            total = 1.0 + v
            z = y * m / xp.sqrt(total)
            if not gradient:
                return (log_cdf(z),)
            slope = mills(z)[0]
            return log_cdf(z), y * slope / xp.sqrt(total), -0.5 * z * slope / total
        return _signed(y, _log_mean_sigmoid(y * m, v, gradient))

    def _log_expected_power(self, y: Array, m: Array, v: Array, power: float, gradient: bool) -> tuple[Array, ...]:
        factor = NormalCdf() if self.link == "probit" else Sigmoid()
        return _signed(y, log_mean(Powered(factor, power), y, y * m, v, gradient))

    def _predictive_mean(self, m: Array, v: Array) -> Array:
        one = namespace(m).ones(m.shape)
        return namespace(m).exp(self._log_expected_density(one, m, v, False)[0])

    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        """−E A(f) by quadrature: A = −log Φ or log(1 + e^−f) is log-concave."""
        if self.link == "probit":
            return _signed(y, _minus_mean(LogCdf(), y * m, v, gradient))
        return _signed(-y, _minus_mean(Softplus(), -y * m, v, gradient))

    def _predictive_cdf(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        xp, one = namespace(m), 0.0 * m + 1.0
        of_zero = xp.exp(self._log_expected_density(-one, m, v, False)[0])
        return xp.where(y > 0.0, of_zero, 0.0), xp.where(y > 0.0, 1.0, of_zero)

    def _predictive_quantile(self, p: Array, m: Array, v: Array) -> Array:
        _, of_zero = self._predictive_cdf(0.0 * m, m, v)
        return namespace(m).where(of_zero >= p, 0.0, 1.0)

    def _range(self, y: Array, form: str, repaired: bool) -> DerivativeRange:
        if self.link == "probit":
            steep, bent, claim = 1.0 / math.sqrt(2.0 * math.pi), 1.0 / math.sqrt(2.0 * math.pi * math.e), "D-32"
        else:
            steep, bent, claim = 0.25, 0.25 if form == "printed" else 1.0 / (6.0 * math.sqrt(3.0)), "D-30"
        if form == "printed":
            return record(y, (0.0, 1.0, -steep, steep, -bent, bent), form, claim, repaired=repaired)
        xp = namespace(y)
        ends = (0.0, 1.0, xp.where(y > 0.0, 0.0, -steep), xp.where(y > 0.0, steep, 0.0), -bent, bent)
        return record(y, ends, form, claim)


def _signed(y: Array, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    """(value, ∂/∂m, ∂/∂v) of g(ym, v) from (value, ∂/∂(ym), ∂/∂v)."""
    return parts if len(parts) == 1 else (parts[0], y * parts[1], parts[2])


def _minus_mean(factor: LogCdf | Softplus, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
    """−E A, and its derivatives in m and v.

    At fixed nodes for small variances, unless A falls off like a Gaussian, so that other nodes count.
    """
    xp = namespace(m)
    if xp is not np and (source := factor.source) is not None:
        results = cuda.minus_mean(source, factor.step, factor.highest, m, v)
        return results if gradient else results[:1]
    narrow = (v <= WIDEST) & (m <= factor.highest)
    if not bool(narrow.any()):
        return _minus_exp(log_mean(factor, m, m, v, gradient))
    if bool(narrow.all()):
        value, first, second = narrow_means(factor.with_derivatives, m, v)
        return (-value, -first, -0.5 * second) if gradient else (-value,)
    parts = tuple(xp.empty(m.shape) for _ in range(3 if gradient else 1))
    for rows in (narrow, ~narrow):
        for total, part in zip(parts, _minus_mean(factor, m[rows], v[rows], gradient), strict=True):
            total[rows] = part
    return parts


def _minus_exp(parts: tuple[Array, ...]) -> tuple[Array, ...]:
    """−e^L and its derivatives from L and its derivatives."""
    value = -namespace(parts[0]).exp(parts[0])
    return (value, *(value * part for part in parts[1:]))


def _log_mean_sigmoid(m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
    """log E σ(f): for m > 0 as log(1 − E σ(−f)), so that 1 − E σ(f) keeps its relative accuracy."""
    xp = namespace(m)
    parts = log_mean(Sigmoid(), 0.0 * m, -xp.abs(m), v, gradient)
    log_small = parts[0]
    value = xp.where(m > 0.0, xp.log1p(-xp.exp(log_small)), log_small)
    if not gradient:
        return (value,)
    odds = xp.exp(log_small) / -xp.expm1(log_small)
    by_mean = xp.where(m > 0.0, odds, 1.0) * parts[1]
    by_variance = xp.where(m > 0.0, -odds, 1.0) * parts[2]
    return value, by_mean, by_variance


def _labels(y: Array) -> Array:
    """y as −1 and 1; all entries must be in {0, 1} or all in {−1, 1}."""
    xp = namespace(y)
    good = (y == 0.0) | (y == 1.0) | (y == -1.0)
    if not bool(good.all()):
        raise ValueError(f"y: expected labels in {{0, 1}} or in {{-1, 1}}, got {float(y[~good].ravel()[0])!r}")
    if bool((y == 0.0).any()) and bool((y == -1.0).any()):
        raise ValueError("y: expected labels in {0, 1} or in {-1, 1}, got 0 and -1 together")
    return xp.where(y > 0.0, 1.0, -1.0)
