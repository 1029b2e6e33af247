"""Train a model on a share of the rows of a table and certify it by the others, in every form or in one."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.guarantee import confidence, outwards, relied_on, when_held_out
from fitting.study.steps import shown
from fitting.study.terms import accuracy, of_forms
from gpbounds.cli import options, output, rows, training
from gpbounds.kernels import Stationary
from gpbounds.kernels.plain import hyperparameters
from gpbounds.pacbayes import HyperGrid
from gpbounds.progress import on_terminal
from gpbounds.rigor import decimal
from gpbounds.rows.tables import lines_of
from gpbounds.texts import short, wrapped
from gpbounds.texts import table as aligned
from gpbounds.validation import count, non_negative, scalar

# What the options ask.


def train(args: argparse.Namespace, accuracies: Sequence[float]) -> None:
    """Train and certify by the options, write certificates, model, figure and rows, and print what holds.

    ``accuracies`` are the values of ε; there are none for labels and intervals.
    """
    # The command line is an application above both packages.
    from sklearn.exceptions import ConvergenceWarning

    from fitting import certify

    with shown("Reading the data"):
        in_memory = args.labels or args.posterior == "full"
        data = rows.read_large(args.data, **options.table(args), in_memory=in_memory, labels=args.labels)
    files = Files.of(args, accuracies, data)
    model, grid = _estimator(args, data)
    print(f"Training on rows of {data.name}, N = {data.N} ...", file=sys.stderr)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # the remarks of the model contain the same message
        answer = certify(model, *data.data, **_statement(args, accuracies), grid=grid)
    told = tuple(str(each.message) for each in caught)
    result = Result(data, answer if isinstance(answer, tuple) else (answer,), files, told)
    args.out.mkdir(parents=True, exist_ok=True)
    result.write()
    if args.json:
        output.print_json({"command": "certify train", **result.record()})
    else:
        print(result.report())
    output.leave(result.interrupted)


def of_predictions(args: argparse.Namespace, accuracies: Sequence[float]) -> None:
    """Certify the predictions in a file by the options, write certificates and figure, and print what holds."""
    from fitting import certify

    labels = not accuracies and args.coverage is None
    _refuse_other_predictions(args, labels)
    with shown("Reading the data"):
        data = rows.unseen(args.data, labels=labels)
    files = Files.of(args, accuracies, data, args.predictions)
    asked = {"loss": "zero-one"} if labels else {"coverage": args.coverage}
    if accuracies:
        asked = {"loss": args.loss or "band", "epsilon": accuracies if len(accuracies) > 1 else accuracies[0]}
    answer = certify(args.predictions, *data.data, method="held-out", delta=args.delta, **asked)
    result = Result(data, answer if isinstance(answer, tuple) else (answer,), files)
    args.out.mkdir(parents=True, exist_ok=True)
    result.write()
    if args.json:
        output.print_json({"command": "certify predictions", **result.record()})
    else:
        print(result.report())


def _refuse_other_predictions(args: argparse.Namespace, labels: bool) -> None:
    """Refuse options that do not go with the columns of the file of predictions."""
    header = [cell.strip().lower() for cell in next(lines_of(args.predictions), (0, [""]))[1]]
    if labels and "mean" in header:
        raise options.UsageError(
            f"--epsilon, --coverage: expected one of them for the column mean of {args.predictions}, got neither"
        )
    if not labels and "label" in header:
        given = "--coverage" if args.coverage is not None else "--epsilon"
        raise options.UsageError(
            f"{given}: expected not to be given for the column label of {args.predictions}, which is right or wrong"
        )
    if args.coverage is not None and header == ["mean"]:
        raise options.UsageError(
            f"--coverage: expected the columns mean and std in {args.predictions}, got mean alone: where all rows are "
            "as uncertain, give each the std 1"
        )


def _statement(args: argparse.Namespace, accuracies: Sequence[float]) -> dict[str, Any]:
    """The statement as arguments of `fitting.certify`."""
    asked: dict[str, Any] = {
        "method": args.method,
        "delta": args.delta,
        "share": args.share,
        "order": args.order.replace("-", " "),
        "random_state": args.seed,
        "scaling": args.scaling.replace("-", " "),
    }
    if args.coverage is not None:
        return asked | {"coverage": args.coverage}
    if args.labels:
        return asked
    return asked | {"loss": args.loss, "epsilon": accuracies if len(accuracies) > 1 else accuracies[0]}


def _estimator(args: argparse.Namespace, data: rows.Table) -> tuple[Any, HyperGrid | None]:
    """The estimator of the options, not fitted, and the grid of its kernel for the form without a split."""
    from fitting import estimators

    posterior = args.posterior or ("full" if data.N <= training.FULL_ROWS else "vfe")
    if posterior == "full" and args.inducing is not None and not args.labels:
        raise options.UsageError(training.NO_INDUCING)
    settings: dict[str, Any] = {
        "max_iter": count("--iterations", args.iterations),
        "random_state": args.seed,
        "progress": on_terminal(),
    }
    if args.tol is not None:
        settings["tol"] = scalar(non_negative, "--tol", args.tol)
    seen = max(1, math.floor(args.share * data.N))
    M = min(training.INDUCING, seen) if args.inducing is None else count("--inducing", args.inducing)
    shared = args.kernel_lengthscale == "shared"
    if args.labels:
        lengthscales = {None: "auto", "ard": "separate", "shared": "shared"}[args.kernel_lengthscale]
        own = {"kernel": args.kernel.text, "lengthscales": lengthscales, "n_inducing": M}
        return estimators.VariationalGPClassifier(**settings | own), None
    edges = training.edges(args.grid)
    if args.scaling == "prior":  # every column has a standard deviation of 1
        kernel = args.kernel.at(1.0, np.full(data.D, math.sqrt(data.D)), shared)
        grid = HyperGrid(*edges, tuple(hyperparameters(kernel)))
    else:
        kernel, grid = training.start(data, args.kernel, edges, shared)
    settings |= {"kernel": kernel, "start": "evidence" if isinstance(kernel, Stationary) else "scale"}
    if posterior == "full":
        return estimators.ExactGP(**settings), grid
    if posterior == "free":
        return estimators.VariationalGP(n_inducing=M, **settings), grid
    return estimators.SparseGP(n_inducing=M, method=posterior, **settings), grid


# The files that are written.


@dataclass(frozen=True)
class Files:
    """The files of the command, and the commands that read them.

    Attributes
    ----------
    folder : Path
    names : tuple of str
        What the names of files of each ε have behind "certificate" and "model"; of a single one nothing.
    own_rows : Path or None
        All rows, if they are not those of the file ``table``.
    table : Path
        The file that the command read.
    predictions : Path or None
        The file of the predictions that are certified, in place of those of a model.
    """

    folder: Path
    names: tuple[str, ...]
    own_rows: Path | None
    table: Path
    predictions: Path | None = None

    @classmethod
    def of(
        cls, args: argparse.Namespace, accuracies: Sequence[float], data: rows.Table, predictions: Path | None = None
    ) -> Files:
        """The files for the options; refuses a folder in which one of them is a file that the command reads."""
        names = tuple(f"-{each:g}" for each in accuracies) if len(accuracies) > 1 else ("",)
        own = None if data.as_in_file else args.out / f"certificate_data{data.suffix}"
        made = cls(args.out, names, own, args.data, predictions)
        written = [made.picture, *(path for i in range(len(names)) for path in (made.certificate(i), made.model(i)))]
        for source in (args.data, *(() if predictions is None else (predictions,))):
            if any(path.exists() and path.samefile(source) for path in chain(written, () if own is None else (own,))):
                raise options.UsageError(f"--out: expected another folder, because the output would overwrite {source}")
        return made

    @property
    def picture(self) -> Path:
        return self.folder / "certificate.png"

    def certificate(self, i: int, form: str = "") -> Path:
        """The file of the ``i``-th ε: of the best form, or of another one."""
        return self.folder / f"certificate{self.names[i]}{form and '-'}{form}.json"

    def model(self, i: int) -> Path:
        """The file of the model of the ``i``-th ε."""
        return self.folder / f"model{self.names[i]}.npz"

    def check(self, i: int) -> str:
        """The command that checks the best certificate of the ``i``-th ε."""
        data = str(self.own_rows or self.table)
        own = () if self.predictions is None else ("--predictions", str(self.predictions))
        return shlex.join(("gpbounds", "certify", "check", str(self.certificate(i)), "--data", data, *own))

    def predict(self, i: int) -> str:
        """The command that predicts with the model of the ``i``-th ε."""
        return f"{shlex.join(('gpbounds', 'predict', str(self.model(i))))} NEW.csv --out predictions.csv"


# What was certified.

_OF_PRIOR = (
    "The model file predicts by the prior's law, from the rows for training; the certified law, which the other rows "
    "have improved, is in the certificate."
)


@dataclass(frozen=True, eq=False)
class Result:
    """The certificates of each ε, of labels or of intervals, and their files.

    Attributes
    ----------
    data : Table
    best : tuple of certificates
        The least bound for each ε.
    files : Files
    told : tuple of str
        Warnings on the way.
    """

    data: rows.Table
    best: tuple[Any, ...]
    files: Files
    told: tuple[str, ...] = ()

    @property
    def place(self) -> int:
        """The number of the certificate in the figure and in the text: the first one with a bound below 1/2."""
        return next((i for i, each in enumerate(self.best) if each.bound < 0.5), len(self.best) - 1)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training of a model."""
        runs = chain.from_iterable(getattr(each.model, "runs_", ()) for each in self.best)
        return any(run.status == "interrupted" for run in runs)

    def write(self) -> None:
        """Write rows, figure, models, and then certificates: who finds a new one finds the rows of which it speaks."""
        if self.files.own_rows is not None:
            self.data.write(self.files.own_rows)
        with shown("Drawing the figure"):
            self.best[self.place].plot().savefig(self.files.picture)
        for i, each in enumerate(self.best if self.files.predictions is None else ()):
            each.model.set_params(progress=False)
            if self.data.encoding is not None:  # with which predict reads the same columns
                each.model.encoding_ = self.data.encoding
            each.model.save(self.files.model(i))
        for i, each in reversed(list(enumerate(self.best))):
            for other in self._others(i):
                other.save(self.files.certificate(i, other.method))
            each.save(self.files.certificate(i))

    def record(self) -> dict[str, Any]:
        """The content of `report`, ready for JSON."""
        first, *others = [self._one(i) for i in range(len(self.best))]
        return {
            **first,
            "data": {"name": self.data.name, "N": self.data.N, "D": self.data.D, "notes": self.data.notes},
            "notes": self.notes,
            "others": others,
        }

    def _one(self, i: int) -> dict[str, Any]:
        """The certificates of the ``i``-th ε."""
        best = self.best[i]
        files = {"certificate": self.files.certificate(i), "picture": self.files.picture}
        files |= {"model": self.files.model(i)} if self.files.predictions is None else {}
        files |= {
            each.method: self.files.certificate(i, each.method) for each in best.forms if each.method != best.method
        }
        files |= {} if self.files.own_rows is None else {"data": self.files.own_rows}
        return {
            **about(best),
            "relied on": relied_on(best),
            "statement": best.statement,
            "forms": [about(each) for each in best.forms],
            "files": {name: str(path) for name, path in files.items()},
            "check": self.files.check(i),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings, and the remarks of the training, with the names of options."""
        remarks = [remark.text for each in self.best for remark in getattr(each.model, "remarks_", ())]
        of_prior = [_OF_PRIOR] if any(each.method == "data-prior" for each in self.best) else []
        return tuple(dict.fromkeys(training.for_the_shell(text) for text in (*of_prior, *self.told, *remarks)))

    def report(self) -> str:
        """The forms as tables, what holds, the files, and the commands that read them."""
        i = self.place
        best = self.best[i]
        lines = [
            wrapped(
                f"Data: {self.data.name}, N = {self.data.N}, D = {self.data.D}. {' '.join(self.data.notes)}".rstrip()
            ),
            "",
            *self._tables(),
            wrapped(relied_on(best)),
            *self._interval(best),
            "",
            wrapped(best.statement),
            "",
            wrapped(when_held_out(best)),
            *(wrapped(f"Note: {note}") for note in self.notes),
            "",
            *self._saved(),
            *([] if self.files.predictions else [f"Predict for new rows{self._which(i)}:\n  {self.files.predict(i)}"]),
            f"Check it:\n  {self.files.check(i)}",
        ]
        return "\n".join(lines)

    def _interval(self, best: Any) -> list[str]:
        """How an interval is made of the columns of a file of predictions."""
        if best.method != "coverage":
            return []
        spread = "std_y" if self.files.predictions is None else "std (std_y of `gpbounds predict`)"
        return [f"Interval of a new row: mean +- {outwards(best.factor)} {spread}."]

    def _which(self, i: int) -> str:
        return f", here with E = {accuracy(self.best[i]):g}" if len(self.best) > 1 else ""

    def _tables(self) -> list[str]:
        """The bounds of all forms against ε, and the forms of one certificate."""
        best, lines = self.best[self.place], []
        together = f"hold together with probability {confidence(best.delta)} %"
        if len(self.best) > 1:
            unit, names = float(best.outputs.scale), [each.method for each in best.forms]
            cells = [self._line(each, unit, names) for each in self.best]
            lines += [wrapped(f"All bounds {together}, so you may choose one now:")]
            lines += [
                aligned(("E", "in raw units", *names, "least"), cells),
                "",
                f"In detail, for E = {accuracy(best):g}:",
            ]
        elif len(best.forms) > 1:
            lines += [f"All {len(best.forms)} bounds {together}; the least is certified:"]
        cells = [(each.method, *row[1:]) for each, row in zip(best.forms, of_forms(best.forms), strict=True)]
        return [*lines, aligned(("form", "risk of", "mean loss", "bound", "holds alone with"), cells), ""]

    def _line(self, best: Any, unit: float, names: Sequence[str]) -> tuple[str, ...]:
        """A line of the table of bounds against ε; relative losses have no width in raw units."""
        epsilon = accuracy(best)
        raw = "-" if best.loss.name in ("relative", "interval") else short(epsilon * unit)
        bounds = {each.method: decimal(each.bound, True, 4) for each in best.forms}
        return (f"{epsilon:g}", raw, *(bounds.get(name, "-") for name in names), best.method)

    def _others(self, i: int) -> list[Any]:
        """The certificates of the other forms of the ``i``-th ε."""
        return [each for each in self.best[i].forms if each.method != self.best[i].method]

    def _saved(self) -> list[str]:
        """The names of the files."""
        paths = [self.files.picture, *(() if self.files.own_rows is None else (self.files.own_rows,))]
        for i in range(len(self.best)):
            paths += [self.files.certificate(i), *([] if self.files.predictions else [self.files.model(i)])]
            paths += [self.files.certificate(i, other.method) for other in self._others(i)]
        lines = [wrapped(f"Saved {', '.join(map(str, paths))}")]
        if self.files.own_rows is not None:
            lines.append(f"{self.files.own_rows} holds all rows, with the target in the last column.")
        return [*lines, ""]


def about(certificate: Any) -> dict[str, Any]:
    """The numbers of one form."""
    numbers = {name: getattr(certificate, name) for name in ("method", "bound", "delta", "rows")}
    if certificate.method == "coverage":
        numbers |= {"level": certificate.level, "factor": certificate.factor}
    return numbers
