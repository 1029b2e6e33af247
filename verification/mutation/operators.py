"""Small faults made from the syntax tree: each is one edit of the text, so that everything else stays as it is.

They change only computations: not messages (f-strings, ``raise``, ``assert``), annotations, decorators, defaults in
signatures, or functions that return text.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace

LITTLE = 1e-6
"""Constants below this are rounding allowances; mutants drop them or change their direction, but do not scale them."""
OPERATORS = ("scaled", "bound", "dropped", "swapped", "compared", "rounded", "extremum", "exponent")


@dataclass(frozen=True)
class Mutant:
    """One edit of one file.

    Attributes
    ----------
    file : str
        Relative to the root of the tree.
    operator : str
        One of `OPERATORS`, or "hand".
    scope : str
        The function, as ``Class.method``; empty outside of functions.
    line : int
        Where the edit starts.
    start, end : int
        The bytes of the file that are replaced.
    text : str
        What comes in their place.
    before, after : str
        The whole lines, stripped, that the edit is in.
    copy : int
        Number of earlier mutants of this file with the same text; a function may contain a line twice.
    """

    file: str
    operator: str
    scope: str
    line: int
    start: int
    end: int
    text: str
    before: str
    after: str
    copy: int = 0

    @property
    def key(self) -> str:
        """Identifies the mutant by the text before and after, independent of the line number."""
        words = "\0".join((self.file, self.scope, self.before, self.after, str(self.copy)))
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    def applied(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def edit(file: str, operator: str, scope: str, source: bytes, start: int, end: int, text: str) -> Mutant:
    """The mutant that puts ``text`` in the place of the bytes from ``start`` to ``end``."""
    first = source.rfind(b"\n", 0, start) + 1
    last = source.find(b"\n", end)
    last = len(source) if last < 0 else last
    before, after = (
        "\n".join(line.strip() for line in lines.decode().splitlines())
        for lines in (source[first:last], source[first:start] + text.encode() + source[end:last])
    )
    return Mutant(file, operator, scope, source.count(b"\n", 0, start) + 1, start, end, text, before, after)


def mutants(file: str, source: bytes) -> list[Mutant]:
    """The edits of one file, in the order of the text, each text once; two may have the same `meaning`."""
    edits = {(m.start, m.end, m.text): m for m in reversed(Finder(file, source).edits)}
    copies, mutations = Counter[tuple[str, str, str]](), []
    for where in sorted(edits):
        mutant = edits[where]
        same = (mutant.scope, mutant.before, mutant.after)
        mutations.append(replace(mutant, copy=copies[same]))
        copies[same] += 1
    return mutations


def meaning(source: bytes) -> str | None:
    """The syntax tree in words: texts that differ only in parentheses have the same one; None for a syntax error."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


BINARY = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
COMPARED = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
}
EXTREMA = {
    a: b
    for x, y in (("max", "min"), ("maximum", "minimum"), ("fmax", "fmin"), ("argmax", "argmin"), ("amax", "amin"))
    for a, b in ((x, y), (y, x))
}
OPPOSITE = {a: b for x, y in (("above", "below"), ("ceil", "floor"), ("upper", "lower")) for a, b in ((x, y), (y, x))}
UPWARDS = {"nextafter", "rounded_up", "_rounded_up", "round_up", "exp_up", "outwards", "_outwards", "_outward"}
"""Calls that round their first argument: without them it stays as it is."""
SIDED = ("settled", "decimal")
"""Calls with an argument that says whether to round upwards."""
ALLOWANCES = re.compile(r"(.*\.)?(EPS|eps|ROUNDING|SLACK|rounding)$")
UPWARD_FACTOR = re.compile(r"(.*\.)?UP$")
"""Factors that round what they multiply: dropped or turned."""
QUIET = {"rtol", "atol", "tol", "xtol", "gtol", "maxiter", "axis", "digits", "bits", "iterations"}
NUMBERS = re.compile(r"\b(float|Float|Array|Any|Bound|Real)\b")
WORDS = ("warn", "warning", "info", "debug", "Line", "Field", "match", "str", "repr", "format", "join", "TypeVar")


