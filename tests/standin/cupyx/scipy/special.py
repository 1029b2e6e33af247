"""``cupyx.scipy.special``: CuPy's ufuncs, computed by SciPy."""

from typing import Any

import scipy.special
from cupy import _surface, _ufunc


def __getattr__(name: str) -> Any:
    if not _surface.SURFACE["cupyx.scipy.special"].get(name, "").startswith("ufunc"):
        raise _surface.unlearnt("cupyx.scipy.special", name)
    globals()[name] = made = _ufunc.learnt("cupyx.scipy.special", name, scipy.special)
    return made
