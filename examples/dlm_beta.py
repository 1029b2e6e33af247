"""Which weight β of KL(q‖p) predicts best?  (Fig. 1 c and f of paper 004, Wei et al., direct loss minimisation)

    python examples/dlm_beta.py [--quick] [--splits 5] [--data DIR] [--only NAME ...] [--out FILE.png]

Panel c: the test log loss against β, without validation, of the β-ELBO and of direct loss minimisation (DLM) with the
ELBO's hyperparameters ("fixed") or with its own ("joint"): cal_housing (cadata in the paper) with n = 691 rows, where
the paper reports that β > 1 is best, and with more; concrete beside it.  Exact losses, L-BFGS-B.

Panel f: the test log loss by epochs, of a classifier of many generated ringnorm rows with one lengthscale for each
input, for β = 0.1, 1 and 10 (the paper: airline, which `--large airline` takes from airline.csv.gz, labels 0 and 1).
Adam with mini-batches; "fixed" takes the hyperparameters that the ELBO (β = 1) has at the end, and starts again from
the prior.

The program prints the paper's claim 2, and claim 1 for the large set, with the verdict of its own numbers, and writes
all of them as CSV beside the picture, after every split; `--resume` continues from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dlm_curves import Adam, Mark, curve, first_point
from dlm_losses import FIXED, JOINT, METHODS, fitted, trained
from dlm_setting import (
    LIKELIHOODS,
    OUT,
    PICTURE,
    RESUME,
    TOLERANCE,
    Score,
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
    settings,
    splits_of,
    task,
)
from paired import Tally, paired

from gpbounds import SquaredExponential
from gpbounds.cli import options
from gpbounds.plotting.elements import TEXT, figure, headline

SMALL = 691
"""The paper's number of rows of cadata."""
SIZES = {"cal_housing": [SMALL, 2000], "concrete": [400], "Branin": [60]}
"""Numbers of training rows of panel c."""
SHOWN = ("β-ELBO", FIXED, JOINT)
LARGE_BETAS = (0.1, 1.0, 10.0)
LEAST = 0.01


# Panel c


def grid(n: int, factor: float) -> list[float]:
    """n, n/factor, … down to 0.01, and 1."""
    betas = [n / factor**k for k in range(60)]
    return sorted({1.0, *(beta for beta in betas if beta >= LEAST)}, reverse=True)


def paths(part: Task, betas: Sequence[float], M: int, steps: int, tol: float) -> list[Score]:
    """The scores of all methods for every β; training starts at the hyperparameters and inducing inputs of the ELBO."""
    elbo = fitted(part, "ELBO", M, steps, tol)
    start = {"kernel": elbo.kernel_, "inducing": elbo.inducing_, "noise": elbo.noise_}
    return [trained(part, method, M, steps, tol, beta=beta, **start) for method in SHOWN for beta in betas]


def losses(records: Sequence[Score], setting: tuple[str, int], method: str) -> tuple[np.ndarray, np.ndarray]:
    """β (k,), and the log losses (splits, k)."""
    rows = [r for r in records if (r.data, r.n) == setting and r.method == method]
    betas = sorted({r.beta for r in rows})
    cells = {(r.split, r.beta): r.log_loss for r in rows}
    return np.array(betas), np.array([[cells[s, b] for b in betas] for s in sorted({r.split for r in rows})])


def best_betas(records: Sequence[Score]) -> list[str]:
    """Claim 2: for each setting and method the best β; undecided if its lead over β = 1 is not sure."""
    lines = []
    for setting in settings(records):
        for method in SHOWN:
            betas, table = losses(records, setting, method)
            best = int(np.argmin(table.mean(axis=0)))
            gap = paired(table[:, best], table[:, int(np.flatnonzero(betas == 1.0)[0])])
            expected = betas[best] > 1.0 if setting == ("cal_housing", SMALL) else betas[best] < 1.0
            claim = "β > 1" if setting == ("cal_housing", SMALL) else "β < 1"
            word = "undecided" if not gap.surely_less else "agrees" if expected else "does not agree"
            each = ", ".join(f"{betas[k]:.2g}" for k in sorted(np.argmin(table, axis=1)))
            lines.append(
                f"Claim 2 ({setting[0]}, n = {setting[1]}, {method}: {claim}): {word}; the least mean loss is at β = "
                f"{betas[best]:.2g}, {gap} from that at β = 1; the best β of the splits: {each}."
            )
    return lines


# Panel f


