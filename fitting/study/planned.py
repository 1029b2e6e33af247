"""What `plan` returns: the plan of each level, how far M is known, and one recommendation; as text, page and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fitting.study.afterwards import NAMES, Afterwards, sentence
from fitting.study.answer import Answer, inline
from fitting.study.problem import Problem
from fitting.study.ranks import AFTER, Aims, Entry, comparison
from gpbounds.bound import Plan
from gpbounds.records import plain
from gpbounds.texts import in_nats, table, wrapped

if TYPE_CHECKING:
    from fitting.study.by_predictions import ByPredictions

EXPLAINED = (
    "Needed: fewer inducing points do not meet the level, by a lower bound. Suffices: so many do, with the stated "
    "probability. Both are about this kernel and noise."
)


@dataclass(frozen=True)
class Spread:
    """The M of one level for hyperparameters fitted to several draws of rows.

    Attributes
    ----------
    level : str
        "given y" or "after the fact".
    N : int
        Number of rows that the bounds are about.
    counts : tuple of int or None
        M for the hyperparameters of the plan, then for each refit; None where no M was found.
    """

    level: str
    N: int
    counts: tuple[int | None, ...]

    @property
    def refits(self) -> int:
        """Number of refits."""
        return len(self.counts) - 1

    def __str__(self) -> str:
        known = [M for M in self.counts if M is not None]
        if not known:
            return "no M"
        ends = f"M = {min(known)}" if min(known) == max(known) else f"M = {min(known)} to {max(known)}"
        return ends if len(known) == len(self.counts) else f"{ends}, or none"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {"level": self.level, "rows": self.N, "M": self.counts}


class Once:
    """Sentences that several levels share, each printed once: hypotheses by number, others at their first level.

    >>> shared = Once()
    >>> shared.numbers(["A", "B"]), shared.numbers(["B", "C"]), shared.hypotheses
    ('[1] [2]', '[2] [3]', ['A', 'B', 'C'])
    """

    def __init__(self) -> None:
        self.hypotheses: list[str] = []
        self._said: set[str] = set()

    def numbers(self, sentences: Sequence[str]) -> str:
        """The numbers of these hypotheses."""
        self.hypotheses += [each for each in dict.fromkeys(sentences) if each not in self.hypotheses]
        return " ".join(f"[{self.hypotheses.index(each) + 1}]" for each in sentences)

    def new(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """Those of the sentences that have not been said."""
        left = tuple(each for each in dict.fromkeys(sentences) if each not in self._said)
        self._said.update(left)
        return left

    def plan(self, plan: Plan) -> str:
        """The text of a plan, with the numbers of its hypotheses."""
        short = replace(plan, meaning=self.new(plan.meaning), notes=self.new(plan.notes))
        if plan.bound is None:
            return str(short)
        short = replace(short, bound=replace(plan.bound, assumptions=()))
        return f"{short}\nAssumes: {self.numbers(plan.bound.assumptions)}"

    def after(self, after: Afterwards) -> str:
        """The text of chosen points, with the numbers of their hypotheses."""
        short = replace(after, notes=self.new(after.notes))
        if after.at is None:
            return str(short)
        lower, upper = after.at
        short = replace(short, at=(lower, replace(upper, assumptions=())))
        return f"{short}\nAssumes: {self.numbers(upper.assumptions)}"


@dataclass(frozen=True, eq=False)
class Planned(Answer):
    """What suffices for a divergence in nats, level by level, or for predictions at new rows.

    Attributes
    ----------
    problem : Problem
        Data, kernel and noise, and the cases that were bounded.
    aims : Aims
        Nats, order, methods.
    entries : tuple of Entry
        A `Plan` for each level that has one, with the level's name.
    after : Afterwards or None
        The chosen inducing points that suffice for these rows and their y.
    lower : dict or None
        The least M that the lower bounds admit.
    spread : Spread or None
        M for hyperparameters that are fitted to other rows.
    reasons : tuple of str
        Why an answer is missing, one sentence each.
    interrupted : bool
        Whether Ctrl-C ended the computation.
    by_predictions : ByPredictions or None
        What was measured for a level of predictions; there are no levels in nats then.
    """

    problem: Problem
    aims: Aims
    entries: tuple[Entry, ...]
    after: Afterwards | None
    lower: dict[str, int] | None
    spread: Spread | None = None
    reasons: tuple[str, ...] = ()
    interrupted: bool = False
    by_predictions: ByPredictions | None = None

    def to_dict(self) -> dict[str, Any]:
        record = {
            "scope": self.scope,
            "plans": [entry.to_dict() for entry in self.entries],
            AFTER: self.after and self.after.to_dict(),
            "lower bounds": self.lower,
            "spread": self.spread and self.spread.to_dict(),
            **({} if self.by_predictions is None else {"predictions": self.by_predictions.to_dict()}),
            "recommendation": self.recommendation,
            "notes": [*self.problem.notes, *self.reasons],
        }
        whole: dict[str, Any] = plain({"command": "plan", **self.problem.record(), **record}, spelled=True)
        return whole

    def __str__(self) -> str:
        problem, once = self.problem, Once()
        lines = [wrapped(self.scope)] if self.scope else []
        lines.append(problem.heading())
        if self.by_predictions is not None:
            return "\n".join([*lines, *self._measured(self.by_predictions)])
        if problem.data is not None or not self._inducing_only:
            lines.append(f"\n{self.question}:\n{table(*self.levels())}")
        if problem.data is not None and self._inducing_only and self.lower is not None:
            lines.append(wrapped(sentence(self.lower)))
        for heading, text in self._sections(once):
            lines.append(f"\n{wrapped(heading)}\n{wrapped(text, '  ')}")
        lines += [""] if once.hypotheses else []
        lines += [wrapped(f"[{k + 1}] {text}") for k, text in enumerate(once.hypotheses)]
        notes = once.new(self._notes())
        lines += [""] if notes else []
        lines += [wrapped(f"Note: {note}") for note in notes]
        lines += [f"\n{wrapped(text)}" for text in self._advice()]
        return "\n".join(lines)

    def _measured(self, measured: ByPredictions) -> list[str]:
        """The text of levels of predictions, after what is known of the data and the kernel."""
        lines = [f"\n{wrapped(self.question)}"]
        for heading, (header, rows) in measured.sections():
            lines.append(f"\n{wrapped(heading)}\n{table(header, rows)}")
        notes = [*measured.notes(), *(f"Note: {note}" for note in self._notes())]
        return [*lines, "", *map(wrapped, notes), *(f"\n{wrapped(text)}" for text in self._advice())]

    @property
    def _inducing_only(self) -> bool:
        return set(self.aims.methods) == {"inducing"}

    @property
    def scope(self) -> str:
        """Which levels are about all rows, and which about a sample of how many; empty without a table."""
        if self.problem.data is None:
            return ""
        if self.by_predictions is not None:
            return self.by_predictions.scope()
        levels = [(entry.level, entry.plan.N) for entry in self.entries]
        levels += [(AFTER, self.after.N)] if self.after is not None else []
        levels += [("lower bounds", self.lower["rows"])] if self.lower is not None else []
        levels += [("spread over refits", self.spread.N)] if self.spread is not None else []
        return _scope(self.problem, levels)

    @property
    def recommendation(self) -> str:
        """One M of inducing points with the command that does it, or why none is known; empty without a table."""
        if self.problem.data is None or "inducing" not in self.aims.methods or len(self.problem.kernels) > 1:
            return ""
        if self.by_predictions is not None:
            command = _trained(self.problem, self.by_predictions.M if self.by_predictions.saves else None)
            return self.by_predictions.recommendation(command)
        return _recommendation(self.problem, self.aims, self.entries, self.after, self.spread)

    @property
    def question(self) -> str:
        """What is asked, in one line."""
        if self.by_predictions is not None:
            return self.by_predictions.question()
        if not self._inducing_only:
            return f"Ranks that suffice for KL <= {in_nats(self.aims.nats)}"
        alpha, direction = self.aims.alpha, self.problem.settings.direction
        order = "KL" if alpha == 1.0 else f"D_{alpha:g}"
        pair = "q*||p" if direction == "q||p" else "p||q*"
        return f"Inducing points that suffice for {order}[{pair}] <= {in_nats(self.aims.nats)}"

    def _sections(self, once: Once) -> list[tuple[str, str]]:
        """Heading and text of each level."""
        sections = [(entry.title, once.plan(entry.plan)) for entry in self.entries]
        if self.after is not None:
            name = NAMES.get(self.after.method, self.after.method)
            title = f"After the fact: {name} inducing points among these rows; y as it is"
            sections.append((title, once.after(self.after)))
        return sections

    def _notes(self) -> tuple[str, ...]:
        problem = self.problem
        if self.by_predictions is not None:
            return (*self.reasons, *(note for note in problem.notes if note not in problem.fitted))
        return (*self.reasons, *(problem.notes if not self.entries else ()))

    def _advice(self) -> list[str]:
        """How the points are chosen of which the bounds speak, what training changes, and what to do."""
        problem = self.problem
        if problem.data is None or "inducing" not in self.aims.methods:
            return []
        if self.by_predictions is not None:
            return [_again(problem), self.recommendation]
        spelled, texts = problem.asked.spelled, []
        if any(case.draws is not None for case in problem.cases):
            texts.append(_HINT.format(draws=problem.asked.draws, option=spelled("old_forms", True)))
        elif problem.asked.y_norm2 is None:
            option = spelled("y_norm2", "prior")
            texts.append(f"With {option} the plan assumes that y is drawn from the prior, and needs fewer points.")
        return [*texts, *([_again(problem), self.recommendation] if self.recommendation else [])]

    def _rows(self, N: int) -> str:
        """A number of rows, beside that of the table if it is smaller."""
        data = self.problem.data
        return f"{N} of {data.N}" if data is not None and N < data.N else str(N)

    def levels(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows of a table: with more information about the data, fewer points provably suffice."""
        if not self._inducing_only:
            return comparison(self.entries, self.after)
        rows: list[tuple[str, ...]] = []
        for entry in self.entries:
            least = entry.plan
            y = {"y from the prior": "from the prior", "any y": "any of its norm"}.get(entry.about, "as it is")
            answer = f"M = {least.M}" if least.M is not None else f"no M < {least.N}"
            confidence = f"{100 * (1 - self.problem.settings.delta):g} %"
            needed = "-" if least.needed is None else str(least.needed)
            bound = "-" if least.bound is None else f"{float(least.bound):.3g}"
            number = f"{least.N} new" if entry.level.startswith(_TO_COME) else self._rows(least.N)
            rows.append((entry.level, number, entry.points, y, confidence, needed, answer, bound))
        after, known = self.after, self.spread
        if after is not None:
            answer = f"M = {after.M}" if after.M is not None else f"no M <= {after.tried}" if after.tried else "-"
            bound = "-" if after.at is None else f"{float(after.at[1]):.3g}"
            name = NAMES.get(after.method, after.method)
            rows.append((AFTER, self._rows(after.N), name, "as it is", "certain", str(after.needed), answer, bound))
        if known is not None:
            level = f"{known.level}, {known.refits} refits"
            rows.append((level, self._rows(known.N), "-", "as it is", "-", "-", str(known), "-"))
        return ("level", "rows", "points", "y", "probability", "needed", "suffices", "bound"), rows

    def plot(self) -> Any:
        """For each level, from the number that is needed to the number that suffices."""
        from gpbounds import plotting

        if self.by_predictions is not None:
            return self.by_predictions.plot()
        ranges = [
            plotting.Range(self._named(entry.title.partition(":")[0], entry.plan.N), *_ends(entry.plan))
            for entry in self.entries
        ]
        if self.after is not None:
            name = self._named("After the fact", self.after.N)
            ranges.append(plotting.Range(name, self.after.needed, self.after.M, self.after.N))
        axis = "Number of inducing points $M$" if self._inducing_only else "Rank"
        return plotting.sufficient(ranges, title=self.question, xlabel=axis)

    def _named(self, level: str, N: int) -> str:
        data = self.problem.data
        return f"{level}, {N} rows" if data is not None and N < data.N else level

    def page(self) -> str:
        from gpbounds.pages import html

        data, problem, once = self.problem.data, self.problem, Once()
        title = "Inducing points" if data is None else f"Inducing points for {data.name}"
        names = f"Inputs: {', '.join(data.columns)}." if data is not None and data.columns else ""
        texts = (self.scope, *problem.facts(), problem.pasted, names)
        facts = "".join(f"<p>{html.escaped(text)}</p>\n" for text in texts if text)
        sections = [f"<p><strong>{html.escaped(self.recommendation)}</strong></p>\n"] if self.recommendation else []
        sections += [f"<p>{html.escaped(self.question)}</p>\n"]
        if self.by_predictions is None:
            sections += [html.table(*self.levels()), _figure(self.plot(), EXPLAINED)]
        else:
            sections += [_figure(self.plot(), self.by_predictions.caption)]
            for heading, (header, rows) in self.by_predictions.sections():
                sections.append(f"<h2>{html.escaped(heading)}</h2>\n{html.table(header, rows)}")
        sections += [] if self.lower is None else [f"<p>{html.escaped(sentence(self.lower))}</p>\n"]
        for heading, text in self._sections(once):
            sections.append(f"<h2>{html.escaped(heading)}</h2>\n<pre>{html.escaped(wrapped(text))}</pre>\n")
        hypotheses = "".join(f"<li>{html.escaped(text)}</li>\n" for text in once.hypotheses)
        sections += [f"<h2>Hypotheses</h2>\n<ol>{hypotheses}</ol>\n"] if hypotheses else []
        about = () if self.by_predictions is None else self.by_predictions.notes()
        texts = (*about, *once.new(self._notes()), *(text for text in self._advice() if text != self.recommendation))
        notes = "".join(f"<li>{html.escaped(note)}</li>\n" for note in texts)
        sections += [f"<h2>Notes</h2>\n<ul>{notes}</ul>\n"] if notes else []
        head = f"<header><h1>{html.escaped(title)}</h1>\n{facts}</header>\n"
        return html.document(title, f"{head}<main>\n{''.join(sections)}</main>", style=STYLE)


