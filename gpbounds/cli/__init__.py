"""The ``gpbounds`` command: what the theorems say, from a shell."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpbounds.cli.options import Parser

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 0.5 --target 0.1

Every number names its theorem; `gpbounds claims R-thm1` prints one.  Exit status: 0 with an answer (also where no
number of inducing points meets the target), 1 where a certificate is not confirmed, 2 with one sentence on stderr
where the question makes no sense.
"""


def build_parser() -> Parser:
    """The parser of ``gpbounds`` and its commands."""
    from gpbounds import __version__
    from gpbounds.cli import certify, claims, curve, demo, klinv, mc, pac, plan, rate

    parser = Parser(
        prog="gpbounds",
        description="How many inducing points does a sparse Gaussian process need, and how sure is that?",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"gpbounds {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (rate, plan, curve, klinv, pac, certify, mc, claims, demo):
        module.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    >>> main(["claims", "R-thm9"])
    2
    """
    try:
        args = build_parser().parse_args(argv)
        args.run(args)
        sys.stdout.flush()
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("gpbounds: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError, ArithmeticError, MemoryError) as error:
        print(f"gpbounds: {_sentence(error)}", file=sys.stderr)
        return 2
    return 0


def _sentence(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory: choose fewer --rows or a shorter list"
    return " ".join(str(error).split()).removeprefix("gpbounds: ").removeprefix("gpbounds ")
