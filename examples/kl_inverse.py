"""The upper and lower inverse of the binary kl (Figure 4 of Reeb et al.), and a comparison with Pinsker's bound.

    python examples/kl_inverse.py [--out examples/output/kl_inverse.png]

Left: the upper and the lower inverse against the empirical risk q, for several ε; with probability 1 − δ the true risk
lies between the two curves of ε = (KL + ln(1/p_θ) + ln(ξ(N)/δ))/N.  Right: the difference between the bound and q.  It
grows like √(2q(1−q)ε) for small ε and like ε for ε > q, while Pinsker's inequality gives √(ε/2).

Claims of the ledger: P-03, P-04, P-05.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.cli import options
from gpbounds.pacbayes import kl_inverse
from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, TEXT, VERMILLION
from gpbounds.plotting.elements import axes, figure, headline

EPS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)


def risks(points: int) -> np.ndarray:
    """Risks from 0 to 1, denser at both ends, where the curves are steep."""
    return 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, points))


def fig4(ax: Any, q: np.ndarray) -> None:
    """Both inverses against q."""
    for eps, color in zip(EPS, COLORS, strict=True):
        ax.plot(q, kl_inverse(q, eps), color=color, linewidth=1.8, label=rf"$\varepsilon = {eps:g}$")
        if eps:
            ax.plot(q, kl_inverse(q, eps, side="lower"), color=color, linewidth=1.1, linestyle="--")
    start = -np.expm1(-np.array(EPS))
    ax.plot([0.0] * len(EPS), start, "o", markersize=4, color="0.35", clip_on=False, label=r"$1 - e^{-\varepsilon}$")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.012)
    ax.set_aspect("equal")
    handles, labels = ax.get_legend_handles_labels()
    order = [*range(len(EPS) - 1, -1, -1), len(EPS)]
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        fontsize=TEXT,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        handlelength=1.4,
    )
    ax.set_xlabel("empirical risk $q$", fontsize=TEXT + 1)
    ax.set_title("upper (solid) and lower (dashed) inverse", fontsize=TEXT, loc="left")


def excess(ax: Any) -> None:
    """The difference between the bound and q against ε, with that of Pinsker's bound."""
    eps = np.geomspace(1e-5, 1.0, 400)
    ax.plot(
        eps,
        np.sqrt(eps / 2),
        color=BLACK,
        linewidth=1.4,
        linestyle=":",
        zorder=3,
        label=r"Pinsker, $\sqrt{\varepsilon/2}$",
    )
    for q, color in zip((0.5, 0.1, 0.01, 0.001, 0.0), (BLUE, GREEN, ORANGE, VERMILLION, PURPLE), strict=True):
        ax.plot(eps, kl_inverse(q, eps) - q, color=color, linewidth=1.8, label=f"$q = {q:g}$")
    ax.set_xscale("log")
    ax.set_xlim(eps[0], eps[-1])
    ax.legend(fontsize=TEXT, frameon=False, loc="upper left", handlelength=1.8)
    ax.set_xlabel(r"$\varepsilon$, the penalty over $N$", fontsize=TEXT + 1)
    ax.set_title(r"difference to $q$", fontsize=TEXT, loc="left")


def picture(q: np.ndarray) -> Any:
    canvas = figure(11.0, 4.7)
    headline(
        canvas,
        r"True risks $p$ compatible with an empirical risk $q$: $\mathrm{kl}(q\,\Vert\,p) \leq \varepsilon$",
    )
    fig4(axes(canvas, "true risk $p$", 121, scale="linear"), q)
    excess(axes(canvas, r"$\mathrm{kl}^{-1}(q, \varepsilon) - q$", 122))
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--points", type=options.whole, default=2001, help="number of values of q (default %(default)s)"
    )
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/kl_inverse.png"))
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(risks(args.points)).savefig(args.out)
    print(f"kl⁻¹(0, ε) = 1 − e^−ε: {', '.join(f'{float(kl_inverse(0.0, eps)):.4f}' for eps in EPS)}")
    print(args.out)


if __name__ == "__main__":
    main()
