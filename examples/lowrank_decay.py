"""The KL divergence of a low-rank GP against its rank, for one-dimensional inputs (Fig. 2 of paper 001).

    python examples/lowrank_decay.py [--quick] [--N 5000] [--out examples/output/lowrank_decay.png]

KL(exact || approximate) in nats against the rank r, for the two kernels of Fig. 1 at D = 1.  Left: random Fourier
features, plain and, for the Gaussian kernel, drawn by leverage; lines are medians of several draws, shading is their
range.  Middle: the truncated Mercer expansion; for Matérn, as in the paper, the eigenvectors of K, which are optimal
among all approximations of the same rank (L-10).  Right, which the paper does not have: a Hilbert-space GP on the range
of the inputs, with the boundary factor of the least bound at each rank, and that bound, which holds for any N rows
there (N-hilbert-kl).  The picture also shows the bounds that hold with probability 95 %
before the data or the frequencies are seen (random features: N-rff; Mercer: L-43, and as printed, Eq. 9), the
certificate from the diagonal of K - Sigma (L-54, L-09), and the smallest KL of any approximation of the same rank.  A
CSV file with the numbers is written beside the PNG.

The lengthscale is 1/(2π) for both kernels; the paper does not give it for Matérn.

Claims of the ledger: N-rff, L-43, L-42, L-09, L-10, N-hilbert-kl.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import DELTA, EPS, GAUSSIAN, MATERN, NOISE, SETTINGS, STD, Setting, label_ends, side_by_side, write
from tqdm import tqdm

from gpbounds import Gaussian, SquaredExponential
from gpbounds.cli import options
from gpbounds.linalg import eigen
from gpbounds.lowrank import (
    FourierFeatures,
    HilbertFeatures,
    LeverageFourierFeatures,
    MercerFeatures,
    hilbert_kl,
    kl_by_rank,
    kl_features,
    mercer_kl,
    optimal_kl,
    residual_certificate,
)
from gpbounds.lowrank.features.fourier import CosineSine

LOWEST = 1e-12
"""Lower edge of the picture, in nats."""
FLOOR = 1e-14
"""The curve of the Mercer truncation ends at this KL."""

Tick = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of the picture: KL against the rank, one row per draw."""

    panel: int
    setting: Setting
    curve: str
    r: np.ndarray
    kl: np.ndarray

    @property
    def median(self) -> np.ndarray:
        return np.median(self.kl, axis=0)


