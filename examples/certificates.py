"""Certificates with a prior from half of the rows, and from held-out rows, beside paper 002's form and test risks.

    python examples/certificates.py [--quick] [--sets housing energy ...] [--inducing 200,500] [--seeds 10] [--resume]
    python examples/certificates.py --tables      # tables and picture of the rows that are stored

A fifth of the rows of each set are for tests, as in `pac_gp_housing.py`.  Of the others, drawn by `Split` before
anything is computed, a half trains a model: an exact GP (M = 0) up to 500 rows, with a squared exponential of one
lengthscale, and else `SparseGP` with VFE, one lengthscale for each input, M inducing points and 150 iterations.  The
same half gives the means and standard deviations that scale the data.  The other half certifies, at δ = .01 each:

- "data-prior": the Gibbs risk of a posterior that starts at the law of the trained model and minimises the bound;
- "held-out": the risk of the model's mean prediction;
- "coverage": the factor κ of intervals mean ± κ·(standard deviation) that hold 90 % of new targets.

"pac-bayes" is the form of paper 002 by `PACGP` or `SparsePACGP`, whose hyperparameters are on a grid: a tenth of the
rows scales the data, and all others train and certify.  The loss is 1 if a prediction differs from the target by more
than ε = .6 standard deviations of the scaling rows.  "Test" is the same risk at the test rows, and of coverage the
share of test targets in their intervals.

Labels: breast cancer and digits (is the number even?) of scikit-learn, and rows of Breiman's ringnorm.  "held-out" is
the error of `VariationalGPClassifier`, "vote" that of the majority under a posterior that starts at its law: the
smaller of twice the Gibbs bound and four times the tandem bound.

The statements are separate experiments: each holds with probability .99, and who picks the best of k pays ln k.  The
CSV file holds one row for each statement and split, and --resume continues it.

Claims of the ledger: N-data-prior, N-held-out, N-coverage, P-14.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from certificate_tables import COVERAGE, DATA_PRIOR, HELD_OUT, PAC_BAYES, VOTE, Row, picture, tables
from dlm_setting import load, ringnorm, save
from pac_settings import DELTA, PAPER, RIGOROUS, predicted, split, table
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import PACGP, ExactGP, SparseGP, SparsePACGP, VariationalGPClassifier, certify
from gpbounds import SquaredExponential, validation
from gpbounds.cli import options
from gpbounds.files import replacing
from gpbounds.losses import Band
from gpbounds.pacbayes import HyperGrid, Scaling, Split
from gpbounds.whitening import inducing, residual_diagonal

EPSILON, LEVEL = 0.6, 0.9
CAP = 20_000
"""Rows of a set at most, drawn at random; kin40k has all of its 40 000."""
EXACT = 500
"""Rows for training and certificate up to which the GP is exact."""
STEPS = 150
"""Iterations of `SparseGP`, and of `SparsePACGP` before its hyperparameters are rounded."""
SPLITS = {"housing": 10, "energy": 10, "concrete": 10, "breast_cancer": 10, "digits": 10, "pol": 3, "kin40k": 3}
"""Splits of the rows; one of the other sets."""
SMALL, LARGE = ("housing", "energy", "concrete", "abalone"), ("elevators", "bike_hourly", "cal_housing", "protein")
NUMBERS = (*SMALL, "pol", "kin40k", *LARGE)
LABELS = {"breast_cancer": 50, "digits": 100, "ringnorm": 50}
"""Sets with two labels, and their inducing points."""
GENERATED, TESTS, BATCH, EPOCH = 1_000_000, 100_000, 1000, 500
"""Rows of ringnorm for training and certificate and for tests; rows of a mini-batch, and their number."""


@dataclass(frozen=True)
class Job:
    """A model to train on one split of a set, and to certify."""

    data: str
    M: int
    share: float
    seed: int
    rows: int | None
    steps: int = STEPS

    @property
    def key(self) -> tuple[Any, ...]:
        return self.data, self.M, self.share, self.seed

    def row(self, model: Any, N: int, form: str, certificate: Any, truth: np.ndarray, seconds: float) -> Row:
        """What is stored of a certificate; ``truth`` holds the losses, or what is covered, at the test rows."""
        covers = form == COVERAGE
        return Row(
            data=self.data,
            model=type(model).__name__,
            M=self.M,
            share=self.share,
            seed=self.seed,
            form=form,
            N=N,
            n=certificate.rows,
            bound=certificate.level if covers else certificate.bound,
            risk=np.nan if covers else certificate.risk,
            kl=getattr(certificate, "kl", 0.0),
            truth=float(np.mean(truth)),
            tests=len(truth),
            factor=certificate.factor if covers else np.nan,
            seconds=seconds,
        )


def of_q(certificate: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (N,) of f under the certified Q at raw inputs X (N, D), in scaled units."""
    q, kernel, X = certificate.posterior, certificate.kernel, certificate.inputs.apply(X)
    V = inducing(kernel, q.Z, q.jitter).whiten(X)
    phi = V.T @ q.prior_factor
    half = phi @ q.factor
    variance = residual_diagonal(kernel.diag(X), V) + np.einsum("ij,ij->i", half, half)
    return V.T @ q.prior_mean + phi @ q.mean, variance


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the texts say that training may end by its limit
        made = make()
    return made, time.perf_counter() - began


