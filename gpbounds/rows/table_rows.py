"""Inputs and targets from a table in a file: which columns, which rows, and what becomes of words, dates and gaps.

`read_rows` is the one door of all commands.  A model that is stored holds the `Encoding` of its table; with it the
same function reads new rows.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from gpbounds.arrays import Float, is_constant
from gpbounds.errors import shown
from gpbounds.rows.cells import INDEX, FileCells, FileColumn, listed, read_cells
from gpbounds.rows.encoding import ColumnEncoding, Encoding, LabelColumn, NumberColumn, encoded, encoding_of
from gpbounds.rows.tables import is_number

FEW = 30
"""Number of rows of whose scores a note says that they tell little."""


@dataclass(frozen=True, eq=False)
class TableRows:
    """Inputs and targets from a table, in its units.

    Attributes
    ----------
    name : str
        Name of the data in figures and reports.
    X : array (N, D)
    y : array (N,)
        Numbers, or labels of any kind; None for new rows without targets.
    notes : tuple of str
        How they were read and changed.
    columns : tuple of str
        Names of the inputs, where they have names.
    target : str
        Name of the target.
    encoding : Encoding, optional
        How the columns of a file became X and y.
    lines : sequence of int
        The line in the file of each row, in a Parquet file its number; empty for rows that are from no file.
    strict : bool
        Whether `gpbounds.rows.read_table` reads these numbers in these columns, the target last.
    """

    name: str
    X: Float
    y: Any
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    target: str = "y"
    encoding: Encoding | None = None
    lines: Sequence[int] = ()
    strict: bool = False

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the inputs: x1, x2, ... where they have none."""
        return self.columns or tuple(f"x{j + 1}" for j in range(self.D))

    def part(self, numbers: Any) -> Self:
        """The rows with these numbers, from 0."""
        lines = np.asarray(self.lines)[numbers] if len(self.lines) else self.lines
        return replace(self, X=self.X[numbers], y=None if self.y is None else self.y[numbers], lines=lines)

    def subset(self, rows: int, seed: int) -> Self:
        """``rows`` rows drawn without replacement, in their order; all rows if there are no more."""
        if rows < 2:
            raise ValueError(f"rows: expected a whole number >= 2, got {rows}")
        if rows >= self.N:
            return self
        return self.part(np.sort(np.random.default_rng(seed).choice(self.N, rows, replace=False)))


def name_of(path: Path) -> str:
    """The name of the data in a file."""
    shown = os.fsencode(path.name).decode("utf-8", "backslashreplace")  # names need not be text
    return shown.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")


