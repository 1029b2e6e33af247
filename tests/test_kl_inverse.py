"""The binary kl and its inverse: arrays, limits, wrong arguments, many values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NotConverged
from gpbounds.pacbayes import inverse, kl, kl_inverse
from gpbounds.pacbayes.binary_kl import nearest_inverse

ENDS = np.array([0.0, 5e-324, 1e-310, 1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-10, 1 - 2**-53, 1.0])
BUDGETS = np.array([0.0, 5e-324, 1e-300, 1e-100, 1e-17, 1e-3, 0.1, 1.0, 36.0, 700.0, 1e4, 1e308, np.inf])
both = pytest.mark.parametrize("side", ["upper", "lower"])


@both
@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("rigor", ["auto", "sharp"])
def test_no_nan_no_warning_and_monotone_at_every_corner(side, complement, rigor):
    rising = (side == "upper") != complement
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        table = kl_inverse(ENDS[:, None], BUDGETS, side, complement, rigor=rigor)
        slopes = kl_inverse(ENDS[:, None], BUDGETS, side, gradient=True)[1:]
        assert np.isfinite(kl(ENDS[1:-1, None], ENDS[1:-1])).all()
    assert ((table >= 0.0) & (table <= 1.0)).all()
    assert (np.diff(table, axis=1) * (1 if rising else -1) >= 0).all()
    assert (np.diff(table, axis=0) * (-1 if complement else 1) >= 0).all()
    assert not np.isnan(slopes).any()
    assert (slopes[0] >= 0).all()
    assert (slopes[1] * (1 if side == "upper" else -1) >= 0).all()


@both
@given(q=st.floats(0.0, 1.0), eps=st.floats(0.0, 700.0))
def test_the_inverse_inverts(side, q, eps):
    """kl at the certified end is at least ε where the end is inside, and the interval holds q."""
    p = float(kl_inverse(q, eps, side, rigor="sharp"))
    assert p >= q if side == "upper" else p <= q
    if 0.0 < p < 1.0 and kl(q, p) < np.inf:
        assert float(kl(q, p)) >= eps * (1 - 1e-15)
        inner = np.nextafter(np.nextafter(p, q), q)
        assert float(kl(q, inner)) <= eps * (1 + 1e-15)


@both
def test_sides_mirror_each_other(side):
    other = "lower" if side == "upper" else "upper"
    q = np.linspace(0, 1, 1025)  # 1 − q is exact
    for eps in (0.0, 1e-9, 0.05, 3.0, np.inf):
        np.testing.assert_allclose(kl_inverse(q, eps, side), kl_inverse(1 - q, eps, other, True), rtol=1e-15)


def test_shapes_and_kinds_of_numbers():
    assert isinstance(kl_inverse(0.02, 0.05), float)
    assert isinstance(kl(0.02, 0.05), float)
    with pytest.raises(ValueError, match="q, p: expected shapes that broadcast"):
        kl([0.1, 0.2], [0.1, 0.2, 0.3])
    assert kl_inverse(0, 1) == kl_inverse(np.float32(0.0), True)
    q, eps = np.linspace(0, 1, 7)[:, None, None], np.geomspace(1e-3, 10, 5)[:, None]
    table = kl_inverse(q, eps, complement=True)
    assert table.shape == (7, 5, 1)
    assert table[3, 2, 0] == kl_inverse(q[3, 0, 0], eps[2, 0], complement=True)
    assert kl_inverse(q, eps, rigor="sharp").shape == (7, 5, 1)
    assert all(part.shape == (7, 5, 1) for part in kl_inverse(q, eps, gradient=True))
    for empty in (kl_inverse([], 0.1), kl_inverse([], 0.1, rigor="sharp"), kl([], 0.1)):
        assert empty.shape == (0,)


def test_many_values_in_blocks_are_the_values_one_by_one():
    rng = np.random.default_rng(0)
    q, eps = rng.random(50_000), rng.exponential(0.1, 50_000)
    for side in ("upper", "lower"):
        table = kl_inverse(q, eps, side)
        some = rng.integers(0, q.size, 200)
        np.testing.assert_array_equal(
            table[some], [kl_inverse(a, b, side) for a, b in zip(q[some], eps[some], strict=True)]
        )
    np.testing.assert_array_equal(kl_inverse(q[None, :], eps[None, :]).ravel(), kl_inverse(q, eps))


@pytest.mark.parametrize("gradient", [False, True])
def test_inputs_are_left_alone(gradient):
    q, eps = np.array([0.0, 1e-305, 0.5, 1.0]), np.array([0.0, 1e-305, 0.1, np.inf])
    kept = q.copy(), eps.copy()
    kl_inverse(q, eps, "upper", gradient=gradient)
    kl_inverse(q, eps, "lower", gradient=gradient)
    np.testing.assert_array_equal((q, eps), kept)


def test_public_defects_are_not_ours():
    """Published code returns here: e^−ε at q = 1, 3e-8 for 3e-9, 0 for 1 − e^−1e-17, ∂ε = 1 at ε = ∞."""
    assert kl_inverse(1.0, 2.0) == kl_inverse(1.0, np.inf) == 1.0
    assert kl_inverse(1e-9, 1e-9) == pytest.approx(3.146e-9, rel=1e-3)
    assert kl_inverse(0.0, 1e-17) == 1e-17
    assert kl_inverse(0.3, np.inf, gradient=True)[2] == 0.0
    assert kl_inverse(0.3, 0.0, gradient=True)[2] == np.inf


@both
@pytest.mark.parametrize("off", [1e-9, -1e-9])
def test_a_plain_inverse_that_is_wrong_is_refused_not_walked_to(monkeypatch, side, off):
    """The start is a billion doubles away: an error, since the search would take hours."""
    wrong = lambda q, eps, upper, complement: nearest_inverse(q, eps, upper, complement) * (1.0 + off)  # noqa: E731
    monkeypatch.setattr(inverse, "nearest_inverse", wrong)
    with pytest.raises(NotConverged, match=r"expected the result within 64 doubles of its approximation"):
        kl_inverse(0.3, 0.1, side, rigor="sharp")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 0.1), r"q: expected a number in \[0, 1\], got -0.1"),
        ((1.5, 0.1), r"q: expected a number in \[0, 1\], got 1.5"),
        ((np.nan, 0.1), r"q: expected a number in \[0, 1\], got nan"),
        (([0.1, 2.0], 0.1), r"got 2.0 at index \(1,\)"),
        ((0.1, -1e-300), r"divergence: expected a number >= 0 \(infinity allowed\), got -1e-300"),
        ((0.1, np.nan), r"divergence: expected a number >= 0 \(infinity allowed\), got nan"),
        ((0.1, "much"), r"divergence: expected numbers >= 0 \(infinity allowed\), got 'much'"),
        ((0.1, [[1.0], [2.0, 3.0]]), "divergence: expected numbers >= 0"),
        ((0.1, 1j), "divergence: expected real numbers, got complex128 1j"),
        (("low", 0.1), "q: expected numbers"),
        ((0.1, 0.1, "both"), "side: expected one of 'upper', 'lower', got 'both'"),
        ((np.zeros(3), np.zeros(4)), "broadcast"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        kl_inverse(*arguments)
    with pytest.raises(ValueError, match=message):
        kl_inverse(*arguments, gradient=True)


def test_kl_refuses_what_is_no_probability():
    for q, p in ((-1.0, 0.5), (0.5, 1.1), (0.5, np.nan)):
        with pytest.raises(ValueError, match="expected a number in"):
            kl(q, p)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_with_its_gradient_the_value_is_the_same_and_the_complement_has_the_opposite_slopes(side):
    q, nats = ENDS[:, None], BUDGETS
    value, *slopes = kl_inverse(q, nats, side, gradient=True)
    np.testing.assert_array_equal(value, kl_inverse(q, nats, side))
    rest, *opposite = kl_inverse(q, nats, side, complement=True, gradient=True)
    np.testing.assert_array_equal(rest, kl_inverse(q, nats, side, complement=True))
    for slope, other in zip(slopes, opposite, strict=True):
        np.testing.assert_array_equal(slope, -other)
