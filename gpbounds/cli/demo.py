"""``gpbounds demo``: compare the bounds with the divergences that subsets of real data reach."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study import hyperparameters
from fitting.study.afterwards import Floors, sentence
from fitting.study.problem import Case, fitted_law
from fitting.study.standardised import Standardised, standardise
from fitting.study.subsets import Study, picture, smallest_reaching, study
from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.cli import options, output
from gpbounds.inputs import Gaussian
from gpbounds.texts import table, wrapped

EPILOG = """\
example:
  gpbounds demo --target 0.1 --out bound_vs_empirical.png

  plans for scikit-learn's diabetes data (442 patients, 10 inputs, no download), and plots the divergence of subsets
  from the exact posterior together with the bounds.  A third of the rows determine kernel, noise and input law; the
  bounds and the subsets use the other rows, so kernel, noise and input law are fixed in advance, as the theorems
  assume.

theorems: N-sim (a priori), N-tilt-prior (data-aware, y from the prior) and N-tilt-given (given y) for the best of
several draws; N-low and N-lowprior are lower bounds.  --old-forms adds R-thm1 and R-thm2 for one draw, a priori by
R-samp, data-aware by R-lem3.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=options.picture_file,
        default=Path("bound_vs_empirical.png"),
        help="file for the figure (default: %(default)s)",
    )
    parser.add_argument("--alpha", metavar="A", type=options.number, default=1.0, help="Renyi order (default 1, KL)")
    parser.add_argument("--target", metavar="T", type=options.number, default=0.1, help="in nats (default %(default)s)")
    parser.add_argument(
        "--held-out",
        metavar="S",
        type=options.number,
        default=1.0 / 3.0,
        help="share of the rows that determine kernel, noise and input law, and nothing else; 0 fits to all rows "
        "(default 1/3)",
    )
    parser.add_argument("--draws", metavar="K", type=options.whole, default=5, help="subsets per size (default 5)")
    parser.add_argument(
        "--seed", metavar="S", type=options.whole, default=0, help="seed of all random choices (default 0)"
    )
    options.add_best(parser, condition="")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fit, plan, evaluate subsets, print the results, and save the figure."""
    show(
        diabetes(),
        args.alpha,
        args.target,
        args.draws,
        args.seed,
        args.out,
        as_json=args.json,
        share=args.held_out,
        best=args.best,
        simulate=args.simulate,
        old_forms=args.old_forms,
    )


def diabetes() -> Standardised:
    """scikit-learn's diabetes data, standardised."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return standardise("diabetes", X, y)


def show(
    data: Standardised,
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
    share: float = 0.0,
    best: int = 10,
    simulate: int | None = None,
    old_forms: bool = False,
) -> Study:
    """Run the study of ``data``, print it and plot it; a ``share`` of the rows is held out for the hyperparameters.

    After Ctrl-C among the subsets the bounds and the subsets that were evaluated are shown; then the program ends.
    """
    validation.count("draws", draws)
    validation.order("alpha", alpha)
    validation.positive("target", target)
    print(f"Fitting hyperparameters to {data.name} ...", file=sys.stderr)
    law = None
    if share:
        fitted, law, data = fitted_on_held_out(data, share, seed)
    else:
        fitted = hyperparameters.fit(data, seed=seed, progress=True)
    result = study(
        data,
        fitted,
        alpha=alpha,
        target=target,
        rows=rows,
        draws=draws,
        counts=counts,
        seed=seed,
        progress=bar,
        best=best,
        simulate=simulate,
        old_forms=old_forms,
        law=law,
    )
    picture(result).savefig(out)
    if as_json:
        output.print_json({"command": command, **record(result), "out": str(out)})
    else:
        print(report(result))
        print(f"\nSaved {out}")
    output.leave(result.reached.interrupted)
    return result