def _figure(drawn: Any, caption: str) -> str:
    from gpbounds.pages import html

    return f"<figure>{inline(drawn)}<figcaption>{html.escaped(caption)}</figcaption></figure>\n"


def _ends(plan: Plan) -> tuple[int | None, int | None, int]:
    return plan.needed, plan.M, plan.N


# The end of a plan in plain words: what is about all rows, one recommendation, what training changes.

_HINT = (
    'The best of {draws} draws: gpbounds.kdpp.select(..., method="best", draws={draws}), or SparseGP(inducing="best"). '
    "{option} adds the bounds on one draw."
)


def _scope(problem: Problem, levels: Sequence[tuple[str, int]]) -> str:
    """Which levels, each with the number of its rows, are about all rows of the table, and which about a sample."""
    data = problem.data
    assert data is not None
    given = [(level, N) for level, N in levels if not level.startswith(_TO_COME)]
    every = list(dict.fromkeys(level for level, N in given if N == data.N))
    sampled = {N: list(dict.fromkeys(level for level, n in given if n == N)) for _, N in given if N < data.N}
    sentences = [f"About all {data.N} rows: {', '.join(every) or 'nothing'}."]
    for N, names in sampled.items():
        sentences.append(f"About a sample of {N} of the {data.N} rows only: {', '.join(names)}; all rows need more.")
    for N in dict.fromkeys(N for level, N in levels if level.startswith(_TO_COME)):
        sentences.append(f"About {N} new rows from the law of the inputs: {_TO_COME}.")
    return " ".join(sentences)


