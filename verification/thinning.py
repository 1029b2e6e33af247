"""Which cases of a parametrised test the quick profile runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def one_in(n: int, cases: Sequence[Any]) -> list[Any]:
    """All cases; those but every n-th one, counted from the first, are marked ``slow``.

    A tuple has the values of several names; a tuple that is the value of one name is passed as `pytest.param`.

    >>> [getattr(case, "marks", ()) != () for case in one_in(2, ["a", "b", "c"])]
    [False, True, False]
    """
    return [case if i % n == 0 else _slow(case) for i, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # of pytest.param
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
