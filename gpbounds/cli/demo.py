"""``gpbounds demo``: compare the bounds with the divergences that subsets of real data reach."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fitting.study import hyperparameters
from fitting.study.standardised import Standardised, standardise
from fitting.study.subsets import Study, fitted_on_held_out, study
from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.cli import options, output
from gpbounds.progress import bar as progress_bar
from gpbounds.progress import on_terminal

EPILOG = """\
example:
  gpbounds demo --nats 0.1 --out bound_vs_empirical.png

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
    parser.add_argument(
        "--nats",
        metavar="T",
        type=options.number,
        default=0.1,
        help="upper limit for the divergence (default %(default)s)",
    )
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
        args.nats,
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

    table = load_diabetes()
    return standardise("diabetes", table.data, table.target, tuple(table.feature_names), "progression")


def show(
    data: Standardised,
    alpha: float,
    nats: float,
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
    validation.repetitions("draws", draws)
    validation.order("alpha", alpha)
    validation.positive("nats", nats)
    print(f"Fitting hyperparameters to {data.name} ...", file=sys.stderr)
    law = None
    if share:
        fitted, law, data = fitted_on_held_out(data, share, seed, options.flag("held_out"))
    else:
        fitted = hyperparameters.fit(data, seed=seed, progress=True)
    result = study(
        data,
        fitted,
        alpha=alpha,
        target=nats,
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
    result.plot().savefig(out)
    if as_json:
        output.print_json({"command": command, **result.to_dict(), "out": str(out)})
    else:
        result.print()
        print(f"\nSaved {out}")
    output.leave(result.reached.interrupted)
    return result


def bar(jobs: Sequence[Any]) -> Iterable[Any]:
    """``jobs`` with a progress bar, on a terminal."""
    return progress_bar("Subsets", len(jobs), "subset", on_terminal(), iterable=jobs)
