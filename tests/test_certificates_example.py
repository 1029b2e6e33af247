"""The study of certificates: bounds follow from stored numbers, test risks from the certified laws, pages from rows."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm
from sklearn.exceptions import ConvergenceWarning

from fitting import SparseGP, certify
from gpbounds import SquaredExponential
from gpbounds.pacbayes import bound

EXAMPLES = Path(__file__).parents[1] / "examples"
DELTA = 0.01


@pytest.fixture
def script(monkeypatch):
    """The example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield importlib.import_module("certificates")
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def tabled(script, monkeypatch):
    """The script with a table of 160 rows in place of the shared ones."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (160, 2))
    y = 50.0 + 9.0 * np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(160)
    monkeypatch.setattr(script, "table", lambda path, name: (X, y))
    return script


@pytest.mark.slow
def test_the_study_is_written_and_resumed(tabled, tmp_path, monkeypatch, capsys):
    out = tmp_path / "study.png"
    common = ["--sets", "housing", "breast_cancer", "--rows", "120", "--steps", "20", "--out", str(out)]
    tabled.main([*common, "--seeds", "1"])
    tabled.main([*common, "--seeds", "1", "--paper", "--resume"])
    assert out.read_bytes().startswith(b"\x89PNG")
    first = tabled.load(out.with_suffix(".csv"), tabled.Row)
    assert [(row.data, row.form) for row in first] == [
        *(("housing", form) for form in ("data-prior", "held-out", "coverage")),
        *(("breast_cancer", form) for form in ("vote", "held-out")),
        ("housing", "pac-bayes"),
    ]
    asked: list[int] = []
    labels = tabled.labels
    monkeypatch.setattr(tabled, "labels", lambda job: asked.append(job.seed) or labels(job))
    monkeypatch.setattr(tabled, "numbers", lambda job: pytest.fail("computed again"))
    tabled.main([*common[:1], "breast_cancer", *common[3:], "--seeds", "2", "--resume"])
    assert asked == [1]
    again = tabled.load(out.with_suffix(".csv"), tabled.Row)
    assert [repr(row) for row in again[: len(first)]] == [repr(row) for row in first]
    assert out.with_suffix(".md").read_text(encoding="utf-8").strip() in capsys.readouterr().out


def test_the_bounds_follow_from_what_is_stored(tabled):
    """By the formulas of the theorems and SciPy's Beta quantile, from risk, KL and n of the row."""
    job = tabled.Job("housing", 10, 0.5, 0, 150, 20)
    prior, held, covered = tabled.numbers(job)
    assert (prior.N, prior.n, prior.tests) == (120, 60, 30)
    assert prior.bound == pytest.approx(float(bound(prior.risk, prior.kl, prior.n, delta=DELTA)), rel=1e-6)
    mistakes = round(held.risk * held.n)
    assert held.bound == pytest.approx(beta.ppf(1.0 - DELTA, mistakes + 1, held.n - mistakes), rel=1e-9)
    assert covered.bound == 0.9
    assert covered.factor > 0.0
    assert covered.truth * covered.tests == pytest.approx(round(covered.truth * covered.tests), rel=1e-12)


def test_the_law_at_new_rows_is_that_of_the_certificate(script):
    """The Gibbs risk at the certified rows, from the moments at raw inputs, is that of the certificate."""
    rng = np.random.default_rng(1)
    X = 5.0 + rng.uniform(-2.0, 2.0, (120, 2)) * [1.0, 30.0]
    y = np.sin(X[:, 0]) * 8.0 + rng.standard_normal(120)
    units = sys.modules["pac_settings"].constants("disjoint split", X[:60], y[:60])
    model = SparseGP("vfe", SquaredExponential(1.0, np.ones(2)), n_inducing=8, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="All 20 iterations are used"):
        model.fit(units[0].apply(X[:60]), units[1].apply(y[:60]))
    certificate = certify(model, X[60:], y[60:], method="data-prior", epsilon=0.3, delta=DELTA, scaling=units)
    mean, variance = script.of_q(certificate, X[60:])
    off = units[1].apply(y[60:]) - mean
    outside = norm.cdf((-0.3 - off) / np.sqrt(variance)) + norm.sf((0.3 - off) / np.sqrt(variance))
    assert certificate.risk == pytest.approx(outside.mean(), rel=1e-4)  # it has an allowance for rounding


def test_means_ratios_and_goals(script):
    tables = sys.modules["certificate_tables"]
    row = tables.Row("energy", "SparseGP", 200, 0.5, 0, "data-prior", 80, 40, 0.02, 0.01, 1.0, 0.005, 20, np.nan, 1.0)
    rows = [row, replace(row, seed=1, bound=0.04, truth=0.015)]
    one = tables.mean(rows, ("energy", 200), "data-prior")
    assert (one.splits, one.lowest) == (2, 0.005)
    assert one.bound == pytest.approx(0.03)
    assert one.error == pytest.approx(0.01)
    assert one.ratio == pytest.approx(3.0)
    assert tables.mean(rows, ("energy", 200), "held-out") is None
    held = [replace(each, form="held-out") for each in rows]
    last = tables.of_the_sets(rows + held).splitlines()[-1]
    assert last.split("|")[1].strip() == "median"
    assert "3.00" in last
    # a set without mistakes has an infinite ratio, which is counted apart
    right = [replace(each, data="snelson", truth=0.0) for each in rows + held]
    last = tables.of_the_sets(rows + held + right).splitlines()[-1]
    assert "median, without 1 above 100" in last
    assert "3.00" in last
    assert "≤ 0.03: 0.0300, met" in tables.goals(rows)
    assert "missed" in tables.goals([replace(row, bound=0.031)])


def test_the_page_shows_the_stored_rows(script):
    tables = sys.modules["certificate_tables"]
    rows = script.load(EXAMPLES / "results" / "certificates.csv", script.Row)
    text = tables.tables(rows)
    assert (EXAMPLES / "results" / "certificates.md").read_text(encoding="utf-8").strip() == text.strip()
    page = (EXAMPLES / "RESULTS.md").read_text(encoding="utf-8")
    for part in (
        tables.of_the_paper(rows),
        tables.of_the_sets(rows),
        tables.of_labels(rows),
        tables.of_intervals(rows),
    ):
        assert part in page
    for row in rows:
        if row.form == "held-out":
            mistakes = round(row.risk * row.n)
            assert row.bound == pytest.approx(beta.ppf(1.0 - DELTA, mistakes + 1, row.n - mistakes), rel=1e-9)
        if row.form == "data-prior":
            assert row.bound == pytest.approx(float(bound(row.risk, row.kl, row.n, delta=DELTA)), rel=1e-6)
