"""Names and sentences hold to the glossary of ARCHITECTURE.md: one name for one meaning, one way to ask."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpbounds import Uniform
from gpbounds.kernels import Matern
from gpbounds.likelihoods import Gaussian
from gpbounds.losses import Band
from gpbounds.pacbayes import Exact, HyperGrid
from gpbounds.vecchia import near

KEYWORD_ONLY = ("noise", "delta", "inputs")
NEVER = {
    "s2": "a variance is v",
    "eps": "a loss's half width is epsilon, a right-hand side divergence, a planner's goal target",
    "seed": "functions take rng, estimators random_state",
    "accuracy": "a loss's half width is epsilon",
    "goal": "a planner's goal is target",
}
FORMS = {"sharpest", "printed"}
ESTIMATORS = "fitting.estimators"
ORDERS = ("gpbounds.rates.", "gpbounds.renyi.", "fitting.objectives.collapsed.member")
"""What is about Rényi divergences alone: `alpha` is an order there, described or not."""
EVALUATED = ("evaluate", "minimised")
"""Methods of `fitting.objectives.point.Objective`: training needs their gradient, which is therefore their default."""
WITHOUT = (
    *("gpbounds.cli", "gpbounds.plotting", "gpbounds.reference"),
    *("gpbounds.linalg", "gpbounds.numerics", "fitting.training"),
)
"""Options of the shell, looks of figures, the formulas of the ledger in mpmath, and packages for internal use."""


def modules(package: str) -> Iterator[str]:
    yield package
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.startswith(WITHOUT):
            yield module.name


def defined(module: str) -> Iterator[tuple[str, Any]]:
    """Functions and classes that a module defines, by public name."""
    for name, value in vars(importlib.import_module(module)).items():
        is_defined = getattr(value, "__module__", None) == module
        if is_defined and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def exported() -> set[str]:
    """The names that packages of gpbounds and fitting list in ``__all__``, as "module.name" of their home."""
    homes = set()
    for module in (m for package in ("gpbounds", "fitting") for m in modules(package)):
        package = importlib.import_module(module)
        if hasattr(package, "__path__"):
            values = [getattr(package, name) for name in getattr(package, "__all__", ())]
            homes |= {f"{v.__module__}.{v.__qualname__}" for v in values if inspect.isfunction(v) or inspect.isclass(v)}
    return homes


def callables(package: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, classes (their constructors) and public methods of a package."""
    for module in modules(package):
        for name, value in defined(module):
            yield f"{module}.{name}", value
            if inspect.isclass(value):
                for method, raw in vars(value).items():
                    function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{module}.{name}.{method}", function


EXPORTED = exported()
CALLABLES = {
    name: value
    for package in ("gpbounds", "fitting")
    for name, value in callables(package)
    if name in EXPORTED or name.rpartition(".")[0] in EXPORTED
}
FUNCTIONS = {name for name, value in CALLABLES.items() if inspect.isfunction(value) and name in EXPORTED}


def signatures(word: str, names: Iterable[str] = CALLABLES) -> Iterator[tuple[str, inspect.Parameter]]:
    """(name, parameter) of all public callables, or of ``names``, that have a parameter of this name."""
    for name in names:
        try:
            parameters = inspect.signature(CALLABLES[name]).parameters
        except ValueError:  # a class without a signature, such as an exception
            continue
        if word in parameters:
            yield name, parameters[word]


def words_of(name: str, parameter: str) -> set[Any]:
    """The words that an annotation ``Literal[...]`` of a parameter allows; empty without one."""
    return set(typing.get_args(typing.get_type_hints(CALLABLES[name]).get(parameter)))


def test_there_is_something_to_hold():
    assert len(EXPORTED) > 100
    assert len(CALLABLES) > 150
    assert "gpbounds.pacbayes.theorems.bound" in FUNCTIONS


@pytest.mark.parametrize("word", KEYWORD_ONLY)
def test_hypotheses_are_given_by_name(word):
    """``noise``, ``delta`` and ``inputs`` of a free function of gpbounds are keyword-only; records may differ.

    The noise of `at_unit_noise` is what the function is about, and no hypothesis.
    """
    free = [name for name in FUNCTIONS if name.startswith("gpbounds.") and name != "gpbounds.row_noise.at_unit_noise"]
    wrong = [name for name, parameter in signatures(word, free) if parameter.kind is not parameter.KEYWORD_ONLY]
    assert wrong == [], f"{word}: expected keyword-only"


@pytest.mark.parametrize("word", NEVER)
def test_words_that_have_another_name(word):
    stored = {"gpbounds.pacbayes.certificate.split.Split"} if word == "seed" else set()  # a number in a file
    assert {name for name, _ in signatures(word)} - stored == set(), NEVER[word]


