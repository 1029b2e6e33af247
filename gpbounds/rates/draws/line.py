"""The best of several draws before X is seen, for inputs on a line: N-trace with the quantiles of N-sum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpbounds import validation
from gpbounds.bound import FIXED, UP, Bound, drawn_from
from gpbounds.errors import shown
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.rates.base import Numbers
from gpbounds.rates.concentration import SumLaw
from gpbounds.rates.draws.base import SeveralDraws
from gpbounds.rates.draws.from_trace import adversary_from_trace, fixed_from_trace, prior_from_trace
from gpbounds.rates.draws.norm import AFTERWARDS, LEAST_TRACE
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, KNOWN
from gpbounds.rates.one_draw import OneDraw
from gpbounds.rates.trace import APriori

SHARES = (0.5, 0.25, 0.125)
"""Shares of δ that are tried for the trace; the best one does not depend on random numbers."""
SMALL = 1.0 / 32.0
"""Share of δ for the trace with one point fewer; it has little effect."""


@dataclass(frozen=True, eq=False)
class DrawsOnALine(SeveralDraws):
    """The bound for several draws, if X is iid on a line.

    P(τ_M(K_X) > t) ≤ δ₁ and P(τ_{M−1}(K_X) > Mr) ≤ δ₂ (N-sum), and given X the bounds of N-trace in t and r fail with
    probability at most δ − δ₁ − δ₂.

    Attributes
    ----------
    numbers : Numbers
    law : SumLaw
    about : str
        The hypothesis on y: "prior", "before" or "after".
    draws : int
    direction : str
    one_draw : APriori or None
        The mean of the trace from the spectrum, if the spectrum is known.
    """

    numbers: Numbers
    law: SumLaw
    about: str
    draws: int
    direction: str
    one_draw: APriori | None

    @property
    def N(self) -> int:
        return self.law.N

    @property
    def largest(self) -> int:
        return self.law.N - 1

    def cell(
        self, M: int, *, alpha: float, noise: float, delta: float, tv: float = 0.0, y_norm2: float | None = None
    ) -> Bound:
        """The least over the shares of δ."""
        N, law = self.law.N, self.law
        ratio = law.quantile(M - 1, SMALL * delta)[0] / M * UP if M > 1 else N * law.kernel.max_variance
        bounds = []
        for part in SHARES:
            value, outliers = law.quantile(M, part * delta)
            trace, rest = value * UP, (1.0 - part - SMALL) * delta
            if self.about == "prior":
                bound = prior_from_trace(trace, ratio, noise=noise, delta=rest, draws=self.draws, alpha=alpha, tv=tv)
            else:
                assert y_norm2 is not None
                if self.about == "before":
                    bound = fixed_from_trace(
                        trace, ratio, y_norm2, noise=noise, delta=rest, draws=self.draws, alpha=alpha, tv=tv
                    )
                else:
                    bound = adversary_from_trace(
                        trace, N - M, y_norm2, noise=noise, delta=rest, draws=self.draws, alpha=alpha, tv=tv
                    )
            claim = f"{bound.claim}, N-sum" + (", N-out" if outliers > 0 else "")
            bounds.append(replace(bound, claim=claim, terms={**bound.terms, "expected_trace": trace}))
        if self.one_draw is not None and tv == 0.0 and self.about != "before":
            bounds.append(self._one_draw(M, alpha, noise, delta, y_norm2))
        best = min(bounds, key=float)
        last = best.assumptions[-1:] if np.isinf(float(best)) else ()  # the reason stays last
        assumptions = (*best.assumptions[: len(best.assumptions) - len(last)], drawn_from(law.inputs), FIXED, *last)
        factor = 1.0
        if self.direction != "q||p":
            from gpbounds.renyi import direction_factor

            factor = direction_factor(alpha)
        return replace(
            best,
            value=best.value * factor,
            confidence=1.0 - delta,
            claim=best.claim if factor == 1.0 and self.direction == "q||p" else f"{best.claim}, R-dir",
            assumptions=assumptions,
            quantity=best.quantity if self.direction == "q||p" else best.quantity.replace("q*||p", "p||q*"),
        )

    def _one_draw(self, M: int, alpha: float, noise: float, delta: float, y_norm2: float | None) -> Bound:
        """R-thm1 or R-thm2 with N-pop: the draw that is kept is at least as good as the first one."""
        assert self.one_draw is not None
        parts = Numbers.checked(alpha, noise, delta, y_norm2, 0.0, "q||p")
        one_draw = OneDraw(np.asarray(float(self.N)), parts, self.one_draw, form="sharpest", direction="q||p")
        bound = one_draw.bound(np.asarray(float(M)))
        kept = (DRAWN, BEST_OBJECTIVE, FROM_PRIOR) if self.about == "prior" else (DRAWN, LEAST_TRACE, AFTERWARDS)
        return replace(bound, value=float(bound), assumptions=kept, certified=False)


def draws_on_a_line(
    kernel: Kernel,
    inputs: Gaussian | Uniform,
    N: int,
    numbers: Numbers,
    *,
    draws: int | str | None,
    y_norm2_known: str,
    law: str | None,
    form: str,
    direction: str,
) -> DrawsOnALine:
    """The statement of ``rate`` for draws from future inputs on a line."""
    if form != "sharpest":
        raise ValueError(
            f"form: expected 'sharpest' with draws, got {shown(form)}: the papers print no bound for draws"
        )
    validation.choice("y_norm2_known", y_norm2_known, KNOWN)
    if law not in (None, "kdpp"):
        raise ValueError(
            f"law: expected 'kdpp' for future inputs, unless they are simulated (simulate=m); got {shown(law)}"
        )
    about, count = "prior" if numbers.y_norm2 is None else y_norm2_known, validation.count("draws", draws)
    known = has_formula(kernel, SquaredExponential, Matern)
    one_draw = APriori(kernel, inputs) if known else None
    return DrawsOnALine(numbers, SumLaw(kernel, N, inputs), about, count, direction, one_draw)
