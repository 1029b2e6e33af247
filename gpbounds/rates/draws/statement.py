"""The best of several draws from given rows: which theorems apply, and the least of their bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, is_cupy
from gpbounds.bound import Bound, given_inputs
from gpbounds.errors import shown
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.kernels import Kernel
from gpbounds.kernels.errors import entry_bound
from gpbounds.rates.base import Numbers
from gpbounds.rates.draws.base import SeveralDraws
from gpbounds.rates.draws.errors import EnclosedRows, certified_bounds
from gpbounds.rates.draws.from_trace import adversary_from_trace, streamed_prior, tilted_from_trace
from gpbounds.rates.draws.given import CERTAIN, REDRAW, best_fixed, best_given, draws_argument, redrawn
from gpbounds.rates.draws.norm import adversary
from gpbounds.rates.draws.pairs import GradedRows, graded_bounds
from gpbounds.rates.draws.prior import one_draw, prior_large, prior_moments
from gpbounds.rates.draws.rows import DENSE, FIRST_PIVOTS, DenseRows, StreamedRows, rows_of
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, KNOWN, checked_draws, of_order, record
from gpbounds.rates.draws.tilted import tilted_given, tilted_prior
from gpbounds.rates.one_draw import prior_sharpest
from gpbounds.rigor import AFFORDABLE
from gpbounds.validation import rigor_of
from gpbounds.whitening import as_targets

# The least of the bounds for y from the prior.


def least_prior(
    residual: ExpectedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """Bound on D_α for y from the prior and the best of R k-DPP draws: least of N-prior, N-prior2, N-one, R-thm1, α·KL.

    The choice of the least bound depends on the eigenvalues alone, not on draws or y, so it holds with probability 1 −
    δ.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    delta : float
        Probability in (0, 1) with which the bound may fail, over y and the draws.
    draws : int
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> best = least_prior(residual, delta=0.05, draws=10)
    >>> best.claim, float(best).__round__(4)
    ('N-prior, N-res', 0.06)
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    candidates = []
    for order in dict.fromkeys((alpha, 1.0)):
        bounds = [
            bound(residual, delta=delta, draws=draws, alpha=order, tv=tv)
            for bound in (prior_moments, prior_large, one_draw)
        ]
        if tv == 0.0:
            bounds.append(_markov(residual, delta, order))
        candidates += bounds if order == alpha else [of_order(bound, alpha) for bound in bounds]
    return min(candidates, key=float)


def _markov(residual: ExpectedResidual, delta: float, alpha: float) -> Bound:
    """R-thm1 for the exact mean of the trace: it bounds the first draw, and the best draw is at least as good."""
    count = int((residual.eigenvalues > 0.0).sum()) - residual.M
    terms = {"expected_trace": residual.trace}
    assumptions = (DRAWN, BEST_OBJECTIVE, FROM_PRIOR)
    if count == 0:
        return record(0.0, delta, "R-thm1 (sharper form), R-lem3", terms, assumptions, alpha=alpha)
    unit = np.asarray(1.0)
    parts = prior_sharpest(residual.trace * unit, count * unit, residual.noise * unit, alpha * unit, delta * unit)
    terms |= {name: float(part) for name, part in parts.items()}
    value = min(float(part) for part in parts.values())
    return record(value, delta, "R-thm1 (sharper form), R-lem3", terms, assumptions, alpha=alpha)


# The best of several draws from given rows: which theorems apply, and the least of their bounds.

LAWS = ("kdpp", "tilted")
NOT_CERTIFIED = (
    "certified: expected True only with y, draws and inputs=Empirical(X): only there is every rounding enclosed on "
    "request. For one draw, and for y from the prior, rigor='sharp' encloses the bound. Other bounds say in their "
    "attribute `certified` whether their rounding is proved"
)
_ONLY_FLOAT = (
    "rigor: expected 'float' for any y of a norm that may depend on the draws (y_norm2_known='after'); with draws "
    "'sharp' bounds y given, y from the prior, and a y of a norm that is fixed before the draws"
)

