"""Answers of the command line stay where another one cannot be had, or where Ctrl-C ends a step."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pytest

from fitting.study import planning
from fitting.study.afterwards import Gaps
from fitting.study.problem import Problem
from fitting.study.steps import Steps, shown
from gpbounds.cli import main
from gpbounds.renyi.streamed import Streamed

FIXED = ("--lengthscale", "0.7", "--variance", "1", "--noise", "0.2", "--simulate", "0", "--nats", "0.5")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, 1))
    file = tmp_path_factory.mktemp("steps") / "table.csv"
    np.savetxt(file, np.column_stack([X, np.sin(2.0 * X) + 0.3 * rng.standard_normal((60, 1))]), delimiter=",")
    return str(file)


def failing(monkeypatch, kind, error):
    true = Problem.stated

    def patched(self, case, N, alpha):
        if case.kind == kind:
            raise error
        return true(self, case, N, alpha)

    monkeypatch.setattr(Problem, "stated", patched)


def levels(record):
    return [entry["case"] for entry in record["plans"]]


@pytest.mark.parametrize("kind", ["data-aware", "given y"])
def test_a_level_that_cannot_be_had_leaves_the_others(capsys, table, monkeypatch, kind):
    assert main(["plan", "--data", table, *FIXED, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    failing(monkeypatch, kind, ValueError("noise: expected more of it"))
    assert main(["plan", "--data", table, *FIXED, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert levels(record) == [level for level in levels(whole) if level != kind]
    assert record["plans"] == [entry for entry in whole["plans"] if entry["case"] != kind]
    assert record["after the fact"] == whole["after the fact"]
    assert [note for note in record["notes"] if note.startswith(kind) and "expected more of it" in note]


def test_the_levels_stay_if_nothing_can_be_said_after_the_fact(capsys, table, monkeypatch):
    """The bracket of `gap` refuses noise near the rounding error of K: bike, once."""

    def refused(*args: object, **options: object) -> None:
        raise ValueError("noise: expected σ² above the rounding error of K, where doubles decide log p(y)")

    monkeypatch.setattr("gpbounds.renyi.gap_bounds.bracket", refused)
    monkeypatch.setattr("gpbounds.renyi.gap_bounds.gap_record", refused)
    monkeypatch.setattr("gpbounds.audit.levels.bracket", refused)
    assert main(["plan", "--data", table, *FIXED]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "data-aware" in text
    assert "M = " in text
    assert "after the fact: noise: expected σ² above the rounding error of K" in text


def test_where_nothing_can_be_had_the_first_error_is_the_answer(capsys, table, monkeypatch):
    def fails(self, *args):
        raise ArithmeticError("nothing converges")

    monkeypatch.setattr(Problem, "plan", fails)
    monkeypatch.setattr(planning, "_after_the_fact", fails)
    assert main(["plan", "--data", table, *FIXED]) == 2
    assert capsys.readouterr().err == "gpbounds: nothing converges\n"


def test_ctrl_c_prints_the_levels_that_were_found(capsys, table, monkeypatch):
    failing(monkeypatch, "given y", KeyboardInterrupt())
    assert main(["plan", "--data", table, *FIXED, "--json"]) == 130
    record = json.loads(capsys.readouterr().out)
    assert levels(record) == ["data-aware"]
    assert record["after the fact"] is None
    (note,) = [note for note in record["notes"] if note.startswith("Interrupted")]
    assert note == "Interrupted; not computed: given y, y of the data, after the fact, lower bounds."


def test_ctrl_c_before_the_first_answer_is_an_interruption(capsys, table, monkeypatch):
    failing(monkeypatch, "data-aware", KeyboardInterrupt())
    assert main(["plan", "--data", table, *FIXED]) == 130
    assert capsys.readouterr().err == "gpbounds: interrupted\n"


def test_ctrl_c_during_the_search_keeps_the_least_number_that_is_known_to_suffice(capsys, table, monkeypatch):
    tried, true = [], Gaps.__call__

    def interrupted(self, M, target=None):
        if tried and tried[-1][1] and M != tried[-1][0]:
            raise KeyboardInterrupt
        pair = true(self, M, target)
        tried.append((M, float(pair[1]) <= 0.5))
        return pair

    monkeypatch.setattr(Gaps, "__call__", interrupted)
    assert main(["plan", "--data", table, *FIXED, "--select", "uniform", "--json"]) == 130
    after = json.loads(capsys.readouterr().out)["after the fact"]
    assert after["M"] == next(M for M, enough in tried if enough)
    assert after["bounds"][1]["value"] <= 0.5
    assert "Interrupted: fewer points may suffice." in after["notes"]


def test_a_curve_keeps_the_cases_that_have_one(capsys, table, tmp_path, monkeypatch):
    failing(monkeypatch, "given y", ValueError("no curve"))
    out = tmp_path / "curve.png"
    assert main(["curve", "--data", table, *FIXED[:-2], "--out", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [series["case"] for series in record["series"]] == ["data-aware"]
    assert record["evidence"] is not None
    assert out.stat().st_size > 0


def test_the_running_step_is_shown_with_its_time_on_a_terminal_only(capsys, monkeypatch):
    with shown("quiet"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    steps = Steps(2, progress=True)
    steps.take("slow", lambda: time.sleep(1.2))
    text = capsys.readouterr().err
    assert "Step 1 of 2: slow [00:00]" in text
    assert "Step 1 of 2: slow [00:01]" in text


def test_the_error_of_the_determinant_is_small_where_the_noise_is_above_the_rounding_of_the_sums():
    from gpbounds.kernels import SquaredExponential
    from gpbounds.renyi.streamed import streamed

    X = np.linspace(0.0, 1.0, 50)[:, None]
    problem: Streamed = streamed(SquaredExponential(), X, X[:, 0], X[::10], 1e-9, 1e-12)
    assert 0.0 < problem.log_det_error < 1e-1
    lower: Streamed = streamed(SquaredExponential(), X, X[:, 0], X[::10], 1e-15, 1e-12)
    assert lower.log_det_error == np.inf
