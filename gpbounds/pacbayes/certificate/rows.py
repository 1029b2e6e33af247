"""The raw data of a certificate: arrays, or rows that are read by partitions."""

from __future__ import annotations

import hashlib
import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds import divergences
from gpbounds.arrays import EPS, Float, array_of, as_points, exactly, is_cupy
from gpbounds.divergences.measured import measured
from gpbounds.divergences.sparse import (
    CollapsedLaw,
    CollapsedSums,
    SparsePosterior,
    free_at,
    updated_at,
    whitened_at,
)
from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.losses import Loss
from gpbounds.once import cached_property
from gpbounds.pacbayes.certificate.declarations import DeclaredMean, Scaling
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Updated, Whitened
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.records import DIGEST, NATURAL, Record, Slots
from gpbounds.rows import Source, is_elsewhere, source
from gpbounds.rows.engines import Changed, Engine, Memory
from gpbounds.rows.program import Program, Round, Rows, Statistics
from gpbounds.rows.source import changed
from gpbounds.whitening import Inducing, as_targets, inducing, with_jitter

# R_S(Q) and KL(Q‖P) from data, each with a bound on its rounding error.

LEAST = 1e-300
"""Least variance of f and of the noise."""


@dataclass(frozen=True)
class Enclosed:
    """R_S, KL and T_S, each at most its value plus its error, and the jitter of Q.

    T_S is the mean of (E ℓ)², the tandem risk of a loss that is 0 or 1.  In doubles each number is also at least its
    value less its error.  In 30 digits the value is a proved upper end, and the error covers the differences between
    machines.
    """

    risk: float
    risk_error: float
    kl: float
    kl_error: float
    jitter: float = 0.0
    digits: Literal[16, 30] = 16
    tandem: float = math.nan
    tandem_error: float = math.inf


def enclose(posterior: Posterior, kernel: Kernel, X: Float, y: Float, loss: Loss) -> Enclosed:
    """R_S(Q) = (1/N) Σ E ℓ(y_i, f_i), f_i ~ Q(f(x_i)) without noise, and KL(Q‖P), P = GP(0, ``kernel``)."""
    reach = np.abs(X).max(axis=0)
    if not isinstance(posterior, Exact):
        return _enclose_rows(posterior, kernel, Memory([in_memory(X, y)]), reach, loss)
    with one_blas_thread():
        error = entry_error(posterior, kernel, reach)
        q = divergences.full_posterior(kernel, X, y, noise=posterior.noise, entry_error=error)
        return enclosed(q, *_sums_of_losses(q.predict(), y, loss), y.size)


def _sums_of_losses(at_data: divergences.Prediction, y: Float, loss: Loss) -> tuple[float, float, float, float]:
    """The sums of the expected losses e and of their allowances a, of e² and of (2e + a)a, each rounded once."""
    expected = loss.expectation(y, at_data.mean, at_data.variance)
    allowed = loss.allowance(y, at_data.mean, at_data.variance, at_data.mean_error, at_data.variance_error)
    squares, in_squares = expected * expected, (2.0 * expected + allowed) * allowed
    return math.fsum(expected), math.fsum(allowed), math.fsum(squares), math.fsum(in_squares)


def enclosed(q: Any, losses: float, allowances: float, squares: float, in_squares: float, N: int) -> Enclosed:
    """R_S, KL and T_S of Q, with ``kl`` and ``kl_rounding``, from the sums over all N rows.

    Each quotient is rounded once, and each sum once, or twice if it is one of sums over partitions; each square and
    each of its allowances is rounded, too.
    """
    kl, kl_error = float(q.kl), float(q.kl_rounding)
    kl_error = math.inf if math.isnan(kl_error) or math.isnan(kl) else kl_error
    return Enclosed(
        losses / N,
        allowances / N + 4.0 * EPS,
        kl,
        kl_error,
        float(getattr(q, "jitter", 0.0)),
        tandem=squares / N,
        tandem_error=in_squares / N * (1.0 + 4.0 * EPS) + 6.0 * EPS,
    )


def entry_error(posterior: Posterior, kernel: Kernel, reach: Float) -> float:
    """`value_error` in the box that holds the rows, |x_d| ≤ reach_d, and the inducing points; numbers within range.

    Raises
    ------
    ValueError
        for a variance or a noise variance below 1e-300, where doubles lose relative accuracy.
    """
    noise = getattr(posterior, "noise", LEAST)
    for name, size in (
        ("kernel: expected a variance", kernel.max_variance),
        ("noise: expected a noise variance", noise),
    ):
        if not size >= LEAST:
            raise ValueError(
                f"{name} of at least {LEAST:g}, below which doubles have fewer digits, got {shown(size)}: scale the "
                "targets"
            )
    return value_error(kernel, _reach_with(posterior, reach))


