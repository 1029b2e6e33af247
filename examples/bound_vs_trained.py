"""The divergence of a trained sparse GP from the exact posterior against the number of inducing points, with bounds.

    python examples/bound_vs_trained.py [--quick] [--alpha 1] [--rows 1000] [--data name=table.csv ...]

`fitting.ExactGP` trains the hyperparameters once (squared exponential, a lengthscale per input).  For every M,
inducing points are chosen greedily, drawn by k-DPPs, the best for this y of ten draws and the greedy ones, or learned:
training of the sparse GP (VFE; the Rényi GP for alpha < 1) moves the greedy points while the hyperparameters are fixed.
For each choice, the picture shows the tightest bracket of D_alpha[q* || p], in nats, that `gpbounds.renyi.gap` and
`evidence` prove for this y.

The upper bounds hold before any inducing point is drawn: with probability 95 %, D_alpha of a k-DPP's choice is below
them.  The a-priori bounds use the input law alone (R-thm1, R-thm2, R-samp), the data-aware bounds the eigenvalues of K
(R-lem3); they are for hyperparameters fixed before.  "Any y" uses only the norm of y; its data-aware bound flattens at
the allowance for rounding errors in the eigenvalues of K.  "Given y" is about these targets and the best of ten draws
(N-tilt-given), as in a plan, and holds for fitted hyperparameters, too.  The floor (N-low) holds for every choice of
inducing variables.

Data: a smooth function of two Gaussian inputs with noise, scikit-learn's diabetes data, or CSV files with the target
in the last column.  A CSV file with all numbers is written beside the picture.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import write
from regression_sets import named
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import ExactGP, RenyiGP, SparseGP
from fitting.study.standardised import Standardised, load, standardise
from fitting.study.subsets import smallest_reaching
from gpbounds import Empirical, Gaussian, SquaredExponential, kdpp, rate, renyi, validation
from gpbounds.cli import options
from gpbounds.cli.demo import diabetes
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, divergence_symbol
from gpbounds.plotting.elements import TEXT, axes, figure, headline, plain_ticks, positive, target_line

DELTA = 0.05
CHOICES = {"k-DPP": GREEN, "best of ten": ORANGE, "greedy": SKY, "learned": PURPLE}
BOUNDS = {
    "a priori, any y": ("a priori, any $y$", BLUE, "-"),
    "a priori, y from the prior": ("a priori, $y$ from the prior", BLUE, "--"),
    "data-aware, any y": ("data-aware, any $y$", VERMILLION, "-"),
    "data-aware, y from the prior": ("data-aware, $y$ from the prior", VERMILLION, "--"),
    "given y, best of ten": ("given $y$, best of ten", ORANGE, "-."),
}
SMALLEST = 1e-5
"""The largest M is the one at which the greedy choice is proved to be this close, in nats."""


@dataclass(frozen=True)
class Bracket:
    """lower ≤ D_α ≤ upper for M inducing points by one kind of choice."""

    choice: str
    M: int
    draw: int
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Study:
    """All numbers of one data set that the picture shows."""

    data: Standardised
    alpha: float
    kernel: Kernel
    noise: float
    M: np.ndarray
    bounds: dict[str, np.ndarray]
    floor: np.ndarray
    brackets: tuple[Bracket, ...]

    def ends(self, choice: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """M, lower and upper ends of one choice."""
        these = [b for b in self.brackets if b.choice == choice]
        table = np.array([(b.M, b.lower, b.upper) for b in these], dtype=np.float64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def synthetic(N: int, seed: int) -> Standardised:
    """sin(2x₁) + cos(x₁ + x₂) at Gaussian inputs, with noise of variance 0.09."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    y = np.sin(2.0 * X[:, 0]) + np.cos(X[:, 0] + X[:, 1]) + 0.3 * rng.standard_normal(N)
    return standardise("synthetic", X, y)


