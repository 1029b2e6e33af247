"""How far trained low-rank GPs are from the exact GP with their hyperparameters, under the bounds that we have.

    python examples/trained_divergence.py [--quick] [--N 500] [--out examples/output/trained_divergence.png]

Theorems 2 and 3 are those of paper 001.  For each rank a `fitting.LowRankGP` is trained on one data set with standard
normal inputs, D = 1.  At its kernel and noise, KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) on the training inputs is compared
with its bounds (delta = 5 %).

Left, Theorem 2 with its constants (N-rff): the features of the trained model; frequencies that are drawn anew after
training, plain and by leverage, median and range of several draws; and the bounds for both.  They are proved for the
new draws, as these do not depend on hyperparameters; for the model's own frequencies, to which hyperparameters were
fitted, they are not.  Above --most columns no model is trained: the hyperparameters are those of the largest one.
Middle, Theorem 3: Mercer features of the largest eigenvalues; the certificate from the diagonal of K - ΞΞᵀ (L-54),
which is proved for every kernel, trained or not; the a-priori bound (L-43), and as printed (Eq. 9).  Both need inputs
that do not depend on the kernel, which is not so here.  Right: Hilbert-space features, sines on 1.5 times the range of
the inputs, under the bound for any rows in the box (N-hilbert-kl), which is proved for hyperparameters that were
fitted, too.  The script counts ranks and draws above each bound.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import write
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP
from gpbounds import Gaussian
from gpbounds.cli import options
from gpbounds.lowrank import FourierFeatures, LeverageFourierFeatures, fourier_kl, kl_features, mercer_kl

DELTA, LOWEST = 0.05, 1e-10
NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """The numbers of one rank, in nats; nan where there is no such number.

    ``own`` belongs to the model's features.  Fourier: ``plain_…`` and ``leverage_…`` are those of new draws, and
    ``bound`` and ``leverage_bound`` their bounds.  Mercer: ``residual`` is the certificate, ``bound`` the a-priori
    bound, ``printed`` the paper's.  Hilbert space: ``bound`` is the one for any rows.
    """

    features: str
    rank: int
    variance: float
    lengthscale: float
    noise: float
    own: float
    bound: float
    printed: float = NAN
    residual: float = NAN
    plain: float = NAN
    plain_least: float = NAN
    plain_most: float = NAN
    leverage: float = NAN
    leverage_least: float = NAN
    leverage_most: float = NAN
    leverage_bound: float = NAN
    draws: int = 0
    violations: int = 0

    @property
    def compared(self) -> tuple[int, int]:
        """How many divergences were compared with a finite bound, and how many with an infinite one, always true."""
        bounds = [bound for bound in (self.bound, self.residual, self.leverage_bound) if not np.isnan(bound)]
        each, finite = max(self.draws // 2, 1), int(np.isfinite(bounds).sum())
        return finite * each, (len(bounds) - finite) * each


def data(N: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((N, 1))
    return X, np.sin(3.0 * X[:, 0]) + 0.5 * np.cos(7.0 * X[:, 0]) + 0.5 * rng.standard_normal(N)


def trained(name: str, rank: int, X: np.ndarray, y: np.ndarray) -> LowRankGP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        order = "best" if name == "mercer" else "degree"  # Mercer features alone have orders
        return LowRankGP(name, rank, order=order, start="scale", max_iter=100, random_state=rank).fit(X, y)


def mercer_row(rank: int, X: np.ndarray, y: np.ndarray) -> Row:
    model = trained("mercer", rank, X, y)
    known, kernel, noise = model.kl_bound_, model.kernel_, model.noise_
    settings: Any = {"inputs": Gaussian(), "noise": noise, "delta": DELTA}
    bound, printed = (float(mercer_kl(kernel, len(X), rank, form=form, **settings)) for form in ("sharpest", "printed"))
    violations = int(known.exact > float(known.residual)) + int(known.exact > bound)
    scale = float(np.asarray(kernel.lengthscale).reshape(-1)[0])
    return Row(
        "mercer", rank, kernel.variance, scale, noise, known.exact, bound, printed, float(known.residual),
        draws=1, violations=violations,
    )  # fmt: skip


def hilbert_row(rank: int, X: np.ndarray, y: np.ndarray) -> Row:
    model = trained("hilbert", rank, X, y)
    known, kernel = model.kl_bound_, model.kernel_
    assert known.prior is not None
    scale = float(np.asarray(kernel.lengthscale).reshape(-1)[0])
    bound, own = float(known.prior), float(known.exact)
    return Row(
        "hilbert", rank, kernel.variance, scale, model.noise_, own, bound, draws=1, violations=int(own > bound)
    )  # fmt: skip


def fourier_row(rank: int, model: LowRankGP, X: np.ndarray, draws: int, rng: np.random.Generator) -> Row:
    """The own divergence is nan for another rank than the model's."""
    kernel, noise, N, m = model.kernel_, model.noise_, len(X), rank // 2
    K, width = kernel(X), np.ptp(X, axis=0)
    bounds = {
        "plain": float(fourier_kl(kernel, N, m, noise=noise, delta=DELTA, features="classical")),
        "leverage": float(fourier_kl(kernel, N, m, noise=noise, delta=DELTA, width=width)),
    }
    found = {}
    for name in bounds:
        makers: Any = [
            FourierFeatures(kernel, rank, rng)
            if name == "plain"
            else LeverageFourierFeatures(kernel, rank, noise=noise, N=N, width=width, rng=rng)
            for _ in range(draws)
        ]
        found[name] = np.array([kl_features(K, features.fit(X)(X), noise=noise) for features in makers])
    own = model.kl_bound_.exact if rank == model.rank else None
    return Row(
        features="fourier",
        rank=rank,
        variance=kernel.variance,
        lengthscale=float(np.asarray(kernel.lengthscale).reshape(-1)[0]),
        noise=noise,
        own=NAN if own is None else own,
        bound=bounds["plain"],
        plain=float(np.median(found["plain"])),
        plain_least=float(found["plain"].min()),
        plain_most=float(found["plain"].max()),
        leverage=float(np.median(found["leverage"])),
        leverage_least=float(found["leverage"].min()),
        leverage_most=float(found["leverage"].max()),
        leverage_bound=bounds["leverage"],
        draws=2 * draws,
        violations=sum(int((found[name] > bound).sum()) for name, bound in bounds.items()),
    )


