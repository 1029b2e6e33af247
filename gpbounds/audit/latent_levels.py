"""Is M enough for labels or counts: the divergence of a law from the posterior, at its points and at further ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.best_law import TrainedLaw, best_law, elbo_of
from gpbounds.audit.model import LatentSubject
from gpbounds.bound import Bound
from gpbounds.divergences import SparsePosterior
from gpbounds.interval import possible
from gpbounds.numerics.search import bisected
from gpbounds.progress import bar
from gpbounds.renyi import PosteriorGap, posterior_gap
from gpbounds.renyi.further import further_rows
from gpbounds.validation import count, open_unit, positive, scalar

DIVERGENCE, EVIDENCE = "KL[q||p]", "log p(y)"
IN_DOUBLES = "The rounding of the ELBOs is not proved: quadratures are accurate to 1e-11 of each row's term."
SIZES = 10
"""Numbers of inducing points on the curve of each way to choose them."""
SETTLED, FEW = 0.01, 8
"""A curve ends where a step of it gains less than this share of the target, but not before so many points."""
JITTER = 1e-8
"""Jitter of laws with further points, over the largest variance of the kernel: it keeps roundings small."""
TRIES = 3
"""Laws of the curve whose own bounds are computed until one has a small rounding error."""
ROUNDED = 0.01
"""The rounding error that is small, as a share of the bound."""

Points = Literal["model", "best", "chosen", "added"]
Pair = tuple[Bound, Bound]


@dataclass(frozen=True, eq=False)
class LatentLevel:
    """A law of the inducing variables, and what is known of its divergence.

    Attributes
    ----------
    M : int
    points : "model", "best", "chosen" or "added"
        The model's own law; the best law with its inducing points; the best ones with rows chosen by the greedy method,
        and with the model's points and further rows.
    elbo : float
        At most log p(y), in doubles.
    gap : PosteriorGap or None
        The bound on the divergence by this law alone, where it was computed.
    """

    M: int
    points: Points
    elbo: float
    gap: PosteriorGap | None = None

    def divergence(self, evidence: Pair) -> Pair:
        """Lower and upper bound on KL[q‖p] = log p(y) − ELBO, given bounds on log p(y) from other laws (N-elbos)."""
        low = max(math.nextafter(float(evidence[0]) - self.elbo, -math.inf), 0.0)
        high = math.nextafter(float(evidence[1]) - self.elbo, math.inf)
        lower = replace(evidence[0], value=low, quantity=DIVERGENCE)
        upper = replace(evidence[1], value=max(high, 0.0), quantity=DIVERGENCE)
        if self.gap is not None and float(self.gap.bound) < high:
            upper = replace(self.gap.bound, confidence=evidence[1].confidence, quantity=DIVERGENCE)
        return possible((lower, upper), 0.0)


@dataclass(frozen=True, eq=False)
class LatentEnough:
    """Bounds on the divergence of the model's law from the exact posterior, and of others with more inducing points.

    Attributes
    ----------
    target : float
        The divergence that counts as enough, in nats.
    levels : tuple of LatentLevel
    counts : tuple of int or None
        The least numbers of "chosen" and of "added" points whose best law is proved to reach the target.
    tried : tuple of int
        The largest number of points tried, for "chosen" and "added".
    estimated : int or None
        The least number of points, the model's and further rows, that reaches the target by the estimate; only where
        none is proved to.
    interrupted : bool
        Whether Ctrl-C ended the search; then fewer points may do.
    """

    target: float
    levels: tuple[LatentLevel, ...]
    counts: tuple[int | None, int | None]
    tried: tuple[int, int]
    estimated: int | None = None
    interrupted: bool = False

    def of(self, points: Points) -> list[LatentLevel]:
        """The levels with this kind of ``points``, in order of M."""
        return sorted((level for level in self.levels if level.points == points), key=lambda level: level.M)

    @property
    def model(self) -> LatentLevel:
        """The level of the model's own law."""
        return self.of("model")[0]

    @property
    def best(self) -> LatentLevel:
        """The level of the best law with the model's inducing points, as far as it was found."""
        return max((*self.of("best"), self.model), key=lambda level: level.elbo)

    @property
    def evidence(self) -> Pair:
        """Lower and upper bound on log p(y): the largest ELBO, and the least sum of an ELBO and its bound."""
        return evidence_from(self.levels)

    @property
    def divergence(self) -> Pair:
        """Lower and upper bound on the divergence of the model's law."""
        return self.model.divergence(self.evidence)

    @property
    def estimate(self) -> float:
        """An estimate of the divergence of the model's law, which is no bound on either side."""
        return _estimated_evidence(self.levels) - self.model.elbo

    @property
    def excess(self) -> float:
        """By how much another law with the same inducing points is proved closer to the posterior, in nats."""
        return max(self.best.elbo - self.model.elbo, 0.0)

    @property
    def suffices(self) -> int | None:
        """The least number of inducing points whose best law is proved to reach the target."""
        counts = [number for number in self.counts if number is not None]
        if float(self.best.divergence(self.evidence)[1]) <= self.target:
            counts.append(self.best.M)
        return min(counts, default=None)

    @property
    def verdict(self) -> Literal["enough", "not enough", "open"]:
        """Whether the model's law reaches the target: proved, disproved, or neither."""
        lower, upper = map(float, self.divergence)
        return "enough" if upper <= self.target else "not enough" if lower > self.target else "open"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""

        def level(each: LatentLevel) -> dict[str, Any]:
            own = each.gap
            return {
                "M": each.M,
                "points": each.points,
                "ELBO": each.elbo,
                "KL": [float(end) for end in each.divergence(self.evidence)],
                "bound": None if own is None else float(own.bound),
                "of_q": None if own is None else float(own.of_q),
                "of_M": None if own is None else float(own.of_M),
                "estimate": None if own is None else float(own.estimate),
            }

        return {
            "target": self.target,
            "verdict": self.verdict,
            "evidence": [end.to_dict() for end in self.evidence],
            "KL": [end.to_dict() for end in self.divergence],
            "estimate": self.estimate,
            "excess": self.excess,
            "estimated": self.estimated,
            "suffices": self.suffices,
            "chosen": self.counts[0],
            "added": self.counts[1],
            "tried": list(self.tried),
            "levels": [level(each) for each in self.levels],
            "interrupted": self.interrupted,
        }


