"""Brackets of gaps far below the rounding error of the log evidence stay valid."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from gpbounds import NotPositiveDefinite, SquaredExponential, iterative, kdpp, renyi
from gpbounds.reference import renyi as reference


def standardised(a: np.ndarray) -> np.ndarray:
    return (a - a.mean()) / a.std()


@pytest.mark.parametrize(("noise", "M"), [(1e-8, 10), (1e-6, 10), (1e-4, 10), (1e-3, 11), (1e-1, 11), (1e-1, 6)])
def test_tiny_gaps_stay_inside_their_bracket(noise: float, M: int) -> None:
    X, y = standardised(np.linspace(0.0, 1.0, 36))[:, None], standardised(np.sin(np.arange(36.0)))
    kernel = SquaredExponential(1.0, 2.0)
    Z = X[kdpp.greedy(kernel(X), M)]
    with mp.workdps(60):
        points, centres = ([mp.mpf(float(x)) for x in A[:, 0]] for A in (X, Z))

        def exact(A: list[mp.mpf], B: list[mp.mpf]) -> mp.matrix:
            return mp.matrix([[mp.exp(-((a - b) ** 2) / 8) for b in B] for a in A])

        blocks = (exact(points, points), exact(centres, points), exact(centres, centres))
        truth = float(reference.exact_gap(*blocks, mp.matrix(y.tolist()), mp.mpf(noise), mp.mpf(1)))
    for method in ("streamed", "blocks"):
        lower, upper = renyi.gap(kernel, X, y, Z, 1.0, noise=noise, method=method)
        assert float(lower) <= truth <= float(upper)
    low, high = renyi.evidence(kernel, X, y, Z, noise=noise, jitter=0.0)
    assert float(low) < float(high)


@pytest.mark.parametrize("spacing", [0.05, 0.1])
@pytest.mark.parametrize("jitter", [1e-15, 1e-12, 1e-9])
def test_a_gap_far_from_crowded_inducing_points_stays_inside_its_bracket(spacing: float, jitter: float) -> None:
    """Z determines f at distant X by large weights of alternating signs, so that rounding moves Q far more than K.

    Q is known to about 1e-9, K to 1e-16, and σ² lies between: only the allowance for Q keeps log p(y) − ELBO below the
    truth at 60 digits.
    """
    kernel, Z = SquaredExponential(), spacing * np.arange(5.0)[:, None]
    for seed, noise in ((0, 1e-10), (1, 1e-12), (2, 1e-12)):
        rng = np.random.default_rng(seed)
        X = 2.0 + 2.0 * rng.random((2, 1))
        for y in (np.zeros(2), rng.standard_normal(2)):
            with mp.workdps(60):
                points, centres = ([mp.mpf(float(x)) for x in A[:, 0]] for A in (X, Z))

                def exact(A: list[mp.mpf], B: list[mp.mpf]) -> mp.matrix:
                    return mp.matrix([[mp.exp(-((a - b) ** 2) / 2) for b in B] for a in A])

                Kuu = exact(centres, centres) + mp.mpf(jitter) * mp.eye(5)
                blocks = (exact(points, points), exact(centres, points), Kuu)
                truth = reference.exact_gap(*blocks, mp.matrix(y.tolist()), mp.mpf(noise), mp.mpf(1))
            for method in ("streamed", "blocks"):
                pair = renyi.gap(kernel, X, y, Z, 1.0, noise=noise, method=method, jitter=jitter, rigor="float")
                assert float(pair[0]) <= truth <= float(pair[1])


@pytest.mark.parametrize("noise", [1e-11, 1e-12])
def test_with_noise_a_few_times_the_rounding_error_the_evidence_still_has_a_bracket(noise: float) -> None:
    X, y = standardised(np.linspace(0.0, 1.0, 36))[:, None], standardised(np.sin(np.arange(36.0)))
    kernel = SquaredExponential(1.0, 0.5)
    Z = X[kdpp.greedy(kernel(X), 12)]
    with mp.workdps(60):
        points = [mp.mpf(float(x)) for x in X[:, 0]]
        K = mp.matrix([[mp.exp(-2 * (a - b) ** 2) for b in points] for a in points]) + noise * mp.eye(36)
        t = mp.matrix(y.tolist())
        truth = float(-(36 * mp.log(2 * mp.pi) + mp.log(mp.det(K)) + (t.T * mp.lu_solve(K, t))[0]) / 2)
    low, high = renyi.evidence(kernel, X, y, Z, noise=noise, jitter=0.0)
    assert float(low) <= truth <= float(high)


def test_noise_below_the_rounding_error_of_the_kernel_is_refused() -> None:
    X, y = np.linspace(0.0, 1.0, 36)[:, None], np.sin(np.arange(36.0))
    with pytest.raises(ValueError, match="above the rounding error of K"):
        renyi.evidence(SquaredExponential(), X, y, X[::10], noise=1e-14, rigor="float")


def small_problem() -> tuple[SquaredExponential, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (8, 1))
    return SquaredExponential(1.0, 0.7), X, 100.0 * rng.standard_normal(8), X[:3] + 0.01


@pytest.mark.parametrize("noise", [1e9, 1e20, 1e150, 1e300])
@pytest.mark.parametrize("rigor", ["auto", "float"])
def test_huge_noise_leaves_the_truth_inside(noise: float, rigor: str) -> None:
    """log p(y) and log p(y) − ELBO, of which the latter is 1e-600 for the largest."""
    kernel, X, y, Z = small_problem()
    with mp.workdps(700):
        points, centres = ([mp.mpf(float(x)) for x in A[:, 0]] for A in (X, Z))

        def covariances(A: list[mp.mpf], B: list[mp.mpf]) -> mp.matrix:
            return mp.matrix([[mp.exp(-(((a - b) / mp.mpf(0.7)) ** 2) / 2) for b in B] for a in A])

        def log_density(K: mp.matrix) -> mp.mpf:
            t = mp.matrix(y.tolist())
            return -(8 * mp.log(2 * mp.pi) + mp.log(mp.det(K)) + (t.T * mp.lu_solve(K, t))[0]) / 2

        K, across = covariances(points, points), covariances(centres, points)
        Q = across.T * (covariances(centres, centres) ** -1 * across)
        evidence = log_density(K + mp.mpf(noise) * mp.eye(8))
        elbo = log_density(Q + mp.mpf(noise) * mp.eye(8)) - sum((K - Q)[i, i] for i in range(8)) / (2 * mp.mpf(noise))
        for (low, high), truth in (
            (renyi.evidence(kernel, X, y, Z, noise=noise, rigor=rigor), evidence),
            (renyi.gap(kernel, X, y, Z, 1.0, noise=noise, rigor=rigor, jitter=0.0), evidence - elbo),
        ):
            assert float(low) <= truth <= float(high)


@pytest.mark.parametrize("noise", [1e-30, 1e-150, 1e-300])
def test_noise_that_rounding_exceeds_is_refused(noise: float) -> None:
    kernel, X, y, Z = small_problem()
    with pytest.raises(ValueError, match="noise: expected σ² above the rounding error of K"):
        renyi.evidence(kernel, X, y, Z, noise=noise)
    with pytest.raises((ValueError, NotPositiveDefinite), match=r"noise|Cholesky"):
        renyi.gap(kernel, X, y, Z, 1.0, noise=noise)


@pytest.mark.parametrize("noise", [1e-310, 5e-324])
def test_a_bound_that_is_no_double_is_refused(noise: float) -> None:
    X = np.linspace(-2.0, 2.0, 12)[:, None]
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="noise: expected a variance from 1e-300 to 1e300"):
        renyi.elbo(SquaredExponential(), X, np.sin(X[:, 0]), X[:3], 0.5, noise=noise)


@pytest.mark.parametrize("function", [renyi.evidence, iterative.evidence])
def test_targets_whose_squares_overflow_are_refused(function) -> None:
    X = np.linspace(-2.0, 2.0, 12)[:, None]
    more = {"Z": X[:3]} if function is renyi.evidence else {"rng": 0}
    with pytest.raises(
        ValueError, match=r"^y: expected numbers whose squares add to a double, got \|y\| up to 1e\+160"
    ):
        function(SquaredExponential(), X, 1e160 * np.cos(X[:, 0]) / np.cos(X[:, 0]).max(), noise=0.1, **more)


def test_noise_far_above_the_variances_has_an_evidence() -> None:
    X = np.linspace(-2.0, 2.0, 12)[:, None]
    for noise in (1e20, 1e100, 1e300):
        lower, upper = iterative.evidence(SquaredExponential(), X, np.sin(X[:, 0]), noise=noise, rng=0)
        truth = -6.0 * np.log(2.0 * np.pi * noise)  # the rest is of the order of 1/noise
        assert lower <= truth + 1e-9 * abs(truth)
        assert upper >= truth - 1e-9 * abs(truth)
        assert upper - lower < 1e-6 * abs(truth)
