"""``gpbounds demo``: how many inducing points real data need: bounds, and what subsets truly reach."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.cli import hyperparameters, options, output
from gpbounds.cli.data import Data, standardise
from gpbounds.cli.study import Study, picture, smallest_reaching, study

EPILOG = """\
example:
  gpbounds demo --target 0.1 --out bound_vs_empirical.png

  plans for scikit-learn's diabetes data (442 patients, 10 inputs, no download) and draws the divergence of real
  subsets from the exact posterior under the bounds.

theorems: R-thm1 (y from the prior) and R-thm2 (any y), a priori by R-samp, data-aware by R-lem3; N-low from below.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo", help="bounds and truth on real data", description=options.purpose(__doc__), epilog=EPILOG
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=options.picture_file,
        default=Path("bound_vs_empirical.png"),
        help="the picture (default: %(default)s)",
    )
    parser.add_argument("--alpha", metavar="A", type=options.number, default=1.0, help="Renyi order (default 1, KL)")
    parser.add_argument("--target", metavar="T", type=options.number, default=0.1, help="in nats (default %(default)s)")
    parser.add_argument("--draws", metavar="K", type=options.whole, default=5, help="subsets per size (default 5)")
    parser.add_argument("--seed", metavar="S", type=options.whole, default=0, help="of every random choice (default 0)")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fit, plan, try subsets, print, and save the picture."""
    show(diabetes(), args.alpha, args.target, args.draws, args.seed, args.out, as_json=args.json)


def diabetes() -> Data:
    """scikit-learn's diabetes data, standardised."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return standardise("diabetes", X, y)


def show(
    data: Data,
    alpha: float,
    target: float,
    draws: int,
    seed: int,
    out: Path,
    *,
    rows: int = 2000,
    counts: Float | None = None,
    command: str = "demo",
    as_json: bool = False,
) -> Study:
    """The study of ``data``, printed and drawn."""
    validation.count("draws", draws)
    validation.order("alpha", alpha)
    validation.positive("target", target)
    print(f"Fitting hyperparameters to {data.name} ...", file=sys.stderr)
    found = hyperparameters.fit(data, seed=seed)
    done = study(
        data,
        found,
        alpha=alpha,
        target=target,
        rows=rows,
        draws=draws,
        counts=counts,
        seed=seed,
        progress=bar,
    )
    picture(done).savefig(out)
    if as_json:
        output.print_json({"command": command, **record(done), "out": str(out)})
    else:
        print(report(done))
        print(f"\nSaved {out}")
    return done


def bar(jobs: Sequence[Any]) -> Iterable[Any]:
    """A progress bar on stderr."""
    from tqdm import tqdm

    return tqdm(jobs, desc="Subsets", unit="subset", file=sys.stderr)


def _least(M: int | None, N: int) -> str:
    return f"no M < {N}" if M is None else f"M = {M}"


def report(done: Study) -> str:
    """The study in words and two tables."""
    problem, part = done.problem, done.part
    divergence = "KL[q*||p]" if done.alpha == 1.0 else f"D_{done.alpha:g}[q*||p]"
    sure = f"{100 * (1 - problem.statement.delta):g} %"
    rows = []
    for case, plan in done.plans:
        y = "drawn from the prior" if case.y_norm2 is None else f"any, |y|^2 = {case.y_norm2:.6g}"
        rows.append((case.kind, str(plan.N), y, _least(plan.M, plan.N), plan.bound.claim if plan.bound else "-"))
    lines = [output.heading(problem), ""]
    lines += [f"Inducing points that suffice for {divergence} <= {done.target:g} nats, with probability {sure}:"]
    lines += [output.table(("bound", "N", "y", "suffices", "theorem"), rows), *vacuous(done), ""]
    lines += [_needed(done), *reaching(done)]
    lines += [
        "",
        f"{divergence} in nats of subsets of {part.N} rows (median; for random and k-DPP from least to greatest):",
    ]
    lines += [output.table(*_truth(done)), *_meaning(done), ""]
    lines += [output.wrapped(f"Note: {note}") for note in notes(done)]
    return "\n".join(lines)


