"""An interval for tr log B from probes, where tr B = N is known (N-slq)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import gammaincinv, ndtr

from gpbounds.arrays import Float
from gpbounds.linalg.krylov import Lanczos, Quadrature, Tridiagonal, gauss, radau
from gpbounds.validation import open_unit, scalar

# How far the mean of z'Az over m probes z ~ N(0, I) can be from tr A (N-slqtail).
#
# A symmetric; its eigenvalues are at most ``above``, and in absolute value at most ``size``; ‖A‖_F at most ``norm``.

THIRD_MOMENT = 8.691563
"""E|g² − 1|³ for g ~ N(0, 1), rounded up."""
_BERRY_ESSEEN = 0.56
"""The constant for sums of independent variables that are not identically distributed (Shevtsova 2010)."""
CELLS = 240
"""Intervals into which the range of possible ‖A‖_F is cut."""


def frobenius(squares: float, size: float, probes: int, delta: float) -> float:
    """F̂ ≥ ‖A‖_F with probability at least 1 − delta, from ``squares`` ≥ the mean of z'A²z over the probes.

        F̂ = Λ√(x/m) + √(s² + Λ²x/m),  x = log(1/delta),  Λ = ``size``

    The proof is that of N-slqtail.

    >>> frobenius(4.0, 0.0, 10, 0.01)
    2.0
    """
    shift = size * math.sqrt(-math.log(delta) / probes)
    return shift + math.sqrt(squares + shift * shift)


def chernoff(error: float, norm: Float, above: float, probes: int) -> Float:
    """P(mean z'Az − tr A ≥ error) ≤ exp(−(mκ/2)(u − log(1 + u))), κ = F²/a², u = error/(κa), a = ``above``.

    The proof is that of N-slqtail.  The bound increases in F and in a.
    """
    with np.errstate(divide="ignore", over="ignore"):
        shape = (norm / above) ** 2
        u = error / (shape * above)
        small = u < 1e-4
        exact = np.where(small, 0.5 * u * u * (1.0 - u / 1.5), u - np.log1p(u))
        return np.where(norm > 0.0, np.exp(-0.5 * probes * np.where(np.isinf(u), error / above, shape * exact)), 0.0)


def half_width(norm: float, *, above: float, size: float, probes: int, delta: float, third: float = math.inf) -> float:
    """ε such that mean z'Az − tr A ≥ ε with probability at most delta, for every A with ‖A‖_F ≤ ``norm``.

    The smaller of `chernoff` and of Berry–Esseen's bound

        Φ(−ε√m/(√2·F)) + 0.56·E|g² − 1|³·tr|A|³/(2^{3/2}·F³·√m),  tr|A|³ ≤ ΛF²,

    which needs a lower bound on F: the range of F is cut into cells, and each cell takes the better one.

    Parameters
    ----------
    norm, above, size : float
        Upper bounds on ‖A‖_F, on the eigenvalues and on their absolute values.
    probes : int
        m.
    delta : float
    third : float
        An upper bound on tr|A|³.

    >>> round(half_width(1.0, above=0.1, size=0.1, probes=64, delta=0.025), 3)  # normal: 1.96·√(2/64) = 0.346
    0.488
    """
    if norm <= 0.0:
        return 0.0
    ends = norm * np.geomspace(1e-4, 1.0, CELLS)
    starts = np.concatenate([[0.0], ends[:-1]])
    with np.errstate(divide="ignore"):
        ratio = np.minimum(size / starts, third / starts**3)
        skew = _BERRY_ESSEEN * THIRD_MOMENT / 2.0**1.5 * ratio / math.sqrt(probes)

    def risk(error: float) -> float:
        normal = ndtr(-error * math.sqrt(0.5 * probes) / ends) + skew
        return float(np.minimum(chernoff(error, ends, max(above, 1e-9 * size), probes), normal).max())

    low, high = 0.0, norm
    while risk(high) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if risk(middle) > delta else (low, middle)
    return high


# Bounds on the extreme eigenvalues of B from Lanczos matrices of random start vectors (N-edge).


def edges(T: Tridiagonal, *, delta: float) -> tuple[float, float]:
    """a ≤ λ_min(B) and b ≥ λ_max(B), each with probability at least 1 − delta, from start vectors z_j ~ N(0, I).

    With u the eigenvector of λ_min, Σ_j (uᵀz_j)² ~ χ²_m is at least its delta-quantile q with probability 1 − delta.
    Then for every polynomial g ≥ 0 of degree at most 2k − 1 at once

        g(λ_min)·q ≤ Σ_j (uᵀz_j)² g(λ_min) ≤ Σ_j z_jᵀg(B)z_j,

    and Gauss quadrature computes the right-hand side exactly.  The best of the squares g = p² at x is the sum's least
    value for p(x) = 1, 1/Σ_i p_i(x)² with its orthonormal polynomials p_i of degree < k (Christoffel's function), which
    falls with the distance of x from all nodes.  q depends neither on g nor on k, so that k may be chosen from the
    probes' values, and λ_min is no x below all nodes where it is less than q.  The same holds for λ_max.
    A negative a is valid but useless.

    >>> rng, values = np.random.default_rng(0), np.linspace(0.5, 2.0, 200)
    >>> from gpbounds.linalg.krylov import Lanczos
    >>> run = Lanczos(lambda V: values[:, None] * V, rng.standard_normal((200, 7)))
    >>> run.advance(24)
    >>> a, b = edges(run.tridiagonal(), delta=0.001)
    >>> bool(0.45 < a <= 0.5 and 2.0 <= b < 2.05)
    True
    """
    share = scalar(open_unit, "delta", delta)
    if T.steps < 2:
        raise ValueError(f"T: expected at least 2 Lanczos steps, got {T.steps}")
    nodes = gauss(T)
    quantile = 2.0 * float(gammaincinv(0.5 * T.squares.size, share))
    used = nodes.weights > 0.0
    points, weights = nodes.points[used], nodes.weights[used]
    return _outermost(points, weights, quantile, T.steps), -_outermost(-points, weights, quantile, T.steps)


def _outermost(points: Float, weights: Float, quantile: float, steps: int) -> float:
    """An x below all points with 1/Σ_i p_i(x)² ≤ ``quantile``, and nearly the greatest."""
    run = Lanczos(lambda V: points[:, None] * V, np.sqrt(weights)[:, None])
    run.advance(steps)
    T = run.tridiagonal()
    rows = list(zip(T.diagonal[0], T.beside[0], strict=True))[: steps - 1]

    def beyond(x: float) -> bool:
        before, p, last = 0.0, 1.0 / math.sqrt(float(T.squares[0])), 0.0
        total = p * p
        for diagonal, beside in rows:
            if beside == 0.0:  # a polynomial of a lower degree vanishes at all points
                return True
            before, p, last = p, ((x - diagonal) * p - last * before) / beside, beside
            total += p * p
            if total * quantile >= 1.0:
                return True
        return total * quantile >= 1.0

    high = float(points.min())
    width = max(float(points.max()) - high, 1e-6 * abs(high))
    reach = width
    while not beyond(high - reach):
        reach *= 2.0
    low = high - reach
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if beyond(middle) else (low, middle)
    return low


# An interval for tr log B from probes, where tr B = N is known (N-slq).

EDGE, NORM, TAIL = 0.02, 0.08, 0.44
"""Shares of δ: two edges, the Frobenius norm, two tails."""
DEGREE = 4
"""Degree of q, which two Lanczos steps integrate without error."""
LEAST = 16
"""Least number of deep probes, unless there are fewer probes."""
FITTED = 8
"""Steps of the pilot that fix c₀, c₁, q and n, which must not depend on the depth that other probes choose."""


@dataclass(frozen=True)
class TwoDepths:
    """log x = c₀ + c₁(x − 1) + q(x) + r(x): all m probes see q in two steps, and n of them r in many.

    The sum over the probes of zᵀD(B)z for n of them and of zᵀS(B)z for the others has the expectation tr f(B),

        f(x) = log x − c₀ − c₁(x − 1),  D = f/n − (1/n − 1/m)q,  S = q/m,  nD + (m − n)S = f,

    and is one quadratic form, in all entries of all probes, of a matrix whose squared Frobenius norm is tr G(B),
    G = nD² + (m − n)S².

    Attributes
    ----------
    line, q : Polynomial
        c₀ + c₁(x − 1), and q.
    deep, probes : int
        n ≤ m.
    square : float
        The mean of G over the eigenvalues of B, as the pilot sees it.
    """

    line: Polynomial
    q: Polynomial
    deep: int
    probes: int
    square: float

    @classmethod
    def of(cls, pilot: Tridiagonal, probes: int) -> TwoDepths:
        """The least squares over the pilot's nodes, and the n that makes m probes most accurate for their products."""
        nodes = gauss(Tridiagonal(pilot.squares, pilot.diagonal[:, :FITTED], pilot.beside[:, :FITTED]))
        x, weights = np.maximum(nodes.points.ravel(), 1e-300), nodes.weights.ravel() / max(pilot.squares.sum(), 1e-300)
        powers, roots = np.vander(x - 1.0, DEGREE + 1, increasing=True), np.sqrt(weights)[:, None]

        def fitted(terms: int) -> Polynomial:
            coefficients = np.linalg.lstsq(roots * powers[:, :terms], roots[:, 0] * np.log(x), rcond=None)[0]
            return Polynomial(coefficients)(_SHIFT)

        line, curve = fitted(2), fitted(DEGREE + 1)
        q = curve - line
        of_q, of_r = (float((weights * y * y).sum()) for y in (q(x), np.log(x) - curve(x)))
        share = math.sqrt(2.0 * of_r / (of_q * FITTED)) if of_q > 0.0 else 1.0
        split = cls(line, q, min(probes, max(LEAST, math.ceil(min(share, 1.0) * probes))), probes, 0.0)
        one, other = split.of_deep(x), split.of_others(x)
        both = split.deep * one * one + (probes - split.deep) * other * other
        return replace(split, square=float((weights * both).sum()))

    def of_deep(self, x: Float) -> Float:
        """D."""
        return np.log(x) / self.deep + self.beside_log(x)

    @property
    def beside_log(self) -> Polynomial:
        """D − (log x)/n."""
        return -self.line / self.deep - self.q * (1.0 / self.deep - 1.0 / self.probes)

    @property
    def of_others(self) -> Polynomial:
        """S."""
        return self.q / self.probes

    def ends(self, low: float, high: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """The least and the greatest values of D and of S for eigenvalues in [low, high]."""
        D, S = self.beside_log, self.of_others
        slope = Polynomial([1.0 / self.deep]) + Polynomial([0.0, 1.0]) * D.deriv()  # x times that of D
        one, other = (
            f(np.concatenate([[low, high], np.clip(roots.real, low, high)]))
            for f, roots in ((self.of_deep, slope.roots()), (S, S.deriv().roots()))
        )
        return (float(one.min()), float(one.max())), (float(other.min()), float(other.max()))

    def squares(self, inner: Quadrature, lower: Quadrature) -> tuple[Float, Float]:
        """At least zᵀD(B)²z, and zᵀS(B)²z, for each deep probe, from its Gauss and Gauss–Radau quadratures (N-slq)."""
        rest, factor = self.beside_log, 1.0 / self.deep
        total = lower.of(lambda x: np.log(x) ** 2) * (factor * factor)
        for power, coefficient in enumerate(np.asarray(rest.coef, dtype=np.float64)):
            upper = inner if coefficient * (-1.0) ** power > 0.0 else lower
            term = Polynomial([0.0] * power + [2.0 * factor * coefficient])
            total += upper.of(lambda x, term=term: term(x) * np.log(x))  # type: ignore[misc]
        return total + inner.of(rest * rest), inner.of(self.of_others**2)


_SHIFT = Polynomial([-1.0, 1.0])


@dataclass(frozen=True)
class TraceLog:
    """An interval for tr log B ≤ 0.

    Attributes
    ----------
    low, high : float
        The interval; low is −inf if the probes prove no a > 0.
    estimate : float
        Its centre before the tails are added.
    spread : float
        Standard error of the estimate.
    gap : float
        Width of the interval for the sum over the probes, from the two quadratures.
    least, greatest : float
        Bounds a, b on the eigenvalues of B.
    norm : float
        F̂, at least the Frobenius norm of the matrix of all probes.
    probes : int
    """

    low: float
    high: float
    estimate: float
    spread: float
    gap: float
    least: float
    greatest: float
    norm: float
    probes: int


def trace_log(deep: Tridiagonal, others: Tridiagonal | None, pilot: Tridiagonal, N: int, *, delta: float) -> TraceLog:
    """An interval that contains tr log B with probability at least 1 − delta, for B (N, N) with tr B = N.

    tr log B = N·c₀ + tr f(B), and the sum over the probes of `TwoDepths` is within the two ends of its quadratures.
    c₀, c₁ and q come from the pilot probes, which are independent of the others.  With probability 1 − delta none of
    the following fails; F² ≤ F̂² and tr|·|³ of the form's matrix are bounded by sums of the two parts:

        a ≤ λ_min(B), λ_max(B) ≤ b                    N-edge, from the pilot and the deep probes     0.02·delta each
        ‖D‖_F√n and ‖S‖_F√(m − n) ≤ their bounds      N-slqtail, from zᵀD²z and zᵀS²z                0.04·delta each
        −ε₋ ≤ sum over the probes − tr f(B) ≤ ε₊      N-slqtail with one probe                       0.44·delta each

    The tails increase in F̂, in the largest eigenvalues and in tr|·|³, so that upper bounds on them serve.  Eigenvalues
    of Lanczos matrices lie between λ_min and λ_max: where one of the probes' is outside [a, b], an edge has failed, and
    [a, b] is widened to it.

    Parameters
    ----------
    deep, others, pilot : Tridiagonal
        Of independent start vectors N(0, I); two steps of the others, and more, as many of the deep ones as of the
        pilot, of which at least 5 are needed.
    N : int
    delta : float
    """
    if not deep.steps == pilot.steps >= 5 or (others is not None and others.steps != 2):
        raise ValueError("expected at least 5 steps of the deep probes, as many of the pilot, and 2 of the others")
    parts = [deep] if others is None else [deep, others]
    nodes, m = gauss(deep), sum(part.squares.size for part in parts)
    a, b = edges(joined([pilot, deep]), delta=EDGE * delta)
    seen = np.concatenate([gauss(part).points.ravel() for part in parts])
    a, b = min(a, (1.0 - 1e-6) * float(seen.min())), max(b, float(seen.max()))
    split = replace(TwoDepths.of(pilot, m), deep=deep.squares.size)
    shallow = np.empty(0) if others is None else radau(others, a).of(split.of_others)
    with np.errstate(invalid="ignore", divide="ignore"):  # of nodes ≤ 0 by rounding, where a ≤ 0, too
        polynomial = nodes.of(split.beside_log)
        above = nodes.of(np.log) / split.deep + polynomial
    known = N * float(split.line(1.0)) + float(shallow.sum())
    spread = math.hypot(_error(above), _error(shallow)) if m > 1 else math.inf
    if a <= 0.0:
        return TraceLog(-math.inf, 0.0, known + float(above.sum()), spread, math.inf, a, b, norm=math.inf, probes=m)
    lower = radau(deep, a)
    below = lower.of(np.log) / split.deep + polynomial
    sides, counts = split.ends(a, b), (split.deep, m - split.deep)
    sizes = [max(-least, most) for least, most in sides]
    norms = [size * math.sqrt(count * N) for size, count in zip(sizes, counts, strict=True)]
    if b < math.exp(sum(1.0 / n for n in range(1, 2 * deep.steps + 1))):
        for i, squares in enumerate(split.squares(nodes, lower)):
            mean, root = max(float(counts[i] * squares.mean()), 0.0), sizes[i] * math.sqrt(counts[i])
            norms[i] = min(norms[i], frobenius(mean, root, split.deep, 0.5 * NORM * delta))
    used = [i for i in (0, 1) if counts[i]]
    norm, size = math.hypot(*norms), max(sizes[i] for i in used)
    third = sum(size * norm**2 for size, norm in zip(sizes, norms, strict=True))

    def tail(above: float) -> float:
        return half_width(norm, above=max(above, 0.0), size=size, probes=1, delta=TAIL * delta, third=third)

    over, under = tail(max(sides[i][1] for i in used)), tail(max(-sides[i][0] for i in used))
    ends = known + float(below.sum()), known + float(above.sum())
    return TraceLog(
        low=ends[0] - over,
        high=min(ends[1] + under, 0.0),
        estimate=0.5 * sum(ends),
        spread=spread,
        gap=ends[1] - ends[0],
        least=a,
        greatest=b,
        norm=norm,
        probes=m,
    )


def joined(parts: list[Tridiagonal]) -> Tridiagonal:
    """The Lanczos matrices of several runs of equally many steps."""
    fields = [[part.squares for part in parts], [part.diagonal for part in parts], [part.beside for part in parts]]
    return Tridiagonal(*(np.concatenate(field) for field in fields))


def _error(values: Float) -> float:
    """The standard error of a sum of independent values."""
    return float(values.std(ddof=1) * math.sqrt(values.size)) if values.size > 1 else 0.0
