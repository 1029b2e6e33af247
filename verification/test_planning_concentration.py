"""Tr(K − Q) a priori beyond its mean: N-sum, N-out, and what follows from two means of the trace alone, N-trace."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from draw_instances import subsets
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kdpp import expected_residual, expected_trace
from gpbounds.kdpp.residual import trace_slopes
from gpbounds.kdpp.streamed_residual import tilted_traces
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.rates.concentration import (
    Cells,
    TraceMajorant,
    interpolation_error,
    pilot_points,
    pilots,
    sum_bound,
)
from gpbounds.rates.draws.from_trace import fixed_from_trace, prior_from_trace, tilted_from_trace
from gpbounds.rates.draws.tilted import tilted_prior
from gpbounds.rates.trace import PopulationTrace
from gpbounds.reference import kdpp as reference
from gpbounds.reference import rates
from gpbounds.spectra import spectrum

KERNELS = [
    SquaredExponential(2.0, 0.3),
    Matern(0.5, 1.0, 0.5),
    Matern(1.5, 1.0, 0.3),
    Matern(2.5, 3.0, 0.7),
    Matern(0.8) + SquaredExponential(0.5, 0.1),
    Matern(1.5) * Matern(0.5),
]


def mean_trace(kernel: Kernel, X: np.ndarray, M: int) -> float:
    values = np.linalg.eigvalsh(kernel(X))
    values = values[values > 1e-13 * values[-1]]
    return float(expected_trace(values, M)) if values.size > M else 0.0


@pytest.mark.claim("N-sum")
@given(seed=st.integers(0, 10**6), n=st.integers(3, 9), M=st.integers(1, 5))
def test_slopes_against_mpmath_and_rounded_upwards(observe: Observer, seed: int, n: int, M: int) -> None:
    rng = np.random.default_rng(seed)
    n += M
    values = np.sort(10.0 ** rng.uniform(-12, 1, n))[::-1]
    exact = [mp.mpf(float(v)) for v in values]
    slopes, zero = trace_slopes(values, M)
    for fast, slow in zip(slopes, reference.slopes(exact, M), strict=True):
        observe.upper("N-sum", slow, mp.mpf(float(fast)))
    observe.upper("N-sum", reference.slope_at_zero(exact, M), mp.mpf(zero))
    observe.equal("N-sum", float(zero), float(reference.slope_at_zero(exact, M)), rtol=(M + 1) * 1e-12)


@pytest.mark.claim("N-sum")
@given(
    seed=st.integers(0, 10**6),
    which=st.integers(0, len(KERNELS) - 1),
    dim=st.integers(1, 3),
    N=st.integers(2, 60),
    M=st.integers(1, 12),
    spread=st.floats(0.2, 5.0),
)
def test_the_sum_is_above_for_every_set_of_inputs(
    observe: Observer, seed: int, which: int, dim: int, N: int, M: int, spread: float
) -> None:
    """Pilot points and inputs need not know of each other; M may exceed N."""
    rng, kernel = np.random.default_rng(seed), KERNELS[which]
    pilot = rng.standard_normal((M + 2 + int(rng.integers(0, 60)), dim))
    majorant = TraceMajorant.of(kernel, M, pilot, rng.uniform(0.1, 1.0, len(pilot)))
    X = spread * rng.standard_normal((N, dim))
    if N > 5:
        X[: N // 3] = X[0]
    values = majorant(X)
    observe.holds("N-sum", np.all(values > 0) and np.all(values <= majorant.top))
    observe.upper("N-sum", mean_trace(kernel, X, M), float(values.sum()))


@pytest.mark.claim("N-sum")
@pytest.mark.parametrize("kernel", KERNELS)
def test_equality_at_the_pilot_points(observe: Observer, kernel: Kernel) -> None:
    """R is homogeneous: ⟨∇R(A), A⟩ = R(A)."""
    X = np.random.default_rng(3).standard_normal((60, 2))
    for M in (2, 8, 20):
        values = TraceMajorant.of(kernel, M, X)(X)
        observe.equal("N-sum", float(values.sum()), mean_trace(kernel, X, M), rtol=1e-3)


@pytest.mark.claim("N-sum", "N-pop")
@pytest.mark.parametrize(
    ("kernel", "inputs", "M"),
    [
        (SquaredExponential(), Gaussian(), 6),
        (Matern(1.5, 1.0, 0.3), Uniform(), 15),
        (Matern(2.5, 1.0, 0.3), Uniform(), 15),
        (Matern(0.5), Uniform(-1.0, 3.0), 10),
    ],
)
def test_mean_of_the_majorant_is_the_population_trace(
    observe: Observer, kernel: Kernel, inputs: Gaussian, M: int
) -> None:
    cells = Cells.of(kernel, inputs, M)
    assert cells.shares.sum() == pytest.approx(1.0, rel=1e-14)
    population = math.exp(PopulationTrace(spectrum(kernel, inputs=inputs)).log(np.array([float(M)]))[0])
    mean = float(cells.shares @ cells.upper)
    observe.upper("N-pop", population, mean * (1 + 2e-3))  # population: what N-cut leaves over
    observe.upper("N-sum", mean, population * 1.2)
    # a finer look between the ends of the cells
    x = inputs.sample(3000, np.random.default_rng(0))
    majorant = TraceMajorant.of(kernel, M, *pilot_points(inputs, pilots(M)))
    observe.upper("N-sum", majorant(x).max(), cells.upper.max())
    width = 18.0 if isinstance(inputs, Gaussian) else float(inputs.widths[0])
    low = -9.0 if isinstance(inputs, Gaussian) else float(inputs.low)
    index = ((x[:, 0] - low) / width * (cells.shares.size - 1)).astype(int)
    observe.upper("N-sum", majorant(x), cells.upper[index])


@pytest.mark.claim("N-sum")
@pytest.mark.parametrize("kernel", KERNELS)
def test_features_between_two_points(observe: Observer, kernel: Kernel) -> None:
    """‖φ(x) − (1−s)φ(a) − sφ(b)‖ from the kernel itself, in mpmath's stead with steps that leave digits."""
    for step in (10.0, 1.0, 0.3, 0.03, 0.003):
        s = np.linspace(0.0, 1.0, 41)
        K = kernel(np.concatenate([[0.0, step], s * step])[:, None])
        square = (
            K[0, 0] * (1 + (1 - s) ** 2 + s**2) - 2 * (1 - s) * K[0, 2:] - 2 * s * K[1, 2:] + 2 * s * (1 - s) * K[0, 1]
        )
        bound = interpolation_error(kernel, step)
        observe.upper("N-sum", square.max(), bound**2 + 1e-14)


