"""The default start of training: the exact evidence of some rows, maximised from several lengthscales.

With many inputs of which few matter, the evidence has many optima.  One of them explains nothing: everything is noise.
A sparse objective ends there more easily than the exact one, because its K − Q counts as noise until the lengthscales
fit.  An exact fit of few rows is cheap.  Several of them compete: each round trains the remaining candidates further,
and keeps those with the largest evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.evaluation import Parameters
from fitting.family import at_point, objective
from fitting.parameters import Limits, packing_of
from fitting.starts import mean_square, units
from fitting.training import Run, Session, train_lbfgs
from gpbounds.arrays import Array, Float
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread

LENGTHS_AND_SHARES = ((0.25, 0.1), (0.5, 0.1), (0.5, 0.5), (1.0, 0.1), (1.0, 0.5))
"""The candidates: lengthscales in units of √D standard deviations, and the noise as a share of the mean square of y."""

ROUNDS = ((5, 5), (2, 12), (1, 30))
"""Of each round: how many candidates take part (all in the first), and the number of iterations after which it ends."""

AGAIN_ROUNDS = ((2, 12), (1, 20))
"""The same for a fit of more rows with two candidates: the more rows, the fewer optima."""

SHORT, LONG = 0.5, 4.0
"""Lengthscales of the candidate that knows inputs which matter alone: in units of √R standard deviations for these R
inputs, and of √D for the others."""

WAVES = 8
"""Cosines of an input's ranks that are compared with y."""

FAR = 20.0
"""Largest lengthscale at the start, in units of √D standard deviations.  An input that some rows show as irrelevant may
matter to all rows, and a longer lengthscale has almost no derivative."""

TOLERANCE = 1e-5
"""Relative change of the evidence at which an iteration of a pilot run is its last one."""


