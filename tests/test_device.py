"""Device and host agree: single evaluations to 1e-9, trainings step by step."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from fitting import PACGP, ExactGP, RenyiGP, SparseGP, SparsePACGP, certify, load
from fitting.objectives.objective import objective, variational_objective
from fitting.objectives.point import Parameters
from gpbounds import NonFinite, NotPositiveDefinite, divergences, lowrank, renyi, whitening
from gpbounds.arrays import host
from gpbounds.kernels import (
    Constant,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    covariances,
)
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg import inverses, products, psd, triangular
from gpbounds.pacbayes import Scaling
from gpbounds.readings import Readings, read

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(-2.0, 2.0, (60, 2)), RNG.uniform(-3.0, 3.0, (7, 2))
Y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(60)
Z = RNG.uniform(-2.0, 2.0, (9, 2))
SE, ROUGH = SquaredExponential(0.7, [0.9, 1.4]), Matern(1.5, 0.3, 0.8)
KERNELS = {
    "SE": SE,
    **{f"Matern-{nu}": Matern(nu, 0.7, [0.9, 1.4]) for nu in (0.5, 1.5, 2.5, 3.5)},
    "sum": SE + ROUGH,
    "product": SE * ROUGH,
    "RQ": RationalQuadratic(0.7, 0.7, [0.9, 1.4]),
    "periodic": Periodic([3.0, 1.9], 0.7, [0.9, 1.4]),
    "RQ × periodic": RationalQuadratic(2.0, 0.7, 0.8) * Periodic(3.0, 0.7, 0.9).on([1]),
    "linear": Linear([0.5, 2.0]) + Constant(0.3) + ROUGH,
    "polynomial": Polynomial(3, 0.4) * Constant(0.3) + Matern(2.5),
    "on columns": SquaredExponential(0.7, 0.9).on([1]) * Linear(0.3).on([0]) + ROUGH,
    "nested": (SE + ROUGH) * Matern(2.5) + ROUGH,
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def same(on_device, on_host, within: float = 1e-9) -> None:
    """Equal up to ``within`` of the largest entry."""
    on_host = np.asarray(on_host)
    np.testing.assert_allclose(host(on_device), on_host, rtol=0.0, atol=within * np.abs(on_host).max(initial=1e-300))


# ---------------------------------------------------------------------- kernels


@each_kernel
def test_kernels_and_their_derivatives(cupy, kernel) -> None:
    device_X, device_Z = cupy.asarray(X), cupy.asarray(Z)
    same(kernel(device_X), kernel(X), 1e-13)
    same(kernel(device_X, device_Z), kernel(X, Z), 1e-13)
    same(kernel.diag(device_X), kernel.diag(X), 1e-15)
    same(kernel.fill(device_X, device_Z, cupy.empty((60, 9))), kernel(X, Z), 1e-13)
    weights = np.random.default_rng(1).standard_normal((60, 9))
    for value in (None, kernel(X, Z)):
        on_device = kernel.pull(
            device_X, device_Z, cupy.asarray(weights), None if value is None else cupy.asarray(value)
        )
        for far, near in zip(on_device, kernel.pull(X, Z, weights.copy(), value), strict=True):
            same(far, near, 1e-12)
    same(kernel.pull_diag(device_X, cupy.asarray(Y)), kernel.pull_diag(X, Y), 1e-13)


@each_kernel
def test_points_so_far_apart_that_squares_overflow(cupy, kernel) -> None:
    if not np.isfinite(kernel.max_variance):
        return  # k(x, x) itself overflows
    far = np.array([[1e160, 0.0], [-1e160, 1.0], [0.0, 0.0]])
    K = kernel(cupy.asarray(far))
    np.testing.assert_array_equal(np.diag(host(K)), kernel.diag(far))
    np.testing.assert_allclose(host(K), kernel(far), rtol=1e-12)
    np.testing.assert_array_equal(host(kernel.fill(cupy.asarray(far), cupy.asarray(far), cupy.empty((3, 3)))), host(K))


@each_kernel
@pytest.mark.parametrize(("left", "right"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_points_of_two_precisions(cupy, kernel, left, right) -> None:
    on_host = kernel(X.astype(left), Z.astype(right))
    on_device = kernel(cupy.asarray(X.astype(left)), cupy.asarray(Z.astype(right)))
    assert on_device.dtype == on_host.dtype
    same(on_device, on_host, 1e-6 if np.float32 in (left, on_host.dtype) else 1e-13)
    filled = kernel.fill(cupy.asarray(X.astype(left)), cupy.asarray(Z.astype(right)), cupy.empty((60, 9)))
    same(filled, on_host, 1e-6)


# ---------------------------------------------------------------------- linear algebra


def test_linear_algebra_of_chunks(cupy) -> None:
    L, B, T = (np.tril(RNG.standard_normal((9, 9))) + 4.0 * np.eye(9) for _ in range(3))
    B = RNG.standard_normal((13, 9))
    functions = [
        lambda to: triangular.solve_rows(to(L), to(B)),
        lambda to: triangular.lift_rows(to(L), to(B)),
        lambda to: triangular.multiply_rows(to(T), to(B)),
        lambda to: triangular.multiply_rows(to(T), to(B), transposed=True),
        lambda to: triangular.inverse_factor(to(L)),
        lambda to: np.tril(host(inverses.inverse_by_rows(to(L)).rows(0, worker=0))),
        lambda to: inverses.inverse_by_rows(to(L)).squares(),
        lambda to: inverses.inverse(to(L)),
        lambda to: products.product(to(B), to(L), to(np.zeros((13, 9)))),
        lambda to: products.add_product(to(B), to(L), to(np.ones((13, 9)))),
    ]
    for function in functions:
        same(function(cupy.array), function(np.array), 1e-13)
    for to in (cupy.array, np.array):
        total = to(np.eye(9))
        products.add_gram(total, to(B))
        same(triangular.mirrored(total), np.eye(9) + B.T @ B, 1e-13)


@pytest.mark.failed_factor
def test_a_factorisation_that_fails_is_noticed(cupy) -> None:
    """Neither finite garbage nor NaN in the input may pass as a factor."""
    indefinite = np.eye(6) - 0.5
    for _ in range(2):
        with pytest.raises(NotPositiveDefinite):
            psd.cholesky(cupy.asarray(indefinite))
    spoiled = np.eye(6)
    spoiled[4, 2] = spoiled[2, 4] = np.nan
    with pytest.raises(NotPositiveDefinite):
        psd.cholesky(cupy.asarray(spoiled))
    twice = SE(np.repeat(X[:5], 2, axis=0))
    on_host, on_device = psd.cholesky(twice, "auto"), psd.cholesky(cupy.asarray(twice), "auto")
    assert on_device.jitter == pytest.approx(on_host.jitter, rel=1e-15)
    # Five eigenvalues are about 1e-12, each with an error of about 1e-15: the factors differ, their products do not.
    assert on_device.logdet == pytest.approx(on_host.logdet, abs=5 * 10 * 1e-15 / 1e-12)
    jittered = twice + on_host.jitter * np.eye(10)
    for L in (on_host.L, host(on_device.L)):
        np.testing.assert_allclose(L @ L.T, jittered, rtol=0.0, atol=1e-15 * len(L))
    regular = SE(X[:9]) + 0.1 * np.eye(9)
    logdets = [float(psd.cholesky(to(regular), 0.0).logdet) for to in (np.asarray, cupy.asarray)]
    assert logdets[1] == pytest.approx(logdets[0], rel=1e-12)


# ---------------------------------------------------------------------- bounds


@pytest.mark.parametrize("method", ["auto", "blocks", "streamed"])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_gap(cupy, method, alpha) -> None:
    # dense algebra is the host's; at order 1 "auto" decides by log p(y) on both
    host_method = "blocks" if method == "auto" and alpha < 1.0 else method
    for outputs in (Y, np.column_stack([Y, Y**2])):
        on_host = renyi.gap(SE, X, outputs, Z, alpha, noise=0.1, method=host_method)
        on_device = renyi.gap(
            SE, cupy.asarray(X), cupy.asarray(outputs), cupy.asarray(Z), alpha, noise=0.1, method=method
        )
        for device_value, host_value in zip(on_device, on_host, strict=True):
            assert float(device_value) == pytest.approx(float(host_value), rel=1e-9)


OPTIONS = [
    {"members": "all"},
    {"members": "cheap"},
    {"alphas": (0.0, 0.4)},
    {"members": ("blocks", "conditioned"), "block": 16},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_evidence(cupy, options) -> None:
    on_host = renyi.evidence(SE, X, Y, Z, noise=0.1, **options)
    on_device = renyi.evidence(SE, cupy.asarray(X), cupy.asarray(Y), cupy.asarray(Z), noise=0.1, **options)
    for device_value, host_value in zip(on_device, on_host, strict=True):
        assert device_value.terms.keys() == host_value.terms.keys()
        for name in host_value.terms:
            if name != "rounding":
                assert float(device_value.terms[name]) == pytest.approx(float(host_value.terms[name]), rel=1e-9)


def test_variational_bound(cupy) -> None:
    q = Y[:9], SE(Z) + 0.1 * np.eye(9)
    on_host = renyi.variational_bound(SE, X, Y, Z, *q, noise=0.1)
    on_device = renyi.variational_bound(SE, *(cupy.asarray(part) for part in (X, Y, Z, *q)), noise=0.1)
    for name, value in on_host.terms.items():
        assert on_device.terms[name] == pytest.approx(value, rel=1e-9)


def test_divergences(cupy) -> None:
    S, T = SE(Z) + 0.1 * np.eye(9), ROUGH(Z) + 0.3 * np.eye(9)
    mean, root = Z[:, 0], np.linalg.cholesky(T)
    to = cupy.asarray
    pairs = [
        (divergences.gaussian_kl, (mean, S, Z[:, 1], T)),
        *((divergences.gaussian_renyi, (mean, S, Z[:, 1], T, order)) for order in (-0.5, 0.0, 0.3, 1.0, 1.2)),
        (divergences.sparse_kl, (S, mean, T)),
        (divergences.whitened_kl, (mean, root)),
    ]
    for function, arguments in pairs:
        on_device = function(*(to(value) if np.ndim(value) else value for value in arguments))
        assert on_device == pytest.approx(function(*arguments), rel=1e-9)
    with pytest.raises(ValueError, match="NumPy and CuPy arrays together"):
        divergences.sparse_kl(to(S), mean, to(T))
    builders = [
        lambda c: divergences.whitened_posterior(SE, c(Z), c(mean), c(root)),
        lambda c: divergences.free_posterior(SE, c(Z), c(mean), c(T)),
        lambda c: divergences.collapsed_posterior(SE, c(X), c(Y), c(Z), noise=0.1, power=0.5),
        lambda c: divergences.full_posterior(SE, c(X), c(Y), noise=0.1),
    ]
    for build in builders:
        near, far = build(np.asarray), build(to)
        assert far.kl == pytest.approx(near.kl, rel=1e-9)
        on_host, on_device = near.predict(NEW), far.predict(to(NEW))
        same(on_device.mean, on_host.mean)
        same(on_device.variance, on_host.variance)


def test_low_rank_divergences(cupy) -> None:
    K, features = SE(X), np.linalg.cholesky(SE(X) + 1e-3 * np.eye(60))[:, :12]
    to = cupy.asarray
    for function, arguments in (
        (lowrank.kl, (K, features @ features.T)),
        (lowrank.kl_features, (K, features)),
        (lowrank.kl_by_rank, (K, features, [3, 7, 12])),
    ):
        on_device = function(*(to(value) if isinstance(value, np.ndarray) else value for value in arguments), noise=0.1)
        same(on_device, function(*arguments, noise=0.1))


def test_host_functions_say_so(cupy) -> None:
    """Functions that need host arrays say so in one sentence, instead of raising CuPy's TypeError."""
    with pytest.raises(ValueError, match=r"noise: expected .* in host memory, got a CuPy array"):
        renyi.evidence(SE, cupy.asarray(X), cupy.asarray(Y), cupy.asarray(Z), noise=cupy.asarray(0.1))


