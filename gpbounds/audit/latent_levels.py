"""Is M enough for labels or counts: the divergence of a law from the posterior, at its points and at further ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.best_law import best_law, elbo_of
from gpbounds.audit.levels import AgainstM, AtPoints, LevelSearch, Pair, Points, sizes
from gpbounds.audit.model import LatentSubject
from gpbounds.bound import Bound
from gpbounds.divergences import SparsePosterior
from gpbounds.interval import possible
from gpbounds.progress import bar
from gpbounds.renyi import PosteriorGap, posterior_gap
from gpbounds.renyi.further import further_rows
from gpbounds.validation import count, instance, open_unit, positive, scalar

DIVERGENCE, EVIDENCE = "KL[q||p]", "log p(y)"
IN_DOUBLES = "The rounding of the ELBOs is not proved: quadratures are accurate to 1e-11 of each row's term."
SETTLED, FEW = 0.01, 8
"""A curve ends where a step of it gains less than this share of the target, but not before so many points."""
JITTER = 1e-8
"""Jitter of laws with further points, over the largest variance of the kernel: it keeps roundings small."""
TRIES = 3
"""Laws of the curve whose own bounds are computed until one has a small rounding error."""
ROUNDED = 0.01
"""The rounding error that is small, as a share of the bound."""


@dataclass(frozen=True, eq=False)
class LatentLevel(AtPoints):
    """A law of the inducing variables, and what is known of its divergence; its ELBO is at most log p(y), in doubles.

    Attributes
    ----------
    gap : PosteriorGap or None
        The bound on the divergence by this law alone, where it was computed.
    """

    gap: PosteriorGap | None = None

    def divergence(self, best: Pair) -> Pair:
        """Lower and upper bound on KL[q‖p] = log p(y) − ELBO, given bounds on log p(y) from other laws (N-elbos)."""
        low = max(math.nextafter(float(best[0]) - self.elbo, -math.inf), 0.0)
        high = math.nextafter(float(best[1]) - self.elbo, math.inf)
        lower = replace(best[0], value=low, quantity=DIVERGENCE)
        upper = replace(best[1], value=max(high, 0.0), quantity=DIVERGENCE)
        if self.gap is not None and float(self.gap.bound) < high:
            upper = replace(self.gap.bound, confidence=best[1].confidence, quantity=DIVERGENCE)
        return possible((lower, upper), 0.0)

    def to_dict(self, best: Pair) -> dict[str, Any]:
        """The record, ready for JSON, given bounds on log p(y) from other laws."""
        own = self.gap
        return {
            "M": self.M,
            "points": self.points,
            "ELBO": self.elbo,
            "KL": [float(end) for end in self.divergence(best)],
            "bound": None if own is None else float(own.bound),
            "of_q": None if own is None else float(own.of_q),
            "of_M": None if own is None else float(own.of_M),
            "estimate": None if own is None else float(own.estimate),
        }

    @property
    def in_every_table(self) -> bool:
        """Whether the law has a bound of its own: then every table has this level."""
        return self.gap is not None


@dataclass(frozen=True, eq=False)
class LatentEnough(AgainstM[LatentLevel]):
    """Bounds on the divergence of the model's law from the exact posterior, and of others with more inducing points.

    Attributes
    ----------
    target, evidence, levels, counts, tried, interrupted
        As of `AgainstM`; log p(y) is at least the largest ELBO, and at most the least sum of an ELBO and its bound.
    estimated : int or None
        The least number of points, the model's and further rows, that reaches the target by the estimate; only where
        none is proved to.
    """

    estimated: int | None = None

    words: ClassVar[Mapping[Points, str]] = {
        "model": "the model's law",
        "best": "best law, the model's points",
        "added": "best law, these and more rows",
        "chosen": "best law, chosen rows",
    }
    apart: ClassVar[float] = 1.2

    @property
    def model(self) -> LatentLevel:
        """The level of the model's own law."""
        return self.of("model")[0]

    @property
    def best(self) -> LatentLevel:
        """The level of the best law with the model's inducing points, as far as it was found."""
        return max((*self.of("best"), self.model), key=lambda level: level.elbo)

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
    def decisive(self) -> tuple[int | None, ...]:
        """Numbers of inducing points that reach the target, that of the estimate included."""
        return *self.counts, self.estimated

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return self.record({"estimate": self.estimate, "excess": self.excess, "estimated": self.estimated}, {})


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
class _Search(LevelSearch[LatentLevel]):
    """The levels of a model of labels or counts; laws of nested sets of points start from each other."""

    about: LatentSubject
    rng: Any
    delta: float
    laws: dict[tuple[Points, int], SparsePosterior] = field(default_factory=dict)
    estimated: int | None = None

    @property
    def evidence(self) -> Pair:
        """Lower and upper bound on log p(y) (N-elbos)."""
        return evidence_from(self.levels)

    def run(self, most: int) -> None:
        """All levels: the model's law, the best one with its points, and those with more points."""
        about = self.about
        own = about.posterior
        best = best_law(about, about.Z, "auto" if own is None else own.jitter, own)
        law = best.posterior if own is None else own
        elbo = best.elbo if own is None else elbo_of(about, law)
        self.keep(LatentLevel(about.M, "model", elbo, self.gap(law)))
        if own is not None:
            self.keep(LatentLevel(about.M, "best", best.elbo))
        both = np.concatenate([about.Z, further_rows(about.kernel, about.X, about.Z, max(most - about.M, 0))])
        self.laws["added", about.M] = best.posterior
        self.along(both, "added", about.M)
        self.bound_the_last()
        self.counts["added"] = self.least(both, "added", about.M + 1)
        if self.counts["added"] is None:
            self.estimated = self.least(both, "added", about.M + 1, self.seems_to_reach)
        chosen = further_rows(about.kernel, about.X, None, most)
        self.along(chosen, "chosen", 0)
        self.counts["chosen"] = self.least(chosen, "chosen", 1)

    def along(self, Z: Float, points: Points, first: int) -> None:
        """The curve over nested sets, until a step of it gains hardly anything."""
        before = -math.inf
        for number in sizes(len(Z) - first):
            now = self.add(Z, points, first + number).elbo
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

    def add(self, Z: Float, points: Points, M: int) -> LatentLevel:
        """The best law with the first M rows of Z, whose level is kept."""
        known = [m for kind, m in self.laws if kind == points and m <= M]
        start = self.laws[points, max(known)] if known else None
        jitter = JITTER * float(self.about.kernel.diag(self.about.X).max())
        best = best_law(self.about, Z[:M], jitter, start)
        self.laws[points, M] = best.posterior
        return self.keep(LatentLevel(M, points, best.elbo))

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

    def seems_to_reach(self, level: LatentLevel) -> bool:
        """Whether the estimate of a level's divergence is at most the target."""
        return _estimated_evidence(self.levels) - level.elbo <= self.target


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
    instance("about", about, LatentSubject, "what gpbounds.audit.latent_subject returns")
    level, largest = scalar(positive, "target", target), count("most", most)
    failing = scalar(open_unit, "delta", delta)
    with bar("KL against M", None, "law", progress) as laws:
        search = _Search(level, laws.update, about, rng, failing)
        search.until_interrupted(lambda: search.run(largest))
    return LatentEnough(*search.found, search.estimated, interrupted=search.interrupted)
