"""Estimators whose rows have a noise variance each: dense formulas, scikit-learn, one noise for all, certificates."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from thinning import one_in

import fitting
from fitting import PACGP, ExactGP, LowRankGP, RenyiGP, SparseGP, SparsePACGP, VariationalGP, audit, certify
from fitting.bounds import Target, bound_of
from fitting.estimators.kinds import OfRowNoise
from fitting.flatness import sharpness
from fitting.iterative import IterativeEvidence, IterativeRenyi
from fitting.objectives.collapsed import member
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import law_of
from fitting.objectives.objective import Objective, data_of
from fitting.objectives.packing import packing_of
from fitting.objectives.unit_noise import RowNoise, at_rows, of_unit_rows
from fitting.prior_means import PriorMean
from fitting.starts.sufficient import nested
from gpbounds import Matern, SquaredExponential
from gpbounds.kernels import Constant, White
from gpbounds.likelihoods import Gaussian
from gpbounds.losses import Band
from gpbounds.row_noise import at_unit_noise
from gpbounds.whitening import inducing

unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KERNEL = SquaredExponential(1.3, [0.7, 1.9])


def table(seed=0, N=18, D=2, decades=4.0):
    """Rows of a smooth function, with a noise variance for each over some decades."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    noise = 10.0 ** rng.uniform(-decades, 0.0, N)
    return X, np.sin(2.0 * X[:, 0]) + X[:, -1] + np.sqrt(noise) * rng.standard_normal(N), noise


def log_normal(C, y):
    L = np.linalg.cholesky(C)
    half = np.linalg.solve(L, y)
    return -0.5 * half @ half - np.log(np.diag(L)).sum() - 0.5 * len(y) * np.log(2.0 * np.pi)


def nystrom(kernel, X, Z):
    cross = kernel(X, Z)
    return cross @ np.linalg.solve(kernel(Z), cross.T)


BLOCKS = np.arange(18) // 6


def dense(method, kernel, X, r, noise, Z):
    """The objective of a member of the family, from N × N matrices."""
    K, S = kernel(X), np.diag(noise)
    Q = nystrom(kernel, X, Z)
    R, root = K - Q, np.sqrt(np.outer(noise, noise))
    values = {
        "exact": lambda: log_normal(K + S, r),
        "vfe": lambda: log_normal(Q + S, r) - 0.5 * (np.diag(R) / noise).sum(),
        "dtc": lambda: log_normal(Q + S, r),
        "fitc": lambda: log_normal(Q + np.diag(np.diag(R)) + S, r),
        "pep": lambda: (
            log_normal(Q + 0.5 * np.diag(np.diag(R)) + S, r) - 0.5 * np.log1p(0.5 * np.diag(R) / noise).sum()
        ),
        "pic": lambda: log_normal(Q + R * (BLOCKS[:, None] == BLOCKS) + S, r),
        "renyi": lambda: log_normal(Q + 0.5 * R + S, r) - 0.5 * np.linalg.slogdet(np.eye(len(r)) + 0.5 * R / root)[1],
    }
    return values[method]()


def of_member(chosen, X, y, noise, *, blocks=None, jitter="auto"):
    """The objective of the caller's rows."""
    rows = at_unit_noise(Constant(), X, y, noise)
    return of_unit_rows(
        Objective(data_of(rows.X, rows.y, chosen, blocks=blocks, jitter=jitter), law_of(chosen), Evidence()), rows
    )


def slopes(loss, x, step=1e-5):
    return np.array([(loss(x + step * e)[0] - loss(x - step * e)[0]) / (2.0 * step) for e in np.eye(x.size)])


# ---------------------------------------------------------------------- objectives


