"""Why a claimed number is off: what sparsity, jitter, single precision and the solver's rest each contribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.claimed import ClaimedEvidence, ClaimedPredictions, above, below
from gpbounds.audit.exact_rows import ExactRows, jitter_effect
from gpbounds.audit.model import Subject
from gpbounds.audit.own import excess
from gpbounds.audit.single_precision import exact_in_single, sparse_in_single
from gpbounds.divergences import collapsed_posterior
from gpbounds.errors import NotPositiveDefinite
from gpbounds.iterative import ExactPredictions
from gpbounds.overflow import within_doubles
from gpbounds.renyi.attained import attained
from gpbounds.renyi.members import WORK
from gpbounds.validation import flag, instance, non_negative, scalar
from gpbounds.whitening import inducing

Ends = tuple[float, float]
UNKNOWN: Ends = (-math.inf, math.inf)
Effect = Literal["none", "raises", "lowers", "not decided"]

MEANINGS = {
    "sparsity": "the model has inducing points in place of all rows",
    "jitter": "what the library adds to a diagonal",
    "posterior": "q(u) is not the best one with these points",
    "dtype": "single precision, recomputed",
    "solver": "the rest: conjugate gradients, Lanczos, probes, roundings",
}
"""The causes in the order in which they are taken, in words."""


@dataclass(frozen=True)
class Cause:
    """What one cause adds to the claimed number.

    Attributes
    ----------
    name : str
        A key of `MEANINGS`.
    ends : (float, float)
        Ends of its contribution; infinite where it is not known.
    least : float
        Contributions below this size count as none.
    proved : bool
        Whether the ends are proved, rounding included; otherwise they are numbers in doubles.
    why : str
        Why it is not known, or what else it contains.
    """

    name: str
    ends: Ends
    least: float
    proved: bool = True
    why: str = ""

    @property
    def effect(self) -> Effect:
        """Whether it raises the number, lowers it, does neither, or its ends do not tell."""
        low, high = self.ends
        if -self.least <= low and high <= self.least:
            return "none"
        return "raises" if low > 0.0 else "lowers" if high < 0.0 else "not decided"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {
            "cause": self.name,
            "ends": list(self.ends),
            "effect": self.effect,
            "proved": self.proved,
            "why": self.why,
        }


@dataclass(frozen=True, eq=False)
class Causes:
    """The parts of the errors of a claim; the parts of each number add up to its error.

    Attributes
    ----------
    jitter : float
        What was taken for the library's jitter.
    single : bool
        Whether the claim was computed in single precision.
    evidence : tuple of Cause
        Of the claimed log p(y), in nats.
    mean, variance : tuple of Cause
        Of the worst mean and of the worst variance, in the units of the target, and their squares.
    """

    jitter: float
    single: bool
    evidence: tuple[Cause, ...] = ()
    mean: tuple[Cause, ...] = ()
    variance: tuple[Cause, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        parts = {name: getattr(self, name) for name in ("evidence", "mean", "variance")}
        return {
            "jitter": self.jitter,
            "single precision": self.single,
            **{name: [each.to_dict() for each in causes] for name, causes in parts.items()},
        }


@dataclass(frozen=True)
class _Stage:
    """Ends of the three numbers after one more cause, or the reason why they are not known; or no change.

    ``proved`` is about log p(y), ``predicted`` about the two predictions.
    """

    name: str
    evidence: Ends = UNKNOWN
    mean: Ends = UNKNOWN
    variance: Ends = UNKNOWN
    proved: bool = True
    why: str = ""
    same: bool = False
    predicted: bool = False


@within_doubles
def causes(
    about: Subject,
    evidence: ClaimedEvidence | None = None,
    predictions: ClaimedPredictions | None = None,
    *,
    claimed_jitter: float = 0.0,
    single: bool = False,
    work: float = WORK,
    rows: ExactRows | None = None,
) -> Causes:
    """The error of claimed numbers in parts that add up to it: sparsity, jitter, dtype, and the solver's rest.

    The numbers of the exact GP, of the model with its inducing points, of this one with the library's jitter, and of
    the same in single precision follow each other; each cause is the difference of two neighbours, and the solver has
    what is left of the claim.  Exact GP and jitter: N-computed, N-jitter, N-solve; the ELBO: N-forms.  Predictions
    with inducing points are in doubles without a proved error, and single precision is one computation of our own.

    Parameters
    ----------
    about : Subject
    evidence : ClaimedEvidence, optional
    predictions : ClaimedPredictions, optional
        Its worst mean and its worst variance are split.
    claimed_jitter : float
        What the library adds to the diagonal of K, or of Kuu of a model with inducing points.
    single : bool
        Whether the library computed in single precision.
    work : float
    rows : ExactRows, optional

    >>> from gpbounds.audit import claimed_evidence, subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> about = subject(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0], noise=0.1)
    >>> found = causes(about, claimed_evidence(about, -4.5))
    >>> [(each.name, each.effect, round(each.ends[0], 3)) for each in found.evidence]
    [('sparsity', 'lowers', -1.31), ('jitter', 'none', 0.0), ('solver', 'none', 0.01)]
    """
    known, budget = ExactRows.known(about, rows), scalar(non_negative, "work", work)
    for name, claim, kind in (
        ("evidence", evidence, ClaimedEvidence),
        ("predictions", predictions, ClaimedPredictions),
    ):
        instance(name, claim, (kind, type(None)), f"what gpbounds.audit.claimed_{name} returns, or None")
    worst = (0, 0) if predictions is None else predictions.worst
    points = about.X[[0, 0]] if predictions is None else predictions.X[list(worst)]
    jitter = scalar(non_negative, "claimed_jitter", claimed_jitter)
    split = _Split(about, points, predictions is not None, jitter, flag("single", single), budget, known)
    chain = split.stages(evidence)
    of_evidence = of_mean = of_variance = tuple[Cause, ...]()
    if evidence is not None:
        first = float(evidence.evidence.lower), float(evidence.evidence.upper)
        sure = all(end.certified for end in evidence.evidence)
        links = [(each, each.evidence, each.proved) for each in chain]
        of_evidence = _differences(first, sure, links, (evidence.value, evidence.value), evidence.nats)
    if predictions is not None:
        deviation, row, sure = predictions.deviation, worst[0], predictions.exact.certified
        shift = float(predictions.offset[row])
        first = _shifted((float(end[row]) for end in predictions.exact.mean), shift)
        links = [(each, each.mean, each.predicted) for each in chain]
        least = deviation * float(predictions.stds[0][row])
        of_mean = _differences(first, sure, links, _shifted([float(predictions.mean[row])] * 2, shift), least)
        if predictions.variance is not None:
            row, noise = worst[1], float(about.noise) if predictions.noisy else 0.0
            first = _shifted((float(end[row]) for end in predictions.exact.variance), noise)
            links = [(each, each.variance, each.predicted) for each in chain]
            least = 2.0 * deviation * float(predictions.exact.variance[0][row])
            claimed = _shifted([float(predictions.variance[row])] * 2, noise)
            of_variance = _differences(first, sure, links, claimed, least)
    return Causes(jitter, single, of_evidence, of_mean, of_variance)


def _differences(
    exact: Ends, sure: bool, chain: Sequence[tuple[_Stage, Ends, bool]], claimed: Ends, least: float
) -> tuple[Cause, ...]:
    """The causes: differences of neighbours in the chain that are known, and the solver's rest.

    ``sure``, and the last entry of each link, say whether the ends are proved.
    """
    parts, before, missing = list[Cause](), exact, list[str]()
    for stage, ends, proved in chain:
        if stage.same:
            parts.append(Cause(stage.name, (0.0, 0.0), least))
            continue
        if not all(map(math.isfinite, (*ends, *before))):
            parts.append(Cause(stage.name, UNKNOWN, least, False, stage.why))
            missing.append(stage.name)
            continue
        parts.append(Cause(stage.name, _less(ends, before), least, sure and proved, stage.why))
        before, sure = ends, proved
    rest = f"with {' and '.join(missing)}" if missing else ""
    parts.append(Cause("solver", _less(claimed, before), least, sure, rest))
    return tuple(parts)


def _shifted(pair: Iterable[float], shift: float) -> Ends:
    """The pair less ``shift``, rounded outwards."""
    low, high = pair
    return (low, high) if shift == 0.0 else (below(low, shift), above(high, shift))


def _less(ends: Ends, before: Ends) -> Ends:
    return below(ends[0], before[1]), above(ends[1], before[0])


@dataclass(frozen=True, eq=False)
class _Split:
    """The chain of computations between the exact GP and the claim."""

    about: Subject
    points: Float
    predicts: bool
    jitter: float
    single: bool
    work: float
    rows: ExactRows

    def stages(self, evidence: ClaimedEvidence | None) -> list[_Stage]:
        """The stages after the exact one."""
        about = self.about
        if about.Z is None:
            chain = [self._jittered(evidence)]
        else:
            least = max(float(inducing(self.rows.kernel, self._centres).chol.jitter), 0.0)
            chain = [self._sparse("sparsity", min(least, self.jitter) if self.jitter else least)]
            chain.append(self._sparse("jitter", self.jitter) if self.jitter > least else _Stage("jitter", same=True))
            if about.posterior is not None:
                chain.append(self._own(chain[-1]))
        if self.single:
            chain.append(self._in_single())
        return chain

    @property
    def _centres(self) -> Float:
        """The inducing points, of rows of unit noise where each row has its own."""
        Z, unit = self.about.Z, self.rows.unit
        assert Z is not None
        return Z if unit is None else np.asarray(unit.points(Z))

    @property
    def _scale(self) -> float:
        return 0.0 if self.rows.unit is None else self.rows.unit.log_scale

    def _places(self, rows: ExactRows) -> Float:
        return self.points if rows.unit is None else np.asarray(rows.unit.points(self.points, "X_new"))

    def _jittered(self, evidence: ClaimedEvidence | None) -> _Stage:
        """The exact GP with the jitter on the diagonal of K."""
        if self.jitter == 0.0:
            return _Stage("jitter", same=True)
        rows, proved, predicted = ExactRows.of(self.about, self.jitter), False, False
        ends = mean = variance = UNKNOWN
        if evidence is not None:
            squares = float((self.about.y**2 / self.about.noise).sum()) * (1.0 + 1e-12)
            moved = jitter_effect(self.about.N, noise=self.about.noise, added=self.jitter, square=squares)
            low, high = (float(end) for end in evidence.evidence)
            ends = math.nextafter(low + moved[0], -math.inf), math.nextafter(high + moved[1], math.inf)
            proved = all(end.certified for end in evidence.evidence)
            if rows.affords(self.work):
                pair = rows.evidence(work=self.work, delta=0.05, rng=0)
                proved &= pair.lower.certified and pair.upper.certified
                ends = max(ends[0], float(pair.lower)), min(ends[1], float(pair.upper))
        if self.predicts:
            made = rows.predictions(self.points, tolerance=1e-4, work=self.work)
            mean, variance, predicted = _at(made)
        return _Stage("jitter", ends, mean, variance, proved, predicted=predicted)

    def _sparse(self, name: str, jitter: float) -> _Stage:
        """The best posterior with the model's inducing points and this jitter on Kuu."""
        rows, Z = self.rows, self._centres
        try:
            made = attained(rows.kernel, rows.X, rows.y, Z, 1.0, noise=rows.noise, jitter=jitter)
            law = collapsed_posterior(
                rows.kernel, rows.X, rows.y, Z, noise=rows.noise, power=0.0, jitter=jitter
            ).predict(self._places(rows))
        except NotPositiveDefinite as error:
            return _Stage(name, proved=False, why=str(error))
        ends = made.value - made.rounding + self._scale, made.highest + self._scale
        mean, variance = _single_numbers(law.mean, law.variance)
        return _Stage(name, ends, mean, variance, made.proved and self.rows.unit is None)

    def _own(self, before: _Stage) -> _Stage:
        """The model's own q(u)."""
        about, posterior = self.about, self.about.posterior
        assert posterior is not None
        if self.rows.unit is not None:
            return _Stage("posterior", proved=False, why="q(u) of rows with a noise variance each")
        lost = excess(posterior, about.X, about.y, noise=about.noise)
        law = posterior.predict(self.points)
        mean, variance = _single_numbers(law.mean, law.variance)
        return _Stage("posterior", (before.evidence[0] - lost, before.evidence[1] - lost), mean, variance, False)

    def _in_single(self) -> _Stage:
        """The same numbers in single precision."""
        about = self.about
        if about.posterior is not None:
            return _Stage("dtype", proved=False, why="recomputed for exact GPs and the best q(u) only")
        rows = ExactRows.of(about, self.jitter) if about.Z is None else self.rows
        if about.Z is None and not rows.affords(self.work):
            return _Stage("dtype", proved=False, why="work affords no factor of K + σ²I")
        places = self._places(rows)
        try:
            if about.Z is None:
                made = exact_in_single(rows.kernel, rows.X, rows.y, places, noise=rows.noise)
            else:
                options = {"noise": rows.noise, "added": self.jitter}
                made = sparse_in_single(rows.kernel, rows.X, rows.y, self._centres, places, **options)
        except NotPositiveDefinite as error:
            return _Stage("dtype", proved=False, why=str(error))
        value = made.evidence + (0.0 if rows.unit is None else rows.unit.log_scale)
        mean, variance = _single_numbers(made.mean, made.variance)
        return _Stage("dtype", (value, value), mean, variance, False)


def _at(made: ExactPredictions) -> tuple[Ends, Ends, bool]:
    """The ends at the worst mean and at the worst variance, of predictions at these two points."""
    low, high = (float(end[0]) for end in made.mean)
    least, most = (float(end[1]) for end in made.variance)
    return (low, high), (least, most), made.certified


def _single_numbers(mean: Any, variance: Any) -> tuple[Ends, Ends]:
    """The numbers of the first point and of the second, in doubles."""
    first, second = float(mean[0]), float(variance[1])
    return (first, first), (second, second)
