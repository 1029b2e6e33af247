"""The audit of models of labels and counts: brackets, the best law, files, the shell, the page, and what is refused."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from fitting import VariationalGP, VariationalGPClassifier, audit, plan
from fitting.study.audited import LatentModelAudit, ModelAudit
from gpbounds import SquaredExponential, renyi
from gpbounds.audit import best_law, elbo_of, event_bounds, latent_enough, latent_subject, row_probabilities, subject
from gpbounds.bound import Bound
from gpbounds.cli import main
from gpbounds.divergences import whitened_posterior
from gpbounds.likelihoods import Bernoulli, Poisson, StudentT
from gpbounds.means import LinearMean

SETTINGS = {"kernel": SquaredExponential(1.0, 1.5), "fixed": ("variance", "lengthscale"), "random_state": 0}


def rows(N=80):
    """Inputs, words as labels, and counts."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (N, 1))
    f = 1.5 * np.sin(1.5 * X[:, 0])
    return X, np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-f)), "yes", "no"), rng.poisson(np.exp(f)).astype(float)


@pytest.fixture(scope="module")
def classifier():
    X, labels, _ = rows()
    return VariationalGPClassifier(5, likelihood="logit", **SETTINGS).fit(X[:60], labels[:60])


@pytest.fixture(scope="module")
def audited(classifier):
    X, labels, _ = rows()
    return audit(classifier, X, labels, nats=0.3)


def test_a_classifier_with_words_as_labels_is_audited(audited, classifier):
    """The ELBO is that of training, the bracket contains the estimate, and rows that were not used are recognised."""
    levels = audited.enough
    assert levels.model.elbo == pytest.approx(classifier.objective_, rel=1e-6)
    low, high = map(float, levels.divergence)
    assert 0.0 <= low <= levels.estimate <= high
    assert levels.verdict == ("enough" if high <= 0.3 else "not enough" if low > 0.3 else "open")
    assert audited.events.rows.model.size == 20
    np.testing.assert_allclose(audited.events.rows.model, classifier.predict_proba(rows()[0][60:])[:, 1], rtol=1e-9)
    assert (audited.events.rows.low <= audited.events.rows.model).all()
    assert (audited.events.rows.model <= audited.events.rows.high).all()
    assert set(audited.scores) == {"error", "log loss", "expected calibration error"}


