"""The log evidence of the exact GP at growing N: an interval with a probability, brackets without, and other libraries.

    python examples/evidence_at_scale.py FILE.csv ... [--sizes 1000 3000 10000] [--others FILE] [--out NAME.png]

Each FILE is a CSV (or .csv.gz) with the target in its last column.  Kernel (squared exponential, one lengthscale for
each input) and noise are fitted to 500 rows by marginal likelihood and then kept, for all N.

    interval       gpbounds.iterative.evidence: both ends hold together with probability 95 %
    deterministic  gpbounds.renyi.evidence with 500 greedy inducing points: always, above and below; "vecchia" below
    Cholesky       log p(y), up to --dense rows
    GPyTorch       its marginal log likelihood with default settings, where it is installed; or any value from
                   --others, a CSV file with the columns data, N, library, value

Values are drawn as distances from the middle of the interval.  The script writes NAME.csv beside the picture.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study import hyperparameters
from fitting.study.hyperparameters import Hyperparameters
from fitting.study.standardised import Standardised, load
from gpbounds.cli import options
from gpbounds.errors import NotPositiveDefinite
from gpbounds.files import replacing
from gpbounds.iterative import evidence
from gpbounds.kdpp import select
from gpbounds.renyi import evidence as brackets
from gpbounds.renyi import log_evidence
from gpbounds.texts import table

INDUCING = 500


@dataclass(frozen=True)
class Row:
    """The numbers of one data set at one N; NaN where a value was not computed."""

    data: str
    N: int
    lower: float
    upper: float
    seconds: float
    below: float
    vecchia: float
    above: float
    exact: float
    gpytorch: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.lower + self.upper)


def gpytorch_value(X: np.ndarray, y: np.ndarray, hyper: Hyperparameters) -> float:
    """The marginal log likelihood that GPyTorch computes with its default settings, in double precision."""
    try:
        import gpytorch
        import torch
    except ImportError:
        return math.nan
    kernel: Any = hyper.kernel
    torch.manual_seed(0)
    inputs, targets = torch.tensor(X), torch.tensor(y)

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(inputs, targets, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.covar_module.outputscale = kernel.variance
    model.covar_module.base_kernel.lengthscale = torch.tensor(np.atleast_2d(kernel.lengthscale))
    model.likelihood.noise = hyper.noise
    model.train()
    with torch.no_grad():
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        return float(likelihood(model(inputs), targets)) * len(y)


def row(part: Standardised, hyper: Hyperparameters, dense: int, seed: int) -> Row:
    kernel, noise, X, y = hyper.kernel, hyper.noise, part.X, part.y
    start = time.perf_counter()
    lower, upper = evidence(kernel, X, y, noise=noise, rng=seed)
    seconds = time.perf_counter() - start
    distinct = len(np.unique(X, axis=0))
    Z = select(kernel, X, min(INDUCING, distinct), trace=1e-3 * noise).Z
    below, above = brackets(kernel, X, y, Z, noise=noise, members=("determinant", "weighted", "vecchia"))
    exact = math.nan
    if part.N <= dense:
        try:
            exact = float(log_evidence(kernel, X, y, noise=noise))
        except NotPositiveDefinite:
            exact = math.nan
    determinant = below.terms["determinant"] - below.terms["rounding"]
    vecchia = below.terms["vecchia"] - below.terms["rounding"]
    other = gpytorch_value(X, y, hyper)
    return Row(part.name, part.N, float(lower), float(upper), seconds, determinant, vecchia, float(above), exact, other)


def picture(rows: Sequence[Row], others: Sequence[dict[str, str]]) -> Any:
    from gpbounds.plotting.elements import (
        BLACK,
        BLUE,
        GREEN,
        ORANGE,
        SKY,
        TEXT,
        VERMILLION,
        axes,
        figure,
        headline,
        plain_ticks,
    )

    names = list(dict.fromkeys(row.data for row in rows))
    page = figure(4.6 * len(names) + 1.0, 5.6)
    headline(page, "The log evidence of the exact GP: values, and bounds that contain it")
    for number, name in enumerate(names):
        mine = [row for row in rows if row.data == name]
        N = np.array([row.N for row in mine], dtype=float)
        zero = np.array([row.middle for row in mine])
        ylabel = "nats from the middle of the interval" if number == 0 else ""
        ax = axes(page, ylabel, 100 + 10 * len(names) + number + 1, "linear")
        ax.set_xlabel("Number of rows $N$", fontsize=TEXT + 1)
        ax.set_title(name, fontsize=TEXT + 1)
        band = np.array([row.below for row in mine]) - zero, np.array([row.above for row in mine]) - zero
        ax.fill_between(N, *band, color=SKY, alpha=0.25, linewidth=0, label="deterministic brackets, M = 500")
        ax.plot(
            N, np.array([row.vecchia for row in mine]) - zero, color=GREEN, marker="^", label="Vecchia, always below"
        )
        half = 0.5 * np.array([row.upper - row.lower for row in mine])
        ax.errorbar(N, 0.0 * N, yerr=half, color=BLUE, capsize=5, linewidth=2, fmt="none", label="interval, 95 %")
        exact, torch = (np.array([getattr(row, key) for row in mine]) - zero for key in ("exact", "gpytorch"))
        ax.plot(N, exact, linestyle="none", marker="o", color=BLACK, markersize=5, label="Cholesky")
        if np.isfinite(torch).any():
            ax.plot(N, torch, linestyle="none", marker="x", color=VERMILLION, markersize=8, label="GPyTorch, defaults")
        for library in dict.fromkeys(entry["library"] for entry in others if entry["data"] == name):
            points = [
                (float(e["N"]), float(e["value"])) for e in others if (e["data"], e["library"]) == (name, library)
            ]
            known = [(n, value - row.middle) for n, value in points for row in mine if row.N == n]
            if known:
                ax.plot(*zip(*known, strict=True), "x", color=ORANGE, markersize=8, label=library)
        ax.set_xscale("log")
        plain_ticks(ax, N.min(), N.max())
        if max(abs(end) for end in ax.get_ylim()) > 20.0:
            ax.set_yscale("symlog", linthresh=10.0)
    page.legend(
        *page.axes[0].get_legend_handles_labels(),
        fontsize=TEXT,
        loc="outside lower center",
        ncols=min(2 * len(names), 5),
    )
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--sizes", type=options.whole, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--dense", type=options.whole, default=10_000, help="Cholesky up to so many rows")
    parser.add_argument("--others", type=Path, help="CSV file with the columns data, N, library, value")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=Path, default=Path("evidence_at_scale.png"))
    args = parser.parse_args(argv)
    rows: list[Row] = []
    try:
        others = list(csv.DictReader(args.others.read_text(encoding="utf-8").splitlines())) if args.others else []
        for file in args.files:
            data = load(file)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hyper = hyperparameters.fit(data, seed=args.seed)
            for N in dict.fromkeys(min(size, data.N) for size in args.sizes):
                rows.append(row(data.subset(N, args.seed), hyper, args.dense, args.seed))
                print(f"{rows[-1]}", file=sys.stderr, flush=True)
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"{Path(sys.argv[0]).name}: {error}\n")
    header = tuple(field.name for field in fields(Row))
    cells = [
        tuple(f"{value:.2f}" if isinstance(value, float) else str(value) for value in (getattr(r, h) for h in header))
        for r in rows
    ]
    print(table(header, cells))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(args.out.with_suffix(".csv")) as opened:
        writer = csv.writer(opened)
        writer.writerow(header)
        writer.writerows([[getattr(r, h) for h in header] for r in rows])
    picture(rows, others).savefig(args.out)
    print(f"Saved {args.out} and {args.out.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
