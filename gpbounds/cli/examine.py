"""``gpbounds examine``: is what a library says of a model right, its log p(y) and predictions; and if not, why?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbounds.cli import options, output

if TYPE_CHECKING:
    from gpbounds.rows.table_rows import TableRows

EPILOG = """\
example:
  gpbounds examine model.json FILE.csv --claimed-evidence -1234.5 --claimed-predictions said.csv --test NEW.csv

  says whether -1234.5 is log p(y) of the exact GP with the model's kernel and noise, which is proved to lie in an
  interval, in nats and for each row; how many claimed means and standard deviations in said.csv are off for certain,
  and the worst; and how much of the errors is due to inducing points, jitter, single precision and the solver.

  gpbounds examine model.npz --claimed-evidence 118.2

MODEL is what `gpbounds audit --model` reads: a model of GPflow, GPyTorch, GPJax or scikit-learn that Python converted,
  gpbounds.renyi.from_gpytorch(model, likelihood).save("model.json")
with FILE, the rows of its training; or what `gpbounds train` or the method save wrote, which holds its rows.

The table of --claimed-predictions has a header with the column mean, and may have one of variance, std or std_f (of the
function f; with --noisy std_y or variance_y, of new targets), as `gpbounds predict` writes it.  The points are its
columns with the names of the inputs; else the rows of --test, or of FILE, that its column row numbers, or in order.

GPyTorch's marginal log likelihood is log p(y) per row: --per-row.  State what the library adds to the diagonal by
--claimed-jitter, and --dtype float32 if it computed in single precision.

theorem: N-computed and N-exact for log p(y), N-solve for predictions, N-jitter and N-forms for the parts of an error.
Beyond 10 000 rows log p(y) is bounded with a probability (N-slq).  The answer never changes the exit status.
"""

_OTHER_LIBRARIES = (
    "convert a model of GPflow, GPyTorch, GPJax or scikit-learn in Python by "
    'gpbounds.renyi.from_gpflow(model).save("model.json"), from_gpytorch, from_gpjax or from_sklearn'
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a saved model (.npz), or one of another library (.json)"
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help="CSV (.csv.gz) or Parquet of the rows of its training, raw (default: those that a .npz model holds)",
    )
    _add_claims(parser)
    _add_library(parser)
    parser.add_argument(
        "--nats",
        metavar="T",
        type=options.number,
        default=0.01,
        help="errors of log p(y) below this count as none (default %(default)s)",
    )
    parser.add_argument(
        "--deviation",
        metavar="S",
        type=options.number,
        default=0.01,
        help="errors of a mean, or of a standard deviation, below this share of the exact standard deviation count as "
        "none (default %(default)s)",
    )
    parser.add_argument(
        "--work",
        metavar="FLOPS",
        type=options.number,
        help="operations that a factor of K + noise may take (default: 4e11, which affords 10 000 rows); beyond, log "
        "p(y) is bounded from random probes",
    )
    parser.add_argument(
        "--delta",
        metavar="P",
        type=options.number,
        default=0.05,
        help="probability with which such bounds may fail (default %(default)s)",
    )
    parser.add_argument("--seed", metavar="S", type=options.whole, default=0, help="of the probes (default 0)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("examined.html"), help="the page (default: %(default)s)"
    )
    options.add_json(parser)
    options.add_table(parser)
    parser.set_defaults(run=run)


def _add_claims(parser: argparse.ArgumentParser) -> None:
    """What the library says."""
    parser.add_argument(
        "--claimed-evidence", metavar="V", type=options.number, help="what the library says log p(y) is, in nats"
    )
    parser.add_argument("--per-row", action="store_true", help="the claimed number is log p(y) divided by the rows")
    parser.add_argument(
        "--claimed-predictions", metavar="FILE", type=Path, help="a table of what the library predicts (see below)"
    )
    parser.add_argument(
        "--test", metavar="FILE", type=Path, help="the table of the rows that it predicts, with or without the target"
    )
    parser.add_argument(
        "--noisy", action="store_true", help="the claimed variances are those of new targets, with the noise"
    )


def _add_library(parser: argparse.ArgumentParser) -> None:
    """How the library computed."""
    parser.add_argument(
        "--claimed-jitter",
        metavar="J",
        type=options.number,
        help="what the library adds to the diagonal of K, or of the inducing points' covariance (default: that of the "
        "model's posterior, or 0)",
    )
    parser.add_argument(
        "--dtype",
        choices=("float64", "float32"),
        default="float64",
        help="the precision in which the library computed (default %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Examine the claims, write the page, and print the findings."""
    from fitting.study.claimed_rows import in_file
    from fitting.study.examining import ExamineQuestion, examined
    from fitting.study.steps import shown

    _check(args)
    asked = ExamineQuestion(
        args.claimed_evidence,
        args.per_row,
        args.noisy,
        args.claimed_jitter,
        args.dtype == "float32",
        args.nats,
        args.deviation,
        **({} if args.work is None else {"work": args.work}),
        delta=args.delta,
        rng=args.seed,
        progress=True,
        spelled=options.flag,
        source=str(args.model),
    )
    with shown("Reading the model and the table"):
        model, rows, points = _read(args)
    claims = None
    if args.claimed_predictions is not None:
        reading = {"noisy": args.noisy, "spelled": options.flag}
        claims = partial(_claims, partial(in_file, args.claimed_predictions, **reading))
    answer = examined(model, rows, claims, asked, points)
    answer.save(args.out)
    if args.json:
        output.print_json({**answer.to_dict(), "out": str(args.out)})
    else:
        answer.print()
        print(f"\nSaved {args.out}")
    output.leave(answer.interrupted)


