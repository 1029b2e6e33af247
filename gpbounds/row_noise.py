"""Noise of another variance in each row: the same problem as rows of unit noise of another GP (N-rows-noise)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, TINIEST, Array, Float, array_of, as_number, as_points, host, namespace
from gpbounds.bound import Bound
from gpbounds.interval import Interval, possible
from gpbounds.kernels import Kernel, Linear, Product
from gpbounds.kernels.base import as_kernel
from gpbounds.rows import is_elsewhere
from gpbounds.validation import noise_variance, positive
from gpbounds.whitening import as_targets

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

CLAIM = "N-rows-noise"
Ends = tuple[Float, Float]
SHIFT = 4.01 * 0.5 * EPS
"""ε ≥ |log(w² s²)| for w = 1/s as computed: a square root and a division round."""
PER_ROW = "Row i has the noise variance noise[i]; the bound is computed for rows of unit noise (N-rows-noise)."
OF_EIGENVALUES = "pass the eigenvalues of S^(−½)KS^(−½), S = diag of the noise of each row, and noise=1"
OF_DRAWS = (
    "the law of the draws depends on it: choose among rows of unit noise, unit = gpbounds.at_unit_noise(kernel, X, y, "
    "noise), with unit.kernel, unit.X, y=unit.y and noise=1, and leave out the last column of Z"
)
OF_INPUTS = (
    "the theorem is about a stationary kernel and inputs that are not given, and rows with noise of their own have "
    "another kernel (gpbounds.at_unit_noise)"
)
OF_FACTORS = "factorise rows of unit noise, unit.kernel and unit.X of gpbounds.at_unit_noise, with noise=1"
"""Why functions of eigenvalues, of draws, of laws of inputs, and of factors of K + σ²I take one noise variance."""
_NOT_MEMBERS = ("T/σ²", "jitter", "rounding", "points", "n")
"""Terms of bounds on log p(y) that are no members."""
_LOG_DENSITIES = ("log p(y)", "elbo 1")
"""Terms of bounds on a gap that are bounds on log p(y)."""
_WITH_NORMALISER = ("log N(y; 0, Ξ)", "log N(y_Z; 0, K_ZZ + σ²I)", "L_Jensen(q)", "E_q log p(y|f)")
"""Terms of evidence lower bounds that hold their normaliser."""


def is_per_row(noise: Any) -> bool:
    """Whether ``noise`` is one number for each row, and not one for all.

    >>> is_per_row(0.1), is_per_row([0.1, 0.2])
    (False, True)
    """
    try:
        return np.ndim(noise) > 0
    except ValueError:  # ragged: the check of one number says what it expects
        return False


def noise_of_rows(noise: Any, N: int) -> Float:
    """The N noise variances, each positive and finite, in squared units of y.

    >>> noise_of_rows([0.1, 0.2], 2)
    array([0.1, 0.2])
    """
    variances = positive("noise", host(noise))
    if variances.shape != (N,):
        raise ValueError(
            f"noise: expected one number, or shape ({N},), one noise variance for each row of X, got {variances.shape}"
        )
    return variances


@dataclass(frozen=True, eq=False)
class UnitNoise:
    """Rows of unit noise whose GP is that of given rows with the noise variances s_i² (N-rows-noise).

    With w_i = 1/s_i, y'_i = w_i y_i and k'((x, w), (x', w')) = k(x, x')·w·w', which is a kernel on D + 1 columns,

        log p(y) = log p'(y') + Σ log w_i,

    and KL divergences, Rényi divergences, gaps and latent predictions at (x, 1) are equal, for q of inducing points
    (z, 1).  The doubles w_i and w_i y_i are rounded; the methods of this class charge what that may change.

    Attributes
    ----------
    kernel : Kernel
        k', a product of k on the first D columns and of `Linear` on the last.
    X : array (N, D + 1)
        The rows with w_i behind.
    y : array (N,) or (N, P), or None
        w_i y_i.
    log_scale : float
        Σ log w_i, to be added to log p'(y') of each output.
    noise : array (N,)
        The noise variances s_i².
    moved : float
        η, at least the norm of the errors of the products w_i y_i.
    """

    kernel: Kernel
    X: Array
    y: Array | None
    log_scale: float
    noise: Float
    moved: float

    @property
    def weights(self) -> Float:
        """The numbers w_i (N,), as they are computed."""
        return host(self.X)[:, -1]

    @property
    def P(self) -> int:
        """Number of outputs."""
        return 1 if self.y is None or self.y.ndim == 1 else int(self.y.shape[1])

    @property
    def length(self) -> float:
        """At least the norm of y'; 0 without y."""
        return 0.0 if self.y is None else 1.01 * float(np.linalg.norm(host(self.y)))

    def points(self, Z: ArrayLike | Array, name: str = "Z") -> Array:
        """Inducing inputs, or inputs of predictions, (M, D) with a column of ones behind: (M, D + 1)."""
        centres = as_points(Z, name, int(self.X.shape[1]) - 1)
        return _beside(centres, namespace(centres).ones(centres.shape[0]))

    def log_evidence_error(self, lower: float) -> float:
        """How far log p'(y') + Σ log w_i may be from log p(y), both summed over the outputs.

        ½ε(N + e^ε(√φ + η)²) + η√φ + ½η² and the rounding of Σ log w_i, with φ = y'ᵀ(K' + I)⁻¹y' ≤ |y'|² and φ ≤
        −2 log p'(y') − N log 2π, as |K' + I| ≥ 1.  ``lower`` is a lower bound on log p'(y').
        """
        size, eta, total = self.length, self.moved, self.P * len(self.noise)
        if math.isfinite(lower):
            form = max(-2.0 * lower - total * math.log(2.0 * math.pi), 0.0) + 16.0 * EPS * (abs(lower) + total)
            size = min(size, 1.01 * math.sqrt(form))
        logs = self.P * 8.0 * EPS * (1.0 + float(np.abs(np.log(self.noise)).sum()))
        return 1.01 * (0.5 * SHIFT * (total + (size + eta) ** 2) + eta * size + 0.5 * eta * eta) + logs

    def gap_error(self, upper: float) -> float:
        """How far a Rényi gap, or KL, of the best q may be from that of the given rows; ``upper`` bounds it from above.

        ε(G + √(2D)|y'|) + η√(2D) + ½η², with G = 2D + 2√(D² + DN) at least twice the log-determinant term of D, and D
        at least every gap between the two problems.  Without y, which the prior then draws, 2εG.
        """
        if not math.isfinite(upper):
            return math.inf
        size, eta, total = self.length, self.moved, float(self.P * len(self.noise))
        twice = 2.0 if self.y is None else 1.0
        most, error = upper, math.inf
        for _ in range(60):
            root = math.sqrt(2.0 * most)
            terms = 2.0 * most + 2.0 * math.sqrt(most * most + most * total)
            error = 1.01 * (SHIFT * (twice * terms + root * (size + eta)) + eta * root + 0.5 * eta * eta)
            if upper + error <= most or not math.isfinite(error):
                return error
            most = 1.01 * (upper + error)
        return math.inf

    def of_predictions(self, prior: Float, mean: Ends, variance: Ends) -> tuple[Ends, Ends]:
        """Ends of latent means and variances of the given rows, from those of the unit-noise rows, rounded outwards.

        ``prior`` (n,) has the prior variances k(x, x), which are at least what the rows explain of them.
        """
        explained = 1.01 * prior
        in_mean = 1.01 * np.sqrt(explained) * (self.moved + SHIFT * (self.length + self.moved))
        in_variance = 1.01 * SHIFT * explained
        (low, high), (least, most) = _apart(mean, in_mean), _apart(variance, in_variance)
        return (low, high), (np.maximum(least, 0.0), most)

    def of_log_evidence(self, pair: Interval) -> Interval:
        """The interval of log p(y) from that of log p'(y')."""
        shift = self.P * self.log_scale
        error = self.log_evidence_error(float(pair.lower))
        moved = (_moved(end, shift, error) for end in pair)
        return possible(Interval(*(_shifted(end, shift, end.terms.keys() - set(_NOT_MEMBERS)) for end in moved)))

    def of_gap(self, pair: Interval) -> Interval:
        """The interval of a Rényi gap from that of the gap of the unit-noise rows."""
        error, shift = self.gap_error(float(pair.upper)), self.P * self.log_scale
        ends = (_moved(end, 0.0, error) for end in pair)
        lower, upper = (_shifted(end, shift, end.terms.keys() & set(_LOG_DENSITIES)) for end in ends)
        return possible(Interval(replace(lower, value=max(float(lower), 0.0)), upper), 0.0)

    def of_upper_gap(self, end: Bound) -> Bound:
        """The upper bound on a Rényi gap from that on the gap of the unit-noise rows."""
        return _moved(end, 0.0, self.gap_error(float(end)))

    def of_probed_evidence(self, pair: Interval) -> Interval:
        """As `of_log_evidence` for bounds by random probes, whose terms are parts of log|K + σ²I|."""
        shift, error = self.P * self.log_scale, self.log_evidence_error(float(pair.lower))
        names = frozenset(("log|K|", "log|P|", "estimate"))
        ends = (_moved(end, shift, error) for end in pair)
        return possible(Interval(*(_shifted(end, -2.0 * self.log_scale, names) for end in ends)))

    def of_rate(self, bound: Bound, factor: Any = 1.0) -> Bound:
        """The upper bounds on divergences that are at most ``factor`` times a Rényi gap, one or an array of them."""
        values, factors = np.broadcast_arrays(np.asarray(bound.value), factor)
        errors = [f * self.gap_error(value) for value, f in zip(values.ravel(), factors.ravel(), strict=True)]
        raised = np.nextafter(values + np.reshape(errors, values.shape), np.inf)
        return replace(bound, value=as_number(raised), claim=f"{bound.claim}, {CLAIM}")

    def of_elbo(self, bound: Bound) -> Bound:
        """A bound on log p(y) without a proved rounding from one on log p'(y')."""
        shifted = _shifted(bound, self.log_scale, frozenset(_WITH_NORMALISER))
        claim, assumptions = f"{bound.claim}, {CLAIM}", (*bound.assumptions, PER_ROW)
        return replace(shifted, value=float(bound) + self.log_scale, claim=claim, assumptions=assumptions)

    def of_log_determinant(self, estimate: Any) -> Any:
        """An estimate of log|Ξ| with the noise variances in place of σ²I from that of the unit-noise rows."""
        return replace(estimate, value=estimate.value - 2.0 * self.log_scale)

    def of_log_density(self, value: float) -> float:
        """log p(y) from log p'(y')."""
        return value + self.P * self.log_scale

    def of_ratio(self, bound: Bound) -> Bound:
        """The upper bound on λ_max(S^{-½}(K − Q)S^{-½}) from that of the unit-noise rows, e^ε times as large."""
        lower = {name: bound.terms[name] * (1.0 - 1.01 * SHIFT) for name in ("lower",) if name in bound.terms}
        return replace(
            bound,
            value=as_number(np.nextafter(np.asarray(bound.value) * (1.0 + 1.01 * SHIFT), np.inf)),
            claim=f"{bound.claim}, {CLAIM}",
            terms=dict(bound.terms) | lower,
            assumptions=(*bound.assumptions, PER_ROW),
        )

    @contextmanager
    def solving(self) -> Iterator[UnitNoise]:
        """Run what solves the unit-noise problem; its refusal of the noise 1 becomes one of the given variances."""
        try:
            yield self
        except ValueError as error:
            reason = str(error)
            if not reason.startswith("noise: expected σ²"):
                raise
            raise ValueError(
                f"noise: expected variances that are larger by one factor, got {self.noise.min():.3g} to "
                f"{self.noise.max():.3g}; in units of them,{reason.removeprefix('noise:')}"
            ) from None