LARGEST, FARTHEST = 1e50, 1e40
"""Limits of these bounds in doubles: the largest k(x, x), and its largest ratio to σ² or y²; and their reciprocals."""


@dataclass(frozen=True, eq=False)
class DrawsFromRows(SeveralDraws):
    """The bound for draws from given rows.

    Attributes
    ----------
    numbers : Numbers
    rows : DenseRows, StreamedRows, or for bounds whose rounding is enclosed EnclosedRows, GradedRows
    about : str
        The hypothesis on y: "given", "prior", "before" (any y of a norm, fixed before the draws) or "after" (any y of a
        norm).
    draws : int, or "certain"
    law : str or None
        The law of each draw, "kdpp" or "tilted"; None for the law with the smaller bound.
    direction : str
    """

    numbers: Numbers
    rows: DenseRows | StreamedRows | EnclosedRows | GradedRows
    about: str
    draws: int | str
    law: str | None
    direction: str

    @property
    def N(self) -> int:
        return self.rows.N

    @property
    def largest(self) -> int:
        return self.rows.largest

    def require(self, N: Float) -> None:
        """Raise an error unless N is the number of rows."""
        if (N != self.rows.N).any():
            raise ValueError(
                f"N: expected the number of rows of X, {self.rows.N}, for inputs=Empirical(X), got {N.flat[0]:.0f}"
            )

    def needed(self, target: float) -> int | None:
        if self.direction == "p||q" or self.rows.outputs > 1:
            return None
        from gpbounds.renyi import needed_from_eigenvalues

        alpha, noise = float(self.numbers.alpha), float(self.numbers.noise)
        return needed_from_eigenvalues(self.rows.lower_eigenvalues(), alpha, noise=noise, target=target)

    def cell(
        self, M: int, *, alpha: float, noise: float, delta: float, tv: float = 0.0, y_norm2: float | None = None
    ) -> Bound:
        if not isinstance(self.rows, GradedRows):
            _require_near(self.rows.variance, noise, math.sqrt(y_norm2 or 0.0))
        sure = self.draws == CERTAIN
        options: dict[str, Any] = {"delta": REDRAW, "draws": 1} if sure else {"delta": delta, "draws": self.draws}
        options |= {"alpha": alpha, "tv": tv}
        if isinstance(self.rows, GradedRows):
            bounds = graded_bounds(self.rows, M, noise, about=self.about, y_norm2=y_norm2, law=self.law, **options)
        elif isinstance(self.rows, EnclosedRows):
            bounds = certified_bounds(self.rows, M, noise, law=self.law, **options)
        else:
            bounds = self._bounds(self.rows, M, noise, y_norm2, options)
        least = min(bounds, key=float)
        return self._finished(redrawn(least) if sure else least, M, alpha)

    def _bounds(
        self, rows: DenseRows | StreamedRows, M: int, noise: float, y_norm2: float | None, options: dict[str, Any]
    ) -> list[Bound]:
        bounds = []
        if self.law != "tilted":
            bounds.append(self._of_kdpp(rows, rows.residual(M, noise), y_norm2, options))
        if self.law == "tilted" or (self.law is None and isinstance(rows, DenseRows) and self.about != "after"):
            bounds += self._of_tilted(rows, M, noise, options)
        return bounds

    def _of_kdpp(
        self, rows: DenseRows | StreamedRows, residual: Any, y_norm2: float | None, options: dict[str, Any]
    ) -> Bound:
        if self.about == "given":
            return best_given(residual, rows.quadratic(residual), outputs=rows.outputs, **options)
        if self.about == "prior":
            dense = isinstance(rows, DenseRows)
            return least_prior(residual, **options) if dense else streamed_prior(residual, **options)
        assert y_norm2 is not None
        if self.about == "before":
            return best_fixed(residual, y_norm2, residual.greatest_weight, **options)
        if isinstance(rows, DenseRows):
            return adversary(residual, y_norm2, **options)
        rest = rows.N - residual.M
        return adversary_from_trace(residual.trace, rest, y_norm2, noise=residual.noise, **options)

    def _of_tilted(self, rows: DenseRows | StreamedRows, M: int, noise: float, options: dict[str, Any]) -> list[Bound]:
        if self.about == "given":
            assert isinstance(rows, DenseRows)
            return [tilted_given(rows.ends(M, noise), rows.squares, outputs=rows.outputs, **options)]
        if self.about != "prior":
            return []
        if isinstance(rows, DenseRows):
            return [tilted_prior(rows.ends(M, noise), **options)]
        return [tilted_from_trace(*rows.tilted(M, noise), noise=noise, **options)]

    def _finished(self, bound: Bound, M: int, alpha: float) -> Bound:
        """The bound with the hypothesis on X, a remark on the numerical rank, and the direction (R-dir)."""
        assumptions = [given_inputs(self.rows.N), *bound.assumptions]
        if not isinstance(self.rows, StreamedRows) and self.rows.numerical_rank <= M:
            assumptions.append(
                f"M is not below the numerical rank {self.rows.numerical_rank} of k(X, X): its eigenvalues are rounded "
                "upwards, so the bound is about k(X, X) itself, but rounding decides what a sampler draws there "
                "(gpbounds.kdpp.rounding_tv)."
            )
        certified = isinstance(self.rows, EnclosedRows | GradedRows) and math.isfinite(float(bound))
        bound = replace(bound, assumptions=tuple(assumptions), certified=certified)
        if self.direction == "q||p":
            return bound
        from gpbounds.renyi import direction_factor

        return replace(
            bound,
            value=bound.value * direction_factor(alpha),
            claim=f"{bound.claim}, R-dir",
            quantity=bound.quantity.replace("q*||p", "p||q*"),
        )


