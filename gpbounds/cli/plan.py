"""``gpbounds plan``: the least rank that meets a level in nats, for inducing points and three other approximations."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from fitting.study.words import describe
from gpbounds.cli import options, output
from gpbounds.texts import wrapped

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 1 --noise 0.1 --nats 0.01

  prints M = 28 inducing points, the bounds at M and M - 1, the meaning of the level, and the cost.

  gpbounds plan --data table.csv.gz --target price

  plans for a table: a priori (simulated); given the rows, for y from the prior; given the rows and y; and after the
  fact, for the inducing points that --select chooses.  The first three hold for the best of ten draws.  --old-forms
  adds the bounds on one draw.  The last line is the number to use, and the command that trains with it.

  gpbounds plan --data table.csv.gz --target price --model model/model.npz

  plans for the kernel and noise of a trained model, as gpbounds audit does.

  gpbounds plan --data table.csv.gz --target price --loss 0.01

  plans for predictions: the least M from which on the log loss at rows held out is within 0.01 nats a row of that of
  the exact GP, whose predictions are between proved ends; what is measured and what is extrapolated is said.

  gpbounds plan -N 1e6 --inputs uniform --method inducing fourier mercer

  compares the ranks that three approximations need: inducing points, random Fourier features (two real features for
  each frequency), terms of a Mercer expansion.

  gpbounds plan --data table.csv.gz --target price --method hilbert --nats 0.1

  prints the numbers of basis functions and the boundary factors with which a Hilbert-space GP (HSGP in PyMC, Stan,
  NumPyro, brms) is within 0.1 nats of the exact GP.

  gpbounds plan -N 1e6 --noise 0.1 --relative 0.05

  prints M = 26 inducing points, with which means at the training inputs are within 5 % of the residual of the exact GP,
  for every y.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`; with --data N-given or N-tilt-given
(given y), N-prior or N-tilt-prior (y from the prior), N-sim (a priori), and in the old forms R-lem3 (exact
expectation over a k-DPP given the rows); R-lem4 (the gap of one data set, which holds with certainty); lower bounds:
N-low and N-lowprior.  --loss and --relative with --data: N-solve (the exact GP between proved ends), N-op and N-op-low
(training inputs); --relative with -N: N-op-draw and N-op-pop.  fourier: N-rff and N-shell instead of Theorem 2 of
Daskalakis et al.  mercer: L-42, a sharper form of Theorem 3, and with --data L-54, which holds with certainty.
hilbert: N-hilbert-kl, for any inputs in a box.  For these three, the column `needed` is the lower bound L-10.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("-N", "--N", dest="size", metavar="N", type=options.whole, help="number of data: 1e6, 40_000")
    parser.add_argument(
        "--nats",
        metavar="T",
        type=options.number,
        help="upper limit for the divergence: D_alpha for inducing points, KL for the others (default 1)",
    )
    _add_predictions(parser)
    group = parser.add_argument_group("the approximation")
    group.add_argument(
        "--method",
        nargs="+",
        choices=("inducing", "fourier", "mercer", "hilbert"),
        default=["inducing"],
        help="one or several approximations to compare: inducing points (default), random Fourier features, "
        "terms of a Mercer expansion, basis functions of a Hilbert-space GP",
    )
    group.add_argument(
        "--width",
        metavar="W[,W,...]",
        type=options.numbers,
        help="range of the inputs in the units of x, one number or one for each dimension: fourier and hilbert need "
        "it with gaussian inputs (default: the range of uniform inputs, or of the rows of --data)",
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=False)
    group = options.add_data(parser)
    group.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        help="plan for the kernel, noise and mean of a trained model, on its own training rows: a file of `gpbounds "
        "train` (.npz), or of another library (.json)",
    )
    group.add_argument(
        "--refits",
        metavar="K",
        type=options.whole,
        default=3,
        help="fits of kernel and noise to other rows, whose least and greatest M are printed (default %(default)s)",
    )
    options.add_best(parser)
    options.add_select(parser, None, "1000; with --loss or --relative 5000")
    options.add_json(parser)
    parser.set_defaults(run=run)


def _add_predictions(parser: argparse.ArgumentParser) -> None:
    """The levels of predictions."""
    group = parser.add_argument_group("predictions in place of --nats")
    group.add_argument(
        "--loss",
        metavar="T",
        type=options.number,
        help="the log loss at new rows is to be at most T nats a row above that of the exact GP, measured on a fifth "
        "of the rows of --data, at most 2000, which are held out",
    )
    group.add_argument(
        "--relative",
        metavar="R",
        type=options.number,
        help="the root mean square difference of the predicted means from those of the exact GP is to be at most R "
        "times its root mean square residual: with --data measured on the rows held out, with -N proved for training "
        "inputs to come and every y",
    )


def run(args: argparse.Namespace) -> None:
    """Print the plan for every case; if no M meets the target, the command says so and exits with status 0."""
    from fitting.study.planning import planned

    if args.loss is not None or args.relative is not None:
        args.simulate = args.simulate or 0
    args.sizes = None if args.size is None else [args.size]
    if args.relative is not None and args.data is None:
        _plan_for_means(args)
        return
    wanted = options.aims(args, args.alpha)
    if args.model is not None and args.data is None:
        raise options.UsageError("--model: expected --data FILE, the table with the rows of the model, too")
    problem = options.problem(args, None if args.model is None else _model(args.model))
    wanted.check(options.flag)
    answer = planned(problem, wanted)
    if args.json:
        output.print_json(answer.to_dict())
    else:
        answer.print()
    output.leave(answer.interrupted)


def _plan_for_means(args: argparse.Namespace) -> None:
    """Print the least M whose λ_max(K − Q)/σ² is at most ``--relative``, for the worst of the kernels."""
    from gpbounds import inducing_points

    passed = {
        "--model": args.model is not None,
        "--loss": args.loss is not None,
        "--method": args.method != ["inducing"],
        "--alpha": args.alpha != 1.0,
        "--nats": args.nats is not None,
        "--y-norm2": args.y_norm2 is not None,
        "--form": args.form != "sharpest",
        "--direction": args.direction != "q||p",
    }
    if wrong := [flag for flag, given in passed.items() if given]:
        raise options.UsageError(
            f"{', '.join(wrong)}: expected -N, a kernel, a law of inputs and --relative alone, or a table with --data"
        )
    target = args.relative
    if not target > 0.0:
        raise options.UsageError(f"--relative: expected a number > 0, got {target:g}")
    problem = options.problem(args)
    (case,), stated = problem.cases, problem.settings
    shared: dict[str, Any] = {"noise": stated.noise, "delta": stated.delta, "tv": stated.tv, "rigor": case.rigor}
    plans = [
        inducing_points(kernel, args.size, criterion="operator", target=target, inputs=case.inputs, **shared)
        for kernel in problem.kernels
    ]
    plan = max(plans, key=lambda each: math.inf if each.M is None else each.M)
    if args.json:
        output.print_json({"command": "plan", **problem.record(), "plans": [plan.to_dict()], "notes": problem.notes})
        return
    title = f"{case.kind[0].upper()}{case.kind[1:]}: {describe(case.inputs)}; any y"
    print(f"{problem.heading()}\n\n{title}\n{wrapped(str(plan), '  ')}")
    for note in problem.notes:
        print(wrapped(f"Note: {note}"))


def _model(path: Path) -> Any:
    """The model in a file .npz of this package, or .json of another library."""
    from gpbounds.cli import models
    from gpbounds.renyi import Model

    if path.suffix not in (".npz", ".json"):
        raise options.UsageError(f"--model: expected a file .npz or .json, got {path}")
    return Model.load(path) if path.suffix == ".json" else models.saved(path)
