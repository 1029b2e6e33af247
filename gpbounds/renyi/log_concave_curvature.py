"""The bound on a log-concave model's divergence where the curvature of the likelihood near q counts, too.

N-fisher knows of the posterior only that −∇² log p ⪰ I.  Let c_i ≤ −ℓ_i'' where |f_i − m_i| ≤ t_i, and let p̂ have ℓ̂_i
in place of ℓ_i, which is ℓ_i there and has the second derivative min(ℓ_i'', −c_i) elsewhere.  Then −∇² log p̂ is at
least I + AᵀWA, A = [Φ R], W = diag c, the covariance Ŝ = (K⁻¹ + W)⁻¹ takes the place of K in the bound for p̂, and p
exceeds p̂ only where some |f_i − m_i| > t_i (N-fisher-curved):

    KL(q‖p) ≤ B̂ + Σ_i c_iŝ_i² · 2ϕ(τ_i)/(τ_i(τ_i² + 1)),    τ_i = t_i/ŝ_i − √(2B̂),  ŝ_i² = Ŝ_ii,

    B̂ = ½(√F + √E)²,   F = |Φᵀḡ − w|² + tr BSB + ḡᵀΔḡ + tr ΛΔΛ(Q + Σ) + Σ_ij Ŝ_ij Cov(r_i, r_j),
    E = Σ_i c_is_i² · 4ϕ(b_i)/b_i³,   b_i = t_i/s_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.likelihoods import Likelihood
from gpbounds.linalg import cholesky
from gpbounds.renyi.accuracy import U, errors_of_entries, gamma
from gpbounds.renyi.log_concave_errors import Allowance
from gpbounds.renyi.log_concave_rows import AtRows

LARGEST = 5000
"""Rows up to which Ŝ is formed, in O(N³) time."""
MULTIPLES = (3.0, 3.5)
"""t_i as multiples of ŝ_i, nearly; the second up to `SEVERAL` rows only."""
SEVERAL = 1500
ROUNDS = 4
UP = 1.0 + 1e-9
"""Covers the rounding of scalars."""
NEAR = 1e-9
"""Largest error of m_i, relative to 1 + |m_i|, that is allowed for in the intervals."""


@dataclass(frozen=True, eq=False)
class Within:
    """The intervals |f_i − m_i| ≤ t_i, and Ŝ = K − UᵀU.

    Attributes
    ----------
    half : array (N,)
        t_i.
    curvature : array (N,)
        c_i.
    explained : array (N, N)
        U as it is computed.
    variance : array (N,)
        At least Ŝ_ii.
    slack : float
        An entry of UᵀU errs by at most slack·√(k_ii k_jj) + the next number.
    entry : float
    """

    half: Float
    curvature: Float
    explained: Float
    variance: Float
    slack: float
    entry: float

    def allowance(self, latent: AtRows) -> float:
        """At least the change of Σ Ŝ_ij Cov(r_i, r_j) by the errors of Ŝ."""
        A = latent.series.norms
        return UP * (self.slack * float(A @ np.sqrt(latent.prior)) ** 2 + self.entry * float(A.sum()) ** 2)


def intervals(latent: AtRows, likelihood: Likelihood, y: Float) -> list[Within]:
    """One or two choices of the intervals; none for many rows, or where no curvature is known.

    ŝ_i for the choice of t_i is that of Q in place of K, with Δ_ii more; any t_i gives a bound.
    """
    if latent.N > LARGEST:
        return []
    V = latent.columns(slice(None))[0]
    K = np.asarray(latent.whitener.kernel(latent.X))
    ranges = []
    for multiple in MULTIPLES if latent.N <= SEVERAL else MULTIPLES[:1]:
        s = 1.3 * np.sqrt(latent.variance)
        for _ in range(ROUNDS):
            half = multiple * s
            c = likelihood.least_curvature(y, latent.mean - half, latent.mean + half)
            inner = cholesky(np.eye(len(V)) + (V * c) @ V.T, name="I + VWVᵀ").solve_lower(V)
            s = np.sqrt(latent.residual + (inner * inner).sum(axis=0))
        ranges.append(_within(latent, likelihood, y, K, multiple * s))
    return [each for each in ranges if float(each.curvature.max(initial=0.0)) > 0.0]


def _within(latent: AtRows, likelihood: Likelihood, y: Float, K: Float, half: Float) -> Within:
    """c, and U = G^(−½)W^½K with G = I + W^½KW^½ = LLᵀ.

    Proof of the errors.  G ⪰ I in exact arithmetic.  LLᵀ = G + E with ‖E‖ ≤ e: γ_(N+2) of tr LLᵀ, and κ tr W for
    entries of K.  So U*_iᵀU*_j = b_iᵀG⁻¹b_j, b = W^½K, differs from b_iᵀ(LLᵀ)⁻¹b_j by at most 1.2e|U_i||U_j|; a solve
    errs by γ_(N+3)‖L‖_F|U_i|, and b by κ√tr W + 3u|b|, each times ‖L⁻¹‖ ≤ 1.01; |U_i|² ≤ k_ii and
    |b_i|² ≤ ‖G‖k_ii ≤ tr G k_ii.
    """
    wide = half * UP + NEAR * (1.0 + np.abs(latent.mean))
    c = likelihood.least_curvature(y, latent.mean - wide, latent.mean + wide)
    root, N = np.sqrt(c), len(K)
    kappa, _ = errors_of_entries(latent.whitener.kernel, latent.X, latent.X)
    G = root[:, None] * K * root
    G[np.diag_indices(N)] += 1.0
    chol = cholesky(G, name="I + W^½KW^½")
    explained = chol.solve_lower(root[:, None] * K)
    total, mass = 1.01 * float((chol.L * chol.L).sum()), float(c.sum())
    e = gamma(N + 6.0) * total + 1.01 * kappa * mass
    if not e < 0.01:
        zero = np.zeros_like(c)
        return Within(half, zero, explained, latent.prior, math.inf, math.inf)
    solve = 1.02 * (gamma(N + 6.0) * math.sqrt(total) + 4.0 * U * math.sqrt(total))
    slack = 1.05 * (1.2 * e + 2.0 * solve + solve**2 + gamma(N + 2.0) + 3.0 * U)
    by_entries = 1.02 * kappa * math.sqrt(mass)
    top = math.sqrt(float(latent.prior.max()))
    entry = 1.05 * (kappa + 2.0 * by_entries * top + by_entries**2)
    variance = latent.prior - np.einsum("ij,ij->j", explained, explained)
    variance = np.minimum(np.maximum(variance, 0.0) + slack * latent.prior + entry, latent.prior)
    return Within(half, c, explained, variance * UP, slack, entry)


def curved_bound(latent: AtRows, within: Within, F: float, off: Allowance) -> float:
    """The bound of N-fisher-curved for F, its errors included; infinite where q is too far for these intervals.

    >>> # one row: Ŝ = ŝ² = 1, t = 4, c = 1/10, s = 1
    >>> from types import SimpleNamespace
    >>> latent = SimpleNamespace(variance=np.ones(1), mean=np.zeros(1))
    >>> within = SimpleNamespace(half=np.full(1, 4.0), curvature=np.full(1, 0.1), variance=np.ones(1))
    >>> round(curved_bound(latent, within, 0.02, Allowance.none(1)), 4)
    0.0101
    """
    s, c = np.sqrt(latent.variance) + off.deviation, within.curvature
    if not (math.isfinite(F) and float((off.mean / (1.0 + np.abs(latent.mean))).max()) < NEAR):
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        b = within.half / s
        outside = np.where(c > 0.0, 4.0 * c * s * s * _density(b) / b**3, 0.0)
        inner = 0.5 * UP * (math.sqrt(max(F, 0.0)) + math.sqrt(float(outside.sum()) * UP)) ** 2
        tau = within.half / np.sqrt(within.variance) / UP - math.sqrt(2.0 * inner) * UP
        if not float(np.where(c > 0.0, tau, 1.0).min()) > 0.1:
            return math.inf
        beyond = np.where(c > 0.0, 2.0 * c * within.variance * _density(tau) / (tau * (tau * tau + 1.0)), 0.0)
    return UP * (inner + float(beyond.sum()))


def _density(z: Float) -> Float:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))
