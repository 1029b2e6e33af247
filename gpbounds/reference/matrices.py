"""Inverses and determinants of mpmath matrices, computed by Arb at least as accurately as mpmath does, and faster.

Arb's balls contain the exact result; the precision grows until they are smaller than mpmath's rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flint
from mpmath import ldexp, matrix, mp, mpf

MOST = 64
"""The largest precision tried, in multiples of mpmath's."""


def inverse(A: Any) -> Any:
    """A⁻¹ of a square matrix; the error is below mpmath's rounding error of its greatest entry.

    Raises
    ------
    ZeroDivisionError
        for a singular matrix.

    >>> print(inverse(matrix([[2, 1], [1, 1]])))
    [ 1.0  -1.0]
    [-1.0   2.0]
    """
    return _enclosed(A, lambda balls: balls.inv())


def det(A: Any) -> Any:
    """|A|; the relative error is below mpmath's rounding error.

    Raises
    ------
    ZeroDivisionError
        for a singular matrix, unless Arb finds exactly 0.

    >>> print(det(matrix([[2, 1], [1, 1]])))
    1.0
    """
    return _enclosed(A, lambda balls: flint.arb_mat([[balls.det()]]))[0, 0]


def _enclosed(A: Any, function: Callable[[Any], Any]) -> Any:
    """The middles of the balls of ``function``, at the first precision where every radius is small."""
    if A.rows != A.cols:
        raise ValueError(f"A: expected a square matrix, got {A.rows} × {A.cols}")
    balls = flint.arb_mat([[flint.arb(mpf(A[i, j])) for j in range(A.cols)] for i in range(A.rows)])
    bits = 2 * mp.prec
    while bits <= MOST * mp.prec:
        with flint.ctx.workprec(bits):
            try:
                found = function(balls)
            except ZeroDivisionError:  # the balls of a pivot contain 0
                found = None
            if found is not None:
                entries = found.entries()
                most = max((entry.abs_upper() for entry in entries), default=flint.arb(0))
                if all(entry.rad() * 2**mp.prec <= most for entry in entries):
                    middles = iter(_middle(entry) for entry in entries)
                    return matrix([[next(middles) for _ in range(found.ncols())] for _ in range(found.nrows())])
        bits *= 2
    raise ZeroDivisionError("A: expected a matrix that is not singular")


def _middle(ball: Any) -> Any:
    """The middle of a ball, rounded to mpmath's precision."""
    mantissa, exponent = ball.mid().man_exp()
    return +ldexp(mpf(int(mantissa)), int(exponent))