# ---------------------------------------------------------------------- the family

MEMBERS = {
    "vfe": {},
    "dtc": {},
    "fitc": {},
    "pep": {"power": 0.4},
    "renyi": {"alpha": 0.6},
    "pic": {"blocks": 30},
    "exact": {},
}


@each_kernel
@pytest.mark.parametrize("method", MEMBERS)
def test_value_gradient_and_prediction_of_every_member(cupy, method, kernel) -> None:
    targets = np.column_stack([Y, Y**2])
    host_objective = objective(X, targets, method, chunk=25, **MEMBERS[method])
    device_objective = objective(cupy.asarray(X), cupy.asarray(targets), method, chunk=25, **MEMBERS[method])
    near, far = host_objective.evaluate(kernel, 0.2, Z), device_objective.evaluate(kernel, 0.2, cupy.asarray(Z))
    assert far.value == pytest.approx(near.value, rel=1e-9)
    same([*far.gradient.kernel, far.gradient.noise], [*near.gradient.kernel, near.gradient.noise])
    assert isinstance(far.gradient.Z, cupy.ndarray)
    same(far.gradient.Z, near.gradient.Z)
    law = {"blocks": np.zeros(7)} if method == "pic" else {}
    for options in ({}, {"full_cov": True}, {"noisy": True}, {"full_cov": True, "noisy": True}):
        on_device = device_objective.posterior(kernel, 0.2, cupy.asarray(Z)).predict(
            cupy.asarray(NEW), **law, **options
        )
        expected = host_objective.posterior(kernel, 0.2, Z).predict(NEW, **law, **options)
        for computed, other in zip(on_device, expected, strict=True):
            assert isinstance(computed, cupy.ndarray)
            same(computed, other)


