"""The page of an audit: one file with summary, pictures, tables, the claims it rests on, and the notes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpbounds.audit import Audit, Calibration, Enough, LatentAudit, LatentEnough
from gpbounds.audit.compared import KINDS
from gpbounds.audit.coverage import Coverage
from gpbounds.audit.events import GRID, event_interval
from gpbounds.audit.in_words import (
    divergence,
    enclosed,
    in_nats_a_row,
    legend,
    per_row,
    retrained_sentence,
    sentence_of,
)
from gpbounds.audit.latent_record import HEADER, LEGEND, between, ends, row_of, up_to_one
from gpbounds.audit.record import USELESS, AuditRecord, Finding, sentence
from gpbounds.bound import Bound, claims_of, outward
from gpbounds.claims import ledger
from gpbounds.pages.audit_charts import (
    coverage_chart,
    difference_chart,
    divergence_chart,
    elbo_chart,
    evidence_chart,
    histogram,
    latent_divergence_chart,
    loss_chart,
    place_chart,
    prediction_chart,
    row_chart,
)
from gpbounds.pages.html import Markup, document, escaped, table
from gpbounds.texts import in_nats

_SIGNS = {"good": "✓", "warn": "!", "bad": "✗"}
_WORST = 10
"""Number of rows in the table of the worst ones."""

_TELLING = 6
"""Largest number of inputs in that table: those that explain most of the unexplained variance."""


def audit_page(audit: AuditRecord[Any, Any], title: str | None = None) -> str:
    """The page of an audit of either kind, which needs no other file and no network.

    Parameters
    ----------
    audit : Audit or LatentAudit
    title : str, optional
        By default "Audit of" the name of the data.

    >>> import numpy as np
    >>> from gpbounds.audit import Audit, enough, subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 40)
    >>> about = subject(SquaredExponential(), X, np.sin(X), X[::4], noise=0.1)
    >>> page = audit_page(Audit("forty", "a model", about, enough(about)))
    >>> page.count("<svg"), "<h1>Audit of forty</h1>" in page
    (2, True)
    """
    about = audit.subject
    heading = title or f"Audit of {audit.name}"
    points = "no inducing points" if about.M is None else f"{about.M} inducing points"
    facts = f"{audit.model}; target {audit.target}, {about.N} training rows, {about.D} inputs, {points}."
    sections: list[str] = []
    if isinstance(audit, LatentAudit):
        sections = [_latent_enough(audit.enough), _events(audit), _scores(audit)]
    elif isinstance(audit, Audit):
        facts += " Kernel and noise are in the units of the table."
        parts = (_compared, _enough, _consequences, _places, _hyperparameters, _calibration, _risk)
        sections = [part(audit) for part in parts]
    body = (
        f"<header><h1>{escaped(heading)}</h1>\n<p>{escaped(facts)}</p></header>\n<main>\n{summary(audit.findings)}"
        f"{''.join(sections)}{foundations(audit.bounds, cited(audit), audit.notes)}</main>"
    )
    return document(heading, body, style=STYLE, script=SCRIPT)


def section(name: str, title: str, *parts: str) -> str:
    """A section of a page."""
    return f'<section id="{name}"><h2>{escaped(title)}</h2>\n{"".join(parts)}</section>\n'


def _p(text: object, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{escaped(text)}</p>\n"


def picture(svg: Markup, caption: object) -> str:
    """A chart with its caption, and a line that shows the value pointed at."""
    return (
        f'<figure><div class="wide">{svg}</div><output class="value screen" aria-live="polite"></output>'
        f"<figcaption>{escaped(caption)}</figcaption></figure>\n"
    )


def _cited(claims: Iterable[str]) -> Markup:
    """Ids of claims as links to their statements below."""
    links = [f'<a href="#{escaped(claim)}">{escaped(claim)}</a>' for claim in claims]
    return Markup(f' <span class="soft">({", ".join(links)})</span>' if links else "")


def summary(findings: Iterable[Finding]) -> str:
    """The findings, with their grades."""
    rows = [
        f'<li class="{each.grade}"><span class="sign" aria-hidden="true">{_SIGNS[each.grade]}</span> '
        f"<div><strong>{escaped(each.about)}.</strong> {escaped(each.text)}{_cited(each.claims)}</div></li>\n"
        for each in findings
    ]
    return section("summary", "Summary", f'<ul class="findings">\n{"".join(rows)}</ul>')


def _both(pair: tuple[Bound, Bound], digits: int = 6) -> tuple[str, str]:
    return outward(float(pair[0]), "lower", digits), outward(float(pair[1]), "upper", digits)


_SHARES = {"enough": "good", "not enough": "bad", "open": "warn"}


def _compared(audit: Audit) -> str:
    """The exact GP's predictions at held-out rows beside those of the model and of other numbers of points."""
    compared = audit.compared
    if compared is None:
        return ""
    losses, errors = list[tuple[object, ...]](), list[tuple[object, ...]]()
    places = max(0, 4 - math.floor(math.log10(max(float(compared.rmse.high), 1e-300))))
    for each in (*compared.levels, *filter(None, [compared.retrained])):
        gain, half = each.gain
        name = ("–" if each.M is None else each.M, KINDS[each.kind])
        verdict = compared.verdict_of(each)
        sign = Markup(f'<span class="{_SHARES[verdict]}">{_SIGNS[_SHARES[verdict]]}</span>')
        measured = in_nats_a_row(-gain, half)
        proved = enclosed(each.log_loss.enclosure, 5)
        losses.append((*name, f"{each.mean_log_loss:.5f}", proved, measured, per_row(each.kl), sign))
        own, interval = each.rmse_difference
        root = f"{float(each.rmse.middle):.{places}f}"
        errors.append((*name, root, enclosed(own, places), enclosed(interval, places)))
    losses.append(("", "the exact GP", enclosed(compared.log_loss, 5), "", "", "0", ""))
    errors.append(("", "the exact GP", enclosed(compared.rmse, places), "", ""))
    proved, measured = "exact − this, proved between", "95 % over rows, measured"
    again = retrained_sentence(compared)
    return section(
        "predictions",
        "Would the exact GP predict better?",
        _p(Markup(f"{escaped(sentence_of(compared))}{_cited(('N-solve',))}")),
        _p(again) if again else "",
        picture(
            loss_chart(compared),
            "Log loss on the held-out rows. The green line is that of the exact GP, within its proved ends, which are "
            "closer together than the line is wide where no green band is seen; whiskers are 95 % intervals over rows "
            "of the distance from it.",
        ),
        table(("M", "inducing points", "log loss", proved, measured, "KL a row", ""), losses, "Log loss, nats a row"),
        table(("M", "inducing points", "RMSE", proved, measured), errors, "RMSE, units of the target"),
        _p(
            f"✓ the exact GP gains at most {compared.loss:g} nats a row, ✗ it gains more, ! these rows cannot tell. "
            f"{legend(compared)}",
            "soft",
        ),
    )


