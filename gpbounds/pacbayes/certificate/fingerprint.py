"""The fingerprint of a data set: its shapes and the SHA-256 of its raw values, row by row."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_points, exactly, is_cupy
from gpbounds.mapreduce.program import Rows
from gpbounds.whitening import as_targets

HELD = 2**28
"""Bytes of targets that stay in memory while X is hashed."""


@dataclass(frozen=True)
class Fingerprint:
    """Shapes and SHA-256 of a data set (X, y) in the order of its rows.

    The hash is of the bytes ``b"X (N, D)\\n"``, X as little-endian float64 row by row, ``b"y (N,)\\n"``, y likewise, N
    and D in decimal digits, so that any language can recompute it.  The values are the *raw* ones, before scaling.

    Attributes
    ----------
    sha256 : str
        64 hexadecimal digits.
    rows, columns : int
        N and D of X (N, D).

    >>> fingerprint([[0.0], [1.0]], [2.0, 3.0]).sha256[:16]
    'cd5a01aa8da839db'
    """

    sha256: str
    rows: int
    columns: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"sha256": self.sha256, "rows": self.rows, "columns": self.columns}


def as_data(X: ArrayLike, y: ArrayLike) -> tuple[Float, Float]:
    """(X, y) as float64 arrays (N, D) and (N,) with exactly the numbers given.

    Raises
    ------
    ValueError
        for float32 (a certificate holds for the numbers that it hashes), CuPy arrays, wrong shapes, whole numbers
        beyond 2⁵³, or what `gpbounds.arrays.exactly` refuses.
    NonFinite
        for NaN or infinity.
    """
    for name, array in (("X", X), ("y", y)):
        if is_cupy(array):
            raise ValueError(f"{name}: expected a NumPy array, got a CuPy array: certificates are checked on the CPU")
        kind = np.asarray(exactly(name, array)).dtype
        if kind.kind == "f" and kind.itemsize != 8:
            raise ValueError(
                f"{name}: expected float64, got {kind}: a certificate identifies the exact numbers for which it holds"
            )
    points = as_points(X, "X")
    targets = as_targets(y, points)
    if targets.ndim != 1:
        raise ValueError(f"y: expected one target a row, shape ({points.shape[0]},), got {targets.shape}")
    for name, array, taken in (("X", X, points), ("y", y, targets)):
        if np.asarray(exactly(name, array)).dtype.kind in "iu" and np.abs(taken).max() >= 2.0**53:
            raise ValueError(f"{name}: expected whole numbers below 2^53, which doubles hold exactly")
    return points, targets


def fingerprint(X: ArrayLike, y: ArrayLike) -> Fingerprint:
    """The `Fingerprint` of (X, y); arguments and errors as of `as_data`."""
    return digest(*as_data(X, y))


def digest(X: Float, y: Float) -> Fingerprint:
    """The `Fingerprint` of checked arrays."""
    sha = hashlib.sha256()
    for head, array in zip(_heads(*X.shape), (X, y), strict=True):
        sha.update(head)
        sha.update(_bytes(array))
    return Fingerprint(sha.hexdigest(), *X.shape)


def digest_of_rows(partitions: Iterable[Rows], N: int, D: int) -> Fingerprint:
    """The `Fingerprint` of N rows with D columns in partitions, in one pass: that of the same rows in arrays.

    The hash takes y after all of X.  Until then, y is kept in memory, or beyond 256 MiB in a temporary file.

    >>> X, y = np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]])
    >>> digest_of_rows([Rows(X[:1], y[:1], 0), Rows(X[1:], y[1:], 1)], 2, 1).sha256[:16]
    'cd5a01aa8da839db'
    """
    first, second = _heads(N, D)
    sha = hashlib.sha256(first)
    with tempfile.SpooledTemporaryFile(max_size=HELD) as targets:
        for rows in partitions:
            sha.update(_bytes(rows.X))
            targets.write(_bytes(rows.Y))
        targets.seek(0)
        sha.update(second)
        while piece := targets.read(2**20):
            sha.update(piece)
    return Fingerprint(sha.hexdigest(), N, D)


def _heads(N: int, D: int) -> tuple[bytes, bytes]:
    return f"X ({N}, {D})\n".encode(), f"y ({N},)\n".encode()


def _bytes(array: Float) -> bytes:
    return np.ascontiguousarray(array, dtype="<f8").tobytes()
