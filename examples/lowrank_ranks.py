"""The rank that a low-rank GP needs against the dimension of the inputs (Fig. 1 of paper 001).

    python examples/lowrank_ranks.py [--quick] [--N 5000] [--dims 8] [--out examples/output/lowrank_ranks.png]

The picture shows the smallest rank r with KL(exact || approximate) <= 0.01·N, for two kernels and three methods, the
rank that the theory guarantees (probability 95 %, before the data are seen), and the smallest rank of any approximation
(L-10).

Random Fourier features: KL may rise with a further frequency.  Doubling and then bisection along a growing sequence of
frequencies give an even r with KL(r) <= 0.01·N < KL(r - 2).  Lines are medians over draws, shading is their range.  If
the first draw needs r > N, no further draw is made.  Mercer truncation, Gaussian kernel: KL falls with r, and bisection
gives the smallest r.  Matérn: as in the paper, eigenvalues and eigenvectors of the kernel matrix of the data, which are
optimal.  Hilbert-space features, which the paper does not have: as many sines in each dimension of the least box around
the inputs, the least such rank over boundary factors of a grid.  A CSV file with the numbers is written beside the PNG.

Theory: random features by leverage for the Gaussian kernel and by the spectral density for Matérn (N-rff); Mercer by
the smallest of the bounds of Cantelli, Chernoff and Markov (L-43), for Matérn up to D = 3, with estimated eigenvalues
for D > 1; Hilbert space by `hilbert_rank` up to D = 3, for any inputs in the box (N-hilbert-kl).  The lengthscale is
1/(2π) for both kernels; the paper does not give it for Matérn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import (
    DELTA,
    EPS,
    LENGTHSCALE,
    MOST,
    NOISE,
    SETTINGS,
    STD,
    Setting,
    label_ends,
    side_by_side,
    write,
)
from tqdm import tqdm

from gpbounds import Gaussian, SquaredExponential
from gpbounds.cli import options
from gpbounds.errors import NotConverged
from gpbounds.linalg import eigen
from gpbounds.lowrank import (
    FourierFeatures,
    HilbertFeatures,
    MercerFeatures,
    hilbert_rank,
    kl_features,
    mercer_rank,
    optimal_rank,
)
from gpbounds.lowrank.divergence import SumsByRank

MANY = 10**6
"""Ranks of Hilbert-space features above this are not shown."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of one kernel in one dimension; None if r = N is not enough, or if the rank is not known."""

    setting: Setting
    D: int
    fourier: tuple[int | None, ...]
    mercer: int | None
    optimum: int
    fourier_theory: int | None
    mercer_theory: int | None
    hilbert: int | None
    hilbert_theory: int | None

    @property
    def median(self) -> float:
        """Median of the draws; NaN if it is N or more."""
        middle = float(np.median([np.inf if r is None else r for r in self.fourier]))
        return middle if np.isfinite(middle) else np.nan


