"""Mean functions: fixed, with fitted coefficients, and with coefficients that are integrated out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fitting import ExactGP
from gpbounds.kernels import Constant, Linear, Matern, SquaredExponential
from gpbounds.means import LinearMean
from gpbounds.renyi import evidence, fitted_mean, log_evidence
from gpbounds.renyi.models import Model

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed: int, N: int = 25, D: int = 2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * rng.uniform(0.5, 20.0, D) + rng.uniform(-50.0, 50.0, D)
    kernel = Matern(1.5, rng.uniform(0.1, 3.0), rng.uniform(0.5, 20.0))
    return rng, X, kernel, float(rng.uniform(0.01, 1.0)), rng.uniform(-9.0, 9.0) + X @ rng.standard_normal(D)


@given(seed=SEEDS, kind=st.sampled_from(["constant", "linear"]))
def test_no_other_coefficients_have_more_evidence(seed: int, kind: str) -> None:
    rng, X, kernel, noise, trend = problem(seed)
    y = trend + rng.standard_normal(25)
    best = fitted_mean(kernel, X, y, noise=noise, mean=kind)
    A = kernel(X) + noise * np.eye(25)
    H = np.ones((25, 1)) if kind == "constant" else np.column_stack([np.ones(25), X])
    solved = np.linalg.solve(A, np.column_stack([H, y - best(X)]))
    assert np.abs(H.T @ solved[:, -1]).max() <= 1e-8 * (np.abs(H).T @ np.abs(solved[:, -1])).max()  # normal equations
    at_best = log_evidence(kernel, X, y - best(X), noise=noise)
    for _ in range(5):
        step = 0.1 * rng.standard_normal(3)
        slopes = None if kind == "constant" else np.asarray(best.slopes) + step[1:]
        other = LinearMean(best.intercept + step[0], slopes)
        assert log_evidence(kernel, X, y - other(X), noise=noise) <= at_best + 1e-9 * abs(at_best)


@given(seed=SEEDS)
def test_a_mean_that_was_fitted_moves_with_the_data(seed: int) -> None:
    """y + a + bᵀx has the mean of y, plus a + bᵀx: residuals and evidence do not depend on a trend."""
    rng, X, kernel, noise, trend = problem(seed)
    y = rng.standard_normal(25)
    one, other = (fitted_mean(kernel, X, v, noise=noise, mean="linear") for v in (y, y + trend))
    np.testing.assert_allclose((y + trend) - other(X), y - one(X), atol=1e-8 * np.abs(trend).max())
    model = Model(kernel, noise, X[:6], other)
    lower, upper = evidence(kernel, X, model.residuals(X, y + trend), model.Z, noise=noise)
    truth = multivariate_normal(other(X), kernel(X) + noise * np.eye(25)).logpdf(y + trend)
    assert float(lower) - 1e-7 * abs(truth) <= truth <= float(upper) + 1e-7 * abs(truth)


def test_coefficients_are_integrated_out_by_constant_and_linear_kernels() -> None:
    """Predictions of kernel + Constant + Linear are the Gaussian posterior over (β, f), computed jointly."""
    rng = np.random.default_rng(1)
    X, new, kernel, noise = rng.standard_normal((20, 2)), rng.standard_normal((6, 2)), SquaredExponential(0.7), 0.2
    y = 2.0 - X[:, 0] + 0.3 * rng.standard_normal(20)
    b, B = 4.0, np.array([1.5, 0.5])
    model = ExactGP(kernel + Constant(b) + Linear(B), noise=noise, optimizer=None).fit(X, y)
    H, at = np.column_stack([np.ones(20), X]), np.column_stack([np.ones(6), new])
    A = kernel(X) + noise * np.eye(20)
    precision = np.diag(1.0 / np.append(b, B)) + H.T @ np.linalg.solve(A, H)
    beta = np.linalg.solve(precision, H.T @ np.linalg.solve(A, y))
    cross = np.linalg.solve(A, kernel(X, new))
    rest = at - cross.T @ H
    mean = cross.T @ y + rest @ beta
    variance = kernel.diag(new) - (kernel(X, new) * cross).sum(axis=0) + (rest @ np.linalg.inv(precision) * rest).sum(1)
    computed, spread = model.predict(new, return_std=True)
    np.testing.assert_allclose(computed, mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(spread**2, variance, rtol=1e-8)
    wide = kernel + Constant(1e6) + Linear(1e6)
    vague = ExactGP(wide, noise=noise, optimizer=None).fit(X, y).predict(new)
    fitted = fitted_mean(kernel, X, y, noise=noise, mean="linear")
    known = ExactGP(kernel, noise=noise, optimizer=None).fit(X, y - fitted(X)).predict(new) + fitted(new)
    np.testing.assert_allclose(vague, known, atol=1e-5)  # the limit of vague priors is the fitted mean


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fitted_mean(Matern(0.5), [0.0, 1.0, 2.0], [0.0, 1.0, 1.0], noise=0.1, mean="cubic"), "mean: expected"),
        (lambda: fitted_mean(Matern(0.5), [0.0, 1.0], [0.0, 1.0], noise=0.1, mean="linear"), "more than 2 rows"),
        (lambda: fitted_mean(Matern(0.5), np.ones((4, 1)), np.ones(4), noise=0.1, mean="linear"), "got a constant one"),
        (
            lambda: fitted_mean(Matern(0.5), np.outer(np.arange(5.0), [1, 2]), np.ones(5), noise=0.1, mean="linear"),
            "got dependent ones",
        ),
        (lambda: fitted_mean(Matern(0.5), np.zeros((3, 1)), np.zeros((3, 2)), noise=0.1), r"y: expected shape \(3,\)"),
        (lambda: LinearMean(np.nan), "intercept: expected a finite number"),
        (lambda: LinearMean(0.0, [[1.0]]), "slopes: expected one for each column"),
        (lambda: LinearMean(0.0, [1.0, 2.0])(np.zeros((2, 3))), "expected 2 column"),
    ],
)
def test_bad_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", ["constant", "linear"])
def test_equal_noise_of_all_rows_is_one_noise(kind: str) -> None:
    _, X, kernel, noise, trend = problem(3)
    y = trend + np.sin(X[:, 0])
    one, other = (fitted_mean(kernel, X, y, noise=given, mean=kind) for given in (noise, np.full(25, noise)))
    np.testing.assert_allclose(one(X), other(X), rtol=1e-9)