def trained(data: Standardised, seed: int) -> tuple[Kernel, float]:
    """Kernel and noise of the trained exact GP; an irrelevant lengthscale may end on its limit."""
    start = SquaredExponential(1.0, np.sqrt(data.D) * np.ones(data.D))
    limits = {name: (1e-2, 1e3) for name in start.parameter_names if name.startswith("lengthscale")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ExactGP(start, 0.5, limits=limits, random_state=seed).fit(data.X, data.y)
    return model.kernel_, float(model.noise_)


def learned(data: Standardised, kernel: Kernel, noise: float, alpha: float, Z: np.ndarray, steps: int) -> np.ndarray:
    """``Z`` after training of the sparse objective with fixed kernel and noise."""
    held = (*kernel.parameter_names, "noise")
    shared: dict[str, Any] = {"inducing": Z, "fixed": held, "max_iter": steps, "tol": 1e-8}
    model = SparseGP("vfe", kernel, noise, **shared) if alpha == 1.0 else RenyiGP(alpha, kernel, noise, **shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bracket is valid for any Z
        return np.asarray(model.fit(data.X, data.y).inducing_)


def bracket(data: Standardised, kernel: Kernel, noise: float, alpha: float, Z: np.ndarray) -> tuple[float, float]:
    """The tightest lower and upper bound on D_α = log p(y) − L_α: `renyi.gap` by two methods, `renyi.evidence`."""
    problem = (kernel, data.X, data.y, Z)
    methods: tuple[Any, ...] = ("dense", "blocks")
    pairs = [renyi.gap(*problem, alpha, noise=noise, method=method) for method in methods]
    below, above = renyi.evidence(*problem, noise=noise, alphas=sorted({alpha, 1.0}))
    elbo = below.terms[f"elbo {alpha:g}"]
    lows, highs = zip(*pairs, (below - elbo, above - elbo), strict=True)
    return max(map(float, lows)), min(map(float, highs))


def bounds(data: Standardised, kernel: Kernel, noise: float, alpha: float, M: np.ndarray) -> dict[str, np.ndarray]:
    laws: dict[str, Gaussian | Empirical] = {
        "a priori": Gaussian(data.X.std(axis=0).round(12)),
        "data-aware": Empirical(data.X),
    }
    norms = {"any y": float((data.y**2).sum()), "y from the prior": None}
    values = {
        f"{kind}, {y}": np.asarray(
            rate(kernel, data.N, M, alpha, inputs=law, noise=noise, delta=DELTA, y_norm2=norm).value
        )
        for kind, law in laws.items()
        for y, norm in norms.items()
    }
    given: dict[str, Any] = {"inputs": laws["data-aware"], "noise": noise, "delta": DELTA, "y": data.y, "draws": 10}
    return values | {"given y, best of ten": np.asarray(rate(kernel, data.N, M, alpha, **given).value)}


def chosen(
    data: Standardised, kernel: Kernel, noise: float, alpha: float, M: int, draws: int, steps: int, seed: int
) -> Iterator[tuple[str, int, np.ndarray]]:
    """(choice, draw, Z) for M inducing points."""
    greedy = kdpp.select(kernel, data.X, M, "greedy", trace=0.0).Z
    yield "greedy", 0, greedy
    for draw in range(draws):
        rng = np.random.default_rng([seed, M, draw])
        yield "k-DPP", draw, kdpp.select(kernel, data.X, M, "kdpp", rng, jitter="auto").Z
    given: dict[str, Any] = {"y": data.y, "noise": noise, "alpha": alpha, "draws": 10}
    yield "best of ten", 0, kdpp.select(kernel, data.X, M, "best", np.random.default_rng([seed, M]), **given).Z
    yield "learned", 0, learned(data, kernel, noise, alpha, greedy, steps)


def study(
    data: Standardised,
    alpha: float,
    draws: int,
    size_count: int,
    steps: int,
    seed: int,
    progress: Callable[[Sequence[int]], Any] = iter,
) -> Study:
    kernel, noise = trained(data, seed)
    decomposed = eigen(kernel(data.X), "k(X, X)")
    certain = np.maximum(decomposed.values - decomposed.rounding, 0.0)
    rank = int((decomposed.values > decomposed.rounding).sum())
    most = min(rank, 3 * data.N // 4)
    tails = np.append(np.cumsum(decomposed.values[::-1])[::-1], 0.0) / noise
    most = max(3, min(most, int(np.searchsorted(-tails, -SMALLEST))))
    sizes = np.unique(np.rint(np.geomspace(2, most, size_count)).astype(int))
    M = np.unique(np.rint(np.geomspace(2, data.N - 1, 160)).astype(int))
    brackets = []
    for size in progress([int(size) for size in sizes]):
        for choice, draw, Z in chosen(data, kernel, noise, alpha, size, draws, steps, seed):
            brackets.append(Bracket(choice, size, draw, *bracket(data, kernel, noise, alpha, Z)))
    floor = np.asarray(renyi.minimum_gap(certain, M, alpha, noise=noise))
    return Study(data, alpha, kernel, noise, M, bounds(data, kernel, noise, alpha, M), floor, tuple(brackets))


def summary(study: Study, target: float) -> str:
    """The smallest M that reaches the target, by each bound and each choice."""
    M = study.M.astype(np.float64)

    def least(at: np.ndarray, value: np.ndarray) -> str:
        first = smallest_reaching(at, value, target)
        return f"no M < {study.data.N}" if first is None else f"M = {first}"

    parts = [f"{name}: {least(M, value)}" for name, value in study.bounds.items()]
    for choice in CHOICES:
        at, _, high = study.ends(choice)
        sizes = np.unique(at)
        worst = np.array([high[at == size].max() for size in sizes])
        parts.append(f"{choice}, proved: {least(sizes, worst)}".replace("no M", "no tested M"))
    needed = M[study.floor > target]
    parts.append(f"any choice needs more than {int(needed.max()) if needed.size else 0}")
    name = "KL" if study.alpha == 1.0 else f"D_{study.alpha:g}"
    return f"{study.data.name}, N = {study.data.N}: {name} <= {target:g} nats from\n  " + "\n  ".join(parts)


def panel(ax: Any, study: Study, target: float) -> None:
    M = study.M.astype(np.float64)
    lows = np.concatenate([study.ends(choice)[1] for choice in CHOICES])
    highs = np.concatenate([study.ends(choice)[2] for choice in CHOICES])
    low = min(float(np.nanmin(positive(highs))), 0.5 * target) / 3.0
    top = max(float(value.max()) for value in study.bounds.values()) * 2.0
    ax.set_ylim(max(low, 1e-7), top)
    ax.set_xscale("log")
    ax.set_xlim(1.8, study.data.N * 1.08)
    plain_ticks(ax, 2.0, float(study.data.N))
    bottom = ax.get_ylim()[0]
    for name, value in study.bounds.items():
        _, color, style = BOUNDS[name]
        ax.plot(M, positive(value), color=color, linestyle=style, linewidth=1.8)
    ax.plot(M, positive(study.floor), color=BLACK, linestyle=":", linewidth=1.5)
    ax.fill_between(M, np.maximum(positive(study.floor), bottom), bottom, color="0.93", zorder=0)
    corner = "impossible for any\ninducing variables"
    ax.annotate(corner, (0.025, 0.02), xycoords="axes fraction", fontsize=TEXT - 1, color="0.3")
    for i, (choice, color) in enumerate(CHOICES.items()):
        at, below, above = study.ends(choice)
        x = at * 1.03 ** (i - 1.5)
        sizes = np.unique(at)
        ax.plot(
            sizes * 1.03 ** (i - 1.5),
            [np.median(above[at == size]) for size in sizes],
            color=color,
            linewidth=1.0,
            alpha=0.6,
        )
        ax.vlines(x, np.maximum(below, bottom), above, color=color, linewidth=3.0, alpha=0.8)
        ax.plot(x, positive(above), linestyle="none", marker="_", markersize=8, markeredgewidth=2.0, color=color)
        ax.plot(x, positive(below), linestyle="none", marker="_", markersize=8, markeredgewidth=2.0, color=color)
    target_line(ax, target)
    assert (lows <= highs).all()


def picture(studies: Sequence[Study], target: float) -> Any:
    from matplotlib.lines import Line2D

    page = figure(max(5.6 * len(studies), 10.0), 6.0)
    alpha = studies[0].alpha
    headline(
        page, "Divergence of a trained sparse GP from the exact posterior, with bounds for k-DPPs (probability 95 %)"
    )
    for i, study in enumerate(studies):
        ax = axes(page, "", 100 + 10 * len(studies) + 1 + i)
        panel(ax, study, target)
        title = f"{study.data.name}, N = {study.data.N}, D = {study.data.D}, noise variance {study.noise:.2g}"
        ax.set_title(title, fontsize=TEXT, loc="left")
        if i == 0:
            ax.set_ylabel(f"{divergence_symbol(alpha)} (nats)", fontsize=TEXT + 1)
    handles: list[Any] = [Line2D([], [], color=color, ls=style, label=label) for label, color, style in BOUNDS.values()]
    handles += [
        Line2D([], [], color=color, linewidth=3.0, alpha=0.8, label=f"{choice}: bracket of the truth")
        for choice, color in CHOICES.items()
    ]
    page.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    return page


def table(studies: Sequence[Study]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for study in studies:
        name = study.data.name
        rows += [[name, study.alpha, b.choice, b.M, b.draw, b.lower, b.upper] for b in study.brackets]
        for bound, value in study.bounds.items():
            rows += [[name, study.alpha, bound, int(M), None, None, v] for M, v in zip(study.M, value, strict=True)]
        rows += [[name, study.alpha, "floor", int(M), None, v, None] for M, v in zip(study.M, study.floor, strict=True)]
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--data", metavar="NAME=FILE", nargs="+", default=[], help="CSV files instead of the two data sets"
    )
    parser.add_argument("--alpha", type=options.number, default=1.0, help="Rényi order in (0, 1] (default 1, KL)")
    parser.add_argument("--target", type=options.number, default=0.1, help="in nats (default %(default)s)")
    parser.add_argument("--rows", type=options.whole, default=1000, help="largest number of rows (default %(default)s)")
    parser.add_argument("--draws", type=options.whole, default=5, help="k-DPP draws of each size (default %(default)s)")
    parser.add_argument("--sizes", type=options.whole, default=12, help="number of sizes (default %(default)s)")
    parser.add_argument("--steps", type=options.whole, default=200, help="steps of training of Z (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="200 rows, 9 sizes, 2 k-DPPs, 50 steps")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/bound_vs_trained.png"))
    args = parser.parse_args(argv)
    rows, size_count, draws, steps = args.rows, args.sizes, args.draws, args.steps
    if args.quick:
        rows, size_count, draws, steps = 200, 9, 2, 50
    try:
        for name, value, least in (
            ("--rows", rows, 10),
            ("--sizes", size_count, 1),
            ("--draws", draws, 1),
            ("--steps", steps, 1),
        ):
            validation.count(name, value, least)
        validation.positive("--target", args.target)
        sets = [synthetic(rows, args.seed), diabetes()] if not args.data else []
        for name, path in named(args.data):
            data = load(path)
            sets.append(Standardised(name, data.X, data.y, data.notes))
        parts = [part.subset(rows, args.seed) for part in sets]
        parts = [standardise(part.name, part.X, part.y) for part in parts]

        def bar(name: str) -> Callable[[Sequence[int]], Any]:
            return lambda sizes: tqdm(sizes, desc=name, unit="size")

        studies = [study(part, args.alpha, draws, size_count, steps, args.seed, bar(part.name)) for part in parts]
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"bound_vs_trained.py: {error}\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(studies, args.target).savefig(args.out)
    write(args.out, ("data", "alpha", "what", "M", "draw", "lower", "upper"), table(studies))
    for result in studies:
        print(summary(result, args.target))
    print(args.out)


if __name__ == "__main__":
    main()
