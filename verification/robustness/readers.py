"""The readers of this package, whole files for each, and what an answer to a changed file may say."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from robustness import mutations
from robustness.mutations import Mutation

SAME, OTHER = "accepted, states the same", "accepted, states something else"


@dataclass(frozen=True)
class Reader:
    """A reader and its files.

    Attributes
    ----------
    name, suffix : str
        Of the reader, and of its files.
    make : function
        It returns whole files, as bytes.
    changes : tuple of Mutation
    read : function of a path
    judge : function of the answer, the changed bytes and the original ones
        The outcome in words; it raises AssertionError for an answer that the file does not state.
    share : float
        Of all files.
    writes : bool
        Whether the reader continues what it reads, and writes.
    unpacks : int
        A file justifies the memory of so many times its bytes.
    """

    name: str
    suffix: str
    make: Callable[[], tuple[bytes, ...]]
    changes: tuple[Mutation, ...]
    read: Callable[[Path], Any]
    judge: Callable[[Any, bytes, bytes], str]
    share: float
    writes: bool = False
    unpacks: int = 1

    @cached_property
    def originals(self) -> tuple[bytes, ...]:
        """The whole files."""
        return self.make()


def written(write: Callable[[Path], Any], suffix: str = "") -> bytes:
    """The bytes that ``write`` writes to a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        write(path)
        return path.read_bytes()


@lru_cache
def beside() -> Path:
    """A folder with files that readers need beside the changed ones, until this process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    X, y = data()
    np.save(Path(folder.name) / "targets.npy", y)
    lines = [",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist()]
    (Path(folder.name) / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    return Path(folder.name)


def data(N: int = 15, D: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a fixed seed."""
    rng = np.random.default_rng(11)
    X = rng.uniform(-2.0, 2.0, (N, D))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(N)


# Tables


def tables() -> tuple[bytes, ...]:
    X, y = data(8)
    body = "\n".join(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())
    return body.encode() + b"\n", b"a,b,y\n" + body.encode(), body.replace(",", ";").replace("\n", "\r\n").encode()


def read_csv(path: Path) -> Any:
    from gpbounds.rows.table_rows import read_rows
    from gpbounds.rows.tables import read_table

    for choice in ({}, {"drop_missing": True, "labels": True}):
        with contextlib.suppress(ValueError):
            read_rows(path, **choice)
    return read_table(path)


CELL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def judge_csv(answer: Any, changed: bytes, original: bytes) -> str:
    """Every number is that of its cell, read by another program."""
    values, names = answer
    text = changed.decode("utf-8-sig")
    if '"' in text:
        return "accepted, with quotation marks"
    lines = re.split("\r\n|\r|\n", text)
    mark = next((m for m in ",;\t" if m in text.lstrip().partition("\n")[0]), ",")
    rows = [[cell.strip(" \t") for cell in line.split(mark)] for line in lines]
    rows = [row for row in rows if any(cell.strip() for cell in row)][int(names is not None) :]
    assert all(CELL.fullmatch(cell) for row in rows for cell in row), "a cell is no number"
    expected = np.array([[float(Decimal(cell)) for cell in row] for row in rows])
    assert np.array_equal(expected, values), "the numbers are others"
    return SAME if changed == original else OTHER


def _gz(text: bytes) -> bytes:
    import gzip

    return gzip.compress(text, mtime=0)


def packed_tables() -> tuple[bytes, ...]:
    return tuple(map(_gz, tables()))


PACKED = mutations.gzipped(mutations.TABLE)


def judge_gz(answer: Any, changed: bytes, original: bytes) -> str:
    import zlib

    whole, rest = b"", changed
    while rest:  # a gzip file may have several parts
        part = zlib.decompressobj(31)
        whole += part.decompress(rest)
        rest = part.unused_data.lstrip(b"\x00")
    return judge_csv(answer, whole, original)


# Certificates


