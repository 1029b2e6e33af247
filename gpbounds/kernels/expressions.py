"""Kernels as CUDA source: sums and products of leaves, each a function of one sum over the columns of the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float


@dataclass(frozen=True)
class Scalar:
    """A parameter of a leaf that all columns share: its name and value, and dk/d log of it in s, the scalars and k."""

    name: str
    value: float
    slope: str


@dataclass(frozen=True)
class Form:
    """The term of one column in s, and its derivatives, as CUDA expressions in x, z, its weight w and its frequency f.

    Attributes
    ----------
    before : str
        Statements that the expressions share.
    term : str
        The column's term in s.
    first : str
        dk/dz is the leaf's slope times `unit` times this.
    second, third : str
        The derivatives in the logarithms of the column's first and second parameter are the slope times these.
    """

    before: str
    term: str
    first: str
    second: str
    third: str = ""

    def unit(self, w: Float, f: Float) -> Float:
        """The factor of `first` that is the same for all x and z of a column."""
        return w * f * math.pi if self.third else w


DISTANCE = Form("double g = (x - z) * w;", "g * g", "g", "g * g")
"""s = Σ (x − z)²w² with w = 1/lengthscale; the slope is −2 dk/ds."""
INNER = Form("", "x * z * w", "x", "x * z * w")
"""s = Σ xzw with w a variance; the slope is dk/ds."""
WAVE = Form(
    f"double t = (x - z) * f, u = {math.pi!r} * (t - rint(t)), g = sin(u) * w;",
    "g * g",
    "g * cos(u)",
    "g * g",
    f"g * cos(u) * w * {math.pi!r} * t",
)
"""s = Σ w² sin²(πf(x − z)) with w = 2/lengthscale, f = 1/period; the slope is −2 dk/ds."""


@dataclass(frozen=True)
class Leaf:
    """A kernel that depends on x and z by one sum s over columns.

    Its parameters are the scalars, then one per column (or one for all) for each kind of weight that its form has.

    Attributes
    ----------
    value : str
        k in ``s`` and the scalars.
    slope : str
        The slope of its `Form` in ``s``, the scalars and ``k``; empty if only values are known.
    scalars : tuple of Scalar
    form : Form or None
        None: k does not depend on x and z.
    weights, frequencies : number or array (D,)
        w and f: one for all columns, or one for each.
    columns : tuple or None
        Columns of the inputs that the weights belong to; None for all.
    """

    value: str
    slope: str
    scalars: tuple[Scalar, ...]
    form: Form | None = None
    weights: ArrayLike = 1.0
    frequencies: ArrayLike = 1.0
    columns: tuple[int, ...] | None = None

    def on(self, columns: tuple[int, ...]) -> Leaf:
        """The leaf as a function of these columns of wider inputs."""
        own = columns if self.columns is None else tuple(columns[d] for d in self.columns)
        return replace(self, columns=own)

    def numbers(self, D: int) -> Float:
        """The scalars, then w and f of D columns; other columns than its own have the weight 0."""
        parts = [np.array([scalar.value for scalar in self.scalars])]
        if self.form is not None:
            parts.append(self._spread(self.weights, D))
            if self.form.third:
                parts.append(self._spread(self.frequencies, D))
        return np.concatenate(parts)

    def derivatives(self, sums: Float, D: int) -> Float:
        """Derivatives in the logarithms of the parameters, from the sums of `pull_back` without those of dk/dz."""
        S = len(self.scalars)
        parts = [sums[:S]]
        columns = slice(None) if self.columns is None else list(self.columns)
        kinds = (self.weights, self.frequencies)
        for kind, start in zip(kinds, range(S + D, sums.size, D), strict=False):
            own = sums[start : start + D][columns]
            parts.append(own if np.ndim(kind) else own.sum(keepdims=True))
        return np.concatenate(parts)

    def moved(self, D: int) -> Float:
        """For each column the factor of the sums of `Form.first`."""
        assert self.form is not None
        return self.form.unit(self._spread(self.weights, D), self._spread(self.frequencies, D))

    def _spread(self, values: ArrayLike, D: int) -> Float:
        if self.columns is None:
            return np.broadcast_to(np.asarray(values, dtype=np.float64), (D,))
        spread = np.zeros(D)
        spread[list(self.columns)] = values
        return spread

    def size(self, D: int) -> int:
        """The length of `numbers`."""
        return len(self.scalars) + D * self._kinds

    def sums(self, D: int) -> int:
        """The number of sums that `pull_back` adds up."""
        return len(self.scalars) + D * (1 + self._kinds if self.form is not None else 0)

    @property
    def _kinds(self) -> int:
        return 0 if self.form is None else 2 if self.form.third else 1


@dataclass(frozen=True)
class Pair:
    """The sum or the product of two expressions."""

    operation: Literal["+", "*"]
    first: Expression
    second: Expression


Expression = Leaf | Pair


def leaves(expression: Expression) -> list[Leaf]:
    """The leaves, from the first to the last.

    >>> a, b = Leaf("s", "", ()), Leaf("s * s", "", ())
    >>> [leaf.value for leaf in leaves(Pair("+", a, Pair("*", b, a)))]
    ['s', 's * s', 's']
    """
    if isinstance(expression, Leaf):
        return [expression]
    return leaves(expression.first) + leaves(expression.second)


def on_columns(expression: Expression, columns: tuple[int, ...]) -> Expression:
    """The expression as a function of these columns of wider inputs.

    >>> on_columns(Pair("+", Leaf("s", "", ()), Leaf("s", "", (), columns=(1,))), (4, 2)).second.columns
    (2,)
    """
    if isinstance(expression, Leaf):
        return expression.on(columns)
    first, second = on_columns(expression.first, columns), on_columns(expression.second, columns)
    return Pair(expression.operation, first, second)


def value(expression: Expression) -> str:
    """k in the values k0, k1, … of the leaves.

    >>> a = Leaf("s", "", ())
    >>> value(Pair("*", Pair("+", a, a), a))
    '((k0 + k1) * k2)'
    """
    return _value(expression, 0)


def derivatives(expression: Expression) -> list[str]:
    """dk/dk0, dk/dk1, … in the values of the leaves.

    >>> a = Leaf("s", "", ())
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


