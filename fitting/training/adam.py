"""Adam on all data, on mini-batches, or on both in turn, with natural-gradient steps for a free law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fitting.objectives.triangle import diagonal_of, joined, read_triangle, size_of
from fitting.training.ending import Ending, Resolution
from fitting.training.run import Loss, Run, Status
from fitting.training.watch import FAULTS, Watch, checked, instances
from gpbounds.arrays import Float
from gpbounds.linalg import blas, cholesky
from gpbounds.linalg.parallel import Tasks
from gpbounds.linalg.products import add_product
from gpbounds.linalg.triangular import inverse_factor, mirrored, multiply_rows, solve_rows
from gpbounds.linalg.workspace import Workspace
from gpbounds.whitening import slices

# Natural-gradient steps for a free law q(v) = N(w, CCᵀ), which stay positive definite.
#
# J is a sum of losses and β·KL(q‖p).  With Λ = (CCᵀ)⁻¹, w̄ the derivative of J in the mean, and H that of the losses in
# the covariance S, whose derivative of J is S̄ = H + ½β(I − Λ), a step of rate ρ is
#
#     Λ' = Λ + ρ(2/β)S̄ + ½ρ²(2/β)²S̄Λ⁻¹S̄,      w' = w − (ρ/β)Λ'⁻¹w̄.
#
# Without its last term this is the natural gradient in the parameters (Λw, Λ): for J of a Gaussian likelihood, ρ = 1
# reaches the optimum from everywhere.  Losses that are convex in f keep Λ' positive definite then, for ρ ≤ 1.  Direct
# losses and Student-t do not; with the last term Λ' is positive definite for all S̄ (Lin, Schmidt and Khan, 2020).
#
# A direct loss has a larger curvature in the mean than 2S̄, that of an ELBO: its steps need a smaller ρ.
#
# Neither form needs S̄.  The first is a mean of two precisions, and the second adds two matrices of the form FFᵀ:
#
#     Λ₁ = (1 − ρ)Λ + ρ(I + (2/β)H),      Λ' = ½Λ + ½(Λ₁C)(Λ₁C)ᵀ.

TILE = 128
"""Rows of a tile."""

LEAST, RAMP = 1e-4, 5
"""The rate of the first step, and the number of steps after which it has its full value."""


@dataclass(frozen=True)
class NaturalSteps:
    """Natural steps of the last entries of a vector, which hold a law (`fitting.objectives.packing.LawBlock`).

    Attributes
    ----------
    M : int
        Number of inducing variables.
    beta : float
        Factor of KL(q‖p) in J.
    rate : float
        ρ in (0, 1].
    convex : bool
        Whether the loss is convex in f, so that the last term is left out.
    """

    M: int
    beta: float
    rate: float
    convex: bool

    @property
    def size(self) -> int:
        """Number of entries of the law."""
        return size_of(self.M)

    def rate_at(self, step: int) -> float:
        """ρ of step 1, 2, …: for ρ < 1 it rises geometrically from 1e-4 over the first steps."""
        if self.rate == 1.0 or step > RAMP:
            return self.rate
        return float(LEAST * (self.rate / LEAST) ** ((step - 1) / RAMP))

    def moved(
        self,
        entries: Float,
        slopes: Float,
        step: int,
        space: Workspace | None = None,
        *,
        share: float = 1.0,
        precision: Float | None = None,
    ) -> Float:
        """The law after a step, from its entries (size,) and the derivatives that a ``natural`` `LawBlock` returns.

        ``share`` multiplies ρ.  ``precision`` (M(M + 1)/2,) has the lower triangle of Λ, row by row, or only 0 where it
        is not known; that of Λ' takes its place.

        Raises
        ------
        NotPositiveDefinite
            if the loss is not convex, although `convex` says so, or where its slopes are so steep that their rounding
            exceeds the precision: a smaller step is needed then.
        """
        known = np.zeros(self.size - self.M) if precision is None else precision
        return _Move(self, entries, slopes, share * self.rate_at(step), space or Workspace(0), known).run()


class _Move:
    """A step by tiles of rows; their number depends on M only, so that results do not depend on the number of lanes."""

    def __init__(
        self, steps: NaturalSteps, entries: Float, slopes: Float, rate: float, space: Workspace, precision: Float
    ) -> None:
        M = steps.M
        self.M, self.convex, self.entries, self.slopes, self.precision = M, steps.convex, entries, slopes, precision
        self.rate, self.beta = rate, steps.beta
        names = ("A", "turned", "factor", *(() if steps.convex else ("C", "between", "F")))
        self.A, self.turned, self.factor, *rest = (space.array(name, (M, M), np) for name in names)
        self.C, self.between, self.F = rest or (self.A, self.A, self.A)
        self.tiles = list(slices(M, TILE if M >= 2 * TILE else M))

    def run(self) -> Float:
        M, steps, tasks = self.M, range(len(self.tiles)), Tasks()
        A, F, turned = ([(name, i) for i in steps] for name in ("A", "F", "turned"))
        tasks.add(self._between, writes=["between", *A])
        if not self.convex:
            for i in steps:
                tasks.add(partial(self._times_C, i), reads=["between"], writes=[F[i]])
            for i in steps:
                tasks.add(partial(self._squared, i), reads=F[: i + 1], writes=[A[i]])
            tasks.add(self._write, reads=A, writes=["precision"])
        for i in steps:
            tasks.add(partial(self._turn, i), reads=A, writes=[turned[i]])
        tasks.add(self._factorise, reads=turned, writes=turned)
        for i in reversed(steps):  # long tasks first
            tasks.add(partial(self._solve, i), reads=turned, writes=[("factor", i)])
        tasks.run(2.0 * M**3)
        mean = self.entries[:M] - self.rate / self.beta * (self.factor @ (self.factor.T @ self.slopes[:M]))
        return joined(mean, self.factor, np.log(np.diagonal(self.factor)))

    def _between(self, worker: int) -> None:
        """Λ₁, in the memory of Λ for a convex loss."""
        M, rate, Lambda = self.M, self.rate, self.precision
        if not Lambda[0] and not (self.convex and rate == 1.0):
            self._read_precision()
        if not self.convex:
            self._read_C()
            blas.unpack(Lambda, self.A)
            Lambda = Lambda.copy()
        Lambda *= 1.0 - rate
        Lambda += (2.0 * rate / self.beta) * self.slopes[M:]
        Lambda[diagonal_of(M)] += rate
        if self.convex:
            blas.unpack(Lambda, self.A)
            return
        blas.unpack(Lambda, self.between)
        self.between[...] = mirrored(self.between.T)

    def _read_C(self) -> None:
        read_triangle(self.entries, self.C)
        np.fill_diagonal(self.C, np.exp(np.diagonal(self.C)))

    def _read_precision(self) -> None:
        """Λ = C⁻ᵀC⁻¹."""
        self._read_C()
        inverse = inverse_factor(self.C, checked=True)
        blas.pack(multiply_rows(inverse, np.ascontiguousarray(inverse.T), transposed=True), self.precision)

    def _times_C(self, i: int, worker: int) -> None:
        """Rows of Λ₁C."""
        rows = self.tiles[i]
        self.F[rows] = self.between[rows]
        multiply_rows(self.C, self.F[rows], transposed=True)

    def _squared(self, i: int, worker: int) -> None:
        """Rows of the lower triangle of Λ'."""
        rows = self.tiles[i]
        add_product(self.F[rows], self.F[: rows.stop].T, self.A[rows, : rows.stop], scale=0.5, keep=0.5)

    def _write(self, worker: int) -> None:
        blas.pack(self.A, self.precision)

    def _turn(self, i: int, worker: int) -> None:
        """Λ' with all rows and columns in the opposite order: rows of its lower triangle."""
        rows, M = self.tiles[i], self.M
        below = self.A[M - rows.stop :, M - rows.stop : M - rows.start]
        self.turned[rows, : rows.stop] = below[::-1, ::-1].T

    def _factorise(self, worker: int) -> None:
        cholesky(self.turned, name="the precision of q after a natural step", overwrite=True)

    def _solve(self, i: int, worker: int) -> None:
        """Rows of C', with Λ'⁻¹ = C'C'ᵀ."""
        rows, M = self.tiles[i], self.M
        n = rows.stop - rows.start
        panel = np.zeros((n, rows.stop))
        panel[np.arange(n), n - 1 - np.arange(n)] = 1.0
        solve_rows(self.turned[M - rows.stop :, M - rows.stop :], panel)
        self.factor[rows, : rows.stop] = panel[:, ::-1]
        self.factor[rows, rows.stop :] = 0.0


