"""Copies of the examples for sphinx-gallery: with a title, a text in reStructuredText and the committed picture."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from plain_text import converted, prose

HEADER = """\
Examples
========

Each script is in the folder ``examples/`` of the repository and runs by itself; some run for hours.  The build of this
site runs none of them: it shows pictures that were made before.  Their numbers are on the page :doc:`/copies/results`.
"""


def copied(scripts: Path, target: Path, pictures: Path) -> str:
    """Copy every script that can be run; return the folder of the copies.

    A script can be run if its docstring holds a command.  Its picture is NAME.png in ``pictures``, or in the folder
    ``results`` of the scripts.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / "GALLERY_HEADER.rst").write_text(HEADER, encoding="utf-8")
    for script in sorted(scripts.glob("*.py")):
        source = script.read_text(encoding="utf-8")
        words = ast.get_docstring(ast.parse(source))
        if words and f"python examples/{script.name}" in words:
            candidates = [folder / f"{script.stem}.png" for folder in (pictures, scripts / "results")]
            shown = next((path for path in candidates if path.exists()), None)
            (target / script.name).write_text(_copy(source, words, shown, target), encoding="utf-8")
    return str(target)


def titled(words: str) -> str:
    """A short title: the first line up to its first stop or bracket.

    >>> titled("The trace (a mean): its law.")
    'The trace'
    >>> titled("Which trace is least?  (Fig. 1)")
    'Which trace is least?'
    >>> titled("Tr(K - Q): its mean.")
    'Tr(K - Q)'
    """
    first = words.splitlines()[0]
    head = re.split(r"[:;]|\s\(|\.(?=\s|$)|(?<=\?)", first, maxsplit=1)[0].strip()
    return head or first


def _copy(source: str, words: str, picture: Path | None, folder: Path) -> str:
    title = titled(words)
    heading = prose(title, links=False)
    shown = ""
    comment = ""
    if picture is not None:
        where = "/" + str(picture.relative_to(folder.parent)) if picture.is_relative_to(folder.parent) else ""
        if not where:
            (folder / picture.name).write_bytes(picture.read_bytes())
            where = f"/{folder.name}/{picture.name}"
        shown = f".. image:: {where}\n   :alt: {title}\n   :class: sphx-glr-single-img\n\n"
        comment = f"\n# sphinx_gallery_thumbnail_path = {where[1:]!r}\n"
    body = "\n".join(converted(words.splitlines()))
    docstring = f'r"""\n{heading}\n{"=" * max(4, len(heading))}\n\n{shown}{body}\n"""\n'
    tree = ast.parse(source)
    rest = source.splitlines(keepends=True)[tree.body[0].end_lineno :]
    return docstring + comment + "".join(rest)