def covariances(expression: Expression, D: int, *, blocks: bool = False) -> str:
    """The body of a kernel for k(x, z): ``left`` and ``right`` hold rows of D numbers, ``p`` the `Leaf.numbers`.

    With ``blocks`` x and z are rows of the same block of ``columns`` rows.
    """
    parts = _placed(expression, D)
    lines = [
        "long long row = i / columns, column = i - row * columns;",
        *(["column += row / columns * columns;"] if blocks else []),
        *(f"double s{n} = 0.0;" for n, _, _ in parts),
        f"for (int d = 0; d < {D}; ++d) {{",
        f"  double x = (double)left[row * {D} + d], z = (double)right[column * {D} + d];",
        *_terms(parts, D),
        "}",
        *_values(parts),
        f"out = (R)({value(expression)});",
    ]
    return "\n".join(lines)


def pull_back(expression: Expression, D: int, cotangent: str, *, blocks: bool = False) -> str:
    """The body of a kernel that adds the contributions of some rows in one column to ``sums``.

    With ``blocks`` these rows are those of the block of ``each`` rows to which the column belongs.

    ``cotangent`` is an expression in ``row`` and ``column``.  Each leaf has `Leaf.sums`: the derivatives in its
    scalars, then, for each column of the inputs, those sums of its `Form`.
    """
    parts = _placed(expression, D)

    def each(line: Callable[[int], str]) -> list[str]:
        return [line(n) for n, leaf, _ in parts if leaf.form is not None]

    lines = [
        "long long block = i / columns, column = i - block * columns;",
        "long long start = column / each * each, stop = start + each;"
        if blocks
        else "long long start = block * each, stop = start + each < n ? start + each : n;",
        f"double right_row[{D}], left_row[{D}];",
        f"for (int d = 0; d < {D}; ++d) right_row[d] = (double)right[column * {D} + d];",
        *(f"double scalar{n}_{m} = 0.0;" for n, leaf, _ in parts for m in range(len(leaf.scalars))),
        *each(lambda n: f"double first{n}[{D}] = {{0.0}}, second{n}[{D}] = {{0.0}};"),
        *(f"double third{n}[{D}] = {{0.0}};" for n, leaf, _ in parts if leaf.form is not None and leaf.form.third),
        "for (long long row = start; row < stop; ++row) {",
        *(f"double s{n} = 0.0;" for n, _, _ in parts),
        f"for (int d = 0; d < {D}; ++d) {{",
        f"  double x = (double)left[row * {D} + d], z = right_row[d];",
        "  left_row[d] = x;",
        *_terms(parts, D),
        "}",
        *_values(parts),
        f"double c = {cotangent};",
        *(f"double c{n} = c * {factor};" for n, factor in enumerate(derivatives(expression))),
    ]
    for n, leaf, at in parts:
        lines.append(f"{{ {_scalars(leaf, at)} double s = s{n}, k = k{n};")
        lines += [f"scalar{n}_{m} += c{n} * ({scalar.slope});" for m, scalar in enumerate(leaf.scalars)]
        if leaf.form is not None:
            lines += [
                f"c{n} *= {leaf.slope};",
                f"for (int d = 0; d < {D}; ++d) {{",
                f"  double x = left_row[d], z = right_row[d]; {_weights(leaf, at, D)}",
                f"  first{n}[d] += c{n} * ({leaf.form.first}); second{n}[d] += c{n} * ({leaf.form.second});",
                *([f"  third{n}[d] += c{n} * ({leaf.form.third});"] if leaf.form.third else []),
                "}",
            ]
        lines.append("}")
    lines.append("}")
    at = 0
    for n, leaf, _ in parts:
        for m in range(len(leaf.scalars)):
            lines.append(f"sums[({at + m} * blocks + block) * columns + column] += scalar{n}_{m};")
        if leaf.form is not None:
            lines.append(f"for (int d = 0; d < {D}; ++d) {{")
            for m, kind in enumerate(("first", "second", *(("third",) if leaf.form.third else ()))):
                place = at + len(leaf.scalars) + m * D
                lines.append(f"  sums[(({place} + d) * blocks + block) * columns + column] += {kind}{n}[d];")
            lines.append("}")
        at += leaf.sums(D)
    return "\n".join(lines)


