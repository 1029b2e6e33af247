"""Bounds on the log evidence at large N: against dense algebra, on lanes, on a device, for bad input."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.iterative import evidence
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.tiles import Products
from gpbounds.renyi import brackets, log_evidence
from gpbounds.vecchia import Blocks, factor, near
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

SMALL: dict[str, Any] = {"block": 40, "neighbours": 60}


def data(N: int, D: int = 2, seed: int = 0, P: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (N, D))
    y = np.sin(X.sum(axis=1))[:, None] + 0.3 * rng.standard_normal((N, P))
    return X, y[:, 0] if P == 1 else y


def truth(kernel: Kernel, X: Any, y: Any, noise: float) -> float:
    columns = y[:, None] if y.ndim == 1 else y
    return sum(float(log_evidence(kernel, X, column, noise=noise)) for column in columns.T)


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("lengthscale", [0.05, 1.0, 50.0])
def test_bounds_contain_the_log_evidence(noise: float, lengthscale: float) -> None:
    """From nearly independent rows to a K of rank 10: contained, and narrow where K has a spectrum at all."""
    X, y = data(250)
    kernel = SquaredExponential(1.0, lengthscale)
    lower, upper = evidence(kernel, X, y, noise=noise, rng=0, **SMALL)
    exact = truth(kernel, X, y, noise)
    assert lower <= exact <= upper
    assert upper - lower < 30.0 + 0.01 * abs(exact)


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(0.5, 1.0, 2.0),
        Matern(2.5, 2.0, [1.0, 3.0]),
        SquaredExponential(1.0, 2.0) + Matern(0.5, 0.1),
        SquaredExponential() * Matern(1.5, 1.0, 4.0),
    ],
)
def test_kernels_and_several_outputs(kernel: Kernel) -> None:
    X, Y = data(220, P=3)
    lower, upper = evidence(kernel, X, Y, noise=0.05, rng=1, **SMALL)
    exact = truth(kernel, X, Y, 0.05)
    assert lower <= exact <= upper
    assert upper - lower < 12.0
    assert lower.confidence == upper.confidence == 0.95


def test_both_bounds_miss_no_more_often_than_delta() -> None:
    """30 runs at delta = 0.5: at most 24 misses (binomial, 1e-3); all statements of one run come from its probes.

    In some of these runs the first probes prove a lower bound above the upper one.
    """
    X, y = data(60, D=1)
    kernel = SquaredExponential(1.0, 0.5)
    exact = truth(kernel, X, y, 0.01)
    misses = 0
    for seed in range(30):
        lower, upper = evidence(kernel, X, y, noise=0.01, delta=0.5, rng=seed, block=10, neighbours=5)
        misses += not lower <= exact <= upper
    assert misses <= 24


def test_a_complete_factor_needs_no_probes() -> None:
    """One block, or all earlier rows as neighbours: the bounds differ by the quadratic form and rounding only."""
    X, y = data(90)
    for sizes in ({"block": 100, "neighbours": 0}, {"block": 20, "neighbours": 90}):
        lower, upper = evidence(Matern(1.5), X, y, noise=0.1, rng=0, **sizes)
        exact = truth(Matern(1.5), X, y, 0.1)
        assert lower <= exact <= upper
        assert upper - lower < 1e-6
        assert lower.terms["probes"] == 0


def test_one_row_and_equal_rows() -> None:
    lower, upper = evidence(SquaredExponential(), [[0.0]], [1.0], noise=0.5)
    exact = -0.5 * (np.log(2.0 * np.pi * 1.5) + 1.0 / 1.5)
    assert lower <= exact <= upper
    assert upper - lower < 1e-9
    X, y = data(60, D=1)
    X, y = np.concatenate([X, X]), np.concatenate([y, y + 0.1])
    lower, upper = evidence(SquaredExponential(), X, y, noise=0.1, rng=0, block=16, neighbours=8)
    assert lower <= truth(SquaredExponential(), X, y, 0.1) <= upper


def test_targets_of_zero() -> None:
    X, y = data(100)
    lower, upper = evidence(Matern(0.5), X, np.zeros_like(y), noise=0.1, rng=0, **SMALL)
    assert lower <= truth(Matern(0.5), X, np.zeros_like(y), 0.1) <= upper
    assert lower.terms["quadratic"].tolist() == [0.0, 0.0]


def test_width() -> None:
    """More probes until the bounds are near enough; where they cannot be, the assumptions say so."""
    X, y = data(300)
    kernel, settings = Matern(0.5, 1.0, 0.5), {"noise": 0.01, "block": 20, "neighbours": 10, "rng": 0}
    first = evidence(kernel, X, y, **settings)
    wanted = 0.6 * float(first[1] - first[0])
    lower, upper = evidence(kernel, X, y, width=wanted, **settings)
    exact = truth(kernel, X, y, 0.01)
    assert lower <= exact <= upper
    assert upper - lower <= wanted
    assert lower.terms["probes"] > first[0].terms["probes"] == 256
    lower, upper = evidence(kernel, X, y, width=1e-4, **settings)
    assert lower <= exact <= upper
    assert lower.terms["probes"] == 4096
    assert any("do not reach width = 0.0001" in sentence for sentence in lower.assumptions)


def test_progress_counts_products_and_changes_no_bit(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = data(200)
    kernel = SquaredExponential(1.0, 0.5)
    expected = evidence(kernel, X, y, noise=0.05, rng=0, **SMALL)
    assert capsys.readouterr().err == ""
    shown = evidence(kernel, X, y, noise=0.05, rng=0, progress=True, **SMALL)
    assert list(map(float, shown)) == list(map(float, expected))
    assert "log p(y)" in capsys.readouterr().err


def test_probes() -> None:
    """16 times the probes, a tenth of them deep: between 1/6.4 and a third of the standard error."""
    X, y = data(300)
    kernel, settings = Matern(0.5, 1.0, 0.5), {"noise": 0.01, "block": 20, "neighbours": 10, "rng": 0}
    few, many = (evidence(kernel, X, y, probes=m, **settings)[0] for m in (10, 160))
    assert (few.terms["probes"], many.terms["probes"]) == (10, 160)
    assert few.terms["standard error"] / 6.4 < many.terms["standard error"] < few.terms["standard error"] / 3.0
    lower, upper = evidence(kernel, X, y, probes=160, **settings)
    assert lower <= truth(kernel, X, y, 0.01) <= upper
    with pytest.raises(ValueError, match="probes: expected a whole number"):
        evidence(kernel, X, y, noise=0.1, probes=1)


@pytest.mark.slow
def test_few_neighbours_take_a_deeper_pilot() -> None:
    """Least eigenvalue of B near 0.02: 24 steps prove nothing positive, and the ends were 240 nats apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(1500)
    lower, upper = evidence(SquaredExponential(), X, y, noise=0.1, rng=0, block=20, neighbours=10)
    assert lower.terms["eigenvalues of B"][0] > 0.0
    assert lower <= truth(SquaredExponential(), X, y, 0.1) <= upper
    assert upper - lower < 20.0


