"""The comparison of an audit with the exact GP: its certified ends contain the scores that mpmath computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from gpbounds.audit import Compared, HeldOut, compare, subject
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.reference.linalg import inverse

SEEDS = st.integers(0, 2**32 - 1)
DATA = ("random", "noise-free", "clustered", "repeated", "UNIX seconds", "far targets")
KERNELS = ("squared exponential", "Matern 1/2", "Matern 3/2")


def rows(rng: np.random.Generator, data: str, N: int) -> tuple[Any, Any, float]:
    """X (N, 1), y (N,) and σ²."""
    X, noise = rng.uniform(0.0, 5.0, (N, 1)), float(10.0 ** rng.uniform(-3.0, 0.0))
    y = np.sin(2.0 * X[:, 0]) + np.sqrt(noise) * rng.standard_normal(N)
    if data == "noise-free":
        y, noise = np.sin(2.0 * X[:, 0]), 1e-8
    elif data == "clustered":
        X = rng.integers(0, 3, (N, 1)) + 1e-7 * rng.standard_normal((N, 1))
    elif data == "repeated":
        X = X[rng.integers(0, 3, N)]
    elif data == "UNIX seconds":
        X = 1.7e9 + 3600.0 * X
    elif data == "far targets":
        y = 1e6 + 1e3 * y
    return X, y, noise


def kernel_of(name: str, data: str) -> tuple[Kernel, Any]:
    """A kernel, and the same function of two numbers in mpmath."""
    length = 1800.0 if data == "UNIX seconds" else 0.7
    variance = 1e12 if data == "far targets" else 1.3

    def scaled(a: Any, b: Any) -> Any:
        return abs(mpf(a) - mpf(b)) / mpf(length)

    if name == "squared exponential":
        return SquaredExponential(variance, length), lambda a, b: mpf(variance) * mpmath.exp(-(scaled(a, b) ** 2) / 2)
    if name == "Matern 1/2":
        return Matern(0.5, variance, length), lambda a, b: mpf(variance) * mpmath.exp(-scaled(a, b))

    def third(a: Any, b: Any) -> Any:
        r = mpmath.sqrt(3) * scaled(a, b)
        return mpf(variance) * (1 + r) * mpmath.exp(-r)

    return Matern(1.5, variance, length), third


def truth(k: Any, X: Any, y: Any, noise: float, new: Any, targets: Any) -> tuple[list[Any], list[Any]]:
    """Log loss and squared error of the exact GP at each new row."""
    train, points = X[:, 0].tolist(), new[:, 0].tolist()
    A = mp.matrix([[k(a, b) for b in train] for a in train]) + mpf(noise) * mpmath.eye(len(train))
    back, column = inverse(A), mp.matrix(y.tolist())
    losses, squares = [], []
    for x, target in zip(points, targets.tolist(), strict=True):
        cross = mp.matrix([k(x, a) for a in train])
        mean = (cross.T * back * column)[0]
        s = k(x, x) - (cross.T * back * cross)[0] + mpf(noise)
        squares.append((mpf(target) - mean) ** 2)
        losses.append(mpmath.log(2 * mpmath.pi * s) / 2 + squares[-1] / (2 * s))
    return losses, squares


def check(result: Compared, losses: list[Any], squares: list[Any], held: HeldOut, noise: float) -> None:
    """Every certified end of the exact GP, and of its differences from the model, is on its side of the truth."""
    n = len(losses)

    def within(low: Any, value: Any, high: Any) -> None:
        assert mpf(float(low)) <= value <= mpf(float(high))

    for each, low, high in zip(losses, *result.log_losses, strict=True):
        within(low, each, high)
    for each, low, high in zip(squares, *result.squares, strict=True):
        within(low, each, high)
    low, high = result.log_loss
    within(low, mpmath.fsum(losses) / n, high)
    low, high = result.rmse
    rmse = mpmath.sqrt(mpmath.fsum(squares) / n)
    within(low, rmse, high)
    own = [(mpf(y) - mpf(m)) ** 2 for y, m in zip(held.y.tolist(), np.asarray(held.mean).tolist(), strict=True)]
    variances = [mpf(v) + mpf(noise) for v in np.asarray(held.variance).tolist()]
    scores = [mpmath.log(2 * mpmath.pi * s) / 2 + r / (2 * s) for r, s in zip(own, variances, strict=True)]
    low, high = result.model.log_loss.enclosure
    within(low, (mpmath.fsum(losses) - mpmath.fsum(scores)) / n, high)
    low, high = result.model.squared_error.enclosure
    within(low, (mpmath.fsum(squares) - mpmath.fsum(own)) / n, high)
    low, high = result.model.rmse_difference[0]
    within(low, rmse - mpmath.sqrt(mpmath.fsum(own) / n), high)


@pytest.mark.broad
@pytest.mark.claim("N-solve")
@pytest.mark.parametrize("data", DATA)
@given(seed=SEEDS, name=st.sampled_from(KERNELS))
def test_certified_ends_contain_the_exact_scores(data: str, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    N, n = int(rng.integers(3, 14)), int(rng.integers(1, 6))
    kernel, k = kernel_of(name, data)
    X, y, noise = rows(rng, data, N + n)
    about = subject(kernel, X[:N], y[:N], X[: int(rng.integers(1, N))], noise=noise)
    law = about.law.predict(X[N:])
    held = HeldOut(X[N:], y[N:], np.asarray(law.mean), np.asarray(law.variance))
    with mpmath.workdps(60):
        losses, squares = truth(k, X[:N], y[:N], noise, X[N:], y[N:])
        check(compare(about, held), losses, squares, held, noise)


@pytest.mark.claim("N-solve")
@given(seed=SEEDS)
def test_ends_that_are_swapped_or_of_another_model_are_noticed(seed: int) -> None:
    """The check above can fail: for ends in the wrong order, and for the exact GP of another noise."""
    rng = np.random.default_rng(seed)
    kernel, k = kernel_of("squared exponential", "random")
    X, y, noise = rows(rng, "random", 14)
    about = subject(kernel, X[:10], y[:10], X[:3], noise=noise)
    law = about.law.predict(X[10:])
    held = HeldOut(X[10:], y[10:], np.asarray(law.mean), np.asarray(law.variance))
    result = compare(about, held)
    assert (result.log_losses.low < result.log_losses.high).all()
    with mpmath.workdps(60):
        losses, squares = truth(k, X[:10], y[:10], noise, X[10:], y[10:])
        swapped = replace(result, log_losses=type(result.log_losses)(*reversed(result.log_losses)))
        with pytest.raises(AssertionError):
            check(swapped, losses, squares, held, noise)
        losses, squares = truth(k, X[:10], y[:10], 1.5 * noise, X[10:], y[10:])
        with pytest.raises(AssertionError):
            check(result, losses, squares, held, noise)