def first(enough: Callable[[int], bool], low: int, high: int) -> int:
    """By bisection, an r with enough(r) and not enough(r - 1), from not enough(low) and enough(high)."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def reaches(prefixes: SumsByRank, target: float, r: int) -> bool:
    return prefixes.kl(r) <= target


def averaged(prefixes: SumsByRank, target: float, m: int) -> bool:
    """Whether m random frequencies, with two averaged features each, reach the target."""
    return prefixes.kl(2 * m, 1.0 / m) <= target


def fourier_rank(
    K: np.ndarray, X: np.ndarray, setting: Setting, log_det: float, rng: np.random.Generator
) -> int | None:
    """An even r with KL(r) <= εN < KL(r - 2) along one sequence of frequencies; None if r = N is not enough."""
    N = len(K)
    Xi = side_by_side(FourierFeatures(setting.kernel, N - N % 2, rng), X)
    pairs, insufficient, possible = 16, 0, False
    while True:
        pairs = min(pairs, N // 2)
        if 8 * pairs > N // 2 and not possible:  # before expensive steps, check that r = N is enough
            if kl_features(K, Xi * np.sqrt(1.0 / (N // 2)), noise=NOISE) > EPS * N:
                return None
            possible = True
        prefixes = SumsByRank.of(K, Xi[:, : 2 * pairs], NOISE, log_det=log_det)
        if pairs == N // 2 or averaged(prefixes, EPS * N, pairs):
            return 2 * first(partial(averaged, prefixes, EPS * N), insufficient, pairs)
        insufficient, pairs = pairs, 2 * pairs


def mercer_truncation(K: np.ndarray, X: np.ndarray, setting: Setting, log_det: float, least: int) -> int | None:
    """The smallest r with KL <= εN; KL falls with r, since the truncations increase to K."""
    N, D = X.shape
    rank = max(2 * least, 8)
    assert isinstance(setting.kernel, SquaredExponential)
    while rank < 2 * N:
        rank = min(rank, N)
        Xi = np.asarray(MercerFeatures(setting.kernel, rank, inputs=Gaussian(STD, D)).fit(X)(X))
        prefixes = SumsByRank.of(K, Xi, NOISE, log_det=log_det)
        if prefixes.kl(rank) <= EPS * N:
            return first(partial(reaches, prefixes, EPS * N), least - 1, rank)
        rank *= 2
    return None


def fourier_theory(setting: Setting, X: np.ndarray) -> int | None:
    """Twice the smallest number of random frequencies that provably suffices."""
    N = len(X)
    high = 1
    while setting.bound(N, high, X) > EPS * N:
        high *= 2
        if high > MOST:
            return None
    return 2 * first(lambda m: setting.bound(N, m, X) <= EPS * N, high // 2, high)


def mercer_theory(setting: Setting, N: int, D: int) -> int | None:
    """The rank that suffices by theory before the inputs are seen; None above N or without a known spectrum."""
    if not setting.smooth and D > 3:
        return None
    return mercer_rank(setting.kernel, N, EPS * N, inputs=setting.law(D), noise=NOISE, delta=DELTA).M


def hilbert_number(K: np.ndarray, X: np.ndarray, setting: Setting, least: int) -> int | None:
    """The least m^D with KL ≤ εN, m sines in each dimension, over boundary factors; None above N."""
    N, D = X.shape
    widths = np.abs(X).max(axis=0)
    most, best = int(N ** (1.0 / D) + 1e-9), None

    def enough(c: float, m: int) -> bool:
        features = HilbertFeatures(setting.kernel, m, c, half_width=widths).fit(X)  # type: ignore[arg-type]
        return kl_features(K, features(X), noise=NOISE) <= EPS * N

    fewer = int((least - 1) ** (1.0 / D) + 1e-9)  # fewer than the least rank of any approximation do not do
    for c in 1.0 + LENGTHSCALE / float(widths.min()) * np.array([0.3, 0.6, 1.0, 1.5, 2.5, 4.0]):
        if most > fewer and enough(c, most):
            best = most = first(partial(enough, c), fewer, most)
    return None if best is None else best**D


def hilbert_theory(setting: Setting, X: np.ndarray) -> int | None:
    """The rank that suffices for any inputs in the box; None in D > 3, above `MANY`, or where no bound is small."""
    N, D = X.shape
    if D > 3:
        return None
    try:
        plan = hilbert_rank(setting.kernel, N, half_width=np.abs(X).max(axis=0), noise=NOISE, target=EPS * N)
    except NotConverged:
        return None
    return plan.rank if plan.rank <= MANY else None


def ranks(setting: Setting, N: int, D: int, draws: int, rng: np.random.Generator, tick: Callable[[], Any]) -> Ranks:
    X = setting.points(N, D, rng)
    K = np.asarray(setting.kernel(X))
    values = eigen(K, "k(X, X)").values
    log_det = float(np.log1p(values / NOISE).sum())
    least = optimal_rank(values, EPS * N, noise=NOISE)
    tick()
    mercer = mercer_truncation(K, X, setting, log_det, least) if setting.smooth else least
    fourier: list[int | None] = []
    for _ in range(draws):
        if fourier != [None]:
            fourier.append(fourier_rank(K, X, setting, log_det, rng))
        tick()
    theories = fourier_theory(setting, X), mercer_theory(setting, N, D)
    hilbert = hilbert_number(K, X, setting, least), hilbert_theory(setting, X)
    return Ranks(setting, D, tuple(fourier), mercer, least, *theories, *hilbert)


def picture(all_ranks: Sequence[Ranks], N: int, draws: int) -> Any:
    from matplotlib.ticker import FixedLocator

    from gpbounds.plotting.elements import BLACK, ORANGE, PURPLE, TEXT, VERMILLION, axes, figure, headline

    page = figure(12.0, 5.8)
    headline(
        page,
        f"Least rank $r$ for KL(exact‖approximate) ≤ {EPS:g}·N against the dimension of the inputs\n"
        f"N = {N}, σ² = {NOISE:g}, lengthscale 1/(2π), inputs of standard deviation 1/16; "
        f"random features: median and range of {draws} draws",
    )
    panels = [axes(page, "", 121 + i) for i in range(len(SETTINGS))]
    top = 3.0 * max(max(max(r.fourier_theory or 1, r.hilbert_theory or 1) for r in all_ranks), N)
    for ax, setting in zip(panels, SETTINGS, strict=True):
        rows = [r for r in all_ranks if r.setting == setting]
        D = np.array([r.D for r in rows], dtype=float)

        def values(name: str, rows: Sequence[Ranks] = rows) -> np.ndarray:
            return np.array([np.nan if getattr(r, name) is None else getattr(r, name) for r in rows], dtype=float)

        spread = [[v for v in r.fourier if v is not None] or [np.nan] for r in rows]
        ax.fill_between(D, [min(s) for s in spread], [max(s) for s in spread], color=setting.color, alpha=0.2, lw=0)
        lines = [
            (
                "theory:\nfeatures by leverage" if setting.smooth else "theory:\nrandom features",
                "fourier_theory",
                ORANGE,
                "-.",
            ),
            ("random\nFourier features", "median", setting.color, "-o"),
            ("theory:\nMercer truncation", "mercer_theory", VERMILLION, "--D"),
            ("theory: Hilbert space,\nany inputs", "hilbert_theory", PURPLE, "-.v"),
            ("Hilbert space", "hilbert", PURPLE, "-v"),
            (
                "Mercer truncation" if setting.smooth else "truncation of\nK's eigenvectors\n= least possible",
                "mercer",
                setting.color,
                "--s",
            ),
        ]
        if setting.smooth:
            lines.append(("least possible", "optimum", BLACK, ":"))
        ax.set_ylim(0.8, top)
        ax.set_xlim(D[0] - 0.2, D[-1] + 0.2)
        edge = float(D[-1]) + 0.2
        ends = [(edge, float(N), "full rank, N", "0.2")]
        early = []
        beyond = D[[bool(np.isnan(r.median)) for r in rows]]
        for label, name, color, style in lines:
            y = values(name)
            ax.plot(D, y, style, color=color, markersize=5, linewidth=1.5 if color != setting.color else 2.0)
            last = np.flatnonzero(np.isfinite(y))
            if last.size and not (name == "median" and beyond.size):
                end = (float(y[last[-1]]), label, color)
                if D[last[-1]] == D[-1]:
                    ends.append((edge, *end))
                else:
                    early.append((float(D[last[-1]]), *end))
        if beyond.size:
            ax.plot(beyond, np.full(beyond.size, 1.4 * N), ls="none", marker="^", mfc="white", mec=setting.color, ms=7)
            ax.annotate(
                "random Fourier features: more than N",
                (float(beyond[-1]), 1.4 * N),
                xytext=(6, 9),
                textcoords="offset points",
                ha="right",
                fontsize=TEXT - 1,
                color=setting.color,
            )
        ax.axhline(N, color="0.2", linewidth=1.0)
        label_ends(ax, ends)
        label_ends(ax, early)
        ax.xaxis.set_major_locator(FixedLocator(D))
        ax.set_xlabel("Input dimension $D$", fontsize=TEXT + 1)
        ax.set_title(setting.name, fontsize=TEXT + 1, loc="left", color=setting.color)
    panels[0].set_ylabel("Rank $r$", fontsize=TEXT + 1)
    return page


def table(all_ranks: Sequence[Ranks]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for r in all_ranks:
        draws = " ".join("N" if v is None else str(v) for v in r.fourier)
        median = None if np.isnan(r.median) else r.median
        cells = [r.fourier_theory, r.mercer, r.mercer_theory, r.optimum, r.hilbert, r.hilbert_theory]
        rows.append([r.setting.name, r.D, median, draws, *cells])
    return rows


HEADER = (
    *("kernel", "D", "fourier_median", "fourier_draws (N: r = N is not enough)", "fourier_theory"),
    *("mercer", "mercer_theory", "optimum", "hilbert", "hilbert_theory"),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=5000, help="number of points (default %(default)s)")
    parser.add_argument("--dims", type=options.whole, default=8, help="largest dimension (default %(default)s)")
    parser.add_argument(
        "--draws", type=options.whole, default=3, help="number of draws of frequencies (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="N = 500, up to D = 5")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/lowrank_ranks.png"))
    args = parser.parse_args(argv)
    N, dims = (500, 5) if args.quick else (args.N, args.dims)
    rng = np.random.default_rng(args.seed)
    jobs = [(setting, D) for setting in SETTINGS for D in range(1, dims + 1)]
    all_ranks = []
    with tqdm(total=len(jobs) * (args.draws + 1), unit="step") as bar:
        for setting, D in jobs:
            bar.set_description(f"{setting.name}, D = {D}")
            all_ranks.append(ranks(setting, N, D, args.draws, rng, bar.update))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(all_ranks, N, args.draws).savefig(args.out)
    write(args.out, HEADER, table(all_ranks))
    for r in all_ranks:
        fourier = f"{r.median:g}" if np.isfinite(r.median) else "more than N"
        print(
            f"{r.setting.name}, D = {r.D}: Fourier {fourier}, Mercer {r.mercer}, "
            f"Hilbert space {r.hilbert} (any inputs: {r.hilbert_theory}), smallest of any method {r.optimum}"
        )
    print(args.out)


if __name__ == "__main__":
    main()