@pytest.mark.parametrize("method", one_in(3, ["exact", "vfe", "dtc", "pep", "fitc", "pic", "renyi"]))
def test_objective_and_derivatives_are_those_of_dense_formulas_and_differences(method):
    X, y, noise = table()
    Z = X[:5] + 0.1
    chosen = member(method, power=0.5 if method == "pep" else None, alpha=0.5 if method == "renyi" else None)
    F = of_member(chosen, X, y, noise, blocks=BLOCKS if method == "pic" else None, jitter=0.0)
    mean = PriorMean.least_squares("linear", X, y[:, None])
    point = replace(at_rows(KERNEL, noise, None if method == "exact" else Z), prior_mean=mean)
    expected = dense(method, KERNEL, X, y - mean(X)[:, 0], noise, Z)
    assert -F.minimised(point).value == pytest.approx(expected, rel=1e-9)
    layout = packing_of(point, learn_Z=method != "exact", fixed=(), limits={}, scale=np.ones(2))
    loss, x = layout.loss(F), layout.pack(point)
    assert layout.names[:3] == KERNEL.parameter_names  # no noise, no factor w·w'
    assert x.size == 3 + 3 + (0 if method == "exact" else 10)  # no column of ones
    np.testing.assert_allclose(loss(x)[1], slopes(loss, x), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("kind", "alpha"), [(IterativeEvidence, None), (IterativeRenyi, 0.5)])
def test_estimates_by_iterations_are_those_of_rows_with_their_noise(kind, alpha):
    """So few rows have a complete factor: the estimate is exact."""
    X, y, noise = table(1)
    chosen = member("exact") if alpha is None else member("renyi", alpha=alpha)
    rows = at_unit_noise(KERNEL, X, y, noise)
    data = replace(data_of(rows.X, rows.y, chosen, jitter=0.0), parts=None)
    F = of_unit_rows(kind(data, chosen), rows)
    point = at_rows(KERNEL, noise, None if alpha is None else X[:5] + 0.1)
    F = F.prepared(point, (0, 1))
    assert not F.is_stale(point)
    expected = dense("exact" if alpha is None else "renyi", KERNEL, X, y, noise, X[:5] + 0.1)
    assert -F.minimised(point).value == pytest.approx(expected, rel=1e-6)
    errors = F.standard_errors(point)
    assert errors.kernel.shape == (3,)
    assert errors.likelihood.size == 0


def test_a_batch_counts_its_rows_as_often_as_they_stand_for():
    X, y, noise = table(2)
    F, some = of_member(member("exact"), X, y, noise), np.array([1, 4, 7, 11])
    expected = 18 / 4 * log_normal(KERNEL(X[some]) + np.diag(noise[some]), y[some])
    assert -F.batch(some).minimised(at_rows(KERNEL, noise)).value == pytest.approx(expected, rel=1e-10)


def test_the_bound_on_the_risk_is_that_of_the_posterior_given_these_rows():
    X, y, noise = table(3)
    rows, loss = at_unit_noise(KERNEL, X, y, noise), Band(0.5)
    for chosen, Z in ((member("exact"), None), (member("fitc"), X[:5] + 0.1)):
        kind = OfRowNoise(chosen, rows, noise)
        B = kind.bound(data_of(rows.X, rows.y, chosen, jitter=0.0), loss, KERNEL, delta=0.05)
        terms = B.terms_at(at_rows(KERNEL, noise, Z))
        K, noise_of_q = KERNEL(X), noise.copy()
        if Z is not None:
            Q = nystrom(KERNEL, X, Z)
            K, noise_of_q = Q, noise + np.diag(KERNEL(X) - Q)
        gain = K @ np.linalg.inv(K + np.diag(noise_of_q))
        cov = K - gain @ K + np.diag(np.diag(KERNEL(X) - K))
        kl = 0.5 * (
            np.linalg.slogdet(np.eye(18) + K / noise_of_q)[1] - np.trace(gain)
        ) + 0.5 * y @ gain.T @ np.linalg.solve(K + np.diag(noise_of_q), y)
        assert terms.kl == pytest.approx(kl, rel=1e-6)
        risk = np.mean(loss.expectation(y, gain @ y, np.diag(cov)))
        assert terms.risk == pytest.approx(risk, rel=1e-6)
        point = at_rows(KERNEL, noise, Z)
        layout = packing_of(point, learn_Z=Z is not None, fixed=(), limits={}, scale=np.ones(2))
        price, x = layout.loss(B), layout.pack(point)
        np.testing.assert_allclose(price(x)[1], slopes(price, x), rtol=1e-4, atol=1e-6)


