"""Variational estimators: the models they equal, stages of training, predictions, protocol, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from thinning import one_in

import fitting
from fitting import SparseGP, VariationalGP, VariationalGPClassifier
from fitting.estimators.variational import grid
from fitting.objectives import laws
from fitting.objectives.objective import objective, variational_objective
from fitting.objectives.point import Parameters
from gpbounds import SquaredExponential
from gpbounds.likelihoods import Gaussian, StudentT

KERNEL = SquaredExponential(0.7, [0.9, 1.4])
Z = np.random.default_rng(2).uniform(-2.0, 2.0, (7, 2))
NEW = np.random.default_rng(1).uniform(-3.0, 3.0, (5, 2))
GIVEN = {"kernel": KERNEL, "inducing": Z, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])
    return X, f + 0.1 * rng.standard_normal(60), rng.poisson(np.exp(1.0 + f)).astype(float), f


@pytest.mark.usefixtures("short_pilots")
@parametrize_with_checks(
    [
        VariationalGP(6, max_iter=3, random_state=0, start="scale"),
        VariationalGPClassifier(6, max_iter=3, random_state=0, start="scale"),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "the objectives agree to the last digits "
        "(tests/test_sample_weight.py); training starts from other rows and ends by tol"
    },
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def test_the_gaussian_elbo_is_vfe(data):
    """With everything trained, and with q free at the trained point."""
    X, y, *_ = data
    vfe = SparseGP("vfe", KERNEL, 0.05, inducing=Z).fit(X, y)
    model = VariationalGP(noise=0.05, **GIVEN).fit(X, y)
    assert model.objective_ == pytest.approx(vfe.objective_, abs=2e-2)
    here = objective(X, y, jitter=model.jitter_).evaluate(model.kernel_, model.noise_, model.inducing_).value
    assert model.objective_ == pytest.approx(here, rel=1e-8)
    mean, std = model.predict(NEW, return_std=True)
    mean_of_vfe, std_of_vfe = vfe.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, mean_of_vfe, atol=0.1)
    np.testing.assert_allclose(std, std_of_vfe, atol=0.1)
    noisy = model.predict(NEW, return_std=True, noisy=True)[1]
    np.testing.assert_allclose(noisy**2, std**2 + model.noise_, rtol=1e-10)
    density = model.log_predictive_density(NEW, mean + 0.3)
    np.testing.assert_allclose(density, -0.5 * np.log(2 * np.pi * noisy**2) - 0.045 / noisy**2, rtol=1e-9)
    lower, upper = model.log_evidence_bounds()
    assert lower <= upper


@pytest.mark.parametrize("beta", [0.3, 4.0])
def test_another_weight_of_the_kl_for_vfe(beta, data):
    """SparseGP with β is the model of VariationalGP with β, whose observations keep the noise σ²."""
    X, y, *_ = data
    sparse = SparseGP("vfe", KERNEL, 0.05, beta=beta, inducing=Z, max_iter=25).fit(X, y)
    model = VariationalGP(noise=0.05, beta=beta, max_iter=25, **GIVEN).fit(X, y)
    J = variational_objective(X, y, beta=beta, jitter=model.jitter_)
    point = J.complete(Parameters(sparse.kernel_, Gaussian(sparse.noise_), sparse.inducing_))
    assert -J.minimised(point, gradient=False).value == pytest.approx(sparse.objective_, abs=1e-4)
    assert model.objective_ == pytest.approx(sparse.objective_, abs=0.05)
    posterior = J.posterior_at(point)
    for noisy in (False, True):
        mean, variance = posterior.predict(NEW, noisy=noisy)
        got = sparse.predict(NEW, return_std=True, noisy=noisy)
        np.testing.assert_allclose(got, (mean, np.sqrt(variance)), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="beta: expected 1"):
        SparseGP("fitc", beta=beta).fit(X, y)
    with pytest.raises(ValueError, match="inducing: expected 'best'"):
        SparseGP("vfe", beta=beta, inducing="best").fit(X, y)


@pytest.mark.broad
@pytest.mark.parametrize("power", [0.4, 1.0])
def test_power_ep_by_mini_batches_and_in_closed_form(power, data):
    X, y, *_ = data
    sparse = SparseGP("pep", KERNEL, 0.05, power=power, inducing=Z, max_iter=30).fit(X, y)
    model = VariationalGP(objective="pep", power=power, noise=0.05, max_iter=30, **GIVEN).fit(X, y)
    F = objective(X, y, "pep", power=power, jitter=model.jitter_)
    here = F.evaluate(model.kernel_, model.noise_, model.inducing_, gradient=False).value
    assert model.objective_ == pytest.approx(here, rel=1e-8)
    assert model.objective_ == pytest.approx(sparse.objective_, abs=0.1)
    batches = clone(model).set_params(optimizer="adam", batch_size=30, max_iter=200, learning_rate=0.01).fit(X, y)
    start = clone(model).set_params(optimizer=None).fit(X, y)
    assert start.objective_ + 0.5 * (here - start.objective_) < batches.objective_ < here + 1.0


@pytest.fixture(scope="module")
def by_exact_gradients(data):
    """Trained for the log loss from the ELBO's q, at its hyperparameters."""
    X, _, counts, _ = data
    options = {"objective": "log-loss", "hyperparameters": "fixed", "optimizer": "adam", "learning_rate": 0.01, **GIVEN}
    return VariationalGP(likelihood="poisson", max_iter=40, **options).fit(X, counts)


