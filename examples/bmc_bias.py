"""The bias of biased Monte Carlo gradients against exact product sampling (Fig. 1 g, h of paper 004, simulated counts).

    python examples/bmc_bias.py [--quick] [--N 200] [--draws 20000] [--out examples/output/bmc_bias.png]

Counts y ~ Poisson(e^f) with f from a GP on a line, and an approximate posterior N(m_i, v_i) of each f_i as it is at the
start of a fit: the prior.  Left, the objective: the mean over the data of E[-log(mean of L samples)] from the
ELBO's term at L = 1 down to the direct loss at L = infinity.  Right, the gradient of -sum log E p in all m_i and
in all v_i: the norm of the bias over the norm of the truth.  Lines are exact (integral D-21); points are averages
of drawn gradients, whose own noise is the grey line; uPS draws exactly from N(m, v) p(y|f) and has no bias.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gpbounds.cli import options
from gpbounds.kernels import SquaredExponential
from gpbounds.likelihoods import Poisson
from gpbounds.montecarlo import (
    bias,
    exact_gradient,
    expected_gradients,
    expected_objective,
    product_gradient,
    sample_product,
    sampled_gradient,
)
from gpbounds.plotting import BLACK, BLUE, GREEN, VERMILLION
from gpbounds.plotting.elements import TEXT, axes, figure, headline

MODEL = Poisson("exp")
SIZES = np.array([1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000])
"""Where gradients are drawn."""
FINE = np.unique(np.rint(np.geomspace(1, 1000, 40)))
"""Where the exact curves are computed."""
ENTRIES = 2_000_000


@dataclass(frozen=True, eq=False)
class Biases:
    """Norms of biases over norms of gradients, in m and in v, against L; exact and drawn, and the draws' noise."""

    objective: np.ndarray
    dlm: float
    exact: dict[str, np.ndarray]
    drawn: dict[str, np.ndarray]
    noise: dict[str, np.ndarray]


