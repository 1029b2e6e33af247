"""What collapsed bounds above VFE gain: at fixed hyperparameters, and after training.

    python examples/structured_bounds.py PART [--quick] [--resume] [--minutes 10] [--sets ...] [--seeds 3] [--out DIR]

    gaps       the share of VFE's gap log p(y) - F that each bound closes, at the hyperparameters that VFE trains
    gaps-exact the same at those of the exact GP of 500 of the rows, with Z at k-means centres
    trained    log p(y) of the exact GP at the trained hyperparameters, log loss and RMSE on test rows, seconds
    labels     labels, whether a target is above its mean, by the ELBO and by the diagonal bound of a free q
    conjugate  a conjugate-gradient bound in training beside VFE: log loss on test rows against processor seconds

VFE subtracts Tr(K - Q)/(2σ²) from log N(y; 0, Q + σ²I).  The other lower bounds on log p(y) subtract half a
log-determinant of I + (K - Q)/σ²: of its diagonal, of blocks of near rows, of blocks given earlier rows ("vecchia"), or
of all of it ("full").  Their laws of the inducing variables are VFE's (N-fischer).

Rows are random; 60 % train.  The kernel is Matérn-3/2 with a lengthscale for each input; all models of a split have the
same start, which the seed draws, and M = 50 inducing points, at first k-means centres.  Log losses are in units in
which the training targets have standard deviation 1, in nats a row.  A CSV file beside each picture holds each model
and grows by each; --resume continues from it, and --minutes limits the processor time of one call.

Claims of the ledger: N-fischer.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import cell, load, markdown, save
from paired import Paired, paired
from regression_sets import UCI, Source, Split, errors, split, table_source
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

import fitting
from fitting import ExactGP, RenyiGP, SparseGP, VariationalGPClassifier
from gpbounds import validation
from gpbounds.cli import options
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.vecchia.blocks import Blocking, scales

TABLES = (
    "abalone",
    "bike",
    "bike_hourly",
    "cal_housing",
    "cmapss_fd001",
    "concrete",
    "elevators",
    "energy",
    "housing",
    "keggdirected",
    "kin40k",
    "pm25",
    "pol",
    "protein",
    "traffic",
)
RUNGS = ("VFE", "diagonal", "blocks 50", "blocks 200", "vecchia 200", "full")
METHODS = ("VFE", "diagonal", "blocks", "vecchia", "auto", "FITC", "PEP", "Rényi")
"""The power of PEP and the order of the Rényi GP are ½."""
CURVES = ("VFE", "diagonal", "blocks", "CG", "CG, VFE's law", "exact")
"""CG predicts by kᵀv, in O(N) for each row; with VFE's law only its hyperparameters differ from VFE's."""
STRUCTURED = ("diagonal", "blocks", "vecchia")
LEAST_NOISE = 1e-4


@dataclass(frozen=True)
class Job:
    """A model to train or to evaluate; ``rows`` counts training and test rows."""

    data: str
    rows: int
    M: int
    seed: int
    method: str


@dataclass(frozen=True)
class Gap(Job):
    """log p(y) − F for one bound F at the hyperparameters of VFE, in nats, and their log p(y)."""

    N: int
    noise: float
    evidence: float
    gap: float


@dataclass(frozen=True)
class Score(Job):
    """A trained model: its bound, log p(y) of the exact GP at its hyperparameters, and errors on test rows.

    ``chosen`` is the structure of "auto"; ``seconds`` are processor seconds of training.
    """

    N: int
    objective: float
    evidence: float
    NLPD: float
    RMSE: float
    noise: float
    steps: int
    seconds: float
    chosen: str


@dataclass(frozen=True)
class Step(Job):
    """Log loss on test rows after one iteration of training."""

    step: int
    seconds: float
    NLPD: float


KINDS: dict[str, type[Gap] | type[Score] | type[Step]] = {
    "gaps": Gap,
    "gaps-exact": Gap,
    "trained": Score,
    "labels": Score,
    "conjugate": Step,
}
EXACT_ROWS = 500
SETTINGS: dict[str, dict[str, Any]] = {
    "gaps": {"sets": TABLES, "rows": 2500, "seeds": 1, "steps": 100, "methods": RUNGS},
    "gaps-exact": {"sets": TABLES, "rows": 2500, "seeds": 1, "steps": 60, "methods": RUNGS},
    "trained": {"sets": TABLES, "rows": 1000, "seeds": 3, "steps": 100, "methods": METHODS},
    "labels": {"sets": TABLES[:4], "rows": 1000, "seeds": 3, "steps": 60, "methods": ("ELBO", "diagonal")},
    "conjugate": {"sets": ("cal_housing", "kin40k"), "rows": 2500, "seeds": 1, "steps": 60, "methods": CURVES},
}


@cache
def source(name: str, folder: Path) -> Source | None:
    path = folder / f"{name}.csv.gz"
    return table_source(name, path) if path.is_file() else None


def part_of(job: Job, folder: Path) -> Split:
    chosen = source(job.data, folder)
    assert chosen is not None
    return split(chosen, job.rows, job.seed)


def model(job: Job, part: Split, steps: int) -> Any:
    """The untrained model of a job."""
    shared: dict[str, Any] = {"kernel": part.kernel, "noise": 0.1, "max_iter": steps, "random_state": job.seed}
    shared |= {"limits": {"noise": (LEAST_NOISE, 10.0)}, "n_inducing": job.M, "inducing": "kmeans"}
    if job.method == "Rényi":
        return RenyiGP(0.5, **shared)
    if job.method in (*STRUCTURED, "auto"):
        return SparseGP("vfe", structure=job.method, **shared)
    return SparseGP("pep", power=0.5, **shared) if job.method == "PEP" else SparseGP(job.method.lower(), **shared)


def fitted(job: Job, part: Split, steps: int) -> tuple[Any, float]:
    """The trained model, and the processor seconds of its training."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the record holds the number of steps
        trained = model(job, part, steps).fit(part.X, part.y)
    return trained, time.process_time() - begun


