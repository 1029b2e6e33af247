"""The default start of training: the exact evidence of some rows, maximised from several lengthscales.

With many inputs of which few matter, the evidence has many optima.  One of them explains nothing: everything is noise.
A sparse objective ends there more easily than the exact one, because its K − Q counts as noise until the lengthscales
fit.  An exact fit of few rows is cheap.  Several of them compete: each round trains the remaining candidates further,
and keeps those with the largest evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.objectives.objective import objective
from fitting.objectives.packing import Limits, packing_of
from fitting.objectives.point import Parameters
from fitting.objectives.unit_noise import RowNoise, of_unit_rows
from fitting.starts.starts import mean_square, units
from fitting.training import Run, Session, train_lbfgs
from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.exact import exact
from gpbounds.kernels import Constant, Kernel
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.row_noise import at_unit_noise

_LENGTHS_AND_SHARES = ((0.25, 0.1), (0.5, 0.1), (0.5, 0.5), (1.0, 0.1), (1.0, 0.5))
"""The candidates: lengthscales in units of √D standard deviations, and the noise as a share of the mean square of y."""

ROUNDS = ((5, 5), (2, 12), (1, 30))
"""Of each round: how many candidates take part (all in the first), and the number of iterations after which it ends."""

_AGAIN_ROUNDS = ((2, 12), (1, 20))
"""The same for a fit of more rows with two candidates: the more rows, the fewer optima."""

SHORT, LONG = 0.5, 4.0
"""Lengthscales of the candidate with R inputs that matter alone: `SHORT`·√R standard deviations for these inputs, and
`LONG`·√D for the others."""

_WAVES = 8
"""Cosines of an input's ranks that are compared with y."""

FAR = 20.0
"""Largest lengthscale at the start, in units of √D standard deviations.  An input that some rows show as irrelevant may
matter to all rows, and a longer lengthscale has almost no derivative."""

TOLERANCE = 1e-5
"""Relative change of the evidence at which an iteration of a pilot run is its last one."""


def that_matter_alone(X: Float, Y: Float) -> list[int]:
    """The inputs whose ranks explain more of Y (n, P) than they explain of noise, by five standard deviations.

    With ranks u in (0, 1) and standardised y, Σ_k (mean y√2cos πku)² over `_WAVES` frequencies is the share that these
    functions explain.  For noise it is near χ²/n.

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
    for k in range(1, _WAVES + 1):
        shares += 2.0 * ((np.cos(math.pi * k * ranks).T @ targets / n) ** 2).sum(axis=1)
    return np.flatnonzero(shares > (_WAVES * P + 5.0 * math.sqrt(2.0 * _WAVES * P)) / n).tolist()


def _ranks(x: Float) -> Float:
    """1 to n; equal values have the mean of their ranks."""
    ordered = np.sort(x)
    return (np.searchsorted(ordered, x) + np.searchsorted(ordered, x, side="right") + 1) / 2


def near(limits: Mapping[str, Limits], start: Parameters, X: Float) -> dict[str, Limits]:
    """``limits`` with lengthscales of at most `FAR`, unless ``limits`` require longer ones."""
    nearer = dict(limits)
    for name, unit in _scales(start.kernel, X).items():
        low, high = limits.get(name, (0.0, math.inf))
        nearer[name] = (low, min(high, max(low, FAR * unit)))
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
    """``kernel`` with lengthscales of ``length``·√D standard deviations and the variance (1 − ``share``)·mean y².

    ``length`` may differ between the lengthscales.  ``fixed`` parameters keep their values.
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
    """``start`` with the lengthscales, variance and noise of `_LENGTHS_AND_SHARES`, except those that are ``fixed``.

    If some inputs, ``alone``, are known to matter, a further candidate has lengthscales `SHORT` for these and `LONG`
    for the others.
    """
    points, choices = [], list[tuple[Any, float]](_LENGTHS_AND_SHARES)
    D = X.shape[1]
    if 0 < len(alone) < D and len(_scales(start.kernel, X)) == D:
        lengths = np.full(D, LONG)
        lengths[list(alone)] = SHORT * math.sqrt(len(alone) / D)
        choices.append((lengths, _LENGTHS_AND_SHARES[0][1]))
    for length, share in choices:
        likelihood = start.likelihood
        if "noise" not in fixed and not isinstance(likelihood, RowNoise):
            likelihood = Gaussian(_clipped("noise", share * mean_square(Y), limits))
        points.append(Parameters(at_scale(start.kernel, X, Y, limits, fixed, length=length, share=share), likelihood))
    return points


def _scales(kernel: Kernel, X: Float) -> dict[str, float]:
    """√D standard deviations for each lengthscale of ``kernel``; their geometric mean for one that columns share."""
    spread = units(X) * math.sqrt(X.shape[1])
    names = [name for name in kernel.parameter_names if name.startswith("lengthscale")]
    scales = spread if len(names) == len(spread) else [math.exp(np.log(spread).mean())]
    return dict(zip(names, map(float, scales), strict=True))


