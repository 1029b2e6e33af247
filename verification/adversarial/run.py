"""Count the intervals that exclude their truth.

    python verification/adversarial/run.py --cases 1000000 --seed 7

attacks the functions of `adversarial.attacks` one after another with new instances on all cores.  A case is one
interval that a function states, compared with the ball of its truth; an instance may give several, which one call
states about different numbers, and none where the function refuses.  Each function has its share `EACH`, fewer cases
where they take longer.  Totals are printed as soon as a function is through, intervals that exclude their truth at
once, with the seed, from which `instances.instance` makes the instance again; then the status is 1.

Without ``--seed`` the operating system chooses one; it is printed.  Runs of different seeds share no instance.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores
sys.path.insert(0, str(Path(__file__).parents[1]))

from adversarial.attacks import ATTACKS, EACH, outcomes

BATCH = 50
"""Instances of a task."""
SEEDS = 10**9
"""Instances of a seed of the run: more than it can come to."""

Outcome = tuple[Counter[str], list[int]]


def batch(name: str, first: int) -> Outcome:
    """What came of `BATCH` instances, and the seeds of those whose bound excludes its truth."""
    counts, wrong = Counter[str](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + BATCH):
            for outcome, excluded in outcomes(name, seed):
                counts[outcome] += 1
                if excluded and seed not in wrong:
                    wrong.append(seed)
    return counts, wrong


def batches(pool: ProcessPoolExecutor, name: str, first: int) -> Iterator[Outcome]:
    """Batches without end, in the order of their seeds; some are computed ahead."""
    waiting: deque[Future[Outcome]] = deque()
    while True:
        while len(waiting) < 2 * (os.cpu_count() or 1):
            waiting.append(pool.submit(batch, name, first))
            first += BATCH
        try:
            yield waiting.popleft().result()
        except GeneratorExit:
            for future in waiting:
                future.cancel()
            raise


def attack(pool: ProcessPoolExecutor, name: str, first: int, cases: int) -> Outcome:
    """New instances until so many intervals are compared; prints what came of them."""
    counts, wrong, start = Counter[str](), list[int](), time.perf_counter()
    for one, seeds in batches(pool, name, first):
        counts += one
        wrong += seeds
        for seed in seeds:
            print(f"  {name}, seed {seed}: excludes its truth", flush=True)
        if counts["stated"] >= cases:
            break
    seconds = time.perf_counter() - start
    others = f"{counts['refused']} refused, {counts['undecided']} undecided"
    print(f"{name}: {counts['stated']} stated, {others}, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--bounds", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    names = list(dict.fromkeys(asked.bounds))
    every = sum(EACH[name] for name in names)
    stated = wrong = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in names:
            counts, seeds = attack(pool, name, asked.seed * SEEDS, -(-asked.cases * EACH[name] // every))
            stated, wrong = stated + counts["stated"], wrong + len(seeds)
    print(f"{wrong} instances among {stated} intervals exclude their truth")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
