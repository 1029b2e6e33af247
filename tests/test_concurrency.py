"""Threads of users, forks and Ctrl-C: fits at the same time give the bits of serial fits, and leave BLAS as it was."""

from __future__ import annotations

import _thread
import faulthandler
import itertools
import linecache
import multiprocessing
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import ThreadpoolController

import fitting
import gpbounds
from fitting import ExactGP, SparseGP, VariationalGP
from gpbounds import SquaredExponential, renyi
from gpbounds.kdpp.draws import kmeans_centres
from gpbounds.linalg import parallel, workspace
from gpbounds.linalg.parallel import lanes, one_blas_thread, share
from gpbounds.once import cached_property
from tests.blas import blas_threads
from tests.scripts import record

pytestmark = pytest.mark.lanes

WAIT = 60.0
X = np.random.default_rng(0).uniform(-3.0, 3.0, (240, 2))
y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(240)

forks = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked on this system"
)
few_iterations = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
while_threads_run = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 warns of it


def pools() -> list[int]:
    return [pool["num_threads"] for pool in controller().info()]


@cache
def controller() -> ThreadpoolController:
    lanes()  # loads every BLAS
    return ThreadpoolController().select(user_api="blas")


def sparse(seed: int = 0) -> Any:
    return SparseGP("vfe", n_inducing=15, max_iter=3, random_state=seed).fit(X, y)


def exact() -> Any:
    return ExactGP(max_iter=2, random_state=0).fit(X[:150], y[:150])


def variational() -> Any:
    return VariationalGP(likelihood="student-t", n_inducing=12, max_iter=3, random_state=0).fit(X, y)


def bits(fit: Callable[[], Any]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for part in fit().predict(X[:50], return_std=True))


