"""Claims of a library beside proved intervals: verdicts, worst rows, causes that add up, text, page, figure, JSON."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitting
from fitting.study import claimed_rows
from gpbounds.audit import causes, claimed_evidence, claimed_predictions, subject
from gpbounds.audit.claimed import ClaimedEvidence, ClaimedPredictions
from gpbounds.audit.examination import rows_of
from gpbounds.audit.single_precision import exact_in_single, sparse_in_single
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.interval import Interval
from gpbounds.iterative import ExactPredictions
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.means import LinearMean
from gpbounds.renyi import InducingLaw, LatentModel, Model, elbo, imported_model, log_evidence
from gpbounds.rows.table_rows import TableRows

KERNEL, NOISE = SquaredExponential(1.2, 0.9), 0.05


@pytest.fixture(scope="module")
def rows():
    """60 rows of one input, and 9 new points."""
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0.0, 6.0, 60))[:, None]
    return X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(60), np.linspace(-0.5, 6.5, 9)[:, None]


def dense(X, y, X_new, noise=NOISE, kernel=KERNEL):
    """log p(y), means and variances by textbook formulas."""
    A = kernel(X) + noise * np.eye(len(X))
    k = kernel(X, X_new)
    value = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + len(y) * math.log(2.0 * math.pi))
    return value, k.T @ np.linalg.solve(A, y), kernel.diag(X_new) - (k * np.linalg.solve(A, k)).sum(axis=0)


def between(low, high, certified=True):
    ends = (Bound(end, side, 1.0, "R-gp", certified=certified) for end, side in ((low, "lower"), (high, "upper")))
    return Interval(*ends)


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (1.0, 0.9995, 1.0005, "inside"),
        (1.0, 0.5, 1.5, "not decided"),
        (1.0, 0.9, 0.98, "above"),
        (1.0, 1.02, 2.0, "below"),
        (1.0, 0.98, 1.0, "not decided"),
        (1.0, -math.inf, math.inf, "not decided"),
        (1.0, -math.inf, 0.5, "above"),
    ],
)
def test_a_verdict_needs_the_whole_interval(value, low, high, verdict):
    assert ClaimedEvidence(value, between(low, high), 10).verdict == verdict


@given(st.floats(-50.0, 50.0), st.floats(-50.0, 50.0), st.floats(0.0, 5.0))
def test_a_verdict_is_true_of_every_number_in_the_interval(value, low, width):
    """Whatever log p(y) is between the ends, a decided verdict is right."""
    claim = ClaimedEvidence(value, between(low, low + width), 10)
    for exact in (low, low + 0.5 * width, low + width):
        error = value - exact
        assert claim.error[0] <= error <= claim.error[1]
        right = {"inside": abs(error) <= 0.01 + 1e-12, "above": error > 0.01 - 1e-12, "below": error < 1e-12 - 0.01}
        assert right.get(claim.verdict, True)


@pytest.mark.parametrize(
    ("change", "convention"),
    [
        (lambda value, N: value / N, "log p(y) per row"),
        (lambda value, N: -value, "the negative of log p(y)"),
        (lambda value, N: -value / N, "the negative of log p(y), per row"),
        (lambda value, N: value + 0.5 * N * math.log(2.0 * math.pi), "log p(y) without the constant −½N log 2π"),
        (lambda value, N: value, ""),
        (lambda value, N: value + 1.0, ""),
    ],
)
def test_another_convention_is_named_where_it_fits(rows, change, convention):
    X, y, _ = rows
    about = subject(KERNEL, X, y, noise=NOISE)
    truth = log_evidence(KERNEL, X, y, noise=NOISE)
    claim = claimed_evidence(about, change(truth, len(y)))
    assert claim.convention == convention
    assert (claim.verdict == "inside") == (change(truth, len(y)) == truth)
    assert claimed_evidence(about, truth / len(y), per_row=True).verdict == "inside"


def test_claims_that_are_right_are_inside_and_wrong_rows_are_found(rows):
    X, y, X_new = rows
    about = subject(KERNEL, X, y, noise=NOISE)
    _, mean, variance = dense(X, y, X_new)
    assert not claimed_predictions(about, X_new, mean, variance).outside.any()
    noisy = claimed_predictions(about, X_new, mean, variance + NOISE, noisy=True)
    assert not noisy.outside.any()
    assert not noisy.open.any()
    wrong = mean.copy(), variance.copy()
    wrong[0][2] += 0.5 * math.sqrt(variance[2])
    wrong[1][4], wrong[1][6] = 9.0 * variance[4], -1e-6
    answer = claimed_predictions(about, X_new, *wrong)
    assert np.flatnonzero(answer.outside).tolist() == [2, 4, 6]
    assert answer.worst == (2, 6)
    assert answer.off[0][2] <= 0.5 * (1.0 + 1e-6)
    assert answer.off[1][2] >= 0.5 * (1.0 - 1e-6)
    assert answer.ratio[0][4] <= 3.0 + 1e-6
    assert answer.ratio[1][4] >= 3.0 - 1e-6
    assert answer.share == (3 / 9, 3 / 9)


def test_a_mean_of_the_prior_moves_the_means_only(rows):
    X, y, X_new = rows
    about = subject(KERNEL, X, y, noise=NOISE)
    _, mean, variance = dense(X, y, X_new)
    shift = 3.0 - X_new[:, 0]
    assert not claimed_predictions(about, X_new, mean + shift, variance, offset=shift).outside.any()


@given(st.integers(0, 10**6))
def test_a_row_is_outside_only_where_all_numbers_between_the_ends_say_so(seed):
    rng = np.random.default_rng(seed)
    mean, low = rng.standard_normal(4), rng.standard_normal(4)
    least = np.where(rng.uniform(size=4) < 0.3, 0.0, rng.uniform(0.0, 2.0, 4))
    high, most = low + 10.0 ** rng.uniform(-6, 0, 4), least + 10.0 ** rng.uniform(-6, 0, 4)
    claimed = rng.uniform(-0.1, 2.0, 4)
    near = rng.uniform(size=4) < 0.5
    mean, claimed = np.where(near, low, mean), np.where(near, 0.5 * (least + most), claimed)
    answer = ClaimedPredictions(mean, claimed, ExactPredictions((low, high), (least, most), True, "cholesky"), 0.1)
    for w in rng.uniform(size=(20, 2)):
        exact, variance = low + w[0] * (high - low), least + w[1] * (most - least)
        std = np.sqrt(variance)
        off = np.abs(mean - exact) > 0.1 * std
        spread = (claimed < 0.0) | (np.abs(np.log(np.sqrt(np.maximum(claimed, 1e-300)) / std)) > math.log1p(0.1))
        assert (answer.outside <= (off | spread)).all()
        inside = ~answer.outside & ~answer.open
        assert (inside <= ~(off | spread)).all()


@pytest.mark.parametrize("Z", [None, np.linspace(0.0, 6.0, 5)[:, None]])
@pytest.mark.parametrize("single", [False, True])
def test_causes_add_up_to_the_error(rows, Z, single):
    """The sum of the contributions of each number encloses claimed − exact, and is as narrow as its parts."""
    X, y, X_new = rows
    about = subject(KERNEL, X, y, Z, noise=NOISE)
    value, mean, variance = dense(X, y, X_new)
    claims = claimed_predictions(about, X_new, mean + 0.1, 2.0 * variance)
    answer = causes(about, claimed_evidence(about, value - 5.0), claims, claimed_jitter=1e-3, single=single)
    point = claims.worst
    errors = {"evidence": -5.0, "mean": 0.1, "variance": variance[point[1]]}
    for part, error in errors.items():
        each = getattr(answer, part)
        assert [cause.name for cause in each] == [
            *(["sparsity"] if Z is not None else []),
            "jitter",
            *(["dtype"] if single else []),
            "solver",
        ]
        low, high = (sum(cause.ends[i] for cause in each) for i in (0, 1))
        assert low <= error + 1e-12
        assert high >= error - 1e-12
        assert high - low < 1e-6
    if Z is not None:  # predictions with inducing points have no proved error
        assert not any(cause.proved for part in ("mean", "variance") for cause in getattr(answer, part))
    if Z is not None:
        gap = value - float(elbo(KERNEL, X, y, Z, 1.0, noise=NOISE))
        assert -answer.evidence[0].ends[0] == pytest.approx(gap, rel=1e-6)
        assert answer.evidence[0].effect == "lowers"
    elif not single:
        moved = dense(X, y, X_new, NOISE + 1e-3)[0] - value
        assert answer.evidence[0].ends[0] <= moved <= answer.evidence[0].ends[1]
        assert answer.evidence[0].proved
    assert len(rows_of(answer)) == sum(len(getattr(answer, part)) for part in errors)


def test_a_jitter_and_single_precision_are_found_as_what_they_are(rows):
    """Claims that were computed with a jitter, or in single precision, leave nothing to the solver."""
    X, y, X_new = rows
    about = subject(KERNEL, X, y, noise=NOISE)
    with_jitter = dense(X, y, X_new, NOISE + 0.01)
    answer = causes(
        about,
        claimed_evidence(about, with_jitter[0]),
        claimed_predictions(about, X_new, *with_jitter[1:]),
        claimed_jitter=0.01,
    )
    assert [each.effect for each in answer.evidence] == [
        "raises" if with_jitter[0] > dense(X, y, X_new)[0] else "lowers",
        "none",
    ]
    assert [each.effect for each in (answer.mean[-1], answer.variance[-1])] == ["none", "none"]
    made = exact_in_single(KERNEL, X, y, X_new, noise=NOISE)
    answer = causes(about, claimed_evidence(about, made.evidence), single=True)
    assert answer.evidence[-1].ends == pytest.approx((0.0, 0.0), abs=1e-9)


def test_single_precision_is_that_of_the_formulas(rows):
    """Within a few units of single precision of the formulas in doubles, and not equal to them."""
    X, y, X_new = rows
    value, mean, variance = dense(X, y, X_new)
    made = exact_in_single(KERNEL, X, y, X_new, noise=NOISE)
    assert 0.0 < abs(made.evidence - value) < 1e-3
    assert made.mean == pytest.approx(mean, abs=1e-4)
    assert made.variance == pytest.approx(variance, abs=1e-5)
    Z = X[::6]
    sparse = sparse_in_single(KERNEL, X, y, Z, X_new, noise=NOISE, added=1e-4)
    exact = float(elbo(KERNEL, X, y, Z, 1.0, noise=NOISE, jitter=1e-4))
    assert 0.0 < abs(sparse.evidence - exact) < 5e-3
    with pytest.raises(NotPositiveDefinite, match="single precision"):
        exact_in_single(SquaredExponential(1.0, 50.0), X, y, X_new, noise=1e-9)


def test_what_is_not_known_is_left_to_the_next_cause(rows):
    """Without a factor in single precision its part is not decided, and the solver's rest says that it contains it."""
    X, y, _ = rows
    about = subject(SquaredExponential(1.0, 5.0), X, 1e-4 * y, noise=1e-7)
    answer = causes(about, claimed_evidence(about, 1e6), single=True)
    assert [each.effect for each in answer.evidence] == ["none", "not decided", "raises"]
    assert answer.evidence[-1].why == "with dtype"


