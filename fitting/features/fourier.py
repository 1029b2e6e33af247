"""Random Fourier features whose frequencies are drawn once, for the kernel with lengthscales 1.

With z_k the standard frequencies, w_k their weights, Ω the matrix of z_k/ℓ and a_k = √(w_k·variance/m):

    Ξ = [C|S],  C = a∘cos XΩᵀ,  S = a∘sin XΩᵀ,      G = Ξ̄_C∘S − Ξ̄_S∘C  (n, m),
    ∂/∂log ℓ_d = Σ_i x_id(GΩ)_id,    X̄ = −GΩ,    ∂/∂log variance = ½ΣΞ̄∘Ξ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.features.base import KernelFeaturesAt, StationaryMap
from fitting.features.device import FourierOnDevice
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.kernels import Stationary
from gpbounds.lowrank import FourierFeatures, LeverageFourierFeatures
from gpbounds.lowrank.features.fourier import cosines_and_sines
from gpbounds.once import cached_property


@dataclass(frozen=True, eq=False)
class FourierMap(StationaryMap):
    """Cosines and sines of m frequencies: rank 2m.

    Attributes
    ----------
    kernel : SquaredExponential or Matern
    frequencies : array (m, D)
        z, in radians per lengthscale.
    weights : array (m,)
        w; 1 for frequencies from the spectral density.  They do not depend on the hyperparameters.

    >>> from gpbounds import SquaredExponential
    >>> features = FourierMap.drawn(SquaredExponential(), 10_000, np.array([[0.0], [1.0]]), rng=0)
    >>> Xi = features(features.kernel.log_parameters, np.array([[0.0], [1.0]]))
    >>> (Xi @ Xi.T).round(2)  # k: 1, exp(-1/2) = 0.61
    array([[1.  , 0.61],
           [0.61, 1.  ]])
    """

    kernel: Stationary
    frequencies: Float
    weights: Float

    @classmethod
    def drawn(cls, kernel: Stationary, rank: int, X: Array, rng: int | np.random.Generator) -> FourierMap:
        """rank/2 frequencies from the spectral density, as `gpbounds.lowrank.FourierFeatures` draws them.

        Raises
        ------
        ValueError
            for an odd rank, or for another kernel than a squared exponential or Matérn.
        """
        drawn = FourierFeatures(kernel, rank, rng).fit(X[:1])  # type: ignore[arg-type]
        return cls._of(kernel, drawn)

    @classmethod
    def by_leverage(
        cls, kernel: Stationary, rank: int, X: Array, rng: int | np.random.Generator, *, noise: float
    ) -> FourierMap:
        """rank/2 frequencies by ridge leverage, as `gpbounds.lowrank.LeverageFourierFeatures` draws them.

        The density belongs to ``kernel`` and ``noise``; frequencies and weights do not change with them afterwards.

        Raises
        ------
        ValueError
            for an odd rank, or for another kernel than a squared exponential.
        """
        points = host(X)
        width = np.maximum(np.ptp(points, axis=0), 1e-6 * kernel.lengthscales(points.shape[1]))
        about = {"noise": noise, "N": len(points), "width": width, "rng": rng}
        return cls._of(kernel, LeverageFourierFeatures(kernel, rank, **about).fit(points))  # type: ignore[arg-type]

    @classmethod
    def _of(cls, kernel: Stationary, drawn: FourierFeatures | LeverageFourierFeatures) -> FourierMap:
        frequencies = drawn.frequencies
        standard = frequencies * kernel.lengthscales(frequencies.shape[1])
        return cls(kernel, standard, drawn.amplitudes**2 * (len(standard) / kernel.variance))

    @property
    def rank(self) -> int:
        return 2 * len(self.frequencies)

    def at(self, parameters: Float) -> _FourierAt:
        return _FourierAt(self, self.kernel_at(parameters))


@dataclass(frozen=True, eq=False)
class _FourierAt(KernelFeaturesAt):
    """The features at one kernel."""

    map: FourierMap
    kernel: Stationary

    @property
    def rank(self) -> int:
        return self.map.rank

    @cached_property
    def frequencies(self) -> Float:
        """Ω (m, D), in radians per unit of x."""
        return self.map.frequencies / self.kernel.lengthscales(self.map.frequencies.shape[1])

    @cached_property
    def amplitudes(self) -> Float:
        """a (m,)."""
        return np.sqrt(self.map.weights * (self.kernel.variance / len(self.map.weights)))

    @cached_property
    def on_device(self) -> FourierOnDevice:
        return FourierOnDevice(self.frequencies, self.amplitudes)

    @property
    def each(self) -> bool:
        return self.kernel.dim is not None

    def fill(self, X: Array, K: Array, V: Array) -> None:
        if namespace(X) is not np:
            self.on_device.fill(X, V)
            return
        cosines_and_sines(X, self.frequencies, self.amplitudes, V)

    def pull_inputs(self, X: Array, V: Array, cotangent: Array) -> tuple[Float, Array]:
        turned, variance = self._turned(V, cotangent)
        moved = turned @ namespace(X).asarray(-self.frequencies)
        return self.map.logs(variance, -host((X * moved).sum(axis=0))), moved

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        turned, variance = self._turned(V, cotangent)
        return self.map.logs(variance, (host(X.T @ turned) * self.frequencies.T).sum(axis=1))

    def _turned(self, V: Array, cotangent: Array) -> tuple[Array, float]:
        """G, which overwrites the first half of the cotangent, and the derivative in log variance."""
        m = self.rank // 2
        variance = 0.5 * float(namespace(V).vdot(cotangent, V))
        turned, sines = cotangent[:, :m], cotangent[:, m:]
        turned *= V[:, m:]
        sines *= V[:, :m]
        turned -= sines
        return turned, variance
