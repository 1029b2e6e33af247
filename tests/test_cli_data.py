"""The command line on data: what holds after the fact, and the evidence between its bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpbounds
from fitting.study.afterwards import CHOICES, Chooser, Gaps, NoSuchSubset, brackets, directed, ladder, least
from fitting.study.standardised import load
from fitting.study.words import headline
from gpbounds import renyi
from gpbounds.bound import outward
from gpbounds.cli import main
from gpbounds.rates import theorems
from gpbounds.rows.table_rows import read_rows
from gpbounds.rows.tables import read_table

NOISE = 0.2
KERNEL = gpbounds.SquaredExponential(1.5, [0.7, 0.9])
FIXED = ("--lengthscale", "0.7,0.9", "--variance", "1.5", "--noise", "0.2", "--simulate", "0")


def ask(capsys, *words):
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def ask_json(capsys, *words):
    return json.loads(ask(capsys, *words, "--json"), parse_constant=pytest.fail)


def write(file, X, y):
    np.savetxt(file, np.column_stack([X, y]), delimiter=",")
    return file


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """120 rows, two inputs, a target that the model does not quite explain."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((120, 2))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.4 * rng.standard_normal(120)
    return write(tmp_path_factory.mktemp("data") / "table.csv", X, y)


def gap_at(data, Z, alpha=1.0):
    return renyi.exact_gap(KERNEL, data.X, data.y, Z, alpha, noise=NOISE, jitter="auto")


# The search


@given(answer=st.integers(1, 300), first=st.integers(1, 40), last=st.integers(1, 300), end=st.integers(1, 400))
def test_the_least_size_is_found_wherever_it_lies(answer, first, last, end):
    first = min(first, last)
    asked = []

    def meets(M):
        asked.append(M)
        return None if M >= end else answer <= M

    M, tried = least(meets, first, last)
    sizes = [m for m in range(first, last + 1) if m < end]
    expected = [m for m in sizes if m >= answer]
    assert (expected[0] if expected else None) == M
    assert tried == max([m for m in asked if m < end], default=0)
    assert M is not None or tried == max(sizes, default=0)
    assert len(asked) == len(set(asked)) <= 2 + 2 * np.log2(last + 1)
    assert all(first <= m <= last for m in asked)


# plan


@pytest.mark.parametrize(("method", "alpha"), [("greedy", 1.0), ("greedy", 0.4), ("kdpp", 1.0)])
def test_after_the_fact_the_gap_of_the_points_chosen_is_proved_small(capsys, table, method, alpha):
    data = load(table).centred
    words = ("plan", "--data", table, *FIXED, "--nats", 0.3, "--alpha", alpha, "--select", method)
    answer = ask_json(capsys, *words, "--old-forms")
    after = answer["after the fact"]
    (aware,) = [plan for plan in answer["plans"] if plan["case"] == "data-aware" and plan["y_norm2"] is not None]
    chooser = Chooser(KERNEL, data.X, method, 0)
    for M, key in ((after["M"], "bounds"), (after["M"] - 1, "bounds_before")):
        lower, upper = after[key]
        exact = gap_at(data, chooser.points(M), alpha)
        assert (lower["side"], upper["side"]) == ("lower", "upper")
        assert lower["value"] <= exact * (1 + 1e-9)
        assert exact <= upper["value"] * (1 + 1e-9)
        assert upper["confidence"] == 1.0
        assert (upper["value"] <= 0.3) == (key == "bounds")
    assert after["N"] == 120
    assert aware["needed"] == after["needed"] <= after["M"] <= aware["M"]  # the more is known, the fewer are enough
    text = " ".join(ask(capsys, *words).split())
    order = "KL" if alpha == 1.0 else f"D_{alpha:g}"
    assert f"Inducing points that suffice for {order}[q*||p] <= 0.3 nats:" in text
    assert f"as it is certain {after['needed']} M = {after['M']}" in text
    low, high = (outward(after["bounds"][side == "upper"]["value"], side) for side in ("lower", "upper"))
    assert f"{low} <= D_{alpha:g}[q*||p] <= {high}" in text