@each_kernel
def test_exact_gps_pull_back_by_one_kernel(cupy, kernel) -> None:
    rows, square = np.random.default_rng(2).standard_normal((60, 9)), np.random.default_rng(3).standard_normal((9, 9))
    both = [
        covariances.pull_both(covariances.covariances(kernel, to(Z)), slice(0, 9), to(square), to(kernel(Z)))
        for to in (np.array, cupy.asarray)
    ]
    for near, far in zip(*both, strict=True):
        same(read(far), near, 1e-12)
    weights, a, b = rows[:, 0].copy(), rows[:, 1].copy(), rows[3].copy()
    sums = [covariances.covariances(kernel, to(Z)).pulling() for to in (np.array, cupy.asarray)]
    for each, to in zip(sums, (np.array, cupy.asarray), strict=True):
        for part in (slice(0, 35), slice(35, 60)):
            each.add_rows(*map(to, (X[part], rows[part], weights[part], a[part], b)), to(kernel(X[part], Z)))
        each.add_diagonal(to(X), to(weights))
        each.add_block(to(X), to(np.outer(a, a)), to(kernel(X)))
    for near, far in zip(*(each.result() for each in sums), strict=True):
        same(read(far), near, 1e-12)


@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Poisson(), Bernoulli("probit"), StudentT(4.0, 0.3)], ids=repr)
@pytest.mark.parametrize("spread", [0.5, 1e-5], ids=["wide", "narrow"])
def test_a_free_posterior(cupy, likelihood, spread) -> None:
    """With ``narrow`` the variances at the inducing points are too small to be differences."""
    y = Y if isinstance(likelihood, (Gaussian, StudentT)) else (Y > 0.0) * 1.0
    evaluations = []
    for to in (np.asarray, cupy.asarray):
        J = variational_objective(to(np.vstack([X, Z])), to(np.append(y, y[:9])), likelihood, chunk=25)
        law = FactorLaw(to(Z[:, :1]), to(spread * np.eye(9)))
        evaluations.append(J.minimised(Parameters(SE, likelihood, to(Z), law)))
    near, far = evaluations
    assert far.value == pytest.approx(near.value, rel=1e-9)
    for block in ("kernel", "likelihood", "Z", "mean", "factor"):
        same(getattr(far.gradient, block), getattr(near.gradient, block), 1e-8)


