"""Ledger D.1 to D.3: the sampled losses that training uses, against exact means, and where descent on them ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from likelihood_instances import Case, make
from numpy.polynomial.hermite_e import hermegauss
from observer import Observer
from scipy.optimize import minimize

from fitting.objectives.free import Losses, free
from fitting.objectives.losses import Expected, Sampling
from fitting.rows.data import Data
from gpbounds.arrays import Float
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli
from gpbounds.montecarlo import bias, expected_gradients, expected_objective
from gpbounds.montecarlo.addressed import Draws

CASES = {
    "gaussian": make("gaussian", 1.2, 0.3, 0.8, 0.5),
    "probit": make("probit", 1.0, 0.5, 2.0),
    "logit": make("logit", -1.0, 0.7, 1.5),
    "exp": make("exp", 3.0, 0.5, 0.6),
    "softplus": make("softplus", 2.0, 0.5, 1.0),
    "student": make("student", 1.5, 0.2, 0.9, 4.0, 0.7),
}
TABLE = {1: 0.860904382, 10: 0.503865828}
"""E[−log X̄_L] for the probit case (ledger, D-20)."""
DLM = 0.488436469
ROWS = 5_000
LOGIT = Bernoulli("logit")


def sampled(case: Case, method: str, L: int, rows: int = ROWS, **options: Any) -> Expected:
    """The loss of ``rows`` equal rows at step 3."""
    loss = Sampling(method, Draws.of(L), L, **options).loss(case.likelihood, 3)
    at = (np.full((rows, 1), float(case.y)), np.full((rows, 1), case.m), np.full(rows, case.v))
    return loss.at(slice(0, rows))(*at)


def standard_error(values: Float) -> float:
    return float(values.std() / np.sqrt(values.size))


@pytest.mark.broad
@pytest.mark.claim("D-10", "D-24")
@pytest.mark.parametrize("family", CASES)
def test_means_of_the_gradients(observe: Observer, family: str) -> None:
    """bmc and ups against their exact means, to 4 standard errors; one sample of bmc gives the ELBO's gradient."""
    case = CASES[family]
    y = float(case.y)
    for L in (1, 2, 5):
        expected = expected_gradients(case.likelihood, y, case.m, case.v, L)
        drawn = sampled(case, "bmc", L)
        pairs = (drawn.in_mean, expected.sampled_by_mean), (drawn.in_variance, expected.sampled_by_variance)
        for values, truth in pairs:
            observe.equal("D-24", values.mean(), truth, atol=4.0 * standard_error(values))
        if L < 5:
            product = sampled(case, "ups", L, 2_000)
            for values, truth in (
                (product.in_mean, expected.by_mean),
                (product.in_variance, expected.by_variance),
            ):
                observe.equal("D-10", values.mean(), truth, atol=4.0 * standard_error(values))


@pytest.mark.claim("D-22", "D-24")
@pytest.mark.parametrize("family", CASES)
def test_one_sample_is_the_elbo(observe: Observer, family: str) -> None:
    """bmc at L = 1 is elbo-mc at L = 1, sample by sample; the exact mean of its gradient is the ELBO's gradient."""
    case = CASES[family]
    y = float(case.y)
    one, gibbs = sampled(case, "bmc", 1, 500), sampled(case, "elbo-mc", 1, 500)
    observe.equal("D-22", one.total, gibbs.total, rtol=1e-14)
    for values, others in ((one.in_mean, gibbs.in_mean), (one.in_variance, gibbs.in_variance)):
        observe.equal("D-24", values, others, rtol=1e-13, atol=1e-15)
    expected = expected_gradients(case.likelihood, y, case.m, case.v, 1)
    elbo = case.likelihood.expected_log_density(y, case.m, case.v, gradient=True)
    observe.equal("D-24", [expected.sampled_by_mean, expected.sampled_by_variance], [-elbo[1], -elbo[2]], rtol=1e-10)
    many = sampled(case, "elbo-mc", 4)
    for values, truth in ((many.in_mean, -elbo[1]), (many.in_variance, -elbo[2])):
        observe.equal("D-22", values.mean(), truth, atol=4.0 * standard_error(values))


