"""The examples of trained models: their numbers satisfy what theory says, and their files are written."""

from __future__ import annotations

import csv
import importlib
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from fitting.training import train_adam
from gpbounds import renyi

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("lowrank_setting", "paired", "regression_sets", "bound_vs_trained", "exact_at_scale")


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


# regression_sets


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
            if choice == "best of ten":
                assert truth <= above["given y, best of ten"]


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
    assert len(brackets) == 3 * 5
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
    ],
)
def test_questions_without_sense_get_one_sentence(example, script, arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        example(script).main(list(arguments))
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


# exact_at_scale


@pytest.mark.slow
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
    """The processor's time ends an endless training as Ctrl-C does; afterwards no clock is left."""

    def loss(x):
        begun = time.process_time()
        while time.process_time() < begun + 1e-3:
            pass
        return float(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2 - time.process_time()), np.ones(2)

    script = example("exact_at_scale")
    ignoring = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a job behind `&`
    threads, begun = threading.active_count(), time.process_time()
    with script.interrupted_after(0.3):
        run = train_adam(loss, np.zeros(2), [(-1e9, 1e9)] * 2, max_iter=10**6, learning_rate=1e-6)
    assert run.status == "interrupted"
    assert 0.2 < time.process_time() - begun < 3.0
    assert run.iterations > 3
    assert threading.active_count() == threads
    assert signal.signal(signal.SIGINT, ignoring) == signal.SIG_IGN


def test_batches_end_elsewhere_than_the_evidence_of_all_rows(example, tmp_path, capsys):
    """log p(y) of all rows is the greatest where it was maximised, and the table has the difference."""
    script, rng = example("egp_batches"), np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    rows = np.column_stack([X, np.sin(2.0 * X[:, 0])])
    np.savetxt(tmp_path / "own.csv.gz", rows, delimiter=",", header="a,b,y", comments="")
    where = ["--folder", str(tmp_path), "--out", str(tmp_path / "egp.csv")]
    script.main(["--data", "own", "--rows", "60", "--splits", "1", "--epochs", "5", *where])
    with (tmp_path / "egp.csv").open(encoding="utf-8") as opened:
        values = {row["way"]: float(row["log_evidence_per_row"]) for row in csv.DictReader(opened)}
    gap = values["batches"] - values["all rows"]
    assert gap < 0.0
    assert f"{gap:+.3f}" in capsys.readouterr().out