def test_the_least_residual_is_named_once_a_pass(cupy) -> None:
    """The error names the least entry of the diagonal of K − Q, whichever chunk has it."""
    readings = Readings()
    residuals = whitening.Residuals(1.0, readings)
    residuals.of(cupy.asarray([[0.6, 0.8], [0.6, 0.1]]))
    residuals.require()
    readings.settle()
    residuals.of(cupy.asarray([[0.6, 0.8 + 1e-9]]))
    residuals.of(cupy.asarray([[0.1, 0.1]]))
    residuals.require()
    with pytest.raises(NotPositiveDefinite, match=r"K - Q: .* its least entry is -1.6e-09, below"):
        readings.settle()
    residuals.require()  # the chunks of the next pass
    residuals.of(cupy.asarray([[np.nan, 0.1]]))
    residuals.require()
    with pytest.raises(NonFinite, match="NaN or infinity in Kuf"):
        readings.settle()


# ---------------------------------------------------------------------- estimators

settings = {"inducing": Z, "random_state": 0}
PLAIN = {
    "exact": ExactGP(SE, 0.02, random_state=0),
    "renyi": RenyiGP(0.4, SE, 0.02, **settings),
    **{method: SparseGP(method, SE, 0.02, **settings) for method in ("vfe", "fitc", "dtc", "pep")},
    "pic": SparseGP("pic", SE, 0.02, block_size=20, **settings),
    "normalised": SparseGP(kernel=SE, noise=0.02, normalize_y=True, **settings),
}
each_plain = pytest.mark.parametrize("name", PLAIN)
unscaled = (Scaling("fixed in advance", [0.1, 0.2], [1.0, 2.0]), Scaling("fixed in advance", 0.1, 1.0))
pac = {"delta": 0.05, "scaling": unscaled, "random_state": 0}
CERTIFIED = {
    "full": PACGP(**pac),
    **{kind: SparsePACGP(9, kind, inducing=Z, **pac) for kind in ("fitc", "vfe", "interpolated", "free")},
}
RUNS = {
    "none": {"optimizer": None},
    "lbfgs": {"optimizer": "lbfgs", "max_iter": 4},
    "restarts": {"optimizer": "lbfgs", "max_iter": 2, "n_restarts": 2},
    "adam": {"optimizer": "adam", "max_iter": 3},
}


