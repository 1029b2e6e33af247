"""Points on their way in: shapes, precision, and which rows are bad; blocks that give what the whole gives."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitting
import gpbounds
from gpbounds.arrays import DistinctRows, as_points, blockwise, distinct_rows, is_cupy, namespace
from gpbounds.errors import NonFinite


@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 20), dim=st.integers(1, 4))
def test_points_are_kept_as_they_are(seed, N, dim):
    X = np.random.default_rng(seed).standard_normal((N, dim))
    np.testing.assert_array_equal(as_points(X), X)
    np.testing.assert_array_equal(as_points(X.tolist()), X)
    np.testing.assert_array_equal(as_points(X[:, 0]), X[:, :1])
    np.testing.assert_array_equal(as_points(X, dim=dim), X)


@pytest.mark.parametrize(
    ("given_dtype", "dtype"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float64),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
    ],
)
def test_float32_is_kept_and_all_else_becomes_float64(given_dtype, dtype):
    points = as_points(np.ones((3, 2), dtype=given_dtype))
    assert points.dtype == dtype
    assert (points == 1.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bad_rows_are_named_five_at_most(bad, dtype):
    X = np.zeros((20, 3), dtype=dtype)
    rows = [2, 3, 5, 7, 11, 13, 17]
    X[rows, 1] = bad
    with pytest.raises(NonFinite, match=r"^data: expected finite numbers, got NaN or infinity") as caught:
        as_points(X, "data")
    assert "[2, 3, 5, 7, 11]" in str(caught.value)
    assert "13" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("shape", [(), (0,), (0, 2), (3, 0), (2, 2, 2), (1, 1, 1, 1)])
def test_shapes_that_are_no_points(shape):
    with pytest.raises(ValueError, match=r"^Z: expected shape \(N, D\)") as caught:
        as_points(np.zeros(shape), "Z")
    assert str(caught.value).endswith(f"got {shape}")


@pytest.mark.parametrize("bad", ["text", [["a", "b"]], [["1.0"]], [[1j]], [[None]], {"x": 1}, None, object()])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match=r"^X: expected real numbers, got"):
        as_points(bad)


@pytest.mark.parametrize("ragged", [[[1.0, 2.0], [3.0]], [[1.0], 2.0]])
def test_ragged_rows_are_refused_by_name(ragged):
    with pytest.raises(ValueError, match=r"^X: expected "):
        as_points(ragged)


def test_the_number_of_columns_is_checked():
    with pytest.raises(ValueError, match=r"^X: expected 3 column\(s\), got shape \(4, 2\)"):
        as_points(np.zeros((4, 2)), dim=3)
    with pytest.raises(ValueError, match=r"expected 2 column\(s\), got shape \(4, 1\)"):
        as_points(np.zeros(4), dim=2)


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    columns=st.integers(1, 9),
    size=st.integers(1, 60),
    layout=st.sampled_from(["full and row", "column and row", "full and scalar", "vector", "three"]),
)
def test_blocks_give_what_the_whole_gives(seed, rows, columns, size, layout):
    rng = np.random.default_rng(seed)
    full, row = rng.standard_normal((rows, columns)), rng.standard_normal(columns)
    column = rng.standard_normal((rows, 1))
    args = {
        "full and row": (full, row),
        "column and row": (column, row),
        "full and scalar": (full, 2.0),
        "vector": (row, 1.5),
        "three": (column, row[None, :], full),
    }[layout]

    def function(*values):
        return sum(np.sin(v) for v in values), np.multiply(values[0], values[-1])

    parts, whole = blockwise(function, *args, size=size), function(*args)
    assert isinstance(parts, tuple)
    for part, expected in zip(parts, whole, strict=True):
        assert part.shape == expected.shape
        np.testing.assert_array_equal(part, expected)


def test_blocks_stay_within_their_size():
    sizes = []
    blockwise(lambda a, b: (sizes.append(np.broadcast(a, b).size), a + b)[1:], np.ones((100, 1)), np.ones(7), size=21)
    assert max(sizes) <= 21
    assert sum(sizes) == 700


class _Pretended(np.ndarray):
    pass


_Pretended.__module__ = "cupy"


def test_an_array_of_cupy_is_known_without_importing_it(monkeypatch):
    fake = types.ModuleType("cupy")
    monkeypatch.setitem(sys.modules, "cupy", fake)
    pretended, plain = np.zeros(3).view(_Pretended), np.zeros(3)
    assert is_cupy(pretended)
    assert not is_cupy(plain)
    assert not is_cupy([1.0])
    assert namespace(pretended) is namespace(pretended, None) is fake
    assert namespace(plain) is namespace(plain, None, [1.0], 2.0) is np
    with pytest.raises(ValueError, match="expected all arrays on one device, got NumPy and CuPy arrays"):
        namespace(pretended, plain)


@pytest.mark.parametrize(("N", "D"), [(0, 2), (1, 1), (7, 0), (200, 1), (200, 3), (500, 2)])
def test_distinct_rows_are_those_of_numpy(N, D):
    X = np.random.default_rng(N + D).integers(-3, 4, (N, D)) / 3.0
    rows, first, groups = np.unique(X, axis=0, return_index=True, return_inverse=True)
    distinct = DistinctRows.of(X)
    assert np.array_equal(distinct.rows, rows)
    assert np.array_equal(distinct.first, first)
    assert np.array_equal(distinct.groups, groups.ravel())
    assert distinct_rows(X) == len(rows)
    assert np.array_equal(distinct.rows[distinct.groups], X)


def test_zeros_of_both_signs_are_equal():
    assert distinct_rows(np.array([[0.0, 1.0], [-0.0, 1.0]])) == 1


def test_no_module_sorts_rows_as_records():
    """Ctrl-C inside of ``numpy.unique(axis=0)`` may come out as a TypeError."""
    for package in (gpbounds, fitting):
        for path in Path(package.__file__).parent.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "unique(" not in text:
                continue
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            rowwise = [
                c for c in calls if any(k.arg == "axis" for k in c.keywords) and ast.unparse(c.func) == "np.unique"
            ]
            assert not rowwise, f"{path}:{rowwise[0].lineno}: take gpbounds.arrays.DistinctRows"
