"""The PAC-Bayes bound of a free q(u): values and derivatives compared with mpmath, mini-batches, vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bound_instances import LOSSES, exactly, free, slope
from mpmath import mp

from fitting.bounds import free_bound, risk_bound
from fitting.objectives.objective import at_point
from fitting.objectives.packing import law as checked_law
from fitting.objectives.point import Parameters
from fitting.training import train_lbfgs
from gpbounds.errors import NonFinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.losses import Band
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNEL, NOISE = SquaredExponential(1.3, [0.7, 1.4]), 0.2
OPTIONS = {"delta": 0.05, "log_prior_penalty": 3.5}


def problem(seed: int, N: int = 6, M: int = 3):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    y = np.sin(X @ rng.standard_normal(2)) + 0.3 * rng.standard_normal(N) + 0.05
    return X, y, Z, *law(rng, M)


def law(rng, M: int):
    factor = 0.3 * np.tril(rng.standard_normal((M, M)))
    factor[np.diag_indices(M)] = rng.uniform(0.3, 1.2, M)
    return rng.standard_normal(M), factor


def point_of(Z, mean, factor) -> Parameters:
    return replace(at_point(KERNEL, 1.0, Z), q=checked_law(mean, factor, len(Z)))


def flat(evaluation):
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], *(np.ravel(a) for a in (g.kernel, g.Z, g.mean, g.factor))])


def compare(B, Z, mean, factor, seed: int, digits: float, rows=None, jitter: float = 0.0) -> None:
    """Value, and the derivatives along two directions."""
    evaluation = B.evaluate(KERNEL, 1.0, Z, mean, factor, rows)
    truth = free(B.goal, exactly(B.data.X), exactly(B.data.Y[:, 0]), jitter, rows)
    point = [exactly(a) for a in (KERNEL.log_parameters, Z, mean, factor)]
    risk, kl, value = truth(*point)
    assert evaluation.value == pytest.approx(-float(value), rel=digits)
    if rows is None:
        terms = B.terms(KERNEL, 1.0, Z, mean, factor)
        assert [terms.risk, terms.kl, -terms.bound] == pytest.approx(
            [float(risk), float(kl), evaluation.value], rel=digits
        )
    g = evaluation.gradient
    bars = [g.kernel, g.Z, g.mean[:, 0], g.factor]
    assert not np.triu(g.factor, 1).any()
    rng = np.random.default_rng(seed)
    for _ in range(2):
        steps = [rng.standard_normal(bar.shape) for bar in bars]
        steps[3] = np.tril(steps[3])
        numeric = float(slope(truth, point, [exactly(step) for step in steps]))
        size = sum(np.abs(bar * step).sum() for bar, step in zip(bars, steps, strict=True))
        analytic = sum(float((bar * step).sum()) for bar, step in zip(bars, steps, strict=True))
        assert analytic == pytest.approx(-numeric, abs=100.0 * digits * size)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("relaxation", ["kl", "pinsker"])
def test_value_and_derivatives_are_those_of_the_definition(loss, relaxation: str) -> None:
    seed = len(loss.name)
    X, y, Z, mean, factor = problem(seed)
    B = free_bound(X, y, loss, relaxation=relaxation, jitter=0.0, chunk=4, **OPTIONS)
    with mp.workdps(40):
        compare(B, Z, mean, factor, seed, 1e-12)


@pytest.mark.parametrize("rows", [[2], [5, 0, 3], [1, 1, 4, 1, 2, 0, 3]])
def test_a_batch_estimates_the_risk_alone(rows: list[int]) -> None:
    X, y, Z, mean, factor = problem(1)
    B = free_bound(X, y, Band(0.6), jitter=0.0, chunk=2, **OPTIONS)
    with mp.workdps(40):
        compare(B, Z, mean, factor, 1, 1e-12, rows)


def test_all_rows_are_no_batch_and_others_flatter() -> None:
    """B is concave in R_S (P-04), so that its mean over random rows is at most B."""
    X, y, Z, mean, factor = problem(2, N=40, M=4)
    B = free_bound(X, y, Band(0.6), **OPTIONS)
    whole = B.evaluate(KERNEL, 1.0, Z, mean, factor)
    np.testing.assert_allclose(flat(B.evaluate(KERNEL, 1.0, Z, mean, factor, np.arange(40))), flat(whole), rtol=1e-10)
    one_by_one = [B.evaluate(KERNEL, 1.0, Z, mean, factor, [i]).value for i in range(40)]
    assert np.mean(one_by_one) > whole.value + 1e-3
    loose = free_bound(X, y, Band(0.6), relaxation="pinsker", **OPTIONS)  # linear in R_S: without bias
    apart = [flat(loose.evaluate(KERNEL, 1.0, Z, mean, factor, [i])) for i in range(40)]
    np.testing.assert_allclose(np.mean(apart, axis=0), flat(loose.evaluate(KERNEL, 1.0, Z, mean, factor)), atol=1e-12)


def test_jitter_moves_with_the_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitter so large that its derivative is visible."""
    monkeypatch.setattr("gpbounds.whitening.AUTO_LADDER", (0.05,))
    X, y, Z, mean, factor = problem(12)
    with mp.workdps(40):
        compare(free_bound(X, y, Band(0.6), **OPTIONS), Z, mean, factor, 1, 1e-12, jitter=0.05)


