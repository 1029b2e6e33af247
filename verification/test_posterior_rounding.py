"""The allowances of posteriors for rounding and for errors of the kernel's entries.

They are sums.  Where another summand is larger, no test would notice that one is missing: each is tested here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.divergences import (
    SparsePosterior,
    collapsed_posterior,
    free_posterior,
    full_posterior,
    gaussian_kl,
    whitened_posterior,
)
from gpbounds.kernels import Kernel, Matern

SEEDS = st.integers(0, 2**32 - 1)
ERRORS = st.sampled_from([0.0, 1e-12, 1e-6])
EPS = 2.0**-52


def norm(A: np.ndarray) -> float:
    """Frobenius norm."""
    return float(np.sqrt((A * A).sum()))


def problem(seed: int) -> tuple[Kernel, np.ndarray, np.ndarray, np.ndarray]:
    """A kernel, X, y and Z, all well apart; some rows of X within 1e-9 of rows of Z, so that K − Q is all rounding."""
    rng = np.random.default_rng(seed)
    kernel = Matern(1.5, float(np.exp(rng.normal())), 0.8)
    Z = np.arange(4.0)[:, None] + rng.uniform(-0.2, 0.2, (4, 1))
    X = np.concatenate([Z[:2] + 1e-9, rng.uniform(-1.0, 5.0, (7, 1))])
    return kernel, X, rng.standard_normal(9), Z


def line(X: np.ndarray) -> np.ndarray:
    """A prior mean."""
    return 0.5 - 0.3 * X[:, 0]


def rounding_of(L: np.ndarray, error: float) -> tuple[float, float, float, float]:
    """steps = (4 + √M)eps, |E| = steps·|LLᵀ| + M·error, |δ| less steps·k(x, x), and |F| = 1.25·|E||L⁻¹|²/√2."""
    M = len(L)
    steps = (4.0 + np.sqrt(M)) * EPS
    E = steps * norm(L @ L.T) + M * error
    return steps, E, np.sqrt(M) * error, 1.25 * E * norm(np.linalg.inv(L)) ** 2 / np.sqrt(2.0)


def predictions(q: SparsePosterior, X: np.ndarray, error: float, coefficients: dict[str, float]) -> Any:
    """mean_error and variance_error from the coefficients of √k(x,x), |CᵀV|, |w|."""
    L = q.inducing.chol.L
    steps, E, entry, _ = rounding_of(L, error)
    k = q.inducing.kernel.diag(X)
    V = np.linalg.solve(L, q.inducing.kernel(q.inducing.Z, X))
    half, lift = (np.sqrt((A**2).sum(axis=0)) for A in (q.factor.T @ V, np.linalg.solve(L.T, V)))
    root, delta, c = np.sqrt(k), steps * k + entry, coefficients.get
    mean = c("mean_half", 0.0) * half + c("mean_lift", 0.0) * lift + c("mean_root", 0.0) * root
    mean += steps * norm(q.mean) * root + norm(np.linalg.solve(L.T, q.mean)) * delta
    mean += 4.0 * EPS * (np.abs(line(X)) + np.abs(q.predict(X).mean))
    variance = E * lift**2 + 2.0 * delta * lift + 2.0 * steps * k
    variance += c("variance_half", 0.0) * half**2 + c("variance_cross", 0.0) * lift * half
    variance += c("variance_root", 0.0) * root * half
    left = k - np.einsum("ij,ij->j", *[q.inducing.whiten(X)] * 2)  # as computed, which may be below 0 by rounding
    at_inducing = (X[:, None] == q.inducing.Z[None]).all(axis=2).any(axis=1)
    return mean, variance + error + 2.0 * np.where(at_inducing, 0.0, np.maximum(-left, 0.0))


def same(observe: Observer, claim: str, computed: Any, stated: Any) -> None:
    for value, truth in zip((computed.mean_error, computed.variance_error), stated, strict=True):
        observe.equal(claim, value, truth, rtol=1e-5)


@pytest.mark.claim("P-25", "P-26", "P-37")
@given(seed=SEEDS, error=ERRORS)
def test_allowances_of_free_form_posteriors(observe: Observer, seed: int, error: float) -> None:
    kernel, X, _, Z = problem(seed)
    rng = np.random.default_rng(seed)
    M, mu = len(Z), rng.standard_normal(4)
    C = np.tril(rng.standard_normal((M, M)), -1) + np.diag(np.exp(rng.normal(size=M)))
    q = whitened_posterior(kernel, Z, mu, C, prior_mean=line, entry_error=error)
    steps, E, _, F = rounding_of(q.inducing.chol.L, error)
    same(
        observe,
        "P-37",
        q.predict(X),
        predictions(q, X, error, {"mean_root": F * norm(mu), "variance_root": 2.0 * F * norm(C)}),
    )
    own = M * EPS * q.kl + 4.0 * EPS * np.abs(np.diag(C) - 1.0).sum()
    observe.equal("P-26", q.kl_rounding, own, rtol=1e-9)
    a, B = mu + line(Z), C @ C.T
    q = free_posterior(kernel, Z, a, B, prior_mean=line, entry_error=error)
    L, root = q.inducing.chol.L, np.linalg.cholesky(B)
    H, e, inverse = (norm(np.linalg.solve(L.T, A)) for A in (q.factor, q.mean, np.eye(M)))
    within = 1.25 * steps * norm(root) ** 2 * norm(np.linalg.inv(root)) ** 2 / np.sqrt(2.0)
    sizes = {"mean_lift": E * e, "variance_half": 2.0 * within, "variance_cross": 2.0 * E * H}
    same(observe, "P-25", q.predict(X), predictions(q, X, error, sizes))
    kl = 0.5 * E * (H**2 + inverse**2 + e**2) + within * (norm(q.factor) ** 2 + np.sqrt(M))
    own = M * EPS * q.kl + 4.0 * EPS * np.abs(np.diag(q.factor) - 1.0).sum()
    observe.equal("P-26", q.kl_rounding, kl + own, rtol=1e-9)


@pytest.mark.claim("P-26", "P-27", "P-37")
@given(seed=SEEDS, error=ERRORS, alpha=st.sampled_from([0.0, 0.4, 1.0, 20.0]), noise=st.sampled_from([1e-3, 0.1, 10.0]))
def test_allowances_of_collapsed_posteriors(
    observe: Observer, seed: int, error: float, alpha: float, noise: float
) -> None:
    """First-order changes by E, by δ of each column, by η of D and by g of A, with the margin of 1.5."""
    kernel, X, y, Z = problem(seed)
    q = collapsed_posterior(kernel, X, y, Z, noise=noise, power=alpha, prior_mean=line, entry_error=error)
    L, mu, C, N, M = q.inducing.chol.L, q.mean, q.factor, len(X), len(Z)
    steps, E, entry, _ = rounding_of(L, error)
    r, k = y - line(X), kernel.diag(X)
    V = np.linalg.solve(L, kernel(Z, X))
    D = alpha * np.maximum(k - (V**2).sum(axis=0), 0.0) + noise
    G, b, S = (V / D) @ V.T, V @ (r / D), C @ C.T
    fit, rest, w = float((r * r / D).sum()), np.eye(M) - S, np.linalg.solve(L.T, V)
    rho = np.sqrt(max(fit - float(mu @ (2.0 * b - G @ mu)), 0.0) + 1e-12 * fit)
    H, e, T, again = (norm(np.linalg.solve(L.T, A)) for A in (C, mu, rest, S @ mu))
    columns, along, shrunk = norm((steps * k + entry) / np.sqrt(D)), norm(C.T @ mu), norm(S @ mu)
    lift, drift = norm_of(w.T) ** 2, norm_of(w.T) * (steps * np.sqrt(k.max() * k) + entry)
    eta = alpha * (E * float((lift / D).max()) + 2.0 * float((drift / D).max()) + error / noise) + 4.0 * EPS
    eta += max(alpha, 1.0) * (2.0 * M + 4.0) * EPS * float((k / D).max())
    g = (4.0 + np.sqrt(N) + np.sqrt(M)) * EPS * (1.0 + np.trace(G))
    g_fit = (4.0 + np.sqrt(N)) * EPS * np.sqrt(np.trace(G) * fit)
    mean = E * H * e + columns * (H * rho + e) + eta * rho + g * norm(mu) + g_fit
    variance = E * H**2 + 2.0 * columns * H + eta + g
    kl = 0.5 * E * T**2 + E * e * (0.5 * e + again) + columns * (H + again * rho + along * e)
    kl += 0.5 * g * (norm(C) ** 2 - norm(S) ** 2) + 0.5 * eta * norm(rest) ** 2
    kl += shrunk * (norm(mu) * g + g_fit) + along * eta * rho
    if max(variance, E * T**2) > 0.1:  # first order is not enough
        observe.holds("P-27", q.kl_rounding == np.inf)
        return
    same(
        observe,
        "P-37",
        q.predict(X),
        predictions(q, X, error, {"mean_half": 1.5 * mean, "variance_half": 1.5 * variance}),
    )
    own = M * EPS * q.kl + 4.0 * EPS * np.abs(np.diag(C) - 1.0).sum()
    observe.equal("P-27", q.kl_rounding, 1.5 * kl + own, rtol=1e-4)


@pytest.mark.claim("P-20", "P-22", "P-23")
@given(seed=SEEDS, error=ERRORS, noise=st.sampled_from([1e-3, 0.1, 10.0]))
def test_allowances_of_the_exact_posterior(observe: Observer, seed: int, error: float, noise: float) -> None:
    """With |E| and the eigenvectors' defect as they are measured: KL, predictions at the data and elsewhere."""
    kernel, X, y, new = problem(seed)
    q = full_posterior(kernel, X, y, noise=noise, prior_mean=line, entry_error=error)
    s, N, r, K = q.spectral, len(X), y - line(X), kernel(X)
    assert s.eigen.vectors is not None
    U, values = s.eigen.vectors, s.eigen.values
    steps = (16.0 + 2.0 * N) * EPS + 2.0 * norm(U.T @ U - np.eye(N))
    shift = norm(K - (U * values) @ U.T) + steps * values[0] + N * error
    margin, scale, k = (1.0 - shift / noise) ** -3, values + noise, kernel.diag(X)
    alpha = np.linalg.solve(K + noise * np.eye(N), r)
    summed = steps * (q.kl + float(r @ r) / noise)
    slope = float((values / scale**2).sum()) + 3.0 * float(alpha @ alpha)
    observe.equal("P-23", q.kl_rounding, 0.5 * shift * slope * margin + summed, rtol=1e-5)
    at, own = q.predict(), 4.0 * EPS
    stated = (
        shift * norm(alpha) * margin + steps * norm(r) + own * (np.abs(line(X)) + np.abs(at.mean)),
        shift * margin + 2.0 * steps * noise * float((values / scale).max()) + own * at.variance,
    )
    same(observe, "P-20", at, stated)
    predicted, cross = q.predict(new), kernel(new, X)
    size, reach = norm_of(cross), norm_of(np.linalg.solve(K + noise * np.eye(N), cross.T).T)
    wide, off, k = (shift + steps * float(scale.max())) * margin, np.sqrt(N) * error, kernel.diag(new)
    stated = (
        (wide * reach + off + steps * size) * norm(alpha) + own * (np.abs(line(new)) + np.abs(predicted.mean)),
        wide * reach**2 + 2.0 * off * reach + error + own * k + 2.0 * steps * size * reach,
    )
    same(observe, "P-20", predicted, stated)