def test_the_target_of_one_noise_is_the_bound_of_equal_ones():
    X, y, _ = table(4)
    rows, options = at_unit_noise(KERNEL, X, y, np.full(18, 0.3)), {"delta": 0.05}
    one = bound_of(data_of(X, y, member("exact")), law_of(member("exact")), Target(Band(0.5), 18, **options))
    each = OfRowNoise(member("exact"), rows, rows.noise).bound(
        data_of(rows.X, rows.y, member("exact")), Band(0.5), KERNEL, **options
    )
    expected = one.minimised(replace(at_rows(KERNEL, rows.noise), likelihood=Gaussian(0.3))).value
    assert each.minimised(at_rows(KERNEL, rows.noise)).value == pytest.approx(expected, rel=1e-10)


# ---------------------------------------------------------------------- estimators at given hyperparameters

GIVEN = {
    "exact": (ExactGP, {}),
    "vfe": (SparseGP, {"n_inducing": 6, "inducing": "greedy"}),
    "fitc": (SparseGP, {"method": "fitc", "n_inducing": 6}),
    "renyi": (RenyiGP, {"alpha": 0.5, "n_inducing": 6}),
    "pic": (SparseGP, {"method": "pic", "n_inducing": 6, "block_size": 6}),
}
NEW = np.random.default_rng(9).uniform(-3.0, 3.0, (7, 2))


def at_given(name, X, y, noise, **more):
    kind, options = GIVEN[name]
    return kind(kernel=KERNEL, noise=noise, optimizer=None, random_state=0, **{**options, **more}).fit(X, y)


def equal_noise_is_one_noise(seed, noise, name, scaled):
    X, y, _ = table(seed)
    unit = y.var() if scaled else 1.0  # one noise is in the units of the model, a noise per row in those of y
    one = at_given(name, X, y, noise, normalize_y=scaled)
    each = at_given(name, X, y, np.full(18, noise * unit), normalize_y=scaled)
    assert each.objective_ == pytest.approx(one.objective_, rel=1e-7, abs=1e-7)
    for a, b in zip(each.predict(NEW, return_std=True), one.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([1e-4, 0.1, 30.0]), st.sampled_from(sorted(GIVEN)), st.booleans())
def test_equal_noise_is_one_noise(seed, noise, name, scaled):
    equal_noise_is_one_noise(seed, noise, name, scaled)


@pytest.mark.parametrize(("name", "scaled"), [("exact", True), ("vfe", False), ("renyi", True)])
def test_equal_noise_is_one_noise_for_some_rows(name, scaled):
    equal_noise_is_one_noise(3, 0.1, name, scaled)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(["exact", "vfe", "renyi"]))
def test_the_order_of_rows_does_not_matter(seed, name):
    X, y, noise = table(seed)
    order = np.random.default_rng(seed).permutation(18)
    places = {} if name == "exact" else {"inducing": X[:6]}
    first, second = (at_given(name, X[i], y[i], noise[i], **places) for i in (slice(None), order))
    assert first.objective_ == pytest.approx(second.objective_, rel=1e-8)
    np.testing.assert_allclose(first.predict(NEW), second.predict(NEW), rtol=1e-6, atol=1e-7)