def certificates() -> tuple[bytes, ...]:
    from gpbounds import Matern, SquaredExponential
    from gpbounds.losses import Band, Squared
    from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Scaling, Sparse

    X, y = data()
    grid, ard = HyperGrid.shared(-6.0, 6.0, 12), HyperGrid.ard(2, -6.0, 6.0, 12)
    one = Certificate.issue(X, y, Exact(0.1), SquaredExponential(1.0, 1.0), grid=grid, loss=Band(0.6), delta=0.01)
    two = Certificate.issue(
        *(X, y, Sparse(X[:3], 0.1), Matern(1.5, 1.0, [1.0, 1.0])),
        **{"grid": ard, "loss": Squared(0.6), "delta": 0.05, "inputs": Scaling("disjoint split", [0.0, 0.1], 2.0)},
    )
    return tuple(written(each.save, ".json") for each in (one, two, *_from_other_rows(), *_of_predictions()))


def labels() -> np.ndarray:
    """Two labels in place of the targets."""
    return np.where(data()[1] > 0.0, "yes", "no")


def _from_other_rows() -> tuple[Any, ...]:
    """A prior from other rows: about drawn predictions, the mean prediction, and the vote for labels."""
    from gpbounds import SquaredExponential
    from gpbounds.losses import Band, Sign
    from gpbounds.pacbayes import Certificate, Charge, HyperGrid, Split, Updated

    (X, y), three = data(), np.eye(3)
    q = Updated(X[:3], [0.1, -0.2, 0.3], 0.4 * three, [0.1, 0.0, -0.1], 0.9 * three, jitter=1e-8)
    about: dict[str, Any] = {
        "grid": HyperGrid.shared(0.0, 0.0, 0),
        "delta": 0.05,
        "split": Split("random", 0.4, seed=1),
    }
    about["charges"] = [Charge("forms of certificate", 2)]
    kernel = SquaredExponential(1.0, 1.0)
    return (
        Certificate.issue(X, y, q, kernel, loss=Band(0.6), **about),
        Certificate.issue(X, y, q, kernel, loss=Band(0.6), predictor="mean", **about),
        Certificate.issue(X, labels(), q, kernel, loss=Sign(), predictor="mean", classes=("no", "yes"), **about),
    )


def _of_predictions() -> tuple[Any, ...]:
    """Counted mistakes, a mean loss, wrong labels, and intervals."""
    from gpbounds.losses import Band, Squared
    from gpbounds.pacbayes import CoverageCertificate, HeldOutCertificate, Split

    (X, y), split = data(), Split("as given", 0.3)
    own = ~split.prior(len(y))
    predicted, names = np.sin(2.0 * X[own, 0]), np.where(X[own, 0] > 0.0, "yes", "no")
    about: dict[str, Any] = {"predictor": "a sine", "delta": 0.1, "split": split}
    return (
        HeldOutCertificate.issue(X, y, predicted, loss=Band(0.2), **about),
        HeldOutCertificate.issue(X, y, predicted, loss=Squared(0.5), **about),
        HeldOutCertificate.issue(X, labels(), names, loss=None, classes=("no", "yes"), **about),
        CoverageCertificate.issue(X, y, predicted, np.full(int(own.sum()), 0.2), level=0.5, **about),
    )


def rows_of(certificate: Any) -> tuple[Any, Any]:
    """The rows of which a certificate speaks."""
    X, y = data()
    return X, y if certificate.classes is None else labels()


def read_certificate(path: Path) -> Any:
    from gpbounds.pacbayes import Certificate

    certificate = Certificate.load(path)
    return certificate, certificate.check(*rows_of(certificate))


def _stated(certificate: Any) -> str:
    return json.dumps({k: v for k, v in certificate.to_dict().items() if k != "seal"}, sort_keys=True)


def judge_certificate(answer: Any, changed: bytes, original: bytes) -> str:
    """A certificate that is confirmed states what the original states."""
    certificate, report = answer
    record = json.loads(original)
    same = _stated(certificate) == json.dumps({k: v for k, v in record.items() if k != "seal"}, sort_keys=True)
    if not report.confirmed:
        return "read, not confirmed"
    assert same, "it is confirmed and states other numbers"
    return SAME


