"""Copies of rows on disk: in their order, for models that read single rows, and in random order."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.rows.recognised import source
from gpbounds.rows.source import Source

HELD = 2**28
"""Bytes of rows that are put into random order at a time."""

MOST = 500
"""Largest number of files that are open at a time."""


@contextmanager
def on_disk(rows: Source) -> Iterator[tuple[Float, Float]]:
    """The result of `copied` in a temporary folder, which lasts as long as the context; the rows' memory is freed."""
    with tempfile.TemporaryDirectory(prefix="gpbounds-", ignore_cleanup_errors=True) as folder:
        points, targets = copied(rows, folder)
        rows.holder.release()
        yield points, targets


def copied(rows: Source, folder: str | os.PathLike[str]) -> tuple[Float, Float]:
    """X (N, D) as a memory map of the new file ``folder``/X.npy, and Y (N, P) in memory; one pass, rows in order.

    The file needs 8·N·D bytes.

    >>> from gpbounds.rows import source
    >>> with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps a mapped file
    ...     X, Y = copied(source(np.eye(3), np.arange(3.0)), folder)
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


def shuffle_to(
    folder: str | os.PathLike[str], X: Any, y: Any = None, *, rng: np.random.Generator | int | None = None
) -> tuple[Path, Path]:
    """Write the rows in an order drawn uniformly to ``folder``/X.npy and ``folder``/y.npy, in one pass over them.

    Each row goes to a random one of several temporary files in ``folder``, each of which then fits into memory and is
    permuted: all orders are equally likely.  The disk holds the rows twice in the meantime.  The two files get their
    names when they are complete; a process that is killed leaves a folder ``shuffle-…``, which you may delete.

    Parameters
    ----------
    folder : path
        It is created if missing.
    X, y : as in `gpbounds.rows.source`
    rng : numpy.random.Generator or int, optional

    Returns
    -------
    (Path, Path)
        X (N, D) and y (N,) or (N, P), doubles, which estimators take as they are.

    Raises
    ------
    ValueError
        if one of the two files exists, and as `gpbounds.rows.source`.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = shuffle_to(folder, np.arange(3.0)[:, None], np.arange(3.0), rng=0)
    ...     [np.load(path).ravel().tolist() for path in paths]
    [[2.0, 0.0, 1.0], [2.0, 0.0, 1.0]]
    """
    place = Path(folder)
    paths = place / "X.npy", place / "y.npy"
    if existing := [path for path in paths if path.exists()]:
        raise ValueError(f"folder: expected one without X.npy and y.npy, got {os.fspath(existing[0])!r}")
    rows, generator = source(X, y), validation.generator(rng)
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shuffle-", dir=place, ignore_cleanup_errors=True) as scratch:
        scattered = _scattered(rows, Path(scratch), generator)
        shapes = (rows.N, rows.D), (rows.N,) if rows.single else (rows.N, rows.P)
        parts = [Path(scratch) / path.name for path in paths]
        both_files = zip(parts, shapes, strict=True)
        written = [np.lib.format.open_memmap(path, "w+", np.float64, shape) for path, shape in both_files]
        start = 0
        for path in scattered:
            both = np.fromfile(path).reshape(-1, rows.D + rows.P)
            generator.shuffle(both, axis=0)
            here = slice(start, start + len(both))
            written[0][here] = both[:, : rows.D]
            written[1][here] = both[:, rows.D] if rows.single else both[:, rows.D :]
            start = here.stop
            path.unlink()
        for each in written:
            each.flush()
        del written, each
        for part, path in zip(parts, paths, strict=True):  # whole files only get their names
            part.replace(path)
    return paths


def _scattered(rows: Source, folder: Path, rng: np.random.Generator) -> list[Path]:
    """The rows in several files, each row in a random one."""
    size = 8 * rows.N * (rows.D + rows.P)
    paths = [folder / str(i) for i in range(min(-(-size // HELD), MOST))]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb")) for path in paths]
        for part in rows.holder.partitions():
            both: Float = np.concatenate([part.X, part.Y], axis=1).astype(np.float64, copy=False)
            chosen = rng.integers(len(paths), size=len(both))
            for i, file in enumerate(files):
                both[chosen == i].tofile(file)
    return paths
