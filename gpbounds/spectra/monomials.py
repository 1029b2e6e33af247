"""Kernels that are polynomials in the products x_d x'_d, and moments of input laws, both exact.

A monomial x_0² x_3 is the tuple (0, 0, 3) of its columns.  Doubles are taken as the rational numbers that they are.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold, numbered, where_known

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


class GaussianMoments:
    """E x^a for x ~ N(mean, cov), exactly, by Stein's identity.

    E x_i x^b = mean_i E x^b + Σ_j (number of j in b)·cov_ij E x^(b without one j).

    >>> standard = GaussianMoments([rational(1.0)], {(0, 0): rational(2.0)})
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


class UniformMoments:
    """E x^a for x uniform on the box from ``low`` to ``high``, exactly.

    >>> UniformMoments(np.zeros(2), np.array([1.0, 2.0]))((0, 0, 1))  # 1/3 · 1
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


def moments(inputs: Gaussian | Uniform) -> GaussianMoments | UniformMoments:
    """The moments of ``inputs``; those of the stored covariance, even if rounding has made it indefinite."""
    if isinstance(inputs, Uniform):
        return UniformMoments(np.atleast_1d(inputs.low), np.atleast_1d(inputs.high))
    return GaussianMoments([rational(m) for m in inputs.means], _covariance(inputs))


def widened(inputs: Gaussian) -> tuple[GaussianMoments, GaussianMoments]:
    """The moments with absolute values of mean and covariance, and these with the covariance widened by ``slack``.

    A moment is a polynomial with weights >= 0 in the entries of mean and covariance.  If each entry of the covariance
    is off by at most slack·s_i s_j, the moment is off by at most the difference of the two.
    """
    mean = [abs(rational(m)) for m in inputs.means]
    plain = {pair: abs(value) for pair, value in _covariance(inputs).items()}
    slack, stds = rational(inputs.slack), [rational(s) for s in inputs.stds]
    pairs = [(i, j) for i in range(inputs.dim) for j in range(inputs.dim)]
    wide = {(i, j): plain.get((i, j), rational(0.0)) + slack * stds[i] * stds[j] for i, j in pairs}
    return GaussianMoments(mean, plain), GaussianMoments(mean, wide)


def _covariance(inputs: Gaussian) -> dict[tuple[int, int], Any]:
    """The entries other than 0."""
    if inputs.cov is None:
        return {(d, d): rational(s) ** 2 for d, s in enumerate(inputs.stds)}
    entries = np.asarray(inputs.cov)
    return {(int(i), int(j)): rational(entries[i, j]) for i, j in np.argwhere(entries != 0.0)}
