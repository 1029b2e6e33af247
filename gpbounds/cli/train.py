"""``gpbounds train``: fit a model to a table, and score it on rows that it has not seen."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from gpbounds.cli import options, output
from gpbounds.texts import wrapped

EPILOG = """\
example:
  gpbounds train FILE.csv --model classifier --likelihood logit --inducing 50 --out model

  holds out a fifth of the rows, trains a Gaussian process on the others, and prints its scores on the rows held out
  beside those of one law for all rows.  It writes model/model.npz, which fitting.load reads, and a figure of the
  predictions and of their calibration, model/predictions.png.

The model predicts from raw rows, in the units of the file.  Every input has its own lengthscale, so that the units of
the columns do not matter; real targets are standardised inside, and kernel and noise are printed in the table's units.

  gpbounds train FILE.csv --inducing auto --nats 1

  adds inducing points, and trains along, until the model is proved to be within 1 nat of the exact GP with its kernel.

  gpbounds train FILE.csv --keep-kernel model/model.npz --inducing 300

  keeps kernel, noise and mean of a model: what an audit or a plan says about M is about them, and training moves them.

--model pac and sparse-pac train by a risk bound.  It holds only for units that were fixed before the data were seen;
here they come from the rows for training.  `gpbounds certify train` issues certificates that hold.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="CSV (.csv.gz) or Parquet (a file or a folder) of raw values; the labels of a classifier may be words",
    )
    parser.add_argument(
        "--model",
        choices=("exact", "sparse", "renyi", "lowrank", "variational", "classifier", "pac", "sparse-pac"),
        default="sparse",
        help="exact GP; sparse: VFE and its relatives; renyi: the Renyi bound; lowrank: features of a kernel; "
        "variational: any likelihood; classifier: two labels; pac, sparse-pac: trained by a risk bound "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--held-out",
        metavar="S",
        type=options.number,
        default=0.2,
        help="share of the rows, drawn at random, on which the model is scored (default %(default)s)",
    )
    parser.add_argument("--seed", metavar="S", type=options.whole, default=0, help="of all random choices (default 0)")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder for model.npz and predictions.png; it is created if missing (default: the current folder)",
    )
    options.add_json(parser)
    options.add_table(parser)
    _add_model(parser.add_argument_group("the model"))
    _add_kept(parser.add_argument_group("kernel and noise that are not trained (exact, sparse, renyi)"))
    _add_features(parser.add_argument_group("features (lowrank)"))
    _add_loss(parser.add_argument_group("likelihood and loss (variational, classifier)"))
    _add_bound(parser.add_argument_group("risk bound (pac, sparse-pac)"))
    _add_training(parser.add_argument_group("training"))
    parser.set_defaults(run=run)


def _add_model(group: Any) -> None:
    group.add_argument(
        "--kernel",
        metavar="NAME",
        type=options.family,
        default="se",
        help="se (default; also rbf), matern12, matern32, matern52, rq, periodic, linear, polynomial:DEGREE, constant, "
        "or a sum such as linear+periodic+se, in which each name adds a kernel of all inputs",
    )
    group.add_argument(
        "--kernel-lengthscale",
        choices=("auto", "ard", "shared"),
        help="ard: one lengthscale (variance of a linear kernel, period) for each input; shared: one for all, in units "
        "of standard deviations; auto (default): ard, and of a classifier the one with the larger evidence",
    )
    group.add_argument(
        "--mean",
        choices=("zero", "constant", "linear"),
        help="prior mean of the standardised target, of labels or of log counts: zero (default), or with coefficients "
        "that are trained",
    )
    group.add_argument(
        "--inducing",
        metavar="M",
        type=_inducing,
        help="number of inducing points, of sparse models (default 100), or auto (sparse, renyi): as many as bring the "
        "model within --nats of the exact one",
    )
    group.add_argument(
        "--nats",
        metavar="T",
        type=options.number,
        help="for --inducing auto: largest divergence from the exact posterior (default 1)",
    )
    group.add_argument(
        "--most",
        metavar="M",
        type=options.whole,
        help="for --inducing auto: largest number of points (default: that of the rows, above 6000 rows 1000)",
    )
    group.add_argument(
        "--method",
        choices=("vfe", "fitc", "dtc", "pep", "pic"),
        help="of sparse (default vfe); of sparse-pac vfe or fitc (default)",
    )
    group.add_argument(
        "--alpha", metavar="A", type=options.number, help="order of --model renyi, in [0, 1] (default 0.5)"
    )
    group.add_argument(
        "--solver",
        choices=("auto", "cholesky", "iterative"),
        help="of exact and renyi: a Cholesky factor, or iterations with an estimate whose standard errors are known "
        "(default auto: iterative above 6000 rows)",
    )
    group.add_argument(
        "--power", metavar="A", type=options.number, help="for --method pep and --objective power or pep"
    )


