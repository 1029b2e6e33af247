"""``gpbounds klinv`` and ``gpbounds pac``: the library's numbers in tables; wrong arguments get one sentence."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial

import pytest

from gpbounds import pacbayes
from gpbounds.cli import main

PAC = ("pac", "--risk", ".093", "--kl", "42", "-N", "404", "--delta", ".01")


def ask(capsys, *words):
    assert main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys, *words):
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gpbounds: ")
    assert len(err.splitlines()) == 1
    return err


def test_klinv_prints_both_ends(capsys):
    out = ask(capsys, "klinv", "0.02", "0.05")
    low, high = (float(pacbayes.kl_inverse(0.02, 0.05, side)) for side in ("lower", "upper"))
    assert f"for {low:.6g} <= p <= {high:.6g} and no other p (P-03)." in out
    assert repr(high) in out
    assert repr(float(pacbayes.kl_inverse(0.02, 0.05, complement=True))) in out
    proved = next(line for line in out.splitlines() if "<= p <=" in line and "P-03" not in line).split(" <= p <= ")
    for end, side in zip(proved, ("lower", "upper"), strict=True):
        double = Decimal(float(pacbayes.kl_inverse(0.02, 0.05, side, rigor="sharp")))
        assert abs(Decimal(end.strip()) - double) <= Decimal("1e-16") * double
        assert (Decimal(end.strip()) >= double) == (side == "upper")


def test_klinv_as_json(capsys):
    record = json.loads(ask(capsys, "klinv", "0.3", "0.1", "--json"))
    _, in_q, in_eps = pacbayes.kl_inverse(0.3, 0.1, gradient=True)
    assert record["upper"]["p"] == pacbayes.kl_inverse(0.3, 0.1)
    assert (record["upper"]["dp/dq"], record["upper"]["dp/deps"]) == (in_q, in_eps)
    assert record["lower"]["dp/deps"] < 0


@pytest.mark.parametrize("words", [("0", "0"), ("1", "inf"), ("0.5", "0"), ("1e-300", "700"), ("1", "1e-300")])
def test_klinv_at_the_ends(capsys, words):
    record = json.loads(ask(capsys, "klinv", *words, "--json"))
    low, high = record["lower"], record["upper"]
    assert 0.0 <= low["p"] <= float(words[0]) <= high["p"] <= 1.0
    assert float(low["certified"]) <= low["p"] * (1 + 1e-15)
    assert float(high["certified"]) >= high["p"] * (1 - 1e-15)
    assert "no other p" in ask(capsys, "klinv", *words)


def test_pac_lays_the_terms_out(capsys):
    out = ask(capsys, *PAC, "--grid-points", "1201", "--hyperparameters", "2")
    prior = float(pacbayes.grid_penalty(1201, 2, rigor="sharp"))
    plain = partial(pacbayes.bound, 0.093, 42.0, 404, delta=0.01, log_prior_penalty=prior)
    best = plain(rigor="sharp")
    assert out.startswith("R(Q) <= 0.33149 with probability at least 0.99 (P-14, rounding included).")
    for number in (42 / 404, prior / 404, best.terms["ln(ξ/δ)/N"], best.terms["ε"]):
        assert f"{number:.6f}" in out
    assert "2 ln(1201)" in out
    rows = {line.split("  ")[0].strip() or line.strip().split("  ")[0]: line for line in out.splitlines()}
    for name, side, options in (
        ("Maurer", "upper", {"form": "printed"}),
        ("Pinsker", "upper", {"form": "printed", "relaxation": "pinsker"}),
        ("lower", "lower", {}),
    ):
        line = next(line for key, line in rows.items() if name in line and "R(Q)" in line)
        value, shown = float(plain(side=side, **options)), float(line.split()[-2])
        assert abs(shown - value) <= 1e-5
        assert shown >= value if side == "upper" else shown <= value
    assert "R_Bayes(Q)" in out


def test_pac_as_json(capsys):
    record = json.loads(ask(capsys, *PAC, "--log-prior-penalty", "3.5", "--json"))
    proved = pacbayes.bound(0.093, 42.0, 404, delta=0.01, log_prior_penalty=3.5, rigor="sharp")
    assert record["bound"]["value"] == float(proved)
    assert record["bound"]["terms"] == proved.terms
    assert record["others"]["mean prediction"]["value"] == 2 * float(proved)
    assert set(record["others"]) == {"lower bound", "Maurer, 2 sqrt(N)", "Pinsker, 2 sqrt(N)", "mean prediction"}


def test_pac_without_a_choice_of_hyperparameters(capsys):
    out = ask(capsys, *PAC)
    assert "(P-09, rounding included)" in out
    assert "no hyperparameter was chosen" in out
    assert "R(Q) <= 1 with" in ask(capsys, "pac", "--risk", "0.5", "--kl", "inf", "-N", "10")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("klinv", "2", "1"), "q: expected a number in [0, 1], got 2.0"),
        (("klinv", "0.1", "-1"), "divergence: expected a number >= 0 (infinity allowed), got -1.0"),
        (("klinv", "0.1"), "required: D"),
        (("klinv", "a", "b"), "expected a number, got 'a'"),
        (("pac", "--risk", "0.1", "--kl", "1"), "-N"),
        (("pac", "--risk", "1.1", "--kl", "1", "-N", "10"), "risk: expected a number in [0, 1]"),
        (("pac", "--risk", "0.1", "--kl", "-1", "-N", "10"), "kl: expected a number >= 0"),
        (("pac", "--risk", "0.1", "--kl", "1", "-N", "0"), "N: expected a whole number >= 1"),
        (("pac", "--risk", "0.1", "--kl", "1", "-N", "10.5"), "expected a whole number"),
        ((*PAC[:-1], "0"), "delta: expected a number in (0, 1], got 0.0"),
        ((*PAC, "--grid-points", "3"), "expected --grid-points and --hyperparameters together"),
        ((*PAC, "--hyperparameters", "3"), "expected --grid-points and --hyperparameters together"),
        ((*PAC, "--grid-points", "3", "--hyperparameters", "0"), "hyperparameters: expected a whole number >= 1"),
        ((*PAC, "--grid-points", "3", "--hyperparameters", "2", "--log-prior-penalty", "1"), "not both"),
        ((*PAC, "--log-prior-penalty", "-1"), "log_prior_penalty: expected a number >= 0"),
    ],
)
def test_nonsense_is_answered_with_one_sentence(capsys, words, message):
    assert message in refused(capsys, *words)


@pytest.mark.parametrize("command", ["klinv", "pac"])
def test_the_example_in_the_help_runs(capsys, command):
    help_text = ask(capsys, command, "--help")
    example = next(line for line in help_text.splitlines() if line.startswith(f"  gpbounds {command} "))
    assert ask(capsys, *example.split()[1:])
