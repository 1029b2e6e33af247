"""How long features take: ``python benchmarks/bench_features.py [--json FILE] [--repeats 7] [--N 400000]``.

Random Fourier features of rank 300 beside the matrix product, the cosines and the sines that they contain, into arrays
that are already there; the goal is twice what those took just before.  scikit-learn's RBFSampler (a cosine of random
phase for each column) and Mercer features of the same rank stand beside them.  Needs 3 GB.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save

from gpbounds import Gaussian, SquaredExponential
from gpbounds.lowrank import FourierFeatures, LeverageFourierFeatures, MercerFeatures

RANK, D, NOISE = 300, 8, 0.1
KERNEL = SquaredExponential(1.0, 3.0)


def contained(X: np.ndarray, frequencies: np.ndarray) -> Case:
    """The product, the cosines and the sines alone."""
    W = np.ascontiguousarray(frequencies.T)
    phase, waves = np.empty((len(X), RANK // 2)), np.empty((len(X), RANK // 2))

    def run() -> None:
        np.matmul(X, W, out=phase)
        np.cos(phase, out=waves)
        np.sin(phase, out=waves)

    return Case(f"matrix product, cosines and sines alone, N = {len(X)}, r = {RANK}, D = {D}", None, run)


def timings(N: int, repeats: int) -> Iterator[Timing]:
    from sklearn.kernel_approximation import RBFSampler

    X = np.random.default_rng(0).standard_normal((N, D))
    line = X[:, :1].copy()
    classical = FourierFeatures(KERNEL, RANK, 0).fit(X)
    width = float((X.max(axis=0) - X.min(axis=0)).max())
    weighted = LeverageFourierFeatures(KERNEL, RANK, noise=NOISE, N=N, width=width, rng=0).fit(X)
    alone = measure(contained(X, classical.frequencies), repeats)
    yield alone
    goal = 2.0 * alone.median
    size = f"N = {N}, r = {RANK}"
    yield measure(Case(f"FourierFeatures, {size}, D = {D}", goal, lambda: keep(classical(X))), repeats)
    yield measure(Case(f"LeverageFourierFeatures, {size}, D = {D}", goal, lambda: keep(weighted(X))), repeats)
    sampler = RBFSampler(gamma=1.0 / 18.0, n_components=RANK, random_state=0).fit(X)
    yield measure(
        Case(f"scikit-learn's RBFSampler, {size}, D = {D}", None, lambda: keep(sampler.transform(X))), repeats
    )
    for points, lengthscale in ((line, 0.1), (X, 3.0)):
        dim = points.shape[1]
        mercer = MercerFeatures(SquaredExponential(1.0, lengthscale), RANK, inputs=Gaussian(dim=dim)).fit(points)
        yield measure(Case(f"MercerFeatures, {size}, D = {dim}", None, lambda f=mercer, p=points: keep(f(p))), repeats)
        case = Case(
            f"residual_diagonal, {size}, D = {dim}", None, lambda f=mercer, p=points: keep(f.residual_diagonal(p))
        )
        yield measure(case, repeats)


def keep(values: np.ndarray) -> None:
    """The values are there and are numbers."""
    assert np.isfinite(values[-1]).all()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=400_000, help="rows (default %(default)s)")
    options = parser.parse_args()

    about = opening()
    records = []
    for timing in timings(options.N, options.repeats):
        records.append(timing)
        print(row(timing), flush=True)
    save(options.json, about, records)


if __name__ == "__main__":
    main()