def evidence(part: Split, kernel: Any, noise: float) -> float:
    """log p(y) of the exact GP."""
    return fitting.objective(part.X, part.y, "exact").evaluate(kernel, noise, gradient=False).value


Point = tuple[Any, float, np.ndarray]
"""Kernel, noise and inducing points."""


@cache
def by_vfe(job: Job, steps: int, folder: Path) -> Point:
    """The point that VFE trains on the split of ``job``."""
    trained = fitted(job, part_of(job, folder), steps)[0]
    return trained.kernel_, trained.noise_, trained.inducing_


@cache
def by_exact(job: Job, steps: int, folder: Path) -> Point:
    """Kernel and noise of the exact GP of some of the rows, and k-means centres of all."""
    part = part_of(job, folder)
    some: dict[str, Any] = {"kernel": part.kernel, "noise": 0.1, "max_iter": steps, "random_state": job.seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained: Any = ExactGP(limits={"noise": (LEAST_NOISE, 10.0)}, **some)
        trained = trained.fit(part.X[:EXACT_ROWS], part.y[:EXACT_ROWS])
        some |= {"kernel": trained.kernel_, "noise": trained.noise_, "n_inducing": job.M, "inducing": "kmeans"}
        placed = SparseGP("vfe", optimizer=None, **some).fit(part.X, part.y)
    return trained.kernel_, trained.noise_, placed.inducing_


def gap(job: Job, steps: int, folder: Path, at: Callable[[Job, int, Path], Point] = by_vfe) -> list[Gap]:
    part = part_of(job, folder)
    kernel, noise, Z = at(Job(job.data, job.rows, job.M, job.seed, "VFE"), steps, folder)
    N = len(part.y)
    word, _, size = job.method.partition(" ")
    settings: dict[str, Any] = {"structure": None if word == "VFE" else "blocks" if word == "full" else word}
    if word == "full":
        settings["blocks"] = N
    elif size:
        near = int(size) if word == "vecchia" else 0
        settings["blocks"] = Blocking(scales(kernel, part.X), int(size), near).of(part.X)
    value = fitting.objective(part.X, part.y, **settings).evaluate(kernel, noise, Z, gradient=False).value
    exact = evidence(part, kernel, noise)
    return [Gap(*astuple(job), N, noise, exact, exact - value)]


def score(job: Job, steps: int, folder: Path) -> list[Score]:
    part = part_of(job, folder)
    trained, seconds = fitted(job, part, steps)
    mean, std = trained.predict(part.X_test, return_std=True, noisy=True)
    rmse, nlpd = errors(part.y_test, mean, std)
    exact = evidence(part, trained.kernel_, trained.noise_)
    chosen = (getattr(trained, "structure_", None) or "VFE") if job.method == "auto" else job.method
    ended = len(part.y), trained.objective_, exact, nlpd, rmse, trained.noise_, trained.n_iter_, round(seconds, 3)
    return [Score(*astuple(job), *ended, chosen)]


def labelled(job: Job, steps: int, folder: Path) -> list[Score]:
    """A classifier; ``RMSE`` is the square root of its share of mistakes, and ``evidence`` is not known."""
    part = part_of(job, folder)
    shared: dict[str, Any] = {"kernel": part.kernel, "max_iter": steps, "random_state": job.seed}
    shared |= {"inducing": "kmeans", "lengthscales": "separate"}
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        structure = None if job.method == "ELBO" else job.method
        trained = VariationalGPClassifier(job.M, "logit", structure=structure, **shared).fit(part.X, part.y > 0.0)
    seconds = time.process_time() - begun
    truth = (part.y_test > 0.0).astype(int)
    nlpd = -float(np.mean(trained.predict_log_proba(part.X_test)[np.arange(truth.size), truth]))
    wrong = math.sqrt(1.0 - trained.score(part.X_test, part.y_test > 0.0))
    ended = len(part.y), trained.objective_, math.nan, nlpd, wrong, math.nan, trained.n_iter_, round(seconds, 3)
    return [Score(*astuple(job), *ended, job.method)]


# A bound with conjugate gradients in training (Artemev et al. 2021): for every v, with e = y − (K + σ²I)v,
#
#     −½yᵀ(K + σ²I)⁻¹y ≥ −½[2yᵀv − vᵀ(K + σ²I)v + eᵀ(Q + σ²I)⁻¹e],
#
# in place of −½yᵀ(Q + σ²I)⁻¹y in the diagonal bound, whose log-determinant is at most theirs.  v comes from conjugate
# gradients, preconditioned by Q + σ²I, until the last term is below 0.2, and is kept from one evaluation to the next as
# their start.  Inducing points stay where they are.

ENOUGH = 0.1


class Conjugate:
    """The bound at (kernel, noise), with its derivatives at fixed v."""

    def __init__(self, part: Split, Z: np.ndarray) -> None:
        self.X, self.y, self.Z = part.X, part.y, Z
        self.v = np.zeros(len(part.y))
        self.zero = fitting.objective(part.X, 0.0 * part.y, structure="diagonal")

    def solved(self, K: np.ndarray, kernel: Any, noise: float) -> tuple[np.ndarray, float]:
        """(Q + σ²I)⁻¹e at the last v, and eᵀ(Q + σ²I)⁻¹e."""
        Kuf = kernel(self.Z, self.X)
        L = np.linalg.cholesky(kernel(self.Z) + 1e-8 * kernel.max_variance * np.eye(len(self.Z)))
        V = np.linalg.solve(L, Kuf)
        inner = np.linalg.cholesky(noise * np.eye(len(V)) + V @ V.T)

        def preconditioned(e: np.ndarray) -> np.ndarray:
            half = np.linalg.solve(inner, V @ e)
            return (e - V.T @ np.linalg.solve(inner.T, half)) / noise

        e = self.y - K @ self.v - noise * self.v
        s = preconditioned(e)
        direction, rest = s.copy(), float(e @ s)
        for _ in range(len(e)):
            if rest <= 2.0 * ENOUGH:
                break
            image = K @ direction + noise * direction
            length = rest / float(direction @ image)
            self.v = self.v + length * direction
            e = e - length * image
            s = preconditioned(e)
            before, rest = rest, float(e @ s)
            direction = s + rest / before * direction
        return s, rest

    def __call__(self, kernel: Any, noise: float) -> tuple[float, np.ndarray]:
        """The value, and derivatives in the log parameters of the kernel and in log σ²."""
        plain = self.zero.evaluate(kernel, noise, self.Z)
        K = kernel(self.X)
        _, rest = self.solved(K, kernel, noise)
        v = self.v
        value = plain.value - 0.5 * (float(self.y @ v) + rest + float((self.y - K @ v - noise * v) @ v))
        # e's term is below ENOUGH and left out of the derivatives: those of −½(2yᵀv − vᵀ(K + σ²I)v)
        in_kernel = kernel.pull(self.X, self.X, 0.5 * np.outer(v, v), K)[0]
        gradient = plain.gradient
        assert gradient is not None
        slopes = np.concatenate([gradient.kernel + in_kernel, [gradient.noise + 0.5 * noise * float(v @ v)]])
        return value, slopes

    def predict(self, kernel: Any, noise: float, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean kᵀv, which is the exact GP's if v solves, and VFE's variances."""
        law = fitting.objective(self.X, self.y, "vfe").posterior(kernel, noise, self.Z)
        return kernel(X, self.X) @ self.v, np.sqrt(np.asarray(law.predict(X)[1]) + noise)


def conjugate(job: Job, steps: int, folder: Path) -> list[Step]:
    """Training by L-BFGS-B of kernel and noise, with Z fixed; the log loss after every iteration."""
    part = part_of(job, folder)
    first = model(Job(job.data, job.rows, job.M, job.seed, "VFE"), part, 1).set_params(optimizer=None)
    points, N = np.asarray(first.fit(part.X, part.y).inducing_), len(part.y)
    bound = Conjugate(part, points) if job.method.startswith("CG") else None
    settings: dict[str, Any] = {"structure": job.method} if job.method in STRUCTURED else {}
    if job.method == "blocks":
        settings["blocks"] = Blocking(scales(part.kernel, part.X), 100, 0).of(part.X)
    exact = job.method == "exact"
    plain = fitting.objective(part.X, part.y, "exact" if exact else "vfe", **settings)
    Z = None if exact else points
    ends: list[tuple[float, np.ndarray, np.ndarray | None]] = []
    begun = time.process_time()

    def parameters(x: np.ndarray) -> tuple[Any, float]:
        return part.kernel.with_log_parameters(x[:-1]), float(np.exp(x[-1]))

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        if bound is not None:
            value, slopes = bound(*parameters(x))
            return -value / N, -slopes / N  # nats a row: a first step of length 1 leaves the basin otherwise
        here = plain.evaluate(*parameters(x), Z)
        assert here.gradient is not None
        return -here.value / N, -np.concatenate([here.gradient.kernel, [here.gradient.noise]]) / N

    def keep(x: np.ndarray) -> None:
        ends.append((time.process_time() - begun, x.copy(), None if bound is None else bound.v.copy()))

    start = np.concatenate([part.kernel.log_parameters, [math.log(0.1)]])
    limits = [(value - 6.0, value + 6.0) for value in start[:-1]] + [(math.log(LEAST_NOISE), math.log(10.0))]
    keep(start)
    with one_blas_thread():
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, callback=keep, options={"maxiter": steps})
    records = []
    for step, (seconds, x, v) in enumerate(ends):
        kernel, noise = parameters(x)
        if bound is not None and v is not None and job.method == "CG":
            bound.v = v
            mean, std = bound.predict(kernel, noise, part.X_test)
        else:
            mean, variance = plain.posterior(kernel, noise, Z).predict(part.X_test)[:2]
            std = np.sqrt(np.asarray(variance) + noise)
        nlpd = errors(part.y_test, np.asarray(mean).reshape(-1), np.asarray(std))[1]
        records.append(Step(*astuple(job), step, round(seconds, 3), nlpd))
    return records


TRAIN: dict[str, Callable[[Job, int, Path], list[Any]]] = {
    "gaps": gap,
    "gaps-exact": partial(gap, at=by_exact),
    "trained": score,
    "labels": labelled,
    "conjugate": conjugate,
}


def run(part: str, todo: Sequence[Job], path: Path, steps: int, folder: Path, resume: bool, minutes: float) -> list:
    """Records of ``todo``, which a CSV file receives job by job."""
    records: list[Any] = load(path, KINDS[part]) if resume else []
    there = {Job(*astuple(each)[: len(fields(Job))]) for each in records}
    bar = tqdm([job for job in todo if job not in there], unit="model")
    for job in bar:
        if time.process_time() > 60.0 * minutes:
            break
        bar.set_description(f"{job.data}, seed {job.seed}, {job.method}")
        records += TRAIN[part](job, steps, folder)
        save(path, records)
    wanted = set(todo)
    return [each for each in records if Job(*astuple(each)[: len(fields(Job))]) in wanted]


# What the records say


def column(records: Sequence[Any], data: str, method: str, metric: str) -> dict[int, float]:
    """The metric by seed."""
    return {each.seed: getattr(each, metric) for each in records if (each.data, each.method) == (data, method)}


def pair(records: Sequence[Any], data: str, a: str, b: str, metric: str, per_row: bool = False) -> Paired | None:
    """a − b over the seeds that have both, for each row on request."""
    first, second = (column(records, data, method, metric) for method in (a, b))
    rows = column(records, data, a, "N") if per_row else dict.fromkeys(first, 1.0)
    seeds = sorted(first.keys() & second.keys())
    return (
        paired(*(np.array([each[seed] / rows[seed] for seed in seeds]) for each in (first, second))) if seeds else None
    )


def names(records: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(each.data for each in records))


def bold(each: Paired | None, digits: int = 3) -> str:
    """A difference, bold where Student's 95 % interval does not contain 0."""
    if each is None:
        return ""
    text = f"{each.mean:+.{digits}f}" + (f" ± {each.error:.{digits}f}" if math.isfinite(each.error) else "")
    return f"**{text}**" if each.surely_less or each.surely_more else text


def of_gaps(records: Sequence[Gap]) -> str:
    """Share of VFE's gap that each bound closes, by table."""
    lines = []
    for data in names(records):
        gaps = {method: np.array(list(column(records, data, method, "gap").values())) for method in RUNGS}
        if not all(values.size for values in gaps.values()):
            continue
        first = next(each for each in records if each.data == data)
        shares = [f"{100.0 * (1.0 - gaps[method] / gaps['VFE']).mean():.0f} %" for method in RUNGS[1:]]
        lines.append([data, str(first.N), f"{first.noise:.3g}", f"{gaps['VFE'].mean():.1f}", *shares])
    return markdown(["data", "N", "σ²", "VFE's gap, nats", *RUNGS[1:]], lines)


def of_trained(records: Sequence[Score]) -> str:
    """Differences from VFE on the same splits, for log p(y), log loss and RMSE; and what they cost."""
    text = []
    rivals = [method for method in METHODS if method != "VFE"]
    for metric, title, per_row in (
        ("evidence", "log p(y) at the trained hyperparameters, nats a row, less VFE's (larger is better)", True),
        ("NLPD", "Log loss on test rows, nats a row, less VFE's (smaller is better)", False),
        ("RMSE", "RMSE on test rows, less VFE's", False),
        ("noise", "σ² at the end, less VFE's", False),
    ):
        lines = []
        for data in names(records):
            own = np.array(list(column(records, data, "VFE", metric).values()))
            rows = np.array(list(column(records, data, "VFE", "N").values())) if per_row else 1.0
            gaps = [pair(records, data, method, "VFE", metric, per_row) for method in rivals]
            lines.append([data, cell(own / rows), *map(bold, gaps)])
        text.append(f"{title}:\n\n{markdown(['data', 'VFE', *rivals], lines)}")
        text.append(counts(records, metric, rivals))
    lines = []
    for method in METHODS:
        own = [each for each in records if each.method == method]
        if not own:
            continue
        ratio = [per_step(own, data) / per_step([e for e in records if e.method == "VFE"], data) for data in names(own)]
        steps = np.median([each.steps for each in own])
        lines.append([method, f"{np.median(ratio):.2f}", f"{min(ratio):.2f} to {max(ratio):.2f}", f"{steps:.0f}"])
    text.append("Processor seconds of an iteration over VFE's, and iterations:\n")
    text.append(markdown(["method", "median of tables", "range", "iterations, median"], lines))
    picked = {data: sorted(set(column(records, data, "auto", "chosen").values())) for data in names(records)}
    words = [f"{' or '.join(each)} on {data}" for data, each in picked.items() if each]
    if words:
        text.append(f"auto trains {', '.join(words)}.")
    return "\n\n".join(text)


def per_step(records: Sequence[Score], data: str) -> float:
    """Processor seconds of an iteration, the median over splits."""
    return float(np.median([each.seconds / each.steps for each in records if each.data == data]))


def counts(records: Sequence[Score], metric: str, rivals: Sequence[str]) -> str:
    """On how many tables each method is above VFE, in the mean over splits, and surely."""
    parts = []
    for method in rivals:
        gaps = [pair(records, data, method, "VFE", metric) for data in names(records)]
        known = [each for each in gaps if each is not None]
        above, surely = sum(each.mean > 0.0 for each in known), sum(each.surely_more for each in known)
        below = sum(each.surely_less for each in known)
        parts.append(
            f"{method} above VFE on {above} of {len(known)} tables, surely on {surely}, surely below on {below}"
        )
    return "; ".join(parts) + "."


def of_labels(records: Sequence[Score]) -> str:
    """The bounds and log losses of classifiers."""
    lines = []
    for data in names(records):
        own = np.array(list(column(records, data, "ELBO", "objective").values())) / next(iter(records)).N
        loss = np.array(list(column(records, data, "ELBO", "NLPD").values()))
        gaps = [bold(pair(records, data, "diagonal", "ELBO", metric, metric == "objective")) for metric in FOUND]
        both = [per_step([e for e in records if e.method == method], data) for method in ("diagonal", "ELBO")]
        lines.append([data, cell(own), gaps[0], cell(loss), gaps[1], f"{both[0] / both[1]:.1f}"])
    heads = ["data", "ELBO, nats a row", "diagonal less ELBO", "log loss, ELBO", "diagonal less ELBO", "seconds, ratio"]
    return markdown(heads, lines)


FOUND = ("objective", "NLPD")


def of_conjugate(records: Sequence[Step]) -> str:
    """Seconds to a log loss that all reach, within .005; the least log loss, and that at the end with its seconds."""
    lines = []
    for data in names(records):
        runs = {m: [e for e in records if (e.data, e.method) == (data, m) and e.seed == 0] for m in CURVES}
        if not all(runs.values()):
            continue
        target = max(min(each.NLPD for each in some) for some in runs.values())
        for method, some in runs.items():
            there = next(each for each in some if each.NLPD <= target + 0.005)
            end = f"{some[-1].NLPD:.3f}, {some[-1].seconds:.1f} s, {some[-1].step} iterations"
            lines.append(
                [data, method, f"{target:.3f}", f"{there.seconds:.2f} s", f"{min(e.NLPD for e in some):.3f}", end]
            )
    return markdown(["data", "bound", "log loss", "there in", "least", "at the end"], lines)


REPORTS: dict[str, Callable[[Sequence[Any]], str]] = {
    "gaps": of_gaps,
    "gaps-exact": of_gaps,
    "trained": of_trained,
    "labels": of_labels,
    "conjugate": of_conjugate,
}


def bars(page: Any, place: Any, heads: Sequence[str], values: dict[str, list[float]], label: str) -> None:
    """Groups of bars, one group for each table."""
    from gpbounds.plotting.elements import BLUE, GREEN, TEXT, VERMILLION

    ax = page.add_subplot(place)
    colors = dict(zip(values, ("0.65", BLUE, GREEN, VERMILLION, "0.25", "0.85", "0.45"), strict=False))
    width = 0.8 / len(values)
    for k, (method, heights) in enumerate(values.items()):
        at = np.arange(len(heads)) + (k - 0.5 * (len(values) - 1)) * width
        ax.bar(at, heights, width, color=colors[method], label=method)
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.set_xticks(range(len(heads)), heads, rotation=30, ha="right", fontsize=TEXT - 1)
    ax.tick_params(axis="y", labelsize=TEXT - 1)
    ax.set_ylabel(label, fontsize=TEXT - 1)
    ax.legend(fontsize=TEXT - 2, frameon=False, ncols=len(values))


def picture(part: str, records: Sequence[Any]) -> Any:
    """Bars by table; for "conjugate" curves."""
    from gpbounds.plotting.elements import BLUE, GREEN, PURPLE, TEXT, VERMILLION, figure, headline

    heads = names(records)
    if part.startswith("gaps"):
        page, owner = figure(11.0, 4.4), "VFE" if part == "gaps" else "the exact GP"
        headline(page, f"Share of VFE's gap that a bound closes at the hyperparameters of {owner}, M = {records[0].M}")
        values = {
            method: [
                100.0 * (1.0 - column(records, d, method, "gap")[s] / column(records, d, "VFE", "gap")[s])
                for d in heads
                for s in [min(column(records, d, method, "gap"))]
            ]
            for method in RUNGS[1:]
        }
        bars(page, 111, heads, values, "% of the gap")
    elif part == "labels":
        page = figure(7.0, 3.6)
        headline(page, f"Labels: the diagonal bound less the ELBO, nats a row, M = {records[0].M}")
        gaps = {m: [pair(records, d, "diagonal", "ELBO", m, m == "objective") for d in heads] for m in FOUND}
        values = {m: [math.nan if e is None else e.mean for e in each] for m, each in gaps.items()}
        bars(page, 111, heads, values, "nats a row")
    elif part == "trained":
        page = figure(11.0, 7.6)
        headline(page, f"After training: differences from VFE, nats a row, means over splits, M = {records[0].M}")
        chosen = ("diagonal", "blocks", "vecchia", "FITC", "PEP", "Rényi")
        panels = (211, "evidence", "log p(y), higher is better"), (212, "NLPD", "log loss, lower is better")
        for place, metric, label in panels:
            values = {}
            for method in chosen:
                gaps = [pair(records, data, method, "VFE", metric, metric == "evidence") for data in heads]
                values[method] = [math.nan if each is None else each.mean for each in gaps]
            bars(page, place, heads, values, label)
            page.axes[-1].set_yscale("symlog", linthresh=0.02)
    else:
        page = figure(9.0, 3.8)
        headline(page, f"Test log loss in training, Z fixed, M = {records[0].M}")
        for k, data in enumerate(heads):
            ax = page.add_subplot(1, len(heads), k + 1)
            for method, color in zip(CURVES, ("0.4", GREEN, VERMILLION, BLUE, "0.75", PURPLE), strict=True):
                some = [each for each in records if (each.data, each.method) == (data, method)]
                ax.plot([each.seconds for each in some], [each.NLPD for each in some], color=color, label=method)
            ax.set_xscale("symlog", linthresh=0.1)
            ax.set_title(data, loc="left", fontsize=TEXT)
            ax.set_xlabel("processor seconds", fontsize=TEXT - 1)
            ax.set_ylabel("log loss" if k == 0 else "", fontsize=TEXT - 1)
        page.axes[0].legend(fontsize=TEXT - 2, frameon=False)
    return page


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("part", metavar="PART", choices=tuple(KINDS), help=", ".join(KINDS))
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="tables NAME.csv.gz in --folder (default: all)")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help="bounds or models, as in the tables (default: all)"
    )
    parser.add_argument("--rows", type=options.whole, help="rows of a table, 60 %% of which train")
    parser.add_argument("--inducing", type=options.whole, default=50, help="M (default %(default)s)")
    parser.add_argument("--seeds", type=options.whole, help="number of splits")
    parser.add_argument("--steps", type=options.whole, help="iterations of L-BFGS-B at most")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--quick", action="store_true", help="90 training rows, 12 iterations: seconds")
    parser.add_argument("--resume", action="store_true", help="keep the models in the CSV file")
    parser.add_argument(
        "--minutes", type=options.number, default=math.inf, help="begin no model after so much processor time"
    )
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder (default %(default)s)")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments()
    args = parser.parse_args(argv)
    settings = dict(SETTINGS[args.part])
    if args.quick:
        settings |= {"sets": settings["sets"][:2], "rows": 150, "seeds": 1, "steps": 12}
        args.inducing = min(args.inducing, 10)
    given = ("sets", "methods", "rows", "seeds", "steps")
    settings |= {name: getattr(args, name) for name in given if getattr(args, name)}
    try:
        for name in ("rows", "seeds", "steps"):
            validation.count(f"--{name}", settings[name], 20 if name == "rows" else 1)
    except ValueError as error:
        parser.exit(2, f"structured_bounds.py: {error}\n")
    if unknown := set(settings["methods"]) - set(SETTINGS[args.part]["methods"]):
        known = ", ".join(SETTINGS[args.part]["methods"])
        parser.exit(2, f"structured_bounds.py: --methods: expected some of {known}, got {sorted(unknown)[0]}\n")
    missing = [name for name in settings["sets"] if source(name, args.folder) is None]
    if missing:
        parser.exit(2, f"structured_bounds.py: no {missing[0]}.csv.gz in {args.folder}: pass --folder or --sets\n")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"structured_{args.part.replace('-', '_')}.csv"
    todo = [
        Job(data, settings["rows"], args.inducing, seed, method)
        for seed in range(settings["seeds"])
        for slow in (False, True)  # a step of the Rényi GP takes O(N³) time
        for data in settings["sets"]
        for method in settings["methods"]
        if slow == (method == "Rényi")
    ]
    records = run(args.part, todo, path, settings["steps"], args.folder, args.resume, args.minutes)
    if not records:
        parser.exit(1, "structured_bounds.py: no model was trained: --minutes is too short\n")
    print(f"\n{REPORTS[args.part](records)}")
    picture(args.part, records).savefig(path.with_suffix(".png"))
    print(path.with_suffix(".png"))


if __name__ == "__main__":
    main()
