"""Sampled gradients of direct loss minimisation: their bias, and what it changes (Fig. 1 g, h, i of paper 004).

    python examples/dlm_sampling.py [--quick] [--splits 5] [--data DIR] [--only NAME ...] [--out FILE.png]

Panels g and h: gradients of the log loss in w and C, q(v) = N(w, CCᵀ), at the start of a sparse GP (w = 0, C = I) of
abalone's counts, with β = 0.1: of bMC and of uPS with L = 1, 10, 100 samples for each row, 100 times.  The truth is the
exact gradient, where the paper (Wei et al.) takes 10,000 samples; diamonds are the exact means of the estimators.

Panel i: the test log loss by epochs of a classifier of many generated ringnorm rows, β = 0.1, trained by Adam with
exact, bMC and uPS gradients (the paper: airline); and of counts and real targets, with the exact test loss beside the
processor time.  bMC with L = 1 is the ELBO's gradient on average.  "smooth" adds 1e-4 to the mean of the sampled
densities.

The program prints the paper's claims 4, 5 and 7, and that of its supplement on real targets, with the verdict of its
own numbers, and writes all of them as CSV beside the picture, after every curve; `--resume` continues from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dlm_curves import Adam, Mark, curve, first_point, objective_of
from dlm_setting import (
    LIKELIHOODS,
    OUT,
    PICTURE,
    RESUME,
    Task,
    cell,
    checked,
    jobs,
    load,
    markdown,
    parser,
    plain,
    present,
    save,
    splits_of,
    task,
)
from matplotlib.ticker import NullFormatter
from paired import Paired, Tally, paired

from fitting.objectives.losses import Sampling
from fitting.objectives.point import Gradient, Parameters
from gpbounds import SquaredExponential
from gpbounds.cli import options
from gpbounds.montecarlo import expected_gradients
from gpbounds.montecarlo.addressed import Draws
from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline
from gpbounds.whitening import inducing

BETA = 0.1
SIZES = (1, 10, 100)
SMOOTHING = 1e-4
"""The constant of the authors' code."""


def sampling(method: str, L: int) -> Sampling:
    return Sampling(method, Draws.of(0), L, SMOOTHING if method == "smooth-bmc" else 0.0)


# Panels g and h: gradients at the start


@dataclass(frozen=True)
class Drawn:
    """One drawn gradient in one block (w or C), compared with the exact one."""

    method: str
    L: int
    block: str
    repeat: int
    projection: float  # ∇̂ᵀ∇/‖∇‖²
    square: float  # ‖∇̂‖²/‖∇‖²
    distance: float  # ‖∇̂ − ∇‖²


STATISTICS = {
    "projection": r"$\hat\nabla^\top\nabla\,/\,\|\nabla\|^2$",
    "square": r"$\|\hat\nabla\|^2\,/\,\|\nabla\|^2$",
    "distance": r"$\|\hat\nabla-\nabla\|^2$",
}


def blocks(gradient: Gradient) -> dict[str, np.ndarray]:
    assert gradient.mean is not None
    assert gradient.factor is not None
    return {"w": np.ravel(gradient.mean), "C": np.ravel(gradient.factor)}


def compared(method: str, L: int, repeat: int, drawn: Gradient, exact: dict[str, np.ndarray]) -> list[Drawn]:
    records = []
    for (name, g), h in zip(exact.items(), blocks(drawn).values(), strict=True):
        norm = float(g @ g)
        gap = h - g
        records.append(Drawn(method, L, name, repeat, float(h @ g) / norm, float(h @ h) / norm, float(gap @ gap)))
    return records


def gradients(part: Task, start: Parameters, repeats: int) -> list[Drawn]:
    """Drawn gradients at the start."""
    problem = objective_of(part, "log-loss", BETA)
    evaluation = problem.minimised(start)
    assert evaluation.gradient is not None
    exact = {name: block.copy() for name, block in blocks(evaluation.gradient).items()}  # the next call overwrites it
    records = []
    for method in ("bmc", "ups"):
        for L in SIZES:
            for repeat in range(repeats):
                drawn = problem.sampled(sampling(method, L), repeat).minimised(start).gradient
                assert drawn is not None
                records += compared(method, L, repeat, drawn, exact)
    return records


