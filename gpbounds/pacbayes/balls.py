"""The certified inverse of the binary kl: the next double in the safe direction, decided with Arb balls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.numerics.search import first_double
from gpbounds.pacbayes.nearest import nearest_inverse
from gpbounds.rigor import exact, sign


def certified_inverse(q: Float, divergence: Float, upper: bool, complement: bool) -> Float:
    """`kl_inverse` of checked arrays: p is at least (upper) or at most (lower) the true one; 1 − p the reverse.

    P-12.  Each value is the closest double that is safe.  Only the sign of kl(q‖p) − d is needed, and enough bits
    always decide it: for rational d ≠ 0, e^d is transcendental (Lindemann), while e^kl = (q/p)^q ((1−q)/(1−p))^(1−q)
    is algebraic, so the two differ.
    """
    q, divergence = np.broadcast_arrays(q, divergence)
    start = nearest_inverse(q, divergence, upper, complement)
    values = [
        _best(a, b, v, upper, complement)
        for a, b, v in zip(q.ravel().tolist(), divergence.ravel().tolist(), start.ravel().tolist(), strict=True)
    ]
    return np.array(values, dtype=np.float64).reshape(q.shape)


def _best(q: float, divergence: float, value: float, upper: bool, complement: bool) -> float:
    """From ``value`` to the last double that is safe."""
    risk, bound = exact(q), exact(divergence) if divergence < math.inf else None
    outward = math.inf if upper != complement else -math.inf

    def safe(v: float) -> bool:
        return _beyond(risk, bound, divergence, v, upper, complement)

    return first_double(safe, value, outward)


def _beyond(q: Any, divergence: Any, number: float, value: float, upper: bool, complement: bool) -> bool:
    """Whether p (``value``, or 1 − ``value``) is at least the upper inverse, or at most the lower one."""
    p_end = 1.0 if upper else 0.0
    if value == (1.0 - p_end if complement else p_end):
        return True
    ball = exact(value)

    def gap() -> Any:
        p_less_q = (1 - ball) - q if complement else ball - q
        return p_less_q if upper else -p_less_q

    position = sign(gap)
    if position <= 0:
        return position == 0 and number == 0.0
    if number == 0.0:
        return True
    if divergence is None:
        return False

    def excess() -> Any:
        d = gap() if upper else -gap()
        rest = 1 - q
        at_zero = 0 if q.is_zero() else q * (d / q).log1p()
        at_one = 0 if rest.is_zero() else rest * (-d / rest).log1p()
        return -at_zero - at_one - divergence

    return sign(excess) > 0
