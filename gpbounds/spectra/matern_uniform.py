"""Half-integer Matérn kernels, uniform inputs on an interval: eigenvalues to rounding, upper bounds on tails."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.bound import Bound
from gpbounds.errors import NotConverged
from gpbounds.inputs import Uniform
from gpbounds.kernels import Matern
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.interval import GridSum, frequencies, log_density
from gpbounds.spectra.state_space import amplitude, factor, squared_singular_values
from gpbounds.validation import count as one_count
from gpbounds.validation import whole

ACCURACY = 1e-8  # guaranteed relative accuracy of eigenvalues()
SEPARATE = -37.0  # below this logarithm the coupling of the interval's ends is below double precision


class MaternUniform(Spectrum):
    """The Mercer spectrum of a Matérn kernel with ν = p + ½ for x uniform on an interval of length L.

    With S(ω) = v A c^(2p+1)/(c² + ω²)^(p+1) the spectral density, c = √(2ν)/lengthscale, for every m >= 1

        S((m + p)π/L)/L  <=  λ_m  <=  S(max(m - p - 1, 0)π/L)/L,      hence      Σ_{m>M} λ_m <= Σ_{j>=M-p} S(jπ/L)/L.

    The proof is that of N-grid.  For p = 0 this is L-49b.

    The tail returned is the least of this sum, of the trace, and of Ky Fan's bound (L-49c) in the first n Legendre
    polynomials: Σ_{M<i<=n} of the Ritz values, plus the trace on the other polynomials (in closed form), plus an
    allowance for rounding (64·n·eps of the trace, checked at 50 digits, not proved: bounds that use these tails are not
    certified).  While c L <= 128 it exceeds the true tail by
    less than 1 % for M <= 60 and tails above 1e-20 of the trace, and by a factor 1 + O((p + 1)/M) for larger M.  For
    larger c L no Ritz values are used if the phase equation is exact from the first eigenvalue on: the excess is then
    that of the sum alone, largest near c L = 128 (7 %, 17 %, 33 % for p = 1, 2, 3), and decreases as c L grows.

    Eigenvalues are λ_m = S(ω_m)/L, where ω_m solves the phase equation of :func:`interval.frequencies` once the two
    ends decouple (after 12 to 40 eigenvalues, or from the first for c L > 60), and Ritz values before.

    Parameters
    ----------
    kernel : Matern with half-integer nu
    inputs : Uniform in one dimension

    Raises
    ------
    ValueError
        for another kernel or another law.
    NotConverged
        from ``eigenvalues`` when the Ritz values do not agree to 1e-8.

    >>> s = MaternUniform(Matern(1.5), Uniform(0.0, 1.0))
    >>> s.eigenvalues(3).round(6).tolist()
    [0.869759, 0.109126, 0.015546]
    >>> lower, upper = s.eigenvalue_bounds(100)
    >>> bool(lower < s.eigenvalues(100)[-1] < upper), bool(s.tail(100) <= s.tail_bound(100))
    (True, True)
    """

    certified = True
    source = "L-49a, L-49c"
    note = (
        "The tail is a proven upper bound (Ky Fan with Ritz values, or the spectral density on a grid); "
        "the eigenvalues are exact to 1e-8."
    )

    def __init__(self, kernel: Matern, inputs: Uniform) -> None:
        if not isinstance(kernel, Matern) or not kernel.is_half_integer:
            raise ValueError(f"kernel: expected Matern with nu = 0.5, 1.5, 2.5, ..., got {kernel!r}")
        if not isinstance(inputs, Uniform) or inputs.dim != 1:
            raise ValueError(f"inputs: expected Uniform in one dimension, got {inputs!r}")
        self.kernel, self.inputs = kernel, inputs
        self.trace = kernel.variance
        self._p = int(kernel.nu - 0.5)
        self._gamma = math.sqrt(2.0 * kernel.nu) * float(inputs.widths[0] / kernel.lengthscales(1)[0])

    # Eigenvalues, all for variance 1 and an interval of length 1.

    @cached_property
    def _decoupled(self) -> int:
        """The first index from which the phase equation is exact to rounding."""
        size = 64
        while True:
            _, log_error = frequencies(self._p, self._gamma, np.arange(1.0, size + 1.0))
            accurate = np.flatnonzero(log_error < SEPARATE)
            if accurate.size:
                return int(accurate[0]) + 1
            size *= 2

    @cached_property
    def _ritz(self) -> Float:
        """Ritz values in the first n Legendre polynomials; empty if they are neither needed nor resolved."""
        if self._gamma > 128.0 and self._decoupled == 1:
            return np.empty(0)
        n = int(max(128, 2 * self._decoupled + 64, self._gamma))
        return squared_singular_values(factor(self._p, self._gamma, n))

    @cached_property
    def _coupled(self) -> Float:
        """The eigenvalues before ``_decoupled``, checked against a smaller basis and the phase equation."""
        first = self._decoupled
        if first == 1:
            return np.empty(0)
        size, overlap = self._ritz.size, np.arange(first, first + 4)
        smaller = squared_singular_values(factor(self._p, self._gamma, 3 * size // 4))
        other = np.concatenate([smaller[: first - 1], self._from_phase(overlap.astype(np.float64))])
        error = np.abs(other / self._ritz[: other.size] - 1.0)
        if not (error <= ACCURACY).all():
            accurate = int(np.argmin(error <= ACCURACY))
            raise NotConverged(
                f"eigenvalues of Matern(nu={self.kernel.nu}) on an interval of {self._gamma:.3g}/√(2ν) lengthscales: "
                f"{size} Legendre polynomials give the first {accurate} to {ACCURACY}, the next one differs by "
                f"{error[accurate]:.1e}; a smaller nu or a shorter lengthscale helps, and tail() stays valid"
            )
        return self._ritz[: first - 1]

    def _from_phase(self, index: Float) -> Float:
        omega, _ = frequencies(self._p, self._gamma, index)
        return np.exp(log_density(self._p, self._gamma, omega))

    def eigenvalues(self, count: int) -> Float:
        count = one_count("count", count)
        later = np.arange(float(self._decoupled), count + 1.0)
        return self.trace * np.concatenate([self._coupled[:count], self._from_phase(later)])

    def eigenvalue_bounds(self, index: ArrayLike) -> tuple[Bound, Bound]:
        """S((m + p)π/L)/L <= λ_m <= S(max(m - p - 1, 0)π/L)/L for whole numbers m >= 1 of any shape (new; see above).

        Each is sharp up to a factor 1 + O((p + 1)/m).
        """
        m = whole("index", index, 1)
        indices = {"lower": m + self._p, "upper": np.maximum(m - self._p - 1.0, 0.0)}
        lower, upper = (
            Bound(
                self.trace * np.exp(log_density(self._p, self._gamma, math.pi * j)),
                "lower" if side == "lower" else "upper",
                1.0,
                "L-49a",
                {"frequency": math.pi * j / float(self.inputs.widths[0])},
                (f"Matérn kernel with nu = {self.kernel.nu}, inputs uniform on an interval.",),
                quantity="eigenvalue",
            )
            for side, j in indices.items()
        )
        return lower, upper

    # Tails.

    @cached_property
    def _grid(self) -> GridSum:
        return GridSum(self._p, self._gamma)

    def _log_closed(self, M: Float) -> Float:
        """log of the closed bound, variance 1: the grid sum plus S(0)/L for each m <= p + 1, at most the trace."""
        missing = np.maximum(self._p - M, 0.0)
        log_top = log_density(self._p, self._gamma, np.zeros(1)) + np.log(np.maximum(missing, 1.0))
        total = self._grid(np.maximum(M - self._p, 0.0))
        return np.minimum(np.where(missing > 0.0, np.logaddexp(total, log_top), total), 0.0)

    @cached_property
    def _log_ky_fan(self) -> Float:
        """log of Ky Fan's bound on the tail for M = 0 ... n and variance 1; empty without Ritz values."""
        n = self._ritz.size
        if n == 0:
            return np.empty(0)
        beyond = np.concatenate([[0.0], np.cumsum(self._ritz[::-1])])[::-1]
        # 64 n eps covers the factor (each entry to a few eps), the SVD (n eps at worst) and the omitted columns.
        rounding = 64.0 * n * EPS
        rest = min(math.exp(self._log_rest(n)), max(1.0 - beyond[0], 0.0) + rounding)
        return np.log((np.sqrt(beyond) + rounding) ** 2 + rest)

    def _log_rest(self, n: int) -> float:
        """log of an upper bound on Σ_{j>=n} <e_j, K e_j> over the Legendre polynomials, n > p + 1, variance 1.

        With s = p + 1 and f(ω) <= A γ^(2p+1) ω^(-2s), <e_j, K e_j> = (2j+1)/π ∫_0^∞ f(ω) j_j(ω/2)² dω is a
        Weber-Schafheitlin integral, B 2x/∏_{|i|<=s}(x + i) at x = j + ½, whose sum telescopes.
        """
        s = self._p + 1.0
        constant = (
            math.log(amplitude(self._p)) + (2.0 * s - 1.0) * math.log(self._gamma) - (4.0 * s + 1.0) * math.log(2)
        )
        constant += math.lgamma(2.0 * s + 1.0) - 2.0 * math.lgamma(s + 1.0) - math.log(2.0 * s - 1.0)
        first, second = (float(-np.log(n + shift + np.arange(-s, s - 1.0)).sum()) for shift in (0.5, 1.5))
        return constant + float(np.logaddexp(first, second))

    def _log_tail(self, M: Float) -> Float:
        log_share = self._log_closed(M)
        n = self._log_ky_fan.size
        if n:
            ritz = self._log_ky_fan[np.minimum(M, n - 1.0).astype(np.int64)]
            log_share = np.where(n > M, np.minimum(log_share, ritz), log_share)
        return log_share + math.log(self.trace)

    def tail_bound(self, M: ArrayLike) -> Bound:
        """The closed bound Σ_{m>M} λ_m <= Σ_{j>=M-p} S(jπ/L)/L (and at most the trace), for any whole M >= 0.

        New; it gives explicit constants C and s₀ for L-49a.  It exceeds the tail by a factor 1 + O((p + 1)/M).  Not
        certified: that its allowance of 1e-12 exceeds the errors of rounding and of the Gauss rule is measured.

        >>> float(MaternUniform(Matern(1.5), Uniform(0.0, 1.0)).tail_bound(10).value.round(6))
        0.000114
        """
        counts = whole("M", M, 0)
        log_share = self._log_closed(np.atleast_1d(counts)).reshape(counts.shape)
        return Bound(
            self.trace * np.exp(log_share),
            "upper",
            1.0,
            "L-49a",
            {"log_value": log_share + math.log(self.trace)},
            (
                f"Matérn kernel with nu = {self.kernel.nu}, inputs uniform on an interval.",
                "The allowance for rounding and for the Gauss rule of an integral, 1e-12 of the value, is measured, "
                "not proved.",
            ),
            certified=False,
            quantity="tail of the spectrum",
        )

    def decay_constant(self, start: int) -> float:
        """C with λ_m <= C m^(-2ν-1) for m >= start and Σ_{m>M} λ_m <= C M^(-2ν)/(2ν) for M >= start (L-49a, R-cl4).

        C = v A (cL)^(2ν)/π^(2ν+1) (start/(start - p - 1))^(2ν+1); as ``start`` grows it decreases to the sharp
        constant.

        Raises
        ------
        ValueError
            unless start >= p + 2.

        >>> s = MaternUniform(Matern(1.5), Uniform(0.0, 1.0))
        >>> round(s.decay_constant(100), 6), round(s.decay_constant(10**6), 6)
        (0.231333, 0.213376)
        """
        start = one_count("start", start, self._p + 2)
        power = 2.0 * self.kernel.nu + 1.0
        log_c = math.log(amplitude(self._p)) + (power - 1.0) * math.log(self._gamma) - power * math.log(math.pi)
        return self.trace * math.exp(log_c - power * math.log1p(-(self._p + 1.0) / start))