def _apart(ends: Ends, error: Float) -> Ends:
    """Both ends moved outwards by ``error``."""
    return np.nextafter(ends[0] - error, -np.inf), np.nextafter(ends[1] + error, np.inf)


def _moved(end: Bound, shift: float, error: float) -> Bound:
    """The end plus ``shift``, moved outwards by ``error`` and rounding, with the claim and its sentence."""
    outwards, value = math.inf if end.side == "upper" else -math.inf, float(end) + shift
    error += EPS * abs(value) if shift and math.isfinite(value) else 0.0
    away = value + error if end.side == "upper" else value - error
    terms = dict(end.terms) | {"rounding": float(end.terms.get("rounding", 0.0)) + error}
    return replace(
        end,
        value=math.nextafter(away, outwards),
        claim=f"{end.claim}, {CLAIM}",
        terms=terms,
        assumptions=(*end.assumptions, PER_ROW),
    )


def _shifted(end: Bound, shift: float, names: AbstractSet[str]) -> Bound:
    """The bound with ``shift`` added to the terms of these names."""
    terms = {name: term + shift if name in names else term for name, term in end.terms.items()}
    return replace(end, terms=terms)


def _beside(points: Array, column: Array) -> Array:
    xp = namespace(points)
    return xp.concatenate([xp.asarray(points, dtype=np.float64), xp.asarray(column)[:, None]], axis=1)


