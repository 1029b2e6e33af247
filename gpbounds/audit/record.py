"""The record of an audit: what every kind has, and a model of Gaussian noise with its findings as sentences."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from gpbounds.audit.compared import Compared
from gpbounds.audit.coverage import Calibration
from gpbounds.audit.in_words import divergence, retrained_sentence, sentence_of
from gpbounds.audit.levels import AgainstM, Enough
from gpbounds.audit.limits import Hyperparameter
from gpbounds.audit.model import ModelOfRows, Subject
from gpbounds.audit.predictions import Consequences
from gpbounds.audit.risk import Risk
from gpbounds.audit.unexplained import Places
from gpbounds.bound import Bound, claims_of, outward
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.sandwich import Sandwich
from gpbounds.texts import in_nats

Grade = Literal["good", "warn", "bad"]

NAMED = 3
"""Largest number of hyperparameters that a finding names; the table has all."""

USELESS = 10.0
"""Standard deviations of a mean, and ratio of standard deviations, beyond which a guarantee is of no use."""


@dataclass(frozen=True)
class Finding:
    """One sentence of the summary.

    Attributes
    ----------
    about : str
        Its subject in a few words.
    grade : "good", "warn" or "bad"
    text : str
    claims : tuple of str
        Ids of the ledger.
    """

    about: str
    grade: Grade
    text: str
    claims: tuple[str, ...] = ()


Model = TypeVar("Model", bound=ModelOfRows)
Curve = TypeVar("Curve", bound=AgainstM[Any])


@dataclass(frozen=True, eq=False)
class AuditRecord(ABC, Generic[Model, Curve]):
    """The results of an audit; a section is None if it was not asked for or could not be computed.

    Attributes
    ----------
    name : str
        The data.
    model : str
        The model, in one line.
    subject : Subject or LatentSubject
        The model and its training rows.
    enough : Enough, LatentEnough or None
        Bounds on the divergence against M.
    target : str
        Name of the target.
    again : str
        What happens to the numbers of inducing points if a model is trained again.
    notes : tuple of str
        How the audit was made, and why a section is missing.
    """

    name: str
    model: str
    subject: Model
    enough: Curve | None = None
    target: str = field(default="y", kw_only=True)
    again: str = field(default="", kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def _found(self) -> Iterable[Finding | None]:
        """One sentence or a few for each section, None for one that is missing."""

    @abstractmethod
    def _sections(self) -> dict[str, Any]:
        """The records of the sections, ready for JSON."""

    @abstractmethod
    def _law(self) -> dict[str, Any]:
        """What the record says of the law of y given f."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The summary, one sentence or a few for each section."""
        return tuple(each for each in self._found() if each is not None)

    @property
    def bounds(self) -> list[Bound]:
        """The bounds on which the findings rest."""
        return [] if self.enough is None else [*self.enough.evidence, *(self.enough.divergence or ())]

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        about: Any = self.subject
        return {
            "data": {
                "name": self.name,
                "N": about.N,
                "D": about.D,
                "inputs": list(about.columns),
                "target": self.target,
            },
            "model": {"about": self.model, "M": about.M, "kernel": kernel_to_plain(about.kernel), **self._law()},
            "findings": [vars(each) | {"claims": list(each.claims)} for each in self.findings],
            **self._sections(),
            "again": self.again,
            "notes": list(self.notes),
        }


NOT_PROVED = {"not enough": "is not enough for", "open": "may or may not be enough for"}
"""What is said of M where it is not proved enough."""


@dataclass(frozen=True, eq=False)
class Audit(AuditRecord[Subject, Enough]):
    """The results of an audit of a model with Gaussian noise.

    Attributes
    ----------
    name, model, subject, enough, target, again, notes
        As of `AuditRecord`.
    consequences, places, calibration, risk, compared : records or None
    hyperparameters : tuple of Hyperparameter
    numbers : array of int (n,)
        Numbers of the rows, from 1, at which ``places`` and ``consequences.measured`` are computed.
    """

    consequences: Consequences | None = None
    places: Places | None = None
    hyperparameters: tuple[Hyperparameter, ...] = ()
    calibration: Calibration | None = None
    risk: Risk | None = None
    numbers: Any = field(default_factory=lambda: np.arange(0))
    compared: Compared | None = None

    def _found(self) -> Iterable[Finding | None]:
        """One sentence or a few for each section, None for one that is missing."""
        return (
            _of_compared(self.compared),
            _of_enough(self.enough, self.subject.M, self.subject.N, self.again, self.compared),
            _of_consequences(self.consequences),
            _of_places(self.places, self.numbers),
            _of_hyperparameters(self.hyperparameters),
            _of_calibration(self.calibration),
            _of_risk(self.risk),
        )

    @property
    def bounds(self) -> list[Bound]:
        """The bounds on which the findings rest."""
        bounds = super().bounds
        if self.consequences is not None and self.consequences.model is not None:
            bounds.append(self.consequences.model.mean)
        if self.risk is not None:
            bounds.append(self.risk.bound)
        return bounds

    def _law(self) -> dict[str, Any]:
        """The noise variance."""
        return {"noise": self.subject.noise}

    def _sections(self) -> dict[str, Any]:
        """The records of the sections, ready for JSON."""
        where = self.places and self.places.to_dict()
        if where:
            for each in where["worst"]:
                each["row"] = int(self.numbers[each.pop("point")])
        beside = self.compared and self.compared.to_dict()
        if beside and self.compared is not None:
            held = np.asarray(self.numbers)[-self.compared.held :]
            beside["sentence"] = sentence_of(self.compared)
            beside["numbers"] = [int(held[i]) for i in beside["numbers"]]
        return {
            "predictions": beside,
            "enough": self.enough and self.enough.to_dict(),
            "consequences": self.consequences and self.consequences.to_dict(),
            "calibration": self.calibration and self.calibration.to_dict(),
            "risk": self.risk and self.risk.to_dict(),
            "places": where,
            "hyperparameters": [vars(each) for each in self.hyperparameters],
        }


