"""The predictive law of each member: mean K̃_*f Ξ⁻¹y and covariance K̃_** − K̃_*f Ξ⁻¹K̃_f*, Ξ = Q + aR + σ²I.

VFE, DTC, FITC, power EP and Rényi have K̃_*f = Q_*f and K̃_** = K_**; the exact GP has K for both; PIC has K within the
block of the new point and Q elsewhere.  Variances are sums of non-negative terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.rows.data import Partition, as_labels
from gpbounds.arrays import Array, Float, as_points, host, kind_of_caller, namespace
from gpbounds.exact import Exact
from gpbounds.kernels import Kernel
from gpbounds.law import Law
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.small_variances import Given, difference_error, factor_error, upper_ends
from gpbounds.texts import in_one_line
from gpbounds.validation import positive
from gpbounds.whitening import CHUNK, Inducing, slices

if TYPE_CHECKING:
    from fitting.features.base import FeatureKernel


class Posterior(ABC):
    """A Gaussian process given the data."""

    kernel: Kernel
    noise: float
    single: bool

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of input dimensions."""

    @property
    @abstractmethod
    def module(self) -> Any:
        """The array module of the device on which the posterior lives."""

    @kind_of_caller
    def predict(
        self,
        X: ArrayLike | Array,
        *,
        full_cov: bool = False,
        noisy: bool = False,
        noise: ArrayLike | None = None,
        blocks: ArrayLike | Array | None = None,
        chunk: int = CHUNK,
    ) -> tuple[Array, Array]:
        """Mean, and variance or covariance, of the latent f at new points; of y = f + noise with ``noisy=True``.

        Parameters
        ----------
        X : array (N*, D)
        full_cov : bool
            True returns the covariance (N*, N*) instead of the variances (N*,); all outputs share it.
        noisy : bool
            True adds σ² to the variances.
        noise : float or array (N*,), optional
            σ² at the new points; None is that of the model.  A model whose rows have a noise each knows none.
        blocks : array (N*,), for PIC only
            The label of each new point's block; a label without data means that the prediction uses Q alone.
        chunk : int
            Number of rows processed at a time; ``full_cov`` takes all rows at once.

        Returns
        -------
        mean : array (N*,), or (N*, P) where y was (N, P)
        variance : array (N*,), or covariance (N*, N*)

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        """
        points = as_points(X, "X", self.dim).astype(np.float64, copy=False)
        xp, labels = namespace(points), self._labels(blocks, points.shape[0])
        if full_cov:
            mean, spread = self._law(points, labels, full=True)
            spread = (spread + spread.T) / 2.0
        else:
            pieces = list(slices(points.shape[0], chunk))
            laws = [self._law(points[i], None if labels is None else labels[i], full=False) for i in pieces]
            mean, spread = (xp.concatenate(column) for column in zip(*laws, strict=True))
        if noisy:
            nugget = xp.asarray(new_noise(self.noise, noise, points.shape[0]))
            spread = spread + (nugget * xp.eye(points.shape[0]) if full_cov else nugget)
        return (mean[:, 0] if self.single else mean), spread

    @kind_of_caller
    def mean(self, X: ArrayLike | Array, *, blocks: ArrayLike | Array | None = None, chunk: int = CHUNK) -> Array:
        """The mean alone; arguments as in `predict`."""
        return self.predict(X, blocks=blocks, chunk=chunk)[0]

    def largest_prior_variance(self, X: Array) -> float:
        """The largest prior variance of f at X."""
        return self.kernel.largest_variance(X)

    def _labels(self, blocks: Any, N: int) -> Any:
        if blocks is not None:
            raise ValueError("blocks: expected None, as only PIC (blocks, power 1) predicts by block, got labels")
        return None

    @abstractmethod
    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        """Mean (n, P), and variance (n,) or covariance (n, n), of f at checked points."""


def new_noise(own: Any, noise: Any, n: int) -> Float | float:
    """The noise variance of observations at n new points: ``noise``, or ``own`` of the model if it is one number.

    >>> new_noise(0.1, None, 2), new_noise(np.array([0.1, 0.2, 0.3]), [0.1, 0.4], 2)
    (0.1, array([0.1, 0.4]))
    """
    if noise is None:
        if np.ndim(own) == 0:
            return float(own)
        raise ValueError(
            "noise: expected the noise variance of each new row for predictions of observations, got None: the rows of "
            "training had a noise variance each, which says nothing about new ones"
        )
    values = positive("noise", host(noise))
    if values.shape not in ((), (n,)):
        raise ValueError(f"noise: expected one number, or one for each of {n} new rows, got shape {values.shape}")
    return values


