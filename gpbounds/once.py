"""Properties that are computed once, and hold no lock meanwhile; names of packages that are loaded once, when used."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy knows the class of Python as a property
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is computed when it is first read, and is then an attribute of the object.

        Python 3.11 holds a lock while it computes one, the same for all objects of the class: threads wait for each
        other, and a process that is forked meanwhile waits for ever, since the thread that would free the lock is not
        in it.  Without the lock two threads that read a property of one object at once may both compute it; both get
        the value that was there first.

        >>> class Square:
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return 4.0
        >>> square = Square()
        >>> square.area, square.area
        computed
        (4.0, 4.0)
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname in values:
                return values[self.attrname]
            return values.setdefault(self.attrname, self.func(instance))


def loaded_on_use(
    package: str, home: Mapping[str, str], *own: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a ``package`` that loads a name when it is first used (PEP 562).

    ``home`` has the module of each such name, relative to the package; ``own`` are names that the package defines.

    >>> get, names = loaded_on_use("gpbounds", {"Interval": "interval"})
    >>> get("Interval").__module__, names()
    ('gpbounds.interval', ['Interval'])
    """

    def attribute(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return attribute, lambda: sorted([*home, *own])
