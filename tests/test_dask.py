"""Dask: the bits of one process on any cluster, workers that die, and messages that say what to type."""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

dask = pytest.importorskip("dask", reason="needs the extra dask: pip install 'gpbounds[dask]'")
distributed = pytest.importorskip("distributed", reason="needs the extra dask: pip install 'gpbounds[dask]'")

import cloudpickle  # noqa: E402
import dask.array as da  # noqa: E402

from fitting import ExactGP, LowRankGP, SparseGP, SparsePACGP, VariationalGP, certify  # noqa: E402
from fitting.estimators import load  # noqa: E402
from fitting.objectives.collapsed import Diagonal  # noqa: E402
from fitting.objectives.goals import Evidence  # noqa: E402
from fitting.objectives.laws import FamilyLaw  # noqa: E402
from fitting.objectives.objective import Objective, member  # noqa: E402
from fitting.objectives.passes import EvidencePasses  # noqa: E402
from fitting.rows.basis import InducingBasis  # noqa: E402
from fitting.rows.data import Held, over_partitions  # noqa: E402
from fitting.training.watch import Watch  # noqa: E402
from gpbounds import renyi  # noqa: E402
from gpbounds.errors import NonFinite  # noqa: E402
from gpbounds.kernels import SquaredExponential  # noqa: E402
from gpbounds.rows import Source, source  # noqa: E402
from gpbounds.rows.dask_rows import TOPIC, Cluster, graph_of  # noqa: E402
from gpbounds.rows.engines import Local, Progress, Reporting  # noqa: E402
from gpbounds.rows.formats import array_parts  # noqa: E402
from gpbounds.rows.program import Program  # noqa: E402

pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("ignore::ResourceWarning")]

KERNEL = SquaredExponential(1.3, [0.7, 1.4])
SILENT = {"dashboard_address": ":0", "silence_logs": 50}


