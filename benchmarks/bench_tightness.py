"""How far the bounds for several draws are above the truth: ``python benchmarks/bench_tightness.py [FILE.csv ...]``.

Data: scikit-learn's diabetes set, and the CSV files named (inputs, then the target in the last column), 600 rows of
each; squared exponential and Matérn-3/2 kernels, one lengthscale for each input, fitted by marginal likelihood.  M is
chosen so that E Tr(K − Q)/σ² is about 0.1, 0.5, 2, 8 and 30.  Truth: D = KL[q*‖p] of 30 draws, exactly; of the best of
R = 10 draws the 95 % quantile, from the frequencies of the 30: for the data's own y, and over 60 draws of y from the
prior.

A priori: 39 simulated sets of 300 inputs, against the best of 10 draws on 30 other sets of inputs, 10 draws of y each.

``--json FILE`` keeps every cell; the goals are printed with what was reached.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import opening

from fitting.study import hyperparameters
from fitting.study.standardised import load
from gpbounds import Gaussian, Matern, SquaredExponential, Uniform
from gpbounds.cli.demo import diabetes
from gpbounds.files import replacing
from gpbounds.kdpp import expected_trace, sample_eigen
from gpbounds.kdpp.esp import tilted_eigenvalues
from gpbounds.kdpp.residual import expected_residual
from gpbounds.rates.draws.given import best_given
from gpbounds.rates.draws.statement import least_prior
from gpbounds.rates.draws.tilted import tilted_given, tilted_prior
from gpbounds.rates.to_come import simulation

R, DELTA, DRAWS, PRIOR = 10, 0.05, 30, 60
RATIOS = (0.1, 0.5, 2.0, 8.0, 30.0)
ROWS = 600
GROUPS = (("D <= 0.25", 0.0, 0.25), ("0.25 < D <= 0.6", 0.25, 0.6), ("D ~ 1", 0.6, 2.0), ("D > 2", 2.0, np.inf))


@dataclass(frozen=True)
class Cell:
    """One bound beside the truth, in nats."""

    setting: str
    kind: str
    N: int
    M: int
    bound: float
    truth: float

    @property
    def ratio(self) -> float:
        return self.bound / self.truth


class Setting:
    """K, decomposed, and D of any subset for many y at once."""

    def __init__(self, name: str, K: np.ndarray, noise: float) -> None:
        self.name, self.K, self.noise, self.N = name, K, noise, len(K)
        values, vectors = np.linalg.eigh(K)
        self.values, self.vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        self.rounding = self.N * np.finfo(float).eps * self.values[0]
        self.logdet = float(np.log(self.values + noise).sum())

    def residual(self, M: int) -> Any:
        return expected_residual(self.values, M, noise=self.noise, rounding=self.rounding)

    def size(self, ratio: float) -> int | None:
        """The least M with E Tr(K − Q)/σ² ≤ ratio, if it is below the numerical rank."""
        rank = min(int((self.values > 10 * self.rounding).sum()), self.N - 1)
        traces = expected_trace(self.values, np.arange(1, rank))
        below = np.flatnonzero(traces <= ratio * self.noise)
        return int(below[0]) + 1 if below.size and below[0] > 0 else None

    def draw(self, M: int, rng: np.random.Generator, *, tilted: bool) -> np.ndarray:
        weights = tilted_eigenvalues(self.values, noise=self.noise) if tilted else None
        return sample_eigen(self.values, self.vectors, M, rng, weights=weights)

    def gaps(self, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """KL[q*‖p] for each column of Y; inf where K_ZZ does not factorise."""
        try:
            L = np.linalg.cholesky(self.K[np.ix_(Z, Z)])
        except np.linalg.LinAlgError:
            return np.full(Y.shape[1], np.inf)
        V = np.linalg.solve(L, self.K[Z])
        inner = np.linalg.cholesky(np.eye(len(Z)) + V @ V.T / self.noise)
        logdet = self.N * np.log(self.noise) + 2.0 * np.log(np.diag(inner)).sum()
        trace = max(float(np.trace(self.K) - (V * V).sum()), 0.0)
        fitted = np.linalg.solve(inner, V @ Y) / self.noise
        sparse = (Y * Y).sum(axis=0) / self.noise - (fitted * fitted).sum(axis=0)
        exact = ((self.vectors.T @ Y) ** 2 / (self.values + self.noise)[:, None]).sum(axis=0)
        return 0.5 * (sparse - exact + trace / self.noise + logdet - self.logdet)

    def prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        roots = np.sqrt(self.values + self.noise)[:, None]
        return self.vectors @ (roots * rng.standard_normal((self.N, count)))


def quantile(gaps: np.ndarray) -> float:
    """The least t with (mean over y of) (share of draws above t)^R ≤ δ; gaps (draws, y)."""
    levels = np.sort(gaps.ravel())
    shares = np.array([(((gaps > t).mean(axis=0)) ** R).mean() for t in levels])
    return float(levels[np.flatnonzero(shares <= DELTA)[0]])


def cells(setting: Setting, y: np.ndarray, rng: np.random.Generator) -> Iterator[Cell]:
    """Given y and y from the prior, draws of both laws."""
    squares = (setting.vectors.T @ y) ** 2
    for ratio in RATIOS:
        M = setting.size(ratio)
        if M is None:
            continue
        residual, drawn = setting.residual(M), setting.prior(PRIOR, rng)
        for tilted in (False, True):
            samples = [
                setting.gaps(setting.draw(M, rng, tilted=tilted), np.column_stack([y, drawn])) for _ in range(DRAWS)
            ]
            gaps = np.array(samples)
            law = {"delta": DELTA, "draws": R}
            if tilted:
                for_y, prior = tilted_given(residual, squares, **law), tilted_prior(residual, **law)
            else:
                for_y, prior = best_given(residual, residual.quadratic(squares), **law), least_prior(residual, **law)
            name = "tilted" if tilted else "k-DPP"
            yield Cell(setting.name, f"given y, {name}", setting.N, M, float(for_y), quantile(gaps[:, :1]))
            yield Cell(setting.name, f"prior y, {name}", setting.N, M, float(prior), quantile(gaps[:, 1:]))


def simulated(name: str, kernel: Any, law: Any, noise: float, rng: np.random.Generator) -> Iterator[Cell]:
    """A priori, by simulation: the greatest of 39 bounds, and what 30 other sets of inputs truly reach."""
    plan = simulation(law, 300, sets=39, delta=DELTA, rng=rng)
    sets = [Setting(name, kernel(X), noise) for X in plan.samples()]
    for ratio in (0.1, 0.5, 2.0):
        sizes = [s.size(ratio) for s in sets]
        if None in sizes:
            continue
        M = int(np.median(sizes))  # type: ignore[arg-type]
        bounds = []
        for s in sets:
            residual, rest = s.residual(M), {"delta": plan.rest, "draws": R}
            bounds.append(float(tilted_prior(residual, **rest)))
        best = []
        for _ in range(30):
            other = Setting(name, kernel(law.sample(300, rng)), noise)
            Y = other.prior(10, rng)
            best.append(np.min([other.gaps(other.draw(M, rng, tilted=True), Y) for _ in range(R)], axis=0))
        yield Cell(
            name, "a priori, simulated", 300, M, float(np.sort(bounds)[-plan.order]), float(np.quantile(best, 0.95))
        )


def fitted(files: Sequence[Path], rng: np.random.Generator) -> Iterator[Cell]:
    """Every data set with both kernels."""
    for data in (diabetes(), *(load(path) for path in files)):
        part = data.subset(ROWS, 0)
        for nu in (np.inf, 1.5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = hyperparameters.fit(part, nu, seed=0)
            name = f"{data.name}, {'SE' if np.isinf(nu) else 'Matern-3/2'}"
            setting = Setting(name, np.asarray(model.kernel(part.X)), model.noise)
            yield from cells(setting, part.y, rng)
            print(f"  {name}: N = {part.N}, noise {model.noise:.3g}", flush=True)


def apriori(rng: np.random.Generator) -> Iterator[Cell]:
    """Kernels and laws of inputs, low and high dimension, smooth and rough."""
    for name, kernel, law in (
        ("Matern-3/2, uniform, 1-D", Matern(1.5, 1.0, 0.3), Uniform()),
        ("Matern-5/2, Gaussian, 2-D", Matern(2.5, 1.0, 2.0), Gaussian(1.0, 2)),
        ("Matern-3/2, Gaussian, 4-D", Matern(1.5, 1.0, 4.0), Gaussian(1.0, 4)),
        ("SE, uniform, 1-D", SquaredExponential(1.0, 0.1), Uniform()),
        ("SE, uniform, 2-D", SquaredExponential(1.0, 0.5), Uniform([0, 0], [1, 1])),
        ("SE, Gaussian, 1-D", SquaredExponential(1.0, 0.5), Gaussian()),
        ("SE, Gaussian, 2-D", SquaredExponential(1.0, 1.0), Gaussian(1.0, 2)),
        ("SE, Gaussian, 4-D", SquaredExponential(1.0, 3.0), Gaussian(1.0, 4)),
        ("SE, Gaussian, 8-D", SquaredExponential(1.0, 5.0), Gaussian(1.0, 8)),
    ):
        yield from simulated(name, kernel, law, 0.1, rng)
        print(f"  {name}", flush=True)


def summary(measured: Sequence[Cell]) -> list[str]:
    """Median, least and greatest ratio, kind by kind, by the size of the truth."""
    lines = [f"{'bound / truth':24} {'':18} {'cells':>6} {'median':>8} {'worst':>8} {'least':>8}"]
    for kind in dict.fromkeys(cell.kind for cell in measured):
        for name, low, high in GROUPS:
            ratios = [c.ratio for c in measured if c.kind == kind and low < c.truth <= high]
            if ratios:
                figures = f"{np.median(ratios):8.2f} {max(ratios):8.2f} {min(ratios):8.2f}"
                lines.append(f"{kind:24} {name:18} {len(ratios):6d} {figures}")
    return lines


def goals(measured: Sequence[Cell]) -> list[str]:
    """The goals, and what was reached."""

    def ratios(kinds: Sequence[str], low: float, high: float, most: float = 1.0) -> list[float]:
        return [c.ratio for c in measured if c.kind in kinds and low < c.truth <= high and most * c.N >= c.M]

    smooth = [c.ratio for c in measured if c.kind == "a priori, simulated" and c.truth <= 1.0 and not hard(c)]
    checks: list[tuple[str, Callable[[Any], Any], list[float], float]] = []
    for kind in ("given y, tilted", "prior y, tilted", "given y, k-DPP", "prior y, k-DPP"):
        checks += [
            (f"{kind}, D <= 0.25: median", np.median, ratios([kind], 0.0, 0.25), 2.2),
            (f"{kind}, D <= 0.25: worst", np.max, ratios([kind], 0.0, 0.25), 6.0),
            (f"{kind}, D <= 0.25, M <= 0.9 N: worst", np.max, ratios([kind], 0.0, 0.25, most=0.9), 6.0),
            (f"{kind}, D ~ 1: median", np.median, ratios([kind], 0.6, 2.0), 3.0),
        ]
    checks.append(("a priori, simulated, D <= 1, but 1-D and 2-D SE x Gaussian: median", np.median, smooth, 3.0))
    checks.append(("truth / bound, all: greatest", np.max, [1.0 / c.ratio for c in measured], 1.0))
    lines = []
    for text, of, values, goal in checks:
        if values:
            reached = float(of(values))
            lines.append(f"{text:72} {reached:6.2f}, goal {goal:g}{'' if reached <= goal else '  MISSED'}")
    return lines


def hard(cell: Cell) -> bool:
    """Where D falls three- or fourfold with each point, and the inputs decide how far it is."""
    return cell.setting in ("SE, Gaussian, 1-D", "SE, Gaussian, 2-D")


def main() -> None:
    """Run everything, print the tables, keep the cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    about, rng = opening(" "), np.random.default_rng(args.seed)
    measured: list[Cell] = []
    for more in itertools.chain(apriori(rng), fitted(args.files, rng)):
        measured.append(more)
        if args.json:  # hours may pass: what is there is kept
            record = {"about": about, "R": R, "delta": DELTA, "cells": [asdict(cell) for cell in measured]}
            with replacing(args.json) as file:
                file.write(json.dumps(record, indent=1) + "\n")
    print("\n".join([*summary(measured), "", *goals(measured)]))


if __name__ == "__main__":
    main()
