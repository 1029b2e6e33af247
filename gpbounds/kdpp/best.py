"""The best of several draws of a k-DPP and the bound that holds for it: ``select(method="best")``.

The proof rests on the draws.  log p(y) does not depend on Z, so the greatest objective has the least divergence, and if
one draw exceeds a level with probability p, all R independent draws exceed it with probability p^R.  Greedy points,
randomly pivoted points and others are compared as well: they can only raise the objective that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, Indices, as_host_points
from gpbounds.bound import UP, Bound, upper_bound
from gpbounds.errors import NotConverged, NotPositiveDefinite, shown
from gpbounds.interval import possible
from gpbounds.kdpp.approximations import nystrom_tv
from gpbounds.kdpp.draws import DENSE, prefixes
from gpbounds.kdpp.esp import tilted_eigenvalues
from gpbounds.kdpp.random_pivots import RandomPivots
from gpbounds.kdpp.record import Selection, repeated
from gpbounds.kdpp.residual import expected_residual
from gpbounds.kdpp.sampling import FactorSampler, sample_eigen
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter, eigen
from gpbounds.linalg.pivoted import Pivoted, pivoted
from gpbounds.once import cached_property
from gpbounds.rates.draws.given import CERTAIN, REDRAW, best_fixed, best_given, draws_argument
from gpbounds.rates.draws.norm import trace_quantile
from gpbounds.rates.draws.rows import StreamedRows
from gpbounds.rates.draws.sentences import DRAWN, of_order, share
from gpbounds.rates.draws.tilted import tilted_given
from gpbounds.renyi import evidence
from gpbounds.renyi.attained import Attained, attained, evidence_attained, negative_trace
from gpbounds.renyi.gap_bounds import gap
from gpbounds.row_noise import OF_DRAWS, one_for_all
from gpbounds.validation import open_unit, order, repetitions, scalar
from gpbounds.whitening import as_targets, with_jitter

# The problem of choosing the best of several draws: data, order, R and δ; and a law to draw from.


@dataclass(frozen=True, eq=False)
class DrawsProblem:
    """The data and the settings, already checked.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    groups : array (N,)
        A number for each row, the same for equal rows.
    M : int
    Y : array (N, P) or None
        If None, −Tr(K − Q) takes the place of the objective.
    noise : float or None
        σ²; None if Y is None.
    alpha : float
        Order of the divergence.
    draws : int
        R; 1 if draws are made until one is proved to reach a level.
    delta : float
        Probability with which all R draws may be above the bound.
    """

    kernel: Kernel
    X: Float
    groups: Indices
    M: int
    Y: Float | None = None
    noise: float | None = None
    alpha: float = 1.0
    draws: int = 10
    delta: float = 0.05

    @cached_property
    def distinct(self) -> int:
        """Number of distinct rows."""
        return int(self.groups.max()) + 1

    def rows(self, picked: Indices, columns: Indices | slice) -> Float:
        """Rows of K."""
        return self.kernel(self.X[picked], self.X[columns])

    def attained(self, Z: Float, order: float, jitter: Jitter) -> Attained:
        """The objective of ``order`` at Z, or −Tr(K − Q) without Y."""

        def with_amount(amount: float) -> Attained:
            if self.Y is None:
                return negative_trace(self.kernel, self.X, Z, jitter=amount)
            assert self.noise is not None
            return attained(self.kernel, self.X, self.Y, Z, order, noise=self.noise, jitter=amount)

        return with_jitter(with_amount, self.kernel, Z, jitter)

    def without_jitter(self, Z: Float, order: float) -> Attained | None:
        """`attained` at jitter 0, or None if K_ZZ does not factorise."""
        try:
            return self.attained(Z, order, 0.0)
        except NotPositiveDefinite:
            return None


@dataclass(frozen=True, eq=False)
class DrawingLaw:
    """A law of draws, and the bound that is proved for the best of R before any draw is made.

    Attributes
    ----------
    law : str
        A description in words.
    draw : function of a Generator
        Row numbers (M,).
    before : Bound
        The bound for exact arithmetic; inf if nothing is proved.
    order : float
        Order of the objective that is compared: α, or 1 if ``before`` is α times the bound of order 1.
    factor : float
        The bound grows by this much for each nat of the objective that is lost: α if the order is 1, else 1.
    """

    law: str
    draw: Callable[[np.random.Generator], Indices]
    before: Bound
    order: float = 1.0
    factor: float = 1.0


# The choice among the candidates, and the bound for the chosen one, its jitter and rounding included.

LOST = "The bound includes the loss of the chosen points due to jitter and rounding, to first order with a margin."


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Inducing points (M, D) with a name, and their row numbers where they are data."""

    name: str
    Z: Float
    indices: Indices | None = None


