"""Columns of numbers and texts into a file, a part at a time: CSV, CSV in gzip, Parquet; or CSV on a stream."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpbounds.files import replacing
from gpbounds.rows.tables import pyarrow_of

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""Ends of the names of files that `writing` writes."""

Write = Callable[[Mapping[str, Any]], None]
"""Write arrays (n,) by the names of their columns, below those before."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Write]:
    """A function that writes parts of a table, of the same columns, to the file ``path`` in the format of its name.

    The file takes the place of an earlier one when the block ends; after an error or Ctrl-C it stays what it was.

    Raises
    ------
    ValueError
        for another name.
    OSError, ImportError
        if the file cannot be written; for Parquet without pyarrow.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(Path(folder) / "two.csv") as write:
    ...         write({"row": np.array([1, 2]), "mean": np.array([0.5, np.nan])})
    ...     (Path(folder) / "two.csv").read_text(encoding="utf-8")
    'row,mean\\n1,0.5\\n2,\\n'
    """
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"expected a name that ends in {', '.join(SUFFIXES)}, got {path.name}")
    if path.suffix == ".parquet":
        arrow = pyarrow_of(path)
        with replacing(path, "wb") as file, contextlib.ExitStack() as stack:
            yield _Parquet(arrow, file, stack).write
    elif path.suffix == ".gz":
        with (
            replacing(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
            io.TextIOWrapper(packed, "utf-8", newline="") as text,
        ):
            yield csv_on(text)
    else:
        with replacing(path) as file:
            yield csv_on(file)


def csv_on(stream: IO[str]) -> Write:
    """A function that writes parts of a table to ``stream`` as CSV, with a header and all digits; NaN is left empty."""
    out, begun = csv.writer(stream, lineterminator="\n"), False

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal begun
        if not begun:
            out.writerow(columns)
            begun = True
        out.writerows(zip(*map(_cells, columns.values()), strict=True))

    return write


def _cells(column: Any) -> list[Any]:
    values: list[Any] = np.asarray(column).tolist()
    return ["" if value != value else value for value in values]  # NaN alone differs from itself


class _Parquet:
    """A Parquet file with a row group for each part, and checksums."""

    def __init__(self, arrow: Any, file: IO[bytes], stack: contextlib.ExitStack) -> None:
        self._arrow, self._file, self._stack = arrow, file, stack
        self._writer: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write a part; the first one decides the types."""
        import pyarrow

        table = pyarrow.table({name: pyarrow.array(np.asarray(column)) for name, column in columns.items()})
        if self._writer is None:
            opened = self._arrow.ParquetWriter(self._file, table.schema, write_page_checksum=True)
            self._writer = self._stack.enter_context(opened)
        self._writer.write_table(table)
