"""The inverse of the binary kl in its second argument: upper and lower, its complement, its derivatives."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import ArrayLike

from gpbounds.pacbayes.nearest import nearest_gradient, nearest_inverse
from gpbounds.rigor import rigor_of
from gpbounds.validation import choice, closed_unit, extended

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

    >>> float(kl_inverse(0.02, 0.05)), float(kl_inverse(0.02, 0.05, side="lower"))
    (0.09857216773672912, 0.0006291650895190931)
    >>> float(kl_inverse(0.5, 300.0)), float(kl_inverse(0.5, 300.0, complement=True))
    (1.0, 6.625991382510777e-262)
    >>> [round(float(part), 6) for part in kl_inverse(0.02, 0.05, gradient=True)]
    [0.098572, 1.898328, 1.13088]
    """
    risk, nats = closed_unit("q", q), extended("divergence", divergence)
    upper = choice("side", side, ("upper", "lower")) == "upper"
    if rigor_of(rigor, certified) == "sharp":
        from gpbounds.pacbayes.balls import certified_inverse

        value = certified_inverse(risk, nats, upper, complement)[()]
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
