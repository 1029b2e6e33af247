"""What the readers of all libraries share: numbers of parameters, columns, errors, the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float, as_points
from gpbounds.kernels import Constant, Kernel, Linear, OnColumns, Product, Stationary, Sum
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.white import has_one_variance
from gpbounds.likelihoods import Bernoulli, Likelihood, Poisson
from gpbounds.means import LinearMean
from gpbounds.renyi.models import InducingLaw, LatentModel, Model, each_variance
from gpbounds.validation import positive

# Kernels of other libraries as sums of terms: a number times a product of kernels, or noise.

MOST = 64
"""Largest number of terms that a product or a power of sums may become."""


@dataclass(frozen=True)
class Term:
    """scale · kernel; a constant when ``kernel`` is None; noise when ``white``."""

    scale: float
    kernel: Kernel | None = None
    white: bool = False


def added(parts: Sequence[list[Term]]) -> list[Term]:
    """The sum of kernels."""
    return [term for part in parts for term in part]


def multiplied(parts: Sequence[list[Term]]) -> list[Term]:
    """The product of kernels, multiplied out."""
    product = [Term(1.0)]
    for part in parts:
        if len(product) * len(part) > MOST:
            raise ValueError(f"model: expected products of sums with at most {MOST} terms, got more")
        product = [_times(a, b) for a in product for b in part]
    return product


def on_columns(terms: list[Term], columns: Sequence[int] | None) -> list[Term]:
    """The kernels on these columns; None for all."""
    if columns is None:
        return terms
    return [term if term.kernel is None else replace(term, kernel=term.kernel.on(columns)) for term in terms]


def total(terms: list[Term]) -> tuple[Kernel | None, float]:
    """The kernel, None if the terms are noise alone, and the variance of the noise."""
    kernels = [_scaled(term.kernel or Constant(), term.scale) for term in terms if not term.white]
    whole: Kernel | None = None
    for kernel in kernels:
        whole = kernel if whole is None else Sum(whole, kernel)
    return whole, sum(term.scale for term in terms if term.white)


def _times(a: Term, b: Term) -> Term:
    scale = a.scale * b.scale
    if a.white or b.white:  # noise times a kernel of the same variance everywhere is noise
        for term in (a, b):
            if term.kernel is not None and not has_one_variance(term.kernel):
                raise ValueError(
                    f"model: expected white noise times kernels with the same k(x, x) for all x, got {term.kernel!r}"
                )
            scale *= 1.0 if term.kernel is None else term.kernel.max_variance
        return Term(scale, white=True)
    if a.kernel is None or b.kernel is None:
        return Term(scale, a.kernel or b.kernel)
    return Term(scale, Product(a.kernel, b.kernel))


def _scaled(kernel: Kernel, scale: float) -> Kernel:
    """scale · k, with the scale in the variance of a factor where that is linear in k."""
    if scale == 1.0:
        return kernel
    if isinstance(kernel, Product):
        return Product(_scaled(kernel.k1, scale), kernel.k2)
    if isinstance(kernel, OnColumns):
        return OnColumns(_scaled(kernel.kernel, scale), kernel.columns)
    if isinstance(kernel, Periodic):
        return Periodic(kernel.period, scale * kernel.variance, kernel.lengthscale)
    if isinstance(kernel, Stationary | Constant):
        return replace(kernel, variance=scale * kernel.variance)
    if isinstance(kernel, Linear):
        return Linear(scale * np.asarray(kernel.variance))
    return Product(Constant(scale), kernel)


# What the readers of all libraries share: numbers of parameters, columns, errors, the model.


def imported(
    terms: list[Term],
    noise: float | Float,
    Z: Float | None,
    supported: str,
    mean: LinearMean | None = None,
    q: InducingLaw | None = None,
) -> Model:
    """The model of a sum of terms; the variances of its white terms add to ``noise``, one number or one a row."""
    kernel, white = total(terms)
    if kernel is None:
        raise ValueError(f"model: expected {supported}, got noise alone")
    points = None if Z is None else np.asarray(as_points(Z, "Z"))
    total_noise = each_variance(noise + white) if np.ndim(noise) else float(positive("noise", noise + white))
    return Model(kernel, total_noise, points, mean, q)


LINKS: dict[str, dict[str, Likelihood]] = {
    "Bernoulli": {"inv_probit": Bernoulli("probit"), "sigmoid": Bernoulli("logit")},
    "Poisson": {"exp": Poisson("exp"), "softplus": Poisson("softplus")},
}
"""Likelihoods by the names of their class and of their inverse link."""
MIXED = (
    "The library's probit is (1 − 2ε)Φ(f) + ε with ε = 0.001, whose logarithm is not concave; the model that is read "
    "has Φ(f), and the same q."
)
"""The inverse link of GPflow and GPJax."""
_STUDENT = ("StudentT", "StudentTLikelihood")


def labels_or_counts(likelihood: Any, link: str) -> Likelihood | None:
    """The likelihood of labels or counts with this inverse link; None for another likelihood.

    Raises
    ------
    ValueError
        for a Student-t, which is not log-concave, and for another link.
    """
    name = type(likelihood).__name__
    if isinstance(likelihood, Likelihood):
        return likelihood
    if name in _STUDENT:
        raise ValueError(
            f"likelihood: expected a Gaussian, Bernoulli or Poisson one, got {name}: the logarithm of a Student-t "
            "density is not concave in f, on which the bound (N-fisher) rests; what holds is ELBO ≤ log p(y)"
        )
    if name not in LINKS:
        return None
    if link not in LINKS[name]:
        raise ValueError(
            f"likelihood: expected a {name} with the inverse link {' or '.join(LINKS[name])}, got {link or 'none'}: "
            "pass likelihood=, one of gpbounds.likelihoods, if yours is one of them by another name"
        )
    return LINKS[name][link]


def imported_latent(
    terms: list[Term],
    likelihood: Likelihood,
    Z: Float | None,
    supported: str,
    mean: LinearMean | None,
    q: InducingLaw | None,
    notes: tuple[str, ...] = (),
) -> LatentModel:
    """The model of labels or counts of a sum of terms, none of them white."""
    kernel, white = total(terms)
    if kernel is None or white:
        raise ValueError(f"model: expected {supported}, got white noise, which labels and counts do not have")
    if Z is None:
        raise ValueError("model: expected inducing points, got none: the audit is of a law of inducing variables")
    return LatentModel(kernel, likelihood, np.asarray(as_points(Z, "Z")), mean, q, notes)


def inducing_law(mean: Any, root: Float, *, whitened: bool, jitter: float) -> InducingLaw:
    """q(u) = N(mean, root·rootᵀ) from numbers of another library, whose root may be any with M rows."""
    centre = as_numbers(mean)
    M = root.shape[0]
    if root.shape != (M, M) or centre.size != M or centre.ndim > 2:
        raise ValueError(
            f"model: expected one q(u), of one output, got a mean of {centre.shape} and a root of {root.shape}"
        )
    factor = root if not np.triu(root, 1).any() else np.asarray(np.linalg.qr(root.T, mode="r")).T
    signs = np.where(factor.diagonal() < 0.0, -1.0, 1.0)
    if not factor.diagonal().all():
        raise ValueError("model: expected a q(u) with a covariance of full rank, got one that is fixed in a direction")
    return InducingLaw(centre.ravel(), np.tril(factor * signs), whitened, jitter)


def needs(part: Any, expected: str, *names: str) -> None:
    """Refuse an object without these attributes."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise ValueError(f"model: expected a {expected}, got {type(part).__name__} without {', '.join(missing)}")


