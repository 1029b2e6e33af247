"""What stays the same while an objective is trained: the order of the rows, conditioning sets, probes, Lanczos steps.

The estimate of log|K + σ²I| is then one smooth function of the hyperparameters, which an optimiser can follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.iterative.probes import Probes
from gpbounds.kernels import Kernel
from gpbounds.vecchia import Blocks, near
from gpbounds.vecchia.blocks import scales

BLOCK, NEIGHBOURS = 200, 800
"""Rows of a block, and rows on which it is conditioned."""
PROBES = 16
"""Random vectors of an estimate."""
MOVED = 2.0
"""Factor by which a lengthscale may change before the rows are put into other blocks."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A frozen choice of blocks, probes and steps for the rows X (N, D).

    Attributes
    ----------
    blocks : Blocks
    probes : array (N, m)
        In the order of the blocks; each has length √N, so that zᵀAz does not vary with the mean of A's eigenvalues.
    scales : array (D,)
        The lengthscales by which rows are near each other.
    seed : Probes
        The source of the probes, which `gpbounds.iterative.evidence` refuses.
    steps : int
        Lanczos steps; 0 where they are still to be chosen.
    """

    blocks: Blocks
    probes: Array
    scales: Float
    seed: Probes
    steps: int = 0

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.blocks.order.size)

    @property
    def m(self) -> int:
        """Number of probes; a complete factor needs none."""
        return int(self.probes.shape[1])

    def is_stale(self, kernel: Kernel, X: Float) -> bool:
        """Whether a lengthscale of ``kernel`` differs by more than a factor of 2 from that of the blocks."""
        if self.blocks.complete:
            return False
        return bool(np.abs(np.log(scales(kernel, X) / self.scales)).max() > math.log(MOVED))

    def with_steps(self, steps: int) -> Layout:
        """The same layout with that many Lanczos steps."""
        return replace(self, steps=steps)


def layout(
    kernel: Kernel,
    X: Array,
    seed: Probes,
    *,
    block: int = BLOCK,
    neighbours: int = NEIGHBOURS,
) -> Layout:
    """Blocks of near rows for ``kernel``, and probes from ``seed``; a row keeps its entries of the probes in any order.

    >>> from gpbounds.kernels import SquaredExponential
    >>> chosen = layout(SquaredExponential(), np.arange(6.0)[:, None], Probes((0,), 4), block=2, neighbours=2)
    >>> len(chosen.blocks.parts), (chosen.probes**2).sum(axis=0).round(12).tolist()
    (4, [6.0, 6.0, 6.0, 6.0])
    """
    xp, generator = namespace(X), seed.generator()
    N = int(X.shape[0])
    draws = generator.standard_normal((N, seed.count))
    draws *= math.sqrt(N) / np.sqrt((draws * draws).sum(axis=0))
    blocks = near(kernel, X, block=block, neighbours=neighbours, rng=generator)
    if blocks.complete:
        draws = draws[:, :0]
    host_points = np.asarray(X.get() if xp is not np else X)
    return Layout(blocks, xp.asarray(draws[blocks.order]), np.array(scales(kernel, host_points)), seed)
