"""Lanes: tasks run once and in order; tiled factors and inverses are right, the same for any number of lanes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting.objectives.objective import objective
from fitting.rows.basis import InducingBasis
from gpbounds.kernels import Matern
from gpbounds.linalg import blas, cholesky, parallel, solve_triangular
from gpbounds.linalg.inverses import inverse, inverse_by_rows
from gpbounds.linalg.parallel import Load, Tasks, lanes, one_blas_thread, share, workers
from gpbounds.linalg.pivoted import SymmetricProducts, pivoted
from gpbounds.linalg.products import gram, matmul
from gpbounds.linalg.triangular import TILE, factorise, inverse_factor
from gpbounds.whitening import whiten
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

SIZES = (1, 2 * TILE, 2 * TILE + 1, 5 * TILE + 17)


def positive(N: int):
    A = np.random.default_rng(N).standard_normal((N, N))
    return A @ A.T / N + 0.1 * np.eye(N)


def test_the_option_forces_lanes(pytestconfig: pytest.Config) -> None:
    forced = pytestconfig.getoption("--lanes")
    assert forced is None or lanes() == forced
    assert workers(8, 1.0) == min(lanes(), 8)  # work of one flop is shared


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 30), workers=st.integers(1, 4))
def test_each_task_runs_once_after_those_that_it_waits_for(seed: int, count: int, workers: int) -> None:
    rng = np.random.default_rng(seed)
    after = [[int(e) for e in np.flatnonzero(rng.random(task) < 0.2)] for task in range(count)]
    done: list[int] = []
    busy = [False] * workers

    def run(task: int, worker: int) -> None:
        assert not busy[worker]
        busy[worker] = True
        assert set(after[task]) <= set(done)
        assert lanes() == (1 if workers > 1 and count > 1 else workers)
        done.append(task)
        busy[worker] = False

    with blas_threads(workers):
        share(count, run, after)
    assert sorted(done) == list(range(count))
    if workers == 1:
        assert done == list(range(count))


def test_lanes_run_at_the_same_time() -> None:
    """Each of two tasks waits for the other to begin."""
    begun = [threading.Event(), threading.Event()]

    def run(task: int, worker: int) -> None:
        begun[task].set()
        assert begun[1 - task].wait(20.0)

    with blas_threads(2):
        share(2, run)


def test_of_the_tasks_that_are_alone_one_runs_at_a_time_beside_others() -> None:
    inside, most, beside = set[int](), 0, False
    tasks = Tasks()

    def run(name: int, worker: int) -> None:
        nonlocal most, beside
        inside.add(name)
        time.sleep(0.002)
        running = list(inside)
        most = max(most, sum(other % 2 for other in running))
        beside = beside or (len(running) > 1)
        done.append(name)
        inside.remove(name)

    done: list[int] = []
    for name in range(40):
        tasks.add(partial(run, name), reads=[name - 4] if name >= 4 else [], writes=[name], alone=bool(name % 2))
    with blas_threads(3):
        tasks.run()
    assert sorted(done) == list(range(40))
    assert most == 1
    assert beside


def test_the_first_fault_reaches_the_caller_and_ends_the_work() -> None:
    begun: list[int] = []

    def run(task: int, worker: int) -> None:
        begun.append(task)
        if task == 3:
            raise ArithmeticError("task 3")
        time.sleep(0.01)

    with blas_threads(2):
        with pytest.raises(ArithmeticError, match="task 3"):
            share(1000, run)
        assert len(begun) < 20
        assert lanes() == 2


def test_no_task_runs_any_more_when_a_fault_reaches_the_caller() -> None:
    """A task that still ran could write into memory that the caller uses again."""
    begun, ended = threading.Event(), threading.Event()

    def run(task: int, worker: int) -> None:
        if task == 0:
            assert begun.wait(20.0)
            raise ArithmeticError("task 0")
        begun.set()
        time.sleep(0.1)
        ended.set()

    with blas_threads(2), pytest.raises(ArithmeticError, match="task 0"):
        share(2, run)
    assert ended.is_set()


def test_work_does_not_wait_for_a_lane_that_the_system_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: late.append(thread))
    done: list[int] = []
    with blas_threads(2):
        share(5, lambda task, worker: done.append(task))
    monkeypatch.undo()
    assert done == list(range(5))
    for thread in late:
        thread.start()
        thread.join(20.0)
        assert not thread.is_alive()
    assert len(late) == 1
    assert done == list(range(5))


def test_small_work_has_one_lane_and_more_of_it_beside_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Load()
    monkeypatch.setattr(parallel, "_load", measured)
    monkeypatch.setattr(parallel, "QUIET", 1e8)
    monkeypatch.setattr(parallel, "BUSY", 1e9)
    with blas_threads(2):
        assert [workers(8, flops) for flops in (9e7, 1e8, 9e8, 1e9)] == [1, 2, 2, 2]
        measured.note(0.02, 0.01)
        measured.note(0.02, 0.01)
        assert [workers(8, flops) for flops in (9e7, 1e8, 9e8, 1e9)] == [1, 1, 1, 2]
        chosen: set[int] = set()
        share(8, lambda task, worker: chosen.add(worker), flops=9e8)
        assert chosen == {0}


def test_lanes_notice_that_they_do_not_have_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that sleeps works without a processor, one that computes with it."""
    measured = Load()
    monkeypatch.setattr(parallel, "_load", measured)
    with blas_threads(2):
        for _ in range(3):
            share(4, lambda task, worker: time.sleep(0.005))
    assert measured.others()


