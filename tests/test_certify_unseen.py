"""`fitting.certify` from rows that the model has not seen: counts by hand, failure frequencies, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binomtest, norm
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from thinning import one_in

from fitting import (
    PACGP,
    ExactGP,
    LowRankGP,
    RenyiGP,
    SparseGP,
    SparsePACGP,
    VariationalGP,
    VariationalGPClassifier,
    certify,
    load,
)
from fitting.estimators import GaussianProcess
from gpbounds import SquaredExponential
from gpbounds.losses import Sign, Squared
from gpbounds.pacbayes import Certificate, Charge, CoverageCertificate, HeldOutCertificate, Scaling, Split
from gpbounds.renyi import Model, from_gpflow
from gpbounds.renyi.models import InducingLaw
from gpbounds.rows import Source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart

N = 120
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N, 2))
Y = 3.0 + 2.0 * np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * RNG.standard_normal(N)
LABELS = np.where(X[:, 0] + 0.3 * RNG.standard_normal(N) > 0.0, "up", "down")
KERNEL, Z = SquaredExponential(1.0, [0.9, 1.4]), RNG.uniform(-2.0, 2.0, (8, 2))
QUICK = {"kernel": KERNEL, "noise": 0.2, "optimizer": None, "start": "scale"}
BOUNDED = {"max_iter": 3, "random_state": 0}
ESTIMATORS = {
    "exact": ExactGP(**QUICK),
    "normalised": ExactGP(normalize_y=True, **QUICK),
    "linear mean": ExactGP(mean="linear", max_iter=3),
    "vfe": SparseGP("vfe", inducing=Z, **QUICK),
    "pic": SparseGP("pic", inducing=Z, block_size=20, **QUICK),
    "renyi": RenyiGP(0.5, inducing=Z, **QUICK),
    "low rank": LowRankGP(rank=20, max_iter=3, random_state=0),
    "pac": PACGP(max_iter=3),
    "sparse pac": SparsePACGP(8, **BOUNDED),
    "free pac": SparsePACGP(8, "free", **BOUNDED),
    "variational": VariationalGP(8, **BOUNDED),
    "student-t": VariationalGP(8, "student-t", **BOUNDED),
    "gpr": GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None),
    "ridge": Ridge(),
    "pipeline": make_pipeline(StandardScaler(), BayesianRidge()),
}
SPREADLESS = {"free pac", "ridge"}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("short_pilots"),
]


def quantile(k: int, n: int, delta: float) -> float:
    """The 1 − δ quantile of Beta(k + 1, n − k)."""
    return float(beta.ppf(1.0 - delta, k + 1, n - k))


def by_hand(model, mask):
    """The predictions of the model trained on the rows of ``mask`` at the others, in standardised units of those."""
    shift, scale = Y[mask].mean(), Y[mask].std()
    middle, width = X[mask].mean(axis=0), X[mask].std(axis=0)
    trained = model.fit((X[mask] - middle) / width, (Y[mask] - shift) / scale)
    return shift + scale * trained.predict((X[~mask] - middle) / width), scale


# --- what is certified ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_mistakes_are_those_counted_by_hand(share) -> None:
    """Trained on the rows of the split in units of their own mean and deviation, and on no others."""
    mask = Split("random", share, 7).prior(N)
    predicted, scale = by_hand(Ridge(), mask)
    wrong = int((np.abs(Y[~mask] - predicted) > 0.6 * scale).sum())
    certificate = certify(Ridge(), X, Y, method="held-out", scaling="prior", share=share, random_state=7, delta=0.05)
    assert isinstance(certificate, HeldOutCertificate)
    assert certificate.split == Split("random", share, 7)
    assert (certificate.mistakes, certificate.rows) == (wrong, (~mask).sum())
    assert 0 < wrong < certificate.rows
    assert certificate.bound == pytest.approx(quantile(wrong, certificate.rows, 0.05), rel=1e-9)
    np.testing.assert_allclose(certificate.predictions, predicted, rtol=1e-12)
    assert certificate.check(X, Y).confirmed
    assert certificate.outputs.origin == "disjoint split"


def test_rows_in_the_order_of_time_train_on_the_first_ones() -> None:
    certificate = certify(Ridge(), X, Y, method="held-out", order="as given", share=0.25)
    np.testing.assert_array_equal(certificate.predictions, Ridge().fit(X[:30], Y[:30]).predict(X[30:]))
    later = Y.copy()
    later[30:] = 0.0
    again = certify(Ridge(), X, later, method="held-out", order="as given", share=0.25)
    np.testing.assert_array_equal(again.predictions, certificate.predictions)
    assert not certificate.check(X, later).confirmed


SCALINGS = ("as given", "prior")
EACH_SCALED = [(name, SCALINGS[(i + k) % 2]) for i, name in enumerate(ESTIMATORS) for k in range(2)]


@pytest.mark.parametrize(("name", "scaling"), one_in(2, EACH_SCALED))
def test_every_regressor_is_certified_by_its_own_predictions(name, scaling) -> None:
    mask = Split().prior(N)
    options = {"method": "held-out", "scaling": scaling, "delta": 0.1}
    certificate = certify(ESTIMATORS[name], X, Y, **options)
    model, unit = certificate.model, 1.0 if scaling == "as given" else Y[mask].std()
    if scaling == "as given" or (isinstance(model, GaussianProcess) and "pac" not in name):
        expected = model.predict(X[~mask])  # from raw rows
    else:
        middle, width = X[mask].mean(axis=0), X[mask].std(axis=0)
        expected = Y[mask].mean() + unit * model.predict((X[~mask] - middle) / width)
    np.testing.assert_allclose(certificate.predictions, expected, rtol=1e-9, atol=1e-9)
    assert certificate.mistakes == (np.abs(Y[~mask] - certificate.predictions) > 0.6 * unit).sum()
    assert certificate.check(X, Y, predictions=certificate.predictions).confirmed
    intervals = certify(ESTIMATORS[name], X, Y, coverage=0.8, **options)
    assert isinstance(intervals, CoverageCertificate)
    scores = np.sort(np.abs(Y[~mask] - intervals.predictions) / intervals.spread)
    assert intervals.factor == pytest.approx(scores[intervals.rank - 1], rel=1e-14)
    assert intervals.factor > scores[intervals.rank - 1]  # by the rounding of scores
    assert ("constant spread" in intervals.predictor) == (name in SPREADLESS)
    assert (np.ptp(intervals.spread) == 0.0) == (name in SPREADLESS)
    assert intervals.check(X, Y).confirmed
    assert (
        beta.sf(0.8, intervals.rank, 61 - intervals.rank) >= 0.9 > beta.sf(0.8, intervals.rank - 1, 62 - intervals.rank)
    )


def test_the_spread_of_a_gaussian_process_is_that_of_a_new_target() -> None:
    mask = Split().prior(N)
    intervals = certify(ESTIMATORS["vfe"], X, Y, method="held-out", coverage=0.8, delta=0.1)
    _, std = intervals.model.predict(X[~mask], return_std=True, noisy=True)
    np.testing.assert_allclose(intervals.spread, std, rtol=1e-12)
    assert intervals.spread.min() >= np.sqrt(0.2)


@pytest.mark.parametrize("model", [LogisticRegression(), VariationalGPClassifier(8, **BOUNDED)], ids=["linear", "gp"])
@pytest.mark.parametrize("kind", ["texts", "numbers", "truths"])
def test_labels_of_any_kind_are_counted(model, kind) -> None:
    labels = {"texts": LABELS, "numbers": np.where(LABELS == "up", 7, 3), "truths": LABELS == "up"}[kind]
    mask = Split().prior(N)
    certificate = certify(model, X, labels, method="held-out", delta=0.05)
    wrong = int((certificate.model.predict(X[~mask]) != labels[~mask]).sum())
    assert certificate.mistakes == wrong > 0
    assert certificate.bound == pytest.approx(quantile(wrong, 60, 0.05), rel=1e-9)
    assert certificate.classes == tuple(np.unique(labels).tolist())
    assert certificate.check(X, labels, predictions=certificate.model.predict(X[~mask])).confirmed
    flipped = labels.copy()
    place = np.flatnonzero(~mask)[0]
    flipped[place] = labels[labels != labels[place]][0]
    assert not certificate.check(X, flipped).confirmed


def test_a_label_that_the_classifier_does_not_know_is_a_mistake() -> None:
    model = LogisticRegression().fit(X[:60], LABELS[:60])
    labels = LABELS[60:].astype(object)
    before = certify(model, X[60:], labels, method="held-out")
    right = np.flatnonzero(model.predict(X[60:]) == labels)[0]
    labels = labels.copy()
    labels[right] = "sideways"
    after = certify(model, X[60:], labels, method="held-out")
    assert after.mistakes == before.mistakes + 1
    assert after.classes == ("down", "sideways", "up")
    assert after.check(X[60:], labels).confirmed


def test_several_accuracies_share_delta() -> None:
    wide, narrow = certify(Ridge(), X, Y, method="held-out", epsilon=(2.0, 0.5), delta=0.06)
    for each in (wide, narrow):
        assert each.charges == (Charge("accuracy goals ε", 2),)
        assert each.bound == pytest.approx(quantile(each.mistakes, 60, 0.03), rel=1e-9)
        assert each.check(X, Y).confirmed
    assert wide.mistakes < narrow.mistakes
    better = certify(Ridge(), X, Y, method="held-out", charges=[Charge("models", 3)], delta=0.06, loss=Squared(2.0))
    assert better.mistakes is None
    assert better.share == pytest.approx(0.02)


# --- fitted models, imported models, predictions ----------------------------------------------------------------------


def test_a_fitted_model_is_certified_by_all_rows_that_it_has_not_seen() -> None:
    fresh, targets = X[60:], Y[60:]
    certificate = certify(Ridge().fit(X[:60], Y[:60]), fresh, targets, method="held-out")
    assert (certificate.split, certificate.rows) == (None, 60)
    np.testing.assert_array_equal(certificate.predictions, Ridge().fit(X[:60], Y[:60]).predict(fresh))
    units = Scaling("disjoint split", [1.0, 2.0], 3.0), Scaling("disjoint split", 2.5, 1.5)
    scaled = Ridge().fit(units[0].apply(X[:60]), units[1].apply(Y[:60]))
    other = certify(scaled, fresh, targets, method="held-out", scaling=units)
    np.testing.assert_allclose(other.predictions, 2.5 + 1.5 * scaled.predict(units[0].apply(fresh)), rtol=1e-12)
    assert other.mistakes == (np.abs(targets - other.predictions) > 0.6 * 1.5).sum()


@pytest.mark.parametrize("name", ["vfe", "pic", "normalised"])
def test_the_model_of_a_certificate_predicts_raw_rows_after_a_file(name, tmp_path) -> None:
    certificate = certify(ESTIMATORS[name], X, Y, method="held-out", scaling="prior")
    certificate.model.save(tmp_path / "model.npz")
    predicted = load(tmp_path / "model.npz").predict(X[~Split().prior(N)])
    np.testing.assert_allclose(predicted, certificate.predictions, rtol=1e-9)


def test_the_units_of_a_model_with_its_own_scaling_are_those_of_its_loss() -> None:
    units = Scaling("fixed in advance", 0.0, 2.0), Scaling("fixed in advance", 3.0, 2.0)
    model = PACGP(max_iter=3, scaling=units).fit(X[:60], Y[:60])
    certificate = certify(model, X[60:], Y[60:], method="held-out")
    np.testing.assert_allclose(certificate.predictions, model.predict(X[60:]), rtol=1e-12)
    assert certificate.outputs == units[1]
    assert certificate.mistakes == (np.abs(Y[60:] - model.predict(X[60:])) > 1.2).sum()


@pytest.mark.parametrize(
    "model",
    [
        *(ESTIMATORS[name] for name in ("exact", "normalised", "linear mean", "variational", "low rank")),
        PACGP(max_iter=3, scaling=(Scaling("fixed in advance", 0.0, 2.0), Scaling("fixed in advance", 3.0, 2.0))),
        GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None, normalize_y=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rows_of_training_are_refused(model) -> None:
    model = clone(model).fit(X[:60], Y[:60])
    with pytest.raises(
        ValueError, match=r"expected rows that the model had not seen, got 65 of which 5 are among the 60"
    ):
        certify(model, X[55:], Y[55:], method="held-out")
    assert certify(model, X[60:], Y[60:], method="held-out").rows == 60
    same_inputs = certify(model, X[:60], Y[:60] + 0.01, method="held-out")  # new targets there
    assert same_inputs.rows == 60


def test_labels_of_training_are_refused() -> None:
    model = VariationalGPClassifier(8, **BOUNDED).fit(X[:60], LABELS[:60])
    with pytest.raises(ValueError, match="got 61 of which 1 are among the 60 rows of its training"):
        certify(model, X[59:], LABELS[59:], method="held-out")
    assert certify(model, X[60:], LABELS[60:], method="held-out").rows == 60


def test_an_imported_model_predicts_by_its_own_law() -> None:
    mean, factor = RNG.standard_normal(8), 0.2 * np.eye(8)
    model = Model(KERNEL, 0.3, Z, None, InducingLaw(mean, factor, whitened=False, jitter=0.0))
    certificate = certify(model, X, Y, method="held-out")
    A = np.linalg.solve(KERNEL(Z), KERNEL(Z, X))
    np.testing.assert_allclose(certificate.predictions, A.T @ mean, rtol=1e-6)
    intervals = certify(model, X, Y, method="held-out", coverage=0.9)
    variance = KERNEL.diag(X) - (A * (KERNEL(Z) @ A)).sum(axis=0) + 0.04 * (A * A).sum(axis=0)
    np.testing.assert_allclose(intervals.spread, np.sqrt(variance + 0.3), rtol=1e-6)
    with pytest.raises(ValueError, match="model: expected a Model with its q"):
        certify(Model(KERNEL, 0.3, Z), X, Y, method="held-out")


def test_a_model_of_another_library_is_certified_with_its_predictions() -> None:
    stored = json.loads((Path(__file__).parent / "peers" / "gpflow_variational.json").read_text(encoding="utf-8"))
    record = stored["models"]["whiten=True, q_diag=False"]
    model, new = from_gpflow(rebuilt(record["model"])), np.array(stored["new"])
    targets = np.array(record["mean"]).ravel() + np.linspace(0.0, 1.0, len(new))
    certificate = certify(model, new, targets, method="held-out", epsilon=0.3)
    np.testing.assert_allclose(certificate.predictions, np.ravel(record["mean"]), rtol=1e-9)
    assert certificate.mistakes == (np.linspace(0.0, 1.0, len(new)) > 0.3).sum() == 2


def rebuilt(record):
    """An object with the class name and the attributes of a description."""
    part = type(record["class"], (), {})()
    for name, value in record.items():
        if isinstance(value, dict):
            setattr(part, name, slice(*value["slice"]) if "slice" in value else rebuilt(value))
        elif name != "class":
            setattr(part, name, value if isinstance(value, str) else np.asarray(value))
    return part


def test_predictions_in_a_file_and_in_arrays_are_certified(tmp_path) -> None:
    mean, std = Y + RNG.standard_normal(N), RNG.uniform(0.5, 2.0, N)
    path = tmp_path / "predictions.csv"
    lines = ["std, mean", *(f"{s!r},{m!r}" for m, s in zip(mean.tolist(), std.tolist(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for given in (path, str(path), (mean, std)):
        certificate = certify(given, X, Y, method="held-out", epsilon=1.0)
        assert certificate.mistakes == (np.abs(Y - mean) > 1.0).sum()
        intervals = certify(given, X, Y, method="held-out", coverage=0.8)
        assert intervals.factor == pytest.approx(np.sort(np.abs(Y - mean) / std)[intervals.rank - 1], rel=1e-14)
        assert intervals.split is None
    constant = certify(mean, X, Y, method="held-out", coverage=0.8)
    assert constant.factor == pytest.approx(np.sort(np.abs(Y - mean))[constant.rank - 1], rel=1e-14)
    assert "predictions.csv" in certify(path, X, Y, method="held-out").predictor
    assert str(tmp_path) not in certify(path, X, Y, method="held-out").predictor


def test_labels_in_a_file_and_in_arrays_are_certified(tmp_path) -> None:
    predicted = np.where(X[:, 0] > 0.0, "up", "down")
    wrong = (predicted != LABELS).sum()
    path = tmp_path / "predictions.csv"
    path.write_text("label\n" + "\n".join(predicted) + "\n", encoding="utf-8")
    assert certify(path, X, LABELS, method="held-out").mistakes == wrong > 0
    assert certify(predicted, X, LABELS, method="held-out").mistakes == wrong
    numbers = np.where(LABELS == "up", 1, 2)
    written = "label\n" + "\n".join("1" if each == "up" else "2.0" for each in predicted) + "\n"
    path.write_text(written, encoding="utf-8")
    assert certify(path, X, numbers, method="held-out").mistakes == wrong
    assert certify(np.where(predicted == "up", 1, 2), X, numbers, method="held-out", loss="zero-one").mistakes == wrong


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0.5\n1.0\n", r"expected a header line with the column 'mean'.*got '0.5' in line 1"),
        ("mean,sd\n1,2\n", r"got 'mean', 'sd' in line 1"),
        ("", r"got no line"),
        ("mean\n0.5\nhigh\n", r"expected numbers, got 'high' in line 3, column 1"),
        ("mean,std\n0.5,1\n\n0.5,0\n", r"expected a positive std in every row, got 0 in line 4"),
        (
            "mean\n0.5\n1.5\n",
            r"expected one prediction for each of the 120 certified rows, in their order, got 2 in p.csv",
        ),
    ],
)
def test_a_wrong_file_of_predictions_is_refused_by_file_and_line(tmp_path, text, sentence) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence) as error:
        certify(path, X, Y, method="held-out")
    assert "p.csv" in str(error.value)


def test_a_data_frame_names_the_columns_of_a_pipeline() -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer

    table = pandas.DataFrame({"width": X[:, 0], "length": X[:, 1]})
    model = make_pipeline(make_column_transformer(("passthrough", ["length"])), Ridge())
    certificate = certify(model, table, pandas.Series(Y), method="held-out")
    mask = Split().prior(N)
    expected = Ridge().fit(X[mask, 1:], Y[mask]).predict(X[~mask, 1:])
    np.testing.assert_allclose(certificate.predictions, expected, rtol=1e-12)
    assert certificate.check(X, Y).confirmed
    fitted = model.fit(table[:60], Y[:60])
    assert certify(fitted, table[60:], Y[60:], method="held-out").rows == 60


# --- the best of several forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["as given", "prior"])
def test_the_least_bound_wins_and_all_forms_share_delta(scaling) -> None:
    chosen = certify(ESTIMATORS["vfe"], X, Y, method="best", scaling=scaling, epsilon=1.0, delta=0.06)
    forms = {form.method: form for form in chosen.forms}
    assert sorted(forms) == ["data-prior", "held-out", "pac-bayes"]
    assert chosen.bound == min(form.bound for form in chosen.forms)
    for form in chosen.forms:
        assert form.delta == 0.06
        assert form.charges == (Charge("forms of certificate", 3),)
        assert form.check(X, Y).confirmed
    held_out = forms["held-out"]
    assert held_out.bound == pytest.approx(quantile(held_out.mistakes, 60, 0.02), rel=1e-9)
    alone = certify(ESTIMATORS["vfe"], X, Y, method="pac-bayes", scaling=scaling, epsilon=1.0, delta=0.06)
    assert forms["pac-bayes"].log_count == pytest.approx(alone.log_count + np.log(3.0), abs=1e-12)
    assert (forms["pac-bayes"].risk, forms["pac-bayes"].kl) == (alone.risk, alone.kl)
    assert alone.rows == (N if scaling == "as given" else 60)


def test_each_accuracy_has_its_own_best_form() -> None:
    many = certify(ESTIMATORS["vfe"], X, Y, method="best", epsilon=(0.5, 2.0), delta=0.06)
    assert isinstance(many, tuple)
    for each, epsilon in zip(many, (0.5, 2.0), strict=True):
        assert each.bound == min(form.bound for form in each.forms)
        for form in each.forms:
            assert form.loss.epsilon == epsilon
            assert np.prod([charge.count for charge in form.charges]) == 6
            assert form.check(X, Y).confirmed
    held_out = next(form for form in many[1].forms if form.method == "held-out")
    assert held_out.share == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("model", "y", "forms"),
    [
        ("ridge", Y, ("held-out",)),
        ("low rank", Y, ("held-out",)),
        ("pic", Y, ("held-out",)),
        ("normalised", Y, ("data-prior", "held-out")),
        ("linear mean", Y, ("data-prior", "held-out")),
        ("variational", Y, ("data-prior", "held-out")),
        (PACGP(max_iter=3, prior="data"), Y, ("data-prior", "held-out")),
        (VariationalGP(8, "poisson", **BOUNDED), np.round(np.exp(0.3 * Y)), ("held-out",)),
        (VariationalGPClassifier(8, **BOUNDED), LABELS, ("data-prior", "held-out")),
        (LogisticRegression(), LABELS, ("held-out",)),
        (Model(KERNEL, 0.3, Z, None, InducingLaw(np.zeros(8), np.eye(8), True, 1e-6)), Y, ("data-prior", "held-out")),
    ],
)
def test_the_forms_of_a_model_are_known_before_its_rows(model, y, forms) -> None:
    chosen = certify(ESTIMATORS.get(model) if isinstance(model, str) else model, X, y, method="best")
    assert tuple(sorted(form.method for form in chosen.forms)) == forms
    charges = () if len(forms) == 1 else (Charge("forms of certificate", len(forms)),)
    for form in chosen.forms:
        assert form.charges == charges
        assert form.check(X, y).confirmed


def test_the_best_form_of_a_fitted_model_depends_on_which_rows_are_passed() -> None:
    model = clone(ESTIMATORS["vfe"]).fit(X[:60], Y[:60])
    own, other = (certify(model, X[part], Y[part], method="best") for part in (slice(0, 60), slice(60, N)))
    assert [form.method for form in own.forms] == ["pac-bayes"]
    assert own == certify(model, X[:60], Y[:60])
    assert sorted(form.method for form in other.forms) == ["data-prior", "held-out"]
    assert {form.rows for form in other.forms} == {60}


def test_a_form_that_fails_keeps_its_share_of_delta(monkeypatch) -> None:
    from fitting.certifying import data_prior

    def fails(*arguments, **options):
        raise ValueError("no law")

    monkeypatch.setattr(data_prior, "data_prior", fails)
    with pytest.warns(UserWarning, match="of the form 'data-prior', whose share of delta is spent: no law"):
        chosen = certify(ESTIMATORS["variational"], X, Y, method="best", delta=0.06)
    assert [form.method for form in chosen.forms] == ["held-out"]
    assert chosen.bound == pytest.approx(quantile(chosen.mistakes, 60, 0.03), rel=1e-9)


@pytest.mark.parametrize("name", ["exact", "vfe", "pac", "variational", "normalised"])
def test_the_prior_of_other_rows_is_certified_by_the_rest(name) -> None:
    certificate = certify(ESTIMATORS[name], X, Y, method="data-prior", scaling="prior", epsilon=1.0)
    assert (certificate.method, certificate.split, certificate.rows) == ("data-prior", Split(), 60)
    assert certificate.check(X, Y).confirmed
    assert not replace(certificate, split=Split("random", 0.5, 1)).sealed().check(X, Y).confirmed


def test_a_prior_of_other_rows_does_not_depend_on_how_rows_are_read() -> None:
    options = {"method": "data-prior", "scaling": "prior", "epsilon": 1.0}
    whole, parts = certify(ESTIMATORS["vfe"], X, Y, **options), certify(ESTIMATORS["vfe"], in_parts(X, Y), **options)
    assert parts.data == whole.data
    assert parts.bound == pytest.approx(whole.bound, rel=1e-3)
    assert parts.check(X, Y).confirmed
    assert whole.check(in_parts(X, Y)).confirmed


def test_labels_have_a_certificate_of_the_vote_by_a_prior_of_other_rows() -> None:
    certificate = certify(VariationalGPClassifier(8, **BOUNDED), X, LABELS, method="data-prior")
    assert (certificate.loss, certificate.classes) == (Sign(), ("down", "up"))
    assert certificate.check(X, LABELS).confirmed
    assert not certificate.check(X, np.where(LABELS == "up", "down", "up")).confirmed


# --- rows that are read by partitions ---------------------------------------------------------------------------------


def in_parts(X, y, sizes=(1, 50, 9, 60)) -> Source:
    edges = np.concatenate([[0], np.cumsum(sizes)])
    parts = [ArrayPart(X, y, i, slice(*edges[i : i + 2])) for i in range(len(sizes))]
    return Source.of(Local(parts), single=True)


@pytest.mark.parametrize("scaling", ["as given", "prior"])
@pytest.mark.parametrize("order", ["random", "as given"])
def test_a_certificate_does_not_depend_on_how_rows_are_read(scaling, order) -> None:
    options = {"method": "held-out", "scaling": scaling, "order": order}
    model = SparseGP("vfe", inducing=Z, **QUICK)
    whole, parts = certify(model, X, Y, **options), certify(model, in_parts(X, Y), **options)
    assert (parts.data, parts.split, parts.mistakes, parts.bound) == (
        whole.data,
        whole.split,
        whole.mistakes,
        whole.bound,
    )
    np.testing.assert_allclose(parts.predictions, whole.predictions, rtol=1e-9)
    for certificate in (whole, parts):
        assert certificate.check(X, Y).confirmed
        assert certificate.check(in_parts(X, Y)).confirmed
    intervals = certify(model, in_parts(X, Y), coverage=0.8, delta=0.1, **options)
    assert intervals.factor == pytest.approx(certify(model, X, Y, coverage=0.8, delta=0.1, **options).factor, rel=1e-9)
    fitted = certify(Ridge().fit(X[:9], Y[:9]), in_parts(X, Y), method="held-out")
    np.testing.assert_allclose(fitted.predictions, Ridge().fit(X[:9], Y[:9]).predict(X), rtol=1e-12)


def test_labels_in_partitions_are_minus_one_and_one() -> None:
    signs = np.where(LABELS == "up", 1.0, -1.0)
    model = LogisticRegression().fit(X[:9], signs[:9])
    certificate = certify(model, in_parts(X, signs), method="held-out")
    assert certificate.loss == Sign()
    assert certificate.mistakes == (model.predict(X) != signs).sum() > 0
    assert certificate.check(X, signs).confirmed
    with pytest.raises(ValueError, match="y: expected the labels -1 and 1, got 0"):
        certify(model, in_parts(X, (signs + 1.0) / 2.0), method="held-out")


def test_a_model_that_needs_all_rows_in_memory_is_refused_by_partitions() -> None:
    with pytest.raises(ValueError, match="X: expected arrays for Ridge, which needs all rows of training in memory"):
        certify(Ridge(), in_parts(X, Y), method="held-out")


# --- failure frequencies ----------------------------------------------------------------------------------------------


def drawn(rng, n: int):
    """x uniform in [−1, 1], y = 1.5x + N(0, ½²)."""
    x = rng.uniform(-1.0, 1.0, (n, 1))
    return x, 1.5 * x[:, 0] + 0.5 * rng.standard_normal(n)


POINTS, WEIGHTS = np.polynomial.legendre.leggauss(40)


def within(model, reach: float) -> float:
    """P(|y − m(x)| ≤ reach) of a linear model m, by quadrature over x."""
    off = model.predict(POINTS[:, None]) - 1.5 * POINTS
    return float(0.5 * WEIGHTS @ (norm.cdf((off + reach) / 0.5) - norm.cdf((off - reach) / 0.5)))


def test_the_risk_of_held_out_rows_exceeds_the_bound_with_at_most_the_stated_probability() -> None:
    """Of 300 simulated sets; given k, P(Beta) is exact, so that the frequency is near δ but for whole numbers."""
    rng, failures = np.random.default_rng(1), 0
    for seed in range(300):
        x, y = drawn(rng, 80)
        certificate = certify(Ridge(), x, y, method="held-out", epsilon=0.5, delta=0.1, random_state=seed)
        failures += 1.0 - within(certificate.model, 0.5) > certificate.bound
    assert binomtest(failures, 300, 0.1, alternative="greater").pvalue > 1e-3
    assert failures > 0


def test_intervals_hold_the_stated_share_with_the_stated_probability() -> None:
    """P(coverage ≥ 80 %) = P(Beta(k, n + 1 − k) ≥ 80 %) exactly: both sides of the test."""
    rng, failures = np.random.default_rng(2), 0
    for seed in range(300):
        x, y = drawn(rng, 80)
        intervals = certify(Ridge(), x, y, method="held-out", coverage=0.8, delta=0.1, random_state=seed)
        failures += within(intervals.model, intervals.factor) < 0.8
    exactly = float(beta.cdf(0.8, intervals.rank, 41 - intervals.rank))
    assert exactly <= 0.1
    assert binomtest(failures, 300, exactly).pvalue > 1e-3


# --- forgeries --------------------------------------------------------------------------------------------------------


def test_a_changed_number_is_refused() -> None:
    certificate, mask = certify(ESTIMATORS["exact"], X, Y, method="held-out", epsilon=0.5), Split().prior(N)
    wrong = np.abs(Y[~mask] - certificate.predictions) > 0.5
    mended, spoilt = certificate.predictions.copy(), certificate.predictions.copy()
    mended[np.flatnonzero(wrong)[0]] = Y[~mask][wrong][0]
    spoilt[np.flatnonzero(~wrong)[0]] += 100.0
    changes = [
        {"predictions": mended},
        {"predictions": spoilt},
        {"split": Split("random", 0.5, 1)},
        {"split": Split("as given", 0.5)},
        {"split": None, "predictions": np.resize(certificate.predictions, N)},
        {"bound": 0.99 * certificate.bound},
        {"mistakes": certificate.mistakes - 1},
        {"risk": 0.9 * certificate.risk},
        {"delta": 0.002},
    ]
    for change in changes:
        forged = replace(certificate, **change)
        assert "seal" in forged.check(X, Y).failed
        assert not forged.sealed().check(X, Y).confirmed, change
    for data in ((X, Y + 1e-9), (X[::-1], Y[::-1])):
        assert not certificate.check(*data).confirmed


def test_predictions_that_are_not_the_models_are_refused_by_who_has_the_model() -> None:
    """A consistent record of other predictions is confirmed, given its declaration; the model's own refute it."""
    mask = Split().prior(N)
    honest = certify(Ridge(), X, Y, method="held-out")
    forged = replace(honest, predictions=Y[~mask], mistakes=0, risk=0.0, bound=quantile(0, 60, 0.01) + 1e-9).sealed()
    report = forged.check(X, Y)
    assert report.confirmed
    assert "its own" in report.line("model").text
    assert not forged.check(X, Y, predictions=honest.model.predict(X[~mask])).confirmed
    assert honest.check(X, Y, predictions=honest.model.predict(X[~mask])).confirmed


