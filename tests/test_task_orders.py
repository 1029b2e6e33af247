"""Tasks give the same bits in every order that they state, in memory that holds nothing before they write it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitting.objectives.free
import gpbounds
from fitting.objectives.objective import variational_objective
from fitting.objectives.packing import LawBlock
from fitting.objectives.point import Gradient, Parameters
from fitting.training import adam
from fitting.training.adam import NaturalSteps
from gpbounds.iterative import exact_predictions
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg import parallel, triangular, workspace
from gpbounds.linalg.parallel import Tasks
from gpbounds.linalg.workspace import Workspace

Order = Callable[[int, Sequence[Sequence[int]]], Iterable[int]]
SEEDS = range(2)


def chosen(choose: Callable[[list[int]], int]) -> Order:
    """An order in which ``choose`` picks one of the ready tasks."""

    def order(count: int, after: Sequence[Sequence[int]]) -> Iterator[int]:
        done, left = set[int](), set(range(count))
        while left:
            ready = [task for task in sorted(left) if not after or done.issuperset(after[task])]
            task = choose(ready)
            yield task
            left.remove(task)
            done.add(task)

    return order


def at_random(seed: int) -> Order:
    rng = np.random.default_rng(seed)
    return chosen(lambda ready: ready[rng.integers(len(ready))])


def postponing(late: int) -> Order:
    """Task ``late`` waits until no other is ready: a task that does not wait for it, but should, comes too early."""
    return chosen(lambda ready: min(ready, key=lambda task: (task == late, task)))


latest = chosen(max)


@contextmanager
def adversary(order: Order) -> Iterator[list[tuple[str, int]]]:
    """One lane does the tasks in ``order``; new memory holds NaN.  Yields the graphs: their functions and sizes."""
    met: list[tuple[str, int]] = []
    array = Workspace.array

    def noted(count: int, after: Sequence[Sequence[int]]) -> Iterable[int]:
        if after:
            frame: Any = sys._getframe(1)
            while frame.f_code.co_filename == parallel.__file__:
                frame = frame.f_back
            met.append((Path(frame.f_code.co_filename).stem, count))
        return order(count, after)

    def poisoned(space: Workspace, name: str, shape: tuple[int, ...], xp: Any) -> Any:
        before = space._buffers.get(name)
        buffer = array(space, name, shape, xp)
        if space._buffers[name] is not before:
            space._buffers[name][:] = np.nan
        return buffer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "workers", lambda count, flops: 1)
        patch.setattr(parallel, "in_order", noted)
        patch.setattr(workspace.Workspace, "array", poisoned)
        yield met


def entries(*arrays: Any) -> np.ndarray:
    return np.concatenate([np.ravel(each) for each in arrays])


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs as large ones have them, at sizes that take milliseconds."""
    monkeypatch.setattr(fitting.objectives.free, "NARROW", 4)
    monkeypatch.setattr(adam, "TILE", 4)
    monkeypatch.setattr(triangular, "TILE", 4)
    monkeypatch.setattr(triangular, "WHOLE", 8)
    monkeypatch.setattr("fitting.rows.stream.groups", lambda chunks, N, M: min(chunks, 3))


def step(likelihood: Any, loss: str, chunk: int, *, narrow: bool, natural: bool = False) -> np.ndarray:
    """The value of J and all of its derivatives, M = 13 in four tiles."""
    M, N, rng = 13, 60, np.random.default_rng(3)
    X, Z = rng.uniform(-2.0, 2.0, (N, 2)), rng.uniform(-2.0, 2.0, (M, 2))
    X[:3] = Z[:3] + 1e-4
    y = rng.integers(0, 2, N).astype(float)
    factor = 1e-4 * np.eye(M) if narrow else np.tril(rng.standard_normal((M, M))) / M + np.eye(M)
    J = variational_objective(X, y, likelihood, loss, jitter=1e-8, chunk=chunk)
    q = FactorLaw(rng.standard_normal((M, 1)), factor)
    e = J.minimised(Parameters(SquaredExponential(1.3, 0.6), likelihood, Z, q, in_covariance=natural))
    g = e.gradient
    in_q = g.covariance if natural else g.factor
    return entries(e.value, e.total, e.kl, g.kernel, g.likelihood, g.Z, g.mean, in_q)


def natural_step(convex: bool) -> np.ndarray:
    M, rng, block = 14, np.random.default_rng(3), LawBlock(14, natural=True)
    C = np.tril(rng.standard_normal((M, M))) / M + np.eye(M)
    S_bar, w, w_bar = np.cov(rng.standard_normal((M, 2 * M))), rng.standard_normal((M, 1)), rng.standard_normal((M, 1))
    point = Parameters(SquaredExponential(), Gaussian(1.0), np.zeros((M, 1)), FactorLaw(w, C))
    slopes = Gradient(np.zeros(2), np.zeros(1), mean=w_bar, covariance=S_bar)
    return NaturalSteps(M, 0.7, 0.1, convex).moved(block.pack(point), block.pull(slopes, point), 100, Workspace(0))


def cholesky_factor() -> np.ndarray:
    A = np.random.default_rng(5).standard_normal((14, 14))
    A = A @ A.T + np.eye(14)
    assert triangular.factorise(A)
    return A


