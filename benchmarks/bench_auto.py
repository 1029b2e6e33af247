"""What `SparseGP(n_inducing="auto")` costs beside one fit with as many inducing points as it ends with:

    python benchmarks/bench_auto.py TABLE.csv.gz ... [--rows N] [--pairs 3] [--nats 1] [--json FILE]

Tables of numbers without a header, the target last.  Both fits run in turn, in one process, with one BLAS thread each;
seconds are those of the processor, medians of the repetitions.  ``F`` is the objective in nats per row, of the target
with mean 0 and variance 1, and the gap of the one fit is that of its own kernel and noise.
"""

from __future__ import annotations

import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, opening, save

GOAL = 3.0
"""Largest ratio of the two times."""


def rows(path: Path, most: int | None) -> tuple[Any, Any]:
    """Inputs and target of a table, of ``most`` of its rows at random."""
    table = np.loadtxt(path, delimiter=",")
    if most is not None and most < len(table):
        table = table[np.random.default_rng(0).permutation(len(table))[:most]]
    return table[:, :-1], table[:, -1]


def timed(X: Any, y: Any, **settings: Any) -> tuple[float, Any]:
    """Seconds of the processor for one fit, and the model."""
    from fitting import SparseGP

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseGP(normalize_y=True, random_state=0, **settings).fit(X, y)
    return time.process_time() - start, model


def gap(model: Any) -> float:
    """The proved gap of a fitted model."""
    from fitting.starts.sufficient import nested

    X, y = model.X_train_, model.y_train_[:, None]
    options = {"noise": model.noise_, "alpha": 1.0, "target": 1.0, "most": 1}
    return nested(model.kernel_, X, y, **options).gap(model.inducing_)


def case(path: Path, most: int | None, repeats: int, nats: float) -> dict[str, Any]:
    """Both fits in turn."""
    X, y = rows(path, most)
    grown, single, model, one = [], [], None, None
    for _ in range(repeats):
        seconds, model = timed(X, y, n_inducing="auto", target_gap=nats)
        grown.append(seconds)
        seconds, one = timed(X, y, n_inducing=len(model.inducing_))
        single.append(seconds)
    assert model is not None
    auto_s, one_s, N = statistics.median(grown), statistics.median(single), len(y)
    return {
        "table": path.name.split(".")[0],
        "N": N,
        "D": X.shape[1],
        "M": len(model.inducing_),
        "trained with": model.trained_with_,
        "gap": model.gap_,
        "F": model.objective_ / N,
        "auto_s": auto_s,
        "one_s": one_s,
        "ratio": auto_s / one_s,
        "gap of one": gap(one),
        "F of one": one.objective_ / N,
    }


HEADS = "| table | N | D | M | trained with | gap | F | s | s of one fit | ratio | its gap | its F |"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    parser.add_argument("--rows", type=int, help="so many rows of larger tables")
    parser.add_argument("--pairs", type=int, default=3, help="repetitions of both fits (default %(default)s)")
    parser.add_argument("--nats", type=float, default=1.0, help="the target (default %(default)s)")
    options = parser.parse_args()
    about, cases = opening(f"\n{HEADS}\n|{'---|' * HEADS.count(' | ')}---|"), []
    for path in options.tables:
        each = case(path, options.rows, options.pairs, options.nats)
        cases.append(each)
        words = [str(each[name]) for name in ("table", "N", "D", "M", "trained with")]
        words += [f"{each[name]:.3g}" for name in ("gap", "F", "auto_s", "one_s", "ratio", "gap of one", "F of one")]
        missed = " MISSED" if each["ratio"] > GOAL or each["gap"] > options.nats else ""
        print(f"| {' | '.join(words)} |{missed}", flush=True)
    save(options.json, about, cases)


if __name__ == "__main__":
    main()