def _enough(audit: Audit) -> str:
    enough = audit.enough
    if enough is None:
        return ""
    rows = []
    for level in enough.telling():
        lower, upper = level.divergence(enough.evidence)
        low, high = divergence((float(lower), float(upper)), 4)
        by = ", ".join(claims_of(lower, upper))
        best = outward(float(level.evidence[1]), "upper", 8)
        rows.append((level.M, enough.words[level.points], low, high, f"{level.elbo:.8g}", best, by))
    header = ("M", "inducing points", "KL at least", "KL at most", "ELBO", "log p(y) at most", "claims")
    low, high = _both(enough.evidence, 8)
    claims = claims_of(*enough.evidence)
    intro = Markup(
        "KL[q*‖p] is the divergence of the best sparse posterior with these inducing points from the exact posterior, "
        f"in nats; it is log p(y) − ELBO. The sharpest bounds on log p(y) are {low} and {high}{_cited(claims)}. "
        + (
            f"Fewer than {enough.needed} inducing variables cannot reach {enough.target:g}, however they are chosen"
            f"{_cited(('N-low',))}."
            if enough.needed > 1
            else ""
        )
    )
    return section(
        "enough",
        "Is M enough?",
        _p(intro),
        '<div class="pictures">',
        picture(
            divergence_chart(enough),
            _between(enough),
        ),
        picture(evidence_chart(enough), "Bounds on log p(y), in nats, by the inducing points at each M alone."),
        "</div>",
        table(header, rows),
    )


