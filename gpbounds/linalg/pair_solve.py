"""Triangular solves in double-double numbers, and log|A| and yᵀA⁻¹y of A = LLᵀ + E in Arb balls (N-exact).

`gpbounds.linalg.pair_inverse` encloses log|A| too.  The two do not replace each other.  Here A ⪰ λI must be known, L
comes from a pivoted factorisation in double-double, and its error counts relative to λ alone.  For smooth kernels, most
of whose eigenvalues are far below σ² = λ, the balls of log|A| are 15 to 300 times narrower, and with 600 rows (squared
exponential) they exist down to σ² = 1e-25 of the variance, where `pair_inverse` finds no R.  There A is proved positive
definite without a λ, R comes from double precision and is corrected, and its balls depend on the eigenvalues that A
has, not on λ; it also gives A⁻¹, the diagonal of A⁻¹ and L⁻¹x with bounds on their errors, which certificates need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.linalg.pair_cholesky import PANEL, PairFactor, minus, quotient
from gpbounds.linalg.pair_products import UP, multiply
from gpbounds.numerics.pairs import Pair, add
from gpbounds.numerics.pairs import multiply as times
from gpbounds.rigor import exact

U2 = 2.0**-106
WITHIN = 0.25
"""Largest ρ = ‖E‖/λ_min(A) for which log|A| and yᵀA⁻¹y are enclosed."""


class Unresolved(ValueError):
    """λ_min(A) is too small for the error of the factor; ``least`` would be enough for this error."""

    def __init__(self, least: float) -> None:
        super().__init__(f"expected a least eigenvalue of at least {least:.3g}")
        self.least = least


def solve_lower(L: Pair, B: Pair) -> Pair:
    """L⁻¹B for a lower triangular L (n, n) and B (n, P), without a proof, to about 30 digits of norms.

    >>> L = np.array([[2.0, 0.0], [1.0, 3.0]]), np.zeros((2, 2))
    >>> solve_lower(L, (np.array([[2.0], [2.0]]), np.zeros((2, 1))))[1].ravel()  # 1, 1/3
    array([0.00000000e+00, 1.85037171e-17])
    """
    high, low = B[0].copy(), B[1].copy()
    n = high.shape[0]
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        for k in range(start, stop):
            pivot = L[0][k, k], L[1][k, k]
            row = quotient((high[k], low[k]), pivot)
            high[k], low[k] = row
            rest = slice(k + 1, stop)
            terms = times((L[0][rest, k, None], L[1][rest, k, None]), (row[0][None], row[1][None]))
            high[rest], low[rest] = add((high[rest], low[rest]), minus(terms))
        done, below = slice(start, stop), slice(stop, n)
        if stop < n:
            solved = np.ascontiguousarray(high[done].T), np.ascontiguousarray(low[done].T)
            part, _ = multiply((L[0][below, done], L[1][below, done]), solved)
            high[below], low[below] = add((high[below], low[below]), minus(part))
    return high, low


def solve_upper(L: Pair, B: Pair) -> Pair:
    """L⁻ᵀB, as `solve_lower`: with the order of rows and columns reversed Lᵀ is lower triangular."""
    turned = tuple(np.ascontiguousarray(part[::-1, ::-1].T) for part in L)
    high, low = solve_lower((turned[0], turned[1]), (B[0][::-1], B[1][::-1]))
    return high[::-1], low[::-1]


def solve(factor: PairFactor, B: Pair) -> Pair:
    """A⁻¹B for a factor with as many columns as rows, as `solve_lower`."""
    pivots = factor.pivots
    L = factor.L[0][pivots], factor.L[1][pivots]
    solved = solve_upper(L, solve_lower(L, (B[0][pivots], B[1][pivots])))
    result: Pair = np.zeros_like(B[0]), np.zeros_like(B[1])
    for part, values in zip(result, solved, strict=True):
        part[pivots] = values
    return result


def column_squares(A: Pair) -> list[Any]:
    """Σ_i a_ip² for each column p, in balls."""
    return [sum((_number(*entry) ** 2 for entry in zip(*column, strict=True)), exact(0.0)) for column in _columns(A)]


def column_products(A: Pair, B: Pair) -> list[Any]:
    """Σ_i a_ip b_ip for each column p, in balls."""
    return [
        sum((_number(a, b) * _number(c, d) for a, b, c, d in zip(*first, *second, strict=True)), exact(0.0))
        for first, second in zip(_columns(A), _columns(B), strict=True)
    ]


def _columns(A: Pair) -> list[tuple[list[float], list[float]]]:
    return list(zip(A[0].T.tolist(), A[1].T.tolist(), strict=True))


def _number(high: float, low: float) -> Any:
    return exact(high) + exact(low)


def share(error: float, least: float) -> float:
    """ρ = error/least, rounded up.

    Raises
    ------
    Unresolved
        where ρ is not below ¼.
    """
    rho = error / least * UP if least > 0.0 else math.inf
    if not rho < WITHIN:
        raise Unresolved(error / WITHIN * UP)
    return rho


def _share_of(factor: PairFactor, least: float, further: float) -> float:
    """ρ of a factor with as many columns as rows."""
    N, rank = factor.L[0].shape
    error = UP * (factor.error + further)
    rho = share(error, least)
    if rank < N:
        raise Unresolved(max(error / WITHIN, 2.0 * least))
    return rho


def log_det(factor: PairFactor, *, least: float, further: float = 0.0) -> Any:
    """A ball that contains log|A| for every symmetric A ⪰ least·I with ‖A − LLᵀ‖_F ≤ factor.error + ``further``.

    log|LLᵀ| − log|A| = Σ log(1 − e_i), where e_i are the eigenvalues of A^(−½)(A − LLᵀ)A^(−½), |e_i| ≤ ρ < 1 and
    Σe_i² ≤ ρ², ρ = error/least (N-exact).  Its absolute value is at most Σ|e_i|/(1 − ρ) ≤ √N ρ/(1 − ρ).  Balls evaluate
    log|LLᵀ| = 2 Σ log L_ii, the rows in the order of the pivots.

    Raises
    ------
    Unresolved
        where ρ is not below ¼, or L has fewer columns than rows.

    >>> from gpbounds.linalg.pair_cholesky import pair_cholesky
    >>> A = np.array([[4.0, 2.0], [2.0, 1.0 + 1e-13]])
    >>> factor = pair_cholesky(lambda rows, columns: (A[rows, columns], 0.0 * A[rows, columns]), 2)
    >>> ball = log_det(factor, least=1e-14)
    >>> bool(abs(float(ball.mid()) - np.log(4.0 * (A[1, 1] - 1.0))) < 1e-14), float(ball.rad()) < 1e-14
    (True, True)
    """
    from flint import arb

    N, rho = len(factor.L[0]), _share_of(factor, least, further)
    diagonal = zip(*(part[factor.pivots, np.arange(N)].tolist() for part in factor.L), strict=True)
    logs = 2 * sum((_number(*entry).log() for entry in diagonal), exact(0.0))
    return logs + arb(0.0, UP * math.sqrt(N) * rho / (1.0 - rho))


def quadratic(factor: PairFactor, Y: Pair, *, least: float, further: float = 0.0) -> list[Any]:
    """Balls that contain y_pᵀA⁻¹y_p for the columns y_p of Y (N, P); A as in `log_det`.

    (1 − ρ)A ⪯ LLᵀ ⪯ (1 + ρ)A, so that y_pᵀA⁻¹y_p is between 1 − ρ and 1 + ρ times |L⁻¹y_p|².  For any w with s =
    y_p − Lw this norm is within |s|/σ_min(L) of |w|, and σ_min(L)² ≥ (1 − ρ)·least (N-exact).

    Raises
    ------
    Unresolved
        as `log_det`.
    """
    from flint import arb

    rho = _share_of(factor, least, further)
    L = factor.L[0][factor.pivots], factor.L[1][factor.pivots]
    targets = Y[0][factor.pivots], Y[1][factor.pivots]
    w = solve_lower(L, targets)
    apart = remainder(L, w, targets)
    lost = UP * apart.largest / math.sqrt((1.0 - rho) * least)
    forms = []
    for square in column_squares(w):
        norm = square.sqrt() + arb(0.0, lost)
        low, high = norm.lower().max(0) ** 2, norm.upper() ** 2
        forms.append(((1 - exact(rho)) * low).union((1 + exact(rho)) * high))
    return forms


@dataclass(frozen=True, eq=False)
class _Remainder:
    """Y − AW within ``error``, in the Frobenius norm, of the pairs ``value``."""

    value: Pair
    error: float

    @property
    def norm(self) -> float:
        """Upper bound on the Frobenius norm."""
        return UP * (float(np.linalg.norm(self.value[0] + self.value[1])) * UP + self.error)

    @property
    def largest(self) -> float:
        """Upper bound on the norm of each column."""
        norms = np.linalg.norm(self.value[0] + self.value[1], axis=0)
        return UP * (float(norms.max()) * UP + self.error)


def remainder(A: Pair, W: Pair, Y: Pair) -> _Remainder:
    """Y − AW for A (m, k), W (k, n) and Y (m, n)."""
    turned = np.ascontiguousarray(W[0].T), np.ascontiguousarray(W[1].T)
    (high, low), error = multiply(A, turned)
    # `add` errs by 6u² of both
    error += 7.0 * U2 * float(np.linalg.norm(Y[0]) + np.linalg.norm(high))
    return _Remainder(add(Y, (-high, -low)), UP * error)
