"""Which rows are read by partitions, and the source of each kind."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from gpbounds.arrays import exactly, is_dask
from gpbounds.errors import shown
from gpbounds.rows.dask_rows import Cluster, cluster_of, cluster_of_parts
from gpbounds.rows.engines import KEPT, Local, Reporting, Tell
from gpbounds.rows.formats import array_parts, npy_parts, parquet_parts
from gpbounds.rows.source import Source
from gpbounds.validation import function


def is_elsewhere(X: Any) -> bool:
    """Whether X stands for rows that are read by partitions: a path, a Dask collection, or a `Source`."""
    return isinstance(X, str | os.PathLike | Source) or is_dask(X)


def source(X: Any, y: Any = None, client: Any = None, *, tell: Tell | None = None) -> Source:
    """The rows X with the targets y, after one pass over them.

    | X                                | y                                             | read by               |
    |----------------------------------|-----------------------------------------------|-----------------------|
    | array, `numpy.memmap`            | array                                         | this process          |
    | path of a .npy file              | path of a .npy file                           | this process, or Dask |
    | path of a Parquet file or folder | name of a column, or a list of names          | this process, or Dask |
    | Dask array                       | Dask array                                    | Dask                  |
    | Dask dataframe                   | dataframe, series, name or names of columns   | Dask                  |

    Parameters
    ----------
    X, y : as in the table
    client : distributed.Client, optional
        Where Dask computes: by default the current client, else its default scheduler.  Files are read by its workers
        if it is passed, and by this process otherwise.
    tell : function of a `gpbounds.rows.engines.Progress`, optional
        Reporting of every partition that a pass over these rows has finished, the first pass included.

    Raises
    ------
    ValueError, NonFinite
        for rows that do not match, are not numbers, or contain NaN or infinity: with partition and rows.
    ImportError
        for a Parquet file without pyarrow.

    >>> import numpy as np
    >>> rows = source(np.linspace(0.0, 1.0, 5)[:, None], np.arange(5.0))
    >>> rows.N, rows.D, rows.P, rows.single
    (5, 1, 1, True)
    """
    if isinstance(X, Source):
        return X if tell is None else replace(X, holder=Reporting(X.holder, tell))
    if is_dask(X):
        cluster, single, names = cluster_of(X, y, client)
        return _looked_at(cluster, tell, single, names)
    names = ()
    parts: Any
    if isinstance(X, str | os.PathLike):
        path = os.fspath(X)
        if path.endswith(".npy"):
            if not isinstance(y, str | os.PathLike):
                raise ValueError(f"y: expected the path of a .npy file, as X is one, got {type(y).__name__}")
            parts, single = npy_parts(path, y)
        else:
            if not (isinstance(y, str) or (isinstance(y, list | tuple) and y)):
                raise ValueError(f"y: expected the name of a column of {path!r}, or a list of names, got {shown(y)}")
            parts, single = parquet_parts(path, [y] if isinstance(y, str) else list(y)), isinstance(y, str)
            names = parts[0].features
    else:
        if client is not None:
            raise ValueError(
                "client: expected None for arrays in memory, which are not sent to workers: make a Dask array of "
                "rows that workers can read"
            )
        points, targets = _rows("X", X), _rows("y", y)
        parts, single = array_parts(points, targets), targets.ndim == 1
    engine: Cluster | Local = Local(parts) if client is None else cluster_of_parts(parts, client)
    return _looked_at(engine, tell, single, names)


def _rows(name: str, value: Any) -> Any:
    """An array of rows, whose numbers each partition tests when it is read."""
    array = exactly(name, value)
    shape, kind = getattr(array, "shape", ()), getattr(getattr(array, "dtype", None), "kind", "O")
    if len(shape) not in (1, 2) or 0 in shape or kind not in "biuf":
        got = f"{kind!r} of shape {shape}" if shape else shown(value)
        raise ValueError(f"{name}: expected real numbers of shape (N, D) or (N,), with N, D >= 1, got {got}")
    return array.astype(np.float64) if array.dtype == np.longdouble and kind == "f" else array


def _looked_at(engine: Cluster | Local, tell: Tell | None, single: bool, names: tuple[str, ...]) -> Source:
    """The rows of ``engine``; on Dask's default scheduler, they stay in this process's memory only if they are few."""
    if tell is not None:
        function("tell", tell, "a function that is told of the progress")
    rows = Source.of(engine if tell is None else Reporting(engine, tell), single=single, names=names)
    holder = rows.holder.holder if isinstance(rows.holder, Reporting) else rows.holder
    if isinstance(holder, Cluster) and holder.client is None:
        holder.keep = 8 * rows.N * (rows.D + rows.P) <= KEPT
    return rows
