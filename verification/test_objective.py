"""Section A of the Rényi ledger: the closed form of L_α, its posterior q*, its limits and its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import eye, log, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, Instance, any_posterior, data, instance, is_psd, log_p_alpha

from gpbounds.kernels import SquaredExponential
from gpbounds.reference import divergences, renyi
from gpbounds.reference.linalg import solve, trace
from gpbounds.renyi import (
    elbo,
    exact_gap,
    inducing_posterior,
    jensen_bound,
    log_evidence,
    renyi_bound,
    variational_bound,
)

TINY = mpf("1e-30")


def small_example() -> Instance:
    """K = [[2, 1], [1, 2]], Z = {1}, σ² = 1, y = 0: the ledger's counterexample."""
    K = mp.matrix([[2, 1], [1, 2]])
    return Instance(K, K[:1, :], K[:1, :1], mp.zeros(2, 1), mpf(1))


# --- q* -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("R-qstar", "R-elbo*", "R-neg")
@given(seed=SEEDS, alpha=ORDERS)
def test_best_posterior(observe: Observer, seed: int, alpha: Any) -> None:
    """q* ∝ p_α^(1/β) p has the printed moments, attains the closed form, and beats any other q of the family."""
    case = instance(seed)
    other = any_posterior(case, seed)
    for order in (alpha, -2 * alpha):  # a maximum on (0, 1), a minimum below 0
        mean, cov = renyi.inducing_posterior(*case.all, order)
        D = case.noise * eye(case.N) + (1 - order) * case.residual
        P = solve(case.Kuu, case.Kuf).T
        precision = P.T * solve(D, P) + case.Kuu**-1
        observe.equal("R-qstar", list(cov * precision), list(eye(case.Kuu.rows)), atol=mpf("1e-25"))
        observe.equal("R-qstar", list(precision * mean), list(P.T * solve(D, case.y)), rtol=mpf("1e-20"), atol=TINY)
        closed = renyi.elbo(*case.all, order)
        observe.equal("R-elbo*", renyi.elbo_of(mean, cov, *case.all, order), closed, rtol=TINY, atol=TINY)
        value = renyi.elbo_of(*other, *case.all, order)
        if order > 0:
            observe.lower("R-qstar", closed, value, tol=1e-35)
        elif value is not None:  # None: the integral is +∞, a void upper bound
            observe.upper("R-neg", closed, value, tol=1e-35)


@pytest.mark.claim("R-frac")
@given(seed=SEEDS, alpha=ORDERS)
def test_joint_posterior(observe: Observer, seed: int, alpha: Any) -> None:
    """q*(f, U) ∝ p(f, U) p_α(y|U)^(1/β): its precision is that of the prior plus P'(σ²I + βΔ)⁻¹P for U."""
    case = instance(seed, "apart")
    N, M, P = case.N, case.Kuu.rows, solve(case.Kuu, case.Kuf).T
    mean, law = renyi.joint_laws(*renyi.inducing_posterior(*case.all, alpha), *case.all)[:2]
    joint = mp.zeros(N + M)
    joint[:N, :N], joint[:N, N:], joint[N:, :N], joint[N:, N:] = case.Kff, case.Kuf.T, case.Kuf, case.Kuu
    D = case.noise * eye(N) + (1 - alpha) * case.residual
    precision, natural = joint**-1, mp.zeros(N + M, 1)
    precision[N:, N:] += P.T * solve(D, P)
    natural[N:, :] = P.T * solve(D, case.y)
    observe.equal("R-frac", list(law * precision), list(eye(N + M)), atol=mpf("1e-25"))
    observe.equal("R-frac", list(precision * mean), list(natural), atol=mpf("1e-25") * (1 + mp.norm(natural)))


@pytest.mark.claim("R-qstar", "R-elbo*")
@given(seed=SEEDS, alpha=ORDERS)
def test_double_precision(observe: Observer, seed: int, alpha: Any) -> None:
    case = data(seed)
    exact = case.exact
    for order in (alpha, -3 * alpha, mpf(1), 1 - mpf(2) ** -27, 1 - mpf(2) ** -43):
        truth = renyi.elbo(*exact.all, order)
        observe.equal(
            "R-elbo*", float(elbo(*case.problem, float(order), noise=case.noise)), truth, rtol=1e-9, atol=1e-9
        )
        mean, cov = renyi.inducing_posterior(*exact.all, order)
        fast = inducing_posterior(*case.problem, float(order), noise=case.noise)
        size = float(exact.Kuu[0, 0])
        observe.equal("R-qstar", fast[0], list(mean), rtol=1e-7, atol=1e-8)
        observe.equal("R-qstar", fast[1].ravel(), list(cov), atol=1e-9 * size)


