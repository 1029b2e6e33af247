"""Constant, linear and polynomial kernels: e_j of the spectrum as exact rational numbers (N-finite)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.rigor import exact
from gpbounds.spectra.monomials import Monomial, moments


class FiniteRank(Eigenvalues):
    """k(x, x') = Σ_a w_a x^a x'^a: the eigenvalues of the rational matrix (w_a E x^(a+b)) (N-finite).

    It is similar to (√w_a √w_b E x^(a+b)).  Its characteristic polynomial is Π(t − λ_i) = Σ_j (−1)^j e_j t^(r−j), so
    that (M+1) e_{M+1}/e_M is a rational number; the eigenvalues are the roots, isolated in balls.

    >>> from gpbounds.kernels import Constant, Linear
    >>> from gpbounds.spectra.monomials import expansion
    >>> law = FiniteRank(expansion(Constant(3.0) + Linear(), (0,)), Gaussian(), None)
    >>> float(law.closed_trace(1)), float(law.closed_trace(2))  # 2·3·1/(3 + 1)
    (1.5, 0.0)
    """

    def __init__(self, weights: dict[Monomial, Any], inputs: Gaussian | Uniform, variance: float | None) -> None:
        from flint import fmpq_mat

        self.dim, self.variance = inputs.dim, variance
        moment = moments(inputs)
        features = list(weights)
        rows = [[weights[a] * moment(tuple(sorted(a + b))) for b in features] for a in features]
        polynomial = fmpq_mat(rows).charpoly()
        self.rank = len(features)
        self.symmetric = [(-1) ** j * polynomial[self.rank - j] for j in range(self.rank + 1)]
        self._polynomial = tuple(int(c) for c in polynomial.numer().coeffs())

    def closed_trace(self, M: int) -> Any:
        from flint import arb

        if self.rank <= M or self.symmetric[M] == 0:
            return exact(0.0)
        return arb((M + 1) * self.symmetric[M + 1] / self.symmetric[M])

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        return [(value, 1) for value in self._roots()[:count]]

    def tail(self, count: int) -> Any:
        return sum(self._roots()[count:], exact(0.0))

    def trace(self) -> Any:
        from flint import arb

        return arb(self.symmetric[1])

    def largest(self) -> Any:
        return None if self.variance is None else exact(self.variance)

    def _roots(self) -> list[Any]:
        from flint import ctx

        return _roots(self._polynomial, ctx.prec)


@lru_cache(maxsize=16)
def _roots(coefficients: tuple[int, ...], bits: int) -> list[Any]:
    """The roots, real and ≥ 0, of a polynomial at the present precision, which is ``bits``; decreasing, repeated."""
    from flint import fmpz_poly

    pairs: Any = fmpz_poly(list(coefficients)).complex_roots()
    roots = [(root.real, often) for root, often in pairs]
    values = [value.max(exact(0.0)) for value, often in roots for _ in range(often)]
    return sorted(values, key=float, reverse=True)
