"""The functions of X and y that the bounds for given inputs use: K decomposed up to 4096 rows, streamed beyond."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, Float, distinct_rows, is_cupy
from gpbounds.kdpp.mean_residual import EigenvalueEnds, ExpectedResidual
from gpbounds.kdpp.residual import eigenvalue_ends, expected_residual
from gpbounds.kdpp.streamed_residual import RitzForm, StreamedResidual, streamed_residual, tilted_traces
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.linalg.krylov import conjugate_gradients
from gpbounds.linalg.pivoted import Pivoted, SymmetricProducts, eigen_squares, pivoted
from gpbounds.linalg.products import gram, matmul

DENSE = 4096
"""Number of rows up to which K is decomposed."""
FIRST_PIVOTS, MOST_PIVOTS = 1024, 3072
"""Beyond, the first and the largest number of pivots; between them, three for each inducing point."""
ENERGY = 1e-3
"""The solve stops if rᵀ(Q + σ²I)⁻¹r, r = y − K_n v, is below this value, which is then the error of yᵀK_n⁻¹y."""
STEPS = 60
"""Largest number of products with K."""
_RITZ = 14
"""Shifts whose solves, with v, span the space of the Ritz values."""


class Rows(ABC):
    """N rows, with or without targets (N, P).

    Attributes
    ----------
    N : int
    largest : int
        Largest M of the statements: N − 1, or the number of distinct rows if that is smaller.
    outputs : int
        P; 0 without targets.
    variance : float
        max K_ii.
    """

    N: int
    largest: int
    outputs: int
    variance: float

    @abstractmethod
    def lower_eigenvalues(self) -> Float:
        """Lower bounds of the eigenvalues of K, decreasing."""

    @abstractmethod
    def quadratic(self, residual: ExpectedResidual | StreamedResidual) -> float:
        """q̄ = Σ over outputs of E yᵀK_n⁻¹(K − Q)K_n⁻¹y, or an upper bound on it."""

    def _checked(self, M: int) -> None:
        if self.largest < M:
            raise ValueError(
                f"M: expected at most {self.largest} points for the {self.N} given rows (N - 1, or the number of "
                f"distinct rows, beyond which no k-DPP goes), got {M}"
            )


class DenseRows(Rows):
    """K decomposed: exact means, rounded up."""

    def __init__(self, kernel: Kernel, X: Array, Y: Array | None) -> None:
        K = kernel(X)
        self.N, self.outputs = X.shape[0], 0 if Y is None else Y.shape[1]
        self.variance = float(K.diagonal().max())
        if Y is None:
            self.spectrum, self.squares = eigen(K, "k(X, X)"), np.zeros(0)
        else:
            self.spectrum, self.squares = eigen_squares(K, Y, "k(X, X)")
        self.rank = distinct_rows(X)
        self.largest = min(self.N - 1, self.rank)
        self._residuals: dict[tuple[int, float], ExpectedResidual] = {}

    def lower_eigenvalues(self) -> Float:
        return np.maximum(self.spectrum.values - self.spectrum.rounding, 0.0)

    def residual(self, M: int, noise: float) -> ExpectedResidual:
        """The mean residual with M points, from above."""
        if (M, noise) not in self._residuals:
            self._checked(M)
            self._residuals[M, noise] = expected_residual(
                self.spectrum.values, M, noise=noise, rounding=self.spectrum.rounding, rank=self.rank
            )
        return self._residuals[M, noise]

    def ends(self, M: int, noise: float) -> EigenvalueEnds:
        """What the tilted law needs of M points: no mean residual."""
        self._checked(M)
        rounding = self.spectrum.rounding
        return eigenvalue_ends(self.spectrum.values, M, noise=noise, rounding=rounding, rank=self.rank)

    def quadratic(self, residual: ExpectedResidual | StreamedResidual) -> float:
        """q̄ for the computed eigenvectors, plus a bound on the effect of their rounding error.

        The eigenvectors are exact for a K̂ with ‖K − K̂‖ ≤ ε, ε the rounding error of the eigenvalues.  So K ⪯ K̂ + εI,
        and the mean residual is at most that of K̂ + εI (N-res).  In its norm K_n⁻¹y and K̂_n⁻¹y are √w ‖y‖ε/σ² apart,
        w = max ρ_i/(λ_i + σ²)²; √w ‖y‖N·eps is an allowance for the components of y.
        """
        assert isinstance(residual, ExpectedResidual)
        noise, error = residual.noise, self.spectrum.rounding
        assert noise is not None
        if self.rank < self.N:  # eigenvectors of rounded matrices are not exactly in the range of K
            residual = expected_residual(self.spectrum.values, residual.M, noise=noise, rounding=error)
        apart = residual.greatest_weight * float(self.squares.sum())
        relative = error / noise + self.N * EPS
        return float((np.sqrt(residual.quadratic(self.squares)) + np.sqrt(apart) * relative) ** 2)

    @property
    def numerical_rank(self) -> int:
        """The number of eigenvalues above their rounding error."""
        return int((self.spectrum.values > self.spectrum.rounding).sum())


@dataclass(frozen=True, eq=False)
class _Solved:
    """v near K_n⁻¹y with its Ritz values, and the energy rᵀ(Q + σ²I)⁻¹r of the residual r."""

    forms: tuple[RitzForm, ...]
    energies: tuple[float, ...]


class StreamedRows(Rows):
    """K in blocks: a pivoted Cholesky factor in place of its eigenvalues, conjugate gradients in place of K_n⁻¹.

    With r = y − K_n v and Q = FᵀF ⪯ K, in the norm ‖v‖² = E vᵀ(K − Q_Z)v the norm of the solution is at most ‖v‖ + √(θ
    e), e = rᵀ(Q + σ²I)⁻¹r ≥ rᵀK_n⁻¹r and θ = r_M/(√r_M + σ)² ≥ max_i ρ_i/(λ_i + σ²): the bound holds for every v.
    """

    def __init__(self, kernel: Kernel, X: Float, Y: Float | None, first: int = FIRST_PIVOTS) -> None:
        self.kernel, self.X, self.Y, self.first = kernel, X, Y, first
        self.N, self.outputs = X.shape[0], 0 if Y is None else Y.shape[1]
        self._diagonal = np.asarray(kernel.diag(X), dtype=np.float64)
        self.variance = float(self._diagonal.max())
        self.largest = min(self.N - 1, distinct_rows(X))
        self._times = SymmetricProducts(lambda rows, columns: kernel(X[rows], X[columns]), self.N)
        self._factor: Pivoted | None = None
        self._ended = False
        self._products = np.zeros((0, 0))
        self._spectrum = np.zeros(0)
        self._solved: dict[float, _Solved] = {}

    def lower_eigenvalues(self) -> Float:
        self.factor(1)
        return np.maximum(self._spectrum - self._rounding, 0.0)

    @property
    def pivots(self) -> int:
        """The number of computed pivots."""
        return 0 if self._factor is None else int(self._factor.indices.size)

    def reaches(self, M: int) -> bool:
        """Whether there are more than M pivots."""
        self._checked(M)
        return self.factor(M).indices.size > M

    def residual(self, M: int, noise: float) -> StreamedResidual:
        """The mean residual with M points, from above."""
        self._checked(M)
        left = self._left(M)
        return streamed_residual(self._spectrum, left, M, noise=noise, rounding=self._rounding)

    def tilted(self, M: int, noise: float) -> tuple[float, float]:
        """Upper bounds on τ_M(KK_n) and τ_{M−1}(KK_n)/M, or those of fewer points if pivots are few."""
        self._checked(M)
        left, spectrum = self._left(M), np.append(self._spectrum, 0.0)
        sizes = {max(1, min(M, self.pivots // part)) for part in (1, 2, 3)}
        traces = [(m, *tilted_traces(spectrum, left, m, noise=noise, rounding=self._rounding)) for m in sizes]
        return min(trace for _, trace, _ in traces), min(m * ratio for m, _, ratio in traces) / M

    def _left(self, M: int) -> float:
        """Upper bound on the trace that remains after the pivots for M points."""
        factor = self.factor(M)
        return float(factor.traces[-1]) + self.N * EPS * float(factor.traces[0])

    def quadratic(self, residual: ExpectedResidual | StreamedResidual) -> float:
        assert isinstance(residual, StreamedResidual)
        solved = self._solve(residual.noise)
        theta = residual.ratio / (np.sqrt(residual.ratio) + np.sqrt(residual.noise)) ** 2
        parts = zip(solved.forms, solved.energies, strict=True)
        return float(sum((np.sqrt(residual.form(f)) + np.sqrt(theta * e)) ** 2 for f, e in parts))

    @property
    def _rounding(self) -> float:
        return self.N * EPS * float(self._spectrum.max())

    def factor(self, M: int) -> Pivoted:
        """A factor with three pivots for each of M points, limited by the numerical rank and the largest number of
        pivots."""
        most = min(self.N, MOST_PIVOTS)
        wanted = min(most, max(self.first, 3 * M))
        if self.pivots < wanted and not self._ended:
            wanted = min(most, max(wanted, 2 * self.pivots))
            self._grow(wanted)
        assert self._factor is not None
        return self._factor

    def _grow(self, wanted: int) -> None:
        """Add pivots up to the wanted number, and their products and eigenvalues."""
        X, kernel, old = self.X, self.kernel, self.pivots
        grown = pivoted(
            lambda picked, columns: kernel(X[picked], X[columns]), self._diagonal, wanted, before=self._factor
        )
        F = grown.factor
        products = np.empty((F.shape[0], F.shape[0]))
        products[:old, :old], products[old:, old:] = self._products, gram(F[old:].T)
        products[old:, :old] = matmul(F[old:], F[:old].T)
        products[:old, old:] = products[old:, :old].T
        self._factor, self._ended, self._products = grown, grown.indices.size < wanted, products
        self._spectrum = eigen(products, "FFᵀ", rounding=self.N * EPS * float(grown.traces[0])).values

    def _solve(self, noise: float) -> _Solved:
        if noise not in self._solved:
            assert self.Y is not None
            F = self.factor(1).factor
            values, basis = np.linalg.eigh(self._products)
            values = np.maximum(values, 0.0)

            def inverse(V: Float, shift: float) -> Float:
                """(FᵀF + shift·I)⁻¹V."""
                inner = basis @ ((basis.T @ (F @ V)) / (values + shift)[:, None])
                return (V - F.T @ inner) / shift

            V = conjugate_gradients(
                lambda V: self._times(V) + noise * V,
                lambda R: inverse(R, noise),
                self.Y,
                enough=lambda energies: not float(energies.max()) > ENERGY,
                steps=STEPS,
            )
            low = max(float(values.max()) * 1e-10, noise * 1e-6)
            shifts = np.geomspace(low, float(values.max()), _RITZ)
            # v first, one block of columns for each output
            columns = [np.column_stack([v, *(inverse(v[:, None], s)[:, 0] for s in shifts)]) for v in V.T]
            products = self._times(np.concatenate(columns, axis=1))
            forms, energies = [], []
            for p, W in enumerate(columns):
                KW = products[:, p * (_RITZ + 1) : (p + 1) * (_RITZ + 1)]
                r = self.Y[:, p] - KW[:, 0] - noise * W[:, 0]
                forms.append(RitzForm.of(W, KW, W[:, 0]))
                energies.append(max(float(r @ inverse(r[:, None], noise)[:, 0]), 0.0))
            self._solved[noise] = _Solved(tuple(forms), tuple(energies))
        return self._solved[noise]


def rows_of(
    kernel: Kernel, X: Array, Y: Array | None, *, dense: int = DENSE, first: int = FIRST_PIVOTS
) -> DenseRows | StreamedRows:
    """The :class:`Rows` of N points: decomposed up to ``dense`` of them, else at least ``first`` pivots."""
    if X.shape[0] <= dense or is_cupy(X):
        return DenseRows(kernel, X, Y)
    return StreamedRows(kernel, np.asarray(X, dtype=np.float64), Y, first)
