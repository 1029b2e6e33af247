"""A bar of the passes over partitions within an evaluation, below that of the iterations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpbounds.progress import bar
from gpbounds.rows.engines import Progress, Tell


@contextmanager
def shown_passes(progress: bool) -> Iterator[Tell | None]:
    """A function that shows how far an evaluation is, for the time of the context; None without ``progress``.

    >>> with shown_passes(False) as tell:
    ...     tell is None
    True
    """
    if not progress:
        yield None
        return
    with bar("pass", 0, "partition", True) as passes:

        def tell(now: Progress) -> None:
            if now.done == 0:
                passes.reset(total=now.total)
            passes.set_description_str(f"pass {now.number} of {now.passes}", refresh=False)
            passes.update(now.done - passes.n)

        yield tell
