"""Bounds on ½yᵀK_n⁻¹y from any approximate solve, and a solve by conjugate gradients preconditioned by B."""

from __future__ import annotations

from collections.abc import Callable

from gpbounds.arrays import Array, Float
from gpbounds.linalg.cg import conjugate_gradients
from gpbounds.renyi.blocks import DENSE
from gpbounds.renyi.streamed import Streamed, host

STEPS = 25
"""Largest number of products with K; four times as many where K is stored (`products`)."""

TOLERANCE = 0.01
"""The solve stops when the two bounds are within so many nats."""


def two_sided(problem: Streamed, v: Array, product: Array, shift: float) -> tuple[Float, Float]:
    """Lower and upper bound on ½yᵀK_n⁻¹y for each output, K_n = K + σ²I, from any v (N, P) and product = K_n v.

    With r = y − K_n v, B = Q + σ²I and any shift ≥ λ_max(K − Q) (for example T = Tr(K − Q)):

        ½ rᵀ(B + shift·I)⁻¹r ≤ ½ yᵀK_n⁻¹y − vᵀ(r + ½K_n v) ≤ ½ rᵀB⁻¹r.

    The proof is that of N-quad.  v = 0 gives the two bounds of Titsias, v =
    K_n⁻¹y the exact value.  Artemev, Burt & van der Wilk (2021) have 0 on the left.
    """
    r = problem.Y - product
    base = host((v * (r + 0.5 * product)).sum(axis=0))
    below, above = problem.fits([shift, 0.0], r).quadratic
    return base + 0.5 * below, base + 0.5 * above


def solve(problem: Streamed, times: Callable[[Array], Array]) -> tuple[Array, Array]:
    """(v, K_n v) with v near K_n⁻¹y for every output, by conjugate gradients from v = 0, preconditioned by B.

    It stops when the two bounds are within 0.01 nats, or after 25 products with K_n (100 up to N = 2000).
    """
    v = conjugate_gradients(
        times,
        problem.solve,
        problem.Y,
        enough=lambda energies: not 0.5 * float(energies.sum()) > TOLERANCE,
        steps=(4 * STEPS if problem.N <= DENSE else STEPS) - 1,
    )
    return v, times(v)