def test_jitter_belongs_to_the_prior() -> None:
    X, y, Z, mean, factor = problem(11)
    Z[2] = Z[1]
    B = free_bound(X, y, Band(0.6), **OPTIONS)
    jitter = B.evaluate(KERNEL, 1.0, Z, mean, factor).jitter
    assert jitter > 0.0
    with mp.workdps(50):
        compare(B, Z, mean, factor, 1, 1e-4, jitter=jitter / KERNEL.variance)


def test_chunks_memory_and_threads_change_nothing_but_rounding() -> None:
    X, y, Z, mean, factor = problem(3, N=2600, M=64)
    kernel = KERNEL + Matern(1.5, 0.2, 2.0)

    def evaluated(**options):
        return flat(free_bound(X, y, Band(0.4), **OPTIONS, **options).evaluate(kernel, 1.0, Z, mean, factor))

    with blas_threads(1):
        usual = evaluated(chunk=4000)
        for options in ({"chunk": 300}, {"chunk": 300, "keep": 0}):
            np.testing.assert_allclose(evaluated(**options), usual, rtol=1e-8, atol=1e-10 * np.abs(usual).max())
    with blas_threads(2):
        np.testing.assert_allclose(evaluated(chunk=300), usual, rtol=1e-8, atol=1e-10 * np.abs(usual).max())


def test_it_starts_as_fitc_and_goes_below() -> None:
    X, y, Z, *_ = problem(4, N=80, M=6)
    fitc = risk_bound(X, y, Band(0.6), **OPTIONS).terms(KERNEL, NOISE, Z)
    B = free_bound(X, y, Band(0.6), **OPTIONS)
    start = B.complete(at_point(KERNEL, NOISE, Z))
    terms = B.terms_at(start)
    assert [terms.risk, terms.kl, terms.bound] == pytest.approx([fitc.risk, fitc.kl, fitc.bound], rel=1e-9)
    layout = B.packing(start, learn_Z=False, fixed=KERNEL.parameter_names)
    assert len(layout.names) == 6 + 21
    run = train_lbfgs(layout.loss(B), layout.pack(layout.start), layout.bounds, max_iter=40)
    assert -run.value < fitc.bound - 1e-3
    end = layout.unpack(run.vector)
    assert end.kernel == KERNEL
    assert B.terms_at(end).bound == pytest.approx(-run.value, rel=1e-12)


