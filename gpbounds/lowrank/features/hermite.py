"""Eigenfunctions of the squared exponential kernel under a Gaussian law, in one dimension, without overflow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import islice

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.numerics.pairs import times, two_product, two_sum

NORMAL = 600.0
"""Up to this exponent e^(−y²/4) is a normal float64, and all later terms stay in range."""
STEP = 512
"""Power of two by which scales are multiplied to keep them in range."""
LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
"""log 2 in two parts; the first ends in 21 zero bits, so that small multiples of it are exact."""


_EXACT = Context(prec=60, Emin=-(10**9), Emax=10**9)
"""A context of 60 digits.  Only its methods are used, so the global context does not change."""


def _pair(value: Decimal) -> tuple[float, float]:
    high = float(value)
    return high, float(_EXACT.subtract(value, Decimal(high)))


@dataclass(frozen=True)
class Expansion:
    """exp(−(x−x')²/(2ℓ²)) = Σ_n u_n(x) u_n(x'), n = 0, 1, …: u_n = √λ_n e_n, e_n orthonormal under N(0, s²).

    With β² = √(1 + 4s²/ℓ²) and q = (β²−1)/(β²+1): λ_n = (1−q)qⁿ and e_n(x) = β^½ e^(−δ²x²) ĥ_n(y), y = βx/s,
    ĥ_{n+1} = (y ĥ_n − √n ĥ_{n−1})/√(n+1), ĥ_0 = 1  (L-50, L-51, L-52; here n counts from 0).

    Since Σ_n u_n(x)² = k(x, x) = 1, every |u_n| ≤ 1; by Cramér |e_n(x)| ≤ β^½ e^(x²/(4s²)) (L-53).

    Rounding.  The first factor e^(−δ²x²) is computed with twice the digits.  The rounding error ε of y is corrected to
    first order: ĥ_n(y + ε) = ĥ_n(y) + ε√n ĥ_{n−1}(y).  The absolute error of u_n is then below 5e-15, as measured for n
    ≤ 900, |x| ≤ 25 s and ℓ/s from 0.01 to 10.  If the first factor would underflow, its exponent is stored separately.

    Parameters
    ----------
    lengthscale, std : float
        ℓ and s, in the units of x.

    >>> e = Expansion(1.0, 1.0)
    >>> u = e.table(np.array([0.3]), 60)
    >>> round(float((u**2).sum()), 12), (u[1:3, 0] / u[0, 0]).round(6).tolist()
    (1.0, [0.277253, -0.215736])
    """

    lengthscale: float
    std: float

    @cached_property
    def _constants(self) -> dict[str, Decimal]:
        c, unity, std = _EXACT, Decimal(1), Decimal(math.frexp(self.std)[0])
        ratio = c.divide(Decimal(self.std), Decimal(self.lengthscale))
        four = c.multiply(Decimal(4), c.multiply(ratio, ratio))
        root = c.sqrt(c.add(unity, four))  # β²
        denominator = c.add(root, unity)
        beta = c.sqrt(root)
        return {
            "beta": beta,
            "slope": c.divide(beta, std),
            "decay": c.divide(
                c.divide(four, denominator), c.multiply(Decimal(-4), c.multiply(std, std))
            ),  # −δ², β² − 1 = 4δ²
            "root_q": c.divide(c.sqrt(four), denominator),  # q = (β⁴ − 1)/(β² + 1)²
            "first": c.sqrt(c.multiply(c.divide(Decimal(2), denominator), beta)),  # √((1−q)β)
        }

    @cached_property
    def log_q(self) -> float:
        """log q = −2 arsinh(ℓ/(2s))."""
        return -2.0 * math.asinh(0.5 * self.lengthscale / self.std)

    @property
    def q(self) -> float:
        """The ratio of successive eigenvalues."""
        return math.exp(self.log_q)

    @cached_property
    def beta(self) -> float:
        """β."""
        return float(self._constants["beta"])

    def _scales(self) -> Iterator[tuple[float, int]]:
        """√(1−q) β^½ q^(n/2) for n = 0, 1, … as mantissa and power of two, correctly rounded."""
        exponent, value, ratio = 0, self._constants["first"], self._constants["root_q"]
        unit = Decimal(2**STEP)
        least = _EXACT.divide(Decimal(1), unit)
        while True:
            while value < least:
                value, exponent = _EXACT.multiply(value, unit), exponent - STEP
            yield float(value), exponent
            value = _EXACT.multiply(value, ratio)

    def steps(self, count: int) -> tuple[Array, Array, tuple[float, float], tuple[float, float], int]:
        """What `walk` needs for ``count`` terms: scales and their powers of two, slope, decay, shift of x."""
        scales, powers = zip(*islice(self._scales(), count), strict=True)
        pairs = _pair(self._constants["slope"]), _pair(self._constants["decay"])
        return np.array(scales), np.array(powers, dtype=np.float64), *pairs, math.frexp(self.std)[1]

    def walk(self, x: Array) -> Iterator[Array]:
        """An infinite iterator over u_0(x), u_1(x), …, each of the shape of ``x`` (B,)."""
        xp = namespace(x)
        x = xp.ldexp(x.astype(np.float64, copy=False), -math.frexp(self.std)[1])
        y, y_low = times(x, _pair(self._constants["slope"]))
        decay = _pair(self._constants["decay"])
        square, square_low = two_product(x, x)
        start, start_low = times(square, decay)
        start, start_low = two_sum(start, start_low + square_low * decay[0])
        exponent = None if bool(0.25 * (y * y).max() < NORMAL) else xp.floor(start / math.log(2.0))
        if exponent is None:
            now = xp.exp(start) * (1.0 + start_low)
        else:
            rest = (start - exponent * LN2[0]) - exponent * LN2[1]
            now = xp.exp(xp.clip(rest, -1.0, 1.0)) * (1.0 + xp.clip(start_low, -0.5, 0.5))
        before, root = xp.zeros_like(now), 0.0
        for n, (scale, power) in enumerate(self._scales()):
            after_root = math.sqrt(n + 1.0)
            after = (y * now - root * before) / after_root
            value = (now + y_low * (root * before)) * scale
            if exponent is None:
                yield value if power == 0 else xp.ldexp(value, power)
            else:
                yield xp.ldexp(value, xp.clip(exponent + power, -5000.0, 5000.0).astype(np.int32))
                shift = xp.frexp(xp.maximum(xp.abs(after), xp.abs(now)))[1]
                after, now, exponent = xp.ldexp(after, -shift), xp.ldexp(now, -shift), exponent + shift
            before, now, root = now, after, after_root

    def table(self, x: Array, count: int) -> Array:
        """u_n(x_i) for n < ``count``, shape (count, B), for x (B,) in the units of the standard deviation."""
        values = namespace(x).empty((count, x.size))
        for row, u in zip(values, self.walk(x), strict=False):
            row[...] = u
        return values

    def squares(self, x: Array, count: int) -> tuple[Array, Array]:
        """u_n(x_i)² for n < ``count``, (count, B), and Σ_{j≥n} u_j(x_i)² for n <= ``count``, (count + 1, B).

        1 minus the terms kept where a tenth or more is left; otherwise the terms themselves, until what
        :meth:`log_tail_bound` leaves is 1e-17 of their sum or 1e-300: no cancellation either way.
        """
        xp = namespace(x)
        kept, tails = xp.empty((count, x.size)), xp.empty((count + 1, x.size))
        walk = self.walk(x)
        for n in range(count):
            kept[n] = next(walk) ** 2
        left = 1.0 - kept.sum(axis=0)
        small = left < 0.1
        if bool(small.any()):
            tails[count] = xp.where(small, self._beyond(x, small, count, walk), left)
        else:
            tails[count] = left
        for n in range(count - 1, -1, -1):
            tails[n] = tails[n + 1] + kept[n]
        return kept, tails

    def _beyond(self, x: Array, wanted: Array, count: int, walk: Iterator[Array]) -> Array:
        """Σ_{n≥count} u_n² where ``wanted``; the ``walk`` goes on from n = count."""
        xp = namespace(x)
        rates, offsets = self.log_tail_bound(x[wanted])
        total = xp.zeros(x.size)
        for n, u in enumerate(walk, count):
            total += u * u
            if n % 8 == 7:
                enough = xp.maximum(xp.log(xp.maximum(total[wanted], 1e-300)) - 39.2, -690.0)
                if bool(((rates * (n + 1) + offsets).min(axis=0) <= enough).all()):
                    break
        return total

    def log_tail_bound(self, x: Array) -> tuple[Array, Array]:
        """a (T, 1) and b (T, B) with log Σ_{j≥n} u_j(x_i)² ≤ min_t a_t n + b_ti for every n.

        For q ≤ t < 1, by Mehler's Σ_j t^j ĥ_j(y)² = (1−t²)^(-½) e^(ty²/(1+t)) and q^j ≤ (q/t)ⁿ t^j for j ≥ n:

            Σ_{j≥n} u_j² ≤ (q/t)ⁿ √((1−q²)/(1−t²)) exp(y²(t−q)/((1+t)(1+q))),  equal at n = 0, t = q.

        Cramér's bound (L-53) is the case t → 1 without the root; it is loose for ℓ ≫ s.
        """
        xp, log_q = namespace(x), self.log_q
        shares = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8])
        above = np.array([0.1, 0.3, 0.7, 1.5, 3.0, 6.0, 12.0, 24.0])
        above = np.concatenate([-log_q * shares, above[above < -0.9 * log_q]])[:, None]  # log t − log q
        log_t, q = log_q + above, self.q
        roots = 0.5 * (np.log(-np.expm1(2.0 * log_q)) - np.log(-np.expm1(2.0 * log_t)))
        slopes = np.exp(log_t) * -np.expm1(-above) / ((1.0 + np.exp(log_t)) * (1.0 + q))
        y = x.astype(np.float64) * (self.beta / self.std)
        return xp.asarray(-above), xp.asarray(roots) + xp.asarray(slopes) * (y * y)[None]
