"""How fast the roots of x − 1 − log x = 2γ are: ``python benchmarks/bench_roots.py [--json FILE] [--repeats 9]``.

A million values of γ at a time on one core, in the ranges where different code works; beside them one exponential and
one logarithm of as many numbers, and a thousand certified values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case, arguments, measure, opening, row, save

from gpbounds.sandwich import roots

SIZE = 1_000_000
GOAL = SIZE / 2e6
"""Two million values a second."""


def cases() -> Iterator[Case]:
    """The figures that the project holds itself to, and what to compare them with."""
    rng = np.random.default_rng(0)
    ranges = {
        "γ from 1e-9 to 1e5": (1e-9, 1e5),
        "γ from 1e-300 to 0.25 (series)": (1e-300, 0.25),
        "γ from 0.25 to 1e5 (Newton)": (0.25, 1e5),
    }
    for name, (low, high) in ranges.items():
        gamma = np.exp(rng.uniform(np.log(low), np.log(high), SIZE))

        def both(gamma: np.ndarray = gamma) -> None:
            assert roots(gamma)[0].shape == (SIZE,)

        yield Case(f"roots, 1e6 values, {name}", GOAL, both)

    gamma = np.exp(rng.uniform(np.log(1e-9), np.log(1e5), SIZE))
    yield Case("roots, 1e6 values, minus_one, γ from 1e-9 to 1e5", GOAL, lambda: both_less(gamma))
    yield Case("exp and log of 1e6 numbers, for comparison", None, lambda: transcendental(gamma))
    yield Case("roots, 1000 values, certified", None, lambda: proved(gamma[:1000]))


def both_less(gamma: np.ndarray) -> None:
    assert len(roots(gamma, minus_one=True)) == 2


def transcendental(gamma: np.ndarray) -> None:
    assert np.isfinite(np.exp(-gamma) + np.log(gamma)).all()


def proved(gamma: np.ndarray) -> None:
    assert len(roots(gamma, rigor="sharp")) == 3


def main() -> None:
    options = arguments(__doc__, 9).parse_args()

    about = opening()
    timings = []
    for case in cases():
        timings.append(measure(case, options.repeats))
        print(row(timings[-1]), flush=True)
    save(options.json, about, timings)


if __name__ == "__main__":
    main()
