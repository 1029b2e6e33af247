"""Bounds on ½yᵀK_n⁻¹y from any approximate solve, and a solve by conjugate gradients preconditioned by B."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold
from gpbounds.linalg.cg import conjugate_gradients
from gpbounds.linalg.parallel import ENTRY, share
from gpbounds.renyi.accuracy import U, gamma
from gpbounds.renyi.blocks import DENSE
from gpbounds.renyi.streamed import Streamed, lengths
from gpbounds.whitening import slices

STEPS = 25
"""Largest number of products with K; four times as many where K is stored (`products`)."""

ROWS, COLUMNS = 1024, 512
"""Entries of K that `absolute_products` computes at a time."""

TOLERANCE = 0.01
"""The solve stops when the two bounds are within so many nats."""


def two_sided(problem: Streamed, v: Array, product: Array, off: Array, shift: float) -> tuple[Float, Float]:
    """Proved lower and upper bound on ½yᵀK_n⁻¹y for each output, K_n = K + σ²I, from any v (N, P) and K_n v.

    With r = y − K_n v, B = Q₋ + σ²I and any shift ≥ λ_max(K − Q₋) (for example T = Tr(K − Q₋)):

        ½ rᵀ(B + shift·I)⁻¹r ≤ ½ yᵀK_n⁻¹y − vᵀ(r + ½K_n v) ≤ ½ rᵀB⁻¹r.

    The proof is that of N-quad.  v = 0 gives the two bounds of Titsias, v =
    K_n⁻¹y the exact value.  Artemev, Burt & van der Wilk (2021) have 0 on the left.

    Nothing is believed of v: ``off`` (N, P) is at least |product − K_n v|, entry by entry, which moves the base by
    ½|v|ᵀoff at most and r by |off| (N-quad, rounding).
    """
    xp = namespace(v)
    r = problem.Y - product
    moved = off + U * xp.abs(r)
    base = host((v * (r + 0.5 * product)).sum(axis=0))
    sizes = xp.abs(v) * (gamma(problem.N + 6) * (xp.abs(problem.Y) + xp.abs(product)) + 0.5 * off)
    error = 1.01 * host(sizes.sum(axis=0))
    apart = lengths(moved)
    fits = problem.fits([shift, 0.0], r)
    less = np.maximum(np.sqrt(fits.below[0]) - apart / math.sqrt(problem.noise + shift), 0.0)
    more = np.sqrt(fits.above[1]) + apart / math.sqrt(problem.noise)
    below, above = 0.5 * less**2 * (1.0 - 8.0 * U), 0.5 * more**2 * (1.0 + 8.0 * U)
    return base + below - error, base + above + error


def absolute_products(kernel: Kernel, X: Array, V: Array, entry: float, *, noise: float) -> tuple[Array, Array]:
    """(K + σ²I)V for V (N, P), and at least the error of each of its entries, ``entry`` being that of K's entries.

    Sums go over at most `COLUMNS` columns at a time: an entry has an error of at most γ|K||V|, γ for COLUMNS plus the
    number of parts; so K is computed once, and multiplied with V and |V|.
    """
    xp, N, P = namespace(X, V), int(X.shape[0]), int(V.shape[1])
    both = xp.concatenate([V, xp.abs(V)], axis=1)
    out, sizes = xp.zeros((N, P)), xp.zeros((N, P))
    positive, parts = kernel_is_positive(kernel), list(slices(N, ROWS))

    def add(number: int, worker: int) -> None:
        rows = parts[number]
        for columns in slices(N, COLUMNS):
            K = kernel(X[rows], X[columns])
            if positive:
                part = K @ both[columns]
                out[rows] += part[:, :P]
                sizes[rows] += part[:, P:]
            else:
                out[rows] += K @ V[columns]
                sizes[rows] += xp.abs(K) @ both[columns, P:]

    if xp is np:
        share(len(parts), add, flops=float(N * N * (4 * P + ENTRY)))
    else:
        for number in range(len(parts)):
            add(number, 0)
    terms = min(N, COLUMNS) + -(-N // COLUMNS) + 4
    off = gamma(terms) * sizes + entry * both[:, P:].sum(axis=0) + 4.0 * U * noise * xp.abs(V)
    return out + noise * V, 1.02 * (off + 2.0 * U * sizes)


def kernel_is_positive(kernel: Kernel) -> bool:
    """Whether no covariance is negative, whatever the inputs."""
    return kernel.fold(_POSITIVE, None)


_POSITIVE: Fold[None, bool] = Fold(lambda kernel, at: kernel.is_positive, operator.and_, operator.and_)


def solve(problem: Streamed, times: Callable[[Array], Array]) -> Array:
    """v near K_n⁻¹y for every output, by conjugate gradients from v = 0, preconditioned by B.

    It stops when the two bounds are within 0.01 nats, or after 25 products with K_n (100 up to N = 2000).
    """
    return conjugate_gradients(
        times,
        problem.solve,
        problem.Y,
        enough=lambda energies: not 0.5 * float(energies.sum()) > TOLERANCE,
        steps=(4 * STEPS if problem.N <= DENSE else STEPS) - 1,
    )
