"""Deep kernels: test log loss and RMSE beside Tables 3 to 6 of paper 001, and Fig. 5: log loss and time against n.

    python examples/deep_features.py [--quick] [--parts tables ranks sizes] [--splits 3] [--epochs 100] [--resume]

The network is [D-512-256-64-d] with tanh.  DMGP is LowRankGP(MLP(d=1, then=Mercer(15))), DFGP LowRankGP(MLP(d=4,
then=Fourier(40))), both in mini-batches of 1000 rows by Adam with step length 0.001.  DNN+S predicts N(ŷ, s²) by the
network alone, fitted by least squares, with s² its mean squared training error; DNN+F trains Fourier features of its
four outputs, which are fixed, and DNN+M Mercer features of ŷ.  Without a network: SVIGP is VariationalGP by natural
gradients and Adam in the same mini-batches, SGPR SparseGP("vfe") on all rows by at most 100 iterations of L-BFGS-B,
both with 250 inducing points; SVIGP+ and SGPR+ have 500.  DKL is the model of deep kernel learning with d = 1, a GP
with a squared exponential kernel of z, by the 60 leading eigenfunctions in place of the interpolation between 5000
grid points (KISS) of the paper, and trained as DMGP.  RFEDGP is a deep GP with two hidden layers of three GPs each and
100 random frequencies a layer (`random_feature_dgp.py`), by Adam with step length 0.01.

Differences from the paper: the network of DMGP and DFGP starts after --pretraining epochs of least squares (the paper
does not say how many); z is standardised by the moments of the start, not by those of the current weights;
mini-batches use the variational form, which has no gap, and not the paper's semi-stochastic scheme (`deep_schemes.py`
compares the two, and `deep_protocols.py` what the authors' public code does); the noise starts at a tenth of the
variance of y, or at --noise; Tables 5 and 6 and Fig. 5 have one split, and in Fig. 5 protein and elevators stand for
ELECTRIC; RFEDGP trains by --samples samples of its weights a step, the paper's by 20.  Splits are 90/10, inputs and
targets are standardised by the training rows.  "In training" is −log p(y)/N of DMGP, DFGP and DKL, and the mean log
loss of DNN+S.  A run with --resume leaves out what the CSV file holds already, so that --epochs can be varied.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import random_feature_dgp
from lowrank_setting import write
from lowrank_tables import split
from paired import paired
from random_feature_dgp import DeepGP, trained
from regression_sets import UCI
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP, SparseGP, VariationalGP
from fitting.features import MLP, Fourier, Mercer
from fitting.features.pretraining import Regressor
from gpbounds.cli import options

HIDDEN, BATCH, RATE, SVIGP_RATE = (512, 256, 64), 1000, 1e-3, 1e-2
PRINTED = {
    "elevators": {
        "SVIGP": (0.444, 0.379), "SVIGP+": (0.435, 0.375), "SGPR": (0.433, 0.375), "SGPR+": (0.420, 0.370),
        "DKL": (0.527, 0.352), "RFEDGP": (0.434, 0.355), "DMGP": (0.371, 0.346), "DFGP": (0.350, 0.341),
        "DNN+S": (0.402, 0.359), "DNN+M": (0.401, 0.359), "DNN+F": (0.380, 0.354),
    },
    "protein": {
        "SVIGP": (1.041, 0.683), "SVIGP+": (0.991, 0.649), "SGPR": (0.997, 0.653), "SGPR+": (0.944, 0.620),
        "DKL": (0.958, 0.630), "RFEDGP": (1.028, 0.678), "DMGP": (0.857, 0.564), "DFGP": (0.853, 0.562),
        "DNN+S": (0.904, 0.588), "DNN+M": (0.893, 0.581), "DNN+F": (0.895, 0.582),
    },
    "sarcos": {
        "SVIGP": (-0.422, 0.160), "SVIGP+": (-0.479, 0.151), "SGPR": (-0.370, 0.168), "SGPR+": (-0.468, 0.153),
        "DKL": (0.395, 0.230), "RFEDGP": (-0.303, 0.179), "DMGP": (-0.777, 0.111), "DFGP": (-0.777, 0.111),
        "DNN+S": (-0.559, 0.144), "DNN+M": (-0.585, 0.140), "DNN+F": (-0.628, 0.135),
    },
    "3droad": {
        "SVIGP": (0.652, 0.462), "SVIGP+": (0.541, 0.413), "SGPR": (0.799, 0.537), "SGPR+": (0.737, 0.506),
        "DKL": (0.744, 0.499), "RFEDGP": (0.583, 0.434), "DMGP": (0.140, 0.277), "DFGP": (0.139, 0.278),
        "DNN+S": (0.239, 0.311), "DNN+M": (0.233, 0.310), "DNN+F": (0.237, 0.311),
    },
    "song": {
        "SVIGP": (1.208, 0.810), "SVIGP+": (1.205, 0.807), "SGPR": (1.202, 0.806), "SGPR+": (1.198, 0.802),
        "DKL": (1.261, 0.815), "RFEDGP": (1.207, 0.809), "DMGP": (1.185, 0.791), "DFGP": (1.189, 0.795),
        "DNN+S": (1.211, 0.806), "DNN+M": (1.208, 0.804), "DNN+F": (1.210, 0.805),
    },
    "buzz": {
        "SVIGP": (0.087, 0.271), "SVIGP+": (0.078, 0.270), "SGPR": (0.216, 0.315), "SGPR+": (0.186, 0.308),
        "DKL": (0.460, 0.274), "RFEDGP": (0.238, 0.307), "DMGP": (-0.008, 0.237), "DFGP": (-0.016, 0.238),
        "DNN+S": (0.019, 0.251), "DNN+M": (0.025, 0.250), "DNN+F": (0.012, 0.250),
    },
    "houseelectric": {
        "SVIGP": (0.804, 0.540), "SVIGP+": (0.769, 0.521), "SGPR": (0.871, 0.577), "SGPR+": (0.810, 0.542),
        "DKL": (0.447, 0.285), "RFEDGP": (0.616, 0.448), "DMGP": (0.078, 0.261), "DFGP": (0.067, 0.259),
        "DNN+S": (0.165, 0.288), "DNN+M": (0.164, 0.287), "DNN+F": (0.155, 0.285),
    },
}  # fmt: skip
"""NLPD and RMSE of Tables 3 and 4.  ELECTRIC (houseelectric) has 19 inputs."""
TESTED = ("elevators", "protein")
"""The sets that the repository's results are about; the others are run where the folder has them."""
PRINTED_SECONDS = {
    "elevators": {"SVIGP": 59, "SVIGP+": 150, "SGPR": 49, "SGPR+": 144, "DKL": 285, "RFEDGP": 184, "DMGP": 121,
                  "DFGP": 51, "DNN+S": 28, "DNN+M": 41, "DNN+F": 53},
    "protein": {"SVIGP": 182, "SVIGP+": 425, "SGPR": 156, "SGPR+": 381, "DKL": 435, "RFEDGP": 559, "DMGP": 375,
                "DFGP": 137, "DNN+S": 80, "DNN+M": 113, "DNN+F": 150},
    "sarcos": {"SVIGP": 269, "SVIGP+": 455, "SGPR": 227, "SGPR+": 419, "DKL": 455, "RFEDGP": 629, "DMGP": 448,
               "DFGP": 146, "DNN+S": 78, "DNN+M": 113, "DNN+F": 171},
    "3droad": {"SVIGP": 2096, "SVIGP+": 3895, "SGPR": 1697, "SGPR+": 3661, "DKL": 2531, "RFEDGP": 2862, "DMGP": 3602,
               "DFGP": 1363, "DNN+S": 752, "DNN+M": 1061, "DNN+F": 1326},
    "song": {"SVIGP": 2527, "SVIGP+": 4845, "SGPR": 2012, "SGPR+": 4676, "DKL": 2916, "RFEDGP": 4627, "DMGP": 3598,
             "DFGP": 1898, "DNN+S": 224, "DNN+M": 331, "DNN+F": 245},
    "buzz": {"SVIGP": 2615, "SVIGP+": 5715, "SGPR": 2114, "SGPR+": 5208, "DKL": 2854, "RFEDGP": 4276, "DMGP": 3963,
             "DFGP": 2092, "DNN+S": 513, "DNN+M": 711, "DNN+F": 1890},
    "houseelectric": {"SVIGP": 8231, "SVIGP+": 18878, "SGPR": 11190, "SGPR+": 30357, "DKL": 14455, "RFEDGP": 26256,
                      "DMGP": 14311, "DFGP": 6785, "DNN+S": 2211, "DNN+M": 3069, "DNN+F": 6504},
}  # fmt: skip
"""Seconds of training of Table 3, on 32 cores."""
PRINTED_RANKS = {
    ("protein", "DMGP", 1): {2: 0.883, 4: 0.856, 8: 0.857, 16: 0.857},
    ("protein", "DMGP", 2): {2: 0.872, 4: 0.863, 8: 0.855, 16: 0.855},
    ("protein", "DMGP", 3): {2: 0.872, 4: 0.867, 8: 0.848, 16: 0.848},
    ("protein", "DFGP", 1): {2: 0.871, 4: 0.856, 8: 0.856, 16: 0.856},
    ("protein", "DFGP", 2): {2: 0.873, 4: 0.851, 8: 0.854, 16: 0.854},
    ("protein", "DFGP", 3): {2: 0.862, 4: 0.847, 8: 0.846, 16: 0.846},
    ("elevators", "DMGP", 1): {2: 0.381, 4: 0.371, 8: 0.371, 16: 0.371},
    ("elevators", "DMGP", 2): {2: 0.361, 4: 0.351, 8: 0.351, 16: 0.351},
    ("elevators", "DMGP", 3): {2: 0.377, 4: 0.353, 8: 0.352, 16: 0.352},
    ("elevators", "DFGP", 1): {2: 0.411, 4: 0.380, 8: 0.379, 16: 0.379},
    ("elevators", "DFGP", 2): {2: 0.381, 4: 0.357, 8: 0.356, 16: 0.357},
    ("elevators", "DFGP", 3): {2: 0.367, 4: 0.357, 8: 0.356, 16: 0.357},
}
"""NLPD of Tables 5 and 6, by data, model and d, against r^(1/d) for DMGP and r/2 for DFGP; 10 and 32 are left out."""
DEEP, PLAIN = ("DMGP", "DFGP"), ("DNN+S", "DNN+M", "DNN+F")
SPARSE = {"SVIGP": 250, "SVIGP+": 500, "SGPR": 250, "SGPR+": 500}
"""Sparse models, and their numbers of inducing points."""
MODELS = (*DEEP, *PLAIN, *SPARSE, "DKL", "RFEDGP")
RANDOM_RATE, RANDOM_DRAWS = 1e-2, 100
"""Step length of RFEDGP, and the samples of its weights in a prediction."""
HEADER = (
    "part",
    "data",
    "model",
    "rank",
    "d",
    "rows",
    "split",
    "epochs",
    "nlpd",
    "rmse",
    "train_log_loss",
    "seconds",
    "start_noise",
)


