"""One epoch of a deep kernel on data of the size of protein, beside GPyTorch where it is installed:

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_deep.py [--json FILE] [--repeats 7]

N = 41 157 rows, D = 9, batches of 1000; both networks are [9-512-256-64-4] with tanh, everything is float64.  Ours is
DFGP: 40 Fourier features of the four outputs, natural-gradient steps for q and Adam for the rest.  GPyTorch has no
low-rank marginal likelihood in mini-batches; the deep kernel there is a variational GP with 40 inducing points on the
outputs of the same network, with Adam for all ("adam") or natural gradients for q ("natgrad").  Every library runs in a
process of its own, whose peak memory is reported.  The floor is the time of the network's products, 6 flops per weight
and row, at the rate of this machine's own matrix product.  Goal: no slower than GPyTorch.
"""

from __future__ import annotations

import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_fitting import product_rate
from harness import arguments, opening, save

N, DIM, BATCH, RANK, RATE = 41_157, 9, 1000, 40, 1e-3
SIZES = (DIM, 512, 256, 64, 4)
GOAL = 1.0


def data() -> tuple[Any, Any]:
    """X (N, 9) and y (N,)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    return X, np.sin(X @ rng.standard_normal(DIM)) + 0.3 * rng.standard_normal(N)


def epoch() -> list[Any]:
    """The rows of each batch."""
    order = np.random.default_rng(1).permutation(N)
    return [np.sort(rows) for rows in np.array_split(order, round(N / BATCH))]


def ours() -> Callable[[], None]:
    from fitting.features import MLP, FeatureKernel, Fourier
    from fitting.features.objects import trained_map
    from fitting.objectives.goals import ExpectedLosses
    from fitting.objectives.laws import FreeLaw
    from fitting.objectives.objective import Objective, at_point, objective
    from fitting.objectives.packing import packing_of
    from fitting.training import Steps
    from gpbounds.likelihoods import Gaussian

    X, y = data()
    rng = np.random.default_rng(2)
    features = trained_map(MLP(SIZES[1:-1], SIZES[-1], then=Fourier(RANK), pretraining=0), X, y[:, None], rng)
    bound = Objective(objective(X, y).data, FreeLaw(), ExpectedLosses(Gaussian(0.1)))
    start = bound.complete(at_point(FeatureKernel(features, features.start(X, rng)), 0.1))
    layout, rows = packing_of(start, natural=True), epoch()
    steps = Steps(layout.pack(start), layout.bounds, RATE, bound.natural(start, 0.1))

    def run() -> None:
        for some in rows:
            steps.take(layout.loss(bound.batch(some))(steps.x)[1])

    return run


def gpytorch(optimizer: str) -> Callable[[], None]:
    import gpytorch as library
    import torch

    X, y = data()
    points, targets = torch.tensor(X), torch.tensor(y)
    layers: list[Any] = []
    for n, m in itertools.pairwise(SIZES):
        layers += [torch.nn.Linear(n, m), torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers[:-1]).double()
    kinds = {
        "adam": library.variational.CholeskyVariationalDistribution,
        "natgrad": library.variational.NaturalVariationalDistribution,
    }
    with torch.no_grad():
        Z = network(points[:RANK])

    class Model(library.models.ApproximateGP):
        def __init__(self) -> None:
            super().__init__(library.variational.VariationalStrategy(self, Z, kinds[optimizer](RANK)))
            self.mean_module = library.means.ZeroMean()
            self.covar_module = library.kernels.ScaleKernel(library.kernels.RBFKernel(ard_num_dims=SIZES[-1]))

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, law = Model().double(), library.likelihoods.GaussianLikelihood().double()
    bound = library.mlls.VariationalELBO(law, model, num_data=N)
    if optimizer == "natgrad":
        others = [*network.parameters(), *model.hyperparameters(), *law.parameters()]
        steppers: list[Any] = [
            library.optim.NGD(model.variational_parameters(), num_data=N, lr=0.1),
            torch.optim.Adam(others, lr=RATE),
        ]
    else:
        every = [*network.parameters(), *model.parameters(), *law.parameters()]
        steppers = [torch.optim.Adam(every, lr=RATE)]
    rows = [torch.as_tensor(some) for some in epoch()]
    model.train()
    law.train()

    def run() -> None:
        for some in rows:
            for stepper in steppers:
                stepper.zero_grad()
            (-bound(model(network(points[some])), targets[some])).backward()
            for stepper in steppers:
                stepper.step()

    return run


LIBRARIES: dict[str, Callable[[], Callable[[], None]]] = {
    "fitting": ours,
    "gpytorch, adam": lambda: gpytorch("adam"),
    "gpytorch, natgrad": lambda: gpytorch("natgrad"),
}


def child(library: str, repeats: int) -> dict[str, Any]:
    """Seconds of one epoch, and the peak of memory in this process."""
    run = LIBRARIES[library]()
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"seconds": seconds, "peak_gb": peak / 1e9}


def compared(repeats: int, floor: float) -> list[dict[str, Any]]:
    """One line for each library, and ours beside the fastest of the others."""
    found: list[dict[str, Any]] = []
    for name in LIBRARIES:
        command = [sys.executable, __file__, f"--child={name}", f"--repeats={repeats}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(f"{name:<32} {(ran.stderr.strip() or str(ran.returncode)).splitlines()[-1]}", flush=True)
            continue
        figures = json.loads(ran.stdout.splitlines()[-1])
        median = statistics.median(figures["seconds"])
        found.append({"library": name, "median_s": median, "floor": floor / median, **figures})
        times = f"{median:>8.2f} s {min(figures['seconds']):>8.2f} s {figures['peak_gb']:>6.2f} GB"
        print(f"{name:<32} {times} {floor / median:>6.0%}", flush=True)
    others = [line for line in found if line["library"] != "fitting"]
    if others and len(others) < len(found):
        best = min(others, key=lambda line: float(line["median_s"]))
        times = best["median_s"] / found[0]["median_s"]
        print(f"  {times:.2f} times as fast as {best['library']}{'' if times >= GOAL else f'  MISSED: {GOAL:g} times'}")
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--child", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.repeats)))
        return
    about = opening(f"\n{'':<32} {'median':>10} {'least':>10} {'peak':>9} {'floor':>6}")
    weights = sum((n + 1) * m for n, m in itertools.pairwise(SIZES))
    lines = compared(options.repeats, 6.0 * weights * N / product_rate())
    save(options.json, about, lines)


if __name__ == "__main__":
    main()