def _add_kept(group: Any) -> None:
    group.add_argument(
        "--keep-kernel",
        metavar="MODEL",
        type=Path,
        help="kernel, noise and mean of a model that `gpbounds train` wrote (.npz), or of another library (.json)",
    )
    group.add_argument(
        "--variance", metavar="V", type=options.number, help="k(x, x), in squared units of the target, as in plan"
    )
    group.add_argument(
        "--lengthscale",
        metavar="A[,B,...]",
        type=options.numbers,
        help="one, or one for each input, in the units of the columns",
    )
    group.add_argument(
        "--noise", metavar="V", type=options.number, help="noise variance, in squared units of the target"
    )


def _add_features(group: Any) -> None:
    group.add_argument(
        "--features",
        choices=("fourier", "leverage", "mercer", "hilbert"),
        help="fourier (default): cosines and sines of random frequencies; leverage: more of those with a large ridge "
        "leverage; mercer: eigenfunctions under normal inputs; hilbert: sines on a box around the rows.  leverage and "
        "mercer need --kernel se, hilbert se or Matérn",
    )
    group.add_argument("--rank", metavar="R", type=options.whole, help="number of features (default 100)")
    group.add_argument(
        "--dim", metavar="D", type=options.whole, help="dimension of a trained projection of the inputs (default: none)"
    )
    group.add_argument(
        "--order",
        choices=("degree", "best", "grid"),
        help="which eigenfunctions mercer keeps: of the least degrees (default), of the largest eigenvalues, or a grid",
    )


def _add_loss(group: Any) -> None:
    group.add_argument(
        "--likelihood",
        choices=("gaussian", "student-t", "poisson", "poisson-softplus", "probit", "logit"),
        help="variational: gaussian (default), student-t, poisson, poisson-softplus; classifier: probit (default), "
        "logit",
    )
    group.add_argument(
        "--objective",
        choices=("elbo", "log-loss", "square-loss", "power", "pep", "kl", "pinsker"),
        help="elbo (default); log-loss and square-loss: direct loss minimisation; power; pep: power EP.  Of pac and "
        "sparse-pac: kl (default) or pinsker",
    )
    group.add_argument(
        "--beta", metavar="B", type=_beta, help="factor of the KL term, or auto: chosen on a fifth of the rows"
    )
    group.add_argument(
        "--hyperparameters",
        choices=("joint", "fixed"),
        help="joint (default): the objective trains everything; fixed: the ELBO trains the hyperparameters",
    )
    group.add_argument(
        "--gradient", choices=("exact", "bmc", "smooth-bmc", "ups"), help="of the log loss: exact (default) or sampled"
    )
    group.add_argument(
        "--samples", metavar="L", type=options.whole, help="samples of each row, for sampled gradients (default 10)"
    )


def _add_bound(group: Any) -> None:
    group.add_argument(
        "--epsilon", metavar="E", type=options.number, help="tolerated deviation, in standard deviations (default 0.6)"
    )
    group.add_argument("--delta", metavar="P", type=options.number, help="probability of failure (default 0.01)")
    losses = ("band", "squared", "exponential", "relative", "interval")
    group.add_argument("--loss", choices=losses, help="as in gpbounds certify train (default: band)")


def _add_training(group: Any) -> None:
    group.add_argument(
        "--optimizer",
        choices=("lbfgs", "adam", "natgrad"),
        help="natgrad: natural gradients, of variational and classifier (default: lbfgs, with --batch-size adam)",
    )
    group.add_argument("--batch-size", metavar="N", type=options.whole, help="rows of a mini-batch (default: all rows)")
    group.add_argument(
        "--max-iter", metavar="K", type=options.whole, help="largest number of iterations of each run (default 1000)"
    )
    group.add_argument("--learning-rate", metavar="R", type=options.number, help="of adam (default 0.05)")
    group.add_argument(
        "--tol",
        metavar="T",
        type=options.number,
        help="training stops when less is expected to be gained: nats per datum (default 0.01), of a bound (0.001)",
    )
    group.add_argument("--restarts", metavar="K", type=options.whole, help="further random starts (default 0)")
    group.add_argument("--device", choices=("cpu", "cuda", "auto"), help="cuda needs CuPy (default: cpu)")


def _inducing(text: str) -> int | str:
    return text if text == "auto" else options.whole(text)


def _beta(text: str) -> float | str:
    return text if text == "auto" else options.number(text)


