"""What a bounded loss is, and what its expectation may move by when the prediction is not known exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_reals, broadcastable, namespace, over_blocks
from gpbounds.losses.normal import ROOT_TWO_PI, sum_and_rest
from gpbounds.records import Named

ROUNDING = 16.0 * EPS
"""What an expectation may be off by; the largest error seen against 90 digits is 2.1 eps."""

SPREAD = float(np.sqrt(2.0 / (np.pi * np.e)))
"""|d TV / d log s| of N(m, s²): ½E|z² − 1| = 2ϕ(1)."""


class Loss(Named, ABC):
    """A loss ℓ(y, v) in [0, 1] with its mean over a Gaussian prediction v ~ N(m, s²).

    Arrays broadcast; NumPy in, NumPy out, CuPy in, CuPy out, always in double precision.  s² is the variance of the
    *latent* prediction: a Gibbs risk leaves the noise out.  s² = 0 is the point mass at m.
    """

    @abstractmethod
    def _value(self, y: Array, v: Array) -> Array: ...

    @abstractmethod
    def _expectation(self, y: Array, m: Array, s: Array) -> Array: ...

    @abstractmethod
    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]: ...

    def _steepness(self, y: Array) -> Array | None:
        """A Lipschitz constant of ℓ in v; None where it jumps."""
        return None

    def value(self, y: ArrayLike | Array, v: ArrayLike | Array) -> Any:
        """ℓ(y, v), arrays that broadcast."""
        xp, arrays = broadcastable(y=y, v=v)
        self._check(arrays[0])
        return over_blocks(lambda *a: (self._value(*a),), xp, *arrays)[0]

    def expectation(self, y: ArrayLike | Array, m: ArrayLike | Array, s2: ArrayLike | Array) -> Any:
        """E ℓ(y, v), v ~ N(m, s²).

        Parameters
        ----------
        y : array
            Targets.
        m, s2 : arrays
            Mean and latent variance of the predictions, s² ≥ 0.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, NaN or infinity.
        """
        xp, arrays = self._prediction(y, m, s2)
        return over_blocks(lambda y, m, s2: (self._expectation(y, m, xp.sqrt(s2)),), xp, *arrays)[0]

    def gradient(self, y: ArrayLike | Array, m: ArrayLike | Array, s2: ArrayLike | Array) -> tuple[Any, Any]:
        """(∂E/∂m, ∂E/∂s²); at s² = 0 their limits, which are infinite on a jump or a kink of the loss.

        Parameters and errors as in `expectation`.
        """
        xp, arrays = self._prediction(y, m, s2)
        first, second = over_blocks(lambda y, m, s2: self._gradient(y, m, xp.sqrt(s2)), xp, *arrays)
        return first, second

    def allowance(
        self,
        y: ArrayLike | Array,
        m: ArrayLike | Array,
        s2: ArrayLike | Array,
        mean_error: ArrayLike | Array = 0.0,
        variance_error: ArrayLike | Array = 0.0,
    ) -> Any:
        """A bound on |E' − `expectation`(y, m, s2)|, E' the mean over any N(m', s'²) near by, rounding included.

        |m' − m| ≤ mean_error, |s'² − s²| ≤ variance_error.  The least of 1, the total variation bound
        mean_error/(s√(2π)) + √(2/(πe)) log(s/s_least), and for a loss with Lipschitz constant C in v
        C (mean_error + √(2/π) |s' − s|), by the coupling v' = m' + (s'/s)(v − m).

        Parameters
        ----------
        y, m, s2 : as in `expectation`
        mean_error, variance_error : arrays >= 0, infinite where nothing is known
        """
        xp, arrays = self._prediction(y, m, s2)
        errors = [as_reals(xp, n, v) for n, v in (("mean_error", mean_error), ("variance_error", variance_error))]
        for name, error in zip(("mean_error", "variance_error"), errors, strict=True):
            if not bool((error >= 0.0).all()):
                raise ValueError(f"{name}: expected numbers >= 0, got {float(error.min())!r}")

        def bounded(y: Array, m: Array, s2: Array, *errors: Array) -> tuple[Array]:
            return (self._allowance(y, m, xp.sqrt(s2), *errors),)

        return over_blocks(bounded, xp, *arrays, *errors)[0]

    def _allowance(self, y: Array, m: Array, s: Array, mean_error: Array, variance_error: Array) -> Array:
        xp = namespace(y)
        least, most = spread(s, variance_error)
        moved = xp.where(mean_error == 0.0, 0.0, mean_error / (ROOT_TWO_PI * s))
        scaled = xp.where(variance_error == 0.0, 0.0, SPREAD * xp.log(s / least))
        found = moved + scaled
        steep = self._steepness(y)
        if steep is not None:
            found = xp.minimum(found, steep * (mean_error + 0.8 * xp.maximum(s - least, most - s)))  # √(2/π) < 0.8
        return xp.where(found <= 1.0, found, 1.0) + ROUNDING  # NaN, from 0/0, counts as 1

    def _prediction(self, y: Any, m: Any, s2: Any) -> tuple[Any, list[Array]]:
        xp, (targets, means, variances) = broadcastable(y=y, m=m, s2=s2)
        if bool((variances < 0.0).any()):
            raise ValueError(f"s2: expected variances >= 0, got {float(variances.min())!r}")
        self._check(targets)
        return xp, [targets, means, variances]

    def _objection(self, y: Array) -> str:
        """What makes a target senseless for this loss; empty where nothing does."""
        return ""

    def _check(self, y: Array) -> None:
        objection = self._objection(y)
        if objection:
            raise ValueError(objection)


def spread(s: Array, variance_error: Array) -> tuple[Array, Array]:
    """The least and the largest standard deviation whose square is within ``variance_error`` of s²."""
    xp = namespace(s)
    return xp.sqrt(xp.maximum(s * s - variance_error, 0.0)), xp.sqrt(s * s + variance_error)


def deviation(y: Array, m: Array) -> tuple[Array, Array]:
    """y − m as a double and what rounding took from it."""
    return sum_and_rest(y, -m)


def beyond(y: Array, m: Array, width: Any) -> tuple[Array, Array, Array]:
    """|y − m|, |y − m| − width and the sign of y − m; the difference to full accuracy however much it cancels."""
    xp = namespace(y)
    high, low = deviation(y, m)
    size, sign = xp.abs(high), xp.sign(high)
    near, rest = sum_and_rest(size, -width)
    return size, near + (rest + sign * low), sign