# Adam's steps, with natural-gradient steps for a law, one at a time.

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

PIECE = 2**13
"""Entries that move at a time, so that a processor's nearest cache holds all that a step needs of them."""


class Steps:
    """A vector that moves by Adam's steps, each clipped to its bounds.

    Parameters
    ----------
    x : array (p,)
        The start.
    bounds : list of (low, high)
    rate : float
        Step length.
    natural : NaturalSteps, optional
        The last entries of the vector are a law, which takes natural-gradient steps instead of Adam's.  The first
        moments of its C are then the precision Λ, or 0 where the next step computes it from C.

    >>> steps = Steps(np.array([3.0]), [(-9.0, 9.0)], 0.5)
    >>> for _ in range(200):
    ...     steps.take(2.0 * steps.x)
    >>> bool(abs(steps.x[0]) < 0.1)
    True
    """

    def __init__(
        self, x: Float, bounds: list[tuple[float, float]], rate: float, natural: NaturalSteps | None = None
    ) -> None:
        self.low, self.high = (np.array(ends, dtype=np.float64) for ends in zip(*bounds, strict=True))
        self.x, self.rate, self.natural = np.clip(x, self.low, self.high), rate, natural
        self._first_rate, self.share = rate, 1.0  # of the rate that Adam's steps take
        self._bounded = np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))
        self.first, self.second, self.t = np.zeros_like(self.x), np.zeros_like(self.x), 0
        self.failed = 0
        self._spare: tuple[Float, Float, Float] | None = None
        self._space = Workspace(0)

    def take(self, g: Float) -> None:
        """One step, for the gradient g at the current vector, which stays where a natural step is impossible.

        It writes into the memory of the vector before the current one: a vector stays as it is for one more step.
        """
        self.failed = 0
        self.t += 1
        x, first, second = self._spare or (np.empty_like(self.x), np.empty_like(self.x), np.empty_like(self.x))
        q = 0 if self.natural is None else self.natural.size
        rest, work = g.size - q, np.empty(PIECE)
        for start in range(0, rest, PIECE):
            piece = slice(start, min(start + PIECE, rest))
            self._adam(g[piece], piece, x[piece], first[piece], second[piece], work[: piece.stop - start])
        at, precision = self._bounded, first[g.size :]
        if self.natural is not None:
            law = slice(rest, rest + self.natural.M)
            precision = first[law.stop :]
            precision[...] = self.first[law.stop :]
            more: dict[str, Any] = {"share": self.slowed, "precision": precision}
            x[rest:] = self.natural.moved(self.x[rest:], g[rest:], self.t, self._space, **more)
            first[law], second[rest:] = 0.0, 0.0
        before = x[at]
        x[at] = np.clip(before, self.low[at], self.high[at])
        if (x[at] != before)[at >= rest].any():
            precision[...] = 0.0  # of another law
        self._spare = self.x, self.first, self.second
        self.x, self.first, self.second = x, first, second

    def _adam(self, g: Float, piece: slice, x: Float, first: Float, second: Float, work: Float) -> None:
        """Adam's step of some entries, bounds apart, written into ``x``, ``first``, ``second``; overwrites ``work``."""
        np.multiply(BETA1, self.first[piece], out=first)
        first += np.multiply(1.0 - BETA1, g, out=work)
        np.multiply(BETA2, self.second[piece], out=second)
        np.multiply(g, g, out=work)
        work *= 1.0 - BETA2
        second += work
        np.multiply(second, 1.0 / (1.0 - BETA2**self.t), out=work)
        np.sqrt(work, out=work)
        work += EPSILON
        np.divide(first, work, out=x)
        x *= -self.share * self.rate / (1.0 - BETA1**self.t)
        x += self.x[piece]

    @property
    def slowed(self) -> float:
        """The step length as a share of the first one."""
        return self.rate / self._first_rate if self._first_rate else 1.0

    def back(self, x: Float, share: float = 0.5) -> None:
        """Return to x from a point without a value, or a bad one: moments begin anew, with a ``share`` of the rates."""
        self.x, self.t, self.rate, self.failed = x.copy(), 0, share * self.rate, self.failed + 1
        self.first, self.second, self._spare = np.zeros_like(self.x), np.zeros_like(self.x), None

    def state(self) -> dict[str, Any]:
        """Arrays and plain numbers; the next step does not change them, the one after does."""
        plain = {"t": self.t, "rate": self.rate, "failed": self.failed}
        return {"x": self.x, "first": self.first, "second": self.second, **plain}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self.x, self.first, self.second = (np.array(state[name]) for name in ("x", "first", "second"))
        self._spare = None
        self.t, self.rate, self.failed = state["t"], state["rate"], state["failed"]


