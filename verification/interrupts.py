"""Interrupt fits with two lanes at random moments, and check that each ends and leaves the process as it was.

    python verification/interrupts.py                               # 1000 interrupts
    python verification/interrupts.py --interrupts 50               # fewer
    python verification/interrupts.py --interrupts 1 --first 17     # one interrupt again

A fit returns the best point that training has reached, or raises KeyboardInterrupt.  After it no lane runs, and the
pools of BLAS have their sizes.  An uninterrupted fit has the bits of the first one.  ``--store`` writes the counts to
``verification/interrupts.json``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import history
import numpy as np
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

import fitting
from gpbounds.files import replacing
from gpbounds.linalg import parallel

STORED = Path(__file__).with_suffix(".json")

WAIT = 120.0
"""Seconds after which an interrupted fit counts as one that does not end: the program then prints all stacks."""

AGAIN = 10
"""After so many interrupts of a fit, one without an interrupt shows its bits."""

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (120, 2))
Y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(120)

AT_SCALE = {"start": "scale", "tol": 0.0, "random_state": 0}
"""Training from the first step on; the other fits begin with pilot fits of some rows."""

FITS: dict[str, Callable[[], Any]] = {
    "SparseGP": lambda: fitting.SparseGP("vfe", n_inducing=12, max_iter=6, random_state=0),
    "SparseGP, training alone": lambda: fitting.SparseGP("fitc", n_inducing=12, max_iter=20, **AT_SCALE),
    "SparseGP, Adam": lambda: fitting.SparseGP("vfe", n_inducing=9, optimizer="adam", max_iter=25, **AT_SCALE),
    "ExactGP": lambda: fitting.ExactGP(max_iter=4, solver="cholesky", random_state=0),
    "ExactGP, iterative": lambda: fitting.ExactGP(max_iter=4, solver="iterative", **AT_SCALE),
    "VariationalGP": lambda: fitting.VariationalGP(10, "student-t", max_iter=12, **AT_SCALE),
    "VariationalGP, natural gradients": lambda: fitting.VariationalGP(
        10, "student-t", optimizer="natgrad", max_iter=12, **AT_SCALE
    ),
    "LowRankGP": lambda: fitting.LowRankGP("fourier", rank=16, max_iter=15, **AT_SCALE),
    "RenyiGP": lambda: fitting.RenyiGP(0.5, n_inducing=9, max_iter=10, **AT_SCALE),
    "SparsePACGP": lambda: fitting.SparsePACGP(8, max_iter=12, tol=0.0, random_state=0, scaling="as given"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=1000, help="number of interrupts (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one, to share them among processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # an alarm does what Ctrl-C does
    numbers = range(args.first, args.first + args.interrupts)
    commit, outcomes, faults = history.commit(), defaultdict[str, Counter[str]](Counter), list[str]()
    with two_lanes():
        expected = {name: Uninterrupted(make) for name, make in FITS.items()}
        for number in tqdm(numbers, unit="interrupt"):
            name = list(FITS)[number % len(FITS)]
            outcome, wrong = interrupted(FITS[name], expected[name], np.random.default_rng([args.seed, number]))
            if number // len(FITS) % AGAIN == AGAIN - 1 and bits(FITS[name]) != expected[name].bits:
                wrong.append("a fit without an interrupt has other bits")
            outcomes[name][outcome] += 1
            faults += [f"interrupt {number}, {name}: {fault}" for fault in wrong]
    for fault in faults:
        print(fault, file=sys.stderr)
    counts = {name: dict(sorted(counter.items())) for name, counter in outcomes.items()}
    total = sum(sum(counter.values()) for counter in outcomes.values())
    table = {"commit": commit, "interrupts": total, "faults": len(faults), "by fit": counts}
    print(json.dumps(table, indent=1))
    if args.store:
        with replacing(STORED) as file:
            file.write(json.dumps(table, indent=1) + "\n")
    return int(bool(faults))


@contextmanager
def two_lanes() -> Iterator[None]:
    """Two threads of BLAS, and lanes that share also the small work of these fits."""
    before = parallel.QUIET, parallel.BUSY
    parallel.lanes()  # loads every BLAS
    with ThreadpoolController().select(user_api="blas").limit(limits=2):
        parallel.QUIET = parallel.BUSY = 1.0
        try:
            if parallel.lanes() != 2:
                raise RuntimeError(f"expected two threads of BLAS, got {parallel.lanes()}")
            yield
        finally:
            parallel.QUIET, parallel.BUSY = before


class Uninterrupted:
    """A fit without an interrupt: its bits, and how long it takes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        bits(make)  # what is imported and compiled once takes no time of the second run
        began = time.perf_counter()
        self.bits = bits(make)
        self.seconds = time.perf_counter() - began


def bits(make: Callable[[], Any]) -> bytes:
    """The predictions of a fit."""
    return b"".join(np.ascontiguousarray(part).tobytes() for part in make().fit(X, Y).predict(X[:9], return_std=True))


def interrupted(make: Callable[[], Any], expected: Uninterrupted, rng: np.random.Generator) -> tuple[str, list[str]]:
    """What came of one fit with Ctrl-C at a random moment, and what was wrong."""
    before, sizes = set(threading.enumerate()), pools()
    faulthandler.dump_traceback_later(WAIT, exit=True)
    model, outcome = make(), "KeyboardInterrupt"
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, float(rng.uniform(0.0, expected.seconds))))
        model.fit(X, Y)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        was_stopped = any(remark.kind == "interrupted" for remark in model.remarks_)
        outcome = "best point so far" if was_stopped else "over before"
    except KeyboardInterrupt:
        pass
    except Exception as error:  # of a library that answers an interrupt with an error of its own
        outcome = f"{type(error).__name__} in place of KeyboardInterrupt"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    faulthandler.cancel_dump_traceback_later()
    wrong = []
    if outcome == "best point so far" and not np.isfinite(model.predict(X)).all():
        wrong.append("the model that was kept has predictions that are not finite")
    for thread in set(threading.enumerate()) - before:
        if never_began(thread):
            continue
        thread.join(WAIT)
        if thread.is_alive():
            wrong.append(f"{thread.name} still runs")
    if pools() != sizes:
        wrong.append(f"the pools of BLAS have the sizes {pools()} in place of {sizes}")
    return outcome, wrong


def never_began(thread: threading.Thread) -> bool:
    """Whether the interrupt came inside of `Thread.start`: Python lists such a thread, which does not run."""
    until = time.monotonic() + 1.0
    while thread.ident is None and time.monotonic() < until:
        time.sleep(0.01)
    return thread.ident is None


def pools() -> list[int]:
    return [pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()]


if __name__ == "__main__":
    sys.exit(main())
