"""What CuPy has and takes, from ``surface.json``: what is not there fails as in CuPy, what is not learnt says so."""

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

SURFACE = json.loads((Path(__file__).parents[1] / "surface.json").read_text(encoding="utf-8"))
VERSION = f"{SURFACE['version']}+standin"


def entry(owner: str, name: str) -> str:
    """What ``surface.json`` says of a name; AttributeError where CuPy has none."""
    if name not in SURFACE[owner]:
        raise AttributeError(f"{owner!r} has no attribute {name!r} in CuPy {SURFACE['version']}", name=name)
    return SURFACE[owner][name]


def unlearnt(owner: str, name: str) -> Exception:
    """The error to raise for a name: CuPy has it and the stand-in has not, or neither has."""
    try:
        entry(owner, name)
    except AttributeError as error:
        return error
    return NotImplementedError(f"CuPy has {owner}.{name}, its stand-in has not learnt it yet: see its README.md")


def loops(owner: str, name: str) -> tuple[tuple[str, ...], ...]:
    """The dtypes that a ufunc takes and gives, in the order in which CuPy tries them."""
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