def _of_compared(compared: Compared | None) -> Finding | None:
    """Whether the exact GP would predict better."""
    if compared is None:
        return None
    grades: Mapping[str, Grade] = {"enough": "good", "not enough": "bad", "open": "warn"}
    text = f"{sentence_of(compared)} Differences below {compared.loss:g} nats a row count as none."
    return Finding(
        "Predictions", grades[compared.verdict], f"{text} {retrained_sentence(compared)}".strip(), ("N-solve",)
    )


def _of_enough(enough: Enough | None, M: int | None, N: int, again: str, compared: Compared | None) -> Finding | None:
    """Whether M is enough for the divergence; that it is not is bad only where predictions lose by it."""
    if enough is None:
        return None
    again = f" {again}" if again else ""
    target = in_nats(enough.target)
    would = _would_do(enough)
    if enough.divergence is None:
        text = f"The model has no inducing points. For a divergence of {target}, {would}{again}"
        return Finding("Inducing points", "good", text, ("N-low", "R-gap"))
    lower, upper = enough.divergence
    claims = claims_of(lower, upper)
    least, most = divergence((float(lower), float(upper)), 3)
    between = f"between {least} and {most} nats"
    if math.isfinite(float(upper)):
        between += f" ({divergence((0.0, float(upper) / N), 2)[1]} for each of {N} rows)"
    loses = compared is not None and compared.verdict == "not enough"
    worst: Grade = "bad" if loses else "warn"
    whole = "" if loses else f" {_of_the_whole(compared)}"
    if enough.excess > 0.0:
        about = f"The model's posterior has a divergence KL[q‖p] {between} from the exact posterior"
        about += f", {enough.excess:.3g} of them because it is not the best one with these points"
    else:
        about = f"With M = {M} the best sparse posterior has a divergence KL[q*‖p] {between} from the exact posterior"
    if enough.verdict == "enough":
        fewer = ""
        if enough.suffices is not None and M is not None and enough.suffices < M and enough.excess == 0.0:
            fewer = f" With this kernel and noise {enough.suffices} chosen rows would do, too.{again}"
        return Finding("Inducing points", "good", f"M = {M} is enough for {target}. {about}.{fewer}", claims)
    if enough.best_reaches:
        text = f"{about}; the best posterior with the same points (method vfe) reaches {target}."
        return Finding(
            "Inducing points", worst, f"M = {M} is enough for {target}, but not as it is used. {text}{whole}", claims
        )
    words = NOT_PROVED[enough.verdict]
    grade: Grade = worst if enough.verdict == "not enough" else "warn"
    return Finding("Inducing points", grade, f"M = {M} {words} {target}. {about}; {would}{again}{whole}", claims)


def _of_the_whole(compared: Compared | None) -> str:
    """What a divergence that is too large does not say."""
    text = "The divergence is about the whole posterior and asks for more than predictions need"
    if compared is None:
        return f"{text}; held-out rows would tell whether these lose by it."
    if compared.verdict == "enough":
        return f"{text}, which lose at most {compared.loss:g} nats a row at the held-out rows (see Predictions)."
    return f"{text}."


def _would_do(enough: Enough) -> str:
    least = f"; fewer than {enough.needed} cannot do, however they are chosen (N-low)." if enough.needed > 1 else "."
    kept = "with this kernel and noise"
    if enough.suffices is None:
        return f"{kept} none of the numbers tried, up to {max(enough.tried)}, is proved enough{least}"
    added = enough.counts[1]
    if enough.model is not None and added is not None and added == enough.suffices:
        return f"{kept} {added} would do (these and {added - enough.model.M} more rows){least}"
    return f"{kept} {enough.suffices} chosen rows would do{least}"


def _of_consequences(consequences: Consequences | None) -> Finding | None:
    """What the divergence means for predictions."""
    if consequences is None or consequences.model is None:
        return None
    bounds = consequences.model
    text = f"At every input, {sentence(bounds)}."
    measured = consequences.measured
    if measured is not None:
        text += (
            f" Measured at these rows: means differ by at most {measured.mean.max():.3g} standard deviations, the "
            f"variance ratio lies between {measured.variance.min():.3g} and {measured.variance.max():.3g}."
        )
    return Finding("Guarantee", "good" if float(bounds.mean) <= 1.0 else "warn", text, ("L-30", "L-31"))


