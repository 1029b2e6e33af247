"""Section E of the Rényi ledger: the gap D_α(y) = log p(y) − L_α."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import det, eye, log, mp, mpf, sqrt
from observer import Observer
from renyi_instances import ORDERS, SEEDS, Instance, data, instance, snap

from gpbounds.divergences import gaussian_renyi
from gpbounds.reference import divergences, renyi
from gpbounds.reference.linalg import log_det, solve, trace
from gpbounds.renyi import (
    direction_factor,
    evidence,
    exact_gap,
    expected_gap,
    expected_gap_bounds,
    gap,
    gap_from_trace,
    gap_variance,
)
from gpbounds.renyi.gap_bounds import trace_floor

TINY = mpf("1e-30")
HALF = mpf(1) / 2


def one_point(y: Any) -> Instance:
    """N = 1, K = 10, Q = 0, σ² = 1: the ledger's counterexample."""
    zero, unit = mp.zeros(1), mp.ones(1)
    return Instance(10 * unit, zero, unit, mpf(y) * unit, mpf(1))


# --- the exact gap --------------------------------------------------------------------------------------------------


@pytest.mark.claim("R-gap", "N-G", "R-id")
@given(seed=SEEDS, alpha=ORDERS)
def test_gap_formula(observe: Observer, seed: int, alpha: Any) -> None:
    """L_det − ½log|I + αΞ⁻¹Δ| + ½y'(Ξ⁻¹ − K_n⁻¹)y is log p − L_α, is the divergence, and is ≥ D_α(0) ≥ Σ G(d_i)."""
    case = instance(seed)
    truth = renyi.exact_gap(*case.all, alpha)
    inverse = case.xi(alpha) ** -1
    at_zero = renyi.log_det_term(*case.prior, case.noise, alpha)
    at_zero -= log_det(eye(case.N) + alpha * inverse * case.residual) / 2
    targets = (case.y.T * (inverse - case.exact**-1) * case.y)[0] / 2
    size = 1 + abs(renyi.log_evidence(case.Kff, case.y, case.noise))
    observe.equal("R-gap", at_zero + targets, truth, atol=TINY * size)
    observe.lower("N-G", at_zero, sum(renyi.G(d, alpha) for d in case.d), tol=1e-35)
    observe.lower("R-gap", at_zero + targets, at_zero, tol=1e-35)
    apart = instance(seed, "apart")
    definition = renyi.gap_by_definition(*apart.all, alpha)
    size = 1 + abs(renyi.log_evidence(apart.Kff, apart.y, apart.noise))
    observe.equal("R-id", definition, renyi.exact_gap(*apart.all, alpha), atol=mpf("1e-25") * size)


@pytest.mark.claim("R-gap", "N-G")
@given(seed=SEEDS, alpha=ORDERS)
def test_gap_floor_is_attained(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed, "disjoint")
    at_zero = renyi.exact_gap(*case.prior, 0 * case.y, case.noise, alpha)
    observe.equal("N-G", sum(renyi.G(d, alpha) for d in case.d), at_zero, rtol=TINY, atol=mpf("1e-40"))


@pytest.mark.claim("R-gap", "R-id")
@given(seed=SEEDS, alpha=ORDERS)
def test_gap_in_double_precision(observe: Observer, seed: int, alpha: Any) -> None:
    """Relative accuracy for all orders, limits included: the gap is not computed as a difference of two evidences."""
    case = data(seed)
    exact = case.exact
    tail = 0.9 * float(exact.noise / max(renyi.spectrum(exact.residual)[0], mpf("1e-9")))
    for order in (float(alpha), -2.0, -1e-9, 1e-9, 1.0 - 1e-9, 1.0, 1.0 + min(tail, 1.0)):
        truth = renyi.exact_gap(*exact.all, mpf(order))
        floor = 1e-12 * float(abs(order) * (1 + trace(exact.Kff) / exact.noise))
        observe.equal("R-gap", exact_gap(*case.problem, order, noise=case.noise), truth, rtol=1e-7, atol=floor)
        observe.holds("R-id", np.sign(order) * exact_gap(*case.problem, order, noise=case.noise) >= -floor)


@pytest.mark.claim("R-id")
def test_no_gap_without_residual(observe: Observer) -> None:
    case = data(11)
    for alpha in (0.5, 1.0):
        observe.equal("R-id", exact_gap(case.kernel, case.X, case.y, case.X, alpha, noise=case.noise), 0.0)
    observe.equal("R-id", exact_gap(*case.problem, 0.0, noise=case.noise), 0.0)


