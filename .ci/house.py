"""Count the files, lines and structures that make the packages large, and enforce ceilings on the counts.

    python .ci/house.py            # a table: number, ceiling, goal; with the time of a small command
    python .ci/house.py --check    # counts only; exit status 1 if one exceeds its ceiling in .ci/house.toml
    python .ci/house.py --lower    # lower the ceilings to today's counts, after a change that made them fall

Definitions, over the packages gpbounds/ and fitting/ (``__init__`` included unless a line says otherwise):

- *files*, *lines*: of .py files; *docstring lines* are those of strings that are statements, *code lines* those
  that are neither docstring, nor import, nor comment only, nor blank.
- *kernel isinstance tests*: calls of isinstance or issubclass, and class patterns of ``match``, one of whose classes
  is a subclass of `gpbounds.kernels.Kernel` (a call with a tuple or a union of classes counts once; `Kernel` itself
  does not count).  A name is resolved through imports and module constants that hold classes or tuples of classes, in
  the module and in functions.
- *hooks*: names of underscore methods that two or more classes in fitting/estimators/ define.
- *objectives*: classes that define a method ``minimised``, protocols left out.
- *words for rigor*: those of `RIGOR_WORDS` that are a file's name; gpbounds/errors.py, the exceptions, has another
  meaning.
- *modules that call json*: those with a call of json.dump, dumps, load or loads; idioms of writing JSON cannot be
  counted by a program, but each needs such a module of its own.
- *function bodies above 60 lines*: from the first statement after the docstring to the last line.
- *class names with two owners*: public names of top-level classes in more than one file.
- *file names with two meanings*: names of more than one file, without those of house.toml's ``one_meaning``.
- *modules imported by one neighbour*: modules, without packages, whose only importer is a module of the same folder
  (imports in functions and for type checkers included; ``__init__`` counts as an importer), without those of
  house.toml's ``concepts``.
- *files entered*: files whose functions a call enters, by a profile hook, in a process that has imported everything
  the call needs; code of modules and class bodies does not count.
- *modules of klinv*: modules of the two packages that ``gpbounds klinv`` has loaded when it ends.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).with_name("house.toml")
PACKAGES = ("gpbounds", "fitting")
RIGOR_WORDS = (
    *("enclosed", "certified", "verified", "proved", "graded", "rounded", "rounding"),
    *("balls", "pairs", "errors"),
)
LONGEST_BODY = 60
KERNEL = ("gpbounds.kernels", "Kernel")
ESTIMATORS = "fitting.estimators"

GOALS = {
    "package files": 290,
    "package lines": 68_000,
    "code lines": 31_500,
    "docstring lines": None,
    "kernel isinstance tests": 60,
    "hooks overridden in several classes": 25,
    "objectives": 3,
    "words for rigor": 3,
    "modules that call json": 1,
    "function bodies above 60 lines": 0,
    "class names with two owners": 0,
    "file names with two meanings": 0,
    "modules imported by one neighbour": 0,
    "files entered by rate": 14,
    "files entered by SparseGP.fit": 35,
    "files entered by PACGP.fit": 48,
    "files entered by plan --data": 55,
    "modules of klinv": None,
}
"""What is counted → the number to reach; None where only the ceiling holds."""

JOURNEYS = {
    "rate": "from gpbounds import SquaredExponential as SE, rate\ngo = lambda X, y: rate(SE(), 10_000, 30, 1.0)",
    "SparseGP.fit": "from fitting import SparseGP\ngo = SparseGP('vfe', n_inducing=8, random_state=0).fit",
    "PACGP.fit": "from fitting import PACGP\ngo = PACGP(epsilon=0.5, delta=0.05, random_state=0).fit",
    "plan --data": "from gpbounds.cli import main\ngo = lambda X, y: main('plan --data table.csv --nats 1'.split())",
}
"""The calls that are followed; each defines ``go(X, y)``."""

DATA = """
import contextlib, io, json, sys, threading, warnings
import numpy as np
warnings.simplefilter("ignore")
X = np.linspace(0.0, 6.0, 80)[:, None]
y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
np.savetxt("table.csv", np.column_stack([X, y]), delimiter=",")
"""
LOADED = """
with contextlib.redirect_stdout(io.StringIO()):
    go(X, y)
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("gpbounds", "fitting")]))
"""
FOLLOWED = """
import importlib
for name in json.loads(sys.stdin.read()):
    if not name.endswith("__main__"):
        importlib.import_module(name)
