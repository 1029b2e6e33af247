"""One training step of variational GPs on a mini-batch, beside other libraries where they are installed:

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_variational.py [--json FILE] [--rows 1024]

A step is the value, its gradient in every parameter (kernel, likelihood, inducing inputs, q), and the update: by Adam,
or by natural gradients for q and Adam for the rest.  float64, D = 8, Gaussian targets and labels (probit); every
library in a process of its own, whose peak memory is reported.  The processes take turns of a few steps, and both the
time and that of the processor are reported; beside other work the latter counts, with one thread.  ``--python
gpflow=PATH`` runs a library by another interpreter, ``--before FOLDER`` adds another checkout of this one, and
``--task "gaussian adam"`` takes one of the four.  The floor is the products' time at the rate of this machine's own
matrix product: 4 NM² flops for the rows and 5 M³ for the rest.  Goals: 2 times as fast as the fastest of the others
with Adam, 3 times with natural gradients, half of the memory.

With --million it measures one epoch of `VariationalGPClassifier` instead, on 10⁶ generated rows in a `numpy.memmap`
(probit, mini-batches): the time of the start, of each step, and of the last pass over all rows, and peak memory.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_fitting import product_rate
from harness import arguments, opening, save

N, DIM = 20_000, 8
TASKS = ("gaussian adam", "probit adam", "gaussian natgrad", "probit natgrad")
GOALS = {"adam": 2.0, "natgrad": 3.0}
TURN = 5
"""Steps of one turn."""
Step = Callable[[], None]


def data(likelihood: str, M: int) -> tuple[Any, Any, Any]:
    """X (N, 8), y (N,) in real numbers or in {0, 1}, and Z (M, 8)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    f = np.sin(X @ rng.standard_normal(DIM)) + 0.3 * rng.standard_normal(N)
    return X, f if likelihood == "gaussian" else (f > 0.0).astype(float), X[rng.permutation(N)[:M]]


def batches(rows: int) -> Callable[[], Any]:
    rng = np.random.default_rng(1)
    return lambda: rng.choice(N, rows, replace=False)


def ours(likelihood: str, optimizer: str, rows: int, M: int) -> Callable[[int], None]:
    from fitting.objectives.objective import variational_objective
    from fitting.objectives.point import Parameters
    from fitting.training import Steps
    from gpbounds import SquaredExponential
    from gpbounds.linalg.parallel import one_blas_thread

    X, y, Z = data(likelihood, M)
    objective = variational_objective(X, y, likelihood, keep=0)  # as estimators with batches do
    kernel = SquaredExponential(1.0, np.full(DIM, 3.0))
    start, options = Parameters(kernel, objective.likelihood, Z), {"natural": optimizer == "natgrad"}
    try:
        packing = objective.packing(start, **options)
    except TypeError:  # of a checkout before natural steps had derivatives of their own
        packing = objective.packing(start)
    draw = batches(rows)
    natural = objective.batch(draw()).natural(packing.start) if optimizer == "natgrad" else None
    stepper = Steps(packing.pack(packing.start), packing.bounds, 1e-3, natural)

    def run(steps: int) -> None:
        with one_blas_thread():
            for _ in range(steps):
                _, slopes = packing.loss(objective.batch(draw()))(stepper.x)
                stepper.take(slopes)

    return run


