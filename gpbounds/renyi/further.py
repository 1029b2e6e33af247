"""Rows as further inducing points, each of the largest variance that is not explained yet."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import Kernel
from gpbounds.linalg.pivoted import pivoted
from gpbounds.renyi.members import CANDIDATES
from gpbounds.whitening import whiten


def further_rows(kernel: Kernel, X: Float, Z: Float | None, number: int) -> Float:
    """At most ``number`` rows of X, each of the largest variance given Z and those before it.

    Above 20 000 rows they are chosen among 20 000 that are evenly spaced in X; O(number · 20 000) memory then.
    """
    N = len(X)
    rows = X if N <= CANDIDATES else X[np.linspace(0, N - 1, CANDIDATES).round().astype(np.int64)]
    most = min(number, N - 1)
    if Z is None:
        picked = pivoted(lambda i, columns: kernel(rows[i], rows[columns]), kernel.diag(rows), most)
        return rows[picked.indices]
    white = whiten(kernel, rows, Z)
    V = white.inducing.whiten(rows)
    picked = pivoted(
        lambda i, columns: kernel(rows[i], rows[columns]) - V[:, i].T @ V[:, columns], white.residual, most
    )
    return rows[picked.indices]
