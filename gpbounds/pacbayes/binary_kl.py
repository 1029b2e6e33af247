"""kl(q‖p) of two Bernoulli laws, without cancellation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import closed_unit

NEAR = 0.6
"""The series is used where |b − a|/(a + b) is at most this: a/4 <= b <= 4a."""


def kl(q: ArrayLike, p: ArrayLike) -> Any:
    """Binary Kullback-Leibler divergence of the Bernoulli law of mean q from the one of mean p.

    kl(q‖p) = q ln(q/p) + (1−q) ln((1−q)/(1−p)) ≥ 2(p−q)², with 0 ln 0 = 0; infinite where p = 0 < q or p = 1 > q.

    Claims P-02 and P-05 (Reeb et al., §2.2).  Evaluated as D(q, p) + D(1−q, 1−p) with D(a, b) = a ln(a/b) − a + b ≥ 0,
    so that nothing cancels for p ≈ q: the error is at most 4 ulp for all doubles in [0, 1]².

    Parameters
    ----------
    q, p : float or array in [0, 1]
        They broadcast.

    Raises
    ------
    ValueError
        for numbers outside [0, 1].

    >>> float(kl(0.02, 0.05)), float(kl(0.5, 0.5 + 1e-9))
    (0.012142960691147363, 1.9999998868722757e-18)
    """
    q, p = closed_unit("q", q), closed_unit("p", p)
    d = p - q
    with np.errstate(all="ignore"):
        return (_excess(q, p, d) + _excess(1.0 - q, 1.0 - p, -d))[()]


def _excess(a: Float, b: Float, d: Float) -> Float:
    """D(a, b) = a ln(a/b) − a + b for a, b >= 0, d = b − a."""
    z = d / (a + b)
    square = z * z
    near = z * (d - 2.0 * a * square * artanh_remainder(square, 36))  # ln(b/a) = 2 artanh z
    above = d - a * _log_ratio(b, a)
    below = a * (_log_ratio(a, b) - 1.0) + b
    far = np.where(d > 0.0, np.where(a == 0.0, b, above), below)
    return np.where(d == 0.0, 0.0, np.where(np.abs(z) <= NEAR, near, far))


def _log_ratio(a: Float, b: Float) -> Float:
    """ln(a/b), also where a/b overflows."""
    ratio = a / b
    return np.where(ratio < np.inf, np.log(ratio), np.log(a) - np.log(b))


def artanh_remainder(square: Float, terms: int) -> Float:
    """(artanh z − z)/z³ = 1/3 + z²/5 + z⁴/7 + ... at z² = ``square``, cut after ``terms`` terms.

    Full accuracy needs 36 terms for z² up to 0.36, and 17 for z² up to 1/9.

    >>> round(float(artanh_remainder(np.array(0.36), 36)) * 0.6**3 + 0.6, 12), round(float(np.arctanh(0.6)), 12)
    (0.69314718056, 0.69314718056)
    """
    total = np.zeros_like(square)
    for k in range(2 * terms + 1, 1, -2):
        total *= square
        total += 1.0 / k
    return total
