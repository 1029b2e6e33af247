"""``gpbounds certify``: risk certificates: check one against the data it is about."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpbounds.cli import options, output
from gpbounds.cli.data import read_table

CHECK_EPILOG = """\
example:
  gpbounds certify check model.json --data train.csv

  recomputes everything from the raw rows and prints, line by line, what was confirmed or failed, after what no file can
  prove: that loss, grid and scaling were fixed before the data were seen.

The rows must be those that were certified, in their order, with every digit.  A scaling that the certificate declares
is applied to them.  Exit status: 0 confirmed, 1 not confirmed or non-rigorous, 2 with one sentence on stderr
where there is no certificate or there are no data.

theorem: Reeb et al., Eq. 5: P-14, P-44, P-45 of `gpbounds claims`.
"""


def add(commands: Any) -> None:
    """Add the command and its subcommands to the parser."""
    parser = commands.add_parser("certify", help="risk certificates: check", description=options.purpose(__doc__))
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    checking = actions.add_parser(
        "check",
        help="recompute a certificate from the data",
        description="Recompute a certificate from the data it is about.",
        epilog=CHECK_EPILOG,
    )
    checking.add_argument("certificate", metavar="FILE", type=Path, help="the certificate, JSON")
    checking.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        required=True,
        help="CSV (or .csv.gz) of raw values, target in the LAST column, header line optional",
    )
    options.add_json(checking)
    checking.set_defaults(run=check)


def check(args: argparse.Namespace) -> None:
    """Print the report; exit status 1 unless it confirms a certificate that is rigorous."""
    from gpbounds.pacbayes.certificate import Certificate

    certificate = Certificate.load(args.certificate)
    values, _ = read_table(args.data)
    if values.shape[1] < 2:
        raise ValueError(f"{args.data}: expected at least two columns, inputs and then the target, got one")
    report = certificate.check(values[:, :-1], values[:, -1])
    if args.json:
        output.print_json({"command": "certify check", **report.to_dict()})
    else:
        print(report)
    if not (report.confirmed and report.rigorous):
        raise SystemExit(1)