CASES: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
    "step by stages": ("free", lambda: step(Gaussian(0.3), "log-loss", 20, narrow=False)),
    "step by stages, small variances": ("free", lambda: step(Gaussian(0.3), "log-loss", 20, narrow=True)),
    "step by stages, negative weights": ("free", lambda: step(StudentT(4.0, 0.3), "log-loss", 20, narrow=False)),
    "step by stages, natural": ("free", lambda: step(Gaussian(0.3), "log-loss", 20, narrow=False, natural=True)),
    "step by groups": ("free", lambda: step(Bernoulli("probit"), "log-loss", 7, narrow=False)),
    "step by groups, natural": ("free", lambda: step(Bernoulli("probit"), "log-loss", 7, narrow=False, natural=True)),
    "step by groups, small variances": ("free", lambda: step(Poisson("exp"), "log-loss", 7, narrow=True)),
    "natural step, convex": ("adam", lambda: natural_step(True)),
    "natural step": ("adam", lambda: natural_step(False)),
    "Cholesky factor": ("triangular", cholesky_factor),
}


@pytest.mark.broad
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", CASES)
def test_every_order_that_the_tasks_allow_gives_the_same_bits(name: str) -> None:
    module, run = CASES[name]
    with adversary(lambda count, after: range(count)) as met:
        expected = run()
    assert np.isfinite(expected).all()
    assert max(count for graph, count in met if graph == module) >= 10
    late = range(max(count for _, count in met))
    for order in (latest, *map(at_random, SEEDS), *map(postponing, late)):
        with adversary(order):
            np.testing.assert_array_equal(run(), expected)


@pytest.mark.broad
@pytest.mark.parametrize("memory", [2.0**31, 1.0])
def test_predictions_of_the_exact_gp_have_the_same_bits_in_every_order(memory: float) -> None:
    """By a factor and by products in single precision, at rows so many that lanes share both."""
    rng = np.random.default_rng(6)
    X, new = rng.uniform(-2.0, 2.0, (2100, 2)), rng.uniform(-2.0, 2.0, (30, 2))
    runs = []
    for order in (lambda count, after: range(count), latest, at_random(0)):
        with adversary(order):
            made = exact_predictions(SquaredExponential(1.3, 0.6), X, X[:, 0], new, noise=0.1, memory=memory)
        runs.append(entries(*made.mean, *made.variance))
    assert np.isfinite(runs[0]).all()
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])


def test_every_graph_of_the_package_is_among_the_cases() -> None:
    """One that builds `Tasks`, or calls `share` with ``after``, which `factorise` alone does."""
    folders = [Path(package.__file__).parent for package in (gpbounds, fitting)]
    sources = [path for folder in folders for path in folder.rglob("*.py") if path.name != "parallel.py"]
    graphs = {
        path.stem for path in sources if re.search(r"\bTasks\(\)|\bshare\(.*_before", path.read_text(encoding="utf-8"))
    }
    assert graphs == {module for module, _ in CASES.values()}


# ---------------------------------------------------------------------- the graph itself


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 25), names=st.integers(1, 6))
def test_tasks_that_state_what_they_touch_leave_what_they_leave_one_by_one(seed: int, count: int, names: int) -> None:
    """Each task writes a hash of what it reads; a random graph, run in random orders and latest first."""
    rng = np.random.default_rng(seed)
    written: list[int] = []
    program = []
    for task in range(count):
        reads = {int(e) for e in rng.permutation(written)[: rng.integers(0, 3)]} if written else set[int]()
        writes = {int(e) for e in rng.integers(0, names, rng.integers(1, 3))}
        reads |= writes & set(written)  # one that changes what it finds reads it
        written = sorted({*written, *writes})
        program.append((task, reads, writes))

    def run(order: Order) -> dict[int, int]:
        values: dict[int, int] = {}

        def work(task: int, reads: set[int], writes: set[int]) -> None:
            mixed = hash((task, *(values[name] for name in sorted(reads))))
            values.update({name: hash((name, mixed)) for name in writes})

        tasks = Tasks()
        for task, reads, writes in program:
            tasks.add(lambda worker, t=task, r=reads, w=writes: work(t, r, w), reads=reads, writes=writes)
        with adversary(order):
            tasks.run()
        return values

    expected = run(lambda count, after: range(count))
    for order in (latest, at_random(seed), at_random(seed + 1)):
        assert run(order) == expected


def test_a_read_without_an_earlier_writer_is_refused() -> None:
    tasks = Tasks()
    tasks.add(print, writes=["a"])
    with pytest.raises(ValueError, match="expected an earlier task that writes 'b', which print reads, got none"):
        tasks.add(print, reads=["a", "b"])


def test_two_writers_that_nothing_orders_are_refused() -> None:
    tasks = Tasks()
    tasks.add(print, writes=["a"])
    with pytest.raises(ValueError, match="expected an order between the two that write 'a', got none"):
        tasks.add(print, writes=["a"])
    tasks.add(print, reads=["a"], writes=["b"])
    tasks.add(print, writes=["a"])  # after the one that read it, and so after its writer


def test_an_overwriting_task_waits_for_the_readers() -> None:
    tasks, seen = Tasks(), []
    values = {}
    tasks.add(lambda worker: values.update(a=1), writes=["a"])
    tasks.add(lambda worker: seen.append(values["a"]), reads=["a"])
    tasks.add(lambda worker: values.update(a=2), reads=["a"], writes=["a"])
    tasks.add(lambda worker: seen.append(values["a"]), reads=["a"])
    with adversary(latest):
        tasks.run()
    assert seen == [1, 2]
