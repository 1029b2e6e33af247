"""Ill-conditioned I + ΞᵀΞ/σ²: values, gradients and predictions beside mpmath at 70 digits, and what is refused."""

from __future__ import annotations

import functools
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from fitting.features import FeatureKernel, FourierMap
from fitting.objectives.laws import LowRankLaw
from fitting.objectives.objective import objective
from gpbounds import NotPositiveDefinite, SquaredExponential
from gpbounds.law import STRONG, STRONGEST, FactorLaw, gram_law, root_law, triangular
from gpbounds.lowrank import log_evidence, predict

N, FREQUENCIES = 20, 4
POWERS = (6, 9, 12, 15)
"""Noise variances 10⁻ᵏ: tr G from 1e7 to 1e16, on both sides of the level from which QR decompositions are used."""


@functools.cache
def setting() -> tuple[np.ndarray, np.ndarray, FourierMap]:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2.0, 2.0, (N, 1)), axis=0)
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(N)
    return X, y, FourierMap.drawn(SquaredExponential(), 2 * FREQUENCIES, X, 1)


def features(log_variance: mp.mpf, log_lengthscale: mp.mpf, X: np.ndarray) -> mp.matrix:
    frequencies, m = setting()[2].frequencies[:, 0], FREQUENCIES
    Xi = mp.matrix(len(X), 2 * m)
    for i, x in enumerate(X[:, 0]):
        for j, z in enumerate(frequencies):
            phase = mp.mpf(float(x)) * mp.mpf(float(z)) / mp.exp(log_lengthscale)
            Xi[i, j], Xi[i, m + j] = mp.cos(phase), mp.sin(phase)
    return Xi * mp.sqrt(mp.exp(log_variance) / m)


def solved(Xi: mp.matrix, y: np.ndarray, noise: mp.mpf) -> tuple[mp.matrix, mp.matrix, mp.matrix]:
    """I + G, w and e."""
    Y = mp.matrix([mp.mpf(float(value)) for value in y])
    B = Xi.T * Xi / noise + mp.eye(Xi.cols)
    w = mp.lu_solve(B, Xi.T * Y / noise)
    return B, w, Y - Xi * w


def exact(point: tuple[mp.mpf, ...]) -> mp.mpf:
    """log p(y) at (log variance, log lengthscale, log noise)."""
    X, y, _ = setting()
    noise = mp.exp(point[2])
    B, w, e = solved(features(point[0], point[1], X), y, noise)
    squares = (e.T * e)[0] / noise + (w.T * w)[0]
    return -(mp.log(mp.det(B)) + N * mp.log(2 * mp.pi * noise) + squares) / 2


@functools.cache
def reference(power: int) -> tuple[mp.mpf, list[mp.mpf]]:
    """Value, and central differences."""
    with mp.workdps(70):
        at, h = (mp.mpf(0), mp.mpf(0), mp.log(mp.mpf(10.0**-power))), mp.mpf(10) ** -25
        moved = [[tuple(p + s * h * (i == j) for j, p in enumerate(at)) for s in (1, -1)] for i in range(3)]
        return exact(at), [(exact(up) - exact(down)) / (2 * h) for up, down in moved]


@pytest.mark.parametrize("power", POWERS)
def test_values_and_gradients_keep_their_digits(power: int) -> None:
    X, y, map_ = setting()
    kernel = FeatureKernel(map_, map_.kernel.log_parameters)
    problem = replace(objective(X, y, "dtc"), law=LowRankLaw())
    found = problem.evaluate(kernel, 10.0**-power)
    value, slopes = reference(power)
    assert abs(found.value - value) < 1e-8 * abs(value)
    for ours, theirs in zip([*found.gradient.kernel, found.gradient.noise], slopes, strict=True):
        assert abs(ours - theirs) < 3e-6 * abs(theirs)
    alone = problem.evaluate(kernel, 10.0**-power, gradient=False).value
    assert abs(found.value - alone) < 1e-14 * abs(value)
    Xi = kernel.features(kernel.parameters, X)
    assert abs(log_evidence(Xi, y, noise=10.0**-power) - value) < 1e-8 * abs(value)


