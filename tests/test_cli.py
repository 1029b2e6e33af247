"""The command line: the numbers are the library's, every answer exits 0, and every bad question 2 with one sentence."""

from __future__ import annotations

import dataclasses
import gc
import gzip
import importlib
import json
import math
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from types import SimpleNamespace

import numpy as np
import pytest
from thinning import one_in

import gpbounds
from fitting import ExactGP
from fitting.study import hyperparameters
from fitting.study.problem import box, data_cases, fitted_law
from fitting.study.standardised import load, standardise
from fitting.study.subsets import counts_to_try, smallest_reaching, study
from gpbounds import claims, renyi
from gpbounds.bound import outward
from gpbounds.cli import EPILOG, build_parser, main
from gpbounds.cli.demo import diabetes, show
from gpbounds.cli.options import UsageError, problem, wholes
from gpbounds.cli.output import print_json
from gpbounds.rows.table_rows import name_of

COMMANDS = ("rate", "plan", "curve", "claims", "demo")
RISK_COMMANDS = ("klinv", "pac", "certify")  # tested beside what they compute
SE = gpbounds.SquaredExponential


def ask(capsys, *words):
    """What a command prints on stdout, after it has succeeded."""
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def ask_json(capsys, *words):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(ask(capsys, *words, "--json"), parse_constant=refuse)


def refused(capsys, *words):
    """The one sentence on stderr of a command that must exit 2."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("gpbounds: ")
    assert "Traceback" not in err
    return err


@pytest.fixture
def table(tmp_path):
    """80 rows, two inputs on very different scales, a header."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 2)) * [5.0, 1e-3] + [100.0, 0.0]
    y = np.sin(X[:, 0] / 5.0) + 300.0 * X[:, 1] + 0.3 * rng.standard_normal(80)
    file = tmp_path / "table.csv"
    lines = ["width,height,price", *(",".join(map(repr, map(float, row))) for row in np.column_stack([X, y]))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example_that_runs_and_a_theorem(capsys, command, tmp_path, monkeypatch):
    text = ask(capsys, command, "--help")
    example = re.search(r"example:\n  gpbounds (.*)", text)
    assert example
    assert example[1].split()[0] == command
    assert re.search(r"theorems?: .*\b(R-thm1|N-tilt-prior|claims R)", text)
    assert "--json" in text
    if command != "demo":  # it has a test of its own
        monkeypatch.chdir(tmp_path)
        printed = ask(capsys, *example[1].split())
        promised = re.search(r"prints ((?:D_1|M = )\S*.*)", text)
        if promised:
            assert all(word in printed for word in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", promised[1]))


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        "klinv",
        "pac",
        "mc",
        "train",
        "predict",
        "audit",
        "examine",
        "certify train",
        "certify predictions",
        "certify check",
    ],
)
def test_options_name_no_option_that_their_command_lacks(capsys, command):
    options = ask(capsys, *command.split(), "--help").split("\nexample:")[0].partition("\n\n")[2]
    own = re.findall(r"^  (?:-\w(?: \w+)?, )?(--[a-z][-a-z0-9]*)", options, flags=re.MULTILINE)
    assert "--json" in own
    assert set(re.findall(r"(?<![-\w])--[a-z][-a-z0-9]*", options)) <= set(own)


def test_help_of_the_whole_names_every_command(capsys):
    text = ask(capsys, "--help")
    assert "example:" in text
    assert all(f"  {command} " in text for command in (*COMMANDS, *RISK_COMMANDS))
    assert gpbounds.__version__ in ask(capsys, "--version")


def test_the_console_script_is_installed_and_returns_the_exit_status():
    script = shutil.which("gpbounds", path=sysconfig.get_path("scripts")) or shutil.which("gpbounds")
    assert script
    is_the_command([script])