def large(part: Task, M: int, adam: Adam) -> list[Mark]:
    """The learning curves of one split."""
    D = part.X.shape[1]
    start = first_point(part, M, SquaredExponential(1.0, np.full(D, np.sqrt(D))))
    marks, ends = [], {}
    for beta in LARGE_BETAS:
        more, ends[beta] = curve("β-ELBO", part, "elbo", beta, start, adam)
        marks += more + curve(JOINT, part, "log-loss", beta, start, adam)[0]
    elbo = ends[1.0]
    again = first_point(part, M, elbo.kernel)
    for beta in LARGE_BETAS:
        point = type(again)(elbo.kernel, elbo.likelihood, elbo.Z, again.q)
        marks += curve(FIXED, part, "log-loss", beta, point, adam, joint=False)[0]
    return marks


def ends_of(marks: Sequence[Mark], method: str, beta: float, name: str = "log_loss") -> np.ndarray:
    """The score at the end of every split."""
    rows = [m for m in marks if m.method == method and m.beta == beta]
    last = max(m.epoch for m in rows)
    return np.array([getattr(m, name) for m in sorted(rows, key=lambda m: m.split) if m.epoch == last])


def claims_of_the_large_set(marks: Sequence[Mark]) -> list[str]:
    lines = []
    for variant in (FIXED, JOINT):
        for rival, betas in (("β-ELBO", LARGE_BETAS), ("ELBO", (1.0,) * 3)):
            gaps = [
                paired(ends_of(marks, variant, beta), ends_of(marks, "β-ELBO", other))
                for beta, other in zip(LARGE_BETAS, betas, strict=True)
            ]
            each = ", ".join(f"{gap} at β = {beta:g}" for beta, gap in zip(LARGE_BETAS, gaps, strict=True))
            lines.append(
                f"Claim 1 (large set, log loss of {variant} below that of {rival} for β = 0.1, 1, 10): "
                f"{Tally(gaps).word}; {each}."
            )
    return lines


# Picture and tables


def table_of_paths(records: Sequence[Score]) -> str:
    rows = []
    for setting in settings(records):
        for method in SHOWN:
            betas, table = losses(records, setting, method)
            rows += [
                [f"{setting[0]}, n = {setting[1]}", method, f"{b:.3g}", cell(c)]
                for b, c in zip(betas, table.T, strict=True)
            ]
    return markdown(("data", "method", "β", "log loss"), rows)


def table_of_ends(marks: Sequence[Mark]) -> str:
    rows = [
        [method, f"{beta:g}", cell(ends_of(marks, method, beta)), cell(ends_of(marks, method, beta, "error"))]
        for beta in LARGE_BETAS
        for method in SHOWN
    ]
    return markdown(("method", "β", "log loss", "error"), rows)


def picture(records: Sequence[Score], marks: Sequence[Mark], about: str) -> Any:
    shown = settings(records)
    columns = max(len(shown), len(LARGE_BETAS))
    page = figure(4.0 * columns, 8.0)
    headline(page, about)
    spans = page.add_gridspec(2, 1)
    upper = spans[0].subgridspec(1, max(len(shown), 1))
    for k, setting in enumerate(shown):
        ax = page.add_subplot(upper[k])
        for method in SHOWN:
            betas, table = losses(records, setting, method)
            color = METHODS[method][0]
            ax.fill_between(betas, table.min(axis=0), table.max(axis=0), color=color, alpha=0.15, linewidth=0)
            ax.plot(betas, table.mean(axis=0), color=color, marker="o", markersize=3.5, linewidth=1.4, label=method)
        lowest = min(losses(records, setting, method)[1].min() for method in SHOWN)
        one = losses(records, setting, "β-ELBO")
        highest = one[1][:, one[0] >= 1.0].min(axis=1).max()
        ax.set_ylim(lowest - 0.05, max(highest + 0.35, lowest + 0.5))
        ax.set_xscale("log")
        ax.axvline(1.0, color="0.6", linewidth=0.9, linestyle=":")
        plain(ax, f"{setting[0]}, n = {setting[1]}", "β", "test log loss" if k == 0 else "")
    lower = spans[1].subgridspec(1, len(LARGE_BETAS))
    first: Any = None
    for k, beta in enumerate(LARGE_BETAS if marks else ()):
        ax = first = page.add_subplot(lower[k], sharey=first)
        for method in SHOWN:
            draw(ax, [m for m in marks if m.method == method and m.beta == beta], METHODS[method][0], "-", method)
        draw(ax, [m for m in marks if m.method == "β-ELBO" and m.beta == 1.0], "0.3", ":", "ELBO (β = 1)")
        one = marks[0]
        plain(ax, f"{one.data}, N = {one.N:,}, β = {beta:g}", "epochs", "test log loss" if k == 0 else "")
    handles, labels = page.axes[-1].get_legend_handles_labels()
    page.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=TEXT, frameon=False)
    return page


