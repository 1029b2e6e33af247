"""PACGP and SparsePACGP: the certificate is the bound of the theorem for the predicting model, on the grid."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import fitting
from fitting import PACGP, SparseGP, SparsePACGP, certify, load
from fitting.objectives.objective import Objective
from gpbounds import Matern, SquaredExponential
from gpbounds.losses import Band, Exponential, Interval, Relative, Squared
from gpbounds.pacbayes import Certificate, Charge, Exact, HyperGrid, Scaling, bound
from gpbounds.pacbayes.certificate import priors

unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
quick = {"max_iter": 3, "random_state": 0, "start": "scale"}


@unconverged
@pytest.mark.usefixtures("short_pilots")
@parametrize_with_checks([PACGP(**quick), SparsePACGP(4, "free", **quick)])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


N, DELTA = 120, 0.05
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N, 2))
Y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(N)
NEW = RNG.uniform(-3.0, 3.0, (7, 2))
ISO = SquaredExponential(1.0, 1.0)

MODELS = {
    "exact": PACGP(delta=DELTA, random_state=0),
    "isotropic": PACGP(delta=DELTA, kernel=ISO, noise=1.0, random_state=0),
    "pinsker": PACGP(delta=DELTA, relaxation="pinsker", kernel=Matern(1.5, 1.0, 1.0), random_state=0),
    "fitc": SparsePACGP(12, delta=DELTA, random_state=0),
    "vfe": SparsePACGP(12, "vfe", delta=DELTA, loss="squared", random_state=0),
    "between": SparsePACGP(12, "interpolated", power=0.3, delta=DELTA, loss="exponential", random_state=0),
    "beyond": SparsePACGP(12, "interpolated", power=2.5, delta=DELTA, random_state=0),
    "trained": SparsePACGP(12, "interpolated", power="trained", delta=DELTA, random_state=0),
    "free": SparsePACGP(9, "free", delta=DELTA, kernel=ISO, random_state=0),
}
each_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fitted():
    return {name: clone(model).fit(X, Y) for name, model in MODELS.items()}


def dense(model, kernel, points):
    """Mean and variance of f at points, and KL(Q‖P), with explicit inverse matrices."""
    jitter = model.jitter_
    if isinstance(model, PACGP):
        K = kernel(X)
        gain = np.linalg.solve(K + model.noise_ * np.eye(N), kernel(X, points)).T
        own = np.linalg.solve(K + model.noise_ * np.eye(N), K).T
        mean, variance = gain @ Y, kernel.diag(points) - (gain * kernel(points, X)).sum(axis=1)
        alpha = np.linalg.solve(K + model.noise_ * np.eye(N), Y)  # P-23
        kl = np.linalg.slogdet(K / model.noise_ + np.eye(N))[1] - np.trace(own) + alpha @ K @ alpha
        return mean, variance, 0.5 * kl
    Z = model.inducing_
    P = kernel(Z) + jitter * np.eye(len(Z))
    if model.posterior == "free":
        L = np.linalg.cholesky(P)
        q = model.posterior_.q
        m, S = (L @ q.mean)[:, 0], L @ q.covariance @ L.T
    else:
        power = {"fitc": 1.0, "vfe": 0.0, "interpolated": model.power_}[model.posterior]
        assert model.power_ == power == model.certificate_.posterior.power
        Kuf = kernel(Z, X)
        D = model.noise_ + power * (kernel.diag(X) - (Kuf * np.linalg.solve(P, Kuf)).sum(axis=0))
        A = np.linalg.inv(P + (Kuf / D) @ Kuf.T)
        m, S = P @ A @ (Kuf / D) @ Y, P @ A @ P
    C = np.linalg.solve(P, kernel(Z, points)).T
    mean, variance = C @ m, kernel.diag(points) - ((C @ (P - S)) * C).sum(axis=1)
    kl = np.trace(np.linalg.solve(P, S)) - len(Z) + np.linalg.slogdet(P)[1] - np.linalg.slogdet(S)[1]
    return mean, variance, 0.5 * (kl + m @ np.linalg.solve(P, m))


def expected_loss(loss, mean, variance):
    """E ℓ by integration on a fine grid, or by the normal distribution function."""
    s, d = np.sqrt(variance), Y - mean
    if isinstance(loss, Band):
        return norm.cdf((d - loss.epsilon) / s) + norm.cdf(-(d + loss.epsilon) / s)
    z = np.linspace(-9.0, 9.0, 20_001)
    values = loss.value(Y[:, None], mean[:, None] + s[:, None] * z)
    return (values * norm.pdf(z)).sum(axis=1) * (z[1] - z[0])


def theorem(risk, kl, count, size, delta):
    """kl⁻¹(R_S, (KL + ln count + ln(ξ(N)/δ))/N) at 40 digits, with ξ as a sum and the inverse by bisection."""
    with mpmath.workdps(40):
        xi = mpmath.fsum(mpmath.ff(size, k) / mpmath.mpf(size) ** k for k in range(size + 1))
        eps = (mpmath.mpf(kl) + mpmath.log(count) + mpmath.log(xi / delta)) / size
        q, low, high = mpmath.mpf(risk), mpmath.mpf(risk), mpmath.mpf(1)
        for _ in range(120):
            p = (low + high) / 2
            divergence = (q * mpmath.log(q / p) if q else 0) + (1 - q) * mpmath.log((1 - q) / (1 - p))
            low, high = (p, high) if divergence <= eps else (low, p)
        return float(high)


@pytest.mark.broad
@each_model
def test_the_certificate_is_the_theorem_at_the_model_that_predicts(name, fitted):
    model = fitted[name]
    mean, variance, kl = dense(model, model.kernel_, X)
    predicted, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(predicted, mean, atol=1e-6)
    np.testing.assert_allclose(std**2, variance, rtol=1e-4)
    loss = model.certificate_.loss
    assert loss == {"vfe": Squared(0.6), "between": Exponential(0.6)}.get(name, Band(0.6))
    risk = expected_loss(loss, mean, variance).mean()
    # The recorded numbers are upper bounds of the exact ones, and close to them.
    assert risk * (1.0 - 1e-9) <= model.risk_ <= risk + 1e-6
    assert kl * (1.0 - 1e-6) <= model.kl_ <= kl + 1e-4 * (1.0 + kl)
    axes = len(model.kernel_.parameter_names)
    truth = theorem(model.risk_, model.kl_, 1201**axes, N, DELTA)
    assert truth <= model.bound_ <= truth * (1.0 + 1e-12)
    assert model.bound_ == model.certificate_.bound
    stated = bound(model.risk_, model.kl_, N, delta=DELTA, log_prior_penalty=axes * math.log(1201))
    assert float(stated) == pytest.approx(model.bound_, rel=1e-12)


@each_model
def test_the_certificate_is_confirmed_and_tampering_is_not(name, fitted, tmp_path):
    certificate = fitted[name].certificate_
    assert certificate.check(X, Y).confirmed
    assert certificate.check(X, Y).lines[0].text.startswith("Inputs and outputs were taken as given")
    assert not certificate.check(X, Y + 1e-9).confirmed
    better = replace(certificate, bound=certificate.bound * (1.0 - 1e-6))
    assert better.check(X, Y).failed == ("seal", "bound")
    assert better.sealed().check(X, Y).failed == ("bound",)
    assert "kl" in replace(certificate, kl=certificate.kl * 0.99).sealed().check(X, Y).failed
    certificate.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json").check(X, Y).confirmed


@each_model
def test_theta_is_on_the_grid_to_the_last_bit(name, fitted):
    model = fitted[name]
    rounded = model.grid_.round(priors.hyperparameters(model.unrounded_kernel_))
    theta = priors.hyperparameters(model.kernel_)
    assert theta == rounded.theta == model.grid_.locate(theta).theta
    assert model.posterior_.kernel == model.kernel_ == model.certificate_.kernel
    free, on_grid = model.unrounded_kernel_.log_parameters, model.kernel_.log_parameters
    assert 0.0 < np.abs(free - on_grid).max() <= 0.005 + 1e-12
    with pytest.raises(ValueError, match="expected a value of the grid"):
        Certificate.issue(X, Y, Exact(0.1), model.unrounded_kernel_, grid=model.grid_, loss=Band(0.6), delta=DELTA)


@pytest.mark.broad
@unconverged  # FITC's own objective finds no noise in these data
@each_model
def test_training_lowers_the_certified_bound(name, fitted):
    """The bound is below those of the start and of the same posterior trained by its evidence."""
    model = fitted[name]
    start = clone(model).set_params(optimizer=None).fit(X, Y)
    assert model.bound_ < start.bound_ - 0.02
    assert model.history_[-1] <= model.history_[0] - 0.01  # training starts where the evidence of some rows is largest
    assert start.kernel_ == priors.with_hyperparameters(
        start.unrounded_kernel_, start.grid_.round(priors.hyperparameters(start.unrounded_kernel_))
    )
    if name in ("exact", "isotropic"):
        other = fitting.ExactGP(model.kernel, model.noise).fit(X, Y)
    elif name in ("fitc", "vfe"):
        other = SparseGP(name, n_inducing=12, random_state=0).fit(X, Y)
    else:
        return
    evidence = certify(other, X, Y, loss=model.loss, delta=DELTA)
    assert evidence.count == model.certificate_.count
    assert model.bound_ < evidence.bound - 0.02


@pytest.mark.parametrize("name", ["exact", "fitc", "free"])
def test_nothing_near_by_on_the_grid_is_better(name, fitted):
    """At the rounded hyperparameters noise, Z and q are optimal: small steps do not lower the bound."""
    model = fitted[name]
    paid = model.certificate_.log_count
    loss = model.certificate_.loss
    rng = np.random.default_rng(1)
    best = model.history_[-1]
    for step in (1e-3, -1e-3):
        if name == "free":
            from fitting.bounds import free_bound

            problem = free_bound(X, Y, loss, delta=DELTA, log_prior_penalty=paid, jitter=model.jitter_)
            q = model.posterior_.q
            mean = q.mean + step * rng.standard_normal(q.mean.shape)
            neighbour = problem.terms(model.kernel_, 1.0, model.inducing_, mean, q.factor * (1.0 + step))
        else:
            problem = fitting.bounds.risk_bound(X, Y, loss, delta=DELTA, log_prior_penalty=paid, method=name)
            Z = None if name == "exact" else model.inducing_ + step * rng.standard_normal(model.inducing_.shape)
            neighbour = problem.terms(model.kernel_, model.noise_ * math.exp(step), Z)
        assert neighbour.bound >= best - 1e-7


def test_on_a_coarse_grid_training_again_makes_up_for_rounding():
    grid = HyperGrid.shared(-6.0, 6.0, 6)
    model = PACGP(delta=DELTA, grid=grid, kernel=ISO, noise=1.0).fit(X, Y)
    assert model.grid_ is grid
    assert model.certificate_.log_count == pytest.approx(2.0 * math.log(7.0))
    before = math.exp(model.runs_[0].vector[-1])  # the noise at the end of training before rounding
    options = {"grid": grid, "loss": Band(0.6), "delta": DELTA}
    kept = Certificate.issue(X, Y, Exact(before), model.kernel_, **options)
    assert model.bound_ < kept.bound - 1e-4
    assert len(model.runs_) == 2
    # The value before rounding is smaller, but no bound, as its θ is not in Θ.
    assert -model.runs_[0].value < model.bound_


def test_what_pinsker_trains_is_certified_by_kl(fitted):
    model = fitted["pinsker"]
    pinsker = bound(
        model.risk_,
        model.kl_,
        N,
        delta=DELTA,
        log_prior_penalty=2.0 * math.log(1201),
        form="printed",
        relaxation="pinsker",
    )
    assert model.history_[-1] == pytest.approx(float(pinsker), rel=1e-4)
    assert model.bound_ < model.history_[-1]
    other = clone(MODELS["pinsker"]).set_params(relaxation="kl").fit(X, Y)
    assert other.bound_ < model.bound_
    assert other.objective_ == pytest.approx(-other.bound_, rel=1e-5)


def test_a_free_posterior_is_at_least_as_good_as_fitc_at_its_hyperparameters():
    kernel, Z = SquaredExponential(0.3, 0.8), X[:9]
    options = {"kernel": kernel, "noise": 0.1, "inducing": Z, "delta": DELTA, "learn_inducing": False}
    options |= {"fixed": ("variance", "lengthscale")}
    fitc, free = (SparsePACGP(9, posterior, **options).fit(X, Y) for posterior in ("fitc", "free"))
    assert free.kernel_ == fitc.kernel_
    assert free.bound_ < fitc.bound_ - 1e-4


# ---------------------------------------------------------------------- several ε


def test_several_goals_are_charged():
    goals = (0.4, 0.7, 1.0)
    model = PACGP(goals, delta=DELTA, kernel=ISO, noise=1.0, random_state=0).fit(X, Y)
    alone = PACGP(0.4, delta=DELTA, kernel=ISO, noise=1.0, random_state=0).fit(X, Y)
    assert [c.loss for c in model.certificates_] == [Band(e) for e in goals]
    assert model.certificate_ == model.certificates_[0]
    assert model.bound_ > alone.bound_
    for certificate in model.certificates_:
        assert certificate.charges == (Charge("accuracy goals ε", 3),)
        assert certificate.log_count == pytest.approx(2.0 * math.log(1201) + math.log(3.0), abs=1e-12)
        assert certificate.check(X, Y).confirmed
        free = replace(certificate, charges=()).sealed()
        assert free.check(X, Y).failed == ("choices",)  # ln 3 is missing
    bounds = [c.bound for c in model.certificates_]
    assert bounds == sorted(bounds, reverse=True)
    assert len({c.posterior.noise for c in model.certificates_}) == 3  # one model for each ε
    assert model.posterior_.noise == model.certificate_.posterior.noise
    # `certify` charges a single ε like all of them, and gives the same bound.
    assert certify(model, X, Y, epsilon=0.4, delta=DELTA).bound == model.bound_
    assert certify(model, X, Y, epsilon=0.5, delta=DELTA).charges == ()
    assert len(certify(model, X, Y, epsilon=goals, delta=DELTA)) == 3


# ---------------------------------------------------------------------- units


@pytest.mark.broad
@pytest.mark.parametrize("name", ["exact", "fitc", "free"])
def test_scaling_inside_is_scaling_before(name):
    """The estimator applies declared constants and predicts in raw units."""
    inputs, outputs = Scaling("fixed in advance", [3.0, -10.0], [0.5, 20.0]), Scaling("disjoint split", 7.0, 4.0)
    raw_X, raw_y = X * np.array([0.5, 20.0]) + np.array([3.0, -10.0]), 4.0 * Y + 7.0
    plain = clone(MODELS[name]).set_params(max_iter=10)
    with pytest.warns(ConvergenceWarning):
        before = clone(plain).fit(inputs.apply(raw_X), outputs.apply(raw_y))
    with pytest.warns(ConvergenceWarning):
        inside = clone(plain).set_params(scaling=(inputs, outputs)).fit(raw_X, raw_y)
    assert inside.bound_ == before.bound_
    assert inside.kernel_ == before.kernel_
    fresh = NEW * np.array([0.5, 20.0]) + np.array([3.0, -10.0])
    mean, std = before.predict(inputs.apply(fresh), return_std=True)
    scaled = inside.predict(fresh, return_std=True)
    np.testing.assert_allclose(scaled[0], 4.0 * mean + 7.0, rtol=1e-12)
    np.testing.assert_allclose(scaled[1], 4.0 * std, rtol=1e-12)
    report = inside.certificate_.check(raw_X, raw_y)
    assert report.confirmed
    assert "disjoint" in report.lines[0].text
    assert not inside.certificate_.check(X, Y).confirmed
    assert inside.score(raw_X, raw_y) == pytest.approx(before.score(inputs.apply(raw_X), outputs.apply(raw_y)))


def test_a_charged_scaling_is_paid_in_training_and_on_record():
    scaling = (Scaling(), Scaling("charged", 0.0, 0.5, count=50))
    model = PACGP(1.2, delta=DELTA, kernel=ISO, scaling=scaling).fit(X, Y)
    assert model.certificate_.log_count == pytest.approx(2.0 * math.log(1201) + math.log(50.0))
    assert model.history_[-1] == pytest.approx(model.bound_, rel=1e-6)


def test_constants_of_the_same_data_make_no_certificate():
    scaling = Scaling("same data", 0.0, 1.0)
    with pytest.raises(ValueError, match=r"scaling: expected constants fixed in advance.*P-45"):
        PACGP(scaling=scaling).fit(X, Y)
    model = PACGP(scaling=scaling, nonrigorous=True, kernel=ISO).fit(X, Y)
    assert not model.certificate_.rigorous
    assert str(model.certificate_).startswith("NOT RIGOROUS")


# ---------------------------------------------------------------------- losses by name


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("band", Band(0.3)),
        ("squared", Squared(0.3)),
        ("exponential", Exponential(0.3)),
        ("relative", Relative(0.3)),
        ("interval", Interval(-0.3, 0.3, relative=True)),
        (Interval(-0.1, 0.5), Interval(-0.1, 0.5)),
    ],
)
def test_losses_by_name(loss, expected):
    model = SparsePACGP(5, epsilon=0.3, loss=loss, optimizer=None, random_state=0).fit(X, Y + 3.0)
    assert model.certificate_.loss == expected
    assert model.certificate_.check(X, Y + 3.0).confirmed


# ---------------------------------------------------------------------- mini-batches, Ctrl-C, checkpoints


@pytest.mark.slow
@unconverged
def test_mini_batches_train_a_free_posterior_and_the_certificate_is_of_all_rows():
    options = {"optimizer": "adam", "batch_size": 40, "max_iter": 100, "delta": DELTA, "random_state": 0}
    model = SparsePACGP(9, "free", kernel=ISO, noise=1.0, **options).fit(X, Y)
    start = clone(model).set_params(optimizer=None, batch_size=None).fit(X, Y)
    assert model.bound_ < start.bound_ - 0.02
    assert "mini-batches" in model.stop_reason_
    assert model.certificate_.data.rows == N
    assert model.certificate_.check(X, Y).confirmed
    assert (clone(model).fit(X, Y).predict(NEW) == model.predict(NEW)).all()


@pytest.mark.parametrize("posterior", ["fitc", "vfe", "interpolated"])
def test_other_posteriors_refuse_mini_batches_and_say_why(posterior):
    with pytest.raises(
        ValueError, match=r"batch_size: expected None unless posterior='free'.*depends on all rows at once"
    ):
        SparsePACGP(5, posterior, optimizer="adam", batch_size=20).fit(X, Y)


@pytest.mark.broad
@pytest.mark.parametrize("at", [6, "on the grid"])
def test_ctrl_c_leaves_a_certified_model_and_a_warning(at, monkeypatch, stopped):
    goals = (0.6, 0.8)
    whole = SparsePACGP(9, epsilon=goals, delta=DELTA, start="scale", random_state=0).fit(X, Y)
    calls = whole.runs_[0].evaluations + 3 if at == "on the grid" else at  # one call compares the result with noise
    stopped(Objective, calls)
    with pytest.warns(ConvergenceWarning) as warned:
        model = SparsePACGP(9, epsilon=goals, delta=DELTA, start="scale", random_state=0).fit(X, Y)
    monkeypatch.undo()
    words = " ".join(str(w.message) for w in warned)
    assert "Interrupted after" in words
    assert "Not trained for Band(epsilon=0.8)" in words
    assert all(c.check(X, Y).confirmed for c in model.certificates_)
    first, second = model.certificates_
    assert (first.posterior.Z == second.posterior.Z).all()  # the interrupted model, also for the other ε
    assert first.kernel == second.kernel
    assert second.bound < first.bound
    start = clone(whole).set_params(optimizer=None).fit(X, Y)
    assert whole.bound_ - 1e-9 <= model.bound_ < start.bound_
    assert len(model.runs_) == (3 if at == "on the grid" else 2)
    assert np.isfinite(model.predict(NEW)).all()


@pytest.mark.broad
@unconverged
@pytest.mark.parametrize("posterior", ["fitc", "free"])
def test_adam_goes_on_from_a_checkpoint_bit_for_bit(posterior, tmp_path, monkeypatch, stopped):
    settings = {"optimizer": "adam", "batch_size": 30 if posterior == "free" else None, "epsilon": (0.6, 0.8)}
    settings |= {"delta": DELTA, "max_iter": 14, "random_state": 0}
    whole = SparsePACGP(5, posterior, **settings).fit(X, Y)
    again = SparsePACGP(5, posterior, checkpoint=tmp_path / "again", **settings).fit(X, Y)
    done = SparsePACGP(5, posterior, checkpoint=tmp_path / "again", **settings).fit(X, Y)
    others = [again, done]
    if posterior == "fitc":
        killed = SparsePACGP(5, posterior, checkpoint=tmp_path / "killed", **settings)
        stopped(Objective, 42, SystemError)  # during training for the second ε
        with pytest.raises(SystemError):
            killed.fit(X, Y)
        monkeypatch.undo()
        others.append(killed.fit(X, Y))
    for other in others:
        assert (other.history_ == whole.history_).all()
        assert other.certificates_ == whole.certificates_
    with pytest.raises(ValueError, match="same data and settings"):
        clone(again).set_params(grid=HyperGrid.ard(2, steps=600)).fit(X, Y)


@unconverged
def test_lbfgs_goes_on_from_a_checkpoint_to_the_same_bound(tmp_path):
    whole = PACGP(delta=DELTA, random_state=0).fit(X, Y)
    part = PACGP(delta=DELTA, random_state=0, checkpoint=tmp_path / "part", max_iter=4).fit(X, Y)
    rest = PACGP(delta=DELTA, random_state=0, checkpoint=tmp_path / "part").fit(X, Y)
    assert part.bound_ > whole.bound_
    assert rest.bound_ == pytest.approx(whole.bound_, abs=1e-3)


@unconverged
def test_restarts_keep_the_best():
    far = {"kernel": SquaredExponential(0.01, 20.0), "noise": 1.0, "delta": DELTA, "random_state": 1}
    single, restarted = (PACGP(n_restarts=n, **far).fit(X, Y) for n in (0, 3))
    assert restarted.bound_ <= single.bound_ + 1e-6
    assert len(restarted.runs_) == 5


# ---------------------------------------------------------------------- files


@pytest.mark.broad
@pytest.mark.parametrize(
    "model",
    [
        *(MODELS[name] for name in ("exact", "vfe", "free")),
        PACGP((0.4, 0.8), kernel=ISO, grid=HyperGrid.shared(-3.0, 3.0, 60), limits={"noise": (1e-3, 2.0)}),
        SparsePACGP(5, loss=Interval(-0.1, 0.5), scaling=(Scaling("fixed in advance", [0.1, 0.0], 2.0), "as given")),
        PACGP(epsilon=[0.4, 0.8], scaling=Scaling("disjoint split", 0.1, 2.0), kernel=ISO),
    ],
    ids=range(6),
)
@unconverged
def test_a_saved_model_is_the_same_with_the_same_certificates(model, tmp_path):
    model = clone(model).set_params(max_iter=8).fit(X, Y)
    model.save(tmp_path / "model")
    again = fitting.load(tmp_path / "model")
    assert type(again) is type(model)
    for before, after in zip(model.predict(NEW, return_cov=True), again.predict(NEW, return_cov=True), strict=True):
        assert (before == after).all()
    assert (model.sample_y(NEW, 3) == again.sample_y(NEW, 3)).all()
    assert again.certificates_ == model.certificates_
    assert again.certificate_.check(X, Y).confirmed
    for name, value in vars(model).items():
        if name.endswith("_") and name not in ("posterior_", "runs_"):
            assert np.all(getattr(again, name) == value), name
    for name, value in model.get_params().items():
        assert np.all(getattr(again, name) == value), name
    with np.load(tmp_path / "model", allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fiu" for name in file.files)


# ---------------------------------------------------------------------- messages


def test_the_edge_of_the_grid_and_a_bound_that_says_nothing_are_said():
    grid = HyperGrid.ard(2, [-6.0, -1.5, -1.5], [6.0, 0.0, 0.0], 30)
    model = PACGP(delta=DELTA, grid=grid, kernel=SquaredExponential(0.5, [0.5, 0.5]))
    with pytest.warns(ConvergenceWarning, match=r"At the upper edge of the grid: lengthscale\[1\]. Another grid"):
        model.fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="The bound is 1 and says nothing"):
        model = PACGP(1e-6, kernel=ISO, optimizer=None).fit(X[:3], 1e3 * Y[:3])
    assert model.bound_ == 1.0
    assert model.certificate_.check(X[:3], 1e3 * Y[:3]).confirmed


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (PACGP(epsilon=-1.0), "epsilon: expected a positive"),
        (PACGP(epsilon=(0.4, 0.4)), "epsilon: expected one number, or several that differ"),
        (PACGP(epsilon=()), "epsilon: expected one number, or several"),
        (PACGP(epsilon=(0.4, 0.6), loss=Band(0.1)), "epsilon: expected one number where loss carries its own"),
        (PACGP(loss="zero-one"), "loss: expected one of 'band'"),
        (PACGP(loss=3.0), "loss: expected one of 'band'"),
        (PACGP(delta=1.0), r"delta: expected a probability of failure in \(0, 1\)"),
        (PACGP(delta=0.0), "delta: expected a positive"),
        (PACGP(relaxation="evidence"), "relaxation: expected one of 'kl', 'pinsker'"),
        (PACGP(grid="fine"), "grid: expected a gpbounds.pacbayes.HyperGrid or None"),
        (PACGP(grid=HyperGrid.shared()), "grid: expected the names variance, lengthscale_1, lengthscale_2"),
        (PACGP(kernel=SquaredExponential(1.0, 1e4)), "kernel: expected lengthscale in the grid"),
        (PACGP(kernel=Matern(1.7)), "kernel: expected a half-integer"),
        (PACGP(kernel="sexp"), r"kernel: expected se \(or rbf\)"),
        (PACGP(scaling="standardised"), "scaling: expected 'as given'"),
        (PACGP(scaling=(1.0, 2.0)), "scaling: expected 'as given' or a gpbounds.pacbayes.Scaling"),
        (PACGP(scaling=(Scaling("fixed in advance", [1.0] * 3), Scaling())), "shift: expected one number or 2"),
        (PACGP(limits={"variance": (0.1, 1.0)}), "limits: expected 'noise' alone, got 'variance'"),
        (SparsePACGP(0), "n_inducing: expected a whole number >= 1"),
        (SparsePACGP(posterior="pic"), "posterior: expected one of 'fitc'"),
        (SparsePACGP(power=0.5), "power: expected None unless posterior='interpolated'"),
        (SparsePACGP(power="trained"), "power: expected None unless posterior='interpolated'"),
        (SparsePACGP(5, "interpolated", power="best"), "power: expected a number >= 0 or 'trained', got 'best'"),
        (SparsePACGP(5, "interpolated", power=-0.5), "power: expected a finite number >= 0"),
        (SparsePACGP(inducing="best"), "inducing: expected one of"),
        (
            SparsePACGP(5, "free", batch_size=10),
            "batch_size: expected None for optimizer='lbfgs', whose steps need all rows",
        ),
    ],
)
def test_wrong_arguments_are_named(model, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.fit(X, Y)


def test_a_trained_power_is_part_of_q_and_costs_nothing(fitted, tmp_path):
    """P-49: the same count of choices as for FITC; B is not above that of a fixed power from the same start."""
    model, fitc = fitted["trained"], fitted["fitc"]
    assert model.certificate_.log_count == fitc.certificate_.log_count
    assert model.bound_ <= fitc.bound_ + 2.0 * model.tol
    numbers = SparsePACGP(12, "interpolated", power=model.power_, delta=DELTA, random_state=0)
    assert model.bound_ <= numbers.fit(X, Y).bound_ + 2.0 * model.tol
    again = clone(model).fit(X, Y)
    first = again.power_
    assert again.fit(X, Y).power_ == first == model.power_  # the second fit does not start from the first one's power
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert (loaded.power, loaded.power_) == ("trained", model.power_)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    assert certify(loaded, X, Y, delta=DELTA).posterior.power == model.power_


def test_one_output_and_targets_that_fit_the_loss():
    with pytest.raises(ValueError, match="y: expected one target for each row of X"):
        PACGP().fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="y: expected targets that are not 0"):
        PACGP(loss="relative").fit(X, np.where(np.arange(N) == 5, 0.0, Y))


def test_a_free_law_has_no_noise(fitted):
    with pytest.raises(ValueError, match="noisy: expected False"):
        fitted["free"].predict(NEW, noisy=True)
    draws = fitted["free"].sample_y(NEW, 4000)
    mean, std = fitted["free"].predict(NEW, return_std=True)
    assert (np.abs(draws.mean(axis=1) - mean) < 5.0 * std / math.sqrt(4000.0)).all()


@unconverged
def test_a_second_fit_forgets_the_first():
    model = SparsePACGP(5, epsilon=(0.4, 0.6), max_iter=5, random_state=0).fit(X, Y)
    model.set_params(epsilon=0.6).fit(X[:, :1], Y)
    fresh = SparsePACGP(5, max_iter=5, random_state=0).fit(X[:, :1], Y)
    assert set(vars(model)) == set(vars(fresh))
    assert model.certificates_ == fresh.certificates_


def noisy(N=400):
    """Targets whose noise hides all but one slow wave, so that few inducing points describe them."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-2.0, 2.0, (N, 2))
    return points, np.sin(2.0 * points[:, 0]) + 0.7 * rng.standard_normal(N)


