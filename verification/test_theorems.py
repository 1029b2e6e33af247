"""The convergence theorems: R-thm1, R-thm2, R-thm-1, R-small, N-thm, N-W (section G), and ``rate`` against mpmath."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

import gpbounds
from gpbounds.divergences import gaussian_renyi
from gpbounds.inputs import Empirical, Gaussian, Uniform
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.rates import one_draw
from gpbounds.rates.trace import kept_eigenvalues, log_best_truncation
from gpbounds.reference import rates as reference
from gpbounds.reference import renyi
from gpbounds.reference.kdpp import trace_bound
from gpbounds.reference.rates import geometric_trace, population_trace
from gpbounds.reference.spectra import isotropic_tails, ratio
from gpbounds.spectra import spectrum

ORDERS = st.one_of(st.floats(1e-6, 0.999), st.sampled_from([0.5, 1.0, 0.51, 1 - 1e-9]))


@pytest.mark.claim("R-thm1", "R-thm2", "N-thm", "N-W", "N-pop")
@example(ell=0.42578125, dim=4, N=7, M=6, alpha=0.5, noise=1.0, delta=0.5, tv=0.0, y_norm2=None, variance=1.0)
@given(
    ell=st.floats(0.1, 8.0),
    dim=st.sampled_from([1, 2, 4]),
    N=st.integers(3, 10**9),
    M=st.integers(1, 60),
    alpha=ORDERS,
    noise=st.floats(1e-8, 1e3),
    delta=st.floats(1e-6, 0.999),
    tv=st.sampled_from([0.0, 1e-12, 1e-3, 1.0]),
    y_norm2=st.sampled_from([None, 0.0, 1e-3, 50.0, 1e9]),
    variance=st.floats(1e-6, 1e6),
)
def test_rate_against_fifty_digits(
    observe: Observer,
    ell: float,
    dim: int,
    N: int,
    M: int,
    alpha: float,
    noise: float,
    delta: float,
    tv: float,
    y_norm2: float | None,
    variance: float,
) -> None:
    assume(M < N)
    tails = isotropic_tails(ell, 1, variance, dim, int(kept_eigenvalues(M)) if dim > 1 else M)
    if dim > 1:  # R falls with M; a sum cut at 256 eigenvalues may rise, where those of fewer points serve
        population, fewer = population_trace(tails, M), M - 1
        while fewer and population_trace(tails, fewer) < population:
            population, fewer = population_trace(tails, fewer), fewer - 1
        population = min(population, tails[0])
    else:
        population = variance * geometric_trace(ratio(ell, 1), M)
    exact = {"variance": variance, "noise": mp.mpf(noise), "delta": mp.mpf(delta), "tv": mp.mpf(tv)}
    claim = "R-thm1" if y_norm2 is None else "R-thm2"
    for form in ("sharpest", "printed"):
        truth = reference.rate(
            tails,
            N,
            M,
            mp.mpf(alpha),
            **exact,
            y_norm2=None if y_norm2 is None else mp.mpf(y_norm2),
            form=form,
            population=population,
        )
        value = gpbounds.rate(
            SquaredExponential(variance, ell),
            N,
            M,
            alpha,
            inputs=Gaussian(1.0, dim),
            noise=noise,
            delta=delta,
            tv=tv,
            y_norm2=y_norm2,
            form=form,
        )
        assert value.certified
        # Never below the theorem's value, and above it by the declared rounding only.
        observe.upper(claim, truth, mp.mpf(float(value)))
        if truth > mp.mpf(10) ** -300:
            observe.equal(claim, mp.mpf(float(value)), truth, rtol=1.2e-11 if dim == 1 else 3e-11)


def dense(K: np.ndarray, Z: tuple[int, ...], noise: float, alpha: float) -> tuple[np.ndarray, float, np.ndarray]:
    """(Δ, D_α(0), A) with D_α(y) = D_α(0) + ½ y'Ay for inducing points Z, straight from R-gap."""
    z = list(Z)
    Q = K[:, z] @ np.linalg.solve(K[np.ix_(z, z)], K[z])
    R = K - Q
    eye = np.eye(len(K))
    Xi = noise * eye + (1 - alpha) * K + alpha * Q
    d = np.maximum(np.linalg.eigvalsh(R), 0.0) / noise
    beta = 1 - alpha
    logdet = 0.5 * alpha * (np.log1p(beta * d).sum() / beta if beta else d.sum())
    A = np.linalg.inv(Xi) - np.linalg.inv(K + noise * eye)
    offset = logdet - 0.5 * np.linalg.slogdet(eye + alpha * np.linalg.solve(Xi, R))[1]
    return R, offset, 0.5 * (A + A.T)


