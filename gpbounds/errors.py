"""Exceptions for numerical failures; messages state what was expected, what happened, the usual cause and a remedy.

Wrong arguments raise a plain :class:`ValueError`.  `check_not_hidden` finds a file of the user that hides `fitting`.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

SECOND = "fitting"
"""The second package of this distribution; a file ``fitting.py`` beside a script hides it: Python looks there first."""

LONGEST = 200
"""Characters of a caller's argument that an error quotes."""


class NotPositiveDefinite(ValueError):
    """A matrix is not positive (semi-)definite at its precision, but must be.

    Attributes
    ----------
    fact : str
        The message without the remedies that a caller may not have: what was expected, what happened, the usual cause.
    """

    def __init__(self, fact: str = "", remedy: str = "") -> None:
        super().__init__(f"{fact} {remedy}" if remedy else fact)
        self.fact = fact


class NotConverged(ArithmeticError):
    """An iteration or discretisation did not reach its promised accuracy; the message states the accuracy reached."""


class NotNumbers(ValueError, TypeError):
    """Rows hold strings or other objects; a `TypeError`, too, as scikit-learn raises one."""


class NonFinite(ValueError):
    """Data or a result contain NaN or infinity; the message says where."""


class NotInstalled(ImportError, ValueError):
    """A file needs a library that is not installed; the message says how to install it."""


class RoundingWarning(UserWarning):
    """Numbers are lost in the rounding of double precision; the message says how many and what was returned instead."""


class ImpossibleInterval(RuntimeError):
    """Two bounds contradict each other, which is an error of the library; the message asks for a report.

    It is no `ArithmeticError`, which callers catch to compute in another way.
    """


def shown(value: object) -> str:
    """``value`` as an error quotes it: what it is, in one line of at most `LONGEST` characters.

    >>> shown("se"), len(shown([0.5] * 99)), shown([0.5] * 99)[-3:]
    ("'se'", 200, '...')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an object of the caller's that cannot even say what it is
        text = f"an object of type {type(value).__name__}"
    if len(text) <= LONGEST:
        return text
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {shape}" if shape is not None else f"{text[: LONGEST - 4]} ..."


class Hidden(ImportError):
    """A file of the user has the name of one of our packages; the message names it."""


def check_not_hidden() -> None:
    """Refuse to import `fitting` where Python would take, or has taken, another file of this name.

    Nothing of that file is run.

    Raises
    ------
    Hidden
        that names the file, and says what to do.
    """
    own = Path(__file__).parent.with_name(SECOND)
    loaded = sys.modules.get(SECOND)
    spec = PathFinder.find_spec(SECOND) if loaded is None else loaded.__spec__
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    place = folders[0] if folders else getattr(spec, "origin", None) or getattr(loaded, "__file__", None)
    if place is None or Path(place).resolve() == own.resolve():
        return
    raise Hidden(
        f"{place} hides the package {SECOND} of gpbounds, because Python finds it first: rename it (and any import of "
        f"it), then run the same again"
    )


def unpickled(module: str, name: str) -> Any:
    """An empty object of the class ``name`` of a ``module`` of `fitting`, which unpickling then fills.

    Pickles of estimators call it, so that a file that hides the package is recognised before Python runs it.

    Raises
    ------
    Hidden
        as `check_not_hidden`.
    """
    check_not_hidden()
    kind: Any = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    return kind.__new__(kind)
