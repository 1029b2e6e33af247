"""Features of kernels of finite rank: k(x, x') = φ(x)ᵀφ(x')."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.facts import Fold, chosen, where_known


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

    def leaf(part: Kernel, points: Float) -> Float | None:
        known = part.polynomial(points.shape[1]) if type(part) is part.formula_class else None
        return None if known is None else _powers(points, *known, most)

    def join(first: Float, second: Float) -> Float | None:
        return _within(np.concatenate([first, second], axis=1), most)

    def multiply(first: Float, second: Float) -> Float | None:
        return _times(first, second, most)

    return kernel.fold(Fold(leaf, where_known(join), where_known(multiply), chosen), X)


def _powers(X: Float, offset: float | None, variances: Float, degree: int, most: int) -> Float | None:
    """(offset + s)^degree: products of the features of offset + s."""
    single = X[:, : len(variances)] * np.sqrt(variances)
    if offset is not None:
        single = np.concatenate([np.full((len(X), 1), np.sqrt(offset)), single], axis=1)
    phi = _within(single, most)
    for _ in range(degree - 1):
        phi = None if phi is None else _times(phi, single, most)
    return phi


def _times(first: Float, second: Float, most: int) -> Float | None:
    if first.shape[1] * second.shape[1] > most:
        return None
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _within(phi: Float, most: int) -> Float | None:
    return phi if phi.shape[1] <= most else None
