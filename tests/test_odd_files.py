"""Odd files, honest or hostile: many columns, names twice, marks of Windows, shapes without numbers."""

import io
import time
import zipfile

import numpy as np
import pytest

import fitting
from gpbounds import SquaredExponential
from gpbounds.files import WIDEST, header
from gpbounds.records import MARK, from_json, read_json
from gpbounds.rows import source
from gpbounds.rows.table_rows import read_rows


def _wide(path, columns):
    rng = np.random.default_rng(0)
    lines = [",".join(f"c{j}" for j in range(columns))]
    lines += [",".join(f"{value:.3f}" for value in rng.standard_normal(columns)) for _ in range(2)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("columns", [8000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_a_table_of_many_columns_is_read_in_time_that_grows_with_their_number(tmp_path, columns):
    """Also with the encoding of a model: a search of all names for each column would take an hour."""
    path = _wide(tmp_path / "wide.csv", columns)
    before = time.process_time()
    rows = read_rows(path)
    again = read_rows(path, encoding=rows.encoding, predicting=True)
    assert time.process_time() - before < 10.0 * max(columns / 300_000.0, 0.1)
    assert rows.X.shape == (2, columns - 1)
    assert rows.X.tobytes() == again.X.tobytes()
    assert rows.target == f"c{columns - 1}"


@pytest.mark.parametrize("read", [lambda path: read_rows(path), lambda path: source(str(path), "b")])
def test_columns_of_one_name_are_told(tmp_path, read):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "twice.parquet"
    columns = [pyarrow.array([1.0, 2.0, 4.0]) for _ in range(3)]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "a", "b"]), path)
    with pytest.raises(ValueError, match="expected a name of its own for each column, got 'a' more than once"):
        read(path)


def test_a_byte_order_mark_begins_json(tmp_path):
    path = tmp_path / "marked.json"
    path.write_text(f'{MARK}{{"a": [1, 2.5]}}', encoding="utf-8")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_json(path, "a record") == from_json(path.read_bytes()) == {"a": [1, 2.5]}
    with pytest.raises(ValueError, match="Unexpected UTF-8 BOM"):
        from_json(f"{MARK}{MARK}1")


def _with_shape(shape):
    """The bytes of an array without numbers whose header states ``shape``."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("shape", [(10**18, 0), (0, WIDEST + 1), (3, 0, 10**6, 10**7)])
def test_a_shape_without_numbers_is_no_larger_than_a_file_could_be(shape):
    data = _with_shape(shape)
    with pytest.raises(ValueError, match=f"expected sizes of at most {WIDEST} in an array without numbers"):
        header(io.BytesIO(data), len(data), "x")


@pytest.mark.parametrize("shape", [(0,), (0, WIDEST), (5, 0)])
def test_arrays_without_numbers_are_read(shape):
    data = _with_shape(shape)
    assert header(io.BytesIO(data), len(data), "x").shape == shape


@pytest.mark.parametrize("rows", [10**18, 1000, 5])
def test_inducing_inputs_without_columns_are_refused_before_they_are_used(tmp_path, rows):
    X = np.linspace(0.0, 5.0, 20)[:, None]
    model = fitting.SparseGP("vfe", SquaredExponential(), 0.1, n_inducing=5, optimizer=None).fit(X, np.sin(X[:, 0]))
    model.save(tmp_path / "model.npz")
    with zipfile.ZipFile(tmp_path / "model.npz") as old, zipfile.ZipFile(tmp_path / "odd.npz", "w") as new:
        for entry in old.infolist():
            changed = entry.filename == "inducing_.npy"
            new.writestr(entry.filename, _with_shape((rows, 0)) if changed else old.read(entry))
        assert "inducing_.npy" in old.namelist()
    with pytest.raises(ValueError, match="path: expected") as caught:
        fitting.load(tmp_path / "odd.npz")
    assert "\n" not in str(caught.value)
