"""Kernels as CUDA source: sums and products of functions of one squared distance each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Leaf:
    """A stationary kernel.

    Attributes
    ----------
    value : str
        k in ``s`` = r² and ``variance``.
    slope : str
        −2 dk/ds in ``s``, ``variance`` and ``k``; empty if only values are known.
    variance : float
    lengthscale : number or array (D,)
    """

    value: str
    slope: str
    variance: float
    lengthscale: ArrayLike


@dataclass(frozen=True)
class Pair:
    """The sum or the product of two expressions."""

    operation: Literal["+", "*"]
    first: Expression
    second: Expression


Expression = Leaf | Pair


def leaves(expression: Expression) -> list[Leaf]:
    """The stationary kernels, from the first to the last.

    >>> a, b = Leaf("s", "", 1.0, 1.0), Leaf("s * s", "", 1.0, 1.0)
    >>> [leaf.value for leaf in leaves(Pair("+", a, Pair("*", b, a)))]
    ['s', 's * s', 's']
    """
    if isinstance(expression, Leaf):
        return [expression]
    return leaves(expression.first) + leaves(expression.second)


def value(expression: Expression) -> str:
    """k in the values k0, k1, … of the leaves.

    >>> a = Leaf("s", "", 1.0, 1.0)
    >>> value(Pair("*", Pair("+", a, a), a))
    '((k0 + k1) * k2)'
    """
    return _value(expression, 0)


def derivatives(expression: Expression) -> list[str]:
    """dk/dk0, dk/dk1, … in the values of the leaves.

    >>> a = Leaf("s", "", 1.0, 1.0)
    >>> derivatives(Pair("*", Pair("+", a, a), a))
    ['k2', 'k2', '(k0 + k1)']
    """
    factors_of_leaves: list[str] = []

    def walk(part: Expression, outer: list[str], first: int) -> None:
        if isinstance(part, Leaf):
            factors_of_leaves.append(" * ".join(outer) or "1.0")
            return
        middle = first + len(leaves(part.first))
        factors: tuple[list[str], list[str]] = ([], [])
        if part.operation == "*":
            factors = [_value(part.second, middle)], [_value(part.first, first)]
        walk(part.first, outer + factors[0], first)
        walk(part.second, outer + factors[1], middle)

    walk(expression, [], 0)
    return factors_of_leaves


def _value(expression: Expression, first: int) -> str:
    if isinstance(expression, Leaf):
        return f"k{first}"
    middle = first + len(leaves(expression.first))
    return f"({_value(expression.first, first)} {expression.operation} {_value(expression.second, middle)})"


def covariances(expression: Expression, D: int) -> str:
    """The body of a kernel for k(x, z): ``left`` and ``right`` hold rows of D numbers, ``p`` `parameters`."""
    every = range(len(leaves(expression)))
    lines = [
        "long long row = i / columns, column = i - row * columns;",
        *(f"double s{n} = 0.0;" for n in every),
        f"for (int d = 0; d < {D}; ++d) {{",
        f"  double gap = (double)left[row * {D} + d] - (double)right[column * {D} + d];",
        *(f"  s{n} += (gap * p[{_inverse(n, D)}]) * (gap * p[{_inverse(n, D)}]);" for n in every),
        "}",
        *_values(expression, D),
        f"out = (R)({value(expression)});",
    ]
    return "\n".join(lines)


def pull_back(expression: Expression, D: int, cotangent: str) -> str:
    """The body of a kernel that adds to ``sums`` what the entries of some rows and one column contribute.

    ``cotangent`` is an expression in ``row`` and ``column``.  Each leaf has 1 + 2D sums: Σ W k, Σ W g_d and Σ W g_d²
    with g the scaled difference, where W of the last two includes −2 dk/ds.
    """
    every = range(len(leaves(expression)))

    def each(line: Callable[[int], str]) -> list[str]:
        return [line(n) for n in every]

    lines = [
        "long long block = i / columns, column = i - block * columns;",
        "long long start = block * each, stop = start + each < n ? start + each : n;",
        f"double z[{D}], gap[{D}];",
        f"for (int d = 0; d < {D}; ++d) z[d] = (double)right[column * {D} + d];",
        *each(lambda n: f"double scale{n} = 0.0, first{n}[{D}] = {{0.0}}, second{n}[{D}] = {{0.0}};"),
        "for (long long row = start; row < stop; ++row) {",
        *each(lambda n: f"double s{n} = 0.0;"),
        f"for (int d = 0; d < {D}; ++d) {{",
        f"  gap[d] = (double)left[row * {D} + d] - z[d];",
        *each(lambda n: f"  s{n} += (gap[d] * p[{_inverse(n, D)}]) * (gap[d] * p[{_inverse(n, D)}]);"),
        "}",
        *_values(expression, D),
        f"double c = {cotangent};",
        *(f"double c{n} = c * {factor};" for n, factor in enumerate(derivatives(expression))),
    ]
    for n, leaf in enumerate(leaves(expression)):
        lines += [
            f"scale{n} += c{n} * k{n};",
            f"{{ double s = s{n}, variance = p[{n * (D + 1)}], k = k{n}; c{n} *= {leaf.slope}; }}",
            f"for (int d = 0; d < {D}; ++d) {{",
            f"  double scaled = gap[d] * p[{_inverse(n, D)}], moved = c{n} * scaled;",
            f"  first{n}[d] += moved; second{n}[d] += moved * scaled;",
            "}",
        ]
    lines.append("}")
    for n in every:
        at = n * (1 + 2 * D)
        lines += [
            f"sums[({at} * blocks + block) * columns + column] += scale{n};",
            f"for (int d = 0; d < {D}; ++d) {{",
            f"  sums[(({at + 1} + d) * blocks + block) * columns + column] += first{n}[d];",
            f"  sums[(({at + 1 + D} + d) * blocks + block) * columns + column] += second{n}[d];",
            "}",
        ]
    return "\n".join(lines)


def _values(expression: Expression, D: int) -> list[str]:
    return [
        f"double k{n}; {{ double s = s{n}, variance = p[{n * (D + 1)}]; k{n} = {leaf.value}; }}"
        for n, leaf in enumerate(leaves(expression))
    ]


def _inverse(n: int, D: int) -> str:
    """The position of 1/lengthscale[d] of leaf n."""
    return f"{n * (D + 1) + 1} + d"
