"""Predictions of the exact GP from approximate solves (N-solve), their rounding (N-solve-rounding), in 60 digits."""

from __future__ import annotations

import math
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.arrays import Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.iterative import exact_predictions
from gpbounds.iterative.prediction_ends import _Problem
from gpbounds.iterative.solves import factored, fast_solver
from gpbounds.kernels import Constant, Kernel, Linear, Matern, Periodic, SquaredExponential
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.reference.lowrank import predict
from gpbounds.reference.spectra import covariance, gram

SEEDS = st.integers(0, 10**6)
KERNELS: tuple[Kernel, ...] = (
    SquaredExponential(1.3, 0.8),
    Matern(1.5, 0.7, 1.1),
    Periodic(1.0, 0.9, 1.7) + Constant(0.4),
    SquaredExponential(2.0, 1.5) * Matern(2.5, 1.0, 2.0),
    Linear(0.5) + Constant(1.0),
)
Layout = Literal["spread", "clustered", "repeated", "seconds", "far"]


def rows(layout: Layout, rng: np.random.Generator, N: int) -> Float:
    """N inputs of one column."""
    X = rng.uniform(-3.0, 3.0, N)
    if layout == "clustered":
        X = np.repeat(X[: -(-N // 4)], 4)[:N] + 1e-7 * rng.standard_normal(N)
    elif layout == "repeated":
        X[N // 2 :] = X[: N - N // 2]
    elif layout == "seconds":
        X = 1.7e9 + np.round(X, 3)
    elif layout == "far":
        X[0] = 40.0
    return X[:, None]


def truth(kernel: Kernel, X: Float, y: Float, points: Float, noise: float) -> tuple[list[Any], list[Any]]:
    """Means and variances in 60 digits."""
    record = kernel_to_plain(kernel)
    with mp.workdps(60):
        cross = mp.matrix([[covariance(record, z, x) for x in X.tolist()] for z in points.tolist()])
        targets, s2 = mp.matrix([mp.mpf(float(value)) for value in y]), mp.mpf(noise)
        mean, spread = predict(gram(record, X.tolist()), cross, gram(record, points.tolist()), targets, s2)
        return list(mean), [spread[i, i] - s2 for i in range(len(points))]


CASES = {
    "seed": SEEDS,
    "kernel": st.sampled_from(KERNELS),
    "exponent": st.floats(-9.0, 0.5),
    "layout": st.sampled_from(["spread", "clustered", "repeated", "seconds", "far"]),
    "size": st.floats(-3.0, 6.0),
}


def case(
    seed: int, kernel: Kernel, exponent: float, layout: Layout, size: float
) -> tuple[Kernel, Float, Float, Float, float]:
    """Rows, targets of about 10^``size`` (without noise for every other seed), points, and a noise variance."""
    rng = np.random.default_rng(seed)
    X = rows(layout, rng, int(rng.integers(4, 14)))
    middle, noise = float(X.mean()), 10.0**exponent
    if isinstance(kernel, Linear | type(KERNELS[-1])) and layout == "seconds":
        X, middle = X - 1.7e9, 0.0  # a line of 1.7e9 has an offset that no double holds
    y = 10.0**size * (np.sin(X[:, 0] - middle) + (seed % 2) * math.sqrt(noise) * rng.standard_normal(len(X)))
    points = np.concatenate([X[:2], middle + rng.uniform(-4.0, 4.0, (3, 1))])
    return kernel, X, y, points, noise


def contains(observe: Observer, claim: str, ends: tuple[Any, Any], exact: tuple[list[Any], list[Any]]) -> None:
    for (low, high), values in zip(ends, exact, strict=True):
        observe.upper(claim, values, high)
        observe.lower(claim, values, low)


@pytest.mark.claim("N-solve", "N-solve-rounding")
@given(memory=st.sampled_from([2.0**31, 1.0]), **CASES)
def test_ends_hold_and_are_close(observe: Observer, memory: float, **drawn: Any) -> None:
    """By a factor and by conjugate gradients; for noise that doubles resolve the ends are as close as was asked."""
    kernel, X, y, points, noise = case(**drawn)
    made = exact_predictions(kernel, X, y, points, noise=noise, memory=memory)
    assert made.certified
    assert made.method == ("cholesky" if memory > 1.0 else "conjugate gradients")
    contains(observe, "N-solve", (made.mean, made.variance), truth(kernel, X, y, points, noise))
    if noise > 1e-4 and np.abs(y).max() < 10.0:
        assert (made.mean[1] - made.mean[0] <= 4e-3 * math.sqrt(noise)).all()
        assert (made.variance[1] - made.variance[0] <= 4e-3 * noise).all()


class Disturbed:
    """A solver whose solutions are wrong by a factor and by noise; residuals are recomputed from them."""

    def __init__(self, solver: Any, rng: np.random.Generator, error: float) -> None:
        self.solver, self.rng, self.error = solver, rng, error

    @property
    def order(self) -> Any:
        return self.solver.order

    def solve(self, B: Float, allowed: Any) -> tuple[Float, Float, Float]:
        V, _, _ = self.solver.solve(B, allowed)
        V = V * (1.0 + self.error * self.rng.standard_normal(V.shape)) + self.error * self.rng.standard_normal(V.shape)
        R = B - self.solver.K.times(V)
        return V, R, (R * R).sum(axis=0)


@pytest.mark.claim("N-solve", "N-solve-rounding")
@given(error=st.floats(-16.0, 3.0), whole=st.booleans(), **CASES)
def test_ends_hold_for_any_solutions(observe: Observer, error: float, whole: bool, **drawn: Any) -> None:
    kernel, X, y, points, noise = case(**drawn)
    make = factored if whole else fast_solver
    try:
        solver = Disturbed(make(kernel, X, noise=noise), np.random.default_rng(drawn["seed"]), 10.0**error)
    except NotPositiveDefinite:  # in doubles: no solver to disturb
        return
    ends = _Problem(kernel, X, y, points, noise, 1e-3).ends(solver)
    contains(observe, "N-solve-rounding", ends, truth(kernel, X, y, points, noise))