def test_a_certificate_is_the_same_after_a_file(tmp_path) -> None:
    for certificate in (
        certify(Ridge(), X, Y, method="held-out"),
        certify(Ridge(), X, Y, method="held-out", coverage=0.8),
        certify(LogisticRegression(), X, LABELS, method="held-out"),
    ):
        certificate.save(tmp_path / "certificate.json")
        again = Certificate.load(tmp_path / "certificate.json")
        assert again == certificate
        assert again.check(X, LABELS if again.classes else Y).confirmed


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y", "options", "sentence"),
    [
        (Ridge(), Y, {"method": "test"}, "method: expected one of 'pac-bayes'"),
        (Ridge(), Y, {"method": "pac-bayes"}, "model: expected one of ExactGP"),
        (PACGP(prior="data"), Y, {"method": "pac-bayes"}, "model: expected prior='grid' for method='pac-bayes'"),
        (Ridge(), Y, {"method": "data-prior"}, "model: expected a Gaussian process .* got Ridge"),
        (ExactGP(), Y, {"coverage": 0.9, "method": "best"}, "coverage: expected None for method='best'"),
        (Ridge(), Y, {"coverage": 1.5}, "coverage: expected"),
        (Ridge(), Y, {"share": 1.0}, r"share: expected a number in \(0, 1\)"),
        (Ridge(), Y, {"order": "time"}, "order: expected one of 'random', 'as given'"),
        (Ridge(), Y, {"random_state": 0.5}, "random_state: expected"),
        (Ridge(), Y, {"loss": "zero"}, "loss: expected one of 'band'"),
        (Ridge(), Y, {"scaling": Scaling("same data", 0.0, 1.0)}, "scaling: expected constants fixed in advance"),
        (Ridge().fit(X[:9], Y[:9]), Y, {"scaling": "prior"}, "scaling: expected 'as given', or a pair"),
        (LogisticRegression(), LABELS, {"coverage": 0.9}, "coverage: expected None for labels"),
        (LogisticRegression(), LABELS, {"loss": "band"}, "loss: expected None or 'zero-one' for labels"),
        (LogisticRegression(), np.full(N, "up"), {}, "y: expected two labels or more"),
        (object(), Y, {}, "model: expected an estimator with fit and predict, .* got object"),
        (Y[:9], Y, {}, "expected one prediction for each of the 120 certified rows, in their order, got 9 that were"),
        ((Y, 0.0 * Y), Y, {}, "model: expected a positive"),
        (np.column_stack([Y, Y]), Y, {}, r"model: expected predictions \(n,\)"),
        (Ridge(), Y, {"coverage": 0.99}, "too few|at least"),
    ],
)
def test_what_cannot_be_certified_is_refused(model, y, options, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        certify(model, X, y, **{"method": "held-out", **options})


@pytest.mark.parametrize(
    "model",
    [
        GaussianProcessRegressor(),
        make_pipeline(StandardScaler(), GaussianProcessRegressor()),
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
        OneVsRestClassifier(LogisticRegression()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_unfitted_model_is_trained_before_it_is_certified(model) -> None:
    """Also one that predicts its prior without a fit, which scikit-learn does not call unfitted."""
    y = LABELS if isinstance(model, OneVsRestClassifier) else Y
    certificate = certify(model, X, y, method="held-out")
    assert certificate.rows == 60
    assert certificate.split == Split()
    fitted = certify(clone(model).fit(X[:60], y[:60]), X[60:], y[60:], method="held-out")
    assert fitted.split is None


def test_a_model_of_several_outputs_is_refused() -> None:
    model = Ridge().fit(X[:9], np.column_stack([Y, Y])[:9])
    with pytest.raises(ValueError, match="predict: expected one prediction for each of 120 rows, got shape"):
        certify(model, X, Y, method="held-out")
