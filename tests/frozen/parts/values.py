"""Values and gradients: every case of the call list."""

from __future__ import annotations

import importlib
import pkgutil
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import calls
import numpy as np
from language import Case, evaluate
from plain import plain


def listed() -> Iterator[Case]:
    """All cases, package by package."""
    for module in sorted(info.name for info in pkgutil.iter_modules(calls.__path__)):
        yield from getattr(importlib.import_module(f"calls.{module}"), "cases", ())


def attempt(function: Callable[[], Any]) -> Any:
    """What a function gives, or how it failed: a call that no longer works is a difference, not the end."""
    try:
        return function()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"raised": type(error).__name__, "reason": f"{error} (at {Path(where.filename).name}:{where.lineno})"}


def outcome(expression: Any) -> Any:
    """What an expression gives, or how it failed."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return attempt(lambda: plain(evaluate(expression)))


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """Every case, evaluated."""
    return {case.id: {"rule": case.rule, "value": outcome(case.expression)} for case in listed() if select in case.id}
