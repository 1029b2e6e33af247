"""The theorems that need the mean of Tr(K − Q) alone: one draw, y from the prior or any y of a norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float, blockwise
from gpbounds.bound import Bound, Plan, enlargement, normal_or_zero, upper_bound
from gpbounds.errors import shown
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.numerics.scalars import F_hat, log1p_residual, psi, trace_term
from gpbounds.numerics.search import last_above, least, upward
from gpbounds.rates.balls import TINY, BeforeData, EnclosedRate, FromDoubles, GivenRows
from gpbounds.rates.base import FORMS, Numbers, Statement, sentences, silent
from gpbounds.rates.draws.sentences import KNOWN
from gpbounds.rates.trace import GivenData, TraceLaw, trace_law

# The theorems as functions of t, a bound on the expected trace of K - Q.
#
# In all formulas T = Tr(K - Q), rank(K - Q) <= n = N - M, σ² = noise, and the randomness is in X, in Z and, for the
# ``prior`` forms, in y.  Arguments broadcast.  Each is a sum of positive, well-conditioned terms.

SPLITS = tuple(2.0**-j for j in range(1, 7))
"""Shares δ₂/δ = ½, ¼ ... 1/64 at which :func:`prior_sharpest` evaluates :func:`prior_tail`."""


def prior_printed(t: Any, N: Any, noise: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    """R-thm1 as printed, y ~ prior: αt/(2δσ²) + g_N(t)/δ; returns the two summands."""
    return {"quadratic": alpha * t / (2.0 * delta * noise), "determinant": trace_term(t, N, alpha, noise=noise) / delta}


def prior_markov(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> Any:
    """R-thm1 (a), y ~ prior: (n/δ) F̂(t/(nσ²)): Markov's inequality for D_α, whose mean is at most n F̂(T/(nσ²))."""
    return n / delta * F_hat(t / (n * noise), alpha)


def prior_tail(t: Any, n: Any, noise: Any, alpha: Any, delta: Any, share: float) -> Any:
    """R-thm1 (b), y ~ prior: Markov's inequality for T with δ₁ = δ(1 - share), a χ² tail for y with δ₂ = δ·share.

    With τ = t/δ₁, W = ατ/(σ² + βτ/n), w = ατ/(σ² + βτ), x = log(1/δ₂):
    mean + √(x w W) + x w, mean = min{n F̂(τ/(nσ²)), g_n(τ) + ½[W - log(1 + W)]} (Laurent and Massart's inequality).
    """
    beta = 1.0 - alpha
    tau = t / (delta * (1.0 - share))
    x = -np.log(delta * share)
    W = alpha * tau / (noise + beta * tau / n)
    w = alpha * tau / (noise + beta * tau)  # <= W, since n >= 1
    mean = n * F_hat(tau / (n * noise), alpha)
    if np.max(alpha) > 0.5:  # otherwise F̂ = F and n F(x) is smaller: n[w - log(1 + w)] <= nw - log(1 + nw)
        mean = np.minimum(mean, trace_term(tau, n, alpha, noise=noise) + 0.5 * log1p_residual(W))
    return mean + np.sqrt(w) * np.sqrt(x * W) + x * w  # w·W may underflow