def is_the_command(words):
    """It refuses an unknown claim with the exit status and the program name of ``main``."""
    ran = subprocess.run([*words, "claims", "R-thm33"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("gpbounds: no claim 'R-thm33'")


def test_the_module_is_the_command(capsys, monkeypatch):
    """``runpy`` does what ``python -m`` does."""
    monkeypatch.delitem(sys.modules, "gpbounds.__main__", raising=False)
    for words, status in ((["claims", "R-thm33"], 2), (["--help"], 0)):
        monkeypatch.setattr(sys, "argv", [gpbounds.__path__[0] + "/__main__.py", *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("gpbounds", run_name="__main__", alter_sys=True)
        assert (ended.value.code or 0) == status
    out, err = capsys.readouterr()
    assert err.startswith("gpbounds: no claim 'R-thm33'")
    assert out.startswith("usage: gpbounds ")


@pytest.mark.parametrize("encoding", one_in(2, ["cp1252", "ascii"]))
def test_a_stdout_without_greek_letters_gets_their_escapes(encoding):
    """As a pipe on Windows.  `gpbounds claims` ended with status 2: 'charmap' codec can't encode character."""
    command, environment = [sys.executable, "-m", "gpbounds"], {**os.environ, "PYTHONIOENCODING": encoding}

    def printed(*words):
        ran = subprocess.run([*command, *words], capture_output=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.decode(encoding)

    assert r"k(x,x) \u2264 v" in printed("claims", "R-thm1")
    (claim,) = json.loads(printed("claims", "R-thm1", "--json"))["claims"]
    assert claim["statement"] == claims.find("R-thm1").statement


def at_the_shell(words, redirection="", options=""):
    """Exit status, stdout and stderr of ``gpbounds`` as a shell starts it, in a locale of ASCII."""
    command = f"{shlex.quote(sys.executable)} {options} -m gpbounds {words} {redirection}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(["sh", "-c", command], capture_output=True, env=environment | ascii_only)
    return ran.returncode, ran.stdout.decode("ascii"), ran.stderr.decode("ascii")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("words", "redirection", "options", "status"),
    one_in(
        2,
        [
            ("klinv 0.02 0.05", ">&-", "", 0),
            ("klinv 0.02 0.05", "", "", 0),
            ("klinv 2 0.05", "2>&-", "-OO", 2),
            ("klinv 0.02 0.05", "", "-OO", 0),
            ("klinv 0.02 0.05", ">/dev/full", "", 2),
        ],
    ),
)
def test_no_accident_of_output_has_the_status_of_a_certificate_that_is_not_confirmed(
    words, redirection, options, status
):
    """Closed streams, a full disk, an ASCII locale, and Python without docstrings."""
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    ended, out, err = at_the_shell(words, redirection, options)
    assert ended == status, err
    assert "Traceback" not in err
    assert not redirection.startswith("2") or (out, err) == ("", "")
    assert "/dev/full" not in redirection or err == "gpbounds: standard output: No space left on device\n"


def test_a_fault_of_the_program_has_status_2_and_its_place(monkeypatch, capsys):
    """1 would say that a certificate is not confirmed.  Collections of garbage are as frequent afterwards as before."""
    before = gc.get_threshold()

    def fails(argv):
        assert gc.get_threshold() == (gpbounds.cli.COLLECTION, *before[1:])
        raise RuntimeError("no such thing")

    monkeypatch.setattr(gpbounds.cli, "build_parser", lambda: SimpleNamespace(parse_args=fails))
    assert main(["klinv", "0.02", "0.05"]) == 2
    assert gc.get_threshold() == before
    err = capsys.readouterr().err
    assert "RuntimeError: no such thing" in err
    assert err.splitlines()[-1].startswith("gpbounds: this is a fault of gpbounds")


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_file_name_that_is_no_text_is_shown_by_its_bytes(tmp_path):
    assert name_of(tmp_path / os.fsdecode(b"b\xff.csv")) == r"b\xff"


# rate


def test_rate_prints_the_bound_of_the_library(capsys):
    bound = gpbounds.rate(SE(2.0, 0.7), 40_000, 25, 0.5, inputs=gpbounds.Gaussian(1.5), noise=0.3, delta=0.1)
    line = "rate -N 40_000 -M 25 --alpha 0.5 --variance 2 --lengthscale 0.7 --std 1.5 --noise 0.3 --delta 0.1"
    words = line.split()
    text = ask(capsys, *words)
    assert f"D_0.5[q*||p] <= {outward(float(bound), 'upper')} with probability at least 0.9" in text
    for sentence in bound.assumptions:
        assert sentence in " ".join(text.split())
    (answer,) = ask_json(capsys, *words)["bounds"]
    assert answer["cells"][0]["value"] == float(bound)
    assert answer["cells"][0]["terms"] == {name: float(term) for name, term in bound.terms.items()}
    assert (answer["claim"], answer["confidence"], answer["certified"]) == (bound.claim, 0.9, bound.certified)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--form printed", {"form": "printed"}),
        ("--direction p||q", {"direction": "p||q"}),
        ("--tv 1e-9", {"tv": 1e-9}),
        ("--y-norm2 100", {"y_norm2": 100.0}),
        ("--y-norm2 prior", {"y_norm2": None}),
        ("--inputs uniform --low=-1 --high 2", {"inputs": gpbounds.Uniform(-1.0, 2.0)}),
        ("--inputs uniform --low=-1,0 --high 2,1", {"inputs": gpbounds.Uniform([-1.0, 0.0], [2.0, 1.0])}),
        ("--std 1,2", {"inputs": gpbounds.Gaussian([1.0, 2.0])}),
        ("--dim 3", {"inputs": gpbounds.Gaussian(1.0, 3)}),
    ],
)
def test_every_option_reaches_the_library(capsys, words, settings):
    (answer,) = ask_json(capsys, "rate", "-N", "1e4", "-M", 40, "--alpha", 0.4, *words.split())["bounds"]
    assert answer["cells"][0]["value"] == float(gpbounds.rate(SE(), 10_000, 40, 0.4, **settings))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("se", SE(1.0, [0.5])),
        ("matern12", gpbounds.Matern(0.5, 1.0, 0.5)),
        ("matern32", gpbounds.Matern(1.5, 1.0, 0.5)),
        ("matern:1.5", gpbounds.Matern(1.5, 1.0, 0.5)),
    ],
)
def test_kernels_have_names(capsys, name, kernel):
    words = ("rate", "-N", 500, "-M", 20, "--kernel", name, "--lengthscale", 0.5, "--inputs", "uniform")
    expected = float(gpbounds.rate(kernel, 500, 20, 1.0, inputs=gpbounds.Uniform()))
    assert ask_json(capsys, *words)["bounds"][0]["cells"][0]["value"] == expected


def test_lists_and_ranges_make_a_table_of_all_combinations(capsys):
    words = ("rate", "-N", "1e3,1e6", "-M", "10:30:10,35", "--alpha", "0.5,1")
    (answer,) = ask_json(capsys, *words)["bounds"]
    cells = {(c["N"], c["M"], c["alpha"]): c["value"] for c in answer["cells"]}
    expected = gpbounds.rate(SE(), np.reshape([1e3, 1e6], (2, 1, 1)), np.reshape([10, 20, 30, 35], (4, 1)), [0.5, 1.0])
    assert list(cells.values()) == np.ravel(expected.value).tolist()
    assert list(cells)[:3] == [(1000, 10, 0.5), (1000, 10, 1.0), (1000, 20, 0.5)]
    text = ask(capsys, *words)
    assert all(outward(value, "upper") in text for value in cells.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1e6", [1_000_000]), ("40_000", [40_000]), ("3:5", [3, 4, 5]), ("1:9:4,2", [1, 5, 9, 2]), ("7:7", [7])],
)
def test_ranges_include_their_ends(text, expected):
    assert wholes(text) == expected


def test_numbers_that_are_not_finite_stay_strict_json(capsys):
    print_json({"a": np.array([np.inf, 1.0]), "b": (np.float64(-np.inf), np.int64(3), None)})
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert answer == {"a": ["inf", 1.0], "b": ["-inf", 3, None]}
    assert float(answer["a"][0]) == np.inf


# plan


def test_plan_is_the_plan_of_the_library(capsys):
    expected = gpbounds.inducing_points(SE(1.0, 0.5), 1_000_000, 1.0, target=0.01)
    words = ("plan", "-N", "1e6", "--lengthscale", 0.5, "--nats", 0.01)
    answer = ask_json(capsys, *words)
    (plan,) = answer["plans"]
    assert {**plan, **expected.to_dict()} == plan
    assert answer["statement"]["delta"] == 0.05
    text = " ".join(ask(capsys, *words).split())
    assert f"M = {expected.M} inducing points suffice" in text
    assert f"With one inducing point fewer, the bound is {float(expected.bound_before):.6g}." in text
    assert all(sentence in text for sentence in expected.meaning)


