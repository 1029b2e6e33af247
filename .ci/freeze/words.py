"""Options whose spelling changes: a call states what it wants, and each commit is asked in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPELLINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "float": ({"rigor": "float"},),
    "sharp": ({"rigor": "sharp"}, {"rigor": "arb"}),
    "proved": ({"rigor": "auto"}, {"certified": True}),
    "balls": ({"rigor": "sharp"}, {"certified": True}),
}
"""What is asked for → its spellings, the newest first: balls is sharp where ``certified=True`` meant so."""

IN_TEXTS = {"'arb'": "'sharp'"}
"""Words of messages that are read as their new spelling."""


def spelled(function: Callable[..., Any], *args: Any, rigor: str, **options: Any) -> Any:
    """The function's result with the first spelling that it does not refuse as a word."""
    *newer, oldest = SPELLINGS[rigor]
    for words in newer:
        try:
            return function(*args, **options, **words)
        except (TypeError, ValueError) as error:
            text = str(error)
            unknown = text.startswith("rigor: expected one of") or "unexpected keyword argument 'rigor'" in text
            if not unknown:
                raise
    return function(*args, **options, **oldest)
