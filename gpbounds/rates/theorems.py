"""``rate``: a bound on the divergence of the best sparse posterior from the exact one, before either is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical, Gaussian, InputLaw, on_a_line
from gpbounds.kernels import Kernel
from gpbounds.rates.balls import REFUSED
from gpbounds.rates.draws.line import line_statement
from gpbounds.rates.draws.statement import NOT_CERTIFIED, draw_statement
from gpbounds.rates.setting import Numbers, Setting, one_draw_only, sizes
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
    law_of_inputs: Any = Gaussian() if inputs is None else inputs
    data, inducing = sizes(N, M)
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
        numbers = Numbers.checked(alpha, noise, _one_delta(delta), y_norm2, tv, direction)
        plan = simulation(law_of_inputs, one_size(data, "simulate"), sets=simulate, delta=_one_delta(delta), rng=rng)
        return ToCome.checked(kernel, plan, numbers, draws, options).bound(inducing)
    if y is None and draws is None:
        one_draw_only(y_norm2_known, law)
        setting = Setting.checked(kernel, alpha, law_of_inputs, noise, delta, y_norm2, tv, form, direction, chosen)
        return setting.bound(data, inducing)
    numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
    if y is None and on_a_line(law_of_inputs):
        size = one_size(data, "draws for inputs to come")
        line = line_statement(kernel, law_of_inputs, size, draws=draws, prior=y_norm2 is None, **options)
        return line.bound(inducing, **vars(numbers))
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
    statement.require(data)
    return statement.bound(inducing, **vars(numbers))


def one_size(N: Any, why: str) -> int:
    """N as one number; ``why`` names the argument that requires it."""
    if np.ndim(N):
        raise ValueError(f"N: expected one number with {why}, got shape {np.shape(N)}; call the function once for each")
    return int(N)


def _one_delta(delta: ArrayLike) -> float:
    return validation.scalar(validation.open_unit, "delta", delta)