def test_a_form_is_the_sharpest_or_the_printed_one():
    """``form`` has the default "sharpest", and no annotation allows a third word."""
    for name, parameter in signatures("form", FUNCTIONS):
        assert parameter.default == "sharpest", name
        assert words_of(name, "form") <= FORMS, name


@pytest.mark.parametrize("word", ["form", "posterior", "rule", "relaxation", "objective", "method"])
def test_other_variants_are_not_called_sharpest_or_printed(word):
    """A choice that is no form has its own words; "printed" stays the rule of a paper beside others."""
    for name, _ in signatures(word, FUNCTIONS):
        words = words_of(name, word)
        assert word == "form" or words != FORMS, f"{name}({word}=): expected form="


def test_alpha_is_the_order_of_a_divergence():
    """What is called ``alpha`` is described as an order; a power of K − Q is called ``power``."""
    for name, _ in signatures("alpha"):
        words = inspect.getdoc(CALLABLES[name]) or ""
        described = re.search(r"^(?:.*, )?alpha(?:, .*)? : .*\n((?:[ \t]+.*\n?)+)", words, re.MULTILINE)
        assert name.startswith(ORDERS) or (described and "order" in described[1].lower()), name
    assert [name for name, _ in signatures("power") if name.startswith("gpbounds.renyi.")] == []


def test_functions_take_rng_and_estimators_random_state():
    """`fitting.certify` trains an estimator, and draws the rows of its training as scikit-learn's splits do."""
    train = (ESTIMATORS, "fitting.certifying.door.certify")
    assert [name for name, _ in signatures("random_state") if not name.startswith(train)] == []
    assert [name for name, _ in signatures("rng") if name.startswith(ESTIMATORS)] == []
    for name, parameter in signatures("rng", FUNCTIONS):
        assert "int" in str(parameter.annotation), f"{name}(rng=): expected a seed or a Generator"


def test_jitter_is_auto_unless_a_number_is_given():
    """A record of what was added holds a number; an argument has the default "auto"."""
    assert [name for name, parameter in signatures("jitter", FUNCTIONS) if parameter.default != "auto"] == []
    records = dict(signatures("jitter"))
    for kind in ("Sparse", "Free", "Whitened"):
        assert records[f"gpbounds.pacbayes.certificate.posteriors.{kind}"].default == "auto"


def test_gradients_are_asked_for_by_a_keyword():
    """``f(..., gradient=True)`` returns (value, *derivatives); no twin ``f_gradient`` stands beside f."""
    assert [name for name in CALLABLES if name.removesuffix("_gradient") in set(CALLABLES) - {name}] == []
    for name, parameter in signatures("gradient"):
        if inspect.isclass(CALLABLES[name]):
            continue  # a record that holds a gradient
        assert parameter.kind is parameter.KEYWORD_ONLY, name
        assert parameter.default is (name.rpartition(".")[2] in EVALUATED), name


def test_predictions_are_latent_unless_noisy():
    for name, parameter in signatures("noisy"):
        if not inspect.isclass(CALLABLES[name]):
            assert parameter.default is False, name
            assert parameter.kind is parameter.KEYWORD_ONLY, name


def test_theorems_count_inducing_points_as_M():
    assert [name for name, _ in signatures("n_inducing") if not name.startswith(ESTIMATORS)] == []
    assert [name for name, _ in signatures("M") if name.startswith(ESTIMATORS)] == []


def test_only_one_function_is_called_certify():
    assert [name for name in FUNCTIONS if name.endswith(".certify")] == ["fitting.certifying.door.certify"]


# Names and sentences of all files

ROOT = Path(__file__).parents[1]
FOLDERS = ("gpbounds", "fitting", "tests", "verification", "benchmarks", "examples")
FREQUENCY = {"found": 200, "lane": 1, "shelf": 1, "told": 1, "thing": 1}
"""Names that do not say what they hold; each may stand fewer times than this in the whole repository."""
RIDDLES = (
    "Less what was made small, at the end",
    "What is not as one hopes, sentence by sentence",
    "And part of the determinant.",
    "a worker that is lost takes nothing with it that the scheduler cannot have computed again",
    "The members of the lower bound that have the normaliser in common, less it",
    "Say of the errors of pyarrow that the file is none; those of the system pass",
    "where there is no point to go back to, Ctrl-C goes on",
    "whoever forges can seal again, and is then left to the mathematics",
    "by this many allowances and a millionth: beyond it is another",
    "of the diagonal entry that it is left of has no digit that is true",
    "a deviation that are both nothing, have no digits to agree in",
    "infinite for all that doubles can tell",
    "R in full shapes q, and so no α",
    "the first 20 of 30 are the 20",
    "no derivative that one may follow is larger",
    "both speak of *your* inputs instead of a law",
    "and above what is left of the whole, which is 1",
    "What is proved of a kernel beyond its values it states itself",
    "no bound on its error is proved: whoever needs one multiplies by a",
    "the maximum of an estimate has a value below the largest by at most",
    "Steps have drifted off if the objective is so much of itself below the best point",
    "The inputs of whose ranks a function explains more of",
)
"""Sentences that readers did not understand; their meaning stands in plain words today."""


