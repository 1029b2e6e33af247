"""What the package as a whole promises: light to import, documented, without circles, without side effects."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import linecache
import math
import os
import pkgutil
import statistics
import subprocess
import sys
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

import fitting
import gpbounds

PACKAGES = {"gpbounds": gpbounds, "fitting": fitting}
HEAVY = (
    "scipy",
    "matplotlib",
    "sklearn",
    "mpmath",
    "flint",
    "tqdm",
    "cupy",
    "dask",
    "distributed",
    "pyarrow",
    "fitting",
)
SOURCES = {
    path.relative_to(Path(package.__path__[0]).parent).as_posix(): path
    for package in PACKAGES.values()
    for path in sorted(Path(package.__path__[0]).rglob("*.py"))
}
every_file = pytest.mark.parametrize("path", SOURCES.values(), ids=SOURCES)


def modules():
    names = list(PACKAGES)
    for package in PACKAGES.values():
        # A package that cannot be imported fails in its own test below, not here.
        walk = pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None)
        names += [m.name for m in walk if not m.name.endswith(".__main__")]
    return names


every_module = pytest.mark.parametrize("name", modules())


def fresh(program):
    """What ``program`` prints in an interpreter of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return ran.stdout


def test_import_is_light():
    program = (
        "import json, sys, time; start = time.process_time(); import gpbounds; spent = time.process_time() - start; "
        "print(json.dumps([spent, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    runs = [json.loads(fresh(program)) for _ in range(5)]
    # Processor time, so that other programs on the machine do not make this test fail.
    assert statistics.median(spent for spent, _ in runs) < 0.5
    assert not set(HEAVY) & set(runs[0][1])


@pytest.mark.parametrize(
    "first_line",
    [
        "gpbounds.SquaredExponential(lengthscale=[1.0, 2.0])",
        "gpbounds.Gaussian(), gpbounds.Uniform()",
        "gpbounds.NotPositiveDefinite",
        "dir(gpbounds)",
    ],
)
def test_stating_a_problem_loads_nothing_heavy(first_line):
    program = f"import sys, gpbounds; {first_line}; print(*(name.partition('.')[0] for name in sys.modules))"
    assert not set(HEAVY) & set(fresh(program).split())


@pytest.mark.parametrize("command", ["rate", "plan", "audit", "examine"])
def test_a_command_loads_no_statistics_that_take_half_its_time(command):
    program = f"import sys, gpbounds.cli.{command}; print(*sys.modules)"
    assert not {"scipy.stats", "scipy.optimize", "sklearn", "pandas", "matplotlib"} & set(fresh(program).split())


@pytest.mark.parametrize("name", gpbounds.__all__)
def test_public_names_resolve(name):
    assert getattr(gpbounds, name) is not None
    assert name in dir(gpbounds)


def test_public_names_are_unique_and_others_are_an_attribute_error():
    assert len(set(gpbounds.__all__)) == len(gpbounds.__all__)
    with pytest.raises(AttributeError, match="module 'gpbounds' has no attribute 'rates_'"):
        gpbounds.rates_  # noqa: B018


def test_version_is_that_of_the_distribution():
    project = Path(gpbounds.__path__[0]).parent / "pyproject.toml"
    assert gpbounds.__version__ == tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("package", PACKAGES)
def test_both_packages_say_that_they_are_typed(package):
    assert resources.files(package).joinpath("py.typed").is_file()


def test_no_number_is_about_another_one_unasked():
    """The tests' own tolerance: `conftest.py` takes back the 1e-12 that ``pytest.approx`` adds."""
    for small in (1e-13, 1e-30, 5e-324):
        assert small == pytest.approx(small * (1.0 + 1e-7))
        assert 0.0 != pytest.approx(small)
    assert 1e-30 != pytest.approx(2e-30)
    assert 1e-30 == pytest.approx(2e-30, abs=2e-30)


@every_module
def test_a_module_imports_and_its_examples_run(name):
    module = importlib.import_module(name)
    linecache.clearcache()  # each docstring has its files compared with the disk
    assert doctest.testmod(module).failed == 0


@every_module
def test_what_is_public_is_documented(name):
    module = importlib.import_module(name)
    bare = [] if (module.__doc__ or "").strip() else [name]
    for title, value in vars(module).items():
        if title.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if inspect.isclass(value):
            bare += [f"{title}.{m}" for m in undocumented_members(value)]
        if (inspect.isclass(value) or inspect.isfunction(value)) and not has_words(value):
            bare.append(title)
    assert not bare


def has_words(value):
    text = inspect.getdoc(value)
    generated = inspect.isclass(value) and text is not None and text.startswith(f"{value.__name__}(")  # by dataclass
    return bool(text) and not generated


def undocumented_members(cls):
    for title, member in vars(cls).items():
        is_code = callable(member) or isinstance(member, property | classmethod | staticmethod)
        # A method without a docstring inherits that of its parent.
        if is_code and not title.startswith("_") and not (inspect.getdoc(getattr(cls, title)) or "").strip():
            yield title


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(node, inside_functions):
    """The statements below ``node``, without blocks for type checkers and, unless asked for, functions' bodies."""
    left = [node]
    while left:
        top = left.pop()
        below = top.orelse if is_type_checking(top) else ast.iter_child_nodes(top)
        for child in below:
            if isinstance(child, ast.expr):  # holds no import
                continue
            if inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                left.append(child)
                if not is_type_checking(child):
                    yield child


def dotted(label):
    parts = Path(label).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(label, path, labels, inside_functions):
    """The modules of ``known`` that a file imports; ``from package import module`` counts as that module alone."""
    package = dotted(label) if Path(label).name == "__init__.py" else dotted(label).rpartition(".")[0]
    for node in statements(tree(path), inside_functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in labels)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in labels:
                    yield whole
                elif base in labels:
                    yield base


def circle(graph):
    """A closed path in ``graph``, or None."""
    state, trail = {}, []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for other in graph[node]:
            if state.get(other) == "open":
                return [*trail[trail.index(other) :], other]
            if other not in state:
                cycle = visit(other)
                if cycle:
                    return cycle
        state[node] = "done"
        trail.pop()
        return None

    return next((cycle for node in graph if node not in state and (cycle := visit(node))), None)


@pytest.mark.parametrize("inside_functions", [False, True], ids=["at import", "ever"])
def test_imports_run_in_one_direction(inside_functions):
    labels = {dotted(label) for label in SOURCES}
    graph = {
        dotted(label): {m for m in imported(label, path, labels, inside_functions) if m != dotted(label)}
        for label, path in SOURCES.items()
    }
    assert sum(map(len, graph.values())) > len(graph) / 2  # imports were read
    assert circle(graph) is None
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]  # a circle is detected


