"""The role ``claim``, the directives ``proofs`` and ``counts``, and the page of all claims beside the site's pages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from gpbounds.claims import STATUSES, Claim, find, ledger, named_claims
from gpbounds.pages import claims_page

FOLDER = "claims"


def claim_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = (),
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """A link to the claim on the page of claims; its statement is the link's title."""
    return [_link(text, inliner.document.settings.env.docname)], []


def _link(id: str, document: str) -> nodes.reference:
    claim = find(id)
    up = "../" * document.count("/")
    return nodes.reference(
        id, id, refuri=f"{up}{FOLDER}/index.html#{claim.id}", reftitle=claim.statement
    )


def linked(text: str, document: str) -> list[nodes.Node]:
    """The text of a document with a link for each claim that it names."""
    parts = named_claims().split(text)
    return [_link(part, document) if i % 2 else nodes.Text(part) for i, part in enumerate(parts)]


class Proofs(SphinxDirective):
    """The claims that are proved here, with their proofs.

    With the argument ``sharper`` the sharper forms of other claims; with ``none`` the claims without a proof.
    """

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One entry a claim: its statement, and its proof or what is known without one."""
        entries = nodes.definition_list()
        wanted = self.arguments[0] if self.arguments else "proof"
        for claim in ledger():
            if wanted == "sharper" and claim.sharper_proof:
                entries += self._entry(claim, claim.sharper, claim.sharper_proof)
            elif text := {"proof": claim.proof, "none": claim.unproved}.get(wanted):
                entries += self._entry(claim, claim.statement, text)
        return [entries]

    def _entry(self, claim: Claim, statement: str, text: str) -> nodes.definition_list_item:
        body = nodes.definition("", self._paragraph(statement))
        word = "" if claim.unproved else "Proof. "
        for i, paragraph in enumerate(text.strip().split("\n\n")):
            body += self._paragraph((word if i == 0 else "") + " ".join(paragraph.split()))
        return nodes.definition_list_item(
            "", nodes.term("", "", _link(claim.id, self.env.docname)), body
        )

    def _paragraph(self, text: str) -> nodes.paragraph:
        """The text with its links; its primes are not quotation marks."""
        return nodes.paragraph("", "", *linked(text, self.env.docname), support_smartquotes=False)


class Counts(SphinxDirective):
    """How many claims have each status."""

    def run(self) -> list[nodes.Node]:
        """One sentence."""
        counts = Counter(claim.status for claim in ledger())
        parts = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
        return [nodes.paragraph(text=f"Of the {len(ledger())} statements in the ledger: {parts}.")]


def pictures(site: Path) -> dict[str, str]:
    """The page of the gallery for each script that a claim names, as seen from the page of claims.

    Raises
    ------
    FileNotFoundError
        if the site has no such page.
    """
    scripts = {claim.picture for claim in ledger() if claim.picture}
    pages = {script: f"gallery/{Path(script).stem}.html" for script in scripts}
    if missing := sorted(page for page in pages.values() if not (site / page).exists()):
        raise FileNotFoundError(f"the site lacks {', '.join(missing)}, which claims name")
    return {script: f"../{page}" for script, page in pages.items()}


def _write(app: Any, exception: BaseException | None) -> None:
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, FOLDER)
        folder.mkdir(exist_ok=True)
        (folder / "index.html").write_text(
            claims_page({}, pictures=pictures(Path(app.outdir))), encoding="utf-8"
        )


def setup(app: Any) -> dict[str, Any]:
    """Add role and directive, and write the page after the others."""
    app.add_role("claim", claim_role)
    app.add_directive("proofs", Proofs)
    app.add_directive("counts", Counts)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
