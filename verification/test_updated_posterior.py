"""Posteriors relative to a prior that other rows have given: KL and laws against 60 digits, in doubles and enclosed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.divergences import pairs
from gpbounds.divergences.sparse import updated_at
from gpbounds.kernels import Kernel
from gpbounds.kernels.matrices import EnclosedKernel
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.losses import Band, Sign
from gpbounds.pacbayes import Certificate, HyperGrid, Split, Updated
from gpbounds.pacbayes.certificate.rows import Partitions, fingerprint, raw
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.reference import divergences as reference
from gpbounds.reference import losses as reference_losses
from gpbounds.reference import pacbayes as reference_bounds
from gpbounds.reference import spectra as reference_kernels
from gpbounds.rigor import at_bits
from gpbounds.whitening import inducing

SEEDS = st.integers(0, 2**32 - 1)
DIGITS = 60
FIRST = [213000021201967259, 4455796210202625458]
"""The first two numbers of Philox 4×64 with key 0."""


def triangle(rng: np.random.Generator, M: int, size: float) -> np.ndarray:
    """A lower triangular factor whose diagonal spans four orders of magnitude."""
    C = np.tril(rng.standard_normal((M, M)) * size * 0.3, -1)
    C[np.diag_indices(M)] = size * np.exp(rng.uniform(-7.0, 0.7, M))
    return C


def problem(seed: int) -> tuple[Kernel, Updated, np.ndarray]:
    """A kernel, a posterior relative to a prior, and points, some of them inducing points."""
    rng = np.random.default_rng(seed)
    M = int(rng.integers(1, 6))
    kernel: Kernel = (SquaredExponential, lambda v, s: Matern(1.5, v, s))[int(rng.integers(2))](
        float(np.exp(rng.normal())), float(rng.uniform(0.3, 2.0))
    )
    Z = np.sort(rng.uniform(0.0, 4.0, (M, 1)), axis=0) + 0.2 * np.arange(M)[:, None]
    jitter = float(rng.choice([0.0, 1e-10, 1e-3]))
    record = Updated(
        Z, rng.normal(0.0, 2.0, M), triangle(rng, M, 1.0), rng.normal(0.0, 3.0, M), triangle(rng, M, 1.0), jitter
    )
    return kernel, record, np.concatenate([Z[:2], rng.uniform(-1.0, 6.0, (4, 1))])


def column(values: np.ndarray) -> Any:
    return mp.matrix([mp.mpf(float(v)) for v in values])


def square(values: np.ndarray) -> Any:
    return mp.matrix([[mp.mpf(float(v)) for v in row] for row in values])


def truths(kernel: Kernel, record: Updated, X: np.ndarray) -> tuple[Any, list[Any], list[Any]]:
    """KL(Q‖P) of the two laws of u, and the latent means and variances at X under Q."""
    M, n = len(record.Z), len(X)
    K = reference_kernels.gram(kernel_to_plain(kernel), np.concatenate([record.Z, X]).tolist())
    Kuu, Kus, Kss = K[:M, :M] + mp.mpf(float(record.jitter)) * mp.eye(M), K[:M, M:], K[M:, M:]
    numbers = column(record.prior_mean), square(record.prior_factor), column(record.mean), square(record.factor)
    mean1, cov1, mean2, cov2 = reference.relative_laws(mp.cholesky(Kuu), *numbers)
    means, covariance = reference.sparse_law(Kuu, Kus, Kss, mean2, cov2)
    return reference.gaussian_kl(mean2, cov2, mean1, cov1), list(means), [covariance[i, i] for i in range(n)]


def enclosed(ball: Any, value: Any) -> bool:
    """Whether a ball holds a number of 60 digits."""
    with at_bits(300):
        low, high = (mp.mpf(str(end.str(60, radius=False))) for end in (ball.lower(), ball.upper()))
    slack = mp.mpf(10) ** -45 * (1 + abs(value))
    return bool(low - slack <= value <= high + slack)


@pytest.mark.claim("N-data-prior")
@given(seed=SEEDS)
def test_kl_and_laws_in_doubles_and_in_thirty_digits(observe: Observer, seed: int) -> None:
    kernel, record, X = problem(seed)
    prior, own = (record.prior_mean, record.prior_factor), (record.mean, record.factor)
    error = value_error(kernel, np.full(1, 8.0))
    points = inducing(kernel, record.Z, float(record.jitter))
    q = updated_at(points, prior, *own, error)
    at = q.predict(X)
    law = pairs.updated_law(EnclosedKernel.of(kernel), record.Z, prior, *own, float(record.jitter))
    latent = law.latent(X)
    with mp.workdps(DIGITS):
        kl, means, variances = truths(kernel, record, X)
        observe.equal("N-data-prior", q.kl, float(kl), rtol=1e-11)
        observe.upper("N-data-prior", abs(mp.mpf(q.kl) - kl), q.kl_rounding)
        observe.holds("N-data-prior", enclosed(law.kl, kl))
        for computed, allowed, truth in (
            (at.mean, at.mean_error, means),
            (at.variance, at.variance_error, variances),
        ):
            gaps = [abs(mp.mpf(float(value)) - exact) for value, exact in zip(computed, truth, strict=True)]
            observe.upper("N-data-prior", gaps, np.asarray(allowed))
        for (high, low), allowed, truth in (
            (latent.mean, latent.mean_error, means),
            (latent.variance, latent.variance_error, variances),
        ):
            gaps = [
                abs(mp.mpf(float(h)) + mp.mpf(float(rest)) - exact)
                for h, rest, exact in zip(high, low, truth, strict=True)
            ]
            observe.upper("N-data-prior", gaps, allowed)


@pytest.mark.claim("N-data-prior")
def test_products_of_factors_err_by_less_than_their_allowance(observe: Observer) -> None:
    """Products C₁C and C₁μ that cancel: the rounding of the products dominates all other errors."""
    rng = np.random.default_rng(5)
    kernel, M = SquaredExponential(1.0, 0.3), 40
    Z = np.arange(M, dtype=float)[:, None]  # Kuu is the identity to rounding: its factor has no error of note
    C1, C = np.tril(rng.standard_normal((M, M)) * 1e4), np.tril(rng.standard_normal((M, M)) * 1e4)
    for factor in (C1, C):
        factor[np.diag_indices(M)] = np.abs(factor.diagonal()) + 1.0
    mean1, mean = rng.standard_normal(M), rng.standard_normal(M) * 1e4
    q = updated_at(inducing(kernel, Z, 0.0), (mean1, C1), mean, C, 0.0)
    with mp.workdps(DIGITS):
        whole, moved = square(C1) * square(C), column(mean1) + square(C1) * column(mean)
        off = mp.mnorm(whole - square(q.factor), "f"), mp.norm(moved - column(q.mean))
    plain = q.errors
    none = updated_at(inducing(kernel, Z, 0.0), (0.0 * mean1, np.eye(M)), q.mean, q.factor, 0.0).errors
    observe.upper("N-data-prior", off[0], plain.d_length - none.d_length + 1e-30)
    observe.upper("N-data-prior", off[1], plain.mean_length - none.mean_length + 1e-30)
    observe.holds("N-data-prior", bool(off[0] > 1e-9 and off[1] > 1e-9))  # there was something to allow for


@pytest.mark.broad
@pytest.mark.claim("N-data-prior")
@pytest.mark.parametrize(("loss", "predictor"), [(Band(0.7), "gibbs"), (Band(0.7), "mean"), (Sign(), "mean")])
@given(seed=SEEDS)
def test_certificates_state_the_bound_of_the_certified_rows(
    observe: Observer, seed: int, loss: Any, predictor: str
) -> None:
    rng = np.random.default_rng(seed)
    kernel, record, _ = problem(seed)
    N, grid, split = 21, HyperGrid((0.0, 0.0), (0.0, 0.0), (0, 0)), Split("random", 0.4, seed=seed % 1000)
    kernel = SquaredExponential(1.0, 1.0)
    X, y = rng.uniform(0.0, 4.0, (N, 1)), rng.choice([-1.0, 1.0], N)
    made = Certificate.issue(X, y, record, kernel, grid=grid, loss=loss, delta=0.05, split=split, predictor=predictor)
    kept = ~split.prior(N)
    with mp.workdps(DIGITS):
        kl, means, variances = truths(kernel, record, X[kept])
        of = (
            reference_losses.sign
            if isinstance(loss, Sign)
            else lambda t, m, v: reference_losses.interval(t - loss.epsilon, t + loss.epsilon, m, v)
        )
        losses = [of(mp.mpf(t), m, v) for t, m, v in zip(y[kept].tolist(), means, variances, strict=True)]
        n = int(kept.sum())
        risk, tandem = mp.fsum(losses) / n, mp.fsum(e * e for e in losses) / n
        count = 2 if predictor == "mean" else 1
        truth = reference_bounds.bound(risk, kl, n, mp.mpf("0.05") / count)
        if predictor == "mean":
            truth = min(2 * truth, 4 * reference_bounds.bound(tandem, 2 * kl, n, mp.mpf("0.05") / count), mp.mpf(1))
    observe.upper("N-data-prior", truth, made.bound)
    observe.holds("N-data-prior", made.bound <= float(truth) * (1.0 + 1e-4) + 1e-9)
    observe.holds("N-data-prior", made.check(X, y).confirmed and made.check(X, y, rigorous=True).confirmed)


@pytest.mark.claim("N-data-prior")
def test_the_prior_itself_costs_nothing(observe: Observer) -> None:
    rng = np.random.default_rng(0)
    Z, C1 = np.linspace(0.0, 3.0, 4)[:, None], triangle(rng, 4, 1.0)
    record = Updated(Z, rng.standard_normal(4), C1, np.zeros(4), np.eye(4), 0.0)
    X, y = rng.uniform(0.0, 3.0, (30, 1)), rng.standard_normal(30)
    grid = HyperGrid((0.0, 0.0), (0.0, 0.0), (0, 0))
    made = Certificate.issue(X, y, record, SquaredExponential(1.0, 1.0), grid=grid, loss=Band(0.5), delta=0.05)
    observe.equal("N-data-prior", made.kl, 0.0, rtol=0.0, atol=1e-12)
    observe.holds("N-data-prior", made.log_count == 0.0)


def test_the_split_is_that_of_the_first_numbers_of_philox() -> None:
    """Written once more with Philox's own counters, block by block, so that the numbers cannot move."""
    for seed, N, share in ((0, 11, 0.5), (7, 100, 0.3), (2**63 + 5, 8, 0.9)):
        words = [int(np.random.Philox(key=seed, counter=i // 4).random_raw(i % 4 + 1)[-1]) for i in range(N)]
        order = sorted(range(N), key=lambda i: (words[i], i))
        chosen = set(order[: int(np.floor(share * N + 0.5))])
        assert Split("random", share, seed).prior(N).tolist() == [i in chosen for i in range(N)]
    assert [int(w) for w in np.random.Philox(key=0).random_raw(2)] == FIRST


def test_partitions_and_arrays_give_the_same_certified_rows(tmp_path: Path) -> None:
    table, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y}
    parquet.write_table(table.table(columns), tmp_path / "rows.parquet", row_group_size=3)
    split = Split("random", 0.9, seed=4)  # some partitions have no certified row
    streamed = raw(str(tmp_path / "rows.parquet"), "y")
    assert isinstance(streamed, Partitions)
    assert any(not part.any() for part in np.split(~split.prior(50), range(3, 50, 3)))
    for part in ("certified", "prior"):
        kept = split.prior(50) if part == "prior" else ~split.prior(50)
        chosen = getattr(streamed, part)(split)
        assert chosen.fingerprint == getattr(raw(X, y), part)(split).fingerprint == fingerprint(X[kept], y[kept])
