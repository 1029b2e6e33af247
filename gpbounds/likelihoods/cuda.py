"""The quadratures of likelihoods on a GPU: one kernel computes a mean over f ~ N(m, v) with its derivatives.

Each thread does for one entry what `gpbounds.likelihoods.concave`, `trapezoid` and `student_t` do for arrays; their
docstrings derive the formulas.  The host reads no result: an entry whose quadrature does not converge, or with v < 0,
becomes NaN.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpbounds.arrays import Array
from gpbounds.likelihoods import trapezoid
from gpbounds.likelihoods.special import HALF_LOG_TWO_PI, HAZARD, UNDERFLOW
from gpbounds.likelihoods.trapezoid import DROP

# The log-concave factors of `gpbounds.likelihoods.concave` as CUDA source; the formulas are those of the classes.
#
# Every source defines, for `gpbounds.likelihoods.cuda`, ``value_at``, ``slopes``, ``ratios``, ``set_base``, ``rise``,
# ``bends_at``, ``nearer`` and ``mode``.

POINT_MASS = 1e-200
"""A smaller variance does not change a mean in double precision."""

FAR = 5.0
"""For f above it log(−log(1 − T)) = log T + T/2 to 1e-13."""


@dataclass(frozen=True)
class FactorSource:
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

    def powered(self, power: float) -> FactorSource:
        """The source of `gpbounds.likelihoods.concave.Powered`."""
        own = self.density + self.base + self.place + self.nearer + self.mode
        plain = re.sub(r"\b(value_at|slopes|set_base|rise|nearer|mode)\(", r"plain_\1(", own)
        return FactorSource(plain + _POWERED.replace("POWER", repr(power)), RATIOS, "", "", "", "")


_SPECIAL = f"""
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

_SIGMOID = """
__device__ double value_at(double f, double y) { return -softplus(-f); }
__device__ void slopes(double f, double y, double *first, double *second) {
  *first = sigmoid(-f);
  *second = -*first * sigmoid(f);
}
"""

_NORMAL_CDF = """
__device__ double value_at(double f, double y) { return log_cdf(f); }
__device__ void slopes(double f, double y, double *first, double *second) { mills(f, first, second); }
"""

_SOFTPLUS = """
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

_SOFTPLUS_RATIOS = """
__device__ void ratios(double f, double y, double *first, double *second) {
  double up, down, curve;
  softplus_parts(f, &up, &down, first, &curve);
  *second = *first * down;
}
"""

_LOG_CDF = f"""
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

_EXPONENTIAL_RATE = """
__device__ double value_at(double f, double y) {
  return (y > 0.0 ? -y * bend(f - log(y)) : -exp(f)) - log_factorial_excess(y);
}
__device__ void slopes(double f, double y, double *first, double *second) {
  double rate = exp(f);
  *first = y > 0.0 ? -y * expm1(f - log(y)) : -rate;
  *second = -rate;
}
"""

_EXPONENTIAL_BASE = """
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

_EXPONENTIAL_NEARER = f"""
__device__ double nearer(double t, const double *base, double gap) {{
  for (int k = 0; k < 3; ++k) t = fmin(t, log1p(t + ({DROP!r} + fmax(gap, 0.0) * t) / base[1]));
  return t;
}}
"""

_EXPONENTIAL_MODE = """
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

_SOFTPLUS_RATE = """
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

_SOFTPLUS_BASE = f"""
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

# Defaults for a factor without its own; the mode lies between 0 and v ℓ', and not beyond the peak of ℓ.
RATIOS = """
__device__ void ratios(double f, double y, double *first, double *second) {
  slopes(f, y, first, second);
  *second += *first * *first;
}
"""
_BASE = """
__device__ void set_base(double f0, double y, double *base) { base[0] = value_at(f0, y); }
__device__ double rise(double t, double f0, double y, const double *base) { return value_at(f0 + t, y) - base[0]; }
"""
_BENDS = "__device__ double bends_at(double y) { return %s; }\n"
_FACTOR_PEAK = "__device__ int peak(double y, double *at) { %s }\n"
_NEARER = "__device__ double nearer(double t, const double *base, double gap) { return t; }\n"
_SEARCH = """
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


_POWERED = """
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

