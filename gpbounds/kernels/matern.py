"""The Matérn family for any ν > 0, without overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import errors, pairs
from gpbounds.kernels.facts import unknown
from gpbounds.kernels.stationary import Stationary, feature_distance
from gpbounds.numerics.pairs import Pair, add, exp, multiply, square_root
from gpbounds.validation import positive, scalar

_MOST_PAIRS = 20
"""Largest p of Matérn-(p+½) in pairs: beyond a scaled distance of `pairs.FAR` it is below 1e-300."""
MOST = 12
"""Largest p for which a GPU evaluates ν = p + ½ by its polynomial."""


@dataclass(frozen=True, eq=False, init=False)
class Matern(Stationary, facts_hold=True):
    """k(x, x') = variance · 2^(1-ν)/Γ(ν) z^ν K_ν(z), z = √(2ν) r, r² = Σ_d (x_d - x'_d)²/lengthscale_d².

    Closed forms at half-integer ν (½: exponential), on NumPy and CuPy; other ν use the Bessel form, on NumPy only.
    Sample paths have ⌈ν⌉ - 1 derivatives.

    Parameters
    ----------
    nu : float
        Smoothness, > 0.
    variance, lengthscale : as in :class:`~gpbounds.kernels.SquaredExponential`

    Raises
    ------
    ValueError
        for a parameter that is not positive and finite, or for a CuPy array if ν is not a half-integer.

    >>> Matern(1.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.4834],
           [0.4834, 1.    ]])
    """

    nu: float = 0.5

    def __init__(self, nu: float, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> None:
        object.__setattr__(self, "nu", scalar(positive, "nu", nu))
        object.__setattr__(self, "variance", variance)
        object.__setattr__(self, "lengthscale", lengthscale)
        self.__post_init__()

    @property
    def is_half_integer(self) -> bool:
        """True when ν = p + ½ with p = 0, 1, 2, ...: then k is a polynomial times an exponential."""
        return (self.nu - 0.5).is_integer()

    def correlation(self, squared: Array) -> Array:
        """ρ_ν by the positive recurrence ρ_{μ+1} = ρ_μ + z²/(4μ(μ-1)) ρ_{μ-1}, z = √(2ν) r.

        It starts at μ in (0, 1] with ν - μ whole; at half-integers the first terms are e^(-z) and (1 + z) e^(-z).  Each
        step multiplies by a part of the factor e^(-z), so that no intermediate value under- or overflows before the
        result does.
        """
        xp = namespace(squared)
        if xp is not np and not self.is_half_integer:
            raise ValueError(f"nu: expected a half-integer (0.5, 1.5, 2.5, ...) for CuPy arrays, got {self.nu}")
        z = 2.0 * self.nu * squared
        xp.minimum(xp.sqrt(z, out=z), _far(self.nu), out=z)
        steps = math.ceil(self.nu) - 1
        mu = self.nu - steps
        decay = z / -max(steps, 1)
        xp.exp(decay, out=decay)
        high = _scaled_bessel(mu + 1.0 if steps else mu, z)
        high *= decay
        if steps > 1:
            low = _scaled_bessel(mu, z) * decay
        for step in range(1, steps):
            order = mu + step
            low, high = high * decay, (high + z * z * low / (4.0 * order * (order - 1.0))) * decay
        return xp.minimum(high, 1.0, out=high)  # ρ <= 1; rounding may exceed it

    @property
    def formula(self) -> str:
        p = self.nu - 0.5
        if not self.is_half_integer or p > MOST:
            return ""
        z = self._distance
        return f"variance * fmin({_polynomial(int(p), z)} * exp(-{z}), 1.0)"

    @property
    def slope_formula(self) -> str:
        z = self._distance
        if self.nu == 0.5:
            return f"({z} > 1e-150 ? variance * exp(-{z}) / {z} : 0.0)"
        return f"{self.nu / (self.nu - 1.0)!r} * variance * {_polynomial(int(self.nu - 1.5), z)} * exp(-{z})"

    @property
    def _distance(self) -> str:
        return f"fmin(sqrt({2.0 * self.nu!r} * s), {_far(self.nu)!r})"

    @property
    def expands(self) -> bool:
        """False if −2 dρ/d(r²) is unbounded or has a cusp at r = 0."""
        return self.nu >= 1.5

    def slope(self, squared: Array) -> Array:
        """−2 dρ_ν/d(r²) = ν/(ν−1) ρ_{ν−1}, z = √(2ν) r in both, for ν > 1; else 2ν c_ν z^(ν−1) K_{1−ν}(z), 0 at r = 0.

        c_ν = 2^(1−ν)/Γ(ν); from d/dz z^ν K_ν(z) = −z^ν K_{ν−1}(z).
        """
        xp = namespace(squared)
        if self.nu > 1.0:
            lower = Matern(self.nu - 1.0)
            return self.nu / (self.nu - 1.0) * lower.correlation(squared * (self.nu / (self.nu - 1.0)))
        z = xp.minimum(xp.sqrt(2.0 * self.nu * squared), 1e6)
        apart = z > 1e-150
        safe = xp.where(apart, z, 1.0)
        if self.nu == 0.5:
            return xp.where(apart, xp.exp(-safe) / safe, 0.0)
        from scipy.special import gamma, kve

        scaled = 2.0 ** (2.0 - self.nu) * self.nu / gamma(self.nu) * safe ** (self.nu - 1.0) * kve(1.0 - self.nu, safe)
        return xp.where(apart, scaled * xp.exp(-safe), 0.0)

    @property
    def in_pairs(self) -> bool:
        return self.is_half_integer and self.nu < _MOST_PAIRS + 1.0

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        squared = pairs.squared_distances(X1, X2, self.lengthscales(X1.shape[-1]))
        z = square_root(multiply(squared, (np.float64(2.0 * self.nu), np.float64(0.0))))
        polynomial: Pair = (np.zeros_like(z[0]), np.zeros_like(z[0]))
        for c in reversed(_coefficients(int(self.nu - 0.5))):
            high = float(c)
            polynomial = add(multiply(polynomial, z), (np.float64(high), np.float64(float(c - Fraction(high)))))
        return pairs.times(multiply(polynomial, exp((-z[0], -z[1]))), self.variance)

    def pair_error(self, reach: Float) -> float:
        """N-pairs."""
        p, c = int(self.nu - 0.5), 32.0 + 6.0 * len(reach)
        largest = sum(float(c_i) * ((i + 1) / math.e) ** (i + 1) for i, c_i in enumerate(_coefficients(p)))
        relative = 1.05 * pairs.U2 * ((0.5 * (18.0 + c) + 20.0) * largest + 24.0 * p + 63.0)
        return self.variance * (relative + pairs.TINY)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """From the error κ = z(D/2 + 8)u + (20p + 20)u of log k, ν = p + ½.

        |d log k/d log s| is at most z/2, z = √(2ν)r, as K_{ν−1} ≤ K_ν.  The recurrence has p factors exp(−z/p), whose
        relative errors add up to zu + 2·(exp's ulps)·pu, and fewer than 12 operations with positive numbers for each
        step.
        """
        if not self.is_half_integer:
            raise unknown(self)
        z, steps = np.sqrt(2.0 * self.nu) * np.sqrt(self._squared(X)), self.nu - 0.5
        ulps = 2 * errors.EXP_ULPS * max(steps, 1.0) + 12.0 * steps + 12.0
        rounded = z * (0.5 * X.shape[1] + 8.0) + ulps
        return errors.of_logarithms(self.variance, K, 1.01 * errors.U * rounded)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float] | None:
        if not self.is_half_integer:
            return None
        steps = self.nu - 0.5
        rounded = (
            math.sqrt(math.pi * self.nu) * (0.5 * X.shape[1] + 8.0)
            + 2 * errors.EXP_ULPS * max(steps, 1.0)
            + 12.0 * steps
            + 12.0
        )
        return self._proved(1.02 * errors.U * rounded)

    def value_bound(self, reach: Float) -> tuple[float, float]:
        return self._anywhere(reach, self.nu + 0.5)

    def bend(self, step: float) -> float:
        """√k(0)·step²/8, k(0) = 3v(2ν/ℓ²)²/((2ν − 2)(2ν − 4)), for ν > 2; step·ω/4 for ν = 3/2.

        ω is the greatest ‖φ'(x) − φ'(x + t)‖, t <= step.  Other ν: `feature_distance` at step, or at step/2 for ν = ½,
        where it is concave.
        """
        ratio = step / float(self.lengthscales(1)[0])
        if self.nu > 2.0:
            nu = 2.0 * self.nu
            return math.sqrt(3.0 * self.variance / ((nu - 2.0) * (nu - 4.0))) * nu * ratio**2 / 8.0
        if self.nu == 1.5:
            t = math.sqrt(3.0) * ratio  # k''(step) − k''(0) = v(1 − (1 − t)e^-t) in units of lengthscale/√3
            u = min(t, 2.0)  # where that is greatest
            return 0.25 * t * math.sqrt(2.0 * self.variance * (u * math.exp(-u) - math.expm1(-u)))
        return feature_distance(self, 0.5 * step if self.nu == 0.5 else step)

    def _key(self) -> tuple[object, ...]:
        return (*super()._key(), self.nu)


def _polynomial(p: int, z: str) -> str:
    """e^z ρ(z) for ν = p + ½ as a CUDA expression: Σ_i p! (2p − i)!/((2p)! i! (p − i)!) (2z)^i, whose terms are ≥ 0.

    >>> _polynomial(2, "z")
    '(1.0 + z * (1.0 + z * (0.3333333333333333)))'
    """
    text = ""
    for i in range(p, -1, -1):
        whole = math.factorial(p) * math.factorial(2 * p - i) * 2**i
        coefficient = whole / (math.factorial(2 * p) * math.factorial(i) * math.factorial(p - i))
        text = f"({coefficient!r} + {z} * {text})" if text else f"({coefficient!r})"
    return text


def _coefficients(p: int) -> list[Fraction]:
    """c_i = p!(2p − i)! 2^i/((2p)! i! (p − i)!): ρ(z) = Σ_i c_i z^i e^−z for ν = p + ½."""
    f = math.factorial
    return [Fraction(f(p) * f(2 * p - i) * 2**i, f(2 * p) * f(i) * f(p - i)) for i in range(p + 1)]


def _far(nu: float) -> float:
    """A z beyond which ρ_ν underflows; clipping to it avoids ∞ · 0 where r overflows."""
    return 1e6 + 1e3 * nu


def _scaled_bessel(mu: float, z: Array) -> Array:
    """2^(1-μ)/Γ(μ) z^μ K_μ(z) e^z for 0 < μ <= 2; exactly 1 at z = 0."""
    if mu == 0.5:
        return namespace(z).ones_like(z)
    if mu == 1.5:
        return 1.0 + z
    from scipy.special import gamma, kve

    # Computed in double precision for every type of z.  Below these limits K_μ overflows, and the product is 1.
    wide = z.astype(np.float64)
    tiny = wide < (1e-100 if mu > 1.0 else np.finfo(np.float64).tiny)
    safe = np.where(tiny, 1.0, wide)
    return np.where(tiny, 1.0, 2.0 ** (1.0 - mu) / gamma(mu) * safe**mu * kve(mu, safe)).astype(z.dtype)
