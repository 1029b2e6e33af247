"""A number of threads for BLAS, and so of lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from threadpoolctl import threadpool_limits

from gpbounds.linalg.parallel import lanes


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """So many threads of BLAS, and lanes; the test is skipped where threadpoolctl cannot set them, as on macOS."""
    lanes()  # loads every BLAS that is to be limited
    with threadpool_limits(count, "blas"):
        if lanes() != count:
            pytest.skip(f"needs {count} threads of BLAS, threadpoolctl can set {lanes()}")
        yield