def _claims(read: Any, points: TableRows) -> Any:
    return read(points.titles, points)


def _check(args: argparse.Namespace) -> None:
    """Refuse options that cannot be met, before anything is read."""
    if args.out.suffix not in (".html", ".htm"):
        raise options.UsageError(f"--out: expected a name that ends in .html, got {args.out}")
    if not args.out.parent.is_dir():
        raise options.UsageError(f"--out: expected a file in a folder that exists, got {args.out}")
    if args.model.suffix not in (".npz", ".json"):
        raise options.UsageError(f"MODEL: expected a file .npz or .json, got {args.model}: {_OTHER_LIBRARIES}")
    if args.claimed_evidence is None and args.claimed_predictions is None:
        raise options.UsageError("--claimed-evidence, --claimed-predictions: expected at least one claim, got none")
    if args.per_row and args.claimed_evidence is None:
        raise options.UsageError("--per-row: expected --claimed-evidence, got none")
    for option, value in (("--test", args.test), ("--noisy", args.noisy or None)):
        if value is not None and args.claimed_predictions is None:
            raise options.UsageError(f"{option}: expected --claimed-predictions, got none")
    if args.claimed_jitter is not None and not args.claimed_jitter >= 0.0:
        raise options.UsageError(f"--claimed-jitter: expected a number >= 0, got {args.claimed_jitter:g}")
    if args.work is not None and not args.work >= 0.0:
        raise options.UsageError(f"--work: expected a number >= 0, got {args.work:g}")
    for option, value in (("--nats", args.nats), ("--deviation", args.deviation)):
        if not value > 0.0:
            raise options.UsageError(f"{option}: expected a positive number, got {value:g}")
    if not 0.0 < args.delta < 1.0:
        raise options.UsageError(f"--delta: expected a number between 0 and 1, got {args.delta:g}")


def _read(args: argparse.Namespace) -> tuple[Any, TableRows | None, TableRows | None]:
    """The model, the rows of its training if they are in a table, and the rows that are predicted.

    Raises
    ------
    ValueError, OSError
        for a table or a model that cannot be read, and for models of labels or counts.
    """
    from fitting.study.auditing import of_gaussian_noise
    from gpbounds.cli import examples, models
    from gpbounds.renyi import LatentModel, imported_model

    if args.model.suffix == ".json":
        model: Any = imported_model(args.model)
        if isinstance(model, LatentModel):
            raise options.UsageError(
                f"MODEL: expected a model with Gaussian noise, got one of labels or counts, {args.model}: "
                "gpbounds audit bounds its divergence"
            )
        if args.file is None:
            raise options.UsageError(f"FILE: expected the rows that {args.model} was trained on, got none")
    else:
        model = models.saved(args.model)
        of_gaussian_noise(model, f" in {args.model}", options.flag)
    rows = None
    if args.file is not None:
        rows = examples.read(args, encoding=getattr(model, "encoding_", None))
        rows = replace(rows, columns=rows.titles)
    return model, rows, None if args.test is None else _test_rows(args, model, rows)


def _test_rows(args: argparse.Namespace, model: Any, rows: TableRows | None) -> TableRows:
    """The rows of ``--test``, read as the table of training was, with or without the target."""
    from fitting.study.predicting import encoding_for
    from gpbounds.rows.table_rows import read_rows

    reading = {"target": args.target, "header": args.header}
    encoding = encoding_for(model, args.test, **reading) if rows is None else rows.encoding
    return read_rows(args.test, **reading, drop_missing=args.drop_missing, encoding=encoding, predicting=True)