@given(st.integers(0, 10**6), st.sampled_from(["zero", "constant"]))
def test_other_units_of_y_are_other_units_of_its_noise(seed, mean):
    X, y, noise = table(seed)
    first = at_given("exact", X, y, noise, normalize_y=True, mean=mean)
    second = at_given("exact", X, 7.0 - 4.0 * y, 16.0 * noise, normalize_y=True, mean=mean)
    assert second.objective_ == pytest.approx(first.objective_, rel=1e-9)
    np.testing.assert_allclose(second.predict(NEW), 7.0 - 4.0 * first.predict(NEW), rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(second.noise_, 16.0 * noise)


def test_predictions_are_those_of_scikit_learn_with_an_array_alpha():
    X, y, noise = table(5, N=30)
    peer = GaussianProcessRegressor(ConstantKernel(1.3) * RBF([0.7, 1.9]), alpha=noise, optimizer=None).fit(X, y)
    model = ExactGP(KERNEL, noise, optimizer=None).fit(X, y)
    assert model.objective_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-12)
    value, gradient = model.log_marginal_likelihood(KERNEL.log_parameters, eval_gradient=True)
    expected, slope = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9)
    for ours, theirs in zip(model.predict(NEW, return_cov=True), peer.predict(NEW, return_cov=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", one_in(4, sorted(GIVEN)))
def test_bounds_on_the_evidence_enclose_that_of_these_rows(name):
    X, y, noise = table(6)
    model = at_given(name, X, y, noise, mean="constant")
    exact = log_normal(KERNEL(X) + np.diag(noise), y - model.mean_.intercept)
    lower, upper = model.log_evidence_bounds()
    assert float(lower) - 1e-9 <= exact <= float(upper) + 1e-9
    assert float(upper) - float(lower) < 20.0


def test_predictions_of_observations_need_the_noise_of_theirs():
    X, y, noise = table(7)
    for name in ("exact", "fitc", "pic"):
        model = at_given(name, X, y, noise, normalize_y=True)
        std = model.predict(NEW, return_std=True)[1]
        new = np.linspace(0.1, 2.0, 7)
        np.testing.assert_allclose(
            model.predict(NEW, return_std=True, noisy=True, noise=new)[1], np.sqrt(std**2 + new), rtol=1e-10
        )
        cov = model.predict(NEW, return_cov=True)[1]
        np.testing.assert_allclose(
            model.predict(NEW, return_cov=True, noisy=True, noise=0.5)[1], cov + 0.5 * np.eye(7), rtol=1e-10, atol=1e-12
        )
        low, high = model.predict_interval(NEW, level=0.9, noise=new)
        np.testing.assert_allclose(high - low, 2.0 * 1.6448536269514722 * np.sqrt(std**2 + new), rtol=1e-9)
        density = model.log_predictive_density(NEW, np.zeros(7), noise=new)
        expected = -0.5 * (model.predict(NEW) ** 2 / (std**2 + new) + np.log(2.0 * np.pi * (std**2 + new)))
        np.testing.assert_allclose(density, expected, rtol=1e-9)
        assert model.sample_y(NEW, 3, noisy=True, noise=0.5).shape == (7, 3)
        for call in (
            lambda model=model: model.predict(NEW, return_std=True, noisy=True),
            lambda model=model: model.predict_interval(NEW),
            lambda model=model: model.sample_y(NEW, noisy=True),
        ):
            with pytest.raises(ValueError, match="noise: expected the noise variance of each new row"):
                call()
    with pytest.raises(
        ValueError, match=r"noise: expected one number, or one for each of 7 rows of X, got shape \(6,\)"
    ):
        model.predict(NEW, return_std=True, noisy=True, noise=np.ones(6))
    with pytest.raises(ValueError, match="noise: expected None for predictions of f"):
        model.predict(NEW, noise=0.1)


def test_one_noise_may_be_another_one_for_new_rows():
    X, y, _ = table(7)
    model = at_given("vfe", X, y, 0.1)
    std = model.predict(NEW, return_std=True)[1]
    np.testing.assert_allclose(model.predict(NEW, return_std=True, noisy=True, noise=0.4)[1], np.sqrt(std**2 + 0.4))


# ---------------------------------------------------------------------- training


TRAINED = {
    "sparse": lambda noise: SparseGP(noise=noise, n_inducing=6, mean="linear", fixed="noise"),
    "exact": lambda noise: ExactGP(noise=noise, mean="constant", n_restarts=1),
    "renyi": lambda noise: RenyiGP(noise=noise.tolist(), n_inducing=6, fixed=("noise",), lengthscales="shared"),
    "batches": lambda noise: ExactGP("matern32", noise=noise, optimizer="adam", batch_size=10),
    "blocks": lambda noise: SparseGP(noise=noise, n_inducing=6, structure="auto", block_size=10),
}


@unconverged
@pytest.mark.usefixtures("short_pilots")
@pytest.mark.parametrize("name", one_in(5, list(TRAINED)))
def test_training_moves_kernel_points_and_mean_and_leaves_the_noise(name):
    X, y, noise = table(8, N=40)
    passed, model = noise.copy(), TRAINED[name](noise)
    kept = clone(model).set_params(max_iter=8, random_state=0).fit(X, y)
    np.testing.assert_array_equal(kept.noise_, passed)
    assert kept.noise_ is not noise
    assert kept.kernel_.lengthscale.shape == (2,)
    assert getattr(kept, "inducing_", np.zeros((0, 2))).shape[1] == 2
    assert not any("noise" in name for remark in kept.remarks_ for name in remark.names)
    assert kept.objective_ > kept.history_[0]  # mini-batches: where training starts
    np.testing.assert_array_equal(noise, passed)


@unconverged
@pytest.mark.slow
def test_trained_by_iterations_and_by_factors_are_the_same_model():
    X, y, noise = table(9, N=40)
    one, other = (
        kind(noise=noise, random_state=0, max_iter=15, solver=solver, start="scale", **options).fit(X, y)
        for kind, options, solver in ((ExactGP, {}, "cholesky"), (ExactGP, {}, "iterative"))
    )
    assert other.objective_ == pytest.approx(one.objective_, abs=1e-3)
    lower, upper = other.evidence_bounds_
    assert float(lower) <= log_normal(other.kernel_(X) + np.diag(noise), y) <= float(upper)
    np.testing.assert_allclose(other.predict(NEW), one.predict(NEW), atol=1e-2)
    with pytest.raises(ValueError, match="noise: expected the noise variance of each new row"):
        other.predict(NEW, return_std=True, noisy=True)


def test_the_least_number_of_points_is_proved_for_these_rows():
    X, y, noise = table(10, N=40)
    for alpha in (1.0, 0.5):
        order = nested(KERNEL, X, y[:, None], noise=noise, alpha=alpha, target=0.1, most=40)
        Z, gap = order.least()
        F = of_member(
            member("vfe" if alpha == 1.0 else "renyi", alpha=None if alpha == 1.0 else alpha), X, y, noise, jitter=0.0
        )
        true = log_normal(KERNEL(X) + np.diag(noise), y) + F.minimised(at_rows(KERNEL, noise, Z), gradient=False).value
        assert Z.shape[1] == 2
        assert true - 1e-9 <= gap <= 0.1


@unconverged
@pytest.mark.slow
def test_auto_grows_until_the_gap_of_these_rows_is_small():
    X, y, noise = table(11, N=80)
    for model in (
        SparseGP(noise=noise, n_inducing="auto"),
        RenyiGP(0.5, noise=noise, n_inducing="auto", target_gap=0.1),
    ):
        kept = model.fit(X, y)
        exact = log_normal(kept.kernel_(X) + np.diag(noise), y)
        assert exact - kept.objective_ - 1e-7 <= kept.gap_ <= model.target_gap


@unconverged
@pytest.mark.slow
@pytest.mark.parametrize("draws", [4, "certain"])
@pytest.mark.parametrize("number", [8, "auto"])
def test_the_best_of_several_draws_has_a_bound_for_these_rows(draws, number):
    X, y, noise = table(20, N=40)
    X[3] = X[4]
    model = SparseGP(noise=noise, n_inducing=number, inducing="best", draws=draws, random_state=0, max_iter=30).fit(
        X, y
    )
    exact = log_normal(model.kernel_(X) + np.diag(noise), y)
    assert model.inducing_.shape[1] == 2
    assert exact - model.objective_ - 1e-7 <= float(model.bound_)
    assert "N-rows-noise" in model.bound_.claim


@pytest.mark.parametrize("name", one_in(3, [*sorted(GIVEN), "renyi, iterative", "iterative"]))
def test_files_keep_the_noise_of_rows(name, tmp_path):
    X, y, noise = table(12)
    if name in GIVEN:
        model = at_given(name, X, y, noise, normalize_y=True, mean="constant")
    else:
        kind, options = (ExactGP, {}) if name == "iterative" else (RenyiGP, {"n_inducing": 5})
        model = kind(kernel=KERNEL, noise=noise, optimizer=None, solver="iterative", **options).fit(X, y)
    model.save(tmp_path / "model.npz")
    read = fitting.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(read.noise_, noise)
    for options in ({"return_std": True}, {"return_std": True, "noisy": True, "noise": 0.2}):
        for a, b in zip(read.predict(NEW, **options), model.predict(NEW, **options), strict=True):
            np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------- certificates


@unconverged
def test_certificates_of_rows_with_their_noise_are_confirmed(tmp_path):
    X, y, noise = table(13, N=30, D=1)
    model = PACGP(epsilon=0.6, delta=0.05, noise=noise, max_iter=3, start="scale").fit(X, y)
    assert model.certificate_.check(X, y).confirmed
    assert model.bound_ == pytest.approx(-model.objective_, rel=1e-4)
    np.testing.assert_array_equal(model.noise_, noise)
    exact = ExactGP(model.kernel_, noise, optimizer=None).fit(X, y)
    new = np.linspace(-3.0, 3.0, 9)[:, None]
    for a, b in zip(model.predict(new, return_std=True), exact.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(fitting.load(tmp_path / "model.npz").predict(new), model.predict(new))
    issued = certify(exact, X, y, epsilon=0.6, delta=0.05)
    assert issued.check(X, y).confirmed
    assert not issued.check(X, y + 0.5 * np.sin(9.0 * X[:, 0])).confirmed


@unconverged
@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_a_prior_from_some_rows_has_their_noise(sparse, tmp_path):
    X, y, noise = table(18, N=60, D=1)
    settings = {"noise": noise, "prior": "data", "delta": 0.05, "epsilon": 0.6, "scaling": "prior"}
    model = (SparsePACGP(6, posterior="vfe", **settings) if sparse else PACGP(**settings)).fit(X, y)
    assert model.certificate_.check(X, y).confirmed
    assert model.certificate_.rows == 30
    np.testing.assert_array_equal(model.noise_, noise)
    inner, q = model.split_.prior(60), model.certificate_.posterior
    scale, places = float(np.ravel(model.outputs_.scale)[0]), model.inputs_.apply(np.linspace(-2.0, 2.0, 5)[:, None])
    if not sparse:  # P is the posterior of those rows with their noise
        given = model.inputs_.apply(X[inner]), model.outputs_.apply(y[inner])
        exact = ExactGP(model.kernel_, noise[inner] / scale**2, optimizer=None).fit(*given)
        law = inducing(model.kernel_, q.Z, q.jitter)
        np.testing.assert_allclose(law.whiten(places).T @ q.prior_mean, exact.predict(places), rtol=1e-3, atol=1e-3)
    new = np.linspace(-2.0, 2.0, 5)[:, None]
    with pytest.raises(ValueError, match="noise: expected the noise variance of each new row"):
        model.predict(new, return_std=True, noisy=True)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(fitting.load(tmp_path / "model.npz").predict(new), model.predict(new))


@unconverged
@pytest.mark.slow
def test_certificates_of_rows_with_their_noise_are_proved():
    X, y, noise = table(13, N=40, D=1)
    model = PACGP((0.4, 0.8), delta=0.05, noise=noise).fit(X, y)
    assert len(model.models()) == 2
    for each in model.models():
        assert each.certificate_.check(X, y, rigorous=True).confirmed
    unseen, targets, _ = table(14, N=50, D=1)
    sparse = SparsePACGP(5, posterior="vfe", noise=noise, delta=0.05).fit(X, y)
    assert sparse.certificate_.check(X, y, rigorous=True).confirmed
    for kept in (
        ExactGP(noise=noise).fit(X, y),
        SparseGP("fitc", noise=noise, n_inducing=6).fit(X, y),
        RenyiGP(noise=noise, n_inducing=6).fit(X, y),
    ):
        assert certify(kept, X, y, epsilon=0.6, delta=0.05).check(X, y).confirmed
        for method in ("data-prior", "held-out"):
            issued = certify(kept, unseen, targets, epsilon=0.6, delta=0.05, method=method)
            assert issued.check(unseen, targets).confirmed


# ---------------------------------------------------------------------- refusals


def test_what_takes_one_noise_says_why(tmp_path):
    X, y, noise = table(15)
    kept = at_given("exact", X, y, noise)
    other, outputs = noise[:-1], np.column_stack([y, 2.0 * y])
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    calls = {
        r"noise: expected one number for VariationalGP.*sample_weight": lambda: VariationalGP(noise=noise).fit(X, y),
        r"noise: expected one number for LowRankGP": lambda: LowRankGP(rank=4, noise=noise).fit(X, y),
        r"noise: expected one number for posterior='free'": lambda: SparsePACGP(4, posterior="free", noise=noise).fit(
            X, y
        ),
        r"noise: expected one number, or shape \(18,\)": lambda: ExactGP(noise=other).fit(X, y),
        r"noise: expected a positive finite number": lambda: ExactGP(noise=np.append(other, -1.0)).fit(X, y),
        r"noise: expected a positive finite": lambda: ExactGP(noise=np.append(other, np.nan)).fit(X, y),
        r"normalize_y: expected False": lambda: ExactGP(noise=noise, normalize_y=True).fit(X, outputs),
        r"kernel: expected one without White": lambda: ExactGP(KERNEL + White(0.1), noise).fit(X, y),
        r"limits: expected names among": lambda: ExactGP(noise=noise, limits={"noise": (0.1, 1.0)}).fit(X, y),
        r"noise: expected one number for rows that are read by partitions": lambda: SparseGP(noise=noise).fit(
            str(tmp_path / "X.npy"), str(tmp_path / "y.npy")
        ),
        r"model: expected one whose rows share a noise variance.*x includes": lambda: sharpness(kept, X, y),
        r"model: expected one whose rows share a noise variance.*bounds its log p": lambda: audit(kept, X, y),
        r"model: expected a fitted one if each row has a noise": lambda: certify(
            ExactGP(noise=noise), X, y, method="held-out", epsilon=0.5, delta=0.05
        ),
        r"theta: expected 3 logarithms": lambda: kept.log_marginal_likelihood(np.zeros(4)),
    }
    for words, call in calls.items():
        with pytest.raises(ValueError, match=words):
            call()
    assert ExactGP(Matern(1.5, 1.0, [1.0, 1.0]), np.tile(noise, 1), optimizer=None).fit(X, outputs).objective_ < 0.0


@pytest.mark.slow
def test_a_weight_of_each_row_is_its_noise_for_the_variational_model():
    """What the refusal of `VariationalGP` advises."""
    X, y, noise = table(16)
    advised = VariationalGP(
        n_inducing=18,
        kernel=KERNEL,
        noise=1.0,
        fixed=("noise", "kernel"),
        learn_inducing=False,
        inducing=X,
        optimizer="natgrad",
    ).fit(X, y, sample_weight=1.0 / noise)
    exact = at_given("exact", X, y, noise)
    np.testing.assert_allclose(advised.predict(NEW), exact.predict(NEW), rtol=1e-3, atol=1e-3)


def test_the_noise_of_a_point_is_no_parameter():
    noise = RowNoise(np.array([0.1, 0.2, 0.3]))
    assert noise.log_parameters.size == 0
    assert noise.with_log_parameters(np.zeros(0)) is noise
    np.testing.assert_array_equal(noise.of(np.array([2, 0])).noise, [0.3, 0.1])
    X, y, variances = table()
    with pytest.raises(ValueError, match="noise: expected the noise variances of the rows of this objective"):
        of_member(member("exact"), X, y, variances).evaluate(KERNEL, 2.0 * variances)


@pytest.mark.slow
def test_the_noise_of_each_row_pays_where_it_differs(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    script = importlib.import_module("noise_per_row")
    script.main(["--quick", "--out", str(tmp_path / "study.png")])
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    rows = script.load(tmp_path / "study.csv", script.Row)
    at = {ratio: [each for each in rows if each.ratio == ratio] for ratio in script.ratios_of(rows)}
    assert sorted(at) == [1.0, 100.0]
    assert np.mean([each.own_rmse / each.one_rmse for each in at[100.0]]) < 0.6
    assert np.mean([each.one_worse for each in at[100.0]]) < 0.85 < np.mean([each.own_worse for each in at[100.0]])


# ---------------------------------------------------------------------- on a device


@pytest.mark.gpu
@unconverged
@pytest.mark.parametrize("name", sorted(GIVEN))
def test_device_and_host_agree(cupy, name):
    X, y, noise = table(17)
    model, other = at_given(name, X, y, noise), at_given(name, X, y, noise, device="cuda")
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-9)
    there = other.predict(cupy.asarray(NEW), return_std=True, noisy=True, noise=0.2)
    for a, b in zip(there, model.predict(NEW, return_std=True, noisy=True, noise=0.2), strict=True):
        np.testing.assert_allclose(cupy.asnumpy(a), b, rtol=1e-7, atol=1e-8)
