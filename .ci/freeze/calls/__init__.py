"""The calls that are frozen: names → functions without arguments, of the public interface only."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

PARTS = ("rates", "evidence", "points", "models", "certificates", "kernels", "fits", "commands", "pages", "examples")
"""The modules of this package, each with ``calls()``; `device` runs alone, with the stand-in for CuPy."""


def calls(part: str) -> dict[str, Callable[[], Any]]:
    """The calls of one part, named after it; one call that fails where a commit lacks what all of them need."""
    try:
        found = importlib.import_module(f"calls.{part}").calls()
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        return {f"{part}/all": partial(_again, error)}
    return {f"{part}/{name}": call for name, call in found.items()}


def _again(error: Exception) -> None:
    raise ImportError(f"no calls of this part: {type(error).__name__}: {error}")