def test_a_finding_of_other_processes_holds_for_a_while_and_one_alone_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(parallel.time, "monotonic", lambda: now[0])
    measured = Load()
    assert not measured.others()
    measured.note(0.02, 0.011)
    assert not measured.others()
    measured.note(0.001, 0.0)  # too short
    assert not measured.others()
    measured.note(0.02, 0.011)
    assert measured.others()
    now[0] += 0.9 * parallel.HOLDS
    assert measured.others()
    now[0] += 0.2 * parallel.HOLDS
    assert not measured.others()
    measured.note(0.02, 0.011)  # the next try finds them at once
    assert measured.others()
    measured.note(0.02, 0.02)
    measured.note(0.02, 0.02)
    assert not measured.others()


def test_callers_that_end_in_another_order_leave_blas_as_it_was() -> None:
    with blas_threads(2):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert lanes() == 2
        second.__exit__(None, None, None)
        assert lanes() == 2


@pytest.mark.broad
@pytest.mark.parametrize("N", SIZES)
def test_tiles_give_the_factor_and_the_inverse_whatever_the_lanes(N: int) -> None:
    A = positive(N)
    B = np.random.default_rng(0).standard_normal((N, 300))
    results = []
    for count in (1, 2, 3):
        with blas_threads(count), one_blas_thread():
            L = cholesky(A).L
            rows = inverse_by_rows(L.copy())
            parts = [np.tril(rows.rows(number, 0), place.start) for number, place in enumerate(rows.parts)]
            squares = rows.squares()
            results.append([L, inverse_factor(L), inverse(L), solve_triangular(L, B), squares, *parts])
    for other in results[1:]:
        for one, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    L, of_L, of_A, solved, squares, *parts = results[0]
    for factor in (L, of_L):
        assert not np.triu(factor, 1).any()
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=1e-13)
    np.testing.assert_allclose(of_L @ L, np.eye(N), atol=1e-12)
    np.testing.assert_allclose(of_A @ A, np.eye(N), atol=1e-11)
    np.testing.assert_array_equal(of_A, of_A.T)
    np.testing.assert_allclose(L @ solved, B, atol=1e-12)
    np.testing.assert_allclose(squares, (np.tril(of_L, -1) ** 2).sum(axis=0), rtol=1e-12)
    for place, part in zip(rows.parts, parts, strict=True):
        np.testing.assert_array_equal(np.tril(part[:, place]), np.tril(of_A[place, place]))
        np.testing.assert_array_equal(part[:, : place.start], of_A[place, : place.start])


@pytest.mark.parametrize("N", SIZES[1:])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_matrix_that_is_not_positive_definite_is_refused_at_any_row(N: int, where: float) -> None:
    A, row = positive(N), int(where * (N - 1))
    A[row, row] = -1.0
    for count in (1, 2):
        with blas_threads(count):
            assert not factorise(A.copy())


