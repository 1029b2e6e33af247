"""A pass that sums no Gram matrix: the triangle R of the weighted rows [v_i y_i], chunk after chunk by reflections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitting.rows import Chunk
from gpbounds.arrays import Array, namespace
from gpbounds.law import triangular
from gpbounds.mapreduce.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Triangle(Statistics):
    """R (k, M + P) with RᵀR = Σ_i c_i [v_i y_i]ᵀ[v_i y_i]; the sum of two is the triangle of both.

    Attributes
    ----------
    R : array (k, M + P)
    """

    R: Array

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle(triangular(namespace(self.R).concatenate([self.R, other.R])))


class Stacking:
    """Takes the chunks of one group; 2n(M + P)² flops and more for n rows."""

    def __init__(self, weights: Callable[[Array], Array | float]) -> None:
        """``weights`` is the function from the diagonal of K − Q to c."""
        self.weights, self.R = weights, None

    def chunk(self, chunk: Chunk) -> None:
        """Put the weighted rows under the triangle so far."""
        xp = namespace(chunk.V)
        c = self.weights(chunk.residual)
        rows = xp.sqrt(c)[:, None] * xp.concatenate([chunk.V, chunk.Y], axis=1)
        self.R = triangular(rows if self.R is None else xp.concatenate([self.R, rows]))

    def statistics(self) -> Triangle:
        """The triangle of all chunks so far."""
        return Triangle(self.R)
