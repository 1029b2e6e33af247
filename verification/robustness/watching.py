"""What a reader does beside its answer: memory, time, and actions that no reader has reason for."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import sysconfig
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fitting
import gpbounds

CONSTANT, FACTOR = 2**24, 400
"""A reader may take 16 MB and 400 bytes for each byte of the file: Python's lists of short cells need so many."""

LONGEST = 30.0
"""Seconds that reading one small file may take."""

FORBIDDEN = ("os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class")
"""Audit events of actions that read no file."""

CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "shutil.rmtree")
CODE = tuple(
    str(Path(place).resolve())
    for place in (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], Path(__file__).parents[2])
)

_seen: list[str] = []
_active = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event in FORBIDDEN or event in CHANGING or event.startswith(("socket.", "ctypes.dlopen")):
        _seen.append(f"{event} {args!r:.80}")
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        _seen.append(f"open {args!r:.80}")
    elif event == "exec" and not _ours(str(getattr(args[0], "co_filename", ""))):
        _seen.append(f"exec {args!r:.80}")


def _ours(name: str) -> bool:
    return name.startswith("<frozen") or (not name.startswith("<") and str(Path(name).resolve()).startswith(CODE))


def begin() -> None:
    """Watch this process from now on; an audit hook stays until its end.

    All modules are imported first: one that is loaded on first use makes its data classes by executing text.
    """
    for package in (gpbounds, fitting):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    sys.addaudithook(_hook)
    tracemalloc.start()


def watched(read: Callable[[], Any], size: int) -> tuple[Any, BaseException | None, list[str]]:
    """The answer of ``read`` or its exception, and faults as sentences."""
    global _active
    _seen.clear()
    os.environ.pop("GPBOUNDS_RAN", None)
    tracemalloc.reset_peak()
    before, began = tracemalloc.get_traced_memory()[0], time.process_time()
    answer, error = None, None
    _active = True
    try:
        answer = read()
    except BaseException as fault:
        error = fault
    finally:
        _active = False
    taken, spent = tracemalloc.get_traced_memory()[1] - before, time.process_time() - began
    faults = [f"it did {each}" for each in _seen]
    if "GPBOUNDS_RAN" in os.environ:
        faults.append("it ran code of the file")
    if taken > CONSTANT + FACTOR * size:
        faults.append(f"it took {taken / 1e6:.0f} MB for {size} bytes")
    if spent > LONGEST:
        faults.append(f"it took {spent:.0f} s")
    return answer, error, faults
