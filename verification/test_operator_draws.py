"""λ_max(K − Q) of random inducing points: N-op-draw and N-op-pop by enumeration, on hard spectra, and by draws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observer import Observer
from subset_instances import instance
from thinning import one_in

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, kdpp, rate
from gpbounds.kdpp.residual import expected_residual
from gpbounds.rates.operator_gap import dimension_above, gap_quantile
from gpbounds.rates.trace import PopulationTrace
from gpbounds.reference import kdpp as laws
from gpbounds.reference import rates as reference
from gpbounds.spectra import sharpest_spectrum, spectrum

seeds = st.integers(0, 2**32 - 1)
LEVELS = (0.01, 0.05, 0.2, 0.5, 0.05**0.1, 0.95)
DRAWS = 300


def covariance(kind: str, N: int, seed: int) -> Any:
    """A covariance matrix (N, N) in mpmath: generic, nearly diagonal, of steep or flat spectrum, of equal correlations,
    or one large entry apart from the others."""
    rng = np.random.default_rng(seed)
    if kind == "equal":
        rho = float(np.round(rng.uniform(0.0, 0.99), 2))
        return mp.matrix([[1 if i == j else mp.mpf(rho) for j in range(N)] for i in range(N)])
    B = np.round(rng.standard_normal((N, N)), 4)
    if kind == "steep":
        B = B * 10.0 ** -np.arange(N)
    if kind == "nearly diagonal":
        B = np.diag(np.round(10.0 ** rng.uniform(-2, 1, N), 3)) + 0.01 * B
    if kind == "one apart":
        B[0] *= 100.0
    exact = mp.matrix(np.round(B, 8).tolist())
    return exact * exact.T


KINDS = ("generic", "nearly diagonal", "steep", "equal", "one apart")


def check_law(observe: Observer, values: list[Any], rho: list[Any], gaps: list[tuple[Any, Any]]) -> None:
    """The statements of N-op-draw for the law with the pairs (probability, λ_max) ``gaps``."""
    scale = max(values)
    for share in (0.0, 0.01, 0.1, 0.5):
        c = share * scale
        mean = mp.fsum(p * max(gap - c, 0) for p, gap in gaps)
        above = mp.fsum(r * max(1 - c / value, 0) for value, r in zip(values, rho, strict=True) if value > 0)
        observe.upper("N-op-draw", mean / scale, above / scale, tol=1e-30)
    fast = np.array([float(value) for value in values]), np.array([float(r) for r in rho])
    for p in LEVELS:
        t = reference.gap_quantile(values, rho, p)
        observe.upper("N-op-draw", mp.fsum(q for q, gap in gaps if gap > t * (1 + mp.mpf(10) ** -25)), p)
        observe.equal("N-op-draw", mp.mpf(gap_quantile(*fast, p)[0]), t, rtol=1e-12)


@pytest.mark.claim("N-op-draw")
@settings(max_examples=30)
@given(st.sampled_from(KINDS), st.integers(2, 6), st.integers(1, 4), seeds)
def test_a_k_dpp_by_enumeration(observe: Observer, kind: str, N: int, M: int, seed: int) -> None:
    K, M = covariance(kind, N, seed), min(M, N - 1)
    with mp.workdps(40):
        values = [max(value, mp.mpf(0)) for value in mp.eigsy(K, eigvals_only=True)]
        rho = [value * share for value, share in zip(values, laws.miss(values, M), strict=True)]
        gaps = [(p, reference.operator_gap(laws.residual(K, Z))) for Z, p in laws.law(K, M).items() if p > 0]
        check_law(observe, values, rho, gaps)
        observe.upper("N-op-draw", mp.fsum(p * gap for p, gap in gaps), mp.fsum(rho), tol=1e-25 * float(max(values)))


@pytest.mark.claim("N-op-draw", "N-rpc")
@settings(max_examples=20)
@given(st.sampled_from(KINDS), st.integers(2, 5), st.integers(1, 3), seeds)
def test_randomly_pivoted_cholesky_by_enumeration(observe: Observer, kind: str, N: int, M: int, seed: int) -> None:
    K, M = covariance(kind, N, seed), min(M, N - 1)
    with mp.workdps(40):
        values = [max(value, mp.mpf(0)) for value in mp.eigsy(K, eigvals_only=True)]
        gaps = []
        for sequence, p in laws.rpcholesky_law(K, M).items():
            S = K
            for i in sequence:
                S = laws.one_point_less(S, i)
            gaps.append((p, reference.operator_gap(S)))
        check_law(observe, values, laws.rpcholesky_residual(values, M), gaps)


@pytest.mark.claim("N-op-draw")
@settings(max_examples=60)
@given(seeds, st.integers(2, 9))
def test_subsets_of_hard_spectra(observe: Observer, seed: int, N: int) -> None:
    """All subsets in doubles: flat, spiked, low-rank spectra and equal inputs; the best of R draws, tv included."""
    rng = np.random.default_rng(seed)
    case = instance(rng, N)
    rank = int((case.values > 0.0).sum())
    if rank < 2:
        return
    M = int(rng.integers(1, rank))
    subsets = [list(Z) for Z in itertools.combinations(range(N), M)]
    weights = np.array([max(np.linalg.det(case.K[np.ix_(Z, Z)]), 0.0) for Z in subsets])
    chances, gaps = weights / weights.sum(), np.empty(len(subsets))
    for j, Z in enumerate(subsets):
        inner = np.linalg.pinv(case.K[np.ix_(Z, Z)], rcond=1e-13, hermitian=True)
        gaps[j] = np.linalg.eigvalsh(case.K - case.K[:, Z] @ inner @ case.K[Z])[-1] if chances[j] > 1e-12 else 0.0
    residual = expected_residual(case.values, M)
    tilted = chances * rng.exponential(size=chances.size)
    tilted /= tilted.sum()
    tv = 0.5 * float(abs(tilted - chances).sum())
    for delta, draws in itertools.product((0.05, 0.3), (1, 2, 10)):
        p = delta ** (1.0 / draws)
        for law, share in ((chances, p), (tilted, p - tv)):
            if share > 0.0:
                t, _ = gap_quantile(residual.eigenvalues, residual.rho, share)
                beyond = float(law[gaps > t * (1.0 + 1e-9) + 1e-9 * case.values.max()].sum())
                observe.upper("N-op-draw", beyond**draws, delta)


@pytest.mark.claim("N-op-draw")
@given(seeds, st.integers(2, 30), st.sampled_from(LEVELS))
def test_no_other_convex_function_proves_less(observe: Observer, seed: int, N: int, p: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.sort(10.0 ** rng.uniform(-4.0, 1.0, N))[::-1]
    residual = expected_residual(values, int(rng.integers(1, N)))
    t, _ = gap_quantile(values, residual.rho, p)
    s = float(rng.uniform(0.1, 30.0) / values[0])
    functions = [values**q / t**q for q in (1.0, 1.5, 2.0, 4.0)]
    functions += [np.expm1(s * values) / math.expm1(s * t), np.exp(s * values) / math.exp(s * t)]
    c = float(rng.uniform(0.0, 0.999)) * t
    functions.append(np.maximum(values - c, 0.0) / (t - c))
    for function in functions:
        proved = float((function * residual.miss).sum())
        observe.lower("N-op-draw", proved, p * (1.0 - 1e-10))


@pytest.mark.claim("N-op-draw")
@given(seeds, st.integers(3, 25), st.integers(1, 24), st.sampled_from(LEVELS))
def test_a_pivoted_factor_proves_a_bound_on_the_same_quantile(
    observe: Observer, seed: int, N: int, r: int, p: float
) -> None:
    """Both forms with FᵀF ⪯ K are at least what they bound: the mean of Tr Π(K − c)₊ over p, plus c."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((N, N)) * 10.0 ** rng.uniform(-2.0, 1.0, N)
    K, r = B @ B.T, min(r, N - 1)
    M = int(rng.integers(1, N))
    factor = np.linalg.cholesky(K)[:, :r]
    left = float(np.trace(K) - (factor**2).sum())
    values, exact = np.linalg.eigvalsh(factor.T @ factor), np.maximum(np.linalg.eigvalsh(K), 0.0)
    residual = expected_residual(exact, M)
    ratio = residual.ratio
    _, c = gap_quantile(values, ratio * values / (values + ratio), p)
    mean = float((ratio * np.maximum(values - c, 0.0) / (values + ratio)).sum())
    scale = exact.max()
    truth = float((residual.miss * np.maximum(exact - c, 0.0)).sum())
    observe.upper("N-op-draw", truth / scale, (mean + left * ratio / (c + ratio)) / scale, tol=1e-9)
    # the second form is about ΠFᵀFΠ: its mean in the eigenbasis of FᵀF
    V, lam = np.linalg.eigh(K)[::-1]
    inner, W = np.linalg.eigh(factor @ factor.T)
    missed = (V * expected_residual(np.maximum(lam, 0.0), M).miss) @ V.T
    diagonal = np.einsum("ij,ik,kj->j", W, missed, W)
    second = float((diagonal * np.maximum(inner - c, 0.0)).sum())
    observe.upper("N-op-draw", second / scale, mean / scale, tol=1e-9)


