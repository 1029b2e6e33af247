"""The former name of `gpbounds.rows`, which the next release refuses."""

from __future__ import annotations

from typing import Any

from gpbounds import rows
from gpbounds.validation import deprecated

NAMES = ("Source", "is_elsewhere", "shuffle_to", "source")


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'gpbounds.sources' has no attribute {name!r}")
    deprecated(f"gpbounds.sources.{name}", f"gpbounds.rows.{name}")
    return getattr(rows, name)
