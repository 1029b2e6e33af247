"""Numbers from 1e-300 to 1e300 in every place: what is proved is right, and anything else is one sentence."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from thinning import one_in

from gpbounds import Matern, SquaredExponential, iterative, lowrank, renyi, vecchia
from gpbounds.divergences import posterior_kl
from gpbounds.errors import NonFinite
from gpbounds.overflow import within_doubles
from gpbounds.reference import lowrank as exact_lowrank
from gpbounds.reference import renyi as exact
from gpbounds.validation import NOISE
from tests.test_array_gate import DOORS

DIGITS = 1500
"""Enough for K + σ²I with entries of 1e300 and a noise of 1e-300, and for exp(−(x − x')²/2ℓ²) near 1."""
X = np.array([[0.0], [0.5], [1.25], [3.0]])
Z = X[[0, 2]]
Y = np.array([1.0, -0.5, 2.0, 0.25])

AS_DRAWN = (Phase.explicit, Phase.generate)
"""Powers of ten are simple as they are drawn, and each case takes a second in `DIGITS` digits."""

powers = st.one_of(st.integers(-300, 300), st.sampled_from([-300, -160, -150, 0, 150, 160, 300]))


def answered(compute: Callable[[], Any]) -> Any:
    """The answer, or None for one sentence of an error of ours; a warning of NumPy is an error in the tests."""
    try:
        return compute()
    except (ValueError, ArithmeticError) as error:
        refusal = error
    assert type(refusal) not in (FloatingPointError, OverflowError, ZeroDivisionError), repr(refusal)
    assert "expected" in str(refusal), refusal
    return None


def double(power: int) -> float:
    return float(f"1e{power}")


def kernel_matrix(kernel: SquaredExponential, points: np.ndarray, others: np.ndarray) -> Any:
    """The kernel's matrix to `DIGITS` digits, from its parameters as they are stored."""
    variance, length = mp.mpf(kernel.max_variance), mp.mpf(float(kernel.lengthscales(1)[0]))
    return mp.matrix(
        [
            [variance * mp.exp(-(((mp.mpf(a) - mp.mpf(b)) / length) ** 2) / 2) for b in others[:, 0]]
            for a in points[:, 0]
        ]
    )


def contains(interval: Any, truth: Any) -> bool:
    """``truth`` is 0 where it is below the rounding of its computation."""
    low, high = (mp.mpf(float(end.value)) for end in (interval.lower, interval.upper))
    return low <= (truth if abs(truth) > mp.mpf(10) ** -650 else 0) <= high


@pytest.mark.parametrize(
    ("noise", "variance", "y", "length"),
    one_in(
        3,
        [
            (300, 0, 0, 0),
            (-300, -300, -150, 0),
            (0, 0, 160, 0),
            (300, -160, 300, 14),
            (300, -20, 0, 0),
            (300, -22, 0, 0),
            (-300, 300, 0, 300),
            (22, -300, 0, 0),
            (12, -300, 0, 1),
        ],
    ),
)
def test_proved_bounds_hold_or_are_refused_at_ends_of_the_range(noise, variance, y, length):
    """Upper ends at 1e-321, and of 0, were below the truth: relative errors of numbers below 1e-308 are large."""
    check_proved_bounds(noise, variance, y, length)


@pytest.mark.slow
@given(powers, powers, powers, powers)
@settings(max_examples=200, phases=AS_DRAWN, deadline=None)
def test_proved_bounds_hold_or_are_refused_wherever_the_numbers_are(noise, variance, y, length):
    check_proved_bounds(noise, variance, y, length)


def check_proved_bounds(noise: int, variance: int, y: int, length: int) -> None:
    """The evidence, the gap with and without targets, and λ_max(K − Q)/σ², against 1500 digits."""
    sigma2, targets, kernel = double(noise), Y * double(y), SquaredExponential(double(variance), double(length))
    rows = {"kernel": kernel, "X": X, "Z": Z, "noise": sigma2}
    answers = {
        "evidence": answered(lambda: renyi.evidence(y=targets, **rows)),
        "gap": answered(lambda: renyi.gap(y=targets, alpha=0.5, **rows)),
        "expected": answered(lambda: renyi.expected_gap_bounds(alpha=0.5, **rows)),
        "elbo": answered(lambda: renyi.elbo(y=targets, alpha=0.5, **rows)),
        "operator": answered(lambda: renyi.operator_gap(**rows)),
    }
    with mp.workdps(DIGITS):
        Kff, Kuf, Kuu = (kernel_matrix(kernel, *pair) for pair in ((X, X), (Z, X), (Z, Z)))
        column, level = mp.matrix([mp.mpf(float(each)) for each in targets]), mp.mpf(sigma2)
        evidence = exact.log_evidence(Kff, column, level)
        assert answers["evidence"] is None or contains(answers["evidence"], evidence)
        if answers["elbo"] is not None and answers["evidence"] is not None:  # not proved: only where doubles decide
            assert mp.mpf(float(answers["elbo"])) <= evidence + 1e-9 * abs(evidence)
        if any(answers[name] is not None for name in ("gap", "expected", "operator")):
            gap = exact.exact_gap(Kff, Kuf, Kuu, column, level, mp.mpf(0.5))
            expected = exact.expected_gap(Kff, Kuf, Kuu, level, mp.mpf(0.5))
            largest = exact.operator_gap(Kff, exact.nystrom(Kuf, Kuu), level)
            assert answers["gap"] is None or contains(answers["gap"], gap)
            assert answers["expected"] is None or contains(answers["expected"], expected)
            if answers["operator"] is not None:
                lower, upper = answers["operator"].terms["lower"], float(answers["operator"])
                assert mp.mpf(lower) <= largest <= mp.mpf(upper)


@pytest.mark.parametrize("power", [-900, -660, 330])
@pytest.mark.parametrize("kernel", [SquaredExponential, partial(Matern, 1.5)], ids=["SE", "Matern"])
def test_another_unit_leaves_allowances_as_wide(kernel, power):
    """K, σ² and yyᵀ times 2^power: the same ends but for rounding, no allowance for which may underflow."""
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(0.0, 6.0, (60, 2)), rng.uniform(0.0, 6.0, (12, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(60)

    def ends(power):
        unit = 2.0**power
        rows = {"kernel": kernel(1.3 * unit, 0.8), "X": X, "Z": Z, "noise": 0.05 * unit}
        targets, shift = 2.0 ** (power // 2) * y, 30.0 * power * np.log(2.0)
        evidence, operator = renyi.evidence(y=targets, **rows), renyi.operator_gap(**rows)
        gaps = renyi.gap(y=targets, alpha=0.5, **rows), renyi.expected_gap_bounds(alpha=0.5, **rows)
        log_p = [float(evidence.lower) + shift, float(evidence.upper) + shift]
        return [
            *([float(gap.lower), float(gap.upper)] for gap in gaps),
            log_p,
            [operator.terms["lower"], float(operator)],
        ]

    for one, other in zip(ends(0), ends(power), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)
        assert np.ptp(other) >= (1.0 - 1e-3) * np.ptp(one)


@given(powers, powers)
@settings(max_examples=10, phases=AS_DRAWN)
@example(noise=-300, variance=-308)
@example(noise=-300, variance=300)
def test_least_divergences_by_rank_are_right_or_refused(noise, variance):
    """L-10 and the KL of features, of a diagonal K, against mpmath; a sum below the normal doubles may round to 0."""
    values = np.array([4.0, 2.0, 1.0]) * double(variance)
    sigma2 = double(noise)
    least = answered(lambda: lowrank.optimal_kl(values, noise=sigma2).value)
    root = np.diag(np.sqrt(values))
    ranks = answered(lambda: lowrank.kl_by_rank(root @ root, root, [1, 2], noise=sigma2))
    with mp.workdps(DIGITS):
        truth = exact_lowrank.optimal_kl([mp.mpf(float(each)) for each in values], mp.mpf(sigma2))
        if least is not None:
            assert all(close(float(a), b, 1e-12) for a, b in zip(least, truth, strict=True))
        if ranks is not None:  # the error of kl_by_rank is absolute, as its docstring says
            allowed = 1e-14 * (1.0 + float(values.sum()) / sigma2) ** 2
            assert all(abs(mp.mpf(float(a)) - b) <= allowed for a, b in zip(ranks, truth[1:3], strict=True))


def close(value: float, truth: Any, relative: float) -> bool:
    return abs(mp.mpf(value) - truth) <= relative * abs(truth) + mp.mpf(2.0**-1020)


@pytest.mark.parametrize("power", [-990, -900, -500, 500, 900, 990])
def test_a_divergence_is_the_same_in_any_unit_of_the_targets(power):
    """With K, σ² and y² times a power of 4 all that a KL is made of changes by exact factors."""
    K, unit = np.array([[2.0, 0.5, 0.25], [0.5, 1.0, 0.125], [0.25, 0.125, 3.0]]), 2.0**power
    features, r = np.linalg.cholesky(K)[:, :2], np.array([1.0, -2.0, 0.5])
    root = 2.0 ** (power // 2)
    for compute in (
        lambda u, s: posterior_kl(K * u, r * s, noise=0.5 * u),
        lambda u, s: posterior_kl(K * u, r * s, noise=0.5 * u, method="cholesky"),
        lambda u, s: lowrank.kl(K * u, np.diag(np.diag(K)) * u, noise=0.5 * u),
        lambda u, s: lowrank.kl_by_rank(K * u, features * s, [1, 2], noise=0.5 * u),
        lambda u, s: lowrank.optimal_kl(K * u, noise=0.5 * u).value,
        lambda u, s: lowrank.kl_features(K * u, features * s, noise=0.5 * u),
    ):
        inside = answered(partial(compute, unit, root))
        assert inside is None or inside == pytest.approx(compute(1.0, 1.0), rel=1e-9, abs=1e-13)
    assert posterior_kl(K * unit, r * root, noise=0.5 * unit) == pytest.approx(
        posterior_kl(K, r, noise=0.5), rel=1e-12, abs=0.0
    )


TAKE_NOISE = sorted(
    name
    for name, calls in DOORS.items()
    if name.startswith("gpbounds.") and any("noise" in call for call in calls) and "audit" not in name
)


@pytest.mark.parametrize("name", one_in(3, TAKE_NOISE))
def test_every_function_that_takes_noise_answers_or_refuses_in_one_sentence(name):
    room, _, own = name.rpartition(".")
    function = getattr(importlib.import_module(room), own)
    for noise in (5e-324, 1e-310, 1e-300, 1e-160, 1e160, 1e300, 1.7e308):
        for call in DOORS[name]:
            if "noise" in call:
                answered(partial(function, **call | {"noise": noise}))


def test_a_noise_beyond_the_range_is_refused_by_its_name():
    for noise in (0.99 * NOISE[0], 1.01 * NOISE[1]):
        with pytest.raises(ValueError, match=r"noise: expected a variance from 1e-300 to 1e300, got .*: rescale y"):
            posterior_kl(np.eye(2), np.ones(2), noise=noise)


def test_a_refusal_names_what_is_far_from_one_and_leaves_the_function_as_it_was():
    with pytest.raises(
        NonFinite, match=r"^kernel, noise: expected .* doubles, got kernel = 1e160 and noise = 1e-160: state y in"
    ):
        renyi.elbo(SquaredExponential(1e160), X, Y, Z, alpha=0.5, noise=1e-160)

    def plain(a: float, *, b: float = 1.0) -> float:
        """Documentation."""
        return a / b

    guarded = within_doubles(plain)
    assert inspect.signature(guarded) == inspect.signature(plain)
    assert (guarded.__doc__, guarded.__name__, guarded(1.0, b=4.0)) == ("Documentation.", "plain", 0.25)
    with pytest.raises(NonFinite, match=r"a, b: expected .* numbers that together leave it"):
        guarded(1.0, b=0.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        guarded(1.0, c=2.0)


@pytest.mark.parametrize(("argument", "value"), [("block", 0), ("block", -1), ("neighbours", -1), ("block", 1.5)])
def test_blocks_of_no_rows_are_refused(argument, value):
    """``block=0`` halved the rows for ever."""
    with pytest.raises(ValueError, match=f"{argument}: expected a whole number >= "):
        vecchia.near(SquaredExponential(), X, **{"block": 2, "neighbours": 1, "rng": 0} | {argument: value})


def test_iterative_evidence_of_huge_targets_speaks_of_what_it_has():
    with pytest.raises(ValueError, match="y") as refusal:
        iterative.evidence(SquaredExponential(), X, Y * 1e300, noise=0.1, rng=0)
    assert "Z" not in str(refusal.value)
