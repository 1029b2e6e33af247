"""An interval for tr log B from probes, where tr B = N is known (N-slq)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.iterative.edges import edges
from gpbounds.iterative.tails import frobenius, half_width
from gpbounds.linalg.lanczos import Tridiagonal
from gpbounds.linalg.quadrature import gauss, radau

EDGE, NORM, TAIL = 0.02, 0.08, 0.44
"""Shares of δ: two edges, the Frobenius norm, two tails."""


@dataclass(frozen=True)
class TraceLog:
    """An interval for tr log B ≤ 0.

    Attributes
    ----------
    low, high : float
        The interval; low is −inf if the probes prove no a > 0.
    estimate : float
        Its centre before the tails are added.
    spread : float
        Standard error of the estimate.
    gap : float
        Width of the interval for the mean over the probes, from the two quadratures.
    least, greatest : float
        Bounds a, b on the eigenvalues of B.
    norm : float
        F̂ ≥ ‖log B − (B − I) − c₀I‖_F.
    probes : int
    """

    low: float
    high: float
    estimate: float
    spread: float
    gap: float
    least: float
    greatest: float
    norm: float
    probes: int


def trace_log(main: Tridiagonal, pilot: Tridiagonal, N: int, *, delta: float) -> TraceLog:
    """An interval that contains tr log B with probability at least 1 − delta, for B (N, N) with tr B = N.

    With A = log B − (B − I) − c₀I and f(x) = log x − (x − 1) − c₀ its function, tr log B = N·c₀ + tr A, and the mean of
    zᵀAz over the m main probes is within the two ends of its quadratures.  c₀ comes from the pilot probes, which are
    independent of the main ones.  With probability 1 − delta none of the following fails:

        a ≤ λ_min(B), λ_max(B) ≤ b                    N-edge, from the pilot                 0.02·delta each
        ‖A‖_F ≤ F̂                                     N-slqtail, s² from log²x, x log x      0.08·delta
        −ε₋ ≤ mean zᵀAz − tr A ≤ ε₊                   N-slqtail, sup f = −c₀, Λ = max|f|     0.44·delta each

    The tails increase in (F̂, Λ), so that upper bounds on them serve.  Eigenvalues of Lanczos matrices lie between λ_min
    and λ_max: where one of the main probes' is outside [a, b], an edge has failed, and [a, b] is widened to it.

    Parameters
    ----------
    main, pilot : Tridiagonal
        Of independent start vectors N(0, I).
    N : int
    delta : float
    """
    nodes, m = gauss(main), main.squares.size
    a, b = edges(pilot, delta=EDGE * delta)
    a, b = min(a, (1.0 - 1e-6) * float(nodes.points.min())), max(b, float(nodes.points.max()))
    some = gauss(pilot)
    with np.errstate(invalid="ignore", divide="ignore"):  # of nodes ≤ 0 by rounding, where a ≤ 0, too
        c0 = float((some.of(np.log) - some.of(lambda x: x - 1.0)).sum() / pilot.squares.sum())
        linear = nodes.of(lambda x: x - 1.0 + c0)
        above = nodes.of(np.log) - linear
    if a <= 0.0:
        estimate = N * c0 + float(above.mean())
        return TraceLog(-math.inf, 0.0, estimate, _error(above), math.inf, a, b, norm=math.inf, probes=m)
    lower = radau(main, a)
    below = lower.of(np.log) - linear

    def f(x: float) -> float:
        return math.log(x) - (x - 1.0) - c0

    deepest = max(-f(a), -f(b))
    size = max(deepest, abs(c0))
    squares = lower.of(lambda x: np.log(x) ** 2) - 2.0 * nodes.of(lambda x: x * np.log(x))
    squares += 2.0 * (1.0 - c0) * (nodes if c0 <= 1.0 else lower).of(np.log) + nodes.of(lambda x: (x - 1.0 + c0) ** 2)
    norm = size * math.sqrt(N)
    if b < math.exp(sum(1.0 / n for n in range(1, 2 * main.steps + 1))):
        norm = min(norm, frobenius(max(float(squares.mean()), 0.0), size, m, NORM * delta))
    over = half_width(norm, above=max(-c0, 0.0), size=size, probes=m, delta=TAIL * delta)
    under = half_width(norm, above=max(deepest, 0.0), size=size, probes=m, delta=TAIL * delta)
    ends = N * c0 + float(below.mean()), N * c0 + float(above.mean())
    return TraceLog(
        low=ends[0] - over,
        high=min(ends[1] + under, 0.0),
        estimate=0.5 * sum(ends),
        spread=_error(above),
        gap=ends[1] - ends[0],
        least=a,
        greatest=b,
        norm=norm,
        probes=m,
    )


def _error(values: Float) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.inf
