"""``gpbounds klinv``: the range of p with kl(q‖p) <= d, with proved digits and derivatives."""

from __future__ import annotations

import argparse
from typing import Any

from gpbounds.cli import options, output
from gpbounds.rigor import decimal
from gpbounds.texts import table

EPILOG = """\
example:
  gpbounds klinv 0.02 0.05

  prints 0.000629165 <= p <= 0.0985722, 1 - p to full relative accuracy, 17 proved digits (by Arb balls) and the
  derivatives.  If q is an empirical risk and d the sum of terms that `gpbounds pac` prints, the upper end bounds the
  true risk.

theorem: Reeb et al., Eq. 3, 12 and 13: P-03, P-06, P-07, P-12 of `gpbounds claims`.
"""
DIGITS = 17


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("q", metavar="Q", type=options.number, help="empirical risk in [0, 1]")
    parser.add_argument("eps", metavar="D", type=options.number, help="d in kl(q‖p) <= d, in nats, 0 to inf")
    options.add_json(parser)
    parser.set_defaults(run=run, large=False)


def run(args: argparse.Namespace) -> None:
    """Print both ends of the range, or a JSON record of them."""
    ends = {direction: end(args.q, args.eps, direction) for direction in ("lower", "upper")}
    if args.json:
        output.print_json({"command": "klinv", "q": args.q, "eps": args.eps, **ends, "claims": ["P-03", "P-12"]})
        return
    low, high = (ends[direction]["p"] for direction in ("lower", "upper"))
    print(f"kl({args.q:g}‖p) <= {args.eps:g} for {low:.6g} <= p <= {high:.6g} and no other p (P-03).\n")
    rows = [
        (direction, repr(numbers["p"]), repr(numbers["1-p"]), f"{numbers['dp/dq']:.6g}", f"{numbers['dp/deps']:.6g}")
        for direction, numbers in ends.items()
    ]
    print(table(("", "p", "1 - p", "dp/dq", "dp/d(d)"), rows))
    print(f"\nProved, rounding included (P-12), {DIGITS} digits:")
    print(f"  {ends['lower']['certified']} <= p <= {ends['upper']['certified']}")
    print(f"  {ends['upper']['certified 1-p']} <= 1 - p <= {ends['lower']['certified 1-p']}")


def end(q: float, eps: float, direction: Any) -> dict[str, Any]:
    """One end of the range: p, 1 − p, derivatives, and decimals rounded outwards."""
    from gpbounds.pacbayes import kl_inverse

    value, in_q, in_eps = kl_inverse(q, eps, direction, gradient=True)
    rest = float(kl_inverse(q, eps, direction, complement=True))
    proved, proved_rest = (float(kl_inverse(q, eps, direction, c, rigor="sharp")) for c in (False, True))
    return {
        "p": float(value),
        "1-p": rest,
        "dp/dq": float(in_q),
        "dp/deps": float(in_eps),
        "certified": decimal(proved, direction == "upper", DIGITS),
        "certified 1-p": decimal(proved_rest, direction == "lower", DIGITS),
    }
