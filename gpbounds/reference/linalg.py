"""Linear algebra in mpmath: exact inverses and determinants, Lanczos quadrature, probes, and Vecchia factors.

Arb computes inverses and determinants at least as accurately as mpmath does, and faster: its balls contain the exact
result, and the precision grows until they are smaller than mpmath's rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint
from mpmath import cholesky, eigsy, exp, eye, findroot, inf, ldexp, log, matrix, mp, mpf, npdf, quad, sqrt

MOST = 64
"""The largest precision tried, in multiples of mpmath's."""


def inverse(A: Any) -> Any:
    """A⁻¹ of a square matrix; the error is below mpmath's rounding error of its greatest entry.

    Raises
    ------
    ZeroDivisionError
        for a singular matrix.

    >>> print(inverse(matrix([[2, 1], [1, 1]])))
    [ 1.0  -1.0]
    [-1.0   2.0]
    """
    return _enclosed(A, lambda balls: balls.inv())


def det(A: Any) -> Any:
    """|A|; the relative error is below mpmath's rounding error.

    Raises
    ------
    ZeroDivisionError
        for a singular matrix, unless Arb finds exactly 0.

    >>> print(det(matrix([[2, 1], [1, 1]])))
    1.0
    """
    return _enclosed(A, lambda balls: flint.arb_mat([[balls.det()]]))[0, 0]


def _enclosed(A: Any, function: Callable[[Any], Any]) -> Any:
    """The middles of the balls of ``function``, at the first precision where every radius is small."""
    if A.rows != A.cols:
        raise ValueError(f"A: expected a square matrix, got {A.rows} × {A.cols}")
    balls = flint.arb_mat([[flint.arb(mpf(A[i, j])) for j in range(A.cols)] for i in range(A.rows)])
    bits = 2 * mp.prec
    while bits <= MOST * mp.prec:
        with flint.ctx.workprec(bits):
            try:
                found = function(balls)
            except ZeroDivisionError:  # the balls of a pivot contain 0
                found = None
            if found is not None:
                entries = found.entries()
                most = max((entry.abs_upper() for entry in entries), default=flint.arb(0))
                if all(entry.rad() * 2**mp.prec <= most for entry in entries):
                    middles = iter(_middle(entry) for entry in entries)
                    return matrix([[next(middles) for _ in range(found.ncols())] for _ in range(found.nrows())])
        bits *= 2
    raise ZeroDivisionError("A: expected a matrix that is not singular")


def _middle(ball: Any) -> Any:
    """The middle of a ball, rounded to mpmath's precision."""
    mantissa, exponent = ball.mid().man_exp()
    return +ldexp(mpf(int(mantissa)), int(exponent))


def log_det(A: Any) -> Any:
    """log|A| of a matrix with positive determinant."""
    return log(det(A))


def solve(A: Any, B: Any) -> Any:
    """A⁻¹B."""
    return inverse(A) * B


def trace(A: Any) -> Any:
    """Sum of the diagonal."""
    return sum((A[i, i] for i in range(A.rows)), mpf(0))


def is_positive_definite(A: Any) -> bool:
    """Whether a symmetric matrix has a Cholesky factor."""
    try:
        cholesky(A)
    except ValueError:
        return False
    return True


def lanczos(A: Any, start: Any, steps: int) -> Any:
    """The tridiagonal matrix 𝒯 of at most ``steps`` Lanczos steps from ``start``; fewer where a step breaks down.

    Every new direction is orthogonalised twice against all before it.
    """
    basis = [start / mp.norm(start)]
    alphas, betas = [], []
    while True:
        step = A * basis[-1]
        alphas.append((basis[-1].T * step)[0])
        for _ in range(2):
            for q in basis:
                step -= (q.T * step)[0] * q
        if len(alphas) == steps or mp.norm(step) <= mpf(10) ** (8 - mp.dps) * mp.mnorm(A, 1):
            break
        betas.append(mp.norm(step))
        basis.append(step / betas[-1])
    tridiagonal = mp.diag(alphas)
    for i, b in enumerate(betas):
        tridiagonal[i, i + 1] = tridiagonal[i + 1, i] = b
    return tridiagonal


def log_quadrature(A: Any, probe: Any, steps: int) -> Any:
    """‖v‖² e₁' log(𝒯_v) e₁, 𝒯_v from ``steps`` Lanczos steps started at the probe v (R-lanczos).

    Gauss quadrature of v' log(A) v: never below it, the even derivatives of log being negative; equal after N steps.
    """
    return quadrature(quadrature_nodes(A, probe, steps), log)


def log_matrix(A: Any) -> Any:
    """log A of a positive definite matrix."""
    values, vectors = eigsy(A)
    return vectors * mp.diag([log(v) for v in values]) * vectors.T


def probe_variance(A: Any, law: str) -> Any:
    """Var z'Az: 2‖S‖² for z ~ N(0, I), 2(‖S‖² − Σ S_ii²) for signs, S = (A + A')/2 (R-hutch)."""
    S = (A + A.T) / 2
    square = sum(v**2 for v in S)
    return 2 * (square if law == "normal" else square - sum(S[i, i] ** 2 for i in range(S.rows)))


def probe_grid(N: int, law: str) -> list[tuple[Any, Any]]:
    """(weight, probe): all 2^N sign vectors, or 3^N nodes −√3, 0, √3 with weights ⅙, ⅔, ⅙ in place of N(0, I).

    The nodes are exact for polynomials of degree at most 5 in each coordinate.
    """
    side = sqrt(mpf(3))
    nodes = (
        [(mpf(1) / 6, -side), (mpf(2) / 3, mpf(0)), (mpf(1) / 6, side)]
        if law == "normal"
        else [(mpf(1) / 2, mpf(-1)), (mpf(1) / 2, mpf(1))]
    )
    grid: list[tuple[Any, list[Any]]] = [(mpf(1), [])]
    for _ in range(N):
        grid = [(weight * w, [*head, x]) for weight, head in grid for w, x in nodes]
    return [(weight, mp.matrix(entries)) for weight, entries in grid]


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
            regression = pick(K, part, chosen) * inverse(pick(K, chosen, chosen))
            C = C - regression * pick(K, chosen, part)
        half = inverse(mp.cholesky(C))
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


def quadrature_nodes(A: Any, z: Any, steps: int, node: Any = None) -> list[tuple[Any, Any]]:
    """(weight, point) of Gauss quadrature of zᵀf(A)z after ``steps`` Lanczos steps; with ``node``, of Gauss–Radau.

    T_{k+1} is the Lanczos matrix of one more step, with the last diagonal entry that makes ``node`` an eigenvalue.
    After as many steps as A has rows, Gauss quadrature is exact.
    """
    T = lanczos(A, z, steps if node is None else steps + 1)
    if node is not None and T.rows == steps + 1:
        shifted = T[:steps, :steps] - node * eye(steps)
        last = mp.zeros(steps, 1)
        last[steps - 1] = T[steps, steps - 1] ** 2
        T[steps, steps] = node + (inverse(shifted) * last)[steps - 1]
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