def pilot(
    X: Array,
    Y: Array,
    points: Sequence[Parameters],
    *,
    limits: Mapping[str, Limits],
    fixed: Sequence[str],
    rounds: Sequence[tuple[int, int]] = ROUNDS,
    tied: bool = False,
) -> Run | None:
    """The run to the largest evidence of the rows X (n, D), Y (n, P), from the best of the candidates ``points``.

    The computation runs on the device of X.  ``tied`` lengthscales keep their ratios.

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
    problem = _evidence(X, Y, points[0].likelihood)
    layouts = [packing_of(point, fixed=fixed, limits=limits, tied=tied) for point in points]
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


def _evidence(X: Array, Y: Array, likelihood: Any) -> Any:
    """log p(y) of these rows, whose noise variances are those of ``likelihood`` if they have one each."""
    if not isinstance(likelihood, RowNoise):
        return objective(X, Y, "exact")
    rows = at_unit_noise(Constant(), X, Y, likelihood.noise)  # points have kernels
    return of_unit_rows(objective(rows.X, rows.y, "exact"), rows)


def _pilot_start(
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
    tied: bool = False,
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
    tied : bool
        Whether lengthscales keep their ratios, those of standard deviations: no input then matters alone.
    """
    nearer = near(limits, given, X)
    alone = [] if tied else that_matter_alone(*on_host)
    points = known or candidates(given, X, Y, nearer, fixed, alone)
    layout = packing_of(points[0], fixed=fixed, limits=nearer, tied=tied)
    if not layout.bounds:
        return given, given
    rounds = _AGAIN_ROUNDS if known else ROUNDS

    def train(earlier: Run | None, save: object) -> Run:
        run = pilot(*rows, points, limits=nearer, fixed=fixed, rounds=rounds, tied=tied)
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
    """Passed as ``save``, so that a run keeps its evaluations and continues with the same L-BFGS memory."""


def _best(runs: Mapping[int, Run], places: int) -> list[int]:
    """The candidates with the largest evidence, in the order of their numbers where they tie."""
    return sorted(runs, key=lambda i: (-runs[i].value, i))[:places]


def _clipped(name: str, value: float, limits: Mapping[str, Limits]) -> float:
    low, high = limits.get(name, (0.0, math.inf))
    return min(max(value, low), high)


# The rows of pilot fits: some first, and more where a fit of these predicts nothing or training has many optima.
#
# Too few rows can be explained by inputs that do not matter, with a large evidence.  Such a fit predicts other rows
# worse than noise alone does (`predicts`).  A second fit has more rows.  Where the first one predicts, its candidates
# are two: the end of the first, and the candidate with the largest evidence before training, as few rows may lead all
# candidates astray (248 rows of bike_hourly do).

FEWEST, EACH, MOST = 200, 4, 1000
"""Least number of rows, the number that each input adds to it, and the largest number.  Where 4 inputs of 30 matter,
240 rows found two of them or none in three draws, and 320 rows found two (sums of sines, a tenth of noise)."""

_AGAIN = 2.0
"""Factor of the number of rows of a second pilot fit."""

ENOUGH = 700
"""A second fit of more rows than this is made only where the first does not predict: of 1000 rows with 100 inputs it
takes ten seconds, and found nothing better."""

FIRST, SECOND = "start", "start again"
"""Names of the two fits within a session."""


def number_of_rows(N: int, D: int, rank: int) -> int:
    """√(N·``rank``) rows within limits: a step of a pilot fit (n²/2 kernel values) costs half of one of training.

    >>> number_of_rows(6500, 32, rank=100), number_of_rows(1500, 8, rank=50), number_of_rows(120, 8, rank=50)
    (806, 273, 120)
    """
    return min(N, MOST, max(math.isqrt(N * rank), FEWEST + EACH * D))


def numbers_of_rows(shape: tuple[int, ...], rank: int) -> tuple[int, int]:
    """Numbers of rows of a first pilot fit and of a second one, for X of ``shape`` (N, D).

    >>> numbers_of_rows((6500, 8), rank=10), numbers_of_rows((300, 8), rank=10)
    ((254, 508), (232, 300))
    """
    N, D = shape
    n = number_of_rows(N, D, rank)
    return n, min(N, MOST, math.ceil(_AGAIN * n))


def rows_of(N: int, n: int, seed: int, attempt: int = 0) -> Array:
    """The numbers of n of N rows, in increasing order; they depend on nothing else than the arguments."""
    rng = np.random.default_rng([seed & (2**63 - 1), 5, attempt])
    return np.sort(rng.choice(N, n, replace=False))


