"""Docstrings in plain text become reStructuredText: mathematics is kept as it is written, and claims become links.

Parameters that a docstring describes "as in" another object are described from that object's docstring.

The docstrings of this project are written for a terminal.  They hold formulas such as log|K + σ²I| and q*, whose bars,
stars and underscores reStructuredText takes for markup.  Here these characters are escaped, except in ``code``, in
`names`, in examples (``>>>``) and in the names of parameters; indented formulas and tables become literal blocks.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import fitting
from gpbounds.claims import named_claims

ABBREVIATIONS = ("Prop.", "Eq.", "Eqs.", "Fig.", "Figs.", "Sec.", "App.", "Thm.", "cf.")
"""They do not end the first sentence of a docstring, which is its summary."""

_CLAIM = named_claims()
_CODE = re.compile(r"(``.+?``|:[\w:]+:`[^`]+`|`[^`\n]+`_?)", re.DOTALL)
_MARKUP = re.compile(r"([\\*|_])")
_AFTER = re.compile(r"[\s'\")\]}>\-/\\.,:;!?]")
_BEFORE = re.compile(r"[\s'\"(\[{<\-/:]$")
_SECTION = re.compile(r"^-{3,}\s*$")
_TABLE = re.compile(r"\S {3,}\S")
_EXTERNAL = re.compile(r"\b((?:numpy|matplotlib|sklearn)(?:\.\w+)+)")
_TYPED = re.compile(r"^[\w*, .]+ : ")
_SHARED = re.compile(r"^(?P<names>[\w, ]+) : as in `(?P<owner>[\w.]+)`(?P<rest>.*)$")
_ENTRY = re.compile(r"^(?P<names>[\w*, ]+)(?P<type> : .*)?$")
_EXAMPLES = "Examples"


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
    section = ""
    for paragraph in _paragraphs(lines):
        heading = len(paragraph) > 1 and bool(_SECTION.match(paragraph[1]))
        section = paragraph[0].strip() if heading else section
        if paragraph[0].lstrip().startswith(">>>"):
            if section not in (
                "",
                _EXAMPLES,
            ):  # numpydoc would read them as the entries of that section
                result += [_EXAMPLES, "-" * len(_EXAMPLES), ""]
                section = _EXAMPLES
            result += paragraph
        elif heading:
            result += [*paragraph[:2], *_entries(paragraph[2:])]
        elif section:
            result += _entries(paragraph)
        elif all(line.startswith("  ") for line in paragraph):
            result += [".. code-block:: text", "", *paragraph]
        elif any(_TABLE.search(line) for line in paragraph):
            result += [".. code-block:: text", "", *("    " + line for line in paragraph)]
        else:
            result += prose("\n".join(paragraph)).split("\n")
        result.append("")
    return result


def resolved(
    lines: Sequence[str], docstring_of: Callable[[str], Sequence[str] | None]
) -> list[str]:
    """The lines with the entries of a and b in the docstring of ``other`` in place of ``a, b : as in `other```.

    Words after the name of ``other``, and a text below the entry, follow the first of these entries.  An entry stays
    as it is if ``other`` has no docstring (None) or does not describe each of the names.

    >>> other = ["Parameters", "----------", "a : int", "    Rows.", "b, c : float"]
    >>> resolved(["Parameters", "----------", "a, c : as in `other`, or 0", "d : int"], lambda name: other)
    ['Parameters', '----------', 'a : int', '    Rows.', '', '    Here: or 0.', 'c : float', 'd : int']
    """
    result: list[str] = []
    for line, *below in _with_texts(lines):
        shared = _SHARED.match(line)
        described = _described(docstring_of(shared["owner"]) or ()) if shared else {}
        names = shared["names"].split(", ") if shared else []
        if not shared or not set(names) <= set(described):
            result += [line, *below]
            continue
        entries = [[f"{name}{described[name][0]}", *described[name][1:]] for name in names]
        note = shared["rest"].strip(" ,.")
        own = [f"    Here: {note}."] * bool(note) + below
        result += [*entries[0], *[""] * bool(own and entries[0][1:]), *own]
        result += [each for entry in entries[1:] for each in entry]
    return result


def _with_texts(lines: Sequence[str]) -> Iterator[list[str]]:
    """Each line that is not indented, together with the indented lines that follow it."""
    current: list[str] = []
    for line in lines:
        if not line.startswith(" ") and current:
            yield current
            current = []
        current.append(line)
    if current:
        yield current


def _described(lines: Sequence[str]) -> dict[str, list[str]]:
    """For each parameter in a docstring: what follows its name, and the lines of its text."""
    described: dict[str, list[str]] = {}
    section = ""
    runs = list(_with_texts(lines))
    for run, after in zip(runs, [*runs, [""]][1:], strict=True):
        if _SECTION.match(after[0]):
            section = run[0]
        elif section == "Parameters" and (entry := _ENTRY.match(run[0])):
            text = [
                line for i, line in enumerate(run[1:], 1) if any(each.strip() for each in run[i:])
            ]
            described |= {
                name.strip(): [entry["type"] or "", *text] for name in entry["names"].split(",")
            }
    return described


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
    lines[:] = converted(resolved(lines, _docstrings_beside(obj)))


def _docstrings_beside(obj: Any) -> Callable[[str], list[str] | None]:
    """A function from a name, as a docstring of ``obj`` would write it, to the lines of that object's docstring."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")

    def docstring_of(name: str) -> list[str] | None:
        head, _, last = name.rpartition(".")
        other = getattr(sys.modules.get(head) if head else module, last, None) or getattr(
            fitting, last, None
        )
        doc = inspect.getdoc(other) if inspect.isclass(other) or inspect.isfunction(other) else None
        return None if doc is None else resolved(doc.splitlines(), _docstrings_beside(other))

    return docstring_of


def setup(app: Any) -> dict[str, Any]:
    """Convert docstrings before numpydoc reads them."""
    from sphinx.ext import autosummary

    app.connect("autodoc-process-docstring", _of_docstring, priority=400)
    autosummary.WELL_KNOWN_ABBREVIATIONS += ABBREVIATIONS
    return {"parallel_read_safe": True, "parallel_write_safe": True}
