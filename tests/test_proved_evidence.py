"""``evidence`` and ``gap`` with ``rigor="arb"``: where double precision refuses or stops, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpbounds import Matern, SquaredExponential
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
    whole = evidence(K, X, Y, None, noise=1e-20, rigor="arb")
    few = evidence(K, X, Y, X[::2], noise=1e-20, rigor="arb", members="cheap")
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
        proved = evidence(Matern(1.5), rows, targets.astype(rows.dtype), None, noise=0.1, rigor="arb")
        assert float(usual[0]) <= float(proved[0]) <= float(proved[1]) <= float(usual[1])
        assert float(proved[1]) - float(proved[0]) < 1e-12


def test_a_gap_below_the_rounding_of_double_precision() -> None:
    """20 points explain the rows below σ² = 1e-6; in double precision jitter covers this."""
    Z = np.linspace(-2.0, 2.0, 20)[:, None]
    low, high = gap(K, X, Y, Z, 1.0, noise=1e-6, rigor="arb")
    assert float(low) == 0.0
    assert float(high) < 1e-9 < 1e-8 < float(gap(K, X, Y, Z, 1.0, noise=1e-6)[1])
    assert high.certified


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": 1e-40}, "noise: expected σ² of at least .*, above which 30 digits decide"),
        ({"noise": 0.0}, "noise: expected a positive finite number"),
        ({"alphas": 0.5}, "rigor: expected 'auto' or 'float' for orders below 1"),
        ({"jitter": 1e-6}, "rigor: expected 'auto' or 'float' for orders below 1, a jitter"),
        ({"members": "eigenvalue"}, "members: expected 'auto', 'cheap', 'all' or some of 'exact', 'trace'"),
        ({"members": "cheap", "Z": None}, "Z: expected inducing inputs for the members 'trace' and 'determinant'"),
        ({"kernel": Matern(0.7)}, "kernel: expected squared exponential, constant or Matérn kernels"),
        ({"X": X * 8e307}, "X: expected coordinates of at most 2"),
        ({"X": X * np.nan}, "X: expected"),
        ({"y": Y[:-1]}, "y: expected shape"),
        ({"y": np.geomspace(1e-200, 1e200, 30)}, "y: expected entries of an output that are 0 or within a factor"),
        ({"kernel": SquaredExponential(1e308)}, "kernel: expected a largest variance below"),
        ({"rigor": "exact"}, "rigor: expected one of 'auto', 'float', 'sharp', 'arb'"),
        ({"rigor": "float", "Z": None}, "Z: expected inducing inputs"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed: dict[str, Any], message: str) -> None:
    arguments = {"kernel": K, "X": X, "y": Y, "Z": X[::2], "noise": 0.1, "rigor": "arb"} | changed
    with pytest.raises(ValueError, match=message):
        evidence(**arguments)


def test_gap_refuses_what_it_does_not_prove() -> None:
    for changed in ({"method": "dense"}, {"form": "printed"}, {"jitter": 1e-6}):
        with pytest.raises(
            ValueError, match="rigor: expected 'auto' or 'float' for the printed form, a method, a jitter"
        ):
            gap(K, X, Y, X[::2], 1.0, noise=0.1, rigor="arb", **changed)  # type: ignore[arg-type]