def fitted(model, cupy, **arguments):
    """The same model, fitted on the host and on the device."""
    near = clone(model).set_params(**arguments).fit(X, Y)
    far = clone(model).set_params(device="cuda", **arguments).fit(cupy.asarray(X), cupy.asarray(Y))
    return near, far


def same_predictions(far, near, cupy, within: float) -> None:
    for options in ({}, {"return_std": True}, {"return_cov": True}):
        on_host, on_device = near.predict(NEW, **options), far.predict(cupy.asarray(NEW), **options)
        pairs = zip(on_device, on_host, strict=True) if options else [(on_device, on_host)]
        for first, other in pairs:
            assert isinstance(first, cupy.ndarray)
            same(first, other, within)
    assert isinstance(far.predict(NEW), np.ndarray)


@each_plain
@pytest.mark.parametrize("run", RUNS)
def test_estimators(cupy, name, run) -> None:
    near, far = fitted(PLAIN[name], cupy, **RUNS[run])
    within = 1e-9 if run == "none" else 1e-6
    np.testing.assert_allclose(far.history_, near.history_, rtol=within)
    assert far.objective_ == pytest.approx(near.objective_, rel=within)
    same_predictions(far, near, cupy, within)
    mean, cov = near.predict(NEW, return_cov=True)
    draws = far.sample_y(cupy.asarray(NEW), 4000, random_state=5)
    standard = np.linalg.solve(np.linalg.cholesky(cov + 1e-9 * np.eye(7)), draws - mean[:, None])
    assert np.abs(standard.mean(axis=1)).max() < 5.0 / np.sqrt(4000)
    assert np.abs(standard @ standard.T / 4000 - np.eye(7)).max() < 6.0 * np.sqrt(2.0 / 4000)
    for far_bound, near_bound in zip(far.log_evidence_bounds(), near.log_evidence_bounds(), strict=True):
        assert float(far_bound) == pytest.approx(float(near_bound), rel=10 * within)


@pytest.mark.parametrize("name", ["exact", "renyi"])
def test_mini_batches(cupy, name) -> None:
    near, far = fitted(PLAIN[name], cupy, optimizer="adam", max_iter=3, batch_size=20)
    np.testing.assert_allclose(far.history_, near.history_, rtol=1e-7)


