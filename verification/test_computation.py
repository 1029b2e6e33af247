"""Section B of the Rényi ledger: determinants, inverses and gradients by which L_α is computed, and its solves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import det, exp, eye, log, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, Instance, instance, is_psd

from gpbounds.reference import renyi
from gpbounds.reference.linalg import log_det, solve, trace

HALF, TINY = mpf(1) / 2, mpf("1e-30")


def small_example(noise: int = 1) -> Instance:
    """K = [[2, 1], [1, 2]], Z = {1}."""
    Kff = mp.matrix([[2, 1], [1, 2]])
    return Instance(Kff, Kff[0, :], Kff[0:1, 0:1], mp.matrix([1, -2]), mpf(noise))


def norm(A: Any) -> Any:
    """Frobenius norm."""
    return mp.norm(list(A))


def defined(compute: Callable[[], Any]) -> bool:
    """Whether an expression has a value."""
    try:
        compute()
    except (ZeroDivisionError, ValueError):
        return False
    return True


# --- determinant and inverse ----------------------------------------------------------------------------------------


def printed_matrix(case: Instance, alpha: Any) -> Any:
    """Ξ/σ² + ((1 − 2α)/σ²) Q."""
    return (case.xi(alpha) + (1 - 2 * alpha) * case.Q) / case.noise


def printed_determinants(case: Instance, alpha: Any) -> tuple[Any, Any]:
    """|Kuu/(1 − 2α) + Kuf Ξ⁻¹ Kfu| and |(1 − 2α) Kuu⁻¹|, of which logarithms are printed."""
    c = 1 - 2 * alpha
    return det(case.Kuu / c + case.Kuf * solve(case.xi(alpha), case.Kuf.T)), det(c * case.Kuu**-1)


@pytest.mark.claim("R-appC-mat", "R-appC-det", "R-grad-wood")
@given(seed=SEEDS, alpha=ORDERS)
def test_determinant_and_inverse(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed)
    truth = renyi.scaled_residual(*case.prior, case.noise, alpha)
    size = norm(case.Kff) / case.noise
    observe.equal(
        "R-appC-mat",
        list(renyi.scaled_residual_by_xi(*case.prior, case.noise, alpha)),
        list(truth),
        rtol=TINY,
        atol=TINY * (1 + size),
    )
    excess = printed_matrix(case, alpha) - truth - 2 * (1 - alpha) / case.noise * case.Q
    observe.equal("R-appC-mat", norm(excess), 0, atol=TINY * (1 + size))
    observe.equal(
        "R-appC-det",
        renyi.log_det_by_xi(*case.prior, case.noise, alpha),
        log_det(truth),
        rtol=TINY,
        atol=TINY * (1 + size),
    )
    observe.equal(
        "R-appC-det",
        renyi.elbo_by_determinants(*case.all, alpha),
        renyi.elbo(*case.all, alpha),
        rtol=TINY,
        atol=TINY * (1 + size) / (1 - alpha),
    )
    inverse = renyi.inverse_by_xi(*case.prior, case.noise, alpha)
    observe.equal("R-grad-wood", list(inverse * truth), list(eye(case.N)), atol=TINY * (1 + size) ** 2)


@pytest.mark.claim("R-appC-det")
@given(seed=SEEDS, alpha=ORDERS)
def test_the_small_determinant_is_a_covariance(observe: Observer, seed: int, alpha: Any) -> None:
    """Kuu ⪰ Kuu − Kuf Ξ⁻¹ Kfu = Cov q*(U) ≻ 0: both logarithms exist for every order, log|A| ≥ 0."""
    case = instance(seed)
    cov = renyi.posterior_covariance(*case.prior, case.noise, alpha)
    observe.holds("R-appC-det", is_psd(cov, norm(case.Kuu)) and is_psd(case.Kuu - cov, norm(case.Kuu)))
    observe.lower("R-appC-det", renyi.log_det_by_xi(*case.prior, case.noise, alpha), mpf(0), tol=TINY * 1000)


@pytest.mark.claim("R-appC-det", "R-appC-mat")
def test_determinant_near_the_ends(observe: Observer) -> None:
    """α → 0: log|A| = log|K_n/σ² − Q/σ²|; α → 1: log|A| → 0, where small β loses digits."""
    case = small_example(2)
    for order, digits in ((mpf(0), 48), (mpf("1e-300"), 48), (1 - mpf("1e-10"), 38), (1 - mpf("1e-20"), 28)):
        truth = log_det(renyi.scaled_residual(*case.prior, case.noise, order))
        value = renyi.log_det_by_xi(*case.prior, case.noise, order)
        observe.equal("R-appC-det", value, truth, rtol=mpf(10) ** -digits)
    lost = renyi.log_det_by_xi(*case.prior, case.noise, 1 - mpf("1e-45"))
    observe.holds("R-appC-mat", norm(printed_matrix(case, mpf(1)) - eye(2)) < 1e-45)  # right at α = 1 only
    observe.holds("R-appC-det", abs(lost / (mpf("1e-45") * case.T / case.noise) - 1) > mpf("1e-10"))


@pytest.mark.claim("R-appC-mat", "R-appC-det")
def test_determinant_counterexamples(observe: Observer) -> None:
    case, quarter = small_example(), mpf(1) / 4
    true = det(renyi.scaled_residual(*case.prior, case.noise, quarter))
    printed = det(printed_matrix(case, quarter))
    corrected = det(renyi.scaled_residual_by_xi(*case.prior, case.noise, quarter))
    observe.equal("R-appC-mat", [true, printed, corrected], [mpf("2.125"), mpf("9.25"), mpf("2.125")], rtol=1e-45)
    observe.fails("R-appC-mat", abs(printed - true) < 1, "K=[[2,1],[1,2]], Z={1}, α=.25: 9.25 for 2.125; A = (Ξ−Q)/σ²")

    observe.fails(
        "R-appC-det", defined(lambda: printed_determinants(case, HALF)), "α = ½: Kuu/(1 − 2α) divides by 0; use c = −1"
    )
    three_quarters = printed_determinants(case, 3 * quarter)
    observe.equal("R-appC-det", list(three_quarters), [mpf("-2.59"), mpf("-0.25")], atol=5e-3)
    observe.fails("R-appC-det", min(three_quarters) > 0, "α = .75, M = 1: logarithms of −2.59 and −0.25")
    noisy = small_example(2)
    whole = log_det(printed_matrix(noisy, quarter))  # the lemma itself, for the false matrix, with both readings
    first, second = printed_determinants(noisy, quarter)
    lemma = log(first) + log(second) + log_det(noisy.xi(quarter))
    observe.equal("R-appC-det", lemma - noisy.N * log(noisy.noise), whole, rtol=1e-45)
    observe.fails("R-appC-det", abs(lemma - log(noisy.noise) - whole) < 0.1, "log|1/σ²| must be −N log σ², σ² = 2")


@pytest.mark.claim("R-grad-wood")
def test_woodbury_counterexample(observe: Observer) -> None:
    case, alpha = small_example(2), mpf(1) / 4
    truth = renyi.scaled_residual(*case.prior, case.noise, alpha) ** -1
    left = printed_matrix(case, alpha) ** -1
    inverse = (case.xi(alpha) / case.noise) ** -1

    def right(scale: Any) -> Any:
        inner = case.noise / (1 - 2 * alpha) * case.Kuu + scale * case.Kuf * solve(case.xi(alpha), case.Kuf.T)
        return inverse - inverse * case.Kuf.T * solve(inner, case.Kuf * inverse)

    printed, intended = norm(right(1 / case.noise) - left), norm(right(case.noise) - left)
    observe.equal("R-grad-wood", [printed, norm(left - truth)], [mpf("0.0176"), mpf("0.60")], atol=5e-3)
    observe.equal("R-grad-wood", printed, mpf("0.0176"), atol=5e-5)
    observe.equal("R-grad-wood", intended, 0, atol=1e-45)
    observe.fails("R-grad-wood", printed < 0.01, "σ² = 2: the inner block needs σ²KufΞ⁻¹Kfu, not KufΞ⁻¹Kfu/σ²")
    observe.fails("R-grad-wood", norm(left - truth) < 0.5, "σ² = 2: the matrix inverted is not A")
    corrected = renyi.inverse_by_xi(*case.prior, case.noise, alpha)
    observe.equal("R-grad-wood", list(corrected), list(truth), atol=1e-45)


# --- gradient -------------------------------------------------------------------------------------------------------


def se_blocks(X: Any, Z: Any, scale: Any, variance: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Kff, Kuf, Kuu of the squared exponential kernel, and their derivatives by log ℓ; 50 digits."""

    def pair(A: Any, B: Any) -> tuple[Any, Any]:
        r2 = mp.matrix(len(A), len(B))
        for i, a in enumerate(A):
            for j, b in enumerate(B):
                r2[i, j] = sum((mpf(s) - mpf(t)) ** 2 for s, t in zip(a, b, strict=True)) / scale**2
        K = r2.apply(lambda v: variance * exp(-v / 2))
        return K, mp.matrix([[K[i, j] * r2[i, j] for j in range(K.cols)] for i in range(K.rows)])

    pairs = [pair(X, X), pair(Z, X), pair(Z, Z)]
    return tuple(K for K, _ in pairs), tuple(K_dot for _, K_dot in pairs)


