"""Fourier, Mercer and Hilbert-space features on a GPU: their numbers go there once; no chunk of rows reads any.

The formulas are those of `fitting.features.fourier`, `fitting.features.hilbert_space`, `fitting.features.mercer` and
`gpbounds.lowrank.features.mercer`; one kernel fills the eigenfunctions of a dimension, and one multiplies them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Array, Float
from gpbounds.lowrank.features.mercer import LN2, NORMAL


class DeviceFeatures(ABC):
    """The features of a kernel at fixed hyperparameters, for CuPy arrays of doubles."""

    @abstractmethod
    def fill(self, X: Array, V: Array) -> None:
        """Write the features of X (n, D) into ``V`` (n, rank)."""

    @abstractmethod
    def pull(self, X: Array, V: Array, cotangent: Array) -> Array:
        """Derivatives of Σ cotangent·V on the device: in log variance and each log lengthscale (1 + D,), or in all
        hyperparameters (p,).

        The cotangent is overwritten.
        """


@lru_cache(maxsize=16)
def _compiled(inputs: str, outputs: str, body: str, preamble: str = "") -> Any:
    import cupy

    return cupy.ElementwiseKernel(inputs, outputs, body, "features", preamble=preamble)


class FourierOnDevice(DeviceFeatures):
    """Cosines and sines of XΩᵀ times a; Ω (m, D) and a (m,) in host memory."""

    def __init__(self, frequencies: Float, amplitudes: Float) -> None:
        import cupy

        self.m = len(amplitudes)
        moved = cupy.asarray(np.concatenate([frequencies.T.reshape(-1), amplitudes]))
        self.turned, self.amplitudes = moved[: frequencies.size].reshape(-1, self.m), moved[frequencies.size :]

    def fill(self, X: Array, V: Array) -> None:
        body = """
        long long row = i / m, column = i % m;
        V[2 * m * row + column] = a[column] * cos(phase);
        V[2 * m * row + column + m] = a[column] * sin(phase);
        """
        kernel = _compiled("float64 phase, raw float64 a, int64 m", "raw float64 V", body)
        kernel(X @ self.turned, self.amplitudes, self.m, V)

    def pull(self, X: Array, V: Array, cotangent: Array) -> Array:
        import cupy

        variance = 0.5 * cupy.vdot(cotangent, V)
        turned, sines = cotangent[:, : self.m], cotangent[:, self.m :]
        turned *= V[:, self.m :]
        sines *= V[:, : self.m]
        turned -= sines
        return cupy.concatenate([variance.reshape(1), (X.T @ turned * self.turned).sum(axis=1)])


class MixedOnDevice(FourierOnDevice):
    """The same with J (p, m, D + 1), the derivatives of Ω and log a in the hyperparameters."""

    def __init__(self, frequencies: Float, amplitudes: Float, slopes: Float) -> None:
        import cupy

        super().__init__(frequencies, amplitudes)
        self.slopes = cupy.asarray(np.ascontiguousarray(slopes).reshape(len(slopes), -1))

    def pull(self, X: Array, V: Array, cotangent: Array) -> Array:
        import cupy

        logs = cupy.einsum("ij,ij->j", cotangent, V)
        turned, sines = cotangent[:, : self.m], cotangent[:, self.m :]
        turned *= V[:, self.m :]
        sines *= V[:, : self.m]
        turned -= sines
        both = cupy.concatenate([-(turned.T @ X), (logs[: self.m] + logs[self.m :]).reshape(-1, 1)], axis=1)
        return self.slopes @ both.reshape(-1)


_SINES = """
long long row = i / rank, column = i % rank;
double product = a[column];
for (int d = 0; d < D; ++d) {
  double x = X[row * D + d] - box[d], L = box[D + d];
  product *= fabs(x) <= L ? sin(frequencies[column * D + d] * (x + L)) : nan("");
}
V[i] = product;
"""


class SinesOnDevice(DeviceFeatures):
    """Products of sines on the box centre ± lengths; a row outside of it has the features NaN.

    Frequencies (rank, D), amplitudes (rank,), slopes (D, rank) of log a in the log lengthscales, all in host memory.
    """

    def __init__(self, frequencies: Float, amplitudes: Float, slopes: Float, centre: Float, lengths: Float) -> None:
        import cupy

        self.rank, self.D = frequencies.shape
        sizes = np.cumsum([frequencies.size, amplitudes.size, slopes.size])
        parts = (frequencies.reshape(-1), amplitudes, slopes.reshape(-1), centre, lengths)
        moved = cupy.asarray(np.concatenate(parts))
        self.frequencies, self.amplitudes = moved[: sizes[0]], moved[sizes[0] : sizes[1]]
        self.slopes, self.box = moved[sizes[1] : sizes[2]].reshape(self.D, self.rank), moved[sizes[2] :]

    def fill(self, X: Array, V: Array) -> None:
        inputs = "raw float64 X, raw float64 frequencies, raw float64 a, raw float64 box, int64 D, int64 rank"
        kernel = _compiled(inputs, "raw float64 V", _SINES)
        numbers = (self.frequencies, self.amplitudes, self.box, self.D, self.rank)
        kernel(X, *numbers, V, size=int(X.shape[0]) * self.rank)

    def pull(self, X: Array, V: Array, cotangent: Array) -> Array:
        import cupy

        products = cupy.einsum("ij,ij->j", cotangent, V)
        return cupy.concatenate([0.5 * products.sum().reshape(1), self.slopes @ products])


class Eigenfunctions(NamedTuple):
    """u_0 … u_{n−1} of one dimension.

    ``scales`` and ``powers`` (n,) are √λ_n without e^(−δ²x²), ``slope`` and ``decay`` pairs, and ``shift`` the power of
    two of s: see `gpbounds.lowrank.features.mercer.Expansion`.  ``mean`` is that of the inputs; the other numbers are
    β, β' = dβ/dlog ℓ, β² − 1 and s.
    """

    scales: Float
    powers: Float
    slope: tuple[float, float]
    decay: tuple[float, float]
    shift: int
    mean: float
    beta: float
    change: float
    excess: float
    std: float


_WALK = f"""
const double *of = &p[first];
double x = ldexp(X[i * D + d] - of[4], -(int)of[5]), y = x * of[0];
double y_low = fma(x, of[0], -y) + x * of[1], square = x * x, square_low = fma(x, x, -square);
volatile double high = square * of[2];  // no product may be fused with a sum
double low = fma(square, of[2], -high) + square * of[3], rest = low + square_low * of[2];
double start = high + rest, exponent = 0.0, now, before = 0.0, root = 0.0;
volatile double part = start - high;
double start_low = (high - (start - part)) + (rest - part);
int far = 0.25 * y * y >= {NORMAL!r};
if (far) {{
  exponent = floor(start / {math.log(2.0)!r});
  double left = (start - exponent * {LN2[0]!r}) - exponent * {LN2[1]!r};
  now = exp(fmin(fmax(left, -1.0), 1.0)) * (1.0 + fmin(fmax(start_low, -0.5), 0.5));
}} else {{
  now = exp(start) * (1.0 + start_low);
}}
for (int k = 0; k < count; ++k) {{
  double next = sqrt(k + 1.0), after = (y * now - root * before) / next;
  double value = (now + y_low * (root * before)) * of[10 + k], power = exponent + of[10 + count + k];
  table[(offset + k) * n + i] = ldexp(value, (int)fmin(fmax(power, -5000.0), 5000.0));
  if (far) {{
    int shift;
    frexp(fmax(fabs(after), fabs(now)), &shift);
    after = ldexp(after, -shift);
    now = ldexp(now, -shift);
    exponent += shift;
  }}
  before = now; now = after; root = next;
}}
"""

_FILL = """
double product = scale;
long long row = i / rank, column = i % rank;
for (int d = 0; d < D; ++d) product *= table[places[column * D + d] * n + row];
V[i] = product;
"""

_PULL = """
for (int d = 0; d < D; ++d) {
  const double *of = &p[starts[d]];
  double x = X[i * D + d] - of[4], b = of[6], change = of[7], excess = of[8], s = of[9], sum = 0.0;
  double q = excess / (excess + 2.0);
  for (long long r = 0; r < rank; ++r) {
    double product = scale * cotangent[i * rank + r];
    for (int e = 0; e < D; ++e) if (e != d) product *= table[places[r * D + e] * n + i];
    long long place = places[r * D + d];
    double degree = (double)(place - offsets[d]), u = table[place * n + i];
    double below = degree > 0.0 ? sqrt(degree * q) * table[(place - 1) * n + i] : 0.0;
    double constant = (0.5 * excess - degree) / (excess + 1.0) + 0.5 * change / b;
    sum += product * ((constant - 0.5 * b * change / s / s * x * x) * u + change / s * x * below);
  }
  lengths[i * D + d] = sum;
}
"""


class MercerOnDevice(DeviceFeatures):
    """Products of eigenfunctions, √variance times: feature r has the ``degrees`` (rank, D), one in each dimension."""

    def __init__(self, variance: float, degrees: Any, dimensions: Sequence[Eigenfunctions]) -> None:
        import cupy

        self.rank, self.D = degrees.shape
        self.scale, self.counts = math.sqrt(variance), [len(each.scales) for each in dimensions]
        blocks = [
            np.concatenate(
                [[*e.slope, *e.decay, e.mean, e.shift, e.beta, e.change, e.excess, e.std], e.scales, e.powers]
            )
            for e in dimensions
        ]
        self.offsets = np.cumsum([0, *self.counts])
        self.starts = np.cumsum([0, *(block.size for block in blocks)])
        self.numbers = cupy.asarray(np.concatenate(blocks))
        whole = np.concatenate([(degrees + self.offsets[:-1]).reshape(-1), self.offsets[:-1], self.starts[:-1]])
        moved = cupy.asarray(whole.astype(np.int64))
        self.places = moved[: degrees.size]
        self._offsets, self._starts = moved[degrees.size : degrees.size + self.D], moved[degrees.size + self.D :]

    def _table(self, X: Array) -> Array:
        """u_k(x_id), the dimensions one after the other, (Σ counts, n)."""
        import cupy

        n = int(X.shape[0])
        table = cupy.empty((int(self.offsets[-1]), n))
        kernel = _compiled(
            "raw float64 X, raw float64 p, int64 D, int64 d, int64 first, int64 offset, int64 count, int64 n",
            "raw float64 table",
            _WALK,
        )
        for d, count in enumerate(self.counts):
            first, offset = int(self.starts[d]), int(self.offsets[d])
            kernel(X, self.numbers, self.D, d, first, offset, count, n, table, size=n)
        return table

    def fill(self, X: Array, V: Array) -> None:
        n = int(X.shape[0])
        inputs = "raw float64 table, raw int64 places, float64 scale, int64 D, int64 rank, int64 n"
        kernel = _compiled(inputs, "raw float64 V", _FILL)
        kernel(self._table(X), self.places, self.scale, self.D, self.rank, n, V, size=n * self.rank)

    def pull(self, X: Array, V: Array, cotangent: Array) -> Array:
        import cupy

        n = int(X.shape[0])
        lengths = cupy.empty((n, self.D))
        inputs = (
            "raw float64 X, raw float64 table, raw float64 cotangent, raw float64 p, raw int64 places, "
            "raw int64 offsets, raw int64 starts, float64 scale, int64 D, int64 rank, int64 n"
        )
        _compiled(inputs, "raw float64 lengths", _PULL)(
            X,
            self._table(X),
            cotangent,
            self.numbers,
            self.places,
            self._offsets,
            self._starts,
            self.scale,
            self.D,
            self.rank,
            n,
            lengths,
            size=n,
        )
        return cupy.concatenate([0.5 * cupy.vdot(cotangent, V).reshape(1), lengths.sum(axis=0)])
