"""Which cases of a parametrised test the quick profile runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def one_in(n: int, cases: Sequence[Any]) -> list[Any]:
    """All cases; those but every n-th one, counted from the first, are marked ``slow``.

    >>> [getattr(case, "marks", ()) != () for case in one_in(2, ["a", "b", "c"])]
    [False, True, False]
    """
    return [case if i % n == 0 else _slow(case) for i, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
