"""The papers' closed formulas for M, corrected, for comparison with :func:`~gpbounds.rates.inducing_points`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpbounds import validation
from gpbounds.bound import Bound, upper_bound
from gpbounds.errors import shown
from gpbounds.inputs import Gaussian
from gpbounds.kernels import SquaredExponential
from gpbounds.numerics.scalars import trace_term
from gpbounds.rates import balls as enclosures
from gpbounds.rigor import MOST_BITS, at_bits, enclosed, exact, rounded
from gpbounds.spectra.balls import Laws, laws
from gpbounds.spectra.gaussian import log_ratio
from gpbounds.validation import rigor_of


@dataclass(frozen=True)
class Corollary:
    """M, the tolerance ``tv`` on the k-DPP that the corollary assumes, and its bound."""

    M: int
    tv: float
    bound: Bound


def smooth_corollary(
    kernel: SquaredExponential,
    N: int,
    alpha: float,
    *,
    inputs: Gaussian | None = None,
    noise: float = 0.1,
    delta: float = 0.05,
    gamma: float = 1.0,
    norm_ratio: float = 1.0,
    rigor: str = "auto",
) -> Corollary:
    """R-cor2, corrected: M of order log N inducing points for the squared exponential kernel.

    x ~ N(0, s²) in one dimension, ‖y‖² <= R·N, Z within total variation ε = δσ²/(vN^(γ+2)) of a k-DPP, and
    M = max(1, ⌈[(3+γ) log N + log(v/(2σ²δ))]/log(1/B)⌉): with probability at least 1 - δ
    D_α[q*‖p] <= 2αR N^(-γ)/σ² + (1/δ)(αN/(2β)) log(1 + 4βδ/N^(γ+2)).
    As printed it is false: a is 1/(4s²), not 1/(4σ²), η is v/(2σ²δ), and the direction is q*‖p.  The first
    term of the bound is too large by a factor of at least N/(M+1).

    Parameters
    ----------
    gamma : float > 0
        Exponent of the rate: the bound is O(N^-γ).
    norm_ratio : float > 0
        R, in squared units of y.
    rigor : "auto", "float" or "sharp"
        "sharp": M and the bound are rounded up and ``tv`` down from Arb balls; the bound is certified by construction.
        "float" is not certified: M may be one too small if the formula is within 1e-13 of a whole number.

    Raises
    ------
    ValueError
        for inputs that are not one-dimensional Gaussian; if M > N - 1, where the theorem does not apply.

    >>> smooth_corollary(SquaredExponential(), 60, 0.5, noise=0.01, delta=0.1).M
    24
    """
    law = Gaussian() if inputs is None else inputs
    if not isinstance(law, Gaussian) or law.dim != 1:
        raise ValueError(f"inputs: expected Gaussian inputs in one dimension, got {shown(law)}")
    size, order = validation.count("N", N, 2), float(validation.order("alpha", alpha))
    noise, delta = float(validation.positive("noise", noise)), float(validation.open_unit("delta", delta))
    gamma, norm_ratio = float(validation.positive("gamma", gamma)), float(validation.positive("norm_ratio", norm_ratio))
    proved = rigor_of(rigor) == "sharp"
    if proved:
        eigenvalues = laws(kernel, law)
        assert isinstance(eigenvalues, Laws)
        M = max(1, _whole_above(lambda: enclosures.smooth_size(eigenvalues, size, noise, delta, gamma)))
    else:
        log_B = float(log_ratio(kernel.lengthscales(1), law.stds)[0])
        log_eta = math.log(kernel.variance / (2.0 * noise * delta))
        M = max(1, math.ceil(((3.0 + gamma) * math.log(size) + log_eta) / -log_B))
    if size - 1 < M:
        raise ValueError(f"N: the corollary needs M <= N - 1, but its M is {M} for N = {size}; ask for a smaller gamma")
    if proved:
        parts = lambda: enclosures.smooth_terms(size, order, noise, delta, gamma, norm_ratio)  # noqa: E731
        quadratic, determinant = (rounded(lambda i=i: parts()[i], upwards=True) for i in (0, 1))  # type: ignore[misc]
        tv = rounded(lambda: enclosures.tolerance(kernel.variance, size, noise, delta, gamma), upwards=False)
    else:
        quadratic = 2.0 * order * norm_ratio / noise * size**-gamma
        t = 4.0 * delta * noise * size ** -(gamma + 1.0)
        determinant = float(trace_term(t, size, order, noise=noise)) / delta
        tv = delta * noise / (kernel.variance * size ** (gamma + 2.0))
    drawn = f"The N inputs are drawn independently from {law!r}; kernel and noise are fixed in advance."
    terms = {"quadratic": quadratic, "determinant": determinant}
    bound = _record("R-cor2 (corrected)", drawn, terms, norm_ratio, order, delta, proved)
    return Corollary(M, tv, bound)


def matern_exponent(r: int, gamma: float, *, form: str = "sharpest", y: str = "any") -> float:
    """Least t such that M = N^t inducing points make the bound O(N^-γ) for the Matérn kernel with ν = r + ½ (R-mat-t).

    One dimension, inputs with a bounded density on an interval, λ_m <= c·m^-(2r+2); constants are ignored.
    Sharpest (min over k in R-lem3): t = (γ+2)/(2r+1) for any y with ‖y‖² <= RN, (γ+1)/(2r+1) for y from the prior.
    Printed: t = (γ+2)/(2r).  M < N requires t < 1, hence γ < 2r - 2: impossible for Matérn-½ and Matérn-3/2.

    Parameters
    ----------
    r : int >= 0
    gamma : float > 0
    form : "sharpest" or "printed"
    y : "any" or "prior"

    Returns
    -------
    float
        t; the statement is vacuous if t >= 1.

    >>> matern_exponent(1, 0.5), matern_exponent(1, 0.5, form="printed")
    (0.8333333333333334, 1.25)
    """
    order, rate = validation.count("r", r, 0), float(validation.positive("gamma", gamma))
    validation.choice("form", form, ("sharpest", "printed"))
    validation.choice("y", y, ("any", "prior"))
    power = rate + (2.0 if y == "any" else 1.0)
    if form == "printed":
        return power / (2.0 * order) if order else math.inf
    return power / (2.0 * order + 1.0)


def matern_corollary(
    r: int,
    N: int,
    alpha: float,
    *,
    constant: float,
    variance: float = 1.0,
    noise: float = 0.1,
    delta: float = 0.05,
    gamma: float = 0.5,
    norm_ratio: float = 1.0,
    form: str = "sharpest",
    rigor: str = "auto",
) -> Corollary:
    """R-mat-t with constants: M = ⌈N^t⌉ for a spectrum with Σ_{m>M} λ_m <= A·M^-(2r+1) for every M >= 1.

    ‖y‖² <= R·N, Z within total variation ε = δσ²/(vN^(γ+2)) of a k-DPP; with probability at least 1 - δ
    D_α[q*‖p] <= g_N(t)/δ + αtRN/(2δσ⁴), where N·t is at most

    - sharpest, t_exponent = (γ+2)/(2r+1): 2^(2r+2)·A·N^-γ + 2δσ²N^-γ (min over k at k = ⌊(M+1)/2⌋);
    - printed, corrected (R-mat-ineq, R-mat-delta, R-mat-log), (γ+2)/(2r): (1+1/M)·A·N^-γ + 2δσ²N^-γ.

    Parameters
    ----------
    constant : float > 0
        A, in squared units of y.
    rigor : "auto", "float" or "sharp"
        As in :func:`smooth_corollary`.

    Raises
    ------
    ValueError
        if M = ⌈N^t⌉ >= N: the corollary is vacuous then.

    >>> matern_corollary(1, 2_000_000, 0.5, constant=0.1, gamma=0.5).M
    178180
    """
    size, order = validation.count("N", N, 2), float(validation.order("alpha", alpha))
    A, largest_variance = (
        float(validation.positive("constant", constant)),
        float(validation.positive("variance", variance)),
    )
    noise, delta = float(validation.positive("noise", noise)), float(validation.open_unit("delta", delta))
    norm_ratio = float(validation.positive("norm_ratio", norm_ratio))
    exponent = matern_exponent(r, gamma, form=form)
    proved = rigor_of(rigor) == "sharp"
    if exponent >= 1.0:
        M = size
    elif proved:
        M = _whole_above(lambda: exact(size) ** enclosures.matern_exponent(r, gamma, form))
    else:
        M = math.ceil(size**exponent)
    if size <= M:
        raise ValueError(f"the corollary is vacuous: M = N^{exponent:.3g} is not below N = {size}; see matern_exponent")
    if proved:
        numbers: Any = {"constant": A, "noise": noise, "delta": delta, "gamma": gamma, "norm_ratio": norm_ratio}
        parts = lambda: enclosures.matern_terms(r, size, M, order, form=form, **numbers)  # noqa: E731
        quadratic, determinant, t = (
            rounded(lambda i=i: parts()[i], upwards=True)  # type: ignore[misc]
            for i in range(3)
        )
        tv = rounded(lambda: enclosures.tolerance(largest_variance, size, noise, delta, gamma), upwards=False)
    else:
        tail_part = 2.0 ** (2 * r + 2) * A if form == "sharpest" else (1.0 + 1.0 / M) * A
        t = (tail_part + 2.0 * delta * noise) * size ** -(gamma + 1.0)
        quadratic = order * t * norm_ratio * size / (2.0 * delta * noise**2)
        determinant = float(trace_term(t, size, order, noise=noise)) / delta
        tv = delta * noise / (largest_variance * size ** (gamma + 2.0))
    claim = "R-mat-t" + (" (corrected)" if form == "printed" else " (sharper)")
    decay = f"Eigenvalue sums are at most {A:g}·M^-{2 * r + 1}; kernel and noise are fixed in advance."
    terms = {"quadratic": quadratic, "determinant": determinant, "expected_trace": t}
    return Corollary(M, tv, _record(claim, decay, terms, norm_ratio, order, delta, proved))


def _whole_above(expression: Callable[[], Any]) -> int:
    """The least whole number that is not below a ball."""
    with at_bits(MOST_BITS):
        return int(enclosed(expression).upper().ceil().unique_fmpz())


def _record(
    claim: str, first: str, terms: dict[str, float], norm_ratio: float, alpha: float, delta: float, proved: bool
) -> Bound:
    """The bound on D_α[q*‖p], the sum of its two terms, under the hypothesis ``first`` and the shared ones."""
    value = terms["quadratic"] + terms["determinant"]
    return upper_bound(
        math.nextafter(value, math.inf) if proved else value,
        delta,
        claim,
        terms,
        (
            first,
            "Z is drawn by a law within total variation tv of a k-DPP of size M.",
            f"‖y‖² <= {norm_ratio:g}·N.",
        ),
        certified=proved,
        quantity=f"D_{alpha:g}[q*||p]",
    )
