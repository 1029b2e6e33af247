"""Mercer features: the leading eigenfunctions of the squared exponential kernel under Gaussian inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite
from gpbounds.inputs import Gaussian
from gpbounds.kernels import SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.lowrank.features.base import BLOCK, Features
from gpbounds.numerics.pairs import times, two_product, two_sum
from gpbounds.once import cached_property
from gpbounds.spectra.base import Degrees, edges
from gpbounds.spectra.gaussian import LARGEST_ORDER, log_complement, principal_axes, smallest_sums
from gpbounds.validation import choice, finite

# Eigenfunctions of the squared exponential kernel under a Gaussian law, in one dimension, without overflow.

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
        """The coefficients of `walk` for ``count`` terms: scales and their powers of two, slope, decay, shift of x."""
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


# The products of one-dimensional eigenfunctions that an expansion keeps.


def best_first(steps: Float, rank: int) -> Degrees:
    """The ``rank`` degrees n in {0, 1, …}^D of largest eigenvalue e^(−n·steps), in decreasing order."""
    return smallest_sums(steps, rank)[1]


def by_total_degree(dim: int, rank: int) -> Degrees:
    """The first ``rank`` degrees by total degree, then lexicographically, powers of the first coordinate first.

    >>> by_total_degree(2, 5).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1]]
    """
    if dim == 1:
        return np.arange(rank, dtype=np.int64)[:, None]
    terms = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(dim), total) for total in itertools.count()
    )
    return np.array([np.bincount(term, minlength=dim) for term in itertools.islice(terms, rank)], dtype=np.int64)


def on_grid(dim: int, rank: int) -> Degrees:
    """The degrees {0, …, n − 1}^D, n = rank^(1/D), in lexicographic order, the last coordinate fastest.

    Raises
    ------
    ValueError
        if ``rank`` is not the D-th power of a whole number.

    >>> on_grid(2, 4).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n = round(rank ** (1.0 / dim))
    if n**dim != rank:
        below = n if n**dim < rank else n - 1
        near = f"{below**dim} or {(below + 1) ** dim}" if below else "1"
        raise ValueError(
            f"rank: expected n^{dim} with a whole number n >= 1 for order='grid' in {dim} dimensions, got {rank}; "
            f"use {near}"
        )
    return np.array(list(itertools.product(range(n), repeat=dim)), dtype=np.int64)


# Mercer features: the leading eigenfunctions of the squared exponential kernel under Gaussian inputs.

FARTHEST = 1e100
"""Largest allowed ratio of lengthscales and inputs to the standard deviation; its inverse is the least lengthscale."""