@dataclass(frozen=True, eq=False)
class _Kept:
    """The chosen candidate, its objective with the jitter of the model, and the bound that holds for it.

    ``bound`` is None if no bound on the trace is proved.
    """

    candidate: _Candidate
    reached: Attained
    bound: Bound | None


def draws_to_make(draws: Any) -> int | str:
    """``draws`` as a checked number of draws, which are made one after another, or "certain"."""
    number = draws_argument(draws)
    return number if isinstance(number, str) else repetitions("draws", number)


def keep_best(
    problem: DrawsProblem,
    source: DrawingLaw,
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[_Candidate] = (),
) -> _Kept:
    """Draw R times, compare all candidates without jitter, and bound the best with the jitter of the model.

    A candidate that is no draw and does not factorise without jitter is compared with jitter.
    """
    drawn = [one_draw(problem, source, rng, f"draw {i + 1} of {problem.draws}") for i in range(problem.draws)]
    draws = [problem.without_jitter(each.Z, source.order) for each in drawn]
    kept, reached = _the_best(problem, source, drawn, draws, rng, jitter, others)
    return _Kept(kept, reached, _bound(problem, source, draws, kept, reached))


def one_draw(problem: DrawsProblem, source: DrawingLaw, rng: np.random.Generator, name: str) -> _Candidate:
    """A draw from the law."""
    indices = source.draw(rng)
    return _Candidate(name, problem.X[indices], indices)


