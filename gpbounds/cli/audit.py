"""``gpbounds audit``: was M enough, and what follows; one page for a trained model, or for a fresh fit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpbounds.cli import options, output
from gpbounds.files import replacing

EPILOG = """\
example:
  gpbounds train FILE.csv --inducing 100 --out model && gpbounds audit FILE.csv --model model/model.npz --out audit.html

  says whether 100 inducing points are enough for a divergence of 1 nat from the exact posterior, and which number would
  do; what that means for predictions; where in input space the approximation is worst; which hyperparameters are at
  their limits; and whether intervals cover the held-out rows.  Open audit.html in a browser; it needs no network.

  gpbounds audit FILE.csv --inducing 50

  trains a sparse GP with 50 inducing points first, and holds out a fifth of the rows.

A model of GPflow, GPyTorch, GPJax or scikit-learn is converted in Python; FILE must hold X and y as it was trained on
them:
  gpbounds.renyi.from_gpflow(model).save("model.json")     # or from_gpytorch, from_gpjax, from_sklearn
  gpbounds audit FILE.csv --model model.json

theorem: R-gap (the divergence is log p(y) - ELBO), R-eq8 and others for log p(y), N-low from below, L-30 and L-31 for
predictions; with --certificate P-09.  The page states the claims it uses.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="CSV (.csv.gz) or Parquet (a file or a folder) of raw values"
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="name (of the header) or number, from 1, of the target (default: the last)"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        help="a model that `gpbounds train` or its method save wrote (.npz), or of another library (.json, see below)",
    )
    source.add_argument(
        "--inducing",
        metavar="M",
        type=options.whole,
        help="without --model: number of inducing points of a new sparse GP (default 100)",
    )
    parser.add_argument(
        "--enough",
        metavar="NATS",
        type=options.number,
        default=1.0,
        help="the divergence that counts as enough (default %(default)s)",
    )
    parser.add_argument(
        "--most",
        metavar="M",
        type=options.whole,
        default=1000,
        help="largest number of inducing points to try (default %(default)s)",
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=options.whole,
        default=3000,
        help="up to so many training rows the exact GP is computed, for comparison (default %(default)s)",
    )
    parser.add_argument(
        "--held-out",
        metavar="S",
        type=options.number,
        default=0.2,
        help="of a new model, or with a .json file: share of the rows to hold out (default %(default)s)",
    )
    parser.add_argument("--seed", metavar="S", type=options.whole, default=0, help="of all random choices (default 0)")
    parser.add_argument(
        "--certificate",
        metavar="E",
        type=options.number,
        help="add a bound on the probability that a draw from the prediction misses a new target by more than E (in "
        "units of the target, chosen in advance), from the held-out rows",
    )
    parser.add_argument(
        "--delta",
        metavar="P",
        type=options.number,
        default=0.05,
        help="probability with which the certificate may fail (default %(default)s)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("audit.html"), help="the page (default: %(default)s)"
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Audit the model, write the page, and print the findings."""
    from fitting.study.steps import Steps, shown
    from gpbounds.cli import audited
    from gpbounds.pages.audit import audit_page

    if args.out.suffix not in (".html", ".htm"):
        raise options.UsageError(f"--out: expected a name that ends in .html, got {args.out}")
    if not args.out.parent.is_dir():
        raise options.UsageError(f"--out: expected a file in a folder that exists, got {args.out}")
    if not 0.0 < args.delta < 1.0:
        raise options.UsageError(f"--delta: expected a number between 0 and 1, got {args.delta:g}")
    if not args.enough > 0.0:
        raise options.UsageError(f"--enough: expected a positive number, got {args.enough:g}")
    if args.most < 1:
        raise options.UsageError(f"--most: expected a whole number >= 1, got {args.most}")
    if args.certificate is not None and not args.certificate > 0.0:
        raise options.UsageError(f"--certificate: expected a positive number, got {args.certificate:g}")
    with shown("Reading the data and the model" if args.model else "Reading the data and training a model"):
        case = audited.case(args)
    steps = Steps(5)
    audit = audited.audit(case, args, steps)
    steps.finish(audit.enough is not None or audit.calibration is not None)
    audit = audited.with_notes(audit, steps.reasons)
    with replacing(args.out) as file:
        file.write(audit_page(audit))
    if args.json:
        output.print_json({"command": "audit", **audit.to_dict(), "out": str(args.out)})
        output.leave(steps.stopped)
        return
    print(audited.report(audit))
    print(f"\nSaved {args.out}")
    sys.stdout.flush()
    output.leave(steps.stopped)
