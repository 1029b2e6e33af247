"""Failure frequencies of statements that hold with probability 1 − δ, over thousands of draws in the tightest cases.

δ is so large that failures occur in the tightest case known: a bound a few per cent too small, or a confidence too
high, would be noticed.  For a statement that no known case violates, the same test refutes a slightly stronger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from observer import Observer

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform, kdpp, rate, spectrum
from gpbounds.kernels import Kernel
from gpbounds.lowrank import MercerFeatures, fourier_kl, fourier_rank, frequencies, mercer_kl, truncation
from gpbounds.rates.corollaries import Corollary, matern_corollary, smooth_corollary
from gpbounds.sandwich import predictive

DRAWS = 4000


def seen(observe: Observer, claims: tuple[str, ...], failed: Any, delta: float, least: float = 0.0) -> None:
    """As often as promised, and in a share of at least ``least`` of the draws: the test can see failures."""
    failures = int(np.count_nonzero(failed))
    for claim in claims:
        observe.frequency(claim, failures, np.size(failed), delta)
        observe.holds(claim, failures >= least * np.size(failed))


# --- the theorems ---------------------------------------------------------------------------------------------------


N, FAR, NOISE_SMALL, NOISE_LARGE = 40, 4, 0.036, 1000.0
CLUSTERS = np.r_[np.zeros(N - FAR), np.full(FAR, 10.0)]
"""Two uncorrelated sites: one inducing point leaves a trace of 4, with probability ⅒ one of 36."""


def left_by_one_point(far: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """(D_1(0), what ‖y‖²/(2σ²) is multiplied by at worst): K − Q is 11ᵀ on the site that is left, Q = 0 there."""
    x = np.where(far, N - FAR, FAR) / noise
    return 0.5 * (x - np.log1p(x)), x / (1.0 + x)


@pytest.mark.broad
@pytest.mark.claim("R-thm1", "R-thm2", "R-thm-1", "N-thm", "R-cor1")
@pytest.mark.parametrize(("tv", "delta"), [(0.0, 0.21), (0.05, 0.27)])
def test_theorems_where_markovs_inequality_is_nearly_attained(observe: Observer, tv: float, delta: float) -> None:
    """Given X, α = 1: the trace is large just as often as its mean allows, but for a factor of two.

    With tv > 0 the law of Z is the worst within tv of the k-DPP: so much mass moved to the far site.
    """
    rng, kernel = np.random.default_rng(1), SquaredExponential()
    values, vectors = np.linalg.eigh(kernel(CLUSTERS))
    Z = np.array([kdpp.sample_eigen(values, vectors, 1, rng)[0] for _ in range(DRAWS)])
    far = (Z >= N - FAR) | (rng.random(DRAWS) < tv / (1 - FAR / N))
    arguments = {"inputs": Empirical(CLUSTERS), "delta": delta, "tv": tv}
    claims = ("R-cor1",) if tv else ()
    # any y: the worst y depends on Z; the noise is large, so that the term of y decides
    norm2 = 40.0 * NOISE_LARGE
    at_zero, reach = left_by_one_point(far, NOISE_LARGE)
    worst = at_zero + 0.5 * norm2 / NOISE_LARGE * reach
    bound = float(rate(kernel, N, 1, 1.0, noise=NOISE_LARGE, y_norm2=norm2, **arguments))
    seen(observe, ("R-thm2", "N-thm", *claims), worst > bound, delta, least=0.07)
    rare = 0.07  # rarer than the far site: the bound never fails, a third of it fails more often than δ
    bound = float(rate(kernel, N, 1, 1.0, noise=NOISE_LARGE, y_norm2=norm2, inputs=Empirical(CLUSTERS), delta=rare))
    observe.holds("R-thm2", not (worst > bound).any() and (worst > bound / 3).mean() > 1.3 * rare)
    # y from the prior: along 11ᵀ it has the variance of the site and of the noise
    at_zero, _ = left_by_one_point(far, NOISE_SMALL)
    x = np.where(far, N - FAR, FAR) / NOISE_SMALL
    drawn = at_zero + 0.5 * x * rng.standard_normal(DRAWS) ** 2
    bound = float(rate(kernel, N, 1, 1.0, noise=NOISE_SMALL, **arguments))
    seen(observe, ("R-thm1", "N-thm", *claims), drawn > bound, delta, least=0.02)
    printed = float(rate(kernel, N, 1, 1.0, noise=NOISE_SMALL, form="printed", **arguments))
    seen(observe, ("R-thm1", "R-thm-1", *claims), drawn > printed, delta, least=0.01)


def worst_gaps(
    kernel: Kernel, inputs: Gaussian | Uniform, shape: tuple[int, int], noise: float, alpha: float, draws: int
) -> Any:
    """(D_α(0), the largest eigenvalue of what ½y is squared with) for X iid and Z from the k-DPP of the size asked."""
    rng, (size, M) = np.random.default_rng(3), shape
    for _ in range(draws):
        K = kernel(inputs.sample(size, rng))
        Z = kdpp.sample(K, M, rng)
        V = np.linalg.solve(np.linalg.cholesky(K[np.ix_(Z, Z)]), K[Z])
        R = K - V.T @ V
        eye, xi = np.eye(size), noise * np.eye(size) + K - alpha * R
        d = np.maximum(np.linalg.eigvalsh(R), 0.0) / noise
        log_det = 0.5 * alpha * np.log1p((1 - alpha) * d).sum() / (1 - alpha)
        at_zero = log_det - 0.5 * np.linalg.slogdet(eye + alpha * np.linalg.solve(xi, R))[1]
        yield at_zero, np.linalg.eigvalsh(np.linalg.inv(xi) - np.linalg.inv(K + noise * eye))[-1]


@pytest.mark.claim("R-cor2", "R-mat-t", "N-mat")
@pytest.mark.parametrize("draws", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_corollaries(observe: Observer, draws: int) -> None:
    """They are far from tight: but with 2 points in place of 13 the promise of the first is broken in most draws."""
    size, noise, delta, norm_ratio = 40, 20.0, 0.5, 1.0
    smooth, rough = SquaredExponential(), Matern(2.5, 1.0, 0.5)
    law, M = spectrum(rough, inputs=Uniform()), np.arange(1.0, 5000.0)
    constant = float(np.exp((law.log_tail(M) + 5 * np.log(M)).max())) * 1.001
    same = {"noise": noise, "delta": delta, "norm_ratio": norm_ratio}
    cases: list[tuple[str, Kernel, Gaussian | Uniform, Corollary]] = [
        ("R-cor2", smooth, Gaussian(), smooth_corollary(smooth, size, 0.5, gamma=0.1, **same)),
        ("N-mat", rough, Uniform(), matern_corollary(2, size, 0.5, constant=constant, gamma=0.2, **same)),
        (
            "R-mat-t",
            rough,
            Uniform(),
            matern_corollary(2, size, 0.5, constant=constant, gamma=0.2, form="printed", **same),
        ),
    ]
    for claim, kernel, inputs, corollary in cases:
        arguments = (noise, 0.5, draws)
        gaps = [a + 0.5 * norm_ratio * size * b for a, b in worst_gaps(kernel, inputs, (size, corollary.M), *arguments)]
        seen(observe, (claim,), np.array(gaps) > float(corollary.bound), delta)
        if claim == "R-cor2":
            fewer = [a + 0.5 * norm_ratio * size * b for a, b in worst_gaps(kernel, inputs, (size, 2), *arguments)]
            observe.holds(claim, (np.array(fewer) > float(corollary.bound)).mean() > delta)


# --- random Fourier features ----------------------------------------------------------------------------------------


CYCLES = SquaredExponential(1.0, 1.0 / (2.0 * np.pi))


def feature_errors(X: np.ndarray, noise: float, m: int, draws: int, seed: int) -> np.ndarray:
    """Eigenvalues of (K + σ²I)^(−½)(Sigma − K)(K + σ²I)^(−½) for many draws of m classical frequencies."""
    rng, K = np.random.default_rng(seed), CYCLES(X)
    values, U = np.linalg.eigh(K)
    V = (U / np.sqrt(np.maximum(values, 0.0) + noise)) @ U.T
    errors = []
    for _ in range(0, draws, 500):
        Z = np.exp(2j * np.pi * rng.standard_normal((500, m))[..., None] * X)
        Sigma = np.einsum("dki,dkj->dij", Z, Z.conj()).real / m
        errors.append(np.linalg.eigvalsh(V @ (Sigma - K) @ V))
    return np.concatenate(errors)


def divergence(e: np.ndarray) -> np.ndarray:
    """KL(exact‖approximate) = ½Σ[log(1 + e) − e/(1 + e)]."""
    return 0.5 * (np.log1p(e) - e / (1.0 + e)).sum(axis=-1)


@pytest.mark.claim("N-rff", "L-29", "L-26")
@pytest.mark.parametrize(("points", "m"), [(2, 5), (2, 20), (3, 20)])
def test_fourier_features_of_points_far_apart(observe: Observer, points: int, m: int) -> None:
    """K = I and much noise: all frequencies matter alike, and Markov's inequality on ‖E‖_F² loses a factor of four."""
    X, noise, delta = 100.0 * np.arange(float(points)), 100.0, 0.9
    bound = float(fourier_kl(CYCLES, points, m, noise=noise, delta=delta, features="classical"))
    kls = divergence(feature_errors(X, noise, m, 4 * DRAWS, m))
    seen(observe, ("N-rff", "L-29", "L-26"), kls > bound, delta, least=0.01)
    seen(
        observe,
        ("N-rff",),
        kls > float(fourier_kl(CYCLES, points, m, noise=noise, delta=0.5, features="classical")),
        0.5,
    )