def _reach_with(posterior: Posterior, reach: Float) -> Float:
    """The largest |x_d| among the rows, which is ``reach`` (D,), and the inducing points of ``posterior``."""
    Z = getattr(posterior, "Z", None)
    if Z is None:
        return reach
    if Z.shape[1] != reach.size:
        raise ValueError(f"Z: expected {reach.size} columns, as the inputs have, got {Z.shape[1]}")
    return np.maximum(reach, np.abs(Z).max(axis=0))


def _from_record(posterior: Posterior, kernel: Kernel, error: float) -> divergences.SparsePosterior:
    """A Q that does not depend on the data; ``error`` bounds that of the kernel's values."""
    if isinstance(posterior, Free | Whitened | Updated):
        points = measured(inducing(kernel, posterior.Z, posterior.jitter), error)
        if isinstance(posterior, Updated):
            prior = posterior.prior_mean, posterior.prior_factor
            return updated_at(points, prior, posterior.mean, posterior.factor, error)
        if isinstance(posterior, Free):
            return free_at(points, posterior.mean, posterior.cov, None, error)
        return whitened_at(points, posterior.mean, posterior.factor, None, error)
    raise ValueError(f"posterior: expected Exact, Sparse, Free, Whitened or Updated, got {type(posterior).__name__}")


# R_S(Q) and KL(Q‖P) from the rows that an engine holds: a pass for Q if it depends on them, and one for R_S.


def _enclose_rows(posterior: Posterior, kernel: Kernel, engine: Engine, reach: Float, loss: Loss) -> Enclosed:
    """As `enclose`, for the scaled rows of ``engine``: |x_d| ≤ reach_d."""
    error = entry_error(posterior, kernel, reach)
    if isinstance(posterior, Exact):
        raise ValueError(
            "posterior: expected a sparse one for rows that are read by partitions, got the exact GP posterior, which "
            "needs all rows in memory"
        )
    losses = Round(partial(_losses, loss), _enclosed_sums)
    if not isinstance(posterior, Sparse):
        return engine.run(Program(partial(_from_record, posterior, kernel, error), (losses,)))
    law, Z = CollapsedLaw(posterior.noise, posterior.power, error), posterior.Z
    sums = Round(partial(_sums, law), law.posterior)

    def attempt(amount: float) -> Enclosed:
        return engine.run(Program(partial(_measured, kernel, Z, amount, error), (sums, losses)))

    return with_jitter(attempt, kernel, Z, posterior.jitter)


@dataclass(frozen=True, eq=False)
class _RiskSums(Statistics):
    """The sums of the expected losses, of their allowances, and of both for their squares, of each partition."""

    sums: tuple[tuple[float, float, float, float], ...]
    rows: int


def _measured(kernel: Kernel, Z: Float, jitter: float, error: float) -> Inducing:
    """The factor of Kuu."""
    return measured(inducing(kernel, Z, jitter), error)


def _sums(law: CollapsedLaw, whitener: Inducing, rows: Rows) -> CollapsedSums:
    """The sums of one partition from which Q is computed."""
    return law.sums(whitener, rows.X, rows.Y[:, 0])


def _losses(loss: Loss, q: SparsePosterior, rows: Rows) -> _RiskSums:
    """The sums of one partition, each rounded once."""
    return _RiskSums((_sums_of_losses(q.predict(rows.X), rows.Y[:, 0], loss),), len(rows.Y))


def _enclosed_sums(q: SparsePosterior, sums: _RiskSums) -> Enclosed:
    """R_S, KL and T_S from the sums of all partitions."""
    losses, allowances, squares, in_squares = map(math.fsum, zip(*sums.sums, strict=True))
    return enclosed(q, losses, allowances, squares, in_squares, sums.rows)


# The fingerprint of a data set: its shapes and the SHA-256 of its raw values, row by row.

HELD = 2**28
"""Bytes of targets that stay in memory while X is hashed."""


@dataclass(frozen=True)
class Fingerprint(Record):
    """Shapes and SHA-256 of a data set (X, y) in the order of its rows.

    The hash is of the bytes ``b"X (N, D)\\n"``, X as little-endian float64 row by row, ``b"y (N,)\\n"``, y likewise, N
    and D in decimal digits, so that any language can recompute it.  The values are the *raw* ones, before scaling.

    Attributes
    ----------
    sha256 : str
        64 hexadecimal digits.
    rows, columns : int
        N and D of X (N, D).

    >>> fingerprint([[0.0], [1.0]], [2.0, 3.0]).sha256[:16]
    'cd5a01aa8da839db'
    """

    sha256: str
    rows: int
    columns: int
    stored: ClassVar[Slots] = {"sha256": DIGEST, "rows": NATURAL, "columns": NATURAL}


