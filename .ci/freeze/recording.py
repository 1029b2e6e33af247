"""Runs the calls one after another, and stores what each of them returns, raises, warns of and prints."""

from __future__ import annotations

import contextlib
import cProfile
import importlib
import inspect
import io
import pkgutil
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from values import encoded, masked, raised

Calls = Mapping[str, Callable[[], Any]]
BROKEN = ("AttributeError", "NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")
"""Errors that say that a call is written wrongly, or that a commit lacks a name."""


def outcome(call: Callable[[], Any], profile: cProfile.Profile | None = None) -> Any:
    """The encoded result of a call; with warnings and output, if there are any."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            if profile is not None:
                profile.enable()
            try:
                result = call()
            finally:
                if profile is not None:
                    profile.disable()
            found = encoded(result)
        except (Exception, SystemExit) as error:
            found = raised(error)
    texts = list(dict.fromkeys(f"{each.category.__name__}: {masked(str(each.message))}" for each in caught))
    output = masked(printed.getvalue())
    if not texts and not output:
        return found
    return {"result": found, **({"warnings": texts} if texts else {}), **({"printed": output} if output else {})}


def record(calls: Calls) -> tuple[dict[str, Any], set[CodeType]]:
    """The outcomes of all calls by name, and the code objects that they entered."""
    found: dict[str, Any] = {}
    took: dict[str, float] = {}
    profile = cProfile.Profile(builtins=False)
    for name, call in calls.items():
        before = time.perf_counter()
        found[name] = outcome(call, profile)
        took[name] = time.perf_counter() - before
    slow = sorted(took, key=took.__getitem__, reverse=True)[:8]
    print(f"{len(found)} calls in {sum(took.values()):.0f} s; the slowest:", file=sys.stderr)
    for name in slow:
        print(f"  {took[name]:6.1f} s  {name}", file=sys.stderr)
    return found, {entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType)}


def broken(found: dict[str, Any]) -> list[str]:
    """The calls that did not reach what they ask for, with their errors."""
    results = ((name, value.get("result", value)) for name, value in found.items() if isinstance(value, dict))
    return [
        f"{name}: {result['raises']}: {result['text']}"
        for name, result in results
        if isinstance(result, dict) and result.get("raises") in BROKEN
    ]


def public_names() -> dict[str, Any]:
    """The callables of every ``__all__`` of the packages, under the shortest of their names."""
    found: dict[int, tuple[str, Any]] = {}
    for package in ("gpbounds", "fitting"):
        root = importlib.import_module(package)
        modules = [package, *(each.name for each in pkgutil.walk_packages(root.__path__, f"{package}."))]
        for name in modules:
            if name.rpartition(".")[2].startswith("__"):
                continue
            module = importlib.import_module(name)
            for public in getattr(module, "__all__", ()):
                thing, path = getattr(module, public), f"{name}.{public}"
                if callable(thing) and (id(thing) not in found or len(path) < len(found[id(thing)][0])):
                    found[id(thing)] = path, thing
    return dict(sorted(found.values(), key=lambda each: each[0]))


def not_entered(entered: set[CodeType]) -> list[str]:
    """The public names of which no call has entered any code; classes without code of their own are left out."""
    return [name for name, thing in public_names().items() if (codes := _codes(thing)) and not codes & entered]


def _codes(thing: Any) -> set[CodeType]:
    if not inspect.isclass(thing):
        code = getattr(inspect.unwrap(thing), "__code__", None)
        return {code} if code is not None else set()
    codes = set()
    for part in vars(thing).values():
        function = getattr(part, "fget", None) or getattr(part, "func", None) or getattr(part, "__func__", part)
        code = getattr(function, "__code__", None)
        if code is not None:
            codes.add(code)
    return codes