# Adam on all data or on mini-batches, with a record of its course.

_WINDOW = 50
"""A run on all data has converged after this many steps without progress."""
_REFERENCE = 10
"""Steps between two evaluations of the reference batch."""
PATIENCE = 20
"""A run has stalled after this many failures in a row."""
DRIFT = 1e-3
"""Steps have drifted off if F is below F* − `DRIFT`·max(1, |F*|), F* the best value, or for mini-batches the first."""
SLOWER, SLOWEST = 0.125, 1e-4
"""Drifted steps restart at the best point with `SLOWER` times the step length, down to `SLOWEST` times the first."""
BAD = 5
"""Mini-batches have drifted off after so many values of the reference batch in a row below its first one."""


@dataclass(frozen=True)
class Batches:
    """Losses of random rows.

    Attributes
    ----------
    draw : function of a Generator and of the number of the step, from 0
        Returns the loss of the next batch.
    reference : Loss
        The loss of one fixed batch, on which points are compared to find the best; its derivatives are not used.
    period : float
        Number of steps over which Adam's shorten to 0, as half a period of a cosine.
    """

    draw: Callable[[np.random.Generator, int], Loss]
    reference: Loss
    period: float = math.inf


def train_adam(
    loss: Loss | Batches,
    start: Float,
    bounds: list[tuple[float, float]],
    *,
    max_iter: int,
    learning_rate: float = 0.05,
    ending: Ending | None = None,
    resolution: Resolution | None = None,
    ftol: float = 1e-9,
    rng: np.random.Generator | None = None,
    natural: NaturalSteps | None = None,
    earlier: Run | None = None,
    save: Callable[[Run], None] | None = None,
    progress: bool = False,
    label: str = "training",
) -> Run:
    """Minimise by Adam, each step clipped to ``bounds``; a continued run takes the same path bit for bit.

    On all data, the run has settled when further steps are expected to gain less than ``ending.tol``, and has converged
    when 50 steps improve the loss by less than ``ftol`` times its size.  Mini-batches use all ``max_iter`` steps; the
    result is the best point on the reference batch, which is evaluated every 10 steps.
    At a point without a value, Adam returns to the best point, resets its moments and halves its step length; the same
    with an eighth of it where the run would end far below its best point, or mini-batches fall below their start.

    Parameters
    ----------
    loss : Loss or Batches
    start : array (p,)
    bounds : list of (low, high)
    max_iter : int
        Largest number of steps, including those of ``earlier``.
    learning_rate, ftol : float
    rng : numpy.random.Generator
        For `Batches`.
    natural : NaturalSteps, optional
        The last entries of the vector are a law, which takes natural-gradient steps instead of Adam's.
    ending, resolution, earlier, save, progress : as in `train_lbfgs`; mini-batches need no ``resolution``

    Raises
    ------
    NotPositiveDefinite, NonFinite, ArithmeticError
        when the loss has no value at the start.

    >>> run = train_adam(lambda x: (float(x @ x), 2.0 * x), np.array([0.3]), [(-9.0, 9.0)], max_iter=2000)
    >>> run.status, abs(run.value) < 1e-6
    ('converged', True)
    """
    again: dict[str, Any] = {"earlier": earlier, "save": save, "progress": progress, "label": label}
    bounds = checked(loss, start, bounds, max_iter=max_iter, ftol=ftol, learning_rate=learning_rate, **again)
    instances(ending=(ending, Ending), resolution=(resolution, Resolution), natural=(natural, NaturalSteps))
    instances(rng=(rng, np.random.Generator))
    max_iter, ending = int(max_iter), None if isinstance(loss, Batches) else ending
    shown: dict[str, Any] = {"progress": progress, "label": label}
    watch = Watch(start, max_iter=max_iter, earlier=earlier, ending=ending, save=save, **shown)
    steps = Steps(watch.best, bounds, learning_rate, natural)
    state = {} if earlier is None else earlier.state
    walk = _Walk(watch, loss, steps, np.random.default_rng(0) if rng is None else rng, state)
    walk.resolution = None if isinstance(loss, Batches) else resolution
    watch.state = walk.state
    try:
        return walk.go(max_iter, ftol)
    except KeyboardInterrupt:
        return watch.interrupted()
    finally:
        watch.close()