def as_data(X: ArrayLike, y: ArrayLike) -> tuple[Float, Float]:
    """(X, y) as float64 arrays (N, D) and (N,) with exactly the numbers given.

    Raises
    ------
    ValueError
        for float32 (a certificate holds for the numbers that it hashes), CuPy arrays, wrong shapes, whole numbers
        beyond 2⁵³, or what `gpbounds.arrays.exactly` refuses.
    NonFinite
        for NaN or infinity.
    """
    for name, array in (("X", X), ("y", y)):
        if is_cupy(array):
            raise ValueError(f"{name}: expected a NumPy array, got a CuPy array: certificates are checked on the CPU")
        kind = array_of(np, name, array).dtype
        if kind.kind == "f" and kind.itemsize != 8:
            raise ValueError(
                f"{name}: expected float64, got {kind}: a certificate identifies the exact numbers for which it holds"
            )
    points = as_points(X, "X")
    targets = as_targets(y, points)
    if targets.ndim != 1:
        raise ValueError(f"y: expected one target a row, shape ({points.shape[0]},), got {targets.shape}")
    for name, array, taken in (("X", X, points), ("y", y, targets)):
        if np.asarray(exactly(name, array)).dtype.kind in "iu" and np.abs(taken).max() >= 2.0**53:
            raise ValueError(f"{name}: expected whole numbers below 2^53, which doubles hold exactly")
    return points, targets


def fingerprint(X: ArrayLike, y: ArrayLike) -> Fingerprint:
    """The `Fingerprint` of (X, y); arguments and errors as of `as_data`."""
    return digest(*as_data(X, y))


def digest(X: Float, y: Float) -> Fingerprint:
    """The `Fingerprint` of checked arrays."""
    return _digest_of_rows([in_memory(X, y)], *X.shape)


def in_memory(X: Float, y: Float) -> Rows:
    """X (N, D) and y (N,) as one partition."""
    return Rows(X, y[:, None], 0)


def _digest_of_rows(partitions: Iterable[Rows], N: int, D: int) -> Fingerprint:
    """The `Fingerprint` of N rows with D columns in partitions, in one pass: that of the same rows in arrays.

    The hash takes y after all of X.  Until then, y is kept in memory, or beyond 256 MiB in a temporary file.

    >>> X, y = np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]])
    >>> _digest_of_rows([Rows(X[:1], y[:1], 0), Rows(X[1:], y[1:], 1)], 2, 1).sha256[:16]
    'cd5a01aa8da839db'
    """
    first, second = _heads(N, D)
    sha = hashlib.sha256(first)
    with tempfile.SpooledTemporaryFile(max_size=HELD) as targets:
        for rows in partitions:
            sha.update(_bytes(rows.X))
            targets.write(_bytes(rows.Y))
        targets.seek(0)
        sha.update(second)
        while piece := targets.read(2**20):
            sha.update(piece)
    return Fingerprint(sha.hexdigest(), N, D)


def _heads(N: int, D: int) -> tuple[bytes, bytes]:
    return f"X ({N}, {D})\n".encode(), f"y ({N},)\n".encode()


def _bytes(array: Float) -> bytes:
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


# The raw data of a certificate: arrays, or rows that are read by partitions.


class Raw(ABC):
    """Raw rows (X, y), as a certificate identifies them."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(N, D)."""

    @abstractmethod
    def partitions(self) -> Iterator[Rows]:
        """The raw rows in this process, part by part: one part for arrays."""

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The shapes and the SHA-256 of all values, row by row: the same for arrays and for any partitions."""
        return _digest_of_rows(self.partitions(), *self.shape)

    def certified(self, split: Split | None) -> Raw:
        """The rows that are not the prior's; all rows for None."""
        return self if split is None else self.chosen(~split.prior(self.shape[0]))

    def prior(self, split: Split) -> Raw:
        """The prior's rows."""
        return self.chosen(split.prior(self.shape[0]))

    @abstractmethod
    def chosen(self, mask: NDArray[np.bool_]) -> Raw:
        """The rows where ``mask`` (N,) is True, in their order."""

    @abstractmethod
    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        """`Scaling.doubt` of X and of y."""

    def doubt_of_mean(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean) -> str:
        """`DeclaredMean.doubt`, for rows that are in memory."""
        return ""

    @abstractmethod
    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        """R_S and KL of the scaled rows, whose targets are those minus the prior's mean."""

    def parts(
        self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None
    ) -> Iterator[tuple[Float, Float]]:
        """The scaled rows in this process, X (n, D) and y − m(x) (n,), part by part."""
        for rows in map(Scaled(inputs, outputs, mean), self.partitions()):
            yield rows.X, rows.Y[:, 0]


