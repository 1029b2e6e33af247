"""The divergence of a Hilbert-space GP with trained hyperparameters from the exact GP, at all rows and given all y.

    python examples/hilbert_truth.py [--quick] [--target 0.1] [--folder FOLDER]

The two models of `fourier_truth.py`: median house values in all 20 640 blocks of cal_housing by income alone, and by
income and age, with hyperparameters of a trained Fourier GP.  `hilbert_rank` finds m and c for --target nats; the
picture shows, at this c and at shares of this m, KL(exact‖Hilbert space) at all rows between proved ends (N-basis)
under the bound for any rows of the box (N-hilbert-kl), which holds for fitted hyperparameters, too.

Given all y, through the same basis (N-basis-given): log p(y) - log p~(y), and the divergence of predictions of new
observations at all rows.  A CSV file with all numbers is written beside the picture.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import numpy as np
from fourier_truth import MODELS, Line, Trained, trained
from lowrank_setting import write
from regression_sets import UCI
from tqdm import tqdm

from gpbounds.cli import options
from gpbounds.lowrank import HilbertFeatures, ThroughBasis, ThroughBasisGiven, hilbert_kl, hilbert_rank
from gpbounds.texts import table

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the number of functions that suffice."""
TRUTH, BOUND = "KL, Hilbert space", "bound, any rows"
GIVEN = ("given y: log evidence", "given y: predictions")


def truths(model: Trained, through: ThroughBasis, target: float, shares: Sequence[float]) -> Iterator[Line]:
    """KL and its bound, and what changes given y, at shares of the m that suffices for the target."""
    X, N = model.data.X, model.data.N
    half_width, centre = 0.5 * model.width, 0.5 * (X.min(axis=0) + X.max(axis=0))
    about: dict[str, Any] = {"half_width": half_width, "noise": model.noise}
    enough = hilbert_rank(model.kernel, N, target=target, **about)
    given = ThroughBasisGiven(through, model.data.y)
    numbers = [np.maximum(np.rint(share * np.atleast_1d(enough.m)), 1.0) for share in shares]
    for m in tqdm(np.unique(numbers, axis=0), desc=model.name, unit="rank"):
        features = HilbertFeatures(model.kernel, m, enough.c, half_width=half_width, centre=centre).fit(X)
        bound = float(hilbert_kl(model.kernel, N, m, enough.c, **about))
        yield Line(model.name, BOUND, features.rank, 0, np.nan, bound)
        pairs = through.kl(features), given.evidence_gap(features), given.predictive_kl(features)
        for what, pair in zip((TRUTH, *GIVEN), pairs, strict=True):
            yield Line(model.name, what, features.rank, 0, float(pair.lower), float(pair.upper))


def picture(lines: Sequence[Line], rows: dict[str, int], target: float) -> Any:
    """A panel for each model; the points are the upper ends."""
    from dlm_setting import plain

    from gpbounds.plotting import BLUE, PURPLE, VERMILLION
    from gpbounds.plotting.elements import TEXT, figure, headline, target_line

    styles = {
        BOUND: ("bound for any rows of the box", BLUE, "-", ""),
        TRUTH: ("KL at all rows", VERMILLION, "", "o"),
        GIVEN[1]: ("predictions at all rows, given y", PURPLE, "", "s"),
    }
    page = figure(5.0 * max(len(rows), 2), 4.6)
    headline(page, "KL(exact‖Hilbert space) with trained hyperparameters against the rank")
    panels = page.subplots(1, len(rows), squeeze=False, sharey=True)[0]
    for ax, (name, N) in zip(panels, rows.items(), strict=True):
        for what, (label, color, line, marker) in styles.items():
            points = [(each.rank, each.upper) for each in lines if (each.model, each.what) == (name, what)]
            x, value = np.array([p for p in points if np.isfinite(p[1])]).reshape(-1, 2).T
            ax.plot(x, value, linestyle=line, marker=marker, color=color, markersize=4.5, linewidth=1.8, label=label)
        ax.set_yscale("log")
        target_line(ax, target)
        plain(ax, f"{name}, N = {N}", "rank", "nats" if name == next(iter(rows)) else "")
    panels[-1].legend(fontsize=TEXT - 1, frameon=False)
    return page


def summary(lines: Sequence[Line]) -> str:
    """A row for each model and rank; ends that differ in four digits are both shown."""

    def cell(line: Line) -> str:
        low, high = (f"{end:.4g}" for end in (line.lower, line.upper))
        return high if low in (high, "nan") else f"{low} … {high}"

    names = (BOUND, TRUTH, *GIVEN)
    ranks = list(dict.fromkeys((line.model, line.rank) for line in lines))
    cells = {(line.model, line.rank, line.what): cell(line) for line in lines}
    return table(["model", "rank", *names], [[m, str(r), *(cells[m, r, what] for what in names)] for m, r in ranks])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--target", type=options.number, default=0.1, help="nats (default %(default)s)")
    parser.add_argument("--rows", type=options.whole, default=0, help="at most so many rows, 0 for all")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds cal_housing.csv.gz")
    parser.add_argument("--quick", action="store_true", help="600 rows, two ranks")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/hilbert_truth.png"))
    args = parser.parse_args(argv)
    rows, shares = (600, SHARES[1::4]) if args.quick else (args.rows, SHARES)
    path = args.folder / "cal_housing.csv.gz"
    if not path.exists():
        parser.exit(0, f"No cal_housing.csv.gz in {args.folder}: pass --folder.\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    numbers: dict[str, int] = {}
    for name in MODELS:
        model = trained(path, name, rows, args.seed)
        numbers[name] = model.data.N
        for line in truths(model, model.through(model.data.X), args.target, shares):
            lines.append(line)
            write(args.out, [field.name for field in fields(Line)], [astuple(line) for line in lines])
        print(f"{name}: {model.kernel}, noise {model.noise:.4g}")
    print(summary(lines))
    picture(lines, numbers, args.target).savefig(args.out)
    print(f"{args.out}, {time.process_time() / 60.0:.1f} minutes of processor time")


if __name__ == "__main__":
    main()