@pytest.mark.claim("R-spread")
@given(seed=SEEDS, alpha=ORDERS)
def test_posterior_concentrates_with_the_order(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed)
    wide = renyi.inducing_posterior(*case.all, alpha / 2)[1]
    narrow = renyi.inducing_posterior(*case.all, alpha)[1]
    observe.holds("R-spread", is_psd(wide - narrow, case.Kuu[0, 0]))


@pytest.mark.claim("R-spread")
def test_posterior_does_not_spread_out(observe: Observer) -> None:
    widths = [renyi.inducing_posterior(*small_example().all, a)[1][0] for a in (mpf(0), mpf(1) / 2, mpf(1))]
    observe.equal("R-spread", widths, [mpf(5) / 8, mpf(14) / 23, mpf(4) / 7], rtol=1e-40)
    observe.fails("R-spread", widths[2] > widths[0], "Var q* falls from .625 to .571 as α → 1")


@pytest.mark.claim("R-notU")
@given(seed=SEEDS)
def test_inducing_variables_are_not_independent(observe: Observer, seed: int) -> None:
    """U = [u(z_1), ..., u(z_M)] ~ N(0, Kuu): M of them, dependent; the printed law has K independent ones."""
    Z = np.random.default_rng(seed).standard_normal((3, 1))
    Kuu = renyi.matrix(SquaredExponential(lengthscale=0.5)(Z))
    alone = mp.diag([Kuu[i, i] for i in range(3)])
    zero = mp.zeros(3, 1)
    dependence = divergences.gaussian_kl(zero, Kuu, zero, alone)
    observe.fails("R-notU", dependence == 0, "U ~ N(0, Kuu) has KL > 0 from independent coordinates")


# --- limits and order -----------------------------------------------------------------------------------------------


@pytest.mark.claim("R-lim0", "R-lim1", "R-kl")
@given(seed=SEEDS)
def test_limits(observe: Observer, seed: int) -> None:
    case = instance(seed)
    evidence = renyi.log_evidence(case.Kff, case.y, case.noise)
    for posterior in (any_posterior(case, seed), renyi.inducing_posterior(*case.all, mpf(0))):
        observe.equal("R-lim0", renyi.elbo_of(*posterior, *case.all, mpf(0)), evidence, rtol=TINY, atol=TINY)
        near = renyi.elbo_of(*posterior, *case.all, mpf("1e-20"))
        observe.equal("R-lim0", near, evidence, rtol=mpf("1e-12"), atol=mpf("1e-12"))
    titsias = renyi.log_normal(case.y, case.noise * eye(case.N) + case.Q) - case.T / (2 * case.noise)
    step = mpf("1e-14")
    near, slope = renyi.elbo(*case.all, 1 - step), renyi.elbo_slope(*case.all)
    size = 1 + sum(d**3 for d in case.d) + (case.y.T * case.y)[0] / case.noise * (1 + case.d[0]) ** 2
    observe.equal("R-lim1", renyi.elbo(*case.all, mpf(1)), titsias, rtol=TINY, atol=TINY)
    observe.equal("R-lim1", (near - titsias) / step, slope, atol=step * size)
    observe.lower("R-lim1", slope, mpf(0), tol=1e-35)
    # R-kl: the gap at α = 1 is KL[q*‖p], the limit of D_α[q*‖p]
    observe.equal("R-kl", renyi.exact_gap(*case.all, 1 - step), renyi.exact_gap(*case.all, 1), atol=2 * step * size)


@pytest.mark.claim("R-lim0", "R-lim1")
@given(seed=SEEDS)
def test_limits_in_double_precision(observe: Observer, seed: int) -> None:
    case = data(seed)
    exact = case.exact
    observe.equal("R-lim0", exact_gap(*case.problem, 0.0, noise=case.noise), 0.0)
    truth = renyi.log_evidence(exact.Kff, exact.y, exact.noise)
    observe.equal("R-lim0", float(elbo(*case.problem, 0.0, noise=case.noise)), truth, rtol=1e-9, atol=1e-9)
    titsias = renyi.log_normal(exact.y, exact.noise * eye(exact.N) + exact.Q) - exact.T / (2 * exact.noise)
    observe.equal("R-lim1", float(elbo(*case.problem, 1.0, noise=case.noise)), titsias, rtol=1e-9, atol=1e-9)