@dataclass(frozen=True, eq=False)
class RowNoisePosterior(Posterior):
    """The law of f from that of rows of unit noise, whose f at (x, w) is w·f(x) (N-rows-noise).

    Attributes
    ----------
    unit : Posterior
        Of the rows of unit noise.
    kernel : Kernel
    noise : array (N,)
        Noise variances of the rows of training.
    """

    unit: Posterior
    kernel: Kernel
    noise: Float  # type: ignore[assignment]
    __repr__ = in_one_line

    @property
    def single(self) -> bool:  # type: ignore[override]
        """Whether means have the shape (N*,) rather than (N*, P)."""
        return self.unit.single

    @property
    def dim(self) -> int:
        return self.unit.dim - 1

    @property
    def module(self) -> Any:
        return self.unit.module

    def predict(self, X: ArrayLike | Array, **options: Any) -> tuple[Array, Array]:
        noisy, noise = options.pop("noisy", False), options.pop("noise", None)
        points = self._with_ones(X)
        mean, spread = self.unit.predict(points, **options)
        if noisy:
            xp, n = namespace(points), points.shape[0]
            nugget = xp.asarray(new_noise(self.noise, noise, n))
            spread = spread + (nugget * xp.eye(n) if spread.ndim == 2 else nugget)
        return mean, spread

    def mean(self, X: ArrayLike | Array, *, blocks: ArrayLike | Array | None = None, chunk: int = CHUNK) -> Array:
        return self.unit.mean(self._with_ones(X), blocks=blocks, chunk=chunk)

    def _with_ones(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X", self.dim).astype(np.float64, copy=False)
        xp = namespace(points)
        return xp.concatenate([points, xp.ones((points.shape[0], 1))], axis=1)

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        return self.unit._law(self._with_ones(X), labels, full)


@dataclass(frozen=True, eq=False)
class InducingPosterior(Posterior):
    """q(u) = N(Lw, LSLᵀ), with f given u as under the prior: VFE, DTC, FITC, power EP, Rényi, and free q.

    mean = Vᵀw,   covariance = [K_** − VᵀV] + VᵀSV,   V = L⁻¹k(Z, ·).

    Attributes
    ----------
    inducing : Inducing
        Kernel, Z, and L with L Lᵀ = Kuu + jitter·I.
    noise : float
        σ².
    q : Law
        The law of the whitened inducing variables v = L⁻¹u.
    single : bool
        Whether means have the shape (N*,) rather than (N*, P).
    """

    inducing: Inducing
    noise: float
    q: Law
    single: bool
    __repr__ = in_one_line

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """The prior's covariance function."""
        return self.inducing.kernel

    @property
    def dim(self) -> int:
        return int(self.inducing.Z.shape[1])

    @property
    def module(self) -> Any:
        return namespace(self.inducing.Z)

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter

    @property
    def kl(self) -> float:
        """Σ_p KL[q_p(u)‖p(u)], in nats (P-26)."""
        return self.q.kl

    @property
    def given(self) -> Given:
        """The inducing variables as what f(x) is conditioned on."""
        return Given(self.kernel, self.inducing.Z, self.jitter, self.inducing.chol)

    def inducing_law(self) -> tuple[Array, Array]:
        """Mean (M,) or (M, P) and covariance (M, M) of u = f(Z)."""
        L = self.inducing.chol.L
        half, mean = self.q.half(L.T), L @ self.q.mean
        return (mean[:, 0] if self.single else mean), half.T @ half

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        V = self.inducing.whiten(X)
        if full:
            mean, within = self.q.joint(V, 0.0)
            return mean, within + self.given.residual_covariance(X, V, within)
        mean, within = self.q.moments(V, 0.0)
        return mean, within + self.given.residual(X, V, within)


@dataclass(frozen=True, eq=False)
class BlockPosterior(InducingPosterior):
    """PIC: with E = K_*b − Q_*b on the block b of a new point, D_b = K_b − Q_b + σ²I and t = v_* − V_bD_b⁻¹Eᵀ,

    mean = tᵀw + E D_b⁻¹y_b,   covariance = [K_** − Q_** − E D_b⁻¹Eᵀ] within a block, + tᵀSt' everywhere.

    Attributes
    ----------
    X, Y : arrays (N, D), (N, P)
        The data, sorted by block.
    parts : Partition
    """

    X: Array
    Y: Array
    parts: Partition
    __repr__ = in_one_line

    def _labels(self, blocks: Any, N: int) -> Any:
        if blocks is None:
            raise ValueError("blocks: expected the label of each new point's block, got None")
        return as_labels(blocks, N)

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        xp, kernel, n, given = namespace(X), self.kernel, X.shape[0], self.given
        V, within = self.inducing.whiten(X), xp.zeros((n, n) if full else n)
        mean, error = xp.zeros((n, self.Y.shape[1])), given.first_order(X, V)
        for inside, home in self._groups(labels):
            new, v = X[inside], V[:, inside]
            residual = kernel(new) - v.T @ v if full else kernel.diag(new) - xp.einsum("ij,ij->j", v, v)
            if home is not None:
                Vb, chol = self._block(home)
                E = kernel(new, self.X[home]) - v.T @ Vb
                gain = chol.solve(E.T)  # D_b⁻¹Eᵀ
                mean[inside] = gain.T @ self.Y[home]
                V[:, inside] = v - Vb @ gain
                half = chol.solve_lower(E.T)
                residual = residual - (half.T @ half if full else xp.einsum("ij,ij->j", half, half))
                error[inside] += self._block_error(home, new, gain)
            if full:
                within[xp.ix_(inside, inside)] = residual
            else:
                within[inside] = residual
        from_inducing, spread = self.q.joint(V, 0.0) if full else self.q.moments(V, 0.0)
        return mean + from_inducing, spread + upper_ends(within, error, spread, kernel.diag(X))

    def _block_error(self, home: slice, X: Array, gain: Array) -> Array:
        """To first order, the rounding of E D_b⁻¹Eᵀ: that of D_b's factor, and of its entries K − Q."""
        xp, rows = namespace(X), self.X[home]
        b, M, trace = int(rows.shape[0]), int(self.inducing.Z.shape[0]), float(self.kernel.diag(rows).sum())
        entries = factor_error(b, trace + b * self.noise) + difference_error(M, trace)
        return difference_error(b, self.kernel.diag(X)) + entries * xp.einsum("ij,ij->j", gain, gain)

    def _groups(self, labels: Any) -> Iterator[tuple[Any, slice | None]]:
        xp = namespace(self.X)
        for label in np.unique(labels):
            yield xp.asarray(np.flatnonzero(labels == label)), self.parts.homes.get(float(label))

    def _block(self, home: slice) -> tuple[Array, Cholesky]:
        """V_b and the Cholesky factor of D_b."""
        X = self.X[home]
        Vb = self.inducing.whiten(X)
        D = self.kernel(X) - Vb.T @ Vb
        D += self.noise * namespace(X).eye(X.shape[0])
        return Vb, cholesky(D, name="K - Q + σ²I")


@dataclass(frozen=True, eq=False)
class ExactPosterior(Posterior):
    """The exact GP: mean K_*f(K + σ²I)⁻¹Y, covariance K_** − K_*f(K + σ²I)⁻¹K_f* (R-gp).

    Attributes
    ----------
    given : Exact
        The data, and K + σ²I factorised.
    single : bool
    """

    exact: Exact
    single: bool
    __repr__ = in_one_line

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """The prior's covariance function."""
        return self.exact.triangle.kernel

    @property
    def noise(self) -> float:  # type: ignore[override]
        """σ²."""
        return self.exact.noise

    @property
    def X(self) -> Array:
        """The inputs of the data (N, D)."""
        return self.exact.triangle.X

    @property
    def dim(self) -> int:
        return int(self.X.shape[1])

    @property
    def module(self) -> Any:
        return namespace(self.X)

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        return self.exact.predict(X, full_cov=full)


@dataclass(frozen=True, eq=False)
class FeaturePosterior(Posterior):
    """f(x) = φ(x)ᵀv, v ~ q: mean Ξw, covariance ΞSΞᵀ.

    Attributes
    ----------
    kernel : FeatureKernel
    noise : float
        σ².
    q : Law
        The law of the weights v of the features; their prior is N(0, I).
    single : bool
        Whether means have the shape (N*,) rather than (N*, P).
    columns : int
        Number of input dimensions.
    """

    kernel: FeatureKernel
    noise: float
    q: Law
    single: bool
    columns: int
    __repr__ = in_one_line

    @property
    def dim(self) -> int:
        return self.columns

    @property
    def module(self) -> Any:
        return namespace(self.q.mean)

    def largest_prior_variance(self, X: Array) -> float:
        return float(self.kernel.diag(X).max())

    def _law(self, X: Array, labels: object, full: bool) -> tuple[Array, Array]:
        xp = namespace(X)
        V = self.kernel.features(self.kernel.parameters, X).T
        if full:
            return self.q.joint(V, xp.zeros((X.shape[0], X.shape[0])))
        return self.q.moments(V, xp.zeros(X.shape[0]))
