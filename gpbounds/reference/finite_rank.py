"""Mercer spectra of kernels that are polynomials in x, in mpmath: Nyström on a Gauss rule, which is exact for them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import mpmath as mp

from gpbounds.reference.kernels import covariance


def rule(offdiagonal: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(nodes, weights) of the Gauss rule whose Jacobi matrix has a zero diagonal and these roots beside it."""
    n = len(offdiagonal) + 1
    jacobi = mp.matrix(n)
    for i, b in enumerate(offdiagonal):
        jacobi[i, i + 1] = jacobi[i + 1, i] = b
    values, vectors = mp.eigsy(jacobi)
    return [(values[i], vectors[0, i] ** 2) for i in range(n)]


def gaussian_nodes(mean: Sequence[Any], cov: Sequence[Sequence[Any]], degree: int) -> list[tuple[list[Any], Any]]:
    """Points and weights that integrate polynomials up to 2·``degree`` + 1 in each z_d, x = mean + Az, cov = AAᵀ."""
    dim = len(mean)
    A = mp.cholesky(mp.matrix([[mp.mpf(v) for v in row] for row in cov]))
    line = rule([mp.sqrt(i + 1) for i in range(degree)])
    nodes = []
    for each in itertools.product(line, repeat=dim):
        x = [mp.mpf(mean[d]) + mp.fsum(A[d, e] * each[e][0] for e in range(d + 1)) for d in range(dim)]
        nodes.append((x, mp.fprod(w for _, w in each)))
    return nodes


def uniform_nodes(low: Sequence[Any], high: Sequence[Any], degree: int) -> list[tuple[list[Any], Any]]:
    """As `gaussian_nodes`, for the uniform law on a box."""
    line = rule([(i + 1) / mp.sqrt(4 * mp.mpf(i + 1) ** 2 - 1) for i in range(degree)])
    halves = [(mp.mpf(b) - mp.mpf(a)) / 2 for a, b in zip(low, high, strict=True)]
    nodes = []
    for each in itertools.product(line, repeat=len(low)):
        x = [mp.mpf(a) + h * (1 + t) for a, h, (t, _) in zip(low, halves, each, strict=True)]
        nodes.append((x, mp.fprod(w for _, w in each)))
    return nodes


def eigenvalues(record: Mapping[str, Any], nodes: Sequence[tuple[list[Any], Any]]) -> list[Any]:
    """All eigenvalues of the kernel ``record`` under the law of ``nodes``, decreasing.

    For f in the span of k(·, x) the integral ∫ k(·, x) f(x) p(x) dx is that of a polynomial, which the rule integrates
    exactly: the matrix (√w_i k(x_i, x_j) √w_j) has the nonzero eigenvalues of the operator.

    >>> standard = gaussian_nodes([0], [[1]], 2)
    >>> squared = {"type": "Polynomial", "variance": 1.0, "offset": 1.0, "degree": 2}
    >>> [mp.nstr(v, 5) for v in eigenvalues(squared, standard)]  # 2 + √2, 2, 2 − √2
    ['3.4142', '2.0', '0.58579']
    """
    n, roots = len(nodes), [mp.sqrt(w) for _, w in nodes]
    K = mp.matrix(n)
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        K[i, j] = K[j, i] = roots[i] * roots[j] * covariance(record, nodes[i][0], nodes[j][0])
    return sorted(mp.eigsy(K, eigvals_only=True), reverse=True)
