"""The page of an examination: what a library claims, what is proved, and the parts of the difference."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.audit.claimed import ClaimedEvidence, ClaimedPredictions
from gpbounds.audit.examination import Examination, evidence_sentence, in_between, prediction_sentences, rows_of
from gpbounds.bound import Bound, outward
from gpbounds.pages.audit import SCRIPT, STYLE, foundations, picture, section, summary
from gpbounds.pages.chart import Chart
from gpbounds.pages.html import document, escaped, table
from gpbounds.pages.marks import Dots, Level, Mark

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
_DOTS = 1500
"""Largest number of dots of a chart: the worst rows, and others evenly spaced."""
_WORST = 10
"""Rows of the table of the worst ones."""


def examination_page(answer: Examination, title: str | None = None) -> str:
    """The page of an examination.

    Parameters
    ----------
    answer : Examination
    title : str, optional
        By default "What was claimed of" the name of the data.

    Returns
    -------
    str
        A page that needs no other file and no network.

    >>> from gpbounds.audit import claimed_evidence, subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> about = subject(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1)
    >>> page = examination_page(Examination("three", "a model", about, claimed_evidence(about, -3.0)))
    >>> "<h1>What was claimed of three</h1>" in page, "too high" in page
    (True, True)
    """
    about = answer.subject
    heading = title or f"What was claimed of {answer.name}"
    points = "no inducing points" if about.M is None else f"{about.M} inducing points"
    facts = (
        f"{answer.model}; {about.N} training rows, {about.D} inputs, {points}. Numbers are in the units of the table."
    )
    cited = {claim for each in answer.findings for claim in each.claims}
    sections = [
        summary(answer.findings),
        "" if answer.evidence is None else _evidence(answer.evidence),
        "" if answer.predictions is None else _predictions(answer.predictions, np.asarray(answer.numbers)),
        _causes(answer),
        foundations(_bounds(answer), cited, answer.notes),
    ]
    body = f"<header><h1>{escaped(heading)}</h1>\n<p>{escaped(facts)}</p></header>\n<main>\n{''.join(sections)}</main>"
    return document(heading, body, style=STYLE, script=SCRIPT)


def _p(text: object) -> str:
    return f"<p>{escaped(text)}</p>\n"


def _bounds(answer: Examination) -> list[Bound]:
    return [] if answer.evidence is None else list(answer.evidence.evidence)


def _evidence(claim: ClaimedEvidence) -> str:
    """The claimed log p(y) beside the interval."""
    pair, error = [float(end) for end in claim.evidence], claim.error
    row = [end / claim.N for end in error]
    rows = [
        ("claimed", f"{claim.value:.10g}", f"{claim.value / claim.N:.6g}"),
        ("proved", in_between(pair), in_between([end / claim.N for end in pair], 6)),
        ("claimed − exact", in_between(error, 6), in_between(row, 6)),
    ]
    return section(
        "evidence",
        "The log evidence",
        _p(evidence_sentence(claim).capitalize()),
        table(("log p(y)", "nats", "nats a row"), rows),
    )


def _predictions(claims: ClaimedPredictions, numbers: Any) -> str:
    """The claimed predictions beside proved ends."""
    kept = _kept(claims)
    charts = [_chart(numbers, kept, claims.off[1], claims, "|claimed − exact mean|, exact st. dev.", claims.deviation)]
    captions = [
        "How far each claimed mean is off at most, in exact standard deviations; below the line counts as none."
    ]
    if claims.ratio is not None:
        low, high = claims.ratio
        values = np.sqrt(low * np.where(np.isfinite(high), high, low))
        charts.append(_chart(numbers, kept, values, claims, "claimed / exact st. dev.", 1.0))
        captions.append("Claimed standard deviations over exact ones; 1 is right.")
    worst = np.argsort(-np.maximum(claims.off[0], claims.apart[0]), kind="stable")[:_WORST]
    rows = []
    for i in worst:
        first, last = (float(end[i]) for end in claims.exact.mean)
        least, most = (float(end[i]) for end in claims.exact.variance)
        claimed = "" if claims.variance is None else f"{claims.variance[i]:.6g}"
        means, variances = in_between((first, last), 6), f"{outward(least, 'lower', 4)} to {outward(most, 'upper', 4)}"
        rows.append((int(numbers[i]), f"{claims.mean[i]:.6g}", means, claimed, variances))
    which = "new targets" if claims.noisy else "the latent f"
    return section(
        "predictions",
        "Predictions",
        _p(" ".join(prediction_sentences(claims, numbers))),
        '<div class="pictures">',
        *(picture(chart.svg(), caption) for chart, caption in zip(charts, captions, strict=True)),
        "</div>",
        table(
            ("row", "claimed mean", "exact mean", "claimed variance", "exact variance"),
            rows,
            f"The {len(rows)} worst rows; variances are those of {which}",
        ),
    )


def _kept(claims: ClaimedPredictions) -> Any:
    """The rows that are drawn."""
    if claims.n <= _DOTS:
        return np.arange(claims.n)
    order = np.argsort(-np.maximum(claims.off[0], claims.apart[0]), kind="stable")
    even = np.linspace(0, claims.n - 1, _DOTS // 2).astype(int)
    return np.unique(np.concatenate([order[: _DOTS // 2], even]))


def _chart(numbers: Any, kept: Any, values: Any, claims: ClaimedPredictions, label: str, level: float) -> Chart:
    """The values against the number of the row, on a logarithmic axis."""
    drawn, outside = values[kept], claims.outside[kept]
    marks: list[Mark] = []
    for name, color, chosen in (("within, or open", BLUE, ~outside), ("off for certain", VERMILLION, outside)):
        there = chosen & (drawn > 0.0) & np.isfinite(drawn)
        if there.any():
            marks.append(Dots(name, numbers[kept][there].tolist(), drawn[there].tolist(), color))
    marks.append(Level(f"{level:g}", level, GREEN))
    return Chart(marks, "row", label, log_y=True, width=480.0, height=330.0, about=f"{label} against the row")


def _causes(answer: Examination) -> str:
    """The parts of each error, which add up to it."""
    if answer.causes is None:
        return ""
    rows, parts = rows_of(answer.causes), list[str]()
    for name in dict.fromkeys(row[0] for row in rows):
        cells = [row[1:] for row in rows if row[0] == name]
        parts.append(table(("part", "contribution", "effect", "known"), cells, name))
    text = (
        "Each part is the difference of two numbers that follow each other: the exact GP, the model with its inducing "
        f"points, with a jitter of {answer.causes.jitter:g}, in the library's precision, and the claim. The parts add "
        "up to the error."
    )
    return section("causes", "Why", _p(text), *parts)
