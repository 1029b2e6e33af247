"""The directive ``command``: the page of a command of the shell, made from its parser."""

from __future__ import annotations

import argparse
import re
from typing import Any

from claims import linked
from docutils import nodes
from parsers import actions_of, blocks, divided, options_of, parser_of, usage
from sphinx.util.docutils import SphinxDirective


class Command(SphinxDirective):
    """The description, usage, options and examples of the command that the argument names, and of its actions."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the page below its title."""
        return self._described(parser_of(self.arguments[0]))

    def _described(self, parser: argparse.ArgumentParser) -> list[nodes.Node]:
        result: list[nodes.Node] = []
        if parser.description:
            result.append(self._paragraph(parser.description.rstrip(".") + "."))
        actions = actions_of(parser)
        if not actions:
            result.append(self._code(usage(parser)))
            result += (
                [self._section("Examples", self._examples(parser.epilog))] if parser.epilog else []
            )
            for title, rows in options_of(parser):
                heading, remark = divided(title)
                body = [self._paragraph(remark)] if remark else []
                result.append(self._section(heading, [*body, self._table(parser, rows)]))
        for name, action in actions.items():
            result.append(self._section(f"{parser.prog} {name}", self._described(action)))
        return result

    def _section(self, title: str, body: list[nodes.Node]) -> nodes.section:
        name = title[0].upper() + title[1:] if not title.startswith("gpbounds") else title
        section = nodes.section(
            "", nodes.title("", name), *body, names=[nodes.fully_normalize_name(name)]
        )
        self.state.document.note_implicit_target(section, section)
        return section

    def _examples(self, epilog: str) -> list[nodes.Node]:
        return [
            self._code(text) if code else self._paragraph(text)
            for code, text in blocks(epilog)
            if text not in ("example:", "examples:")
        ]

    def _table(
        self, parser: argparse.ArgumentParser, rows: list[tuple[str, str]]
    ) -> nodes.definition_list:
        entries = nodes.definition_list(classes=["options"])
        for written, meaning in rows:
            term = nodes.term("", "", nodes.literal("", written))
            for option in re.findall(r"--[\w-]+", written):
                term["ids"].append(f"{parser.prog} {option}".replace(" ", "-"))
            entries += nodes.definition_list_item(
                "", term, nodes.definition("", self._paragraph(meaning))
            )
        return entries

    def _paragraph(self, text: str) -> nodes.paragraph:
        """The text, with words between backticks as code and a link for each claim."""
        parts: list[nodes.Node] = []
        for i, part in enumerate(re.split(r"`+([^`]+)`+", text)):
            parts += [nodes.literal("", part)] if i % 2 else linked(part, self.env.docname)
        return nodes.paragraph("", "", *parts, support_smartquotes=False)

    def _code(self, text: str) -> nodes.literal_block:
        return nodes.literal_block(text, text, language="text")


def setup(app: Any) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
