"""Jobs and records of `renyi_study.py`: which models are trained on which splits, and what the records of all say.

All models of one split start alike: a lengthscale that the seed draws, the same for every input, variance 1, noise 0.1,
inducing points at k-means centres.  The noise variance is at least 1e-4.  RMSE and NLPD (of new observations) are in
units of the standard deviation of the training targets: predicting the mean has RMSE 1.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from dlm_setting import load, save
from paired import Paired, paired
from regression_sets import Source, Split, errors, split, table_source, toys
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import ExactGP, RenyiGP, SparseGP
from gpbounds import SquaredExponential

TOYS = ("Gramacy & Lee", "Branin", "Griewank")
TABLES = ("bike_hourly", "cmapss_fd001", "pm25", "traffic")
KERNELS = ("matern32", "se")
METHODS = ("EGP", "SGP", "PEP", "Rényi")
"""The exact GP, the variational sparse GP, power EP and the Rényi GP, by the names of the papers."""
LEAST_NOISE = 1e-4
TOY_NOISE = 0.1
"""Standard deviation of the noise of a toy function, in units of the function's; the papers give none."""
CLAIMED, NEAR = 0.5, 0.15
"""The order that the papers find best; a distance of at most NEAR counts as near."""


@dataclass(frozen=True)
class Job:
    """A model to train: ``order`` is α of the Rényi GP, the power of power EP, and 0 otherwise.

    ``rows`` counts training and test rows, 60 % and 40 %.  M = 0 stands for as many inducing points as bring the gap
    below 1 nat (``n_inducing="auto"``).  ``learned`` is 1 where training moves the inducing points.
    With ``folds`` > 0, the training rows also give a cross-validated RMSE.
    """

    data: str
    kernel: str
    rows: int
    M: int
    seed: int
    method: str
    order: float
    learned: int
    folds: int


@dataclass(frozen=True)
class Score(Job):
    """A trained model; ``validated`` is its cross-validated RMSE, nan without folds, ``seconds`` its training time."""

    RMSE: float
    NLPD: float
    validated: float
    objective: float
    noise: float
    steps: int
    stopped: str
    seconds: float

    @property
    def job(self) -> Job:
        return Job(*astuple(self)[: len(fields(Job))])


@dataclass(frozen=True)
class Part:
    """The jobs of one figure or table; training takes at most ``steps`` iterations; ``tol`` is the estimators'."""

    sets: tuple[str, ...]
    rows: tuple[int, ...]
    M: tuple[int, ...]
    seeds: int
    orders: tuple[float, ...]
    powers: tuple[float, ...]
    kernels: tuple[str, ...] = KERNELS[:1]
    methods: tuple[str, ...] = METHODS
    learned: tuple[int, ...] = (1,)
    folds: int = 0
    steps: int = 40
    tol: float | None = 0.01

    def jobs(self) -> list[Job]:
        """Seed by seed, so that a run that is cut short has whole splits; EGP, which has no M, with the first one."""
        grid = [
            (data, kernel, rows, M, seed)
            for seed in range(self.seeds)
            for rows in self.rows
            for M in self.M
            for kernel in self.kernels
            for data in self.sets
        ]
        every = [Job(*where, *model) for where in grid for model in self.models()]
        return [job for job in every if job.method != "EGP" or job.M == self.M[0]]

    def models(self) -> list[tuple[str, float, int, int]]:
        """Method, order, learned and folds of the models of one split."""
        models = []
        for learned in self.learned:
            for method in self.methods:
                orders = {"PEP": self.powers, "Rényi": self.orders}.get(method, (0.0,))
                moved = 1 if method == "EGP" else learned  # it has no inducing points
                models += [(method, order, moved, self.folds if len(orders) > 1 else 0) for order in orders]
        return list(dict.fromkeys(models))


@cache
def source(name: str, folder: Path) -> Source | None:
    """A toy function or FOLDER/NAME.csv.gz; None if there is no such file."""
    for each in toys(TOY_NOISE):
        if each.name == name:
            return each
    path = folder / f"{name}.csv.gz"
    return table_source(name, path) if path.is_file() else None


def model(job: Job, part: Split, steps: int) -> Any:
    """The untrained model of a job, for rows as in ``part``."""
    kernel = part.kernel if job.kernel == "matern32" else SquaredExponential(1.0, part.kernel.lengthscale)
    shared: dict[str, Any] = {"kernel": kernel, "noise": 0.1, "max_iter": steps, "random_state": job.seed}
    shared["limits"] = {"noise": (LEAST_NOISE, 10.0)}
    if job.method == "EGP":
        return ExactGP(**shared)
    shared |= {"n_inducing": job.M, "inducing": "kmeans"} if job.M else {"n_inducing": "auto"}
    shared["learn_inducing"] = bool(job.learned)
    if job.method == "Rényi":
        return RenyiGP(job.order, **shared)
    return SparseGP("vfe", **shared) if job.method == "SGP" else SparseGP("pep", power=job.order, **shared)


