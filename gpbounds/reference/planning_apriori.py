"""Quantities before the inputs are seen, in mpmath: R(μ), its gradient, and means over finitely many points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import esp, expected_trace


def population_trace(tails: Sequence[Any], M: int) -> Any:
    """R(ν) + g0·tails[n] with ν_i = tails[i−1] − tails[i], i <= n = len(tails) − 1 (N-pop, N-cut); tails are convex."""
    values = [mp.mpf(a) - mp.mpf(b) for a, b in pairwise(tails)]
    if len(values) <= M:
        return mp.inf
    return expected_trace(values, M) + slope_at_zero(values, M) * tails[-1]


def slope_at_zero(values: Sequence[Any], M: int) -> Any:
    """g0 = (M+1)(1 − e_{M+1} e_{M−1}/e_M²): how R grows with an eigenvalue that is 0."""
    if M == 0:
        return mp.mpf(1)
    e = esp(values, M + 1)
    return (M + 1) * (1 - e[M + 1] * e[M - 1] / e[M] ** 2)


def slopes(values: Sequence[Any], M: int) -> list[Any]:
    """g_i = dR/dμ_i, by the quotient rule."""
    e = esp(values, M + 1)
    result = []
    for i in range(len(values)):
        rest = esp([*values[:i], *values[i + 1 :]], M + 1)
        lower = rest[M - 1] if M else mp.mpf(0)
        result.append((M + 1) * (rest[M] * e[M] - e[M + 1] * lower) / e[M] ** 2)
    return result


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