def literal(node: ast.AST) -> float | None:
    """The value of a number that stands in the text."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    return None


def called(node: ast.AST) -> str:
    """The last name of what is called."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_text(node: ast.AST) -> bool:
    """Strings, lists and tuples are joined, not added."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Set) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


class Finder(ast.NodeVisitor):
    """Walks over one file and keeps the edits it finds in ``edits``."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0, *(i + 1 for i, byte in enumerate(source) if byte == 10)]
        self.scope: list[str] = []
        self.returns = ""
        self.parents: list[ast.AST] = []
        self.edits: list[Mutant] = []
        self.visit(ast.parse(source))

    # the text

    def span(self, node: ast.AST) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def read(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def put(self, operator: str, where: ast.AST | tuple[int, int], text: str) -> None:
        start, end = where if isinstance(where, tuple) else self.span(where)
        self.edits.append(edit(self.file, operator, ".".join(self.scope), self.source, start, end, text))

    def between(self, left: ast.AST, right: ast.AST, token: str) -> tuple[int, int]:
        """Where the operator between two operands stands."""
        start, end = self.span(left)[1], self.span(right)[0]
        at = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.source[start:end]).index(token.encode())
        return start + at, start + at + len(token)

    # where to go

    def visit(self, node: ast.AST) -> None:
        self.parents.append(node)
        super().visit(node)
        self.parents.pop()

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        returns = ast.unparse(node.returns) if node.returns else "Any"
        if returns == "str" or node.name in ("__repr__", "__str__", "describe"):
            return
        kept, self.returns = self.returns, returns
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()
        self.returns = kept

    visit_FunctionDef = visit_AsyncFunctionDef = function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def nothing(self, node: ast.AST) -> None:
        """No value below this node enters a computation."""

    visit_Raise = visit_Assert = visit_JoinedStr = visit_Import = visit_ImportFrom = nothing

    # the faults

    def visit_Constant(self, node: ast.Constant) -> None:
        value, above = literal(node), self.parents[-3 if isinstance(self.parents[-2], ast.UnaryOp) else -2]
        if value is None or abs(value) < LITTLE or isinstance(above, ast.Compare | ast.Subscript | ast.Slice):
            return
        if type(node.value) is int and not (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult | ast.Div)):
            return
        if isinstance(above, ast.keyword) and above.arg in QUIET:
            return
        if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Pow) and node is above.right:
            return
        for factor in (0.999, 1.001):
            self.put("scaled", node, repr(round(value * factor, 15)) if abs(value) > 1e-3 else repr(value * factor))

    def scale(self, node: ast.expr) -> None:
        """A number that is handed out, 0.1 % off."""
        if isinstance(node, ast.Tuple):
            for part in node.elts:
                self.scale(part)
        elif isinstance(node, ast.IfExp):
            self.scale(node.body)
            self.scale(node.orelse)
        elif called(node) == "Bound":
            return  # its value is scaled where the call is met
        elif isinstance(node, ast.BinOp | ast.Call | ast.Name | ast.Attribute | ast.Subscript | ast.UnaryOp):
            for factor in (0.999, 1.001):
                self.put("bound", node, f"({factor} * ({self.read(node)}))")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and NUMBERS.search(self.returns):
            self.scale(node.value)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in BINARY and not is_text(node.left) and not is_text(node.right):
            here, other = BINARY[type(node.op)]
            is_sum = isinstance(node.op, ast.Add | ast.Sub)
            small = self.is_small(node.right) if is_sum else bool(UPWARD_FACTOR.match(self.read(node.right)))
            self.put("rounded" if small else "swapped", self.between(node.left, node.right, here), other)
            if is_sum or small:
                self.put("rounded" if small else "dropped", node, f"({self.read(node.left)})")
                if not small:
                    right = self.read(node.right)
                    self.put("dropped", node, f"({right})" if here == "+" else f"(-({right}))")
        elif isinstance(node.op, ast.Pow):
            power = literal(node.right)
            for factor in (0.97, 1.03):
                text = repr(round(power * factor, 12)) if power else f"({factor} * ({self.read(node.right)}))"
                self.put("exponent", node.right, text)
        self.generic_visit(node)

    def is_small(self, node: ast.expr) -> bool:
        """Whether this is an allowance for rounding, by its size or by its name."""
        value = literal(node)
        return bool(ALLOWANCES.match(self.read(node))) if value is None else abs(value) < LITTLE

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in BINARY and not is_text(node.value):
            here, other = BINARY[type(node.op)]
            self.put("swapped", self.between(node.target, node.value, here + "="), other + "=")
            self.put("dropped", node, "pass")
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and not (literal(node.operand) is not None or "inf" in self.read(node)):
            self.put("swapped", node, f"({self.read(node.operand)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            if type(op) in COMPARED and not is_text(right):
                here, others = COMPARED[type(op)]
                for other in others:
                    self.put("compared", self.between(left, right, here), other)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name, func = called(node), node.func
        if name in WORDS:
            return
        end = self.span(func)[1]
        place = (end - len(name.encode()), end)
        if name in EXTREMA:
            self.put("extremum", place, EXTREMA[name])
        if name in OPPOSITE and (name in ("above", "below", "ceil", "floor") or not node.args):
            self.put("rounded", place, OPPOSITE[name])
        if name in UPWARDS and node.args:
            self.put("rounded", node, self.read(node.args[0]))
        if name == "Bound":
            for value in [*node.args[:1], *(k.value for k in node.keywords if k.arg == "value")]:
                self.scale(value)
        if name == "nextafter":
            goal = self.read(node.args[1])
            self.put("rounded", node.args[1], goal[1:] if goal.startswith("-") else f"-{goal}")
        for argument in [
            *(node.args if name in SIDED else []),
            *(k.value for k in node.keywords if k.arg == "upwards"),
        ]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, bool):
                self.put("rounded", argument, str(not argument.value))
        self.generic_visit(node)

    def allowance(self, node: ast.Name | ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load) and ALLOWANCES.match(self.read(node)) and self.scope:
            above = self.parents[-2]
            if isinstance(above, ast.BinOp | ast.Call | ast.keyword) and node is not getattr(above, "func", None):
                self.put("rounded", node, "0.0")
        self.generic_visit(node)

    visit_Name = visit_Attribute = allowance