@pytest.fixture(scope="module")
def client():
    """Two workers in processes of their own."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **SILENT) as cluster,
        distributed.Client(cluster) as here,
    ):
        yield here


def problem(N: int = 1500, M: int = 20):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(N), X[:M] + 1e-3


def over(rows, method="vfe"):
    held = Held(rows.holder, rows.N, rows.D, rows.P, rows.single, np.zeros(rows.P), np.ones(rows.P))
    return Objective(held, FamilyLaw(member(method)), Evidence())


def flat(evaluation):
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


def reference(X, y, sizes, method="vfe", kernel=KERNEL, Z=None):
    """The evaluation by `serial`, with partitions of these sizes."""
    parts, start = [], 0
    for size in sizes:
        parts.append(array_parts(X[start : start + size], y[start : start + size], size)[0])
        start += size
    held = Held(Local(parts), len(X), 2, 1, True, np.zeros(1), np.ones(1))
    return flat(Objective(held, FamilyLaw(member(method)), Evidence()).evaluate(kernel, 0.1, Z))


def program(Z, N: int) -> Program:
    return over_partitions(EvidencePasses(Diagonal(0.0, 0.1), N), InducingBasis(KERNEL, Z, 0.0))


def evaluated(X, y, sizes, here, method="vfe", kernel=KERNEL, Z=None):
    rows = source(da.from_array(X, chunks=(sizes, 2)), da.from_array(y, chunks=(sizes,)), here)
    return flat(over(rows, method).evaluate(kernel, 0.1, Z))


UNEVEN = (1, 499, 700, 100, 200)


@pytest.mark.broad
@pytest.mark.parametrize("method", [pytest.param("vfe", marks=pytest.mark.slow), "fitc"])
def test_two_processes_compute_the_bits_of_one(client, method) -> None:
    X, y, Z = problem()
    expected = reference(X, y, UNEVEN, method, Z=Z)
    for _ in range(2):
        np.testing.assert_array_equal(evaluated(X, y, UNEVEN, client, method, Z=Z), expected)


@pytest.mark.parametrize(("workers", "threads"), [(1, 1), (4, 1), (1, 3)])
def test_any_number_of_workers_and_threads_computes_the_same_bits(workers, threads) -> None:
    X, y, Z = problem()
    sizes = (100,) * 15
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=threads, processes=False, **SILENT) as cluster,
        distributed.Client(cluster) as here,
    ):
        result = evaluated(X, y, sizes, here, Z=Z)
    np.testing.assert_array_equal(result, reference(X, y, sizes, Z=Z))


def test_the_default_scheduler_computes_the_same_bits() -> None:
    X, y, Z = problem(500)
    with dask.config.set(scheduler="threads"):
        lazy = source(da.from_array(X, chunks=(250, 2)), da.from_array(y, chunks=250))
        for keep in (False, True):
            rows = replace(lazy, holder=Cluster(lazy.holder.loads, None, keep=keep))
            np.testing.assert_array_equal(flat(over(rows).evaluate(KERNEL, 0.1, Z)), reference(X, y, (250, 250), Z=Z))


def test_each_partition_is_summed_where_it_is_planned(client) -> None:
    """Workers have equal shares, of partitions that they hold: a copy goes to a worker with less than its share."""
    X, y, Z = problem()
    rows = source(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100), client)
    homes = rows.holder._homes()
    assert sorted(Counter(homes).values()) == [7, 8]
    with distributed.get_task_stream(client) as stream:
        flat(over(rows).evaluate(KERNEL, 0.1, Z))
    places = {task["key"]: task["worker"] for task in stream.data if "partition" in task["key"]}
    assert len(places) == 2 * len(homes)
    for key, worker in places.items():
        assert worker == homes[int(key.split("-")[2])]


def test_shares_are_equal_though_one_worker_holds_all(client) -> None:
    X, y, Z = problem(600)
    rows = source(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100), client)
    first = min(client.nthreads())
    lopsided = Cluster(rows.holder.loads, client)
    lopsided._partitions = list(client.persist(lopsided.loads, workers=[first], allow_other_workers=False))
    assert sorted(Counter(lopsided._homes()).values()) == [3, 3]
    result = flat(over(replace(rows, holder=lopsided)).evaluate(KERNEL, 0.1, Z))
    np.testing.assert_array_equal(result, reference(X, y, (100,) * 6, Z=Z))


def test_empty_partitions_count_as_none(client) -> None:
    X, y, Z = problem(500)
    keep = X[:, 0] > -5.0
    lazy, targets = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    keep[100:200] = False  # the second partition
    chosen = da.from_array(keep, chunks=100)
    rows = source(lazy[chosen], targets[chosen], client)  # sizes are unknown to Dask
    assert rows.numbers.tolist() == [0, 2, 3, 4]
    assert rows.N == 400
    result = flat(over(rows).evaluate(KERNEL, 0.1, Z))
    np.testing.assert_array_equal(result, reference(X[keep], y[keep], (100,) * 4, Z=Z))


def first(flag):
    """Whether this process is the first of all that asks."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Fatal(SquaredExponential):
    """A kernel whose first use with many rows kills processes; ``flag`` is a file that says it has happened."""

    slope = SquaredExponential.slope  # its ``fill`` has the same formula

    def __init__(self, victims, flag):
        super().__init__(1.3, [0.7, 1.4])
        self.victims, self.flag = victims, flag  # processes besides the one that dies first

    def fill(self, X1, X2, out):
        if len(X1) > 30 and first(self.flag):
            for pid in [*set(self.victims) - {os.getpid()}, os.getpid()]:  # its own process last
                os.kill(pid, signal.SIGKILL)
        return super().fill(X1, X2, out)


