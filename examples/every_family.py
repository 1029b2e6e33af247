"""Every family of bounds beside a trained model on real data: nine panels, one figure.

    python examples/every_family.py [--quick] [--only FAMILY ...] [--rows 500] [--folder FOLDER] [--resume]
    python examples/every_family.py --draw      # the picture of the stored numbers

Each model is trained, hyperparameters included, on --rows random rows of a table; the bounds are those for its kernel
and noise, and the truth is computed by Cholesky factors.  Which bounds are proved for fitted hyperparameters differs:

traces    k-DPPs of the kernel that VFE fits to elevators (all inputs): Tr(K - Q), which R-lem3 bounds given the rows.
vfe       KL of the trained VFE for each M, and of the best of ten draws for its kernel, which N-tilt-given bounds given
          rows and y; the floor of N-low is for any inducing variables.  The model's own Z is no draw: no theorem of
          draws is about it, but training from the draws could only lower their KL.
renyi     the same for the Rényi GP of order 1/2.
mercer    house values of cal_housing by income and age: the certificate from the diagonal of K - ΞΞᵀ (L-54) is proved
          after training; the a-priori bound (L-43) is for inputs drawn from the normal law of the features, which these
          rows are not.
fourier   frequencies drawn by leverage for the trained kernel: N-rff holds for any rows of their box.
hilbert   N-hilbert-kl, for any rows of the box, after training; two boundary factors.
predictions   test rows under Prop. 4: VFE's means and variances of f beside the exact ones, by its own KL (given y);
          Mercer features by Sec. 4.3 at eta = 5 %, which is about y drawn from the exact GP, and these y are not.
pac       elevators, scaled by rows apart: bound and Gibbs risks of kl-PAC-SGP (P-14), which holds with probability .99
          for rows that are a sample.
samples   test loss of direct loss minimisation by bMC less that of exact gradients (`dlm_sampling.py` stores it), and
          the numbers of samples that Corollary 5 asks for on abalone (D-42, D-50, N-cher).

Divergences are in nats a row.  The CSV file beside the picture holds every number drawn, and the script counts the
truths above their bounds.

Claims of the ledger: N-tilt-given, N-given, N-low, R-lem3, L-54, N-rff, N-hilbert-kl, L-30, L-31, P-14, D-42.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bound_vs_trained import bracket
from dlm_setting import load as stored
from dlm_setting import save
from family_panels import FAMILIES, Line, picture, verdicts
from kdpp_trace import traces
from predictive_sandwich import ETA, conditional
from regression_sets import UCI
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP, RenyiGP, SparseGP, SparsePACGP
from fitting.features import Hilbert
from fitting.study.standardised import load, standardise
from gpbounds import Empirical, SquaredExponential, kdpp, rate, renyi, validation
from gpbounds.cli import options
from gpbounds.linalg import eigen
from gpbounds.lowrank import LeverageFourierFeatures, fourier_kl, kl_features
from gpbounds.pacbayes import HyperGrid
from gpbounds.sandwich import predictive, sandwich

DELTA = 0.05
LOSSES = Path(__file__).parent / "results" / "dlm_sampling.csv"
SPARSE, MERCER = (8, 16, 32, 64, 128, 256), (4, 6, 9, 12, 16, 20, 25, 30)
FOURIER, MOST = (128, 512, 2048, 8192), 2**16
"""Ranks whose divergences are computed, and the last one with a bound."""
HILBERT = {1.5: (3, 4, 6, 8, 12), 3.0: (3, 4, 6, 8, 12)}
"""Sines in each of two dimensions, for two boundary factors."""
PAC, ACCURACY, CONFIDENCE = (5, 10, 20, 40, 80), 0.6, 0.01


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised rows of training and of test."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray

    @property
    def N(self) -> int:
        return len(self.y)

    @property
    def start(self) -> SquaredExponential:
        D = self.X.shape[1]
        return SquaredExponential(1.0, np.sqrt(D) * np.ones(D))


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    rows: int
    tests: int
    draws: int
    steps: int
    seed: int
    quick: bool

    def few(self, numbers: Sequence[int]) -> Sequence[int]:
        return numbers[:2] if self.quick else numbers


def rows_of(folder: Path, name: str, columns: Sequence[str], sizes: Sizes) -> Rows:
    """Random rows of a table, some or all columns, scaled by those of training."""
    whole = load(folder / f"{name}.csv.gz")
    order = np.random.default_rng(sizes.seed).permutation(whole.N)
    chosen = [whole.columns.index(column) for column in columns] if columns else list(range(whole.D))
    train, test = order[: sizes.rows], order[sizes.rows : sizes.rows + sizes.tests]
    part = standardise(name, whole.X[np.ix_(train, chosen)], whole.y[train])
    X_test = (whole.X[np.ix_(test, chosen)][:, list(part.kept)] - part.shifts) / part.scales
    label = f"{name}, {' and '.join(columns)}" if columns else f"{name}, {part.D} inputs"
    return Rows(label, part.X, part.y, X_test)


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Every bound here holds wherever training stops."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def sparse_model(part: Rows, alpha: float, M: int, sizes: Sizes) -> Any:
    about: dict[str, Any] = {"n_inducing": M, "max_iter": sizes.steps, "random_state": sizes.seed}
    if alpha == 1.0:
        return fitted(SparseGP("vfe", part.start, 0.5, **about), part.X, part.y)
    return fitted(RenyiGP(alpha, part.start, 0.5, **about), part.X, part.y)


def of_traces(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Shares of Tr K that draws leave, with the kernel of the VFE of 64 points."""
    part = rows_of(folder, "elevators", (), sizes)
    kernel = sparse_model(part, 1.0, SPARSE[3] if not sizes.quick else 10, sizes).kernel_
    measured = traces(
        part.name, kernel, part.X, 4 if sizes.quick else 10, sizes.draws, np.random.default_rng(sizes.seed)
    )
    line = Line("traces", part.name, "", 0.0, 0, part.N, np.nan, np.nan)
    for j, M in enumerate(measured.M):
        if np.isin(M, np.rint(np.geomspace(1, measured.M[-1], 60))) or np.isin(M, measured.sizes):
            for what, values in (("exact mean", measured.mean), ("bound", measured.sharp)):
                yield replace(line, what=what, x=float(M), upper=float(values[j]))
            yield replace(line, what="floor", x=float(M), lower=float(measured.optimum[j]))
    for draw, row in enumerate(measured.drawn):
        for M, value in zip(measured.sizes, row, strict=True):
            yield replace(line, what="k-DPP draw", x=float(M), draw=draw, lower=float(value), upper=float(value))


