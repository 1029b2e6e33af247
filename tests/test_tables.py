"""Tables as people have them: words, dates, decimal commas, gaps, pandas' index and headings, and what is said."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitting
from gpbounds.cli import main
from gpbounds.pacbayes import Certificate
from gpbounds.rows import read_table
from gpbounds.rows.cells import FileColumn
from gpbounds.rows.encoding import (
    CategoryColumn,
    Encoding,
    LabelColumn,
    NumberColumn,
    TimeColumn,
    TruthColumn,
)
from gpbounds.rows.table_rows import TableRows, read_rows, remarks_on_inputs, remarks_on_split, twins

WORDS = "a,side,y\n1,east,2\n2,west,3\n4,east,5\n"


def table(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def ask(capsys, *words):
    status = main(list(map(str, words)))
    out, err = capsys.readouterr()
    return status, out, err


# What becomes of a file


@pytest.mark.parametrize(
    ("text", "columns", "X", "y", "note"),
    [
        ("a,b,y\n1,2,3\n4,5,6\n", ("a", "b"), [[1, 2], [4, 5]], [3, 6], ""),
        ("1,2,3\n4,5,6\n", (), [[1, 2], [4, 5]], [3, 6], ""),
        ("a;y\n1,5;-2,5\n3;4\n", ("a",), [[1.5], [3]], [-2.5, 4], "Columns 'a', 'y' have decimal commas."),
        ("1,5;2\n3,5;4\n", (), [[1.5], [3.5]], [2, 4], "Column 1 has decimal commas."),
        ("a\ty\n1,5\t2\n3\t4\n", ("a",), [[1.5], [3]], [2, 4], "Column 'a' has decimal commas."),
        (
            WORDS,
            ("a", "side=east", "side=west"),
            [[1, 1, 0], [2, 0, 1], [4, 1, 0]],
            [2, 3, 5],
            "Column 'side' holds words: one input for each of 2 values (east, west).",
        ),
        (
            "east,1\nwest,2\neast,3\n",
            ("x1=east", "x1=west"),
            [[1, 0], [0, 1], [1, 0]],
            [1, 2, 3],
            "Column 1 holds words",
        ),
        (
            "t,y\n2024-01-31,1\n2024-02-01,2\n",
            ("t",),
            [[0], [86400]],
            [1, 2],
            "Column 't' holds dates or times: seconds since 2024-01-31T00:00:00.",
        ),
        ("t,y\n2024-01-31 12:00,1\n2024-01-31 12:00:01.5,2\n", ("t",), [[0], [1.5]], [1, 2], "2024-01-31T12:00:00"),
        ("t,y\n2024-01-31T12:00Z,1\n2024-01-31T12:00+01:00,2\n", ("t",), [[0], [-3600]], [1, 2], "+00:00"),
        ("f,y\nTrue,1\nFalse,2\ntrue,3\n", ("f",), [[1], [0], [1]], [1, 2, 3], "'f' holds true and false: 1 and 0."),
        (",a,y\n0,5,1\n1,6,2\n2,7,4\n", ("a",), [[5], [6], [7]], [1, 2, 4], "Column 1 counts the rows, as the index"),
        ("Unnamed: 0,a,y\n1,5,1\n2,6,2\n", ("a",), [[5], [6]], [1, 2], "Column 'Unnamed: 0' counts the rows"),
        (
            ",a,y\n3,5,1\n0,6,2\n2,7,4\n",
            ("x1", "a"),
            [[3, 5], [0, 6], [2, 7]],
            [1, 2, 4],
            "may be an index, which --ignore 1",
        ),
        (
            "0,1,2\n5,6,7\n8,9,1\n",
            ("0", "1"),
            [[5, 6], [8, 9]],
            [7, 1],
            "The first line (0, 1, 2) was read as a header",
        ),
        (",0,1\n0,6,7\n1,9,1\n", ("0",), [[6], [9]], [7, 1], "--header no"),
        ('"a, m",b\n1,2\n3,4\n', ("a, m",), [[1], [3]], [2, 4], ""),
        ('"a, m";b\n1;2\n3;4\n', ("a, m",), [[1], [3]], [2, 4], ""),
    ],
)
def test_a_table_becomes_inputs_and_target(tmp_path, text, columns, X, y, note):
    rows = read_rows(table(tmp_path, text))
    assert rows.columns == columns
    assert rows.X.tolist() == X
    assert rows.y.tolist() == y
    assert note in " ".join(rows.notes)
    assert bool(rows.notes) == bool(note)
    again = read_rows(tmp_path / "table.csv", encoding=rows.encoding)
    np.testing.assert_array_equal(again.X, rows.X)
    assert rows.target == (rows.encoding.target.name or f"column {rows.encoding.target.number}")


@pytest.mark.parametrize(
    ("choice", "columns", "y", "N"),
    [
        ({"target": "a"}, ("Unnamed: 0", "b", "y"), [5.0, 6.0, 8.0], 3),
        ({"target": "2"}, ("Unnamed: 0", "b", "y"), [5.0, 6.0, 8.0], 3),
        ({"ignore": "b"}, ("Unnamed: 0", "a"), [1.0, 2.0, 4.0], 3),
        ({"ignore": "y, 3"}, ("Unnamed: 0",), [5.0, 6.0, 8.0], 3),
        ({"columns": "a"}, ("a",), [1.0, 2.0, 4.0], 3),
        ({"columns": "1,a"}, ("Unnamed: 0", "a"), [1.0, 2.0, 4.0], 3),
        ({"columns": "b,a,y"}, ("a", "b"), [1.0, 2.0, 4.0], 3),
    ],
)
def test_columns_are_chosen(tmp_path, choice, columns, y, N):
    rows = read_rows(table(tmp_path, "Unnamed: 0,a,b,y\n0.5,5,1,1\n1,6,4,2\n2,8,7,4\n"), **choice)
    assert rows.columns == columns
    assert (rows.y.tolist(), rows.N) == (y, N)


def test_the_index_of_pandas_is_kept_where_it_is_asked_for(tmp_path):
    path = table(tmp_path, ",a,y\n0,5,1\n1,6,2\n2,7,4\n")
    assert read_rows(path, columns="1,a").X.tolist() == [[0.0, 5.0], [1.0, 6.0], [2.0, 7.0]]
    assert read_rows(path, target="1").X.tolist() == [[5.0, 1.0], [6.0, 2.0], [7.0, 4.0]]


def test_the_caller_may_know_whether_there_is_a_header(tmp_path):
    path = table(tmp_path, "0,1,2\n5,6,7\n8,9,1\n")
    assert read_rows(path, header="no").N == 3
    assert read_rows(table(tmp_path, "5,6,7\n5,6,9\n8,9,1\n", "b.csv"), header="yes").columns == ("5", "6")
    assert read_rows(table(tmp_path, "north,6,7\neast,6,9\neast,9,1\n", "c.csv"), header="no", ignore="1").N == 3


def test_rows_with_missing_cells_are_dropped_and_counted(tmp_path):
    text = "a,side,y\n1,east,2\n,west,3\n4,NA,?\n5,west,nan\n6,west,7\n8,east,1\n"
    path = table(tmp_path, text)
    with pytest.raises(
        ValueError, match="got 4 missing cells in 3 rows and 3 columns, the first in line 3, column 'a'"
    ):
        read_rows(path)
    rows = read_rows(path, drop_missing=True)
    assert rows.notes[0] == "--drop-missing left out 3 of 6 rows, in which 4 cells are missing."
    assert rows.X.tolist() == [[1.0, 1.0, 0.0], [6.0, 0.0, 1.0], [8.0, 1.0, 0.0]]
    assert list(rows.lines) == [2, 6, 7]
    assert list(read_rows(path, drop_missing=True, target="y", columns="side").lines) == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("text", "choice", "message"),
    [
        (
            "a,y\n,1\n,2\n",
            {"drop_missing": True},
            "leave out columns with --ignore, such as a, whose cells are missing in 2",
        ),
        ("a,y\n1,inf\n2,-inf\n", {}, "got 2 infinite cells in 2 rows and 1 column, the first in line 2, column 'y'"),
        ("a,y\n1,x\n2,z\n3,x\n", {}, "gpbounds train --model classifier"),
        ("a,y\n1,x\n2,5\n3,6\n", {}, "got other text in 1 of 3 cells, the first 'x' in line 2: correct these cells"),
        ("a,y\n1,5\nx,5\n3,6\n", {}, "got words in 1 and numbers in 2 of them, such as 'x' in line 3"),
        ("a,y\n31.01.2024,5\n01.02.2024,5\n", {}, "expected dates and times as ISO 8601 writes them"),
        ("a,y\n01/31/2024,5\n02/01/2024,5\n", {}, "such as 2024-01-31 or 2024-01-31 12:00, got '01/31/2024' in line 2"),
        (
            "a,y\n2024-01-31,5\nsoon,5\n",
            {},
            "expected a date or time such as 2024-01-31 or 2024-01-31 12:00, got 'soon'",
        ),
        ("a,y\n2024-01-31,5\n2024-01-31T12:00Z,5\n", {}, "expected a time without zone, as of the first row"),
        ('a,y\n"1,5",5\n"2,5",5\n', {}, "expected numbers with a decimal point and without separators of thousands"),
        ("a;y\n1.234,5;5\n2.345,5;5\n", {}, "expected numbers with a decimal point"),
        ("a;b;y\n1,5;1.234;5\n2,5;7;5\n", {}, "expected one decimal mark in all columns"),
        ("a,y\n5 %,5\n7%,6\n", {}, "expected numbers without a unit, got '5 %' in line 2"),
        ("a,y\n" + "".join(f"w{i},{i}\n" for i in range(60)), {}, "got 60 different words in 60 rows.*--ignore a"),
        ("a,y\n" + "".join(f"w{i % 51},{i}\n" for i in range(160)), {}, "expected at most 50 different words"),
        (f"a,y\n{2**53 + 1},5\n3,x\n", {}, "larger ones than whole numbers below 2\\^53.*--ignore a"),
        (
            "a,y\n1,5\n2,6\n",
            {"target": "z"},
            "--target: expected one of a, y or a column's number from 1 to 2, got 'z'",
        ),
        ("a,a,y\n1,5,7\n2,6,8\n", {"ignore": "a"}, "--ignore: expected the name of one column.*give its number"),
        ("a,y\n1,5\n2,6\n", {"ignore": "a,y"}, "expected to leave a target and an input"),
        ("a,y\n1,5\n2,6\n", {"target": "y", "ignore": "y"}, "expected columns other than the target"),
        ("a,y\n1,5\n2,6\n", {"ignore": "a"}, "expected a column of inputs beside the target"),
        ("a,b,y\n1,5\n2,6\n", {}, "expected 3 columns in every row, got 2 in line 2"),
    ],
)
def test_a_refusal_says_how_many_where_and_what_to_do(tmp_path, text, choice, message):
    with pytest.raises(ValueError, match=message):
        read_rows(table(tmp_path, text), **choice)


def test_columns_that_are_left_out_may_hold_anything(tmp_path):
    path = table(tmp_path, f"id,name,a,y\n{2**53 + 1},x1,1,5\n{2**53 + 3},,2,6\n7,31.1.2024,3,8\n")
    assert read_rows(path, ignore="id,name").X.tolist() == [[1.0], [2.0], [3.0]]
    assert read_rows(path, columns="a").X.tolist() == [[1.0], [2.0], [3.0]]


def test_labels_are_whole_numbers_numbers_or_words(tmp_path):
    for cells, expected in ((("1", "0"), [1, 0]), (("1.5", "2"), [1.5, 2.0]), (("no", "yes "), ["no", "yes"])):
        rows = read_rows(table(tmp_path, f"a,y\n1,{cells[0]}\n2,{cells[1]}\n"), labels=True)
        assert rows.y.tolist() == expected
        assert isinstance(rows.encoding.target, LabelColumn)


# Parquet


def test_parquet_columns_are_those_of_a_csv_file(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    when = [datetime.datetime(2024, 1, 31, 12), datetime.datetime(2024, 2, 1), datetime.datetime(2024, 2, 2)]
    side = arrow.array(["east", "west", "east"]).dictionary_encode()
    columns = {"a": [1, 2, 4], "side": side, "t": when, "f": [True, False, True], "y": [2.0, 3.0, 5.0]}
    path = tmp_path / "rows.parquet"
    parquet.write_table(arrow.table({**columns, "__index_level_0__": [0, 1, 2]}), path)
    rows = read_rows(path)
    lines = ["a,side,t,f,y"] + [
        f"{columns['a'][i]},{side[i]},{when[i]},{columns['f'][i]},{columns['y'][i]}" for i in range(3)
    ]
    same = read_rows(table(tmp_path, "\n".join(lines)))
    assert rows.columns == same.columns == ("a", "side=east", "side=west", "t", "f")
    np.testing.assert_array_equal(rows.X, same.X)
    np.testing.assert_array_equal(rows.y, same.y)
    np.testing.assert_array_equal(read_rows(path, encoding=same.encoding).X, same.X)
    assert "'__index_level_0__' counts the rows" in rows.notes[0]
    parquet.write_table(arrow.table({"a": [1, None, 3], "s": ["u", "u", None], "y": [1.0, 2.0, None]}), path)
    with pytest.raises(ValueError, match="got 3 missing cells in 2 rows and 3 columns, the first in row 2, column 'a'"):
        read_rows(path)
    parquet.write_table(arrow.table({"a": [[1], [2], [3]], "b": [1, 2, 3], "y": [1.0, 2.0, 3.0]}), path)
    with pytest.raises(ValueError, match=r"in column 'a', got values of type list.*--ignore a"):
        read_rows(path)
    assert read_rows(path, ignore="a").D == 1


def test_a_long_text_is_held_once(tmp_path):
    """Each row of a dictionary column would be a copy of 10^6 characters, 3 GB in all."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    texts = arrow.DictionaryArray.from_arrays(np.zeros(3000, np.int32), ["x" * 10**6])
    parquet.write_table(arrow.table({"a": texts, "y": np.arange(3000.0)}), path)
    assert path.stat().st_size < 10**6
    assert read_rows(path).X.sum() == 3000.0


