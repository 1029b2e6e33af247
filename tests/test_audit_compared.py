"""Would the exact GP predict better: the comparison contains the truth, its verdict follows from it, and is shown."""

from __future__ import annotations

import html
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fitting
from gpbounds import Matern, SquaredExponential
from gpbounds.audit import Audit, HeldOut, compare, enough, subject
from gpbounds.audit.in_words import at_most, in_nats_a_row, levels_in_text, per_row, retrained_sentence, sentence_of
from gpbounds.cli import main
from gpbounds.divergences import whitened_posterior
from gpbounds.means import LinearMean
from gpbounds.pages.audit import audit_page
from gpbounds.renyi import InducingLaw, Model, from_sklearn, gap

pytestmark = pytest.mark.usefixtures("short_pilots")

UNTRAINED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(seed=0, N=120, M=6, noise=0.05, kernel=None, n=60, width=1.0):
    """A subject whose y is drawn from the prior, held-out rows from the same function, and the exact predictions."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0 * width, (N + n, 1))
    kernel = SquaredExponential(1.0, 1.0) if kernel is None else kernel
    y = np.linalg.cholesky(kernel(X) + noise * np.eye(N + n)) @ rng.standard_normal(N + n)
    about = subject(kernel, X[:N], y[:N], X[:M], noise=noise)
    mean, variance = about.exact.predict(X[N:])
    return about, X[N:], y[N:], mean[:, 0], variance


def held_of(about, X, y):
    law = about.law.predict(X)
    return HeldOut(X, y, np.asarray(law.mean), np.asarray(law.variance))


def losses(y, mean, variance, noise):
    return -stats.norm.logpdf(y, mean, np.sqrt(variance + noise))


@given(
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 10_000),
            "N": st.integers(8, 60),
            "M": st.integers(1, 8),
            "noise": st.sampled_from([1e-4, 0.05, 1.0]),
            "kernel": st.sampled_from([None, Matern(0.5), Matern(1.5, 2.0, 0.3)]),
            "n": st.integers(1, 30),
        }
    )
)
def test_the_ends_contain_the_scores_of_the_exact_gp_and_their_differences(about):
    model, X, y, mean, variance = problem(**about)
    result = compare(model, held_of(model, X, y))
    truth, squares = losses(y, mean, variance, model.noise), (y - mean) ** 2
    slack = 1e-8 * (1.0 + abs(truth).max())  # that of the dense solution here
    assert (result.log_losses.low - slack <= truth).all()
    assert (truth <= result.log_losses.high + slack).all()
    assert result.log_loss.low - slack <= truth.mean() <= result.log_loss.high + slack
    assert result.rmse.low - slack <= np.sqrt(squares.mean()) <= result.rmse.high + slack
    law = model.law.predict(X)
    own = losses(y, law.mean, law.variance, model.noise)
    assert result.model.mean_log_loss == pytest.approx(own.mean(), rel=1e-9, abs=1e-12)
    low, high = result.model.log_loss.enclosure
    assert low - slack <= (truth - own).mean() <= high + slack
    below, above = result.model.rmse_difference[0]
    apart = np.sqrt(squares.mean()) - np.sqrt(((y - law.mean) ** 2).mean())
    assert below - slack <= apart <= above + slack


def test_levels_are_sparse_posteriors_with_the_points_they_name():
    about, X, y, _, _ = problem(M=8, N=120)
    result = compare(about, held_of(about, X, y), enough(about))
    assert [(each.M, each.kind) for each in result.levels[:4]] == [
        (2, "chosen"),
        (4, "chosen"),
        (8, "model"),
        (16, "added"),
    ]
    assert all(each.kind == "added" and each.M > 16 for each in result.levels[4:])
    for each in result.levels:
        assert each.kl is not None
        assert 0.0 <= each.kl[0] <= each.kl[1]
    lower, upper = enough(about).divergence
    assert result.model.kl == pytest.approx((float(lower) / 120, float(upper) / 120), rel=1e-12)
    divergences = [each.kl[1] for each in result.levels]
    assert divergences == sorted(divergences, reverse=True)


def test_the_number_of_points_is_at_most_the_largest_to_try_and_the_rows():
    about, X, y, _, _ = problem(M=8, N=120)
    counts = [each.M for each in compare(about, held_of(about, X, y), most=12).levels]
    assert counts == [2, 4, 8, 12]
    tiny, X, y, _, _ = problem(M=1, N=3, n=4)
    assert max(each.M for each in compare(tiny, held_of(tiny, X, y)).levels) <= 3


def test_the_verdict_says_enough_where_nothing_is_lost_and_names_the_points_that_would_do():
    about, X, y, _, _ = problem(N=300, M=11, n=200)
    good = compare(about, held_of(about, X, y), loss=1.0)
    assert good.verdict == "enough"
    text = sentence_of(good)
    assert re.search(r"would predict [\d.]+ ± [\d.]+ nats a row (better|worse) on 200 held-out rows \(certified", text)
    assert "M = 11 is enough for predictions; the exact GP gains" in text
    about, X, y, _, _ = problem(N=300, M=40, n=200)
    assert "would predict alike, within 0.0001 nats a row" in sentence_of(compare(about, held_of(about, X, y)))
    about, X, y, _, _ = problem(N=300, M=5, n=200)
    poor = compare(about, held_of(about, X, y))
    assert poor.verdict == "not enough"
    gain, half = poor.model.gain
    assert f"M = 5 loses {in_nats_a_row(gain, half)} nats a row" in sentence_of(poor)
    last = next(each for each in poor.levels if each.M == 20)
    assert f"with 4M = 20 points {at_most(last.gain[0])} would be left" in sentence_of(poor)
    assert compare(about, held_of(about, X, y), loss=100.0).verdict == "enough"


def test_few_rows_cannot_tell_and_the_sentence_says_what_to_do():
    about, X, y, _, _ = problem(N=120, M=11, n=60)
    few = compare(about, held_of(about, X, y), rows=5, loss=1e-4)
    assert (few.n, few.held) == (5, 60)
    assert few.verdict == "open"
    assert "cannot be told from these rows; compare more of them" in sentence_of(few)
    every = compare(about, held_of(about, X[:5], y[:5]), loss=1e-4)
    assert "cannot be told from these rows; hold out more rows" in sentence_of(every)


def test_rows_are_drawn_without_a_look_at_the_targets_and_named():
    about, X, y, _, _ = problem()
    first = compare(about, held_of(about, X, y), rows=10, rng=3)
    other = compare(about, held_of(about, X, -y), rows=10, rng=3)
    assert first.rows.tolist() == other.rows.tolist()
    assert first.y.tolist() == y[first.rows].tolist()
    assert "on 10 of 60 held-out rows, drawn at random" in sentence_of(first)
    record = Audit("n", "m", about, numbers=np.arange(1, 181), compared=first).to_dict()["predictions"]
    assert record["numbers"] == (first.rows + 121).tolist()


def test_a_posterior_worse_than_the_best_with_its_points_is_told_of_the_best():
    about, X, y, _, _ = problem(N=200, M=30, n=100)
    own = whitened_posterior(about.kernel, about.Z, np.zeros(30), np.eye(30))  # the prior
    other = subject(about.kernel, about.X, about.y, about.Z, noise=about.noise, posterior=own)
    result = compare(other, held_of(other, X, y), enough(other))
    best = next(each for each in result.levels if each.kind == "best")
    assert result.verdict == "not enough"
    assert best.M == 30
    assert best.mean_log_loss < result.model.mean_log_loss - 0.1
    assert best.kl[1] < result.model.kl[1]
    assert "the best posterior with the same points (method vfe) would leave" in sentence_of(result)
    assert all(each.kind != "best" for each in compare(about, held_of(about, X, y)).levels)


def test_an_exact_model_predicts_as_the_exact_gp_and_is_told_of_fewer_points():
    about, X, y, mean, variance = problem(N=100, n=100)
    exact = subject(about.kernel, about.X, about.y, noise=about.noise)
    result = compare(exact, HeldOut(X, y, mean, variance), enough(exact))
    assert result.verdict == "enough"
    assert result.model.kl == (0.0, 0.0)
    assert abs(result.model.gain[0]) < 1e-5
    assert re.search(r"predicts as the exact GP.*chosen rows as inducing points would lose", sentence_of(result))


def test_a_prior_mean_is_taken_off_and_put_back():
    about, X, y, _, _ = problem(N=100, M=10)
    held = held_of(about, X, y)
    shift = 1e4 + 3.0 * X[:, 0]
    moved = HeldOut(X, y + shift, held.mean + shift, held.variance, shift)
    first, second = compare(about, held), compare(about, moved)
    assert second.log_loss == pytest.approx(first.log_loss, rel=1e-6)
    for one, two in zip(first.levels, second.levels, strict=True):
        assert two.mean_log_loss == pytest.approx(one.mean_log_loss, rel=1e-6)


def test_ctrl_c_leaves_the_levels_that_were_found(monkeypatch):
    about, X, y, _, _ = problem()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["gpbounds.audit.compared"], "further_rows", interrupted)
    result = compare(about, held_of(about, X, y))
    assert result.interrupted
    assert [each.kind for each in result.levels] == ["model"]
    assert result.to_dict()["interrupted"]


@pytest.mark.parametrize(
    ("value", "half", "words"),
    [
        (0.00312, 0.00101, "0.0031 ± 0.0011"),
        (-0.21, 0.031, "-0.210 ± 0.031"),
        (-1e-9, 0.0, "0.0000 ± 0.0000"),
        (123.4, 20.0, "123 ± 20"),
        (0.5, np.inf, "0.5 ± ∞"),
    ],
)
def test_differences_in_words(value, half, words):
    assert in_nats_a_row(value, half) == words


def test_divergences_per_row_in_words_hold_no_tiny_or_useless_number():
    assert per_row(None) == per_row((0.1, np.inf)) == "no bound"
    assert per_row((1e-30, 1e-22)) == "below 0.000001"
    assert per_row((0.0, 0.5)) == "at most 0.5"
    assert per_row((0.1, 0.2)) == "0.1 to 0.2"


# Findings, text and page


def audit_of(M, n=200, N=300, **options):
    about, X, y, _, _ = problem(N=N, M=M, n=n)
    levels = enough(about, target=1e-3)
    result = compare(about, held_of(about, X, y), levels, **options)
    return Audit("d < e", "a model", about, levels, numbers=np.arange(1, N + n + 1), compared=result)


def test_no_red_cross_for_the_divergence_where_predictions_lose_nothing():
    good = audit_of(12, loss=10.0)
    assert good.enough.verdict == "not enough"
    first, second = good.findings[:2]
    assert (first.about, first.grade) == ("Predictions", "good")
    assert (second.about, second.grade) == ("Inducing points", "warn")
    assert "about the whole posterior and asks for more than predictions need" in second.text
    assert "Differences below 10 nats a row count as none" in first.text
    poor = audit_of(5)
    assert [each.grade for each in poor.findings[:2]] == ["bad", "bad"]
    alone = Audit("n", "m", poor.subject, poor.enough)
    assert alone.findings[0].grade == "warn"
    assert "held-out rows would tell" in alone.findings[0].text


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th") or (self.inside and tag == "span")
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_the_page_shows_the_comparison_with_its_marks_and_its_numbers():
    audit = audit_of(5)
    page = audit_page(audit)
    section = page[page.index('<section id="predictions">') : page.index('<section id="enough">')]
    assert html.escape(sentence_of(audit.compared), quote=True) in section
    cells = Cells()
    cells.feed(section)
    by_M = {row[0]: row for row in cells.rows if len(row) == 7}
    for each in audit.compared.levels:
        row = by_M[str(each.M)]
        assert float(row[2]) == pytest.approx(each.mean_log_loss, abs=1e-5)
        low, high = (float(end) for end in row[3].split(" to "))
        assert low <= each.log_loss.enclosure.low <= each.log_loss.enclosure.high <= high
        assert row[6] == {"enough": "✓", "not enough": "✗", "open": "!"}[audit.compared.verdict_of(each)]
    assert "proved between" in section
    assert "measured" in section
    assert section.count("<svg") == 1
    assert "the exact GP (proved)" in section
    assert "retrained" not in section


def test_no_bound_is_a_tiny_number():
    """M = 80 explains these rows up to rounding: bounds of 1e-22 nats are shown as limits that can be read."""
    audit = audit_of(80)
    assert float(audit.enough.divergence[0]) < 1e-9
    page = re.sub(r"<title>.*?</title>|<style>.*?</style>|<script>.*?</script>", " ", audit_page(audit), flags=re.S)
    words = [re.sub(r"<[^>]+>|jitter of \S+", " ", page), *(each.text for each in audit.findings)]
    assert "within 0.0001 nats a row" in words[1]
    words.append(levels_in_text(audit.compared))
    assert re.findall(r"\S*\de-\d\d+\S*", " ".join(words)) == []


def test_a_model_that_was_trained_again_is_called_an_estimate_everywhere():
    audit = audit_of(5)
    result, about = audit.compared, audit.subject
    better = about.best(about.X[:30]).predict(np.zeros((1, 1)))
    again = result.scored(10, "retrained", np.full(result.n, float(better.mean[0])), np.full(result.n, 1.0), 0.1)
    both = Audit(
        "n", "m", about, numbers=audit.numbers, compared=result.__class__(**vars(result) | {"retrained": again})
    )
    assert retrained_sentence(both.compared).startswith("An estimate from one training")
    assert "An estimate from one training" in both.findings[0].text
    assert "retrained (estimate)" in levels_in_text(both.compared)
    assert "Estimated:" in levels_in_text(both.compared)
    page = audit_page(both)
    assert page.count("retrained (estimate)") >= 3
    record = both.to_dict()["predictions"]["retrained"]
    assert record["estimate"] is True
    own = losses(result.y, np.full(result.n, float(better.mean[0])), 1.0, 0.1)
    assert record["less than model"]["mean"] == pytest.approx(own.mean() - result.model.mean_log_loss)


def test_the_table_fits_80_columns():
    table = levels_in_text(audit_of(40).compared).partition("\nProved")[0]
    assert max(map(len, table.splitlines())) <= 80


# `fitting.audit` and the command


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    X = rng.uniform(0.0, 10.0, (300, 1))
    return X, 50.0 + 8.0 * np.sin(2.0 * X[:, 0]) + 0.8 * rng.standard_normal(300)


def exact_scores(audited, model, train, test, mean=0.0):
    """Log loss and RMSE of the exact GP in the units of the table, by dense algebra."""
    about = audited.subject
    K, noise = about.kernel, about.noise
    A = K(train[0]) + noise * np.eye(len(train[0]))
    cross = K(test[0], train[0])
    means = mean + cross @ np.linalg.solve(A, train[1] - mean)
    variance = K.diag(test[0]) - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T))
    return losses(test[1], means, variance, noise).mean(), np.sqrt(((test[1] - means) ** 2).mean())


@pytest.mark.parametrize("options", [{}, {"normalize_y": True}, {"method": "fitc", "normalize_y": True}])
@UNTRAINED
def test_an_estimator_is_compared_in_the_units_of_the_table(rows, options):
    X, y = rows
    model = fitting.SparseGP(n_inducing=8, max_iter=5, random_state=0, **options).fit(X[:200], y[:200])
    audited = fitting.audit(model, X[:200], y[:200], test=(X[200:], y[200:]))
    record = audited.to_dict()["predictions"]
    shift = float(model.y_mean_[0])
    loss, rmse = exact_scores(audited, model, (X[:200], y[:200]), (X[200:], y[200:]), shift)
    low, high = record["exact"]["log_loss"]
    assert low - 1e-6 <= loss <= high + 1e-6
    low, high = record["exact"]["rmse"]
    assert low - 1e-6 <= rmse <= high + 1e-6
    mean, std = model.predict(X[200:], return_std=True, noisy=True)
    own = -stats.norm.logpdf(y[200:], mean, std)
    assert record["model"]["log_loss"] == pytest.approx(own.mean(), rel=1e-9)
    assert record["model"]["rmse"] == pytest.approx(np.sqrt(((y[200:] - mean) ** 2).mean()), rel=1e-9)
    assert record["rows"] == record["held_out"] == 100
    assert record["numbers"] == list(range(201, 301))
    assert [each["points"] for each in record["levels"]].count("model") == 1
    assert json.loads(json.dumps(record)) == record


@UNTRAINED
def test_a_prior_mean_of_an_estimator_is_kept(rows):
    X, y = rows
    model = fitting.SparseGP(n_inducing=8, max_iter=5, mean=LinearMean(50.0), random_state=0).fit(X[:200], y[:200])
    audited = fitting.audit(model, X[:200], y[:200], test=(X[200:], y[200:]))
    loss, rmse = exact_scores(audited, model, (X[:200], y[:200]), (X[200:], y[200:]), 50.0)
    record = audited.to_dict()["predictions"]
    assert record["exact"]["log_loss"] == pytest.approx([loss, loss], abs=1e-3)
    assert record["exact"]["rmse"] == pytest.approx([rmse, rmse], rel=1e-3)
    mean, std = model.predict(X[200:], return_std=True, noisy=True)
    assert record["model"]["log_loss"] == pytest.approx(-stats.norm.logpdf(y[200:], mean, std).mean(), rel=1e-9)


def test_imported_models_are_compared_with_and_without_their_own_posterior(rows):
    X, y = rows
    test = (X[200:], y[200:])
    kernel, Z = SquaredExponential(60.0, 0.8), X[:8]
    plain = fitting.audit(Model(kernel, 0.64, Z, LinearMean(50.0)), X[:200], y[:200], test=test)
    own = Model(kernel, 0.64, Z, LinearMean(50.0), q=InducingLaw(np.zeros(8), np.eye(8), True, 1e-9))
    worse = fitting.audit(own, X[:200], y[:200], test=test)
    one, other = plain.to_dict()["predictions"], worse.to_dict()["predictions"]
    assert one["exact"] == other["exact"]
    assert other["model"]["log_loss"] > one["model"]["log_loss"]
    assert "best" in [each["points"] for each in other["levels"]]
    loss, _ = exact_scores(plain, None, (X[:200], y[:200]), test, 50.0)
    assert one["exact"]["log_loss"] == pytest.approx([loss, loss], abs=1e-3)


def test_an_exact_model_of_another_library_is_compared(rows):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    X, y = rows
    peer = GaussianProcessRegressor(60.0 * RBF(0.8) + WhiteKernel(0.64), optimizer=None).fit(X[:200], y[:200])
    audited = fitting.audit(from_sklearn(peer), X[:200], y[:200], test=(X[200:], y[200:]))
    assert audited.compared.model.M is None
    assert audited.findings[0].grade == "good"
    assert "The model predicts as the exact GP" in str(audited).replace("\n  ", " ")


@UNTRAINED
def test_without_held_out_rows_a_note_says_how_to_pass_them(rows):
    X, y = rows
    model = fitting.SparseGP(n_inducing=8, max_iter=2, random_state=0).fit(X, y)
    audited = fitting.audit(model, X, y)
    assert audited.to_dict()["predictions"] is None
    assert any("exact GP would predict better is not known" in note and "test" in note for note in audited.notes)


@UNTRAINED
def test_training_again_is_refused_before_anything_is_computed(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr("gpbounds.audit.enough", lambda *given, **options: pytest.fail("computed before the refusal"))
    model = fitting.SparseGP(n_inducing=8, max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="retrain: expected rows that the model was not trained on"):
        fitting.audit(model, X, y, retrain=True)
    exact = fitting.ExactGP(max_iter=2).fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="retrain: expected an estimator with inducing points"):
        fitting.audit(exact, X, y, retrain=True)


def test_a_comparison_alone_brackets_the_divergence_of_the_model_too(rows):
    """Without bounds from an audit: the bracket holds the divergence, log p(y) less the ELBO."""
    X, y = rows
    kernel, noise, Z = SquaredExponential(1.0, 0.8), 0.1, X[:6]
    about = subject(kernel, X[:200], y[:200], Z, noise=noise)
    law = about.law.predict(X[200:])
    low, high = compare(about, HeldOut(X[200:], y[200:], law.mean, law.variance)).model.kl
    lower, upper = gap(kernel, X[:200], y[:200], Z, 1.0, noise=noise)
    assert 0.0 < low <= float(upper) / 200
    assert float(lower) / 200 <= high


@pytest.mark.slow
@UNTRAINED
def test_training_again_starts_from_the_model_and_is_compared_at_the_same_rows(rows):
    X, y = rows
    model = fitting.SparseGP(n_inducing=6, max_iter=40, normalize_y=True, random_state=0).fit(X[:200], y[:200])
    before = model.inducing_.copy()
    audited = fitting.audit(model, X[:200], y[:200], test=(X[200:], y[200:]), retrain=True)
    again = audited.compared.retrained
    assert again.M == 12
    assert np.array_equal(model.inducing_, before)
    assert "An estimate from one training" in str(audited).replace("\n  ", " ")
    assert audited.to_dict()["predictions"]["retrained"]["estimate"]
    assert again.mean_log_loss < audited.compared.model.mean_log_loss
    for kind in (fitting.RenyiGP(n_inducing=4, max_iter=2), fitting.VariationalGP(n_inducing=4, max_iter=2)):
        other = fitting.audit(kind.fit(X[:200], y[:200]), X[:200], y[:200], test=(X[200:], y[200:]), retrain=True)
        assert other.compared.retrained.M == 8


@UNTRAINED
def test_wrong_arguments_of_the_comparison_are_refused(rows):
    X, y = rows
    exact = fitting.ExactGP(max_iter=1).fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="retrain: expected an estimator with inducing points"):
        fitting.audit(exact, X[:50], y[:50], test=(X[200:], y[200:]), retrain=True)
    with pytest.raises(ValueError, match="loss: expected"):
        fitting.audit(exact, X[:50], y[:50], loss=0.0)
    with pytest.raises(ValueError, match="test_rows: expected"):
        fitting.audit(exact, X[:50], y[:50], test_rows=0)


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    place = tmp_path_factory.mktemp("compared") / "data.csv"
    X, y = rows
    lines = [f"{a!r},{b!r}\n" for a, b in zip(X[:, 0].tolist(), y.tolist(), strict=True)]
    place.write_text("".join(["x,y\n", *lines]), encoding="utf-8")
    return place


@pytest.mark.slow
def test_the_command_asks_for_rows_a_threshold_and_a_training(table, tmp_path, capsys):
    words = ["audit", str(table), "--inducing", "5", "--out", str(tmp_path / "a.html")]
    assert main([*words, "--loss", "0.5", "--test-rows", "20", "--retrain", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["predictions"]
    assert (record["rows"], record["held_out"], record["loss"]) == (20, 60, 0.5)
    assert record["retrained"]["M"] == 10
    assert main([*words, "--loss", "0.00001", "--test-rows", "3"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Differences below 1e-05 nats a row count as none" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--loss", "0"], "--loss: expected a positive number"), (["--test-rows", "0"], "--test-rows: expected a whole")],
)
def test_wrong_options_are_refused_in_one_sentence(table, tmp_path, capsys, words, message):
    assert main(["audit", str(table), "--out", str(tmp_path / "a.html"), *words]) == 2
    assert message in capsys.readouterr().err


def test_ctrl_c_in_the_comparison_leaves_the_divergence(table, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpbounds.audit.compare", interrupted)
    assert main(["audit", str(table), "--inducing", "5", "--out", str(tmp_path / "a.html"), "--json"]) == 130
    record = json.loads(capsys.readouterr().out)
    assert record["predictions"] is None
    assert record["enough"]["verdict"]
    assert any("not computed: would the exact GP predict better" in note for note in record["notes"])