@pytest.mark.claim("R-grad")
@given(seed=SEEDS, alpha=ORDERS)
def test_gradient_in_the_hyperparameters(observe: Observer, seed: int, alpha: Any) -> None:
    """(log ℓ, log v, log σ²), against central differences at 50 digits: h² ≈ 1e-30."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 3))
    X, Z = rng.standard_normal((int(rng.integers(2, 5)), D)), rng.standard_normal((int(rng.integers(1, 3)), D))
    y = renyi.matrix(rng.standard_normal(X.shape[0]))
    at = [mpf(v) for v in (rng.normal(-0.5, 0.4), rng.normal(), rng.normal(-1, 1))]

    def value(theta: list[Any], order: Any) -> Any:
        scale, variance, noise = (exp(t) for t in theta)
        return renyi.elbo(*se_blocks(X, Z, scale, variance)[0], y, noise, order)

    scale, variance, noise = (exp(t) for t in at)
    prior, by_scale = se_blocks(X, Z, scale, variance)
    still = tuple(0 * K for K in prior)
    h = mpf("1e-16")
    for order in (alpha, mpf(1), 1 - mpf("1e-6")):
        for i, (prior_dot, noise_dot) in enumerate(((by_scale, 0), (prior, 0), (still, noise))):
            parts = renyi.gradient(prior, y, noise, order, prior_dot, noise_dot)
            ends = [value([t + s * h * (j == i) for j, t in enumerate(at)], order) for s in (-1, 1)]
            size = (1 + mp.cond(prior[2])) * (1 + norm(prior[0]) / noise) ** 3 * (1 + norm(y) ** 2 / noise)
            observe.equal("R-grad", sum(parts), (ends[1] - ends[0]) / (2 * h), rtol=1e-24, atol=mpf("1e-26") * size)


@pytest.mark.claim("R-grad")
@given(seed=SEEDS, alpha=ORDERS)
def test_gradient_in_any_direction(observe: Observer, seed: int, alpha: Any) -> None:
    """Any change of the joint prior of (f, U) and of σ²: every hyperparameter and every inducing input is one."""
    case = instance(seed, "apart")
    rng = np.random.default_rng(seed + 1)
    joint = renyi.matrix(rng.standard_normal((case.N + case.Kuu.rows, case.N + case.Kuu.rows))) * case.Kff[0, 0]
    joint = joint + joint.T
    prior_dot = (joint[: case.N, : case.N], joint[case.N :, : case.N], joint[case.N :, case.N :])
    noise_dot = case.noise * mpf(rng.normal())

    def value(t: Any) -> Any:
        prior = [K + t * K_dot for K, K_dot in zip(case.prior, prior_dot, strict=True)]
        return renyi.elbo(*prior, case.y, case.noise + t * noise_dot, alpha)

    h = mpf("1e-18")
    size = (1 + norm(joint) * mp.mnorm(case.Kuu**-1)) ** 3 * (1 + norm(case.Kff) / case.noise) ** 3
    size *= 1 + norm(case.y) ** 2 / case.noise
    exact = sum(renyi.gradient(case.prior, case.y, case.noise, alpha, prior_dot, noise_dot))
    observe.equal("R-grad", exact, (value(h) - value(-h)) / (2 * h), atol=mpf("1e-27") * size)


@pytest.mark.claim("R-grad")
def test_the_noise_is_in_both_matrices(observe: Observer) -> None:
    """Ȧ by σ² is −(β/σ⁴)Δ: without it the derivative by σ² is wrong."""
    case, alpha, h = small_example(), HALF, mpf("1e-16")
    ends = [renyi.elbo(*case.prior, case.y, case.noise + s * h, alpha) for s in (-1, 1)]
    truth = (ends[1] - ends[0]) / (2 * h)
    parts = renyi.gradient(case.prior, case.y, case.noise, alpha, tuple(0 * K for K in case.prior), mpf(1))
    observe.equal("R-grad", sum(parts), truth, rtol=1e-25)
    observe.fails("R-grad", abs(parts[0] + parts[1] - truth) < 0.1, "for σ² the third term needs Ȧ = −(β/σ⁴)Δ")


# --- solves by minimisation -----------------------------------------------------------------------------------------


def conjugate_gradients(A: Any, b: Any, steps: int) -> Any:
    """``steps`` steps of conjugate gradients for Au = b from 0."""
    u, r = 0 * b, b.copy()
    p = r.copy()
    for _ in range(steps):
        rr = (r.T * r)[0]
        if mp.sqrt(rr) <= mpf("1e-45") * mp.norm(b):
            break
        step = rr / (p.T * A * p)[0]
        u, r = u + step * p, r - step * A * p
        p = r + (r.T * r)[0] / rr * p
    return u


@pytest.mark.claim("R-cg-vec", "R-cg-mat")
@given(seed=SEEDS, alpha=ORDERS)
def test_solves_are_minimisers(observe: Observer, seed: int, alpha: Any) -> None:
    """f(V) − f(Ξ⁻¹Θ) = ½Tr[(V − Ξ⁻¹Θ)'Ξ(V − Ξ⁻¹Θ)] ≥ 0, f(V) = ½Tr(V'ΞV) − Tr(V'Θ); one column is R-cg-vec."""
    case = instance(seed)
    big = case.xi(alpha)
    rng = np.random.default_rng(seed)
    targets = mp.zeros(case.N, 1 + case.Kuu.rows)
    targets[:, 0], targets[:, 1:] = case.y, case.Kuf.T
    for claim, right in (("R-cg-vec", case.y), ("R-cg-mat", targets)):
        best = solve(big, right)

        def objective(V: Any, right: Any = right) -> Any:
            return trace(V.T * big * V) / 2 - trace(V.T * right)

        other = best + renyi.matrix(rng.standard_normal((case.N, right.cols))) * mpf(2.0 ** rng.integers(-8, 8))
        change = trace((other - best).T * big * (other - best)) / 2
        size = 1 + abs(objective(other)) + abs(objective(best))
        observe.equal(claim, objective(other) - objective(best), change, atol=TINY * size)
        observe.lower(claim, objective(other), objective(best))
        solutions = [conjugate_gradients(big, right[:, j], case.N) for j in range(right.cols)]
        for j, column in enumerate(solutions):  # N steps end it, whatever the targets
            observe.equal(claim, list(column), list(best[:, j]), atol=TINY * (1 + norm(best)) * mp.cond(big) ** 2)


@pytest.mark.claim("R-cg-mat")
def test_the_printed_objective_for_several_columns(observe: Observer) -> None:
    """½U'ΘU − U'Θ with Θ = [y Kfu], N × (M + 1)."""
    case = instance(3, "subset")
    theta, V = mp.zeros(5, 3), mp.ones(5, 3)
    observe.fails("R-cg-mat", defined(lambda: V.T * theta * V - V.T * theta), "N = 5, M = 2: U'ΘU is not conformable")
    case = small_example()
    theta = mp.zeros(2)
    theta[:, 0], theta[:, 1] = case.y, case.Kuf.T  # N = M + 1, so that it has a value: a matrix, the same for every Ξ
    value = theta.T * theta * theta / 2 - theta.T * theta
    observe.fails("R-cg-mat", value.rows == value.cols == 1, "N = M + 1: the objective is a matrix, not a number")
    solutions = [solve(case.xi(alpha), theta) for alpha in (mpf(0), HALF)]
    observe.fails("R-cg-mat", norm(solutions[0] - solutions[1]) < 0.1, "Ξ is absent: Ξ⁻¹Θ cannot be its minimiser")
