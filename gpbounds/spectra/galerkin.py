"""Discretisations of a stationary kernel under an input law: each gives decreasing eigenvalues for variance 1."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gpbounds.arrays import Float
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels.stationary import Stationary
from gpbounds.spectra.legendre import gauss, values
from gpbounds.spectra.state_space import factor, squared_singular_values

SPREAD = 80  # degree of a polynomial that equals √density to rounding, for a Gaussian on ± 9 standard deviations
GRADING = 6  # distances t = u^6 make |t|^(2ν) smooth enough at 0 for Gauss's rule, for every ν > 0


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
    distances = u**GRADING
    weight = weight * GRADING * u ** (GRADING - 1)
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