@contextmanager
def ends_soon() -> Iterator[None]:
    """Kill the run, with the stacks of all threads, if the body hangs: nothing gentler ends a wait for a lock."""
    faulthandler.dump_traceback_later(WAIT, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Held:
    """A thread that enters `one_blas_thread` and leaves it when it is told to."""

    def __init__(self) -> None:
        self._enter, self._entered, self._leave = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        assert self._enter.wait(WAIT)
        with one_blas_thread():
            self._entered.set()
            assert self._leave.wait(WAIT)

    def enter(self) -> None:
        self._enter.set()
        assert self._entered.wait(WAIT)

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(WAIT)
        assert not self._thread.is_alive()


class HeldHere:
    """The same in the thread of the test."""

    def __init__(self) -> None:
        self._holder = one_blas_thread()

    def enter(self) -> None:
        self._holder.__enter__()

    def leave(self) -> None:
        self._holder.__exit__(None, None, None)


@pytest.mark.parametrize("first", [Held, HeldHere])
def test_holders_that_enter_and_leave_in_any_order_leave_blas_as_it_was(first: type) -> None:
    """Three holders; each enters at its first turn, and leaves at its second."""
    with blas_threads(2):
        before = pools()
        for order in sorted(set(itertools.permutations((0, 0, 1, 1, 2, 2)))):
            holders: list[Any] = [first(), Held(), Held()]
            within: set[int] = set()
            for who in order:
                if who in within:
                    holders[who].leave()
                else:
                    holders[who].enter()
                within ^= {who}
                assert pools() == ([1] * len(before) if within else before), order
                assert lanes() == 2


def test_a_release_that_is_repeated_and_one_without_a_limit_change_nothing() -> None:
    """Ctrl-C may come before the first statement of either."""
    blas = parallel._blas()
    with blas_threads(2):
        before, first, second = pools(), object(), object()
        blas.release(first)
        assert pools() == before
        blas.limit(first)
        blas.limit(second)
        blas.release(second)
        blas.release(second)
        assert set(pools()) == {1}
        blas.release(first)
        assert pools() == before


def test_ctrl_c_as_a_release_begins_does_not_leave_blas_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    blas = parallel._blas()
    release, calls = blas.release, itertools.count()

    def interrupted(holder: object) -> None:
        if next(calls) == 0:
            raise KeyboardInterrupt
        release(holder)

    with blas_threads(2):
        before = pools()
        monkeypatch.setattr(blas, "release", interrupted)
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            pass
        assert pools() == before


def test_k_means_beside_a_holder_leaves_blas_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn and threadpoolctl restore the size that they found, after the other holder has gone."""
    from sklearn.cluster import KMeans

    fit, other = KMeans.fit, Held()

    def fit_while_the_other_leaves(*args: Any, **options: Any) -> Any:
        other.leave()
        return fit(*args, **options)

    with blas_threads(2):
        before = pools()
        other.enter()
        monkeypatch.setattr(KMeans, "fit", fit_while_the_other_leaves)
        kmeans_centres(X, 5, np.random.default_rng(0))
        assert pools() == before


@few_iterations
def test_fits_in_threads_at_once_have_the_bits_of_serial_fits_and_leave_blas_as_it_was() -> None:
    jobs = [sparse, exact, variational, partial(sparse, 1)]
    with blas_threads(2):
        before, serial = pools(), [bits(job) for job in jobs]
        with ThreadPoolExecutor(len(jobs)) as threads:
            at_once = list(threads.map(bits, jobs))
        assert at_once == serial
        assert pools() == before
    with blas_threads(1):
        assert bits(sparse) == serial[0]


@few_iterations
def test_what_a_fit_computes_outside_of_lanes_has_one_blas_thread_also_in_a_thread_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    search = SparseGP._search

    def seeing(self: Any, *args: Any) -> Any:
        seen.extend(pools())
        return search(self, *args)

    monkeypatch.setattr(SparseGP, "_search", seeing)
    with blas_threads(2):
        sparse()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(sparse).result(WAIT)
    assert set(seen) == {1}


def scores(**options: Any) -> Any:
    grid = GridSearchCV(SparseGP("vfe", max_iter=2, random_state=0), {"n_inducing": [5, 10]}, cv=2, **options)
    return grid.fit(X, y).cv_results_["mean_test_score"]


@pytest.mark.broad
@few_iterations
@while_threads_run
@pytest.mark.parametrize(
    "backend", [pytest.param("loky", marks=pytest.mark.slow), pytest.param("multiprocessing", marks=forks)]
)
def test_a_grid_search_in_processes_has_the_scores_of_one_process(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of loky begin anew and import everything, which takes seconds; the others are forks."""
    joblib = pytest.importorskip("joblib")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    with blas_threads(2):
        before, serial = pools(), scores()
        with joblib.parallel_backend(backend, n_jobs=2):
            assert scores(n_jobs=2).tolist() == serial.tolist()
        assert pools() == before


def in_a_fork(compute: Callable[[], Any]) -> Any:
    """What ``compute`` returns in a forked process; the test fails if it does not end."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=lambda: results.put(compute()), daemon=True)
    child.start()
    try:
        child.join(WAIT)
        assert child.exitcode == 0, "the forked process did not end" if child.is_alive() else "it failed"
        return results.get()
    finally:
        child.kill()
        child.join()


@few_iterations
@forks
@while_threads_run
def test_a_fork_while_other_threads_hold_locks_and_blas_fits_as_ever() -> None:
    """The worst moment of a fit in another thread: both locks are taken, and the pools limited."""
    ready, leave = threading.Event(), threading.Event()

    def busy() -> None:
        with one_blas_thread(), workspace._ALLOCATION, parallel._blas()._lock:
            ready.set()
            assert leave.wait(2.0 * WAIT)

    with blas_threads(2):
        serial, before = bits(sparse), pools()
        thread = threading.Thread(target=busy)
        thread.start()
        assert ready.wait(WAIT)
        try:
            of_child = in_a_fork(lambda: (pools(), lanes(), bits(sparse), pools()))
        finally:
            leave.set()
            thread.join(WAIT)
        assert of_child == (before, 2, serial, before)
        assert pools() == before


@few_iterations
@forks
@while_threads_run
def test_a_fork_while_another_thread_fits_ends() -> None:
    over, begun = threading.Event(), threading.Event()

    def fits() -> None:
        while not over.is_set():
            begun.set()
            sparse(1)

    with blas_threads(2):
        serial = bits(sparse)
        thread = threading.Thread(target=fits)
        thread.start()
        try:
            assert begun.wait(WAIT)
            assert in_a_fork(lambda: bits(sparse)) == serial
        finally:
            over.set()
            thread.join(WAIT)


class Slow:
    """An object whose property takes as long as the test wants."""

    def __init__(self, begun: threading.Event, leave: threading.Event) -> None:
        self.begun, self.leave = begun, leave

    @cached_property
    def value(self) -> list[float]:
        self.begun.set()
        assert self.leave.wait(2.0 * WAIT)
        return []


@forks
@while_threads_run
def test_a_fork_while_another_thread_computes_a_property_computes_it_too() -> None:
    """`functools.cached_property` of Python 3.11 holds a lock meanwhile, which nobody frees in the fork."""
    begun, leave, free = threading.Event(), threading.Event(), threading.Event()
    free.set()
    thread = threading.Thread(target=lambda: Slow(begun, leave).value)
    thread.start()
    assert begun.wait(WAIT)
    try:
        assert in_a_fork(lambda: Slow(free, free).value) == []
        assert Slow(free, free).value == []  # no wait for another object's in this process, either
    finally:
        leave.set()
        thread.join(WAIT)


@forks
@while_threads_run
def test_a_fork_while_another_thread_draws_a_bar_goes_on_without_bars() -> None:
    """tqdm has one lock for all bars."""
    from tqdm.auto import tqdm

    drawing, leave = threading.Event(), threading.Event()

    def draw() -> None:
        with tqdm.get_lock():
            drawing.set()
            assert leave.wait(2.0 * WAIT)

    thread = threading.Thread(target=draw)
    thread.start()
    assert drawing.wait(WAIT)

    def lower() -> float:
        return renyi.evidence(SquaredExponential(), X[:20], y[:20], X[:3], noise=0.1).lower.value

    try:
        inside = in_a_fork(lower)
    finally:
        leave.set()
        thread.join(WAIT)
    assert inside == lower()


def test_threads_that_compute_a_property_at_once_get_one_object() -> None:
    leave = threading.Event()
    begun = [threading.Event(), threading.Event()]
    both = Slow(begun[0], leave)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: both.value)
        assert begun[0].wait(WAIT)
        both.begun = begun[1]
        second = pool.submit(lambda: both.value)
        assert begun[1].wait(WAIT)  # so that neither has ended
        leave.set()
        assert first.result(WAIT) is second.result(WAIT) is both.value


def test_no_property_of_the_packages_holds_a_lock() -> None:
    for package in (gpbounds, fitting):
        for path in Path(package.__file__).parent.rglob("*.py"):
            locked = re.search(
                r"functools import [^\n]*cached_property|@functools.cached_property", path.read_text(encoding="utf-8")
            )
            assert locked is None or path.name == "once.py", f"{path}: take cached_property from gpbounds.once"


@forks
def test_a_fork_of_the_holder_itself_keeps_its_limit_until_it_leaves() -> None:
    def child() -> tuple[list[int], list[int]]:
        inside = pools()
        holder.__exit__(None, None, None)
        return inside, pools()

    with blas_threads(2):
        before, holder = pools(), one_blas_thread()
        holder.__enter__()
        try:
            assert in_a_fork(child) == ([1] * len(before), before)
        finally:
            holder.__exit__(None, None, None)


@pytest.mark.dask
@few_iterations
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_fits_inside_a_dask_worker_have_the_bits_of_serial_fits() -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask: pip install 'gpbounds[dask]'")
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with blas_threads(2):
        before, serial = pools(), [bits(sparse), bits(exact)]
        with distributed.Client(silence_logs=50, **options) as client:
            futures = [client.submit(bits, job, pure=False) for job in (sparse, exact)]
            assert client.gather(futures) == serial
        assert pools() == before


@pytest.mark.parametrize("clock", ["perf_counter", "thread_time"])
@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_before_or_after_the_call_of_a_task_comes_through(clock: str, at: int) -> None:
    """The caller reads a clock before each task and after it."""
    interrupted, calls = threading.Event(), itertools.count(1)

    def read() -> float:
        if threading.current_thread() is threading.main_thread() and next(calls) == at:
            interrupted.set()
            raise KeyboardInterrupt
        return 0.0

    def run(task: int, worker: int) -> None:
        assert worker == 0 or interrupted.wait(WAIT)

    clocks = {name: getattr(time, name) for name in ("monotonic", "perf_counter", "thread_time")} | {clock: read}
    with blas_threads(2), pytest.MonkeyPatch.context() as patch:
        before = pools()
        patch.setattr(parallel, "time", SimpleNamespace(**clocks))
        with ends_soon(), pytest.raises(KeyboardInterrupt):
            share(50, run)
        assert pools() == before


def handles_signals(frame: FrameType) -> bool:
    """Whether CPython may handle a signal here: it does not between the end of a ``with`` block and `__exit__`."""
    starts = [start for start, _, line in frame.f_code.co_lines() if line == frame.f_lineno]
    is_with = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
    return not is_with or frame.f_lasti <= min(starts)


def traced_lines(run: Callable[[], object], at: int) -> tuple[int, BaseException | None]:
    """Run with Ctrl-C before line ``at`` of those that this thread enters in `parallel`; their number, what came."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != parallel.__file__:
            return None
        if event == "line" and handles_signals(frame):
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return trace

    came: BaseException | None = None
    sys.settrace(trace)
    try:
        run()
    except BaseException as raised:
        came = raised
    finally:
        sys.settrace(None)
    return count, came


@pytest.mark.parametrize("after", [None, [[], [0], [0], [1, 2], [], [3], [3]]], ids=["in any order", "one by one"])
def test_ctrl_c_before_any_line_leaves_no_lane_and_blas_as_it_was(after: list[list[int]] | None) -> None:
    """Also in `finally` and between taking a task and doing it; a queue that waits would be stopped by `ends_soon`."""

    def run(task: int, worker: int) -> None:
        time.sleep(1e-4)

    def work() -> None:
        share(7, run, after)

    with blas_threads(2):
        before, threads = pools(), set(threading.enumerate())
        lines, came = traced_lines(work, 0)
        assert came is None
        assert lines > 60
        at, reached = 1, True
        while reached:
            with ends_soon():
                entered, came = traced_lines(work, at)
            reached = entered >= at
            assert isinstance(came, KeyboardInterrupt) == reached, came
            for thread in set(threading.enumerate()) - threads:
                thread.join(WAIT)
                assert not thread.is_alive(), at
            assert pools() == before, at
            at += 1
        assert at > 60


@pytest.mark.parametrize("times", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_ctrl_c_at_random_moments_leaves_no_lane_and_blas_as_it_was(times: int) -> None:
    rng, came = np.random.default_rng(times), 0
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with blas_threads(2):
            sizes, threads = pools(), set(threading.enumerate())
            for _ in range(times):
                timer = threading.Timer(float(rng.uniform(0.0, 4e-3)), _thread.interrupt_main)
                with ends_soon():
                    try:
                        timer.start()
                        share(300, lambda task, worker: None)
                        timer.join(WAIT)
                        time.sleep(0.0)  # the signal is handled here at the latest
                    except KeyboardInterrupt:
                        came += 1
                    timer.join(WAIT)
                    for thread in set(threading.enumerate()) - threads:
                        thread.join(WAIT)
                assert set(threading.enumerate()) == threads
                assert pools() == sizes
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == times


@pytest.mark.slow
@forks
def test_ctrl_c_at_random_moments_of_fits_leaves_no_lane_no_limit_and_no_other_bits() -> None:
    counts, errors = record("interrupts.py", "--interrupts", "60", "--first", "1000")
    assert counts["faults"] == 0, errors
    assert counts["interrupts"] == 60


def test_a_lane_that_cannot_go_on_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no memory for the queue's own records, between taking a task and doing it."""
    began = threading.Event()

    def read() -> float:
        if threading.current_thread() is not threading.main_thread():
            began.set()
            raise MemoryError
        return 0.0

    clocks = {name: getattr(time, name) for name in ("monotonic", "perf_counter", "thread_time")}
    monkeypatch.setattr(parallel, "time", SimpleNamespace(**clocks | {"perf_counter": read}))
    with blas_threads(2), ends_soon(), pytest.raises(MemoryError):
        share(50, lambda task, worker: began.wait(WAIT))


def test_ctrl_c_while_the_caller_waits_comes_through_after_the_tasks_that_run() -> None:
    """A task that still ran could write into memory that the caller uses again."""
    began, ended = threading.Event(), threading.Event()

    def run(task: int, worker: int) -> None:
        if worker == 0:
            assert began.wait(WAIT)
            raise ArithmeticError("the caller has nothing left to do but to wait")
        began.set()
        time.sleep(0.1)
        _thread.interrupt_main()
        time.sleep(0.1)
        ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores SIGINT
    try:
        with blas_threads(2), ends_soon(), pytest.raises(KeyboardInterrupt):
            share(2, run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()
