"""What is proved of a kernel's formula; a class with another formula does not inherit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

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
"""What `gpbounds.kernels.Kernel` says of a formula; its defaults are that nothing is known."""


class Facts:
    """What a kernel states about its own formula, beside it; by default nothing is known.

    A fact holds for the formula of the class that states it.  A subclass inherits it if it has the same formula: if it
    redefines, itself or by another base class, no method of that class but those of training and special methods
    other than ``__call__``.  Otherwise each fact that it does not state in its own body is unknown again, unless it
    says, ``class Linear(InnerProduct, facts_hold=True)``, that those of its base class are written for it, too.

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
        root = next(above for above in reversed(cls.__mro__) if "formula_class" in vars(above))  # Kernel
        for name in () if facts_hold else FACTS - vars(cls).keys():
            setattr(cls, name, vars(root)[name])


def where_known(join: Callable[[Any, Any], Result]) -> Callable[[Any, Any], Result | None]:
    """For `Fold`: the result of two parts, None where one of them is None."""
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
    """How `Kernel.fold` makes one result of those of a kernel's parts.

    Attributes
    ----------
    leaf : function of (k, at)
        The result for a kernel that is not made of others; ``at`` says where it is, such as the points it reads.
    add, multiply : functions of two results
        The result for a sum and for a product.
    columns : function of (k, at, inner)
        The result for a kernel on some columns; ``inner(place)`` is that of ``k.kernel`` there.
    """

    leaf: Callable[[Any, Place], Result]
    add: Callable[[Result, Result], Result]
    multiply: Callable[[Result, Result], Result]
    columns: Callable[[Any, Place, Callable[[Place], Result]], Result] = inside


def unknown(kernel: object) -> ValueError:
    """The error of a kernel whose rounding errors are not proved."""
    return ValueError(
        "kernel: expected a kernel of gpbounds (a Matérn kernel with half-integer nu), or sums and products of them, "
        f"whose rounding errors are proved, got {kernel!r}"
    )


def _formula(stated: type) -> set[str]:
    """The names on which the values of a class of kernels may depend."""
    names = {name for above in stated.__mro__[:-1] for name in vars(above)}
    return {name for name in names - FACTS - _APART if name == "__call__" or not name.startswith("__")}


def _redefined(cls: type, stated: type, name: str) -> bool:
    """Whether a method is another one; other attributes are the defaults of parameters."""
    new, old = inspect.getattr_static(cls, name), inspect.getattr_static(stated, name)
    return new is not old and (hasattr(new, "__get__") or hasattr(old, "__get__"))
