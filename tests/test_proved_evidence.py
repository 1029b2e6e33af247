"""``evidence`` and ``gap`` with ``rigor="sharp"``: where double precision refuses or stops, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpbounds import Matern, SquaredExponential
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Linear, Periodic, Polynomial, White
from gpbounds.renyi import evidence, gap

X = np.linspace(-2.0, 2.0, 30)[:, None]
Y = np.sin(X)
K = SquaredExponential()


def test_noise_that_double_precision_refuses() -> None:
    """At 1e-20 doubles refuse, and "auto" goes on to 30 digits; brackets contain each other's where they meet."""
    with pytest.raises(ValueError, match="Use a larger noise variance, or rigor='sharp' where"):
        evidence(K, X, Y, X[::3], noise=1e-20, rigor="float")
    usual = evidence(K, X, Y, X[::3], noise=1e-20)
    assert [end.claim for end in usual] == ["N-exact", "N-exact"]
    assert all(end.certified for end in usual)
    assert float(usual[1]) - float(usual[0]) < 1e-6
    whole = evidence(K, X, Y, None, noise=1e-20, rigor="sharp")
    few = evidence(K, X, Y, X[::2], noise=1e-20, rigor="sharp", members="cheap")
    assert float(few[0]) <= float(whole[1])
    assert float(whole[0]) <= float(few[1])
    assert 0.0 <= float(whole[1]) - float(whole[0]) < 1e-6
    assert whole[0].certified
    assert whole[1].claim == "N-exact"
    assert few[1].claim == "N-nystrom"


def test_both_paths_agree_at_ordinary_noise() -> None:
    """The ball lies inside the bracket of double precision, for three outputs and float32 rows as well."""
    targets = np.concatenate([Y, Y**2, 0.0 * Y], axis=1)
    for rows in (X, X.astype(np.float32)):
        usual = evidence(Matern(1.5), rows, targets.astype(rows.dtype), rows, noise=0.1)
        proved = evidence(Matern(1.5), rows, targets.astype(rows.dtype), None, noise=0.1, rigor="sharp")
        assert float(usual[0]) <= float(proved[0]) <= float(proved[1]) <= float(usual[1])
        assert float(proved[1]) - float(proved[0]) < 1e-12


def test_a_gap_below_the_rounding_of_double_precision() -> None:
    """20 points explain the rows below σ² = 1e-6; in double precision jitter covers this."""
    Z = np.linspace(-2.0, 2.0, 20)[:, None]
    low, high = gap(K, X, Y, Z, 1.0, noise=1e-6, rigor="sharp")
    assert 0.0 < float(low) <= float(high) <= float(low) * 1.01
    assert float(high) < 1e-9 < 1e-8 < float(gap(K, X, Y, Z, 1.0, noise=1e-6)[1])
    assert high.certified


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": 1e-40}, "noise: expected σ² of at least .*, above which 30 digits decide"),
        ({"noise": 0.0}, "noise: expected a positive finite number"),
        ({"alphas": 0.5}, "rigor: expected 'auto' or 'float' for orders below 1"),
        ({"jitter": -1e-6}, "jitter: expected a finite number >= 0"),
        ({"jitter": 5e-324, "noise": 1e200}, "jitter: expected 0, or at least 2"),
        ({"members": "eigenvalue"}, "members: expected 'auto', 'cheap', 'all' or some of 'exact', 'trace'"),
        ({"members": "cheap", "Z": None}, "Z: expected inducing inputs for the members 'trace' and 'determinant'"),
        ({"kernel": Matern(0.7)}, "kernel: expected squared exponential, periodic, constant, linear or polynomial"),
        ({"kernel": K + White(0.1)}, "kernel: expected a prior over functions, got one with White"),
        ({"kernel": Periodic(1e-40)}, r"X: expected points within 1e\+30 periods"),
        ({"kernel": Polynomial(65)}, "kernel: .*degree at most 64"),
        ({"X": X * 8e307}, "X: expected coordinates of at most 2"),
        ({"X": X * np.nan}, "X: expected"),
        ({"y": Y[:-1]}, "y: expected shape"),
        ({"y": np.geomspace(1e-200, 1e150, 30)}, "y: expected entries of an output that are 0 or within a factor"),
        ({"kernel": SquaredExponential(1e308)}, "kernel: expected a largest variance below"),
        ({"rigor": "exact"}, "rigor: expected one of 'auto', 'float', 'sharp'"),
        ({"rigor": "float", "Z": None}, "Z: expected inducing inputs"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed: dict[str, Any], message: str) -> None:
    arguments = {"kernel": K, "X": X, "y": Y, "Z": X[::2], "noise": 0.1, "rigor": "sharp"} | changed
    with pytest.raises(ValueError, match=message):
        evidence(**arguments)