def expected_projections(part: Task, start: Parameters) -> dict[tuple[int, str], float]:
    """The exact mean of ∇̂ᵀ∇/‖∇‖² of bMC for each L and block, at q = prior, where KL has no gradient.

    ∂w = Vm̄ and ∂C = tril(2V·diag(s̄)Vᵀ), with the means of the estimators in m and s for m̄ and s̄.
    """
    problem = objective_of(part, "log-loss", BETA)
    points = inducing(start.kernel, start.Z, problem.data.jitter)
    V = np.asarray(points.whiten(part.X))
    variance = float(start.kernel.max_variance)
    counts, where = np.unique(part.y, return_inverse=True)
    expected = expected_gradients(start.likelihood, counts[:, None], 0.0, variance, np.array([*SIZES, np.inf]))

    def in_blocks(k: int) -> dict[str, np.ndarray]:
        by_mean, by_variance = (
            np.asarray(e)[where, k] for e in (expected.sampled_by_mean, expected.sampled_by_variance)
        )
        return {"w": V @ by_mean, "C": np.tril(2.0 * (V * by_variance) @ V.T).ravel()}

    exact = in_blocks(len(SIZES))
    return {
        (L, name): float(mean @ exact[name]) / float(exact[name] @ exact[name])
        for k, L in enumerate(SIZES)
        for name, mean in in_blocks(k).items()
    }


def centred(records: Sequence[Drawn], expected: dict[tuple[int, str], float]) -> list[str]:
    """How far the mean projection is from its exact mean, in standard errors, and how far that is from 1."""
    lines = []
    for method, L, block in dict.fromkeys((r.method, r.L, r.block) for r in records):
        draws = np.array([r.projection for r in records if (r.method, r.L, r.block) == (method, L, block)])
        truth = expected[L, block] if method == "bmc" else 1.0
        error = draws.std(ddof=1) / np.sqrt(draws.size)
        lines.append(
            f"{method}-{L}, {block}: mean of ∇̂ᵀ∇/‖∇‖² {draws.mean():.4f}, exactly {truth:.4f} "
            f"({(draws.mean() - truth) / error:+.1f} standard errors); standard deviation {draws.std(ddof=1):.3f}"
        )
    return lines


# Panel i: learning curves

CURVES: dict[str, tuple[str, str, Sampling | None]] = {
    "exact": (BLACK, "-", None),
    "bMC-1": (SKY, "-", sampling("bmc", 1)),
    "bMC-10": (BLUE, "-", sampling("bmc", 10)),
    "bMC-100": (PURPLE, "-", sampling("bmc", 100)),
    "uPS-1": (ORANGE, "--", sampling("ups", 1)),
    "uPS-10": (VERMILLION, "--", sampling("ups", 10)),
    "smooth bMC-10": (GREEN, ":", sampling("smooth-bmc", 10)),
}
"""Colour, line style and how the losses are sampled."""


def start_of(part: Task, M: int) -> Parameters:
    """With one lengthscale for each input of the labels, as the paper has for its large set."""
    D = part.X.shape[1]
    kernel = SquaredExponential(1.0, np.full(D, np.sqrt(D))) if part.likelihood == "probit" else part.kernel
    return first_point(part, M, kernel)


def end(marks: Sequence[Mark], data: str, method: str, name: str = "log_loss") -> np.ndarray:
    """The score at the end of every split."""
    rows = [m for m in marks if m.data == data and m.method == method]
    last = max(m.epoch for m in rows)
    return np.array([getattr(m, name) for m in sorted(rows, key=lambda m: m.split) if m.epoch == last])


