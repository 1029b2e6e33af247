"""Matérn kernels, any ν, Gaussian or uniform inputs in up to three dimensions: numerical eigenvalues and tails."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotConverged
from gpbounds.inputs import Gaussian, Uniform, independent_stds
from gpbounds.kernels import Matern
from gpbounds.kernels.facts import has_formula
from gpbounds.kernels.stationary import Stationary
from gpbounds.once import cached_property
from gpbounds.spectra.base import Spectrum, gauss, values
from gpbounds.spectra.matern import factor, squared_singular_values
from gpbounds.validation import count as one_count

# Discretisations of a stationary kernel under an input law: each gives decreasing eigenvalues for variance 1.

SPREAD = 80  # degree of a polynomial that equals √density to rounding, for a Gaussian on ± 9 standard deviations
_GRADING = 6  # distances t = u^6 make |t|^(2ν) smooth enough at 0 for Gauss's rule, for every ν > 0


def density(inputs: Gaussian | Uniform, x: Float, reach: float) -> Float:
    """Density of a 1-D input on the box, or on ± reach standard deviations, rescaled to [0, 1]."""
    if isinstance(inputs, Uniform):
        return np.ones_like(x)
    z = reach * (2.0 * x - 1.0)
    return 2.0 * reach * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)


def state_space(p: int, gamma: float, inputs: Gaussian | Uniform, reach: float, n: int) -> Float:
    """1-D, ν = p + ½, γ = c·width: Ritz values of K under the density, from the factor in n Legendre polynomials.

    For Gaussian inputs the trial functions are Legendre times √density, of a degree that n polynomials hold.
    """
    G = factor(p, gamma, n)
    if isinstance(inputs, Gaussian):
        x, w = gauss(n)
        table = values(n, x)
        trial = table[:, : n - SPREAD] * (w * np.sqrt(density(inputs, x, reach)))[:, None]
        G = (trial.T @ table) @ G
    return squared_singular_values(G)


def autocorrelation(kernel: Stationary, width: float, inputs: Gaussian | Uniform, reach: float, n: int) -> Float:
    """1-D, any kernel: eigenvalues of A_ij = ∬ φ_i(x) k(x - y) φ_j(y), φ = √density · Legendre, in n of them.

    A = ∫_0^1 k(t) (C(t) + C(t)') dt with C(t) = ∫_0^(1-t) φ(y + t) φ(y)' dy; even and odd functions are separated.
    """
    u, weight = gauss(3 * n + 64)
    distances = u**_GRADING
    weight = weight * _GRADING * u ** (_GRADING - 1)
    k = kernel.correlation((distances * width / kernel.lengthscales(1)[0]) ** 2)
    y, wy = gauss(n + (48 if isinstance(inputs, Gaussian) else 1))

    def functions(x: Float) -> Float:
        return values(n, x) * np.sqrt(density(inputs, x, reach))[:, None]

    total = [np.zeros(((n + 1) // 2,) * 2), np.zeros((n // 2,) * 2)]
    for chunk in np.array_split(np.arange(u.size), max(u.size * n * y.size // 2_000_000, 1)):
        t = distances[chunk, None]
        left = (1.0 - t) * y
        scale = (weight[chunk] * k[chunk])[:, None] * (1.0 - t) * wy
        near, far = functions(left.ravel()), functions((left + t).ravel()) * scale.ravel()[:, None]
        for parity in (0, 1):
            total[parity] += far[:, parity::2].T @ near[:, parity::2]
    by_parity = [np.linalg.eigvalsh(A + A.T) for A in total if A.size]
    return np.sort(np.concatenate(by_parity))[::-1]


def _nodes(inputs: Gaussian | Uniform, n: int) -> tuple[Float, Float]:
    """Nodes relative to the centre, in widths or standard deviations, and their weights under the density.

    For Gaussian inputs they are distributed like N(0, 2 std²), which suits rough kernels: far fewer nodes lie in the
    tails than with Gauss-Hermite.
    """
    x, w = gauss(n)
    if isinstance(inputs, Uniform):
        return x - 0.5, w
    from scipy.special import ndtri

    z = math.sqrt(2.0) * ndtri(x)
    share = w * np.exp(-(z**2) / 4.0)
    return z, share / share.sum()


def tensor(kernel: Stationary, inputs: Gaussian | Uniform, half: int) -> Float:
    """Any dimension: eigenvalues by Nyström's method on 2·half Gauss nodes per dimension, for each parity
    separately."""
    dim = inputs.dim
    x, w = _nodes(inputs, 2 * half)
    weights = 2.0 * w[half:]  # of a node and its mirror image
    scaled = (inputs.widths if isinstance(inputs, Uniform) else inputs.stds) / kernel.lengthscales(dim)
    grids = np.meshgrid(*(x[half:] * size for size in scaled), indexing="ij")
    root = np.sqrt(np.prod(np.meshgrid(*[weights] * dim, indexing="ij"), axis=0).ravel())
    squares = [[(g.ravel()[:, None] - sign * g.ravel()[None, :]) ** 2 for sign in (1.0, -1.0)] for g in grids]
    reflections = list(itertools.product((0, 1), repeat=dim))
    parts = {r: kernel.correlation(np.sum([squares[d][r[d]] for d in range(dim)], axis=0)) for r in reflections}
    by_parity = []
    for parity in reflections:
        block = np.zeros((root.size, root.size))
        for r in reflections:
            block += (-1.0) ** sum(a * b for a, b in zip(parity, r, strict=True)) * parts[r]
        by_parity.append(np.linalg.eigvalsh(block * (root[:, None] * root[None, :]) / 2.0**dim))
    return np.sort(np.concatenate(by_parity))[::-1]


# Weyl's law for Matérn kernels: the number of eigenvalues above a level, from a volume in phase space.

STEP = 0.05


class WeylLaw:
    """N(λ) = (2π)^-D |{(x, ω): S(ω) p(x) > λ}| and the tail it implies, for variance 1.

    S is the spectral density, p the density of the inputs, so that N gives the exact trace, and the rate
    m^(-(2ν+D)/D) with its constant (Widom).  It is asymptotic: at finite m it is an estimate, too low where the
    boundary of the box matters.

    >>> law = WeylLaw(Matern(0.5), Uniform(0.0, 1.0))
    >>> float(np.exp(law.log_tail(np.array([1000.0])))[0].round(6))        # exactly 0.000203 at M = 1000
    0.000203
    """

    def __init__(self, kernel: Matern, inputs: Gaussian | Uniform) -> None:
        dim, nu = inputs.dim, kernel.nu
        self._rate = 2.0 * nu / dim  # the tail falls like M^-rate
        half = dim / 2.0
        ball = math.pi**half / math.gamma(half + 1.0)
        order = nu + half
        c2 = 2.0 * nu
        log_peak = half * math.log(4.0 * math.pi) + math.lgamma(order) - math.lgamma(nu) + nu * math.log(c2)
        lengthscales = kernel.lengthscales(dim)
        if isinstance(inputs, Uniform):
            log_sizes = float(np.log(inputs.widths / lengthscales).sum())
            radius, log_weight, log_density = np.zeros(1), np.full(1, log_sizes), -log_sizes
        else:
            log_sizes = float(np.log(inputs.stds / lengthscales).sum())
            radius, weights = gauss(200)  # of |x/std|, up to the largest radius of any level of the table
            reach = math.sqrt(2.0 * (60.0 + 120.0 * order / dim))
            radius = radius * reach
            with np.errstate(under="ignore"):
                log_weight = np.log(weights * reach * dim * ball) + (dim - 1.0) * np.log(radius) + log_sizes
            log_density = -half * math.log(2.0 * math.pi) - log_sizes
        log_density_at = log_density - radius**2 / 2.0
        top = log_peak - order * math.log(c2) + log_density
        span = 2.0 * order / dim * 30.0 + 40.0
        below = np.concatenate([np.geomspace(1e-6, STEP, 60)[:-1], STEP * np.arange(1, int(span / STEP) + 1)])
        log_levels = top - below
        excess = (log_peak + log_density_at[None, :] - log_levels[:, None]) / order - math.log(c2)
        with np.errstate(divide="ignore"):
            log_volume = np.where(excess > 0.0, np.log(np.expm1(np.clip(excess, 1e-300, 600.0))), -np.inf)
            log_volume = half * (log_volume + math.log(c2)) + log_weight[None, :]
        largest = log_volume.max(axis=1, keepdims=True)
        log_count = (largest + np.log(np.exp(log_volume - largest).sum(axis=1, keepdims=True)))[:, 0]
        log_count += math.log(ball) - dim * math.log(2.0 * math.pi)
        # tail = ∫_0^λ N dλ' - λN; below the last level N is a power of λ.
        area = log_levels + log_count
        share = 1.0 / (1.0 - dim / (2.0 * order))
        pieces = np.log(np.diff(below) / 2.0) + np.logaddexp(area[1:], area[:-1])
        log_area = np.logaddexp.accumulate(np.concatenate([[area[-1] + math.log(share)], pieces[::-1]]))[::-1]
        self._log_index = log_count
        self._log_value = log_levels
        self._log_tail = log_area + np.log(-np.expm1(np.minimum(area - log_area, -1e-12)))

    def log_value(self, m: Float) -> Float:
        """log of the m-th eigenvalue."""
        return self._interpolate(m, self._log_value, self._rate + 1.0)

    def log_tail(self, M: Float) -> Float:
        """log Σ_{m>M} λ_m, at most 0."""
        return np.minimum(self._interpolate(M, self._log_tail, self._rate), 0.0)

    def _interpolate(self, m: Float, table: Float, rate: float) -> Float:
        with np.errstate(divide="ignore"):
            log_m = np.log(m)
        beyond = np.maximum(log_m - self._log_index[-1], 0.0)
        return np.interp(log_m, self._log_index, table) - rate * beyond


# Matérn kernels, any ν, Gaussian or uniform inputs in up to three dimensions: numerical eigenvalues and tails.

REACH = {"state space": 9.0, "autocorrelation": 8.0}  # the real line is replaced by ± so many standard deviations
SIZES = {"state space": (128, 192, 320, 512, 896, 1536), "autocorrelation": (32, 48, 80, 128, 192, 320)}
HALVES = {2: (15, 20, 25), 3: (5, 6, 7)}  # half the nodes in each dimension: at most 2744 nodes
_TAIL_ACCURACY = {1: 1e-4, 2: 0.05, 3: 0.05}  # eigenvalues of this accuracy enter a tail, with their errors added


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
        if not has_formula(kernel, Matern):
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
                values = tensor(self.kernel, self.inputs, size)
            elif self._method == "state space":
                values = state_space(int(self.kernel.nu - 0.5), self._gamma, self.inputs, reach, size)
            else:
                values = autocorrelation(self.kernel, self._width, self.inputs, reach, size)
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
        return best[0], best[1], int((best[1] <= _TAIL_ACCURACY[self.inputs.dim]).sum())

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
