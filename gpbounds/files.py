"""Files that are replaced in one step: a killed process leaves the old one or the new one; files that end; .npy."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import shutil
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

_SUFFIX = ".part"
"""End of the name of a temporary file, which lies beside its target."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A new file that takes the place of ``path`` when the block ends without an error; text is UTF-8.

    The block writes to ``NAME.XXXXXXXX.part`` in the same folder.  At its end the data are forced to the disk and the
    file is renamed, which is atomic.  If the block raises, or the process dies, ``path`` stays as
    it was.  The temporary file of a process that died is deleted by the next one that writes the same file; a lock,
    which the system releases at a process's death, keeps it from deleting the file of a process that lives.

    A symbolic link stays one, and permissions stay as they are.  Anything but a regular file (a pipe,
    /dev/stdout) is written directly.

    Raises
    ------
    OSError
        if the file cannot be written; it names ``path``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/one.txt") as file:
    ...         _ = file.write("1")
    ...     os.listdir(folder)
    ['one.txt']
    """
    target = Path(os.path.realpath(path))
    text: dict[str, Any] = {} if mode == "wb" else {"encoding": "utf-8", "newline": ""}
    if target.exists() and not target.is_file():
        with open(path, mode, **text) as file:
            yield file
        return
    try:
        _delete_left_over(target)
        part, descriptor = _created(target)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with _naming(path), open(descriptor, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, part)
            if os.name == "nt":  # which does not rename open files
                file.close()
            os.replace(part, target)
        _force_entry(target.parent)
    finally:
        part.unlink(missing_ok=True)


_FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else [])}
"""Errors of writing, for which the system names no file."""


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name ``path`` in an error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _created(target: Path) -> tuple[Path, int]:
    """A new temporary file beside ``target``, locked: its path and descriptor."""
    while True:
        part = target.with_name(f"{target.name}.{secrets.token_hex(4)}{_SUFFIX}")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        _locked(descriptor)
        if part.exists():  # not deleted before it was locked
            return part, descriptor
        os.close(descriptor)


def _delete_left_over(target: Path) -> None:
    """Delete the temporary files for ``target`` whose processes have died."""
    with contextlib.suppress(OSError):
        entries = [entry.name for entry in os.scandir(target.parent) if entry.name.endswith(_SUFFIX)]
        for name in entries:
            stem = name.removesuffix(_SUFFIX)
            if stem[:-9] == target.name and stem[-9:-8] == "." and set(stem[-8:]) <= set("0123456789abcdef"):
                _delete_unlocked(target.with_name(name))


def _delete_unlocked(part: Path) -> None:
    with contextlib.suppress(OSError):
        if os.name == "nt":  # which does not delete open files
            part.unlink()
            return
        descriptor = os.open(part, os.O_RDWR)
        try:
            if _locked(descriptor):
                part.unlink()
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock a file until it is closed or the process ends; False if another process has locked it, or none can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _force_entry(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can; the file itself is on it already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Files of strangers: they end.

LARGEST = 2**32
"""Bytes of the largest file that is read into memory as a whole."""

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def regular(path: str | os.PathLike[str]) -> int:
    """The size of a regular file; nothing is opened, as a pipe that nobody writes to would wait for ever.

    Raises
    ------
    ValueError
        for a pipe or a device.
    OSError
        if there is no such file, or for a folder.
    """
    name, status = os.fspath(path), os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise ValueError(f"{name}: expected a regular file, got {kind}: write its content to a file first")
    return status.st_size


def content(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """The bytes of a regular file, or of what the caller has opened: /dev/stdin, and /dev/fd/63 as <(…) names it.

    Raises
    ------
    ValueError
        as `regular`; for more than ``largest`` bytes.
    OSError
        if it cannot be read.
    """
    name = os.fspath(path)
    size = 0 if name.startswith(("/dev/stdin", "/dev/fd/")) else regular(path)
    with open(path, "rb") as file:
        data = file.read(size) if size <= largest else b""
        more = bytearray()
        while size <= largest and size + len(more) <= largest and (piece := file.read(2**18)):
            more += piece
    if size + len(more) > largest:
        raise ValueError(f"{name}: expected at most {largest} bytes, got more: split the file, or write it as Parquet")
    return data + more if more else data


# Arrays in NumPy's format .npy: the header is compared with the bytes that are there before memory is taken.

FAULTS = (ValueError, KeyError, TypeError, OverflowError, RecursionError, MemoryError, SyntaxError, tokenize.TokenError)
"""Exceptions that NumPy raises for invalid headers."""

LONGEST = 10_000
"""Bytes of the longest header that is parsed."""


WIDEST = 2**20
"""Largest size beside a size of 0: memory for results of such an array would be bounded by no bytes of the file."""


WORDS = {"biuf": "real numbers"}
"""Kinds of dtypes as messages name them."""


class Header(NamedTuple):
    """The type, the order and the shape of an array, as its header states them.

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
    if math.prod(shape) == 0 and max(shape) > WIDEST:
        raise ValueError(f"{name}: expected sizes of at most {WIDEST} in an array without numbers, got {_short(shape)}")
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
    regular(path)
    with open(path, "rb") as file:
        stated = header(file, os.fstat(file.fileno()).st_size, name)
    if not math.prod(stated.shape):
        raise ValueError(f"{name}: expected at least one number, got shape {stated.shape}")
    order: Any = "F" if stated.fortran else "C"
    return np.memmap(path, dtype=stated.dtype, mode="r", shape=stated.shape, order=order, offset=stated.offset)