# The record


names = st.text(max_size=5)
numbers = st.integers(1, 99)
columns = st.one_of(
    st.builds(NumberColumn, names, numbers),
    st.builds(TruthColumn, names, numbers),
    st.builds(LabelColumn, names, numbers),
    st.builds(TimeColumn, names, numbers, st.datetimes().map(lambda time: time.isoformat())),
    st.builds(
        CategoryColumn, names, numbers, st.sets(st.text(min_size=1), min_size=1).map(lambda words: tuple(sorted(words)))
    ),
)


@given(st.builds(Encoding, st.lists(columns, min_size=1, max_size=4).map(tuple), columns, st.booleans(), numbers))
def test_an_encoding_is_read_as_it_was_written(encoding):
    written = json.loads(json.dumps(encoding.to_dict()))
    assert Encoding.from_dict(written) == encoding


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": []}, "inputs: expected at least one column"),
        ({"inputs": [{"kind": "colour", "name": "a", "number": 1}]}, r"inputs\[0\].kind: expected one of"),
        ({"inputs": [{"kind": "time", "name": "a", "number": 1, "origin": "soon"}]}, "origin: expected a time"),
        (
            {"inputs": [{"kind": "category", "name": "a", "number": 1, "levels": ["b", "a"]}]},
            "levels: expected different",
        ),
        ({"inputs": [{"kind": "number", "name": "a", "number": 0}]}, "number: expected a whole number from 1"),
        ({"width": -1}, "width: expected a whole number from 1"),
        ({"named": 1}, "named: expected true or false"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_stranger_s_encoding_is_refused(change, message):
    record = Encoding((NumberColumn("a", 1),), NumberColumn("y", 2), True, 2).to_dict()
    with pytest.raises(ValueError, match=message):
        Encoding.from_dict(record | change)


@given(st.lists(st.datetimes(), min_size=2, max_size=6))
def test_times_are_seconds_since_the_first_row(times):
    column = TimeColumn("t", 1, times[0].isoformat())
    cells = FileColumn("t", 1, [time.isoformat(" ", "microseconds") for time in times])
    expected = [(time - times[0]).total_seconds() for time in times]
    assert column.numbers(cells).ravel().tolist() == expected


# New rows for a model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,side\n1,north\n",
            "expected one of the 2 words of the rows for training .east, west., got 'north' in line 2",
        ),
        ("a,side\n1,5\n", "got 5 in line 2, column 'side'"),
        ("a,side\nx,east\n", "expected a number, got 'x' in line 2, column 'a'"),
        ("a,other\n1,east\n", "expected column 'side' as in the rows for training of the model, got 'a', 'other'"),
        ("1,2,3,4\n5,6,7,8\n", "expected 3 columns as in the rows for training"),
        ("a,side\n,east\n2,west\n", "got 1 missing cell"),
    ],
)
def test_new_rows_that_a_model_does_not_know_are_refused(tmp_path, text, message):
    encoding = read_rows(table(tmp_path, WORDS)).encoding
    with pytest.raises(ValueError, match=message):
        read_rows(table(tmp_path, text, "new.csv"), encoding=encoding, predicting=True)


