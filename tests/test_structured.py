"""VFE's bound with log-determinants of parts of K − Q: ladder, dense formulas, derivatives, rows, devices, files."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import fitting
from fitting import ExactGP, SparseGP
from fitting.objectives.collapsed import PENALTIES, Member, member
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import FamilyLaw
from fitting.objectives.objective import Objective, objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.prior_means import PriorMean
from fitting.rows.data import Held
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg import parallel
from gpbounds.renyi import evidence, log_evidence
from gpbounds.rows import source
from gpbounds.rows.engines import Memory
from gpbounds.rows.program import Rows
from gpbounds.vecchia import Blocks, near
from gpbounds.vecchia.blocks import GROUP, Blocking

N, M, D, P, NOISE = 60, 7, 2, 2, 0.2
KERNEL = SquaredExponential(1.3, [0.7, 1.4])
ROUGH = Matern(1.5, 0.8, [0.9, 1.1]) + SquaredExponential(0.5, 2.0)
NONE = np.empty(0, dtype=np.int64)


def problem(seed: int = 0, n: int = N) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((n, D)), rng.standard_normal((M, D))
    return X, np.sin(X @ rng.standard_normal((D, P))) + 0.3 * rng.standard_normal((n, P)), Z


def given(X: Any, block: int = 9, neighbours: int = 6) -> Blocks:
    return near(KERNEL, X, block=block, neighbours=neighbours, rng=0)


def build(X: Any, y: Any, structure: str, blocks: Any = None, **options: Any) -> Objective:
    chosen = given(X) if blocks is None and structure != "diagonal" else blocks
    return objective(X, y, "vfe", structure=structure, blocks=chosen, **{"jitter": 0.0, **options})


def dense(kernel: Any, noise: float, X: Any, Y: Any, Z: Any, blocks: Blocks | None, conditioned: bool) -> float:
    """log N(Y; 0, Q + σ²I) − ½P·penalty by the definition; None for blocks of one row."""
    Kuf, K = kernel(Z, X), kernel(X)
    Q = Kuf.T @ np.linalg.solve(kernel(Z), Kuf)
    S, A = Q + noise * np.eye(len(X)), np.eye(len(X)) + (K - Q) / noise

    def log_det(rows: Any) -> float:
        return float(np.linalg.slogdet(A[np.ix_(rows, rows)])[1])

    alone = Blocks(np.arange(len(X)), [slice(i, i + 1) for i in range(len(X))], [NONE] * len(X))
    chosen, penalty = alone if blocks is None else blocks, 0.0
    for part, earlier in zip(chosen.parts, chosen.sets, strict=True):
        before = chosen.order[earlier if conditioned else NONE]
        penalty += log_det(np.concatenate([before, chosen.order[part]])) - log_det(before)
    fit = sum(y @ np.linalg.solve(S, y) for y in Y.T)
    return float(-0.5 * (fit + Y.shape[1] * (np.linalg.slogdet(2.0 * np.pi * S)[1] + penalty)))


def flat(evaluation: Any) -> Any:
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], g.kernel, [g.noise], np.ravel(g.Z)])


# ---------------------------------------------------------------------- values and derivatives


@pytest.mark.parametrize("kernel", [KERNEL, ROUGH], ids=["SE", "sum"])
@pytest.mark.parametrize("seed", range(3))
def test_the_ladder_and_the_definition(seed: int, kernel: Any) -> None:
    X, Y, Z = problem(seed)
    blocks = given(X)
    values = [objective(X, Y, "vfe", jitter=0.0).evaluate(kernel, NOISE, Z, gradient=False).value]
    for structure in PENALTIES:
        value = build(X, Y, structure).evaluate(kernel, NOISE, Z, gradient=False).value
        truth = dense(kernel, NOISE, X, Y, Z, None if structure == "diagonal" else blocks, structure == "vecchia")
        assert value == pytest.approx(truth, rel=1e-10)
        values.append(value)
    values.append(build(X, Y, "blocks", N).evaluate(kernel, NOISE, Z, gradient=False).value)
    values.append(objective(X, Y, "exact").evaluate(kernel, NOISE, gradient=False).value)
    assert all(below < above for below, above in pairwise(values))


@pytest.mark.parametrize("structure", PENALTIES)
@pytest.mark.parametrize("kernel", [KERNEL, ROUGH], ids=["SE", "sum"])
def test_derivatives_are_those_of_the_definition(structure: str, kernel: Any) -> None:
    X, Y, Z = problem(3)
    blocks, conditioned, h = None if structure == "diagonal" else given(X), structure == "vecchia", 1e-5
    gradient = build(X, Y, structure, blocks).evaluate(kernel, NOISE, Z).gradient

    def slope(at: Any) -> float:
        ends = [dense(*at(step)[:2], X, Y, at(step)[2], blocks, conditioned) for step in (h, -h)]
        return (ends[0] - ends[1]) / (2.0 * h)

    logs, size = kernel.log_parameters, np.abs(gradient.kernel).max()
    for i, computed in enumerate(gradient.kernel):
        unit = np.eye(logs.size)[i]
        numeric = slope(lambda s, u=unit: (kernel.with_log_parameters(logs + s * u), NOISE, Z))
        assert computed == pytest.approx(numeric, rel=1e-6, abs=1e-7 * size)
    assert gradient.noise == pytest.approx(slope(lambda s: (kernel, NOISE * np.exp(s), Z)), rel=1e-6)
    for i, d in [(0, 0), (3, 1), (6, 0)]:
        unit = np.zeros_like(Z)
        unit[i, d] = 1.0
        numeric = slope(lambda s, u=unit: (kernel, NOISE, Z + s * u))
        assert gradient.Z[i, d] == pytest.approx(numeric, rel=1e-5, abs=1e-6 * np.abs(gradient.Z).max())


@pytest.mark.parametrize("structure", PENALTIES)
def test_with_the_data_as_inducing_points_all_are_the_exact_gp(structure: str) -> None:
    X, Y, _ = problem(4)
    rough = Matern(0.5, 1.3, [0.7, 1.4])  # K well conditioned
    exact = objective(X, Y, "exact").evaluate(rough, NOISE)
    here = build(X, Y, structure).evaluate(rough, NOISE, X)
    assert here.value == pytest.approx(exact.value, rel=1e-10)
    np.testing.assert_allclose(here.gradient.kernel, exact.gradient.kernel, rtol=1e-6)
    assert here.gradient.noise == pytest.approx(exact.gradient.noise, rel=1e-6)


def test_one_block_given_earlier_rows_is_one_block_of_all() -> None:
    """Blocks that are given all earlier rows have the determinant of all rows: the chain rule."""
    X, Y, Z = problem(5)
    parts = [slice(0, 20), slice(20, 45), slice(45, N)]
    complete = Blocks(np.arange(N), parts, [np.arange(part.start) for part in parts])
    chain, whole = (
        build(X, Y, structure, blocks).evaluate(KERNEL, NOISE, Z)
        for structure, blocks in (("vecchia", complete), ("blocks", N))
    )
    np.testing.assert_allclose(flat(chain), flat(whole), rtol=1e-9, atol=1e-9 * np.abs(flat(whole)).max())


def test_blocks_of_one_row_are_the_diagonal_and_blocks_without_neighbours_the_blocks() -> None:
    X, Y, Z = problem(6)
    alone = Blocks(np.arange(N), given(X).parts, [NONE] * len(given(X).parts))
    for first, second in (
        (build(X, Y, "blocks", 1), build(X, Y, "diagonal")),
        (build(X, Y, "vecchia", alone), build(X, Y, "blocks", alone)),
    ):
        one, other = (flat(F.evaluate(ROUGH, NOISE, Z)) for F in (first, second))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_a_kernel_without_correlation_leaves_independent_normals() -> None:
    X, Y, Z = problem(7)
    truth = -0.5 * (Y.size * np.log(2 * np.pi * NOISE) + (Y**2).sum() / NOISE) - 0.5 * Y.size * np.log1p(2.0 / NOISE)
    for structure in PENALTIES:
        value = build(X, Y, structure).evaluate(SquaredExponential(2.0, 1e-9), NOISE, Z).value
        assert value == pytest.approx(truth, rel=1e-12)


# ---------------------------------------------------------------------- the bounds on log p(y)


@pytest.mark.parametrize("rigor", ["auto", "sharp"])
def test_evidence_takes_the_blocks_of_the_caller(rigor: str) -> None:
    X, Y, Z = problem()
    blocks, options = given(X), {"noise": NOISE, "rigor": rigor, "jitter": 0.0}
    for name in ("blocks", "conditioned"):
        lower, upper = evidence(KERNEL, X, Y, Z, members=name, block=blocks, **options)
        truth = dense(KERNEL, NOISE, X, Y, Z, blocks, name == "conditioned")
        assert float(lower) == pytest.approx(truth, rel=1e-9)
        assert lower.terms[name] == pytest.approx(truth, rel=1e-9)
        assert float(lower) < sum(log_evidence(KERNEL, X, y, noise=NOISE) for y in Y.T) < float(upper)
    with pytest.raises(ValueError, match=f"block: expected Blocks of {N} rows, as X has, got Blocks of 20"):
        evidence(KERNEL, X, Y, Z, members="blocks", block=given(X[:20]), **options)
    with pytest.raises(ValueError, match="block: expected a number for rows that are read by partitions"):
        evidence(KERNEL, source(X, Y), None, Z, noise=NOISE, block=blocks)


@pytest.mark.parametrize("structure", PENALTIES)
@pytest.mark.parametrize("kernel", [KERNEL, ROUGH], ids=["SE", "sum"])
@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_no_lower_bound_on_the_evidence_is_below_the_objective(structure: str, kernel: Any, noise: float) -> None:
    """By more than rounding; and it is at most log p(y).  Blocks of the same size that are chosen anew are no such."""
    lost = []
    for seed, size in ((0, 4), (1, 25)):
        X, Y, Z = problem(seed)
        y = Y if seed else Y[:, 0]
        given_ = {"kernel": kernel, "noise": noise, "inducing": Z, "optimizer": None}
        model = SparseGP("vfe", structure=structure, block_size=size, **given_).fit(X, y)
        for members in ("cheap", "auto")[: 2 - seed]:
            lower, upper = model.log_evidence_bounds(members=members)
            slack = lower.terms["rounding"] + 1e-9 * abs(model.objective_)
            assert float(lower) >= model.objective_ - slack
            assert slack < 1e-3
            truth = sum(log_evidence(kernel, X, each, noise=noise) for each in Y.T[: np.ndim(y)])
            assert float(lower) <= truth + 1e-9 * abs(truth)
            assert truth <= float(upper) + 1e-9 * abs(truth)
        anew, _ = evidence(kernel, X, y, Z, noise=noise, members="blocks", block=size)
        lost.append(model.objective_ - float(anew))
    assert structure == "diagonal" or max(lost) > 0.01


def test_an_objective_whose_error_is_not_proved_is_told() -> None:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 10.0, (200, 1)), axis=0)
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
    given_ = {"kernel": SquaredExponential(), "noise": 1e-2, "inducing": np.linspace(0.0, 4.0, 20)[:, None]}
    model = SparseGP("vfe", structure="blocks", block_size=10, optimizer=None, **given_).fit(X, y)
    lower, _ = model.log_evidence_bounds(members="cheap")
    assert float(lower) < model.objective_ - 100.0
    assert f"is {model.objective_:.8g} in doubles, but its proved error is more" in lower.notes[-1]


# ---------------------------------------------------------------------- rows: order, chunks, lanes, means, partitions


@pytest.mark.parametrize("structure", PENALTIES)
def test_order_chunks_and_memory_change_nothing_but_rounding(structure: str) -> None:
    X, Y, Z = problem(8)
    blocks = None if structure == "diagonal" else given(X)
    usual = flat(build(X, Y, structure, blocks).evaluate(KERNEL, NOISE, Z))
    for options in ({"chunk": 9}, {"chunk": 1, "keep": 0}, {"chunk": 25, "keep": 3000}):
        other = flat(build(X, Y, structure, blocks, **options).evaluate(KERNEL, NOISE, Z))
        np.testing.assert_allclose(other, usual, rtol=1e-9, atol=1e-10 * np.abs(usual).max())
    order = np.random.default_rng(0).permutation(N)
    moved = blocks if blocks is None else Blocks(np.argsort(order)[blocks.order], blocks.parts, blocks.sets)
    other = flat(build(X[order], Y[order], structure, moved).evaluate(KERNEL, NOISE, Z))
    np.testing.assert_allclose(other, usual, rtol=1e-8, atol=1e-9 * np.abs(usual).max())


@pytest.mark.parametrize("structure", PENALTIES)
def test_the_order_of_lanes_and_old_memory_change_no_bit(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, Z = problem(9, 400)
    local = Blocking(np.ones(D), 20, 15).of(X)
    parts = [slice(start, start + 20) for start in range(0, 400, 20)]
    sets = [np.arange(part.start - 15, part.start) if part.start % 100 else NONE for part in parts]
    blocks = None if structure == "diagonal" else Blocks(local.order, parts, sets)
    monkeypatch.setattr("fitting.rows.stream.groups", lambda chunks, N, M: min(chunks, 3))
    monkeypatch.setattr(parallel, "workers", lambda count, flops: 1)
    F = build(X, Y, structure, blocks, chunk=50)
    assert len(F.data.stream(KERNEL, Z, 0.0).parts) == {"diagonal": 8, "blocks": 7, "vecchia": 4}[structure]
    results = []
    for order in (range, lambda count: reversed(range(count))):
        monkeypatch.setattr(parallel, "in_order", lambda count, after, order=order: order(count))
        F.evaluate(Matern(0.5, 2.0, 0.3), 0.7, Z[:3])  # leaves other numbers in the workspace
        results.append(flat(F.evaluate(KERNEL, NOISE, Z)))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("structure", PENALTIES)
def test_a_prior_mean_is_subtracted_and_has_derivatives(structure: str) -> None:
    X, Y, Z = problem(10)
    mean = PriorMean.least_squares("linear", X, Y)
    F = build(X, Y, structure)
    point = Parameters(KERNEL, Gaussian(NOISE), Z, prior_mean=mean)
    layout = packing_of(point)
    loss, vector = layout.loss(F), layout.pack(point)
    gradient = loss(vector)[1]
    for i in [i for i, name in enumerate(layout.names) if name.startswith(("intercept", "slope"))]:
        step = 1e-3 * np.eye(vector.size)[i]  # the objective is quadratic in the coefficients
        numeric = (loss(vector + step)[0] - loss(vector - step)[0]) / 2e-3
        assert gradient[i] == pytest.approx(numeric, rel=1e-6, abs=1e-6 * np.abs(gradient).max())


def test_blocks_of_partitions_are_their_own() -> None:
    X, Y, Z = problem(11, 300)
    cuts, how = [0, 90, 91, 300], Blocking(np.ones(D), 20, 0)
    rows = [Rows(X[a:b], Y[a:b], i) for i, (a, b) in enumerate(pairwise(cuts))]
    held = Held(Memory(rows), 300, D, P, False, np.zeros(P), np.ones(P), blocks=how)
    labels, first = np.empty(300), 0
    for a, b in pairwise(cuts):
        blocks = how.of(X[a:b])
        for part in blocks.parts:
            labels[a + blocks.order[part]], first = first, first + 1
    here = Objective(held, FamilyLaw(member("vfe", structure="blocks")), Evidence()).evaluate(KERNEL, NOISE, Z)
    there = objective(X, Y, "vfe", structure="blocks", blocks=labels).evaluate(KERNEL, NOISE, Z)
    np.testing.assert_allclose(flat(here), flat(there), rtol=1e-9, atol=1e-9 * np.abs(flat(there)).max())
    law = FamilyLaw(member("vfe", structure="blocks"))
    with pytest.raises(ValueError, match="its blocks would straddle partitions"):
        Objective(replace(held, blocks=None), law, Evidence())


def test_near_blocks_stay_in_their_group() -> None:
    rng = np.random.default_rng(12)
    X = rng.uniform(size=(2500, 3)) * np.array([1.0, 1.0, 1e9])
    blocks = Blocking(np.array([1.0, 1.0, np.inf]), 100, 40).of(X)
    assert max(part.stop - part.start for part in blocks.parts) <= 100
    assert len(blocks.parts) == 27  # 9 of each of three groups of 833 or 834 rows
    parts = objective(X, X[:, 0], "vfe", structure="vecchia", blocks=blocks).data.parts
    sizes = [chunk.stop - chunk.start for chunk in parts.chunks(1)]
    assert 1 < len(sizes) <= GROUP
    assert max(sizes) <= GROUP
    spread = [np.ptp(X[blocks.order[part], :2], axis=0).prod() for part in blocks.parts]
    assert np.mean(spread) < 0.1  # of the unit square, of which 27 blocks share the volume


def test_rows_that_would_split_blocks_are_refused() -> None:
    X, Y, _ = problem(13)
    for structure in ("blocks", "vecchia"):
        with pytest.raises(ValueError, match="rows: expected all of them"):
            build(X, Y, structure).batch(np.arange(5))
    assert build(X, Y, "diagonal").batch(np.arange(30)).weight == 2.0


# ---------------------------------------------------------------------- a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("keep", [2**20, 0], ids=["kept", "computed again"])
@pytest.mark.parametrize("kernel", [KERNEL, ROUGH], ids=["SE", "sum"])
def test_a_gpu_computes_the_same(cupy: Any, kernel: Any, keep: int) -> None:
    X, Y, Z = problem(14)
    labels = np.repeat(np.arange(9), [12, 12, 12, 5, 5, 1, 1, 8, 4])
    for structure, blocks in (("diagonal", None), ("blocks", 6), ("blocks", labels), ("vecchia", given(X))):
        near_by, far = (
            build(to(X), to(Y), structure, blocks, chunk=20, keep=keep).evaluate(kernel, NOISE, to(Z))
            for to in (np.asarray, cupy.asarray)
        )
        assert far.value == pytest.approx(near_by.value, rel=1e-10)
        assert far.gradient.kernel == pytest.approx(near_by.gradient.kernel, rel=1e-8)
        assert far.gradient.noise == pytest.approx(near_by.gradient.noise, rel=1e-9)
        assert far.gradient.Z.get() == pytest.approx(near_by.gradient.Z, rel=1e-7, abs=1e-9)


@pytest.mark.standin
@pytest.mark.parametrize("structure", ["diagonal", "blocks"])
def test_a_gpu_is_read_once_a_pass(cupy: Any, counts: Any, structure: str) -> None:
    X, Y, Z = (cupy.asarray(each) for each in problem(15, 120))
    F = build(X, Y, structure, None if structure == "diagonal" else 8, jitter="auto", chunk=40)
    F.evaluate(KERNEL, NOISE, Z)
    counts.clear()
    F.evaluate(KERNEL, NOISE, Z)
    assert counts["d2h"] == 3
    assert counts["h2d"] <= 3


# ---------------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def hard() -> tuple[Any, Any]:
    """Rows for which a few inducing points do not suffice: VFE raises the noise."""
    rng = np.random.default_rng(16)
    X = rng.uniform(-3.0, 3.0, (250, 2))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.1 * rng.standard_normal(250)


START = SquaredExponential(0.3, [0.8, 0.8])
SETTINGS: dict[str, Any] = {"kernel": START, "noise": 0.02, "n_inducing": 10, "block_size": 50, "max_iter": 40}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_finds_a_smaller_noise_and_a_larger_evidence(hard: Any) -> None:
    X, y = hard
    noise, evidence = [], []
    for structure in (None, "diagonal", "blocks"):
        model = SparseGP("vfe", structure=structure, **SETTINGS).fit(X, y)
        exact = ExactGP(model.kernel_, model.noise_, optimizer=None).fit(X, y).objective_
        assert model.objective_ < exact
        noise.append(model.noise_)
        evidence.append(exact)
    assert noise[0] > noise[1] > noise[2]
    assert evidence[0] < evidence[1] < evidence[2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_file_keeps_the_model(hard: Any, tmp_path: Any) -> None:
    X, y = hard
    for structure in ("diagonal", "vecchia", "auto"):
        model = SparseGP("vfe", structure=structure, **SETTINGS | {"max_iter": 3}).fit(X, y)
        model.save(tmp_path / "model.npz")
        loaded = fitting.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(loaded.predict(X[:9], return_std=True), model.predict(X[:9], return_std=True))
        again = loaded._objective().evaluate(loaded.kernel_, loaded.noise_, loaded.inducing_, gradient=False).value
        assert again == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_predictions_are_those_of_vfe(hard: Any) -> None:
    X, y = hard
    model = SparseGP("vfe", structure="blocks", **SETTINGS | {"max_iter": 3}).fit(X, y)
    same = SparseGP("vfe", model.kernel_, model.noise_, inducing=model.inducing_, optimizer=None).fit(X, y)
    for one, other in zip(model.predict(X[:20], return_std=True), same.predict(X[:20], return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)  # the rows are added in another order


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_auto_is_vfe_where_nothing_is_gained(hard: Any) -> None:
    X, y = hard
    settings = SETTINGS | {"kernel": SquaredExponential(1.0, 6.0), "n_inducing": 25, "max_iter": 3}
    easy, plain = (SparseGP("vfe", structure=each, **settings).fit(X, 0.1 * X[:, 0]) for each in ("auto", None))
    assert easy.structure_ == "none"
    assert (easy.objective_, easy.noise_) == (plain.objective_, plain.noise_)
    assert SparseGP("vfe", structure="auto", **SETTINGS | {"max_iter": 1}).fit(X, y).structure_ == "blocks"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseGP("fitc", structure="blocks"), "structure: expected None for method='fitc'"),
        (SparseGP("pep", structure="diagonal"), "structure: expected None for method='pep'"),
        (SparseGP("vfe", structure="full"), "structure: expected one of 'diagonal', 'blocks', 'vecchia', 'auto'"),
        (SparseGP("vfe", structure="blocks", block_size=0), "block_size: expected a whole number >= 1"),
    ],
)
def test_errors_teach(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(np.arange(8.0)[:, None], np.arange(8.0))


def test_what_no_bound_has_is_refused() -> None:
    with pytest.raises(ValueError, match="penalty: expected None for another member than VFE"):
        Member("diagonal", 0.5, penalty="blocks")
    X, Y, _ = problem(17)
    with pytest.raises(ValueError, match=r"blocks: expected gpbounds\.vecchia\.Blocks"):
        build(X, Y, "vecchia", 5)
    with pytest.raises(ValueError, match="blocks: expected those of 60 rows, got those of 30"):
        build(X, Y, "blocks", given(X[:30]))


def test_a_tempered_bound_has_the_same_structure() -> None:
    """β·F(βσ²) for the tempered law: with β = 1 the bound, and its slope in β is finite."""
    X, Y, Z = problem(18)
    law = FamilyLaw(member("vfe", structure="blocks"))
    data = build(X, Y, "blocks").data
    one, near_one = (
        Objective(data, law, Evidence(beta)).evaluate(KERNEL, NOISE, Z, gradient=False).value for beta in (1.0, 1.001)
    )
    assert one == build(X, Y, "blocks").evaluate(KERNEL, NOISE, Z, gradient=False).value
    assert abs(near_one - one) < 0.1 * abs(one)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_is_repeated_with_blocks_of_the_trained_lengthscales() -> None:
    """Two of four columns do not matter; blocks that ignore them have nearer rows."""
    rng = np.random.default_rng(16)
    X = rng.uniform(-3.0, 3.0, (400, 4))
    y = np.sin(2.0 * X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(400)
    settings = SETTINGS | {"kernel": SquaredExponential(0.5, [1.0] * 4), "n_inducing": 15}
    model = SparseGP("vfe", structure="blocks", **settings).fit(X, y)
    assert len(model.runs_) > 1
    assert model.objective_ == model.runs_[0].value > model.runs_[-1].value + 4.0
    assert model.block_units_[2] > 3.0 * model.block_units_[0]
