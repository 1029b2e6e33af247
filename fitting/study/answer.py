"""What a study returns: one record that is shown as text, as a page, as a figure and as JSON."""

from __future__ import annotations

import html
import io
from abc import ABC, abstractmethod
from os import PathLike
from pathlib import Path
from typing import Any

from gpbounds.files import replacing
from gpbounds.records import plain, to_json

PAGES = (".html", ".htm")


class Answer(ABC):
    """A record with its text, ``str(answer)``, and its page."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The record in plain types, ready for JSON."""

    @abstractmethod
    def page(self) -> str:
        """The page for a browser, which needs no other file and no network."""

    @abstractmethod
    def plot(self) -> Any:
        """The figure, a `matplotlib.figure.Figure`."""

    def print(self) -> None:
        """Print the text."""
        print(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page (``.html``) or the record (``.json``), complete or not at all.

        Raises
        ------
        ValueError
            for a name with another ending.
        OSError
            if the file cannot be written.
        """
        place = Path(path)
        suffix = place.suffix.lower()
        if suffix not in (*PAGES, ".json"):
            raise ValueError(f"path: expected a name that ends in .html or .json, got {str(path)!r}")
        text = (
            self.page()
            if suffix in PAGES
            else to_json(plain(self.to_dict(), spelled=True), indent=2, ascii=False) + "\n"
        )
        with replacing(place) as file:
            file.write(text)

    def _repr_html_(self) -> str:
        """The page in a notebook, in a frame of its own, so that its styles stay inside."""
        return (
            f'<iframe srcdoc="{html.escape(self.page(), quote=True)}" style="width: 100%; height: 40rem; border: 0" '
            'title="page"></iframe>'
        )


def inline(figure: Any) -> str:
    """A figure as SVG inside a page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
