"""The common part of the examples of direct loss minimisation (paper 004, Wei et al.): data, splits, scores, pictures.

A split draws test rows and then training rows, so that all numbers n of training rows have the same test rows.  Inputs,
and real targets, are standardised by the training rows.  The kernel is a squared exponential with one lengthscale;
training starts at the variance 1 and the lengthscale √D.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from paired import Paired, paired
from regression_sets import UCI, Source, table_source, toys
from tqdm import tqdm

from fitting import metrics
from gpbounds import SquaredExponential
from gpbounds.files import replacing
from gpbounds.likelihoods import Bernoulli, Likelihood, Poisson
from gpbounds.plotting.elements import TEXT

OUT = Path("examples/output")
RESUME = "keep what the CSV files beside the picture hold; all other options have to be the same"
PICTURE = "the picture; the CSV file stands beside it (default %(default)s)"
TOLERANCE = "training stops when less is expected to be gained, in nats per row (default %(default)s)"
"""Help of `--resume`, `--out` and `--tol`."""
LIKELIHOODS = {
    **dict.fromkeys(("kin40k", "protein", "elevators", "cal_housing", "concrete", "sarcos", "Branin"), "gaussian"),
    **dict.fromkeys(("ringnorm", "airline"), "probit"),
    **dict.fromkeys(("abalone", "bike_hourly", "peds1", "waves"), "poisson"),
}
"""The data sets and their likelihoods.  Branin, ringnorm and waves are generated; sarcos, airline and peds1 are the
paper's, which no result here is about: they are run where the folder has them."""


