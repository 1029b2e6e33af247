"""`evidence`, `gap`, `log_evidence_bounds` and audits decide alike, within one budget of work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting import SparseGP
from gpbounds import Matern, SquaredExponential, audit
from gpbounds.bound import Bound
from gpbounds.renyi import elbo, evidence, gap
from gpbounds.renyi.brackets import bracket
from gpbounds.renyi.further import further_rows
from gpbounds.renyi.members import CANDIDATES, WORK, exact_work, further_points, further_work


def problem(kind: str, N: int = 300, seed: int = 0) -> tuple:
    """A kernel, rows, targets, inducing points and a noise variance; few points, so that bounds at Z are wide."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (N, 2))
    y = np.sin(5.0 * X[:, 0]) * np.cos(4.0 * X[:, 1])
    kernel, noise = SquaredExponential(1.0, 0.5), 0.05
    if kind != "noise-free":
        y = y + 0.2 * rng.standard_normal(N)
    Z = X[:20]
    if kind == "noise-free":
        noise = 1e-5
    if kind == "clustered":
        Z = X[:1] + 1e-3 * rng.standard_normal((20, 2))
    if kind == "UNIX seconds":
        X, Z = X + 1.7e9, Z + 1.7e9
    if kind == "rough":
        kernel = Matern(0.5, 2.0, 0.3)
    return kernel, X, y, Z, noise


KINDS = ("smooth", "rough", "noise-free", "clustered", "UNIX seconds")


@pytest.mark.broad
@pytest.mark.parametrize("kind", KINDS)
def test_all_doors_know_the_divergence_alike(kind: str) -> None:
    """The gap, log p(y) less the ELBO, and the audit are one interval, but for rounding, around the truth."""
    kernel, X, y, Z, noise = problem(kind)
    lower, upper = evidence(kernel, X, y, Z, noise=noise)
    truth = float(evidence(kernel, X, y, None, noise=noise, rigor="sharp")[0])
    assert float(lower) <= np.nextafter(truth, np.inf)
    assert float(upper) >= truth
    assert float(upper) - float(lower) < 0.02
    assert lower.certified
    assert upper.certified
    least, most = bracket(kernel, X, y, Z, noise, (1.0,), "auto").variational_ends
    known = gap(kernel, X, y, Z, 1.0, noise=noise)
    audited = audit.enough(audit.subject(kernel, X, y, Z, noise=noise), most=1).divergence
    for low, high in (known, audited):
        assert float(low) >= float(lower) - most - 1e-9 * abs(truth)
        assert float(high) <= float(upper) - least + 1e-9 * abs(truth)
        assert float(low) <= truth - least
        assert float(high) >= truth - most
    assert [float(end) for end in known] == pytest.approx([float(end) for end in audited], abs=0.03)


@pytest.mark.broad
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_the_gap_of_few_rows_is_decided_at_every_order(alpha: float) -> None:
    kernel, X, y, Z, noise = problem("smooth")
    lower, upper = gap(kernel, X, y, Z, alpha, noise=noise)
    truth, (low, high) = evidence(kernel, X, y, Z, noise=noise), gap(kernel, X, y, Z, alpha, noise=noise, rigor="sharp")
    own = float(elbo(kernel, X, y, Z, alpha, noise=noise))
    assert float(lower) <= float(high)
    assert float(low) <= float(upper)
    assert float(upper) - float(lower) < 1e-4
    assert float(lower) == pytest.approx(float(truth[0]) - own, abs=1e-4)


@given(st.sampled_from(KINDS), st.integers(0, 1000), st.sampled_from([0.0, 1e5, 1e7, WORK]))
def test_no_lower_bound_is_below_the_elbo(kind: str, seed: int, work: float) -> None:
    kernel, X, y, Z, noise = problem(kind, 60, seed)
    lower, upper = evidence(kernel, X, y, Z, noise=noise, work=work)
    least = bracket(kernel, X, y, Z, noise, (1.0,), "auto").variational_ends[0]
    assert float(lower) >= least - 1e-12 * abs(least)
    assert float(upper) >= float(lower)


