"""``gpbounds audit``: was M enough, and what follows; one page for a trained model, or for a fresh fit."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbounds.cli import options, output
from gpbounds.kernels.families import SQUARED_EXPONENTIAL

if TYPE_CHECKING:
    from fitting.study.audited_rows import AuditQuestion
    from fitting.study.auditing import Examined
    from fitting.study.latent_auditing import LatentExamined
    from gpbounds.rows.table_rows import TableRows

EPILOG = """\
example:
  gpbounds train FILE.csv --inducing 100 --out model && gpbounds audit FILE.csv --model model/model.npz --out audit.html

  says how much better the exact GP would predict the rows that training did not use; whether 100 inducing points are
  enough for a divergence of 1 nat from the exact posterior, and which number would do; where in input space the
  approximation is worst; which hyperparameters are at their limits; and whether intervals cover the held-out rows.
  Open audit.html in a browser; it needs no network.

  gpbounds audit FILE.csv --inducing 50

  trains a sparse GP with 50 inducing points first, and holds out a fifth of the rows.

A model of labels or counts (gpbounds train --model classifier, or variational with --likelihood poisson) is audited,
too: is M enough, how much of the divergence is the posterior's and how much M's, what it means for probabilities.

A model of GPflow, GPyTorch, GPJax or scikit-learn is converted in Python; FILE must hold X and y as it was trained on
them:
  gpbounds.renyi.from_gpflow(model).save("model.json")     # or from_gpytorch, from_gpjax, from_sklearn
  gpbounds audit FILE.csv --model model.json

theorem: N-solve (the exact GP's predictions between proved ends), R-gap (the divergence is log p(y) - ELBO), R-eq8 and
others for log p(y), N-low from below, L-30 and L-31 for a guarantee at every input; with --certificate P-09.
N-fisher, N-elbos and N-event for labels and counts.  The page states the claims it uses.
"""


_DEFAULT_INDUCING = 100

_OTHER_LIBRARIES = (
    "convert a model of GPflow, GPyTorch, GPJax or scikit-learn in Python by "
    'gpbounds.renyi.from_gpflow(model).save("model.json"), from_gpytorch, from_gpjax or from_sklearn'
)
"""How models of other libraries are passed; no file is unpickled, because that runs any code in it."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="CSV (.csv.gz) or Parquet (a file or a folder) of raw values"
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
    _add_question(parser)
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("audit.html"), help="the page (default: %(default)s)"
    )
    options.add_json(parser)
    options.add_table(parser)
    parser.set_defaults(run=run)


