"""PairSums over pairs of rows of the terms of N-fisher: over all pairs, or over all pairs with rows drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg.parallel import share
from gpbounds.numerics.hermite import UP
from gpbounds.renyi.log_concave_rows import AtRows
from gpbounds.whitening import slices

BLOCK = 512
"""Rows of a block of pairs."""
DRAWN = 2048
"""Rows that are drawn."""
FAINT = 1e-9
"""Correlations below it count as 0, which changes Cov(r_i, r_j) by 1e-18 of the norms of both series at most."""
SHAPE, SPREAD, LINE, REST, GUESS = range(5)
"""Σ Q Cov r;  Σ Δ Cov r;  Σ of the other terms with Δ;  the rest of the series;  the sum of the estimate."""


@dataclass(frozen=True)
class PairSums:
    """PairSums over pairs (i, j) of rows, in the letters of `gpbounds.renyi.log_concave`.

    Attributes
    ----------
    of_shape : float
        Σ Q_ij Cov(r_i, r_j), without the rest of the series.
    of_spread : float
        Σ Δ_ij Cov(r_i, r_j), without the rest of the series.
    of_lines : float
        ḡᵀΔḡ + tr ΛΔΛ(Q + Σ).
    series_rest : float
        At least the rest of the series in the first two.
    beyond : float
        What an upper bound adds to the sum of these three: the rest of the series, and the error of sampling.
    estimate : float
        ḡᵀΔḡ + tr ΛΔΛ(HᵀH + ½Δ) + Σ_ij Σ_ij Σ_k a_ik a_jk ρ_ij^k/(k + 1), H = CᵀV.
    estimate_error : float
        Its standard error.
    confidence : float
    method : str
    within : tuple of pairs of float
        Σ Ŝ_ij Cov(r_i, r_j) and the rest of its series, for each `gpbounds.renyi.log_concave_curvature.Within`.
    """

    of_shape: float
    of_spread: float
    of_lines: float
    series_rest: float
    beyond: float
    estimate: float
    estimate_error: float
    confidence: float
    method: str
    within: tuple[tuple[float, float], ...] = ()


def every_pair(latent: AtRows, explained: Sequence[Float] = ()) -> PairSums:
    """The sums over all pairs of rows; lanes share the blocks, whose sums are added in their order.

    Each of ``explained`` is a matrix U with UᵀU = K − Ŝ.
    """
    V, H = latent.columns(slice(None))
    parts = list(slices(latent.N, BLOCK))
    places = [(a, b) for a in range(len(parts)) for b in range(a, len(parts))]
    results = np.zeros((len(places), 5 + 2 * len(explained)))

    def add(number: int, worker: int) -> None:
        first, second = (parts[k] for k in places[number])
        parts_of = [[A[:, rows] for A in (V, H, *explained)] for rows in (first, second)]
        rows = row_sums(latent, first, second, *parts_of)
        results[number] = rows.sum(axis=1) * (1.0 if first == second else 2.0)

    orders = latent.series.coefficients.shape[1]
    width = 2.0 * len(V) + latent.N * len(explained)
    share(len(places), add, flops=float(latent.N) ** 2 * (width + 8.0 * orders + 40.0))
    total = results.sum(axis=0)
    rest = float(total[REST])
    within = tuple((float(a), float(b)) for a, b in total[5:].reshape(-1, 2))
    kinds = (float(total[SHAPE]), float(total[SPREAD]), float(total[LINE]))
    return PairSums(*kinds, rest, rest, float(total[GUESS]), 0.0, 1.0, "dense", within)


def row_sums(latent: AtRows, first: Any, second: Any, of_first: Sequence[Float], of_second: Sequence[Float]) -> Float:
    """The sums over the rows ``second`` for each row of ``first``; V, CᵀV and further U of both are given."""
    series, X = latent.series, latent.X
    Q = of_first[0].T @ of_second[0]
    K = np.asarray(latent.whitener.kernel(X[first], X[second]))
    D = K - Q
    D[latent.known[first]] = 0.0
    D[:, latent.known[second]] = 0.0
    HH = of_first[1].T @ of_second[1]
    S = D + HH
    roots = [np.sqrt(np.maximum(latent.variance[rows], 1e-300)) for rows in (first, second)]
    rho = np.clip(S / roots[0][:, None] / roots[1], -1.0, 1.0)
    rho[np.abs(rho) < FAINT] = 0.0  # powers that underflow take a hundred times as long
    power, covariance, guess = rho * rho, np.zeros_like(S), np.zeros_like(S)
    left, right = series.coefficients[first], series.coefficients[second]
    for k in range(left.shape[1]):
        term = power * left[:, k, None]
        term *= right[:, k]
        covariance += term
        term *= 1.0 / (k + 3.0)
        guess += term
        power *= rho
        if k % 16 == 15:
            power[np.abs(power) < FAINT**8] = 0.0
    rest = np.abs(power) * series.rest[first, None] * series.rest[second]
    bends = series.slope[first, None] * series.slope[second] * D
    steps = series.mean[first, None] * series.mean[second] * D
    terms = [
        Q * covariance,
        D * covariance,
        steps + bends * (Q + S),
        np.abs(K) * rest,
        steps + bends * (HH + 0.5 * D) + S * guess,
    ]
    for U, W in zip(of_first[2:], of_second[2:], strict=True):
        left_over = K - U.T @ W
        terms += [left_over * covariance, np.abs(left_over) * rest]
    return np.stack([term.sum(axis=1) for term in terms])


def total_above(values: Float, R: float, delta: float) -> float:
    """An upper bound on τ with probability 1 − delta from independent variables of mean τ, at most R√τ in size.

    Claim N-fisher-sampled.

    >>> round(total_above(np.full(1000, 4.0), 2.0, 0.01), 2)
    4.1
    """
    n, log_term = values.size, math.log(2.0 / delta)
    d = max(float(values.mean()) + math.sqrt(2.0 * float(values.var(ddof=1)) * log_term / n), 0.0)
    c = 14.0 * R * log_term / (3.0 * (n - 1.0))
    return (1.0 + 1e-12) * (0.5 * (c + math.sqrt(c * c + 4.0 * d))) ** 2


def sampled_rows(latent: AtRows, delta: float, rng: np.random.Generator) -> PairSums:
    """The sums over all pairs with ``DRAWN`` rows, drawn with probabilities p_i, as estimates and an upper bound.

    Claim N-fisher-sampled.  T, whose entries the bound adds up, is positive semi-definite, so that
    |Σ_j T_ij| ≤ √(T_ii τ), τ = Σ_ij T_ij.  With p_i = √t_i/R, t_i ≥ T_ii and R = Σ√t_i, the variable Σ_j T_ij/p_i has
    mean τ and absolute value ≤ R√τ; the empirical Bernstein inequality (Maurer and Pontil 2009, theorem 4) then bounds
    τ by a quadratic inequality for √τ.
    """
    series, n = latent.series, DRAWN
    explained = latent.prior - latent.residual
    tops = latent.prior * series.norms**2 + series.mean**2 * latent.residual
    tops += series.slope**2 * latent.residual * (explained + latent.variance)
    tops = UP * tops + 1e-30 * float(tops.max()) + 1e-300
    roots = np.sqrt(tops)
    R = float(roots.sum())
    drawn = rng.choice(latent.N, size=n, p=roots / R)
    sums, own = np.zeros((5, n)), latent.columns(drawn)
    for rows in slices(latent.N, BLOCK):
        sums += row_sums(latent, drawn, rows, own, latent.columns(rows))
    scaled = sums * (R / roots[drawn])
    means = scaled.mean(axis=1)
    values = scaled[SHAPE] + scaled[SPREAD] + scaled[LINE]
    average, above = float(values.mean()), total_above(values, R, delta)
    rest = UP * float(np.sqrt(latent.prior) @ series.rest) ** 2
    beyond = max(above - average, 0.0) + rest
    error = float(scaled[GUESS].std(ddof=1)) / math.sqrt(n)
    kinds = (float(means[SHAPE]), float(means[SPREAD]), float(means[LINE]))
    return PairSums(*kinds, rest, beyond, float(means[GUESS]), error, 1.0 - delta, "streamed")
