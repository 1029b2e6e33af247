"""The mean of a certificate's prior: fixed, from disjoint rows, or on a grid; charged, checked, and never free."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import fitting
from fitting import PACGP, ExactGP, SparseGP, SparsePACGP, VariationalGP, certify
from gpbounds import SquaredExponential
from gpbounds.losses import Band, Interval, Relative
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, DeclaredMean, Exact, HyperGrid, MeanGrid, Scaling, issue_certificate

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

GRID = HyperGrid.shared(-6.0, 2.0, 8)
KERNEL = SquaredExponential(1.0, 0.3)
COMMON = {"epsilon": 0.6, "delta": 0.05, "grid": GRID, "kernel": KERNEL, "noise": 0.2, "max_iter": 6}
SLOPED = DeclaredMean("disjoint split", 1.0, (3.0,))


def data(N: int = 80, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N, 1))
    return X, 1.0 + 3.0 * X[:, 0] + 0.5 * np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_normal(N)


MODELS = {
    "full": lambda mean: PACGP(mean=mean, **COMMON),
    "fitc": lambda mean: SparsePACGP(6, mean=mean, random_state=0, **COMMON),
    "free": lambda mean: SparsePACGP(6, posterior="free", mean=mean, random_state=0, **COMMON),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_mean_is_a_certificate_of_the_residuals(name: str, tmp_path) -> None:
    """The same numbers as for y − m(x) with the mean 0; predictions add m; the file and the check need it."""
    X, y = data()
    model = MODELS[name](SLOPED).fit(X, y)
    about = MODELS[name]("zero").fit(X, SLOPED.apply(X, y))
    certificate = model.certificate_
    assert (certificate.bound, certificate.kl, certificate.risk) == (about.bound_, about.kl_, about.risk_)
    assert certificate.check(X, y).confirmed
    assert not certificate.check(X, SLOPED.apply(X, y)).confirmed
    new = np.array([[0.3], [50.0]])
    np.testing.assert_allclose(model.predict(new), about.predict(new) + SLOPED.function(new), rtol=1e-12)
    assert model.predict(new)[1] == pytest.approx(151.0)
    certificate.save(tmp_path / "certificate.json")
    again = Certificate.load(tmp_path / "certificate.json")
    assert again == certificate
    assert again.mean == SLOPED
    assert again.check(X, y).confirmed
    text = str(again.check(X, y))
    assert "fitted to data disjoint from these (intercept 1, slopes [3])" in text
    assert "the mean 0 of the prior" not in text
    model.save(tmp_path / "model.npz")
    loaded = fitting.load(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(new), model.predict(new))
    assert loaded.mean_ == model.mean_ == LinearMean(1.0, [3.0])
    low, high = (tuple(map(float, each.log_evidence_bounds())) for each in (model, about))
    assert low == pytest.approx(high, rel=1e-9)


def test_a_grid_is_charged() -> None:
    """(2·steps + 1)^(1 + D) functions: the number of choices is larger by this factor."""
    X, y = data()
    model = PACGP(mean=MeanGrid("linear", edge=4.0, steps=8), **COMMON).fit(X, y)
    certificate = model.certificate_
    assert certificate.mean.origin == "grid"
    assert certificate.mean.count == 17**2
    assert certificate.count == GRID.size * 17**2
    assert certificate.log_count == pytest.approx(math.log(GRID.size * 17**2), rel=1e-14)
    assert certificate.check(X, y).confirmed
    assert "289 means of the prior" in str(certificate.check(X, y))
    declared = PACGP(mean=replace(certificate.mean, origin="fixed in advance", edge=0.0, steps=0), **COMMON).fit(X, y)
    assert declared.bound_ < model.bound_


@pytest.mark.parametrize("steps", [1, 3, 8, 1000])
def test_members_of_a_grid_are_exact(steps: int) -> None:
    rng = np.random.default_rng(steps)
    for edge in rng.uniform(0.1, 9.0, 20):
        X = rng.standard_normal((30, 3))
        y = rng.uniform(-2.0 * edge, 2.0 * edge) + X @ rng.uniform(-edge, edge, 3)
        mean = MeanGrid("linear", edge, steps).nearest(X, y)
        assert DeclaredMean(**mean.to_dict()) == mean
        assert max(map(abs, mean.coefficients)) <= edge
        with pytest.raises(ValueError, match="whole multiples"):
            replace(mean, intercept=np.nextafter(mean.intercept, np.inf))


def forged(certificate: Certificate, path, change) -> Certificate:
    """The certificate with a changed file, sealed again."""
    certificate.save(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    return Certificate.load(path).sealed()


def test_forged_means_fail(tmp_path) -> None:
    X, y = data()
    path = tmp_path / "forged.json"
    fixed = PACGP(mean=SLOPED, **COMMON).fit(X, y).certificate_
    chosen = PACGP(mean=MeanGrid("linear", edge=4.0, steps=8), **COMMON).fit(X, y).certificate_
    for certificate, change in (
        (fixed, lambda record: record["mean"].update(intercept=1.25)),
        (fixed, lambda record: record["mean"].update(slopes=[2.5])),
        (fixed, lambda record: record["mean"].update(slopes=[])),
        (fixed, lambda record: record.pop("mean")),
        (chosen, lambda record: record["mean"].update(edge=3.5, steps=7)),  # a shorter list
        (chosen, lambda record: record["mean"].update(origin="fixed in advance", edge=0.0, steps=0)),
    ):
        report = forged(certificate, path, change).check(X, y)
        assert not report.confirmed
        assert set(report.failed) & {"kl", "risk", "choices", "bound"}
    unsealed = json.loads(path.read_text(encoding="utf-8"))
    unsealed["mean"] = {**SLOPED.to_dict(), "origin": "fixed in advance"}
    path.write_text(json.dumps(unsealed), encoding="utf-8")
    assert "seal" in Certificate.load(path).check(X, y).failed
    for change, message in (
        ({"origin": "same data"}, "origin: expected"),
        ({"intercept": 0.3, "origin": "grid", "edge": 2.0, "steps": 4}, "whole multiples"),
        ({"steps": 3}, "edge, steps: expected none"),
    ):
        with pytest.raises(ValueError, match=message):
            forged(fixed, path, lambda record, new=change: record["mean"].update(new))


def test_the_check_asks_about_a_mean_that_was_fitted_to_the_rows() -> None:
    """Least squares on the certified rows is not a fixed mean; its residuals show it."""
    X, y = data()
    H = np.column_stack([np.ones(len(X)), X])
    fitted = np.linalg.lstsq(H, y, rcond=None)[0]
    mean = DeclaredMean("fixed in advance", fitted[0], (fitted[1],))
    suspicious, honest = (PACGP(mean=m, **COMMON).fit(X, y).certificate_.check(X, y) for m in (mean, SLOPED))
    assert "as if fitted to these very rows" in str(suspicious)
    assert "as if fitted" not in str(honest)


@pytest.mark.parametrize("origin", ["array", "files"])
def test_any_model_with_a_declared_mean_has_a_certificate(origin: str, tmp_path) -> None:
    """`certify`: the coefficients come from other rows, and their origin is declared with the certificate."""
    X, y = data()
    rows = X, y
    if origin == "files":
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "y.npy", y)
        rows = tmp_path / "X.npy", tmp_path / "y.npy"
    sparse = SparseGP(n_inducing=6, kernel=KERNEL, mean=SLOPED.function, random_state=0, max_iter=10)
    for model in (ExactGP(KERNEL, mean=SLOPED.function, max_iter=10), sparse) if origin == "array" else (sparse,):
        model.fit(*rows)
        certificate = certify(model, *rows, mean=SLOPED, epsilon=0.6, grid=GRID)
        assert certificate.check(X, y).confirmed
        assert certificate.mean == SLOPED
        zero = fitting.certify(type(model)(**{**model.get_params(), "mean": "zero"}).fit(X, SLOPED.apply(X, y)), X,
                               SLOPED.apply(X, y), epsilon=0.6, grid=GRID)  # fmt: skip
        assert certificate.bound == pytest.approx(zero.bound, rel=1e-6)
        with pytest.raises(ValueError, match="mean: expected the declaration of the model's prior mean"):
            certify(model, *rows, epsilon=0.6, grid=GRID)


def test_partitions_have_the_certificate_of_arrays(tmp_path) -> None:
    X, y = data(200)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    paths = tmp_path / "X.npy", tmp_path / "y.npy"
    for mean in (SLOPED, MeanGrid("linear", edge=4.0, steps=8)):
        near, far = (SparsePACGP(6, mean=mean, random_state=0, **COMMON).fit(*rows) for rows in ((X, y), paths))
        assert far.certificate_.mean == near.certificate_.mean
        assert far.bound_ == pytest.approx(near.bound_, rel=1e-6)
        assert far.certificate_.check(*paths).confirmed
        assert far.certificate_.check(X, y).confirmed
        np.testing.assert_allclose(far.predict(X), near.predict(X), rtol=1e-5)


def test_units_are_those_of_the_scaled_rows() -> None:
    """With a Scaling the mean is a function of scaled inputs, and the certificate is that of these rows."""
    X, y = data()
    raw_X, raw_y = 10.0 + 4.0 * X, 100.0 + 2.0 * y
    scaling = Scaling("disjoint split", 10.0, 4.0), Scaling("disjoint split", 100.0, 2.0)
    one = PACGP(mean=SLOPED, scaling=scaling, **COMMON).fit(raw_X, raw_y)
    other = PACGP(mean=SLOPED, **COMMON).fit(X, y)
    assert one.bound_ == pytest.approx(other.bound_, rel=1e-6)
    np.testing.assert_allclose(one.predict(raw_X), 100.0 + 2.0 * other.predict(X), rtol=1e-6)
    assert one.certificate_.check(raw_X, raw_y).confirmed
    rebuilt = issue_certificate(
        raw_X, raw_y, one.kernel_, lambda kernel, X, y: Exact(one.noise_), grid=GRID, loss=Band(0.6), delta=0.05,
        inputs=scaling[0], outputs=scaling[1], mean=SLOPED,
    )  # fmt: skip
    assert rebuilt.bound == one.bound_


# ---------------------------------------------------------------------- how often the bound is wrong

DELTA, TAU, ROWS = 0.1, 0.6, 30


def risk(certificate: Certificate, X, y) -> float:
    """The risk under y = N(0, τ²), x uniform: Gauss–Legendre over x, with Q rebuilt from the certificate."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x = 0.5 + 0.5 * nodes[:, None]
    mean = certificate.mean
    about = y if mean is None else mean.apply(X, y)
    law = ExactGP(certificate.kernel, certificate.posterior.noise, optimizer=None).fit(X, about)
    m, s = law.predict(x, return_std=True)
    own = np.zeros(len(x)) if mean is None else mean.function(x)
    return float(0.5 * weights @ certificate.loss.expectation(-own, m, s**2 + TAU**2))