def draw_subset(K: np.ndarray, M: int, rng: np.random.Generator) -> tuple[int, ...]:
    """One draw of the k-DPP by full enumeration of the subsets."""
    subsets = np.array(list(itertools.combinations(range(len(K)), M)))
    weights = np.linalg.det(K[subsets[:, :, None], subsets[:, None, :]])
    return tuple(subsets[rng.choice(len(subsets), p=weights / weights.sum())].tolist())


SETTINGS = [
    (Matern(0.5, 1.0, 0.5), Uniform(), 8, 2, 0.5, 0.05, 0.3),
    (SquaredExponential(1.0, 0.4), Gaussian(), 8, 3, 0.9, 0.1, 0.5),
    (SquaredExponential(2.0, 1.0), Gaussian(), 7, 2, 1.0, 0.5, 0.2),
]


@pytest.mark.claim("R-thm1", "R-thm2", "N-thm")
@pytest.mark.parametrize(("kernel", "inputs", "N", "M", "alpha", "noise", "delta"), one_in(2, SETTINGS))
def test_failure_frequency(
    observe: Observer,
    kernel: gpbounds.SquaredExponential,
    inputs: gpbounds.Gaussian,
    N: int,
    M: int,
    alpha: float,
    noise: float,
    delta: float,
) -> None:
    """X iid, Z from the k-DPP by enumeration, y from the prior or the worst y: how often the bound fails."""
    rng = np.random.default_rng(7)
    draws, y_norm2 = 1000, 4.0 * N
    prior, worst, traces = [], [], []
    for _ in range(draws):
        X = inputs.sample(N, rng)
        K = kernel(X) + 1e-12 * np.eye(N)
        R, offset, A = dense(K, draw_subset(K, M, rng), noise, alpha)
        y = np.linalg.cholesky(K + noise * np.eye(N)) @ rng.standard_normal(N)
        prior.append(offset + 0.5 * y @ A @ y)
        worst.append(offset + 0.5 * y_norm2 * np.linalg.eigvalsh(A)[-1])
        traces.append(np.trace(R))
    arguments = {"inputs": inputs, "noise": noise, "delta": delta}
    for claim, gaps, norm in (("R-thm1", prior, None), ("R-thm2", worst, y_norm2)):
        sharp = float(gpbounds.rate(kernel, N, M, alpha, y_norm2=norm, **arguments))
        printed = float(gpbounds.rate(kernel, N, M, alpha, y_norm2=norm, form="printed", **arguments))
        observe.frequency(claim, int((np.array(gaps) > sharp).sum()), draws, delta)
        observe.frequency("N-thm", int((np.array(gaps) > sharp).sum()), draws, delta)
        observe.upper("N-thm", sharp, printed * (1 + 1e-13))
        # The same test has power: the bound for a thousandth of the trace fails far more often than delta.
        t = float(gpbounds.rate(kernel, N, M, alpha, **arguments).terms["expected_trace"]) / 1000
        if norm is None:
            pretended = min(float(v) for v in one_draw.prior_sharpest(t, N - M, noise, alpha, delta).values())
        else:
            pretended = sum(float(v) for v in one_draw.any_markov(t, N - M, noise, alpha, delta, norm).values())
        assert (np.array(gaps) > pretended).mean() > delta
    expected = float(gpbounds.rate(kernel, N, M, alpha, **arguments).terms["expected_trace"])
    standard_error = np.std(traces) / np.sqrt(draws)
    observe.upper("R-thm1", np.mean(traces) - 5 * standard_error, expected)


