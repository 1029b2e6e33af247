"""Worlds in which the true Gibbs risk of any GP posterior is a finite sum, and whole experiments in them, vectorised.

x is uniform on n points, y takes finitely many values at each; so R(Q) = Σ P(x, y) E ℓ(y, v) exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.losses import Loss


@dataclass(frozen=True)
class World:
    """x uniform on ``points`` (n, D); y = ``values`` (n, k) with probabilities ``weights`` (n, k) given x."""

    points: Any
    values: Any
    weights: Any

    @property
    def n(self) -> int:
        return len(self.points)

    def draws(self, rng: np.random.Generator, count: int, N: int) -> tuple[Any, Any]:
        """Indices of x (count, N) and targets (count, N) of ``count`` independent data sets."""
        at = rng.integers(self.n, size=(count, N))
        which = (rng.random((count, N))[..., None] > np.cumsum(self.weights, axis=1)[at]).sum(axis=-1)
        return at, self.values[at, np.minimum(which, self.values.shape[1] - 1)]

    def true_risk(self, loss: Loss, mean: Any, variance: Any) -> Any:
        """R(Q) for marginals (..., n) of Q at the points."""
        inner = loss.expectation(self.values, mean[..., None], variance[..., None])
        return (inner * self.weights).sum(axis=(-1, -2)) / self.n


def noisy(n: int, noise: float, signal: float, seed: int = 0) -> World:
    """y = signal·sin(3x) ± noise, either sign with probability ½, on n points in [−1, 1]."""
    points = np.linspace(-1.0, 1.0, n)[:, None]
    clean = signal * np.sin(3.0 * points)
    return World(points, clean + np.array([-noise, noise]), np.full((n, 2), 0.5))


@dataclass(frozen=True)
class Fitted:
    """Exact GP posteriors of many data sets: marginals at the n points, and KL(Q‖P)."""

    mean: Any
    variance: Any
    kl: Any


def fits(kernel: Any, world: World, at: Any, y: Any, noises: Sequence[float]) -> Iterator[Fitted]:
    """For data sets (count, N) and each noise variance, by eigenvalues of K_NN in batches; P-20, P-23."""
    K = kernel(world.points)
    values, basis = np.linalg.eigh(K[at[:, :, None], at[:, None, :]])
    values = np.maximum(values, 0.0)
    rotated = np.squeeze(y[:, None, :] @ basis, 1)
    cross = K[:, at].transpose(1, 0, 2) @ basis
    for noise in noises:
        x = values / noise
        weights = cross / (noise + values)[:, None, :]
        mean = np.squeeze(weights @ rotated[:, :, None], 2)
        variance = np.diag(K) - (weights * cross).sum(axis=2)
        kl = 0.5 * (np.log1p(x) - x / (1.0 + x) + x * (rotated / (1.0 + x)) ** 2 / noise).sum(axis=1)
        yield Fitted(mean, np.maximum(variance, 0.0), kl)


def risks(world: World, loss: Loss, q: Fitted, at: Any, y: Any) -> tuple[Any, Any]:
    """R_S(Q) and R(Q), each (count,)."""
    rows = np.arange(len(at))[:, None]
    empirical = loss.expectation(y, q.mean[rows, at], q.variance[rows, at]).mean(axis=1)
    return empirical, world.true_risk(loss, q.mean, q.variance)


def mode_scaled(rng: np.random.Generator, draws: int, N: int, size: int) -> Iterator[tuple[Any, Any]]:
    """(R_S, R) of Q = P ≈ 0, ℓ = 1{|y − c| > 0.4}, y uniform on 0 ... size−1: for c fixed, and c the sample's mode."""
    samples = rng.integers(size, size=(draws, N))
    truth = np.full(draws, 1.0 - 1.0 / size)
    yield (samples != 0).mean(axis=1), truth
    most = np.array([np.bincount(row).max() for row in samples])
    yield 1.0 - most / N, truth