def test_the_deterministic_member() -> None:
    """ "vecchia" does not depend on the inducing points, and is log p(y) where the factor is complete."""
    X, y = data(300)
    kernel = SquaredExponential(1.0, 0.4)
    exact = truth(kernel, X, y, 0.01)
    for M in (5, 50):
        lower, _ = brackets.evidence(kernel, X, y, X[:M], noise=0.01, members=("vecchia",))
        assert exact - 0.02 <= lower.terms["vecchia"] <= exact + 1e-6
        assert lower.claim == "N-vecchia"
    blocks = near(kernel, X, block=50, neighbours=60, rng=np.random.default_rng(0))
    slack = factor(kernel, X[blocks.order], noise=0.01, blocks=blocks).log_det
    slack -= np.linalg.slogdet(kernel(X) + 0.01 * np.eye(300))[1]
    assert 0.0 < slack < 30.0


def test_blocks_that_are_none() -> None:
    rows = np.arange(4)
    for order, parts, sets in (
        (rows[:3], [slice(0, 4)], [rows[:0]]),
        (rows, [slice(0, 2), slice(3, 4)], [rows[:0], rows[:2]]),
        (rows, [slice(0, 2), slice(2, 4)], [rows[:0], rows[1:3]]),
    ):
        with pytest.raises(ValueError, match="expected"):
            Blocks(order, parts, sets)


def test_kept_or_not_and_lanes() -> None:
    """K stored or computed for each product; the number of lanes changes no bit."""
    X, y = data(900)
    kernel = SquaredExponential(1.0, 0.7)
    runs = []
    for memory, threads in ((2.0**31, 1), (2.0**31, 2), (1.0, 1), (1.0, 2)):
        with blas_threads(threads):
            lower, upper = evidence(kernel, X, y, noise=0.05, rng=3, block=100, neighbours=150, memory=memory)
        runs.append((float(lower), float(upper)))
    assert runs[0] == runs[1]
    assert runs[2] == runs[3]
    assert np.allclose(runs[0], runs[2], rtol=0, atol=1e-8 * abs(runs[0][0]))


