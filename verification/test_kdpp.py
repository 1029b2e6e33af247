"""k-DPP claims (ledger F, N-dpp): by enumeration of every Z, and of every X, at 50 digits or more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from math import comb, factorial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds import kdpp
from gpbounds.reference import kdpp as reference
from gpbounds.reference import renyi

DIGITS = 90  # spectra over 30 decades go through inverses of 6 x 6 matrices
SPECTRA = {
    "generic": lambda rng, N: rng.random(N),
    "flat": lambda rng, N: np.ones(N),
    "geometric": lambda rng, N: 10.0 ** -(5.0 * np.arange(N)),
    "polynomial": lambda rng, N: np.arange(1.0, N + 1) ** -4,
    "spiked": lambda rng, N: np.r_[1e8, np.full(N - 1, 1e-3)],
    "low rank": lambda rng, N: np.r_[rng.random(N - N // 2), np.zeros(N // 2)],
    "rank one": lambda rng, N: np.r_[2.0, np.zeros(N - 1)],
    "1e-300": lambda rng, N: 1e-300 * rng.random(N),
    "1e+50": lambda rng, N: 1e50 * rng.random(N),
}
spectra = st.builds(
    lambda kind, N, seed: SPECTRA[kind](np.random.default_rng(seed), N),
    st.sampled_from(sorted(SPECTRA)),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def many_digits(fifty_digits: None) -> Iterator[None]:
    with mp.workdps(DIGITS):
        yield


def rotated(eigenvalues: Any, rng: np.random.Generator) -> mp.matrix:
    """A matrix with exactly these eigenvalues: two Householder reflections of the diagonal one."""
    N = len(eigenvalues)
    U = mp.eye(N)
    for _ in range(2):
        v = mp.matrix([mp.mpf(x) for x in rng.standard_normal(N)])
        U = U - (2 / (v.T * v)[0]) * (U * v) * v.T
    return U * mp.diag([mp.mpf(float(x)) for x in eigenvalues]) * U.T


def kernel_matrix(points: Any, rng: np.random.Generator) -> tuple[mp.matrix, list[Any]]:
    """exp(−|x − x'|/ℓ) at the points (duplicates allowed) and its eigenvalues, largest first."""
    scale = mp.mpf(rng.uniform(0.1, 3.0))
    K = mp.matrix([[mp.exp(-abs(mp.mpf(a) - mp.mpf(b)) / scale) for b in points] for a in points])
    values = sorted((max(v, mp.mpf(0)) for v in mp.eigsy(K, eigvals_only=True)), reverse=True)
    return K, [v if v > mp.mpf(10) ** (20 - DIGITS) else mp.mpf(0) for v in values]


def trace(D: mp.matrix) -> Any:
    return mp.fsum(D[i, i] for i in range(D.rows))


def characteristic(D: mp.matrix) -> list[Any]:
    """e_0 … e_N of a matrix (Faddeev–LeVerrier), no eigenvalues needed."""
    N = D.rows
    e, B = [mp.mpf(1)], mp.eye(N)
    for j in range(1, N + 1):
        A = D * B
        e.append(trace(A) / j)
        B = e[j] * mp.eye(N) - A
    return e


def log_a(D: mp.matrix, noise: Any, alpha: Any) -> Any:
    """−log C_x = (α/(2β)) log|I + (β/σ²)Δ|, Tr Δ/(2σ²) at α = 1."""
    if alpha == 1:
        return trace(D) / (2 * noise)
    beta = 1 - alpha
    return alpha / (2 * beta) * mp.log(mp.det(mp.eye(D.rows) + (beta / noise) * D))


def close(observe: Observer, claim: str, value: Any, truth: Any, rtol: Any, floor: Any) -> None:
    """Equal to ``rtol``; where the truth is below ``floor`` (rounding, or underflow) so is the value."""
    if abs(truth) <= floor:
        observe.holds(claim, abs(value) <= 2 * floor)
    else:
        observe.equal(claim, value, truth, rtol=rtol)


def below(observe: Observer, claim: str, truth: Any, bound: Any, noise: Any) -> None:
    """truth ≤ bound; a truth that is only rounding error counts as 0 and not for tightness."""
    if truth <= noise:
        observe.holds(claim, bound >= -noise)
    else:
        observe.upper(claim, truth, bound, tol=noise)


def sizes(values: Any) -> range:
    return range(sum(1 for v in values if v > 0) + 1)


def tails(values: Any) -> list[Any]:
    ordered = sorted((mp.mpf(v) for v in values), reverse=True)
    return [mp.fsum(ordered[k:]) for k in range(len(ordered) + 1)]


@pytest.mark.claim("R-lem3", "N-dpp")
@given(values=spectra, seed=seeds, c=st.sampled_from([1e-3, 1.0, 40.0]))
def test_exact_expectations(observe: Observer, values: Any, seed: int, c: float) -> None:
    K = rotated(values, np.random.default_rng(seed))
    scale = mp.mpf(float(max(values)))
    for M in sizes(values):
        law, left = reference.law(K, M), len(values) - M
        deltas = [(p, reference.residual(K, Z)) for Z, p in law.items() if p > mp.mpf(10) ** -60]
        moments = [mp.fsum(p * e for (p, _), e in zip(deltas, es, strict=True)) for es in
                   zip(*(characteristic(D) for _, D in deltas), strict=True)]  # fmt: skip
        for j in range(left + 1):
            exact = reference.expected_esp(values, M, j)
            close(observe, "R-lem3", exact, moments[j], mp.mpf(10) ** -20, scale**j * mp.mpf(10) ** -50)
            close(observe, "N-dpp", kdpp.expected_esp(values, M, j), exact, 1e-13, 1e-300)
        determinant = mp.fsum(p * mp.det(mp.eye(D.rows) + c / scale * D) for p, D in deltas)
        exact = reference.log_expected_determinant(values, M, c / scale)
        close(observe, "N-dpp", exact, mp.log(determinant), mp.mpf(10) ** -20, mp.mpf(10) ** -50)


@pytest.mark.claim("R-lem3", "R-lem3c", "R-lem3c-1", "N-dpp")
@given(seed=seeds, N=st.integers(2, 6), alpha=st.sampled_from([1e-6, 0.3, 0.5, 0.9, 1 - 2**-40, 1.0]))
def test_bounds_on_kernels_with_duplicates(observe: Observer, seed: int, N: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    K, values = kernel_matrix(rng.integers(0, 4, N) * 0.7 if seed % 2 else rng.random(N), rng)
    noise, alpha = mp.mpf(10.0 ** rng.uniform(-3, 1)), mp.mpf(alpha)
    for M in sizes(values):
        truth = reference.expectation(K, M, trace)
        least = reference.trace_bound(tails(values), M)
        below(observe, "R-lem3", truth, least, mp.mpf(10) ** -60)
        observe.holds("R-lem3", least <= (M + 1) * tails(values)[M])
        close(observe, "N-dpp", reference.expected_trace(values, M), truth, mp.mpf(10) ** -40, mp.mpf(10) ** -50)
        observe.equal("N-dpp", kdpp.trace_bound([float(t) for t in tails(values)], M).value, least, rtol=1e-14)
        truth = reference.expectation(K, M, lambda D: log_a(D, noise, alpha))
        claim = "R-lem3c-1" if alpha == 1 else "R-lem3c"
        bounds = {r: reference.expected_logdet_bound(values, M, noise, alpha, r) for r in RULES}
        below(observe, claim, truth, bounds["sharpest"], mp.mpf(10) ** -60)
        below(observe, claim, truth, bounds["trace"], mp.mpf(10) ** -60)
        below(observe, claim, truth, bounds["determinant"], mp.mpf(10) ** -60)
        observe.holds(claim, bounds["trace"] <= bounds["printed"] * (1 + mp.mpf(10) ** -60))
        if alpha == 1:
            observe.equal(claim, bounds["printed"], (M + 1) * tails(values)[M] / (2 * noise), rtol=mp.mpf(10) ** -60)


RULES = ("sharpest", "trace", "determinant", "printed")


@pytest.mark.claim("R-lem3", "R-lem3c", "R-lem3c-1")
@given(values=spectra, seed=seeds)
def test_fast_bounds_agree_with_the_reference(observe: Observer, values: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = float(10.0 ** rng.uniform(-6, 3)) * float(min(max(values), 1e100))
    alpha = [0.5, 1 - 1e-13, 1.0, 1e-9, rng.random()][seed % 5]
    for M, rule in product(sizes(values), RULES):
        bound = kdpp.expected_logdet_bound(
            values, M, alpha, "printed" if rule == "printed" else "sharpest", noise=noise
        )
        exact = reference.expected_logdet_bound(values, M, noise, alpha, rule)
        value = bound.value if rule == "sharpest" else bound.terms[rule]
        close(observe, "R-lem3c-1" if alpha == 1.0 else "R-lem3c", value, exact, 2e-14, 1e-300)
        observe.equal("R-lem3", kdpp.expected_trace(values, M), reference.expected_trace(values, M), rtol=1e-14)


@pytest.mark.claim("R-lem3c", "R-lem3c-1")
def test_logdet_bound_is_attained_and_tends_to_its_limit(observe: Observer) -> None:
    N, noise = 5, mp.mpf("0.3")
    for a, b in ((1, 0), (1, 2), (mp.mpf("1e-9"), 1)):  # aI + b11ᵀ: all Z alike; b = 0: Δ has equal eigenvalues, too
        K = a * mp.eye(N) + b * mp.ones(N)
        values = [a + N * b] + [mp.mpf(a)] * (N - 1)
        for M in range(N + 1):
            for alpha in (mp.mpf("0.5"), mp.mpf(1)):
                truth = reference.expectation(K, M, lambda D, order=alpha: log_a(D, noise, order))
                for rule in ("trace", "determinant") if b == 0 or alpha == 1 else ("determinant",):
                    bound = reference.expected_logdet_bound(values, M, noise, alpha, rule)
                    close(observe, "R-lem3c", bound, truth, mp.mpf(10) ** -40, mp.mpf(10) ** -60)
    values = [mp.mpf(2), mp.mpf(1), mp.mpf("0.25")]
    for rule in RULES:
        limit = reference.expected_logdet_bound(values, 1, noise, 1, rule)
        gaps = [
            abs(reference.expected_logdet_bound(values, 1, noise, 1 - mp.mpf(10) ** -k, rule) - limit) for k in (9, 10)
        ]
        observe.holds("R-lem3c-1", abs(gaps[1] / gaps[0] - mp.mpf("0.1")) < 1e-8)


@pytest.mark.claim("R-lem3")
def test_trace_bound_at_the_ledgers_figures_and_in_its_limit(observe: Observer) -> None:
    values = np.arange(1.0, 401.0) ** -4
    sums = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    figures = (
        kdpp.expected_trace(values, 80),
        float(kdpp.trace_bound(sums, 80)),
        float(kdpp.trace_bound(sums, 80, "printed")),
    )
    observe.holds("R-lem3", [f"{figure:.2e}" for figure in figures] == ["2.83e-06", "5.78e-06", "5.13e-05"])
    observe.equal("R-lem3", figures[0], reference.expected_trace(values, 80), rtol=1e-13)
    for k, M in ((0, 3), (2, 4), (3, 3)):  # k dominant eigenvalues over a long flat rest: equality in the limit
        spiked = [mp.mpf(10) ** 40] * k + [mp.mpf(1)] * 1000
        exact, least = reference.expected_trace(spiked, M), reference.trace_bound(tails(spiked), M)
        observe.upper("R-lem3", exact, least)
        observe.equal("R-lem3", least, mp.mpf(M + 1) / (M + 1 - k) * 1000, rtol=mp.mpf(10) ** -30)
        observe.holds("R-lem3", least <= exact * (1 + mp.mpf(1) / 300))


@pytest.mark.claim("R-cor1", "N-dpp")
@given(values=spectra, seed=seeds, tv=st.sampled_from([0.0, 1e-6, 0.01, 0.3, 1.0]))
def test_approximate_sampling_at_worst(observe: Observer, values: Any, seed: int, tv: float) -> None:
    """The worst law within tv moves mass tv from the smallest traces to the largest."""
    K = rotated(values, np.random.default_rng(seed))
    N, variance = K.rows, max(K[i, i] for i in range(K.rows))
    for M in sizes(values):
        law = reference.law(K, M)
        states = sorted((trace(reference.residual(K, Z)), p) for Z, p in law.items() if p > mp.mpf(10) ** -60)
        exact, worst = worst_trace(states, mp.mpf(tv))
        close(
            observe,
            "R-cor1",
            reference.expected_trace(values, M),
            exact,
            mp.mpf(10) ** -20,
            variance * mp.mpf(10) ** -50,
        )
        gain = reference.tv_term(N, M, variance, tv)
        below(observe, "R-cor1", worst, exact + gain, variance * mp.mpf(10) ** -50)
        observe.holds("R-cor1", worst <= (M + 1) * tails(values)[M] + 2 * N * variance * mp.mpf(tv) + variance * 1e-50)
        observe.equal("N-dpp", kdpp.tv_term(N, M, float(variance), tv), gain, rtol=1e-15)
        both = np.array([[M], [N]])  # M = N leaves no trace
        many = kdpp.tv_term(N, both, float(variance), [tv, 0.0])
        observe.equal("N-dpp", many.ravel(), [gain, 0, 0, 0], rtol=1e-15)
        printed = kdpp.tv_term(N, both, float(variance), [tv, 0.0], "printed")
        observe.equal("R-cor1", printed.ravel(), [2 * N * variance * mp.mpf(tv), 0] * 2, rtol=1e-15)


def worst_trace(states: list[tuple[Any, Any]], tv: Any) -> tuple[Any, Any]:
    """E T and the largest E_ν T over TV(ν, μ) ≤ tv, for (T, probability) in increasing order of T."""
    exact = mp.fsum(T * p for T, p in states)
    top, worst, left = states[-1][0], exact, tv
    for T, p in states:
        moved = min(p, left)
        worst, left = worst + moved * (top - T), left - moved
    return exact, worst


@pytest.mark.claim("R-cor1")
def test_approximate_sampling_constant_is_attained(observe: Observer) -> None:
    """K = 1_{N−1}1ᵀ ⊕ 1, M = 1: the last point is independent of the others."""
    for N in (3, 6, 200):
        K = np.ones((N, N))
        K[-1, :-1] = K[:-1, -1] = 0.0
        explained = [kdpp.residual_trace(K, [i]) for i in range(N)]
        observe.equal("R-cor1", explained, [1.0] * (N - 1) + [N - 1.0], rtol=1e-14)
        states = [(mp.mpf(round(T)), mp.mpf(1) / N) for T in explained]  # all |K_Z| = 1
        exact, worst = worst_trace(states, mp.mpf(1) / 4)
        term = kdpp.tv_term(N, 1, 1.0, 0.25)
        observe.upper("R-cor1", worst, exact + term)
        observe.equal("R-cor1", (worst - exact) / term, mp.mpf(N - 2) / (N - 1), rtol=mp.mpf(10) ** -15)
    # eps read as a KL divergence: the law that moves 1e-3 of mass has KL(ν‖μ) far below 1e-3, so 2Nv·eps is too small
    N, moved = 200, mp.mpf("1e-3")
    nu = [mp.mpf(1) / N - moved] + [mp.mpf(1) / N] * (N - 2) + [mp.mpf(1) / N + moved]
    kl = mp.fsum(p * mp.log(p * N) for p in nu)
    exact, worst = worst_trace([(mp.mpf(1), mp.mpf(1) / N)] * (N - 1) + [(mp.mpf(N - 1), mp.mpf(1) / N)], moved)
    observe.fails(
        "R-cor1", worst <= exact + 2 * N * kl, "with ε read as KL(ν‖μ); ε must be the total variation distance"
    )


@pytest.mark.claim("R-logElog")
def test_log_of_the_mean_of_the_log(observe: Observer) -> None:
    K, noise, alpha = mp.matrix([[1, "0.99"], ["0.99", 1]]), mp.mpf(1), mp.mpf("0.5")
    beta, N = 1 - alpha, 2
    truth = reference.expectation(K, 1, lambda D: log_a(D, noise, alpha))
    mean = reference.expectation(K, 1, lambda D: N * mp.log(trace(mp.eye(N) + beta / noise * D) / N))
    printed = alpha / (2 * beta) * mp.log(mean)
    observe.holds("R-logElog", (f"{float(truth):.6f}", f"{float(printed):.3f}") == ("0.004950", "-2.306"))
    observe.fails(
        "R-logElog", truth <= printed, "N=2, M=1, ρ=.99, σ²=1, α=½: −2.306 < .004950; E_Z log, or log E_Z, is meant"
    )


@pytest.mark.claim("R-logElog")
@given(values=spectra, seed=seeds, alpha=st.floats(0.01, 0.99))
def test_middle_terms_of_jensen(observe: Observer, values: Any, seed: int, alpha: float) -> None:
    K, noise = rotated(values, np.random.default_rng(seed)), mp.mpf(float(max(values))) / 3
    alpha = mp.mpf(alpha)
    beta, N = 1 - alpha, K.rows
    for M in sizes(values)[:-1]:  # at M = rank everything is 0
        truth = reference.expectation(K, M, lambda D: log_a(D, noise, alpha))
        mean = reference.expectation(K, M, lambda D: alpha * N / (2 * beta) * mp.log(1 + beta * trace(D) / (N * noise)))
        last = renyi.trace_term(reference.expected_trace(values, M), N, noise, alpha)
        below(observe, "R-logElog", truth, mean, mp.mpf(10) ** -50)
        below(observe, "R-logElog", mean, last, mp.mpf(10) ** -50)


def finite_space(seed: int, S: int) -> tuple[mp.matrix, list[Any], list[Any]]:
    """A kernel on S states, their probabilities, and the eigenvalues of the integral operator."""
    rng = np.random.default_rng(seed)
    K, _ = kernel_matrix(rng.random(S), rng)
    weights = [mp.mpf(w) for w in rng.random(S)]
    p = [w / mp.fsum(weights) for w in weights]
    operator = mp.matrix([[mp.sqrt(p[a] * p[b]) * K[a, b] for b in range(S)] for a in range(S)])
    return K, p, sorted(mp.eigsy(operator, eigvals_only=True), reverse=True)


def at(K: mp.matrix, X: Any) -> mp.matrix:
    return mp.matrix([[K[a, b] for b in X] for a in X])


@pytest.mark.claim("R-samp")
@given(seed=seeds, S=st.integers(2, 4), N=st.integers(1, 4))
def test_sampled_inputs_by_enumeration(observe: Observer, seed: int, S: int, N: int) -> None:
    K, p, operator = finite_space(seed, S)
    tail_means, moments = [mp.mpf(0)] * (N + 1), [mp.mpf(0)] * (N + 1)
    traces = [mp.mpf(0)] * (N + 1)
    for X in combinations_with_replacement(range(S), N):
        ways = factorial(N) / mp.fprod(factorial(X.count(s)) for s in range(S))
        probability = ways * mp.fprod(p[s] for s in X)
        values = sorted((max(v, mp.mpf(0)) for v in mp.eigsy(at(K, X), eigvals_only=True)), reverse=True)
        distinct = len(set(X))
        values = values[:distinct] + [mp.mpf(0)] * (N - distinct)
        e = reference.esp(values, N)
        for M in range(N + 1):
            tail_means[M] += probability * mp.fsum(values[M:])
            moments[M] += probability * e[M]
            if distinct > M:  # otherwise K − Q is 0
                traces[M] += probability * (M + 1) * e[M + 1] / e[M]
    law_tails = [N * mp.fsum(operator[k:]) for k in range(N + 1)]
    for value, bound in zip(tail_means, law_tails, strict=True):
        below(observe, "R-samp", value, bound, mp.mpf(10) ** -60)
    exact = [mp.mpf(factorial(N)) / factorial(N - j) * e for j, e in enumerate(reference.esp(operator, N))]
    for value, truth in zip(exact, moments, strict=True):
        close(observe, "R-samp", value, truth, mp.mpf(10) ** -40, mp.mpf(10) ** -50)
    for M in range(N + 1):
        below(observe, "R-samp", traces[M], reference.trace_bound(law_tails, M), mp.mpf(10) ** -60)
        fast = kdpp.trace_bound([float(max(t, 0)) for t in law_tails], M)
        below(observe, "R-samp", traces[M], mp.mpf(fast.value), 1e-14)


@pytest.mark.claim("N-dpp")
@given(seed=seeds, S=st.integers(2, 3), M=st.integers(0, 2), others=st.integers(1, 2))
def test_annealed_trace_by_enumeration(observe: Observer, seed: int, S: int, M: int, others: int) -> None:
    """Z from the continuous k-DPP on a finite space, the other inputs iid, every (Z, X) enumerated."""
    K, p, operator = finite_space(seed, S)
    total, weight = mp.mpf(0), mp.mpf(0)
    for Z in product(range(S), repeat=M):
        density = reference.minor(K, Z) * mp.fprod(p[z] for z in Z)
        if len(set(Z)) < M:
            continue
        weight += density
        for rest in product(range(S), repeat=others):
            D = reference.residual(at(K, Z + rest), range(M))
            total += density * mp.fprod(p[x] for x in rest) * trace(D)
    exact = others * reference.expected_trace(operator, M)
    close(observe, "N-dpp", exact, total / weight, mp.mpf(10) ** -40, mp.mpf(10) ** -50)
    fast = kdpp.annealed_trace([float(v) for v in operator], M + others, M)
    close(observe, "N-dpp", fast, exact, 1e-12, 1e-14)


@pytest.mark.claim("R-lem3", "N-dpp")
def test_mean_trace_of_samples(observe: Observer) -> None:
    """500 draws at N = 60: the mean of Tr(K − Q) within 5 standard errors of the exact one; another law is not."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal(60)
    K = np.exp(-np.abs(X[:, None] - X) / 0.5)
    values, vectors = np.linalg.eigh(K)
    exact = kdpp.expected_trace(values, 8)
    drawn = [kdpp.residual_trace(K, kdpp.sample_eigen(values, vectors, 8, rng)) for _ in range(500)]
    uniform = [kdpp.residual_trace(K, rng.choice(60, 8, replace=False)) for _ in range(500)]
    score = [(np.mean(t) - exact) / (np.std(t) / np.sqrt(500)) for t in (drawn, uniform)]
    observe.holds("R-lem3", abs(score[0]) < 5, cases=500)
    observe.fails(
        "N-dpp", abs(score[1]) < 5, "uniform subsets in place of k-DPP samples: another mean (power of the check)"
    )


@pytest.mark.claim("R-lem3")
@given(seed=seeds, N=st.integers(1, 120), k=st.integers(0, 130))
def test_log_esp_against_the_recurrence(observe: Observer, seed: int, N: int, k: int) -> None:
    """Spectra over 600 decades, flat, with zeros and duplicates, in any order."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(*sorted(rng.uniform(-300, 300, 2)), N)
    values[rng.random(N) < 0.2] = values[0] if seed % 2 else 0.0
    for value, exact in zip(kdpp.log_esp(values, k), reference.log_esp(values, k), strict=True):
        if exact == mp.mpf("-inf"):
            observe.holds("R-lem3", value == -np.inf)
        else:
            observe.equal("R-lem3", value, exact, rtol=1e-14, atol=1e-14)


@pytest.mark.claim("R-lem3")
@pytest.mark.parametrize("N", [1, 899, 1200, 1201, 3000])
@pytest.mark.parametrize("spread", [0.0, 3.0, 300.0])
def test_log_esp_down_to_the_last_polynomial(observe: Observer, N: int, spread: float) -> None:
    """e_{N−j}(λ) = e_N(λ)·e_j(1/λ), e_N = Πλ: the upper end of the table, through every segment of it."""
    values = 10.0 ** np.random.default_rng(N).uniform(-spread, spread, N)
    last = min(6, N)
    with mp.workdps(40):
        product = mp.fsum(mp.log(mp.mpf(float(v))) for v in values)
        mirrored = reference.log_esp([1 / mp.mpf(float(v)) for v in values], last)
    logs = kdpp.log_esp(values, N + 2)
    observe.equal("R-lem3", logs[N - last : N + 1][::-1], [product + e for e in mirrored], rtol=1e-13, atol=1e-10)
    observe.holds("R-lem3", (logs[N + 1 :] == -np.inf).all())


@pytest.mark.claim("R-lem3")
def test_log_esp_of_large_spectra(observe: Observer) -> None:
    flat = kdpp.log_esp(np.ones(20_000), 10_000)  # the binomials reach 10^6018
    observe.equal("R-lem3", flat[[1, 50, 10_000]], [mp.log(comb(20_000, j)) for j in (1, 50, 10_000)], rtol=1e-14)
    rng = np.random.default_rng(0)
    for values in (10.0 ** rng.uniform(-300, 300, 10_000), np.arange(1.0, 10_001.0) ** -2):
        exact = reference.log_esp(values, 6)
        observe.equal("R-lem3", kdpp.log_esp(values, 6), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.broad
@pytest.mark.claim("R-lem3")
@pytest.mark.parametrize("decay", one_in(3, [0.5, 0.0, 4.0]))
def test_log_expected_determinant_of_large_spectra(observe: Observer, decay: float) -> None:
    """From c so small that log1p matters to c so large that every order counts."""
    values = np.arange(1.0, 201.0) ** -decay
    for M, c in ((0, 1e-250), (3, 1e-9), (20, 1.0), (50, 1e6), (199, 1e300), (200, 1.0)):
        exact = reference.log_expected_determinant(values, M, c)
        observe.equal("R-lem3", kdpp.log_expected_determinant(values, M, c), exact, rtol=1e-13)


@pytest.mark.claim("N-dpp")
@given(values=spectra, seed=seeds)
def test_expected_trace_grows_with_every_eigenvalue(observe: Observer, values: Any, seed: int) -> None:
    """Hence eigenvalues rounded upwards give an upper bound, and a truncated spectrum a lower one."""
    rng = np.random.default_rng(seed)
    more = [mp.mpf(float(v)) for v in values]
    i = int(rng.integers(len(more)))
    more[i] += more[0] * mp.mpf(float(10.0 ** rng.uniform(-20, 3)))
    for M in sizes(values):
        before, after = (reference.expected_trace([*list(v), 0], M) for v in (values, more))
        observe.holds("N-dpp", after >= before * (1 - mp.mpf(10) ** -80))
