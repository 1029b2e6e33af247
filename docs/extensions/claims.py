"""The role ``claim``, and the page of all claims beside the site's own pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes

from gpbounds.claims import find
from gpbounds.pages import claims_page

FOLDER = "claims"


def claim_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """A link to the claim on the page of claims; its statement is the link's title."""
    claim = find(text)
    document = inliner.document.settings.env.docname
    up = "../" * document.count("/")
    link = nodes.reference(rawtext, text, refuri=f"{up}{FOLDER}/index.html#{claim.id}", reftitle=claim.statement)
    return [link], []


def _write(app: Any, exception: BaseException | None) -> None:
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, FOLDER)
        folder.mkdir(exist_ok=True)
        (folder / "index.html").write_text(claims_page({}), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Add the role, and write the page after the others."""
    app.add_role("claim", claim_role)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
