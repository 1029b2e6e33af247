"""``gpbounds certify``: risk certificates: train a model by its bound, or check a certificate against its data."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import Any

from gpbounds.cli import options, output
from gpbounds.cli.data import read_table

TRAIN_EPILOG = """\
example:
  gpbounds certify train train.csv --epsilon 0.6 --delta 0.01 --scaling split --out model

  trains a Gaussian process by the bound on its risk, writes model/certificate.json, a page of pictures beside it, and
  (for split, or a target that is not last) the certified rows; prints what the bound is made of, and the command with
  which anybody checks it.

What is fixed before the data are seen is yours to keep: the statement's options.  Training again with others and
showing the best of E results costs ln(E), which this command does not charge.  The model's options are free.

theorem: Reeb et al., Eq. 5, with xi(N) in place of 2 sqrt(N), by the procedure of P-44: P-14, P-10, P-44, P-45, P-49 of
`gpbounds claims`.
"""

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
    parser = commands.add_parser(
        "certify", help="risk certificates: train, check", description=options.purpose(__doc__)
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_train(actions)
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


def add_train(actions: Any) -> None:
    """Add ``certify train``."""
    parser = actions.add_parser(
        "train",
        help="train a model by its bound and write its certificate",
        description="Train a Gaussian process by the PAC-Bayes bound on its risk, and write the certificate.",
        epilog=TRAIN_EPILOG,
    )
    parser.add_argument("data", metavar="FILE", type=Path, help="CSV (or .csv.gz) of raw values, header line optional")
    parser.add_argument(
        "--target", metavar="COLUMN", help="name (of the header) or number, from 1, of the target (default: the last)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder of certificate.json and certificate.png, made where it is missing (default: this one)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=options.whole,
        default=0,
        help="of every random choice (default 0); for split also of the rows set apart, and so part of the statement",
    )
    group = parser.add_argument_group("the statement (fixed before the data are seen)")
    group.add_argument(
        "--epsilon",
        metavar="E",
        type=options.number,
        required=True,
        help="deviation that the loss tolerates, in the units of the target as given, or in standard deviations with "
        "--scaling split; for --loss relative or interval a share of the target",
    )
    group.add_argument(
        "--delta", metavar="P", type=options.number, default=0.01, help="probability of failure (default %(default)s)"
    )
    group.add_argument(
        "--loss",
        choices=("band", "squared", "exponential", "relative", "interval"),
        default="band",
        help="1 where a prediction is off by more than E, else 0 (band, default; interval: by more than the share E of "
        "the target), or growing with the deviation up to 1 (squared, exponential; relative: with its share)",
    )
    group.add_argument(
        "--kernel",
        metavar="NAME",
        type=options.kernel_family,
        default=math.inf,
        help="se (default), matern12, matern32 or matern52",
    )
    group.add_argument(
        "--kernel-lengthscale",
        choices=("ard", "shared"),
        default="ard",
        help="one lengthscale for each input (ard, default), or one for all: fewer choices to pay for",
    )
    group.add_argument(
        "--grid",
        nargs=3,
        metavar=("LOW", "HIGH", "STEPS"),
        type=options.number,
        default=[-6.0, 6.0, 1200.0],
        help="edges and steps in the log of variance and lengthscales (default -6 6 1200); each costs ln(STEPS+1)",
    )
    group.add_argument(
        "--scaling",
        choices=("as-given", "split"),
        default="as-given",
        help="as-given (default): you say that the units were fixed in advance; split: a random share of the rows "
        "gives the means and standard deviations that scale the rest, which alone is certified",
    )
    group.add_argument(
        "--share", metavar="P", type=options.number, help="that share of the rows, for split (default 0.1)"
    )
    group = parser.add_argument_group("the model (free: nothing is paid for it)")
    group.add_argument(
        "--method",
        choices=("full", "fitc", "vfe", "free"),
        help="exact posterior (full), or a sparse one: of FITC, of VFE, or any N(a, B) of the inducing variables "
        "(free); default: full up to 1500 rows, else fitc",
    )
    group.add_argument(
        "--inducing", metavar="M", type=options.whole, help="inducing points, for all but full (default 100)"
    )
    group.add_argument(
        "--objective",
        choices=("kl", "pinsker"),
        default="kl",
        help="what is minimised: the bound itself (kl, default) or Pinsker's looser one; certified is the first",
    )
    group.add_argument(
        "--iterations", metavar="K", type=options.whole, default=1000, help="of training, at most (default %(default)s)"
    )
    options.add_json(parser)
    parser.set_defaults(run=train)


def train(args: argparse.Namespace) -> None:
    """Train, write certificate, picture and rows, and print the terms of the bound."""
    from gpbounds.cli import certificate, rows, training

    if args.share is not None and args.scaling != "split":
        raise options.UsageError("--share goes with --scaling split")
    low, high, steps = args.grid
    if not float(steps).is_integer():
        raise options.UsageError(f"--grid: expected a whole number of STEPS, got {steps:g}")
    table = rows.read(
        args.data,
        args.target,
        split=args.scaling == "split",
        share=0.1 if args.share is None else args.share,
        seed=args.seed,
        centre=args.loss not in ("relative", "interval"),  # a share of the target is one of the raw target
    )
    files = {"certificate": args.out / "certificate.json", "picture": args.out / "certificate.png"}
    if not table.as_in_file:
        files["data"] = args.out / "certificate_data.csv"
    if any(path.exists() and path.samefile(args.data) for path in files.values()):
        raise options.UsageError(f"--out: expected another folder: {args.data} would be overwritten")
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"Training on {table.N} rows of {table.name} ...", file=sys.stderr)
    found = training.train(
        table,
        loss=args.loss,
        epsilon=args.epsilon,
        delta=args.delta,
        grid=(low, high, int(steps)),
        nu=args.kernel,
        shared=args.kernel_lengthscale == "shared",
        method=args.method,
        inducing=args.inducing,
        objective=args.objective,
        iterations=args.iterations,
        seed=args.seed,
        progress=sys.stderr.isatty(),
    )
    found.certificate.save(files["certificate"])
    if not table.as_in_file:
        table.write(files["data"])
    certificate.picture(table, found).savefig(files["picture"])
    of = files.get("data", args.data)
    checked = shlex.join(("gpbounds", "certify", "check", str(files["certificate"]), "--data", str(of)))
    if args.json:
        written = {name: str(path) for name, path in files.items()}
        says = certificate.record(table, found)
        output.print_json({"command": "certify train", **says, "files": written, "check": checked})
        return
    print(certificate.report(table, found))
    print(f"\nSaved {', '.join(str(path) for path in files.values())}")
    if not table.as_in_file:
        print(f"{of} holds the rows that are certified, the target last.")
    print(f"Check it:\n  {checked}")


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
