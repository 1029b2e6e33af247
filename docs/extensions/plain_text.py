"""Docstrings in plain text become reStructuredText: mathematics is kept as it is written, and claims become links.

The docstrings of this project are written for a terminal.  They hold formulas such as log|K + σ²I| and q*, whose bars,
stars and underscores reStructuredText takes for markup.  Here these characters are escaped, except in ``code``, in
`names`, in examples (``>>>``) and in the names of parameters; indented formulas and tables become literal blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gpbounds.claims import named_claims

_CLAIM = named_claims()
_CODE = re.compile(r"(``.+?``|:[\w:]+:`[^`]+`|`[^`\n]+`_?)", re.DOTALL)
_MARKUP = re.compile(r"([\\*|_])")
_AFTER = re.compile(r"[\s'\")\]}>\-/\\.,:;!?]")
_BEFORE = re.compile(r"[\s'\"(\[{<\-/:]$")
_SECTION = re.compile(r"^-{3,}\s*$")
_TABLE = re.compile(r"\S {3,}\S")
_EXTERNAL = re.compile(r"\b((?:numpy|matplotlib|sklearn)(?:\.\w+)+)")
_TYPED = re.compile(r"^[\w*, .]+ : ")


def prose(text: str, *, links: bool = True) -> str:
    """Text with every character escaped that is markup, and with links to the claims it names.

    >>> print(prose("log|K| of q*, see `rate`(x) and R-thm1"))
    log\\|K\\| of q\\*, see `rate`\\ (x) and :claim:`R-thm1`
    """
    parts = _CODE.split(text)
    for i in range(0, len(parts), 2):
        escaped = _MARKUP.sub(r"\\\1", parts[i])
        parts[i] = _CLAIM.sub(r":claim:`\1`", escaped) if links else escaped
    # reStructuredText finds code and roles between spaces and punctuation only; an escaped space stands for one.
    for i in range(1, len(parts), 2):
        if parts[i + 1] and not _AFTER.match(parts[i + 1]):
            parts[i + 1] = "\\ " + parts[i + 1]
        if parts[i - 1] and not _BEFORE.search(parts[i - 1]):
            parts[i - 1] += "\\ "
    return "".join(parts)


def converted(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring as reStructuredText that numpydoc reads.

    >>> converted(["Bound on |x|.", "", "    |x| <= 1", "", ">>> abs(-1)", "1"])
    ['Bound on \\\\|x\\\\|.', '', '.. code-block:: text', '', '    |x| <= 1', '', '>>> abs(-1)', '1', '']
    """
    result: list[str] = []
    in_section = False
    for paragraph in _paragraphs(lines):
        heading = len(paragraph) > 1 and bool(_SECTION.match(paragraph[1]))
        in_section = in_section or heading
        if paragraph[0].lstrip().startswith(">>>"):
            result += paragraph
        elif heading:
            result += [*paragraph[:2], *_entries(paragraph[2:])]
        elif in_section:
            result += _entries(paragraph)
        elif all(line.startswith("  ") for line in paragraph):
            result += [".. code-block:: text", "", *paragraph]
        elif any(_TABLE.search(line) for line in paragraph):
            result += [".. code-block:: text", "", *("    " + line for line in paragraph)]
        else:
            result += prose("\n".join(paragraph)).split("\n")
        result.append("")
    return result


def _entries(lines: Sequence[str]) -> list[str]:
    """The lines of a section: ``name : type`` stays, descriptions are prose."""
    result = []
    for line in lines:
        typed = _TYPED.match(line)
        if typed:
            result.append(typed[0] + prose(_EXTERNAL.sub(r"`\1`", line[typed.end() :])))
        elif line and not line.startswith(" ") and re.fullmatch(r"[\w, ]+", line):
            result.append(line)  # a name or a type alone
        else:
            result.append(prose(line))
    return result


def _paragraphs(lines: Sequence[str]) -> Iterator[list[str]]:
    """Runs of lines that are not blank."""
    current: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            current.append(line)
        elif current:
            yield current
            current = []


def _of_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = converted(lines)


def setup(app: Any) -> dict[str, Any]:
    """Convert docstrings before numpydoc reads them."""
    app.connect("autodoc-process-docstring", _of_docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