def fitted_on_held_out(
    data: Standardised, share: float, seed: int
) -> tuple[hyperparameters.Hyperparameters, Gaussian, Standardised]:
    """(hyperparameters and law of the inputs from a random ``share`` of the rows, the others standardised by those).

    Neither kernel and noise nor the law nor the standardisation depend on the other rows.
    """
    count = round(validation.scalar(validation.open_unit, "--held-out", share) * data.N)
    if not 2 <= count <= data.N - 2:
        raise ValueError(f"--held-out: expected a share that leaves at least 2 rows in each part, got {share:g}")
    order = np.random.default_rng(seed).permutation(data.N)
    first, rest = np.sort(order[:count]), np.sort(order[count:])
    held = standardise(data.name, data.X[first], data.y[first])
    if held.D < data.D:
        raise ValueError("--held-out: an input is constant on the rows held out; hold out more of them")
    centre, spread = data.X[first].mean(axis=0), data.X[first].std(axis=0)
    middle, scale = data.y[first].mean(), data.y[first].std()
    note = f"Standardised by {count} rows held out, which take no part in the rest."
    others = Standardised(data.name, (data.X[rest] - centre) / spread, (data.y[rest] - middle) / scale, (note,))
    fitted = hyperparameters.fit(held, seed=seed, progress=True)
    origin = fitted.origin.replace(f"{held.N} rows", f"{held.N} held-out rows")
    return replace(fitted, fitted=(), origin=origin), fitted_law(held), others


def bar(jobs: Sequence[Any]) -> Iterable[Any]:
    """A progress bar on stderr."""
    from tqdm import tqdm

    return tqdm(jobs, desc="Subsets", unit="subset", file=sys.stderr)


def _least(M: int | None, N: int) -> str:
    return f"no M < {N}" if M is None else f"M = {M}"


def report(result: Study) -> str:
    """The study as text with two tables."""
    problem, part = result.problem, result.part
    divergence = "KL[q*||p]" if result.alpha == 1.0 else f"D_{result.alpha:g}[q*||p]"
    sure = f"{100 * (1 - problem.settings.delta):g} %"
    rows = []
    for case, plan in result.plans:
        y = f"any, |y|^2 = {case.y_norm2:.6g}" if case.about == "any y" else case.about.removeprefix("y ")
        points = "one k-DPP draw" if case.draws is None else f"best of {case.draws}"
        claim = plan.bound.claim if plan.bound else "-"
        rows.append((case.kind, str(plan.N), points, y, _least(plan.M, plan.N), claim))
    lines = [problem.heading(), ""]
    lines += [f"Inducing points that suffice for {divergence} <= {result.target:g} nats, with probability {sure}:"]
    lines += [table(("bound", "N", "points", "y", "suffices", "theorem"), rows), *vacuous(result), ""]
    lines += [_needed(result), *reaching(result)]
    lines += [
        "",
        f"{divergence} in nats of subsets of {part.N} rows (median; for several of a kind from least to greatest):",
    ]
    lines += [table(*_truth(result)), *_meaning(result), ""]
    lines += [wrapped(f"Note: {note}") for note in notes(result)]
    return "\n".join(lines)


def vacuous(result: Study) -> list[str]:
    """A sentence for each bound that does not reach the target, with its value at the last M."""
    lines = []
    for case, plan in result.plans:
        if plan.M is None:
            y = case.about
            M = case.largest(plan.N)
            last = float(result.problem.rate(case, case.sizes, [M], [result.alpha]))
            lines.append(f"The {case.kind} bound, {y}, is vacuous for this target: {last:.3g} nats even at M = {M}.")
    return lines


def _needed(result: Study) -> str:
    problem = result.problem
    floors = Floors.of(problem.kernels[0], result.part.X, problem.settings.noise, result.alpha)
    return wrapped(sentence(floors.record(result.target)))


def reaching(result: Study) -> list[str]:
    """For each kind of subset, the M tried from which on all of them reach the target."""
    reached = result.reached
    return [
        f"Of the sizes tried, {name} subsets reach it from M = {least} on."
        if (least := smallest_reaching(reached.M, worst, result.target))
        else f"Of the sizes tried, none suffices for {name} subsets to reach it."
        for name, worst in (
            ("greedy", reached.greedy[0]),
            *([(f"all best-of-{result.best}", reached.best.max(axis=0))] if result.best else []),
            ("all k-DPP", reached.kdpp.max(axis=0)),
            ("all random", reached.random.max(axis=0)),
        )
    ]


