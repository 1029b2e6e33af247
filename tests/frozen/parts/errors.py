"""Wrong calls: the type of the exception must stay, its message may be worded better."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from calls.wrong import refused
from language import evaluate


def raised(expression: Any) -> dict[str, str]:
    """The exception of a wrong call."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluate(expression)
    except Exception as error:  # this is what is looked for
        return {"raised": type(error).__name__, "reason": str(error)}
    return {"raised": "nothing", "reason": ""}


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """Every wrong call."""
    return {case.id: {"rule": case.rule, "value": raised(case.expression)} for case in refused if select in case.id}
