"""The zero-one loss for labels −1 and 1: 1 where the prediction does not have the sign of the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpbounds.arrays import Array, namespace
from gpbounds.losses import cuda
from gpbounds.losses.base import ROUNDING, Loss, spread
from gpbounds.losses.normal import cdf, density, moment_density, ratio


@dataclass(frozen=True)
class Sign(Loss):
    """The zero-one loss for labels, ℓ(y, f) = 1{y f ≤ 0}, y ∈ {−1, 1}: 1 where f does not have the sign of y.

    E ℓ = Φ(−y m/s),    ∂E/∂m = −y ϕ(m/s)/s,    ∂E/∂v = y m ϕ(m/s)/(2s³),    f ~ N(m, v), s = √v.

    Claim N-sign.  f = 0 is wrong for both labels, and so is a point mass (v = 0) at 0, while the limit s → 0 there is
    ½.  If y m ≤ 0, then E ℓ ≥ ½: so ℓ(y, m), the loss of the vote, the sign of m, is at most 2 E ℓ and at most
    4 (E ℓ)².  Relative error below 8 eps·(1 + m²/v).

    The loss depends on y f, not on y − f: labels can't be shifted or scaled, and no mean can be taken from them.

    Raises
    ------
    ValueError
        for a target that is neither −1 nor 1.

    >>> Sign().value([1.0, 1.0, -1.0], [0.3, 0.0, 0.3]).tolist()
    [0.0, 1.0, 1.0]
    >>> float(Sign().expectation(-1.0, 0.5, 0.25).round(6))  # Φ(1)
    0.841345
    """

    name: ClassVar[str] = "sign"
    zero_one: ClassVar[bool] = True

    def _objection(self, y: Array) -> str:
        wrong = namespace(y).abs(y) != 1.0
        if not bool(wrong.any()):
            return ""
        return (
            f"y: expected the labels -1 and 1, got {float(y[wrong][0])!r}: encode one of two labels as 1 and the other "
            "as -1, and don't scale them"
        )

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.SIGN, 0.0)

    def _value(self, y: Array, f: Array) -> Array:
        return (y * f <= 0.0) * 1.0

    def _expectation(self, y: Array, m: Array, s: Array) -> Array:
        return _not_negative(-y * m, s)

    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]:
        xp = namespace(y)
        a = ratio(m, s)
        slope, bend = -y * density(a), y * moment_density(a)
        return xp.where(slope == 0.0, 0.0, slope / s), xp.where(bend == 0.0, 0.0, 0.5 * bend / s / s)

    def _allowance(self, y: Array, m: Array, s: Array, mean_error: Array, variance_error: Array) -> Array:
        """E rises with −y m, and with s where y m > 0, and falls with s where y m < 0: its ends are at corners."""
        xp = namespace(y)
        least, most = spread(s, variance_error)
        up, down = mean_error - y * m, -y * m - mean_error
        largest = _not_negative(up, xp.where(up >= 0.0, least, most))
        smallest = _not_negative(down, xp.where(down >= 0.0, most, least))
        now = _not_negative(-y * m, s)
        return xp.minimum(xp.maximum(largest - now, now - smallest), 1.0) + ROUNDING


def _not_negative(x: Array, s: Array) -> Array:
    """Φ(x/s), the probability that N(x, s²) is above 0; at s = 0 whether x ≥ 0."""
    probability = cdf(ratio(x, s))
    if bool((s == 0.0).any()):
        probability = namespace(s).where(s == 0.0, (x >= 0.0) * 1.0, probability)
    return probability