def picture(rows: Sequence[Row], N: int) -> Any:
    from gpbounds.plotting.elements import BLUE, GREEN, ORANGE, TEXT, VERMILLION, axes, figure, headline

    page = figure(18.0, 6.0)
    headline(page, f"KL of trained low-rank GPs from the exact GP with the same hyperparameters, N = {N}, in nats")
    lines: dict[str, dict[str, tuple[str, str, str]]] = {
        "fourier": {
            "own": ("the trained model", VERMILLION, "o-"),
            "plain": ("new frequencies, plain", BLUE, "-"),
            "leverage": ("new frequencies, by leverage", GREEN, "-"),
            "bound": ("bound for plain ones", BLUE, "--"),
            "leverage_bound": ("bound for those by leverage", GREEN, "--"),
        },
        "mercer": {
            "own": ("the trained model", VERMILLION, "o-"),
            "residual": ("certificate, proved after training", GREEN, "--"),
            "bound": ("a-priori bound", BLUE, "--"),
            "printed": ("a-priori bound as printed", ORANGE, ":"),
        },
        "hilbert": {
            "own": ("the trained model", VERMILLION, "o-"),
            "bound": ("bound for any rows, proved after training", GREEN, "--"),
        },
    }
    titles = {
        "fourier": "Fourier features, Theorem 2",
        "mercer": "Mercer features, Theorem 3",
        "hilbert": "Hilbert-space features, N-hilbert-kl",
    }
    for place, name in zip((131, 132, 133), lines, strict=True):
        part = [row for row in rows if row.features == name]
        r, ax = [row.rank for row in part], axes(page, "KL, nats", place)
        for key, (label, color, style) in lines[name].items():
            values = np.array([getattr(row, key) for row in part])
            label += ": infinite at these ranks" if np.isinf(values).all() else ""
            ax.plot(r, np.where(np.isfinite(values), values, np.nan), style, color=color, label=label, ms=4)
            if f"{key}_least" in Row.__annotations__:
                ends = ([getattr(row, f"{key}_{end}") for row in part] for end in ("least", "most"))
                ax.fill_between(r, *ends, color=color, alpha=0.2, lw=0)
        if name == "fourier":
            ax.set_xscale("log")
        least = np.array([(row.own, row.plain_least, row.leverage_least) for row in part])
        ax.set_ylim(bottom=max(LOWEST, 0.3 * float(np.nanmin(least))))
        ax.set_xlabel("Rank", fontsize=TEXT)
        ax.set_title(titles[name], loc="left", fontsize=TEXT + 1)
        ax.legend(fontsize=TEXT - 1, frameon=False)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--N", type=options.whole, default=500, help="number of points (default %(default)s)")
    parser.add_argument("--draws", type=options.whole, default=10, help="draws of frequencies (default %(default)s)")
    parser.add_argument("--most", type=options.whole, default=128, help="largest rank of a trained Fourier model")
    parser.add_argument("--quick", action="store_true", help="N = 80, few ranks")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/trained_divergence.png"))
    args = parser.parse_args(argv)
    N, most, last = (80, 32, 2**11) if args.quick else (args.N, args.most, 2**15)
    rng = np.random.default_rng(args.seed)
    X, y = data(N, rng)
    rows = [mercer_row(rank, X, y) for rank in tqdm(range(6, 20 if args.quick else 41, 2), unit="Mercer model")]
    rows += [hilbert_row(rank, X, y) for rank in tqdm(range(6, 20 if args.quick else 41, 2), unit="Hilbert model")]
    model = None
    for rank in tqdm([2**k for k in range(3, int(np.log2(last)) + 1)], unit="Fourier rank"):
        if rank <= most or model is None:
            model = trained("fourier", rank, X, y)
        rows.append(fourier_row(rank, model, X, args.draws if rank <= 4096 else 3, rng))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture(rows, N).savefig(args.out)
    write(args.out, [each.name for each in fields(Row)], [astuple(row) for row in rows])
    for name, what in (
        ("mercer", "bounds of models"),
        ("hilbert", "bounds of models"),
        ("fourier", "bounds of draws"),
    ):
        part = [row for row in rows if row.features == name]
        finite, infinite = (sum(row.compared[k] for row in part) for k in (0, 1))
        beside = f", beside {infinite} infinite ones" if infinite else ""
        print(f"{name}: {sum(r.violations for r in part)} violations of {finite} finite {what}{beside}")
    print(args.out)


if __name__ == "__main__":
    main()