@pytest.mark.broad
@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize("gradient", ["bmc", "smooth-bmc", "ups"])
def test_sampled_gradients_lower_the_exact_log_loss(gradient, batch_size, data, by_exact_gradients):
    X, _, counts, _ = data
    exact = by_exact_gradients
    model = clone(exact).set_params(gradient=gradient, samples=20, batch_size=batch_size).fit(X, counts)
    start = model.runs_[-1].values[0] if batch_size is None else -np.inf
    assert start < model.objective_ <= exact.objective_ + 0.5


@pytest.mark.parametrize("likelihood", ["poisson", "student-t", "gaussian"])
def test_where_nothing_is_left_to_train_q_is_the_best_one(likelihood, data):
    """For counts and Student-t noise the fit had ended in an error without a sentence."""
    X, y, counts, _ = data
    targets = counts if likelihood == "poisson" else y
    model = VariationalGP(likelihood=likelihood, learn_inducing=False, fixed="all", **GIVEN).fit(X, targets)
    J, q = variational_objective(X, targets, likelihood, jitter=model.jitter_), model.posterior_.q
    given = (model.kernel_, model.likelihood_, model.inducing_)
    assert model.objective_ == pytest.approx(J.evaluate(*given, q.mean, q.factor, gradient=False).value, rel=1e-9)
    for scale in (0.99, 1.01):
        assert J.evaluate(*given, scale * q.mean, q.factor, gradient=False).value < model.objective_
        assert J.evaluate(*given, q.mean, scale * q.factor, gradient=False).value < model.objective_


@pytest.mark.slow
def test_mini_batches_approach_the_optimum_of_all_rows(data, monkeypatch):
    """From the prior."""
    X, _, counts, _ = data
    q_alone = {"fixed": tuple(KERNEL.parameter_names), "learn_inducing": False}
    whole = VariationalGP(likelihood="poisson", tol=0.0, **q_alone, **GIVEN).fit(X, counts)
    monkeypatch.setattr(laws, "settled", lambda problem, prior: prior)
    batches = clone(whole).set_params(optimizer="adam", batch_size=30, max_iter=400, learning_rate=0.02).fit(X, counts)
    untrained = clone(batches).set_params(max_iter=1, learning_rate=1e-12).fit(X, counts)
    assert whole.objective_ - 0.1 * (whole.objective_ - untrained.objective_) < batches.objective_ < whole.objective_


@pytest.mark.broad
@pytest.mark.parametrize("likelihood", one_in(2, ["gaussian", "poisson", "student-t"]))
@pytest.mark.parametrize("name", ["log-loss", "power"])
def test_a_direct_loss_is_lower_after_its_own_training(likelihood, name, data):
    X, y, counts, _ = data
    targets = counts if likelihood == "poisson" else y
    options = {"objective": name, "power": 0.5, "max_iter": 20}
    elbo = VariationalGP(likelihood=likelihood, max_iter=20, **GIVEN).fit(X, targets)
    joint = VariationalGP(likelihood=likelihood, **options, **GIVEN).fit(X, targets)
    fixed = VariationalGP(likelihood=likelihood, **options, hyperparameters="fixed", **GIVEN).fit(X, targets)
    J = variational_objective(X, targets, likelihood, name, power=0.5, jitter=elbo.jitter_)
    q = elbo.posterior_.q
    at_elbo = J.evaluate(elbo.kernel_, elbo.likelihood_, elbo.inducing_, q.mean, q.factor, gradient=False).value
    assert fixed.runs_[1].values[0] < fixed.objective_ - 1e-3
    assert joint.runs_[1].values[0] < joint.objective_ - 1e-3
    if (name, likelihood) != ("power", "student-t"):  # whose degrees of freedom have another limit
        assert fixed.runs_[1].values[0] == pytest.approx(at_elbo, rel=1e-9)
        assert fixed.kernel_ == elbo.kernel_
        assert fixed.likelihood_ == elbo.likelihood_
        np.testing.assert_array_equal(fixed.inducing_, elbo.inducing_)
    assert [len(model.runs_) for model in (elbo, fixed, joint)] == [1, 2, 3]
    assert joint.objective_ == pytest.approx(max(run.value for run in joint.runs_[1:]), rel=1e-9)


