"""Public signatures hold to the glossary of ARCHITECTURE.md: one name for one meaning, one way to ask."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

KEYWORD_ONLY = ("noise", "delta", "inputs")
NEVER = ("s2", "eps", "seed", "accuracy", "goal")
FORMS = {"sharpest", "printed"}
ESTIMATORS = "fitting.estimators"
WITHOUT = ("gpbounds.cli", "gpbounds.plotting", "gpbounds.reference")
"""The shell has options, pictures have looks, and the references write formulas as the ledger does."""


def modules(package: str) -> Iterator[str]:
    yield package
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not found.name.startswith(WITHOUT):
            yield found.name


def defined(module: str) -> Iterator[tuple[str, Any]]:
    """Functions and classes that a module defines, by public name."""
    for name, value in vars(importlib.import_module(module)).items():
        mine = getattr(value, "__module__", None) == module
        if mine and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def exported() -> set[str]:
    """What a package of gpbounds or fitting offers: the names of its ``__init__``, as "module.name" of their home."""
    names = set()
    for module in (m for package in ("gpbounds", "fitting") for m in modules(package)):
        package = importlib.import_module(module)
        if hasattr(package, "__path__"):
            for name in getattr(package, "__all__", ()):
                value = getattr(package, name)
                if inspect.isfunction(value) or inspect.isclass(value):
                    names.add(f"{value.__module__}.{value.__qualname__}")
    return names


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


def parameters(value: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(value).parameters)
    except ValueError:  # a class without a signature, such as an exception
        return {}


EXPORTED = exported()
EVERYTHING = [(name, parameters(value)) for package in ("gpbounds", "fitting") for name, value in callables(package)]
PUBLIC = [(name, found) for name, found in EVERYTHING if name in EXPORTED or name.rpartition(".")[0] in EXPORTED]
FUNCTIONS = {
    f"{module}.{name}": value
    for module in modules("gpbounds")
    for name, value in defined(module)
    if inspect.isfunction(value)
}
HELD = (
    "gpbounds.renyi",
    "gpbounds.kdpp",
    "gpbounds.rates",
    "gpbounds.spectra",
    "gpbounds.inputs",
    "gpbounds.bound",
    "gpbounds.plan",
    "gpbounds.statements",
    "gpbounds.whitening",
    "gpbounds.divergences",
    "gpbounds.likelihoods",
    "gpbounds.losses",
    "gpbounds.montecarlo",
    "gpbounds.pacbayes",
)
"""Where the glossary holds today."""


def held(name: str) -> bool:
    return name.startswith(HELD)


def offenders(names: Iterator[str]) -> list[str]:
    return sorted(filter(held, names))


def test_there_is_something_to_hold():
    assert len(EXPORTED) > 100
    assert len(PUBLIC) > 150
    assert "gpbounds.pacbayes.theorems.bound" in EXPORTED


@pytest.mark.parametrize("word", KEYWORD_ONLY)
def test_the_hypotheses_of_a_theorem_are_given_by_name(word):
    """``noise``, ``delta`` and ``inputs`` of a free function are keyword-only; a record may take them by position."""
    wrong = (
        name
        for name, found in PUBLIC
        if name in FUNCTIONS and word in found and found[word].kind is not inspect.Parameter.KEYWORD_ONLY
    )
    assert offenders(wrong) == []


@pytest.mark.parametrize("word", NEVER)
def test_words_that_have_another_name(word):
    """A variance is v, a loss's half width epsilon, a bound's right-hand side divergence, a seed rng, a goal target."""
    assert offenders(name for name, found in PUBLIC if word in found) == []


def test_a_form_is_the_sharpest_or_the_printed_one():
    """``form`` has the default "sharpest", and no annotation allows a third word."""
    wrong = []
    for name, found in PUBLIC:
        if "form" in found and name in FUNCTIONS:
            hint = typing.get_type_hints(FUNCTIONS[name]).get("form")
            words = set(typing.get_args(hint))
            if found["form"].default != "sharpest" or (words and words != FORMS):
                wrong.append(name)
    assert offenders(iter(wrong)) == []


def test_alpha_is_the_order_of_a_divergence():
    """Only functions about a Rényi divergence have an ``alpha``; a power of K − Q is called ``power``."""
    about_divergences = (
        "gpbounds.divergences.gaussian.gaussian_renyi",
        "gpbounds.kdpp",
        "gpbounds.rates",
        "gpbounds.renyi",
    )
    assert (
        offenders(name for name, found in PUBLIC if "alpha" in found and not name.startswith(about_divergences)) == []
    )


def test_functions_take_rng_and_estimators_random_state():
    wrong = [name for name, found in PUBLIC if "random_state" in found and not name.startswith(ESTIMATORS)]
    wrong += [name for name, found in PUBLIC if "rng" in found and name.startswith(ESTIMATORS)]
    assert offenders(iter(wrong)) == []


def test_jitter_is_auto_unless_a_number_is_given():
    """A record of what was added has a number; an argument has the default "auto"."""
    functions = (
        name for name, found in PUBLIC if name in FUNCTIONS and "jitter" in found and found["jitter"].default != "auto"
    )
    assert offenders(functions) == []
    records = dict(EVERYTHING)
    for kind in ("Sparse", "Free", "Whitened"):
        assert records[f"gpbounds.pacbayes.certificate.posteriors.{kind}"]["jitter"].default == "auto"


def test_gradients_are_asked_for_by_a_keyword():
    """``f(..., gradient=True)`` returns (value, *derivatives); no twin ``f_gradient`` stands beside f."""
    names = {name for name, _ in PUBLIC}
    assert offenders(name for name in names if name.removesuffix("_gradient") in names - {name}) == []
    wrong = (
        name
        for name, found in PUBLIC
        if "gradient" in found
        and (found["gradient"].kind is not inspect.Parameter.KEYWORD_ONLY or found["gradient"].default is not False)
    )
    assert offenders(wrong) == []