_MONOTONE = _BENDS % "0.0" + _FACTOR_PEAK % "return 0;"
SOURCES = {
    "Sigmoid": FactorSource(_SIGMOID, RATIOS, _BASE, _MONOTONE, _NEARER, _SEARCH),
    "NormalCdf": FactorSource(_NORMAL_CDF, RATIOS, _BASE, _MONOTONE, _NEARER, _SEARCH),
    "Softplus": FactorSource(_SOFTPLUS, _SOFTPLUS_RATIOS, _BASE, _MONOTONE, _NEARER, _SEARCH),
    "LogCdf": FactorSource(_LOG_CDF, "", _BASE, _MONOTONE, _NEARER, _SEARCH),
    "ExponentialRate": FactorSource(
        _EXPONENTIAL_RATE,
        RATIOS,
        _EXPONENTIAL_BASE,
        _BENDS % "log1p(y) + 1.0" + _FACTOR_PEAK % "return 0;",
        _EXPONENTIAL_NEARER,
        _EXPONENTIAL_MODE,
    ),
    "SoftplusRate": FactorSource(
        _SOFTPLUS_RATE,
        RATIOS,
        _SOFTPLUS_BASE,
        _BENDS % "0.0" + _FACTOR_PEAK % "*at = y + log(-expm1(-y)); return y > 0.0;",
        _NEARER,
        _SEARCH,
    ),
}
"""The sources by the name of the class in `gpbounds.likelihoods.concave`."""


# The quadratures of likelihoods on a GPU: one kernel computes a mean over f ~ N(m, v) with its derivatives.

_AGREED = f"""
  double both = half[0][0] + half[1][0];
  int good = fabs(half[0][0] - half[1][0]) <= {trapezoid.AGREEMENT!r} * both"""

SPREAD = """
__device__ double unbent(double reach, double kappa) {
  if (kappa <= 0.0) return reach;
  double scale = sqrt(3.0 * kappa);
  return 2.0 / scale * sinh(asinh(1.5 * scale * reach) / 3.0);
}
"""


def _rule(name: str, columns: str) -> str:
    """`trapezoid.integrate` for three columns: ``name``(P, low, high, bend, step, unit, sums) is 1 if it converged.

    ``columns``(t, P, out) computes the integrands; the second and third column are measured in ``unit`` and its square.
    """
    nodes = [2 * round(0.5 * trapezoid.NODES * trapezoid.GROWTH**k) for k in range(trapezoid.LEVELS)]
    return f"""
__device__ int {name}(const double *P, double low, double high, double bend, double step, double unit, double *sums) {{
  const int counts[] = {{{", ".join(map(str, nodes))}}};
  bend = fmin(fmax(bend, low), high);
  double below = (bend - low) / step, above = (high - bend) / step, roots = cbrt(below) + cbrt(above);
  double wanted = {trapezoid.PER_ROOT / trapezoid.NODES!r} * roots;
  double first = ceil(log(fmax(wanted, 1.0)) / {math.log(trapezoid.GROWTH)!r});
  if (!(first < {trapezoid.LEVELS}.0)) return 0;
  for (int level = (int)first; level < {trapezoid.LEVELS}; level += {trapezoid.DOUBLING}) {{
    int nodes = counts[level];
    double most = {trapezoid.UNITS!r} * nodes, cube = roots / most;
    double kappa = below + above > most ? cube * cube * cube : 0.0, start = -unbent(below, kappa);
    double width = (unbent(above, kappa) - start) / (nodes - 1);
    double half[2][3] = {{{{0.0, 0.0, 0.0}}, {{0.0, 0.0, 0.0}}}}, size[3] = {{0.0, 0.0, 0.0}};
    for (int j = 0; j < nodes; ++j) {{
      double x = start + j * width, square = kappa * x * x, out[3];
      {columns}(bend + step * (x + square * x), P, out);
      for (int c = 0; c < 3; ++c) {{
        double value = (1.0 + 3.0 * square) * out[c];
        half[j % 2][c] += value;
        size[c] += fabs(value);
      }}
    }}{_AGREED};
    for (int c = 1; c < 3; ++c)
      good = good && fabs(half[0][c] - half[1][c])
        <= {trapezoid.NEAR_ENOUGH!r} * size[c] + {trapezoid.NEGLIGIBLE!r} * (c == 1 ? unit : unit * unit) * both;
    if (good) {{
      for (int c = 0; c < 3; ++c) sums[c] = (half[0][c] + half[1][c]) * width * step;
      return 1;
    }}
  }}
  return 0;
}}
"""


