"""Would the exact GP predict better: scores of sparse posteriors and of the exact one at the same held-out rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gpbounds.arrays import Float
from gpbounds.audit.coverage import rows_to_test
from gpbounds.audit.levels import Enough, Level, level_at
from gpbounds.audit.model import Subject
from gpbounds.audit.scores import (
    Difference,
    Enclosure,
    average,
    difference,
    log_loss_ends,
    root_mean,
    shifted,
    squared_error_ends,
)
from gpbounds.errors import NotPositiveDefinite
from gpbounds.iterative import exact_predictions
from gpbounds.progress import bar
from gpbounds.renyi.further import further_rows
from gpbounds.validation import count, instance, positive, scalar

LOSS = 0.01
"""Differences of log loss below this count as none: nats a row."""
ROWS = 200
"""Held-out rows that are compared where the exact GP needs iterative solves."""
FACTOR = 6000
"""Up to so many training rows a Cholesky factor serves, and more held-out rows are compared."""
MANY = 2000
"""Held-out rows that are compared then, at most."""
RESOLUTION = 0.05
"""The exact GP's predictions are wanted within this share of the threshold, in noise variances."""

Kind = Literal["model", "best", "chosen", "added", "retrained"]
KINDS: dict[Kind, str] = {
    "model": "the model",
    "best": "best with its points",
    "chosen": "chosen rows",
    "added": "with more rows",
    "retrained": "retrained (estimate)",
}
"""What each kind of prediction is, in words."""


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """A sparse posterior's predictions, scored at the rows that are compared.

    Attributes
    ----------
    M : int or None
        Number of inducing points; None for a model without them.
    kind : "model", "best", "chosen", "added" or "retrained"
        The model itself; the best posterior with its points; that with rows chosen by the greedy method, or with its
        points and more rows; a model that was trained again.
    log_losses, squares : Enclosure of arrays (n,)
        Log loss in nats and squared error of each row, in the units of the table; the ends are those of rounding.
    log_loss : Difference
        Log loss of the exact GP less that of these predictions: negative where the exact GP predicts better.
    squared_error : Difference
        The same of squared errors.
    rmse : Enclosure
        Root mean squared error of these predictions.
    exact_rmse : Enclosure
        That of the exact GP.
    kl : (float, float) or None
        Lower and upper bound on the divergence of this posterior from the exact one, over N: nats for each training
        row.
    """

    M: int | None
    kind: Kind
    log_losses: Enclosure
    squares: Enclosure
    log_loss: Difference
    squared_error: Difference
    rmse: Enclosure
    exact_rmse: Enclosure
    kl: tuple[float, float] | None = None

    @property
    def mean_log_loss(self) -> float:
        """The mean log loss, nats a row."""
        return float(average(self.log_losses).middle)

    @property
    def gain(self) -> tuple[float, float]:
        """What the exact GP gains in log loss, in nats a row: the centre of its 95 % interval, and half its width."""
        low, high = self.log_loss.interval
        if not math.isfinite(high - low):
            return -self.log_loss.mean, math.inf
        return -0.5 * (low + high), 0.5 * (high - low)

    @property
    def rmse_difference(self) -> tuple[Enclosure, Enclosure]:
        """RMSE of the exact GP less that of these predictions: its enclosure, and its 95 % interval over rows.

        √a − √b = (a − b)/(√a + √b), with Student's interval of a − b; √a and √b are those of these rows.
        """
        enclosure = Enclosure(
            math.nextafter(self.exact_rmse.low - self.rmse.high, -math.inf),
            math.nextafter(self.exact_rmse.high - self.rmse.low, math.inf),
        )
        both = max(float(self.rmse.middle) + float(self.exact_rmse.middle), np.finfo(float).tiny)
        low, high = self.squared_error.interval
        return enclosure, Enclosure(low / both, high / both)

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        enclosure, interval = self.rmse_difference
        return {
            "M": self.M,
            "points": self.kind,
            "log_loss": self.mean_log_loss,
            "rmse": float(self.rmse.middle),
            "difference": {
                "log_loss": self.log_loss.to_dict(),
                "squared_error": self.squared_error.to_dict(),
                "rmse": {"enclosure": list(enclosure), "interval": list(interval)},
            },
            "kl_per_row": None if self.kl is None else list(self.kl),
        }