def numbers(job: Job) -> Iterator[Row]:
    """The certificates of one model of real targets."""
    X, y = table(None, job.data)
    part = split(X, y, PAPER, job.seed, job.rows)
    D = X.shape[1]
    if job.M == 0:
        model: Any = ExactGP(SquaredExponential(1.0, 1.0), random_state=job.seed)
    else:
        kernel = SquaredExponential(1.0, np.ones(D))
        model = SparseGP("vfe", kernel, n_inducing=job.M, max_iter=job.steps, random_state=job.seed)
    train = partial(certify, model, part.X, part.y, method=DATA_PRIOR, scaling="prior", epsilon=EPSILON, delta=DELTA)
    certificate, seconds = timed(partial(train, share=job.share, random_state=job.seed))
    outputs, store = certificate.outputs, partial(job.row, certificate.model, len(part.y))
    off = Band(EPSILON).expectation(outputs.apply(part.y_test), *of_q(certificate, part.X_test))
    yield store(DATA_PRIOR, certificate, off, seconds)
    # the same rows certify the recorded predictions of the model that was trained
    mask = Split("random", job.share, job.seed).prior(len(part.y))
    predict = partial(certificate.model.predict, return_std=True, noisy=True)
    recorded, (mean, std) = predict(part.X[~mask]), predict(part.X_test)
    ask = partial(certify, X=part.X[~mask], y=part.y[~mask], method=HELD_OUT, delta=DELTA)
    held, seconds = timed(lambda: ask(recorded[0], epsilon=EPSILON, scaling=(Scaling(), outputs)))
    yield store(HELD_OUT, held, np.abs(outputs.apply(part.y_test) - outputs.apply(mean)) > EPSILON, seconds)
    covers, seconds = timed(lambda: ask(recorded, coverage=LEVEL))
    yield store(COVERAGE, covers, np.abs(part.y_test - mean) <= covers.factor * std, seconds)


def of_the_paper(job: Job) -> Iterator[Row]:
    """The certificate in the form of paper 002, trained by its bound."""
    X, y = table(None, job.data)
    part = split(X, y, RIGOROUS, job.seed, job.rows)
    common: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "scaling": (part.inputs, part.outputs)}
    common |= {"noise": 1.0, "random_state": job.seed}
    D = X.shape[1]
    if job.M == 0:
        model: Any = PACGP(kernel=SquaredExponential(1.0, 1.0), grid=HyperGrid.shared(), n_restarts=3, **common)
    else:
        common |= {"n_inducing": job.M, "max_iter": job.steps, "fewer": False}
        model = SparsePACGP(kernel=SquaredExponential(1.0, np.ones(D)), grid=HyperGrid.ard(D), **common)
    _, seconds = timed(lambda: model.fit(part.X, part.y))
    certificate = model.certificate_
    off = Band(EPSILON).expectation(part.scaled_test[1], *predicted(certificate, part))
    yield job.row(model, len(part.y), PAC_BAYES, certificate, off, seconds)


