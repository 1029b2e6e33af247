"""Fourier features of rational quadratic and periodic kernels, sums, products and kernels on columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fitting import LowRankGP
from fitting.divergence import low_rank_kl
from fitting.estimators import load
from fitting.features import FeatureKernel, FourierMap, MixedMap
from fitting.features.spectrum import gamma_scale, largest_lines
from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
)
from gpbounds.lowrank import fourier_kl

SEEDS = st.integers(0, 2**32 - 1)
START: dict[str, Kernel] = {
    "rational quadratic": RationalQuadratic(0.5, 1.4, [1.0, 2.0]),
    "product": SquaredExponential(1.2, 1.5) * Periodic([2.0, 3.0], 0.7, 1.2),
    "sum": Constant(0.4) + Matern(1.5, 0.6, 0.8).on([1]) + RationalQuadratic(3.0).on([0]) * Periodic(1.5).on([1]),
}


def test_scales_of_a_large_shape() -> None:
    """At 1000 both ways agree; in the limit √shape·log τ has the law N(0, 1), and the derivative is −½ of log τ."""
    uniform = 1.0 - np.random.default_rng(0).random(50)
    below, above = gamma_scale(999.9999999, uniform), gamma_scale(1000.0000001, uniform)
    for first, second in zip(below, above, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-10)
    for shape in (1e8, 1e14):
        root, slope = gamma_scale(shape, uniform)
        np.testing.assert_allclose(
            2.0 * np.log(root) * np.sqrt(shape), norm.ppf(uniform), atol=10.0 / np.sqrt(shape) + 1e-2
        )
        np.testing.assert_allclose(2.0 * slope, -np.log(root), atol=10.0 / shape + 1e-12)


@pytest.mark.parametrize("name", START)
def test_frequencies_have_the_law_of_the_kernel_at_every_hyperparameter(name: str) -> None:
    """The mean of 60 000 cosines is k(x, x') to five standard deviations, at the start and away from it."""
    kernel, X = START[name], np.random.default_rng(0).uniform(-1.0, 1.0, (6, 2))
    features = MixedMap.drawn(kernel, 120_000, X, rng=1)
    moved = kernel.log_parameters + 0.25 * np.random.default_rng(2).standard_normal(kernel.log_parameters.size)
    for parameters in (kernel.log_parameters, moved):
        Xi, at = features(parameters, X), kernel.with_log_parameters(parameters)
        K = at(X)
        spread = 5.0 * np.sqrt(3.0) * K.max() / np.sqrt(features.terms[-1].m)
        np.testing.assert_allclose(Xi @ Xi.T, K, rtol=0.0, atol=spread)
    assert spread < 0.15 * K.max()


@given(seed=SEEDS, D=st.integers(1, 3))
def test_lines_are_the_largest_and_leave_a_positive_semidefinite_rest(seed: int, D: int) -> None:
    """With enough lines Ξ Ξᵀ = K; with few K − ΞΞᵀ is positive semi-definite, and `residual` bounds the exact KL."""
    rng = np.random.default_rng(seed)
    kernel = Periodic(rng.uniform(0.5, 3.0, D), 1.3, rng.uniform(0.8, 2.0, D))
    X = rng.uniform(-2.0, 2.0, (9, D))
    few, many = (MixedMap.drawn(kernel, rank, X, rng=0) for rank in (10, (16, 200, 2400)[D - 1] * 2))
    Xi = many(kernel.log_parameters, X)
    np.testing.assert_allclose(Xi @ Xi.T, kernel(X), atol=(1e-8, 1e-6, 1e-3)[D - 1])
    weights = [term.draws[0].at(kernel).logs for term in (*few.terms, *many.terms)]
    assert (np.diff(weights[1].round(9)) <= 0.7).all()  # in decreasing order, but for log 2 of the line 0
    np.testing.assert_allclose(weights[0], weights[1][: len(weights[0])])
    lines = largest_lines(kernel, 40, D).numbers
    assert len({tuple(np.sign(row[np.flatnonzero(row)[0]]) * row) if row.any() else tuple(row) for row in lines}) == 40
    moved = kernel.log_parameters + 0.3 * rng.standard_normal(kernel.log_parameters.size)
    rest = kernel.with_log_parameters(moved)(X) - few(moved, X) @ few(moved, X).T
    assert np.linalg.eigvalsh(rest).min() >= -1e-13
    known = low_rank_kl(FeatureKernel(few, moved), X, noise=0.3)
    assert known.residual is not None
    assert known.exact is not None
    assert known.exact <= known.residual.value
    assert known.residual.terms["trace"] == pytest.approx(np.trace(rest), rel=1e-9, abs=1e-10)
    assert known.prior is None
    assert known.reason == "The lines of a spectrum are not random: `residual` bounds what they leave out."


X = np.random.default_rng(0).uniform(-2.0, 2.0, (80, 2))
Y = np.sin(3.0 * X[:, 0]) + 0.5 * np.cos(X[:, 1]) + 0.1 * np.random.default_rng(1).standard_normal(80)


@pytest.mark.parametrize(
    "kernel",
    [RationalQuadratic(0.8, 1.0, [1.0, 1.0]), Periodic(2.0).on([0]) + SquaredExponential().on([1]), START["sum"]],
    ids=["rational quadratic", "periodic", "sum"],
)
def test_models_are_trained_in_all_hyperparameters_and_saved(kernel: Kernel, tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        still = LowRankGP(rank=40, kernel=kernel, noise=0.1, optimizer=None, random_state=0).fit(X, Y)
        model = LowRankGP(rank=40, kernel=kernel, noise=0.1, max_iter=40, random_state=0).fit(X, Y)
    assert model.objective_ > still.objective_ + 1.0
    moved = np.abs(model.kernel_.log_parameters - kernel.log_parameters)
    assert (moved > 1e-4).all()  # every hyperparameter was trained
    assert model.frequencies_.shape == (20, 2)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))
    assert again.kernel_.log_parameters.tolist() == model.kernel_.log_parameters.tolist()
    alone = isinstance(kernel, RationalQuadratic)
    assert (model.kl_bound_.prior is not None) == alone == (model.kl_bound_.reason == "")
    if alone:
        stated = fourier_kl(model.kernel_, 80, 20, noise=model.noise_, features="classical")
        assert model.kl_bound_.prior.value == stated.value


