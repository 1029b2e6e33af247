"""Section I of the Rényi ledger: the risk bound in its correct, oracle form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import log, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, gram, instance

from gpbounds.divergences import gaussian_renyi
from gpbounds.kernels import SquaredExponential
from gpbounds.reference import divergences, renyi
from gpbounds.reference.linalg import log_det
from gpbounds.renyi import elbo, oracle_risk_bound, pac_risk_bound

N = 8
X = np.linspace(0.0, 2.0, N)
MODELS = [SquaredExponential(lengthscale=v)(X) + 0.1 * np.eye(N) for v in (0.1, 0.3, 0.6, 1.2, 3.0)]
TRUTH = MODELS[2]


def log_density(y: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """log N(y; 0, cov) for the columns of y."""
    white = np.linalg.solve(np.linalg.cholesky(cov), y)
    return -0.5 * (N * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + (white**2).sum(axis=0))


def draws(count: int) -> np.ndarray:
    return np.linalg.cholesky(TRUTH) @ np.random.default_rng(5).standard_normal((N, count))


@pytest.mark.claim("N-risk", "R-thm5")
@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_failures_of_the_oracle_bounds(observe: Observer, alpha: float) -> None:
    """Fixed θ, and all posterior weights at once: the best weights, and the worst vertex."""
    zero, delta, count = np.zeros(N), 0.1, 20_000
    y = draws(count)
    risks = np.array([gaussian_renyi(zero, C, zero, TRUTH, alpha) for C in MODELS]) / N
    true, fits = log_density(y, TRUTH), np.array([log_density(y, C) for C in MODELS])
    for risk, fit in zip(risks, fits, strict=True):
        bound = oracle_risk_bound(true, fit, N, alpha, delta=delta)
        observe.frequency("N-risk", int((bound < risk).sum()), count, delta)
    failed = 0
    for j in range(600):
        slack = [
            float(pac_risk_bound(true[j], fits[:, j], N, alpha, delta=delta, posterior=e)) for e in np.eye(len(MODELS))
        ]
        best = pac_risk_bound(true[j], fits[:, j], N, alpha, delta=delta)
        observe.holds("N-risk", float(best) <= min(slack) + 1e-12)
        failed += bool((np.array(slack) < risks).any())
    observe.frequency("N-risk", failed, 600, delta)
    # E_θ* exp{α log(p_θ/p_θ*) + (1−α)D_α} = 1, the step behind Markov's inequality
    for cov, risk in zip(MODELS[1:4], risks[1:4], strict=True):
        mixed = alpha * np.linalg.inv(cov) + (1 - alpha) * np.linalg.inv(TRUTH)
        moment = -0.5 * (alpha * np.linalg.slogdet(cov)[1] + (1 - alpha) * np.linalg.slogdet(TRUTH)[1])
        moment -= 0.5 * np.linalg.slogdet(mixed)[1]
        observe.equal("R-thm5", moment + (1 - alpha) * N * risk, 0.0, atol=1e-10)


@pytest.mark.claim("N-risk", "R-thm5")
@given(seed=SEEDS, alpha=ORDERS)
def test_the_oracle_bounds_are_their_formulas(observe: Observer, seed: int, alpha: Any) -> None:
    """Fit, divergence of the weights and log(1/δ), each at 50 digits; the best weights are ρ ∝ π exp(αℒ)."""
    rng = np.random.default_rng(seed)
    P, a, delta = int(rng.integers(1, 6)), float(alpha), float(rng.uniform(0.001, 0.9))
    true, fits, prior = float(rng.normal(-20, 3)), rng.normal(-22, 3, P), rng.dirichlet(np.ones(P))
    scale = N * (1 - mpf(a))
    sure = -log(mpf(delta)) / scale
    oracle = oracle_risk_bound(true, fits, N, a, delta=delta)
    for i, fit in enumerate(fits):
        value = mpf(a) * (mpf(true) - mpf(float(fit))) / scale
        observe.equal("N-risk", [oracle.terms["fit"][i], oracle.terms["confidence"]], [value, sure], rtol=1e-13)
        observe.equal("N-risk", oracle.value[i], value + sure, rtol=1e-12, atol=1e-13)
    best = [mpf(p) * mp.exp(mpf(a) * mpf(float(f))) for p, f in zip(prior, fits, strict=True)]
    best = [b / sum(best) for b in best]
    for weights, rho in ((None, best), (other := rng.dirichlet(np.ones(P)), [mpf(float(r)) for r in other])):
        pac = pac_risk_bound(true, fits, N, a, delta=delta, prior=prior, posterior=weights)
        truths = {
            "fit": mpf(a) * sum(r * (mpf(true) - mpf(float(f))) for r, f in zip(rho, fits, strict=True)) / scale,
            "KL(ρ‖π)": sum(r * log(r / mpf(float(p))) for r, p in zip(rho, prior, strict=True) if r > 0) / scale,
            "confidence": sure,
        }
        for name, truth in truths.items():
            observe.equal("R-thm5", pac.terms[name], truth, rtol=1e-11, atol=1e-13)
        observe.equal("R-thm5", float(pac), sum(truths.values()), rtol=1e-11, atol=1e-12)
        observe.equal("R-thm5", pac.confidence, 1 - delta)


@pytest.mark.claim("R-thm5", "R-risk-def")
def test_printed_theorem_fails(observe: Observer) -> None:
    """θ = θ*: the risk is 0, and the printed bound, with log p_θ(y)p_θ*(y) inside, is negative almost always."""
    alpha, delta = 0.5, 0.1
    for units, least in ((1.0, 0.5), (10.0, 1.0)):
        log_p = log_density(draws(2000), TRUTH) - N * np.log(units)  # y measured in other units; L_α = log p for Z = X
        printed = alpha / (N * (1 - alpha)) * (2 * log_p - log_p) + np.log(1 / delta) / (N * (1 - alpha))
        rate = float((printed < 0).mean())
        observe.lower("R-thm5", rate, least)
        observe.fails("R-thm5", rate <= delta, "θ = θ*, risk 0: the product p_θ(y)p_θ*(y) is not free of units")
    kernel = SquaredExponential(lengthscale=0.6)
    y = draws(1)[:, 0]
    true = float(log_density(y[:, None], TRUTH)[0])
    bound = oracle_risk_bound(true, float(elbo(kernel, X, y, X[::2], alpha, noise=0.1)), N, alpha, delta=delta)
    observe.lower("R-thm5", float(bound), 0.0)
    # R-risk-def: p_θ(f|U, Z) is a density in f, so its integral over θ is no mean; N⁻¹D_α under weights is one
    total = sum(np.exp(-0.5 / v) / np.sqrt(2 * np.pi * v) for v in (0.5, 2.0))  # f = 1, θ its variance
    observe.fails("R-risk-def", abs(total - 1) < 0.1, "p_θ(f|U,Z) does not sum to 1 over θ; use a law ρ(dθ)")


@pytest.mark.claim("R-risk-mgf")
@given(seed=SEEDS, alpha=ORDERS)
def test_moment_under_the_truth(observe: Observer, seed: int, alpha: Any) -> None:
    """E_θ* ∫q (p_θ(f, U, y)/(p_θ* q))^α ≤ e^(−(1−α)D_α), here with q = q* and y from p_θ* = N(0, C)."""
    case = instance(seed, "apart")
    C = gram(np.random.default_rng(seed), case.N) * case.noise * 2
    zero = mp.zeros(case.N, 1)
    rhs = -(1 - alpha) * divergences.gaussian_renyi(zero, case.exact, zero, C, alpha)
    # log ∫q (p/q)^α = (1−α)·L of order 1−α at q; as a function of y it is c + α·(−½y'Ξ⁻¹y), Ξ of that order
    order = 1 - alpha
    constant = alpha * renyi.elbo(*case.prior, zero, case.noise, order)
    shape = alpha * case.xi(order) ** -1 + order * C**-1
    value = constant - order / 2 * (log_det(C) + case.N * log(2 * mp.pi)) - log_det(shape) / 2
    value += mpf(case.N) / 2 * log(2 * mp.pi)
    observe.upper("R-risk-mgf", value, rhs, tol=1e-28)


@pytest.mark.claim("R-risk-1")
def test_no_limit_at_one(observe: Observer) -> None:
    """α/(1−α) → ∞ while D_α stays bounded: the bound diverges as α → 1."""
    values = np.asarray(oracle_risk_bound(-10.0, -10.5, N, 1 - 10.0 ** -np.arange(1, 9), delta=0.1))
    observe.holds("R-risk-1", (np.diff(values) > 0).all() and values[-1] > 1e6, 8)
    zero = np.zeros(N)
    cap = gaussian_renyi(zero, MODELS[1], zero, TRUTH, 1.0)
    observe.upper("R-risk-1", [gaussian_renyi(zero, MODELS[1], zero, TRUTH, a) for a in (0.9, 0.99, 1 - 1e-8)], cap)


@pytest.mark.claim("R-thm5")
def test_the_best_weights_of_evidences_that_are_far_apart(observe: Observer) -> None:
    """ρ ∝ π exp(αℒ) with ℒ from −10 to −10 000, whose exponentials are beyond the doubles: all weight on the first."""
    pac = pac_risk_bound(-9.0, [-10.0, -3000.0, -10_000.0], N, 0.5, delta=0.1)
    alone = 0.5 * 1.0 / (0.5 * N)
    observe.equal("R-thm5", [pac.terms["fit"], pac.terms["KL(ρ‖π)"]], [alone, np.log(3.0) / (0.5 * N)], rtol=1e-13)