@dataclass(frozen=True, eq=False)
class Compared:
    """The exact GP's predictions at held-out rows beside those of the model and of sparse posteriors with other M.

    Attributes
    ----------
    rows : array of int (n,)
        The rows that are compared: numbers from 0 among the held-out rows.
    held : int
        Number of held-out rows.
    y : array (n,)
    noise : float
        σ², in squared units of y.
    loss : float
        Differences of log loss below this count as none, in nats a row.
    log_losses, squares : Enclosure of arrays (n,)
        Proved ends of the exact GP's log loss and squared error at each row.
    certified : bool
        Whether all rounding is proved.
    method : str
        How the exact GP was solved for: "cholesky" or "conjugate gradients".
    levels : tuple of PredictionScores
        The model, and sparse posteriors with its kernel and noise, in order of M.
    retrained : PredictionScores or None
        A model that was trained again with more points: an estimate of what training gains.
    interrupted : bool
        Whether Ctrl-C ended the computation; then levels are missing.
    left_out : tuple of str
        Levels that could not be computed, and why.
    """

    rows: Any
    held: int
    y: Float
    noise: float
    loss: float
    log_losses: Enclosure
    squares: Enclosure
    certified: bool
    method: str
    levels: tuple[PredictionScores, ...] = ()
    retrained: PredictionScores | None = None
    interrupted: bool = False
    left_out: tuple[str, ...] = ()
    again: str = field(default="compare more of them")

    @property
    def n(self) -> int:
        """Number of rows that are compared."""
        return int(self.y.size)

    @property
    def log_loss(self) -> Enclosure:
        """Ends of the exact GP's mean log loss, nats a row."""
        return average(self.log_losses)

    @property
    def rmse(self) -> Enclosure:
        """Ends of the exact GP's root mean squared error."""
        return root_mean(self.squares)

    @property
    def model(self) -> PredictionScores:
        """The model's own predictions."""
        return next(each for each in self.levels if each.kind == "model")

    @property
    def verdict(self) -> Literal["enough", "not enough", "open"]:
        """Whether the exact GP gains less than `loss` on the model, more, or neither can be told from these rows."""
        return self.verdict_of(self.model)

    def verdict_of(self, each: PredictionScores) -> Literal["enough", "not enough", "open"]:
        """The `verdict` on these predictions, at 95 %."""
        gain, half = each.gain
        return "enough" if gain + half <= self.loss else "not enough" if gain - half > self.loss else "open"

    def scored(
        self,
        M: int | None,
        kind: Kind,
        mean: Float,
        variance: Float,
        noise: float | None = None,
        kl: tuple[float, float] | None = None,
    ) -> PredictionScores:
        """The scores of means and variances (n,) of the latent f, by default with the model's noise."""
        sigma2 = self.noise if noise is None else noise
        losses = log_loss_ends(self.y, (mean, mean), (variance, variance), sigma2)
        squares = squared_error_ends(self.y, (mean, mean))
        return PredictionScores(
            M,
            kind,
            losses,
            squares,
            difference(self.log_losses, losses),
            difference(self.squares, squares),
            root_mean(squares),
            self.rmse,
            kl,
        )

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        own = self.model.to_dict()
        return {
            "rows": self.n,
            "held_out": self.held,
            "numbers": [int(i) for i in self.rows],
            "loss": self.loss,
            "exact": {
                "rmse": list(self.rmse),
                "log_loss": list(self.log_loss),
                "certified": self.certified,
                "method": self.method,
            },
            "model": {"rmse": own["rmse"], "log_loss": own["log_loss"]},
            "difference": own["difference"],
            "kl_per_row": own["kl_per_row"],
            "levels": [each.to_dict() for each in self.levels],
            "retrained": None
            if self.retrained is None
            else {
                **self.retrained.to_dict(),
                "estimate": True,
                "less than model": self.by_training.to_dict(),
            },
            "verdict": self.verdict,
            "interrupted": self.interrupted,
        }

    @property
    def by_training(self) -> Difference:
        """Log loss of the model that was trained again less that of the model: an estimate, as one training is.

        Raises
        ------
        ValueError
            if no model was trained again.
        """
        if self.retrained is None:
            raise ValueError("retrained: expected a model that was trained again, got none")
        return difference(self.retrained.log_losses, self.model.log_losses)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out rows with the model's predictions there, all in the units of the table.

    Attributes
    ----------
    X : array (n, D)
    y, mean, variance : arrays (n,)
        Targets, and the model's own means and variances of the latent f.
    offset : array (n,) or float
        The model's prior mean at these rows: what was taken off the targets of `Subject` in training.
    """

    X: Float
    y: Float
    mean: Float
    variance: Float
    offset: Float | float = 0.0

    def part(self, rows: Any) -> HeldOut:
        """Some of the rows."""
        offset = self.offset if np.ndim(self.offset) == 0 else np.asarray(self.offset)[rows]
        return HeldOut(self.X[rows], self.y[rows], self.mean[rows], self.variance[rows], offset)


def compare(
    about: Subject,
    held: HeldOut,
    levels: Enough | None = None,
    *,
    loss: float = LOSS,
    rows: int | None = None,
    most: int = 1000,
    rng: int = 0,
    progress: bool = False,
) -> Compared:
    """Scores of the exact GP at held-out rows between proved ends, beside those of the model and of other M.

    The exact GP has all training rows, and the kernel, noise and mean of the model.  Its means and variances are
    enclosed by N-solve, and with them its log loss and squared error at each row.  Sparse posteriors with M/4 and M/2
    chosen rows, and with the model's points and as many or three times as many more rows, are scored at the same rows.

    Parameters
    ----------
    about : Subject
    held : HeldOut
    levels : Enough, optional
        Its bounds on log p(y) sharpen the divergences of the levels.
    loss : float
        Differences of log loss below this count as none, in nats a row.
    rows : int, optional
        Held-out rows to compare, drawn at random without a look at y; by default all, but at most `MANY`, up to
        `FACTOR` training rows, and `ROWS` beyond.
    most : int
        Largest number of inducing points to try.
    rng : int
        Seed of the draw.
    progress : bool

    Returns
    -------
    Compared
        After Ctrl-C without the levels that are missing, if the exact GP's predictions are complete.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 10.0, 60)[:, None]
    >>> about = subject(SquaredExponential(), X[::2], np.sin(X[::2, 0]), X[::4], noise=0.1)
    >>> law = about.law.predict(X[1::2])
    >>> result = compare(about, HeldOut(X[1::2], np.sin(X[1::2, 0]), law.mean, law.variance))
    >>> result.verdict, [(each.M, each.kind) for each in result.levels]
    ('enough', [(3, 'chosen'), (7, 'chosen'), (15, 'model'), (30, 'added')])
    """
    instance("about", about, Subject, "what gpbounds.audit.subject returns")
    instance("held", held, HeldOut, "a HeldOut")
    instance("levels", levels, (Enough, type(None)), "what gpbounds.audit.enough returns, or None")
    threshold, n, largest = scalar(positive, "loss", loss), len(held.y), count("most", most)
    wanted = (MANY if about.N <= FACTOR else ROWS) if rows is None else count("rows", rows)
    chosen = rows_to_test(n, rng, wanted)
    here = held.part(chosen)
    tolerance = max(min(RESOLUTION * threshold, 1e-3), 1e-300)
    made = exact_predictions(
        about.kernel, about.X, about.y, here.X, noise=about.noise, tolerance=tolerance, progress=progress
    )
    mean = shifted(made.mean, here.offset)
    result = Compared(
        chosen,
        n,
        here.y,
        about.noise,
        threshold,
        log_loss_ends(here.y, mean, made.variance, about.noise),
        squared_error_ends(here.y, mean),
        made.certified,
        made.method,
    )
    own = result.scored(about.M, "model", here.mean, here.variance, kl=_of_model(about, levels))
    scored, left_out, stopped = [own], list[str](), False
    with bar("Predictions against M", None, "set", progress) as sets:
        try:
            for kind, Z in _sets(about, levels, largest):
                try:
                    scored.append(_at(about, here, result, levels, kind, Z))
                except NotPositiveDefinite as error:
                    left_out.append(f"Predictions with {len(Z)} inducing points are left out: {error}.")
                sets.update()
        except KeyboardInterrupt:
            stopped = True
    best = next((each for each in scored if each.kind == "best"), None)
    if best is not None and not _differs(best, own, threshold):
        scored.remove(best)
    order = list(KINDS)
    kept = sorted(scored, key=lambda each: (each.M is None, each.M or 0, order.index(each.kind)))
    return replace(result, levels=tuple(kept), interrupted=stopped, left_out=tuple(left_out))


def _differs(best: PredictionScores, own: PredictionScores, loss: float) -> bool:
    """Whether the best posterior with the model's points predicts otherwise than the model."""
    apart = np.abs(best.log_losses.middle - own.log_losses.middle)
    return bool(apart.mean() > 0.01 * loss)


