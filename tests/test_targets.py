"""The target of a table: an array of its own, or the column that the caller names."""

from __future__ import annotations

import numpy as np
import pytest

from fitting.study.standardised import inputs_and_target

COLUMNS = {"area": [1.0, 2.0, 4.0], "price": [10.0, 20.0, 30.0], "rooms": [3.0, 1.0, 2.0]}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_a_data_frame_is_the_target_and_the_others_are_inputs(library):
    frame = pytest.importorskip(library).DataFrame(COLUMNS)
    names, X, y, target = inputs_and_target(frame, target="price")
    assert (names, target) == (("area", "rooms"), "price")
    assert X.tolist() == [[1.0, 3.0], [2.0, 1.0], [4.0, 2.0]]
    assert y.tolist() == COLUMNS["price"]


def test_an_array_of_targets_keeps_the_name_that_it_has():
    pandas = pytest.importorskip("pandas")
    names, X, y, target = inputs_and_target(np.eye(3), pandas.Series([1.0, 2.0, 3.0], name="price"))
    assert (names, target, X.shape, y.shape) == ((), "price", (3, 3), (3,))
    assert inputs_and_target(np.eye(3), [1.0, 2.0, 3.0])[3] == "y"


def test_a_level_in_nats_is_no_target():
    with pytest.raises(ValueError, match=r"name of a column of X, got 0\.5; the level in nats is the argument nats="):
        inputs_and_target(np.eye(3), [1.0, 2.0, 3.0], 0.5)


@pytest.mark.parametrize(
    ("y", "target", "message"),
    [
        (None, None, "got neither"),
        ([1.0, 2.0, 3.0], "price", "got both"),
        (None, "cost", r"one column of X \(area, price, rooms\), got 'cost'"),
        ([1.0, 2.0], None, "expected 3 targets"),
    ],
)
def test_both_neither_or_an_unknown_target_is_refused(y, target, message):
    frame = pytest.importorskip("pandas").DataFrame(COLUMNS)
    with pytest.raises(ValueError, match=message):
        inputs_and_target(frame, y, target)


def test_an_array_has_no_column_to_name():
    with pytest.raises(ValueError, match="no names: X is an array"):
        inputs_and_target(np.eye(3), target="price")


def test_an_array_of_dask_names_no_columns():
    """Its ``name`` is a token, which reports had as the name of an input."""
    array = pytest.importorskip("dask.array")
    assert inputs_and_target(array.ones((3, 1)), array.ones(3))[::3] == ((), "y")
