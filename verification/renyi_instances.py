"""Random and adversarial instances for the Rényi claims: the prior of (f, U) in blocks, targets, noise; 50 digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mpmath import eye, log, mp, mpf, pi

from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.reference import renyi as reference
from gpbounds.reference.linalg import solve, trace

SEEDS = st.integers(0, 2**32 - 1)
ORDERS = st.floats(0.01, 0.99).map(mpf)
KINDS = ("apart", "subset", "disjoint", "rank one", "flat", "duplicates")


@dataclass(frozen=True)
class Instance:
    """Kff (N × N), Kuf (M × N), Kuu (M × M), y (N × 1), noise."""

    Kff: Any
    Kuf: Any
    Kuu: Any
    y: Any
    noise: Any

    @property
    def prior(self) -> tuple[Any, Any, Any]:
        return self.Kff, self.Kuf, self.Kuu

    @property
    def all(self) -> tuple[Any, Any, Any, Any, Any]:
        return self.Kff, self.Kuf, self.Kuu, self.y, self.noise

    @property
    def N(self) -> int:
        return self.Kff.rows

    @property
    def Q(self) -> Any:
        return reference.nystrom(self.Kuf, self.Kuu)

    @property
    def residual(self) -> Any:
        return self.Kff - self.Q

    @property
    def exact(self) -> Any:
        """K + σ²I."""
        return self.Kff + self.noise * eye(self.N)

    @property
    def T(self) -> Any:
        return trace(self.residual)

    @property
    def d(self) -> list[Any]:
        """Eigenvalues of (K − Q)/σ², largest first; those below 0 by rounding count as 0."""
        return [max(v, mpf(0)) / self.noise for v in reference.spectrum(self.residual)]

    def xi(self, alpha: Any) -> Any:
        return reference.xi(*self.prior, self.noise, alpha)


def gram(rng: np.random.Generator, n: int, rank: int | None = None) -> Any:
    """A random PSD matrix, PD when rank >= n."""
    factor = reference.matrix(rng.standard_normal((n, rank or n + 1)))
    return factor * factor.T


def instance(seed: int, kind: str | None = None) -> Instance:
    """One instance of up to 4 data and 3 inducing variables; of a random kind when none is named."""
    rng = np.random.default_rng(seed)
    kind = kind or str(rng.choice(KINDS))
    N, M = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    scale, noise = mpf(2) ** int(rng.integers(-6, 7)), mpf(10.0 ** rng.uniform(-2, 1))
    y = reference.matrix(rng.standard_normal(N)) * mp.sqrt(scale) * mpf(10.0 ** rng.uniform(-2, 1))
    if kind == "disjoint":  # Q(K − Q) = 0: f₁ is a function of U, f₂ is independent of it
        Kuu, lift = gram(rng, M), reference.matrix(rng.standard_normal((N - 1, M)))
        Kff, Kuf = mp.zeros(N), mp.zeros(M, N)
        Kff[: N - 1, : N - 1], Kff[N - 1, N - 1] = lift * Kuu * lift.T, mpf(rng.uniform(0.1, 2))
        Kuf[:, : N - 1] = Kuu * lift.T
        return Instance(scale * Kff, scale * Kuf, scale * Kuu, y, noise)
    if kind == "apart":
        joint = gram(rng, N + M)
        chosen = list(range(N, N + M))
    else:
        joint = gram(rng, N)
        if kind == "rank one":
            factor = reference.matrix(np.concatenate([[2.0], rng.standard_normal(N - 1)]))
            joint = factor * factor.T  # K − Q is exactly 0: scale and Kuu are powers of 2
        elif kind == "flat":
            joint = mp.ones(N) + joint * mpf("1e-6")
        elif kind == "duplicates":
            joint[N - 1, :], joint[:, N - 1] = joint[0, :], joint[:, 0]
            joint[N - 1, N - 1] = joint[0, 0]
        M = 1 if kind in ("rank one", "duplicates") else min(M, N - 1)
        chosen = list(range(M))
    pick = mp.zeros(M, joint.rows)
    for row, column in enumerate(chosen):
        pick[row, column] = 1
    Kuf, Kuu = pick * joint[:, :N], pick * joint * pick.T
    return Instance(scale * joint[:N, :N], scale * Kuf, scale * Kuu, y, noise)


def any_posterior(case: Instance, seed: int) -> tuple[Any, Any]:
    """A random q(U): mean and covariance, not far from the prior's scale."""
    rng = np.random.default_rng(seed)
    M = case.Kuu.rows
    size = trace(case.Kuu) / M
    return mp.sqrt(size) * reference.matrix(rng.standard_normal(M)), size * gram(rng, M) / (M + 1)


