"""Files of a user that hide `fitting`, the second package of this distribution: recognised, and named."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

PACKAGE = "fitting"
"""The package that a file named ``fitting.py`` beside a script hides: Python looks into the script's folder first."""


def check_not_hidden() -> None:
    """Refuse to import `fitting` where Python would take, or has taken, another file of this name.

    Nothing of that file is run.

    Raises
    ------
    ImportError
        that names the file, and says what to do.
    """
    own = Path(__file__).parent.with_name(PACKAGE)
    loaded = sys.modules.get(PACKAGE)
    found = PathFinder.find_spec(PACKAGE) if loaded is None else loaded.__spec__
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    place = folders[0] if folders else getattr(found, "origin", None)
    if place is None or Path(place).resolve() == own.resolve():
        return
    raise ImportError(
        f"{place} hides the package {PACKAGE} of gpbounds, because Python finds it first: rename it (and any import of "
        f"it), then run the same again"
    )


def unpickled(module: str, name: str) -> Any:
    """An empty object of the class ``name`` of a ``module`` of `fitting`, which unpickling then fills.

    Pickles of estimators call it, so that a file that hides the package is recognised before Python runs it.

    Raises
    ------
    ImportError
        as `check_not_hidden`.
    """
    check_not_hidden()
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.__new__(found)
