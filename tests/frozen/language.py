"""Calls of public functions as data: written by name and keyword, looked up only when they are evaluated.

    then(call("gpbounds.spectrum", kernel=se(), inputs=law()), "tail", M=[0, 5])

stands for ``gpbounds.spectrum(kernel=..., inputs=...).tail(M=[0, 5])``.  Arguments are expressions, too.  Because all
is given by keyword, a signature may change its order or make arguments keyword-only without a change here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from renamed import ARGUMENTS, ATTRIBUTES, PLACES

BITS, BLAS, FIT = "bits", "1e-12", "1e-6"
"""Rules: equal to the last bit; relative to the largest entry of an array."""


@dataclass(frozen=True, eq=False)
class Call:
    """A public function or class, and its keyword arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Then:
    """A method of a result, and its keyword arguments; ``name`` "()" calls the result itself, by position."""

    of: Any
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Reading:
    """Attributes of a result, by dotted path; one path without a name for it gives the attribute itself."""

    of: Any
    paths: tuple[str, ...]
    alone: bool = False


@dataclass(frozen=True, eq=False)
class Named:
    """A public constant."""

    name: str


@dataclass(frozen=True, eq=False)
class Applied:
    """A function of this list's own, of a result."""

    function: Callable[[Any], Any]
    of: Any


@dataclass(frozen=True, eq=False)
class Drawn:
    """Fresh axes after a public function has drawn on them."""

    call: Call


@dataclass(frozen=True, eq=False)
class Seeded:
    """A fresh random generator."""

    seed: int


@dataclass(frozen=True, eq=False)
class Case:
    """One line of the list: what is evaluated, and how exactly it must come out again."""

    id: str
    rule: str
    expression: Any


def call(name: str, /, **arguments: Any) -> Call:
    """``name(**arguments)``; ``name`` is dotted and starts with a package."""
    return Call(name, arguments)


def then(of: Any, name: str, /, **arguments: Any) -> Then:
    """``of.name(**arguments)``."""
    return Then(of, name, arguments)


def reading(of: Any, /, *paths: str) -> Reading:
    """A mapping of the attributes of ``of``, such as "value" and "gradient.kernel"."""
    return Reading(of, paths)


def part(of: Any, path: str, /) -> Reading:
    """The attribute ``of.path``."""
    return Reading(of, (path,), alone=True)


def under(names: Mapping[str, str], of: Any) -> Applied:
    """A mapping of the attributes of ``of``, each under the name that it had when the numbers were stored."""
    return Applied(
        lambda values: {then: values[now] for then, now in names.items()}, Reading(of, tuple(names.values()))
    )


def evaluation(of: Any, /, Z: bool = True) -> Applied:
    """Value and gradient of an objective; derivatives in hyperparameters and noise are one array, on one scale."""

    def joined(values: dict[str, Any]) -> dict[str, Any]:
        logs = np.append(values.pop("gradient.kernel"), values.pop("gradient.noise"))
        return {**values, "gradient.kernel and gradient.noise": logs}

    paths = ("value", "gradient.kernel", "gradient.noise", "jitter", *(("gradient.Z",) if Z else ()))
    return Applied(joined, Reading(of, paths))


def find(name: str) -> Any:
    """What a dotted public name stands for today."""
    for old in sorted(PLACES, key=len, reverse=True):
        if name == old or name.startswith(f"{old}."):
            name = PLACES[old] + name[len(old) :]
            break
    parts = name.split(".")
    value = importlib.import_module(parts[0])
    for i, attribute in enumerate(parts[1:], 1):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            value = importlib.import_module(".".join(parts[: i + 1]))
    return value


