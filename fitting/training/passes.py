"""A bar of the passes over partitions within an evaluation, below that of the iterations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    from tqdm.auto import tqdm

    with tqdm(total=0, unit="partition", leave=False) as bar:

        def tell(now: Progress) -> None:
            if now.done == 0:
                bar.reset(total=now.total)
            bar.set_description_str(f"pass {now.number} of {now.passes}", refresh=False)
            bar.update(now.done - bar.n)

        yield tell
