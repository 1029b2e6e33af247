"""``rate`` in mpmath from the tails of a spectrum, and the bounds for k-DPP draws before and after the data are seen.

Eigenvalues are lists; the means are written with elementary symmetric polynomials, as in the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import esp, expected_trace, miss, slope_at_zero, slopes
from gpbounds.reference.renyi import F_hat, psi, trace_term


def sharpest_trace(tails: Sequence[Any], N: int, M: int, variance: Any, tv: Any, population: Any = mp.inf) -> Any:
    """t* = N·min{R, min_{k<=M} (M+1)/(M+1-k)·tails[k]} + (N-M)·v·tv, tails[k] = Σ_{m>k} λ_m, R = ``population``."""
    best = min(population, *(mp.mpf(M + 1) / (M + 1 - k) * tails[k] for k in range(M + 1)))
    return N * best + (N - M) * variance * tv


def printed_trace(tails: Sequence[Any], N: int, M: int, variance: Any, tv: Any) -> Any:
    """t = (M+1)·N·tails[M] + 2N·v·tv."""
    return (M + 1) * N * tails[M] + 2 * N * variance * tv


def prior_bound(t: Any, N: int, M: int, alpha: Any, noise: Any, delta: Any) -> Any:
    """R-thm1, sharper forms (a) and (b), the smaller."""
    n, beta = N - M, 1 - alpha
    best = n / delta * F_hat(t / (n * noise), alpha)
    for j in range(1, 7):
        tail = delta / 2**j
        tau, x = t / (delta - tail), mp.log(1 / tail)
        W = alpha * tau / (noise + beta * tau / n)
        w = min(alpha * tau / (noise + beta * tau), W)
        mean = min(n * F_hat(tau / (n * noise), alpha), trace_term(tau, n, noise, alpha) + (W - mp.log(1 + W)) / 2)
        best = min(best, mean + mp.sqrt(x * w * W) + x * w)
    return best


def any_bound(t: Any, N: int, M: int, alpha: Any, noise: Any, delta: Any, y_norm2: Any) -> Any:
    """R-thm2, sharper: g_{N-M}(t/δ) + ½ ‖y‖²/σ² ψ(t/(δσ²))."""
    return trace_term(t / delta, N - M, noise, alpha) + y_norm2 / noise * psi(t / (delta * noise), alpha) / 2


def rate(
    tails: Sequence[Any],
    N: int,
    M: int,
    alpha: Any,
    *,
    variance: Any = 1,
    noise: Any,
    delta: Any,
    y_norm2: Any = None,
    tv: Any = 0,
    form: str = "sharpest",
    population: Any = mp.inf,
) -> Any:
    """The bound on D_α[q*‖p] of :func:`gpbounds.rate`, from exact tails and R(μ) or a bound of it (N-pop)."""
    if form == "sharpest":
        t = sharpest_trace(tails, N, M, variance, tv, population)
    else:
        t = printed_trace(tails, N, M, variance, tv)
    with mp.workdps(mp.mp.dps + max(0, -int(mp.log10(t)))):  # enough digits for log(1 + t)
        if form == "printed":
            second = 1 if y_norm2 is None else y_norm2 / noise
            return trace_term(t, N, noise, alpha) / delta + alpha * t / (2 * delta * noise) * second
        if y_norm2 is None:
            return prior_bound(t, N, M, alpha, noise, delta)
        return any_bound(t, N, M, alpha, noise, delta, y_norm2)


def best_given(values: Sequence[Any], squares: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """α(q̄ + b̄)/(2 max_a [p(1 − αa) − αΩ_a])  (N-given); ``squares`` are (Vᵀy)_i²."""
    return _level(values, M, noise, alpha, p, lambda rho, shifted: mp.fsum(
        r * mp.mpf(s) / t**2 for r, s, t in zip(rho, squares, shifted, strict=True)
    ))  # fmt: skip


def best_fixed(values: Sequence[Any], y_norm2: Any, M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """The same with q̄ = ‖y‖² max ρ_i/(λ_i + σ²)²  (N-fixed)."""
    return _level(values, M, noise, alpha, p, lambda rho, shifted: y_norm2 * max(
        r / t**2 for r, t in zip(rho, shifted, strict=True)
    ))  # fmt: skip


def _level(values: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any, quadratic: Callable[..., Any]) -> Any:
    basis, noise, alpha = [mp.mpf(value) for value in values], mp.mpf(noise), mp.mpf(alpha)
    missed = miss(basis, M)
    rho = [value * share for value, share in zip(basis, missed, strict=True)]
    shares = [value / (value + noise) for value in basis]
    excess = mp.fsum(r * h for r, h in zip(rho, shares, strict=True)) / noise

    def bracket(a: Any) -> Any:
        omega = mp.fsum(m * max(h - a, 0) for m, h in zip(missed, shares, strict=True))
        return p * (1 - alpha * a) - alpha * omega

    most = max(bracket(a) for a in [mp.mpf(0), *shares])
    mean = alpha * (quadratic(rho, [value + noise for value in basis]) + excess) / 2
    return mean / most if most > 0 else mp.inf


def population_trace(tails: Sequence[Any], M: int) -> Any:
    """R(ν) + g0·tails[n] with ν_i = tails[i−1] − tails[i], i <= n = len(tails) − 1 (N-pop, N-cut); tails are convex."""
    values = [mp.mpf(a) - mp.mpf(b) for a, b in pairwise(tails)]
    if len(values) <= M:
        return mp.inf
    return expected_trace(values, M) + slope_at_zero(values, M) * tails[-1]


def geometric_trace(B: Any, M: int) -> Any:
    """R of (1−B)B^m, m = 0, 1, ...: (M+1)(1−B)B^M/(1−B^(M+1)) (q-binomial theorem)."""
    return (M + 1) * (1 - B) * B**M / (1 - B ** (M + 1))


def mean_trace(gram: Any, weights: Sequence[Any], N: int, M: int) -> Any:
    """E_X E_Z Tr(K − Q) by enumeration: N inputs iid on len(weights) points with Gram matrix ``gram``.

    Where fewer than M + 1 of K's eigenvalues are positive the trace is 0.
    """
    total = mp.mpf(0)
    for atoms in product(range(len(weights)), repeat=N):
        K = mp.matrix(N, N)
        for i, a in enumerate(atoms):
            for j, b in enumerate(atoms):
                K[i, j] = gram[a, b]
        values = [value for value in mp.eigsy(K, eigvals_only=True) if value > mp.mpf(10) ** (-mp.mp.dps // 2)]
        if len(values) > M:
            total += mp.fprod(weights[a] for a in atoms) * expected_trace(values, M)
    return total


def order_statistic_failure(values: Sequence[Any], weights: Sequence[Any], sets: int, order: int) -> Any:
    """P(F > k-th greatest of m copies of F), F one of ``values``: fewer than k copies are at least F."""
    total = mp.mpf(0)
    for value, weight in zip(values, weights, strict=True):
        p = mp.fsum(w for v, w in zip(values, weights, strict=True) if v >= value)
        few = mp.fsum(mp.binomial(sets, i) * p**i * (1 - p) ** (sets - i) for i in range(order))
        total += weight * few
    return total


def majorant(gram: Any, points: Sequence[int], values: Sequence[Any], functions: Any, M: int) -> list[Any]:
    """g at each of ``points``: g0·k(x, x) − Σ (g0 − g_i) u_i(x)², u_i(x) = ``functions[i, x]`` (N-sum)."""
    g, zero = slopes(values, M), slope_at_zero(values, M)
    return [
        zero * gram[x, x] - mp.fsum((zero - g[i]) * functions[i, x] ** 2 for i in range(len(values))) for x in points
    ]


def chernoff(values: Sequence[Any], weights: Sequence[Any], N: int, delta: Any, theta: Any) -> Any:
    """t with P(Σ g(x_n) >= t) <= δ by the moment e^{θg}: [N log E e^{θg} + log(1/δ)]/θ."""
    moment = mp.fsum(w * mp.exp(theta * v) for v, w in zip(values, weights, strict=True))
    return (N * mp.log(moment) - mp.log(delta)) / theta


def prior_from_trace(t: Any, largest: Any, p: Any, alpha: Any, R: int) -> Any:
    """min over a of B with αW/(2B) = p(1 − αa) − α(1 − √a)²t, W the R-norm of a Gamma variable (N-trace)."""
    norm = mp.fprod(t + 2 * largest * i for i in range(R)) ** (mp.mpf(1) / R)
    best = mp.inf
    for step in range(200):
        s = mp.mpf(step) / 200
        slack = p * (1 - alpha * s * s) - alpha * (1 - s) ** 2 * t
        if slack > 0:
            best = min(best, alpha * norm / (2 * slack))
    return best


def interval_tails(ratio: Any, n: int, terms: int) -> list[Any]:
    """Σ_{i>M} of the eigenvalues of P K P for M = 0 ... n, P the projector on n Legendre polynomials, K the squared
    exponential kernel with x uniform on an interval of half width ``ratio`` lengthscales: below those of K itself."""
    nodes = terms + 20
    x, w = zip(*_legendre_rule(nodes), strict=True)
    table = mp.matrix(nodes, n)
    for a in range(nodes):
        for k in range(n):
            table[a, k] = mp.sqrt(2 * k + 1) * mp.legendre(k, x[a]) * w[a] / 2
    g = mp.mpf(ratio)
    K = mp.matrix(nodes, nodes)
    for a in range(nodes):
        for b in range(nodes):
            K[a, b] = mp.exp(-((g * (x[a] - x[b])) ** 2) / 2)
    values = sorted(mp.eigsy(table.T * K * table, eigvals_only=True), reverse=True)
    return [mp.fsum(values[m:]) for m in range(n + 1)]


def _legendre_rule(n: int) -> list[tuple[Any, Any]]:
    """Gauss's nodes and weights on (−1, 1), by Newton's steps from Tricomi's guess."""
    rule = []
    for i in range(1, n + 1):
        x = mp.cos(mp.pi * (i - mp.mpf("0.25")) / (n + mp.mpf("0.5")))
        for _ in range(8):
            p, before = mp.mpf(1), mp.mpf(0)
            for k in range(1, n + 1):
                p, before = ((2 * k - 1) * x * p - (k - 1) * before) / k, p
            slope = n * (x * p - before) / (x * x - 1)
            x = x - p / slope
        rule.append((x, 2 / ((1 - x * x) * slope**2)))
    return rule