@pytest.mark.claim("R-order", "R-LJ")
@given(seed=SEEDS, alpha=ORDERS)
def test_order_of_the_objectives(observe: Observer, seed: int, alpha: Any) -> None:
    case = instance(seed)
    q = any_posterior(case, seed)
    variational, jensen = renyi.variational_of(*q, *case.all), renyi.jensen_of(*q, *case.all, alpha)
    value = renyi.elbo_of(*q, *case.all, alpha)
    evidence = renyi.log_evidence(case.Kff, case.y, case.noise)
    chain = [variational, jensen, value, evidence]
    observe.upper("R-order", chain[:-1], chain[1:], tol=1e-30)
    later = alpha + (1 - alpha) / 2
    observe.upper("R-LJ", renyi.jensen_of(*q, *case.all, later), jensen, tol=1e-30)
    observe.upper("R-LJ", renyi.fit_of(*q, *case.all, mpf(1)), renyi.fit_of(*q, *case.all, later), tol=1e-30)
    tempered = log_p_alpha(case.prior, case.y, case.noise, alpha, q[0]) / (1 - alpha)  # at cov = 0
    observe.equal("R-LJ", renyi.fit_of(q[0], 0 * q[1], *case.all, alpha), tempered, rtol=TINY, atol=TINY)


@pytest.mark.claim("R-elbo", "R-order", "R-LJ", "R-lim0", "R-neg")
@given(seed=SEEDS, alpha=ORDERS)
def test_public_bounds_of_any_posterior(observe: Observer, seed: int, alpha: Any) -> None:
    """`renyi_bound`, `jensen_bound` and `variational_bound` agree with the definitions, and lie in the stated order."""
    case = data(seed)
    exact = case.exact
    q = any_posterior(exact, seed)
    held = np.array(q[0].tolist(), dtype=float)[:, 0], np.array(q[1].tolist(), dtype=float)
    q = renyi.matrix(held[0]), renyi.matrix(held[1])
    size = 1e-9 * float(1 + abs(renyi.variational_of(*q, *exact.all)))
    values = []
    for order in (mpf(0), alpha, 1 - mpf(2) ** -27, 1 - mpf(2) ** -43, mpf(1)):
        bound, mean_bound = (
            function(*case.problem, *held, float(order), noise=case.noise) for function in (renyi_bound, jensen_bound)
        )
        values += [float(bound), float(mean_bound)]
        assert bound.side == mean_bound.side == "lower"
        truth = renyi.elbo_of(*q, *exact.all, order) if order < 1 else renyi.variational_of(*q, *exact.all)
        observe.equal("R-elbo", float(bound), truth, rtol=1e-9, atol=size)
        observe.equal("R-LJ", float(mean_bound), renyi.jensen_of(*q, *exact.all, order), rtol=1e-9, atol=size)
    variational = float(variational_bound(*case.problem, *held, noise=case.noise))
    observe.equal("R-order", variational, renyi.variational_of(*q, *exact.all), rtol=1e-9, atol=size)
    evidence = float(log_evidence(*case.problem[:3], noise=case.noise))
    observe.equal("R-lim0", values[0], evidence, atol=size)
    for above, below in ((values[::2], values[2::2]), (values[1::2], values[3::2]), (values[::2], values[1::2])):
        observe.upper("R-order", below, above[: len(below)], tol=size)
    observe.upper("R-order", variational, values, tol=size)
    upper = renyi_bound(*case.problem, *held, -float(alpha), noise=case.noise)
    truth = renyi.elbo_of(*q, *exact.all, -alpha)
    assert upper.side == "upper"
    observe.lower("R-neg", float(upper), evidence, tol=size)
    if truth is not None and np.isfinite(float(upper)):
        observe.equal("R-neg", float(upper), truth, rtol=1e-6, atol=size)


@pytest.mark.claim("R-qstar", "R-neg")
@given(seed=SEEDS, alpha=ORDERS)
def test_public_bound_is_extreme_at_the_best_posterior(observe: Observer, seed: int, alpha: Any) -> None:
    """At q* the value is `elbo`; another posterior gives less, or for α < 0 more."""
    case = data(seed)
    exact = case.exact
    for order in (float(alpha), -float(alpha)):
        best = inducing_posterior(*case.problem, order, noise=case.noise)
        closed = float(elbo(*case.problem, order, noise=case.noise))
        size = 1e-7 * (1.0 + abs(closed))
        observe.equal("R-qstar", float(renyi_bound(*case.problem, *best, order, noise=case.noise)), closed, atol=size)
        other = [np.array(part.tolist(), dtype=float) for part in any_posterior(exact, seed)]
        value = float(renyi_bound(*case.problem, other[0][:, 0], other[1], order, noise=case.noise))
        if order > 0:
            observe.upper("R-qstar", value, closed, tol=size)
        else:
            observe.lower("R-neg", value, closed, tol=size)


