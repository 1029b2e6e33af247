"""``rate``: a bound on the divergence of the best sparse posterior from the exact one, or on λ_max(K − Q)/σ², before
either is computed, and ``inducing_points``: the least M from which on the bound stays below a target.  Both evaluate
one `Statement`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, array_of
from gpbounds.bound import Bound, Plan
from gpbounds.inputs import Empirical, Gaussian, InputLaw, on_a_line
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.progress import bar
from gpbounds.rates.balls import REFUSED
from gpbounds.rates.base import Numbers, Statement
from gpbounds.rates.draws.line import draws_on_a_line
from gpbounds.rates.draws.statement import NOT_CERTIFIED, draws_from_rows
from gpbounds.rates.noisy_rows import NoisyRows, rows_with_noise
from gpbounds.rates.one_draw import OneDraw, one_draw_only
from gpbounds.rates.operator_gap import operator_statement
from gpbounds.rates.to_come import ToCome, simulation
from gpbounds.row_noise import is_per_row
from gpbounds.validation import rigor_of

CRITERIA = ("divergence", "operator")
OF_DIVERGENCES: dict[str, Any] = {
    "alpha": None,
    "y": None,
    "y_norm2": None,
    "y_norm2_known": "after",
    "form": "sharpest",
    "direction": "q||p",
    "certified": None,
}
"""Arguments that are about divergences alone, with their defaults."""


def rate(
    kernel: Kernel,
    N: ArrayLike,
    M: ArrayLike,
    alpha: ArrayLike | None = None,
    *,
    criterion: str = "divergence",
    inputs: InputLaw | None = None,
    noise: ArrayLike = 0.1,
    delta: ArrayLike = 0.05,
    y: ArrayLike | None = None,
    draws: int | str | None = None,
    y_norm2: ArrayLike | None = None,
    y_norm2_known: str = "after",
    simulate: int | None = None,
    rng: np.random.Generator | int | None = None,
    law: str | None = None,
    tv: ArrayLike = 0.0,
    form: str = "sharpest",
    direction: str = "q||p",
    certified: bool | None = None,
    rigor: str = "auto",
) -> Bound:
    """Upper bound on the Rényi divergence D_α[q*‖p] of the best sparse posterior from the exact one.

    One draw of Z, y from the prior (R-thm1): with probability at least 1 - δ over X (iid), Z (a k-DPP of size M among
    the rows of X) and y, with t* = N (M+1) e_{M+1}(λ)/e_M(λ) + (N-M)·v·tv, λ the Mercer eigenvalues (N-pop, R-lem3),
    and n = N - M,

        D_α <= (n/δ) F̂(t*/(nσ²)),  and  D_α <= the mean at t*/δ₁ plus a χ² tail at δ - δ₁;

    any y with ‖y‖² = ``y_norm2`` (R-thm2): D_α <= g_n(t*/δ) + ½ (‖y‖²/σ²) ψ(t*/(δσ²)).

    ``inputs=Empirical(X)`` makes the statement conditional on X; ``draws=R`` bounds the best of R draws; ``y=y`` is
    about these targets, and the probability over the draws alone; ``simulate=m`` serves any kernel and law of inputs
    (N-sim).  The page "What each theorem assumes" has the table of all combinations: theorem, hypotheses, what is
    certified.  With M points fixed on a grid each entry of an array is a separate statement; :func:`inducing_points`
    states the least M.  Yue & Kontar, Theorem 1 of both papers.

    ``criterion="operator"`` bounds ε = λ_max(K - Q)/σ² instead, without alpha or y: VFE's means at the training inputs
    differ from the exact ones by at most ε times the exact residual, for every y (N-op).  With ρ_i the mean of K - Q in
    K's eigenbasis and p = δ^(1/R) - tv, ε <= [c + Σ ρ_i (1 - c/λ_i)₊/p]/σ² for every c >= 0 (N-op-draw).

    Parameters
    ----------
    kernel : Kernel
        Fixed in advance, not fitted to the data; with ``y`` it may be fitted.
    N : whole number(s) >= 2
        Number of data.
    M : whole number(s), 1 <= M <= N - 1
        Number of inducing points.
    alpha : number(s) in (0, 1]
        Rényi order; 1 is the Kullback-Leibler divergence.  None with ``criterion="operator"``.
    criterion : "divergence" or "operator"
    inputs : Gaussian, Uniform, Empirical or Sampler
        Law of the inputs, ``Gaussian()`` by default; a Sampler needs ``simulate``; with ``Empirical(X)`` N is the
        number of rows of X.
    noise : positive number(s)
        Noise variance σ², in squared units of y.  With ``inputs=Empirical(X)`` an array (N,) is one noise variance for
        each row of X (N-rows-noise), and the draws are then those for `gpbounds.at_unit_noise`.
    delta : number(s) in (0, 1)
        Probability with which the bound may fail.
    y : array (N,) or (N, P), optional
        The targets; with several outputs the bound is on the sum of their D_α, for one Z.
    draws : whole number >= 1 or "certain", optional
        R: of R draws the one with the greatest objective of order α, or the least λ_max(K - Q), is kept.  "certain":
        draw until log p(y) minus the objective is proved not to exceed the value, 5 draws on average; the confidence is
        1 (:func:`gpbounds.kdpp.select` makes the draws).
    y_norm2 : number(s) >= 0, optional
        Squared norm of y, summed over the outputs; None for y drawn from the prior.
    y_norm2_known : "before" or "after"
        Whether y is fixed before the draws, or may depend on Z.
    simulate : whole number, optional
        m, the number of simulated sets of inputs: 39 for delta = 0.05, or 199 for less noise.
    rng : numpy.random.Generator or int, optional
        Source of randomness of the simulation, or a seed.
    law : "kdpp" or "tilted", optional
        The law of each draw: P(Z) ∝ |K_ZZ|, or P(Z) ∝ |(K² + σ²K)_ZZ| (N-tilt); by default the one with the smaller
        bound, which the assumptions name.  With ``criterion="operator"`` "kdpp" (default) or "rpcholesky" (N-rpc).
    tv : number(s) in [0, 1]
        Total variation distance of the law of Z from the named one (R-cor1); with draws it is subtracted from
        δ^(1/R).
    form : "sharpest" or "printed"
        "printed" gives the papers' forms, in the direction in which they are true.
    direction : "q||p" or "p||q"
        "p||q" bounds D_α[p‖q*] through the factor max{α/(1-α), (1-α)/α} (R-dir); α < 1.
    rigor : "auto", "float" or "sharp"
        How much of the arithmetic is proved; the page "What certified means" has the table.  "auto": doubles, enlarged
        by proved errors where these are known; "float": enlarged by an allowance that may be only measured; "sharp":
        the upper end of an enclosure.  `Bound.certified` states the outcome.  ``certified=True`` is an old spelling.

    Returns
    -------
    Bound
        N, M, alpha, noise, delta, y_norm2 and tv broadcast.  The value is inf if nothing is proved; the last assumption
        then gives the reason.

    Raises
    ------
    ValueError
        for an argument out of range, M >= N in any cell, inputs that do not fit the kernel, or a combination that no
        theorem states.

    >>> from gpbounds.kernels import SquaredExponential
    >>> bound = rate(SquaredExponential(), N=10_000, M=30, alpha=1.0)
    >>> print(f"{float(bound):.3g} with probability {bound.confidence}")
    1.11e-05 with probability 0.95

    >>> from gpbounds.inputs import Empirical
    >>> X = np.linspace(0.0, 10.0, 60)
    >>> bound = rate(SquaredExponential(), 60, 15, 1.0, inputs=Empirical(X), y=np.sin(X), draws=10)
    >>> print(f"{float(bound):.2g} ({bound.claim})")
    0.13 (N-tilt-given, N-tilt, N-enclosed)
    """
    data, inducing = sizes(N, M)
    return _stated(
        kernel,
        data,
        alpha,
        criterion=criterion,
        noise=noise,
        delta=delta,
        y_norm2=y_norm2,
        tv=tv,
        inputs=inputs,
        y=y,
        draws=draws,
        y_norm2_known=y_norm2_known,
        simulate=simulate,
        rng=rng,
        law=law,
        form=form,
        direction=direction,
        certified=certified,
        rigor=rigor,
    ).bound(inducing)


def inducing_points(
    kernel: Kernel,
    N: int,
    alpha: float | None = None,
    *,
    target: float,
    criterion: str = "divergence",
    inputs: InputLaw | None = None,
    noise: ArrayLike = 0.1,
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

    ``criterion="operator"`` plans for ε = λ_max(K - Q)/σ² <= ``target``, without alpha: whatever y is, VFE's means at
    the training inputs are then within ``target`` times the exact residual of the exact ones (N-op).

    Parameters
    ----------
    target : float
        The bound on D_α, in nats, or on ε must not exceed it.
    progress : bool
        Show a bar that counts the simulated sets, or the numbers M that were tried.

    Returns
    -------
    Plan
        ``.M`` (None if no M < N suffices), ``.bound``, ``.bound_before`` (at M - 1), ``.needed`` (for
        ``inputs=Empirical(X)``: with fewer, no choice of inducing variables reaches the target, N-low, N-op-low),
        ``.meaning``, ``.cost``.

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

    >>> from gpbounds.inputs import Empirical
    >>> X = np.linspace(0.0, 10.0, 60)
    >>> plan = inducing_points(
    ...     SquaredExponential(), 60, criterion="operator", target=0.05, inputs=Empirical(X), draws=10
    ... )
    >>> plan.needed, plan.M
    (15, 17)
    """
    size = validation.count("N", N, 2)
    target = validation.scalar(validation.positive, "target", target)
    _refuse_arrays(
        alpha=alpha, noise=None if _of_each_row(inputs, noise) else noise, delta=delta, y_norm2=y_norm2, tv=tv
    )
    if simulate is not None:
        validation.repetitions("simulate", simulate)
    with bar("Inducing points", simulate, "set" if simulate else "try", progress) as tries:
        return _stated(
            kernel,
            np.asarray(float(size)),
            alpha,
            criterion=criterion,
            noise=noise,
            delta=delta,
            y_norm2=y_norm2,
            tv=tv,
            inputs=inputs,
            y=y,
            draws=draws,
            y_norm2_known=y_norm2_known,
            simulate=simulate,
            rng=rng,
            law=law,
            form=form,
            direction=direction,
            certified=certified,
            rigor=rigor,
        ).least(target, tries.update)