def evidence_from(levels: Sequence[LatentLevel]) -> Pair:
    """Lower and upper bound on log p(y) from laws with their ELBOs (N-elbos)."""
    lowest = max(level.elbo for level in levels)
    known = [(level.elbo, level.gap.bound) for level in levels if level.gap is not None]
    elbo, bound = min(known, key=lambda each: each[0] + float(each[1]))
    failing = sum(1.0 - float(np.min(each.confidence)) for _, each in known)
    assumptions = (*bound.assumptions, IN_DOUBLES)
    lower = Bound(lowest, "lower", 1.0, "N-elbos", {}, (IN_DOUBLES,), False, EVIDENCE)
    value = math.nextafter(elbo + float(bound), math.inf)
    upper = Bound(value, "upper", 1.0 - failing, f"{bound.claim}, N-elbos", {}, assumptions, False, EVIDENCE)
    return possible((lower, upper))


def _estimated_evidence(levels: Sequence[LatentLevel]) -> float:
    """An estimate of log p(y): the ELBO and the estimate of the law whose estimated divergence is least."""
    known = [(level.gap.estimate, level.elbo) for level in levels if level.gap is not None]
    estimate, elbo = min(known)
    return max(elbo + estimate, max(level.elbo for level in levels))


@dataclass
class _Search:
    """Levels found so far; laws of nested sets of points start from each other."""

    about: LatentSubject
    target: float
    rng: Any
    delta: float
    advance: Callable[[], Any]
    levels: list[LatentLevel] = field(default_factory=list)
    counts: dict[Points, int | None] = field(default_factory=lambda: dict.fromkeys(("chosen", "added")))
    tried: dict[Points, int] = field(default_factory=lambda: dict.fromkeys(("chosen", "added"), 0))
    laws: dict[tuple[Points, int], SparsePosterior] = field(default_factory=dict)
    estimated: int | None = None
    interrupted: bool = False

    def run(self, most: int) -> None:
        """All levels: the model's law, the best one with its points, and those with more points."""
        about = self.about
        own = about.posterior
        best = best_law(about, about.Z, "auto" if own is None else own.jitter, own)
        law = best.posterior if own is None else own
        self.keep("model", TrainedLaw(law, best.elbo if own is None else elbo_of(about, law)), bounded=True)
        if own is not None:
            self.keep("best", best)
        both = np.concatenate([about.Z, further_rows(about.kernel, about.X, about.Z, max(most - about.M, 0))])
        self.laws["added", about.M] = best.posterior
        self.along(both, "added", about.M)
        self.bound_the_last()
        self.counts["added"] = self.least(both, "added", about.M + 1, self.reaches)
        if self.counts["added"] is None:
            self.estimated = self.least(both, "added", about.M + 1, self.seems_to_reach)
        chosen = further_rows(about.kernel, about.X, None, most)
        self.along(chosen, "chosen", 0)
        self.counts["chosen"] = self.least(chosen, "chosen", 1, self.reaches)

    def along(self, Z: Float, points: Points, first: int) -> None:
        """The curve over nested sets, until a step of it gains hardly anything."""
        before = -math.inf
        for number in _sizes(len(Z) - first):
            now = self.law(Z, points, first + number).elbo
            if now - before < SETTLED * self.target and number >= max(0.2 * first, FEW):
                break
            before = now

    def bound_the_last(self) -> None:
        """The own bound of the last law of the curve; of those before it, where rounding spoils it."""
        levels = [each for each in self.levels if each.points == "added"]
        for level in sorted(levels, key=lambda each: -each.M):
            gap = self.gap(self.laws["added", level.M])
            self.levels[self.levels.index(level)] = replace(level, gap=gap)
            self.advance()
            small = gap.bound.terms["rounding"] <= ROUNDED * float(gap.bound)
            if small or sum(each.gap is not None for each in self.levels) > TRIES:
                break

    def law(self, Z: Float, points: Points, M: int) -> TrainedLaw:
        """The best law with the first M rows of Z, whose level is kept."""
        known = [m for kind, m in self.laws if kind == points and m <= M]
        start = self.laws[points, max(known)] if known else None
        jitter = JITTER * float(self.about.kernel.diag(self.about.X).max())
        best = best_law(self.about, Z[:M], jitter, start)
        self.laws[points, M] = best.posterior
        self.tried[points] = max(self.tried[points], M)
        self.keep(points, best)
        return best

    def keep(self, points: Points, law: TrainedLaw, *, bounded: bool = False) -> None:
        """Add the level of a law, with its own bound if that is asked for."""
        M = len(law.posterior.mean)
        gap = self.gap(law.posterior) if bounded else None
        self.levels = [each for each in self.levels if (each.points, each.M) != (points, M)]
        self.levels.append(LatentLevel(M, points, law.elbo, gap))
        self.advance()

    def gap(self, posterior: SparsePosterior) -> PosteriorGap:
        """The bound on the divergence of a law by itself (N-fisher)."""
        about = self.about
        return posterior_gap(
            about.kernel,
            about.X,
            about.y,
            about.likelihood,
            posterior.inducing.Z,
            posterior.mean,
            posterior.factor,
            jitter=posterior.jitter,
            offset=about.offset,
            rng=self.rng,
            delta=self.delta / (TRIES + 1),
        )

    def reaches(self, level: LatentLevel) -> bool:
        """Whether the upper bound of a level is at most the target."""
        return float(level.divergence(evidence_from(self.levels))[1]) <= self.target

    def seems_to_reach(self, level: LatentLevel) -> bool:
        """Whether the estimate of a level's divergence is at most the target."""
        return _estimated_evidence(self.levels) - level.elbo <= self.target

    def least(self, Z: Float, points: Points, first: int, reaches: Callable[[LatentLevel], bool]) -> int | None:
        """The least number ≥ ``first`` of leading rows of Z that reaches the target, between levels that are known."""

        def reached(M: int) -> bool:
            self.law(Z, points, M)
            return reaches(self.levels[-1])

        known = {level.M: reaches(level) for level in self.levels if level.points == points}
        high = min((M for M, reached in known.items() if reached), default=None)
        if high is None:
            return None
        low = max((M for M, reached in known.items() if not reached and M < high), default=first - 1)
        return bisected(reached, low, high)


