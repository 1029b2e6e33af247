"""Figures whose files are replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gpbounds.files import replacing


class WholeFigure(Figure):
    """A matplotlib figure; the file that `savefig` writes is the old one or the new one at every moment."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As matplotlib's; for a path, through `gpbounds.files.replacing`."""
        if not isinstance(fname, str | os.PathLike):
            super().savefig(fname, **options)
            return
        suffix = Path(fname).suffix.removeprefix(".").lower()
        chosen = options.pop("format", None) or suffix or "png"
        with replacing(fname if suffix else f"{os.fspath(fname)}.{chosen}", "wb") as file:
            super().savefig(file, format=chosen, **options)
