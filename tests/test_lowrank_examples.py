"""The pictures of paper 001: what the numbers behind them must satisfy, and that the files come out."""

from __future__ import annotations

import csv
import gzip
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gpbounds.lowrank import FourierFeatures, kl, kl_features, optimal_rank

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    """An example as a module, imported as its script imports what lies beside it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    names = (
        "lowrank_setting",
        "lowrank_ranks",
        "lowrank_decay",
        "hilbert_ranks",
        "predictive_sandwich",
        "trained_divergence",
        "lowrank_tables",
        "lowrank_far_rows",
        "fourier_truth",
        "hilbert_truth",
        "exact_elevators",
        "dlm_setting",
        "paired",
        "regression_sets",
        "deep_features",
        "deep_protocols",
        "deep_schemes",
        "random_feature_dgp",
    )
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def test_ranks_are_in_the_order_that_theory_says(example):
    script = example("lowrank_ranks")
    for setting in script.SETTINGS:
        for D in (1, 2):
            ranks = script.ranks(setting, 300, D, 2, np.random.default_rng(D), lambda: None)
            assert 1 <= ranks.optimum <= ranks.mercer <= (ranks.mercer_theory or 300)
            assert all(ranks.optimum <= (r or 300) <= ranks.fourier_theory for r in ranks.fourier)
            assert ranks.optimum <= (ranks.hilbert or 300) <= (ranks.hilbert_theory or script.MANY)
            assert (ranks.mercer == ranks.optimum) or setting.smooth


def test_a_least_rank_is_a_crossing_of_the_target(example):
    script = example("lowrank_ranks")
    setting = script.SETTINGS[0]
    X = setting.points(200, 3, np.random.default_rng(1))
    K = setting.kernel(X)
    log_det = np.linalg.slogdet(np.eye(200) + K / script.NOISE)[1]
    target = script.EPS * 200
    r = script.fourier_rank(K, X, setting, log_det, np.random.default_rng(7))
    Xi = script.side_by_side(FourierFeatures(setting.kernel, 200, np.random.default_rng(7)), X)
    reached, before = (kl_features(K, Xi[:, :k] * np.sqrt(2.0 / k), noise=script.NOISE) for k in (r, r - 2))
    assert reached <= target < before
    least = optimal_rank(K, target, noise=script.NOISE)
    mercer = script.mercer_truncation(K, X, setting, log_det, least)
    law = script.Gaussian(script.STD, 3)
    reached, before = (
        kl_features(K, script.MercerFeatures(setting.kernel, k, inputs=law).fit(X)(X), noise=script.NOISE)
        for k in (mercer, mercer - 1)
    )
    assert reached <= target < before


def test_curves_are_in_the_order_that_theory_says(example):
    script = example("lowrank_decay")
    curves = {
        (line.panel, line.curve): line
        for line in script.lines(script.GAUSSIAN, 200, 60, 2, np.random.default_rng(0), lambda: None)
    }
    best = curves[1, script.BEST].median
    for curve in (script.FOURIER, script.LEVERAGE):
        drawn = curves[0, curve]
        inside = drawn.r < 60
        assert (drawn.kl[:, inside] >= best[drawn.r[inside] - 1] * (1 - 1e-6) - 1e-9).all()
    mercer, certificate = curves[1, script.MERCER], curves[1, script.CERTIFICATE]
    above = mercer.median > 1e-12
    assert (mercer.median >= best[: mercer.r.size] * (1 - 1e-6)).all()
    assert (mercer.median <= certificate.median)[above].all()
    assert (certificate.median <= curves[1, script.THEORY].median[: mercer.r.size]).all()
    assert (curves[1, script.THEORY].median <= curves[1, script.PRINTED].median).all()
    hilbert, proved = curves[2, script.HILBERT], curves[2, script.ANY]
    assert (hilbert.median <= proved.median).all()
    assert (hilbert.median >= best[hilbert.r - 1] * (1 - 1e-6) - 1e-9).all()


def test_the_bound_of_a_hilbert_space_gp_is_above_its_divergence(example, tmp_path, monkeypatch):
    script = example("hilbert_ranks")
    every = [script.costs(name, 0.3, 120, 0.1, 5) for name in script.KERNELS]
    for each in every:
        assert (each.at_rows <= each.bound).all()
        assert each.at_rows[0] > script.TARGET > each.at_rows[-1]
        assert each.of_enough <= float(each.enough.bound) <= script.TARGET
        m, _, kl = each.rule
        assert m < each.enough.m
        assert kl > script.TARGET
    monkeypatch.setattr(script, "LENGTHSCALES", (0.3, 0.5, 1.0))
    script.picture(every, 120, 0.1).savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["lowrank_ranks", "lowrank_decay"])
def test_a_picture_comes_with_its_numbers(example, name, tmp_path, capsys):
    options = {"lowrank_ranks": ["--N", "60", "--dims", "2"], "lowrank_decay": ["--N", "60", "--most", "40"]}[name]
    example(name).main([*options, "--draws", "2", "--out", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "picture.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["kernel"] for row in rows} == {"Gaussian kernel", "Matérn-1/2 kernel"}
    assert str(tmp_path / "picture.png") in capsys.readouterr().out


def test_prop_4_holds_for_trained_models(example, tmp_path, monkeypatch, capsys):
    """Bounds are kept, and the mean of the predictive divergence is the difference of the chain rule (L-61)."""
    script = example("predictive_sandwich")
    for name, dim in script.CASES:
        row = script.row(name, dim, 12, 40, 2000, 0)
        assert row.violations <= script.ETA * row.draws
        assert row.low <= row.eigen_low <= row.eigen_high <= row.high
        assert row.joint <= row.prior
        assert row.mean <= row.mean_bound * 1.2
        assert row.mean >= row.mean_bound * 0.8
        assert row.bound <= row.printed
    monkeypatch.setattr(script, "CASES", script.CASES[:1])
    asked = ["--N", "40", "--draws", "5", "--out", str(tmp_path / "picture.png")]
    script.main([*asked, "--ranks", "8"])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("(allowed 5%): holds") == 1
    first = (tmp_path / "picture.csv").read_text(encoding="utf-8")
    real, trained = script.row, []
    monkeypatch.setattr(script, "row", lambda *job: trained.append(job[2]) or real(*job))
    script.main([*asked, "--ranks", "8", "10", "--resume"])
    assert trained == [10]
    assert (tmp_path / "picture.csv").read_text(encoding="utf-8").startswith(first)


def test_bounds_lie_above_the_divergences_of_trained_models(example, tmp_path):
    script = example("trained_divergence")
    rng = np.random.default_rng(3)
    X, y = script.data(60, rng)
    mercer = [script.mercer_row(rank, X, y) for rank in (8, 14)]
    assert all(0.0 < row.own <= row.residual <= row.bound <= row.printed for row in mercer)
    assert mercer[1].own < mercer[0].own
    model = script.trained("fourier", 16, X, y)
    own, more, many = (script.fourier_row(rank, model, X, 3, rng) for rank in (16, 64, 4096))
    K, Sigma = model.kernel_(X), model.feature_kernel_(X)
    assert own.own == pytest.approx(kl(K, Sigma, noise=model.noise_), rel=1e-7)
    assert np.isnan(more.own)
    assert np.isfinite(many.bound)
    assert many.leverage_most <= many.leverage_bound <= many.bound
    assert many.plain_most <= many.bound
    assert many.plain < more.plain < own.plain
    assert (mercer[0].compared, many.compared) == ((2, 0), (6, 0))
    assert own.compared == (0, 6)  # an infinite bound is counted apart
    hilbert = [script.hilbert_row(rank, X, y) for rank in (8, 20)]
    assert all(0.0 < row.own <= row.bound and not row.violations for row in hilbert)
    assert hilbert[1].own < hilbert[0].own
    script.picture([*mercer, *hilbert, own, more, many], 60).savefig(tmp_path / "picture.png")


@pytest.mark.slow
def test_tables_have_every_number_beside_the_printed_one(example, monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    table = np.column_stack([X, np.sin(X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(120)])
    np.savetxt(tmp_path / "protein.csv.gz", table, delimiter=",")
    script = example("lowrank_tables")
    monkeypatch.setattr(script, "DIMS", (2, 3))
    monkeypatch.setattr(script, "FOLDS", 2)
    options = ["--rows", "80", "--ranks", "10", "--iterations", "8", "--sets", "protein", "--folder", str(tmp_path)]
    options += ["--splits", "2", "--out", str(tmp_path / "tables.csv")]
    script.main(options)
    out = capsys.readouterr().out
    obtained = script.load(tmp_path / "tables.csv", script.Score)
    assert {(s.model, s.split) for s in obtained} == {(model, i) for model in script.MODELS for i in range(2)}
    for model in script.MODELS:
        for what, paper in zip(("nlpd", "rmse"), script.printed("protein", model, 10), strict=True):
            a, b = (getattr(score, what) for score in obtained if score.model == model)
            assert f"{0.5 * (a + b):.3f} ± {0.5 * abs(a - b):.3f} *({paper:.2f})*" in out
    mean = {model: np.mean([score.nlpd for score in obtained if score.model == model]) for model in script.MODELS}
    for one, other in (("MGP", "SGPR"), ("FGP", "MGP")):
        assert f"| protein {one} − {other} | {mean[one] - mean[other]:+.3f} ± " in out.replace("**", "")
    assert all(s.nlpd >= 0.5 * np.log(2.0 * np.pi * s.noise) for s in obtained)
    assert all(s.dim in ((2, 3) if s.model == "MGP" else (0,)) for s in obtained)
    assert max(s.rmse for s in obtained if s.model == "MGP") < 0.8
    monkeypatch.setattr(script, "trained", None)  # no model is left to train
    script.main([*options, "--resume"])
    assert capsys.readouterr().out == out


def test_the_exact_baseline_predicts_as_dense_algebra_and_its_intervals_hold(example, monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    rows = np.column_stack([X, np.sin(X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(150)])
    np.savetxt(tmp_path / "elevators.csv.gz", rows, delimiter=",")
    script = example("exact_elevators")
    models, scores = [], script.scores
    monkeypatch.setattr(script, "scores", lambda model, data: (models.append(model), scores(model, data))[1])
    options = ["--splits", "2", "--folder", str(tmp_path), "--out", str(tmp_path / "exact.csv")]
    script.main(options)
    out = capsys.readouterr().out
    obtained = script.load(tmp_path / "exact.csv", script.Score)
    for score, model in zip(obtained, models, strict=True):
        X, y, X_test, y_test = script.split(tmp_path / "elevators.csv.gz", 0, score.split)
        assert score.rows == len(y) == 135
        covariance = model.kernel_(X) + model.noise_ * np.eye(len(y))
        exact = multivariate_normal(cov=covariance).logpdf(y)
        assert score.lower <= exact <= score.upper <= score.lower + 1.0
        cross = model.kernel_(X_test, X)
        mean = cross @ np.linalg.solve(covariance, y)
        variance = model.kernel_(X_test) - cross @ np.linalg.solve(covariance, cross.T) + model.noise_ * np.eye(15)
        assert score.rmse == pytest.approx(np.sqrt(np.mean((y_test - mean) ** 2)), abs=1e-3)
        assert score.nlpd == pytest.approx(-np.mean(norm(mean, np.sqrt(np.diag(variance))).logpdf(y_test)), abs=0.01)
    a, b = (score.nlpd for score in obtained)
    assert f"| mean | {0.5 * (a + b):.3f} ± {0.5 * abs(a - b):.3f} |" in out
    printed = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+) … (-?[\d.]+)", out)]
    assert all(low <= s.lower and s.upper <= high for s, (low, high) in zip(obtained, printed, strict=True))
    monkeypatch.setattr(script, "trained", None)  # no model is left to train
    script.main([*options, "--resume"])
    assert capsys.readouterr().out == out
    monkeypatch.setattr(script, "trained", lambda path, rows, seed: replace(obtained[seed], rows=rows))
    script.main([*options, "--resume", "--rows", "100"])  # others, which do not mix with those of 135 rows
    assert [(s.split, s.rows) for s in script.load(tmp_path / "exact.csv", script.Score)] == [
        *((i, 135) for i in range(2)),
        *((i, 100) for i in range(2)),
    ]
    assert capsys.readouterr().out == out


def test_a_far_test_row_decides_the_rmse_of_features_without_decay(example, tmp_path):
    """One test row at 100 standard deviations; where no inducing point is near, a sparse GP returns to its prior."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    row = np.random.default_rng(0).permutation(300)[-1]  # the last test row of split 0
    X[row, 1] = 100.0
    table = np.column_stack([X, np.sin(2.0 * X[:, 0]) + np.tanh(X[:, 1]) + 0.1 * rng.standard_normal(300)])
    np.savetxt(tmp_path / "elevators.csv.gz", table, delimiter=",")
    script = example("lowrank_far_rows")
    options = ["--splits", "1", "--ranks", "20", "--models", "SGPR", "FGP", "--folder", str(tmp_path)]
    options += ["--iterations", "30", "--out", str(tmp_path / "far.csv")]
    script.main(options)
    sparse, fourier = script.load(tmp_path / "far.csv", script.Far)
    for each in (sparse, fourier):
        assert each.far_rows == 1
        assert 90.0 < each.distance < 120.0
        assert 30.0 * each.rmse**2 == pytest.approx(29.0 * each.rmse_near**2 + (each.y - each.mean) ** 2)
        own = 0.5 * np.log(2.0 * np.pi * each.std**2) + 0.5 * each.in_stds**2
        assert 30.0 * each.nlpd == pytest.approx(29.0 * each.nlpd_near + own)
        assert each.rmse_near < 0.3
    assert abs(sparse.mean) < 1e-3
    assert sparse.std**2 >= sparse.variance
    assert abs(fourier.mean) > 1e-2
    script.main([*options, "--resume", "--variance", "0.5", "--models", "FGP"])
    *before, limited = script.load(tmp_path / "far.csv", script.Far)
    assert before == [sparse, fourier]
    assert limited.limit == 0.5
    assert limited.variance <= 0.5
    assert limited.std**2 <= 0.5 + 1.0  # the features have the kernel's variance at every x