@pytest.mark.slow
def test_one_more_point_is_as_good_and_fitted_hyperparameters_are_no_caveat(capsys, table):
    """Greedy sets are nested: D_α does not rise from M on (N-monoQ)."""
    data = load(table).centred
    answer = ask_json(capsys, "plan", "--data", table, *FIXED, "--nats", 0.5)
    M = answer["after the fact"]["M"]
    chooser = Chooser(KERNEL, data.X, "greedy", 0)
    gaps = [gap_at(data, chooser.points(m)) for m in range(M, min(M + 10, 120))]
    assert gaps[0] <= 0.5
    assert (np.diff(gaps) <= 1e-12).all()
    fitted = ask_json(capsys, "plan", "--data", table, "--nats", 1)
    assert any("here they were fitted" in note for note in fitted["plans"][1]["notes"])
    assert not any("here they were fitted" in note for note in fitted["after the fact"]["notes"])
    assert any("may be fitted" in note for note in fitted["after the fact"]["notes"])


def test_with_more_rows_than_dense_algebra_allows_the_bounds_are_wider_and_say_so(capsys, table):
    words = ("plan", "--data", table, *FIXED, "--nats", 0.5, "--select", "uniform")
    sharp = ask_json(capsys, *words)["after the fact"]
    cheap = ask_json(capsys, *words, "--rows", 60)["after the fact"]
    assert cheap["N"] == sharp["N"] == 120
    assert sharp["M"] <= cheap["M"]
    assert any("more than --rows 60" in note for note in cheap["notes"])
    assert not any("more than --rows" in note for note in sharp["notes"])


def test_nothing_is_chosen_where_nothing_is_asked_or_no_single_kernel_is_there(capsys, table):
    assert ask_json(capsys, "plan", "--data", table, *FIXED, "--select", "none")["after the fact"] is None
    boxed = ask_json(capsys, "plan", "--data", table, "--lengthscale-range", "1:2", "--noise", 1, "--variance", 1)
    assert boxed["after the fact"] is None
    assert any("omitted with --lengthscale-range" in note for note in boxed["notes"])
    assert "omitted with" in ask(
        capsys, "plan", "--data", table, "--lengthscale-range", "1:2", "--noise", 1, "--variance", 1
    )
    assert ask_json(capsys, "plan", "-N", 500)["after the fact"] is None


def test_the_search_ends_at_most_and_where_there_are_no_more_points(capsys, tmp_path, table):
    capped = ask_json(capsys, "plan", "--data", table, *FIXED, "--nats", 1e-3, "--most", 7)["after the fact"]
    assert (capped["M"], capped["tried"]) == (None, 7)
    assert capped["bounds"][1]["value"] > 1e-3
    assert "no M <= 7" in ask(capsys, "plan", "--data", table, *FIXED, "--nats", 1e-3, "--most", 7)
    X = np.repeat(np.arange(6.0)[:, None], 10, axis=0)
    file = write(tmp_path / "twins.csv", X, np.random.default_rng(0).standard_normal(60))
    words = ("plan", "--data", file, "--lengthscale", 0.1, "--variance", 1, "--noise", 0.1, "--nats", 1e-3)
    twins = ask_json(capsys, *words)["after the fact"]
    assert twins["M"] == 6  # then Q = K
    assert twins["bounds"][1]["value"] < 1e-9


def test_a_search_that_runs_out_of_points_says_why(capsys, table, monkeypatch):
    words = ("plan", "--data", table, *FIXED, "--nats", 0.01, "--select", "uniform")
    needed = ask_json(capsys, *words)["after the fact"]["needed"]
    points, most = Chooser.points, needed + 3

    def few(self, M):
        if M > most:
            raise NoSuchSubset(f"{most} points have all the variance there is")
        return points(self, M)

    monkeypatch.setattr(Chooser, "points", few)
    after = ask_json(capsys, *words)["after the fact"]
    assert (after["M"], after["tried"]) == (None, most)
    assert after["bounds"][1]["value"] > 0.01
    assert any(f"search stopped at M = {most + 1}: {most} points have all" in note for note in after["notes"])
    curve = brackets(KERNEL, load(table).centred, NOISE, [5, most - 1, most + 1], method="greedy", rows=50, seed=0)
    assert curve.M == [5, most - 1]
    most = 1
    text = " ".join(ask(capsys, *words).split())
    assert f"The target needs {needed} inducing points (N-low), but this method cannot choose so many." in text


