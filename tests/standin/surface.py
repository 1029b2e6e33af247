"""Write ``surface.json`` beside this file: the names of an installed CuPy, their parameters, the loops of its ufuncs.

    python -P tests/standin/surface.py

``-P`` is there so that CuPy itself is imported, not the stand-in beside this file.  It imports without a GPU: a virtual
environment with any of its wheels (version 14 or later) is enough.  An entry is the parameters of a function or method,
"(a, axis=None)"; "ufunc" and its loops; or the kind of anything else.
"""

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import cupy

MODULES = ("cupy", "cupy.cuda", "cupy.linalg", "cupyx", "cupyx.scipy.special")


def written(parameters: Iterable[inspect.Parameter]) -> str:
    """Parameters without ``self`` and annotations; a default that is not a literal becomes Ellipsis."""
    plain = []
    for p in parameters:
        literal = p.default is p.empty or isinstance(p.default, (bool, int, float, str, type(None)))
        plain.append(p.replace(annotation=p.empty, default=p.default if literal else ...))
    return str(inspect.Signature(p for p in plain if p.name != "self"))


def from_source(text: str) -> str:
    """The same for ``def name(...)`` as Python or Cython writes it: types before names are dropped."""
    bare = re.sub(r"\b\w+ (?=\w)", "", text.partition("(")[2].rpartition(")")[0])
    made = eval(f"lambda {bare}: None")  # the text is CuPy's own docstring
    return written(inspect.signature(made).parameters.values())


def entry(value: Any) -> str:
    """The entry of one name."""
    if isinstance(value, cupy.ufunc):
        return f"ufunc {' '.join(value.types)}"
    if inspect.isclass(value):
        return "class"
    if inspect.ismodule(value):
        return "module"
    if not callable(value):
        return "value"
    try:
        return written(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        first = (value.__doc__ or "").strip().partition("\n")[0].partition(" ->")[0]
        return from_source(first) if first.endswith(")") else "callable"


def names(owner: ModuleType | type) -> dict[str, str]:
    offered = (name for name in sorted(dir(owner)) if not name.startswith("_") and name != "annotations")
    return {name: entry(getattr(owner, name)) for name in offered}


def scipy_linalg() -> dict[str, str]:
    """cupyx.scipy.linalg, which cannot be imported without cuBLAS, from its source."""
    folder = Path(importlib.import_module("cupyx.scipy").__path__[0], "linalg")
    imports = [
        n for n in ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body if isinstance(n, ast.ImportFrom)
    ]
    offered = {alias.name for n in imports for alias in n.names if not alias.name.startswith("_")}
    bodies = [n for path in folder.glob("*.py") for n in ast.parse(path.read_text(encoding="utf-8")).body]
    functions = {n.name: n for n in bodies if isinstance(n, ast.FunctionDef) and n.name in offered}
    return {name: from_source(f"{name}({ast.unparse(functions[name].args)})") for name in sorted(functions)}


def cublas() -> dict[str, str]:
    """cupy.cublas, which cannot be imported without cuBLAS, from its source."""
    body = ast.parse(Path(cupy.__path__[0], "cublas.py").read_text(encoding="utf-8")).body
    functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
    return {name: from_source(f"{name}({ast.unparse(functions[name].args)})") for name in sorted(functions)}


def main() -> None:
    if cupy.__version__.endswith("standin"):
        raise SystemExit("expected CuPy itself, got its stand-in: run python -P, without PYTHONPATH")
    surface = {module: names(importlib.import_module(module)) for module in MODULES}
    surface["cupyx.scipy.linalg"], surface["cupy.cublas"] = scipy_linalg(), cublas()
    surface["cupy.ndarray"] = names(cupy.ndarray) | {n: "special" for n in dir(cupy.ndarray) if n.startswith("__")}
    blocks = [f'"version": {json.dumps(cupy.__version__)}']
    for module, entries in surface.items():
        lines = [f"{json.dumps(name)}: {json.dumps(text)}" for name, text in entries.items()]
        blocks.append(f"{json.dumps(module)}: {{\n" + ",\n".join(lines) + "\n}")
    Path(__file__).with_name("surface.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
    print({module: len(entries) for module, entries in surface.items()})


if __name__ == "__main__":
    main()
