"""The theorems: how many inducing points suffice, and with which probability (ledger R, sections G and H)."""

from gpbounds.rates.planning import inducing_points
from gpbounds.rates.theorems import rate

__all__ = ["inducing_points", "rate"]
