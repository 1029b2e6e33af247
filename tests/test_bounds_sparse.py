"""The PAC-Bayes bound of a sparse posterior: values and derivatives compared with mpmath, chunks, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bound_instances import LOSSES, collapsed, exactly, slope
from mpmath import mp, mpf
from scipy.optimize import check_grad

from fitting.bounds import Target, risk_bound
from fitting.objectives.collapsed import Member
from fitting.objectives.objective import at_point
from fitting.objectives.packing import packing, packing_of
from fitting.training import train_lbfgs
from gpbounds.arrays import host
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.losses import Band, Relative
from gpbounds.reference import pacbayes
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNEL, NOISE = SquaredExponential(1.3, [0.7, 1.4]), 0.2
OPTIONS = {"delta": 0.05, "log_prior_penalty": 3.5}
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def problem(seed: int, N: int = 6, M: int = 3):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    return X, np.sin(X @ rng.standard_normal(2)) + 0.3 * rng.standard_normal(N) + 0.05, Z


def flat(evaluation):
    """Value and derivatives in one vector."""
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


def method_of(power: float) -> dict:
    return {0.0: {"method": "vfe"}, 1.0: {"method": "fitc"}}.get(power, {"method": "pep", "power": power})


def compare(B, power: float, Z, seed: int, digits: float, jitter: float = 0.0, slopes: float | None = None) -> None:
    """Value and terms to ``digits``, and derivatives along two directions to ``slopes``, by default 100 ``digits``."""
    evaluation, terms = B.evaluate(KERNEL, NOISE, Z), B.terms(KERNEL, NOISE, Z)
    truth = collapsed(B.goal, exactly(B.data.X), exactly(B.data.Y[:, 0]), power, jitter)
    point = [exactly(KERNEL.log_parameters), mpf(float(np.log(NOISE))), exactly(Z)]
    risk, kl, value = truth(*point)
    assert [terms.risk, terms.kl, terms.bound] == pytest.approx([float(v) for v in (risk, kl, value)], rel=digits)
    assert evaluation.value == -terms.bound
    g, rng = evaluation.gradient, np.random.default_rng(seed)
    bars = [g.kernel, np.array(g.noise), g.Z]
    for _ in range(2):
        steps = [rng.standard_normal(np.shape(bar)) for bar in bars]
        numeric = float(slope(truth, point, [exactly(step) for step in steps]))
        size = sum(np.abs(bar * step).sum() for bar, step in zip(bars, steps, strict=True))
        computed = sum(float((bar * step).sum()) for bar, step in zip(bars, steps, strict=True))
        assert computed == pytest.approx(-numeric, abs=(slopes or 100.0 * digits) * size)


@every_loss
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("relaxation", ["kl", "pinsker"])
def test_value_and_derivatives_are_those_of_the_definition(loss, power: float, relaxation: str) -> None:
    seed = int(10 * power) + len(loss.name)
    X, y, Z = problem(seed)
    B = risk_bound(X, y, loss, relaxation=relaxation, jitter=0.0, chunk=4, **method_of(power), **OPTIONS)
    with mp.workdps(40):
        compare(B, power, Z, seed, 1e-12)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_each_derivative_by_itself(power: float) -> None:
    X, y, Z = problem(7)
    g = risk_bound(X, y, Band(0.6), jitter=0.0, **method_of(power), **OPTIONS)
    computed = flat(g.evaluate(KERNEL, NOISE, Z))[1:]
    with mp.workdps(40):
        truth = collapsed(g.goal, exactly(X), exactly(y), power, 0)
        point = [exactly(KERNEL.log_parameters), mpf(float(np.log(NOISE))), exactly(Z)]
        numeric = []
        for i in range(computed.size):
            unit = np.eye(computed.size)[i]
            step = [exactly(unit[:3]), mpf(unit[3]), exactly(unit[4:].reshape(3, 2))]
            numeric.append(-float(slope(truth, point, step)))
    np.testing.assert_allclose(computed, numeric, atol=1e-11 * np.abs(numeric).max())


@every_loss
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 3.0])
def test_the_derivative_in_a_trained_power(loss, power: float) -> None:
    """The power of a point counts, and value and every derivative are those of the definition, the power's included."""
    X, y, Z = problem(8)
    B = risk_bound(X, y, loss, jitter=0.0, chunk=4, method="vfe", **OPTIONS)
    point = replace(at_point(KERNEL, NOISE, Z), power=power)
    evaluation = B.minimised(point)
    fixed = risk_bound(X, y, loss, jitter=0.0, chunk=4, **method_of(power), **OPTIONS)
    np.testing.assert_allclose(-flat(fixed.evaluate(KERNEL, NOISE, Z)), flat(evaluation), rtol=1e-13)
    with mp.workdps(40):
        where = exactly(KERNEL.log_parameters), mpf(float(np.log(NOISE))), exactly(Z)

        def at(a):
            return collapsed(B.goal, exactly(X), exactly(y), a, 0)(*where)[2]

        numeric = mp.diff(at, mpf(power), h=mpf("1e-12"))
    assert evaluation.gradient.power == pytest.approx(float(numeric), rel=1e-9)
    assert B.minimised(at_point(KERNEL, NOISE, Z)).gradient.power is None