def test_new_rows_are_found_by_name_by_number_or_in_order(tmp_path):
    encoding = read_rows(table(tmp_path, WORDS)).encoding
    files = ("side,a\nwest,9\n", "id,y,side,a\n7,,west,9\n", "9,west\n", "9,west,1\n")
    for i, text in enumerate(files):
        header = "yes" if i < 2 else "no"
        rows = read_rows(table(tmp_path, text, f"{i}.csv"), encoding=encoding, predicting=True, header=header)
        assert rows.X.tolist() == [[9.0, 0.0, 1.0]]
        assert (rows.y is None) == (i < 3)
    with pytest.raises(ValueError, match="expected column 'y'"):
        read_rows(tmp_path / "0.csv", encoding=encoding)
    with pytest.raises(ValueError, match="--target: expected y, the target of the model, got 'a'"):
        read_rows(tmp_path / "table.csv", "a", encoding=encoding)
    with pytest.raises(ValueError, match="expected to leave the inputs of the model, got none of column 'side'"):
        read_rows(tmp_path / "table.csv", ignore="side", encoding=encoding)


def messy(tmp_path, n=70):
    """A table with pandas' index, words, dates and a gap; the file and the words."""
    rng = np.random.default_rng(3)
    a, side = rng.uniform(-2.0, 2.0, n).tolist(), rng.choice(["east", "north", "west"], n)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(n)]
    y = (np.sin(2.0 * np.array(a)) + (side == "east") + 0.1 * rng.standard_normal(n)).tolist()
    lines = [f"{i},{a[i]!r},{side[i]},{days[i]},{y[i]!r}" for i in range(n)]
    lines[5] = lines[5].replace(side[5], "NA")
    return table(tmp_path, "\n".join([",a,side,day,y", *lines]), "messy.csv")


