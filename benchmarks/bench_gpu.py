"""Evaluations and a fit on a GPU, beside the device's own rate and, where it is installed, GPyTorch on the same device:

    python benchmarks/bench_gpu.py [--tiny] [--json FILE]

Value and gradient of VFE at N = 10⁶, M = 1000, D = 8, of the exact GP at N = 20 000, and of a PAC-Bayes bound with a
FITC posterior at N = 200 000, M = 500; a whole fit of VFE at N = 100 000, M = 500.  Shares are of the time that the
products alone would take at the rate of the device's own FP64 matrix product: 4NM² flops for VFE, 9NM² for the bound,
N³ for the exact GP.  Goals: a share of 0.5 for VFE and exact, and half of GPyTorch's time.  ``--tiny`` takes sizes with
which every line runs in a second; its figures mean nothing.  Without a GPU the benchmark says so and measures nothing.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from harness import arguments, in_units, opening, save
from peers import LENGTHSCALE, NOISE, gpytorch

from gpbounds.validation import array_module, cuda_fault

D, EPSILON, DELTA = 8, 0.6, 0.05
GOALS = {"share": 0.5, "GPyTorch": 2.0}


@dataclass(frozen=True)
class Sizes:
    """Rows and inducing points of each case, the order of the product, and the iterations of the fit."""

    vfe: tuple[int, int] = (1_000_000, 1000)
    exact: int = 20_000
    bound: tuple[int, int] = (200_000, 500)
    fit: tuple[int, int] = (100_000, 500)
    product: int = 8192
    iterations: int = 50


TINY = Sizes((300, 8), 60, (200, 8), (200, 6), 64, 2)


def problem(N: int, M: int) -> tuple[Any, Any, Any]:
    """X (N, D), y (N,) and Z (M, D), in host memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = np.sin(X @ rng.standard_normal(D)) + np.sqrt(NOISE) * rng.standard_normal(N)
    return X, y, X[rng.permutation(N)[:M]].copy()


def seconds(run: Callable[[], object], repeats: int) -> list[float]:
    """The times of some runs after a first one, which compiles; each ends with a read, which waits for the device."""
    run()
    durations = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        durations.append(time.perf_counter() - begin)
    return durations


def product_rate(xp: Any, n: int, repeats: int) -> float:
    """Flops per second of a product of two n × n matrices of doubles: the fastest of some runs."""
    A = xp.asarray(np.random.default_rng(0).standard_normal((n, n)))
    return 2.0 * n**3 / min(seconds(lambda: float((A @ A)[0, 0]), repeats))


def kernel() -> Any:
    from gpbounds import SquaredExponential

    return SquaredExponential(1.0, np.full(D, LENGTHSCALE))


def objective(xp: Any, method: str, N: int, M: int) -> Callable[[], object]:
    from fitting.objectives.objective import objective

    X, y, Z = map(xp.asarray, problem(N, M))
    F = objective(X, y, method)
    return lambda: F.evaluate(kernel(), NOISE, None if method == "exact" else Z).value


def bound(xp: Any, N: int, M: int) -> Callable[[], object]:
    from fitting.bounds import risk_bound
    from gpbounds.losses import Band

    X, y, Z = map(xp.asarray, problem(N, M))
    B = risk_bound(X, y, Band(EPSILON), delta=DELTA)
    return lambda: B.evaluate(kernel(), NOISE, Z).value


def fit(N: int, M: int, iterations: int) -> Callable[[], object]:
    from fitting import SparseGP

    X, y, _ = problem(N, M)
    return lambda: SparseGP("vfe", n_inducing=M, max_iter=iterations, device="cuda", random_state=0).fit(X, y)


def peer(task: str, N: int, M: int, repeats: int) -> list[float] | str:
    """Seconds of GPyTorch on the same device, or why there are none."""
    if importlib.util.find_spec("gpytorch") is None:
        return "GPyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "this PyTorch uses no GPU"
    torch.set_default_device("cuda")
    try:
        loss, start = gpytorch(task, *problem(N, M))
        return seconds(lambda: loss(start), repeats)
    except Exception as error:  # memory, as a rule; the other cases go on
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    finally:
        torch.set_default_device("cpu")
        torch.cuda.empty_cache()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tiny", action="store_true", help="take sizes that only show that every line runs")
    options = parser.parse_args()
    if fault := cuda_fault():
        raise SystemExit(f"bench_gpu needs a GPU that CuPy can use, but {fault}: nothing was measured.")
    xp, sizes, repeats = array_module("cuda"), TINY if options.tiny else Sizes(), options.repeats
    about = opening(f"\n{'':<32} {'median':>9} {'share':>6} {'GPyTorch':>9} {'times':>6}")
    rate = product_rate(xp, sizes.product, repeats)
    print(f"{'FP64 matrix product':<32} {rate / 1e12:>8.2f}T")
    (N, M), (n, m) = sizes.vfe, sizes.bound
    cases: list[tuple[str, str | None, int, int, float, Callable[[], object]]] = [
        ("VFE", "vfe", N, M, 4.0 * N * M**2, objective(xp, "vfe", N, M)),
        ("exact GP", "exact", sizes.exact, 1, float(sizes.exact) ** 3, objective(xp, "exact", sizes.exact, 1)),
        ("PAC-Bayes bound, FITC", None, n, m, 9.0 * n * m**2, bound(xp, n, m)),
    ]
    records: list[dict[str, Any]] = []
    for name, task, rows, centres, flops, run in cases:
        ours = float(np.median(seconds(run, repeats)))
        theirs = peer(task, rows, centres, repeats) if task else "no such model"
        times = (
            ""
            if isinstance(theirs, str)
            else f"{in_units(float(np.median(theirs))):>9} {np.median(theirs) / ours:>6.2f}"
        )
        print(f"{f'{name}, N = {rows}':<32} {in_units(ours):>9} {flops / rate / ours:>6.2f} {times or theirs}")
        records.append(
            {"case": name, "N": rows, "M": centres, "median_s": ours, "share": flops / rate / ours, "GPyTorch": theirs}
        )
    N, M = sizes.fit
    begin = time.perf_counter()
    fit(N, M, sizes.iterations)()
    took = time.perf_counter() - begin
    print(f"{f'fit of VFE, N = {N}, M = {M}':<32} {in_units(took):>9}")
    records.append({"case": "fit", "N": N, "M": M, "iterations": sizes.iterations, "median_s": took})
    save(options.json, about, records, goals=GOALS, sizes=asdict(sizes), product_flops_per_s=rate)


if __name__ == "__main__":
    main()
