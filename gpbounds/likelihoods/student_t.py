"""The Student-t likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.base import DerivativeRange, Likelihood, record
from gpbounds.likelihoods.quantiles import mean_probabilities, upper_roots
from gpbounds.likelihoods.special import HALF_LOG_TWO_PI, scipy_special
from gpbounds.likelihoods.trapezoid import AGREEMENT, DROP, HALVINGS, SMALLEST

# Means of a Student-t likelihood over f ~ N(m, v), as integrals over one positive variable; scale 1.
#
# The Gaussian averages are done first, in closed form.  With d = y − m, the density is a mixture of Gaussians over
# their variance w = e^x, x having density ∝ exp(−½ν(x + e^−x)):
#
#     E p = ∫ N(d|0, v + e^x) W(x) dx,
#
# and by log(1 + z) = ∫ (1 − e^−zt) e^−t dt/t with E e^{−t(y−f)²/ν} in closed form, a = v/ν, b = d²/ν, q = 1 + 2at:
#
#     E log(1 + (y − f)²/ν) = ∫ (1 − q^−½ e^{−bt/q}) e^−t dt/t.
#
# Both integrands are analytic in |Im| < π/2 of log w and log t, and no peak of the product in f has to be located.  The
# nodes are the same for all y, m, v; only the right end differs, so the arrays are sorted by it.

FAR = 1e50
"""Distances in units of the scale beyond which derivatives are those of −(ν + 1)log|z|: powers of z overflow."""

LEFT = -3.7
"""Left end of the second integral, whose left tail is compressed: e^−u − u > 43 there."""

STEP = 0.25

Columns = Callable[..., Sequence[Array]]


def log_mean_student(d: Array, v: Array, df: float, gradient: bool = False) -> tuple[Array, ...]:
    """log E p for scale 1, and with ``gradient`` its derivatives in d, in v and in log ν.

    With h = ½ν and the mixing law tilted by N(d|0, v + e^x), ∂_ν = ½[E(x − 1 + e^−x) without the tilt − with it], whose
    first term is ψ(h) − log h, negated.
    """
    xp = namespace(d)
    half, square = 0.5 * df, d * d
    start, step = _left_end(df), min(0.24, 0.5 / math.sqrt(half))
    if xp is not np:
        parts = list(cuda.log_mean_student(d, v, df, start, step, _log_mass(half), _log_mass_slope(half)))
        return tuple(parts if gradient else parts[:1])
    best = _peak(square, v, df)
    # Right of ``reach`` the mixing law, alone or times a Gaussian no wider than w^½, is below e^−DROP of the peak.
    width = xp.maximum(DROP - best - 0.5 * xp.log(xp.maximum(v, square)), 1.0) / half
    reach = xp.minimum(0.5 * width + xp.sqrt(0.25 * width * width + 2.0 * width), (DROP - best + half) / (half + 0.5))
    reach = xp.maximum(reach, 2.0 / math.sqrt(half))

    def columns(x: float, d: Array, square: Array, v: Array, best: Array) -> list[Array]:
        log_weight = -half * (x + math.expm1(-x))
        inverse = 1.0 / (v + math.exp(x))
        weight = xp.exp(log_weight - best - 0.5 * square * inverse) * xp.sqrt(inverse)
        if not gradient:
            return [weight]
        slope = 0.5 * weight * (square * inverse - 1.0) * inverse
        return [weight, -weight * d * inverse, slope, -half * (x + math.expm1(-x)) * weight]

    sums = _marched(columns, (d, square, v, best), start, step, reach, 4 if gradient else 1)
    value = best + xp.log(sums[0]) - HALF_LOG_TWO_PI - _log_mass(half)
    parts = [part / sums[0] for part in sums[1:]]
    if gradient:
        parts[2] = parts[2] - half * _log_mass_slope(half)
    return (value, *parts)


def _peak(square: Array, v: Array, df: float) -> Array:
    """A close lower bound on the largest value of −½ log(v + w) − ½d²/(v + w) − ½ν(log w − 1 + 1/w).

    Its derivative in log w vanishes where w(d² − v − w)/(v + w)² = ν(1 − 1/w): near w = 1, or, where 1/w is
    negligible, near a root of (ν + 1)w² − (d² − (2ν + 1)v)w + νv².  Newton's steps improve these points.
    """
    xp = namespace(v)

    def parts(x: Array) -> tuple[Array, Array, Array]:
        w = xp.exp(x)
        total, p = v + w, w / (v + w)
        q = square / total
        value = -0.5 * xp.log(total) - 0.5 * q - 0.5 * df * (x + xp.expm1(-x))
        first = 0.5 * p * (q - 1.0) + 0.5 * df * xp.expm1(-x)
        second = 0.5 * p * (1.0 - p) * (q - 1.0) - 0.5 * p * p * q - 0.5 * df / w
        return value, first, second

    middle = square - (2.0 * df + 1.0) * v
    root = xp.sqrt(xp.maximum(middle * middle - 4.0 * df * (df + 1.0) * v * v, 0.0))
    x = xp.zeros(v.shape)
    best = parts(x)[0]
    near = xp.clip((square - v - 1.0) / (df * (v + 1.0) ** 2), -0.5, 3.0)
    far = xp.log(xp.maximum((middle + root) / (2.0 * (df + 1.0)), 1.0))
    for guess in (near, far, xp.log((square + df) / (df + 1.0))):
        value = parts(guess)[0]
        x, best = xp.where(value > best, guess, x), xp.maximum(value, best)
    for _ in range(4):
        _, first, second = parts(x)
        x = x + xp.clip(first / xp.maximum(xp.abs(second), 0.1), -1.0, 1.0)
        best = xp.maximum(best, parts(x)[0])
    return best


def mean_log_student(d: Array, v: Array, df: float, gradient: bool = False) -> tuple[Array, ...]:
    """−½(ν + 1) E log(1 + (y − f)²/ν), and with ``gradient`` its derivatives in d, in v and in log ν.

    It is −½(ν + 1)h(a, b), and ν∂_ν h = −(a∂_a + b∂_b)h, so that the last derivative is −½νh − v∂_v − ½d∂_d.
    The left tail is compressed by t = e^(u − e^−u)/(1 + a + b).
    """
    xp = namespace(d)
    if xp is not np:
        results = cuda.mean_log_student(d, v, df, LEFT, STEP)
        return results if gradient else results[:1]
    a, b = v / df, d * d / df
    size = 1.0 + a + b

    def columns(u: float, a: Array, b: Array, size: Array) -> list[Array]:
        t = math.exp(u - math.exp(-u)) / size
        at = a * t
        inverse = 1.0 / (1.0 + 2.0 * at)
        bt = b * t * inverse
        power = -0.5 * xp.log1p(2.0 * at) - bt
        weight = (1.0 + math.exp(-u)) * xp.exp(-t)
        values = [-weight * xp.expm1(power)]
        if gradient:
            slope = weight * t * inverse * xp.exp(power)
            values += [slope, slope * (1.0 - 2.0 * bt)]
        return values

    sums = _marched(columns, (a, b, size), LEFT, STEP, xp.log(DROP * size), 3 if gradient else 1)
    factor = -0.5 * (df + 1.0)
    parts = [factor * part * c for part, c in zip(sums, (1.0, 2.0 * d / df, 1.0 / df), strict=False)]
    if gradient:
        parts.append(-0.5 * df * sums[0] - v * parts[2] - 0.5 * d * parts[1])
    return tuple(parts)


def _left_end(df: float) -> float:
    """The x < 0 left of which the mixing law times any Gaussian is below e^−DROP of the integrand at 0.

    There ½ν(e^−x − 1 + x) + x/2 > DROP: N(d|0, v + w) ≤ w^−½ N(d|0, v + 1) for w < 1.
    """
    r = math.log1p(2.0 * (DROP + 20.0) / df) + 1.0
    for _ in range(60):
        r = math.log(1.0 + r + (2.0 * DROP + r) / df)
    return -r


def _log_mass(half: float) -> float:
    """log ∫ exp(−h(x − 1 + e^−x)) dx = log Γ(h) + h − h log h."""
    if half < 15.0:
        return math.lgamma(half) + half - half * math.log(half)
    square = 1.0 / half**2
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / half
    return HALF_LOG_TWO_PI - 0.5 * math.log(half) + series


def _log_mass_slope(half: float) -> float:
    """The derivative of `_log_mass`: ψ(h) − log h, by its series for large h, where the two cancel."""
    if half < 15.0:
        from scipy.special import digamma

        return float(digamma(half)) - math.log(half)
    square = 1.0 / half**2
    return -0.5 / half - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))


def _marched(
    columns: Columns, parameters: Sequence[Array], start: float, step: float, reach: Array, count: int
) -> list[Array]:
    """∫ columns(x, *parameters) dx by the trapezoidal rule from ``start`` to ``reach``, checked as in `trapezoid`."""
    xp = namespace(reach)
    sums = [xp.empty(reach.shape) for _ in range(count)]
    left = xp.argsort(-reach)
    for _ in range(HALVINGS):
        lengths = np.ceil((reach[left] - start) / step)
        part = [p[left] for p in parameters]
        halves = [[xp.zeros(left.shape) for _ in range(count)] for _ in range(2)]
        active = lengths.size
        for j in range(int(lengths[0]) + 1):
            while active > 1 and lengths[active - 1] < j:
                active -= 1
            for total, value in zip(halves[j % 2], columns(start + j * step, *(p[:active] for p in part)), strict=True):
                total[:active] += value
        for total, even, odd in zip(sums, *halves, strict=True):
            total[left] = step * (even + odd)
        even, odd = halves[0][0], halves[1][0]
        left = left[~(xp.abs(even - odd) <= AGREEMENT * (even + odd) + SMALLEST)]
        if left.size == 0:
            return sums
        step *= 0.5
    raise NotConverged(
        f"expected even and odd nodes of the trapezoidal rule to agree to {AGREEMENT:g}, and {left.size} of "
        f"{reach.size} integrals did not with a step of {2.0 * step:.3g}: are targets or variances beyond 1e100?"
    )


# The Student-t likelihood.


def _log_constant(df: float) -> float:
    """log Γ((ν+1)/2) − log Γ(ν/2) − ½ log πν, by its series for large ν, where the two cancel.

    >>> round(_log_constant(1.0), 6), round(_log_constant(1e6) + 0.5 * math.log(2.0 * math.pi), 12)
    (-1.14473, -2.5e-07)
    """
    if df < 60.0:
        return math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)
    a = 0.5 * df
    series = (-1 / 8 + (1 / 192 - (1 / 640 - (17 / 14336 - 31 / 18432 / a**2) / a**2) / a**2) / a**2) / a
    return series - 0.5 * math.log(2.0 * math.pi)


def _log_constant_slope(df: float) -> float:
    """The derivative of `_log_constant` in log ν.

    >>> up, down = _log_constant(4.0 * math.exp(1e-5)), _log_constant(4.0 * math.exp(-1e-5))
    >>> round((up - down) / 2e-5 / _log_constant_slope(4.0), 8)
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
    positive variable, because the Gaussian averages have a closed form (`gpbounds.likelihoods.student_t`).
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
        return _log_constant(self.df) - math.log(self.scale)

    def _derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        xp, nu, scale = namespace(f), self.df, self.scale
        given = (y - f) / scale
        far = xp.abs(given) > FAR
        z, inverse = xp.where(far, 0.0, given), 1.0 / xp.where(far, given, 1.0)
        total, rate = nu + z * z, nu + 1.0
        first = rate / scale * z / total
        second = rate / scale**2 * (z * z - nu) / total**2
        third = 2.0 * rate / scale**3 * z * (z * z - 3.0 * nu) / total**3
        limits = (rate / scale * inverse, rate / scale**2 * inverse**2, 2.0 * rate / scale**3 * inverse**3)
        first, second, third = (xp.where(far, b, a) for a, b in zip((first, second, third), limits, strict=True))
        return first, second, third

    def _parameter_derivatives(self, y: Array, f: Array) -> tuple[Array, ...]:
        """In log ν: ν·(log c)' + ½[w + ν(w − log(1 + x))], x = z²/ν, w = x/(1 + x); in log σ: (ν + 1)w − 1."""
        x = ((y - f) / self.scale) ** 2 / self.df
        w = 1.0 / (1.0 + 1.0 / x)  # right at 0 and at infinity
        in_df = _log_constant_slope(self.df) + 0.5 * (w + self.df * (w - namespace(f).log1p(x)))
        return in_df, (self.df + 1.0) * w - 1.0

    def _log_expected_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        parts = log_mean_student((y - m) / self.scale, v / self.scale**2, self.df, gradient)
        return self._rescaled(y - m, v, (parts[0] - math.log(self.scale), *parts[1:]))

    def _expected_log_density(self, y: Array, m: Array, v: Array, gradient: bool) -> tuple[Array, ...]:
        parts = mean_log_student((y - m) / self.scale, v / self.scale**2, self.df, gradient)
        value, *rest = self._rescaled(y - m, v, (parts[0] + self._log_c, *parts[1:]))
        if gradient:
            rest[2] = rest[2] + _log_constant_slope(self.df)
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
        by_df = turn * (rest[2] - _log_constant_slope(df)) + widening * (rest[3] + 1.0)
        return value, rest[0], rest[1], by_df + power * _log_constant_slope(self.df), rest[3] + (1.0 - power)

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
        if bool((v > 1e300).any()):
            raise ValueError(f"v: expected variances up to 1e300, got {float(v.max())!r}")
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
