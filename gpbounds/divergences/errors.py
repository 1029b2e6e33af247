"""How much rounding may change a sparse posterior, its KL and its predictions: proved bounds (N-rounded-kl).

The computed Cholesky factor L̂ is the factor of Kuu + jitter·I + E, and a computed solution V̂ = L̂⁻¹(k + δ) that of a
column k + δ of Kuf (Higham, Accuracy and Stability, Thms 8.5 and 10.3, for any order of summation):

    ‖E‖ ≤ γ_{M+8} tr(L̂L̂ᵀ) + M·entry_error,        |δ| ≤ γ_{M+4} √tr(L̂L̂ᵀ) |V̂| + √M·entry_error.

for variances of at least 1e-300; E may have been measured, see `gpbounds.divergences.measured`.  With F = L̂⁻¹EL̂⁻ᵀ,
Kuu + jitter·I = L̂(I − F)L̂ᵀ, and everything else is exact algebra, in which all orders are counted.  Effects are
functions of e = L̂⁻ᵀμ, w = L̂⁻ᵀV and H = L̂⁻ᵀC, which grow with the condition number of Kuu only if the data require it.
Where F or another relative change is not below `ENOUGH`, the bound is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.linalg import Cholesky
from gpbounds.linalg.products import norm
from gpbounds.whitening import Inducing

U = 0.5 * EPS
ENOUGH = 0.1
"""Largest relative change for which a bound is stated."""
MARGIN = 1.01
"""Covers the rounding of the bounds themselves."""


def gamma(steps: float) -> float:
    """At least n·u/(1 − n·u), the relative error of a sum of n products, in any order.

    >>> gamma(100.0) < 1.2e-14
    True
    """
    return 1.01 * steps * U if steps * U < 0.009 else np.inf


def _inverse_above(chol: Cholesky) -> tuple[float, float]:
    """At least ‖L⁻¹‖_F, and κ ≥ ‖Δ‖ where LX = I + Δ for the computed X = L⁻¹: infinite unless κ ≤ `ENOUGH`.

    Every computed solution of Lᵀx = b has |L⁻ᵀb| ≤ |x|(1 + κ): the backward error of such a solve has the same bound.
    """
    n = chol.L.shape[0]
    X = norm(chol.solve_lower(namespace(chol.L).eye(n)))
    kappa = gamma(n + 4.0) * norm(chol.L) * X
    return (MARGIN * X / (1.0 - kappa), kappa) if kappa <= ENOUGH else (np.inf, np.inf)


@dataclass(frozen=True)
class Rounding:
    """The sizes of E and δ, for one set of inducing points.

    Attributes
    ----------
    E : float
        ‖E‖.
    steps : float
        γ_{M+4}: |δ| ≤ steps·root·|V| + entry.
    entry : float
        √M·entry_error.
    root : float
        √tr(LLᵀ).
    inverse, lifted : float
        At least ‖L⁻¹‖_F, and at least |L⁻ᵀb|/|x| for every computed solution x of Lᵀx = b.
    """

    E: float
    steps: float
    entry: float
    root: float
    inverse: float
    lifted: float

    @property
    def F(self) -> float:
        """An upper bound on the sum of the moduli of the eigenvalues of F."""
        return MARGIN * (self.E * self.inverse) * self.inverse

    @property
    def left(self) -> float:
        """1/(1 − ‖F‖), infinite unless ‖F‖ ≤ `ENOUGH`."""
        return reciprocal(self.F)

    def of_columns(self, lengths: Array) -> Array:
        """|δ| of the columns with these |V|, or with upper bounds of them such as √k(x,x)."""
        return self.steps * self.root * lengths + self.entry

    def lift(self, inducing: Inducing, A: Array) -> float:
        """At least ‖L⁻ᵀA‖_F."""
        return self.lifted * norm(inducing.lift(A))

    @staticmethod
    def of(inducing: Inducing, entry_error: float) -> Rounding:
        """The sizes for ``inducing``, if the kernel's values have errors of at most ``entry_error``."""
        M, root = float(inducing.M), norm(inducing.chol.L)
        E = min(gamma(M + 8.0) * root * root + M * entry_error, inducing.defect)
        inverse, kappa = _inverse_above(inducing.chol)
        steps = MARGIN * gamma(M + 4.0)
        return Rounding(E, steps, float(np.sqrt(M)) * entry_error, root, inverse, MARGIN * (1.0 + kappa))