@pytest.fixture
def small(tmp_path):
    """A folder with a small table in the place of elevators: y depends on one direction, noise 0.1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    table = np.column_stack([X, np.sin(2.0 * X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(400)])
    np.savetxt(tmp_path / "elevators.csv.gz", table, delimiter=",")
    return tmp_path


@pytest.mark.slow
def test_deep_tables_have_every_number_beside_the_printed_one(example, small, capsys, monkeypatch):
    script = example("deep_features")
    monkeypatch.setattr(script, "SPARSE", {model: M // 25 for model, M in script.SPARSE.items()})
    monkeypatch.setattr(script, "HIDDEN", (64, 32, 16))
    options = ["--sets", "elevators", "--splits", "1", "--epochs", "5", "--pretraining", "2", "--parts", "tables"]
    where = ["--folder", str(small), "--out", str(small / "deep.png")]
    script.main([*options, *where])
    with (small / "deep.csv").open(encoding="utf-8") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(script.MODELS) == set(script.PRINTED["elevators"])
    out = capsys.readouterr().out
    for model, row in rows.items():
        nlpd, rmse = script.PRINTED["elevators"][model]
        assert f"| {model} | 5 | {float(row['nlpd']):.3f} | {nlpd:.3f} | {float(row['rmse']):.3f} | {rmse:.3f} |" in out
        assert float(row["rmse"]) < 1.0
        assert float(row["nlpd"]) >= 0.5 * np.log(2.0 * np.pi * 0.01) + 0.5 - 0.5
    before = (small / "deep.csv").read_text(encoding="utf-8")
    script.results = lambda args, todo: iter(todo)  # what would be trained
    script.main([*options, *where, "--resume"])
    assert (small / "deep.csv").read_text(encoding="utf-8") == before


def test_the_slopes_of_a_deep_gp_of_random_features_are_derivatives(example):
    script = example("random_feature_dgp")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = np.sin(X[:, 0])
    model = script.DeepGP.drawn((4, 3, 2, 1), 5, rng)
    start, normals = model.start(rng), model.normals(rng)
    vector, direction = start + 0.3 * rng.standard_normal(start.size), rng.standard_normal(start.size)
    ends = [model.loss(vector + h * direction, X, y, 90, normals)[0] for h in (-2e-4, -1e-4, 1e-4, 2e-4)]
    slope = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / 12e-4
    assert model.loss(vector, X, y, 90, normals)[1] @ direction == pytest.approx(slope, rel=1e-8)


@pytest.mark.slow
def test_a_deep_gp_of_random_features_learns(example):
    """The mixture of samples predicts better than noise alone, and its density is that of the mean of densities."""
    script = example("random_feature_dgp")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    model = script.DeepGP.drawn((2, 2, 1), 20, rng)
    vector = script.trained(model, X, y, epochs=150, batch=100, rate=0.02, samples=1, rng=rng)
    nlpd, rmse = script.scores(model, vector, X, y, 20, rng)
    assert rmse < 0.5 * y.std()
    assert nlpd < 0.5 * np.log(2.0 * np.pi * y.var()) + 0.5 - 0.3


def test_the_network_of_predictions_predicts_as_the_least_squares(example):
    script = example("deep_protocols")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    fit = script.MLP((6, 4), 2, pretraining=3).regressor(X, np.tile(np.sin(X[:, :1]), 3), rng)
    network, weights = script.predicting(fit)
    np.testing.assert_allclose(network.project(weights, X), fit.predict(X), rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_each_protocol_has_its_row(example, small, capsys):
    script = example("deep_protocols")
    script.HIDDEN = (8, 4)
    script.main(["--splits", "1", "--epochs", "2", "--folder", str(small), "--out", str(small / "protocols.csv")])
    with (small / "protocols.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    expected = {(model, name) for model in script.DEEP for name in ("follows", "apart", "code")}
    assert {(row["model"], row["protocol"]) for row in rows} == expected
    out = capsys.readouterr().out
    assert all(f"| {row['model']} | {row['protocol']} |" in out and float(row["rmse"]) < 1.0 for row in rows)


def test_the_picture_of_sizes_has_a_line_for_each_model_and_number_of_epochs(example):
    script = example("deep_features")
    names, rng = ("DMGP", "DFGP", "DNN+S"), np.random.default_rng(0)
    rows = [
        ("sizes", "protein", model, 15, 1, n, 0, epochs, *rng.uniform(0.5, 2.0, 4), noise)
        for epochs, noise in ((20, ""), (100, ""), (100, 0.5))
        for n in (3000, 1000)
        for model in names
    ]
    above, below = script.picture([tuple(map(str, row)) for row in rows], ["protein"]).axes
    for i, ax in ((8, above), (11, below)):
        lines = {line.get_label(): line.get_xydata() for line in ax.lines if "epochs" in line.get_label()}
        settings = {"20 epochs": (20, ""), "100 epochs": (100, ""), "100 epochs, noise from 0.5": (100, 0.5)}
        assert set(lines) == {f"{model}, {setting}" for model in names for setting in settings}
        for label, points in lines.items():
            model, setting = label.split(", ", 1)
            own = sorted((row[5], row[i]) for row in rows if (row[2], row[7], row[-1]) == (model, *settings[setting]))
            np.testing.assert_array_equal(points, own)
    printed = {line.get_ydata()[0] for line in above.lines if line.get_linestyle() == ":"}
    assert printed == {script.PRINTED["protein"][model][0] for model in names}


@pytest.mark.slow
def test_both_schemes_of_mini_batches_raise_the_evidence(example, small, capsys):
    script = example("deep_schemes")
    where = ["--folder", str(small), "--out", str(small / "schemes.png")]
    script.main(["--rows", "300", "--epochs", "6", *where])
    out = capsys.readouterr().out
    with (small / "schemes.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in script.SCHEMES:
        values = [float(row["log_evidence_per_row"]) for row in rows if row["scheme"] == name]
        assert len(values) == 7
        assert values[-1] > values[0]
        assert f"{name}: log p(y)/N = {values[-1]:.4f} after 6 epochs" in out
    assert (small / "schemes.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def housing(tmp_path):
    """A small table with the columns of cal_housing that the examples use."""
    rng = np.random.default_rng(0)
    income, age = rng.gamma(4.0, 1.0, 700), rng.uniform(1.0, 52.0, 700)
    value = np.sin(income / 3.0) + 0.01 * age + 0.5 * rng.standard_normal(700)
    rows = "\n".join(
        f"{a!r},{b!r},{c!r}" for a, b, c in zip(*map(np.ndarray.tolist, (income, age, value)), strict=True)
    )
    path = tmp_path / "cal_housing.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("income,age,value\n" + rows + "\n")
    return path


def test_the_truth_of_a_trained_hilbert_space_gp_is_below_its_bound(example, housing, tmp_path):
    """Each KL is below its bound; more functions leave less."""
    script = example("hilbert_truth")
    model = script.trained(housing, "income", 400, 0)
    through = model.through(model.data.X)
    lines = list(script.truths(model, through, 0.1, (0.5, 1.0)))
    fewer, enough = ({line.what: line for line in part} for part in (lines[:4], lines[4:]))
    assert enough[script.BOUND].upper <= 0.1
    for each in (fewer, enough):
        assert 0.0 <= each[script.TRUTH].lower <= each[script.TRUTH].upper <= each[script.BOUND].upper
        assert all(each[what].lower <= each[what].upper for what in script.GIVEN)
    assert enough[script.TRUTH].upper < fewer[script.TRUTH].lower
    script.picture(lines, {"income": 400}, 0.1).savefig(tmp_path / "picture.png")
    assert "bound, any rows" in script.summary(lines)


def test_the_truth_of_a_trained_fourier_gp_is_below_its_bounds(example, housing, tmp_path):
    """On a small table: each KL is proved, below N-rff at its rank, and equal to that of a dense computation."""
    script = example("fourier_truth")
    model = script.trained(housing, "income", 400, 0)
    through = model.through(model.data.X)
    lines = [*script.truths(model, through, 512, 2), *script.bounds(model, through.effective_dimension, [512])]
    kernel, X = model.kernel, model.data.X
    for line in lines[:4]:
        features = model.drawn(line.what.split()[-1], 512, line.draw)
        dense = kl_features(kernel(X), features(X), noise=model.noise)
        assert line.lower - 1e-9 <= dense <= line.upper + 1e-9
    bounds = {line.what: line.upper for line in lines[4:]}
    assert max(line.upper for line in lines[:2]) < bounds["bound, leverage, dimension of the rows"] < np.inf
    assert bounds["bound, leverage, dimension of the rows"] <= bounds["bound, leverage"]
    given = {line.what: line for line in script.given(model, 512, 300, 0)}
    mean = given["given rows: predictions, mean over y"]
    assert 0.0 <= mean.lower <= mean.upper
    assert given["given y: predictions"].lower > 0.0