def at_unit_noise(kernel: Kernel, X: Any, y: Any, noise: Any) -> UnitNoise:
    """The rows of unit noise of another GP that rows with the noise variances ``noise`` (N,) are.

    Claim N-rows-noise.  Everything in this library that is proved of a GP with one noise variance holds for k', X', y'
    and the noise 1, and says the same of the given rows.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,) or (N, P), or None
    noise : array (N,)
        Noise variances, one for each row, in squared units of y.

    Raises
    ------
    ValueError
        for noise that is not one positive finite number for each row; for rows that are read by partitions; for y
        whose ratio to its noise is no double.

    >>> from gpbounds.kernels import SquaredExponential
    >>> unit = at_unit_noise(SquaredExponential(), [0.0, 1.0], [3.0, 1.0], [0.25, 4.0])
    >>> unit.X[:, 1], unit.y, unit.points([5.0])
    (array([2. , 0.5]), array([6. , 0.5]), array([[5., 1.]]))
    """
    as_kernel(kernel)
    if is_elsewhere(X):
        raise ValueError(
            "noise: expected one number for rows that are read by partitions, got one for each row: pass X and y as "
            "arrays"
        )
    given = as_points(X, "X")
    rows = namespace(given).asarray(given, dtype=np.float64)
    xp, (N, D) = namespace(rows), rows.shape
    variances = noise_of_rows(array_of(namespace(noise), "noise", noise), N)
    weights = 1.0 / np.sqrt(variances)
    scaled, moved = None, 0.0
    if y is not None:
        targets = as_targets(y, rows)
        factors = xp.asarray(weights) if targets.ndim == 1 else xp.asarray(weights)[:, None]
        with np.errstate(over="ignore"):
            scaled = targets * factors
            size = float(np.linalg.norm(host(scaled)))
        if not math.isfinite(size):
            raise ValueError("noise, y: expected numbers whose ratio y²/noise is a double, got more: use other units")
        moved = 1.01 * (0.5 * EPS * size + math.sqrt(scaled.size) * TINIEST)
    joint = Product(kernel.on(range(D)), Linear(1.0).on([D]))
    log_scale = -0.5 * math.fsum(np.log(variances).tolist())
    return UnitNoise(joint, _beside(rows, weights), scaled, log_scale, variances, moved)