# --- the mean gap ---------------------------------------------------------------------------------------------------


@pytest.mark.claim("R-lem2", "N-F", "N-Fhat", "N-W", "N-conc", "R-lem2-1")
@given(seed=SEEDS, alpha=ORDERS)
def test_mean_gap(observe: Observer, seed: int, alpha: Any) -> None:
    """The exact mean and its bounds: L_det below; printed, W, spectrum, trace and concavity forms above."""
    case = instance(seed)
    d, T, n = case.d, case.T / case.noise, case.N
    for order in (alpha, mpf(1)):
        mean = snap(renyi.expected_gap(*case.prior, case.noise, order))
        ratio = case.xi(order) ** -1 * case.exact
        log_dets = renyi.log_det_term(*case.prior, case.noise, order)
        exact = log_dets + (trace(ratio) - n - log_det(ratio)) / 2
        observe.equal("R-lem2", exact, mean, rtol=TINY, atol=TINY)
        observe.lower("R-lem2", mean, log_dets, tol=1e-35)
        observe.upper("R-lem2", mean, log_dets + order * T / 2, tol=1e-35)
        w = order * trace(case.xi(order) ** -1 * case.residual)
        observe.upper("N-W", mean, log_dets + (w - log(1 + w)) / 2, tol=1e-35)
        spectral = sum(renyi.F(x, order) for x in d)
        observe.upper("N-F", mean, spectral, tol=1e-35)
        by_trace = n * renyi.F_hat(T / n, order)
        observe.upper("N-Fhat", spectral, by_trace, tol=1e-30)
        observe.upper("R-lem2", by_trace, n * order / 2 * renyi.scaled_log(T / n, 1 - order) + order * T / 2, tol=1e-30)
        observe.upper("N-conc", mean, order * (T - sum(log(1 + x) for x in d) / 2), tol=1e-35)
    observe.lower("R-lem2-1", mean, T / 2, tol=1e-35)
    observe.upper("R-lem2-1", mean, T - sum(log(1 + x) for x in d) / 2, tol=1e-35)
    observe.upper("R-lem2-1", mean, T, tol=1e-35)


@pytest.mark.claim("R-lem2", "N-F")
@given(seed=SEEDS, alpha=ORDERS)
def test_spectral_form_is_attained(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed, "disjoint")
    mean = renyi.expected_gap(*case.prior, case.noise, alpha)
    observe.equal("N-F", sum(renyi.F(d, alpha) for d in case.d), mean, rtol=TINY, atol=mpf("1e-40"))


@pytest.mark.claim("R-lem2", "N-F", "N-Fhat", "N-W")
@given(seed=SEEDS, alpha=ORDERS)
def test_mean_gap_in_double_precision(observe: Observer, seed: int, alpha: Any) -> None:
    case = data(seed)
    exact = case.exact
    for order in (float(alpha), 1e-9, 1.0):
        truth = snap(renyi.expected_gap(*exact.prior, exact.noise, mpf(order)))
        floor = 1e-12 * order * float(1 + trace(exact.Kff) / exact.noise)
        observe.equal("R-lem2", expected_gap(*case.inputs, order, noise=case.noise), truth, rtol=1e-7, atol=floor)
        spread = snap(renyi.gap_variance(*exact.prior, exact.noise, mpf(order)))
        observe.equal(
            "R-lem2", gap_variance(*case.inputs, order, noise=case.noise), spread, rtol=1e-7, atol=floor * order
        )
        for form in ("sharpest", "printed"):
            lower, upper = expected_gap_bounds(*case.inputs, order, noise=case.noise, form=form)
            observe.lower("R-lem2", truth + floor, float(lower))
            observe.upper("R-lem2", truth, float(upper) + floor)
        terms = list(expected_gap_bounds(*case.inputs, order, noise=case.noise)[1].terms.values())
        for claim, term in zip(("N-F", "N-W", "N-Fhat"), terms, strict=False):
            observe.upper(claim, truth, term + floor)


