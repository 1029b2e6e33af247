"""Which spectra there are in balls, for a kernel and a law of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.enclosures.dominated import Dominated
from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.enclosures.finite_rank import FiniteRank
from gpbounds.enclosures.joined import Products, Sums
from gpbounds.enclosures.matern_half import MaternHalf
from gpbounds.enclosures.spectra import Laws, Rotated
from gpbounds.inputs import Gaussian, InputLaw, Uniform
from gpbounds.kernels import Constant, Kernel, Matern, OnColumns, Product, SquaredExponential, Sum
from gpbounds.spectra import independent_factors, summands
from gpbounds.spectra.monomials import expansion

KNOWN = (
    "squared exponential kernels under Gaussian inputs, also correlated ones, and on boxes; Matérn-½ kernels on "
    "intervals; constant, linear and polynomial kernels; products on different, independent columns and sums of these"
)


def laws(kernel: Kernel, inputs: InputLaw) -> Eigenvalues:
    """The eigenvalues of a kernel under a law of inputs, in balls.

    Raises
    ------
    ValueError
        for a pair whose eigenvalues are not known in closed form.

    >>> laws(SquaredExponential(2.0, 0.5), Gaussian(dim=2))
    Laws(variance=2.0, lengthscales=(0.5, 0.5), stds=(1.0, 1.0))
    """
    if isinstance(inputs, Gaussian | Uniform) and (known := _known(kernel, inputs)) is not None:
        return known
    raise ValueError(
        f"rigor: expected 'float' for this pair of kernel and inputs; 'sharp' encloses {KNOWN}; got "
        f"{type(kernel).__name__} and {inputs!r}"
    )


def _known(kernel: Kernel, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    if kernel.formula_class is OnColumns:
        return _on_columns(kernel, inputs)
    if (weights := expansion(kernel, tuple(range(inputs.dim)))) is not None:
        bounded = kernel.max_variance if kernel.formula_class is Constant else None
        singular = isinstance(inputs, Gaussian) and inputs.slack > 0.0
        return None if singular else FiniteRank(weights, inputs, bounded)
    closed = CLOSED.get(kernel.formula_class)
    return None if closed is None else closed(kernel, inputs)


def _on_columns(kernel: Any, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    return _known(kernel.kernel, inputs.marginal(kernel.columns))


def _sum(kernel: Sum, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    parts = [_known(part, inputs) for part in summands(kernel)]
    return None if None in parts else Sums([part for part in parts if part is not None], inputs.dim)


def _matern(kernel: Matern, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    if kernel.nu != 0.5 or not isinstance(inputs, Uniform) or inputs.dim != 1:
        return None
    (ell,), (low,), (high,) = (_floats(x, 1) for x in (kernel.lengthscales(1), inputs.low, inputs.high))
    return MaternHalf(kernel.variance, ell, low, high)


def _squared_exponential(kernel: SquaredExponential, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    lengthscales = tuple(kernel.lengthscales(inputs.dim).tolist())
    if isinstance(inputs, Uniform):
        return Dominated(
            kernel.variance, lengthscales, _floats(inputs.low, inputs.dim), _floats(inputs.high, inputs.dim)
        )
    if not inputs.correlated:
        return Laws(kernel.variance, lengthscales, tuple(inputs.stds.tolist()))
    if inputs.slack > 0.0:
        return None
    cov = np.asarray(inputs.cov)
    values = np.linalg.eigvalsh(cov / np.outer(lengthscales, lengthscales))[::-1]
    near = tuple(np.sqrt(np.maximum(values, 1e-300)).tolist())
    return Rotated(kernel.variance, (1.0,) * inputs.dim, near, lengthscales, tuple(map(tuple, cov.tolist())))


def _product(kernel: Product, inputs: Gaussian | Uniform) -> Eigenvalues | None:
    parts = independent_factors(kernel, inputs, split=False)
    if parts is None:
        return None
    scale, factors = parts
    if all(factor.formula_class is SquaredExponential for _, factor in factors) and isinstance(inputs, Uniform):
        return None
    known = [_known(factor, inputs.marginal(columns)) for columns, factor in factors]
    if any(part is None or part.note for part in known):  # upper bounds of eigenvalues leave no trace to subtract from
        return None
    return Products([part for part in known if part is not None], scale, inputs.dim)


def _floats(values: Any, dim: int) -> tuple[float, ...]:
    return tuple(np.broadcast_to(np.asarray(values, dtype=np.float64), (dim,)).tolist())


CLOSED: dict[type, Callable[[Any, Gaussian | Uniform], Eigenvalues | None]] = {
    Sum: _sum,
    Product: _product,
    SquaredExponential: _squared_exponential,
    Matern: _matern,
}
"""The eigenvalues in closed form for each formula."""