def moment(weights: Sequence[Any], constant: Any, R: int) -> Any:
    """E (c + Σ w z²)^R: R! times the coefficient of t^R in exp(ct) Π (1 − 2w t)^(−1/2)."""
    series = [mp.mpf(constant) ** k / mp.factorial(k) for k in range(R + 1)]
    for w in weights:
        factor = [mp.binomial(2 * k, k) * (mp.mpf(w) / 2) ** k for k in range(R + 1)]
        series = [mp.fsum(series[j] * factor[k - j] for j in range(k + 1)) for k in range(R + 1)]
    return mp.factorial(R) * series[R]


def prior_moments(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any, a: Any) -> Any:
    """B of N-prior for one a, by bisection; inf where no B does."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m = miss(values, M)
    h = [v / (v + s2) for v in values]
    theta = [mi * hi for mi, hi in zip(m, h, strict=True)]
    excess = mp.fsum(mi * v * hi / s2 for mi, v, hi in zip(m, values, h, strict=True))
    omega = mp.fsum(mi * max(hi - a, 0) for mi, hi in zip(m, h, strict=True))

    moments = [moment(theta, excess, k) for k in range(R + 1)]

    def probability(B: Any) -> Any:
        """E (c(Q + excess) + αΩ)^R/(1 − αa)^R, by the binomial theorem."""
        c = alpha / (2 * B)
        terms = (mp.binomial(R, k) * c**k * moments[k] * (alpha * omega) ** (R - k) for k in range(R + 1))
        return mp.fsum(terms) / (1 - alpha * a) ** R

    low, high = mp.mpf(10) ** -30, mp.mpf(10) ** 30
    if probability(high) > delta:
        return mp.inf
    while high / low > 1 + mp.mpf(10) ** -20:
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if probability(middle) > delta else (low, middle)
    return high


def prior_large(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any, a: Any) -> Any:
    """B of N-prior2 for one a, the form by moments."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m = miss(values, M)
    h = [v / (v + s2) for v in values]
    x = [alpha * v for v in h]
    excess = mp.fsum(mi * v * hi / s2 for mi, v, hi in zip(m, values, h, strict=True))
    gamma = mp.fsum(mi * xi * max(xi - a, 0) / ((1 - xi) * (1 - a)) for mi, xi in zip(m, x, strict=True))
    weights = sorted((alpha * mi * hi / (1 - a) for mi, hi in zip(m, h, strict=True)), reverse=True)
    weights[0] += gamma
    return (moment(weights, alpha * excess, R) / delta) ** (mp.mpf(1) / R) / 2


