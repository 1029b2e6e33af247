"""From the Kullback-Leibler divergence to the other orders."""

from __future__ import annotations

from dataclasses import replace

from gpbounds import validation
from gpbounds.bound import Bound


def of_order(bound: Bound, alpha: float) -> Bound:
    """α times a bound on the Kullback-Leibler divergence is one on D_α, for the same Z and y (N-alpha).

    D_α[q*_α‖p] ≤ α D_1[q*_1‖p] for every choice of inducing variables, every y and α ∈ (0, 1].

    Proof.  β = 1 − α, δ_i the eigenvalues of (K − Q)/σ², w_i those of Q_n^-½(K − Q)Q_n^-½, Q_n = Q + σ²I; ordered, w_i
    ≤ δ_i. yᵀ(Ξ⁻¹ − K_n⁻¹)y ≤ α yᵀ(Q_n⁻¹ − K_n⁻¹)y with Ξ = Q_n + β(K − Q): by operator convexity of the inverse, as Ξ =
    αQ_n + βK_n.  What does not depend on y: 2D_α(0) − 2αD_1(0) = Σ [(α/β) log(1 + βδ_i) − αδ_i] + Σ [log(1 + βw_i) − β
    log(1 + w_i)].  The second bracket increases in w_i, so the whole is at most Σ f(δ_i), f(d) = (1/β) log(1 + βd) − β
    log(1 + d) − αd, f(0) = 0, f′(d) = 1/(1 + βd) − β/(1 + d) − α, f′(0) = 0, and f″(d) = β/(1 + d)² − β/(1 + βd)² ≤ 0.
    QED

    >>> kl = Bound(2.0, "upper", 0.95, "N-given", quantity="D_1[q*||p]")
    >>> print(of_order(kl, 0.5))
    D_0.5[q*||p] <= 1 with probability at least 0.95 (N-given, N-alpha).
    """
    order = validation.scalar(validation.order, "alpha", alpha)
    if order == 1.0:
        return bound
    return replace(bound, value=order * bound.value, claim=f"{bound.claim}, N-alpha", quantity=f"D_{order:g}[q*||p]")