def _the_best(
    problem: DrawsProblem,
    source: DrawingLaw,
    drawn: Sequence[_Candidate],
    draws: Sequence[Attained | None],
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[_Candidate],
) -> tuple[_Candidate, Attained]:
    """The candidate with the greatest objective, and its objective with the jitter of the model.

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


def _pivoted(problem: DrawsProblem, rng: np.random.Generator) -> list[_Candidate]:
    """Greedy points and randomly pivoted ones, each if the numerical rank allows M of them."""
    twins, diagonal, M = repeated(problem.groups), problem.kernel.diag(problem.X), problem.M
    pivots = RandomPivots(problem.rows, diagonal, rng, twins)
    m = pivots.draw(M)
    by_name = {
        "the greedy points": pivoted(problem.rows, diagonal, M, groups=twins).indices,
        "the randomly pivoted points": pivots.indices[:m],
    }
    return [_Candidate(name, problem.X[rows], rows) for name, rows in by_name.items() if rows.size == M]


def _bound(
    problem: DrawsProblem, source: DrawingLaw, draws: list[Attained | None], kept: _Candidate, reached: Attained
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


def _afterwards(problem: DrawsProblem, kept: _Candidate, reached: Attained, why: str) -> Bound | None:
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


# Laws to draw from, each with the bound that is proved for the best of R draws before any draw is made.

SOLVED = 20_000
"""Up to this N the mean of the quadratic form is bounded by solves with K; beyond, by the norm of y (N-fixed)."""
LEAST = "Of the draws the one of least Tr(K − Q) is kept."
_NEARLY = (
    "The draws are independent of each other and of y; each is of size M from the k-DPP of an approximation VᵀV ⪯ K, "
    "which makes no set more than e_M(K)/e_M(VᵀV) times as likely as the k-DPP of K."
)


def source_of(problem: DrawsProblem, rank: int | None) -> DrawingLaw:
    """`dense_source` for up to 2000 rows, `low_rank_source` for more rows or if ``rank`` is passed."""
    if rank is None and problem.X.shape[0] <= DENSE:
        return dense_source(problem)
    return low_rank_source(problem, rank)


def dense_source(problem: DrawsProblem) -> DrawingLaw:
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
        return DrawingLaw(plain, lambda rng: sample_eigen(values, vectors, M, rng), before)
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
        return DrawingLaw(plain, lambda rng: sample_eigen(values, vectors, M, rng), by_plain, problem.alpha)
    weights = tilted_eigenvalues(values, noise=noise)
    draw = lambda rng: sample_eigen(values, vectors, M, rng, weights=weights)  # noqa: E731
    return DrawingLaw(tilted, draw, by_tilted, problem.alpha)


def low_rank_source(problem: DrawsProblem, rank: int | None) -> DrawingLaw:
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
        before = _least_trace(trace / p, trace, p, problem, (_NEARLY, LEAST), "R-lem3, N-tv")
    else:
        residual = rows.residual(M, problem.noise)
        options: dict[str, Any] = {"delta": problem.delta, "draws": problem.draws, "tv": less, "outputs": Y.shape[1]}
        if problem.X.shape[0] <= SOLVED:
            of_kl = best_given(residual, rows.quadratic(residual), **options)
        else:
            of_kl = best_fixed(residual, float((Y**2).sum()), residual.greatest_weight, **options)
        stated = of_order(of_kl, alpha)
        hypotheses = tuple(_NEARLY if sentence == DRAWN else sentence for sentence in stated.assumptions)
        before = replace(stated, claim=f"{stated.claim}, N-tv", assumptions=hypotheses)
    return DrawingLaw(name, lambda rng: sampler.draw(M, rng), before, 1.0, alpha)


def nystrom(problem: DrawsProblem, rank: int) -> Pivoted:
    """The factor with ``rank`` greedy points, or as many as the numerical rank allows; at least M."""
    most, diagonal = min(rank, problem.distinct), problem.kernel.diag(problem.X)
    return pivoted(problem.rows, diagonal, most, groups=repeated(problem.groups)).require(problem.M)


def _least_trace(
    value: float, mean: float, p: float, problem: DrawsProblem, assumptions: tuple[str, ...], claim: str
) -> Bound:
    """The bound for R draws if the trace of one exceeds ``value`` with probability at most p; Tr K at most."""
    value = min(value, float(problem.kernel.diag(problem.X).sum()))
    terms = {"expected_trace": mean, "p": p}
    return upper_bound(value * UP, problem.delta, claim, terms, assumptions, certified=False, quantity="Tr(K - Q)")


# ``draws="certain"``: draws until one is proved to have a divergence of at most the level of the theorem.

MOST = 60
"""Largest number of draws: with probability 0.8^60 = 1.5e-6 at most, none of them is below the level."""
PIVOTS = 3
"""Greedy points for each inducing point, from which log p(y) is bounded where K is not decomposed."""


@dataclass(frozen=True)
class _Ceiling:
    """An upper bound on log p(y) with its claim; it does not depend on the draws.

    It includes its rounding, which is proved where ``certified`` says so (N-computed, N-Q).
    """

    value: float
    rounding: float
    claim: str
    certified: bool


def _ceiling_of(problem: DrawsProblem) -> _Ceiling:
    """Up to 2000 rows log p(y) itself; beyond, `gpbounds.renyi.evidence` with three greedy points for each of the M."""
    assert problem.Y is not None
    assert problem.noise is not None
    kernel, X, Y, noise = problem.kernel, problem.X, problem.Y, problem.noise
    if X.shape[0] <= DENSE:
        whole = evidence_attained(kernel, X, Y, noise=noise)
        return _Ceiling(float(whole.value + whole.rounding), float(whole.rounding), "R-gp", whole.proved)
    most = min(PIVOTS * problem.M, problem.distinct)
    upper = evidence(kernel, X, Y, X[pivoted(problem.rows, kernel.diag(X), most).indices], noise=noise)[1]
    return _Ceiling(float(upper), upper.terms["rounding"], upper.claim, upper.certified)


def redraw(
    problem: DrawsProblem,
    source: DrawingLaw,
    rng: np.random.Generator,
    jitter: Jitter,
    others: Sequence[_Candidate] = (),
    most: int = MOST,
) -> tuple[_Kept, int]:
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
    level, ceiling = float(source.before), _ceiling_of(problem)
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
    kept, reached = _the_best(problem, source, [drawn], [reached], rng, jitter, others)
    return _Kept(kept, reached, _redrawn_bound(problem, source, ceiling, reached, level, made)), made


def _proved(source: DrawingLaw, ceiling: _Ceiling, reached: Attained) -> float:
    return source.factor * (ceiling.value - (reached.value - reached.rounding))


def _redrawn_bound(
    problem: DrawsProblem, source: DrawingLaw, ceiling: _Ceiling, reached: Attained, level: float, made: int
) -> Bound:
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


# ``select(method="best")``: from its arguments to a `Selection`.


def best_selection(
    kernel: Kernel,
    X: Float,
    M: int,
    rng: np.random.Generator,
    groups: Indices,
    *,
    y: ArrayLike | None,
    noise: float | None,
    alpha: float,
    draws: int | str | None,
    most: int | None,
    delta: float,
    rank: int | None,
    jitter: Jitter,
    candidates: Sequence[ArrayLike],
) -> Selection:
    """The best of several draws; the arguments are those of `gpbounds.kdpp.select`, with X and M checked."""
    if (y is None) != (noise is None):
        raise ValueError(
            f"y, noise: expected both, or neither for the least trace, got only {'noise' if y is None else 'y'}"
        )
    number = draws_to_make(10 if draws is None else draws)
    certain = number == CERTAIN
    if certain and y is None:
        raise ValueError("draws: expected a whole number without y, got 'certain': redrawing ends by looking at y")
    if not certain and most is not None:
        raise ValueError(f"most: expected only with draws='certain', got {shown(most)} with draws={draws!r}")
    targets = None if y is None else as_targets(y, X)
    problem = DrawsProblem(
        kernel,
        X,
        groups,
        M,
        None if targets is None else targets.reshape(X.shape[0], -1),
        None if noise is None else one_for_all(noise, OF_DRAWS),
        scalar(order, "alpha", alpha),
        1 if isinstance(number, str) else number,
        REDRAW if certain else scalar(open_unit, "delta", delta),
    )
    others = [
        _Candidate(f"candidate {i + 1}", as_host_points(Z, "candidates", X.shape[1])) for i, Z in enumerate(candidates)
    ]
    source = source_of(problem, rank)
    if certain:
        kept, made = redraw(problem, source, rng, jitter, others, MOST if most is None else repetitions("most", most))
    else:
        kept, made = keep_best(problem, source, rng, jitter, others), problem.draws
    chosen = kept.candidate
    measured = prefixes(kernel, X, chosen.Z, chosen.indices, groups, kept.reached.jitter)
    return Selection(
        "best",
        chosen.indices,
        chosen.Z,
        float(measured.log_dets[-1]),
        f"{made} draw{'s' * (made > 1)} of the {source.law}, compared with points by other rules; kept: {chosen.name}",
        measured.traces,
        jitter=kept.reached.jitter,
        objective=None if problem.Y is None else kept.reached.value,
        bound=kept.bound,
    )