def _between(enough: Enough) -> str:
    """What the chart of the divergence shows between its bounds, and what it does not show."""
    pairs = [tuple(map(float, level.divergence(enough.evidence))) for level in enough.levels]
    apart = any(high > 1.05 * low and high > 1e-2 * enough.target for low, high in pairs)
    text = "The area is between the lower and the upper bound." if apart else "Lower and upper bound coincide here."
    if enough.floor is None:
        text += (
            " No curve says what the best choice of inducing variables could reach: that needs all eigenvalues of K, "
            "which are not computed for so many rows."
        )
    return text


def _consequences(audit: Audit) -> str:
    consequences = audit.consequences
    if consequences is None:
        return ""
    named = [] if consequences.model is None else [("the model", consequences.model)]
    rows = [
        (
            name,
            divergence((0.0, float(each.kl)), 4)[1],
            *_useful(float(each.mean), math.sqrt(float(each.low)), math.sqrt(float(each.high))),
        )
        for name, each in [*named, ("the target", consequences.target)]
    ]
    header = (
        "with",
        "KL ≤",
        "means within (exact st. dev.)",
        "st. dev. at least (× exact)",
        "at most",
    )
    parts = [
        _p(
            Markup(
                "What a divergence implies for the prediction of the latent function at every input: Proposition 4 "
                f"with the model first and the exact posterior second{_cited(('L-30', 'L-31'))}. "
                + (f"Here {escaped(sentence(consequences.model))}." if consequences.model is not None else "")
            )
        ),
        table(header, rows),
    ]
    if consequences.measured is not None and audit.places is not None and consequences.model is not None:
        mean = float(consequences.model.mean)
        guarantee = mean if mean <= USELESS else None
        chart = difference_chart(consequences.measured, audit.places, audit.numbers, guarantee)
        caption = (
            "How far the means really are apart at the rows of the table, against the variance that the inducing "
            "points leave unexplained there; "
        )
        caption += (
            "there is no useful guarantee for all inputs."
            if guarantee is None
            else "the dashed line is the guarantee for all inputs."
        )
        parts.append(picture(chart, caption))
    return section("guarantee", "What the divergence guarantees at every input", *parts)


def _useful(mean: float, low: float, high: float) -> tuple[str, str, str]:
    """A guarantee for means and for the ends of standard deviations, or "no useful guarantee"."""
    none = "no useful guarantee"
    return (
        outward(mean, "upper", 4) if mean <= USELESS else none,
        outward(low, "lower", 4) if low >= 1.0 / USELESS else none,
        outward(high, "upper", 4) if high <= USELESS else none,
    )


def _places(audit: Audit) -> str:
    places = audit.places
    if places is None:
        return ""
    worst, columns = places.order[:_WORST], audit.subject.columns
    shown = [j for j, name in enumerate(columns) if name in {part.column for part in places.parts[:_TELLING]}]
    rows = [
        (int(audit.numbers[i]), f"{places.unexplained[i]:.4g}", *(f"{places.X[i, j]:.5g}" for j in shown))
        for i in worst
    ]
    caption = f"The {len(rows)} worst rows"
    if len(shown) < len(columns):
        caption += f", with the {len(shown)} most telling of {len(columns)} inputs"
    parts = [(part.column, f"{100 * part.share:.1f} %", part.where, f"{part.mean:.4g}") for part in places.parts]
    return section(
        "places",
        "Where it is worst",
        _p(
            "The unexplained variance at x is (k(x, x) − q(x, x))/σ²: what the inducing points cannot tell about "
            f"f(x), in noise variances. Its sum over the training rows is {places.trace:.4g}; the bounds on the "
            "divergence grow with it."
        ),
        picture(
            place_chart(places, audit.subject, audit.numbers),
            "Each dot is a row; pointing at it shows its number and value.",
        ),
        table(("row", "unexplained", *(columns[j] for j in shown)), rows, caption),
        table(("input", "explains of the variation", "worst tenth of the rows", "mean there"), parts, "By input"),
    )


