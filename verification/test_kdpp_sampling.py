"""The k-DPP samplers against full enumeration: the law itself, its mean trace, and the convergence of the walk."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import log
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from scipy.special import expit, logsumexp
from scipy.stats import chi2
from thinning import one_in

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.kdpp import sampling
from gpbounds.kdpp.esp import log_tilt
from gpbounds.kdpp.sampling import Walk, choose_eigenvectors, draw_projection, steps_for, tv_after
from gpbounds.kernels.base import Kernel
from gpbounds.reference import kdpp as reference

Law = dict[tuple[int, ...], float]
seeds = st.integers(0, 2**32 - 1)
DRAWS = 2000


def law(K: np.ndarray, M: int) -> Law:
    """P(Z) ∝ |K_ZZ| for every Z; values that are 0 up to rounding (duplicates) are set to 0."""
    weights = {Z: float(np.linalg.det(K[np.ix_(Z, Z)])) for Z in combinations(range(len(K)), M)}
    floor = 1e-12 * max(weights.values())
    weights = {Z: w if w > floor else 0.0 for Z, w in weights.items()}
    total = sum(weights.values())
    return {Z: weight / total for Z, weight in weights.items()}


def p_value(draws: list[tuple[int, ...]], expected: Law) -> float:
    """χ² of the counts against the law; states expected less than 5 times are counted together."""
    counts = dict.fromkeys(expected, 0)
    for Z in draws:
        counts[Z] += 1
    observed = np.array([counts[Z] for Z in expected], dtype=float)
    expected_counts = np.array([len(draws) * p for p in expected.values()])
    assert not observed[expected_counts == 0].any()  # sets of probability 0 are never drawn
    rare = expected_counts < 5.0
    observed, expected_counts = (
        np.append(observed[~rare], observed[rare].sum()),
        np.append(expected_counts[~rare], expected_counts[rare].sum()),
    )
    if expected_counts[-1] < 1e-6:
        observed, expected_counts = observed[:-1], expected_counts[:-1]
    return (
        float(chi2.sf(((observed - expected_counts) ** 2 / expected_counts).sum(), observed.size - 1))
        if observed.size > 1
        else 1.0
    )


def root(kind: str, N: int, rng: np.random.Generator) -> np.ndarray:
    """V with K = VVᵀ."""
    X = rng.random(N)
    if kind == "duplicates":
        X[1] = X[0]
        X[3] = X[2]
    values, vectors = np.linalg.eigh(np.exp(-np.abs(X[:, None] - X) / 0.4))
    V = vectors[:, values > 1e-12] * np.sqrt(values[values > 1e-12])
    if kind == "unequal variances":
        V *= 10.0 ** rng.uniform(-1, 1, N)[:, None]
    if kind == "low rank":
        V = rng.standard_normal((N, 3))
    if kind == "steep":  # six decades between the eigenvalues
        V = np.linalg.qr(rng.standard_normal((N, N)))[0] * 10.0 ** -np.linspace(0.0, 3.0, N)
    return {"tiny": 1e-139, "huge": 1e139}.get(kind, 1.0) * V


def exact(V: np.ndarray, M: int) -> Callable[[np.random.Generator], np.ndarray]:
    values, vectors = np.linalg.eigh(V @ V.T)
    return lambda rng: kdpp.sample_eigen(values, vectors, M, rng)


def factor(V: np.ndarray, M: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: kdpp.sample_factor(V, M, rng)


CASES = [
    ("exponential", 4, 2),
    ("exponential", 9, 4),
    ("exponential", 5, 5),
    ("exponential", 6, 1),
    ("unequal variances", 6, 3),
    ("duplicates", 6, 3),
    ("duplicates", 7, 5),
    ("low rank", 6, 3),
    ("low rank", 7, 2),
    ("steep", 7, 3),
    ("tiny", 5, 2),
    ("huge", 5, 2),
]


@pytest.mark.broad
@pytest.mark.claim("R-lem3")
@pytest.mark.parametrize("method", [exact, factor])
@pytest.mark.parametrize(("kind", "N", "M"), one_in(4, CASES))
def test_samples_follow_the_law_and_no_other(
    observe: Observer, kind: str, N: int, M: int, method: Callable[..., Callable[..., np.ndarray]]
) -> None:
    rng = np.random.default_rng(1000 * N + M)
    V = root(kind, N, rng)
    expected = law(V @ V.T / np.sum(V**2), M)
    draw = method(V, M)
    observe.holds("R-lem3", p_value([tuple(draw(rng).tolist()) for _ in range(DRAWS)], expected) > 1e-4, cases=DRAWS)
    if M < N and kind != "exponential":
        uniform = [tuple(sorted(rng.choice(N, M, replace=False).tolist())) for _ in range(DRAWS)]
        if kind == "duplicates":
            assert any(expected[Z] == 0.0 for Z in uniform)
        else:
            observe.fails("R-lem3", p_value(uniform, expected) > 1e-8, "uniform subsets (power of the χ² test)")


@pytest.mark.claim("R-lem3")
def test_drawing_without_the_conditioning_is_told_apart(observe: Observer) -> None:
    """The check rejects points drawn ∝ their own variance, without replacement."""
    rng = np.random.default_rng(3)
    V = root("unequal variances", 6, rng)
    weights = np.sum(V**2, axis=1) / np.sum(V**2)
    draws = [tuple(sorted(rng.choice(6, 3, replace=False, p=weights).tolist())) for _ in range(DRAWS)]
    observe.fails("R-lem3", p_value(draws, law(V @ V.T, 3)) > 1e-8, "drawn by variance alone (power of the χ² test)")


@pytest.mark.broad
@pytest.mark.claim("N-walk")
@pytest.mark.parametrize(("N", "M", "lengthscale"), one_in(3, [(6, 3, 0.3), (9, 2, 0.1), (7, 5, 0.05)]))
def test_the_walk_follows_the_law_after_the_proved_number_of_steps(
    observe: Observer, N: int, M: int, lengthscale: float
) -> None:
    rng = np.random.default_rng(N)
    X, kernel = rng.random(N), SquaredExponential(lengthscale=lengthscale, variance=2.0)
    expected = law(kernel(X), M)
    samples = [kdpp.sample_kernel(kernel, X, M, rng, "mcmc", tv=0.01) for _ in range(150)]
    observe.holds("N-walk", all(s.tv is not None and s.tv <= 0.01 for s in samples))
    observe.holds("N-walk", p_value([tuple(s.indices.tolist()) for s in samples], expected) > 1e-4, cases=150)
    hasty = [kdpp.sample_kernel(kernel, X, M, rng, "mcmc", max_steps=1) for _ in range(150)]
    observe.fails(
        "N-walk", p_value([tuple(s.indices.tolist()) for s in hasty], expected) > 1e-8, "one step is not enough (power)"
    )


def transitions(pi: np.ndarray, states: list[tuple[int, ...]], N: int) -> np.ndarray:
    """The down-up walk's matrix, from its definition alone."""
    at = {Z: n for n, Z in enumerate(states)}
    P = np.zeros((len(states), len(states)))
    for n, Z in enumerate(states):
        for dropped in Z:
            rest = set(Z) - {dropped}
            sets = [tuple(sorted(rest | {j})) for j in range(N) if j not in rest]
            after = [at[Z2] for Z2 in sets if Z2 in at]
            P[n, after] += pi[after] / pi[after].sum() / len(Z)
    return P


