"""Eigenvalues of K/N for given data: the Mercer spectrum under the empirical law."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from gpbounds.arrays import EPS, Float, distinct_rows, is_cupy
from gpbounds.inputs import Empirical
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_bound, entry_errors
from gpbounds.linalg import psd
from gpbounds.linalg.errors import enclosed_eigen
from gpbounds.rigor import AFFORDABLE
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.gaussian import log_tails
from gpbounds.validation import count as one_count

PROVED = "The eigenvalues are proved upper bounds on those of the exact covariance matrix of the given inputs."


class DataSpectrum(Spectrum):
    """Eigenvalues of K/N, K = k(X, X), or bounds on them.

    Attributes
    ----------
    N : int
    rank : int
        Number of distinct rows of X: no k-DPP has more points; squared exponential and Matérn kernels have this rank.
    """

    source = "R-lem3"

    def __init__(self, kernel: Kernel, inputs: Empirical, values: Float) -> None:
        X = inputs.X
        self.N = inputs.N
        self.rank = distinct_rows(X)
        self._values = values
        self.trace = float(kernel.diag(X).sum()) / self.N
        self._log_tails: Float | None = None

    @abstractmethod
    def upper_eigenvalues(self) -> Float:
        """Upper bounds on all N eigenvalues of K/N, decreasing."""

    @abstractmethod
    def lower_eigenvalues(self) -> Float:
        """Lower bounds on all N eigenvalues of K/N, decreasing."""

    def eigenvalues(self, count: int) -> Float:
        """Upper bounds on the ``count`` largest eigenvalues of K/N, as ``note`` says; ``count`` <= N."""
        count = one_count("count", count)
        if count > self.N:
            raise ValueError(f"count: expected at most N = {self.N} eigenvalues, got {count}")
        return self.upper_eigenvalues()[:count]

    def _log_tail(self, M: Float) -> Float:
        if self._log_tails is None:
            upper = self.upper_eigenvalues()
            self._log_tails = log_tails(np.log(upper[upper > 0.0]), -np.inf)
        return self._log_tails[np.minimum(M, self._log_tails.size - 1).astype(np.int64)]


class EmpiricalSpectrum(DataSpectrum):
    """Eigenvalues of K/N in double precision: O(N³) time, O(N²) memory.

    Attributes
    ----------
    rounding : float
        Added to the eigenvalues for upper bounds: a proved error if ``certified``, else N·eps·λ_max, which exceeds the
        measured errors of LAPACK.
    """

    certified: bool = False
    note: str = (
        "The eigenvalues of k(X, X), computed in doubles, are raised by N·2^-52 of the largest: this allowance for "
        "their rounding is measured, not proved; for given rows rigor='sharp' encloses them."
    )

    def __init__(self, kernel: Kernel, inputs: Empirical) -> None:
        spectrum = psd.eigen(kernel(inputs.X), name="k(X, X)")
        super().__init__(kernel, inputs, spectrum.values / inputs.N)
        self.rounding = spectrum.rounding / self.N

    @classmethod
    def proved(cls, kernel: Kernel, inputs: Empirical) -> EmpiricalSpectrum | None:
        """The spectrum with a proved error (N-enclosed) in place of N·eps·λ_max; None where none is proved.

        It needs eigenvectors and their residual, eight times the time: up to `AFFORDABLE` rows in host memory.
        """
        if is_cupy(inputs.X) or inputs.N > AFFORDABLE:
            return None
        X = np.asarray(inputs.X, dtype=np.float64)
        if entry_bound(kernel, X[:1], X[:1]) is None:
            return None
        K = np.asarray(kernel(X))
        eigen = enclosed_eigen(K, np.zeros((inputs.N, 0)), entry_errors(kernel, X, K), "k(X, X)")
        if not math.isfinite(eigen.error):
            return None
        spectrum = cls.__new__(cls)
        DataSpectrum.__init__(spectrum, kernel, Empirical(X), eigen.values / inputs.N)
        # quotients by N, and their sums with the error, are rounded
        spectrum.rounding = (eigen.error + 4.0 * EPS * float(eigen.values[0])) / inputs.N
        spectrum.certified, spectrum.note = True, PROVED
        return spectrum

    def upper_eigenvalues(self) -> Float:
        """Upper bounds on all N eigenvalues of K/N: the rounding error is added up to the rank; exactly 0 beyond it."""
        upper = self._values + self.rounding
        upper[self.rank :] = 0.0
        return upper

    def lower_eigenvalues(self) -> Float:
        """The eigenvalues of K/N less the rounding error, at least 0."""
        return np.maximum(self._values - self.rounding, 0.0)
