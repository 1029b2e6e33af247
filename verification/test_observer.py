"""The instrument itself."""

from __future__ import annotations

from observer import Record


def test_tightness_of_ratios_at_the_end_of_the_doubles() -> None:
    """Bounds that are loose by 1e308 are reported, too: their mean would overflow."""
    record = Record(ratios=[1.7e308, 1.0, 1.6e308, float("inf")])
    assert record.to_dict()["tightness"] == {"best": 1.0, "median": 1.6e308, "worst": 1.7e308}