entered = set()
def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a function, not a module or a class body
        entered.add(frame.f_code.co_filename)
with contextlib.redirect_stdout(io.StringIO()):
    threading.setprofile(hook)
    sys.setprofile(hook)
    go(X, y)
    sys.setprofile(None)
print(json.dumps(sorted(entered)))
"""
KLINV = """
import json, runpy, sys
sys.argv = ["gpbounds", "klinv", "0.02", "0.05"]
try:
    runpy.run_module("gpbounds", run_name="__main__")
except SystemExit:
    pass
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("gpbounds", "fitting")]))
"""

Symbol = tuple[str, str]
"""A name in a module."""


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, its text and its tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module = field(repr=False)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def names(self) -> dict[str, list[ast.expr | Symbol]]:
        """What each name may stand for: a symbol that an import brings, or an expression that is assigned to it."""
        found: dict[str, list[ast.expr | Symbol]] = defaultdict(list)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name].append((self.absolute(node), alias.name))
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    word = alias.asname or alias.name.partition(".")[0]
                    found[word].append((alias.name if alias.asname else word, ""))
        for node in self.tree.body:
            named = isinstance(node, ast.AnnAssign) and node.value is not None
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if named else []
            found |= {each.id: [node.value] for each in targets if isinstance(each, ast.Name)}
        return found

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that an import is from; relative imports are resolved."""
        if not node.level:
            return node.module or ""
        parts = self.folder.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1])
        return f"{base}.{node.module}" if node.module else base

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The top-level classes."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