def _log_mean(factor: FactorSource) -> str:
    """`concave.log_mean` as ``log_mean``(y, m, v, step, result), which is 1 if it converged."""
    return f"""{factor.text}
__device__ void columns(double t, const double *P, double *out) {{
  double v = P[1], d0 = P[2], f0 = P[3], first, second;
  double weight = exp(rise(t, f0, P[0], P + 5) - t * (t + 2.0 * d0) / (2.0 * v)), pull = (d0 + t) / v;
  ratios(f0 + t, P[0], &first, &second);
  out[0] = weight;
  out[1] = weight * (P[4] > 0.0 ? pull : first);
  out[2] = 0.5 * weight * (P[4] > 0.0 ? pull * pull - 1.0 / v : second);
}}
{SPREAD}{_rule("integrate", "columns")}
__device__ int log_mean(double y, double m, double v, double step, double *result) {{
  if (v < {POINT_MASS!r}) {{
    result[0] = value_at(m, y);
    ratios(m, y, result + 1, result + 2);
    result[2] *= 0.5;
    return 1;
  }}
  double P[9] = {{0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}}, ends[2], slope, curve, sums[3];
  double d0 = mode(m, v, y), f0 = m + d0;
  P[0] = y; P[1] = v; P[2] = d0; P[3] = f0;
  set_base(f0, y, P + 5);
  slopes(f0, y, &slope, &curve);
  P[4] = -curve * v > 1.0 ? 1.0 : 0.0;
  double gap = slope - d0 / v;
  for (int k = 0; k < 2; ++k) {{
    double sign = k ? 1.0 : -1.0, push = sign * gap * v, t = push + sqrt(push * push + {2.0 * trapezoid.DROP!r} * v);
    if (k) t = nearer(t, P + 5, gap);
    for (int n = 0; n < 60; ++n) {{
      double here = sign * t, drop = here * (here + 2.0 * d0) / (2.0 * v) - rise(here, f0, y, P + 5), first, second;
      slopes(f0 + here, y, &first, &second);
      double move = (drop - {trapezoid.DROP!r}) / (sign * ((here + d0) / v - first)), before = t;
      if (!(move > 0.0 && move < t)) move = 0.0;
      t -= move;
      if (n > 0 && !(move > before / 3.0)) break;
    }}
    ends[k] = t;
  }}
  double width = fmin(step, fmax(ends[0], ends[1]));
  if (!integrate(P, -ends[0], ends[1], bends_at(y) - f0, width, 1.0 / sqrt(v), sums)) return 0;
  result[0] = P[5] - d0 * d0 / (2.0 * v) + log(sums[0]) - {0.5 * math.log(2.0 * math.pi)!r} - 0.5 * log(v);
  result[1] = sums[1] / sums[0];
  result[2] = sums[2] / sums[0];
  return 1;
}}
"""


NARROW = f"""
__device__ void narrow_mean(double m, double v, double *result) {{
  double root = sqrt(v), parts[3];
  result[0] = result[1] = result[2] = 0.0;
  for (int j = 0; j < {trapezoid.NARROW_NODES}; ++j) {{
    double x = {trapezoid.NARROW_STEP!r} * (j - {0.5 * (trapezoid.NARROW_NODES - 1)!r});
    double w = {trapezoid.NARROW_STEP / math.sqrt(2.0 * math.pi)!r} * exp(-0.5 * x * x);
    with_derivatives(m + x * root, parts);
    for (int c = 0; c < 3; ++c) result[c] += w * parts[c];
  }}
  result[2] *= 0.5;
}}
"""