def _hyperparameters(audit: Audit) -> str:
    if not audit.hyperparameters:
        return ""
    rows = [
        (
            each.name,
            f"{each.value:.5g}",
            "" if each.relative is None else f"{each.relative:.3g}",
            Markup(f'<span class="bad">at the {each.limit} limit</span>') if each.limit else "",
            each.remark,
        )
        for each in audit.hyperparameters
    ]
    return section(
        "hyperparameters",
        "Hyperparameters",
        _p("Lengthscales relative to the range of their input, variances relative to the variance of y."),
        table(("name", "value", "relative", "limit", "remark"), rows),
    )


def _verdict(level: Coverage) -> Markup:
    if level.plausible is None:
        return Markup("not tested")
    return Markup(f'<span class="{"good" if level.plausible else "bad"}">{level.verdict}</span>')


def _tested(calibration: Calibration) -> str:
    """Sentences that explain the ranges of shares and bins."""
    start = f"{calibration.n} rows that training did not use."
    if calibration.test is None:
        return f"{start} Shares have no ranges here: {calibration.untested}."
    k = calibration.tested.size
    chosen = (
        f" Shares and bins are those of {k} of them, drawn before the targets were read." if k < calibration.n else ""
    )
    return (
        f"{start}{chosen} Their targets are dependent, so {calibration.test.sets} sets of targets were drawn from the "
        "model's joint law: all shares and all bins together are in their ranges with probability at least 95 % if "
        f"the predictions are right (N-rank). p = {calibration.test.p_value:.2g}."
    )


def _calibration(audit: Audit) -> str:
    calibration = audit.calibration
    if calibration is None:
        return ""
    scores = [("RMSE", calibration.rmse), ("log loss", calibration.log_loss)]
    rows = [
        (name, f"{value:.5g}", "" if calibration.baseline is None else f"{calibration.baseline[i]:.5g}")
        for i, (name, value) in enumerate(scores)
    ]
    shares = [
        (
            f"{100 * each.level:g} %",
            f"{100 * each.share:.2f} %",
            "" if each.low is None or each.high is None else f"{100 * each.low:.2f} to {100 * each.high:.2f} %",
            _verdict(each),
        )
        for each in calibration.coverage
    ]
    numbers = (
        audit.numbers[-calibration.n :] if len(audit.numbers) >= calibration.n else np.arange(1, calibration.n + 1)
    )
    return section(
        "calibration",
        "Calibration on held-out rows",
        _p(_tested(calibration)),
        '<div class="pictures">',
        picture(coverage_chart(calibration), "Share of targets within the central interval of each level."),
        picture(
            histogram(calibration),
            "P(Y ≤ y) under the prediction: flat for right predictions, highest at both ends if intervals are too "
            "narrow, in the middle if they are too wide.",
        ),
        picture(prediction_chart(calibration, numbers), "Targets against predictions."),
        "</div>",
        table(("interval", "covers", "expected", ""), shares),
        table(("score", "model", "without inputs"), rows),
    )


def _risk(audit: Audit) -> str:
    risk = audit.risk
    if risk is None:
        return ""
    text = (
        f"The loss is 1 where a draw of the latent function misses the target by more than {risk.epsilon:g}, else 0. "
        f"Its mean over {risk.rows} held-out rows is {risk.risk:.5g}. With probability "
        f"{100 * float(risk.bound.confidence):g} % its mean at new rows is at most "
        f"{outward(float(risk.bound), 'upper', 5)}"
    )
    return section("risk", "Risk certificate", _p(Markup(f"{escaped(text)}{_cited(claims_of(risk.bound))}.")))


def _latent_enough(enough: LatentEnough | None) -> str:
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
            latent_divergence_chart(enough),
            "Areas lie between the lower and the upper bound. Where the upper one stays level, more points do not "
            "help: what is left is the bound's, or the posterior is not Gaussian.",
        ),
        picture(elbo_chart(enough), "ELBOs of the laws, and the bounds on log p(y), in nats above the largest ELBO."),
        "</div>",
        table(HEADER, rows),
        _p(LEGEND),
    )


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


