"""Proposition 4 of paper 001 against trained low-rank GPs: predictive divergences, covariances and means, and bounds.

    python examples/predictive_sandwich.py [--quick] [--N 300] [--resume] [--out FILE.png]

For each rank r a `fitting.LowRankGP` is trained on one data set; its kernel and noise then define both laws, the exact
GP P and the low-rank GP Q, at new inputs: N for training and 20 for testing, from N(0, I).  The proposition compares
one kernel with its approximation, and says nothing about two models that were trained by themselves.  It needs
hyperparameters and frequencies that do not depend on the data: inputs, targets and frequencies are drawn anew.  Each
rank has its own trained hyperparameters, so that curves are not smooth.

Left: KL(P‖Q) of all targets; its a-priori bound (delta = 5 %; that of Fourier features is infinite at these ranks);
the predictive KL(P(y*|y)‖Q(y*|y)) over draws of y from P, median and range; and its bound by Sec. 4.3 at eta = 5 %, as
printed (Gamma/eta) and as sharpened, from the exact Gamma.  Right: the extreme eigenvalues of the exact predictive
covariance in units of the low-rank one, between the roots b and t that the bound allows.  The script counts draws that
violate the bound on the divergence or on the means; at most 5 % may.  The CSV file beside the picture grows by each
rank; --resume continues from it.

Claims of the ledger: L-30, L-31, L-62, L-63.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import load, save
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP
from fitting.features import FeatureKernel, FourierMap, MercerMap
from gpbounds import Gaussian
from gpbounds.cli import options
from gpbounds.lowrank import fourier_kl, kl_features, mercer_kl
from gpbounds.sandwich import predictive

ETA = DELTA = 0.05
TESTS = 20
LOWEST = 1e-12
"""Lower edge of the pictures of divergences, in nats; below about 1e-20 rounding decides."""

CASES = (("mercer", 1), ("fourier", 1), ("mercer", 2))
TITLES = {"mercer": "Mercer", "fourier": "Fourier"}


@dataclass(frozen=True)
class Row:
    """The numbers of one rank."""

    features: str
    dim: int
    rank: int
    N: int
    seed: int
    variance: float
    lengthscale: float
    noise: float
    joint: float
    prior: float
    median: float
    least: float
    greatest: float
    mean: float
    mean_bound: float
    bound: float
    printed: float
    eigen_low: float
    eigen_high: float
    low: float
    high: float
    distance: float
    distance_bound: float
    violations: int
    draws: int


def trained(name: str, dim: int, rank: int, N: int, rng: np.random.Generator) -> LowRankGP:
    """A low-rank GP, trained on data of its own: a smooth function with noise."""
    X = rng.standard_normal((N, dim))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(X @ np.arange(1.0, dim + 1.0)) + 0.3 * rng.standard_normal(N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        order = "best" if name == "mercer" else "degree"
        return LowRankGP(name, rank, order=order, start="scale", max_iter=60, random_state=0).fit(X, y)


def conditional(S: np.ndarray, N: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrix A with mean A·y, and the covariance, of the last entries given the first N."""
    gain = cho_solve(cho_factor(S[:N, :N]), S[:N, N:]).T
    return gain, S[N:, N:] - gain @ S[:N, N:]


