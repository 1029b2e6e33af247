"""Statements about inputs to come that are simulated: the bounds given each set, and the k-th greatest (N-sim)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float, as_number
from gpbounds.bound import FIXED, FIXED_IN_ADVANCE, Bound, Cost, Plan, claims_of, given_inputs
from gpbounds.errors import shown
from gpbounds.inputs import Empirical
from gpbounds.kernels import Kernel
from gpbounds.rates.base import Numbers, Statement, sentences, silent
from gpbounds.rates.draws.rows import DENSE, StreamedRows
from gpbounds.rates.draws.sentences import FIXED_BEFORE
from gpbounds.rates.draws.statement import DrawsFromRows, draws_from_rows
from gpbounds.rates.one_draw import OneDraw, one_draw_only

# Bounds given X, stated before X is seen: simulated inputs, and the k-th greatest of their bounds (N-sim).

Answer = TypeVar("Answer")


class _SampledLaw(Protocol):
    """A law of inputs that can be sampled, in any dimension."""

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        ...

    def sample(self, N: int, rng: np.random.Generator) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        ...


@dataclass(frozen=True)
class Simulation:
    """m sets of N inputs from a law, and the order statistic of their values that holds for the future set (N-sim).

    Let F be any function of X, and X, X¹ ... X^m independent sets of N inputs from one law:

        P(F(X) > k-th greatest of F(X¹) ... F(X^m)) <= k/(m+1).

    The proof is that of N-sim.  Equality if F has no ties. Kernel, law and dimension are arbitrary, and no spectrum is
    needed.

    The statement holds for one simulation: if you choose among several seeds, or along a curve of M, it does not hold.

    Attributes
    ----------
    inputs : a law with ``dim`` and ``sample(N, rng)``
    N : int
    sets : int
        m.
    order : int
        k.
    rest : float
        δ − k/(m+1), the part of δ for the statement given X.
    rng : Generator
        In its state before the first set.
    """

    inputs: _SampledLaw
    N: int
    sets: int
    order: int
    rest: float
    rng: np.random.Generator

    def samples(self) -> Iterator[Float]:
        """The simulated sets of inputs, each of shape (N, dim), the same ones each time."""
        rng = deepcopy(self.rng)
        for _ in range(self.sets):
            yield self.inputs.sample(self.N, rng)

    def answers(self, given: Callable[[Float], Answer]) -> list[Answer]:
        """``given`` of each simulated set."""
        return [given(X) for X in self.samples()]

    def greatest(self, values: Float) -> Float:
        """The k-th greatest along the first axis, of length m, entry by entry."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape[:1] != (self.sets,) or np.isnan(values).any():
            raise ValueError(f"values: expected numbers, one row for each of the {self.sets} sets, got {shown(values)}")
        return np.sort(values, axis=0)[self.sets - self.order]

    @property
    def sentence(self) -> str:
        """A sentence about the simulation, as a hypothesis."""
        return (
            f"The N inputs are drawn independently from {self.inputs!r}; so were {self.sets} sets of N, simulated "
            f"once, and what is {'' if self.order == 1 else f'{_ordinal(self.order)} '}greatest among them is stated: "
            f"it fails for the inputs to come with probability at most {self.order}/{self.sets + 1}."
        )


