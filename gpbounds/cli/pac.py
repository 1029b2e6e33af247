"""``gpbounds pac``: the PAC-Bayes bound on the true risk, and its terms."""

from __future__ import annotations

import argparse
from functools import partial

from gpbounds.bound import Bound
from gpbounds.cli import options, output
from gpbounds.rigor import decimal
from gpbounds.texts import table, wrapped

EPILOG = """\
example:
  gpbounds pac --risk .093 --kl 42 -N 404 --delta .01 --grid-points 1201 --hyperparameters 2

  prints R(Q) <= 0.33149 with probability at least 0.99, the terms of the bound, and looser bounds for comparison.

theorem: Reeb et al., Theorem 1 and Eq. 5, with xi(N) in place of 2 sqrt(N): P-09, P-14, P-10 of `gpbounds claims`.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--risk", metavar="R", type=options.number, required=True, help="empirical Gibbs risk R_S(Q) in [0, 1]"
    )
    parser.add_argument("--kl", metavar="KL", type=options.number, required=True, help="KL(Q||P) in nats, 0 to inf")
    parser.add_argument(
        "-N", "--N", dest="N", metavar="N", type=options.whole, required=True, help="number of data: 404, 1e6"
    )
    parser.add_argument(
        "--delta", metavar="P", type=options.number, default=0.05, help="probability of failure (default %(default)s)"
    )
    group = parser.add_argument_group("hyperparameters chosen after the data were seen")
    group.add_argument("--log-prior-penalty", metavar="X", type=options.number, help="ln(1/p), in nats (default 0)")
    group.add_argument(
        "--grid-points", metavar="G", type=options.whole, help="grid points for each hyperparameter: G ..."
    )
    group.add_argument(
        "--hyperparameters", metavar="T", type=options.whole, help="... and their number: the penalty is T ln(G)"
    )
    options.add_json(parser)
    parser.set_defaults(run=run, large=False)


def run(args: argparse.Namespace) -> None:
    """Print the bound with its terms, or a JSON record of them."""
    from gpbounds.pacbayes import bayes_risk_bound, bound

    prior, origin = penalty(args)
    certified = partial(bound, args.risk, args.kl, args.N, delta=args.delta, log_prior_penalty=prior, rigor="sharp")
    best = certified()
    others = {
        "lower bound": certified(side="lower"),
        "Maurer, 2 sqrt(N)": certified(form="printed"),
        "Pinsker, 2 sqrt(N)": certified(form="printed", relaxation="pinsker"),
        "mean prediction": bayes_risk_bound(best),
    }
    if args.json:
        record = {"command": "pac", "bound": best.to_dict(), "penalty": origin}
        output.print_json({**record, "others": {name: other.to_dict() for name, other in others.items()}})
        return
    print(f"{wrapped(str(best))}\n")
    print(table(("term", "value", "from"), _rows(best, args, prior, origin)))
    print()
    print(table(("other bounds", "value", "claim"), [_other(*item) for item in others.items()]))
    print(wrapped(f"\nThe bound on the mean prediction assumes: {others['mean prediction'].assumptions[-1]}"))


def penalty(args: argparse.Namespace) -> tuple[float, str]:
    """ln(1/p) rounded up, and its formula."""
    from gpbounds.pacbayes import grid_penalty

    if (args.grid_points is None) != (args.hyperparameters is None):
        raise options.UsageError("pac: expected --grid-points and --hyperparameters together")
    if args.grid_points is None:
        return args.log_prior_penalty or 0.0, "as given" if args.log_prior_penalty else "no hyperparameter was chosen"
    if args.log_prior_penalty is not None:
        raise options.UsageError("pac: expected --log-prior-penalty or --grid-points with --hyperparameters, not both")
    cost = float(grid_penalty(args.grid_points, args.hyperparameters, rigor="sharp"))
    return cost, f"{args.hyperparameters} ln({args.grid_points})"


def _rows(best: Bound, args: argparse.Namespace, prior: float, origin: str) -> list[tuple[str, str, str]]:
    KL, hyper, confidence_cost = (float(best.terms[name]) for name in ("KL/N", "ln(1/p)/N", "ln(ξ/δ)/N"))
    return [
        ("KL/N", f"{KL:.6f}", f"{args.kl:g}/{args.N}"),
        ("ln(1/p)/N", f"{hyper:.6f}", f"{prior:.6g}/{args.N}: {origin}"),
        ("ln(ξ/δ)/N", f"{confidence_cost:.6f}", f"{args.N * confidence_cost:.6g}/{args.N}"),
        ("d, their sum", f"{float(best.terms['ε']):.6f}", ""),
        ("R_S", f"{args.risk:.6f}", "as given"),
        ("kl⁻¹(R_S, d)", decimal(float(best), True, 6), "the bound, rounded up"),
    ]


def _other(name: str, bound: Bound) -> tuple[str, str, str]:
    relation = "<=" if bound.side == "upper" else ">="
    return name, f"{bound.quantity} {relation} {decimal(float(bound), bound.side == 'upper', 6)}", bound.claim
