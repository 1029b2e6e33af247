"""Kernels on a GPU: one launch computes a matrix of covariances, one pulls a matrix of cotangents back.

Neither stores a matrix of distances or of weights.  Pulled-back derivatives of a stationary kernel are sums of W g and
W g², g = (x − z)/ℓ, so that nothing cancels; every thread adds up some rows of one column, and its sums stay on the
device until all chunks are done.  All sums are in double precision.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbounds.arrays import Array, Float
from gpbounds.kernels import expressions
from gpbounds.kernels.expressions import Expression, leaves
from gpbounds.readings import Unread

if TYPE_CHECKING:
    from gpbounds.kernels.base import Kernel

FEWEST, THREADS = 32, 2**18
"""Least number of rows that a thread adds up, and number of threads that keep a device busy."""

BLOCKS = "cotangent[row * each + column - start]"
DENSE, SCALED = "cotangent[row * columns + column]", "w[row] * cotangent[row * columns + column] + a[row] * b[column]"


@lru_cache(maxsize=64)
def _compiled(body: str, inputs: str, output: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, output, body, "covariances")


class Fused:
    """k(·, Z) for checked CuPy arrays; its parameters and Z are moved to the device once.

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
    variance : float
        k(x, x) where it is the same for all x: for every kernel with a formula and a finite largest variance.
        Otherwise infinity.
    """

    def __init__(self, kernel: Kernel, Z: Array) -> None:
        import cupy

        expression = kernel.expression
        assert expression is not None
        self.kernel, self.Z, self.variance = kernel, cupy.ascontiguousarray(Z), kernel.max_variance
        self.expression: Expression = expression
        self.D = int(Z.shape[1])
        kernel.diag(np.zeros((1, self.D)))  # refuses another number of dimensions
        parts = leaves(expression)
        numbers = [leaf.numbers(self.D) for leaf in parts]
        units = [leaf.moved(self.D) for leaf in parts if leaf.form is not None]
        self.parameters = cupy.asarray(np.concatenate([*numbers, *units]))  # formulas read the numbers

    def at(self, Z: Array) -> Fused:
        """The same kernel at other points (M, D), whose parameters are on the device already."""
        import cupy

        other = Fused.__new__(Fused)
        vars(other).update(vars(self), Z=cupy.ascontiguousarray(Z))
        return other

    def fill(self, X: Array, out: Array) -> Array:
        """k(X, Z) written into ``out`` (n, M)."""
        import cupy

        inputs = "raw T left, raw S right, raw float64 p, int64 columns"
        kernel = _compiled(expressions.covariances(self.expression, self.D), inputs, "R out")
        kernel(cupy.ascontiguousarray(X), self.Z, self.parameters, self.Z.shape[0], out)
        return out

    fill_products = fill

    def blocks(self, X: Array, size: int) -> Array:
        """k(X_b, X_b) for blocks of ``size`` consecutive rows of X (n, D): (n/size, size, size), with one launch."""
        import cupy

        inputs = "raw T left, raw S right, raw float64 p, int64 columns"
        kernel = _compiled(expressions.covariances(self.expression, self.D, blocks=True), inputs, "R out")
        rows, out = cupy.ascontiguousarray(X), cupy.empty((X.shape[0] // size, size, size))
        kernel(rows, rows, self.parameters, size, out)
        return out

    def diag(self, X: Array) -> Array:
        """k(x, x) (n,)."""
        import cupy

        return cupy.full(X.shape[0], self.variance) if self.is_constant else self.kernel.diag(X)

    @property
    def is_constant(self) -> bool:
        """Whether k(x, x) is the same for all x."""
        return math.isfinite(self.variance)

    def pull_variance(self, weight: Array) -> Unread:
        """Derivatives of ``weight``·k(x, x) in the kernel's `log_parameters`, where it is constant."""
        kernel, point = self.kernel, np.zeros((1, self.D))
        return Unread([(weight.reshape(1), lambda numbers: kernel.pull_diag(point, numbers))])

    def matrix(self, X: Array) -> Array:
        """k(X, Z) (n, M), of the precision of X."""
        import cupy

        return self.fill(X, cupy.empty((X.shape[0], self.Z.shape[0]), dtype=X.dtype))

    def pulling(self) -> DevicePulling:
        """A new pull-back, with sums of 0."""
        return DevicePulling(self)


