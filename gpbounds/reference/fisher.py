"""A Gaussian law q and the posterior of a latent Gaussian model in mpmath: log p(y), ELBO, relative Fisher information.

By the definitions: integrals over one or two latent values, by the trapezoidal rule in the variables in which the
Gaussian is standard.  X, Z are lists of numbers, k(a, b) a function, L a lower triangular matrix, q(v) = N(w, CCᵀ), and
``logs`` one function ℓ(f) = log p(y_i|f) for each row, ``slopes`` and ``bends`` its first two derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import eye, inverse, log, mp, mpf, npdf, sqrt

from gpbounds.reference.divergences import gaussian_kl
from gpbounds.reference.linalg import trace

Function = Callable[[Any], Any]
STEP, REACH = 4, 10
"""Nodes in a unit, and where they end by default: polynomials of high degree need more."""


def nodes(reach: int = REACH) -> list[tuple[Any, Any]]:
    """(z, weight) of the trapezoidal rule under N(0, 1), |z| ≤ reach."""
    return [(mpf(j) / STEP, npdf(mpf(j) / STEP) / STEP) for j in range(-reach * STEP, reach * STEP + 1)]


def mean(function: Function, m: Any, v: Any, reach: int = REACH) -> Any:
    """E function(f), f ~ N(m, v)."""
    return sum(weight * function(m + sqrt(v) * z) for z, weight in nodes(reach))


def joint_mean(first: Function, second: Function, m: Sequence[Any], S: Any) -> Any:
    """E first(f₁) second(f₂), f ~ N(m, S)."""
    s, rest = sqrt(S[0, 0]), S[1, 1] - S[0, 1] ** 2 / S[0, 0]
    return sum(
        weight * first(m[0] + s * z) * mean(second, m[1] + S[0, 1] / s * z, rest) for z, weight in nodes()
    )  # fmt: skip


def log_evidence(logs: Sequence[Function], m: Sequence[Any], K: Any) -> Any:
    """log ∫ N(f|m, K) Π p(y_i|f_i) df for one or two rows."""

    def density(ell: Function) -> Function:
        return lambda f: mp.exp(ell(f))

    if len(logs) == 1:
        return log(mean(density(logs[0]), m[0], K[0, 0]))
    return log(joint_mean(density(logs[0]), density(logs[1]), m, K))


def at_rows(k: Callable[[Any, Any], Any], X: Any, Z: Any, L: Any, w: Any, C: Any) -> tuple[Any, Any, Any, Any, Any]:
    """K, V = L⁻¹Kuf, Δ = K − VᵀV, the mean Vᵀw of f under q and its covariance Σ."""
    K = mp.matrix([[k(a, b) for b in X] for a in X])
    V = inverse(L) * mp.matrix([[k(a, b) for b in X] for a in Z])
    Delta = K - V.T * V
    return K, V, Delta, V.T * w, V.T * C * C.T * V + Delta


def elbo(logs: Sequence[Function], m: Any, S: Any, w: Any, C: Any) -> Any:
    """Σ E_q ℓ_i − KL(q(v)‖N(0, I))."""
    prior = eye(C.rows)
    fit = sum(mean(ell, m[i], S[i, i]) for i, ell in enumerate(logs))
    return fit - gaussian_kl(w, C * C.T, mp.zeros(C.rows, 1), prior)


def squared(g: Function) -> Function:
    """g²."""
    return lambda f: g(f) ** 2


def moments(slopes: Sequence[Function], bends: Sequence[Function], m: Any, S: Any) -> tuple[Any, Any, Any]:
    """E g (N × 1), E g' (N × 1) and E ggᵀ, g_i = ℓ_i'(f_i)."""
    N = len(slopes)
    means = mp.matrix([mean(g, m[i], S[i, i]) for i, g in enumerate(slopes)])
    derivatives = mp.matrix([mean(h, m[i], S[i, i]) for i, h in enumerate(bends)])
    squares = mp.matrix(N, N)
    for i in range(N):
        squares[i, i] = mean(squared(slopes[i]), m[i], S[i, i])
        for j in range(i):
            pair = mp.matrix([[S[i, i], S[i, j]], [S[i, j], S[j, j]]])
            squares[i, j] = squares[j, i] = joint_mean(slopes[i], slopes[j], [m[i], m[j]], pair)
    return means, derivatives, squares


def half_fisher(V: Any, Delta: Any, w: Any, C: Any, means: Any, derivatives: Any, squares: Any) -> Any:
    """½E|(S⁻¹ − I)v − S⁻¹w + Vg|² + ½E gᵀΔg from E g, E g' and E ggᵀ  (N-fisher); E (v − w)gᵀ = SV diag(E g')."""
    S = C * C.T
    A = inverse(S) - eye(S.rows)
    centre = A * w - inverse(S) * w
    pull = centre + V * means
    covariance = squares - means * means.T
    own = trace(A * S * A) + trace(V * covariance * V.T) + 2 * trace(A * S * V * mp.diag(list(derivatives)) * V.T)
    return ((pull.T * pull)[0] + own + trace(Delta * squares)) / 2


def half_variance(logs: Sequence[Function], V: Any, Delta: Any, m: Any, w: Any, C: Any) -> Any:
    """½Var_q log(p/q) for one row and one inducing point, by an integral over (v, η)."""
    first, second, s = V[0, 0], sqrt(Delta[0, 0]), C[0, 0]
    total = square = mpf(0)
    for z, a in nodes():
        v = w[0] + s * z
        for eta, b in nodes():
            value = logs[0](first * v + second * eta) - v * v / 2 + z * z / 2
            total += a * b * value
            square += a * b * value * value
    return (square - total**2) / 2