def gpytorch(likelihood: str, optimizer: str, rows: int, M: int) -> Callable[[int], None]:
    import gpytorch as library
    import torch

    X, y, Z = data(likelihood, M)
    points, targets = torch.tensor(X), torch.tensor(y)
    if optimizer == "natgrad":
        q: Any = library.variational.NaturalVariationalDistribution(M)
    else:
        q = library.variational.CholeskyVariationalDistribution(M)

    class Model(library.models.ApproximateGP):
        def __init__(self) -> None:
            super().__init__(library.variational.VariationalStrategy(self, torch.tensor(Z), q))
            self.mean_module = library.means.ZeroMean()
            self.covar_module = library.kernels.ScaleKernel(library.kernels.RBFKernel(ard_num_dims=DIM))

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.covar_module.outputscale, model.covar_module.base_kernel.lengthscale = 1.0, 3.0
    law = (
        library.likelihoods.GaussianLikelihood()
        if likelihood == "gaussian"
        else library.likelihoods.BernoulliLikelihood()
    )
    law = law.double()
    bound = library.mlls.VariationalELBO(law, model, num_data=N)
    if optimizer == "natgrad":
        others = [*model.hyperparameters(), *law.parameters()]
        steppers: list[Any] = [
            library.optim.NGD(model.variational_parameters(), num_data=N, lr=0.1),
            torch.optim.Adam(others, lr=1e-3),
        ]
    else:
        steppers = [torch.optim.Adam([*model.parameters(), *law.parameters()], lr=1e-3)]
    draw = batches(rows)
    model.train()
    law.train()

    def run(steps: int) -> None:
        for _ in range(steps):
            some = torch.as_tensor(draw())
            for stepper in steppers:
                stepper.zero_grad()
            (-bound(model(points[some]), targets[some])).backward()
            for stepper in steppers:
                stepper.step()

    return run


def gpflow(likelihood: str, optimizer: str, rows: int, M: int) -> Callable[[int], None]:
    import gpflow as library
    import tensorflow as tf

    X, y, Z = data(likelihood, M)
    kernel = library.kernels.SquaredExponential(1.0, np.full(DIM, 3.0))
    law = library.likelihoods.Gaussian(0.1) if likelihood == "gaussian" else library.likelihoods.Bernoulli()
    model = library.models.SVGP(kernel, law, Z, num_data=N)
    adam, natural = tf.optimizers.Adam(1e-3), library.optimizers.NaturalGradient(0.1)
    if optimizer == "natgrad":
        library.set_trainable(model.q_mu, False)
        library.set_trainable(model.q_sqrt, False)

    @tf.function
    def step(points: Any, targets: Any) -> None:
        loss = model.training_loss_closure((points, targets), compile=False)
        if optimizer == "natgrad":
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape() as tape:
            value = loss()
        variables = model.trainable_variables
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))

    draw = batches(rows)

    def run(steps: int) -> None:
        for _ in range(steps):
            some = draw()
            step(tf.constant(X[some]), tf.constant(y[some][:, None]))

    return run


LIBRARIES = {"fitting": ours, "gpytorch": gpytorch, "gpflow": gpflow}


def child(library: str, task: str, rows: int, M: int) -> None:
    """Take a turn for every line of the input, and print the mean seconds of its steps; then the peak of memory."""
    run = LIBRARIES[library.removeprefix("before ")](*task.split(), rows, M)
    run(2 * TURN)
    print("ready", flush=True)
    for _ in sys.stdin:
        begin, processor = time.perf_counter(), time.process_time()
        run(TURN)
        ends = time.perf_counter() - begin, time.process_time() - processor
        print(json.dumps([end / TURN for end in ends]), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps(peak / 1e9), flush=True)