@pytest.mark.claim("N-out")
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 9),
    extra=st.integers(1, 3),
    M=st.integers(2, 6),
    rank=st.integers(1, 9),
)
def test_outliers_cost_a_factor_and_a_point_each(
    observe: Observer, seed: int, n: int, extra: int, M: int, rank: int
) -> None:
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, rank)) * np.exp(rng.uniform(-4, 2, rank))
    A = F @ F.T
    E = rng.standard_normal((n, extra)) * np.exp(rng.uniform(-3, 4, extra))
    if M <= extra:
        return

    def trace(matrix: np.ndarray, size: int) -> float:
        values = np.linalg.eigvalsh(matrix)
        values = values[values > 1e-12 * values[-1]]
        return float(expected_trace(values, size)) if values.size > size else 0.0

    bound = (M + 1) / (M + 1 - extra) * trace(A, M - extra)
    observe.upper("N-out", trace(A + E @ E.T, M), bound, tol=1e-9 * (np.trace(A) + np.trace(E @ E.T)))


@pytest.mark.claim("N-out")
def test_outliers_far_away_attain_the_factor(observe: Observer) -> None:
    """K = I of size n and an outlier of moderate size: τ_M → ((M+1)/M)·τ_{M−1} only as M or the outlier grows."""
    big = np.append(np.ones(200), 1e9)
    whole = float(expected_trace(big, 5))
    bound = 6 / 5 * float(expected_trace(np.ones(200), 4))
    observe.upper("N-out", whole, bound)
    assert whole > 0.8 * bound