_MINUS_MEAN = f"""
int found = v >= 0.0;
double part[3];
if (found && v <= {trapezoid.WIDEST!r} && m <= highest) {{
  narrow_mean(m, v, part);
  for (int c = 0; c < 3; ++c) part[c] = -part[c];
}} else if (found && (found = log_mean(m, m, v, step, part))) {{
  part[0] = -exp(part[0]);
  part[1] *= part[0];
  part[2] *= part[0];
}}
value = found ? part[0] : nan("");
in_mean = found ? part[1] : nan("");
in_variance = found ? part[2] : nan("");
"""

_MEAN = """
double part[3];
int found = v >= 0.0 && log_mean(y, m, v, step, part);
value = found ? part[0] : nan("");
in_mean = found ? part[1] : nan("");
in_variance = found ? part[2] : nan("");
"""

_LOG_MEAN_SIGMOID = """
double part[3], z = y * m, odds;
int found = v >= 0.0 && log_mean(0.0, -fabs(z), v, step, part);
if (!found) part[0] = part[1] = part[2] = nan("");
odds = exp(part[0]) / -expm1(part[0]);
value = z > 0.0 ? log1p(-exp(part[0])) : part[0];
in_mean = y * (z > 0.0 ? odds : 1.0) * part[1];
in_variance = (z > 0.0 ? -odds : 1.0) * part[2];
"""

_LOG_MEAN_CDF = """
double total = 1.0 + v, root = sqrt(total), z = y * m / root, slope, curve;
mills(z, &slope, &curve);
value = log_cdf(z);
in_mean = y * slope / root;
in_variance = -0.5 * z * slope / total;
"""

_LOG_SOFTPLUS = f"""
__device__ void columns(double t, const double *P, double *out) {{
  double f = P[0] + t, z = t / P[1], ratio, curve, up, down;
  double weight = exp(-0.5 * z * z) / ({math.sqrt(2.0 * math.pi)!r} * P[1]);
  softplus_parts(f, &up, &down, &ratio, &curve);
  out[0] = weight * (1.0 + f - log_softplus(f, softplus(f)));
  out[1] = weight * ratio;
  out[2] = 0.5 * weight * curve;
}}
{SPREAD}{_rule("integrate", "columns")}"""

_MEAN_LOG_SOFTPLUS = f"""
double part[3], P[2], up, down, s = sqrt(v), reach = {1.2 * math.sqrt(2.0 * trapezoid.DROP)!r} * s;
int found = v >= 0.0;
if (v < {POINT_MASS!r}) {{
  part[0] = log_softplus(m, softplus(m));
  softplus_parts(m, &up, &down, part + 1, part + 2);
  part[2] *= 0.5;
}} else if (found) {{
  P[0] = m; P[1] = s;
  found = integrate(P, -reach, reach, -m, fmin(0.5, reach), 1.0 / s, part);
  part[0] = m + 1.0 - part[0];
}}
value = found ? part[0] : nan("");
in_mean = found ? part[1] : nan("");
in_variance = found ? part[2] : nan("");
"""


@lru_cache(maxsize=32)
def _compiled(inputs: str, outputs: str, body: str, preamble: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, outputs, body, "mean", preamble=preamble)


_OUTPUTS = "float64 value, float64 in_mean, float64 in_variance"


def log_mean(factor: FactorSource, step: float, y: Array, m: Array, v: Array) -> tuple[Array, ...]:
    """As `gpbounds.likelihoods.concave.log_mean` with its derivatives; ``step`` is that of the factor."""
    inputs = "float64 y, float64 m, float64 v, float64 step"
    results: tuple[Array, ...] = _compiled(inputs, _OUTPUTS, _MEAN, _SPECIAL + _log_mean(factor))(y, m, v, step)
    return results