def test_train_and_audit_read_the_same_table(capsys, tmp_path):
    path = messy(tmp_path)
    words = ("--inducing", 8, "--max-iter", 20, "--drop-missing", "--out", tmp_path)
    status, out, err = ask(capsys, "train", path, *words)
    assert status == 0, err
    text = " ".join(out.split())
    assert "target y, D = 5: 55 rows for training, 14 held out" in text
    assert "Scores of 14 held-out rows say little" in text
    model = fitting.load(tmp_path / "model.npz")
    assert model.encoding_.names == ("a", "side=east", "side=north", "side=west", "day")
    copy = tmp_path / "again.npz"
    model.save(copy)
    assert copy.read_bytes() == (tmp_path / "model.npz").read_bytes()
    page = ("--model", copy, "--most", 20, "--out", tmp_path / "audit.html")
    status, out, err = ask(capsys, "audit", path, "--drop-missing", *page)
    assert status == 0, err
    assert "side=north" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    status, _, err = ask(capsys, "audit", path, *page)
    assert status == 2
    assert "got 1 missing cell in 1 row and 1 column, the first in line 7, column 'side'" in err
    lines = path.read_text(encoding="utf-8").splitlines()
    plain = table(tmp_path, "\n".join([*lines[:6], *lines[7:]]), "plain.csv")
    assert ask(capsys, "audit", plain, *page)[0] == 0


