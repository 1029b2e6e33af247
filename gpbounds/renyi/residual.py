"""The matrices from which dense Rényi bounds are computed: K, V = L⁻¹Kuf, Δ = K − Q and its spectrum.

Dense float64 algebra for one data set: O(N³) time, O(N²) memory.  None of it depends on α or σ².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, TINIEST, Float, as_host_points, is_cupy
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky, eigen
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.products import gram, matmul, norm
from gpbounds.numerics.scalars import log_det_term
from gpbounds.once import cached_property
from gpbounds.renyi.accuracy import Accuracy, accuracy, errors_of_entries, gamma
from gpbounds.validation import finite, scalar
from gpbounds.whitening import Inducing, inducing, sums_of_squares, with_jitter


def host_targets(y: ArrayLike, N: int) -> Float:
    """``y`` as finite float64 of shape (N,)."""
    targets = finite("y", y) if not is_cupy(y) else None
    if targets is None or targets.shape != (N,):
        got = "a CuPy array" if targets is None else f"shape {targets.shape}"
        raise ValueError(f"y: expected a NumPy array of shape ({N},), one target for each row of X, got {got}")
    sums_of_squares(targets)
    return targets


@dataclass(frozen=True)
class Nystrom:
    """The Nyström approximation Q of K on one data set, with the spectrum of Δ = K − Q.

    Attributes
    ----------
    X, Z : arrays (N, D), (M, D)
    chol : Cholesky
        L Lᵀ = Kuu + jitter·I.
    V : array (M, N)
        L⁻¹Kuf, so that Q = VᵀV.
    known : array (N,) of bool
        True for rows of X that are rows of Z, where U determines f and Δ is 0.  All False when jitter > 0.
    rank : int
        An integer >= rank(K − Q): the number of distinct rows of X that are not known; N when jitter > 0.
    K, residual : arrays (N, N)
        Kff, and Δ = K − Q with exact zeros in the known rows and columns.
    eigenvalues : array (N,)
        Eigenvalues of Δ, in decreasing order.
    basis : array (N − known, N − known)
        Orthonormal eigenvectors of the block of Δ that is not structurally 0, in the order of ``eigenvalues``.
    rounding : float
        Bound on the absolute error of an eigenvalue, 1e-10·‖K‖ or (N + M)·eps·‖K‖ if that is larger; negative
        eigenvalues above −rounding count as 0.
    inducing : Inducing
        The kernel, Z and L.
    """

    X: Float
    Z: Float
    chol: Cholesky
    V: Float
    known: Any
    rank: int
    K: Float
    residual: Float
    eigenvalues: Float
    basis: Float
    rounding: float
    inducing: Inducing

    @cached_property
    def accuracy(self) -> Accuracy:
        """How far Q is from VᵀV."""
        return accuracy(self, *errors_of_entries(self.inducing.kernel, self.X, self.Z))

    @cached_property
    def gram(self) -> Float:
        """VVᵀ."""
        return self.V @ self.V.T

    @property
    def additions(self) -> int:
        """An upper bound on the number of additions that an entry of VVᵀ went through."""
        return self.N

    @cached_property
    def moved(self) -> tuple[float, float]:
        """Bounds on the Frobenius and nuclear norms of the error of Δ as K − Q₋, and as K − Q where that is known.

        An entry has the errors of K and of a product of columns of V; Q₋ and Q are near VᵀV in the nuclear norm.
        """
        known, N = self.accuracy, self.N
        entry = known.entry + 2.0 * gamma(self.M + 8) * float(self.K.diagonal().max())
        wide = known.below + (known.above if np.isfinite(known.above) or bool(self.known.any()) else 0.0)
        return 1.01 * (N * entry + wide), 1.01 * (N * np.sqrt(N) * entry + wide)

    @cached_property
    def eigenvalue_errors(self) -> tuple[float, float]:
        """Upper bounds on the error of each of ``eigenvalues``, as one of the computed Δ, and on their sum (N-dense).

        With E = Δ − WΛWᵀ and f = ‖WᵀW − I‖_F, ‖E‖_F + f max Λ and √n ‖E‖_F + f tr Λ.
        """
        n = self.basis.shape[0]
        if n == 0:
            return 0.0, 0.0
        W, values = self.basis, self.eigenvalues[:n]
        inner, root = gram(W), W * np.sqrt(values)
        inner[np.diag_indices(n)] -= 1.0
        f = 1.01 * float(np.linalg.norm(inner)) + gamma(n + 4) * 1.01 * float(np.sum(W * W))
        E = self.residual[np.ix_(~self.known, ~self.known)] - gram(root.T)
        off = 1.01 * norm(E) + gamma(n + 8) * 1.01 * float(np.sum(root * root)) + n * n * TINIEST
        return 1.01 * (off + f * float(values[0])), 1.01 * (math.sqrt(n) * off + f * float(values.sum()))

    def xi_error(self, alpha: float, *, noise: float) -> float:
        """At least ‖LLᵀ − Ξ‖_F for the factor of `xi`."""
        trace = self.N * noise + float(self.K.diagonal().sum())
        return 1.01 * (self.moved[0] + gamma(self.N + 8) * trace * (1.0 + abs(1.0 - alpha)))

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.X.shape[0])

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return int(self.Z.shape[0])

    @property
    def Q(self) -> Float:
        """Q = K − Δ."""
        return self.K - self.residual

    @property
    def trace(self) -> float:
        """T = Tr(K − Q)."""
        return float(self.eigenvalues.sum())

    @property
    def largest(self) -> float:
        """λ = λ_max(K − Q)."""
        return float(self.eigenvalues[0])

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.chol.jitter

    def quadratic(self, y: Float, *, noise: float) -> Any:
        """yᵀ(σ²I + Q)⁻¹y of each output, as min_a |y − Vᵀa|²/σ² + |a|²: a sum of squares, without cancellation."""
        with one_blas_thread():
            a = cholesky(noise * np.eye(self.M) + self.V @ self.V.T, name="σ²I + VVᵀ").solve(self.V @ y)
            return ((y - self.V.T @ a) ** 2).sum(axis=0) / noise + (a**2).sum(axis=0)

    def order(self, alpha: Any, *, noise: float) -> float:
        """``alpha`` as a float, checked to be finite and < 1 + σ²/λ, which exceeds 1 also where its double does not."""
        value = scalar(finite, "alpha", alpha)
        end = 1.0 + noise / self.largest if self.largest > 0.0 else np.inf
        if not (value <= 1.0 or value < end):
            raise ValueError(f"alpha: expected a number < 1 + noise/λ_max(K - Q) = {end:.6g}, got {value:.6g}")
        return value

    def log_det_term(self, alpha: float, *, noise: float) -> float:
        """L_det = (α/(2β)) Σ log(1 + βd_i), d = eigenvalues/σ², on the whole range of α; T/(2σ²) at α = 1."""
        with np.errstate(over="ignore"):
            return log_det_term(self.eigenvalues / noise, alpha)

    def xi(self, alpha: float, *, noise: float) -> Cholesky:
        """Cholesky factor of Ξ = σ²I + Q + βΔ."""
        return self.xi_plus(alpha, 0.0, noise=noise)

    def xi_plus(self, alpha: float, shift: float, *, noise: float) -> Cholesky:
        """Cholesky factor of Ξ + shift·I."""
        return cholesky((noise + shift) * np.eye(self.N) + self.Q + (1.0 - alpha) * self.residual, name="Ξ")

    def rotated(self, A: Float) -> Float:
        """A (·, N) in the eigenbasis of Δ; its columns are in the order of ``eigenvalues``."""
        return np.concatenate([matmul(A[:, ~self.known], self.basis), A[:, self.known]], axis=1)


def with_jitter_named(jitter: float, assumptions: tuple[str, ...]) -> tuple[str, ...]:
    """The assumptions, and one sentence that names the jitter where it is not 0."""
    return (*assumptions, f"A jitter of {jitter:.3g} is added to the diagonal of Kuu.") if jitter else assumptions


def nystrom(kernel: Kernel, X: ArrayLike, Z: ArrayLike, jitter: Jitter = "auto") -> Nystrom:
    """The `Nystrom` record of (kernel, X, Z).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
        Inputs.
    Z : array (M, D)
        Inducing inputs.  Each row of X among them lowers the rank of K − Q by one.
    jitter : float or "auto"
        Added to the diagonal of Kuu: every bound stays valid, for inducing variables observed with noise.  "auto"
        takes 0, or the smallest amount of a ladder with which Kuu factorises; ``record.jitter`` says which.

    Raises
    ------
    NotPositiveDefinite
        when Kuu does not factorise, or K − Q has an eigenvalue below 0 by more than rounding.

    >>> from gpbounds.kernels import SquaredExponential
    >>> record = nystrom(SquaredExponential(), [0.0, 1.0, 2.0], [0.0, 2.0])
    >>> record.rank, round(record.trace, 4)
    (1, 0.3519)
    """
    points = as_host_points(X, "X")
    centres = as_host_points(Z, "Z", points.shape[1])
    return with_jitter(lambda amount: _nystrom(kernel, points, centres, amount), kernel, centres, jitter, sound=True)


def _nystrom(kernel: Kernel, X: Float, Z: Float, jitter: float) -> Nystrom:
    whitener = inducing(kernel, Z, jitter)
    known, rank = whitener.known(X)
    V = whitener.whiten(X)
    K = np.asarray(kernel(X), dtype=np.float64)
    if not np.isfinite(K).all():
        raise NonFinite("kernel: expected finite covariances, got NaN or infinity in K")
    block = np.ix_(~known, ~known)
    V_unknown = V[:, ~known]
    residual = np.zeros_like(K)
    residual[block] = K[block] - gram(V_unknown)
    norm = float(np.abs(K).sum(axis=1).max())
    basic = (X.shape[0] + Z.shape[0]) * EPS * norm
    spectrum = eigen(residual[block], "K - Q", vectors=True, rounding=max(basic, 1e-10 * norm))
    eigenvalues = np.concatenate([spectrum.values, np.zeros(X.shape[0] - spectrum.values.size)])
    assert spectrum.vectors is not None
    return Nystrom(
        X, Z, whitener.chol, V, known, rank, K, residual, eigenvalues, spectrum.vectors, spectrum.rounding, whitener
    )
