"""``gpbounds certify``: certify a model that is trained here, or predictions; check a certificate against its data."""

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
  gpbounds certify train FILE.csv --epsilon 0.5 --out certified

  draws half of the rows at random, trains a Gaussian process on them, and bounds its risk by the other half: the share
  of new targets that its predictions miss by more than 0.5 standard deviations.  It computes the bound in three forms,
  which hold together, prints them as a table, and writes in the folder certified the certificate of the least one,
  certificate.json, those of the others, a figure, and model.npz, the model that is certified, with which
  `gpbounds predict` predicts.  It prints what you may rely on, and the command with which anyone can check it.

  gpbounds certify train FILE.csv --coverage 0.9 --out certified

  certifies intervals: that mean +- factor * std holds at least 90 % of new targets.

  gpbounds certify train FILE.csv --labels --out certified

  certifies a classifier: the share of wrong labels.

  gpbounds certify train FILE.csv --method pac-bayes --scaling split --epsilon 0.4 --out certified

  trains by the bound itself, on all rows but those that give the scaling.  With --scaling split, or if the target is
  not the last column, it also writes the certified rows.

Without --epsilon it certifies 0.2, 0.4, 0.6, 0.8 and 1 standard deviations together and prints a table of bound against
E: certificate-0.2.json is about model-0.2.npz, and so on.  You may choose a row after you have seen the table: the
bounds pay for this choice by ln(5).

You must fix the options of the statement before you see the data.  If you train with E settings of them and report the
best result, the penalty grows by ln(E); the command charges it for several --epsilon, but not for several runs.  You
may choose the model's options freely.

All bounds suppose that the rows are independent draws from one law.  Rows in the order of time are not: a random half
lets the model see the future of the other one.  With --order as-given the first rows train and the later ones certify;
then the bound is about new rows that are like the later ones.

theorem: held-out: N-held-out, N-held-out-kl, N-coverage of `gpbounds claims`; data-prior: P-14, N-data-prior;
pac-bayes: Reeb et al., Eq. 5, with xi(N) in place of 2 sqrt(N), by the procedure of P-44: P-14, P-10, P-44, P-45, P-47,
P-49.
"""

METHODS = ("best", "pac-bayes", "data-prior", "held-out")
"""The forms of a certificate, and the least of them."""

POSTERIORS = ("full", "fitc", "vfe", "free")
"""The approximations of the posterior, which were values of --method before there were forms."""

_ACCURACIES = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Values of ε in standard deviations of the target, which no data have influenced."""

_NO_EPSILON = (
    "--epsilon: expected the deviation to tolerate, which you choose before you look at the data. With --scaling split "
    "or prior it counts standard deviations of the target, and the command takes 0.2, 0.4, 0.6, 0.8 and 1 unless you "
    "choose"
)

_CHECK_EPILOG = """\
example:
  gpbounds certify check certificate.json --data train.csv

  recomputes the certificate from the raw rows, of whichever form it is.  It first prints what no file can prove: that
  loss, split and scaling were fixed before the data were seen, and that the model or its prior did not see the rows
  that certify it.  Then it prints one line for each check, confirmed or failed.

  gpbounds certify check certificate.json --data train.csv --predictions PRED.csv

  also compares the predictions in the certificate with yours, which PRED.csv holds: of a certificate held-out or
  coverage, for its certified rows in their order.

  A stated R_S or KL is confirmed only if it is proved to be large enough.  Double precision proves it in most cases, if
  exponentials and normal distribution functions are accurate to a few units in the last place; where its errors are too
  large, the command computes in 30 digits: up to M = 1500 inducing inputs with N M^2 up to 2e9 for N rows, or 2000 rows
  of an exact posterior.

  gpbounds certify check certificate.json --data train.csv --rigorous

  proves the numbers without that supposition: R_S and KL are enclosed, from kernel entries in 30 digits to the formula
  in Arb balls, and the command prints the bound that follows.  It confirms the stated bound if that is not below the
  proved one.  What it cannot prove, such as a matrix that is singular to within the rounding of its entries, it names
  in one sentence.

The file must hold the rows of the certificate, those of its split, too, in their order, with every digit, and the
target or the label in the last column.  The command applies the split and the scaling that the certificate declares.
Exit status: 0 confirmed; 1 not confirmed or not rigorous; 2 if the certificate or the data cannot be read, with one
sentence on stderr.

theorem: Reeb et al., Eq. 5: P-14, P-44, P-45, N-rounded-kl, N-rounded-exact of `gpbounds claims`; with a split
N-data-prior; held-out: N-held-out, N-held-out-kl, N-coverage; with --rigorous N-proved-kl, N-proved-risk.
"""