def unknown_kernel(name: str, supported: str) -> ValueError:
    """The error of a kernel that a reader does not know."""
    return ValueError(f"model: expected a kernel made of {supported}, got {name}")


def as_numbers(value: Any) -> Float:
    """Parameters and tensors as NumPy numbers."""
    for step in ("detach", "cpu", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return np.asarray(value, dtype=np.float64)


def one_number(name: str, value: Any) -> float:
    """The number of a parameter that must have one."""
    numbers = as_numbers(value)
    if numbers.size != 1:
        raise ValueError(f"model: expected one {name}, got shape {numbers.shape}")
    return float(numbers.ravel()[0])


def one_or_each(values: Float) -> float | Float:
    """A float if all dimensions share one number, else the array."""
    return float(values.ravel()[0]) if values.size == 1 else values


def unbatched(name: str, value: Any) -> float | Float:
    """Parameters of shape (D,) or (1, D), as `one_or_each`."""
    numbers = as_numbers(value)
    if numbers.ndim > 2 or (numbers.ndim == 2 and numbers.shape[0] != 1):
        raise ValueError(f"model: expected one set of {name}s, got a batch of shape {numbers.shape}")
    return one_or_each(numbers.ravel())


def linear_slopes(value: Any) -> Float:
    """The slopes of a linear mean, of shape (D, 1) in other libraries."""
    numbers = as_numbers(value)
    if numbers.ndim != 2 or numbers.shape[1] != 1:
        raise ValueError(f"model: expected a linear mean of one output, got coefficients of shape {numbers.shape}")
    return numbers[:, 0]


def columns_of(active: Any) -> list[int] | None:
    """Column numbers of ``active_dims``, a slice or a list; None for all."""
    if active is None or (isinstance(active, slice) and active in (slice(None), slice(None, None, 1))):
        return None
    if isinstance(active, slice):
        start, step = active.start or 0, active.step or 1
        if active.stop is None or min(start, active.stop, step) < 0:
            raise ValueError(f"model: expected active_dims with column numbers >= 0 and an end, got {active!r}")
        return list(range(start, active.stop, step))
    columns = [int(column) for column in as_numbers(active).ravel()]
    if min(columns, default=0) < 0:
        raise ValueError(f"model: expected active_dims with column numbers >= 0, got {columns}")
    return columns
