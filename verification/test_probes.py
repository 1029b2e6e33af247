"""Section B of the Rényi ledger: log-determinants by Lanczos, traces by random probes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import eye, log, mp, mpf
from observer import Observer
from renyi_instances import ORDERS, SEEDS, gram, instance

from gpbounds.kernels import Matern
from gpbounds.reference import linalg, renyi
from gpbounds.reference.linalg import log_det, trace
from gpbounds.renyi import log_det_estimate, nystrom

TINY = mpf("1e-30")


def norm(A: Any) -> Any:
    """Frobenius norm."""
    return mp.norm(list(A))


@pytest.mark.claim("R-lanczos")
@given(seed=SEEDS, alpha=ORDERS)
def test_lanczos_after_all_steps(observe: Observer, seed: int, alpha: Any) -> None:
    """N steps without breakdown: 𝒯 is Ξ in another basis.  A start without a part along an eigenvector misses it."""
    rng = np.random.default_rng(seed)
    case = instance(seed, "apart")
    big = case.xi(alpha) + mp.diag([mpf(i) for i in range(case.N)])  # eigenvalues are distinct
    T = linalg.lanczos(big, renyi.matrix(rng.standard_normal(case.N)), case.N)
    observe.holds("R-lanczos", case.N == T.rows)
    observe.equal("R-lanczos", log_det(T), log_det(big), rtol=1e-20, atol=mpf("1e-20"))
    values, vectors = mp.eigsy(big)
    blind = linalg.lanczos(big, vectors * mp.matrix([mpf(0)] + [mpf(1)] * (case.N - 1)), case.N)
    observe.equal("R-lanczos", log_det(blind), log_det(big) - log(values[0]), rtol=1e-12, atol=1e-12)


@pytest.mark.claim("R-lanczos")
@given(seed=SEEDS, alpha=ORDERS)
def test_stochastic_lanczos_quadrature(observe: Observer, seed: int, alpha: Any) -> None:
    """E ‖v‖² e₁' log(𝒯_v) e₁ over all sign vectors: log|Ξ| after N steps, from above and falling before."""
    case = instance(seed)
    big = case.xi(alpha)
    signs = linalg.probe_grid(case.N, "signs")
    truth = log_det(big)
    means = [sum(w * linalg.log_quadrature(big, v, k) for w, v in signs) for k in range(1, case.N + 1)]
    size = 1 + abs(truth) + mpf(case.N) * abs(log(norm(big)))
    observe.equal("R-lanczos", means[-1], truth, atol=mpf("1e-20") * size)
    for before, after in pairwise(means):
        observe.holds("R-lanczos", before >= after - mpf("1e-20") * size)
    logarithm = linalg.log_matrix(big)
    for _, v in signs[:2]:
        exact = (v.T * logarithm * v)[0]
        for k in range(1, case.N + 1):  # Gauss quadrature of a function whose even derivatives are negative
            observe.upper("R-lanczos", exact, linalg.log_quadrature(big, v, k), tol=mpf("1e-20") * size)


@pytest.mark.claim("R-lanczos")
def test_lanczos_counterexamples(observe: Observer) -> None:
    flat = 2 * eye(40)
    T = linalg.lanczos(flat, renyi.matrix(np.random.default_rng(0).standard_normal(40)), 40)
    observe.equal("R-lanczos", [log_det(T), log_det(flat)], [mpf("0.693"), mpf("27.73")], atol=5e-3)
    observe.fails("R-lanczos", abs(log_det(T) - log_det(flat)) < 1, "Ξ = 2·I₄₀: 𝒯 = [2], 0.693 for 27.73")
    observe.equal("R-lanczos", linalg.log_quadrature(flat, mp.ones(40, 1), 1), log_det(flat), rtol=1e-45)

    rng = np.random.default_rng(1)
    factor = rng.standard_normal((40, 60)) / np.sqrt(60)
    big = renyi.matrix(factor @ factor.T)
    start = renyi.matrix(rng.standard_normal(40))
    with mp.workdps(20):
        full = linalg.lanczos(big, start, 40)
        truth, early = log_det(full), [log_det(full[:k, :k]) for k in (5, 20)]
    observe.equal("R-lanczos", truth, float(np.linalg.slogdet(factor @ factor.T)[1]), rtol=1e-9)
    observe.fails(
        "R-lanczos", min(abs(e - truth) for e in early) < 5, "a random 40 × 40 Ξ: far off after 5 and 20 steps"
    )


