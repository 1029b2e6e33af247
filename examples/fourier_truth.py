"""The divergence of a Fourier GP with trained hyperparameters from the exact GP, under the bounds of Theorem 2.

    python examples/fourier_truth.py [--quick] [--ranks 2048 4096 8192 16384] [--draws 3] [--folder FOLDER]

Two models of median house values in all 20 640 blocks of cal_housing: by income alone, and by income and age.
`LowRankGP("leverage", rank=256)` trains kernel and noise; they are kept, and frequencies are drawn anew at each larger
rank, as training at rank 16 384 would take hours.  The theorems hold for hyperparameters fixed before the draw.

Truth: KL(exact‖features) at all rows, between proved ends (N-basis): both covariances lie in the span of a
few hundred Chebyshev polynomials of the inputs up to rounding.  Bounds, which fail with probability 5 %: N-rff with
frequencies drawn by leverage; the same with the effective dimension of these rows; and N-rff for frequencies from the
kernel's own density, whose s~ = N·variance/noise makes it infinite at all ranks of the picture.

Given y, at 3000 random rows: log p(y) − log p~(y) (N-evgap), and the divergence of predictions of new
observations there (N-predkl), each between proved ends, beside the divergence before y and the mean over y.
A CSV file with all numbers is written beside the picture.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import DELTA, write
from regression_sets import UCI
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP
from fitting.study.standardised import Standardised, load, standardise
from gpbounds import SquaredExponential
from gpbounds.cli import options
from gpbounds.kernels.errors import entry_bound
from gpbounds.lowrank import (
    FourierFeatures,
    LeverageFourierFeatures,
    ThroughBasis,
    evidence_gap,
    fourier_kl,
    predictive_kl,
)
from gpbounds.plotting import BLUE, GREEN, PURPLE, SKY, VERMILLION
from gpbounds.texts import table

MODELS = {"income": ("income",), "income and age": ("income", "age")}
RANKS = (2048, 4096, 8192, 16384)
TRAINED, DEGREE = 256, {1: 40, 2: 24}
"""Rank of training; total degree of the polynomials by number of inputs."""


@dataclass(frozen=True)
class Line:
    """One number of the picture: ``lower`` is empty for a bound, ``upper`` for none."""

    model: str
    what: str
    rank: int
    draw: int
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Trained:
    """Rows, and the hyperparameters of the trained Fourier GP."""

    name: str
    data: Standardised
    kernel: SquaredExponential
    noise: float

    @property
    def width(self) -> np.ndarray:
        return np.ptp(self.data.X, axis=0)

    def drawn(self, kind: str, rank: int, draw: int) -> Callable[[np.ndarray], np.ndarray]:
        """Features with frequencies drawn by leverage for all rows, or from the spectral density."""
        X, rng = self.data.X, np.random.default_rng([rank, draw])
        if kind == "classical":
            return FourierFeatures(self.kernel, rank, rng).fit(X)
        return LeverageFourierFeatures(
            self.kernel, rank, noise=self.noise, N=self.data.N, width=self.width, rng=rng
        ).fit(X)

    def through(self, X: np.ndarray, share: float = 1.0) -> ThroughBasis:
        """The exact side at some rows, with a share of the noise."""
        ends = self.data.X.min(axis=0), self.data.X.max(axis=0)
        unit = 2.0 * (X - ends[0]) / (ends[1] - ends[0]) - 1.0
        degree = DEGREE[self.data.D]
        basis = np.polynomial.chebyshev.chebvander(unit[:, 0], degree)
        if self.data.D == 2:
            second = np.polynomial.chebyshev.chebvander(unit[:, 1], degree)
            pairs = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
            basis = np.stack([basis[:, i] * second[:, j] for i, j in pairs], axis=1)
        return ThroughBasis(self.kernel, X, basis, noise=share * self.noise)


def trained(path: Path, name: str, rows: int, seed: int) -> Trained:
    """The model after training at a small rank."""
    everything = load(path)
    columns = [everything.columns.index(column) for column in MODELS[name]]
    part = everything.subset(rows, seed) if rows else everything
    data = standardise(name, part.X[:, columns], part.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LowRankGP("leverage", rank=min(TRAINED, rows or TRAINED), max_iter=60, random_state=seed)
        model.fit(data.X, data.y)
    assert isinstance(model.kernel_, SquaredExponential)
    return Trained(name, data, model.kernel_, float(model.noise_))


def truths(model: Trained, through: ThroughBasis, rank: int, draws: int) -> Iterator[Line]:
    """KL of each draw, by leverage and from the kernel's own density."""
    for kind in ("leverage", "classical"):
        for draw in range(draws):
            pair = through.kl(model.drawn(kind, rank, draw))
            yield Line(model.name, f"KL, {kind}", rank, draw, float(pair.lower), float(pair.upper))


