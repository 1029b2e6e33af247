"""From the Kullback-Leibler divergence to the other orders."""

from __future__ import annotations

from dataclasses import replace

from gpbounds import validation
from gpbounds.bound import Bound


def of_order(bound: Bound, alpha: float) -> Bound:
    """α times a bound on the Kullback-Leibler divergence is one on D_α, for the same Z and y (N-alpha).

    D_α[q*_α‖p] ≤ α D_1[q*_1‖p] for every choice of inducing variables, every y and α ∈ (0, 1].

    The proof is that of N-alpha.

    >>> kl = Bound(2.0, "upper", 0.95, "N-given", quantity="D_1[q*||p]")
    >>> print(of_order(kl, 0.5))
    D_0.5[q*||p] <= 1 with probability at least 0.95 (N-given, N-alpha).
    """
    order = validation.scalar(validation.order, "alpha", alpha)
    if order == 1.0:
        return bound
    return replace(bound, value=order * bound.value, claim=f"{bound.claim}, N-alpha", quantity=f"D_{order:g}[q*||p]")
