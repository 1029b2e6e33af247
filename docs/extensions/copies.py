"""Pages that are files of the repository, such as ARCHITECTURE.md: copies whose links fit the site."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "measured.md",
    "examples/RESULTS.md": "results.md",
    "examples/results/renyi.md": "results_renyi.md",
    "examples/results/lowrank.md": "results_lowrank.md",
    "examples/results/pac_gp.md": "results_pac_gp.md",
    "examples/results/dlm.md": "results_dlm.md",
    "examples/results/structured.md": "results_structured.md",
}
"""File of the repository, and the page of the site that shows it."""

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def copy_all(repository: Path, site: Path) -> list[str]:
    """Write every page of `PAGES` into the folder ``site/copies``; return their paths in the site."""
    folder = site / "copies"
    folder.mkdir(exist_ok=True)
    for source, page in PAGES.items():
        text = (repository / source).read_text(encoding="utf-8")
        (folder / page).write_text(adapted(text, Path(source), repository), encoding="utf-8")
    return [f"copies/{page}" for page in PAGES.values()]


def adapted(text: str, source: Path, repository: Path) -> str:
    """The text with every link to a file of the repository as seen from a page in docs/copies.

    Links to `PAGES` become links between pages; other files are offered for download.

    Raises
    ------
    ValueError
        for a link to a file that is not there.

    >>> adapted("[words](ARCHITECTURE.md#one-vocabulary)", Path("CONTRIBUTING.md"), Path("."))
    '[words](architecture.md#one-vocabulary)'
    """

    def replaced(match: re.Match[str]) -> str:
        parts = urlsplit(match[1])
        if parts.scheme or not parts.path:
            return match[0]
        name = (source.parent / parts.path).as_posix()
        fragment = f"#{parts.fragment}" if parts.fragment else ""
        if name in PAGES:
            return f"]({PAGES[name]}{fragment})"
        if not (repository / name).exists():
            raise ValueError(
                f"{source}: expected a link to a file of the repository, got {match[1]}"
            )
        return f"](../../{name}{fragment})"

    return _LINK.sub(replaced, text)
