"""Properties that are computed once, and hold no lock meanwhile."""

from __future__ import annotations

import functools
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
