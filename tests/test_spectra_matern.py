"""Matérn spectra: eigenvalues, tails, methods, and error messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import one_in

from gpbounds.errors import NotConverged
from gpbounds.inputs import Empirical, Gaussian, Uniform
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.spectra.base import power_law_tail
from gpbounds.spectra.matern import MaternHalfUniform, MaternUniform
from gpbounds.spectra.ritz import Ritz, WeylLaw


@pytest.mark.parametrize(("p", "excess"), [(1, 0.07), (2, 0.17), (3, 0.33)])
def test_the_sum_alone_is_as_loose_as_its_docstring_says_and_no_looser(p, excess):
    M = np.array([1, 2, 5, 10, 20, 40, 60])
    for gamma in (130.0, 150.0, 200.0, 400.0):
        s = MaternUniform(Matern(p + 0.5, lengthscale=np.sqrt(2 * p + 1) / gamma), Uniform())
        truth = 1.0 - np.cumsum(s.eigenvalues(60))[M - 1]
        assert (s.tail(M) >= truth * (1.0 - 1e-9)).all()
        assert (s.tail(M) <= (1.0 + excess) * truth).all()


scales = st.floats(-3.0, 3.0).map(lambda e: 10.0**e)


@given(scales, scales, st.integers(0, 4))
def test_eigenvalues_decrease_add_up_to_the_trace_and_meet_the_tail(lengthscale, variance, p):
    kernel = Matern(p + 0.5, variance=variance, lengthscale=lengthscale)
    s = MaternHalfUniform(kernel, Uniform()) if p == 0 else MaternUniform(kernel, Uniform())
    values = s.eigenvalues(300)
    assert (np.diff(values) < 0).all()
    assert s.tail(0) == pytest.approx(variance, rel=1e-11)
    M = np.arange(301)
    tails = s.tail(M)
    assert (np.diff(tails) <= 1e-11 * tails[:-1]).all()
    missing = np.cumsum(np.concatenate([[s.tail(300)], values[::-1]]))[::-1]
    if p == 0:
        assert tails == pytest.approx(missing, rel=1e-11)
    else:  # the exact values, with slightly larger ones at the end
        truth = missing - s.tail(300) + 0.5 * s.eigenvalue_bounds(np.arange(301.0, 20301.0))[0].value.sum()
        assert (tails >= truth * (1.0 - 1e-9)).all()
        if np.sqrt(2 * p + 1) / lengthscale <= 128:  # c L for which Ky Fan's bound is used
            assert tails[1] <= 1.01 * missing[1] + 1e-10 * variance


@given(scales, st.floats(-5.0, 5.0), st.sampled_from([0.5, 1.5, 2.5]))
def test_only_width_over_lengthscale_and_the_variance_matter(width, low, nu):
    kind = MaternHalfUniform if nu == 0.5 else MaternUniform
    wide = kind(Matern(nu, lengthscale=1.0), Uniform(0.0, 4.0))
    other = kind(Matern(nu, variance=3.0, lengthscale=width / 4.0), Uniform(low, low + width))
    assert other.eigenvalues(40) == pytest.approx(3.0 * wide.eigenvalues(40), rel=1e-9)
    assert other.log_tail([0, 7, 1000]) == pytest.approx(wide.log_tail([0, 7, 1000]) + np.log(3.0), abs=1e-9)


@pytest.mark.parametrize("kappa", [1e-100, 1e-6, 1.0, 1e6, 1e100])
def test_half_stays_finite_and_ordered_at_extreme_lengthscales(kappa):
    s = MaternHalfUniform(Matern(0.5, lengthscale=0.5 / kappa), Uniform())
    M = np.array([0, 1, 10, 1999, 2000, 2001, 10**6, 10**9])
    assert np.isfinite(s.log_tail(M)).all()
    assert (np.diff(s.log_tail(M)) <= 1e-14).all()
    assert (s.tail(M[1:]) <= s.tail_bound(M[1:]).value * (1.0 + 1e-14)).all()


@pytest.mark.parametrize("gamma", [1e-100, 1e-6, 1.0, 1e3, 1e6, 1e100])
@pytest.mark.parametrize("p", [1, 2, 5])
def test_logarithms_carry_tails_where_numbers_underflow(gamma, p):
    s = MaternUniform(Matern(p + 0.5, lengthscale=np.sqrt(2 * p + 1) / gamma), Uniform())
    logs = s.log_tail(np.array([0, 1, 2, 5, 10, 100, 1e4, 1e6, 1e9]))
    assert np.isfinite(logs).all()
    assert (np.diff(logs) <= 1e-12).all()
    assert logs[0] == pytest.approx(0.0, abs=1e-12)


def test_tails_take_any_shape():
    for s in (
        MaternHalfUniform(Matern(0.5), Uniform()),
        MaternUniform(Matern(2.5), Uniform()),
        Ritz(Matern(0.7), Uniform()),
    ):
        assert isinstance(s.log_tail(3), float)
        table = s.tail(np.array([[0, 1], [2, 10**6]]))
        assert table.shape == (2, 2)
        assert table[0, 1] == s.tail(1)
    with pytest.raises(ValueError, match="whole number >= 0"):
        s.tail(-1)
    with pytest.raises(ValueError, match="whole number >= 0"):
        s.log_tail([0.5])
    with pytest.raises(ValueError, match="count: expected a whole number >= 1"):
        s.eigenvalues(0)


def test_wrong_pairs_say_what_is_supported():
    with pytest.raises(ValueError, match=r"expected Matern\(nu=0.5\)"):
        MaternHalfUniform(Matern(1.5), Uniform())
    with pytest.raises(ValueError, match="expected Uniform in one dimension"):
        MaternHalfUniform(Matern(0.5), Gaussian())
    with pytest.raises(ValueError, match=r"0\.5, 1\.5, 2\.5"):
        MaternUniform(Matern(1.0), Uniform())
    with pytest.raises(ValueError, match="one dimension"):
        MaternUniform(Matern(1.5), Uniform([0, 0], [1, 1]))
    with pytest.raises(ValueError, match="SquaredExponential"):
        Ritz(SquaredExponential(), Uniform())
    with pytest.raises(ValueError, match="sums and products"):
        Ritz(Matern(1.5) + Matern(0.5), Uniform())
    with pytest.raises(ValueError, match="1, 2 or 3 dimensions, got 4"):
        Ritz(Matern(1.5), Gaussian(1.0, dim=4))
    with pytest.raises(ValueError, match="Gaussian or Uniform, got Empirical"):
        Ritz(Matern(1.5), Empirical([[0.0], [1.0]]))
    with pytest.raises(ValueError, match="2 dimension"):
        Ritz(Matern(1.5, lengthscale=[1.0, 2.0]), Gaussian(1.0, dim=3))


def test_bounds_teach_their_domain():
    s = MaternUniform(Matern(1.5), Uniform())
    with pytest.raises(ValueError, match="whole number >= 3"):
        s.decay_constant(2)
    with pytest.raises(ValueError, match="whole number >= 1"):
        s.eigenvalue_bounds(0)
    with pytest.raises(ValueError, match="M \\+ 1/2"):
        power_law_tail(-1, 1)
    bound = s.tail_bound(10)
    assert str(bound).startswith("tail of the spectrum <= ")
    assert not bound.certified
    assert "is measured, not proved" in bound.assumptions[-1]


def test_ritz_says_how_many_eigenvalues_are_good():
    s = Ritz(Matern(0.5), Gaussian([1.0, 1.0]))
    with pytest.raises(NotConverged, match=r"accurate to 0\.05") as caught:
        s.eigenvalues(2000)
    good = int(str(caught.value).split("at most ")[1].split(",")[0])
    assert s.eigenvalues(good).size == good >= 30
    assert "Nyström on a Gauss grid of 2500 nodes" in s.note
    assert "1e-8" in Ritz(Matern(0.7), Uniform()).note


@pytest.mark.parametrize(
    ("nu", "inputs", "lengthscale"),
    [
        (0.5, Gaussian(2.0), 0.7),
        (1.5, Gaussian(), 1e-3),  # a lengthscale too short to resolve: Weyl's law alone
        (0.3, Uniform(-1.0, 1.0), 0.5),
        pytest.param(3.0, Gaussian(), 2.0, marks=pytest.mark.slow),
        (1.5, Uniform([0, 0], [1, 2]), [0.5, 3.0]),
        (2.5, Gaussian(1.0, dim=3), 1.0),
    ],
)
def test_ritz_tails_decrease_from_the_trace_at_the_known_rate(nu, inputs, lengthscale):
    s = Ritz(Matern(nu, variance=2.0, lengthscale=lengthscale), inputs)
    logs = s.log_tail(np.unique(np.logspace(0, 9, 60).round()) - 1.0)
    assert logs[0] == pytest.approx(np.log(2.0), abs=1e-12)
    assert (np.diff(logs) <= 1e-12).all()
    slope = (s.log_tail(10**13) - s.log_tail(10**12)) / np.log(10.0)
    assert slope == pytest.approx(-2.0 * nu / inputs.dim, rel=0.06)


@pytest.mark.parametrize(
    ("nu", "inputs"),
    one_in(
        2,
        [
            (0.5, Gaussian()),
            (0.8, Gaussian()),
            (2.5, Uniform(0.0, 3.0)),
            (0.8, Uniform(0.0, 3.0)),
            (1.2, Uniform(0.0, 3.0)),
            (2.5, Gaussian()),
        ],
    ),
)
def test_ritz_tail_is_the_trace_less_the_eigenvalues(nu, inputs):
    s = Ritz(Matern(nu), inputs)
    values = s.eigenvalues(8)
    assert s.tail(8) == pytest.approx(1.0 - values.sum(), rel=2e-3)
    assert s.tail(8) >= (1.0 - values.sum()) * (1.0 - 1e-10)


def test_per_dimension_lengthscales_only_matter_relative_to_the_law():
    a = Ritz(Matern(1.5, lengthscale=[0.5, 2.0]), Uniform([0, 0], [1, 2])).eigenvalues(20)
    b = Ritz(Matern(1.5, lengthscale=1.0), Uniform([3, 0], [5, 1])).eigenvalues(20)
    assert a == pytest.approx(b, rel=1e-12)


def test_weyl_starts_at_the_trace_and_reaches_the_closed_constant():
    law = WeylLaw(Matern(1.5, lengthscale=0.2), Uniform())
    constant = MaternUniform(Matern(1.5, lengthscale=0.2), Uniform()).decay_constant(10**9)
    assert law.log_tail(np.array([0.0, 1e-3])) == pytest.approx([0.0, 0.0], abs=2e-3)
    assert law.log_value(np.array([1e6])) == pytest.approx(np.log(constant) - 4.0 * np.log(1e6), abs=1e-3)