def _scores(audit: LatentAudit) -> str:
    """Scores of the model's predictions."""
    if not audit.scores:
        return ""
    rows = [(name, f"{value:.5g}") for name, value in audit.scores.items()]
    return section("scores", "Scores at held-out rows", table(("score", "model"), rows))


def foundations(bounds: Iterable[Bound], claims: set[str], notes: Iterable[str]) -> str:
    """The claims, the assumptions of ``bounds``, and the notes."""
    assumptions = dict.fromkeys(sentence for bound in bounds for sentence in bound.assumptions)
    entries = "".join(
        f'<dt id="{claim.id}">{claim.id}</dt><dd>{escaped(claim.statement)}</dd>\n'
        for claim in ledger()
        if claim.id in claims
    )
    lists = [
        f"<h3>{name}</h3><ul>{''.join(f'<li>{escaped(text)}</li>' for text in texts)}</ul>\n"
        for name, texts in (("Assumptions", assumptions), ("Notes", notes))
        if texts
    ]
    return section("foundations", "What this rests on", f'<h3>Claims</h3><dl class="claims">\n{entries}</dl>\n', *lists)


def cited(audit: AuditRecord[Any, Any]) -> set[str]:
    """Ids of all claims that the page names."""
    texts = [claim for finding in audit.findings for claim in finding.claims]
    texts += [bound.claim for bound in audit.bounds]
    if isinstance(audit, LatentAudit):
        texts.append("N-fisher")
    elif isinstance(audit, Audit):
        if audit.enough is not None:
            enough = audit.enough
            texts += ["N-low", "N-monoQ"]
            texts += [end.claim for level in enough.levels for end in level.divergence(enough.evidence)]
        if audit.compared is not None:
            texts.append("N-solve")
        if audit.consequences is not None:
            texts += ["L-30", "L-31"]
    return {name for text in texts for name in re.split(", | and ", text)}


STYLE = """
.findings { list-style: none; padding: 0; }
.findings li { display: flex; gap: .6rem; margin: .5rem 0; padding: .5rem .7rem; background: var(--panel);
  border-left: 4px solid currentColor; border-radius: .2rem; }
.findings li > div { color: var(--ink); } .sign { font-weight: bold; width: 1rem; text-align: center; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 0 1.5rem; }
.pictures figure { min-width: 0; } .value { display: block; min-height: 1.5em; font-size: .9rem; }
svg.chart circle:hover, svg.chart .near { stroke: #000; stroke-width: 1.5; } svg.chart { min-width: 20rem; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; } .claims dt { font-weight: bold; } .claims dd { margin: 0 0 .4rem 1rem; }
.claims dt:target, .claims dt:target + dd { background: var(--panel); } dd, li { overflow-wrap: anywhere; }
#enough td { white-space: nowrap; }
caption { text-align: left; font-weight: bold; padding: .3rem 0; } td:first-child { white-space: nowrap; }
@media print { svg.chart { min-width: 0; } .pictures { grid-template-columns: 1fr 1fr; } table { font-size: 9pt; }
  .findings li { border: 1px solid #888; border-left-width: 4px; } a { color: inherit; text-decoration: none; } }
"""

SCRIPT = """
"use strict";
const REACH = 30;
for (const chart of document.querySelectorAll("svg.chart")) {
  const output = chart.closest("figure").querySelector("output");
  const marks = [...chart.querySelectorAll("circle, rect")].filter(mark => mark.querySelector("title"));
  let near = null;
  const show = event => {
    let best = null, least = REACH;
    for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      const dx = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const dy = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const distance = Math.hypot(dx, dy);
      if (distance < least) { best = mark; least = distance; }
    }
    if (near) near.classList.remove("near");
    near = best;
    if (near) near.classList.add("near");
    output.value = near ? near.querySelector("title").textContent : "";
  };
  chart.addEventListener("pointermove", show);
  chart.addEventListener("pointerdown", show);
}
"""