def judge_sealed(answer: Any, changed: bytes, original: bytes) -> str:
    """A certificate with a new seal is confirmed only if its numbers hold, by the formulas in mpmath."""
    from gpbounds.pacbayes.certificate.rows import raw

    certificate, report = answer
    if not report.confirmed:
        return "read, not confirmed"
    record = json.loads(original)
    if _stated(certificate) == json.dumps({k: v for k, v in record.items() if k != "seal"}, sort_keys=True):
        return SAME
    X, y = rows_of(certificate)
    rows = raw(X, certificate.encode(y))
    assert certificate.data == rows.fingerprint, "it is about other data"
    holds = {"held-out": _losses_hold, "coverage": _intervals_hold}.get(certificate.method, _posterior_holds)
    holds(certificate, rows.certified(certificate.split))
    return "accepted with a new seal, and holds"


def _posterior_holds(certificate: Any, rows: Any) -> None:
    """R_S, KL and the bound of a posterior."""
    from mpmath import mp

    from gpbounds.reference import pacbayes

    units = certificate.inputs, certificate.outputs
    enclosed = rows.enclose(certificate.posterior, certificate.kernel, *units, certificate.loss)
    assert certificate.kl >= enclosed.kl, "KL is too small"
    assert certificate.risk >= enclosed.risk, "R_S is too small"
    N, lists = rows.shape[0], [each.count for each in (*certificate.charges, *units)]
    with mp.workdps(40):
        choices = mp.mpf(certificate.grid.size) * mp.fprod(lists) * (1 if certificate.tandem is None else 2)
        least = pacbayes.bound(enclosed.risk, enclosed.kl, N, certificate.delta, mp.log(choices))
        if certificate.tandem is not None:
            assert certificate.tandem >= enclosed.tandem, "the tandem risk is too small"
            tandem = pacbayes.bound(enclosed.tandem, 2 * mp.mpf(enclosed.kl), N, certificate.delta, mp.log(choices))
            least = min(1, 2 * least, 4 * tandem)
    assert certificate.bound >= float(least) * (1.0 - 1e-15), "the bound is too small"


def _share(certificate: Any) -> Any:
    """The part of δ of a certificate of predictions."""
    from mpmath import mp

    return mp.mpf(certificate.delta) / mp.fprod([each.count for each in (*certificate.charges, certificate.outputs)])


def _losses_hold(certificate: Any, rows: Any) -> None:
    """The losses, and P(Bin(n, B) ≤ k) ≤ δ or n·kl(R̂‖B) ≥ ln(1/δ)."""
    from mpmath import mp

    y, n = np.concatenate([part.Y[:, 0] for part in rows.partitions()]), rows.shape[0]
    if certificate.loss is None:
        losses = (y != certificate.predictions) * 1.0
    else:
        losses = certificate.loss.value(
            certificate.outputs.apply(y), certificate.outputs.apply(certificate.predictions)
        )
    assert certificate.risk >= losses.mean() * (1.0 - 1e-15), "the mean loss is too small"
    assert certificate.mistakes is None or certificate.mistakes == losses.sum(), "other mistakes"
    with mp.workdps(40):
        B, k = mp.mpf(certificate.bound), int(losses.sum())
        if B == 1:
            return
        if certificate.mistakes is None:
            r = mp.mpf(float(losses.mean()))
            divergence = (r * mp.log(r / B) if r else 0) + (1 - r) * mp.log((1 - r) / (1 - B))
            assert r < B, "the bound is below the mean loss"
            assert n * divergence >= -mp.log(_share(certificate)) * (1 - mp.mpf(10) ** -14), "the bound is too small"
        else:
            tail = mp.fsum(mp.binomial(n, i) * B**i * (1 - B) ** (n - i) for i in range(k + 1))
            assert tail <= _share(certificate), "the bound is too small"


def _intervals_hold(certificate: Any, rows: Any) -> None:
    """κ is the k-th smallest score, and P(Bin(n, level) ≥ k) ≤ δ."""
    from mpmath import mp

    y, n = np.concatenate([part.Y[:, 0] for part in rows.partitions()]), rows.shape[0]
    scores = np.sort(np.abs(y - certificate.predictions) / certificate.spread)
    score = scores[certificate.rank - 1]
    assert score <= certificate.factor <= score * (1.0 + 1e-14), "another factor"  # widened by rounding
    with mp.workdps(40):
        p = mp.mpf(certificate.level)
        above = mp.fsum(mp.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(certificate.rank, n + 1))
        assert above <= _share(certificate), "the rank is too small"


