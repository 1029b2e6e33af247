"""Why Tables 3 and 4 of paper 001 are not reached on elevators: DMGP and DFGP by three protocols, on the same splits.

    python examples/deep_protocols.py [--quick] [--protocols follows code] [--splits 5] [--epochs 100] [--resume]

| protocol | what it is                                                                                               |
|----------|----------------------------------------------------------------------------------------------------------|
| start    | that of `deep_features.py`, whose CSV file has its numbers                                               |
| follows  | the same, but z is standardised over each batch at the current weights, as Sec. D.1 of the paper says     |
| code     | that of the authors' public code (github.com/aresPanos/dmgp_dfgp_regression, June 2020), which the paper  |
|          | leaves out: (1) 100 epochs of least squares, in which each of the d outputs predicts y, in place of our   |
|          | 10; (2) at most 100 iterations of L-BFGS for kernel and noise on the outputs z; (3) --epochs of joint     |
|          | training with the step length 1e-6 in place of 1e-3: the network by log p of the rows of each batch alone.|
|          | DMGP standardises z over each batch, DFGP does not.                                                       |
| apart    | "code" after its step (2): a GP on the outputs of a network that was trained before                       |

Differences from that code: the splits are ours; the least squares train z and a linear layer, whose product is then
the last layer of the network; DFGP keeps the frequencies of step (2), where the code draws new ones; and kernel and
noise stay where step (2) ends, where the code takes 100 steps of at most about 1e-6 in (3).
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from deep_features import BATCH, DEEP, HIDDEN, PRINTED, deep, fitted, nlpd, tested
from deep_schemes import parts
from lowrank_setting import write
from lowrank_tables import split
from paired import paired
from regression_sets import UCI

from fitting import LowRankGP
from fitting.features import MLP, Composed, FeatureKernel, Network
from fitting.features.network import StandardisedNetwork
from fitting.features.pretraining import Regressor
from fitting.objectives.laws import LowRankLaw
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.point import Parameters
from fitting.training import Steps
from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.linalg.parallel import one_blas_thread

SIZES = {"DMGP": (15, 1), "DFGP": (40, 4)}
"""Rank and d."""
LEAST_SQUARES, SLOW = 100, 1e-6
HEADER = ("data", "model", "protocol", "split", "epochs", "nlpd", "rmse", "train_log_loss", "seconds")


def predicting(fit: Regressor) -> tuple[Network, Float]:
    """The network whose outputs are the predictions of ``fit``, one of them for each column of its targets."""
    network = replace(fit.network, sizes=(*fit.network.sizes[:-1], fit.matrix.shape[1]))
    weights = np.zeros(network.size)
    for old, new in zip(fit.network.layers(fit.weights), network.layers(weights), strict=True):
        last = new.columns.stop == sum(network.sizes[1:])
        new.W[...], new.b[...] = (old.W @ fit.matrix, old.b @ fit.matrix + fit.offset) if last else (old.W, old.b)
    return replace(network, shift=np.zeros(network.dim), scale=np.ones(network.dim)), weights


def slowly(F: Objective, point: Parameters, epochs: int, rng: np.random.Generator) -> Parameters:
    """The end of step (3) from ``point``."""
    kernel: Any = point.kernel
    steps = Steps(kernel.weights, [(-np.inf, np.inf)] * kernel.weights.size, SLOW)
    for _ in range(epochs):
        for rows in parts(F.N, rng):
            alone = replace(objective(F.data.X[rows], F.data.Y[rows, 0]), law=LowRankLaw())
            gradient = alone.evaluate(kernel.with_weights(steps.x), point.noise).gradient
            assert gradient is not None
            assert gradient.weights is not None
            steps.take(-gradient.weights)
    return replace(point, kernel=kernel.with_weights(steps.x))


def by_code(model: str, data: Sequence[np.ndarray], epochs: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Protocol and scores of "apart", then of "code"."""
    X, y, X_test, y_test = data
    rank, d = SIZES[model]
    begun, rng = time.process_time(), np.random.default_rng(seed)
    choice = MLP(HIDDEN, d, pretraining=LEAST_SQUARES, batch_size=BATCH)
    plain, weights = predicting(choice.regressor(X, np.tile(y[:, None], d), rng))
    network, z = plain.centred(weights, X)
    gp = LowRankGP("mercer" if model == "DMGP" else "fourier", rank, max_iter=100, random_state=seed)
    gp = fitted(gp, z, y)
    spent = time.process_time() - begun
    yield "apart", *tested(gp, network.project(weights, X_test), y_test), -gp.objective_ / len(y), spent
    begun = time.process_time()
    inner: Any = gp.feature_kernel_.features
    features = Composed(inner, StandardisedNetwork(network, X) if model == "DMGP" else network, weights)
    kernel = FeatureKernel(features, np.concatenate([gp.feature_kernel_.log_parameters, weights]))
    F = replace(objective(X, y), law=LowRankLaw())
    with one_blas_thread():
        point = slowly(F, at_point(kernel, gp.noise_), epochs, rng)
    spent += time.process_time() - begun
    mean, v = F.posterior(point.kernel, point.noise).predict(X_test, noisy=True)
    value = F.evaluate(point.kernel, point.noise, gradient=False).value
    yield "code", *nlpd(mean, np.sqrt(v), y_test), -value / len(y), spent


