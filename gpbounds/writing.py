"""Files that are replaced in one step: a reader, and a process that is killed, leave the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

SUFFIX = ".part"
"""End of the name of a temporary file, which lies beside its target."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A new file that takes the place of ``path`` when the block ends without an error; text is UTF-8.

    The block writes to ``NAME.XXXXXXXX.part`` in the same folder.  At its end the data are forced to the disk and the
    file is renamed, which a file system does as a whole.  If the block raises, or the process dies, ``path`` stays as
    it was.  The temporary file of a process that died is deleted by the next one that writes the same file; a lock,
    which the system releases at a process's death, keeps it from deleting the file of a process that lives.

    A symbolic link stays one, and permissions stay as they are.  What is no regular file (a pipe, /dev/stdout) is
    written as it is.

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
        with open(descriptor, mode, **text) as file:
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


def _created(target: Path) -> tuple[Path, int]:
    """A new temporary file beside ``target``, locked: its path and descriptor."""
    while True:
        part = target.with_name(f"{target.name}.{secrets.token_hex(4)}{SUFFIX}")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        _locked(descriptor)
        if part.exists():  # not deleted before it was locked
            return part, descriptor
        os.close(descriptor)


def _delete_left_over(target: Path) -> None:
    """Delete the temporary files for ``target`` whose processes have died."""
    with contextlib.suppress(OSError):
        entries = [entry.name for entry in os.scandir(target.parent) if entry.name.endswith(SUFFIX)]
        for name in entries:
            stem = name.removesuffix(SUFFIX)
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