LEVEL = 0.01
"""Two log losses are called level if their mean difference is at most this many nats."""


def verdict(level: bool, gaps: Sequence[Paired]) -> str:
    """Of a claim that losses are level; it is undecided where all differences lie within Student's 95 % interval."""
    surely = any(gap.surely_less or gap.surely_more for gap in gaps)
    return "agrees" if level else "does not agree" if surely else "undecided"


def claims(marks: Sequence[Mark], large: str) -> list[str]:
    """Claims 4 (on the large set), 5 (on counts), that on real targets and 7 (everywhere)."""
    lines = []
    others = [data for data in dict.fromkeys(m.data for m in marks) if data != large]

    def gap(data: str, a: str, b: str) -> Any:
        return paired(end(marks, data, a), end(marks, data, b))

    if any(m.data == large for m in marks):
        many = {name: gap(large, name, "exact") for name in ("bMC-100", "uPS-10")}
        level = all(abs(each.mean) <= LEVEL for each in many.values())
        each = ", ".join(f"{value} for {name}" for name, value in many.items())
        word = verdict(level, list(many.values()))
        lines.append(f"4 (bMC-100 and uPS-10 reach the exact loss, to {LEVEL:g}): {word}; {each}.")
        few = gap(large, "uPS-1", "bMC-10")
        lines.append(f"4 (uPS-1 has a smaller loss than bMC-10): {Tally([few])}.")
        times = {name: end(marks, large, name, "seconds").mean() for name in CURVES}
        word = "agrees" if times["bMC-100"] < times["uPS-10"] and times["bMC-10"] < times["uPS-1"] else "does not agree"
        shown = ", ".join(f"{name} {value / times['exact']:.1f}" for name, value in times.items() if name != "exact")
        lines.append(
            f"4 (bMC is faster than uPS of the same quality): {word}; time in units of the exact one: {shown}."
        )
    for data in [name for name in others if LIKELIHOODS[name] == "gaussian"]:
        enough = [gap(data, name, "exact") for name in ("bMC-10", "bMC-100")]
        word = verdict(all(abs(each.mean) <= LEVEL for each in enough), enough)
        lines.append(
            f"of the supplement ({data}, 10 bMC samples reach the exact loss for real targets, to {LEVEL:g}): {word}; "
            f"{enough[0]} for bMC-10, {enough[1]} for bMC-100 and {gap(data, 'bMC-1', 'exact')} for bMC-1."
        )
    for data in [name for name in others if LIKELIHOODS[name] == "poisson"]:
        one = gap(data, "bMC-1", "exact")
        word = verdict(one.mean <= LEVEL, [one])
        best = min(
            (gap(data, name, "exact") for name in ("bMC-10", "bMC-100", "uPS-1", "uPS-10")), key=lambda g: g.mean
        )
        lines.append(
            f"5 ({data}, one bMC sample suffices for counts, to {LEVEL:g}): {word}; {one} from the exact loss, and the "
            f"best of the other samplings {best}."
        )
    for data in dict.fromkeys(m.data for m in marks):
        smooth = gap(data, "smooth bMC-10", "bMC-10")
        word = verdict(abs(smooth.mean) <= LEVEL, [smooth])
        lines.append(f"7 ({data}, smoothing changes nothing, to {LEVEL:g}): {word}; {smooth}.")
    return [f"Claim {line}" for line in lines]


# Pictures and tables


def table_of_ends(marks: Sequence[Mark]) -> str:
    rows = [
        [data, name, *(cell(end(marks, data, name, score)) for score in ("log_loss", "error")), f"{seconds:.1f} s"]
        for data in dict.fromkeys(m.data for m in marks)
        for name in CURVES
        for seconds in [end(marks, data, name, "seconds").mean()]
    ]
    return markdown(("data", "gradient", "log loss", "error", "time"), rows)