def vacuous(done: Study) -> list[str]:
    """What is to be said about bounds that do not reach the target: how large they still are at the last M."""
    lines = []
    for case, plan in done.plans:
        if plan.M is None:
            y = "y from the prior" if case.y_norm2 is None else "any y"
            M = case.largest(plan.N)
            last = float(done.problem.rate(case, case.sizes, [M], [done.alpha]))
            lines.append(f"The {case.kind} bound, {y}, is vacuous for this target: {last:.3g} nats even at M = {M}.")
    return lines


def _needed(done: Study) -> str:
    needed = next(plan.needed for _, plan in done.plans if plan.needed is not None)
    return f"On these {done.part.N} rows fewer than {needed} inducing variables cannot do, whatever they are (N-low)."


def reaching(done: Study) -> list[str]:
    """From which M tried on subsets reach the target."""
    truth = done.reached
    return [
        f"Of the sizes tried, {name} subsets reach it from M = {least} on."
        if (least := smallest_reaching(truth.M, worst, done.target))
        else f"Of the sizes tried, none lets {name} subsets reach it."
        for name, worst in (
            ("greedy", truth.greedy[0]),
            ("all k-DPP", truth.kdpp.max(axis=0)),
            ("all random", truth.random.max(axis=0)),
        )
    ]


def _truth(done: Study) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    truth = done.reached
    at = np.searchsorted(done.grid, truth.M)
    lines = {(line.case.kind, line.case.y_norm2 is None): line for line in done.lines if line.form == "sharpest"}

    def spread(draws: Float) -> str:
        draws = draws[~np.isnan(draws)]
        if not draws.size:
            return "-"
        middle = f"{np.median(draws):.2g}"
        return middle if draws.size == 1 else f"{middle} ({draws.min():.2g} to {draws.max():.2g})"

    header = (
        "M",
        "N-low",
        "greedy",
        "k-DPP",
        "random",
        "data-aware, y prior",
        "a priori, y prior",
        "data-aware, any y",
    )
    rows = [
        (
            f"{M:.0f}",
            f"{done.lower[at[j]]:.2g}",
            spread(truth.greedy[:, j]),
            spread(truth.kdpp[:, j]),
            spread(truth.random[:, j]),
            *(
                "-" if np.isnan(lines[key].value[at[j]]) else f"{lines[key].value[at[j]]:.3g}"
                for key in (("data-aware", True), ("a priori", True), ("data-aware", False))
            ),
        )
        for j, M in enumerate(truth.M)
    ]
    return header, rows


def _meaning(done: Study) -> list[str]:
    return ["", *(output.wrapped(sentence) for sentence in done.plans[0][1].meaning)]


def notes(done: Study) -> list[str]:
    """What a reader should know before quoting any of it."""
    said = [note for _, plan in done.plans for note in plan.notes]
    said.append("The bounds are for subsets drawn by a k-DPP; random and greedy subsets are shown beside them.")
    if any(np.isnan(draws).any() for draws in (done.reached.random, done.reached.kdpp, done.reached.greedy)):
        said.append("Where a subset is missing (-), none has that size, or k(Z, Z) is singular in double precision.")
    if done.part.N < done.problem.data.N:  # type: ignore[union-attr]
        said.append(f"The curves, a priori too, are for {done.part.N} rows; the a-priori plan is for all rows.")
    return list(dict.fromkeys(said))


def record(done: Study) -> dict[str, Any]:
    """The study, for JSON."""
    truth = done.reached
    return {
        **output.problem_record(done.problem),
        "rows": done.part.N,
        "alpha": done.alpha,
        "target": done.target,
        "plans": [{"case": case.kind, "y_norm2": case.y_norm2, **plan.to_dict()} for case, plan in done.plans],
        "subsets": {"M": truth.M, "random": truth.random, "k-DPP": truth.kdpp, "greedy": truth.greedy[0]},
        "bounds": {
            "M": done.grid,
            **{line.name: line.value for line in done.lines},
            "N-low": done.lower,
        },
        "notes": notes(done),
    }
