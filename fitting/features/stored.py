"""Feature maps as plain values and arrays, for saved models: those of this package, and a user's by its own methods.

A user's class has ``to_dict()``, which returns plain values and arrays by name, and ``from_dict(values)``, a class or
static method.  A file never says which code to run: whoever loads it passes the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fitting.features import spectrum
from fitting.features.choices import Fourier, Hilbert, Mercer
from fitting.features.fourier import FourierMap
from fitting.features.hilbert_space import HilbertMap
from fitting.features.mercer import MercerMap
from fitting.features.mixed import MixedMap, Term
from fitting.features.mlp import MLP
from fitting.features.network import Network
from fitting.features.objects import Scaled
from fitting.features.projection import Projection
from fitting.features.transform import Composed, Squashed
from gpbounds.arrays import host
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import kernel_from_plain, kernel_to_plain
from gpbounds.records import OBJECT, Format, Variants, plain, slots_of

KINDS: Variants[Any] = Variants(
    "kind",
    {
        kind.__name__: Format(kind, slots_of(kind, OBJECT))
        for kind in (
            *(Composed, Fourier, FourierMap, Hilbert, HilbertMap, MLP, Mercer, MercerMap, MixedMap, Network),
            *(Projection, Scaled, Squashed),
            *(spectrum.Mixture, spectrum.Multiples, spectrum.Normal, spectrum.Zero, Term),
        )
    },
)
"""The classes of this package, which are stored by their fields."""


UNWRITTEN = {"standardise": "start"}
"""Fields that were added later, as `fitting.estimators.saving.UNWRITTEN`: a file holds them where they differ."""


class UnknownClass(ValueError):
    """A file names a class of features that was not passed."""


def to_plain(value: Any) -> Any:
    """``value`` as JSON values, with arrays in their places.

    Raises
    ------
    ValueError
        for an object without ``to_dict`` and ``from_dict``.
    """
    if isinstance(value, Kernel):
        return {"kernel": kernel_to_plain(value)}
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return plain(value)
    if KINDS.word(value):
        fields = KINDS.write(value).items()
        return {name: to_plain(part) for name, part in fields if not (name in UNWRITTEN and part == UNWRITTEN[name])}
    if isinstance(value, tuple | list):
        return {"tuple": [to_plain(each) for each in value]}
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return host(value)
    missing = [name for name in ("to_dict", "from_dict") if not hasattr(value, name)]
    if missing:
        raise ValueError(
            f"save: expected features with to_dict and from_dict, got {value!r} without "
            f"{', '.join(missing)}: add them, or store feature_kernel_.parameters and pass them to the object"
        )
    return {"own": type(value).__name__, "values": {name: to_plain(v) for name, v in value.to_dict().items()}}


def from_plain(value: Any, own: Mapping[str, Any]) -> Any:
    """The inverse of `to_plain`; ``own`` are the user's classes by name.

    Raises
    ------
    UnknownClass
        for a user's class that is not among ``own``.
    """
    if not isinstance(value, dict):
        return value
    if set(value) == {"kernel"}:
        return kernel_from_plain(value["kernel"])
    if "tuple" in value:
        return tuple(from_plain(each, own) for each in value["tuple"])
    if "kind" in value:
        return KINDS.read({name: from_plain(part, own) for name, part in value.items()})
    if value["own"] not in own:
        given = ", ".join(own) or "none"
        raise UnknownClass(
            f"features: expected the class {value['own']} of the saved features, got {given}: call "
            f"load(path, features={value['own']})"
        )
    return own[value["own"]].from_dict({name: from_plain(part, own) for name, part in value["values"].items()})


def by_name(features: Any) -> dict[str, Any]:
    """The user's class or classes by name; empty for None."""
    kinds: Iterable[Any] = () if features is None else features if isinstance(features, tuple | list) else (features,)
    return {kind.__name__: kind for kind in kinds}


def parted(tree: Any, prefix: str) -> tuple[Any, dict[str, Any]]:
    """A tree with names in the place of its arrays, and the arrays by name.

    >>> parted({"a": [np.ones(2), 3]}, "x")
    ({'a': [{'array': 'x/0'}, 3]}, {'x/0': array([1., 1.])})
    """
    arrays: dict[str, Any] = {}

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: named(part) for name, part in value.items()}
        if isinstance(value, list):
            return [named(part) for part in value]
        if not isinstance(value, np.ndarray):
            return value
        name = f"{prefix}/{len(arrays)}"
        arrays[name] = value
        return {"array": name}

    return named(tree), arrays


def joined(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The inverse of `parted`."""
    if isinstance(tree, dict):
        if set(tree) == {"array"}:
            return arrays[tree["array"]]
        return {name: joined(part, arrays) for name, part in tree.items()}
    return [joined(part, arrays) for part in tree] if isinstance(tree, list) else tree