@pytest.mark.claim("R-lem2")
@given(seed=SEEDS, alpha=ORDERS)
def test_variance_and_second_moments(observe: Observer, seed: int, alpha: Any) -> None:
    """Var_y D = ½Tr[(Ξ⁻¹K_n − I)²]; E D for any law of y with second moment S, here √N times the columns of S^½."""
    case = instance(seed)
    ratio = case.xi(alpha) ** -1 * case.exact - eye(case.N)
    spread = snap(renyi.gap_variance(*case.prior, case.noise, alpha))
    observe.equal("R-lem2", trace(ratio * ratio) / 2, spread, rtol=TINY, atol=TINY)
    factor = renyi.matrix(np.random.default_rng(seed).standard_normal((case.N, case.N)))
    columns = [sqrt(mpf(case.N)) * factor[:, i] for i in range(case.N)]
    mean = sum(renyi.exact_gap(*case.prior, y, case.noise, alpha) for y in columns) / case.N
    exact = snap(renyi.expected_gap(*case.prior, case.noise, alpha, factor * factor.T))
    observe.equal("R-lem2", mean, exact, rtol=mpf("1e-25"), atol=mpf("1e-25"))


@pytest.mark.claim("R-lem2")
def test_lemma_2_needs_targets_from_the_prior(observe: Observer) -> None:
    log_dets = renyi.log_det_term(*one_point(0).prior, mpf(1), HALF)
    low, high = (renyi.exact_gap(*one_point(y).all, HALF) for y in (0, 20))
    observe.equal("R-lem2", [low, high, log_dets], [mpf("0.593"), mpf("15.74"), mpf("0.896")], atol=0.005)
    observe.fails("R-lem2", low >= log_dets, "y = 0: D = .593 < .896; y ~ N(0, K_n) is needed")
    observe.fails("R-lem2", high <= log_dets + HALF * 10 / 2, "y = 20: D = 15.7 > 3.40; y ~ N(0, K_n) is needed")


@pytest.mark.claim("R-amgm")
@given(seed=SEEDS, alpha=ORDERS)
def test_log_determinant_by_the_trace(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed, "subset")
    N, n, d = case.N, case.N - case.Kuu.rows, case.T / case.noise
    value = renyi.log_det_term(*case.prior, case.noise, alpha)
    beta, ratio = 1 - alpha, max(case.d)
    printed = alpha * N / (2 * beta) * log(1 + beta * d / N)
    sharper = renyi.trace_term(case.T, n, case.noise, alpha)
    observe.upper("R-amgm", value, sharper, tol=1e-35)
    observe.upper("R-amgm", sharper, printed, tol=1e-35)
    observe.lower("R-amgm", value, alpha / (2 * beta) * log(1 + beta * d), tol=1e-35)
    observe.lower("R-amgm", value, alpha * d / (2 * beta * ratio) * log(1 + beta * ratio), tol=1e-35)
    reverse = renyi.log_det_term(*case.prior, case.noise, -alpha)
    observe.lower("R-amgm", reverse, renyi.trace_term(case.T, n, case.noise, -alpha), tol=1e-35)


# --- any y ----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("R-lem4", "N-psi", "R-lem4e")
@given(seed=SEEDS, alpha=ORDERS)
def test_lemma_4(observe: Observer, seed: int, alpha: Any) -> None:
    """The printed bound, the factor ½ of its proof, λ for T, the sharper bound, and the operator norm used there."""
    case = instance(seed)
    s2, T, top = case.noise, case.T, max(case.d) * case.noise
    truth = snap(renyi.exact_gap(*case.all, alpha))
    log_dets = renyi.log_det_term(*case.prior, s2, alpha)
    square = (case.y.T * case.y)[0]
    tol = 1e-30 * float(1 + square / s2)
    printed = log_dets + square * alpha * T / (s2**2 + alpha * s2 * T)
    proved = log_dets + square * alpha * top / (s2**2 + alpha * s2 * top) / 2
    observe.upper("R-lem4", truth, printed, tol=tol)
    observe.upper("R-lem4", truth, proved, tol=tol)
    weight = (case.y.T * solve(case.exact - case.residual, case.y))[0]
    less = log(1 + alpha * trace(case.xi(alpha) ** -1 * case.residual)) / 2
    sharper = log_dets - less + weight * renyi.psi(top / s2, alpha) / 2
    cheap = renyi.trace_term(T, case.N, s2, alpha) + weight * renyi.psi(T / s2, alpha) / 2
    observe.upper("N-psi", truth, sharper, tol=tol)
    observe.upper("R-lem4", sharper, min(proved, cheap), tol=tol)
    change = case.xi(alpha) ** -1 - case.exact**-1
    observe.upper("N-psi", snap(max(renyi.spectrum((change + change.T) / 2))), renyi.psi(top / s2, alpha) / s2, tol=tol)
    # R-lem4e: log C_x has the exponent −α/(2(1−α)); the printed 2(1−α) is of the wrong sign
    A = eye(case.N) + (1 - alpha) / s2 * case.residual
    observe.equal("R-lem4e", log(det(A) ** (-alpha / (2 * (1 - alpha)))), -log_dets, rtol=TINY, atol=TINY)
    if s2 / 1000 < T:
        observe.fails("R-lem4e", log(det(A) ** (2 * (1 - alpha))) <= 0, "the exponent is −α/(2(1−α)): C_x ≤ 1")