def entropy(nu: np.ndarray, pi: np.ndarray) -> float:
    some = nu > 0
    return float((nu[some] * np.log(nu[some] / pi[some])).sum())


@pytest.mark.claim("N-walk")
@given(seed=seeds, N=st.integers(2, 7), kind=st.sampled_from(["exponential", "unequal variances", "steep"]))
def test_the_walk_contracts_entropy_and_keeps_its_promise(observe: Observer, seed: int, N: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    V = root(kind, N, rng)
    K = V @ V.T
    for M in range(1, N + 1):
        states, probabilities = zip(*((Z, p) for Z, p in law(K, M).items() if p > 0), strict=True)
        pi = np.array(probabilities)
        P = transitions(pi, list(states), N)
        observe.equal("N-walk", pi @ P, pi, rtol=1e-9, atol=1e-15)  # stationary
        laws = [rng.dirichlet(np.full(pi.size, a)) for a in (0.05, 1.0)]
        laws += [pi * (1 + 1e-3 * rng.uniform(-1, 1, pi.size))]
        for nu in [*laws, *np.eye(pi.size)[:: max(1, pi.size // 5)]]:
            nu = nu / nu.sum()
            observe.holds("N-walk", entropy(nu @ P, pi) <= (1 - 1 / M) * entropy(nu, pi) + 1e-12)
        start = int(rng.integers(pi.size))
        nu, rarity = np.eye(pi.size)[start], -log(pi[start])
        for steps in range(25):
            observe.holds("N-walk", 0.5 * np.abs(nu - pi).sum() <= tv_after(steps, M, rarity) + 1e-12)
            nu = nu @ P


@pytest.mark.claim("N-walk")
@given(seed=seeds, N=st.integers(2, 7), lengthscale=st.floats(0.05, 0.5))
def test_the_walk_steps_as_it_is_defined(observe: Observer, seed: int, N: int, lengthscale: float) -> None:
    """The law of a successor, after many steps, is ∝ |K_ZZ| over the possible sets; and the rarity of the start."""
    rng = np.random.default_rng(seed)
    X = rng.permutation(N)[:, None] + rng.uniform(-0.2, 0.2, (N, 1))
    kernel: Kernel = SquaredExponential(lengthscale=4 * lengthscale, variance=float(10.0 ** rng.uniform(-200, 200)))
    M = int(rng.integers(1, N + 1))
    expected = law(kernel(X) / kernel.max_variance, M)
    walk = Walk(kernel, X, rng.permutation(N)[:M])
    observe.holds("N-walk", walk.log_rarity() >= -log(expected[tuple(sorted(walk.Z.tolist()))]))
    walk.run(7, rng)
    for _ in range(5):  # no new factorisation in between
        walk.step(rng)
        a = int(rng.integers(M))
        weights = walk.weights(a)[0]
        rest = np.delete(walk.Z, a).tolist()
        sets = [expected[tuple(sorted([*rest, j]))] if j not in rest else 0.0 for j in range(N)]
        observe.equal("N-walk", weights / weights.sum(), np.array(sets) / sum(sets), rtol=1e-9, atol=1e-10)


class Prescribed(np.random.Generator):
    """A generator with prescribed answers: the point to drop, and the uniform number for its successor."""

    def __init__(self, dropped: int, uniform: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.dropped, self.uniform, self.asked = dropped, uniform, 0

    def integers(self, low: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked = low
        return self.dropped

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return self.uniform


@pytest.mark.claim("N-walk")
@given(seed=seeds, N=st.integers(2, 7))
def test_a_step_drops_uniformly_and_draws_by_the_conditional_variance(observe: Observer, seed: int, N: int) -> None:
    """A step drops the drawn point and maps to each successor its share of [0, 1]; this test draws no random number."""
    rng = np.random.default_rng(seed)
    X, kernel = rng.permutation(N)[:, None] + rng.uniform(-0.2, 0.2, (N, 1)), Matern(0.5, lengthscale=2.0)
    M = int(rng.integers(1, N + 1))
    Z, K = rng.permutation(N)[:M], kernel(X)
    for a in range(M):
        rest = np.delete(Z, a)
        left = K.diagonal() - np.einsum("ij,ij->j", K[rest], np.linalg.solve(K[np.ix_(rest, rest)], K[rest]))
        left[rest] = 0.0
        edges = np.concatenate([[0.0], np.cumsum(left)]) / left.sum()
        for j in np.flatnonzero(left > 1e-6):
            for place in (edges[j] + 1e-9, edges[j + 1] - 1e-9):
                walk, generator = Walk(kernel, X, Z.copy()), Prescribed(a, place)
                walk.step(generator)
                observe.holds("N-walk", generator.asked == M)
                observe.holds("N-walk", walk.Z.tolist() == [*Z[:a], j, *Z[a + 1 :]])


@pytest.mark.claim("N-walk")
@given(M=st.integers(1, 1000), rarity=st.floats(1e-9, 1e5), tv=st.floats(1e-12, 0.999))
def test_the_number_of_steps_is_the_least_that_is_proved(observe: Observer, M: int, rarity: float, tv: float) -> None:
    steps = steps_for(tv, M, rarity)
    observe.holds("N-walk", tv_after(steps, M, rarity) <= tv)
    observe.holds("N-walk", steps == 0 or tv_after(steps - 1, M, rarity) >= tv * (1 - 1e-9))
    observe.equal("N-walk", tv_after(0, M, rarity), mp.sqrt(mp.mpf(rarity) / 2), rtol=1e-15)  # Pinsker


@pytest.mark.claim("N-round")
@given(seed=seeds, N=st.integers(2, 6), log_rho=st.floats(-8, -0.5))
def test_rounding_moves_the_law_by_no_more_than_promised(observe: Observer, seed: int, N: int, log_rho: float) -> None:
    """K̂ = K + E, ‖E‖ ≤ ρ: with all its eigenvalues, and with those up to ρ taken as 0."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-6, 0, N) * (rng.random(N) < 0.8)
    U = np.linalg.qr(rng.standard_normal((N, N)))[0]
    K = (U * values) @ U.T
    E = rng.standard_normal((N, N))
    E = E + E.T if seed % 2 else np.eye(N) * rng.choice([-1.0, 1.0])
    rho = 10.0**log_rho
    lifted, Q = np.linalg.eigh(K + rho * E / np.abs(np.linalg.eigvalsh(E)).max())
    if lifted[0] < 0:  # K̂ must be ⪰ 0: lift it, at twice the distance
        lifted, rho = lifted + rho, 2 * rho
    cut = np.where(lifted > rho, lifted, 0.0)
    for M in range(1, N + 1):
        bound = kdpp.rounding_tv(np.maximum(lifted, 0.0), rho, M)
        if bound.value > 0.999:  # K may be singular then, and its own determinants are rounding
            continue
        for d in (lifted, cut):
            moved = 0.5 * np.abs(weights((Q * d) @ Q.T, M) - weights(K, M)).sum()
            observe.holds("N-round", moved <= bound.value + 1e-9)


@pytest.mark.claim("N-round")
def test_the_matrix_from_below_need_not_be_one_in_loewner_order(observe: Observer) -> None:
    """K, K̂ ⪰ 0 and ‖K−K̂‖ ≤ ρ do not imply K ⪰ (K̂−ρI)₊, and M = 1 need not keep a point that the latter has.

    K̂ = diag(1, 0) and K = vv', v = (1, 0.1): in the basis of the eigenvectors of (K̂−ρI)₊ − K one diagonal entry of
    (K̂−ρI)₊ exceeds that of K.  A proof of N-round must not use such a matrix.
    """
    v = np.array([1.0, 0.1])
    K, K_hat = np.outer(v, v), np.diag([1.0, 0.0])
    rho = float(np.linalg.norm(K - K_hat, 2))
    A = np.diag([1.0 - rho, 0.0])
    values, U = np.linalg.eigh(A - K)
    observe.holds("N-round", rho < 0.2 and values[-1] > 0.05)
    observe.fails("N-round", values[-1] <= 0.0, "K ⪰ (K̂−ρI)₊ for every K ⪰ 0 within ρ (K̂=diag(1,0), K=vv', v=(1,.1))")
    observe.fails("N-round", U[:, 1] @ A @ U[:, 1] <= U[:, 1] @ K @ U[:, 1], "the same for the weight of one point")


@pytest.mark.claim("N-round")
def test_without_rounding_the_laws_agree_where_they_exist(observe: Observer) -> None:
    """ρ = 0: the total variation is 0, and 1 where fewer than M eigenvalues are above 0, so that no law exists."""
    for values, M, expected in (([2.0, 1.0], 1, 0), ([2.0, 1.0, 0.0], 2, 0), ([2.0, 1.0, 0.0], 3, 1)):
        observe.holds("N-round", float(kdpp.rounding_tv(values, 0.0, M)) == expected)


@pytest.mark.claim("N-round")
@given(seed=seeds, N=st.integers(1, 40), log_rho=st.floats(-16, 0))
def test_the_bound_on_what_rounding_does_is_itself_rounded_upwards(
    observe: Observer, seed: int, N: int, log_rho: float
) -> None:
    """[e_M(λ̂+ρ)−e_M((λ̂−ρ)₊)]/e_M(λ̂) at 50 digits without tolerance, too large by about 1e-12; a sample reports it."""
    rng = np.random.default_rng(seed)
    values, rho = 10.0 ** rng.uniform(-3, 1, N), 10.0**log_rho
    M = int(rng.integers(1, N + 1))
    low, high = ([max(mp.mpf(float(v)) + s * mp.mpf(rho), mp.mpf(0)) for v in values] for s in (-1, 1))
    kept = reference.esp([mp.mpf(float(v)) if v > rho else mp.mpf(0) for v in values], M)[M]
    truth = min(mp.mpf(1), (reference.esp(high, M)[M] - reference.esp(low, M)[M]) / kept) if kept else mp.mpf(1)
    bound = mp.mpf(float(kdpp.rounding_tv(values, rho, M)))
    observe.upper("N-round", truth, bound)
    observe.upper("N-round", bound, truth + mp.mpf("3.1e-12"))
    X, kernel = rng.random(N), Matern(0.5, lengthscale=0.3)
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    expected = kdpp.rounding_tv(np.maximum(eigenvalues, 0.0), N * np.finfo(float).eps * eigenvalues.max(), M)
    observe.equal("N-round", kdpp.sample_kernel(kernel, X, M, rng).rounding, float(expected), rtol=1e-3, atol=4e-12)


@pytest.mark.claim("N-walk")
@given(N=st.integers(2, 400), share=st.floats(0.0, 1.0), log_variance=st.floats(-200.0, 200.0))
def test_the_rarity_of_the_start_is_not_rounded_down(
    observe: Observer, N: int, share: float, log_variance: float
) -> None:
    """Uncorrelated points: all sets equally likely, log(1/P) = log C(N, M), and 1 nat for rounding."""
    M = max(1, round(share * N))
    kernel = SquaredExponential(variance=10.0**log_variance, lengthscale=1.0)
    walk = Walk(kernel, 100.0 * np.arange(float(N))[:, None], np.arange(M))
    truth = mp.log(mp.binomial(N, M))
    observe.upper("N-walk", truth, walk.log_rarity())
    observe.equal("N-walk", walk.log_rarity(), truth + 1, atol=1e-8)


def weights(K: np.ndarray, M: int) -> np.ndarray:
    """P(Z) for all Z, without setting small ones to 0."""
    w = np.array([max(np.linalg.det(K[np.ix_(Z, Z)]), 0.0) for Z in combinations(range(len(K)), M)])
    return w / w.sum()


def coins(p: np.ndarray) -> np.ndarray:
    """The law of the number of heads."""
    law = np.ones(1)
    for q in p:
        law = np.convolve(law, [1 - q, q])
    return law


@pytest.mark.claim("R-lem3")
@given(seed=seeds, n=st.integers(2, 60))
def test_phase_one_succeeds_as_often_as_promised(observe: Observer, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    spread = float(rng.choice([0.0, 1.0, 30.0, 600.0]))
    values = rng.uniform(-spread, spread, n)
    M = int(rng.integers(1, n))
    p = expit(values + log_tilt(values, M))
    observe.equal("R-lem3", p.sum(), float(M), rtol=1e-6)
    observe.holds("R-lem3", coins(p)[M] >= 1 / np.sqrt(1 + 12 * (p * (1 - p)).sum()) - 1e-12)


@pytest.mark.claim("R-lem3")
@given(seed=seeds, n=st.integers(2, 9), spread=st.sampled_from([0.0, 1.0, 6.0]))
def test_phase_one_chooses_with_exact_ratios(observe: Observer, seed: int, n: int, spread: float) -> None:
    """The coins' odds are sλ_m, so that P(J | M heads) is Π_{m∈J} λ_m/e_M for every J: exactly, without draws."""
    rng = np.random.default_rng(seed)
    log_values = rng.uniform(-spread, spread, n)
    for M in range(1, n):
        p = expit(log_values + log_tilt(log_values, M))
        odds = np.log(p) - np.log1p(-p)
        observe.equal("R-lem3", odds - odds[0], log_values - log_values[0], atol=1e-9)
        J = np.array(list(combinations(range(n), M)))
        kept = np.exp(odds[J].sum(axis=1) - odds.sum() * M / n)
        exact = np.exp(log_values[J].sum(axis=1) - log_values.sum() * M / n)
        observe.equal("R-lem3", kept / kept.sum(), exact / exact.sum(), rtol=1e-8)


@pytest.mark.claim("R-lem3")
@given(seed=seeds, n=st.integers(3, 9), spread=st.sampled_from([0.0, 1.0, 5.0]))
def test_phase_one_is_given_the_eigenvalues_and_phase_two_their_vectors(
    observe: Observer, seed: int, n: int, spread: float
) -> None:
    """Arguments that samplers pass to the two phases: log λ of K = VVᵀ, and rows of VU with their squared lengths."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.uniform(-spread, spread, n))
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    M = int(rng.integers(1, n))
    for module in (sampling,):
        received: dict[str, np.ndarray] = {}

        def choose(logs: np.ndarray, size: int, _: Any, received: dict[str, np.ndarray] = received) -> np.ndarray:
            received["logs"] = logs
            return np.arange(size)

        def draw(
            rows: Any, leverage: np.ndarray, size: int, _: Any, received: dict[str, np.ndarray] = received
        ) -> np.ndarray:
            received["rows"], received["leverage"] = rows(np.arange(n)), leverage
            return np.arange(size)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "choose_eigenvectors", choose)
            patch.setattr(module, "draw_projection", draw)
            if module is sampling:
                kdpp.sample((U * values) @ U.T, M, rng)
            else:
                kdpp.sample_factor(U * np.sqrt(values), M, rng)
        observe.equal("R-lem3", np.sort(received["logs"]), np.sort(np.log(values)), atol=1e-9)
        span = received["rows"] @ received["rows"].T  # the projection on the first M eigenvectors
        named = np.exp(received["logs"][:M])
        observe.equal("R-lem3", (span @ (U * values) @ U.T).trace(), named.sum(), rtol=1e-8)
        observe.equal("R-lem3", span @ span, span, atol=1e-9)
        observe.equal("R-lem3", received["leverage"], np.diag(span), atol=1e-9)


class Counting(np.random.Generator):
    """A generator with prescribed uniform numbers: two for each proposal, for the row and for its acceptance."""

    def __init__(self, proposals: np.ndarray, thresholds: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.answers = [proposals, thresholds]

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self.answers.pop(0)


@pytest.mark.claim("R-lem3")
@given(seed=seeds, N=st.integers(3, 7))
def test_phase_two_proposes_by_leverage_and_accepts_by_distance(observe: Observer, seed: int, N: int) -> None:
    """Where each proposal begins and ends in [0, 1], and each acceptance: the law of the second point, exactly."""
    rng = np.random.default_rng(seed)
    Y = np.linalg.qr(rng.standard_normal((N, 2)))[0]
    leverage = (Y**2).sum(axis=1)
    edges = np.concatenate([[0.0], np.cumsum(leverage)]) / leverage.sum()
    first = int(rng.integers(N))
    others = [i for i in range(N) if i != first]
    share = 1.0 - (Y @ Y[first]) ** 2 / leverage / leverage[first]  # distance²/leverage once the first is taken
    step = 1e-9
    for second in others:
        for place in (
            edges[second] + step,
            edges[second + 1] - step,
        ):  # every uniform number in this interval proposes it
            for threshold, accepted in ((share[second] - step, True), (share[second] + step, False)):
                start = 0.5 * (edges[first] + edges[first + 1])
                wanted = next(i for i in others if i != second)
                again = 0.5 * (edges[wanted] + edges[wanted + 1])
                generator = Counting(np.array([start, place]), np.array([0.0, threshold]))
                generator.answers += [np.array([again, again]), np.array([0.0, 0.0])]
                drawn = draw_projection(Y.__getitem__, leverage, 2, generator)
                expected = sorted([first, second if accepted else wanted])
                observe.holds("R-lem3", drawn.tolist() == expected)


@pytest.mark.claim("R-lem3")
@given(seed=seeds, N=st.integers(40, 120), share=st.floats(0.2, 1.0))
def test_blocks_of_proposals_accept_what_one_proposal_after_another_does(
    observe: Observer, seed: int, N: int, share: float
) -> None:
    """The same uniform numbers, one row at a time, with distances from least squares."""
    M = max(2, int(share * N))
    Y = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, M)))[0]
    leverage = (Y**2).sum(axis=1)
    drawn = draw_projection(Y.__getitem__, leverage, M, np.random.default_rng(seed))
    rng, sums, taken = np.random.default_rng(seed), np.cumsum(leverage), list[int]()
    while len(taken) < M:
        proposals = np.searchsorted(sums[:-1], rng.random(M) * sums[-1], side="right")
        for i, u in zip(proposals, rng.random(M), strict=True):
            if len(taken) < M and i not in taken:
                span = Y[taken].T
                rest = Y[i] - span @ np.linalg.lstsq(span, Y[i], rcond=None)[0] if taken else Y[i]
                if rest @ rest > u * leverage[i]:
                    taken.append(int(i))
    observe.holds("R-lem3", drawn.tolist() == sorted(taken))


def leading(log_values: np.ndarray, M: int, count: int) -> np.ndarray:
    """P(m ∈ J) = λ_m e_{M−1}(λ without m)/e_M(λ) for the first few m; sums of positive terms, all in logarithms."""
    after = np.full((count + 1, M + 1), -np.inf)  # log e_j of λ_{m+1} … λ_N
    e = np.full(M + 1, -np.inf)
    e[0] = 0.0
    for m in range(log_values.size, 0, -1):
        if m <= count:
            after[m] = e
        e[1:] = np.logaddexp(e[1:], log_values[m - 1] + e[:-1])
    total, before, inclusion = e[M], np.full(M + 1, -np.inf), np.empty(count)
    before[0] = 0.0
    for m in range(1, count + 1):
        inclusion[m - 1] = np.exp(log_values[m - 1] + logsumexp(before[:M] + after[m][M - 1 :: -1]) - total)
        before[1:] = np.logaddexp(before[1:], log_values[m - 1] + before[:-1])
    return inclusion


@pytest.mark.claim("R-lem3")
def test_inclusion_of_leading_eigenvectors_where_e_k_overflows(observe: Observer) -> None:
    """N = 5000, M = 200, log₁₀ e_M beyond 308: packages that overflow there never pick a leading eigenvector."""
    small = np.array([5.0, 2.0, 1.0, 0.1])
    e2 = 10 + 5 + 0.5 + 2 + 0.2 + 0.1
    observe.equal("R-lem3", leading(np.log(small), 2, 4)[[0, 3]], [5 * 3.1 / e2, 0.1 * 8 / e2], rtol=1e-13)
    rng = np.random.default_rng(7)
    spectra = {
        "polynomial": 5000.0 * np.arange(1.0, 5001.0) ** -1.2,
        "SE 8-D": np.sort(5000.0 * np.exp(-0.55 * rng.gamma(8.0, 1.0, 5000)))[::-1],
    }
    for values in spectra.values():
        observe.holds("R-lem3", kdpp.log_esp(values, 200)[-1] > 308 * log(10))
        p = leading(np.log(values), 200, 100)
        drawn = np.array([choose_eigenvectors(np.log(values), 200, rng) for _ in range(400)])
        number = (drawn < 100).sum(axis=1)
        error = number.std(ddof=1) / np.sqrt(400)
        observe.holds("R-lem3", 5 < p.sum() < 99 and abs(number.mean() - p.sum()) < 5 * error, cases=400)
        for first in (0, 50):  # and one by one, in two halves
            part = np.array([(drawn == m).any(axis=1).mean() for m in range(first, first + 50)])
            q = p[first : first + 50]
            observe.holds("R-lem3", (np.abs(part - q) < 5 * np.sqrt(q * (1 - q) / 400) + 1e-9).all())


@pytest.mark.claim("R-lem3", "N-dpp")
def test_mean_trace_of_every_sampler(observe: Observer) -> None:
    """The mean of Tr(K − Q) within 5 standard errors of (M+1)e_{M+1}/e_M; that of uniform subsets is not."""
    rng = np.random.default_rng(11)
    X, kernel = rng.random((40, 2)), SquaredExponential(lengthscale=0.4)
    K = kernel(X)
    values, vectors = np.linalg.eigh(K)
    V = vectors[:, values > 1e-13] * np.sqrt(values[values > 1e-13])
    truth = kdpp.expected_trace(np.maximum(values, 0.0), 6)
    samplers = {
        "exact": lambda: kdpp.sample_eigen(values, vectors, 6, rng),
        "factor": lambda: kdpp.sample_factor(V, 6, rng),
        "mcmc": lambda: kdpp.sample_kernel(kernel, X, 6, rng, "mcmc", tv=1e-3).indices,
        "uniform": lambda: rng.choice(40, 6, replace=False),
    }
    for name, draw in samplers.items():
        drawn = [kdpp.residual_trace(K, draw()) for _ in range(50)]
        score = abs(np.mean(drawn) - truth) / (np.std(drawn) / np.sqrt(50))
        if name == "uniform":
            observe.fails("N-dpp", score < 5, "uniform subsets: another mean (power of the check)")
        else:
            observe.holds("R-lem3", score < 5, cases=50)


@pytest.mark.slow
@pytest.mark.claim("R-lem3")
def test_five_thousand_points(observe: Observer) -> None:
    """SE, lengthscale 1, on 8-D standardised data: 200 distinct points, and the mean trace is the exact one."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5000, 8))
    K = SquaredExponential()(X)
    values, vectors = np.linalg.eigh(K)
    truth = kdpp.expected_trace(np.maximum(values, 0.0), 200)
    drawn = [kdpp.sample_eigen(values, vectors, 200, rng) for _ in range(20)]
    observe.holds("R-lem3", all(np.unique(Z).size == 200 for Z in drawn))
    traces = [kdpp.residual_trace(K, Z) for Z in drawn]
    observe.holds("R-lem3", abs(np.mean(traces) - truth) < 5 * np.std(traces) / np.sqrt(20), cases=20)
