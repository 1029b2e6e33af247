"""The bias of biased Monte Carlo gradients against exact product sampling (Fig. 1 g, h of paper 004, simulated counts).

    python examples/bmc_bias.py [--quick] [--N 200] [--draws 20000] [--out examples/output/bmc_bias.png]

The data are counts y ~ Poisson(e^f) with f from a GP on a line.  The approximate posterior N(m_i, v_i) of each f_i is
the prior, as at the start of a fit.  Left, the objective: the mean over the data of E[-log(mean of L samples)], which
is the ELBO's term at L = 1 and falls to the direct loss as L grows.  Middle and right, the gradient of -sum log E p in
all m_i and in all v_i: the norm of the bias, divided by the norm of the exact gradient.  Lines are exact (integral
D-21); points are averages of drawn gradients, and the grey line shows their own noise.  uPS draws exactly from
N(m, v) p(y|f) and has no bias.

Claims of the ledger: D-21, D-22, N-bmc-price.
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
"""Values of L at which gradients are drawn."""
FINE = np.unique(np.rint(np.geomspace(1, 1000, 40)))
"""Values of L at which the exact curves are computed."""
ENTRIES = 2_000_000


@dataclass(frozen=True, eq=False)
class Biases:
    """Relative norms of the biases in m and in v against L: exact, drawn, and the noise of the draws."""

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


def relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def biases(y: np.ndarray, m: float, v: float, draws: int, seed: int) -> Biases:
    rng = np.random.default_rng(seed)
    distinct, where = np.unique(y, return_inverse=True)
    expected = expected_gradients(MODEL, distinct[:, None], m, v, FINE)
    truth = [np.asarray(g)[where] for g in exact_gradient(MODEL, distinct, m, v)]
    objective = expected_objective(MODEL, distinct[:, None], m, v, FINE)[where].mean(axis=0)
    curves = {
        "mean": (expected.sampled_by_mean, truth[0]),
        "variance": (expected.sampled_by_variance, truth[1]),
        "curvature": (expected.curvature, truth[1]),
    }
    exact = {
        name: np.array([relative(values[where, k], g) for k in range(FINE.size)])
        for name, (values, g) in curves.items()
    }
    components = {"mean": 0, "variance": 1, "curvature": 1, "product mean": 0, "product variance": 1}
    drawn: dict[str, list[float]] = {name: [] for name in components}
    noise: dict[str, list[float]] = {name: [] for name in components}
    for L in tqdm(SIZES.tolist(), unit="size"):
        repetitions, done = max(20, draws // L), 0
        sums = {name: np.zeros((2, y.size)) for name in components}
        while done < repetitions:
            batch = min(repetitions - done, max(1, ENTRIES // (L * y.size)))
            for name, g in estimates(y, m, v, L, batch, rng).items():
                sums[name] += np.stack([g.sum(axis=0), (g * g).sum(axis=0)])
            done += batch
        for name, component in components.items():
            average = sums[name][0] / repetitions
            spread = np.sqrt(np.maximum(sums[name][1] / repetitions - average**2, 0.0).sum() / repetitions)
            drawn[name].append(relative(average, truth[component]))
            noise[name].append(float(spread / np.linalg.norm(truth[component])))
    dlm = float(expected_objective(MODEL, distinct, m, v, np.inf)[where].mean())
    arrays = [{name: np.array(values) for name, values in part.items()} for part in (drawn, noise)]
    return Biases(objective, dlm, exact, arrays[0], arrays[1])


def estimates(
    y: np.ndarray, m: float, v: float, L: int, repetitions: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """``repetitions`` gradients of each kind, from L samples per point; (repetitions, N)."""
    q = sample_product(MODEL, y, m, v, L * repetitions, rng).draws.reshape(L, repetitions, y.size)
    ups = product_gradient(q, m, v)
    repeated = np.broadcast_to(y, (repetitions, y.size))
    by_mean, by_variance = sampled_gradient(MODEL, repeated, m, v, L, rng)
    curvature = sampled_gradient(MODEL, repeated, m, v, L, rng, estimator="curvature")[1]
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
    excess = b.objective - b.dlm
    first.plot(FINE, excess, color=BLUE, linewidth=1.8)
    first.set_title("Objective: bias per data point, in nats", fontsize=TEXT, loc="left")
    first.plot([1], excess[:1], color=BLUE, marker="o", markersize=6, clip_on=False)
    first.annotate(
        "the ELBO's term", (1, excess[0]), xytext=(9, 0), textcoords="offset points", fontsize=TEXT, va="center"
    )
    first.plot(FINE, excess[-1] * FINE[-1] / FINE, color=BLACK, linewidth=1.2, linestyle=":")
    first.annotate(
        r"$\frac{\mathrm{Var}\,p}{2L\,(\mathrm{E}\,p)^2}$",
        (1.6, excess[-1] * FINE[-1] / 1.6),
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
    parser.add_argument("--N", type=options.whole, default=200, help="number of data (default %(default)s)")
    parser.add_argument(
        "--variance", type=options.number, default=1.0, help="variance of the prior of f (default %(default)s)"
    )
    parser.add_argument(
        "--draws", type=options.whole, default=20_000, help="samples per point in each average (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="N = 40, 4000 samples")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/bmc_bias.png"))
    args = parser.parse_args(argv)
    N, draws = (40, 4000) if args.quick else (args.N, args.draws)
    y = counts(N, args.variance, args.seed)
    results = biases(y, 0.5, args.variance, draws, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    title = (
        f"Bias of L samples inside the logarithm, {N} counts y ~ Poisson(e^f), q(f) = N(0.5, {args.variance:g})\n"
        f"lines: exact; points: averages of drawn gradients, {draws:,} samples per data point for each L; "
        "uPS draws from q(f)p(y|f) exactly"
    )
    picture(results, title).savefig(args.out)
    elbo_bias = float(bias(MODEL, y, 0.5, args.variance, 1).mean())
    print(f"objective: {results.dlm:.4f} at L = inf, {results.dlm + elbo_bias:.4f} at L = 1 (the ELBO's term)")
    for L in (1, 10, 100, 1000):
        k = int(np.argmin(np.abs(FINE - L)))
        print(
            f"L = {L}: relative bias of the gradient in m {results.exact['mean'][k]:.3g}, "
            f"in v {results.exact['variance'][k]:.3g}, in v by φ'' {results.exact['curvature'][k]:.3g}"
        )
    print(args.out)


if __name__ == "__main__":
    main()