def test_the_other_direction_costs_its_factor(table):
    data = load(table).centred
    chooser = Chooser(KERNEL, data.X, "greedy", 0)
    pair = Gaps(chooser, data, NOISE, 0.3, "q||p", 2000)(40)
    turned = directed(pair, 0.3, "p||q")
    assert float(turned[1]) == pytest.approx(float(pair[1]) * 7 / 3)
    assert float(turned[0]) == pytest.approx(float(pair[0]) * 3 / 7)
    assert all("R-dir" in bound.claim and bound.quantity == "D_0.3[p||q*]" for bound in turned)


@pytest.mark.parametrize("method", CHOICES)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_every_method_gives_points_whose_gap_lies_in_its_bracket(table, method, alpha):
    data = load(table).centred
    chooser = Chooser(KERNEL, data.X, method, 3)
    gaps = Gaps(chooser, data, NOISE, alpha, "q||p", 2000)
    for M in (40, 7):
        Z = chooser.points(M)
        assert Z.shape == (M, 2)
        assert (Z == chooser.points(M)).all()
        rough, sharp = gaps(M, 1e-9), gaps(M)
        exact = gap_at(data, Z, alpha)
        for lower, upper in (rough, sharp):
            assert float(lower) * (1 - 1e-9) <= exact <= float(upper) * (1 + 1e-9)
        assert float(rough[0]) <= float(sharp[0])
        assert float(sharp[1]) <= float(rough[1])
    if chooser.nested:
        assert (chooser.points(40)[:7] == chooser.points(7)).all()


def test_points_that_are_not_there_are_named(table):
    twins = np.repeat(np.arange(4.0)[:, None], 5, axis=0)
    with pytest.raises(NoSuchSubset, match="4"):
        Chooser(gpbounds.SquaredExponential(), twins, "greedy", 0).points(5)


# curve


def test_the_curve_holds_the_evidence_between_its_bounds(capsys, tmp_path, table):
    out = tmp_path / "c.png"
    data = load(table).centred
    exact = renyi.log_evidence(KERNEL, data.X, data.y, noise=NOISE)
    answer = ask_json(capsys, "curve", "--data", table, *FIXED, "--best", 0, "--out", out)
    evidence = answer["evidence"]
    assert out.read_bytes().startswith(b"\x89PNG")
    assert evidence["exact"] == exact
    assert evidence["M"] == ladder(119)
    elbo, lower, upper = (
        np.array(v) for v in (evidence["elbo"], *([b["value"] for b in evidence[s]] for s in ("lower", "upper")))
    )
    slack = 1e-9 * abs(exact)
    assert (elbo <= lower + slack).all()
    assert (lower <= exact + slack).all()
    assert (exact - slack <= upper).all()
    assert (np.diff(elbo) >= -slack).all()  # nested sets: N-monoQ
    assert upper[-1] - lower[-1] < 1e-3
    chooser = Chooser(KERNEL, data.X, "greedy", 0)
    for M, value, most in zip(evidence["M"], elbo, evidence["KL at most"], strict=True):
        Z = chooser.points(M)
        assert value == pytest.approx(float(renyi.elbo(KERNEL, data.X, data.y, Z, 1.0, noise=NOISE)), rel=1e-9)
        assert gap_at(data, Z) <= most + slack
    text = ask(capsys, "curve", "--data", table, *FIXED, "--best", 0, "--out", out)
    assert f"in nats; exactly {exact:.8g}:" in text
    assert f"{elbo[3]:.6g}" in text


def test_above_the_rows_for_dense_algebra_the_bracket_holds_without_the_exact_value(table):
    data = load(table).centred
    exact = renyi.log_evidence(KERNEL, data.X, data.y, noise=NOISE)
    for method in CHOICES:
        bracket = brackets(KERNEL, data, NOISE, [1, 10, 60], method=method, rows=50, seed=1)
        assert bracket.exact is None
        assert bracket.M == [1, 10, 60]
        for lower, upper in bracket.bounds:
            assert float(lower) <= exact + 1e-9 * abs(exact)
            assert float(upper) >= exact - 1e-9 * abs(exact)