def sentence(bounds: Sandwich) -> str:
    """Prop. 4 for the prediction at one input, the model first."""
    low, high = math.sqrt(float(bounds.low)), math.sqrt(float(bounds.high))
    mean = float(bounds.mean)
    if mean > USELESS and (low < 1.0 / USELESS or high > USELESS):
        return (
            "the divergence gives no useful guarantee: the predicted mean could be more than "
            f"{USELESS:g} standard deviations from the exact posterior mean, and its standard deviation more than a "
            f"factor {USELESS:g} from the exact one"
        )
    first = (
        f"within {outward(mean, 'upper', 3)} standard deviations of the exact posterior mean"
        if mean <= USELESS
        else "without a useful guarantee"
    )
    least, most = outward(low, "lower", 3), outward(high, "upper", 3)
    if high > USELESS:
        useful = f"at least {least} times the exact one (no useful upper end)"
        second = useful if low >= 1.0 / USELESS else "without a useful guarantee"
    elif low < 1.0 / USELESS:
        second = f"at most {most} times the exact one (no useful lower end)"
    else:
        second = f"between {least} and {most} times the exact one"
    return f"the predicted mean is {first}, and its standard deviation is {second}"


def _of_places(places: Places | None, numbers: Any) -> Finding | None:
    """Where the approximation is worst."""
    if places is None or not places.unexplained.size:
        return None
    worst, part = int(places.order[0]), places.parts[0]
    text = (
        f"The inducing points leave most unexplained at row {int(numbers[worst])}: a variance of "
        f"{places.unexplained[worst]:.3g} noise variances (the mean is {part.overall:.3g})."
    )
    if part.share > 0.05:
        text += f" The most telling input is {part.column}: {part.where} the mean is {part.mean:.3g}."
    return Finding("Where it is worst", "good" if places.unexplained[worst] <= 1.0 else "warn", text)


def _of_hyperparameters(rows: tuple[Hyperparameter, ...]) -> Finding | None:
    """Hyperparameters at limits."""
    if not rows:
        return None
    ends: dict[str, list[str]] = {}
    same: dict[str, list[str]] = {}
    for each in rows:
        if each.limit:
            ends.setdefault(f"{each.limit} limit", []).append(each.name)
        if each.remark:
            same.setdefault(each.remark, []).append(each.name)
    remarks = [f"{_few(names)}: {remark}" for remark, names in same.items()]
    if ends:
        at = "; ".join(f"{_few(names)} ({limit})" for limit, names in ends.items())
        return Finding("Hyperparameters", "bad", f"At the limit of the search: {at}.")
    if remarks:
        return Finding("Hyperparameters", "warn", f"{'; '.join(remarks)}.")
    return Finding("Hyperparameters", "good", "None is at a limit or beyond what the rows can tell.")


def _few(names: list[str]) -> str:
    """The names, or the first ones and how many there are."""
    return ", ".join(names) if len(names) <= NAMED else f"{', '.join(names[:NAMED])} and {len(names) - NAMED} others"


def _of_calibration(calibration: Calibration | None) -> Finding | None:
    """Whether intervals cover what they claim."""
    if calibration is None:
        return None
    level = next(each for each in calibration.coverage if each.level == 0.95)
    k = calibration.tested.size
    of = f"{k} of {calibration.n}" if k < calibration.n else str(k)
    text = f"Intervals of 95 % cover {100 * level.share:.3g} % of {of} held-out targets; "
    if calibration.test is None or level.low is None or level.high is None:
        return Finding("Calibration", "warn", f"{text}{calibration.untested}.")
    text += f"{100 * level.low:.3g} to {100 * level.high:.3g} % are expected of right predictions. "
    wrong = [f"{100 * each.level:g} % ({each.verdict})" for each in calibration.coverage if not each.plausible]
    wrong += ["the histogram of P(Y ≤ y)"] if calibration.strange_bins else []
    p = calibration.test.p_value
    if not wrong:
        text += f"All shares are in their ranges (p = {p:.2g}, the model's joint law of these targets)."
        return Finding("Calibration", "good", text, ("N-rank",))
    text += f"Outside their ranges: {', '.join(wrong)} (p = {p:.2g}; right predictions end so in at most 5 %)."
    return Finding("Calibration", "warn" if len(wrong) < 3 else "bad", text, ("N-rank",))


def _of_risk(risk: Risk | None) -> Finding | None:
    """The risk certificate."""
    if risk is None:
        return None
    text = (
        f"With probability {100 * float(risk.bound.confidence):g} %, a draw from the prediction misses a new target "
        f"by more than {risk.epsilon:g} with probability at most {outward(float(risk.bound), 'upper', 3)} "
        f"({risk.risk:.3g} on {risk.rows} held-out rows)."
    )
    grade: Grade = "good" if float(risk.bound) <= 0.5 else "warn" if float(risk.bound) <= 0.9 else "bad"
    return Finding("Risk", grade, text, claims_of(risk.bound))