@pytest.mark.claim("R-lem4", "N-psi")
@pytest.mark.parametrize("ratio", ["1e-300", "1e-3", "0.7", "1.4"])
def test_lemma_4_is_attained(observe: Observer, ratio: str) -> None:
    """Δ of rank one, QΔ = 0, y along Δ, d ≤ 1/√β."""
    alpha, d = HALF, mpf(ratio)
    Kff = mp.diag([mpf(1), d])
    case = Instance(Kff, Kff[:1, :], Kff[:1, :1], mp.matrix([[0], [3]]), mpf(1))
    bound = renyi.log_det_term(*case.prior, mpf(1), alpha) - log(1 + alpha * d / (1 + alpha * d)) / 2
    bound += mpf(9) * renyi.psi(d, alpha) / 2
    observe.equal("R-lem4", bound, renyi.exact_gap(*case.all, alpha), rtol=mpf("1e-40"), atol=mpf("1e-45"))


@pytest.mark.claim("R-lem4", "N-G", "N-psi")
@given(seed=SEEDS, alpha=ORDERS)
def test_bounds_for_any_targets_in_double_precision(observe: Observer, seed: int, alpha: Any) -> None:
    case = data(seed)
    exact = case.exact
    for order in (float(alpha), 1.0):
        truth = renyi.exact_gap(*exact.all, mpf(order))
        lower, upper = gap(*case.problem, order, noise=case.noise)
        tol = 1e-12 * float(1 + trace(exact.Kff) / exact.noise)
        observe.lower("N-G", truth + tol, float(lower))
        observe.upper("N-psi", truth, float(upper) + tol)
        cheap, printed = (
            gap_from_trace(*case.problem, order, noise=case.noise),
            gap(*case.problem, order, noise=case.noise, form="printed")[1],
        )
        observe.upper("R-lem4", float(upper), min(float(cheap), float(printed)) + tol)


@pytest.mark.claim("R-lem4", "N-G", "N-conc", "N-psi")
@given(seed=SEEDS, alpha=ORDERS)
def test_streamed_bounds_in_double_precision(observe: Observer, seed: int, alpha: Any) -> None:
    """All methods, two outputs: the bounds hold for the sum of the gaps."""
    case = data(seed)
    Y = np.stack([case.y, np.random.default_rng(seed).standard_normal(case.y.size)], axis=1)
    exact = case.exact
    for order in (float(alpha), 1.0):
        first, second = (renyi.exact_gap(*exact.prior, renyi.matrix(y), exact.noise, mpf(order)) for y in Y.T)
        tol = 1e-11 * float(1 + trace(exact.Kff) / exact.noise + (Y**2).sum() / exact.noise)
        for method in ("dense", "blocks", "streamed"):
            lower, upper = gap(case.kernel, case.X, Y, case.Z, order, noise=case.noise, method=method)
            if first + second > 1e3 * tol:  # otherwise only rounding would be compared
                observe.lower("N-G", first + second, float(lower), tol=tol)
                observe.upper("N-conc" if upper.claim == "N-conc" else "R-lem4", first + second, float(upper), tol=tol)
            observe.holds("N-G", float(lower) - tol <= first + second <= float(upper) + tol)
        dense = gap(case.kernel, case.X, Y, case.Z, order, noise=case.noise)
        observe.holds("N-G", float(dense[0]) >= lower.terms["trace"] - tol)