def test_the_plan_for_means_is_that_of_the_library(capsys):
    options = {"criterion": "operator", "target": 0.1, "noise": 0.2, "inputs": gpbounds.Uniform()}
    expected = gpbounds.inducing_points(gpbounds.Matern(1.5), 10_000, **options)
    setting = ("--kernel", "matern32", "--inputs", "uniform", "--noise", 0.2)
    words = ("plan", "-N", "1e4", *setting, "--relative", 0.1)
    (plan,) = ask_json(capsys, *words)["plans"]
    assert plan == expected.to_dict()
    assert plan["M"] > 20
    text = " ".join(ask(capsys, *words).split())
    assert "M = " in text
    assert "at most 0.1 times the exact GP's training residual, for every y" in text
    worst = ask_json(capsys, "plan", "-N", "1e4", "--lengthscale-range", "0.5:2", "--relative", 0.05)["plans"][0]["M"]
    assert worst == gpbounds.inducing_points(SE(1.0, 0.5), 10_000, criterion="operator", target=0.05).M


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--relative", 0.1, "--alpha", 0.5, "--nats", 2), "--alpha, --nats: expected -N, a kernel"),
        (("--relative", 0.1, "--nats", 1), "--nats: expected -N, a kernel"),
        (("--relative", 0), "--relative: expected a number > 0, got 0"),
        (("--loss", 0.1), "--loss: expected --data FILE"),
    ],
)
def test_a_plan_for_means_refuses_what_is_about_divergences(capsys, words, message):
    assert message in refused(capsys, "plan", "-N", "1e4", *words)


def test_plans_by_balls_are_those_of_the_library(capsys):
    words = ("plan", "-N", "1e5", "--nats", 0.01, "--width", 3, "--method", "inducing", "fourier", "mercer")
    answer = ask_json(capsys, *words, "--rigor", "sharp")
    options = {"target": 0.01, "noise": 0.1, "rigor": "sharp"}
    expected = (
        gpbounds.inducing_points(SE(), 10**5, 1.0, **options),
        gpbounds.lowrank.fourier_rank(SE(), 10**5, width=3.0, **options),
        gpbounds.lowrank.mercer_rank(SE(), 10**5, inputs=gpbounds.Gaussian(), **options),
    )
    assert [plan["M"] for plan in answer["plans"]] == [plan.M for plan in expected]
    for plan, own in zip(answer["plans"], expected, strict=True):
        assert own.bound is None or plan["bound"]["value"] == float(own.bound)


def test_a_target_that_no_M_meets_is_an_answer(capsys):
    words = ("plan", "-N", 50, "--lengthscale", 0.01, "--nats", 1e-3)
    assert "No number of inducing points below N = 50 brings the bound down to 0.001." in ask(capsys, *words)
    assert ask_json(capsys, *words)["plans"][0]["M"] is None


@pytest.mark.parametrize("name", ["se", "matern12"])
def test_the_least_lengthscale_is_the_worst_where_that_is_proved(capsys, name):
    common = ("plan", "-N", 500, "--kernel", name, "--inputs", "uniform", "--noise", 10, "--nats", 20)
    (boxed,) = ask_json(capsys, *common, "--lengthscale-range", "0.5:4")["plans"]
    inside = [ask_json(capsys, *common, "--lengthscale", scale)["plans"][0]["M"] for scale in (0.5, 0.9, 2.0, 4.0)]
    assert boxed["M"] == inside[0] == max(inside)
    assert inside == sorted(inside, reverse=True)
    assert any("the least lengthscale (proved" in note for note in boxed["notes"])


def test_shorter_lengthscales_majorise_so_that_traces_under_a_k_dpp_grow():
    """What the note claims, on data: (M+1) e_{M+1}/e_M and every tail fall as any one lengthscale rises."""
    from gpbounds.kdpp import expected_trace

    X = np.random.default_rng(0).standard_normal((25, 3))
    sizes = np.arange(1, 12)

    def traces(scales):
        return expected_trace(np.linalg.eigvalsh(SE(1.0, scales)(X)).clip(0), sizes)

    worst_case = traces([0.5, 0.5, 0.5])
    for other in ([0.5, 0.5, 0.9], [0.6, 3.0, 0.5], [2.0, 2.0, 2.0], [0.5, 100.0, 1.0]):
        assert (traces(other) <= worst_case * (1 + 1e-10)).all()


def test_a_grid_of_lengthscales_is_called_a_grid(capsys):
    common = ("--kernel", "matern32", "--inputs", "uniform", "--noise", 1)
    (boxed,) = ask_json(capsys, "plan", "-N", 500, "--nats", 5, *common, "--lengthscale-range", "0.5:2")["plans"]
    assert any("evaluated on a grid, not proved" in note for note in boxed["notes"])
    kernels, _ = box(1.5, 1.0, 0.5, 2.0)
    assert len(kernels) == 9
    settings = {"inputs": gpbounds.Uniform(), "noise": 1.0}
    plans = [gpbounds.inducing_points(k, 500, 1.0, target=5.0, **settings) for k in kernels]
    assert boxed["M"] == max(plan.M for plan in plans)
    (cells,) = ask_json(capsys, "rate", "-N", 500, "-M", "5,40", *common, "--lengthscale-range", "0.5:2")["bounds"]
    rates = np.max([gpbounds.rate(k, 500, [5, 40], 1.0, **settings).value for k in kernels], axis=0)
    assert [cell["value"] for cell in cells["cells"]] == rates.tolist()


# Data


def test_plan_for_data_is_in_the_units_of_the_table(capsys, table):
    data = load(table).centred
    fixed = ("--lengthscale", "2,3", "--variance", 1.5, "--noise", 0.2)
    answer = ask_json(capsys, "plan", "--data", table, *fixed, "--nats", 0.5, "--best", 0)
    apriori, aware = answer["plans"]
    kernel = SE(1.5, [2.0, 3.0])
    settings = {"target": 0.5, "noise": 0.2, "y_norm2": float((data.y**2).sum())}
    law = gpbounds.Gaussian(cov=np.cov(data.X.T, bias=True))
    expected = gpbounds.inducing_points(kernel, 80, 1.0, inputs=law, **settings)
    assert apriori["M"] == expected.M
    expected = gpbounds.inducing_points(kernel, 80, 1.0, inputs=gpbounds.Empirical(data.X), **settings)
    assert (aware["M"], aware["needed"]) == (expected.M, expected.needed)
    assert aware["bound"]["value"] == float(expected.bound)
    assert aware["y_norm2"] == pytest.approx(data.y @ data.y, rel=1e-12)
    assert not any("hyperparameters" in note for note in aware["notes"])
    assert any("fixed input law; here the law was fitted" in note for note in apriori["notes"])
    assert any("about these 80 rows" in note for note in aware["notes"])
    text = ask(capsys, "plan", "--data", table, *fixed)
    assert "table, N = 80, D = 2" in text
    assert "Numbers here are in the table's units" in " ".join(text.split())