@every_file
def test_gpbounds_does_not_know_fitting(path):
    """The command line is above both packages; nothing else in `gpbounds` imports `fitting`, nor the command line."""
    label = path.relative_to(Path(gpbounds.__path__[0]).parent)
    if label.parts[0] == "fitting" or label.parts[:2] == ("gpbounds", "cli"):
        return
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert "fitting" not in names


def test_the_command_line_is_above_both_packages():
    """Nothing outside ``gpbounds.cli`` knows it, and no estimator is loaded until a fit is asked for."""
    labels = {dotted(label) for label in SOURCES}
    for label, path in SOURCES.items():
        below = not dotted(label).startswith("gpbounds.cli") and Path(label).name != "__main__.py"
        if below:
            assert not [m for m in imported(label, path, labels, True) if m.startswith("gpbounds.cli")], label
    loaded = fresh(
        "import sys, gpbounds.cli.demo, gpbounds.cli.training, gpbounds.cli.plan; print(*sys.modules)"
    ).split()
    assert "fitting.study.subsets" in loaded
    assert not [name for name in loaded if name.startswith("fitting.estimators") or name == "sklearn"]


def loaded_by(*words):
    """What is loaded when a command has ended; packages are named by their first part, and modules in full."""
    command = f"from gpbounds.cli import main; main({list(words)!r}); print('\\n', *sys.modules)"
    return set(fresh(f"import sys; {command}").splitlines()[-1].split())


def test_the_version_loads_no_numbers():
    assert not {"numpy", "scipy", "sklearn", "matplotlib"} & loaded_by("--version")
    assert not {"numpy", "scipy"} & loaded_by("--help")


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (("klinv", "0.02", "0.05"), "klinv"),
        (("claims", "R-thm1"), "claims"),
        (("rate", "-N", "1e6", "-M", "20"), "rate"),
        (("plan", "-N", "1e4"), "plan"),
    ],
)
def test_a_command_loads_what_it_needs(words, own):
    """Its own module and none of another command, nor a library that it does not use."""
    from gpbounds.cli import COMMANDS

    loaded = loaded_by(*words)
    assert {name for name in COMMANDS if f"gpbounds.cli.{name}" in loaded} == {own}
    assert not {"scipy.stats", "scipy.optimize", "sklearn", "pandas", "matplotlib", "fitting.estimators"} & loaded


def test_a_plan_of_a_table_fits_its_kernel_without_scikit_learn(tmp_path):
    """Loading scikit-learn, with statistics and dataframes, takes longer than the fit."""
    rows = [f"{x},{math.sin(x) + 0.1 * math.cos(40 * x)}" for x in range(12)]
    (tmp_path / "table.csv").write_text("\n".join(["x,y", *rows]), encoding="utf-8")
    loaded = loaded_by("plan", "--data", str(tmp_path / "table.csv"), "--simulate", "0", "--refits", "0")
    assert "fitting.estimators.trainer" in loaded
    assert not {"scipy.stats", "sklearn", "pandas", "matplotlib", "fitting.estimators.base"} & loaded


def lasting_effects(node, scoped=False):
    """Calls that change NumPy's or Python's settings for everybody, or write to the terminal."""
    for child in ast.iter_child_nodes(node):
        inside = scoped or (
            isinstance(child, ast.With) and any("catch_warnings" in ast.unparse(item) for item in child.items)
        )
        if isinstance(child, ast.Call):
            called = ast.unparse(child.func)
            name = called.rpartition(".")[2]
            if name in ("seterr", "set_printoptions", "seed") or called in ("print", "sys.stdout.write"):
                yield called, child.lineno
            if name in ("filterwarnings", "simplefilter") and not inside:
                yield called, child.lineno
        yield from lasting_effects(child, inside)


@every_file
def test_nothing_is_set_globally_and_nothing_is_printed(path):
    parts = path.relative_to(Path(gpbounds.__path__[0]).parent).parts
    talks = parts[:2] == ("gpbounds", "cli") or parts == ("fitting", "study", "answer.py")  # its method ``print``
    writes = ("print", "sys.stdout.write")
    assert not [(called, line) for called, line in lasting_effects(tree(path)) if not (talks and called in writes)]


def test_lasting_effects_are_seen():
    program = """
np.seterr(all="ignore")
warnings.simplefilter("ignore")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
def f():
    print("here")
"""
    assert list(lasting_effects(ast.parse(program))) == [("np.seterr", 2), ("warnings.simplefilter", 3), ("print", 7)]
