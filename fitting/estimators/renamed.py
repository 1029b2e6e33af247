"""Arguments of estimators that have been renamed; files and checkpoints of earlier versions hold the former names."""

from __future__ import annotations

FORMER = {"posterior": "form", "relaxation": "objective"}
"""Former name of each renamed argument."""

PRESENT = {former: present for present, former in FORMER.items()}
"""Present name of each former one."""
