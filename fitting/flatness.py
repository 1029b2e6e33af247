"""How flat a minimum is: the sharpness of Keskar et al., and the largest eigenvalue of the Hessian beside it.

With a function f that training minimises and a point x, the sharpness is the largest rise of f in a small box,

    φ = 100 (max_{z ∈ C} f(x + z) − f(x)) / (1 + f(x)),        C = {z : |z_i| ≤ ε(|x_i| + 1)}

(Keskar et al., On large-batch training for deep learning, 2016, Metric 2.1 in the full space).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, minimize
from scipy.sparse.linalg import LinearOperator, eigsh

from fitting.estimators import ExactGP, RenyiGP, SparseGP
from fitting.objectives.goals import Evidence
from fitting.objectives.objective import member, objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.prior_means import residuals
from fitting.starts.starts import strides
from gpbounds import validation
from gpbounds.arrays import Array, Float, place
from gpbounds.errors import shown
from gpbounds.likelihoods import Gaussian
from gpbounds.validation import choice, count, finite, flag, generator, positive, scalar
from gpbounds.whitening import as_targets

Function = Callable[[ArrayLike], tuple[float, Float]]
"""x ↦ (f(x), its derivatives)."""

_ITERATIONS = 10
"""Iterations of L-BFGS-B from each start, as Keskar et al. take."""

STEP = 1e-3
"""Step of the central differences of the gradient, in units of x."""

DENSE = 64
"""Number of coordinates up to which all of the Hessian is computed."""

UNLIMITED = (1e-300, 1e300)

LARGEST = 1e100
"""Largest half width of a box: squares of numbers in it are doubles."""


@dataclass(frozen=True, eq=False)
class Sharpness:
    """The largest rise of f in a box about x.

    Attributes
    ----------
    value : float
        φ, in percent.  NaN where 1 + f(x) ≤ 0, for which φ has no meaning: densities can be above e.
    rise : float
        max f(x + z) − f(x) ≥ 0, in the units of f.
    curvature : float
        λ_max of the Hessian of f at x.
    at : float
        f(x).
    radius : float
        ε.
    names : tuple of str
        The coordinates of x; empty where they have no names.
    x, displacement : arrays (n,)
        The point, and the z that attains the rise.
    gradient : array (n,)
        Derivatives of f at x; near 0 at a minimum of f.
    """

    value: float
    rise: float
    curvature: float
    at: float
    radius: float
    names: tuple[str, ...]
    x: Float
    displacement: Float
    gradient: Float

    def __str__(self) -> str:
        return f"sharpness {self.value:.4g} %, rise {self.rise:.4g}, largest curvature {self.curvature:.4g}"


def sharpness_of(
    function: Function,
    x: ArrayLike,
    *,
    radius: float = 1e-3,
    corners: int = 8,
    rng: int | np.random.Generator = 0,
    names: Sequence[str] = (),
) -> Sharpness:
    """The sharpness of any function at x.

    The rise is the largest value that L-BFGS-B finds in 10 iterations from several starts: z = 0, ``corners`` random
    corners of the box, and the corner in which the second-order expansion of f is largest among 64 local searches.  It
    is a lower bound on the maximum; a convex quadratic has its maximum at a corner.  z = 0 alone does not suffice, as a
    minimum of f is a stationary point.

    Parameters
    ----------
    function : x ↦ (f(x), derivatives (n,))
        The function that training minimises.
    x : array (n,)
    radius : float
        ε, half the width of the box in units of |x_i| + 1.
    corners : int
        Number of random corners.
    rng : seed or Generator
    names : sequence of str
        Names of the coordinates, for the result.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, or if f is not finite at x.

    >>> bowl = lambda x: (float(x @ x), 2.0 * np.asarray(x))
    >>> result = sharpness_of(bowl, np.zeros(3), radius=0.1)
    >>> round(result.value, 6), round(result.curvature, 6)  # 100 · 3 · 0.1²
    (3.0, 2.0)
    """
    centre, size = finite("x", x), scalar(positive, "radius", radius)
    if centre.ndim != 1 or not centre.size:
        raise ValueError(f"x: expected shape (n,), n >= 1, got {centre.shape}")
    draws, total = generator(rng), count("corners", corners, 0)
    validation.function("function", function, "a function of a vector that returns the value and the derivatives")
    named = names_of_coordinates(names)
    try:
        value, gradient = function(centre)
    except TypeError:
        raise ValueError("function: expected a function that returns the value and the derivatives") from None
    scalar(finite, "function(x)", value)
    if not size * (float(np.abs(centre).max()) + 1.0) <= LARGEST:
        raise ValueError(f"radius: expected a box of at most {LARGEST:g} about x, got a radius of {size!r}")
    box = size * (np.abs(centre) + 1.0)
    product, curvature = _hessian(function, centre)
    with validation.within_memory("corners"):
        signs = draws.choice([-1.0, 1.0], (total + 64, centre.size))
    starts = [np.zeros(centre.size), *signs[:total], _best_corner(signs[total:], gradient * box, product, box)]
    rise, best = 0.0, np.zeros(centre.size)
    for start in starts:
        climbed, where = _climb(function, centre, value, box, start)
        if climbed > rise:
            rise, best = climbed, where
    share = 100.0 * rise / (1.0 + value) if 1.0 + value > 0.0 else float("nan")
    return Sharpness(share, rise, curvature, float(value), size, named, centre, best * box, np.array(gradient))


def names_of_coordinates(names: Any) -> tuple[str, ...]:
    """A sequence of names, perhaps none."""
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"names: expected a sequence of names, got {shown(names)}")
    return tuple(names)


def _climb(function: Function, x: Float, at: float, box: Float, start: Float) -> tuple[float, Float]:
    """The largest rise that L-BFGS-B finds from ``start`` over z = box·s, |s_i| ≤ 1, and its s."""
    slope = np.abs(function(x + box * start)[1] * box).max()
    if not slope > 0.0:
        return float(function(x + box * start)[0]) - at, start
    seen: list[tuple[float, Float]] = []

    def descending(s: Float) -> tuple[float, Float]:
        value, gradient = function(x + box * s)
        seen.append((float(value) - at, s.copy()))
        return (at - value) / slope, -gradient * box / slope

    minimize(
        descending,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(-np.ones(x.size), np.ones(x.size)),
        options={"maxiter": _ITERATIONS, "ftol": 0.0, "gtol": 1e-6},
    )
    return max(seen, key=lambda pair: pair[0])


def _hessian(function: Function, x: Float) -> tuple[Callable[[Float], Float], float]:
    """v ↦ Hv by central differences of the gradient, and λ_max(H)."""

    def product(v: Float) -> Float:
        v = np.ravel(v)
        step = STEP / max(float(np.abs(v).max()), 1e-300)
        return (function(x + step * v)[1] - function(x - step * v)[1]) / (2.0 * step)

    if x.size <= DENSE:
        H = np.array([product(row) for row in np.eye(x.size)])
        H = 0.5 * (H + H.T)
        return (lambda v: H @ v), float(np.linalg.eigvalsh(H)[-1])
    operator = LinearOperator((x.size, x.size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(x.size)
    largest = eigsh(operator, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=True)
    vector, top = largest[1][:, 0], float(largest[0][0])
    return (lambda v: top * vector * (vector @ v)), top


def _best_corner(signs: Float, slope: Float, product: Callable[[Float], Float], box: Float) -> Float:
    """The corner s with the largest slopeᵀs + ½sᵀBHBs after single flips from each row of ``signs``, B = diag(box)."""
    n = slope.size
    if n > DENSE:  # H is known by its leading eigenvector only
        s = np.sign(box * product(box * signs[0]) + slope)
        return np.where(s == 0.0, 1.0, s)
    H = np.array([box * product(box * row) for row in np.eye(n)])
    best, value = signs[0], -np.inf
    for s in signs:
        s = s.copy()
        for _ in range(10 * n):
            # flipping s_i changes the value by −2 s_i (slope + Hs)_i + 2 H_ii
            gain = 2.0 * (H.diagonal() - s * (slope + H @ s))
            i = int(gain.argmax())
            if not gain[i] > 0.0:
                break
            s[i] = -s[i]
        reached = float(slope @ s + 0.5 * s @ H @ s)
        if reached > value:
            best, value = s, reached
    return best


def sharpness(
    model: Any,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    *,
    radius: float = 1e-3,
    on: str = "own",
    inducing: bool = False,
    corners: int = 8,
    rng: int | np.random.Generator = 0,
) -> Sharpness:
    """The sharpness of the hyperparameters of a fitted model (Yue & Kontar, Rényi divergence objective, §8.5).

    f is minus an objective in nats per datum, as a function of the logarithms of the trained hyperparameters and of the
    noise variance.  The paper states neither f nor x nor ε; these are this project's choices.  Models of several α have
    different objectives, whose curvatures differ at equal hyperparameters: compare them by ``on="evidence"``, one
    function for all.  There x is no minimum of f, and the rise contains the slope of f.

    Parameters
    ----------
    model : ExactGP, RenyiGP or SparseGP
        Fitted.
    X, y : arrays (N, D), (N,) or (N, P)
        Rows that define f, in the units of the data that the model was fitted to: the training rows, or some of them
        where O(N³) time is too long.
    radius : float
        ε of `sharpness_of`.
    on : "own" or "evidence"
        The objective that the model maximises, or log p(y) of the exact GP with the model's kernel and noise.
    inducing : bool
        True adds the inducing inputs, in units of the lengthscales, to x; for "own" only.
    corners, rng : as in `sharpness_of`

    Raises
    ------
    ValueError, NonFinite
        for other models and wrong arguments.

    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = RenyiGP(alpha=0.5, n_inducing=8, tol=0).fit(X, y)
    >>> own, common = (sharpness(model, X, y, on=on) for on in ("own", "evidence"))
    >>> own.names, bool(0.0 < own.rise < 1e-3), bool(own.curvature > 0.0)
    (('variance', 'lengthscale[0]', 'noise'), True, True)
    """
    if not isinstance(model, ExactGP | RenyiGP | SparseGP):
        raise ValueError(f"model: expected an ExactGP, RenyiGP or SparseGP, got {type(model).__name__}")
    choice("on", on, ("own", "evidence"))
    if flag("inducing", inducing) and (on == "evidence" or isinstance(model, ExactGP)):
        raise ValueError("inducing: expected False for log p(y), which does not depend on inducing inputs, got True")
    model._fitted()
    if model._row_noise is not None:
        raise ValueError(
            "model: expected one whose rows share a noise variance, got one with a noise for each row: x includes the "
            "logarithm of that variance, and the noise of X is not known"
        )
    points = model._new_points(X)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    if columns.shape[1] != model.y_mean_.size:
        raise ValueError(f"y: expected {model.y_mean_.size} column(s), as in the fit, got shape {targets.shape}")
    xp = model._module()
    labels = model._labels(points) if on == "own" else None
    rows = place(model._inputs(points), xp)
    scaled = (place(columns, xp) - xp.asarray(model.y_mean_)) / xp.asarray(model.y_scale_)
    data = rows, residuals(model._fitted_mean(), rows, scaled)
    problem: Any = objective(*data, model._member() if on == "own" else member("exact"), blocks=labels)
    if on == "own" and isinstance(model, SparseGP) and model.beta != 1.0:
        problem = replace(problem, goal=Evidence(float(model.beta)))
    Z = None if isinstance(model, ExactGP) or on == "evidence" else place(model.inducing_, xp)
    start = Parameters(model.kernel_, Gaussian(model.noise_), Z)
    names = [*model.kernel_.parameter_names, "noise"]
    held = model._fixed_names(model.kernel_, names)
    layout = packing_of(
        start,
        learn_Z=inducing,
        fixed=tuple(name for name in names if name in held),
        limits={name: UNLIMITED for name in names if name not in held},
        scale=strides(model.kernel_, model.X_train_),
    )
    if not layout.bounds:
        raise ValueError("model: expected one with a free hyperparameter, got one whose hyperparameters are all fixed")
    at, size = layout.pack(start), scalar(positive, "radius", radius)
    for name, value, (low, high) in zip(layout.names, at, layout.bounds, strict=True):
        if not low <= value - size * (abs(value) + 1.0) <= value + size * (abs(value) + 1.0) <= high:
            raise ValueError(
                f"radius: expected a box within {UNLIMITED[0]:g} to {UNLIMITED[1]:g} about {name}, got a radius of "
                f"{size!r} in its logarithm"
            )
    loss, N = layout.loss(problem), points.shape[0]

    def per_datum(vector: ArrayLike) -> tuple[float, Float]:
        value, gradient = loss(vector)
        return value / N, gradient / N

    return sharpness_of(per_datum, at, radius=size, corners=corners, rng=rng, names=layout.names)