@cache
def texts() -> dict[str, str]:
    """The text of the repository's sources, documents and settings, by path; this file is left out."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    paths += ROOT.glob("*.*")
    wanted = [path for path in paths if path.suffix in (".py", ".md", ".toml") and path != Path(__file__)]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(wanted)}


def identifiers(source: str) -> Iterator[str]:
    """Variables, arguments, keywords of calls, functions and aliases of a module; attributes are left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or ""


@cache
def frequencies() -> dict[str, Counter[str]]:
    """How often each name stands in each source that has a word of ``FREQUENCY``, by path."""
    word = re.compile(rf"\b({'|'.join(FREQUENCY)})\b")
    sources = {path: text for path, text in texts().items() if path.endswith(".py") and word.search(text)}
    return {path: Counter(identifiers(text)) for path, text in sources.items()}


def running(text: str) -> str:
    """A text without its line breaks, comment signs, quotation marks and capitals: a sentence may go over lines."""
    return " ".join(re.sub(r"[\s#\"']+", " ", text).split()).lower()


@cache
def prose() -> dict[str, str]:
    return {path: running(text) for path, text in texts().items()}


@pytest.mark.parametrize(("name", "limit"), FREQUENCY.items())
def test_local_names_say_what_they_hold(name, limit):
    count = Counter({path: counted[name] for path, counted in frequencies().items() if counted[name]})
    assert count.total() < limit, f"expected names that say what they hold instead of {name!r}: {count.most_common(10)}"


@pytest.mark.parametrize("riddle", RIDDLES)
def test_sentences_that_readers_did_not_understand_stand_nowhere(riddle):
    assert [path for path, text in prose().items() if running(riddle) in text] == []


def test_a_sentence_is_recognised_over_lines_and_in_comments():
    """Otherwise the test above could not fail."""
    for text in ("# Less what was\n    # made small, at the end.", '"infinite for all that "\n    "doubles can tell"'):
        assert sum(running(riddle) in running(text) for riddle in RIDDLES) == 1
    assert Counter(identifiers("def f(found): return [found for found in x(found=found)]"))["found"] == 5
    assert {"tests/test_package.py", "ARCHITECTURE.md", "gpbounds/ledger.toml"} <= set(texts())


X = np.linspace(0.0, 1.0, 6)[:, None]
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("X", "X_new", "new", "points"), X),
    **dict.fromkeys(("y", "features"), X[:, 0]),
    **dict.fromkeys(("M", "m", "rank"), 4),
    "N": 9,
    **dict.fromkeys(("noise", "delta", "target", "alpha", "power", "ridge", "width"), 0.5),
    **dict.fromkeys(("block", "neighbours", "half_width"), 1),
    "c": 2.0,
    "gp": SimpleNamespace(_m=[4], _c=2.0, _L=None, cov_func=type("ExpQuad", (), {"ls": 1.0})()),
    "Z": X[:2],
    **{"likelihood": Gaussian(0.5), "q_mean": np.zeros(2), "q_factor": np.eye(2)},
    "mean": np.zeros(2),
    **dict.fromkeys(("covariance", "factor"), np.eye(2)),
    "rng": 0,
    "inputs": Uniform(),
    "grid": HyperGrid.shared(-3.0, 3.0, 12),
    "loss": Band(0.5),
    "rebuild": lambda kernel, X, y: Exact(0.1),
    "blocks": near(Matern(0.5), X, block=2, neighbours=1),
    **{"posterior": None, "others": X, "least": 0.0},
}
"""Right values for the other arguments of a function that takes a kernel."""


def takes_a_kernel(name: str) -> bool:
    parameters = inspect.signature(CALLABLES[name]).parameters
    return "kernel" in parameters and "Kernel" in str(parameters["kernel"].annotation)


@pytest.mark.parametrize("name", sorted(filter(takes_a_kernel, FUNCTIONS)))
def test_what_is_no_kernel_is_refused_by_name(name):
    parameters = inspect.signature(CALLABLES[name]).parameters.values()
    others = {p.name: ARGUMENTS[p.name] for p in parameters if p.default is p.empty and p.name != "kernel"}
    with pytest.raises(ValueError, match=r"kernel: expected .*, got .*(se|str)"):
        CALLABLES[name](**{"kernel": "se", **others})