def resealed(data: bytes, rng: np.random.Generator) -> bytes:
    """Other numbers, and the seal that belongs to them."""
    from gpbounds.pacbayes.certificate.sealed import seal

    tree = mutations.mutated_tree(json.loads(data), rng)
    if isinstance(tree, dict):
        with contextlib.suppress(ValueError):
            tree["seal"] = seal(tree)
    return mutations.dumped(tree)


# Models of other libraries


def imported() -> tuple[bytes, ...]:
    from gpbounds import Matern, SquaredExponential
    from gpbounds.kernels import Constant, OnColumns, Periodic, RationalQuadratic
    from gpbounds.means import LinearMean
    from gpbounds.renyi import Model

    X, _ = data()
    mixed = Matern(1.7, 0.3, [0.5, 1.4]) * SquaredExponential(0.3, 7.0) + Constant(0.5)
    other = OnColumns(Periodic(1.0, 0.7, 2.0), [1]) + RationalQuadratic(1.0, 0.5, 2.0)
    models = (Model(mixed, 0.1, X[:4], LinearMean(0.5, [1.0, 2.0])), Model(other, 0.2, None))
    return tuple(written(model.save, ".json") for model in models)


def read_imported(path: Path) -> Any:
    from gpbounds.renyi import Model

    return Model.load(path)


def judge_imported(answer: Any, changed: bytes, original: bytes) -> str:
    """Saved again, the model states what the file states."""
    record, again = json.loads(changed), json.loads(written(answer.save))
    assert again["kernel"] == record["kernel"] or _numbers(again["kernel"]) == _numbers(record["kernel"]), "kernel"
    assert again["noise"] == float(record["noise"]) > 0.0, "noise"  # 2^53 + 1 is read as the double next to it
    assert np.array_equal(np.ravel(again["Z"]), np.ravel(record["Z"])), "Z"
    return SAME if record == json.loads(original) else OTHER


def _numbers(tree: Any) -> list[Any]:
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return sorted(repr(float(v)) for v in items if isinstance(v, int | float)) + [
        each for v in items for each in _numbers(v) if isinstance(v, dict | list)
    ]


# Models of this package


