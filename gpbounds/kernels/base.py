"""The interface of covariance functions: matrix, diagonal, derivatives; sums, products, kernels on some columns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, is_cupy, namespace
from gpbounds.errors import shown
from gpbounds.kernels import per_dimension
from gpbounds.kernels.expressions import Expression, Pair, on_columns
from gpbounds.kernels.facts import Facts, Fold, Place, Result, unknown
from gpbounds.kernels.fused import Fused
from gpbounds.linalg.products import add_product
from gpbounds.numerics.pairs import Pair as DoublePair
from gpbounds.validation import as_log_parameters, column_numbers

PIECE = 2**16
"""Entries of a matrix that a thread computes at a time, so that every step finds them in the cache."""


class Kernel(Facts, ABC):
    """A positive semi-definite function k(x, x') on R^D.

    Kernels add and multiply: ``k1 + k2``, ``k1 * k2``; ``k.on(columns)`` reads some columns of x only.
    The methods of `Facts` state what is proved about a kernel, such as errors and signs; by default nothing is known.
    """

    is_noise: ClassVar[bool] = False
    """Whether the kernel is `White`, which has no values."""
    has_one_variance: ClassVar[bool] = False
    """Whether k(x, x) is known to be the same for all x."""
    is_positive: ClassVar[bool] = False
    """Whether no covariance is negative, whatever the inputs."""
    falls: ClassVar[bool] = False
    """Whether k(x, x') is known to be a function of |x − x'| that does not increase."""

    @abstractmethod
    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        """The matrix k(x_i, x_j), shape (N, M), for X1 (N, D) and X2 (M, D); X2 defaults to X1."""

    @abstractmethod
    def diag(self, X: ArrayLike | Array) -> Array:
        """k(x_i, x_i) for the rows of X (N, D); shape (N,)."""

    @property
    @abstractmethod
    def max_variance(self) -> float:
        """v = sup_x k(x, x), in squared units of y; infinity for a kernel without a largest variance."""

    def largest_variance(self, X: Array) -> float:
        """`max_variance`, or where it is infinite the largest k(x, x) of the rows of X."""
        v = self.max_variance
        return v if math.isfinite(v) else float(self.diag(X).max())

    def fold(self, rule: Fold[Place, Result], at: Place) -> Result:
        """Join the results of the kernel's parts, in written order, by ``rule``; ``at`` is the kernel's place (`Fold`).

        >>> from gpbounds.kernels import Constant, SquaredExponential
        >>> from gpbounds.kernels.facts import numbered
        >>> text = Fold(lambda k, at: f"{type(k).__name__}{at}", "{} + {}".format, "{} * ({})".format, numbered)
        >>> kernel = SquaredExponential() * (Constant() + SquaredExponential()).on([1])
        >>> kernel.fold(text, (5, 7))
        'SquaredExponential(5, 7) * (Constant(7,) + SquaredExponential(7,))'
        """
        return rule.leaf(self, at)

    def lengths(self, X: Float) -> Float:
        """The length on which k varies, for each column of X (N, D): here the standard deviation."""
        spread = X.std(axis=0)
        return np.where(spread > 0.0, spread, 1.0)

    def largest_exponent(self, reach: Float) -> int:
        """e with 2ᵉ about the largest |k(x, z)| for |x_d|, |z_d| ≤ reach_d."""
        return math.frexp(self.max_variance)[1] - 1

    def times_power(self, exponent: int) -> Kernel:
        """2^exponent times the kernel; a variance that underflows becomes the smallest double."""
        own: Any = self
        return replace(own, variance=float(per_dimension.times_power(own.variance, exponent)))

    def largest_within(self, reach: Float) -> float:
        """An upper bound on |k(x, z)| for |x_d|, |z_d| ≤ reach_d, rounded up."""
        return self.max_variance

    @property
    def in_pairs(self) -> bool:
        """Whether `pair_entries` and `pair_error` are known, for these hyperparameters."""
        return False

    def pair_entries(self, X1: Float, X2: Float) -> DoublePair:
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
        """Bounds on the rounding error of k(x, x') and on |k(x, x')| for |x_d|, |x'_d| ≤ reach_d."""
        raise unknown(self)

    def polynomial(self, dim: int) -> tuple[float | None, Float, int] | None:
        """(b, v, p) with k = (b + Σ_d v_d x_d x'_d)^p for x in ``dim`` dimensions, b None for 0; None for another k."""

    def bend(self, step: float) -> float | None:
        """A proved `gpbounds.rates.concentration.interpolation_error` for k on a line; None where none is proved."""

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        """k(X1, X2) written into ``out``, C-contiguous (N, M)."""
        if not is_cupy(out) or on_device(self, X1, X2, out) is None:
            out[...] = self(X1, X2)
        return out

    def fill_products(self, X1: Array, X2: Array, out: Array) -> Array:
        """As `fill`, but faster, by matrix products where possible, with a relative error of up to `products_error`."""
        return self.fill(X1, X2, out)

    def products_error(self, dim: int) -> float:
        """Relative error that `fill_products` adds to that of `fill`, in ``dim`` dimensions."""
        return 0.0

    @property
    def expression(self) -> Expression | None:
        """k and its slopes as CUDA source, for `gpbounds.kernels.fused`; None if there is none."""
        return None

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of `log_parameters`, in its order."""
        raise cannot(self)

    @property
    def log_parameters(self) -> Float:
        """Logarithms of the hyperparameters, shape (p,)."""
        raise cannot(self)

    def with_log_parameters(self, values: ArrayLike) -> Kernel:
        """The same kernel with other hyperparameters."""
        raise cannot(self)

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        """Derivatives of Σ_ij C_ij k(x_i, z_j), C the ``cotangent`` (N, M): in `log_parameters` (p,), and in X2 (M, D).

        ``cotangent`` is overwritten; ``value`` is k(X1, X2) if the caller has computed it.  For X2 = X1 the result is
        the derivative in the second argument only; for symmetric C the derivative in both is twice as large.
        """
        raise cannot(self)

    def pull_rows(
        self, X1: Array, X2: Array, Y: Array, weights: Array, a: Array, b: Array, value: Array
    ) -> tuple[Float, Array]:
        """`pull` of the cotangent C_ij = s_i Y_ij + a_i b_j, s = ``weights`` (N,), a (N,), b (M,); Y is overwritten."""
        Y *= weights[:, None]
        add_product(a.reshape(-1, 1), b.reshape(1, -1), Y)
        return self.pull(X1, X2, Y, value)

    def pull_both(self, X1: Array, X2: Array, cotangent: Array, value: Array) -> tuple[Float, Array, Array]:
        """As `pull`, with the derivatives in X1 (N, D) last."""
        _, back = self.pull(X2, X1, cotangent.T.copy(), namespace(value).ascontiguousarray(value.T))
        return *self.pull(X1, X2, cotangent, value), back

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        """Derivatives of Σ_i c_i k(x_i, x_i) in `log_parameters`, c = ``cotangent`` (N,), for fixed x."""
        raise cannot(self)

    def pull_largest(self, X: Array, weight: float) -> tuple[Float, Array | None]:
        """Derivatives of ``weight``·`largest_variance` in `log_parameters`, and in X (N, D), None where it is constant.

        Where several rows have the largest variance, the derivative is that of the first.
        """
        xp = namespace(X)
        if math.isfinite(self.max_variance):
            return self.pull_diag(X[:1], xp.full(1, weight)), None
        row = int(self.diag(X).argmax())
        largest, moved = X[row : row + 1], xp.zeros_like(X)
        moved[row] = 2.0 * self.pull(largest, largest, xp.full((1, 1), weight))[1][0]
        return self.pull_diag(largest, xp.full(1, weight)), moved

    def on(self, columns: Sequence[int]) -> OnColumns:
        """The kernel as a function of these columns of x: k(x[columns], x'[columns]).

        >>> from gpbounds.kernels import SquaredExponential
        >>> SquaredExponential().on([1])([[0.0, 1.0], [5.0, 1.0]])
        array([[1., 1.],
               [1., 1.]])
        """
        return OnColumns(self, columns)

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Kernel:
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented


def as_kernel(kernel: object, name: str = "kernel") -> Kernel:
    """The kernel, or an error that says what one is."""
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"{name}: expected a kernel of gpbounds.kernels, such as SquaredExponential(1.0, [0.5]), got "
            f"{shown(kernel)}"
        )
    return kernel


def cannot(kernel: Kernel) -> TypeError:
    """The error of a kernel without derivatives."""
    return TypeError(
        f"kernel: expected a kernel with derivatives, got {type(kernel).__name__}; define parameter_names, "
        "log_parameters, with_log_parameters, pull and pull_diag to train it"
    )


def on_device(kernel: Kernel, X1: Array, X2: ArrayLike | Array | None, out: Array | None = None) -> Array | None:
    """k(X1, X2) by one formula on a GPU; None without a formula, and for float32, which scaled points round."""
    left = as_points(X1, "X1")
    right = left if X2 is None else as_points(X2, "X2")
    namespace(left, right)
    if kernel.expression is None or left.dtype != np.float64 or right.dtype != np.float64:
        return None
    if left.shape[1] != right.shape[1]:
        raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
    fused = Fused(kernel, right)
    return fused.matrix(left) if out is None else fused.fill(left, out)


class _Pair(Kernel):
    """The common part of sums and products: parameters of the first kernel, then of the second."""

    k1: Kernel
    k2: Kernel
    operation: ClassVar[Literal["+", "*"]]

    def __post_init__(self) -> None:
        as_kernel(self.k1, "k1")
        as_kernel(self.k2, "k2")

    @property
    def expression(self) -> Expression | None:
        first, second = self.k1.expression, self.k2.expression
        return None if first is None or second is None else Pair(self.operation, first, second)

    def fold(self, rule: Fold[Place, Result], at: Place) -> Result:
        first, second = self.k1.fold(rule, at), self.k2.fold(rule, at)
        return (rule.add if self.operation == "+" else rule.multiply)(first, second)

    def _fused(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None) -> Array | None:
        """k(X1, X2) on a GPU by one formula; None elsewhere."""
        return on_device(self, X1, X2) if is_cupy(X1) else None

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(f"k{i}.{name}" for i, k in enumerate((self.k1, self.k2), 1) for name in k.parameter_names)

    @property
    def log_parameters(self) -> Float:
        return np.concatenate([self.k1.log_parameters, self.k2.log_parameters])

    def with_log_parameters(self, values: ArrayLike) -> Kernel:
        first, second = np.split(as_log_parameters(values, self.parameter_names), [self.k1.log_parameters.size])
        pair: Any = type(self)
        return pair(self.k1.with_log_parameters(first), self.k2.with_log_parameters(second))


@dataclass(frozen=True)
class Sum(_Pair):
    """k1 + k2."""

    k1: Kernel
    k2: Kernel
    operation: ClassVar[Literal["+", "*"]] = "+"

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        first, moved = self.k1.pull(X1, X2, cotangent.copy())
        second, also = self.k2.pull(X1, X2, cotangent)
        return np.concatenate([first, second]), moved + also

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        return np.concatenate([self.k1.pull_diag(X, cotangent), self.k2.pull_diag(X, cotangent)])

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        fused = self._fused(X1, X2)
        return self.k1(X1, X2) + self.k2(X1, X2) if fused is None else fused

    def diag(self, X: ArrayLike | Array) -> Array:
        return self.k1.diag(X) + self.k2.diag(X)

    @property
    def max_variance(self) -> float:
        return self.k1.max_variance + self.k2.max_variance


@dataclass(frozen=True)
class Product(_Pair):
    """k1 · k2, elementwise (Schur product)."""

    k1: Kernel
    k2: Kernel
    operation: ClassVar[Literal["+", "*"]] = "*"

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = self.k1(X1, X2), self.k2(X1, X2)
        first, moved = self.k1.pull(X1, X2, cotangent * right, left)
        second, also = self.k2.pull(X1, X2, cotangent * left, right)
        return np.concatenate([first, second]), moved + also

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        first = self.k1.pull_diag(X, cotangent * self.k2.diag(X))
        return np.concatenate([first, self.k2.pull_diag(X, cotangent * self.k1.diag(X))])

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        fused = self._fused(X1, X2)
        return self.k1(X1, X2) * self.k2(X1, X2) if fused is None else fused

    def diag(self, X: ArrayLike | Array) -> Array:
        return self.k1.diag(X) * self.k2.diag(X)

    @property
    def max_variance(self) -> float:
        return self.k1.max_variance * self.k2.max_variance


@dataclass(frozen=True, init=False)
class OnColumns(Kernel):
    """k(x[columns], x'[columns]): a kernel that depends on some columns of x ("active dimensions").

    It is positive semi-definite because k is.

    Parameters
    ----------
    kernel : Kernel
        k, on inputs with as many columns as are listed.
    columns : sequence of whole numbers
        Different numbers from 0 to D − 1, in the order in which k reads them.

    Raises
    ------
    ValueError
        for a list that is empty, repeats a number, or has a negative one; when the kernel is used, for a number that is
        not below the number of columns of the inputs.

    >>> from gpbounds.kernels import SquaredExponential
    >>> k = OnColumns(SquaredExponential(1.0, [1.0, 2.0]), columns=[0, 2])
    >>> k([[0.0, 9.0, 0.0]], [[0.0, 5.0, 2.0]]).round(4)  # exp(-1/2)
    array([[0.6065]])
    """

    kernel: Kernel
    columns: tuple[int, ...]

    def __init__(self, kernel: Kernel, columns: Sequence[int]) -> None:
        as_kernel(kernel)
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "columns", column_numbers(columns))

    def chosen(self, X: ArrayLike | Array, name: str = "X") -> Array:
        """The columns of X (N, D) that the kernel reads, (N, len(columns)), C-contiguous."""
        points = as_points(X, name)
        if max(self.columns) >= points.shape[1]:
            raise ValueError(
                f"columns: expected numbers below {points.shape[1]}, the number of columns of {name}, got "
                f"{max(self.columns)} in {list(self.columns)}"
            )
        return namespace(points).ascontiguousarray(points[:, list(self.columns)])

    def fold(self, rule: Fold[Place, Result], at: Place) -> Result:
        return rule.columns(self, at, lambda place: self.kernel.fold(rule, place))

    def _both(self, X1: ArrayLike | Array, X2: ArrayLike | Array) -> tuple[Array, Array]:
        left, right = as_points(X1, "X1"), as_points(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self.chosen(left, "X1"), self.chosen(right, "X2")

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        return self.kernel(self.chosen(X1, "X1")) if X2 is None else self.kernel(*self._both(X1, X2))

    def diag(self, X: ArrayLike | Array) -> Array:
        return self.kernel.diag(self.chosen(X))

    @property
    def max_variance(self) -> float:
        return self.kernel.max_variance

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        return self.kernel.fill(*self._both(X1, X2), out)

    def fill_products(self, X1: Array, X2: Array, out: Array) -> Array:
        return self.kernel.fill_products(*self._both(X1, X2), out)

    def products_error(self, dim: int) -> float:
        return self.kernel.products_error(len(self.columns))

    @property
    def expression(self) -> Expression | None:
        own = self.kernel.expression
        return None if own is None else on_columns(own, self.columns)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.kernel.parameter_names

    @property
    def log_parameters(self) -> Float:
        return self.kernel.log_parameters

    def with_log_parameters(self, values: ArrayLike) -> OnColumns:
        return OnColumns(self.kernel.with_log_parameters(values), self.columns)

    def _spread(self, moved: Array, D: int) -> Array:
        """Derivatives in the kernel's columns as derivatives in all D."""
        every = namespace(moved).zeros((moved.shape[0], D), dtype=moved.dtype)
        every[:, list(self.columns)] = moved
        return every

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        parameters, moved = self.kernel.pull(*self._both(X1, X2), cotangent, value)
        return parameters, self._spread(moved, X2.shape[1])

    def pull_rows(
        self, X1: Array, X2: Array, Y: Array, weights: Array, a: Array, b: Array, value: Array
    ) -> tuple[Float, Array]:
        parameters, moved = self.kernel.pull_rows(*self._both(X1, X2), Y, weights, a, b, value)
        return parameters, self._spread(moved, X2.shape[1])

    def pull_both(self, X1: Array, X2: Array, cotangent: Array, value: Array) -> tuple[Float, Array, Array]:
        parameters, moved, back = self.kernel.pull_both(*self._both(X1, X2), cotangent, value)
        return parameters, self._spread(moved, X2.shape[1]), self._spread(back, X1.shape[1])

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        return self.kernel.pull_diag(self.chosen(X), cotangent)
