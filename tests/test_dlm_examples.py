"""The examples of direct loss minimisation: their numbers satisfy what theory says, and their files are written."""

from __future__ import annotations

import csv
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("bmc_trained", "dlm_beta", "dlm_curves", "dlm_losses", "dlm_sampling", "dlm_setting", "paired",
         "lowrank_setting", "regression_sets")  # fmt: skip


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def without_times(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def cut(path, keep):
    """Leave out the rows that ``keep`` does not want, as if the program had been stopped; return all of them."""
    rows = rows_of(path)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(row for row in rows if keep(row))
    return without_times(rows)


def rows_of(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# data and comparisons


def test_ringnorm_has_the_error_of_breiman_s(example):
    """The best rule compares |x|²/4 + D log 4 with |x − a·1|²; Breiman gives its error as 1.3 %."""
    X, y = example("dlm_setting").ringnorm(40_000, np.random.default_rng(0))
    D = X.shape[1]
    inner = ((X - 2.0 / np.sqrt(D)) ** 2).sum(axis=1) < 0.25 * (X**2).sum(axis=1) + D * np.log(4.0)
    assert np.mean(inner != (y > 0.0)) == pytest.approx(0.0127, abs=0.003)


def test_splits_share_their_test_rows_and_know_nothing_of_them(example):
    setting = example("dlm_setting")
    few, many = (setting.task("Branin", Path(), n, 3, 40) for n in (20, 30))
    assert few.X_test.shape == (40, 2)
    np.testing.assert_allclose(many.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose([many.y.mean(), many.y.std()], [0.0, 1.0], atol=1e-12)
    # standardised by different rows, the same rows are affine functions of each other
    assert abs(np.corrcoef(few.X_test[:, 0], many.X_test[:, 0])[0, 1]) == pytest.approx(1.0)
    assert not np.isin(many.X_test[:, 0], many.X[:, 0]).any()


def test_calibration_is_0_for_the_true_law_and_large_for_a_wrong_one(example):
    setting = example("dlm_setting")
    from gpbounds.likelihoods import Gaussian, Poisson

    rng = np.random.default_rng(0)
    m, v = rng.standard_normal(4000), np.full(4000, 0.3)
    f = m + np.sqrt(v) * rng.standard_normal(4000)
    for likelihood, y in (
        (Gaussian(0.5), f + np.sqrt(0.5) * rng.standard_normal(4000)),
        (Poisson(), rng.poisson(np.exp(f))),
    ):
        assert setting.calibration(likelihood, y, m, v) < 1.63 / np.sqrt(4000)  # Kolmogorov's 1 % limit
        assert setting.calibration(likelihood, y, m - 0.5, v) > 0.08


def test_a_tally_counts_sure_differences_only(example):
    paired = example("paired")
    less, more = paired.paired([1.0, 1.1, 0.9], [2.0, 2.2, 1.9]), paired.paired([2.0, 2.2, 1.9], [1.0, 1.1, 0.9])
    level = paired.paired([1.0, 2.0], [1.1, 1.7])
    assert less.surely_less
    assert more.surely_more
    assert not level.surely_less
    assert not level.surely_more
    assert not paired.paired([0.0], [5.0]).surely_less  # one pair proves nothing
    words = [
        paired.Tally(gaps).word for gaps in ([less, less, level], [less, less, more], [more, level], [level, level])
    ]
    assert words == ["agrees", "agrees in part", "does not agree", "undecided"]


# dlm_losses


def test_losses_of_all_methods_come_out_and_go_on_from_the_file(example, tmp_path, capsys, monkeypatch):
    script, setting = example("dlm_losses"), example("dlm_setting")
    out = tmp_path / "losses.png"
    for method, (_, arguments) in script.METHODS.items():  # one of them chooses β
        if "beta" in arguments and method != "fixed square DLM":
            monkeypatch.setitem(arguments, "beta", 0.5)
    few = ["--only", "Branin", "--sizes", "30", "--splits", "1", "--inducing", "4", "--steps", "3", "--tests", "50"]
    script.main([*few, "--tol", "0.1", "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    records = setting.load(out.with_suffix(".csv"), setting.Score)
    assert [r.method for r in records] == script.methods("Branin")
    assert {r.method: r.beta for r in records}["ELBO"] == 1.0
    assert all(0.0 <= r.coverage50 <= r.coverage90 <= 1.0 for r in records)
    printed = capsys.readouterr().out
    for claim in ("Claim 1", "Claim 2", "Claim 3"):
        assert claim in printed
    setting.save(out, [replace(r, log_loss=float(k)) for k, r in enumerate(records)])
    script.main([*few, "--resume", "--out", str(out)])
    assert [r.log_loss for r in setting.load(out.with_suffix(".csv"), setting.Score)] == list(
        range(7)
    )  # none was trained again
    assert "joint DLM is at times unstable): agrees" in capsys.readouterr().out


def test_a_smaller_weight_of_the_kl_fits_the_training_rows_better(example):
    """The direct loss starts at the ELBO's optimum: −J of fixed DLM is no less than J there, and β = 1 costs most."""
    script, setting = example("dlm_losses"), example("dlm_setting")
    part = setting.task("Branin", Path(), 30, 0, 10)
    values = [script.fitted(part, script.FIXED, 4, 6, 1e-3, beta=beta).objective_ for beta in (1.0, 0.1)]
    assert values[1] > values[0]  # J increases with β for every q, as KL ≥ 0
    assert values[0] > script.fitted(part, "ELBO", 4, 6, 1e-3).objective_


# dlm_beta


def test_the_best_beta_has_the_least_loss_of_its_path(example):
    script, setting = example("dlm_beta"), example("dlm_setting")
    part = setting.task("Branin", Path(), 30, 0, 40)
    betas = script.grid(30, 50.0)
    assert betas == [30.0, 1.0, 0.6, 0.012]
    betas.pop()
    records = script.paths(part, betas, 4, 4, 1e-2)
    for method in script.SHOWN:
        at, table = script.losses(records, ("Branin", 30), method)
        assert at.tolist() == sorted(betas)
        assert table.shape == (1, 3)
        line = next(line for line in script.best_betas(records) if f"{method}:" in line)
        assert f"at β = {at[table[0].argmin()]:.2g}," in line
        assert "undecided" in line  # one split proves nothing


def test_curves_start_at_the_prior_and_fall(example):
    """q is the prior at epoch 0, where log E p = log ½ for labels; a curve goes on as if it had not been judged."""
    script, curves, setting = example("dlm_beta"), example("dlm_curves"), example("dlm_setting")
    part = setting.task("ringnorm", Path(), 200, 0, 100)
    start = curves.first_point(part, 5, part.kernel)
    marks, point = curves.curve("x", part, "log-loss", 0.1, start, curves.Adam([2, 6], 50, 0.05))
    assert [m.epoch for m in marks] == [0.0, 0.5, 1.5]
    assert marks[0].log_loss == pytest.approx(np.log(2.0), rel=1e-12)
    assert marks[2].log_loss < marks[1].log_loss < marks[0].log_loss
    again = curves.curve("x", part, "log-loss", 0.1, start, curves.Adam([6], 50, 0.05))[1]
    np.testing.assert_array_equal(again.q.mean, point.q.mean)
    alone = curves.curve("x", part, "log-loss", 0.1, start, curves.Adam([3], 50, 0.05), joint=False)[1]
    np.testing.assert_array_equal(alone.Z, start.Z)
    assert alone.kernel == start.kernel
    for method, beta in ((script.JOINT, 0.1), ("β-ELBO", 10.0)):
        own = [replace(m, method=method, beta=beta) for m in marks]
        assert script.ends_of(own, method, beta).tolist() == [marks[2].log_loss]


@pytest.mark.slow
def test_paths_and_curves_come_out_as_picture_and_tables(example, tmp_path, capsys):
    out = tmp_path / "beta.png"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    labels = X[:, 0] > 0.3 * rng.standard_normal(80)
    np.savetxt(tmp_path / "airline.csv.gz", np.column_stack([X, labels]), delimiter=",")
    few = ["--only", "Branin", "--sizes", "20", "--splits", "2", "--inducing", "3", "--steps", "2", "--tests", "20"]
    few += ["--large", "airline", "--data", str(tmp_path)]
    few += ["--factor", "3000", "--rows", "40", "--batch", "20", "--epochs", "1", "--out", str(out)]
    example("dlm_beta").main(few)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert len(rows_of(out.with_suffix(".csv"))) == 2 * 3 * 2  # splits, methods, β = 20 and 1
    ends = {(row["data"], row["beta"]) for row in rows_of(tmp_path / "beta_epochs.csv")}
    assert ends == {("airline", "0.1"), ("airline", "1.0"), ("airline", "10.0")}
    printed = capsys.readouterr().out
    assert "Claim 2 (Branin, n = 20, fixed DLM: β < 1)" in printed
    assert "Claim 1 (large set, log loss of joint DLM below that of β-ELBO" in printed
    files = out.with_suffix(".csv"), tmp_path / "beta_epochs.csv"
    whole = [cut(file, lambda row: row["split"] == "0") for file in files]
    example("dlm_beta").main([*few, "--resume"])
    assert [without_times(rows_of(file)) for file in files] == whole


# dlm_sampling


@pytest.mark.slow
def test_drawn_gradients_have_their_exact_means(example):
    """bMC within 4.5 standard errors of what D-22 and D-24 give, uPS of 1; and bMC's bias is seen."""
    script, curves, setting = example("dlm_sampling"), example("dlm_curves"), example("dlm_setting")
    part = setting.task("waves", Path(), 6, 0, 10)
    start = curves.first_point(part, 3, part.kernel)
    script.SIZES = (1, 3)
    drawn, expected = script.gradients(part, start, 25), script.expected_projections(part, start)
    for L in script.SIZES:
        for block in ("w", "C"):
            for method, truth in (("bmc", expected[L, block]), ("ups", 1.0)):
                draws = np.array([r.projection for r in drawn if (r.method, r.L, r.block) == (method, L, block)])
                error = draws.std(ddof=1) / np.sqrt(draws.size)
                assert abs(draws.mean() - truth) < 4.5 * error
    assert abs(expected[1, "w"] - 1.0) > abs(expected[3, "w"] - 1.0) > 0.05
    for r in drawn[:20]:  # |∇̂ − ∇|² = |∇|²(square − 2 projection + 1)
        assert (r.distance > 0.0) == (r.square - 2.0 * r.projection + 1.0 > 0.0)


@pytest.mark.slow
def test_bias_and_curves_come_out_as_pictures_and_tables(example, tmp_path, capsys):
    script = example("dlm_sampling")
    out = tmp_path / "sampling.png"
    large = ["--rows", "40", "--batch", "20", "--epochs", "1", "--tests", "20", "--splits", "1", "--inducing", "3"]
    script.main(["--quick", "--only", "ringnorm", *large, "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    rows = rows_of(out.with_suffix(".csv"))
    assert {row["method"] for row in rows} == set(script.CURVES)
    assert all(float(row["log_loss"]) == pytest.approx(np.log(2.0)) for row in rows if float(row["epoch"]) == 0.0)
    printed = capsys.readouterr().out
    assert "Claim 4 (bMC-100 and uPS-10" in printed
    assert "Claim 7 (ringnorm, smoothing changes nothing" in printed
    whole = cut(out.with_suffix(".csv"), lambda row: row["split"] == "0" and row["method"] != "smooth bMC-10")
    script.main(["--quick", "--only", "ringnorm", *large, "--resume", "--out", str(out)])
    order = [(row["split"], row["method"], row["epoch"]) for row in whole]
    found = {
        (row["split"], row["method"], row["epoch"]): row for row in without_times(rows_of(out.with_suffix(".csv")))
    }
    assert [found[key] for key in order] == whole


# bmc_trained


@pytest.fixture
def step(example):
    """q at step 3 of training on labels."""
    script, setting = example("bmc_trained"), example("dlm_setting")
    return script, script.trajectory(setting.task("ringnorm", Path(), 20, 0, 1), 4, (1, 3), 10)[1]


def test_the_promised_numbers_of_samples_keep_the_tolerance(step):
    """No more failures than δ_t promises, at a level of 0.1 %, at the least proved L; far more at L = 1."""
    script, here = step
    sizes = {rule: np.asarray(here.size(rule).L, dtype=float) for rule in script.RULES}
    assert (sizes["chernoff"] <= sizes["improved"]).all()
    assert (sizes["improved"] <= sizes["printed"]).all()
    records = {r.rule: r for r in script.counts(here, 10**6, 60, 4e5, 0)}
    least = records["chernoff"]
    assert least.agrees
    assert least.missed <= binom.ppf(0.999, least.repeats, least.promised)
    assert records["improved"].errors == 0
    assert records["L = 1"].missed > binom.ppf(0.999, records["L = 1"].repeats, least.promised)
    assert not records["L = 1"].agrees
    for r in records.values():
        assert (r.errors > 0) == (r.largest > 1.0)


def test_the_error_of_a_step_is_that_of_its_gradient(step):
    """‖w_t‖ by Gram matrices against the vectors themselves, and 0 for exact averages."""
    script, here = step
    assert here.error(np.stack(here.exact)) == pytest.approx(0.0, abs=1e-12)
    averages = here.averages(np.full(here.n, 7), np.random.default_rng(0))
    mean, first, second = here.exact
    e, h = averages[1] / averages[0] - first / mean, 0.5 * (averages[2] / averages[0] - second / mean)
    vectors = [np.append(a * v, b * np.outer(v, v)) for a, b, v in zip(e, h, here.V.T, strict=True)]
    assert here.error(averages) == pytest.approx(np.linalg.norm(np.mean(vectors, axis=0)), rel=1e-10)
    averages[:, 0] = 0.0
    assert here.error(averages) == np.inf  # every density of the first row underflowed
    few = here.averages(np.arange(here.n), np.random.default_rng(0))
    assert np.isnan(few[:, 0]).all()  # a row without samples has no average
    assert np.isfinite(few[:, 1:]).all()
    assert script.surely_at_least(3, 10, 0.05) == pytest.approx(0.0873, abs=1e-4)  # tabulated


def test_counts_of_failures_come_out_as_picture_and_table(example, tmp_path, capsys):
    out = tmp_path / "t.png"
    script = example("bmc_trained")
    script.STEPS = (1, 2)
    few = ["--rows", "12", "--inducing", "3", "--iterations", "3", "--repeats", "30", "--budget", "3e4"]
    script.main(["--only", "ringnorm", *few, "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    rows = rows_of(out.with_suffix(".csv"))
    assert {row["t"] for row in rows} == {"1", "2"}
    assert all(float(row["missed"]) <= float(row["repeats"]) for row in rows)
    assert "chernoff: the promise is kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("dlm_losses", ("--splits", "0"), "--splits: expected a whole number >= 1"),
        ("dlm_beta", ("--only", "sarcos"), "--only: expected one of"),
        ("dlm_sampling", ("--count-rows", "2"), "--count-rows: expected a whole number >= 10"),
        ("bmc_trained", ("--repeats", "2"), "--repeats: expected a whole number >= 20"),
    ],
)
def test_questions_without_sense_get_one_sentence(example, script, arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        example(script).main(list(arguments))
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_tables_that_are_not_there_are_said(example, tmp_path, capsys):
    setting = example("dlm_setting")
    assert setting.present(("kin40k", "ringnorm"), tmp_path) == ["ringnorm"]
    assert "No kin40k in" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        example("dlm_beta").main(["--quick", "--large", "airline", "--data", str(tmp_path)])
    assert stop.value.code == 2
    assert "No airline in" in capsys.readouterr().out