@dataclass(frozen=True)
class House:
    """The modules of the packages under a folder."""

    modules: dict[str, Module]

    @classmethod
    def read(cls, root: Path) -> House:
        """All modules of the packages."""
        found = {}
        for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            found[name] = Module(name, path, text, ast.parse(text))
        return cls(found)

    def resolve(self, module: Module, node: ast.expr) -> set[Symbol]:
        """The classes that an expression names, where they are defined; tuples and unions name several."""
        if isinstance(node, ast.Tuple):
            return {symbol for each in node.elts for symbol in self.resolve(module, each)}
        if isinstance(node, ast.Starred):
            return self.resolve(module, node.value)
        if isinstance(node, ast.BinOp):
            return self.resolve(module, node.left) | self.resolve(module, node.right)
        if isinstance(node, ast.Subscript):
            return self.resolve(module, node.value)
        if isinstance(node, ast.Name):
            return self._symbol((module.name, node.id), frozenset())
        if isinstance(node, ast.Attribute) and (dotted := _dotted(node.value)):
            first, *rest = dotted.split(".")
            roots = [".".join(filter(None, [*each, *rest])) for each in _symbols(module, first)]
            return {symbol for root in roots for symbol in self._symbol((root, node.attr), frozenset())}
        return set()

    def _symbol(self, symbol: Symbol, seen: frozenset[Symbol]) -> set[Symbol]:
        """Where a name leads to, through imports and assignments."""
        module = self.modules.get(symbol[0])
        if module is None or symbol in seen:
            return set()
        if symbol[1] in module.classes:
            return {symbol}
        found: set[Symbol] = set()
        for meaning in module.names.get(symbol[1], ()):
            if isinstance(meaning, tuple):
                found |= self._symbol(meaning, seen | {symbol})
            elif not (isinstance(meaning, ast.Name) and meaning.id == symbol[1]):
                found |= self.resolve(module, meaning)
        return found

    @cached_property
    def kernels(self) -> set[Symbol]:
        """The subclasses of `Kernel`, near and far, without itself."""
        bases = {
            (module.name, name): {symbol for base in node.bases for symbol in self.resolve(module, base)}
            for module in self.modules.values()
            for name, node in module.classes.items()
        }
        found: set[Symbol] = set()
        reached = self._symbol(KERNEL, frozenset())
        if not reached:
            raise ValueError(
                f"expected the class {KERNEL[1]} in {KERNEL[0]}, got none: say in house.py where it is now"
            )
        while reached:
            reached = {name for name, above in bases.items() if above & reached} - found
            found |= reached
        return found

    def importers(self) -> dict[str, set[str]]:
        """Module → the modules that import it, or names from it."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                for name in self._imported(module, node):
                    if name != module.name:
                        found[name].add(module.name)
        return found

    def _imported(self, module: Module, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
        elif isinstance(node, ast.ImportFrom):
            base = module.absolute(node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in self.modules:
                    yield inner
                elif base in self.modules:
                    yield base


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := _dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def _symbols(module: Module, name: str) -> list[Symbol]:
    return [meaning for meaning in module.names.get(name, ()) if isinstance(meaning, tuple)]


def lines(text: str, tree: ast.Module) -> dict[str, int]:
    """The lines of a file by kind: code, docstring, import, comment, blank."""
    kinds = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), "docstring")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), "import")
    coded = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        for line in range(token.start[0], token.end[0] + 1)
    }
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        plain = "blank" if not line.strip() else "code" if number in coded else "comment"
        counts[kinds.get(number, plain)] += 1
    return counts


def kernel_tests(house: House) -> list[str]:
    """The places of tests for a class of kernels."""
    found, kernels = [], house.kernels
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            tested = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
                tested = node.args[1] if node.func.id in ("isinstance", "issubclass") else None
            elif isinstance(node, ast.MatchClass):
                tested = node.cls
            if tested is not None and house.resolve(module, tested) & kernels:
                found.append(f"{module.name}:{getattr(node, 'lineno', 0)}")
    return found


def hooks(house: House) -> list[str]:
    """Underscore methods that several classes of estimators define."""
    owners: Counter[str] = Counter()
    for module in house.modules.values():
        if module.name.startswith(ESTIMATORS):
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    owners.update({name for name in _methods(node) if name.startswith("_") and not name.endswith("__")})
    return sorted(name for name, count in owners.items() if count > 1)


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def objectives(house: House) -> list[str]:
    """Classes with a method ``minimised``, without protocols."""
    return [
        f"{module.name}.{node.name}"
        for module in house.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and "minimised" in _methods(node)
        and not any(
            _dotted(base.value if isinstance(base, ast.Subscript) else base) == "Protocol" for base in node.bases
        )
    ]


def long_bodies(house: House) -> list[str]:
    """Functions whose body, without the docstring, has more than `LONGEST_BODY` lines."""
    found = []
    for module in house.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
                if body and (node.end_lineno or 0) - body[0].lineno + 1 > LONGEST_BODY:
                    found.append(f"{module.name}.{node.name}")
    return found


def two_owners(house: House) -> list[str]:
    """Public class names of more than one file."""
    owners = Counter(name for module in house.modules.values() for name in module.classes if not name.startswith("_"))
    return sorted(name for name, count in owners.items() if count > 1)


def two_meanings(house: House, allowed: set[str]) -> list[str]:
    """Names of more than one file."""
    names = Counter(module.path.stem for module in house.modules.values() if not module.is_package)
    return sorted(name for name, count in names.items() if count > 1 and name not in allowed)


def one_neighbour(house: House, allowed: set[str]) -> list[str]:
    """Modules that only one module imports, of their own folder."""
    return sorted(
        name
        for name, users in house.importers().items()
        if len(users) == 1
        and name not in allowed
        and not house.modules[name].is_package
        and house.modules[next(iter(users))].folder == house.modules[name].folder
    )


def rigor_words(house: House) -> list[str]:
    """The words for rigor that are names of files."""
    stems = {name.rpartition(".")[2] for name in house.modules if name != "gpbounds.errors"}
    return [word for word in RIGOR_WORDS if word in stems]


def json_modules(house: House) -> list[str]:
    """Modules that call json themselves."""
    words = {f"json.{name}" for name in ("dump", "dumps", "load", "loads")}
    return [
        module.name
        for module in house.modules.values()
        if any(isinstance(node, ast.Call) and _dotted(node.func) in words for node in ast.walk(module.tree))
    ]


def run(program: str, folder: str, given: str = "") -> list[str]:
    """The list that a program prints last, run by this Python on the packages of this checkout."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    environment = os.environ | threads | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=folder, env=environment, input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def journeys() -> dict[str, list[str]]:
    """The files that each call enters: a first run says what is imported, a second one is followed."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in JOURNEYS.items():
            begin = f"{DATA}\n{call}\n"
            entered = run(begin + FOLLOWED, folder, json.dumps(run(begin + LOADED, folder)))
            own = tuple(str(ROOT / package) + os.sep for package in PACKAGES)
            found[f"files entered by {name}"] = [path for path in entered if path.startswith(own)]
        found["modules of klinv"] = run(KLINV, folder)
    return found


def static(house: House, settings: dict[str, Any]) -> dict[str, list[str] | int]:
    """What is counted by reading."""
    kinds: Counter[str] = Counter()
    for module in house.modules.values():
        kinds.update(lines(module.text, module.tree))
    return {
        "package files": len(house.modules),
        "package lines": kinds.total(),
        "code lines": kinds["code"],
        "docstring lines": kinds["docstring"],
        "kernel isinstance tests": kernel_tests(house),
        "hooks overridden in several classes": hooks(house),
        "objectives": objectives(house),
        "words for rigor": rigor_words(house),
        "modules that call json": json_modules(house),
        "function bodies above 60 lines": long_bodies(house),
        "class names with two owners": two_owners(house),
        "file names with two meanings": two_meanings(house, set(settings.get("one_meaning", {}))),
        "modules imported by one neighbour": one_neighbour(house, set(settings.get("concepts", {}))),
    }


def exceeded(counts: dict[str, int], ceilings: dict[str, int]) -> list[str]:
    """The counts above their ceilings; a count without a ceiling and a ceiling of nothing counted are faults, too."""
    above = [
        f"{name}: {counts[name]}, the ceiling is {ceilings[name]}"
        for name in counts
        if name in ceilings and counts[name] > ceilings[name]
    ]
    unknown = sorted(set(counts) ^ set(ceilings))
    return above + [f"{name}: expected a count and a ceiling, one is missing" for name in unknown]


ADVICE = """
Fold what you added into the place of its idea, or make as much room elsewhere; `python .ci/house.py --show NAME` lists
what a count consists of.  A file name or a module that is a concept of its own goes into `one_meaning` or `concepts`
of .ci/house.toml, with the reason.  Raise a ceiling by hand only together with a feature, and say so in the commit."""


def lowered(text: str, counts: dict[str, int]) -> str:
    """The settings file with the ceilings that can fall lowered to the counts; all else stays as it is."""
    kept = []
    for line in text.splitlines():
        name, equals, value = line.partition(" = ")
        known = name.strip('"') in counts and equals and value.isdigit()
        kept.append(f"{name} = {min(int(value), counts[name.strip(chr(34))])}" if known else line)
    return "\n".join(kept) + "\n"


def table(counts: dict[str, int], ceilings: dict[str, int]) -> str:
    """The counts beside ceilings and goals."""
    rows = [("", "today", "ceiling", "goal")]
    for name, count in counts.items():
        goal = GOALS.get(name)
        rows.append((name, f"{count:,}", f"{ceilings.get(name, 0):,}", "" if goal is None else f"{goal:,}"))
    return "\n".join(f"{name:38}{today:>10}{ceiling:>10}{goal:>10}" for name, today, ceiling, goal in rows)


def seconds() -> float:
    """Wall time of ``gpbounds klinv``, the least of three runs."""
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for _ in range(3):
            before = time.perf_counter()
            run(KLINV, folder)
            times.append(time.perf_counter() - before)
    return min(times)


def main() -> int:
    """Print the table, or check or lower the ceilings; the exit status."""
    parser = argparse.ArgumentParser(prog="python .ci/house.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a count exceeds its ceiling")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to today's counts")
    parser.add_argument("--show", metavar="NAME", help="list what a count consists of")
    words = parser.parse_args()
    text = CEILINGS.read_text(encoding="utf-8")
    settings = tomllib.loads(text)
    found = static(House.read(ROOT), settings) | journeys()
    if words.show:
        shown = found[words.show]
        print("\n".join(shown) if isinstance(shown, list) else shown)
        return 0
    counts = {name: value if isinstance(value, int) else len(value) for name, value in found.items()}
    ceilings = settings["ceilings"]
    if words.lower:
        CEILINGS.write_text(lowered(text, counts), encoding="utf-8")
        return 0
    print(table(counts, ceilings))
    if not words.check:
        print(f"{'seconds of gpbounds klinv':38}{seconds():>10.2f}{'':>10}{0.6:>10}")
        return 0
    faults = exceeded(counts, ceilings)
    if faults:
        print("\n" + "\n".join(faults) + ADVICE)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