@dataclass(frozen=True, eq=False)
class Arrays(Raw):
    """Arrays (N, D) and (N,)."""

    X: Float
    y: Float

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    def partitions(self) -> Iterator[Rows]:
        yield in_memory(self.X, self.y)

    def chosen(self, mask: NDArray[np.bool_]) -> Arrays:
        return Arrays(self.X[mask], self.y[mask])

    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        return inputs.doubt(self.X), outputs.doubt(self.y)

    def doubt_of_mean(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean) -> str:
        try:
            return mean.doubt(inputs.apply(self.X), outputs.apply(self.y))
        except ValueError:  # a mean or constants for another number of columns
            return ""

    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        return enclose(posterior, kernel, *Scaled(inputs, outputs, mean).apply(self.X, self.y), loss)


@dataclass(frozen=True, eq=False)
class Partitions(Raw):
    """Rows that are read by partitions."""

    rows: Source

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.N, self.rows.D

    def partitions(self) -> Iterator[Rows]:
        return self.rows.holder.partitions()

    def chosen(self, mask: NDArray[np.bool_]) -> Partitions:
        """The same partitions without the other rows; one pass."""
        ends = np.cumsum(self.rows.sizes)
        masks = {
            int(n): mask[end - size : end]
            for n, size, end in zip(self.rows.numbers, self.rows.sizes, ends, strict=True)
        }
        return Partitions(changed(self.rows, _Chosen(masks)))

    def scaled(self, inputs: Scaling, outputs: Scaling, mean: DeclaredMean | None = None) -> Engine:
        """The rows in the units of the model, whose targets are those minus the prior's mean."""
        return Changed(self.rows.holder, Scaled(inputs, outputs, mean))

    def doubts(self, inputs: Scaling, outputs: Scaling) -> tuple[str, str]:
        moments, D, N = self.rows.moments, self.rows.D, self.rows.N
        mean, std = moments.mean, moments.variance**0.5
        return inputs.doubt_of(mean[:D], std[:D], N), outputs.doubt_of(mean[D:], std[D:], N)

    def enclose(
        self,
        posterior: Posterior,
        kernel: Kernel,
        inputs: Scaling,
        outputs: Scaling,
        loss: Loss,
        mean: DeclaredMean | None = None,
    ) -> Enclosed:
        D = self.rows.D
        largest = self.rows.moments.unit[None, :D]  # |x|; scaling is monotone, in doubles, too
        reach = np.maximum(np.abs(inputs.apply(largest)), np.abs(inputs.apply(-largest)))[0]
        return _enclose_rows(posterior, kernel, self.scaled(inputs, outputs, mean), reach, loss)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The change of a partition's rows into those that ``masks`` has for its number."""

    masks: dict[int, NDArray[np.bool_]]

    def __call__(self, rows: Rows) -> Rows:
        mask = self.masks[rows.number]
        return rows._replace(X=rows.X[mask], Y=rows.Y[mask])


@dataclass(frozen=True)
class Scaled:
    """The change of raw rows into the units of the model, with targets minus the prior's mean."""

    inputs: Scaling
    outputs: Scaling
    mean: DeclaredMean | None = None

    def __call__(self, rows: Rows) -> Rows:
        X, Y = self.apply(rows.X, rows.Y)
        return rows._replace(X=X, Y=Y)

    def apply(self, raw_X: Float, raw_y: Float) -> tuple[Float, Float]:
        """X (N, D) and y (N,) or (N, 1)."""
        X, y = self.inputs.apply(raw_X), self.outputs.apply(raw_y)
        return X, y if self.mean is None else self.mean.apply(X, y)


def raw(X: Any, y: Any = None) -> Raw:
    """The raw data: arrays as `as_data` takes them, rows as `gpbounds.rows.source` takes them, or a `Raw` itself.

    Raises
    ------
    ValueError, NonFinite
        as `as_data` and `gpbounds.rows.source`; for several targets, and for float32.

    >>> raw([[0.0], [1.0]], [2.0, 3.0]).fingerprint.sha256[:16]
    'cd5a01aa8da839db'
    """
    if isinstance(X, Raw):
        return X
    if not is_elsewhere(X):
        return Arrays(*as_data(X, y))
    rows = source(X, y)
    if not rows.single:
        raise ValueError(f"y: expected one target a row, shape ({rows.N},), got {(rows.N, rows.P)}")
    if not rows.exact:
        raise ValueError(
            "X, y: expected float64, or whole numbers below 2^53, in every partition, got others: a certificate "
            "identifies the exact numbers for which it holds"
        )
    return Partitions(rows)