def others_of(N: int, rows: Array, n: int, seed: int) -> Array:
    """The numbers of at most n other rows than ``rows``, in increasing order.

    >>> others_of(5, np.array([0, 2, 3]), 4, seed=0)
    array([1, 4])
    """
    others = np.setdiff1d(np.arange(N), rows, assume_unique=True)
    rng = np.random.default_rng([seed & (2**63 - 1), 5, 0, 1])
    return np.sort(rng.choice(others, min(n, others.size), replace=False))


def predicts(
    point: Parameters,
    rows: tuple[Array, Array],
    others: tuple[Array, Array],
    square: float,
    noise: Array | None = None,
) -> bool:
    """Whether the exact GP at ``point``, given ``rows``, has a larger mean log density at ``others`` than noise alone.

    Parameters
    ----------
    rows, others : pairs of arrays (n, D), (n, P)
        Inputs and targets.
    square : float
        Mean square of all targets, the variance of noise alone.
    noise : array (n,), optional
        Noise variances of ``others``, where each row has its own.
    """
    X, Y = others
    try:
        with one_blas_thread():  # the same numbers for any number of threads
            if noise is None:
                mean, variance = exact(point.kernel, *rows, noise=point.noise).predict(X)
            else:
                unit = at_unit_noise(point.kernel, *rows, point.noise)
                mean, variance = exact(unit.kernel, unit.X, unit.y, noise=1.0).predict(unit.points(X, "X"))
    except (NotPositiveDefinite, NonFinite):  # no candidate had a value
        return False
    variance = (variance + (point.noise if noise is None else namespace(Y).asarray(noise)))[:, None]
    gain = math.log(square) + Y * Y / square - namespace(Y).log(variance) - (Y - mean) ** 2 / variance
    return float(gain.mean()) > 0.0


@dataclass(frozen=True, eq=False)
class PilotFits:
    """The pilot fits of one training.

    Attributes
    ----------
    X, Y : arrays (N, D), (N, P), or columns of a source
        All rows in host memory.
    given : Parameters
        The kernel's family, and the values of ``fixed`` parameters.
    few, more : int
        Numbers of rows of the first and of the second fit.
    seed : int
        Rows are drawn by it and by their numbers.
    many_optima : bool
        Whether training has many optima, so that the second fit is made in any case, up to `ENOUGH` rows: 1000 rows of
        pm25 ended between -1.11 and -1.23 nats per datum without it, depending on the seed, and between -1.105 and
        -1.110 with it.
    limits, fixed, session : as in `_pilot_start`
    placed : callable or None
        Row numbers ↦ these rows of X and Y on the device of the fits; None: the host.
    tied : bool
        Whether lengthscales keep their ratios.
    prefix : str
        Prefix of the names of both fits, for a session with several trainings.
    """

    X: Float
    Y: Float
    given: Parameters
    few: int
    more: int
    seed: int
    many_optima: bool
    limits: Mapping[str, Limits]
    fixed: Sequence[str]
    session: Session
    placed: Callable[[Array], tuple[Array, Array]] | None = None
    tied: bool = False
    prefix: str = ""

    def start(self) -> Parameters:
        """The start of training."""
        rows = rows_of(self.X.shape[0], self.few, self.seed)
        found, candidate = self._fit(rows, FIRST)
        if self.more == self.few:
            return found
        apart = others_of(self.X.shape[0], rows, self.few, self.seed)
        others, likelihood = self._only(apart)[0], self._of(self.given, apart).likelihood
        noise = likelihood.noise if isinstance(likelihood, RowNoise) else None
        if not predicts(found, self._only(rows)[0], others, mean_square(self.Y), noise):
            return self.second()
        return self.second([found, candidate]) if self.many_optima and self.more <= ENOUGH else found

    def second(self, known: Sequence[Parameters] = ()) -> Parameters:
        """The fit of more rows, from all candidates or from those that are ``known``."""
        return self._fit(rows_of(self.X.shape[0], self.more, self.seed, 1), SECOND, known)[0]

    def _fit(self, rows: Array, name: str, known: Sequence[Parameters] = ()) -> tuple[Parameters, Parameters]:
        name = self.prefix + name
        options: dict[str, Any] = {"limits": self.limits, "fixed": self.fixed, "session": self.session}
        options["tied"] = self.tied
        placed, alone = self._only(rows)
        known, given = [self._of(point, rows) for point in known], self._of(self.given, rows)
        return _pilot_start(placed, alone, given, self.X, self.Y, name=name, known=known, **options)

    def _of(self, point: Parameters, rows: Array) -> Parameters:
        """``point`` with the noise of these rows, where each row has its own."""
        given: Any = self.given.likelihood
        own: Any = given.of(rows) if isinstance(given, RowNoise) else point.likelihood
        return replace(point, likelihood=own)

    def _only(self, numbers: Array) -> tuple[tuple[Array, Array], tuple[Float, Float]]:
        """Some rows where the fits run, and in host memory."""
        on_host = self.X[numbers], self.Y[numbers]
        return on_host if self.placed is None else self.placed(numbers), on_host