def test_a_curve_decomposes_the_rows_once_for_each_statement(monkeypatch, capsys, tmp_path, table):
    """Its end is searched for and its points are computed on one statement: y from the prior, and y given."""
    made, draws_from_rows = [], theorems.draws_from_rows
    monkeypatch.setattr(theorems, "draws_from_rows", lambda *a, **k: made.append(a) or draws_from_rows(*a, **k))
    ask(capsys, "curve", "--data", table, *FIXED, "--best", 10, "--select", "none", "--out", tmp_path / "c.svg")
    assert len(made) == 2


def test_the_curve_after_the_fact_bounds_the_divergence_of_every_order(table):
    data = load(table).centred
    bracket = brackets(KERNEL, data, NOISE, [5, 30], method="uniform", rows=2000, seed=2)
    chooser = Chooser(KERNEL, data.X, "uniform", 2)
    for alpha in (0.2, 0.7, 1.0):
        exact = [gap_at(data, chooser.points(M), alpha) for M in bracket.M]
        assert (np.array(exact) <= bracket.divergence(alpha) * (1 + 1e-9)).all()
    assert bracket.divergence(0.2, "p||q") == pytest.approx(4.0 * bracket.divergence(0.2))


def test_the_evidence_is_left_out_where_no_set_is_of_a_size_asked_for(capsys, tmp_path):
    X = np.linspace(0.0, 1.0, 40)[:, None]
    file = write(tmp_path / "smooth.csv", X, np.sin(9.0 * X[:, 0]))
    fixed = ("--lengthscale", 5, "--variance", 1, "--noise", 0.1)
    answer = ask_json(capsys, "curve", "--data", file, *fixed, "-M", "30,35", "--out", tmp_path / "c.png")
    assert answer["evidence"] is None
    assert any("cannot choose so many points" in note for note in answer["notes"])


