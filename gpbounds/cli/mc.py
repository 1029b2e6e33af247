"""``gpbounds mc``: the bias of averaging L samples inside a logarithm, and the samples that a step needs."""

from __future__ import annotations

import argparse
import math
from typing import Any, Literal

import numpy as np

from gpbounds.cli import options, output
from gpbounds.texts import table

EPILOG = """\
example:
  gpbounds mc --likelihood poisson --y 3 --m 0.5 --v 1 --step 1/t -n 1000

  prints three results: the bias of -log(mean of L samples of p(y|f)), f ~ N(0.5, 1), for L = 1 (the term of the ELBO)
  to 10000; the number of samples L(t) with which gradient descent on biased Monte Carlo converges; and the cost of an
  exact draw from q(f)p(y|f).

theorem: Wei et al., Lemma 6 and Corollary 5, with the exact bias: D-21, D-22, D-42, D-50, N-cher, D-14 of `gpbounds
claims`.
"""
_LINKS = {"bernoulli": ("probit", "logit"), "poisson": ("exp", "softplus")}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--likelihood", choices=("gaussian", "bernoulli", "poisson", "student_t"), required=True)
    parser.add_argument(
        "--link", metavar="NAME", help="bernoulli: probit (default), logit; poisson: exp (default), softplus"
    )
    parser.add_argument("--noise", metavar="V", type=options.number, help="noise variance of gaussian (default 0.1)")
    parser.add_argument("--df", metavar="NU", type=options.number, help="degrees of freedom of student_t (default 4)")
    parser.add_argument("--scale", metavar="S", type=options.number, help="scale of student_t (default 1)")
    parser.add_argument(
        "--y", metavar="Y", type=options.number, required=True, help="target: a count, a label, a number"
    )
    parser.add_argument("--m", metavar="M", type=options.number, required=True, help="mean of f")
    parser.add_argument("--v", metavar="V", type=options.number, required=True, help="variance of f")
    parser.add_argument(
        "--samples",
        metavar="L[,L,...]",
        type=options.wholes,
        default=[1, 2, 5, 10, 100, 1000, 10_000],
        help="numbers of samples (default 1,2,5,10,100,1000,10000)",
    )
    group = parser.add_argument_group("number of samples per step")
    group.add_argument("-n", "--n", dest="n", metavar="n", type=options.whole, default=1000, help="data (default 1000)")
    group.add_argument(
        "--delta", metavar="P", type=options.number, default=0.05, help="probability of failure (default %(default)s)"
    )
    group.add_argument(
        "--step", metavar="C/t", type=schedule, default=(1.0, 1.0), help="C/t (default 1/t), C/t^A, or a number"
    )
    group.add_argument(
        "--iterations",
        metavar="T[,T,...]",
        type=options.wholes,
        default=[1, 10, 100, 1000],
        help="iterations t (default 1,10,100,1000)",
    )
    group.add_argument("--zeta", metavar="Z", type=options.number, help="lower bound on E p(y|f) (default: E p itself)")
    options.add_rigor(group)
    options.add_json(parser)
    parser.set_defaults(run=run)


def schedule(text: str) -> tuple[float, float]:
    """``0.1`` as (0.1, 0), ``C/t`` as (C, 1), ``C/t^A`` as (C, A)."""
    head, slash, tail = text.replace(" ", "").partition("/")
    constant = options.number(head)
    if not slash:
        return constant, 0.0
    if tail == "t":
        return constant, 1.0
    if tail.startswith("t^"):
        return constant, options.number(tail[2:])
    raise argparse.ArgumentTypeError(f"expected a number, C/t or C/t^A, got {text!r}")


def _likelihood_of(args: argparse.Namespace) -> Any:
    """The likelihood that the options describe; options of another likelihood are an error."""
    from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT

    name = args.likelihood
    if args.link is not None and name not in _LINKS:
        raise options.UsageError(f"--link belongs to bernoulli and poisson, not to {name}")
    if args.noise is not None and name != "gaussian":
        raise options.UsageError(f"--noise belongs to gaussian, not to {name}")
    if (args.df is not None or args.scale is not None) and name != "student_t":
        raise options.UsageError(f"--df and --scale belong to student_t, not to {name}")
    if name == "gaussian":
        return Gaussian(0.1 if args.noise is None else args.noise)
    if name == "student_t":
        return StudentT(4.0 if args.df is None else args.df, 1.0 if args.scale is None else args.scale)
    return {"bernoulli": Bernoulli, "poisson": Poisson}[name](args.link or _LINKS[name][0])


