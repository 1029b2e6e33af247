"""The KL divergence of a low-rank GP in mpmath, and the ranks of random features and truncated Mercer expansions.

Straight from ledger L: laws, Woodbury, Prop. 1, the optimum, κ (L.1), ranks (L-20 … L-29, L-41 … L-48).
K, Sigma are N × N, features Ξ N × r mpmath matrices; noise = σ²; g = γ/(1 + γ).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mpmath import eigsy, eye, log, mp, mpf, sqrt

from gpbounds.reference import linalg, pacbayes
from gpbounds.reference.divergences import gaussian_kl
from gpbounds.reference.linalg import log_det, solve
from gpbounds.reference.renyi import log_normal

SPARE = 60


def noisy(K: Any, noise: Any) -> Any:
    """K + σ²I."""
    return K + noise * eye(K.rows)


def kl(K: Any, Sigma: Any, noise: Any) -> Any:
    """KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) from its closed form (L-04, L-11)."""
    zero = mp.zeros(K.rows, 1)
    return gaussian_kl(zero, noisy(K, noise), zero, noisy(Sigma, noise))


def phi(e: Any) -> Any:
    """e − log(1 + e)."""
    return e - mp.log1p(e)


def kl_of_ratios(ratios: Any) -> Any:
    """½Σ φ(λ_i − 1), λ_i the eigenvalues of Σ₂⁻¹Σ₁ (L-04, eq. 28)."""
    return sum((phi(v - 1) for v in ratios), mpf(0)) / 2


def ratios(S1: Any, S2: Any) -> list[Any]:
    """Eigenvalues of Σ₂^{-½}Σ₁Σ₂^{-½}, rising."""
    values, vectors = eigsy(S2)
    root = vectors * mp.diag([1 / sqrt(v) for v in values]) * vectors.T
    whitened = root * S1 * root
    return sorted(eigsy((whitened + whitened.T) / 2, eigvals_only=True))


def woodbury_inverse(features: Any, noise: Any) -> Any:
    """(ΞΞᵀ + σ²I)⁻¹ = σ⁻²I − σ⁻²Ξ(σ²I_r + ΞᵀΞ)⁻¹Ξᵀ (L-02)."""
    inner = noisy(features.T * features, noise)
    return (eye(features.rows) - features * solve(inner, features.T)) / noise


def woodbury_log_det(features: Any, noise: Any) -> Any:
    """log|ΞΞᵀ + σ²I| = (N − r) log σ² + log|σ²I_r + ΞᵀΞ| (L-03)."""
    return (features.rows - features.cols) * log(noise) + log_det(noisy(features.T * features, noise))


def predict(K: Any, cross: Any, new: Any, y: Any, noise: Any) -> tuple[Any, Any]:
    """Mean and covariance of noisy y_* given y: K_*A⁻¹y, K_** + σ²I − K_*A⁻¹K_*ᵀ, A = K + σ²I (L-01)."""
    inverse = linalg.inverse(noisy(K, noise))
    return cross * inverse * y, noisy(new, noise) - cross * inverse * cross.T


def evidence_gap(K: Any, Sigma: Any, y: Any, noise: Any) -> Any:
    """log N(y; 0, K + σ²I) − log N(y; 0, Sigma + σ²I), summed over the columns of y (N-evgap)."""
    columns = [y[:, j] for j in range(y.cols)]
    return sum(
        (log_normal(column, noisy(K, noise)) - log_normal(column, noisy(Sigma, noise)) for column in columns), mpf(0)
    )


def predictive_kl(K: Any, Sigma: Any, y: Any, noise: Any) -> Any:
    """KL of the laws of new noisy y' at the same rows given y (L-01), summed over columns of y (N-predkl)."""
    laws = ((predict(K, K, K, y[:, j], noise), predict(Sigma, Sigma, Sigma, y[:, j], noise)) for j in range(y.cols))
    return sum((gaussian_kl(*exact, *approximate) for exact, approximate in laws), mpf(0))


