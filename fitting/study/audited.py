"""What audits of either kind share: the model that is examined, and the answer with its text, page and figure."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic

from fitting.study.answer import Answer
from fitting.study.audited_rows import AuditQuestion
from fitting.study.steps import Steps
from gpbounds.audit import Audit, Enough, LatentAudit, LatentEnough, LatentSubject, Subject, in_words, latent_record
from gpbounds.audit.levels import Points
from gpbounds.audit.limits import Limit
from gpbounds.audit.record import AuditRecord, Curve, Model
from gpbounds.records import plain
from gpbounds.rows.table_rows import TableRows
from gpbounds.texts import wrapped


@dataclass(frozen=True, eq=False)
class Audited(Generic[Model]):
    """A model with its training rows and rows that were held out.

    Attributes
    ----------
    name, about : str
        The data, and the model in one line.
    subject : Subject or LatentSubject
    held : TableRows
        Rows that were held out.
    limited : mapping of str to str
        Hyperparameters at a limit of their search.
    notes : tuple of str
    keeps : str
        The arguments of an estimator that keeps the model's kernel, and its noise.
    """

    name: str
    about: str
    subject: Model
    held: TableRows
    limited: Mapping[str, Limit]
    notes: tuple[str, ...]
    keeps: str

    def against_M(self, search: Callable[..., Any], asked: AuditQuestion, steps: Steps, **options: Any) -> Any:
        """The bounds against M, the first step; None if they could not be computed."""
        options |= {"target": asked.nats, "most": asked.most, "progress": asked.progress and sys.stderr.isatty()}
        enough = steps.take("bounds against M", partial(search, self.subject, **options))
        steps.stopped |= enough is not None and enough.interrupted
        return enough

    def answered(self, kind: Callable[..., Any], enough: Any, steps: Steps, notes: list[str], **parts: Any) -> Any:
        """The record of this ``kind``, with why sections are missing behind the ``notes``."""
        if enough is not None and enough.interrupted:
            notes = [*notes, "The search for M was interrupted; fewer points may do."]
        steps.finish(enough is not None or parts.get("calibration") is not None)
        return kind(
            self.name,
            self.about,
            self.subject,
            enough=enough,
            target=self.held.target,
            notes=(*notes, *steps.reasons),
            interrupted=steps.stopped,
            **parts,
        )


def limits_of(model: Any) -> dict[str, Limit]:
    """Hyperparameters of a fitted estimator that its training left at a limit of their search."""
    limited: dict[str, Limit] = {}
    for remark in model.remarks_:
        if remark.kind in ("lower limit", "upper limit"):
            limited |= dict.fromkeys(remark.names, remark.kind.removesuffix(" limit"))
    return limited


@dataclass(frozen=True, eq=False)
class AuditAnswer(AuditRecord[Model, Curve], Answer):
    """The record of an audit with its text, page and figure; ``interrupted`` says whether Ctrl-C ended it."""

    interrupted: bool = field(default=False, kw_only=True)

    symbol: ClassVar[str]
    """The law of the inducing variables, as the figure writes it."""
    own: ClassVar[str]
    """What of the model the figure has for its curve."""

    @abstractmethod
    def _tables(self) -> list[str]:
        """The tables of the text, and lines about scores."""

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = plain({"command": "audit", **super().to_dict()}, spelled=True)
        return record

    def __str__(self) -> str:
        about: Any = self.subject
        points = "no inducing points" if about.M is None else f"M = {about.M}"
        lines = [
            wrapped(f"Data: {self.name}, target {self.target}, {about.N} training rows, D = {about.D}."),
            wrapped(f"Model: {self.model}; {points}."),
            "",
        ]
        for each in self.findings:
            claims = f" ({', '.join(each.claims)})" if each.claims else ""
            lines.append(wrapped(f"{each.about}: {each.text}{claims}"))
        for table in self._tables():
            lines += ["", table]
        return "\n".join([*lines, "", *(wrapped(f"Note: {note}") for note in self.notes)])

    def page(self) -> str:
        from gpbounds.pages.audit import audit_page

        return audit_page(self)

    def plot(self) -> Any:
        """KL against M: lower and upper bounds, and the target.

        Raises
        ------
        ValueError
            if the bounds could not be computed.
        """
        from gpbounds import plotting

        if self.enough is None:
            raise ValueError("plot: expected bounds against M, got an audit without them; its notes say why")
        words: dict[Points, str] = {"model": self.own, "chosen": "chosen rows", "added": "the model's and more rows"}
        curves = []
        for color, (points, label) in zip(plotting.CYCLE, words.items(), strict=False):
            levels = self.enough.of(points)
            counts = [level.M for level in levels]
            pairs = [tuple(map(float, level.divergence(self.enough.evidence))) for level in levels]
            for side, style in ((1, "-"), (0, ":")) if levels else ():
                name = f"{label}, {'at most' if side else 'at least'}"
                curves.append(plotting.Curve(name, counts, [pair[side] for pair in pairs], color, style))
        title, ylabel = f"{self.name}: {self.model}", f"KL$[{self.symbol}\\Vert p]$ (nats)"
        return plotting.bound_curves(curves, title=title, ylabel=ylabel, target=self.enough.target)


@dataclass(frozen=True, eq=False)
class ModelAudit(AuditAnswer[Subject, Enough], Audit):
    """A `gpbounds.audit.Audit` of a model with its text, page and figure, and whether Ctrl-C ended it."""

    symbol: ClassVar[str] = "q^*"
    own: ClassVar[str] = "the model's points"

    def _tables(self) -> list[str]:
        return [] if self.compared is None else [in_words.levels_in_text(self.compared)]


@dataclass(frozen=True, eq=False)
class LatentModelAudit(AuditAnswer[LatentSubject, LatentEnough], LatentAudit):
    """A `gpbounds.audit.LatentAudit` of a model with its text, page and figure, and whether Ctrl-C ended it."""

    symbol: ClassVar[str] = "q"
    own: ClassVar[str] = "the model's law"

    def _tables(self) -> list[str]:
        tables = [] if self.enough is None else [latent_record.levels_in_text(self.enough)]
        return tables + ([wrapped(f"Scores of the model at held-out rows: {self.scored}.")] if self.scores else [])
