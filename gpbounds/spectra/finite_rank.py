"""Constant, linear and polynomial kernels, their sums and products: as many eigenvalues as monomials (N-finite)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold, numbered, where_known
from gpbounds.linalg.errors import enclosed_eigen
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.gaussian import log_tails
from gpbounds.validation import count as one_count

# Kernels that are polynomials in the products x_d x'_d, and moments of input laws, both exact.
#
# A monomial x_0² x_3 is the tuple (0, 0, 3) of its columns.  Doubles stand for their exact rational values.

Monomial = tuple[int, ...]
Weights = dict[Monomial, Any]
Expansion = Weights | None
MOST = 2048
"""Largest number of monomials: the matrix of their moments then takes some seconds to decompose."""


def rational(value: float) -> Any:
    """The double ``value`` as a rational number.

    >>> rational(0.75)
    3/4
    """
    from flint import fmpq

    return fmpq(*float(value).as_integer_ratio())


def expansion(kernel: Kernel, columns: Monomial) -> Expansion:
    """The weights w_a > 0 in k(x, x') = Σ_a w_a x^a x'^a, ``kernel`` on these ``columns``; None for another kind of k.

    Constant, linear and polynomial kernels are polynomials in u_d = x_d x'_d with weights >= 0, and so are their sums
    and products.

    Raises
    ------
    ValueError
        for more than 2048 monomials.

    >>> from gpbounds.kernels import Constant, Polynomial
    >>> expansion(Constant(2.0) + Polynomial(2, variance=0.5, offset=1.0), (0, 1))
    {(): 3, (0,): 1, (1,): 1, (0, 0): 1/4, (0, 1): 1/2, (1, 1): 1/4}
    """
    return kernel.fold(_EXPANSION, columns)


def _leaf(kernel: Kernel, columns: Monomial) -> Expansion:
    known = kernel.polynomial(len(columns))
    if known is None:
        return None
    offset, variances, degree = known
    base: Weights = {(c,): rational(v) for c, v in zip(columns, variances, strict=False)}
    if offset is not None:
        count = math.comb(len(variances) + degree, degree)
        if count > MOST:
            raise _too_many(count)
        base = {(): rational(offset), **base}
    power = base
    for _ in range(degree - 1):
        power = _times(power, base)
    return power


def _few(joined: Weights) -> Weights:
    if len(joined) > MOST:
        raise _too_many(len(joined))
    return joined


def _too_many(count: int) -> ValueError:
    return ValueError(
        f"kernel: expected at most {MOST} monomials of a polynomial kernel for its spectrum, got {count}: take a lower "
        "degree or fewer columns (k.on(columns)), or plan for given data (inputs=Empirical(X)) or by simulation "
        "(simulate=39)"
    )


def _plus(first: Weights, second: Weights) -> Weights:
    joined = dict(first)
    for monomial, weight in second.items():
        joined[monomial] = joined[monomial] + weight if monomial in joined else weight
    return joined


def _times(first: Weights, second: Weights) -> Weights:
    joined: Weights = {}
    for a, v in first.items():
        for b, w in second.items():
            monomial = tuple(sorted(a + b))
            joined[monomial] = joined[monomial] + v * w if monomial in joined else v * w
    return joined


_EXPANSION: Fold[Monomial, Expansion] = Fold(
    _leaf,
    where_known(lambda first, second: _few(_plus(first, second))),
    where_known(lambda first, second: _few(_times(first, second))),
    numbered,
)


class _GaussianMoments:
    """E x^a for x ~ N(mean, cov), exactly, by Stein's identity.

    E x_i x^b = mean_i E x^b + Σ_j (number of j in b)·cov_ij E x^(b without one j).

    >>> standard = _GaussianMoments([rational(1.0)], {(0, 0): rational(2.0)})
    >>> [standard((0,) * k) for k in range(5)]  # N(1, 2)
    [1, 1, 3, 7, 25]
    """

    def __init__(self, mean: list[Any], cov: dict[tuple[int, int], Any]) -> None:
        self._mean, self._cov = mean, cov
        self._known: dict[Monomial, Any] = {(): rational(1.0)}

    def __call__(self, a: Monomial) -> Any:
        if a not in self._known:
            i, rest = a[0], a[1:]
            value = self._mean[i] * self(rest) if self._mean[i] else rational(0.0)
            for j, times in Counter(rest).items():
                if (i, j) in self._cov:
                    place = rest.index(j)
                    value += times * self._cov[i, j] * self(rest[:place] + rest[place + 1 :])
            self._known[a] = value
        return self._known[a]


class _UniformMoments:
    """E x^a for x uniform on the box from ``low`` to ``high``, exactly.

    >>> _UniformMoments(np.zeros(2), np.array([1.0, 2.0]))((0, 0, 1))  # 1/3 · 1
    1/3
    """

    def __init__(self, low: Float, high: Float) -> None:
        self._ends = [(rational(a), rational(b)) for a, b in zip(low, high, strict=True)]

    def __call__(self, a: Monomial) -> Any:
        value = rational(1.0)
        for d, power in Counter(a).items():
            low, high = self._ends[d]
            value *= (high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low))
        return value


def moments(inputs: Gaussian | Uniform) -> _GaussianMoments | _UniformMoments:
    """The moments of ``inputs``, from the stored covariance even if rounding has made it indefinite."""
    if isinstance(inputs, Uniform):
        return _UniformMoments(np.atleast_1d(inputs.low), np.atleast_1d(inputs.high))
    return _GaussianMoments([rational(m) for m in inputs.means], _covariance(inputs))


def widened(inputs: Gaussian) -> tuple[_GaussianMoments, _GaussianMoments]:
    """The moments with absolute values of mean and covariance, and these with the covariance widened by ``slack``.

    A moment is a polynomial with weights >= 0 in the entries of mean and covariance.  If each entry of the covariance
    is off by at most slack·s_i s_j, the moment is off by at most the difference of the two.
    """
    mean = [abs(rational(m)) for m in inputs.means]
    plain = {pair: abs(value) for pair, value in _covariance(inputs).items()}
    slack, stds = rational(inputs.slack), [rational(s) for s in inputs.stds]
    pairs = [(i, j) for i in range(inputs.dim) for j in range(inputs.dim)]
    wide = {(i, j): plain.get((i, j), rational(0.0)) + slack * stds[i] * stds[j] for i, j in pairs}
    return _GaussianMoments(mean, plain), _GaussianMoments(mean, wide)


def _covariance(inputs: Gaussian) -> dict[tuple[int, int], Any]:
    """The entries other than 0."""
    if inputs.cov is None:
        return {(d, d): rational(s) ** 2 for d, s in enumerate(inputs.stds)}
    entries = np.asarray(inputs.cov)
    return {(int(i), int(j)): rational(entries[i, j]) for i, j in np.argwhere(entries != 0.0)}


# Constant, linear and polynomial kernels, their sums and products: as many eigenvalues as monomials (N-finite).

SMALLEST, LARGEST = 1e-290, 1e290
"""Weights and moments in this range, and all numbers computed from them, are doubles with full precision."""


class FiniteRankSpectrum(Spectrum):
    """k(x, x') = Σ_a w_a x^a x'^a, w_a > 0, r monomials, Gaussian or uniform inputs: at most r eigenvalues (N-finite).

    The matrix C = (√w_a √w_b E x^(a+b)) has the same nonzero eigenvalues, so Σ_{m>M} λ_m = 0 for M >= r.

    The proof is that of N-finite.

    Rounding.  w_a and the moments are exact rational numbers (`monomials`); they are rounded once each, so that every
    entry of C has a relative error below 4 eps.  `enclosed_eigen` bounds how far the computed eigenvalues are from
    those of C; they are raised by this bound, which includes what rounding may hide of the negative part of a singular
    covariance (`widened`).

    Parameters
    ----------
    weights : dict of tuple of int to rational number
        w_a, as `gpbounds.spectra.finite_rank.expansion` returns them.
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
        # the rounding of a logarithm, and of its exponential
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
