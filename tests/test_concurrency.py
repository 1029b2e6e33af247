"""Threads of users, forked processes and Ctrl-C: fits keep their bits, end, and leave the pools of BLAS alone."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fitting import ExactGP, SparseGP, VariationalGP
from gpbounds.linalg import parallel
from gpbounds.linalg.parallel import lanes, one_blas_thread, share
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes
UNFINISHED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def pools() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def many_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes share all work, however small it is."""
    monkeypatch.setattr(parallel, "QUIET", 1.0)
    monkeypatch.setattr(parallel, "BUSY", 1.0)


@pytest.mark.parametrize("order", set(itertools.permutations([0, 0, 1, 1, 2, 2])), ids=str)
def test_callers_in_any_order_of_entry_and_exit_leave_the_pools_as_they_were(order: tuple[int, ...]) -> None:
    """Each of three threads enters at its first turn, and leaves at its second."""
    with blas_threads(2):
        before, held = pools(), 0
        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as third:
            contexts, threads = {}, (first, second, third)
            for caller in order:
                if caller not in contexts:
                    contexts[caller] = one_blas_thread()
                    threads[caller].submit(contexts[caller].__enter__).result(20.0)
                    held += 1
                else:
                    threads[caller].submit(contexts[caller].__exit__, None, None, None).result(20.0)
                    held -= 1
                assert pools() == ([1] * len(before) if held else before)
                assert lanes() == 2
        assert pools() == before


class _Pool:
    """A pool whose size each thread has for itself, as MKL's."""

    internal_api, user_api = "mkl", "blas"

    def __init__(self) -> None:
        self.local = threading.local()

    def get_num_threads(self) -> int:
        return getattr(self.local, "size", 4)

    def set_num_threads(self, size: int) -> None:
        self.local.size = size


def test_a_pool_that_each_thread_has_for_itself_is_limited_and_restored_in_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, blas = _Pool(), parallel._Blas()
    monkeypatch.setattr(blas, "_shared", [])
    monkeypatch.setattr(blas, "_each", [pool])
    monkeypatch.setattr(parallel, "_blas", lambda: blas)
    sizes: set[int] = set()
    share(8, lambda task, worker: (time.sleep(0.01), sizes.add(pool.get_num_threads())))
    assert sizes == {1}
    assert pool.get_num_threads() == 4
    with ThreadPoolExecutor(1) as other:
        here, there = one_blas_thread(), one_blas_thread()
        here.__enter__()
        other.submit(there.__enter__).result(20.0)
        here.__exit__(None, None, None)
        assert pool.get_num_threads() == 4
        assert other.submit(pool.get_num_threads).result(20.0) == 1
        other.submit(there.__exit__, None, None, None).result(20.0)
        assert other.submit(pool.get_num_threads).result(20.0) == 4


def data(N: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (N, 2))
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(N)


def fitted(make: Callable[[], Any], N: int = 150) -> np.ndarray:
    X, y = data(N)
    model = make().fit(X, y)
    return np.concatenate(model.predict(X[:20], return_std=True))


MODELS: dict[str, Callable[[], Any]] = {
    "exact": lambda: ExactGP(max_iter=2, random_state=0),
    "sparse": lambda: SparseGP(n_inducing=12, max_iter=3, random_state=0),
    "variational": lambda: VariationalGP(likelihood="student-t", n_inducing=8, max_iter=2, random_state=1),
}


@UNFINISHED
@pytest.mark.usefixtures("many_lanes")
def test_fits_in_several_threads_have_the_bits_of_fits_one_by_one() -> None:
    with blas_threads(2):
        before = pools()
        alone = [fitted(make) for make in MODELS.values()]
        with ThreadPoolExecutor(3) as threads:
            together = list(threads.map(fitted, [*MODELS.values()] * 2))
        assert pools() == before
        assert parallel._blas()._callers == 0
    for one, again in zip(alone * 2, together, strict=True):
        np.testing.assert_array_equal(one, again)


@UNFINISHED
@pytest.mark.parametrize("backend", ["loky", pytest.param("multiprocessing", marks=FORKS)])
def test_a_search_over_a_grid_in_processes_has_the_scores_of_one_process(backend: str) -> None:
    from joblib import parallel_backend
    from sklearn.model_selection import GridSearchCV

    X, y = data(60)
    scores = []
    for jobs in (1, 2):
        search = GridSearchCV(SparseGP(max_iter=2, random_state=0), {"n_inducing": [3, 6]}, cv=2, n_jobs=jobs)
        with parallel_backend(backend):
            scores.append(search.fit(X, y).cv_results_["mean_test_score"])
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9)  # workers may have another number of BLAS threads


def _lanes_after_fork(found: Any) -> None:
    found.put((lanes(), pools(), float(fitted(MODELS["sparse"], 40)[0])))


@UNFINISHED
@FORKS
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_another_thread_fits_can_fit() -> None:
    """The other thread holds the pools, and their lock, at the moment of the fork; the child has neither."""
    with blas_threads(2):
        expected = float(fitted(MODELS["sparse"], 40)[0])
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with one_blas_thread(), parallel._blas()._lock:
                inside.set()
                leave.wait(60.0)

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(20.0)
        context = multiprocessing.get_context("fork")
        found = context.SimpleQueue()
        child = context.Process(target=_lanes_after_fork, args=(found,))
        child.start()
        child.join(60.0)
        hung = child.is_alive()
        child.kill()
        leave.set()
        holder.join()
        assert not hung
        assert child.exitcode == 0
        count, sizes, value = found.get()
        assert (count, sizes) == (2, [2] * len(sizes))
        assert value == expected


@UNFINISHED
@pytest.mark.dask
def test_a_fit_inside_a_dask_worker_has_the_bits_of_one_here() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(1, processes=False, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        before, expected = pools(), fitted(MODELS["sparse"])
        futures = [client.submit(fitted, MODELS["sparse"], pure=False) for _ in range(2)]
        for future in futures:
            np.testing.assert_array_equal(future.result(60.0), expected)
        assert pools() == before


@pytest.mark.parametrize("moment", range(6))
def test_an_interrupt_at_any_moment_of_a_lane_ends_the_work(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches the main thread between two of its own lines, here where it reads a clock."""
    here, calls = threading.current_thread(), itertools.count()

    def clock() -> float:
        if threading.current_thread() is here and next(calls) == moment:
            raise KeyboardInterrupt
        return time.perf_counter()

    monkeypatch.setattr(parallel, "time", types.SimpleNamespace(perf_counter=clock, thread_time=time.thread_time))
    running: set[int] = set()

    def run(task: int, worker: int) -> None:
        running.add(task)
        time.sleep(0.002)
        running.remove(task)

    with blas_threads(2):
        before = pools()
        with pytest.raises(KeyboardInterrupt):
            share(50, run)
        assert not running
        assert pools() == before
