"""N-sidak: rows with conditional variances of their own bound the evidence of log-concave likelihoods."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from observer import Observer

from fitting.objectives.narrowed import NarrowedLosses, narrowing
from fitting.objectives.objective import Objective, objective, variational_objective
from fitting.objectives.point import Parameters
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.reference import likelihoods as reference

FAMILIES = {
    "gaussian": (Gaussian(0.3), reference.gaussian(mpf("0.3"))),
    "probit": (Bernoulli("probit"), reference.bernoulli("probit")),
    "logit": (Bernoulli("logit"), reference.bernoulli("logit")),
    "exp": (Poisson("exp"), reference.poisson("exp")),
    "softplus": (Poisson("softplus"), reference.poisson("softplus")),
}


def targets(family: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if family == "gaussian":
        return rng.standard_normal(n)
    if family in ("probit", "logit"):
        return rng.choice([-1.0, 1.0], n)
    return rng.poisson(2.0, n).astype(float)


def narrowed(X: np.ndarray, y: np.ndarray, likelihood: Likelihood, **options: float) -> Objective:
    return variational_objective(X, y, likelihood, **options).with_goal(structure="diagonal")  # type: ignore[arg-type]


def two_rows(seed: int, family: str) -> tuple[SquaredExponential, np.ndarray, np.ndarray, Parameters]:
    """Two rows, often close to each other, one inducing point and any q."""
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(float(10.0 ** rng.uniform(-0.5, 0.7)), 1.0)
    X = np.array([[0.0], [10.0 ** rng.uniform(-3.0, 0.5)]])
    q = FactorLaw(rng.standard_normal((1, 1)), np.array([[rng.uniform(0.1, 1.0)]]))
    point = Parameters(kernel, FAMILIES[family][0], rng.uniform(-2.0, 2.0, (1, 1)), q)
    return kernel, X, targets(family, rng, 2), point


def evidence_of_two(likelihood: Likelihood, y: np.ndarray, K: np.ndarray, nodes: int) -> float:
    """log p(y) by Gauss–Hermite quadrature over f = Lz."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    L = np.linalg.cholesky(K)
    first = likelihood.log_density(y[0], L[0, 0] * z)
    second = likelihood.log_density(y[1], L[1, 0] * z[:, None] + L[1, 1] * z)
    logs = first[:, None] + second + np.log(weights)[:, None] + np.log(weights)
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum() / (2.0 * np.pi)))


def both(seed: int, family: str) -> tuple[float, float]:
    """The diagonal bound and the ELBO."""
    _, X, y, point = two_rows(seed, family)
    problems = [make(X, y, FAMILIES[family][0], jitter=0.0) for make in (narrowed, variational_objective)]
    return -problems[0].minimised(point, gradient=False).value, -problems[1].minimised(point, gradient=False).value


@pytest.mark.claim("N-sidak")
@pytest.mark.parametrize("family", FAMILIES)
def test_two_rows_against_their_evidence(observe: Observer, family: str) -> None:
    """Two rules agree on the evidence; sparse q, from close to the best to far from it."""
    checked = 0
    for seed in range(10):
        kernel, X, y, _ = two_rows(seed, family)
        truths = [evidence_of_two(FAMILIES[family][0], y, kernel(X), nodes) for nodes in (40, 56)]
        if abs(truths[1] - truths[0]) > 1e-5:  # f has a variance beyond the reach of the nodes
            continue
        bound, elbo = both(seed, family)
        observe.lower("N-sidak", truths[1], bound, tol=1e-4)
        observe.lower("N-sidak", bound, elbo, tol=1e-12)
        checked += 1
    assert checked >= 4


@pytest.mark.slow
@pytest.mark.claim("N-sidak")
@pytest.mark.parametrize("family", ["logit", "exp"])
def test_two_rows_against_their_evidence_in_mpmath(observe: Observer, family: str) -> None:
    kernel, X, y, _ = two_rows(0, family)
    with mp.workdps(15):
        K = mpmath.matrix(kernel(X).tolist())
        truth = reference.log_evidence_of_two(FAMILIES[family][1], [int(each) for each in y], K)
    observe.lower("N-sidak", truth, both(0, family)[0], tol=1e-9)


