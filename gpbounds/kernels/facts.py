"""Proved facts about a kernel's formula; a class with another formula does not inherit them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from gpbounds.errors import shown

Place = TypeVar("Place")
Result = TypeVar("Result")

_APART = frozenset(
    (
        *("parameter_names", "log_parameters", "with_log_parameters", "pull", "pull_rows", "pull_both", "pull_diag"),
        *("pull_largest", "slope", "slope_formula", "expands", "on", "formula_class"),
    )
)
"""Methods of a kernel on which its values do not depend."""
FACTS = frozenset(
    (
        *("in_pairs", "pair_entries", "pair_error", "entry_errors", "entry_bound", "value_bound", "polynomial"),
        *("is_positive", "falls", "bend"),
    )
)
"""The facts: methods of `gpbounds.kernels.Kernel` about a formula, by default "not known"."""
_SHORTCUTS = ("covariance", "fill_products", "pull", "pull_rows", "pull_both", "formula", "slope_formula", "expression")
"""Methods that write a formula once more, for speed or for CUDA; a class with another formula has the general ones."""


class Facts:
    """Facts that a kernel states about its own formula; by default nothing is known.

    A fact holds for the formula of the class that states it.  A subclass has the same formula, and inherits the facts,
    unless it or another base class redefines a method of that class; facts, methods of training and special methods
    other than ``__call__`` do not count.  A subclass with another formula has only the facts in its own body, or also
    those of its base class if it declares them valid: ``class Linear(InnerProduct, facts_hold=True)``.  Nor does it
    inherit code that writes the former formula once more, such as its CUDA source, nor its slope.

    Attributes
    ----------
    formula_class : type
        The class whose formula the kernel has.  Tables of facts are keyed by it; ``type(k) is k.formula_class`` where
        a fact holds for this very class only.
    """

    formula_class: ClassVar[type[Any]]

    def __init_subclass__(cls, *, facts_hold: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        stated = getattr(super(cls, cls), "formula_class", cls)
        if stated is not cls and not any(_redefined(cls, stated, name) for name in _formula(stated)):
            cls.formula_class = stated
            return
        cls.formula_class = cls
        if stated is not cls and not facts_hold and not inspect.isabstract(stated):
            _forget_shortcuts(cls, stated)
        root = next(above for above in reversed(cls.__mro__) if "formula_class" in vars(above))  # Kernel
        for name in () if facts_hold else FACTS - vars(cls).keys():
            setattr(cls, name, vars(root)[name])


def _forget_shortcuts(cls: type[Any], stated: type[Any]) -> None:
    """Replace what ``cls`` inherits from ``stated`` and its kin and what holds for their formula alone."""
    former = [above for above in cls.__mro__[1:] if getattr(above, "formula_class", None) is stated]
    others = [above for above in cls.__mro__[1:] if above not in former]
    for name in _SHORTCUTS:
        if any(name in vars(above) for above in former) and name not in vars(cls):
            general = next((vars(above)[name] for above in others if name in vars(above)), None)
            if general is not None:
                setattr(cls, name, general)
    owner = next((above for above in cls.__mro__ if "slope" in vars(above)), None)
    if owner in former:
        cls.slope = _no_slope


def _no_slope(self: Any, *place: Any) -> Any:
    """Refuse a derivative: the inherited slope is that of another formula."""
    name, base = type(self).__name__, type(self).__mro__[1].__name__
    raise TypeError(f"kernel: expected {name}, whose formula is another than that of {base}, to define slope")


def has_formula(kernel: Any, *families: type[Any]) -> bool:
    """Whether ``kernel`` has the formula of one of these classes, which a subclass with another formula has not."""
    return not isinstance(kernel, type) and getattr(kernel, "formula_class", None) in families


def where_known(join: Callable[[Any, Any], Result]) -> Callable[[Any, Any], Result | None]:
    """For `Fold`: ``join``, with the result None if a part's result is None."""
    return lambda first, second: None if first is None or second is None else join(first, second)


def inside(kernel: Any, at: Place, inner: Callable[[Place], Result]) -> Result:
    """For `Fold`: the place is the same for all columns."""
    return inner(at)


def chosen(kernel: Any, at: Any, inner: Callable[[Any], Result]) -> Result:
    """For `Fold`: the place is an array of points (n, D)."""
    return inner(kernel.chosen(at))


def numbered(kernel: Any, at: Any, inner: Callable[[Any], Result]) -> Result:
    """For `Fold`: the place is a tuple of the columns that are read.

    Raises
    ------
    ValueError
        where the kernel reads a column that is not there.
    """
    if max(kernel.columns) >= len(at):
        raise ValueError(f"columns: expected numbers below {len(at)}, got {list(kernel.columns)}")
    return inner(tuple(at[column] for column in kernel.columns))


@dataclass(frozen=True)
class Fold(Generic[Place, Result]):
    """The rules by which `Kernel.fold` joins the results of a kernel's parts.

    Attributes
    ----------
    leaf : function of (k, at)
        The result for a kernel without parts; ``at`` is its place, such as the points that it reads.
    add, multiply : functions of two results
        The result for a sum and for a product.
    columns : function of (k, at, inner)
        The result for a kernel on some columns; ``inner(place)`` is the result of ``k.kernel`` at a place.
    """

    leaf: Callable[[Any, Place], Result]
    add: Callable[[Result, Result], Result]
    multiply: Callable[[Result, Result], Result]
    columns: Callable[[Any, Place, Callable[[Place], Result]], Result] = inside


def unknown(kernel: object) -> ValueError:
    """The error to raise for a kernel without proved rounding errors."""
    return ValueError(
        "kernel: expected a kernel of gpbounds (a Matérn kernel with half-integer nu), or sums and products of them, "
        f"whose rounding errors are proved, got {shown(kernel)}"
    )


def _formula(stated: type) -> set[str]:
    """The names on which the values of a class of kernels may depend."""
    names = {name for above in stated.__mro__[:-1] for name in vars(above)}
    return {name for name in names - FACTS - _APART if name == "__call__" or not name.startswith("__")}


def _redefined(cls: type, stated: type, name: str) -> bool:
    """Whether a method is another one; other attributes are the defaults of parameters."""
    new, old = inspect.getattr_static(cls, name), inspect.getattr_static(stated, name)
    return new is not old and (hasattr(new, "__get__") or hasattr(old, "__get__"))
