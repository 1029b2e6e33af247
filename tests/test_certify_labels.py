"""`fitting.certify` for labels: votes of Gaussian processes, and classifiers of scikit-learn, from rows not seen."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta, binom, norm
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from thinning import one_in

from fitting import VariationalGPClassifier, certify
from fitting.certifying.data_prior import data_prior
from gpbounds.losses import Sign
from gpbounds.pacbayes import Certificate, Charge, HeldOutCertificate, Split, bound
from gpbounds.pacbayes.certificate.rows import raw

N = 240
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (N, 2))
ABOVE = X[:, 1] + 0.3 * RNG.standard_normal(N) > np.sin(2.0 * X[:, 0])
DELTA = 0.05
SMALL = VariationalGPClassifier(8, kernel="rbf", lengthscales="shared", max_iter=15, random_state=0)
THREE = np.array(["deer", "elk", "moose"])[np.digitize(X[:, 0] + 0.2 * RNG.standard_normal(N), [-0.7, 0.7])]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("short_pilots"),
]


def quantile(mistakes: int, n: int, delta: float) -> float:
    """The 1 − δ quantile of Beta(k + 1, n − k)."""
    return float(beta.ppf(1.0 - delta, mistakes + 1, n - mistakes))


def as_labels(kind: str) -> np.ndarray:
    """Two labels of a kind, the second for `ABOVE`."""
    pair = {
        "texts": np.array(["no", "yes"]),
        "objects": np.array(["no", "yes"], dtype=object),
        "truths": np.array([False, True]),
        "whole numbers": np.array([3, 7]),
        "numbers": np.array([-1.0, 2.0]),
        "signs": np.array([-1, 1]),
    }[kind]
    return pair[ABOVE.astype(int)]


KINDS = ["objects", "texts", "truths", "whole numbers", "signs", "numbers"]
CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(20, random_state=0),
    "gp": SMALL,
    "one gp for each label": OneVsRestClassifier(SMALL),
}


# Held-out rows


@pytest.mark.broad
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_bound_is_the_quantile_at_the_mistakes_on_the_other_rows(name):
    """A clone is trained on the rows of the split alone, and its mistakes on the others are counted."""
    model = CLASSIFIERS[name]
    y = THREE if name in ("forest", "one gp for each label") else as_labels("texts")
    certificate = certify(model, X, y, method="held-out", delta=DELTA, share=0.4, random_state=5)
    trains = Split("random", 0.4, 5).prior(N)
    again = clone(model).fit(X[trains], y[trains])
    mistakes = int((again.predict(X[~trains]) != y[~trains]).sum())
    assert certificate.mistakes == mistakes > 0
    assert certificate.rows == (~trains).sum() == 144
    assert certificate.bound == pytest.approx(quantile(mistakes, 144, DELTA), rel=1e-12)
    assert certificate.classes == tuple(np.unique(y).tolist())
    assert not hasattr(model, "classes_")  # the clone was trained
    np.testing.assert_array_equal(certificate.model.predict(X), again.predict(X))
    assert certificate.check(X, y).confirmed


BINARY = {"held-out": LogisticRegression(), "data-prior": SMALL}


@cache
def bound_of_texts(method: str) -> float:
    return certify(BINARY[method], X, as_labels("texts"), method=method, delta=DELTA).bound


@pytest.mark.broad
@pytest.mark.parametrize("kind", one_in(2, KINDS))
@pytest.mark.parametrize("method", BINARY)
def test_labels_of_every_kind_give_the_same_bound_and_are_read_back(tmp_path, kind, method):
    model = BINARY[method]
    y = as_labels(kind)
    certificate = certify(model, X, y, method=method, delta=DELTA)
    assert certificate.bound == bound_of_texts(method)
    assert certificate.bound < 0.5
    certificate.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == certificate
    assert loaded.classes == tuple(np.unique(y).tolist())
    assert loaded.check(X, y).confirmed
    assert loaded.check(X.tolist(), y.tolist(), rigorous=True).confirmed
    wrong = y.copy()
    wrong[[0, 1]] = y[[1, 0]] if y[0] != y[1] else np.unique(y)[::-1]
    report = loaded.check(X, wrong)
    assert not report.confirmed
    assert "failed" in {line.state for line in report.lines if line.name == "data"}


@pytest.mark.parametrize("method", ["held-out", "data-prior"])
def test_a_label_that_is_not_known_is_refused_in_one_sentence(method):
    y = as_labels("texts").astype(object)
    certificate = certify(SMALL, X, y, method=method, delta=DELTA)
    y[17] = "perhaps"
    with pytest.raises(ValueError, match=r"^y: expected labels among \['no', 'yes'\], got 'perhaps'$"):
        certificate.check(X, y)
    with pytest.raises(ValueError, match=r"^y: expected labels among \['no', 'yes'\], got [01].0$"):
        certificate.check(X, ABOVE * 1.0)


def test_predictions_of_the_reader_are_compared_with_the_recorded_ones():
    certificate = certify(RandomForestClassifier(20, random_state=0), X, THREE, method="held-out", delta=DELTA)
    predicted = certificate.model.predict(X[~certificate.split.prior(N)])
    assert certificate.check(X, THREE, predictions=predicted).confirmed
    other = predicted.copy()
    other[3] = "elk" if predicted[3] != "elk" else "deer"
    report = certificate.check(X, THREE, predictions=other)
    assert [line.name for line in report.lines if line.state == "failed"] == ["predicted"]
    other[3] = "gnu"  # a label that the certificate doesn't know is another one than the recorded
    assert not certificate.check(X, THREE, predictions=other).confirmed


def test_a_label_that_only_the_model_predicts_is_a_mistake():
    """A model trained elsewhere knows labels that the certified rows do not have, and they lack one that it knows."""
    model = DecisionTreeClassifier(random_state=0).fit(X, THREE)
    two = THREE != "moose"
    rows, y = X[two], THREE[two].copy()
    assert not {"moose"} & set(y)
    shifted = rows + np.array([1.0, 0.0])  # where the model predicts moose, too
    certificate = certify(model, shifted, y, method="held-out", delta=DELTA)
    assert certificate.split is None
    assert certificate.mistakes == (model.predict(shifted) != y).sum()
    assert "moose" in model.predict(shifted).tolist()
    y[0] = "gnu"
    certificate = certify(model, shifted, y, method="held-out", delta=DELTA)
    assert certificate.mistakes == (model.predict(shifted) != y).sum()
    assert certificate.classes == ("deer", "elk", "gnu", "moose")
    assert certificate.check(shifted, y).confirmed


def test_predicted_labels_from_arrays_and_from_a_file(tmp_path):
    y = as_labels("texts")
    model = LogisticRegression().fit(X[:80], y[:80])
    predicted = model.predict(X[80:])
    path = tmp_path / "predictions.csv"
    path.write_text("label\n" + "\n".join(predicted) + "\n", encoding="utf-8")
    direct, in_array, in_file = (
        certify(source, X[80:], y[80:], method="held-out", delta=DELTA) for source in (model, predicted, path)
    )
    assert direct.mistakes == in_array.mistakes == in_file.mistakes == (predicted != y[80:]).sum()
    assert direct.bound == in_array.bound == in_file.bound
    numbers = as_labels("whole numbers")
    counted = certify(np.where(predicted == "yes", 7, 3), X[80:], numbers[80:], method="held-out", loss="zero-one")
    assert counted.mistakes == direct.mistakes
    assert counted.check(X[80:], numbers[80:]).confirmed


def test_rows_that_the_model_has_seen_are_refused():
    y = as_labels("texts")
    model = clone(SMALL).fit(X[:100], y[:100])
    for method in ("held-out", "data-prior"):
        with pytest.raises(ValueError, match="got 140 of which 20 are among the 100 rows of its training"):
            certify(model, X[80:220], y[80:220], method=method, delta=DELTA)
    assert certify(model, X[100:], y[100:], method="held-out", delta=DELTA).rows == 140


@pytest.mark.parametrize(
    ("model", "y", "options", "message"),
    [
        (LogisticRegression(), THREE, {"method": "data-prior"}, "expected a Gaussian process for method='data-prior'"),
        (LogisticRegression(), THREE, {"method": "held-out", "coverage": 0.9}, "expected None for labels"),
        (LogisticRegression(), THREE, {"method": "held-out", "loss": "squared"}, "expected None or 'zero-one' for lab"),
        (LogisticRegression(), ["a"] * N, {"method": "held-out"}, r"expected two labels or more, got \['a'\] alone"),
        (SMALL, THREE, {"method": "data-prior"}, "expected two labels, got 3 classes"),
        (LogisticRegression(), THREE[:, None], {"method": "held-out"}, r"expected one label for each row of X, shape"),
        (SMALL, as_labels("texts"), {"method": "pac-bayes"}, "model: expected one of"),
    ],
)
def test_what_labels_do_not_have(model, y, options, message):
    with pytest.raises(ValueError, match=message):
        certify(model, X, np.asarray(y), **options)


# Votes: a prior from the rows of training, and the better of two bounds on the risk of its mean


def vote(model, rows, y, *, delta, share=0.5, seed=0):
    """The model of the rows of a split, and the certificate of its vote by the others."""
    split, classes = Split("random", share, seed), np.unique(y)
    trains = split.prior(len(y))
    fitted = clone(model).fit(rows[trains], y[trains])
    signed = raw(rows, np.where(y == classes[1], 1.0, -1.0))
    options = {"predictor": "mean", "split": split, "classes": tuple(classes.tolist())}
    ((certificate, _),) = data_prior(fitted, signed, (Sign(),), delta=delta, **options)
    return fitted, certificate


def moments(certificate: Certificate, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of f under Q, from the record: u = Lv, v = prior mean + prior factor·z, z ~ N(a, FFᵀ)."""
    q, kernel = certificate.posterior, certificate.kernel
    L = np.linalg.cholesky(kernel(q.Z) + q.jitter * np.eye(len(q.Z)))
    V = np.linalg.solve(L, kernel(q.Z, rows))
    phi = np.asarray(q.prior_factor).T @ V
    mean = V.T @ np.asarray(q.prior_mean) + phi.T @ np.asarray(q.mean)
    spread = np.asarray(q.factor).T @ phi
    return mean, kernel.diag(rows) - (V * V).sum(axis=0) + (spread * spread).sum(axis=0)