@pytest.mark.broad
@pytest.mark.claim("L-21", "L-27", "L-28", "L-29", "L-26")
@pytest.mark.parametrize(("points", "noise", "delta"), [(2, 1.0, 0.9), (5, 0.5, 0.3)])
def test_numbers_of_fourier_features(observe: Observer, points: int, noise: float, delta: float) -> None:
    """The numbers of L-21, L-27 and L-28 are far from too small: a fortieth or a hundredth of them breaks promises."""
    X = np.random.default_rng(2).random(points) * (100.0 if points == 2 else 1.0)
    values = np.maximum(np.linalg.eigvalsh(CYCLES(X)), 0.0)
    dimension, n = float((values / (values + noise)).sum()), points / noise
    for eps in (0.02, 0.2):
        target = eps * points
        classical = fourier_rank(CYCLES, points, eps * points, noise=noise, delta=delta, rule="classical")
        numbers = {
            "L-27": frequencies.spectral(n, dimension, delta, eps),
            "L-28": frequencies.frobenius(n, dimension, delta, target),
            "L-26": float(classical.notes[0].split()[0]),
        }
        for claim, m in numbers.items():  # no more than 400: with fewer frequencies failures are likelier
            kls = divergence(feature_errors(X, noise, min(int(m), 400), 2000, 5))
            seen(observe, (claim, "L-29"), kls > target, delta)
        if eps == 0.02:
            bolder = divergence(feature_errors(X, noise, max(1, int(numbers["L-28"]) // 100), 2000, 6))
            observe.holds("L-28", (bolder > target).mean() > 0.02)
    gap = 0.5
    m = int(np.ceil(8.0 / 3.0 / gap**2 * n * np.log((16.0 * dimension + 8.0) / delta)))
    seen(observe, ("L-21",), np.abs(feature_errors(X, noise, min(m, 400), 2000, 7)).max(axis=1) > gap, delta)
    if points > 2:  # two points never differ by more than the gap
        bolder = np.abs(feature_errors(X, noise, max(1, m // 40), 2000, 7)).max(axis=1)
        observe.holds("L-21", (bolder > gap).mean() > 0.02)


# --- truncated Mercer expansions ------------------------------------------------------------------------------------


@pytest.mark.claim("L-41", "L-42", "L-43")
@pytest.mark.parametrize(
    ("lengthscale", "rank", "size", "delta", "least"),
    [(4.0, 1, 1, 0.5, 0.1), (4.0, 1, 3, 0.5, 0.05), (2.0, 2, 2, 0.7, 0.1)],
)
def test_truncated_expansions_of_few_data(
    observe: Observer, lengthscale: float, rank: int, size: int, delta: float, least: float
) -> None:
    """Much noise: KL grows with the square of the residual, which Markov's inequality bounds within a small factor."""
    rng, noise, draws = np.random.default_rng(4), 100.0, 5 * DRAWS
    kernel, inputs = SquaredExponential(1.0, lengthscale), Gaussian()
    features = MercerFeatures(kernel, rank, inputs=inputs).fit([[0.0]])
    X = rng.standard_normal((draws, size))
    Xi = features(X.reshape(-1, 1)).reshape(draws, size, rank)
    K, Sigma = np.exp(-0.5 * ((X[:, :, None] - X[:, None]) / lengthscale) ** 2), Xi @ Xi.transpose(0, 2, 1)
    root = np.linalg.inv(np.linalg.cholesky(Sigma + noise * np.eye(size)))
    e = np.linalg.eigvalsh(root @ (K - Sigma) @ root.transpose(0, 2, 1))
    kls = 0.5 * (e - np.log1p(e)).sum(axis=1)
    for claims, form, power in ((("L-43", "L-42"), "sharpest", least), (("L-42",), "printed", 0.0)):
        bound = float(mercer_kl(kernel, size, rank, inputs=inputs, noise=noise, delta=delta, form=form))
        seen(observe, claims, kls > bound, delta, least=power)
    mean = np.trace(K - Sigma, axis1=1, axis2=2) / size
    tail = float(spectrum(kernel, inputs=inputs).tail(rank))
    for level, power in ((delta, least), (0.9, 0.2)):
        args = tuple(np.asarray(v) for v in (tail, 1.0, float(size), level))
        seen(observe, ("L-43",), mean > float(truncation.mean_above(*args)), level, least=power)
        seen(observe, ("L-43",), mean > truncation.cantelli(*args), level, least=0.1 * power)
        seen(observe, ("L-43",), mean > truncation.chernoff(*args), level, least=0.002 * power)
    seen(observe, ("L-41",), mean > truncation.chebyshev(*args), 0.9, least=0.003)


# --- predictions ----------------------------------------------------------------------------------------------------


NOISE, RADIUS, RANK = 0.05, 0.8, 5
"""k = exp(−2π²(x − x')²), x ~ N(0, (R/2π)²): the first RANK terms of the expansion (L-44, L-50)."""


def joint_covariances(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact and truncated covariance of the noisy targets, for many sets of inputs (draws, N)."""
    features = MercerFeatures(CYCLES, RANK, inputs=Gaussian(RADIUS / (2 * np.pi))).fit([[0.0]])
    Xi = features(x.reshape(-1, 1)).reshape(*x.shape, RANK)
    noise = NOISE * np.eye(x.shape[1])
    return np.exp(-2 * np.pi**2 * (x[:, :, None] - x[:, None]) ** 2) + noise, Xi @ Xi.transpose(0, 2, 1) + noise


def centred_kl(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    root = np.linalg.inv(np.linalg.cholesky(B))
    e = np.linalg.eigvalsh(root @ (A - B) @ root.transpose(0, 2, 1))
    return 0.5 * (e - np.log1p(e)).sum(axis=1)


@pytest.mark.claim("L-60", "L-61", "L-62", "L-63", "N-tail", "L-42")
@pytest.mark.parametrize("eta", [0.4, 0.05])
def test_predictions_from_truncated_expansions(observe: Observer, eta: float) -> None:
    """Inputs and training targets drawn anew each time: the joint bound, the predictive ones, and their sandwich."""
    rng, train, test, delta = np.random.default_rng(6), 4, 2, 0.5
    size = train + test
    x = rng.standard_normal((DRAWS, size)) * RADIUS / (2 * np.pi)
    A, B = joint_covariances(x)
    joint, part = centred_kl(A, B), centred_kl(A[:, :train, :train], B[:, :train, :train])
    law = {"inputs": Gaussian(RADIUS / (2 * np.pi)), "N": size, "rank": RANK, "noise": NOISE, "delta": delta}
    for form in ("sharpest", "printed"):
        seen(observe, ("L-60", "L-42"), joint > float(mercer_kl(CYCLES, form=form, **law)), delta)
    gains = [np.linalg.solve(C[:, :train, :train], C[:, :train, train:]).transpose(0, 2, 1) for C in (A, B)]
    P, Q = (C[:, train:, train:] - gain @ C[:, :train, train:] for C, gain in zip((A, B), gains, strict=True))
    y = np.linalg.cholesky(A[:, :train, :train]) @ rng.standard_normal((DRAWS, train, 1))
    shift = (gains[0] - gains[1]) @ y
    distance = (shift * np.linalg.solve(Q, shift)).sum(axis=(1, 2))
    kls = centred_kl(P, Q) + 0.5 * distance
    # given features and inputs: Γ is the joint divergence itself, and so is that of the training targets
    prediction = predictive(joint, eta, train=np.minimum(part, joint))
    power = {0.4: 0.05, 0.05: 0.001}[eta]
    seen(observe, ("L-62", "N-tail"), kls > np.asarray(prediction.kl), eta, least=power)
    seen(observe, ("L-62",), kls > (joint - part) / eta, eta)
    far = distance > np.asarray(prediction.sandwich.mean) ** 2
    observe.holds("L-63", (kls[far] > np.asarray(prediction.kl)[far]).all())
    # and with the bound that is known before anything is drawn: δ and η may fail
    printed = predictive(mercer_kl(CYCLES, form="printed", **law), eta, test_inputs="mercer", form="printed")
    observe.equal("L-62", printed.kl.confidence, max(1 - delta - eta, 0.0), rtol=1e-12)
    seen(observe, ("L-62",), kls > float(printed.kl), min(delta + eta, 1.0))
