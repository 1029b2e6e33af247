"""How long a k-DPP takes, and whether it is one: ``python benchmarks/bench_kdpp.py [--json FILE] [--repeats 9]``.

Symmetric polynomials and samples, given the eigendecomposition; DPPy beside them where it is installed.  The mean of
Tr(K − Q) over the samples is set beside its exact value, since a fast sampler of another law is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from harness import WIDTH, Case, arguments, measure, opening, row, save

from gpbounds import SquaredExponential, kdpp
from gpbounds.linalg import Eigen, eigen

GOALS = {(2000, 50): (0.008, 0.004), (5000, 200): (0.060, 0.080)}  # N, M: symmetric polynomials, a sample


def problem(N: int) -> tuple[np.ndarray, Eigen]:
    """SE kernel, lengthscale 1, on standardised data in eight dimensions."""
    K = SquaredExponential()(np.random.default_rng(N).standard_normal((N, 8)))
    return K, eigen(K, "K", vectors=True)


def ours(spectrum: Eigen, M: int) -> Callable[[], np.ndarray]:
    rng = np.random.default_rng(1)
    return lambda: kdpp.sample_eigen(spectrum.values, spectrum.vectors, M, rng)


def dppy(spectrum: Eigen, M: int) -> tuple[Callable[[], object], Callable[[], np.ndarray]] | None:
    """DPPy's table of symmetric polynomials, and a sample that uses it again."""
    try:
        from dppy.exact_sampling import elementary_symmetric_polynomials
        from dppy.finite_dpps import FiniteDPP
    except ImportError:
        return None
    law, rng = FiniteDPP("likelihood", L_eig_dec=(spectrum.values, spectrum.vectors)), np.random.RandomState(1)

    def draw() -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(law.sample_exact_k_dpp(size=M, random_state=rng))

    def table() -> object:
        with np.errstate(all="ignore"):
            return elementary_symmetric_polynomials(spectrum.values, M)

    return table, draw


def cases(N: int, M: int, spectrum: Eigen) -> Iterator[tuple[Case, Callable[[], np.ndarray] | None]]:
    """What is timed, and the sampler behind it where its law is to be looked at, too."""
    polynomials, a_sample = GOALS[N, M]
    size, draw = f"N = {N}, M = {M}", ours(spectrum, M)

    def run(work: Callable[[], object]) -> Callable[[], None]:
        return lambda: (work(), None)[1]

    yield Case(f"log_esp, {size}", polynomials, run(lambda: kdpp.log_esp(spectrum.values, M))), None
    yield Case(f"sample_eigen, {size}", a_sample, run(draw)), draw
    root = spectrum.vectors[:, : 2 * M] * np.sqrt(spectrum.values[: 2 * M])
    yield (
        Case(f"sample_factor, {size}, a factor of {2 * M} columns", None, run(lambda: kdpp.sample_factor(root, M, 0))),
        None,
    )
    peer = dppy(spectrum, M)
    if peer:
        yield Case(f"DPPy: symmetric polynomials, {size}", None, run(peer[0])), None
        yield Case(f"DPPy: a sample, the polynomials at hand, {size}", None, run(peer[1])), peer[1]


def mean_trace(K: np.ndarray, draw: Callable[[], np.ndarray], draws: int = 9) -> str:
    """Mean and standard error of Tr(K − Q) over samples."""
    try:
        traces = [kdpp.residual_trace(K, np.unique(draw())) for _ in range(draws)]
    except (ValueError, IndexError) as error:
        return f"no sample: {error}"
    return f"{np.mean(traces):.6g} ± {np.std(traces, ddof=1) / np.sqrt(draws):.2g}"


def main() -> None:
    options = arguments(__doc__, 9).parse_args()

    about = opening()
    timings, traces = [], []
    for N, M in GOALS:
        K, spectrum = problem(N)
        for case, draw in cases(N, M, spectrum):
            timings.append(measure(case, options.repeats))
            print(row(timings[-1]), flush=True)
            if draw:
                traces.append({"name": case.name, "mean_trace": mean_trace(K, draw)})
        traces.append(
            {"name": f"exact, N = {N}, M = {M}", "mean_trace": f"{kdpp.expected_trace(spectrum.values, M):.6g}"}
        )
    print("\nmean of Tr(K − Q)")
    for trace in traces:
        print(f"{trace['name']:<{WIDTH}} {trace['mean_trace']}")
    save(options.json, about, timings, traces=traces)


if __name__ == "__main__":
    main()
