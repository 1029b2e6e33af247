"""Python threads with one BLAS thread each, so that matrix products and elementwise work use all cores together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@lru_cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (the controller finds only BLAS libraries that are loaded)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def threads() -> int:
    """Number of threads that BLAS may use now, as set by OPENBLAS_NUM_THREADS and its like or by `threadpoolctl`."""
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)


WORTH = 10**7
"""N·M² from which threads share the work.  Below it, synchronisation costs more time than a second thread saves."""


@contextmanager
def limited_threads(work: int) -> Iterator[None]:
    """Limit BLAS to one thread inside this context if ``work``, N·M² or similar, is less than `WORTH`.

    >>> with limited_threads(1000):
    ...     threads()
    1
    """
    if work >= WORTH:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def share(count: int, run: Callable[[int], None]) -> None:
    """Call run(0) … run(count − 1), each in its own thread with one BLAS thread; with count = 1 in the caller's thread.

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
        for call in [pool.submit(run, number) for number in range(count)]:
            call.result()
