"""All subsets of a few data at once: their k-DPP probabilities and the exact D_α of each, in doubles.

Matrices are well enough conditioned for that: eigenvalues span at most 1e7, apart from zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

Float = Any


@dataclass(frozen=True)
class Instance:
    """K = V diag(values) Vᵀ, a noise variance, and targets (N, P)."""

    values: Float
    vectors: Float
    noise: float
    Y: Float

    @property
    def K(self) -> Float:
        return (self.vectors * self.values) @ self.vectors.T

    @property
    def squares(self) -> Float:
        """Σ over outputs of (Vᵀy)_i²."""
        return ((self.vectors.T @ self.Y) ** 2).sum(axis=1)

    @property
    def rounding(self) -> float:
        """What a computed D_α may be off by, in nats."""
        return 1e-9 * (1.0 + float((self.squares / (self.values + self.noise)).sum()) + self.values.max() / self.noise)


def instance(rng: np.random.Generator, N: int, outputs: int = 1) -> Instance:
    """Random spectra: generic, decaying, flat, spiked, of low rank, or of a kernel with equal inputs."""
    kind = int(rng.integers(6))
    vectors = np.linalg.qr(rng.standard_normal((N, N)))[0]
    if kind == 0:
        values = rng.random(N)
    elif kind == 1:
        values = 10.0 ** -(rng.uniform(0.0, 1.0) ** np.arange(N)) * rng.uniform(0.2, 1.0, N)
    elif kind == 2:
        values = np.full(N, 1.0)
    elif kind == 3:
        values = np.r_[10.0 ** rng.uniform(0, 3), 10.0 ** rng.uniform(-2, 0, N - 1)]
    elif kind == 4:
        values = np.where(np.arange(N) < rng.integers(1, N + 1), rng.random(N), 0.0)
    else:
        X = rng.integers(0, max(2, N - 1), N) * 0.6
        values, vectors = np.linalg.eigh(np.exp(-np.abs(X[:, None] - X) / rng.uniform(0.2, 3.0)))
        values[: N - np.unique(X).size] = 0.0
    values = np.where(values > 1e-7 * values.max(), values, 0.0)
    noise = 10.0 ** rng.uniform(-2.5, 1.0)
    K = (vectors * values) @ vectors.T
    style = int(rng.integers(4))
    if style == 0:
        Y = np.linalg.cholesky(K + noise * np.eye(N)) @ rng.standard_normal((N, outputs))
    elif style == 1:
        Y = rng.standard_normal((N, outputs)) * 10.0 ** rng.uniform(-1, 1)
    elif style == 2:  # along one eigenvector
        Y = vectors[:, rng.integers(N, size=outputs)] * 10.0 ** rng.uniform(-1, 1)
    else:
        Y = np.eye(N)[:, rng.integers(N, size=outputs)] * 10.0 ** rng.uniform(-1, 1)
    return Instance(values, vectors, noise, Y)


def subsets(N: int, M: int) -> Float:
    """All of them, (count, M)."""
    return np.array(list(combinations(range(N), M)), dtype=np.int64).reshape(-1, M)


def law(K: Float, M: int) -> tuple[Float, Float]:
    """Subsets of probability above 1e-11 under the k-DPP of K, and their probabilities; what is left out adds to 1e-8.

    Near singular K_ZZ are left out with it.
    """
    Z = subsets(K.shape[0], M)
    weights = np.maximum(np.linalg.det(K[Z[:, :, None], Z[:, None, :]]), 0.0)
    probabilities = weights / weights.sum()
    kept = probabilities > 1e-11
    return Z[kept], probabilities[kept]


@dataclass(frozen=True)
class Residuals:
    """S_Z = K − Q_Z for every Z, and X_Z = K_n^-½ S_Z K_n^-½ by its eigenvalues and eigenvectors."""

    instance: Instance
    S: Float
    x: Float
    U: Float

    @classmethod
    def of(cls, case: Instance, Z: Float) -> Residuals:
        root = case.vectors * np.sqrt(case.values)  # K = root rootᵀ
        chosen = root[Z]  # (count, M, N)
        _, _, Vt = np.linalg.svd(chosen, full_matrices=False)
        projector = np.eye(case.values.size) - np.swapaxes(Vt, 1, 2) @ Vt
        S = root @ projector @ root.T
        half = case.vectors * (case.values + case.noise) ** -0.5 @ case.vectors.T
        x, U = np.linalg.eigh(half @ S @ half)
        return cls(case, S, np.clip(x, 0.0, None), U)

    @property
    def trace(self) -> Float:
        return np.trace(self.S, axis1=1, axis2=2)

    def gap(self, alpha: float) -> Float:
        """Σ over outputs of D_α for every Z: exact, in the eigenbasis of X."""
        case, beta = self.instance, 1.0 - alpha
        outputs = case.Y.shape[1]
        whitened = case.vectors * (case.values + case.noise) ** -0.5 @ case.vectors.T @ case.Y
        rotated = np.swapaxes(self.U, 1, 2) @ whitened
        quadratic = 0.5 * ((alpha * self.x / (1.0 - alpha * self.x))[:, :, None] * rotated**2).sum(axis=(1, 2))
        if alpha == 1.0:
            determinant = self.trace / (2.0 * case.noise)
        else:
            delta = np.clip(np.linalg.eigvalsh(self.S), 0.0, None)
            determinant = alpha / (2.0 * beta) * np.log1p(beta / case.noise * delta).sum(axis=1)
        return quadratic + outputs * (determinant + 0.5 * np.log1p(-alpha * self.x).sum(axis=1))
