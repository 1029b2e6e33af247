"""``gpbounds certify``: train a model by its risk bound, or check a certificate against its data."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from fitting.study.steps import shown
from gpbounds.cli import options, output
from gpbounds.progress import on_terminal

EPILOG = None
_TRAIN_EPILOG = """\
example:
  gpbounds certify train train.csv --epsilon 0.6 --delta 0.01 --scaling split --out model

  trains a Gaussian process by the bound on its risk, and writes in the folder model: certificate.json, a figure, and
  model.npz, with which `gpbounds predict` predicts from raw rows.  With --scaling split, or if the target is not the
  last column, it also writes the certified rows.  It prints the terms of the bound, and the command with which anyone
  can check the certificate.

  gpbounds certify train train.csv --scaling split --out model

  certifies 0.2, 0.4, 0.6, 0.8 and 1 standard deviations together and prints a table of bound against E.  It trains a
  model for each: certificate-0.2.json is about model-0.2.npz, and so on.  You may choose a row after you have seen the
  table: the bounds pay for this choice by ln(5).

You must fix the options of the statement before you see the data.  If you train with E settings of them and report the
best result, the penalty grows by ln(E); the command charges it for several --epsilon, but not for several runs.  You
may choose the model's options freely.

theorem: Reeb et al., Eq. 5, with xi(N) in place of 2 sqrt(N), by the procedure of P-44: P-14, P-10, P-44, P-45, P-47,
P-49 of `gpbounds claims`.
"""

_ACCURACIES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Values of ε in standard deviations of the target, which no data have influenced."""

_NO_EPSILON = (
    "--epsilon: expected the deviation to tolerate, which you choose before you look at the data. With --scaling split "
    "it counts standard deviations of the target, and the command takes 0.2, 0.4, 0.6, 0.8 and 1 unless you choose"
)