def test_noise_of_each_row(rows):
    """Equal noise in all rows is one noise, and the ends hold the textbook formulas with diag(noise)."""
    X, y, X_new = rows
    rng = np.random.default_rng(5)
    about = subject(KERNEL, X, y, noise=NOISE)
    noises = NOISE * rng.uniform(0.2, 5.0, len(y))
    for per_row, noise in ((np.full(len(y), NOISE), NOISE), (noises, np.diag(noises) @ np.linalg.inv(np.eye(len(y))))):
        each = replace(about, noise=per_row)
        A = KERNEL(X) + (noise if np.ndim(noise) else noise * np.eye(len(y)))
        value = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + len(y) * math.log(2.0 * math.pi))
        k = KERNEL(X, X_new)
        mean, variance = k.T @ np.linalg.solve(A, y), KERNEL.diag(X_new) - (k * np.linalg.solve(A, k)).sum(axis=0)
        assert claimed_evidence(each, value).verdict == "inside"
        claims = claimed_predictions(each, X_new, mean, variance)
        assert not (claims.outside | claims.open).any()
        with pytest.raises(ValueError, match=r"noisy: expected False"):
            claimed_predictions(each, X_new, mean, variance, noisy=True)


def test_a_model_with_noise_of_each_row(rows, tmp_path):
    """From its file, with its mean: the formulas with diag(noise); a jitter is added to each."""
    X, y, X_new = rows
    noises = NOISE * np.random.default_rng(2).uniform(0.2, 5.0, len(y))
    Model(KERNEL, noises, None, LinearMean(4.0)).save(tmp_path / "model.json")
    A, k = KERNEL(X) + np.diag(noises + 0.02), KERNEL(X, X_new)
    value = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + len(y) * math.log(2.0 * math.pi))
    mean, variance = 4.0 + k.T @ np.linalg.solve(A, y), KERNEL.diag(X_new) - (k * np.linalg.solve(A, k)).sum(axis=0)
    options = {"claimed_evidence": value, "claimed_predictions": (X_new, mean, variance), "claimed_jitter": 0.02}
    answer = fitting.examine(imported_model(tmp_path / "model.json"), X, y + 4.0, **options)
    for part in ("evidence", "mean", "variance"):
        assert getattr(answer.causes, part)[-1].effect == "none"
    assert answer.evidence.verdict != "inside"
    assert json.loads(json.dumps(answer.to_dict()))["model"]["noise"] == noises.tolist()
    with pytest.raises(ValueError, match="does not fit data: noise: expected one number, or shape"):
        fitting.examine(Model(KERNEL, noises[1:], None), X, y, claimed_evidence=0.0)