_PREDICTIONS_EPILOG = """\
example:
  gpbounds certify predictions PRED.csv --data rows.csv --epsilon 5 --out certified

  bounds the share of new targets that the model behind PRED.csv misses by more than 5, in the units of the target, by
  the rows of rows.csv, which the model must not have seen.  It writes certified/certificate.json.

  gpbounds certify predictions PRED.csv --data rows.csv --coverage 0.9 --out certified

  finds the least factor for which the intervals mean +- factor * std are proved to hold 90 % of new targets.

PRED.csv has a header and a line for each row of rows.csv, in the same order: the column mean, with --coverage also std,
or, of a classifier, the column label, which is certified without --epsilon and --coverage.  Any program may have
written it, for one `gpbounds predict`.  What no file can prove, the certificate declares: that the model had not seen
these rows, and that these are its predictions.

theorem: N-held-out, N-held-out-kl, N-coverage of `gpbounds claims`.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=options.Parser)
    _add_train(actions)
    _add_predictions(actions)
    checking = actions.add_parser(
        "check",
        help="recompute a certificate from the data",
        description="Recompute a certificate from its data.",
        epilog=_CHECK_EPILOG,
    )
    checking.add_argument("certificate", metavar="FILE", type=Path, help="the certificate, JSON")
    _add_data(checking)
    checking.add_argument(
        "--predictions",
        metavar="FILE",
        type=Path,
        help="CSV with a header: the column mean, mean and std, or label, to compare with those in the certificate",
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
        help="train a model on a share of the rows, and certify it by the others",
        description="Train a Gaussian process, bound its risk on new rows, and write the certificate.",
        epilog=_TRAIN_EPILOG,
    )
    parser.add_argument(
        "data",
        metavar="FILE",
        type=Path,
        help="CSV (.csv.gz) of raw values, header line optional, or Parquet (a file or a folder); more than 512 MB of "
        "Parquet are read in passes, except for --posterior full",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder for certificate.json, model.npz and certificate.png, of several E certificate-E.json and "
        "model-E.npz; other forms are certificate-FORM.json; it is created if missing (default: the current folder)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=options.whole,
        default=0,
        help="seed of all random choices (default 0); it also draws the rows for training or for the scaling, so it is "
        "part of the statement",
    )
    statement = parser.add_argument_group("the statement (fixed before the data are seen)")
    _add_statement(statement)
    _add_kernel(statement)
    _add_model(parser.add_argument_group("the model (any choice is valid and costs nothing)"))
    options.add_json(parser)
    options.add_table(parser)
    parser.set_defaults(run=train)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        required=True,
        help="CSV (.csv.gz), or Parquet (a file or a folder) of raw values, target in the LAST column",
    )


def _add_predictions(actions: Any) -> None:
    """Add ``certify predictions``."""
    parser = actions.add_parser(
        "predictions",
        help="certify the predictions of any model for rows that it has not seen",
        description="Certify the predictions of any model for rows that it has not seen.",
        epilog=_PREDICTIONS_EPILOG,
    )
    parser.add_argument(
        "predictions", metavar="PRED", type=Path, help="CSV with a header: the column mean, mean and std, or label"
    )
    _add_data(parser)
    parser.add_argument(
        "--epsilon",
        metavar="E[,E...]",
        type=options.numbers,
        help="deviation that the loss tolerates, in the units of the target; for --loss relative or interval as a "
        "fraction of the target. E numbers give a certificate for each, all valid together, each with delta/E",
    )
    parser.add_argument(
        "--coverage",
        metavar="P",
        type=options.number,
        help="in place of E: certify intervals that hold a share P of new targets, such as 0.9",
    )
    parser.add_argument(
        "--delta", metavar="P", type=options.number, default=0.01, help="probability of failure (default %(default)s)"
    )
    _add_loss(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder for certificate.json and certificate.png, of several E certificate-E.json; it is created if "
        "missing (default: the current folder)",
    )
    options.add_json(parser)
    parser.set_defaults(run=predictions)


def _add_loss(group: Any) -> None:
    group.add_argument(
        "--loss",
        choices=("band", "squared", "exponential", "relative", "interval"),
        help="band (default): 1 if a prediction deviates by more than E, else 0; interval: the same with E as a "
        "fraction of the target; squared, exponential: the loss grows with the deviation up to 1; relative: it grows "
        "with the deviation as a fraction of the target",
    )


def _form(text: str) -> str:
    """A form of certificate; names the option that has the former values."""
    if text in POSTERIORS:
        raise argparse.ArgumentTypeError(
            f"expected one of {', '.join(METHODS)}, got {text!r}, a value of --posterior: --method pac-bayes "
            f"--posterior {text}"
        )
    return text


def _add_statement(group: Any) -> None:
    group.add_argument(
        "--method",
        choices=METHODS,
        type=_form,
        help="held-out: the risk of the prediction, by rows that did not train the model; data-prior: that of a "
        "prediction drawn from the posterior, whose prior was trained on other rows; pac-bayes: the same with a prior "
        "that saw no rows, of a model that is trained by this bound; best (default): the least of those that the model "
        "allows, which share P",
    )
    group.add_argument(
        "--epsilon",
        metavar="E[,E...]",
        type=options.numbers,
        help="deviation that the loss tolerates, in standard deviations of the target; with --scaling as-given in the "
        "units of the target; for --loss relative or interval as a fraction of the target. E numbers give a table and a certificate "
        "for each, all valid together, for ln(E) in the penalty (default in standard deviations: 0.2,0.4,0.6,0.8,1)",
    )
    group.add_argument(
        "--coverage",
        metavar="P",
        type=options.number,
        help="of --method held-out, in place of E: certify intervals that hold a share P of new targets, such as 0.9",
    )
    group.add_argument(
        "--labels",
        action="store_true",
        help="the target holds labels, of any kind: train a classifier, and certify the share of wrong labels; not for "
        "--method pac-bayes",
    )
    group.add_argument(
        "--delta", metavar="P", type=options.number, default=0.01, help="probability of failure (default %(default)s)"
    )
    _add_loss(group)
    group.add_argument(
        "--share",
        metavar="P",
        type=options.number,
        help="share of the rows that train the model and scale all rows; the others certify it (default 0.5); with "
        "--scaling split, share of those for the scaling alone (default 0.1)",
    )
    group.add_argument(
        "--order",
        choices=("random", "as-given"),
        help="which rows are the share: drawn at random (default), or the first ones, as of a time series, whose later "
        "rows then certify the model; not for --method pac-bayes",
    )
    group.add_argument(
        "--scaling",
        choices=("prior", "as-given", "split"),
        help="prior (default): the rows that train the model give the means and standard deviations that scale all "
        "rows; as-given (default of --method pac-bayes): you declare that the units were fixed in advance; split, of "
        "--method pac-bayes: a random share of the rows scales the other rows, and only those are certified",
    )


def _add_kernel(group: Any) -> None:
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
        help="ard (default): one lengthscale (variance of a linear kernel, period) for each input; shared: one for "
        "all, for which --method pac-bayes has a smaller penalty",
    )
    group.add_argument(
        "--grid",
        nargs=3,
        metavar=("LOW", "HIGH", "STEPS"),
        type=options.number,
        help="of --method pac-bayes, best: edges and number of steps in the log of each hyperparameter (default -6 6 "
        "1200); each costs ln(STEPS+1)",
    )
    group.add_argument(
        "--mean",
        choices=("zero", "linear"),
        help="of --method pac-bayes, mean of the prior: zero (default), or a linear function of the scaled inputs that "
        "is fitted to the rows reserved by --scaling split",
    )


def _add_model(group: Any) -> None:
    group.add_argument(
        "--posterior",
        choices=POSTERIORS,
        help="full: the exact posterior; fitc, vfe: a sparse posterior; free: any N(a, B) of the inducing variables "
        "(default: full up to 1500 rows, else vfe, of --method pac-bayes fitc)",
    )
    group.add_argument(
        "--inducing",
        metavar="M",
        type=options.whole,
        help="number of inducing points, for every posterior but full (default 100)",
    )
    group.add_argument(
        "--objective",
        choices=("kl", "pinsker"),
        help="training objective of --method pac-bayes: the bound itself (kl, default) or Pinsker's looser bound; the "
        "certificate states the kl bound in both cases",
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
        metavar="T",
        help="training stops when less is expected to be gained, of the bound of --method pac-bayes (default 0.001) or "
        "nats per datum (0.01); 0 never",
    )


def train(args: argparse.Namespace) -> None:
    """Train a model, write certificates, figure and rows, and print what holds."""
    _settle(args)
    if args.method == "pac-bayes":
        _train_by_the_bound(args)
        return
    from gpbounds.cli import guaranteed

    guaranteed.train(args, _accuracies(args))


_OF_PAC_BAYES = ("grid", "mean", "objective")
"""Options of a model that is trained by the bound."""


def _settle(args: argparse.Namespace) -> None:
    """Fill in the defaults that depend on the form, and refuse options that do not go together."""
    args.method = args.method or ("best" if args.coverage is None else "held-out")
    _refuse_of_forms(args)
    _refuse_of_targets(args)
    by_the_bound = args.method == "pac-bayes"
    _settle_scaling(args, by_the_bound)
    if by_the_bound and args.share is not None and args.scaling != "split":
        raise options.UsageError("--share is an option of --scaling split, and of every --method but pac-bayes")
    args.loss, args.order = args.loss or "band", args.order or "random"
    if args.mean == "linear" and (args.scaling != "split" or args.loss in ("relative", "interval")):
        raise options.UsageError(
            "--mean linear is an option of --scaling split, whose reserved rows give its coefficients, and of losses "
            "of y - f: band, squared, exponential"
        )
    if args.share is None:
        args.share = 0.1 if args.scaling == "split" else 0.5
    if not (by_the_bound or 0.0 < args.share < 1.0):
        raise options.UsageError(f"--share: expected a number between 0 and 1, got {args.share:g}")
    if args.grid is not None and not float(args.grid[2]).is_integer():
        raise options.UsageError(f"--grid: expected a whole number of STEPS, got {args.grid[2]:g}")


def _settle_scaling(args: argparse.Namespace, by_the_bound: bool) -> None:
    """The default of ``--scaling``; refuses one that the form or the loss does not have."""
    of_raw_targets = args.loss in ("relative", "interval")
    args.scaling = args.scaling or ("as-given" if by_the_bound or of_raw_targets else "prior")
    if args.scaling == "split" and not by_the_bound:
        raise options.UsageError(
            f"--scaling split is an option of --method pac-bayes, got --method {args.method}, whose rows for training "
            "give the scaling, too (--scaling prior)"
        )
    if args.scaling == "prior" and by_the_bound:
        raise options.UsageError(
            "--scaling prior is an option of every --method but pac-bayes, which trains on the rows that it certifies "
            "and needs others for the scaling (--scaling split)"
        )
    if args.scaling == "prior" and of_raw_targets:
        raise options.UsageError(
            f"--scaling: expected as-given for --loss {args.loss}, whose E is a fraction of the target, got prior"
        )


def _refuse_of_forms(args: argparse.Namespace) -> None:
    """Refuse options of another form of certificate."""
    if args.coverage is not None and args.method != "held-out":
        raise options.UsageError(f"--coverage is an option of --method held-out, got --method {args.method}")
    if args.method == "pac-bayes":
        if args.order is not None:
            raise options.UsageError("--order is an option of every --method but pac-bayes, which trains on all rows")
        return
    for name in _OF_PAC_BAYES:
        if getattr(args, name) is not None and not (name == "grid" and args.method == "best"):
            also = " or best" if name == "grid" else ""
            raise options.UsageError(f"--{name} is an option of --method pac-bayes{also}, got --method {args.method}")


def _refuse_of_targets(args: argparse.Namespace) -> None:
    """Refuse options of another kind of target: numbers, numbers in intervals, or labels."""
    given = [f"--{name}" for name in ("epsilon", "loss") if getattr(args, name) is not None]
    if args.coverage is not None and not 0.0 < args.coverage < 1.0:
        raise options.UsageError(f"--coverage: expected a share between 0 and 1, got {args.coverage:g}")
    if args.coverage is not None and given:
        raise options.UsageError(f"{given[0]} and --coverage exclude each other: intervals have no loss")
    if not getattr(args, "labels", False):
        return
    if args.method == "pac-bayes":
        raise options.UsageError("--labels: expected --method best, data-prior or held-out, got pac-bayes")
    given += [f"--{name}" for name in ("coverage", "posterior", "grid") if getattr(args, name) is not None]
    if given:
        raise options.UsageError(f"{given[0]} and --labels exclude each other: labels are right or wrong")


def _train_by_the_bound(args: argparse.Namespace) -> None:
    """Train a model by its bound, write certificate, figure and rows, and print the terms of the bound."""
    from gpbounds.cli import rows, training

    accuracies = _accuracies(args)
    with shown("Reading the data"):
        table = rows.read_large(
            args.data,
            **options.table(args),
            in_memory=args.posterior == "full",
            split=args.scaling == "split",
            share=args.share,
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
        grid=training.edges(args.grid),
        family=args.kernel,
        shared=args.kernel_lengthscale == "shared",
        posterior=args.posterior,
        inducing=args.inducing,
        objective=args.objective or "kl",
        iterations=args.iterations,
        tol=0.001 if args.tol is None else args.tol,
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
    written = training.Written(pairs, files["picture"], files.get("data"), args.data, args.target)
    if args.json:
        output.print_json({"command": "certify train", **training.record(table, trained, written)})
    else:
        print(training.report(table, trained))
        print(f"\n{written.report(trained)}")
    output.leave(trained.interrupted)


def _accuracies(args: argparse.Namespace) -> list[float]:
    """The values of ε: those of ``--epsilon``, else `_ACCURACIES` where the targets are in standard deviations."""
    if args.labels or args.coverage is not None:
        return []
    if args.epsilon is None:
        if args.scaling == "as-given" or args.loss in ("relative", "interval"):
            raise options.UsageError(_NO_EPSILON)
        return list(_ACCURACIES)
    return _different(args.epsilon)


def _different(accuracies: list[float]) -> list[float]:
    if len(set(accuracies)) < len(accuracies):
        raise options.UsageError("--epsilon: expected different numbers, got one of them twice")
    return accuracies


def predictions(args: argparse.Namespace) -> None:
    """Certify the predictions in a file, write the certificates, and print what holds."""
    _refuse_of_targets(args)
    accuracies = _different(args.epsilon) if args.epsilon else []
    if args.loss is not None and not accuracies:
        raise options.UsageError("--loss is an option of --epsilon, the deviation that it tolerates")
    from gpbounds.cli import guaranteed

    guaranteed.of_predictions(args, accuracies)


def check(args: argparse.Namespace) -> None:
    """Print the report; the exit status is 1 unless the certificate is confirmed and rigorous."""
    from gpbounds.cli import rows
    from gpbounds.pacbayes.certificate import Certificate, Exact

    certificate = Certificate.load(args.certificate)
    labels = certificate.classes is not None
    with shown("Reading the data"):
        in_memory = isinstance(getattr(certificate, "posterior", None), Exact)
        X, y = rows.certified(args.data, in_memory=in_memory, labels=labels)
        own = {} if args.predictions is None else _predicted(args, certificate, y)
    with shown("Computing the certificate again"):
        report = certificate.check(X, y, **own, rigorous=args.rigorous)
    if args.json:
        output.print_json({"command": "certify check", "method": certificate.method, **report.to_dict()})
    else:
        print(report)
    if not (report.confirmed and report.rigorous):
        raise SystemExit(1)


def _predicted(args: argparse.Namespace, certificate: Any, y: Any) -> dict[str, Any]:
    """The predictions of ``--predictions``, as arguments of the check of a certificate that records some."""
    from fitting.certifying import unseen

    if certificate.method not in ("held-out", "coverage"):
        raise options.UsageError(
            f"--predictions: expected a certificate held-out or coverage, which records predictions, got one of the "
            f"form {certificate.method}, which holds the posterior itself"
        )
    found = unseen.in_file(args.predictions, numeric=y is None or y.dtype.kind in "iuf")
    if certificate.method == "held-out":
        return {"predictions": found.values}
    if found.spread is None:
        raise ValueError(
            f"{args.predictions}: expected the columns mean and std, as the certificate is about intervals"
        )
    return {"predictions": found.values, "spread": found.spread}
