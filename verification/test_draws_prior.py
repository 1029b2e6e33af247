"""The best of several k-DPP draws, y from the prior or adversarial, on instances where every subset is looked at."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from draw_instances import Subsets, subsets
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.bound import Bound
from gpbounds.kdpp.residual import expected_residual
from gpbounds.numerics import gaussian_forms
from gpbounds.rates.draws.norm import (
    adversary,
    determinant_quantile,
    least_subset_trace,
    least_trace,
    subset_gap,
    trace_quantile,
    trace_variance,
)
from gpbounds.rates.draws.prior import (
    SHARES,
    _large_parts,
    _largest_scale,
    joint_mean,
    one_draw,
    prior_large,
    prior_moments,
)
from gpbounds.rates.draws.sentences import of_order, share
from gpbounds.rates.draws.statement import least_prior
from gpbounds.rates.draws.tilted import tilted_given, tilted_means, tilted_prior
from gpbounds.reference import kdpp as exact
from gpbounds.reference import rates as reference

ORDERS = st.sampled_from([1.0, 0.999, 0.7, 0.5, 0.1])
SEEDS = st.integers(0, 10**9)
SPECTRA = st.lists(st.floats(-4.0, 2.0).map(lambda v: 10.0**v), min_size=5, max_size=9)
DRAWS = st.sampled_from([1, 2, 3, 10])


def instance(seed: int) -> tuple[Subsets, np.random.Generator, int]:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(4, 10))
    M = int(rng.integers(1, min(N - 1, 4) + 1))
    cell = subsets(rng, N, M)
    rank = int((cell.values > 0).sum())
    return cell, rng, min(M, rank)


@pytest.mark.claim("N-alpha")
@given(seed=SEEDS, alpha=st.sampled_from([0.999, 0.7, 0.5, 0.1, 1e-3]))
def test_gap_is_at_most_alpha_times_that_of_order_one(observe: Observer, seed: int, alpha: float) -> None:
    cell, rng, _ = instance(seed)
    low, low_form = cell.gap(alpha)
    offset, form = cell.gap(1.0)
    for y in (np.zeros(len(cell.K)), *rng.standard_normal((3, len(cell.K)))):
        below = low + 0.5 * np.einsum("i,sij,j->s", y, low_form, y)
        whole = Bound(offset + 0.5 * np.einsum("i,sij,j->s", y, form, y), "upper", 1.0, "N-alpha")
        above = np.asarray(of_order(whole, alpha))
        observe.upper("N-alpha", below, above, tol=1e-9 * (1 + above.max()))


@pytest.mark.claim("N-tilt")
@given(seed=SEEDS, alpha=ORDERS)
def test_tilted_means_are_exact_and_above_the_gap(observe: Observer, seed: int, alpha: float) -> None:
    """E~ of yᵀ(Q_n⁻¹ − K_n⁻¹)y, Tr Q_n⁻¹(K − Q) and Tr (Q_n⁻¹ − K_n⁻¹)KK_n/σ², and 2D_α ≤ α times first plus last."""
    cell, rng, M = instance(seed)
    means = tilted_means(expected_residual(cell.values, M, noise=cell.noise))
    noisy = cell.K + cell.noise * np.eye(len(cell.K))
    apart = np.linalg.inv(noisy - cell.residuals) - np.linalg.inv(noisy)
    y = rng.standard_normal(len(cell.K))
    quadratic = np.einsum("i,sij,j->s", y, apart, y)
    determinant = np.einsum("sij,ji->s", apart, cell.K @ noisy) / cell.noise
    first = np.einsum("sij,sji->s", np.linalg.inv(noisy - cell.residuals), cell.residuals)
    near = {"rtol": 1e-5, "atol": 1e-9}
    observe.equal("N-tilt", cell.tilted @ quadratic, means.quadratic((cell.vectors.T @ y) ** 2), **near)
    observe.equal("N-tilt", cell.tilted @ determinant, means.determinant, **near)
    observe.equal("N-tilt", cell.tilted @ first, means.theta.sum(), **near)
    offset, form = cell.gap(alpha)
    twice = 2.0 * offset + np.einsum("i,sij,j->s", y, form, y)
    above = alpha * (quadratic + determinant)
    observe.upper("N-tilt", twice, above, tol=1e-9 * (1 + above.max()))


@pytest.mark.claim("N-tilt-given")
@given(seed=SEEDS, alpha=ORDERS, R=DRAWS, delta=st.sampled_from([0.05, 0.3]), P=st.sampled_from([1, 3]))
def test_best_of_several_tilted_draws_for_given_outputs(
    observe: Observer, seed: int, alpha: float, R: int, delta: float, P: int
) -> None:
    """The probability that the best of R has a larger gap, exactly; several outputs share Z and their gaps add up."""
    cell, rng, M = instance(seed)
    offset, form = cell.gap(alpha)
    y = rng.standard_normal((P, len(cell.K))) * 10.0 ** rng.uniform(-1, 2)
    gaps = P * offset + 0.5 * np.einsum("ki,sij,kj->s", y, form, y)
    residual = expected_residual(cell.values, M, noise=cell.noise)
    squares = ((y @ cell.vectors) ** 2).sum(axis=0)
    B = float(tilted_given(residual, squares, delta=delta, draws=R, alpha=alpha, outputs=P))
    observe.upper("N-tilt-given", cell.tilted[gaps > B + 1e-9 * (1 + B)].sum() ** R, delta, tol=1e-9)
    order = np.argsort(gaps)
    above = np.cumsum(cell.tilted[order][::-1])[::-1] ** R
    observe.upper("N-tilt-given", gaps[order][above > delta].max(), B, tol=1e-7 * (1 + B))


@pytest.mark.claim("N-prior", "N-prior2", "N-one", "N-tilt-prior", "N-alpha")
@given(seed=SEEDS, alpha=ORDERS, R=DRAWS, delta=st.sampled_from([0.05, 0.3]))
def test_best_of_several_for_y_from_the_prior(observe: Observer, seed: int, alpha: float, R: int, delta: float) -> None:
    """The probability over the draws exactly, its R-th power averaged over 300 draws of y."""
    cell, rng, M = instance(seed)
    residual = expected_residual(cell.values, M, noise=cell.noise)
    offset, form = cell.gap(alpha)
    noisy = cell.K + cell.noise * np.eye(len(cell.K))
    y = rng.standard_normal((300, len(cell.K))) @ np.linalg.cholesky(noisy).T
    gaps = offset + 0.5 * np.einsum("ki,sij,kj->ks", y, form, y)
    for claim, law, bound in (
        ("N-prior", cell.kdpp, prior_moments),
        ("N-prior2", cell.kdpp, prior_large),
        ("N-one", cell.kdpp, one_draw),
        ("N-tilt-prior", cell.tilted, tilted_prior),
        ("N-alpha", cell.kdpp, least_prior),
    ):
        B = float(bound(residual, delta=delta, draws=R, alpha=alpha))
        failing = (((gaps > B + 1e-9) @ law) ** R).sum()
        observe.frequency(claim, int(failing), len(y), delta)
        if np.isfinite(B) and B > 1e-6:
            order = np.argsort(gaps, axis=1)
            above = 1.0 - np.cumsum(law[order], axis=1) + law[order]  # P(D ≥ this one)
            best = np.where(above**R > delta, np.take_along_axis(gaps, order, axis=1), 0.0).max(axis=1)
            observe.upper(claim, np.median(best), B, tol=1e-9)


@pytest.mark.claim("N-one")
@given(seed=SEEDS, alpha=ORDERS)
def test_joint_mean_over_y_and_the_draw(observe: Observer, seed: int, alpha: float) -> None:
    cell, _, M = instance(seed)
    offset, form = cell.gap(alpha)
    noisy = cell.K + cell.noise * np.eye(len(cell.K))
    mean = cell.kdpp @ (offset + 0.5 * np.einsum("sij,ji->s", form, noisy))
    bound = joint_mean(expected_residual(cell.values, M, noise=cell.noise), alpha)
    observe.upper("N-one", mean, bound, tol=1e-9 * (1 + bound))
    if alpha == 1.0 and np.count_nonzero(cell.K - np.diag(np.diag(cell.K))) == 0:
        observe.equal("N-one", mean, bound, rtol=1e-6, atol=1e-9)


@pytest.mark.claim("N-order", "N-vart", "N-ldet")
@given(seed=SEEDS, p=st.sampled_from([0.02, 0.05, 0.3, 0.74, 0.95]), alpha=st.sampled_from([0.9, 0.5, 0.1]))
def test_traces_and_determinants_of_one_draw(observe: Observer, seed: int, p: float, alpha: float) -> None:
    cell, _, M = instance(seed)
    residual = expected_residual(cell.values, M)
    traces = np.einsum("sii->s", cell.residuals)
    near = 1e-7 * (1 + traces.max())
    quantile = float(trace_quantile(residual, level=p))
    observe.upper("N-order", cell.kdpp[traces > quantile + near].sum(), p, tol=1e-9)
    observe.upper("N-order", quantile, residual.trace / p, tol=1e-10 * residual.trace / p)
    variance = trace_variance(residual)
    observe.upper("N-vart", cell.kdpp @ (traces - residual.trace) ** 2, float(variance), tol=1e-6 * traces.max() ** 2)
    # the exact identity behind the first form
    second = cell.kdpp @ np.einsum("sij,sji->s", cell.residuals, cell.residuals)
    mean_square = variance.terms["second moment"] - float((cell.values * residual.rho).sum()) + second
    observe.equal(
        "N-vart", mean_square, cell.kdpp @ (traces - residual.trace) ** 2, atol=1e-5 * (1 + traces.max() ** 2)
    )
    level = float(determinant_quantile(cell.values, M, noise=cell.noise, alpha=alpha, level=p))
    beta = 1.0 - alpha
    left = np.linalg.slogdet(np.eye(len(cell.K)) + beta / cell.noise * cell.residuals)[1] * alpha / (2 * beta)
    observe.upper("N-ldet", cell.kdpp[left > level + 1e-7 * (1 + abs(left).max())].sum(), p, tol=1e-9)


@pytest.mark.claim("N-order")
@given(seed=SEEDS, a=st.floats(0.0, 2.0), weighted=st.booleans())
def test_convex_functions_of_linear_traces(observe: Observer, seed: int, a: float, weighted: bool) -> None:
    """E φ(Σ c_i Π_ii) ≤ E φ(Σ_{i∉J} c_i), P(J) ∝ Π_J λ_i, for φ(t) = (t − a·mean)₊, t² and e^t."""
    cell, rng, M = instance(seed)
    c = rng.uniform(0.0, 2.0, cell.values.size) if weighted else np.minimum(cell.values, 5.0)
    positive = cell.values > 0
    inverse = np.where(positive, 1.0 / np.where(positive, cell.values, 1.0), 0.0)
    turned = np.einsum("ji,sjk,ki->si", cell.vectors, cell.residuals, cell.vectors)
    missed = np.where(positive, turned * inverse, 1.0)
    linear = missed @ c
    sets = list(itertools.combinations(np.flatnonzero(positive), M))
    weights = np.array([np.prod(cell.values[list(J)]) for J in sets])
    weights = weights / weights.sum()
    split = np.array([c.sum() - c[list(J)].sum() for J in sets])
    mean = weights @ split
    for phi in (lambda t: np.maximum(t - a * mean, 0.0), lambda t: t * t, lambda t: np.exp(t - mean)):
        bound = weights @ phi(split)
        observe.upper("N-order", cell.kdpp @ phi(linear), bound, tol=1e-5 * (1 + bound))


@pytest.mark.claim("N-least", "N-adv")
@given(seed=SEEDS, alpha=ORDERS, R=DRAWS, delta=st.sampled_from([0.05, 0.3]), norm=st.sampled_from([0.0, 1.0, 100.0]))
def test_draw_of_least_trace(observe: Observer, seed: int, alpha: float, R: int, delta: float, norm: float) -> None:
    """The law of the subset kept is known exactly: P(kept is at least as bad) = P(one draw is)^R."""
    cell, rng, M = instance(seed)
    residual = expected_residual(cell.values, M, noise=cell.noise)
    offset, form = cell.gap(alpha)
    traces = np.einsum("sii->s", cell.residuals)
    order = np.argsort(traces)
    above = np.append(np.cumsum(cell.kdpp[order][::-1])[::-1], 0.0)
    kept = np.maximum(above[:-1] ** R - above[1:] ** R, 0.0)
    worst = offset + 0.5 * norm * np.maximum(np.linalg.eigvalsh(form)[:, -1], 0.0)
    B = float(adversary(residual, norm, delta=delta, draws=R, alpha=alpha))
    near = 1e-7 * (1 + B)
    observe.upper("N-adv", kept[worst[order] > B + near].sum(), delta, tol=1e-9)
    noisy = cell.K + cell.noise * np.eye(len(cell.K))
    y = rng.standard_normal((300, len(cell.K))) @ np.linalg.cholesky(noisy).T
    gaps = offset + 0.5 * np.einsum("ki,sij,kj->ks", y, form, y)
    least = float(least_trace(residual, delta=delta, draws=R, alpha=alpha))
    observe.frequency("N-least", int(((gaps[:, order] > least + near) @ kept).sum()), len(y), delta)


@pytest.mark.claim("N-sub", "N-lowprior")
@given(seed=SEEDS, alpha=ORDERS)
def test_lower_bounds_for_subsets(observe: Observer, seed: int, alpha: float) -> None:
    cell, _, M = instance(seed)
    offset, form = cell.gap(alpha)
    noisy = cell.K + cell.noise * np.eye(len(cell.K))
    means = offset + 0.5 * np.einsum("sij,ji->s", form, noisy)
    traces = np.einsum("sii->s", cell.residuals)
    observe.lower("N-sub", traces, least_subset_trace(cell.K, M), tol=1e-7 * (1 + traces.max()))
    bound = subset_gap(cell.K, M, noise=cell.noise, alpha=alpha)
    observe.lower("N-sub", means, float(bound), tol=1e-9 * (1 + means.max()))
    observe.lower("N-lowprior", means, float(bound), tol=1e-9 * (1 + means.max()))


@pytest.mark.claim("N-sub")
def test_lower_bounds_where_they_are_attained(observe: Observer) -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((7, 7))
    K = A @ A.T + 0.1 * np.eye(7)
    alone = 1.0 / np.diag(np.linalg.inv(K))
    observe.equal("N-sub", least_subset_trace(K, 6), alone.min(), rtol=1e-9)
    observe.equal("N-sub", least_subset_trace(np.diag([4.0, 3.0, 2.0, 1.0]), [1, 2, 3]), [6.0, 3.0, 1.0], rtol=1e-9)
    assert least_subset_trace(np.ones((3, 3)), 1) == 0.0


@pytest.mark.claim("N-least")
def test_a_share_of_the_draws_that_is_exactly_zero_is_passed_over(observe: Observer) -> None:
    """tv = (δ − δ₂)^(1/R) leaves p = 0 for one of the shares; the others still give a bound."""
    residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    tv = share(0.05 * (1.0 - SHARES[1]), 2)
    value = float(least_trace(residual, delta=0.05, draws=2, tv=tv))
    observe.holds("N-least", 0.0 < value < np.inf)


@pytest.mark.claim("N-prior")
@given(SEEDS, st.sampled_from([1.0, 0.7, 0.1]))
def test_the_scale_of_one_draw_is_rounded_down(observe: Observer, seed: int, alpha: float) -> None:
    """R = 1: the norm is c·mean + Ω, and c·mean + Ω ≤ p(1 − αa)/α in rational numbers, without tolerance."""
    rng = np.random.default_rng(seed)
    p, a, form = float(rng.uniform(0.1, 0.9)), rng.uniform(0.0, 0.9, 50), rng.random(8)
    omega, mean = 0.1 * p * rng.random(50), float(form.sum())
    scales = _largest_scale(a, omega, mean, gaussian_forms.power_sums(form, 1), p, alpha, 1)
    for c, at, above in zip(scales, a, omega, strict=True):
        level = Fraction(p) * (1 - Fraction(alpha) * Fraction(float(at))) / Fraction(alpha)
        observe.upper("N-prior", Fraction(float(c)) * Fraction(mean) + Fraction(float(above)), level)


@pytest.mark.claim("N-prior2")
@given(SEEDS, ORDERS)
def test_large_gaps_are_looked_at_up_to_the_greatest_eigenvalue(observe: Observer, seed: int, alpha: float) -> None:
    """From a = 0, where Γ_0 = Σ miss_i x_i/(1 − x_i)·x_i, to the greatest x_i = αh_i, where Γ_a = 0."""
    values = 10.0 ** np.random.default_rng(seed).uniform(-3.0, 2.0, 8)
    residual = expected_residual(values, 3, noise=0.1)
    gaps, large = _large_parts(residual, alpha)
    x = alpha * values / (values + 0.1)
    observe.equal("N-prior2", gaps[[0, -1]], [1.0, 1.0 - x.max()], rtol=1e-9)
    order = np.argsort(residual.eigenvalues)
    first = float((residual.miss[order] * np.sort(x * x / (1.0 - x))).sum())
    observe.equal("N-prior2", large[[0, -1]], [first, 0.0], rtol=1e-8, atol=1e-12 * first)


@pytest.mark.claim("N-prior", "N-prior2", "N-tilt-prior", "N-one", "N-order", "N-vart")
@given(spectrum=SPECTRA, M=st.integers(1, 4), noise=st.floats(0.01, 10.0), alpha=ORDERS, R=DRAWS)
def test_against_thirty_digits(
    observe: Observer, spectrum: list[float], M: int, noise: float, alpha: float, R: int
) -> None:
    residual = expected_residual(spectrum, M, noise=noise)
    delta = 0.05
    setting = {"delta": delta, "draws": R, "alpha": alpha}
    with mp.workdps(30):
        exact = (spectrum, M, mp.mpf(noise), mp.mpf(delta), R, mp.mpf(alpha))
        for claim, fast, slow in (
            ("N-prior", prior_moments(residual, **setting), reference.prior_moments),
            ("N-prior2", prior_large(residual, **setting), reference.prior_large),
        ):
            value = float(fast)
            if value < np.inf:
                at = slow(*exact, mp.mpf(fast.terms["a"]))
                # N-prior is never below its equation; N-prior2 may be, by its form with quantiles
                if claim == "N-prior":
                    observe.upper(claim, at, mp.mpf(value))
                    observe.equal(claim, value, float(at), rtol=2e-4)
                else:
                    assert value <= float(at) * (1 + 1e-10)
                    if R == 1:
                        observe.equal(claim, value, float(at), rtol=1e-10)
            for a in (0, 0.25, 0.5, 0.75):
                assert value <= float(slow(*exact, mp.mpf(a))) * 1.2
        truth = reference.tilted_prior(*exact)
        observe.upper("N-tilt-prior", truth, mp.mpf(float(tilted_prior(residual, **setting))))
        observe.equal("N-tilt-prior", mp.mpf(float(tilted_prior(residual, **setting))), truth, rtol=1.2e-11)
        mean = reference.joint_mean(spectrum, M, noise, alpha)
        observe.equal("N-one", mp.mpf(joint_mean(residual, alpha)), mean, rtol=1e-11)
        for p in (0.05, 0.7):
            quantile = reference.trace_quantile(spectrum, M, p)
            observe.equal("N-order", mp.mpf(float(trace_quantile(residual, level=p))), quantile, rtol=1e-6)
        variance = reference.trace_variance(spectrum, M)
        observe.equal("N-vart", mp.mpf(float(trace_variance(residual))), variance, rtol=1e-6, atol=1e-12)


@pytest.mark.claim("N-vart")
def test_draws_of_the_whole_rank_leave_a_trace_without_variance(observe: Observer) -> None:
    """M = rank K: every draw leaves nothing, and no k-DPP of M + 1 points exists that a mean could be taken of."""
    observe.equal("N-vart", float(trace_variance(expected_residual([3.0, 2.0, 1.0, 0.0], 3))), 0.0)


@pytest.mark.claim("N-least")
@given(spectrum=SPECTRA, R=DRAWS, delta=st.floats(1e-4, 0.5), alpha=ORDERS)
def test_the_two_failures_of_the_least_trace_share_delta(
    observe: Observer, spectrum: list[float], R: int, delta: float, alpha: float
) -> None:
    """All R traces above T: p^R.  Σ w_i z_i² above cs: P(χ²₁ > c).  Together at most δ, and nearly δ."""
    noise = 0.1
    bound = least_trace(expected_residual(spectrum, 2, noise=noise), delta=delta, draws=R, alpha=alpha)
    trace, p, c = (mp.mpf(bound.terms[name]) for name in ("trace", "p", "quantile"))
    failure = p**R + mp.erfc(mp.sqrt(c / 2))
    observe.upper("N-least", failure, delta, tol=1e-12 * delta)
    observe.holds("N-least", failure >= delta * (1 - mp.mpf("1e-12")))
    t = trace / mp.mpf(noise)
    observe.equal("N-least", float(bound), mp.mpf(alpha) / 2 * ((1 + c) * t - mp.log1p(t)), rtol=1e-10)


@pytest.mark.claim("N-ldet")
@given(spectrum=SPECTRA, noise=st.floats(0.01, 10.0), alpha=st.floats(0.05, 0.95), level=st.floats(1e-4, 0.9))
def test_the_quantile_of_the_determinant_is_markov_for_its_exact_mean(
    observe: Observer, spectrum: list[float], noise: float, alpha: float, level: float
) -> None:
    beta = 1 - mp.mpf(alpha)
    log_mean = exact.log_expected_determinant([mp.mpf(v) for v in spectrum], 2, beta / mp.mpf(noise))
    truth = mp.mpf(alpha) / (2 * beta) * (log_mean - mp.log(mp.mpf(level)))
    value = float(determinant_quantile(spectrum, 2, noise=noise, alpha=alpha, level=level))
    observe.upper("N-ldet", truth, value)
    observe.equal("N-ldet", value, truth, rtol=1e-9)


@pytest.mark.claim("N-sub", "N-lowprior")
def test_the_larger_of_two_lower_bounds_is_returned(observe: Observer) -> None:
    """At α < 1 either can be the larger: many equal eigenvalues for any choice, one for the subsets."""
    flat, single = np.eye(6) * 4.0, np.diag([4.0, 4.0, 0.1])
    for K, M, at_least in ((flat, 2, 4.0), (single, 2, 0.0)):
        bound = float(subset_gap(K, M, noise=0.5, alpha=0.5))
        eigenvalues = sorted(np.diag(K))[::-1][M:]
        any_choice = 0.5 * sum(np.log1p(value) for value in eigenvalues)  # β/σ² = 1
        by_trace = 0.5 * np.log1p(float(least_subset_trace(K, M)))
        observe.equal("N-sub", bound, max(any_choice, by_trace), rtol=1e-9)
        assert any_choice >= by_trace + 0.1 * at_least / 4.0 or at_least == 0.0


@pytest.mark.claim("N-prior2")
@given(weight=st.floats(1e-6, 1e6), count=st.integers(1, 12), rest=st.integers(0, 3), level=st.floats(1e-6, 0.9))
def test_the_quantile_of_a_gaussian_form_is_exceeded_as_rarely_as_promised(
    observe: Observer, weight: float, count: int, rest: int, level: float
) -> None:
    """Equal weights: χ² with ``count`` degrees of freedom; weights of 0 change nothing; no other λ gives 0.2 % less."""
    weights = np.concatenate([np.full(count, weight), np.zeros(rest)])
    q = mp.mpf(gaussian_forms.chernoff_quantile(weights, level)) / mp.mpf(weight)
    observe.upper("N-prior2", mp.gammainc(mp.mpf(count) / 2, q / 2, mp.inf, regularized=True), mp.mpf(level))

    def with_slope(t: float) -> float:
        return (-np.log(level) - 0.5 * count * np.log1p(-t)) / (0.5 * t)

    best = min(with_slope(float(t)) for t in np.linspace(0.0, 1.0, 4001)[1:-1])
    observe.holds("N-prior2", q <= mp.mpf(1.002) * mp.mpf(best))