def read_rows(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    columns: str | None = None,
    ignore: str | None = None,
    drop_missing: bool = False,
    header: str = "auto",
    labels: bool = False,
    encoding: Encoding | None = None,
    predicting: bool = False,
) -> TableRows:
    """Inputs and targets from a CSV file (also .csv.gz), a Parquet file, or the Parquet files of a folder.

    Columns of numbers stay as they are; decimal commas are read where the comma does not separate cells.  Dates become
    seconds since the first row's, true and false 1 and 0, words one input for each word.  The notes say so.

    Parameters
    ----------
    path : path
    target : str, optional
        Name or number (from 1) of the target's column; by default the last one that is not left out.
    columns : str, optional
        Names or numbers of the columns to use, separated by commas; by default all.
    ignore : str, optional
        Names or numbers of the columns to leave out.
    drop_missing : bool
        Leave out rows with missing cells (empty, NA, NaN, null, None, ?) in the columns that are used.
    header : {"auto", "yes", "no"}
        Whether the first line of a CSV file is a header; as `gpbounds.rows.cells.read_cells`.
    labels : bool
        Whether the target may be labels of any kind.
    encoding : Encoding, optional
        That of the rows for training: these rows become the same inputs.  Columns are found by name if both files have
        a header; else by their numbers, or in order if the file has the inputs alone.
    predicting : bool
        With ``encoding``: the targets may be missing; ``y`` is None then.

    Returns
    -------
    TableRows

    Raises
    ------
    ValueError
        for columns that do not exist, missing or infinite cells (how many, and the first place), too many words, words
        among numbers, and for what ``encoding`` does not know.
    OSError, ImportError
        if the file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "flats.csv"
    ...     _ = path.write_text("area,side,rent\\n50,east,9\\n70,west,8\\n60,east,7\\n,west,6\\n", encoding="utf-8")
    ...     rows = read_rows(path, drop_missing=True)
    >>> rows.columns, rows.X.tolist(), rows.target
    (('area', 'side=east', 'side=west'), [[50.0, 1.0, 0.0], [70.0, 0.0, 1.0], [60.0, 1.0, 0.0]], 'rent')
    >>> rows.notes[0]
    '--drop-missing left out 1 of 4 rows, in which 1 cell is missing.'
    """
    file = Path(path)
    cells = read_cells(file, header)
    answer: FileColumn | None
    if encoding is None:
        answer, inputs, notes = _chosen(cells, target, columns, ignore)
    else:
        answer, inputs, notes = _known(cells, encoding, target, columns, ignore, predicting)
    kept, more = _complete(cells, inputs if predicting or answer is None else [*inputs, answer], drop_missing)
    if more:
        cells = replace(cells, lines=[line for line, keep in zip(cells.lines, kept, strict=True) if keep], strict=False)
        inputs = [column.rows(kept) for column in inputs]
        answer = None if answer is None else answer.rows(kept)
    if encoding is None:
        assert answer is not None
        encoding = Encoding(
            tuple(encoding_of(cells, column) for column in inputs),
            _target(cells, answer, labels),
            cells.named,
            len(cells.columns),
        )
        notes += tuple(encoding.notes)
    elif answer is not None and predicting and (isinstance(answer.cells, str) or answer.missing.any()):
        answer = None
        notes += (f"The targets ({encoding.target_name}) are not used: cells of this column are missing.",)
    y: Any = None
    parts = [encoded(cells, column, how) for column, how in zip(inputs, encoding.inputs, strict=True)]
    if answer is not None and isinstance(encoding.target, NumberColumn):
        table = np.column_stack([*parts, encoded(cells, answer, encoding.target)])
        X, y = table[:, :-1], table[:, -1]
    else:
        X = np.column_stack(parts)
        y = None if answer is None else encoded(cells, answer, encoding.target)
    named = encoding.named or not encoding.numbers_only
    last = answer is not None and answer.number == len(cells.columns) == len(inputs) + 1
    return TableRows(
        name_of(file),
        X,
        y,
        (*cells.notes, *more, *notes),
        encoding.names if named else (),
        encoding.target_name,
        encoding,
        cells.lines,
        cells.strict and encoding.numbers_only and last,
    )


def column_number(text: str, names: Sequence[str], option: str) -> int:
    """The number, from 0, of the column with this name or this number from 1; without a header ``names`` are empty.

    Raises
    ------
    ValueError
        for another text, and for the name of several columns.

    >>> column_number("b", ["a", "b"], "--target"), column_number("1", ["", ""], "--target")
    (1, 0)
    """
    if text and names.count(text) == 1:
        return names.index(text)
    if text and text in names:
        raise ValueError(
            f"{option}: expected the name of one column, got {shown(text)}, the name of {names.count(text)} columns: "
            "give its number"
        )
    if text.isdecimal() and 1 <= int(text[:9]) <= len(names):
        return int(text) - 1
    known = f"one of {', '.join(filter(None, names))} or " if any(names) else ""
    raise ValueError(f"{option}: expected {known}a column's number from 1 to {len(names)}, got {shown(text)}")


def _found(cells: FileCells, listed_columns: str | None, option: str) -> list[FileColumn]:
    """The columns that an option lists, in their order in the file."""
    if not listed_columns:
        return []
    names = [column.name for column in cells.columns]
    texts = next(csv.reader([listed_columns], skipinitialspace=True))
    return [cells.columns[j] for j in sorted({column_number(text.strip(), names, option) for text in texts})]


def _chosen(
    cells: FileCells, target: str | None, columns: str | None, ignore: str | None
) -> tuple[FileColumn, list[FileColumn], tuple[str, ...]]:
    """The target, the inputs, and notes on both."""
    if len(cells.columns) < 2:
        raise ValueError(f"{cells.path}: expected at least two columns, inputs and then the target, got one")
    index, without = cells.index, _found(cells, ignore, "--ignore")
    used = _found(cells, columns, "--columns") or [column for column in cells.columns if column is not index]
    if target is not None:
        answer = cells.columns[column_number(target, [column.name for column in cells.columns], "--target")]
        if answer in without:
            raise ValueError(f"--ignore: expected columns other than the target, got {answer}")
    else:
        left = [column for column in cells.columns if column is not index and column not in without]
        if not left:
            raise ValueError("--ignore: expected to leave a target and an input, got all columns")
        answer = left[-1]
    inputs = [column for column in used if column is not answer and column not in without]
    if not inputs:
        raise ValueError(f"{cells.path}: expected a column of inputs beside the target, {answer}, got none")
    notes = []
    if index is not None and index not in used and index is not answer:
        how = f"--columns with {index.option}" if index.name else "--columns with its number, 1,"
        notes.append(
            f"{listed([index])} counts the rows, as the index of pandas does, and is left out; {how} keeps it."
        )
    elif (unnamed := _maybe_index(cells, inputs)) is not None:
        notes.append(f"{listed([unnamed])} may be an index, which --ignore {unnamed.option} leaves out.")
    if columns:
        notes.append(f"{listed(inputs)} {'is the input' if len(inputs) == 1 else 'are the inputs'} (--columns).")
    if without:
        notes.append(f"{listed(without)} {'is' if len(without) == 1 else 'are'} left out (--ignore).")
    if answer is not cells.columns[-1]:
        notes.append(f"The target is {answer.name or answer}; the other columns keep their order.")
    return answer, inputs, tuple(notes)