@pytest.fixture
def mortal():
    """Two workers of one test alone."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **SILENT) as cluster,
        distributed.Client(cluster) as here,
    ):
        yield here


def within(seconds, compute):
    """The result of ``compute()``; a failure if it takes longer, as Dask waits for workers for ever."""
    thread = ThreadPoolExecutor(1)
    try:
        return thread.submit(compute).result(seconds)
    finally:
        thread.shutdown(wait=False)


@pytest.mark.slow  # Dask starts dead workers again in its own time
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("both", [False, True], ids=["one worker", "both workers"])
def test_workers_that_die_inside_a_pass_change_no_bit(mortal, tmp_path, both) -> None:
    X, y, Z = problem()
    client = mortal
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "spent").touch()
    harmless = Fatal([], str(tmp_path / "spent"))  # a class of its own, for which the general formulas hold
    expected = reference(X, y, (300,) * 5, kernel=harmless, Z=Z)
    rows = source(da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300), client)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        client.wait_for_workers(2)
        pids = list(client.run(os.getpid).values())
        kernel = Fatal(pids if both else [], str(tmp_path / "killed"))
        result = within(600.0, lambda: flat(over(rows).evaluate(kernel, 0.1, Z)))
        client.wait_for_workers(2)
        assert len(set(pids) & set(client.run(os.getpid).values())) == (0 if both else 1)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(result, expected)


def test_a_partition_with_nan_is_named_with_its_rows(client) -> None:
    X, y, _ = problem(500)
    X[[203, 209], 1] = np.nan
    with pytest.raises(NonFinite, match=r"X: .* in partition 2, in its row\(s\) \[3, 9\]"):
        source(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100), client)


def test_float32_rows_are_computed_in_doubles(client) -> None:
    X, y, Z = problem(500)
    X = X.astype(np.float32)
    np.testing.assert_array_equal(
        evaluated(X, y, (200, 300), client, Z=Z), reference(X.astype(np.float64), y, (200, 300), Z=Z)
    )


def test_graphs_hold_parameters_and_no_rows(client) -> None:
    """Below 10 MB at M = 1000, and not larger for larger partitions."""
    sizes = []
    for n in (10, 10_000):
        X = np.random.default_rng(0).standard_normal((4 * n, 2))
        cluster = source(da.from_array(X, chunks=(n, 2)), da.from_array(X[:, 0], chunks=n), client).holder
        Z = np.zeros((1000, 2))
        graph = graph_of(program(Z, 4 * n), cluster._held(), "size")
        sizes.append(len(cloudpickle.dumps(dict(graph.dask))))
    assert sizes[1] < sizes[0] + 1000
    assert sizes[1] < 10**6


def test_bounds_are_those_of_one_process(client) -> None:
    X, y, Z = problem()
    rows = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    local = Source.of(Local(array_parts(X, y, 300)), single=True)
    for here, there in zip(
        renyi.evidence(KERNEL, local, None, Z, noise=0.1),
        renyi.evidence(KERNEL, source(*rows, client), None, Z, noise=0.1),
        strict=True,
    ):
        assert there.terms == here.terms
        assert float(there) == float(here)
    low, high = renyi.gap(KERNEL, *rows, Z, 0.5, noise=0.1)
    assert (float(low), float(high)) == tuple(map(float, renyi.gap(KERNEL, local, None, Z, 0.5, noise=0.1)))


def test_a_certificate_of_lazy_rows_is_that_of_arrays(client) -> None:
    X, y, Z = problem(150, 6)
    lazy = da.from_array(X, chunks=(50, 2)), da.from_array(y, chunks=50)
    options = {"inducing": Z, "max_iter": 3, "delta": 0.05, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        here = SparsePACGP(**options).fit(Source.of(Local(array_parts(X, y, 50)), single=True))
        there = SparsePACGP(**options).fit(*lazy, client=client)
    assert there.bound_ == pytest.approx(here.bound_, rel=1e-12)
    assert there.certificate_.data == here.certificate_.data
    for rows in (lazy, (X, y)):
        assert there.certificate_.check(*rows).confirmed
    certificate = certify(SparseGP(kernel=KERNEL, noise=0.1, inducing=Z, optimizer=None).fit(*lazy), *lazy)
    assert certificate.check(X, y).confirmed


def test_a_cluster_that_keeps_dying_is_an_error_that_names_the_partition() -> None:
    fault = distributed.KilledWorker("gpbounds-partition-7-round-1-x", None, 3)

    class Dying:
        def persist(self, loads):
            return loads

        def compute(self, result, **options):
            raise fault

    with pytest.raises(RuntimeError, match="lost in partition 7"):
        Cluster([1.0], Dying()).run(program(np.zeros((1, 2)), 1))


def test_fit_finds_what_it_finds_in_arrays(client) -> None:
    X, y, Z = problem(900)
    kernel = SquaredExponential(1.0, 1.0)
    options = {"kernel": kernel, "noise": 0.1, "inducing": Z, "learn_inducing": False, "tol": 0.0}
    lazy = da.from_array(X, chunks=(300, 2))
    local = SparseGP(**options, normalize_y=True).fit(X, y)
    result = SparseGP(**options, normalize_y=True).fit(lazy, da.from_array(y, chunks=300), client=client)
    assert result.objective_ == pytest.approx(local.objective_, rel=1e-8)
    assert result.X_train_.shape == (0, 2)
    mean, std = result.predict(lazy, return_std=True)
    assert mean.chunks == (lazy.chunks[0],)
    for lazily, at_once in zip((mean, std), result.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(client.compute(lazily).result(), at_once, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(result.predict(X), local.predict(X), atol=1e-4)


def test_the_start_is_that_of_arrays(client, tmp_path) -> None:
    """Kernel, noise and inducing points depend on the rows and their numbers, not on how they are read."""
    X, y, _ = problem(300)
    options = {"n_inducing": 5, "random_state": 3, "optimizer": None, "start": "evidence"}
    local = SparseGP(**options).fit(X, y)
    result = SparseGP(**options).fit(da.from_array(X, chunks=(77, 2)), da.from_array(y, chunks=77), client=client)
    np.testing.assert_allclose(result.kernel_.log_parameters, local.kernel_.log_parameters, rtol=1e-6)
    np.testing.assert_allclose(result.inducing_, local.inducing_, rtol=1e-9, atol=1e-12)
    result.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(X[:9]), result.predict(X[:9]))
    with pytest.raises(ValueError, match="rows that were read by partitions"):
        result.log_evidence_bounds()


def test_dataframes(client) -> None:
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, y, Z = problem(500)
    table = frames.from_pandas(pandas.DataFrame({"a": X[:, 0], "target": y, "b": X[:, 1]}), npartitions=3)
    by_name, by_series = source(table, "target", client), source(table[["a", "b"]], table["target"], client)
    assert by_name.names == by_series.names == ("a", "b")
    assert by_name.single
    assert by_series.single
    sizes = tuple(by_name.sizes)
    expected = reference(X, y, sizes, Z=Z)
    for rows in (by_name, by_series):
        np.testing.assert_array_equal(flat(over(rows).evaluate(KERNEL, 0.1, Z)), expected)
    model = SparseGP(kernel=KERNEL, noise=0.1, inducing=Z, optimizer=None).fit(table, "target", client=client)
    mean = model.predict(table[["a", "b"]]).compute()
    expected = model.predict(pandas.DataFrame({"a": X[:, 0], "b": X[:, 1]}))
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match=r"columns \['a', 'b'\]"):
        model.predict(table[["b", "a"]])


@pytest.mark.parametrize("where", ["cluster", "default scheduler", "this process"])
def test_an_evaluation_tells_how_far_it_is_and_has_the_same_bits(client, where) -> None:
    X, y, Z = problem()
    seen: list[Progress] = []
    lazy = da.from_array(X, chunks=(UNEVEN, 2)), da.from_array(y, chunks=(UNEVEN,))
    if where == "this process":
        parts = [array_parts(*(np.asarray(each.blocks[i]) for each in lazy), 700)[0] for i in range(5)]
        rows = source(Source.of(Local(parts), single=True), tell=seen.append)
    elif where == "cluster":
        rows = source(*lazy, client, tell=seen.append)
        assert [now.done for now in seen] == [0, 1, 2, 3, 4, 5]  # the first pass over the rows
    else:
        with dask.config.set(scheduler="threads"):
            rows = source(*lazy, tell=seen.append)
            rows = replace(rows, holder=Reporting(Cluster(rows.holder.holder.loads, None), seen.append))
    seen.clear()
    with dask.config.set(scheduler="threads"):
        result = flat(over(rows).evaluate(KERNEL, 0.1, Z))
    np.testing.assert_array_equal(result, reference(X, y, UNEVEN, Z=Z))
    assert [now.done for now in seen] == list(range(11))
    assert {(now.partitions, now.passes) for now in seen} == {(5, 2)}
    assert [now.number for now in seen] == [1] * 5 + [2] * 6


def test_progress_shows_passes_beside_iterations(client, capsys) -> None:
    X, y, Z = problem(300)
    lazy = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    model = SparseGP(kernel=KERNEL, noise=0.1, inducing=Z, max_iter=2, tol=None, progress=True)
    with pytest.warns(ConvergenceWarning, match="All 2 iterations"):
        model.fit(*lazy, client=client)
    shown = capsys.readouterr().err
    assert re.search(r"pass \d of 2: .*/6 ", shown)
    assert "F = " in shown
    assert not client._event_handlers[TOPIC]((0.0, ("", 0, 0)))  # nothing listens any more


@pytest.mark.slow
def test_low_rank_and_variational_models_take_dask_arrays(client) -> None:
    X, y, _ = problem(300)
    lazy = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    low = {"rank": 8, "optimizer": None, "noise": 0.1, "kernel": KERNEL}
    local, far = LowRankGP("mercer", **low).fit(X, y), LowRankGP("mercer", **low).fit(*lazy, client=client)
    assert far.objective_ == pytest.approx(local.objective_, rel=1e-8)
    assert float(far.log_evidence_bounds(*lazy)[0]) <= float(local.log_evidence_bounds()[1])
    free = {"n_inducing": 6, "max_iter": 3, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        here, there = VariationalGP(**free).fit(X, y), VariationalGP(**free).fit(*lazy, client=client)
    assert there.objective_ == here.objective_  # from a memory map


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_point_and_a_checkpoint_continues(client, tmp_path, monkeypatch) -> None:
    X, y, Z = problem(300)
    lazy = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    options = {"kernel": KERNEL, "noise": 0.1, "inducing": Z, "learn_inducing": False, "tol": None, "max_iter": 6}
    with pytest.warns(ConvergenceWarning, match="All 6 iterations"):
        whole = SparseGP(**options).fit(*lazy, client=client)
    step = Watch.step

    def interrupted(self, f):
        step(self, f)
        if self.iterations == 3:
            raise KeyboardInterrupt

    options["checkpoint"] = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        patch.setattr(Watch, "step", interrupted)
        with pytest.warns(ConvergenceWarning, match="Interrupted after 3 iterations"):
            part = SparseGP(**options).fit(*lazy, client=client)
    assert part.objective_ == max(whole.history_[:4])
    with pytest.warns(ConvergenceWarning, match="All 6 iterations"):
        again = SparseGP(**options).fit(*lazy, client=client)
    assert again.objective_ == whole.objective_


def test_messages_say_what_to_type(client) -> None:
    X, y, Z = problem(100)
    columns, targets = da.from_array(X, chunks=(50, 1)), da.from_array(y, chunks=50)
    with pytest.raises(ValueError, match=r"X = X\.rechunk\(\{1: -1\}\)"):
        SparseGP().fit(columns, targets)
    rows = da.from_array(X, chunks=(50, 2))
    with pytest.raises(ValueError, match=r"y = y\.rechunk\(\{0: X\.chunks\[0\]\}\)"):
        SparseGP().fit(rows, da.from_array(y, chunks=30))
    with pytest.raises(ValueError, match=r"dask\.array\.from_array\(y, chunks=X\.chunks\[0\]\)"):
        SparseGP().fit(rows, y)
    with pytest.raises(ValueError, match="VariationalGP read files"):
        ExactGP().fit(rows, targets)
    with pytest.raises(ValueError, match="prove bounds"):
        SparseGP(n_inducing="auto").fit(rows, targets)
    with pytest.raises(ValueError, match="straddle partitions"):
        SparseGP("pic").fit(rows, targets)
    with pytest.raises(ValueError, match="client: expected None for arrays in memory"):
        SparseGP().fit(X, y, client=client)
    model = SparseGP(kernel=KERNEL, noise=0.1, inducing=Z, optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=r"X = X\.rechunk\(\{1: -1\}\)"):
        model.predict(columns)
    with pytest.raises(ValueError, match="return_cov"):
        model.predict(rows, return_cov=True)
