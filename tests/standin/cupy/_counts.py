"""Counts of the work that a run asks of the device: ``stats``; ``stats.clear()`` resets them.

``launch``: kernels (views cost none); ``gemm``, ``trsm``: those that are matrix products and triangular solves, with
their ``flops``; ``d2h``, ``h2d``: copies to the host and to the device, and ``d2h bytes``, ``h2d bytes``; ``sync``:
waits for the device that no copy shows, as for the size of what a mask selects.
"""

from collections import Counter

import numpy as np

stats: Counter[str] = Counter()


def copied(direction: str, array: np.ndarray) -> np.ndarray:
    """``array``, after counting its transfer ("d2h" or "h2d")."""
    stats[direction] += 1
    stats[f"{direction} bytes"] += array.nbytes
    return array