def test_a_model_without_a_table_writes_no_encoding(tmp_path):
    X = np.linspace(0.0, 6.0, 40)[:, None]
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).standard_normal(40)
    fitting.ExactGP().fit(X, y).save(tmp_path / "m.npz")
    assert b"encoding" not in (tmp_path / "m.npz").read_bytes()
    assert not hasattr(fitting.load(tmp_path / "m.npz"), "encoding_")


@pytest.mark.slow
def test_a_classifier_of_words_is_audited(capsys, tmp_path):
    lines = [f"{x!r},{'up' if x > 0.3 else 'down'}" for x in np.random.default_rng(0).uniform(size=40).tolist()]
    path = table(tmp_path, "\n".join(["x,way", *lines]))
    words = ("--model", "classifier", "--inducing", 5, "--max-iter", 3, "--out", tmp_path)
    assert ask(capsys, "train", path, *words)[0] == 0
    status, out, _ = ask(capsys, "audit", path, "--model", tmp_path / "model.npz", "--out", tmp_path / "a.html")
    assert status == 0
    assert "M = 5" in out
    assert (tmp_path / "a.html").exists()


@pytest.mark.broad
@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (None, ("--drop-missing",)),
        ("0,1,2\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(30)), ()),
        ("a;y\n" + "".join(f"{i},5;{i % 5},5\n" for i in range(30)), ()),
        ("a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(30)), ("--ignore", "b")),
    ],
)
def test_a_certificate_is_about_the_rows_that_were_written(capsys, tmp_path, text, choice):
    """The strict reader of `certify check` guesses nothing."""
    path = messy(tmp_path) if text is None else table(tmp_path, text)
    words = ("--epsilon", 1, "--posterior", "fitc", "--inducing", 4, "--iterations", 2, "--grid", -3, 3, 61, "--json")
    form = ("--method", "pac-bayes", "--out", tmp_path / "c")
    status, out, err = ask(capsys, "certify", "train", path, *words, *choice, *form)
    assert status == 0, err
    written = json.loads(out)["files"]["data"]
    rows = read_rows(path, ignore="b" if choice[:1] == ("--ignore",) else None, drop_missing="--drop-missing" in choice)
    np.testing.assert_array_equal(read_table(written).values, np.column_stack([rows.X, rows.y]))
    [certificate] = (tmp_path / "c").glob("certificate*.json")
    assert Certificate.load(certificate).check(rows.X, rows.y).confirmed
    assert ask(capsys, "certify", "check", certificate, "--data", written)[0] == 0


