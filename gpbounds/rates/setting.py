"""The theorems that need the mean of Tr(K − Q) alone: one draw, y from the prior or any y of a norm."""

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
from gpbounds.rates.balls import TINY, BeforeData, EnclosedRate, FromDoubles, GivenRows
from gpbounds.rates.draws.sentences import KNOWN
from gpbounds.rates.expected_trace import GivenData, TraceLaw, trace_law
from gpbounds.rigor import rigor_of
from gpbounds.statements import enlargement, normal_or_zero, upper_bound

FORMS = ("sharpest", "printed")
DIRECTIONS = ("q||p", "p||q")
LEAST_ORDER, LEAST_SHARE = 1e-9, 1e-15
MIDDLE = (1e-30, 1e30)
"""For such α, δ and numbers, what underflows between t* ≥ `TINY` and the bound is below 1e-245."""
FLOOR = 1e-230
"""A positive bound is raised to it, so that 1e-245 is less than 2⁻⁵³ of it."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a statement, checked; they broadcast."""

    alpha: Float
    noise: Float
    delta: Float
    y_norm2: Float | None
    tv: Float

    @classmethod
    def checked(
        cls,
        alpha: ArrayLike,
        noise: ArrayLike,
        delta: ArrayLike,
        y_norm2: ArrayLike | None,
        tv: ArrayLike,
        direction: str,
    ) -> Numbers:
        """From the arguments of ``rate``."""
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
        )

    def single(self) -> dict[str, float | None]:
        """As floats; an array is an error."""
        for name, value in vars(self).items():
            if value is not None and value.ndim:
                raise ValueError(
                    f"{name}: expected one number, got shape {value.shape}: call the function once for each"
                )
        return {name: None if value is None else float(value) for name, value in vars(self).items()}


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
    enclosed: EnclosedRate | None = None

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
        rigor: str = "auto",
    ) -> Setting:
        """From the arguments that ``rate`` and ``inducing_points`` share."""
        numbers = Numbers.checked(alpha, noise, delta, y_norm2, tv, direction)
        validation.choice("form", form, FORMS)
        law = Gaussian() if inputs is None else inputs
        enclosed: EnclosedRate | None = None
        chosen = rigor_of(rigor)
        proved = chosen == "sharp"
        traces = trace_law(kernel, law, chosen)
        if proved and isinstance(traces, GivenData):
            enclosed = GivenRows(form, direction, traces)
        elif proved:
            enclosed = BeforeData.of(kernel, law, traces.spectrum, form, direction)
        return cls(**vars(numbers), form=form, direction=direction, law=traces, enclosed=enclosed)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the statement."""
        return Numbers(self.alpha, self.noise, self.delta, self.y_norm2, self.tv)

    def evaluate(self, N: Float, M: Float, tail_at: Float | None = None) -> tuple[Any, dict[str, Any]]:
        """(value, terms) for checked N and M; ``tail_at`` <= M majorises the printed form over tail_at ... M."""
        n, shared = N - M, (self.noise, self.alpha, self.delta)
        terms: dict[str, Any]
        if self.form == "printed":
            t = _raised(self.law.printed(N, M, tail_at) + 2.0 * self.law.largest(N) * self.tv)
            if self.y_norm2 is None:
                terms = forms.prior_printed(t, N, *shared)
            else:
                terms = forms.any_printed(t, N, *shared, self.y_norm2)
        else:
            t = _raised(self.law.sharpest(N, M) + self.law.largest(N, M) * self.tv)
            if self.y_norm2 is None:
                terms = forms.prior_sharpest(t, n, *shared)
            else:
                terms = forms.any_markov(t, n, *shared, self.y_norm2)
        if "markov" in terms:
            value = np.minimum(terms["markov"], terms["tail"])
        else:
            value = terms["determinant"] + terms["quadratic"]
        scale: Any = enlargement(self._roundings(N, M))
        if self.direction == "p||q":
            odds = self.alpha / (1.0 - self.alpha)
            scale = scale * np.maximum(odds, 1.0 / odds)
        scaled = {name: term * scale for name, term in terms.items()}
        return np.where(t > 0.0, np.maximum(value, FLOOR) * scale, 0.0), {"expected_trace": t, **scaled}

    def _at_the_ends(self, value: Any, t: Any) -> Any:
        """Where a bound that is not infinite was computed from a number near an end of the doubles."""
        squares = np.asarray(0.0) if self.y_norm2 is None else self.y_norm2
        safe = (self.alpha >= LEAST_ORDER) & (self.delta >= LEAST_SHARE) & _in_the_middle(self.noise)
        safe = safe & _in_the_middle(squares) & (t < MIDDLE[1])
        return ~(safe | np.isinf(value) | np.isinf(t))

    def _roundings(self, N: Float, M: Float) -> Float:
        return self.law.roundings(N, M, printed=self.form == "printed")

    def bound(self, N: Float, M: Float) -> Bound:
        """The :class:`Bound` for checked N and M."""
        if self.enclosed is None:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # judged below
                value, terms = self.evaluate(N, M)
            if (ends := self._at_the_ends(value, terms["expected_trace"])).any():
                value, terms = FromDoubles(self.form, self.direction, self.law).in_cells(
                    ends, (value, terms), N=N, M=M, **vars(self.numbers)
                )
                value = normal_or_zero(value, value > 0.0)
        else:
            value, terms = self.enclosed.evaluate(N=N, M=M, **vars(self.numbers))
        prior, approximate = self.y_norm2 is None, bool((self.tv > 0).any())
        claims = [
            f"{'R-thm1' if prior else 'R-thm2'} ({'as printed' if self.form == 'printed' else 'sharper form'})",
            self.law.claims,
            *(["R-cor1"] if approximate else []),
            *(["R-dir"] if self.direction == "p||q" else []),
        ]
        law = "a law within total variation tv of a k-DPP" if approximate else "a k-DPP"
        measured = None if self.enclosed is not None else self.law.measured(self._roundings(N, M))
        assumptions = (
            "q* is the best variational posterior for the inducing inputs Z, p the exact one.",
            f"Z is drawn from the N inputs by {law} of size M.",
            "y is drawn from the prior, with the given noise variance."
            if prior
            else "y is any vector with the given squared norm, even one that depends on X and Z.",
            *(self.law.assumptions if self.enclosed is None else self.enclosed.assumptions(self.law.assumptions)),
            *(() if measured is None else (measured,)),
        )
        order = f"{float(self.alpha):g}" if self.alpha.ndim == 0 else "alpha"
        return upper_bound(
            value,
            self.delta,
            ", ".join(claims),
            terms,
            assumptions,
            certified=measured is None,
            quantity=f"D_{order}[{'q*||p' if self.direction == 'q||p' else 'p||q*'}]",
        )


def _raised(t: Any) -> Any:
    return np.where(t > 0.0, np.maximum(t, TINY), 0.0)


def _in_the_middle(numbers: Any) -> Any:
    """Entry by entry; 0 is exact."""
    return (numbers == 0.0) | ((numbers > MIDDLE[0]) & (numbers < MIDDLE[1]))


def sizes(N: ArrayLike, M: ArrayLike) -> tuple[Float, Float]:
    """N and M as whole numbers with 1 <= M <= N - 1 in every cell of their broadcast."""
    data, inducing = validation.whole("N", N, 2), validation.whole("M", M)
    wide_N, wide_M = np.broadcast_arrays(data, inducing)
    if (wide_M >= wide_N).any():
        cell = tuple(int(i) for i in np.argwhere(wide_M >= wide_N)[0])
        where = f" at index {cell}" if cell else ""
        raise ValueError(f"M: expected 1 <= M <= N - 1, got M = {wide_M[cell]:.0f}, N = {wide_N[cell]:.0f}{where}")
    return data, inducing


def one_draw_only(y_norm2_known: str, law: str | None) -> None:
    """Refuse what only statements about several draws have."""
    if validation.choice("y_norm2_known", y_norm2_known, KNOWN) == "before":
        raise ValueError("draws: expected a number of draws with y_norm2_known='before', got None")
    if law is not None:
        raise ValueError(f"law: expected None without draws: the bound of one draw is about the k-DPP; got {law!r}")
