"""A factor of the half-integer Matérn kernel, k = G G*, with accurate small singular values."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import Float
from gpbounds.spectra.legendre import Relaxation

PAD = 64


def amplitude(p: int) -> float:
    """A = 2√π Γ(p+1)/Γ(p+½) = 2 ∏_{i<=p} i/(i - ½): S(ω) = A c^(2p+1)/(c² + ω²)^(p+1) has ∫ S dω/(2π) = 1.

    >>> amplitude(0), amplitude(1)
    (2.0, 4.0)
    """
    return 2.0 * math.prod(i / (i - 0.5) for i in range(1, p + 1))


def factor(p: int, gamma: float, n: int) -> Float:
    """G, shape (n, n + 64 + p + 1): P_n K P_n = G G' in the orthonormal Legendre basis of [0, 1].

    K is the Matérn kernel of order p + ½ and variance 1 with c L = γ.  It is white noise through the filter
    ĝ = √S0/(γ + iω)^(p+1): noise on [0, 1] gives the columns √(A/γ) V^(p+1), V = γ(D + γ)^-1; noise before 0
    gives Σ_i w_i h_i(x) h_i(y), h_i(x) ∝ (2γx + τ_i)^p e^(-γx), exactly, with the p + 1 Gauss-Laguerre
    nodes τ_i and weights w_i.  A QR factorisation turns the h_i into functions that start with x^i, so that the
    columns are graded and small singular values stay accurate.  Needs γ <= 2n.
    """
    from scipy.special import roots_laguerre

    relax = Relaxation(n + PAD, gamma)
    noise = np.eye(n + PAD)
    states = [relax.solve(noise[:, :1])]  # (γx)^a e^(-γx)/a!, a = 0 ... p
    for _ in range(p):
        states.append(relax(states[-1]))
    for _ in range(p + 1):
        noise = relax(noise)
    nodes, weights = roots_laguerre(p + 1)
    a = np.arange(p + 1)
    # C(p, a) 2^a a!/p! = 2^a/(p-a)!
    sizes = np.array([math.exp(i * math.log(2.0) - math.lgamma(p - i + 1.0)) for i in a])
    spread = np.sqrt(weights)[:, None] * sizes * nodes[:, None] ** (p - a)
    graded = np.hstack(states) @ np.linalg.qr(spread)[1].T
    strength = amplitude(p)
    return np.hstack([math.sqrt(strength * 2.0 ** (-2 * p - 1)) * graded, math.sqrt(strength / gamma) * noise])[:n]


def squared_singular_values(G: Float) -> Float:
    """σ_i(G)², decreasing; column pivoting keeps the small ones of a graded matrix accurate."""
    from scipy.linalg import qr, svdvals

    return svdvals(qr(G.T, mode="r", pivoting=True)[0][: min(G.shape)].T) ** 2