CASES = [
    (SquaredExponential(1.0, 0.5), 1, 120, 12, 1),
    (Matern(0.5, 1.0, 0.5), 1, 150, 40, 1),
    (Matern(1.5), 2, 150, 50, 10),
    (SquaredExponential(1.0, 2.0), 4, 150, 50, 3),
]


@pytest.mark.broad
@pytest.mark.claim("N-op-draw")
@pytest.mark.parametrize(("kernel", "dim", "N", "M", "draws"), one_in(2, CASES))
@pytest.mark.parametrize("delta", [0.3, 0.05])
def test_the_least_of_several_draws(
    observe: Observer, kernel: Any, dim: int, N: int, M: int, draws: int, delta: float
) -> None:
    rng = np.random.default_rng(N + M)
    X = rng.standard_normal((N, dim))
    K, noise = kernel(X), 0.1
    bound = rate(kernel, N, M, criterion="operator", inputs=Empirical(X), noise=noise, delta=delta, draws=draws)
    assert bound.certified
    observe.upper("N-op-draw", float(bound), bound.terms["from_trace"])
    failures, tries = 0, DRAWS // draws + 60
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    for _ in range(tries):
        gaps = []
        for _ in range(draws):
            Z = kdpp.sample_eigen(values, vectors, M, rng)
            gaps.append(np.linalg.eigvalsh(K - K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z]))[-1])
        failures += min(gaps) / noise > float(bound) + 1e-9
    observe.frequency("N-op-draw", failures, tries, delta)


