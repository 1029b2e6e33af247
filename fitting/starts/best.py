"""Inducing points that are the best of several draws, and the bound that holds for them at trained hyperparameters.

A bound on draws does not hold for a kernel that was trained after them, since training depends on them.  So R new draws
are made after training, with the trained kernel and noise, from random numbers that no earlier step has used.  The
trained inducing points are one more candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, distinct_rows, host
from gpbounds.bound import Bound
from gpbounds.errors import NotConverged
from gpbounds.inputs import Empirical
from gpbounds.kdpp import Selection, select
from gpbounds.kernels import Kernel
from gpbounds.rates import inducing_points
from gpbounds.renyi import gap
from gpbounds.renyi.attained import attained
from gpbounds.row_noise import at_unit_noise, is_per_row

AFTER_TRAINING = (
    "Kernel, noise and mean function are the trained ones; the bound is for y minus the mean.  "
    "The draws were made after training, from random numbers that neither "
    "training nor the choice of its settings depends on."
)


def best_inducing(
    kernel: Kernel,
    X: Float,
    Y: Float,
    M: int,
    rng: np.random.Generator,
    *,
    noise: Any,
    alpha: float,
    draws: int | str,
    delta: float,
    candidates: Sequence[Float] = (),
) -> Selection | None:
    """`gpbounds.kdpp.select` with method "best"; where ``noise`` is an array (N,), among the rows of unit noise.

    None if M exceeds the numerical rank, as no k-DPP has that size, or if "certain" draws end without a proof.
    """
    if is_per_row(noise):
        unit = at_unit_noise(kernel, X, Y, noise)
        rows, others = (host(unit.X), host(unit.y)), [host(unit.points(Z)) for Z in candidates]
        settings: dict[str, Any] = {"alpha": alpha, "draws": draws, "delta": delta, "candidates": others}
        chosen = best_inducing(unit.kernel, *rows, M, rng, noise=1.0, **settings)
        if chosen is None:
            return None
        bound = None if chosen.bound is None else unit.of_rate(chosen.bound, 1.0)
        return replace(chosen, Z=np.ascontiguousarray(chosen.Z[:, :-1]), bound=bound)
    try:
        return select(
            kernel, X, M, "best", rng, y=Y, noise=noise, alpha=alpha, draws=draws, delta=delta, candidates=candidates
        )
    except NotConverged:
        return None
    except ValueError as error:
        if "numerical rank" in str(error) or "rounding error" in str(error):
            return None
        raise


def planned_number(
    kernel: Kernel,
    X: Float,
    Y: Float,
    *,
    noise: Any,
    alpha: float,
    target: float,
    delta: float,
    draws: int | str,
    most: int,
) -> int:
    """The least M for which the bound on the best of ``draws`` draws, or the level at which redrawing stops, is at most
    ``target`` (N-given, N-tilt-given).

    The bound is known before any draw is made.  M is at most ``most`` and the number of distinct rows; that number is
    returned if no M suffices.
    """
    most = min(most, distinct_rows(X))
    if X.shape[0] < 2:
        return most
    plan = inducing_points(
        kernel, X.shape[0], alpha, target=target, inputs=Empirical(X), noise=noise, delta=delta, y=Y, draws=draws
    )
    return most if plan.M is None else min(plan.M, most)


def at_jitter(
    bound: Bound, kernel: Kernel, X: Float, Y: Float, Z: Float, *, noise: Any, alpha: float, jitter: float
) -> Bound:
    """``bound`` for a model with another ``jitter``: the decrease of the objective between both jitters is added."""
    stated = float(bound.terms["jitter"])
    if jitter == stated:
        return bound
    if is_per_row(noise):
        unit = at_unit_noise(kernel, X, Y, noise)
        kernel, X, Y, Z, noise = unit.kernel, host(unit.X), host(unit.y), host(unit.points(Z)), 1.0
    before, after = (attained(kernel, X, Y, Z, alpha, noise=noise, jitter=amount) for amount in (stated, jitter))
    lost = max(0.0, before.value + before.rounding - after.value + after.rounding)
    terms = {**bound.terms, "jitter": jitter, "lost": bound.terms.get("lost", 0.0) + lost}
    return replace(bound, value=float(bound) + lost, terms=terms)


def gap_of(kernel: Kernel, X: Float, Y: Float, Z: Array, *, noise: Any, alpha: float, jitter: float) -> Bound:
    """The bound on D_α of given inducing points from the evidence of the data; it holds with certainty."""
    return gap(kernel, X, Y, Z, alpha, noise=noise, jitter=jitter)[1]
