"""Which cases the quick profile runs, and that the others keep their values."""

from __future__ import annotations

import pytest
from thinning import one_in


def test_every_third_case_is_quick_and_no_case_is_lost() -> None:
    cases = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    thinned = one_in(3, cases)
    assert (thinned[0], thinned[3]) == (cases[0], cases[3])
    assert [case.values for case in thinned[1:3]] == cases[1:3]
    assert all([mark.name for mark in case.marks] == ["slow"] for case in thinned[1:3])


def test_a_tuple_that_is_one_value_stays_one() -> None:
    _, slow = one_in(2, [pytest.param((1, 2)), pytest.param((3, 4), id="pair", marks=pytest.mark.dask)])
    assert slow.values == ((3, 4),)
    assert slow.id == "pair"
    assert {mark.name for mark in slow.marks} == {"dask", "slow"}
