"""Eigenvalues of Matérn kernels under uniform inputs in mpmath: roots of the boundary determinant, slow and obvious.

On an interval of length L an eigenfunction solves λ (c² - D²)^(p+1) f = C f with D^m (D + c)^(p+1) f = 0, m = 0..p,
at the right end and the mirror image at the left one, so it is even or odd about the middle.
"""

from __future__ import annotations

from typing import Any

import mpmath


def spectral_density(p: int, variance: Any, lengthscale: Any, omega: Any) -> Any:
    """S(ω) = C / (c² + ω²)^(p+1) of the Matérn kernel of order p + ½; ∫ S dω/(2π) = variance."""
    c = mpmath.sqrt(2 * p + 1) / lengthscale
    constant = 2 * mpmath.sqrt(mpmath.pi) * mpmath.gamma(p + 1) / mpmath.gamma(p + mpmath.mpf(1) / 2)
    return variance * constant * c ** (2 * p + 1) / (c**2 + mpmath.mpf(omega) ** 2) ** (p + 1)


def kernel(p: int, variance: Any, lengthscale: Any, distance: Any) -> Any:
    """The Matérn kernel of order p + ½ as a polynomial times an exponential."""
    z = mpmath.sqrt(2 * p + 1) * abs(distance) / lengthscale
    terms = [mpmath.factorial(p + i) / (mpmath.factorial(i) * mpmath.factorial(p - i)) * (2 * z) ** (p - i)
             for i in range(p + 1)]  # fmt: skip
    return variance * mpmath.exp(-z) * mpmath.factorial(p) / mpmath.factorial(2 * p) * mpmath.fsum(terms)


def half_eigenvalue(variance: Any, lengthscale: Any, width: Any, k: int) -> Any:
    """The k-th eigenvalue for ν = ½ (L-49b): variance κ/(z² + κ²), z = (k-1)π/2 + θ, tan θ = κ/z, κ = width/(2 ell)."""
    kappa = mpmath.mpf(width) / (2 * mpmath.mpf(lengthscale))
    start = (k - 1) * mpmath.pi / 2
    theta = 2 * kappa / (start + mpmath.sqrt(start**2 + 4 * kappa))
    for _ in range(
        60
    ):  # Newton's method on a concave function, from the right: after one step it increases to the root
        z = start + theta
        step = (theta - mpmath.atan2(kappa, z)) / (1 + kappa / (z**2 + kappa**2))
        theta -= step
        if abs(step) <= mpmath.eps * theta:
            break
    return variance * kappa / ((start + theta) ** 2 + kappa**2)


def boundary_determinant(p: int, gamma: Any, omega: Any, odd: bool) -> Any:
    """Zero exactly where ω is the frequency of an even (odd) eigenfunction on an interval of length 1, γ = c L.

    The p + 1 solutions cosh(μ_j x) (or sinh(μ_j x)/μ_j), μ_j² = γ² - (γ² + ω²) e^(2πij/(p+1)), meet p + 1 conditions
    at x = ½.  Dividing by the Vandermonde determinant of the μ_j² makes the function real.
    """
    roots = [gamma**2 - (gamma**2 + omega**2) * mpmath.expjpi(mpmath.mpf(2 * j) / (p + 1)) for j in range(p + 1)]
    matrix = mpmath.matrix(p + 1, p + 1)
    for j, square in enumerate(roots):
        mu = mpmath.sqrt(square)
        right = (gamma + mu) ** (p + 1) * mpmath.exp(mu / 2)
        left = (gamma - mu) ** (p + 1) * mpmath.exp(-mu / 2)
        for m in range(p + 1):
            matrix[m, j] = (mu**m * right + (-1) ** (m + odd) * mu**m * left) / (mu if odd else 1)
    vandermonde = mpmath.fprod(roots[i] - roots[j] for i in range(p + 1) for j in range(i))
    value = mpmath.det(matrix) / vandermonde
    return mpmath.re(value)


def _root(function: Any, low: Any, high: Any, at_low: Any) -> Any:
    """The sign change between ``low`` and ``high``: bisection first, secants to full precision after."""
    for _ in range(10):
        middle = (low + high) / 2
        value = function(middle)
        low, high = (middle, high) if mpmath.sign(value) == mpmath.sign(at_low) else (low, middle)
    left, right, at_left, at_right = low, high, function(low), function(high)
    for _ in range(14):
        if at_left == at_right or left == right:
            break
        left, right, at_left = right, right - at_right * (right - left) / (at_right - at_left), at_right
        at_right = function(right)
    assert low <= right <= high
    return right


def uniform_eigenvalues(p: int, variance: Any, lengthscale: Any, width: Any, count: int) -> list[Any]:
    """The ``count`` largest eigenvalues for ν = p + ½ on an interval of length ``width``, to the working precision."""
    gamma = mpmath.sqrt(2 * p + 1) * mpmath.mpf(width) / lengthscale
    step = mpmath.mpf(1) / 4
    grid = [step * mpmath.mpf(4) ** -i for i in range(25, 0, -1)]
    grid += [step * (i + 1) for i in range(int((count + p + 1) * mpmath.pi / step))]
    frequencies = []
    for odd in (False, True):

        def function(omega: Any, odd: bool = odd) -> Any:
            return boundary_determinant(p, gamma, omega, odd)

        with mpmath.workprec(mpmath.mp.prec + 20):
            values = [function(omega) for omega in grid]
            for i in range(1, len(grid)):
                if mpmath.sign(values[i - 1]) * mpmath.sign(values[i]) < 0:
                    frequencies.append(_root(function, grid[i - 1], grid[i], values[i - 1]))
    frequencies.sort()
    return [spectral_density(p, variance, lengthscale, omega / width) / width for omega in frequencies[:count]]
