"""Table 1 and App. F of paper 000 at thousands of training rows: starts, mini-batches, and what they took.

Every model of a split begins at the kernel and noise of one exact GP, fitted to the first ``pilot`` of its random
training rows.  SGP and PEP then train on all rows by L-BFGS-B.  An evaluation of EGP or Rényi factorises N × N
matrices, so that these train as in the papers: by Adam on random mini-batches, the covariances of which alone are
factorised.  The sum over such batches is no bound on log p(y) of all rows.  Predictions of all use all training rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dlm_setting import cell, markdown
from regression_sets import Split, split
from renyi_setting import CLAIMED, METHODS, Group, Job, Part, Score, model, score, source
from sklearn.exceptions import ConvergenceWarning


@dataclass(frozen=True)
class Large(Part):
    """``pilot`` rows give the start, ``batches`` of ``batch`` rows train at Adam's ``rate``, ``tested`` rows test."""

    pilot: int = 500
    batch: int = 500
    batches: int = 200
    rate: float = 0.02
    tested: int = 2000


@dataclass(frozen=True)
class Timed(Score):
    """A trained model of N rows: whether training converged, and processor seconds of its start and predictions.

    ``points`` is the number of inducing points, 0 for EGP.  ``converged`` is 1 where L-BFGS-B ended before its limit; 0
    where it did not, and for mini-batches, which use all.
    """

    N: int
    batch: int
    converged: int
    starting: float
    predicting: float
    points: int


@lru_cache(maxsize=2)
def divided(data: str, rows: int, seed: int, tested: int, folder: Path) -> Split:
    """The rows of a split, of whose test rows the first ``tested`` count."""
    chosen = source(data, folder)
    assert chosen is not None
    part = split(chosen, rows, seed)
    return replace(part, X_test=part.X_test[:tested], y_test=part.y_test[:tested])


@lru_cache(maxsize=2)
def started(job: Job, settings: Large, folder: Path) -> tuple[Any, float]:
    """The exact GP of the first rows of a split, and the seconds of its training; ``job`` asks for EGP."""
    part = divided(job.data, job.rows, job.seed, settings.tested, folder)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is a start
        first = model(job, part, settings.steps).set_params(tol=settings.tol)
        fitted = first.fit(part.X[: settings.pilot], part.y[: settings.pilot])
    return fitted, time.process_time() - begun


def measured(job: Job, settings: Large, folder: Path) -> Timed:
    """Train a model from the start of its split, and predict the test rows."""
    part = divided(job.data, job.rows, job.seed, settings.tested, folder)
    start, starting = started(replace(job, M=0, method="EGP", order=0.0), settings, folder)
    chosen = model(job, replace(part, kernel=start.kernel_), settings.steps)
    chosen.set_params(noise=start.noise_, tol=settings.tol)
    by_batches = job.method in ("EGP", "Rényi") and settings.batch < len(part.y)
    if by_batches:
        chosen.set_params(optimizer="adam", batch_size=settings.batch)
        chosen.set_params(max_iter=settings.batches, learning_rate=settings.rate)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record holds how training stopped
        fitted = chosen.fit(part.X, part.y)
    trained = time.process_time()
    record = score(job, part, fitted, trained - begun)
    predicting = round(time.process_time() - trained, 3)
    ended = not by_batches and fitted.stop_reason_.startswith(("Converged", "Stopped"))
    batch = settings.batch if by_batches else 0
    points = 0 if job.method == "EGP" else len(fitted.inducing_)
    return Timed(*astuple(record), len(part.y), batch, int(ended), round(starting, 3), predicting, points)


def models(group: Group) -> list[tuple[str, float]]:
    """The models (method, order) of a group, in the order of the columns."""
    return [(method, order) for method in METHODS for order in group.orders(method)]


def label(method: str, order: float) -> str:
    """
    >>> label("Rényi", 0.5), label("PEP", 0.5), label("SGP", 0.0)
    ('α = 0.5', 'PEP 0.5', 'SGP')
    """
    return f"α = {order:g}" if method == "Rényi" else f"{method} {order:g}" if order else method


def table(groups: Sequence[Group], metric: str) -> str:
    """A metric by model, and differences from Rényi at α = ½, or from EGP without it; bold: they are sure."""
    every = models(groups[0])
    own = ("Rényi", CLAIMED) if ("Rényi", CLAIMED) in every else every[0]
    rivals = [each for each in every if each != own]
    header = [metric, "N", "M", *(label(*each) for each in every)]
    header += [f"{label(*own)} − {label(*each)}" for each in rivals] + ["splits"]
    rows = []
    for group in sorted(groups, key=lambda group: (group.rows, group.M, group.data)):
        gaps = [group.gap(own, each, metric) for each in rivals]
        cells = [cell(group.values(*each, metric)) for each in every]
        cells += [f"**{gap}**" if gap.surely_less or gap.surely_more else str(gap) for gap in gaps]
        rows.append([group.data, f"{round(0.6 * group.rows)}", _points(group), *cells, f"{len(group.seeds)}"])
    return markdown(header, rows)


def _points(group: Group) -> str:
    """M, or the numbers that the gap asked for."""
    if group.M:
        return f"{group.M}"
    numbers = sorted({each.points for each in group.scores if isinstance(each, Timed) and each.points})
    return " to ".join(f"{number}" for number in dict.fromkeys((numbers[0], numbers[-1])))


def by_time(groups: Sequence[Group]) -> str:
    """Processor seconds of training, and of the predictions of the test rows."""
    every = models(groups[0])
    rows = [
        [f"{group.data}, {what}", f"{round(0.6 * group.rows)}", _points(group)]
        + [cell(group.values(*each, metric)) for each in every]
        for group in sorted(groups, key=lambda group: (group.rows, group.M, group.data))
        for what, metric in (("training", "seconds"), ("prediction", "predicting"))
    ]
    return markdown(["seconds", "N", "M", *(label(*each) for each in every)], rows)