def square(x: float) -> float:
    """x², infinite where it overflows, for which ``**`` raises an error."""
    return x * x


def reciprocal(share: float) -> float:
    """1/(1 − share), infinite unless share ≤ `ENOUGH`."""
    return 1.0 / (1.0 - share) if share <= ENOUGH else np.inf


@dataclass(frozen=True)
class Errors:
    """Bounds on the changes of KL, means and variances, as polynomials in |V|, |CᵀV| and |w| at x.

    The true mean is (k + δ)ᵀ(e + s'), and the inducing variables contribute the variance
    |CᵀV + d|²(1 + π), |d| ≤ d_length·|V| + d_lift·|w| + d_delta·|δ|, |π| ≤ relative/(1 − relative).

    Attributes
    ----------
    rounding : Rounding
    weights : float
        At least |e + s'|: a change δ of k(Z, x) moves the mean by at most |δ|·weights.
    size, spread : float
        |μ| and ‖C‖_F.
    kl : float
        Change of the KL.
    mean_half, mean_lift, mean_length : float
        Coefficients of |CᵀV|, |w| and |V| in the change of the mean.
    relative : float
    d_length, d_lift, d_delta : float
    """

    rounding: Rounding
    weights: float
    size: float
    spread: float
    kl: float = 0.0
    mean_half: float = 0.0
    mean_lift: float = 0.0
    mean_length: float = 0.0
    relative: float = 0.0
    d_length: float = 0.0
    d_lift: float = 0.0
    d_delta: float = 0.0

    def of_mean(self, length: Array, half: Array, lift: Array) -> Array:
        """Change of the mean m + kᵀe, for these |V|, |CᵀV| and |w|."""
        delta, own = self.rounding.of_columns(length), self.rounding.steps * length
        changes = times(self.mean_half, half + own * self.spread) + times(self.mean_lift * self.rounding.lifted, lift)
        return MARGIN * (changes + times(self.mean_length, length) + own * self.size + times(self.weights, delta))

    def of_variance(self, length: Array, half: Array, lift: Array) -> Array:
        """Change of −kᵀKuu⁻¹k + |CᵀV|²."""
        of, own = self.rounding, self.rounding.steps * length
        delta = of.of_columns(length)
        d = own * self.spread + times(self.d_length, length) + times(self.d_lift * of.lifted, lift)
        d = d + times(self.d_delta, delta)
        within = times(reciprocal(self.relative), d * (2.0 * half + d))
        within = within + times(self.relative * reciprocal(self.relative) + of.steps, half * half)
        return MARGIN * (left_change(of, of.lifted * lift, delta) + within)


def left_change(rounding: Rounding, lift: Array, delta: Array) -> Array:
    """An upper bound on the change of kᵀKuu⁻¹k at points with these |w| and |δ|.

    With V = L⁻¹(k + δ): kᵀ[L(I − F)Lᵀ]⁻¹k − |V|² = Vᵀ[(I − F)⁻¹ − I]V − 2Vᵀ(I − F)⁻¹L⁻¹δ + δᵀL⁻ᵀ(I − F)⁻¹L⁻¹δ, where
    |L⁻ᵀ(I − F)⁻¹V| ≤ |w|/(1 − ‖F‖).
    """
    first = rounding.E * lift * lift + 2.0 * lift * delta
    return times(rounding.left, first + times(rounding.inverse, delta) ** 2)


def times(coefficient: float, x: Array) -> Array:
    """coefficient·x, 0 where x = 0 even if the coefficient is infinite."""
    if np.isfinite(coefficient):
        return coefficient * x
    return namespace(x).where(x == 0.0, 0.0, np.inf)