def log_mean_sigmoid(step: float, y: Array, m: Array, v: Array) -> tuple[Array, ...]:
    """As `gpbounds.likelihoods.bernoulli._log_mean_sigmoid` of ym with its derivatives in m and v."""
    inputs, preamble = "float64 y, float64 m, float64 v, float64 step", _SPECIAL + _log_mean(SOURCES["Sigmoid"])
    results: tuple[Array, ...] = _compiled(inputs, _OUTPUTS, _LOG_MEAN_SIGMOID, preamble)(y, m, v, step)
    return results


def log_mean_cdf(y: Array, m: Array, v: Array) -> tuple[Array, ...]:
    """log Φ(ym/√(1 + v)) with its derivatives in m and v."""
    results: tuple[Array, ...] = _compiled("float64 y, float64 m, float64 v", _OUTPUTS, _LOG_MEAN_CDF, _SPECIAL)(
        y, m, v
    )
    return results


def minus_mean(factor: FactorSource, step: float, highest: float, m: Array, v: Array) -> tuple[Array, ...]:
    """−E A and its derivatives, with fixed nodes for v ≤ `trapezoid.WIDEST` and m ≤ ``highest``."""
    inputs, preamble = "float64 m, float64 v, float64 step, float64 highest", _SPECIAL + _log_mean(factor) + NARROW
    results: tuple[Array, ...] = _compiled(inputs, _OUTPUTS, _MINUS_MEAN, preamble)(m, v, step, highest)
    return results


def mean_log_softplus(m: Array, v: Array) -> tuple[Array, ...]:
    """As `gpbounds.likelihoods.poisson._mean_log_softplus` with its derivatives."""
    kernel = _compiled("float64 m, float64 v", _OUTPUTS, _MEAN_LOG_SOFTPLUS, _SPECIAL + _LOG_SOFTPLUS)
    results: tuple[Array, ...] = kernel(m, v)
    return results


def _march(setup: str, columns: str, count: int) -> str:
    """`student_t._marched`: ``setup`` sets start, step and reach, ``columns`` the array ``out`` at ``x``."""
    return f"""
double sums[{count}];
int found = 0;
{setup}
for (int turn = 0; turn < {trapezoid.HALVINGS} && !found && v >= 0.0; ++turn) {{
  double half[2][{count}], last = ceil((reach - start) / step);
  if (!(last < 1e9)) break;
  for (int c = 0; c < {count}; ++c) half[0][c] = half[1][c] = 0.0;
  for (int j = 0; j <= (int)last; ++j) {{
    double x = start + j * step, out[{count}];
    {columns}
    for (int c = 0; c < {count}; ++c) half[j % 2][c] += out[c];
  }}{_AGREED} + {trapezoid.SMALLEST!r};
  if (good) {{
    found = 1;
    for (int c = 0; c < {count}; ++c) sums[c] = step * (half[0][c] + half[1][c]);
  }}
  step *= 0.5;
}}
if (!found) for (int c = 0; c < {count}; ++c) sums[c] = nan("");
"""


PEAK = """
__device__ double density_at(double x, double square, double v, double df, double *first, double *second) {
  double w = exp(x), total = v + w, p = w / total, q = square / total, low = expm1(-x);
  *first = 0.5 * p * (q - 1.0) + 0.5 * df * low;
  *second = 0.5 * p * (1.0 - p) * (q - 1.0) - 0.5 * p * p * q - 0.5 * df / w;
  return -0.5 * log(total) - 0.5 * q - 0.5 * df * (x + low);
}
__device__ double peak(double square, double v, double df) {
  double middle = square - (2.0 * df + 1.0) * v, a, b, x = 0.0, best = density_at(0.0, square, v, df, &a, &b);
  double root = sqrt(fmax(middle * middle - 4.0 * df * (df + 1.0) * v * v, 0.0));
  double guesses[3] = {
    fmin(fmax((square - v - 1.0) / (df * (v + 1.0) * (v + 1.0)), -0.5), 3.0),
    log(fmax((middle + root) / (2.0 * (df + 1.0)), 1.0)),
    log((square + df) / (df + 1.0))
  };
  for (int k = 0; k < 3; ++k) {
    double value = density_at(guesses[k], square, v, df, &a, &b);
    if (value > best) { x = guesses[k]; best = value; }
  }
  for (int k = 0; k < 4; ++k) {
    density_at(x, square, v, df, &a, &b);
    x += fmin(fmax(a / fmax(fabs(b), 0.1), -1.0), 1.0);
    best = fmax(best, density_at(x, square, v, df, &a, &b));
  }
  return best;
}
"""

