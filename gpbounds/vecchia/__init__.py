"""The block Vecchia factor: each block of rows conditioned on near rows of earlier blocks (claim N-vecchia)."""

from gpbounds.vecchia.blocks import Blocks, near
from gpbounds.vecchia.factor import Factor, factor, log_det_error

__all__ = ["Blocks", "Factor", "factor", "log_det_error", "near"]
