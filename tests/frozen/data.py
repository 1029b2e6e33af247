"""Seeded data of several kinds: what the calls are made on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Data(NamedTuple):
    """Inputs (N, D), targets (N,) or (N, P), inducing inputs (M, D) and new points (n, D)."""

    X: Any
    y: Any
    Z: Any
    new: Any


def line(N: int = 30, M: int = 6, seed: int = 1) -> Data:
    """One input, sorted; inducing inputs between the data."""
    rng = np.random.default_rng([2024, seed])
    X = np.sort(rng.uniform(0.0, 6.0, (N, 1)), axis=0)
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(N)
    return Data(X, y, np.linspace(0.4, 5.6, M)[:, None], np.linspace(-1.0, 7.0, 5)[:, None])


def plane(N: int = 40, M: int = 8, D: int = 3, seed: int = 2) -> Data:
    """Several inputs; inducing inputs are some of the rows, moved a little."""
    rng = np.random.default_rng([2024, seed])
    X = rng.standard_normal((N, D))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(N)
    Z = X[rng.permutation(N)[:M]] + 0.1 * rng.standard_normal((M, D))
    return Data(X, y, Z, rng.standard_normal((5, D)))


def repeated(seed: int = 3) -> Data:
    """Rows that occur twice, and inducing inputs that are rows of X."""
    rng = np.random.default_rng([2024, seed])
    X = rng.uniform(-2.0, 2.0, (18, 2))
    X = np.concatenate([X, X[:6]])
    y = np.cos(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(24)
    return Data(X, y, X[[0, 3, 7, 11, 15]], rng.uniform(-2.0, 2.0, (4, 2)))


def outputs(N: int = 36, M: int = 7, P: int = 2, seed: int = 4) -> Data:
    """Several outputs on two inputs of different scales."""
    rng = np.random.default_rng([2024, seed])
    X = rng.standard_normal((N, 2)) * [1.0, 10.0]
    y = np.column_stack([np.sin(X[:, 0]), 0.1 * X[:, 1]])[:, :P] + 0.2 * rng.standard_normal((N, P))
    return Data(X, y, X[:M] * 0.9, X[:4] + 0.3)


def numbers(*shape: int, seed: int = 0, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform numbers."""
    return np.random.default_rng([2024, 100 + seed]).uniform(low, high, shape)


def normal(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers."""
    return np.random.default_rng([2024, 200 + seed]).standard_normal(shape)


def covariance(n: int, seed: int = 0, floor: float = 0.1) -> Any:
    """A positive definite matrix with eigenvalues from about ``floor`` to n."""
    A = normal(n, n, seed=300 + seed)
    return A @ A.T / n + floor * np.eye(n)


def triangle(n: int, seed: int = 0) -> Any:
    """A lower triangle with a positive diagonal."""
    C = 0.3 * np.tril(normal(n, n, seed=400 + seed), -1)
    return C + np.diag(numbers(n, seed=seed, low=0.2, high=1.5))


def decay(n: int, rate: float = 0.6, scale: float = 5.0) -> Any:
    """Eigenvalues that fall geometrically."""
    return scale * rate ** np.arange(n, dtype=np.float64)
