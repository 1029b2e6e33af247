"""Is M enough: bounds on a divergence against M, and an M that suffices; those of the best sparse posterior."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.model import Subject
from gpbounds.audit.own import excess
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.interval import Interval, possible
from gpbounds.linalg import Jitter, eigen
from gpbounds.linalg.pivoted import Pivoted
from gpbounds.numerics.search import bisected, least_decreasing
from gpbounds.overflow import within_doubles
from gpbounds.progress import bar
from gpbounds.renyi import minimum_gap, needed, needed_from_eigenvalues
from gpbounds.renyi.brackets import Bracket, assemble, best_evidence, bracket
from gpbounds.renyi.escalation import spoilt
from gpbounds.renyi.floors import eigenvalues_off
from gpbounds.renyi.further import further_path, further_rows, variational_bounds
from gpbounds.renyi.gap_bounds import BEST, streamed_gap
from gpbounds.renyi.members import CANDIDATES, CHEAP, WORK, chosen_members, exact_work, further_points
from gpbounds.validation import count, flag, instance, non_negative, positive, scalar

DIVERGENCE, OWN = "KL[q*||p]", "KL[q||p]"
_OF_MODEL = "q is the posterior of the model, and the divergence is KL[q‖p(f, U | y)]."
SIZES = 10
"""Numbers of inducing points on the curve of each way to choose them."""

Points = Literal["model", "best", "chosen", "added"]
Pair = tuple[Bound, Bound]


@dataclass(frozen=True, eq=False)
class AtPoints(ABC):
    """A law of the inducing variables at one set of inducing points.

    Attributes
    ----------
    M : int
    points : "model", "best", "chosen" or "added"
        The model's own law; the best law with its inducing points; the best ones with rows chosen by the greedy method,
        and with the model's points and further rows.
    elbo : float
        The variational bound on log p(y).
    """

    M: int
    points: Points
    elbo: float

    @abstractmethod
    def divergence(self, best: Pair) -> Pair:
        """Lower and upper bound on log p(y) − ELBO, given bounds on log p(y) from other laws."""

    @abstractmethod
    def to_dict(self, best: Pair) -> dict[str, Any]:
        """The record, ready for JSON, given bounds on log p(y) from other laws."""

    @property
    def in_every_table(self) -> bool:
        """Whether every table has this level."""
        return self.points == "model"


AnyLevel = TypeVar("AnyLevel", bound=AtPoints)


@dataclass(frozen=True, eq=False)
class AgainstM(ABC, Generic[AnyLevel]):
    """Bounds on a divergence from the exact posterior, for increasing numbers of inducing points.

    Attributes
    ----------
    target : float
        The divergence that counts as enough, in nats.
    evidence : (Bound, Bound)
        The sharpest bounds on log p(y), which depends on no inducing points.
    levels : tuple of AtPoints
    counts : tuple of int or None
        The least numbers of "chosen" and of "added" points whose upper bound is at most the target; None if none was
        found.
    tried : tuple of int
        The largest number of points tried, for "chosen" and "added".
    interrupted : bool
        Whether Ctrl-C ended the search; then fewer points may do.
    """

    target: float
    evidence: Pair
    levels: tuple[AnyLevel, ...]
    counts: tuple[int | None, int | None]
    tried: tuple[int, int]
    interrupted: bool = field(default=False, kw_only=True)

    words: ClassVar[Mapping[Points, str]]
    """What the levels are, in the order of a table."""
    apart: ClassVar[float]
    """Ratio of numbers of inducing points from row to row of a table."""

    def of(self, points: Points) -> list[AnyLevel]:
        """The levels with this kind of ``points``, in order of M."""
        return sorted((level for level in self.levels if level.points == points), key=lambda level: level.M)

    @property
    def model(self) -> AnyLevel | None:
        """The level of the model's own inducing points."""
        return next(iter(self.of("model")), None)

    @property
    def best(self) -> AnyLevel | None:
        """The level of the best law with the model's inducing points."""
        return self.model

    @property
    @abstractmethod
    def divergence(self) -> Pair | None:
        """Lower and upper bound on the divergence of the model's posterior."""

    @property
    def suffices(self) -> int | None:
        """The least number of inducing points whose best posterior has an upper bound of at most the target."""
        counts = [number for number in self.counts if number is not None]
        if self.best is not None and float(self.best.divergence(self.evidence)[1]) <= self.target:
            counts.append(self.best.M)
        return min(counts, default=None)

    @property
    def verdict(self) -> Literal["enough", "not enough", "open", "no inducing points"]:
        """Whether the model's own posterior reaches the target: proved, disproved, or neither."""
        if self.divergence is None:
            return "no inducing points"
        lower, upper = map(float, self.divergence)
        return "enough" if upper <= self.target else "not enough" if lower > self.target else "open"

    @property
    def decisive(self) -> tuple[int | None, ...]:
        """Numbers of inducing points that reach the target."""
        return self.counts

    def telling(self) -> list[AnyLevel]:
        """The levels of a table: those where the target is reached, and others `apart`."""
        decisive = {count - before for count in self.decisive if count is not None for before in (0, 1)}
        order, kept = list(self.words), list[AnyLevel]()
        for points in order:
            last = 0.0
            for level in self.of(points):
                if level.in_every_table or level.M in decisive or level.M >= self.apart * last:
                    kept.append(level)
                    last = level.M
        return sorted(kept, key=lambda level: (level.M, order.index(level.points)))

    def record(self, before: Mapping[str, Any], behind: Mapping[str, Any]) -> dict[str, Any]:
        """The record, ready for JSON, with entries ``before`` and ``behind`` the numbers of inducing points."""
        return {
            "target": self.target,
            "verdict": self.verdict,
            "evidence": [end.to_dict() for end in self.evidence],
            "KL": None if self.divergence is None else [end.to_dict() for end in self.divergence],
            **before,
            "suffices": self.suffices,
            "chosen": self.counts[0],
            "added": self.counts[1],
            "tried": list(self.tried),
            **behind,
            "levels": [each.to_dict(self.evidence) for each in self.levels],
            "interrupted": self.interrupted,
        }


