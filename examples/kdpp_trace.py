"""Tr(K - Q) for inducing points drawn by a k-DPP: the exact mean, its bounds, and samples.

    python examples/kdpp_trace.py [--data diabetes] [--quick] [--out examples/output/kdpp_trace.png]

A rough kernel (left) and a smooth one (right), on 442 standardised rows of scikit-learn's diabetes data, or on
synthetic inputs that are uniform on the unit square.  Above: Tr(K - Q)/Tr K against M.  Below: the same, divided by
its exact mean.

Claim of the ledger: R-lem3.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.cli import options
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, SKY, VERMILLION, Curve, plot_curves
from gpbounds.plotting.elements import TEXT, axes, figure, headline, plain_ticks

SMALLEST = 1e-6
"""The curves end at this share of Tr K: kernel matrices of larger subsets hardly factorise in float64."""


@dataclass(frozen=True, eq=False)
class Traces:
    """Tr(K - Q)/Tr K against M: exact mean, bounds, samples."""

    name: str
    M: np.ndarray
    mean: np.ndarray
    sharp: np.ndarray
    printed: np.ndarray
    optimum: np.ndarray
    greedy: np.ndarray
    sizes: np.ndarray
    drawn: np.ndarray  # (draws, len(sizes))


def inputs(data: str, N: int, seed: int) -> np.ndarray:
    if data == "synthetic":
        return np.random.default_rng(seed).random((N, 2))
    from sklearn.datasets import load_diabetes

    X = load_diabetes(return_X_y=True)[0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X if len(X) <= N else X[np.sort(np.random.default_rng(seed).choice(len(X), N, replace=False))]


def kernels(data: str) -> dict[str, Kernel]:
    if data == "synthetic":
        return {
            "Matérn-3/2, lengthscale 0.5": Matern(1.5, lengthscale=0.5),
            "squared exponential, lengthscale 0.3": SquaredExponential(lengthscale=0.3),
        }
    return {
        "Matérn-3/2, lengthscale 10": Matern(1.5, lengthscale=10.0),
        "squared exponential, lengthscale 6": SquaredExponential(lengthscale=6.0),
    }


def traces(name: str, kernel: Kernel, X: np.ndarray, size_count: int, draws: int, rng: np.random.Generator) -> Traces:
    K = kernel(X)
    spectrum = eigen(K, "k(X, X)", vectors=True)
    values: Any = spectrum.values
    total = values.sum()
    rank = int((values > spectrum.rounding).sum())
    M = np.arange(1, min(rank, int(0.9 * len(X))) + 1)
    mean = kdpp.expected_trace(values, M) / total
    M, mean = M[mean > SMALLEST], mean[mean > SMALLEST]
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    greedy = kdpp.select(kernel, X, int(M[-1]), trace=0.0).traces
    assert greedy is not None
    sizes = np.unique(np.rint(np.geomspace(1, M[-1], size_count)).astype(int))
    drawn = np.empty((draws, sizes.size))
    jobs = [(i, j) for j in range(sizes.size) for i in range(draws)]
    for i, j in tqdm(jobs, desc=name, unit="sample"):
        Z = kdpp.sample_eigen(values, spectrum.vectors, int(sizes[j]), rng)
        drawn[i, j] = kdpp.residual_trace(K, Z) / total
    return Traces(
        name,
        M,
        mean,
        np.asarray(kdpp.trace_bound(tails, M).value) / total,
        np.asarray(kdpp.trace_bound(tails, M, form="printed").value) / total,
        tails[M] / total,
        np.append(greedy, np.full(M.size, np.nan))[M] / total,
        sizes,
        drawn,
    )


def picture(several: Sequence[Traces], title: str) -> Any:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    canvas = figure(9.6, 6.6)
    headline(canvas, title)
    columns = len(several)
    tops = [axes(canvas, "", 200 + 10 * columns + 1 + i) for i in range(columns)]
    lows = [axes(canvas, "", 200 + 10 * columns + 1 + columns + i) for i in range(columns)]
    for top, low, t in zip(tops, lows, several, strict=True):
        curves = [
            Curve(r"printed bound, $(M+1)\,\Sigma_{m>M}\,\lambda_m$", t.M, t.printed, ORANGE, "-."),
            Curve(
                r"least bound over $k$, $\frac{M+1}{M+1-k}\,\Sigma_{m>k}\,\lambda_m$", t.M, t.sharp, VERMILLION, "--"
            ),
            Curve(r"exact mean, $(M+1)\,e_{M+1}/e_M$", t.M, t.mean, BLUE, "-"),
            Curve("greedy choice", t.M, t.greedy, GREEN, "-"),
            Curve(r"least of any choice, $\Sigma_{m>M}\,\lambda_m$", t.M, t.optimum, BLACK, ":"),
        ]
        for ax, scale, wanted in ((top, np.ones(t.M.size), curves), (low, t.mean, curves)):
            plot_curves(ax, [Curve(c.label, c.M, np.asarray(c.value) / scale, c.color, c.style) for c in wanted])
            at = np.searchsorted(t.M, t.sizes)
            ax.plot(
                np.broadcast_to(t.sizes, t.drawn.shape).ravel(),
                (t.drawn / scale[at]).ravel(),
                linestyle="none",
                marker="o",
                markersize=3.2,
                markeredgewidth=0,
                color=SKY,
                alpha=0.6,
                zorder=1.5,
                label="k-DPP samples",
            )
            ax.set_xscale("log")
            ax.set_xlim(0.94, t.M[-1] * 1.06)
            plain_ticks(ax, 1, float(t.M[-1]))
        low.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        low.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        low.yaxis.set_minor_locator(NullLocator())
        top.set_title(t.name, fontsize=TEXT, loc="left")
        top.set_xlabel("")
        top.set_ylim(bottom=0.5 * t.optimum.min(), top=3.0)
    tops[0].set_ylabel(r"$\mathrm{Tr}(K-Q)\,/\,\mathrm{Tr}\,K$", fontsize=TEXT + 1)
    lows[0].set_ylabel("divided by the exact mean", fontsize=TEXT + 1)
    handles, labels = tops[0].get_legend_handles_labels()
    legend = canvas.legend(
        handles, labels, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False, handlelength=2.6
    )
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", choices=("diabetes", "synthetic"), default="diabetes")
    parser.add_argument("--rows", type=options.whole, default=500, help="largest number of rows (default %(default)s)")
    parser.add_argument("--draws", type=options.whole, default=30, help="samples per size (default %(default)s)")
    parser.add_argument(
        "--sizes", type=options.whole, default=24, help="number of sizes to sample (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="100 rows, 5 samples of 8 sizes")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/kdpp_trace.png"))
    args = parser.parse_args(argv)
    rows, draws, size_count = (100, 5, 8) if args.quick else (args.rows, args.draws, args.sizes)
    X = inputs(args.data, rows, args.seed)
    rng = np.random.default_rng(args.seed)
    by_kernel = [traces(name, kernel, X, size_count, draws, rng) for name, kernel in kernels(args.data).items()]
    described = "diabetes data" if args.data == "diabetes" else "inputs uniform on the unit square"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(by_kernel, f"Tr(K − Q) for k-DPP inducing points ({described}, N = {len(X)}, D = {X.shape[1]})").savefig(
        args.out
    )
    for t in by_kernel:
        share = t.drawn.mean(axis=0) / t.mean[np.searchsorted(t.M, t.sizes)]
        print(f"{t.name}: means of {draws} samples are {share.min():.3g} to {share.max():.3g} times the exact means;")
        print(f"  bounds up to {(t.sharp / t.mean).max():.3g} (least over k) and ", end="")
        print(f"{(t.printed / t.mean).max():.3g} (printed) times the exact mean")
    print(args.out)


if __name__ == "__main__":
    main()