def test_the_square_loss_keeps_the_variance_of_the_elbo(data):
    X, y, *_ = data
    elbo = VariationalGP(noise=0.05, max_iter=40, **GIVEN).fit(X, y)
    model = VariationalGP(noise=0.05, objective="square-loss", beta=0.1, max_iter=40, **GIVEN).fit(X, y)
    assert model.kernel_.variance == elbo.kernel_.variance
    assert model.noise_ == elbo.noise_
    fixed = clone(model).set_params(hyperparameters="fixed").fit(X, y)
    vfe = objective(X, y, jitter=fixed.jitter_).posterior(fixed.kernel_, 0.1, fixed.inducing_)
    np.testing.assert_allclose(fixed.predict(NEW), vfe.predict(NEW)[0], atol=1e-7)
    assert model.objective_ >= fixed.objective_ - 1e-9


def test_counts_are_predicted_by_their_mean(data):
    rng = np.random.default_rng(3)
    X = rng.uniform(-3.0, 3.0, (60, 1))
    rate = np.exp(1.0 + 1.2 * np.sin(2.0 * X[:, 0]))
    counts = rng.poisson(rate)
    model = VariationalGP(10, "poisson", random_state=0).fit(X, counts)
    mean, std = model.latent(X, return_std=True)
    np.testing.assert_allclose(model.predict(X), np.exp(mean + 0.5 * std**2), rtol=1e-10)
    assert np.mean((model.predict(X) - rate) ** 2) < 0.1 * np.var(rate)
    density = model.log_predictive_density(X, counts)
    assert density.shape == (60,)
    total = sum(np.exp(model.log_predictive_density(X, np.full(60, float(k)))) for k in range(150))
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)
    with pytest.raises(ValueError, match="expected False for counts"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match="Gaussian likelihood"):
        model.log_evidence_bounds()
    draws = model.sample_y(X[:1], 4000)
    assert draws.mean() == pytest.approx(mean[0], abs=4.0 * std[0] / np.sqrt(4000.0))


@pytest.mark.slow
def test_outliers_do_not_move_a_student(data):
    X, y, _, f = data
    spoilt = y.copy()
    spoilt[::10] += 8.0
    student = VariationalGP(12, "student-t", random_state=0).fit(X, spoilt)
    gaussian = VariationalGP(12, random_state=0).fit(X, spoilt)
    errors = [np.mean((model.predict(X) - f) ** 2) for model in (student, gaussian)]
    assert errors[0] < 0.3 * errors[1]
    assert student.likelihood_.df < 10.0
    scaled = VariationalGP(12, "student-t", random_state=0, normalize_y=True, max_iter=20).fit(X, 10.0 * spoilt + 3.0)
    targets = np.linspace(-3000.0, 3000.0, 60001)
    density = np.exp(scaled.log_predictive_density(np.repeat(NEW[:1], targets.size, axis=0), targets))
    assert density.sum() * 0.1 == pytest.approx(1.0, abs=1e-2)  # heavy tails


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_a_classifier_learns_its_labels(likelihood, data):
    X, *_, f = data
    labels = np.where(f > 0.0, "yes", "no")
    model = VariationalGPClassifier(15, likelihood, random_state=0).fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, labels) >= 0.85
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    own = proba[np.arange(60), (labels == "yes").astype(int)]
    np.testing.assert_allclose(model.log_predictive_density(X, labels), np.log(own), rtol=1e-9)
    mean, std = model.latent(X, return_std=True)
    np.testing.assert_array_equal(np.sign(mean), np.sign(model.decision_function(X)))
    if likelihood == "probit":
        from scipy.stats import norm

        np.testing.assert_allclose(proba[:, 1], norm.cdf(mean / np.sqrt(1.0 + std**2)), rtol=1e-9)
    assert model.objective_ > 60 * np.log(0.5)
    assert not hasattr(model, "noise_")