def test_beyond_the_work_the_interval_has_a_probability(rows):
    X, y, X_new = rows
    about = subject(Matern(0.5, 1.0, 1.0), X, y, noise=0.3)
    truth, mean, variance = dense(X, y, X_new, 0.3, Matern(0.5, 1.0, 1.0))
    claim = claimed_evidence(about, truth + 50.0, work=0.0, delta=0.1)
    assert claim.verdict == "above"
    assert claim.to_dict()["confidence"] == 0.9
    assert float(claim.evidence.lower) <= truth <= float(claim.evidence.upper)
    assert not claimed_predictions(about, X_new, mean, variance, work=0.0).outside.any()
    answer = causes(about, claim, claimed_jitter=1e-3, single=True, work=0.0)
    low, high = answer.evidence[0].ends
    assert low <= dense(X, y, X_new, 0.301, Matern(0.5, 1.0, 1.0))[0] - truth <= high
    assert answer.evidence[1].why == "work affords no factor of K + σ²I"


def test_the_door_takes_models_and_estimators(rows):
    """One answer for an imported model with a mean, and for an estimator with its own rows, in the units of y."""
    X, y, X_new = rows
    value, mean, variance = dense(X, y, X_new)
    model = Model(KERNEL, NOISE, None, LinearMean(7.0))
    answer = fitting.examine(
        model, X, y + 7.0, claimed_evidence=value, claimed_predictions=(X_new, mean + 7.0, variance)
    )
    assert answer.evidence.verdict == "inside"
    assert not answer.predictions.outside.any()
    record = json.loads(json.dumps(answer.to_dict()))
    assert record["evidence"]["verdict"] == "inside"
    assert record["predictions"]["worst mean"]["row"] in range(1, 10)
    assert "the claim is right, within 0.01 nats" in str(answer)
    assert "<svg" in answer.page()
    axes = answer.plot().axes
    assert [axis.get_title() for axis in axes] == [
        "log p(y): claimed − exact, nats",
        "worst mean",
        "worst variance",
        "predictions",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = fitting.ExactGP(normalize_y=True, random_state=0, max_iter=5).fit(X, 100.0 + 30.0 * y)
    at, std = own.predict(X_new, return_std=True)
    answer = fitting.examine(own, claimed_predictions=(X_new, at, std**2))
    assert not answer.predictions.outside.any()
    assert answer.evidence is None
    again = fitting.examine(own, X, 100.0 + 30.0 * y, claimed_predictions=(X_new, at + 1.0))
    assert again.predictions.outside.all()


def test_a_q_that_is_not_the_best_one_is_a_cause(rows):
    X, y, _ = rows
    Z = np.linspace(0.0, 6.0, 6)[:, None]
    q = InducingLaw(np.zeros(6), 0.5 * np.eye(6), whitened=True, jitter=1e-6)
    answer = fitting.examine(Model(KERNEL, NOISE, Z, None, q), X, y, claimed_evidence=0.0)
    assert [each.name for each in answer.causes.evidence] == ["sparsity", "jitter", "posterior", "solver"]
    assert answer.causes.jitter == 1e-6
    assert answer.causes.evidence[2].effect == "lowers"
    assert sum(each.ends[0] for each in answer.causes.evidence) == pytest.approx(answer.evidence.error[0], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "claimed_evidence, claimed_predictions: expected at least one claim"),
        ({"claimed_evidence": "high"}, ValueError, "claimed_evidence: "),
        ({"claimed_evidence": math.nan}, ValueError, "claimed_evidence: "),
        ({"claimed_evidence": 1.0, "claimed_jitter": -1.0}, ValueError, "claimed_jitter: "),
        ({"claimed_evidence": 1.0, "dtype": "float16"}, ValueError, "dtype: "),
        ({"claimed_evidence": 1.0, "nats": 0.0}, ValueError, "nats: "),
        ({"claimed_predictions": [1.0]}, ValueError, "claimed_predictions: expected"),
        ({"claimed_predictions": ([[0.0]], [1.0, 2.0])}, ValueError, "claimed_predictions: expected 1 means"),
        ({"claimed_predictions": ([[0.0]], [math.nan])}, ValueError, "claimed_predictions: expected a finite"),
        ({"claimed_evidence": 1.0, "X": None}, ValueError, "X: expected"),
    ],
)
def test_wrong_arguments_are_named(rows, options, error, message):
    X, y, _ = rows
    given = {"X": X, "y": y} | options
    with pytest.raises(error, match=message):
        fitting.examine(Model(KERNEL, NOISE, None), **given)


