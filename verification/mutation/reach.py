"""Which lines a mutant sits in: a test can notice it only if it runs one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutation.operators import Mutant

Spots = dict[str, set[int]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Sources:
    """The syntax trees of the packages, by file."""

    def __init__(self, sources: dict[str, bytes]) -> None:
        self.trees = {file: ast.parse(source) for file, source in sources.items()}

    def spots(self, mutant: Mutant, source: bytes) -> Spots:
        """File -> lines.  For a constant of a module or a class, the functions that name it."""
        last = mutant.line + source.count(b"\n", mutant.start, mutant.end)
        inside = [
            node for node in path(self.trees[mutant.file], mutant.line, last) if isinstance(node, ast.stmt | ast.Module)
        ]
        if any(isinstance(node, Function) for node in inside[:-1]):
            return {mutant.file: own_lines(inside[-1])}
        if isinstance(inside[-1], Function):  # a default in its signature
            return {mutant.file: set(body_lines(inside[-1]))}
        names = set(targets(inside[-1])) if isinstance(inside[-1], ast.stmt) else set()
        if names:
            return self.naming(names, set())
        return {mutant.file: {line for f in functions(inside[-1]) for line in body_lines(f)}}

    def public(self, file: str) -> set[str]:
        """The functions and classes that a file offers."""
        names = {n.name for n in self.trees[file].body if isinstance(n, Function | ast.ClassDef)}
        return {name for name in names if not name.startswith("_")}

    def naming(self, names: set[str], seen: set[str]) -> Spots:
        """The functions in which one of these names stands, or a constant that is made of them."""
        spots: Spots = {}
        more: set[str] = set()
        for file, tree in self.trees.items():
            for function in functions(tree):
                if names & set(words(function)):
                    spots.setdefault(file, set()).update(body_lines(function))
            for statement in constants(tree):
                if names & set(words(statement)):
                    more.update(targets(statement))
        more -= names | seen
        if more:
            for file, lines in self.naming(more, seen | names).items():
                spots.setdefault(file, set()).update(lines)
        return spots


def path(node: ast.AST, first: int, last: int) -> Iterator[ast.AST]:
    """The nodes that hold the lines, from the outermost one to the innermost."""
    yield node
    for child in ast.iter_child_nodes(node):
        if getattr(child, "lineno", first + 1) <= first and last <= getattr(child, "end_lineno", -1):
            yield from path(child, first, last)
            return


def own_lines(statement: ast.AST) -> set[int]:
    """The lines of a statement without those of the block below it."""
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno  # type: ignore[attr-defined]
    return set(range(statement.lineno, max(end, statement.lineno) + 1))  # type: ignore[attr-defined]


def functions(node: ast.AST) -> Iterator[Function]:
    """The functions below ``node``, those inside of functions left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from functions(child)


def constants(tree: ast.AST) -> Iterator[ast.stmt]:
    """The assignments outside of functions."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Assign | ast.AnnAssign):
            yield child
        elif not isinstance(child, Function):
            yield from constants(child)


def body_lines(function: Function) -> range:
    """The lines of a function's body."""
    return range(function.body[0].lineno, (function.end_lineno or 0) + 1)


def targets(statement: ast.AST) -> Iterator[str]:
    """The names that an assignment gives values to."""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        whole = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (name for target in whole for name in words(target))


def words(node: ast.AST) -> Iterator[str]:
    """The names that stand below ``node``."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