@pytest.mark.claim("N-op-draw")
@pytest.mark.parametrize("rigor", ["auto", "sharp"])
@pytest.mark.parametrize("law", ["kdpp", "rpcholesky"])
def test_given_rows_the_value_is_above_the_exact_one(observe: Observer, rigor: str, law: str) -> None:
    X = np.linspace(0.0, 4.0, 14)
    kernel, noise = SquaredExponential(1.0, 0.5), 0.01
    with mp.workdps(50):
        gram = [[mp.exp(-((mp.mpf(float(a)) - mp.mpf(float(b))) ** 2) * 2) for b in X] for a in X]
        values = sorted(mp.eigsy(mp.matrix(gram), eigvals_only=True), reverse=True)
        for M, draws, tv in ((3, 1, 0.0), (8, 10, 0.0), (11, 2, 0.01)):
            if law == "kdpp":
                rho = [value * share for value, share in zip(values, laws.miss(values, M), strict=True)]
            else:
                rho = laws.rpcholesky_residual(values, M)
            share = mp.mpf(0.05) ** (mp.mpf(1) / draws) - mp.mpf(tv)
            truth = reference.gap_quantile(values, rho, share) / mp.mpf(noise)
            bound = rate(
                kernel, 14, M, criterion="operator", inputs=Empirical(X), noise=noise, draws=draws, tv=tv, law=law,
                rigor=rigor,
            )  # fmt: skip
            assert bound.certified
            observe.upper("N-op-draw", truth, mp.mpf(float(bound)))
            if rigor == "sharp":
                observe.equal("N-op-draw", mp.mpf(float(bound)), truth, rtol=1e-8)


