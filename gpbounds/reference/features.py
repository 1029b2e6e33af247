"""Features in mpmath, as the papers and the ledger write them: Mercer expansion of the SE kernel, Fourier densities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp


def mercer_constants(lengthscale: Any, std: Any) -> tuple[Any, Any, Any, Any]:
    """(α, ε, β, δ²) of Eq. 31-35: ρ = N(0, std²) = απ^(-½)exp(−α²x²), k = exp(−ε²τ²)."""
    alpha, epsilon = 1 / (mp.sqrt(2) * mp.mpf(std)), 1 / (mp.sqrt(2) * mp.mpf(lengthscale))
    beta = (1 + (2 * epsilon / alpha) ** 2) ** mp.mpf("0.25")
    return alpha, epsilon, beta, alpha**2 * (beta**2 - 1) / 2


def eigenfunction(n: int, x: Any, lengthscale: Any, std: Any) -> Any:
    """e_n = β^½ 2^((1−n)/2) Γ(n)^(-½) exp(−δ²x²) H_(n−1)(αβx), n >= 1."""
    alpha, _, beta, delta2 = mercer_constants(lengthscale, std)
    x = mp.mpf(x)
    scale = mp.sqrt(beta) * mp.mpf(2) ** (mp.mpf(1 - n) / 2) / mp.sqrt(mp.gamma(n))
    return scale * mp.exp(-delta2 * x**2) * mp.hermite(n - 1, alpha * beta * x)


def eigenvalue(n: int, lengthscale: Any, std: Any) -> Any:
    """λ_n = √(α²/(α²+δ²+ε²)) (ε²/(α²+δ²+ε²))^(n−1), n >= 1, of the kernel of variance 1."""
    alpha, epsilon, _, delta2 = mercer_constants(lengthscale, std)
    total = alpha**2 + delta2 + epsilon**2
    return mp.sqrt(alpha**2 / total) * (epsilon**2 / total) ** (n - 1)


def weighted_eigenfunctions(count: int, x: Any, lengthscale: Any, std: Any) -> list[Any]:
    """√λ_n e_n(x) for n = 1 ... count, by H_{k+1} = 2zH_k − 2kH_{k−1}."""
    alpha, _, beta, delta2 = mercer_constants(lengthscale, std)
    z = alpha * beta * mp.mpf(x)
    first, ratio = eigenvalue(1, lengthscale, std), eigenvalue(2, lengthscale, std) / eigenvalue(1, lengthscale, std)
    scale = mp.sqrt(beta * first) * mp.exp(-delta2 * mp.mpf(x) ** 2)
    before, now, values = mp.mpf(0), mp.mpf(1), []
    for k in range(count):
        values.append(scale * now)
        before, now = now, 2 * z * now - 2 * k * before
        scale *= mp.sqrt(ratio / (2 * (k + 1)))
    return values


def truncation_error(degrees: Sequence[Sequence[int]], x: Sequence[Any], lengthscales: Any, stds: Any) -> Any:
    """1 − Σ Π_d λ_(n_d) e_(n_d)(x_d)² over 0-based ``degrees``: k(x, x) − k_r(x, x) of the kernel of variance 1."""
    most = [max(n[d] for n in degrees) + 1 for d in range(len(x))]
    tables = [
        weighted_eigenfunctions(top, at, ell, s) for top, at, ell, s in zip(most, x, lengthscales, stds, strict=True)
    ]
    return 1 - mp.fsum(mp.fprod(table[n] for table, n in zip(tables, row, strict=True)) ** 2 for row in degrees)


def printed_fourier_kernel(tau: Any, delta: Any) -> Any:
    """What the density that Sec. 5 prints realises with cos ητ (D = 1, σ_f = 1): ∫ p(η) cos ητ dη."""
    p = lambda eta: mp.sqrt(2 * mp.pi / delta) * mp.exp(-2 * mp.pi**2 * eta**2 / delta)  # noqa: E731
    return 2 * mp.quad(lambda eta: p(eta) * mp.cos(eta * tau), [0, 1, 2, 4, 8, 16])


def fourier_kernel(tau: Any, delta: Any) -> Any:
    """The same with ω ~ N(0, 2Δ)."""
    p = lambda omega: mp.exp(-(omega**2) / (4 * delta)) / mp.sqrt(4 * mp.pi * delta)  # noqa: E731
    return 2 * mp.quad(lambda omega: p(omega) * mp.cos(omega * tau), [0, 1, 2, 4, 8, 16, 32, 64])


def student_kernel(nu: Any, distance: Any) -> Any:
    """E cos ωᵀτ for ω = z√(2ν/χ²), z ~ N(0, I), one χ² of 2ν degrees of freedom, |τ| = ``distance``, any D.

    Given χ² = 2g it is exp(−ν|τ|²/(2g)); g is Gamma(ν).
    """
    nu, r = mp.mpf(nu), mp.mpf(distance)
    density = lambda g: g ** (nu - 1) * mp.exp(-g - nu * r**2 / (2 * g)) / mp.gamma(nu)  # noqa: E731
    return mp.quad(density, [0, nu / 4, nu, 2 * nu + 2, 4 * nu + 20, mp.inf])


def gamma_kernel(shape: Any, distance: Any) -> Any:
    """E cos ωᵀδ for ω = z√τ, z ~ N(0, I), τ ~ Gamma(shape, rate shape), |δ| = ``distance``, any D."""
    a, r = mp.mpf(shape), mp.mpf(distance)
    density = lambda tau: a**a * tau ** (a - 1) * mp.exp(-a * tau - tau * r**2 / 2) / mp.gamma(a)  # noqa: E731
    return mp.quad(density, [0, mp.mpf(1) / 4, 1, 4, 16, mp.inf])


def line_kernel(lengthscale: Any, turns: Any, terms: int) -> Any:
    """Σ_j e^{−κ} I_|j|(κ) cos(2πj·turns) over |j| ≤ ``terms``, κ = 1/lengthscale²: a sum over the line spectrum."""
    kappa = 1 / mp.mpf(lengthscale) ** 2
    line = lambda j: mp.exp(-kappa) * mp.besseli(abs(j), kappa) * mp.cospi(2 * j * mp.mpf(turns))  # noqa: E731
    return mp.fsum(line(j) for j in range(-terms, terms + 1))


def skellam(mean: Any, j: int, terms: int) -> Any:
    """P(A − B = j) for independent Poisson variables A and B of this mean, summed over their values up to ``terms``."""
    mu = mp.mpf(mean)
    chance = lambda n: mp.exp(-mu) * mu**n / mp.factorial(n)  # noqa: E731
    return mp.fsum(chance(n + j) * chance(n) for n in range(max(0, -j), terms))


def matern(nu: Any, distance: Any) -> Any:
    """2^(1−ν)/Γ(ν) z^ν K_ν(z), z = √(2ν) |τ|."""
    nu = mp.mpf(nu)
    z = mp.sqrt(2 * nu) * mp.mpf(distance)
    return 2 ** (1 - nu) / mp.gamma(nu) * z**nu * mp.besselk(nu, z) if z else mp.mpf(1)