def through_basis(K: Any, Sigma: Any, U: Any, noise: Any) -> tuple[Any, Any, Any]:
    """Both ends of the KL through the columns of U, and the upper end of tr K(K + σ²I)⁻¹ (N-basis)."""
    zero, left = mp.zeros(U.cols, 1), eye(K.rows) - U * linalg.inverse(U.T * U) * U.T
    low = gaussian_kl(zero, U.T * noisy(K, noise) * U, zero, U.T * noisy(Sigma, noise) * U)
    s, rest, t = linalg.trace(left * K), linalg.trace(left * Sigma), 2 * low
    rho = 1 + t + sqrt(t * t + 2 * t)
    high = low + (s + rest + (sqrt(abs(s)) + sqrt(abs(rho * rest))) ** 2) / (2 * mpf(noise))
    inside = U.T * K * U
    dimension = linalg.trace(inside * linalg.inverse(inside + noise * U.T * U)) + s / mpf(noise)
    return low, high, dimension


def covariance_part(a: Any, near: Any, noise: Any) -> Any:
    """½[h tr(b̃⁻¹ − a⁻¹) − h² tr(b̃⁻¹a⁻¹) + log(|b̃||a|/(|ã||b|))], h = σ²/2, b = a − hI (N-predkl)."""
    half = mpf(noise) / 2
    b, other = noisy(a, -half), noisy(near, -half)
    inverse, outer = linalg.inverse(a), linalg.inverse(other)
    logs = log_det(other) + log_det(a) - log_det(near) - log_det(b)
    return (half * linalg.trace(outer - inverse) - half**2 * linalg.trace(outer * inverse) + logs) / 2