_CHECK_EPILOG = """\
example:
  gpbounds certify check model.json --data train.csv

  recomputes the certificate from the raw rows.  It first prints what no file can prove: that loss, grid and scaling
  were fixed before the data were seen.  Then it prints one line for each check, confirmed or failed.

  A stated R_S or KL is confirmed only if it is proved to be large enough.  Double precision proves it in most cases, if
  exponentials and normal distribution functions are accurate to a few units in the last place; where its errors are too
  large, the command computes in 30 digits: up to M = 1500 inducing inputs with N M^2 up to 2e9 for N rows, or 2000 rows
  of an exact posterior.

  gpbounds certify check model.json --data train.csv --rigorous

  proves the numbers without that supposition: R_S and KL are enclosed, from kernel entries in 30 digits to the formula
  in Arb balls, and the command prints the bound that follows.  It confirms the stated bound if that is not below the
  proved one.  What it cannot prove, such as a matrix that is singular to within the rounding of its entries, it names
  in one sentence.

The file must hold the certified rows in their order, with every digit.  The command applies the scaling that the
certificate declares.  Exit status: 0 confirmed; 1 not confirmed or not rigorous; 2 if the certificate or the data
cannot be read, with one sentence on stderr.

theorem: Reeb et al., Eq. 5: P-14, P-44, P-45, N-rounded-kl, N-rounded-exact of `gpbounds claims`; with
--rigorous N-proved-kl, N-proved-risk.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=options.Parser)
    _add_train(actions)
    checking = actions.add_parser(
        "check",
        help="recompute a certificate from the data",
        description="Recompute a certificate from its data.",
        epilog=_CHECK_EPILOG,
    )
    checking.add_argument("certificate", metavar="FILE", type=Path, help="the certificate, JSON")
    checking.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        required=True,
        help="CSV (.csv.gz), or Parquet (a file or a folder) of raw values, target in the LAST column",
    )
    checking.add_argument(
        "--rigorous",
        action="store_true",
        help="prove R_S and KL in 30 digits and Arb balls, which suppose nothing of the functions of NumPy and SciPy, "
        "and say how much the bound moves; it takes 2 to 15 times as long as the check",
    )
    options.add_json(checking)
    checking.set_defaults(run=check)


def _add_train(actions: Any) -> None:
    """Add ``certify train``."""
    parser = actions.add_parser(
        "train",
        help="train a model by its bound and write its certificate",
        description="Train a Gaussian process by the PAC-Bayes bound on its risk, and write the certificate.",
        epilog=_TRAIN_EPILOG,
    )
    parser.add_argument(
        "data",
        metavar="FILE",
        type=Path,
        help="CSV (.csv.gz) of raw values, header line optional, or Parquet (a file or a folder); more than 512 MB of "
        "Parquet are read in passes, except for --method full",
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="name (of the header) or number, from 1, of the target (default: the last)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder for certificate.json, model.npz and certificate.png, of several E certificate-E.json and "
        "model-E.npz; it is created if missing (default: the current folder)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=options.whole,
        default=0,
        help="seed of all random choices (default 0); with split it also selects the rows for the scaling, so it is "
        "part of the statement",
    )
    _add_statement(parser.add_argument_group("the statement (fixed before the data are seen)"))
    _add_model(parser.add_argument_group("the model (any choice is valid and costs nothing)"))
    options.add_json(parser)
    parser.set_defaults(run=train)


def _add_statement(group: Any) -> None:
    group.add_argument(
        "--epsilon",
        metavar="E[,E...]",
        type=options.numbers,
        help="deviation that the loss tolerates: in the units of the target, or in standard deviations with --scaling "
        "split; for --loss relative or interval as a fraction of the target. E numbers give a table and a certificate "
        "for each, all valid together, for ln(E) in the penalty (default with --scaling split: 0.2,0.4,0.6,0.8,1)",
    )
    group.add_argument(
        "--delta", metavar="P", type=options.number, default=0.01, help="probability of failure (default %(default)s)"
    )
    group.add_argument(
        "--loss",
        choices=("band", "squared", "exponential", "relative", "interval"),
        default="band",
        help="band (default): 1 if a prediction deviates by more than E, else 0; interval: the same with E as a "
        "fraction of the target; squared, exponential: the loss grows with the deviation up to 1; relative: it grows "
        "with the deviation as a fraction of the target",
    )
    group.add_argument(
        "--kernel",
        metavar="NAME",
        type=options.family,
        default="se",
        help="se (default), matern12, matern32, matern52, rq, periodic, linear, polynomial:DEGREE, constant, or a sum "
        "such as linear+periodic+se, in which each name adds a kernel of all inputs",
    )
    group.add_argument(
        "--kernel-lengthscale",
        choices=("ard", "shared"),
        default="ard",
        help="ard (default): one lengthscale (variance of a linear kernel, period) for each input; shared: one for "
        "all, which has a smaller penalty",
    )
    group.add_argument(
        "--grid",
        nargs=3,
        metavar=("LOW", "HIGH", "STEPS"),
        type=options.number,
        default=[-6.0, 6.0, 1200.0],
        help="edges and number of steps in the log of each hyperparameter (default -6 6 1200); each costs ln(STEPS+1)",
    )
    group.add_argument(
        "--scaling",
        choices=("as-given", "split"),
        default="as-given",
        help="as-given (default): you declare that the units were fixed in advance; split: a random share of the rows "
        "gives the means and standard deviations that scale the other rows, and only those are certified",
    )
    group.add_argument(
        "--share", metavar="P", type=options.number, help="share of the rows for --scaling split (default 0.1)"
    )
    group.add_argument(
        "--mean",
        choices=("zero", "linear"),
        default="zero",
        help="mean of the prior: zero (default), or a linear function of the scaled inputs that is fitted to the rows "
        "reserved by --scaling split",
    )


def _add_model(group: Any) -> None:
    group.add_argument(
        "--method",
        choices=("full", "fitc", "vfe", "free"),
        help="full: the exact posterior; fitc, vfe: a sparse posterior; free: any N(a, B) of the inducing variables "
        "(default: full up to 1500 rows, else fitc)",
    )
    group.add_argument(
        "--inducing",
        metavar="M",
        type=options.whole,
        help="number of inducing points, for every method but full (default 100)",
    )
    group.add_argument(
        "--objective",
        choices=("kl", "pinsker"),
        default="kl",
        help="training objective: the bound itself (kl, default) or Pinsker's looser bound; the certificate states the "
        "kl bound in both cases",
    )
    group.add_argument(
        "--iterations",
        metavar="K",
        type=options.whole,
        default=1000,
        help="largest number of training iterations (default %(default)s)",
    )
    group.add_argument(
        "--tol",
        type=float,
        metavar="B",
        default=0.001,
        help="training stops when less of the bound is expected to be gained; 0 never (default %(default)s)",
    )


def train(args: argparse.Namespace) -> None:
    """Train a model, write certificate, figure and rows, and print the terms of the bound."""
    from gpbounds.cli import rows, training

    _check_statement(args)
    accuracies = _accuracies(args)
    with shown("Reading the data"):
        table = rows.read_large(
            args.data,
            args.target,
            in_memory=args.method == "full",
            split=args.scaling == "split",
            share=0.1 if args.share is None else args.share,
            seed=args.seed,
            centre=args.loss not in ("relative", "interval"),  # these losses are fractions of the raw target
            linear=args.mean == "linear",
        )
    files = {"picture": args.out / "certificate.png"}
    names = [f"-{each:g}" for each in accuracies] if len(accuracies) > 1 else [""]
    pairs = [(args.out / f"certificate{name}.json", args.out / f"model{name}.npz") for name in names]
    if not table.as_in_file:
        files["data"] = args.out / f"certificate_data{table.suffix}"
    if any(path.exists() and path.samefile(args.data) for path in (*files.values(), *chain(*pairs))):
        raise options.UsageError(f"--out: expected another folder, because the output would overwrite {args.data}")
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"Training on {table.N} rows of {table.name} ...", file=sys.stderr)
    trained = training.train(
        table,
        loss=args.loss,
        epsilon=accuracies,
        delta=args.delta,
        grid=(args.grid[0], args.grid[1], int(args.grid[2])),
        family=args.kernel,
        shared=args.kernel_lengthscale == "shared",
        method=args.method,
        inducing=args.inducing,
        objective=args.objective,
        iterations=args.iterations,
        tol=args.tol,
        seed=args.seed,
        progress=on_terminal(),
    )
    # The certificates come last: whoever finds a new one finds the rows and the model of which it speaks.
    if not table.as_in_file:
        table.write(files["data"])
    with shown("Drawing the figure"):
        training.picture(table, trained).savefig(files["picture"])
    for model, (_, path) in zip(trained.models, pairs, strict=True):
        model.save(path)
    for certificate, (path, _) in reversed(list(zip(trained.certificates, pairs, strict=True))):
        certificate.save(path)
    written = training.Written(pairs, files["picture"], files.get("data"), args.data)
    if args.json:
        output.print_json({"command": "certify train", **training.record(table, trained, written)})
    else:
        print(training.report(table, trained))
        print(f"\n{written.report(trained)}")
    output.leave(trained.interrupted)


def _check_statement(args: argparse.Namespace) -> None:
    """Refuse options that do not go together, and a grid of no whole number of steps."""
    if args.share is not None and args.scaling != "split":
        raise options.UsageError("--share is an option of --scaling split")
    if args.mean == "linear" and (args.scaling != "split" or args.loss in ("relative", "interval")):
        raise options.UsageError(
            "--mean linear is an option of --scaling split, whose reserved rows give its coefficients, and of losses "
            "of y - f: band, squared, exponential"
        )
    steps = args.grid[2]
    if not float(steps).is_integer():
        raise options.UsageError(f"--grid: expected a whole number of STEPS, got {steps:g}")


def _accuracies(args: argparse.Namespace) -> list[float]:
    """The values of ε: those of ``--epsilon``, else `_ACCURACIES` where the targets are in standard deviations."""
    if args.epsilon is None:
        if args.scaling != "split" or args.loss in ("relative", "interval"):
            raise options.UsageError(_NO_EPSILON)
        return list(_ACCURACIES)
    if len(set(args.epsilon)) < len(args.epsilon):
        raise options.UsageError("--epsilon: expected different numbers, got one of them twice")
    return list(args.epsilon)


def check(args: argparse.Namespace) -> None:
    """Print the report; the exit status is 1 unless the certificate is confirmed and rigorous."""
    from gpbounds.cli import rows
    from gpbounds.pacbayes.certificate import Certificate, Exact

    certificate = Certificate.load(args.certificate)
    with shown("Reading the data"):
        data = rows.certified(args.data, in_memory=isinstance(certificate.posterior, Exact))
    with shown("Computing R_S and KL again"):
        report = certificate.check(*data, rigorous=args.rigorous)
    if args.json:
        output.print_json({"command": "certify check", **report.to_dict()})
    else:
        print(report)
    if not (report.confirmed and report.rigorous):
        raise SystemExit(1)
