"""Rows of Dask collections, and the engine that runs a program as one Dask graph for each evaluation.

The parameters are the only data in a graph.  Partitions are persisted tasks, so that the scheduler recomputes those of
a lost worker; the tree fixes the order of additions, so that the sums stay the same.  Only functions that are called
with objects of Dask import it.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpbounds.arrays import is_dask
from gpbounds.linalg.parallel import one_lane
from gpbounds.rows.engines import Counted, Loadable, Tell
from gpbounds.rows.program import FAN_IN, Program, Rows, Statistics, reduced, summed
from gpbounds.rows.source import checked

_ATTEMPTS = 3
"""Number of times that a graph is built again after a loss of workers from which Dask did not recover by itself."""

TOPIC = "gpbounds-passes"
"""The topic under which workers report the progress of an evaluation to the scheduler, and it to a client."""

_numbers = itertools.count()


def _start(program: Program) -> Any:
    """The first state."""
    with np.errstate(over="ignore", invalid="ignore"), one_lane():
        return program.begin()


def _mapped(program: Program, number: int, state: Any, rows: Rows, task: tuple[str, int] | None = None) -> Statistics:
    """The sums of one partition in round ``number``; the scheduler learns of the evaluation and place in ``task``."""
    with np.errstate(over="ignore", invalid="ignore"), one_lane():
        sums = program.rounds[number].map(state, rows)
    if task is not None:
        from distributed import get_worker

        get_worker().log_event(TOPIC, (task[0], number, task[1]))
    return sums


def _advance(program: Program, number: int, state: Any, total: Statistics) -> Any:
    """The state after round ``number``."""
    with np.errstate(over="ignore", invalid="ignore"), one_lane():
        return program.rounds[number].then(state, total)


def _added(*records: Statistics) -> Statistics:
    """The sum of a few records."""
    return summed(records)


def graph_of(
    program: Program,
    partitions: Sequence[Any],
    name: str,
    fan_in: int = FAN_IN,
    *,
    reports: bool = False,
    homes: Sequence[str | None] = (),
) -> Any:
    """The result of ``program`` as a `dask.delayed.Delayed`, of which nothing has been computed.

    Parameters
    ----------
    program : Program
    partitions : sequence of Delayed
        The `Rows` of each partition.
    name : str
        Part of the keys of all tasks; another one for each evaluation.
    reports : bool
        Whether workers report each partition that a round has finished to the scheduler.
    homes : sequence of str or None, optional
        The address of a worker that holds each partition.  The scheduler prefers it for the sums of the partition: left
        alone, it gave one of two workers ten of sixteen partitions.  Another worker computes them if this one is lost.
    """
    from dask import annotate, delayed

    begin, each, then, plus = (delayed(f, pure=False, traverse=False) for f in (_start, _mapped, _advance, _added))
    known = delayed(program, name=f"gpbounds-program-{name}", traverse=False)
    state = begin(known, dask_key_name=f"gpbounds-begin-{name}")
    for number in range(len(program.rounds)):
        labels = itertools.count()
        sums = []
        for i, rows in enumerate(partitions):
            home = homes[i] if homes else None
            with annotate(**({"workers": [home], "allow_other_workers": True} if home else {})):
                key = f"gpbounds-partition-{i}-round-{number}-{name}"
                tasks = [(name, i)] if reports else []
                sums.append(each(known, number, state, rows, *tasks, dask_key_name=key))

        def add(records: list[Any], key: str = f"round-{number}-{name}", labels: Iterator[int] = labels) -> Any:
            return plus(*records, dask_key_name=f"gpbounds-add-{next(labels)}-{key}")

        whole = reduced(sums, add, fan_in)
        state = then(known, number, state, whole, dask_key_name=f"gpbounds-then-{number}-{name}")
    return state


class Cluster:
    """The engine that computes `graph_of` on a cluster, or with Dask's default scheduler.

    Parameters
    ----------
    loads : sequence of Delayed
        The `Rows` of each partition, as tasks that can be computed again.
    client : distributed.Client or None
        None is Dask's default scheduler.
    keep : bool
        Whether the partitions stay in memory between evaluations.
    """

    def __init__(self, loads: Sequence[Any], client: Any, *, keep: bool = True) -> None:
        self.loads, self.client, self.keep = list(loads), client, keep
        self._partitions: list[Any] | None = None

    def run(self, program: Program, tell: Tell | None = None) -> Any:
        """The result of ``program``; ``tell`` receives the progress.

        A graph that fails because workers were lost is built again, at most three times.

        Raises
        ------
        RuntimeError
            if workers are lost again and again: with the partition and the host of the last one.
        """
        faults = _faults(self.client)
        for attempt in range(_ATTEMPTS + 1):
            name = f"{next(_numbers)}-{attempt}"
            try:
                if tell is None:
                    return self._computed(graph_of(program, self._held(), name, homes=self._homes()))
                counted = Counted(tell, len(self.loads), len(program.rounds))
                with _listening(self.client, name, counted):
                    reports = self.client is not None
                    graph = graph_of(program, self._held(), name, reports=reports, homes=self._homes())
                    result = self._computed(graph)
                counted.end()
                return result
            except faults as fault:
                self._partitions = None
                if attempt == _ATTEMPTS:
                    raise RuntimeError(_message(fault)) from fault
        raise AssertionError

    def only(self, places: Sequence[int]) -> Cluster:
        """The same engine, restricted to the partitions at these positions."""
        subset = Cluster([self.loads[place] for place in places], self.client, keep=self.keep)
        if self._partitions is not None:
            subset._partitions = [self._partitions[place] for place in places]
        return subset

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""
        return map(self._computed, self._held())

    def release(self) -> None:
        """Let the partitions go; they are loaded again when they are needed."""
        self._partitions = None

    def _held(self) -> list[Any]:
        if not self.keep:
            return self.loads
        if self._partitions is None:
            import dask

            persisted = dask.persist(*self.loads) if self.client is None else self.client.persist(self.loads)
            self._partitions = list(persisted)
        return self._partitions

    def _homes(self) -> list[str | None]:
        """The address of a worker that computes the sums of each partition; [] where no partitions are kept.

        It is a worker that holds the partition, unless that has its share, in proportion to its threads, already: nine
        partitions of sixteen on one of two workers would take an eighth longer.  A worker keeps the copies it makes.
        """
        if self.client is None or not self.keep:
            return []
        from distributed import futures_of, wait

        futures = futures_of(self._held())
        if not futures:
            return []
        wait(futures)
        holders, threads = self.client.who_has(futures), self.client.nthreads()
        each = len(futures) / max(sum(threads.values()), 1)
        homes, loads = dict[str, str](), Counter[str]()
        for future in sorted(futures, key=lambda future: len(holders.get(future.key, ()))):
            near = [worker for worker in holders.get(future.key, ()) if loads[worker] < each * threads.get(worker, 0)]
            for home in sorted(near or threads, key=lambda worker: (loads[worker] / threads[worker], worker))[:1]:
                homes[future.key] = home
                loads[home] += 1
        return [homes.get(partition.key) for partition in self._held()]

    def _computed(self, result: Any) -> Any:
        if self.client is None:
            return result.compute()
        future = self.client.compute(result, optimize_graph=False)
        try:
            return future.result()
        finally:
            future.release()


@contextmanager
def _listening(client: Any, name: str, counted: Counted) -> Iterator[None]:
    """Within the context, report to ``counted`` each partition that a round of the evaluation ``name`` finishes."""
    if client is None:
        from dask.callbacks import Callback

        def after(key: Any, *others: Any) -> None:
            head, _, rest = str(key).partition("gpbounds-partition-")
            if not head and rest.endswith(f"-{name}"):
                place, _, number = rest.removesuffix(f"-{name}").partition("-round-")
                counted.finished(int(number), int(place))

        with Callback(posttask=after):
            yield
        return

    def heard(event: Any) -> None:
        evaluation, number, place = event[1]
        if evaluation == name:
            counted.finished(number, place)

    client.subscribe_topic(TOPIC, heard)
    try:
        yield
    finally:
        client.subscribe_topic(TOPIC, _ignored)  # the client keeps the last function
        client.unsubscribe_topic(TOPIC)


def _ignored(event: Any) -> None:
    """Ignore a message between evaluations."""


def _faults(client: Any) -> tuple[type[BaseException], ...]:
    """The exceptions by which a cluster reports lost workers."""
    if client is None:
        return ()
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    return KilledWorker, FutureCancelledError, CancelledError


def _message(fault: Any) -> str:
    """The error message about lost workers: the partition and the host of the last one, and a remedy."""
    key, worker = str(getattr(fault, "task", "")), getattr(fault, "last_worker", None)
    _, _, rest = key.partition("gpbounds-partition-")
    where = f"partition {rest.partition('-')[0]}" if rest else (key or "the graph")
    host = getattr(worker, "address", None) or "an unknown host"
    return (
        f"partitions: expected workers that live through a pass, got several that were lost in {where}, the last one "
        f"at {host}. Usual cause: a partition and its sums exceed a worker's memory. Take smaller partitions "
        "(X.rechunk), or more memory for each worker."
    )


# Partitions of Dask arrays and dataframes.


def _is_frame(values: Any) -> bool:
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
    if _is_frame(X) and isinstance(y, str | list | tuple):
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
    if _is_frame(X):
        names = tuple(map(str, X.columns))
    xs, ys = _pieces("X", X), _pieces("y", y)
    if len(xs) != len(ys) or _differ(X, y):
        raise ValueError(
            f"y: expected the partitions of X, {len(xs)} of them, got {len(ys)} or others: y = "
            + ("y.repartition(divisions=X.divisions)" if _is_frame(y) else "y.rechunk({0: X.chunks[0]})")
        )
    load = delayed(checked, pure=False, traverse=False)
    return cluster([load(number, *pair) for number, pair in enumerate(zip(xs, ys, strict=True))], client), single, names


def cluster_of_parts(parts: Sequence[Loadable], client: Any) -> Cluster:
    """The engine for files that every worker reads."""
    from dask import delayed

    load = delayed(_loaded, pure=False, traverse=False)
    return cluster([load(delayed(part, traverse=False)) for part in parts], client)


def cluster(loads: Sequence[Any], client: Any) -> Cluster:
    """The engine on ``client``, or on the one that is current."""
    chosen = client if client is not None else _current_client()
    return Cluster(loads, chosen, keep=chosen is not None)


def _current_client() -> Any:
    """The client that this process has made current, if any."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _loaded(part: Loadable) -> Any:
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
    if _is_frame(X) != _is_frame(y):
        return False
    if _is_frame(X):
        return bool(X.known_divisions and y.known_divisions and X.divisions != y.divisions)
    a, b = X.chunks[0], y.chunks[0]
    return not any(size != size for size in (*a, *b)) and a != b
