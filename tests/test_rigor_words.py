"""One option says how much of the arithmetic is proved; the spellings of earlier releases say where they are used."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

from gpbounds import Empirical, Matern, SquaredExponential, inducing_points, pacbayes, rate, renyi
from gpbounds.cli import main
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import Linear
from gpbounds.spectra import spectrum
from tests.test_vocabulary import CALLABLES, FUNCTIONS, signatures

X = np.random.default_rng(0).standard_normal((40, 2))
Y = np.sin(X[:, 0])
GIVEN = {"inputs": Empirical(X), "y": Y, "draws": 5}
CALLS = {
    "rate": (lambda **words: rate(Matern(0.5), 40, 10, 1.0, **GIVEN, **words), "auto"),
    "inducing_points": (lambda **words: inducing_points(Matern(0.5), 40, 1.0, target=9.0, **GIVEN, **words).M, "auto"),
    "xi": (lambda **words: pacbayes.xi(7, **words), "sharp"),
    "grid_penalty": (lambda **words: pacbayes.grid_penalty(1201, 3, **words), "sharp"),
    "kl_inverse": (lambda **words: pacbayes.kl_inverse(0.1, 0.2, **words), "sharp"),
    "bound": (lambda **words: pacbayes.bound(0.1, 2.0, 100, delta=0.05, **words), "sharp"),
}


@pytest.mark.parametrize(("call", "meant"), CALLS.values(), ids=CALLS)
def test_certified_is_an_old_spelling(call, meant):
    with pytest.warns(DeprecationWarning, match=f"certified=True is an old spelling.*rigor='{meant}'") as record:
        old = call(certified=True)
    assert record[0].filename == __file__
    assert str(old) == str(call(rigor=meant))
    with pytest.warns(DeprecationWarning, match="certified=False is an old spelling.*rigor='float'"):
        assert str(call(certified=False)) == str(call(rigor="float"))


@pytest.mark.parametrize(
    "call",
    [
        lambda word: expected_trace([3.0, 2.0, 1.0], 1, rigor=word),
        lambda word: str(rate(SquaredExponential(), 100, 10, 1.0, rigor=word)),
        lambda word: str(renyi.evidence(SquaredExponential(), X, Y, X[:5], noise=0.1, rigor=word)),
        lambda word: str(renyi.gap(SquaredExponential(), X, Y, X[:5], 1.0, noise=0.1, rigor=word)),
    ],
)
def test_arb_is_an_old_spelling_of_sharp(call):
    with pytest.warns(DeprecationWarning, match="rigor='arb' is an old spelling.*rigor='sharp'") as record:
        old = call("arb")
    assert record[0].filename == __file__
    assert old == call("sharp")


def test_arb_is_an_old_spelling_in_the_shell(capsys):
    words = ["rate", "-N", "1000", "-M", "20", "--rigor"]
    with pytest.warns(DeprecationWarning, match="say rigor='sharp'"):
        assert main([*words, "arb"]) == 0
    old = capsys.readouterr().out
    assert main([*words, "sharp"]) == 0
    assert capsys.readouterr().out == old
    assert main([*words, "exact"]) == 2


def test_every_function_with_rigor_has_the_same_words_and_the_same_default():
    rigorous = [(name, p) for name, p in signatures("rigor", FUNCTIONS)]
    assert len(rigorous) > 25
    assert {p.default for _, p in rigorous} == {"auto"}
    for name, _ in rigorous:
        written = inspect.getdoc(CALLABLES[name]) or ""
        assert any(phrase in written for phrase in ('"sharp"', "as in :func:", "are those of :func:")), name


@pytest.mark.filterwarnings("ignore:certified=True is an old spelling:DeprecationWarning")
def test_the_old_word_takes_nothing_from_the_new_one():
    given = {"inputs": Empirical(X), "y": Y, "draws": 5}
    sharp = rate(SquaredExponential(), 40, 10, 1.0, rigor="sharp", **given)
    assert float(rate(SquaredExponential(), 40, 10, 1.0, rigor="sharp", certified=True, **given)) == float(sharp)
    assert pacbayes.xi(7, certified=True, rigor="float") == pacbayes.xi(7, rigor="sharp")


def test_no_default_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rate(SquaredExponential(), 100, 10, 1.0)
        pacbayes.bound(0.1, 2.0, 100, delta=0.05)


def test_given_rows_every_bound_of_a_known_kernel_is_certified_by_default():
    one = rate(SquaredExponential(), 40, 10, 1.0, inputs=Empirical(X))
    assert one.certified
    assert "N-enclosed" in one.claim
    assert any("exp errs by at most 4 units" in sentence for sentence in one.assumptions)
    several = rate(SquaredExponential(), 40, 10, 1.0, **GIVEN)
    assert several.certified
    assert not rate(Matern(0.7), 40, 10, 1.0, inputs=Empirical(X)).certified
    fast = rate(SquaredExponential(), 40, 10, 1.0, inputs=Empirical(X), rigor="float")
    sharp = rate(SquaredExponential(), 40, 10, 1.0, inputs=Empirical(X), rigor="sharp")
    assert not fast.certified
    assert float(sharp) <= float(one)
    assert float(one) == pytest.approx(float(sharp), rel=1e-6)


def test_the_largest_variance_of_a_kernel_without_one_is_that_of_the_rows():
    """t grows by tv·(N − M)·max k(x, x), here of a linear kernel: the default is not below 30 digits, and no more."""
    one, sharp = (
        float(rate(Linear(0.8), 40, 1, 1.0, inputs=Empirical(X), tv=0.01, rigor=word)) for word in ("auto", "sharp")
    )
    assert sharp <= one <= sharp * (1.0 + 1e-6)


@pytest.mark.parametrize("kernel", [SquaredExponential(2.0, [0.7, 1.3]), Matern(1.5) + SquaredExponential(0.1)])
def test_proved_eigenvalues_in_doubles_hold_those_to_30_digits(kernel):
    doubles, sharp = (spectrum(kernel, inputs=Empirical(X), rigor=word) for word in ("auto", "sharp"))
    assert doubles.certified
    assert (doubles.upper_eigenvalues() >= sharp.lower_eigenvalues()).all()
    assert (doubles.lower_eigenvalues() <= sharp.upper_eigenvalues()).all()
    assert doubles.rounding < 1e-12 * doubles.eigenvalues(1)[0]