@pytest.mark.parametrize("N", [1000, 1500])
def test_more_work_is_never_worse_and_what_is_left_out_is_said(N: int) -> None:
    kernel, X, y, Z, noise = problem("smooth", N)
    budgets = [0.0, 0.5 * exact_work(N), WORK]
    pairs = [evidence(kernel, X, y, Z, noise=noise, work=work) for work in budgets]
    widths = [float(upper) - float(lower) for lower, upper in pairs]
    assert widths == sorted(widths, reverse=True)
    assert widths[1] < 0.9 * widths[0]
    assert [float(end) for end in pairs[0]] == [
        float(end) for end in evidence(kernel, X, y, Z, noise=noise, members="cheap")
    ]
    assert "exact" in pairs[0][0].notes[0]
    assert "Note: The member 'exact' is left out" in str(pairs[1][1])
    assert pairs[2][0].notes == ()
    stated = float(pairs[1][0].notes[0].partition("work=")[2].split()[0])
    assert "exact" in evidence(kernel, X, y, Z, noise=noise, work=stated)[1].terms
    for end in pairs[0]:
        again = Bound.from_dict(end.to_dict())
        assert again.notes == end.notes
    assert "notes" not in pairs[2][0].to_dict()
    left_out = gap(kernel, X, y, Z, 1.0, noise=noise, work=0.0)
    assert left_out[0].notes
    assert float(left_out[1]) >= float(gap(kernel, X, y, Z, 1.0, noise=noise)[1])


def test_the_budget_is_a_count_that_the_members_keep() -> None:
    for N, work in ((50, 1e5), (10_000, 1e10), (100_000, WORK), (100_000, 10.0)):
        points = further_points(N, work)
        assert points == 0 or further_work(N, points) <= work
        assert points == N - 1 or further_work(N, points + 1) > work
    assert exact_work(10_000) <= WORK < exact_work(10_200)


def test_further_points_are_rows_that_no_others_explain() -> None:
    X = np.linspace(0.0, 10.0, 2 * CANDIDATES + 1)[:, None]
    kernel, Z = SquaredExponential(1.0, 1.0), np.array([[2.5]])
    rows = further_rows(kernel, X, Z, 5)
    assert rows.shape == (5, 1)
    assert np.isin(rows, X).all()
    assert abs(rows[0, 0] - 2.5) > 3.0
    assert len(np.unique(rows)) == 5


def test_a_model_knows_as_much_as_its_audit_and_as_its_own_objective() -> None:
    kernel, X, y, _, noise = problem("smooth", 400)
    model = SparseGP(n_inducing=30, kernel=kernel, noise=noise, optimizer=None).fit(X, y)
    lower, upper = model.log_evidence_bounds()
    assert float(lower) >= model.objective_ - 1e-6 * abs(model.objective_)
    assert float(upper) - float(lower) < 1e-3
    few = model.log_evidence_bounds(members="cheap")
    assert float(few[1]) - float(few[0]) > 100.0 * (float(upper) - float(lower))
    model.jitter_, own = 0.0, model.objective_  # a model whose jitter is below the one that bounds take
    assert float(model.log_evidence_bounds(members="cheap")[0]) >= own - 1e-6 * abs(own)


def test_rows_in_partitions_say_what_they_leave_out(tmp_path) -> None:
    kernel, X, y, Z, noise = problem("smooth")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    lower, upper = evidence(kernel, tmp_path / "X.npy", tmp_path / "y.npy", Z, noise=noise)
    assert "need all rows in memory" in upper.notes[0]
    assert float(lower) <= float(upper)
    known = gap(kernel, tmp_path / "X.npy", tmp_path / "y.npy", Z, 1.0, noise=noise)
    assert known[0].notes == upper.notes