def test_a_vote_is_certified_by_twice_the_gibbs_or_four_times_the_tandem_bound():
    """R, T and KL from the record in NumPy, and the two bounds with δ/2 each."""
    y = as_labels("texts")
    model, certificate = vote(SMALL, X, y, delta=DELTA, share=0.4, seed=3)
    trains = Split("random", 0.4, 3).prior(N)
    assert certificate.method == "data-prior"
    assert certificate.predictor == "mean"
    assert certificate.loss == Sign()
    assert certificate.rows == 144
    m, v = moments(certificate, X[~trains])
    wrong = norm.cdf(-np.where(y[~trains] == "yes", 1.0, -1.0) * m / np.sqrt(v))
    q = certificate.posterior
    C, a = np.asarray(q.factor), np.asarray(q.mean)
    kl = 0.5 * ((C * C).sum() - len(a) - 2.0 * np.log(np.diag(C)).sum() + a @ a)
    assert certificate.risk == pytest.approx(wrong.mean(), rel=1e-6)
    assert certificate.tandem == pytest.approx((wrong**2).mean(), rel=1e-6)
    assert certificate.kl == pytest.approx(kl, rel=1e-6)
    once, pairs = (
        float(bound(risk, divergence, 144, delta=DELTA, log_prior_penalty=math.log(2.0)))
        for risk, divergence in ((certificate.risk, certificate.kl), (certificate.tandem, 2.0 * certificate.kl))
    )
    assert certificate.bound == pytest.approx(min(2.0 * once, 4.0 * pairs), rel=1e-9)
    voted = (m > 0.0) != (y[~trains] == "yes")
    assert voted.mean() <= certificate.bound < 0.5
    # Q is not far from the model that gave the prior: both vote alike on nearly all rows.
    assert (model.predict(X[~trains]) == np.where(m > 0.0, "yes", "no")).mean() > 0.9
    assert certificate.check(X, y, rigorous=True).confirmed


