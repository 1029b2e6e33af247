"""How much rounding may change a sparse posterior, its KL and its predictions: first-order estimates, a posteriori.

The computed Cholesky factor and triangular solves are exact for a perturbed Kuu + E and perturbed columns k + δ of
Kuf.  |E| = (4 + √M) eps |Kuu|_F + M·entry_error, the kind of estimate that `gap` makes, and |δ| = (4 + √M) eps
√(k(x,x) k_M) + √M·entry_error, k_M the largest entry of Kuu's diagonal, as |k(z,x)| ≤ √(k(z,z) k(x,x)).  Their effect
is a function of the vectors e = L⁻ᵀμ, w = L⁻ᵀV and the matrix H = L⁻ᵀC, P⁻¹ = HHᵀ, which grow with the condition number
of Kuu only if the data require it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.linalg import Cholesky
from gpbounds.whitening import Inducing


def norm(A: Array) -> float:
    """Frobenius norm."""
    return float(namespace(A).sqrt((A * A).sum()))


def factor_error(chol: Cholesky, shift: float) -> float:
    """|F| where the computed Cholesky factor is L(I + F): at most |L⁻¹|_F² |E|/√2; infinite if that is 1/10 or more.

    >>> factor_error(Cholesky(np.eye(2), 0.0), 1e-15) < 2e-15
    True
    """
    inverse = chol.solve_lower(namespace(chol.L).eye(chol.L.shape[0]))
    F = shift * norm(inverse) ** 2 / np.sqrt(2.0)
    return float(1.25 * F) if F < 0.1 else np.inf


@dataclass(frozen=True)
class Rounding:
    """The sizes of E and δ, for one set of inducing points.

    Attributes
    ----------
    E : float
        |E|.
    steps : float
        (4 + √M) eps, so that |δ| = steps·root·√k(x,x) + entry.
    entry : float
        √M·entry_error.
    root : float
        √k_M.
    F : float
        Relative error of L, as `factor_error`.
    """

    E: float
    steps: float
    entry: float
    root: float
    F: float

    def of_columns(self, roots: Array) -> Array:
        """|δ| of the columns at points with these √k(x,x)."""
        return self.steps * self.root * roots + self.entry

    @staticmethod
    def of(inducing: Inducing, entry_error: float) -> Rounding:
        """The sizes for ``inducing``, if the kernel's values have errors of at most ``entry_error``."""
        steps = float((4.0 + np.sqrt(inducing.M)) * EPS)
        Kuu = inducing.chol.L @ inducing.chol.L.T
        E = steps * norm(Kuu) + inducing.M * entry_error
        entry, root = np.sqrt(inducing.M) * entry_error, float(Kuu.diagonal().max()) ** 0.5
        return Rounding(E, steps, float(entry), root, factor_error(inducing.chol, E))


@dataclass(frozen=True)
class Errors:
    """Bounds on the changes of KL, means and variances, as polynomials in √k(x,x), |CᵀV| and |w| at x.

    Attributes
    ----------
    rounding : Rounding
    weights : float
        |e|: a change δ of k(Z, x) moves the mean by δᵀe.
    size : float
        |μ|.
    kl : float
        Change of the KL.
    mean_half, mean_lift, mean_root : float
        Coefficients of |CᵀV|, |w| and √k(x,x) in the change of the mean.
    variance_half, variance_cross, variance_root : float
        Coefficients of |CᵀV|², |w||CᵀV| and √k(x,x)|CᵀV| in the change of the variance.
    """

    rounding: Rounding
    weights: float
    size: float
    kl: float = 0.0
    mean_half: float = 0.0
    mean_lift: float = 0.0
    mean_root: float = 0.0
    variance_half: float = 0.0
    variance_cross: float = 0.0
    variance_root: float = 0.0

    def of_mean(self, root: Array, half: Array, lift: Array) -> Array:
        """Change of the mean m + kᵀe."""
        delta = self.rounding.of_columns(root)
        own = self.rounding.steps * self.size * root + self.weights * delta
        return times(self.mean_half, half) + times(self.mean_lift, lift) + times(self.mean_root, root) + own

    def of_variance(self, root: Array, half: Array, lift: Array) -> Array:
        """Change of the variance k(x,x) − kᵀKuu⁻¹k + |CᵀV|²."""
        delta = self.rounding.of_columns(root)
        left = self.rounding.E * lift * lift + 2.0 * delta * lift + 2.0 * self.rounding.steps * root * root
        within = times(self.variance_half, half * half) + times(self.variance_cross, lift * half)
        return left + within + times(self.variance_root, root * half)


def times(coefficient: float, x: Array) -> Array:
    """coefficient·x, 0 where x = 0 even if the coefficient is infinite."""
    if np.isfinite(coefficient):
        return coefficient * x
    return namespace(x).where(x == 0.0, 0.0, np.inf)


def whitened_errors(rounding: Rounding, inducing: Inducing, mu: Array, C: Array) -> Errors:
    """μ and C define Q: the KL is exact for them, and the predictions inherit the error F of L.

    The computed V is (I + F)⁻¹V: the mean changes by |F||μ|√k, |CᵀV|² by 2|F||C||CᵀV|√k.
    """
    size, spread = norm(mu), norm(C)
    return Errors(
        rounding,
        weights=norm(inducing.lift(mu)),
        size=size,
        mean_root=rounding.F * size if size > 0.0 else 0.0,
        variance_root=2.0 * rounding.F * spread,
    )


def free_errors(rounding: Rounding, inducing: Inducing, mu: Array, C: Array, covariance: Cholesky) -> Errors:
    """a and B define Q; the Cholesky factor of B has the relative error F_B.

    mean = wᵀ(a − m): E moves it by |w||E||e|; wᵀBw moves by 2|w||E||H||CᵀV| and F_B; and the KL by
    ½|E|(|H|² + tr Kuu⁻¹ + |e|²) + F_B(tr CCᵀ + √M).
    """
    H, e, size = norm(inducing.lift(C)), norm(inducing.lift(mu)), norm(mu)
    within = factor_error(covariance, rounding.steps * norm(covariance.L) ** 2)
    inverse = norm(inducing.chol.solve_lower(namespace(mu).eye(inducing.M)))
    kl = 0.5 * rounding.E * (H**2 + inverse**2 + e**2) + within * (norm(C) ** 2 + np.sqrt(inducing.M))
    return Errors(
        rounding,
        weights=e,
        size=size,
        kl=float(kl),
        mean_lift=rounding.E * e,
        variance_half=2.0 * within,
        variance_cross=2.0 * rounding.E * H,
    )
