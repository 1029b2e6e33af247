"""Truncated Mercer expansions: Theorems 3 and 7, deviations, ranks, certificates (L-40 … L-43, L-48 … L-49a, L-54)."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import binom

from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.lowrank import truncation
from gpbounds.lowrank.features import MercerFeatures
from gpbounds.lowrank.truncation import mean_divergence, mercer_kl, mercer_rank, residual_certificate
from gpbounds.reference import lowrank as reference
from gpbounds.reference.spectra import ratio
from gpbounds.spectra import spectrum

SEEDS = st.integers(0, 2**32 - 1)


class FiniteSpace:
    """A probability space of n points and a kernel on it with k(x, x) = top: its Mercer expansion is finite."""

    def __init__(self, seed: int, top: float, kind: str) -> None:
        rng = np.random.default_rng(seed)
        n = 3
        self.p = rng.dirichlet(np.ones(n) * 2.0)
        if kind == "block":  # one point apart from the rest: a residual of B or 0
            K = np.ones((n, n))
            K[-1, :-1] = K[:-1, -1] = 0.0
        elif kind == "flat":
            K = np.ones((n, n))
        else:
            x = rng.standard_normal((n, 2))
            K = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1) / rng.choice([0.1, 1.0, 30.0]))
        self.top, self.K = top, top * K
        root = np.sqrt(self.p)
        values, U = np.linalg.eigh(root[:, None] * self.K * root)
        self.values, self.functions = np.maximum(values[::-1], 0.0), U[:, ::-1] / root[:, None]

    def truncated(self, r: int) -> np.ndarray:
        e = self.functions[:, :r]
        return (e * self.values[:r]) @ e.T

    def tail(self, r: int) -> float:
        return float(self.values[r:].sum())


def exact_kl(K: np.ndarray, Sigma: np.ndarray, noise: float) -> float:
    """½Σ[e − log(1 + e)], e the eigenvalues of (Sigma + noise I)⁻¹(K − Sigma)."""
    A = Sigma + noise * np.eye(len(K))
    e = np.linalg.eigvals(np.linalg.solve(A, K - Sigma)).real
    return 0.5 * float(np.sum(e - np.log1p(e)))


spaces = st.builds(FiniteSpace, SEEDS, st.sampled_from([1e-3, 1.0, 50.0]), st.sampled_from(["random", "block", "flat"]))


@pytest.mark.claim("L-40")
@given(space=spaces, r=st.integers(0, 3), N=st.integers(1, 8), seed=SEEDS)
def test_truncation_leaves_a_positive_part(observe: Observer, space: FiniteSpace, r: int, N: int, seed: int) -> None:
    i = np.random.default_rng(seed).choice(3, size=N, p=space.p)
    K, Sigma = space.K[np.ix_(i, i)], space.truncated(r)[np.ix_(i, i)]
    whole = space.truncated(3)[np.ix_(i, i)]
    observe.equal("L-40", whole, K, atol=1e-12 * space.top)
    observe.lower("L-40", np.linalg.eigvalsh(K - Sigma), 0.0, tol=1e-12 * N * space.top)
    observe.upper("L-40", int(np.linalg.matrix_rank(Sigma, tol=1e-9 * space.top)), min(r, N))


@pytest.mark.claim("L-40")
@given(ell=st.floats(0.2, 3.0), dim=st.integers(1, 2), r=st.integers(1, 40), N=st.integers(1, 8), seed=SEEDS)
def test_mercer_features_leave_a_positive_part(
    observe: Observer, ell: float, dim: int, r: int, N: int, seed: int
) -> None:
    """K − ΞΞᵀ ⪰ 0 and rank Ξ ≤ min(r, N), also where an input is there twice; with a term more it decreases."""
    kernel, X = SquaredExponential(1.0, ell), np.random.default_rng(seed).standard_normal((N, dim))
    X[-1] = X[0]
    parts = [MercerFeatures(kernel, rank, inputs=Gaussian(dim=dim)).fit(X)(X) for rank in (r, r + 1)]
    for Xi in parts:
        observe.lower("L-40", np.linalg.eigvalsh(kernel(X) - Xi @ Xi.T), 0.0, tol=1e-13 * N)
    observe.lower("L-40", np.linalg.eigvalsh(parts[1] @ parts[1].T - parts[0] @ parts[0].T), 0.0, tol=1e-13 * N)
    observe.upper("L-40", int(np.linalg.matrix_rank(parts[0])), min(r, N))


@pytest.mark.claim("L-40")
def test_the_rank_may_be_below_r(observe: Observer) -> None:
    space = FiniteSpace(0, 1.0, "random")
    Sigma = space.truncated(3)[np.ix_([0, 0, 0, 0], [0, 0, 0, 0])]
    observe.fails("L-40", np.linalg.matrix_rank(Sigma) == 3, "four equal inputs: the rank of Σ is 1, not r = 3")


@pytest.mark.claim("L-41", "L-42", "L-43", "N-mercer")
@settings(max_examples=40)
@given(
    space=spaces,
    r=st.integers(0, 2),
    N=st.integers(1, 6),
    noise=st.sampled_from([1e-3, 0.1, 5.0]),
    delta=st.floats(0.01, 0.99),
)
def test_failure_probabilities_by_enumeration(
    observe: Observer, space: FiniteSpace, r: int, N: int, noise: float, delta: float
) -> None:
    Sigma, tail = space.truncated(r), min(space.tail(r), space.top)
    residual = np.diag(space.K - Sigma)
    traces, kls, probabilities = [], [], []
    for pick in itertools.product(range(3), repeat=N):
        i = list(pick)
        if i != sorted(i):
            continue  # the law of a multiset, by its multinomial weight
        counts = np.bincount(i, minlength=3)
        weight = float(mp.factorial(N) / mp.fprod(mp.factorial(int(c)) for c in counts))
        traces.append(float(residual[i].sum()))
        kls.append(exact_kl(space.K[np.ix_(i, i)], Sigma[np.ix_(i, i)], noise))
        probabilities.append(weight * float(np.prod(space.p**counts)))
    trace, kl, weight_of = np.array(traces), np.array(kls), np.array(probabilities)
    observe.equal("L-41", float(weight_of.sum()), 1.0, rtol=1e-12)
    args = (np.asarray(tail), np.asarray(space.top), np.asarray(float(N)), np.asarray(delta))
    slack = 1e-10 * space.top * N
    for claim, a in (
        ("L-41", truncation.chebyshev(*args)),
        ("L-43", truncation.cantelli(*args)),
        ("L-43", truncation.chernoff(*args)),
        ("L-43", truncation.markov(args[0], args[1], args[3])),
        ("L-43", truncation.mean_above(*args)),
    ):
        observe.upper(claim, float(weight_of[trace > N * a + slack].sum()), delta, tol=1e-12)
    printed = N * truncation.chebyshev(*args) / (2.0 * noise)
    x = N * truncation.mean_above(*args) / noise
    sharp = 0.5 * (x - np.log1p(x))
    rounding = 1e-9 * (1.0 + space.top * N / noise)
    observe.upper("L-42", float(weight_of[kl > printed + rounding].sum()), delta, tol=1e-12)
    observe.upper("L-43", float(weight_of[kl > sharp + rounding].sum()), delta, tol=1e-12)
    # In expectation, and given the residual diagonal.
    mean = float(weight_of @ kl)
    observe.upper("L-42", mean, N * tail / (2.0 * noise), tol=rounding)
    observe.upper("N-mercer", mean, float(mean_divergence(np.asarray(tail), N, noise, space.top)), tol=rounding)
    for t, k in zip(trace, kl, strict=True):
        observe.upper("L-43", k, float(residual_certificate(max(t, 0.0), noise=noise)), tol=rounding)


@pytest.mark.claim("N-mercer", "L-43")
@given(p=st.floats(1e-9, 1.0), N=st.integers(1, 300), b=st.floats(1e-6, 1e6))
def test_expectation_of_a_residual_that_is_all_or_nothing(observe: Observer, p: float, N: int, b: float) -> None:
    # One point apart, probability p, r = 1: K − Σ = B·11ᵀ on its k copies and Σ = 0 there, k ~ Bin(N, p): KL is known.
    true = reference.binomial_divergence(p, N, b)
    fast = mp.mpf(float(mean_divergence(np.asarray(p), N, 1.0 / b, 1.0)))
    observe.upper("N-mercer", true, fast, tol=1e-13 * fast)
    if N * p < 1e-3:
        observe.upper("N-mercer", fast, true * (1 + mp.mpf("1.1e-3")), tol=1e-14 * N * p * b)  # tight
    observe.upper("N-mercer", fast, mp.mpf(N) * p * b / 2, tol=1e-12 * fast)
    # Failure probability of the least of the deviations, exactly.
    for delta in (1e-6, 0.05, 0.5):
        a = float(truncation.mean_above(p, 1.0, N, delta))
        observe.upper("L-43", float(binom.sf(np.floor(N * a * (1 + 1e-12)), N, p)), delta)


@pytest.mark.claim("L-41", "L-43")
@given(
    log_mean=st.floats(-600.0, 0.0),
    log_top=st.floats(-20.0, 20.0),
    N=st.integers(1, 10**10),
    log_delta=st.floats(-80.0, -0.01),
)
def test_deviations_against_the_reference(
    observe: Observer, log_mean: float, log_top: float, N: int, log_delta: float
) -> None:
    top = float(np.exp(log_top))
    mean, delta = top * float(np.exp(log_mean)), float(np.exp(log_delta))
    args = (np.asarray(mean), np.asarray(top), np.asarray(float(N)), np.asarray(delta))
    observe.equal(
        "L-41", float(truncation.chebyshev(*args)), float(reference.chebyshev(mean, top, N, delta)), rtol=1e-13
    )
    cantelli, chernoff = float(truncation.cantelli(*args)), float(truncation.chernoff(*args))
    observe.equal("L-43", cantelli, min(float(reference.cantelli(mean, top, N, delta)), top), rtol=1e-12)
    observe.upper("L-43", cantelli, float(truncation.chebyshev(*args)) * (1 + 1e-14))
    if mean < top:
        true = reference.chernoff(mean, top, N, delta)
        observe.upper("L-43", true, mp.mpf(chernoff), tol=1e-12 * chernoff)
        observe.upper("L-43", chernoff, float(true) * (1 + 1e-9))
    # Increasing in the mean, so that an upper bound of it serves.
    larger = (np.minimum(args[0] * 1.001, args[1]), *args[1:])
    observe.upper("L-43", float(truncation.mean_above(*args)), float(truncation.mean_above(*larger)) * (1 + 1e-12))


@pytest.mark.claim("L-43")
def test_the_example_of_the_ledger(observe: Observer) -> None:
    observe.equal("L-43", float(truncation.chebyshev(*map(np.asarray, (0.029, 1.0, 400.0, 0.01)))), 0.114, atol=5e-4)
    observe.equal("L-43", float(truncation.mean_above(0.029, 1.0, 400, 0.01)), 0.0578, atol=5e-5)


@pytest.mark.claim("L-42", "L-43", "L-54")
@pytest.mark.parametrize(("dim", "N", "r", "noise"), [(1, 60, 4, 0.1), (1, 40, 7, 1e-3), (2, 50, 10, 0.05)])
def test_kl_of_mercer_features(observe: Observer, dim: int, N: int, r: int, noise: float) -> None:
    kernel, inputs, delta = SquaredExponential(1.5, 1.0), Gaussian(1.0, dim), 0.1
    bound = float(mercer_kl(kernel, N, r, inputs=inputs, noise=noise, delta=delta))
    printed = float(mercer_kl(kernel, N, r, inputs=inputs, noise=noise, delta=delta, form="printed"))
    mean = float(mercer_kl(kernel, N, r, inputs=inputs, noise=noise, delta=None))
    observe.upper("L-42", bound, printed)
    rng = np.random.default_rng(4)
    features = MercerFeatures(kernel, r, inputs=inputs)
    kls = []
    for _ in range(200):
        X = inputs.sample(N, rng)
        Xi = features.fit(X)(X)
        kl = exact_kl(kernel(X), Xi @ Xi.T, noise)
        kls.append(kl)
        residual = kernel.diag(X) - (Xi**2).sum(axis=1)
        observe.lower("L-54", residual, 0.0, tol=1e-13)
        observe.upper("L-54", kl, float(residual_certificate(residual, noise=noise, rounding=1e-14)), tol=1e-8)
    values = np.array(kls)
    observe.frequency("L-43", int((values > bound).sum()), 200, delta)
    observe.frequency("L-42", int((values > printed).sum()), 200, delta)
    # Six standard errors of the mean.
    observe.upper("L-42", float(values.mean()), mean, tol=6.0 * float(values.std()) / 200**0.5)


@pytest.mark.claim("L-43", "L-54")
def test_the_certificate_is_attained_at_rank_one(observe: Observer) -> None:
    for noise in (1e-6, 1.0, 1e6):
        d = np.array([0.3, 0.0, 1.0, 2.0])
        K = np.sqrt(np.outer(d, d))
        kl = reference.divergence(mp.mpf(float(d.sum())) / noise)
        certificate = residual_certificate(d, noise=noise)
        observe.equal("L-43", mp.mpf(float(certificate)), kl, rtol=1e-10)
        observe.upper("L-43", kl, mp.mpf(float(certificate)))
        observe.equal("L-54", exact_kl(K, np.zeros((4, 4)), noise), float(certificate), rtol=1e-5, atol=1e-9)


@pytest.mark.claim("L-42", "L-43", "N-mercer")
@settings(max_examples=15)
@given(
    ell=st.floats(0.2, 5.0),
    N=st.integers(1, 10**6),
    r=st.integers(0, 60),
    log_noise=st.floats(-12.0, 12.0),
    delta=st.floats(1e-9, 0.99),
)
def test_bounds_before_the_inputs_are_seen_are_rounded_upwards(
    observe: Observer, ell: float, N: int, r: int, log_noise: float, delta: float
) -> None:
    """Each form from Λ = v·B^r at 250 digits: never below, and above at most by the stated allowance."""
    kernel, v, noise = SquaredExponential(1.5, ell), mp.mpf(1.5), 10.0**log_noise
    with mp.workdps(250):  # x − log(1 + x) loses twice the digits of a tail of 1e-72
        tail = v * ratio(ell, 1) ** r
        level, p, b = mp.mpf(noise), tail / v, v / mp.mpf(noise)
        deviations_ = [
            min(reference.cantelli(tail, v, N, delta), v) if tail < v / 2 else v,
            reference.chernoff(tail, v, N, delta) if p < 1 else v,
            min(tail / mp.mpf(delta), v),
        ]
        mean = N * tail / level
        first = (mean - (1 - (1 - p) ** N) * mp.log1p(b)) / 2
        middle = min(tail, v / 2)
        second = reference.divergence(mean) + N * middle * (v - middle) / (4 * level**2)
        truths = {
            ("L-43", delta, "sharpest"): reference.divergence(N * min(deviations_) / level),
            ("L-42", delta, "printed"): N * reference.chebyshev(tail, v, N, delta) / (2 * level),
            ("N-mercer", None, "sharpest"): min(first, second, mean / 2),
            ("L-42", None, "printed"): mean / 2,
        }
        for (claim, failing, form), truth in truths.items():
            bound = mercer_kl(kernel, N, r, inputs=Gaussian(), noise=noise, delta=failing, form=form)
            assert bound.certified
            observe.upper(claim, truth, mp.mpf(float(bound)))
            allowed = mp.mpf("1e-9") * truth + mp.mpf("1e-15") * mean + mp.mpf("1e-300")
            if tail < v / 2:  # beyond, Cantelli's threshold may be B before it is reached
                observe.upper(claim, mp.mpf(float(bound)), truth + allowed)


@pytest.mark.claim("L-54", "L-43")
@given(seed=SEEDS, log_noise=st.floats(-9.0, 9.0), rounding=st.sampled_from([0.0, 1e-14, 1e-3]))
def test_the_certificate_is_rounded_upwards(observe: Observer, seed: int, log_noise: float, rounding: float) -> None:
    """The trace with what every entry may lack, and ½[x − log(1 + x)] of it, each at 50 digits without tolerance."""
    d = np.random.default_rng(seed).random(200) ** 4
    bound = residual_certificate(d, noise=10.0**log_noise, rounding=rounding)
    assert bound.certified
    with mp.workdps(80):
        exact = mp.fsum(mp.mpf(float(x)) + mp.mpf(rounding) for x in d)
        trace, value = mp.mpf(bound.terms["trace"]), mp.mpf(float(bound))
        observe.upper("L-54", exact, trace)
        observe.upper("L-54", trace, exact * (1 + mp.mpf("1.1e-11")))
        kl = reference.divergence(trace / mp.mpf(10.0**log_noise))
        observe.upper("L-43", kl, value)
        observe.upper("L-43", value, kl * (1 + mp.mpf("1.1e-11")))


@pytest.mark.claim("L-42", "L-54")
def test_an_upper_bound_never_underflows_to_nothing(observe: Observer) -> None:
    for delta in (0.05, None):
        bound = mercer_kl(SquaredExponential(1.0, 50.0), 3, 90, inputs=Gaussian(), noise=1e200, delta=delta)
        observe.holds("L-42", 0.0 < float(bound) < 1e-300)
    observe.holds("L-54", 0.0 < float(residual_certificate(1e-300, noise=1e200)) < 1e-300)


@pytest.mark.claim("L-48")
def test_ranks_of_theorem_3(observe: Observer) -> None:
    for R, dim, eps, std, delta, N, m, r in (
        (0.4, 1, 0.01, 1.0, 0.05, 5000, 4, 3),
        (0.4, 5, 0.01, 1.0, 0.05, 5000, 9, 56),
        (2.0, 1, 0.01, 0.1, 0.05, 1000, 28, 27),
        (2.0, 3, 0.01, 0.1, 0.05, 1000, 40, 9139),
    ):
        noise = std**2
        largest = reference.largest_tail(eps, noise, 1, N, delta)
        observe.equal("L-48", reference.chebyshev(largest, 1, N, delta), 2 * mp.mpf(eps) * noise, rtol=1e-40)
        root = mp.sqrt(1 + 4 * mp.mpf(R) ** 2)
        observe.equal("L-48", reference.level_rank((root - 1) / (root + 1), dim, largest), r)
        observe.equal("L-48", int(mp.binomial(m - 1, dim)), r)
        kernel, inputs = SquaredExponential(1.0, 1.0 / (2.0 * np.pi)), Gaussian(R / (2.0 * np.pi), dim)
        plan = mercer_rank(kernel, N, eps * N, inputs=inputs, noise=noise, delta=delta, form="printed")
        if r < N:
            # The last level may be cut: the same theorem allows a rank between two levels.
            assert plan.M is not None
            observe.holds("L-48", int(mp.binomial(m - 2, dim)) < plan.M <= r)
            law = spectrum(kernel, inputs=inputs)
            observe.holds("L-48", float(law.tail(plan.M)) <= largest < float(law.tail(plan.M - 1)))
            sharper = mercer_rank(kernel, N, eps * N, inputs=inputs, noise=noise, delta=delta)
            observe.holds("L-48", sharper.M is not None and sharper.M <= plan.M)
        else:
            observe.holds("L-48", plan.M is None)


@pytest.mark.claim("L-49a")
def test_ranks_of_matern_kernels(observe: Observer) -> None:
    # λ_m ≤ C m^{−2ν−1} gives r ≥ (C/(2νΛ*))^{1/(2ν)} in one dimension.
    for nu, eps in ((0.5, 0.01), (1.5, 1e-3), (2.5, 1e-4)):
        kernel, inputs, N = Matern(nu, 1.0, 0.7), Uniform(0.0, 2.0), 10**8
        law = spectrum(kernel, inputs=inputs)
        m = np.arange(1.0, 201.0)
        C = 1.3 * float((law.eigenvalues(200) * m ** (2 * nu + 1)).max())
        largest = reference.largest_tail(eps, 0.1, 1, N, 0.05)
        closed = (C / (2 * nu * largest)) ** (1 / mp.mpf(2 * nu))
        plan = mercer_rank(kernel, N, eps * N, inputs=inputs, noise=0.1, form="printed")
        observe.holds("L-49a", plan.M is not None and plan.M <= closed + 1)


@pytest.mark.claim("L-49")
def test_the_rank_grows_like_the_dth_power(observe: Observer) -> None:
    # R = .5, D = 3, noise 1: the rank needed by Theorem 3 as ε falls, over the printed expression without its exponent.
    kernel, inputs = SquaredExponential(1.0, 1.0 / (2.0 * np.pi)), Gaussian(0.5 / (2.0 * np.pi), 3)
    L, plain = np.log(2.0), []
    for exponent in (1, 4, 16):
        eps = 10.0**-exponent
        plan = mercer_rank(kernel, 10**9, eps * 10**9, inputs=inputs, noise=1.0, form="printed")
        assert plan.M is not None
        plain.append(plan.M / (3 / L * max(np.log(3 / L), np.log(8.0)) + np.log(1 / (eps * 0.05)) / L))
    observe.fails(
        "L-49",
        plain[-1] <= 20 * plain[0],
        "R = .5, D = 3: mercer_rank outgrows the printed expression without exponent D",
    )


@pytest.mark.claim("L-43")
@pytest.mark.parametrize("mean", [0.0, 5e-324, 1e-310, 0.3])
def test_the_least_delta_keeps_the_bound_above_its_truth(observe: Observer, mean: float) -> None:
    """(1 − δ)/(Nδ) overflows: no clamp of it may lower the bound."""
    for delta in (5e-324, 1e-310, 1e-300):
        computed = float(truncation.cantelli(np.float64(mean), np.float64(1.0), np.float64(2.0), np.float64(delta)))
        with mp.workdps(400):
            truth = min(reference.cantelli(mp.mpf(mean), mp.mpf(1), mp.mpf(2), mp.mpf(delta)), mp.mpf(1))
        observe.upper("L-43", truth, computed * (1 + 1e-14))