def models() -> tuple[bytes, ...]:
    import fitting
    from gpbounds import SquaredExponential

    X, y = data()
    start: dict[str, Any] = {"max_iter": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = (
            fitting.SparseGP("vfe", n_inducing=3, **start).fit(X, y),
            fitting.SparseGP("pic", n_inducing=3, block_size=5, normalize_y=True, **start).fit(X, y),
            fitting.ExactGP(SquaredExponential(1.0, [1.0, 2.0]), 0.1, **start).fit(X, np.column_stack([y, -y])),
            fitting.VariationalGPClassifier(n_inducing=3, **start).fit(X, np.where(y > 0.0, "yes", "no")),
            fitting.LowRankGP("fourier", rank=4, **start).fit(X, y),
            fitting.SparsePACGP(3, delta=0.01, **start).fit(X, y),
        )
    return tuple(written(model.save, ".npz") for model in fitted)


def read_model(path: Path) -> Any:
    import fitting

    return fitting.load(path)


def judge_model(answer: Any, changed: bytes, original: bytes) -> str:
    """A model that is loaded predicts: numbers of the right shape, or a sentence."""
    X, _ = data(3)
    predict = getattr(answer, "predict_proba", None) or answer.predict
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            mean = predict(X if answer.n_features_in_ == 2 else np.zeros((3, answer.n_features_in_)))
        except (ValueError, ArithmeticError) as error:
            if type(error).__module__ == "numpy.linalg":
                raise
            return "accepted, refuses to predict"
    assert len(mean) == 3, "predictions of another shape"
    return SAME if changed == original else OTHER


# Checkpoints


def _trained(path: Path, most: int, adam: bool) -> Any:
    from fitting.training import Session, train_adam, train_lbfgs

    def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float((x - 1.0) @ (x - 1.0) + (x**4).sum()), 2.0 * (x - 1.0) + 4.0 * x**3

    train: Any = train_adam if adam else train_lbfgs
    session = Session(path, "f", 0)
    free = [(-np.inf, np.inf)] * 3
    return session.run(
        "a", most, lambda earlier, save: train(bowl, np.zeros(3), free, max_iter=most, earlier=earlier, save=save)
    )


def checkpoints(adam: bool) -> tuple[bytes, ...]:
    return (written(lambda path: _trained(path, 4, adam)),)


def judge_checkpoint(answer: Any, changed: bytes, original: bytes) -> str:
    assert np.isfinite(answer.value), "no value"
    assert answer.vector.shape == (3,), "another shape"
    return SAME if changed == original else OTHER


# Arrays and Parquet


def arrays() -> tuple[bytes, ...]:
    X, _ = data()
    made = (X, np.asfortranarray(X), X.astype(np.float32), (10 * X).astype(np.int64), X[:, 0])
    return tuple(written(lambda path, each=each: np.save(path, each), ".npy") for each in made)


def read_npy(path: Path) -> Any:
    from gpbounds.rows import source

    rows = source(path, beside() / "targets.npy")
    return next(iter(rows.holder.partitions())).X


def judge_npy(answer: Any, changed: bytes, original: bytes) -> str:
    expected = np.load(io.BytesIO(changed), allow_pickle=False)
    assert np.array_equal(np.asarray(answer).ravel(), expected.ravel()), "the numbers are others"
    return SAME if changed == original else OTHER


def parquets() -> tuple[bytes, ...]:
    from gpbounds.rows.tables import write_table

    X, y = data()
    return (written(lambda path: write_table(path, ["a", "b", "y"], [np.column_stack([X, y])]), ".parquet"),)


def read_parquet(path: Path) -> Any:
    from gpbounds.rows import read_table, source
    from gpbounds.rows.table_rows import read_rows

    with contextlib.suppress(ValueError):
        source(path, "y")
    with contextlib.suppress(ValueError):
        read_rows(path)
    return read_table(path).values


def judge_parquet(answer: Any, changed: bytes, original: bytes) -> str:
    assert np.isfinite(answer).all(), "not finite"
    return SAME if changed == original else OTHER


# The command line


def read_shell(path: Path) -> Any:
    from gpbounds.cli import main

    table = beside() / "table.csv"
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main(["certify", "check", str(path), "--data", str(table)])
    return status, out.getvalue(), errors.getvalue()


def judge_shell(answer: Any, changed: bytes, original: bytes) -> str:
    status, out, errors = answer
    assert status in (0, 1, 2), f"exit status {status}"
    assert (status == 2) == bool(errors), "a sentence on stderr belongs to exit status 2"
    assert errors.count("\n") <= 1, "more than one line on stderr"
    assert "Traceback" not in out + errors
    return f"exit status {status}"


def readers() -> tuple[Reader, ...]:
    """All of them."""
    beside()
    has_arrow = True
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        has_arrow = False
    listed = (
        Reader("tables: CSV", ".csv", tables, mutations.TABLE, read_csv, judge_csv, 0.24),
        Reader("tables: .csv.gz", ".csv.gz", packed_tables, PACKED, read_csv, judge_gz, 0.06, unpacks=100),
        Reader("certificates", ".json", certificates, mutations.JSON, read_certificate, judge_certificate, 0.24),
        Reader("certificates, sealed anew", ".json", certificates, (resealed,), read_certificate, judge_sealed, 0.03),
        Reader("models of other libraries", ".json", imported, mutations.JSON, read_imported, judge_imported, 0.22),
        Reader("models", ".npz", models, mutations.ARCHIVE, read_model, judge_model, 0.06),
        *(
            Reader(name, "", partial(checkpoints, adam), mutations.ARCHIVE, read, judge_checkpoint, 0.015, True)
            for name, adam, read in (
                ("checkpoints: L-BFGS", False, lambda path: _trained(path, 7, False)),
                ("checkpoints: Adam", True, lambda path: _trained(path, 7, True)),
            )
        ),
        Reader(".npy files", ".npy", arrays, mutations.NPY, read_npy, judge_npy, 0.1),
        *(
            [Reader("Parquet files", ".parquet", parquets, mutations.BYTES, read_parquet, judge_parquet, 0.04)]
            if has_arrow
            else []
        ),
        Reader("gpbounds certify check", ".json", certificates, mutations.JSON, read_shell, judge_shell, 0.01),
    )
    return listed