def row(name: str, dim: int, rank: int, N: int, draws: int, seed: int) -> Row:
    rng = np.random.default_rng([seed, CASES.index((name, dim)), rank])
    model = trained(name, dim, rank, N, rng)
    kernel, noise = model.kernel_, model.noise_
    X = rng.standard_normal((N + TESTS, dim))
    if name == "mercer":
        features: Any = MercerMap.chosen(kernel, rank, "best", np.zeros(dim), np.ones(dim))
        prior = mercer_kl(kernel, len(X), rank, inputs=Gaussian(dim=dim), noise=noise, delta=DELTA)
    else:
        features = FourierMap.drawn(kernel, rank, X, rng)
        prior = fourier_kl(kernel, len(X), rank // 2, noise=noise, delta=DELTA, features="classical")
    Xi = FeatureKernel(features, kernel.log_parameters).features(kernel.log_parameters, X)
    K = kernel(X)
    exact, low_rank = K + noise * np.eye(len(X)), Xi @ Xi.T + noise * np.eye(len(X))
    joint = kl_features(K, Xi, noise=noise)
    train = kl_features(K[:N, :N], Xi[:N], noise=noise)
    stated = predictive(joint, ETA)
    (A1, S1), (A2, S2) = conditional(exact, N), conditional(low_rank, N)
    values = eigh(S1, S2, eigvals_only=True)
    drawn = np.linalg.cholesky(exact[:N, :N]) @ rng.standard_normal((N, draws))
    shift = (A1 - A2) @ drawn
    distance = np.sqrt(np.einsum("ij,ij->j", shift, cho_solve(cho_factor(S2), shift)))
    kl = 0.5 * (values - 1.0 - np.log(values)).sum() + 0.5 * distance**2
    sandwich = stated.sandwich
    broken = (kl > float(stated.kl)) | (distance > float(sandwich.mean))
    inside = values[0] >= float(sandwich.low) and values[-1] <= float(sandwich.high)
    return Row(
        features=name,
        dim=dim,
        rank=rank,
        N=N,
        seed=seed,
        variance=kernel.variance,
        lengthscale=float(np.asarray(kernel.lengthscale).reshape(-1)[0]),
        noise=noise,
        joint=joint,
        prior=float(prior),
        median=float(np.median(kl)),
        least=float(kl.min()),
        greatest=float(kl.max()),
        mean=float(kl.mean()),
        mean_bound=joint - train,
        bound=float(stated.kl),
        printed=float(predictive(joint, ETA, form="printed").kl),
        eigen_low=float(values[0]),
        eigen_high=float(values[-1]),
        low=float(sandwich.low),
        high=float(sandwich.high),
        distance=float(distance.max()),
        distance_bound=float(sandwich.mean),
        violations=int(broken.sum()) if inside else draws,
        draws=draws,
    )


def job_of(each: Row) -> tuple[str, int, int, int, int, int]:
    """The arguments of `row` that give this record."""
    return each.features, each.dim, each.rank, each.N, each.draws, each.seed


def picture(rows: Sequence[Row]) -> Any:
    from gpbounds.plotting.elements import BLUE, GREEN, ORANGE, TEXT, VERMILLION, axes, figure, headline

    page = figure(13.0, 12.5)
    headline(page, "Exact and low-rank predictions with the same trained hyperparameters, and what Prop. 4 guarantees")
    for line, (name, dim) in enumerate(CASES):
        part = [each for each in rows if (each.features, each.dim) == (name, dim)]
        r = [each.rank for each in part]
        left, right = axes(page, "KL, nats", 321 + 2 * line), axes(page, "eigenvalue", 322 + 2 * line)
        series = {
            "all targets: a-priori bound": ([each.prior for each in part], ORANGE, "-."),
            "all targets: KL": ([each.joint for each in part], VERMILLION, "-"),
            "predictive: bound as printed": ([each.printed for each in part], GREEN, ":"),
            "predictive: bound": ([each.bound for each in part], GREEN, "--"),
            "predictive: KL, median and range": ([each.median for each in part], BLUE, "-"),
        }
        for label, (values, color, style) in series.items():
            shown = [value if np.isfinite(value) else np.nan for value in values]
            left.plot(r, shown, style, color=color, label=label if np.isfinite(values).any() else f"{label} (infinite)")
        left.fill_between(r, [e.least for e in part], [e.greatest for e in part], color=BLUE, alpha=0.2, lw=0)
        left.set_ylim(bottom=max(LOWEST, 0.3 * min(each.least for each in part)))
        bounds = [each.low for each in part], [each.high for each in part]
        right.fill_between(r, *bounds, color=GREEN, alpha=0.15, lw=0, label="allowed: b to t")
        for values in ([each.eigen_low for each in part], [each.eigen_high for each in part]):
            right.plot(r, values, "-", color=BLUE)
        right.plot([], [], "-", color=BLUE, label="least and greatest eigenvalue")
        right.set_ylim(0.3 * min(e.eigen_low for e in part), 30.0 * max(e.eigen_high for e in part))
        for ax in (left, right):
            ax.set_xlabel("Rank", fontsize=TEXT)
            ax.set_title(f"{TITLES[name]} features, D = {dim}", loc="left", fontsize=TEXT + 1)
            ax.legend(fontsize=TEXT - 2, frameon=False)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=300, help="number of training points (default %(default)s)")
    parser.add_argument("--draws", type=options.whole, default=200, help="draws of y (default %(default)s)")
    parser.add_argument(
        "--ranks", type=options.whole, nargs="+", default=list(range(8, 50, 4)), help="default: 8, 12, …, 48"
    )
    parser.add_argument("--quick", action="store_true", help="N = 80, five ranks")
    parser.add_argument("--seed", type=options.whole, default=0, help="default %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep the ranks in the CSV file, and add the others")
    parser.add_argument(
        "--out",
        type=options.picture_file,
        default=Path("examples/output/predictive_sandwich.png"),
        help="picture (default %(default)s)",
    )
    args = parser.parse_args(argv)
    N = 80 if args.quick else args.N
    ranks = [8, 12, 16, 24, 40] if args.quick else args.ranks
    stored = args.out.with_suffix(".csv")
    stored.parent.mkdir(parents=True, exist_ok=True)
    jobs = [(name, dim, rank, N, args.draws, args.seed) for name, dim in CASES for rank in ranks]
    records = load(stored, Row) if args.resume else []
    there = {job_of(each) for each in records}
    for job in tqdm([job for job in jobs if job not in there], unit="model"):
        records.append(row(*job))
        save(stored, records)
    by_job = {job_of(each): each for each in records}
    rows = [by_job[job] for job in jobs]
    picture(rows).savefig(args.out)
    for name, dim in CASES:
        part = [each for each in rows if (each.features, each.dim) == (name, dim)]
        total, broken = sum(each.draws for each in part), sum(each.violations for each in part)
        verdict = "holds" if broken <= ETA * total else "FAILS"
        print(f"{TITLES[name]}, D = {dim}: {broken} of {total} draws violate a bound (allowed {ETA:.0%}): {verdict}")
    print(args.out)


if __name__ == "__main__":
    main()