def test_text_record_page_and_figure_state_the_same_numbers(audited, tmp_path):
    record = json.loads(json.dumps(audited.to_dict()))
    assert record["enough"]["verdict"] == audited.enough.verdict
    assert record["model"]["likelihood"] == {"name": "bernoulli", "link": "logit"}
    assert record["events"]["tv"]["value"] == pytest.approx(float(audited.events.tv))
    text = str(audited)
    assert audited.findings[0].text[:40] in " ".join(text.split())
    assert "An estimate, not a bound" in text
    audited.save(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    for claim in ("N-fisher", "N-elbos", "N-event"):
        assert f'<dt id="{claim}">' in page
    assert len(audited.plot().axes) == 1


def test_a_number_that_would_do_is_proved_and_one_less_is_not():
    X, _, counts = rows(60)
    about = latent_subject(SquaredExponential(1.0, 1.5), Poisson("exp"), X, counts, X[:3])
    result = latent_enough(about, target=2.0, most=20)
    assert result.verdict == "not enough"
    for points, count in zip(("chosen", "added"), result.counts, strict=True):
        levels = {level.M: level for level in result.of(points)}
        assert float(levels[count].divergence(result.evidence)[1]) <= 2.0
        before = levels.get(count - 1, result.best if points == "added" else None)
        assert before.M == count - 1
        assert float(before.divergence(result.evidence)[1]) > 2.0
    assert result.suffices == min(result.counts)


def test_the_best_law_is_stationary_and_what_another_loses_is_its_excess():
    """S⁻¹ = I + VΛVᵀ and m = Vḡ; a law that is not the best one has the difference of the ELBOs as its excess."""
    X, labels, _ = rows(60)
    kernel, likelihood = SquaredExponential(2.0, 1.0), Bernoulli("probit")
    about = latent_subject(kernel, likelihood, X, labels == "yes", X[:6], offset=0.3)
    law = best_law(about, about.Z)
    q = law.posterior
    V = q.inducing.whiten(X)
    prediction = q.predict(X)
    _, slope, by_variance = likelihood.expected_log_density(
        about.y, 0.3 + prediction.mean, prediction.variance, gradient=True
    )
    np.testing.assert_allclose(V @ slope, q.mean, atol=1e-4)
    precision = np.eye(6) - 2.0 * (V * by_variance) @ V.T
    np.testing.assert_allclose(q.factor @ q.factor.T @ precision, np.eye(6), atol=1e-4)
    own = whitened_posterior(kernel, about.Z, 0.8 * q.mean, q.factor, jitter=q.jitter)
    result = latent_enough(about.owning(own), target=0.5, most=10)
    assert result.excess == pytest.approx(law.elbo - elbo_of(about, own), rel=1e-9)
    assert float(result.divergence[0]) >= result.excess * (1.0 - 1e-9)


def test_an_imported_model_has_the_audit_of_the_estimator_with_the_same_law(classifier, audited, tmp_path):
    X, labels, _ = rows()
    law = classifier.posterior_.q
    q = renyi.InducingLaw(law.mean[:, 0], law.factor, whitened=True, jitter=classifier.posterior_.jitter)
    model = renyi.LatentModel(classifier.kernel_, Bernoulli("logit"), classifier.inducing_, None, q, ("A note.",))
    model.save(tmp_path / "model.json")
    model = renyi.imported_model(tmp_path / "model.json")
    targets = np.where(labels == "yes", 1, 0)
    other = audit(model, X[:60], targets[:60], test=(X[60:], targets[60:]), nats=0.3)
    assert other.enough.to_dict() == audited.enough.to_dict()
    np.testing.assert_allclose(other.events.rows.high, audited.events.rows.high, rtol=1e-9)
    assert "A note." in other.notes
    with pytest.raises(ValueError, match=r"labels or counts: gpbounds\.renyi\.imported_model reads both"):
        renyi.Model.load(tmp_path / "model.json")


def test_the_shell_audits_a_classifier_and_an_imported_model_of_counts(classifier, tmp_path, capsys):
    X, labels, counts = rows()
    lines = ["x,label", *(f"{float(x)!r},{label}" for x, label in zip(X[:, 0], labels, strict=True))]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    classifier.save(tmp_path / "model.npz")
    out = str(tmp_path / "page.html")
    common = ("--nats", "0.3", "--out", out, "--json")
    main(["audit", str(tmp_path / "labels.csv"), "--model", str(tmp_path / "model.npz"), *common])
    record = json.loads(capsys.readouterr().out)
    assert record["enough"]["KL"][1]["value"] > 0.0
    assert record["scores"]["error"] <= 0.5
    np.savetxt(tmp_path / "counts.csv", np.column_stack([X, counts]), delimiter=",", header="x,n", comments="")
    renyi.LatentModel(SquaredExponential(1.0, 1.5), Poisson("exp"), X[:4], LinearMean(0.2)).save(
        tmp_path / "model.json"
    )
    main(["audit", str(tmp_path / "counts.csv"), "--model", str(tmp_path / "model.json"), "--most", "10", *common])
    record = json.loads(capsys.readouterr().out)
    assert record["model"]["likelihood"]["name"] == "poisson"
    assert record["enough"]["excess"] <= 1e-6


def test_counts_are_audited_with_their_mean():
    X, _, counts = rows()
    model = VariationalGP(5, likelihood="poisson", mean=LinearMean(0.4), **SETTINGS).fit(X[:60], counts[:60])
    result = audit(model, X, counts, most=12)
    assert "a count up to the one observed" in result.events.rows.event
    about = result.subject
    np.testing.assert_allclose(about.offset, 0.4)
    low, high = map(float, result.enough.divergence)
    assert 0.0 <= low <= high
    assert result.enough.model.elbo == pytest.approx(elbo_of(about, about.posterior), rel=1e-12)


def test_an_audit_of_either_kind_without_bounds_says_so_and_draws_nothing(audited):
    """The record, its text and its page say what is missing; the figure, which has nothing else, is refused."""
    other = subject(audited.subject.kernel, [0.0, 1.0], [0.0, 1.0], noise=1.0)
    for kind, about in ((LatentModelAudit, audited.subject), (ModelAudit, other)):
        record = kind("the data", "a model", about, notes=("bounds against M: no rows.",))
        assert "Note: bounds against M: no rows." in str(record)
        assert "bounds against M: no rows." in record.page()
        assert record.findings == ()
        with pytest.raises(ValueError, match="plot: expected bounds against M, got an audit without them"):
            record.plot()


def test_rows_are_held_out_or_passed_not_both():
    X, _, counts = rows(30)
    model = renyi.LatentModel(SquaredExponential(1.0, 1.5), Poisson("exp"), X[:4])
    with pytest.raises(ValueError, match="held_out: expected not to be given with test"):
        audit(model, X, counts, test=(X, counts), held_out=0.2)


def test_a_student_t_is_refused_in_a_sentence_that_says_what_holds():
    X, _, counts = rows(30)
    model = VariationalGP(3, likelihood=StudentT(4.0, 1.0), **SETTINGS).fit(X, counts)
    with pytest.raises(ValueError, match=r"StudentT likelihood: .*not concave in f.*ELBO ≤ log p\(y\)"):
        audit(model, X, counts)
    with pytest.raises(ValueError, match="likelihood: expected a log-concave one"):
        latent_subject(SquaredExponential(), StudentT(4.0, 1.0), X, counts, X[:2])


def test_what_only_gaussian_noise_has_is_refused(classifier):
    X, labels, _ = rows()
    with pytest.raises(ValueError, match="retrain: expected not to be given for labels or counts"):
        audit(classifier, X, labels, retrain=True)
    with pytest.raises(ValueError, match="epsilon: expected not to be given for labels or counts"):
        audit(classifier, X, labels, epsilon=1.0)
    with pytest.raises(ValueError, match=r"y: expected labels in \['no', 'yes'\], got 'maybe'"):
        audit(classifier, X, np.where(labels == "yes", "yes", "maybe"))
    with pytest.raises(ValueError, match="the bounds are for Gaussian processes with Gaussian noise"):
        plan(X, (labels == "yes").astype(float), model=classifier)


def test_ctrl_c_leaves_the_levels_that_were_computed(monkeypatch):
    X, labels, _ = rows(30)
    about = latent_subject(SquaredExponential(), Bernoulli(), X, labels == "yes", X[:4])

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["gpbounds.audit.latent_levels"], "further_rows", interrupted)
    result = latent_enough(about)
    assert result.interrupted
    assert [level.points for level in result.levels] == ["model"]


def test_probabilities_of_labels_and_counts_contain_those_of_laws_within_the_divergence():
    """Two laws of one f whose KL is known: the probability under the second lies in the interval of the first."""
    shift, spread = 0.3, 0.8
    kl = 0.5 * (spread**2 - 1.0 + shift**2) - np.log(spread)
    for likelihood, y in ((Bernoulli("probit"), 1.0), (Poisson("exp"), 2.0)):
        mean, variance = np.array([shift]), np.array([spread**2])
        given = row_probabilities(likelihood, np.array([y]), mean, variance, kl)
        truth = row_probabilities(likelihood, np.array([y]), np.zeros(1), np.ones(1), 0.0).model
        assert given.low <= truth <= given.high
        assert given.high - given.low < 1.0
        bound = event_bounds(Bound(kl, "upper", 1.0, "N-fisher"), given)
        assert abs(truth - given.model) <= float(bound.tv)
