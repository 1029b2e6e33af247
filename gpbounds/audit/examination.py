"""The record of what a library claims of a model, beside what is proved, and its findings as sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gpbounds.audit.causes import MEANINGS, Cause, Causes
from gpbounds.audit.claimed import ClaimedEvidence, ClaimedPredictions, ends
from gpbounds.audit.model import Subject
from gpbounds.audit.record import Finding
from gpbounds.bound import outward
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.texts import in_nats

PARTS: Mapping[str, str] = {
    "evidence": "Claimed − exact log p(y), nats",
    "mean": "Claimed − exact mean at its worst point",
    "variance": "Claimed − exact variance at its worst point",
}
"""The numbers whose errors are split, in words."""


@dataclass(frozen=True, eq=False)
class Examination:
    """Claims about a model beside proved intervals; a section is None if it was not asked for or could not be computed.

    Attributes
    ----------
    name : str
        The data.
    model : str
        The model, in one line.
    subject : Subject
    evidence : ClaimedEvidence or None
    predictions : ClaimedPredictions or None
    causes : Causes or None
    numbers : array of int (n,)
        Numbers of the predicted rows, from 1.
    notes : tuple of str
        How it was made, and why a section is missing.
    """

    name: str
    model: str
    subject: Subject
    evidence: ClaimedEvidence | None = None
    predictions: ClaimedPredictions | None = None
    causes: Causes | None = None
    numbers: Any = field(default_factory=lambda: np.arange(0))
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The summary, one sentence for each section."""
        parts = (self._of_evidence(), self._of_predictions(), self._of_causes())
        return tuple(part for part in parts if part is not None)

    def _of_evidence(self) -> Finding | None:
        claim = self.evidence
        if claim is None:
            return None
        pair = tuple(map(float, claim.evidence))
        claims = tuple(dict.fromkeys(", ".join(end.claim for end in claim.evidence).split(", ")))
        sure = min(float(end.confidence) for end in claim.evidence)
        chance = "" if sure == 1.0 else f" with probability {100.0 * sure:g} %"
        text = f"The claimed log p(y) is {claim.value:.10g}. It is proved to lie {in_between(pair)}{chance}"
        return Finding("Log evidence", _grade(claim.verdict), f"{text}: {evidence_sentence(claim)}", claims)

    def _of_predictions(self) -> Finding | None:
        claims = self.predictions
        if claims is None:
            return None
        outside, unknown = int(claims.outside.sum()), int(claims.open.sum())
        grade: Literal["good", "warn", "bad"] = "bad" if outside else "warn" if unknown else "good"
        return Finding("Predictions", grade, " ".join(prediction_sentences(claims, self.numbers)), ("N-solve",))

    def _of_causes(self) -> Finding | None:
        if self.causes is None:
            return None
        sentences = [cause_sentence(part, getattr(self.causes, part)) for part in PARTS if getattr(self.causes, part)]
        if not sentences:
            return None
        large = any(each.effect != "none" for part in PARTS for each in getattr(self.causes, part))
        proofs = ["N-jitter"] if self.causes.evidence else []
        proofs += ["N-forms"] if self.causes.evidence and self.subject.Z is not None else []
        proofs += ["N-solve"] if self.causes.mean else []
        return Finding("Causes", "warn" if large else "good", " ".join(sentences), tuple(proofs))

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        about, claims = self.subject, self.predictions
        predicted = claims and claims.to_dict()
        for name in ("worst mean", "worst variance"):
            if predicted and predicted[name]:
                predicted[name]["row"] = int(self.numbers[predicted[name].pop("point")])
        noise = about.noise if np.ndim(about.noise) == 0 else np.asarray(about.noise).tolist()
        return {
            "data": {"name": self.name, "N": about.N, "D": about.D, "inputs": list(about.columns)},
            "model": {"about": self.model, "M": about.M, "kernel": kernel_to_plain(about.kernel), "noise": noise},
            "findings": [vars(each) | {"claims": list(each.claims)} for each in self.findings],
            "evidence": self.evidence and self.evidence.to_dict(),
            "predictions": predicted,
            "causes": self.causes and self.causes.to_dict(),
            "notes": list(self.notes),
        }


def _grade(verdict: str) -> Literal["good", "warn", "bad"]:
    return "good" if verdict == "inside" else "warn" if verdict == "not decided" else "bad"


def in_between(pair: Any, digits: int = 10) -> str:
    """Two ends in words, to as many digits as they need to differ, up to 17.

    >>> in_between((1.0, 2.0)), in_between((0.1, 0.1))
    ('between 1 and 2', 'between 0.1 and 0.1')
    """
    low, high = pair
    return f"between {outward(low, 'lower', digits)} and {outward(high, 'upper', digits)}"


