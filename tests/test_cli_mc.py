"""``gpbounds mc``: the library's numbers in tables; wrong arguments get a one-sentence message."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpbounds.cli import main
from gpbounds.likelihoods import Bernoulli, Poisson, StudentT
from gpbounds.montecarlo import bias, cover, expected_objective, sample_size

POISSON = ("mc", "--likelihood", "poisson", "--y", "3", "--m", "0.5", "--v", "1")


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


def test_tables(capsys):
    out = ask(capsys, *POISSON, "--samples", "1,10,100", "--iterations", "2,10")
    model = Poisson("exp")
    for L in (1, 10, 100):
        assert f"{expected_objective(model, 3, 0.5, 1.0, L):.6f}  {bias(model, 3, 0.5, 1.0, L):.3g}".split()[0] in out
    for form in ("printed", "improved", "chernoff"):
        size = sample_size(model, 3, n=1000, delta=0.05, step=0.1, iteration=10, m=0.5, v=1.0, rule=form)
        assert f"{size.L:,}" in out
    assert f"{1 / cover(model, 3, 0.5, 1.0).acceptance:.3g} proposals" in out
    assert "Warning: at L = 1 the φ''-form" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_json(capsys):
    record = json.loads(ask(capsys, *POISSON, "--json", "--samples", "1,7", "--step", "0.5/t^0.75", "--zeta", "0.01"))
    assert record["bias"] == bias(Poisson("exp"), 3, 0.5, 1.0, [1, 7]).tolist()
    size = sample_size(
        Poisson("exp"), 3, n=1000, delta=0.05, iteration=[1, 10, 100, 1000], zeta=0.01, step=lambda t: 0.5 / t**0.75
    )
    assert record["sizes"]["improved"]["L"] == size.L.tolist()
    assert not record["sizes"]["chernoff"]["certified"]


def test_sizes_by_balls(capsys):
    record = json.loads(ask(capsys, *POISSON, "--json", "--iterations", "3,50", "--zeta", "0.01", "--rigor", "sharp"))
    size = sample_size(
        Poisson("exp"), 3, n=1000, delta=0.05, iteration=[3, 50], zeta=0.01, step=lambda t: 1 / t, rule="chernoff",
        rigor="sharp",
    )  # fmt: skip
    assert record["sizes"]["chernoff"]["L"] == size.L.tolist()
    assert record["sizes"]["chernoff"]["certified"]
    assert "without zeta" in refused(capsys, *POISSON, "--rigor", "sharp")
    assert record["likelihood"] == {"name": "poisson", "link": "exp"}


@pytest.mark.parametrize(
    ("words", "model", "y"),
    [
        (("--likelihood", "bernoulli", "--link", "logit", "--y", "0"), Bernoulli("logit"), 0),
        (("--likelihood", "student_t", "--df", "3", "--scale", "0.5", "--y=-1"), StudentT(3.0, 0.5), -1),
    ],
)
def test_likelihoods(capsys, words, model, y):
    record = json.loads(ask(capsys, "mc", *words, "--m", "0.2", "--v", "0.4", "--samples", "5", "--json"))
    assert record["bias"] == [bias(model, y, 0.2, 0.4, 5)]


def test_a_point_mass(capsys):
    out = ask(capsys, *POISSON[:-1], "0")
    assert "proposals" not in out
    assert json.loads(ask(capsys, *POISSON[:-1], "0", "--json"))["bias"] == [0.0] * 7


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*POISSON[:4], "3.5", *POISSON[5:]), "expected counts"),
        ((*POISSON[:-1], "-1"), "v: expected"),
        ((*POISSON, "--samples", "0"), "L: expected"),
        ((*POISSON, "--step", "0"), "step: expected"),
        ((*POISSON, "--step", "1/x"), "expected a number, C/t or C/t^A"),
        ((*POISSON, "--delta", "1"), "delta: expected"),
        ((*POISSON, "-n", "0"), "n: expected"),
        ((*POISSON, "--iterations", "0"), "iteration: expected"),
        ((*POISSON, "--zeta", "0.9"), "zeta: expected at most"),
        ((*POISSON, "--link", "probit"), "link: expected"),
        ((*POISSON, "--df", "3"), "--df and --scale belong to student_t"),
        ((*POISSON, "--noise", "3"), "--noise belongs to gaussian"),
        (("mc", "--likelihood", "gaussian", "--link", "exp", "--y", "0", "--m", "0", "--v", "1"), "--link belongs"),
        (("mc", "--likelihood", "student_t", "--df", "-1", "--y", "0", "--m", "0", "--v", "1"), "df: expected"),
        (("mc", "--likelihood", "poisson", "--y", "3"), "required"),
    ],
)
def test_nonsense_is_answered_in_one_sentence(capsys, words, says):
    assert says in refused(capsys, *words)


def test_help_shows_an_example(capsys):
    out = ask(capsys, "mc", "--help")
    example = next(line.strip() for line in out.splitlines() if line.strip().startswith("gpbounds mc --"))
    assert np.isfinite(json.loads(ask(capsys, *example.split()[1:], "--json"))["dlm"])