def fit(job: Job, part: Split, settings: Part) -> tuple[Any, float]:
    """The trained model of a job, and the processor seconds of its training."""
    begun = time.process_time()
    chosen = model(job, part, settings.steps).set_params(tol=settings.tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record holds how training stopped
        fitted = chosen.fit(part.X, part.y)
    return fitted, time.process_time() - begun


def validated(job: Job, part: Split, settings: Part) -> float:
    """RMSE on the training rows, each predicted by the model that the other folds train."""
    fold, squares = np.arange(len(part.y)) % job.folds, 0.0
    for k in range(job.folds):
        within, out = fold != k, fold == k
        inner = Split(part.X[within], part.y[within], part.X[out], part.y[out], part.kernel)
        squares += float(((fit(job, inner, settings)[0].predict(inner.X_test) - inner.y_test) ** 2).sum())
    return float(np.sqrt(squares / len(part.y)))


def score(job: Job, part: Split, fitted: Any, seconds: float, inner: float = np.nan) -> Score:
    """The record of a trained model; ``inner`` is its cross-validated RMSE."""
    mean, std = fitted.predict(part.X_test, return_std=True, noisy=True)
    rmse, nlpd = errors(part.y_test, mean, std)
    ended = fitted.objective_, fitted.noise_, fitted.n_iter_, fitted.stop_reason_, round(seconds, 3)
    return Score(*astuple(job), rmse, nlpd, inner, *ended)


def trained(job: Job, settings: Part, folder: Path) -> Score:
    chosen = source(job.data, folder)
    assert chosen is not None
    part = split(chosen, job.rows, job.seed)
    fitted, seconds = fit(job, part, settings)
    return score(job, part, fitted, seconds, validated(job, part, settings) if job.folds else np.nan)


Record = TypeVar("Record", bound=Score)


def run(
    todo: Sequence[Job], path: Path, kind: type[Record], train: Callable[[Job], Record], resume: bool, minutes: float
) -> list[Record]:
    """Records of ``todo``, which a CSV file receives one by one; with ``resume`` it keeps all that it holds."""
    records = load(path, kind) if resume else []
    there = {each.job for each in records}
    bar = tqdm([job for job in todo if job not in there], unit="model")
    for job in bar:
        if time.process_time() > 60.0 * minutes:
            break
        bar.set_description(f"{job.data}, seed {job.seed}, {job.method} {job.order:g}")
        records.append(train(job))
        save(path, records)
    wanted = set(todo)
    return [each for each in records if each.job in wanted]


# What the records say


@dataclass(frozen=True)
class Group:
    """Records of one data set, kernel, size and M, of those seeds that have all models."""

    data: str
    kernel: str
    rows: int
    M: int
    seeds: tuple[int, ...]
    scores: tuple[Score, ...]

    def orders(self, method: str) -> list[float]:
        return sorted({s.order for s in self.scores if s.method == method})

    def values(self, method: str, order: float = 0.0, metric: str = "RMSE", learned: int = 1) -> np.ndarray:
        """The metric (seeds,) of one model."""
        cells = {
            s.seed: getattr(s, metric)
            for s in self.scores
            if (s.method, s.order, s.learned) == (method, order, 1 if method == "EGP" else learned)
        }
        return np.array([cells[seed] for seed in self.seeds])

    def by_test(self, method: str, metric: str = "RMSE") -> float:
        """The order with the least mean test error, which is how the papers choose it."""
        return min(self.orders(method), key=lambda order: float(self.values(method, order, metric).mean()))

    def by_validation(self, method: str) -> np.ndarray:
        """The order (seeds,) with the least cross-validated RMSE on the training rows of each split."""
        orders = self.orders(method)
        table = np.array([self.values(method, order, "validated") for order in orders])
        return np.array(orders)[table.argmin(axis=0)]

    def at(self, method: str, orders: np.ndarray, metric: str = "RMSE") -> np.ndarray:
        """The metric (seeds,) at an order of its own for each seed."""
        return np.array([self.values(method, order, metric)[i] for i, order in enumerate(orders)])

    def best(self, method: str, metric: str = "RMSE") -> np.ndarray:
        """The metric (seeds,), at the order that the test rows choose where the method has several."""
        return self.values(method, self.by_test(method), metric)

    def gap(self, a: tuple[str, float], b: tuple[str, float], metric: str = "RMSE") -> Paired:
        """a − b for two models (method, order)."""
        return paired(self.values(*a, metric), self.values(*b, metric))

    def __str__(self) -> str:
        return f"{self.data}, {self.kernel}, {len(self.seeds)} splits"


def groups(scores: Sequence[Score], part: Part) -> list[Group]:
    """The records by data set, kernel, size and M; splits with a model missing are left out.

    A record of EGP belongs to every M.
    """
    complete, models = [], part.models()
    asked = [s for s in scores if (s.method, s.order, s.learned, s.folds) in models and s.rows in part.rows]
    for key in dict.fromkeys((s.data, s.kernel, s.rows, s.M) for s in asked):
        own = [s for s in asked if (s.data, s.kernel, s.rows) == key[:3] and (s.M == key[3] or s.method == "EGP")]
        seeds = sorted({s.seed for s in own})
        whole = tuple(seed for seed in seeds if sum(s.seed == seed for s in own) == len(models))
        if whole:
            complete.append(Group(*key, whole, tuple(own)))
    return complete