def prior_sharpest(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> dict[str, Any]:
    """R-thm1, both sharper forms; the bound is the smaller one.  Computed in blocks that fit a cache."""

    def both(t: Any, n: Any, noise: Any, alpha: Any, delta: Any) -> tuple[Any, Any]:
        tails = [prior_tail(t, n, noise, alpha, delta, share) for share in SPLITS]
        return prior_markov(t, n, noise, alpha, delta), reduce(np.minimum, tails)

    markov, tail = blockwise(both, t, n, noise, alpha, delta)
    return {"markov": markov, "tail": tail}


def _any_printed(t: Any, N: Any, noise: Any, alpha: Any, delta: Any, y_norm2: Any) -> dict[str, Any]:
    """R-thm2 as printed, any y: g_N(t)/δ + (αt/(2δσ²))·‖y‖²/σ²; returns the two summands."""
    return {
        "determinant": trace_term(t, N, alpha, noise=noise) / delta,
        "quadratic": alpha * t / (2.0 * delta * noise) * (y_norm2 / noise),
    }


def any_markov(t: Any, n: Any, noise: Any, alpha: Any, delta: Any, y_norm2: Any) -> dict[str, Any]:
    """R-thm2, sharper, for all y at once: g_n(t/δ) + ½ (‖y‖²/σ²) ψ(t/(δσ²)); returns the two summands."""
    tau = t / delta
    return {
        "determinant": trace_term(tau, n, alpha, noise=noise),
        "quadratic": 0.5 * (y_norm2 / noise) * psi(tau / noise, alpha),
    }


# The theorems that need the mean of Tr(K − Q) alone: one draw, y from the prior or any y of a norm.

LEAST_ORDER, LEAST_SHARE = 1e-9, 1e-15
MIDDLE = (1e-30, 1e30)
"""For α and δ at least these and numbers in this range, underflow between t* ≥ `TINY` and the bound is below 1e-245."""
FLOOR = 1e-230
"""Least positive bound; smaller ones are raised to it, so that 1e-245 is less than 2⁻⁵³ of a bound."""


@dataclass(frozen=True, eq=False)
class OneDraw(Statement):
    """The bound for one draw.

    Attributes
    ----------
    N : whole numbers
    numbers : Numbers
    law : TraceLaw
        The bound on t = E Tr(K − Q).
    form, direction : str
    enclosed : EnclosedRate or None
        The theorems in balls, with ``rigor="sharp"``.
    """

    N: Float
    numbers: Numbers
    law: TraceLaw
    form: str
    direction: str
    enclosed: EnclosedRate | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, inputs: InputLaw, N: Float, numbers: Numbers, *, form: str, direction: str, rigor: str
    ) -> OneDraw:
        """The statement for a law of inputs or given rows."""
        validation.choice("form", form, FORMS)
        law = trace_law(kernel, inputs, rigor)
        enclosed: EnclosedRate | None = None
        if rigor == "sharp" and isinstance(law, GivenData):
            enclosed = GivenRows(form, direction, law)
        elif rigor == "sharp":
            enclosed = BeforeData.of(kernel, inputs, law.spectrum, form, direction)
        return cls(N, numbers, law, form, direction, enclosed)

    def evaluate(self, M: Float, tail_at: Float | None = None) -> tuple[Any, dict[str, Any]]:
        """(value, terms) in doubles; ``tail_at`` <= M majorises the printed form over tail_at ... M."""
        N, y_norm2, tv = self.N, self.numbers.y_norm2, self.numbers.tv
        alpha, shared = self.numbers.alpha, (self.numbers.noise, self.numbers.alpha, self.numbers.delta)
        terms: dict[str, Any]
        if self.form == "printed":
            t = _raised(self.law.printed(N, M, tail_at) + 2.0 * self.law.largest(N) * tv)
            if y_norm2 is None:
                terms = prior_printed(t, N, *shared)
            else:
                terms = _any_printed(t, N, *shared, y_norm2)
        else:
            t = _raised(self.law.sharpest(N, M) + self.law.largest(N, M) * tv)
            if y_norm2 is None:
                terms = prior_sharpest(t, N - M, *shared)
            else:
                terms = any_markov(t, N - M, *shared, y_norm2)
        if "markov" in terms:
            value = np.minimum(terms["markov"], terms["tail"])
        else:
            value = terms["determinant"] + terms["quadratic"]
        scale: Any = enlargement(self.roundings(M))
        if self.direction == "p||q":
            odds = alpha / (1.0 - alpha)
            scale = scale * np.maximum(odds, 1.0 / odds)
        scaled = {name: term * scale for name, term in terms.items()}
        return np.where(t > 0.0, np.maximum(value, FLOOR) * scale, 0.0), {"expected_trace": t, **scaled}

    def _at_the_ends(self, value: Any, t: Any) -> Any:
        """Whether each finite bound comes from numbers so near an end of the doubles that underflow may spoil it."""
        given, squares = self.numbers, np.asarray(0.0) if self.numbers.y_norm2 is None else self.numbers.y_norm2
        safe = (given.alpha >= LEAST_ORDER) & (given.delta >= LEAST_SHARE) & _in_the_middle(given.noise)
        safe = safe & _in_the_middle(squares) & (t < MIDDLE[1])
        return ~(safe | np.isinf(value) | np.isinf(t))

    def roundings(self, M: Float) -> Float:
        """c: the value as computed errs by at most c·2^-53 of itself (N-rate-rounding)."""
        return self.law.roundings(self.N, M, printed=self.form == "printed")

    def bound(self, M: Float) -> Bound:
        numbers = self.numbers
        if self.enclosed is None:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # `_at_the_ends` finds such cells
                value, terms = self.evaluate(M)
            if (ends := self._at_the_ends(value, terms["expected_trace"])).any():
                value, terms = FromDoubles(self.form, self.direction, self.law).in_cells(
                    ends, (value, terms), N=self.N, M=M, **vars(numbers)
                )
                value = normal_or_zero(value, value > 0.0)
        else:
            value, terms = self.enclosed.evaluate(N=self.N, M=M, **vars(numbers))
        prior, approximate = numbers.y_norm2 is None, bool((numbers.tv > 0).any())
        claims = [
            f"{'R-thm1' if prior else 'R-thm2'} ({'as printed' if self.form == 'printed' else 'sharper form'})",
            self.law.claims,
            *(["R-cor1"] if approximate else []),
            *(["R-dir"] if self.direction == "p||q" else []),
        ]
        law = "a law within total variation tv of a k-DPP" if approximate else "a k-DPP"
        measured = None if self.enclosed is not None else self.law.measured(self.roundings(M))
        assumptions = (
            "q* is the best variational posterior for the inducing inputs Z, p the exact one.",
            f"Z is drawn from the N inputs by {law} of size M.",
            "y is drawn from the prior, with the given noise variance."
            if prior
            else "y is any vector with the given squared norm, even one that depends on X and Z.",
            *(self.law.assumptions if self.enclosed is None else self.enclosed.assumptions(self.law.assumptions)),
            *(() if measured is None else (measured,)),
        )
        order = f"{float(numbers.alpha):g}" if numbers.alpha.ndim == 0 else "alpha"
        return upper_bound(
            value,
            numbers.delta,
            ", ".join(claims),
            terms,
            assumptions,
            certified=measured is None,
            quantity=f"D_{order}[{'q*||p' if self.direction == 'q||p' else 'p||q*'}]",
        )

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        N, given = int(self.N), self.law if isinstance(self.law, GivenData) else None
        M = self._from_which_on(target, N - 1 if given is None else min(N - 1, given.spectrum.rank))
        if self.enclosed is not None and M is not None:
            M = self._fewest(target, M)
        return Plan.at(
            M,
            self._cell,
            first=1,
            method="inducing",
            N=N,
            target=target,
            needed=None if given is None or self.direction == "p||q" else self._needed(given, target),
            meaning=sentences(target, float(self.numbers.alpha)),
        )

    def _cell(self, M: int) -> Bound:
        return self.bound(np.asarray(float(M)))

    def _from_which_on(self, target: float, highest: int) -> int | None:
        """The least M <= highest such that the bound in doubles is <= target at M and at every larger M <= highest."""

        def majorant(a: Float, b: Float) -> Float:
            # The sharpest form decreases in M; the printed one has a factor M + 1 before a tail that decreases.
            arguments = (a,) if self.form == "sharpest" else (b, a)
            return self.evaluate(*arguments)[0]

        # Search upward first: a spectrum in best-first order should not compute more eigenvalues than the answer needs.
        top = np.asarray(float(highest))
        interval = upward(lambda m: bool(majorant(np.asarray(float(m)), top) <= target), min(64, highest), highest)
        if interval is None:
            return None
        above = last_above(majorant, 1, interval[1], target)
        return 1 if above is None else above + 1

    def _fewest(self, target: float, M: int) -> int | None:
        """The least number of points for which the end of the ball is at most the target, near that in doubles.

        It is M or fewer, as the allowance in doubles is wider, unless the balls use other upper bounds of eigenvalues.
        """

        def reaches(m: int) -> bool:
            return float(self._cell(m)) <= target

        if not reaches(M):
            return least(reaches, M + 1, int(self.N) - 1)
        while M > 1 and reaches(M - 1):
            M -= 1
        return M

    def _needed(self, law: GivenData, target: float) -> int:
        """N-low from the eigenvalues of K, each lowered by its rounding error."""
        from gpbounds.renyi import needed_from_eigenvalues

        lower = law.spectrum.lower_eigenvalues() * law.N
        return needed_from_eigenvalues(lower, float(self.numbers.alpha), noise=float(self.numbers.noise), target=target)


def _raised(t: Any) -> Any:
    return np.where(t > 0.0, np.maximum(t, TINY), 0.0)


def _in_the_middle(numbers: Any) -> Any:
    """Whether each number is 0, which is exact, or within `MIDDLE`."""
    return (numbers == 0.0) | ((numbers > MIDDLE[0]) & (numbers < MIDDLE[1]))


def one_draw_only(y_norm2_known: str, law: str | None) -> None:
    """Refuse arguments that only statements about several draws take."""
    if validation.choice("y_norm2_known", y_norm2_known, KNOWN) == "before":
        raise ValueError("draws: expected a number of draws with y_norm2_known='before', got None")
    if law is not None:
        raise ValueError(
            f"law: expected None without draws: the bound of one draw is about the k-DPP; got {shown(law)}"
        )
