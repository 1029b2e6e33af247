"""What a library said of an exact GP, in three public reports, examined: is it right, and if not, why?

    python examples/libraries_said.py [botorch-1211] [gpytorch-728] [gpytorch-2148] [--said FILE] [--out NAME.png]
    python examples/libraries_said.py --ask     # writes the claims again; needs gpytorch, and not gpbounds

Each report is of a surprise: predictions that degrade when the 801st row is added (BoTorch 1211), variances that are
many times those of another library for smooth rows without noise (GPyTorch 728), and variances that a tolerance of
the solver decides (GPyTorch 2148).  The rows here are our own of the same kind; hyperparameters are fixed.  --ask
lets GPyTorch say log p(y) and predictions, with default settings but for those that a report is about, and stores
them in results/libraries_said.csv.  Without it, `fitting.examine` holds these claims beside what is proved.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SAID = Path(__file__).parent / "results" / "libraries_said.csv"
COLUMNS = ("report", "setting", "row", "mean", "variance")
EVIDENCE = 0
"""The number of the row that holds log p(y) per row, in the column of the mean."""


@dataclass(frozen=True)
class Setting:
    """How a library is asked: the number of rows, the precision, the tolerance of conjugate gradients at predictions.

    ``factor``: a Cholesky factor in place of conjugate gradients and probes, whatever the number of rows.
    """

    N: int
    precision: str = "float64"
    tolerance: float = 0.01
    factor: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, new points, the hyperparameters of an exact GP, and the settings in which a library is asked."""

    X: Any
    y: Any
    X_new: Any
    nu: float
    variance: float
    lengthscale: float
    noise: float
    settings: dict[str, Setting]


def botorch_1211() -> Problem:
    """Five inputs and no noise in the rows, 800 of them and 801; new points on a line through the middle."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (801, 5))
    y = np.sin(5.0 * X[:, 0]) + 2.0 * (X[:, 1] - 0.5) ** 2 + X[:, 2] * X[:, 3] - X[:, 4]
    line = np.full((81, 5), 0.5)
    line[:, 0] = np.linspace(0.0, 1.0, 81)
    settings = {
        "800 rows": Setting(800),
        "801 rows": Setting(801),
        "800 rows, float32": Setting(800, "float32"),
    }
    return Problem(X, (y - y.mean()) / y.std(), line, 2.5, 4.0, 2.0, 1e-4, settings)


def gpytorch_728() -> Problem:
    """sin(60x⁴) at 999 even points: smooth rows without noise, by a smooth kernel with little noise."""
    X = np.linspace(0.0, 1.0, 999)[:, None]
    settings = {
        "default": Setting(999),
        "tolerance 1e-6": Setting(999, tolerance=1e-6),
        "by a factor": Setting(999, factor=True),
    }
    y, X_new = np.sin(60.0 * X[:, 0] ** 4), np.linspace(0.0, 1.0, 101)[:, None]
    return Problem(X, y, X_new, math.inf, 1.0, 0.015, 1e-4, settings)


def gpytorch_2148() -> Problem:
    """1000 rows of four inputs with noise, and two tolerances."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1000, 4))
    f = np.sin(6.0 * X[:, 0]) + X[:, 1] ** 2 - np.cos(4.0 * X[:, 2] * X[:, 3])
    y = f + 0.03 * rng.standard_normal(1000)
    settings = {"tolerance 1e-2": Setting(1000), "tolerance 1e-6": Setting(1000, tolerance=1e-6)}
    return Problem(X, y, rng.uniform(0.0, 1.0, (100, 4)), math.inf, 1.0, 0.5, 0.01, settings)


REPORTS: dict[str, Callable[[], Problem]] = {
    "botorch-1211": botorch_1211,
    "gpytorch-728": gpytorch_728,
    "gpytorch-2148": gpytorch_2148,
}


def ask(problem: Problem, setting: str) -> tuple[float, Any, Any]:
    """What GPyTorch says: log p(y) per row, means, and variances of the latent f."""
    import gpytorch  # no dependency of this project
    import torch

    torch.manual_seed(0)
    asked = problem.settings[setting]
    N, dtype, fast = asked.N, getattr(torch, asked.precision), not asked.factor
    X, y, new = (torch.tensor(each, dtype=dtype) for each in (problem.X[:N], problem.y[:N], problem.X_new))

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc, name-defined]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            smooth = math.isinf(problem.nu)
            inner = gpytorch.kernels.RBFKernel() if smooth else gpytorch.kernels.MaternKernel(nu=problem.nu)
            self.covar_module = gpytorch.kernels.ScaleKernel(inner)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-9))
    model = Model(likelihood).to(dtype)
    model.covar_module.outputscale = problem.variance
    model.covar_module.base_kernel.lengthscale = problem.lengthscale
    likelihood.noise = problem.noise
    ways = gpytorch.settings.fast_computations(fast, fast, fast)
    with torch.no_grad(), gpytorch.settings.eval_cg_tolerance(asked.tolerance), ways:
        model.train()
        likelihood.train()
        value = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(X), y)
        model.eval()
        likelihood.eval()
        law = model(new)
        return float(value), law.mean.double().numpy(), law.variance.double().numpy()


