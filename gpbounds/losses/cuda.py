"""The bounded losses on a GPU: one kernel computes an expectation and both of its slopes.

The formulas are those of the classes, whose docstrings derive them; the kernels also take the place of their
quadratures.  ``one`` and ``two`` stand for the numbers of the loss, ``s`` for √v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpbounds.arrays import Array
from gpbounds.losses.normal import FAR, ROOT_TWO_PI, nodes


@dataclass(frozen=True)
class LossSource:
    """The body of a kernel that computes ``value``, ``in_mean`` and ``in_variance`` from ``y``, ``m`` and ``v``.

    Attributes
    ----------
    body : str
    one, two : float
    """

    body: str
    one: float
    two: float = 0.0


_PREAMBLE = f"""
__device__ double cdf(double x) {{ return 0.5 * erfc(-0.7071067811865476 * x); }}
__device__ double density(double x) {{ return exp(-0.5 * x * x) / {ROOT_TWO_PI!r}; }}
__device__ double moment_density(double x) {{ return fmin(fmax(x, -{FAR!r}), {FAR!r}) * density(x); }}
__device__ double ratio(double x, double s) {{ return x == 0.0 ? 0.0 : x / s; }}
__device__ double rest(double a, double b) {{
  double total = a + b, part = total - a, cut = (a - (total - part)) + (b - part);
  return isfinite(cut) ? cut : 0.0;
}}
__device__ double plus(double high, double low, double offset) {{
  return (high + offset) + (rest(high, offset) + low);
}}
"""

_DEVIATION = "double s = sqrt(v), high = y - m, low = rest(y, -m);\n"


def _loop(power: int, n: int, line: str) -> str:
    """``line`` for the nodes x and weights w of `gpbounds.losses.normal.nodes`."""
    xs, ws = (", ".join(map(repr, column)) for column in zip(*nodes(power, n), strict=True))
    head = f"const double xs[] = {{{xs}}}, ws[] = {{{ws}}};\n"
    return f"{{ {head} for (int k = 0; k < {n}; ++k) {{ double x = xs[k], w = ws[k]; {line} }} }}\n"


@lru_cache
def outside(relative: bool) -> str:
    """1{f ∉ [y + one, y + two]}, or with ``relative`` [y + one·|y|, y + two·|y|]."""
    size = "fabs(y)" if relative else "1.0"
    return (
        _DEVIATION
        + f"volatile double lower = one * {size}, upper = two * {size};\n"  # no product may be fused with a sum
        + """
double below = plus(high, low, lower), above = plus(high, low, upper);
double a = ratio(below, s), b = ratio(above, s), slope, bend;
value = s == 0.0 ? (below > 0.0 || above < 0.0 ? 1.0 : 0.0) : cdf(a) + cdf(-b);
if (b - a < 2.0) {
  double middle = fmin(fmax(0.5 * (a + b), -80.0), 80.0), half = 0.5 * (b - a);
  slope = bend = 0.0;
"""
        + _loop(
            0,
            6,
            "double down = middle - x * half, up = middle + x * half, at_down = density(down), at_up = density(up);"
            " slope -= w * (down * at_down + up * at_up);"
            " bend += w * ((1.0 - down * down) * at_down + (1.0 - up * up) * at_up);",
        )
        + """
  slope *= half; bend *= half;
} else { slope = density(b) - density(a); bend = moment_density(b) - moment_density(a); }
in_mean = slope == 0.0 ? 0.0 : slope / s;
in_variance = bend == 0.0 ? 0.0 : 0.5 * bend / s / s;
"""
    )


@lru_cache
def squared() -> str:
    """min((y − f)²/one², 1)."""
    return (
        _DEVIATION
        + """
