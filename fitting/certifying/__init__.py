"""Risk certificates of trained models, from the rows of their training or from rows that they had not seen."""

from __future__ import annotations

from fitting.certifying.door import certify

__all__ = ["certify"]
