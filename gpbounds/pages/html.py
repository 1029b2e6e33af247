"""Text with markup, tables, and a document that needs no other file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is markup already; any other text is escaped."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """``text`` as markup.

    >>> escaped("a < b"), escaped(Markup("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(str(text), quote=True))


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: str = "") -> Markup:
    """A table with a header row; every cell is escaped unless it is `Markup`."""
    head = "".join(f'<th scope="col">{escaped(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    words = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return Markup(
        f'<div class="wide"><table>{words}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
    )


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page: styles and script inside, printable, readable on small screens, light or dark."""
    code = f"<script>\n{script}\n</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n{body}\n{code}</body>\n</html>\n"
    )


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59626d; --line: #d5dae0; --ground: #fff; --panel: #f5f7f9;
  --link: #0b5cad; --good: #0a7a4b; --bad: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #a5afba; --line: #3a424b; --ground: #15181c;
  --panel: #1e2328; --link: #7db7f5; --good: #59c795; --bad: #ff8a80; --warn: #e6b450; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--ground);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
a { color: var(--link); } .soft { color: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
code, pre { font: .9em ui-monospace, "DejaVu Sans Mono", monospace; } pre { overflow-x: auto; padding: .6rem;
  background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .9rem; }
svg.chart { max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
svg.chart text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1b1f24; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; background: #fff; color: #000; }
  figure, tr, section > h2 { break-inside: avoid; } .screen { display: none; } }
"""
