"""The examples of the public docstrings, as they stood when ``python .ci/freeze examples`` stored them.

`examples.txt` holds them under the public name.  Each expression of an example is a result, without the rounding
that a page needs: ``round(x, 4)`` and ``x.round(4)`` stand for x, also inside of other expressions.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("examples.txt")
NAMESPACE = ("gpbounds", "gpbounds.kernels", "gpbounds.inputs")
ELSEWHERE = ("fitting.variational_objective", "gpbounds.pages.claims_page", "gpbounds.renyi.Model.residuals")
"""Examples that use a name of their module that is not public; the other calls have what they show."""
LIKE_INPUTS = {"gpbounds.inputs": ("Empirical", "Gaussian", "Sampler", "Uniform")}


class _Unrounded(ast.NodeTransformer):
    """Takes roundings away: ``round(x, n)``, and ``x.round(n)`` where n is a number."""

    def visit_Call(self, node: ast.Call) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if isinstance(node.func, ast.Name) and node.func.id == "round" and len(node.args) == 2:
            return node.args[0]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "round" and _whole(node.args):
            return node.func.value
        return node


def _whole(args: list[ast.expr]) -> bool:
    return len(args) == 1 and isinstance(args[0], ast.Constant)


def calls() -> dict[str, Callable[[], Any]]:
    """A call for each public name in the file."""
    parts = re.split(r"^## (.+)$", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = zip(parts[1::2], parts[2::2], strict=True)
    return {name: lambda name=name, text=text: run(name, text) for name, text in texts}


def run(name: str, text: str) -> list[Any]:
    """The values of an example's expressions, in their order."""
    space = _namespace(name)
    values = []
    for example in doctest.DocTestParser().get_examples(text):
        tree = ast.fix_missing_locations(_Unrounded().visit(ast.parse(example.source)))
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            values.append(eval(compile(ast.Expression(tree.body[0].value), name, "eval"), space))
        else:
            exec(compile(tree, name, "exec"), space)
    return [value for value in values if value is not None]


def _namespace(name: str) -> dict[str, Any]:
    """What an example may use without an import: NumPy, kernels, laws of inputs, public names beside its own."""
    space: dict[str, Any] = {"np": importlib.import_module("numpy"), "tempfile": importlib.import_module("tempfile")}
    for module in (*NAMESPACE, *_packages(name)):
        found = importlib.import_module(module)
        names = LIKE_INPUTS.get(module) or found.__all__
        space |= {each: getattr(found, each) for each in names if hasattr(found, each)}
    return space


def _packages(name: str) -> list[str]:
    """The packages that a public name lies in, the outermost first: ``fitting`` and ``fitting.features``."""
    words = [word for word in name.split(".") if word.islower() or word.isidentifier()][:-1]
    found = []
    for end in range(1, len(words) + 1):
        try:
            module = importlib.import_module(".".join(words[:end]))
        except ImportError:
            break
        if hasattr(module, "__all__"):
            found.append(module.__name__)
    return found


def store() -> int:
    """Write `examples.txt` from the docstrings of today; to be done when examples have become better, and only then."""
    from recording import public_names

    finder, parser = doctest.DocTestFinder(), doctest.DocTestParser()
    texts = []
    for name, thing in public_names().items():
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        for test in finder.find(thing, name, module=False, globs={}):
            examples = parser.get_examples(test.docstring or "")
            lines = [line for each in examples for line in _prompted(each.source)]
            if lines and test.name not in ELSEWHERE:
                texts.append(f"## {test.name}\n" + "\n".join(lines) + "\n")
    FILE.write_text("\n".join(texts), encoding="utf-8")
    print(f"{len(texts)} examples in {FILE.name}")
    return 0


def _prompted(source: str) -> list[str]:
    first, *rest = source.rstrip("\n").split("\n")
    return [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