@dataclass
class LevelSearch(ABC, Generic[AnyLevel]):
    """Levels found so far, over nested sets of inducing points."""

    target: float
    advance: Callable[[], Any]
    levels: list[AnyLevel] = field(default_factory=list, kw_only=True)
    counts: dict[Points, int | None] = field(default_factory=lambda: dict.fromkeys(("chosen", "added")), kw_only=True)
    tried: dict[Points, int] = field(default_factory=lambda: dict.fromkeys(("chosen", "added"), 0), kw_only=True)
    interrupted: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def evidence(self) -> Pair:
        """The greatest lower and the least upper bound on log p(y)."""

    @abstractmethod
    def add(self, Z: Float, points: Points, M: int) -> AnyLevel:
        """Compute the level of the first M rows of Z, and keep it."""

    def until_interrupted(self, run: Callable[[], None]) -> None:
        """Search; Ctrl-C leaves the levels that were found, if there are any."""
        try:
            run()
        except KeyboardInterrupt:
            if not self.levels:
                raise
            self.interrupted = True

    def keep(self, level: AnyLevel) -> AnyLevel:
        """Add a level, in place of one of the same points."""
        self.levels = [each for each in self.levels if (each.points, each.M) != (level.points, level.M)]
        self.levels.append(level)
        if level.points in self.tried:
            self.tried[level.points] = max(self.tried[level.points], level.M)
        self.advance()
        return level

    def above(self, level: AnyLevel) -> float:
        """The upper bound of a level."""
        return float(level.divergence(self.evidence)[1])

    def reaches(self, level: AnyLevel) -> bool:
        """Whether the upper bound of a level is at most the target."""
        return self.above(level) <= self.target

    def least(
        self, Z: Float, points: Points, first: int, reaches: Callable[[AnyLevel], bool] | None = None
    ) -> int | None:
        """The least number ≥ ``first`` of leading rows of Z that reaches the target, between levels that are known."""
        enough = self.reaches if reaches is None else reaches
        known = {level.M: enough(level) for level in self.levels if level.points == points}
        high = min((M for M, reached in known.items() if reached), default=None)
        if high is None:
            return None
        low = max((M for M, reached in known.items() if not reached and M < high), default=first - 1)
        return bisected(lambda M: enough(self.add(Z, points, M)), low, high)

    @property
    def found(self) -> tuple[float, Pair, tuple[AnyLevel, ...], tuple[int | None, int | None], tuple[int, int]]:
        """What `AgainstM` begins with."""
        counts = (self.counts["chosen"], self.counts["added"])
        return self.target, self.evidence, tuple(self.levels), counts, (self.tried["chosen"], self.tried["added"])