@pytest.mark.broad
@pytest.mark.parametrize("kernel", [SquaredExponential(2.0, [1.0, 0.7]), Matern(1.5), SquaredExponential(1.0, 0.01)])
@pytest.mark.parametrize("memory", [1.0, 2.0**31])
def test_products_by_tiles(kernel: Kernel, memory: float) -> None:
    """Three strips of rows, the last of them cut into two tiles beside its diagonal: K + 0.3·I, symmetric."""
    X, _ = data(1300)
    V = np.random.default_rng(1).standard_normal((1300, 5))
    K = Products(kernel, X, noise=0.3, memory=memory)
    expected = kernel(X) @ V + 0.3 * V
    scale = np.abs(kernel(X)) @ np.abs(V) + np.abs(V)
    for columns in (V, V[:, :1]):
        np.testing.assert_array_less(
            np.abs(K.times(columns) - expected[:, : columns.shape[1]]),
            (K.entry_error + 1e-13) * scale[:, : columns.shape[1]],
        )
    whole = K.times(np.eye(1300))
    np.testing.assert_array_less(np.abs(whole - whole.T), 1e-13 * (kernel(X) + np.eye(1300)) + 1e-300)


def test_the_error_of_entries_enters_the_bounds() -> None:
    """Entries of K by a matrix product err by up to `products_error`; times λ_max(K)/σ² that is allowed for."""
    X, y = data(300)
    kernel, noise = SquaredExponential(1.0, 3.0), 1e-4
    kept, computed = (
        evidence(kernel, X, y, noise=noise, rng=0, memory=memory, **SMALL)[0].terms["rounding"]
        for memory in (2.0**31, 1.0)
    )
    largest = float(np.linalg.eigvalsh(kernel(X))[-1])
    assert computed - kept >= 0.5 * 300 * kernel.products_error(2) * 0.9 * largest / noise


@pytest.mark.gpu
def test_device_equals_host() -> None:
    cupy = pytest.importorskip("cupy")
    X, y = data(150)
    host = evidence(Matern(1.5), X, y, noise=0.1, rng=0, **SMALL)
    device = evidence(Matern(1.5), cupy.asarray(X), cupy.asarray(y), noise=0.1, rng=0, **SMALL)
    assert np.allclose(np.array(host, dtype=float), np.array(device, dtype=float), rtol=0, atol=1e-6)


def test_bad_input() -> None:
    X, y = data(50)
    kernel = SquaredExponential()
    with pytest.raises(ValueError, match=r"y: expected shape \(50,\)"):
        evidence(kernel, X, y[:-1], noise=0.1)
    with pytest.raises(ValueError, match="delta: expected a number in"):
        evidence(kernel, X, y, noise=0.1, delta=1.0)
    with pytest.raises(ValueError, match="width: expected a positive finite number"):
        evidence(kernel, X, y, noise=0.1, width=0.0)
    with pytest.raises(ValueError, match="block: expected a whole number"):
        evidence(kernel, X, y, noise=0.1, block=0)
    with pytest.raises(ValueError, match="noise: expected a positive"):
        evidence(kernel, X, y, noise=0.0)
    with pytest.raises(NonFinite, match=r"row\(s\) \[3\]"):
        evidence(kernel, np.where(np.arange(50)[:, None] == 3, np.nan, X), y, noise=0.1)
    with pytest.raises((ValueError, NotPositiveDefinite), match="rounding error of K"):
        evidence(SquaredExponential(1e6, 10.0), X, y, noise=1e-10)


def test_noise_below_the_rounding_of_the_kernel_is_refused_before_any_product(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.linspace(0.0, 3.0, 300)[:, None]

    def never(*args: Any) -> Any:
        raise AssertionError("a product with K")

    monkeypatch.setattr(Products, "times", never)
    with pytest.raises(ValueError, match="expected σ² above twice the rounding error of K"):
        evidence(SquaredExponential(), X, np.sin(X[:, 0]), noise=6e-13, rng=0, block=10, neighbours=10)


@pytest.mark.usefixtures("drawn")
def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CSV file: the interval contains the value of the Cholesky factor, and others' values are drawn."""
    X, y = data(130)
    table, others = tmp_path / "table.csv", tmp_path / "others.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
    others.write_text("data,N,library,value\ntable,60,another,-50.0\n", encoding="utf-8")
    out = tmp_path / "evidence.png"
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    example = importlib.import_module("evidence_at_scale")
    example.main([str(table), "--sizes", "60", "130", "--others", str(others), "--out", str(out)])
    with out.with_suffix(".csv").open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["N"] for row in rows] == ["60", "130"]
    for row in rows:
        assert float(row["lower"]) <= float(row["exact"]) <= float(row["upper"])
        assert float(row["vecchia"]) <= float(row["exact"]) + 1e-6
    assert out.stat().st_size > 4_000
