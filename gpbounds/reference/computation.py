"""The matrices by which L_α and its gradient are computed, in mpmath (ledger R, section B).

A = I + (β/σ²)(K − Q) and its determinant and inverse through Ξ; the gradient; Lanczos and probe estimates.
Notation and shapes are those of :mod:`gpbounds.reference.renyi`; β = 1 − α.
"""

from __future__ import annotations

from typing import Any

from mpmath import eigsy, eye, log, mp, mpf, pi, sqrt

from gpbounds.reference import matrices
from gpbounds.reference.divergences import log_det, solve, trace
from gpbounds.reference.renyi import inducing_posterior, nystrom, xi


def scaled_residual(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A = I + (β/σ²)(K − Q), by its definition."""
    return eye(Kff.rows) + (1 - mpf(alpha)) / noise * (Kff - nystrom(Kuf, Kuu))


def scaled_residual_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A = (Ξ − Q)/σ² (R-appC-mat)."""
    return (xi(Kff, Kuf, Kuu, noise, alpha) - nystrom(Kuf, Kuu)) / noise


def posterior_covariance(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """Cov q*(U) = Kuu − Kuf Ξ⁻¹ Kfu (R-qstar)."""
    return inducing_posterior(Kff, Kuf, Kuu, mp.zeros(Kff.rows, 1), noise, alpha)[1]


def log_det_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """log|A| = −N log σ² + log|Ξ| + log|Cov q*(U)| − log|Kuu| (R-appC-det); loses digits as β → 0."""
    small = log_det(posterior_covariance(Kff, Kuf, Kuu, noise, alpha)) - log_det(Kuu)
    return -Kff.rows * log(noise) + log_det(xi(Kff, Kuf, Kuu, noise, alpha)) + small


def inverse_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A⁻¹ = σ²[Ξ⁻¹ + Ξ⁻¹Kfu (Kuu − Kuf Ξ⁻¹ Kfu)⁻¹ Kuf Ξ⁻¹] (R-grad-wood)."""
    inverse = matrices.inverse(xi(Kff, Kuf, Kuu, noise, alpha))
    thin = Kuf * inverse
    return noise * (inverse + thin.T * solve(posterior_covariance(Kff, Kuf, Kuu, noise, alpha), thin))


def elbo_by_determinants(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """L_α from |Ξ|, Ξ⁻¹y and two M × M determinants, α < 1 (R-appC-det):

    −(N/2) log 2π − log|Ξ|/(2β) − ½y'Ξ⁻¹y + (αN/(2β)) log σ² − (α/(2β))(log|Cov q*| − log|Kuu|).
    """
    N, beta, big = Kff.rows, 1 - mpf(alpha), xi(Kff, Kuf, Kuu, noise, alpha)
    small = log_det(posterior_covariance(Kff, Kuf, Kuu, noise, alpha)) - log_det(Kuu)
    fit = -mpf(N) / 2 * log(2 * pi) - log_det(big) / (2 * beta) - (y.T * solve(big, y))[0] / 2
    return fit + alpha * N / (2 * beta) * log(noise) - alpha / (2 * beta) * small


def nystrom_tangent(Kuf: Any, Kuu: Any, Kuf_dot: Any, Kuu_dot: Any) -> Any:
    """Q̇ = K̇fu Kuu⁻¹Kuf + Kfu Kuu⁻¹K̇uf − Kfu Kuu⁻¹ K̇uu Kuu⁻¹Kuf."""
    P = solve(Kuu, Kuf)
    half = Kuf_dot.T * P
    return half + half.T - P.T * Kuu_dot * P


def gradient(
    prior: tuple[Any, Any, Any], y: Any, noise: Any, alpha: Any, prior_dot: tuple[Any, Any, Any], noise_dot: Any
) -> tuple[Any, Any, Any]:
    """Three summands of dL_α/dθ = ½y'Ξ⁻¹Ξ̇Ξ⁻¹y − ½Tr(Ξ⁻¹Ξ̇) − (α/(2β)) Tr(A⁻¹Ȧ) (R-grad).

    ``prior`` = (Kff, Kuf, Kuu), ``prior_dot`` and ``noise_dot`` their derivatives by θ.  Ȧ contains that of σ²:
    Ȧ/β = Δ̇/σ² − Δ σ̇²/σ⁴, which leaves ½Tr(Ȧ/β) at α = 1.
    """
    (Kff, Kuf, Kuu), (Kff_dot, Kuf_dot, Kuu_dot) = prior, prior_dot
    alpha = mpf(alpha)
    residual, Q_dot = Kff - nystrom(Kuf, Kuu), nystrom_tangent(Kuf, Kuu, Kuf_dot, Kuu_dot)
    inverse = matrices.inverse(xi(Kff, Kuf, Kuu, noise, alpha))
    xi_dot = noise_dot * eye(Kff.rows) + (1 - alpha) * Kff_dot + alpha * Q_dot
    change = (Kff_dot - Q_dot) / noise - noise_dot / noise**2 * residual
    weights = inverse * y
    fit = (weights.T * xi_dot * weights)[0] / 2
    inner = matrices.inverse(scaled_residual(Kff, Kuf, Kuu, noise, alpha))
    return fit, -trace(inverse * xi_dot) / 2, -alpha / 2 * trace(inner * change)


def lanczos(A: Any, start: Any, steps: int) -> Any:
    """The tridiagonal matrix 𝒯 of at most ``steps`` Lanczos steps from ``start``; fewer where a step breaks down.

    Every new direction is orthogonalised twice against all before it.
    """
    basis = [start / mp.norm(start)]
    alphas, betas = [], []
    while True:
        step = A * basis[-1]
        alphas.append((basis[-1].T * step)[0])
        for _ in range(2):
            for q in basis:
                step -= (q.T * step)[0] * q
        if len(alphas) == steps or mp.norm(step) <= mpf(10) ** (8 - mp.dps) * mp.mnorm(A, 1):
            break
        betas.append(mp.norm(step))
        basis.append(step / betas[-1])
    tridiagonal = mp.diag(alphas)
    for i, b in enumerate(betas):
        tridiagonal[i, i + 1] = tridiagonal[i + 1, i] = b
    return tridiagonal


def log_quadrature(A: Any, probe: Any, steps: int) -> Any:
    """‖v‖² e₁' log(𝒯_v) e₁, 𝒯_v from ``steps`` Lanczos steps started at the probe v (R-lanczos).

    Gauss quadrature of v' log(A) v: never below it, the even derivatives of log being negative; equal after N steps.
    """
    values, vectors = eigsy(lanczos(A, probe, steps))
    return (probe.T * probe)[0] * sum(vectors[0, i] ** 2 * log(values[i]) for i in range(vectors.cols))


def log_matrix(A: Any) -> Any:
    """log A of a positive definite matrix."""
    values, vectors = eigsy(A)
    return vectors * mp.diag([log(v) for v in values]) * vectors.T


def probe_variance(A: Any, law: str) -> Any:
    """Var z'Az: 2‖S‖² for z ~ N(0, I), 2(‖S‖² − Σ S_ii²) for signs, S = (A + A')/2 (R-hutch)."""
    S = (A + A.T) / 2
    square = sum(v**2 for v in S)
    return 2 * (square if law == "normal" else square - sum(S[i, i] ** 2 for i in range(S.rows)))


def probes(N: int, law: str) -> list[tuple[Any, Any]]:
    """(weight, probe): all 2^N sign vectors, or 3^N nodes −√3, 0, √3 with weights ⅙, ⅔, ⅙ in place of N(0, I).

    The nodes are exact for polynomials of degree at most 5 in each coordinate.
    """
    side = sqrt(mpf(3))
    nodes = (
        [(mpf(1) / 6, -side), (mpf(2) / 3, mpf(0)), (mpf(1) / 6, side)]
        if law == "normal"
        else [(mpf(1) / 2, mpf(-1)), (mpf(1) / 2, mpf(1))]
    )
    grid: list[tuple[Any, list[Any]]] = [(mpf(1), [])]
    for _ in range(N):
        grid = [(weight * w, [*head, x]) for weight, head in grid for w, x in nodes]
    return [(weight, mp.matrix(entries)) for weight, entries in grid]