def norm_of(rows: np.ndarray) -> np.ndarray:
    """The norm of each row."""
    return np.sqrt((rows * rows).sum(axis=1))


@pytest.mark.claim("P-20", "P-25", "P-26", "P-37")
@given(seed=SEEDS, error=st.sampled_from([1e-9, 1e-6]))
def test_a_kernel_that_is_off_by_its_entry_error_stays_within_the_allowances(
    observe: Observer, seed: int, error: float
) -> None:
    """The worst signs: far away, where the kernel is 0 and only its error remains; and in the KL."""
    kernel, X, y, Z = problem(seed)
    rng, far = np.random.default_rng(seed), np.array([[1e3]])
    exact = full_posterior(kernel, X, y, noise=0.1, entry_error=error)
    alpha = np.linalg.solve(kernel(X) + 0.1 * np.eye(len(X)), y)
    at = exact.predict(far)
    observe.upper("P-20", error * np.abs(alpha).sum(), at.mean_error)  # k(x, X) = error·sign(α)
    observe.upper("P-20", error, at.variance_error)  # k(x, x) larger by error
    mu, C = rng.standard_normal(4), np.diag(np.exp(rng.normal(size=4)))
    for q in (
        whitened_posterior(kernel, Z, mu, C, entry_error=error),
        free_posterior(kernel, Z, mu, C, entry_error=error),
        collapsed_posterior(kernel, X, y, Z, noise=0.1, power=1.0, entry_error=error),
    ):
        weights, at = np.linalg.solve(q.inducing.chol.L.T, q.mean), q.predict(far)
        observe.upper("P-37", error * np.abs(weights).sum(), at.mean_error)
        observe.upper("P-37", error, at.variance_error)
    free, Kuu = free_posterior(kernel, Z, mu, C, entry_error=error), kernel(Z)
    moved = []
    for _ in range(20):
        signs = np.sign(rng.standard_normal((4, 4)))
        signs = np.tril(signs) + np.tril(signs, -1).T
        moved.append(abs(gaussian_kl(mu, C, np.zeros(4), Kuu + error * signs) - gaussian_kl(mu, C, np.zeros(4), Kuu)))
    observe.upper("P-26", max(moved), free.kl_rounding)
    observe.holds("P-26", max(moved) > 1e-3 * free.kl_rounding)