def simulation(
    inputs: _SampledLaw, N: int, *, sets: int, delta: float, rng: np.random.Generator | int | None = None
) -> Simulation:
    """The :class:`Simulation` that spends at most half of δ: k = ⌊(m+1)δ/2⌋.

    Parameters
    ----------
    inputs : a law with ``dim`` and ``sample(N, rng)``, not Empirical
    N : int
    sets : int
        m, the number of simulated sets of inputs.
    delta : float
        δ in (0, 1), for the simulation and the statement given X together.
    rng : numpy.random.Generator or int, optional
        A Generator is spawned from, so that the next simulation draws other sets.

    Raises
    ------
    ValueError
        for inputs that are the data themselves, or have no ``sample``; if k = 0; the message then names the least m.

    >>> from gpbounds.inputs import Gaussian
    >>> plan = simulation(Gaussian(), 100, sets=39, delta=0.05, rng=0)
    >>> plan.order, plan.rest
    (1, 0.025)
    """
    if isinstance(inputs, Empirical):
        raise ValueError(
            "simulate: expected a law of inputs to simulate from, got Empirical(X): for given inputs nothing is "
            "simulated; leave simulate out, or pass the law that X came from"
        )
    if not callable(getattr(inputs, "sample", None)):
        raise ValueError(f"inputs: expected a law with sample(N, rng), got {type(inputs).__name__}")
    m, level = validation.repetitions("simulate", sets), validation.scalar(validation.open_unit, "delta", delta)
    k = math.floor((m + 1) * level / 2.0 * (1.0 + 1e-12))
    if k == 0:
        least = math.ceil(2.0 / level * (1.0 - 1e-12)) - 1
        raise ValueError(
            f"simulate: expected at least {least} sets of inputs for delta = {level:g}, of which the simulation may "
            f"spend half, got {m}: the greatest of {m} is exceeded with probability 1/{m + 1}"
        )
    source = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else validation.generator(rng)
    return Simulation(inputs, validation.count("N", N, 1), m, k, level - k / (m + 1), source)


def simulated_bound(plan: Simulation, given: Callable[[Float], Bound], *, delta: float) -> Bound:
    """The k-th greatest of the bounds that m simulated sets of inputs give: an upper bound before X is seen (N-sim).

    ``given(X)`` fails with probability at most ``plan.rest`` for every fixed X, over y and Z; so with probability at
    least 1 − δ over the simulation, X, y and Z the quantity is at most the k-th greatest of ``given(X¹) ...
    given(X^m)``.  If ``given(X)`` is an array, for instance over a grid of M, each entry is a separate statement.

    Parameters
    ----------
    plan : Simulation
    given : function of X, shape (N, dim)
        An upper bound given X.
    delta : float
        The δ of ``plan``.

    >>> from gpbounds import Empirical, Matern, Uniform, rate
    >>> kernel = Matern(1.5) * Matern(0.5, 1.0, 3.0)  # no spectrum is known for products
    >>> plan = simulation(Uniform([0, 0], [1, 1]), 60, sets=39, delta=0.05, rng=0)
    >>> bound = simulated_bound(
    ...     plan, lambda X: rate(kernel, 60, 20, 1.0, inputs=Empirical(X), delta=plan.rest), delta=0.05
    ... )
    >>> float(bound) > bound.terms["median of the sets"], bound.confidence
    (True, 0.95)
    """
    bounds = plan.answers(given)
    values = np.array([np.asarray(bound.value, dtype=np.float64) for bound in bounds])
    value = plan.greatest(values)
    infinite = [bound for bound, row in zip(bounds, values, strict=True) if np.isinf(row).any()]
    assumptions = _assumptions(plan, [bound for bound in bounds if bound not in infinite] or bounds[:1])
    if value.ndim:
        assumptions.append("Each entry of the array is a separate statement; they need not hold simultaneously.")
    if np.isinf(value).any():
        why = infinite[0].assumptions[-1]
        assumptions.append(f"For {len(infinite)} of the {plan.sets} simulated sets of inputs no bound is proved. {why}")
    return Bound(
        value=as_number(value),
        side="upper",
        confidence=as_number(np.broadcast_to(1.0 - delta, value.shape)),
        claim=_claims(bounds),
        terms={"median of the sets": as_number(np.median(values, axis=0)), "delta given X": plan.rest},
        assumptions=tuple(assumptions),
        certified=all(bound.certified for bound in bounds),
        quantity=bounds[0].quantity,
    )


def simulated_size(plan: Simulation, least: Callable[[Float], int | None]) -> tuple[int | None, Float]:
    """(M, the M's of the sets): the k-th greatest of the M's that the simulated sets need for a target (N-sim).

    ``least(X)``, the least M from which on the bound given X is at most the target, or None, is a function of X; so the
    future set needs more than the k-th greatest with probability at most k/(m+1).  Do not choose M on a simulated curve
    instead: the curve holds at each M that is fixed in advance, not at a chosen M.

    >>> from gpbounds.inputs import Gaussian
    >>> plan = simulation(Gaussian(), 5, sets=39, delta=0.05, rng=0)
    >>> M, sizes = simulated_size(plan, lambda X: 1 + int(10 * abs(X[0, 0])))
    >>> M == int(sizes[-1])
    True
    """
    sizes = np.array([math.inf if M is None else float(M) for M in plan.answers(least)])
    needed = float(plan.greatest(sizes))
    return (None if math.isinf(needed) else int(needed)), np.sort(sizes)


