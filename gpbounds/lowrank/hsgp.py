"""What the m and c of a given Hilbert-space GP cost, on its rows and on any others, and which would be enough."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_points, host
from gpbounds.bound import UP, Bound
from gpbounds.errors import NotConverged
from gpbounds.kernels import Kernel, Matern, SquaredExponential, Stationary
from gpbounds.kernels.facts import has_formula
from gpbounds.kernels.plain import stationary
from gpbounds.lowrank.divergence import kl_features
from gpbounds.lowrank.features.sines import FARTHEST, HilbertFeatures
from gpbounds.lowrank.hilbert import HilbertRank, hilbert_kl, hilbert_rank
from gpbounds.overflow import within_doubles
from gpbounds.texts import in_nats, short
from gpbounds.validation import each_dimension, finite

LARGEST = 5000
"""Largest number of rows for which the divergence itself is computed."""

SMOOTHNESS = {"ExpQuad": math.inf, "Matern52": 2.5, "Matern32": 1.5, "Matern12": 0.5}
"""ν by the class of a covariance function of PyMC."""

SUPPORTED = f"{', '.join(SMOOTHNESS)}, or a number times one of them"


@dataclass(frozen=True)
class HilbertReport:
    """The divergence of a Hilbert-space GP from the exact one.

    Attributes
    ----------
    features : HilbertFeatures
        The approximation: kernel, m, c, half_width, centre.
    N : int
        Number of rows.
    at_rows : float or None
        KL(exact‖approximate) at these rows, in doubles (`kl_features`); None above 5000 rows.
    bound : Bound
        That of `hilbert_kl` for any N rows in the box.
    enough : HilbertRank or None
        m and c that suffice for ``target`` nats, for any N rows in the box (`hilbert_rank`); None if none were found.
    target : float
    """

    features: HilbertFeatures
    N: int
    at_rows: float | None
    bound: Bound
    enough: HilbertRank | None
    target: float

    def __str__(self) -> str:
        of = self.features
        lines = [
            f"m = {_plain(of.m)}, c = {_plain(of.c)}: {of.rank} functions, for {self.N} rows in a box of half width "
            f"{_plain(of.half_width)} about {_plain(of.centre)}.",
            f"At these rows: {_nats(self.at_rows)}.",
            f"At any {self.N} rows of the box: {self.bound}",
        ]
        if self.enough is None:
            lines.append(f"No m and c were found that suffice for {in_nats(self.target)}.")
        else:
            m, c = _plain(np.atleast_1d(self.enough.m)), _plain(np.atleast_1d(self.enough.c))
            lines.append(
                f"Enough for {in_nats(self.target)}: m = {m}, c = {c}, {self.enough.rank} functions (<= "
                f"{float(self.enough.bound):.3g} nats at any {self.N} rows of the box)."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""
        of, enough = self.features, self.enough
        return {
            "m": of.m.tolist(),
            "c": of.c.tolist(),
            "half_width": of.half_width.tolist(),
            "centre": of.centre.tolist(),
            "N": self.N,
            "at_rows": self.at_rows,
            "bound": self.bound.to_dict(),
            "target": self.target,
            "enough": None
            if enough is None
            else {"m": enough.m, "c": enough.c, "rank": enough.rank, "bound": enough.bound.to_dict()},
        }


@within_doubles
def hilbert_report(
    kernel: Kernel,
    m: ArrayLike,
    c: ArrayLike,
    X: ArrayLike,
    *,
    noise: float,
    centre: ArrayLike | None = None,
    target: float = 0.1,
    rigor: str = "auto",
) -> HilbertReport:
    """What m basis functions with boundary factor c cost at the rows X, and at any others, and what would be enough.

    For users of Hilbert-space GPs (HSGP) in PyMC, Stan, NumPyro and brms, with a Gaussian likelihood.  Fix the
    hyperparameters at numbers, for example at their posterior means; where they are uncertain, ask at both ends of
    their range: short lengthscales need a larger m, long ones a larger c.

    The value at the rows is KL(N(0, K + σ²I)‖N(0, K̃ + σ²I)) itself, in doubles; ``bound`` is that of :func:`hilbert_kl`
    (N-hilbert-kl), ``enough`` the answer of :func:`hilbert_rank`.

    Parameters
    ----------
    kernel : SquaredExponential, or Matern with nu 0.5, 1.5 or 2.5
    m, c : number(s), for all dimensions or one for each
        Functions and boundary factors: L = c·max|x − centre|, as PyMC computes it.  brms multiplies the
        whole range with its c and takes the mean as the centre: its c = 5/4 is about 2.5 here.
    X : array (N, D) or (N,)
    noise : positive number
        σ², in squared units of y.
    centre : number(s), optional
        The middle of the box.  None: that of the ranges of the rows; PyMC before 5.17 takes their mean.
    target : positive number
        In nats, for ``enough``.
    rigor : "auto", "float" or "sharp"
        As in :func:`hilbert_kl`.

    Returns
    -------
    HilbertReport
        Print it.

    Raises
    ------
    ValueError
        as :func:`hilbert_kl`.

    >>> from gpbounds import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 1500)
    >>> report = hilbert_report(SquaredExponential(lengthscale=1.5), 7, 1.2, X, noise=0.1)
    >>> round(report.at_rows, 1), round(float(report.bound), 1), report.enough.m
    (35.5, 2795.3, 14)
    """
    points = np.asarray(host(as_points(X, "X")), dtype=np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    middle = low + 0.5 * (high - low)
    if centre is not None:
        given = finite("centre", centre)
        if given.ndim > 1:
            raise ValueError(f"centre: expected a number or one per dimension, got shape {given.shape}")
        middle = each_dimension("centre", given, points.shape[1])
    reach = np.maximum(high - middle, middle - low)
    if not (0.0 < reach).all() or not (reach < FARTHEST).all():
        raise ValueError(
            f"X, centre: expected rows that differ in every column, by less than {FARTHEST:g}, got half widths "
            f"{reach.tolist()} about {middle.tolist()}"
        )
    if has_formula(kernel, SquaredExponential, Matern):
        known: Any = kernel
        scales = reach / known.lengthscales(len(reach))
        if not ((scales >= 1e-2) & (scales <= 1e6)).all():
            raise ValueError(
                "X, centre: expected rows within 0.01 to 1e6 lengthscales of the centre in every column, got "
                f"{scales.tolist()}"
            )
    features = HilbertFeatures(kernel, m, c, half_width=reach, centre=middle)  # type: ignore[arg-type]
    N, at_rows, enough = len(points), None, None
    bound = hilbert_kl(kernel, N, m, c, half_width=UP * reach, noise=noise, rigor=rigor)
    if N <= LARGEST:
        at_rows = kl_features(kernel(points), features.fit(points)(points), noise=noise)
    with suppress(NotConverged):
        enough = hilbert_rank(kernel, N, half_width=UP * reach, noise=noise, target=target, rigor=rigor)
    return HilbertReport(features, N, at_rows, bound, enough, float(target))


@within_doubles
def hilbert_report_of(
    gp: Any,
    X: ArrayLike,
    *,
    noise: float,
    kernel: Kernel | None = None,
    target: float = 0.1,
    rigor: str = "auto",
) -> HilbertReport:
    """:func:`hilbert_report` for an object ``pymc.gp.HSGP``, which is read without importing PyMC.

    It reads ``_m``, ``_c`` or ``_L``, and of ``cov_func`` the class, ``ls``, a factor (η²) and ``active_dims``.

    Parameters
    ----------
    gp : pymc.gp.HSGP
    X : array (N, D)
        The inputs, with all columns.
    noise, target, rigor : as in :func:`hilbert_report`
    kernel : Kernel, optional
        The covariance function with numbers, on the active columns: needed where its parameters are random variables,
        which have none.

    Raises
    ------
    ValueError
        for another covariance function, by its name; for parameters without numbers; for ``drop_first=True``.
    """
    missing = [name for name in ("_m", "_c", "_L", "cov_func") if not hasattr(gp, name)]
    if missing:
        raise ValueError(f"gp: expected a pymc.gp.HSGP, got {type(gp).__name__} without {', '.join(missing)}")
    if getattr(gp, "_drop_first", False):
        raise ValueError("gp: expected drop_first=False, got True: without its first function no bound here holds")
    points = np.asarray(host(as_points(X, "X")), dtype=np.float64)
    covariance, own = _covariance(gp.cov_func)
    columns = getattr(covariance, "active_dims", None)
    if columns is not None:
        points = points[:, [int(column) for column in columns]]
    low, high = points.min(axis=0), points.max(axis=0)
    of_mean = hasattr(gp, "_X_mean") and not hasattr(gp, "_X_center")
    centre = points.mean(axis=0) if of_mean else low + 0.5 * (high - low)
    if gp._c is None:
        factors: Any = _numbers("L", gp._L) / np.maximum(high - centre, centre - low)
    else:
        factors = _numbers("c", gp._c)
    chosen = _kernel(own, covariance) if kernel is None else kernel
    return hilbert_report(chosen, list(gp._m), factors, points, noise=noise, centre=centre, target=target, rigor=rigor)


def _covariance(covariance: Any) -> tuple[Any, list[Any]]:
    """The one covariance function in a product, and the other factors."""
    if type(covariance).__name__ != "Prod":
        parts = [covariance]
    else:
        parts = list(getattr(covariance, "_factor_list", None) or covariance.factor_list)
    functions = [part for part in parts if type(part).__name__ in SMOOTHNESS]
    others = [part for part in parts if type(part).__name__ not in SMOOTHNESS]
    if len(functions) != 1 or any(hasattr(part, "input_dim") for part in others):
        names = " * ".join(type(part).__name__ for part in parts)
        raise ValueError(f"gp: expected a cov_func made of {SUPPORTED}, got {names}")
    return functions[0], others


def _kernel(factors: list[Any], covariance: Any) -> Stationary:
    variance = math.prod(float(_numbers("the factor of cov_func", factor).item()) for factor in factors)
    lengths = _numbers("ls", covariance.ls).ravel()
    return stationary(SMOOTHNESS[type(covariance).__name__], variance, lengths if lengths.size > 1 else lengths[0])


def _numbers(name: str, value: Any) -> Float:
    """The numbers of a parameter or of a constant tensor; a random variable has none."""
    value = getattr(value, "data", value) if not isinstance(value, np.ndarray | np.generic) else value
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"gp: expected numbers for {name}, got {type(value).__name__}: pass kernel=, such as "
            "SquaredExponential(variance, lengthscale) at posterior means, and build the HSGP with numbers for c or L"
        ) from error


def _plain(values: Any) -> str:
    """One number where all dimensions have the same, else all of them."""
    array = np.atleast_1d(values)
    same = bool((array == array[0]).all())
    return short(array[0]) if same else short(array)


def _nats(value: float | None) -> str:
    if value is None:
        return f"not computed, as they are more than {LARGEST}"
    return f"KL(exact || Hilbert space) = {value:.4g} nats"
