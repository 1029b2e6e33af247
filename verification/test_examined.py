"""Claims of a library beside proved intervals: what a jitter does (N-jitter), and ends against 50 digits."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.arrays import Float
from gpbounds.audit import causes, claimed_evidence, claimed_predictions, subject
from gpbounds.audit.exact_rows import jitter_effect
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.reference.evidence import form, jitter_ends
from gpbounds.reference.linalg import log_det
from gpbounds.reference.spectra import gram

SEEDS = st.integers(0, 10**6)
KERNELS: tuple[Kernel, ...] = (SquaredExponential(1.3, 0.8), Matern(1.5, 0.7, 1.1))


def dense(kernel: Kernel, X: Float, noises: Float) -> Any:
    """K + diag(noises) in mpmath."""
    A = gram(kernel_to_plain(kernel), X)
    for i, noise in enumerate(noises):
        A[i, i] += mp.mpf(float(noise))
    return A


def log_density(A: Any, y: Float) -> Any:
    column = mp.matrix([mp.mpf(float(value)) for value in y])
    return -(len(y) * mp.log(2 * mp.pi) + log_det(A) + form(column, A)) / 2


@pytest.mark.claim("N-jitter")
@given(SEEDS, st.sampled_from(KERNELS), st.floats(-6.0, 1.0), st.floats(-8.0, 1.0), st.booleans())
def test_a_jitter_moves_log_p_y_within_its_ends(
    observe: Observer, seed: int, kernel: Kernel, noise: float, jitter: float, per_row: bool
) -> None:
    rng = np.random.default_rng(seed)
    N, j = int(rng.integers(1, 7)), 10.0**jitter
    X, y = rng.uniform(-2.0, 2.0, (N, 1)), rng.standard_normal(N)
    noises = 10.0**noise * (rng.uniform(0.1, 10.0, N) if per_row else np.ones(N))
    with mp.workdps(50):
        A = dense(kernel, X, noises)
        column = mp.matrix([mp.mpf(float(value)) for value in y])
        truth = log_density(dense(kernel, X, noises + j), y) - log_density(A, y)
        square = form(column, A)
        low, high = jitter_ends([mp.mpf(float(each)) for each in noises], mp.mpf(j), square)
        # (noises + j) is rounded to doubles in the truth: relatively 2⁻⁵³ of each, of derivatives at most N + yᵀA⁻¹y
        slack = mp.mpf(2) ** -52 * (N + square)
        observe.lower("N-jitter", truth, low - slack)
        observe.upper("N-jitter", truth, high + slack)
        ends = jitter_effect(
            N, noise=noises if per_row else float(noises[0]), added=j, square=float(square) * (1.0 + 1e-15)
        )
        observe.lower("N-jitter", low, mp.mpf(ends[0]))
        observe.upper("N-jitter", high, mp.mpf(ends[1]))


@pytest.mark.claim("N-jitter")
def test_without_a_kernel_the_ends_add_up(observe: Observer) -> None:
    """At K = 0 both brackets of the proof are attained."""
    noise, j, y = mp.mpf("0.3"), mp.mpf("0.05"), [mp.mpf(1), mp.mpf(-2), mp.mpf("0.5")]
    with mp.workdps(50):
        square = sum(value**2 for value in y) / noise

        def value(s: Any) -> Any:
            return -(3 * mp.log(2 * mp.pi * s) + sum(each**2 for each in y) / s) / 2

        low, high = jitter_ends([noise] * 3, j, square)
        observe.equal("N-jitter", low + high, value(noise + j) - value(noise), atol=1e-40)
        zero = -3 * mp.log((noise + j) / noise) / 2
        observe.equal("N-jitter", low, zero, atol=1e-40)


@pytest.mark.claim("N-jitter")
@given(SEEDS, st.sampled_from(KERNELS), st.floats(-5.0, 0.0), st.floats(-7.0, 0.0))
def test_the_parts_of_an_error_hold_the_truth(
    observe: Observer, seed: int, kernel: Kernel, noise: float, jitter: float
) -> None:
    """The part of the jitter has 50-digit log p(y + jitter) − log p(y) between its ends, and the rest what is left."""
    rng = np.random.default_rng(seed)
    N, s2, j = 6, 10.0**noise, 10.0**jitter
    X, y = rng.uniform(-2.0, 2.0, (N, 1)), rng.standard_normal(N)
    about = subject(kernel, X, y, noise=s2)
    evidence = claimed_evidence(about, float(rng.uniform(-30.0, 30.0)))
    split = causes(about, evidence, claimed_jitter=j)
    with mp.workdps(50):
        exact = log_density(dense(kernel, X, np.full(N, s2)), y)
        moved = log_density(dense(kernel, X, np.full(N, s2 + j)), y)
        for name, truth in (("jitter", moved - exact), ("solver", mp.mpf(evidence.value) - moved)):
            low, high = next(each.ends for each in split.evidence if each.name == name)
            observe.lower("N-jitter", truth, mp.mpf(low))
            observe.upper("N-jitter", truth, mp.mpf(high))
        error = evidence.error
        observe.lower("N-jitter", mp.mpf(evidence.value) - exact, mp.mpf(error[0]))
        observe.upper("N-jitter", mp.mpf(evidence.value) - exact, mp.mpf(error[1]))


@pytest.mark.claim("N-rows-noise")
@given(SEEDS, st.sampled_from(KERNELS))
def test_claims_about_rows_of_different_noise(observe: Observer, seed: int, kernel: Kernel) -> None:
    """log p(y), means and variances of rows with a noise variance each, against dense formulas in 50 digits."""
    rng = np.random.default_rng(seed)
    X, y, X_new = rng.uniform(-2.0, 2.0, (6, 1)), rng.standard_normal(6), rng.uniform(-2.5, 2.5, (3, 1))
    noises = 10.0 ** rng.uniform(-4.0, 1.0, 6)
    about = subject(kernel, X, y, noise=1.0)
    object.__setattr__(about, "noise", noises)
    evidence = claimed_evidence(about, 0.0)
    predictions = claimed_predictions(about, X_new, np.zeros(3), np.ones(3))
    with mp.workdps(50):
        A = dense(kernel, X, noises)
        observe.lower("N-rows-noise", log_density(A, y), mp.mpf(float(evidence.evidence.lower)))
        observe.upper("N-rows-noise", log_density(A, y), mp.mpf(float(evidence.evidence.upper)))
        joint = gram(kernel_to_plain(kernel), np.concatenate([X, X_new]))
        column = mp.matrix([mp.mpf(float(value)) for value in y])
        inverse = mp.inverse(A)
        for i in range(3):
            k = mp.matrix([joint[j, 6 + i] for j in range(6)])
            mean, variance = (k.T * inverse * column)[0], joint[6 + i, 6 + i] - (k.T * inverse * k)[0]
            for truth, (low, high) in ((mean, predictions.exact.mean), (variance, predictions.exact.variance)):
                observe.lower("N-rows-noise", truth, mp.mpf(float(low[i])))
                observe.upper("N-rows-noise", truth, mp.mpf(float(high[i])))