def sizes(last: int) -> Sequence[int]:
    """Numbers of inducing points from 1 to ``last``, evenly spaced in their logarithms."""
    return [int(M) for M in np.unique(np.rint(np.geomspace(1, last, SIZES)))] if last > 0 else []


@dataclass(frozen=True, eq=False)
class Level(AtPoints):
    """Bounds of the best sparse posterior for one set of inducing points; there is no "best" beside the "model".

    Attributes
    ----------
    ends : (float, float)
        Proved lower and upper bound on it, rounding included; the upper one may be infinite.
    evidence : (Bound, Bound)
        Lower and upper bound on log p(y) by these points.
    trace : (Bound, Bound)
        Lower and upper bound on the divergence by these points.
    """

    ends: tuple[float, float]
    evidence: Pair
    trace: Pair

    def divergence(self, best: Pair) -> Pair:
        """Lower and upper bound on KL[q*‖p] = log p(y) − ELBO, given bounds on log p(y) from other points (R-gap)."""
        lower, upper = self.trace
        low = math.nextafter(float(best[0]) - self.ends[1], -math.inf)
        high = math.nextafter(float(best[1]) - self.ends[0], math.inf)
        return possible(
            (
                _better(lower, best[0], low, low > float(lower)),
                _better(upper, best[1], high, high < float(upper)),
            ),
            0.0,
        )

    def to_dict(self, best: Pair) -> dict[str, Any]:
        """The record, ready for JSON, given bounds on log p(y) from other points."""
        lower, upper = self.divergence(best)
        return {
            "M": self.M,
            "points": self.points,
            "ELBO": self.elbo,
            "evidence": [float(end) for end in self.evidence],
            "KL": [float(lower), float(upper)],
            "claims": [lower.claim, upper.claim],
        }


def _better(own: Bound, best: Bound, value: float, difference: bool) -> Bound:
    """The bound by these points, or the difference from log p(y)."""
    assumptions = tuple(dict.fromkeys((*own.assumptions, *best.assumptions)))
    chosen = replace(own, terms={}, assumptions=assumptions, quantity=DIVERGENCE)
    if not difference:
        return chosen
    return replace(chosen, value=value, claim=f"{best.claim}, R-gap", certified=own.certified and best.certified)


@dataclass(frozen=True, eq=False)
class Enough(AgainstM[Level]):
    """Bounds on the divergence of q* from the exact posterior, for increasing numbers of inducing points.

    Attributes
    ----------
    target, evidence, levels, counts, tried, interrupted
        As of `AgainstM`.
    needed : int
        Fewer inducing variables cannot reach the target, however they are chosen (N-low).
    floor : (array, array) or None
        M, and the lower bound on the divergence of any M inducing variables (N-low).
    excess : float
        How much larger the divergence of the model's own posterior is than that of the best one (N-excess).
    left_out : tuple of str
        What ``work`` does not afford for log p(y), and the work that does.
    """

    needed: int
    floor: tuple[Float, Float] | None = None
    excess: float = 0.0
    left_out: tuple[str, ...] = ()

    words: ClassVar[Mapping[Points, str]] = {
        "added": "the model's and more rows",
        "chosen": "chosen rows",
        "model": "the model's",
    }
    apart: ClassVar[float] = 1.1

    @property
    def divergence(self) -> Pair | None:
        """Lower and upper bound on the divergence of the model's posterior."""
        if self.model is None:
            return None
        lower, upper = self.model.divergence(self.evidence)
        if self.excess == 0.0:
            return lower, upper
        return tuple(  # type: ignore[return-value]
            replace(
                each,
                value=float(each) + self.excess,
                claim=f"{each.claim}, N-excess",
                certified=False,  # the rounding of the excess is not proved
                quantity=OWN,
                assumptions=tuple(_OF_MODEL if sentence == BEST else sentence for sentence in each.assumptions),
            )
            for each in (lower, upper)
        )

    @property
    def best_reaches(self) -> bool:
        """Whether the best posterior with the model's inducing points reaches the target, and the model's does not."""
        if self.model is None or self.divergence is None or self.excess == 0.0:
            return False
        best = float(self.model.divergence(self.evidence)[1])
        return best <= self.target < float(self.divergence[0])

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return self.record({}, {"needed": self.needed, "excess": self.excess})