@pytest.mark.claim("R-thm2")
@given(seed=st.integers(0, 10**6), alpha=ORDERS, noise=st.floats(1e-3, 10.0), scale=st.floats(0.0, 100.0))
def test_any_y_holds_for_all_y_at_once(observe: Observer, seed: int, alpha: float, noise: float, scale: float) -> None:
    """On {T <= τ} the bound with t/δ = τ holds for the worst y, the top eigenvector: no randomness remains."""
    rng = np.random.default_rng(seed)
    N, M = 7, 3
    K = Matern(1.5, 1.0, rng.uniform(0.1, 3))(rng.standard_normal((N, 2)))
    R, offset, A = dense(K, tuple(range(M)), noise, alpha)
    worst = offset + 0.5 * scale * max(np.linalg.eigvalsh(A)[-1], 0.0)
    terms = one_draw.any_markov(np.trace(R), N - M, noise, alpha, 1.0, scale)
    observe.upper("R-thm2", worst, terms["determinant"] + terms["quadratic"], tol=1e-9 * (1 + worst))


@pytest.mark.claim("N-W")
@given(seed=st.integers(0, 10**6), alpha=ORDERS, noise=st.floats(1e-2, 10.0), level=st.sampled_from([0.5, 0.1, 0.02]))
def test_chi_square_tail(observe: Observer, seed: int, alpha: float, noise: float, level: float) -> None:
    """Given X, Z and T <= τ, y ~ prior exceeds the tail form's value in at most δ₂ of the draws."""
    rng = np.random.default_rng(seed)
    N, M, draws = 8, 2, 4000
    K = SquaredExponential(1.0, rng.uniform(0.1, 1.0))(rng.standard_normal((N, 1))) + 1e-10 * np.eye(N)
    R, offset, A = dense(K, (0, 1), noise, alpha)
    Y = rng.standard_normal((draws, N)) @ np.linalg.cholesky(K + noise * np.eye(N)).T
    gaps = offset + 0.5 * np.einsum("ij,jk,ik->i", Y, A, Y)
    # share = ½ and δ = 2·level make δ₂ = level and, with t = T·level, τ = T: only the χ² tail is tested.
    value = one_draw.prior_tail(np.trace(R) * level, N - M, noise, alpha, 2 * level, 0.5)
    observe.frequency("N-W", int((gaps > value).sum()), draws, level)


@pytest.mark.claim("R-thm1")
@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("t", [1e-6, 1.0, 1e6])
def test_the_tail_form_takes_the_lesser_mean(observe: Observer, alpha: float, share: float, t: float) -> None:
    """√(xwW) + xw and the lesser of n F̂ and g_n + ½[W − log(1 + W)], at 50 digits; both are, somewhere."""
    n, noise, delta = 1040, 0.1, 0.9
    a, s2, d2 = mp.mpf(alpha), mp.mpf(noise), mp.mpf(delta) * mp.mpf(share)
    tau, x = mp.mpf(t) / (mp.mpf(delta) - d2), mp.log(1 / d2)
    W, w = a * tau / (s2 + (1 - a) * tau / n), a * tau / (s2 + (1 - a) * tau)
    mean = min(n * renyi.F_hat(tau / (n * s2), a), renyi.trace_term(tau, n, s2, a) + (W - mp.log(1 + W)) / 2)
    value = one_draw.prior_tail(t, n, noise, alpha, delta, share)
    observe.equal("R-thm1", float(value), mean + mp.sqrt(x * w * W) + x * w, rtol=1e-12)


@pytest.mark.claim("R-thm-1")
@given(t=st.floats(1e-6, 1e3), noise=st.floats(1e-3, 10.0), delta=st.floats(1e-3, 0.9), y_norm2=st.floats(0.0, 1e3))
def test_limit_alpha_to_one(observe: Observer, t: float, noise: float, delta: float, y_norm2: float) -> None:
    t, noise, delta, y_norm2 = (mp.mpf(a) for a in (t, noise, delta, y_norm2))
    arguments = {"noise": noise, "delta": delta, "form": "printed"}
    tails = [t / 20, t / 20]  # M = 1, N = 10: the trace (M + 1)·N·tail is t
    prior, any_y = t / (delta * noise), t / (2 * delta * noise) * (1 + y_norm2 / noise)
    with mp.workdps(120):
        for alpha, rtol in ((1 - mp.mpf(10) ** -50, mp.mpf(10) ** -40), (mp.mpf(1), mp.mpf(10) ** -45)):
            observe.equal("R-thm-1", reference.rate(tails, 10, 1, alpha, **arguments), prior, rtol=rtol)
            observe.equal(
                "R-thm-1", reference.rate(tails, 10, 1, alpha, y_norm2=y_norm2, **arguments), any_y, rtol=rtol
            )