@pytest.mark.claim("D-18", "D-24")
def test_the_curvature_form_fails(observe: Observer) -> None:
    """Probit, y = 1, m = ½, v = 2, L = 2: (8) is 25 standard errors from ∂_v, with the other sign; (7) has it, too."""
    case = CASES["probit"]
    expected = expected_gradients(case.likelihood, 1, case.m, case.v, 2)
    drawn = sampled(case, "bmc", 2, 20_000, estimator="curvature")
    error = standard_error(drawn.in_variance)
    observe.equal("D-24", drawn.in_variance.mean(), expected.curvature, atol=4.0 * error)
    for truth, which in ((expected.sampled_by_variance, "the 2-sample objective"), (expected.by_variance, "−log E p")):
        distance = abs(drawn.in_variance.mean() - truth)
        observe.fails("D-24", distance < 25.0 * error, f"(8) is no derivative of {which} in v")
    observe.fails("D-24", drawn.in_variance.mean() * expected.by_variance > 0, "at L = 2 (8) has the wrong sign")
    observe.holds("D-18", drawn.in_mean.mean() * expected.by_mean > 0)
    observe.fails("D-18", -drawn.in_mean.mean() * expected.by_mean > 0, "Σφ'/Σφ is the step direction −∇h, not ∇h")


@pytest.mark.claim("D-20", "D-23")
def test_the_bias_of_value_and_gradient(observe: Observer) -> None:
    """The ledger's probit case: values to 4 standard errors of its table; the 1/L term of the gradient at L = 20."""
    case = CASES["probit"]
    for L, truth in TABLE.items():
        sampling = Sampling("bmc", Draws.of(7), L)
        at = (np.ones((500, 1)), np.full((500, 1), case.m), np.full(500, case.v))
        means = np.array(
            [float(sampling.loss(case.likelihood, t).at(slice(0, 500))(*at).total) / 500 for t in range(100)]
        )
        observe.equal("D-20", means.mean(), truth, atol=4.0 * standard_error(means))
        observe.lower("D-20", means.mean() - DLM, 6.0 * standard_error(means))  # the bias is seen
    drawn = sampled(case, "bmc", 20, 40_000)
    exact = expected_gradients(case.likelihood, 1, case.m, case.v, 20)
    first = bias(case.likelihood, 1, case.m, case.v, 20, method="expansion", gradient=True)
    for values, truth, slope in (
        (drawn.in_mean, exact.by_mean, first[1]),
        (drawn.in_variance, exact.by_variance, first[2]),
    ):
        error = standard_error(values)
        observe.equal("D-23", values.mean() - truth, slope, rtol=0.25, atol=4.0 * error)
        observe.lower("D-23", abs(values.mean() - truth), 6.0 * error)


# ---------------------------------------------------------------------- one q of a sparse GP