def draw(ax: Any, marks: Sequence[Mark], color: str, style: str, label: str, against: str = "epoch") -> None:
    """The mean of the splits, and their range."""
    splits = sorted({m.split for m in marks})
    table = np.array([[m.log_loss for m in marks if m.split == split] for split in splits])
    at = np.array([[getattr(m, against) for m in marks if m.split == split] for split in splits]).mean(axis=0)
    ax.fill_between(at, table.min(axis=0), table.max(axis=0), color=color, alpha=0.15, linewidth=0)
    ax.plot(at, table.mean(axis=0), color=color, linestyle=style, linewidth=1.6, label=label)


def main(argv: Sequence[str] | None = None) -> None:
    made = parser(__doc__, inducing=30, steps=200, rows=1_000_000, batch=2000, epochs=3)
    made.add_argument(
        "--sizes",
        metavar="N,N,...",
        type=options.wholes,
        help="numbers of training rows of panel c, for all its data (default: cal_housing 691,2000, concrete 400)",
    )
    made.add_argument(
        "--factor", type=options.number, default=2.0, help="ratio of successive β of panel c (default %(default)s)"
    )
    labels = tuple(name for name, likelihood in LIKELIHOODS.items() if likelihood == "probit")
    made.add_argument("--large", choices=labels, default="ringnorm", help="data of panel f (default %(default)s)")
    made.add_argument("--rate", type=options.number, default=0.02, help="learning rate of Adam (default %(default)s)")
    made.add_argument("--resume", action="store_true", help=RESUME)
    made.add_argument("--tol", type=options.number, default=1e-3, help=TOLERANCE)
    made.add_argument("--out", metavar="FILE", type=options.picture_file, default=OUT / "dlm_beta.png", help=PICTURE)
    args = made.parse_args(argv)
    if args.quick:
        args.splits, args.tests, args.inducing, args.steps, args.tol, args.factor = 2, 200, 6, 8, 1e-2, 20.0
        args.rows, args.batch, args.epochs, args.only = 400, 100, 3, args.only or ["Branin"]
    checked(made, args, tuple(SIZES), inducing=1, steps=1, rows=10, batch=1, epochs=1)
    names = present(args.only or ("cal_housing", "concrete"), args.data)
    if not present([args.large], args.data):
        made.exit(2)
    path, curves = args.out.with_suffix(".csv"), args.out.with_stem(f"{args.out.stem}_epochs").with_suffix(".csv")
    records = load(path, Score) if args.resume else []
    done = {(r.data, r.n, r.split) for r in records}
    cases = [(d, n, split) for d in names for n in args.sizes or SIZES[d] for split in range(args.splits)]
    for data, n, split in jobs([case for case in cases if case not in done], "split"):
        part = task(data, args.data, n, split, args.tests)
        records += paths(part, grid(len(part.y), args.factor), args.inducing, args.steps, args.tol)
        save(path, records)
    marks = load(curves, Mark) if args.resume else []
    total = max(args.epochs * args.rows // args.batch, 1)
    numbers = sorted({max(round(total * share), 1) for share in np.linspace(0.0, 1.0, 13)[1:]})
    for split in sorted(set(range(args.splits)) - {mark.split for mark in marks}):
        marks += large(
            task(args.large, args.data, args.rows, split, args.tests),
            args.inducing,
            Adam(numbers, args.batch, args.rate),
        )
        save(curves, marks)
    splits = splits_of([*([r for r in records if (r.data, r.n) == each] for each in settings(records)), marks])
    about = (
        f"Test log loss against β, and by epochs; mean and range of {splits} splits, M = {args.inducing}; curves that "
        "leave a panel end above it\n"
        f"below: {args.rows:,} rows of {args.large}, batches of {args.batch:,}, Adam with rate {args.rate:g}"
    )
    picture(records, marks, about).savefig(args.out)
    print(table_of_paths(records))
    print(table_of_ends(marks))
    print("\n".join([*best_betas(records), *claims_of_the_large_set(marks)]))
    print(args.out)


if __name__ == "__main__":
    main()