def simulated_plan(
    plan: Simulation,
    least_given: Callable[[Float], tuple[int, Bound] | None],
    target: float,
    delta: float,
    meaning: tuple[str, ...],
) -> Plan:
    """The plan with the M of `simulated_size`; ``least_given(X)`` is the least M for the rows X and the bound there."""
    bounds: list[Bound] = []

    def size_for(X: Float) -> int | None:
        answer = least_given(X)
        if answer is None:
            return None
        bounds.append(answer[1])
        return answer[0]

    M, sizes = simulated_size(plan, size_for)
    fewest, middle, most = (_number(size) for size in (sizes[0], np.median(sizes), sizes[-1]))
    return Plan(
        method="inducing",
        N=plan.N,
        target=target,
        M=M,
        bound=None if M is None else _simulated_target(plan, bounds, target, delta, sizes),
        bound_before=None,
        meaning=meaning,
        cost=None if M is None else Cost.of(plan.N, M),
        notes=(
            f"The {plan.sets} simulated sets of inputs need from {fewest} to {most} points, in the median {middle}.",
        ),
    )


def _number(size: float) -> str:
    return f"{size:.0f}" if np.isfinite(size) else "N or more"


def _simulated_target(plan: Simulation, bounds: list[Bound], target: float, delta: float, sizes: Float) -> Bound:
    """The bound at the M of `simulated_size`: for future inputs the bound at M is at most the target.

    ``bounds`` are those of the sets at their own M.  The record states no sharper value, because M was chosen on the
    simulated sets.
    """
    return Bound(
        value=target,
        side="upper",
        confidence=1.0 - delta,
        claim=_claims(bounds),
        terms={"median M of the sets": float(np.median(sizes)), "delta given X": plan.rest},
        assumptions=tuple(_assumptions(plan, bounds)),
        certified=all(bound.certified for bound in bounds),
        quantity=bounds[0].quantity,
    )


def _claims(bounds: list[Bound]) -> str:
    return ", ".join(("N-sim", *claims_of(*bounds)))


def _assumptions(plan: Simulation, bounds: list[Bound]) -> list[str]:
    """The assumptions of the bounds, with the simulated law in place of the given rows."""
    sentences = dict.fromkeys(s for bound in bounds for s in bound.assumptions)
    of_data = (given_inputs(plan.N), FIXED_IN_ADVANCE, FIXED_BEFORE)  # replaced, since X is not known yet
    return [*(s for s in sentences if s not in of_data), plan.sentence, FIXED]


def _ordinal(k: int) -> str:
    """2 -> 2nd, 3 -> 3rd, 11 -> 11th.

    >>> [_ordinal(k) for k in (1, 2, 3, 5, 11, 22)]
    ['1st', '2nd', '3rd', '5th', '11th', '22nd']
    """
    ending = "th" if 10 <= k % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(k % 10, "th")
    return f"{k}{ending}"


# Statements about inputs that are simulated: the statement given X, of each set.

_DECOMPOSED = 1000
"""Number of rows up to which K is always decomposed."""
_ROWS_PER_POINT = 12
"""K is also decomposed below this number of rows per inducing point, where three pivots per point cost as much."""
PIVOTS = 64
"""Number of pivots at the start."""


