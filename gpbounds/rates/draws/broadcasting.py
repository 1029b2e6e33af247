"""Extend a statement about one M, alpha, noise, delta, tv and y_norm2 to arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound


def broadcast(
    cell: Callable[..., Bound],
    M: Float,
    *,
    alpha: Float,
    noise: Float,
    delta: Float,
    tv: Float,
    y_norm2: Float | None,
) -> Bound:
    """``cell(M, alpha=, noise=, delta=, tv=, y_norm2=)`` for every cell of the arrays, as one :class:`Bound`."""
    norm = np.asarray(np.nan) if y_norm2 is None else y_norm2
    cells = np.broadcast(M, alpha, noise, delta, tv, norm)
    bounds = [
        cell(
            int(m),
            alpha=float(a),
            noise=float(s),
            delta=float(d),
            tv=float(t),
            y_norm2=None if y_norm2 is None else float(n),
        )
        for m, a, s, d, t, n in cells
    ]
    if not bounds:
        raise ValueError(f"M: expected at least one number of inducing points, got shape {cells.shape}")
    return joined(bounds, cells.shape, alpha)


def joined(cells: list[Bound], shape: tuple[int, ...], alpha: Float) -> Bound:
    """One record from several: the terms that all have, and every claim and assumption."""
    if not shape:
        return cells[0]
    pair = cells[0].quantity.partition("[")[2]
    common = [name for name in cells[0].terms if all(name in cell.terms for cell in cells)]
    return Bound(
        value=np.array([cell.value for cell in cells]).reshape(shape),
        side="upper",
        confidence=np.array([cell.confidence for cell in cells]).reshape(shape),
        claim=", ".join(dict.fromkeys(name for cell in cells for name in cell.claim.split(", "))),
        terms={name: np.array([cell.terms[name] for cell in cells]).reshape(shape) for name in common},
        assumptions=tuple(dict.fromkeys(sentence for cell in cells for sentence in cell.assumptions)),
        certified=all(cell.certified for cell in cells),
        quantity=cells[0].quantity if alpha.ndim == 0 else f"D_alpha[{pair}",
    )