def _stated(
    kernel: Kernel,
    N: Float,
    alpha: ArrayLike | None,
    *,
    criterion: str,
    noise: ArrayLike,
    delta: ArrayLike,
    y_norm2: ArrayLike | None,
    tv: ArrayLike,
    inputs: InputLaw | None,
    draws: int | str | None,
    simulate: int | None,
    rng: np.random.Generator | int | None,
    law: str | None,
    rigor: str,
    direction: str,
    **options: Any,
) -> Statement:
    """The `Statement` of a call of `rate` or `inducing_points`, by its criterion."""
    as_kernel(kernel)
    validation.generator(rng)
    for name, word in (("form", options.get("form")), ("direction", direction), ("law", law)):
        if word is not None:
            validation.instance(name, word, str, "a word")
    if isinstance(inputs, Empirical) and _of_each_row(inputs, noise):
        unit = rows_with_noise(kernel, inputs, options["y"], noise, y_norm2=y_norm2, simulate=simulate)
        of_unit = options | {"y": unit.y, "criterion": criterion, "delta": delta, "y_norm2": None, "tv": tv}
        of_unit |= {"inputs": Empirical(unit.X), "draws": draws, "simulate": None, "rng": rng, "law": law}
        inner = _stated(unit.kernel, N, alpha, noise=1.0, rigor=rigor, direction=direction, **of_unit)
        return NoisyRows.of(unit, inner, criterion, direction, alpha)
    shared: dict[str, Any] = {"draws": draws, "simulate": simulate, "rng": rng, "law": law}
    if validation.choice("criterion", criterion, CRITERIA) == "operator":
        _refuse_of_divergences(draws, alpha=alpha, y_norm2=y_norm2, direction=direction, **options)
        law_of_inputs: Any = Gaussian() if inputs is None else inputs
        chosen = rigor_of(rigor)
        return operator_statement(
            kernel, N, inputs=law_of_inputs, noise=noise, delta=delta, tv=tv, rigor=chosen, **shared
        )
    if alpha is None:
        raise ValueError("alpha: expected a Rényi order in (0, 1], which only criterion='operator' goes without")
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
    return statement(kernel, N, numbers, inputs=inputs, direction=direction, rigor=rigor, **shared, **options)