@pytest.mark.slow
def test_the_counts_asked_for_are_the_counts_drawn(capsys, tmp_path, table):
    words = ("curve", "--data", table, *FIXED, "--best", 0, "--out", tmp_path / "c.svg")
    assert ask_json(capsys, *words, "-M", "3,20:40:10")["evidence"]["M"] == [3, 20, 30, 40]
    assert ask_json(capsys, *words, "--most", 9)["evidence"]["M"][-1] == 9
    assert ask_json(capsys, *words, "--select", "none")["evidence"] is None
    assert ask_json(capsys, "curve", "-N", 100, "--out", tmp_path / "c.svg")["evidence"] is None
    boxed = ask_json(
        capsys,
        "curve",
        "--data",
        table,
        "--lengthscale-range",
        "1:2",
        "--noise",
        1,
        "--variance",
        1,
        "--best",
        0,
        "--out",
        tmp_path / "c.svg",
    )
    assert boxed["evidence"] is None
    assert any("omitted with --lengthscale-range" in note for note in boxed["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plan --select finest", "invalid choice: 'finest'"),
        ("plan --most 0", "--most: expected a whole number >= 1, got 0"),
        ("curve --most -3", "--most: expected a whole number >= 1, got -3"),
        ("curve --most many", "expected a whole number such as 40000"),
        ("plan --nats 0", "nats"),
        ("plan --alpha 2", "alpha"),
    ],
)
def test_bad_questions_get_one_sentence(capsys, table, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    command, *rest = words.split()
    assert main([command, "--data", str(table), *FIXED, *rest]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_headline_gives_a_range_of_lengthscales_only_where_there_are_several():
    one = headline(gpbounds.SquaredExponential(1.0, [0.354]), 0.1)
    assert "lengthscale 0.354, noise" in one
    assert headline(gpbounds.SquaredExponential(1.0, 0.354), 0.1) == one
    assert "lengthscale 0.354 to 2 (one per input), noise" in headline(
        gpbounds.SquaredExponential(1.0, [2.0, 0.354]), 0.1
    )


def test_parquet_files_and_folders_are_tables(tmp_path) -> None:
    """The same numbers, names and labels as in a CSV file, and as clear messages."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = np.random.default_rng(0).standard_normal((7, 3))
    names = ["a", "b", "target"]
    csv = tmp_path / "table.csv"
    csv.write_text(
        "\n".join([",".join(names), *(",".join(map(repr, row)) for row in values.tolist())]), encoding="utf-8"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    for part, rows in enumerate((slice(0, 4), slice(4, 7))):
        columns = dict(zip(names, values[rows].T, strict=True))
        parquet.write_table(arrow.table(columns), folder / f"{part}.parquet")
    whole = tmp_path / "table.parquet"
    parquet.write_table(arrow.table(dict(zip(names, values.T, strict=True))), whole)
    for path in (folder, whole):
        np.testing.assert_array_equal(read_table(path)[0], read_table(csv)[0])
        assert read_rows(path).columns == read_rows(csv).columns == ("a", "b")
        np.testing.assert_array_equal(load(path).X, load(csv).X)
    assert load(whole).name == load(csv).name == "table"
    labels = tmp_path / "labels.parquet"
    parquet.write_table(arrow.table({"kind": ["yes", " no", "yes"], "x": [1, 2, 3]}), labels)
    rows = read_rows(labels, "kind", labels=True)
    assert (rows.X.tolist(), rows.y.tolist(), rows.target) == ([[1.0], [2.0], [3.0]], ["yes", "no", "yes"], "kind")
    with pytest.raises(ValueError, match="expected numbers in column 'kind', got string"):
        read_table(labels)
    parquet.write_table(arrow.table({"a": [1.0, None, np.nan], "y": [1.0, 2.0, 3.0]}), labels)
    with pytest.raises(ValueError, match=r"NaN, infinity or nothing in 2 row\(s\): 2, 3"):
        read_table(labels)
    with pytest.raises(ValueError, match="got 2 missing cells in 2 rows and 1 column, the first in row 2, column 'a'"):
        read_rows(labels)
    parquet.write_table(arrow.table({"other": [1.0]}), folder / "2.parquet")
    with pytest.raises(ValueError, match=r"expected the columns \['a', 'b', 'target'\] of 0.parquet"):
        read_table(folder)
    (tmp_path / "text.parquet").write_text("1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected a Parquet file, got a damaged file"):
        read_table(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match=r"a directory with files named \*\.parquet"):
        read_table(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")


def test_a_model_is_trained_from_parquet(tmp_path, capsys) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.linspace(0.0, 6.0, 60)
    parquet.write_table(arrow.table({"x": X, "y": np.sin(X)}), tmp_path / "rows.parquet")
    report = ask_json(
        capsys, "train", tmp_path / "rows.parquet", "--model", "sparse", "--inducing", "8", "--out", tmp_path
    )
    assert "y" in json.dumps(report)


# Proved rounding


def test_rigor_of_the_bounds_given_the_rows(capsys, tmp_path):
    """``--rigor sharp``: M falls where double precision stops, and the evidence has bounds at noise that it refuses."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((100, 1))
    file = write(tmp_path / "line.csv", X, np.sin(2.0 * X[:, 0]) + 0.05 * rng.standard_normal(100))
    words = ("--data", file, "--lengthscale", "0.7", "--variance", "1", "--simulate", "0")
    usual, proved = (
        ask_json(capsys, "plan", *words, "--noise", "0.01", "--nats", "1e-8", "--select", "none", "--rigor", rigor)[
            "plans"
        ]
        for rigor in ("float", "sharp")
    )
    for before, after in zip(usual, proved, strict=True):
        assert after["M"] is not None
        assert before["M"] is None or before["M"] > after["M"] + 5
        assert after["bound"]["certified"]
        assert not before["bound"] or not before["bound"]["certified"]
    out = ("--out", tmp_path / "curve.png")
    record = ask_json(capsys, "curve", *words, "--noise", "1e-18", "-M", "1:10", *out, "--rigor", "sharp")["evidence"]
    for lower, upper in zip(record["lower"], record["upper"], strict=True):
        assert lower["certified"]
        assert lower["value"] <= record["exact"] <= upper["value"]
    assert main(["plan", "-N", "100", "--rigor", "sharp", "--kernel", "matern32", "--inputs", "uniform"]) == 2
    assert "rigor: expected 'float' for this pair of kernel and inputs" in capsys.readouterr().err
