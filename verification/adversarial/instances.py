"""Hard instances: what spoils doubles, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds import kernels

HARD = (
    "clustered",
    "duplicated",
    "far",
    "scaled",
    "constant",
    "long",
    "short",
    "noise-free",
    "noisy",
    "outside",
    "complete",
)
"""What an instance may be; each with probability 0.3."""


@dataclass(frozen=True)
class Instance:
    """The arguments of a bound, and what makes them hard."""

    kernel: Any
    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    noise: float
    is_hard: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.kernel, self.X, self.y, self.Z


Statement = tuple[float | None, Callable[[], Any], float | None]
"""A lower bound, the formula of what is bounded, at the present number of bits, and an upper bound."""
Attack = Callable[[Instance, np.random.Generator], Iterator[Statement]]
"""The intervals that one call of a function states about an instance; none where it refuses."""


class Refused(ValueError):
    """No bound is stated, or no other one, without an exception of the library."""


def one_of(choices: Sequence[Any], rng: np.random.Generator) -> Any:
    return choices[int(rng.integers(len(choices)))]


def order(rng: np.random.Generator) -> float:
    """α: 1, ½, near 0 or near 1."""
    return one_of(
        [1.0, 1.0, 0.5, float(10.0 ** rng.uniform(-6.0, 0.0)), 1.0 - float(10.0 ** rng.uniform(-9.0, -1.0))], rng
    )


def instance(seed: int) -> Instance:
    """Up to 12 rows and 5 inducing points in up to 3 dimensions.

    - clustered: inducing points 1e-8 to 1 lengthscales from one another, on no row;
    - duplicated: rows and inducing points occur twice;
    - far: inputs around 1e0 to 1e15 lengthscales;
    - scaled: units of x and of y of 1e-150 to 1e150 and of 1e-70 to 1e70;
    - constant: a constant of up to 1e6 variances is added to the kernel;
    - long, short: lengthscales of 1e1 to 1e4, or 1e-3 to 1e-1, of the spread of the rows;
    - noise-free, noisy: noise of 1e-12 to 1e-6, or 1e2 to 1e9, of the variance;
    - outside: targets that the model does not explain, 1e2 to 1e6 times too large;
    - complete: an inducing point on or beside each row, so that rounding alone parts the two bounds.
    """
    rng = np.random.default_rng(seed)
    hard = tuple(name for name in HARD if rng.random() < 0.3)
    N, M, D = int(rng.integers(2, 13)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    X = rng.standard_normal((N, D))
    if "duplicated" in hard:
        X[N // 2] = X[0]
    lengths = 10.0 ** rng.uniform(-0.5, 0.7, D)
    if "long" in hard:
        lengths *= 10.0 ** rng.uniform(1.0, 4.0)
    elif "short" in hard:
        lengths *= 10.0 ** rng.uniform(-3.0, -1.0)
    shift = 10.0 ** rng.uniform(0.0, 15.0) * lengths if "far" in hard else np.zeros(D)
    X = X + shift
    if "clustered" in hard:
        Z = X.mean(axis=0) + lengths * 10.0 ** rng.uniform(-8.0, 0.0) * rng.standard_normal((M, D))
    else:
        Z = X[rng.choice(N, min(M, N), replace=False)] + rng.choice([0.0, 0.1]) * lengths
    if "complete" in hard:
        Z = X + rng.choice([0.0, 1e-6]) * lengths
    if "duplicated" in hard:
        Z = np.vstack([Z, Z[:1]])
    unit, size = 1.0, 1.0
    if "scaled" in hard:
        unit, size = 2.0 ** int(rng.integers(-498, 499)), 10.0 ** rng.uniform(-70.0, 70.0)
    v = size**2
    kernel: Any = _shape(rng, v, lengths * unit)
    if "constant" in hard:
        kernel = kernel + kernels.Constant(v * 10.0 ** rng.uniform(-2.0, 6.0))
    exponents = (-12.0, -6.0) if "noise-free" in hard else (2.0, 9.0) if "noisy" in hard else (-3.0, 1.0)
    noise = v * float(10.0 ** rng.uniform(*exponents))
    y = size * np.sin((X - shift)[:, 0] * rng.uniform(0.5, 3.0)) + noise**0.5 * rng.standard_normal(N)
    if "outside" in hard:
        y = y + size * 10.0 ** rng.uniform(2.0, 6.0) * rng.standard_normal(N)
    return Instance(kernel, X * unit, y, Z * unit, noise, hard)


def _shape(rng: np.random.Generator, v: float, lengths: np.ndarray) -> Any:
    smooth, rough = kernels.SquaredExponential(v, lengths), kernels.Matern(rng.choice([0.5, 1.5, 2.5]), v, lengths)
    return [smooth, smooth, rough, smooth + kernels.Matern(0.5, v, 0.1 * lengths)][int(rng.integers(4))]
