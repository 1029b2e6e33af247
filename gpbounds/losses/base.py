"""Bounded losses, and bounds on the change of their expectations if the prediction is only approximate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_reals, broadcastable, namespace, over_blocks
from gpbounds.losses import cuda
from gpbounds.losses.normal import ROOT_TWO_PI, sum_and_rest
from gpbounds.records import Named
from gpbounds.validation import flag, instance

ROUNDING = 16.0 * EPS
"""Bound on the rounding error of an expectation; the largest error measured against 90 digits is 2.1 eps."""

SPREAD = math.sqrt(2.0 / (math.pi * math.e))
"""|d TV / d log s| of N(m, s²), TV the total variation: ½E|z² − 1| = 2ϕ(1)."""


class Loss(Named, ABC):
    """A loss ℓ(y, f) in [0, 1] with its mean over a Gaussian prediction f ~ N(m, v).

    Arrays broadcast; NumPy in, NumPy out, CuPy in, CuPy out, always in double precision.  v is the variance of the
    *latent* prediction: a Gibbs risk does not include the noise.  v = 0 is the point mass at m.
    """

    zero_one: ClassVar[bool] = False
    """Whether ℓ takes the values 0 and 1 only, and is 0 for f in an interval: then ℓ(y, m) ≤ 4 (E ℓ)² (N-sign)."""

    # A subclass defines these, on flat arrays of one length, with s = √v.
    @abstractmethod
    def _value(self, y: Array, f: Array) -> Array: ...

    @abstractmethod
    def _expectation(self, y: Array, m: Array, s: Array) -> Array: ...

    @abstractmethod
    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]: ...

    def _source(self) -> cuda.LossSource | None:
        """The loss as a kernel for a GPU, if it has one."""
        return None

    def _steepness(self, y: Array) -> Array | None:
        """A Lipschitz constant of ℓ in f; None where it jumps."""
        return None

    def value(self, y: ArrayLike | Array, f: ArrayLike | Array) -> Any:
        """ℓ(y, f), arrays that broadcast."""
        xp, arrays = broadcastable(y=y, f=f)
        self._check(arrays[0])
        return over_blocks(lambda *a: (self._value(*a),), xp, *arrays)[0]

    def expectation(
        self, y: ArrayLike | Array, m: ArrayLike | Array, v: ArrayLike | Array, *, gradient: bool = False
    ) -> Any:
        """E ℓ(y, f), f ~ N(m, v).

        Parameters
        ----------
        y : array
            Targets.
        m, v : arrays
            Mean and latent variance of the predictions, v ≥ 0.
        gradient : bool
            Return (E, ∂E/∂m, ∂E/∂v); at v = 0 their limits, which are infinite on a jump or a kink of the loss.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, NaN or infinity.
        """
        flag("gradient", gradient)
        xp, arrays = self._prediction(y, m, v)
        if xp is not np and (source := self._source()) is not None:
            results = cuda.expectation(source, *arrays)
            return results if gradient else results[0]
        if not gradient:
            return over_blocks(lambda y, m, v: (self._expectation(y, m, xp.sqrt(v)),), xp, *arrays)[0]

        def with_gradient(y: Array, m: Array, v: Array) -> tuple[Array, ...]:
            s = xp.sqrt(v)
            return self._expectation(y, m, s), *self._gradient(y, m, s)

        return over_blocks(with_gradient, xp, *arrays)

    def slopes(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """As `expectation` with its derivatives, for flat arrays of doubles that the caller has checked.

        On a GPU nothing is read there; a variance below 0 gives NaN.
        """
        source = None if namespace(y, m, v) is np else self._source()
        if source is None:
            values, in_mean, in_variance = self.expectation(y, m, v, gradient=True)
            return values, in_mean, in_variance
        return cuda.expectation(source, y, m, v)

    def allowance(
        self,
        y: ArrayLike | Array,
        m: ArrayLike | Array,
        v: ArrayLike | Array,
        mean_error: ArrayLike | Array = 0.0,
        variance_error: ArrayLike | Array = 0.0,
    ) -> Any:
        """A bound on |E' − `expectation`(y, m, v)|, rounding included, E' the mean over any N(m', v') close to N(m, v).

        |m' − m| ≤ mean_error, |v' − v| ≤ variance_error.  With s = √v it is the least of 1, the total variation bound
        mean_error/(s√(2π)) + √(2/(πe)) log(s/s_least), and for a loss with Lipschitz constant C in f
        C (mean_error + √(2/π) |s' − s|), by the coupling f' = m' + (s'/s)(f − m).

        Parameters
        ----------
        y, m, v : as in `expectation`
        mean_error, variance_error : arrays >= 0
            Infinite where no error bound exists.
        """
        xp, arrays = self._prediction(y, m, v)
        errors = [as_reals(xp, n, e) for n, e in (("mean_error", mean_error), ("variance_error", variance_error))]
        for name, error in zip(("mean_error", "variance_error"), errors, strict=True):
            if not bool((error >= 0.0).all()):
                raise ValueError(f"{name}: expected numbers >= 0, got {float(error.min())!r}")
        try:
            np.broadcast_shapes(*(each.shape for each in (*arrays, *errors)))
        except ValueError:
            raise ValueError(
                "y, m, v, mean_error, variance_error: expected shapes that broadcast, got "
                f"{[tuple(each.shape) for each in (*arrays, *errors)]}"
            ) from None

        def bounded(y: Array, m: Array, v: Array, *errors: Array) -> tuple[Array]:
            return (self._allowance(y, m, xp.sqrt(v), *errors),)

        return over_blocks(bounded, xp, *arrays, *errors)[0]

    def _allowance(self, y: Array, m: Array, s: Array, mean_error: Array, variance_error: Array) -> Array:
        xp = namespace(y)
        least, most = spread(s, variance_error)
        moved = xp.where(mean_error == 0.0, 0.0, mean_error / (ROOT_TWO_PI * s))
        scaled = xp.where(variance_error == 0.0, 0.0, SPREAD * xp.log(s / least))
        allowed = moved + scaled
        steep = self._steepness(y)
        if steep is not None:
            coupled = steep * (mean_error + 0.8 * xp.maximum(s - least, most - s))  # √(2/π) < 0.8
            allowed = xp.minimum(allowed, coupled)
        return xp.where(allowed <= 1.0, allowed, 1.0) + ROUNDING  # NaN, from 0/0, counts as 1

    def _prediction(self, y: Any, m: Any, v: Any) -> tuple[Any, list[Array]]:
        xp, (targets, means, variances) = broadcastable(y=y, m=m, v=v)
        if bool((variances < 0.0).any()):
            raise ValueError(f"v: expected variances >= 0, got {float(variances.min())!r}")
        self._check(targets)
        return xp, [targets, means, variances]

    def _objection(self, y: Array) -> str:
        """Why this loss is not defined for a target; empty where it is."""
        return ""

    def _check(self, y: Array) -> None:
        objection = self._objection(y)
        if objection:
            raise ValueError(objection)


def as_loss(loss: object) -> Loss:
    """The loss, or an error that says what one is."""
    known: Loss = instance("loss", loss, Loss, "one of gpbounds.losses, such as Band(0.5)")
    return known


def spread(s: Array, variance_error: Array) -> tuple[Array, Array]:
    """The least and the largest standard deviation with a square within ``variance_error`` of s², rounded outwards."""
    xp = namespace(s)
    squares = s * s
    error = xp.where(variance_error == 0.0, 0.0, variance_error + 4.0 * EPS * (squares + variance_error))
    return xp.sqrt(xp.maximum(squares - error, 0.0)), xp.sqrt(squares + error)


def deviation(y: Array, m: Array) -> tuple[Array, Array]:
    """y − m as a double, and the rest that rounding cut off."""
    return sum_and_rest(y, -m)


def beyond(y: Array, m: Array, width: Any) -> tuple[Array, Array, Array]:
    """|y − m|, |y − m| − width and the sign of y − m; cancellation costs the difference no relative accuracy."""
    xp = namespace(y)
    high, low = deviation(y, m)
    size, sign = xp.abs(high), xp.sign(high)
    near, rest = sum_and_rest(size, -width)
    return size, near + (rest + sign * low), sign
