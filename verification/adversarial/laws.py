"""Posteriors of certificates in balls: KL(Q‖P), latent laws N(m, v) at given inputs, and expected losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from adversarial.truths import covariances, identity, log_normal, trace
from gpbounds.losses import Band, Exponential, Loss, Squared
from gpbounds.pacbayes.certificate import Exact, Free, Posterior, Sparse

NOTHING = arb("1e-1000")
"""A variance between 0 and this counts as 0."""


@dataclass(frozen=True)
class Law:
    """KL(Q‖P), and means and variances of f under Q."""

    kl: Any
    means: list[Any]
    variances: list[Any]


def law(kernel: Any, posterior: Posterior, X: np.ndarray, y: np.ndarray, at: np.ndarray) -> Law:
    """Q of the record, at the inputs ``at`` (n, D)."""
    priors = [covariances(kernel, x[None], x[None])[0, 0] for x in at]
    if isinstance(posterior, Exact):
        noises = [arb(posterior.noise)] * len(X)
        K, k = covariances(kernel, X, X), covariances(kernel, X, at)
        return Regression(K, noises, y).law(k, priors)
    Z, jitter = posterior.Z, float(posterior.jitter)  # type: ignore[attr-defined]
    if jitter == 0.0 and len(distinct := np.unique(Z, axis=0)) < len(Z):
        if not isinstance(posterior, Sparse):  # f(Z) has no density, and L is not unique
            infinite = arb("inf" if isinstance(posterior, Free) else "nan")
            return Law(infinite, [arb("nan")] * len(at), [arb("nan")] * len(at))
        Z = distinct
    Kuu, k = covariances(kernel, Z, Z) + identity(len(Z), jitter), covariances(kernel, Z, at)
    if isinstance(posterior, Sparse):
        Kuf = covariances(kernel, Z, X)
        W = Kuu.solve(Kuf).transpose()
        Q, diagonal = W * Kuf, [covariances(kernel, x[None], x[None])[0, 0] for x in X]
        noises = [posterior.noise + posterior.power * (diagonal[i] - Q[i, i]) for i in range(len(X))]
        return Regression(Q, noises, y).law(W * k, priors)
    if isinstance(posterior, Free):
        a, B = column(posterior.mean), matrix(posterior.cov)
    else:
        L = cholesky(Kuu)
        half = L * matrix(posterior.factor)  # type: ignore[attr-defined]
        a, B = L * column(posterior.mean), half * half.transpose()  # type: ignore[attr-defined]
    return of_inducing(Kuu, a, B, k, priors)


def of_inducing(Kuu: arb_mat, a: arb_mat, B: arb_mat, k: arb_mat, priors: Sequence[Any]) -> Law:
    """u ~ N(a, B) in place of N(0, Kuu), f given u as before."""
    w = Kuu.solve(k)
    logs = Kuu.det().log() - B.det().log()
    kl = (trace(Kuu.solve(B)) + (a.transpose() * Kuu.solve(a))[0, 0] - Kuu.nrows() + logs) / 2
    left = w.transpose() * (B - Kuu) * w
    means = w.transpose() * a
    n = range(len(priors))
    return Law(kl, [means[i, 0] for i in n], [priors[i] + left[i, i] for i in n])


class Regression:
    """y = s + e, s ~ N(0, S), e ~ N(0, diag D): Q is the posterior of the process that s belongs to."""

    def __init__(self, S: arb_mat, noises: Sequence[Any], y: np.ndarray) -> None:
        self.S, self.noises, self.y = S, noises, y
        self.N = range(len(y))
        self.G = S + arb_mat(len(y), len(y), [noises[i] if i == j else arb(0) for i in self.N for j in self.N])

    def law(self, cross: arb_mat, priors: Sequence[Any]) -> Law:
        """Q(f) where Cov(s, f) is ``cross``; KL(Q‖P) = E_Q log p(y | s) − log p(y), as dQ/dP = p(y | s)/p(y)."""
        means, variances = self._moments(self.S, [self.S[i, i] for i in self.N])
        expected = arb(0)
        for i in self.N:
            D = self.noises[i]
            expected -= ((2 * arb.pi() * D).log() + ((arb(float(self.y[i])) - means[i]) ** 2 + variances[i]) / D) / 2
        return Law(expected - log_normal(self.G, self.y), *self._moments(cross, priors))

    def _moments(self, cross: arb_mat, priors: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        mean, explained = cross.transpose() * self.G.solve(column(self.y)), cross.transpose() * self.G.solve(cross)
        n = range(len(priors))
        return [mean[i, 0] for i in n], [priors[i] - explained[i, i] for i in n]


def column(values: Any) -> arb_mat:
    return arb_mat(len(values), 1, [arb(float(value)) for value in values])


def matrix(values: Any) -> arb_mat:
    return arb_mat([[arb(float(value)) for value in row] for row in values])


def cholesky(A: arb_mat) -> arb_mat:
    """L with LLᵀ = A."""
    n = A.nrows()
    L = arb_mat(n, n)
    for j in range(n):
        for i in range(j, n):
            left = A[i, j] - sum((L[i, k] * L[j, k] for k in range(j)), arb(0))
            if i == j and not left > 0:
                raise ZeroDivisionError
            L[i, j] = left.sqrt() if i == j else left / L[j, j]
    return L


def risk(loss: Loss, y: np.ndarray, q: Law) -> Any:
    """The mean of E ℓ(y_i, f_i)."""
    losses = [expected(loss, arb(float(t)), m, v) for t, m, v in zip(y, q.means, q.variances, strict=True)]
    return sum(losses, arb(0)) / len(losses)


def expected(loss: Loss, y: Any, m: Any, v: Any) -> Any:
    """E ℓ(y, f), f ~ N(m, v), of a `Band`, an `Exponential` or a `Squared` loss."""
    d, e = y - m, arb(float(loss.epsilon))  # type: ignore[attr-defined]
    if isinstance(loss, Exponential):
        return 1 - e / (e * e + 2 * v).sqrt() * (-d * d / (e * e + 2 * v)).exp()
    if not v > 0:
        if not v < NOTHING:
            raise ZeroDivisionError
        return arb(1) if abs(d) > e else arb(0) if isinstance(loss, Band) else (d / e) ** 2
    s, root = v.sqrt(), arb(2).sqrt()
    a, b = (d - e) / s, (d + e) / s  # |y − f| ≤ e where (f − m)/s is in [a, b]
    outside = ((-a / root).erfc() + (b / root).erfc()) / 2
    if isinstance(loss, Band):
        return outside
    assert isinstance(loss, Squared)
    at_a, at_b = ((-x * x / 2).exp() / (2 * arb.pi()).sqrt() for x in (a, b))
    # ∫ (d − sx)² φ(x) dx from a to b, by parts
    inside = (d * d + v) * (1 - outside) - 2 * d * s * (at_a - at_b) + v * (a * at_a - b * at_b)
    return outside + inside / (e * e)