def _of_each_row(inputs: Any, noise: Any) -> bool:
    """Whether ``noise`` is one number for each of the given rows."""
    return isinstance(inputs, Empirical) and is_per_row(noise) and np.shape(noise) == (inputs.N,)


def _refuse_of_divergences(draws: int | str | None, **given: Any) -> None:
    """Refuse what has no meaning for λ_max(K − Q)/σ²."""
    passed = [name for name, value in given.items() if not _is_default(value, OF_DIVERGENCES[name])]
    passed += ["draws='certain'"] if isinstance(draws, str) else []
    if passed:
        raise ValueError(
            f"{', '.join(passed)}: expected none of these with criterion='operator', as λ_max(K - Q)/σ² depends on the "
            "kernel, the noise and the points alone; leave them out, or bound a divergence (criterion='divergence')"
        )


def _is_default(value: Any, default: Any) -> bool:
    """Whether an argument, which may be an array, is its default."""
    return value is default or (isinstance(value, str) and value == default)


def _refuse_arrays(**numbers: ArrayLike | None) -> None:
    """Refuse arrays where a plan takes one number."""
    for name, value in numbers.items():
        if value is not None and (shape := array_of(np, name, value).shape):
            rows = "; noise of each row needs these rows, inputs=Empirical(X)" if name == "noise" else ""
            raise ValueError(f"{name}: expected one number, got shape {shape}: call the function once for each{rows}")


