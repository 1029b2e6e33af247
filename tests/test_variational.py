"""The variational objective: derivatives, batches, and the models it equals at its optimum."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import fitting.objectives.free
import fitting.rows.basis
from fitting import VariationalGP, VariationalGPClassifier
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import OptimalLaw
from fitting.objectives.losses import of_likelihood
from fitting.objectives.objective import objective, variational_objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.objectives.start_of_q import settled
from fitting.training import train_lbfgs
from gpbounds.errors import NonFinite
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg.parallel import lanes
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

KERNEL = SquaredExponential(1.3, [0.7, 1.4])
LIKELIHOODS = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(4.0, 0.5),
]
CASES = [(each, loss) for each in LIKELIHOODS for loss in ("elbo", "log-loss", "power")]
CASES += [(LIKELIHOODS[0], "square-loss"), (LIKELIHOODS[0], "pep")]
every_case = pytest.mark.parametrize(("likelihood", "loss"), CASES, ids=str)


def problem(likelihood, seed: int, N: int = 12, M: int = 3):
    """X, y, and a point."""
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    f = np.sin(X @ rng.standard_normal(2)) + 0.3 * rng.standard_normal(N)
    if isinstance(likelihood, Bernoulli):
        f = np.where(f > 0.0, 1.0, 0.0)
    elif isinstance(likelihood, Poisson):
        f = rng.poisson(np.exp(f)).astype(float)
    factor = 0.3 * np.tril(rng.standard_normal((M, M)))
    factor[np.diag_indices(M)] = rng.uniform(0.3, 1.2, M)
    return X, f, Parameters(KERNEL, likelihood, Z, FactorLaw(rng.standard_normal((M, 1)), factor))


def flat(evaluation):
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], *(np.ravel(part) for part in vars(g).values() if part is not None)])


def trained(J, start: Parameters, **options) -> tuple[Parameters, float]:
    """The optimum, with the value of −J."""
    layout = J.packing(start, **options)
    run = train_lbfgs(layout.loss(J), layout.pack(layout.start), layout.bounds, max_iter=2000, ftol=1e-15, gtol=1e-9)
    return layout.unpack(run.vector), run.value


Q_ALONE = {"learn_Z": False, "fixed": (*KERNEL.parameter_names, "noise")}


@pytest.mark.parametrize("form", ["products with the inverse", "solves", "small variances"])
@every_case
def test_derivatives_in_every_block(likelihood, loss, form, monkeypatch):
    """In the three ways in which variances and cotangents are computed."""
    if form == "solves":
        monkeypatch.setattr(fitting.rows.basis, "TAME", 0.0)
    if form == "small variances":
        monkeypatch.setattr(fitting.objectives.free, "SMALL", np.inf)
    X, y, point = problem(likelihood, 1)
    J = variational_objective(X, y, likelihood, loss, beta=0.7, power=0.45, jitter=0.0, chunk=5)
    layout = J.packing(point)
    vector = layout.pack(point)
    value, analytic = layout.loss(J)(vector)
    assert layout.names[3 : 3 + likelihood.log_parameters.size - len(J.held)] == tuple(
        name for name in likelihood.parameter_names if name not in J.held
    )
    step = np.random.default_rng(2).standard_normal(vector.size)
    values = [layout.loss(J)(vector + t * 1e-3 * step)[0] for t in (-2, -1, 1, 2)]
    numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-3
    assert analytic @ step == pytest.approx(numeric, rel=1e-7, abs=1e-7 * np.abs(analytic * step).sum())
    evaluation = J.evaluate(point.kernel, likelihood, point.Z, point.q.mean, point.q.factor)
    assert evaluation.value == pytest.approx(-value, rel=1e-13)  # the vector has logarithms: another last bit


@pytest.mark.parametrize(("likelihood", "loss"), [CASES[0], CASES[4], CASES[9]], ids=str)
def test_it_is_the_sum_of_losses_and_kl_by_its_definition(likelihood, loss):
    X, y, point = problem(likelihood, 3)
    J = variational_objective(X, y, likelihood, loss, beta=2.5, jitter=0.0)
    K, cross, own = KERNEL(point.Z), KERNEL(point.Z, X), KERNEL.diag(X)
    V = np.linalg.solve(np.linalg.cholesky(K), cross)
    S = point.q.factor @ point.q.factor.T
    w = point.q.mean
    m, s = V.T @ w, own - (V * V).sum(axis=0) + (V * (S @ V)).sum(axis=0)
    kl = 0.5 * (np.trace(S) - 3 - np.linalg.slogdet(S)[1] + float((w * w).sum()))
    total = float(of_likelihood(likelihood, loss)(y[:, None], m, s).total)
    evaluation = J.minimised(point, gradient=False)
    assert evaluation.value == pytest.approx(total + 2.5 * kl, rel=1e-10)
    assert [evaluation.total, evaluation.kl] == pytest.approx([total, kl], rel=1e-10)


@every_case
def test_batches_average_to_the_whole(likelihood, loss):
    """Value and every derivative, over the batches of an epoch."""
    X, y, point = problem(likelihood, 4)
    J = variational_objective(X, y, likelihood, loss, beta=0.5, power=0.45, jitter=0.0)
    at = (point.kernel, likelihood, point.Z, point.q.mean, point.q.factor)
    order = np.random.default_rng(0).permutation(12).reshape(4, 3)
    parts = [flat(J.evaluate(*at, rows)) for rows in order]
    whole = flat(J.evaluate(*at))
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=1e-10, atol=1e-10 * np.abs(whole).max())


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_the_log_loss_is_at_most_the_gibbs_loss(likelihood):
    """At one q (D-02), with the power between them."""
    X, y, point = problem(likelihood, 5)
    values = [
        variational_objective(X, y, likelihood, loss, power=0.6).minimised(point, gradient=False).value
        for loss in ("log-loss", "power", "elbo")
    ]
    assert values[0] < values[1] < values[2]


@pytest.mark.parametrize("beta", [1.0, 0.2, 5.0])
def test_the_optimum_for_a_gaussian_is_vfe(beta):
    """min over q of J is given by VFE whose noise is βσ² (SPEC of the collapsed form), for every β."""
    X, y, point = problem(Gaussian(0.3), 6, N=40, M=5)
    J = variational_objective(X, y, "gaussian", beta=beta, jitter=0.0)
    start = replace(point, q=FactorLaw(np.zeros((5, 1)), np.eye(5)))
    end, value = trained(J, start, **Q_ALONE)
    collapsed = J.complete(replace(point, q=None))
    assert value == pytest.approx(-J.minimised(collapsed, gradient=False).value, rel=1e-9)
    np.testing.assert_allclose(end.q.mean, collapsed.q.mean, atol=1e-4)
    np.testing.assert_allclose(end.q.factor, collapsed.q.factor, atol=1e-4)
    if beta == 1.0:
        vfe = objective(X, y, "vfe", jitter=0.0).evaluate(KERNEL, 0.3, point.Z).value
        assert value == pytest.approx(vfe, rel=1e-9)
    slopes = layout_slopes(J, collapsed)
    assert np.abs(slopes).max() < 1e-8 * 40.0


def layout_slopes(J, point):
    layout = J.packing(point, **Q_ALONE)
    return layout.loss(J)(layout.pack(point))[1]


@pytest.mark.parametrize("beta", [0.2, 1.0, 5.0])
def test_the_collapsed_form_of_every_beta(beta):
    """Its value, its derivatives, and those of a batch."""
    X, y, point = problem(Gaussian(0.3), 11, N=30, M=5)
    J = variational_objective(X, y, "gaussian", beta=beta, jitter=0.0)
    collapsed = replace(objective(X, y, "vfe", jitter=0.0), goal=Evidence(beta))
    layout = packing_of(replace(point, q=None))
    for G, whole in ((collapsed, J), (collapsed.batch(np.arange(7)), J.batch(np.arange(7)))):
        vector = layout.pack(layout.start)
        value, slopes = layout.loss(G)(vector)
        step = np.random.default_rng(0).standard_normal(vector.size)
        values = [layout.loss(G)(vector + t * 1e-4 * step)[0] for t in (-2, -1, 1, 2)]
        numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-4
        assert slopes @ step == pytest.approx(numeric, rel=1e-7)
        q = G.posterior_at(replace(point, q=None)).q  # of the batch: its KL counts once, so it bounds all rows' ELBO
        at_q = whole.minimised(replace(point, q=FactorLaw(q.mean, q.factor)), gradient=False).value
        assert value == pytest.approx(at_q, rel=1e-10)
        if G is collapsed:
            best = J.complete(replace(point, q=None))
            assert value == pytest.approx(J.minimised(best, gradient=False).value, rel=1e-12)
            # the envelope theorem: derivatives at the best q are those of the minimum
            own = J.minimised(best).gradient
            np.testing.assert_allclose(slopes[:3], own.kernel, rtol=1e-8)
            np.testing.assert_allclose(slopes[3:4], own.likelihood, rtol=1e-8)
            np.testing.assert_allclose(slopes[4:], own.Z.ravel(), rtol=1e-7)


@pytest.mark.parametrize("beta", [0.05, 1.0, 3.0])
def test_the_optimum_of_the_square_loss(beta):
    """VFE's mean for the noise β, S = I, and the value ½β yᵀ(Q + βI)⁻¹y (D-08)."""
    X, y, point = problem(Gaussian(0.3), 7, N=40, M=5)
    J = variational_objective(X, y, "gaussian", "square-loss", beta=beta, jitter=0.0)
    best = J.complete(replace(point, q=None))
    assert np.abs(layout_slopes(J, best)).max() < 1e-9
    cross = KERNEL(point.Z, X)
    Q = cross.T @ np.linalg.solve(KERNEL(point.Z), cross)
    value = 0.5 * beta * y @ np.linalg.solve(Q + beta * np.eye(40), y)
    assert J.minimised(best, gradient=False).value == pytest.approx(value, rel=1e-9)
    vfe = objective(X, y, "vfe", jitter=0.0).posterior(KERNEL, beta, point.Z)
    np.testing.assert_allclose(J.posterior_at(best).predict(X)[0], vfe.predict(X)[0], atol=1e-10)


