"""How long the brackets of the evidence take: ``python benchmarks/bench_evidence.py [--json FILE] [--N 100000]``.

`evidence` with its O(NM²) members beside one VFE value from the same whitening, and beside the matrix products that the
whitening cannot do without (a triangular solve and a rank-k update per chunk), timed alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save

from gpbounds import SquaredExponential
from gpbounds.linalg import cholesky
from gpbounds.renyi import evidence, gap
from gpbounds.whitening import CHUNK, inducing, slices, whiten

M, DIM, NOISE = 500, 8, 0.1


def cases(N: int) -> Iterator[Case]:
    """N data in eight dimensions, 500 inducing points among them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    kernel, Z = SquaredExponential(1.0, 3.0), X[:M]
    y = np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)
    L = inducing(kernel, Z, "auto")
    block = np.asfortranarray(rng.standard_normal((M, CHUNK)))

    def products() -> None:
        total = np.zeros((M, M))
        for rows in slices(N):
            V = L.chol.solve_lower(block[:, : rows.stop - rows.start])
            total += V @ V.T
        assert np.isfinite(total).all()

    def vfe() -> None:
        white = whiten(kernel, X, Z, y, jitter="auto")
        inner = cholesky(np.eye(M) + white.gram / NOISE)
        fit = (white.squares - (inner.solve_lower(white.projected) ** 2).sum() / NOISE) / NOISE
        value = -0.5 * (N * np.log(2.0 * np.pi * NOISE) + inner.logdet + fit + white.trace / NOISE)
        assert np.isfinite(value)

    def cheap() -> None:
        lower, upper = evidence(kernel, X, y, Z, noise=NOISE, members="cheap")
        assert float(lower) <= float(upper)

    def streamed() -> None:
        lower, upper = gap(kernel, X, y, Z, 1.0, noise=NOISE, jitter="auto", method="streamed")
        assert float(lower) <= float(upper)

    def full() -> None:
        n = min(N, 5000)
        lower, upper = evidence(kernel, X[:n], y[:n], Z, noise=NOISE, members="all")
        assert float(lower) <= float(upper)

    yield Case(f"triangular solve and rank-k update alone, N = {N}, M = {M}", None, products)
    yield Case(f"one VFE value, N = {N}, M = {M}, D = {DIM}", None, vfe)
    yield Case(f"evidence, O(NM²) members, N = {N}, M = {M}, D = {DIM} (goal: 2 VFE values)", None, cheap)
    yield Case(f"gap, streamed, N = {N}, M = {M}, D = {DIM}", None, streamed)
    yield Case(f"evidence, all members, N = {min(N, 5000)}, M = {M}, D = {DIM}", None, full)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=100_000, help="number of data (default 100 000)")
    options = parser.parse_args()

    about = opening()
    timings: list[Timing] = []
    for case in cases(options.N):
        goal = 2.0 * timings[1].median if case.name.startswith("evidence, O") else case.goal
        timings.append(measure(Case(case.name, goal, case.run), options.repeats))
        print(row(timings[-1]), flush=True)
    products, vfe, cheap = (timing.median for timing in timings[:3])
    shares = {
        "products_in_vfe": products / vfe,
        "products_in_evidence": products / cheap,
        "evidence_in_vfe": cheap / vfe,
    }
    print(f"\nevidence takes {cheap / vfe:.2f} VFE values; matrix products are {products / vfe:.0%} of a VFE value")
    save(options.json, about, timings, shares=shares)


if __name__ == "__main__":
    main()
