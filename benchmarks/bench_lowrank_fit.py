"""Training low-rank GPs with random Fourier features, beside GPyTorch where it is installed:

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_lowrank_fit.py [--json FILE] [--million 0]

Three tasks, D = 8, in float64.  "value": log p(y) and its derivatives in all hyperparameters, N = 32 000 and 300
frequencies (rank 600).  "fit": 50 iterations of SciPy's L-BFGS-B from the same point, in each library's own free
parameters.  "million": the value at N = 1 000 000 and rank 500, three times, ours alone, as the features of others
take 4 GB.  Every library has a process of its own, whose peak memory is reported, too.  Shares are of the time that
3Nr² flops take (rank-k update 1, product 2) at the rate of this machine's own matrix product.  Goals: three times as
fast as GPyTorch, half of the rate, 0.3 GB; 1 GB for the million rows.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from bench_fitting import product_rate
from harness import arguments, opening, save

DIM, NOISE, LENGTHSCALE = 8, 0.1, 3.0
TIMES, SHARE, MEMORY = 3.0, 0.5, {"value": 0.3, "million": 1.0}
Loss = Callable[[Any], tuple[float, Any]]


def data(N: int) -> tuple[Any, Any]:
    """X (N, 8) and y (N,), smooth and noisy."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    return X, np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)


def ours(X: Any, y: Any, m: int) -> tuple[Loss, Any]:
    from fitting.features import FeatureKernel, FourierMap
    from fitting.objectives.laws import LowRankLaw
    from fitting.objectives.objective import objective
    from fitting.objectives.packing import packing
    from fitting.objectives.point import Parameters
    from gpbounds import SquaredExponential

    kernel = SquaredExponential(1.0, np.full(DIM, LENGTHSCALE))
    features = FourierMap.drawn(kernel, 2 * m, X, 0)
    how = packing(FeatureKernel(features, kernel.log_parameters), NOISE, None)
    assert isinstance(how.start, Parameters)
    return how.loss(replace(objective(X, y, "dtc"), law=LowRankLaw())), how.pack(how.start)


def gpytorch(X: Any, y: Any, m: int) -> tuple[Loss, Any]:
    import gpytorch as library
    import torch

    torch.manual_seed(0)
    points, targets = torch.tensor(X), torch.tensor(y)
    features = library.kernels.RFFKernel(num_samples=m, num_dims=DIM, ard_num_dims=DIM)
    kernel = library.kernels.ScaleKernel(features).double()
    kernel.outputscale, features.lengthscale = 1.0, LENGTHSCALE
    likelihood = library.likelihoods.GaussianLikelihood().double()
    likelihood.noise = NOISE

    class Model(library.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(points, targets, likelihood)
            self.mean_module, self.covar_module = library.means.ZeroMean(), kernel

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.train()
    objective = library.mlls.ExactMarginalLogLikelihood(likelihood, model)
    free = list(model.parameters())
    parts = [p.numel() for p in free]

    def loss(vector: Any) -> tuple[float, Any]:
        with torch.no_grad():
            for p, piece in zip(free, torch.split(torch.as_tensor(vector), parts), strict=True):
                p.copy_(piece.view_as(p))
        model.zero_grad()
        value = -objective(model(points), targets) * len(y)
        value.backward()
        return float(value.detach()), torch.cat([p.grad.reshape(-1) for p in free]).numpy()

    return loss, torch.cat([p.detach().reshape(-1) for p in free]).numpy().copy()


LIBRARIES = {"fitting": ours, "gpytorch": gpytorch}


def fitted(loss: Loss, start: Any, steps: int) -> float:
    """The loss after training."""
    from scipy.optimize import minimize

    return float(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).fun)


def child(library: str, task: str, N: int, m: int, repeats: int, steps: int) -> dict[str, Any]:
    """Seconds of single evaluations after a first one, or of a fit; and the peak of memory in this process."""
    loss, start = LIBRARIES[library](*data(N), m)
    value, seconds = -loss(start)[0], []
    for i in range({"value": repeats, "fit": 1, "million": 3}[task]):
        begin = time.perf_counter()
        if task == "fit":
            value = -fitted(loss, start, steps)
        else:
            loss(start + 1e-9 * i)  # so that no result can come from a cache
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"value": value, "seconds": seconds, "peak_gb": peak / 1e9}


def apart(library: str, task: str, N: int, m: int, options: Any) -> dict[str, Any] | str:
    """`child` in a process of its own, or why there is no figure."""
    settings = {"child": library, "task": task, "N": N, "m": m, "repeats": options.repeats, "steps": options.steps}
    command = [sys.executable, __file__, *(f"--{name}={value}" for name, value in settings.items())]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        return (ran.stderr.strip() or f"exit status {ran.returncode}").splitlines()[-1]
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def compared(task: str, N: int, m: int, libraries: list[str], options: Any, rate: float) -> list[dict[str, Any]]:
    """One line for each library, and ours beside the other."""
    rows: list[dict[str, Any]] = []
    for name in libraries:
        figures, label = apart(name, task, N, m, options), f"{name}, {task}, N = {N}, rank {2 * m}"
        if isinstance(figures, str):
            print(f"{label:<48} {figures}", flush=True)
            continue
        median = statistics.median(figures["seconds"])
        row = {"library": name, "task": task, "N": N, "rank": 2 * m, "median_s": median, **figures}
        line = f"{label:<48} {median:>7.2f} s {min(figures['seconds']):>7.2f} s {figures['peak_gb']:>5.2f} GB"
        if task != "fit":
            row["share"] = 12.0 * N * m**2 / rate / median
            missed = name == "fitting" and (row["share"] < SHARE or figures["peak_gb"] > MEMORY[task])
            line += f" {row['share']:>6.0%}{'  MISSED' if missed else ''}"
        rows.append(row)
        print(line, flush=True)
    if len(rows) > 1 and rows[0]["library"] == "fitting":
        times = rows[1]["median_s"] / rows[0]["median_s"]
        missed = task == "value" and times < TIMES
        print(f"  {times:.2f} times as fast as {rows[1]['library']}{f'  MISSED: {TIMES:g} times' if missed else ''}")
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=32_000, help="number of data (default 32 000)")
    parser.add_argument("--m", type=int, default=300, help="frequencies (default %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="iterations of the fit, 0 for none (default %(default)s)")
    parser.add_argument("--million", type=int, default=1_000_000, help="rows of the last task, 0 for none")
    for name in ("child", "task"):
        parser.add_argument(f"--{name}", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.task, options.N, options.m, options.repeats, options.steps)))
        return
    about = opening(f"\n{'':<48} {'median':>9} {'least':>9} {'peak':>8} {'share':>6}")
    rate = product_rate()
    here = [name for name in LIBRARIES if find_spec(name)]
    rows = compared("value", options.N, options.m, here, options, rate)
    if options.steps:
        rows += compared("fit", options.N, options.m, here, options, rate)
    if options.million:
        rows += compared("million", options.million, 250, ["fitting"], options, rate)
    print(f"\nmatrix product: {rate / 1e9:.0f} GFLOP/s")
    save(options.json, about, rows, gflops=rate / 1e9)


if __name__ == "__main__":
    main()
