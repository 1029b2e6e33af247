"""Lanes: Python threads with one BLAS thread each, which share matrix products and elementwise work.

BLAS's own threads wait for each other in a loop.  Where another process uses one of the cores, each of their many
meetings costs a time slice.  Lanes meet seldom, and sleep while they wait.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import Any

WORTH = 10**7
"""Flops from which lanes share the work.  Below it, starting them costs more time than a second worker saves."""

GROUPS = 16
"""Largest number of groups of chunks.  More groups than lanes let a lane that another process slows down do less."""

_inside: ContextVar[bool] = ContextVar("inside a lane", default=False)


class _Blas:
    """The thread pools of BLAS.  They belong to the process, so that concurrent callers must agree on their size."""

    def __init__(self) -> None:
        import scipy.linalg  # noqa: F401  (the controller finds only BLAS libraries that are loaded)
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        self._controller = ThreadpoolController()
        self._lock = threading.Lock()
        self._callers = 0
        self._outside = 1
        self._limit: Any = None

    def threads(self) -> int:
        """The number of threads that BLAS may use outside of `one_blas_thread`."""
        with self._lock:
            return self._outside if self._callers else self._now()

    def _now(self) -> int:
        return max((pool["num_threads"] for pool in self._controller.info() if pool["user_api"] == "blas"), default=1)

    def limit(self) -> None:
        """The first caller limits the pools to one thread."""
        with self._lock:
            if self._callers == 0:
                self._outside = self._now()
                self._limit = self._controller.limit(limits=1, user_api="blas") if self._outside > 1 else None
            self._callers += 1

    def release(self) -> None:
        """The last caller restores them."""
        with self._lock:
            self._callers -= 1
            if self._callers == 0 and self._limit is not None:
                self._limit.restore_original_limits()


@lru_cache
def _blas() -> _Blas:
    return _Blas()


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
    blas = _blas()
    blas.limit()
    try:
        yield
    finally:
        blas.release()


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


def share(
    count: int,
    run: Callable[[int, int], object],
    after: Sequence[Sequence[int]] | None = None,
    alone: Container[int] = (),
) -> None:
    """Call ``run(task, worker)`` for the tasks 0 … count − 1; each of `lanes` workers takes the lowest ready task.

    A task is ready once the tasks in ``after[task]``, which have lower numbers, are done.  Of the tasks in ``alone``
    one runs at a time, beside others.  A worker runs one task at a time, so that it may have memory of its own.  A
    single worker runs them in order.  The first exception of a task reaches the caller; tasks that have not begun are
    then left out.

    >>> squares = [0, 0, 0]
    >>> share(3, lambda task, worker: squares.__setitem__(task, task * task))
    >>> squares
    [0, 1, 4]
    """
    workers = min(lanes(), count)
    with one_blas_thread():
        if workers < 2:
            for task in range(count):
                run(task, 0)
            return
        queue = _Queue(count, run, after, alone)
        started = [
            threading.Thread(target=copy_context().run, args=(queue.work, worker)) for worker in range(1, workers)
        ]
        for thread in started:
            thread.start()
        copy_context().run(queue.work, 0)
        for thread in started:
            thread.join()
    if queue.fault is not None:
        raise queue.fault


class Tasks:
    """Tasks in an order, some of which wait for others; lanes share them.

    >>> tasks, done = Tasks(), []
    >>> first = tasks.add(lambda worker: done.append("first"))
    >>> second = tasks.add(lambda worker: done.append("second"), [first])
    >>> tasks.run()
    >>> done
    ['first', 'second']
    """

    def __init__(self) -> None:
        self._work: list[Callable[[int], object]] = []
        self._after: list[Sequence[int]] = []
        self._alone: set[int] = set()

    def add(self, work: Callable[[int], object], after: Sequence[int] = (), *, alone: bool = False) -> int:
        """The number of a new task, which calls ``work(worker)`` once the tasks in ``after`` are done.

        A task that makes many short calls of NumPy is ``alone``: one of them runs at a time, since two would wait for
        Python's lock longer than they work.
        """
        if alone:
            self._alone.add(len(self._work))
        self._work.append(work)
        self._after.append(after)
        return len(self._work) - 1

    def run(self, flops: float = WORTH) -> None:
        """Do all tasks, whose work is about ``flops``; one worker does them if that is less than `WORTH`."""
        if flops >= WORTH:
            share(len(self._work), lambda task, worker: self._work[task](worker), self._after, self._alone)
            return
        with one_blas_thread():
            for work in self._work:
                work(0)


class _Queue:
    """Tasks that wait for others, and the lanes' access to them."""

    def __init__(
        self,
        count: int,
        run: Callable[[int, int], object],
        after: Sequence[Sequence[int]] | None,
        alone: Container[int],
    ) -> None:
        self.run, self.left, self.alone, self.taken = run, count, alone, False
        self.fault: BaseException | None = None
        self.changed = threading.Condition()
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

    def work(self, worker: int) -> None:
        """Do tasks until none is left."""
        _inside.set(True)
        while (task := self._next()) is not None:
            try:
                self.run(task, worker)
            except BaseException as fault:
                with self.changed:
                    self.fault, self.left = self.fault or fault, 0
                    self.changed.notify_all()
                return
            self._done(task)

    def _next(self) -> int | None:
        with self.changed:
            while self.left > 0:
                open_alone = self.ready_alone and not self.taken
                if open_alone and not (self.ready and self.ready[0] < self.ready_alone[0]):
                    self.taken = True
                    return heapq.heappop(self.ready_alone)
                if self.ready:
                    return heapq.heappop(self.ready)
                self.changed.wait()
            return None

    def _is_ready(self, task: int) -> None:
        heapq.heappush(self.ready_alone if task in self.alone else self.ready, task)

    def _done(self, task: int) -> None:
        with self.changed:
            self.left -= 1
            freed = 0
            if task in self.alone:
                self.taken, freed = False, min(len(self.ready_alone), 1)
            for follower in self.followers[task]:
                self.waits[follower] -= 1
                if self.waits[follower] == 0:
                    self._is_ready(follower)
                    freed += 1
            if self.left <= 0:
                self.changed.notify_all()
            elif freed > 1:
                self.changed.notify(freed - 1)