def test_the_law_of_the_inputs_has_the_covariance_of_all_rows(tmp_path):
    """Columns that say nearly the same need fewer points than independent ones; the note says what was fitted."""
    rng = np.random.default_rng(3)
    first = rng.standard_normal((120, 1))
    X = np.hstack([first, first + 0.05 * rng.standard_normal((120, 1)), rng.standard_normal((120, 1))])
    file = tmp_path / "alike.csv"
    np.savetxt(file, np.column_stack([X, X.sum(axis=1)]), delimiter=",")
    data = load(file).centred
    inputs = fitted_law(data)
    np.testing.assert_allclose(inputs.cov, np.cov(X.T, bias=True), rtol=1e-12, atol=1e-12)
    apriori, _ = data_cases(data, data.subset(60, 0))
    assert apriori.inputs == inputs
    assert any("covariance of the columns" in note for note in apriori.notes)
    assert "with covariances, std=[" in apriori.title
    settings = {"target": 0.5, "noise": 0.2}
    apart, together = (
        gpbounds.inducing_points(SE(1.0, 3.0), 120, 1.0, inputs=law, **settings).M
        for law in (gpbounds.Gaussian(inputs.stds), inputs)
    )
    assert together < 0.7 * apart


@pytest.mark.slow
def test_a_fit_is_confessed_in_every_plan(capsys, table):
    answer = ask_json(capsys, "plan", "--data", table, "--rows", 50, "--seed", 4)
    *of_the_prior, given_y = answer["plans"]
    for plan in of_the_prior:
        assert any("theorem holds for fixed hyperparameters; here they were fitted" in note for note in plan["notes"])
    assert not any(
        "theorem holds" in note for note in given_y["notes"]
    )  # kernel and noise may be fitted: only draws are random
    assert any("may have been fitted" in note for note in given_y["notes"])
    assert any("50 rows drawn from the 80" in note for note in answer["plans"][1]["notes"])
    assert [plan["N"] for plan in answer["plans"]] == [50, 50, 80]
    again = ask_json(capsys, "plan", "--data", table, "--rows", 50, "--seed", 4)
    assert again == answer
    one_draw = ask_json(capsys, "plan", "--data", table, "--rows", 50, "--seed", 4, "--best", 0)
    assert [plan["N"] for plan in one_draw["plans"]] == [80, 50]


@pytest.mark.slow
def test_the_plan_for_data_is_for_the_best_of_several_draws(capsys, table):
    """Each level is what the library says; with more known fewer points suffice; old forms come on request."""
    data = load(table).centred
    fixed = ("--lengthscale", "2,3", "--variance", 1.5, "--noise", 0.2, "--nats", 0.5, "--simulate", 39)
    answer = ask_json(capsys, "plan", "--data", table, *fixed, "--best", 4, "--old-forms")
    simulated, aware, given_y, _, one_draw = answer["plans"]
    names = [plan["case"] for plan in answer["plans"]]
    assert names == ["a priori, simulated", "data-aware", "given y", "a priori", "data-aware"]
    kernel, settings = SE(1.5, [2.0, 3.0]), {"target": 0.5, "noise": 0.2, "draws": 4, "law": "tilted"}
    rows = gpbounds.Empirical(data.X)
    for plan, options in (
        (simulated, {"inputs": fitted_law(data), "simulate": 39, "rng": 0}),
        (aware, {"inputs": rows}),
        (given_y, {"inputs": rows, "y": data.y}),
    ):
        expected = gpbounds.inducing_points(kernel, 80, 1.0, **settings, **options)
        assert plan["M"] == expected.M
        assert plan["bound"]["value"] == float(expected.bound) <= 0.5
    assert max(aware["M"], given_y["M"]) < one_draw["M"]
    lower = answer["lower bounds"]
    assert lower["N-low"] == aware["needed"] <= lower["N-lowprior"] <= aware["M"]
    text = " ".join(ask(capsys, "plan", "--data", table, *fixed).split())
    assert "best of 10 from the prior 95 %" in text
    assert "best of 10 as it is 95 %" in text
    assert "draws are independent of each other and of y, the greatest ELBO is kept, and kernel and noise are" in text
    assert f"fewer than {lower['N-lowprior']}, chosen without y" in text


def test_a_box_of_lengthscales_takes_the_place_of_the_fitted_ones(capsys, table):
    answer = ask_json(capsys, "plan", "--data", table, "--lengthscale-range", "1:3", "--nats", 1)
    assert [kernel["lengthscale"] for kernel in answer["kernels"]] == [1.0]
    for plan in answer["plans"]:
        assert any("were fitted to the data (variance, noise)" in note for note in plan["notes"])
        assert any("Worst case over every choice of lengthscales" in note for note in plan["notes"])


def test_hyperparameters_that_are_given_are_kept_and_the_rest_maximises_the_evidence(table):
    data = load(table)
    fitted = hyperparameters.fit(data, noise=0.25)
    assert fitted.noise == 0.25
    assert fitted.fitted == ("variance", "lengthscale")

    def evidence(kernel, noise):
        return renyi.log_evidence(kernel, data.X, data.y, noise=noise)

    best = evidence(fitted.kernel, 0.25)
    for variance, scale in ((1.2, 1.0), (0.8, 1.0), (1.0, 1.2), (1.0, 0.8)):
        other = SE(fitted.kernel.variance * variance, np.asarray(fitted.kernel.lengthscale) * scale)
        assert evidence(other, 0.25) < best
    free = hyperparameters.fit(data)
    assert evidence(free.kernel, free.noise) > best
    assert hyperparameters.fit(data, variance=1.0, lengthscale=2.0, noise=0.1).fitted == ()


