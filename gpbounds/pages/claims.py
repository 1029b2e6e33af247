"""The claims of the ledger as one page: statement, verdict, status, proof, function, check, what a run has observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpbounds.claims import STATUSES, VERDICTS, Claim, ledger, named_claims
from gpbounds.pages.chart import Chart
from gpbounds.pages.html import Markup, document, escaped
from gpbounds.pages.marks import Level, Line

_PAPERS = {
    "R": "Yue & Kontar, Rényi Gaussian processes",
    "L": "Daskalakis et al., low-rank kernels",
    "P": "Reeb et al., PAC-Bayes",
    "D": "Wei et al., direct loss minimisation",
    "N": "this project",
}
"""The letter of an id, and the paper."""

_STATES = ("checked in this run", "checked in other runs", "not built")
_MEANINGS = {
    "holds": "true as printed",
    "extra hypothesis": "true under a hypothesis that is not printed",
    "misprint": "misprinted, with a clear intention",
    "false": "wrong as printed",
    "ill-defined": "without a meaning as printed",
    "new": "not in the papers",
}
_BASES = {
    "proved in the paper": "by the paper, or by a source that it cites",
    "proved here": "the proof is below",
    "checked numerically only": "no proof is known here",
}
"""The statuses of the true statement, and what they mean."""


def claims_page(
    observed: Mapping[str, Mapping[str, Any]],
    title: str = "Claims",
    earlier: Sequence[str] = (),
    pictures: Mapping[str, str] | None = None,
) -> str:
    """All claims of the ledger with what a run of the checks has observed.

    Parameters
    ----------
    observed : mapping of claim id to a record
        The keys of a record are those of the claims report, and "ratios": bound/truth of the cases.  There may be none.
    title : str
    earlier : sequence of str
        What other runs have measured, and when: a line for each.
    pictures : mapping of a script that a claim names to the address of its picture, optional

    Returns
    -------
    str
        A page that needs no other file and no network.

    >>> page = claims_page({"R-thm1": {"cases": 25, "worst_slack": 0.5, "ratios": [1.5, 2.0]}})
    >>> page.count('<article id="') == len(ledger()), "<dd>25</dd>" in page
    (True, True)
    """
    claims = ledger()
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
    summary = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    bases = {status: sum(claim.status == status for claim in claims) for status in STATUSES}
    proofs = ", ".join(f"{number} {status}" for status, number in bases.items())
    checked = sum(state(claim, observed) == _STATES[0] for claim in claims)
    run = f"This run has checked {checked} of them." if observed else "The page shows the ledger, without a run."
    body = (
        f"<header><h1>{escaped(title)}</h1>\n<p>{len(claims)} claims: {escaped(summary)}. "
        f"{run} The verdict is about the form that the paper prints; the statement is the true one. "
        f"The statements: {escaped(proofs)}.</p>\n"
        f"{_earlier(earlier)}{_controls()}</header>\n<main>\n"
        + "\n".join(_article(claim, observed, pictures or {}) for claim in claims)
        + "\n</main>"
    )
    return document(title, body, style=STYLE, script=SCRIPT)


def _earlier(lines: Sequence[str]) -> Markup:
    """The lines as a list; nothing where there is none."""
    items = "".join(f"<li>{escaped(line)}</li>" for line in lines)
    return Markup(f'<ul class="soft">{items}</ul>\n' if items else "")


def state(claim: Claim, observed: Mapping[str, Any]) -> str:
    """Whether this run has checked the claim; one of `_STATES`."""
    if not claim.built:
        return _STATES[2]
    return _STATES[0] if claim.id in observed else _STATES[1]


def proof(claim: Claim) -> str:
    """The proof, its source, or the reason why it is missing; then the proof of a sharper form, if that is another one.

    >>> from gpbounds.claims import find
    >>> proof(find("R-lem3"))[:13]
    'In the paper:'
    >>> proof(find("N-conc"))[:27]
    'With φ_i(β) = log(1+βd_i)/β'
    """
    text = claim.proof or claim.unproved or claim.source or f"In the paper: {claim.place}."
    return text + (f"\n\nOf the sharper form: {claim.sharper_proof}" if claim.sharper_proof else "")


def _linked(text: str) -> str:
    """The text with a link for each claim that it names.

    >>> _linked("By R-lem3, x < 1")
    'By <a href="#R-lem3">R-lem3</a>, x &lt; 1'
    """
    return named_claims().sub(r'<a href="#\1">\1</a>', escaped(text))


def _controls() -> Markup:
    def select(name: str, title: str, options: Sequence[tuple[str, str]]) -> str:
        items = "".join(f'<option value="{escaped(value)}">{escaped(text)}</option>' for value, text in options)
        return f'<label>{title} <select id="{name}"><option value="">all</option>{items}</select></label>'

    papers = [(letter, f"{letter}: {name}") for letter, name in _PAPERS.items()]
    return Markup(
        '<form class="screen" id="filters" role="search">'
        '<label>Search <input id="search" type="search" placeholder="id or words" autocomplete="off"></label>'
        + select("paper", "Paper", papers)
        + select("verdict", "Verdict", [(verdict, verdict) for verdict in VERDICTS])
        + select("status", "Status", [(status, status) for status in STATUSES])
        + select("state", "State", [(each, each) for each in _STATES])
        + '<output id="count" aria-live="polite"></output>'
        '<span class="soft">Keys: / searches, j and k move, Esc shows all</span></form>\n'
    )


def _article(claim: Claim, observed: Mapping[str, Mapping[str, Any]], pictures: Mapping[str, str]) -> str:
    record = observed.get(claim.id)
    rows: list[tuple[str, Any]] = [("Place", claim.place)]
    if claim.printed:
        rows.append(("Printed form", claim.printed))
    if claim.sharper:
        rows.append(("Sharper form", claim.sharper))
    text = proof(claim)
    name = "Unproved" if claim.unproved else "Proof"
    rows.append((name, Markup(f'<div class="proof">{_linked(text)}</div>')))
    rows.append(("Function", Markup(f"<code>{escaped(claim.function)}</code>") if claim.function else "not built"))
    rows.append(("Check", Markup(f"<code>{escaped(claim.check)}</code>") if claim.check else "not built"))
    if claim.picture:
        drawn = Markup(f"<code>{escaped(claim.picture)}</code>")
        address = pictures.get(claim.picture)
        rows.append(("Picture", Markup(f'<a href="{escaped(address)}">{drawn}</a>') if address else drawn))
    if record is not None:
        rows += _figures(record)
    entries = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in rows)
    colour = {"holds": "good", "new": "good", "extra hypothesis": "warn", "misprint": "warn"}.get(claim.verdict, "bad")
    attributes = (
        f'data-paper="{claim.id[0]}" data-verdict="{claim.verdict}" data-status="{claim.status}" '
        f'data-state="{state(claim, observed)}"'
    )
    basis = "warn" if claim.unproved else "good"
    return (
        f'<article id="{claim.id}" tabindex="-1" {attributes}>\n<h2><a href="#{claim.id}">{claim.id}</a> '
        f'<span class="{colour}" title="{_MEANINGS[claim.verdict]}">{claim.verdict}</span> <span class="soft">·</span> '
        f'<span class="{basis}" title="{_BASES[claim.status]}">{claim.status}</span></h2>\n'
        f'<p class="statement">{escaped(claim.statement)}</p>\n<dl>{entries}</dl>{_picture(claim, record)}</article>'
    )


def _figures(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("Cases tried", record.get("cases", 0))]
    if record.get("worst_slack") is not None:
        rows.append(("Least slack", f"{record['worst_slack']:.4g}"))
    if record.get("worst_relative_error"):
        rows.append(("Largest relative error", f"{record['worst_relative_error']:.3g}"))
    for why in record.get("counterexamples", ()):
        rows.append(("Counterexample", why))
    for trial in record.get("failure_frequencies", ()):
        rows.append(("Failures", ", ".join(f"{name} {value:.4g}" for name, value in trial.items())))
    for test in record.get("checks", ()):
        rows.append(("Test", Markup(f"<code>{escaped(test)}</code>")))
    return rows


def _picture(claim: Claim, record: Mapping[str, Any] | None) -> str:
    """Bound/truth of the tried cases in increasing order; nothing where no ratio is known."""
    ratios = sorted(ratio for ratio in (record or {}).get("ratios", ()) if 0.0 < ratio < float("inf"))
    if len(ratios) < 2:
        return ""
    several = min(len(ratios), POINTS)
    chosen = [round(i * (len(ratios) - 1) / (several - 1)) for i in range(several)]
    line = Line("bound/truth", [100.0 * i / (len(ratios) - 1) for i in chosen], [ratios[i] for i in chosen], "#0072B2")
    chart = Chart(
        [line, Level("equality", 1.0, "#009E73")],
        "share of the cases, %",
        "bound/truth",
        log_y=ratios[-1] > 20.0 * ratios[0],
        width=360.0,
        height=190.0,
        legend=False,
        about=f"Tightness of {claim.id}: bound divided by truth, for the cases in increasing order",
    )
    return f"<figure>{chart.svg()}<figcaption>Tightness: 1 is equality.</figcaption></figure>"


POINTS = 24
"""Largest number of dots in a picture."""

STYLE = """
#filters { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; position: sticky; top: 0; z-index: 1;
  padding: .5rem 0; background: var(--ground); border-bottom: 1px solid var(--line); }