def draws_from_rows(
    kernel: Kernel,
    inputs: InputLaw,
    numbers: Numbers,
    *,
    y: ArrayLike | None,
    draws: int | str | None,
    y_norm2_known: str,
    law: str | None,
    form: str,
    direction: str,
    certified: bool = False,
    rigor: str = "auto",
    dense: int = DENSE,
    first: int = FIRST_PIVOTS,
) -> DrawsFromRows:
    """The statement of ``rate`` if draws or targets are passed.

    Up to ``dense`` rows K is decomposed; beyond, at least ``first`` pivots are computed.  Every rounding is enclosed
    with y given up to `AFFORDABLE` rows for ``rigor="auto"``, up to ``dense`` for ``certified``, which refuses what it
    cannot enclose; with ``rigor="sharp"`` from eigenvalues in 30 digits.
    """
    if form != "sharpest":
        raise ValueError(
            f"form: expected 'sharpest' with draws, got {shown(form)}: the papers print no bound for draws"
        )
    if not isinstance(inputs, Empirical):
        name, why = ("y", "the rows it belongs to") if y is not None else ("draws", "the rows that are drawn from")
        raise ValueError(
            f"{name}: expected inputs=Empirical(X), {why}, got {shown(inputs)}. About inputs to come: simulate=m, or "
            "draws with Gaussian or Uniform inputs in one dimension"
        )
    if draws is None:
        raise ValueError(
            "draws: expected the number R of draws of which the best is kept, or 'certain', with y; got None"
        )
    count, prior = draws_argument(draws), numbers.y_norm2 is None
    chosen = rigor_of(rigor)
    validation.choice("y_norm2_known", y_norm2_known, KNOWN)
    if law is not None:
        validation.choice("law", law, LAWS)
    about = "given" if y is not None else "prior" if prior else y_norm2_known
    if y is not None and not prior:
        raise ValueError("y_norm2: expected None where y itself is given: its norm follows from it")
    if count == CERTAIN and about not in ("given", "before"):
        raise ValueError(
            "draws: expected a whole number >= 1 unless y is given, or fixed before the draws: redrawing ends by "
            "looking at y; got 'certain'"
        )
    if law == "tilted" and about in ("before", "after"):
        raise ValueError("law: expected 'kdpp' where only the norm of y is known, got 'tilted'")
    # y stays in double precision where bounds are proved, beside rows in single precision as well
    enclosed = certified or (about == "given" and chosen == "auto" and _affordable(kernel, inputs, dense))
    proved = (enclosed or chosen == "sharp") and not is_cupy(inputs.X)
    targets = None if y is None else as_targets(y, np.asarray(inputs.X, dtype=np.float64) if proved else inputs.X)
    columns = targets if targets is None or targets.ndim == 2 else targets[:, None]
    if chosen == "sharp":
        if about == "after":
            raise ValueError(_ONLY_FLOAT)
        if is_cupy(inputs.X) or inputs.N > dense:
            raise ValueError(
                f"rigor: expected at most {dense} rows in host memory with 'sharp' and draws, where k(X, X) is "
                f"factorised in 30 digits, got {inputs.N}{' on a GPU' if is_cupy(inputs.X) else ''}"
            )
        return DrawsFromRows(numbers, GradedRows(kernel, inputs.X, columns), about, count, law, direction)
    if columns is not None:
        _require_near(float(kernel.largest_variance(inputs.X)), y=float(abs(columns).max()))
    if enclosed:
        if about != "given" or columns is None:
            raise ValueError(NOT_CERTIFIED)
        if is_cupy(inputs.X) or inputs.N > dense:
            raise ValueError(
                f"certified: expected at most {dense} rows in host memory, where k(X, X) is decomposed, got {inputs.N}"
            )
        return DrawsFromRows(numbers, EnclosedRows(kernel, inputs.X, columns), about, count, law, direction)
    rows = rows_of(kernel, inputs.X, columns, dense=dense, first=first)
    if isinstance(rows, StreamedRows) and law == "tilted" and rows.N > DENSE:
        raise ValueError(f"law: expected 'kdpp' beyond {DENSE} rows, where k(X, X) is not decomposed; got 'tilted'")
    return DrawsFromRows(numbers, rows, about, count, law, direction)


