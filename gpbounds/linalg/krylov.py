"""Krylov methods for several start vectors at once: Lanczos with its quadratures, and conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg.device import orthogonalised
from gpbounds.readings import Readings


@dataclass(frozen=True)
class Tridiagonal:
    """Lanczos matrices T_k of m start vectors.

    Attributes
    ----------
    squares : array (m,)
        |z|² of each start vector.
    diagonal : array (m, k)
    beside : array (m, k)
        The off-diagonal entries; the last one couples T_k to the next step.  A 0 ends the recurrence: quadratures
        ignore the rest of its row.
    """

    squares: Float
    diagonal: Float
    beside: Float

    @property
    def steps(self) -> int:
        """The number of steps k."""
        return int(self.diagonal.shape[1])

    def columns(self, chosen: Sequence[int] | slice) -> Tridiagonal:
        """The Lanczos matrices of the chosen start vectors."""
        return Tridiagonal(self.squares[chosen], self.diagonal[chosen], self.beside[chosen])

    def matrices(self) -> Float:
        """T_k as arrays (m, k, k)."""
        m, k = self.diagonal.shape
        T = np.zeros((m, k, k))
        steps = np.arange(k)
        T[:, steps, steps] = self.diagonal
        T[:, steps[1:], steps[:-1]] = T[:, steps[:-1], steps[1:]] = self.beside[:, :-1]
        return T


class Lanczos:
    """k steps for the columns of Z (N, m); memory (k + 4)Nm numbers.

    Each new direction is orthogonalised twice against all directions of its column, so that T_k is that of exact
    arithmetic for a matrix that differs by rounding errors, and the quadratures of T_k stay bounds.

    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> run = Lanczos(lambda V: A @ V, np.ones((3, 1)))
    >>> run.advance(3)
    >>> np.linalg.eigvalsh(run.tridiagonal().matrices())[0].round(12).tolist()
    [1.0, 2.0, 4.0]
    """

    def __init__(self, times: Callable[[Array], Array], Z: Array) -> None:
        self.times = times
        self.squares = (Z * Z).sum(axis=0)
        self.basis = [_scaled(Z, namespace(Z).sqrt(self.squares))]
        self.diagonals: list[Array] = []
        self.besides: list[Array] = []
        self._space: Array | None = None

    def advance(self, steps: int) -> None:
        """Do ``steps`` more steps."""
        xp = namespace(self.basis[0])
        if xp is not np:
            self._make_room(steps)
        for _ in range(steps):
            image = self.times(self.basis[-1])
            size = xp.sqrt((image * image).sum(axis=0))
            self.diagonals.append((self.basis[-1] * image).sum(axis=0))
            for _ in range(2):
                if self._space is not None:
                    image = orthogonalised(self._space[: len(self.basis)], image)
                    continue
                for direction in self.basis:
                    image -= direction * (direction * image).sum(axis=0)
            left = xp.sqrt((image * image).sum(axis=0))
            left = xp.where(left > 1e-14 * size, left, 0.0)  # nothing but rounding is left: the recurrence has ended
            self.besides.append(left)
            direction = _scaled(image, left)
            if self._space is not None:
                self._space[len(self.basis)] = direction
                direction = self._space[len(self.basis)]
            self.basis.append(direction)

    def _make_room(self, steps: int) -> None:
        """On a GPU all directions lie in one array, so that a step has few launches."""
        k = len(self.basis)
        if self._space is None or self._space.shape[0] < k + steps:
            space = namespace(self.basis[0]).empty((k + max(steps, k // 4), *self.basis[0].shape))
            for place, direction in enumerate(self.basis):
                space[place] = direction
            self._space, self.basis = space, [space[place] for place in range(k)]

    def only(self, columns: slice) -> Lanczos:
        """The recurrences of some columns, to continue without the others."""
        part = Lanczos(self.times, self.basis[0][:, columns])
        part.squares, part.basis = self.squares[columns], [q[:, columns].copy() for q in self.basis]
        part.diagonals = [d[columns] for d in self.diagonals]
        part.besides = [b[columns] for b in self.besides]
        return part

    def tridiagonal(self) -> Tridiagonal:
        """T_k of every column, on the host.  Where a recurrence has ended the diagonal continues with ones."""
        xp, readings = namespace(self.squares), Readings()
        parts = self.squares, xp.stack(self.diagonals, axis=1), xp.stack(self.besides, axis=1)
        squares, diagonal, beside = [each.numbers for each in [readings.take(part) for part in parts]]
        ended = np.cumsum(np.hstack([(squares == 0.0)[:, None], beside[:, :-1] == 0.0]), axis=1) > 0
        return Tridiagonal(squares, np.where(ended, 1.0, diagonal), beside)

    def combined(self, coefficients: Float) -> Array:
        """Σ_i c_i q_i for each column, with ``coefficients`` (m, k) and the basis q_1 … q_k."""
        xp = namespace(self.basis[0])
        weights = xp.asarray(coefficients)
        total = xp.zeros_like(self.basis[0])
        for step in range(weights.shape[1]):
            total += self.basis[step] * weights[:, step]
        return total


def _scaled(V: Array, lengths: Array) -> Array:
    """V with columns of length 1; a column of length 0 becomes 0."""
    xp = namespace(V)
    return xp.where(lengths > 0.0, V / xp.where(lengths > 0.0, lengths, 1.0), 0.0)


# Gauss and Gauss–Radau quadrature of z'f(B)z from Lanczos matrices (N-slq).
#
# The signs of the derivatives of f on an [a, b] that contains all eigenvalues decide whether a quadrature bounds
# z'f(B)z from above or below (Golub and Meurant 2010, chapter 6); k steps, Radau with the additional node a:
#
#     f            Gauss     Radau(a)
#     log x        above     below
#     1/x          below     above
#     x log x      below     above
#     log²x        below if b < exp(H_{2k−1})    above if b < exp(H_{2k}),  H_n = 1 + ½ + … + 1/n
#     polynomial   exact up to degree 2k − 1


@dataclass(frozen=True)
class Quadrature:
    """Nodes and weights (m, k) of a quadrature for each of m start vectors; a row of weights sums to |z|²."""

    points: Float
    weights: Float

    def of(self, f: Callable[[Float], Float]) -> Float:
        """Σ_i w_i f(x_i) for each start vector (m,)."""
        return (self.weights * f(self.points)).sum(axis=1)


def gauss(T: Tridiagonal) -> Quadrature:
    """Gauss quadrature: nodes are the eigenvalues of T_k, weights the squared first components of its eigenvectors.

    >>> T = Tridiagonal(np.array([2.0]), np.array([[2.0, 2.0]]), np.array([[1.0, 0.0]]))
    >>> gauss(T).of(lambda x: x)  # |z|²·T_11
    array([4.])
    """
    return _nodes(T.matrices(), T.squares)


def radau(T: Tridiagonal, node: float) -> Quadrature:
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


def _nodes(matrices: Float, squares: Float) -> Quadrature:
    points, vectors = np.linalg.eigh(matrices)
    return Quadrature(points, squares[:, None] * vectors[:, 0, :] ** 2)


# Conjugate gradients for several right-hand sides with one operator, preconditioned, on NumPy or CuPy.

_Operator = Callable[[Array], Array]


def conjugate_gradients(
    times: _Operator, precondition: _Operator, B: Array, *, enough: Callable[[Array], bool], steps: int, every: int = 1
) -> Array:
    """An approximation X of A⁻¹B, starting at X = 0; solved columns do not change.

    Parameters
    ----------
    times : (N, P) -> (N, P)
        V ↦ AV for a symmetric positive definite A.
    precondition : (N, P) -> (N, P)
        R ↦ M⁻¹R for a symmetric positive definite M that approximates A.
    B : array (N, P)
    enough : (P,) -> bool
        Returns True to stop, from the energies rᵀM⁻¹r of the residuals r = b − Ax.
    steps : int
        Largest number of products with A.
    every : int
        Number of steps between two calls of ``enough``: on a GPU each call waits for the device.

    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> X = conjugate_gradients(lambda V: A @ V, lambda R: R, np.eye(2), enough=lambda e: e.max() < 1e-20, steps=9)
    >>> bool(np.allclose(A @ X, np.eye(2)))
    True
    """
    xp = namespace(B)
    X, R = xp.zeros_like(B), B.copy()
    Z = precondition(R)
    D, energies = Z.copy(), (R * Z).sum(axis=0)
    for step in range(steps):
        if step % every == 0 and enough(energies):
            break
        AD = times(D)
        curvatures = (D * AD).sum(axis=0)
        lengths = xp.where(curvatures > 0.0, energies / xp.where(curvatures > 0.0, curvatures, 1.0), 0.0)
        X += lengths * D
        R -= lengths * AD
        Z = precondition(R)
        following = (R * Z).sum(axis=0)
        D = Z + xp.where(energies > 0.0, following / xp.where(energies > 0.0, energies, 1.0), 0.0) * D
        energies = following
    return X