def start_noise(args: argparse.Namespace, model: str) -> float | str:
    """The value of --noise, as the CSV file has it; a model without its own mini-batches starts without it."""
    return args.noise if args.noise is not None and model in (*DEEP, "DKL") else ""


def nlpd(mean: np.ndarray, std: np.ndarray | float, y: np.ndarray) -> tuple[float, float]:
    """Mean of −log N(y; mean, std²), and RMSE."""
    error = y - mean
    losses = 0.5 * np.log(2.0 * np.pi * np.square(std)) + 0.5 * (error / std) ** 2
    return float(np.mean(losses)), float(np.sqrt(np.mean(error**2)))


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def tested(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    return nlpd(*model.predict(X, return_std=True, noisy=True), y)


def deep(model: str, rank: int, d: int, args: argparse.Namespace, N: int, seed: int) -> LowRankGP:
    """DMGP, DFGP or DKL."""
    then = Fourier(rank) if model == "DFGP" else Mercer(rank, "grid" if d > 1 else "degree")
    features = MLP(HIDDEN, d, then=then, pretraining=args.pretraining, batch_size=BATCH)
    steps = max(1, round(args.epochs * N / BATCH))
    settings: dict[str, Any] = {"optimizer": "adam", "batch_size": BATCH, "max_iter": steps, "learning_rate": RATE}
    return LowRankGP(features, noise=args.noise, random_state=seed, **settings)


def sparse(model: str, epochs: int, N: int, seed: int) -> Any:
    """A model without a network."""
    shared: dict[str, Any] = {"n_inducing": SPARSE[model], "inducing": "kmeans", "random_state": seed}
    if model.startswith("SGPR"):
        return SparseGP("vfe", max_iter=100, **shared)
    steps: dict[str, Any] = {"optimizer": "natgrad", "batch_size": BATCH, "max_iter": max(1, round(epochs * N / BATCH))}
    return VariationalGP(learning_rate=SVIGP_RATE, **shared, **steps)


def plain(model: str, network: Regressor, data: Sequence[np.ndarray], seed: int) -> tuple[float, float, float]:
    """NLPD, RMSE and training loss of a model on the outputs of a network that stays as it is."""
    X, y, X_test, y_test = data
    if model == "DNN+S":
        fitted_values, new = network.predict(X)[:, 0], network.predict(X_test)[:, 0]
        s = float(np.sqrt(np.mean((y - fitted_values) ** 2)))
        return *nlpd(new, s, y_test), nlpd(fitted_values, s, y)[0]
    if model == "DNN+M":
        z, z_new = network.predict(X), network.predict(X_test)
        gp = LowRankGP("mercer", 15, max_iter=200, random_state=seed)
    else:
        z, z_new = (network.network.project(network.weights, rows) for rows in (X, X_test))
        gp = LowRankGP("fourier", 40, max_iter=200, random_state=seed)
    gp = fitted(gp, z, y)
    return *tested(gp, z_new, y_test), -gp.objective_ / len(y)


def random_features(
    frequencies: int, d: int, args: argparse.Namespace, data: Sequence[np.ndarray], seed: int
) -> tuple[float, float]:
    """NLPD and RMSE of RFEDGP."""
    X, y, X_test, y_test = data
    rng = np.random.default_rng(seed)
    model = DeepGP.drawn((X.shape[1], d, d, 1), frequencies, rng)
    how: dict[str, Any] = {"epochs": args.epochs, "batch": BATCH, "rate": RANDOM_RATE, "samples": args.samples}
    return random_feature_dgp.scores(model, trained(model, X, y, **how, rng=rng), X_test, y_test, RANDOM_DRAWS, rng)


Case = tuple[str, str, str, int, int, int, int]
"""Part, data, model, rank, d, rows (0: 90 % of all), split."""


def cases(args: argparse.Namespace, sets: Sequence[str]) -> list[Case]:
    jobs: list[Case] = []
    standard = {"DMGP": (15, 1), "DFGP": (40, 4), "DNN+S": (0, 4), "DNN+M": (15, 1), "DNN+F": (40, 4)}
    standard |= {"DKL": (60, 1), "RFEDGP": (100, 3)} | {model: (M, 0) for model, M in SPARSE.items()}
    for seed in range(args.splits):
        for name in sets if "tables" in args.parts else ():
            jobs += [("tables", name, model, *standard[model], args.rows, seed) for model in args.models]
    for name in sets if "ranks" in args.parts else ():
        for d in args.dims:
            for size in args.counts:
                jobs += [("ranks", name, "DMGP", size**d, d, args.rows, 0)]
                jobs += [("ranks", name, "DFGP", 2 * size, d, args.rows, 0)]
    for name in sets if "sizes" in args.parts else ():
        for n in args.sizes:
            jobs += [("sizes", name, model, *standard[model], n, 0) for model in ("DMGP", "DFGP", "DNN+S")]
    return jobs


def results(args: argparse.Namespace, todo: Sequence[Case]) -> Iterator[tuple[Any, ...]]:
    networks: dict[Any, tuple[Regressor, float]] = {}
    ends = time.monotonic() + 60.0 * args.minutes
    for part, name, model, rank, d, rows, seed in tqdm(todo, unit="model"):
        if time.monotonic() > ends:
            return
        data = split(args.folder / f"{name}.csv.gz", rows, seed)
        X, y, X_test, y_test = data
        begun = time.process_time()
        if model == "RFEDGP":
            scores: tuple[float, ...] = (*random_features(rank, d, args, data, seed), np.nan)
        elif model in (*DEEP, "DKL"):
            gp = fitted(deep(model, rank, d, args, len(y), seed), X, y)
            scores = (*tested(gp, X_test, y_test), -gp.objective_ / len(y))
        elif model in SPARSE:
            scores = (*tested(fitted(sparse(model, args.epochs, len(y), seed), X, y), X_test, y_test), np.nan)
        else:
            key = name, rows, seed
            if key not in networks:
                choice = MLP(HIDDEN, 4, pretraining=args.epochs, batch_size=BATCH)
                made = choice.regressor(X, y[:, None], np.random.default_rng(seed))
                networks = {key: (made, time.process_time() - begun)}
                begun = time.process_time()
            scores = plain(model, networks[key][0], data, seed)
            begun -= networks[key][1]
        spent = round(time.process_time() - begun, 2)
        yield part, name, model, rank, d, rows, seed, args.epochs, *scores, spent, start_noise(args, model)


def table(rows: Sequence[Sequence[Any]], data: str) -> str:
    """Means over splits (standard error) beside the printed numbers, in Markdown; a line for each number of epochs."""
    lines = [
        f"| {data} | epochs | NLPD | printed | RMSE | printed | in training | seconds | printed | splits |",
        "|---" * 10 + "|",
    ]
    for model, paper in PRINTED[data].items():
        of_model = [row for row in rows if tuple(row[:3]) == ("tables", data, model)]
        for epochs, noise in sorted({(int(row[7]), str(row[-1])) for row in of_model}) or [("", "")]:
            part = [row for row in of_model if (int(row[7]), str(row[-1])) == (epochs, noise)]
            nlpd, rmse, training, seconds = (_mean(part, column) for column in (8, 9, 10, 11))
            setting = f"{epochs}, noise from {noise}" if noise else str(epochs)
            cells = [
                setting,
                nlpd,
                f"{paper[0]:.3f}",
                rmse,
                f"{paper[1]:.3f}",
                training,
                seconds,
                str(PRINTED_SECONDS[data][model]),
                str(len(part) or ""),
            ]
            lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def claims(rows: Sequence[Sequence[Any]], data: str) -> str:
    """Differences of NLPD, DMGP and DFGP minus the other models on the same splits, from the default start."""
    others = (*PLAIN, *SPARSE)
    nlpd = {(r[2], int(r[7]), int(r[6])): float(r[8]) for r in rows if (*r[:2], r[-1]) == ("tables", data, "")}
    lines = [
        f"| {data} | epochs | " + " | ".join(f"− {each}" for each in others) + " |",
        "|---" * (len(others) + 2) + "|",
    ]
    for model in DEEP:
        for epochs in sorted({key[1] for key in nlpd if key[0] == model}):
            cells = []
            for other in others:
                both = [i for m, e, i in nlpd if (m, e) == (model, epochs) and (other, epochs, i) in nlpd]
                if not both:
                    cells.append("")
                    continue
                gap = paired(*([nlpd[name, epochs, i] for i in both] for name in (model, other)))
                cells.append(f"**{gap}**" if gap.surely_less or gap.surely_more else str(gap))
            lines.append(f"| {model} | {epochs} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(part: Sequence[Sequence[Any]], column: int) -> str:
    """The mean of a column over splits, with its standard error if there are several."""
    values = [float(row[column]) for row in part]
    if not values:
        return ""
    if np.isnan(values).any():
        return ""
    if column == 11:
        return f"{np.mean(values):.0f}"
    spread = f" ({np.std(values, ddof=1) / np.sqrt(len(values)):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def rank_table(rows: Sequence[Sequence[Any]], data: str, noise: float | str) -> str:
    """NLPD against r^(1/d) or r/2 of the models whose noise starts at ``noise``, the printed number in italics."""
    part = [row for row in rows if (*row[:2], str(row[-1])) == ("ranks", data, str(noise))]
    counts = sorted({_count(row) for row in part})
    heads = ["epochs", *(f"{size}" for size in counts)]
    lines = [f"| {data}, NLPD | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    losses = {(r[2], int(r[4]), int(r[7]), _count(r)): float(r[8]) for r in part}
    for model, d, epochs in sorted({key[:3] for key in losses}, key=lambda key: (DEEP.index(key[0]), *key[1:])):
        cells = []
        for size in counts:
            ours, paper = losses.get((model, d, epochs, size)), PRINTED_RANKS.get((data, model, d), {}).get(size)
            cells.append(("" if ours is None else f"{ours:.3f}") + ("" if paper is None else f" *({paper:.3f})*"))
        lines.append(f"| {model}, d = {d} | {epochs} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _count(row: Sequence[Any]) -> int:
    """r^(1/d) for DMGP, r/2 for DFGP."""
    rank, d = int(row[3]), int(row[4])
    return round(rank ** (1.0 / d)) if row[2] == "DMGP" else rank // 2


def _point(row: Sequence[Any]) -> tuple[int, float, float]:
    """n, NLPD and seconds."""
    return int(row[5]), float(row[8]), float(row[11])


def picture(rows: Sequence[Sequence[Any]], sets: Sequence[str]) -> Any:
    """Fig. 5: test NLPD and seconds of training against n, a line style for each number of epochs."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    from gpbounds.plotting import BLUE, GREEN, VERMILLION
    from gpbounds.plotting.elements import TEXT, axes, figure, plain_ticks

    colors = {"DMGP": VERMILLION, "DFGP": BLUE, "DNN+S": GREEN}
    page = figure(5.2 * len(sets), 6.4)
    for i, name in enumerate(sets):
        part = [row for row in rows if tuple(row[:2]) == ("sizes", name)]
        if not part:
            continue
        above = axes(page, "test NLPD", 201 + 10 * len(sets) + i, "linear")
        below = axes(page, "seconds of one core", 201 + 10 * len(sets) + len(sets) + i)
        settings = sorted({(int(row[7]), str(row[-1])) for row in part}, key=lambda key: (-key[0], key[1]))
        for (epochs, noise), style in zip(settings, ("o-", "s--", "^-.", "v:"), strict=False):
            for model, color in colors.items():
                points = sorted(_point(r) for r in part if (r[2], int(r[7]), str(r[-1])) == (model, epochs, noise))
                if points:
                    n, losses, seconds = zip(*points, strict=True)
                    label = f"{model}, {epochs} epochs" + (f", noise from {noise}" if noise else "")
                    above.plot(n, losses, style, color=color, label=label)
                    below.plot(n, seconds, style, color=color, label=label)
        for model, color in colors.items():
            above.axhline(PRINTED[name][model][0], color=color, lw=1.0, ls=":")
        above.set_title(f"{name}; dotted: printed, 90 % of all rows", loc="left", fontsize=TEXT + 1)
        below.legend(fontsize=TEXT - 2, frameon=False, loc="lower right")
        below.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        below.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        below.yaxis.set_minor_formatter(NullFormatter())
        sizes = [int(row[5]) for row in part]
        for ax in (above, below):
            ax.set_xscale("log")
            ax.set_xlabel("Number of training rows n", fontsize=TEXT)
            plain_ticks(ax, min(sizes), max(sizes))
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=("tables", "ranks", "sizes"),
        default=["tables"],
        help="tables: Tables 3 and 4 (default); ranks: Tables 5 and 6; sizes: Fig. 5",
    )
    parser.add_argument(
        "--sets", nargs="+", choices=tuple(PRINTED), default=list(TESTED), help="default: elevators protein"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=list(MODELS),
        help="of the tables (default: all)",
    )
    parser.add_argument("--splits", type=options.whole, default=3, help="random splits (default %(default)s)")
    parser.add_argument("--epochs", type=options.whole, default=100, help="passes over the rows (default %(default)s)")
    parser.add_argument("--pretraining", type=int, default=10, help="epochs of least squares (default %(default)s)")
    parser.add_argument("--samples", type=options.whole, default=1, help="of RFEDGP a step (default %(default)s)")
    parser.add_argument("--noise", type=options.number, help="variance at which the noise of deep kernels starts")
    parser.add_argument("--rows", type=int, default=0, help="training rows, 0 for 90 %% (default %(default)s)")
    parser.add_argument(
        "--counts",
        type=options.whole,
        nargs="+",
        default=[2, 4, 8, 16],
        help="r^(1/d) of DMGP and r/2 of DFGP, for ranks",
    )
    parser.add_argument("--dims", type=options.whole, nargs="+", default=[1, 2], help="outputs d, for ranks")
    parser.add_argument("--sizes", type=options.whole, nargs="+", default=[1000, 2000, 4000, 8000], help="n of Fig. 5")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no further model after so many, by the clock"
    )
    parser.add_argument("--quick", action="store_true", help="elevators, 1000 rows, one split, 2 epochs")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the CSV file")
    parser.add_argument(
        "--out",
        type=options.picture_file,
        default=Path("examples/output/deep_features.png"),
        help="picture; the CSV file stands beside it",
    )
    args = parser.parse_args(argv)
    if args.quick:
        args.sets, args.rows, args.splits, args.epochs, args.pretraining = ["elevators"], 1000, 1, 2, 1
    sets = [name for name in args.sets if (args.folder / f"{name}.csv.gz").exists()]
    for name in sorted(set(args.sets) - set(sets)):
        print(f"No {name}.csv.gz in {args.folder}: pass --folder.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    stored = args.out.with_suffix(".csv")
    if args.resume and stored.exists():
        with stored.open(encoding="utf-8") as file:
            rows = [tuple(row) for row in list(csv.reader(file))[1:]]
    rows = [(*row, "")[: len(HEADER)] for row in rows]
    done = {tuple(map(str, (*row[:8], row[-1]))) for row in rows}
    keys = {case: (*case, args.epochs, start_noise(args, case[2])) for case in cases(args, sets)}
    todo = [case for case, key in keys.items() if tuple(map(str, key)) not in done]
    for each in results(args, todo):
        rows.append(each)
        write(args.out, HEADER, rows)
    for name in sets:
        print(f"\n{table(rows, name)}\n\n{claims(rows, name)}\nBold: Student's 95 % interval does not contain 0.")
        if any(row[0] == "ranks" for row in rows):
            print(f"\n{rank_table(rows, name, start_noise(args, DEEP[0]))}")
    if any(row[0] == "sizes" for row in rows):
        picture(rows, sets).savefig(args.out)
        print(args.out)
    print(stored)


if __name__ == "__main__":
    main()