# Inputs to come.


@pytest.mark.claim("N-op-pop")
@settings(max_examples=40)
@given(seeds, st.integers(1, 6), st.floats(1e-4, 10.0))
def test_the_effective_dimension_is_self_bounding(observe: Observer, seed: int, N: int, c: float) -> None:
    K = covariance("generic", N, seed)
    with mp.workdps(40):
        d, inverse = reference.effective_dimension(K, c), mp.inverse(K + c * mp.eye(N))
        falls = []
        for i in range(N):
            rest = [j for j in range(N) if j != i]
            less = mp.matrix([[K[a, b] for b in rest] for a in rest]) if rest else None
            falls.append(d - (reference.effective_dimension(less, c) if less else 0))
            formula = 1 - c * (inverse * inverse)[i, i] / inverse[i, i]
            observe.equal("N-op-pop", falls[-1], formula, rtol=mp.mpf(10) ** -25, atol=mp.mpf(10) ** -30)
        observe.holds("N-op-pop", all(-(mp.mpf(10) ** -30) <= fall <= 1 for fall in falls), N)
        observe.upper("N-op-pop", mp.fsum(falls), d, tol=1e-30)


@pytest.mark.claim("N-op-pop")
@given(
    seed=seeds, points=st.integers(2, 4), rank=st.integers(1, 4), N=st.integers(1, 8), c=st.floats(1e-3, 30.0),
    even=st.booleans(),
)  # fmt: skip
def test_over_all_inputs_from_few_points(
    observe: Observer, seed: int, points: int, rank: int, N: int, c: float, even: bool
) -> None:
    """E d(K) <= D, and P(d >= D⁺) <= p, by how often each point comes."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((points, rank)) * np.exp(rng.uniform(-4, 2, rank))
    weights = np.full(points, 1.0 / points) if even else rng.dirichlet(np.ones(points))
    gram = features @ features.T
    mu = np.maximum(np.sort(np.linalg.eigvalsh(np.sqrt(np.outer(weights, weights)) * gram))[::-1], 0.0)
    tails = np.append(np.cumsum(mu[::-1])[::-1], 0.0)
    mean = float(min(k + N * tails[k] / c for k in range(points + 1)))
    chances, dimensions = [], []
    for bars in itertools.combinations(range(N + points - 1), points - 1):
        times = np.diff([-1, *bars, N + points - 1]) - 1
        chances.append(math.factorial(N) * np.prod(weights**times / [math.factorial(t) for t in times]))
        values = np.maximum(np.linalg.eigvalsh(np.sqrt(np.outer(times, times)) * gram), 0.0)
        dimensions.append((values / (values + c)).sum())
    observe.upper("N-op-pop", np.dot(chances, dimensions), mean, tol=1e-9)
    for p in LEVELS:
        beyond = float(np.sum(chances, where=np.array(dimensions) >= dimension_above(mean, p) + 1e-9))
        observe.upper("N-op-pop", beyond, p)
        observe.equal("N-op-pop", dimension_above(mean, p), float(reference.dimension_above(mean, p)), rtol=1e-12)


POPULATIONS = [
    (Matern(0.5), Uniform(), 150, 60),
    (Matern(1.5), Uniform(), 150, 20),
    (SquaredExponential(), Gaussian(), 100, 9),
    (SquaredExponential(1.0, [1.0, 1.0]), Gaussian(dim=2), 100, 30),
]


@pytest.mark.broad
@pytest.mark.claim("N-op-pop")
@pytest.mark.parametrize(("kernel", "inputs", "N", "M"), one_in(2, POPULATIONS))
def test_inputs_and_points_drawn_together(observe: Observer, kernel: Any, inputs: Any, N: int, M: int) -> None:
    rng, noise, delta = np.random.default_rng(M), 0.1, 0.3
    bound = rate(kernel, N, M, criterion="operator", inputs=inputs, noise=noise, delta=delta)
    failures = 0
    for _ in range(DRAWS):
        K = kernel(inputs.sample(N, rng))
        Z = kdpp.sample(K, M, rng)
        gap = np.linalg.eigvalsh(K - K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z]))[-1]
        failures += gap / noise > float(bound) + 1e-9
    observe.frequency("N-op-pop", failures, DRAWS, delta)


@pytest.mark.claim("N-op-pop")
@pytest.mark.parametrize(("kernel", "inputs"), [(case[0], case[1]) for case in POPULATIONS])
@pytest.mark.parametrize(("N", "M"), [(10**4, 150), (10**6, 700), (1000, 2)])
def test_the_value_before_the_data_is_one_of_the_two_forms(
    observe: Observer, kernel: Any, inputs: Any, N: int, M: int
) -> None:
    """The theorem from the same tails at 30 digits, for the cut that the bound names."""
    noise, delta = 0.1, 0.05
    bound = rate(kernel, N, M, criterion="operator", inputs=inputs, noise=noise, delta=delta)
    law, population = spectrum(kernel, inputs=inputs), PopulationTrace(sharpest_spectrum(kernel, inputs))
    tails = [mp.exp(mp.mpf(float(v))) for v in law.log_tail(np.arange(M + 1.0))]

    def trace(m: int) -> Any:
        least = laws.trace_bound(tails, m)
        return N * min(least, mp.exp(mp.mpf(float(population.log(np.array([float(m)]))[0]))))

    with mp.workdps(30):
        by_trace = trace(M) / (mp.mpf(delta) * noise)
        cut = mp.mpf(bound.terms["cut"])
        if cut == 0:
            observe.equal("N-op-pop", mp.mpf(float(bound)), by_trace, rtol=1e-6)
            observe.upper("N-op-pop", by_trace * (1 - mp.mpf(10) ** -12), mp.mpf(float(bound)))
            return
        D = min(k + N * tail / cut for k, tail in enumerate(tails))
        first = mp.mpf(delta) / 8
        above = (cut + reference.dimension_above(D, first) * trace(M - 1) / M / (delta - first)) / noise
        observe.upper("N-op-pop", above * (1 - mp.mpf(10) ** -12), mp.mpf(float(bound)))
        observe.equal("N-op-pop", mp.mpf(float(bound)), above, rtol=0.05)
        observe.upper("N-op-pop", float(bound), float(by_trace))


@pytest.mark.claim("N-op-pop")
def test_balls_are_above_the_doubles_of_the_trace(observe: Observer) -> None:
    kernel, inputs = SquaredExponential(), Gaussian()
    for N, M in ((100, 5), (10**6, 28)):
        with mp.workdps(40):
            B = (3 - mp.sqrt(5)) / 2
            t = N * reference.geometric_trace(B, M)
            bound = rate(kernel, N, M, criterion="operator", inputs=inputs, rigor="sharp")
            truth = t / (mp.mpf(0.05) * mp.mpf(0.1))
            assert bound.certified
            observe.upper("N-op-pop", truth, mp.mpf(float(bound)))
            observe.equal("N-op-pop", mp.mpf(float(bound)), truth, rtol=1e-14)