_TO_COME = "a priori"
"""The levels of inputs to come begin so."""


def _recommendation(
    problem: Problem, aims: Aims, entries: Sequence[Entry], after: Afterwards | None, known: Spread | None
) -> str:
    """One number of inducing points, or why there is none, and the command that does it."""
    assert problem.data is not None
    N, M = problem.data.N, None
    whole = [entry for entry in entries if entry.level == "given y" and entry.plan.N == N and entry.plan.M is not None]
    if after is not None and after.M is not None:
        name, M = NAMES.get(after.method, after.method), after.M
        answer = f"use M = {after.M} {name} inducing points: proved {AFTER} for all {N} rows, this kernel and noise."
    elif whole:
        plan, M = whole[0].plan, whole[0].plan.M
        probability = f"{100 * (1 - problem.settings.delta):g} %"
        answer = (
            f"use M = {plan.M} inducing points, the {whole[0].points} draws: proved given y for all {N} rows, this "
            f"kernel and noise, with probability {probability}."
        )
    else:
        answer = _unknown(N, entries, after)
    spread = f" These rows do not determine {', '.join(problem.edges)}; M may be far off." if problem.edges else ""
    if known is not None:
        rows = "" if known.N == N else f", on a sample of {known.N} rows"
        spread += f" Kernel and noise fitted to other rows give {known} ({known.level}{rows})."
    return f"Recommendation: {answer}{spread} {_command(problem, aims, M)}"