def test_gap_refuses_what_it_does_not_prove() -> None:
    for changed in ({"method": "dense"}, {"form": "printed"}):
        with pytest.raises(ValueError, match="rigor: expected 'auto' or 'float' for the printed form, a method"):
            gap(K, X, Y, X[::2], 1.0, noise=0.1, rigor="sharp", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_points_of_variance_zero(alpha: float) -> None:
    """A linear kernel says nothing at x = 0: such a point changes no gap, alone Q is 0; doubles name it."""
    rows, targets = np.array([[0.0], [1.0], [2.0]]), np.array([0.1, 0.5, 0.9])

    def ends(Z: list[list[float]]) -> tuple[float, float]:
        low, high = gap(Linear(), rows, targets, Z, alpha, noise=0.1, rigor="sharp")
        assert not any("left out" in text for text in low.assumptions)
        return float(low), float(high)

    assert ends([[0.0], [1.0]])[1] < 1e-25  # one coefficient, known from one point
    assert ends([[1e-3], [0.0]])[1] < 1e-20
    low, high = ends([[0.0]])
    noise, squares = 0.1, 5.0
    weight = float(rows[:, 0] @ targets)
    density = 0.5 * (weight**2 / (noise + squares) / noise - np.log1p(squares / noise))
    if alpha == 1.0:
        truth = density + 0.5 * squares / noise
        assert low - 1e-12 <= truth <= high + 1e-12
    assert 0.0 < low <= high <= low * (1.0 + 1e-12)
    with pytest.raises(NotPositiveDefinite, match="the variance of number 0 is 0, as that of a linear kernel is at"):
        gap(Linear(), rows, targets, [[0.0]], alpha, noise=0.1)


def test_points_that_others_determine_are_named() -> None:
    """Two points 1e-20 apart: without a jitter nothing is said from below, with one both ends meet."""
    Z = np.array([[0.0], [1e-20], [1.0]])
    low, high = gap(K, X, Y, Z, 1.0, noise=0.1, rigor="sharp")
    assert float(low) == 0.0 < float(high)
    assert any("1 of the points of Z (numbers 1) are left out" in text for text in high.assumptions)
    below, above = gap(K, X, Y, Z, 1.0, noise=0.1, jitter=1e-9, rigor="sharp")
    assert 0.0 < float(below) <= float(above) <= float(below) * (1.0 + 1e-12)
    assert any("jitter of 1e-09" in text for text in above.assumptions)


def test_gaps_at_unix_seconds_and_beyond() -> None:
    """Differences of inputs are taken before anything is rounded: a shift that keeps them changes no gap."""
    grid = np.linspace(0.0, 32.0, 25)[:, None]  # multiples of 1/4 of them are doubles at each shift
    rows = np.round(grid * 4.0) / 4.0
    ends = [
        gap(K, rows + shift, np.sin(rows), rows[::6] + shift, 1.0, noise=0.01, rigor="sharp")
        for shift in (0.0, 1.7e9, 1e13, 1e15)
    ]
    for low, high in ends:
        assert float(low) == float(ends[0][0])
        assert float(high) == float(ends[0][1])
        assert float(high) - float(low) < 1e-9


def test_bounds_of_inducing_points_with_a_jitter() -> None:
    """More jitter never tightens; every bracket contains the exact value."""
    exact = evidence(K, X, Y, None, noise=0.01, rigor="sharp")
    amounts = (0.0, 1e-12, 1e-6, 1e-2)
    few = [evidence(K, X, Y, X[::6], noise=0.01, rigor="sharp", jitter=j, members="cheap") for j in amounts]
    for (low, high), (lower, upper) in pairwise(few):
        assert float(lower.terms["elbo 1"]) <= float(low.terms["elbo 1"]) <= float(exact[0]) + 1e-12
        assert float(upper.terms["trace"]) >= float(high.terms["trace"]) >= float(exact[1]) - 1e-12
