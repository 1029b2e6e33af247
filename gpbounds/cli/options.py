"""Options that several commands share, and the parsing of numbers, kernels and input laws."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fitting.study.steps import WrongArguments

if TYPE_CHECKING:
    from fitting.study.problem import Problem, Question
    from fitting.study.ranks import Aims
    from gpbounds.inputs import InputLaw
    from gpbounds.kernels.families import Family

LONGEST = 1_000_000
"""Largest number of values in a list or range."""


class UsageError(WrongArguments):
    """Wrong command-line arguments; the message is one sentence."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of printing its usage and exiting."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


class Command(Parser):
    """The parser of a command, whose module is imported when the command is asked for: it adds the arguments.

    The module has a docstring, whose first line describes the command after its name, a function ``add`` that takes
    this parser, and an ``EPILOG``, which may be None.
    """

    def __init__(self, *, module: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._module: str | None = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Let the module add its arguments, and parse; `argparse` calls this where the command has been named."""
        if self._module is not None:
            module, self._module = importlib.import_module(self._module), None
            self.description, self.epilog = purpose(module.__doc__), module.EPILOG
            module.add(self)
        return super().parse_known_args(args, namespace)


def purpose(doc: str | None) -> str:
    """The description of a command: the text after its name in the first line of its module."""
    if doc is None:  # python -OO leaves docstrings out
        return ""
    text = doc.strip().split(": ", 1)[1]
    return text[0].upper() + text[1:]


def number(text: str) -> float:
    """One number: 0.1, 1e6, 40_000."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def whole(text: str) -> int:
    """One whole number: 40000, 40_000 or 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer() or abs(value) >= 2.0**53:
        raise argparse.ArgumentTypeError(f"expected a whole number such as 40000, 40_000 or 1e6, got {text!r}")
    return int(value)


def numbers(text: str) -> list[float]:
    """Numbers separated by commas."""
    return [number(part) for part in text.split(",")]


def wholes(text: str) -> list[int]:
    """Whole numbers and ranges A:B or A:B:STEP (including B), separated by commas."""
    values: list[int] = []
    for part in text.split(","):
        ends = part.split(":")
        if len(ends) > 3:
            raise argparse.ArgumentTypeError(f"expected A, A:B or A:B:STEP, got {part!r}")
        try:
            first, *rest = [whole(end) for end in ends]
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f"expected whole numbers as A, A:B or A:B:STEP separated by commas, got {part!r}"
            ) from None
        last, step = (rest + [first, 1][len(rest) :]) if rest else (first, 1)
        if step < 1 or last < first:
            raise argparse.ArgumentTypeError(f"expected a range A:B:STEP with A <= B and STEP >= 1, got {part!r}")
        if len(values) + (last - first) // step >= LONGEST:
            raise argparse.ArgumentTypeError(f"expected at most {LONGEST} numbers, got more in {part!r}; add a STEP")
        values += range(first, last + 1, step)
    return values


def interval(text: str) -> tuple[float, float]:
    """A range A:B of positive numbers."""
    ends = text.split(":")
    if len(ends) != 2:
        raise argparse.ArgumentTypeError(f"expected a range A:B such as 0.5:2, got {text!r}")
    low, high = number(ends[0]), number(ends[1])
    if not (0.0 < low <= high < math.inf):
        raise argparse.ArgumentTypeError(f"expected a range A:B with 0 < A <= B, got {text!r}")
    return low, high


def _kernel_family(text: str) -> float:
    """The smoothness ν of a named kernel; infinity for the squared exponential."""
    from gpbounds.kernels.plain import smoothness

    try:
        return smoothness(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("kernel: ")) from None


def family(text: str) -> Family:
    """The kernel that ``text`` names, for argparse."""
    from gpbounds.kernels.families import family as named

    try:
        return named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("kernel: ")) from None


def picture_file(text: str) -> Path:
    """A path for a figure, in an existing folder."""
    path = Path(text)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"expected a name that ends in .png, .pdf or .svg, got {text!r}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return path


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """``--kernel``, ``--variance``, ``--lengthscale``, ``--noise`` and ``--lengthscale-range``."""
    group = parser.add_argument_group(
        "kernel (fixed in advance; with --data, the command fits every option that you omit, in the units of the table)"
    )
    group.add_argument(
        "--kernel",
        metavar="NAME",
        type=_kernel_family,
        default=math.inf,
        help="se (default), matern12, matern32, matern52 or matern:NU",
    )
    group.add_argument("--variance", metavar="V", type=number, help="k(x, x), in squared units of y (default 1)")
    group.add_argument(
        "--lengthscale",
        metavar="A[,B,...]",
        type=numbers,
        help="one lengthscale for all inputs, or one for each, in the units of x (default 1)",
    )
    group.add_argument("--noise", metavar="V", type=number, help="noise variance, in squared units of y (default 0.1)")
    group.add_argument(
        "--lengthscale-range",
        metavar="A:B",
        type=interval,
        help="worst case over all lengthscales in [A, B]; replaces --lengthscale",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """``--inputs`` and its parameters."""
    group = parser.add_argument_group("law of the inputs")
    group.add_argument("--inputs", choices=("gaussian", "uniform"), help="default: gaussian")
    group.add_argument("--std", metavar="A[,B,...]", type=numbers, help="standard deviation(s) of gaussian (default 1)")
    group.add_argument("--low", metavar="A[,B,...]", type=numbers, help="lower end(s) of uniform (default 0)")
    group.add_argument(
        "--high",
        metavar="A[,B,...]",
        type=numbers,
        help="upper end(s) of uniform (default 1); write --low=-1,-2 if a list starts with a minus",
    )
    group.add_argument(
        "--dim",
        metavar="D",
        type=whole,
        help="number of input dimensions (default: the length of the longest list, or 1)",
    )


def add_setting(parser: argparse.ArgumentParser, *, several: bool) -> None:
    """``--alpha``, ``--delta``, ``--y-norm2``, ``--tv``, ``--form``, ``--direction``."""
    group = parser.add_argument_group("the statement")
    group.add_argument(
        "--alpha",
        metavar="A[,B,...]" if several else "A",
        type=numbers if several else number,
        default=[1.0] if several else 1.0,
        help="Renyi order in (0, 1]; 1 (default) is the Kullback-Leibler divergence",
    )
    group.add_argument(
        "--delta", metavar="P", type=number, default=0.05, help="probability of failure (default %(default)s)"
    )
    group.add_argument(
        "--y-norm2",
        metavar="S|prior",
        help="squared norm of y: the bound holds for every y with this norm (R-thm2); prior: y is drawn from the prior "
        "(R-thm1). Default: prior; with --data the squared norm of the target less its mean",
    )
    group.add_argument(
        "--tv",
        metavar="T",
        type=number,
        default=0.0,
        help="total variation between the law of Z and the k-DPP (default 0)",
    )
    group.add_argument("--form", choices=("sharpest", "printed"), default="sharpest", help="default: sharpest")
    group.add_argument(
        "--direction",
        choices=("q||p", "p||q"),
        default="q||p",
        help="default: q||p; p||q multiplies the bound by the factor of R-dir",
    )
    add_rigor(
        group,
        ".  With --data: the bounds given the rows (at most 4096), and the evidence, with all rounding proved, from "
        "k(X, X) in 30 digits; bounds for inputs to come then stay in doubles",
    )


def add_rigor(parser: argparse._ActionsContainer, with_data: str = "") -> None:
    """``--rigor``; its help ends with ``with_data``, for a command that has ``--data``."""
    from gpbounds.validation import RIGOR

    parser.add_argument(
        "--rigor",
        type=_rigor,
        choices=RIGOR,
        default="auto",
        help="auto (default): doubles, with their errors proved where that is affordable; float: doubles with an "
        "allowance for rounding; sharp: the double above a ball that contains the number" + with_data,
    )


def _rigor(word: str) -> str:
    """``arb``, the word of earlier releases, is read as `rigor_of` reads it; argparse refuses other strangers."""
    from gpbounds.validation import rigor_of

    return rigor_of(word) if word == "arb" else word


def add_data(parser: argparse.ArgumentParser) -> Any:
    """``--data``, ``--rows``, ``--seed``, and how the table is read; returns the group of the first three."""
    group = parser.add_argument_group("real data")
    group.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        help="CSV (.csv.gz) or Parquet; all numbers are in the units of the table: the command subtracts means, "
        "standardises columns inside, and drops constant inputs",
    )
    group.add_argument(
        "--rows",
        metavar="N",
        type=whole,
        default=2000,
        help="number of rows drawn for the data-aware bound; other methods use all of K up to this number (default "
        "%(default)s)",
    )
    group.add_argument("--seed", metavar="S", type=whole, default=0, help="seed of all random choices (default 0)")
    add_table(parser, group)
    return group


def add_table(parser: argparse.ArgumentParser, group: Any = None) -> None:
    """``--target``, ``--columns``, ``--ignore``, ``--drop-missing``, ``--header``: how a table is read."""
    group = group or parser.add_argument_group("the table")
    group.add_argument(
        "--target",
        metavar="COLUMN",
        help="name (of the header) or number, from 1, of the target (default: the last)",
    )
    group.add_argument(
        "--columns", metavar="A[,B,...]", help="names or numbers of the inputs to use (default: all other columns)"
    )
    group.add_argument("--ignore", metavar="A[,B,...]", help="names or numbers of columns to leave out")
    group.add_argument(
        "--drop-missing",
        action="store_true",
        help="leave out rows with missing cells (empty, NA, NaN, null, ?) in the columns that are used",
    )
    _add_header(group)


def table(args: argparse.Namespace) -> dict[str, Any]:
    """How the options say that a table is read, as arguments of `gpbounds.rows.table_rows.read_rows`."""
    return {name: getattr(args, name) for name in ("target", "columns", "ignore", "drop_missing", "header")}


def add_new_rows(parser: argparse.ArgumentParser) -> None:
    """``--target``, ``--drop-missing``, ``--header``: how the table of new rows is read."""
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="name or number, from 1, of the target in FILE (default: that of the table for training, if FILE has it)",
    )
    parser.add_argument(
        "--drop-missing",
        action="store_true",
        help="leave out rows with missing inputs; the column row then holds lines of a CSV file, numbers of rows in a "
        "Parquet file",
    )
    _add_header(parser)


def _add_header(group: Any) -> None:
    from gpbounds.rows.cells import HEADERS

    group.add_argument(
        "--header",
        choices=HEADERS,
        default="auto",
        help="whether the first line of a CSV file is a header (default: auto, by what its cells hold)",
    )


def add_best(parser: argparse.ArgumentParser, condition: str = " (with --data)") -> None:
    """``--best``, ``--simulate``, ``--old-forms``, which a command takes under ``condition``."""
    group = parser.add_argument_group("the best of several draws" + condition)
    group.add_argument(
        "--best",
        metavar="R",
        type=whole,
        default=10,
        help="number of draws of which the one with the greatest ELBO is kept; 0 for bounds on one draw only (default "
        "%(default)s)",
    )
    group.add_argument(
        "--simulate",
        metavar="M",
        type=whole,
        help="number of simulated sets of inputs for the a-priori bound, 0 to omit it (default 39 up to 1000 rows)",
    )
    group.add_argument(
        "--old-forms", action="store_true", help="add the bounds on one draw, for any y with the norm of the data's y"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _scalar_or_list(values: Sequence[float]) -> float | list[float]:
    """A list, or its only entry."""
    return values[0] if len(values) == 1 else list(values)


def dimension(args: argparse.Namespace) -> int:
    """``--dim``, or the length of the longest list on the command line."""
    lists = (args.lengthscale, args.std, args.low, args.high)
    longest = max((len(values) for values in lists if values), default=1)
    return int(args.dim) if args.dim is not None else longest


def _parsed_inputs(args: argparse.Namespace, dim: int) -> InputLaw:
    """The law of the inputs that the command line describes."""
    import numpy as np

    from gpbounds.inputs import Gaussian, Uniform

    if args.inputs == "uniform":
        if args.std:
            raise UsageError("--std belongs to --inputs gaussian; uniform takes --low and --high")
        low, high = (np.asarray(_scalar_or_list(ends)) for ends in (args.low or [0.0], args.high or [1.0]))
        return Uniform(_per_dimension("--low", low, dim), _per_dimension("--high", high, dim))
    if args.low or args.high:
        raise UsageError("--low and --high belong to --inputs uniform; gaussian takes --std")
    return Gaussian(_scalar_or_list(args.std or [1.0]), dim)


def _per_dimension(name: str, values: Any, dim: int) -> Any:
    import numpy as np

    if values.ndim and values.size != dim:
        raise UsageError(f"{name}: expected one number or one for each of {dim} dimension(s), got {values.size}")
    return np.broadcast_to(values, (dim,))


def flag(name: str, value: object = None) -> str:
    """An option as a shell spells it; a switch has the value True.

    >>> flag("y_norm2"), flag("rows", 40), flag("old_forms", True)
    ('--y-norm2', '--rows 40', '--old-forms')
    """
    option = f"--{name.replace('_', '-')}"
    return option if value is None or value is True else f"{option} {value}"


def _parsed_norm(args: argparse.Namespace) -> float | str | None:
    """``--y-norm2``: a number, "prior", or None without the option."""
    if args.y_norm2 in (None, "prior"):
        return str(args.y_norm2) if args.y_norm2 else None
    try:
        return number(args.y_norm2)
    except argparse.ArgumentTypeError:
        raise UsageError(f"--y-norm2: expected a number or 'prior', got {args.y_norm2!r}") from None


def question(args: argparse.Namespace) -> Question:
    """What the options ask, of a command that has those of the kernel, of the setting and of the data."""
    from fitting.study.problem import Question

    scale = None if args.lengthscale is None else _scalar_or_list(args.lengthscale)
    if args.lengthscale_range and scale is not None:
        raise UsageError("--lengthscale-range replaces --lengthscale: use one of the two options")
    several = set(getattr(args, "method", ["inducing"])) == {"inducing"}
    return Question(
        family=args.kernel,
        variance=args.variance,
        lengthscale=scale,
        noise=args.noise,
        lengthscale_range=args.lengthscale_range,
        delta=args.delta,
        tv=args.tv,
        form=args.form,
        direction=args.direction,
        y_norm2=_parsed_norm(args),
        rigor=args.rigor,
        draws=getattr(args, "best", 0) if several else 0,
        simulate=getattr(args, "simulate", None),
        old_forms=getattr(args, "old_forms", False),
        rows=args.rows,
        seed=args.seed,
        progress=True,
        spelled=flag,
    )


def problem(args: argparse.Namespace, model: Any = None) -> Problem:
    """The problem that the options describe: a law and numbers of rows, or a table, or the rows of a trained model."""
    from fitting.study.problem import about_law
    from fitting.study.steps import shown

    with shown("Reading the data and fitting the kernel"):
        asked = question(args)
        if args.data is None:
            if args.target is not None:
                raise UsageError(
                    f"--target: expected --data FILE, of which it names the column of the target, got {args.target!r} "
                    "without a table; the level of a divergence is --nats"
                )
            if args.sizes is None:
                raise UsageError("expected -N, the number of data, or --data FILE")
            return about_law(_parsed_inputs(args, dimension(args)), args.sizes, asked)
        if args.sizes is not None:
            raise UsageError("-N and --data FILE exclude each other: the file determines the number of data")
        if args.rows < 2:
            raise UsageError(f"--rows: expected a whole number >= 2, got {args.rows}")
        return _about_table(args, asked, model)


def _about_table(args: argparse.Namespace, asked: Question, model: Any) -> Problem:
    """The problem of the rows of ``--data``, or of those of a trained model among them."""
    from fitting.study.problem import about_rows
    from fitting.study.standardised import load
    from gpbounds.rows.table_rows import read_rows

    if model is None:
        data = load(args.data, **table(args))
        return about_rows(data, asked, _law_of(args, data.D))
    from fitting.study.trained import about_model

    rows = read_rows(args.data, **table(args), encoding=getattr(model, "encoding_", None))
    return about_model(model, rows, asked, _law_of(args, rows.D), str(args.model))


def _law_of(args: argparse.Namespace, D: int) -> InputLaw | None:
    """The law of the inputs that the options state, of D dimensions, if they state one."""
    if all(option is None for option in (args.inputs, args.std, args.low, args.high, args.dim)):
        return None
    law = _parsed_inputs(args, args.dim or D)
    if law.dim != D:
        raise UsageError(f"expected a law of {D} inputs, as in {args.data}, got {law.dim}")
    return law


def add_select(parser: argparse.ArgumentParser, most: int | None = 1000, default: str = "1000") -> None:
    """``--select`` and ``--most``, whose ``default`` is said in these words."""
    from fitting.study.afterwards import CHOICES

    group = parser.add_argument_group("after the fact (with --data): chosen inducing points for these rows")
    group.add_argument(
        "--select",
        choices=(*CHOICES, "none"),
        default="greedy",
        help="method that chooses the inducing points (default %(default)s); none omits this part",
    )
    group.add_argument(
        "--most",
        metavar="M",
        type=whole,
        default=most,
        help=f"largest number of inducing points (or rank of a Mercer expansion) to try (default {default})",
    )


def aims(args: argparse.Namespace, alpha: float) -> Aims:
    """What the options want to reach; refuses a ``--most`` below 1."""
    from fitting.study.planning import level_of
    from fitting.study.ranks import Aims

    if args.most is not None and args.most < 1:
        raise UsageError(f"--most: expected a whole number >= 1, got {args.most}")
    level = level_of(args.nats, args.loss, args.relative, flag)
    return Aims(level, alpha, args.method, args.width, args.select, args.most, args.refits, args.loss, args.relative)
