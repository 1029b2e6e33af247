"""Pivoted Cholesky factors in double-double numbers, and a proved bound on how far LLᵀ is from the matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg.pair_products import ROWS, UP, Left, left, product, right
from gpbounds.numerics.pairs import Pair, add, quick_two_sum, row_sums, square_root, two_product
from gpbounds.numerics.pairs import multiply as times

Block = Callable[[slice, slice], Pair]
"""(rows, columns) ↦ A[rows, columns] as a pair."""
PANEL = 64
"""Columns that are eliminated before the matrix is updated."""
NEGLIGIBLE = 2.0**-96
"""The factor ends where no pivot exceeds this multiple of the largest one."""


@dataclass(frozen=True, eq=False)
class PairFactor:
    """L (N, rank) with ‖A − LLᵀ‖_F ≤ error; row i of L belongs to row i of A.

    Attributes
    ----------
    L : pair of arrays (N, rank)
    pivots : array (rank,)
        L[pivots] is lower triangular.
    error : float
    """

    L: Pair
    pivots: np.ndarray
    error: float


def pair_cholesky(block: Block, N: int, name: str = "matrix", negligible: float = NEGLIGIBLE) -> PairFactor:
    """A pivoted Cholesky factor of a symmetric positive semi-definite A (N, N), with `block_residual` as its error.

    The factor is computed without a proof, in about 30 digits; A − LLᵀ itself then gives the bound on the error.  The
    function reads the blocks on and below the diagonal, each twice, and stores 2N² numbers.  The factor ends where no
    pivot exceeds ``negligible`` times the largest one.

    Raises
    ------
    NotPositiveDefinite
        if a pivot is not positive long before the others are negligible.

    >>> A = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> factor = pair_cholesky(lambda rows, columns: (A[rows, columns], 0.0 * A[rows, columns]), 2)
    >>> factor.error < 1e-29
    True
    """
    L, pivots = _factor(block, N, name, negligible)
    return PairFactor(L, pivots, residual(block, L))


def with_diagonal(block: Block, number: float) -> Block:
    """A + number·I by blocks, with an error of at most 6u² of both on the diagonal."""

    def shifted(rows: slice, columns: slice) -> Pair:
        high, low = block(rows, columns)
        first, last = max(rows.start, columns.start), min(rows.stop, columns.stop)
        if first < last:
            high, low, on = high.copy(), low.copy(), np.arange(first, last)
            at = on - rows.start, on - columns.start
            high[at], low[at] = add((high[at], low[at]), (np.float64(number), np.float64(0.0)))
        return high, low

    return shifted


def residual(block: Block, L: Pair) -> float:
    """A proved upper bound on ‖A − LLᵀ‖_F for any L (N, k)."""
    N = L[0].shape[0]
    parts = [slice(start, min(start + ROWS, N)) for start in range(0, N, ROWS)]
    rights = [right((L[0][rows], L[1][rows])) for rows in parts]
    squares, errors = 0.0, 0.0
    for i, rows in enumerate(parts):
        factor: Left = left((L[0][rows], L[1][rows]))
        for j, columns in enumerate(parts[: i + 1]):
            (high, low), error = product(factor, rights[j])
            A = block(rows, columns)
            apart, rest = add(A, (-high, -low))
            # `add` has an error of 6u² of both, and the norm is computed in doubles
            error += 1e-31 * (float(np.linalg.norm(A[0])) + float(np.linalg.norm(high)))
            weight = 1.0 if i == j else 2.0
            squares += weight * float(np.linalg.norm(apart + rest)) ** 2
            errors += weight * error * error
    return UP * (math.sqrt(squares) + math.sqrt(errors))


def _factor(block: Block, N: int, name: str, negligible: float) -> tuple[Pair, np.ndarray]:
    high, low = np.zeros((N, N)), np.zeros((N, N))
    for start in range(0, N, ROWS):
        rows = slice(start, min(start + ROWS, N))
        for begin in range(0, start + ROWS, ROWS):
            columns = slice(begin, min(begin + ROWS, N))
            high[rows, columns], low[rows, columns] = part = block(rows, columns)
            high[columns, rows], low[columns, rows] = part[0].T, part[1].T
    order = np.arange(N)
    L: Pair = (np.zeros((N, N)), np.zeros((N, N)))
    largest = float(high.diagonal().max(initial=0.0))
    done = 0
    while done < N:
        width = _panel(high, low, L, order, done, negligible * largest)
        if width:
            _update(high, low, L, done, width)
        done += width
        if width < PANEL:
            break
    if done < N and float(high.diagonal()[done:].min()) < -1e-25 * N * largest:
        raise NotPositiveDefinite(f"{name}: expected a positive semi-definite matrix, got a negative pivot")
    places = np.argsort(order)
    return (L[0][places, :done], L[1][places, :done]), order[:done]


def _panel(high: Float, low: Float, L: Pair, order: np.ndarray, start: int, least: float) -> int:
    """Eliminate up to `PANEL` columns from ``start`` on, in place; their number."""
    N = high.shape[0]
    pivots: Pair = high.diagonal()[start:].copy(), low.diagonal()[start:].copy()
    for width in range(min(PANEL, N - start)):
        k = start + width
        best = k + int(pivots[0][width:].argmax())
        if not pivots[0][best - start] > least:
            return width
        if best != k:
            _swap(high, low, L, order, k, best)
            for part in pivots:
                part[[width, best - start]] = part[[best - start, width]]
        column: Pair = high[k:, k].copy(), low[k:, k].copy()
        if width:
            known = slice(start, k)
            terms = times((L[0][k:, known], L[1][k:, known]), (L[0][k, known], L[1][k, known]))
            column = add(column, minus(row_sums(terms)))
        root = square_root((column[0][0], column[1][0]))
        column = quotient(column, root)
        column[0][0], column[1][0] = root
        L[0][k:, k], L[1][k:, k] = column
        rest = slice(width, None)
        pivots[0][rest], pivots[1][rest] = add((pivots[0][rest], pivots[1][rest]), minus(times(column, column)))
    return min(PANEL, N - start)


def _swap(high: Float, low: Float, L: Pair, order: np.ndarray, k: int, best: int) -> None:
    for part in (high, low):
        part[[k, best]] = part[[best, k]]
        part[:, [k, best]] = part[:, [best, k]]
    for part in L:
        part[[k, best], :k] = part[[best, k], :k]
    order[[k, best]] = order[[best, k]]


def _update(high: Float, low: Float, L: Pair, start: int, width: int) -> None:
    """Subtract the product of the new columns from what is left."""
    N, known = high.shape[0], slice(start, start + width)
    for first in range(start + width, N, ROWS):
        rows = slice(first, min(first + ROWS, N))
        one = left((L[0][rows, known], L[1][rows, known]))
        for begin in range(start + width, rows.stop, ROWS):
            columns = slice(begin, min(begin + ROWS, N))
            part, _ = product(one, right((L[0][columns, known], L[1][columns, known])))
            total = add((high[rows, columns], low[rows, columns]), minus(part))
            high[rows, columns], low[rows, columns] = total
            high[columns, rows], low[columns, rows] = total[0].T, total[1].T


def minus(a: Pair) -> Pair:
    """−a."""
    return -a[0], -a[1]


def quotient(a: Pair, b: Pair) -> Pair:
    """a/b to about 30 digits."""
    q = a[0] / b[0]
    value, remainder = two_product(q, b[0])
    return quick_two_sum(q, ((a[0] - value) - remainder + a[1] - q * b[1]) / b[0])
