"""The allowances of posteriors for rounding and for errors of the kernel's entries.

Each allowance is a sum.  A test of the sum does not notice that a small summand is missing: each is tested by itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.divergences import (
    collapsed_posterior,
    free_posterior,
    full_posterior,
    gaussian_kl,
    sparse,
    whitened_posterior,
)
from gpbounds.divergences.errors import Errors, Rounding, free_errors, whitened_errors
from gpbounds.divergences.sparse import CollapsedLaw
from gpbounds.kernels import Kernel, Matern
from gpbounds.linalg import cholesky
from gpbounds.whitening import inducing

SEEDS = st.integers(0, 2**32 - 1)
ERRORS = st.sampled_from([0.0, 1e-12, 1e-6])
EPS = 2.0**-52
U = 0.5 * EPS


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


def gamma(steps: float) -> float:
    """1.01·n·u ≥ n·u/(1 − n·u)."""
    return 1.01 * steps * U


def rounding_of(L: np.ndarray, error: float) -> Rounding:
    """E, steps, √M·error, √tr(LLᵀ), |L⁻¹| and |L⁻ᵀb|/|x|: γ_{M+8}, γ_{M+4} and a margin of 1.01 each."""
    M, root, X = len(L), norm(L), norm(np.linalg.inv(L))
    kappa = gamma(M + 4) * root * X
    sizes = gamma(M + 8) * root**2 + M * error, 1.01 * gamma(M + 4), np.sqrt(M) * error, root
    return Rounding(*sizes, 1.01 * X / (1.0 - kappa), 1.01 * (1.0 + kappa))


@given(seed=SEEDS, error=ERRORS)
@pytest.mark.claim("N-rounded-kl")
def test_the_sizes_of_the_errors_of_factor_and_columns(observe: Observer, seed: int, error: float) -> None:
    kernel, _, _, Z = problem(seed)
    points = inducing(kernel, Z, 0.0)
    computed, stated = Rounding.of(points, error), rounding_of(points.chol.L, error)
    for name in ("E", "steps", "entry", "root", "inverse", "lifted"):
        observe.equal("N-rounded-kl", getattr(computed, name), getattr(stated, name), rtol=1e-9)
    observe.equal("N-rounded-kl", computed.F, 1.01 * stated.E * stated.inverse**2, rtol=1e-9)
    near = replace(points, defect=1e-30)
    observe.equal("N-rounded-kl", Rounding.of(near, error).E, 1e-30, rtol=1e-9)
    lengths = np.array([0.0, 2.0])
    truth = stated.steps * stated.root * lengths + stated.entry
    observe.equal("N-rounded-kl", computed.of_columns(lengths), truth, rtol=1e-9)


# Each charge by itself: every other size is 0, so that no other summand hides a missing one

ALONE = [{"E": 1e-6}, {"steps": 1e-6, "root": 2.0}, {"entry": 1e-6}, {"E": 1e-6, "inverse": 3.0}]
ALONE += [{"entry": 1e-5, "inverse": 3.0}, {"E": 1e-6, "steps": 1e-6, "entry": 1e-6, "root": 2.0, "inverse": 3.0}]
alone = pytest.mark.parametrize("sizes", ALONE, ids=lambda sizes: "-".join(sizes))


def only(sizes: dict[str, float]) -> Rounding:
    """The sizes of errors that are given, and 0."""
    return replace(Rounding(0.0, 0.0, 0.0, 0.0, 0.0, 1.0), **sizes)


@alone
@given(seed=SEEDS)
@pytest.mark.claim("N-rounded-kl", "P-37")
def test_charges_of_predictions(observe: Observer, sizes: dict[str, float], seed: int) -> None:
    """Means and variances from the coefficients of |V|, |CᵀV| and |w|."""
    rng, of = np.random.default_rng(seed), only(sizes)
    length, half, lift = np.exp(rng.standard_normal((3, 5)))
    for relative in (0.0, 0.05):
        c = dict(zip(COEFFICIENTS, np.exp(rng.standard_normal(9)), strict=True))
        errors = Errors(of, relative=relative, **c)
        delta, own = of.steps * of.root * length + of.entry, of.steps * length
        mean = c["mean_half"] * (half + own * c["spread"]) + c["mean_lift"] * lift + c["mean_length"] * length
        mean += own * c["size"] + delta * c["weights"]
        observe.equal("P-37", errors.of_mean(length, half, lift), 1.01 * mean, rtol=1e-9)
        d = own * c["spread"] + c["d_length"] * length + c["d_lift"] * lift + c["d_delta"] * delta
        within = (d * (2.0 * half + d) + relative * half**2) / (1.0 - relative) + of.steps * half**2
        left = (of.E * lift**2 + 2.0 * lift * delta + (of.inverse * delta) ** 2) / (1.0 - of.F)
        observe.equal("P-37", errors.of_variance(length, half, lift), 1.01 * (left + within), rtol=1e-9)


COEFFICIENTS = ("weights", "size", "spread", "mean_half", "mean_lift", "mean_length", "d_length", "d_lift", "d_delta")


@alone
@given(seed=SEEDS)
@pytest.mark.claim("N-rounded-kl", "P-25", "P-26")
def test_charges_of_free_and_whitened_posteriors(observe: Observer, sizes: dict[str, float], seed: int) -> None:
    kernel, _, _, Z = problem(seed)
    rng, of, M = np.random.default_rng(seed), only(sizes), 4
    points = inducing(kernel, Z, 0.0)
    L, mu = points.chol.L, rng.standard_normal(M)
    C = np.tril(rng.standard_normal((M, M)), -1) + np.diag(np.exp(rng.normal(size=M)))
    H, e = (norm(np.linalg.solve(L.T, A)) for A in (C, mu))
    size, spread, F, inverse = norm(mu), norm(C), of.F, of.inverse
    left = 1.0 / (1.0 - F)
    q = whitened_errors(of, points, mu, C)
    tau = np.sqrt(2.0) * F / (1.0 + np.sqrt(1.0 - 2.0 * F))
    x = 1.01 * tau / (1.0 - tau)
    stated = {"weights": e + x * size * inverse, "size": size, "spread": spread, "mean_length": x * size, "kl": 0.0}
    stated |= {"d_length": x * spread, "d_delta": (1.0 + x) * spread * inverse, "mean_half": 0.0, "relative": 0.0}
    for name, value in stated.items():
        observe.equal("P-26", getattr(q, name), value, rtol=1e-9)
    shift, chol = L @ mu, cholesky(np.tril(L @ C) @ np.tril(L @ C).T)
    root, inverse_B = norm(chol.L), norm(np.linalg.inv(chol.L))
    kappa = gamma(M + 4) * root * inverse_B
    F_B = 1.01 * gamma(M + 8) * (root * 1.01 * inverse_B / (1.0 - kappa)) ** 2
    delta, Delta = of.steps * of.root * size + 2.0 * U * norm(shift), of.steps * of.root * spread
    d = inverse * Delta
    kl = F * left + F_B / (1.0 - F_B) + of.E * (H + inverse * d) ** 2 * left + 2.0 * H * Delta + d**2
    kl += F_B * (spread + d) ** 2 * left + (of.E * e**2 + 2.0 * e * delta + (inverse * delta) ** 2) * left + 8 * M * U
    moved = of.E * e + delta
    stated = {"kl": 0.505 * kl, "weights": e + inverse**2 * moved * left, "mean_lift": moved * left, "relative": F_B}
    stated |= {"d_lift": (of.E * H + Delta) * left, "d_delta": (H + Delta * inverse**2) * left, "mean_half": 0.0}
    q = free_errors(of, points, shift, mu, C, chol)
    for name, value in stated.items():
        observe.equal("P-26", getattr(q, name), value, rtol=1e-8)


@alone
@given(seed=SEEDS, alpha=st.sampled_from([0.0, 0.4, 20.0]), noise=st.sampled_from([1e-2, 0.1, 10.0]))
@pytest.mark.claim("N-rounded-kl", "P-27")
def test_charges_of_collapsed_posteriors(
    observe: Observer, sizes: dict[str, float], seed: int, alpha: float, noise: float
) -> None:
    """Changes by E, by δ of each column, by η of D and by the rounding of G, of VD⁻¹r, of C and of μ."""
    kernel, X, y, Z = problem(seed)
    points, law, of, M = inducing(kernel, Z, 0.0), CollapsedLaw(noise, alpha, 1e-9), only(sizes), 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounding, "of", staticmethod(lambda *_: of))
        sums = law.sums(points, X, y)
        q = law.posterior(points, sums)
    L, mu, C, G, b = points.chol.L, q.mean, q.factor, sums.G, sums.b
    k, V = kernel.diag(X), np.linalg.solve(L, kernel(Z, X))
    D = alpha * np.maximum(k - (V**2).sum(axis=0), 0.0) + noise
    delta, w = of.steps * of.root * np.sqrt(k) + of.entry, norm_of(np.linalg.solve(L.T, V).T)
    moved = (of.E * w**2 + 2.0 * w * delta + (of.inverse * delta) ** 2) / (1.0 - of.F) + 1e-9 + 4.0 * of.steps * k
    columns, eta = norm(delta / np.sqrt(D)), alpha * float((moved / D).max()) + 4.0 * U
    observe.equal(
        "P-27", [sums.moved * alpha + 4.0 * U, sums.columns, sums.fit], [eta, columns**2, (y**2 / D).sum()], rtol=1e-6
    )
    d, fit, sloppy = np.sqrt(np.diag(G)), np.sqrt(sums.fit), gamma(sums.depth + M + 16)
    size, spread, dmu = norm(mu), norm(C), float(np.sqrt(np.diag(G)) @ np.abs(mu))
    H, e, along = (
        norm(np.linalg.solve(L.T, C)),
        norm(np.linalg.solve(L.T, mu)),
        norm(C.T @ mu) + of.steps * spread * size,
    )
    T = norm(np.linalg.solve(L.T, np.eye(M) - C @ C.T)) + of.steps * spread**2 * of.inverse
    B, cd = norm(np.eye(M) - C.T @ C) + of.steps * spread**2, norm(np.abs(C.T) @ d)
    turned = np.linalg.cholesky((np.eye(M) + G)[::-1, ::-1])
    c = sparse._inverse_error(C, turned[::-1, ::-1])
    rho = np.sqrt(max(sums.fit - mu @ (2.0 * b - G @ mu), 0.0)) + np.sqrt(sloppy) * (fit + dmu)
    g, g_fit = sloppy * (cd**2 + spread**2), sloppy * (cd * (fit + dmu) + spread * size)
    residual = norm(C.T @ (b - mu - G @ mu))
    residual += 2.0 * of.steps * norm(np.abs(C.T) @ (np.abs(b) + np.abs(mu) + np.abs(G) @ np.abs(mu)))
    eta = alpha * sums.moved + 4.0 * U
    zeta, h, qq = eta / (1.0 - eta) if eta <= 0.1 else np.inf, H * columns, 1.0 + c + g
    crossed = (2.0 * qq * h + h**2) * (1.0 + zeta)
    pi = of.E * H**2 + crossed + zeta * B + g + c
    if not max(pi, of.F) <= 0.1:  # beyond this, nothing is proved
        observe.holds("P-27", q.kl_rounding == np.inf and np.isinf(q.predict(X).variance_error[2:]).all())
        return
    s = of.E * H * e + h * rho + (qq + h) * (columns * e + zeta * (rho + columns * e)) + g_fit + residual
    s /= 1.0 - pi
    kl = of.E * T**2 + crossed + zeta * B**2 + (g + c) * B + 4.0 * pi**2 + of.F**2
    kl += of.E * e**2 + 2.0 * s * (along + of.E * e * H) + 1.3 * s**2
    computed = [q.errors.kl, q.errors.mean_half, q.errors.relative, q.errors.d_delta, q.errors.weights]
    observe.equal("P-27", computed, [0.505 * kl, s, pi, H, e + H * s], rtol=1e-6)
    own = 1.01 * (gamma(0.5 * M * (M + 1) + 160) * q.kl + 4.0 * EPS * np.abs(np.diag(C) - 1.0).sum())
    observe.equal("P-26", q.kl_rounding - q.errors.kl, own, rtol=1e-3 + 1e-14 * q.errors.kl / own)


@given(seed=SEEDS)
@pytest.mark.claim("N-rounded-kl")
def test_the_charge_for_the_inverse_factor(observe: Observer, seed: int) -> None:
    """‖CᵀAC − I‖ for any C: 2t + t², t = ‖CᵀU − I‖, and the backward error of U."""
    rng, M = np.random.default_rng(seed), 5
    C, factor = np.tril(rng.standard_normal((M, M))), np.triu(rng.standard_normal((M, M)))
    sizes = norm(np.abs(C.T) @ np.abs(factor)) * (1.0 + gamma(M + 4))
    t = norm(C.T @ factor - np.eye(M)) + gamma(M + 4) * sizes
    observe.equal(
        "N-rounded-kl", sparse._inverse_error(C, factor), 1.01 * (t * (2 + t) + gamma(M + 8) * sizes**2), rtol=1e-12
    )
    C = np.linalg.inv(factor).T
    sizes = norm(np.abs(C.T) @ np.abs(factor))
    least = 2.0 * gamma(M + 4) * sizes + gamma(M + 8) * sizes**2
    observe.lower("N-rounded-kl", sparse._inverse_error(C, factor), least)


@given(seed=SEEDS, error=ERRORS, noise=st.sampled_from([1e-3, 0.1, 10.0]), skew=st.sampled_from([0.0, 1e-9, 1e-4]))
@pytest.mark.claim("N-rounded-exact", "P-20", "P-23")
def test_charges_of_the_exact_posterior(observe: Observer, seed: int, error: float, noise: float, skew: float) -> None:
    """With ‖E‖ and ‖UᵀU − I‖ as they are measured, for eigenvectors that are off, too: KL and predictions."""
    kernel, X, y, new = problem(seed)
    rng, N, r, K = np.random.default_rng(seed), len(X), y - line(X), kernel(X)
    q = full_posterior(kernel, X, y, noise=noise, prior_mean=line, entry_error=error)
    turned = q.spectral.eigen.vectors + skew * rng.standard_normal((N, N)) / N
    s = replace(q.spectral, eigen=replace(q.spectral.eigen, vectors=turned))
    q = replace(q, spectral=s)
    values, x, root = s.eigen.values, s.eigen.values / noise, np.sqrt(noise)
    sums = 1.01 * gamma(N + 8) * np.sqrt(N)
    o = 1.01 * (norm(turned.T @ turned - np.eye(N)) + sums * np.sqrt(N))
    E = norm(K - (turned * values) @ turned.T) + gamma(N + 8) * values.sum() * (1.0 + o) + N * error
    E *= 1.01
    observe.equal("N-rounded-exact", [s.skew, s.shift], [o, E], rtol=1e-2 if skew == error == 0.0 else 1e-5)
    o, E = s.skew, s.shift
    if E > 0.1 * noise:
        observe.holds("N-rounded-exact", q.kl_rounding == np.inf)
        return
    left, whole, share = 1.0 / (1.0 - E / noise), norm(r), float((x / (1.0 + x)).max())
    rotated = turned.T @ r
    alpha = (1.0 + 3.0 * o) * (norm(rotated / (1.0 + x)) + (1.2 * o + 2.0 * sums) * whole) / root
    z = norm(np.sqrt(x) / (1.0 + x) * rotated) / root
    step = (1.2 * share**1.5 * o + sums) * whole / root
    twice = E / noise * ((1.0 + 1.2 * o) * norm(x / (1.0 + x) ** 2) + E / noise + 3.0 * (alpha * left) ** 2)
    kl = 0.5 * (twice + (2.0 * z + step) * step) + (2.3 * o + gamma(N + 160)) * q.kl
    observe.equal("P-23", q.kl_rounding, 1.01 * kl, rtol=1e-9)
    at, own = q.predict(), 4.0 * EPS
    mean = E * alpha * left / root + (1.3 * share**2 * o + 2.5 * share * sums) * whole
    mean = 1.01 * (mean + own * (np.abs(line(X)) + np.abs(at.mean)))
    variance = 1.01 * (E * left + (1.3 * share * o + gamma(N + 16)) * at.variance)
    observe.equal("P-20", at.mean_error, mean, rtol=1e-9)
    observe.equal("P-20", at.variance_error, variance, rtol=1e-9)
    if skew:
        return
    at, cross, k = q.predict(new), kernel(new, X), kernel.diag(new)
    sizes, off = norm_of(cross), np.sqrt(N) * error
    weights = norm_of(cross @ turned / (values + noise))
    reach = (1.0 + 3.0 * o) * (weights + (1.2 * o + 2.0 * sums) * sizes / noise)
    own = 1.3 * o + 2.0 * sums
    mean = left * (left * E * reach + off) * alpha / root + own * (sizes * alpha / root + 2.0 * reach * whole)
    mean += 4.0 * EPS * (np.abs(line(new)) + np.abs(at.mean))
    variance = left * (E * reach**2 + 2.0 * off * reach) + off**2 / noise + error + 4.0 * EPS * k
    variance += 3.0 * own * sizes * reach
    observe.equal("P-20", at.mean_error, 1.01 * mean, rtol=1e-9)
    observe.equal("P-20", at.variance_error, 1.01 * variance, rtol=1e-9)


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