@pytest.mark.claim("N-G", "N-floor")
@given(seed=SEEDS, alpha=ORDERS)
def test_floor_from_the_trace(observe: Observer, seed: int, alpha: Any) -> None:
    """A convex minorant of G by Jensen: at or below Σ G(d_i) for any d_i ≥ 0; equal d_i attain it at α = 1."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    d = 10.0 ** rng.uniform(-6, 4, n) * (rng.random(n) < 0.8)
    for order in (float(alpha), 1.0):
        truth = sum(renyi.G(mpf(v), mpf(order)) for v in d)
        floor = trace_floor(float(d.sum()), n, order)
        observe.holds("N-G", truth >= floor - 1e-14 * (1.0 + float(truth)))
        assert floor >= 0.0
    equal = 10.0 ** rng.uniform(-3, 3)
    observe.equal("N-G", trace_floor(n * equal, n, 1.0), n * renyi.G(mpf(equal), mpf(1)), rtol=1e-11)


# --- nothing hides in the slack -------------------------------------------------------------------------------------


def unrounded(bound: Any) -> float:
    """The value of a bound without its allowance for rounding, which it states."""
    allowance = float(bound.terms["rounding"])
    return float(bound) + (allowance if bound.side == "lower" else -allowance)


def summands(observe: Observer, claim: str, bound: Any, expected: dict[str, Any], size: float) -> None:
    """Each of the named ``terms`` equals its formula at 50 digits, however loose the bound is."""
    for name, truth in expected.items():
        observe.equal(claim, bound.terms[name], truth, rtol=1e-7, atol=1e-11 * size)


@pytest.mark.claim("R-lem4", "R-gap", "N-G", "N-psi", "N-floor", "R-amgm")
@given(seed=SEEDS, alpha=ORDERS)
def test_bounds_for_any_targets_are_their_formulas(observe: Observer, seed: int, alpha: Any) -> None:
    """Two outputs, all methods, both forms: every summand, and the bound as their sum."""
    case = data(seed)
    Y = np.stack([case.y, np.random.default_rng(seed).standard_normal(case.y.size)], axis=1)
    exact = case.exact
    s2, d, top = exact.noise, exact.d, max(exact.d)
    T, columns = sum(d), renyi.matrix(Y)
    n = sum(
        1 for x in case.X if not (x == case.Z).all(axis=1).any()
    )  # rows are distinct almost surely: the rank of K − Q
    weight = sum((y.T * solve(exact.exact - exact.residual, y))[0] for y in (columns[:, 0], columns[:, 1]))
    square = sum(v**2 for v in columns)
    size = float(1 + trace(exact.Kff) / s2 + square / s2)
    problem = case.kernel, case.X, Y, case.Z
    for order in (float(alpha), 1.0):
        a = mpf(order)
        log_dets = 2 * renyi.log_det_term(*exact.prior, s2, a)
        less = log(1 + a * trace(exact.xi(a) ** -1 * exact.residual))
        lower, upper = gap(*problem, order, noise=case.noise, method="dense")
        observe.equal("N-G", unrounded(lower), 2 * sum(renyi.G(x, a) for x in d), rtol=1e-7, atol=1e-11 * size)
        targets = weight * renyi.psi(top, a) / 2
        dense = {"log-determinant": log_dets, "determinant of I + αΞ⁻¹Δ": -less, "targets": targets}
        summands(observe, "N-psi", upper, dense, size)
        observe.equal("N-psi", unrounded(upper), sum(dense.values()), rtol=1e-7, atol=1e-11 * size)
        printed = gap(*problem, order, noise=case.noise, form="printed")[1]
        fit = square * a * T / (s2 * (1 + a * T))
        summands(observe, "R-lem4", printed, {"log-determinant": log_dets, "targets": fit}, size)
        observe.equal("R-lem4", unrounded(printed), log_dets + fit, rtol=1e-7, atol=1e-11 * size)
        by_trace = 2 * renyi.trace_term(T * s2, max(n, 1), s2, a)
        floor = 2 * renyi.trace_floor(T, n, a)
        for method, ratio in (("streamed", T), ("blocks", top)):
            lower, upper = gap(*problem, order, noise=case.noise, method=method)
            summands(observe, "N-floor", lower, {"trace": floor}, size)
            summands(observe, "R-amgm", upper, {"trace": by_trace + weight * renyi.psi(ratio, a) / 2}, size)
        cheap, fit = gap_from_trace(*problem, order, noise=case.noise), weight * renyi.psi(T, a) / 2
        summands(observe, "R-lem4", cheap, {"g_n(T)": by_trace, "targets": fit}, size)
        observe.equal("R-lem4", unrounded(cheap), by_trace + fit, rtol=1e-7, atol=1e-11 * size)


@pytest.mark.claim("R-lem2", "R-lem2-1", "N-F", "N-Fhat", "N-W", "N-conc")
@example(seed=2741134208, alpha=mpf(0.015625))  # inducing points .002 apart
@given(seed=SEEDS, alpha=ORDERS)
def test_bounds_on_the_mean_gap_are_their_formulas(observe: Observer, seed: int, alpha: Any) -> None:
    case = data(seed)
    exact = case.exact
    d, s2 = exact.d, exact.noise
    n = max(sum(1 for x in case.X if not (x == case.Z).all(axis=1).any()), 1)
    size = float(1 + trace(exact.Kff) / s2)
    for order in (float(alpha), 1.0):
        a = mpf(order)
        log_dets = renyi.log_det_term(*exact.prior, s2, a)
        w = a * trace(exact.xi(a) ** -1 * exact.residual)
        expected = {
            "spectrum: Σ F(d_i)": sum(renyi.F(x, a) for x in d),
            "W: L_det + ½[W − log(1 + W)]": log_dets + (w - log(1 + w)) / 2,
            "trace: n F̂(T/(nσ²))": n * renyi.F_hat(sum(d) / n, a),
            "concavity: α(T/σ² − ½ Σ log(1 + d_i))": a * (sum(d) - sum(log(1 + x) for x in d) / 2),
        }
        lower, upper = expected_gap_bounds(*case.inputs, order, noise=case.noise)
        summands(observe, "R-lem2", upper, expected, size)
        observe.equal("R-lem2", unrounded(upper), min(expected.values()), rtol=1e-7, atol=1e-11 * size)
        observe.equal("R-lem2", unrounded(lower), log_dets, rtol=1e-7, atol=1e-11 * size)
        printed = expected_gap_bounds(*case.inputs, order, noise=case.noise, form="printed")[1]
        summands(observe, "R-lem2", printed, {"log-determinant": log_dets, "trace": a * sum(d) / 2}, size)
        observe.equal("R-lem2", unrounded(printed), log_dets + a * sum(d) / 2, rtol=1e-7, atol=1e-11 * size)
    # α = 1
    truth = renyi.expected_gap(*exact.prior, s2, mpf(1))
    observe.equal(
        "R-lem2-1", [unrounded(lower), unrounded(printed)], [sum(d) / 2, sum(d)], rtol=1e-7, atol=1e-11 * size
    )
    observe.lower("R-lem2-1", truth, float(lower), tol=1e-11 * size)
    observe.upper("R-lem2-1", truth, [float(upper), float(printed)], tol=1e-11 * size)


@pytest.mark.claim("N-floor")
@given(t=st.floats(-6, 6), n=st.integers(1, 50), alpha=ORDERS)
def test_floor_is_the_steepest_line_that_serves(observe: Observer, t: float, n: int, alpha: Any) -> None:
    ratio = 10.0**t
    for order in (float(alpha), 1.0):
        truth = renyi.trace_floor(mpf(ratio), n, mpf(order))
        observe.equal("N-floor", trace_floor(ratio, n, order), truth, rtol=1e-10, atol=1e-18)


@pytest.mark.claim("R-gap", "N-conc")
@given(seed=SEEDS, alpha=ORDERS)
def test_a_difference_of_evidences_is_moved_out_by_its_rounding(observe: Observer, seed: int, alpha: Any) -> None:
    """The members less L_VI, without the determinant that both have; and the ends lie outside by what is charged."""
    case = data(seed)
    low, high = evidence(*case.problem, noise=case.noise, jitter=0.0, members="cheap")
    allowance, variational = mpf(low.terms["rounding"] + high.terms["rounding"]), mpf(low.terms["elbo 1"])
    observe.holds("R-gap", allowance > 0)
    ulps = 4 * mpf(2) ** -53 * (abs(variational) + abs(float(low)) + abs(float(high)))  # of the subtractions themselves
    for order in (float(alpha), 1.0):
        lower, upper = gap(*case.problem, order, noise=case.noise, method="streamed", jitter=0.0)
        above = max(v for name, v in low.terms.items() if name in ("elbo 1", "determinant", "diagonal")) - variational
        below = min(v for name, v in high.terms.items() if name in ("trace", "determinant", "weighted")) - variational
        if order == 1.0:
            observe.equal("R-gap", lower.terms["evidence"], above, atol=ulps + allowance)
        observe.equal("N-conc", upper.terms["evidence"], mpf(order) * below, atol=ulps + allowance)
        least = min(mpf(upper.terms[name]) for name in ("trace", "evidence"))
        observe.holds("N-conc", mpf(float(upper)) >= least - allowance)
        observe.holds("N-conc", upper.terms["rounding"] > 0 or (float(upper) == 0 and upper.terms["n"] == 0))  # K = Q


@pytest.mark.claim("R-lem4d")
@given(seed=SEEDS, alpha=ORDERS)
def test_trace_gives_the_weaker_upper_bound(observe: Observer, seed: int, alpha: Any) -> None:
    """(Ξ + αT)⁻¹ ⪯ (Ξ + αλ)⁻¹, so L_upper(T) ≥ L'_upper(λ): the printed direction is reversed."""
    case = instance(seed, "apart")
    xi, top = case.xi(alpha), max(case.d) * case.noise
    by = [(case.y.T * solve(xi + alpha * v * eye(case.N), case.y))[0] / -2 for v in (case.T, top)]
    observe.lower("R-lem4d", by[0], by[1], tol=1e-40)
    observe.fails("R-lem4d", by[0] <= by[1], "L_upper(T) ≥ L'_upper(λ) since T ≥ λ")