def fourier_lines(
    setting: Setting, X: np.ndarray, K: np.ndarray, most: int, draws: int, rng: np.random.Generator, tick: Tick
) -> Iterator[Line]:
    N = len(X)
    r = 2 * np.unique(np.rint(np.geomspace(1, most // 2, 28)).astype(int))
    methods: dict[str, Callable[[], CosineSine]] = {FOURIER: lambda: FourierFeatures(setting.kernel, most, rng)}
    if isinstance(setting.kernel, SquaredExponential):
        kernel, width = setting.kernel, np.ptp(X)
        methods[LEVERAGE] = lambda: LeverageFourierFeatures(kernel, most, noise=NOISE, N=N, width=width, rng=rng)
    for curve, features in methods.items():
        drawn = []
        for _ in range(draws):
            drawn.append(kl_by_rank(K, side_by_side(features(), X), r, noise=NOISE, scales=2.0 / r))
            tick()
        yield Line(0, setting, curve, r, np.array(drawn))
    m = np.unique(np.rint(np.geomspace(1, most // 2, 300)).astype(int))
    yield Line(0, setting, THEORY, 2 * m, np.array([[setting.bound(N, int(each), X) for each in m]]))


def mercer_lines(setting: Setting, X: np.ndarray, K: np.ndarray, most: int, tick: Tick) -> Iterator[Line]:
    N, ranks = len(X), np.arange(1, most if not setting.smooth else 60)
    for curve, form in ((THEORY, "sharpest"), (PRINTED, "printed")):
        bound = mercer_kl(setting.kernel, N, ranks, inputs=setting.law(1), noise=NOISE, delta=DELTA, form=form)
        yield Line(1, setting, curve, ranks, np.atleast_2d(bound.value))
    if isinstance(setting.kernel, SquaredExponential):
        exact: list[float] = []
        certified: list[float] = []
        while not exact or exact[-1] > FLOOR:
            features = MercerFeatures(setting.kernel, len(exact) + 1, inputs=Gaussian(STD)).fit(X)
            exact.append(kl_features(K, features(X), noise=NOISE))
            certified.append(float(residual_certificate(features.residual_diagonal(X), noise=NOISE)))
            tick()
        r = np.arange(1, len(exact) + 1)
        yield Line(1, setting, MERCER, r, np.array([exact]))
        yield Line(1, setting, CERTIFICATE, r, np.array([certified]))


def hilbert_lines(setting: Setting, X: np.ndarray, K: np.ndarray, most: int, tick: Tick) -> Iterator[Line]:
    N, width = len(X), float(np.abs(X).max())
    factors = 1.0 + float(setting.kernel.lengthscales(1)[0]) / width * np.geomspace(0.1, 8.0, 12)
    ranks = np.arange(1, 41) if setting.smooth else np.unique(np.rint(np.geomspace(1, most - 1, 16)).astype(int))
    points: list[tuple[int, float, float]] = []
    for rank in ranks.tolist():
        about: Any = {"half_width": width, "noise": NOISE}
        bounds = [float(hilbert_kl(setting.kernel, N, rank, c, **about)) for c in factors.tolist()]
        c = float(factors[int(np.argmin(bounds))])
        features = HilbertFeatures(setting.kernel, rank, c, half_width=width).fit(X)  # type: ignore[arg-type]
        points.append((rank, kl_features(K, features(X), noise=NOISE), min(bounds)))
        tick()
        if points[-1][1] < FLOOR or rank >= most - 1:
            break
    r, exact, proved = (np.array(column) for column in zip(*points, strict=True))
    yield Line(2, setting, HILBERT, r, exact[None])
    yield Line(2, setting, ANY, r, proved[None])


def lines(setting: Setting, N: int, most: int, draws: int, rng: np.random.Generator, tick: Tick) -> list[Line]:
    X = setting.points(N, 1, rng)
    K = np.asarray(setting.kernel(X))
    best = np.asarray(optimal_kl(eigen(K, "k(X, X)").values, noise=NOISE))[None, 1:most]
    tick()
    curves = [*fourier_lines(setting, X, K, most, draws, rng, tick), *mercer_lines(setting, X, K, most, tick)]
    curves += hilbert_lines(setting, X, K, most, tick)
    return curves + [Line(panel, setting, BEST, np.arange(1, most), best) for panel in range(3)]


def crossing(line: Line, level: float) -> float:
    """The rank at which a falling curve crosses a level."""
    y = np.maximum(line.median, 1e-300)
    return float(np.exp(np.interp(-np.log(level), -np.log(y), np.log(line.r))))


STYLES = {
    "random Fourier features": ("-", 2.2),
    "the same, drawn by leverage": ("--", 2.2),
    "Mercer truncation": ("-", 2.2),
    "theory": ("-.", 1.6),
    "theory as printed": ((0, (6, 1, 1, 1, 1, 1)), 1.2),
    "certificate of the data": ("--", 1.6),
    "least possible": (":", 1.8),
    "Hilbert-space features": ("-", 2.2),
    "bound for any rows": ("-.", 1.6),
}
FOURIER, LEVERAGE, MERCER, THEORY, PRINTED, CERTIFICATE, BEST, HILBERT, ANY = STYLES


def picture(curves: Sequence[Line], N: int, draws: int) -> Any:
    from gpbounds.plotting.elements import SKY, TEXT, axes, figure, headline, plain_ticks

    page = figure(19.0, 6.2)
    headline(
        page,
        "KL(exact‖approximate), in nats, against the rank $r$ of the approximation\n"
        f"N = {N}, σ² = {NOISE:g}, lengthscale 1/(2π), inputs in one dimension, standard deviation 1/16\n"
        f"Theory: with probability {1 - DELTA:.0%}.  Random features: median and range of {draws} draws",
    )
    most = max(int(line.r[-1]) for line in curves)
    top = 2.0 * max(float(line.median[np.isfinite(line.median)].max(initial=1.0)) for line in curves)
    panels = [axes(page, "", 131 + i) for i in range(3)]
    titles = (
        "Random Fourier features",
        "Truncated Mercer expansion (Matérn: K's own eigenvectors)",
        "Hilbert-space features",
    )
    for i, (ax, title) in enumerate(zip(panels, titles, strict=True)):
        ax.set_ylim(LOWEST, top)
        ax.set_xscale("log")
        ax.set_xlim(1.0, most)
        ends = []
        for line in (line for line in curves if line.panel == i):
            style, width = STYLES[line.curve]
            color = SKY if line.curve == LEVERAGE else line.setting.color
            label = line.curve
            if i == 1 and line.curve == BEST and line.setting is MATERN:
                style, width = STYLES[MERCER]
                label = "K's eigenvectors,\n= least possible"
            y = np.where(np.isfinite(line.median), line.median, np.nan)
            ax.plot(line.r, y, linestyle=style, linewidth=width, color=color)
            if len(line.kl) > 1:
                ax.fill_between(line.r, line.kl.min(axis=0), line.kl.max(axis=0), color=color, alpha=0.2, lw=0)
            if line.r[-1] >= most - 1 and y[-1] > LOWEST:
                ends.append((float(most), float(y[-1]), label, color))
        ax.axhline(EPS * N, color="0.45", linewidth=1.0)
        ends.append((float(most), EPS * N, f"target, {EPS:g}·N", "0.35"))
        label_ends(ax, ends)
        name_falling(ax, [line for line in curves if line.panel == i and line.setting is GAUSSIAN])
        plain_ticks(ax, 1.0, float(most))
        ax.set_xlabel("Rank $r$", fontsize=TEXT + 1)
        ax.set_title(title, fontsize=TEXT + 1, loc="left")
        for setting, height in ((GAUSSIAN, 0.10), (MATERN, 0.04)):
            ax.annotate(
                setting.name,
                (0.98, height),
                xycoords="axes fraction",
                ha="right",
                fontsize=TEXT + 1,
                fontweight="bold",
                color=setting.color,
            )
    panels[0].set_ylabel("KL, nats", fontsize=TEXT + 1)
    return page


PLACES = {
    PRINTED: (1e-6, (14, 0), "left"),
    THEORY: (1e-8, (16, -4), "left"),
    CERTIFICATE: (1e-5, (-14, 0), "right"),
    MERCER: (3e-8, (-14, 0), "right"),
    BEST: (1e-10, (-14, 0), "right"),
    HILBERT: (1e-8, (46, 0), "left"),
    ANY: (1e-6, (16, 0), "left"),
}
"""Labels of steep curves: the level, the offset in points, the alignment of the text."""
BROKEN = {
    CERTIFICATE: "certificate\nof the data",
    MERCER: "Mercer\ntruncation",
    BEST: "least\npossible",
    HILBERT: "Hilbert-space\nfeatures",
}


def name_falling(ax: Any, steep: Sequence[Line]) -> None:
    """Label the curves that end at the lower edge of the picture."""
    from gpbounds.plotting.elements import TEXT

    for line in steep:
        if line.curve not in PLACES or line.median[-1] > LOWEST:
            continue
        level, shift, alignment = PLACES[line.curve]
        ax.annotate(
            line.curve if alignment == "left" else BROKEN.get(line.curve, line.curve),
            (crossing(line, level), level),
            xytext=shift,
            textcoords="offset points",
            ha=alignment,
            va="center",
            fontsize=TEXT - 1,
            color=line.setting.color,
            arrowprops={"arrowstyle": "-", "color": line.setting.color, "linewidth": 0.7, "shrinkB": 1},
        )


def table(curves: Sequence[Line]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for line in curves:
        low, high = line.kl.min(axis=0), line.kl.max(axis=0)
        for cells in zip(line.r.tolist(), line.median.tolist(), low.tolist(), high.tolist(), strict=True):
            rows.append([("Fourier", "Mercer", "Hilbert")[line.panel], line.setting.name, line.curve, *cells])
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=5000, help="number of points (default %(default)s)")
    parser.add_argument("--most", type=options.whole, default=2000, help="largest rank (default %(default)s)")
    parser.add_argument(
        "--draws", type=options.whole, default=5, help="number of draws of frequencies (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="N = 500, ranks up to 400")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/lowrank_decay.png"))
    args = parser.parse_args(argv)
    N, most = (500, 400) if args.quick else (args.N, min(args.most, args.N))
    rng = np.random.default_rng(args.seed)
    curves: list[Line] = []
    with tqdm(unit="step") as bar:
        for setting in SETTINGS:
            bar.set_description(setting.name)
            curves += lines(setting, N, most - most % 2, args.draws, rng, bar.update)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(curves, N, args.draws).savefig(args.out)
    write(args.out, ("panel", "kernel", "curve", "rank", "kl_median", "kl_least", "kl_greatest"), table(curves))
    for line in curves:
        if line.curve in (FOURIER, LEVERAGE, MERCER, HILBERT, ANY) or (line.panel, line.curve) == (0, BEST):
            enough = line.r[line.median <= EPS * N]
            print(
                f"{line.setting.name}, {line.curve}: KL <= {EPS:g}·N first at r = {enough[0] if enough.size else None}"
            )
    print(args.out)


if __name__ == "__main__":
    main()
