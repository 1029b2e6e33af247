"""Training at N = 1 000 000, M = 500, D = 8: seconds an evaluation, peak memory, and the objective before and after.

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_million.py [--json FILE] [--steps 5]

VFE by `fitting.SparseGP`, hyperparameters, noise and inducing inputs, data and predictions included.  Two passes over
the data an evaluation; what does not fit the workspace is computed in both.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
from harness import arguments, opening, save


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=1_000_000, help="number of data (default %(default)s)")
    parser.add_argument("--M", type=int, default=500, help="inducing points (default %(default)s)")
    parser.add_argument("--steps", type=int, default=5, help="iterations of L-BFGS-B (default %(default)s)")
    options = parser.parse_args()
    from sklearn.exceptions import ConvergenceWarning

    from fitting import SparseGP

    about = opening("\n")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.N + 10_000, 8))
    f = np.sin(X @ rng.standard_normal(8))
    y = f + 0.3 * rng.standard_normal(len(X))
    train, test = slice(options.N), slice(options.N, None)

    settings = {"max_iter": options.steps, "start": "scale", "random_state": 0, "progress": True}
    model = SparseGP(n_inducing=options.M, inducing="uniform", **settings)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so few steps are no training to the end
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - start
    count = model.runs_[0].evaluations
    error = float(np.sqrt(np.mean((model.predict(X[test]) - f[test]) ** 2)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    row = {
        "N": options.N,
        "M": options.M,
        "evaluations": count,
        "fit_s": seconds,
        "evaluation_s": seconds / (count + 1),  # one more pass makes the posterior
        "peak_gb": peak,
        "objective": [float(model.history_[0]), float(model.objective_)],
        "rmse_of_f": error,
    }
    print(
        f"\n{count} evaluations in {seconds:.0f} s, {row['evaluation_s']:.1f} s each, peak {peak:.2f} GB; F from "
        f"{model.history_[0]:.0f} to {model.objective_:.0f}; RMSE of f {error:.3f} (its std is {f.std():.3f})"
    )
    save(options.json, about, [row])


if __name__ == "__main__":
    main()