def _maybe_index(cells: FileCells, inputs: list[FileColumn]) -> FileColumn | None:
    """A first input without a name whose whole numbers differ in all rows."""
    first = inputs[0]
    if not cells.named or first.number != 1 or first.name not in INDEX or not isinstance(first.cells, np.ndarray):
        return None
    whole = np.array_equal(first.cells, np.round(first.cells)) and np.unique(first.cells).size == cells.N
    return first if whole else None


def _known(
    cells: FileCells, encoding: Encoding, target: str | None, columns: str | None, ignore: str | None, predicting: bool
) -> tuple[FileColumn | None, list[FileColumn], tuple[str, ...]]:
    """The columns of ``encoding`` in another file: the target, if the file has it, and the inputs."""
    by_name = encoding.named and cells.named
    names = [column.name for column in cells.columns]
    times = Counter(names)
    of_name = dict(zip(names, cells.columns, strict=True))

    def matching(how: ColumnEncoding) -> FileColumn | None:
        if by_name and times[how.name] == 1:
            return of_name[how.name]
        if len(names) != encoding.width or (by_name and names[how.number - 1] != how.name):
            return None
        return cells.columns[how.number - 1]

    inputs, answer = [matching(how) for how in encoding.inputs], matching(encoding.target)
    if not by_name and len(names) == len(inputs) < encoding.width and predicting:
        inputs, answer = list(cells.columns), None
    missing = [how for how, column in zip(encoding.inputs, inputs, strict=True) if column is None]
    if missing or (answer is None and not predicting):
        lost = missing[0] if missing else encoding.target
        expected = f"column {lost.name!r}" if by_name else f"{encoding.width} columns"
        got = ", ".join(map(repr, names[:20])) if by_name else f"{len(names)} columns"
        raise ValueError(f"{cells.path}: expected {expected} as in the rows for training of the model, got {got}")
    present = [column for column in inputs if column is not None]
    if target is not None and (answer is None or cells.columns[column_number(target, names, "--target")] is not answer):
        raise ValueError(f"--target: expected {encoding.target_name}, the target of the model, got {shown(target)}")
    without = _found(cells, ignore, "--ignore")
    unused = [column for column in present if column in without]
    if columns:
        used = _found(cells, columns, "--columns")
        unused += [column for column in present if column not in used]
    if unused:
        raise ValueError(f"--ignore, --columns: expected to leave the inputs of the model, got none of {unused[0]}")
    return answer, present, ()


def _complete(cells: FileCells, columns: list[FileColumn], drop: bool) -> tuple[Any, tuple[str, ...]]:
    """A mask of the rows without missing cells in these columns, and a note if there are others.

    Raises
    ------
    ValueError
        for cells that hold nothing that can be read, missing cells unless ``drop``, and infinite numbers.
    """
    for column in columns:
        if isinstance(column.cells, str):
            raise ValueError(
                f"{cells.path}: expected numbers, words, times or truth values in {column}, got {column.cells}; or "
                f"leave it out with --ignore {column.option}"
            )
    missing = [column.missing for column in columns]
    kept = ~np.any(missing, axis=0)
    total, notes = int(np.sum(missing)), tuple[str, ...]()
    if total and not drop:
        raise ValueError(
            f"{cells.path}: expected a value in every cell, got {_counted(total, 'missing cell')} in "
            f"{_where(cells, columns, missing)}: --drop-missing leaves these rows out, --ignore these columns"
        )
    if total and not kept.any():
        emptiest = columns[int(np.argmax(np.sum(missing, axis=1)))]
        raise ValueError(
            f"{cells.path}: expected rows without missing cells, got none: leave out columns with --ignore, such as "
            f"{emptiest.option}, whose cells are missing in {int(np.sum(emptiest.missing))} of {cells.N} rows"
        )
    if total:
        verb = "is" if total == 1 else "are"
        notes = (
            f"--drop-missing left out {int((~kept).sum())} of {_counted(cells.N, 'row')}, in which "
            f"{_counted(total, 'cell')} {verb} missing.",
        )
    infinite = [
        np.isinf(column.cells) & kept if isinstance(column.cells, np.ndarray) else np.zeros(cells.N, bool)
        for column in columns
    ]
    if np.any(infinite):
        raise ValueError(
            f"{cells.path}: expected finite numbers, got {_counted(int(np.sum(infinite)), 'infinite cell')} in "
            f"{_where(cells, columns, infinite)}: correct them, empty them and pass --drop-missing, or leave the "
            "columns out with --ignore"
        )
    return kept, notes