def _sets(about: Subject, levels: Enough | None, most: int) -> Iterator[tuple[Kind, Float]]:
    """The inducing points of each level other than the model's, in order of M, for M/4, M/2, (M,) 2M and 4M."""
    limit = min(most, about.N)
    M = about.M
    if M is None:
        known = None if levels is None else levels.suffices
        M = min(known or 100, limit)
        sizes = _distinct(k * M // 4 for k in (1, 2, 4))
        rows = further_rows(about.kernel, about.X, None, max(sizes))
        yield from (("chosen", rows[:size]) for size in sizes if size <= len(rows))
        return
    fewer = [size for size in _distinct((M // 4, M // 2)) if size < M]
    if fewer:
        rows = further_rows(about.kernel, about.X, None, max(fewer))
        yield from (("chosen", rows[:size]) for size in fewer if size <= len(rows))
    assert about.Z is not None
    yield "best", about.Z
    more = [size for size in _distinct(min(k * M, limit) for k in (2, 4)) if size > M]
    if more:
        both = np.concatenate([about.Z, further_rows(about.kernel, about.X, about.Z, max(more) - M)])
        yield from (("added", both[:size]) for size in _distinct(min(size, len(both)) for size in more) if size > M)


def _distinct(sizes: Iterable[int]) -> list[int]:
    return sorted({size for size in sizes if size >= 1})


def _at(
    about: Subject, here: HeldOut, result: Compared, levels: Enough | None, kind: Kind, Z: Float
) -> PredictionScores:
    """The scores of q* with inducing points Z."""
    law = about.best(Z).predict(here.X)
    kl = None
    if kind in ("chosen", "added"):
        known = () if levels is None else levels.levels
        level = next((each for each in known if each.points == kind and each.M == len(Z)), None)
        kl = _per_row(level_at(about, Z, kind) if level is None else level, levels, about.N)
    elif levels is not None and levels.model is not None:
        kl = _per_row(levels.model, levels, about.N)
    return result.scored(len(Z), kind, np.asarray(law.mean) + here.offset, np.asarray(law.variance), kl=kl)


def _per_row(level: Level, levels: Enough | None, N: int) -> tuple[float, float]:
    lower, upper = level.divergence(level.evidence if levels is None else levels.evidence)
    return _over(float(lower), float(upper), N)


def _of_model(about: Subject, levels: Enough | None) -> tuple[float, float] | None:
    """The bracket of the model's own divergence, per row."""
    if about.M is None:
        return 0.0, 0.0
    if levels is None:
        if about.Z is None or about.posterior is not None:  # of another posterior than q*
            return None
        return _per_row(level_at(about, about.Z, "model"), None, about.N)
    if levels.divergence is None:
        return None
    lower, upper = levels.divergence
    return _over(float(lower), float(upper), about.N)


def _over(low: float, high: float, N: int) -> tuple[float, float]:
    return max(math.nextafter(low / N, -math.inf), 0.0), math.nextafter(high / N, math.inf)