def statement(
    kernel: Kernel,
    N: Float,
    numbers: Numbers,
    *,
    inputs: InputLaw | None = None,
    y: ArrayLike | None = None,
    draws: int | str | None = None,
    y_norm2_known: str = "after",
    simulate: int | None = None,
    rng: np.random.Generator | int | None = None,
    law: str | None = None,
    form: str = "sharpest",
    direction: str = "q||p",
    certified: bool | None = None,
    rigor: str = "auto",
) -> Statement:
    """The `Statement` of a call of `rate`, from checked N and numbers; it gives the bound for any M."""
    law_of_inputs: Any = Gaussian() if inputs is None else inputs
    chosen = rigor_of(rigor, certified, was="auto")
    if certified and (y is None or simulate is not None):
        raise ValueError(NOT_CERTIFIED)
    several = y is not None or draws is not None
    if chosen == "sharp" and (simulate is not None or (several and not isinstance(law_of_inputs, Empirical))):
        raise ValueError(REFUSED)
    options: dict[str, Any] = {"y_norm2_known": y_norm2_known, "law": law, "form": form, "direction": direction}
    if simulate is not None:
        if y is not None:
            raise ValueError("y: expected None with simulate: targets of simulated inputs are not known")
        delta = validation.scalar(validation.open_unit, "delta", numbers.delta)
        sets = simulation(law_of_inputs, _one_size(N, "simulate"), sets=simulate, delta=delta, rng=rng)
        return ToCome.checked(kernel, sets, numbers, draws, options)
    if not several:
        one_draw_only(y_norm2_known, law)
        return OneDraw.of(kernel, law_of_inputs, N, numbers, form=form, direction=direction, rigor=chosen)
    if y is None and on_a_line(law_of_inputs):
        size = _one_size(N, "draws for inputs to come")
        return draws_on_a_line(kernel, law_of_inputs, size, numbers, draws=draws, **options)
    best = draws_from_rows(
        kernel, law_of_inputs, numbers, y=y, draws=draws, certified=bool(certified), rigor=chosen, **options
    )
    best.require(N)
    return best


def sizes(N: ArrayLike, M: ArrayLike) -> tuple[Float, Float]:
    """N and M as whole numbers with 1 <= M <= N - 1 in every cell of their broadcast."""
    data, inducing = validation.whole("N", N, 2), validation.whole("M", M)
    wide_N, wide_M = validation.broadcast(N=data, M=inducing)
    if (wide_M >= wide_N).any():
        cell = tuple(int(i) for i in np.argwhere(wide_M >= wide_N)[0])
        where = f" at index {cell}" if cell else ""
        raise ValueError(f"M: expected 1 <= M <= N - 1, got M = {wide_M[cell]:.0f}, N = {wide_N[cell]:.0f}{where}")
    return data, inducing


def _one_size(N: Float, why: str) -> int:
    """N as one number; ``why`` names the argument that requires it."""
    if shape := array_of(np, "N", N).shape:
        raise ValueError(f"N: expected one number with {why}, got shape {shape}; call the function once for each")
    return int(N)
