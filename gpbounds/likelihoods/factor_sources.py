"""The log-concave factors of `gpbounds.likelihoods.factors` as CUDA source; the formulas are those of the classes.

Every source defines, for `gpbounds.likelihoods.cuda`, ``value_at``, ``slopes``, ``ratios``, ``set_base``, ``rise``,
``bends_at``, ``nearer`` and ``mode``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gpbounds.likelihoods.special import HALF_LOG_TWO_PI, HAZARD, UNDERFLOW
from gpbounds.likelihoods.trapezoid import DROP

POINT_MASS = 1e-200
"""A smaller variance does not change a mean in double precision."""

FAR = 5.0
"""For f above it log(−log(1 − T)) = log T + T/2 to 1e-13."""


@dataclass(frozen=True)
class Source:
    """A factor for a kernel, as functions of the device.

    Attributes
    ----------
    density : str
        ``value_at`` and ``slopes``.
    ratios, base, place, nearer, mode : str
        ``ratios``; ``set_base`` and ``rise``; ``bends_at`` and ``peak``; ``nearer``; ``mode``.
    """

    density: str
    ratios: str
    base: str
    place: str
    nearer: str
    mode: str

    @property
    def text(self) -> str:
        """All functions."""
        return self.density + self.ratios + self.base + self.place + self.nearer + self.mode

    def powered(self, power: float) -> Source:
        """The source of `gpbounds.likelihoods.factors.Powered`."""
        own = self.density + self.base + self.place + self.nearer + self.mode
        plain = re.sub(r"\b(value_at|slopes|set_base|rise|nearer|mode)\(", r"plain_\1(", own)
        return Source(plain + POWERED.replace("POWER", repr(power)), RATIOS, "", "", "", "")


SPECIAL = f"""
__device__ double softplus(double f) {{ return fmax(f, 0.0) + log1p(exp(-fabs(f))); }}
__device__ double sigmoid(double f) {{ double q = exp(-fabs(f)); return (f > 0.0 ? 1.0 : q) / (1.0 + q); }}
__device__ double log_softplus(double f, double g) {{ return f < {UNDERFLOW!r} ? f : log(g); }}
__device__ double bend(double t) {{
  if (fabs(t) >= 0.03) return expm1(t) - t;
  return t * t * (0.5 + t * (1.0 / 6 + t * (1.0 / 24 + t * (1.0 / 120 + t * (1.0 / 720 + t * (1.0 / 5040
    + t / 40320))))));
}}
__device__ void softplus_parts(double f, double *up, double *down, double *ratio, double *curve) {{
  f = fmax(f, {UNDERFLOW!r});
  double q = exp(-fabs(f)), g = fmax(f, 0.0) + log1p(q), inverse = 1.0 / (1.0 + q);
  *up = f > 0.0 ? inverse : q * inverse;
  *down = f > 0.0 ? q * inverse : inverse;
  *ratio = *up / g;
  *curve = -*ratio * (g < 1.0 ? bend(g) * *down : 1.0 - (1.0 + g) * *down) / g;
}}
__device__ double log_cdf(double f) {{
  if (f > -1.0) return log1p(-0.5 * erfc(f * {math.sqrt(0.5)!r}));
  return log(0.5 * erfcx(-f * {math.sqrt(0.5)!r})) - 0.5 * f * f;
}}
__device__ void mills(double f, double *first, double *second) {{
  if (f >= -6.0) {{
    *first = {HAZARD!r} / erfcx(-f * {math.sqrt(0.5)!r});
    *second = -*first * (f + *first);
    return;
  }}
  double tail = 0.0;
  for (int k = 24; k > 3; --k) tail = k / (tail - f);
  double e = 1.0 / (2.0 / (3.0 / (tail - f) - f) - f);
  *first = e - f;
  *second = -*first * e;
}}
__device__ double log_factorial_excess(double y) {{
  if (y < 1.0) return 0.0;
  if (y < 15.0) return lgamma(y + 1.0) - y * log(y) + y;
  double r = 1.0 / y, s = r * r;
  return 0.5 * log(y) + {HALF_LOG_TWO_PI!r}
    + r * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s / 1188))));
}}
"""

SIGMOID = """
__device__ double value_at(double f, double y) { return -softplus(-f); }
__device__ void slopes(double f, double y, double *first, double *second) {
  *first = sigmoid(-f);
  *second = -*first * sigmoid(f);
}
"""

NORMAL_CDF = """
__device__ double value_at(double f, double y) { return log_cdf(f); }
__device__ void slopes(double f, double y, double *first, double *second) { mills(f, first, second); }
"""

SOFTPLUS = """
__device__ double value_at(double f, double y) { return log_softplus(f, softplus(f)); }
__device__ void slopes(double f, double y, double *first, double *second) {
  double up, down;
  softplus_parts(f, &up, &down, first, second);
}
__device__ void with_derivatives(double f, double *parts) {
  parts[0] = softplus(f);
  parts[1] = sigmoid(f);
  parts[2] = parts[1] * sigmoid(-f);
}
"""

SOFTPLUS_RATIOS = """
__device__ void ratios(double f, double y, double *first, double *second) {
  double up, down, curve;
  softplus_parts(f, &up, &down, first, &curve);
  *second = *first * down;
}
"""

LOG_CDF = f"""
__device__ double log_tail(double x, double *scaled) {{
  *scaled = erfcx(x * {math.sqrt(0.5)!r});
  return log(0.5 * *scaled) - 0.5 * x * x;
}}
__device__ double steepness(double f, double tail, double hazard, double *curve) {{
  double x = fabs(f), steep = f > 0.0 ? hazard * tail / (1.0 - tail) : hazard, excess = hazard - x;
  if (x > 10.0) {{
    excess = 0.0;
    for (int k = 8; k > 0; --k) excess = k / (x + excess);
  }}
  *curve = f > 0.0 ? f + steep : excess;
  return steep;
}}
__device__ void with_derivatives(double f, double *parts) {{
  double scaled, low = log_tail(fabs(f), &scaled), tail = exp(low), curve;
  double steep = steepness(f, tail, {HAZARD!r} / scaled, &curve);
  parts[0] = f > 0.0 ? -log1p(-tail) : -low;
  parts[1] = -steep;
  parts[2] = steep * curve;
}}
__device__ double value_at(double f, double y) {{
  double scaled, low = log_tail(fabs(f), &scaled), tail = exp(low);
  return f > {FAR!r} ? low + 0.5 * tail : log(f > 0.0 ? -log1p(-tail) : -low);
}}
__device__ void ratios(double f, double y, double *first, double *second) {{
  double scaled, low = log_tail(fabs(f), &scaled), tail = exp(low), hazard = {HAZARD!r} / scaled, curve;
  double steep = steepness(f, tail, hazard, &curve);
  *first = -(f > {FAR!r} ? hazard * (1.0 + 0.5 * tail) : steep / (f > 0.0 ? -log1p(-tail) : -low));
  *second = -*first * curve;
}}
__device__ void slopes(double f, double y, double *first, double *second) {{
  ratios(f, y, first, second);
  *second -= *first * *first;
}}
"""

EXPONENTIAL_RATE = """
__device__ double value_at(double f, double y) {
  return (y > 0.0 ? -y * bend(f - log(y)) : -exp(f)) - log_factorial_excess(y);
}
__device__ void slopes(double f, double y, double *first, double *second) {
  double rate = exp(f);
  *first = y > 0.0 ? -y * expm1(f - log(y)) : -rate;
  *second = -rate;
}
"""

EXPONENTIAL_BASE = """
__device__ void set_base(double f0, double y, double *base) {
  double second;
  base[0] = value_at(f0, y);
  base[1] = exp(f0);
  slopes(f0, y, base + 2, &second);
}
__device__ double rise(double t, double f0, double y, const double *base) {
  return base[2] * t - base[1] * (base[1] > 1e6 ? bend(t) : expm1(t) - t);
}
"""

EXPONENTIAL_NEARER = f"""
__device__ double nearer(double t, const double *base, double gap) {{
  for (int k = 0; k < 3; ++k) t = fmin(t, log1p(t + ({DROP!r} + fmax(gap, 0.0) * t) / base[1]));
  return t;
}}
"""

EXPONENTIAL_MODE = """
__device__ double mode(double m, double v, double y) {
  double z = m + v * y + log(v), root = z > 1.0 ? log(z) : z, first, second;
  for (int k = 0; k < 6; ++k) {
    double power = exp(root);
    root -= (power + root - z) / (1.0 + power);
  }
  double delta = v * y < 1.0 ? v * y - exp(root) : root - log(v) - m;
  slopes(m + delta, y, &first, &second);
  return delta + (first - delta / v) / (1.0 / v - second);
}
"""

SOFTPLUS_RATE = """
__device__ double value_at(double f, double y) {
  double g = softplus(f);
  return (y > 0.0 ? -y * bend(log_softplus(f, g) - log(y)) : -g) - log_factorial_excess(y);
}
__device__ void slopes(double f, double y, double *first, double *second) {
  double up, down, ratio, curve;
  softplus_parts(f, &up, &down, &ratio, &curve);
  *first = y * ratio - up;
  *second = y * curve - up * down;
}
"""

SOFTPLUS_BASE = f"""
__device__ void set_base(double f0, double y, double *base) {{
  base[0] = value_at(f0, y);
  base[1] = softplus(f0);
  base[2] = log_softplus(f0, base[1]);
}}
__device__ double rise(double t, double f0, double y, const double *base) {{
  double f = f0 + t, g = softplus(f), change = g - base[1], ratio = f < {UNDERFLOW!r} ? f - base[2] : log(g / base[1]);
  if (base[1] > 2000.0 && change > -0.5 * base[1]) ratio = log1p(fmax(change / base[1], -0.5));
  return y * ratio - change;
}}
"""

# What a factor does not define itself; the mode lies between 0 and v ℓ', and not beyond the peak of ℓ.
RATIOS = """
__device__ void ratios(double f, double y, double *first, double *second) {
  slopes(f, y, first, second);
  *second += *first * *first;
}
"""
BASE = """
__device__ void set_base(double f0, double y, double *base) { base[0] = value_at(f0, y); }
__device__ double rise(double t, double f0, double y, const double *base) { return value_at(f0 + t, y) - base[0]; }
"""
BENDS = "__device__ double bends_at(double y) { return %s; }\n"
PEAK = "__device__ int peak(double y, double *at) { %s }\n"
NEARER = "__device__ double nearer(double t, const double *base, double gap) { return t; }\n"
SEARCH = """
__device__ double mode(double m, double v, double y) {
  double first, second, at;
  slopes(m, y, &first, &second);
  double reach = v * first, low = fmin(reach, 0.0), high = fmax(reach, 0.0), x = 0.0;
  if (peak(y, &at)) {
    low = fmax(low, fmin(at - m, 0.0));
    high = fmin(high, fmax(at - m, 0.0));
  }
  for (int k = 0; k < 200; ++k) {
    slopes(m + x, y, &first, &second);
    double slope = first - x / v, curve = 1.0 / v - second;
    if (slope >= 0.0) low = x;
    if (slope <= 0.0) high = x;
    if (slope * slope <= 0.04 * curve || low >= high) return x;
    double step = x + slope / curve;
    x = step > low && step < high && k % 4 < 3 ? step : 0.5 * (low + high);
  }
  return nan("");
}
"""


POWERED = """
__device__ double value_at(double f, double y) { return POWER * plain_value_at(f, y); }
__device__ void slopes(double f, double y, double *first, double *second) {
  plain_slopes(f, y, first, second);
  *first *= POWER;
  *second *= POWER;
}
__device__ void set_base(double f0, double y, double *base) {
  plain_set_base(f0, y, base + 1);
  base[0] = POWER * base[1];
}
__device__ double rise(double t, double f0, double y, const double *base) {
  return POWER * plain_rise(t, f0, y, base + 1);
}
__device__ double nearer(double t, const double *base, double gap) {
  double scaled[3];
  for (int c = 0; c < 3; ++c) scaled[c] = POWER * base[c + 1];
  return plain_nearer(t, scaled, gap);
}
__device__ double mode(double m, double v, double y) { return plain_mode(m, POWER * v, y); }
"""

_MONOTONE = BENDS % "0.0" + PEAK % "return 0;"
SOURCES = {
    "Sigmoid": Source(SIGMOID, RATIOS, BASE, _MONOTONE, NEARER, SEARCH),
    "NormalCdf": Source(NORMAL_CDF, RATIOS, BASE, _MONOTONE, NEARER, SEARCH),
    "Softplus": Source(SOFTPLUS, SOFTPLUS_RATIOS, BASE, _MONOTONE, NEARER, SEARCH),
    "LogCdf": Source(LOG_CDF, "", BASE, _MONOTONE, NEARER, SEARCH),
    "ExponentialRate": Source(
        EXPONENTIAL_RATE,
        RATIOS,
        EXPONENTIAL_BASE,
        BENDS % "log1p(y) + 1.0" + PEAK % "return 0;",
        EXPONENTIAL_NEARER,
        EXPONENTIAL_MODE,
    ),
    "SoftplusRate": Source(
        SOFTPLUS_RATE,
        RATIOS,
        SOFTPLUS_BASE,
        BENDS % "0.0" + PEAK % "*at = y + log(-expm1(-y)); return y > 0.0;",
        NEARER,
        SEARCH,
    ),
}
"""By the name of the class in `gpbounds.likelihoods.factors`."""
