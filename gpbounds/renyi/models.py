"""Kernel, mean, noise or likelihood, Z and q(u) of a trained model, for bounds and audits; as a JSON file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_points, exactly
from gpbounds.divergences import SparsePosterior, whitened_posterior
from gpbounds.divergences.sparse import triangular
from gpbounds.files import replacing
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import KERNEL
from gpbounds.likelihoods import LIKELIHOODS, Likelihood
from gpbounds.means import LinearMean
from gpbounds.records import (
    NUMBER,
    TEXTS,
    TRIANGLE,
    TRUTH,
    VECTOR,
    Record,
    Slot,
    Slots,
    listed,
    or_none,
    read_json,
    to_json,
)
from gpbounds.validation import finite, noise_variance, non_negative, positive, scalar
from gpbounds.whitening import inducing


def _points(Z: Any, where: str) -> Any:
    return np.asarray(as_points(Z, where), dtype=np.float64)


def _noise(noise: Any, where: str) -> float | Float:
    if isinstance(noise, list):
        return each_variance(VECTOR.read(noise, where))
    if isinstance(noise, bool) or not isinstance(noise, int | float):
        raise ValueError(f"noise: expected a number, got {noise!r}")
    return noise_variance(float(noise))


def each_variance(noise: Any) -> Float:
    """The noise variances of the rows that a model was trained on, (N,)."""
    variances = positive("noise", noise)
    if variances.ndim != 1 or not variances.size:
        raise ValueError(f"noise: expected one number, or one for each row, shape (N,), got {variances.shape}")
    return variances


KIND, VERSION = "imported model", 1
"""The kind, of a model with Gaussian noise, and the version of a stored file."""
LATENT = "imported model of labels or counts"
"""The kind of a stored model of labels or counts."""


@dataclass(frozen=True, eq=False)
class InducingLaw(Record):
    """q(u) of a sparse variational model, u = f(Z) − m(Z) for the mean function m.

    Attributes
    ----------
    mean : array (M,)
    factor : array (M, M)
        Lower triangular with a positive diagonal; factor·factorᵀ is the covariance.
    whitened : bool
        Whether ``mean`` and ``factor`` are those of v, with u = Lv and LLᵀ = Kuu + jitter·I; else those of u.
    jitter : float
        What the library adds to the diagonal of Kuu, part of its model: u = f(Z) − m(Z) + noise of this variance.

    Raises
    ------
    ValueError, NonFinite
        for shapes that do not match, a factor that is no Cholesky factor, or a negative jitter.

    >>> from gpbounds.kernels import SquaredExponential
    >>> q = InducingLaw([1.0, 0.0], [[0.5, 0.0], [0.1, 0.4]], whitened=False, jitter=0.0)
    >>> q.posterior(SquaredExponential(), [[0.0], [3.0]]).predict([[0.0]]).mean.round(6)
    array([1.])
    """

    mean: Float
    factor: Float
    whitened: bool
    jitter: float
    stored: ClassVar[Slots] = {"mean": VECTOR, "factor": TRIANGLE, "whitened": TRUTH, "jitter": NUMBER}

    def __post_init__(self) -> None:
        factor, mean = triangular("q.factor", self.factor), finite("q.mean", self.mean)
        if mean.shape != factor.shape[:1]:
            raise ValueError(f"q.mean: expected shape ({len(factor)},), as factor has, got {mean.shape}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "factor", np.asarray(factor))
        object.__setattr__(self, "jitter", scalar(non_negative, "q.jitter", self.jitter))

    def posterior(self, kernel: Kernel, Z: ArrayLike) -> SparsePosterior:
        """The posterior process of f − m with this law of u: f given u as under the prior.

        Raises
        ------
        NotPositiveDefinite
            when Kuu + jitter·I does not factorise.
        """
        mean, factor = self.mean, self.factor
        if not self.whitened:
            L = inducing(kernel, Z, self.jitter).chol
            mean, factor = L.solve_lower(mean[:, None])[:, 0], np.tril(L.solve_lower(factor))
        return whitened_posterior(kernel, Z, mean, factor, jitter=self.jitter)


class ModelFile(Record):
    """A record of a model that is stored in a JSON file; ``kind`` names its class there."""

    kind: ClassVar[str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, with all digits; `gpbounds audit --model` reads it.

        Raises
        ------
        ValueError
            for a kernel that is not one of gpbounds.
        """
        text = to_json({"kind": self.kind, "version": VERSION, **self.to_dict()}, indent=1)
        with replacing(path) as file:
            file.write(text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model in a file that `save` wrote.

        Raises
        ------
        ValueError
            for a file of another kind, or with values that are no model.
        OSError
            if the file cannot be read.
        """
        writer = f"a model that gpbounds.renyi.{cls.__name__}.save wrote"
        wrong = f"{os.fspath(path)}: expected {writer}"
        record = read_json(path, writer)
        kind = _kind_of(record)
        if kind != cls.kind and kind in (KIND, LATENT):
            got = "a model of labels or counts" if kind == LATENT else "a model with Gaussian noise"
            raise ValueError(f"{wrong}, got {got}: gpbounds.renyi.imported_model reads both")
        if kind != cls.kind:
            raise ValueError(f"{wrong}, got another JSON file, or one of another version")
        try:
            own = {name: value for name, value in record.items() if name not in ("kind", "version")}
            if unknown := set(own) - set(cls.stored):
                raise ValueError(f"unknown field(s) {listed(sorted(unknown))}")
            return cls.from_dict(own)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"{wrong}, got values that are no model: {' '.join(str(error).split())[:300]}") from None


@dataclass(frozen=True)
class Model(ModelFile):
    """Kernel, mean, noise, inducing points and q(u) of a trained model.

    Attributes
    ----------
    kernel : Kernel
    noise : float or array (N,)
        σ², a variance; an array: the noise variance of each row that the model was trained on, in their order.
    Z : array (M, D) or None
        Inducing inputs; None for a model without inducing points: choose Z yourself.
    mean : LinearMean or None
        The mean function; None for 0.  Bounds assume a mean of 0: pass them `residuals` as y.
    q : InducingLaw or None
        The law of the inducing variables that the model was trained to; None for the best one, given its rows, with
        these kernel, noise and Z.
    """

    kernel: Kernel
    noise: Any
    Z: Float | None
    mean: LinearMean | None = None
    q: InducingLaw | None = None
    kind: ClassVar[str] = KIND
    stored: ClassVar[Slots] = {
        "kernel": KERNEL,
        "noise": Slot(_noise),
        "Z": or_none(_points),
        "mean": or_none(LinearMean.from_dict),
        "q": Slot(InducingLaw.from_dict, optional=True),
    }

    def __post_init__(self) -> None:
        if self.q is not None and (self.Z is None or len(self.Z) != len(self.q.mean)):
            got = "none" if self.Z is None else str(len(self.Z))
            raise ValueError(f"q: expected a law of as many variables as Z has rows, {got}, got {len(self.q.mean)}")

    def residuals(self, X: ArrayLike, y: ArrayLike) -> Float:
        """y − mean(x) for the rows of X (N, D) and y (N,) or (N, P), in host memory.

        The evidence of y under the model is that of these residuals under a zero mean.

        >>> from gpbounds.kernels import Matern
        >>> Model(Matern(0.5), 0.1, None, LinearMean(2.0)).residuals([0.0, 1.0], [2.0, 5.0])
        array([0., 3.])
        """
        targets = np.asarray(exactly("y", y), dtype=np.float64)
        if self.mean is None:
            return targets
        mean = self.mean(as_host_points(X, "X"))
        return targets - (mean if targets.ndim == 1 else mean[:, None])


@dataclass(frozen=True)
class LatentModel(ModelFile):
    """Kernel, likelihood, inducing points and q(u) of a trained model of labels or counts.

    Attributes
    ----------
    kernel : Kernel
    likelihood : Likelihood
    Z : array (M, D)
        Inducing inputs.
    mean : LinearMean or None
        The mean function of f; None for 0.
    q : InducingLaw or None
        The law of the inducing variables that the model was trained to; None for the best one, given its rows.
    notes : tuple of str
        Where this model differs from that of its library.

    Raises
    ------
    ValueError
        for a q of another number of variables than Z has rows.
    """

    kernel: Kernel
    likelihood: Likelihood
    Z: Float
    mean: LinearMean | None = None
    q: InducingLaw | None = None
    notes: tuple[str, ...] = ()
    kind: ClassVar[str] = LATENT
    stored: ClassVar[Slots] = {
        "kernel": KERNEL,
        "likelihood": Slot(LIKELIHOODS.read, LIKELIHOODS.write),
        "Z": Slot(_points),
        "mean": or_none(LinearMean.from_dict),
        "q": Slot(InducingLaw.from_dict, optional=True),
        "notes": TEXTS,
    }

    def __post_init__(self) -> None:
        if self.q is not None and len(self.Z) != len(self.q.mean):
            raise ValueError(
                f"q: expected a law of as many variables as Z has rows, {len(self.Z)}, got {len(self.q.mean)}"
            )


def imported_model(path: str | os.PathLike[str]) -> Model | LatentModel:
    """The model in a file that `Model.save` or `LatentModel.save` wrote.

    Raises
    ------
    ValueError, OSError
        as `Model.load`.
    """
    latent = _kind_of(read_json(path, "a model that gpbounds.renyi.Model.save wrote")) == LatentModel.kind
    return LatentModel.load(path) if latent else Model.load(path)


def _kind_of(record: Any) -> str | None:
    """The kind of a stored model of this version."""
    if not isinstance(record, dict) or isinstance(record.get("version"), bool) or record.get("version") != VERSION:
        return None
    kind = record.get("kind")
    return kind if isinstance(kind, str) else None
