"""The Poisson likelihood with rate e^f or log(1 + e^f)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.base import Likelihood
from gpbounds.likelihoods.concave import POINT_MASS, log_mean
from gpbounds.likelihoods.extremes import exponential_extremes, softplus_extremes
from gpbounds.likelihoods.factors import ExponentialRate, Factor, Powered, Softplus, SoftplusRate
from gpbounds.likelihoods.probabilities import mean_probabilities
from gpbounds.likelihoods.quantiles import least_counts
from gpbounds.likelihoods.ranges import DerivativeRange, record
from gpbounds.likelihoods.special import (
    log_factorial_excess,
    log_softplus,
    scipy_special,
    softplus,
    softplus_parts,
    softplus_third,
)
from gpbounds.likelihoods.trapezoid import DROP, integrate
from gpbounds.validation import choice

PRINTED = "Table 1 prints g^y e^{+g}/y!, which is no density, and is unbounded; the numbers hold with e^{−g}."


@dataclass(frozen=True)
class Poisson(Likelihood):
    """p(y|f) = g^y e^−g/y!, y = 0, 1, 2, …, with the rate g = e^f or log(1 + e^f).

    e^f: E log p = ym − e^(m + v/2) − log y!  (D-07), −∞ where that overflows; log E p is quadrature about the mode of
    the product, found by Lambert's function.  log(1 + e^f): both are quadrature.  φ ∈ [0, y^y e^−y/y!].

    The sharpest ranges of φ', φ'': for e^f, φ' = (y − g)p at g = y + ½ ± √(y + ¼) and φ'' = ((y − g)² − g)p at the
    roots of g³ − 3(y+1)g² + (3y²+3y+1)g − y³, which are g = y + 1 + s with s³ = (3y + 2)s + 2y + 1  (D-34).  For
    log(1 + e^f) by a search over f (D-33); over all y they stay within φ' ∈ [−¼, 0.1355] and φ'' ∈ [−0.1482, 0.0963].
    Table 1 prints e^{+g} for e^{−g} (``form="printed"`` says so), and for e^f is 10⁴ times too wide at y = 100.

    Parameters
    ----------
    link : "exp" or "softplus"

    Raises
    ------
    ValueError
        for another link, and for a y that is not a count.

    >>> model = Poisson("exp")
    >>> [round(float(mean(3, 1.0, 0.5)), 6) for mean in (model.log_expected_density, model.expected_log_density)]
    [-1.948294, -2.282102]
    >>> print(model.derivative_range(3))
    φ in [0, 0.224042], φ' in [-0.284869, 0.194465], φ'' in [-0.70957, 0.496492] (D-34, sharpest).
    """

    link: str = "exp"
    name = "poisson"

    def __post_init__(self) -> None:
        choice("link", self.link, ("exp", "softplus"))

    @property
    def _factor(self) -> Factor:
        return ExponentialRate() if self.link == "exp" else SoftplusRate()

    def _targets(self, y: Array) -> Array:
        return _counts(y)

    def _log_density(self, y: Array, f: Array) -> Array:
        return self._factor.value(f, y)

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        first, second = self._factor.slopes(f, y)
        if self.link == "exp":
            return first, second, second
        return first, second, softplus_third(f, y)

    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        return log_mean(self._factor, y, m, v, gradient)

    def _log_expected_power(self, y: Array, m: Array, v: Array, power: float, gradient: bool) -> tuple[Array, ...]:
        return log_mean(Powered(self._factor, power), y, m, v, gradient)

    def _predictive_mean(self, m: Array, v: Array) -> Array:
        """E g: e^(m + v/2), or by quadrature."""
        xp = namespace(m)
        return xp.exp(m + 0.5 * v if self.link == "exp" else log_mean(Softplus(), 0.0 * m, m, v)[0])

    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        log_factorial = scipy_special(y).gammaln(y + 1.0)
        if self.link == "exp":
            rate = namespace(m).exp(m + 0.5 * v)
            parts: tuple[Array, ...] = (y * m - rate - log_factorial, y - rate, -0.5 * rate)
            return parts if gradient else parts[:1]
        log_rate, *slopes = log_mean(Softplus(), y, m, v, gradient)
        rate = namespace(m).exp(log_rate)
        logs = _mean_log_softplus(m, v, gradient)
        by_both = (y * part - rate * slope for part, slope in zip(logs[1:], slopes, strict=True))
        return (y * logs[0] - rate - log_factorial, *by_both)

    def _predictive_cdf(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """Given g, P(Y ≤ y) = Γ(y + 1, g)/y!, which falls from 1 to 0 near g = y + 1."""
        xp, special = namespace(y), scipy_special(y)

        def given(f: Array, y: Array) -> list[Array]:
            rate = xp.exp(f) if self.link == "exp" else softplus(f)
            below = xp.where(y > 0.0, special.gammaincc(xp.maximum(y, 1.0), rate), 0.0)
            return [below, special.gammaincc(y + 1.0, rate)]

        count = y + 1.0
        if self.link == "exp":
            bend, width = xp.log(count), 1.0 / xp.sqrt(count)
        else:
            bend, width = count + xp.log1p(-xp.exp(-count)), xp.sqrt(count)
        below, up_to = mean_probabilities(given, (y,), m, v, bend, width)
        return below, up_to

    def _predictive_quantile(self, p: Array, m: Array, v: Array) -> Array:
        xp = namespace(p)
        normal = scipy_special(p).ndtri(p)
        f = m + normal * xp.sqrt(v)
        rate = xp.exp(f) if self.link == "exp" else softplus(f)
        return least_counts(lambda y: self._predictive_cdf(y, m, v)[1] >= p, rate + normal * xp.sqrt(rate))

    def _range(self, y: Array, form: str, repaired: bool) -> DerivativeRange:
        claim = "D-34" if self.link == "exp" else "D-33"
        top = namespace(y).exp(-log_factorial_excess(y))
        if form == "sharpest":
            ends: tuple[Any, ...] = exponential_extremes(y) if self.link == "exp" else softplus_extremes(y)
            return record(y, (0.0, top, *ends), form, claim)
        if self.link == "exp":
            ends = (-y - 1.0, y, -y - 0.25, 2.0 * y * y + 3.0 * y + 2.0)
        else:
            ends = (-1.0, 1.0, -2.25, 2.25)
        note = "" if repaired else PRINTED
        return record(y, (0.0, 1.0, *ends), form, claim, note=note, repaired=repaired)


def _mean_log_softplus(m: Array, v: Array, gradient: bool = False) -> tuple[Array, ...]:
    """E log g, g = log(1 + e^f), for f ~ N(m, v), as m − E k with k = f − log g > 0; with ``gradient`` its derivatives.

    ∂_m = E r and ∂_v = ½E r' with r = σ/g, r' = r(1 − σ − r).
    """
    xp = namespace(m)
    if xp is not np:
        results = cuda.mean_log_softplus(m, v)
        return results if gradient else results[:1]
    s = xp.sqrt(xp.where(v < POINT_MASS, 1.0, v))
    reach = 1.2 * math.sqrt(2.0 * DROP) * s

    def columns(t: Array, m: Array, s: Array) -> list[Array]:
        f = m + t
        weight = xp.exp(-0.5 * (t / s) ** 2) / (math.sqrt(2.0 * math.pi) * s)
        parts = [weight * (1.0 + f - log_softplus(f, softplus(f)))]
        if gradient:
            _, _, _, ratio, curve = softplus_parts(f)
            parts += [weight * ratio, 0.5 * weight * curve]
        return parts

    units = (1.0 / s, 1.0 / (s * s)) if gradient else ()
    sums = integrate(columns, (m, s), -reach, reach, -m, xp.minimum(0.5, reach), 3 if gradient else 1, units)
    parts = (m + 1.0 - sums[0], *sums[1:])
    _, _, _, ratio, curve = softplus_parts(m)
    limits = (log_softplus(m, softplus(m)), ratio, 0.5 * curve)
    return tuple(xp.where(v < POINT_MASS, limit, part) for limit, part in zip(limits, parts, strict=False))


def _counts(y: Array) -> Array:
    """y, a whole number 0, 1, 2, … below 2⁵³ everywhere."""
    xp = namespace(y)
    good = (y >= 0.0) & (y == xp.floor(y)) & (y < 2.0**53)
    if not bool(good.all()):
        raise ValueError(f"y: expected counts 0, 1, 2, … below 2^53, got {float(y[~good].ravel()[0])!r}")
    return y