@pytest.mark.claim("R-thm-1")
def test_rate_is_continuous_at_alpha_one(observe: Observer) -> None:
    for form, norm in itertools.product(("sharpest", "printed"), (None, 10.0)):
        near, at = (
            float(gpbounds.rate(Matern(0.5), 1000, 50, alpha, inputs=Uniform(), form=form, y_norm2=norm))
            for alpha in (1 - 1e-13, 1.0)
        )
        observe.equal("R-thm-1", near, at, rtol=1e-5)


@pytest.mark.claim("R-small")
def test_the_bound_becomes_arbitrarily_small(observe: Observer) -> None:
    for direction, norm in itertools.product(("q||p", "p||q"), (None, 1e6)):
        M = np.array([1, 10, 100, 500])
        values = gpbounds.rate(SquaredExponential(), 10**6, M, 0.3, y_norm2=norm, direction=direction).value
        observe.holds("R-small", np.all(np.diff(values) < 0) and 0 < values[-1] < 1e-180, 4)
        # tv > 0 leaves a lower limit, which vanishes with tv.
        floors = [
            float(gpbounds.rate(SquaredExponential(), 10**4, 700, 0.3, y_norm2=norm, direction=direction, tv=tv))
            for tv in (1e-6, 1e-12, 1e-18)
        ]
        observe.holds("R-small", floors[0] > floors[1] > floors[2] > 0, 3)
    small_orders = gpbounds.rate(SquaredExponential(), 100, 2, np.array([1e-3, 1e-9])).value
    observe.holds("R-small", small_orders[1] < 2e-6 * small_orders[0])  # D_0 = 0


@pytest.mark.claim("N-thm")
@given(
    ell=st.floats(0.05, 5.0),
    N=st.integers(20, 10**6),
    alpha=ORDERS,
    norm=st.sampled_from([None, 100.0]),
    noise=st.floats(1e-4, 10.0),
)
def test_monotone_in_M_and_below_the_printed_form(
    observe: Observer, ell: float, N: int, alpha: float, norm: float | None, noise: float
) -> None:
    M = np.arange(1, 20)
    sharp = gpbounds.rate(SquaredExponential(1.0, ell), N, M, alpha, y_norm2=norm, noise=noise).value
    printed = gpbounds.rate(SquaredExponential(1.0, ell), N, M, alpha, y_norm2=norm, noise=noise, form="printed").value
    observe.holds("N-thm", np.all(np.diff(sharp) <= 1e-14 * sharp[:-1]), 19)
    observe.upper("N-thm", sharp, printed * (1 + 1e-13))  # equal where k = M is best


@pytest.mark.claim("R-samp", "N-thm")
@pytest.mark.parametrize(
    ("kernel", "inputs"),
    [
        (SquaredExponential(), Gaussian()),
        (SquaredExponential(1.0, 0.3), Gaussian(1.0, 3)),
        (SquaredExponential(1.0, [1.0, 2.0, 3.0]), Gaussian(1.0, 3)),
        (SquaredExponential(1.0, 0.2), Uniform()),
        (SquaredExponential(1.0, [0.2, 0.4]), Uniform([0, 0], [1, 1])),
        (Matern(0.5), Uniform()),
        (Matern(1.5), Uniform()),
    ],
)
def test_best_truncation_is_the_minimum(observe: Observer, kernel: Matern, inputs: Uniform) -> None:
    law = spectrum(kernel, inputs=inputs)
    M = np.arange(1.0, 250.0)
    log_tails = law.log_tail(np.arange(250))
    brute = [min(log_tails[k] + np.log((m + 1) / (m + 1 - k)) for k in range(int(m) + 1)) for m in M]
    observe.equal("N-thm", log_best_truncation(law, M), np.array(brute), atol=1e-9)