def by_batches(model: str, data: Sequence[np.ndarray], args: argparse.Namespace, seed: int) -> tuple[Any, ...]:
    """Protocol and scores of "follows"."""
    X, y, X_test, y_test = data
    begun, gp = time.process_time(), deep(model, *SIZES[model], args, len(y), seed)
    gp = fitted(gp.set_params(features__standardise="always"), X, y)
    spent = time.process_time() - begun
    return "follows", *tested(gp, X_test, y_test), -gp.objective_ / len(y), spent


def results(args: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows of the CSV file that are not ``done``, split after split."""
    for seed in range(args.splits):
        data = split(args.folder / f"{args.data}.csv.gz", args.rows, seed)
        for protocol in args.protocols:
            for model in args.models:
                if (model, protocol, str(seed), str(args.epochs)) in done:
                    continue
                code = protocol == "code"
                runs = by_code(model, data, args.epochs, seed) if code else [by_batches(model, data, args, seed)]
                for name, *scores, spent in runs:
                    epochs = 0 if name == "apart" else args.epochs
                    yield args.data, model, name, seed, epochs, *scores, round(spent, 2)


def table(rows: Sequence[Sequence[Any]], data: str) -> str:
    """Means over splits (standard error) in Markdown, a line for each model, protocol and number of epochs."""
    lines = [
        f"| {data} | protocol | epochs | NLPD | printed | RMSE | printed | in training | seconds | splits |",
        "|---" * 10 + "|",
    ]
    for model in DEEP:
        keys = sorted({(str(row[2]), int(row[4])) for row in rows if row[1] == model})
        for protocol, epochs in keys:
            part = [row for row in rows if (row[1], row[2], int(row[4])) == (model, protocol, epochs)]
            loss, rmse, training = (_mean(part, column) for column in (5, 6, 7))
            seconds = f"{np.mean([float(row[8]) for row in part]):.0f}"
            paper = PRINTED[data][model]
            cells = [protocol, str(epochs or ""), loss, f"{paper[0]:.3f}", rmse, f"{paper[1]:.3f}", training, seconds]
            lines.append(f"| {model} | " + " | ".join([*cells, str(len(part))]) + " |")
    return "\n".join(lines)


def _mean(part: Sequence[Sequence[Any]], column: int) -> str:
    values = [float(row[column]) for row in part]
    spread = f" ({np.std(values, ddof=1) / np.sqrt(len(values)):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def gaps(rows: Sequence[Sequence[Any]], pairs: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> Iterator[str]:
    """Differences of NLPD on the same splits."""
    for model in DEEP:
        for left, right in pairs:
            scores = [
                {row[3]: float(row[5]) for row in rows if (row[1], row[2], int(row[4])) == (model, *each)}
                for each in (left, right)
            ]
            both = sorted(scores[0].keys() & scores[1].keys())
            if len(both) > 1:
                gap = paired(*([each[i] for i in both] for each in scores))
                words = [f"{name}, {epochs} epochs" if epochs else name for name, epochs in (left, right)]
                sure = " (sure)" if gap.surely_less or gap.surely_more else ""
                yield f"{model}: {words[0]} − {words[1]}: {gap}{sure}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", choices=tuple(PRINTED), default="elevators", help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--protocols", nargs="+", choices=("follows", "code"), default=["follows", "code"])
    parser.add_argument("--models", nargs="+", choices=DEEP, default=list(DEEP), help="default: both")
    parser.add_argument("--splits", type=options.whole, default=5, help="random splits (default %(default)s)")
    parser.add_argument("--epochs", type=options.whole, default=100, help="of joint training (default %(default)s)")
    parser.add_argument("--pretraining", type=int, default=10, help="epochs of least squares of 'follows'")
    parser.add_argument("--rows", type=int, default=0, help="training rows, 0 for 90 %% (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="1000 rows, one split, 2 epochs")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the CSV file")
    parser.add_argument("--out", type=Path, default=Path("examples/output/deep_protocols.csv"), help="CSV file")
    args = parser.parse_args(argv)
    args.noise = None
    if args.quick:
        args.rows, args.splits, args.epochs, args.pretraining = 1000, 1, 2, 1
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    if args.resume and args.out.exists():
        with args.out.open(encoding="utf-8") as file:
            rows = [tuple(row) for row in list(csv.reader(file))[1:]]
    done = {tuple(map(str, row[1:5])) for row in rows}
    for each in results(args, done):
        rows.append(each)
        write(args.out, HEADER, rows)
    print(table(rows, args.data))
    ends = sorted({int(row[4]) for row in rows if row[2] == "code"})
    print("\n".join(gaps(rows, [(("code", epochs), ("apart", 0)) for epochs in ends])))
    print(args.out)


if __name__ == "__main__":
    main()
