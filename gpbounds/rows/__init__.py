"""Rows from wherever they are: arrays, memory maps and .npy files, Parquet files and folders, Dask collections, tables.

A `Source` is rows in partitions.  A program (`gpbounds.rows.program`) says what is computed over them, each partition a
record of sums that are added in one order; an engine (`gpbounds.rows.engines`, `gpbounds.rows.dask_rows`) runs it.
"""

from gpbounds.rows.copies import shuffle_to
from gpbounds.rows.recognised import is_elsewhere, source
from gpbounds.rows.source import Source
from gpbounds.rows.tables import TableOfNumbers, read_table

__all__ = ["Source", "TableOfNumbers", "is_elsewhere", "read_table", "shuffle_to", "source"]