@pytest.mark.broad
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_power_ep_is_the_minimum_over_q_of_a_sum(power):
    """Value, stationarity, and by the envelope theorem the derivatives of `SparseGP("pep")`'s objective."""
    X, y, point = problem(Gaussian(0.3), 12, N=40, M=5)
    J = variational_objective(X, y, "gaussian", "pep", power=power, jitter=0.0, chunk=7)
    pep = objective(X, y, "pep", power=power, jitter=0.0).evaluate(KERNEL, 0.3, point.Z)
    best = J.complete(replace(point, q=None))
    here = -J.minimised(best)
    assert here.value == pytest.approx(pep.value, rel=1e-11)
    for block in ("kernel", "likelihood", "Z"):
        expected = getattr(pep.gradient, block)
        np.testing.assert_allclose(getattr(here.gradient, block), expected, atol=1e-9 * np.abs(expected).max())
    assert np.abs(layout_slopes(J, best)).max() < 1e-8
    _, value = trained(J, replace(point, q=FactorLaw(np.zeros((5, 1)), np.eye(5))), **Q_ALONE)
    assert value == pytest.approx(pep.value, rel=1e-8)


def test_all_points_as_inducing_points_give_the_exact_gp():
    X, y, point = problem(Gaussian(0.3), 8, N=15)
    J = variational_objective(X, y, "gaussian")
    best = J.complete(replace(point, Z=X, q=None))
    exact = objective(X, y, "exact")
    assert -J.minimised(best, gradient=False).value == pytest.approx(exact.evaluate(KERNEL, 0.3).value, rel=1e-6)
    new = np.random.default_rng(0).standard_normal((6, 2))
    for got, expected in zip(J.posterior_at(best).predict(new), exact.posterior(KERNEL, 0.3).predict(new), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize(("likelihood", "loss"), [CASES[0], CASES[4], CASES[16]], ids=str)
def test_the_forms_agree_and_the_number_of_lanes_changes_no_bit(likelihood, loss, monkeypatch):
    """With rows near an inducing point, whose small variances one form leaves to the other."""
    X, y, point = problem(likelihood, 12, N=1100, M=300)
    point = replace(point, kernel=SquaredExponential(1.3, 0.2))
    X[:40] = point.Z[:40] + 1e-4
    narrow = FactorLaw(point.q.mean, 1e-4 * np.eye(300))
    for q in (point.q, narrow):
        J = variational_objective(X, y, likelihood, loss, jitter=1e-8)
        at = (point.kernel, likelihood, point.Z, q.mean, q.factor)
        with blas_threads(1):
            single = flat(J.evaluate(*at))
        with blas_threads(2):
            assert lanes() == 2
            np.testing.assert_array_equal(flat(J.evaluate(*at)), single)
        with monkeypatch.context() as patch:
            patch.setattr(fitting.rows.basis, "TAME", 0.0)
            by_solves = flat(J.evaluate(*at))
        np.testing.assert_allclose(single, by_solves, rtol=1e-7, atol=1e-9 * np.abs(by_solves).max())


@pytest.mark.parametrize(("likelihood", "loss"), [(Poisson("exp"), "log-loss"), (Gaussian(0.3), "pep")], ids=str)
def test_chunks_change_nothing_but_rounding(likelihood, loss):
    X, y, point = problem(likelihood, 9, N=1500, M=64)
    at = (KERNEL, point.likelihood, point.Z, point.q.mean, point.q.factor)
    whole, *others = (
        flat(variational_objective(X, y, likelihood, loss, jitter=1e-4, **options).evaluate(*at))
        for options in ({}, {"chunk": 100}, {"chunk": 300, "keep": 0})
    )
    for other in others:
        np.testing.assert_allclose(other, whole, rtol=1e-9, atol=1e-11 * np.abs(whole).max())


def test_a_mean_that_overflows_is_refused_as_not_finite():
    """Training steps back from such a point."""
    X, y, point = problem(Poisson("exp"), 10)
    J = variational_objective(X, y, "poisson")
    with pytest.raises(NonFinite, match="finite value"):
        J.minimised(replace(point, q=FactorLaw(1e4 * np.ones((3, 1)), np.eye(3))))


@pytest.mark.parametrize(
    ("y", "arguments", "sentence"),
    [
        ([0.0, 1.0, 2.0], ("probit",), "labels"),
        ([0.0, 1.5, 2.0], ("poisson",), "counts"),
        ([0.0, -1.0, 2.0], ("poisson",), "counts"),
        ([0.0, 1.0, 1.0], ("probit", "square-loss"), "Gaussian likelihood only"),
        ([0.0, 1.0, 1.0], ("cauchy",), "expected one of 'gaussian'"),
        ([0.0, 1.0, 1.0], ("gaussian", "mse"), "objective: expected one of"),
        ([[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]], ("gaussian",), "one target"),
    ],
)
def test_wrong_arguments_are_named(y, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        variational_objective([0.0, 1.0, 2.0], y, *arguments)
    with pytest.raises(ValueError, match="beta"):
        variational_objective([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], beta=0.0)


@pytest.mark.gpu
@every_case
def test_the_gpu_computes_what_the_cpu_does(cupy, likelihood, loss):
    X, y, point = problem(likelihood, 13, N=60, M=6)
    options = {"beta": 0.7, "power": 0.45, "chunk": 25, "jitter": 1e-6}
    on_host = variational_objective(X, y, likelihood, loss, **options)
    on_device = variational_objective(cupy.asarray(X), cupy.asarray(y), likelihood, loss, **options)
    layout = on_host.packing(point)
    vector = layout.pack(point)
    q = FactorLaw(cupy.asarray(point.q.mean), cupy.asarray(point.q.factor))
    placed = on_device.packing(replace(point, Z=cupy.asarray(point.Z), q=q))
    np.testing.assert_array_equal(placed.pack(placed.start), vector)
    (value, slopes), (also, others) = layout.loss(on_host)(vector), placed.loss(on_device)(vector)
    assert also == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(others, slopes, rtol=1e-6, atol=1e-8 * np.abs(slopes).max())


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "probit"])
def test_estimators_train_and_predict_on_a_gpu(cupy, likelihood, tmp_path):
    X, y, _ = problem(
        {"gaussian": LIKELIHOODS[0], "poisson": LIKELIHOODS[3], "probit": LIKELIHOODS[1]}[likelihood], 14, N=40
    )
    settings = {"kernel": KERNEL, "random_state": 0, "max_iter": 6, "objective": "log-loss"}
    kind = VariationalGPClassifier if likelihood == "probit" else VariationalGP
    host_model = kind(5, likelihood, **settings).fit(X, y)
    model = kind(5, likelihood, device="cuda", **settings).fit(cupy.asarray(X), cupy.asarray(y))
    assert model.objective_ == pytest.approx(host_model.objective_, rel=1e-5)
    mean = model.latent(cupy.asarray(X))
    assert isinstance(mean, cupy.ndarray)
    np.testing.assert_allclose(mean.get(), host_model.latent(X), atol=1e-3)
    density = model.log_predictive_density(cupy.asarray(X), cupy.asarray(y))
    np.testing.assert_allclose(density.get(), host_model.log_predictive_density(X, y), atol=1e-3)
    if likelihood == "poisson":  # the sites of q are stored in host memory, and continue on the device
        stopped = {**settings, "max_iter": 3, "checkpoint": tmp_path / "fit.npz", "device": "cuda"}
        kind(5, likelihood, **stopped).fit(cupy.asarray(X), cupy.asarray(y))
        resumed = kind(5, likelihood, **{**stopped, "max_iter": 6}).fit(cupy.asarray(X), cupy.asarray(y))
        assert resumed.objective_ == pytest.approx(model.objective_, rel=1e-12)
    if likelihood == "probit":
        np.testing.assert_array_equal(model.predict(cupy.asarray(X)), host_model.predict(X))
        assert isinstance(model.predict_proba(cupy.asarray(X)), cupy.ndarray)