def test_the_names_of_labels_do_not_matter(data):
    X, *_, f = data
    models = [
        VariationalGPClassifier(max_iter=20, **GIVEN).fit(X, np.where(f > 0.0, *pair))
        for pair in ((1, 0), (1, -1), ("b", "a"), (True, False))
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(NEW), models[0].predict_proba(NEW))
    flipped = VariationalGPClassifier(max_iter=20, **GIVEN).fit(X, np.where(f > 0.0, 0, 1))
    np.testing.assert_allclose(flipped.predict_proba(NEW), models[0].predict_proba(NEW)[:, ::-1], rtol=1e-5, atol=1e-5)


def test_several_labels_by_one_against_the_rest(data):
    X, *_, f = data
    labels = np.digitize(f, [-0.3, 0.3])
    with pytest.raises(ValueError, match=r"OneVsRestClassifier\(VariationalGPClassifier\(\)\)"):
        VariationalGPClassifier().fit(X, labels)
    several = OneVsRestClassifier(VariationalGPClassifier(10, lengthscales="shared", max_iter=20, random_state=0)).fit(
        X, labels
    )
    assert several.score(X, labels) > 0.75
    np.testing.assert_allclose(several.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.broad
@pytest.mark.parametrize("name", one_in(2, ["elbo", "log-loss", "square-loss"]))
@pytest.mark.parametrize("hyperparameters", ["joint", "fixed"])
def test_beta_is_chosen_by_validation(name, hyperparameters, data):
    X, y, *_ = data
    options = {"objective": name, "hyperparameters": hyperparameters, "max_iter": 10, **GIVEN}
    model = VariationalGP(beta="auto", **options).fit(X, y)
    np.testing.assert_array_equal(model.beta_path_[:, 0], grid(48)[: len(model.beta_path_)])
    assert model.beta_path_[-1, 0] < 0.02
    assert model.beta_ == model.beta_path_[model.beta_path_[:, 1].argmin(), 0]
    again = VariationalGP(beta=model.beta_, **options).fit(X, y)
    assert again.objective_ == model.objective_  # all rows are fitted with the chosen β


@pytest.mark.broad
@pytest.mark.parametrize("name", ["elbo", "log-loss"])
@pytest.mark.parametrize("steps", one_in(2, [3, 14, 47]))
def test_ctrl_c_while_beta_is_chosen_keeps_the_best_so_far(name, steps, data, monkeypatch):
    """In the ELBO, for the first β and for a later one: no further step, and the model of four fifths of the rows."""
    from fitting.training.watch import Watch

    X, y, *_ = data
    options = {"objective": name, "max_iter": 10, "tol": 0.0, **GIVEN}
    whole = VariationalGP(beta="auto", **options).fit(X, y)
    step, calls = Watch.step, [0]

    def stops(self, f):
        step(self, f)
        calls[0] += 1
        if calls[0] == steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "step", stops)
    with pytest.warns(ConvergenceWarning, match="Interrupted while beta was chosen"):
        model = VariationalGP(beta="auto", **options).fit(X, y)
    assert calls[0] == steps
    path = model.beta_path_
    known = [pair in whole.beta_path_.tolist() for pair in path.tolist()]
    assert sum(known) >= len(path) - 1  # the last β was cut short
    assert (len(path) > 1) == (steps == 47)
    assert model.beta_ == path[path[:, 1].argmin(), 0]
    assert "Interrupted" in model.stop_reason_
    order = np.random.default_rng([0, 6]).permutation(60)
    out = order[48:]
    loss = -np.mean(model.log_predictive_density(X[out], y[out]))
    assert loss == pytest.approx(path[:, 1].min(), rel=1e-6)
    J = variational_objective(X, y, Gaussian(model.noise_), name, beta=model.beta_, jitter=model.jitter_)
    q = model.posterior_.q
    here = J.evaluate(model.kernel_, J.likelihood, model.inducing_, q.mean, q.factor, gradient=False).value
    assert model.objective_ == pytest.approx(here, rel=1e-9)