def ringnorm(n: int, rng: np.random.Generator, D: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Breiman's ringnorm: x ~ N(0, 4I) with the label 0, or N(a·1, I) with 1, a = 2/√D; the labels are equally likely.

    The error of the best rule is about 1.3 % for D = 20.
    """
    y = rng.integers(0, 2, n).astype(np.float64)
    normals = rng.standard_normal((n, D))
    return np.where(y[:, None] > 0.0, 2.0 / np.sqrt(D) + normals, 2.0 * normals), y


def waves(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Counts with more variance than a Poisson law has: y ~ Poisson(e^f), f = 1 + 1.2 sin 2x + 0.6ξ, x in [−3, 3]."""
    x = rng.uniform(-3.0, 3.0, (n, 1))
    f = 1.0 + 1.2 * np.sin(2.0 * x[:, 0]) + 0.6 * rng.standard_normal(n)
    return x, rng.poisson(np.exp(f)).astype(np.float64)


GENERATED = (
    Source("ringnorm", ringnorm, "generated, D = 20"),
    Source("waves", waves, "generated, D = 1"),
    replace(toys(0.1)[1], about="generated, D = 2"),
)


@cache
def source(name: str, folder: Path = UCI) -> Source | None:
    """The data set of this name: generated, or FOLDER/NAME.csv.gz; None if there is no such file."""
    for generated in GENERATED:
        if generated.name == name:
            return generated
    path = folder / f"{name}.csv.gz"
    return table_source(name, path) if path.is_file() else None


def present(names: Sequence[str], folder: Path) -> list[str]:
    """The data sets among ``names`` that are there; prints how to get the others."""
    missing = [name for name in names if source(name, folder) is None]
    if missing:
        print(
            f"No {', '.join(missing)} in {folder}: download from archive.ics.uci.edu or openml.org, save as "
            "NAME.csv.gz with the target in the last column, and pass --data DIR."
        )
    return [name for name in names if name not in missing]


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows of one split, as models get them."""

    data: str
    split: int
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def likelihood(self) -> str:
        return LIKELIHOODS[self.data]

    @property
    def kernel(self) -> SquaredExponential:
        """At the start of training."""
        return SquaredExponential(1.0, np.sqrt(self.X.shape[1]))


def task(name: str, folder: Path, n: int, split: int, tests: int) -> Task:
    """n training rows and at most ``tests`` test rows of one split; at most half of the rows are for tests."""
    chosen = source(name, folder)
    assert chosen is not None
    rng = np.random.default_rng([split, *name.encode()])
    X, y = chosen.draw(2 * max(n, tests), rng)
    cut = min(tests, len(y) // 2)
    X_test, y_test, X, y = X[:cut], y[:cut], X[cut : cut + n], y[cut : cut + n]
    shift, scale = X.mean(axis=0), X.std(axis=0)
    varies = scale > 0.0
    X, X_test = (((part - shift)[:, varies] / scale[varies]) for part in (X, X_test))
    if LIKELIHOODS[name] == "gaussian":
        middle, spread = y.mean(), y.std()
        y, y_test = (y - middle) / spread, (y_test - middle) / spread
    return Task(name, split, X, y, X_test, y_test)


def error(likelihood: Likelihood, y: np.ndarray, m: np.ndarray, v: np.ndarray) -> float:
    """Mean square, share of wrong labels, or mean relative error of counts, of predictions N(m, v) of f."""
    if isinstance(likelihood, Bernoulli):
        return metrics.classification_error(y, m)
    prediction = likelihood.predictive_mean(m, v)
    counts = isinstance(likelihood, Poisson)
    return metrics.mean_relative_error(y, prediction) if counts else metrics.square_loss(y, prediction)


def calibration(likelihood: Likelihood, y: np.ndarray, m: np.ndarray, v: np.ndarray) -> float:
    """The expected calibration error of labels in 10 bins.

    Otherwise the largest distance between the distribution function of the randomised probability integral transform
    and that of the uniform law (Kolmogorov and Smirnov).
    """
    if isinstance(likelihood, Bernoulli):
        return metrics.calibration_error(y, likelihood.predictive_mean(m, v))
    u = np.sort(metrics.randomised_pit(likelihood, y, m, v, rng=0))
    ends = np.arange(u.size + 1) / u.size
    return float(np.maximum(ends[1:] - u, u - ends[:-1]).max())


def scores(likelihood: Likelihood, y: np.ndarray, m: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """The scores of predictions N(m, v) of f at test rows."""
    shares = metrics.coverage(likelihood, y, m, v)
    return {
        "log_loss": metrics.log_loss(likelihood, y, m, v),
        "error": error(likelihood, y, m, v),
        "calibration": calibration(likelihood, y, m, v),
        "coverage50": float(shares[0]),
        "coverage90": float(shares[1]),
    }


# Tables and comparisons


@dataclass(frozen=True)
class Score:
    """One trained model on one split; ``beta`` is the β it was trained with."""

    data: str
    n: int
    M: int
    split: int
    method: str
    beta: float
    log_loss: float
    error: float
    calibration: float
    coverage50: float
    coverage90: float
    objective: float
    steps: int
    stopped: str
    seconds: float


Record = TypeVar("Record")


def save(path: Path, records: Sequence[Any]) -> None:
    """Records of one kind as a CSV file beside the picture."""
    names = list(records[0].__dataclass_fields__)
    with replacing(path.with_suffix(".csv")) as file:
        table = csv.writer(file)
        table.writerow(names)
        table.writerows([[getattr(record, name) for name in names] for record in records])


def load(path: Path, kind: type[Record]) -> list[Record]:
    """The records that `save` wrote; an empty list if there is no file."""
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = {each.name: kinds[str(each.type)] for each in fields(kind)}  # type: ignore[arg-type]
    return [kind(**{name: convert(row[name]) for name, convert in names.items()}) for row in rows]


Setting = tuple[str, int]
"""A data set and a number of training rows."""


def settings(records: Sequence[Score]) -> list[Setting]:
    return list(dict.fromkeys((record.data, record.n) for record in records))


def values(records: Sequence[Score], setting: Setting, method: str, metric: str) -> np.ndarray:
    """The metric on every split, in the order of the splits."""
    rows = [r for r in records if (r.data, r.n) == setting and r.method == method]
    return np.array([getattr(r, metric) for r in sorted(rows, key=lambda r: r.split)])


def gaps(
    records: Sequence[Score], a: str, b: str, metric: str, chosen: Callable[[str], bool] = lambda data: True
) -> list[Paired]:
    """a − b in every setting with both methods, of the data sets that are chosen."""
    pairs = [
        (values(records, setting, a, metric), values(records, setting, b, metric))
        for setting in settings(records)
        if chosen(setting[0])
    ]
    return [paired(first, second) for first, second in pairs if first.size and second.size]


def splits_of(groups: Iterable[Sequence[Any]]) -> str:
    """The number of splits in groups of records: "3", or "2 to 5" where they differ."""
    numbers = {len({record.split for record in group}) for group in groups}
    return " to ".join(map(str, sorted({min(numbers), max(numbers)})))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for RESULTS.md."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def cell(numbers: np.ndarray) -> str:
    """Mean ± standard error over splits."""
    error = f" ± {numbers.std(ddof=1) / np.sqrt(numbers.size):.3f}" if numbers.size > 1 else ""
    return f"{numbers.mean():.3f}{error}" if numbers.size else ""


# Command line and pictures


HELP = {
    "splits": "random splits of the rows",
    "tests": "test rows, at most half of all",
    "inducing": "inducing points M",
    "steps": "iterations of L-BFGS-B at most, in each training",
    "rows": "generated rows of ringnorm for training",
    "batch": "rows of a mini-batch",
    "epochs": "passes over the rows of ringnorm",
    "count_rows": "training rows of counts and real targets, also for panels g and h",
    "repeats": "draws of each gradient, for panels g and h",
}
"""What the whole numbers of the examples are, where an example does not say otherwise."""


def parser(doc: str | None, splits: int = 5, tests: int = 2000, **defaults: int) -> argparse.ArgumentParser:
    """The options that the examples of this paper share, and one whole number for each default, if it is not 0."""
    from gpbounds.cli import options

    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--data", metavar="DIR", type=Path, default=UCI, help="folder of NAME.csv.gz, target last")
    made.add_argument("--only", nargs="+", metavar="NAME", help="use these data sets only")
    for name, default in {"splits": splits, "tests": tests, **defaults}.items():
        if default:
            about = f"{HELP[name]} (default %(default)s)"
            option = f"--{name.replace('_', '-')}"
            made.add_argument(option, metavar="N", type=options.whole, default=default, help=about)
    made.add_argument("--quick", action="store_true", help="small sizes and generated data: seconds")
    return made


def checked(
    made: argparse.ArgumentParser, args: argparse.Namespace, names: Sequence[str] = tuple(LIKELIHOODS), **whole: int
) -> None:
    """End with one sentence if a number is too small or a data set is not one of ``names``."""
    from gpbounds.validation import choice, count, positive

    try:
        for name, least in {"splits": 1, "tests": 1, **whole}.items():
            if name in args:
                count(f"--{name.replace('_', '-')}", getattr(args, name), least)
        positive("--lengthscale", vars(args).get("lengthscale", 1.0))
        for name in args.only or ():
            choice("--only", name, tuple(names))
    except ValueError as error:
        made.exit(2, f"{Path(sys.argv[0]).name}: {error}\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)


def jobs(work: Sequence[tuple[Any, ...]], unit: str) -> Iterator[tuple[Any, ...]]:
    """The jobs with a progress bar that names the current one."""
    bar = tqdm(work, unit=unit)
    for job in bar:
        bar.set_description(", ".join(map(str, job)))
        yield job


def plain(ax: Any, title: str, xlabel: str, ylabel: str) -> None:
    """Title, labels, a light grid and no frame."""
    ax.set_title(title, fontsize=TEXT, loc="left")
    ax.set_xlabel(xlabel, fontsize=TEXT)
    ax.set_ylabel(ylabel, fontsize=TEXT)
    ax.tick_params(labelsize=TEXT - 1)
    ax.grid(True, color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(False)