def _unknown(N: int, entries: Sequence[Entry], after: Afterwards | None) -> str:
    """Why no M is recommended, and what is known."""
    text = f"no M is proved for all {N} rows with this kernel and noise"
    if after is not None:
        text += f" (no M <= {after.tried} does after the fact; fewer than {after.needed} cannot)"
    text += ": the M to use is unknown."
    sample = [entry.plan for entry in entries if entry.level == "given y" and entry.plan.N < N]
    if sample and sample[0].M is not None:
        text += f" M = {sample[0].M} is proved for {sample[0].N} of the rows only; do not use it for all."
    return text


def _command(problem: Problem, aims: Aims, M: int | None) -> str:
    """The command that trains a model with an M that holds for it."""
    assert problem.data is not None
    target = f"--target {_quoted(problem.data.target)} " if problem.data.columns else ""
    if problem.refit is None and M is not None:
        if problem.fitted:
            return f"Run: gpbounds train FILE {target}--keep-kernel MODEL --inducing {M}  It keeps kernel and noise."
        return "Train with this kernel and noise fixed; otherwise training moves them, and M with them."
    level = f"--nats {aims.nats:g}" + ("" if aims.alpha == 1.0 else f" --model renyi --alpha {aims.alpha:g}")
    return (
        f"Run: gpbounds train FILE {target}--inducing auto {level}  It grows M while it trains until the level holds "
        "for the final model, or says how far it came; then gpbounds audit shows whether predictions on held-out rows "
        "still gain from more points."
    )


