"""``gpbounds predict``: predict for the rows of a table with a saved model, and score the predictions."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fitting.study.steps import shown
from gpbounds.cli import options, output
from gpbounds.progress import bar, on_terminal

EPILOG = """\
example:
  gpbounds train FILE.csv --out model && gpbounds predict model/model.npz NEW.csv --out predictions.csv

  writes a row for each row of NEW.csv: the mean, the standard deviation std_f of the function f, the larger one std_y
  of a new target y = f + noise, and the ends low_95 and high_95 of an interval that holds y with a probability of 95 %.
  A classifier gives the more probable label and the probability of each; a model of counts the mean and an interval.
  All numbers are in the units of the table that the model was trained on; `row` counts the rows of NEW.csv from 1.

  gpbounds predict model/model.npz NEW.csv --out - | head

MODEL is a file that `gpbounds train`, `gpbounds certify train` or the method save of an estimator wrote.  NEW.csv holds
the inputs, raw, by name if the model knows names, else in the order of the training.  If it holds the target, too, the
command prints the scores of the predictions, in units of the target.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model", metavar="MODEL", type=Path, help="a saved model (.npz), or an SVGP of another library (.json)"
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="CSV (.csv.gz) or Parquet (a file or a folder) of raw values, with or without the target",
    )
    options.add_new_rows(parser)
    parser.add_argument(
        "--level",
        metavar="P",
        type=options.number,
        default=0.95,
        help="probability of the intervals (default %(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("predictions.csv"),
        help="file for the predictions: .csv, .csv.gz or .parquet; - for CSV on stdout (default: %(default)s)",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Write the predictions, and print what they are and their scores."""
    from fitting.study.predicting import Predictor, encoding_for, loaded
    from gpbounds.rows.parquet import is_parquet
    from gpbounds.rows.table_rows import read_rows
    from gpbounds.rows.writing import csv_on, writing

    streamed = str(args.out) == "-"
    _check(args, streamed)
    with shown("Reading the model and the table"):
        made = Predictor(loaded(args.model), args.level)
        reading = {"target": args.target, "header": args.header}
        encoding = encoding_for(made.model, args.file, **reading)
        table = read_rows(args.file, **reading, drop_missing=args.drop_missing, encoding=encoding, predicting=True)
    with (
        nullcontext(csv_on(sys.stdout)) if streamed else writing(args.out) as write,
        bar("Predicting", table.N, "row", on_terminal(), unit_scale=True) as done,
    ):
        for columns in made.of(table.X, table.y, done.update, table.lines if args.drop_missing else None):
            write(columns)
    about = made.explained
    if args.drop_missing and not is_parquet(args.file):
        about["row"] = "line of the row in the file"
    if table.y is not None:
        about["target"] = f"the target in the table, {table.target}"
    answer = {
        "command": "predict",
        "model": str(args.model),
        "estimator": type(made.model).__name__,
        "data": str(args.file),
        "rows": table.N,
        "notes": table.notes,
        "columns": about,
        "scores": made.scores(),
        "rows of the training": made.seen,
        "out": None if streamed else str(args.out),
    }
    if args.json:
        output.print_json(answer)
    else:
        print(_report(answer, made.likelihood, made.noisy), file=sys.stderr if streamed else sys.stdout)


def _check(args: argparse.Namespace, streamed: bool) -> None:
    """Refuse options that cannot be met, before anything is read."""
    from gpbounds.rows.writing import SUFFIXES

    if streamed and args.json:
        raise options.UsageError("--json: expected a file for --out, got -: both would write to stdout")
    if not (streamed or args.out.name.endswith(SUFFIXES)):
        raise options.UsageError(f"--out: expected a name that ends in {', '.join(SUFFIXES)}, or -, got {args.out}")
    if not (streamed or args.out.parent.is_dir()):
        raise options.UsageError(f"--out: expected a file in a folder that exists, got {args.out}")
    if not 0.0 < args.level < 1.0:
        raise options.UsageError(f"--level: expected a probability between 0 and 1, got {args.level:g}")
    for path in (args.file, args.model):
        if args.out.exists() and path.exists() and args.out.samefile(path):
            raise options.UsageError(f"--out: expected another file, because the output would overwrite {path}")


def _report(answer: dict[str, Any], likelihood: Any, noisy: bool) -> str:
    """What was written, and the scores as a table."""
    from gpbounds.cli.models import EXPLAINED, OF_REAL_TARGETS
    from gpbounds.texts import table, wrapped

    scores, seen, width = answer["scores"], answer["rows of the training"], max(map(len, answer["columns"]))
    s = "" if answer["rows"] == 1 else "s"
    lines = [
        wrapped(f"{answer['estimator']} of {answer['model']} predicted {answer['rows']:,} row{s} of {answer['data']}."),
        f"Saved {answer['out']}, with the columns" if answer["out"] else "Columns on stdout:",
        *(f"  {name:{width}}  {what}" for name, what in answer["columns"].items()),
    ]
    if scores:
        first = next(iter(scores.values()))
        cells = [(name, *(f"{group[name]:.4g}" for group in scores.values())) for name in first]
        lines += ["", table(("score", *scores), cells), "", wrapped(EXPLAINED.get(type(likelihood), OF_REAL_TARGETS))]
    lines += [wrapped(f"Note: {note}") for note in answer["notes"]]
    if not noisy:
        lines.append("Note: A free posterior describes f alone, and has no law of new targets: no std_y, no intervals.")
    if seen:
        of = "all" if seen == answer["rows"] else f"{seen:,}"
        lines.append(
            wrapped(f"Note: The model was trained on {of} of these rows, and predicts them better than new ones.")
        )
    return "\n".join(lines)
