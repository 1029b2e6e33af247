"""The Poisson likelihood with rate e^f or log(1 + e^f)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Array, Float, host, namespace
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.base import BELOW, DerivativeRange, Likelihood, record
from gpbounds.likelihoods.concave import (
    POINT_MASS,
    ExponentialRate,
    LogConcaveFactor,
    Powered,
    Softplus,
    SoftplusRate,
    log_mean,
)
from gpbounds.likelihoods.quantiles import least_counts, mean_probabilities
from gpbounds.likelihoods.special import (
    bend,
    log_factorial_excess,
    log_softplus,
    scipy_special,
    sigmoid,
    softplus,
    softplus_parts,
    softplus_third,
)
from gpbounds.likelihoods.trapezoid import DROP, integrate
from gpbounds.numerics.hermite import Analytic, Series, exponential_series, hermite_series
from gpbounds.numerics.search import halved
from gpbounds.validation import choice

SOFTPLUS_ROUNDING = 1024.0 * 0.5 * EPS
"""Error of yσ/g − σ, g = log(1 + e^f), and of its derivative, relative to √2y + 1; exp and log1p err by 4 units."""

# The extreme values of the derivatives of a Poisson likelihood in f.


def _exponential_extremes(y: Array) -> tuple[Array, Array, Array, Array]:
    """Least and largest φ', least and largest φ'' of g^y e^−g/y!, g = e^f, in closed form (D-34).

    φ' = (y − g)p has its extremes at g = y + ½ ± √(y + ¼); φ'' = ((y − g)² − g)p at g = y + 1 + s, s the three roots
    of s³ − (3y + 2)s − (2y + 1), s_k = 2√(y + ⅔) cos((θ − 2πk)/3); there (y − g)² − g = s² + s − y.  The limits at
    ±∞ are 0.
    """
    xp = namespace(y)

    def density(shift: Array) -> Array:
        """p at g = y + shift, by −y(u − log(1 + u)) − …, u = shift/y."""
        g = y + shift
        count = xp.maximum(y, 1.0)
        u = xp.log(xp.where(y > 0.0, xp.maximum(g, 1e-300) / count, 1.0))
        drop = xp.where(y > 0.0, y * bend(u), g)
        return xp.exp(-drop - log_factorial_excess(y))

    root = xp.sqrt(y + 0.25)
    first = [-(0.5 + sign * root) * density(0.5 + sign * root) for sign in (-1, 1)]
    p = 3.0 * y + 2.0
    angle = xp.arccos(xp.minimum(1.5 * (2.0 * y + 1.0) / p * xp.sqrt(3.0 / p), 1.0))
    second = []
    for k in range(3):
        s = 2.0 * xp.sqrt(p / 3.0) * xp.cos((angle - 2.0 * math.pi * k) / 3.0)
        second.append((s * s + s - y) * density(xp.maximum(1.0 + s, -y)))
    zero = 0.0 * y
    low = functools.reduce(xp.minimum, second, zero)
    high = functools.reduce(xp.maximum, second, zero)
    return xp.minimum(first[1], zero), xp.maximum(first[0], zero), low, high


def _softplus_extremes(y: Array) -> tuple[Array, Array, Array, Array]:
    """The same for g = log(1 + e^f), by a search over f (D-33), once for each distinct count."""
    xp = namespace(y)
    targets = host(y)
    distinct, where = np.unique(targets, return_inverse=True)
    table = np.array(_search(tuple(distinct.tolist()))).reshape(4, -1)
    a, b, c, d = (xp.asarray(row[where].reshape(targets.shape)) for row in table)
    return a, b, c, d


@functools.lru_cache(maxsize=64)
def _search(counts: tuple[float, ...]) -> tuple[Float, ...]:
    y = np.array(counts)[:, None]
    peak = np.where(y > 0.0, SoftplusRate().peak(y), 0.0)
    width = np.sqrt(y) + 1.0
    grid = peak + width * np.linspace(-45.0, 45.0, 6001)
    with np.errstate(all="ignore"):
        extremes = []
        for order in (1, 2):
            values = _derivative(y, grid, order)
            for sign in (-1.0, 1.0):
                best = (sign * values).argmax(axis=1)[:, None]
                best = np.clip(best, 1, grid.shape[1] - 2)
                low = np.take_along_axis(grid, best - 1, axis=1)
                high = np.take_along_axis(grid, best + 1, axis=1)

                def rising(f: Float, sign: float = sign, order: int = order) -> Any:
                    return sign * _derivative(y, f, order + 1) > 0.0

                low, high = halved(rising, low, high)
                ends = _derivative(y, low, order)[:, 0]
                extremes.append(np.minimum(ends, 0.0) if sign < 0.0 else np.maximum(ends, 0.0))
    return tuple(extremes)


def _derivative(y: Float, f: Float, order: int) -> Float:
    """The derivative of g^y e^−g/y! of that order, g = log(1 + e^f)."""
    g, up, down, ratio, curve = softplus_parts(f)
    u = log_softplus(f, g) - np.log(np.maximum(y, 1.0))
    density = np.exp(np.where(y > 0.0, -y * bend(u), -g) - log_factorial_excess(y))
    first = y * ratio - up
    second = y * curve - up * down
    if order == 1:
        return density * first
    if order == 2:
        return density * (first * first + second)
    return density * (first**3 + 3.0 * first * second + softplus_third(f, y))


# The Poisson likelihood with rate e^f or log(1 + e^f).

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
    def _factor(self) -> LogConcaveFactor:
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

    def slope_series(self, y: Float, m: Float, v: Float) -> Series:
        """ℓ' = y − e^f, or yσ/g − σ with g = log(1 + e^f); the facts about the latter are proved in N-hermite."""
        if self.link == "exp":
            return exponential_series(y, m, v)
        bound, reach = math.sqrt(2.0) * y + 1.0, 0.5 * math.pi
        steep, bent = bound / reach, 2.0 * bound / reach**2
        known = Analytic(reach, bound, 0.0 * y, steep, bent, SOFTPLUS_ROUNDING, True)
        return hermite_series(lambda y, f: self._derivatives(y, f)[:2], y, m, v, known)

    def least_curvature(self, y: Float, low: Float, high: Float) -> Float:
        """−ℓ'' = e^f, which increases; of the softplus at least σ(1 − σ), which falls with |f|, as log g is concave."""
        if self.link == "exp":
            return np.asarray(BELOW * np.exp(low))
        far = np.maximum(np.abs(low), np.abs(high))
        return np.asarray(BELOW * sigmoid(far) * sigmoid(-far))

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
            ends: tuple[Any, ...] = _exponential_extremes(y) if self.link == "exp" else _softplus_extremes(y)
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
