"""The page of an audit of a model of labels or counts: summary, pictures, tables, claims and notes in one file."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.events import GRID, event_interval
from gpbounds.audit.latent_levels import LatentEnough
from gpbounds.audit.latent_record import (
    HEADER,
    LEGEND,
    LatentAudit,
    between,
    ends,
    row_of,
    up_to_one,
)
from gpbounds.bound import Bound, outward
from gpbounds.pages.audit import SCRIPT, STYLE, foundations, picture, section, summary
from gpbounds.pages.audit_charts import BLACK, BLUE, FLOOR, GREEN, ORANGE, SIZE, SKY, VERMILLION, some
from gpbounds.pages.chart import Chart
from gpbounds.pages.html import Markup, document, escaped, table
from gpbounds.pages.marks import Band, Dots, Level, Line, Mark, Whiskers
from gpbounds.texts import in_nats

_LOOKS = {"chosen": ("best law, chosen rows", BLUE), "added": ("best law, these and more rows", ORANGE)}


def latent_audit_page(audit: LatentAudit, title: str | None = None) -> str:
    """The page of an audit of labels or counts, which needs no other file and no network.

    Parameters
    ----------
    audit : LatentAudit
    title : str, optional
        By default "Audit of" the name of the data.

    >>> from gpbounds.audit import latent_enough, latent_subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.likelihoods import Bernoulli
    >>> X = np.linspace(0.0, 10.0, 40)
    >>> about = latent_subject(SquaredExponential(), Bernoulli(), X, np.sin(X) > 0.0, X[::8])
    >>> page = latent_audit_page(LatentAudit("forty", "a model", about, latent_enough(about, most=20)))
    >>> page.count("<svg"), "<h1>Audit of forty</h1>" in page
    (2, True)
    """
    about = audit.subject
    heading = title or f"Audit of {audit.name}"
    facts = (
        f"{audit.model}; target {audit.target}, {about.N} training rows, {about.D} inputs, {about.M} inducing points."
    )
    bounds: list[Bound] = []
    if audit.enough is not None:
        bounds += [*audit.enough.evidence, *audit.enough.divergence]
    if audit.events is not None:
        bounds.append(audit.events.tv)
    claims = {claim for finding in audit.findings for claim in finding.claims}
    claims |= {claim for bound in bounds for claim in bound.claim.split(", ")} | {"N-fisher"}
    sections = [
        summary(audit.findings),
        _enough(audit.enough),
        _events(audit),
        _scores(audit),
        foundations(bounds, claims, audit.notes),
    ]
    body = f"<header><h1>{escaped(heading)}</h1>\n<p>{escaped(facts)}</p></header>\n<main>\n{''.join(sections)}</main>"
    return document(heading, body, style=STYLE, script=SCRIPT)


def _p(text: object) -> str:
    return f"<p>{escaped(text)}</p>\n"


def _enough(enough: LatentEnough | None) -> str:
    """Is M enough: the charts and the table of all laws."""
    if enough is None:
        return ""
    low, high = (float(end) for end in enough.evidence)
    intro = (
        "KL[q‖p] is the divergence of a Gaussian law q of the inducing variables from the exact posterior p, in nats; "
        "it is log p(y) − ELBO(q). Every ELBO is at most log p(y), and the log-Sobolev inequality bounds the "
        "divergence of each law by half its relative Fisher information, so that the best of these laws encloses "
        f"log p(y) for all of them: here between {outward(low, 'lower', 8)} and {outward(high, 'upper', 8)}, which are "
        f"{between((0.0, high - low))} apart. The estimate of the divergence of the model's law is "
        f"{max(enough.estimate, 0.0):.3g} nats; it is no bound."
    )
    rows = [row_of(enough, level) for level in enough.telling()]
    return section(
        "enough",
        "Is M enough?",
        _p(intro),
        '<div class="pictures">',
        picture(
            divergence_chart(enough),
            "Areas lie between the lower and the upper bound. Where the upper one stays level, more points do not "
            "help: what is left is the bound's, or the posterior is not Gaussian.",
        ),
        picture(elbo_chart(enough), "ELBOs of the laws, and the bounds on log p(y), in nats above the largest ELBO."),
        "</div>",
        table(HEADER, rows),
        _p(LEGEND),
    )


def divergence_chart(enough: LatentEnough) -> Markup:
    """Bounds on the divergence against M, with the target, and the bound of a law alone where it was computed."""
    least = FLOOR * enough.target
    marks: list[Mark] = []
    for points, (name, color) in _LOOKS.items():
        levels = [*(enough.of("best") if points == "added" else ()), *enough.of(points)]  # type: ignore[arg-type]
        pairs = [(level.M, *map(float, level.divergence(enough.evidence))) for level in levels]
        pairs = [pair for pair in pairs if pair[2] >= least]
        if len(pairs) < 2:
            continue
        counts, low, high = ([pair[i] for pair in pairs] for i in range(3))
        marks += [Band("", counts, [max(value, least) for value in low], high, color), Line(name, counts, high, color)]
    own = [level for level in enough.levels if level.gap is not None]
    marks.append(
        Dots(
            "a law's bound by itself",
            [level.M for level in own],
            [float(level.gap.bound) for level in own],  # type: ignore[union-attr]
            BLACK,
            3.5,
        )
    )
    lower, upper = map(float, enough.divergence)
    note = f"the model, M = {enough.model.M}: KL between {lower:.6g} and {upper:.6g}"
    marks.append(Dots("the model's law", [enough.model.M], [max(upper, least)], VERMILLION, 5.0, [note]))
    if enough.estimate >= least:
        marks.append(Dots("the model's law, estimate", [enough.model.M], [enough.estimate], SKY, 4.0))
    marks.append(Level(f"target {enough.target:g}", enough.target, GREEN))
    return Chart(
        marks,
        "number of inducing points M",
        "KL[q‖p], nats",
        log_x=True,
        log_y=True,
        about="Divergence against M",
        **SIZE,
    ).svg()


def elbo_chart(enough: LatentEnough) -> Markup:
    """ELBOs against M and the bounds on log p(y), less the largest ELBO, from where they are of use."""
    low, high = map(float, enough.evidence)
    levels = enough.of("added") or [enough.best]
    far = max(low - enough.model.elbo, high - low, enough.target)
    shown = [(level.M, level.elbo - low) for level in levels if low - level.elbo <= 2.0 * far]
    marks: list[Mark] = [
        Level("log p(y) ≥", 0.0, GREEN),
        Level("log p(y) ≤", high - low, ORANGE),
        Line("ELBO, these and more rows", [M for M, _ in shown], [elbo for _, elbo in shown], BLUE),
        Dots("ELBO of the model", [enough.model.M], [enough.model.elbo - low], VERMILLION, 5.0),
    ]
    return Chart(
        marks,
        "number of inducing points M",
        "nats above the largest ELBO",
        log_x=True,
        about="ELBOs and log p(y) against M",
        **SIZE,
    ).svg()


def _events(audit: LatentAudit) -> str:
    """What the divergence means for probabilities."""
    events = audit.events
    if events is None:
        return ""
    goal = audit.enough.target if audit.enough is not None else float(events.divergence)
    reached = event_interval(np.array(GRID), goal)
    pairs = zip(GRID, *events.interval, *reached, strict=True)
    rows = [(f"{p:g}", ends((float(a), float(b))), ends((float(c), float(d)))) for p, a, b, c, d in pairs]
    text = (
        "An event is anything that f, or a new label or count, does: that a label is 1, that ten labels are all 1, "
        "that a count is above 5. If the model gives an event the probability in the first column, its probability "
        "under the exact posterior lies in the second; the third is what the target would bring. No two differ by more "
        f"than {up_to_one(float(events.tv))} (total variation, by Pinsker's inequality and that of Bretagnolle and "
        "Huber)."
    )
    parts = [_p(Markup(f'{escaped(text)} <span class="soft">(<a href="#N-event">N-event</a>)</span>'))]
    parts.append(table(("model", "exact posterior", f"with a divergence of {in_nats(goal)}"), rows))
    if events.rows is not None and events.useful:
        caption = (
            "Probability at each held-out row under the model, and the interval of that under the exact posterior."
        )
        chart = row_chart(events.rows.model, events.rows.low, events.rows.high, events.rows.event)
        parts.append(picture(chart, caption))
    return section("probabilities", "What the divergence means for probabilities", *parts)


def row_chart(model: Float, low: Float, high: Float, event: str) -> Markup:
    """Intervals of the exact probability against the model's, at rows."""
    kept = some(high - low)
    order = kept[np.argsort(model[kept], kind="stable")]
    x, ends_low, ends_high = (values[order].tolist() for values in (model, low, high))
    marks: list[Mark] = [
        Whiskers("exact posterior, between", x, ends_low, ends_high, SKY),
        Dots("the model", x, x, BLUE, 2.5),
    ]
    return Chart(
        marks, "probability under the model", "under the exact posterior", about=f"Probabilities of {event}", **SIZE
    ).svg()


def _scores(audit: LatentAudit) -> str:
    """Scores of the model's predictions."""
    if not audit.scores:
        return ""
    rows = [(name, f"{value:.5g}") for name, value in audit.scores.items()]
    return section("scores", "Scores at held-out rows", table(("score", "model"), rows))
