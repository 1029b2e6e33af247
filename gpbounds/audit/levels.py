"""Is M enough: bounds on the divergence of the best sparse posterior against M, and an M that suffices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.model import Subject
from gpbounds.audit.own import excess
from gpbounds.bound import Bound
from gpbounds.interval import possible
from gpbounds.linalg import Jitter, eigen
from gpbounds.numerics.search import bisected
from gpbounds.progress import bar
from gpbounds.renyi import minimum_gap, needed, needed_from_eigenvalues
from gpbounds.renyi.brackets import Bracket, assemble, best_evidence, bracket
from gpbounds.renyi.floors import eigenvalues_off
from gpbounds.renyi.further import further_rows
from gpbounds.renyi.gap_bounds import BEST, streamed_gap
from gpbounds.renyi.members import CHEAP, WORK, chosen_members, further_points
from gpbounds.validation import count, non_negative, positive, scalar

DIVERGENCE, OWN = "KL[q*||p]", "KL[q||p]"
_OF_MODEL = "q is the posterior of the model, and the divergence is KL[q‖p(f, U | y)]."
SIZES = 10
"""Numbers of inducing points on the curve of each way to choose them."""

Points = Literal["model", "chosen", "added"]
Pair = tuple[Bound, Bound]


@dataclass(frozen=True, eq=False)
class Level:
    """Bounds for one set of inducing points.

    Attributes
    ----------
    M : int
    points : "model", "chosen" or "added"
        The inducing points of the model; rows chosen by the greedy method; those of the model and further rows.
    elbo : float
        The variational bound on log p(y).
    ends : (float, float)
        Proved lower and upper bound on it, rounding included; the upper one may be infinite.
    evidence : (Bound, Bound)
        Lower and upper bound on log p(y) by these points.
    trace : (Bound, Bound)
        Lower and upper bound on the divergence by these points.
    """

    M: int
    points: Points
    elbo: float
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


def _better(own: Bound, best: Bound, value: float, difference: bool) -> Bound:
    """The bound by these points, or the difference from log p(y)."""
    assumptions = tuple(dict.fromkeys((*own.assumptions, *best.assumptions)))
    chosen = replace(own, terms={}, assumptions=assumptions, quantity=DIVERGENCE)
    if not difference:
        return chosen
    return replace(chosen, value=value, claim=f"{best.claim}, R-gap", certified=own.certified and best.certified)


@dataclass(frozen=True, eq=False)
class Enough:
    """Bounds on the divergence of q* from the exact posterior, for increasing numbers of inducing points.

    Attributes
    ----------
    target : float
        The divergence that counts as enough, in nats.
    evidence : (Bound, Bound)
        The sharpest bounds on log p(y), which depends on no inducing points.
    levels : tuple of Level
    counts : tuple of int or None
        The least numbers of "chosen" and of "added" points whose upper bound is at most the target; None if none was
        found.
    tried : tuple of int
        The largest number of points tried, for "chosen" and "added".
    needed : int
        Fewer inducing variables cannot reach the target, however they are chosen (N-low).
    floor : (array, array) or None
        M, and the lower bound on the divergence of any M inducing variables (N-low).
    interrupted : bool
        Whether Ctrl-C ended the search; then fewer points may do.
    excess : float
        How much larger the divergence of the model's own posterior is than that of the best one (N-excess).
    left_out : tuple of str
        What ``work`` does not afford for log p(y), and the work that does.
    """

    target: float
    evidence: Pair
    levels: tuple[Level, ...]
    counts: tuple[int | None, int | None]
    tried: tuple[int, int]
    needed: int
    floor: tuple[Float, Float] | None = None
    interrupted: bool = False
    excess: float = 0.0
    left_out: tuple[str, ...] = ()

    def of(self, points: Points) -> list[Level]:
        """The levels with this kind of ``points``, in order of M."""
        return sorted((level for level in self.levels if level.points == points), key=lambda level: level.M)

    @property
    def model(self) -> Level | None:
        """The level of the model's own inducing points."""
        return next(iter(self.of("model")), None)

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

    @property
    def suffices(self) -> int | None:
        """The least number of inducing points whose best posterior has an upper bound of at most the target."""
        counts = [number for number in self.counts if number is not None]
        if self.model is not None and float(self.model.divergence(self.evidence)[1]) <= self.target:
            counts.append(self.model.M)
        return min(counts, default=None)

    @property
    def verdict(self) -> Literal["enough", "not enough", "open", "no inducing points"]:
        """Whether the model's own inducing points reach the target: proved, disproved, or neither."""
        if self.divergence is None:
            return "no inducing points"
        lower, upper = map(float, self.divergence)
        return "enough" if upper <= self.target else "not enough" if lower > self.target else "open"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""

        def level(each: Level) -> dict[str, Any]:
            lower, upper = each.divergence(self.evidence)
            return {
                "M": each.M,
                "points": each.points,
                "ELBO": each.elbo,
                "evidence": [float(end) for end in each.evidence],
                "KL": [float(lower), float(upper)],
                "claims": [lower.claim, upper.claim],
            }

        return {
            "target": self.target,
            "verdict": self.verdict,
            "evidence": [end.to_dict() for end in self.evidence],
            "KL": None if self.divergence is None else [end.to_dict() for end in self.divergence],
            "suffices": self.suffices,
            "chosen": self.counts[0],
            "added": self.counts[1],
            "tried": list(self.tried),
            "needed": self.needed,
            "excess": self.excess,
            "levels": [level(each) for each in self.levels],
            "interrupted": self.interrupted,
        }


