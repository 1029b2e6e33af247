"""The choice among the candidates, and the bound for the chosen one, its jitter and rounding included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.bound import Bound
from gpbounds.interval import possible
from gpbounds.kdpp.best.problem import Problem, Source
from gpbounds.kdpp.draws import DENSE, randomly_pivoted
from gpbounds.kdpp.record import repeated
from gpbounds.linalg import Jitter
from gpbounds.linalg.pivoted import pivoted
from gpbounds.renyi.attained import Attained, evidence_attained
from gpbounds.renyi.gap_bounds import gap
from gpbounds.statements import UP

LOST = "The bound includes the loss of the chosen points due to jitter and rounding, to first order with a margin."


@dataclass(frozen=True, eq=False)
class Candidate:
    """Inducing points (M, D) with a name, and their row numbers where they are data."""

    name: str
    Z: Float
    indices: Indices | None = None


@dataclass(frozen=True, eq=False)
class Kept:
    """The chosen candidate, its objective with the jitter of the model, and the bound that holds for it.

    ``bound`` is None if no bound on the trace is proved.
    """

    candidate: Candidate
    reached: Attained
    bound: Bound | None


def keep_best(
    problem: Problem,
    source: Source,
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[Candidate] = (),
) -> Kept:
    """Draw R times, compare all candidates without jitter, and bound the best with the jitter of the model.

    A candidate that is no draw and does not factorise without jitter is compared with jitter.
    """
    drawn = [one_draw(problem, source, rng, f"draw {i + 1} of {problem.draws}") for i in range(problem.draws)]
    draws = [problem.without_jitter(each.Z, source.order) for each in drawn]
    kept, reached = the_best(problem, source, drawn, draws, rng, jitter, others)
    return Kept(kept, reached, _bound(problem, source, draws, kept, reached))


def one_draw(problem: Problem, source: Source, rng: np.random.Generator, name: str) -> Candidate:
    """A draw from the law."""
    indices = source.draw(rng)
    return Candidate(name, problem.X[indices], indices)


def the_best(
    problem: Problem,
    source: Source,
    drawn: Sequence[Candidate],
    draws: Sequence[Attained | None],
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[Candidate],
) -> tuple[Candidate, Attained]:
    """The candidate with the greatest objective, and what it reaches with the jitter of the model.

    The candidates are the draws, whose objectives without jitter are ``draws`` (None where one does not factorise),
    points by other rules, and ``others``.
    """
    rivals = [*_pivoted(problem, rng), *others]
    candidates = [*drawn, *rivals]
    values = [*draws, *(problem.without_jitter(each.Z, source.order) for each in rivals)]
    if all(each is None for each in draws):
        values = [problem.attained(each.Z, source.order, jitter) for each in candidates]
    for k in range(len(draws), len(candidates)):
        if values[k] is None and jitter != 0.0:
            values[k] = problem.attained(candidates[k].Z, source.order, jitter)
    best = int(np.argmax([-np.inf if each is None else each.value for each in values]))
    kept, reached = candidates[best], values[best]
    assert reached is not None
    if jitter not in (0.0, "auto"):
        reached = problem.attained(kept.Z, source.order, jitter)
    return kept, reached


def _pivoted(problem: Problem, rng: np.random.Generator) -> list[Candidate]:
    """Greedy points and randomly pivoted ones, each if the numerical rank allows M of them."""
    twins, diagonal, M = repeated(problem.groups), problem.kernel.diag(problem.X), problem.M
    by_name = {
        "the greedy points": pivoted(problem.rows, diagonal, M, groups=twins).indices,
        "the randomly pivoted points": randomly_pivoted(problem.rows, diagonal, M, rng, groups=twins).indices,
    }
    return [Candidate(name, problem.X[rows], rows) for name, rows in by_name.items() if rows.size == M]


def _bound(
    problem: Problem, source: Source, draws: list[Attained | None], kept: Candidate, reached: Attained
) -> Bound | None:
    """The theorem's bound plus the loss due to jitter and rounding; if it is infinite, the bound from the evidence.

    A draw that does not factorise without jitter counts among the R and is not replaced.  Its objective is unknown and
    may be the greatest, so the theorem then gives no bound for the others.  For many rows the theorem's ingredients are
    themselves bounds, and the smaller of the two bounds is returned.
    """
    failed = sum(each is None for each in draws)
    if failed:
        why = f"{failed} of {problem.draws} draws do not factorise without jitter."
        return _afterwards(problem, kept, reached, why)
    if not np.isfinite(source.before.value):
        return _afterwards(problem, kept, reached, source.before.assumptions[-1])
    ceiling = max(each.highest for each in draws if each is not None)
    lost = source.factor * max(0.0, ceiling - (reached.value - reached.rounding))
    terms = {
        **source.before.terms,
        "without jitter": float(source.before),
        "lost": lost,
        "jitter": reached.jitter,
        "draws": problem.draws,
    }
    value = (float(source.before) + lost) * UP
    if not np.isfinite(value):
        return _afterwards(problem, kept, reached, "the factor of K_ZZ of a draw is too inaccurate without jitter.")
    proved = replace(source.before, value=value, terms=terms, assumptions=(*source.before.assumptions, LOST))
    if problem.X.shape[0] <= DENSE:
        return proved
    after = _afterwards(problem, kept, reached, f"the bound from the draws is {value:.3g}.")
    return proved if after is None or float(after) >= value else after


def _afterwards(problem: Problem, kept: Candidate, reached: Attained, why: str) -> Bound | None:
    """A bound on D_α of the chosen points from the evidence of the data; it holds with certainty."""
    if problem.Y is None:
        return None
    assert problem.noise is not None
    alpha, noise, jitter = problem.alpha, problem.noise, reached.jitter
    said = f"Computed from the data for the chosen points, in place of a bound from the draws: {why}"
    if problem.X.shape[0] > DENSE:
        upper = gap(problem.kernel, problem.X, problem.Y, kept.Z, alpha, noise=noise, jitter=jitter, method="streamed")[
            1
        ]
        return replace(upper, assumptions=(*upper.assumptions, said))
    whole = evidence_attained(problem.kernel, problem.X, problem.Y, noise=noise)
    value = whole.value + whole.rounding - (reached.value - reached.rounding)
    terms = {"log p(y)": whole.value, "objective": reached.value, "jitter": jitter, "draws": problem.draws}
    certified = whole.proved and reached.proved
    upper = Bound(
        np.nextafter(value, np.inf), "upper", 1.0, "R-elbo*", terms, (said,), certified, f"D_{alpha:g}[q*||p]"
    )
    return possible((replace(upper, value=0.0, side="lower"), upper), 0.0).upper
