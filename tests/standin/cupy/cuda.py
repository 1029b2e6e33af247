"""``cupy.cuda``: one available device, with half of its memory free."""

from types import SimpleNamespace
from typing import Any

from cupy import _surface


class CUDARuntimeError(RuntimeError):
    pass


runtime = SimpleNamespace(
    getDeviceCount=lambda: 1, memGetInfo=lambda: (2**30, 2**31), CUDARuntimeError=CUDARuntimeError
)


def is_available() -> bool:
    return True


def __getattr__(name: str) -> Any:
    raise _surface.unlearnt("cupy.cuda", name)