@pytest.mark.claim("N-sum", "N-out")
@pytest.mark.parametrize(
    ("kernel", "inputs", "N", "M"),
    one_in(
        2,
        [
            (SquaredExponential(1.0, 0.5), Gaussian(), 40, 6),
            (SquaredExponential(1.0, 0.5), Gaussian(), 40, 10),
            (Matern(1.5), Gaussian(2.0), 40, 12),
            (SquaredExponential(1.0, 0.2), Uniform(), 40, 6),
            (Matern(0.5), Uniform(), 40, 8),
        ],
    ),
)
def test_failure_frequency_of_the_sum(observe: Observer, kernel: Kernel, inputs: Gaussian, N: int, M: int) -> None:
    rng = np.random.default_rng(1)
    traces = np.array([mean_trace(kernel, inputs.sample(N, rng), M) for _ in range(200)])
    for delta in (0.3, 0.05):
        bound = sum_bound(kernel, N, M, inputs=inputs, delta=delta)
        failures = int((traces > float(bound)).sum())
        observe.frequency("N-sum", failures, len(traces), delta)
        if bound.terms["outliers"]:
            observe.frequency("N-out", failures, len(traces), delta)
        observe.upper("N-sum", np.quantile(traces, 1 - delta), float(bound))
    tighter = sum_bound(kernel, N, M, inputs=inputs, delta=0.01)
    assert float(tighter) > float(bound) > bound.terms["mean"]


@pytest.mark.claim("N-sum")
def test_chernoff_by_hand(observe: Observer) -> None:
    """Against the exact tail of a sum of N values on two cells."""
    from gpbounds.rates.concentration import _chernoff

    values, shares, N = np.array([1.0, 30.0]), np.array([0.9, 0.1]), 12
    for delta in (0.5, 0.05, 1e-4):
        t = _chernoff(values, shares, 0.0, N, delta)
        exact = sum(
            math.comb(N, j) * 0.1**j * 0.9 ** (N - j) for j in range(N + 1) if 30.0 * j + (N - j) >= t * (1 + 1e-12)
        )
        observe.upper("N-sum", exact, delta)
        best = min(
            float(rates.chernoff(values, shares, N, delta, mp.mpf(10) ** (k / mp.mpf(50)))) for k in range(-200, 50)
        )
        observe.equal("N-sum", t, best, rtol=1e-3)
    assert _chernoff(np.zeros(3), np.ones(3) / 3, 0.0, 5, 0.1) == 0.0


