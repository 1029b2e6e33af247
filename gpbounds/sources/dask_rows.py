"""Partitions of Dask arrays and dataframes.  Only functions that are called with objects of Dask import it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gpbounds.mapreduce.graph import Cluster
from gpbounds.sources.checked import checked
from gpbounds.sources.local import Part


def is_dask(values: object) -> bool:
    """Whether ``values`` is a collection of Dask, by the name of its module."""
    return type(values).__module__.partition(".")[0] == "dask" and hasattr(values, "to_delayed")


def is_frame(values: Any) -> bool:
    """Whether a collection of Dask is a dataframe or a series."""
    return hasattr(values, "npartitions") and not hasattr(values, "chunks")


def cluster_of(X: Any, y: Any, client: Any) -> tuple[Cluster, bool, tuple[str, ...]]:
    """The engine for a Dask array or dataframe X; whether y has one dimension; the names of the columns of X.

    y is a collection of the same kind with the same partitions, or the names of columns of a dataframe X.

    Raises
    ------
    ValueError
        for several chunks of columns, or partitions of X and y that differ; the message says what to type.
    """
    from dask import delayed

    names: tuple[str, ...] = ()
    if is_frame(X) and isinstance(y, str | list | tuple):
        targets = [y] if isinstance(y, str) else list(y)
        single = isinstance(y, str)
        X, y = X[[name for name in X.columns if name not in targets]], X[targets]
    else:
        if not is_dask(y):
            raise ValueError(
                f"y: expected a Dask collection with the partitions of X, got {type(y).__name__}: "
                "dask.array.from_array(y, chunks=X.chunks[0])"
            )
        single = y.ndim == 1
    if is_frame(X):
        names = tuple(map(str, X.columns))
    xs, ys = _pieces("X", X), _pieces("y", y)
    if len(xs) != len(ys) or _differ(X, y):
        raise ValueError(
            f"y: expected the partitions of X, {len(xs)} of them, got {len(ys)} or others: y = "
            + ("y.repartition(divisions=X.divisions)" if is_frame(y) else "y.rechunk({0: X.chunks[0]})")
        )
    load = delayed(checked, pure=False, traverse=False)
    return cluster([load(number, *pair) for number, pair in enumerate(zip(xs, ys, strict=True))], client), single, names


def cluster_of_parts(parts: Sequence[Part], client: Any) -> Cluster:
    """The engine for files that every worker reads."""
    from dask import delayed

    load = delayed(_loaded, pure=False, traverse=False)
    return cluster([load(delayed(part, traverse=False)) for part in parts], client)


def cluster(loads: Sequence[Any], client: Any) -> Cluster:
    """The engine on ``client``, or on the one that is current."""
    chosen = client if client is not None else current_client()
    return Cluster(loads, chosen, keep=chosen is not None)


def current_client() -> Any:
    """The client that this process has made current, if any."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _loaded(part: Part) -> Any:
    return part.load()


def one_chunk_of_columns(name: str, values: Any) -> Any:
    """``values``; refuses an array with several chunks of columns."""
    blocks: tuple[int, ...] = getattr(values, "numblocks", ())
    if len(blocks) > 1 and blocks[1] > 1:
        raise ValueError(
            f"{name}: expected one chunk of columns, got {blocks[1]} of them: {name} = {name}.rechunk({{1: -1}})"
        )
    return values


def _pieces(name: str, values: Any) -> list[Any]:
    """The partitions by rows as delayed objects."""
    delayed = one_chunk_of_columns(name, values).to_delayed()
    return list(delayed.ravel()) if hasattr(delayed, "ravel") else list(delayed)


def _differ(X: Any, y: Any) -> bool:
    """Whether the partitions of X and y are known to differ."""
    if is_frame(X) != is_frame(y):
        return False
    if is_frame(X):
        return bool(X.known_divisions and y.known_divisions and X.divisions != y.divisions)
    a, b = X.chunks[0], y.chunks[0]
    return not any(size != size for size in (*a, *b)) and a != b
