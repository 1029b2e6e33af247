"""Count the intervals that exclude their truth.

    python verification/adversarial/run.py --cases 1000000 --seed 7

attacks the functions of `adversarial.attacks` with new instances on all cores, each with its share `EACH`, fewer where
one takes longer, prints what came of them, and ends with status 1 if an interval excludes its truth; the seed of each
is printed, and `instances.instance` makes it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from adversarial.attacks import ATTACKS, EACH, violated

BATCH = 100


def batch(name: str, first: int) -> tuple[str, Counter[str], list[int]]:
    """What came of `BATCH` instances, and the seeds of those whose bound excludes its truth."""
    counts, wrong = Counter[str](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + BATCH):
            outcome, excluded = violated(name, seed)
            counts[outcome] += 1
            if excluded:
                wrong.append(seed)
    return name, counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bounds", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    asked = parser.parse_args()
    every = sum(EACH[name] for name in asked.bounds)
    batches = {name: -(-asked.cases * EACH[name] // (every * BATCH)) for name in asked.bounds}
    jobs = [(name, asked.seed * 1_000_000_000 + i * BATCH) for name in asked.bounds for i in range(batches[name])]
    total, wrong = {name: Counter[str]() for name in asked.bounds}, []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, counts, seeds in pool.map(batch, *zip(*jobs, strict=True)):
            total[name] += counts
            wrong += [(name, seed) for seed in seeds]
    for name, counts in total.items():
        print(f"{name}: {counts['stated']} stated, {counts['refused']} refused, {counts['undecided']} undecided")
    print(f"{len(wrong)} of {sum(c['stated'] for c in total.values())} exclude the truth")
    for name, seed in wrong[:50]:
        print(f"  {name}, seed {seed}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
