"""The examples of trained models: their numbers satisfy what theory says, and their files are written."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from fitting.training import train_adam
from gpbounds import renyi

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("lowrank_setting", "paired", "regression_sets", "renyi_alpha", "bound_vs_trained", "exact_at_scale")


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


# renyi_alpha


def test_the_toy_functions_have_their_known_values(example):
    sets = example("regression_sets")
    minima = np.array([[np.pi, 2.275], [-np.pi, 12.275], [9.42478, 2.475]])
    assert sets.branin((minima + np.array([5.0, 0.0])) / 15.0) == pytest.approx([0.397887] * 3, abs=1e-6)
    assert sets.griewank(np.full((1, 4), 0.5)) == pytest.approx([0.0], abs=1e-12)
    assert sets.griewank(np.random.default_rng(0).random((50, 4))).min() > 0.0
    x = np.linspace(0.0, 1.0, 20_001)[:, None]
    assert sets.gramacy_lee(x).min() == pytest.approx(-0.869011, abs=1e-5)
    assert 0.5 + 2.0 * x[sets.gramacy_lee(x).argmin(), 0] == pytest.approx(0.548563, abs=1e-4)


def test_a_split_knows_nothing_of_its_test_rows(example):
    sets = example("regression_sets")

    def draw(n, rng):
        X = rng.standard_normal((n, 3)) * [1.0, 5.0, 0.0]  # a constant column is dropped
        X[n * 6 // 10 :] += 1e3  # the training rows must not depend on this
        return X, X[:, 0]

    part = sets.split(sets.Source("shifted", draw, ""), 50, 0)
    assert part.X.shape == (30, 2)
    assert part.X_test.shape == (20, 2)
    np.testing.assert_allclose(part.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(part.X.std(axis=0), 1.0)
    assert part.X_test.min() > 50.0
    np.testing.assert_allclose(part.y_test, part.X_test[:, 0], rtol=1e-12)


def test_errors_are_those_of_the_gaussian_density(example):
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal(20), rng.standard_normal(20), rng.uniform(0.1, 2.0, 20)
    rmse, nlpd = example("renyi_alpha").errors(y, mean, std)
    assert rmse == pytest.approx(np.linalg.norm(y - mean) / np.sqrt(20))
    assert nlpd == pytest.approx(-norm.logpdf(y, mean, std).mean(), rel=1e-12)


def test_the_models_that_are_compared_meet_where_they_must(example):
    """At equal hyperparameters, L_α falls with α from the exact evidence to VFE, the limit of power EP, too."""
    script, sets = example("renyi_alpha"), example("regression_sets")
    part = sets.split(sets.toys(0.1)[1], 60, 0)

    def objective(method, alpha):
        return script.model(method, alpha, part, 8, 5, 0).set_params(optimizer=None).fit(part.X, part.y).objective_

    values = [objective("renyi", a) for a in (0.0, 0.2, 0.5, 0.8, 1.0)]
    assert values[0] == pytest.approx(objective("exact", None), rel=1e-10)
    assert (np.diff(values) < 0.0).all()
    assert values[-1] == pytest.approx(objective("pep", 1.0), rel=1e-10)


def scores(script, renyi_rows, exact=1.0, pep=1.0):
    """Two seeds or more of made-up errors: (seeds, 3) at orders 0, ½, 1."""
    scores = []
    for seed, row in enumerate(renyi_rows):
        rest = (0.0, 0.1, 1, "Converged")
        scores += [script.Score("d", seed, "renyi", a, v, v, *rest) for a, v in zip((0.0, 0.5, 1.0), row, strict=True)]
        scores += [script.Score("d", seed, "pep", a, pep, pep, *rest) for a in (0.0, 0.5)]
        scores.append(script.Score("d", seed, "exact", None, exact, exact, *rest))
    return scores


def test_the_claim_is_seen_only_where_the_lead_is_no_accident(example):
    script = example("renyi_alpha")
    level = np.array([0.0, 0.01, -0.01, 0.02])[:, None]  # differs from split to split, cancels in pairs
    clear = script.verdict(scores(script, np.array([0.5, 0.3, 0.4]) + 10.0 * level), "d")
    assert clear.seen
    assert clear.best == 0.5
    assert clear.rivals["alpha = 1"][0] == pytest.approx(-0.1)
    assert set(clear.surely) >= {"alpha = 0", "alpha = 1"}
    noisy = script.verdict(scores(script, np.array([[0.5, 0.3, 0.4], [0.5, 0.5, 0.4], [0.5, 0.2, 0.4]])), "d")
    assert noisy.near
    assert not noisy.seen
    for order, near in ((0.35, True), (0.5, True), (0.65, True), (0.3, False), (0.7, False)):
        assert dataclasses.replace(noisy, best=order).near == near
    elsewhere = script.verdict(scores(script, np.array([0.5, 0.4, 0.3]) + level), "d")
    assert elsewhere.best == 1.0
    assert not elsewhere.seen
    assert "another order is best" in str(elsewhere)
    assert not script.verdict(scores(script, [[0.5, 0.3, 0.4]]), "d").seen  # one split proves nothing
    # Two splits whose mean is three standard errors: more than two errors, but within Student's interval.
    pair = script.verdict(scores(script, [[0.5, 0.3, 0.32], [0.5, 0.3, 0.34]]), "d")
    mean, error = pair.rivals["alpha = 1"]
    assert mean < -2.0 * error
    assert "alpha = 1" not in pair.surely
    assert script.summary(scores(script, np.array([0.5, 0.3, 0.4]) + level), ["d"]).startswith(
        "Of 1 data sets, RMSE is least"
    )


def test_errors_against_the_order_come_out_as_picture_and_table(example, tmp_path, capsys):
    script = example("renyi_alpha")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    table = tmp_path / "own.csv"
    np.savetxt(table, np.column_stack([X, np.sin(X[:, 0])]), delimiter=",")
    out = tmp_path / "a.png"
    few = ["--rows", "30", "--seeds", "2", "--inducing", "5", "--steps", "3"]
    script.main(["--data", f"own={table}", "--only", "own", "Branin", *few, "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    with out.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * (1 + len(script.ALPHAS) + len(script.ALPHAS) - 1)
    assert {row["data"] for row in rows} == {"own", "Branin"}
    assert all(float(row["RMSE"]) > 0.0 and float(row["noise"]) > 0.0 for row in rows)
    output = capsys.readouterr().out
    assert "own: RMSE is least at alpha" in output
    assert "Of 2 data sets" in output


def test_tables_that_are_not_there_are_said(example, tmp_path, monkeypatch, capsys):
    script, sets = example("renyi_alpha"), example("regression_sets")
    monkeypatch.setattr(sets, "UCI", tmp_path)
    assert [s.name for s in sets.sources([], 0.1)] == ["Gramacy & Lee", "Branin", "Griewank"]
    assert "No bike, elevators, concrete" in capsys.readouterr().out
    for wrong in ("nameonly", f"x={tmp_path / 'none.csv'}"):
        with pytest.raises(SystemExit) as stop:
            script.main(["--data", wrong])
        assert stop.value.code == 2
    assert "expected name=path, got 'nameonly'" in capsys.readouterr().err


# bound_vs_trained


@pytest.fixture(params=[1.0, 0.5])
def setting(request, example):
    script = example("bound_vs_trained")
    data = script.synthetic(80, 3)
    return script, data, request.param, *script.trained(data, 0)


def test_the_truth_lies_in_its_bracket_above_the_floor_and_below_the_bounds(setting):
    script, data, alpha, kernel, noise = setting
    for M in (4, 12, 25):
        floor = float(renyi.minimum_gap(np.linalg.eigvalsh(kernel(data.X)).clip(0.0), M, alpha, noise=noise))
        above = {name: float(value[0]) for name, value in script.bounds(data, kernel, noise, alpha, [M]).items()}
        for choice, _, Z in script.chosen(data, kernel, noise, alpha, M, 2, 15, 0):
            assert Z.shape == (M, 2)
            truth = renyi.exact_gap(kernel, data.X, data.y, Z, alpha, noise=noise, jitter="auto")
            low, high = script.bracket(data, kernel, noise, alpha, Z)
            assert floor * (1 - 1e-9) - 1e-9 <= truth
            assert low - 1e-9 <= truth <= high + 1e-9
            assert high <= 3.0 * low  # the bracket is narrow
            if choice == "k-DPP":  # it holds with probability 95 %, and no draw reaches it
                assert truth <= above["data-aware, any y"]
                assert truth <= above["a priori, any y"]


def test_learning_inducing_points_raises_the_objective(setting):
    script, data, alpha, kernel, noise = setting
    choices = {choice: Z for choice, _, Z in script.chosen(data, kernel, noise, alpha, 6, 1, 30, 0)}
    elbo = {
        name: renyi.elbo(kernel, data.X, data.y, Z, alpha, noise=noise, jitter="auto") for name, Z in choices.items()
    }
    assert float(elbo["learned"]) > float(elbo["greedy"]) + 1.0
    evidence = float(renyi.log_evidence(kernel, data.X, data.y, noise=noise))
    for name, Z in choices.items():  # D_α = log p(y) − objective
        truth = renyi.exact_gap(kernel, data.X, data.y, Z, alpha, noise=noise, jitter="auto")
        assert evidence - float(elbo[name]) == pytest.approx(truth, rel=1e-9)


def test_bounds_and_brackets_come_out_as_picture_and_table(example, tmp_path, capsys):
    script = example("bound_vs_trained")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 1))
    table = tmp_path / "own.csv"
    np.savetxt(table, np.column_stack([X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(50)]), delimiter=",")
    out = tmp_path / "b.png"
    small = ["--rows", "45", "--draws", "2", "--sizes", "3", "--steps", "5"]
    script.main(["--data", f"own={table}", *small, "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    with out.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    brackets = [row for row in rows if row["what"] in script.CHOICES]
    assert len(brackets) == 3 * 4
    assert all(float(row["lower"]) <= float(row["upper"]) for row in brackets)
    floor = {row["M"]: float(row["lower"]) for row in rows if row["what"] == "floor"}
    aware = [row for row in rows if row["what"] == "data-aware, any y"]
    assert all(floor[row["M"]] <= float(row["upper"]) for row in aware)
    assert "own, N = 45: KL <= 0.1 nats from" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        script.main(["--data", f"own={tmp_path / 'none.csv'}"])
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("bound_vs_trained", ("--draws", "0"), "--draws: expected a whole number >= 1"),
        ("bound_vs_trained", ("--rows", "2"), "--rows: expected a whole number >= 10"),
        ("bound_vs_trained", ("--target", "-1"), "--target: expected a positive"),
        ("bound_vs_trained", ("--rows", "20", "--alpha", "0"), "alpha: expected a number in (0, 1]"),
        ("bound_vs_trained", ("--data", "=x"), "expected name=path, got '=x'"),
        ("renyi_alpha", ("--rows", "2"), "--rows: expected a whole number >= 10"),
        ("renyi_alpha", ("--seeds", "0"), "--seeds: expected a whole number >= 1"),
        ("renyi_alpha", ("--only", "none"), "no data set of this name"),
    ],
)
def test_questions_without_sense_get_one_sentence(example, script, arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        example(script).main(list(arguments))
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


# exact_at_scale


def test_the_models_of_the_papers_by_name(example, tmp_path, capsys):
    """Every model learns the function; the bounds on log p(y) are in order, and only the exact GP's and Rényi's."""
    script = example("exact_at_scale")
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (150, 2))
    own, out = tmp_path / "own.csv", tmp_path / "out.csv"
    np.savetxt(own, np.column_stack([X, np.sin(2.0 * X[:, 0])]), delimiter=",", header="a,b,y", comments="")
    script.main([str(own), "--inducing", "12", "--steps", "8", "--batches", "20", "--test", "40", "--out", str(out)])
    with out.open(encoding="utf-8") as opened:
        rows = {row["method"]: row for row in csv.DictReader(opened)}
    assert set(rows) == set(script.METHODS)
    for name, row in rows.items():
        assert float(row["RMSE"]) < 0.5
        ends = float(row["lower"]), float(row["upper"])
        assert (ends[0] <= ends[1]) == (name in ("egp-batch", "egp-bbmm", "renyi"))


def test_equal_time_ends_a_training_with_its_best_point(example):
    """The processor's time ends an endless training as Ctrl-C does; afterwards no timer is left."""

    def loss(x):
        begun = time.process_time()
        while time.process_time() < begun + 1e-3:
            pass
        return float(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2 - time.process_time()), np.ones(2)

    begun = time.process_time()
    with example("exact_at_scale").interrupted_after(0.3):
        run = train_adam(loss, np.zeros(2), [(-1e9, 1e9)] * 2, max_iter=10**6, learning_rate=1e-6)
    assert run.status == "interrupted"
    assert 0.2 < time.process_time() - begun < 3.0
    assert run.iterations > 3
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