def run(args: argparse.Namespace) -> None:
    """Print the tables, or a JSON record of them."""
    from gpbounds.montecarlo import bias, cover, expected_gradients, expected_objective, sample_size

    likelihood = _likelihood_of(args)
    arguments = (likelihood, args.y, args.m, args.v)
    L = np.array(args.samples, dtype=np.float64)
    biases, objectives = bias(*arguments, L), expected_objective(*arguments, L)
    limit = float(expected_objective(*arguments, math.inf))
    gradients = expected_gradients(*arguments, L) if args.v > 0.0 else None
    constant, power = args.step
    t = np.array(args.iterations, dtype=np.float64)
    settings: dict[str, Any] = {"n": args.n, "delta": args.delta, "iteration": t, "m": args.m, "v": args.v}
    settings |= {"step": lambda t: constant / t**power, "zeta": args.zeta}
    rules: tuple[Literal["printed", "improved", "chernoff"], ...] = ("printed", "improved", "chernoff")
    rigor = {rule: "float" if rule == "printed" else args.rigor for rule in rules}
    sizes = {rule: sample_size(likelihood, args.y, rule=rule, rigor=rigor[rule], **settings) for rule in rules}
    exact = cover(*arguments) if args.v > 0.0 else None
    if args.json:
        output.print_json(
            {
                "command": "mc",
                "likelihood": likelihood.to_dict(),
                "y": args.y,
                "m": args.m,
                "v": args.v,
                "dlm": limit,
                "samples": args.samples,
                "objective": objectives,
                "bias": biases,
                "gradients": gradients and {**vars(gradients), "curvature_form": gradients.curvature},
                "iterations": args.iterations,
                "sizes": {rule: size.to_dict() for rule, size in sizes.items()},
                "product_sampling": exact and {"acceptance": exact.acceptance, "n": exact.n, "shift": exact.shift},
                "claims": ["D-21", "D-22", "D-24", "D-42", "D-50", "N-cher", "D-14"],
            }
        )
        return
    print(f"-log E p(y|f) = {limit:.6g} for y = {args.y:g}, f ~ N({args.m:g}, {args.v:g}), {likelihood}.\n")
    print("Mean of -log(average of p over L samples); L = 1 is the term of the ELBO (D-21, D-22):")
    rows: list[tuple[str, ...]] = []
    for k, value, b in zip(args.samples, objectives, biases, strict=True):
        share = f"{100 * b / abs(limit):.2g} %" if limit else ""
        rows.append((f"{k:,}", f"{value:.6f}", f"{b:.3g}", share))
    print(table(("L", "E[-log mean]", "bias", "of -log E p"), rows))
    if gradients is not None and np.any(gradients.wrong_sign):
        wrong = ", ".join(f"{k:,}" for k, w in zip(args.samples, gradients.wrong_sign, strict=True) if w)
        print(f"Warning: at L = {wrong} the φ''-form of the gradient has the wrong sign; use Σφ'ε/Σφ instead (D-24).")
    print(f"\n{_sizes_text(args, [sizes[rule] for rule in rules])}")
    if exact is not None:
        cost = 1.0 / float(exact.acceptance)
        print(f"\nA draw from q(f)p(y|f) takes {cost:.3g} proposals on average; its gradient is unbiased (D-10, D-14).")


def _sizes_text(args: argparse.Namespace, sizes: list[Any]) -> str:
    """The numbers of samples by the printed, the improved and the Chernoff rule, as a table."""
    rows = []
    for i, k in enumerate(args.iterations):
        needed = [np.atleast_1d(size.L)[i] for size in sizes]
        counts = (*needed, needed[-1] * args.n)
        rows.append((f"{k:,}", *(f"{x:,.0f}" if x < 1e12 else f"{x:.3g}" for x in counts)))
    lines = [
        f"Samples for each of n = {args.n:,} data at step t, step size {_step_text(*args.step)}, all steps valid with "
        f"probability {1 - args.delta:g}:",
        table(("t", "printed (D-42)", "improved (D-50)", "Chernoff (N-cher)", "evaluations of p"), rows),
        *(f"  {note}" for note in sizes[-1].notes),
    ]
    return "\n".join(lines)


def _step_text(constant: float, power: float) -> str:
    """The step size as the option spells it."""
    return f"{constant:g}" + ("" if power == 0 else "/t" if power == 1 else f"/t^{power:g}")
