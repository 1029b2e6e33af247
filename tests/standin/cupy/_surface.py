"""Names and parameters of CuPy, from ``surface.json``: unknown names fail as in CuPy, missing ones say so."""

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

SURFACE = json.loads((Path(__file__).parents[1] / "surface.json").read_text(encoding="utf-8"))
VERSION = f"{SURFACE['version']}+standin"


def entry(owner: str, name: str) -> str:
    """The entry of a name in ``surface.json``; AttributeError if CuPy has no such name."""
    if name not in SURFACE[owner]:
        raise AttributeError(f"{owner!r} has no attribute {name!r} in CuPy {SURFACE['version']}", name=name)
    return SURFACE[owner][name]


def unlearnt(owner: str, name: str) -> Exception:
    """The error for a name that only CuPy has, or that neither has."""
    try:
        entry(owner, name)
    except AttributeError as error:
        return error
    return NotImplementedError(f"CuPy has {owner}.{name}, its stand-in has not learnt it yet: see its README.md")


def loops(owner: str, name: str) -> tuple[tuple[str, ...], ...]:
    """The dtypes of operands and results of a ufunc, in the order in which CuPy tries them."""
    return tuple(tuple(loop.split("->")) for loop in entry(owner, name).split()[1:])


@cache
def signature(owner: str, name: str) -> inspect.Signature:
    """The parameters that CuPy gives a function or method (without ``self``)."""
    parameters = entry(owner, name)
    return inspect.signature(eval(f"lambda {parameters[1:-1]}: None"))


def check(owner: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that CuPy's function or method does not take."""
    try:
        signature(owner, name).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{owner}.{name}{signature(owner, name)}: {error}") from None
