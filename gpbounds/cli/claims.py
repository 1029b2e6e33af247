"""``gpbounds claims``: list the claims of the papers, their verdicts, their proofs, and what this project checks."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter

from gpbounds.claims import STATUSES, VERDICTS, Claim, find, ledger
from gpbounds.cli import options, output

EPILOG = """\
example:
  gpbounds claims R-thm1

  prints the theorem behind `gpbounds rate`: its place, the true statement, the sharper form, where it is proved, the
  function that computes it.  gpbounds claims --section G --verdict misprint lists some claims, and so does --status
  "checked numerically only", for which no proof is known here; without arguments the command lists and counts all.

theorems: 73 claims R (Renyi bounds), 52 L (low rank), 43 P (PAC-Bayes), 41 D (direct loss), and N (this project).
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("id", nargs="?", metavar="ID", help="print this claim in full")
    parser.add_argument(
        "--section", metavar="S", help="only this section: A to I, N, L.1 to L.6, P.1 to P.4, D.1 to D.5"
    )
    parser.add_argument("--verdict", choices=VERDICTS, help="only this verdict on the printed form")
    parser.add_argument("--status", choices=STATUSES, help="only this status: what the true statement rests on")
    options.add_json(parser)
    parser.set_defaults(run=run, large=False)


def run(args: argparse.Namespace) -> None:
    """List claims, or print one of them."""
    chosen = select(args)
    if args.json:
        records = [{**dataclasses.asdict(claim), "status": claim.status, "built": claim.built} for claim in chosen]
        built = sum(claim.built for claim in chosen)
        output.print_json({"command": "claims", "count": len(chosen), "built": built, "claims": records})
    elif args.id is not None:
        print(chosen[0])
    else:
        for claim in chosen:
            print(_line(claim))
        print(_count(chosen))


def select(args: argparse.Namespace) -> list[Claim]:
    """The claims that the arguments select."""
    if args.id is not None:
        if args.section or args.verdict or args.status:
            raise options.UsageError("claims: expected an id, or --section, --verdict and --status, not both")
        return [find(args.id)]
    sections = list(dict.fromkeys(claim.section for claim in ledger()))
    if args.section not in (None, *sections):
        raise options.UsageError(f"--section: expected one of {', '.join(sections)}, got {args.section!r}")
    return [
        claim
        for claim in ledger()
        if args.section in (None, claim.section)
        and args.verdict in (None, claim.verdict)
        and args.status in (None, claim.status)
    ]


def _line(claim: Claim) -> str:
    """One line: id, verdict, status, whether it is built, and the beginning of the statement."""
    state = "built" if claim.built else "not yet"
    prefix = f"{claim.id:<14} {claim.verdict:<16} {_SHORT[claim.status]:<11} {state:<8} "
    statement = " ".join(claim.statement.split())
    width = 119 - len(prefix)
    return prefix + (statement if len(statement) <= width else statement[: width - 1].rstrip() + "…")


_SHORT = dict(zip(STATUSES, ("paper", "proved here", "numerically"), strict=True))


def _count(claims: list[Claim]) -> str:
    verdicts = Counter(claim.verdict for claim in claims)
    statuses = Counter(claim.status for claim in claims)
    parts = ", ".join(f"{verdicts[name]} {name}" for name in VERDICTS if verdicts[name])
    rests = "".join(f"{statuses[name]} {name}, " for name in STATUSES if statuses[name])
    built = sum(claim.built for claim in claims)
    listed = f"{len(claims)} claims" + (f" ({parts})" if parts else "")
    return f"{listed}\n{rests}{built} built, {len(claims) - built} not yet"
