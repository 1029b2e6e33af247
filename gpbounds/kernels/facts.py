"""What is proved of a kernel's formula; a class with another formula does not inherit it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from gpbounds.arrays import Float
from gpbounds.numerics.pairs import Pair

APART = frozenset(
    (
        *("parameter_names", "log_parameters", "with_log_parameters", "pull", "pull_rows", "pull_both", "pull_diag"),
        *("pull_largest", "slope", "slope_formula", "expands", "on", "formula_class"),
    )
)
"""Methods of a kernel on which its values do not depend."""


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
    is_positive : bool
        Whether no covariance is negative, whatever the inputs.
    falls : bool
        Whether k(x, x') is known to be a function of |x − x'| that does not increase.
    """

    formula_class: ClassVar[type[Any]]
    is_positive: ClassVar[bool] = False
    falls: ClassVar[bool] = False

    def __init_subclass__(cls, *, facts_hold: bool = False, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        stated = getattr(super(cls, cls), "formula_class", None)
        if stated is not None and not any(_redefined(cls, stated, name) for name in _formula(stated)):
            cls.formula_class = stated
            return
        cls.formula_class = cls
        for name in () if facts_hold else FACTS - vars(cls).keys():
            setattr(cls, name, vars(Facts)[name])

    @property
    def in_pairs(self) -> bool:
        """Whether `pair_entries` and `pair_error` are known, for these hyperparameters."""
        return False

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        """k of the points X1 (n, 1, D) and X2 (1, m, D), or (n, 1, D) for one value a row, in double-double numbers.

        The kernel is one that `gpbounds.kernels.pairs.unit` returned: its largest value is near 1.
        """
        raise unknown(self)

    def pair_error(self, reach: Float) -> float:
        """A bound on the error of `pair_entries` for |x_d| ≤ reach_d."""
        raise unknown(self)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """As `gpbounds.kernels.errors.entry_errors`, for K = k(X, X) as it is computed in double precision."""
        raise unknown(self)

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float] | None:
        """As `gpbounds.kernels.errors.entry_bound`, and a bound on |k| itself; None if nothing is proved."""

    def value_bound(self, reach: Float) -> tuple[float, float]:
        """As `gpbounds.pacbayes.certificate.values.value_error`, and a bound on |k(x, x')| in the box."""
        raise unknown(self)

    def polynomial(self, dim: int) -> tuple[float | None, Float, int] | None:
        """(b, v, p) with k = (b + Σ_d v_d x_d x'_d)^p for x in ``dim`` dimensions, b None for 0; None for another k."""

    def bend(self, step: float) -> float | None:
        """As `gpbounds.rates.concentration.interpolation_error`, of a function on a line; None if none is proved."""


FACTS = frozenset(name for name in vars(Facts) if not name.startswith("_"))


def unknown(kernel: object) -> ValueError:
    """The error of a kernel whose rounding errors are not proved."""
    return ValueError(
        "kernel: expected a kernel of gpbounds (a Matérn kernel with half-integer nu), or sums and products of them, "
        f"whose rounding errors are proved, got {kernel!r}"
    )


def _formula(stated: type) -> set[str]:
    """The names on which the values of a class of kernels may depend."""
    names = {name for above in stated.__mro__[:-1] for name in vars(above)}
    return {name for name in names - FACTS - APART if name == "__call__" or not name.startswith("__")}


def _redefined(cls: type, stated: type, name: str) -> bool:
    """Whether a method is another one; other attributes are the defaults of parameters."""
    new, old = inspect.getattr_static(cls, name), inspect.getattr_static(stated, name)
    return new is not old and (hasattr(new, "__get__") or hasattr(old, "__get__"))