def _where(cells: FileCells, columns: list[FileColumn], wrong: list[Any]) -> str:
    """How many rows and which columns have wrong cells, and the first of them."""
    rows = np.flatnonzero(np.any(wrong, axis=0))
    own = [column for column, mask in zip(columns, wrong, strict=True) if mask.any()]
    first = next(column for column, mask in zip(columns, wrong, strict=True) if mask[rows[0]])
    return (
        f"{_counted(len(rows), 'row')} and {_counted(len(own), 'column')}, the first in {cells.place(rows[0])}, {first}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _target(cells: FileCells, column: FileColumn, labels: bool) -> ColumnEncoding:
    """The encoding of the target, numbers unless ``labels``."""
    texts = column.cells
    if labels:
        return LabelColumn(column.name, column.number)
    if isinstance(texts, np.ndarray):
        return NumberColumn(column.name, column.number)
    assert isinstance(texts, list)
    words = [i for i, text in enumerate(texts) if not is_number(text)]
    remedy = (
        "labels need a classifier, gpbounds train --model classifier; --target names another column"
        if len(words) == len(texts)
        else "correct these cells, or empty them and pass --drop-missing"
    )
    raise ValueError(
        f"{cells.path}: expected numbers in the target, {column}, got other text in {len(words)} of {len(texts)} "
        f"cells, the first {texts[words[0]][:60]!r} in {cells.place(words[0])}: {remedy}"
    )


# What a split says.


def twins(train: TableRows, held: TableRows) -> tuple[int, int]:
    """How many held-out rows have the inputs of a row for training, and how many of these its target, too.

    >>> train = TableRows("t", np.array([[1.0], [2.0]]), np.array([3.0, 4.0]))
    >>> twins(train, TableRows("h", np.array([[1.0], [2.0], [5.0]]), np.array([3.0, 0.0, 0.0])))
    (2, 1)
    """
    targets: dict[bytes, set[Any]] = {}
    for row, target in zip(train.X + 0.0, train.y.tolist(), strict=True):
        targets.setdefault(row.tobytes(), set()).add(target)
    own = [(targets.get(row.tobytes()), target) for row, target in zip(held.X + 0.0, held.y.tolist(), strict=True)]
    return sum(known is not None for known, _ in own), sum(
        known is not None and target in known for known, target in own
    )


def remarks_on_split(train: TableRows, held: TableRows) -> tuple[str, ...]:
    """Notes on held-out rows that the model has seen, and on scores of few rows."""
    if not held.N:
        return ()
    notes = []
    alike, same = twins(train, held)
    if alike:
        have = "has" if alike == 1 else "have"
        notes.append(
            f"{alike} of the {held.N} held-out rows {have} the inputs of a row for training, {same} of them its "
            "target, too: scores of such rows say how well the model remembers."
        )
    if held.N < FEW:
        notes.append(f"Scores of {_counted(held.N, 'held-out row')} say little; {FEW} or more say something.")
    return tuple(notes)


def remarks_on_inputs(train: TableRows) -> tuple[str, ...]:
    """A note on the inputs that do not vary."""
    largest, stds = np.abs(train.X).max(axis=0), train.X.std(axis=0)
    names = [name for name, std, size in zip(train.titles, stds, largest, strict=True) if is_constant(std, size)]
    if not names:
        return ()
    what = f"The input {names[0]} is" if len(names) == 1 else f"The inputs {', '.join(names[:20])} are"
    return (f"{what} constant in the rows for training, and cannot help: --ignore leaves columns out.",)
