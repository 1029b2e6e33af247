"""Exact, Mercer, Fourier and Hilbert-space GP on one curve, with their divergences (Daskalakis et al., Figs. 3 and 4).

    python examples/mercer_curves.py [--train each|exact] [--quick] [--out examples/output/mercer_curves.png]

The data are 25 points of f(x) = ½(3 sin 2x + cos 10x + x/4), x ~ N(0, 1), without noise.  The hyperparameters of a
squared exponential kernel maximise the marginal likelihood of each model, as in the paper; with ``--train exact`` all
models use those of the exact GP.  The Hilbert-space GP, which the paper does not have, has sines that vanish at 1.5
times the ends of [-3.2, 3.2], where predictions are shown.  Three pictures: the models (Fig. 3); several numbers of
functions and frequencies (Fig. 4); KL[exact || approximate] of the law of y against the rank, with its certificate from
the residual diagonal, or its bound for any 25 points of the box, at the hyperparameters of the exact GP.  The title of
each model gives its KL and certificate at the hyperparameters of the model.

Claims of the ledger: L-54, L-50, N-hilbert-kl.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gpbounds import Gaussian, SquaredExponential, lowrank
from gpbounds.cli import options
from gpbounds.linalg import cholesky
from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Band, Curve, plot_curves
from gpbounds.plotting.elements import TEXT, axes, figure, headline, plot_band

POINTS = 25
PAPER = 34
"""Eigenfunctions and frequencies of Fig. 3: ranks 34 and 68."""
REACH, FACTOR = 3.2, 1.5
"""The box of the Hilbert-space GP, which is that of the predictions, and its boundary factor."""
SIZES = (4, 14, 24, 34)
"""Eigenfunctions and frequencies of Fig. 4."""
Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]
Model = Callable[[SquaredExponential], Covariance]


def curve(x: np.ndarray) -> np.ndarray:
    return 0.5 * (3.0 * np.sin(2.0 * x) + np.cos(10.0 * x) + x / 4.0)


def exact(kernel: SquaredExponential) -> Covariance:
    return lambda a, b: kernel(a, b)


def mercer(count: int) -> Model:
    def model(kernel: SquaredExponential) -> Covariance:
        features = lowrank.MercerFeatures(kernel, count, inputs=Gaussian()).fit(np.zeros(1))  # α = 1/√2: N(0, 1)
        return lambda a, b: features(a) @ features(b).T

    return model


def fourier(count: int, seed: int) -> Model:
    def model(kernel: SquaredExponential) -> Covariance:
        features = lowrank.FourierFeatures(kernel, 2 * count, seed).fit(np.zeros(1))  # the same z for every kernel
        return lambda a, b: features(a) @ features(b).T

    return model


def hilbert(count: int) -> Model:
    def model(kernel: SquaredExponential) -> Covariance:
        features = hilbert_features(kernel, count)
        return lambda a, b: features(a) @ features(b).T

    return model


def hilbert_features(kernel: SquaredExponential, count: int) -> lowrank.HilbertFeatures:
    return lowrank.HilbertFeatures(kernel, count, FACTOR, half_width=REACH).fit(np.zeros(1))


@dataclass(frozen=True, eq=False)
class Problem:
    """The data, the points of prediction, and the settings of training."""

    x: np.ndarray
    y: np.ndarray
    at: np.ndarray
    starts: int
    least_noise: float


@dataclass(frozen=True)
class Hyperparameters:
    """The result of training."""

    kernel: SquaredExponential
    noise: float
    log_likelihood: float

    def __str__(self) -> str:
        return (
            f"variance {self.kernel.variance:.3g}, lengthscale {self.kernel.lengthscale:.3g}, noise {self.noise:.3g}, "
            f"log p(y) = {self.log_likelihood:.2f}"
        )


def train(model: Model, data: Problem) -> Hyperparameters:
    """Maximise log N(y; 0, Σ + noise·I) over variance, lengthscale and noise, by L-BFGS-B from several starts."""
    from scipy.optimize import minimize

    x, y = data.x, data.y

    def log_likelihood(log_values: np.ndarray) -> float:
        variance, lengthscale, noise = np.exp(log_values)
        chol = cholesky(model(SquaredExponential(variance, lengthscale))(x, x) + noise * np.eye(len(x)))
        return float(-0.5 * (y @ chol.solve(y) + chol.logdet + len(x) * np.log(2.0 * np.pi)))

    bounds = np.log([(1e-2, 1e3), (1e-2, 1e1), (data.least_noise, 1e1)])
    lengthscales, noises = np.geomspace(0.05, 1.5, data.starts), np.geomspace(1e-1, 1e-4, data.starts)
    optima = [
        minimize(lambda v: -log_likelihood(v), np.log([y.var(), ell, noise]), method="L-BFGS-B", bounds=bounds)
        for ell, noise in zip(lengthscales, noises, strict=True)
    ]
    best = min(optima, key=lambda result: float(result.fun))
    variance, lengthscale, noise = np.exp(best.x)
    return Hyperparameters(SquaredExponential(variance, lengthscale), float(noise), -float(best.fun))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, its hyperparameters, its predictions of noisy values, and its divergence from its exact GP."""

    name: str
    hyperparameters: Hyperparameters
    mean: np.ndarray
    std: np.ndarray
    kl: float | None = None
    bound: float | None = None

    def title(self) -> str:
        words = [self.name]
        if self.kl is not None:
            words.append(f"KL = {brief(self.kl)}")
        if self.bound is not None:
            words.append(f"certified ≤ {brief(self.bound)}")
        return words[0] + "".join(f"\n{', '.join(words[1:])}" for _ in words[1:2])