@pytest.mark.parametrize(
    "likelihood", [Poisson("exp"), Poisson("softplus"), Bernoulli("probit"), StudentT(4.0, 0.5)], ids=str
)
@pytest.mark.parametrize("loss", ["elbo", "log-loss"])
def test_a_settled_q_is_no_worse_and_for_an_elbo_without_slope(likelihood, loss):
    """From the prior; a log-concave likelihood has one best q, to which the steps lead."""
    X, y, point = problem(likelihood, 4)
    J = variational_objective(X, y, likelihood, loss)
    M = point.Z.shape[0]
    prior = replace(point, q=FactorLaw(np.zeros((M, 1)), np.eye(M)))
    better = settled(J, prior)
    assert J.minimised(better, gradient=False).value <= J.minimised(prior, gradient=False).value
    if loss == "elbo" and not isinstance(likelihood, StudentT):
        layout = packing_of(better, fixed=(*KERNEL.parameter_names, *likelihood.parameter_names), learn_Z=False)
        run = train_lbfgs(layout.loss(J), layout.pack(better), layout.bounds, max_iter=500, ftol=1e-15, gtol=1e-9)
        assert -run.value > J.minimised(better, gradient=False).value - 0.01 * J.N


@pytest.mark.parametrize(
    "likelihood", [StudentT(4.0, 0.5), pytest.param(Poisson("exp"), marks=pytest.mark.slow)], ids=str
)
def test_training_on_the_best_q_ends_where_no_parameter_has_a_slope(likelihood):
    """Its derivatives are those of the minimum over q; joint training reaches no better end."""
    X, y, point = problem(likelihood, 4, N=24, M=3)
    J = variational_objective(X, y, likelihood, beta=0.7)
    best, start = replace(J, law=OptimalLaw()), replace(point, q=None)
    layout = best.packing(start)
    vector = layout.pack(start)
    step = np.random.default_rng(2).standard_normal(vector.size)
    values = [layout.loss(best)(vector + t * 1e-3 * step)[0] for t in (-2, -1, 1, 2)]
    numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-3
    assert layout.loss(best)(vector)[1] @ step == pytest.approx(numeric, rel=1e-3, abs=1e-3)
    options, saved = {"bounds": layout.bounds, "ftol": 1e-12, "gtol": 1e-6}, []
    run = train_lbfgs(layout.loss(best), vector, max_iter=400, **options)
    train_lbfgs(layout.loss(best), vector, max_iter=5, save=saved.append, **options)
    again = train_lbfgs(layout.loss(best), vector, max_iter=400, earlier=saved[-1], save=saved.append, **options)
    assert again.values == run.values  # bit for bit: the sites belong to what is saved
    end = J.complete(replace(layout.unpack(run.vector), sites=run.state["sites"]))
    together = J.packing(end)
    further = train_lbfgs(together.loss(J), together.pack(end), together.bounds, max_iter=100)
    assert further.values[0] == pytest.approx(run.value, rel=1e-8)
    assert further.value < run.value + 1e-4
    free = J.packing(start)
    joint = train_lbfgs(free.loss(J), free.pack(free.start), free.bounds, max_iter=400)
    assert joint.value < run.value + 1e-4


