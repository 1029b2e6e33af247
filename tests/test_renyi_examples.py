"""The studies of the Rényi GP: models meet where they must, verdicts follow from the numbers, files go on growing."""

from __future__ import annotations

import csv
import importlib
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from thinning import one_in

from gpbounds.kernels import Matern

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = (
    "dlm_setting",
    "paired",
    "regression_sets",
    "renyi_setting",
    "renyi_tables",
    "renyi_pictures",
    "renyi_sharpness",
    "renyi_large",
    "renyi_study",
    "which_order",
)


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def test_errors_are_those_of_the_gaussian_density(example):
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal(20), rng.standard_normal(20), rng.uniform(0.1, 2.0, 20)
    rmse, nlpd = example("regression_sets").errors(y, mean, std)
    assert rmse == pytest.approx(np.linalg.norm(y - mean) / np.sqrt(20))
    assert nlpd == pytest.approx(-norm.logpdf(y, mean, std).mean(), rel=1e-12)


@pytest.mark.parametrize("kernel", ["matern32", "se"])
def test_the_models_that_are_compared_meet_where_they_must(example, kernel):
    """At equal hyperparameters, L_α falls with α from the exact evidence to VFE, the limit of power EP, too."""
    script, sets = example("renyi_setting"), example("regression_sets")
    part = sets.split(sets.toys(0.1)[1], 60, 0)

    def objective(method, order=0.0):
        job = script.Job("Branin", kernel, 60, 8, 0, method, order, 1, 0)
        return script.model(job, part, 5).set_params(optimizer=None).fit(part.X, part.y).objective_

    values = [objective("Rényi", a) for a in (0.0, 0.2, 0.5, 0.8, 1.0)]
    assert values[0] == pytest.approx(objective("EGP"), rel=1e-10)
    assert (np.diff(values) < 0.0).all()
    assert values[-1] == pytest.approx(objective("SGP"), rel=1e-10)
    assert objective("PEP", 0.0) == pytest.approx(objective("SGP"), rel=1e-10)
    assert objective("PEP", 1.0) > objective("SGP")  # FITC gives some of the variance of K − Q back


def test_cross_validation_predicts_each_row_from_the_other_folds(example):
    script, sets = example("renyi_setting"), example("regression_sets")
    part = sets.split(sets.toys(0.1)[0], 50, 1)
    job = script.Job("Gramacy & Lee", "matern32", 50, 5, 1, "PEP", 0.5, 1, 3)
    squares = []
    for k in range(3):
        left = np.arange(30) % 3 == k
        with pytest.warns(ConvergenceWarning):
            fitted = script.model(job, part, 4).fit(part.X[~left], part.y[~left])
        squares.extend((fitted.predict(part.X[left]) - part.y[left]) ** 2)
    assert len(squares) == 30
    settings = script.Part(("Gramacy & Lee",), (50,), (5,), 2, (), (0.5,), steps=4)
    assert script.validated(job, part, settings) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-9)


@pytest.fixture
def made_up(example):
    """Groups from made-up RMSE: (seeds, orders) of the Rényi GP, and one number for each other method."""
    script = example("renyi_setting")

    def groups(renyi, orders=(0.2, 0.5, 0.8), egp=1.0, sgp=1.0, pep=(1.0, 1.0), validated=None):
        part = script.Part(("d",), (100,), (5,), len(renyi), orders, (0.5, 1.0), folds=3)
        scores = []
        for job in part.jobs():
            i = orders.index(job.order) if job.method == "Rényi" else 0
            value = {"EGP": egp, "SGP": sgp, "PEP": pep[int(job.order == 1.0)]}.get(job.method)
            value = renyi[job.seed][i] if value is None else value
            inner = validated[job.seed][i] if validated is not None and job.method == "Rényi" else value
            rest = (-value, inner, 0.0, 0.1, 1, "Converged", 2.0)
            scores.append(script.Score(*(getattr(job, name) for name in job.__dataclass_fields__), value, *rest))
        return script.groups(scores, part), scores, part

    return groups