class Problem:
    """A sparse GP with fixed hyperparameters: J = Σ losses + β·KL as a function of x = (w, C with log diagonal)."""

    def __init__(self, n: int, M: int, beta: float) -> None:
        rng = np.random.default_rng(0)
        X = np.sort(rng.uniform(-3.0, 3.0, n))[:, None]
        labels = rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * np.sin(2.0 * X[:, 0])))
        self.M, self.beta, self.lower, self.diagonal = M, beta, np.tril_indices(M), np.diag_indices(M)
        data = Data(X, labels[:, None].astype(np.float64), True, 1e-6)
        self.source = data.stream(SquaredExponential(9.0, 0.8), np.linspace(-3.0, 3.0, M)[:, None], 1e-6)

    def at(self, x: Float, loss: Losses) -> tuple[float, Float]:
        M, C = self.M, np.zeros((self.M, self.M))
        C[self.lower] = x[M:]
        C[self.diagonal] = np.exp(C[self.diagonal])
        q = FactorLaw(x[:M, None].copy(), C)
        evaluation = free(self.source, q, loss, lambda total, kl: (total + self.beta * kl, 1.0, self.beta))
        g: Any = evaluation.gradient
        factor = g.factor.copy()
        factor[self.diagonal] *= C[self.diagonal]
        return evaluation.value, np.concatenate([g.mean[:, 0], factor[self.lower]])

    def minimiser(self, loss: Losses, start: Float | None = None) -> Float:
        x = np.zeros(self.M + self.lower[0].size) if start is None else start
        options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-6}
        return np.asarray(minimize(self.at, x, args=(loss,), jac=True, method="L-BFGS-B", options=options).x)

    def hessian(self, x: Float, loss: Losses, h: float = 1e-4) -> Float:
        rows = [(self.at(x + h * e, loss)[1] - self.at(x - h * e, loss)[1]) / (2.0 * h) for e in np.eye(x.size)]
        return np.asarray(0.5 * (np.array(rows) + np.array(rows).T))


def direct(Y: Float, means: Float, variances: Float) -> Expected:
    """−Σ log E p, the log-loss DLM term, exactly."""
    value, by_mean, by_variance = LOGIT.log_expected_density(Y[:, 0], means[:, 0], variances, gradient=True)
    return Expected(-value.sum(), -by_mean[:, None], -by_variance)


def pairs(nodes: int) -> Callable[[Float, Float, Float], Expected]:
    """Σ E[−log ½(p_1 + p_2)], the mean of bmc at L = 2, by a product of two Gauss-Hermite rules."""
    t, weight = hermegauss(nodes)
    W = np.outer(weight, weight) / weight.sum() ** 2

    def loss(Y: Float, means: Float, variances: Float) -> Expected:
        root = np.sqrt(variances)[:, None]
        f = means + root * t
        p, g = np.exp(LOGIT.log_density(Y, f)), LOGIT.derivatives(Y, f)[0]
        both = p[:, :, None] + p[:, None, :]
        share = 2.0 * p * (W / both).sum(axis=2)
        value = -(W * np.log(0.5 * both)).sum()
        return Expected(value, -(share * g).sum(axis=1, keepdims=True), -(share * g * t / (2.0 * root)).sum(axis=1))

    return loss


def descent(
    problem: Problem, sampling: Sampling, start: Float, preconditioner: Float, steps: int, skipped: int
) -> tuple[Float, Float]:
    """The mean of the iterates after ``skipped`` steps of length (t + 10)^−0.7, and the gradients there."""
    x, path, slopes = start.copy(), [], []
    for t in range(steps):
        slope = problem.at(x, sampling.loss(LOGIT, t))[1]
        x = x - (t + 10.0) ** -0.7 * (preconditioner @ slope)
        path.append(x)
        slopes.append(slope)
    return np.mean(path[skipped:], axis=0), np.array(slopes[skipped:])


@pytest.mark.claim("D-22")
def test_from_elbo_to_dlm_at_one_q(observe: Observer) -> None:
    """DLM ≤ bMC_{L+1} ≤ bMC_L ≤ ELBO at one q of a sparse GP: exact, and means of 60 steps to 4 standard errors."""
    problem = Problem(6, 5, 0.1)
    x = 0.5 * np.random.default_rng(1).standard_normal(20)
    seen: list[tuple[Float, Float, Float]] = []

    def watch(Y: Float, means: Float, variances: Float) -> Expected:
        seen.append((Y[:, 0].copy(), means[:, 0].copy(), variances.copy()))
        return direct(Y, means, variances)

    dlm, _ = problem.at(x, watch)
    y, m, v = seen[0]
    sizes = np.array([1.0, 2.0, 3.0, 8.0])
    rows = np.asarray(expected_objective(LOGIT, y[:, None], m[:, None], v[:, None], sizes))
    kl = dlm + float(LOGIT.log_expected_density(y, m, v).sum())
    exact = rows.sum(axis=0) + kl
    observe.lower("D-22", exact[-1], dlm)
    observe.lower("D-22", exact[:-1], exact[1:])
    observe.equal("D-22", exact[0], kl - float(LOGIT.expected_log_density(y, m, v).sum()), rtol=1e-10)
    for L, truth in zip(sizes, exact, strict=True):
        sampling = Sampling("bmc", Draws.of(5), int(L))
        totals = np.array([problem.at(x, sampling.loss(LOGIT, t))[0] for t in range(60)])
        observe.equal("D-22", totals.mean(), truth, atol=4.0 * standard_error(totals))