def evaluate(expression: Any) -> Any:
    """What an expression is worth."""
    match expression:
        case Call():
            return find(expression.name)(**_spelled(expression.name, evaluate(expression.arguments)))
        case Then():
            owner, arguments = evaluate(expression.of), evaluate(expression.arguments)
            if expression.name == "()":
                return owner(*arguments.values())
            method = getattr(owner, ATTRIBUTES.get(expression.name, expression.name))
            return method(**_spelled(f"{_maker(expression.of)}.{expression.name}", arguments))
        case Reading():
            owner = evaluate(expression.of)
            values = {path: _attribute(owner, path) for path in expression.paths}
            return values[expression.paths[0]] if expression.alone else values
        case Named():
            return find(expression.name)
        case Applied():
            return expression.function(evaluate(expression.of))
        case Drawn():
            from matplotlib.figure import Figure

            ax = Figure().add_subplot()
            evaluate(Call(expression.call.name, {"ax": ax, **expression.call.arguments}))
            return ax
        case Seeded():
            return np.random.default_rng(expression.seed)
        case dict():
            return {key: evaluate(value) for key, value in expression.items()}
        case list():
            return [evaluate(value) for value in expression]
        case tuple():
            return tuple(evaluate(value) for value in expression)
        case _:
            return expression


def names(expression: Any) -> Iterator[str]:
    """The public names that an expression calls, those of its arguments included; methods as "maker.method"."""
    match expression:
        case Call():
            yield expression.name
            yield from names(expression.arguments)
        case Then():
            yield f"{_maker(expression.of)}.{expression.name}"
            yield from names(expression.of)
            yield from names(expression.arguments)
        case Reading() | Applied():
            yield from names(expression.of)
        case Named():
            yield expression.name
        case Drawn():
            yield from names(expression.call)
        case dict():
            for value in expression.values():
                yield from names(value)
        case list() | tuple():
            for value in expression:
                yield from names(value)


def _maker(expression: Any) -> str:
    """The name of the call at the root of an expression."""
    while isinstance(expression, Then | Reading | Applied):
        expression = expression.of
    return expression.name if isinstance(expression, Call) else ""


def _spelled(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments as they are spelled today."""
    renamed = ARGUMENTS.get(name, {})
    if isinstance(renamed, Mapping):
        return {renamed.get(key, key): value for key, value in arguments.items()}
    return renamed(arguments)


def _attribute(owner: Any, path: str) -> Any:
    for name in ATTRIBUTES.get(path, path).split("."):
        owner = getattr(owner, ATTRIBUTES.get(name, name))
    return owner


class Cases:
    """The calls of one area, in order; ids do not repeat."""

    def __init__(self, area: str, rule: str) -> None:
        self.area, self.rule, self.cases = area, rule, {}

    def add(self, label: str, expression: Any, rule: str | None = None) -> None:
        """One case, under the rule of the area by default."""
        id = f"{self.area}: {label}"
        if id in self.cases:
            raise ValueError(f"two cases are called {id!r}")
        self.cases[id] = Case(id, rule or self.rule, expression)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases.values())


def se(variance: float = 1.0, lengthscale: Any = 1.0) -> Call:
    """A squared exponential kernel."""
    return call("gpbounds.kernels.SquaredExponential", variance=variance, lengthscale=lengthscale)


def matern(nu: float, variance: float = 1.0, lengthscale: Any = 1.0) -> Call:
    """A Matérn kernel."""
    return call("gpbounds.kernels.Matern", nu=nu, variance=variance, lengthscale=lengthscale)


def added(k1: Any, k2: Any) -> Call:
    """k1 + k2."""
    return call("gpbounds.kernels.Sum", k1=k1, k2=k2)


def multiplied(k1: Any, k2: Any) -> Call:
    """k1 · k2."""
    return call("gpbounds.kernels.Product", k1=k1, k2=k2)


def gaussian(std: Any = 1.0, dim: int = 1) -> Call:
    """The law N(0, diag(std²)) of the inputs."""
    return call("gpbounds.Gaussian", std=std, dim=dim)


def uniform(low: Any = 0.0, high: Any = 1.0) -> Call:
    """The uniform law on a box."""
    return call("gpbounds.Uniform", low=low, high=high)


def empirical(X: Any) -> Call:
    """The rows of X."""
    return call("gpbounds.Empirical", X=X)
