"""Records that define Q: the exact posterior, a sparse one for a power of K − Q, a free one, plain or whitened, or one
stated relative to a prior that other rows have given.

The numbers in these records cost no penalty (P-49): Q may be any posterior.  Each record alone determines its Q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_points
from gpbounds.records import MATRIX, NUMBER, SYMMETRIC, TRIANGLE, VECTOR, Format, Record, Slots, Variants
from gpbounds.validation import finite, non_negative, positive, scalar


class Posterior(Record, ABC):
    """A Gaussian process Q(f), absolutely continuous with respect to the prior."""

    kind: ClassVar[str]

    @abstractmethod
    def describe(self) -> str:
        """One phrase."""

    def to_dict(self) -> dict[str, Any]:
        """Form and numbers, ready for JSON; `POSTERIORS` reads them back."""
        return {"form": self.kind, **super().to_dict()}

    def with_jitter(self, jitter: float) -> Posterior:
        """This posterior with ``jitter`` in place of "auto"; itself if its jitter is a number, or if it has none."""
        return self


@dataclass(frozen=True)
class Exact(Posterior):
    """The exact GP posterior given the data, with noise variance ``noise``  (P-20, P-22).

    >>> Exact(0.1).to_dict()
    {'form': 'exact', 'noise': 0.1}
    """

    noise: float
    kind: ClassVar[str] = "exact"
    stored: ClassVar[Slots] = {"noise": NUMBER}

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", scalar(positive, "noise", self.noise))

    def describe(self) -> str:
        return f"the exact GP posterior, noise variance {self.noise:.6g}"


def _recorded(jitter: float | str) -> float:
    if isinstance(jitter, str):
        raise ValueError(
            "jitter: expected a number in a record, got 'auto', which becomes one when a certificate is issued: "
            "read certificate.posterior, or give a number"
        )
    return jitter


JITTER = NUMBER._replace(write=_recorded)


class Inducing(Posterior):
    """The common part of posteriors with inducing inputs: a jitter on the diagonal of Kuu, both in Q and in the
    prior."""

    jitter: float | Literal["auto"]

    def with_jitter(self, jitter: float) -> Posterior:
        return replace(self, jitter=jitter) if self.jitter == "auto" else self  # type: ignore[type-var]

    def _jitter_text(self) -> str:
        return f"jitter {self.jitter if isinstance(self.jitter, str) else format(self.jitter, 'g')}"


@dataclass(frozen=True, eq=False)
class Sparse(Inducing):
    """The sparse posterior at inducing inputs Z with q(u) for the power of K − Q: 0 is VFE (and DTC), 1 FITC  (P-27).

    Parameters
    ----------
    Z : array (M, D)
        In the units of the scaled inputs.
    noise : float
        σ² > 0.
    power : float >= 0
        The noise variance in q(u) is σ² + power·(k(x, x) − q(x, x)).
    jitter : float >= 0, or "auto"
        Added to the diagonal of Kuu, both in Q and in the prior of the inducing variables.  "auto": the least of
        0, 1e-12 … 1e-6 (times the largest diagonal entry) with which Kuu factorises; the certificate records it.
    """

    Z: Any
    noise: float
    power: float = 0.0
    jitter: float | Literal["auto"] = "auto"
    kind: ClassVar[str] = "sparse"
    stored: ClassVar[Slots] = {"noise": NUMBER, "alpha": NUMBER.of("power"), "jitter": JITTER, "Z": MATRIX}

    def __post_init__(self) -> None:
        object.__setattr__(self, "Z", _frozen(_points(self.Z)))
        object.__setattr__(self, "noise", scalar(positive, "noise", self.noise))
        object.__setattr__(self, "power", scalar(non_negative, "power", self.power))
        object.__setattr__(self, "jitter", _jitter(self.jitter))

    def describe(self) -> str:
        return (
            f"a sparse posterior with M = {self.Z.shape[0]} inducing inputs, power {self.power:g}, "
            f"noise variance {self.noise:.6g}, {self._jitter_text()}"
        )


@dataclass(frozen=True, eq=False)
class Free(Inducing):
    """The sparse posterior with Q(u) = N(a_M, B) at inducing inputs Z, a_M and B free  (P-25, P-26).

    Parameters
    ----------
    Z : array (M, D)
    mean : array (M,)
        a_M.
    cov : array (M, M)
        B, symmetric positive definite.
    jitter : as in `Sparse`
    """

    Z: Any
    mean: Any
    cov: Any
    jitter: float | Literal["auto"] = "auto"
    kind: ClassVar[str] = "free"
    stored: ClassVar[Slots] = {"jitter": JITTER, "Z": MATRIX, "mean": VECTOR, "cov": SYMMETRIC}

    def __post_init__(self) -> None:
        points = _points(self.Z)
        M = points.shape[0]
        mean, cov = finite("mean", self.mean), finite("cov", self.cov)
        if mean.shape != (M,) or cov.shape != (M, M):
            raise ValueError(f"mean, cov: expected shapes ({M},) and ({M}, {M}), got {mean.shape} and {cov.shape}")
        if not np.array_equal(cov, cov.T):
            raise ValueError("cov: expected a matrix that equals its transpose to the last bit, as (B + Bᵀ)/2 does")
        for name, value in (("Z", points), ("mean", mean), ("cov", cov)):
            object.__setattr__(self, name, _frozen(value))
        object.__setattr__(self, "jitter", _jitter(self.jitter))

    def describe(self) -> str:
        return f"a sparse posterior with M = {self.Z.shape[0]} inducing inputs and free N(a, B), {self._jitter_text()}"


@dataclass(frozen=True, eq=False)
class Whitened(Inducing):
    """The sparse posterior with u = Lv, v ~ N(μ, CCᵀ), L Lᵀ = Kuu + jitter·I: the KL needs no inverse of Kuu  (P-26).

    Parameters
    ----------
    Z : array (M, D)
    mean : array (M,)
        μ.
    factor : array (M, M)
        C, lower triangular with a positive diagonal.
    jitter : as in `Sparse`
    """

    Z: Any
    mean: Any
    factor: Any
    jitter: float | Literal["auto"] = "auto"
    kind: ClassVar[str] = "whitened"
    stored: ClassVar[Slots] = {"jitter": JITTER, "Z": MATRIX, "mean": VECTOR, "factor": TRIANGLE}

    def __post_init__(self) -> None:
        points = _points(self.Z)
        object.__setattr__(self, "Z", _frozen(points))
        _set_law(self, ("mean", "factor"), points.shape[0])
        object.__setattr__(self, "jitter", _jitter(self.jitter))

    def describe(self) -> str:
        return (
            f"a sparse posterior with M = {self.Z.shape[0]} inducing inputs, free and whitened, {self._jitter_text()}"
        )


@dataclass(frozen=True, eq=False)
class Updated(Inducing):
    """A posterior stated relative to a prior law of u = Lv, L Lᵀ = Kuu + jitter·I, that other rows have given.

    P: v ~ N(μ₁, C₁C₁ᵀ);  Q: v = μ₁ + C₁z, z ~ N(μ, CCᵀ);  f given u as under the Gaussian process, in both.  So
    KL(Q‖P) = KL[N(μ, CCᵀ)‖N(0, I)], and μ = 0, C = I is Q = P  (N-data-prior).

    Parameters
    ----------
    Z : array (M, D)
    prior_mean, prior_factor : arrays (M,), (M, M)
        μ₁ and C₁, lower triangular with a positive diagonal.
    mean, factor : arrays (M,), (M, M)
        μ and C, likewise.
    jitter : as in `Sparse`
    """

    Z: Any
    prior_mean: Any
    prior_factor: Any
    mean: Any
    factor: Any
    jitter: float | Literal["auto"] = "auto"
    kind: ClassVar[str] = "updated"
    stored: ClassVar[Slots] = {
        "jitter": JITTER,
        "Z": MATRIX,
        "prior_mean": VECTOR,
        "prior_factor": TRIANGLE,
        "mean": VECTOR,
        "factor": TRIANGLE,
    }

    def __post_init__(self) -> None:
        points = _points(self.Z)
        object.__setattr__(self, "Z", _frozen(points))
        for names in (("prior_mean", "prior_factor"), ("mean", "factor")):
            _set_law(self, names, points.shape[0])
        object.__setattr__(self, "jitter", _jitter(self.jitter))

    def describe(self) -> str:
        return (
            f"a prior law of M = {self.Z.shape[0]} inducing variables that other rows have given, updated by these, "
            f"{self._jitter_text()}"
        )


def _set_law(posterior: Posterior, names: tuple[str, str], M: int) -> None:
    """Check and freeze the attributes that hold a mean (M,) and a factor (M, M), lower triangular."""
    mean, factor = (finite(name, getattr(posterior, name)) for name in names)
    if mean.shape != (M,) or factor.shape != (M, M):
        raise ValueError(f"{', '.join(names)}: expected shapes ({M},) and ({M}, {M}), got {mean.shape}, {factor.shape}")
    if np.triu(factor, 1).any() or not (np.diagonal(factor) > 0.0).all():
        raise ValueError(f"{names[1]}: expected a lower triangular matrix with a positive diagonal")
    for name, value in zip(names, (mean, factor), strict=True):
        object.__setattr__(posterior, name, _frozen(value))


POSTERIORS: Variants[Posterior] = Variants(
    "form",
    {kind.kind: Format(kind, kind.stored) for kind in (Exact, Sparse, Free, Whitened, Updated)},
    choices="form: expected 'exact', 'sparse', 'free', 'whitened' or 'updated'",
)
"""A record's "form" is the kind, "alpha" the power; B and C are written as the rows of their lower triangles."""


def _jitter(value: Any) -> float | Literal["auto"]:
    """A number >= 0, or "auto"."""
    return "auto" if isinstance(value, str) and value == "auto" else scalar(non_negative, "jitter", value)


def _points(Z: ArrayLike) -> Float:
    points = as_points(Z, "Z")
    if points.dtype != np.float64:
        raise ValueError(f"Z: expected float64, got {points.dtype}")
    return points


def _frozen(values: Float) -> Float:
    kept = np.array(values)
    kept.setflags(write=False)
    return kept
