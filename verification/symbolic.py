"""Exact decisions for checks: SymPy proves an identity, or an inequality by signs of coefficients or derivatives."""

from __future__ import annotations

from typing import Any

import sympy as sp


def vanishes(expression: Any) -> bool:
    """Whether a rational expression, or each entry of a matrix of them, is identically 0."""
    if isinstance(expression, sp.MatrixBase):
        return all(vanishes(entry) for entry in expression)
    numerator, _ = sp.fraction(sp.together(expression))
    return sp.expand(numerator) == 0


def nonnegative(expression: Any) -> bool:
    """Whether a rational expression in symbols ≥ 0 is proved ≥ 0: all coefficients of both of its parts are.

    False says nothing: an expression may be ≥ 0 with a negative coefficient.
    """
    numerator, denominator = sp.fraction(sp.cancel(sp.together(expression)))
    symbols = sorted(expression.free_symbols, key=str)
    assert all(symbol.is_nonnegative for symbol in symbols)
    if not symbols:
        return bool(expression >= 0)
    parts = [sp.Poly(part, *symbols).coeffs() for part in (numerator, denominator)]
    return any(all(bool(sign * c >= 0) for part in parts for c in part) for sign in (1, -1))


def rises_from_zero(function: Any, x: Any, order: int = 1) -> bool:
    """Whether f ≥ 0 for x ≥ 0 is proved: f and its derivatives below ``order`` are 0 at 0, that of ``order`` is ≥ 0."""
    for _ in range(order):
        start = function.subs(x, 0)
        if start != 0 and sp.simplify(start) != 0:
            return False
        function = sp.diff(function, x)
    return nonnegative(function)


class phi(sp.Function):  # type: ignore[misc]
    """The standard normal density, of which only φ' = −zφ is used."""

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative."""
        return -self.args[0] * phi(self.args[0])


class Phi(sp.Function):  # type: ignore[misc]
    """The standard normal distribution function, of which only Φ' = φ is used."""

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative."""
        return phi(self.args[0])


def esp(values: list[Any], j: int) -> Any:
    """The j-th elementary symmetric polynomial."""
    from itertools import combinations

    return sp.Add(*(sp.prod(chosen) for chosen in combinations(values, j))) if j >= 0 else sp.Integer(0)