def test_vector_and_parameters_to_and_fro() -> None:
    X, y, Z, mean, factor = problem(5, N=30, M=4)
    B = free_bound(X, y[:, None], Band(0.6), **OPTIONS)
    layout = B.packing(point_of(Z, np.zeros(4), np.eye(4)), limits={"variance": (0.1, 10.0)}, scale=[2.0, 0.5])
    assert not layout.start.q.mean.any()
    np.testing.assert_array_equal(layout.start.q.factor, np.eye(4))
    vector = layout.pack(B.packing(point_of(Z, mean, factor)).start)
    names = dict(zip(layout.names, vector, strict=True))
    assert layout.bounds[0] == pytest.approx(np.log([0.1, 10.0]))
    assert len(layout.bounds) == vector.size == 3 + 8 + 4 + 10
    assert names["log C[2,2]"] == pytest.approx(np.log(factor[2, 2]))
    assert names["C[3,1]"] == factor[3, 1]
    assert names["mean[3]"] == mean[3]
    assert names["Z[1,0]"] == pytest.approx(Z[1, 0] / 2.0)
    back = layout.unpack(vector)
    assert back.kernel.log_parameters == pytest.approx(KERNEL.log_parameters, rel=1e-12)
    for unpacked, packed in ((back.Z, Z), (back.q.mean[:, 0], mean), (back.q.factor, factor)):
        np.testing.assert_allclose(unpacked, packed, rtol=1e-14)
    for loss in (layout.loss(B), layout.loss(B.batch([3, 7, 7]))):
        step = 1e-6 * np.random.default_rng(0).standard_normal(vector.size)
        numeric = (loss(vector + step)[0] - loss(vector - step)[0]) / 2.0
        assert loss(vector)[1] @ step == pytest.approx(numeric, rel=1e-5)
    vector[layout.names.index("log C[0,0]")] = layout.bounds[layout.names.index("log C[0,0]")][0]
    assert layout.at_bounds(vector) == ("log C[0,0]",)


def test_wrong_arguments_are_told_apart() -> None:
    X, y, Z, mean, factor = problem(10)
    B = free_bound(X, y, Band(0.6), **OPTIONS)
    for arguments, words in (
        ({"mean": mean[:2]}, "mean: expected shape"),
        ({"factor": factor[:2]}, "factor: expected shape"),
        ({"factor": factor + np.triu(np.ones((3, 3)), 1)}, "factor: expected a lower triangle"),
        ({"factor": -factor}, "factor: expected a lower triangle with a positive diagonal"),
        ({"rows": []}, "rows: expected whole numbers"),
        ({"rows": [0.5]}, "rows: expected whole numbers"),
        ({"rows": [6]}, "rows: expected numbers in 0 ... 5"),
        ({"rows": [-1]}, "rows: expected numbers in 0 ... 5"),
        ({"Z": Z[:, :1]}, "Z: expected 2 column"),
    ):
        with pytest.raises(ValueError, match=words):
            B.evaluate(KERNEL, 1.0, **{"Z": Z, "mean": mean, "factor": factor, **arguments})
    for name, value in (("mean", [np.inf, 0.0, 0.0]), ("factor", np.full((3, 3), np.nan))):
        with pytest.raises(NonFinite, match=f"{name}: expected"):
            B.evaluate(KERNEL, 1.0, **{"Z": Z, "mean": mean, "factor": factor, name: value})
    with pytest.raises(ValueError, match="y: expected one target"):
        free_bound(X, np.column_stack([y, y]), Band(0.6), delta=0.05)
    with pytest.raises(ValueError, match="vector: expected shape"):
        B.packing(point_of(Z, mean, factor)).unpack(np.zeros(3))
    with pytest.raises(ValueError, match="fixed: expected names among"):
        B.packing(point_of(Z, mean, factor), fixed=["period"])


@pytest.mark.gpu
def test_the_gpu_computes_what_the_cpu_does(cupy) -> None:
    X, y, Z, mean, factor = problem(13, N=300, M=20)
    host_bound = free_bound(X, y, Band(0.6), **OPTIONS)
    device_bound = free_bound(cupy.asarray(X), cupy.asarray(y), Band(0.6), chunk=70, **OPTIONS)
    host_packing = host_bound.packing(point_of(Z, mean, factor))
    device_packing = device_bound.packing(point_of(*(cupy.asarray(a) for a in (Z, mean, factor))))
    vector = host_packing.pack(host_packing.start)
    np.testing.assert_array_equal(device_packing.pack(device_packing.start), vector)
    for rows in (None, [5, 5, 17]):
        on_host, on_device = (B if rows is None else B.batch(rows) for B in (host_bound, device_bound))
        (f, g), (also, h) = host_packing.loss(on_host)(vector), device_packing.loss(on_device)(vector)
        assert also == pytest.approx(f, rel=1e-9)
        np.testing.assert_allclose(h, g, rtol=1e-6, atol=1e-8 * np.abs(g).max())
