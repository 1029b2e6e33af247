"""Ranks of random features and of truncated Mercer expansions, straight from the ledger (L-20 … L-29, L-41 … L-48)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

SPARE = 60


def kernel_matrix(X: Sequence[Sequence[Any]]) -> Any:
    """K of k(x, x') = exp(−2π²|x − x'|²)."""
    N = len(X)
    square = [[sum((mp.mpf(a) - b) ** 2 for a, b in zip(x, y, strict=True)) for y in X] for x in X]
    return mp.matrix(N, N) if N == 0 else mp.matrix([[mp.exp(-2 * mp.pi**2 * s) for s in row] for row in square])


def density(eta: Sequence[Any]) -> Any:
    """p(η) = N(0, I)."""
    return (2 * mp.pi) ** (-mp.mpf(len(eta)) / 2) * mp.exp(-sum(mp.mpf(e) ** 2 for e in eta) / 2)


def leverage(X: Sequence[Sequence[Any]], lam: Any, eta: Sequence[Any]) -> Any:
    """τ_λ(η) = p(η) z(η)*(K + λI)⁻¹z(η), by a linear solve at ``SPARE`` more digits."""
    with mp.workdps(mp.mp.dps + SPARE):
        A = kernel_matrix(X) + mp.mpf(lam) * mp.eye(len(X))
        phases = [2 * mp.pi * sum(mp.mpf(e) * a for e, a in zip(eta, x, strict=True)) for x in X]
        c, s = mp.matrix([mp.cos(t) for t in phases]), mp.matrix([mp.sin(t) for t in phases])
        return density(eta) * ((c.T * mp.lu_solve(A, c))[0] + (s.T * mp.lu_solve(A, s))[0])


def effective_dimension(X: Sequence[Sequence[Any]], lam: Any) -> Any:
    """s_λ = tr K(K + λI)⁻¹."""
    with mp.workdps(mp.mp.dps + SPARE):
        K = kernel_matrix(X)
        inverse = mp.inverse(K + mp.mpf(lam) * mp.eye(len(X)))
        return sum((K * inverse)[i, i] for i in range(len(X)))


def upper_normal(x: Any) -> Any:
    """Φc(x) = 1 − Φ(x)."""
    return mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2


def box_bound(eta: Sequence[Any], width: Any, n: Any, s: Any, h: Any) -> Any:
    """L-23: Π_j (W + 2h s) e^{η_j²/(4A)} + n p(η) (D·2Φc(h))², A = 4π²s² − ½, with one s and h for all dimensions."""
    A = 4 * mp.pi**2 * mp.mpf(s) ** 2 - mp.mpf(1) / 2
    first = mp.fprod((width + 2 * mp.mpf(h) * s) * mp.exp(mp.mpf(e) ** 2 / (4 * A)) for e in eta)
    return first + n * density(eta) * (len(eta) * 2 * upper_normal(h)) ** 2


def overlap(W: Any, A: Any) -> Any:
    """E(W − |t|)₊, t ~ N(0, A/(2π²)), by quadrature."""
    spread = mp.sqrt(mp.mpf(A) / 2) / mp.pi
    return 2 * mp.quad(lambda t: (W - t) * mp.npdf(t, 0, spread), [0, min(W, spread), min(W, 10 * spread), W])


def shell_bound(radius: Any, widths: Sequence[Any], n: Any, A: Any, h: Any) -> Any:
    """N-shell: e^{r²/(4A)} Π E(W'_j − |t|)₊ + n p(η) (1 − Π_j (1 − Φc(h) − Φc(h + W_j/s)))² at |η| = r."""
    s = mp.sqrt(mp.mpf(A) + mp.mpf(1) / 2) / (2 * mp.pi)
    overlaps = {W: overlap(W + 2 * h * s, A) for W in set(widths)}
    first = mp.exp(mp.mpf(radius) ** 2 / (4 * mp.mpf(A))) * mp.fprod(overlaps[W] for W in widths)
    inside = mp.fprod(1 - upper_normal(h) - upper_normal(h + W / s) for W in widths)
    gauss = (2 * mp.pi) ** (-mp.mpf(len(widths)) / 2) * mp.exp(-(mp.mpf(radius) ** 2) / 2)
    return first + n * gauss * (1 - inside) ** 2


def box_mass(width: Any, dim: int, n: Any, c: Any) -> Any:
    """L-23: s̃ = (2T)^D C + n(1 − (1 − 2Φc(T))^D), C = (e^c (W + 2hs))^D + n(2π)^{−D/2}(2DΦc(h))²."""
    h, T = mp.sqrt(mp.log(n * dim**2)), mp.sqrt(2 * mp.log(n * dim))
    s = mp.sqrt(T**2 / (4 * mp.mpf(c)) + mp.mpf(1) / 2) / (2 * mp.pi)
    C = (mp.exp(c) * (width + 2 * h * s)) ** dim
    C += n * (2 * mp.pi) ** (-mp.mpf(dim) / 2) * (2 * dim * upper_normal(h)) ** 2
    return (2 * T) ** dim * C + n * (1 - (1 - 2 * upper_normal(T)) ** dim)


def avron_mass(radius: Any, dim: int, n: Any, c: Any) -> Any:
    """L-22: (20√(ln n))^D ((12.4 max(R, c (ln n)^{1.5}))^D + 1) + n(A^D − (A − B)^D)."""
    L = mp.log(n)
    box = (20 * mp.sqrt(L)) ** dim * ((mp.mpf("12.4") * max(mp.mpf(radius), c * L ** mp.mpf("1.5"))) ** dim + 1)
    A = mp.erf(1 / mp.sqrt(2)) + 2 * mp.npdf(1)
    B = mp.sqrt(2 / mp.pi) * mp.mpf(n) ** -50
    return box + n * (A**dim - (A - B) ** dim)


def kappa(gap: Any) -> Any:
    """κ(Δ) = ½[Δ/(1 − Δ) + ln(1 − Δ)]."""
    gap = mp.mpf(gap)
    return (gap / (1 - gap) + mp.log(1 - gap)) / 2


def spectral(total: Any, dimension: Any, rho: Any, eps: Any) -> Any:
    """L-27, not rounded up to a whole number."""
    half = mp.mpf(1) / 2
    gap = (
        half
        if eps >= kappa(half)
        else mp.findroot(lambda x: kappa(x) - eps, (mp.mpf(10) ** -60, half), solver="anderson")
    )
    return mp.mpf(8) / 3 / gap**2 * total * mp.log((16 * mp.mpf(dimension) + 8) / rho)


def frobenius(total: Any, dimension: Any, rho: Any, target: Any) -> Any:
    """L-28 with 4(1 − ln 2) = 1.2274…, not rounded up."""
    first = mp.mpf(32) / 3 * total * mp.log((32 * mp.mpf(dimension) + 16) / rho)
    return max(first, 4 * (1 - mp.log(2)) * total * dimension / (mp.mpf(rho) * target))


def weighted_kl(m: Any, total: Any, dimension: Any, rho: Any, gap: Any) -> Any:
    """N-rff at one Δ; infinite where δ₂ ≤ 0."""
    m, total, dimension, gap = (mp.mpf(a) for a in (m, total, dimension, gap))
    x = m * gap**2 / (2 * total)
    left = rho - dimension * mp.expm1(x) / (mp.expm1(2 * x) - 2 * x)
    if left <= 0:
        return mp.inf
    u, b, nats = mp.sqrt(total * dimension / m), mp.sqrt(total**2 + dimension), -mp.log(left)
    norm = u + mp.sqrt(2 * nats * (total + 2 * b * u) / m) + b * nats / (3 * m)
    return kappa(gap) / gap**2 * min(u**2 / left, norm**2)


def printed_features(R: Any, dim: int, eps: Any, N: Any, noise: Any, rho: Any) -> Any:
    """Theorem 2 as printed with Ω(x) = x: R^D ε⁻² (ln N/σ²)^{2D} ln(N/δ)."""
    return mp.mpf(R) ** dim / mp.mpf(eps) ** 2 * mp.log(N / mp.mpf(noise)) ** (2 * dim) * mp.log(N / mp.mpf(rho))


def divergence(x: Any) -> Any:
    """½[x − ln(1 + x)] (L-09)."""
    x = mp.mpf(x)
    return (x - mp.log1p(x)) / 2


def chebyshev(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """Eq. 20: Λ + √(BΛ/(Nδ))."""
    return mean + mp.sqrt(mp.mpf(top) * mean / (N * mp.mpf(rho)))


def cantelli(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """Λ + √((B − Λ)Λ(1 − δ)/(Nδ))."""
    mean, top, rho = mp.mpf(mean), mp.mpf(top), mp.mpf(rho)
    return mean + mp.sqrt((top - mean) * mean * (1 - rho) / (N * rho))


def binary_kl(q: Any, p: Any) -> Any:
    """kl(q‖p)."""
    q, p = mp.mpf(q), mp.mpf(p)
    first = q * mp.log(q / p) if q > 0 else mp.mpf(0)
    return first + ((1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0)


def chernoff(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """B·max{q: kl(q‖Λ/B) ≤ ln(1/δ)/N}, by bisection."""
    p, level = mp.mpf(mean) / top, -mp.log(rho) / N
    if binary_kl(1, p) <= level:
        return mp.mpf(top)
    low, high = p, mp.mpf(1)
    for _ in range(int(3.4 * mp.mp.dps) + 40):
        middle = (low + high) / 2
        low, high = (middle, high) if binary_kl(middle, p) <= level else (low, middle)
    return top * high


def binomial_divergence(p: Any, N: int, b: Any) -> Any:
    """E ½[bk − ln(1 + bk)], k ~ Bin(N, p), term by term."""
    p = mp.mpf(p)
    return mp.fsum(mp.binomial(N, k) * p**k * (1 - p) ** (N - k) * divergence(b * k) for k in range(N + 1))


def largest_tail(eps: Any, noise: Any, top: Any, N: Any, rho: Any) -> Any:
    """Λ*: √Λ* = 4εσ²/(a + √(a² + 8εσ²)), a = √(B/(Nδ)), solves Λ + √(BΛ/(Nδ)) = 2εσ² (L-48)."""
    a, level = mp.sqrt(mp.mpf(top) / (N * mp.mpf(rho))), mp.mpf(eps) * noise
    return (4 * level / (a + mp.sqrt(a**2 + 8 * level))) ** 2


def level_rank(q: Any, dim: int, largest: Any) -> int:
    """C(m − 1, D) for the least m ≥ D with I_q(m − D, D) ≤ Λ* (L-48); 0 if Λ* ≥ 1."""
    if largest >= 1:
        return 0
    m = dim + 1
    while mp.betainc(m - dim, dim, 0, q, regularized=True) > largest:
        m += 1
    return int(mp.binomial(m - 1, dim))