@dataclass(frozen=True, eq=False)
class ToCome(Statement):
    """The greatest, or k-th greatest, of the bounds given X of simulated sets of inputs (N-sim).

    Attributes
    ----------
    kernel : Kernel
    plan : Simulation
    numbers : Numbers
        With the whole δ, for the simulation and the statement given X.
    draws : int or None
        None for one draw.
    options : dict
        y_norm2_known, law, form, direction.
    """

    kernel: Kernel
    plan: Simulation
    numbers: Numbers
    draws: int | None
    options: dict[str, Any]

    @classmethod
    def checked(
        cls, kernel: Kernel, plan: Simulation, numbers: Numbers, draws: int | str | None, options: dict[str, Any]
    ) -> ToCome:
        """The statement, with one law of draws for all sets: by default tilted for y from the prior, else the k-DPP."""
        if draws is None:
            one_draw_only(options["y_norm2_known"], options["law"])
        elif options["law"] is None:
            tilted = numbers.y_norm2 is None and plan.N <= DENSE
            options = {**options, "law": "tilted" if tilted else "kdpp"}
        if isinstance(draws, str):
            raise ValueError(
                f"draws: expected a whole number with simulate, because redrawing needs y; got {shown(draws)}"
            )
        return cls(kernel, plan, numbers, draws, options)

    @property
    def within(self) -> Numbers:
        """The numbers of the statement given X, with the remaining part of δ."""
        return replace(self.numbers, delta=np.asarray(self.plan.rest))

    def one_draw(self, X: Float) -> OneDraw:
        """One draw from the rows X."""
        form, direction, N = self.options["form"], self.options["direction"], np.asarray(float(self.plan.N))
        return OneDraw.of(self.kernel, Empirical(X), N, self.within, form=form, direction=direction, rigor="float")

    def several(self, X: Float, *, decomposed: bool) -> DrawsFromRows:
        """The best of several draws from the rows X, from eigenvalues or from pivots."""
        return draws_from_rows(
            self.kernel,
            Empirical(X),
            self.within,
            y=None,
            draws=self.draws,
            dense=self.plan.N if decomposed else 0,
            first=PIVOTS,
            rigor="float",
            **self.options,
        )

    def ways(self, largest: int) -> tuple[bool, ...]:
        """Whether to decompose K for M up to ``largest``: pivots first where they cost less, then eigenvalues."""
        N = self.plan.N
        if N > DENSE:
            return (False,)
        return (True,) if N <= max(_DECOMPOSED, _ROWS_PER_POINT * largest) else (False, True)

    def given(self, X: Float, M: Float) -> Bound:
        """The bound given the rows X."""
        if self.draws is None:
            return self.one_draw(X).bound(M)
        for decomposed in self.ways(int(M.max())):
            bound = self.several(X, decomposed=decomposed).bound(M)
            if np.isfinite(bound.value).all():
                break
        return bound

    def bound(self, M: Float) -> Bound:
        """The k-th greatest of the bounds of the sets, entry by entry."""
        return simulated_bound(self.plan, lambda X: self.given(X, M), delta=float(self.numbers.delta))

    def least_given(self, X: Float, target: float, guess: int | None = None) -> tuple[int, Bound] | None:
        """The least M at which the bound given the rows X is at most the target, and the bound there, for any guess."""
        N = self.plan.N
        if self.draws is None:
            plan = self.one_draw(X).least(target)
            return None if plan.M is None or plan.bound is None else (plan.M, plan.bound)
        few = N // _ROWS_PER_POINT
        for decomposed in self.ways(few - 1):
            largest = N - 1 if decomposed or N > DENSE else few
            answer = _least(self.several(X, decomposed=decomposed), target, largest, guess)
            if answer is not None:
                return answer
        return None

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        """The k-th greatest of the M's that the simulated sets need.

        Given X the bounds decrease in M, so at this M the bound for the future inputs is at most the target, except
        with the probability that the simulation spends.
        """
        alpha, delta = float(self.numbers.alpha), float(self.numbers.delta)

        guess: int | None = None

        def of_set(X: Float) -> tuple[int, Bound] | None:
            nonlocal guess
            advance()
            answer = self.least_given(X, target, guess)
            guess = guess if answer is None else answer[0]
            return answer

        return simulated_plan(self.plan, of_set, target, delta, sentences(target, alpha))


def _least(statement: DrawsFromRows, target: float, largest: int, guess: int | None) -> tuple[int, Bound] | None:
    """The least M up to ``largest`` at which the bound is at most the target, and the bound there."""
    rows = statement.rows
    if isinstance(rows, StreamedRows):
        guess = None  # what pivots prove depends on the numbers tried before: it must be a function of X alone
    M = statement.least_below(target, min(largest, statement.largest), guess=guess)
    if M is None and isinstance(rows, StreamedRows) and 1 < rows.pivots <= largest:
        # beyond the pivots there are up to rounding error nothing is proved
        M = statement.least_below(target, rows.pivots - 1)
    return None if M is None else (M, statement.at(M))
