"""The squared exponential (RBF, Gaussian) kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels.base import Stationary


@dataclass(frozen=True, eq=False)
class SquaredExponential(Stationary):
    """k(x, x') = variance · exp(-r²/2), r² = Σ_d (x_d - x'_d)²/lengthscale_d².

    Parameters
    ----------
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        In the units of x.

    Raises
    ------
    ValueError
        for a variance or lengthscale that is not positive and finite.

    >>> SquaredExponential(variance=2.0, lengthscale=0.5)([[0.0], [0.5]]).round(4)
    array([[2.    , 1.2131],
           [1.2131, 2.    ]])
    """

    def correlation(self, squared: Array) -> Array:
        """exp(-r²/2)."""
        return namespace(squared).exp(-0.5 * squared)

    @property
    def formula(self) -> str:
        return "variance * exp(-0.5 * s)"

    def covariance(self, squared: Array) -> Array:
        squared *= -0.5
        K = namespace(squared).exp(squared, out=squared)
        K *= self.variance
        return K

    def slope(self, squared: Array) -> Array:
        """−2 dρ/d(r²) = ρ."""
        return self.correlation(squared)

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        cotangent *= self(X1, X2) if value is None else value
        return self._pulled(self._scaled(X1, "X1"), self._scaled(X2, "X2"), cotangent, float(cotangent.sum()))
