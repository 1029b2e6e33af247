"""Constant, linear and polynomial kernels, their sums and products: as many eigenvalues as monomials (N-finite)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.linalg.errors import enclosed_eigen
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.monomials import Monomial, moments, widened
from gpbounds.spectra.product import log_tails
from gpbounds.validation import count as one_count

SMALLEST, LARGEST = 1e-290, 1e290
"""Weights and moments between these are doubles with all their digits, and so is what is computed from them."""


class FiniteRankSpectrum(Spectrum):
    """k(x, x') = Σ_a w_a x^a x'^a, w_a > 0, r monomials, Gaussian or uniform inputs: at most r eigenvalues (N-finite).

    They are those of the matrix C = (√w_a √w_b E x^(a+b)), so that Σ_{m>M} λ_m = 0 for M >= r.

    The proof is that of N-finite.

    Rounding.  w_a and the moments are exact rational numbers (`monomials`); they are rounded once each, so that every
    entry of C has a relative error below 4 eps.  `enclosed_eigen` bounds how far the computed eigenvalues are from
    those of C; they are raised by this bound, which includes what rounding may hide of the negative part of a singular
    covariance (`widened`).

    Parameters
    ----------
    weights : dict of tuple of int to rational number
        w_a, as `gpbounds.spectra.monomials.expansion` returns them.
    inputs : Gaussian or Uniform

    Attributes
    ----------
    rank : int
        r; C has this rank if the law has a density.

    Raises
    ------
    ValueError
        for weights or moments beyond the range of doubles.

    >>> from gpbounds import Gaussian, spectrum
    >>> from gpbounds.kernels import Constant, Linear
    >>> law = spectrum(Constant(3.0) + Linear([1.0, 4.0]), inputs=Gaussian(dim=2))
    >>> law.eigenvalues(4).round(12).tolist(), law.tail([0, 1, 2, 3]).round(12).tolist()
    ([4.0, 3.0, 1.0, 0.0], [8.0, 4.0, 1.0, 0.0])
    """

    certified = True
    source = "N-finite"

    def __init__(self, weights: dict[Monomial, Any], inputs: Gaussian | Uniform) -> None:
        self.rank = len(weights)
        self.note = (
            f"The kernel has rank {self.rank}; its eigenvalues are those of a matrix of moments, with proved rounding. "
            f"For larger M, Z is any set with {self.rank} points whose covariance matrix is regular."
        )
        features = list(weights)
        moment = moments(inputs)
        exact = [weights[a] * moment(tuple(sorted(a + a))) for a in features]
        self.trace = _double(sum(exact[1:], exact[0]))
        roots = np.sqrt([_double(weights[a]) for a in features])
        C = roots[:, None] * roots * _table(features, moment)
        errors = 4.0 * EPS * np.abs(C)
        if isinstance(inputs, Gaussian) and inputs.slack > 0.0:
            plain, wide = widened(inputs)
            off = _table(features, lambda a: wide(a) - plain(a))
            errors += roots[:, None] * roots * off * (1.0 + 8.0 * EPS)
        enclosed = enclosed_eigen(C, np.eye(self.rank), errors, "the matrix of moments", negative=math.inf)
        self._values = (enclosed.values + enclosed.error) * (1.0 + EPS)
        logs = np.minimum(log_tails(np.log(self._values), -math.inf) + self.rank * EPS, math.log(self.trace))
        # what rounding costs a logarithm, and the exponential of one
        self._log_tails = logs + (8.0 + 2.0 * np.where(np.isfinite(logs), np.abs(logs), 0.0)) * EPS

    def eigenvalues(self, count: int) -> Float:
        """Upper bounds to rounding; 0 beyond the rank."""
        count = one_count("count", count)
        values = np.zeros(count)
        values[: self.rank] = self._values[:count]
        return values

    def _log_tail(self, M: Float) -> Float:
        return self._log_tails[np.minimum(M, self.rank).astype(np.int64)]

    def roundings(self, last: Float, size: Float | float) -> Float:
        return 14.0 * size + 21_400.0 + self.rank + 0.0 * last


def _table(features: list[Monomial], moment: Any) -> Float:
    """(moment of x^(a+b)) for all pairs, each rounded once."""
    known: dict[Monomial, float] = {}
    table = np.empty((len(features), len(features)))
    for i, a in enumerate(features):
        for j, b in enumerate(features[: i + 1]):
            both = tuple(sorted(a + b))
            if both not in known:
                known[both] = _double(moment(both))
            table[i, j] = table[j, i] = known[both]
    return table


def _double(value: Any) -> float:
    """The double nearest to a rational number."""
    try:
        rounded = int(value.p) / int(value.q)
    except OverflowError:
        rounded = math.inf
    if value != 0 and not SMALLEST <= abs(rounded) <= LARGEST:
        raise ValueError(
            f"kernel, inputs: expected weights and moments of a polynomial between {SMALLEST:g} and {LARGEST:g}, got "
            f"{rounded:g}: take other units of x, or a lower degree"
        )
    return rounded