def bounds(model: Trained, dimension: float, ranks: Sequence[int]) -> Iterator[Line]:
    """N-rff in its forms; `rigor="sharp"` encloses all rounding."""
    about: dict[str, Any] = {"noise": model.noise, "delta": DELTA, "rigor": "sharp"}
    for rank in ranks:
        forms: dict[str, dict[str, Any]] = {
            "bound, leverage": {"width": model.width},
            "bound, leverage, dimension of the rows": {"width": model.width, "effective_dimension": dimension},
            "bound, classical": {"features": "classical", "effective_dimension": dimension},
        }
        for what, form in forms.items():
            value = float(fourier_kl(model.kernel, model.data.N, rank // 2, **about, **form))
            yield Line(model.name, what, rank, 0, np.nan, value)


def given(model: Trained, rank: int, rows: int, seed: int) -> Iterator[Line]:
    """What the first draw changes for the y at hand, at some rows, and the divergences before y there."""
    chosen = np.random.default_rng(seed).permutation(model.data.N)[:rows]
    X, y = model.data.X[chosen], model.data.y[chosen]
    features = model.drawn("leverage", rank, 0)
    entry = entry_bound(model.kernel, X, X)
    assert entry is not None
    arguments = (model.kernel(X), features(X), y)
    about: dict[str, Any] = {"noise": model.noise, "entry_error": entry}
    whole, half = model.through(X).kl(features), model.through(X, 0.5).kl(features)
    pairs = {
        "given y: log evidence": evidence_gap(*arguments, **about),
        "given y: predictions": predictive_kl(*arguments, **about),
        "given rows: KL": whole,
    }
    for what, pair in pairs.items():
        yield Line(model.name, what, rank, 0, float(pair.lower), float(pair.upper))
    ends = float(half.lower) - float(whole.upper), float(half.upper) - float(whole.lower)
    yield Line(model.name, "given rows: predictions, mean over y", rank, 0, max(ends[0], 0.0), ends[1])


def picture(lines: Sequence[Line], rows: dict[str, int]) -> Any:
    """Bounds and truths against the rank, a panel for each model; infinite bounds are not drawn."""
    from dlm_setting import plain

    from gpbounds.plotting.elements import TEXT, figure, headline

    styles = {
        "bound, leverage": ("N-rff", BLUE, "-", ""),
        "bound, leverage, dimension of the rows": ("N-rff, dimension of the rows", SKY, "--", ""),
        "KL, leverage": ("KL, frequencies by leverage", VERMILLION, "", "o"),
        "KL, classical": ("KL, frequencies of the kernel", GREEN, "", "^"),
        "given y: predictions": ("predictions given y, 3000 rows", PURPLE, "", "s"),
    }
    names = list(dict.fromkeys(line.model for line in lines))
    page = figure(5.0 * max(len(names), 2), 4.6)
    headline(
        page,
        "KL(exact‖Fourier) with trained hyperparameters against the rank; bounds at 95 %, for frequencies by leverage",
    )
    panels = page.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for ax, name in zip(panels, names, strict=True):
        for what, (label, color, line, marker) in styles.items():
            points = [(each.rank, each.upper) for each in lines if (each.model, each.what) == (name, what)]
            x, value = np.array([p for p in points if np.isfinite(p[1])]).reshape(-1, 2).T
            ax.plot(x, value, linestyle=line, marker=marker, color=color, markersize=4.5, linewidth=1.8, label=label)
        ticks = sorted({line.rank for line in lines if line.what == "KL, leverage"})
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(ticks, [f"{tick:,}".replace(",", " ") for tick in ticks])
        ax.minorticks_off()
        plain(ax, f"{name}, N = {rows[name]}", "rank r (two for each frequency)", "nats" if name == names[0] else "")
    panels[-1].legend(fontsize=TEXT - 1, frameon=False)
    return page


def summary(lines: Sequence[Line], ranks: Sequence[int]) -> str:
    """A table of all lines at the ranks of the truth; several draws show the smallest and largest."""

    def cell(found: Sequence[Line]) -> str:
        ends = [end for line in found for end in (line.lower, line.upper) if not np.isnan(end)]
        low, high = min(ends), max(ends)
        return f"{high:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} … {high:.4g}"

    groups = list(dict.fromkeys((line.model, line.what) for line in lines))
    body = []
    for model, what in groups:
        found = [[li for li in lines if (li.model, li.what, li.rank) == (model, what, rank)] for rank in ranks]
        body.append([model, what, *(cell(each) if each else "" for each in found)])
    return table(["model", "nats", *map(str, ranks)], body)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--ranks", type=options.whole, nargs="+", default=list(RANKS), help="even; default %(default)s")
    parser.add_argument("--rows", type=options.whole, default=0, help="at most so many rows, 0 for all")
    parser.add_argument("--given", type=options.whole, default=3000, help="rows of the numbers given y")
    parser.add_argument("--draws", type=options.whole, default=3, help="of the frequencies (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds cal_housing.csv.gz")
    parser.add_argument("--quick", action="store_true", help="600 rows, ranks 128 and 512, one draw")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/fourier_truth.png"))
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.ranks, args.draws, args.given = 600, [128, 512], 1, 400
    path = args.folder / "cal_housing.csv.gz"
    if not path.exists():
        parser.exit(0, f"No cal_housing.csv.gz in {args.folder}: pass --folder.\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    rows: dict[str, int] = {}
    grid = np.unique(2 * np.rint(0.5 * np.geomspace(min(args.ranks), max(args.ranks), 13)).astype(int))
    for name in MODELS:
        model = trained(path, name, args.rows, args.seed)
        through, rows[name] = model.through(model.data.X), model.data.N
        lines += bounds(model, through.effective_dimension, sorted({*map(int, grid), *args.ranks}))
        for rank in tqdm(args.ranks, desc=name, unit="rank"):
            lines += truths(model, through, rank, args.draws)
            lines += given(model, rank, min(args.given, model.data.N), args.seed)
            write(args.out, [field.name for field in fields(Line)], [astuple(line) for line in lines])
        print(f"{name}: {model.kernel}, noise {model.noise:.4g}, effective dimension {through.effective_dimension:.4g}")
    print(summary(lines, args.ranks))
    picture(lines, rows).savefig(args.out)
    print(f"{args.out}, {time.process_time() / 60.0:.1f} minutes of processor time")


if __name__ == "__main__":
    main()