@dataclass
class _Search:
    """Levels found so far, and the sharpest bounds on log p(y)."""

    about: Subject
    target: float
    advance: Callable[[], Any]
    levels: list[Level] = field(default_factory=list)
    extra: list[Pair] = field(default_factory=list)
    counts: dict[Points, int | None] = field(default_factory=lambda: dict.fromkeys(("chosen", "added")))
    tried: dict[Points, int] = field(default_factory=lambda: dict.fromkeys(("chosen", "added"), 0))
    needed: int = 1
    floor: tuple[Float, Float] | None = None
    interrupted: bool = False
    excess: float = 0.0
    left_out: tuple[str, ...] = ()

    def run(self, most: int, rows: int, work: float) -> None:
        """All levels: the model's, chosen rows, and more rows than the model's if those do not reach the target."""
        about, members = self.about, None
        if about.Z is not None:
            own = about.posterior
            members = self.members(about.Z, "auto" if own is None else own.jitter)
            self.keep(members, "model")
            if own is not None:
                self.excess = excess(own, about.X, about.y, noise=about.noise)
        chosen = further_rows(about.kernel, about.X, None, most)
        if members is None and len(chosen):
            members = self.members(chosen[: max(further_points(about.N, work), 1)])
        if members is not None:
            plan = chosen_members("auto", (1.0,), about.N, members.problem.sums.M, work, mapped=False)
            self.left_out = plan.notes
            exact = (lambda: about.exact) if about.N <= rows else None
            self.extra.append(best_evidence(members, plan, auto=True, rigor="auto", model=exact))
        for M in _sizes(len(chosen)):
            self.add(chosen[:M], "chosen")
        self.counts["chosen"] = self.least(chosen, "chosen", 1)
        if about.Z is not None and not self.reaches(self.levels[0]):
            first = len(about.Z)
            both = np.concatenate([about.Z, further_rows(about.kernel, about.X, about.Z, most)])
            for M in _sizes(len(both) - first):
                if self.reaches(self.add(both[: first + M], "added")):
                    break
            self.counts["added"] = self.least(both, "added", first + 1)
        self.floor, self.needed = _floor(about, self.target, most, rows)

    def members(self, Z: Float, jitter: Jitter = "auto") -> Bracket:
        """The members of log p(y) at Z."""
        return _members(self.about, Z, jitter)

    def add(self, Z: Float, points: Points) -> Level:
        """Compute the level of Z, and keep it."""
        return self.keep(self.members(Z), points)

    def keep(self, members: Bracket, points: Points) -> Level:
        """The level of these members, which is kept."""
        level = _level(members, points)
        self.levels.append(level)
        if points in self.tried:
            self.tried[points] = max(self.tried[points], level.M)
        self.advance()
        return level

    @property
    def evidence(self) -> Pair:
        """The greatest lower and the least upper bound on log p(y)."""
        pairs = [*self.extra, *(level.evidence for level in self.levels)]
        return possible((max((low for low, _ in pairs), key=float), min((high for _, high in pairs), key=float)))

    def reaches(self, level: Level) -> bool:
        """Whether the upper bound of a level is at most the target."""
        return float(level.divergence(self.evidence)[1]) <= self.target

    def least(self, Z: Float, points: Points, first: int) -> int | None:
        """The least number ≥ ``first`` of leading rows of Z that reaches the target, between levels that are known."""
        known = {level.M: self.reaches(level) for level in self.levels if level.points == points}
        high = min((M for M, reached in known.items() if reached), default=None)
        if high is None:
            return None
        low = max((M for M, reached in known.items() if not reached and M < high), default=first - 1)
        return bisected(lambda M: self.reaches(self.add(Z[:M], points)), low, high)


def enough(
    about: Subject,
    *,
    target: float = 1.0,
    most: int = 1000,
    rows: int = 3000,
    work: float = WORK,
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
    level, largest = scalar(positive, "target", target), count("most", most)
    budget = scalar(non_negative, "work", work)
    with bar("KL against M", None, "set", progress) as sets:
        search = _Search(about, level, sets.update)
        try:
            search.run(largest, rows, budget)
        except KeyboardInterrupt:
            if not search.levels:
                raise
            search.interrupted = True
    return Enough(
        level,
        search.evidence,
        tuple(search.levels),
        (search.counts["chosen"], search.counts["added"]),
        (search.tried["chosen"], search.tried["added"]),
        search.needed,
        search.floor,
        search.interrupted,
        search.excess,
        search.left_out,
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


def _sizes(last: int) -> Sequence[int]:
    return [int(M) for M in np.unique(np.rint(np.geomspace(1, last, SIZES)))] if last else []


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
