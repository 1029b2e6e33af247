"""The posterior that updates a prior of other rows: closed forms, what it never loses, gradients, failure frequency."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from fitting import ExactGP, SparseGP
from fitting.certifying.data_prior import data_prior
from fitting.data_priors.prior_law import PriorLaw, one_point, priors_of
from fitting.data_priors.updates import Aim, Eigenbasis, Update, gaussian_update, law_in, update
from gpbounds import SquaredExponential
from gpbounds.losses import Band, Exponential, Loss, Sign, Squared
from gpbounds.pacbayes import Split, Updated, bound
from gpbounds.pacbayes.certificate.rows import in_memory, raw
from gpbounds.rows.engines import Memory

SEEDS = st.integers(0, 2**32 - 1)
CLAIM = "N-data-prior"
DRAWS, DELTA = 50, 0.1


def rows_of(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose inputs are at least .2 apart, so that K is well conditioned."""
    rng = np.random.default_rng(seed)
    X = rng.permutation(0.6 * np.arange(n) + rng.uniform(0.0, 0.4, n))[:, None]
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def exact_prior(seed: int, n: int = 8) -> tuple[PriorLaw, float, tuple[Any, ...]]:
    """The exact posterior given half of the rows, stated at all of them."""
    X, y = rows_of(seed, n)
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.3, 0.6)))
    noise = float(10.0 ** rng.uniform(-2.0, 0.0))
    first, second = slice(0, n // 2), slice(n // 2, n)
    model = ExactGP(kernel, noise, optimizer=None).fit(X[first], y[first])
    _, moved = one_point(model.kernel_)
    law = priors_of(moved, model.posterior_, X[second])[0]
    assert len(law.Z) == n
    assert law.jitter == 0.0
    return law, noise, (moved, X, y, first, second)


def sums_of(prior: PriorLaw, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G and b."""
    mean, phi, _ = prior.features(X)
    return phi.T @ phi, phi.T @ (y - mean)


@pytest.mark.claim(CLAIM)
@given(seed=SEEDS, log_scale=st.floats(-4.0, 4.0))
def test_the_update_of_an_exact_prior_has_the_closed_form(observe: Observer, seed: int, log_scale: float) -> None:
    """KL = ½[log|I + C/s²| − tr C(C+s²I)⁻¹ + rᵀ(C+s²I)⁻¹C(C+s²I)⁻¹r] at 50 digits, C and r those of P at X₂."""
    prior, noise, (kernel, X, y, first, second) = exact_prior(seed)
    G, b = sums_of(prior, X[second], y[second])
    eigenvalues, U = np.linalg.eigh(G)
    scale = float(np.exp(log_scale))
    q = law_in(U, *gaussian_update(np.maximum(eigenvalues, 0.0), U.T @ b, scale))
    with mp.workdps(50):

        def k(a: np.ndarray, c: np.ndarray) -> Any:
            length, v = mp.mpf(kernel.lengthscale), mp.mpf(kernel.variance)
            return mp.matrix([[v * mp.exp(-(((mp.mpf(p) - mp.mpf(r)) / length) ** 2) / 2) for r in c] for p in a])

        X1, X2 = X[first, 0].tolist(), X[second, 0].tolist()
        A = (k(X1, X1) + mp.mpf(noise) * mp.eye(len(X1))) ** -1
        C = k(X2, X2) - k(X2, X1) * A * k(X1, X2)
        r = mp.matrix(y[second].tolist()) - k(X2, X1) * A * mp.matrix(y[first].tolist())
        s2 = mp.mpf(scale)
        B = (C + s2 * mp.eye(len(X2))) ** -1
        W, z = C * B, B * r
        trace = sum(W[i, i] for i in range(len(X2)))
        value = (mp.log(mp.det(mp.eye(len(X2)) + C / s2)) - trace + (z.T * C * z)[0]) / 2
    observe.equal(CLAIM, q.kl, float(value), rtol=1e-9, atol=1e-12)


@pytest.mark.claim(CLAIM)
@given(seed=SEEDS)
def test_no_certified_row_moves_the_prior(observe: Observer, seed: int) -> None:
    """P's law of f, its jitter included, is the same for other certified rows: near ones, far ones, copies."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(0.0, 5.0, (12, 1)), rng.standard_normal(12)  # close rows: a jitter is needed
    kernel = SquaredExponential(1.3, float(rng.uniform(0.5, 2.0)))
    model = ExactGP(kernel, 0.05, optimizer=None).fit(X, y)
    new = np.linspace(-2.0, 8.0, 7)[:, None]
    (own,) = priors_of(kernel, model.posterior_, X[:0])
    at_own, phi, residual = own.features(new)
    variance = residual + (phi * phi).sum(axis=1)
    for others in (rng.uniform(4.0, 9.0, (5, 1)), X[:5] + 1e-9, np.linspace(-3.0, 9.0, 8)[:, None]):
        for prior in priors_of(kernel, model.posterior_, others):
            M = len(own.Z)
            observe.holds(CLAIM, prior.jitter == own.jitter and bool((prior.Z[:M] == own.Z).all()))
            record = Updated(prior.Z, prior.mean, prior.factor, 0.0 * prior.mean, np.eye(len(prior.Z)), prior.jitter)
            observe.equal(CLAIM, record.added, len(prior.Z) - M)
            at, phi, residual = prior.features(new)
            observe.equal(CLAIM, at, at_own, rtol=1e-4, atol=1e-5)
            observe.equal(CLAIM, residual + (phi * phi).sum(axis=1), variance, rtol=1e-4, atol=1e-5)


@pytest.mark.claim(CLAIM)
@given(seed=SEEDS)
def test_the_update_with_the_prior_s_noise_is_the_posterior_given_all_rows(observe: Observer, seed: int) -> None:
    prior, noise, (kernel, X, y, _, second) = exact_prior(seed)
    G, b = sums_of(prior, X[second], y[second])
    eigenvalues, U = np.linalg.eigh(G)
    q = law_in(U, *gaussian_update(np.maximum(eigenvalues, 0.0), U.T @ b, noise))
    new = np.linspace(-1.0, 6.0, 9)[:, None]
    at_rows, phi, residual = prior.features(new)
    half = phi @ q.factor
    whole = ExactGP(kernel, noise, optimizer=None).fit(X, y)
    mean, std = whole.predict(new, return_std=True)
    observe.equal(CLAIM, at_rows + phi @ q.mean[:, 0], mean, rtol=1e-7, atol=1e-9)
    observe.equal(CLAIM, residual + (half**2).sum(axis=1), std**2, rtol=1e-6, atol=1e-9)


@pytest.mark.claim(CLAIM)
@example(seed=455, loss=Band(0.4), trained=False)  # an eigenbasis whose UUᵀ is I up to rounding only
@given(seed=SEEDS, loss=st.sampled_from([Band(0.4), Squared(1.0), Exponential(0.5)]), trained=st.booleans())
def test_the_bound_is_never_above_that_of_the_prior_s_own_risk(
    observe: Observer, seed: int, loss: Loss, trained: bool
) -> None:
    """s = ∞ is Q = P: R_S(P) costs ln(ξ(n)/δ)/n alone, and an update that helps nobody is not made."""
    prior, _, (_, X, y, _, second) = exact_prior(seed)
    targets = y[second] + 3.0 * (seed % 2)  # a prior that is wrong, too
    aim = Aim(loss, len(targets), 0.05)
    updated = update(prior, Memory([in_memory(X[second], targets)]), aim, trained=trained)
    mean, phi, residual = prior.features(X[second])
    own = loss.expectation(targets, mean, residual + (phi**2).sum(axis=1)).mean()
    observe.upper(CLAIM, updated.bound, float(bound(own, 0.0, len(targets), delta=0.05)), tol=1e-12)
    if np.isinf(updated.scale) and not updated.trained:
        observe.equal(CLAIM, [updated.kl, updated.risk], [0.0, own], rtol=1e-12)
    identity = law_in(np.eye(3), *gaussian_update(np.ones(3), np.ones(3), np.inf))
    observe.holds(CLAIM, identity.kl == 0.0 and (identity.factor == np.eye(3)).all() and not identity.mean.any())


@pytest.mark.claim(CLAIM)
@given(
    seed=SEEDS, loss=st.sampled_from([Band(0.7), Squared(1.0), Sign()]), predictor=st.sampled_from(["gibbs", "mean"])
)
def test_the_gradient_of_the_bound_is_that_of_differences(
    observe: Observer, seed: int, loss: Loss, predictor: str
) -> None:
    rng = np.random.default_rng(seed)
    n, M = 12, 4
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0) if loss.name == "sign" else rng.standard_normal(n)
    if loss.name == "squared" and predictor == "mean":
        predictor = "gibbs"
    at = Eigenbasis(
        Aim(loss, n, 0.05, 0.3, predictor),
        rng.standard_normal((n, M)),
        rng.standard_normal(n),
        rng.uniform(0.1, 1.0, n),
        y,
    )
    x = 0.5 * rng.standard_normal(2 * M)
    value, slopes = at.value_and_slopes(x)
    observe.equal(CLAIM, value, at.bounds([(x[:M], np.exp(x[M:]))]), rtol=1e-12)
    for i in range(2 * M):
        step = np.zeros(2 * M)
        step[i] = 1e-6
        difference = (at.value_and_slopes(x + step)[0] - at.value_and_slopes(x - step)[0]) / 2e-6
        observe.equal(CLAIM, slopes[i], difference, rtol=1e-5, atol=1e-7)


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0.0, 4.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.5 * rng.standard_normal(n)


@pytest.mark.claim(CLAIM)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 4))])
def test_failure_frequency_of_the_whole_procedure(observe: Observer, block: int) -> None:
    """P trained on half of the rows, hyperparameters included, Q by the bound on the others; the law is known.

    The true Gibbs risk is an integral over x of the band's mean under N(sin x − m(x), v(x) + ¼).
    """
    loss, n, failures = Band(0.5), 24, 0
    for seed in range(block * DRAWS, (block + 1) * DRAWS):
        X, y = drawn(np.random.default_rng([seed, 77]), 2 * n)
        rows, split = raw(X, y), Split(seed=seed)
        prior_rows: Any = rows.prior(split)
        settings: dict[str, Any] = {"n_inducing": 4, "max_iter": 10, "random_state": 0}
        settings["optimizer"] = None if seed % 4 else "lbfgs"
        model = SparseGP("vfe", SquaredExponential(), **settings).fit(prior_rows.X, prior_rows.y)
        ((certificate, updated),) = data_prior(model, rows, [loss], delta=DELTA, split=split)
        assert certificate.rows == n
        failures += true_risk(updated, loss) > certificate.bound
    observe.frequency(CLAIM, failures, DRAWS, DELTA)


def true_risk(updated: Update, loss: Loss) -> float:
    """The Gibbs risk under the law of `drawn`, by the trapezoidal rule."""
    grid = np.linspace(0.0, 4.0, 401)[:, None]
    weights = np.full(401, 1.0 / 400.0)
    weights[[0, -1]] /= 2.0
    mean, phi, residual = updated.prior.features(grid)
    half = phi @ updated.q.factor
    variance = residual + (half * half).sum(axis=1) + 0.25
    return float(weights @ loss.expectation(np.sin(grid[:, 0]), mean + phi @ updated.q.mean[:, 0], variance))
