"""Certificates of recorded predictions of any model for rows that it has not seen: its risk, or its intervals."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.bound import outward
from gpbounds.errors import shown
from gpbounds.losses import LOSSES, Loss
from gpbounds.losses.base import ROUNDING
from gpbounds.pacbayes.certificate.checking import DRAWS, data_line, seal_line, split_line, the_loss
from gpbounds.pacbayes.certificate.declarations import Charge, Scaling, as_charges
from gpbounds.pacbayes.certificate.rows import Fingerprint, Raw, raw
from gpbounds.pacbayes.certificate.sealed import COMMON, Label, SealedRecord, encoded, read_record, software
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.pacbayes.certificate.statement import Line, Report, conclude, share_of_delta
from gpbounds.pacbayes.holdout import coverage_rank, holdout_bound
from gpbounds.records import NATURAL, NUMBER, TEXT, VECTOR, WHOLE, Slot, Slots
from gpbounds.validation import finite, positive, positive_unit, scalar

WIDER, LEAST = 1.0 + 2.0**-50, 1e-300
"""The factor of intervals is this much above a computed score."""
UNKNOWN = -1.0
"""In place of a predicted label that is not among the classes: it is always wrong."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfPredictions(SealedRecord):
    """What the statements about recorded predictions share.

    Attributes
    ----------
    predictor : str
        One phrase about the model.
    predictions : array (n,)
        For the certified rows, in their order: in the units of y, or the places of labels among ``classes``.
    outputs : Scaling
        How targets and predictions are scaled for the loss.
    delta, charges, data, split, classes, versions, seal : see `SealedRecord`
    """

    predictor: str
    predictions: Any
    outputs: Scaling
    delta: float
    charges: tuple[Charge, ...]
    data: Fingerprint
    versions: dict[str, str]
    seal: str = ""
    split: Split | None = None
    classes: tuple[Label, ...] | None = None
    stored: ClassVar[Slots] = {
        "predictor": TEXT,
        "outputs": Slot(Scaling.from_dict),
        **COMMON,
        "predictions": VECTOR,
    }

    def __post_init__(self) -> None:
        failure = positive_unit("delta", self.delta)
        if failure.ndim or failure >= 1.0:
            raise ValueError(f"delta: expected one number in (0, 1), got {shown(self.delta)}")
        object.__setattr__(self, "delta", float(failure))
        if not isinstance(self.predictor, str) or not self.predictor.strip():
            raise ValueError(f"predictor: expected one phrase about the model, got {shown(self.predictor)}")
        self._column("predictions")

    def _column(self, name: str) -> None:
        """Check and freeze an attribute with one number for each certified row."""
        values = np.array(finite(name, getattr(self, name)))
        if values.shape != (self.rows,):
            raise ValueError(
                f"{name}: expected {self.rows}, one for each certified row in their order, got shape {values.shape}"
            )
        values.setflags(write=False)
        object.__setattr__(self, name, values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of this kind; `Certificate.load` reads every kind, and states the errors."""
        made: Self = read_record(path, (cls,))
        return made

    @property
    def count(self) -> int:
        """The number of statements that share δ, those for other scalings from a list among them."""
        return super().count * self.outputs.count

    @property
    def share(self) -> float:
        """δ/count, the part of δ of this statement, rounded down."""
        return share_of_delta(self.delta, self.count)

    @property
    def rigorous(self) -> bool:
        """False if the scaling was computed from the same data."""
        return self.outputs.rigorous

    def __str__(self) -> str:
        return self.statement

    @property
    @abstractmethod
    def statement(self) -> str:
        """The claim in one sentence."""

    @abstractmethod
    def _fixed(self) -> str:
        """What was fixed before the data were seen."""

    @abstractmethod
    def _recomputed(self, targets: Float) -> Iterator[Line]:
        """The lines about the numbers, from the targets (n,) of the certified rows."""

    def _over_rows(self) -> str:
        which = "" if self.split is None else " that the model has not seen"
        return (
            f"With probability at least 1 − {outward(self.delta, 'upper')} over the draw of the {self.rows} rows{which}"
        )

    def _declared(self) -> Iterator[Line]:
        yield Line(
            "model",
            "declared",
            f"The model, {self.predictor}, was made without the certified rows, and the recorded predictions are its "
            "own.",
        )
        yield from split_line(self)
        if self.outputs.origin != "as given":
            yield Line("scaling", "declared", f"Targets and predictions were {self.outputs.describe()}.")
        lists = "".join(f"; one of {c.count} {c.choice}, all listed in advance" for c in self.charges)
        yield Line("in advance", "declared", f"Fixed before the data were seen: {self._fixed()}, δ{lists}.")
        yield DRAWS

    def _same(self, name: str, given: Any) -> Line:
        """Whether what the reader has predicted is what is recorded."""
        own, stated = np.asarray(given), getattr(self, name)
        if name == "predictions" and self.classes is not None:
            own = _places(own, self.classes)
        what, line = ("predictions", "predicted") if name == "predictions" else ("numbers of the spread", "spread")
        if own.shape != stated.shape:
            return Line(line, "failed", f"Expected {len(stated)} {what}, one for each certified row, got {own.shape}.")
        if wrong := int((own != stated).sum()):
            return Line(line, "failed", f"{wrong} of {len(own)} {what} differ from the recorded ones.")
        return Line(line, "confirmed", f"All {len(own)} {what} are the recorded ones.")

    def _report(self, X: Any, y: Any, **given: Any) -> Report:
        rows = raw(X, self.encode(y))
        data = data_line(self, rows)
        lines = [*self._declared(), seal_line(self), data]
        lines += [self._same(name, values) for name, values in given.items() if values is not None]
        if data.state != "confirmed":
            lines.append(Line("bound", "skipped", "not recomputed: the data differ"))
            return conclude(self.rigorous, self.statement, lines)
        certified = rows.certified(self.split)
        doubt = certified.doubts(Scaling(), self.outputs)[1]
        if doubt:
            lines.insert(0, Line("doubt", "declared", f"The outputs: {doubt} Ask the signer."))
        try:
            lines += self._recomputed(_targets(certified))
        except ValueError as error:  # a loss that is not defined for a target, or a scaling that does not fit
            lines.append(Line("bound", "failed", f"The statement cannot be evaluated: {error}"))
        return conclude(self.rigorous, self.statement, lines)


def _targets(rows: Raw) -> Float:
    """The raw targets of all rows (n,)."""
    return np.concatenate([part.Y[:, 0] for part in rows.partitions()])


def _places(labels: Any, classes: Sequence[Label]) -> Float:
    """The places of predicted labels, `UNKNOWN` for one that is not among the classes."""
    known = set(classes)
    values = np.asarray(labels).ravel().tolist()
    return np.array([encoded([each], classes)[0] if each in known else UNKNOWN for each in values])


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutCertificate(_OfPredictions):
    """An upper bound on the risk of any fixed model, from its predictions for n rows that it has not seen.

    With probability ≥ 1 − δ over the n rows the mean loss on a new row is at most B: for k losses of 1 and n − k of 0
    the 1 − δ quantile of Beta(k + 1, n − k), exactly (N-held-out); for losses in [0, 1] of mean R̂ the largest B with
    kl(R̂‖B) ≤ ln(1/δ)/n (N-held-out-kl).  One of E statements that share δ has δ/E.

    Hypotheses: iid rows, and a model, a loss and δ that do not depend on the certified rows.  The loss is that of the
    scaled target and the scaled prediction, both rounded to doubles; labels have the loss 1 where they differ.

    `issue` creates one, `save` stores it, `gpbounds.pacbayes.Certificate.load` reads it, `check` checks it.

    Attributes
    ----------
    loss : Loss or None
        None for labels.
    mistakes : int or None
        Number of losses of 1; None for a loss that takes other values than 0 and 1.
    risk : float
        The mean loss, rounded up.
    bound : float
    predictor, predictions, outputs : see `issue`
    delta, charges, data, split, classes, versions, seal : see `gpbounds.pacbayes.Certificate`

    >>> from gpbounds.losses import Band
    >>> y = np.arange(8.0)
    >>> made = HeldOutCertificate.issue(
    ...     y, y, y + 0.1, predictor="a rule of thumb", loss=Band(0.5), delta=0.05, split=None)
    >>> made.mistakes, round(made.bound, 4), made.check(y, y).confirmed  # 1 − 0.05^(1/8)
    (0, 0.3123, True)
    """

    word: ClassVar[str] = "held-out"
    method: ClassVar[str] = "held-out"
    loss: Loss | None = None
    mistakes: int | None = None
    risk: float = 1.0
    bound: float = 1.0
    stored: ClassVar[Slots] = {
        "loss": Slot(LOSSES.read, optional=True),
        "mistakes": WHOLE._replace(optional=True),
        "risk": NUMBER,
        "bound": NUMBER,
        **_OfPredictions.stored,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.loss is None) != (self.classes is not None):
            raise ValueError("loss, classes: expected one of the two: a loss of numbers, or the labels")
        for name in ("risk", "bound"):
            value = scalar(finite, name, getattr(self, name))
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {shown(value)}")
        if (self.mistakes is not None) != (self.loss is None or self.loss.zero_one):
            raise ValueError("mistakes: expected a number for losses that are 0 or 1, and none for others")
        if self.mistakes is not None and not 0 <= self.mistakes <= self.rows:
            raise ValueError(f"mistakes: expected a number from 0 to {self.rows}, got {shown(self.mistakes)}")

    @classmethod
    def issue(
        cls,
        X: Any,
        y: Any,
        predictions: ArrayLike,
        *,
        predictor: str,
        loss: Loss | None,
        delta: float,
        outputs: Scaling | None = None,
        split: Split | None = None,
        charges: Iterable[Charge] = (),
        classes: Sequence[Label] | None = None,
    ) -> HeldOutCertificate:
        """Count the losses and record the bound.

        Parameters
        ----------
        X, y : arrays (N, D) and (N,), or as `gpbounds.rows.source` takes them
            All raw rows, those of the split, too.
        predictions : array (n,)
            For the certified rows, in their order, in the units of the raw y; for labels the predicted labels.
        predictor : str
            One phrase about the model.
        loss : Loss, or None for labels
        delta : float in (0, 1)
        outputs : Scaling, optional
            Constants that the loss's ε is in units of; they may not come from the certified rows.
        split : Split, optional
            None: all rows are certified.
        charges : sequence of Charge
            Lists, made in advance, of statements that share δ.
        classes : sequence, optional
            The labels of y, and of the predictions, in any fixed order.

        Raises
        ------
        ValueError
            for a scaling from the same data, and wrong arguments.
        """
        outputs, labels = outputs or Scaling(), None if classes is None else tuple(classes)
        if not outputs.rigorous:
            raise ValueError(
                "outputs: expected a scaling fixed in advance or from the prior's rows, got 'same data': the loss then "
                "depends on the certified rows"
            )
        rows = raw(X, y if labels is None else encoded(y, labels))
        draft = cls(
            predictor=predictor,
            predictions=predictions if labels is None else _places(predictions, labels),
            outputs=outputs,
            delta=delta,
            charges=as_charges(charges),
            data=rows.fingerprint,
            versions=software(),
            split=split,
            classes=labels,
            loss=loss,
            mistakes=0 if loss is None or loss.zero_one else None,
        )
        mistakes, risk = draft._losses(_targets(rows.certified(split)))
        return _with(draft, mistakes=mistakes, risk=risk, bound=draft._least(mistakes, risk))

    def _losses(self, targets: Float) -> tuple[int | None, float]:
        """The number of losses of 1, where there are no others than 0, and the mean loss, rounded up."""
        n = len(targets)
        if self.loss is None:
            losses = (targets != self.predictions) * 1.0
        else:
            losses = self.loss.value(self.outputs.apply(targets), self.outputs.apply(self.predictions))
        if self.mistakes is None:
            total = (Fraction(math.fsum(losses)) + Fraction(ROUNDING) * n) / n
            return None, min(_above(total), 1.0)
        mistakes = int(losses.sum())
        return mistakes, _above(Fraction(mistakes, n))

    def _least(self, mistakes: int | None, risk: float) -> float:
        """The bound, rounded up."""
        if mistakes is not None:
            return float(holdout_bound(mistakes, self.rows, delta=self.share, rigor="sharp"))
        total = min(_above(Fraction(risk) * self.rows), float(self.rows))
        return float(holdout_bound(total, self.rows, delta=self.share, losses="bounded", rigor="sharp"))

    @property
    def statement(self) -> str:
        """The claim in one sentence."""
        what = (
            "the share of new rows with a wrong label"
            if self.loss is None
            else f"the mean of {self.loss!r} on a new row"
        )
        return f"{self._over_rows()}, {what} is at most {self.bound!r} for the predictions of the model."

    def check(self, X: Any, y: Any = None, *, predictions: Any = None, rigorous: bool = False) -> Report:
        """Recompute everything from the raw rows and report line by line.

        The count of mistakes is exact and the bound is proved in Arb, with ``rigorous`` or without.

        Parameters
        ----------
        X, y : as in `issue`
        predictions : array (n,), optional
            The reader's own predictions of the model for the certified rows, which must be the recorded ones: without
            them it is a declaration that the recorded predictions are the model's.
        """
        return self._report(X, y, predictions=predictions)

    def _fixed(self) -> str:
        return "the loss" if self.loss is None else the_loss(self.loss)

    def _recomputed(self, targets: Float) -> Iterator[Line]:
        mistakes, risk = self._losses(targets)
        if mistakes is None:
            text = f"Mean of {self.loss!r}: stated {self.risk!r}, recomputed {risk!r}"
        else:
            text = f"Wrong rows: stated {self.mistakes} of {self.rows}, recomputed {mistakes}"
        right = (mistakes, risk) == (self.mistakes, self.risk)
        yield Line("risk", "confirmed" if right else "failed", text + ".")
        least = self._least(mistakes, risk)
        how = "The 1 − δ quantile of Beta(k + 1, n − k)" if mistakes is not None else "kl⁻¹(R̂, ln(1/δ)/n)"
        part = f" of δ/{self.count}" if self.count > 1 else ""
        yield _of_bound(f"{how}{part} by Arb is at most {least!r}; stated {self.bound!r}", least <= self.bound)


@dataclass(frozen=True, eq=False, kw_only=True)
class CoverageCertificate(_OfPredictions):
    """Prediction intervals m ± κs of any fixed model that hold at least a stated share of new targets.

    κ is the k-th smallest |y − m|/s among n rows that the model has not seen, and k is so large that with probability
    ≥ 1 − δ over these rows a new y lies in its interval with probability ≥ ``level``: P(Beta(k, n + 1 − k) ≥ level) ≥
    1 − δ, exactly (N-coverage).  It needs no assumption on the model or the law of y; s only shapes the intervals.

    Hypotheses: iid rows, and a model that does not depend on them.  Scores are quotients of doubles; κ is by a share of
    2⁻⁵⁰ above the k-th of them, so that every target with a smaller computed score lies in its exact interval.

    Attributes
    ----------
    level : float
    spread : array (n,)
        s > 0 for the certified rows, in the units of y.
    rank : int
        k.
    factor : float
        κ.
    predictor, predictions : see `HeldOutCertificate`
    delta, charges, data, split, classes, versions, seal : see `gpbounds.pacbayes.Certificate`

    >>> y = np.arange(60.0)
    >>> made = CoverageCertificate.issue(
    ...     y, y, y + 0.1, np.ones(60), predictor="a rule of thumb", level=0.9, delta=0.1)
    >>> made.rank, round(made.factor, 3), made.check(y, y).confirmed
    (58, 0.1, True)
    """

    word: ClassVar[str] = "coverage"
    method: ClassVar[str] = "coverage"
    level: float
    rank: int
    factor: float
    spread: Any
    stored: ClassVar[Slots] = {
        "level": NUMBER,
        "rank": NATURAL,
        "factor": NUMBER,
        **_OfPredictions.stored,
        "spread": VECTOR,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column("spread")
        positive("spread", self.spread)
        level = scalar(finite, "level", self.level)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level: expected a share of new targets between 0 and 1, got {shown(self.level)}")
        if self.rank > self.rows:
            raise ValueError(f"rank: expected a number up to {self.rows}, got {shown(self.rank)}")
        if not scalar(finite, "factor", self.factor) >= 0.0:
            raise ValueError(f"factor: expected a number >= 0, got {shown(self.factor)}")
        if self.classes is not None:
            raise ValueError("classes: expected none, as intervals are about numbers")

    @classmethod
    def issue(
        cls,
        X: Any,
        y: Any,
        predictions: ArrayLike,
        spread: ArrayLike,
        *,
        predictor: str,
        level: float,
        delta: float,
        split: Split | None = None,
        charges: Iterable[Charge] = (),
    ) -> CoverageCertificate:
        """Find κ and record it; parameters as in `HeldOutCertificate.issue`, and ``spread`` = s (n,).

        Raises
        ------
        ValueError
            for wrong arguments, and for rows that are too few for any κ: the message says how many suffice.
        """
        rows = raw(X, y)
        n = rows.shape[0] if split is None else split.certified(rows.shape[0])
        paid = as_charges(charges)
        count = math.prod(charge.count for charge in paid)
        part = share_of_delta(scalar(positive_unit, "delta", delta), count)
        draft = cls(
            predictor=predictor,
            predictions=predictions,
            spread=spread,
            outputs=Scaling(),
            delta=delta,
            charges=paid,
            data=rows.fingerprint,
            versions=software(),
            split=split,
            level=level,
            rank=coverage_rank(n, level=level, delta=part),
            factor=0.0,
        )
        return _with(draft, factor=draft._factor(_targets(rows.certified(split))))

    def _factor(self, targets: Float) -> float:
        """The k-th smallest score, moved up by more than the rounding of a difference, a quotient and a product."""
        scores = np.abs(targets - self.predictions) / self.spread
        return float(np.partition(scores, self.rank - 1)[self.rank - 1]) * WIDER + LEAST

    @property
    def bound(self) -> float:
        """1 − level: the largest share of new targets outside of their intervals, rounded up."""
        return _above(1 - Fraction(self.level))

    @property
    def statement(self) -> str:
        """The claim in one sentence."""
        return (
            f"{self._over_rows()}, the interval m ± {self.factor!r} s of the model holds a new target with probability "
            f"at least {self.level!r}."
        )

    def check(
        self, X: Any, y: Any = None, *, predictions: Any = None, spread: Any = None, rigorous: bool = False
    ) -> Report:
        """As `HeldOutCertificate.check`, with the reader's own ``predictions`` and ``spread``, if given."""
        return self._report(X, y, predictions=predictions, spread=spread)

    def _fixed(self) -> str:
        return "the share of targets to hold"

    def _recomputed(self, targets: Float) -> Iterator[Line]:
        rank = coverage_rank(self.rows, level=self.level, delta=self.share)
        text = f"P(Beta(k, n + 1 − k) ≥ {self.level:g}) ≥ 1 − δ from k = {rank} on; stated {self.rank}"
        yield Line("rank", "confirmed" if self.rank >= rank else "failed", text + ".")
        least = self._factor(targets)
        text = f"The {self.rank}-th smallest |y − m|/s, widened by rounding, is {least!r}; stated {self.factor!r}"
        yield _of_bound(text, self.factor == least)


def _with(draft: Any, **found: Any) -> Any:
    """The sealed record with the numbers that were found."""
    return replace(draft, **found).sealed()


def _of_bound(text: str, holds: bool) -> Line:
    return Line("bound", "confirmed", text + ".") if holds else Line("bound", "failed", f"{text}: it does not hold.")


def _above(number: Fraction) -> float:
    """The least double that is not below a rational number."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)
