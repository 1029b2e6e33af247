"""Inducing points that are the best of several draws, and the bound that holds for them at trained hyperparameters.

Training the kernel after the draws voids what was proved of them, since it looks at them.  So the draws that carry the
proof are made after training, at the kernel and the noise it found, with random numbers that nothing before has used;
the trained inducing points are one more candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fitting.starts import distinct_rows
from gpbounds.arrays import Array, Float
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical
from gpbounds.kdpp import Selection, select
from gpbounds.kernels import Kernel
from gpbounds.rates import inducing_points
from gpbounds.renyi import gap
from gpbounds.renyi.attained import attained

AFTER_TRAINING = (
    "Kernel and noise are those that training found; the draws were made after it, from random numbers that training "
    "did not use, and that no choice of its settings looked at."
)


def best_inducing(
    kernel: Kernel,
    X: Float,
    Y: Float,
    M: int,
    rng: np.random.Generator,
    *,
    noise: float,
    alpha: float,
    draws: int,
    delta: float,
    candidates: Sequence[Float] = (),
) -> Selection | None:
    """`gpbounds.kdpp.select` with method "best"; None if M exceeds the numerical rank, where no k-DPP of size M is."""
    try:
        return select(
            kernel, X, M, "best", rng, y=Y, noise=noise, alpha=alpha, draws=draws, delta=delta, candidates=candidates
        )
    except ValueError as error:
        if "numerical rank" in str(error) or "rounding error" in str(error):
            return None
        raise


def planned_number(
    kernel: Kernel,
    X: Float,
    Y: Float,
    *,
    noise: float,
    alpha: float,
    target: float,
    delta: float,
    draws: int,
    most: int,
) -> int:
    """The least M for which the best of ``draws`` is proved to be within ``target``, before any draw is made (N-given).

    At most ``most`` and the number of distinct rows, also if no such M is.
    """
    most = min(most, distinct_rows(X))
    if X.shape[0] < 2:
        return most
    plan = inducing_points(
        kernel, X.shape[0], alpha, target=target, inputs=Empirical(X), noise=noise, delta=delta, y=Y, draws=draws
    )
    return most if plan.M is None else min(plan.M, most)


def at_jitter(
    bound: Bound, kernel: Kernel, X: Float, Y: Float, Z: Float, *, noise: float, alpha: float, jitter: float
) -> Bound:
    """The bound for a model with another jitter than the one it speaks of: it adds the objective lost."""
    stated = float(bound.terms["jitter"])
    if jitter == stated:
        return bound
    before, after = (attained(kernel, X, Y, Z, alpha, noise=noise, jitter=amount) for amount in (stated, jitter))
    lost = max(0.0, before.value + before.rounding - after.value + after.rounding)
    terms = {**bound.terms, "jitter": jitter, "lost": bound.terms.get("lost", 0.0) + lost}
    return replace(bound, value=float(bound) + lost, terms=terms)


def gap_of(kernel: Kernel, X: Float, Y: Float, Z: Array, *, noise: float, alpha: float, jitter: float) -> Bound:
    """The bound on D_α of given inducing points, from the evidence of the data: no draw, no probability."""
    return gap(kernel, X, Y, Z, alpha, noise=noise, jitter=jitter)[1]
