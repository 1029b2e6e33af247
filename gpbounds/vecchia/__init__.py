"""The block Vecchia factor: each block of rows conditioned on near rows of earlier blocks (claim N-vecchia)."""

from gpbounds.vecchia.blocks import Blocks, near
from gpbounds.vecchia.factor import Factor, factor

__all__ = ["Blocks", "Factor", "factor", "near"]