def test_a_settled_q_of_a_gaussian_is_the_optimum():
    X, y, point = problem(Gaussian(0.3), 4)
    J = variational_objective(X, y, "gaussian")
    M = point.Z.shape[0]
    best = J.complete(replace(point, q=None))
    found = settled(J, replace(point, q=FactorLaw(np.zeros((M, 1)), np.eye(M))))
    np.testing.assert_allclose(found.q.mean, best.q.mean, atol=1e-10)
    np.testing.assert_allclose(found.q.covariance, best.q.covariance, atol=1e-10)


def test_counts_in_the_hundreds_settle_from_a_prior_whose_rates_are_far_too_large():
    """Where exp(m + s/2) is about e^12 at the start, and where it is 1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (100, 1))
    y = rng.poisson(np.exp(5.0 + np.sin(2.0 * X[:, 0]))).astype(float)
    Z, J = np.linspace(-2.0, 2.0, 12)[:, None], variational_objective(X, y, "poisson")
    for variance in (1.0, 25.0):
        best = J.complete(Parameters(SquaredExponential(variance, 0.7), J.likelihood, Z))
        assert J.minimised(best, gradient=False).value < 6.0 * 100


def test_the_start_of_q_leaves_no_memory_behind():
    """The pass over all rows takes some MB of buffers; q, L and V of the inducing points take 8 M² bytes each."""
    X, y, point = problem(Gaussian(0.3), 4, N=4000, M=100)
    start, (first, J) = replace(point, q=None), (variational_objective(X, y, keep=0) for _ in range(2))
    first.complete(start)  # imports
    gc.collect()
    gc.disable()  # a factorisation that fails in a lane, as here without jitter, must leave no cycle with its arrays
    tracemalloc.start()
    try:
        held, ends = J.complete(start), time.monotonic() + 10.0
        while (left := tracemalloc.get_traced_memory()[0]) >= 3 * 8 * held.q.M**2 and time.monotonic() < ends:
            time.sleep(0.01)  # a lane's thread that has found no more work may end after its caller goes on
        assert left < 3 * 8 * held.q.M**2
    finally:
        tracemalloc.stop()
        gc.enable()
