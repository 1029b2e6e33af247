"""Which order α should a Rényi GP have?  Mean errors of the prior, and of trained models.

    python examples/which_order.py [--quick] [--out examples/output/which_order.png]

Left: the expected squared error of the posterior mean of order α over that of order 1 (VFE), kernel, noise and
inducing points fixed and right, y and f drawn from the prior.  Nothing is sampled: the errors are traces.  At the rows
(solid) they fall in α, as is proved for any kernel, rows and inducing points; at new rows of the same law (dashed) they
fall here, too; at inputs that only the inducing variables tie to the rows (dotted) they grow, as is proved, too.

Right: trained models, RMSE of each order over that of the exact GP of the same split, from the CSV file of
`renyi_study.py orders` (bike_hourly, 300 training rows, M = 50): means over the splits and their 95 % intervals.  There
α also changes which kernel and noise are trained, and this has its optimum between the ends.

Claims of the ledger: N-order-error, N-conc.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gpbounds.cli import options
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.plotting import BLUE, GREEN, ORANGE, PURPLE, TEXT
from gpbounds.plotting.elements import axes, figure, headline

TRAINED = Path(__file__).parent / "results" / "renyi_orders.csv"
SETTINGS: tuple[tuple[str, Kernel, int, int, int, str], ...] = (
    ("Matérn-3/2, D = 1, 200 rows, M = 12", Matern(1.5, lengthscale=0.1), 1, 200, 12, BLUE),
    ("Matérn-3/2, D = 4, 200 rows, M = 30", Matern(1.5, lengthscale=0.5), 4, 200, 30, GREEN),
    ("squared exponential, D = 4, 60 rows, M = 30", SquaredExponential(lengthscale=0.5), 4, 60, 30, ORANGE),
)
NOISE = 0.1


def mean_errors(K: np.ndarray, Q: np.ndarray, alpha: float, A: np.ndarray, cross: np.ndarray) -> float:
    """tr[A G K_n G Aᵀ] − 2 tr[A G K_f*], G = (σ²I + (1−α)K + αQ)⁻¹: the error of α without tr K_**, which α leaves."""
    noise = NOISE * np.eye(len(K))
    AG = cho_solve(cho_factor(noise + (1.0 - alpha) * K + alpha * Q), A.T).T
    return float(np.sum((AG @ (K + noise)) * AG) - 2.0 * np.sum(AG * cross))


def curves(kernel: Kernel, D: int, N: int, M: int, alphas: np.ndarray, seed: int) -> np.ndarray:
    """Errors over that of order 1, at the rows, at new rows, and at inputs tied by U alone: (3, orders)."""
    rng = np.random.default_rng(seed)
    X, new = rng.random((N, D)), rng.random((400, D))
    Z = X[rng.choice(N, M, replace=False)]
    K, Kuu = kernel(X), kernel(Z)
    weights = np.linalg.solve(Kuu, kernel(Z, X))
    Q, A = kernel(X, Z) @ weights, kernel(new, Z) @ weights
    variance, tied = N * kernel.variance, np.sum((kernel(new, Z) @ np.linalg.inv(Kuu)) * kernel(new, Z))
    lines = []
    for own, rows, cross in ((variance, Q, K), (400 * kernel.variance, A, kernel(new, X)), (tied, A, A)):
        errors = own + np.array([mean_errors(K, Q, alpha, rows, cross) for alpha in alphas])
        lines.append(errors / errors[-1])
    return np.array(lines)


def trained(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orders, mean ratios of RMSE to the exact GP's of the same split, halves of their 95 % intervals; α = 1 is SGP."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    exact = {row["seed"]: float(row["RMSE"]) for row in rows if row["method"] == "EGP"}
    ratios: dict[float, list[float]] = {}
    for row in rows:
        if row["method"] in ("Rényi", "SGP"):
            order = float(row["order"]) if row["method"] == "Rényi" else 1.0
            ratios.setdefault(order, []).append(float(row["RMSE"]) / exact[row["seed"]])
    orders = np.array(sorted(ratios))
    means = np.array([np.mean(ratios[order]) for order in orders])
    halves = np.array([1.96 * np.std(ratios[order], ddof=1) / np.sqrt(len(ratios[order])) for order in orders])
    return orders, means, halves


def picture(quick: bool) -> Any:
    page = figure(10.0, 4.2)
    headline(page, "No order between the ends is best at fixed parameters; trained parameters are another matter")
    left = axes(page, "expected error / that of VFE", 121, scale="linear")
    right = axes(page, "RMSE / that of the exact GP", 122, scale="linear")
    alphas = np.concatenate([np.linspace(0.0, 0.9, 4 if quick else 19), [0.95, 0.98, 1.0]])
    for label, kernel, D, N, M, color in SETTINGS:
        some = np.mean([curves(kernel, D, N, M, alphas, seed) for seed in range(1 if quick else 10)], axis=0)
        print(f"{label}: errors of orders 0, {alphas[len(alphas) // 2]:.2g}, 1 over that of order 1")
        for line, where, style in zip(
            some, ("at the rows", "at new rows", "tied by U alone"), ("-", "--", ":"), strict=True
        ):
            left.plot(alphas, line, style, color=color, linewidth=1.6, label=label if style == "-" else None)
            print(f"  {where:16} {line[0]:.3f}  {line[len(line) // 2]:.3f}  {line[-1]:.3f}")
    left.set_xlabel("order α", fontsize=TEXT)
    left.set_title("prior: error over VFE's; rows (—), new rows (- -), tied (···)", fontsize=TEXT, loc="left")
    left.legend(fontsize=TEXT - 1, frameon=False, loc=(0.01, 0.17))
    orders, means, halves = trained(TRAINED)
    right.errorbar(orders, means, halves, color=PURPLE, marker="o", markersize=3, capsize=2, linewidth=1.4)
    right.axhline(1.0, color="0.4", linewidth=0.8)
    right.set_xlabel("order α (1 is VFE)", fontsize=TEXT)
    right.set_title("bike_hourly, trained: RMSE over the exact GP's", fontsize=TEXT, loc="left")
    best = int(np.argmin(means))
    print(f"trained: least mean ratio {means[best]:.3f} at α = {orders[best]:.2g}; at α = 1 {means[-1]:.3f}")
    return page


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="one draw of rows, seven orders: seconds")
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/which_order.png"))
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments().parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(args.quick).savefig(args.out)
    print(args.out)


if __name__ == "__main__":
    main()
