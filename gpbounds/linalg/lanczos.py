"""Lanczos recurrences of a symmetric matrix from several start vectors at once, fully orthogonalised."""

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
        The entries beside the diagonal; the last one couples T_k to the next step.  0: the recurrence has ended, and
        what follows in this row does not enter any quadrature.
    """

    squares: Float
    diagonal: Float
    beside: Float

    @property
    def steps(self) -> int:
        """k."""
        return int(self.diagonal.shape[1])

    def columns(self, chosen: Sequence[int] | slice) -> Tridiagonal:
        """Those of some start vectors."""
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
        """The same recurrences of some columns, to continue them alone."""
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
