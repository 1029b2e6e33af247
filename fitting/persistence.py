"""Kernels and posteriors as plain values and arrays, to and fro, without rounding."""

from __future__ import annotations

from typing import Any

from fitting.family import Objective
from fitting.inner import Inner
from fitting.posterior import BlockPosterior, InducingPosterior, Posterior
from fitting.whitened import WhitenedPosterior
from gpbounds.arrays import host, namespace, place
from gpbounds.kernels import Kernel, Matern, Product, SquaredExponential, Sum
from gpbounds.kernels.base import Stationary
from gpbounds.linalg import Cholesky
from gpbounds.whitening import Inducing


def kernel_to_plain(kernel: Kernel) -> dict[str, Any]:
    """A kernel as what JSON can hold; Python writes floats so that they are read back as they were.

    >>> kernel_to_plain(SquaredExponential(2.0, [0.1, 0.3]))
    {'type': 'SquaredExponential', 'variance': 2.0, 'lengthscale': [0.1, 0.3]}
    """
    name = type(kernel).__name__
    if type(kernel) in (Sum, Product):
        pair: Any = kernel
        return {"type": name, "k1": kernel_to_plain(pair.k1), "k2": kernel_to_plain(pair.k2)}
    if type(kernel) in (SquaredExponential, Matern):
        one: Any = kernel
        length = one.lengthscale if isinstance(one.lengthscale, float) else [float(v) for v in one.lengthscale]
        plain = {"type": name, "variance": one.variance, "lengthscale": length}
        return plain | ({"nu": one.nu} if isinstance(one, Matern) else {})
    raise ValueError(f"kernel: expected SquaredExponential, Matern, sums or products of them to save, got {name}")


def kernel_from_plain(plain: dict[str, Any]) -> Kernel:
    """The kernel that `kernel_to_plain` described.

    >>> kernel_from_plain(kernel_to_plain(Matern(1.5) + SquaredExponential(2.0))).k2.variance
    2.0
    """
    name = plain["type"]
    if name in ("Sum", "Product"):
        pair: Any = Sum if name == "Sum" else Product
        return pair(kernel_from_plain(plain["k1"]), kernel_from_plain(plain["k2"]))
    values = {key: value for key, value in plain.items() if key != "type"}
    kinds: dict[str, type[Stationary]] = {"SquaredExponential": SquaredExponential, "Matern": Matern}
    if name not in kinds:
        raise ValueError(f"kernel: expected one of {', '.join(kinds)}, Sum, Product, got {name!r}")
    return kinds[name](**values)


def posterior_to_arrays(posterior: Posterior) -> dict[str, Any]:
    """L, G, the factor of I + G and w of a sparse posterior, or L, μ and C of a free one.

    Nothing for the exact one, which is computed again.
    """
    if isinstance(posterior, WhitenedPosterior):
        chol = posterior.inducing.chol
        free = {"L": chol.L, "jitter": chol.jitter, "mean": posterior.mean, "C": posterior.factor}
        return {f"posterior/{name}": host(value) for name, value in free.items()}
    if not isinstance(posterior, InducingPosterior):
        return {}
    side, state = posterior.inducing, posterior.state
    found = {"L": side.chol.L, "jitter": side.chol.jitter, "G": state.G, "A": state.chol.L, "w": state.mean}
    return {f"posterior/{name}": host(value) for name, value in found.items()}


def posterior_from_arrays(
    arrays: dict[str, Any], objective: Objective, kernel: Kernel, noise: float, Z: Any
) -> Posterior:
    """The posterior of ``objective`` at (kernel, noise, Z), from `posterior_to_arrays` where that left something."""
    if "posterior/L" not in arrays:
        return objective.posterior(kernel, noise, Z)
    xp = namespace(objective.X)
    if "posterior/C" in arrays:
        L, mean, C = (place(arrays[f"posterior/{name}"], xp) for name in ("L", "mean", "C"))
        side = Inducing(kernel, Z, Cholesky(L, float(arrays["posterior/jitter"])))
        return WhitenedPosterior(side, noise, mean, C, objective.single)
    L, G, A, w = (place(arrays[f"posterior/{name}"], xp) for name in ("L", "G", "A", "w"))
    side = Inducing(kernel, Z, Cholesky(L, float(arrays["posterior/jitter"])))
    state = Inner(G, Cholesky(A, 0.0), w)
    if objective.member.inside:
        return BlockPosterior(side, noise, state, objective.single, objective.X, objective.Y, objective.parts)
    return InducingPosterior(side, noise, state, objective.single)
