"""The number of samples per step of biased Monte Carlo: Corollary 5 of paper 004 as printed, improved, and by Chernoff.

    python examples/sample_sizes.py [--quick] [--n 1000] [--out examples/output/sample_sizes.png]

Left: L against the mean of q(f) = N(m, 1), for a probit likelihood with y = 1, at t = 10 of the step sizes 1/t.  The
printed L divides by |E φ'| and |E φ''| and has poles where these vanish.  The improved L (D-50) depends on E p only; by
Chernoff's bound (N-cher) it grows like 1/E p instead of 1/(E p)².  Right: L against t, at m = 1/2 and -4.

Claims of the ledger: D-42, D-50, N-cher.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.cli import options
from gpbounds.likelihoods import Bernoulli
from gpbounds.montecarlo import sample_size
from gpbounds.plotting import BLUE, GREEN, ORANGE
from gpbounds.plotting.elements import TEXT, axes, figure, headline, plain_ticks

RULES = {
    "printed": ("printed (D-42)", ORANGE, "-."),
    "improved": ("improved (D-50)", BLUE, "-"),
    "chernoff": ("by Chernoff's bound (N-cher)", GREEN, "--"),
}
DELTA = 0.05
MEANS = (0.5, -4.0)


def needed(rule: str, m: Any, t: Any, n: int) -> np.ndarray:
    """L at mean m and iteration t, γ_t = 1/t."""
    sizes = sample_size(
        Bernoulli("probit"), 1, n=n, delta=DELTA, step=lambda t: 1.0 / t, iteration=t, m=m, v=1.0, rule=rule
    )
    return np.asarray(sizes.L, dtype=np.float64)


def picture(n: int, points: int) -> Any:
    canvas = figure(10.0, 4.6)
    headline(
        canvas,
        "Samples per data point for which a gradient step meets its accuracy\n"
        f"probit likelihood, y = 1, q(f) = N(m, 1), n = {n}, step 1/t, all accurate with probability {1 - DELTA:g}",
    )
    left, right = axes(canvas, "Samples $L$", 121), axes(canvas, "", 122)
    m = np.linspace(-5.0, 3.0, points)
    t = np.unique(np.rint(np.geomspace(1, 1000, 60)))
    for rule, (label, color, style) in RULES.items():
        over = 3 if rule == "printed" else 2
        left.plot(m, needed(rule, m, 10, n), color=color, linestyle=style, linewidth=1.8, label=label, zorder=over)
        for mean in MEANS:
            right.plot(t, needed(rule, mean, t, n), color=color, linestyle=style, linewidth=1.6, zorder=over)
    left.set_xlabel("Mean $m$ of $q(f)$", fontsize=TEXT + 1)
    left.set_title("At step t = 10", fontsize=TEXT, loc="left")
    left.set_xlim(m[0], m[-1])
    left.set_ylim(1e2, 1e11)
    left.annotate(
        "no bound near m = 0,\nwhere E φ'' vanishes",
        (0.04, 6e8),
        xytext=(8, 0),
        textcoords="offset points",
        fontsize=TEXT - 1,
        color=ORANGE,
        va="center",
    )
    right.set_xscale("log")
    right.set_xlabel("Step $t$", fontsize=TEXT + 1)
    right.set_title("At means m = 1/2 and -4", fontsize=TEXT, loc="left")
    right.set_xlim(1, 1000)
    right.set_ylim(2e1, 1e13)
    for mean in MEANS:
        right.annotate(
            f"m = {mean:g}",
            (1.0, float(needed("improved", mean, 1, n))),
            xytext=(4, 6),
            textcoords="offset points",
            fontsize=TEXT - 1,
            color=BLUE,
        )
    plain_ticks(right, 1, 1000)
    canvas.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--n", type=options.whole, default=1000, help="number of data in the union bound (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a coarser grid")
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/sample_sizes.png"))
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(args.n, 201 if args.quick else 1601).savefig(args.out)
    for m in (0.5, 1e-3, -2.0, -4.0):
        sizes = ", ".join(f"{rule} {float(needed(rule, m, 10, args.n)):,.0f}" for rule in RULES)
        print(f"m = {m:g}, t = 10: {sizes}")
    print(args.out)


if __name__ == "__main__":
    main()