def test_verdicts_follow_from_the_numbers(example, made_up):
    tables = example("renyi_tables")
    level = np.array([0.0, 0.01, -0.01, 0.02])[:, None]  # differs from split to split, cancels in pairs
    (group,), _, _ = made_up(np.array([0.5, 0.3, 0.4]) + 10.0 * level, egp=0.2, pep=(0.6, 0.36))
    text = "\n".join(tables.claims([group]))
    assert "in 1 of 1 settings (least at 0.5); the middle order is surely below both ends in 1" in text
    assert "than the smallest: agrees" in text
    assert group.by_test("Rényi") == 0.5
    assert group.by_test("PEP") == 1.0
    assert tables.lead(group, "PEP").mean == pytest.approx(0.3 + 10 * level.mean() - 0.36)
    (noisy,), _, _ = made_up([[0.5, 0.3, 0.4], [0.5, 0.5, 0.4], [0.5, 0.2, 0.4]])
    assert "surely below both ends in 0" in tables.claims([noisy])[0]
    (far,), _, _ = made_up(np.array([0.5, 0.4, 0.3]) + level)
    text = tables.claims([far])
    assert "in 0 of 1 settings (least at 0.8)" in text[0]
    assert "than the largest: does not agree" in text[2]
    assert [tables.near(a) for a in (0.3, 0.35, 0.5, 0.65, 0.7)] == [False, True, True, True, False]


def test_orders_by_cross_validation_do_not_see_the_test_errors(example, made_up):
    tables = example("renyi_tables")
    test = [[0.3, 0.5, 0.7], [0.3, 0.5, 0.7]]
    (group,), _, _ = made_up(test, validated=[[0.9, 0.1, 0.5], [0.9, 0.8, 0.2]])
    assert group.by_test("Rényi") == 0.2
    assert group.by_validation("Rényi").tolist() == [0.5, 0.8]
    assert group.at("Rényi", group.by_validation("Rényi")).tolist() == [0.5, 0.7]
    row = tables.by_cross_validation([replace(group, data="pm25")], "RMSE").splitlines()[-1]
    assert "| 0.600 ± 0.100 |" in row  # by cross-validation
    assert "| 0.300 ± 0.000 | 0.5, 0.8 | 0.2 |" in row  # by the test rows
    assert "11.74, 15.85, 10.83, 8.02" in row


def test_splits_with_a_model_missing_are_left_out(example, made_up):
    script = example("renyi_setting")
    (group,), scores, part = made_up([[0.5, 0.3, 0.4], [0.5, 0.3, 0.4]])
    assert group.seeds == (0, 1)
    (group,) = script.groups(scores[:-1], part)
    assert group.seeds == (0,)
    assert script.groups(scores[:3], part) == []


def test_the_exact_gp_is_trained_once_and_stands_beside_every_number_of_inducing_points(example):
    script = example("renyi_setting")
    part = script.Part(("d",), (100,), (5, 9), 2, (0.5,), (0.5,))
    jobs = part.jobs()
    assert [(job.M, job.seed) for job in jobs if job.method == "EGP"] == [(5, 0), (5, 1)]
    scores = [
        script.Score(*astuple(job), 10.0 * job.M + job.seed + 0.1 * (job.method == "EGP"), *RECORD) for job in jobs
    ]
    few, many = script.groups(scores, part)
    assert (few.M, many.M) == (5, 9)
    assert few.values("EGP").tolist() == many.values("EGP").tolist() == [50.1, 51.1]
    assert many.values("SGP").tolist() == [90.0, 91.0]
    without = replace(part, methods=("SGP",))
    assert [each.orders("EGP") for each in script.groups(scores, without)] == [[], []]


