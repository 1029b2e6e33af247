"""The trained PAC-Bayes bounds in mpmath, dense, from the ledger's formulas, for the tests to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import cholesky, exp, eye, log, matrix, mp, mpf, sqrt

from gpbounds.losses import Band, Exponential, Interval, Loss, Relative, Sign, Squared
from gpbounds.reference import divergences, losses, pacbayes, spectra

LOSSES = (Band(0.6), Squared(0.9), Exponential(0.7), Relative(0.8), Interval(-0.4, 0.9))


def loss_mean(loss: Loss, y: Any, m: Any, s2: Any) -> Any:
    """E ℓ(y, f), f ~ N(m, v)."""
    if isinstance(loss, Interval):
        return losses.interval(y + mpf(loss.low), y + mpf(loss.high), m, s2)
    if isinstance(loss, Sign):
        return losses.sign(y, m, s2)
    formula = {Band: losses.band, Squared: losses.squared, Exponential: losses.exponential, Relative: losses.relative}
    return formula[type(loss)](y, m, s2, mpf(loss.epsilon))


def bound(target: Any, risk: Any, kl: Any) -> Any:
    """B, or B_Pin with 2√N."""
    N, delta, prior = target.N, mpf(target.delta), mpf(target.log_prior_penalty)
    if target.relaxation == "kl":
        return pacbayes.bound(risk, kl, N, delta=delta, log_prior_penalty=prior)
    return risk + sqrt((kl + prior + log(2 * sqrt(mpf(N)) / delta)) / (2 * N))


def blocks(X: Any, Z: Any, logs: Any, jitter: Any) -> tuple[Any, Any, Any]:
    """Kff, Kuf and Kuu + jitter·variance·I of a squared exponential."""
    variance, *lengthscales = (exp(v) for v in logs)
    Kuu = spectra.stationary(Z, Z, variance, lengthscales) + mpf(jitter) * variance * eye(len(Z))
    return (
        spectra.stationary(X, X, variance, lengthscales),
        spectra.stationary(Z, X, variance, lengthscales),
        Kuu,
    )


def risk(target: Any, prior: tuple[Any, Any, Any], Y: list[Any], shift: Any, B: Any, rows: list[int]) -> Any:
    """R_S over ``rows`` with latent variances."""
    mean, covariance = divergences.sparse_law(prior[2], prior[1], prior[0], shift, B)
    return sum(loss_mean(target.loss, Y[i], mean[i], covariance[i, i]) for i in rows) / len(rows)


def collapsed(
    target: Any, X: Any, Y: list[Any], power: Any, jitter: Any
) -> Callable[[Any, Any, Any], tuple[Any, Any, Any]]:
    """(log hyperparameters, log σ², Z) ↦ (R_S, KL, B)."""

    def lane_sums(logs: Any, log_noise: Any, Z: Any) -> tuple[Any, Any, Any]:
        prior, noise, y = blocks(X, Z, logs, jitter), exp(log_noise), matrix(Y)
        shift, B = divergences.collapsed_law(*prior, y, noise, mpf(power))
        R = risk(target, prior, Y, shift, B, list(range(len(Y))))
        kl = divergences.collapsed_kl(*prior, y, noise, mpf(power))
        return R, kl, bound(target, R, kl)

    return lane_sums


def free(
    target: Any, X: Any, Y: list[Any], jitter: Any, rows: list[int] | None = None
) -> Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]:
    """(log hyperparameters, Z, μ, C) ↦ (R_S, KL, B)."""

    def lane_sums(logs: Any, Z: Any, mean: Any, factor: Any) -> tuple[Any, Any, Any]:
        prior = blocks(X, Z, logs, jitter)
        L, C = cholesky(prior[2]), matrix(factor)
        shift, B = L * matrix(mean), L * C * C.T * L.T
        R = risk(target, prior, Y, shift, B, list(range(len(Y))) if rows is None else rows)
        kl = divergences.sparse_kl(prior[2], shift, B)
        return R, kl, bound(target, R, kl)

    return lane_sums


def exactly(array: Any) -> Any:
    """Nested lists of mpf with exactly the same values."""
    return [exactly(v) for v in array] if getattr(array, "ndim", 0) else mpf(float(array))


def moved(point: Any, direction: Any, t: Any) -> Any:
    """point + t·direction, entry by entry."""
    if isinstance(point, list):
        return [moved(p, d, t) for p, d in zip(point, direction, strict=True)]
    return point + t * direction


def slope(function: Callable[..., Any], point: list[Any], direction: list[Any]) -> Any:
    """The derivative of B along ``direction``, to more than 20 digits."""
    step = mpf(10) ** -13

    def at(t: Any) -> Any:
        return function(*(moved(p, d, t) for p, d in zip(point, direction, strict=True)))[2]

    with mp.workdps(mp.dps):
        return (at(step) - at(-step)) / (2 * step)