def log_p_alpha(prior: tuple[Any, Any, Any], y: Any, noise: Any, alpha: Any, U: Any) -> Any:
    """log p_α(y|U) = log of (2πσ²)^(αN/2) β^(−N/2) N(y; PU, σ²I/β + Δ)."""
    Kff, Kuf, Kuu = prior
    N, beta = Kff.rows, 1 - alpha
    cov = noise / beta * eye(N) + Kff - reference.nystrom(Kuf, Kuu)
    return (
        alpha * N / 2 * log(2 * pi * noise)
        - mpf(N) / 2 * log(beta)
        + reference.log_normal(y - solve(Kuu, Kuf).T * U, cov)
    )


def snap(value: Any) -> Any:
    """``value``, or 0 where it is only the rounding error of 50 digits."""
    return value if abs(value) > mpf("1e-40") else mpf(0)


def is_psd(A: Any, size: Any = 1) -> bool:
    """Whether the least eigenvalue is above -1e-35 times ``size`` and the largest entry."""
    scale = max([abs(v) for v in A] + [abs(mpf(size))])
    return bool(reference.spectrum((A + A.T) / 2)[-1] >= -mpf("1e-35") * scale)


@dataclass(frozen=True)
class Data:
    """The same for the float64 path: a kernel and points."""

    kernel: Kernel
    X: Any
    y: Any
    Z: Any
    noise: float

    @property
    def problem(self) -> tuple[Any, ...]:
        """First arguments of `elbo`, `exact_gap` and `gap`; then come the order and the noise."""
        return self.kernel, self.X, self.y, self.Z

    @property
    def inputs(self) -> tuple[Any, ...]:
        """First arguments of `expected_gap`; then come the order and the noise."""
        return self.kernel, self.X, self.Z

    @property
    def exact(self) -> Instance:
        """The same numbers, exactly, in mpmath."""
        return Instance(*reference.blocks(self.kernel, self.X, self.Z), reference.matrix(self.y), mpf(self.noise))


def data(seed: int) -> Data:
    """Up to 5 points in one or two dimensions, Z among them or not, Kuu of condition < 1e6."""
    rng = np.random.default_rng(seed)
    N, D = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    M = int(rng.integers(1, N + 1))
    X = rng.standard_normal((N, D))
    Z = X[rng.permutation(N)[:M]] if rng.random() < 0.5 else rng.standard_normal((M, D))
    variance, lengthscale = float(np.exp(rng.normal())), float(np.exp(rng.normal(-0.5, 0.5)))
    nu = rng.choice([0.5, 1.5, 2.5, np.inf])
    while (
        True
    ):  # shorter lengthscales, until what double precision loses to the condition of Kuu is below the tolerances
        smooth = SquaredExponential(variance, lengthscale)
        kernel = smooth if np.isinf(nu) else Matern(float(nu), variance, lengthscale)
        if np.linalg.cond(kernel(Z)) < 1e6:
            break
        lengthscale /= 2.0
    return Data(kernel, X, rng.standard_normal(N), Z, float(10.0 ** rng.uniform(-3, 1)))
