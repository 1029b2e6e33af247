"""Section L.1 of the low-rank ledger, and L-25: the KL divergence of a low-rank GP, Prop. 1, the optimum, κ."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import det, diag, exp, eye, inf, log, mp, mpf, pi, quad, sqrt
from observer import Observer
from thinning import one_in

from gpbounds.divergences import gaussian_kl
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.lowrank import (
    kappa,
    kappa_inverse,
    kl,
    kl_by_rank,
    kl_features,
    kl_from_excess,
    kl_from_ratio,
    kl_from_residual,
    kl_from_traces,
    least_gamma,
    optimal_kl,
    optimal_rank,
    spectral_kl,
)
from gpbounds.lowrank import log_evidence as log_evidence_of_features
from gpbounds.reference import divergences
from gpbounds.reference import lowrank as reference
from gpbounds.reference.linalg import log_det, trace
from gpbounds.reference.renyi import log_evidence, log_normal, matrix
from gpbounds.renyi import log_evidence as fast_log_evidence

SEEDS = st.integers(0, 2**32 - 1)
TINY = mpf("1e-30")
EPS = 2.0**-52


def gram(rng: np.random.Generator, N: int, rank: int) -> Any:
    """A random PSD matrix of this rank, symmetric to the last digit, of a size drawn from 1e-3 to 1e3."""
    factor = matrix(rng.standard_normal((N, rank)) * 10.0 ** rng.uniform(-1.5, 1.5))
    return factor * factor.T


def pair(seed: int) -> tuple[Any, Any, Any]:
    """K, Sigma, noise of up to 5 data: apart, near, of low rank, commuting, with duplicates."""
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(1, 6)), mpf(10.0 ** rng.uniform(-2, 1))
    K = gram(rng, N, int(rng.integers(1, N + 2)))
    kind = rng.choice(["apart", "near", "low rank", "below", "commuting", "duplicates"])
    if kind == "near":
        return K, K + mpf(10.0 ** rng.uniform(-15, -2)) * gram(rng, N, 1), noise
    if kind == "low rank":
        return K, gram(rng, N, 1), noise
    if kind == "below":
        return K + gram(rng, N, int(rng.integers(1, N + 1))), K, noise
    if kind == "commuting":
        return K, reference.truncation(K, N // 2) * mpf(rng.uniform(0.5, 2)), noise
    if kind == "duplicates" and N > 1:
        for A in (K,):
            A[N - 1, :], A[:, N - 1] = A[0, :], A[:, 0]
            A[N - 1, N - 1] = A[0, 0]
    return K, gram(rng, N, int(rng.integers(1, N + 2))), noise


def laws(seed: int) -> tuple[Any, Any, int, Any]:
    """Σ₁, Σ₂, N and the least γ with (1 + γ)Σ₁ ⪰ Σ₂."""
    K, Sigma, noise = pair(seed)
    S1, S2 = reference.noisy(K, noise), reference.noisy(Sigma, noise)
    return S1, S2, K.rows, reference.least_gamma(S1, S2)


def floats(A: Any) -> np.ndarray:
    return np.array(A.tolist(), dtype=np.float64)


def condition(Sigma: np.ndarray, noise: float) -> float:
    return float(np.linalg.eigvalsh(Sigma)[-1] / noise) + 1.0


# --- the laws -------------------------------------------------------------------------------------------------------


@pytest.mark.claim("L-01")
@given(seed=SEEDS)
def test_inference(observe: Observer, seed: int) -> None:
    """log p(y) and the law of noisy y_* given y, against the joint law: p(y, y_*) = p(y) p(y_* | y)."""
    rng = np.random.default_rng(seed)
    N, new, noise = int(rng.integers(1, 5)), int(rng.integers(1, 3)), mpf(10.0 ** rng.uniform(-2, 1))
    joint = gram(rng, N + new, N + new)
    y, y_new = matrix(rng.standard_normal(N)), matrix(rng.standard_normal(new))
    mean, cov = reference.predict(joint[:N, :N], joint[N:, :N], joint[N:, N:], y, noise)
    both = matrix([*map(float, y), *map(float, y_new)])
    whole = log_evidence(joint, both, noise)
    evidence = log_evidence(joint[:N, :N], y, noise)
    observe.equal("L-01", evidence + log_normal(y_new - mean, cov), whole, rtol=TINY, atol=TINY)
    kernel, X = Matern(1.5, 2.0, 0.7), rng.standard_normal((N, 2))
    truth = log_evidence(matrix(kernel(X)), y, noise)
    observe.equal(
        "L-01", fast_log_evidence(kernel, X, floats(y).ravel(), noise=float(noise)), truth, rtol=1e-11, atol=1e-11
    )


@pytest.mark.claim("L-02", "L-03")
@given(seed=SEEDS, N=st.integers(1, 5), r=st.integers(1, 8))
def test_woodbury(observe: Observer, seed: int, N: int, r: int) -> None:
    rng = np.random.default_rng(seed)
    features, noise = matrix(rng.standard_normal((N, r)) * 10.0 ** rng.uniform(-2, 2)), mpf(10.0 ** rng.uniform(-3, 2))
    full = reference.noisy(features * features.T, noise)
    product = reference.woodbury_inverse(features, noise) * full
    observe.equal("L-02", list(product), list(eye(N)), atol=TINY)
    observe.equal("L-03", reference.woodbury_log_det(features, noise), log_det(full), rtol=TINY, atol=TINY)


@pytest.mark.claim("L-02", "L-03", "L-11")
@given(seed=SEEDS, N=st.integers(1, 6), r=st.integers(1, 8))
def test_features_of_any_rank_in_double_precision(observe: Observer, seed: int, N: int, r: int) -> None:
    """Thin (two orders of columns below N), square and wide; near Σ = K as well as far."""
    rng = np.random.default_rng(seed)
    noise = float(10.0 ** rng.uniform(-2, 1))
    features = rng.standard_normal((4 * N if r <= N else N, r)) * 10.0 ** rng.uniform(-2, 1)
    big = features.shape[0]
    assume(big <= 12)
    other = rng.standard_normal((big, big))
    K = features @ features.T + float(10.0 ** rng.uniform(-6, 1)) * other @ other.T
    K = 0.5 * (K + K.T)
    exact = matrix(features)
    truth = reference.kl(matrix(K), exact * exact.T, mpf(noise))
    size = condition(features @ features.T, noise)
    rounding = big * EPS * size * (float(truth) + np.sqrt(float(truth)) + EPS * size)
    observe.equal("L-02", kl_features(K, features, noise=noise), truth, atol=30 * rounding)
    many = kl_by_rank(K, features * 2.0, np.arange(1, r + 1), noise=noise, scales=0.25)
    loose = 1e-14 * (np.trace(K) / noise + big) * size
    observe.equal("L-03", many[-1], truth, atol=loose)
    for i in range(r):
        observe.equal("L-11", many[i], kl_features(K, features[:, : i + 1], noise=noise), atol=loose)


@pytest.mark.claim("L-12")
def test_cost_of_inference(observe: Observer) -> None:
    """Multiplications of Woodbury inference, counted one by one, fit r³/6 + r²N/2 and a remainder of lower order."""
    used = 0

    def dot(a: Any, b: Any) -> Any:
        nonlocal used
        used += len(a)
        return sum((u * v for u, v in zip(a, b, strict=True)), mpf(0))

    def infer(rows: list[list[Any]], y: list[Any], noise: Any) -> Any:
        """log N(y; 0, ΞΞᵀ + σ²I) from the rows of Ξ."""
        N, r = len(rows), len(rows[0])
        columns = [[row[j] for row in rows] for j in range(r)]
        L = [[mpf(0)] * r for _ in range(r)]
        for i in range(r):
            for j in range(i + 1):
                entry = dot(columns[i], columns[j]) + (noise if i == j else 0) - dot(L[i][:j], L[j][:j])
                L[i][j] = sqrt(entry) if i == j else entry / L[j][j]
        half: list[Any] = []
        for i in range(r):
            half.append((dot(columns[i], y) - dot(L[i][:i], half)) / L[i][i])
        volume = (N - r) * log(noise) + 2 * sum(log(L[i][i]) for i in range(r))
        return -(N * log(2 * pi) + volume + (dot(y, y) - dot(half, half)) / noise) / 2

    rng = np.random.default_rng(0)
    for N in (1, 4, 9, 30):
        for r in (1, 2, 5, 9):
            features, y, noise = rng.standard_normal((N, r)), rng.standard_normal(N), mpf("0.3")
            used = 0
            value = infer(matrix(features).tolist(), [mpf(v) for v in y], noise)
            exact = matrix(features)
            observe.equal("L-12", value, log_evidence(exact * exact.T, matrix(y), noise), rtol=TINY)
            observe.equal("L-12", log_evidence_of_features(features, y, noise=0.3), value, rtol=1e-13)
            leading = mpf(r) ** 3 / 6 + mpf(r) ** 2 * N / 2
            observe.upper("L-12", used, leading + r**2 + 3 * r * N / mpf(2) + N + r)
            observe.holds("L-12", used <= 4 * (r**3 + r**2 * N))
    # in doubles no matrix of N times N entries is made
    features = rng.standard_normal((2000, 3))
    tracemalloc.start()
    log_evidence_of_features(features, features[:, 0], noise=0.3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    observe.upper("L-12", peak, 10 * features.nbytes)


@pytest.mark.claim("L-04")
@given(seed=SEEDS)
def test_divergence_of_two_gaussian_laws(observe: Observer, seed: int) -> None:
    """The closed form against the eigenvalues of Σ₂^{-½}Σ₁Σ₂^{-½}, means included."""
    S1, S2, N, _ = laws(seed)
    shift = matrix(np.random.default_rng(seed).standard_normal(N))
    truth = divergences.gaussian_kl(shift, S1, 0 * shift, S2)
    by_ratios = reference.kl_of_ratios(reference.ratios(S1, S2)) + (shift.T * S2**-1 * shift)[0] / 2
    observe.equal("L-04", by_ratios, truth, rtol=TINY, atol=TINY)
    size = float(det(S1) != 0) * condition(floats(S2), 1e-2)
    fast = gaussian_kl(floats(shift).ravel(), floats(S1), np.zeros(N), floats(S2))
    observe.equal("L-04", fast, truth, rtol=1e-11 * size, atol=1e-11 * size)


@pytest.mark.claim("L-04")
@pytest.mark.parametrize(("s1", "s2", "m"), [(1, 2, 0), (3, "0.5", 1), ("0.1", 4, -2)])
def test_divergence_is_its_integral(observe: Observer, s1: Any, s2: Any, m: Any) -> None:
    s1, s2, m = mpf(s1), mpf(s2), mpf(m)

    def density(x: Any, mean: Any, var: Any) -> Any:
        return exp(-((x - mean) ** 2) / (2 * var)) / sqrt(2 * pi * var)

    with mp.workdps(30):
        value = quad(
            lambda x: density(x, m, s1) * ((x**2 / s2 - (x - m) ** 2 / s1 + log(s2 / s1)) / 2),
            [-inf, m - 3, m, m + 3, inf],
        )
    unit = mp.ones(1)
    observe.equal("L-04", divergences.gaussian_kl(m * unit, s1 * unit, 0 * unit, s2 * unit), value, rtol=mpf("1e-20"))


@pytest.mark.claim("L-05")
@given(seed=SEEDS)
def test_determinants_grow(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(1, 6))
    A = gram(rng, N, N + 1)
    B = A + gram(rng, N, int(rng.integers(1, N + 1)))
    observe.upper("L-05", det(A), det(B))
    observe.equal("L-05", det(A), det(A + 0 * B))
    stretched = A.copy()  # equality only at A = B: one direction longer by t multiplies the determinant by 1 + t vᵀA⁻¹v
    v = matrix(rng.standard_normal(N))
    stretched += v * v.T
    observe.equal("L-05", det(stretched) / det(A), 1 + (v.T * A**-1 * v)[0], rtol=TINY)


# --- Prop. 1 --------------------------------------------------------------------------------------------------------


@pytest.mark.claim("L-06")
@given(seed=SEEDS, slack=st.sampled_from([0.0, 1e-9, 0.5, 30.0]))
def test_excess_and_order(observe: Observer, seed: int, slack: float) -> None:
    S1, S2, N, gamma = laws(seed)
    gamma += slack
    excess = trace(S2**-1 * S1) - N
    truth = reference.kl_of_ratios(reference.ratios(S1, S2))
    bounds = [reference.kl_from_excess(excess, N, gamma, f) for f in ("sharpest", "logarithmic", "corrected")]
    tol = mpf("1e-35") * (1 + abs(excess) + N * gamma)
    for lower, upper in zip([truth, *bounds], bounds, strict=False):
        observe.upper("L-06", lower, upper, tol=tol)
    root = reference.noisy(0 * S1, mpf(1))  # the trace as it is printed
    values, vectors = mp.eigsy(S2)
    root = vectors * diag([1 / sqrt(v) for v in values]) * vectors.T
    observe.equal("L-06", trace(root * (S1 - (1 - gamma) * S2) * root) / 2, bounds[2], rtol=TINY, atol=tol * 1000)
    for form in ("sharpest", "corrected", "printed"):
        fast = float(kl_from_excess(float(excess), N, float(gamma), rule=form))
        wanted = reference.kl_from_excess(mpf(float(excess)), N, mpf(float(gamma)), form)
        observe.equal("L-06", fast, wanted, rtol=1e-13, atol=1e-14 * float(N * (gamma + abs(excess))))


@pytest.mark.claim("L-06")
@given(gamma=st.floats(1e-12, 1e6), N=st.integers(1, 6), x=st.floats(0.0, 100.0))
def test_excess_and_order_are_attained(observe: Observer, gamma: float, N: int, x: float) -> None:
    """N − 1 ratios at 1/(1 + γ), one above; all of them: Σ₂ = (1 + γ)Σ₁, where N log(1 + γ) is exact, too."""
    with mp.workdps(90):  # N + excess is near N for small γ
        c = mpf(gamma)
        g = c / (1 + c)
        for last in (1 - g, 1 - g + mpf(x)):
            ratios = [1 - g] * (N - 1) + [last]
            excess = sum(ratios) - N
            truth = reference.kl_of_ratios(ratios)
            observe.equal("L-06", reference.kl_from_excess(excess, N, c, "sharpest"), truth, rtol=TINY)
        observe.equal(
            "L-06", reference.kl_from_excess(-N * g, N, c, "logarithmic"), N * reference.phi(-g) / 2, rtol=mpf("1e-20")
        )


@pytest.mark.claim("L-06", "L-08")
def test_prop_1_as_printed_is_false(observe: Observer) -> None:
    for s1, s2, excess in ((1, 1, 0), (1, 2, mpf(-1) / 2)):
        truth = reference.kl_of_ratios([mpf(s1) / s2])
        printed = reference.kl_from_excess(excess, 1, 1, "printed")
        why = f"N = 1, Σ₁ = {s1}, Σ₂ = {s2}, γ = 1: the proof has 1 - γ where 1 + γ is printed"
        observe.fails("L-06", truth <= printed, why)
    printed = reference.kl_from_traces(2, 2, 1, 1, 1, 0, "printed")
    observe.fails("L-08", printed >= 0, "N = 1, K₁ = K₂ = 2, σ² = 1, γ = 1: -½; the proof has 1 - γ")
    failures = 0
    for seed in range(200):
        S1, S2, N, gamma = laws(seed)
        if gamma > 0:
            excess = trace(S2**-1 * S1) - N
            truth = reference.kl_of_ratios(reference.ratios(S1, S2))
            failures += truth > reference.kl_from_excess(excess, N, gamma, "printed")
    observe.holds("L-06", failures > 100, cases=200)


@pytest.mark.claim("L-07")
@given(seed=SEEDS, slack=st.sampled_from([0.0, 1e-6, 2.0]))
def test_two_sided_order(observe: Observer, seed: int, slack: float) -> None:
    S1, S2, N, _ = laws(seed)
    ratios = reference.ratios(S1, S2)
    gamma = max(ratios[-1], 1 / ratios[0]) - 1 + mpf(slack)
    truth = reference.kl_of_ratios(ratios)
    chain = [truth, *(reference.kl_from_ratio(gamma, N, f) for f in ("sharpest", "quadratic", "printed"))]
    tol = mpf("1e-40") * N * (1 + gamma)
    observe.upper("L-07", chain[0], chain[1], tol=tol)
    observe.upper("L-07", chain[1], min(chain[2:]), tol=tol)
    observe.equal("L-07", N * reference.phi(gamma) / 2, reference.kl_of_ratios([1 + gamma] * N), rtol=TINY, atol=tol)
    observe.lower("L-07", reference.phi(gamma), reference.phi(-gamma / (1 + gamma)), tol=tol)
    for form in ("sharpest", "printed"):
        c = float(gamma)
        with mp.workdps(90):
            wanted = reference.kl_from_ratio(mpf(c), N, form)
        observe.equal("L-07", float(kl_from_ratio(c, N, form=form)), wanted, rtol=1e-14)


@pytest.mark.claim("L-08")
@given(seed=SEEDS, slack=st.sampled_from([0.0, 1e-9, 0.5]), with_least=st.booleans())
def test_traces_and_order(observe: Observer, seed: int, slack: float, with_least: bool) -> None:
    K, Sigma, noise = pair(seed)
    N, t1, t2 = K.rows, trace(K), trace(Sigma)
    gamma = reference.least_gamma(reference.noisy(K, noise), reference.noisy(Sigma, noise)) + mpf(slack)
    least = max(mp.eigsy(Sigma, eigvals_only=True)[0], mpf(0)) if with_least else mpf(0)
    truth = reference.kl(K, Sigma, noise)
    forms = ("sharpest", "logarithmic", "corrected")
    bounds = [reference.kl_from_traces(t1, t2, N, noise, gamma, least, f) for f in forms]
    tol = mpf("1e-35") * (1 + (t1 + t2 + N * noise) * (1 + gamma) / noise)
    for lower, upper in zip([truth, *bounds], bounds, strict=False):
        observe.upper("L-08", lower, upper, tol=tol)
    left = reference.noisy(K, noise) - reference.noisy(Sigma, noise) / (1 + gamma)  # ⪰ 0, which the proof needs
    observe.holds("L-08", mp.eigsy(left, eigvals_only=True)[0] >= -tol * noise)
    numbers = [float(v) for v in (t1, t2, N, noise, gamma)]
    order, sigma2 = (*numbers[:3], numbers[4]), numbers[3]
    for form in ("sharpest", "corrected", "printed"):
        fast = float(kl_from_traces(*order, noise=sigma2, least=float(least), rule=form))
        wanted = reference.kl_from_traces(*map(mpf, numbers[:2]), N, *map(mpf, numbers[3:]), mpf(float(least)), form)
        observe.equal("L-08", fast, wanted, rtol=1e-12, atol=float(1e-14 * (t1 + t2 + N * noise) * (1 + gamma) / noise))


@pytest.mark.claim("L-08", "L-09")
@given(t=st.floats(1e-12, 1e4), N=st.integers(1, 5), noise=st.floats(0.01, 100.0))
def test_traces_are_attained(observe: Observer, t: float, N: int, noise: float) -> None:
    """K₁ − K₂ of rank one, K₂ = cI: equality in both, with λ_min(K₂) = c known."""
    c = mpf("0.7")
    K2 = c * eye(N)
    K1 = K2.copy()
    K1[0, 0] += mpf(t)
    truth = reference.kl(K1, K2, mpf(noise))
    observe.equal("L-09", reference.kl_from_residual(t, noise, c, "sharpest"), truth, rtol=mpf("1e-15"))
    by_traces = reference.kl_from_traces(trace(K1), trace(K2), N, mpf(noise), 0, c, "sharpest")
    observe.equal("L-08", by_traces, truth, rtol=mpf("1e-15"))


@pytest.mark.claim("L-09")
@given(seed=SEEDS)
def test_residual(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(1, 6)), mpf(10.0 ** rng.uniform(-2, 1))
    K2 = gram(rng, N, int(rng.integers(1, N + 2)))
    K1 = K2 + gram(rng, N, int(rng.integers(1, N + 1))) * mpf(10.0 ** rng.uniform(-12, 0))
    tau, least = trace(K1 - K2), max(mp.eigsy(K2, eigvals_only=True)[0], mpf(0))
    truth = reference.kl(K1, K2, noise)
    sharper, sharp, printed = (
        reference.kl_from_residual(tau, noise, floor, form)
        for floor, form in ((least, "sharpest"), (0, "sharpest"), (0, "printed"))
    )
    for lower, upper in ((truth, sharper), (sharper, sharp), (sharp, printed), (sharp, (tau / noise) ** 2 / 4)):
        observe.upper("L-09", lower, upper, tol=mpf("1e-40") * (1 + tau / noise))
    for floor, form in ((least, "sharpest"), (0, "sharpest"), (0, "printed")):
        fast = float(kl_from_residual(float(tau), noise=float(noise), least=float(floor), form=form))
        with mp.workdps(90):
            wanted = reference.kl_from_residual(float(tau), mpf(float(noise)), mpf(float(floor)), form)
        observe.equal("L-09", fast, wanted, rtol=1e-14)


@pytest.mark.claim("L-06")
@given(seed=SEEDS)
def test_least_gamma_in_double_precision(observe: Observer, seed: int) -> None:
    K, Sigma, noise = pair(seed)
    S1, S2 = reference.noisy(K, noise), reference.noisy(Sigma, noise)
    truth, size = reference.least_gamma(S1, S2), condition(floats(K), float(noise))
    wide = 1e-13 * size * (1 + float(truth) + condition(floats(Sigma), float(noise)))
    observe.equal("L-06", least_gamma(floats(K), floats(Sigma), noise=float(noise)), truth, atol=wide)


# --- the optimum ----------------------------------------------------------------------------------------------------


@pytest.mark.claim("L-10")
@given(seed=SEEDS)
def test_no_approximation_of_rank_r_beats_the_truncation(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    N, noise = int(rng.integers(1, 6)), mpf(10.0 ** rng.uniform(-2, 1))
    K = gram(rng, N, int(rng.integers(1, N + 2)))
    values = [max(v, mpf(0)) for v in mp.eigsy(K, eigvals_only=True)]
    optimum = reference.optimal_kl(values, noise)
    tol = mpf("1e-35") * (1 + trace(K) / noise)
    for r in range(N + 1):
        best = reference.truncation(K, r)
        observe.equal("L-10", reference.kl(K, best, noise), optimum[r], atol=tol)
        if r:
            near = matrix(rng.standard_normal((N, N))) * mpf(10.0 ** rng.uniform(-6, 0)) + eye(N)
            for Sigma in (gram(rng, N, r), near * best * near.T):
                observe.lower("L-10", reference.kl(K, Sigma, noise), optimum[r], tol=tol)
    fast = optimal_kl([float(v) for v in values], noise=float(noise))
    with mp.workdps(90):
        wanted = reference.optimal_kl([mpf(float(v)) for v in values], mpf(float(noise)))
    observe.equal(
        "L-10", fast.value, wanted, rtol=1e-13, atol=mpf("1e-80")
    )  # eigenvalues that are 0 to within 50 digits
    from_matrix = np.asarray(optimal_kl(floats(K), noise=float(noise)))
    observe.equal("L-10", from_matrix, wanted, rtol=1e-10, atol=1e-12 * float(trace(K) / noise))
    for target in (0.3, 3.0):
        r = optimal_rank([float(v) for v in values], target, noise=float(noise))
        observe.holds("L-10", optimum[r] <= target and (r == 0 or optimum[r - 1] > target))
    for r in range(N):  # a target next to the optimum of each rank, on either side
        if optimum[r] > mpf("1e-12"):
            ranks = [
                optimal_rank([float(v) for v in values], float(optimum[r]) * (1 + t), noise=float(noise))
                for t in (-1e-7, 1e-7)
            ]
            observe.holds("L-10", ranks[0] > r >= ranks[1])


# --- the order of the two laws, and double precision -----------------------------------------------------------------


@pytest.mark.claim("L-11")
def test_divergence_is_of_the_exact_from_the_approximate_law(observe: Observer) -> None:
    observe.equal("L-11", kl([[3.0]], [[0.0]], noise=1.0), (3 - log(4)) / 2, rtol=1e-15)
    zero, other = mp.zeros(1), mp.ones(1)  # Σ₁ = 1, Σ₂ = 2, γ = 1: Prop. 1 holds with equality in this order
    bound = reference.kl_from_excess(-mpf(1) / 2, 1, 1, "sharpest")
    observe.equal("L-11", reference.kl(zero, other, mpf(1)), bound, rtol=TINY)
    why = "Σ₁ = 1, Σ₂ = 2, γ = 1: Prop. 1 would be false of KL(approximate‖exact) = 0.153 > 0.0966"
    observe.fails("L-11", reference.kl(other, zero, mpf(1)) <= bound, why)


@pytest.mark.claim("L-04", "L-11")
@given(seed=SEEDS)
def test_divergence_in_double_precision(observe: Observer, seed: int) -> None:
    """Relative error of about eps·λ_max(Σ₂)/σ², whatever the size of KL."""
    K, Sigma, noise = pair(seed)
    exact, near, s2 = floats(K), floats(Sigma), float(noise)
    exact, near = 0.5 * (exact + exact.T), 0.5 * (near + near.T)
    with mp.workdps(80):
        # of one matrix twice the reference is rounding error, the truth 0
        truth = mpf(0) if (exact == near).all() else reference.kl(matrix(exact), matrix(near), mpf(s2))
    observe.equal("L-11", kl(exact, near, noise=s2), truth, rtol=20 * EPS * condition(near, s2))


@pytest.mark.claim("L-04", "L-11")
@pytest.mark.parametrize("wanted", [1e-30, 1e-20, 1e-12, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("N", [1, 2, 12])
def test_divergence_from_tiny_to_huge(observe: Observer, wanted: float, N: int) -> None:
    X = np.linspace(0.0, 1.0, N) if N > 2 else np.zeros(N)  # N = 2: the same point twice
    K = SquaredExponential(1.0, 0.3)(X)
    bump = np.outer(np.cos(3 * X), np.cos(3 * X))
    step = 2 * wanted if wanted > 1 else 2 * np.sqrt(wanted) / N
    for exact, near in ((K + step * bump, K), (K * (1 + step), K), (step * bump, 0 * K), (K, K + step * bump)):
        with mp.workdps(90):
            truth = reference.kl(matrix(exact), matrix(near), mpf(1))
        observe.equal("L-11", kl(exact, near, noise=1.0), truth, rtol=20 * EPS * condition(near, 1.0))
        if wanted <= 1e-6:
            observe.holds("L-11", 1e-3 * wanted < truth < 1e2 * wanted)
    observe.equal("L-11", kl(K, K, noise=1e-9), 0.0)


# --- spectral approximations ------------------------------------------------------------------------------------------


@pytest.mark.claim("L-25")
@given(seed=SEEDS, delta=st.one_of(st.floats(1e-9, 0.5), st.floats(0.5, 0.999)))
def test_spectral_approximation(observe: Observer, seed: int, delta: float) -> None:
    """Σ₂ = S(I + Δ·M)S, S² = Σ₁, ‖M‖ ≤ 1: random M, and the extreme M = −I."""
    rng = np.random.default_rng(seed)
    N, d = int(rng.integers(1, 6)), mpf(delta)
    M = gram(rng, N, N) - gram(rng, N, N)
    M /= max(abs(v) for v in mp.eigsy(M, eigvals_only=True))
    bound = N * reference.kappa(d)
    ratios = [1 / (1 + d * v) for v in mp.eigsy(M, eigvals_only=True)]  # of Σ₂⁻¹Σ₁, whatever Σ₁ is
    tol = mpf("1e-40")
    observe.upper("L-25", reference.kl_of_ratios(ratios), bound, tol=tol)
    observe.equal("L-25", reference.kl_of_ratios([1 / (1 - d)] * N), bound, atol=tol)
    S = reference.noisy(gram(rng, N, N), mpf(1))
    observe.equal(
        "L-25",
        reference.kl_of_ratios(reference.ratios(S * S, S * (eye(N) + d * M) * S)),
        reference.kl_of_ratios(ratios),
        atol=TINY,
    )
    observe.lower("L-25", bound / N, d**2 / 4)
    if delta <= 0.5:
        observe.upper("L-25", bound / N, 4 * reference.kappa(mpf(1) / 2) * d**2, tol=tol)
        observe.upper("L-25", bound, 2 * d * N)
        observe.holds("L-25", 1 - d >= 1 / (1 + 2 * d))
        observe.equal("L-25", float(spectral_kl(delta, N, form="printed")), 2 * d * N, rtol=1e-15)
    observe.equal("L-25", float(spectral_kl(delta, N)), bound, rtol=1e-14)


@pytest.mark.claim("L-25")
def test_spectral_approximation_beyond_one_half(observe: Observer) -> None:
    """The paper asks for Δ ≤ ½; 2ΔN holds up to the Δ = 0.83… where κ(Δ) = 2Δ, and no further."""
    low, high = mpf("0.5"), mpf("0.99")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if reference.kappa(middle) < 2 * middle else (low, middle)
    observe.holds("L-25", 0.75 < low < 0.9)
    beyond = mpf("0.95")
    observe.fails(
        "L-25", reference.kappa(beyond) <= 2 * beyond, "without Δ ≤ ½: at Δ = .95, Σ₂ = .05 Σ₁, KL = 8.0 N > 1.9 N"
    )


@pytest.mark.claim("L-25")
@pytest.mark.parametrize("power", one_in(4, [-300, -150, -60, -30, -16, -8, -3, -2, -1, 0, 1, 4, 8, 12]))
def test_kappa_and_its_inverse_in_double_precision(observe: Observer, power: int) -> None:
    for factor in (1.0, 2.7):
        eps = factor * 10.0**power
        delta = reference.kappa_inverse(mpf(eps))
        observe.equal("L-25", float(kappa_inverse(eps)), delta, rtol=4 * EPS)
        d = float(delta)
        if 0.0 < d < 1.0 and power > -150:
            observe.equal("L-25", float(kappa(d)), reference.kappa(mpf(d)), rtol=4 * EPS)
