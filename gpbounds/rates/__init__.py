"""The theorems: how many inducing points suffice, and with which probability (ledger R, sections G and H)."""

from gpbounds.rates.theorems import inducing_points, rate

__all__ = ["inducing_points", "rate"]
