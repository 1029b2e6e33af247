"""Mini-batches from blocks of consecutive rows, rows in order, and rows that are shuffled on disk."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from fitting import LowRankGP, VariationalGP
from fitting.training import blocks
from fitting.training.blocks import Blocks, read_by_blocks, share_between, warn_of_order
from gpbounds.rows import copies, shuffle_to, source


@given(
    N=st.integers(1, 200),
    block=st.integers(1, 12),
    together=st.integers(1, 5),
    batch=st.integers(1, 50),
    seed=st.data(),
)
def test_an_epoch_has_each_row_at_most_once_and_leaves_out_less_than_a_batch(N, block, together, batch, seed) -> None:
    batch = min(batch, N)
    sampler = Blocks(N, batch, (seed.draw(st.integers(0, 9)),), block=block, together=together)
    steps = N // batch
    for epoch in range(2):
        rows = [sampler.rows(step) for step in range(epoch * steps, (epoch + 1) * steps)]
        assert all(len(each) == batch for each in rows)
        assert all((np.diff(each) > 0).all() for each in rows)
        taken = np.concatenate(rows)
        assert len(np.unique(taken)) == steps * batch
        assert taken.min() >= 0
        assert taken.max() < N


def test_batches_depend_on_the_step_only_and_rows_are_equally_likely() -> None:
    sampler = Blocks(53, 10, (3,), block=4, together=3)
    order = [7, 0, 23, 7, 8]
    assert all(np.array_equal(sampler.rows(step), Blocks(53, 10, (3,), 4, 3).rows(step)) for step in order)
    counts = np.zeros(53)
    epochs = 4000
    for step in range(5 * epochs):  # 3 of 53 rows are left out of each epoch
        counts[sampler.rows(step)] += 1
    expected = epochs * 50 / 53
    deviation = np.sqrt(epochs * (50 / 53) * (3 / 53))
    assert np.abs(counts - expected).max() < 5.0 * deviation


def test_a_batch_takes_its_rows_from_few_blocks() -> None:
    sampler = Blocks(10_000, 50, (0,), block=100, together=4)
    for step in range(8):  # the first group of 4 blocks
        rows = sampler.rows(step)
        assert len({int(row) for row in np.concatenate([sampler.rows(s) for s in range(8)])}) == 400
        assert len(np.unique(rows // 100)) <= 8  # a block begins at any row


def test_order_is_found_in_any_column_and_random_rows_have_none() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6400, 3)), rng.standard_cauchy((6400, 1))
    assert share_between(X, 100).max() < 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_order(X, y, 100)
        warn_of_order(np.sort(X, axis=0)[:150], y[:150], 100)  # one block
    in_order = X[np.argsort(X[:, 1])]
    with pytest.warns(UserWarning, match=r"variance of column 1 of X lie between blocks of 100 rows.*shuffle_to"):
        warn_of_order(in_order, y, 100)
    with pytest.warns(UserWarning, match="variance of y lie"):
        warn_of_order(X, np.floor(np.arange(6400) / 640.0)[:, None] % 2 + 0.1 * X[:, :1], 100)
    expected = 0.3**2 / (1.0 + 0.3**2)
    levels = 0.3 * np.sqrt(2.0) * np.sin(np.arange(64) * 2.0 * np.pi / 64)
    found = share_between((rng.standard_normal((64, 1000)) + levels[:, None]).reshape(-1, 1), 1000)
    assert found[0] == pytest.approx(expected, rel=0.05)


def test_only_large_memory_maps_are_read_by_blocks(tmp_path, monkeypatch) -> None:
    np.save(tmp_path / "X.npy", np.zeros((100, 2)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert not read_by_blocks(X)
    monkeypatch.setattr(blocks, "CACHED", 1599)
    assert read_by_blocks(X)
    assert read_by_blocks(np.asarray(X))
    assert not read_by_blocks(np.zeros((100, 2)))
    monkeypatch.setattr(blocks, "CACHED", 1600)
    assert not read_by_blocks(X)


def test_training_by_blocks_continues_on_its_path(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (600, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(600)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr(blocks, "CACHED", 0)
    drawn = []
    true = Blocks.rows

    def rows(self, step):
        drawn.append(step)
        return true(self, step)

    monkeypatch.setattr(Blocks, "rows", rows)
    options = {"n_inducing": 8, "optimizer": "natgrad", "batch_size": 50, "random_state": 0, "start": "scale"}
    path = tmp_path / "checkpoint.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = VariationalGP(max_iter=20, **options).fit(mapped, y)
        assert drawn == list(range(20))
        VariationalGP(max_iter=8, checkpoint=path, **options).fit(mapped, y)
        drawn.clear()
        continued = VariationalGP(max_iter=20, checkpoint=path, **options).fit(mapped, y)
        assert drawn == list(range(8, 20))
        np.testing.assert_array_equal(continued.predict(X[:5]), whole.predict(X[:5]))
        drawn.clear()
        LowRankGP(rank=10, optimizer="adam", batch_size=50, max_iter=3, random_state=0).fit(mapped, y)
        assert drawn == [0, 1, 2]
    arrays = VariationalGP(max_iter=20, **options).fit(X, y)
    assert not np.array_equal(arrays.predict(X[:5]), whole.predict(X[:5]))
    monkeypatch.setattr(warn_of_order, "__defaults__", (50,))
    order = np.argsort(X[:, 0])
    np.save(tmp_path / "sorted.npy", X[order])
    with pytest.warns(UserWarning, match="The rows are ordered"):
        VariationalGP(max_iter=2, **options).fit(np.load(tmp_path / "sorted.npy", mmap_mode="r"), y[order])


@pytest.mark.parametrize("held", [2**28, 500])
def test_shuffled_files_hold_the_same_rows_in_another_order(tmp_path, monkeypatch, held) -> None:
    monkeypatch.setattr(copies, "HELD", held)
    X = np.arange(600.0).reshape(200, 3)
    for y, single in ((X[:, 0] + 1.0, True), (X[:, :2] + 1.0, False)):
        folder = tmp_path / f"new {single}"
        paths = shuffle_to(folder, X, y, rng=0)
        assert sorted(folder.iterdir()) == sorted(paths)
        rows = source(*paths)
        assert (rows.N, rows.single) == (200, single)
        points, targets = np.load(paths[0]), np.load(paths[1])
        np.testing.assert_array_equal(targets, points[:, 0] + 1.0 if single else points[:, :2] + 1.0)
        np.testing.assert_array_equal(np.sort(points, axis=0), X)
        assert abs(np.corrcoef(points[:, 0], np.arange(200))[0, 1]) < 0.3
        with pytest.raises(ValueError, match=r"without X\.npy and y\.npy"):
            shuffle_to(folder, *paths)


def test_every_order_is_equally_likely(tmp_path, monkeypatch) -> None:
    """Three rows in two files: each of the six orders with a frequency of one in six."""
    monkeypatch.setattr(copies, "HELD", 32)
    rng, counts = np.random.default_rng(1), dict[tuple[float, ...], int]()
    for i in range(240):
        paths = shuffle_to(tmp_path / str(i), np.arange(3.0)[:, None], np.arange(3.0), rng=rng)
        order = tuple(np.load(paths[1]).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert max(abs(count - 40) for count in counts.values()) < 5 * np.sqrt(240 * (1 / 6) * (5 / 6))
