"""Section C of the Rényi ledger: the posterior of U and the predictive law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import exp, eye, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, data, instance, is_psd

from gpbounds.kernels import SquaredExponential
from gpbounds.reference import renyi
from gpbounds.reference.linalg import solve
from gpbounds.renyi import inducing_posterior, predict


@pytest.mark.claim("R-pred-U", "R-qstar")
@given(seed=SEEDS, alpha=ORDERS)
def test_posterior_of_the_surrogate_likelihood(observe: Observer, seed: int, alpha: Any) -> None:
    """q*(U) is the exact posterior of U ~ N(0, Kuu) under p(y|U) = N(PU, σ²I + βΔ)."""
    case = instance(seed)
    P = solve(case.Kuu, case.Kuf).T
    D = case.noise * eye(case.N) + (1 - alpha) * case.residual
    marginal, cross = P * case.Kuu * P.T + D, case.Kuu * P.T
    mean, cov = renyi.inducing_posterior(*case.all, alpha)
    size = case.Kuu[0, 0]
    observe.equal("R-pred-U", list(cross * solve(marginal, case.y)), list(mean), rtol=mpf("1e-25"), atol=mpf("1e-25"))
    posterior = case.Kuu - cross * solve(marginal, cross.T)
    observe.equal("R-pred-U", list(posterior), list(cov), atol=mpf("1e-25") * size)


@pytest.mark.claim("R-pred-A", "R-pred-U")
@given(seed=SEEDS, alpha=ORDERS)
def test_predictive_law(observe: Observer, seed: int, alpha: Any) -> None:
    """Q_*f Ξ⁻¹y and K_** + σ²I − Q_*f Ξ⁻¹Q_f*, against y*|U integrated over q*; full covariance and variances."""
    case = data(seed)
    exact = case.exact
    new = np.random.default_rng(seed).standard_normal((3, case.X.shape[1]))
    Kss, Kus = renyi.matrix(case.kernel(new)), renyi.matrix(case.kernel(case.Z, new))
    for order in (alpha, mpf(0), mpf(1), -2 * alpha):
        mean, cov = renyi.predict(*exact.prior, exact.y, Kss, Kus, exact.noise, order)
        A = Kus.T * solve(exact.Kuu, exact.Kuf)
        inverse = exact.xi(order) ** -1
        displayed = Kss + exact.noise * eye(3) - A * inverse * A.T
        observe.equal("R-pred-A", list(A * inverse * exact.y), list(mean), rtol=mpf("1e-25"), atol=mpf("1e-25"))
        observe.equal("R-pred-A", list(displayed), list(cov), atol=mpf("1e-25") * Kss[0, 0])
        observe.holds("R-pred-A", is_psd(cov - exact.noise * eye(3), Kss[0, 0]))
        arguments = (case.kernel, case.X, case.y, case.Z, new, float(order))
        fast_mean, fast_cov = predict(*arguments, noise=case.noise, full_cov=True, noisy=True)
        tol = 1e-9 * float(Kss[0, 0])
        observe.equal("R-pred-A", fast_mean, list(mean), rtol=1e-7, atol=1e-8)
        observe.equal("R-pred-A", fast_cov.ravel(), list(cov), atol=tol)
        variances = predict(*arguments, noise=case.noise, noisy=True)[1]
        observe.equal("R-pred-A", variances, np.diag(fast_cov), atol=tol)
        observe.lower("R-pred-A", variances, case.noise)
    posterior = inducing_posterior(*case.problem, 0.0, noise=case.noise)  # α = 0: the exact posterior of U
    gain = exact.Kuf * exact.exact**-1
    observe.equal("R-pred-U", posterior[0], list(gain * exact.y), rtol=1e-7, atol=1e-8)


@pytest.mark.claim("R-pred-A", "R-pred-chain")
def test_printed_forms(observe: Observer) -> None:
    """N = n* = M = 1, SE with ℓ = v = 1, x = 2, z = x* = 0, y = 1, σ² = .1, α = .9."""
    mean, variance = predict(SquaredExponential(), [2.0], [1.0], [0.0], [0.0], 0.9, noise=0.1, noisy=True)
    observe.equal("R-pred-A", [mean[0], variance[0]], [0.6252, 1.0154], atol=5e-5)
    k, s2, alpha = exp(mpf(-2)), mpf("0.1"), mpf("0.9")
    xi = s2 + (1 - alpha) + alpha * k**2
    printed_variance = 1 + s2 - 1 / xi  # A = K_*u Kuu⁻¹Ku* = 1
    observe.equal("R-pred-A", [1 / xi, printed_variance], [mpf("4.619"), mpf("-3.519")], atol=5e-4)
    observe.fails("R-pred-A", printed_variance >= 0, "A = K_*u Kuu⁻¹Kuf; with Ku* in its place the variance is −3.5")
    N, new = 3, 2
    with pytest.raises(ValueError, match="mult"):  # and A (n* × n*) does not fit Ξ⁻¹ (N × N)
        mp.matrix(new, new) * mp.matrix(N, N)
    precision = 1 + k**2 / s2  # the chain: p(y|U) = N(PU, σ²I), p(y*|U) with covariance Ξ
    chain = k / s2 / precision, 1 / precision + xi
    observe.equal("R-pred-chain", chain, [mpf("1.1438"), mpf("1.0617")], atol=5e-5)
    agrees = abs(chain[0] - mpf(float(mean[0]))) < 0.01
    observe.fails("R-pred-chain", agrees, "p(y|U) has covariance σ²I + βΔ, and p(y*|U) K_** + σ² − Q_**")


@pytest.mark.claim("R-pred-A")
@given(seed=SEEDS)
def test_order_zero_is_the_exact_process_only_with_the_inputs_among_z(observe: Observer, seed: int) -> None:
    case = data(seed)
    new = np.random.default_rng(seed).standard_normal((2, case.X.shape[1]))
    exact = case.exact
    gain = renyi.matrix(case.kernel(new, case.X)) * exact.exact**-1
    mean, cov = predict(case.kernel, case.X, case.y, case.X, new, 0.0, noise=case.noise, full_cov=True, noisy=True)
    truth = renyi.matrix(case.kernel(new)) - gain * renyi.matrix(case.kernel(case.X, new)) + exact.noise * eye(2)
    observe.equal("R-pred-A", mean, list(gain * exact.y), rtol=1e-6, atol=1e-7)
    observe.equal("R-pred-A", cov.ravel(), list(truth), atol=1e-8 * float(exact.Kff[0, 0]))


@pytest.mark.claim("R-pred-A")
def test_order_zero_is_not_the_exact_process(observe: Observer) -> None:
    kernel, X, y = SquaredExponential(), np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, -1.0, 0.5, 0.0])
    mean = predict(kernel, X, y, [[0.0]], [[2.5]], 0.0, noise=0.1)[0]
    exact = predict(kernel, X, y, X, [[2.5]], 0.0, noise=0.1)[0]
    observe.fails("R-pred-A", abs(mean - exact)[0] < 0.1, "q*_0 keeps the prior conditional p(f|U)")
