"""The convex hull of a sequence from below."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float


def greatest_convex_below(values: Float) -> Float:
    """The greatest convex sequence that is nowhere above ``values``.

    >>> greatest_convex_below(np.array([4.0, 4.0, 1.0, 0.5, 0.25])).tolist()
    [4.0, 2.5, 1.0, 0.5, 0.25]
    """
    corners: list[int] = []
    plain = values.tolist()
    for k, value in enumerate(plain):
        while len(corners) > 1:
            i, j = corners[-2], corners[-1]
            if (plain[j] - plain[i]) * (k - j) <= (value - plain[j]) * (j - i):
                break
            corners.pop()
        corners.append(k)
    return np.interp(np.arange(values.size), corners, values[corners])
