"""The block Vecchia factor, quadratures with a prescribed node, and tails of quadratic forms, in mpmath (ledger N)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import eigsy, exp, eye, findroot, inf, log, mp, mpf, npdf, pi, quad, sqrt

from gpbounds.reference import matrices
from gpbounds.reference.computation import lanczos


def psi(x: Any) -> Any:
    """ψ(x) = x − 1 − log x."""
    return x - 1 - log(x)


def pick(A: Any, rows: Sequence[int], columns: Sequence[int]) -> Any:
    """The entries of A in some rows and columns."""
    return mp.matrix([[A[i, j] for j in columns] for i in rows]) if rows and columns else mp.matrix(len(rows), 0)


def vecchia(K: Any, parts: Sequence[Sequence[int]], sets: Sequence[Sequence[int]]) -> Any:
    """U with row blocks C^{-1/2}(y_B − K_BS K_SS⁻¹y_S), C the conditional covariance of y_B given y_S (N-vecchia).

    C^{-1/2} is the inverse of the Cholesky factor of C.
    """
    U = mp.zeros(K.rows)
    for part, chosen in zip(parts, sets, strict=True):
        C, regression = pick(K, part, part), None
        if chosen:
            regression = pick(K, part, chosen) * matrices.inverse(pick(K, chosen, chosen))
            C = C - regression * pick(K, chosen, part)
        half = matrices.inverse(mp.cholesky(C))
        for row, i in enumerate(part):
            for column, j in enumerate(part):
                U[i, j] = half[row, column]
            if regression is not None:
                weights = half[row, :] * regression
                for column, j in enumerate(chosen):
                    U[i, j] = -weights[column]
    return U


def log_det_by_probes(K: Any, parts: Sequence[Sequence[int]], sets: Sequence[Sequence[int]], Z: Any) -> Any:
    """log|P| + mean_i z_iᵀf(B)z_i, f(x) = log x − (x − 1), for the columns z_i of Z and B = UKUᵀ (N-slqgrad)."""
    U = vecchia(K, parts, sets)
    values, vectors = eigsy(U * K * U.T)
    rotated = vectors.T * Z
    total = -sum(psi(values[i]) * rotated[i, j] ** 2 for i in range(K.rows) for j in range(Z.cols))
    return -2 * sum(log(U[i, i]) for i in range(K.rows)) + total / Z.cols


def nodes(A: Any, z: Any, steps: int, node: Any = None) -> list[tuple[Any, Any]]:
    """(weight, point) of Gauss quadrature of zᵀf(A)z after ``steps`` Lanczos steps; with ``node``, of Gauss–Radau.

    T_{k+1} is the Lanczos matrix of one more step, with the last diagonal entry that makes ``node`` an eigenvalue.
    After as many steps as A has rows, Gauss quadrature is exact.
    """
    T = lanczos(A, z, steps if node is None else steps + 1)
    if node is not None and T.rows == steps + 1:
        shifted = T[:steps, :steps] - node * eye(steps)
        last = mp.zeros(steps, 1)
        last[steps - 1] = T[steps, steps - 1] ** 2
        T[steps, steps] = node + (matrices.inverse(shifted) * last)[steps - 1]
    values, vectors = eigsy(T)
    square = (z.T * z)[0]
    return [(square * vectors[0, i] ** 2, values[i]) for i in range(T.rows)]


def quadrature(found: list[tuple[Any, Any]], f: Callable[[Any], Any]) -> Any:
    """Σ weight · f(point)."""
    return sum(weight * f(point) for weight, point in found)


def third_moment() -> Any:
    """E|g² − 1|³, g ~ N(0, 1)."""
    return 2 * (
        quad(lambda g: (1 - g * g) ** 3 * npdf(g), [0, 1]) + quad(lambda g: (g * g - 1) ** 3 * npdf(g), [1, 4, 12, inf])
    )


def chernoff(error: Any, norm: Any, above: Any, probes: int) -> Any:
    """inf over s of exp(m((F/a)²g(sa) − s·error)), g(t) = −½log(1 − 2t) − t, at its stationary s (N-slqtail)."""
    shape = (mpf(norm) / above) ** 2

    def slope(t: Any) -> Any:
        return shape * (1 / (1 - 2 * t) - 1) - mpf(error) / above

    t = findroot(slope, (mpf("1e-30"), mpf(1) / 2 - mpf("1e-30")), solver="anderson", tol=mpf("1e-40"))
    return exp(probes * (shape * (-log(1 - 2 * t) / 2 - t) - t * error / above))


def berry_esseen(error: Any, norm: Any, size: Any, probes: int) -> Any:
    """Φ(−ε√m/(√2·F)) + 0.56·E|g² − 1|³·Λ/(2^{3/2}·F·√m) (N-slqtail)."""
    tail = mp.ncdf(-mpf(error) * sqrt(mpf(probes) / 2) / norm)
    return tail + mpf("0.56") * third_moment() * size / (2 * sqrt(mpf(2)) * norm * sqrt(mpf(probes)))


def log_evidence(K: Any, y: Any, noise: Any) -> Any:
    """log N(y; 0, K + σ²I)."""
    exact = K + noise * eye(K.rows)
    L = mp.cholesky(exact)
    fit = (y.T * matrices.inverse(exact) * y)[0]
    return -(K.rows * log(2 * pi) + 2 * sum(log(L[i, i]) for i in range(K.rows)) + fit) / 2
