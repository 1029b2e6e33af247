"""Whether other processes use the cores: lanes then have a processor for a smaller part of the time they work."""

from __future__ import annotations

import time

PART = 0.75
"""Lanes that have a processor for less than this part of their time meet another process.  Measured on two cores: .85
to .99 on a quiet machine, where lanes wait for Python's lock and memory, .5 to .6 beside one busy process."""

LEAST = 2e-3
"""Seconds of work from which that part says something; the system switches between processes about as often."""

HOLDS = 0.5
"""Seconds for which a finding holds.  After them lanes try again."""


class Load:
    """What the lanes found last; each finding counts as much as all earlier ones, so that one alone decides nothing.

    >>> load = Load()
    >>> load.note(worked=0.02, processor=0.011)
    >>> load.others()
    False
    >>> load.note(worked=0.02, processor=0.011)
    >>> load.others()
    True
    """

    def __init__(self) -> None:
        self._part, self._until = 1.0, float("-inf")

    def note(self, worked: float, processor: float) -> None:
        """Lanes worked for ``worked`` seconds in all, and had a processor for ``processor`` of them."""
        if worked >= LEAST:
            self._part = 0.5 * (self._part + min(processor / worked, 1.0))
            self._until = time.monotonic() + HOLDS if self._part < PART else float("-inf")

    def others(self) -> bool:
        """Whether lanes met another process, and found that less than `HOLDS` seconds ago."""
        return time.monotonic() < self._until