# --- the other direction --------------------------------------------------------------------------------------------


@pytest.mark.claim("R-dir", "N-dir")
@given(seed=SEEDS, alpha=ORDERS)
def test_direction(observe: Observer, seed: int, alpha: Any) -> None:
    """D_α[p‖q] = (α/(1−α)) D_(1−α)[q‖p], within the factor of D_α[q‖p] both ways."""
    case = instance(seed, "apart")
    q_mean, q_cov, p_mean, p_cov = renyi.joint_laws(*renyi.inducing_posterior(*case.all, alpha), *case.all)
    forth = divergences.gaussian_renyi(q_mean, q_cov, p_mean, p_cov, alpha)
    back = divergences.gaussian_renyi(p_mean, p_cov, q_mean, q_cov, alpha)
    mirrored = divergences.gaussian_renyi(q_mean, q_cov, p_mean, p_cov, 1 - alpha)
    observe.equal("R-dir", alpha / (1 - alpha) * mirrored, back, rtol=mpf("1e-20"), atol=mpf("1e-30"))
    factor = renyi.direction_factor(alpha)
    observe.equal("N-dir", direction_factor(float(alpha)), factor, rtol=1e-12)
    observe.upper("N-dir", back, factor * forth, tol=1e-30)
    observe.lower("N-dir", back, forth / factor, tol=1e-30)


