"""``rate``: a bound on the divergence of the best sparse posterior from the exact one, before any data are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Gaussian, InputLaw
from gpbounds.kernels import Kernel
from gpbounds.rates import forms
from gpbounds.rates.expected_trace import TraceLaw, trace_law
from gpbounds.statements import UP, normal_or_zero, upper_bound

FORMS = ("sharpest", "printed")
DIRECTIONS = ("q||p", "p||q")


@dataclass(frozen=True)
class Setting:
    """The checked arguments of ``rate`` except N and M."""

    law: TraceLaw
    alpha: Float
    noise: Float
    delta: Float
    y_norm2: Float | None
    tv: Float
    form: str
    direction: str

    @classmethod
    def checked(
        cls,
        kernel: Kernel,
        alpha: ArrayLike,
        inputs: InputLaw | None,
        noise: ArrayLike,
        delta: ArrayLike,
        y_norm2: ArrayLike | None,
        tv: ArrayLike,
        form: str,
        direction: str,
    ) -> Setting:
        """From the arguments that ``rate`` and ``inducing_points`` share."""
        order = validation.order("alpha", alpha)
        validation.choice("direction", direction, DIRECTIONS)
        if direction == "p||q" and (order == 1.0).any():
            raise ValueError(
                "alpha: expected alpha < 1 with direction='p||q', as the factor α/(1-α) of R-dir is infinite at 1"
            )
        return cls(
            alpha=order,
            noise=validation.positive("noise", noise),
            delta=validation.open_unit("delta", delta),
            y_norm2=None if y_norm2 is None else validation.non_negative("y_norm2", y_norm2),
            tv=validation.closed_unit("tv", tv),
            form=validation.choice("form", form, FORMS),
            direction=direction,
            law=trace_law(kernel, Gaussian() if inputs is None else inputs),
        )

    def evaluate(self, N: Float, M: Float, tail_at: Float | None = None) -> tuple[Any, dict[str, Any]]:
        """(value, terms) for checked N and M; ``tail_at`` <= M majorises the printed form over tail_at ... M."""
        n, shared = N - M, (self.noise, self.alpha, self.delta)
        terms: dict[str, Any]
        if self.form == "printed":
            t = self.law.printed(N, M, tail_at) + 2.0 * N * self.law.variance * self.tv
            if self.y_norm2 is None:
                terms = forms.prior_printed(t, N, *shared)
            else:
                terms = forms.any_printed(t, N, *shared, self.y_norm2)
        else:
            t = self.law.sharpest(N, M) + n * self.law.variance * self.tv
            if self.y_norm2 is None:
                terms = forms.prior_sharpest(t, n, *shared)
            else:
                terms = forms.any_markov(t, n, *shared, self.y_norm2)
        if "markov" in terms:
            value = np.minimum(terms["markov"], terms["tail"])
        else:
            value = terms["determinant"] + terms["quadratic"]
        scale: Any = UP
        if self.direction == "p||q":
            odds = self.alpha / (1.0 - self.alpha)
            scale = scale * np.maximum(odds, 1.0 / odds)
        scaled = {name: term * scale for name, term in terms.items()}
        return normal_or_zero(value * scale, t > 0.0), {"expected_trace": t, **scaled}

    def bound(self, N: Float, M: Float) -> Bound:
        """The :class:`Bound` for checked N and M."""
        value, terms = self.evaluate(N, M)
        prior, approximate = self.y_norm2 is None, bool((self.tv > 0).any())
        claims = [
            f"{'R-thm1' if prior else 'R-thm2'} ({'as printed' if self.form == 'printed' else 'sharper form'})",
            self.law.claims,
            *(["R-cor1"] if approximate else []),
            *(["R-dir"] if self.direction == "p||q" else []),
        ]
        law = "a law within total variation tv of a k-DPP" if approximate else "a k-DPP"
        assumptions = (
            "q* is the best variational posterior for the inducing inputs Z, p the exact one.",
            f"Z is drawn from the N inputs by {law} of size M.",
            "y is drawn from the prior, with the given noise variance."
            if prior
            else "y is any vector with the given squared norm, even one that depends on X and Z.",
            *self.law.assumptions,
        )
        order = f"{float(self.alpha):g}" if self.alpha.ndim == 0 else "alpha"
        return upper_bound(
            value,
            self.delta,
            ", ".join(claims),
            terms,
            assumptions,
            certified=self.law.spectrum.certified,
            quantity=f"D_{order}[{'q*||p' if self.direction == 'q||p' else 'p||q*'}]",
        )


def sizes(N: ArrayLike, M: ArrayLike) -> tuple[Float, Float]:
    """N and M as whole numbers with 1 <= M <= N - 1 in every cell of their broadcast."""
    data, inducing = validation.whole("N", N, 2), validation.whole("M", M)
    wide_N, wide_M = np.broadcast_arrays(data, inducing)
    if (wide_M >= wide_N).any():
        cell = tuple(int(i) for i in np.argwhere(wide_M >= wide_N)[0])
        where = f" at index {cell}" if cell else ""
        raise ValueError(f"M: expected 1 <= M <= N - 1, got M = {wide_M[cell]:.0f}, N = {wide_N[cell]:.0f}{where}")
    return data, inducing


def rate(
    kernel: Kernel,
    N: ArrayLike,
    M: ArrayLike,
    alpha: ArrayLike,
    *,
    inputs: InputLaw | None = None,
    noise: ArrayLike = 0.1,
    delta: ArrayLike = 0.05,
    y_norm2: ArrayLike | None = None,
    tv: ArrayLike = 0.0,
    form: str = "sharpest",
    direction: str = "q||p",
) -> Bound:
    """Upper bound on the Rényi divergence D_α[q*‖p] of the best sparse posterior from the exact one.

    With probability at least 1 - δ over X (iid), Z (k-DPP of size M among the rows of X) and, if ``y_norm2`` is
    None, y: with t* = N (M+1) e_{M+1}(λ)/e_M(λ) + (N-M)·v·tv, λ the Mercer eigenvalues (N-pop; for large M also
    min_k (M+1)/(M+1-k)·N·Σ_{m>k} λ_m if that is smaller), n = N - M,

    - y from the prior (R-thm1; the smaller of): D_α <= (n/δ) F̂(t*/(nσ²)), and the mean at T = t*/δ₁ plus a χ² tail
      at δ₂ = δ - δ₁, least over δ₂ = δ/2 ... δ/64;
    - any y with ‖y‖² = y_norm2 (R-thm2): D_α <= g_n(t*/δ) + ½ (‖y‖²/σ²) ψ(t*/(δσ²)).

    ``form="printed"`` gives the papers' forms instead, in the direction q*‖p in which they are true (R-dir):
    αt/(2δσ²) + g_N(t)/δ and g_N(t)/δ + αt‖y‖²/(2δσ⁴), t = (M+1) N Σ_{m>M} λ_m + 2N·v·tv.
    The bound is never tight: Markov's inequality costs a factor of about 1/δ.  Yue & Kontar, Theorem 1 of both papers.

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
    inputs : Gaussian, Uniform or Empirical
        Law of the inputs, ``Gaussian()`` by default.  With ``Empirical(X)`` the bound is conditional on X and uses E
        Tr(K - Q) = (M+1) e_{M+1}/e_M of the eigenvalues of k(X, X), which is exact; N must be the number of rows of X.
    noise : positive number(s)
        Noise variance σ², in squared units of y.
    delta : number(s) in (0, 1)
        Probability with which the bound may fail.
    y_norm2 : number(s) >= 0, optional
        Squared norm of y; None for y drawn from the prior.
    tv : number(s) in [0, 1]
        Total variation distance of the law of Z from the k-DPP (R-cor1).
    form : "sharpest" or "printed"
    direction : "q||p" or "p||q"
        "p||q" bounds D_α[p‖q*] through the factor max{α/(1-α), (1-α)/α} (R-dir); α < 1.

    Returns
    -------
    Bound
        N, M, alpha, noise, delta, y_norm2 and tv broadcast.  ``terms["expected_trace"]`` is t.

    Raises
    ------
    ValueError
        for an argument out of range, for M >= N in any cell, for inputs that do not fit the kernel.

    >>> from gpbounds.kernels import SquaredExponential
    >>> bound = rate(SquaredExponential(), N=10_000, M=30, alpha=1.0)
    >>> print(f"{float(bound):.3g} with probability {bound.confidence}")
    1.11e-05 with probability 0.95
    """
    return Setting.checked(kernel, alpha, inputs, noise, delta, y_norm2, tv, form, direction).bound(*sizes(N, M))
