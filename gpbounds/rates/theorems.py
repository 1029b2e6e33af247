"""``rate``: a bound on the divergence of the best sparse posterior from the exact one, before either is computed, and
``inducing_points``: the least M from which on the bound stays below a target.  Each is asked of one `Statement`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical, Gaussian, InputLaw, on_a_line
from gpbounds.kernels import Kernel
from gpbounds.plan import Plan
from gpbounds.rates.balls import REFUSED
from gpbounds.rates.base import Numbers, Statement
from gpbounds.rates.draws.line import draws_on_a_line
from gpbounds.rates.draws.statement import NOT_CERTIFIED, draws_from_rows
from gpbounds.rates.one_draw import OneDraw, one_draw_only
from gpbounds.rates.simulation import simulation
from gpbounds.rates.to_come import ToCome
from gpbounds.rigor import rigor_of


def rate(
    kernel: Kernel,
    N: ArrayLike,
    M: ArrayLike,
    alpha: ArrayLike,
    *,
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

    One draw (``draws=None``).  With probability at least 1 - δ over X (iid), Z (k-DPP of size M among the rows of X)
    and, if ``y_norm2`` is None, y: with t* = N (M+1) e_{M+1}(λ)/e_M(λ) + (N-M)·v·tv, λ the Mercer eigenvalues (N-pop;
    for large M also min_k (M+1)/(M+1-k)·N·Σ_{m>k} λ_m if that is smaller), n = N - M,

    - y from the prior (R-thm1; the smaller of): D_α <= (n/δ) F̂(t*/(nσ²)), and the mean at T = t*/δ₁ plus a χ² tail
      at δ₂ = δ - δ₁, least over δ₂ = δ/2 ... δ/64;
    - any y with ‖y‖² = y_norm2 (R-thm2): D_α <= g_n(t*/δ) + ½ (‖y‖²/σ²) ψ(t*/(δσ²)).

    ``form="printed"`` gives the papers' forms instead, in the direction q*‖p in which they are true (R-dir):
    αt/(2δσ²) + g_N(t)/δ and g_N(t)/δ + αt‖y‖²/(2δσ⁴), t = (M+1) N Σ_{m>M} λ_m + 2N·v·tv.
    These bounds are never tight: Markov's inequality costs a factor of about 1/δ. Yue & Kontar, Theorem 1 of both
    papers.

    The best of R draws (``draws=R``), for given rows, ``inputs=Empirical(X)``: of R independent draws you keep the one
    with the greatest objective of order α, computed without jitter.  Then with p = δ^(1/R) - tv in place of δ:

    - ``y=y``, the targets themselves (N-given, N-tilt-given), with probability over the draws alone: D_α <= (α/2)(q̄ +
      b̄)/max_a[...], see `gpbounds.rates.draws.given.best_given`.  Kernel and noise may have been fitted to these data;
    - y from the prior, with probability over y and the draws: the least of N-prior, N-prior2, N-one, N-tilt-prior and
      the bound of one draw;
    - ``y_norm2`` with ``y_norm2_known="before"`` the draws (N-fixed), or "after" them (N-adv: the draw with the least
      trace is kept).

    ``draws="certain"`` with ``y``: draw until log p(y) minus the objective is proved not to exceed the value, which
    takes 5 draws on average; the confidence is 1, and delta is not used.  ``gpbounds.kdpp.select(...,
    method="best", draws="certain", y=y)`` makes these draws.  With R = 10 the bound is about twice the 95 %
    quantile of the divergence that the same rule reaches.

    Before X is seen.  ``simulate=m`` (N-sim): any of these without ``y``, for any kernel and any law of inputs that can
    be sampled, in any dimension: the k-th greatest of the bounds of m simulated sets of N inputs, k = ⌊(m+1)δ/2⌋, each
    made with δ - k/(m+1); m = 39 at δ = .05, or 199 for less noise.  Over an array of M each entry is a separate
    statement; use :func:`inducing_points` to find the least M.  Without ``simulate``, for Gaussian or uniform inputs in
    one dimension, ``draws=R``: N-trace from quantiles of the mean trace (N-sum), for any N.

    Parameters
    ----------
    kernel : Kernel
        Fixed in advance, not fitted to the data.
    N : whole number(s) >= 2
        Number of data.
    M : whole number(s), 1 <= M <= N - 1
        Number of inducing points.
    alpha : number(s) in (0, 1]
        Rényi order; 1 is the Kullback-Leibler divergence.
    inputs : Gaussian, Uniform, Empirical or Sampler
        Law of the inputs, ``Gaussian()`` by default; a Sampler needs ``simulate``.  With ``Empirical(X)`` the bound is
        conditional on X and uses E Tr(K - Q) = (M+1) e_{M+1}/e_M of the eigenvalues of k(X, X), which is exact; N must
        be the number of rows of X.
    noise : positive number(s)
        Noise variance σ², in squared units of y.
    delta : number(s) in (0, 1)
        Probability with which the bound may fail.
    y : array (N,) or (N, P), optional
        The targets; with several outputs the bound is on the sum of their D_α, for one Z.
    draws : whole number >= 1 or "certain", optional
        R.
    y_norm2 : number(s) >= 0, optional
        Squared norm of y, summed over the outputs; None for y drawn from the prior.
    y_norm2_known : "before" or "after"
        Whether y is fixed before the draws, or may depend on Z.
    simulate : whole number, optional
        m, the number of simulated sets of inputs.
    rng : numpy.random.Generator or int, optional
        Source of randomness of the simulation, or a seed.
    law : "kdpp" or "tilted", optional
        The law of each draw: P(Z) ∝ |K_ZZ|, or P(Z) ∝ |(K² + σ²K)_ZZ| (N-tilt), whose bound loses nothing for large
        gaps. By default the law with the smaller bound; the assumptions name it.
    tv : number(s) in [0, 1]
        Total variation distance of the law of Z from the named one (R-cor1; with draws it is subtracted from p).
    form : "sharpest" or "printed"
    direction : "q||p" or "p||q"
        "p||q" bounds D_α[p‖q*] through the factor max{α/(1-α), (1-α)/α} (R-dir); α < 1.
    rigor : "auto", "float" or "sharp"
        How much of the arithmetic is proved; the page "What certified means" of the documentation has a table of
        kernels, inputs and costs.  "auto": doubles with the errors that are proved, for ``Empirical(X)`` from the
        eigenvectors of K, for one draw or y given, up to 2000 rows (N-enclosed).  "float": doubles, whose allowance may
        be measured only.  "sharp": by construction above the theorem's number, before the data by balls, for
        ``Empirical(X)`` in 30 digits (N-graded): there M falls far below what the eigenvalues of doubles can show.
        `Bound.certified` says what the value is.  ``certified=True`` is an old spelling of "auto" that refuses what is
        not certified.

    Returns
    -------
    Bound
        N, M, alpha, noise, delta, y_norm2 and tv broadcast.  ``terms["expected_trace"]`` is t; with draws
        ``terms["mean"]`` is, to first order in K - Q, the mean of D_α over one draw.  The value is inf if nothing is
        proved; the last assumption then gives the reason.

    Raises
    ------
    ValueError
        for an argument out of range, for M >= N in any cell, for inputs that do not fit the kernel; with draws for y
        of another length than X, for M above the number of distinct rows of X, and if ``simulate`` is too small for
        delta.

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
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
    return statement(
        kernel,
        data,
        numbers,
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
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
    numbers.single()
    with _bar(simulate, progress) as bar:
        return statement(
            kernel,
            np.asarray(float(size)),
            numbers,
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
        ).least(target, bar.update)


def _bar(sets: int | None, progress: bool) -> Any:
    from tqdm import tqdm

    unit = "try" if sets is None else "set"
    return tqdm(desc="Inducing points", total=sets, unit=unit, leave=False, disable=not progress)


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
    """What a call of `rate` states but for M, from checked N and numbers; made once, it is asked for several M."""
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
    wide_N, wide_M = np.broadcast_arrays(data, inducing)
    if (wide_M >= wide_N).any():
        cell = tuple(int(i) for i in np.argwhere(wide_M >= wide_N)[0])
        where = f" at index {cell}" if cell else ""
        raise ValueError(f"M: expected 1 <= M <= N - 1, got M = {wide_M[cell]:.0f}, N = {wide_N[cell]:.0f}{where}")
    return data, inducing


def _one_size(N: Float, why: str) -> int:
    """N as one number; ``why`` names the argument that requires it."""
    if np.ndim(N):
        raise ValueError(f"N: expected one number with {why}, got shape {np.shape(N)}; call the function once for each")
    return int(N)