def test_the_fit_of_a_plan_is_that_of_the_exact_gp(table):
    data = load(table)
    fitted = hyperparameters.fit(data)
    start = SE(1.0, math.sqrt(data.D) * np.ones(data.D))
    limits = dict.fromkeys(start.parameter_names, (1e-3, 1e5)) | {"noise": (1e-6, 1e2)}
    model = ExactGP(start, 0.5, limits=limits, tol=None).fit(data.X, data.y)
    assert (fitted.kernel.log_parameters == model.kernel_.log_parameters).all()
    assert fitted.noise == model.noise_


def test_data_fit_for_a_matern_kernel_beyond_known_spectra_keeps_the_data_aware_plan(capsys, tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "wide.csv"
    np.savetxt(file, rng.standard_normal((30, 6)), delimiter=",")
    words = ("plan", "--data", file, "--kernel", "matern52", "--noise", 0.5, "--lengthscale", 3, "--variance", 1)
    answer = ask_json(capsys, *words)
    assert [plan["case"] for plan in answer["plans"]] == ["a priori, simulated", "data-aware", "given y"]
    answer = ask_json(capsys, *words, "--best", 0)
    assert [plan["case"] for plan in answer["plans"]] == ["data-aware"]
    assert any(note.startswith("No a priori bound: ") for note in answer["plans"][0]["notes"])


def test_rate_for_data_gives_both_bounds(capsys, table):
    fixed = ("--lengthscale", "2", "--variance", 1, "--noise", 0.2, "--y-norm2", "prior")
    answer = ask_json(capsys, "rate", "--data", table, "-M", "5,20", *fixed)
    data = load(table).centred
    laws = fitted_law(data), gpbounds.Empirical(data.X)
    for bound, inputs in zip(answer["bounds"], laws, strict=True):
        expected = gpbounds.rate(SE(1.0, 2.0), 80, [5, 20], 1.0, inputs=inputs, noise=0.2)
        assert [cell["value"] for cell in bound["cells"]] == pytest.approx(expected.value.tolist(), rel=1e-13)


def test_gzip_header_and_separators_do_not_change_the_data(tmp_path, table):
    plain = load(table)
    body = table.read_text(encoding="utf-8").split("\n", 1)[1]
    for name, text in (("a.csv", body), ("b.csv", body.replace(",", ";")), ("c.csv", "\ufeff\n" + body + "\n\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert (load(tmp_path / name).X == plain.X).all()
    with gzip.open(tmp_path / "d.csv.gz", "wt") as file:
        file.write(body)
    packed = load(tmp_path / "d.csv.gz")
    assert packed.name == "d"
    assert (packed.y == plain.y).all()
    assert (len(plain.columns), packed.columns) == (2, ())


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_standardising_holds_at_any_scale_and_drops_what_is_constant(scale):
    X = np.column_stack([np.arange(5.0) * scale, np.full(5, 0.1 * scale)])
    data = standardise("x", X, np.arange(5.0)[::-1] * scale)
    assert data.D == 1
    assert data.X.mean() == pytest.approx(0.0, abs=1e-15)
    assert (data.X**2).mean() == pytest.approx(1.0)
    assert data.X[:, 0] == pytest.approx(-data.y)
    assert "Dropped constant input column(s) 2." in data.notes


# Bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3,four\n5,6\n", "got other text in 1 of 3 cells, the first 'four' in line 3"),
        ("1,2\n3,\n", "got 1 missing cell in 1 row and 1 column, the first in line 2, column 2: --drop-missing"),
        ("1\n2\n3\n", "at least two columns"),
        ("", "expected rows of numbers, got none"),
        ("a,b\n", "a header line only"),
        ("1,2\n", "at least 2 rows"),
        ("1,2\nnan,3\n4,inf\n5,6\n", "got 1 missing cell in 1 row and 1 column, the first in line 2, column 1"),
        ("1,2\n8,3\n4,inf\n5,-inf\n", "got 2 infinite cells in 2 rows and 1 column, the first in line 3, column 2"),
        ("1,2\n3,4,5\n", "2 columns in every row, got 3 in line 2"),
        ("1,2\n3,2\n5,2\n", "target that varies"),
        ("1,2\n1,3\n1,5\n", "input column that varies"),
    ],
)
def test_a_bad_table_is_refused_with_the_place(capsys, tmp_path, content, message):
    file = tmp_path / "bad.csv"
    file.write_text(content, encoding="utf-8")
    err = refused(capsys, "plan", "--data", file)
    assert re.search(message, err)
    assert str(file) in err or "bad" in err


def test_files_that_are_not_tables_are_refused(capsys, tmp_path):
    assert "No such file" in refused(capsys, "plan", "--data", tmp_path / "none.csv")
    assert "directory" in refused(capsys, "plan", "--data", tmp_path).lower()
    (tmp_path / "x.csv.gz").write_text("1,2\n", encoding="utf-8")
    assert "gzip" in refused(capsys, "plan", "--data", tmp_path / "x.csv.gz")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 1000)[:-12])
    assert "gzip" in refused(capsys, "plan", "--data", tmp_path / "cut.csv.gz")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00\x01")
    assert "text file" in refused(capsys, "plan", "--data", tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rate -N 1.5 -M 1", "whole number"),
        ("rate -N nan -M 1", "whole number"),
        ("rate -N 100 -M 0.5", "whole number"),
        ("rate -N 100 -M 100", "expected 1 <= M <= N - 1, got M = 100, N = 100"),
        ("rate -N 100 -M 0", "M: expected a whole number >= 1"),
        ("rate -N 1 -M 1", "N: expected a whole number >= 2"),
        ("rate -N 100 -M 5:1", "A <= B"),
        ("rate -N 100 -M 1:9:0", "STEP >= 1"),
        ("rate -N 100 -M 1:2:3:4", "A:B:STEP"),
        ("rate -N 100 -M 1:", "A:B"),
        ("rate -N 1e9 -M 1:100000000", "at most 1000000 numbers"),
        ("rate -N 100", "required: -M"),
        ("rate -M 10", "-N, the number of data, or --data FILE"),
        ("rate -N 100 -M 10 --alpha 0", "alpha: expected a number in (0, 1]"),
        ("rate -N 100 -M 10 --alpha 1.5", "alpha: expected a number in (0, 1]"),
        ("rate -N 100 -M 10 --alpha half", "expected a number, got 'half'"),
        ("rate -N 100 -M 10 --direction p||q", "alpha < 1"),
        ("rate -N 100 -M 10 --delta 1", "delta"),
        ("rate -N 100 -M 10 --noise 0", "noise"),
        ("rate -N 100 -M 10 --variance -1", "variance"),
        ("rate -N 100 -M 10 --lengthscale 1,0", "lengthscale"),
        ("rate -N 100 -M 10 --std 0", "std"),
        ("rate -N 100 -M 10 --tv 2", "tv"),
        ("rate -N 100 -M 10 --y-norm2 -1", "y_norm2"),
        ("rate -N 100 -M 10 --y-norm2 big", "'prior'"),
        ("rate -N 100 -M 10 --kernel sexp", "matern:NU"),
        ("rate -N 100 -M 10 --kernel matern:-1", "matern:NU"),
        ("rate -N 100 -M 10 --form best", "invalid choice: 'best'"),
        ("rate -N 100 -M 10 --lengthscale 1,2 --dim 3", "expected inputs with 2 dimension(s)"),
        ("rate -N 100 -M 10 --low 1", "--inputs uniform"),
        ("rate -N 100 -M 10 --inputs uniform --std 1", "--inputs gaussian"),
        ("rate -N 100 -M 10 --inputs uniform --low 2", "low < high"),
        ("rate -N 100 -M 10 --inputs uniform --low 0,0 --dim 3", "one for each of 3"),
        ("rate -N 100 -M 10 --kernel matern32 --dim 4", "no spectrum is known for Matern kernels in 4 dimensions"),
        ("plan -N 100 --lengthscale-range 2:1", "A <= B"),
        ("plan -N 100 --lengthscale-range 2", "A:B"),
        ("plan -N 100 --lengthscale-range 1:2 --lengthscale 1", "use one of the two options"),
        ("plan -N 100 --nats 0", "nats"),
        ("plan -N 100 --nats nan", "nats"),
        ("plan -N 100,200", "whole number"),
        ("plan -N 100 --targe 1", "unrecognized arguments"),
        ("curve -N 100 --out picture.txt", ".png"),
        ("curve -N 100 --out nowhere/x.png", "folder that exists"),
        ("curve -N 100,200 --alpha 0.5,1", "not both"),
        ("claims R-thm9", "no claim 'R-thm9'"),
        ("claims --section Z", "expected one of A, B"),
        ("claims --verdict wrong", "invalid choice"),
        ("claims --status wrong", "invalid choice"),
        ("claims R-thm1 --section G", "not both"),
        ("demo --draws 0", "draws"),
        ("demo --alpha 2 --draws 1", "alpha"),
        ("demo --nats -1", "nats"),
        ("guess", "invalid choice: 'guess'"),
        ("", "COMMAND"),
    ],
)
def test_bad_usage_is_answered_with_one_sentence(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *words.split())
    assert list(tmp_path.iterdir()) == []