def write(path: Path) -> None:
    """Ask the library about all reports, and store what it says."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for report, make in REPORTS.items():
            problem = make()
            for setting in problem.settings:
                value, mean, variance = ask(problem, setting)
                rows.writerow([report, setting, EVIDENCE, repr(value), ""])
                for number, (m, v) in enumerate(zip(mean, variance, strict=True), 1):
                    rows.writerow([report, setting, number, f"{m:.10g}", f"{v:.10g}"])
                print(f"{report}, {setting}: {value:.6g} per row", flush=True)


def said(path: Path, report: str, setting: str) -> tuple[float, Any, Any]:
    """What is stored of one report in one setting."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["report"], row["setting"]) == (report, setting)]
    value = next(float(row["mean"]) for row in rows if int(row["row"]) == EVIDENCE)
    pairs = [(float(row["mean"]), float(row["variance"])) for row in rows if int(row["row"]) != EVIDENCE]
    mean, variance = map(np.array, zip(*pairs, strict=True))
    return value, mean, variance


def examined(report: str, setting: str, path: Path = SAID) -> Any:
    """The `fitting.study.examining.ModelExamination` of one report in one setting."""
    from fitting import examine
    from gpbounds import kernels
    from gpbounds.renyi import Model

    problem = REPORTS[report]()
    asked = problem.settings[setting]
    smooth = math.isinf(problem.nu)
    make = kernels.SquaredExponential if smooth else lambda *values: kernels.Matern(problem.nu, *values)
    model = Model(make(problem.variance, problem.lengthscale), problem.noise, None)
    value, mean, variance = said(path, report, setting)
    return examine(
        model,
        problem.X[: asked.N],
        problem.y[: asked.N],
        claimed_evidence=value,
        claimed_predictions=(problem.X_new, mean, variance),
        per_row=True,
        dtype=asked.precision,
        name=f"{report}, {setting}",
    )


def draw(reports: Sequence[str], answers: dict[tuple[str, str], Any], out: Path) -> None:
    """Claimed over exact standard deviations at each point, a panel for each report."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    from gpbounds.plotting import BLACK, CYCLE

    figure = Figure(figsize=(5.4 * len(reports), 3.6), layout="constrained")
    axes = np.atleast_1d(np.asarray(figure.subplots(1, len(reports))))
    for axis, report in zip(axes, reports, strict=True):
        looks = zip(REPORTS[report]().settings, CYCLE, ("o", "s", "x"), strict=False)
        for setting, color, marker in looks:
            answer = answers[report, setting]
            low, high = answer.predictions.ratio
            axis.plot(
                answer.numbers,
                np.sqrt(low * high),
                marker,
                color=color,
                markersize=4.0,
                fillstyle="none",
                label=f"{setting}: {answer.evidence.error[0] / answer.evidence.N:+.2g} nats a row",
            )
        axis.axhline(1.0, color=BLACK, linewidth=0.8)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(ScalarFormatter())
        axis.yaxis.set_minor_formatter(ScalarFormatter())
        axis.tick_params(axis="y", which="minor", labelsize=7)
        axis.set_xlabel("new point")
        axis.set_title(report, fontsize=10)
        axis.legend(fontsize=8, title="claimed − exact log p(y)", title_fontsize=8)
    axes[0].set_ylabel("claimed / exact standard deviation of f")
    figure.savefig(out, dpi=150)


def main(words: Sequence[str] | None = None) -> None:
    """Examine the reports, print the text of each, and draw the claims beside the exact numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPORT", help=f"any of {', '.join(REPORTS)} (default: all)")
    parser.add_argument("--said", type=Path, default=SAID, help="the file of claims")
    parser.add_argument("--out", type=Path, default=Path("libraries_said.png"), help="the picture")
    parser.add_argument("--ask", action="store_true", help="ask GPyTorch, and write the claims")
    args = parser.parse_args(words)
    if args.ask:
        write(args.said)
        return
    reports = args.reports or list(REPORTS)
    if unknown := set(reports) - set(REPORTS):
        sys.exit(f"expected any of {', '.join(REPORTS)}, got {', '.join(sorted(unknown))}")
    answers = {}
    for report in reports:
        for setting in REPORTS[report]().settings:
            answers[report, setting] = answer = examined(report, setting, args.said)
            print(f"{answer}\n", flush=True)
    draw(reports, answers, args.out)
    print(f"Saved {args.out}")


if __name__ == "__main__":
    main()