def started(name: str, task: str, options: Any) -> subprocess.Popen[str] | None:
    """The process of a library after its first steps; None where these fail."""
    pythons = dict(pair.split("=", 1) for pair in options.python)
    root = Path(__file__).parents[1] if name != "before fitting" else options.before
    given = {"child": name, "task": task, "rows": options.rows, "M": options.M}
    process = subprocess.Popen(
        [pythons.get(name, sys.executable), __file__, *(f"--{key}={value}" for key, value in given.items())],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() == "ready":
        return process
    error = process.communicate()[1].strip() or str(process.returncode)
    print(f"{name}, {task:<24} {error.splitlines()[-1]}", flush=True)
    return None


def turn(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return list(json.loads(process.stdout.readline()))


def compared(task: str, options: Any, rate: float) -> list[dict[str, Any]]:
    """One line for each library, and ours beside the fastest of the others."""
    floor = (4.0 * options.rows * options.M**2 + 5.0 * options.M**3) / rate
    names = [*LIBRARIES, *(["before fitting"] if options.before else [])]
    processes = {name: process for name in names if (process := started(name, task, options)) is not None}
    turns: dict[str, list[list[float]]] = {name: [] for name in processes}
    for number in range(options.repeats):
        for name in list(processes)[:: -1 if number % 2 else 1]:
            turns[name].append(turn(processes[name]))
    found: dict[str, dict[str, Any]] = {}
    for name, process in processes.items():
        peak = float(process.communicate()[0])
        seconds, processor = (list(each) for each in zip(*turns[name], strict=True))
        median, used = statistics.median(seconds), statistics.median(processor)
        more = {"median_s": median, "processor_median_s": used, "floor": floor / median, "peak_gb": peak}
        found[name] = {"library": name, "task": task, **more, "seconds": seconds, "processor_s": processor}
        times = f"{1e3 * median:>7.1f} ms {1e3 * min(seconds):>7.1f} ms {1e3 * used:>7.1f} ms {peak:>6.2f} GB"
        print(f"{name + ', ' + task:<32} {times} {floor / median:>6.0%}", flush=True)
    mine = found.get("fitting")
    for name in [name for name in found if name != "fitting" and mine is not None]:
        ratios = {}
        for key in ("seconds", "processor_s"):
            pairs = zip(found[name][key], found["fitting"][key], strict=True)
            ratios[key] = statistics.median(theirs / ours for theirs, ours in pairs)
        found[name]["times"], found[name]["processor_times"] = ratios["seconds"], ratios["processor_s"]
        print(f"  {ratios['seconds']:.2f} times as fast as {name}, by the processor {ratios['processor_s']:.2f}")
    others = [line["times"] for name, line in found.items() if name in LIBRARIES and "times" in line]
    if others and min(others) < (goal := GOALS[task.split()[1]]):
        print(f"  MISSED: {goal:g} times")
    return list(found.values())


def epoch(rows: int, M: int) -> dict[str, Any]:
    """One epoch of a classifier on 10⁶ rows that stay on the disk."""
    from fitting import VariationalGPClassifier
    from fitting.training.adam import Steps

    millions, begun = 1_000_000, time.perf_counter()
    steps: list[float] = []
    take = Steps.take

    def timed(self: Any, g: Any) -> None:
        take(self, g)
        steps.append(time.perf_counter())

    Steps.take = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        X = np.memmap(Path(folder) / "X", dtype=np.float64, mode="w+", shape=(millions, DIM))
        direction, y = rng.standard_normal(DIM), np.empty(millions)
        for start in range(0, millions, N):
            part = slice(start, start + N)
            X[part] = rng.standard_normal((N, DIM))
            y[part] = np.sin(X[part] @ direction) + 0.3 * rng.standard_normal(N) > 0.0
        X.flush()
        model = VariationalGPClassifier(
            M, optimizer="adam", batch_size=rows, max_iter=-(-millions // rows), random_state=0
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fit = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all steps were used
            model.fit(np.memmap(Path(folder) / "X", dtype=np.float64, mode="r", shape=(millions, DIM)), y)
        end = time.perf_counter()
        error = float((model.predict(X[:N]) != y[:N]).mean())
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "rows": millions,
        "batch": rows,
        "M": M,
        "steps": len(steps),
        "data_s": fit - begun,
        "start_s": steps[0] - fit,
        "steps_s": steps[-1] - steps[0],
        "last_pass_s": end - steps[-1],
        "median_step_s": statistics.median(np.diff(steps)),
        "peak_before_gb": before * unit / 1e9,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9,
        "objective": model.objective_,
        "error": error,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1024, help="rows of a batch (default %(default)s)")
    parser.add_argument("--M", type=int, default=500, help="inducing points (default %(default)s)")
    parser.add_argument("--million", action="store_true", help="one epoch of a classifier on 10⁶ rows of a memory map")
    parser.add_argument("--task", choices=TASKS, help="one task; by default all four")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="another interpreter")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout of this library")
    parser.add_argument("--child", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.task, options.rows, options.M)
        return
    if options.million:
        about = opening(" ")
        figures = epoch(options.rows, options.M)
        for key, figure in figures.items():
            print(f"{key:<16} {figure:.4g}")
        save(options.json, about, [figures])
        return
    about = opening(f"\n{'':<32} {'median':>10} {'least':>10} {'processor':>10} {'peak':>9} {'floor':>6}")
    rate = product_rate()
    lines = [line for task in ([options.task] if options.task else TASKS) for line in compared(task, options, rate)]
    save(options.json, about, lines, product_rate=rate)


if __name__ == "__main__":
    main()
