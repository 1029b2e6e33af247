"""The inverse of the binary kl in its second argument: upper and lower, its complement, its derivatives."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.numerics.search import first_double
from gpbounds.pacbayes.binary_kl import nearest_gradient, nearest_inverse
from gpbounds.rigor import exact, sign
from gpbounds.validation import broadcast, choice, closed_unit, extended, flag, rigor_of

Side = Literal["upper", "lower"]


def kl_inverse(
    q: ArrayLike,
    divergence: ArrayLike,
    side: Side = "upper",
    complement: bool = False,
    certified: bool | None = None,
    *,
    rigor: str = "auto",
    gradient: bool = False,
) -> Any:
    """Largest (upper) or smallest (lower) p with kl(q‖p) ≤ d, d = ``divergence``.

    kl⁻¹(q, d) = max{p : kl(q‖p) ≤ d}, for q < 1 and d < ∞ the only p in [q, 1] with kl(q‖p) = d; 1 at q = 1 and at
    d = ∞, 1 − e^−d at q = 0.  The lower inverse is 1 − kl⁻¹(1−q, d).

    ∂p/∂q = p(1−p)(logit p − logit q)/(p−q) > 0,   ∂p/∂d = p(1−p)/(p−q) (> 0 for the upper, < 0 for the lower inverse).

    Claims P-03, P-04, P-06, P-07 (Reeb et al., Eq. 3, 12, 13 and App. A).  The upper inverse increases in q and d and
    is jointly concave.  p and, with ``complement``, 1 − p are within 4 ulp on all of [0, 1] × [0, ∞]; neither is
    computed as 1 minus the other.  At neighbouring arguments rounding may reverse the order of values, by up to 2 ulp.
    ``rigor="sharp"`` (P-12): the value is at least (upper) or at most (lower) the true one, within 1 ulp of it, and
    monotone in q and d; Arb balls prove each value.

    The derivatives are accurate to a few ulp.  Their limits: at d = 0 they are 1 and ±∞ (∂p/∂d = ±1 at q = 0 of the
    upper, q = 1 of the lower inverse, 0 at the other end); at d = ∞ both are 0; for d > 0 the upper inverse has
    ∂p/∂q = ∞ at q = 0 and both are 0 at q = 1; for the lower inverse exchange q = 0 and q = 1.

    Parameters
    ----------
    q : float or array in [0, 1]
        Empirical risk.
    divergence : float or array in [0, ∞]
        Right-hand side d of kl(q‖p) ≤ d, in nats.  It broadcasts with q.
    side : "upper" or "lower"
    complement : bool
        Return 1 − p; with "sharp" it is rounded in the opposite direction.
    rigor : "auto", "float" or "sharp"
        "sharp".  Upper: at least the true p (1 − p: at most).  Lower: at most the true p (1 − p: at least).  The others
        are within 4 ulp, on no side.  ``certified=True`` is an old spelling of "sharp".
    gradient : bool
        Return (p, ∂p/∂q, ∂p/∂d); with ``complement`` (1 − p, −∂p/∂q, −∂p/∂d).

    Raises
    ------
    ValueError
        for q outside [0, 1] or d < 0.

    >>> [round(float(kl_inverse(0.02, 0.05, side=side)), 12) for side in ("upper", "lower")]
    [0.098572167737, 0.00062916509]
    >>> float(kl_inverse(0.5, 300.0)), float(kl_inverse(0.5, 300.0, complement=True))
    (1.0, 6.625991382510777e-262)
    >>> [round(float(part), 6) for part in kl_inverse(0.02, 0.05, gradient=True)]
    [0.098572, 1.898328, 1.13088]
    """
    risk, nats = broadcast(q=closed_unit("q", q), divergence=extended("divergence", divergence))
    flag("complement", complement)
    flag("gradient", gradient)
    upper = choice("side", side, ("upper", "lower")) == "upper"
    if rigor_of(rigor, certified) == "sharp":
        value = _certified_inverse(risk, nats, upper, complement)[()]
    else:
        value = nearest_inverse(risk, nats, upper, complement)[()]
    if not gradient:
        return value
    in_q, in_divergence = nearest_gradient(risk, nats, upper)
    if not upper:
        in_divergence = 0.0 - in_divergence
    if complement:
        in_q, in_divergence = 0.0 - in_q, 0.0 - in_divergence
    return value, in_q[()], in_divergence[()]


# The certified inverse of the binary kl: the next double in the safe direction, decided with Arb balls.


def _certified_inverse(q: Float, divergence: Float, upper: bool, complement: bool) -> Float:
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
