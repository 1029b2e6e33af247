"""The mean over X and Z of Tr(K − Q), per datum, in balls: R(μ) of N-pop, and the form of Gauss and Schmidt."""

from __future__ import annotations

import math
from typing import Any

from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.rigor import exact

LAST = 4096
"""Largest M for which `population` multiplies polynomials; R(μ) falls with M, so that R at ``LAST`` serves beyond."""


def gauss_schmidt(law: Eigenvalues, M: int, k: int) -> Any:
    """(M+1)/(M+1−k)·Σ_{m>k} λ_m, an upper bound of R(μ) for each k in 0 ... M (R-lem3)."""
    return law.tail(k) * (M + 1) / (M + 1 - k)


def population(law: Eigenvalues, M: int) -> tuple[Any, Any]:
    """(low, high): R(μ) = (M+1) e_{M+1}(μ)/e_M(μ) of N-pop lies between them, M >= 1; equal where it is closed.

    By the coefficients of Π(1 + cμ_i x) over 8M + 256 eigenvalues, for any c > 0; those left out, which add up to T,
    raise R by 0 to g0·T, g0 = 1 + M(1 − τ_M/τ_{M−1}), τ_M = R of the others (N-cut).
    """
    closed = law.closed_trace(M)
    if closed is not None:
        return closed, closed
    count = 8 * M + 256
    values = law.eigenvalues(count)
    c = _tilt(values, M)
    product = _product([_power(c * value, often, M + 2) for value, often in values], M + 2)
    before, here, after = (product[M + i] for i in (-1, 0, 1))
    cut = (M + 1) * after / (here * c)
    previous = M * here / (before * c)
    return cut, cut + (1 + M * (1 - cut / previous)) * law.tail(count)


def _tilt(values: list[tuple[Any, int]], M: int) -> Any:
    """About the c with Σ cμ_i/(1 + cμ_i) = M + ½: the coefficients near M are then the largest."""
    from flint import arb

    logs = [(float(value.log()), often) for value, often in values]

    def heads(log_c: float) -> float:
        return sum(often / (1.0 + math.exp(min(-log_c - x, 700.0))) for x, often in logs)

    low, high = -logs[0][0] - 800.0, -logs[-1][0] + 800.0
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if heads(middle) > M + 0.5 else (middle, high)
    power = round(low / math.log(2.0))
    return exact(math.exp(low - power * math.log(2.0))) * arb(2) ** power


def _power(x: Any, often: int, length: int) -> Any:
    """(1 + x·X)^often as a polynomial in X, cut after ``length`` coefficients."""
    from flint import arb, arb_poly

    terms = [arb(1)]
    for j in range(1, min(often, length - 1) + 1):
        terms.append(terms[-1] * x * (often - j + 1) / j)
    return arb_poly(terms)


def _product(factors: list[Any], length: int) -> Any:
    """The product of polynomials, cut after ``length`` coefficients, in pairs of equal size."""
    while len(factors) > 1:
        pairs = [(a * b).truncate(length) for a, b in zip(factors[::2], factors[1::2], strict=False)]
        factors = pairs + factors[len(factors) - len(factors) % 2 :]
    return factors[0]
