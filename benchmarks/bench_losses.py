"""How long mean losses and posteriors take: ``python benchmarks/bench_losses.py [--json FILE] [--values 1000000]``.

Each loss beside the two calls of Φ that its mean cannot do without, on predictions of every kind (s from far below ε to
far above it); a collapsed posterior beside the whitening it is read off, and the KL of an exact GP both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save
from scipy.special import ndtr

from gpbounds import SquaredExponential
from gpbounds.divergences import collapsed_posterior, posterior_kl
from gpbounds.losses import Band, Exponential, Interval, Loss, Relative, Squared
from gpbounds.whitening import whiten

EPSILON, FACTOR = 0.5, 3.0
N, M, DIM, NOISE = 20_000, 300, 8, 0.1


def mean_losses(values: int) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    y = rng.standard_normal(values)
    m = y + EPSILON * rng.standard_normal(values)
    v = (EPSILON * np.exp(1.5 * rng.standard_normal(values))) ** 2
    s = np.sqrt(v)
    a, b = (y - m - EPSILON) / s, -(y - m + EPSILON) / s

    def both() -> None:
        assert np.isfinite(ndtr(a) + ndtr(b)).all()

    def mean(loss: Loss) -> None:
        assert loss.expectation(y, m, v).max() <= 1.0 + 1e-15

    def slope(loss: Loss) -> None:
        assert np.isfinite(loss.expectation(y, m, v, gradient=True)[1]).all()

    yield Case(f"two calls of ndtr, {values:,} values", None, both)
    for loss in (Band(EPSILON), Squared(EPSILON), Exponential(EPSILON), Relative(), Interval(-EPSILON, EPSILON)):
        yield Case(f"{loss.name}: mean, {values:,} values (goal: 3 times two ndtr)", None, partial(mean, loss))
        yield Case(f"{loss.name}: mean and both derivatives, {values:,} values", None, partial(slope, loss))


def posteriors() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    kernel, Z, y = SquaredExponential(1.0, 3.0), X[:M], rng.standard_normal(N)
    K, r = kernel(X[:1000]), y[:1000]

    def whitening() -> None:
        assert whiten(kernel, X, Z, y).trace > 0.0

    def collapsed(alpha: float) -> None:
        assert collapsed_posterior(kernel, X, y, Z, noise=NOISE, power=alpha).kl > 0.0

    q = collapsed_posterior(kernel, X, y, Z, noise=NOISE, power=1.0)

    def predictions() -> None:
        assert (q.predict(X).variance > 0.0).all()

    def exact(method: str) -> None:
        assert posterior_kl(K, r, noise=NOISE, method=method) > 0.0  # type: ignore[arg-type]

    yield Case(f"whitening alone, N = {N}, M = {M}, D = {DIM}", None, whitening)
    yield Case(f"posterior and KL, VFE, N = {N}, M = {M}, D = {DIM}", None, partial(collapsed, 0.0))
    yield Case(f"posterior and KL, FITC, N = {N}, M = {M}, D = {DIM}", None, partial(collapsed, 1.0))
    yield Case(f"means, variances and their errors at {N} points, M = {M}", None, predictions)
    yield Case("posterior_kl, N = 1000, eigenvalues", None, partial(exact, "eigen"))
    yield Case("posterior_kl, N = 1000, Cholesky", None, partial(exact, "cholesky"))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--values", type=int, default=1_000_000, help="predictions (default 1 000 000)")
    options = parser.parse_args()

    about = opening()
    timings: list[Timing] = []
    for cases in (mean_losses(options.values), posteriors()):
        for case in cases:
            goal = FACTOR * timings[0].median if "goal" in case.name else case.goal
            timings.append(measure(Case(case.name, goal, case.run), options.repeats))
            print(row(timings[-1]), flush=True)
    save(options.json, about, timings)


if __name__ == "__main__":
    main()