@pytest.mark.parametrize("power", POWERS)
def test_predictions_keep_their_digits(power: int) -> None:
    X, y, map_ = setting()
    kernel, new = FeatureKernel(map_, map_.kernel.log_parameters), np.array([[0.3], [2.5]])
    posterior = replace(objective(X, y, "dtc"), law=LowRankLaw()).posterior(kernel, 10.0**-power)
    with mp.workdps(70):
        B, w, _ = solved(features(mp.mpf(0), mp.mpf(0), X), y, mp.mpf(10.0**-power))
        V = features(mp.mpf(0), mp.mpf(0), new)
        mean = np.array((V * w).T.tolist(), dtype=float)[0]
        variance = np.array([float((V[i, :] * mp.lu_solve(B, V[i, :].T))[0]) for i in range(2)])
    Xi, Xi_new = (kernel.features(kernel.parameters, points) for points in (X, new))
    for found_mean, found_variance in (posterior.predict(new), predict(Xi, y, Xi_new, noise=10.0**-power)):
        assert np.allclose(found_mean, mean, rtol=1e-6, atol=0.0)
        assert np.allclose(found_variance, variance, rtol=1e-6, atol=0.0)


def rows(power: float, M: int = 8, P: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """V (30, M) whose singular values fall from 10^(power/2) to 1, and Y (30, P)."""
    rng = np.random.default_rng(5)
    U, W = (np.linalg.qr(rng.standard_normal((n, M)))[0] for n in (30, M))
    return (U * np.logspace(0.5 * power, 0.0, M)) @ W, rng.standard_normal((30, P))


def test_both_ways_to_a_law_agree_where_both_are_accurate() -> None:
    V, Y = rows(5.0)
    plain, root = gram_law(V.T @ V, V.T @ Y), root_law(V.T @ V, np.column_stack([V, Y]))
    for name in ("mean", "covariance", "gained", "factor", "kl"):
        assert np.allclose(getattr(plain, name), getattr(root, name), rtol=1e-9, atol=1e-9)
    assert np.allclose(root.chol.L, plain.chol.L, rtol=1e-9, atol=1e-9)


def test_the_factor_of_a_strong_law_is_one_of_its_covariance() -> None:
    V, Y = rows(14.0)
    assert np.trace(V.T @ V) > STRONG
    law = root_law(V.T @ V, np.column_stack([V, Y]))
    assert (np.triu(law.factor, 1) == 0.0).all()
    assert (np.diagonal(law.factor) > 0.0).all()
    assert np.allclose(law.factor @ law.factor.T, law.covariance, rtol=0.0, atol=1e-9)
    assert abs(FactorLaw(law.mean, law.factor).kl - law.kl) < 1e-8 * law.kl


def test_groups_of_rows_have_one_triangle() -> None:
    V, Y = rows(12.0)
    whole = np.column_stack([V, Y])
    parts = triangular(np.concatenate([triangular(whole[:7]), triangular(whole[7:])]))
    assert np.allclose(parts, triangular(whole), rtol=0.0, atol=1e-13 * np.abs(whole).max())


@pytest.mark.parametrize("chunk", [3, 7])
def test_chunks_of_strong_data_change_only_rounding(chunk: int) -> None:
    X, y, map_ = setting()
    kernel = FeatureKernel(map_, map_.kernel.log_parameters)
    whole, parts = (
        replace(objective(X, y, "dtc", **more), law=LowRankLaw()).evaluate(kernel, 1e-13)
        for more in ({}, {"chunk": chunk})
    )
    assert abs(whole.value - parts.value) < 1e-9 * abs(whole.value)
    assert np.allclose(whole.gradient.kernel, parts.gradient.kernel, rtol=1e-6, atol=0.0)


def test_what_float64_cannot_hold_is_refused() -> None:
    X, y, map_ = setting()
    kernel = FeatureKernel(map_, map_.kernel.log_parameters)
    noise = N / STRONGEST / 1.01
    with pytest.raises(NotPositiveDefinite, match=r"Use a larger noise variance"):
        replace(objective(X, y, "dtc"), law=LowRankLaw()).evaluate(kernel, noise)
    with pytest.raises(NotPositiveDefinite, match=r"expected a Gram matrix G .* trace at most 1e\+18"):
        log_evidence(kernel.features(kernel.parameters, X), y, noise=noise)


@pytest.mark.gpu
def test_strong_data_on_a_gpu(cupy) -> None:
    X, y, map_ = setting()
    kernel = FeatureKernel(map_, map_.kernel.log_parameters)
    on_host, on_device = (
        replace(objective(*data, "dtc"), law=LowRankLaw()).evaluate(kernel, 1e-12)
        for data in ((X, y), (cupy.asarray(X), cupy.asarray(y)))
    )
    assert abs(on_host.value - on_device.value) < 1e-9 * abs(on_host.value)
    assert np.allclose(on_host.gradient.kernel, on_device.gradient.kernel, rtol=1e-6, atol=0.0)
