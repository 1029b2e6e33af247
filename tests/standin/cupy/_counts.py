"""What a run asked of the device: ``stats`` counts it, ``stats.clear()`` begins anew.

``launch``: kernels (views cost none); ``gemm``, ``trsm``: those that are matrix products and triangular solves, with
their ``flops``; ``d2h``, ``h2d``: copies to the host and to the device, and ``d2h bytes``, ``h2d bytes``; ``sync``:
waits for the device that no copy shows, as for the size of what a mask selects.
"""

from collections import Counter

import numpy as np

stats: Counter[str] = Counter()


def copied(direction: str, array: np.ndarray) -> np.ndarray:
    """``array``, its journey ("d2h" or "h2d") counted."""
    stats[direction] += 1
    stats[f"{direction} bytes"] += array.nbytes
    return array
