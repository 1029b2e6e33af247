"""E log log(1 + e^f) for f ~ N(m, v): a smooth function that changes sign, against a plain Gaussian."""

from __future__ import annotations

import math

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods.concave import POINT_MASS
from gpbounds.likelihoods.special import log_softplus, softplus, softplus_parts
from gpbounds.likelihoods.trapezoid import DROP, integrate


def mean_log_softplus(m: Array, v: Array, gradient: bool = False) -> tuple[Array, ...]:
    """E log g, g = log(1 + e^f), as m − E k with k = f − log g > 0; with ``gradient`` its derivatives in m and in v.

    ∂_m = E r and ∂_v = ½E r' with r = σ/g, r' = r(1 − σ − r).
    """
    xp = namespace(m)
    s = xp.sqrt(xp.where(v < POINT_MASS, 1.0, v))
    reach = 1.2 * math.sqrt(2.0 * DROP) * s

    def columns(t: Array, m: Array, s: Array) -> list[Array]:
        f = m + t
        weight = xp.exp(-0.5 * (t / s) ** 2) / (math.sqrt(2.0 * math.pi) * s)
        found = [weight * (1.0 + f - log_softplus(f, softplus(f)))]
        if gradient:
            _, _, _, ratio, curve = softplus_parts(f)
            found += [weight * ratio, 0.5 * weight * curve]
        return found

    units = (1.0 / s, 1.0 / (s * s)) if gradient else ()
    sums = integrate(columns, (m, s), -reach, reach, -m, xp.minimum(0.5, reach), 3 if gradient else 1, units)
    found = (m + 1.0 - sums[0], *sums[1:])
    _, _, _, ratio, curve = softplus_parts(m)
    limits = (log_softplus(m, softplus(m)), ratio, 0.5 * curve)
    return tuple(xp.where(v < POINT_MASS, limit, part) for limit, part in zip(limits, found, strict=False))
