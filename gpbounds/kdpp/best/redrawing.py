"""``draws="certain"``: draws until one is proved to have a divergence of at most the level of the theorem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpbounds.bound import Bound
from gpbounds.errors import NotConverged
from gpbounds.interval import possible
from gpbounds.kdpp.best.keeping import Candidate, Kept, one_draw, the_best
from gpbounds.kdpp.best.problem import Problem, Source
from gpbounds.kdpp.draws import DENSE
from gpbounds.linalg import Jitter
from gpbounds.linalg.pivoted import pivoted
from gpbounds.rates.draws.given import REDRAW
from gpbounds.renyi import evidence
from gpbounds.renyi.attained import Attained, evidence_attained

MOST = 60
"""Largest number of draws: with probability 0.8^60 = 1.5e-6 at most, none of them is below the level."""
PIVOTS = 3
"""Greedy points for each inducing point, from which log p(y) is bounded where K is not decomposed."""


@dataclass(frozen=True)
class Ceiling:
    """An upper bound on log p(y) with its claim; it does not depend on the draws.

    It includes its rounding, which is proved where ``certified`` says so (N-computed, N-Q).
    """

    value: float
    rounding: float
    claim: str
    certified: bool


def ceiling_of(problem: Problem) -> Ceiling:
    """Up to 2000 rows log p(y) itself; beyond, `gpbounds.renyi.evidence` with three greedy points for each of the M."""
    assert problem.Y is not None
    assert problem.noise is not None
    kernel, X, Y, noise = problem.kernel, problem.X, problem.Y, problem.noise
    if X.shape[0] <= DENSE:
        whole = evidence_attained(kernel, X, Y, noise=noise)
        return Ceiling(float(whole.value + whole.rounding), float(whole.rounding), "R-gp", whole.proved)
    most = min(PIVOTS * problem.M, problem.distinct)
    upper = evidence(kernel, X, Y, X[pivoted(problem.rows, kernel.diag(X), most).indices], noise=noise)[1]
    return Ceiling(float(upper), upper.terms["rounding"], upper.claim, upper.certified)


def redraw(
    problem: Problem,
    source: Source,
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[Candidate] = (),
    most: int = MOST,
) -> tuple[Kept, int]:
    """Draw until D_α ≤ B is proved, B the level that one draw exceeds with probability at most p = 0.8 (N-given).

    D_α = log p(y) − L_α, and D_α ≤ α(log p(y) − L_1) (N-alpha): a draw is accepted if the proved upper bound on log
    p(y) less its objective, rounding included, is at most B.  So the kept points have D_α ≤ B with certainty.

    With log p(y) itself (up to 2000 rows) a draw is rejected with probability at most p, independently of the others,
    as far as rounding is negligible against B: k draws are rejected with probability at most p^k, and 1/(1 − p) = 5
    draws are expected at most.  Beyond, a draw is also rejected if D_α + (the slack of the bound on log p(y)) > B.

    Points by other rules are compared with the accepted draw, and the greatest objective is kept.  A draw that does
    not factorise without jitter is rejected and counts.

    Returns
    -------
    (Kept, int)
        Its bound is the proved value of D_α; and the number of draws.

    Raises
    ------
    NotConverged
        if ``most`` draws are rejected, or if B is below the rounding error of log p(y).
    """
    level, ceiling = float(source.before), ceiling_of(problem)
    if source.factor * ceiling.rounding > level:
        raise NotConverged(
            f"draws: expected a level above the rounding error of log p(y), {ceiling.rounding:.3g}, for 'certain', got "
            f"{level:.3g}: no draw can be proved to reach it. Take fewer points, or a number of draws"
        )
    least = np.inf
    for made in range(1, most + 1):
        drawn = one_draw(problem, source, rng, f"draw {made}")
        reached = problem.without_jitter(drawn.Z, source.order)
        if reached is None:
            continue
        divergence = _proved(source, ceiling, reached)
        if divergence <= level:
            break
        least = min(least, divergence)
    else:
        raise NotConverged(
            f"draws: expected one of {most} draws to have a divergence proved to be at most {level:.3g}, but the least "
            f"proved one is {least:.3g}: the bound on log p(y) is too loose here, or K_ZZ does not factorise without "
            "jitter. Pass a number of draws, or other M"
        )
    kept, reached = the_best(problem, source, [drawn], [reached], rng, jitter, others)
    return Kept(kept, reached, _bound(problem, source, ceiling, reached, level, made)), made


def _proved(source: Source, ceiling: Ceiling, reached: Attained) -> float:
    return source.factor * (ceiling.value - (reached.value - reached.rounding))


def _bound(problem: Problem, source: Source, ceiling: Ceiling, reached: Attained, level: float, made: int) -> Bound:
    """The proved value of D_α of the kept points at the jitter of the model."""
    value = _proved(source, ceiling, reached)
    terms = {
        **source.before.terms,
        "level": level,
        "expected_draws": 1.0 / (1.0 - REDRAW),
        "draws": made,
        "log p(y)": ceiling.value,
        "objective": reached.value,
        "jitter": reached.jitter,
    }
    if np.isfinite(level):
        why = f"one draw exceeds the level {level:.3g} with probability at most {REDRAW:g}. A jitter is not part of it."
    else:
        why = f"the first draw was accepted. {source.before.assumptions[-1]}"
    computed = f"Computed from the data for the chosen points; draws of the {source.law}: {made}; {why}"
    claim = f"R-elbo*, {ceiling.claim}, {source.before.claim}"
    name, certified = f"D_{problem.alpha:g}[q*||p]", ceiling.certified and reached.proved
    upper = Bound(np.nextafter(value, np.inf), "upper", 1.0, claim, terms, (computed,), certified, name)
    return possible((replace(upper, value=0.0, side="lower"), upper), 0.0).upper
