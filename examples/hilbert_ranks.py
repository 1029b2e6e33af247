"""How far a Hilbert-space GP is from the exact one, against its number of basis functions.

    python examples/hilbert_ranks.py [--quick] [--N 1500] [--noise 0.1] [--out examples/output/hilbert_ranks.png]

N rows are spread evenly over [-1, 1]; the kernel has variance 1.  For a squared exponential and a Matern-5/2 kernel and
three lengthscales the picture shows, against m, with the boundary factor c of a grid that has the least bound:

- the proved bound for any N rows in the box (N-hilbert-kl),
- the divergence KL(exact || approximate) at these rows,
- the m and c of the rule of PyMC (approx_hsgp_hyperparams) with their divergence at these rows,
- the m that `gpbounds.lowrank.hilbert_rank` finds for 0.1 nats, and the same m and c at these rows.

A CSV file with the numbers is written beside the PNG.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import write
from tqdm import tqdm

from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.kernels import Stationary
from gpbounds.kernels.plain import stationary
from gpbounds.lowrank import HilbertFeatures, HilbertRank, hilbert_kl, hilbert_rank, kl_features

TARGET = 0.1
KERNELS = {"Squared exponential": (np.inf, 3.2, 1.75), "Matérn-5/2": (2.5, 4.1, 2.65)}
"""ν, and the two numbers of the rule."""
LENGTHSCALES = (0.1, 0.3, 1.0)
FLOOR = 1e-9
"""Divergences below it are rounding, and are not drawn."""


@dataclass(frozen=True)
class Costs:
    """The divergences of one kernel, by m."""

    name: str
    lengthscale: float
    m: Float
    at_rows: Float
    bound: Float
    rule: tuple[int, float, float]
    """m, c and the divergence at the rows."""
    enough: HilbertRank
    of_enough: float
    """Its divergence at the rows."""


def at_rows(kernel: Stationary, K: Float, x: Float, m: int, c: float, noise: float) -> float:
    features = HilbertFeatures(kernel, m, c, half_width=1.0).fit(x)  # type: ignore[arg-type]
    return float(kl_features(K, features(x), noise=noise))


def rule(name: str, lengthscale: float) -> tuple[int, float]:
    """m and c of approx_hsgp_hyperparams for S = 1."""
    _, a1, a2 = KERNELS[name]
    c = max(a1 * lengthscale, 1.2)
    return int(a2 * c / lengthscale), c


def costs(name: str, lengthscale: float, N: int, noise: float, points: int) -> Costs:
    kernel = stationary(KERNELS[name][0], 1.0, lengthscale)
    x = np.linspace(-1.0, 1.0, N)[:, None]
    K = np.asarray(kernel(x))
    enough = hilbert_rank(kernel, N, half_width=1.0, noise=noise, target=TARGET)
    m, c = rule(name, lengthscale)
    assert isinstance(enough.m, int)
    assert isinstance(enough.c, float)
    numbers = np.unique(np.geomspace(2, 1.4 * enough.m, points).astype(int))
    factors = 1.0 + lengthscale * np.geomspace(0.15, 6.0, 10)
    best, proved = np.empty(numbers.size), np.empty(numbers.size)
    for i, number in enumerate(numbers.tolist()):
        bounds = [float(hilbert_kl(kernel, N, number, f, half_width=1.0, noise=noise)) for f in factors.tolist()]
        proved[i] = min(bounds)
        best[i] = at_rows(kernel, K, x, number, float(factors[int(np.argmin(bounds))]), noise)
    of_rule = (m, c, at_rows(kernel, K, x, m, c, noise))
    of_enough = at_rows(kernel, K, x, enough.m, enough.c, noise)
    return Costs(name, lengthscale, numbers.astype(float), best, proved, of_rule, enough, of_enough)


def picture(every: Sequence[Costs], N: int, noise: float) -> Any:
    from matplotlib.ticker import FixedLocator, NullLocator

    from gpbounds.plotting.elements import BLUE, GREEN, ORANGE, TEXT, VERMILLION, axes, figure, headline

    label: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": TEXT - 1,
        "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
    }
    colors = dict(zip(LENGTHSCALES, (BLUE, ORANGE, GREEN), strict=True))
    page = figure(12.0, 5.8)
    headline(
        page,
        f"Hilbert-space GP against the exact one: divergence by the number m of basis functions\n"
        f"{N} rows spread evenly over [−1, 1], σ² = {noise:g}, for each m the c of the least bound; "
        "solid: at these rows, dashed: proved for any rows",
    )
    for i, name in enumerate(KERNELS):
        ax = axes(page, "", 121 + i)
        ax.set_xscale("log")
        ax.set_yscale("log")
        for each in every:
            if each.name != name:
                continue
            color = colors[each.lengthscale]
            drawn = np.where(each.at_rows > FLOOR, each.at_rows, np.nan)
            ax.plot(each.m, drawn, color=color, linewidth=1.8)
            ax.plot(each.m, each.bound, color=color, linewidth=1.4, linestyle="--")
            m, _, kl = each.rule
            ax.plot(m, kl, "X", color=VERMILLION, markersize=9, markeredgecolor="white", zorder=5)
            left = each.enough.m < 1.5 * m  # its label is at the right
            near: dict[str, Any] = {"xytext": (-7, -4) if left else (7, 4), "ha": "right" if left else "left"} | label
            ax.annotate(f"m = {m}: {kl:.2g}", (m, kl), color=VERMILLION, **near)
            ax.plot(each.enough.m, max(each.of_enough, FLOOR), "o", mfc="white", mec=color, markersize=7, zorder=5)
            ax.plot([each.enough.m], [TARGET], "|", color=color, markersize=14, markeredgewidth=2.0)
            ax.annotate(
                f"ℓ = {each.lengthscale:g}S\nm = {each.enough.m}",
                (each.enough.m, TARGET),
                xytext=(5, 8),
                color=color,
                **label,
            )
        ax.axhline(TARGET, color="0.3", linewidth=1.0, linestyle=":")
        ax.set_ylim(1e-6, 3e4)
        ax.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50, 100, 200]))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("Basis functions $m$", fontsize=TEXT + 1)
        ax.set_title(name, fontsize=TEXT + 1, loc="left")
        if i == 0:
            ax.set_ylabel("KL in nats", fontsize=TEXT + 1)
        marks = (
            ("X", VERMILLION, VERMILLION, "rule of PyMC, at these rows"),
            ("|", "0.2", "0.2", f"proved for {TARGET:g} nats, any rows"),
            ("o", "white", "0.2", "the same m and c at these rows"),
        )
        for marker, face, edge, text in marks:
            ax.plot([], [], marker, markerfacecolor=face, markeredgecolor=edge, markersize=8, label=text)
        ax.legend(loc="lower left", fontsize=TEXT - 1, frameon=False)
    return page


def table(every: Sequence[Costs]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for each in every:
        start = [each.name, each.lengthscale]
        for m, kl, bound in zip(each.m, each.at_rows, each.bound, strict=True):
            rows.append([*start, "c of the least bound", int(m), None, kl, bound])
        m, c, kl = each.rule
        rows.append([*start, "rule", m, c, kl, None])
        rows.append([*start, "enough", each.enough.m, each.enough.c, each.of_enough, float(each.enough.bound)])
    return rows


HEADER = ("kernel", "lengthscale", "choice", "m", "c", "kl_at_rows", "bound")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=1500, help="number of rows (default %(default)s)")
    parser.add_argument("--noise", type=options.number, default=0.1, help="noise variance (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="N = 300, fewer m")
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/hilbert_ranks.png"))
    args = parser.parse_args(argv)
    N, points = (300, 8) if args.quick else (args.N, 14)
    jobs = [(name, lengthscale) for name in KERNELS for lengthscale in LENGTHSCALES]
    every = [costs(name, lengthscale, N, args.noise, points) for name, lengthscale in tqdm(jobs, unit="kernel")]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(every, N, args.noise).savefig(args.out)
    write(args.out, HEADER, table(every))
    for each in every:
        m, c, kl = each.rule
        print(
            f"{each.name}, lengthscale {each.lengthscale:g}: rule m = {m}, c = {c:.2f} costs {kl:.3g} nats; "
            f"m = {each.enough.m}, c = {each.enough.c:.2f} is enough for {TARGET:g} ({each.of_enough:.2g} here)"
        )
    print(args.out)


if __name__ == "__main__":
    main()