@pytest.mark.claim("R-hutch")
@given(seed=SEEDS, alpha=ORDERS)
def test_probe_estimates_of_a_trace(observe: Observer, seed: int, alpha: Any) -> None:
    """Mean and variance of z'Ξ⁻¹Ξ̇z exactly: all signs, and nodes that replace the normal law for degree 4."""
    case = instance(seed)
    rng = np.random.default_rng(seed)
    inverse = case.xi(alpha) ** -1
    inner = renyi.scaled_residual(*case.prior, case.noise, alpha) ** -1
    for matrix in (inverse * gram(rng, case.N), inner * case.residual / case.noise):  # Ξ⁻¹Ξ̇, and the third term's A⁻¹Ȧ
        exact, size = trace(matrix), 1 + norm(matrix)
        for law in ("normal", "signs"):
            drawn = [(w, (z.T * matrix * z)[0]) for w, z in linalg.probe_grid(case.N, law)]
            mean = sum(w * x for w, x in drawn)
            spread = sum(w * (x - exact) ** 2 for w, x in drawn)
            observe.equal("R-hutch", mean, exact, atol=TINY * size)
            observe.equal("R-hutch", spread, linalg.probe_variance(matrix, law), atol=TINY * size**2)
        less, more = (linalg.probe_variance(matrix, law) for law in ("signs", "normal"))
        observe.holds("R-hutch", less <= more)
    observe.equal("R-hutch", linalg.probe_variance(mp.diag([1, 2, 3]), "signs"), 0)


@pytest.mark.claim("R-hutch")
def test_probe_estimates_by_simulation(observe: Observer) -> None:
    """40 000 draws at N = 12: mean within 5 standard errors, variance within 5 of its own."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (12, 1))
    r2 = (X - X.T) ** 2
    K = np.exp(-r2 / 2)
    matrix = np.linalg.solve(K + 0.1 * np.eye(12), K * r2)
    for law, z in (
        ("normal", rng.standard_normal((40_000, 12))),
        ("signs", rng.choice([-1.0, 1.0], (40_000, 12))),
    ):
        values = ((z @ matrix) * z).sum(axis=1)
        variance = float(linalg.probe_variance(renyi.matrix(matrix), law))
        observe.equal("R-hutch", values.mean(), np.trace(matrix), atol=5 * np.sqrt(variance / 40_000))
        fourth = ((values - values.mean()) ** 4).mean() - variance**2
        observe.equal("R-hutch", values.var(), variance, atol=5 * np.sqrt(fourth / 40_000))


@pytest.mark.claim("R-lanczos", "R-hutch")
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9, 1.0])
def test_the_computed_estimate(observe: Observer, alpha: float) -> None:
    """400 probes and N steps: within 5 standard errors, which are those of the probes' variance; few steps: above."""
    rng = np.random.default_rng(2)
    X, kernel, noise = rng.uniform(0, 3, (14, 1)), Matern(1.5), 0.05
    K, Q = kernel(X), nystrom(kernel, X, X[:4], jitter=0.0).Q
    truth = float(np.linalg.slogdet(noise * np.eye(14) + alpha * Q + (1 - alpha) * K)[1])
    found = [
        log_det_estimate(kernel, X, X[:4], noise=noise, alpha=alpha, probes=400, steps=k, rng=3, jitter=0.0)
        for k in (2, 14)
    ]
    observe.equal("R-lanczos", found[1].value, truth, atol=5 * found[1].standard_error + 1e-10)
    observe.holds("R-lanczos", found[0].value >= found[1].value - 1e-10)
    values, vectors = np.linalg.eigh(Q + noise * np.eye(14))
    root = vectors / np.sqrt(values) @ vectors.T
    inner = np.linalg.eigvalsh(root @ (noise * np.eye(14) + alpha * Q + (1 - alpha) * K) @ root)
    deviation = np.sqrt(2 * (np.log(inner) ** 2).sum() / 400)
    observe.equal("R-hutch", found[1].standard_error, deviation, rtol=0.25, atol=1e-12)
