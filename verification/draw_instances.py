"""Small instances in which all subsets Z are enumerated: eigenvalues, laws of Z, and D_α exactly."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.stats import ortho_group

from gpbounds.kdpp.best import DrawsProblem
from gpbounds.renyi.attained import Attained


@dataclass(frozen=True, eq=False)
class Subsets:
    """K of N ≤ 9 points, all its subsets of size M with P(Z) > 0, and what each leaves.

    Attributes
    ----------
    K, noise, values, vectors
        K = V diag(values) Vᵀ.
    kdpp, tilted : array (S,)
        P(Z) of the k-DPP and of the tilted one, P(Z) ∝ |(K² + σ²K)_ZZ|.
    residuals : array (S, N, N)
        K − Q_Z.
    """

    K: np.ndarray
    noise: float
    values: np.ndarray
    vectors: np.ndarray
    kdpp: np.ndarray
    tilted: np.ndarray
    residuals: np.ndarray

    def gap(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """(D_α at y = 0, A) for each subset, with D_α(y) = D_α(0) + ½ yᵀAy: straight from R-gap."""
        eye, N = np.eye(len(self.K)), len(self.K)
        beta = 1.0 - alpha
        noisy = self.K + self.noise * eye
        xi = noisy - alpha * self.residuals
        left = np.maximum(np.linalg.eigvalsh(self.residuals), 0.0) / self.noise
        determinant = alpha * (np.log1p(beta * left).sum(axis=1) / beta if beta else left.sum(axis=1))
        whole = np.linalg.slogdet(noisy)[1]
        offset = 0.5 * (determinant + np.linalg.slogdet(xi)[1] - whole)
        A = np.linalg.inv(xi) - np.linalg.inv(noisy)
        assert A.shape[1:] == (N, N)
        return offset, 0.5 * (A + A.transpose(0, 2, 1))


def subsets(rng: np.random.Generator, N: int, M: int) -> Subsets:
    """A random instance; some have equal points, some a low rank, some eigenvalues of very different sizes, some are
    diagonal."""
    kind = rng.integers(5)
    if kind == 0:
        X = rng.uniform(-2.0, 2.0, (N, 1))
        if N > M + 1:
            X[-1] = X[0]
        K = np.exp(-((X - X.T) ** 2) / rng.uniform(0.05, 2.0))
    elif kind == 1:
        K = np.diag(10.0 ** rng.uniform(-3.0, 1.0, N))
    else:
        values = 10.0 ** rng.uniform(-4.0 if kind == 2 else -1.0, 1.0, N)
        if kind == 4 and N > M + 1:
            values[: rng.integers(1, N - M)] = 0.0
        V = ortho_group.rvs(N, random_state=rng)
        K = (V * values) @ V.T
    K = 0.5 * (K + K.T)
    noise = float(10.0 ** rng.uniform(-1.5, 1.0))
    values, vectors = np.linalg.eigh(K)
    values = np.where(values > 1e-12 * values[-1], values, 0.0)
    M = min(M, int((values > 0).sum()))
    rows = np.array(list(itertools.combinations(range(N), M)))
    blocks = K[rows[:, :, None], rows[:, None, :]]
    squared = (K @ K + noise * K)[rows[:, :, None], rows[:, None, :]]
    weights, tilted = np.maximum(np.linalg.det(blocks), 0.0), np.maximum(np.linalg.det(squared), 0.0)
    kept = weights > 1e-9 * weights.max()
    lost = max(1.0 - weights[kept].sum() / weights.sum(), 0.0)
    assert lost < 1e-6
    left = []
    for Z in rows[kept]:
        columns = K[:, Z]
        R = K - columns @ np.linalg.solve(K[np.ix_(Z, Z)], columns.T)
        left.append(0.5 * (R + R.T))
    return Subsets(
        K, noise, values, vectors, weights[kept] / weights.sum(), tilted[kept] / tilted.sum(), np.array(left)
    )


class Remembering(DrawsProblem):
    """What each subset reaches is computed once: there are few of them."""

    def without_jitter(self, Z: np.ndarray, order: float) -> Attained | None:
        stored = self.__dict__.setdefault("seen", {})
        key = (order, Z.tobytes())
        if key not in stored:
            stored[key] = super().without_jitter(Z, order)
        return stored[key]