def picture_of_gradients(records: Sequence[Drawn], expected: dict[tuple[int, str], float], title: str) -> Any:
    """A row of histograms for each estimator, one above the other."""
    page = figure(12.5, 8.0)
    headline(page, title)
    grid = page.add_gridspec(2, 3)
    series = [(method, L) for method in ("ups", "bmc") for L in reversed(SIZES)]
    for row, block in enumerate(("w", "C")):
        for column, (name, symbol) in enumerate(STATISTICS.items()):
            ax = page.add_subplot(grid[row, column])
            logarithmic = name != "projection"
            for at, (method, L) in enumerate(series):
                draws = np.array([getattr(r, name) for r in records if (r.method, r.L, r.block) == (method, L, block)])
                color = BLUE if method == "bmc" else VERMILLION
                shown = np.log10(draws) if logarithmic else draws
                heights, edges = np.histogram(shown, bins=20)
                edges = 10.0**edges if logarithmic else edges
                ax.stairs(at + 0.82 * heights / heights.max(), edges, baseline=at, fill=True, color=color, alpha=0.55)
                ax.plot([draws.mean()], [at + 0.12], marker="|", markersize=11, color=BLACK)
                if name == "projection":
                    truth = expected[L, block] if method == "bmc" else 1.0
                    ax.plot([truth], [at + 0.12], marker="D", markersize=5, color=BLACK, fillstyle="none")
            if name == "distance":
                ax.set_xscale("log")
            else:
                ax.axvline(1.0, color="0.4", linewidth=0.9, linestyle=":")
            if name == "square":
                ax.set_xscale("log")
            labels = [f"{'bMC' if method == 'bmc' else 'uPS'}-{L}" for method, L in series]
            ax.set_ylim(-0.2, len(series) + 0.1)
            ax.set_yticks(np.arange(len(series)) + 0.3, labels if column == 0 else [""] * len(series))
            plain(ax, f"gradient in {block}", symbol, "")
    return page


def limits(ends: Sequence[float]) -> tuple[float, float]:
    """Limits of the vertical axis about the ends of the curves, without the worst if it is far from the others."""
    *others, last, worst = sorted(ends)
    low = min([*others, last])
    top = worst if worst - low < 8.0 * (last - low) else last
    return low - 0.25 * (top - low), top + 0.8 * (top - low)


