"""Read the table of ``gpbounds train`` and ``audit``, and hold some of its rows out."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from gpbounds.arrays import is_constant
from gpbounds.cli import options
from gpbounds.rows.table_rows import TableRows, read_rows


def read(args: argparse.Namespace, **more: Any) -> TableRows:
    """The rows of ``args.file`` by the options of `options.add_table`; ``more`` as in `read_rows`.

    Raises
    ------
    ValueError, OSError, ImportError
        as `read_rows`, and for numbers of a target that do not vary.
    """
    table = read_rows(args.file, **options.table(args), **more)
    y = table.y
    if y is not None and y.dtype.kind in "iuf" and not more.get("labels") and is_constant(y.std(), np.abs(y).max()):
        raise ValueError(f"{table.name}: expected a target ({table.target}) that varies, got a constant one")
    return table


def split(table: TableRows, share: float, seed: int) -> tuple[TableRows, TableRows]:
    """The rows for training and a random ``share`` that is held out."""
    held = round(share * table.N)
    if not 0.0 < share < 1.0:
        raise options.UsageError(f"--held-out: expected a share between 0 and 1, got {share:g}")
    if held < 1 or table.N - held < 2:
        raise options.UsageError(
            f"--held-out: expected to hold out at least one row and to leave two, got {held} of {table.N}"
        )
    order = np.random.default_rng(seed).permutation(table.N)
    return table.part(np.sort(order[held:])), table.part(np.sort(order[:held]))
