"""``cupyx.scipy.special``: the ufuncs that CuPy has, by SciPy's."""

from typing import Any

import scipy.special
from cupy import _surface, _ufunc


def __getattr__(name: str) -> Any:
    if not _surface.SURFACE["cupyx.scipy.special"].get(name, "").startswith("ufunc"):
        raise _surface.unlearnt("cupyx.scipy.special", name)
    globals()[name] = made = _ufunc.learnt("cupyx.scipy.special", name, scipy.special)
    return made
