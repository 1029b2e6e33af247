"""`fitting.certify`: a certificate for any model, for its posterior at the rounded hyperparameters."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import Ridge

from fitting import PACGP, ExactGP, RenyiGP, SparseGP, SparsePACGP, certify
from gpbounds import Matern, SquaredExponential
from gpbounds.losses import Band, Squared
from gpbounds.pacbayes import Certificate, Charge, HyperGrid, Scaling, bound
from gpbounds.pacbayes.certificate import priors, rows

pytestmark = pytest.mark.usefixtures("short_pilots")

N = 100
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N, 2))
Y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.standard_normal(N)
Z = RNG.uniform(-2.0, 2.0, (8, 2))
KERNEL = SquaredExponential(0.7, [0.9, 1.4])
START = {"optimizer": None}

MODELS = {
    "exact": ExactGP(KERNEL, 0.2, **START),
    "matern": ExactGP(Matern(2.5, 0.7, 1.1), 0.2, **START),
    "vfe": SparseGP("vfe", KERNEL, 0.2, inducing=Z, **START),
    "fitc": SparseGP("fitc", KERNEL, 0.2, inducing=Z, **START),
    "dtc": SparseGP("dtc", KERNEL, 0.2, inducing=Z, **START),
    "pep": SparseGP("pep", KERNEL, 0.2, power=0.3, inducing=Z, **START),
    "renyi 0.6": RenyiGP(0.6, KERNEL, 0.2, inducing=Z, **START),
    "renyi 0": RenyiGP(0.0, KERNEL, 0.2, inducing=Z, **START),
    "renyi 1": RenyiGP(1.0, KERNEL, 0.2, inducing=Z, **START),
}


def covariance(name, kernel, jitter=0.0):
    """Ξ − σ²I: Q + aR on the diagonal, or in full."""
    K, Kfu = kernel(X), kernel(X, Z)
    Q = Kfu @ np.linalg.solve(kernel(Z) + jitter * np.eye(len(Z)), Kfu.T)
    if name in ("exact", "matern"):
        return K
    if name.startswith("renyi"):
        return Q + (1.0 - float(name.split()[1])) * (K - Q)
    power = {"vfe": 0.0, "dtc": 0.0, "fitc": 1.0, "pep": 0.3}[name]
    return Q + power * np.diag((K - Q).diagonal())


def dense(kernel, own, cross, Xi):
    """R_S at ε = ½ and KL of N(mean, S) from N(0, own), the law of f at the data or of u, given y ~ N(·, Xi)."""
    mean = cross @ np.linalg.solve(Xi, Y)
    S = own - cross @ np.linalg.solve(Xi, cross.T)
    tail = np.linalg.solve(own, kernel(Z, X)) if len(own) < N else np.eye(N)
    m, v = tail.T @ mean, kernel.diag(X) - (tail * ((own - S) @ tail)).sum(axis=0)
    s = np.sqrt(v)
    risk = (norm.cdf((Y - m - 0.5) / s) + norm.cdf(-(Y - m + 0.5) / s)).mean()
    kl = np.trace(np.linalg.solve(own, S)) - len(own) + mean @ np.linalg.solve(own, mean)
    return risk, 0.5 * (kl + np.linalg.slogdet(own)[1] - np.linalg.slogdet(S)[1])


@pytest.mark.parametrize("name", MODELS)
def test_risk_and_kl_are_those_of_the_dense_posterior(name):
    """Q(f at the data, or u) from N × N matrices, at the kernel on the grid; KL(Q‖P) of two normal laws."""
    model = MODELS[name].fit(X, Y)
    certificate = certify(model, X, Y, epsilon=0.5, delta=0.05)
    assert certificate.check(X, Y).confirmed
    kernel, Xi = certificate.kernel, covariance(name, certificate.kernel) + 0.2 * np.eye(N)
    assert kernel == priors.with_hyperparameters(
        model.kernel_, certificate.grid.round(priors.hyperparameters(model.kernel_))
    )
    if name in ("exact", "matern"):
        cross, own = kernel(X), kernel(X) + 1e-9 * np.eye(N)
    else:
        own = kernel(Z)
        cross = kernel(Z, X)
    risk, kl = dense(kernel, own, cross, Xi)
    rough = 1e-3 if len(own) == N else 1e-6  # K is nearly singular: the dense formula loses digits
    assert certificate.risk == pytest.approx(risk, rel=1e-5)
    assert certificate.kl == pytest.approx(kl, rel=rough)
    axes = len(model.kernel_.parameter_names)
    truth = bound(
        certificate.risk, certificate.kl, N, delta=0.05, log_prior_penalty=axes * math.log(1201.0), rigor="sharp"
    )
    assert certificate.bound == pytest.approx(float(truth), rel=1e-13)


@pytest.mark.parametrize(
    "model",
    [
        PACGP(max_iter=15),
        SparsePACGP(8, "vfe", max_iter=15, random_state=0),
        SparsePACGP(8, "free", max_iter=15, random_state=0),
        PACGP((0.5, 0.9), scaling=(Scaling("fixed in advance", 1.0, 2.0), Scaling("disjoint split", 0.1, 0.5))),
    ],
    ids=["exact", "vfe", "free", "scaled"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_trained_by_its_bound_gets_its_own_certificate(model):
    model = model.fit(X, Y)
    epsilon = model.epsilon if isinstance(model.epsilon, float) else model.epsilon[0]
    assert certify(model, X, Y, epsilon=epsilon) == model.certificate_
    other = certify(model, X, Y, loss="squared", epsilon=2.0, grid=HyperGrid.ard(2, steps=60))
    assert other.grid.steps == (60, 60, 60)
    assert other.loss == Squared(2.0)
    assert other.charges == ()
    assert other.check(X, Y).confirmed


def test_an_unfitted_model_is_trained_on_all_rows() -> None:
    model = SparseGP("fitc", KERNEL, 0.2, n_inducing=8, random_state=0, **START)
    certificate = certify(model, X, Y, epsilon=0.5)
    assert not hasattr(model, "posterior_")
    assert certificate == certify(clone(model).fit(X, Y), X, Y, epsilon=0.5)
    assert (certificate.split, certificate.rows) == (None, N)


def test_several_goals_and_other_choices_are_charged():
    model = MODELS["exact"].fit(X, Y)
    single = certify(model, X, Y, epsilon=0.5)
    pair = certify(model, X, Y, epsilon=(0.5, 0.8), charges=[Charge("kernel families", 2)])
    assert [c.loss for c in pair] == [Band(0.5), Band(0.8)]
    for c in pair:
        assert c.log_count == pytest.approx(single.log_count + math.log(4.0), abs=1e-12)
        assert c.check(X, Y).confirmed
    assert (pair[0].risk, pair[0].kl) == (single.risk, single.kl)
    assert pair[1].bound < single.bound < pair[0].bound
    assert isinstance(single, Certificate)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("exact", "matern")])
def test_the_jitter_of_the_model_is_kept(name):
    """The jitter of training is part of Q, even if Kuu at the rounded kernel needs none: R_S and KL depend on it."""
    model = MODELS[name].fit(X, Y)
    model.jitter_ = 0.05
    certificate = certify(model, X, Y, epsilon=0.5, delta=0.05)
    assert certificate.posterior.jitter == 0.05
    assert certificate.check(X, Y).confirmed
    own, Xi = (
        certificate.kernel(Z) + 0.05 * np.eye(len(Z)),
        covariance(name, certificate.kernel, 0.05) + 0.2 * np.eye(N),
    )
    risk, kl = dense(certificate.kernel, own, certificate.kernel(Z, X), Xi)
    assert (certificate.risk, certificate.kl) == (pytest.approx(risk, rel=1e-6), pytest.approx(kl, rel=1e-6))
    plain = dense(
        certificate.kernel,
        certificate.kernel(Z),
        certificate.kernel(Z, X),
        covariance(name, certificate.kernel) + 0.2 * np.eye(N),
    )
    assert abs(certificate.kl / plain[1] - 1.0) > 1e-3
    assert abs(certificate.risk / plain[0] - 1.0) > 1e-4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_jitter_of_a_free_posterior_is_kept():
    model = SparsePACGP(8, "free", max_iter=3, random_state=0).fit(X, Y)
    model.jitter_ = 0.05
    certificate = certify(model, X, Y)
    assert certificate.posterior.jitter == 0.05
    np.testing.assert_array_equal(certificate.posterior.mean, model.posterior_.q.mean[:, 0])
    assert certificate.check(X, Y).confirmed


def test_a_jitter_is_kept_where_the_rounded_kernel_needs_none():
    """Training needed a jitter for close inducing inputs; the only lengthscale of the grid is ten times shorter."""
    crowd, x = np.linspace(-2.0, 2.0, 40)[:, None], X[:, :1]
    model = SparseGP("fitc", SquaredExponential(1.0, 2.0), 0.1, inducing=crowd, **START).fit(x, Y)
    short = HyperGrid([0.0, math.log(0.1)], [0.0, math.log(0.1)], 0, ("variance", "lengthscale"))
    assert model.jitter_ > 0.0
    with pytest.warns(UserWarning, match="moved to its edge: lengthscale"):
        certificate = certify(model, x, Y, grid=short)
    assert certificate.posterior.jitter == model.jitter_


def test_kuu_that_is_nearly_singular_is_given_a_jitter_whose_rounding_is_known():
    crowd = np.linspace(-2.0, 2.0, 40)[:, None]
    x, y = X[:, :1], np.sin(2.0 * X[:, 0])
    model = SparseGP("fitc", SquaredExponential(1.0, 2.0), 0.1, inducing=crowd, optimizer=None).fit(x, y)
    certificate = certify(model, x, y)
    assert certificate.check(x, y).confirmed
    assert 0.0 < certificate.posterior.jitter <= 1e-6
    few = SparseGP("fitc", SquaredExponential(1.0, 2.0), 0.1, inducing=crowd[::5], optimizer=None).fit(x, y)
    assert certificate.bound == pytest.approx(certify(few, x, y).bound, rel=1e-3)


def test_data_that_were_scaled_before_are_certified_raw():
    """Constants from 50 other rows: the certificate refers to raw values and declares the origin of the constants."""
    raw_X, raw_y = 3.0 * X + 1.0, 5.0 * Y - 2.0
    other = np.random.default_rng(5)
    rows = other.normal(1.0, 3.0, (50, 2))
    inputs = Scaling("disjoint split", rows.mean(axis=0), rows.std(axis=0))
    outputs = Scaling("disjoint split", -2.3, 4.9)
    model = ExactGP(KERNEL, 0.2, **START).fit(inputs.apply(raw_X), outputs.apply(raw_y))
    certificate = certify(model, raw_X, raw_y, scaling=(inputs, outputs))
    report = certificate.check(raw_X, raw_y)
    assert report.confirmed
    assert "disjoint" in report.lines[0].text
    assert certificate.bound == certify(model, inputs.apply(raw_X), outputs.apply(raw_y)).bound
    with pytest.raises(ValueError, match=r"X: expected the data that the model was trained on, after scaling"):
        certify(model, raw_X, raw_y)


def test_rows_whose_last_digits_a_unit_has_changed_are_those_of_training():
    model = MODELS["exact"].fit(X, Y)
    usual = certify(model, X, Y)
    for unit in (1e-3, 7.0):
        assert certify(model, X / unit * unit, Y / unit * unit).bound == pytest.approx(usual.bound, rel=1e-9)
    for changed in ((X + 1e-7, Y), (X, Y - 1e-7)):
        with pytest.raises(ValueError, match="expected the data that the model was trained on"):
            certify(model, *changed)


def test_normalised_targets_are_refused_unless_their_constants_are_accounted_for():
    model = ExactGP(KERNEL, 0.2, normalize_y=True, **START).fit(X, 3.0 * Y + 2.0)
    raw = X, 3.0 * Y + 2.0
    with pytest.raises(ValueError, match=r"got normalize_y=True: the mean .* come from these very targets.*P-45"):
        certify(model, *raw)
    loose = certify(model, *raw, nonrigorous=True)
    assert not loose.rigorous
    assert str(loose.check(*raw)).startswith("NOT RIGOROUS")
    assert not loose.check(*raw).rigorous
    listed = Scaling("charged", model.y_mean_, model.y_scale_, count=1000)
    paid = certify(model, *raw, scaling=(Scaling(), listed))
    assert paid.rigorous
    assert paid.log_count == pytest.approx(loose.log_count + math.log(1000.0))
    assert paid.check(*raw).confirmed
    assert (paid.risk, paid.kl) == (loose.risk, loose.kl)
    with pytest.raises(ValueError, match="y: expected the data that the model was trained on"):
        certify(model, *raw, scaling=(Scaling(), Scaling("disjoint split", 2.0, 3.0)))
    with pytest.raises(ValueError, match="scaling: expected constants fixed in advance"):
        certify(model, *raw, scaling=(Scaling(), Scaling("same data", model.y_mean_, model.y_scale_)))


def test_pic_is_refused_with_the_reason():
    model = SparseGP("pic", KERNEL, 0.2, inducing=Z, block_size=20, **START).fit(X, Y)
    with pytest.raises(ValueError, match="model: expected another method than 'pic': its prediction at x depends on"):
        certify(model, X, Y)


def test_a_kernel_outside_the_grid_is_moved_to_its_edge_and_that_is_said():
    model = ExactGP(SquaredExponential(0.7, [0.9, 1e5]), 0.2, **START).fit(X, Y)
    with pytest.warns(UserWarning, match="Outside the grid and moved to its edge: lengthscale_2"):
        certificate = certify(model, X, Y)
    assert certificate.kernel.lengthscale[1] == HyperGrid.ard(2).at([0, 0, 1200]).theta["lengthscale_2"]
    assert certificate.check(X, Y).confirmed


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "sentence"),
    [
        (Ridge(), (X, Y), {}, ValueError, "model: expected one of ExactGP, .*, got Ridge"),
        ("exact", (X, Y + 1e-6), {}, ValueError, "y: expected the data that the model was trained on"),
        ("exact", (X[:50], Y[:50]), {}, ValueError, "X: expected the data that the model was trained on"),
        ("exact", (X.astype(np.float32), Y), {}, ValueError, "X: expected float64, got float32"),
        ("exact", (X, Y), {"loss": "zero"}, ValueError, "loss: expected one of 'band'"),
        ("exact", (X, Y), {"epsilon": 0.0}, ValueError, "epsilon: expected a positive"),
        ("exact", (X, Y), {"delta": 1.0}, ValueError, "delta: expected one number in"),
        ("exact", (X, Y), {"grid": HyperGrid.shared()}, ValueError, "grid: expected the names variance, lengthscale_1"),
        ("exact", (X, Y), {"scaling": "raw"}, ValueError, "scaling: expected 'as given'"),
        ("exact", (X, Y), {"charges": [2]}, ValueError, "charges: expected a sequence of gpbounds.pacbayes.Charge"),
    ],
)
def test_what_cannot_be_certified_is_refused(model, data, options, error, sentence):
    made = MODELS["exact"].fit(X, Y) if model == "exact" else model
    with pytest.raises(error, match=sentence):
        certify(made, *data, **options)


def test_several_outputs_and_kernels_without_a_bound_on_rounding_are_refused():
    many = ExactGP(KERNEL, 0.2, **START).fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="model: expected one output, got 2"):
        certify(many, X, Y)
    rough = ExactGP(KERNEL + Matern(0.8), 0.2, **START).fit(X, Y)
    with pytest.raises(ValueError, match=r"kernel: expected a half-integer ν, for which rounding is bounded, got 0.8"):
        certify(rough, X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_risk_that_is_rounded_above_one_is_not_refused(monkeypatch):
    """The mean of N expected losses of 1 can be 1 + 2e-16, of which kl⁻¹ knows no bound."""
    model = PACGP(0.5, max_iter=3).fit(X, Y)
    usual = certify(model, X, Y, epsilon=0.5)
    enclosed = rows.enclose

    def rounded_up(*arguments):
        monkeypatch.setattr(rows, "enclose", enclosed)
        return replace(enclosed(*arguments), risk=math.nextafter(1.0, 2.0), risk_error=0.0)

    monkeypatch.setattr(rows, "enclose", rounded_up)
    assert certify(model, X, Y, epsilon=0.5) == usual  # the certificate encloses its own numbers
