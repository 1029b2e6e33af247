"""Rows from arrays, memory maps, .npy and Parquet files are the same rows."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import gpbounds
from fitting import ExactGP, LowRankGP, SparseGP, VariationalGP, VariationalGPClassifier, divergence
from fitting.estimators import load, partitioned
from fitting.features import MLP
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import FamilyLaw
from fitting.objectives.objective import Objective, member
from fitting.rows.columns import Columns
from fitting.rows.data import Held
from fitting.starts.starts import mean_square, units
from gpbounds import renyi
from gpbounds.errors import NonFinite
from gpbounds.kernels import SquaredExponential
from gpbounds.rows import Source, read_table, source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart, array_parts, npy_parts
from gpbounds.rows.source import with_targets
from gpbounds.rows.tables import write_table

KERNEL = SquaredExponential(1.3, [0.7, 1.4])

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def problem(N: int = 500, M: int = 15):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(N), X[:M] + 1e-3


def flat(rows, Z):
    held = Held(rows.holder, rows.N, rows.D, rows.P, rows.single, np.zeros(rows.P), np.ones(rows.P))
    evaluation = Objective(held, FamilyLaw(member("vfe")), Evidence()).evaluate(KERNEL, 0.1, Z)
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


def written(folder, X, y, files, rows):
    """A folder with ``files`` Parquet files, whose row groups have this number of rows."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    for i, numbers in enumerate(np.array_split(np.arange(len(X)), files)):
        table = arrow.table({"a": X[numbers, 0], "y": y[numbers], "b": X[numbers, 1]})
        parquet.write_table(table, folder / f"part-{i}.parquet", row_group_size=rows)
    return folder


def test_every_source_has_the_same_bits(tmp_path) -> None:
    X, y, Z = problem()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = np.memmap(tmp_path / "X.map", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    folder = written(tmp_path / "folder", X, y, 5, 100)
    result = [
        source(folder, "y"),
        Source.of(Local(array_parts(X, y, 100)), single=True),
        Source.of(Local(array_parts(mapped, y, 100)), single=True),
        Source.of(Local(npy_parts(tmp_path / "X.npy", tmp_path / "y.npy", 100)[0]), single=True),
        Source.of(Local(array_parts(X, y, 100), keep=0), single=True),  # read again in every pass
        Source.of(Local(array_parts(X, y, 100), keep=5000), single=True),  # some of it
    ]
    assert result[0].names == ("a", "b")
    expected = flat(result[0], Z)
    for rows in result[1:]:
        assert rows.sizes.tolist() == [100] * 5
        np.testing.assert_array_equal(flat(rows, Z), expected)
    for rows in result:
        numbers = np.array([0, 3, 99, 100, 250, 499])
        for taken, whole in zip(rows.rows(numbers), (X, y[:, None]), strict=True):
            np.testing.assert_array_equal(taken, whole[numbers])


def test_row_groups_stay_whole_and_join_up_to_the_size_of_a_partition(tmp_path) -> None:
    from gpbounds.rows.formats import parquet_parts

    X, y, _ = problem()
    folder = written(tmp_path / "folder", X, y, 2, 60)
    parts = parquet_parts(folder, ["y"], size=100)
    assert [part.groups for part in parts] == [(0, 1), (2, 3), (4,)] * 2
    assert [len(part.load().X) for part in parts] == [120, 120, 10] * 2
    one_file = source(folder / "part-1.parquet", ["y"])
    assert (one_file.N, one_file.single) == (250, False)


def test_columns_have_the_scale_of_the_rows() -> None:
    X, y, _ = problem()
    rows = Source.of(Local(array_parts(X, y, 77)), single=True)
    np.testing.assert_allclose(units(Columns(rows)), units(X), rtol=1e-13)
    np.testing.assert_allclose(mean_square(Columns(rows, True)), mean_square(y), rtol=1e-13)
    scaled = Columns(rows, True, np.array([0.3]), np.array([2.0]))
    np.testing.assert_allclose(mean_square(scaled), mean_square((y - 0.3) / 2.0), rtol=1e-13)
    np.testing.assert_array_equal(scaled[np.array([5, 400])][:, 0], (y[[5, 400]] - 0.3) / 2.0)


def test_a_model_of_a_folder_is_that_of_its_rows(tmp_path) -> None:
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, y, 3, 50)
    options = {"n_inducing": 8, "max_iter": 5, "random_state": 0, "tol": None, "normalize_y": True}
    with pytest.warns(UserWarning, match="All 5 iterations"):
        local = SparseGP("fitc", **options).fit(X, y)
    with pytest.warns(UserWarning, match="All 5 iterations"):
        result = SparseGP("fitc", **options).fit(folder, "y")
    assert result.feature_names_in_.tolist() == ["a", "b"]
    assert result.objective_ == pytest.approx(local.objective_, rel=1e-6)
    np.testing.assert_allclose(result.y_mean_, local.y_mean_, rtol=1e-12)


