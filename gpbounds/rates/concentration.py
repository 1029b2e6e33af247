"""A-priori quantiles of E_Z Tr(K − Q): for every X a sum of independent terms is at least as large (N-sum, N-out)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import betainc, logsumexp, ndtr, ndtri

from gpbounds import validation
from gpbounds.arrays import EPS, Float, as_points
from gpbounds.bound import FIXED, UP, Bound, drawn_from, upper_bound
from gpbounds.errors import NotConverged, shown
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kdpp.residual import trace_slopes
from gpbounds.kernels.base import Kernel, Product, Sum
from gpbounds.kernels.facts import Fold
from gpbounds.kernels.stationary import feature_distance
from gpbounds.numerics.search import golden
from gpbounds.spectra.base import gauss

JITTER = 1e-9
"""Added to K_zz, as a share of its diagonal: the majorant stays valid, and triangular solves keep their digits."""
CELLS = (2**12, 2**15)
"""First and largest number of intervals; the number doubles while they add more than SHARE."""
SHARE = 0.02
"""Largest relative amount that cells may add to the mean."""
REACH = 9.0
"""Number of standard deviations beyond which the majorant is taken as g0·v."""
_OUTLIERS = (0, 1, 2)
"""Values of l, the number of outliers treated separately (N-out), that are tried for Gaussian inputs."""
LARGEST = 1024
"""The largest M: cells cost O(M²) each."""


@dataclass(frozen=True, eq=False)
class TraceMajorant:
    """g with τ_M(K_X) = E_Z Tr(K − Q_Z) <= Σ_n g(x_n) for every X, Z from the k-DPP of size M in X (N-sum).

    g(x) = g0·k(x, x) − Σ_i (g0 − g_i) u_i(x)², u_i orthonormal functions of the kernel's Hilbert space and g_i, g0 the
    slopes of R = (M+1) e_{M+1}/e_M at numbers b_1 >= b_2 >= ...: g_i = (M+1) miss_i²(1 − r_i^(M+1)/r_i^(M)), the slope
    at an eigenvalue 0 being g0.  Where (b, u) are the Mercer eigenvalues and -functions, E g = R(μ): N-pop.

    The proof is that of N-sum.
    The u_i need not be eigenfunctions: here they are eigenvectors of Σ_j w_j φ(z_j)φ(z_j)' for pilot points z with
    weights w, made from K_zz + jitter.  A jitter shortens them; the bound also holds for projections of functions that
    are orthonormal in a larger space.

    Attributes
    ----------
    M : int
    zero : float
        g0.
    top : float
        g0·v >= sup g.
    """

    M: int
    zero: float
    top: float
    _kernel: Kernel
    _pilot: Float
    _factor: Float
    _turn: Float
    _slopes: Float
    _doubt: float

    @classmethod
    def of(cls, kernel: Kernel, M: int, pilot: Float, weights: Float | None = None) -> TraceMajorant:
        """The majorant from pilot points (p, D), p > M + 1, and their weights, equal unless given."""
        size, points = validation.count("M", M, 1), as_points(pilot)
        p = len(points)
        if p <= size + 1:
            raise ValueError(f"pilot: expected more than M + 1 = {size + 1} points, got {p}")
        w = np.ones(p) if weights is None else validation.positive("weights", weights)
        gram = kernel(points)
        scale = float(kernel.max_variance)
        L = cholesky(gram + JITTER * scale * np.eye(p), lower=True)
        values, Q = np.linalg.eigh((L.T * w) @ L)
        values, Q = np.maximum(values[::-1], 0.0), Q[:, ::-1]
        values = np.maximum(values, values[0] * EPS)  # the majorant is valid for any numbers b_i
        slopes, zero = trace_slopes(values, size)
        # |L⁻¹k| <= √v; a solve is exact for L + δL with |δL| <= p·eps·|L|, ‖L⁻¹‖² <= 1/jitter
        doubt = 4.0 * p * EPS * math.sqrt(p / JITTER) + 64.0 * p * EPS
        return cls(size, zero, zero * scale, kernel, points, L, Q, slopes, doubt * scale * zero)

    def __call__(self, X: Float) -> Float:
        """g at the rows of ``X``, rounded upwards, shape (n,)."""
        points = as_points(X)
        result = np.empty(len(points))
        for start in range(0, len(points), 4096):
            part = points[start : start + 4096]
            a = solve_triangular(self._factor, self._kernel(self._pilot, part), lower=True)
            rest = np.maximum(self._kernel.diag(part) - (a * a).sum(axis=0), 0.0)
            turned = self._turn.T @ a
            result[start : start + 4096] = self.zero * rest + self._slopes @ (turned * turned)
        return np.minimum(result + self._doubt, self.top)


def sum_bound(kernel: Kernel, N: int, M: int, *, inputs: Gaussian | Uniform, delta: float) -> Bound:
    """Bound on τ_M(K_X) = E_Z Tr(K − Q_Z), N inputs on a line, with probability at least 1 − δ over X (N-sum).

    τ_M(K_X) <= Σ_n g(x_n) for every X (:class:`TraceMajorant`), so P(τ_M >= t) <= inf_θ e^(−θt) (E e^{θg(x)})^N: if g
    is bounded, the result is little more than the mean N·R(μ), without Markov's factor 1/δ.

    The mean of e^{θg} is bounded by cells: on an interval of length h with ends a, b, √g(x) <= max(√g(a), √g(b)) +
    √g0·e(h), since √g is a seminorm of φ(x) that is at most √g0·‖φ(x)‖, and e(h) bounds the distance of φ(x) from the
    straight line between φ(a) and φ(b).

    Outliers (N-out): τ_M(K + ff') <= ((M+1)/M)·τ_{M−1}(K), so up to l points in a set S of small probability cost a
    factor (M+1)/(M+1−l) and l of the M points: P(more than l in S) is binomial.  S holds the cells where g is largest.
    The result is the least bound over l = 0, 1, 2 and without S.

    Parameters
    ----------
    kernel : SquaredExponential, Matern, their sums and products
    N, M : int
    inputs : Gaussian or Uniform, one dimension
    delta : float

    Returns
    -------
    Bound
        ``terms["mean"]``: the bound of the mean, from the same cells.

    Raises
    ------
    ValueError
        for inputs of more than one dimension: simulate them.

    >>> from gpbounds.kernels import Matern
    >>> bound = sum_bound(Matern(1.5), 10_000, 20, inputs=Uniform(), delta=0.01)
    >>> float(bound) < 1.2 * bound.terms["mean"]
    True
    """
    level = validation.scalar(validation.open_unit, "delta", delta)
    law = SumLaw(kernel, validation.count("N", N, 1), inputs)
    value, outliers = law.quantile(validation.count("M", M, 1), level)
    return upper_bound(
        value * UP,
        level,
        "N-sum" if outliers < 1 else "N-sum, N-out",
        {"mean": law.mean(M), "outliers": max(outliers, 0)},
        (drawn_from(inputs), FIXED),
        certified=False,
        quantity="E_Z Tr(K - Q)",
    )


class SumLaw:
    """Quantiles of an upper bound on Σ_n g(x_n), for N inputs on a line and any M; the cells are cached."""

    def __init__(self, kernel: Kernel, N: int, inputs: Gaussian | Uniform) -> None:
        if not isinstance(inputs, Gaussian | Uniform) or inputs.dim != 1:
            raise ValueError(
                f"inputs: expected Gaussian or Uniform in one dimension, got {shown(inputs)}; simulate=m serves others"
            )
        interpolation_error(kernel, 1.0)  # refuses kernels without a bound
        self.kernel, self.N, self.inputs = kernel, N, inputs
        self._cells: dict[int, Cells] = {}

    def cells(self, M: int) -> Cells:
        """Upper bounds on g of size M."""
        if M > LARGEST:
            raise NotConverged(
                f"M: the sum over cells serves at most {LARGEST} inducing points, got {M}: a larger target or a longer "
                "lengthscale needs fewer; simulate=m serves N up to some thousands"
            )
        if M not in self._cells:
            self._cells[M] = Cells.of(self.kernel, self.inputs, M)
        return self._cells[M]

    def mean(self, M: int) -> float:
        """Upper bound on N·E g(x), and so on E τ_M."""
        cells = self.cells(M)
        return self.N * float(cells.shares @ cells.upper)

    def quantile(self, M: int, delta: float) -> tuple[float, int]:
        """t with P(τ_M >= t) <= δ, and the number of outliers that it allows; −1 if it treats none separately."""
        plain = self.cells(M)
        candidates = [(_chernoff(plain.upper, plain.shares, 0.0, self.N, delta), -1)]
        for outliers in _OUTLIERS if isinstance(self.inputs, Gaussian) else ():
            if M - outliers < 1:
                continue
            cells = self.cells(M - outliers)
            order = np.argsort(-cells.upper)
            outside = np.cumsum(cells.shares[order])
            more = betainc(outliers + 1.0, self.N - outliers, np.minimum(outside, 1.0))  # P(Bin(N, p) > outliers)
            few = int((more <= delta / 8.0).sum())
            if few:
                kept, zero = order[few:], float(outside[few - 1])
                total = _chernoff(cells.upper[kept], cells.shares[kept], zero, self.N, 0.875 * delta)
                candidates.append((total * (M + 1.0) / (M + 1.0 - outliers), outliers))
        return min(candidates)


@dataclass(frozen=True, eq=False)
class Cells:
    """A law on the line, divided into intervals; the last entry is the rest of the line.

    Attributes
    ----------
    shares : array (n + 1,)
        Their probabilities.
    upper : array (n + 1,)
        Upper bounds on g in each of them.
    """

    shares: Float
    upper: Float

    @classmethod
    def of(cls, kernel: Kernel, inputs: Gaussian | Uniform, M: int) -> Cells:
        """The cells of a law, with bounds on g of size M from as many pilot points as it needs."""
        majorant = TraceMajorant.of(kernel, M, *pilot_points(inputs, pilots(M)))
        count = CELLS[0]
        while True:
            edges, shares = _intervals(inputs, count)
            root = np.sqrt(majorant(edges[:, None]))
            root = np.maximum(root[1:], root[:-1])
            error = math.sqrt(majorant.zero) * interpolation_error(kernel, float(edges[1] - edges[0]))
            upper = np.append(np.minimum((root + error) ** 2, majorant.top), majorant.top)
            if count >= CELLS[1] or shares @ upper <= (1.0 + SHARE) * (shares[:-1] @ root**2):
                return cls(shares, upper)
            count *= 2


def _intervals(inputs: Gaussian | Uniform, count: int) -> tuple[Float, Float]:
    """The ends of the intervals, and the probabilities of each and of the rest of the line."""
    if isinstance(inputs, Uniform):
        low, width = float(np.atleast_1d(inputs.low)[0]), float(inputs.widths[0])
        return low + width * np.linspace(0.0, 1.0, count + 1), np.append(np.full(count, 1.0 / count), 0.0)
    z = np.linspace(-REACH, REACH, count + 1)
    half = np.diff(ndtr(z[: count // 2 + 1]))  # the left half, where there is no cancellation
    return z * float(inputs.stds[0]), np.concatenate([half, half[::-1], [2.0 * ndtr(-REACH)]])


def pilots(M: int) -> int:
    """The number of pilot points for M."""
    return min(4 * M + 32, 2 * M + 160)


def pilot_points(inputs: Gaussian | Uniform, count: int) -> tuple[Float, Float]:
    """Points on the line, shape (count, 1), and weights that represent the law: Gauss's rule, for N(0, 2s²) if the law
    is Gaussian."""
    x, w = gauss(count)
    if isinstance(inputs, Uniform):
        return (np.atleast_1d(inputs.low)[0] + inputs.widths[0] * x)[:, None], w
    z = math.sqrt(2.0) * ndtri(x)
    return (float(inputs.stds[0]) * z)[:, None], w * np.exp(-0.25 * z * z)


def interpolation_error(kernel: Kernel, step: float) -> float:
    """Upper bound on ‖φ(x) − (1−s)φ(a) − sφ(b)‖, x = (1−s)a + sb, b − a = step: the distance of φ from a straight line.

    ‖φ''‖·step²/8 where φ is twice differentiable, ‖φ''‖² = k''''(0) (methods ``bend`` of the kernels), and step·ω/4 for
    Matérn-3/2.  Otherwise it is at most (1−s)d(s·step) + s·d((1−s)·step), d(t) = ‖φ(x) − φ(x + t)‖: at most d(step),
    since correlations fall with the distance, and d(step/2) where d is concave (Matérn-½).

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(interpolation_error(SquaredExponential(), 0.1), 6)
    0.002165
    """
    return kernel.fold(_LINES, None)[2](step)


Line = tuple[Kernel, bool, Callable[[float], float]]
"""A kernel, whether it falls with the distance, and its `interpolation_error`, which may refuse it."""


def _line_of_leaf(kernel: Kernel, at: None) -> Line:
    def error(step: float) -> float:
        known = kernel.bend(step)
        if known is None:
            raise _must_fall(kernel)
        return known

    return kernel, kernel.falls, error


def _line_of_sum(first: Line, second: Line) -> Line:
    both = first[1] and second[1]
    return Sum(first[0], second[0]), both, lambda step: math.hypot(first[2](step), second[2](step))


def _line_of_product(first: Line, second: Line) -> Line:
    kernel, both = Product(first[0], second[0]), first[1] and second[1]

    def error(step: float) -> float:
        if not both:
            raise _must_fall(kernel)
        return feature_distance(kernel, step)

    return kernel, both, error


_LINES: Fold[None, Line] = Fold(
    _line_of_leaf, _line_of_sum, _line_of_product, lambda kernel, at, inner: _line_of_leaf(kernel, at)
)


def _must_fall(kernel: Kernel) -> ValueError:
    return ValueError(
        "kernel: expected SquaredExponential or Matern kernels, sums or products, whose correlations fall with the "
        f"distance, got {shown(kernel)}"
    )


def _chernoff(values: Float, shares: Float, zero: float, N: int, delta: float) -> float:
    """t with P(Σ_n g_n >= t) <= δ: min over θ of [N log(zero + Σ p e^{θ·value}) + log(1/δ)]/θ; any θ gives a bound."""
    top = float(values.max())
    if top == 0.0:
        return 0.0
    total = zero + float(shares.sum())
    scaled = values / top

    def level(log_theta: Float) -> Float:
        theta = np.exp(log_theta)
        with np.errstate(over="ignore"):
            grown = np.where(theta < 500.0, np.log1p((shares * np.expm1(np.minimum(theta, 500.0) * scaled)).sum()), 0.0)
        if float(theta) >= 500.0:
            grown = logsumexp(np.append(theta * scaled, 0.0), b=np.append(shares, zero)) - math.log(total)
        return (N * grown - math.log(delta)) / theta

    starts = np.linspace(-12.0, 9.0, 64)
    best = int(np.argmin([level(np.asarray(s)) for s in starts]))
    low, high = starts[max(best - 1, 0)], starts[min(best + 1, starts.size - 1)]
    _, value = golden(lambda s: np.asarray(level(s)), np.asarray(low), np.asarray(high), 40)
    return top * float(value)
