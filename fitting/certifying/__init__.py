"""Risk certificates for trained models, from their own rows and from rows that the training had not seen."""

from __future__ import annotations

from fitting.certifying.gibbs import certify

__all__ = ["certify"]
