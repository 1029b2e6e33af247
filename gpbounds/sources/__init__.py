"""Rows from wherever they are: arrays, memory maps and .npy files, Parquet files and folders, Dask collections."""

from gpbounds.sources.recognised import is_elsewhere, source
from gpbounds.sources.shuffled import shuffle_to
from gpbounds.sources.source import Source

__all__ = ["Source", "is_elsewhere", "shuffle_to", "source"]