@pytest.mark.slow
def test_a_large_beta_does_not_spoil_the_smaller_ones(data):
    """With β = 48 or 12 the kernel forgets the inputs; β = 1.5 must not start from there, where it would stay."""
    X, y, *_ = data
    options = {"kernel": SquaredExponential(1.0, [1.0, 1.0]), "inducing": "kmeans", "max_iter": 20, "random_state": 0}
    path = VariationalGP(5, beta="auto", **options).fit(X, y).beta_path_
    losses = dict(path.tolist())
    assert losses[48.0] == pytest.approx(losses[12.0], abs=1e-3)
    assert losses[1.5] < losses[48.0] - 0.15
    below = path[path[:, 0] < 1.0, 1]
    assert (np.diff(below) < 0.0).all()  # these data are best fitted with a small β


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", StudentT(5.0, 0.3), "probit"], ids=str)
def test_saved_and_loaded_it_predicts_bit_for_bit(likelihood, data, tmp_path):
    X, y, counts, f = data
    if likelihood == "probit":
        model, targets = VariationalGPClassifier(max_iter=5, **GIVEN), np.where(f > 0, "u", "d")
    else:
        model = VariationalGP(likelihood=likelihood, objective="log-loss", max_iter=5, **GIVEN)
        targets = counts if likelihood == "poisson" else y
    model.fit(X, targets)
    model.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    assert type(again) is type(model)
    assert again.get_params().keys() == model.get_params().keys()
    assert again.likelihood == model.likelihood
    assert again.likelihood_ == model.likelihood_
    assert again.objective_ == model.objective_
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(again.log_predictive_density(X, targets), model.log_predictive_density(X, targets))


@pytest.mark.broad
@pytest.mark.parametrize(
    "settings",
    one_in(
        3,
        [
            {"optimizer": "adam", "batch_size": 20},
            {"optimizer": "natgrad", "batch_size": 20},
            {"optimizer": "natgrad"},
            {"optimizer": "natgrad", "objective": "log-loss", "gradient": "ups", "samples": 2},
            {"objective": "log-loss"},
            {"objective": "log-loss", "optimizer": "adam", "gradient": "bmc"},
            {"beta": "auto"},
        ],
    ),
    ids=str,
)
def test_stopped_at_any_step_it_goes_on_to_the_same_numbers(settings, data, tmp_path, monkeypatch):
    from fitting.training.watch import Watch

    X, _, counts, _ = data
    model = VariationalGP(likelihood="poisson", max_iter=15, **settings, **GIVEN)
    whole = model.fit(X, counts)
    path, step, calls = tmp_path / "run.npz", Watch.step, [0]
    one_run = "objective" not in settings and "beta" not in settings
    last = 12 if one_run else 27 if "gradient" in settings else 24  # in the second run, where there is one

    def stops(self, f):
        step(self, f)
        calls[0] += 1
        if calls[0] == last:
            raise SystemExit

    monkeypatch.setattr(Watch, "step", stops)
    with pytest.raises(SystemExit):
        clone(model).set_params(checkpoint=path).fit(X, counts)
    monkeypatch.undo()
    assert path.exists()
    again = clone(model).set_params(checkpoint=path).fit(X, counts)
    assert again.objective_ == whole.objective_
    np.testing.assert_array_equal(again.predict(NEW), whole.predict(NEW))


def test_a_likelihood_keeps_what_is_fixed(data):
    X, y, *_ = data
    model = VariationalGP(likelihood=StudentT(5.0, 0.3), fixed=("df",), max_iter=10, **GIVEN).fit(X, y)
    assert model.likelihood_.df == pytest.approx(5.0, rel=1e-12)
    assert model.likelihood_.scale != 0.3
    gaussian = VariationalGP(likelihood=Gaussian(0.04), fixed=("noise",), max_iter=10, **GIVEN).fit(X, y)
    assert gaussian.noise_ == pytest.approx(0.04, rel=1e-12)


def test_limits_hold_for_parameters_of_the_likelihood(data):
    """Also where the pilot fits, which have a Gaussian likelihood, do not know the name."""
    X, y, _, _ = data
    named = {"likelihood": StudentT(5.0, 0.3), "inducing": Z, "max_iter": 5, "random_state": 0}
    model = VariationalGP(limits={"scale": (0.29, 0.31)}, **named).fit(X, y)
    assert model.likelihood_.scale == pytest.approx(0.29, rel=1e-9)  # it falls, and stops at the limit
    with pytest.raises(ValueError, match=r"limits: expected names among variance, .*df, scale, got 'noise'"):
        model.set_params(limits={"noise": (0.1, 1.0)}).fit(X, y)