class DevicePulling:
    """Sums derivatives of Σ_ij C_ij k(x_i, z_j) over chunks of rows, on the device."""

    def __init__(self, fused: Fused) -> None:
        self.fused = fused
        self._sums: Array | None = None
        self._blocks = 1
        self._others: Array | None = None
        self._diagonal: Array | None = None
        self._varying: Float | None = None

    def add(self, X: Array, cotangent: Array, K: Array | None = None) -> None:
        """Add the cotangent C (n, M) of k(X, Z)."""
        self._run(DENSE, "raw float64 cotangent", X, (cotangent,))

    def add_rows(self, X: Array, Y: Array, weights: Array, a: Array, b: Array, K: Array | None = None) -> None:
        """Add the cotangent C_ij = s_i Y_ij + a_i b_j, s = ``weights``."""
        inputs = "raw float64 cotangent, raw float64 w, raw float64 a, raw float64 b"
        self._run(SCALED, inputs, X, (Y, weights, a, b))

    def add_block(self, X: Array, cotangent: Array, K: Array | None = None) -> None:
        """Add the symmetric cotangent (n, n) of k(X, X); X is not among the parameters."""
        block = DevicePulling(self.fused.at(X))
        block.add(X, cotangent)
        assert block._sums is not None
        sums = block._sums.sum(axis=(1, 2))
        self._others = sums if self._others is None else self._others + sums

    def add_blocks(self, X: Array, cotangent: Array) -> None:
        """Add symmetric cotangents (B, n, n) of the k(X_b, X_b) of `Fused.blocks`; X is not among the parameters."""
        import cupy

        fused, size, columns = self.fused, int(cotangent.shape[1]), int(X.shape[0])
        sums = cupy.zeros((sum(leaf.sums(fused.D) for leaf in leaves(fused.expression)), columns))
        body = expressions.pull_back(fused.expression, fused.D, BLOCKS, blocks=True)
        inputs = (
            "raw T left, raw S right, raw float64 cotangent, raw float64 p, "
            "int64 n, int64 columns, int64 each, int64 blocks"
        )
        rows, kernel = cupy.ascontiguousarray(X), _compiled(body, inputs, "raw float64 sums")
        kernel(rows, rows, cotangent, fused.parameters, columns, columns, size, 1, sums, size=columns)
        own = sums.sum(axis=1)
        self._others = own if self._others is None else self._others + own

    def add_diagonal(self, X: Array, cotangent: Array) -> None:
        """Add the cotangent (n,) of k(x, x); where that is not constant, its sums are read from the device at once."""
        if not self.fused.is_constant:
            own = self.fused.kernel.pull_diag(X, cotangent)
            self._varying = own if self._varying is None else self._varying + own
            return
        total = cotangent.sum()
        self._diagonal = total if self._diagonal is None else self._diagonal + total

    def _run(self, cotangent: str, inputs: str, X: Array, arrays: tuple[Array, ...]) -> None:
        import cupy

        fused, n, columns = self.fused, int(X.shape[0]), int(self.fused.Z.shape[0])
        if self._sums is None:
            self._blocks = max(1, min(n // FEWEST, THREADS // columns))
            count = sum(leaf.sums(fused.D) for leaf in leaves(fused.expression))
            self._sums = cupy.zeros((count, self._blocks, columns))
        inputs = f"raw T left, raw S right, {inputs}, raw float64 p, int64 n, int64 columns, int64 each, int64 blocks"
        body = expressions.pull_back(fused.expression, fused.D, cotangent)
        kernel, each = _compiled(body, inputs, "raw float64 sums"), -(-n // self._blocks)
        left, right, p = cupy.ascontiguousarray(X), fused.Z, fused.parameters
        kernel(left, right, *arrays, p, n, columns, each, self._blocks, self._sums, size=self._blocks * columns)

    def result(self) -> tuple[Unread, Array]:
        """Derivatives in the kernel's `log_parameters` (p,) and in Z (M, D), both on the device."""
        import cupy

        fused, D = self.fused, self.fused.D
        parts = leaves(fused.expression)
        ends = np.cumsum([leaf.sums(D) for leaf in parts])
        sums, moved = None, cupy.zeros(fused.Z.shape)
        if self._sums is not None:
            sums = self._sums.sum(axis=1)
            unit = sum(leaf.size(D) for leaf in parts)
            for leaf, end in zip(parts, ends, strict=True):
                if leaf.form is not None:
                    first = int(end) - leaf.sums(D) + len(leaf.scalars)
                    moved += (sums[first : first + D] * fused.parameters[unit : unit + D, None]).T
                    unit += D
            sums = sums.sum(axis=1)
        summands = [each for each in (sums, self._others) if each is not None]
        totals = summands[0] + summands[1] if len(summands) == 2 else (summands or [cupy.zeros(int(ends[-1]))])[0]

        def derivatives(numbers: Float) -> Float:
            pieces = zip(parts, np.split(numbers, ends[:-1]), strict=True)
            return np.concatenate([leaf.derivatives(own, D) for leaf, own in pieces])

        unread = Unread([(totals, derivatives)])
        if self._diagonal is not None:
            unread = unread + fused.pull_variance(self._diagonal)
        return unread if self._varying is None else unread + self._varying, moved
