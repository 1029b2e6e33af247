"""Laws that draws are made from, each with what is proved of the best of R before any is made."""

from __future__ import annotations

import math

from gpbounds.bound import Bound
from gpbounds.kdpp.best.problem import Problem, Source
from gpbounds.kdpp.draws import DENSE, approximation
from gpbounds.kdpp.low_rank import FactorSampler
from gpbounds.kdpp.residual import expected_residual
from gpbounds.kdpp.sampling import sample_eigen
from gpbounds.kdpp.streamed_residual import streamed_residual
from gpbounds.kdpp.tilted import tilted_eigenvalues
from gpbounds.linalg import eigen
from gpbounds.rates.draws.given import best_given
from gpbounds.rates.draws.sentences import DRAWN, record, share
from gpbounds.rates.draws.tilted import tilted_given
from gpbounds.rates.draws.trace import trace_quantile
from gpbounds.statements import UP, upper_bound

LEAST = "Of the draws the one of least Tr(K − Q) is kept."
NEARLY = (
    "The k-DPP that is drawn from is that of an approximation VᵀV ⪯ K, which gives no set more than e_M(K)/e_M(VᵀV) "
    "times its probability under the k-DPP of K."
)


def source_of(problem: Problem, rank: int | None) -> Source:
    """The law for this many rows: dense up to 2000 of them unless a ``rank`` is asked for."""
    if rank is None and problem.X.shape[0] <= DENSE:
        return dense_source(problem)
    return low_rank_source(problem, rank)


def dense_source(problem: Problem) -> Source:
    """The k-DPP of K, or its tilted k-DPP where that has the lesser bound: known before any draw is made."""
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
    options = {
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
    """The k-DPP of the Nyström approximation at r greedy points, r = 3M unless given; the ELBO is what is kept.

    Γ = e_M(K)/e_M(VᵀV) bounds how much likelier a set is than under the k-DPP of K: p = δ^(1/R)/Γ.
    """
    M = problem.M
    close = approximation(problem.kernel, problem.X, M, problem.groups, 3 * M if rank is None else rank)
    sampler = FactorSampler(close.factor.T)
    p = share(problem.delta, problem.draws) * (1.0 - (1.0 if close.tv is None else close.tv))
    alpha = problem.alpha
    if problem.Y is not None:
        why = "the mean of the quadratic form is not worked out for a k-DPP of a low-rank approximation"
        before = record(math.inf, problem.delta, "N-given", {"p": p}, (DRAWN, NEARLY), alpha=alpha, why=why)
    elif p > 0.0 and close.lowest.size > M:
        residual = streamed_residual(close.lowest, close.trace, M, noise=1.0, rounding=2.0 * close.rounding)
        before = _least_trace(residual.trace / p, residual.trace, p, problem, (DRAWN, NEARLY, LEAST), "R-lem3, N-tv")
    else:
        why = "the k-DPP of the approximation is too far from that of K; a larger rank brings it closer"
        before = _least_trace(
            math.inf, math.inf, p, problem, (DRAWN, NEARLY, f"Nothing is proved here: {why}."), "N-tv"
        )
    return Source(close.law, lambda rng: sampler.draw(M, rng), before, 1.0, alpha)


def _least_trace(
    value: float, mean: float, p: float, problem: Problem, assumptions: tuple[str, ...], claim: str
) -> Bound:
    """One draw's trace exceeds ``value`` with probability at most p, all R with at most δ; none exceeds Tr K."""
    value = min(value, float(problem.kernel.diag(problem.X).sum()))
    terms = {"expected_trace": mean, "p": p}
    return upper_bound(value * UP, problem.delta, claim, terms, assumptions, certified=False, quantity="Tr(K - Q)")
