"""Lanes: Python threads with one BLAS thread each, which share matrix products and elementwise work.

BLAS's own threads wait for each other in a loop.  Where another process uses one of the cores, each of their many
meetings costs a time slice.  Lanes meet seldom, and sleep while they wait.
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from typing import Any

# Whether other processes use the cores: lanes then have a processor for a smaller part of the time they work.

PART = 0.75
"""Share of their time for which lanes have a processor; below it another process uses the cores.  Measured on two: .85
to .99 on a quiet machine, where lanes wait for Python's lock and memory, .5 to .6 beside one busy process."""

LEAST = 2e-3
"""Least seconds of work in which that share is meaningful: about a time slice of the system."""

HOLDS = 0.5
"""Seconds for which a measured share counts.  After them lanes try again."""


class Load:
    """Running mean of the share of time for which lanes had a processor; the latest measurement has the weight ½.

    >>> load = Load()
    >>> load.note(worked=0.02, processor=0.011)
    >>> load.others()
    False
    >>> load.note(worked=0.02, processor=0.011)
    >>> load.others()
    True
    """

    def __init__(self) -> None:
        self._part, self._until = 1.0, float("-inf")

    def note(self, worked: float, processor: float) -> None:
        """Record that lanes worked ``worked`` seconds in total, with a processor for ``processor`` of them."""
        if worked >= LEAST:
            self._part = 0.5 * (self._part + min(processor / worked, 1.0))
            self._until = time.monotonic() + HOLDS if self._part < PART else float("-inf")

    def others(self) -> bool:
        """Whether the mean is below `PART`, and less than `HOLDS` seconds old."""
        return time.monotonic() < self._until


# Lanes: Python threads with one BLAS thread each, which share matrix products and elementwise work.

WORTH = 10**7
"""Flops from which work is cut into tasks.  `QUIET` and `BUSY` decide whether lanes share them."""

QUIET, BUSY = 1e8, 1e9
"""Flops from which lanes share tasks: on a quiet machine, and where they have met other processes (`Load`).

Measured on two cores beside one busy process, in times of one thread: two lanes took 1.1 to 1.5 below 5·10⁸ flops, and
1.0 at 10⁹; on a quiet machine 1.0 below 10⁸ and .65 to .8 at 3·10⁸.
"""

ENTRY = 400.0
"""Flops of matrix products in whose time a thread computes one value of a kernel, or pulls a derivative back."""

GROUPS = 16
"""Largest number of groups of chunks.  More groups than lanes let a lane that another process slows down do less."""

_load = Load()
_inside: ContextVar[bool] = ContextVar("inside a lane", default=False)


class _Blas:
    """The thread pools of BLAS.  They belong to the process, so that concurrent holders must agree on their size."""

    def __init__(self) -> None:
        import scipy.linalg  # noqa: F401  (the controller finds only BLAS libraries that are loaded)
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        self._pools = ThreadpoolController().select(user_api="blas").lib_controllers
        self._setters = [_setter(pool) for pool in self._pools]
        self._lock = threading.Lock()
        self._holders: dict[object, int] = {}  # and the thread of each
        self._outside: list[int] | None = None  # the pools' sizes before the first holder

    def threads(self) -> int:
        """The number of threads that BLAS may use outside of `one_blas_thread`."""
        with self._lock:
            return max(self._now() if self._outside is None else self._outside, default=1)

    def _now(self) -> list[int]:
        return [pool.num_threads or 1 for pool in self._pools]

    def limit(self, holder: object) -> None:
        """The first holder limits the pools to one thread."""
        with self._lock:
            if self._outside is None:
                self._outside = self._now()
            self._holders[holder] = threading.get_ident()
            if len(self._holders) == 1:
                self._set([1] * len(self._pools))

    def release(self, holder: object) -> None:
        """The last holder restores the pools' sizes.  A call for an object that is no holder changes nothing."""
        with self._lock:
            self._holders.pop(holder, None)
            self._restore_if_free()

    def _restore_if_free(self) -> None:
        if not self._holders and self._outside is not None:
            self._set(self._outside)
            self._outside = None

    def _set(self, sizes: list[int]) -> None:
        for now, size, setter in zip(self._now(), sizes, self._setters, strict=True):
            if now != size:
                setter(size)

    def forked(self) -> None:
        """In a forked process only the thread that forked goes on: another may have held the lock, or the pools."""
        self._lock = threading.Lock()
        own = threading.get_ident()
        self._holders = {holder: thread for holder, thread in self._holders.items() if thread == own}
        self._restore_if_free()