@pytest.mark.claim("N-trace")
@given(
    seed=st.integers(0, 10**9),
    alpha=st.sampled_from([1.0, 0.999, 0.7, 0.5, 0.1]),
    R=st.sampled_from([1, 2, 3, 10]),
    delta=st.sampled_from([0.05, 0.3]),
)
def test_two_traces_are_enough(observe: Observer, seed: int, alpha: float, R: int, delta: float) -> None:
    """All subsets; the probability over the draws exactly, its R-th power averaged over 300 draws of y."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(4, 10))
    M = int(rng.integers(1, min(N - 1, 4) + 1))
    cell = subsets(rng, N, M)
    M = min(M, int((cell.values > 0).sum()))
    residual = expected_residual(cell.values, M, noise=cell.noise)
    offset, form = cell.gap(alpha)
    noisy = cell.K + cell.noise * np.eye(N)
    y = rng.standard_normal((300, N)) @ np.linalg.cholesky(noisy).T
    gaps = offset + 0.5 * np.einsum("ki,sij,kj->ks", y, form, y)
    B = float(prior_from_trace(residual.trace, residual.ratio, noise=cell.noise, delta=delta, draws=R, alpha=alpha))
    failing = (((gaps > B + 1e-9) @ cell.kdpp) ** R).sum()
    observe.frequency("N-trace", int(failing), len(y), delta)
    norm = float(10.0 ** rng.uniform(-1, 2))
    target = rng.standard_normal(N)
    target *= math.sqrt(norm) / np.linalg.norm(target)
    fixed = offset + 0.5 * np.einsum("i,sij,j->s", target, form, target)
    B = float(
        fixed_from_trace(residual.trace, residual.ratio, norm, noise=cell.noise, delta=delta, draws=R, alpha=alpha)
    )
    observe.upper("N-trace", cell.kdpp[fixed > B + 1e-9 * (1 + B)].sum() ** R, delta, tol=1e-9)


@pytest.mark.claim("N-trace")
@given(
    t=st.floats(1e-6, 1e4),
    r=st.floats(1e-6, 1e4),
    alpha=st.floats(0.01, 1.0),
    R=st.integers(1, 12),
    delta=st.floats(0.01, 0.5),
)
def test_closed_form_against_a_search_over_a(
    observe: Observer, t: float, r: float, alpha: float, R: int, delta: float
) -> None:
    bound = float(prior_from_trace(t, r, noise=1.0, delta=delta, draws=R, alpha=alpha))
    largest = mp.mpf(r) / (mp.sqrt(r) + 1) ** 2
    with mp.workdps(30):
        searched = min(
            rates.prior_from_trace(mp.mpf(t), largest, mp.mpf(delta) ** (mp.mpf(1) / few), mp.mpf(alpha), few)
            for few in range(1, R + 1)
        )
    observe.upper(
        "N-trace", mp.mpf(bound), searched * (1 + mp.mpf(10) ** -10)
    )  # any a gives a bound; this one the best
    if t < 100:
        observe.equal("N-trace", bound, float(searched), rtol=1e-2)


@pytest.mark.claim("N-trace")
@given(
    t=st.one_of(st.floats(1e-6, 1e4), st.floats(-300, -6).map(lambda e: 10.0**e)),
    r=st.one_of(st.floats(1e-6, 1e4), st.floats(-300, -6).map(lambda e: 10.0**e)),
    alpha=st.floats(0.01, 1.0),
    R=st.integers(1, 12),
    delta=st.one_of(st.floats(0.01, 0.5), st.floats(-300, -2).map(lambda e: 10.0**e)),
)
def test_the_closed_form_is_rounded_upwards(
    observe: Observer, t: float, r: float, alpha: float, R: int, delta: float
) -> None:
    """αW(p + t)/(2p(p + (1 − α)t)) to 40 digits, the least over the numbers of draws; no allowance.

    Tiny t and δ have long logarithms, whose rounding e^x enlarges a hundredfold.
    """
    bound = float(prior_from_trace(t, r, noise=1.0, delta=delta, draws=R, alpha=alpha))
    with mp.workdps(40):
        T, a, largest = mp.mpf(t), mp.mpf(alpha), mp.mpf(r) / (mp.sqrt(r) + 1) ** 2
        exact = []
        for few in range(1, R + 1):
            p = mp.mpf(delta) ** (mp.mpf(1) / few)
            W = mp.fprod(T + 2 * largest * i for i in range(few)) ** (mp.mpf(1) / few)
            exact.append(a * W * (p + T) / (2 * p * (p + (1 - a) * T)))
        observe.upper("N-trace", min(exact), mp.mpf(bound))


@pytest.mark.claim("N-trace")
def test_limits(observe: Observer) -> None:
    """Small traces: α·t/(2p) and what y may add; more draws and smaller traces never hurt."""
    p = 0.05**0.1
    small = float(prior_from_trace(1e-8, 1e-12, noise=1.0, delta=0.05, draws=10, alpha=0.5))
    observe.equal("N-trace", small, 0.25e-8 / p, rtol=1e-2)
    values = [float(prior_from_trace(0.5, 0.1, noise=1.0, delta=0.05, draws=R)) for R in (1, 2, 5, 10, 40)]
    observe.holds("N-trace", np.all(np.diff(values) <= 0) and values[0] > 3 * values[3])
    assert math.isinf(float(prior_from_trace(0.5, 0.1, noise=1.0, delta=0.05, draws=1, tv=0.1)))
    assert float(prior_from_trace(0.0, 0.1, noise=1.0, delta=0.05)) == 0.0


@pytest.mark.claim("N-tilt-trace")
@given(
    seed=st.integers(0, 10**9),
    alpha=st.sampled_from([1.0, 0.7, 0.1]),
    R=st.sampled_from([1, 2, 10]),
    delta=st.sampled_from([0.05, 0.3]),
)
def test_two_tilted_traces_are_enough(observe: Observer, seed: int, alpha: float, R: int, delta: float) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(4, 10))
    M = int(rng.integers(1, min(N - 1, 4) + 1))
    cell = subsets(rng, N, M)
    positive = cell.values[cell.values > 0]
    M = min(M, positive.size)
    if positive.size <= M:
        return
    trace, ratio = tilted_traces(positive, 0.0, M, noise=cell.noise)
    residual = expected_residual(cell.values, M, noise=cell.noise)
    whole = tilted_prior(residual, delta=delta, draws=R, alpha=alpha)
    B = tilted_from_trace(trace, ratio, noise=cell.noise, delta=delta, draws=R, alpha=alpha)
    observe.equal("N-tilt-trace", B.terms["mean"], whole.terms["mean"], rtol=1e-9)
    single = tilted_from_trace(trace, ratio, noise=cell.noise, delta=delta, draws=1, alpha=alpha)
    observe.upper(
        "N-tilt-trace", float(tilted_prior(residual, delta=delta, draws=1, alpha=alpha)), float(single) * (1 + 1e-9)
    )
    offset, form = cell.gap(alpha)
    noisy = cell.K + cell.noise * np.eye(N)
    y = rng.standard_normal((300, N)) @ np.linalg.cholesky(noisy).T
    gaps = offset + 0.5 * np.einsum("ki,sij,kj->ks", y, form, y)
    failing = (((gaps > float(B) + 1e-9) @ cell.tilted) ** R).sum()
    observe.frequency("N-tilt-trace", int(failing), len(y), delta)


@pytest.mark.claim("N-tilt-trace")
@given(seed=st.integers(0, 10**6), n=st.integers(4, 30), M=st.integers(1, 6), noise=st.floats(1e-3, 10.0))
def test_tilted_traces_from_some_of_the_pivots(observe: Observer, seed: int, n: int, M: int, noise: float) -> None:
    """Pivoted Cholesky factors of every length: never below, and exact with all of K."""
    rng = np.random.default_rng(seed)
    n += M
    kernel = KERNELS[seed % len(KERNELS)]
    K = kernel(rng.standard_normal((n, 2)))
    values = np.maximum(np.linalg.eigvalsh(K)[::-1], 0.0)
    tilted = [mp.mpf(float(v)) * (mp.mpf(float(v)) + noise) for v in values if v > 0]
    exact = [float(reference.expected_trace(tilted, m)) for m in (M, M - 1)]
    S, F = K.copy(), np.zeros((0, n))
    for rows in range(1, n + 1):
        i = int(np.argmax(S.diagonal()))
        if S[i, i] < 1e-9:
            break
        F = np.vstack([F, S[i] / math.sqrt(S[i, i])])
        S = S - np.outer(F[-1], F[-1])
        if rows > M:
            kept = np.maximum(np.linalg.eigvalsh(F @ F.T), 1e-300)
            trace, ratio = tilted_traces(kept, max(float(np.trace(S)), 0.0), M, noise=noise, rounding=1e-12)
            observe.upper("N-tilt-trace", exact[0], trace * (1 + 1e-9))
            observe.upper("N-tilt-trace", exact[1], ratio * M * (1 + 1e-9))
    whole, _ = tilted_traces(values[values > 0], 0.0, M, noise=noise)
    observe.equal("N-tilt-trace", whole, exact[0], rtol=1e-11)