def test_a_small_evaluation_is_one_chunk_and_few_calls_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """800 rows and 100 points are no work for lanes: a chunk more costs a tenth of the evaluation."""
    X, kernel = np.random.default_rng(0).standard_normal((800, 3)), Matern(2.5)
    problem, call, names = objective(X, X[:, 0]), blas._call, Counter[str]()

    def counted(name: str, *arguments: object) -> None:
        names[name] += 1
        call(name, *arguments)

    if workers(8, 1.0) == 1:  # no lanes are forced
        pieces = [problem.data.stream_of(InducingBasis(kernel, X[:M])).parts for M in (100, 120)]
        assert [len(parts) for parts in pieces] == [1, 2]
        monkeypatch.setattr(blas, "_call", counted)
        problem.evaluate(kernel, 0.1, X[:100])
        assert names == {"dpotrf": 2, "dlaset": 3, "dtrtri": 1, "dtrmm": 5, "dsyrk": 1, "dgemm": 2}


def test_a_factor_with_a_zero_on_its_diagonal_is_refused() -> None:
    with pytest.raises(ValueError, match=r"L: expected a Cholesky factor, got a zero on its diagonal \(row 1\)"):
        inverse_factor(np.array([[1.0, 0.0], [1.0, 0.0]]))


def test_large_products_are_right_and_do_not_depend_on_the_lanes() -> None:
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((600, 301)), rng.standard_normal((301, 530))
    results = []
    for count in (1, 2, 3):
        with blas_threads(count):
            results.append((matmul(A, B), gram(A.T), gram(A)))
    for other in results[1:]:
        for one, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    product, outer, inner = results[0]
    np.testing.assert_allclose(product, A @ B, atol=1e-11)
    np.testing.assert_allclose(outer, A @ A.T, atol=1e-11)
    np.testing.assert_allclose(inner, A.T @ A, atol=1e-11)
    np.testing.assert_array_equal(outer, outer.T)


def test_a_streamed_whitening_does_not_depend_on_the_lanes() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6000, 2))
    results = []
    for count in (1, 2, 3):
        with blas_threads(count):
            white = whiten(Matern(1.5), X, X[:60], X, chunk=256)
        results.append((white.gram, white.projected, white.residual))
    for other in results[1:]:
        for one, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    V = white.inducing.whiten(X)
    np.testing.assert_allclose(white.gram, V @ V.T, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(white.projected, V @ X, rtol=1e-11, atol=1e-9)


def test_pivots_and_symmetric_products_do_not_depend_on_the_lanes() -> None:
    rng = np.random.default_rng(3)
    X, V = rng.standard_normal((5000, 3)), rng.standard_normal((5000, 2))
    kernel = Matern(1.5, lengthscale=0.7)
    results = []
    for count in (1, 2, 3):
        with blas_threads(count):
            chosen = pivoted(lambda picked, columns: kernel(X[picked], X[columns]), kernel.diag(X), 100)
            times = SymmetricProducts(lambda rows, columns: kernel(X[rows], X[columns]), 5000)
            results.append((chosen.indices, chosen.factor, chosen.traces, times(V), times(V)))
    for other in results[1:]:
        for one, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(results[0][3][:50], kernel(X[:50], X) @ V, rtol=1e-11, atol=1e-10)
    np.testing.assert_array_equal(results[0][3], results[0][4])  # from the blocks that were kept


def test_more_pivots_continue_an_earlier_choice() -> None:
    X = np.random.default_rng(4).standard_normal((500, 2))
    K = Matern(2.5)(X)
    rows, diagonal = (lambda picked, columns: K[picked][:, columns]), K.diagonal()
    whole, part = pivoted(rows, diagonal, 150), pivoted(rows, diagonal, 40)
    before = part.factor.copy()
    continued = pivoted(rows, diagonal, 150, before=part)
    np.testing.assert_array_equal(continued.indices, whole.indices)
    np.testing.assert_allclose(continued.factor, whole.factor, atol=1e-12)
    np.testing.assert_allclose(continued.traces, whole.traces, atol=1e-10)
    np.testing.assert_allclose(K.diagonal() - (whole.factor**2).sum(axis=0), continued.residual, atol=1e-11)
    np.testing.assert_array_equal(part.factor, before)
