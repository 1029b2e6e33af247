"""Σ_i s_i v_i v_iᵀ with weights of either sign, at half the cost of a product of two matrices."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.linalg.products import add_gram, add_product
from gpbounds.linalg.triangular import mirrored


class SignedGram:
    """Rows with s > 0 and rows with s < 0 are summed separately, by rank-k updates with √|s|·v.

    >>> total = SignedGram(np.zeros((2, 2)))
    >>> V = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> total.add(V, np.array([1.0, -4.0]), np.empty((2, 2)))
    >>> total.sum().tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """

    def __init__(self, plus: Array, minus: Array | None = None, *, new: bool = False) -> None:
        """``minus`` None stands for 0; it gets memory with the first row of a negative weight.

        With ``new`` the entries of ``plus`` are arbitrary, and the first call of `add` overwrites them.
        """
        self.plus, self.minus, self._keep = plus, minus, 0.0 if new else 1.0

    def add(self, V: Array, weights: Array, scratch: Array) -> None:
        """Add the rows of ``V`` (n, M) with ``weights`` (n,); ``scratch`` (n, M) is overwritten.

        On a CPU ``scratch`` may be ``V`` where all weights are positive.
        """
        xp, keep = namespace(V), self._keep
        self._keep = 1.0
        if xp is not np:
            add_product(V.T, xp.multiply(V, weights[:, None], out=scratch), self.plus, keep=keep)
            return
        if (weights > 0.0).all():
            add_gram(self.plus, np.multiply(V, np.sqrt(weights)[:, None], out=scratch), keep=keep)
            return
        if keep == 0.0:
            self.plus[...] = 0.0
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * weights > 0.0)
            if chosen.size:
                rows = np.take(V, chosen, axis=0, out=scratch[: chosen.size], mode="clip")
                rows *= np.sqrt(sign * weights[chosen])[:, None]
                add_gram(self.plus if sign > 0.0 else self._subtracted(), rows)

    def _subtracted(self) -> Array:
        if self.minus is None:
            self.minus = np.zeros_like(self.plus)
        return self.minus

    def __add__(self, other: SignedGram) -> SignedGram:
        parts = [each for each in (self.minus, other.minus) if each is not None]
        return SignedGram(self.plus + other.plus, sum(parts[1:], parts[0]) if parts else None)

    def sum(self) -> Array:
        """The symmetric matrix."""
        return mirrored(self.plus if self.minus is None else self.plus - self.minus)