@pytest.mark.claim("R-dir", "N-dir")
def test_printed_direction_fails(observe: Observer) -> None:
    """N = 1, K = 10, Q = 0, σ² = 1, α = .01, y = 0: q*(f) = N(0, 10), p(f|y) = N(0, 10/11)."""
    alpha = 0.01
    back = gaussian_renyi(0.0, 10.0 / 11.0, 0.0, 10.0, alpha)
    log_dets = float(renyi.log_det_term(*one_point(0).prior, mpf(1), mpf(alpha)))
    observe.equal("R-dir", [back, log_dets], [0.0360, 0.0121], atol=5e-5)
    observe.fails("R-dir", back <= log_dets, "Lemma 4 bounds D[q*‖p]: D[p‖q*] = .0360 > .0121")
    grid = np.linspace(-60, 60, 4001)  # y = √11·z: the mean over the prior, D[p‖q*] being quadratic in y
    weights = np.exp(-(grid**2) / 22.0)
    values = [gaussian_renyi(10.0 * y / 11.0, 10.0 / 11.0, 0.0, 10.0, alpha) for y in (0.0, 1.0)]
    mean = float(((values[0] + (values[1] - values[0]) * grid**2) * weights).sum() / weights.sum())
    observe.fails("R-dir", mean <= log_dets + alpha * 10 / 2, "Lemma 2: E D[p‖q*] = .0815 > .0621")
    forth = gaussian_renyi(0.0, 10.0, 0.0, 10.0 / 11.0, alpha)
    observe.upper("N-dir", back, direction_factor(alpha) * forth)
    half = gaussian_renyi(0.0, 2.0, 1.0, 1.0, 0.5), gaussian_renyi(1.0, 1.0, 0.0, 2.0, 0.5)
    observe.equal("N-dir", half[0], half[1], rtol=1e-14)
