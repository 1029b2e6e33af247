"""The ledger of claims as data: what is true, what the papers print, and where this project checks it.

Five papers make 209 claims, and the letter of an id names the paper: R, Yue & Kontar (two papers on the Rényi
divergence); L, Daskalakis et al. (low-rank kernels); P, Reeb et al. (PAC-Bayes); D, Wei et al. (direct loss
minimisation).  N marks what is proved here and is in no paper.  Every bound carries such an id.

>>> claim = find("R-lem3")
>>> claim.verdict, claim.section
('holds', 'F')
>>> find("L-06").printed
'(1+γ)Σ₂ in place of (1−γ)Σ₂; at Σ₁=Σ₂=1, γ=1 (N=1) it claims KL ≤ −½'
>>> sum(c.id.startswith("R-") for c in ledger())
73
"""

from __future__ import annotations

import difflib
import functools
import re
import textwrap
import tomllib
from dataclasses import dataclass
from importlib import resources

VERDICTS = ("holds", "extra hypothesis", "misprint", "false", "ill-defined", "new")
"""In this order: true as printed; true under a hypothesis that is not printed; misprinted, with a clear intention;
wrong; without a meaning as printed; not in the papers."""

STATUSES = ("proved in the paper", "proved here", "checked numerically only")
"""What the true statement rests on: a proof in the paper or in a source that it cites; a proof in the ledger; or the
check alone, which is evidence and no proof."""


_EXAMPLES = "R-thm1, L-06, P-09, D-12 or N-conc"


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger.

    Attributes
    ----------
    id : str
        Name of the claim; docstrings, bounds and checks cite it.
    section : str
        Section of the ledger: "A" to "I" and "N", "L.1" to "L.6", "P.1" to "P.4", "D.1" to "D.5".
    place : str
        Paper, and place in the paper.
    statement : str
        The true statement with its hypotheses, in one line.
    verdict : str
        On the printed form; one of `VERDICTS`.
    printed : str
        The paper's form if it is wrong; else empty.
    sharper : str
        A stronger true statement, where one is known; else empty.
    function : str
        Dotted path of the function that computes it; empty until it is built.
    check : str
        File of `verification/` that checks it; empty until it is built.
    picture : str
        Script of `examples/` that draws it; else empty.
    proof : str
        The proof of the true statement and of the sharper one, where this project gives both; else empty.  Blank lines
        separate paragraphs.
    source : str
        Where a proof of the true statement stands, if the printed form is wrong or the paper cites it; else empty.
    unproved : str
        What is known of a statement without a proof, and what its check compares; else empty.
    sharper_proof : str
        The proof of the sharper statement, where ``proof`` is empty; it is never the paper's.

    A claim has at most one of ``proof`` and ``unproved``.  `status` follows from them.
    """

    id: str
    section: str
    place: str
    statement: str
    verdict: str
    printed: str = ""
    sharper: str = ""
    function: str = ""
    check: str = ""
    picture: str = ""
    proof: str = ""
    source: str = ""
    unproved: str = ""
    sharper_proof: str = ""

    @property
    def status(self) -> str:
        """What the true statement rests on; one of `STATUSES`.

        A claim with a ``proof`` is proved here, one with ``unproved`` is checked numerically only, and every other
        claim is proved in the paper: `verification/test_ledger.py` asks for a ``source`` where the paper prints
        another form, and for a proof or a reason where a claim is new.

        >>> find("R-lem3").status, find("N-conc").status
        ('proved in the paper', 'proved here')
        """
        if self.proof:
            return STATUSES[1]
        return STATUSES[2] if self.unproved else STATUSES[0]

    @property
    def built(self) -> bool:
        """Whether the project computes or checks the claim; `verification/` fails if a built claim has no check."""
        return bool(self.function or self.check)

    def __str__(self) -> str:
        sharper = f"Of the sharper form: {self.sharper_proof}" if self.sharper_proof else ""
        rows = {
            "Place": self.place,
            "True": self.statement,
            "Printed": self.printed,
            "Sharper": self.sharper,
            "Status": self.status,
            "Proof": f"{self.proof or self.source}\n\n{sharper}",
            "Unproved": self.unproved,
            "Function": self.function,
            "Check": self.check or "not built yet",
            "Picture": self.picture,
        }
        lines = [f"{self.id}: {self.verdict} (section {self.section})"]
        for name, text in rows.items():
            for i, paragraph in enumerate(filter(None, map(str.strip, text.split("\n\n")))):
                lines += textwrap.wrap(
                    paragraph,
                    width=100,
                    initial_indent=" " * 12 if i else f"  {name + ':':<10}",
                    subsequent_indent=" " * 12,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return "\n".join(lines)


@functools.cache
def ledger() -> tuple[Claim, ...]:
    """All claims, in the order of the papers.

    >>> [c.id for c in ledger()][:3]
    ['R-def', 'R-gp', 'R-kl']
    """
    text = resources.files("gpbounds").joinpath("ledger.toml").read_text(encoding="utf-8")
    return tuple(Claim(**entry) for entry in tomllib.loads(text)["claim"])


def find(id: str) -> Claim:
    """The claim of that id.

    Raises
    ------
    ValueError
        If the ledger has no such claim; the message names similar ids.

    >>> find("R-lem33")
    Traceback (most recent call last):
    ...
    ValueError: no claim 'R-lem33' in the ledger; close to it: R-lem3, R-lem3c, R-lem4, R-lem2, R-lem1
    """
    if not isinstance(id, str):
        raise ValueError(f"no claim {id!r}: an id is a string such as {_EXAMPLES}")
    claims = _by_id()
    if id in claims:
        return claims[id]
    folded = {_fold(name): name for name in claims}
    close = [folded[f] for f in difflib.get_close_matches(_fold(id), folded, n=5)]
    hint = f"close to it: {', '.join(close)}" if close else f"ids look like {_EXAMPLES}"
    raise ValueError(f"no claim {id!r} in the ledger; {hint}")


@functools.cache
def _by_id() -> dict[str, Claim]:
    return {c.id: c for c in ledger()}


@functools.cache
def named_claims() -> re.Pattern[str]:
    """A pattern that finds the ids of claims in a text, each as its first group.

    >>> named_claims().findall("R-lem3c follows from R-lem3 (see N-F), not from R-lem33")
    ['R-lem3c', 'R-lem3', 'N-F']
    """
    ids = "|".join(sorted((re.escape(claim.id) for claim in ledger()), key=len, reverse=True))
    return re.compile(rf"(?<![\w`\\-])({ids})(?![\w`]|-\w)")


def _fold(id: str) -> str:
    """The id in lower case and with two digits, since users write l-6 for L-06."""
    return re.sub(r"-(\d)(?!\d)", r"-0\1", id.casefold())