_STUDENT_INPUTS = "float64 d, float64 v, float64 df, float64 begin, float64 first_step, float64 mass, float64 slope"
_STUDENT_OUTPUTS = "float64 value, float64 in_d, float64 in_v, float64 in_df"


@lru_cache
def _log_mean_student() -> str:
    drop = repr(trapezoid.DROP)
    setup = f"""
double half_df = 0.5 * df, square = d * d, best = peak(square, v, df), start = begin, step = first_step;
double width = fmax({drop} - best - 0.5 * log(fmax(v, square)), 1.0) / half_df;
double reach = fmin(0.5 * width + sqrt(0.25 * width * width + 2.0 * width),
                    ({drop} - best + half_df) / (half_df + 0.5));
reach = fmax(reach, 2.0 / sqrt(half_df));
"""
    columns = """
double low = -half_df * (x + expm1(-x)), inverse = 1.0 / (v + exp(x));
double weight = exp(low - best - 0.5 * square * inverse) * sqrt(inverse);
out[0] = weight;
out[1] = -weight * d * inverse;
out[2] = 0.5 * weight * (square * inverse - 1.0) * inverse;
out[3] = low * weight;
"""
    return (
        _march(setup, columns, 4)
        + f"""
value = best + log(sums[0]) - {0.5 * math.log(2.0 * math.pi)!r} - mass;
in_d = sums[1] / sums[0];
in_v = sums[2] / sums[0];
in_df = sums[3] / sums[0] - half_df * slope;
"""
    )


@lru_cache
def _mean_log_student() -> str:
    setup = f"""
double a = v / df, b = d * d / df, size = 1.0 + a + b, start = begin, step = first_step;
double reach = log({trapezoid.DROP!r} * size);
"""
    columns = """
double low = exp(-x), t = exp(x - low) / size, at = a * t, inverse = 1.0 / (1.0 + 2.0 * at), bt = b * t * inverse;
double power = -0.5 * log1p(2.0 * at) - bt, weight = (1.0 + low) * exp(-t), rising = weight * t * inverse * exp(power);
out[0] = -weight * expm1(power);
out[1] = rising;
out[2] = rising * (1.0 - 2.0 * bt);
"""
    return (
        _march(setup, columns, 3)
        + """
double factor = -0.5 * (df + 1.0);
value = factor * sums[0];
in_d = factor * sums[1] * 2.0 * d / df;
in_v = factor * sums[2] / df;
in_df = -0.5 * df * sums[0] - v * in_v - 0.5 * d * in_d;
"""
    )


def log_mean_student(
    d: Array, v: Array, df: float, start: float, step: float, mass: float, slope: float
) -> tuple[Array, ...]:
    """As `gpbounds.likelihoods.student_t.log_mean_student` with its derivatives, for the numbers computed there."""
    kernel = _compiled(_STUDENT_INPUTS, _STUDENT_OUTPUTS, _log_mean_student(), PEAK)
    results: tuple[Array, ...] = kernel(d, v, df, start, step, mass, slope)
    return results


def mean_log_student(d: Array, v: Array, df: float, start: float, step: float) -> tuple[Array, ...]:
    """As `gpbounds.likelihoods.student_t.mean_log_student` with its derivatives."""
    kernel = _compiled(_STUDENT_INPUTS, _STUDENT_OUTPUTS, _mean_log_student(), "")
    results: tuple[Array, ...] = kernel(d, v, df, start, step, 0.0, 0.0)
    return results