#filters input, #filters select { font: inherit; max-width: 100%; } header { display: contents; }
article { padding: .8rem 0; border-bottom: 1px solid var(--line); scroll-margin-top: 7rem; overflow-wrap: anywhere; }
article:target, article:focus { background: var(--panel); outline: none; border-left: 4px solid var(--link);
  padding-left: .6rem; }
article[hidden] { display: none; }
article h2 { margin: 0; font-size: 1.05rem; } article h2 span { font-weight: normal; }
.statement { margin: .3rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .9rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; } .proof { margin: 0; white-space: pre-wrap; }
@media (max-width: 40rem) {
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .3rem; } #filters { position: static; } }
"""

SCRIPT = """
"use strict";
const claims = [...document.querySelectorAll("article")];
const texts = claims.map(claim => claim.textContent.toLowerCase());
const form = document.getElementById("filters"), count = document.getElementById("count");
const field = name => document.getElementById(name);
function filter() {
  const words = field("search").value.toLowerCase().split(/\\s+/).filter(word => word);
  let shown = 0;
  claims.forEach((claim, i) => {
    const fits = ["paper", "verdict", "status", "state"].every(
      name => !field(name).value || claim.dataset[name] === field(name).value);
    claim.hidden = !(fits && words.every(word => texts[i].includes(word)));
    shown += !claim.hidden;
  });
  count.value = `${shown} of ${claims.length}`;
}
function open() {
  const claim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!claim || !claims.includes(claim)) return;
  if (claim.hidden) { form.reset(); filter(); }
  claim.scrollIntoView();
  claim.focus({preventScroll: true});
}
function move(step) {
  const visible = claims.filter(claim => !claim.hidden);
  if (!visible.length) return;
  const at = visible.indexOf(document.activeElement.closest("article"));
  const next = visible[at < 0 ? 0 : Math.min(Math.max(at + step, 0), visible.length - 1)];
  next.focus({preventScroll: true});
  next.scrollIntoView();
}
form.addEventListener("input", filter);
form.addEventListener("submit", event => event.preventDefault());
addEventListener("hashchange", open);
addEventListener("keydown", event => {
  const typing = event.target.matches("input, select");
  if (event.key === "Escape") { form.reset(); filter(); document.activeElement.blur(); }
  else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "/") { event.preventDefault(); field("search").focus(); }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
});
filter();
open();
"""