def evidence_sentence(claim: ClaimedEvidence) -> str:
    """The verdict on a claimed log p(y)."""
    low, high = claim.error
    within, N = in_nats(claim.nats), claim.N
    if claim.verdict == "inside":
        return f"the claim is right, within {within}."
    if claim.verdict == "not decided":
        width = f"{claim.evidence.width:.3g} nats wide" if math.isfinite(claim.evidence.width) else "without an end"
        place = "lies in this interval" if low <= 0.0 <= high else "is near it"
        return f"the claim {place}, which is {width}, so whether it is off by more than {within} is not decided."
    size = sorted((abs(low), abs(high)))
    row = sorted((abs(low) / N, abs(high) / N))
    way = "too high" if claim.verdict == "above" else "too low"
    text = f"the claim is {way} by {ends(size[0], size[1], 4)} nats, {ends(row[0], row[1], 3)} for each of {N} rows."
    if claim.convention:
        text += f" As {claim.convention} it is right, within {within}."
    return text


def prediction_sentences(claims: ClaimedPredictions, numbers: Any) -> list[str]:
    """The verdict on claimed predictions: how many are off, and the worst of them."""
    outside, unknown, share = int(claims.outside.sum()), int(claims.open.sum()), claims.deviation
    what = "mean or standard deviation" if claims.variance is not None else "mean"
    text = (
        f"{outside} of {claims.n} rows ({100.0 * outside / claims.n:.3g} %) have a claimed {what} that is off by more"
    )
    sentences = [f"{text} than {100.0 * share:g} % of the exact standard deviation."]
    if unknown:
        sentences.append(f"Of {unknown} others the proved ends are too far apart to tell.")
    worst, spread = claims.worst
    if float(claims.off[1][worst]) > share:
        sentences.append(
            f"The worst mean, of row {int(numbers[worst])}, is off by {_sizes(claims.off, worst)} exact standard "
            "deviations."
        )
    if claims.variance is not None and claims.ratio is not None and float(claims.apart[1][spread]) > math.log1p(share):
        row = int(numbers[spread])
        if claims.variance[spread] < 0.0:
            sentences.append(f"The variance claimed of row {row} is negative, {claims.variance[spread]:.3g}.")
        else:
            sentences.append(
                f"The worst standard deviation, of row {row}, is {_sizes(claims.ratio, spread)} times the exact one."
            )
    return sentences


def _sizes(pair: Any, point: int) -> str:
    low, high = (float(end[point]) for end in pair)
    return ends(low, high, 3) if math.isfinite(high) else f"at least {outward(low, 'lower', 3)}"


def cause_sentence(part: str, causes: tuple[Cause, ...]) -> str:
    """What the causes add to one number: the largest first, those that are none not at all."""
    what = {"evidence": "log p(y)", "mean": "the worst mean", "variance": "the worst variance"}[part]
    telling = [each for each in causes if each.effect != "none"]
    if not telling:
        return f"No cause moves {what} by as much as counts."
    order = sorted(telling, key=lambda each: -min(map(abs, each.ends)) if each.effect != "not decided" else math.inf)
    words = []
    for each in order:
        name = f"{_NAMES[each.name]}{f' ({each.why})' if each.why.startswith('with ') else ''}"
        if each.effect == "not decided":
            words.append(f"{name}: not decided")
        else:
            least, most = sorted(map(abs, each.ends))
            words.append(f"{name} {each.effect} it by {ends(least, most, 4)}")
    return f"Of the error of {what}: {'; '.join(words)}."


_NAMES = {
    "sparsity": "sparsity",
    "jitter": "the jitter",
    "posterior": "a q(u) that is not the best one",
    "dtype": "single precision",
    "solver": "the solver's rest",
}


def rows_of(causes: Causes) -> list[tuple[str, str, str, str, str]]:
    """The causes as rows of a table: the number, the cause, its contribution, its effect, how it is known."""
    lines = []
    for part, title in PARTS.items():
        for each in getattr(causes, part):
            finite = all(map(math.isfinite, each.ends))
            size = ends(each.ends[0], each.ends[1], 6) if finite else "not decided"
            known = "proved" if each.proved else "not proved" if finite else ""
            why = f" ({each.why})" if each.why else ""
            lines.append((title, f"{each.name}: {MEANINGS[each.name]}{why}", size, each.effect, known))
    return lines