def given_through_basis(K: Any, Sigma: Any, U: Any, y: Any, noise: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Ends of the evidence gap and of the predictive KL from the columns of U (N-basis-given)."""
    values, vectors = eigsy(U.T * U)
    V = U * vectors * mp.diag([1 / sqrt(v) for v in values]) * vectors.T
    left = eye(K.rows) - V * V.T
    s, rest = abs(linalg.trace(left * K)), abs(linalg.trace(left * Sigma))
    a, near = (noisy(V.T * each * V, noise) for each in (K, Sigma))
    A, other = noisy(K, noise), noisy(Sigma, noise)
    form = linalg.trace(y.T * (linalg.inverse(other) - linalg.inverse(A)) * y)
    gap = (y.cols * (log_det(near) - log_det(a)) + form) / 2
    whole = predictive_kl(K, Sigma, y, noise)
    means = whole - y.cols * covariance_part(A, other, noise)
    middle, double = means + y.cols * covariance_part(a, near, noise), 2 * mpf(noise)
    above = (2 * s + 3 * rest + (sqrt(s) + sqrt(2 * rest)) ** 2) / double
    return (
        (gap - y.cols * s / double, gap + y.cols * rest / double),
        (middle - y.cols * (s + rest) / double, middle + y.cols * above),
    )


def least_gamma(S1: Any, S2: Any) -> Any:
    """The least γ ≥ 0 with (1 + γ)Σ₁ ⪰ Σ₂."""
    return max(mpf(0), 1 / ratios(S1, S2)[0] - 1)


def kl_from_excess(excess: Any, N: int, gamma: Any, form: str) -> Any:
    """L-06 from excess = Tr Σ₂⁻¹Σ₁ − N."""
    g = mpf(gamma) / (1 + gamma)
    return {
        "sharpest": ((N - 1) * phi(-g) + phi(excess + (N - 1) * g)) / 2,
        "logarithmic": (excess + N * log(1 + mpf(gamma))) / 2,
        "corrected": (excess + N * gamma) / 2,
        "printed": (excess - N * gamma) / 2,
    }[form]


def kl_from_ratio(gamma: Any, N: int, form: str) -> Any:
    """L-07."""
    return {"sharpest": N * phi(gamma) / 2, "quadratic": N * gamma**2 / 4, "printed": N * gamma}[form]


def kl_from_traces(trace1: Any, trace2: Any, N: int, noise: Any, gamma: Any, least: Any, form: str) -> Any:
    """L-08; least = λ_min(K₂)."""
    g, L, floor = mpf(gamma) / (1 + gamma), log(1 + mpf(gamma)), mpf(noise) + least
    T = (trace1 - (1 - g) * trace2 + g * N * noise) / floor
    return {
        "sharpest": ((N - 1) * phi(-g) + max(phi(-g), phi(T - g))) / 2,
        "logarithmic": (trace1 - (1 - L) * trace2 + L * N * noise) / (2 * floor),
        "corrected": (trace1 - (1 - gamma) * trace2 + gamma * N * noise) / (2 * mpf(noise)),
        "printed": (trace1 - (1 + gamma) * trace2 + gamma * N * noise) / (2 * mpf(noise)),
    }[form]


def kl_from_residual(residual: Any, noise: Any, least: Any, form: str) -> Any:
    """L-09; residual = Tr(K₁ − K₂)."""
    return phi(mpf(residual) / (noise + least)) / 2 if form == "sharpest" else mpf(residual) / (2 * mpf(noise))


def optimal_kl(eigenvalues: Any, noise: Any) -> list[Any]:
    """½Σ_{i>r} φ(λ_i/σ²) for r = 0 … N, λ falling (L-10)."""
    terms = [phi(mpf(v) / noise) / 2 for v in sorted(eigenvalues, reverse=True)]
    return [sum(terms[r:], mpf(0)) for r in range(len(terms) + 1)]


def truncation(K: Any, r: int) -> Any:
    """The r leading eigenpairs of K."""
    values, vectors = eigsy(K)
    kept = mp.diag([v if K.rows - i <= r else mpf(0) for i, v in enumerate(values)])
    return vectors * kept * vectors.T


def kappa(delta: Any) -> Any:
    """κ(Δ) = ½[Δ/(1 − Δ) + log(1 − Δ)] (L-25)."""
    with mp.workdps(mp.dps + 700):  # the leading terms cancel
        delta = mpf(delta)
        return (delta / (1 - delta) + log(1 - delta)) / 2


def kappa_inverse(eps: Any) -> Any:
    """The Δ in [0, 1) with κ(Δ) = ε, by bisection in log e, e = Δ/(1 − Δ), κ = ½(e − log(1 + e))."""
    if eps == 0:
        return mpf(0)
    digits = mp.dps
    with mp.workdps(digits + 700):  # e − log(1 + e) loses twice the digits by which e is small
        eps = mpf(eps)
        low, high = log(sqrt(eps)), log(4 * eps + 4 * sqrt(eps))
        for _ in range(4 * digits + 10):
            middle = (low + high) / 2
            low, high = (middle, high) if phi(mp.exp(middle)) / 2 < eps else (low, middle)
        e = mp.exp(high)
        return e / (1 + e)


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
    with mp.workdps(mp.dps + SPARE):
        A = kernel_matrix(X) + mp.mpf(lam) * mp.eye(len(X))
        phases = [2 * mp.pi * sum(mp.mpf(e) * a for e, a in zip(eta, x, strict=True)) for x in X]
        c, s = mp.matrix([mp.cos(t) for t in phases]), mp.matrix([mp.sin(t) for t in phases])
        return density(eta) * ((c.T * mp.lu_solve(A, c))[0] + (s.T * mp.lu_solve(A, s))[0])


def effective_dimension(X: Sequence[Sequence[Any]], lam: Any) -> Any:
    """s_λ = tr K(K + λI)⁻¹."""
    with mp.workdps(mp.dps + SPARE):
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
    return phi(mpf(x)) / 2


def chebyshev(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """Eq. 20: Λ + √(BΛ/(Nδ))."""
    return mean + mp.sqrt(mp.mpf(top) * mean / (N * mp.mpf(rho)))


def cantelli(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """Λ + √((B − Λ)Λ(1 − δ)/(Nδ))."""
    mean, top, rho = mp.mpf(mean), mp.mpf(top), mp.mpf(rho)
    return mean + mp.sqrt((top - mean) * mean * (1 - rho) / (N * rho))


def chernoff(mean: Any, top: Any, N: Any, rho: Any) -> Any:
    """B·max{q: kl(q‖Λ/B) ≤ ln(1/δ)/N}, by bisection."""
    p, level = mp.mpf(mean) / top, -mp.log(rho) / N
    if pacbayes.kl(1, p) <= level:
        return mp.mpf(top)
    low, high = p, mp.mpf(1)
    for _ in range(int(3.4 * mp.dps) + 40):
        middle = (low + high) / 2
        low, high = (middle, high) if pacbayes.kl(middle, p) <= level else (low, middle)
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


# Hilbert-space GPs on [−S, S] with k = ρ of variance and lengthscale 1, ν = mp.inf for the squared exponential kernel.


def correlation(nu: Any, r: Any) -> Any:
    """ρ(r) of a Matérn kernel by the Bessel function, or e^{−r²/2}."""
    r = abs(mp.mpf(r))
    if nu == mp.inf:
        return mp.exp(-r * r / 2)
    if r == 0:
        return mp.mpf(1)
    z = mp.sqrt(2 * mp.mpf(nu)) * r
    return 2 ** (1 - mp.mpf(nu)) / mp.gamma(nu) * z**nu * mp.besselk(nu, z)


def line_density(nu: Any, w: Any) -> Any:
    """s(ω) with ∫s = 2π."""
    if nu == mp.inf:
        return mp.sqrt(2 * mp.pi) * mp.exp(-(mp.mpf(w) ** 2) / 2)
    nu = mp.mpf(nu)
    scale = mp.sqrt(2 * mp.pi) * mp.gamma(nu + mp.mpf(1) / 2) / (mp.gamma(nu) * mp.sqrt(nu))
    return scale * (1 + mp.mpf(w) ** 2 / (2 * nu)) ** -(nu + mp.mpf(1) / 2)


def plane_density(nu: Any, v: Any, w: Any) -> Any:
    """s(v, w) in two dimensions, ∫s = (2π)²."""
    square = mp.mpf(v) ** 2 + mp.mpf(w) ** 2
    if nu == mp.inf:
        return 2 * mp.pi * mp.exp(-square / 2)
    return 2 * mp.pi * (1 + square / (2 * mp.mpf(nu))) ** -(mp.mpf(nu) + 1)


def sines(nu: Any, L: Any, m: int, x: Any, y: Any, first: int = 1) -> Any:
    """Σ_{j = first … m} s(ω_j)φ_j(x)φ_j(y)."""
    w = mp.pi / (2 * mp.mpf(L))
    x, y = mp.mpf(x) + L, mp.mpf(y) + L
    return sum(line_density(nu, j * w) * mp.sin(j * w * x) * mp.sin(j * w * y) for j in range(first, m + 1)) / L


def image_sum(nu: Any, L: Any, x: Any, y: Any, terms: int) -> Any:
    """Σ_{|n| ≤ terms} k(x − y + 4nL) − k(x + y + 2L + 4nL) (N-hilbert-images)."""
    x, y = mp.mpf(x), mp.mpf(y)
    shifts = [4 * n * mp.mpf(L) for n in range(-terms, terms + 1)]
    return sum(correlation(nu, x - y + a) - correlation(nu, x + y + 2 * L + a) for a in shifts)


def image_error(nu: Any, S: Any, L: Any) -> Any:
    """ε = Σ_{n≥0} ρ((4n+2)L − 2S) + ρ((4n+2)L) (N-hilbert-images)."""
    S, L = mp.mpf(S), mp.mpf(L)
    last = int(100 / L) + 2
    return sum(correlation(nu, (4 * n + 2) * L - a) for n in range(last) for a in (2 * S, 0))


def omitted_sines(nu: Any, L: Any, c: Any, m: int, turn: Any) -> Any:
    """t of N-hilbert-tail, of s beyond (m + ½)π/(2L), or mπ/(2L) below ``turn``: a normal tail, or by quadrature."""
    step = mp.pi / (2 * mp.mpf(L))
    start = (m + mp.mpf(1) / 2) * step
    start = start if start >= turn else m * step
    ends = [start, start + 1, start + 10, mp.inf]
    if nu == mp.inf:
        share = mp.erfc(start / mp.sqrt(2))
    else:
        share = mp.quad(lambda w: line_density(nu, w), ends) / mp.pi
    return min(share + line_density(nu, (m + 1) * step) / (2 * L * mp.cos(mp.pi / (2 * mp.mpf(c)))), 2 * share)


def explained(nu: Any, t: Any) -> Any:
    """r(t)²: what f on a half-space of R³ says of f at the distance t: a ∫ of the past's share, by quadrature over a
    (N-hilbert-predict)."""
    nu, t = mp.mpf(nu), mp.mpf(t)
    order, first = 2 * nu + 2, mp.sqrt(2 * mp.mpf(nu))

    def until(start: Any) -> Any:
        def at(a: Any) -> Any:
            return a * mp.gammainc(order, 2 * a * start) / (2 * a) ** order

        return mp.quad(at, [first, first + 1, first + 5, first + 25, mp.inf])

    return until(t) / until(mp.mpf(0))


def predicted(nu: Any, S: list[Any], L: list[Any], terms: int) -> Any:
    """Ω = Σ r over the images with |n_d| ≤ terms in every coordinate (N-hilbert-predict)."""

    def share(t: Any) -> Any:
        y = 2 * mp.sqrt(2 * mp.mpf(nu)) * t
        upper = [mp.gammainc(s, y, mp.inf, regularized=True) for s in (2 * mp.mpf(nu) + 1, 2 * mp.mpf(nu))]
        return mp.sqrt((2 * nu * upper[0] + upper[1]) / (2 * nu + 1))

    distances = [
        [mp.mpf(0), *(2 * n * mp.mpf(b) - side * mp.mpf(a) for n in range(1, terms + 1) for side in (1, 2))]
        for a, b in zip(S, L, strict=True)
    ]
    known = {t: share(t) for line in distances for t in line}
    return sum(known[max(each)] for each in itertools.product(*distances)) - 1


def joined(divergence: Any, x: Any) -> Any:
    """κ + ½φ(x) + ½ηx, φ(η) = 2κ (N-hilbert-psd)."""
    divergence, x = mp.mpf(divergence), mp.mpf(x)
    low, high = mp.mpf(0), 4 * divergence + 4 * mp.sqrt(divergence) + mp.mpf(10) ** -mp.dps
    for _ in range(4 * mp.dps):
        middle = (low + high) / 2
        low, high = (middle, high) if phi(middle) < 2 * divergence else (low, middle)
    return divergence + phi(x) / 2 + high * x / 2


def ends_kl(nu: Any, S: Any, L: Any, terms: int) -> tuple[Any, Any]:
    """KL of (f, f', …, f^(p−1)) at ±S, p = ν + ½, under k and under the image sum, both ways (N-hilbert-ends)."""
    p = int(nu + mp.mpf(1) / 2)
    polynomial = [mp.mpf(a) for a in {1: (1,), 2: (1, 1), 3: (1, 1, mp.mpf(1) / 3)}[p]]
    scale = mp.sqrt(2 * mp.mpf(nu))
    tables = [polynomial]
    for _ in range(2 * p - 2):
        before = tables[-1]
        slope = [*[(i + 1) * a for i, a in enumerate(before[1:])], mp.mpf(0)]
        tables.append([b - a for a, b in zip(before, slope, strict=True)])

    def value(q: int, u: Any) -> Any:
        size = abs(u) * scale
        side = -1 if u < 0 and q % 2 else 1
        return side * scale**q * sum(a * size**i for i, a in enumerate(tables[q])) * mp.exp(-size)

    points = [(s * mp.mpf(S), i) for s in (1, -1) for i in range(p)]
    exact_law, images = mp.matrix(2 * p), mp.matrix(2 * p)
    for a, (x, i) in enumerate(points):
        for b, (y, j) in enumerate(points):
            exact_law[a, b] = (-1) ** j * value(i + j, x - y)
            images[a, b] = sum(
                (-1) ** j * value(i + j, x - y + 4 * n * L) - value(i + j, x + y + 2 * L + 4 * n * L)
                for n in range(-terms, terms + 1)
            )
    zero = mp.zeros(2 * p, 1)
    return gaussian_kl(zero, exact_law, zero, images), gaussian_kl(zero, images, zero, exact_law)
