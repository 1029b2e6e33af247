"""What the law of the inputs is worth in a plan: independent columns, a covariance, a mixture of Gaussians.

    python examples/input_laws.py FILE.csv ... [--rows 500] [--quick] [--out input_laws.csv]

Each FILE is a CSV (or .csv.gz) with the target in its last column; columns are standardised.  A random half of the rows
determines kernel (squared exponential, one lengthscale for each input), noise and the laws; the bounds are about --rows
rows of the other half, with probability 95 %, for y from the prior and the best of 10 draws of the tilted k-DPP:

    M           inducing points that the bound given these rows needs for 1 nat (10 nats where 1 needs all of them)
    given       the bound given these rows, at M (N-tilt-prior)
    independent, covariance, mixture
                the bound before any row is seen, at M, over the bound given the rows: N-sim from 39 sets of draws

The mixture is scikit-learn's, fitted in units of the lengthscales to the inputs that vary by more than 1/1000 of them,
with 1, 2, 4 ... 32 components by the Bayesian information criterion.  N-sim is proved for rows from the law: the law is
fixed before the rows of the other half, but that they are draws of it is a hypothesis.

The tails are N·Σ_{m>200} λ_m/σ² for all N rows: what 200 features or inducing variables leave at best.  Those of both
Gaussians are exact to rounding (N-cov); that of the data is from the eigenvalues of --rows rows.

With --quick: 100 rows of each.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from sklearn.mixture import GaussianMixture

from fitting.study import hyperparameters
from fitting.study.standardised import Standardised, load
from gpbounds import Empirical, Gaussian, Sampler, inducing_points, rate, spectrum
from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.files import replacing
from gpbounds.kernels import SquaredExponential
from gpbounds.texts import table

SETS, TAIL_AT, FITTED_ROWS = 39, 200, 5000
SETTINGS = {"delta": 0.05, "draws": 10, "law": "tilted"}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    data: str
    N: int
    D: int
    rows: int
    M: int
    given: float
    independent: float
    covariance: float
    mixture: float
    components: int
    tail_independent: float
    tail_covariance: float
    tail_data: float

    def cells(self) -> tuple[str, ...]:
        """As text."""
        return tuple(
            f"{value:.3g}" if isinstance(value, float) else str(value)
            for value in (getattr(self, field.name) for field in fields(self))
        )


HEADER = tuple(field.name.replace("tail_", "tail, ") for field in fields(Row))


def mixture(kernel: SquaredExponential, X: Float, seed: int) -> tuple[Sampler, int]:
    """The mixture of Gaussians with the least BIC, and its number of components; inputs without effect stay at 0."""
    lengthscales = kernel.lengthscales(X.shape[1])
    matters = X.std(axis=0) > 1e-3 * lengthscales
    if not matters.any():
        matters[:] = True
    part = (X / lengthscales)[:FITTED_ROWS, matters]
    counts = [count for count in (1, 2, 4, 8, 16, 32) if 5 * count <= len(part)]
    models = [GaussianMixture(count, reg_covar=1e-6, random_state=seed).fit(part) for count in counts]
    model = min(models, key=lambda model: model.bic(part))
    inner = Sampler.of(model)

    def draw(N: int, rng: np.random.Generator) -> Float:
        rows = np.zeros((N, X.shape[1]))
        rows[:, matters] = inner.sample(N, rng) * lengthscales[matters]
        return rows

    return Sampler(draw, f"a mixture of {model.n_components} Gaussians"), int(model.n_components)


def row_of(data: Standardised, rows: int, seed: int) -> Row | None:
    """The line of one data set; None where no M below the number of rows is enough for 10 nats."""
    order = np.random.default_rng(seed).permutation(data.N)
    half = data.N // 2
    first, other = data.X[order[:half]], data.X[order[half : half + min(rows, data.N - half)]]
    fitted = hyperparameters.fit(Standardised(data.name, first, data.y[order[:half]]), seed=seed)
    kernel, shared = fitted.kernel, {"noise": fitted.noise, **SETTINGS}
    assert isinstance(kernel, SquaredExponential)
    inputs, N = Empirical(other), len(other)
    plans = (inducing_points(kernel, N, 1.0, inputs=inputs, target=target, **shared).M for target in (1.0, 10.0))
    M = next((M for M in plans if M is not None), None)
    if M is None:
        return None
    given = float(rate(kernel, N, M, 1.0, inputs=inputs, **shared))
    mixed, components = mixture(kernel, first, seed)
    gaussian = Gaussian(mean=first.mean(axis=0), cov=np.cov(first.T, bias=True).reshape(data.D, data.D))
    laws = (Gaussian(gaussian.stds), gaussian, mixed)
    bounds = [float(rate(kernel, N, M, 1.0, inputs=law, simulate=SETS, rng=seed, **shared)) for law in laws]
    tails = [spectrum(kernel, inputs=law).tail(TAIL_AT) * data.N / fitted.noise for law in (*laws[:2], inputs)]
    ratios = [bound / given for bound in bounds]
    return Row(data.name, data.N, data.D, N, M, given, *ratios, components, *(float(tail) for tail in tails))


def save(path: Path, lines: Sequence[Row]) -> None:
    """The lines as a CSV file."""
    with replacing(path) as opened:
        writer = csv.writer(opened)
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows([[getattr(line, field.name) for field in fields(Row)] for line in lines])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--rows", type=options.whole, default=500, help="rows of the other half (default %(default)s)")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--quick", action="store_true", help="100 rows")
    parser.add_argument("--out", type=Path, default=Path("input_laws.csv"))
    args = parser.parse_args(argv)
    lines: list[Row] = []
    try:
        save(args.out, lines)
        for file in args.files:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                line = row_of(load(file), 100 if args.quick else args.rows, args.seed)
            if line is None:
                print(f"{file}: no number of inducing points below that of the rows is enough", file=sys.stderr)
                continue
            lines.append(line)
            save(args.out, lines)
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"{Path(sys.argv[0]).name}: {error}\n")
    print(table(HEADER, [line.cells() for line in lines]))
    if lines:
        medians = (float(np.median([getattr(line, name) for line in lines])) for name in HEADER[6:9])
        print("Median over the sets, bound before over bound given the rows:")
        print("  " + ", ".join(f"{name} {value:.3g}" for name, value in zip(HEADER[6:9], medians, strict=True)))
    print(f"Saved {args.out}")


if __name__ == "__main__":
    main()
