"""Orthonormal Legendre polynomials on [0, 1]: values, Gauss nodes, and the solution of f' + γ f = h in coefficients."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float


def gauss(n: int) -> tuple[Float, Float]:
    """Nodes in (0, 1) and weights of the n-point Gauss rule for ∫_0^1.

    >>> x, w = gauss(3)
    >>> float((w * x**5).sum().round(12))
    0.166666666667
    """
    from scipy.special import roots_legendre

    nodes, weights = roots_legendre(n)
    return (nodes + 1.0) / 2.0, weights / 2.0


def values(n: int, x: Float) -> Float:
    """e_k(x) = √(2k+1) P_k(2x - 1), k < n, orthonormal in L²(0, 1); shape (len(x), n).

    >>> values(2, np.array([1.0])).round(6)
    array([[1.      , 1.732051]])
    """
    t = 2.0 * x - 1.0
    table = np.empty((n, x.size))
    table[0] = 1.0
    if n > 1:
        table[1] = t
    for k in range(1, n - 1):
        table[k + 1] = ((2 * k + 1) * t * table[k] - k * table[k - 1]) / (k + 1)
    return (table * np.sqrt(2.0 * np.arange(n) + 1.0)[:, None]).T


class Relaxation:
    """The operator V h = f with f' + γ f = γ h, f(0) = 0, on the first n coefficients.

    Integration from 0, J, is tridiagonal in this basis, and V = (I + γJ)^-1 γJ.  Truncation at n affects mainly
    the last coefficients: the error of the first n - d is of order (γ/(4n))^d.

    >>> v = Relaxation(20, 0.5)
    >>> step = v(np.eye(20)[:, :1])[:, 0]                      # f = 1 - e^(-γx)
    >>> bool(np.isclose(values(20, np.array([1.0]))[0] @ step, -np.expm1(-0.5)))
    True
    """

    def __init__(self, n: int, gamma: float) -> None:
        k = np.arange(n - 1.0)
        self._off = gamma * 0.5 / np.sqrt((2.0 * k + 1.0) * (2.0 * k + 3.0))
        self._corner = gamma * 0.5
        self._banded = np.zeros((3, n))
        self._banded[0, 1:], self._banded[1], self._banded[2, :-1] = -self._off, 1.0, self._off
        self._banded[1, 0] += self._corner

    def __call__(self, columns: Float) -> Float:
        """V applied to the columns of an array (n, m)."""
        image = np.zeros_like(columns)
        image[0] = self._corner * columns[0]
        image[1:] += self._off[:, None] * columns[:-1]
        image[:-1] -= self._off[:, None] * columns[1:]
        return self.solve(image)

    def solve(self, columns: Float) -> Float:
        """(I + γJ)^-1 applied to the columns; it maps the constant 1 to e^(-γx)."""
        from scipy.linalg import solve_banded

        return solve_banded((1, 1), self._banded, columns)
