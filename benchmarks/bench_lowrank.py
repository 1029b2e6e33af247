"""How long KL of a low-rank GP takes: ``python benchmarks/bench_lowrank.py [--json FILE] [--N 5000]``.

`kl` and `kl_features` beside one symmetric eigendecomposition of K, eigenvalues only (`scipy.linalg.eigh` with
``eigvals_only=True``, LAPACK's dsyevr), of the same N.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save
from scipy.linalg import eigh

from gpbounds import Matern
from gpbounds.lowrank import kl, kl_by_rank, kl_features, optimal_kl

TIMES = 3.0
"""KL may take so many eigendecompositions."""


def cases(N: int) -> Iterator[Case]:
    """A Matérn-3/2 kernel matrix of N points in the plane, one with another lengthscale, and features at random."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (N, 2))
    K, Sigma = Matern(1.5, 1.0, 0.3)(X), Matern(1.5, 1.0, 0.31)(X)
    features = rng.standard_normal((N, N)) / np.sqrt(N)

    def eigenvalues() -> None:
        assert eigh(K, eigvals_only=True, check_finite=False)[-1] > 1.0

    def dense() -> None:
        assert kl(K, Sigma, noise=0.1) > 0.0

    def thin() -> None:
        assert kl_features(K, features[:, :300], noise=0.1) > 0.0

    def thick() -> None:
        assert kl_features(K, features, noise=0.1) > 0.0

    def many() -> None:
        assert (kl_by_rank(K, features[:, :300], np.arange(3, 301, 3), noise=0.1) > 0.0).all()

    def optimum() -> None:
        assert np.asarray(optimal_kl(K, noise=0.1))[-1] == 0.0

    yield Case(f"eigenvalues of K alone, N = {N}", None, eigenvalues)
    yield Case(f"kl, N = {N} (goal: 3 eigendecompositions)", TIMES, dense)
    yield Case(f"kl_features, N = {N}, r = 300 (goal: 3 eigendecompositions)", TIMES, thin)
    yield Case(f"kl_features, N = {N}, r = N (goal: 3 eigendecompositions)", TIMES, thick)
    yield Case(f"kl_by_rank, N = {N}, 100 ranks up to 300", None, many)
    yield Case(f"optimal_kl, N = {N}, all ranks", None, optimum)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=5000, help="number of data (default 5000)")
    options = parser.parse_args()

    about = opening()
    timings: list[Timing] = []
    for case in cases(options.N):
        goal = None if case.goal is None else case.goal * timings[0].median
        timings.append(measure(Case(case.name, goal, case.run), options.repeats))
        print(row(timings[-1]), flush=True)
    shares = {}
    for timing in timings[1:]:
        shares[timing.name.partition(" (goal")[0]] = timing.median / timings[0].median
    print("\nin eigendecompositions: " + ", ".join(f"{name}: {share:.2f}" for name, share in shares.items()))
    save(options.json, about, timings, in_eigendecompositions=shares)


if __name__ == "__main__":
    main()