def _add_question(parser: argparse.ArgumentParser) -> None:
    """What the audit is asked."""
    parser.add_argument(
        "--nats",
        metavar="T",
        type=options.number,
        default=1.0,
        help="the divergence from the exact posterior that counts as enough (default %(default)s)",
    )
    parser.add_argument(
        "--enough", dest="former", type=options.number, help=argparse.SUPPRESS
    )  # earlier name of --nats
    _add_comparison(parser)
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
        "--work",
        metavar="FLOPS",
        type=options.number,
        help="operations that may be spent on bounds on log p(y); notes say what is left out (default: 4e11, which "
        "affords a Cholesky factor of 10 000 rows)",
    )
    parser.add_argument(
        "--held-out",
        metavar="S",
        type=options.number,
        help="share of the rows to hold out, drawn at random: of a new model (default 0.2, with --test 0), or "
        "with a .json file (default 0: all rows are those of its training)",
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


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    """How the predictions of the exact GP are compared."""
    parser.add_argument(
        "--test",
        metavar="FILE",
        type=Path,
        help="a table of rows that were not used in training, on which predictions are compared and calibration is "
        "measured (default: the rows held out)",
    )
    parser.add_argument(
        "--loss",
        metavar="L",
        type=options.number,
        default=0.01,
        help="differences of log loss from the exact GP below this count as none, in nats a row (default %(default)s)",
    )
    parser.add_argument(
        "--test-rows",
        metavar="N",
        type=options.whole,
        help="held-out rows, drawn at random, at which the exact GP predicts (default: all, at most 2000, up to 6000 "
        "training rows, and 200 beyond)",
    )
    parser.add_argument(
        "--retrain",
        action="store_true",
        help="train the model again with twice as many points, from its hyperparameters, and compare it, too: an "
        "estimate",
    )


def run(args: argparse.Namespace) -> None:
    """Audit the model, write the page, and print the findings."""
    from fitting.study.audited_rows import AuditQuestion
    from fitting.study.auditing import audit_of
    from fitting.study.latent_auditing import LatentExamined, latent_audit_of
    from fitting.study.steps import shown

    if args.out.suffix not in (".html", ".htm"):
        raise options.UsageError(f"--out: expected a name that ends in .html, got {args.out}")
    if not args.out.parent.is_dir():
        raise options.UsageError(f"--out: expected a file in a folder that exists, got {args.out}")
    if not 0.0 < args.delta < 1.0:
        raise options.UsageError(f"--delta: expected a number between 0 and 1, got {args.delta:g}")
    if args.former is not None:
        args.nats = args.former
    if not args.nats > 0.0:
        raise options.UsageError(f"--nats: expected a positive number, got {args.nats:g}")
    if args.former is not None:
        print("gpbounds audit: --enough is now called --nats", file=sys.stderr)
    if args.work is not None and not args.work >= 0.0:
        raise options.UsageError(f"--work: expected a number >= 0, got {args.work:g}")
    if not args.loss > 0.0:
        raise options.UsageError(f"--loss: expected a positive number, got {args.loss:g}")
    if args.test_rows is not None and args.test_rows < 1:
        raise options.UsageError(f"--test-rows: expected a whole number >= 1, got {args.test_rows}")
    if args.most < 1:
        raise options.UsageError(f"--most: expected a whole number >= 1, got {args.most}")
    if args.certificate is not None and not args.certificate > 0.0:
        raise options.UsageError(f"--certificate: expected a positive number, got {args.certificate:g}")
    new = args.model is None and args.test is None
    asked = AuditQuestion(
        args.nats,
        args.most,
        args.rows,
        (0.2 if new else 0.0) if args.held_out is None else args.held_out,
        args.certificate,
        args.delta,
        args.seed,
        progress=True,
        spelled=options.flag,
        **({} if args.work is None else {"work": args.work}),
        loss=args.loss,
        test_rows=args.test_rows,
        retrain=args.retrain,
        file=str(args.file),
        saved="" if args.model is None else str(args.model),
    )
    with shown("Reading the data and the model" if args.model else "Reading the data and training a model"):
        model = examined(args, asked)
    audit = latent_audit_of(model, asked) if isinstance(model, LatentExamined) else audit_of(model, asked)
    audit.save(args.out)
    if args.json:
        output.print_json({**audit.to_dict(), "out": str(args.out)})
    else:
        audit.print()
        print(f"\nSaved {args.out}")
    output.leave(audit.interrupted)


def examined(args: argparse.Namespace, asked: AuditQuestion) -> Examined | LatentExamined:
    """A saved model, or a new one, with the rows of the file.

    Raises
    ------
    ValueError, OSError
        for a table or a model that cannot be read, a model of other inputs or other rows, or with a likelihood that is
        neither Gaussian nor log-concave of labels or counts.
    """
    from fitting.study import auditing
    from fitting.study.latent_auditing import of_latent_points, signed
    from gpbounds.cli import examples, models
    from gpbounds.renyi import LatentModel, imported_model

    if args.model is not None and args.model.suffix not in (".npz", ".json"):
        raise options.UsageError(f"--model: expected a file .npz or .json, got {args.model}: {_OTHER_LIBRARIES}")
    model = None if args.model is None or args.model.suffix == ".json" else models.saved(args.model)
    if model is not None:
        auditing.auditable(model, f" in {args.model}", asked.spelled)
    labels = hasattr(model, "classes_")
    rows = examples.read(args, encoding=getattr(model, "encoding_", None), labels=labels)
    rows = replace(rows, columns=rows.titles)
    test = None if args.test is None else _test_rows(args, rows, labels)
    if args.model is None:
        return _of_a_new_model(args, rows, asked, test)
    if model is None:
        given = imported_model(args.model)
        if isinstance(given, LatentModel):
            return of_latent_points(given, rows, str(args.model), asked, test)
        return auditing.of_points(given, rows, str(args.model), asked, test)
    if labels:
        rows = replace(rows, y=signed(model, rows.y))
        test = None if test is None else replace(test, y=signed(model, test.y))
    return _of_a_saved_model(args.model, model, rows, asked, test)


def _test_rows(args: argparse.Namespace, rows: TableRows, labels: bool) -> TableRows:
    """The rows of ``--test``, read as the table was."""
    from gpbounds.rows.table_rows import read_rows

    choice = {"drop_missing": args.drop_missing, "header": args.header}
    return read_rows(args.test, args.target, encoding=rows.encoding, labels=labels, **choice)


def _of_a_new_model(
    args: argparse.Namespace, rows: TableRows, asked: AuditQuestion, test: TableRows | None
) -> Examined:
    """A sparse GP, trained on a part of the rows."""
    from fitting.study import auditing
    from fitting.study.audited_rows import split, with_test
    from gpbounds.cli import models

    numbers = split(rows.N, asked.held_out, args.seed, asked.spelled)
    train, held = (rows.part(each) for each in numbers)
    settings = {"n_inducing": _DEFAULT_INDUCING if args.inducing is None else args.inducing}
    model = models.fitted(
        "sparse",
        settings | {"random_state": args.seed},
        train,
        SQUARED_EXPONENTIAL,
        progress=sys.stderr.isatty(),
    )
    if any(run.status == "interrupted" for run in model.runs_):
        raise KeyboardInterrupt  # nobody asked about a model that is trained in part
    held_out = f"; {held.N} were held out at random (seed {args.seed})" if held.N else ""
    notes = (
        f"A new sparse GP was trained on {train.N} rows{held_out}.",
        models.for_the_shell(model.stop_reason_),
    )
    return auditing.of_model(model, *with_test(rows, numbers, test), notes)


def _of_a_saved_model(
    path: Path, model: Any, rows: TableRows, asked: AuditQuestion, test: TableRows | None
) -> Examined | LatentExamined:
    """A model that was trained on rows of the table."""
    from fitting.study import auditing
    from fitting.study.audited_rows import training_rows, with_test
    from fitting.study.latent_auditing import is_latent, of_latent_estimator

    auditing.with_its_rows(model, rows, f" in {path}", asked.spelled)
    numbers = training_rows(model, rows, f" in {path}", asked.spelled)
    notes = (f"The model was read from {path}; {numbers[1].size} rows of the file were not used in its training.",)
    rows, numbers = with_test(rows, numbers, test)
    return (of_latent_estimator if is_latent(model) else auditing.of_model)(model, rows, numbers, notes)
