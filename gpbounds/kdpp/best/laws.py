"""Laws to draw from, each with the bound that is proved for the best of R draws before any draw is made."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gpbounds.bound import Bound
from gpbounds.kdpp.approximations import nystrom_tv
from gpbounds.kdpp.best.problem import Problem, Source
from gpbounds.kdpp.draws import DENSE
from gpbounds.kdpp.esp import tilted_eigenvalues
from gpbounds.kdpp.record import repeated
from gpbounds.kdpp.residual import expected_residual
from gpbounds.kdpp.sampling import FactorSampler, sample_eigen
from gpbounds.linalg import eigen
from gpbounds.linalg.pivoted import Pivoted, pivoted
from gpbounds.rates.draws.given import best_fixed, best_given
from gpbounds.rates.draws.norm import trace_quantile
from gpbounds.rates.draws.rows import StreamedRows
from gpbounds.rates.draws.sentences import DRAWN, of_order, share
from gpbounds.rates.draws.tilted import tilted_given
from gpbounds.statements import UP, upper_bound

SOLVED = 20_000
"""Up to this N the mean of the quadratic form is bounded by solves with K; beyond, by the norm of y (N-fixed)."""
LEAST = "Of the draws the one of least Tr(K − Q) is kept."
NEARLY = (
    "The draws are independent of each other and of y; each is of size M from the k-DPP of an approximation VᵀV ⪯ K, "
    "which makes no set more than e_M(K)/e_M(VᵀV) times as likely as the k-DPP of K."
)


def source_of(problem: Problem, rank: int | None) -> Source:
    """`dense_source` for up to 2000 rows, `low_rank_source` for more rows or if ``rank`` is passed."""
    if rank is None and problem.X.shape[0] <= DENSE:
        return dense_source(problem)
    return low_rank_source(problem, rank)


def dense_source(problem: Problem) -> Source:
    """The k-DPP of K or its tilted k-DPP, whichever has the smaller bound; neither bound depends on the draws."""
    spectrum = eigen(problem.kernel(problem.X), "k(X, X)", vectors=True)
    values, vectors, M, noise = spectrum.values, spectrum.vectors, problem.M, problem.noise
    assert vectors is not None
    residual = expected_residual(values, M, noise=noise, rounding=spectrum.rounding, rank=problem.distinct)
    plain, tilted = "k-DPP of K", "tilted k-DPP of K, P(Z) ∝ |(K² + σ²K)_ZZ|"
    if problem.Y is None or noise is None:
        p = share(problem.delta, problem.draws)
        quantile = trace_quantile(residual, level=p) if p < 1.0 else residual.trace
        before = _least_trace(float(quantile), residual.trace, p, problem, (DRAWN, LEAST), "N-order, N-res")
        return Source(plain, lambda rng: sample_eigen(values, vectors, M, rng), before)
    squares = ((vectors.T @ problem.Y) ** 2).sum(axis=1)
    options: dict[str, Any] = {
        "delta": problem.delta,
        "draws": problem.draws,
        "alpha": problem.alpha,
        "outputs": problem.Y.shape[1],
    }
    by_plain = best_given(residual, residual.quadratic(squares), **options)
    by_tilted = tilted_given(residual, squares, **options)
    if float(by_plain) < float(by_tilted):
        return Source(plain, lambda rng: sample_eigen(values, vectors, M, rng), by_plain, problem.alpha)
    weights = tilted_eigenvalues(values, noise=noise)
    draw = lambda rng: sample_eigen(values, vectors, M, rng, weights=weights)  # noqa: E731
    return Source(tilted, draw, by_tilted, problem.alpha)


def low_rank_source(problem: Problem, rank: int | None) -> Source:
    """The k-DPP of the Nyström approximation VᵀV with ``rank`` greedy points (at least 3M by default); keeps the ELBO.

    A set is at most Γ = e_M(K)/e_M(VᵀV) times as likely as under the k-DPP of K.  If one draw from K's k-DPP exceeds a
    level with probability at most p = δ^(1/R)/Γ, then all R draws exceed it with probability at most δ.
    """
    M, alpha, Y = problem.M, problem.alpha, problem.Y
    rows = StreamedRows(problem.kernel, problem.X, Y)
    pivots = rows.factor(M) if rank is None else nystrom(problem, rank)
    spectrum = eigen(pivots.factor @ pivots.factor.T, "VVᵀ")
    lowest = np.maximum(spectrum.values - spectrum.rounding, 0.0)
    far = float(nystrom_tv(lowest, float(pivots.traces[-1]), M))  # 1 − 1/Γ from above
    less = share(problem.delta, problem.draws) * far
    name = f"k-DPP of the rank-r Nyström approximation with r greedy points, r = {pivots.indices.size}"
    sampler = FactorSampler(pivots.factor.T)
    p = share(problem.delta, problem.draws) - less
    if p <= 0.0 or (problem.draws > 1 and p < problem.delta) or not rows.reaches(M):
        why = (
            f"the {name}, may differ so much from that of K that {problem.draws} of its draws prove less than one draw "
            "from that of K. A larger rank brings it closer"
        )
        quantity = "Tr(K - Q)" if Y is None else f"D_{alpha:g}[q*||p]"
        reason = f"Nothing is proved here: {why}."
        before = Bound(math.inf, "upper", 1.0 - problem.delta, "N-tv", {}, (reason,), quantity=quantity)
    elif Y is None or problem.noise is None:
        trace = rows.residual(M, 1.0).trace
        before = _least_trace(trace / p, trace, p, problem, (NEARLY, LEAST), "R-lem3, N-tv")
    else:
        residual = rows.residual(M, problem.noise)
        options: dict[str, Any] = {"delta": problem.delta, "draws": problem.draws, "tv": less, "outputs": Y.shape[1]}
        if problem.X.shape[0] <= SOLVED:
            of_kl = best_given(residual, rows.quadratic(residual), **options)
        else:
            of_kl = best_fixed(residual, float((Y**2).sum()), residual.greatest_weight, **options)
        stated = of_order(of_kl, alpha)
        hypotheses = tuple(NEARLY if sentence == DRAWN else sentence for sentence in stated.assumptions)
        before = replace(stated, claim=f"{stated.claim}, N-tv", assumptions=hypotheses)
    return Source(name, lambda rng: sampler.draw(M, rng), before, 1.0, alpha)


def nystrom(problem: Problem, rank: int) -> Pivoted:
    """The factor with ``rank`` greedy points, or as many as the numerical rank allows; at least M."""
    most, diagonal = min(rank, problem.distinct), problem.kernel.diag(problem.X)
    return pivoted(problem.rows, diagonal, most, groups=repeated(problem.groups)).require(problem.M)


def _least_trace(
    value: float, mean: float, p: float, problem: Problem, assumptions: tuple[str, ...], claim: str
) -> Bound:
    """The bound for R draws if the trace of one exceeds ``value`` with probability at most p; Tr K at most."""
    value = min(value, float(problem.kernel.diag(problem.X).sum()))
    terms = {"expected_trace": mean, "p": p}
    return upper_bound(value * UP, problem.delta, claim, terms, assumptions, certified=False, quantity="Tr(K - Q)")