def test_the_best_form_pays_for_all_forms():
    y = as_labels("texts")
    best = certify(SMALL, X, y, method="best", delta=DELTA)
    forms = {form.method: form for form in best.forms}
    assert set(forms) == {"data-prior", "held-out"}
    assert forms["data-prior"].predictor == "mean"  # the vote, whose mistakes can be compared with the held-out ones
    assert best.bound == min(form.bound for form in best.forms)
    for form in best.forms:
        assert Charge("forms of certificate", 2) in form.charges
        assert form.check(X, y).confirmed
    held = next(form for form in best.forms if isinstance(form, HeldOutCertificate))
    assert held.bound == pytest.approx(quantile(held.mistakes, held.rows, DELTA / 2.0), rel=1e-12)


# How often the certificates fail, for populations with known risks


ATOMS = np.linspace(-2.0, 2.0, 13)
"""Inputs of a population, all equally probable."""
TRUTH = 0.15 + 0.7 * (np.sin(2.0 * ATOMS) > 0.0)
"""P(second label | atom)."""


def drawn(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    place = rng.integers(len(ATOMS), size=rows)
    return ATOMS[place][:, None], np.where(rng.random(rows) < TRUTH[place], "up", "down")


def true_risk(votes: np.ndarray) -> float:
    """P(label ≠ vote), for whether the vote at each atom is the second label."""
    return float(np.where(votes, 1.0 - TRUTH, TRUTH).mean())


def refuted(failures: int, draws: int, delta: float) -> bool:
    """Whether so many failures are less probable than 1e-6 if each has a probability of at most δ."""
    return bool(failures) and float(binom.sf(failures - 1, draws, delta)) <= 1e-6


def test_held_out_certificates_fail_as_often_as_they_may():
    """200 sets, each with a tree of its own: at most δ, and not far below, so that no smaller bound would do."""
    delta, draws, failures, nearly = 0.3, 200, 0, 0
    for seed in range(draws):
        rows, y = drawn(np.random.default_rng(seed), 80)
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        certificate = certify(tree, rows, y, method="held-out", delta=delta, random_state=seed)
        risk = true_risk(certificate.model.predict(ATOMS[:, None]) == "up")
        failures += certificate.bound < risk
        nearly += certificate.bound - 0.07 < risk
    assert not refuted(failures, draws, delta)
    assert failures >= 0.3 * delta * draws
    assert refuted(nearly, draws, delta)


def test_three_labels_fail_as_often_as_they_may():
    delta, draws, failures = 0.3, 200, 0
    chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    labels = np.array(["deer", "elk", "moose"])
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        atoms = rng.integers(3, size=60)
        y = labels[(rng.random(60)[:, None] > chances[atoms].cumsum(axis=1)).sum(axis=1)]
        tree = DecisionTreeClassifier(random_state=0)
        certificate = certify(tree, 1.0 * atoms[:, None], y, method="held-out", delta=delta, random_state=seed)
        places = [labels.tolist().index(label) for label in certificate.model.predict([[0.0], [1.0], [2.0]])]
        failures += certificate.bound < 1.0 - chances[range(3), places].mean()
    assert not refuted(failures, draws, delta)
    assert failures >= 0.3 * delta * draws


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_certificates_of_votes_hold(block):
    """25 sets, each with a prior from half of its rows, and a Q trained by the bound on the others."""
    delta, draws, votes, gibbs, empirical = 0.1, 25, 0, 0, 0
    for seed in range(draws * block, draws * (block + 1)):
        rows, y = drawn(np.random.default_rng(seed), 400)
        model = VariationalGPClassifier(5, kernel="rbf", lengthscales="shared", start="scale", max_iter=10)
        _, certificate = vote(model.set_params(random_state=seed), rows, y, delta=delta)
        m, v = moments(certificate, ATOMS[:, None])
        up = norm.cdf(m / np.sqrt(v))
        risk = float((up * (1.0 - TRUTH) + (1.0 - up) * TRUTH).mean())
        votes += certificate.bound < true_risk(m > 0.0)
        gibbs += float(bound(certificate.risk, certificate.kl, certificate.rows, delta=delta)) < risk
        empirical += certificate.risk < risk
    assert not refuted(votes, draws, delta)
    assert not refuted(gibbs, draws, delta)
    assert empirical > 3.0 * delta * draws  # the risk on the rows alone is no bound
