"""Half-integer Matérn kernels, uniform inputs on an interval: eigenvalues to rounding, upper bounds on tails."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.bound import Bound
from gpbounds.errors import NotConverged, shown
from gpbounds.inputs import Uniform
from gpbounds.kernels import Matern
from gpbounds.kernels.facts import has_formula
from gpbounds.once import cached_property
from gpbounds.spectra.base import Relaxation, Spectrum, gauss
from gpbounds.validation import count as one_count
from gpbounds.validation import whole

# Matérn-½ kernel, uniform inputs on an interval: eigenvalues and tails exact to rounding.

SWITCH = 2000  # beyond, sums are replaced by integrals: the next Euler-Maclaurin term is 1e-15 of the tail


def angle(index: Float, kappa: float) -> Float:
    """θ in (0, π/2] with θ = atan(κ/z), z = (index - 1) π/2 + θ; ``index`` may lie between whole numbers.

    θ - atan(κ/z) is concave and increases in θ, so that Newton's method increases to the root after its first step.

    >>> theta = angle(np.array([1.0]), 0.5)
    >>> bool(np.isclose(theta * np.tan(theta), 0.5))
    True
    """
    start = (index - 1.0) * (np.pi / 2.0)
    # θ tan θ <= κ - start tan θ and tan θ >= θ give this upper bound on the root.
    theta = np.minimum(2.0 * kappa / (start + np.sqrt(start**2 + 4.0 * kappa)), np.pi / 2.0)
    for _ in range(60):
        z = start + theta
        step = (theta - np.arctan2(kappa, z)) / (1.0 + 1.0 / (z / kappa * z + kappa))
        theta = theta - step
        if (np.abs(step) <= 4e-16 * theta).all():
            break
    # The derivative of θ - atan(κ/z) is at least 1, so that what is left bounds the error of θ.
    if not (np.abs(theta - np.arctan2(kappa, start + theta)) <= 1e-14 * theta).all():
        raise NotConverged(f"expected the roots of θ = atan(κ/z) to 1e-14 for κ = {kappa:g}, they are not found")
    return theta


def excess(theta: Float) -> Float:
    """2θ - sin 2θ for 0 <= θ <= π/2, without cancellation.

    >>> float(excess(np.array(1e-5)) / (4e-15 / 3.0)) - 1.0 < 1e-9
    True
    """
    double = 2.0 * theta
    square, series = double**2, np.zeros_like(theta)
    for k in range(11, 0, -1):
        series = square / (2.0 * k * (2.0 * k + 1.0)) * (1.0 - series)
    return np.where(double < 1.0, double * series, double - np.sin(double))


class MaternHalfUniform(Spectrum):
    """The Mercer spectrum of k(x, x') = v e^(-c|x - x'|), c = 1/lengthscale, for x uniform on an interval of width 2a.

    With κ = c a:  λ_k = v κ/(z_k² + κ²), z_k = (k - 1)π/2 + θ_k, and θ_k in (0, π/2) solves θ = atan(κ/z), for odd
    and even k (L-49b; paper 001 states only the rate).  Beyond 2000 terms the tail is the integral
    ∫_{M+½}^∞ λ dk = (2v/π)[θ + (2θ - sin 2θ)/(4κ)] at index M + ½, plus one Euler-Maclaurin term.

    Parameters
    ----------
    kernel : Matern with nu = 0.5
    inputs : Uniform in one dimension

    Raises
    ------
    ValueError
        for another kernel or another law.

    >>> s = MaternHalfUniform(Matern(0.5, lengthscale=1.0), Uniform(0.0, 1.0))
    >>> s.eigenvalues(3).round(6).tolist()
    [0.738811, 0.138004, 0.045088]
    >>> float(s.tail(1000).round(9)), float(s.tail_bound(1000).value.round(9))
    (0.000202744, 0.000202845)
    """

    certified = True
    source = "L-49b"
    note = "Exact to rounding: the roots of θ = atan(κ/z), and their sum by Euler-Maclaurin."

    def __init__(self, kernel: Matern, inputs: Uniform) -> None:
        if not has_formula(kernel, Matern) or kernel.nu != 0.5:
            raise ValueError(f"kernel: expected Matern(nu=0.5), got {shown(kernel)}")
        if not isinstance(inputs, Uniform) or inputs.dim != 1:
            raise ValueError(f"inputs: expected Uniform in one dimension, got {shown(inputs)}")
        self.kernel, self.inputs = kernel, inputs
        self.trace = kernel.variance
        self._kappa = float(inputs.widths[0] / kernel.lengthscales(1)[0]) / 2.0

    def eigenvalue(self, index: ArrayLike) -> Float:
        """λ_k for whole numbers k >= 1 of any shape, to a relative error of 1e-14.

        >>> s = MaternHalfUniform(Matern(0.5), Uniform(0.0, 1.0))
        >>> f"{s.eigenvalue(10**9):.6e}"
        '2.026424e-19'
        """
        return self._value(whole("index", index, 1))

    def _value(self, index: Float) -> Float:
        theta = angle(index, self._kappa)
        return self.trace * np.sin(theta) ** 2 / self._kappa

    def eigenvalues(self, count: int) -> Float:
        return self._value(np.arange(1.0, one_count("count", count) + 1.0))

    def _share_beyond(self, M: Float) -> Float:
        """Σ_{k>M} λ_k / v by the integral from M + ½ and the first Euler-Maclaurin term, for large M."""
        kappa, theta = self._kappa, angle(M + 0.5, self._kappa)
        value = np.sin(theta) ** 2 / kappa
        integral = (2.0 / np.pi) * (theta + excess(theta) / (4.0 * kappa))
        slope = -(np.pi / 2.0) * np.sin(2.0 * theta) / kappa * value / (1.0 + value)
        return integral + slope / 24.0

    @cached_property
    def _share_below(self) -> Float:
        """Σ_{k>M} λ_k / v for M = 0 ... SWITCH; the smallest terms are added first."""
        values = self._value(np.arange(SWITCH, 0.0, -1.0)) / self.trace
        end = self._share_beyond(np.array([float(SWITCH)]))
        return np.cumsum(np.concatenate([end, values]))[::-1]

    def _log_tail(self, M: Float) -> Float:
        near = self._share_below[np.minimum(M, SWITCH).astype(np.int64)]
        share = np.where(M < SWITCH, near, self._share_beyond(np.maximum(M, SWITCH)))
        return np.log(share) + np.log(self.trace)

    def roundings(self, last: Float, size: Float | float) -> Float:
        return 9.0 * size + 9600.0 + 0.0 * last

    def tail_bound(self, M: ArrayLike) -> Bound:
        """The closed bound Σ_{k>M} λ_k <= (2v/π) atan(2ac/(π(M - 1))), M >= 1 (v at M = 1); L-49b.

        It exceeds the tail by a factor 1 + O(1/M).  Parameters: whole numbers ``M`` of any shape.
        """
        counts = whole("M", M, 1)
        value = self.trace * (2.0 / np.pi) * np.arctan2(self._kappa, (np.pi / 2.0) * (counts - 1.0))
        hypotheses = ("Matérn kernel with nu = 0.5, inputs uniform on an interval.",)
        return Bound(value, "upper", 1.0, "L-49b", {}, hypotheses, quantity="tail of the spectrum")


# A factor of the half-integer Matérn kernel, k = G G*, with accurate small singular values.

_PAD = 64


def amplitude(p: int) -> float:
    """A = 2√π Γ(p+1)/Γ(p+½) = 2 ∏_{i<=p} i/(i - ½): S(ω) = A c^(2p+1)/(c² + ω²)^(p+1) has ∫ S dω/(2π) = 1.

    >>> amplitude(0), amplitude(1)
    (2.0, 4.0)
    """
    return 2.0 * math.prod(i / (i - 0.5) for i in range(1, p + 1))


def factor(p: int, gamma: float, n: int) -> Float:
    """G, shape (n, n + 64 + p + 1): P_n K P_n = G G' in the orthonormal Legendre basis of [0, 1].

    K is the Matérn kernel of order p + ½ and variance 1 with c L = γ.  It is white noise through the filter
    ĝ = √S0/(γ + iω)^(p+1): noise on [0, 1] gives the columns √(A/γ) V^(p+1), V = γ(D + γ)^-1; noise before 0
    gives Σ_i w_i h_i(x) h_i(y), h_i(x) ∝ (2γx + τ_i)^p e^(-γx), exactly, with the p + 1 Gauss-Laguerre
    nodes τ_i and weights w_i.  A QR factorisation turns the h_i into functions that start with x^i, so that the
    columns are graded and small singular values stay accurate.  Needs γ <= 2n.
    """
    from scipy.special import roots_laguerre

    relax = Relaxation(n + _PAD, gamma)
    noise = np.eye(n + _PAD)
    states = [relax.solve(noise[:, :1])]  # (γx)^a e^(-γx)/a!, a = 0 ... p
    for _ in range(p):
        states.append(relax(states[-1]))
    for _ in range(p + 1):
        noise = relax(noise)
    nodes, weights = roots_laguerre(p + 1)
    a = np.arange(p + 1)
    # C(p, a) 2^a a!/p! = 2^a/(p-a)!
    sizes = np.array([math.exp(i * math.log(2.0) - math.lgamma(p - i + 1.0)) for i in a])
    spread = np.sqrt(weights)[:, None] * sizes * nodes[:, None] ** (p - a)
    graded = np.hstack(states) @ np.linalg.qr(spread)[1].T
    strength = amplitude(p)
    return np.hstack([math.sqrt(strength * 2.0 ** (-2 * p - 1)) * graded, math.sqrt(strength / gamma) * noise])[:n]


def squared_singular_values(G: Float) -> Float:
    """σ_i(G)², decreasing; column pivoting keeps the small ones of a graded matrix accurate."""
    from scipy.linalg import qr, svdvals

    return svdvals(qr(G.T, mode="r", pivoting=True)[0][: min(G.shape)].T) ** 2


# Half-integer Matérn kernels on an interval of length 1: a bound on sums of eigenvalues, and the phase equation.
#
# Notation: p = ν - ½, γ = √(2ν)·width/lengthscale, f(ω) = A γ^(2p+1)/(γ² + ω²)^(p+1) = S(ω) for variance 1, where
# the frequencies of the first p + 1 eigenvalues are near 0, the others near (m - 1 - p/2)π.

TABLE = 4096
ROUNDING = 1e-12  # added to every logarithm of a bound: a hundred times the error of its evaluation, as measured


def log_density(p: int, gamma: float, omega: Float) -> Float:
    """log f(ω)."""
    ratio = np.hypot(1.0, omega / gamma)
    return math.log(amplitude(p) / gamma) - 2.0 * (p + 1.0) * np.log(ratio)


def _log_integral(p: int, gamma: float, start: Float) -> Float:
    """log (1/π)∫_start^∞ f dω = log (A/π)∫_0^θ sin^(2p) t dt, θ = atan(γ/start); without cancellation.

    >>> float(np.exp(_log_integral(2, 3.0, np.array(0.0))).round(12))
    1.0
    """
    theta = np.arctan2(gamma, start)
    nodes, weights = gauss(p + 16)
    total = np.zeros_like(theta)
    for u, w in zip(nodes, weights, strict=True):
        total += w * (np.sin(theta * u) / theta) ** (2 * p)
    return math.log(amplitude(p) / math.pi) + (2.0 * p + 1.0) * np.log(theta) + np.log(total)


class _GridSum:
    """An upper bound on log Σ_{j>=J} f(jπ) for whole J >= 0, rounded upwards.

    The first terms are added, the smallest first; the rest is bounded by ∫_{J-½}^∞ where f is convex
    (Hermite-Hadamard), else by f(J) + ∫_J^∞, as f decreases.
    """

    def __init__(self, p: int, gamma: float) -> None:
        self.p, self.gamma = p, gamma
        self._size = int(min(TABLE, 256 + gamma))
        end = self._log_far(np.array([float(self._size)]))
        terms = log_density(p, gamma, math.pi * np.arange(self._size - 1.0, -1.0, -1.0))
        self._near = np.logaddexp.accumulate(np.concatenate([end, terms]))[::-1]

    def _log_far(self, J: Float) -> Float:
        p, gamma = self.p, self.gamma
        convex = (J - 0.5) * math.pi >= gamma / math.sqrt(2.0 * p + 3.0)
        middle = _log_integral(p, gamma, (J - np.where(convex, 0.5, 0.0)) * math.pi)
        return np.where(convex, middle, np.logaddexp(middle, log_density(p, gamma, J * math.pi)))

    def __call__(self, J: Float) -> Float:
        far = self._log_far(np.maximum(J, self._size))
        near = self._near[np.minimum(J, self._size).astype(np.int64)]
        return np.where(self._size > J, near, far) + ROUNDING


def frequencies(p: int, gamma: float, index: Float) -> tuple[Float, Float]:
    """ω_m with eigenvalue λ_m = f(ω_m), and the logarithm of its relative error, both of the shape of ``index``.

    On a half-line the solution is f = sin(ωx - ψ) + decaying parts e^(-μ_j x), μ_j² = γ² - (γ² + ω²)e^(2πij/(p+1)),
    and the p + 1 boundary conditions are a Vandermonde system in closed form: ψ = Σ_j arg(μ_j + iω) - (p+1)atan(ω/γ).
    Both ends give ω = mπ + 2ψ(ω), up to a relative error e^(-min Re μ_j), which is 0 for p = 0 and below rounding if
    min Re μ_j > 37.  It is solved by Newton's method in the proved bracket (m - p - 1)π <= ω <= (m + p)π.
    """
    index = np.asarray(index, dtype=np.float64)
    low, high = np.maximum(index - p - 1.0, 0.0) * math.pi, (index + p) * math.pi
    omega = np.clip((index - 1.0 - p / 2.0) * math.pi, 0.5 * high / (index + p), high)
    turn = np.exp(2j * np.pi * np.arange(1, p + 1) / (p + 1)).reshape(-1, *([1] * index.ndim))
    mu = np.empty((0, *index.shape), dtype=complex)
    for _ in range(80):
        size = np.hypot(gamma, omega)
        mu = size * np.sqrt((gamma / size) ** 2 - turn)
        phase = np.angle(mu + 1j * omega).sum(axis=0) - (p + 1.0) * np.arctan2(omega, gamma)
        residual = omega - 2.0 * phase - index * math.pi
        slope = np.imag((1j - omega * turn / mu) / (mu + 1j * omega)).sum(axis=0)
        slope = 1.0 - 2.0 * slope + 2.0 * (p + 1.0) * gamma / size / size
        low, high = np.where(residual < 0.0, omega, low), np.where(residual < 0.0, high, omega)
        proposal = omega - residual / slope
        proposal = np.where((proposal < low) | (proposal > high), 0.5 * (low + high), proposal)
        converged = np.abs(proposal - omega) <= 4e-15 * size
        omega = proposal
        if converged.all():
            break
    log_error = -mu.real.min(axis=0) if p else np.full(index.shape, -np.inf)
    return omega, log_error


# Half-integer Matérn kernels, uniform inputs on an interval: eigenvalues to rounding, upper bounds on tails.

_ACCURACY = 1e-8  # guaranteed relative accuracy of eigenvalues()
_SEPARATE = -37.0  # below this logarithm the coupling of the interval's ends is below double precision


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
        if not has_formula(kernel, Matern) or not kernel.is_half_integer:
            raise ValueError(f"kernel: expected Matern with nu = 0.5, 1.5, 2.5, ..., got {shown(kernel)}")
        if not isinstance(inputs, Uniform) or inputs.dim != 1:
            raise ValueError(f"inputs: expected Uniform in one dimension, got {shown(inputs)}")
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
            accurate = np.flatnonzero(log_error < _SEPARATE)
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
        if not (error <= _ACCURACY).all():
            accurate = int(np.argmin(error <= _ACCURACY))
            raise NotConverged(
                f"eigenvalues of Matern(nu={self.kernel.nu}) on an interval of {self._gamma:.3g}/√(2ν) lengthscales: "
                f"{size} Legendre polynomials give the first {accurate} to {_ACCURACY}, the next one differs by "
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
    def _grid(self) -> _GridSum:
        return _GridSum(self._p, self._gamma)

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