def test_a_rational_quadratic_model_and_its_limit() -> None:
    """shape → ∞ is the squared exponential kernel: the same normal draws give nearly the same features."""
    points, seed = X[:7], 3
    mixture = MixedMap.drawn(RationalQuadratic(1e6, 1.3, 0.9), 12, points, seed)
    normal = FourierMap.drawn(SquaredExponential(1.3, 0.9), 12, points, seed)
    np.testing.assert_allclose(
        mixture(mixture.kernel.log_parameters, points), normal(normal.kernel.log_parameters, points), atol=0.02
    )


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Linear(), r"kernel: expected a function of x - x' for Fourier features, made of .*, got Linear"),
        (SquaredExponential() * Polynomial(2), r"kernel: expected a function of x - x'.*got Polynomial"),
        (SquaredExponential().on([4]), r"columns: expected numbers below 2"),
        (Periodic([1.0, 2.0, 3.0]), r"expected inputs with 3 dimension"),
        (RationalQuadratic(1.0, 1.0, [1.0, 2.0, 3.0]), r"expected inputs with 3 dimension"),
    ],
)
def test_other_kernels_are_refused_by_name(kernel: Kernel, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LowRankGP(rank=10, kernel=kernel).fit(X, Y)


def test_ranks_that_leave_a_term_without_a_frequency_are_refused() -> None:
    kernel = Constant() + Periodic() + SquaredExponential()
    with pytest.raises(ValueError, match=r"rank: expected an even number >= 6.*3 terms of the kernel, got 4"):
        MixedMap.drawn(kernel, 4, X, rng=0)
    assert [term.m for term in MixedMap.drawn(kernel, 12, X, rng=0).terms] == [1, 3, 2]
    with pytest.raises(ValueError, match=r"rank: expected an even number"):
        LowRankGP(rank=11, kernel=kernel).fit(X, Y)
    with pytest.raises(ValueError, match=r"'mercer'|SquaredExponential"):
        LowRankGP("mercer", rank=11, kernel=RationalQuadratic()).fit(X, Y)