def latent_enough(
    about: LatentSubject,
    *,
    target: float = 1.0,
    most: int = 1000,
    rng: int | np.random.Generator = 0,
    delta: float = 0.01,
    progress: bool = False,
) -> LatentEnough:
    """Bounds on KL[q‖p] for the model's own q and for the best q with more inducing points; the number that would do.

    Claims N-fisher, N-elbos.  p is the exact posterior under a log-concave likelihood.  KL[q‖p] = log p(y) − ELBO(q),
    log p(y) is at least every ELBO, and N-fisher bounds it from above by any law.  So a law with more points, whose
    bound is small, encloses the divergence of one with fewer points more sharply than this one's own bound.

    Two sequences of nested sets are tried: the model's inducing points with further rows, each of the largest variance
    that is not explained yet, and rows chosen by the greedy method alone; each with its best Gaussian q, for the kernel
    and the likelihood of the model.

    Parameters
    ----------
    about : LatentSubject
    target : float
        The divergence that counts as enough, in nats.
    most : int
        Largest number of inducing points to try.
    rng : seed or Generator
        For the rows at which bounds for more than 10,000 rows are computed.
    delta : float
        Probability with which these may fail, together.
    progress : bool
        Show a progress bar.

    Returns
    -------
    LatentEnough
        After Ctrl-C what was found, if that is anything.

    Raises
    ------
    ValueError, NotPositiveDefinite
        for a target or a number out of range, and where Kuu does not factorise.

    >>> from gpbounds.audit import latent_subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Bernoulli
    >>> X = np.linspace(0.0, 10.0, 40)
    >>> about = latent_subject(SquaredExponential(), Bernoulli("logit"), X, np.sin(X) > 0.0, [2.0, 5.0, 8.0])
    >>> result = latent_enough(about, target=0.3)
    >>> result.verdict, result.suffices
    ('not enough', 8)
    """
    level, largest = scalar(positive, "target", target), count("most", most)
    failing = scalar(open_unit, "delta", delta)
    with bar("KL against M", None, "law", progress) as laws:
        search = _Search(about, level, rng, failing, laws.update)
        try:
            search.run(largest)
        except KeyboardInterrupt:
            if not search.levels:
                raise
            search.interrupted = True
    return LatentEnough(
        level,
        tuple(search.levels),
        (search.counts["chosen"], search.counts["added"]),
        (search.tried["chosen"], search.tried["added"]),
        search.estimated,
        search.interrupted,
    )


def _sizes(last: int) -> Sequence[int]:
    return [int(M) for M in np.unique(np.rint(np.geomspace(1, last, SIZES)))] if last > 0 else []
