"""The inverse of the binary kl in its second argument: both sides, the complement, the gradient."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from gpbounds.pacbayes.nearest import nearest_gradient, nearest_inverse
from gpbounds.validation import choice, closed_unit, extended

Side = Literal["upper", "lower"]


def kl_inverse(
    q: ArrayLike, eps: ArrayLike, side: Side = "upper", complement: bool = False, certified: bool = False
) -> Any:
    """Largest (upper) or smallest (lower) p with kl(q‖p) ≤ ε.

    kl⁻¹(q, ε) = max{p : kl(q‖p) ≤ ε}, for q < 1 and ε < ∞ the only p in [q, 1] with kl(q‖p) = ε; 1 at q = 1 and at
    ε = ∞, 1 − e^−ε at q = 0.  The lower inverse is 1 − kl⁻¹(1−q, ε).

    Claims P-03, P-04 (Reeb et al., Eq. 3 and App. A).  Increasing in q and ε, and jointly concave (the upper one).
    Within 4 ulp for p and, with ``complement``, for 1 − p, on either side and everywhere on [0, 1] × [0, ∞]; neither is
    the rounded difference of the other.  Rounding may take back up to 2 ulp between neighbouring arguments.
    ``certified=True`` (P-12): never on the wrong side of the truth, at most 1 ulp from it, and monotone; each value is
    settled with Arb balls.

    Parameters
    ----------
    q : float or array in [0, 1]
        Empirical risk.
    eps : float or array in [0, ∞]
        Right-hand side of kl(q‖p) ≤ ε, in nats.  q and eps broadcast.
    side : "upper" or "lower"
    complement : bool
        Return 1 − p; certified, it is rounded the other way.
    certified : bool
        Upper: at least the true p (1 − p: at most).  Lower: at most the true p (1 − p: at least).

    Raises
    ------
    ValueError
        for q outside [0, 1] or ε < 0.

    >>> float(kl_inverse(0.02, 0.05)), float(kl_inverse(0.02, 0.05, side="lower"))
    (0.09857216773672912, 0.0006291650895190931)
    >>> float(kl_inverse(0.5, 300.0)), float(kl_inverse(0.5, 300.0, complement=True))
    (1.0, 6.625991382510777e-262)
    """
    q, eps, upper = closed_unit("q", q), extended("eps", eps), choice("side", side, ("upper", "lower")) == "upper"
    if certified:
        from gpbounds.pacbayes.certified import certified_inverse

        return certified_inverse(q, eps, upper, complement)[()]
    return nearest_inverse(q, eps, upper, complement)[()]


def kl_inverse_gradient(q: ArrayLike, eps: ArrayLike, side: Side = "upper") -> tuple[Any, Any]:
    """Partial derivatives (∂/∂q, ∂/∂ε) of the inverse p = kl⁻¹(q, ε).

    ∂p/∂q = p(1−p)(logit p − logit q)/(p−q) > 0,   ∂p/∂ε = p(1−p)/(p−q) (> 0 for the upper, < 0 for the lower inverse).

    Claims P-06, P-07 (Reeb et al., Eq. 12, 13), to a few ulp.  Limits: at ε = 0 they are 1 and ±∞ (∂p/∂ε = ±1 at
    q = 0 of the upper, q = 1 of the lower inverse, 0 at the other end); at ε = ∞ both are 0; for ε > 0 the upper
    inverse has ∂p/∂q = ∞ at q = 0 and both are 0 at q = 1; the lower one the other way round.

    Parameters
    ----------
    q : float or array in [0, 1]
    eps : float or array in [0, ∞]
    side : "upper" or "lower"

    Raises
    ------
    ValueError
        for q outside [0, 1] or ε < 0.

    >>> in_q, in_eps = kl_inverse_gradient(0.02, 0.05)
    >>> round(float(in_q), 6), round(float(in_eps), 6)
    (1.898328, 1.13088)
    """
    q, eps, upper = closed_unit("q", q), extended("eps", eps), choice("side", side, ("upper", "lower")) == "upper"
    in_q, in_eps = nearest_gradient(q, eps, upper)
    return in_q[()], (in_eps if upper else 0.0 - in_eps)[()]
