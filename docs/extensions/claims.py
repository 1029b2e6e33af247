"""The role ``claim``, the directive ``proofs``, and the page of all claims beside the site's own pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from gpbounds.claims import find, ledger
from gpbounds.pages import claims_page
from gpbounds.pages.claims import proof, written_proof

FOLDER = "claims"


def claim_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """A link to the claim on the page of claims; its statement is the link's title."""
    return [_link(text, inliner.document.settings.env.docname)], []


def _link(id: str, document: str) -> nodes.reference:
    claim = find(id)
    up = "../" * document.count("/")
    return nodes.reference(id, id, refuri=f"{up}{FOLDER}/index.html#{claim.id}", reftitle=claim.statement)


class Proofs(SphinxDirective):
    """The claims that are in no paper: those with a written proof, or with the argument ``other`` the others."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One entry a claim: its statement, and its proof or the place of one."""
        wanted = not self.arguments
        entries = nodes.definition_list()
        for claim in ledger():
            if claim.verdict == "new" and bool(written_proof(claim)) == wanted:
                entries += self._entry(claim)
        return [entries]

    def _entry(self, claim: Any) -> nodes.definition_list_item:
        text = proof(claim)
        said = text if text.startswith("Proof") or not written_proof(claim) else f"Proof.  {text}"
        body = nodes.definition("", nodes.paragraph(text=claim.statement), nodes.paragraph(text=said))
        return nodes.definition_list_item("", nodes.term("", "", _link(claim.id, self.env.docname)), body)


def _write(app: Any, exception: BaseException | None) -> None:
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, FOLDER)
        folder.mkdir(exist_ok=True)
        (folder / "index.html").write_text(claims_page({}), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Add role and directive, and write the page after the others."""
    app.add_role("claim", claim_role)
    app.add_directive("proofs", Proofs)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