def _truth(result: Study) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    reached = result.reached
    at = np.searchsorted(result.grid, reached.M)

    def spread(draws: Float) -> str:
        draws = draws[~np.isnan(draws)]
        if not draws.size:
            return "-"
        middle = f"{np.median(draws):.2g}"
        return middle if draws.size == 1 else f"{middle} ({draws.min():.2g} to {draws.max():.2g})"

    lines = [line for line in result.lines if line.form == "sharpest"]
    header = ("M", "N-low", "N-lowprior", "greedy", *([f"best of {result.best}"] if result.best else []), "random")
    if any(line.case.draws is None for line in lines):
        header += ("k-DPP",)
    header += tuple(_heading(line.case) for line in lines)
    kinds = [reached.greedy, *([reached.best] if result.best else []), reached.random]
    if "k-DPP" in header:
        kinds.append(reached.kdpp)
    rows = [
        (
            f"{M:.0f}",
            f"{result.lower[at[j]]:.2g}",
            f"{result.lower_prior[at[j]]:.2g}",
            *(spread(draws[:, j]) for draws in kinds),
            *("-" if np.isnan(line.value[at[j]]) else f"{line.value[at[j]]:.3g}" for line in lines),
        )
        for j, M in enumerate(reached.M)
    ]
    return header, rows


def _heading(case: Case) -> str:
    """The heading of a column of bounds."""
    if case.y is not None:
        return "given y"
    return f"{case.kind}, {case.about}{', one draw' if case.draws is None else ''}"


def _meaning(result: Study) -> list[str]:
    return ["", *(wrapped(sentence) for sentence in result.plans[0][1].meaning)]


def notes(result: Study) -> list[str]:
    """Notes on the validity of the results."""
    sentences = [note for _, plan in result.plans for note in plan.notes]
    sentences.append(
        "The bounds hold for subsets drawn by a k-DPP, not for the random and greedy subsets shown with them."
        if not result.best
        else f"The bounds hold for the best of {result.best} draws of the tilted k-DPP, P(Z) ∝ |(K² + σ²K)_ZZ|, and "
        "for any choice with a greater ELBO; random and greedy subsets are shown with them."
    )
    if any(line.case.simulate for line in result.lines):
        sentences.append(
            "A curve holds at each M by itself; choosing M on a simulated curve is selection, plans allow for it."
        )
    if result.reached.interrupted:
        sentences.append("Interrupted: a missing entry (-) is a subset that was not evaluated.")
    elif any(np.isnan(draws).any() for draws in (result.reached.random, result.reached.kdpp, result.reached.greedy)):
        sentences.append("A missing entry (-): no subset has that size, or k(Z, Z) is singular in double precision.")
    if result.part.N < result.problem.data.N:  # type: ignore[union-attr]
        sentences.append(
            f"All curves, including a priori, are for {result.part.N} rows; the a-priori plan is for all rows."
            if any(case.kind == "a priori" for case, _ in result.plans)
            else f"All curves, including a priori, are for {result.part.N} rows."
        )
    return list(dict.fromkeys(sentences))


def record(done: Study) -> dict[str, Any]:
    """The study, ready for JSON."""
    reached = done.reached
    return {
        **done.problem.record(),
        "rows": done.part.N,
        "alpha": done.alpha,
        "target": done.target,
        "plans": [{"case": case.kind, "y_norm2": case.y_norm2, **plan.to_dict()} for case, plan in done.plans],
        "subsets": {"M": reached.M, "random": reached.random, "k-DPP": reached.kdpp, "greedy": reached.greedy[0]}
        | ({f"best of {done.best}": reached.best} if done.best else {}),
        "bounds": {
            "M": done.grid,
            **{line.name: line.value for line in done.lines},
            "N-low": done.lower,
            "N-lowprior": done.lower_prior,
        },
        "notes": notes(done),
    }