def test_models_of_many_rows_begin_at_one_exact_gp_and_the_exact_one_and_the_renyi_gp_draw_mini_batches(
    example, tmp_path, monkeypatch
):
    large, setting = example("renyi_large"), example("renyi_setting")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 2))
    np.savetxt(tmp_path / "own.csv.gz", np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    part = large.Large(("own",), (100,), (4,), 1, (0.5,), (0.5,), steps=200, pilot=30, batch=20, batches=10, tested=15)
    begun = []
    monkeypatch.setattr(large, "model", lambda *given: begun.append(given) or setting.model(*given))
    records = [large.measured(job, part, tmp_path) for job in part.jobs()]
    assert [
        (each.N, each.batch, each.steps, each.converged) for each in records if each.method in ("EGP", "Rényi")
    ] == [(60, 20, 10, 0)] * 2
    for each in records:
        if each.method in ("SGP", "PEP"):
            assert (each.batch, each.converged) == (0, int(each.steps < 200))
    assert {each.method: each.points for each in records} == {"EGP": 0, "SGP": 4, "PEP": 4, "Rényi": 4}
    (_, pilot, _), *others = begun  # the pilot comes first, and once
    assert len(others) == 4
    assert len({str(given[1].kernel) for given in others}) == 1
    assert str(pilot.kernel) != str(others[0][1].kernel)
    held = setting.split(setting.source("own", tmp_path), 100, 0)
    assert {len(given[1].X_test) for given in begun} == {15} != {len(held.X_test)}


def test_theory_chooses_as_many_inducing_points_as_bring_the_gap_below_a_nat(example, tmp_path):
    large = example("renyi_large")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 1))
    np.savetxt(tmp_path / "own.csv.gz", np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    part = large.Large(("own",), (100,), (0,), 1, (0.5,), (0.5,), methods=("SGP",), pilot=30, tested=15)
    (record,) = [large.measured(job, part, tmp_path) for job in part.jobs()]
    study = example("renyi_study")
    assert 0 < record.points < 60
    assert f"| own | 60 | {record.points} |" in study.report("large", study.groups([record], part))[0]


RECORD = (0.0, np.nan, 0.0, 0.1, 1, "Converged", 2.0)
"""NLPD, validated, objective, noise, steps, stopped and seconds of made-up records."""
PARTS = ("boxplots", "orders", "tables", "inducing", "sizes", "sharpness", "times", "large")


@pytest.mark.parametrize("part", one_in(3, PARTS))
def test_each_part_writes_picture_table_and_verdict(example, part, tmp_path, capsys, monkeypatch):
    study = example("renyi_study")
    monkeypatch.setattr(example("renyi_sharpness"), "CORNERS", 1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    np.savetxt(tmp_path / "own.csv.gz", np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    small = ["--rows", "30", "--seeds", "2", "--inducing", "4", "--steps", "2", "--sets", "own"]
    orders = ["--orders", "0.3,0.5"]
    where = ["--folder", str(tmp_path), "--out", str(tmp_path)]
    study.main([part, *small, *orders, *where])
    output = capsys.readouterr().out
    assert (tmp_path / f"renyi_{part}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"renyi_{part}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["data"] for row in rows} == {"own"}
    assert all(float(row["RMSE"]) > 0.0 and float(row["noise"]) > 0.0 for row in rows)
    assert all(
        (float(row["validated"]) > 0.0) == (part == "tables" and row["method"] in ("PEP", "Rényi")) for row in rows
    )
    words = {
        "sizes": "| − EGP |",
        "sharpness": "| sharpness, own objective, % |",
        "times": "| learned Z |",
        "large": "| α = 0.5 − EGP |",
        "inducing": "| PEP* |",
        "tables": "| α by CV |",
    }
    assert words.get(part, "own, matern32, 2 splits: RMSE is least at α = ") in output
    monkeypatch.setattr(study, "trained", None)  # no model is left to train
    study.main([part, *small, *orders, *where, "--resume"])
    assert capsys.readouterr().out == output
    study.main([part, *small[:2], "--seeds", "1", *small[4:], *orders, *where, "--resume"])
    with (tmp_path / f"renyi_{part}.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(rows)  # a smaller study loses nothing


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("boxplots", "--rows", "2"), "--rows: expected a whole number >= 10"),
        (("boxplots", "--seeds", "-1"), "--seeds: expected a whole number >= 1"),
        (("tables", "--sets", "none"), "no split has all its models"),
        (("tables", "--batches", "9"), "--batches: only large has mini-batches"),
        (("nothing",), "invalid choice"),
    ],
)
def test_questions_without_sense_get_one_sentence(example, arguments, words, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        example("renyi_study").main([*arguments, "--out", str(tmp_path), "--folder", str(tmp_path)])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_model_is_at_a_minimum_of_its_own_objective_only(example):
    """The exact GP has one objective; the evidence still slopes where the Rényi bound of order 0.8 ends."""
    script, setting = example("renyi_sharpness"), example("renyi_setting")
    part = setting.Part(("Branin",), (100,), (6,), 1, (0.8,), (), steps=100, tol=None)
    exact, renyi = (
        script.measured(setting.Job("Branin", "matern32", 100, 6, 0, method, order, 1, 0), part, EXAMPLES)
        for method, order in (("EGP", 0.0), ("Rényi", 0.8))
    )
    assert exact.own == pytest.approx(exact.evidence, rel=1e-6)
    assert exact.own_curvature == pytest.approx(exact.evidence_curvature, rel=1e-6)
    assert max(exact.slope, renyi.slope) < 1e-3
    assert renyi.evidence_rise > 10.0 * renyi.own_rise
    assert exact.own_rise == pytest.approx(exact.own / 100.0 * (1.0 - exact.objective / 60), rel=1e-9)


def test_mean_errors_fall_in_the_order_at_the_rows_and_grow_where_inputs_are_tied(example):
    script, alphas = example("which_order"), np.array([0.0, 0.3, 0.9, 1.0])
    at_rows, _, tied = script.curves(Matern(1.5, lengthscale=0.3), 2, 30, 5, alphas, 0)
    assert (np.diff(at_rows) < 0.0).all()
    assert (np.diff(tied) > 0.0).all()
    orders, means, _ = script.trained(script.TRAINED)
    assert orders[np.argmin(means)] == 0.1921  # which docs/open_questions/alpha.md states
    assert means.min() == pytest.approx(1.038, abs=5e-4)
