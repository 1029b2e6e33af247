"""The number of inducing points that a CSV file needs: the plan, the bounds, and the divergences of actual subsets.

    python examples/plan_inducing.py FILE [--nats 0.1] [--rows 2000] [--out plan_inducing.png]

FILE is a CSV (or .csv.gz) with the target in its last column; columns are standardised.  Hyperparameters are fitted by
marginal likelihood on 500 random rows.  The a-priori plan is for all rows; the data-aware bound and the subsets need
dense algebra, and use ``--rows`` random rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fitting.study.standardised import load
from fitting.study.subsets import counts_to_try
from gpbounds.cli import options
from gpbounds.cli.demo import show


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--nats", type=options.number, default=0.1, help="in nats (default %(default)s)")
    parser.add_argument("--alpha", type=options.number, default=1.0, help="Rényi order (default 1, KL)")
    parser.add_argument(
        "--rows", type=options.whole, default=2000, help="number of rows for dense algebra (default %(default)s)"
    )
    parser.add_argument(
        "--draws", type=options.whole, default=3, help="number of subsets per size (default %(default)s)"
    )
    parser.add_argument("--sizes", type=options.whole, default=10, help="number of sizes (default %(default)s)")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("plan_inducing.png"))
    args = parser.parse_args(argv)
    try:
        data = load(args.file)
        counts = counts_to_try(min(args.rows, data.N), args.sizes)
        show(
            data,
            args.alpha,
            args.nats,
            args.draws,
            args.seed,
            args.out,
            rows=args.rows,
            counts=counts,
            command="plan_inducing",
        )
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"{Path(sys.argv[0]).name}: {error}\n")


if __name__ == "__main__":
    main()