@dataclass
class _Search(LevelSearch[Level]):
    """The levels of a model with Gaussian noise, and the sharpest bounds on log p(y)."""

    about: Subject
    extra: list[Pair] = field(default_factory=list)
    needed: int = 1
    floor: tuple[Float, Float] | None = None
    excess: float = 0.0
    left_out: tuple[str, ...] = ()

    def run(self, most: int, rows: int, work: float, curve: bool, below: bool) -> None:
        """All levels: the model's, chosen rows, and more rows than the model's if those do not reach the target."""
        about = self.about
        if about.Z is not None:
            own = about.posterior
            members = self.members(about.Z, "auto" if own is None else own.jitter)
            self.keep(_level(members, "model"))
            if own is not None:
                self.excess = excess(own, about.X, about.y, noise=about.noise)
            self.bound_evidence(members, rows, work)
        chosen, path = further_path(about.kernel, about.X, None, most)
        if about.Z is None and len(chosen):
            affords = exact_work(about.N) <= work
            if not affords or spoilt(self.bound_evidence(self.members(chosen[:1]), rows, work)):
                self.bound_evidence(self.members(chosen[: max(further_points(about.N, work), 1)]), rows, work)
        guess = None if curve else self.guess(path)
        if guess is None:
            for M in sizes(len(chosen)):
                self.add(chosen, "chosen", M)
            self.counts["chosen"] = self.least(chosen, "chosen", 1)
        elif not below and self.reaches(self.add(chosen, "chosen", guess)):
            self.counts["chosen"] = guess
        else:
            self.counts["chosen"] = least_decreasing(
                lambda M: self.above(self.add(chosen, "chosen", M)), self.target, 1, len(chosen), guess
            )
        if about.Z is not None and not self.reaches(self.levels[0]):
            first = len(about.Z)
            both = np.concatenate([about.Z, further_rows(about.kernel, about.X, about.Z, most)])
            for M in sizes(len(both) - first):
                if self.reaches(self.add(both, "added", first + M)):
                    break
            self.counts["added"] = self.least(both, "added", first + 1)
        if below:
            self.floor, self.needed = _floor(about, self.target, most, rows)

    def bound_evidence(self, members: Bracket, rows: int, work: float) -> Interval:
        """Bounds on log p(y) by the inducing points of ``members`` and what ``work`` affords beyond them."""
        plan = chosen_members("auto", (1.0,), self.about.N, members.problem.sums.M, work, mapped=False)
        self.left_out = plan.notes
        exact = (lambda: self.about.exact) if self.about.N <= rows else None
        pair = best_evidence(members, plan, auto=True, rigor="auto", model=exact)
        self.extra.append(pair)
        return pair

    def guess(self, path: Pivoted) -> int | None:
        """The number of points of the path that seems to reach the target; None where no path of all rows is known."""
        about = self.about
        if about.N > CANDIDATES or path.indices.size == 0:
            return None
        try:
            elbos = variational_bounds(path, about.y, noise=about.noise)
        except NotPositiveDefinite:  # σ² is below the rounding error of VVᵀ
            return None
        reached = np.flatnonzero(float(self.evidence[1]) - elbos <= self.target)
        return int(reached[0]) + 1 if reached.size else elbos.size

    def members(self, Z: Float, jitter: Jitter = "auto") -> Bracket:
        """The members of log p(y) at Z."""
        return _members(self.about, Z, jitter)

    def add(self, Z: Float, points: Points, M: int) -> Level:
        """Compute the level of the first M rows of Z, and keep it."""
        return self.keep(_level(self.members(Z[:M]), points))

    @property
    def evidence(self) -> Pair:
        """The greatest lower and the least upper bound on log p(y)."""
        pairs = [*self.extra, *(level.evidence for level in self.levels)]
        return possible((max((low for low, _ in pairs), key=float), min((high for _, high in pairs), key=float)))


