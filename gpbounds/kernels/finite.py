"""Features of kernels of finite rank: k(x, x') = φ(x)ᵀφ(x')."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels.base import Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.inner_products import Linear, Polynomial


def features(kernel: Kernel, X: Float, most: int) -> Float | None:
    """φ(X) (n, r) with r ≤ ``most``, each entry within a few rounding errors of its size; None for other kernels.

    Constant, linear and polynomial kernels have them, and so have their sums, products and kernels on columns.

    >>> from gpbounds.kernels import Linear, Polynomial
    >>> X = np.array([[1.0], [2.0]])
    >>> kernel = Polynomial(2) * Linear(3.0)
    >>> phi = features(kernel, X, 10)
    >>> phi.shape, bool(np.allclose(phi @ phi.T, kernel(X)))
    ((2, 4), True)
    """
    if isinstance(kernel, OnColumns):
        return features(kernel.kernel, kernel.chosen(X), most)
    if isinstance(kernel, Sum | Product):
        first, second = features(kernel.k1, X, most), features(kernel.k2, X, most)
        if first is None or second is None:
            return None
        return (
            _within(np.concatenate([first, second], axis=1), most)
            if isinstance(kernel, Sum)
            else _times(first, second, most)
        )
    if type(kernel) is Constant:
        return np.full((len(X), 1), np.sqrt(kernel.variance))
    if type(kernel) is Linear:
        return _within(X * np.sqrt(kernel.variances(X.shape[1])), most)
    if type(kernel) is Polynomial:
        return _powers(kernel, X, most)
    return None


def _powers(kernel: Polynomial, X: Float, most: int) -> Float | None:
    """(offset + s)^degree: products of the features of offset + s."""
    linear = X * np.sqrt(kernel.variances(X.shape[1]))
    single = np.concatenate([np.full((len(X), 1), np.sqrt(kernel.offset)), linear], axis=1)
    phi = _within(single, most)
    for _ in range(kernel.degree - 1):
        phi = None if phi is None else _times(phi, single, most)
    return phi


def _times(first: Float, second: Float, most: int) -> Float | None:
    if first.shape[1] * second.shape[1] > most:
        return None
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _within(phi: Float, most: int) -> Float | None:
    return phi if phi.shape[1] <= most else None