def picture_of_curves(marks: Sequence[Mark], title: str) -> Any:
    names = list(dict.fromkeys(m.data for m in marks))
    page = figure(max(4.6 * len(names), 9.0), 8.4)
    headline(page, title)
    grid = page.add_gridspec(2, len(names))
    for column, data in enumerate(names):
        rows = [m for m in marks if m.data == data]
        low, high = limits([end(marks, data, name).mean() for name in CURVES])
        for row, against in enumerate(("epoch", "seconds")):
            ax = page.add_subplot(grid[row, column])
            shown = rows if against == "epoch" else [m for m in rows if m.seconds > 0.0]  # the axis is logarithmic
            for name, (color, style, _) in CURVES.items():
                part = [m for m in shown if m.method == name]
                splits = sorted({m.split for m in part})
                table = np.array([[m.log_loss for m in part if m.split == split] for split in splits])
                at = np.array([[getattr(m, against) for m in part if m.split == split] for split in splits]).mean(
                    axis=0
                )
                ax.fill_between(at, table.min(axis=0), table.max(axis=0), color=color, alpha=0.12, linewidth=0)
                ax.plot(at, table.mean(axis=0), color=color, linestyle=style, linewidth=1.6, label=name)
            ax.set_ylim(low, high)
            if against == "seconds":
                ax.set_xscale("log")
                ax.xaxis.set_minor_formatter(NullFormatter())
            about = f"{data}, N = {rows[0].N:,}" if row == 0 else ""
            plain(ax, about, "epochs" if row == 0 else "processor seconds", "test log loss" if column == 0 else "")
    handles, labels = page.axes[0].get_legend_handles_labels()
    page.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=TEXT, frameon=False)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    made = parser(__doc__, inducing=20, repeats=100, rows=1_000_000, batch=2000, epochs=2, count_rows=1000)
    made.add_argument(
        "--count-steps",
        type=options.whole,
        default=1000,
        help="steps for counts and real targets, on all their rows (default %(default)s)",
    )
    made.add_argument("--rate", type=options.number, default=0.02, help="learning rate of Adam (default %(default)s)")
    made.add_argument("--resume", action="store_true", help=RESUME)
    made.add_argument(
        "--out", metavar="FILE", type=options.picture_file, default=OUT / "dlm_sampling.png", help=PICTURE
    )
    args = made.parse_args(argv)
    counted, real = ["abalone", "bike_hourly"], ["cal_housing"]
    if args.quick:
        args.splits, args.inducing, args.repeats, args.count_rows, args.count_steps = 2, 6, 20, 60, 20
        args.tests = 200
        args.rows, args.batch, args.epochs, counted, real = 400, 100, 3, ["waves"], ["Branin"]
    checked(made, args, inducing=1, repeats=2, rows=10, batch=1, epochs=1, count_rows=10, count_steps=1)
    counted, real = (
        present([name for name in names if name in (args.only or names)], args.data) for names in (counted, real)
    )
    large = "ringnorm" if "ringnorm" in (args.only or ["ringnorm"]) else ""
    if counted:
        part = task(counted[0], args.data, args.count_rows, 0, args.tests)
        start = first_point(part, args.inducing, SquaredExponential(1.0, np.sqrt(part.X.shape[1])))
        bias = args.out.with_stem(f"{args.out.stem}_bias")
        stored = load(bias.with_suffix(".csv"), Drawn) if args.resume else []
        drawn, expected = stored or gradients(part, start, args.repeats), expected_projections(part, start)
        save(bias, drawn)
        title = (
            f"Gradients at the start: {counted[0]}, {len(part.y)} rows, M = {args.inducing}, β = {BETA:g}, "
            f"{args.repeats} draws\nbars: mean of the draws; diamonds: exact mean of the estimator; dotted: the truth"
        )
        picture_of_gradients(drawn, expected, title).savefig(bias)
        print("\n".join(centred(drawn, expected)))
    marks = load(args.out.with_suffix(".csv"), Mark) if args.resume else []
    done = {(mark.data, mark.split, mark.method) for mark in marks}
    kept = lru_cache(maxsize=1)(task)  # the curves of a split follow each other
    sets = [*([large] if large else []), *counted, *real]
    work = [(d, s, name) for d in sets for s in range(args.splits) for name in CURVES]
    for data, split, name in jobs([job for job in work if job not in done], "curve"):
        part = kept(data, args.data, args.rows if data == large else args.count_rows, split, args.tests)
        batch = args.batch if data == large else len(part.y)
        steps = max(args.epochs * len(part.y) // batch, 1) if data == large else args.count_steps
        numbers = sorted({max(round(steps * share), 1) for share in np.linspace(0.0, 1.0, 13)[1:]})
        way = CURVES[name][2]
        adam = Adam(numbers, batch, args.rate)
        marks += curve(name, part, "log-loss", BETA, start_of(part, args.inducing), adam, sampling=way)[0]
        save(args.out, marks)
    batches = [f"{large}: batches of {args.batch:,}"] if large else []
    batches += ["others: all rows"] if counted or real else []
    splits = splits_of([[mark for mark in marks if mark.data == data] for data in {mark.data for mark in marks}])
    title = (
        f"Test log loss of DLM with β = {BETA:g} by sampled gradients: mean and range of {splits} splits, "
        f"M = {args.inducing}\nAdam with rate {args.rate:g}; {'; '.join(batches)}; "
        "curves that leave a panel end above it"
    )
    picture_of_curves(marks, title).savefig(args.out)
    print(table_of_ends(marks))
    print("\n".join(claims(marks, large)))
    print(args.out)


if __name__ == "__main__":
    main()