@pytest.mark.claim("R-neg")
def test_a_diverging_integral_gives_a_bound_that_says_nothing(observe: Observer) -> None:
    """q is narrower than the prior by a factor of 10 in the variance: at α = −1, p(U)²/q(U) has no integral."""
    kernel, X, y, Z = SquaredExponential(), [[0.0], [9.0]], [1.0, 0.5], [[5.0]]
    upper = renyi_bound(kernel, X, y, Z, [0.0], [[0.1]], -1.0, noise=1.0)
    exact = Instance(*renyi.blocks(kernel, X, Z), renyi.matrix(np.array(y)), mpf(1))
    truth = renyi.elbo_of(mp.matrix([0]), mp.matrix([[mpf("0.1")]]), *exact.all, mpf(-1))
    observe.holds("R-neg", truth is None and float(upper) == np.inf and upper.side == "upper")


@pytest.mark.claim("R-mono", "R-neg")
@given(seed=SEEDS, alpha=ORDERS)
def test_objective_falls_with_the_order(observe: Observer, seed: int, alpha: Any) -> None:
    """dL/dα, written out, is the derivative, and is at most ½Σβ⁻²[βd/(1+βd) − log(1+βd)] ≤ 0."""
    case = instance(seed)
    evidence = renyi.log_evidence(case.Kff, case.y, case.noise)
    for order in (alpha, -3 * alpha, 1 + alpha / (2 * max(case.d[0], mpf(1)))):
        beta, inverse = 1 - order, case.xi(order) ** -1
        product = inverse * case.residual
        slope = (trace(product) - (case.y.T * product * inverse * case.y)[0]) / 2
        slope += sum(order * d / (1 + beta * d) / (2 * beta) - log(1 + beta * d) / (2 * beta**2) for d in case.d)
        h = mpf("1e-18")
        ends = [renyi.elbo(*case.all, order + s * h) for s in (-1, 1)]
        size = 1 + sum(d**3 for d in case.d) + abs(ends[0]) * (1 + case.d[0]) ** 3
        observe.equal("R-mono", (ends[1] - ends[0]) / (2 * h), slope, atol=mpf("1e-20") * size)
        cap = sum((beta * d / (1 + beta * d) - log(1 + beta * d)) / (2 * beta**2) for d in case.d)
        observe.upper("R-mono", slope, cap, tol=1e-28)
        observe.upper("R-mono", cap, mpf(0), tol=1e-28)
        if order < 0:
            observe.lower("R-neg", ends[0], evidence, tol=1e-30)


@pytest.mark.claim("R-convex")
def test_objective_is_no_convex_combination(observe: Observer) -> None:
    case = small_example()
    at_0, at_half, at_1 = (renyi.elbo(*case.all, a) for a in (mpf(0), mpf(1) / 2, mpf(1)))
    observe.equal("R-convex", [at_half, (at_0 + at_1) / 2], [mpf("-2.99228"), mpf("-3.04593")], atol=5e-6)
    observe.fails("R-convex", abs(at_half - (at_0 + at_1) / 2) < 0.01, "only the covariance Ξ is a combination")
    mixed = case.noise * eye(2) + (case.Kff + case.Q) / 2
    observe.equal("R-convex", list(case.xi(mpf(1) / 2)), list(mixed), rtol=1e-45)


@pytest.mark.claim("R-maxtheta")
def test_maximising_the_bound_does_not_minimise_the_divergence(observe: Observer) -> None:
    """Over the lengthscale; at fixed kernel the best q does both (R-qstar)."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 3, 12))
    y = np.linalg.cholesky(SquaredExponential(lengthscale=0.5)(X) + 0.1 * np.eye(12)) @ rng.standard_normal(12)
    kernels = [SquaredExponential(lengthscale=v) for v in (0.05, 0.3, 0.8, 2.5, 50.0)]
    bounds = [float(elbo(k, X, y, X[::4], 0.5, noise=0.1)) for k in kernels]
    gaps = [exact_gap(k, X, y, X[::4], 0.5, noise=0.1) for k in kernels]
    observe.fails("R-maxtheta", np.argmax(bounds) == np.argmin(gaps), "log p_θ(y) moves with θ")