double size = fabs(high), sign = high > 0.0 ? 1.0 : (high < 0.0 ? -1.0 : 0.0);
double near = plus(size, sign * low, -one), a = ratio(near, s), b = ratio(size + one, s), width = s / one;
double tail = cdf(-fabs(a)), beyond = cdf(-b), within = (a > 0.0 ? tail : 1.0 - tail) - beyond;
double share = size / one, odd = 0.0, even = 0.0;
value = (a > 0.0 ? 1.0 - tail : tail) + beyond;
if (width > 1.0) {
  double e = 1.0 / width, delta = share / width, sum = 0.0;
"""
        + _loop(2, 5, "sum += w * (density(delta - x * e) + density(delta + x * e));")
        + "value += sum * e; delta = fmin(delta, 80.0);\n"
        + _loop(
            2,
            6,
            "double down = delta - x * e, up = delta + x * e, at_down = density(down);"
            " odd += w / x * at_down * expm1(-2.0 * x * e * delta);"
            " even += w / x * (up * density(up) - down * at_down);",
        )
        + """
  odd *= e; even *= e * e;
} else {
  double at_a = density(a), at_b = density(b), most = fmin(share, 40.0), edge = at_a + at_b;
  double drop = at_a == 0.0 ? 0.0 : -at_a * expm1(-2.0 * share / width / width);
  value += (most * most + width * width) * within - width * ((most + 1.0) * at_a - (most - 1.0) * at_b);
  odd = width * drop - most * within;
  even = within - (edge == 0.0 ? 0.0 : edge / width);
}
if (s == 0.0) value = near > 0.0 ? 1.0 : share * share;
in_mean = sign * (2.0 / one) * odd;
in_variance = even / one / one;
"""
    )


@lru_cache
def relative() -> str:
    """min(|f − y|/(one·|y|), 1)."""
    return (
        _DEVIATION
        + """
volatile double c = one * fabs(y);
double size = fabs(high), sign = high > 0.0 ? 1.0 : (high < 0.0 ? -1.0 : 0.0);
double near = plus(size, sign * low, -c), a = ratio(near, s), b = ratio(size + c, s);
double tail = cdf(-fabs(a)), beyond = cdf(-b), first = 0.0, second = 0.0;
value = (a > 0.0 ? 1.0 - tail : tail) + beyond;
if (s > c) {
  double e = c / s, delta = size / s, sum = 0.0;
"""
        + _loop(1, 5, "sum += w * (density(delta - x * e) + density(delta + x * e));")
        + "value += sum * e; delta = fmin(delta, 80.0);\n"
        + "".join(
            _loop(
                power,
                6,
                "double down = delta - x * e, up = delta + x * e, at_down = density(down), at_up = density(up);"
                f" second += {sign} * w * ((1.0 - down * down) * at_down + (1.0 - up * up) * at_up);"
                + (" first -= w / x * at_down * expm1(-2.0 * x * e * delta);" if power else ""),
            )
            for power, sign in ((0, 1.0), (1, -1.0))
        )
        + """
  first *= e; second *= e * e;
} else {
  double delta = ratio(size, s), ends = 2.0 * density(delta) - density(a) - density(b);
  first = (a > 0.0 ? tail : 1.0 - tail) + beyond - 2.0 * cdf(-delta);
  second = ends;
  value += fmin(size / c, 40.0) * first + (s / c) * ends;
}
if (s == 0.0) value = near > 0.0 ? 1.0 : size / c;
in_mean = -sign * first / c;
in_variance = second == 0.0 ? 0.0 : 0.5 * second / s / c;
"""
    )


EXPONENTIAL = """
double s = sqrt(v), root = hypot(one, 1.4142135623730951 * s), width = s / one, z = (y - m) / root;
double shrunk = -0.5 * log1p(2.0 * width * width), far = fmin(fmax(z, -40.0), 40.0), left = exp(shrunk - far * far);
value = -expm1(shrunk - z * z);
in_mean = -2.0 * far * left / root;
in_variance = left * (1.0 - 2.0 * far * far) / root / root;
"""
"""1 − exp(−(y − f)²/one²)."""

SIGN = """
double s = sqrt(v), x = -y * m, a = m == 0.0 && s == 0.0 ? 0.0 : m / s;
double slope = -y * density(a), bend = y * moment_density(a);
value = s == 0.0 ? (x >= 0.0 ? 1.0 : 0.0) : cdf(x / s);
in_mean = slope == 0.0 ? 0.0 : slope / s;
in_variance = bend == 0.0 ? 0.0 : 0.5 * bend / s / s;
"""
"""1{y f ≤ 0}."""


@lru_cache(maxsize=16)
def _compiled(body: str) -> Any:
    import cupy

    inputs = "float64 y, float64 m, float64 v, float64 one, float64 two"
    outputs = "float64 value, float64 in_mean, float64 in_variance"
    return cupy.ElementwiseKernel(inputs, outputs, body, "expected_loss", preamble=_PREAMBLE)


def expectation(source: LossSource, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """E ℓ(y, f) and its derivatives in m and v, for CuPy arrays of doubles that broadcast; NaN where v < 0."""
    value, in_mean, in_variance = _compiled(source.body)(y, m, v, source.one, source.two)
    return value, in_mean, in_variance