@pytest.fixture(scope="module")
def minima() -> dict[str, Any]:
    """n = 200, M = 10, logit: argmin h (DLM) and argmin h_2 (the mean of bmc at L = 2), with inverse Hessians."""
    problem = Problem(200, 10, 1.0)
    two = pairs(16)
    h = problem.minimiser(direct)
    h_2 = problem.minimiser(two, h)
    inverse = {"h": np.linalg.inv(problem.hessian(h, direct)), "h_2": np.linalg.inv(problem.hessian(h_2, two))}
    return {"problem": problem, "h": h, "h_2": h_2, "inverse": inverse}


@pytest.mark.claim("D-20", "D-22")
def test_the_minimisers_differ_and_the_rule_for_pairs_is_right(observe: Observer, minima: dict[str, Any]) -> None:
    """The product rule against D-21's integral at 2 rows, and both minima are minima."""
    rng = np.random.default_rng(2)
    Y, m, v = rng.integers(0, 2, (2, 1)).astype(float), 2.0 * rng.standard_normal((2, 1)), rng.uniform(0.2, 4.0, 2)
    value, by_mean, by_variance = expected_objective(LOGIT, Y[:, 0], m[:, 0], v, 2, gradient=True)
    rule = pairs(16)(Y, m, v)
    observe.equal("D-20", rule.total, value.sum(), rtol=1e-5)
    observe.equal("D-20", rule.in_mean[:, 0], by_mean, atol=1e-4)
    observe.equal("D-20", rule.in_variance, by_variance, atol=1e-4)
    problem, h, h_2 = minima["problem"], minima["h"], minima["h_2"]
    direct_values = [problem.at(x, direct)[0] for x in (h, h_2)]
    pair_values = [problem.at(x, pairs(16))[0] for x in (h, h_2)]
    observe.lower("D-22", pair_values, direct_values)
    observe.holds("D-22", direct_values[0] < direct_values[1] - 0.1 and pair_values[1] < pair_values[0] - 0.1)


@pytest.mark.broad
@pytest.mark.claim("D-24")
@pytest.mark.parametrize(("method", "L", "steps"), [("bmc", 2, 300), ("ups", 1, 170)])
def test_where_descent_ends(observe: Observer, minima: dict[str, Any], method: str, L: int, steps: int) -> None:
    """bmc at L = 2 ends at argmin h_2 and not at argmin h; ups at L = 1 ends at argmin h and not at argmin h_2.

    Each starts at the other's minimiser.  Along the line between the two, the mean of the iterates is within 3 standard
    errors of its own minimiser, and at least 5 from the other; the error is that of averaged descent, H⁻¹ΣH⁻¹/steps,
    Σ the covariance of the gradients.
    """
    own, other = ("h_2", "h") if method == "bmc" else ("h", "h_2")
    inverse, end, start = minima["inverse"][own], minima[own], minima[other]
    skipped = steps // 4
    mean, slopes = descent(minima["problem"], Sampling(method, Draws.of(1), L), start, inverse, steps, skipped)
    line = (start - end) / np.linalg.norm(start - end)
    spread = inverse @ np.cov(slopes.T) @ inverse
    error = float(np.sqrt(line @ spread @ line / (steps - skipped)))
    observe.equal("D-24", line @ mean, line @ end, atol=3.0 * error)
    observe.lower("D-24", abs(line @ (mean - start)), 5.0 * error)
