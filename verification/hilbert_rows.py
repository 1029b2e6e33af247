"""Attack the bound on Hilbert-space GPs for any rows of a box with a million sets of rows.

    python verification/hilbert_rows.py --cases 1000000 --seed 7 --store

A case is one set of N rows, at most twelve points with multiplicities, against one value of `hilbert_kl`, which bounds
the divergence in both directions.  Sets are random, clustered, at the ends, on lattices of the spacing of the last
functions with a bell of multiplicities, at extrema of the next function, corners; then changed again and again from
those that came nearest to the bound.  Truths are in doubles with their rounding errors; where these leave it open, in
balls of 240 bits.  A set above its bound is printed with the seed that makes it again; then the status is 1.
``--store`` writes the counts to ``verification/hilbert_rows.json``, every minute and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from hilbert_truths import Approximation, Float, divergences, enclosed

from gpbounds import Matern, SquaredExponential
from gpbounds.lowrank import hilbert_kl, hilbert_rank

STORED = Path(__file__).with_suffix(".json")
KINDS = ("random", "cluster", "ends", "bell", "extrema", "even", "few", "corners")
POINTS = 12
FIRST, NEXT, GENERATIONS, PARENTS = 96, 96, 4, 8
"""Sets drawn for a bound, sets changed from the best of them in each generation, and how many are changed."""
BY_BALLS = 6
"""Sets for a bound that is below the rounding errors of most truths, which then are balls."""
MOST_FUNCTIONS = 800
NUS = (0.5, 1.5, 2.5, math.inf)


@dataclass(frozen=True)
class Plan:
    """One bound under attack."""

    model: Approximation
    N: int
    noise: float
    rigor: str

    @property
    def kernel(self) -> Any:
        """As the library has it."""
        model = self.model
        if model.nu == math.inf:
            return SquaredExponential(model.variance, model.lengthscales)
        return Matern(model.nu, model.variance, model.lengthscales)

    def bound(self) -> float:
        """Its value."""
        model, settings = self.model, {"half_width": self.model.half_width, "noise": self.noise, "rigor": self.rigor}
        return float(hilbert_kl(self.kernel, self.N, model.m, model.c, **settings))


def plan(rng: np.random.Generator) -> Plan:
    """Kernel, box, N, noise, m and c at random; one in sixteen by `hilbert_rank`, then less or more."""
    dim, nu = int(rng.choice([1, 1, 2, 3])), float(rng.choice(NUS))
    half_width, variance = 10.0 ** rng.uniform(-1.0, 1.0, dim), float(10.0 ** rng.uniform(-1.0, 1.0))
    reach = 10.0 ** rng.uniform(-1.0, 1.3 if dim == 1 else 0.5, dim)
    N = round(10.0 ** rng.uniform(0.0, 7.0))
    level = float(
        10.0 ** rng.uniform(max(-6.0, math.log10(N) - rng.choice([8.0, 9.0, 10.0], p=[0.8, 0.15, 0.05])), 1.0)
    )
    rigor = "sharp" if rng.random() < 0.01 else "auto"
    gaps = rng.uniform(0.05, 8.0) * rng.uniform(0.7, 1.4, dim)
    c = np.maximum(1.0 + gaps / reach, 1.0 + 1e-3)
    cut = rng.uniform(1.0, 9.0) if nu == math.inf else 10.0 ** rng.uniform(0.2, 2.8 / dim + 0.2)
    m = np.maximum(np.ceil(2.0 * c * reach / math.pi * cut), 1.0)
    while m.prod() > MOST_FUNCTIONS:
        m = np.maximum(np.floor(0.9 * m), 1.0)
    made = Plan(Approximation(nu, variance, half_width / reach, half_width, c, m), N, level * variance, rigor)
    return _planned(made, rng) if rng.random() < 0.06 else made


def _planned(made: Plan, rng: np.random.Generator) -> Plan:
    """m and c of `hilbert_rank` for a target, m changed by up to a third; the plan as it was if that is too large."""
    target = float(10.0 ** rng.uniform(-3.0, 2.0))
    settings: dict[str, Any] = {"half_width": made.model.half_width, "noise": made.noise, "target": target}
    try:
        enough = hilbert_rank(made.kernel, made.N, **settings)
    except ArithmeticError:
        return made
    m = np.maximum(np.rint(np.atleast_1d(enough.m) * rng.uniform(0.67, 1.1)), 1.0)
    if m.prod() > MOST_FUNCTIONS:
        return made
    old = made.model
    model = Approximation(old.nu, old.variance, old.lengthscales, old.half_width, np.atleast_1d(enough.c), m)
    return Plan(model, made.N, made.noise, made.rigor)


def points(kind: str, model: Approximation, rng: np.random.Generator) -> Float:
    """`POINTS` rows of the box."""
    S, c, m, shape = model.half_width, model.c, np.asarray(model.m), (POINTS, model.dim)
    middle, order = S * rng.uniform(-1.0, 1.0, model.dim), np.arange(POINTS) - 0.5 * (POINTS - 1)
    if kind == "cluster":
        X = middle + 10.0 ** rng.uniform(-4.0, -0.3) * S * rng.standard_normal(shape)
    elif kind == "ends":
        X = (
            S
            * rng.choice([-1.0, 1.0], shape)
            * (1.0 - rng.choice([0.0, 1.0], shape) * 10.0 ** rng.uniform(-4, 0, shape))
        )
    elif kind == "bell":
        step, axes = rng.uniform(0.4, 1.2) * 2.0 * c * S / m, rng.random(model.dim) < 0.6
        X = middle * rng.choice([0.0, 1.0]) + order[:, None] * step * (axes | (not axes.any()))
    elif kind == "extrema":
        X = (rng.integers(0, 2 * m + 2, shape) + 0.5) * 2.0 * c * S / (m + 1.0) - c * S
    elif kind == "even":
        X = np.stack([S[d] * np.linspace(-1.0, 1.0, POINTS)[rng.permutation(POINTS)] for d in range(model.dim)], axis=1)
    elif kind == "few":
        X = np.resize(S * rng.uniform(-1.0, 1.0, (int(rng.integers(1, 4)), model.dim)), shape)
    elif kind == "corners":
        X = S * rng.choice([-1.0, 0.0, 1.0], shape)
    else:
        X = S * rng.uniform(-1.0, 1.0, shape)
    return np.clip(X, -S, S)


def multiplicities(kind: str, N: int, rng: np.random.Generator) -> Float:
    """Whole numbers that add to N."""
    order = np.arange(POINTS) - 0.5 * (POINTS - 1)
    if kind == "bell":
        shares = np.exp(-0.5 * (order / rng.uniform(0.5, 3.0)) ** 2)
    else:
        shares = rng.dirichlet(np.full(POINTS, rng.choice([0.2, 1.0, 30.0])))
    return _whole(shares, N)


def _whole(shares: Float, N: int) -> Float:
    counts = np.floor(N * shares / shares.sum())
    counts[np.argmax(shares)] += N - counts.sum()
    return counts


def changed(X: Float, counts: Float, model: Approximation, rng: np.random.Generator) -> tuple[Float, Float]:
    """Rows and multiplicities near the given ones."""
    size = 10.0 ** rng.uniform(-3.0, -0.5)
    step = (
        size * rng.standard_normal(X.shape)
        if rng.random() < 0.5
        else size * rng.uniform(-1.0, 1.0) * X / model.half_width
    )
    shares = (counts + 1e-3 * counts.sum()) * np.exp(rng.uniform(0.0, 0.8) * rng.standard_normal(len(counts)))
    return np.clip(X + step * model.half_width, -model.half_width, model.half_width), _whole(shares, int(counts.sum()))


@dataclass
class Tally:
    """What came of the cases."""

    cases: int = 0
    bounds: int = 0
    silent: int = 0
    balls: int = 0
    violations: list[int] = field(default_factory=list)
    nearest: float = 0.0
    by_kernel: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The counts for the file."""
        return {
            "cases": self.cases,
            "violations": len(self.violations),
            "bounds": self.bounds - self.silent,
            "infinite bounds": self.silent,
            "decided in balls": self.balls,
            "largest truth by bound": round(self.nearest, 4),
            "median of the largest truth by bound": round(float(np.median(self.ratios)), 4) if self.ratios else None,
            "by kernel": dict(sorted(self.by_kernel.items())),
            "kinds": list(KINDS),
        }


