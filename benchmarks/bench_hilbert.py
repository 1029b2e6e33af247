"""How many Hilbert-space functions are found, beside the least possible: ``python benchmarks/bench_hilbert.py``.

`hilbert_rank` states m and c for *any* N rows in a box, so the least possible m is the least for which the statement is
true.  It is at least the least m at which, for every c, no rows are known whose divergence exceeds the target.  The
rows tried are few places, in the middle of the box or in a corner, with multiplicities that add up to N, which L-BFGS-B
moves to the largest divergence; and N rows spread evenly.  At a place with w rows the mean of the targets has the noise
σ²/w, so the divergence is that of K and K̃ with rows and columns times √w.

Printed for each kernel, D and ℓ/S (N = 1500, σ² = .1, .1 nats): m and c found, the least m by evenly spread rows and by
the worst rows found, m found over the latter, and the milliseconds of `hilbert_rank` (median of seven).  Goals: the
ratio is at most 1.3 (squared exponential) and 1.6 (Matérn), and 50 ms.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from harness import arguments, opening, save
from scipy.optimize import minimize

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.kernels import Stationary
from gpbounds.kernels.plain import stationary
from gpbounds.lowrank import hilbert_rank
from gpbounds.lowrank.features.sines import densities

N, NOISE, TARGET = 1500, 0.1, 0.1
KERNELS = {"se": math.inf, "matern52": 2.5, "matern32": 1.5, "matern12": 0.5}
GAPS = (0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 4.0, 5.0)
"""L − S in lengthscales, over which the least m is the least."""
PLACES = {1: (3, 6, 11, 16), 2: (4, 6), 3: (3, 4)}
"""Places per coordinate, by D."""
SPACES = (0.35, 0.5, 0.7, 0.9)
"""Distances between them in the middle, in half waves of the last function; near a corner in lengthscales."""


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    kernel: str
    D: int
    lengthscale: float
    m: int
    c: float
    by_even_rows: int
    by_worst_rows: int
    milliseconds: float

    @property
    def ratio(self) -> float:
        return self.m / self.by_worst_rows


def approximate(kernel: Stationary, grids: Sequence[Float], m: int, L: float) -> Float:
    """K̃ at the products of ``grids``, one per dimension, the last fastest: sums over one index after the other."""
    w = np.arange(1, m + 1) * (math.pi / (2.0 * L))
    weights = densities(
        kernel, np.stack(np.meshgrid(*[w] * len(grids), indexing="ij"), axis=-1).reshape(-1, len(grids))
    )
    tensor = weights.reshape((m,) * len(grids))
    for grid in grids:
        phi = np.sin(np.multiply.outer(w, grid + L)) / math.sqrt(L)
        pairs = (phi[:, :, None] * phi[:, None, :]).reshape(m, -1)
        tensor = np.tensordot(tensor, pairs, axes=(0, 0))  # the pairs of this grid become the last axis
    n = [len(grid) for grid in grids]
    return _interleaved(tensor.reshape([side for size in n for side in (size, size)]))


def _interleaved(tensor: Float) -> Float:
    """A matrix from the axes x_1, x_1', x_2, x_2', …"""
    dim = tensor.ndim // 2
    size = math.prod(tensor.shape[::2])
    return tensor.transpose([2 * d for d in range(dim)] + [2 * d + 1 for d in range(dim)]).reshape(size, size)


def worst_weights(K: Float, approximation: Float) -> float:
    """The largest KL(N(0, K + σ²W⁻¹)‖N(0, K̃ + σ²W⁻¹)) that is found over multiplicities W of trace N."""
    size = len(K)

    def at(logits: Float) -> tuple[float, Float]:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        root = np.sqrt(N * shares + 1e-12)
        A, B = (M * np.multiply.outer(root, root) + NOISE * np.eye(size) for M in (K, approximation))
        inverse_a, inverse_b = np.linalg.inv(A), np.linalg.inv(B)
        mixed = inverse_b @ A
        value = 0.5 * (np.trace(mixed) - size + np.linalg.slogdet(B)[1] - np.linalg.slogdet(A)[1])
        by_root = ((inverse_b - inverse_a) * K + (inverse_b - mixed @ inverse_b) * approximation) @ root
        slope = by_root / (2.0 * root) * N
        return -value, -shares * (slope - shares @ slope)

    centred = np.linspace(-1.5, 1.5, size)
    starts = (np.zeros(size), -2.0 * centred**2)
    optima = [minimize(at, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}) for start in starts]
    return max(-float(each.fun) for each in optima)


def designs(dim: int, lengthscale: float, m: int, L: float) -> Iterator[list[Float]]:
    """Places in the middle and near a corner of the box [−1, 1]^D."""
    for n, space in itertools.product(PLACES[dim], SPACES):
        step = space * 2.0 * L / m
        middle = (np.arange(n) - 0.5 * (n - 1)) * step
        if np.abs(middle).max() <= 1.0:
            yield [middle] * dim
            if dim > 1:
                yield [middle] + [np.zeros(1)] * (dim - 1)
        corner = 1.0 - np.arange(n) * space * lengthscale
        if corner.min() >= -1.0:
            yield [corner] * dim


def exceeds(kernel: Stationary, dim: int, lengthscale: float, m: int, L: float) -> bool:
    """Whether rows are found whose divergence exceeds the target."""
    for grids in designs(dim, lengthscale, m, L):
        if worst_weights(*_both(kernel, grids, m, L)) > TARGET:
            return True
    return even(kernel, dim, m, L) > TARGET


def _both(kernel: Stationary, grids: Sequence[Float], m: int, L: float) -> tuple[Float, Float]:
    places = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(grids))
    return np.asarray(kernel(places)), approximate(kernel, grids, m, L)


def even(kernel: Stationary, dim: int, m: int, L: float) -> float:
    """KL of N rows spread evenly, as places with multiplicities where N are too many."""
    side = {1: 150, 2: 20, 3: 7}[dim]
    K, approximation = _both(kernel, [np.linspace(-1.0, 1.0, side)] * dim, m, L)
    noise = NOISE * side**dim / N * np.eye(len(K))
    A, B = K + noise, approximation + noise
    logs = np.linalg.slogdet(B)[1] - np.linalg.slogdet(A)[1]
    return float(0.5 * (np.trace(np.linalg.solve(B, A)) - len(K) + logs))


def least(fails: Any, most: int) -> int:
    """The least m ≤ most at which some gap does not fail; the m below ``most`` are tried by bisection."""
    low, high = 0, most
    while high - low > max(1, high // 100):
        m = (low + high) // 2
        low, high = (m, high) if all(fails(m, gap) for gap in GAPS) else (low, m)
    return high


def line(name: str, dim: int, lengthscale: float) -> Line:
    kernel = stationary(KERNELS[name], 1.0, lengthscale)
    half_width, seconds = np.ones(dim), []
    for _ in range(7):
        start = time.process_time()
        plan = hilbert_rank(kernel, N, half_width=half_width, noise=NOISE, target=TARGET)
        seconds.append(time.process_time() - start)
    m, c = int(np.max(plan.m)), float(np.max(plan.c))
    by_even = least(lambda n, gap: even(kernel, dim, n, 1.0 + gap * lengthscale) > TARGET, m)
    by_worst = least(lambda n, gap: exceeds(kernel, dim, lengthscale, n, 1.0 + gap * lengthscale), m)
    return Line(name, dim, lengthscale, m, c, by_even, by_worst, 1e3 * statistics.median(seconds))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=["se", "matern52", "matern32"])
    parser.add_argument("--dims", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3])
    parser.add_argument("--lengthscales", nargs="+", type=float, default=[0.1, 0.3, 1.0])
    args = parser.parse_args()
    about, lines = opening(f"\n{'kernel':<9} D  ℓ/S     m     c | even rows  worst rows  ratio     ms"), []
    for name, dim, lengthscale in itertools.product(args.kernels, args.dims, args.lengthscales):
        try:
            each = line(name, dim, lengthscale)
        except (NotConverged, MemoryError) as error:
            print(f"{name:<9} {dim} {lengthscale:4g} {error}", flush=True)
            continue
        lines.append({**asdict(each), "ratio": each.ratio})
        print(
            f"{name:<9} {dim} {lengthscale:4g} {each.m:5} {each.c:5.2f} | {each.by_even_rows:9} "
            f"{each.by_worst_rows:11} {each.ratio:6.2f} {each.milliseconds:6.1f}",
            flush=True,
        )
        save(args.json, about, lines)


if __name__ == "__main__":
    main()
