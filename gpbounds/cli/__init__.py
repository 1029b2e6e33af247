"""The ``gpbounds`` command: the theorems from a shell."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from typing import TYPE_CHECKING

from gpbounds.cli.output import INTERRUPTED, TERMINATED, Terminated, sigterm_raises
from gpbounds.errors import Hidden, ImpossibleInterval, check_not_hidden

if TYPE_CHECKING:
    from gpbounds.cli.options import Parser

COMMANDS = {
    "rate": "the bound for given N, M, alpha",
    "plan": "the least M (or rank) that meets a target",
    "curve": "plot the bound against M",
    "klinv": "the inverse of the binary kl",
    "pac": "the PAC-Bayes bound on the true risk",
    "certify": "risk certificates: train, check",
    "train": "train any model on a table, and score it",
    "predict": "predict for a table with a saved model",
    "audit": "audit a trained model: one page",
    "examine": "is what a library says of a model right",
    "mc": "bias and cost of Monte Carlo",
    "claims": "the ledger of theorems",
    "demo": "bounds and true divergences on real data",
}
"""Each command is a module of this package, which is imported when the command is asked for, and its help."""

COLLECTION = 50_000
"""New objects after which Python looks for garbage while a command runs; 700 by default."""

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 0.5 --nats 0.1

The output names the theorem behind every number; `gpbounds claims R-thm1` prints a theorem.  Exit status: 0 if the
command has an answer (also if no number of inducing points meets the target); 1 if a certificate is not confirmed;
2 if the arguments or the data are wrong, with one sentence on stderr, or after a fault of gpbounds, with its place; 130
after Ctrl-C, with what was found until then; 143 after SIGTERM, without.  Every file that a command writes is complete,
or what it was before.
"""


def build_parser() -> Parser:
    """The parser of ``gpbounds`` and its commands."""
    from gpbounds import __version__
    from gpbounds.cli.options import Command, Parser

    parser = Parser(
        prog="gpbounds",
        description="Compute how many inducing points a sparse Gaussian process needs, and with which probability.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"gpbounds {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Command)
    for name, sentence in COMMANDS.items():
        commands.add_parser(name, help=sentence, module=f"{__name__}.{name}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    >>> main(["claims", "R-thm9"])
    2
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: no α ends a command where no α can be shown
    if None in (sys.stdout, sys.stderr):  # closed by the shell, as >&- does: nobody reads what is printed there
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            redirect_stdout(sys.stdout or nowhere),
            redirect_stderr(sys.stderr or nowhere),
        ):
            return _status(argv)
    return _status(argv)


def _status(argv: Sequence[str] | None) -> int:
    """Run one command, and say in one sentence what stops it; its exit status."""
    try:
        check_not_hidden()  # the parsers import fitting
    except Hidden as error:
        print(f"gpbounds: {error}", file=sys.stderr)
        return 2
    try:
        with _rare_collections():
            args = build_parser().parse_args(argv)
            with sigterm_raises(), _threads(getattr(args, "large", True)):
                args.run(args)
        sys.stdout.flush()
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except BrokenPipeError:  # the process that reads our output has closed the pipe
        _drop_output()
        return 0
    except KeyboardInterrupt:
        print("gpbounds: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Terminated:
        print("gpbounds: terminated", file=sys.stderr)
        return TERMINATED
    except (ValueError, OSError, ArithmeticError, MemoryError, ImpossibleInterval) as error:
        print(f"gpbounds: {_sentence(error)}", file=sys.stderr)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            _drop_output()
        return 2
    except Exception:  # 1 is for certificates that are not confirmed
        traceback.print_exc()
        print("gpbounds: this is a fault of gpbounds, not of what you asked; please report it", file=sys.stderr)
        return 2
    return 0


def _drop_output() -> None:
    """Send nowhere what stdout still holds: Python writes it again at its end, and fails with a status of its own."""
    with suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Python looks for garbage less often: libraries that are imported are a million objects, and none is garbage."""
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(before[0], COLLECTION), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _threads(large: bool) -> AbstractContextManager[None]:
    """One thread of BLAS for a command whose large parts run in lanes; nothing for one that has no large part."""
    if not large:
        return nullcontext()
    from gpbounds.linalg.parallel import one_blas_thread

    return one_blas_thread()


def _sentence(error: Exception) -> str:
    """The error message on one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # a full disk; errors of files name them
        return f"standard output: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory: choose fewer --rows or a shorter list"
    return " ".join(str(error).split()).removeprefix("gpbounds: ").removeprefix("gpbounds ")
