"""``gpbounds curve``: plot the bound against M, for several alpha or several N."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpbounds.cli import options, output

EPILOG = """\
example:
  gpbounds curve -N 1e4 --alpha 0.1,0.5,1 --out curve.png
  gpbounds curve -N 1e3,1e6,1e9 -M 1:60
  gpbounds curve --data table.csv --target price --out curve.png

  The last command plots the bounds for the best of ten draws: a priori (simulated), given the rows, and given y; lower
  bounds; and bounds on the log evidence of the data for the inducing points that --select chooses.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`, at each M; with --data N-tilt-given and
N-tilt-prior, N-sim a priori, N-low and N-lowprior from below.  The upper bounds on the evidence
are R-eq8 and others, the lower bounds R-elbo* and others.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "-N", "--N", dest="sizes", metavar="N", type=options.wholes, help="number(s) of data: 1e3,1e6,1e9"
    )
    parser.add_argument(
        "-M",
        "--M",
        dest="counts",
        metavar="M",
        type=options.wholes,
        help="A:B, A:B:STEP or a list (default: up to a negligible bound)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=options.picture_file, default=Path("curve.png"), help="default: %(default)s"
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=True)
    options.add_data(parser)
    options.add_best(parser)
    options.add_select(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Draw the curves, save the figure, and print its path."""
    from fitting.study.curves import curves

    if args.most < 1:
        raise options.UsageError(f"--most: expected a whole number >= 1, got {args.most}")
    drawn = curves(options.problem(args), args.alpha, args.counts, select=args.select, most=args.most)
    drawn.plot().savefig(args.out)
    if args.json:
        output.print_json({**drawn.to_dict(), "out": str(args.out)})
    else:
        drawn.print()
        print(f"Saved {args.out}")
    output.leave(drawn.interrupted)