@pytest.mark.claim("R-samp", "R-thm1", "N-thm")
def test_data_aware_bound_averages_below_the_a_priori_one(observe: Observer) -> None:
    """E_X of the exact k-DPP trace is at most the a-priori t* (R-samp), over 60 draws of X."""
    rng = np.random.default_rng(3)
    kernel, N, M = SquaredExponential(1.0, 0.5), 60, np.array([2, 5, 10])
    a_priori = gpbounds.rate(kernel, N, M, 0.5).terms["expected_trace"]
    aware = np.array(
        [
            gpbounds.rate(kernel, N, M, 0.5, inputs=Empirical(rng.standard_normal(N))).terms["expected_trace"]
            for _ in range(60)
        ]
    )
    observe.upper("R-thm1", aware.mean(0) - 5 * aware.std(0) / np.sqrt(60), a_priori)
    log_tails = spectrum(kernel, inputs=Gaussian()).log_tail(np.arange(M.max() + 1))
    tails = [N * mp.exp(mp.mpf(value)) for value in log_tails]
    printed = gpbounds.rate(kernel, N, M, 0.5, form="printed").terms["expected_trace"]
    for at, sharp, loose in zip(M, a_priori, printed, strict=True):  # t_GS, but for what N-pop gains; and (M+1)NΣλ
        observe.upper("R-samp", sharp, trace_bound(tails, int(at)) * (1 + mp.mpf("1e-11")))
        observe.equal("R-samp", loose, (at + 1) * tails[at], rtol=1e-11)


@pytest.mark.claim("R-thm1", "R-dir")
def test_theorem_1_in_the_printed_direction_fails(observe: Observer) -> None:
    """k = 10⁶·11' + I on 10⁹ equally likely atoms, N = 12 (distinct but for 1e-7), M = 1: [p‖q*] breaks the bound."""
    N, noise, alpha, delta, draws = 12, 1e-3, 1e-6, 0.9, 400
    tail = 1 - 1e-9  # Σ_{m>1} λ_m of the operator: λ_1 = 10⁶ + 1e-9, 10⁹ - 1 others of 1e-9 each
    rhs = sum(float(v) for v in one_draw.prior_printed(2 * N * tail, N, noise, alpha, delta).values())
    # Z = {x_0}; the atoms are exchangeable.  Q = qq', Ξ = B + qq'; all inverses by Sherman and Morrison: 10⁶ cancels.
    big, ones = 1e6, np.ones(N)
    q = np.r_[big + 1, np.full(N - 1, big)] / np.sqrt(big + 1)
    R = np.eye(N) + big / (big + 1)
    R[0] = R[:, 0] = 0.0
    B_q = np.linalg.solve(noise * np.eye(N) + (1 - alpha) * R, q)
    cov_q = R + np.outer(q, q) / (1 + q @ B_q)
    inner = np.eye(N) - big / (1 + noise + N * big) * np.outer(ones, ones)  # (1 + σ²) K_n⁻¹
    cov_p = noise * (np.eye(N) - noise / (1 + noise) * inner)
    rng = np.random.default_rng(11)
    forward, backward = [], []
    for _ in range(draws):
        y = np.sqrt(big) * rng.standard_normal() + np.sqrt(1 + noise) * rng.standard_normal(N)
        mean_q, mean_p = q * (B_q @ y) / (1 + q @ B_q), y - noise / (1 + noise) * (inner @ y)
        forward.append(gaussian_renyi(mean_q, cov_q, mean_p, cov_p, alpha))
        backward.append(gaussian_renyi(mean_p, cov_p, mean_q, cov_q, alpha))
    observe.frequency("R-thm1", int((np.array(forward) > rhs).sum()), draws, delta)
    held = (np.array(backward) <= rhs).mean()
    observe.fails(
        "R-dir", held >= 1 - delta - 0.02, "Theorem 1 printed for [p‖q]: holds in 2 % of draws, promised 10 %"
    )
    observe.fails("R-thm1", held >= 1 - delta - 0.02, "printed for [p‖q]: holds in 2 % of draws, promised 10 %")
