"""Bounded losses (Reeb et al., PAC-GP, Figure 5), and their means under a Gaussian prediction.

    python examples/losses.py [--epsilon 1] [--out examples/output/losses.png]

Left: the loss of a prediction v against the deviation v - y.  Right: its mean over v ~ N(m, s²), which certificates
use, for a small and for a large standard deviation s.

Claims of the ledger: P-30, P-31, P-32.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.cli import options
from gpbounds.losses import Band, Exponential, Loss, Squared
from gpbounds.plotting import BLUE, ORANGE, TEXT, VERMILLION
from gpbounds.plotting.elements import axes, figure, headline

SPREADS = ((0.2, "-"), (1.0, "--"))
"""Standard deviations s in units of ε, and their line styles."""


def losses(epsilon: float) -> list[tuple[Loss, str, str]]:
    return [
        (Band(epsilon), r"zero-one band $\ell_1$", BLUE),
        (Squared(epsilon), r"clipped square $\ell_2$", VERMILLION),
        (Exponential(epsilon), r"exponential $\ell_{\mathrm{exp}}$", ORANGE),
    ]


def picture(epsilon: float) -> Any:
    canvas = figure(9.6, 4.2)
    headline(canvas, f"Three bounded losses, ε = {epsilon:g}, and their means over a Gaussian prediction")
    left, right = (axes(canvas, "", 120 + i, "linear") for i in (1, 2))
    deviation = epsilon * np.linspace(-2.6, 2.6, 1041)
    for loss, label, color in losses(epsilon):
        value = loss.value(0.0, deviation)
        if isinstance(loss, Band):  # draw no line at the jump
            value = np.where(np.append(np.diff(value) != 0.0, False), np.nan, value)
        width = 3.6 if isinstance(loss, Band) else 1.8  # two curves coincide at 1
        left.plot(deviation, value, color=color, linewidth=width, label=label)
        for share, style in SPREADS:
            mean = loss.expectation(0.0, deviation, (share * epsilon) ** 2)
            right.plot(deviation, mean, color=color, linestyle=style, linewidth=1.8)
    for share, style in SPREADS:
        label = rf"$s = {share:g}\,\varepsilon$" if share != 1.0 else r"$s = \varepsilon$"
        right.plot([], [], color="0.35", linestyle=style, linewidth=1.8, label=label)
    left.set_xlabel(r"deviation of the prediction, $v - y$", fontsize=TEXT + 1)
    right.set_xlabel(r"deviation of the mean, $m - y$", fontsize=TEXT + 1)
    left.set_ylabel(r"loss $\ell(y, v)$", fontsize=TEXT + 1)
    right.set_ylabel(r"mean loss over $v \sim N(m, s^2)$", fontsize=TEXT + 1)
    for ax in (left, right):
        ax.set_xlim(deviation[0], deviation[-1])
        ax.set_ylim(-0.04, 1.06)
    lines = [line for ax in (left, right) for line in ax.get_legend_handles_labels()[0]]
    canvas.legend(handles=lines, loc="outside lower center", ncols=5, fontsize=TEXT, frameon=False, handlelength=2.6)
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--epsilon", type=options.number, default=1.0, help="ε, in the units of y (default 1)")
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/losses.png"))
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(args.epsilon).savefig(args.out)
    for loss, _, _ in losses(args.epsilon):
        means = [float(loss.expectation(0.0, 0.0, (share * args.epsilon) ** 2)) for share, _ in SPREADS]
        costs = ", ".join(f"{mean:.4g} at s = {share:g} ε" for mean, (share, _) in zip(means, SPREADS, strict=True))
        print(f"{loss.name}: a prediction centred on the target costs {costs}")
    print(args.out)


if __name__ == "__main__":
    main()