@pytest.mark.claim("N-sidak")
@pytest.mark.parametrize(
    "family", ["logit", *(pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES if f != "logit")]
)
def test_rows_against_mpmath_and_their_best_variance(observe: Observer, family: str) -> None:
    """The loss is −(the row of the reference) at the v that the library finds, and no other v is better."""
    rng = np.random.default_rng(7)
    likelihood, log_density = FAMILIES[family]
    y, m = targets(family, rng, 1), rng.standard_normal(1)
    t, r = 10.0 ** rng.uniform(-2.0, 0.5, 1), 10.0 ** rng.uniform(-1.0, 1.0, 1)
    v = narrowing(likelihood, y, m, t, r)
    total = NarrowedLosses(likelihood).given(r)(y[:, None], m[:, None], t + r).total
    with mp.workdps(15):
        target = int(y[0]) if family != "gaussian" else mpf(float(y[0]))
        value, *others = (
            reference.narrowed_row(log_density, target, m[0], t[0], r[0], share * mpf(float(v[0])), [(0, 1)])
            for share in (1, mpf("1.01"), mpf("0.99"))
        )
        observe.equal("N-sidak", -total, value, rtol=1e-10)
        for other in others:
            observe.lower("N-sidak", value, other)


@pytest.mark.claim("N-sidak")
def test_for_gaussian_noise_it_is_the_collapsed_diagonal_bound(observe: Observer) -> None:
    """At VFE's q: log N(y; 0, Q + σ²I) − ½ Σ log(1 + r/σ²), at most the exact log p(y)."""
    rng = np.random.default_rng(3)
    X, kernel, noise = rng.standard_normal((40, 2)), SquaredExponential(1.3, [0.7, 1.4]), 0.3
    y, Z = np.sin(X @ [1.0, 2.0]) + 0.3 * rng.standard_normal(40), X[:6]
    J = narrowed(X, y, Gaussian(noise), jitter=0.0)
    best = J.complete(Parameters(kernel, Gaussian(noise), Z))
    cross = kernel(Z, X)
    Q = cross.T @ np.linalg.solve(kernel(Z), cross)
    r = kernel.diag(X) - np.diag(Q)
    cov = Q + noise * np.eye(40)
    evidence = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2.0 * np.pi * cov)[1])
    value = -J.minimised(best, gradient=False).value
    observe.equal("N-sidak", value, evidence - 0.5 * np.log1p(r / noise).sum(), rtol=1e-10)
    observe.lower("N-sidak", objective(X, y, "exact").evaluate(kernel, noise).value, value)
    slopes = J.minimised(best).gradient
    assert slopes is not None
    observe.equal("N-sidak", slopes.mean, 0.0, atol=1e-9)  # VFE's q is the best here, too


@pytest.mark.claim("N-sidak")
def test_for_a_student_it_fails(observe: Observer) -> None:
    """Two rows of one f, of which the second is far: its log density is convex about the mean of f."""
    student, y, v = StudentT(4.0, 0.05), np.array([0.0, 2.0]), np.array([0.0036, 1.63])
    claimed = student.expected_log_density(y, np.zeros(2), v).sum() + 0.5 * (1.0 + np.log(v) - v).sum()
    f = np.linspace(-9.0, 9.0, 20001)
    logs = student.log_density(0.0, f) + student.log_density(2.0, f) - 0.5 * f * f
    truth = float(np.log(np.exp(logs).sum() * (f[1] - f[0]) / np.sqrt(2.0 * np.pi)))
    observe.fails("N-sidak", claimed <= truth + 0.7, "Student-t with 4 degrees of freedom, scale 0.05, y = (0, 2)")
    point = Parameters(SquaredExponential(), student, y[:1, None], FactorLaw(np.zeros((1, 1)), np.eye(1)))
    with pytest.raises(ValueError, match="log-concave"):
        narrowed(y[:, None], y, student).minimised(point)
