"""``inducing_points``: the least M from which on the bound of ``rate`` stays below a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical, Gaussian, InputLaw, on_a_line
from gpbounds.kernels import Kernel
from gpbounds.numerics.search import last_above, least, upward
from gpbounds.plan import Cost, Plan
from gpbounds.rates.balls import REFUSED
from gpbounds.rates.draws.line import LineStatement, line_statement
from gpbounds.rates.draws.statement import NOT_CERTIFIED, DrawStatement, draw_statement
from gpbounds.rates.expected_trace import GivenData
from gpbounds.rates.meaning import sentences
from gpbounds.rates.setting import Numbers, Setting, one_draw_only
from gpbounds.rates.simulation import simulated_size, simulated_target, simulation
from gpbounds.rates.to_come import ToCome
from gpbounds.rigor import rigor_of


def least_from_which_on(setting: Setting, N: int, target: float, highest: int) -> int | None:
    """The least M <= highest such that the bound is <= target at M and at every larger M <= highest."""
    size = np.asarray(float(N))

    def majorant(a: Float, b: Float) -> Float:
        # The sharpest form decreases in M; the printed one has a factor M + 1 before a tail that decreases.
        arguments = (a,) if setting.form == "sharpest" else (b, a)
        return setting.evaluate(size, *arguments)[0]

    # Search upward first: a spectrum in best-first order should not compute more eigenvalues than the answer needs.
    top = np.asarray(float(highest))
    interval = upward(lambda m: bool(majorant(np.asarray(float(m)), top) <= target), min(64, highest), highest)
    if interval is None:
        return None
    above = last_above(majorant, 1, interval[1], target)
    return 1 if above is None else above + 1


def inducing_points(
    kernel: Kernel,
    N: int,
    alpha: float,
    *,
    target: float,
    inputs: InputLaw | None = None,
    noise: float = 0.1,
    delta: float = 0.05,
    y: ArrayLike | None = None,
    draws: int | str | None = None,
    y_norm2: float | None = None,
    y_norm2_known: str = "after",
    simulate: int | None = None,
    rng: np.random.Generator | int | None = None,
    law: str | None = None,
    tv: float = 0.0,
    form: str = "sharpest",
    direction: str = "q||p",
    certified: bool | None = None,
    rigor: str = "auto",
    progress: bool = False,
) -> Plan:
    """The least number M of inducing points from which on the bound of :func:`rate` stays <= ``target``.

    Inequality, hypotheses and parameters are those of :func:`rate`, with one number for each.  M is fixed before the
    draws: the plan uses X, y and the law of the draws, but no draw.  The sharpest form decreases in M, so bisection
    gives the answer.  The printed form need not decrease; intervals are excluded by
    (b+1)·tail(a) >= (m+1)·tail(m), a <= m <= b.  N may be 1e9.  With ``rigor="sharp"`` M is the least number from which
    on the end of the ball is at most the target.  What is certified in doubles is the bound at M, as in :func:`rate`.

    With ``simulate=m`` (N-sim) M is the k-th greatest of the numbers that m simulated sets of inputs need: for future
    inputs the bound at this M is at most the target.

    Parameters
    ----------
    target : float
        The bound on D_α must not exceed it, in nats.
    progress : bool
        Show a bar that counts the simulated sets, or the numbers M that were tried.

    Returns
    -------
    Plan
        ``.M`` (None if no M < N suffices), ``.bound``, ``.bound_before`` (at M - 1), ``.needed`` (for
        ``inputs=Empirical(X)``: with fewer, no choice of inducing variables reaches the target, N-low), ``.meaning``,
        ``.cost``.

    Raises
    ------
    ValueError
        as :func:`rate`; for a target that is not positive; for an array.
    NotConverged
        if the spectrum cannot be computed as far as the answer needs.

    >>> from gpbounds.kernels import SquaredExponential
    >>> plan = inducing_points(SquaredExponential(), N=1_000_000, alpha=1.0, target=0.01)
    >>> plan.M, float(plan.bound) <= 0.01 < float(plan.bound_before)
    (28, True)
    """
    size = validation.count("N", N, 2)
    target = float(validation.positive("target", target))
    law_of_inputs: Any = Gaussian() if inputs is None else inputs
    options: dict[str, Any] = {"y_norm2_known": y_norm2_known, "law": law, "form": form, "direction": direction}
    chosen = rigor_of(rigor, certified, was="auto")
    if certified and (y is None or simulate is not None):
        raise ValueError(NOT_CERTIFIED)
    several = y is not None or draws is not None
    if chosen == "sharp" and (simulate is not None or (several and not isinstance(law_of_inputs, Empirical))):
        raise ValueError(REFUSED)
    if simulate is not None:
        if y is not None:
            raise ValueError("y: expected None with simulate: targets of simulated inputs are not known")
        numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
        numbers.single()
        plan = simulation(law_of_inputs, size, sets=simulate, delta=float(numbers.delta), rng=rng)
        with _bar(simulate, "set", progress) as bar:
            return _simulated(ToCome.checked(kernel, plan, numbers, draws, options), target, bar.update)
    if y is None and draws is None:
        one_draw_only(y_norm2_known, law)
        setting = Setting.checked(kernel, alpha, inputs, noise, delta, y_norm2, tv, form, direction, chosen)
        setting.numbers.single()
        return _one_draw(setting, size, target)
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
    single = numbers.single()
    if y is None and on_a_line(law_of_inputs):
        line = line_statement(kernel, law_of_inputs, size, draws=draws, prior=y_norm2 is None, **options)
        with _bar(None, "try", progress) as bar:
            return _several_draws(line, single, size, target, bar.update)
    with _bar(None, "try", progress) as bar:
        statement = draw_statement(
            kernel,
            law_of_inputs,
            y=y,
            draws=draws,
            prior=y_norm2 is None,
            certified=bool(certified),
            rigor=chosen,
            **options,
        )
        statement.require(np.asarray(float(size)))
        return _several_draws(statement, single, size, target, bar.update)


def _bar(total: int | None, unit: str, progress: bool) -> Any:
    from tqdm import tqdm

    return tqdm(desc="Inducing points", total=total, unit=unit, leave=False, disable=not progress)


def _simulated(to_come: ToCome, target: float, advance: Callable[[], Any]) -> Plan:
    """The k-th greatest of the M's that the simulated sets need (N-sim).

    Given X the bounds decrease in M, so at this M the bound for the future inputs is at most the target, except with
    the probability that the simulation spends.
    """
    single = to_come.numbers.single()
    alpha, delta, N = float(single["alpha"] or 0.0), float(single["delta"] or 0.0), to_come.plan.N
    bounds: list[Bound] = []

    def size_for(X: Float) -> int | None:
        advance()
        if to_come.draws is None:
            plan = _one_draw(to_come.setting(X), N, target)
            answer = None if plan.M is None or plan.bound is None else (plan.M, plan.bound)
        else:
            answer = to_come.least(X, target)
        if answer is None:
            return None
        bounds.append(answer[1])
        return answer[0]

    M, sizes = simulated_size(to_come.plan, size_for)
    fewest, middle, most = (_number(size) for size in (sizes[0], np.median(sizes), sizes[-1]))
    return Plan(
        method="inducing",
        N=N,
        target=target,
        M=M,
        bound=None if M is None else simulated_target(to_come.plan, bounds, target, delta, sizes),
        bound_before=None,
        meaning=sentences(target, alpha),
        cost=None if M is None else Cost.of(N, M),
        notes=(
            f"The {to_come.plan.sets} simulated sets of inputs need from {fewest} to {most} points, in the median "
            f"{middle}.",
        ),
    )


def _number(size: float) -> str:
    return f"{size:.0f}" if np.isfinite(size) else "N or more"


def _one_draw(setting: Setting, N: int, target: float) -> Plan:
    law = setting.law
    highest = min(N - 1, law.spectrum.rank) if isinstance(law, GivenData) else N - 1
    M = least_from_which_on(setting, N, target, highest)
    if setting.enclosed is not None and M is not None:
        M = _fewest(setting, N, target, M)
    return Plan.at(
        M,
        lambda M: setting.bound(np.asarray(float(N)), np.asarray(float(M))),
        first=1,
        method="inducing",
        N=N,
        target=target,
        needed=_needed(setting, law, target) if isinstance(law, GivenData) and setting.direction == "q||p" else None,
        meaning=sentences(target, float(setting.alpha)),
    )


def _fewest(setting: Setting, N: int, target: float, M: int) -> int | None:
    """The least number of points for which the end of the ball is at most the target, near that in doubles.

    It is M or fewer, as the allowance in doubles is wider, unless the balls use other upper bounds of eigenvalues.
    """

    def reaches(m: int) -> bool:
        return float(setting.bound(np.asarray(float(N)), np.asarray(float(m)))) <= target

    if not reaches(M):
        return least(reaches, M + 1, N - 1)
    while M > 1 and reaches(M - 1):
        M -= 1
    return M


def _several_draws(
    statement: DrawStatement | LineStatement,
    options: dict[str, Any],
    N: int,
    target: float,
    advance: Callable[[], Any],
) -> Plan:
    """The bounds decrease in M, because E(K − Q) decreases in M and the bounds increase in E(K − Q)."""
    from gpbounds.renyi import needed_from_eigenvalues

    alpha, noise = float(options["alpha"]), float(options["noise"])

    def reaches(m: int) -> bool:
        advance()
        return float(statement.cell(m, **options)) <= target

    M = least(reaches, 1, statement.largest)
    needed = None
    if isinstance(statement, DrawStatement) and statement.direction == "q||p" and statement.rows.outputs <= 1:
        needed = needed_from_eigenvalues(statement.rows.lower_eigenvalues(), alpha, noise=noise, target=target)
    return Plan.at(
        M,
        lambda m: statement.cell(m, **options),
        first=1,
        method="inducing",
        N=N,
        target=target,
        needed=needed,
        meaning=sentences(target, alpha),
    )


def _needed(setting: Setting, law: GivenData, target: float) -> int:
    """N-low from the eigenvalues of K, each lowered by its rounding error."""
    from gpbounds.renyi import needed_from_eigenvalues

    lower = law.spectrum.lower_eigenvalues() * law.N
    return needed_from_eigenvalues(lower, float(setting.alpha), noise=float(setting.noise), target=target)
