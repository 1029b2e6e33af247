"""Lanes: Python workers of one BLAS thread each, so that products and work entry by entry run on all cores together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@lru_cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def threads() -> int:
    """How many threads BLAS may use at present, as OPENBLAS_NUM_THREADS and its like or `threadpoolctl` say."""
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)


WORTH = 10**7
"""N·M² from which work is shared among threads; below, waiting for one another costs more than it saves."""


@contextmanager
def suited(work: int) -> Iterator[None]:
    """One BLAS thread for as long as it lasts where ``work``, N·M² or the like, is less than `WORTH`.

    >>> with suited(1000):
    ...     threads()
    1
    """
    if work >= WORTH:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def share(count: int, run: Callable[[int], None]) -> None:
    """run(0) … run(count − 1), each in a thread of its own with one BLAS thread; a single one where it was called.

    >>> squares = [0, 0]
    >>> share(2, lambda i: squares.__setitem__(i, i * i))
    >>> squares
    [0, 1]
    """
    if count == 1:
        run(0)
        return
    from concurrent.futures import ThreadPoolExecutor

    with _controller().limit(limits=1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(run, number) for number in range(count)]:
            done.result()