def that_matter_alone(X: Float, Y: Float) -> list[int]:
    """The inputs of whose ranks a function explains more of Y (n, P) than noise would, by five standard deviations.

    With ranks u in (0, 1) and standardised y, Σ_k (mean y√2cos πku)² over `WAVES` frequencies is the share that these
    functions explain.  Where y is noise it is near χ²/n.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 6))
    >>> that_matter_alone(X, np.sin(3.0 * X[:, [2]]) + X[:, [0]] * X[:, [1]])
    [2]
    """
    n, P = Y.shape
    spread = Y.std(axis=0)
    targets = (Y - Y.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    ranks = (np.column_stack([_ranks(x) for x in X.T]) - 0.5) / n
    shares = np.zeros(X.shape[1])
    for k in range(1, WAVES + 1):
        shares += 2.0 * ((np.cos(math.pi * k * ranks).T @ targets / n) ** 2).sum(axis=1)
    return np.flatnonzero(shares > (WAVES * P + 5.0 * math.sqrt(2.0 * WAVES * P)) / n).tolist()


def _ranks(x: Float) -> Float:
    """1 to n; equal values have the mean of their ranks."""
    ordered = np.sort(x)
    return (np.searchsorted(ordered, x) + np.searchsorted(ordered, x, side="right") + 1) / 2


def near(limits: Mapping[str, Limits], start: Parameters, X: Float) -> dict[str, Limits]:
    """``limits``, with lengthscales up to `FAR` only, as far as ``limits`` allow that."""
    nearer = dict(limits)
    for name, own in _scales(start.kernel, X).items():
        low, high = limits.get(name, (0.0, math.inf))
        nearer[name] = (low, min(high, max(low, FAR * own)))
    return nearer


def at_scale(
    kernel: Kernel,
    X: Float,
    Y: Float,
    limits: Mapping[str, Limits],
    fixed: Sequence[str],
    *,
    length: ArrayLike = 1.0,
    share: float = 0.1,
) -> Kernel:
    """The family of ``kernel``: lengthscales of ``length``·√D standard deviations; those ``fixed`` keep their values.

    ``length`` may differ between the lengthscales.

    Its variance is the part 1 − ``share`` of the mean square of y.
    """
    scales = _scales(kernel, X)
    lengths = np.broadcast_to(length, len(scales)) * list(scales.values())
    values = {"variance": (1.0 - share) * mean_square(Y), **dict(zip(scales, map(float, lengths), strict=True))}
    logs = kernel.log_parameters
    for i, name in enumerate(kernel.parameter_names):
        if name in values and name not in fixed:
            logs[i] = math.log(_clipped(name, values[name], limits))
    return kernel.with_log_parameters(logs)


def candidates(
    start: Parameters,
    X: Float,
    Y: Float,
    limits: Mapping[str, Limits],
    fixed: Sequence[str],
    alone: Sequence[int] = (),
) -> list[Parameters]:
    """``start`` with the lengthscales, variance and noise of `LENGTHS_AND_SHARES`, except those that are ``fixed``.

    If some inputs, ``alone``, are known to matter, a further one has lengthscales near one standard deviation for these
    and long ones for the others.
    """
    points, choices = [], list[tuple[Any, float]](LENGTHS_AND_SHARES)
    D = X.shape[1]
    if 0 < len(alone) < D and len(_scales(start.kernel, X)) == D:
        lengths = np.full(D, LONG)
        lengths[list(alone)] = SHORT * math.sqrt(len(alone) / D)
        choices.append((lengths, LENGTHS_AND_SHARES[0][1]))
    for length, share in choices:
        noise = start.noise if "noise" in fixed else _clipped("noise", share * mean_square(Y), limits)
        points.append(at_point(at_scale(start.kernel, X, Y, limits, fixed, length=length, share=share), noise))
    return points


def _scales(kernel: Kernel, X: Float) -> dict[str, float]:
    """√D standard deviations for each lengthscale of ``kernel``; their geometric mean for one that columns share."""
    spread = units(X) * math.sqrt(X.shape[1])
    names = [name for name in kernel.parameter_names if name.startswith("lengthscale")]
    own = spread if len(names) == len(spread) else [math.exp(np.log(spread).mean())]
    return dict(zip(names, map(float, own), strict=True))


def pilot(
    X: Array,
    Y: Array,
    points: Sequence[Parameters],
    *,
    limits: Mapping[str, Limits],
    fixed: Sequence[str],
    rounds: Sequence[tuple[int, int]] = ROUNDS,
) -> Run | None:
    """The run to the largest evidence of the rows X (n, D), Y (n, P), from the best of the candidates ``points``.

    The computation runs on the device of X.

    Returns
    -------
    run : Run
        Its `Run.evaluations` counts those of all candidates, and "candidate" in its state is the number of the one
        with the largest evidence at its start.  None if no candidate has a value.

    Raises
    ------
    KeyboardInterrupt
        as there is nothing to keep yet.
    """
    problem = objective(X, Y, "exact")
    layouts = [packing_of(point, fixed=fixed, limits=limits) for point in points]
    losses = [layout.loss(problem) for layout in layouts]
    runs: dict[int, Run] = {}
    for places, iterations in rounds:
        for i in _best(runs, places) if runs else range(len(points)):
            earlier, bounds = runs.get(i), layouts[i].bounds
            if earlier is not None and earlier.is_over(iterations):
                continue
            low, high = np.array(bounds).T
            start = np.clip(layouts[i].pack(points[i]), low, high)
            try:
                run = train_lbfgs(
                    losses[i], start, bounds, max_iter=iterations, ftol=TOLERANCE, earlier=earlier, save=_kept
                )
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue
            if run.status == "interrupted":
                raise KeyboardInterrupt
            runs[i] = run
    if not runs:
        return None
    best = _best(runs, 1)[0]
    problem.data.space.release()
    first = max(runs, key=lambda i: (runs[i].values[0], -i))
    counts = {name: sum(getattr(run, name) for run in runs.values()) for name in ("evaluations", "failures")}
    return replace(runs[best], status="converged", state={"candidate": first}, **counts)


def pilot_start(
    rows: tuple[Array, Array],
    on_host: tuple[Float, Float],
    given: Parameters,
    X: Float,
    Y: Float,
    *,
    limits: Mapping[str, Limits],
    fixed: Sequence[str],
    session: Session,
    name: str,
    known: Sequence[Parameters] = (),
) -> tuple[Parameters, Parameters]:
    """Where a `pilot` fit of ``rows`` ends, and its best candidate before training; ``session`` keeps both by ``name``.

    Parameters
    ----------
    rows : arrays (n, D), (n, P)
        Inputs and targets of some rows, on the device of training.
    on_host : arrays (n, D), (n, P)
        The same in host memory.
    given : Parameters
        The kernel's family, and the values of ``fixed`` parameters.
    X, Y : arrays (N, D), (N, P)
        All rows in host memory, for their scale.
    known : sequence of Parameters
        The candidates, from an earlier fit; by default those of `candidates`.
    """
    nearer = near(limits, given, X)
    alone = that_matter_alone(*on_host)
    points = known or candidates(given, X, Y, nearer, fixed, alone)
    layout = packing_of(points[0], fixed=fixed, limits=nearer)
    if not layout.bounds:
        return given, given
    rounds = AGAIN_ROUNDS if known else ROUNDS

    def train(earlier: Run | None, save: object) -> Run:
        run = pilot(*rows, points, limits=nearer, fixed=fixed, rounds=rounds)
        if run is not None:
            return run
        return Run(layout.pack(points[0]), -math.inf, (), "stalled", "No candidate has a value.", 0, 0)

    with one_blas_thread():
        run = session.run(name, rounds[-1][1], train)
    run.check_size(len(layout.bounds))
    chosen = run.state.get("candidate", 0)
    if chosen >= len(points):
        raise ValueError(f"checkpoint: expected one of {len(points)} candidates, got number {chosen}: delete this file")
    return layout.unpack(run.vector), points[chosen]


def _kept(run: Run) -> None:
    """Makes a run keep its evaluations, from which it continues with the same curvature."""


def _best(runs: Mapping[int, Run], places: int) -> list[int]:
    """The candidates with the largest evidence, in the order of their numbers where they tie."""
    return sorted(runs, key=lambda i: (-runs[i].value, i))[:places]


def _clipped(name: str, value: float, limits: Mapping[str, Limits]) -> float:
    low, high = limits.get(name, (0.0, math.inf))
    return min(max(value, low), high)
