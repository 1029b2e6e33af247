"""Laws that draws are made from, each with what is proved of the best of R before any is made."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.bound import Bound
from gpbounds.kdpp.best.problem import Problem, Source
from gpbounds.kdpp.draws import DENSE, approximation
from gpbounds.kdpp.low_rank import FactorSampler
from gpbounds.kdpp.residual import ExpectedResidual, expected_residual
from gpbounds.kdpp.sampling import sample_eigen
from gpbounds.linalg import eigen
from gpbounds.rates.draws.given import best_given
from gpbounds.rates.draws.sentences import DRAWN, record, share
from gpbounds.statements import UP, upper_bound

LEAST = "Of the draws the one of least Tr(K − Q) is kept; other candidates may only lower it."


def source_of(problem: Problem, rank: int | None) -> Source:
    """The law for this many rows: dense up to 2000 of them unless a ``rank`` is asked for."""
    if rank is None and problem.X.shape[0] <= DENSE:
        return dense_source(problem)
    return low_rank_source(problem, rank)


def dense_source(problem: Problem) -> Source:
    """The k-DPP of K from its eigenvectors."""
    spectrum = eigen(problem.kernel(problem.X), "k(X, X)", vectors=True)
    vectors, M = spectrum.vectors, problem.M
    assert vectors is not None
    residual = expected_residual(
        spectrum.values, M, noise=problem.noise, rounding=spectrum.rounding, rank=problem.distinct
    )
    return Source(
        "k-DPP of K",
        lambda rng: sample_eigen(spectrum.values, vectors, M, rng),
        least(residual, problem) if problem.Y is None else _given(residual, vectors.T @ problem.Y, problem),
        order=problem.alpha,
    )


def _given(residual: ExpectedResidual, rotated: np.ndarray, problem: Problem) -> Bound:
    return best_given(
        residual,
        residual.quadratic((rotated**2).sum(axis=1)),
        delta=problem.delta,
        draws=problem.draws,
        alpha=problem.alpha,
        outputs=rotated.shape[1],
    )


def least(residual: ExpectedResidual, problem: Problem) -> Bound:
    """The least trace of R draws is at most τ/δ^{1/R} with probability 1 − δ: Markov's inequality for each (R-lem3)."""
    p = share(problem.delta, problem.draws)
    return upper_bound(
        residual.trace / p * UP,
        problem.delta,
        "R-lem3",
        {"expected_trace": residual.trace, "p": p},
        (DRAWN, LEAST),
        certified=False,
        quantity="Tr(K - Q)",
    )


def low_rank_source(problem: Problem, rank: int | None) -> Source:
    """The k-DPP of the Nyström approximation at r greedy points, r = 2M unless given."""
    close = approximation(problem.kernel, problem.X, problem.M, problem.groups, rank)
    sampler = FactorSampler(close.factor.T)
    why = "nothing is worked out for large N yet"
    before = record(math.inf, problem.delta, "N-given", {}, (DRAWN,), alpha=problem.alpha, why=why)
    return Source(close.law, lambda rng: sampler.draw(problem.M, rng), before, 1.0, problem.alpha, close.tv)