class MercerFeatures(Features):
    """Ξ with ΞΞᵀ = K_r, the Mercer expansion of K cut off after r terms; K − K_r is positive semi-definite.

    k(x, x') = v Π_d exp(−(x_d−x'_d)²/(2ℓ_d²)) = Σ_n λ_n e_n(x) e_n(x'), e_n orthonormal under N(mean, diag(s²)),
    n in {0, 1, …}^D, and Ξ_{in} = √λ_n e_n(x_i) (L-50 … L-53):

        λ_n = v Π_d (1−q_d) q_d^{n_d},  q_d = e^{−2 arsinh(ℓ_d/(2s_d))},  Σ_n λ_n = v

    ``order="best"`` keeps the largest eigenvalues (L-46): no other set of r eigenfunctions has a smaller expected
    residual trace.  ``"degree"`` is the order of the paper: by total degree, then lexicographically, powers of the
    first coordinate first.  If ℓ_d/s_d is the same in all dimensions, both keep equally large eigenvalues.  ``"grid"``
    is the paper's tensor grid with the D-th root of r functions per dimension (L-56, misprinted); its expected residual
    trace is never less than that of "best".

    If the columns of ``inputs`` depend on each other, the x_d are the coordinates along their principal axes in units
    of the lengthscales, and ℓ_d = 1 (N-cov).

    The absolute error of the features is at most 5e-15·√v per dimension, for degrees up to 900 within 25 standard
    deviations (L-52).  The residual K − K_r is small only if the data are about as wide as ``inputs``;
    :meth:`residual_diagonal` computes its diagonal.

    Parameters
    ----------
    kernel : SquaredExponential
    rank : int
        r, columns of Ξ, at most 2^24.
    inputs : Gaussian
        The law that defines the eigenfunctions; the data need not follow it.
    order : "best", "degree" or "grid"
    mean : float or array (D,), optional
        Mean of the law, in place of that of ``inputs``; the eigenfunctions depend on it.

    Attributes
    ----------
    degrees : array (rank, D)
        n of each column, from 0.
    eigenvalues : array (rank,)
        λ_n, in squared units of y.
    tail : float
        Σ λ_n over the omitted terms: E[k(x, x) − k_r(x, x)] under the law, without the subtraction 1 − Σ.

    Raises
    ------
    ValueError
        for another kernel or law, a wrong dimension, a rank out of range, a rank that is not the D-th power of a whole
        number for "grid", or a call before ``fit``.
    NonFinite
        for inputs that are not finite or beyond 1e100 standard deviations.

    >>> from gpbounds import Gaussian, SquaredExponential
    >>> features = MercerFeatures(SquaredExponential(), 12, inputs=Gaussian()).fit([0.0, 1.0])
    >>> Xi = features([0.0, 1.0])
    >>> (Xi @ Xi.T).round(4), round(features.tail, 6)  # k: 1, exp(-1/2) = 0.6065
    (array([[1.    , 0.6065],
           [0.6065, 1.    ]]), 1e-05)
    """

    def __init__(
        self,
        kernel: SquaredExponential,
        rank: int,
        *,
        inputs: Gaussian,
        order: str = "best",
        mean: ArrayLike | None = None,
    ) -> None:
        if not has_formula(kernel, SquaredExponential):
            raise ValueError(f"kernel: expected SquaredExponential, got {type(kernel).__name__}")
        if not isinstance(inputs, Gaussian):
            raise ValueError(f"inputs: expected Gaussian, got {type(inputs).__name__}")
        super().__init__(kernel, rank)
        if self.rank > LARGEST_ORDER:
            raise ValueError(
                f"rank: expected at most {LARGEST_ORDER} eigenfunctions, which are sorted one by one, got {rank}"
            )
        self.inputs = inputs
        self.order = choice("order", order, ("best", "degree", "grid"))
        kernel.lengthscales(inputs.dim)
        unit, law, axes = principal_axes(kernel, inputs) if inputs.correlated else (kernel, inputs, None)
        self._axes, self._stds = axes, law.stds
        lengthscales = unit.lengthscales(inputs.dim)
        ratios = lengthscales / law.stds
        if not ((ratios > 1.0 / FARTHEST) & (ratios < FARTHEST)).all():
            raise ValueError(f"expected lengthscale/std between 1e-100 and 1e100, got {ratios}")
        centre = finite("mean", inputs.means if mean is None else mean)
        if centre.ndim > 1 or centre.size not in (1, inputs.dim):
            raise ValueError(f"mean: expected a number or one per dimension ({inputs.dim}), got shape {centre.shape}")
        self.mean: Float = np.broadcast_to(centre, (inputs.dim,))
        self._expansions = [Expansion(float(ell), float(s)) for ell, s in zip(lengthscales, law.stds, strict=True)]
        self._steps = np.array([-e.log_q for e in self._expansions])
        self.degrees: Degrees = (
            best_first(self._steps, self.rank)
            if self.order == "best"
            else (by_total_degree if self.order == "degree" else on_grid)(inputs.dim, self.rank)
        )
        log_first = np.log(-np.expm1(-self._steps)).sum()
        self.eigenvalues: Float = kernel.variance * np.exp(log_first - self.degrees @ self._steps)

    @cached_property
    def tail(self) -> float:
        """Σ λ_n over the omitted terms."""
        return self.kernel.variance * math.exp(log_complement(self._steps, self.degrees))

    def _learn(self, points: Array) -> None:
        dim = self.inputs.dim
        if points.shape[1] != dim:
            raise ValueError(f"X: expected {dim} column(s), one per dimension of inputs, got shape {points.shape}")

    def _shifted(self, points: Array) -> Array:
        """The coordinates minus the mean, or those along the principal axes, shape (D, B), in double precision."""
        xp = namespace(points)
        shifted = points.astype(np.float64).T - xp.asarray(self.mean)[:, None]
        if self._axes is not None:
            shifted = xp.asarray(self._axes) @ shifted
        far = float((xp.abs(shifted) / xp.asarray(self._stds)[:, None]).max())
        if not far < FARTHEST:
            raise NonFinite(f"X: expected inputs within {FARTHEST:g} standard deviations of the mean, got {far:.3g}")
        return shifted

    def _write(self, points: Array, out: Array, rows: int) -> None:
        xp, counts = namespace(points), self.degrees.max(axis=0) + 1
        columns = [xp.asarray(column) for column in self.degrees.T]
        root = math.sqrt(self.kernel.variance)
        for start in range(0, points.shape[0], rows):
            x = self._shifted(points[start : start + rows])
            values: Array = root
            for d, expansion in enumerate(self._expansions):
                table = expansion.table(x[d], int(counts[d]))
                values = values * (table if len(columns) == 1 else table[columns[d]])
            out[start : start + rows] = values.T

    def residual_diagonal(self, X: ArrayLike | Array) -> Array:
        """k(x_i, x_i) − k_r(x_i, x_i), shape (N,): the diagonal of the residual K − K_r (L-54).

        It is a sum of positive terms over the orthants of omitted degrees, Σ v Π_{i<d} u_{n_i}(x_i)² · Σ_{j≥start}
        u_j(x_d)², where u are the one-dimensional factors of the features.  So it is never negative, and its relative
        error is about 1e-12 down to 1e-300·v, where the difference v − Σ λ_n e_n(x)² has no correct digit.

        Tr(K − K_r)/noise = x gives KL[exact‖approximate] ≤ ½(x − log(1 + x)) (L-09).

        Parameters
        ----------
        X : array (N, D)

        Raises
        ------
        ValueError, NonFinite
            as for the features.

        >>> from gpbounds import Gaussian, SquaredExponential
        >>> features = MercerFeatures(SquaredExponential(), 30, inputs=Gaussian()).fit([0.0])
        >>> [f"{left:.6g}" for left in features.residual_diagonal([0.0, 1.0, 5.0])]
        ['4.49218e-14', '3.3229e-14', '1.7572e-08']
        """
        points = self._points(X)
        xp, counts = namespace(points), self.degrees.max(axis=0) + 1
        result = xp.empty(points.shape[0])
        outside = [
            ([xp.asarray(column) for column in prefixes.T], xp.asarray(starts))
            for prefixes, starts in edges(self.degrees)
        ]
        size = int(counts.sum()) + max(starts.size for _, starts in outside)
        rows = max(8, (BLOCK if xp is np else 16 * BLOCK) // size)
        for start in range(0, points.shape[0], rows):
            x = self._shifted(points[start : start + rows])
            tables = [e.squares(x[d], int(counts[d])) for d, e in enumerate(self._expansions)]
            total = xp.zeros(x.shape[1])
            for d, (prefixes, starts) in enumerate(outside):
                terms = tables[d][1][starts]
                for (kept, _), column in zip(tables, prefixes, strict=False):
                    terms *= kept[column]
                total += terms.sum(axis=0)
            result[start : start + rows] = self.kernel.variance * total
        return result.astype(points.dtype, copy=False)
