"""The directive ``combinations``: what `gpbounds.rate` states for each combination of its arguments, from the code."""

from __future__ import annotations

from typing import Any

import numpy as np
from claims import linked
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import gpbounds

X = np.random.default_rng(0).uniform(0.0, 10.0, (60, 1))
SQUARE = gpbounds.Uniform([0.0, 0.0], [9.0, 9.0])
NORM: dict[str, Any] = {"y_norm2": 60.0}
BEFORE: dict[str, Any] = {**NORM, "y_norm2_known": "before"}
GIVEN: dict[str, Any] = {"y": np.sin(X[:, 0])}
INPUTS: dict[str, dict[str, Any]] = {
    "": {},
    "inputs=Empirical(X)": {"inputs": gpbounds.Empirical(X)},
    "simulate=39": {"inputs": SQUARE, "simulate": 39, "rng": 0},
}
TARGETS: dict[str, dict[str, Any]] = {
    "": {},
    "y_norm2=c": NORM,
    'y_norm2=c, y_norm2_known="before"': BEFORE,
    "y=y": GIVEN,
    'criterion="operator"': {"criterion": "operator"},
}
DRAWS: dict[str, dict[str, Any]] = {
    "": {},
    "draws=10": {"draws": 10},
    'draws="certain"': {"draws": "certain"},
}
KERNEL, N, M = gpbounds.SquaredExponential(), 60, 25
SUBJECTS = ("y is", "Kernel", "Z is drawn again", "Of the draws")
"""How the assumptions begin that tell one combination from another."""
HEAD = ("arguments", "theorems", "assumes", 'certified by "auto"', 'by "sharp"')


class Combinations(SphinxDirective):
    """A table: for each combination that has a bound, its theorems, its hypotheses, and what is certified."""

    def run(self) -> list[nodes.Node]:
        """The table, made by calling `rate` for a squared exponential kernel."""
        table, group = nodes.table(classes=["combinations"]), nodes.tgroup(cols=len(HEAD))
        group += [nodes.colspec(colwidth=width) for width in (24, 24, 40, 6, 6)]
        group += nodes.thead("", self._row(nodes.Text(name) for name in HEAD))
        group += nodes.tbody(
            "", *(self._combination(words, options) for words, options in combinations())
        )
        table += group
        return [table]

    def _combination(self, words: str, options: dict[str, Any]) -> nodes.row:
        bounds = [
            bound
            for law in (None, "kdpp", "tilted", "rpcholesky")
            if (bound := stated(law=law, **options)) and np.isfinite(bound)
        ]
        claims = ", ".join(
            dict.fromkeys(name for bound in bounds for name in bound.claim.split(", "))
        )
        assumed = [sentence for sentence in bounds[0].assumptions if sentence.startswith(SUBJECTS)]
        sharp = stated(rigor="sharp", **options)
        return self._row(
            [
                nodes.literal("", words or "rate(kernel, N, M, alpha)"),
                nodes.inline("", "", *linked(claims, self.env.docname)),
                nodes.Text(" ".join(assumed)),
                nodes.Text("yes" if bounds[0].certified else "no"),
                nodes.Text("refused" if sharp is None else "yes" if sharp.certified else "no"),
            ]
        )

    def _row(self, cells: Any) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def combinations() -> list[tuple[str, dict[str, Any]]]:
    """The arguments that `rate` has a bound for, in words and as they are."""
    every = [
        (
            ", ".join(filter(None, (inputs, y, draws))),
            {**INPUTS[inputs], **TARGETS[y], **DRAWS[draws]},
        )
        for inputs in INPUTS
        for y in TARGETS
        for draws in DRAWS
    ]
    return [(words, options) for words, options in every if stated(**options) is not None]


def stated(**options: Any) -> gpbounds.Bound | None:
    """The bound, None for a combination that is refused."""
    try:
        order = None if options.get("criterion") == "operator" else 1.0
        return gpbounds.rate(KERNEL, N, M, order, **options)
    except ValueError:
        return None


def setup(app: Any) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("combinations", Combinations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
