"""How long the calculator takes: ``python benchmarks/bench_rate.py [--json FILE] [--repeats 9]``.

Each row is the median of repeated runs after one warm-up, with its spread, beside the goal it should stay below.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from harness import Case, arguments, measure, opening, row, save

from gpbounds import Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate, spectrum


def cases() -> Iterator[Case]:
    """The figures that the project holds itself to."""
    N = np.rint(np.geomspace(2e3, 1e9, 1000))[:, None]
    M = np.arange(1.0, 1001.0)[None, :]
    settings = {
        "1-D": (SquaredExponential(lengthscale=0.5), Gaussian()),
        "5-D, one lengthscale": (SquaredExponential(lengthscale=2.0), Gaussian(dim=5)),
        "5-D, a lengthscale each": (SquaredExponential(lengthscale=[1.0, 1.5, 2.0, 3.0, 5.0]), Gaussian(dim=5)),
    }
    for name, (kernel, inputs) in settings.items():
        for form, y_norm2 in (("y from the prior", None), ("any y", 1e4)):

            def grid(kernel: SquaredExponential = kernel, inputs: Gaussian = inputs, y: float | None = y_norm2) -> None:
                bound = rate(kernel, N, M, 1.0, inputs=inputs, y_norm2=y)
                assert np.shape(bound.value) == (1000, 1000)

            yield Case(f"rate, 1000 x 1000 grid of (N, M), SE x Gaussian {name}, {form}", 1.0, grid)

    for alpha in (1.0, 0.75):

        def plan_gaussian(alpha: float = alpha) -> None:
            assert inducing_points(SquaredExponential(), 10**9, alpha, target=0.1).M

        yield Case(f"inducing_points, N = 1e9, SE x Gaussian 1-D, alpha = {alpha:g}", 0.020, plan_gaussian)

    if importlib.util.find_spec("gpbounds.spectra.matern"):

        def plan_matern() -> None:
            plan = inducing_points(Matern(1.5, lengthscale=0.2), 10**9, 1.0, target=0.1, inputs=Uniform(0.0, 1.0))
            assert plan.M

        yield Case("inducing_points, N = 1e9, Matern-3/2 x Uniform 1-D", 1.0, plan_matern)

    def eigenvalues() -> None:
        kernel = SquaredExponential(lengthscale=[0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6])
        assert spectrum(kernel, inputs=Gaussian(dim=8)).eigenvalues(10_000).shape == (10_000,)

    yield Case("10 000 eigenvalues, SE x Gaussian 8-D, a lengthscale each", 0.5, eigenvalues)

    def with_covariance() -> None:
        A = np.random.default_rng(0).standard_normal((8, 8))
        kernel = SquaredExponential(1.0, np.linspace(0.5, 2.0, 8))
        assert spectrum(kernel, inputs=Gaussian(cov=A @ A.T / 8.0)).eigenvalues(10_000).shape == (10_000,)

    yield Case("10 000 eigenvalues, SE x Gaussian 8-D with a covariance", 0.5, with_covariance)
    yield Case("import gpbounds, fresh process", 0.5, lambda: fresh("import gpbounds"))
    first = "from gpbounds import SquaredExponential, rate; rate(SquaredExponential(), 10_000, 30, 1.0)"
    yield Case("import and a first bound, fresh process", None, lambda: fresh(first))


def fresh(program: str) -> float:
    """Seconds that ``program`` takes in an interpreter that has imported nothing else."""
    timed = f"import time; start = time.perf_counter(); {program}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = arguments(__doc__, 9)
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases whose names contain TEXT")
    options = parser.parse_args()
    about, timings = opening(), []
    for case in (case for case in cases() if options.only in case.name):
        timings.append(measure(case, options.repeats))
        print(row(timings[-1]), flush=True)
    save(options.json, about, timings)


if __name__ == "__main__":
    main()
