"""Rows of a source in one memory map, for models that read single rows: mini-batches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gpbounds.arrays import Float
from gpbounds.sources.source import Source


@contextmanager
def on_disk(rows: Source) -> Iterator[tuple[Float, Float]]:
    """`mapped` in a temporary folder, for the time of the context; the rows are let go from memory."""
    with tempfile.TemporaryDirectory(prefix="gpbounds-", ignore_cleanup_errors=True) as folder:
        points, targets = mapped(rows, folder)
        rows.holder.release()
        yield points, targets


def mapped(rows: Source, folder: str | os.PathLike[str]) -> tuple[Float, Float]:
    """X (N, D) as a memory map of the new file ``folder``/X.npy, and Y (N, P) in memory; one pass, rows in order.

    The file needs 8·N·D bytes.

    >>> import tempfile
    >>> from gpbounds.sources import source
    >>> with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps a mapped file
    ...     X, Y = mapped(source(np.eye(3), np.arange(3.0)), folder)
    ...     X.sum(axis=0).tolist(), Y[:, 0].tolist()
    ([1.0, 1.0, 1.0], [0.0, 1.0, 2.0])
    """
    path = Path(folder) / "X.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows.N, rows.D))
    Y = np.empty((rows.N, rows.P))
    start = 0
    for size in rows.sizes:
        place = np.arange(start, start + int(size))
        X[start : start + int(size)], Y[start : start + int(size)] = rows.rows(place)
        start += int(size)
    X.flush()
    return np.load(path, mmap_mode="r"), Y
