"""Work that is killed: training with checkpoints, saving, the command line, batch runs of examples."""

from __future__ import annotations

import contextlib
import csv
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMES = ("seconds",)
"""Columns of result tables that differ from run to run."""


@dataclass(frozen=True)
class Job:
    """Work in the current folder.

    Attributes
    ----------
    name : str
    kind : str
        The row of the table in which its kills are counted.
    run : function
        It begins the work, or continues it where an earlier run has left a checkpoint or the first rows of a table.
    prepare : function
        It writes what the work reads.
    results : tuple of str
        The files whose bytes are the outcome; of a CSV file all columns but `TIMES`.
    grows : tuple of str
        CSV files that grow by rows: at every moment they hold the first rows of the outcome.
    other : function, optional
        It puts other data in the place of those that a checkpoint is about; a run after it must refuse that file.
    """

    name: str
    kind: str
    run: Callable[[], Any]
    prepare: Callable[[], Any] = lambda: None
    results: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()
    other: Callable[[], Any] | None = None


def data(N: int = 60, D: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a fixed seed."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2.0, 2.0, (N, D))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(N)


def _table() -> None:
    X, y = data()
    np.savetxt("data.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")


def training(
    name: str, kind: str, make: Callable[[], Any], N: int = 60, *, labels: bool = False, counts: bool = False
) -> Job:
    """Training with a checkpoint, of an estimator that ``make`` returns; the outcome is the saved model."""

    def prepare() -> None:
        X, y = data(N)
        np.save("X.npy", X)
        np.save("y.npy", (y > 0.0).astype(int) if labels else np.floor(np.exp(y)) if counts else y)

    def other() -> None:
        np.save("y.npy", swapped(np.load("y.npy")))

    def run() -> None:
        model = make().set_params(checkpoint="checkpoint", random_state=3)
        model.fit(np.load("X.npy"), np.load("y.npy")).save("model.npz")

    return Job(name, kind, run, prepare, results=("model.npz",), other=other)


def swapped(y: np.ndarray) -> np.ndarray:
    """The first target and the first other one that differs from it change places: all sums remain what they are."""
    place = int(np.argmax(y != y[0]))
    y[[0, place]] = y[[place, 0]]
    return y


def partitioned(name: str, kind: str, make: Callable[[], Any]) -> Job:
    """Training on a folder of Parquet files."""

    def write(y: np.ndarray) -> None:
        import pyarrow
        from pyarrow import parquet

        os.makedirs("rows", exist_ok=True)
        X, _ = data()
        for i in range(3):
            few = slice(20 * i, 20 * i + 20)
            parquet.write_table(
                pyarrow.table({"a": X[few, 0], "b": X[few, 1], "y": y[few]}), os.path.join("rows", f"{i}.parquet")
            )

    def run() -> None:
        model = make().set_params(checkpoint="checkpoint", random_state=3)
        model.fit("rows", "y").save("model.npz")

    return Job(name, kind, run, lambda: write(data()[1]), ("model.npz",), other=lambda: write(swapped(data()[1])))


def _estimators() -> Any:
    import fitting

    return fitting


TRAININGS = (
    training(
        "SparseGP, L-BFGS, a restart",
        "training: L-BFGS, all rows",
        lambda: _estimators().SparseGP("vfe", n_inducing=10, tol=0.0, max_iter=40, n_restarts=1),
    ),
    training(
        "ExactGP, L-BFGS",
        "training: L-BFGS, all rows",
        lambda: _estimators().ExactGP(tol=0.0, max_iter=40, solver="cholesky"),
    ),
    training(
        "SparseGP, Adam",
        "training: Adam",
        lambda: _estimators().SparseGP("fitc", n_inducing=8, optimizer="adam", max_iter=120, tol=0.0),
    ),
    training(
        "VariationalGP, Adam, mini-batches",
        "training: Adam",
        lambda: _estimators().VariationalGP(
            likelihood="student-t", n_inducing=8, optimizer="adam", batch_size=20, max_iter=150
        ),
    ),
    training(
        "VariationalGPClassifier, natural gradients",
        "training: natural gradients",
        lambda: _estimators().VariationalGPClassifier(
            likelihood="logit", n_inducing=8, optimizer="natgrad", max_iter=100, tol=0.0
        ),
        labels=True,
    ),
    training(
        "VariationalGP, natural gradients, mini-batches",
        "training: natural gradients",
        lambda: _estimators().VariationalGP(
            likelihood="poisson", n_inducing=8, optimizer="natgrad", batch_size=20, max_iter=100
        ),
        counts=True,
    ),
    training(
        "LowRankGP, L-BFGS",
        "training: low rank",
        lambda: _estimators().LowRankGP("fourier", rank=16, max_iter=60, tol=0.0),
    ),
    training(
        "LowRankGP, Adam, mini-batches",
        "training: low rank",
        lambda: _estimators().LowRankGP("fourier", rank=16, optimizer="adam", batch_size=20, max_iter=120),
    ),
    partitioned(
        "SparseGP, Parquet",
        "training: partitions",
        lambda: _estimators().SparseGP("vfe", n_inducing=8, tol=0.0, max_iter=30),
    ),
    training("PACGP", "training: PAC-Bayes", lambda: _estimators().PACGP(delta=0.01, max_iter=25, tol=0.0)),
    training(
        "SparsePACGP", "training: PAC-Bayes", lambda: _estimators().SparsePACGP(6, delta=0.01, max_iter=25, tol=0.0)
    ),
    training(
        "ExactGP, iterative",
        "training: iterative",
        lambda: _estimators().ExactGP(solver="iterative", max_iter=10),
        N=200,
    ),
    training(
        "RenyiGP, iterative",
        "training: iterative",
        lambda: _estimators().RenyiGP(0.5, n_inducing=8, solver="iterative", max_iter=8),
        N=200,
    ),
)


def _two_models() -> tuple[Any, Any]:
    fitting = _estimators()
    X, y = data()
    settings: dict[str, Any] = {"n_inducing": 8, "random_state": 0}
    return tuple(fitting.SparseGP("vfe", max_iter=n, **settings).fit(X, y) for n in (3, 6))  # type: ignore[return-value]


def _save_models(times: int = 40) -> None:
    for i, model in enumerate(_two_models() * (times // 2)):
        model.save("model.npz")
        model.save(f"model {i % 2}.npz")


def _two_certificates() -> tuple[Any, Any]:
    fitting = _estimators()
    X, y = data(40)
    settings: dict[str, Any] = {"delta": 0.01, "random_state": 0, "scaling": "as given"}
    return tuple(fitting.PACGP(max_iter=n, **settings).fit(X, y).certificate_ for n in (1, 2))  # type: ignore[return-value]


def _save_certificates(times: int = 60) -> None:
    for i, each in enumerate(_two_certificates() * (times // 2)):
        each.save("certificate.json")
        each.save(f"certificate {i % 2}.json")


def _save_imported(times: int = 60) -> None:
    from gpbounds import SquaredExponential
    from gpbounds.renyi import Model

    rng = np.random.default_rng(0)
    two = [Model(SquaredExponential(1.0, [1.0, 1.0 / 3.0]), 0.1 * i, rng.standard_normal((300, 2))) for i in (1, 2)]
    for i in range(times):
        two[i % 2].save("model.json")
        two[i % 2].save(f"model {i % 2}.json")


SAVING = (
    Job("save models", "saving: models, npz", _save_models, results=("model.npz", "model 0.npz", "model 1.npz")),
    Job(
        "save certificates",
        "saving: certificates",
        _save_certificates,
        results=("certificate.json", "certificate 0.json", "certificate 1.json"),
    ),
    Job(
        "save imported models",
        "saving: models, JSON",
        _save_imported,
        results=("model.json", "model 0.json", "model 1.json"),
    ),
)


def _shell(*words: str) -> None:
    from gpbounds.cli import main

    status = main(words)
    if status:
        raise RuntimeError(f"gpbounds {' '.join(words)}: exit status {status}")


def _train(iterations: int = 20) -> None:
    _shell("train", "data.csv", "--inducing", "8", "--max-iter", str(iterations), "--out", "out")


def _certify(iterations: int = 10) -> None:
    _shell(
        *("certify", "train", "data.csv", "--scaling", "split", "--epsilon", "0.6"),
        *("--method", "pac-bayes", "--posterior", "full", "--iterations", str(iterations), "--out", "out"),
    )


def _audit(enough: str = "1") -> None:
    _shell("audit", "data.csv", "--model", "model.npz", "--enough", enough, "--out", "audit.html")


def _after_another(work: Callable[[Any], None], other: Any) -> Callable[[], None]:
    """The table, and the files of an earlier run with other options."""

    def prepare() -> None:
        _table()
        work(other)

    return prepare


def _prepared_audit() -> None:
    _table()
    _shell("train", "data.csv", "--inducing", "5", "--max-iter", "5", "--out", ".")
    _audit("10")


COMMANDS = (
    Job(
        "gpbounds train",
        "gpbounds train",
        _train,
        _after_another(_train, 2),
        ("out/model.npz", "out/predictions.png"),
    ),
    Job(
        "gpbounds certify train",
        "gpbounds certify train",
        _certify,
        _after_another(_certify, 2),
        ("out/certificate.json", "out/model.npz", "out/certificate_data.csv", "out/certificate.png"),
    ),
    Job("gpbounds audit", "gpbounds audit", _audit, _prepared_audit, ("audit.html",)),
)


def _example(name: str, *words: str) -> None:
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    importlib.import_module(name).main(words)


def _elevators() -> None:
    import gzip

    X, y = data(120, 4)
    with gzip.open("elevators.csv.gz", "wt", encoding="utf-8") as file:
        np.savetxt(file, np.column_stack([X, y]), delimiter=",")


BATCHES = (
    Job(
        "pac_gp_grid.py --resume",
        "batch runs of examples",
        lambda: _example(
            *("pac_gp_grid", "--rows", "40", "--tests", "20", "--repetitions", "2", "--steps", "3", "--resume"),
            *("--out", "grid.png"),
        ),
        results=("grid.csv",),
        grows=("grid.csv",),
    ),
    Job(
        "pac_sgp_inducing.py --resume",
        "batch runs of examples",
        lambda: _example(
            *("pac_sgp_inducing", "--data", "data.csv", "--inducing", "3,4", "--seeds", "2", "--steps", "4"),
            *("--ard", "yes", "--resume", "--out", "inducing.png"),
        ),
        _table,
        results=("inducing.csv",),
        grows=("inducing.csv",),
    ),
    Job(
        "lowrank_far_rows.py --resume",
        "batch runs of examples",
        lambda: _example(
            *("lowrank_far_rows", "--folder", ".", "--splits", "2", "--ranks", "6", "--iterations", "5"),
            *("--models", "SGPR", "FGP", "--resume", "--out", "far.csv"),
        ),
        _elevators,
        results=("far.csv",),
        grows=("far.csv",),
    ),
)

JOBS = (*TRAININGS, *SAVING, *COMMANDS, *BATCHES)


def outcome(job: Job, folder: Path) -> dict[str, Any]:
    """What a finished job has left, comparable with ==."""
    return {name: _content(folder / name) for name in job.results}


def _content(path: Path) -> Any:
    return rows(path) if path.suffix == ".csv" else path.read_bytes()


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file without their times."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


@contextlib.contextmanager
def quiet(log: Path) -> Any:
    """Standard output to nowhere, errors and warnings to ``log``; for a process that ends with the block."""
    nowhere, errors = os.open(os.devnull, os.O_WRONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nowhere, 1)
    os.dup2(errors, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