OPTIONS = (
    *(
        "kernel_lengthscale",
        "mean",
        "inducing",
        "nats",
        "most",
        "features",
        "rank",
        "dim",
        "order",
        "method",
        "alpha",
        "solver",
        "power",
        "likelihood",
        "objective",
        "beta",
        "hyperparameters",
        "gradient",
    ),
    *("samples", "epsilon", "delta", "loss", "optimizer", "batch_size", "max_iter", "learning_rate", "tol", "restarts"),
    "device",
)
"""Names of the options that become arguments of an estimator."""

NUMBERS = ("variance", "lengthscale", "noise")
"""Names of the options for numbers that are kept."""


def run(args: argparse.Namespace) -> None:
    """Train a model, write it and its figure, and print its scores."""
    from fitting.study.predicted import predicted
    from gpbounds.cli import examples, models
    from gpbounds.likelihoods import Gaussian

    given = {f"--{name.replace('_', '-')}": getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    arguments = models.settings(args.model, given) | {"random_state": args.seed}
    table = examples.read(args, labels=args.model == "classifier")
    train, test = examples.split(table, args.held_out, args.seed)
    held = _kept(args, train)
    files = {"model": args.out / "model.npz", "picture": args.out / "predictions.png"}
    if any(path.exists() and path.samefile(args.file) for path in files.values()):
        raise options.UsageError(f"--out: expected another folder, because the output would overwrite {args.file}")
    print(f"Training on {train.N} of the {table.N} rows of {table.name} ...", file=sys.stderr)
    arguments |= {} if held is None else held.arguments
    estimator = models.fitted(args.model, arguments, train, args.kernel, progress=sys.stderr.isatty())
    own = predicted(estimator, test.X, test.y)
    result = models.Result(
        args.model,
        train,
        test,
        estimator,
        own,
        models.without_inputs(own, estimator, train),
        args.seed,
        held,
    )
    args.out.mkdir(parents=True, exist_ok=True)
    estimator.encoding_ = table.encoding  # with which predict and audit read the same table
    estimator.set_params(progress=False).save(files["model"])
    models.picture(result).savefig(files["picture"])
    interrupted = any(run.status == "interrupted" for run in estimator.runs_)
    if args.json:
        written = {name: str(path) for name, path in files.items()}
        output.print_json({"command": "train", **models.record(result), "files": written})
        output.leave(interrupted)
        return
    print(models.report(result))
    print(f"\nSaved {', '.join(str(path) for path in files.values())}")
    print("\n".join(next_commands(args, files["model"], isinstance(own.likelihood, Gaussian))))
    output.leave(interrupted)


def _kept(args: argparse.Namespace, train: Any) -> Any:
    """What the options keep, or None."""
    from gpbounds.cli import kept, models

    numbers = {name: getattr(args, name) for name in NUMBERS}
    asked = [f"--{name}" for name, value in numbers.items() if value is not None]
    if args.keep_kernel is None and not asked:
        return None
    if args.model not in kept.MODELS:
        option = "--keep-kernel" if args.keep_kernel else asked[0]
        raise options.UsageError(f"{option} is an option of --model {', '.join(kept.MODELS)}, got --model {args.model}")
    if args.keep_kernel is None:
        return kept.of_numbers(args.kernel, **numbers, train=train, points=args.model in models.SPARSE)
    asked += [] if args.mean is None else ["--mean"]
    asked += [] if args.kernel.is_squared_exponential else ["--kernel"]
    if asked:
        raise options.UsageError(f"{', '.join(asked)}: expected not to be given with --keep-kernel, which has its own")
    M = models.USUAL if args.inducing is None else args.inducing
    wanted = M if args.model in models.SPARSE and M != "auto" else None
    return kept.of_model(args.keep_kernel, train, wanted)


AUDITED = ("exact", "sparse", "renyi", "variational")
"""The models that ``gpbounds audit`` takes, if their noise is Gaussian."""


def next_commands(args: argparse.Namespace, path: Path, gaussian: bool) -> list[str]:
    """What to do with the model at ``path``, as commands."""
    file, model = shlex.quote(str(args.file)), shlex.quote(str(path))
    if args.target is not None:
        file += f" --target {shlex.quote(args.target)}"
    lines = ["", "Next:", f"  gpbounds predict {model} NEW_ROWS.csv"]
    if args.model in AUDITED and gaussian:
        lines.append(f"  gpbounds audit {file} --model {model}")
    if args.model in ("sparse", "renyi"):
        lines.append(f"  gpbounds train {file} --keep-kernel {model} --inducing M")
        lines.append(
            wrapped(
                "The audit says whether the inducing points are enough for this kernel and noise, and which M would "
                "do.  Training again with that M moves them, and so the answer: --keep-kernel keeps them, and "
                "--inducing auto trains until M is enough for them."
            )
        )
    return lines