@pytest.mark.parametrize("features", ["fourier", "mercer"])
def test_low_rank_models_of_a_folder(tmp_path, features) -> None:
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, y, 3, 50)
    options = {"rank": 12, "max_iter": 4, "random_state": 0, "tol": None}
    with pytest.warns(UserWarning, match="All 4 iterations"):
        local = LowRankGP(features, **options).fit(X, y)
    with pytest.warns(UserWarning, match="All 4 iterations"):
        result = LowRankGP(features, **options).fit(folder, "y")
    assert result.objective_ == pytest.approx(local.objective_, rel=1e-7)
    np.testing.assert_allclose(result.predict(X[:20]), local.predict(X[:20]), atol=1e-5)
    result.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(X[:20]), result.predict(X[:20]))
    with pytest.raises(AttributeError, match="rows read by partitions"):
        result.kl_bound_  # noqa: B018


@pytest.mark.parametrize(
    "options",
    [{"dim": 1}, {"features": MLP((3,), 2, pretraining=2), "rank": None}, {"batch_size": 50, "optimizer": "adam"}],
    ids=["projection", "object", "batches"],
)
def test_models_that_need_single_rows_copy_them_to_disk(tmp_path, options) -> None:
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, y, 3, 50)
    settings = {"rank": 12, "max_iter": 3, "random_state": 0, "tol": None, "normalize_y": True, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        local, result = LowRankGP(**settings).fit(X, y), LowRankGP(**settings).fit(folder, "y")
    assert result.objective_ == local.objective_
    np.testing.assert_array_equal(result.predict(X[:9]), local.predict(X[:9]))
    assert result.X_train_.shape == (0, 2)
    assert result.feature_names_in_.tolist() == ["a", "b"]
    result.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(X[:9]), result.predict(X[:9]))


@pytest.mark.broad
@pytest.mark.parametrize("batch", [None, 64])
def test_variational_models_have_the_bits_of_arrays(tmp_path, batch) -> None:
    """Parquet and .npy files are read from memory maps, from which mini-batches take random rows."""
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, y, 3, 50)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    options = {"n_inducing": 8, "random_state": 0, "optimizer": "natgrad", "max_iter": 4, "batch_size": batch}
    models = []
    for rows in ((X, y), (folder, "y"), (tmp_path / "X.npy", tmp_path / "y.npy"), (tmp_path / "X.npy", y)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models.append(VariationalGP(likelihood="student-t", **options).fit(*rows))
    for model in models[1:]:
        assert model.objective_ == models[0].objective_
        np.testing.assert_array_equal(model.predict(X[:9]), models[0].predict(X[:9]))
    assert models[1].X_train_.shape == (0, 2)
    models[1].save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(X[:9]), models[0].predict(X[:9]))
    with pytest.raises(ValueError, match="expected one target"):
        VariationalGP().fit(folder, ["y", "b"])
    with pytest.raises(ValueError, match="VariationalGPClassifier, which needs all rows"):
        VariationalGPClassifier().fit(folder, "y")


def test_training_continues_from_a_checkpoint(tmp_path) -> None:
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, y, 3, 50)
    options = {"n_inducing": 8, "random_state": 0, "tol": None, "learn_inducing": False}
    with pytest.warns(UserWarning, match="All 8 iterations"):
        whole = SparseGP(max_iter=8, **options).fit(folder, "y")
    for iterations in (3, 8):
        with pytest.warns(UserWarning, match=f"All {iterations} iterations"):
            result = SparseGP(max_iter=iterations, checkpoint=tmp_path / "run.npz", **options).fit(folder, "y")
    assert result.objective_ == whole.objective_
    swapped = np.r_[y[1], y[0], y[2:]]
    for name, targets in {"other": y + 1e-9, "swapped": swapped}.items():  # the second has the same moments
        other = written(tmp_path / name, X, targets, 3, 50)
        with pytest.raises(ValueError, match="same data and settings"):
            SparseGP(max_iter=9, checkpoint=tmp_path / "run.npz", **options).fit(other, "y")
    rows = written(tmp_path / "rows", X[np.r_[1, 0, 2 : len(X)]], swapped, 3, 50)
    with pytest.raises(ValueError, match="same data and settings"):
        SparseGP(max_iter=9, checkpoint=tmp_path / "run.npz", **options).fit(rows, "y")