def _setter(pool: Any) -> Callable[[int], object]:
    """A function that sets the size of a pool from any thread.

    threadpoolctl 3.8 lets only one thread of Python set the size of OpenBLAS's pool; calls from others do nothing.
    """
    if pool.internal_api == "openblas" and pool.threading_layer != "openmp":
        for name in pool.check_symbols:
            setter = getattr(pool.dynlib, name.replace("_get_", "_set_"), None)
            if setter is not None:
                return setter
    return pool.set_num_threads


_made: dict[str, _Blas] = {}


def _blas() -> _Blas:
    """The one object of the process, also for two threads that ask for it first, at once."""
    return _made.get("blas") or _made.setdefault("blas", _Blas())


def _forked() -> None:
    for blas in _made.values():
        blas.forked()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forked)


def lanes() -> int:
    """Number of lanes that may share work: BLAS's number of threads, as OPENBLAS_NUM_THREADS and its like or
    `threadpoolctl` set it; 1 inside a lane.
    """
    return 1 if _inside.get() else _blas().threads()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside this context; `lanes` stays what it was.

    >>> before = lanes()
    >>> with one_blas_thread():
    ...     lanes() == before
    True
    """
    blas, holder = _blas(), object()
    try:
        try:
            blas.limit(holder)
            yield
        finally:
            blas.release(holder)
    finally:  # Ctrl-C may have come as that began
        blas.release(holder)


@contextmanager
def one_lane() -> Iterator[None]:
    """One BLAS thread, and one lane: for a task that another scheduler runs beside others.

    >>> with one_lane():
    ...     lanes()
    1
    """
    token = _inside.set(True)
    try:
        with one_blas_thread():
            yield
    finally:
        _inside.reset(token)


def groups(chunks: int, N: int, M: int) -> int:
    """The number of groups in which a pass over N rows in ``chunks`` adds up sums of M × M numbers.

    It depends on the size of the problem only.  The sums of all groups take at most a quarter of the memory of N × M
    features, but there are two groups where the work is worth two lanes.

    >>> groups(32, 32_000, 500), groups(32, 32_000, 2000), groups(4, 1024, 500), groups(3, 100, 10)
    (16, 4, 2, 1)
    """
    return min(chunks, max(2, min(GROUPS, N // (4 * max(M, 1))))) if N * M * M >= WORTH else 1


def workers(count: int, flops: float) -> int:
    """The number of lanes that share ``count`` tasks of about ``flops`` in all.

    Sharing costs the start of a thread, and beside other processes the time until the system runs each lane.
    """
    return min(lanes(), count) if flops >= (BUSY if _load.others() else QUIET) else 1


def in_order(count: int, after: Sequence[Sequence[int]]) -> Iterable[int]:
    """The order in which a single lane does the tasks; a test of the stated order puts another one in its place."""
    return range(count)


def share(
    count: int,
    run: Callable[[int, int], object],
    after: Sequence[Sequence[int]] | None = None,
    alone: Container[int] = (),
    *,
    flops: float = math.inf,
) -> None:
    """Call ``run(task, worker)`` for the tasks 0 … count − 1; each of `workers` takes the lowest ready task.

    A task is ready once the tasks in ``after[task]``, which have lower numbers, are done.  At most one task of
    ``alone`` runs at a time, beside others.  A worker runs one task at a time, so that it may have memory of its own.
    A single worker runs them in order.  The first exception of a task reaches the caller; tasks that have not begun are
    then left out.  All tasks take about ``flops``, elementwise work included (`ENTRY`); by default all lanes take part.

    >>> squares = [0, 0, 0]
    >>> share(3, lambda task, worker: squares.__setitem__(task, task * task))
    >>> squares
    [0, 1, 4]
    """
    number = workers(count, flops)
    with one_blas_thread():
        if number < 2:
            for task in in_order(count, after or ()):
                run(task, 0)
            return
        queue = _Queue(count, run, after, alone, number)
        try:
            try:
                for worker in range(1, number):
                    threading.Thread(target=copy_context().run, args=(queue.work_apart, worker)).start()
                copy_context().run(queue.work, 0)
            finally:
                queue.finish()
        finally:  # Ctrl-C may have come as that began
            queue.finish()
    _load.note(queue.worked, queue.processor)
    if queue.fault is not None:
        fault, queue.fault = queue.fault, None
        try:
            raise fault
        finally:
            del fault  # a frame and an exception that hold each other keep the task's arrays until garbage is collected


Name = Hashable
"""What a task reads or writes: a part of memory, or a value that tasks pass on."""


class Tasks:
    """Tasks that state what they read and write; lanes share them.

    A task waits for those before it that wrote what it reads, and for those that read what it overwrites.  So the
    results are those of the tasks one by one, as they were added.  A name stands for memory: two arrays in the same
    memory have one name.  Memory of a worker's own and what no task writes need no name.

    >>> tasks, values = Tasks(), {}
    >>> tasks.add(lambda worker: values.update(a=2), writes=["a"])
    >>> tasks.add(lambda worker: values.update(b=3 * values["a"]), reads=["a"], writes=["b"])
    >>> tasks.run()
    >>> values
    {'a': 2, 'b': 6}
    """

    def __init__(self) -> None:
        self._work: list[Callable[[int], object]] = []
        self._after: list[list[int]] = []
        self._before: list[int] = []  # of each task the set of all tasks before it, as bits
        self._alone: set[int] = set()
        self._writer: dict[Name, int] = {}
        self._readers: dict[Name, list[int]] = {}  # since the last writer

    def add(
        self,
        work: Callable[[int], object],
        *,
        reads: Iterable[Name] = (),
        writes: Iterable[Name] = (),
        alone: bool = False,
    ) -> None:
        """Add a task, which calls ``work(worker)``; a task that updates a value both reads and writes it.

        A task that makes many short calls of NumPy is ``alone``: one of them runs at a time, since two would wait for
        Python's lock longer than they work.

        Raises
        ------
        ValueError
            if no earlier task writes what this one reads, or if an earlier one writes the same and nothing orders the
            two.
        """
        task, reads, writes = len(self._work), tuple(reads), tuple(writes)
        needed = {self._written(name, work) for name in reads}
        needed.update(reader for name in writes for reader in self._readers.get(name, ()))
        before = 0
        for earlier in needed:
            before |= self._before[earlier] | 1 << earlier
        for name in writes:
            writer = self._writer.get(name)
            if writer is not None and not before >> writer & 1:
                raise ValueError(
                    f"tasks: expected an order between the two that write {name!r}, got none; let {_title(work)} read "
                    f"what {_title(self._work[writer])} or a task after it writes"
                )
        for name in reads:
            self._readers[name].append(task)
        for name in writes:
            self._writer[name], self._readers[name] = task, []
        if alone:
            self._alone.add(task)
        self._work.append(work)
        self._after.append(sorted(needed))
        self._before.append(before)

    def _written(self, name: Name, work: Callable[[int], object]) -> int:
        if name not in self._writer:
            raise ValueError(
                f"tasks: expected an earlier task that writes {name!r}, which {_title(work)} reads, got none"
            )
        return self._writer[name]

    def run(self, flops: float = math.inf) -> None:
        """Do all tasks, whose work is about ``flops``, as `share` does."""
        share(len(self._work), lambda task, worker: self._work[task](worker), self._after, self._alone, flops=flops)


def _title(work: Callable[[int], object]) -> str:
    return getattr(getattr(work, "func", work), "__name__", repr(work))


class _Queue:
    """Tasks that wait for others, and the lanes' access to them.

    Ctrl-C may end the caller, worker 0, at any place.  So the lock and the two bells are objects of C, which no signal
    leaves half way; a `threading.Condition` keeps its lock if Ctrl-C comes inside its methods, which are Python.
    """

    def __init__(
        self,
        count: int,
        run: Callable[[int, int], object],
        after: Sequence[Sequence[int]] | None,
        alone: Container[int],
        number: int,
    ) -> None:
        self.run, self.left, self.alone, self.taken, self.number = run, count, alone, False, number
        self.running: set[int] = set()  # the workers, other than the caller, that have a task
        self.worked, self.processor = 0.0, 0.0
        self.fault: BaseException | None = None
        self.lock = threading.Lock()
        self.bell: SimpleQueue[None] = SimpleQueue()  # each item wakes a lane without a task, which looks again
        self.ended: SimpleQueue[None] = SimpleQueue()  # wakes the caller, who waits for the last tasks of others
        self.waits = [len(needed) for needed in after] if after else [0] * count
        self.followers: list[list[int]] = [[] for _ in range(count)]
        for task, needed in enumerate(after or ()):
            for earlier in needed:
                self.followers[earlier].append(task)
        self.ready: list[int] = []
        self.ready_alone: list[int] = []
        for task, waits in enumerate(self.waits):
            if waits == 0:
                self._is_ready(task)

    def work_apart(self, worker: int) -> None:
        """`work` in a thread of its own: what stops it, if only a lack of memory, reaches the caller."""
        try:
            self.work(worker)
        except BaseException as raised:
            with self.lock:
                self.running.discard(worker)
                self.fault, self.left = self.fault or raised, 0
            self._ring(self.number)
            self.ended.put(None)

    def work(self, worker: int) -> None:
        """Do tasks until none is left."""
        _inside.set(True)
        while (task := self._next(worker)) is not None:
            fault, begun, processor = None, time.perf_counter(), time.thread_time()
            try:
                self.run(task, worker)
            except BaseException as raised:
                fault = raised
            self._done(task, worker, time.perf_counter() - begun, time.thread_time() - processor, fault)
            del fault  # as in `share`

    def finish(self) -> None:
        """Let no further task begin, and wait for the other workers' tasks; Ctrl-C comes through after them.

        A worker that has not begun will find none.
        """
        interrupt: BaseException | None = None
        while True:
            try:
                with self.lock:
                    self.left = 0
                    over = not self.running
                self._ring(self.number)
                if over:
                    break
                self.ended.get()
            except BaseException as raised:
                interrupt = interrupt or raised
        if interrupt is not None:
            raise interrupt

    def _next(self, worker: int) -> int | None:
        while True:
            with self.lock:
                task = self._lowest() if self.left > 0 else None
                if task is not None and worker:
                    self.running.add(worker)
                over = self.left <= 0
            if task is not None or over:
                return task
            self.bell.get()

    def _ring(self, times: int) -> None:
        for _ in range(times):
            self.bell.put(None)

    def _lowest(self) -> int | None:
        """The lowest ready task; a task of ``alone`` only while no other such task runs."""
        is_open = bool(self.ready_alone) and not self.taken
        if is_open and not (self.ready and self.ready[0] < self.ready_alone[0]):
            self.taken = True
            return heapq.heappop(self.ready_alone)
        return heapq.heappop(self.ready) if self.ready else None

    def _is_ready(self, task: int) -> None:
        heapq.heappush(self.ready_alone if task in self.alone else self.ready, task)

    def _done(self, task: int, worker: int, worked: float, processor: float, fault: BaseException | None) -> None:
        with self.lock:
            self.running.discard(worker)
            self.worked += worked
            self.processor += processor
            if fault is not None:
                self.fault, self.left = self.fault or fault, 1
            self.left -= 1
            freed = 0
            if task in self.alone:
                self.taken, freed = False, min(len(self.ready_alone), 1)
            for follower in self.followers[task]:
                self.waits[follower] -= 1
                if self.waits[follower] == 0:
                    self._is_ready(follower)
                    freed += 1
            over = self.left <= 0
        self._ring(self.number if over else min(freed - 1, self.number))
        if over:
            self.ended.put(None)
