"""How far the computed values of a prior's kernel may be from the exact ones, for points in a box around 0."""

from __future__ import annotations

import math

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kernels import Constant, Kernel, Matern, OnColumns, Periodic, Product, RationalQuadratic, Sum
from gpbounds.kernels.errors import EXP_ULPS, U, entry_errors
from gpbounds.kernels.inner_products import InnerProduct


def value_error(kernel: Kernel, reach: Float) -> float:
    """Bound on the error of k(x, x') on any machine, for |x_d|, |x'_d| ≤ reach_d, in squared units of y.

    Priors are those of the exact x and hyperparameters.  Differences of coordinates are taken before anything is
    rounded, so that the error of a stationary kernel does not depend on ``reach``.

    *Stationary.*  r² is right to ½(D + 7) eps ≤ (D + 3) eps (`entry_errors`) and |dk/d ln r²| ≤ v/e; exp and the Matérn
    recurrence, all of whose terms are positive, have a relative error of at most 8 eps per step.  For the rational
    quadratic of shape a, with t = r²/(2a) and L = a log(1 + t), k = v e^{−L}: |dk/d ln r²| = v a t(1 + t)^{−a−1}, whose
    largest value, at t = 1/a, is v(1 + 1/a)^{−a−1} ≤ v/e; L has a relative error of at most 8 eps beside that of r²,
    and L e^{−L} ≤ 1/e.

    *Periodic.*  k = v exp(−|g|²/2), g_d = (2/ℓ_d) sin(πt_d), t_d = (x_d − x'_d)/p_d, |t_d| ≤ 2 reach_d/p_d.
    Subtracting whole periods is exact, so that g_d is off by at most e_d = (2/ℓ_d) u (2.01π|t_d| + 2·(sine's ulps) +
    5), u = eps/2; the gradient of exp(−|g|²/2) has a norm of at most e^(−1/2), so that this moves k by .61 v|e|; |g|²/2
    is summed to (D + 4)u, and s e^{−s} ≤ 1/e; exp and the last product add (2·(exp's ulps) + 2)u.

    *Linear and polynomial.*  The bounds of `entry_errors` grow with each |x_d| and |x'_d|, and so they are largest at
    x = x' = reach.

    A sum adds the errors and one of its own, and so does a product, each error times the largest value of the other
    factor.  |k(x, x')| is at most the largest k(x, x), as k is positive semi-definite.

    Parameters
    ----------
    kernel : Kernel
        One that `priors.hyperparameters` takes.
    reach : array (D,)
        The largest |x_d| among the inducing points and the rows.

    Raises
    ------
    ValueError
        where the largest value is not a double.

    >>> from gpbounds.kernels import Linear, SquaredExponential
    >>> value_error(SquaredExponential(2.0), np.ones(1)) / 2.0 < 4e-15
    True
    >>> value_error(Linear(2.0), np.array([10.0])) / 200.0 < 1e-15
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        error, largest = _bounds(kernel, reach)
    if not (math.isfinite(error) and math.isfinite(largest)):
        raise ValueError(
            "kernel: expected values that double precision can hold, got an overflow for inputs as large as "
            f"{float(reach.max()):.3g}: scale the inputs, or take a smaller variance or degree"
        )
    return error


def _bounds(kernel: Kernel, reach: Float) -> tuple[float, float]:
    """The bound on the error, and one on |k(x, x')|."""
    if isinstance(kernel, Sum | Product):
        (first, v), (second, w) = _bounds(kernel.k1, reach), _bounds(kernel.k2, reach)
        if isinstance(kernel, Sum):
            return first + second + EPS * (v + w), (v + w) * (1.0 + EPS)
        return (first * w + v * second + first * second + EPS * v * w) * (1.0 + 8.0 * EPS), v * w * (1.0 + EPS)
    if isinstance(kernel, OnColumns):
        return _bounds(kernel.kernel, kernel.chosen(reach[None, :])[0])
    if isinstance(kernel, Constant):
        return 0.0, kernel.max_variance
    if isinstance(kernel, InnerProduct):
        error = float(entry_errors(kernel, reach[None, :])[0, 0])
        return error, float(kernel.diag(reach[None, :])[0]) + error
    v, D = kernel.max_variance, reach.size
    if isinstance(kernel, Periodic):
        weights, periods = kernel.scales(D)
        each = weights * U * (2.01 * math.pi * (2.0 * reach / periods) + 2.0 * EXP_ULPS + 5.0)
        return 1.01 * v * (0.61 * math.hypot(*each) + U * (0.4 * (D + 4.0) + 2.0 * EXP_ULPS + 2.0)), v
    steps = kernel.nu + 0.5 if isinstance(kernel, Matern) else 1.0
    further = 4.0 if isinstance(kernel, RationalQuadratic) else 0.0
    return v * EPS * (0.4 * (D + 3.0) + 8.0 * (steps + 1.0) + further), v
