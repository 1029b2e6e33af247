"""Members of a family, such as the losses, written as records {"name": ..., parameters} and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, TypeVar

from gpbounds.validation import positive, scalar


class Named:
    """A dataclass that can be written as JSON.

    Attributes
    ----------
    name : str
        Its name in records.
    """

    name: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, ready for JSON; the ``from_dict`` of its package reads them back."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def _one_positive(self, *parameters: str) -> None:
        """Check that each of these fields is one positive number, and store it as a float."""
        for parameter in parameters:
            object.__setattr__(self, parameter, scalar(positive, parameter, getattr(self, parameter)))


Member = TypeVar("Member", bound=Named)


def member(kinds: Iterable[type[Member]], record: Mapping[str, Any]) -> Member:
    """The member of a family that its ``to_dict`` described.

    Raises
    ------
    ValueError
        for an unknown name, or parameters that are missing, unknown or wrong.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"expected a record with a name and parameters, got {record!r}")
    parameters, by_name = dict(record), {kind.name: kind for kind in kinds}
    name = parameters.pop("name", None)
    if not isinstance(name, str) or name not in by_name:
        raise ValueError(f"name: expected one of {', '.join(map(repr, by_name))}, got {name!r}")
    try:
        return by_name[name](**parameters)
    except TypeError:
        expected = ", ".join(field.name for field in fields(by_name[name]))  # type: ignore[arg-type]
        raise ValueError(f"{name}: expected its parameters {expected}, got {sorted(map(str, parameters))}") from None
