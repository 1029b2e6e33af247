"""A table of eight columns with their units: the flow of water through a borehole, measured with noise.

    python examples/borehole.py [--rows 2000] [--out borehole.csv]

The formula is that of Harper and Gupta (1983), which many papers use to test emulators; each input is uniform on its
range, and the noise has a standard deviation of 3 m3 a year beside the 46 of the flow.  The tutorial "Which M for my
table" and the README use this table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from gpbounds.cli import options

RANGES = {
    "radius_m": (0.05, 0.15),
    "influence_m": (100.0, 50_000.0),
    "upper_transmissivity_m2": (63_070.0, 115_600.0),
    "upper_head_m": (990.0, 1110.0),
    "lower_transmissivity_m2": (63.1, 116.0),
    "lower_head_m": (700.0, 820.0),
    "length_m": (1120.0, 1680.0),
    "conductivity_m": (9855.0, 12_045.0),
}
"""The range of each input; transmissivities and the conductivity are per year."""

TARGET = "flow_m3"
NOISE = 3.0
"""Standard deviation of the measurement, in m3 a year."""


def table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The inputs (rows, 8) and the measured flow (rows,)."""
    rng = np.random.default_rng(seed)
    low, high = np.array(list(RANGES.values())).T
    X = rng.uniform(low, high, (rows, len(RANGES)))
    return X, flow(X) + NOISE * rng.standard_normal(rows)


def flow(X: np.ndarray) -> np.ndarray:
    """The flow without noise, in m3 a year.

    >>> print(f"{flow(np.array([[0.1, 25050.0, 89335.0, 1050.0, 89.55, 760.0, 1400.0, 10950.0]]))[0]:.1f}")
    70.9
    """
    radius, influence, upper, upper_head, lower, lower_head, length, conductivity = X.T
    logarithm = np.log(influence / radius)
    resistance = 1.0 + 2.0 * length * upper / (logarithm * radius**2 * conductivity) + upper / lower
    return 2.0 * np.pi * upper * (upper_head - lower_head) / (logarithm * resistance)


def write(path: Path, rows: int = 2000, seed: int = 0) -> None:
    """Write the table as CSV with a line of names."""
    X, y = table(rows, seed)
    header = ",".join([*RANGES, TARGET])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.6g", delimiter=",", header=header, comments="", encoding="utf-8")


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=options.whole, default=2000, help="number of rows (default %(default)s)")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=Path, default=Path("borehole.csv"))
    args = parser.parse_args()
    write(args.out, args.rows, args.seed)
    print(f"{args.rows} rows of {len(RANGES)} inputs and {TARGET}: {args.out}")


if __name__ == "__main__":
    main()