def attack(seed: int, tally: Tally) -> None:
    """The bound of this seed."""
    rng = np.random.default_rng(seed)
    against(plan(rng), rng, seed, tally)


def against(made: Plan, rng: np.random.Generator, seed: int, tally: Tally) -> None:
    """All sets of rows against one bound."""
    bound = made.bound()
    tally.bounds += 1
    if not math.isfinite(bound):
        tally.silent += 1
        return
    kinds = [KINDS[i % len(KINDS)] for i in range(FIRST)]
    X = np.stack([points(kind, made.model, rng) for kind in kinds])
    counts = np.stack([multiplicities(kind, made.N, rng) for kind in kinds])
    open_ones = int((divergences(made.model, X, counts, made.noise).exceed(bound) == 0.0).sum())
    if open_ones > BY_BALLS:
        chosen = rng.permutation(FIRST)[:BY_BALLS]
        X, counts = X[chosen], counts[chosen]
    every_X, every_counts, every_truth = X, counts, compared(made, X, counts, bound, seed, tally)
    for _ in range(GENERATIONS if open_ones <= BY_BALLS else 0):
        best = np.argsort(-every_truth)[:PARENTS]
        pairs = [changed(every_X[i], every_counts[i], made.model, rng) for i in np.resize(best, NEXT)]
        X, counts = np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
        truth = compared(made, X, counts, bound, seed, tally)
        every_X, every_counts = np.concatenate([every_X, X]), np.concatenate([every_counts, counts])
        every_truth = np.concatenate([every_truth, truth])
    tally.ratios.append(float(every_truth.max()) / bound)
    tally.nearest = max(tally.nearest, tally.ratios[-1])


