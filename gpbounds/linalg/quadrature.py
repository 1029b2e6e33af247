"""Gauss and Gauss–Radau quadrature of z'f(B)z from Lanczos matrices (N-slq).

Which end of z'f(B)z they are follows from the signs of the derivatives of f on [a, b] ∋ all eigenvalues
(Golub and Meurant 2010, chapter 6); k steps, Radau with the additional node a:

    f            Gauss     Radau(a)
    log x        above     below
    1/x          below     above
    x log x      below     above
    log²x        below if b < exp(H_{2k−1})    above if b < exp(H_{2k}),  H_n = 1 + ½ + … + 1/n
    polynomial   exact up to degree 2k − 1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg.lanczos import Tridiagonal


@dataclass(frozen=True)
class Nodes:
    """Nodes and weights (m, k) of a quadrature for each of m start vectors; a row of weights sums to |z|²."""

    points: Float
    weights: Float

    def of(self, f: Callable[[Float], Float]) -> Float:
        """Σ_i w_i f(x_i) for each start vector (m,)."""
        return (self.weights * f(self.points)).sum(axis=1)


def gauss(T: Tridiagonal) -> Nodes:
    """Gauss quadrature: nodes are the eigenvalues of T_k, weights the squared first components of its eigenvectors.

    >>> T = Tridiagonal(np.array([2.0]), np.array([[2.0, 2.0]]), np.array([[1.0, 0.0]]))
    >>> gauss(T).of(lambda x: x)  # |z|²·T_11
    array([4.])
    """
    return _nodes(T.matrices(), T.squares)


def radau(T: Tridiagonal, node: float) -> Nodes:
    """Gauss–Radau quadrature with ``node`` ≤ every eigenvalue as an additional node.

    T_{k+1} has the last diagonal entry node + δ_k, (T_k − node·I)δ = β_k²e_k (Golub 1973).

    >>> T = Tridiagonal(np.array([1.0]), np.array([[2.0, 2.0]]), np.array([[1.0, 0.5]]))
    >>> round(float(radau(T, 0.25).points.min()), 12)
    0.25
    """
    m, k = T.diagonal.shape
    shifted = T.matrices() - node * np.eye(k)
    last = np.zeros((m, k, 1))
    last[:, -1, 0] = T.beside[:, -1] ** 2
    delta = np.linalg.solve(shifted, last)[:, -1, 0]
    longer = Tridiagonal(
        T.squares, np.column_stack([T.diagonal, node + delta]), np.column_stack([T.beside, np.zeros(m)])
    )
    return _nodes(longer.matrices(), T.squares)


def _nodes(matrices: Float, squares: Float) -> Nodes:
    points, vectors = np.linalg.eigh(matrices)
    return Nodes(points, squares[:, None] * vectors[:, 0, :] ** 2)
