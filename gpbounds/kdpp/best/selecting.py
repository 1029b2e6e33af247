"""``select(method="best")``: from its arguments to a `Selection`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, Indices, as_host_points
from gpbounds.kdpp.best.keeping import Candidate, keep_best
from gpbounds.kdpp.best.laws import source_of
from gpbounds.kdpp.best.problem import Problem
from gpbounds.kdpp.best.redrawing import MOST, redraw
from gpbounds.kdpp.draws import prefixes
from gpbounds.kdpp.record import Selection
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.rates.draws.given import CERTAIN, REDRAW, draws_argument
from gpbounds.validation import count, noise_variance, open_unit, order, scalar
from gpbounds.whitening import as_targets


def best_selection(
    kernel: Kernel,
    X: Float,
    M: int,
    rng: np.random.Generator,
    groups: Indices,
    *,
    y: ArrayLike | None,
    noise: float | None,
    alpha: float,
    draws: int | str | None,
    most: int | None,
    delta: float,
    rank: int | None,
    jitter: Jitter,
    candidates: Sequence[ArrayLike],
) -> Selection:
    """The best of several draws; the arguments are those of `gpbounds.kdpp.select`, with X and M checked."""
    if (y is None) != (noise is None):
        raise ValueError(
            f"y, noise: expected both, or neither for the least trace, got only {'noise' if y is None else 'y'}"
        )
    number = draws_argument(10 if draws is None else draws)
    certain = number == CERTAIN
    if certain and y is None:
        raise ValueError("draws: expected a whole number without y, got 'certain': redrawing ends by looking at y")
    if not certain and most is not None:
        raise ValueError(f"most: expected only with draws='certain', got {most!r} with draws={draws!r}")
    targets = None if y is None else as_targets(y, X)
    problem = Problem(
        kernel,
        X,
        groups,
        M,
        None if targets is None else targets.reshape(X.shape[0], -1),
        None if noise is None else noise_variance(noise),
        scalar(order, "alpha", alpha),
        1 if isinstance(number, str) else number,
        REDRAW if certain else scalar(open_unit, "delta", delta),
    )
    others = [
        Candidate(f"candidate {i + 1}", as_host_points(Z, "candidates", X.shape[1])) for i, Z in enumerate(candidates)
    ]
    source = source_of(problem, rank)
    if certain:
        kept, made = redraw(problem, source, rng, jitter, others, MOST if most is None else count("most", most))
    else:
        kept, made = keep_best(problem, source, rng, jitter, others), problem.draws
    chosen = kept.candidate
    measured = prefixes(kernel, X, chosen.Z, chosen.indices, groups, kept.reached.jitter)
    return Selection(
        "best",
        chosen.indices,
        chosen.Z,
        float(measured.traces[-1]),
        float(measured.log_dets[-1]),
        f"{made} draw{'s' * (made > 1)} of the {source.law}, compared with points by other rules; kept: {chosen.name}",
        jitter=kept.reached.jitter,
        objective=None if problem.Y is None else kept.reached.value,
        bound=kept.bound,
    )
