"""What has been renamed since the state was frozen: the file to edit after a renaming, beside `calls/`.

The calls name functions, arguments, attributes and classes as they were on the day the numbers were stored.  Here
stands what they are called now; an empty table means that nothing has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PLACES: dict[str, str] = {"gpbounds.psd": "gpbounds.linalg.psd"}
"""Dotted name then: dotted name now; a whole room, too: {"gpbounds.renyi": "gpbounds.evidence"}."""

Arguments = Mapping[str, str] | Callable[[dict[str, Any]], dict[str, Any]]

ARGUMENTS: dict[str, Arguments] = {"gpbounds.renyi.predict": lambda arguments: {**arguments, "noisy": True}}
"""Dotted name (or "Class.method" as the calls write it) then: {argument then: argument now}, or a function of all
keyword arguments where more than a name has changed."""

ATTRIBUTES: dict[str, str] = {}
"""Attribute or method then: now, for what is read from results: {"gradient.kernel": "slopes.kernel"}."""

CLASSES: dict[str, str] = {}
"""Class of a result now: class then, where it was renamed: {"Evidence": "Bound"}."""
