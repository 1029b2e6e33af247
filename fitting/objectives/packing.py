"""A point, block by block, as one vector with bounds, for an optimiser.

The vector holds the logarithms of positive numbers: hyperparameters of the kernel, parameters of the likelihood, the
diagonal of the factor of q.  It holds inducing inputs divided by a scale of each dimension.  The order is fixed:
kernel, likelihood, coefficients of the prior mean, weights of a feature map, inducing inputs row by row, power of
K − Q, mean of q, lower triangle of its factor row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fitting.features.base import FeatureKernel
from fitting.objectives.point import Gradient, Minimised, Parameters
from fitting.objectives.triangle import joined, read_triangle, triangle_of
from fitting.prior_means import PriorMean
from gpbounds.arrays import Array, Float, as_points, broadcastable, host, namespace, place
from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.validation import finite, flag, positive, positive_each

LIMITS = (1e-6, 1e6)
"""Default limits of every hyperparameter, in its own units."""

SPREADS = (1e-9, 1e3)
"""Limits of the diagonal of the factor of q, in units of the prior standard deviation of v."""

OFFSET, MOST_POWER = 1e-3, 1e3
"""The entry of a power a of K − Q is log(a + `OFFSET`), and a is at most `MOST_POWER`."""

Limits = tuple[float, float]


class Block(ABC):
    """One part of a point as entries of a vector.

    Attributes
    ----------
    names : tuple of str
        The name of each entry.
    bounds : list of (low, high)
        The bounds of each entry, as SciPy's L-BFGS-B takes them.
    """

    names: tuple[str, ...]
    bounds: list[Limits]

    @abstractmethod
    def pack(self, point: Parameters) -> Float:
        """The entries of ``point``, in host memory."""

    @abstractmethod
    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        """``point`` with these entries, on the device of ``point``; large arrays may take the memory of ``space``."""

    @abstractmethod
    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        """The derivatives in the entries, from the gradient at ``point``."""


@dataclass(frozen=True, eq=False)
class _LogBlock(Block):
    """The logarithms of the free parameters of the kernel or of the likelihood.

    Attributes
    ----------
    owner : "kernel" or "likelihood"
    free : array of int
        Positions of the free parameters among its `log_parameters`.
    names, bounds
    """

    owner: Literal["kernel", "likelihood"]
    free: Any
    names: tuple[str, ...]
    bounds: list[Limits]

    def pack(self, point: Parameters) -> Float:
        return getattr(point, self.owner).log_parameters[self.free]

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        if not self.free.size:
            return point
        held = getattr(point, self.owner)
        logs = held.log_parameters
        logs[self.free] = entries
        changed: dict[str, Any] = {self.owner: held.with_log_parameters(logs)}
        return replace(point, **changed)

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        return getattr(gradient, self.owner)[self.free]


@dataclass(frozen=True, eq=False)
class _TiedBlock(Block):
    """One entry for parameters of the kernel that keep their ratios: the mean of their logarithms.

    Attributes
    ----------
    places : array of int
        Their positions among the kernel's `log_parameters`.
    apart : array
        Their logarithms minus the mean of these.
    names, bounds
    """

    places: Any
    apart: Float
    names: tuple[str, ...]
    bounds: list[Limits]

    def pack(self, point: Parameters) -> Float:
        return np.array([point.kernel.log_parameters[self.places].mean()])

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        logs = point.kernel.log_parameters
        logs[self.places] = entries + self.apart
        return replace(point, kernel=point.kernel.with_log_parameters(logs))

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        return np.array([gradient.kernel[self.places].sum()])


@dataclass(frozen=True, eq=False)
class _InputsBlock(Block):
    """Inducing inputs, divided by ``scale`` (D,); of ``shape`` (M, D)."""

    shape: tuple[int, int]
    scale: Float

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        M, D = self.shape
        return tuple(f"Z[{i},{d}]" for i in range(M) for d in range(D))

    @cached_property
    def bounds(self) -> list[Limits]:  # type: ignore[override]
        return [(-np.inf, np.inf)] * (self.shape[0] * self.shape[1])

    def pack(self, point: Parameters) -> Float:
        if point.Z is None or tuple(point.Z.shape) != self.shape:
            came = None if point.Z is None else tuple(point.Z.shape)
            raise ValueError(f"Z: expected shape {self.shape}, got {came}")
        return (host(point.Z) / self.scale).ravel()

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        return replace(point, Z=place(entries.reshape(self.shape) * self.scale, namespace(point.Z)))

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        return (host(gradient.Z) * self.scale).ravel()


@dataclass(frozen=True, eq=False)
class _MeanBlock(Block):
    """The coefficients β of the prior mean as (β − β₀)/scale, with β₀ and the scale of ``start``."""

    start: PriorMean

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.start.names

    @cached_property
    def bounds(self) -> list[Limits]:  # type: ignore[override]
        return [(-np.inf, np.inf)] * self.start.coefficients.size

    def pack(self, point: Parameters) -> Float:
        assert point.prior_mean is not None
        return point.prior_mean.entries

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        assert point.prior_mean is not None
        return replace(point, prior_mean=point.prior_mean.at(entries))

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        assert gradient.prior_mean is not None
        return (gradient.prior_mean * self.start.scale).ravel()


@dataclass(frozen=True, eq=False)
class _WeightsBlock(Block):
    """The ``size`` weights of a feature map."""

    size: int

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"weight[{i}]" for i in range(self.size))

    @cached_property
    def bounds(self) -> list[Limits]:  # type: ignore[override]
        return [(-np.inf, np.inf)] * self.size

    def pack(self, point: Parameters) -> Float:
        return _features_of(point).weights

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        return replace(point, kernel=_features_of(point).with_weights(entries, space))

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        assert gradient.weights is not None
        return gradient.weights


def _features_of(point: Parameters) -> FeatureKernel:
    assert isinstance(point.kernel, FeatureKernel)
    return point.kernel


@dataclass(frozen=True, eq=False)
class _PowerBlock(Block):
    """The power a ≥ 0 of K − Q, as log(a + 0.001): VFE's 0 and FITC's 1 differ by log 1001."""

    names: tuple[str, ...] = ("power",)
    bounds: list[Limits] = field(default_factory=lambda: [(float(np.log(OFFSET)), float(np.log(OFFSET + MOST_POWER)))])

    def pack(self, point: Parameters) -> Float:
        assert point.power is not None
        return np.log(OFFSET) + np.log1p([point.power / OFFSET])

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        return replace(point, power=max(OFFSET * float(np.expm1(entries[0] - np.log(OFFSET))), 0.0))

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        assert gradient.power is not None
        assert point.power is not None
        return np.array([gradient.power * (OFFSET + point.power)])


@dataclass(frozen=True, eq=False)
class LawBlock(Block):
    """A free q(v) = N(w, CCᵀ) of ``M`` variables: every vector corresponds to a law.

    With ``natural`` the derivatives are those that `fitting.training.NaturalSteps` takes: in w, and of the losses
    without KL(q‖p) in CCᵀ, at the places of the entries of C.
    """

    M: int
    natural: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        triangle = zip(*(index.tolist() for index in np.tril_indices(self.M)), strict=True)
        entries = (f"log C[{i},{j}]" if i == j else f"C[{i},{j}]" for i, j in triangle)
        return (*(f"mean[{i}]" for i in range(self.M)), *entries)

    @cached_property
    def bounds(self) -> list[Limits]:  # type: ignore[override]
        low, high = (float(np.log(spread)) for spread in SPREADS)
        free = (-np.inf, np.inf)
        return [free] * self.M + [(low, high) if i == j else free for i in range(self.M) for j in range(i + 1)]

    def pack(self, point: Parameters) -> Float:
        assert point.q is not None
        factor = host(point.q.factor)
        return joined(host(point.q.mean)[:, 0], factor, np.log(np.diagonal(factor)))

    def unpack(self, entries: Float, point: Parameters, space: Workspace | None = None) -> Parameters:
        assert point.q is not None
        M, xp = self.M, namespace(point.q.mean)
        factor = triangle_of(entries, M) if space is None else read_triangle(entries, space.array("C", (M, M), np))
        np.fill_diagonal(factor, np.exp(np.diagonal(factor)))
        q = FactorLaw(place(entries[:M, None].copy(), xp), place(factor, xp))
        return replace(point, q=q, in_covariance=self.natural)

    def pull(self, gradient: Gradient, point: Parameters) -> Float:
        assert point.q is not None
        if self.natural:
            slopes = host(gradient.covariance)
            return joined(host(gradient.mean)[:, 0], slopes, np.diagonal(slopes))
        slopes = host(gradient.factor)
        diagonal = np.diagonal(slopes) * np.diagonal(host(point.q.factor))
        return joined(host(gradient.mean)[:, 0], slopes, diagonal)


@dataclass(frozen=True, eq=False)
class Packing:
    """Conversion between vectors and `Parameters`; made by `packing`.

    Attributes
    ----------
    start : Parameters
        The point that provides the values of all parameters that are held fixed.
    blocks : tuple of Block
        The free blocks, in the order of the vector.
    """

    start: Parameters
    blocks: tuple[Block, ...]
    _space: Workspace = field(default_factory=lambda: Workspace(0), repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name for each entry of the vector."""
        return tuple(name for block in self.blocks for name in block.names)

    @cached_property
    def bounds(self) -> list[Limits]:
        """(low, high) for each entry of the vector."""
        return [pair for block in self.blocks for pair in block.bounds]

    def pack(self, parameters: Parameters) -> Float:
        """The vector of a point, in host memory."""
        return np.concatenate([np.zeros(0), *(block.pack(parameters) for block in self.blocks)])

    def unpack(self, vector: ArrayLike, space: Workspace | None = None) -> Parameters:
        """The point of a vector, on the device of ``start``; large arrays may take the memory of ``space``."""
        values = finite("vector", vector)
        if values.shape != (len(self.bounds),):
            raise ValueError(f"vector: expected shape ({len(self.bounds)},), got {values.shape}")
        point, ends = self.start, np.cumsum([len(block.bounds) for block in self.blocks])
        for block, entries in zip(self.blocks, np.split(values, ends[:-1]), strict=True):
            point = block.unpack(entries, point, space)
        return point

    def gradient(self, gradient: Gradient, parameters: Parameters | None = None) -> Float:
        """Derivatives in the entries of the vector, from the gradient at a point (by default, at the start).

        They depend on the point only if q is free or the power is trained.
        """
        point = self.start if parameters is None else parameters
        return np.concatenate([np.zeros(0), *(block.pull(gradient, point) for block in self.blocks)])

    def at_bounds(self, vector: ArrayLike, tol: float = 1e-6) -> tuple[str, ...]:
        """Names of the entries that lie on a bound, within ``tol``."""
        either = {name for ends in self.at_lower_and_upper(vector, tol) for name in ends}
        return tuple(name for name in self.names if name in either)

    def at_lower_and_upper(self, vector: ArrayLike, tol: float = 1e-6) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the entries on their lower and on their upper bound, within ``tol``; the nearer bound counts."""
        low, high = np.array(self.bounds, dtype=np.float64).reshape(-1, 2).T
        values = np.asarray(vector)
        nearer_low = values - low < high - values
        on_low, on_high = nearer_low & (values <= low + tol), ~nearer_low & (values >= high - tol)
        names = np.array(self.names, dtype=object)
        return tuple(names[on_low]), tuple(names[on_high])

    def value(self, objective: Minimised) -> Callable[[ArrayLike], tuple[float, Float]]:
        """The function vector ↦ (value that is minimised, no derivatives)."""
        return lambda vector: (objective.minimised(self.unpack(vector), gradient=False).value, np.zeros(0))

    def loss(self, objective: Minimised) -> PackedLoss:
        """The function vector ↦ (value that is minimised, its derivatives)."""
        return PackedLoss(self, objective)


@dataclass(eq=False)
class PackedLoss:
    """The function of `Packing.loss`; an objective that is a minimum over q begins at the sites of the best point.

    Attributes
    ----------
    best : float
        The least value so far.
    sites : array or None
        Its sites.
    """

    packing: Packing
    objective: Minimised
    best: float = np.inf
    sites: Array | None = None

    def __call__(self, vector: ArrayLike) -> tuple[float, Float]:
        point = self.packing.unpack(vector, self.packing._space)
        if self.sites is not None:
            point = replace(point, sites=self.sites)
        evaluation = self.objective.minimised(point)
        if evaluation.value < self.best:
            self.best, self.sites = evaluation.value, evaluation.sites
        assert evaluation.gradient is not None
        return evaluation.value, self.packing.gradient(evaluation.gradient, point)


def packing(
    kernel: Kernel,
    noise: float | Likelihood,
    Z: ArrayLike | Array | None = None,
    *,
    mean: ArrayLike | Array | None = None,
    factor: ArrayLike | Array | None = None,
    learn_Z: bool = True,
    fixed: Sequence[str] = (),
    limits: Mapping[str, Limits] | None = None,
    scale: ArrayLike = 1.0,
) -> Packing:
    """The conversion between points and vectors, for training that starts at (kernel, noise, Z).

    Parameters
    ----------
    kernel : Kernel
    noise : float or Likelihood
        σ² of a Gaussian likelihood, or another likelihood.  The order (kernel, noise, Z) is that of
        `fitting.objectives.objective.Objective.evaluate`.
    Z : array (M, D), optional
    mean : array (M,), factor : array (M, M), optional
        A free q(v) = N(mean, factor·factorᵀ), with ``factor`` lower triangular and its diagonal positive.
    learn_Z : bool
        False holds Z fixed.
    fixed : sequence of str
        Names of parameters that keep their values: of ``kernel.parameter_names``, or "noise" of the likelihood.
    limits : mapping of name to (low, high), optional
        In the units of the hyperparameter; [1e-6, 1e6] for names that are not listed.  Z has no bounds.
    scale : float or array (D,)
        Units of Z within the vector, for example the standard deviations of X.

    Raises
    ------
    ValueError
        for names that do not exist, or limits that exclude the start.

    >>> from gpbounds.kernels import SquaredExponential
    >>> layout = packing(SquaredExponential(2.0, [1.0, 1.0]), 0.5, [[3.0, 4.0]], fixed=["variance"], scale=2.0)
    >>> layout.names
    ('lengthscale[0]', 'lengthscale[1]', 'noise', 'Z[0,0]', 'Z[0,1]')
    >>> layout.pack(layout.start).round(4).tolist()
    [0.0, 0.0, -0.6931, 1.5, 2.0]
    """
    as_kernel(kernel)
    points = None if Z is None else as_points(Z, "Z").astype(np.float64, copy=False)
    likelihood = noise if isinstance(noise, Likelihood) else Gaussian(noise)
    q = None
    if mean is not None or factor is not None:
        if mean is None or factor is None or points is None:
            raise ValueError("mean, factor: expected both, with Z, or neither")
        q = law(mean, factor, points.shape[0])
    return packing_of(
        Parameters(kernel, likelihood, points, q), learn_Z=learn_Z, fixed=fixed, limits=limits, scale=scale
    )


def packing_of(
    start: Parameters,
    *,
    learn_Z: bool = True,
    fixed: Sequence[str] = (),
    limits: Mapping[str, Limits] | None = None,
    scale: ArrayLike = 1.0,
    tied: bool = False,
    natural: bool = False,
) -> Packing:
    """As `packing`, from a point; ``tied`` keeps the ratios of parameters that each input has (`each_input`).

    ``natural`` is for steps of `fitting.training.NaturalSteps`: see `LawBlock`.
    """
    flag("learn_Z", learn_Z)
    if not isinstance(limits, Mapping | None):
        raise ValueError(f"limits: expected a dictionary of names with pairs (low, high), got {shown(limits)}")
    if not (isinstance(fixed, Collection) and all(isinstance(name, str) for name in fixed)):
        raise ValueError(f"fixed: expected a sequence of names, got {shown(fixed)}")
    by_name = dict(limits or {})
    owners: list[tuple[Literal["kernel", "likelihood"], Any]] = [
        ("kernel", start.kernel),
        ("likelihood", start.likelihood),
    ]
    names = [name for _, held in owners for name in held.parameter_names]
    for argument, given in (("fixed", fixed), ("limits", by_name)):
        for name in given:
            if name not in names:
                raise ValueError(f"{argument}: expected names among {', '.join(names)}, got {name!r}")
    blocks: list[Block] = []
    for owner, held in owners:
        groups = each_input(held) if tied and owner == "kernel" else {}
        together = {i for places in groups.values() for i in places}
        free = [i for i, name in enumerate(held.parameter_names) if name not in fixed and i not in together]
        free_names = tuple(held.parameter_names[i] for i in free)
        bounds = [
            _logs_of_limits(name, by_name, value)
            for name, value in zip(free_names, held.log_parameters[free], strict=True)
        ]
        blocks.append(_LogBlock(owner, np.array(free, dtype=np.int64), free_names, bounds))
        for name, places in groups.items():
            if not any(held.parameter_names[i] in fixed for i in places):
                blocks.append(_tied(name, np.array(places, dtype=np.int64), held, by_name))
    if start.prior_mean is not None and start.prior_mean.trained:
        blocks.append(_MeanBlock(start.prior_mean))
    if isinstance(start.kernel, FeatureKernel) and start.kernel.weights.size:
        blocks.append(_WeightsBlock(start.kernel.weights.size))
    if start.Z is not None:
        M, D = map(int, start.Z.shape)
        units = positive_each("scale", scale)
        if np.shape(units) not in ((), (1,), (D,)):
            raise ValueError(
                f"scale: expected a number or one for each of {D} columns of Z, got shape {np.shape(units)}"
            )
        if learn_Z:
            blocks.append(_InputsBlock((M, D), np.broadcast_to(units, (D,))))
    if start.power is not None:
        blocks.append(_PowerBlock())
    if start.q is not None:
        blocks.append(LawBlock(start.q.M, natural))
    return Packing(start, tuple(blocks))


def each_input(kernel: Kernel) -> dict[str, list[int]]:
    """Positions of the parameters that a kernel has one of for each input, by their common name.

    >>> from gpbounds.kernels import SquaredExponential
    >>> each_input(SquaredExponential(1.0, [0.5, 2.0]))
    {'lengthscale': [1, 2]}
    """
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(kernel.parameter_names):
        if name.endswith("]"):
            groups.setdefault(name.rpartition("[")[0], []).append(i)
    return groups


def _tied(name: str, places: Any, kernel: Kernel, limits: Mapping[str, Limits]) -> _TiedBlock:
    """The block of the parameters at ``places``, within the limits of each."""
    logs = kernel.log_parameters[places]
    apart = logs - logs.mean()
    ends = [_logs_of_limits(kernel.parameter_names[i], limits, value) for i, value in zip(places, logs, strict=True)]
    low, high = (np.array(end) - apart for end in zip(*ends, strict=True))
    return _TiedBlock(places, apart, (name,), [(float(low.max()), float(high.min()))])


def _logs_of_limits(name: str, limits: Mapping[str, Limits], log_value: float) -> Limits:
    low, high = positive(f"limits of {name}", limits.get(name, LIMITS))
    if low > high:
        raise ValueError(f"limits of {name}: expected (low, high) with low <= high, got ({low:g}, {high:g})")
    value = float(np.exp(log_value))
    if not low <= value * (1.0 + 1e-12) <= high * (1.0 + 2e-12):
        raise ValueError(f"limits: expected {name} from {low:.6g} to {high:.6g}, got {value:.6g}")
    return float(np.log(low)), float(np.log(high))


def law(mean: ArrayLike | Array, factor: ArrayLike | Array, M: int) -> FactorLaw:
    """q(v) = N(mean, factor·factorᵀ) of M variables, checked; mean (M,) or (M, 1)."""
    (mu,), (C,) = broadcastable(mean=mean)[1], broadcastable(factor=factor)[1]
    if mu.shape not in ((M,), (M, 1)):
        raise ValueError(f"mean: expected shape ({M},) or ({M}, 1), one entry for each row of Z, got {mu.shape}")
    if C.shape != (M, M):
        raise ValueError(f"factor: expected shape ({M}, {M}), one row for each row of Z, got {C.shape}")
    xp = namespace(C)
    if bool((C != xp.tril(C)).any()) or not bool((xp.diagonal(C) > 0.0).all()):
        raise ValueError("factor: expected a lower triangle with a positive diagonal, as a Cholesky factor has")
    return FactorLaw(mu.reshape(M, 1), C)