def tilted(eigenvalues: Sequence[Any], M: int, noise: Any) -> tuple[list[Any], Any]:
    """(θ_i, Σ miss_i d_i²) of the law of μ_i = λ_i(λ_i + σ²), d_i = λ_i/σ² (N-tilt)."""
    values, s2 = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise)
    m = miss([v * (v + s2) for v in values], M)
    return [mi * v / s2 for mi, v in zip(m, values, strict=True)], mp.fsum(
        mi * (v / s2) ** 2 for mi, v in zip(m, values, strict=True)
    )


def tilted_prior(eigenvalues: Sequence[Any], M: int, noise: Any, delta: Any, R: int, alpha: Any) -> Any:
    """(α/2) (E (Σ θ z² + Σ miss d²)^R/δ)^(1/R)  (N-tilt-prior)."""
    theta, determinant = tilted(eigenvalues, M, noise)
    return mp.mpf(alpha) / 2 * (moment(theta, determinant, R) / delta) ** (mp.mpf(1) / R)


def tilted_given(eigenvalues: Sequence[Any], squares: Sequence[Any], M: int, noise: Any, alpha: Any, p: Any) -> Any:
    """(α/(2p)) [Σ θ_i s_i/(λ_i + σ²) + Σ miss_i d_i²], s_i = (Vᵀy)_i²  (N-tilt-given)."""
    theta, determinant = tilted(eigenvalues, M, noise)
    parts = zip(theta, squares, eigenvalues, strict=True)
    return mp.mpf(alpha) / (2 * p) * (mp.fsum(t * mp.mpf(s) / (mp.mpf(v) + noise) for t, s, v in parts) + determinant)