@pytest.mark.parametrize(
    ("model", "targets", "sentence"),
    [
        (VariationalGP(likelihood="probit"), "y", "VariationalGPClassifier serves labels"),
        (VariationalGPClassifier(likelihood="poisson"), "labels", "VariationalGP serves"),
        (VariationalGP(likelihood="poisson"), "y", "counts"),
        (VariationalGP(likelihood="poisson", normalize_y=True), "counts", "normalize_y"),
        (VariationalGP(likelihood="poisson", noise=0.1), "counts", "noise: expected None"),
        (VariationalGP(likelihood="poisson", objective="square-loss"), "counts", "Gaussian likelihood only"),
        (VariationalGP(gradient="exactly"), "y", "gradient: expected one of"),
        (VariationalGP(gradient="bmc", objective="log-loss"), "y", "expected 'exact' for optimizer='lbfgs'"),
        (VariationalGP(gradient="ups", optimizer="adam"), "y", "expected 'exact' for objective='elbo'"),
        (VariationalGP(hyperparameters="free"), "y", "hyperparameters: expected one of"),
        (VariationalGP(beta="best"), "y", "beta: expected one of"),
        (VariationalGP(beta=-1.0), "y", "beta"),
        (VariationalGP(power=2.0), "y", "power"),
        (VariationalGP(batch_size=10), "y", "batch_size: expected None for optimizer='lbfgs'"),
        (VariationalGP(likelihood=StudentT(2.0, 1.0), objective="power", power=0.2), "y", r"1/\(df \+ 1\)"),
        (VariationalGPClassifier(), "ones", "one class alone"),
        (VariationalGPClassifier(objective="square-loss"), "labels", "Gaussian likelihood only"),
        (VariationalGPClassifier(objective="pep"), "labels", "Gaussian likelihood only"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_bad_input_is_one_sentence(model, targets, sentence, data):
    X, y, counts, f = data
    chosen = {"y": y, "counts": counts, "labels": (f > 0).astype(int), "ones": np.ones(60)}[targets]
    with pytest.raises(ValueError, match=sentence):
        model.set_params(n_inducing=5, max_iter=2).fit(X, chosen)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam", "natgrad"])
def test_slopes_whose_squares_overflow_at_the_start_are_one_sentence(optimizer, data):
    """The mean e^(m + v/2) of a count is beyond 1e170 there."""
    model = VariationalGP(5, "poisson", optimizer=optimizer, max_iter=12, random_state=0)
    with pytest.raises(ArithmeticError, match="no value at the start of training: the objective, its gradient"):
        model.fit(data[0], np.round(1e12 * data[2]))


def test_a_point_without_a_value_is_stepped_back_from(data, monkeypatch):
    """The best point is kept, and the failures are counted."""
    X, y, *_ = data
    evaluate, calls = laws.optimal, [0]

    def fails(*args, **options):
        calls[0] += 1
        q, result = evaluate(*args, **options)
        return q, result if calls[0] % 5 else replace(result, value=np.inf)

    monkeypatch.setattr(laws, "optimal", fails)
    model = VariationalGP(likelihood="student-t", max_iter=30, **GIVEN).fit(X, y)
    monkeypatch.undo()
    assert sum(run.failures for run in model.runs_) > 0
    assert np.isfinite(model.objective_)
    assert model.objective_ == pytest.approx(max(model.history_), rel=1e-9)


@pytest.mark.broad
@pytest.mark.parametrize("scale", one_in(2, [30.0, 1e3, 1e6]))
@pytest.mark.parametrize(
    "how",
    [
        {"optimizer": "adam", "max_iter": 200},
        {"optimizer": "adam", "max_iter": 200, "batch_size": 10},
        {"optimizer": "natgrad", "max_iter": 100},
        {"optimizer": "natgrad", "natural_rate": 0.1, "max_iter": 100},
    ],
    ids=["adam", "batches", "natgrad", "natgrad, slow"],
)
def test_counts_of_every_size_have_their_rates(scale, how):
    """Fixed steps are far too long for large counts: they begin again at the best point, and the model says so."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 1))
    rate = scale * np.exp(np.sin(3.0 * X[:, 0]))
    y = rng.poisson(rate)
    model = VariationalGP(likelihood="poisson", random_state=0, **how).fit(X, y)
    assert np.abs(np.log(model.predict(X) / rate)).max() < np.log(2.0)
    assert model.objective_ >= model.history_[0] - 0.05 * abs(model.history_[0])