def counts(N: int, variance: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.linspace(0.0, 10.0, N)[:, None]
    K = SquaredExponential(variance, 1.0)(X) + 1e-9 * np.eye(N)
    f = np.linalg.cholesky(K) @ rng.standard_normal(N)
    return rng.poisson(np.exp(0.5 + f))


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def biases(y: np.ndarray, m: float, v: float, draws: int, seed: int) -> Biases:
    rng = np.random.default_rng(seed)
    distinct, where = np.unique(y, return_inverse=True)
    found = expected_gradients(MODEL, distinct[:, None], m, v, FINE)
    truth = [np.asarray(g)[where] for g in exact_gradient(MODEL, distinct, m, v)]
    objective = expected_objective(MODEL, distinct[:, None], m, v, FINE)[where].mean(axis=0)
    curves = {
        "mean": (found.sampled_by_mean, truth[0]),
        "variance": (found.sampled_by_variance, truth[1]),
        "curvature": (found.curvature, truth[1]),
    }
    exact = {
        name: np.array([relative(values[where, k], g) for k in range(FINE.size)])
        for name, (values, g) in curves.items()
    }
    goals = {"mean": 0, "variance": 1, "curvature": 1, "product mean": 0, "product variance": 1}
    drawn: dict[str, list[float]] = {name: [] for name in goals}
    noise: dict[str, list[float]] = {name: [] for name in goals}
    for L in tqdm(SIZES.tolist(), unit="size"):
        several, done = max(20, draws // L), 0
        sums = {name: np.zeros((2, y.size)) for name in goals}
        while done < several:
            now = min(several - done, max(1, ENTRIES // (L * y.size)))
            for name, g in estimates(y, m, v, L, now, rng).items():
                sums[name] += np.stack([g.sum(axis=0), (g * g).sum(axis=0)])
            done += now
        for name, which in goals.items():
            average = sums[name][0] / several
            spread = np.sqrt(np.maximum(sums[name][1] / several - average**2, 0.0).sum() / several)
            drawn[name].append(relative(average, truth[which]))
            noise[name].append(float(spread / np.linalg.norm(truth[which])))
    dlm = float(expected_objective(MODEL, distinct, m, v, np.inf)[where].mean())
    arrays = [{name: np.array(values) for name, values in part.items()} for part in (drawn, noise)]
    return Biases(objective, dlm, exact, arrays[0], arrays[1])


def estimates(
    y: np.ndarray, m: float, v: float, L: int, several: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """``several`` gradients of each kind from L samples a point; (several, N)."""
    q = sample_product(MODEL, y, m, v, L * several, rng).draws.reshape(L, several, y.size)
    ups = product_gradient(q, m, v)
    many = np.broadcast_to(y, (several, y.size))
    by_mean, by_variance = sampled_gradient(MODEL, many, m, v, L, rng)
    curvature = sampled_gradient(MODEL, many, m, v, L, rng, estimator="curvature")[1]
    return {
        "mean": by_mean,
        "variance": by_variance,
        "curvature": curvature,
        "product mean": ups[0],
        "product variance": ups[1],
    }


def picture(b: Biases, title: str) -> Any:
    canvas = figure(12.0, 5.2)
    headline(canvas, title)
    first, second, third = (axes(canvas, "", 131 + k) for k in range(3))
    lost = b.objective - b.dlm
    first.plot(FINE, lost, color=BLUE, linewidth=1.8)
    first.set_title("Objective: bias a data point, in nats", fontsize=TEXT, loc="left")
    first.plot([1], lost[:1], color=BLUE, marker="o", markersize=6, clip_on=False)
    first.annotate(
        "the ELBO's term", (1, lost[0]), xytext=(9, 0), textcoords="offset points", fontsize=TEXT, va="center"
    )
    first.plot(FINE, lost[-1] * FINE[-1] / FINE, color=BLACK, linewidth=1.2, linestyle=":")
    first.annotate(
        r"$\frac{\mathrm{Var}\,p}{2L\,(\mathrm{E}\,p)^2}$",
        (1.6, lost[-1] * FINE[-1] / 1.6),
        xytext=(-8, -52),
        textcoords="offset points",
        fontsize=TEXT + 3,
    )
    panels = (
        (second, "mean", "Gradient in the means: ‖bias‖ / ‖gradient‖", (("mean", "bMC", BLUE, "o"),)),
        (
            third,
            "variance",
            "Gradient in the variances: ‖bias‖ / ‖gradient‖",
            (("curvature", "bMC by φ'', as printed (8)", VERMILLION, "D"), ("variance", "bMC by φ'ε", BLUE, "o")),
        ),
    )
    for ax, which, name, rows in panels:
        for key, label, color, marker in rows:
            ax.plot(FINE, b.exact[key], color=color, linewidth=1.8, label=f"{label}: exact")
            ax.plot(SIZES, b.drawn[key], color=color, linestyle="none", marker=marker, markersize=5, label="drawn")
        ups, floor = b.drawn[f"product {which}"], b.noise[f"product {which}"]
        ax.plot(
            SIZES, ups, color=GREEN, linestyle="none", marker="s", markersize=5, label="uPS, exactly unbiased: drawn"
        )
        ax.plot(SIZES, floor, color="0.45", linewidth=1.2, linestyle="--", label="noise expected of uPS draws")
        ax.set_title(name, fontsize=TEXT, loc="left")
    for ax in (first, second, third):
        ax.set_xscale("log")
        ax.set_xlim(0.9, 1100)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_xlabel("Samples $L$", fontsize=TEXT + 1)
    handles, labels = third.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    return canvas


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=200, help="data (default %(default)s)")
    parser.add_argument("--variance", type=options.number, default=1.0, help="of the prior of f (default %(default)s)")
    parser.add_argument(
        "--draws", type=options.whole, default=20_000, help="samples a point behind each average (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="N = 40, 4000 samples")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/bmc_bias.png"))
    args = parser.parse_args(argv)
    N, draws = (40, 4000) if args.quick else (args.N, args.draws)
    y = counts(N, args.variance, args.seed)
    found = biases(y, 0.5, args.variance, draws, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    title = (
        f"Bias of L samples inside the logarithm, {N} counts y ~ Poisson(e^f), q(f) = N(0.5, {args.variance:g})\n"
        f"lines: exact; points: averages of drawn gradients, {draws:,} samples a data point for each L; "
        "uPS draws from q(f)p(y|f) exactly"
    )
    picture(found, title).savefig(args.out)
    one = float(bias(MODEL, y, 0.5, args.variance, 1).mean())
    print(f"objective: {found.dlm:.4f} at L = inf, {found.dlm + one:.4f} at L = 1, the ELBO's term")
    for L in (1, 10, 100, 1000):
        k = int(np.argmin(np.abs(FINE - L)))
        print(
            f"L = {L}: bias of the gradient in m {found.exact['mean'][k]:.3g}, in v {found.exact['variance'][k]:.3g}, ",
            end="",
        )
        print(f"in v by φ'' {found.exact['curvature'][k]:.3g} of its norm")
    print(args.out)


if __name__ == "__main__":
    main()