class _Walk:
    resolution: Resolution | None = None

    def __init__(
        self, watch: Watch, loss: Loss | Batches, steps: Steps, rng: np.random.Generator, earlier: dict[str, Any]
    ) -> None:
        self.watch, self.loss, self.steps, self.rng = watch, loss, steps, rng
        self.bad = 0
        if earlier:
            self.bad, watch.since = earlier.get("bad", 0), earlier.get("since", 0)
            self.steps.restore(earlier)
            self.rng.bit_generator.state = earlier["rng"]
        self._done = self._snapshot()

    def go(self, max_iter: int, ftol: float) -> Run:
        watch, batches = self.watch, isinstance(self.loss, Batches)
        if not watch.values:
            f, _ = self._reference(self.steps.x)
            watch.begin(f)
            watch.keep(self.steps.x, f)
        while watch.iterations < max_iter:
            f = self._advance()
            self._done = self._snapshot()  # the state that is kept if Ctrl-C interrupts the next step
            watch.step(f)
            if self.steps.failed >= PATIENCE:
                return watch.end("stalled", f"{PATIENCE} steps in a row had no value; the best point seen is kept.")
            settled, rests = watch.settled(), not batches and self.resolution is None and self._rests(ftol)
            if self._drifted(rests or settled is not None):
                if self.steps.slowed <= SLOWEST:
                    return watch.end("stalled", "Steps of all lengths lead away from the best point, which is kept.")
                self.steps.back(watch.best, SLOWER)
                self.bad, watch.since = 0, len(watch.values)
                self._done = self._snapshot()
            elif settled is not None:
                return self._end("settled", settled)
            elif self.resolved is not None:
                return self._end("resolved", self.resolved)
            elif rests:
                return self._end("converged", f"Converged after {watch.iterations} steps.")
            watch.checkpoint()  # not of a run that has ended: resumed after a kill, it would take one step more
        if batches:
            return watch.end("iterations", self._cut or f"All {max_iter} mini-batches were drawn.")
        return watch.end("iterations", f"All {max_iter} steps are used; raise max_iter to go on.")

    @property
    def _cut(self) -> str:
        """A sentence if steps had to be cut, since longer ones led away from the best point."""
        if self.watch.since == 0:
            return ""
        return (
            f"Steps of the given length led away from the best point, and were cut to {self.steps.slowed:.1g} of it. "
            "The best point is kept; it may be no optimum. Lower learning_rate or natural_rate, or take 'lbfgs'."
        )

    def _end(self, status: Status, reason: str) -> Run:
        return self.watch.end("stalled", self._cut) if self._cut else self.watch.end(status, reason)

    def _advance(self) -> float:
        watch, loss, steps = self.watch, self.loss, self.steps
        self.resolved: str | None = None
        f, g = watch.measure(loss.draw(self.rng, watch.iterations) if isinstance(loss, Batches) else loss, steps.x)
        if not math.isfinite(f):
            steps.back(watch.best)
            return f
        if not isinstance(loss, Batches):
            watch.keep(steps.x, f)
        if self.resolution is not None:
            self.resolved = self.resolution.reason(steps.x, g, watch.iterations)
        try:
            steps.share = 0.5 + 0.5 * math.cos(math.pi * watch.iterations / getattr(loss, "period", math.inf))
            steps.take(g)
        except FAULTS as fault:
            watch.failures, watch.fault = watch.failures + 1, fault
            steps.back(watch.best)
            return f
        if isinstance(loss, Batches) and (watch.iterations + 1) % _REFERENCE == 0:
            reference = self._reference(steps.x)[0]
            watch.keep(steps.x, reference)
            self.bad = self.bad + 1 if _below(-reference, watch.values[0]) else 0
        return f

    def _drifted(self, ends: bool) -> bool:
        """Whether mini-batches have drifted off their start, or a run that ``ends`` off its best point."""
        if isinstance(self.loss, Batches):
            return self.bad >= BAD
        since = self.watch.values[self.watch.since :]
        return ends and _below(max(since[len(since) // 2 :][-_WINDOW:]), self.watch.value)

    def _reference(self, x: Float) -> tuple[float, Float]:
        return self.watch.measure(self.loss.reference if isinstance(self.loss, Batches) else self.loss, x)

    def _rests(self, ftol: float) -> bool:
        values = self.watch.values
        if len(values) - self.watch.since <= 2 * _WINDOW:
            return False
        recent, before = max(values[-_WINDOW:]), max(values[:-_WINDOW])
        return recent <= before + ftol * max(1.0, abs(before))

    def _snapshot(self) -> dict[str, Any]:
        own = {"rng": self.rng.bit_generator.state, "bad": self.bad, "since": self.watch.since}
        return {**self.steps.state(), **own}

    def state(self) -> dict[str, Any]:
        """The state after the last complete step, which no later step changes."""
        return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in self._done.items()}


def _below(value: float, best: float) -> bool:
    return value < best - DRIFT * max(1.0, abs(best))


# Weights by mini-batches, all else by all rows.


@dataclass(frozen=True)
class Stale:
    """An objective of all rows whose weights move by mini-batches, between two passes, at the q of the last pass.

    Attributes
    ----------
    whole : Loss
        −log p(y) of all rows.
    held : function of a vector
        Takes q, the best one at the vector, and all parameters but the weights from it, and returns the function
        (weights, rows) ↦ derivatives in the weights of the rows' estimate of −ELBO.
    weights : slice
        The places of the weights in a vector.
    N, size : int
        Number of rows, and of rows in a batch.
    """

    whole: Loss
    held: Callable[[Float], Callable[[Float, Any], Float]]
    weights: slice
    N: int
    size: int


def train_semi_stochastic(
    loss: Stale,
    start: Float,
    bounds: list[tuple[float, float]],
    *,
    max_iter: int,
    learning_rate: float = 1e-3,
    rng: np.random.Generator | None = None,
    earlier: Run | None = None,
    save: Callable[[Run], None] | None = None,
    progress: bool = False,
    label: str = "training",
) -> Run:
    """Minimise by Adam: the weights by mini-batches, all other parameters once in each pass over all rows.

    An iteration computes q, the posterior at the current point, and log p(y) with its derivatives.  With q and the
    other parameters held, the weights take a step of ``learning_rate`` for each of the n batches into which the rows
    fall; then the others take one, n times as long, along their derivatives at the pass.  The steps of the weights
    climb the ELBO of that q, of which a batch is an unbiased estimate.  It is at most log p(y), and at the pass both
    have one value and the same derivatives; later in the iteration they are biased as derivatives of log p(y).

    Parameters
    ----------
    loss : Stale
    start : array (p,)
    bounds : list of (low, high)
    max_iter : int
        Largest number of passes, including those of ``earlier``; all are used.
    learning_rate : float
    rng : numpy.random.Generator
        Draws the batches.
    earlier, save, progress, label : as in `train_lbfgs`

    Returns
    -------
    Run
        The point with the largest log p(y), which is exact, among those after an iteration; one iteration is a pass.

    Raises
    ------
    NotPositiveDefinite, NonFinite, ArithmeticError
        when the loss has no value at the start.

    >>> loss = Stale(lambda x: (float(x @ x), 2.0 * x), lambda x: lambda w, rows: 2.0 * w, slice(1, 2), N=4, size=2)
    >>> run = train_semi_stochastic(loss, np.ones(2), [(-9.0, 9.0)] * 2, max_iter=200, learning_rate=0.01)
    >>> run.iterations, run.value > -1e-3
    (200, True)
    """
    again: dict[str, Any] = {"earlier": earlier, "save": save, "progress": progress, "label": label}
    bounds = checked(loss.whole, start, bounds, max_iter=max_iter, learning_rate=learning_rate, **again)
    instances(rng=(rng, np.random.Generator))
    watch = Watch(start, max_iter=int(max_iter), earlier=earlier, save=save, progress=progress, label=label)
    rng = np.random.default_rng(0) if rng is None else rng
    turns = _Turns(watch, loss, bounds, learning_rate, rng, {} if earlier is None else earlier.state)
    watch.state = turns.state
    try:
        return turns.go(int(max_iter))
    except KeyboardInterrupt:
        return watch.interrupted()
    finally:
        watch.close()


class _Turns:
    """The two walks, of the weights and of the other parameters."""

    def __init__(
        self,
        watch: Watch,
        loss: Stale,
        bounds: list[tuple[float, float]],
        rate: float,
        rng: np.random.Generator,
        earlier: dict[str, Any],
    ) -> None:
        self.watch, self.loss, self.rng = watch, loss, rng
        self.count = max(1, round(loss.N / loss.size))
        places = np.arange(len(bounds))
        self.places = {"weights": places[loss.weights], "others": np.delete(places, places[loss.weights])}
        self.steps = {
            name: Steps(watch.best[each], [bounds[i] for i in each], rate * self._factor(name))
            for name, each in self.places.items()
        }
        if earlier:
            for name, each in self.places.items():
                self.steps[name].restore(self._part(earlier, name, each))
            rng.bit_generator.state = earlier["rng"]
        self._done = self._snapshot()

    def _factor(self, name: str) -> int:
        """The length of a step in those of the weights; as often the weights take a step."""
        return 1 if name == "weights" else self.count

    def _part(self, state: dict[str, Any], name: str, places: Any) -> dict[str, Any]:
        """The state of one walk, from that of both."""
        factor = self._factor(name)
        arrays = {key: state[key][places] for key in ("x", "first", "second")}
        return {**arrays, "t": state["t"] // factor, "rate": state["rate"] * factor, "failed": state["failed"]}

    def _snapshot(self) -> dict[str, Any]:
        """The state of both: one vector of each kind, and the numbers of the weights."""
        both = {name: steps.state() for name, steps in self.steps.items()}
        arrays = {
            key: self._joined({name: each[key] for name, each in both.items()}) for key in ("x", "first", "second")
        }
        return {**both["weights"], **arrays, "rng": self.rng.bit_generator.state}

    def _joined(self, parts: dict[str, Float]) -> Float:
        vector = np.empty(sum(each.size for each in self.places.values()))
        for name, each in self.places.items():
            vector[each] = parts[name]
        return vector

    @property
    def x(self) -> Float:
        """The current vector."""
        return self._joined({name: steps.x for name, steps in self.steps.items()})

    def go(self, max_iter: int) -> Run:
        watch = self.watch
        f, g = watch.measure(self.loss.whole, self.x)
        watch.begin(f)
        watch.keep(self.x, f)
        while watch.iterations < max_iter:
            try:
                self._pass(np.array(g))
                f, g = watch.measure(self.loss.whole, self.x)
            except FAULTS as fault:
                watch.failures, watch.fault, f = watch.failures + 1, fault, math.inf
            if not math.isfinite(f):
                for name, each in self.places.items():
                    self.steps[name].back(watch.best[each])
                g = watch.measure(self.loss.whole, self.x)[1]
            watch.keep(self.x, f)
            self._done = self._snapshot()
            watch.step(f)
            if self.steps["weights"].failed >= PATIENCE:
                return watch.end("stalled", f"{PATIENCE} passes had no value; the best point seen is kept.")
            watch.checkpoint()
        return watch.end("iterations", f"All {max_iter} passes are used; raise max_iter to go on.")

    def _pass(self, g: Float) -> None:
        slopes, weights = self.loss.held(self.x), self.steps["weights"]
        for rows in np.array_split(self.rng.permutation(self.loss.N), self.count):
            weights.take(slopes(weights.x, np.sort(rows)))
        self.steps["others"].take(g[self.places["others"]])

    def state(self) -> dict[str, Any]:
        """The state after the last complete pass."""
        return self._done