def test_a_trained_power_in_the_units_of_the_vector() -> None:
    """log(power + 0.001), up to its limits: 0 is reached exactly, and the loss has the derivatives it says."""
    X, y, Z = problem(9, N=40, M=5)
    layout = packing_of(replace(at_point(KERNEL, NOISE, Z), power=0.7), scale=[2.0, 0.5])
    assert layout.names[-1] == "power"
    loss, start = layout.loss(risk_bound(X, y, Band(0.6), **OPTIONS)), layout.pack(layout.start)
    assert check_grad(lambda v: loss(v)[0], lambda v: loss(v)[1], start) < 1e-5 * np.linalg.norm(loss(start)[1])
    for power in (0.0, 1e-9, 0.7, 1e3):
        there = layout.pack(replace(layout.start, power=power))
        assert layout.unpack(there).power == pytest.approx(power, rel=1e-6)
    low, high = layout.bounds[-1]
    assert [layout.unpack([*start[:-1], end]).power for end in (low, high)] == [0.0, pytest.approx(1e3)]


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_jitter_belongs_to_the_prior(power: float) -> None:
    """Equal inducing inputs make Kuu singular; the jitter that makes it factorise is recorded."""
    X, y, Z = problem(11)
    Z[2] = Z[1]
    with pytest.raises(NotPositiveDefinite):
        risk_bound(X, y, Band(0.6), jitter=0.0, **method_of(power), **OPTIONS).evaluate(KERNEL, NOISE, Z)
    B = risk_bound(X, y, Band(0.6), **method_of(power), **OPTIONS)
    jitter = B.evaluate(KERNEL, NOISE, Z).jitter
    assert jitter > 0.0
    assert B.terms(KERNEL, NOISE, Z).jitter == jitter
    with mp.workdps(50):
        relative = jitter / KERNEL.variance
        compare(B, power, Z, 1, 3e-7, relative, slopes=1.1e-16 / relative)  # that of the factor of a singular Kuu


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_jitter_moves_with_the_variance(power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitter so large that its derivative is visible."""
    monkeypatch.setattr("gpbounds.whitening.AUTO_LADDER", (0.05,))
    X, y, Z = problem(12)
    B = risk_bound(X, y, Band(0.6), **method_of(power), **OPTIONS)
    assert B.evaluate(KERNEL, NOISE, Z).jitter == pytest.approx(0.05 * KERNEL.variance)
    with mp.workdps(40):
        compare(B, power, Z, 1, 1e-12, 0.05)


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_chunks_memory_threads_and_narrow_rows_change_nothing_but_rounding(
    power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, Z = problem(3, N=2600, M=64)
    kernel = KERNEL + Matern(1.5, 0.2, 2.0)

    def evaluated(**options):
        return flat(risk_bound(X, y, Band(0.4), **method_of(power), **OPTIONS, **options).evaluate(kernel, NOISE, Z))

    with blas_threads(1):
        usual = evaluated(chunk=4000)
        for options in ({"chunk": 300}, {"chunk": 300, "keep": 0}, {"chunk": 300, "keep": 64 * (2 * 2600 + 700) * 8}):
            np.testing.assert_allclose(evaluated(**options), usual, rtol=1e-8, atol=1e-10 * np.abs(usual).max())
    with blas_threads(2):
        np.testing.assert_allclose(evaluated(chunk=300), usual, rtol=1e-8, atol=1e-10 * np.abs(usual).max())
    monkeypatch.setattr("fitting.objectives.free.SMALL", np.inf)  # every row then has a small variance
    np.testing.assert_allclose(evaluated(), usual, rtol=1e-8, atol=1e-10 * np.abs(usual).max())


@pytest.mark.parametrize("method", ["vfe", "fitc"])
def test_a_second_call_is_the_first(method: str) -> None:
    X, y, Z = problem(4, N=50, M=5)
    B = risk_bound(X, y, Band(0.4), method=method, chunk=9, **OPTIONS)
    first = flat(B.evaluate(KERNEL, NOISE, Z))
    B.evaluate(Matern(0.5, 2.0, 0.3), 0.7, Z[:3])  # leaves other numbers in the workspace
    np.testing.assert_array_equal(flat(B.evaluate(KERNEL, NOISE, Z)), first)
    bare = B.evaluate(KERNEL, NOISE, Z, gradient=False)
    assert bare.gradient is None
    assert bare.value == first[0]


def test_the_posterior_is_the_one_that_is_judged() -> None:
    X, y, Z = problem(5, N=30, M=5)
    B = risk_bound(X, y[:, None], Band(0.4), method="pep", power=0.3, **OPTIONS)
    Q, terms = B.posterior(KERNEL, NOISE, Z), B.terms(KERNEL, NOISE, Z)
    mean, variance = Q.predict(X)
    assert mean.shape == (30, 1)
    assert terms.risk == pytest.approx(Band(0.4).expectation(y, mean[:, 0], variance).mean(), rel=1e-12)
    assert terms.kl == pytest.approx(Q.kl, rel=1e-12)


def test_the_full_posterior_takes_the_same_seat() -> None:
    """FITC at Z = X is the full posterior (P-27); ``method="exact"`` does not depend on Z."""
    X, y, _ = problem(6, N=12)
    full, sparse = (risk_bound(X, y, Band(0.4), method=m, jitter=0.0, **OPTIONS) for m in ("exact", "fitc"))
    by_exact, by_fitc = full.evaluate(KERNEL, NOISE), sparse.evaluate(KERNEL, NOISE, X)
    assert by_exact.value == pytest.approx(by_fitc.value, rel=1e-9)
    assert by_exact.gradient.noise == pytest.approx(by_fitc.gradient.noise, rel=1e-6)
    assert by_exact.gradient.Z is None
    still = full.evaluate(KERNEL, NOISE, X[:3]).gradient
    np.testing.assert_array_equal(still.Z, np.zeros((3, 2)))
    np.testing.assert_array_equal(still.kernel, by_exact.gradient.kernel)
    assert full.terms(KERNEL, NOISE).bound == -full.evaluate(KERNEL, NOISE, gradient=False).value == -by_exact.value


def test_it_is_trained_in_place_of_an_objective() -> None:
    X, y, Z = problem(8, N=80, M=6)
    B = risk_bound(X, y, Band(0.6), **OPTIONS)
    layout = packing(KERNEL, NOISE, Z)
    start, loss = layout.pack(layout.start), layout.loss(B)
    step = 1e-6 * np.random.default_rng(0).standard_normal(start.size)
    numeric = (loss(start + step)[0] - loss(start - step)[0]) / 2.0
    assert loss(start)[1] @ step == pytest.approx(numeric, rel=1e-5)
    run = train_lbfgs(loss, start, layout.bounds, max_iter=30)
    assert run.value == -loss(run.vector)[0]
    assert loss(run.vector)[0] < loss(start)[0] - 0.01


@pytest.mark.parametrize("relaxation", ["kl", "pinsker"])
@pytest.mark.parametrize(("risk", "kl"), [(0.1, 12.0), (1e-12, 0.0), (0.97, 700.0), (0.5, 1e-9)])
def test_slopes_of_the_target(relaxation: str, risk: float, kl: float) -> None:
    N, delta, prior = 200, 0.05, 2.0
    B, in_total, in_kl = Target(Band(1.0), N, delta=delta, log_prior_penalty=prior, relaxation=relaxation)(risk * N, kl)  # type: ignore[arg-type]
    with mp.workdps(40):
        constant = pacbayes.xi(N) if relaxation == "kl" else 2 * mp.sqrt(N)
        eps = (mpf(kl) + mpf(prior) + mp.log(constant / mpf(delta))) / N
        if relaxation == "kl":
            slopes = pacbayes.kl_inverse_gradient(mpf(risk), eps)
            value = pacbayes.kl_inverse(mpf(risk), eps)[0]
        else:
            slopes, value = (mpf(1), 1 / (4 * mp.sqrt(eps / 2))), mpf(risk) + mp.sqrt(eps / 2)
        truth = [float(value), float(slopes[0] / N), float(slopes[1] / N)]
    assert [B, in_total, in_kl] == pytest.approx(truth, rel=1e-11)


def test_risks_of_zero_and_one_have_derivatives() -> None:
    """If all losses underflow, or all are 1, the derivatives in R_S are finite: there is no 0·∞."""
    target = Target(Band(1.0), 10, delta=0.05)
    assert np.isfinite(target(0.0, 3.0)).all()
    assert target(10.0 + 1e-14, 3.0) == (1.0, 0.0, 0.0)
    many = 10**5  # kl⁻¹(0.999, divergence) is below 1 here, and kl⁻¹(1, divergence) is 1
    assert Target(Band(1.0), many, delta=0.05)(0.999 * many, 0.0)[0] < 0.9995
    for rounded_up in (0.0, 1e-9):
        assert Target(Band(1.0), many, delta=0.05)(many + rounded_up, 0.0) == (1.0, 0.0, 0.0)
    X, _, Z = problem(9, N=10)
    sure = risk_bound(X, np.zeros(10), Band(1e4), delta=0.05).evaluate(KERNEL, NOISE, Z)
    assert np.isfinite(flat(sure)).all()
    lost = risk_bound(X, np.full(10, 1e6), Band(1e-3), delta=0.05).evaluate(KERNEL, 1e10, Z)
    assert lost.value == pytest.approx(-1.0, abs=1e-3)
    assert np.isfinite(flat(lost)).all()
    with pytest.raises(ValueError, match="y: expected numbers whose squares add to a double"):
        risk_bound(X, np.full(10, 1e200), Band(1.0), delta=0.05)


def test_wrong_arguments_are_told_apart() -> None:
    X, y, Z = problem(10)
    for arguments, words in (
        ({"loss": "band"}, "loss: expected one of gpbounds.losses"),
        ({"delta": 0.0}, "delta: expected"),
        ({"delta": 1.5}, "delta: expected"),
        ({"log_prior_penalty": -1.0}, "log_prior_penalty: expected"),
        ({"relaxation": "hoeffding"}, "relaxation: expected"),
        ({"method": "pic"}, "method: expected"),
        ({"method": Member("blocks", 1.0)}, "blocks: expected"),
        ({"method": Member("full", 0.5)}, "expected K - Q kept on its diagonal, or the exact GP"),
        ({"power": 0.5}, "power: expected None"),
        ({"y": np.column_stack([y, y])}, "y: expected one target for each row of X"),
        ({"loss": Relative(1.0), "y": np.zeros(6)}, "y: expected targets that are not 0"),
        ({"chunk": 0}, "chunk: expected"),
    ):
        with pytest.raises(ValueError, match=words):
            risk_bound(**{"X": X, "y": y, "loss": Band(0.6), "delta": 0.05, **arguments})
    B = risk_bound(X, y, Band(0.6), delta=0.05)
    with pytest.raises(ValueError, match="Z: expected inducing inputs"):
        B.evaluate(KERNEL, NOISE)
    with pytest.raises(ValueError, match="noise: expected"):
        B.evaluate(KERNEL, 0.0, Z)
    with pytest.raises(NonFinite, match="y: expected finite numbers"):
        risk_bound(X, np.where(y > 0.0, np.nan, y), Band(0.6), delta=0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("power", [0.0, 2.0])
def test_the_gpu_computes_the_derivative_in_the_power(cupy, power: float) -> None:
    X, y, Z = problem(13, N=300, M=20)
    slopes = []
    for to in (np.asarray, cupy.asarray):
        B = risk_bound(to(X), to(y), Band(0.6), chunk=70, **OPTIONS)
        slopes.append(B.minimised(replace(at_point(KERNEL, NOISE, to(Z)), power=power)).gradient.power)
    assert slopes[1] == pytest.approx(slopes[0], rel=1e-6)


@pytest.mark.gpu
@every_loss
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_gpu_computes_what_the_cpu_does(cupy, loss, power: float) -> None:
    X, y, Z = problem(13, N=300, M=20)
    on_host = risk_bound(X, y, loss, **method_of(power), **OPTIONS).evaluate(KERNEL, NOISE, Z)
    device_bound = risk_bound(cupy.asarray(X), cupy.asarray(y), loss, chunk=70, **method_of(power), **OPTIONS)
    on_device = device_bound.evaluate(KERNEL, NOISE, cupy.asarray(Z))
    assert isinstance(on_device.gradient.Z, cupy.ndarray)
    numbers = np.concatenate(
        [[on_device.value], on_device.gradient.kernel, [on_device.gradient.noise], host(on_device.gradient.Z).ravel()]
    )
    np.testing.assert_allclose(numbers, flat(on_host), rtol=1e-6, atol=1e-8 * np.abs(flat(on_host)).max())
