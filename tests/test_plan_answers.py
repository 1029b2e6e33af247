"""One answer of `plan`: in the units of the table, for a named target, in agreement with `audit`, with its spread."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from thinning import one_in

import fitting
from fitting.study.hyperparameters import limited, of_table
from fitting.study.planning import seeds
from fitting.study.standardised import standardise
from fitting.study.words import options_of
from gpbounds import Matern, SquaredExponential
from gpbounds.audit import levels
from gpbounds.cli import main
from gpbounds.means import LinearMean
from gpbounds.renyi import Model

COLUMNS = ["frequency", "angle", "sound"]


def sample(N=80, seed=3):
    """Inputs of very different units, and a target far from 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.standard_normal(N)
    return X * [3000.0, 0.01] + [5000.0, 1.0], 120.0 + 7.0 * y


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("units") / "sound.csv"
    X, y = sample()
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt="%.17g", header=",".join(COLUMNS), comments="")
    return str(path)


def record(capsys, *words):
    assert main([str(word) for word in words] + ["--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def counts(planned):
    return [planned.after.M, *(entry.plan.M for entry in planned.entries)]


# Units


@pytest.mark.slow
def test_a_kernel_in_the_units_of_the_table_has_the_M_of_the_same_kernel_of_standardised_columns(file, capsys):
    X, y = sample()
    sd, unit = X.std(axis=0), y.std()
    lengths, variance, noise = np.array([0.8, 1.3]), 1.4, 0.05
    inner = fitting.plan(
        (X - X.mean(axis=0)) / sd, (y - y.mean()) / unit, kernel=SquaredExponential(variance, lengths), noise=noise
    )
    raw = record(
        capsys,
        *("plan", "--data", file, "--variance", variance * unit**2, "--noise", noise * unit**2),
        *("--lengthscale", ",".join(map(repr, (lengths * sd).tolist()))),
    )
    assert raw["after the fact"]["M"] == inner.after.M
    assert [plan["M"] for plan in raw["plans"]] == [entry.plan.M for entry in inner.entries]


@pytest.mark.slow
def test_the_line_to_paste_gives_the_same_numbers(file, capsys):
    assert main(["plan", "--data", file, "--refits", "0"]) == 0
    text = capsys.readouterr().out
    (line,) = re.findall("^To use it elsewhere: (.*)$", text, flags=re.MULTILINE)
    fitted, pasted = (record(capsys, "plan", "--data", file, "--refits", 0, *more) for more in ([], line.split()))
    assert pasted["kernels"] == fitted["kernels"]
    assert pasted["statement"] == fitted["statement"]
    assert [plan["M"] for plan in pasted["plans"]] == [plan["M"] for plan in fitted["plans"]]
    assert pasted["after the fact"]["M"] == fitted["after the fact"]["M"]
    assert "lengthscale=[frequency " in text


@pytest.mark.slow
@given(st.tuples(*[st.integers(-30, 30)] * 2), st.integers(-30, 30), st.sampled_from([np.inf, 1.5]))
def test_a_unit_twice_as_large_scales_the_kernel_and_leaves_every_M(columns, target, nu):
    X, y = sample(40)
    units, unit = 2.0 ** np.array(columns), 2.0**target
    lengths, family = np.array([2500.0, 0.012]), {"nu": nu} if nu < np.inf else {}
    made = SquaredExponential if nu == np.inf else lambda v, ls: Matern(family["nu"], v, ls)
    options = {"nats": 0.5, "simulate": 0}
    first = fitting.plan(X, y, kernel=made(50.0, lengths), noise=3.0, **options)
    other = fitting.plan(
        X * units, y * unit, kernel=made(50.0 * unit**2, lengths * units), noise=3.0 * unit**2, **options
    )
    assert counts(other) == counts(first)


@pytest.mark.broad
@pytest.mark.parametrize("unit", one_in(2, [1e-60, 1e-27, 1e27, 1e60]))
def test_a_target_in_small_or_large_units_has_the_same_plan(unit):
    """As the charge of an electron in coulombs, or the mass of a star in grams."""
    X, y = sample()
    usual, other = (fitting.plan(X, each, nats=1.0, refits=0, select="none") for each in (y, unit * y))
    assert [entry.plan.M for entry in other.entries] == [entry.plan.M for entry in usual.entries] != []
    assert other.reasons == usual.reasons


@pytest.mark.parametrize("unit", [1e-160, 1e160])
def test_columns_whose_squares_are_no_doubles_are_refused_by_name(unit):
    X, y = sample()
    with pytest.raises(
        ValueError, match=r"^y: expected a standard deviation between 1e-140 and 1e140, .* power of ten"
    ):
        fitting.plan(X, unit * y)
    with pytest.raises(ValueError, match=r"^input 2: expected a standard deviation"):
        fitting.plan(X * [1.0, unit], y)


def test_a_fit_in_other_units_is_the_same_fit():
    X, y = sample(60)
    first, other = (of_table(standardise("d", X * [a, b], y * c), np.inf) for a, b, c in ((1, 1, 1), (8, 0.25, 0.5)))
    assert other.kernel.lengthscale == pytest.approx(first.kernel.lengthscale * [8, 0.25], rel=1e-6)
    assert other.kernel.variance == pytest.approx(0.25 * first.kernel.variance, rel=1e-6)
    assert other.noise == pytest.approx(0.25 * first.noise, rel=1e-6)


def test_lengthscales_of_all_inputs_serve_where_one_is_constant():
    X, y = sample(50)
    with_constant = np.insert(X, 1, 4.0, axis=1)
    lengths = [2500.0, 1.0, 0.012]
    whole = fitting.plan(with_constant, y, kernel=SquaredExponential(50.0, lengths), noise=3.0, simulate=0)
    rest = fitting.plan(X, y, kernel=SquaredExponential(50.0, [2500.0, 0.012]), noise=3.0, simulate=0)
    assert counts(whole) == counts(rest)
    with pytest.raises(ValueError, match="expected one, or one for each of 2 inputs, got 4"):
        fitting.plan(with_constant, y, kernel=SquaredExponential(50.0, [1.0] * 4), noise=3.0)


# The target and the level


def test_the_target_is_the_column_that_is_named_and_its_name_is_printed(file, capsys):
    FIXED = ("--lengthscale", 1, "--variance", 1, "--noise", 1, "--select", "none", "--simulate", 0)
    for name in ("frequency", "1"):
        assert main(["plan", "--data", file, "--target", name, *map(str, FIXED)]) == 0
        assert "D = 2, target frequency." in capsys.readouterr().out
    assert record(capsys, "rate", "--data", file, "-M", 5, "--target", "angle", *FIXED[:6])["data"]["target"] == "angle"
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(file)
    named = fitting.plan(frame, target="frequency", kernel=SquaredExponential(), noise=1.0, select="none", simulate=0)
    assert named.problem.data.columns == ("angle", "sound")
    assert main(["plan", "--data", file, "--target", "sond"]) == 2
    assert "expected one of frequency, angle, sound or a column's number" in capsys.readouterr().err


def test_a_level_given_as_target_is_refused_with_the_name_of_the_level(capsys):
    assert main(["plan", "-N", "1e6", "--target", "0.1"]) == 2
    assert "the level of a divergence is --nats" in capsys.readouterr().err
    with pytest.raises(ValueError, match="the level in nats is the argument nats="):
        fitting.plan(*sample(), target=0.1)


# The plan of a trained model


@pytest.mark.broad
@pytest.mark.parametrize(
    ("method", "settings", "seed"),
    [
        ("vfe", {"kernel": SquaredExponential(1.0, [2000.0, 0.01])}, 0),
        ("vfe", {"kernel": Matern(1.5, 1.0, [2000.0, 0.01]), "normalize_y": True}, 1),
        ("fitc", {"kernel": SquaredExponential(1.0, 2000.0).on([0]) + Matern(0.5, 1.0, 0.01).on([1])}, 2),
        ("vfe", {"kernel": SquaredExponential(1.0, [2000.0, 0.01]), "mean": "constant"}, 3),
    ],
)
def test_plan_and_audit_of_a_model_have_the_same_M(method, settings, seed):
    X, y = sample(90, seed)
    options = {"n_inducing": 8, "random_state": 0, "max_iter": 15, **settings}
    with pytest.warns(ConvergenceWarning):
        model = fitting.SparseGP(method, **options).fit(X[::2], y[::2])
    audited = fitting.audit(model, X, y)
    planned = fitting.plan(X, y, model=model, simulate=0)
    assert planned.after.M == audited.enough.counts[0]
    assert planned.after.needed == audited.enough.needed
    assert planned.problem.data.N == 45
    assert planned.spread is None
    assert planned.entries[-1].level == "given y"
    assert f"--keep-kernel MODEL --inducing {planned.after.M}" in planned.recommendation


def test_plan_and_audit_of_an_imported_model_have_the_same_M(file, capsys, tmp_path):
    X, y = sample()
    model = Model(SquaredExponential(50.0, [2500.0, 0.012]), 3.0, X[:6], LinearMean(120.0))
    audited = fitting.audit(model, X, y, held_out=0.0)
    model.save(tmp_path / "model.json")
    planned = record(capsys, "plan", "--data", file, "--model", tmp_path / "model.json", "--simulate", 0)
    assert planned["after the fact"]["M"] == audited.enough.counts[0]
    assert planned["kernels"] == [{"name": "SquaredExponential", "variance": 50.0, "lengthscale": [2500.0, 0.012]}]
    assert any("residuals of the model's mean" in note for note in planned["data"]["notes"])
    words = ["plan", "--data", file, "--model", str(tmp_path / "model.json"), "--noise", "1"]
    assert main(words) == 2
    assert "--model: it states kernel and noise; omit --noise" in capsys.readouterr().err
    assert main(["plan", "-N", "100", "--model", "model.json"]) == 2
    assert "expected --data FILE" in capsys.readouterr().err


# What is known, and what to do


@pytest.mark.slow
def test_the_spread_over_refits_is_that_of_other_rows():
    X, y = sample(700)
    planned = fitting.plan(X, y, simulate=0, refits=2)
    known = planned.spread
    assert known.level == "after the fact"
    assert (known.refits, known.counts[0], known.N) == (2, planned.after.M, 700)
    first = of_table(standardise("d", X, y), np.inf, seed=seeds(0, 2)[0])
    again = fitting.plan(X, y, kernel=first.kernel, noise=first.noise, simulate=0)
    assert again.after.M == known.counts[1]
    assert again.spread is None
    assert str(known) in str(planned)
    assert f"fitted to other rows give {known}" in planned.recommendation
    assert planned.to_dict()["spread"]["M"] == list(known.counts)


def test_the_first_line_and_the_last_say_what_is_about_all_rows(file, capsys):
    kernel = SquaredExponential(50.0, [300.0, 0.001])
    planned = fitting.plan(*sample(), nats=1e-6, kernel=kernel, noise=1e-3, most=5, rows=30, simulate=0)
    text = " ".join(str(planned).split())
    assert text.startswith("About all 80 rows: given y, after the fact. About a sample of 30 of the 80 rows only:")
    assert [row[1] for row in planned.levels()[1]] == ["30 of 80", "80", "80"]
    assert planned.recommendation.startswith("Recommendation: no M is proved for all 80 rows")
    assert "the M to use is unknown" in planned.recommendation
    assert "--inducing auto --nats 1e-06" in planned.recommendation
    assert text.endswith(" ".join(planned.recommendation.split()))
    assert html.escape(planned.recommendation) in planned.page()


def test_hypotheses_that_levels_share_are_printed_once():
    planned = fitting.plan(*sample(60), kernel=SquaredExponential(50.0, [2500.0, 0.012]), noise=3.0)
    text, page = " ".join(str(planned).split()), planned.page()
    stated = {sentence for entry in planned.entries for sentence in entry.plan.bound.assumptions}
    assert len(stated) > 4
    for sentence in stated:
        assert text.count(" ".join(sentence.split())) == 1
    assert text.count("total variation") == 1
    numbers = re.findall(r"Assumes: ((?:\[\d+\] ?)+)", text)
    assert len(numbers) == len(planned.entries) + 1
    assert page.count("<li>") >= len(stated)


def test_hyperparameters_that_the_rows_do_not_determine_are_said_loudly():
    X = np.linspace(0.0, 1.0, 40)[:, None]
    planned = fitting.plan(X, np.sin(6.0 * X[:, 0]), select="none", simulate=0, refits=0)
    assert "noise" in planned.problem.edges
    assert "WARNING: these rows do not determine" in str(planned)
    assert "These rows do not determine" in planned.recommendation


def test_an_input_without_influence_is_no_undetermined_kernel():
    class Remark:
        kind, names = "upper limit", ("lengthscale[1]",)

    notes, edges = limited([Remark()], ["a", "b"])
    assert edges == ()
    assert "hardly depends on b" in notes[0]


def test_a_kernel_without_options_has_no_line_to_paste():
    assert options_of(SquaredExponential() + Matern(0.5), 0.1) is None


@pytest.mark.slow
def test_a_saved_model_is_planned_for_from_the_shell(file, capsys, tmp_path):
    X, y = sample()
    model = fitting.SparseGP("vfe", n_inducing=10, random_state=0, normalize_y=True).fit(X, y)
    model.save(tmp_path / "model.npz")
    shell = record(capsys, "plan", "--data", file, "--model", tmp_path / "model.npz", "--simulate", 0)
    python = fitting.plan(X, y, model=model, simulate=0)
    assert shell["kernels"] == python.to_dict()["kernels"]
    assert shell["after the fact"]["M"] == python.after.M


def test_refits_of_a_small_table_are_to_other_rows_and_their_M_is_proved_once(monkeypatch):
    """The plan proves bounds at M and at M − 1, a refit at its M: four passes of O(NM²) in all."""
    proved = []
    level = levels._level
    monkeypatch.setattr(levels, "_level", lambda members, points: proved.append(level(members, points)) or proved[-1])
    planned = fitting.plan(*sample(60), simulate=0, refits=2)
    noises = {planned.problem.settings.noise, *(planned.problem.refit(seed).noise for seed in seeds(0, 2))}
    assert len(noises) == 3
    M, *others = planned.spread.counts
    assert [each.M for each in proved] == [M, M - 1, *others]
    assert float(planned.after.at[1]) <= 1.0 < float(planned.after.before[1])


def test_a_priori_is_about_new_rows(file, capsys):
    planned = fitting.plan(*sample(), kernel=SquaredExponential(50.0, [2500.0, 0.012]), noise=3.0, rows=30)
    assert planned.scope.endswith("About 30 new rows from the law of the inputs: a priori.")
    assert planned.levels()[1][0][1] == "30 new"