@within_doubles
def enough(
    about: Subject,
    *,
    target: float = 1.0,
    most: int = 1000,
    rows: int = 3000,
    work: float = WORK,
    curve: bool = True,
    below: bool = True,
    progress: bool = False,
) -> Enough:
    """Bounds on KL[q*‖p] at the model's inducing points and at others, and the number of points that would do.

    q* is the best sparse posterior with given inducing points, p the exact posterior.  KL[q*‖p] = log p(y) − ELBO
    (R-gap), and log p(y) depends on no inducing points: the sharpest bounds on it hold for every level.  They
    are those of `gpbounds.renyi.evidence` with the model's inducing points and the same ``work``, and those of every
    level.

    Two sequences of nested sets are tried: rows chosen by the greedy method, and the model's inducing points with
    further rows, each of the largest variance that is not explained yet.  In a sequence of nested sets the divergence
    does not increase (N-monoQ).

    Parameters
    ----------
    about : Subject
    target : float
        The divergence that counts as enough, in nats.
    most : int
        Largest number of inducing points to try.
    rows : int
        Largest N for the eigenvalues of K, from which the lower bound for any choice of points is computed.
    work : float
        Flops for log p(y), as in `gpbounds.renyi.evidence`.
    curve : bool
        Whether numbers of chosen points are tried for a curve, too; False: from the number that one pass over the
        greedy path, in doubles and without a proof, gives as the least.
    below : bool
        Whether it is also computed what fewer points reach: with one fewer, and for any choice of them (N-low).
    progress : bool
        Show a progress bar.

    Returns
    -------
    Enough
        After Ctrl-C what was found, if that is anything.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `gpbounds.renyi.evidence`.

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 40)
    >>> about = subject(SquaredExponential(), X, np.sin(X), [2.0, 5.0, 8.0], noise=0.1)
    >>> result = enough(about, target=0.1)
    >>> result.verdict, result.needed, result.suffices
    ('not enough', 11, 13)
    """
    instance("about", about, Subject, "what gpbounds.audit.subject returns")
    level, largest = scalar(positive, "target", target), count("most", most)
    budget, few = scalar(non_negative, "work", work), count("rows", rows, 0)
    flag("curve", curve)
    flag("below", below)
    with bar("KL against M", None, "set", progress) as sets:
        search = _Search(level, sets.update, about)
        search.until_interrupted(lambda: search.run(largest, few, budget, curve, below))
    return Enough(
        *search.found,
        search.needed,
        search.floor,
        search.excess,
        search.left_out,
        interrupted=search.interrupted,
    )


def level_at(about: Subject, Z: Float, points: Points) -> Level:
    """The bounds for one set of inducing points Z: streamed, O(NM²)."""
    return _level(_members(about, Z, "auto"), points)


def _members(about: Subject, Z: Float, jitter: Jitter) -> Bracket:
    return bracket(about.kernel, about.X, about.y, Z, about.noise, (1.0,), jitter, streams=True)


def _level(members: Bracket, points: Points) -> Level:
    return Level(
        members.problem.sums.M,
        points,
        members.variational_bound,
        members.variational_ends,
        assemble(members, CHEAP),
        streamed_gap(members, 1.0, "streamed"),
    )


def _floor(about: Subject, target: float, most: int, rows: int) -> tuple[tuple[Float, Float] | None, int]:
    """The lower bound for any M inducing variables, and the least M that it admits for the target."""
    kernel, X, noise = about.kernel, about.X, about.noise
    if about.N > rows:
        return None, needed(kernel, X, 1.0, noise=noise, target=target, landmarks=min(most, about.N))
    spectrum = eigen(kernel(X), "K")
    values = np.maximum(spectrum.values - eigenvalues_off(kernel, X, spectrum), 0.0)
    M = np.unique(np.rint(np.geomspace(1, max(about.N - 1, 1), 60)))
    return (M, minimum_gap(values, M.astype(np.int64), 1.0, noise=noise)), needed_from_eigenvalues(
        values, 1.0, noise=noise, target=target
    )