def noise_per_row(
    read: Callable[[UnitNoise, Result], Result],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A function of (kernel, X, ..., noise=) that also takes the noise of each row, by `at_unit_noise`.

    Its arguments kernel, X, y, Z and X_new become those of the unit-noise rows, and ``read`` makes its result one about
    the given rows.  Laws of new targets (``noisy``) are refused, as nothing is known of the noise of new rows.
    """

    def with_rows(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def of_rows(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if not is_per_row(kwargs.get("noise")):
                return function(*args, **kwargs)
            given = signature(function).bind(*args, **kwargs).arguments
            if given.get("noisy"):
                raise ValueError(
                    "noisy: expected False with noise of each row, as that of new rows is not known: add the variance "
                    "of their noise to the latent variances"
                )
            unit = at_unit_noise(given["kernel"], given["X"], given.get("y"), given["noise"])
            points = {name: given[name] for name in ("Z", "X_new") if given.get(name) is not None}
            changed: Any = dict(given) | {"kernel": unit.kernel, "X": unit.X, "noise": 1.0}
            changed |= {name: unit.points(value, name) for name, value in points.items()}
            if "y" in given:
                changed["y"] = unit.y
            of_unit: Callable[..., Result] = function
            with unit.solving():
                return read(unit, of_unit(**changed))

        return of_rows

    return with_rows


def unchanged(unit: UnitNoise, result: Result) -> Result:
    """``result``, which is the same for the rows of unit noise: a divergence, or a law of latent values."""
    return result


def one_for_all(noise: Any, why: str) -> float:
    """σ² > 0, one number for all rows; an error says ``why`` a noise of each row has no meaning."""
    if is_per_row(noise):
        raise ValueError(f"noise: expected one number, got shape {np.shape(noise)}: {why}")
    return noise_variance(noise)