def _trained(problem: Problem, M: int | None) -> str:
    """The command that trains a model with M inducing points, or the exact GP where no M is known."""
    assert problem.data is not None
    target = f"--target {_quoted(problem.data.target)} " if problem.data.columns else ""
    if M is None:
        return f"Run: gpbounds train FILE {target}--model exact  It is the exact GP; a higher level needs fewer points."
    if problem.refit is not None:
        return (
            f"Run: gpbounds train FILE {target}--inducing {M}  It fits kernel and noise, too; then gpbounds audit "
            "shows what more points bring to its predictions."
        )
    return f"Run: gpbounds train FILE {target}--keep-kernel MODEL --inducing {M}  It keeps kernel and noise."


def _quoted(name: str) -> str:
    return name if name.replace("_", "").isalnum() else f"'{name}'"


def _again(problem: Problem) -> str:
    """What happens to M if a model is trained again."""
    keep = "gpbounds train FILE --keep-kernel MODEL --inducing M"
    return (
        "Every M here is for this kernel and noise. Training moves them, and M with them: to keep those of a trained "
        f"model, {keep}; to plan for them, gpbounds plan --data FILE --model MODEL."
    )


STYLE = (
    "figure svg { max-width: 100%; height: auto; background: #fff; } pre { white-space: pre-wrap; font-size: .8rem; } "
    "p { overflow-wrap: anywhere; }"
)