def joint_mean(eigenvalues: Sequence[Any], M: int, noise: Any, alpha: Any) -> Any:
    """g(τ) + ½ Σ miss_i [x/(1 − x) + log(1 − x)] at x = αh_i  (N-one)."""
    values, s2, alpha = [mp.mpf(v) for v in eigenvalues], mp.mpf(noise), mp.mpf(alpha)
    m, n = miss(values, M), sum(1 for v in values if v > 0) - M
    if n == 0:
        return mp.mpf(0)
    trace = mp.fsum(mi * v for mi, v in zip(m, values, strict=True))
    beta = 1 - alpha
    g = trace / (2 * s2) if beta == 0 else alpha * n / (2 * beta) * mp.log(1 + beta * trace / (n * s2))
    x = [alpha * v / (v + s2) for v in values]
    return g + mp.fsum(mi * (xi / (1 - xi) + mp.log(1 - xi)) for mi, xi in zip(m, x, strict=True)) / 2


def trace_quantile(eigenvalues: Sequence[Any], M: int, p: Any) -> Any:
    """N-order with Cantelli's quantile over every set of greatest or least eigenvalues."""
    values = sorted((mp.mpf(v) for v in eigenvalues), reverse=True)
    m, n = miss(values, M), len(values)
    best = mp.inf
    for rest in [range(k) for k in range(n + 1)] + [range(k, n) for k in range(n + 1)]:
        inside = mp.fsum(values[i] * m[i] for i in range(n) if i not in rest)
        mean = mp.fsum(values[i] * m[i] for i in rest)
        variance = mp.fsum(values[i] ** 2 * m[i] * (1 - m[i]) for i in rest)
        best = min(best, inside / p + mean + mp.sqrt((1 / mp.mpf(p) - 1) * variance))
    return best


def trace_variance(eigenvalues: Sequence[Any], M: int) -> Any:
    """min{Σ λ_i ρ_i − τ_M(τ_M − τ_{M+1}), Σ λ_i² miss_i (1 − miss_i)}  (N-vart)."""
    values = [mp.mpf(v) for v in eigenvalues]
    m, e = miss(values, M), esp(values, M + 2)
    mean = (M + 1) * e[M + 1] / e[M]
    more = (M + 2) * e[M + 2] / e[M + 1] if e[M + 1] else mp.mpf(0)
    first = mp.fsum(v * v * mi for v, mi in zip(values, m, strict=True)) - mean * (mean - more)
    return min(first, mp.fsum(v * v * mi * (1 - mi) for v, mi in zip(values, m, strict=True)))


def gap_quantile(values: Sequence[Any], rho: Sequence[Any], p: Any) -> Any:
    """min over c of c + Σ ρ_i (1 − c/λ_i)₊/p, c = 0 or an eigenvalue  (N-op-draw)."""
    pairs = [(mp.mpf(value), mp.mpf(mean)) for value, mean in zip(values, rho, strict=True) if value > 0]
    return min(
        c + mp.fsum(mean * max(1 - c / value, mp.mpf(0)) for value, mean in pairs) / p
        for c in [mp.mpf(0), *(value for value, _ in pairs)]
    )


def operator_gap(S: Any) -> Any:
    """λ_max of a residual K − Q."""
    return max(mp.eigsy(S, eigvals_only=True))


def effective_dimension(K: Any, c: Any) -> Any:
    """d(K) = Tr K(K + cI)⁻¹."""
    return K.rows - c * mp.fsum((mp.inverse(K + c * mp.eye(K.rows)))[i, i] for i in range(K.rows))


def dimension_above(mean: Any, p: Any) -> Any:
    """D + L/3 + √(L²/9 + 2DL), L = log(1/p)  (N-op-pop)."""
    L = -mp.log(p)
    return mean + L / 3 + mp.sqrt(L**2 / 9 + 2 * mean * L)