def test_data_and_the_options_it_replaces_do_not_mix(capsys, table):
    assert "-N and --data FILE exclude each other" in refused(capsys, "plan", "-N", 10, "--data", table)
    assert "expected a law of 2 inputs" in refused(capsys, "plan", "--data", table, "--dim", 3)
    assert "--rows: expected a whole number >= 2" in refused(capsys, "plan", "--data", table, "--rows", 1)
    assert "2 dimension(s)" not in refused(capsys, "plan", "--data", table, "--lengthscale", "1,2,3", "--noise", 1)


# claims


def test_claims_lists_the_ledger_and_counts_it(capsys):
    text = ask(capsys, "claims").splitlines()
    ledger = claims.ledger()
    built = sum(claim.built for claim in ledger)
    assert text[-2].startswith(f"{len(ledger)} claims (")
    assert text[-1].endswith(f", {built} built, {len(ledger) - built} not yet")
    for status in claims.STATUSES:
        assert f"{sum(claim.status == status for claim in ledger)} {status}, " in text[-1]
    assert [line.split()[0] for line in text[:-2]] == [claim.id for claim in ledger]
    assert max(map(len, text)) <= 120
    for line, claim in zip(text, ledger, strict=False):
        assert f" {claim.verdict} " in line
        assert (" built " in line[: 14 + 18 + 12 + 10]) == claim.built
        assert {"paper": "proved in the paper", "numerically": "checked numerically only"}.get(
            line[32:44].strip(), "proved here"
        ) == claim.status


def test_claims_filters_prints_one_and_round_trips(capsys):
    assert ask(capsys, "claims", "R-thm1").strip() == str(claims.find("R-thm1"))
    answer = ask_json(capsys, "claims", "--section", "G", "--verdict", "holds")
    chosen = [claim for claim in claims.ledger() if (claim.section, claim.verdict) == ("G", "holds")]
    assert answer["count"] == len(chosen) == len(answer["claims"])
    fields = {field.name for field in dataclasses.fields(claims.Claim)}
    assert [claims.Claim(**{k: v for k, v in c.items() if k in fields}) for c in answer["claims"]] == chosen
    assert [c["status"] for c in answer["claims"]] == [claim.status for claim in chosen]


@pytest.mark.parametrize("status", claims.STATUSES)
def test_claims_filters_by_what_a_statement_rests_on(capsys, status):
    answer = ask_json(capsys, "claims", "--status", status)
    assert [c["id"] for c in answer["claims"]] == [claim.id for claim in claims.ledger() if claim.status == status]
    assert answer["count"] > 0
    assert "not both" in refused(capsys, "claims", "R-thm1", "--status", status)


# curve


def test_curve_draws_what_rate_says(capsys, tmp_path, table):
    out = tmp_path / "c.png"
    answer = ask_json(capsys, "curve", "-N", 500, "-M", "2:40:2", "--alpha", "0.5,1", "--out", out)
    assert out.read_bytes().startswith(b"\x89PNG")
    for series in answer["series"]:
        expected = gpbounds.rate(SE(), 500, np.arange(2, 41, 2), series["alpha"])
        assert series["value"] == pytest.approx(expected.value.tolist(), rel=1e-14)
    fixed = ("--lengthscale", 2, "--variance", 1, "--noise", 0.3)
    answer = ask_json(capsys, "curve", "--data", table, "-M", "5,20,40", "--out", out, *fixed)
    assert [series["case"] for series in answer["series"]] == ["a priori, simulated", "data-aware", "given y"]
    X, y = load(table).centred.X, load(table).centred.y
    for series, options in zip(answer["series"][1:], ({}, {"y": y}), strict=True):
        settings = {"inputs": gpbounds.Empirical(X), "noise": 0.3, "draws": 10, "law": "tilted", **options}
        assert series["value"] == gpbounds.rate(SE(1.0, 2.0), 80, series["M"], 1.0, **settings).value.tolist()
    answer = ask_json(capsys, "curve", "--data", table, "--out", out, *fixed, "--best", 0)
    assert [series["case"] for series in answer["series"]] == ["a priori", "data-aware"]
    text = ask(capsys, "curve", "-N", "1e3,1e6", "--out", tmp_path / "c.svg")
    assert "N = 1000000, alpha = 1:" in text
    assert "<svg" in (tmp_path / "c.svg").read_text(encoding="utf-8")


