"""The mean of K − Q under a k-DPP in Arb balls, each number rounded upwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.numerics.balls import trace_term
from gpbounds.once import cached_property
from gpbounds.rigor import MOST_BITS, above, at_bits, below, enclosed_each, exact, outer, rounded

# Expectations of K − Q under a k-DPP in balls, from elementary symmetric polynomials (R-lem3, R-lem3c, N-res).


def symmetric(values: Sequence[Any], top: int) -> list[Any]:
    """e_0 ... e_top of balls ≥ 0: the coefficients of Π(1 + λx)."""
    polynomial = _product(values, top + 1)
    return [polynomial[j] for j in range(top + 1)]


def mean_esp(values: Sequence[Any], M: int, j: int = 1) -> Any:
    """E e_j(K − Q) = C(M+j, j) e_{M+j}/e_M; j = 1 is the trace (R-lem3)."""
    e = symmetric(values, M + j)
    return comb(M + j, j) * e[M + j] / e[M]


def log_mean_determinant(values: Sequence[Any], M: int, c: Any) -> Any:
    """log E|I + c(K − Q)| = log Σ_j c^j C(M+j, j) e_{M+j}/e_M (R-lem3)."""
    e = symmetric(values, len(values))
    total, power = exact(0.0), exact(1.0)
    for j in range(1, len(values) - M + 1):
        power *= c
        total += power * comb(M + j, j) * e[M + j]
    return (total / e[M]).log1p()


def trace_form(values: Sequence[Any], M: int, order: float, noise: Any) -> Any:
    """g_n((M+1) e_{M+1}/e_M), n the number of nonzero eigenvalues beyond M (R-lem3c)."""
    free = max(sum(not value.is_zero() for value in values) - M, 1)
    return trace_term(mean_esp(values, M), exact(free), order, noise)


def determinant_form(values: Sequence[Any], M: int, order: float, noise: Any) -> Any:
    """(α/(2β)) log E|I + (β/σ²)(K − Q)|, and its limit E Tr(K − Q)/(2σ²) at α = 1 (R-lem3c)."""
    alpha = exact(order)
    beta = 1 - alpha
    if beta.is_zero():
        return mean_esp(values, M) / (2 * noise)
    return alpha / (2 * beta) * log_mean_determinant(values, M, beta / noise)


def printed_form(values: Sequence[Any], M: int, order: float, noise: Any) -> Any:
    """g_N((M+1) Σ_{m>M} λ_m) (R-lem3c as printed); the values decrease."""
    return trace_term((M + 1) * sum(values[M:], exact(0.0)), exact(len(values)), order, noise)


def gauss_schmidt(tail: Any, M: int, k: int) -> Any:
    """(M+1)/(M+1−k)·Σ_{m>k} λ_m (R-lem3)."""
    return (M + 1) * tail / (M + 1 - k)


def nystrom_tv(values: Sequence[Any], trace: Any, M: int) -> Any:
    """1 − 1/Σ_{j≤M} (e_{M−j}/e_M) T^j/j! (N-tv)."""
    e = symmetric(values, M)
    total, power = exact(0.0), exact(1.0)
    for j in range(1, M + 1):
        power *= trace / j
        total += e[M - j] / e[M] * power
    return total / (1 + total)


def rounding_tv(values: Sequence[Any], rounding: Any, M: int) -> Any:
    """[e_M(λ + ρ) − e_M((λ − ρ)₊)]/e_M(λ above ρ) (N-round)."""
    low = symmetric([(value - rounding).max(exact(0.0)) for value in values], M)
    high = symmetric([value + rounding for value in values], M)
    kept = symmetric([value for value in values if value > rounding], M)
    return (high[M] - low[M]) / kept[M]


def residual(values: Sequence[Any], M: int) -> tuple[list[Any], Any]:
    """(r_i = e_M/e_{M−1} of the eigenvalues without λ_i, for each i; r = e_M/e_{M−1} of all), 1 ≤ M (N-res)."""
    without = leave_one_out(values, M)
    e = symmetric(values, M)
    return [above / below for below, above in without], e[M] / e[M - 1]


def leave_one_out(values: Sequence[Any], M: int) -> list[tuple[Any, Any]]:
    """(e_{M−1}, e_M) of the values without the i-th, for each i.

    A node of n values receives the degrees M − n ... M of the product over all others, which suffice for its leaves.
    """
    from flint import arb_poly

    n = len(values)
    pairs: list[tuple[Any, Any]] = []

    def descend(first: int, last: int, others: Any) -> None:
        if last - first == 1:
            pairs.append((others[0], others[1]))
            return
        middle = (first + last) // 2
        for start, stop, sibling in ((first, middle, (middle, last)), (middle, last, (first, middle))):
            whole = others * _product(values[slice(*sibling)], n + 1)
            skipped = (last - first) - (stop - start)
            descend(start, stop, arb_poly([whole[skipped + k] for k in range(stop - start + 1)]))

    descend(0, n, arb_poly([0] * (n - M) + [1]) if M <= n else arb_poly([]))
    return pairs


def _product(values: Sequence[Any], length: int) -> Any:
    """Π(1 + λx), cut after ``length`` coefficients, in pairs of equal size."""
    from flint import arb_poly

    factors = [arb_poly([1, value]).truncate(length) for value in values] or [arb_poly([1])]
    while len(factors) > 1:
        pairs = [(a * b).truncate(length) for a, b in zip(factors[::2], factors[1::2], strict=False)]
        factors = pairs + factors[len(factors) - len(factors) % 2 :]
    return factors[0]


# The mean of K − Q under a k-DPP in Arb balls, each number rounded upwards.


@dataclass(frozen=True, eq=False)
class _EnclosedResidual(ExpectedResidual):
    """An `ExpectedResidual` whose numbers are upper bounds by construction; only ``lowest`` is rounded down.

    The functions are sums over the stored doubles, evaluated in balls and rounded up; they increase in ``miss``,
    ``rho`` and ``eigenvalues``, and decrease in ``lowest``.
    """

    @cached_property
    def trace(self) -> float:
        return _sum_up(lambda rho: rho, self.rho)

    @cached_property
    def shares(self) -> Float:
        s2 = self._noise()
        return np.asarray(outer(lambda value: exact(value) / (exact(value) + exact(s2)), self.eigenvalues))

    @cached_property
    def omega(self) -> float:
        return self.omega_above(0.0)

    @cached_property
    def excess(self) -> float:
        s2 = exact(self._noise())
        return _sum_up(lambda rho, value: rho * value / (value + s2) / s2, self.rho, self.eigenvalues)

    def omega_above(self, a: float) -> float:
        s2 = exact(self._noise())

        def part(miss: Any, value: Any) -> Any:
            return miss * (value / (value + s2) - exact(a)).max(exact(0.0))

        return _sum_up(part, self.miss, self.eigenvalues)

    def quadratic(self, squares: Any) -> float:
        weights, s2 = self._weights(squares), exact(self._noise())
        return _sum_up(lambda rho, low, w: rho * w / (low + s2) ** 2, self.rho, self.lowest, weights)

    @cached_property
    def greatest_weight(self) -> float:
        s2 = self._noise()
        weights = outer(lambda rho, low: exact(rho) / (exact(low) + exact(s2)) ** 2, self.rho, self.lowest)
        return float(weights.max())


def _sum_up(part: Callable[..., Any], *columns: Float) -> float:
    """Σ part(…) over the entries of columns, rounded upwards."""
    rows = list(zip(*(column.tolist() for column in columns), strict=True))

    def total() -> Any:
        return sum((part(*map(exact, row)) for row in rows), exact(0.0))

    return rounded(total, upwards=True)


def enclosed_residual(
    values: Sequence[float], error: float, nonzero: Any, M: int, noise: float | None
) -> _EnclosedResidual:
    """`expected_residual` for checked arguments; ``nonzero`` marks the eigenvalues that may differ from 0."""
    n, chosen = len(values), np.flatnonzero(nonzero).tolist()

    def ends() -> tuple[list[Any], list[Any]]:
        upper = [exact(values[i]) + exact(error) for i in chosen]
        return upper, [(exact(values[i]) - exact(error)).max(exact(0.0)) for i in chosen]

    def numbers() -> list[Any]:
        (upper, lower), count = ends(), len(chosen)
        if M == 0:
            return upper + [exact(1.0)] * count + upper + lower
        rest, ratio = residual(upper, M)
        rho = [value * r / (value + r) for value, r in zip(upper, rest, strict=True)]
        miss = [r / (low + r) if low > 0 else exact(1.0) for low, r in zip(lower, rest, strict=True)]
        return [*rho, *miss, *upper, *lower, ratio]

    balls, count = enclosed_each(numbers), len(chosen)
    with at_bits(MOST_BITS):
        rho, miss, upper = (_spread(n, chosen, balls[k * count : (k + 1) * count], above, k == 1) for k in range(3))
        lowest = _spread(n, chosen, balls[3 * count : 4 * count], below, False)
        ratio = above(balls[-1]) if M else np.inf
    if M == 0:
        miss = np.ones(n)
    return _EnclosedResidual(M, upper, lowest, noise, miss, rho, ratio)


def _spread(n: int, chosen: list[int], balls: list[Any], end: Callable[[Any], float], ones: bool) -> Float:
    """An array of n numbers: an end of a ball for each chosen entry, 1 or 0 for the others."""
    numbers = np.ones(n) if ones else np.zeros(n)
    numbers[chosen] = [end(ball) for ball in balls]
    return numbers