def test_wrong_rows_are_refused_with_their_place(tmp_path) -> None:
    X, y, _ = problem()
    y[[120, 170]] = np.nan
    folder = written(tmp_path / "folder", X, y, 5, 100)
    with pytest.raises(NonFinite, match=r"y: .* in partition 1, in its row\(s\) \[20, 70\]"):
        source(folder, "y")
    with pytest.raises(ValueError, match=r"y: expected columns among .*'a', 'y', 'b'.*got \['c'\]"):
        source(folder, "c")
    with pytest.raises(ValueError, match="the name of a column"):
        SparseGP().fit(folder, y)
    with pytest.raises(ValueError, match=r"named \*\.parquet"):
        source(tmp_path, "y")
    with pytest.raises(ValueError, match="one row of targets for each row of X"):
        source(X, y[:-1])
    with pytest.raises(ValueError, match="VariationalGP read files"):
        ExactGP().fit(folder, "y")
    with pytest.raises(ValueError, match="columns"):
        Source.of(Local([*array_parts(X, X[:, 0], 500), *array_parts(X[:, :1], X[:, 0], 500)]), single=True)
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "y.npy", np.zeros(2))
    with pytest.raises(ValueError, match="expected real numbers, got dtype <U1"):
        source(tmp_path / "words.npy", tmp_path / "y.npy")


def test_the_next_partition_is_read_while_one_is_computed() -> None:
    import threading

    started = [threading.Event() for _ in range(3)]

    class Part:
        def __init__(self, i):
            self.i = i

        def load(self):
            started[self.i].set()
            return array_parts(np.full((2, 1), self.i), np.zeros(2), 2)[0].load()

    for i, _ in enumerate(Local([Part(i) for i in range(3)], keep=0)):
        if i < 2:
            assert started[i + 1].wait(10.0)


def test_of_many_rows_arrays_and_files_choose_points_among_the_same(tmp_path, monkeypatch) -> None:
    X, y, _ = problem(400)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    options = {"n_inducing": 8, "optimizer": None, "kernel": KERNEL, "noise": 0.1}
    of_all = SparseGP(**options).fit(X, y)
    monkeypatch.setattr(partitioned, "CHOOSING", 50)
    for state in (None, 3):
        local, far = (SparseGP(**options, random_state=state).fit(*rows) for rows in ((X, y), files))
        np.testing.assert_array_equal(local.inducing_, far.inducing_)
        assert not np.array_equal(local.inducing_, of_all.inducing_)
    greedy = SparseGP(**{**options, "n_inducing": "auto"}, max_inducing=20, target_gap=1e3).fit(X, y)
    assert all(any((row == point).all() for row in X) for point in greedy.inducing_)


def values(pair):
    return np.array([float(bound) for bound in pair] + [pair[i].terms[name] for i in (0, 1) for name in pair[i].terms])


@pytest.mark.parametrize("P", [1, 2])
def test_evidence_and_gap_of_files_are_those_of_their_rows(tmp_path, P) -> None:
    """Partitions of whole blocks give every member; rows of Z among those of X are known in any partition."""
    X, y, Z = problem(1000)
    Z[:5] = X[::200]
    targets = y if P == 1 else np.column_stack([y, X[:, 0]])
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", targets)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    whole = Source.of(Local(array_parts(X, targets, 200)), single=P == 1)
    elsewhere = [(tmp_path / "X.npy", tmp_path / "y.npy"), (whole, None), (mapped, targets)]
    if P == 1:
        elsewhere.append((written(tmp_path / "folder", X, y, 2, 100), "y"))
    options = {"noise": 0.1, "members": "cheap", "block": 100}
    expected = renyi.evidence(KERNEL, X, targets, Z, **options)
    gaps = renyi.gap(KERNEL, X, targets, Z, 0.5, noise=0.1, method="streamed")
    trace = renyi.gap_from_trace(KERNEL, X, targets, Z, 0.5, noise=0.1)
    assert gaps[0].terms["n"] == 995
    for rows in elsewhere:
        of_files = values(renyi.evidence(KERNEL, *rows, Z, **options))
        np.testing.assert_allclose(of_files, values(expected), rtol=1e-10, atol=1e-12)  # allowances are near 1e-8
        low, high = renyi.gap(KERNEL, *rows, Z, 0.5, noise=0.1, method="streamed")
        assert low.terms["n"] == 995
        assert float(low) == pytest.approx(float(gaps[0]), rel=1e-10)
        assert high.terms["trace"] == pytest.approx(gaps[1].terms["trace"], rel=1e-10)
        assert float(renyi.gap_from_trace(KERNEL, *rows, Z, 0.5, noise=0.1)) == pytest.approx(float(trace), rel=1e-10)