@pytest.mark.slow
def test_the_bound_of_a_trained_model_holds_as_often_as_it_says() -> None:
    """Sets of 30 rows without any signal, where the mean on the grid fits noise: with the charge the bound holds."""
    rng = np.random.default_rng(0)
    options = {**COMMON, "grid": HyperGrid.shared(-6.0, 2.0, 4), "delta": DELTA, "noise": 0.5, "max_iter": 30}
    wrong, broken, sets = 0, 0, 300
    for _ in range(sets):
        X, y = rng.uniform(size=(ROWS, 1)), TAU * rng.standard_normal(ROWS)
        certificate = PACGP(mean=MeanGrid("linear", edge=3.0, steps=30), **options).fit(X, y).certificate_
        truth = risk(certificate, X, y)
        wrong += certificate.bound < truth
        broken += certificate.risk < truth
    assert wrong == 0 or binom.sf(wrong - 1, sets, DELTA) > 1e-6
    assert binom.sf(broken - 1, sets, DELTA) < 1e-6  # R_S alone is below the risk too often


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (lambda X, y: PACGP(mean="linear").fit(X, y), "mean: expected 'zero', or a DeclaredMean or MeanGrid"),
        (lambda X, y: PACGP(mean=LinearMean(1.0)).fit(X, y), "mean: expected the origin of the coefficients as well"),
        (lambda X, y: SparsePACGP(mean=LinearMean(1.0)).fit(X, y), "DeclaredMean.'fixed in advance', intercept"),
        (lambda X, y: SparsePACGP(mean="constant").fit(X, y), "needs a grid that was fixed in advance"),
        (lambda X, y: PACGP(mean=None).fit(X, y), "mean: expected 'zero'"),
        (lambda X, y: PACGP(mean=SLOPED, loss="relative").fit(X, y), "which depends on y itself"),
        (lambda X, y: PACGP(mean=DeclaredMean("disjoint split", 0.0, (1.0, 2.0))).fit(X, y), r"each of 1 column\(s\)"),
        (lambda X, y: PACGP(mean=DeclaredMean("disjoint split", 0.0, (1e308,))).fit(1e3 * X, y), "got an overflow"),
        (lambda X, y: certify(ExactGP(KERNEL, mean="linear", max_iter=2).fit(X, y), X, y), "which was trained on them"),
        (lambda X, y: certify(ExactGP(KERNEL, max_iter=2).fit(X, y), X, y, mean=SLOPED), "declaration of the model's"),
        (lambda X, y: certify(ExactGP(KERNEL, max_iter=2).fit(X, y), X, y, mean="zero"), "DeclaredMean or None"),
        (lambda X, y: VariationalGP(mean=SLOPED).fit(X, y), "or a gpbounds.means.LinearMean"),
        (lambda X, y: DeclaredMean("same data", 1.0), "origin: expected"),
        (lambda X, y: DeclaredMean("grid", 0.0, (), edge=1.0), "steps: expected"),
        (lambda X, y: DeclaredMean("fixed in advance", 0.0, [[1.0]]), "slopes: expected one for each column"),
        (lambda X, y: MeanGrid("cubic", 1.0, 2), "kind: expected"),
    ],
)
def test_bad_input_is_one_sentence(fails, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fails(*data(30))


def test_losses_of_the_target_itself_have_no_mean() -> None:
    X, y = data(30)
    for loss in (Relative(0.3), Interval(-0.2, 0.3, relative=True)):
        with pytest.raises(ValueError, match="depends on y itself"):
            Certificate.issue(X, y, Exact(0.1), SquaredExponential(1.0, 1.0), grid=HyperGrid.shared(-6.0, 6.0, 12),
                              loss=loss, delta=0.05, mean=SLOPED)  # fmt: skip
