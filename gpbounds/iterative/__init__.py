"""Log evidence of an exact GP at large N by iterations, between proved bounds (claims N-vecchia, N-slq)."""

from gpbounds.iterative.evidence import evidence
from gpbounds.iterative.probes import Probes

__all__ = ["Probes", "evidence"]
