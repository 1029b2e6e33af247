"""Stochastic gradient descent on sampled direct losses: to which optimum it leads.

For a free q(v) = N(w, CCᵀ) with fixed features, descent with the sampled losses of L draws is descent on the mean of
the sampled objective, h_L, whose optimum differs from that of the direct loss h (L = ∞).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fitting.objectives.losses import Sampling
from gpbounds.likelihoods import Bernoulli
from gpbounds.montecarlo.addressed import Draws

N, M, RUNS, STEPS = 40, 3, 12, 1500
LOGIT = Bernoulli("logit")
BELOW, DIAGONAL = np.tril_indices(M), np.arange(M)
START = np.zeros(M + M * (M + 1) // 2)


@pytest.fixture(scope="module")
def rows():
    """Features (M, N), residual variances and labels."""
    rng = np.random.default_rng(0)
    V = 0.9 * rng.standard_normal((M, N))
    y = np.where(rng.uniform(size=N) < 1.0 / (1.0 + np.exp(-2.0 * V[0])), 1.0, -1.0)
    return V, rng.uniform(0.2, 1.0, N), y


def law(x):
    """w and C of vectors with the logarithm of the diagonal of C."""
    C = np.zeros((*x.shape[:-1], M, M))
    C[..., BELOW[0], BELOW[1]] = x[..., M:]
    C[..., DIAGONAL, DIAGONAL] = np.exp(C[..., DIAGONAL, DIAGONAL])
    return x[..., :M], C


def derivatives(x, V, r, slopes):
    """∂(Σℓ + KL)/∂x of several vectors, from ``slopes(m, s)``: the derivatives of the losses."""
    w, C = law(x)
    turned = np.einsum("...kj,ki->...ji", C, V)
    in_mean, in_variance = slopes(w @ V, r + (turned**2).sum(axis=-2))
    in_factor = np.tril(2.0 * np.einsum("ki,...i,...ji->...kj", V, in_variance, turned) + C)
    in_factor[..., DIAGONAL, DIAGONAL] = in_factor[..., DIAGONAL, DIAGONAL] * C[..., DIAGONAL, DIAGONAL] - 1.0
    return np.concatenate([in_mean @ V.T + w, in_factor[..., BELOW[0], BELOW[1]]], axis=-1)


def objective(x, V, r, y, L):
    """h_2 by a product rule of 24² nodes, or h for L = ∞, and its derivatives."""
    w, C = law(x)
    m, s = w @ V, r + ((C.T @ V) ** 2).sum(axis=0)
    kl = 0.5 * ((C**2).sum() + w @ w - M) - np.log(np.diagonal(C)).sum()
    if L == np.inf:
        values, in_mean, in_variance = (-part for part in LOGIT.log_expected_density(y, m, s, gradient=True))
        return values.sum() + kl, derivatives(x, V, r, lambda m, s: (in_mean, in_variance))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    both = np.stack([part.ravel() for part in np.meshgrid(nodes, nodes)])
    W = np.outer(weights, weights).ravel() / weights.sum() ** 2
    signs = y[:, None, None]
    p = 1.0 / (1.0 + np.exp(-signs * (m[:, None, None] + np.sqrt(s)[:, None, None] * both)))
    share = p / p.sum(axis=1, keepdims=True)
    slope = share * signs * (1.0 - p)
    in_mean, in_variance = -slope.sum(axis=1) @ W, -((slope * both).sum(axis=1) @ W) / (2.0 * np.sqrt(s))
    return -(np.log(p.mean(axis=1)) @ W).sum() + kl, derivatives(x, V, r, lambda m, s: (in_mean, in_variance))


def descend(rows, samples, method="bmc"):
    """Means over the second half of each run, whose steps have the lengths 0.2·t^(−0.7)."""
    V, r, y = rows
    sampling, targets = Sampling(method, Draws.of(1), samples), np.tile(y, RUNS)[:, None]
    x, total = np.tile(START, (RUNS, 1)), np.zeros((RUNS, START.size))
    for t in range(1, STEPS + 1):
        loss = sampling.loss(LOGIT, t).at(slice(0, RUNS * N))

        def slopes(m, s, loss=loss):
            expected = loss(targets, m.reshape(-1, 1), s.ravel())
            return expected.in_mean.reshape(RUNS, N), expected.in_variance.reshape(RUNS, N)

        x = x - 0.2 * t**-0.7 * derivatives(x, V, r, slopes)
        if t > STEPS // 2:
            total += x / (STEPS - STEPS // 2)
    return total


@pytest.fixture(scope="module")
def optima(rows):
    options = {"jac": True, "method": "L-BFGS-B", "options": {"gtol": 1e-9, "ftol": 1e-15}}
    return {L: minimize(objective, START, (*rows, L), **options).x for L in (2, np.inf)}


def test_the_optima_have_no_slope_and_differ(rows, optima):
    for L, best in optima.items():
        value, slope = objective(best, *rows, L)
        assert np.abs(slope).max() < 1e-6
        moved = best + 1e-6 * np.random.default_rng(0).standard_normal(best.size)
        assert objective(moved, *rows, L)[0] == pytest.approx(value, abs=1e-9)
        direction = np.cos(np.arange(best.size))
        up, down = (objective(START + sign * 1e-5 * direction, *rows, L)[0] for sign in (1.0, -1.0))
        assert objective(START, *rows, L)[1] @ direction == pytest.approx((up - down) / 2e-5, rel=1e-8)
    assert np.linalg.norm(optima[2] - optima[np.inf]) > 0.3


def test_with_two_samples_it_ends_at_the_optimum_of_their_mean(rows, optima):
    """Within 4 standard errors in each coordinate; the optimum of the direct loss is more than 50 away (D-22)."""
    ends = descend(rows, 2)
    mean, error = ends.mean(axis=0), ends.std(axis=0, ddof=1) / np.sqrt(RUNS)
    assert (np.abs(mean - optima[2]) < 4.0 * error).all()
    assert (np.abs(mean - optima[np.inf]) / error).max() > 50.0


@pytest.mark.slow
def test_with_more_and_more_samples_it_approaches_the_direct_loss(rows, optima):
    ends = descend(rows, lambda t: 1 + round(0.7 * t**0.5)).mean(axis=0)
    apart = np.linalg.norm(optima[2] - optima[np.inf])
    assert np.linalg.norm(ends - optima[np.inf]) < 0.15 * apart
    assert np.linalg.norm(ends - optima[2]) > 0.8 * apart


@pytest.mark.slow
def test_product_sampling_ends_at_the_optimum_of_the_direct_loss(rows, optima):
    """With one sample of each row, because its derivatives are unbiased (D-10)."""
    ends = descend(rows, 1, "ups").mean(axis=0)
    apart = np.linalg.norm(optima[2] - optima[np.inf])
    assert np.linalg.norm(ends - optima[np.inf]) < 0.15 * apart
    assert np.linalg.norm(ends - optima[2]) > 0.8 * apart
