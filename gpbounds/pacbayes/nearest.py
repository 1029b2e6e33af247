"""The inverse of the binary kl to the nearest few doubles: p, 1 − p and the derivatives from one solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Float, blockwise
from gpbounds.numerics.pairs import two_product
from gpbounds.pacbayes.solver import FAR, log_rise, odds, rise

SMALL = 1e-300
"""Below it q is scaled, so that (1−q)/q does not overflow."""
SCALE = 2.0**200


def nearest_inverse(q: Float, divergence: Float, upper: bool, complement: bool) -> Float:
    """`kl_inverse` of checked arrays, not certified."""
    quantity = _remaining if upper == complement else _reached
    return _flat(lambda a, b: (quantity(_solve(a, b, upper)),), q, divergence)[0]


def nearest_gradient(q: Float, divergence: Float, upper: bool) -> tuple[Float, Float]:
    """∂p/∂q and |∂p/∂d| of checked arrays."""
    in_q, in_divergence = _flat(lambda a, b: _slopes(a if upper else 1.0 - a, _solve(a, b, upper)), q, divergence)
    return in_q, in_divergence


def _flat(work: Callable[[Float, Float], tuple[Float, ...]], q: Float, divergence: Float) -> tuple[Float, ...]:
    """``work(q, divergence)`` of broadcasting arrays, in one-dimensional blocks that fit a cache."""
    q, divergence = np.broadcast_arrays(q, divergence)
    with np.errstate(all="ignore"):  # the limits divide by 0 and underflow
        parts = blockwise(work, q.reshape(-1), divergence.reshape(-1))
    return tuple(part.reshape(q.shape) for part in parts)


class _Solved(NamedTuple):
    """An upper inverse p = q + (1−q)y, 1 − q = rest + lost; q, the divergence and p are multiplied by ``scale``."""

    q: Float
    rest: Float
    lost: Any
    divergence: Float
    scale: Any
    y: Float


def _solve(q: Float, divergence: Float, upper: bool) -> _Solved:
    """The upper inverse, or for the lower one that of 1 − q.  A tiny q is scaled; where negligible it becomes 0."""
    if not upper:
        return _Solved(1.0 - q, q, 0.0, divergence, 1.0, rise(1.0 - q, q, divergence))
    scale: Any = 1.0
    rest = 1.0 - q
    lost = (1.0 - rest) - q
    tiny = (q < SMALL) & (q > 0.0)
    if tiny.any():
        scaled = tiny & (divergence < SMALL * 1e40)
        scale = np.where(scaled, SCALE, 1.0)
        q, divergence = np.where(tiny & ~scaled, 0.0, q * scale), divergence * scale
    return _Solved(q, rest, lost, divergence, scale, rise(q, rest, divergence))


def _reached(s: _Solved) -> Float:
    """p of the upper inverse, 1 − p of the lower one."""
    return (s.q + s.rest * s.y) / s.scale


def _remaining(s: _Solved) -> Float:
    """1 − p of the upper inverse, p of the lower one."""
    return s.rest * _share(s)


def _share(s: _Solved) -> Float:
    """(1−p)/(1−q) = 1 − y, or e^−c e^−u where y is not small."""
    c = np.minimum(s.divergence / s.rest, FAR)
    # c is rounded, and e^−c is sensitive to it: ``lacking`` is the rounding error, by an exact product c·rest.
    high, low = two_product(c, s.rest)
    lacking = np.where(c < FAR, (((s.divergence - high) - low) - c * s.lost) / s.rest, 0.0)
    far = np.exp(-c) * np.exp(-(log_rise(s.q, s.rest, odds(s.q, s.rest), s.y) + lacking))
    near = (s.y < 0.5 * s.q) | (s.rest == 0.0) | (s.divergence == 0.0)
    return np.where(near, 1.0 - s.y, far)


def _slopes(risk: Float, s: _Solved) -> tuple[Float, Float]:
    """∂p/∂q and |∂p/∂d|: the latter is p(1−p)/(p−q), and the former that times logit p − logit q = ln(p/q) + c + u."""
    p, share, d = _reached(s), _share(s), s.rest * s.y
    in_divergence = (s.q + d) / s.y * share
    c = np.minimum(s.divergence / s.rest, FAR)
    log = np.where(s.q > 0.0, np.log1p(d / s.q), np.log(p) - np.log(risk))
    in_q = in_divergence * (log + (c + log_rise(s.q, s.rest, odds(s.q, s.rest), s.y)))
    # The limits: d = 0, then q = 1, then p = 1.
    still, end = s.divergence == 0.0, s.rest == 0.0
    in_divergence = np.where(end, 0.0, np.where(still, np.where(s.q == 0.0, 1.0, np.inf), in_divergence))
    return np.where(still, 1.0, np.where(end | (share == 0.0), 0.0, in_q)), in_divergence
