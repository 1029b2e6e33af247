"""Value and gradient of VFE and of the exact GP, beside GPflow, GPyTorch and scikit-learn where they are installed:

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_fitting.py [--json FILE] [--N 32000]

The same objective in float64 at the same point, in hyperparameters, noise and inducing inputs; every library in a
process of its own, whose peak memory is reported, too.  Shares are of the time that the products alone would take at
the rate of this machine's own matrix product: 4NM² flops for VFE (solve 1, rank-k 1, product 2), 6NM² for FITC, N³ for
the exact GP (factor ⅓, inverse ⅔).
"""

from __future__ import annotations

import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import arguments, opening, save

M, DIM, NOISE, LENGTHSCALE = 500, 8, 0.1, 3.0
MODULES = {"fitting": "fitting", "GPflow": "gpflow", "GPyTorch": "gpytorch", "scikit-learn": "sklearn"}
TASKS = {
    "vfe": ("fitting", "GPflow", "GPyTorch"),
    "fitc": ("fitting", "GPflow"),
    "exact": ("fitting", "GPflow", "GPyTorch", "scikit-learn"),
}
GOALS = {"vfe": 2.5, "exact": 2.5}
Run = Callable[[], float]


def data(N: int, file: str | None) -> tuple[Any, Any, Any]:
    """X (N, 8), y (N,) and Z (M, 8): smooth and noisy, or the first N rows of a CSV file, standardised."""
    rng = np.random.default_rng(0)
    if file is None:
        X = rng.standard_normal((N, DIM))
        y = np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)
    else:
        table = np.loadtxt(file, delimiter=",", max_rows=N, comments="#", skiprows=1)
        table = (table - table.mean(axis=0)) / table.std(axis=0)
        X, y = table[:, :-1], table[:, -1]
    return X, y, X[rng.permutation(len(X))[:M]]


def ours(task: str, X: Any, y: Any, Z: Any) -> Run:
    from fitting.family import objective
    from gpbounds import SquaredExponential

    F = objective(X, y, task)
    kernel = SquaredExponential(1.0, np.full(X.shape[1], LENGTHSCALE))
    return lambda: F.evaluate(kernel, NOISE, None if task == "exact" else Z).value


def gpflow(task: str, X: Any, y: Any, Z: Any) -> Run:
    import gpflow as library
    import tensorflow as tf

    kernel = library.kernels.SquaredExponential(1.0, np.full(X.shape[1], LENGTHSCALE))
    both = X, y[:, None]
    if task == "exact":
        model = library.models.GPR(both, kernel, noise_variance=NOISE)
    elif task == "vfe":
        model = library.models.SGPR(both, kernel, Z, noise_variance=NOISE)
    else:
        model = library.models.GPRFITC(both, kernel, Z, noise_variance=NOISE)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = -model.maximum_log_likelihood_objective()
        return loss, tape.gradient(loss, model.trainable_variables)

    return lambda: -float(step()[0])


def gpytorch(task: str, X: Any, y: Any, Z: Any) -> Run:
    import gpytorch as library
    import torch

    points, targets = torch.tensor(X), torch.tensor(y)
    kernel = library.kernels.ScaleKernel(library.kernels.RBFKernel(ard_num_dims=X.shape[1])).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 1.0, LENGTHSCALE
    likelihood = library.likelihoods.GaussianLikelihood().double()
    likelihood.noise = NOISE

    class Model(library.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(points, targets, likelihood)
            self.mean_module = library.means.ZeroMean()
            self.covar_module = (
                kernel
                if task == "exact"
                else library.kernels.InducingPointKernel(kernel, torch.tensor(Z.copy()), likelihood)
            )

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.train()
    likelihood.train()
    objective = library.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def run() -> float:
        model.zero_grad()
        with library.settings.fast_computations(False, False, False):
            value = objective(model(points), targets) * len(y)
        (-value).backward()
        return float(value)

    return run


def sklearn(task: str, X: Any, y: Any, Z: Any) -> Run:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.full(X.shape[1], LENGTHSCALE)) + WhiteKernel(NOISE)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    theta = model.kernel_.theta
    return lambda: float(model.log_marginal_likelihood(theta, eval_gradient=True)[0])


def child(library: str, task: str, N: int, repeats: int, file: str | None) -> dict[str, Any]:
    """Times one library on one task in this process."""
    make = {"fitting": ours, "gpflow": gpflow, "gpytorch": gpytorch, "sklearn": sklearn}[library]
    run = make(task, *data(N, file))
    value, seconds = run(), []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"value": value, "seconds": seconds, "peak_gb": peak / 1e9}


def product_rate() -> float:
    """Flops a second of a large matrix product."""
    A, found = np.ones((2000, 2000)), []
    for _ in range(8):
        start = time.perf_counter()
        A @ A
        found.append(2.0 * 2000.0**3 / (time.perf_counter() - start))
    return statistics.median(found[1:])


def timed(library: str, task: str, N: int, repeats: int, file: str | None) -> dict[str, Any] | str:
    """`child` in a process of its own, or why there is no figure."""
    options = ["--child", library, "--task", task, "--N", str(N), "--repeats", str(repeats)]
    command = [sys.executable, __file__, *options, *(["--data", file] if file else [])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        return ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit status {ran.returncode}"
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=32_000, help="number of data of the sparse tasks (default 32 000)")
    parser.add_argument("--exact", type=int, default=2_000, help="number of data of the exact GP (default 2000)")
    parser.add_argument("--data", metavar="FILE", help="CSV file with a heading, the target in its last column")
    parser.add_argument("--child", help="for the program's own use")
    parser.add_argument("--task", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.task, options.N, options.repeats, options.data)))
        return

    about, rate = (
        opening(f"\n{'':<44} {'median':>9} {'least':>9} {'peak':>8} {'share':>6} {'value':>16}"),
        product_rate(),
    )
    rows = []
    for task, N in (("vfe", options.N), ("fitc", options.N), ("exact", options.exact)):
        flops = {"vfe": 4.0 * N * M**2, "fitc": 6.0 * N * M**2, "exact": float(N) ** 3}[task]
        medians = {}
        for name in TASKS[task]:
            if importlib.util.find_spec(MODULES[name]) is None:
                continue
            found = timed(MODULES[name], task, N, options.repeats, options.data)
            label = f"{name}, {task}, N = {N}"
            if isinstance(found, str):
                print(f"{label:<44} {found}", flush=True)
                continue
            medians[name] = statistics.median(found["seconds"])
            share = flops / rate / medians[name]
            rows.append({"library": name, "task": task, "N": N, "median_s": medians[name], "share": share, **found})
            times = f"{1e3 * medians[name]:>6.0f} ms {1e3 * min(found['seconds']):>6.0f} ms"
            print(f"{label:<44} {times} {found['peak_gb']:>5.2f} GB {share:>6.0%} {found['value']:>16.6f}", flush=True)
        peers = {name: seconds for name, seconds in medians.items() if name != "fitting"}
        if peers and "fitting" in medians:
            best = min(peers, key=lambda name: peers[name])
            times = peers[best] / medians["fitting"]
            goal = GOALS.get(task)
            verdict = "" if goal is None or times >= goal else f"  MISSED: {goal:g} times"
            print(f"  {times:.2f} times as fast as {best}, the fastest of the others{verdict}", flush=True)
    print(f"\nmatrix product: {rate / 1e9:.0f} GFLOP/s")
    save(options.json, about, rows, gflops=rate / 1e9)


if __name__ == "__main__":
    main()
