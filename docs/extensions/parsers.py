"""What the page of a command shows, from its parser: usage, options, examples; and the files of these pages."""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpbounds.cli import COMMANDS
from gpbounds.cli.options import Parser, purpose

GROUPS = {
    "For a table": ("plan", "train", "audit", "examine", "predict", "certify"),
    "For a kernel, before there are data": ("rate", "curve"),
    "For one number": ("pac", "klinv", "mc"),
    "To look around": ("demo", "claims"),
}
"""The commands by what a reader has; the page of all commands lists them so."""

WIDTH = 88
"""Characters of a line of usage."""

INTRODUCTION = """\
# Commands

`pip install .` in a copy of the repository installs the command `gpbounds`. Each page below is made from the parser of
its command, so it says what `gpbounds COMMAND --help` says. `--json` prints the same numbers for a program; a wrong
option or a wrong cell of a table is answered by one sentence and exit status 2.

A walk with one table through plan, train, audit and predict: [Which M for my table?](../tutorials/table.md)
"""


def write_pages(folder: Path) -> None:
    """Write the page of all commands, ``index.md``, and a page for each command, which its directive fills.

    Raises
    ------
    ValueError
        for a command that stands in no group of `GROUPS`, and for a group's command that does not exist.
    """
    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(COMMANDS):
        raise ValueError(f"GROUPS: expected each of {sorted(COMMANDS)} once, got {sorted(grouped)}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    parts = [INTRODUCTION]
    for group, names in GROUPS.items():
        lines = [f"| [gpbounds {name}]({name}.md) | {COMMANDS[name]} |" for name in names]
        parts.append(
            "\n".join([f"## {group}\n", "| command | what it answers |", "|---|---|", *lines, ""])
        )
        for name in names:
            page = f"# gpbounds {name}\n\n```{{command}} {name}\n```\n"
            (folder / f"{name}.md").write_text(page, encoding="utf-8")
    parts.append("\n".join(["```{toctree}", ":hidden:", "", *grouped, "```", ""]))
    (folder / "index.md").write_text("\n".join(parts), encoding="utf-8")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one command, with its arguments.

    >>> parser_of("klinv").prog
    'gpbounds klinv'
    """
    module = importlib.import_module(f"gpbounds.cli.{name}")
    parser = Parser(
        prog=f"gpbounds {name}", description=purpose(module.__doc__), epilog=module.EPILOG
    )
    module.add(parser)
    return parser


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers under a parser, by name; none for a parser without actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def usage(parser: argparse.ArgumentParser) -> str:
    """The line of usage, broken at `WIDTH` characters.

    >>> usage(parser_of("klinv"))
    'gpbounds klinv [-h] [--json] Q D'
    """
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def options_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The groups of a parser's options: the title, and for each option how it is written and what it does.

    Hidden options and ``--help`` are left out.

    >>> dict(options_of(parser_of("klinv")))["options"]
    [('--json', 'print the result as JSON')]
    """
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    for group in parser._action_groups:
        rows = [
            (
                formatter._format_action_invocation(action),
                formatter._expand_help(action) if action.help else "",
            )
            for action in group._group_actions
            if action.help is not argparse.SUPPRESS
            and not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        ]
        if rows:
            yield (group.title or "").removeprefix("positional "), rows


def blocks(text: str) -> Iterator[tuple[bool, str]]:
    """The parts of an epilog: ``(True, lines of commands)`` and ``(False, a paragraph)``.

    A line is a command if it begins with the name of the program and stands at the beginning of a paragraph, after a
    colon, or after another command.

    >>> list(blocks("example:\\n  gpbounds rate -N 5\\n\\n  prints 3.  Ranges:\\n  gpbounds rate -N 5:9"))
    [(False, 'example:'), (True, 'gpbounds rate -N 5'), (False, 'prints 3. Ranges:'), (True, 'gpbounds rate -N 5:9')]
    """
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        runs: list[tuple[bool, list[str]]] = []
        for line in (each.strip() for each in paragraph.splitlines()):
            follows = not runs or runs[-1][0] or runs[-1][1][-1].endswith(":")
            code = follows and bool(re.match(r"gpbounds[ .]", line))
            if not runs or runs[-1][0] is not code:
                runs.append((code, []))
            runs[-1][1].append(line)
        for code, lines in runs:
            yield code, "\n".join(lines) if code else " ".join(" ".join(lines).split())


def divided(title: str) -> tuple[str, str]:
    """The title of a group of options, and a remark of several words in brackets at its end, as a sentence.

    >>> divided("the statement (fixed in advance)"), divided("features (lowrank)")
    (('the statement', 'Fixed in advance.'), ('features (lowrank)', ''))
    """
    match = re.fullmatch(r"(.*) \((.* .* .*)\)", title)
    return (match[1], f"{match[2][0].upper()}{match[2][1:]}.") if match else (title, "")