@pytest.mark.slow
@unconverged
def test_fewer_inducing_points_are_kept_where_their_bound_is_smaller():
    points, y = noisy()
    all_of_them, fewer = (SparsePACGP(40, random_state=0, fewer=flag).fit(points, y) for flag in (False, True))
    assert len(all_of_them.inducing_) == 40
    assert len(fewer.inducing_) == 10
    assert fewer.bound_ < all_of_them.bound_ - 0.001
    assert fewer.runs_[0].values == all_of_them.runs_[0].values
    assert fewer.history_[0] == -fewer.runs_[1].values[0]  # the curve is that of the model that is kept
    assert fewer.certificate_.check(points, y).confirmed
    given = SparsePACGP(40, inducing=points[:40], random_state=0, max_iter=2).fit(points, y)
    assert len(given.inducing_) == 40


@unconverged
def test_all_inducing_points_are_kept_where_fewer_cannot_follow_the_targets():
    x = np.linspace(-3.0, 3.0, 400)
    y = np.sin(16.0 * x)
    model = SparsePACGP(40, epsilon=0.3, kernel=SquaredExponential(1.0, 0.15), noise=0.01, max_iter=60).fit(
        x[:, None], y
    )
    assert len(model.inducing_) == 40
    assert len(model.runs_) == 3
    assert model.runs_[1].value < model.runs_[0].value - 0.1


@pytest.mark.slow
@unconverged
def test_training_with_fewer_points_continues_from_a_checkpoint(tmp_path):
    points, y = noisy()
    settings = {"n_inducing": 40, "random_state": 0}
    whole = SparsePACGP(**settings).fit(points, y)
    path = tmp_path / "state.npz"
    SparsePACGP(**settings, checkpoint=path, max_iter=25).fit(points, y)
    resumed = SparsePACGP(**settings, checkpoint=path).fit(points, y)
    assert resumed.bound_ == whole.bound_
    assert np.array_equal(resumed.inducing_, whole.inducing_)
