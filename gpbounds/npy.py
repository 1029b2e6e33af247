"""Arrays in NumPy's format .npy: the header is compared with the bytes that are there before memory is taken."""

from __future__ import annotations

import math
import os
import tokenize
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

FAULTS = (ValueError, KeyError, TypeError, OverflowError, RecursionError, MemoryError, SyntaxError, tokenize.TokenError)
"""What NumPy raises at headers that are none."""

LONGEST = 10_000
"""Bytes of the longest header that is parsed."""


WORDS = {"biuf": "real numbers"}
"""Kinds of dtypes as messages name them."""


class Header(NamedTuple):
    """What the header of an array states.

    Attributes
    ----------
    dtype : numpy.dtype
        Of real numbers.
    shape : tuple of int
    fortran : bool
        Whether the first index varies fastest.
    offset : int
        Bytes of the header.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int


class _Beginning:
    """The beginning of a file: NumPy asks for as many bytes as a header states, and a buffer of that size is taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def read(self, size: int) -> bytes:
        if size > LONGEST:
            raise ValueError(f"expected a header of at most {LONGEST} bytes, got {size}")
        return self.file.read(size)


def header(file: IO[bytes], size: int, name: str, kinds: str = "biuf") -> Header:
    """The header at the start of ``file``, which holds ``size`` bytes in all.

    Parameters
    ----------
    file, size, name : as above; ``name`` begins messages
    kinds : str
        The kinds of NumPy's dtypes that are accepted: real numbers by default.  Objects, which only pickle reads, must
        not be among them.

    Raises
    ------
    ValueError
        for something else, for another dtype, and for a shape that needs other than the bytes that are there.
    """
    beginning: Any = _Beginning(file)
    try:
        version = npy.read_magic(beginning)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(beginning, max_header_size=LONGEST)
    except FAULTS:
        raise ValueError(
            f"{name}: expected an array in NumPy's format .npy, got other bytes, or a damaged file"
        ) from None
    if dtype.kind not in kinds or dtype.subdtype is not None or not dtype.itemsize:
        raise ValueError(f"{name}: expected {WORDS.get(kinds, 'numbers or texts')}, got dtype {str(dtype)[:60]}")
    offset = file.tell()
    if len(shape) > 8 or any(isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"{name}: expected at most 8 dimensions of sizes >= 0, got shape {_short(shape)}")
    if math.prod(shape) * dtype.itemsize != size - offset:
        raise ValueError(
            f"{name}: expected {size - offset} bytes of numbers, as are in the file, got a header of shape "
            f"{_short(shape)} and dtype {dtype}"
        )
    return Header(dtype, shape, fortran, offset)


def _short(shape: tuple[int, ...]) -> str:
    text = f"({', '.join(f'{n:.6g}' if abs(n) >= 10**15 and abs(n) < 10**300 else str(n)[:20] for n in shape[:9])})"
    return text if len(shape) <= 9 else f"{text[:-1]}, …)"


def mapped(path: str | os.PathLike[str]) -> np.memmap[Any, Any]:
    """A .npy file as a memory map, after a look at its header.

    Raises
    ------
    ValueError
        as `header`; for a file without numbers.
    OSError
        if it cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        stated = header(file, os.fstat(file.fileno()).st_size, name)
    if not math.prod(stated.shape):
        raise ValueError(f"{name}: expected at least one number, got shape {stated.shape}")
    order: Any = "F" if stated.fortran else "C"
    return np.memmap(path, dtype=stated.dtype, mode="r", shape=stated.shape, order=order, offset=stated.offset)
