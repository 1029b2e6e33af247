"""Matérn kernels, any ν, Gaussian or uniform inputs in up to three dimensions: numerical eigenvalues and tails."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.inputs import Gaussian, Uniform, independent_stds
from gpbounds.kernels import Matern
from gpbounds.spectra import galerkin
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.weyl import WeylLaw
from gpbounds.validation import count as one_count

REACH = {"state space": 9.0, "autocorrelation": 8.0}  # the real line is replaced by ± so many standard deviations
SIZES = {"state space": (128, 192, 320, 512, 896, 1536), "autocorrelation": (32, 48, 80, 128, 192, 320)}
HALVES = {2: (15, 20, 25), 3: (5, 6, 7)}  # half the nodes in each dimension: at most 2744 nodes
TAIL_ACCURACY = {1: 1e-4, 2: 0.05, 3: 0.05}  # eigenvalues of this accuracy enter a tail, with their errors added


class Ritz(Spectrum):
    """A numerical Mercer spectrum of a Matérn kernel, 1-D to 3-D, Gaussian or uniform inputs; estimates, not bounds.

    One dimension: Ritz values in Legendre polynomials (times √p for Gaussian inputs on ± 8 or 9 standard deviations),
    from a factor of the kernel for half-integer ν, from its matrix otherwise; they lie below the eigenvalues (L-49c).
    Two and three: Nyström on a Gauss grid.  Each value is computed at two resolutions; their difference is its
    estimated error.

    The tail is the sum of the resolved eigenvalues beyond M, plus their errors, plus the trace minus all resolved
    eigenvalues.  Where rounding spoils this difference, and for M beyond the resolved eigenvalues, Weyl's law is used
    (rate M^(-2ν/D), L-49a), scaled to be at least the last resolved value.

    Parameters
    ----------
    kernel : Matern, one lengthscale or one per dimension
    inputs : Gaussian or Uniform, dim <= 3

    Raises
    ------
    ValueError
        for another kernel (also sums and products), another law, or more than three dimensions.
    NotConverged
        from ``eigenvalues``, if ``count`` of them cannot be computed to 1e-8 (1-D) or 5 % (2-D, 3-D).

    >>> s = Ritz(Matern(1.5), Gaussian())
    >>> s.eigenvalues(3).round(6).tolist()
    [0.554614, 0.217618, 0.098475]
    >>> s.certified
    False
    """

    certified = False
    source = "L-49a, L-49c, R-mat-eig"

    def __init__(self, kernel: Matern, inputs: Gaussian | Uniform) -> None:
        if not isinstance(kernel, Matern):
            raise ValueError(
                f"kernel: expected one Matern kernel, got {type(kernel).__name__}: the eigenvalues of sums and "
                "products are not those of their parts; spectrum(kernel, inputs=Empirical(X)) works for every kernel"
            )
        if not isinstance(inputs, Gaussian | Uniform):
            raise ValueError(f"inputs: expected Gaussian or Uniform, got {type(inputs).__name__}")
        if inputs.dim > 3:
            raise ValueError(
                f"inputs: expected 1, 2 or 3 dimensions, got {inputs.dim}; Empirical(X) works for any number"
            )
        kernel.lengthscales(inputs.dim)
        if isinstance(inputs, Gaussian):
            independent_stds(inputs)
        self.kernel, self.inputs = kernel, inputs
        self.trace = kernel.variance
        self._accuracy = 1e-8 if inputs.dim == 1 else 0.05
        self._levels: dict[int, Float] = {}

    @property
    def note(self) -> str:  # type: ignore[override]
        """How the numbers are computed, and their estimated accuracy."""
        if self.inputs.dim == 1:
            return (
                "Numerical estimate: Ritz values in Legendre polynomials to 1e-8, Weyl's law beyond the resolved ones."
            )
        values, error, resolved = self._resolved
        worst = float(error[:resolved].max(initial=0.0))
        return (
            f"Numerical estimate: Nyström on a Gauss grid of {values.size} nodes; the first {resolved} eigenvalues to "
            f"an estimated {worst:.0e} or better, the largest to {float(error[0]):.0e}; Weyl's law beyond."
        )

    @property
    def _method(self) -> str:
        return "state space" if self.kernel.is_half_integer else "autocorrelation"

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """The resolutions that can be used for the lengthscale, coarse to fine."""
        if self.inputs.dim > 1:
            return HALVES[self.inputs.dim]
        gamma = self._gamma
        return tuple(n for n in SIZES[self._method] if self._method != "state space" or gamma <= 2.0 * n)

    @cached_property
    def _width(self) -> float:
        inputs = self.inputs
        if isinstance(inputs, Uniform):
            return float(inputs.widths[0])
        return 2.0 * REACH[self._method] * float(inputs.stds[0])

    @cached_property
    def _gamma(self) -> float:
        return math.sqrt(2.0 * self.kernel.nu) * self._width / float(self.kernel.lengthscales(1)[0])

    def _level(self, size: int) -> Float:
        """Eigenvalues for variance 1 at one resolution, computed once."""
        if size not in self._levels:
            reach = REACH[self._method]
            if self.inputs.dim > 1:
                values = galerkin.tensor(self.kernel, self.inputs, size)
            elif self._method == "state space":
                values = galerkin.state_space(int(self.kernel.nu - 0.5), self._gamma, self.inputs, reach, size)
            else:
                values = galerkin.autocorrelation(self.kernel, self._width, self.inputs, reach, size)
            self._levels[size] = values
        return self._levels[size]

    def _compare(self, coarse: int, fine: int) -> tuple[Float, Float, int]:
        """Fine eigenvalues, relative errors of those that the coarse resolution shares, number of accurate ones."""
        rough, values = self._level(coarse), self._level(fine)
        shared = rough.size if self.inputs.dim == 1 else rough.size // 2
        positive = values[:shared] > 0.0
        floor = 0.0 if self._method == "state space" and self.inputs.dim == 1 else 8.0 * EPS * math.sqrt(values.size)
        error = np.full(shared, np.inf)
        change = np.abs(values[:shared] - rough[:shared]) + floor * values[0]
        np.divide(change, values[:shared], out=error, where=positive)
        error = np.maximum.accumulate(error)
        return values, error, int((error <= self._accuracy).sum())

    def _omitted_mass(self) -> float:
        if self.inputs.dim > 1 or isinstance(self.inputs, Uniform):
            return 0.0
        return math.erfc(REACH[self._method] / math.sqrt(2.0))

    @cached_property
    def _resolved(self) -> tuple[Float, Float, int]:
        """Values, errors, number in the tail: from the first resolution with 16 accurate values, or the finest."""
        best: tuple[Float, Float, int] = np.empty(0), np.empty(0), 0
        pairs = list(zip(self._sizes, self._sizes[1:], strict=False))
        for coarse, fine in pairs if self.inputs.dim == 1 else pairs[-1:]:
            best = self._compare(coarse, fine)
            if best[2] >= 16:
                break
        return best[0], best[1], int((best[1] <= TAIL_ACCURACY[self.inputs.dim]).sum())

    def eigenvalues(self, count: int) -> Float:
        count = one_count("count", count)
        accurate, error = 0, math.inf
        for coarse, fine in list(zip(self._sizes, self._sizes[1:], strict=False))[-1 if self.inputs.dim > 1 else 0 :]:
            if coarse < count and self.inputs.dim == 1:
                continue
            values, errors, accurate = self._compare(coarse, fine)
            if accurate >= count:
                return self.trace * values[:count]
            error = float(errors[accurate]) if accurate < errors.size else math.inf
        raise NotConverged(
            f"eigenvalues: expected at most {accurate}, accurate to {self._accuracy:g} at the finest resolution, got "
            f"{count}: the next one is accurate to {error:.1e}. Ask for {accurate}, or use tail(), which continues by "
            "Weyl's law; with a longer lengthscale more are accurate"
        )

    @cached_property
    def _weyl(self) -> WeylLaw:
        return WeylLaw(self.kernel, self.inputs)

    @cached_property
    def _head(self) -> tuple[Float, Float]:
        """log tail for M = 0 ... a, a the number of resolved eigenvalues, and log Weyl's tail at a; variance 1."""
        values, error, a = self._resolved
        head = values[:a]
        doubt = head * error[:a]
        weyl = self._weyl.log_tail(np.array([float(a)]))
        rest = 1.0
        if a:
            rest = max(1.0 - float(head[::-1].sum()), 0.0) + float(doubt.sum()) + 64.0 * values.size * EPS
            scale = max(math.log(head[-1]) - float(self._weyl.log_value(np.array([float(a)]))[0]), 0.0)
            rest = min(rest, 1.2 * math.exp(float(weyl[0]) + scale))
        rest += self._omitted_mass()
        beyond = np.cumsum(np.concatenate([[rest], (head + doubt)[::-1]]))[::-1]
        return np.log(np.minimum(beyond, 1.0)), weyl

    def _log_tail(self, M: Float) -> Float:
        near, weyl = self._head
        a = near.size - 1.0
        far = near[-1] + self._weyl.log_tail(np.maximum(M, a)) - weyl[0]
        return math.log(self.trace) + np.where(a >= M, near[np.minimum(M, a).astype(np.int64)], far)
