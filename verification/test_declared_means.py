"""A prior with a mean: posterior, KL and risk are those of centred laws and targets; a list of means is paid for."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import SquaredExponential
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, DeclaredMean, Exact, HyperGrid, MeanGrid, Sparse
from gpbounds.pacbayes.certificate.rows import enclose

GRID = HyperGrid.shared(-4.0, 4.0, 8)
KERNEL = SquaredExponential(1.0, 1.0)
LOSS = Band(0.5)


def laws(X: np.ndarray, y: np.ndarray, mean: np.ndarray, noise: float):
    """Prior N(m, K) and posterior of f at the rows in mpmath, by conditioning the joint law of (f, y)."""
    N = len(X)
    K = mp.matrix(N, N)
    for i in range(N):
        for j in range(N):
            K[i, j] = mp.exp(-((mp.mpf(X[i, 0]) - mp.mpf(X[j, 0])) ** 2) / 2)
    m, targets = (mp.matrix([mp.mpf(v) for v in values]) for values in (mean, y))
    gain = K * (K + noise * mp.eye(N)) ** -1
    return (m, K), (m + gain * (targets - m), K - gain * K)


def divergence(q, p) -> mp.mpf:
    """KL of Gaussians in mpmath."""
    (m, S), (n, T) = q, p
    inverse, N = T**-1, len(m)
    gap = n - m
    trace = sum((inverse * S)[i, i] for i in range(N))
    return (trace + (gap.T * inverse * gap)[0] - N + mp.log(mp.det(T) / mp.det(S))) / 2


@pytest.mark.claim("N-prior-mean")
@given(seed=st.integers(0, 2**32 - 1))
def test_posterior_and_kl_are_those_of_the_centred_laws(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2.0, 2.0, 5))[:, None] + 0.3 * np.arange(5)[:, None]
    mean = DeclaredMean("fixed in advance", rng.normal(), (rng.normal(),))
    y = mean.function(X) + rng.standard_normal(5)
    with mp.workdps(40):
        prior, posterior = laws(X, y, mean.function(X), 0.5)
        kl = divergence(posterior, prior)
        losses = [
            1 - (mp.ncdf((y[i] + 0.5 - posterior[0][i]) / s) - mp.ncdf((y[i] - 0.5 - posterior[0][i]) / s))
            for i in range(5)
            for s in [mp.sqrt(posterior[1][i, i])]
        ]
        enclosed = enclose(Exact(0.5), KERNEL, X, mean.apply(X, y), LOSS)
        observe.equal("N-prior-mean", enclosed.kl, kl, rtol=1e-9)
        observe.equal("N-prior-mean", enclosed.risk, sum(losses) / 5, rtol=1e-9)


def rows(rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in three dimensions, and targets that are noise."""
    return rng.uniform(-1.0, 1.0, (N, 3)), 0.6 * rng.standard_normal(N)


def true_risk(certificate: Certificate, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """E ℓ(y − f) over 4000 new rows, f ~ Q rebuilt from the certificate."""
    from gpbounds.divergences import collapsed_posterior

    mean, q = certificate.mean, certificate.posterior
    assert mean is not None
    assert isinstance(q, Sparse)
    about = mean.apply(X, y)
    law = collapsed_posterior(certificate.kernel, X, about, q.Z, noise=q.noise, power=q.power, jitter=q.jitter)
    new_X, new_y = rows(rng, 4000)
    predicted = law.predict(new_X)
    return float(certificate.loss.expectation(mean.apply(new_X, new_y), predicted.mean, predicted.variance).mean())


@pytest.mark.claim("N-prior-mean")
def test_a_mean_from_a_grid_pays_for_the_grid(observe: Observer) -> None:
    """12 rows, four coefficients fitted to them: R_S is too small by fitting, and the bound that pays covers it."""
    rng, grid, delta = np.random.default_rng(0), MeanGrid("linear", edge=2.0, steps=20), 0.2
    kernel = GRID.at([0, 4]).theta
    small = SquaredExponential(kernel["variance"], kernel["lengthscale"])
    failures = too_small = 0
    for _ in range(100):
        X, y = rows(rng, 12)
        mean = grid.nearest(X, y)
        q = Sparse(X[:2], 1.0, 1.0, 1e-8)
        certificate = Certificate.issue(X, y, q, small, grid=GRID, loss=LOSS, delta=delta, mean=mean)
        observe.equal("N-prior-mean", certificate.log_count, math.log(GRID.size * 41**4), rtol=1e-12)
        truth = true_risk(certificate, X, y, rng)
        failures += certificate.bound < truth
        too_small += certificate.risk < truth
    observe.frequency("N-prior-mean", int(failures), 100, delta)
    observe.holds("N-prior-mean", too_small > 75, 100)  # without any payment
