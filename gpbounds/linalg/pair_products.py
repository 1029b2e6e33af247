"""Products of matrices of double-double numbers by BLAS, with a proved bound on the error (N-pairs)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.numerics.pairs import Pair, two_sum

U = 0.5 * EPS
_SLICES = 3
"""Number of slices, whose products are exact; the remainder of an entry is about 2⁻⁶⁰ of its row's largest entry."""
ROWS = 512
"""Rows of a block of a product."""
UP = 1.0 + 1e-8
"""Allows for the rounding of norms: 2²⁴ additions, each with a relative error of 2⁻⁵³, are 2e-9."""


@dataclass(frozen=True, eq=False)
class Left:
    """[A₀, A₁, A₂, A − A₀ − A₁ − A₂] side by side, and the Frobenius norm of each, rounded up."""

    parts: Float
    norms: tuple[float, ...]

    @property
    def columns(self) -> int:
        """Columns of A."""
        return int(self.parts.shape[1]) // (_SLICES + 1)


@dataclass(frozen=True, eq=False)
class Right:
    """[B₂, B₁, B₀] and [B − B₀ − B₁ − B₂, B − B₀ − B₁, B − B₀, B], and norms in the order B₀, B₁, B₂; B, B − B₀, …"""

    slices: Float
    rests: Float
    slice_norms: tuple[float, ...]
    rest_norms: tuple[float, ...]


def _cut(A: Pair) -> tuple[list[Float], list[Float]]:
    """(A₀, A₁, A₂) and (A, A − A₀, A − A₀ − A₁, A − A₀ − A₁ − A₂) as doubles; only the latter are rounded.

    Row i of A_s holds multiples of 2^(e_i − b(s+1) + 1), e_i ≥ −600 the exponent of the row's largest entry: whole
    numbers of at most 2^(b−1) + 1.  With 2b + log₂(3k) ≤ 54 the product of two slices, and sums of three such products,
    are sums of whole multiples of one unit that never exceed 2⁵³ of it: no order of summation rounds them.
    """
    high, low = (np.asarray(part, dtype=np.float64) for part in A)
    bits = (54 - math.ceil(math.log2(_SLICES * max(high.shape[1], 1)))) // 2
    _, exponents = np.frexp(np.abs(high).max(axis=1, initial=0.0))
    exponents = np.maximum(exponents, -600)
    slices, rests = [], [high + low]
    for s in range(_SLICES):
        unit = np.ldexp(1.0, exponents - bits * (s + 1) + 1)[:, None]
        slices.append(np.rint(high / unit) * unit)
        high, low = two_sum(high - slices[-1], low)
        rests.append(high + low)
    return slices, rests


def left(A: Pair) -> Left:
    """A (m, k) as the left factor of `product`."""
    slices, rests = _cut(A)
    parts = [*slices, rests[-1]]
    return Left(np.concatenate(parts, axis=1), tuple(map(_norm, parts)))


def right(B: Pair) -> Right:
    """B (n, k) as the right factor of `product`."""
    slices, rests = _cut(B)
    return Right(
        np.concatenate(slices[::-1], axis=1),
        np.concatenate(rests[::-1], axis=1),
        tuple(map(_norm, slices)),
        tuple(map(_norm, rests)),
    )


def product(A: Left, B: Right) -> tuple[Pair, float]:
    """ABᵀ (m, n) as a pair, and a bound on the Frobenius norm of its error.

    ABᵀ = Σ_{s+t<3} A_s B_tᵀ + Σ_s A_s(B − B₀ − … − B_{2−s})ᵀ + (A − A₀ − A₁ − A₂)Bᵀ.  For each s + t the first sum is
    one product of doubles, without rounding; the rest is a fourth product, about 2⁻⁶⁰ times as large.

    The proof of the bound is that of N-slices.

    >>> one = np.array([[1.0, 2.0**-40]]), np.array([[2.0**-80, 0.0]])
    >>> (high, low), error = product(left(one), right(one))  # 1 + 2⁻⁷⁹ + 2⁻⁸⁰ + 2⁻¹⁶⁰
    >>> float(high[0, 0]), float(low[0, 0]) == 3 * 2.0**-80, error < 1e-30
    (1.0, True, True)
    """
    k = A.columns
    total, low = A.parts[:, :k] @ B.slices[:, (_SLICES - 1) * k :].T, None
    for level in range(1, _SLICES + 1):
        if level < _SLICES:
            term = A.parts[:, : (level + 1) * k] @ B.slices[:, (_SLICES - 1 - level) * k :].T
        else:
            term = A.parts @ B.rests.T
        total, remainder = two_sum(total, term)
        low = remainder if low is None else low + remainder
    assert low is not None
    fourth = sum(a * b for a, b in zip(A.norms, B.rest_norms[::-1], strict=True))
    sums = sum(A.norms) * (sum(B.slice_norms) + B.rest_norms[-1])
    return two_sum(total, low), UP * U * (1.01 * (4 * k + 2) * fourth + 6.0 * U * sums)


def multiply(A: Pair, B: Pair) -> tuple[Pair, float]:
    """ABᵀ for A (m, k) and B (n, k), as `product`, by blocks."""
    m, n = A[0].shape[0], B[0].shape[0]
    high, low, squares = np.empty((m, n)), np.empty((m, n)), 0.0
    factors = [right((B[0][j : j + ROWS], B[1][j : j + ROWS])) for j in range(0, n, ROWS)]
    for i in range(0, m, ROWS):
        one = left((A[0][i : i + ROWS], A[1][i : i + ROWS]))
        for number, other in enumerate(factors):
            block = slice(i, i + ROWS), slice(number * ROWS, (number + 1) * ROWS)
            (high[block], low[block]), error = product(one, other)
            squares += error * error
    return (high, low), UP * math.sqrt(squares)


def _norm(A: Float) -> float:
    return UP * float(np.linalg.norm(A))