def compared(made: Plan, X: Float, counts: Float, bound: float, seed: int, tally: Tally) -> Float:
    """The larger divergence of each set, after it is compared with the bound."""
    truths = divergences(made.model, X, counts, made.noise)
    verdict, truth = truths.exceed(bound), truths.largest()
    for i in np.flatnonzero(verdict >= 0.0).tolist():
        tally.balls += 1
        balls = enclosed(made.model, X[i], counts[i], made.noise)
        truth[i] = max(float(each) for each in balls)
        if not all(each <= bound for each in balls):
            tally.violations.append(seed)
            print(f"seed {seed}: {X[i].tolist()}, {counts[i].tolist()}: {balls} above {bound}; {made}", flush=True)
    name = "squared exponential" if made.model.nu == math.inf else f"Matérn-{round(2 * made.model.nu)}/2"
    tally.by_kernel[f"{name}, D = {made.model.dim}"] += len(X)
    tally.cases += len(X)
    return truth


def run(cases: int, seed: int, said: Callable[[Tally], None] | None = None) -> Tally:
    """Bounds of seed, seed + 1, … until so many cases are compared; ``said`` gets the counts every minute."""
    tally, last = Tally(), time.monotonic()
    while tally.cases < cases:
        attack(seed, tally)
        seed += 1
        if said is not None and time.monotonic() - last > 60.0:
            last = time.monotonic()
            said(tally)
    return tally


def main(argv: Sequence[str] | None = None) -> int:
    import history

    from gpbounds.files import replacing

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first bound")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    args = parser.parse_args(argv)
    start = {"commit": history.commit(), "seed": args.seed}

    def said(tally: Tally) -> None:
        text = json.dumps(start | tally.record(), indent=1, ensure_ascii=False)
        print(text, flush=True)
        if args.store:
            with replacing(STORED) as file:
                file.write(text + "\n")

    tally = run(args.cases, args.seed, said)
    said(tally)
    return int(bool(tally.violations))


if __name__ == "__main__":
    sys.exit(main())