def test_a_curve_over_a_box_is_the_worst_over_it_and_long_names_serve(capsys, tmp_path):
    common = ("--N", 300, "--M", "1:40", "--out", tmp_path / "c.png")
    (boxed,) = ask_json(capsys, "curve", *common, "--lengthscale-range", "0.4:3")["series"]
    assert boxed["value"] == gpbounds.rate(SE(1.0, 0.4), 300, np.arange(1, 41), 1.0).value.tolist()


def test_a_curve_ends_where_there_is_nothing_left_to_see(capsys, tmp_path):
    (series,) = ask_json(capsys, "curve", "-N", "1e6", "--out", tmp_path / "c.png")["series"]
    assert series["M"][-1] == gpbounds.inducing_points(SE(), 1_000_000, 1.0, target=1e-4).M


# demo and study


@pytest.mark.broad
@pytest.mark.parametrize(
    "options", [("--draws", 1, "--simulate", 0), pytest.param((), marks=pytest.mark.slow)], ids=str
)
def test_the_demo_as_a_reader_runs_it(options, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = ask(capsys, "demo", *options)
    assert (tmp_path / "bound_vs_empirical.png").read_bytes().startswith(b"\x89PNG")
    for words in (
        "diabetes, N = 295, D = 10",
        "by marginal likelihood (fitting.ExactGP) on 147 of 147 held-out rows",
        "one lengthscale per input",
        "N-low",
        "N-lowprior",
        "with probability 95 %",
        "kernel and noise are fixed before the draws",
    ):
        assert words in " ".join(text.split())
    assert "here they were fitted" not in text  # rows held out make every bound a theorem
    assert "here the law was fitted" not in text


@pytest.fixture(scope="module")
def small():
    """A study of 70 of the diabetes patients, with hyperparameters given."""
    data = diabetes().subset(70, 1)
    data = standardise("diabetes (70)", data.X, data.y)
    hyper = hyperparameters.as_given(np.inf, 1.0, 4.0, 0.4)
    counts = np.array([3.0, 10.0, 30.0, 50.0])
    return study(data, hyper, alpha=1.0, target=1.0, rows=60, draws=4, counts=counts, old_forms=True, simulate=0)


def test_the_study_shows_the_truth_between_its_bounds(small):
    lines = {
        (line.case.kind, line.case.about == "y from the prior", line.form): line.value
        for line in small.lines
        if line.case.draws is None
    }
    several = {line.case.kind: line.value for line in small.lines if line.case.draws is not None}
    at = np.searchsorted(small.grid, small.reached.M)
    lower = small.lower[at]
    for draws in (small.reached.random, small.reached.kdpp, small.reached.greedy, small.reached.best):
        assert (draws >= lower * (1 - 1e-9)).all()  # N-low: for every choice and every y
    # R-thm2 holds with probability 95 % for this y; Markov's inequality is so loose that no draw reaches the bound.
    assert (small.reached.kdpp <= lines["data-aware", False, "sharpest"][at]).all()
    # given y, each M by itself with probability 95 %; the best of ten is about half of the bound
    assert (small.reached.best <= several["given y"][at]).all()
    many = small.grid >= 20
    assert (several["given y"] < 0.1 * lines["data-aware", False, "sharpest"])[many].all()
    assert (several["data-aware"] < 0.2 * lines["data-aware", True, "sharpest"])[many].all()
    assert (small.lower <= small.lower_prior).all()
    assert (lines["data-aware", True, "sharpest"] <= lines["data-aware", True, "printed"]).all()
    assert (np.diff(small.reached.greedy[0]) < 0).all()
    M, value = small.reached.M, small.reached.greedy[0]
    kernel, part = small.problem.kernels[0], small.part
    from gpbounds.kdpp import greedy

    Z = part.X[greedy(kernel(part.X), 30)]
    noise = small.problem.settings.noise
    assert value[M == 30] == pytest.approx(renyi.exact_gap(kernel, part.X, part.y, Z, 1.0, noise=noise), rel=1e-9)


def test_the_report_and_its_record_agree_with_the_library(small):
    plans = {(case.kind, case.about): (case, plan) for case, plan in small.plans if case.draws is None}
    case, plan = plans["data-aware", "y from the prior"]
    kernel, noise = small.problem.kernels[0], small.problem.settings.noise
    expected = gpbounds.inducing_points(kernel, 60, 1.0, target=1.0, inputs=case.inputs, noise=noise)
    assert plan.M == expected.M
    text = " ".join(str(small).split())
    assert f"M = {expected.M} " in text
    assert f"fewer than {expected.needed} inducing variables do not reach the level for any y" in text
    assert "a-priori plan is for all rows" in text
    answer = small.to_dict()
    assert expected.M in [p["M"] for p in answer["plans"] if (p["case"], p["y_norm2"]) == ("data-aware", None)]
    assert answer["rows"] == 60
    assert len(answer["bounds"]) == 3 + 2 + 5  # M, N-low and N-lowprior; two of the best of ten; five of one draw


def test_ctrl_c_leaves_the_bounds_and_the_subsets_that_were_evaluated(capsys, tmp_path, monkeypatch):
    data = diabetes().subset(50, 0)
    monkeypatch.setattr(hyperparameters, "fit", lambda *args, **kw: hyperparameters.as_given(np.inf, 1.0, 3.0, 0.5))

    def three(jobs):
        yield from jobs[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr("gpbounds.cli.demo.bar", three)
    out = tmp_path / "d.png"
    with pytest.raises(SystemExit) as stop:
        show(data, 1.0, 1.0, 2, 0, out, counts=np.array([2.0, 20.0]), as_json=True, simulate=0)
    assert stop.value.code == 130
    answer = json.loads(capsys.readouterr().out)
    greedy = [float(value) for value in answer["subsets"]["greedy"]]
    assert greedy[0] > greedy[1] > 0.0
    assert np.isfinite(float(answer["subsets"]["random"][0][0]))
    assert np.isnan(float(answer["subsets"]["random"][1][1]))
    assert all(plan["M"] for plan in answer["plans"])
    assert any("Interrupted" in note for note in answer["notes"])
    assert out.exists()


@pytest.mark.slow
def test_the_demo_writes_strict_json(capsys, tmp_path, monkeypatch):
    data = diabetes().subset(20, 0)
    monkeypatch.setattr(hyperparameters, "fit", lambda *args, **kw: hyperparameters.as_given(np.inf, 1.0, 3.0, 0.5))
    out = tmp_path / "d.png"
    show(data, 0.5, 1.0, 2, 0, out, counts=np.array([2.0, 10.0]), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["subsets"]["M"] == [2, 10]
    assert sum(line.startswith("a priori, simulated") for line in answer["bounds"]) == 1
    assert np.shape(answer["subsets"]["k-DPP"]) == (2, 2)
    assert answer["out"] == str(out)
    assert out.exists()


def test_subsets_that_do_not_exist_are_left_out():
    """Rank 6: of larger sizes there is no k-DPP, no greedy subset, and no random one that factorises."""
    X = np.repeat(np.random.default_rng(0).standard_normal((6, 2)), 5, axis=0)
    data = standardise("twins", X, np.random.default_rng(1).standard_normal(30))
    hyper = hyperparameters.as_given(np.inf, 1.0, 1.0, 0.5)
    counts = np.array([3.0, 6.0, 12.0])
    result = study(data, hyper, alpha=1.0, target=0.1, rows=30, draws=2, counts=counts, simulate=0)
    assert np.isfinite(result.reached.greedy[0, :2]).all()
    assert np.isfinite(result.reached.kdpp[:, :2]).all()
    assert np.isnan(result.reached.greedy[0, 2])
    assert np.isnan(result.reached.kdpp[:, 2]).all()
    text = str(result)
    assert "nan" not in text
    assert "singular in double precision" in text


@pytest.fixture
def rare(tmp_path):
    """A table whose second input differs in one row only: it is constant on the 20 rows that seed 1 draws."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal(60), np.arange(60) == 3, rng.standard_normal(60)])
    file = tmp_path / "rare.csv"
    np.savetxt(file, table, delimiter=",")
    data = load(file)
    assert data.subset(20, 1).X[:, 1].std() == pytest.approx(0.0, abs=1e-12)
    assert data.X.std(axis=0) == pytest.approx([1.0, 1.0])
    return file, data


@pytest.mark.slow
def test_the_a_priori_law_of_a_study_takes_its_standard_deviations_from_all_rows(rare):
    """Every line and every plan, also where an input is constant on the rows of the dense algebra."""
    fixed = hyperparameters.as_given(np.inf, 1.0, 1.0, 0.5)
    done = study(
        rare[1], fixed, alpha=1.0, target=1.0, rows=20, draws=1, counts=np.array([3.0, 8.0]), seed=1, old_forms=True
    )
    laws = [line.case.inputs for line in done.lines] + [case.inputs for case, _ in done.plans]
    gaussian = [law for law in laws if isinstance(law, gpbounds.Gaussian)]
    assert len(gaussian) == 6  # lines and plans: simulated, one draw with any y and with y from the prior
    assert all(law.stds == pytest.approx(rare[1].scales) for law in gaussian)
    assert {line.case.sizes for line in done.lines} == {(20,)}
    assert all(np.isfinite(line.value).all() for line in done.lines)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("command", "old"),
    one_in(3, [("plan", ("--old-forms",)), ("plan", ()), ("curve", ("--old-forms",)), ("curve", ())]),
)
def test_a_command_takes_the_standard_deviations_of_the_law_from_all_rows(rare, command, old, tmp_path):
    words = [command, "--data", str(rare[0]), "--rows", "20", "--seed", "1", *old]
    words += ["--variance", "1", "--lengthscale", "1", "--noise", "0.5", "--select", "none", "--json"]
    words += ["--out", str(tmp_path / "curve.png")] if command == "curve" else []
    args = build_parser().parse_args(words)
    args.sizes = None
    laws = [case.inputs for case in problem(args).cases if isinstance(case.inputs, gpbounds.Gaussian)]
    assert len(laws) == 1 + len(old)
    assert all(law.stds == pytest.approx(rare[1].scales) for law in laws)
    assert main(words) == 0


def test_sizes_to_try_are_inside_and_the_smallest_that_reaches_stays():
    for N in (2, 3, 7, 100, 2000):
        counts = counts_to_try(N)
        assert counts.min() >= 1
        assert counts.max() < N
    M = np.array([1.0, 2.0, 3.0, 4.0])
    assert smallest_reaching(M, np.array([0.05, 0.5, 0.05, 0.01]), 0.1) == 3
    assert smallest_reaching(M, np.array([0.5, 0.01, 0.01, np.nan]), 0.1) == 2
    assert smallest_reaching(M, np.array([0.01, 0.01, 0.01, 0.5]), 0.1) is None
    assert smallest_reaching(M, np.full(4, np.nan), 0.1) is None
    assert smallest_reaching(M, np.full(4, 0.01), 0.1) == 1


def test_a_usage_error_is_a_value_error():
    assert issubclass(UsageError, ValueError)


def examples_in_help():
    """The commands that the help of each command shows, in words of a shell."""
    modules = [importlib.import_module(f"gpbounds.cli.{name}") for name in gpbounds.cli.COMMANDS]
    texts = [
        EPILOG,
        *(text for each in modules for name, text in vars(each).items() if name.endswith("EPILOG") and text),
    ]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("  gpbounds ")]
    parts = [part.partition("  #")[0].strip() for line in lines for part in re.split(r"&&|\|", line)]
    return [part for part in dict.fromkeys(parts) if part.startswith("gpbounds ")]


@pytest.mark.parametrize("command", examples_in_help())
def test_the_parsers_take_the_examples_of_the_help(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert callable(build_parser().parse_args(shlex.split(command)[1:]).run)


def test_the_example_of_the_first_help_is_answered(capsys):
    (line,) = (line for line in EPILOG.splitlines() if line.startswith("  gpbounds "))
    assert main(shlex.split(line)[1:]) == 0
    assert "inducing points suffice" in capsys.readouterr().out