def brief(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e5 else f"{value / 1e6:.2g} million"


def predict(name: str, model: Model, h: Hyperparameters, data: Problem) -> Fitted:
    covariance = model(h.kernel)
    chol = cholesky(covariance(data.x, data.x) + h.noise * np.eye(len(data.x)))
    cross = covariance(data.at, data.x)
    prior = np.array([covariance(a, a)[0, 0] for a in data.at[:, None]])
    variance = prior + h.noise - np.einsum("ij,ji->i", cross, chol.solve(cross.T))
    return Fitted(name, h, cross @ chol.solve(data.y), np.sqrt(variance))


def compare(size: int, shared: Hyperparameters | None, data: Problem, seed: int) -> list[Fitted]:
    """Models with ``size`` eigenfunctions, frequencies and sines, with ``shared`` or their own hyperparameters."""
    models = {
        f"Mercer GP, {size} eigenfunctions": mercer(size),
        f"Fourier GP, {size} frequencies (rank {2 * size})": fourier(size, seed),
        f"Hilbert-space GP, {size} sines": hilbert(size),
    }
    fits = []
    for name, model in models.items():
        h = shared or train(model, data)
        kl, bound = divergence(name.split()[0], size, h, data.x, seed)
        fits.append(replace(predict(name, model, h, data), kl=kl, bound=bound))
    return fits


def divergence(name: str, size: int, h: Hyperparameters, x: np.ndarray, seed: int) -> tuple[float, float | None]:
    """KL[N(0, K + noise·I) || N(0, ΞΞᵀ + noise·I)], and its certificate (L-09, L-54) or bound (N-hilbert-kl)."""
    K = h.kernel(x)
    if name == "Hilbert-space":
        proved = lowrank.hilbert_kl(h.kernel, len(x), size, FACTOR, half_width=REACH, noise=h.noise)
        return lowrank.kl_features(K, hilbert_features(h.kernel, size)(x), noise=h.noise), float(proved)
    if name == "Fourier":
        return lowrank.kl_features(K, lowrank.FourierFeatures(h.kernel, 2 * size, seed).fit(x)(x), noise=h.noise), None
    features = lowrank.MercerFeatures(h.kernel, size, inputs=Gaussian()).fit(x)
    bound = lowrank.kl_from_residual(features.residual_diagonal(x).sum(), noise=h.noise)
    return lowrank.kl_features(K, features(x), noise=h.noise), float(bound)


def panel(ax: Any, fit: Fitted, data: Problem) -> None:
    at, half = data.at, 1.96 * fit.std
    ax.fill_between(at, fit.mean - half, fit.mean + half, color=SKY, alpha=0.35, linewidth=0, label="95 % of y")
    ax.plot(at, curve(at), color=VERMILLION, linewidth=1.6, label="$f(x)$")
    ax.plot(at, fit.mean, color=BLUE, linewidth=1.6, linestyle=(0, (4, 2)), label="predicted mean")
    ax.plot(
        data.x, data.y, linestyle="none", marker="x", color=BLACK, markersize=5.5, markeredgewidth=1.3, label="data"
    )
    ax.set_xlim(at[0], at[-1])
    ax.set_ylim(-4.2, 4.2)
    ax.set_title(fit.title(), fontsize=TEXT, loc="left")
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(False)
    ax.grid(True, color="0.92", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=TEXT)


def legend(canvas: Any, ax: Any, columns: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=TEXT, frameon=False)


def curves_picture(rows: Sequence[Sequence[Fitted]], data: Problem, title: str) -> Any:
    columns = len(rows[0])
    canvas = figure(7.6 if columns == 1 else 14.0, 2.4 * len(rows) + 0.9)
    headline(canvas, title)
    grid = canvas.subplots(len(rows), columns, sharex=True, sharey=True, squeeze=False)
    for line, fits in zip(grid, rows, strict=True):
        for ax, fit in zip(line, fits, strict=True):
            panel(ax, fit, data)
    for ax in grid[-1]:
        ax.set_xlabel("$x$", fontsize=TEXT + 1)
    legend(canvas, grid[0][0], 4)
    return canvas


@dataclass(frozen=True, eq=False)
class Divergences:
    """KL and its certificate against the rank."""

    ranks: np.ndarray
    mercer: np.ndarray
    certified: np.ndarray
    halved: np.ndarray
    best: np.ndarray
    hilbert: np.ndarray
    bounded: np.ndarray
    fourier_ranks: np.ndarray
    fourier: np.ndarray  # (draws, len(fourier_ranks))


def divergences(h: Hyperparameters, x: np.ndarray, most: int, draws: int, seed: int) -> Divergences:
    K = h.kernel(x)
    ranks = np.arange(1, most + 1)
    kl, certified, halved = (np.empty(most) for _ in range(3))
    for i, r in enumerate(tqdm(ranks, desc="Mercer", unit="rank")):
        kl[i], bound = divergence("Mercer", int(r), h, x, seed)
        certified[i] = bound if bound is not None else np.nan
        left = lowrank.MercerFeatures(h.kernel, int(r), inputs=Gaussian()).fit(x).residual_diagonal(x).sum()
        halved[i] = float(lowrank.kl_from_residual(left, noise=h.noise, form="printed"))
    best = np.asarray(lowrank.optimal_kl(K, noise=h.noise).value)
    pairs = np.unique(np.rint(np.geomspace(1, most // 2, 14)).astype(int))
    random = np.empty((draws, pairs.size))
    jobs = [(i, j) for j in range(pairs.size) for i in range(draws)]
    for i, j in tqdm(jobs, desc="Fourier", unit="draw"):
        random[i, j] = divergence("Fourier", int(pairs[j]), h, x, seed + i)[0]
    sines, bounded = np.array([divergence("Hilbert-space", int(r), h, x, seed) for r in ranks], dtype=float).T
    return Divergences(ranks, kl, certified, halved, best, sines, bounded, 2 * pairs, random)


def kl_picture(divergences: Divergences, h: Hyperparameters) -> Any:
    canvas = figure(7.6, 5.6)
    about = f"variance {h.kernel.variance:.3g}, lengthscale {h.kernel.lengthscale:.3g}, noise {h.noise:.3g}"
    headline(canvas, f"KL[exact || approximate] of the law of y, N = {POINTS}\n{about}")
    ax = axes(canvas, "KL in nats")
    plot_curves(
        ax,
        [
            Curve(r"$x/2$, $x=\mathrm{Tr}(K-K_r)/\sigma^2$", divergences.ranks, divergences.halved, ORANGE, "-."),
            Curve(r"certificate, $[x-\log(1+x)]/2$", divergences.ranks, divergences.certified, VERMILLION, "--"),
            Curve("Mercer features", divergences.ranks, divergences.mercer, BLUE, "-"),
            Curve("Hilbert-space features", divergences.ranks, divergences.hilbert, PURPLE, "-"),
            Curve("bound for any points of the box", divergences.ranks, divergences.bounded, PURPLE, "--"),
            Curve(
                "least for any rank-$r$ approximation",
                np.arange(divergences.best.size)[1:],
                divergences.best[1:],
                BLACK,
                ":",
            ),
        ],
    )
    draws = len(divergences.fourier)
    plot_band(ax, Band(f"Fourier features, {draws} draws", divergences.fourier_ranks, divergences.fourier, GREEN))
    ax.set_xlabel("Rank $r$", fontsize=TEXT + 1)
    ax.set_xlim(0, divergences.ranks[-1] + 1)
    ax.set_ylim(1e-6, 3.0 * divergences.halved[0])
    legend(canvas, ax, 2)
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--train",
        choices=("each", "exact"),
        default="each",
        help="the model whose hyperparameters are trained: each model, or the exact GP for all (default %(default)s)",
    )
    parser.add_argument(
        "--starts", type=options.whole, default=8, help="number of starts of the optimiser (default %(default)s)"
    )
    parser.add_argument(
        "--draws", type=options.whole, default=20, help="number of draws of frequencies (default %(default)s)"
    )
    parser.add_argument(
        "--least-noise",
        type=options.number,
        default=1e-6,
        help="smallest noise variance, as the data have no noise (default 1e-6, as in GPflow)",
    )
    parser.add_argument("--quick", action="store_true", help="4 starts, 5 draws")
    parser.add_argument("--seed", type=options.whole, default=1)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/mercer_curves.png"))
    args = parser.parse_args(argv)
    starts, draws = (4, 5) if args.quick else (args.starts, args.draws)
    x = np.sort(np.random.default_rng(args.seed).standard_normal(POINTS))
    data = Problem(x, curve(x), np.linspace(-3.2, 3.2, 600), starts, args.least_noise)

    h = train(exact, data)
    first = predict("Exact GP", exact, h, data)
    shared = h if args.train == "exact" else None
    rows = [compare(r, shared, data, args.seed) for r in tqdm(SIZES, desc="sizes", unit="size")]
    by_rank = divergences(h, x, 80, draws, args.seed)
    for fit in [first, *(fit for fits in rows for fit in fits)]:
        report(fit, first, data.at)

    whose = "own hyperparameters" if shared is None else "one set of hyperparameters"
    title = f"f(x) = ½(3 sin 2x + cos 10x + x/4) from {POINTS} points; {whose}"
    paper = rows[SIZES.index(PAPER)]
    pictures = {
        "": curves_picture([[first], *([fit] for fit in paper)], data, title),
        "_ranks": curves_picture(rows, data, title),
        "_kl": kl_picture(by_rank, h),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for ending, canvas in pictures.items():
        path = args.out.with_name(f"{args.out.stem}{ending}{args.out.suffix}")
        canvas.savefig(path)
        print(path)


def report(fit: Fitted, first: Fitted, at: np.ndarray) -> None:
    """Print the distances of a model from the curve and from the exact GP, on two ranges of x."""
    print(f"{fit.title()}\n    {fit.hyperparameters}")
    for reach in (1.6, 3.0):
        inside = np.abs(at) < reach
        off = np.sqrt(np.mean((fit.mean - curve(at))[inside] ** 2))
        apart = np.sqrt(np.mean((fit.mean - first.mean)[inside] ** 2))
        covered = np.mean((np.abs(fit.mean - curve(at)) < 1.96 * fit.std)[inside])
        print(
            f"    |x| < {reach}: rms distance of the mean from the curve {off:.3f}, from the exact GP {apart:.3f}, "
            f"mean std {fit.std[inside].mean():.3f}; the band covers {100 * covered:.0f} % of the curve"
        )


if __name__ == "__main__":
    main()