@pytest.mark.broad
@pytest.mark.parametrize(
    "words", [("plan", "--simulate", 0, "--best", 0), ("rate", "-M", 5), ("curve", "-M", 5, "--best", 0)]
)
def test_the_planning_commands_read_the_same_table(capsys, tmp_path, words):
    out = ("--out", tmp_path / "c.png") if words[0] == "curve" else ()
    status, out, err = ask(
        capsys, words[0], "--data", messy(tmp_path), *words[1:], *out, "--ignore", "day", "--drop-missing"
    )
    assert status == 0, err
    text = " ".join(out.split())
    assert "one input for each of 3 values (east, north, west)" in text
    assert "--drop-missing left out 1 of 70 rows, in which 1 cell is missing." in text


# What is said of a split


def test_twins_and_few_rows_are_counted():
    train = TableRows("t", np.array([[1.0, 0.0], [2.0, 0.0], [2.0, -0.0]]), np.array([1.0, 2.0, 3.0]))
    held = TableRows("h", np.array([[2.0, 0.0], [2.0, 0.0], [1.0, -0.0], [1.0, 1.0]]), np.array([3.0, 9.0, 1.0, 1.0]))
    assert twins(train, held) == (3, 2)
    first, second = remarks_on_split(train, held)
    assert first.startswith("3 of the 4 held-out rows have the inputs of a row for training, 2 of them its target, too")
    assert second.startswith("Scores of 4 held-out rows say little")
    assert remarks_on_split(train, held.part([])) == ()
    many = TableRows("m", np.arange(30.0)[:, None] + 9.0, np.zeros(30))
    assert remarks_on_split(TableRows("t", np.zeros((2, 1)), np.zeros(2)), many) == ()
    assert remarks_on_inputs(train)[0].startswith("The input x2 is constant in the rows for training")
    assert remarks_on_inputs(many) == ()
