"""What the bound on a Hilbert-space GP means for its predictions: Prop. 4 and the predictive KL for points of a box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from observer import Observer
from scipy.linalg import eigh

from gpbounds import Matern, SquaredExponential
from gpbounds.lowrank import HilbertFeatures, hilbert_kl
from gpbounds.sandwich import predictive, sandwich

NOISE, TRAINED, TESTED = 0.1, 40, 10
CASES = [(SquaredExponential(1.0, 0.4), 8, 1.5), (Matern(2.5, 1.0, 0.7), 14, 2.0), (Matern(0.5, 1.0, 1.0), 60, 2.5)]


def laws(kernel: Any, m: int, c: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Σ₁ and Σ₂ at rows for training at random, and at the ends and in a cluster for testing."""
    X = np.concatenate([rng.uniform(-1, 1, TRAINED), [-1.0, 1.0], 0.5 + 0.01 * rng.standard_normal(TESTED - 2)])[
        :, None
    ]
    Xi = HilbertFeatures(kernel, m, c, half_width=1.0).fit(X)(X)
    return kernel(X) + NOISE * np.eye(len(X)), Xi @ Xi.T + NOISE * np.eye(len(X))


@pytest.mark.claim("L-31", "N-hilbert-kl")
@pytest.mark.parametrize(("kernel", "m", "c"), CASES)
def test_variances_are_within_the_sandwich_both_ways(observe: Observer, kernel: Any, m: int, c: float) -> None:
    """The bound is on both divergences, so that either law may be the first; it is certified."""
    bound = hilbert_kl(kernel, TRAINED + TESTED, m, c, half_width=1.0, noise=NOISE, rigor="sharp")
    implied = sandwich(bound)
    observe.holds("L-31", implied.high.certified)
    rng = np.random.default_rng(0)
    for _ in range(20):
        exact, approximate = laws(kernel, m, c, rng)
        for first, second in ((exact, approximate), (approximate, exact)):
            ratios = eigh(first, second, eigvals_only=True)
            observe.lower("L-31", ratios[0], float(implied.low), tol=1e-12)
            observe.upper("L-31", ratios[-1], float(implied.high), tol=1e-12)


@pytest.mark.claim("L-62", "L-30", "N-hilbert-kl")
@pytest.mark.parametrize(("kernel", "m", "c"), CASES)
def test_predictions_at_any_points_of_the_box_fail_as_seldom_as_promised(
    observe: Observer, kernel: Any, m: int, c: float
) -> None:
    """y_train from the exact model: the predictive KL and the distance of the means, by either factor."""
    eta, draws = 0.1, 2000
    bound = hilbert_kl(kernel, TRAINED + TESTED, m, c, half_width=1.0, noise=NOISE, rigor="sharp")
    about = predictive(bound, eta, test_inputs="hilbert")
    observe.holds("L-62", about.kl.certified and any("any set of points in the box" in s for s in about.kl.assumptions))
    rng = np.random.default_rng(1)
    exact, approximate = laws(kernel, m, c, rng)
    n = TRAINED
    gains = [np.linalg.solve(A[:n, :n], A[:n, n:]).T for A in (exact, approximate)]
    P, Q = (A[n:, n:] - gain @ A[:n, n:] for A, gain in zip((exact, approximate), gains, strict=True))
    y = np.linalg.cholesky(exact[:n, :n]) @ rng.standard_normal((n, draws))
    shift = (gains[0] - gains[1]) @ y
    e = eigh(P, Q, eigvals_only=True) - 1.0
    squared = (shift * np.linalg.solve(Q, shift)).sum(axis=0)
    kls = 0.5 * (e - np.log1p(e)).sum() + 0.5 * squared
    observe.upper("L-62", float(kls.mean()), float(about.expected))
    observe.frequency("L-62", int((kls > float(about.kl)).sum()), draws, eta)
    far = np.sqrt(squared) > float(about.sandwich.mean)
    observe.frequency("L-30", int(far.sum()), draws, eta)
