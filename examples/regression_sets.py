"""Regression data that the examples share: the toy functions of paper 000, Sec. 8.1, and CSV tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpbounds import Matern
from gpbounds.rows import read_table

UCI = Path(__file__).resolve().parents[2] / "shared" / "data" / "uci"


@dataclass(frozen=True, eq=False)
class Source:
    """A source of rows: ``draw(n, rng)`` returns inputs (n, D) and targets (n,)."""

    name: str
    draw: Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
    about: str


def gramacy_lee(X: np.ndarray) -> np.ndarray:
    """sin(10πx)/(2x) + (x − 1)⁴ on [0.5, 2.5]."""
    x = 0.5 + 2.0 * X[:, 0]
    return np.asarray(np.sin(10.0 * np.pi * x) / (2.0 * x) + (x - 1.0) ** 4)


def branin(X: np.ndarray) -> np.ndarray:
    """Branin & Hoo's function on [−5, 10] × [0, 15]."""
    x, y = -5.0 + 15.0 * X[:, 0], 15.0 * X[:, 1]
    bowl = y - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    return np.asarray(bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0)


def griewank(X: np.ndarray) -> np.ndarray:
    """Griewank's function on [−600, 600]ᴰ: a bowl with waves that vary too fast to be learned."""
    x = -600.0 + 1200.0 * X
    waves = np.cos(x / np.sqrt(np.arange(1, X.shape[1] + 1))).prod(axis=1)
    return np.asarray((x**2).sum(axis=1) / 4000.0 - waves + 1.0)


def toy(name: str, D: int, f: Callable[[np.ndarray], np.ndarray], noise: float) -> Source:
    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.random((n, D))
        clean = f(X)
        return X, clean + noise * clean.std() * rng.standard_normal(n)

    return Source(name, draw, f"toy, D = {D}")


def toys(noise: float) -> list[Source]:
    return [
        toy("Gramacy & Lee", 1, gramacy_lee, noise),
        toy("Branin", 2, branin, noise),
        toy("Griewank", 4, griewank, noise),
    ]


def table_source(name: str, path: Path) -> Source:
    values, _ = read_table(path)
    X, y = values[:, :-1], values[:, -1]

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rows = rng.permutation(len(y))[:n]
        return X[rows], y[rows]

    return Source(name, draw, f"of {len(y)}, D = {X.shape[1]}")


def named(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(name, path) from arguments "name=path"."""
    pairs = [item.partition("=") for item in arguments]
    for name, equals, path in pairs:
        if not (name and path):
            raise ValueError(f"--data: expected name=path, got {name + equals + path!r}")
    return [(name, Path(path)) for name, _, path in pairs]


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, standardised by the training rows, and the kernel at the start of training."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    kernel: Matern


def split(source: Source, rows: int, seed: int) -> Split:
    rng = np.random.default_rng([seed, *source.name.encode()])
    X, y = source.draw(rows, rng)
    train = round(0.6 * len(y))
    scale = X[:train].std(axis=0)
    X = ((X - X[:train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0))[:, scale > 0.0]
    y = (y - y[:train].mean()) / y[:train].std()
    start = np.sqrt(X.shape[1]) * np.exp(0.5 * rng.standard_normal()) * np.ones(X.shape[1])
    return Split(X[:train], y[:train], X[train:], y[train:], Matern(1.5, 1.0, start))


def errors(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float]:
    """RMSE, and the mean of −log N(y; mean, std²)."""
    z = (y - mean) / std
    return float(np.sqrt(np.mean((y - mean) ** 2))), float(
        np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi))
    )