def _require_near(variance: float, noise: float | None = None, y: float = 0.0) -> None:
    """Refuse numbers whose products leave the doubles; the bounds depend on k(x, x)/σ² and y²/σ² alone.

    ``y`` is the largest |y|, or the norm.
    """
    if not 1.0 / LARGEST <= variance <= LARGEST:
        raise ValueError(
            f"kernel: expected a largest k(x, x) between {1.0 / LARGEST:g} and {LARGEST:g} at the rows with draws, got "
            f"{variance:.3g}: multiply y by a number, and kernel and noise by its square"
        )
    if noise is not None and not 1.0 / FARTHEST <= noise / variance <= FARTHEST:
        raise ValueError(
            f"noise: expected σ² within a factor of {FARTHEST:g} of the largest k(x, x) at the rows with draws, "
            f"{variance:.3g}, got {noise:.3g}"
        )
    if not y / math.sqrt(variance) <= FARTHEST**0.5:
        raise ValueError(
            f"y: expected targets, or a norm, up to {FARTHEST**0.5:g} standard deviations of f at the rows with draws, "
            f"{math.sqrt(variance):.3g}, got {y:.3g}"
        )


def _affordable(kernel: Kernel, inputs: Empirical, dense: int) -> bool:
    """Whether "auto" encloses all rounding of a statement about y: few rows, and a kernel with proved entry errors."""
    few = not is_cupy(inputs.X) and inputs.N <= min(AFFORDABLE, dense)
    return few and entry_bound(kernel, inputs.X[:1], inputs.X[:1]) is not None
