"""The interface of Mercer spectra: the eigenvalues of f -> ∫ k(·, x') f(x') p(x') dx' and the sums of their tails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import whole


class Spectrum(ABC):
    """Eigenvalues λ_1 >= λ_2 >= ... of a kernel under an input law, with Σ λ_m = E k(x, x).

    Attributes
    ----------
    trace : float
        Σ_m λ_m, in squared units of y.
    certified : bool
        True if ``tail`` is exact to rounding or an upper bound; False if it is a numerical estimate, or rests on a
        decomposition whose errors are measured, not proved.  A bound is certified if also the roundings of the tails
        are counted (:meth:`roundings`).
    source : str
        Ledger ids of the formulas.
    note : str
        One sentence that says how the numbers are computed; bounds list it among their assumptions.
    """

    trace: float
    certified: bool
    source: str
    note: str

    @abstractmethod
    def eigenvalues(self, count: int) -> Float:
        """The ``count`` largest eigenvalues (or upper bounds on them, where ``note`` says so), decreasing."""

    @abstractmethod
    def _log_tail(self, M: Float) -> Float:
        """log Σ_{m>M} λ_m for an array of whole numbers M >= 0."""

    def roundings(self, last: Float, size: Float | float) -> Float:
        """c: e^log_tail(M) >= (1 - c·2^-53) times an upper bound of the tail, for all M <= last (N-tail-rounding).

        Tails are those of at least e^-size of the trace.  inf where roundings are not counted: the tail is then an
        upper bound up to an allowance that is measured, or an estimate.
        """
        return np.full(np.broadcast(last, size).shape, np.inf)

    def log_tail(self, M: ArrayLike) -> Any:
        """log Σ_{m>M} λ_m (or of an upper bound on it), for whole numbers M >= 0 of any shape."""
        counts = whole("M", M, 0)
        log_tail = self._log_tail(np.atleast_1d(counts))
        return log_tail.reshape(counts.shape) if counts.ndim else float(log_tail[0])

    def tail(self, M: ArrayLike) -> Any:
        """Σ_{m>M} λ_m; use :meth:`log_tail` where it underflows."""
        return np.exp(self.log_tail(M))
