"""Mini-batches for deep kernels: the variational form beside the semi-stochastic scheme of paper 001 (supplement).

    python examples/deep_schemes.py [--quick] [--rows 4000] [--epochs 20] [--out examples/output/deep_schemes.png]

Both train DFGP (d = 4, rank 40) by Adam in batches of 1000 rows, from the same network after 5 epochs of least squares.
The variational form takes a natural-gradient step for q and one of Adam for all parameters in each batch; its gradients
have no bias.  The scheme that the paper names (Al-Shedivat et al., 2017), ``LowRankGP(scheme="semi-stochastic")``,
passes over all rows once per epoch, updates the network by batches at the mean and covariance of the features' weights
of that pass, and then takes one step of the kernel's hyperparameters and the noise.  The curves are log p(y)/N of all
training rows, computed exactly after each epoch, against epochs and against processor time; of that of the variational
form this evaluation is no part.  What the authors' code does is neither of them, see `deep_protocols.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from deep_features import BATCH, HIDDEN, RATE
from lowrank_setting import write
from lowrank_tables import split
from regression_sets import UCI

from fitting.estimators.low_rank_gp import stale
from fitting.features import MLP, FeatureKernel, Fourier
from fitting.features.objects import trained_map
from fitting.objectives.goals import ExpectedLosses
from fitting.objectives.laws import FreeLaw, LowRankLaw
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.training import Steps
from fitting.training.adam import train_semi_stochastic
from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg.parallel import one_blas_thread

SCHEMES = ("variational form", "semi-stochastic scheme")
Epochs = Iterator[Parameters]
"""The point after each epoch."""


def parts(N: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The batches of one epoch."""
    return [np.sort(rows) for rows in np.array_split(rng.permutation(N), max(1, round(N / BATCH)))]


def variational(F: Objective, start: Parameters, rng: np.random.Generator) -> Epochs:
    bound = replace(F, law=FreeLaw(), goal=ExpectedLosses(start.likelihood))
    layout = packing_of(bound.complete(start))
    steps = Steps(layout.pack(layout.start), layout.bounds, RATE, bound.natural(layout.start, 0.1))
    while True:
        for rows in parts(F.N, rng):
            slopes = layout.loss(bound.batch(rows))(steps.x)[1]
            try:
                steps.take(slopes)
            except NotPositiveDefinite:  # slopes so steep that their rounding exceeds the precision of q
                steps.back(steps.x)
        yield layout.unpack(steps.x)


def semi_stochastic(F: Objective, start: Parameters, seed: int, count: int) -> list[tuple[int, float, float]]:
    """(epoch, log p(y)/N, seconds) after each of ``count`` epochs, whose passes compute log p(y) in any case."""
    layout, ends = packing_of(start), [time.process_time()]
    bound = replace(F, law=FreeLaw(), goal=ExpectedLosses(start.likelihood))
    loss = stale(F, bound, layout, BATCH)

    def whole(vector: Float) -> tuple[float, Float]:
        value = loss.whole(vector)
        ends.append(time.process_time())
        return value

    how: dict[str, Any] = {"max_iter": count, "learning_rate": RATE, "rng": np.random.default_rng(seed)}
    with one_blas_thread():
        run = train_semi_stochastic(replace(loss, whole=whole), layout.pack(start), layout.bounds, **how)
    times = np.array(ends[2:]) - ends[1]
    return [(i + 1, value / F.N, round(times[i], 3)) for i, value in enumerate(run.values[1:])]


def curve(F: Objective, epochs: Epochs, count: int) -> list[tuple[int, float, float]]:
    """(epoch, log p(y)/N, seconds) after each of ``count`` epochs."""
    found, seconds = [], 0.0
    with one_blas_thread():
        for epoch in range(1, count + 1):
            begun = time.process_time()
            point = next(epochs)
            seconds += time.process_time() - begun
            value = F.evaluate(point.kernel, point.noise, gradient=False).value / F.N
            found.append((epoch, value, round(seconds, 3)))
    return found


def picture(curves: dict[str, list[tuple[int, float, float]]]) -> Any:
    from gpbounds.plotting import BLUE, VERMILLION
    from gpbounds.plotting.elements import TEXT, axes, figure

    page = figure(9.6, 3.8)
    for i, (column, label) in enumerate(((0, "Epochs"), (2, "Seconds of one core"))):
        ax = axes(page, "log p(y) / N, nats", 121 + i, "linear")
        for (name, points), color in zip(curves.items(), (BLUE, VERMILLION), strict=True):
            ax.plot([p[column] for p in points], [p[1] for p in points], "o-", ms=3, color=color, label=name)
        ax.set_xlabel(label, fontsize=TEXT)
        ax.legend(fontsize=TEXT - 1, frameon=False)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", default="elevators", help="NAME of NAME.csv.gz (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--rows", type=options.whole, default=4000, help="training rows (default %(default)s)")
    parser.add_argument("--epochs", type=options.whole, default=20)
    parser.add_argument("--quick", action="store_true", help="1000 rows, 3 epochs")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/deep_schemes.png"))
    args = parser.parse_args(argv)
    rows, epochs = (1000, 3) if args.quick else (args.rows, args.epochs)
    X, y, _, _ = split(args.folder / f"{args.data}.csv.gz", rows, args.seed)
    rng = np.random.default_rng(args.seed)
    features = trained_map(MLP(HIDDEN, 4, then=Fourier(40)), X, y[:, None], rng)
    start = at_point(FeatureKernel(features, features.start(X, rng)), 0.1 * float(np.mean(y * y)))
    F = replace(objective(X, y), law=LowRankLaw())
    value = F.evaluate(start.kernel, start.noise, gradient=False).value / F.N
    found = {}
    by_form = curve(F, variational(F, start, np.random.default_rng(args.seed)), epochs)
    for name, points in zip(SCHEMES, (by_form, semi_stochastic(F, start, args.seed, epochs)), strict=True):
        found[name] = [(0, value, 0.0), *points]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(found).savefig(args.out)
    write(
        args.out,
        ("scheme", "epoch", "log_evidence_per_row", "seconds"),
        [(name, *p) for name, c in found.items() for p in c],
    )
    for name, points in found.items():
        print(f"{name}: log p(y)/N = {points[-1][1]:.4f} after {epochs} epochs, {points[-1][2] / epochs:.2f} s each")
    print(args.out)


if __name__ == "__main__":
    main()
