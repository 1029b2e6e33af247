"""Elementary bounds on both roots of x − 1 − log x = 2γ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation


def explicit(gamma: ArrayLike, *, form: str = "sharpest") -> tuple[Any, Any, Any, Any]:
    """Elementary bounds (b_low, b_high, t_low, t_high) on the roots b ≤ 1 ≤ t of x − 1 − log x = 2γ.

    With v = 2√γ, exp(x − 1 − 2γ) at x = max(0, 1 − v) and x = e^(−v) encloses b, and 1 + 2γ + log x at x = 1 + v + v²/3
    and x = 1 + v + min(v²/2, v²/3 + v³/36) encloses t: all four agree with b and t to first order in v, and in ratio as
    γ → ∞.  ``form="printed"`` is footnote 2 of Prop. 4: max(1 − 2√γ, e^(−1−2γ)) ≤ b ≤ 1 and 1 ≤ t ≤ 1 + max(√(8γ), 8γ),
    which are wider.  For accurate numbers use :func:`roots`.

    The proof is that of L-33.

    Parameters
    ----------
    gamma : float or array
        γ ≥ 0, in nats.
    form : "sharpest" or "printed"

    Raises
    ------
    ValueError
        for γ < 0, NaN or infinity, or another form.

    >>> [round(x, 4) for x in explicit(0.01)]
    [0.8025, 0.8177, 1.2134, 1.2136]
    >>> [round(x, 4) for x in explicit(0.01, form="printed")]
    [0.8, 1.0, 1.0, 1.2828]
    """
    g = validation.non_negative("gamma", gamma)
    v = 2.0 * np.sqrt(g)
    if validation.choice("form", form, ("sharpest", "printed")) == "printed":
        ones = np.ones_like(g)
        bounds = (
            np.maximum(1.0 - v, np.exp(-1.0 - 2.0 * g)),
            ones,
            ones,
            1.0 + np.maximum(np.sqrt(8.0) * v / 2.0, 8.0 * g),
        )
    else:
        two = 2.0 * g
        least, most = v + v * v / 3.0, v + np.minimum(two, two / 1.5 + v / 9.0 * g)
        bounds = (
            np.exp(-two - np.minimum(1.0, v)),
            np.exp(np.expm1(-v) - two),
            1.0 + (two + np.log1p(least)),
            1.0 + (two + np.log1p(most)),
        )
    return tuple(float(x) if g.ndim == 0 else x for x in bounds)  # type: ignore[return-value]