@pytest.mark.parametrize(
    ("text", "X", "variance"),
    [
        ("x1,mean,variance\n0.5,1,0.25\n0.75,2,0.5\n", [[0.5], [0.75]], [0.25, 0.5]),
        ("row,mean,std_f\n2,1,0.5\n1,2,2\n", [[3.0], [1.0]], [0.25, 4.0]),
        ("mean,std\n1,0.5\n2,1\n", [[1.0], [3.0]], [0.25, 1.0]),
        ("mean\n1\n2\n", [[1.0], [3.0]], None),
    ],
)
def test_claims_in_a_file(tmp_path, text, X, variance):
    (tmp_path / "said.csv").write_text(text, encoding="utf-8")
    table = TableRows("two", np.array([[1.0], [3.0]]), None)
    read = claimed_rows.in_file(tmp_path / "said.csv", table.titles, table)
    assert read.X.tolist() == X
    assert read.mean.tolist() == [1.0, 2.0]
    assert (read.variance if variance is None else read.variance.tolist()) == variance


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n", {}, "expected a header with the column mean, got 'a', 'b'"),
        ("mean,std_y\n1,2\n3,4\n", {}, "expected one of the columns .* got std_y: examine it with noisy"),
        ("mean,std_f\n1,2\n3,4\n", {"noisy": True}, "got std_f: examine it without noisy"),
        ("row,mean\n3,1\n", {}, "numbers of rows of two, from 1 to 2, .* got 3 in line 2"),
        ("mean\n1\n2\n3\n", {}, "one prediction for each of the 2 rows of two"),
        ("row,mean\n1,1\n2,\n", {}, "expected numbers in column 'mean', got a missing one in line 3"),
    ],
)
def test_files_without_claims_are_refused(tmp_path, text, options, message):
    (tmp_path / "said.csv").write_text(text, encoding="utf-8")
    table = TableRows("two", np.array([[1.0], [3.0]]), None)
    with pytest.raises(ValueError, match=message):
        claimed_rows.in_file(tmp_path / "said.csv", table.titles, table, **options)


def test_a_model_of_labels_is_refused(rows, tmp_path):
    from gpbounds.cli import main
    from gpbounds.likelihoods import Bernoulli

    X, _, _ = rows
    LatentModel(KERNEL, Bernoulli("logit"), X[:3]).save(tmp_path / "model.json")
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, np.sign(X)]), delimiter=",", header="x,y", comments="")
    words = [str(tmp_path / name) for name in ("model.json", "rows.csv")]
    assert main(["examine", *words, "--claimed-evidence", "1"]) == 2