def test_bounds_hold_for_partitions_that_cut_blocks_and_for_equal_rows(tmp_path) -> None:
    X, y, Z = problem(300)
    X[200:] = X[:100]  # in another partition: they count as distinct, which loosens the bounds
    exact = renyi.log_evidence(KERNEL, X, y, noise=0.1)
    rows = Source.of(Local(array_parts(X, y, 70)), single=True)
    expected = renyi.evidence(KERNEL, X, y, Z, noise=0.1, members="cheap")
    lower, upper = renyi.evidence(KERNEL, rows, None, Z, noise=0.1)
    assert float(lower) <= float(expected[0]) + 1e-9  # "diagonal" counts no rows: the same sum in another order
    assert max(float(lower), float(expected[0])) <= exact <= float(upper)
    assert lower.terms["determinant"] < expected[0].terms["determinant"]
    assert lower.terms["elbo 1"] == pytest.approx(expected[0].terms["elbo 1"], rel=1e-12)
    for options in ({"members": "all"}, {"members": ("trace", "tangent")}, {"alphas": (0.5, 1.0)}):
        with pytest.raises(ValueError, match="the others need all rows in memory"):
            renyi.evidence(KERNEL, rows, None, Z, noise=0.1, **options)
    for options in ({"method": "dense"}, {"method": "blocks"}, {"form": "printed"}):
        with pytest.raises(ValueError, match="the others need all rows in memory"):
            renyi.gap(KERNEL, rows, None, Z, 0.5, noise=0.1, **options)


def test_bounds_of_a_model_of_a_folder_need_its_rows_again(tmp_path) -> None:
    X, y, Z = problem(300)
    folder = written(tmp_path / "folder", X, 10.0 + 3.0 * y, 3, 50)
    model = SparseGP(kernel=KERNEL, noise=0.1, inducing=Z, optimizer=None, normalize_y=True).fit(folder, "y")
    lower, upper = model.log_evidence_bounds(folder, "y")
    assert lower.terms["elbo 1"] == pytest.approx(model.objective_, rel=1e-10)
    assert float(lower) <= float(upper)
    with pytest.raises(ValueError, match=r"pass them, log_evidence_bounds\(X, y\)"):
        model.log_evidence_bounds()


@pytest.mark.parametrize(
    "options",
    [{"features": "fourier"}, {"features": "mercer"}, {"features": "mercer", "dim": 1}],
    ids=["fourier", "mercer", "projection"],
)
def test_bounds_of_a_low_rank_model_of_a_folder_are_those_of_its_rows(tmp_path, options) -> None:
    X, y, _ = problem(300)
    folder = written(tmp_path / "folder", X, 10.0 + 3.0 * y, 3, 50)
    settings = {"rank": 12, "optimizer": None, "random_state": 0, "normalize_y": True, "noise": 0.1, **options}
    local, far = LowRankGP(**settings).fit(X, 10.0 + 3.0 * y), LowRankGP(**settings).fit(folder, "y")
    inputs = (X - X.mean(axis=0)) @ local.projection_ if "dim" in options else X
    truth = renyi.log_evidence(far.kernel_, inputs, local.y_train_, noise=far.noise_)
    expected = local.log_evidence_bounds(members="cheap", block=100)
    lower, upper = far.log_evidence_bounds(folder, "y", block=100)
    assert float(lower) <= truth <= float(upper)
    assert float(upper) == pytest.approx(float(expected[1]), rel=1e-8)
    assert lower.terms["elbo 1"] == pytest.approx(expected[0].terms["elbo 1"], rel=1e-8)
    assert local.kl_bound_of(X).exact == local.kl_bound_.exact
    own, known = far.kl_bound_of(folder, "y"), far.kl_bound_of(X)
    assert own.exact == pytest.approx(known.exact, rel=1e-8)
    for name in ("prior", "residual"):
        one, other = getattr(own, name), getattr(known, name)
        assert (one is None) == (other is None)
        assert one is None or float(one) == pytest.approx(float(other), rel=1e-8)


