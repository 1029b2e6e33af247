"""Input laws: samples have the stated law; bad parameters raise errors."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gpbounds.errors import NonFinite
from gpbounds.inputs import Empirical, Gaussian, Uniform

scales = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4)


@given(stds=scales, seed=st.integers(0, 2**32 - 1))
def test_gaussian_draws_are_gaussian_with_those_stds(stds, seed):
    law = Gaussian(stds)
    assert law.dim == len(stds)
    X = law.sample(2000, np.random.default_rng(seed))
    assert X.shape == (2000, len(stds))
    for column, std in zip(X.T, stds, strict=True):
        assert stats.kstest(column / std, "norm").pvalue > 1e-6
    if len(stds) > 1:  # independent columns
        off = np.corrcoef(X.T)[np.triu_indices(len(stds), 1)]
        assert np.abs(off).max() < 6.0 / np.sqrt(2000)


@given(
    low=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=4),
    width=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_uniform_draws_are_uniform_on_the_box(low, width, seed):
    low = np.array(low)
    law = Uniform(low, low + width)
    np.testing.assert_allclose(law.widths, width, rtol=1e-9)
    X = law.sample(2000, np.random.default_rng(seed))
    assert X.shape == (2000, low.size)
    assert (X - low).min() >= 0.0
    assert (X - law.high).max() <= 0.0
    for column, start in zip(X.T, low, strict=True):
        assert stats.kstest((column - start) / width, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("law", [Gaussian(2.0, dim=3), Uniform([0.0, -1.0], 4.0)])
def test_draws_depend_on_the_generator_and_nothing_else(law):
    first, again, other = (law.sample(5, np.random.default_rng(seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(2, 4))
def test_gaussian_draws_have_that_mean_and_covariance(seed, dim):
    """Whitened by the Cholesky factor of the covariance, the draws are standard normal: each column, and products."""
    rng = np.random.default_rng(seed)
    A = np.exp(2.0 * rng.normal(size=(dim, 1))) * (rng.uniform(-1.0, 1.0, (dim, dim)) + 1.5 * np.eye(dim))
    law = Gaussian(mean=100.0 * rng.normal(size=dim), cov=A @ A.T)
    np.testing.assert_allclose(law.stds, np.linalg.norm(A, axis=1), rtol=1e-12)
    white = np.linalg.solve(np.linalg.cholesky(A @ A.T), (law.sample(2000, rng) - law.means).T)
    assert all(stats.kstest(row, "norm").pvalue > 1e-6 for row in white)
    assert np.abs(white @ white.T / 2000 - np.eye(dim)).max() < 6.0 * np.sqrt(2.0 / 2000)


def test_a_mean_moves_the_draws():
    still, moved = Gaussian([1.0, 2.0]), Gaussian([1.0, 2.0], mean=[3.0, -4.0])
    first, second = (law.sample(6, np.random.default_rng(0)) for law in (still, moved))
    np.testing.assert_array_equal(second, first + np.array([3.0, -4.0]))
    assert Gaussian(mean=[1.0, 2.0]).dim == 2
    np.testing.assert_array_equal(Gaussian(2.0, dim=3, mean=1.0).means, [1.0, 1.0, 1.0])


def test_a_diagonal_covariance_is_recorded_as_standard_deviations():
    assert Gaussian(cov=np.diag([1.0, 4.0])) == Gaussian([1.0, 2.0])
    assert Gaussian(cov=[[9.0]]) == Gaussian([3.0])
    assert not Gaussian(cov=np.diag([1.0, 4.0])).correlated


def test_a_law_with_a_covariance_is_a_value():
    cov = np.array([[1.0, 0.25], [0.25, 4.0]])
    law, same = Gaussian(cov=cov), Gaussian(mean=[0.0, 0.0], cov=cov.tolist())
    assert law == same
    assert hash(law) == hash(same)
    assert law != Gaussian(cov=[[1.0, 0.5], [0.5, 4.0]])
    assert law != Gaussian(cov=cov, mean=1.0)
    assert eval(repr(law)) == law
    assert eval(repr(Gaussian(cov=cov, mean=[1.0, 2.0]))) == Gaussian(cov=cov, mean=[1.0, 2.0])
    assert len(repr(Gaussian(cov=0.5 * np.eye(20) + 0.5))) < 60
    cov[0, 0] = 50.0
    assert law == same


def test_a_number_serves_every_dimension():
    np.testing.assert_array_equal(Gaussian(2.0, dim=3).stds, [2.0, 2.0, 2.0])
    assert Gaussian().dim == 1
    assert Gaussian([1.0, 2.0], dim=2).dim == 2
    law = Uniform(0.0, [1.0, 2.0, 3.0])
    assert law.dim == 3
    np.testing.assert_array_equal(law.widths, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(Uniform().widths, [1.0])


@pytest.mark.parametrize(
    ("law", "same", "other"),
    [
        (Gaussian(2.0), Gaussian(2.0, dim=1), Gaussian(2.0, dim=2)),
        (Gaussian([1.0, 2.0]), Gaussian([1.0, 2.0]), Gaussian([2.0, 1.0])),
        (Gaussian(np.array([1.0, 2.0])), Gaussian(np.array([1.0, 2.0])), Gaussian(np.array([1.0, 3.0]))),
        (Uniform(0.0, 1.0), Uniform(), Uniform(0.0, 2.0)),
        (Uniform(np.zeros(2), np.ones(2)), Uniform(np.zeros(2), np.ones(2)), Uniform(np.zeros(2), [1.0, 2.0])),
    ],
    ids=["number", "list", "array", "interval", "box"],
)
def test_equal_laws_are_equal_and_hash_alike(law, same, other):
    assert law == same
    assert law != other
    assert hash(law) == hash(same)


def test_a_law_is_a_value():
    std, low, high = np.array([1.0, 2.0]), np.zeros(2), np.ones(2)
    gaussian, uniform = Gaussian(std), Uniform(low, high)
    draws = [law.sample(3, np.random.default_rng(0)) for law in (gaussian, uniform)]
    shown = repr(gaussian), repr(uniform)
    std[0] = low[0] = high[1] = -50.0
    for law, before in zip((gaussian, uniform), draws, strict=True):
        np.testing.assert_array_equal(law.sample(3, np.random.default_rng(0)), before)
    assert (repr(gaussian), repr(uniform)) == shown
    with pytest.raises(dataclasses.FrozenInstanceError):
        gaussian.std = 3.0
    with pytest.raises(ValueError, match="read-only"):
        gaussian.stds[0] = 3.0


def test_empirical_is_the_rows():
    X = np.random.default_rng(0).standard_normal((7, 3))
    law = Empirical(X)
    assert (law.N, law.dim) == (7, 3)
    np.testing.assert_array_equal(law.X, X)
    assert "(7, 3)" in repr(law)
    assert len(repr(law)) < 60
    assert Empirical(np.arange(4)).dim == 1  # a vector is a column


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "one", None, 1j, [1.0, 0.0], [[1.0], [2.0, 3.0]]])
def test_std_must_be_positive_and_finite(bad):
    with pytest.raises(ValueError, match=r"^std: expected .*got "):
        Gaussian(bad)


@pytest.mark.parametrize(("std", "dim"), [([1.0, 2.0], 3), ([1.0], 2), ([[1.0, 2.0]], 1), ([[1.0]], 1), ([], 1)])
def test_std_must_have_one_entry_per_dimension(std, dim):
    with pytest.raises(ValueError, match=r"^std: expected .*got "):
        Gaussian(std, dim)


@pytest.mark.parametrize(
    ("cov", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "no negative eigenvalue, got one whose correlation matrix has the eigenvalue -1"),
        ([[1e-12, 2.0], [2.0, 1e12]], "no negative eigenvalue"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric matrix, got 0.5 and 0.4 for columns 0, 1"),
        ([[1.0, 0.0], [0.0, 0.0]], "positive variance of every column, got 0 in column 1"),
        ([[-1.0, 0.0], [0.0, 1.0]], "positive variance of every column, got -1 in column 0"),
        ([1.0, 2.0], r"square matrix, got shape \(2,\)"),
        ([[1.0, 0.5, 0.1], [0.5, 1.0, 0.1]], r"square matrix, got shape \(2, 3\)"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite number, got nan"),
        (np.zeros((0, 0)), "square matrix"),
        ("one", "finite numbers"),
    ],
)
def test_cov_must_be_a_covariance(cov, message):
    with pytest.raises(ValueError, match=rf"^cov: expected .*{message}"):
        Gaussian(cov=cov)


def test_parameters_must_fit_together():
    cov = [[1.0, 0.5], [0.5, 1.0]]
    with pytest.raises(ValueError, match=r"^std: expected none with cov.*got 2"):
        Gaussian(2.0, cov=cov)
    with pytest.raises(ValueError, match=r"^cov: expected .*per dimension \(3\), got shape \(2, 2\)"):
        Gaussian(dim=3, cov=cov)
    for law in (
        {"cov": cov, "mean": [1.0, 2.0, 3.0]},
        {"std": [1.0, 2.0], "mean": [1.0]},
        {"dim": 3, "mean": [1.0, 2.0]},
    ):
        with pytest.raises(ValueError, match=r"^mean: expected a number or one per dimension \([23]\), got shape"):
            Gaussian(**law)
    with pytest.raises(ValueError, match=r"^mean: expected a finite number, got inf"):
        Gaussian(mean=np.inf)


def test_spectra_for_independent_columns_refuse_a_covariance():
    from gpbounds import Matern, SquaredExponential
    from gpbounds.spectra.gaussian import ProductSpectrum
    from gpbounds.spectra.ritz import Ritz

    law = Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]])
    for kind, kernel in ((ProductSpectrum, SquaredExponential()), (Ritz, Matern(1.5))):
        with pytest.raises(ValueError, match=r"^inputs: expected independent columns, got Gaussian\(cov=.*rotates"):
            kind(kernel, law)


@pytest.mark.parametrize("bad", [0, -1, 1.5, np.nan, "two", None, [1, 2]])
def test_dim_must_be_a_whole_number(bad):
    with pytest.raises(ValueError, match=r"^dim: expected (a|one) whole number.*got "):
        Gaussian(1.0, bad)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 0.0), (1.0, 1.0), ([0.0, 2.0], [1.0, 1.0]), ([0.0, 0.0], [1.0, 1.0, 1.0]), ([[0.0]], [[1.0]]), ([], [])],
)
def test_low_must_be_below_high(low, high):
    with pytest.raises(ValueError, match=r"^low, high: expected .*got "):
        Uniform(low, high)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, "zero", None, 1j])
def test_ends_must_be_finite_numbers(bad):
    with pytest.raises(ValueError, match=r"^low: expected .*got "):
        Uniform(bad, 1.0)
    with pytest.raises(ValueError, match=r"^high: expected .*got "):
        Uniform(0.0, bad)


def test_empirical_refuses_what_is_not_data():
    with pytest.raises(NonFinite, match=r"^X: .*row\(s\) \[1\]"):
        Empirical([[0.0, 1.0], [np.nan, 1.0]])
    for bad in (np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2, 2)), 3.0):
        with pytest.raises(ValueError, match=r"^X: expected shape"):
            Empirical(bad)
    with pytest.raises(ValueError, match=r"^X: expected real numbers"):
        Empirical([["a", "b"]])


def test_nothing_warns_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Gaussian([1e-300, 1e300]), Uniform([-1e300, 0.0], [1e300, 1e-300])