def of_sparse(folder: Path, sizes: Sizes, alpha: float) -> Iterator[Line]:
    """Divergences of trained models and of draws for their kernels, with bounds; at α = 1 predictions, too."""
    part = rows_of(folder, "elevators", (), sizes)
    N = part.N
    for M in tqdm(sizes.few(SPARSE), desc=f"sparse, order {alpha:g}", unit="model"):
        model = sparse_model(part, alpha, M, sizes)
        kernel, noise = model.kernel_, float(model.noise_)
        line = Line("vfe" if alpha == 1.0 else "renyi", part.name, "", M, 0, N, np.nan, np.nan)
        about: dict[str, Any] = {"inputs": Empirical(part.X), "noise": noise, "delta": DELTA}
        tight = rate(kernel, N, M, alpha, y=part.y, draws=10, **about)
        loose = rate(kernel, N, M, alpha, y_norm2=float(part.y @ part.y), **about)
        spectrum = eigen(kernel(part.X), "k(X, X)")
        certain = np.maximum(spectrum.values - spectrum.rounding, 0.0)
        yield replace(line, what="bound, given y, best of ten draws", upper=float(tight) / N)
        yield replace(line, what="bound, one draw, any y", upper=float(loose) / N)
        yield replace(line, what="floor", lower=float(renyi.minimum_gap(certain, M, alpha, noise=noise)) / N)
        low, high = bracket(part, kernel, noise, alpha, np.asarray(model.inducing_))  # type: ignore[arg-type]
        yield replace(line, what="trained", lower=low / N, upper=high / N)
        for draw in range(sizes.draws // 3):
            rng = np.random.default_rng([sizes.seed, M, draw])
            drawn = kdpp.select(kernel, part.X, M, "best", rng, y=part.y, noise=noise, alpha=alpha, draws=10)
            ends = bracket(part, kernel, noise, alpha, drawn.Z)  # type: ignore[arg-type]
            yield replace(line, what="best of ten draws", draw=draw, lower=ends[0] / N, upper=ends[1] / N)
        if alpha == 1.0:
            yield from sparse_predictions(part, kernel, noise, np.asarray(model.inducing_), high)


def sparse_predictions(part: Rows, kernel: Any, noise: float, Z: np.ndarray, gap: float) -> Iterator[Line]:
    """Latent predictions at test rows, in units of the exact ones, and their ends by KL ≤ ``gap``."""
    mean, variance = renyi.predict(kernel, part.X, part.y, Z, part.X_test, 1.0, noise=noise)
    factor = cho_factor(kernel(part.X) + noise * np.eye(part.N), lower=True)
    cross = kernel(part.X, part.X_test)
    solved = cho_solve(factor, cross)
    exact = kernel.diag(part.X_test) - np.einsum("ij,ij->j", cross, solved)
    ends = sandwich(gap)
    line = Line("predictions", "VFE, elevators", "", len(Z), 0, part.N, np.nan, np.nan)
    yield from _beside(line, (mean - solved.T @ part.y) / np.sqrt(exact), variance / exact, ends)


def _beside(line: Line, shifts: np.ndarray, ratios: np.ndarray, ends: Any) -> Iterator[Line]:
    yield replace(line, what="means", lower=0.0, upper=float(np.abs(shifts).max()))
    yield replace(line, what="bound, means", upper=float(ends.mean))
    yield replace(line, what="variances", lower=float(ratios.min()), upper=float(ratios.max()))
    yield replace(line, what="bound, variances", lower=float(ends.low), upper=float(ends.high))


def of_mercer(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Divergences and predictions of trained Mercer features."""
    part = rows_of(folder, "cal_housing", ("income", "age"), sizes)
    N, both = part.N, np.vstack([part.X, part.X_test])
    for rank in tqdm(sizes.few(MERCER), desc="Mercer", unit="model"):
        about: dict[str, Any] = {"order": "best", "start": "scale", "max_iter": sizes.steps}
        model = fitted(LowRankGP("mercer", rank, random_state=sizes.seed, **about), part.X, part.y)
        known, noise = model.kl_bound_, float(model.noise_)
        line = Line("mercer", part.name, "", rank, 0, N, np.nan, np.nan)
        yield replace(line, what="trained", lower=known.exact / N, upper=known.exact / N)
        yield replace(line, what="bound, after training", upper=float(known.residual) / N)
        if known.prior is not None:
            yield replace(line, what="bound, a priori", upper=float(known.prior) / N)
        kernel = model.feature_kernel_
        K, Xi = model.kernel_(both), kernel.features(kernel.parameters, both)
        exact, low_rank = K + noise * np.eye(len(both)), Xi @ Xi.T + noise * np.eye(len(both))
        (A1, S1), (A2, S2) = conditional(exact, N), conditional(low_rank, N)
        ends = predictive(kl_features(K, Xi, noise=noise), ETA).sandwich
        at = replace(line, family="predictions", model="Mercer, cal_housing")
        yield from _beside(at, (A1 - A2) @ part.y / np.sqrt(np.diag(S2)), np.diag(S1) / np.diag(S2), ends)


def of_fourier(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Frequencies drawn by leverage for trained kernels of one, two and all inputs of tables."""
    tables = (("cal_housing", ("income",)), ("cal_housing", ("income", "age")), ("elevators", ()))
    for name, columns in tables:
        part = rows_of(folder, name, columns, sizes)
        N, width = part.N, np.ptp(part.X, axis=0)
        start = LowRankGP("fourier", FOURIER[0], start="scale", max_iter=sizes.steps, random_state=sizes.seed)
        model = fitted(start, part.X, part.y)
        kernel, noise = model.kernel_, float(model.noise_)
        line = Line("fourier", part.name, "", 0.0, 0, N, np.nan, np.nan)
        ranks = np.unique(2 * np.rint(0.5 * np.geomspace(FOURIER[0], MOST, 19)).astype(int))
        for rank in sorted({*ranks.tolist(), *FOURIER}):
            bound = float(fourier_kl(kernel, N, rank // 2, noise=noise, delta=DELTA, width=width))
            yield replace(line, what="bound", x=rank, upper=bound / N)
        K = kernel(part.X)
        for rank in tqdm(sizes.few(FOURIER), desc=part.name, unit="rank"):
            for draw in range(max(sizes.draws // 2, 1)):
                rng = np.random.default_rng([sizes.seed, rank, draw])
                features = LeverageFourierFeatures(kernel, rank, noise=noise, N=N, width=width, rng=rng).fit(part.X)
                value = kl_features(K, features(part.X), noise=noise) / N
                yield replace(line, what="new draw", x=rank, draw=draw, lower=value, upper=value)


def of_hilbert(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Divergences of trained Hilbert-space GPs."""
    part = rows_of(folder, "cal_housing", ("income", "age"), sizes)
    for c, numbers in HILBERT.items():
        for m in tqdm(sizes.few(numbers), desc=f"Hilbert, c = {c:g}", unit="model"):
            model = fitted(LowRankGP(Hilbert((m, m), c), max_iter=sizes.steps, random_state=0), part.X, part.y)
            known = model.kl_bound_
            line = Line("hilbert", f"c = {c:g}", "trained", m * m, 0, part.N, np.nan, np.nan)
            yield replace(line, lower=known.exact / part.N, upper=known.exact / part.N)
            yield replace(line, what="bound, after training", upper=float(known.prior) / part.N)


def of_pac(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Bound, and Gibbs risks at rows of training and of test, of several splits."""
    from pac_settings import RIGOROUS, figures, split, table

    X, y = table(folder / "elevators.csv.gz", "elevators")
    grid, kernel = HyperGrid.ard(X.shape[1]), SquaredExponential(1.0, np.ones(X.shape[1]))
    jobs = [(M, seed) for M in sizes.few(PAC) for seed in range(max(sizes.draws // 3, 1))]
    for M, seed in tqdm(jobs, desc="PAC-Bayes", unit="model"):
        part = split(X, y, RIGOROUS, seed, 5 * sizes.rows)
        about: dict[str, Any] = {"epsilon": ACCURACY, "delta": CONFIDENCE, "grid": grid, "fewer": False}
        about |= {"scaling": (part.inputs, part.outputs), "max_iter": sizes.steps, "random_state": seed}
        model = fitted(SparsePACGP(kernel=kernel, noise=1.0, n_inducing=M, **about), part.X, part.y)
        numbers = figures(model.certificate_, part)
        line = Line("pac", "elevators, kl-PAC-SGP", "", M, seed, len(part.y), np.nan, np.nan)
        yield replace(line, what="bound", upper=numbers["B"])
        for what, key in (("risk, training rows", "train"), ("risk, test rows", "test")):
            yield replace(line, what=what, lower=numbers[key], upper=numbers[key])


def of_samples(folder: Path, sizes: Sizes) -> Iterator[Line]:
    """Losses reached by bMC, and the numbers of samples that are proved to keep a step's error small."""
    from bmc_trained import trajectory
    from dlm_curves import Mark
    from dlm_sampling import end
    from dlm_setting import task

    marks = stored(LOSSES, Mark)
    for data in ("abalone", "bike_hourly", "cal_housing"):
        exact = end(marks, data, "exact")
        N = next(mark.N for mark in marks if mark.data == data)
        for L in (1, 10, 100):
            for draw, gap in enumerate(end(marks, data, f"bMC-{L}") - exact):
                yield Line("samples", data, "loss reached", L, draw, N, float(gap), float(gap))
    part = task("abalone", folder, sizes.rows, 0, 1)
    for step in trajectory(part, 6 if sizes.quick else 20, (1, 10, 100), sizes.steps):
        for rule in ("printed", "chernoff"):
            L = np.asarray(step.size(rule).L, dtype=np.float64)
            yield Line(
                "samples", f"step {step.t}", f"proved, {rule}", step.t, 0, step.n, float(L.min()), float(L.max())
            )


WORK: dict[str, Callable[[Path, Sizes], Iterator[Line]]] = {
    "traces": of_traces,
    "vfe": lambda folder, sizes: of_sparse(folder, sizes, 1.0),
    "renyi": lambda folder, sizes: of_sparse(folder, replace(sizes, steps=sizes.steps // 2), 0.5),
    "mercer": of_mercer,
    "fourier": of_fourier,
    "hilbert": of_hilbert,
    "pac": of_pac,
    "samples": of_samples,
}
"""What computes the lines of each family; those of "predictions" come with VFE and Mercer features."""


def of_work(name: str, line: Line) -> bool:
    """Whether ``name`` of `WORK` makes this line."""
    return line.family == name or (line.family == "predictions" and line.model.lower().startswith(name))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=tuple(WORK), default=list(WORK), metavar="FAMILY")
    parser.add_argument("--rows", type=options.whole, default=500, help="rows of training (default %(default)s)")
    parser.add_argument("--tests", type=options.whole, default=200, help="rows of test (default %(default)s)")
    parser.add_argument("--draws", type=options.whole, default=9, help="k-DPP draws of each size; others have fewer")
    parser.add_argument("--steps", type=options.whole, default=100, help="iterations of a training at most")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds elevators, cal_housing, abalone (NAME.csv.gz)")
    parser.add_argument("--quick", action="store_true", help="150 rows, two sizes of each")
    parser.add_argument("--resume", action="store_true", help="keep the other families of the CSV file")
    parser.add_argument("--draw", action="store_true", help="compute nothing: the picture of the CSV file")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=options.picture_file, default=Path("examples/output/every_family.png"))
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.tests, args.draws, args.steps = 150, 20, 3, 20
    try:
        for name in ("rows", "tests", "draws", "steps"):
            validation.count(f"--{name}", getattr(args, name), 2)
    except ValueError as error:
        parser.exit(2, f"every_family.py: {error}\n")
    if not args.draw and not (args.folder / "elevators.csv.gz").exists():
        parser.exit(0, f"No elevators.csv.gz in {args.folder}: pass --folder.\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kept = args.resume or args.draw
    lines = stored(args.out.with_suffix(".csv"), Line) if kept else []
    sizes = Sizes(args.rows, args.tests, args.draws, args.steps, args.seed, args.quick)
    for name in () if args.draw else args.only:
        began = time.process_time()
        lines = [line for line in lines if not of_work(name, line)]
        lines += WORK[name](args.folder, sizes)
        lines.sort(key=lambda line: FAMILIES.index(line.family))
        save(args.out, lines)
        print(f"{name}: {time.process_time() - began:.0f} s of processor time", flush=True)
    picture(lines).savefig(args.out)
    print(f"{verdicts(lines)}\n{args.out}, with .csv beside it")


if __name__ == "__main__":
    main()