def test_the_residual_of_many_rows_is_a_sum_over_partitions_and_the_divergence_is_not(monkeypatch) -> None:
    X, y, _ = problem(300)
    model = LowRankGP("mercer", rank=12, optimizer=None, noise=0.1, order="best").fit(X, y)
    monkeypatch.setattr(divergence, "LARGEST", 299)
    expected, found = model.kl_bound_, model.kl_bound_of(Source.of(Local(array_parts(X, y, 70)), single=True))
    assert found.exact is None
    assert expected.exact is None
    assert float(found.residual) == pytest.approx(float(expected.residual), rel=1e-9)
    assert float(found.prior) == float(expected.prior)


def test_a_model_of_features_without_a_kernel_has_no_such_bounds(tmp_path) -> None:
    X, y, _ = problem(100)
    folder = written(tmp_path / "folder", X, y, 2, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LowRankGP(MLP((3,), 2), max_iter=2, random_state=0).fit(folder, "y")
    for purpose in ("log_evidence_bounds", "kl_bound_of"):
        with pytest.raises(ValueError, match=f"those of a kernel for {purpose}, got an object"):
            getattr(model, purpose)(folder, "y")


def test_rows_in_other_units_keep_the_numbers_of_their_partitions() -> None:
    X = np.arange(12.0)[:, None]
    parts = [ArrayPart(X, X[:, 0], i, slice(*cut)) for i, cut in enumerate(((0, 4), (4, 4), (4, 8), (8, 12)))]
    rows = with_targets(Source.of(Local(parts), single=True), np.ones(1), np.full(1, 2.0))
    assert rows.numbers.tolist() == [0, 2, 3]
    points, targets = rows.rows(np.array([0, 5, 9, 11]))
    assert points.ravel().tolist() == [0.0, 5.0, 9.0, 11.0]
    assert targets.ravel().tolist() == [-0.5, 2.0, 4.0, 5.0]


def test_the_former_name_warns_and_leads_to_the_same_functions() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"gpbounds\.sources\.source is an old .*: say gpbounds\.rows\.source"
    ) as said:
        from gpbounds.sources import source as former
    assert former is source
    assert said[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gpbounds.sources.nothing  # noqa: B018


def test_one_reader_refuses_parquet_for_partitions_and_for_tables(tmp_path) -> None:
    X, y, _ = problem(N=20)
    folder = written(tmp_path / "rows", X, y, 2, 10)
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(parquet.read_table(folder / "part-0.parquet").drop_columns(["b"]), folder / "part-2.parquet")
    (tmp_path / "empty").mkdir()
    texts = {folder: r"part-2.parquet: expected the columns .* of part-0", tmp_path / "empty": r"got one without any"}
    for path, text in texts.items():
        for read in (read_table, lambda path: source(path, "y")):
            with pytest.raises(ValueError, match=text):
                read(path)


def test_a_missing_pyarrow_is_named_with_what_installs_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (read_table, lambda path: source(path, "y")):
        for kind in (ImportError, ValueError):  # the second is what the command line shows in one sentence
            with pytest.raises(kind, match=r"rows.parquet: .*pip install 'gpbounds\[parquet\]'"):
                read(str(tmp_path / "rows.parquet"))


def test_tables_are_written_and_read_with_all_digits(tmp_path) -> None:
    values = np.array([[0.1, 2.0**-1074], [1.0 / 3.0, -1e300]])
    for name in ("table.csv", "table.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        write_table(tmp_path / name, ["a", "b"], [values[:1], values[1:]])
        table = read_table(str(tmp_path / name))
        np.testing.assert_array_equal(table.values, values)
        assert table.names == ["a", "b"]
    write_table(tmp_path / "bare.csv", None, [values])
    assert read_table(tmp_path / "bare.csv").names is None