@each_plain
def test_saved_on_a_device_and_loaded_anywhere(cupy, name, tmp_path) -> None:
    _, far = fitted(PLAIN[name], cupy, optimizer="lbfgs", max_iter=2)
    far.save(tmp_path / "model.npz")
    again, on_cpu = load(tmp_path / "model.npz"), load(tmp_path / "model.npz", device="cpu")
    new = cupy.asarray(NEW)
    np.testing.assert_array_equal(host(again.predict(new)), host(far.predict(new)))
    for first, other in zip(on_cpu.predict(NEW, return_std=True), far.predict(new, return_std=True), strict=True):
        same(other, first)


@each_plain
def test_a_checkpoint_goes_on_elsewhere(cupy, name, tmp_path) -> None:
    """Three iterations on the device, continued by three on the host, equal six iterations on the host."""
    histories = []
    for device in ("cpu", "cuda"):
        model = clone(PLAIN[name]).set_params(checkpoint=tmp_path / device, device=device, max_iter=3).fit(X, Y)
        histories.append(model.set_params(device="cpu", max_iter=6).fit(X, Y).history_)
    assert len(histories[0]) == 7
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-6)


def test_inducing_inputs_that_live_on_the_device(cupy) -> None:
    for model in (PLAIN["vfe"], PLAIN["renyi"], CERTIFIED["fitc"], CERTIFIED["free"]):
        near = clone(model).set_params(optimizer=None).fit(X, Y)
        far = clone(model).set_params(optimizer=None, device="cuda", inducing=cupy.asarray(Z))
        far.fit(cupy.asarray(X), cupy.asarray(Y))
        assert isinstance(far.inducing_, np.ndarray)
        assert far.objective_ == pytest.approx(near.objective_, rel=1e-9)


@pytest.mark.parametrize("how", ["greedy", "kdpp", "kmeans", "uniform"])
def test_chosen_inducing_inputs_are_the_hosts(cupy, how) -> None:
    near, far = fitted(
        SparseGP(kernel=SE, noise=0.02, n_inducing=8, inducing=how, random_state=3), cupy, optimizer=None
    )
    np.testing.assert_array_equal(far.inducing_, near.inducing_)


def test_as_many_inducing_inputs_as_the_host_takes(cupy) -> None:
    near, far = fitted(SparseGP(kernel=SE, noise=0.02, n_inducing="auto", target_gap=0.5), cupy, max_iter=3)
    assert far.inducing_.shape == near.inducing_.shape
    assert far.gap_ == pytest.approx(near.gap_, rel=1e-3)


# ---------------------------------------------------------------------- certificates


@pytest.mark.failed_factor
@pytest.mark.parametrize("run", ["none", "lbfgs"])
@pytest.mark.parametrize("name", CERTIFIED)
def test_models_trained_by_their_bound(cupy, name, run) -> None:
    near, far = fitted(CERTIFIED[name], cupy, **RUNS[run])
    np.testing.assert_allclose(far.history_, near.history_, rtol=1e-9 if run == "none" else 1e-6)
    assert far.certificate_.check(X, Y).confirmed
    assert far.bound_ == pytest.approx(near.bound_, rel=5e-5)  # a bound includes errors of R_S up to `COARSE_RISK`
    same_predictions(far, near, cupy, 1e-7 if run == "none" else 1e-4)


def test_a_free_bound_by_mini_batches(cupy, tmp_path) -> None:
    near, far = fitted(CERTIFIED["free"], cupy, optimizer="adam", max_iter=3, batch_size=20)
    np.testing.assert_allclose(far.history_, near.history_, rtol=1e-6)
    far.save(tmp_path / "model.npz")
    same(load(tmp_path / "model.npz", device="cpu").predict(NEW), near.predict(NEW), 1e-5)


@pytest.mark.parametrize("name", ["exact", "renyi", "vfe", "fitc", "dtc", "pep"])
def test_certificates_of_models_from_a_device(cupy, name) -> None:
    near, far = fitted(PLAIN[name], cupy, optimizer="lbfgs", max_iter=2)
    from_device, from_host = (certify(model, X, Y, epsilon=0.6, delta=0.05) for model in (far, near))
    assert from_device.bound == pytest.approx(from_host.bound, rel=1e-6)
    assert from_device.check(X, Y).confirmed