def whitened_errors(
    rounding: Rounding, inducing: Inducing, mu: Array, C: Array, mean_error: float = 0.0, factor_error: float = 0.0
) -> Errors:
    """μ and C define Q: the KL is exact for them, and the predictions inherit the error of L.

    The true factor is L(I + X), (I + X)(I + X)ᵀ = I − F, ‖X‖ ≤ τ = √2‖F‖/(1 + √(1 − 2‖F‖)) (N-verified), and the true V
    is (I + X)⁻¹(V − L⁻¹δ): with x = τ/(1 − τ) the mean changes by x|μ||V| and |δ|(|e| + x|μ|‖L⁻¹‖), CᵀV by x‖C‖|V| and
    (1 + x)‖C‖‖L⁻¹‖|δ|.  Where μ and C differ from the numbers that define Q by ``mean_error`` in the Euclidean and
    ``factor_error`` in the Frobenius norm, these times |V| ≤ (1 + x)(|V| + ‖L⁻¹‖|δ|) are added.
    """
    size, spread = norm(mu), norm(C)
    if rounding.F <= ENOUGH:
        tau = np.sqrt(2.0) * rounding.F / (1.0 + np.sqrt(1.0 - 2.0 * rounding.F))
        x, far = MARGIN * tau / (1.0 - tau), rounding.inverse
    else:
        x = far = np.inf
    moved = (x * size if size > 0.0 else 0.0) + ((1.0 + x) * mean_error if mean_error > 0.0 else 0.0)
    return Errors(
        rounding,
        weights=rounding.lift(inducing, mu) + (moved * far if moved > 0.0 else 0.0),
        size=size,
        spread=spread,
        mean_length=moved,
        d_length=x * spread + ((1.0 + x) * factor_error if factor_error > 0.0 else 0.0),
        d_delta=(1.0 + x) * (spread + factor_error) * far,
    )


def free_errors(rounding: Rounding, inducing: Inducing, shift: Array, mu: Array, C: Array, chol: Cholesky) -> Errors:
    """a and B define Q: ``shift`` = a − m as computed, ``chol`` the factor of B, μ = L⁻¹shift, C = L⁻¹chol.

    With Lμ = a − m + δ_a, LC = L_B + Δ and B = L_B(I − F_B)L_Bᵀ, ‖F_B‖ < 1, twice the change of the KL is at most

        F/(1 − F) + F_B/(1 − F_B) + [‖E‖(‖H‖ + ‖L⁻¹‖d)² ]/(1 − F) + 2‖H‖‖Δ‖ + d² + F_B(‖C‖ + d)²/(1 − F)
        + [‖E‖|e|² + 2|e||δ_a| + ‖L⁻¹‖²|δ_a|²]/(1 − F),        d = ‖L⁻¹‖‖Δ‖:

    log|I − F|, log|I − F_B|, tr Kuu⁻¹B and (a − m)ᵀKuu⁻¹(a − m), in this order.
    """
    M, size, spread = float(inducing.M), norm(mu), norm(C)
    H, e = rounding.lift(inducing, C), rounding.lift(inducing, mu)
    inverse_B, _ = _inverse_above(chol)
    root_B = norm(chol.L)
    F, F_B = rounding.F, MARGIN * gamma(M + 8.0) * square(root_B * inverse_B)
    if not (F <= ENOUGH and F_B <= ENOUGH):
        none = {"weights": np.inf, "mean_lift": np.inf, "relative": np.inf, "d_lift": np.inf, "d_delta": np.inf}
        return Errors(rounding, size=size, spread=spread, kl=np.inf, **none)
    left, inverse = rounding.left, rounding.inverse
    delta = rounding.steps * rounding.root * size + 2.0 * U * norm(shift)
    Delta = rounding.steps * rounding.root * spread
    d = inverse * Delta
    kl = F * left + F_B * reciprocal(F_B) + rounding.E * square(H + inverse * d) * left
    kl += 2.0 * H * Delta + d * d + F_B * square(spread + d) * left
    kl += (rounding.E * e * e + 2.0 * e * delta + square(inverse * delta)) * left + 8.0 * M * U
    moved = rounding.E * e + delta
    return Errors(
        rounding,
        weights=e + inverse * (inverse * moved) * left,
        size=size,
        spread=spread,
        kl=MARGIN * 0.5 * kl,
        mean_lift=moved * left,
        relative=F_B,
        d_lift=(rounding.E * H + Delta) * left,
        d_delta=(H + Delta * inverse * inverse) * left,
    )