def _placed(expression: Expression, D: int) -> list[tuple[int, Leaf, int]]:
    """Each leaf with its number and the place of its first number in ``p``."""
    placed, at = [], 0
    for n, leaf in enumerate(leaves(expression)):
        placed.append((n, leaf, at))
        at += leaf.size(D)
    return placed


def _scalars(leaf: Leaf, at: int) -> str:
    return " ".join(f"double {scalar.name} = p[{at + m}];" for m, scalar in enumerate(leaf.scalars))


def _weights(leaf: Leaf, at: int, D: int) -> str:
    """w and f of column d, and the statements of the form."""
    assert leaf.form is not None
    first = at + len(leaf.scalars)
    frequency = f" double f = p[{first + D} + d];" if leaf.form.third else ""
    return f"double w = p[{first} + d];{frequency} {leaf.form.before}"


def _terms(parts: list[tuple[int, Leaf, int]], D: int) -> list[str]:
    return [
        f"  {{ {_weights(leaf, at, D)} s{n} += {leaf.form.term}; }}" for n, leaf, at in parts if leaf.form is not None
    ]


def _values(parts: list[tuple[int, Leaf, int]]) -> list[str]:
    return [f"double k{n}; {{ {_scalars(leaf, at)} double s = s{n}; k{n} = {leaf.value}; }}" for n, leaf, at in parts]