def labelled(job: Job) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs, two labels, and the number of test rows, the first ones in an order that depends on the split."""
    if job.data == "ringnorm":
        X, y = ringnorm((job.rows or GENERATED) + TESTS, np.random.default_rng(job.seed))
        return X, y.astype(int), TESTS
    from sklearn.datasets import load_breast_cancer, load_digits

    bunch = load_breast_cancer() if job.data == "breast_cancer" else load_digits()
    y = bunch.target if job.data == "breast_cancer" else bunch.target % 2
    order = np.random.default_rng(job.seed).permutation(len(y))[: job.rows]
    return bunch.data[order], y[order], -(-len(order) // 5)


def labels(job: Job) -> Iterator[Row]:
    """The certificates of one classifier."""
    X, y, tests = labelled(job)
    X_test, y_test, X, y = X[:tests], y[:tests], X[tests:], y[tests:]
    model = VariationalGPClassifier(job.M, max_iter=job.steps, random_state=job.seed)
    if job.data == "ringnorm":
        model.set_params(batch_size=BATCH, optimizer="adam", max_iter=EPOCH)
    train = partial(certify, model, X, y, method=DATA_PRIOR, scaling="prior", delta=DELTA)
    certificate, seconds = timed(partial(train, share=job.share, random_state=job.seed))
    fitted = certificate.model
    mean, _ = of_q(certificate, X_test)
    yield job.row(fitted, len(y), VOTE, certificate, (mean > 0.0) != (y_test == fitted.classes_[1]), seconds)
    mask = Split("random", job.share, job.seed).prior(len(y))
    ask = partial(certify, X=X[~mask], y=y[~mask], method=HELD_OUT, delta=DELTA, loss="zero-one")
    held, seconds = timed(lambda: ask(fitted.predict(X[~mask])))
    yield job.row(fitted, len(y), HELD_OUT, held, fitted.predict(X_test) != y_test, seconds)


def jobs(args: argparse.Namespace) -> list[tuple[Callable[[Job], Iterator[Row]], Job, tuple[str, ...]]]:
    """What to compute in order, and the forms that it gives."""
    work: list[Any] = []
    for data in args.sets:
        for M in [LABELS[data]] if data in LABELS else args.inducing:
            for seed in range(min(args.seeds, SPLITS.get(data, 1))):
                rows = args.rows or (None if data in LABELS or data == "kin40k" else CAP)
                job = Job(data, M, args.share, seed, rows, args.steps)
                if data in LABELS:
                    work.append((labels, job, (VOTE, HELD_OUT)))
                    continue
                N, _ = split_sizes(data, rows)
                if N <= EXACT:
                    job = replace(job, M=0)
                if args.paper:
                    work.append((of_the_paper, job, (PAC_BAYES,)))
                else:
                    work.append((numbers, job, (DATA_PRIOR, HELD_OUT, COVERAGE)))
    return list(dict.fromkeys(work))


def split_sizes(data: str, rows: int | None) -> tuple[int, int]:
    """The numbers of rows for training and certificate, and for tests."""
    N = min(len(table(None, data)[1]), rows or CAP * CAP)
    tests = -(-N // 5)
    return N - tests, tests


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = [*NUMBERS, *LABELS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, metavar="NAME", help="default: all")
    parser.add_argument(
        "--inducing", type=options.wholes, default=[200], metavar="M[,M...]", help="of SparseGP (default: 200)"
    )
    parser.add_argument("--share", type=float, default=0.5, help="of the rows that train (default %(default)s)")
    parser.add_argument("--seeds", type=options.whole, default=10, help="splits of a set at most (default %(default)s)")
    parser.add_argument("--steps", type=options.whole, default=STEPS, help="iterations (default %(default)s)")
    parser.add_argument("--rows", type=options.whole, help="rows of each set at most")
    parser.add_argument("--paper", action="store_true", help="the form of paper 002 in place of the others")
    parser.add_argument("--tables", action="store_true", help="compute nothing: tables and picture of stored rows")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the CSV file, and add the others")
    parser.add_argument("--quick", action="store_true", help="one split of 150 rows of housing and breast_cancer")
    parser.add_argument(
        "--out",
        type=options.picture_file,
        default=Path("examples/output/certificates.png"),
        help="picture; CSV and Markdown beside it (default %(default)s)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments()
    args = parser.parse_args(argv)
    if args.quick:
        args.sets, args.seeds, args.rows = ["housing", "breast_cancer"], 1, 150
    try:
        for name, value in (("--seeds", args.seeds), ("--steps", args.steps), ("--inducing", min(args.inducing))):
            validation.count(name, value)
        work = [] if args.tables else jobs(args)
    except (ValueError, OSError) as error:
        parser.exit(2, f"certificates.py: {error}\n")
    stored = args.out.with_suffix(".csv")
    stored.parent.mkdir(parents=True, exist_ok=True)
    rows = load(stored, Row) if args.resume or args.tables else []
    done = {(*row.key, row.form) for row in rows}
    bar = tqdm([each for each in work if not all((*each[1].key, form) in done for form in each[2])], unit="model")
    for compute, job, _ in bar:
        bar.set_description(f"{job.data}, M = {job.M}, split {job.seed}")
        rows += [row for row in compute(job) if (*row.key, row.form) not in done]
        save(stored, rows)
    text = tables(rows)
    with replacing(args.out.with_suffix(".md")) as file:
        file.write(text + "\n")
    picture(rows).savefig(args.out)
    print(f"{text}\n{args.out}, with .csv and .md beside it")


if __name__ == "__main__":
    main()
