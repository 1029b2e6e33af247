"""Certificates whose prior is another kernel than a squared exponential or Matérn, or made of several."""

from __future__ import annotations

import json
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting import PACGP, ExactGP, SparsePACGP, certify
from gpbounds.divergences import collapsed_posterior, full_posterior
from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
)
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Scaling, Sparse
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.rows import enclose, raw
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.reference import divergences as posteriors
from gpbounds.reference import renyi
from gpbounds.reference import spectra as reference
from gpbounds.rows import Source
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import ArrayPart

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(60)
KERNELS = {
    "RQ": RationalQuadratic(0.8, 1.3, [0.9, 1.4]),
    "sum": SquaredExponential(1.3, 0.9) + Constant(0.4),
    "product": SquaredExponential(1.3, 0.9).on([0]) * Matern(1.5, 1.0, 2.0).on([1]),
    "nested": (RationalQuadratic(2.0).on([1]) + Constant(0.5)) * Matern(2.5, 1.0, [1.0, 2.0]) + SquaredExponential(0.3),
    "linear": Linear([0.7, 1.3]) + Constant(0.5),
    "polynomial": Polynomial(3, [0.3, 0.5], 0.8),
    "periodic": Periodic([3.0, 5.0], 1.3, 0.9),
    "trend": Linear(0.5).on([1]) + Polynomial(2, 0.4, 0.7).on([0]) * Periodic(3.0).on([0]) + SquaredExponential(0.7),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@each_kernel
@pytest.mark.parametrize("posterior", [Exact(0.3), Sparse(X[:8], 0.3, 1.0)], ids=["exact", "sparse"])
def test_a_certificate_is_issued_kept_and_confirmed(kernel: Kernel, posterior) -> None:
    grid = HyperGrid(names=tuple(priors.hyperparameters(kernel)))
    rounded = priors.with_hyperparameters(kernel, grid.round(priors.hyperparameters(kernel)))
    certificate = Certificate.issue(X, Y, posterior, rounded, grid=grid, loss=Band(0.6), delta=0.05)
    assert certificate.check(X, Y).confirmed
    again = Certificate.from_dict(json.loads(json.dumps(certificate.to_dict())))
    assert again == certificate
    assert again.check(X, Y).confirmed
    assert certificate.bound < 1.0
    worse = json.loads(json.dumps(certificate.to_dict()))
    name = next(iter(worse["kernel"]["hyperparameters"]))
    worse["kernel"]["hyperparameters"][name] *= 1.01
    with pytest.raises(ValueError, match="hyperparameters: expected those of the structure"):
        Certificate.from_dict(worse)
    worse = json.loads(json.dumps(certificate.to_dict()))
    worse["kernel"]["structure"]["other"] = 1.0
    with pytest.raises(ValueError, match="structure: expected"):
        Certificate.from_dict(worse)


def of_units(which: str, rng: np.random.Generator) -> Kernel:
    """A kernel of this structure of unit lengthscales, at which the reference is written."""
    shape, (v, w, _) = float(10.0 ** rng.uniform(-1.5, 2.0)), rng.uniform(0.2, 3.0, 3)
    waves = Periodic(10.0 ** rng.uniform(-1.0, 1.0, 2), v, 10.0 ** rng.uniform(-1.0, 1.0, 2))
    line, powers = Linear(rng.uniform(0.1, 3.0, 2)), Polynomial(int(rng.integers(1, 6)), rng.uniform(0.1, 1.0, 2), w)
    return {
        "RQ": RationalQuadratic(shape, v),
        "sum": SquaredExponential(v) + Constant(w),
        "product": SquaredExponential(v).on([0]) * Matern(1.5, w).on([1]),
        "nested": (RationalQuadratic(shape).on([1]) + Constant(v)) * Matern(2.5) + SquaredExponential(0.3),
        "linear": line + Constant(v),
        "polynomial": powers,
        "periodic": waves,
        "trend": line + powers * waves + SquaredExponential(v),
    }[which]


@given(
    seed=st.integers(0, 2**32 - 1),
    which=st.sampled_from(sorted(KERNELS)),
    offset=st.sampled_from([0.0, 3.0, 1e4]),
    edge=st.booleans(),
)
def test_the_error_of_values_is_within_its_bound(seed: int, which: str, offset: float, edge: bool) -> None:
    """At 50 digits; the bound is small against the largest value, unless a period is short against |x|."""
    rng = np.random.default_rng(seed)
    kernel = of_units(which, rng)
    points = offset + rng.standard_normal((5, 2)) * 10.0 ** rng.uniform(-2.0, 1.5)
    if edge:  # |x_d| is as large as it may be, for all points
        points = np.sign(points) * np.abs(points).max(axis=0)
    reach = np.abs(points).max(axis=0)
    K, allowed = kernel(points), value_error(kernel, reach)
    with mpmath.workdps(50):
        exact = reference.gram(kernel_to_plain(kernel), points.tolist())
        for i in range(5):
            for j in range(5):
                assert abs(exact[i, j] - mpmath.mpf(float(K[i, j]))) <= allowed
    waves = 1e-12 * float(reach.max()) if which in ("periodic", "trend") else 0.0
    assert allowed <= (1e-13 + waves) * kernel.largest_variance(np.abs(points).max(axis=0)[None, :])


def test_the_error_of_a_product_has_the_unit_of_both_factors() -> None:
    def error(first: float, second: float) -> float:
        return value_error(SquaredExponential(first, 1.3) * Matern(1.5, second, 0.7), np.array([2.0]))

    assert [error(6.0, 1.0), error(1.5, 4.0)] == pytest.approx([4.0 * error(1.5, 1.0)] * 2, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1), power=st.sampled_from([0.0, 0.5, 1.0]))
def test_posteriors_of_rank_deficient_priors_are_within_their_allowances(seed: int, power: float) -> None:
    """KL, means and variances of `enclose` at 60 digits: K is singular, and Kuu too, except for its jitter.

    The KL of the exact posterior is that of the D weights: the function is determined by them.
    """
    rng = np.random.default_rng(seed)
    D, N = int(rng.integers(1, 3)), 7
    kernel: Kernel = Linear(rng.uniform(0.2, 2.0, D)) if rng.random() < 0.5 else Polynomial(2, 0.5, 1.0).on([0])
    points = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-1.0, 2.0)
    y, noise = rng.standard_normal(N), float(10.0 ** rng.uniform(-2.0, 1.0))
    Z = np.vstack([points[:2], rng.standard_normal((3, D))])
    error = value_error(kernel, np.abs(np.vstack([points, Z])).max(axis=0))
    full = full_posterior(kernel, points, y, noise=noise, entry_error=error)
    jitter = 1e-7 * kernel.largest_variance(Z)
    sparse = collapsed_posterior(kernel, points, y, Z, noise=noise, power=power, jitter=jitter, entry_error=error)
    plain = kernel_to_plain(kernel)
    with mpmath.workdps(60):
        both = reference.gram(plain, np.vstack([points, Z]).tolist())
        K, Kuf, Kuu = both[:N, :N], both[N:, :N], both[N:, N:] + mpmath.mpf(sparse.jitter) * mpmath.eye(len(Z))
        r, n = renyi.matrix(y), mpmath.mpf(noise)
        truth = posteriors.posterior_kl(K, r, n)
        if isinstance(kernel, Linear):  # P = I + AᵀA/σ² of weights w ~ N(0, I), rows a_i = √variance·x_i
            A = mpmath.matrix(points.tolist()) * mpmath.diag([mpmath.sqrt(v) for v in kernel.variances(D)])
            P = mpmath.eye(D) + A.T * A / n
            mean = mpmath.lu_solve(P, A.T * r / n)
            weights = (mpmath.log(mpmath.det(P)) + sum((P**-1)[d, d] for d in range(D)) - D + (mean.T * mean)[0]) / 2
            assert abs(weights - truth) < mpmath.mpf("1e-30") * (1 + truth)
        assert abs(full.kl - truth) <= full.kl_rounding
        strength = kernel.largest_variance(points) / noise
        assert full.kl_rounding < 1e-10 * (1.0 + full.kl) * (1.0 + strength)
        shift, B = posteriors.collapsed_law(K, Kuf, Kuu, r, n, mpmath.mpf(power))
        assert abs(sparse.kl - posteriors.sparse_kl(Kuu, shift, B)) <= sparse.kl_rounding
        laws = posteriors.full_law(K, K, K, r, n), posteriors.sparse_law(Kuu, Kuf, K, shift, B)
        for predicted, (mean, law) in zip((full.predict(), sparse.predict(points)), laws, strict=True):
            for i in range(N):
                assert abs(predicted.mean[i] - mean[i]) <= predicted.mean_error[i]
                assert abs(predicted.variance[i] - law[i, i]) <= predicted.variance_error[i]


def test_estimators_train_and_certify_a_trend_and_a_period() -> None:
    kernel = Linear(1.0).on([1]) + Periodic(3.0).on([0]) * SquaredExponential(1.0, 2.0).on([0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = PACGP(epsilon=0.6, kernel=kernel, max_iter=4, random_state=0).fit(X, Y)
        flat = SparsePACGP(n_inducing=8, epsilon=0.6, kernel=Linear(1.0), max_iter=4, random_state=0).fit(X, Y)
    assert full.certificate_.check(X, Y).confirmed
    assert full.certificate_.bound < 0.8
    assert full.certificate_.grid.names[-1] == "k2.k2.lengthscale"
    assert "k2.k1.period" in full.certificate_.grid.names
    assert flat.certificate_.posterior.jitter > 0.0  # eight inducing points of a kernel of rank 2
    assert flat.certificate_.check(X, Y).confirmed


def test_estimators_train_and_certify_them() -> None:
    kernel = SquaredExponential(1.0, 1.0).on([0]) + RationalQuadratic(1.0, 0.5, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pac = SparsePACGP(n_inducing=8, epsilon=0.6, kernel=kernel, max_iter=5, random_state=0).fit(X, Y)
        exact = ExactGP(kernel, noise=0.2, max_iter=3).fit(X, Y)
    assert pac.certificate_.check(X, Y).confirmed
    assert pac.certificate_.grid.names == ("k1.variance", "k1.lengthscale", "k2.variance", "k2.shape", "k2.lengthscale")
    assert certify(exact, X, Y, loss=Band(0.6)).check(X, Y).confirmed


@pytest.mark.parametrize("inputs", [Scaling(), Scaling("fixed in advance", [1.0, -3.0], [0.5, 2.0])])
def test_rows_in_partitions_have_the_largest_inputs_of_the_same_rows_in_arrays(inputs: Scaling) -> None:
    """The bound on the error of values depends on the largest scaled |x_d|, which moments of partitions hold."""
    kernel, edges = Linear(1.0) * Periodic(1.0), (0, 7, 41, 60)
    grid, posterior = HyperGrid(names=tuple(priors.hyperparameters(kernel))), Sparse(X[:6], 0.3, 0.5, 1e-4)
    rows = Source.of(Local([ArrayPart(X, Y, i, slice(*edges[i : i + 2])) for i in range(3)]), single=True)
    declared = {"grid": grid, "loss": Band(0.6), "delta": 0.05, "inputs": inputs}
    certificates = [Certificate.issue(*data, posterior, kernel, **declared) for data in ((X, Y), (rows, None))]
    for stated in certificates:
        assert stated.check(X, Y).confirmed
        assert stated.check(rows).confirmed
    assert certificates[1].kl == pytest.approx(certificates[0].kl, rel=1e-7)
    far, near = (
        raw(rows).enclose(posterior, kernel, each, Scaling(), Band(0.6)).kl_error for each in (inputs, Scaling())
    )
    own = enclose(posterior, kernel, inputs.apply(X), Y, Band(0.6)).kl_error
    assert far == pytest.approx(own, rel=0.2)
    assert (far > 2.0 * near) == (inputs != Scaling())


class Unknown(SquaredExponential):
    """A kernel of which the record cannot state that it is positive semi-definite."""


@pytest.mark.parametrize("kernel", [Unknown(), Unknown() * Linear(), Unknown().on([0])])
def test_kernels_without_a_bound_on_their_rounding_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match=r"kernel: expected SquaredExponential.*on their rounding, got Unknown"):
        Certificate.issue(X, Y, Exact(0.3), kernel, grid=HyperGrid.shared(), loss=Band(0.6), delta=0.05)


def test_more_inducing_points_than_the_rank_need_jitter_and_a_small_one_is_refused() -> None:
    """Without jitter Kuu is singular; the least jitters leave the KL unknown, larger ones do not."""
    grid, at = HyperGrid(names=("variance",)), Linear(1.0)
    declared = {"grid": grid, "loss": Band(0.6), "delta": 0.05}
    exact = Certificate.issue(X, Y, Exact(0.3), at, **declared)
    two = Certificate.issue(X, Y, Sparse(X[:2], 0.3, 0.0, 0.0), at, **declared)
    assert two.kl == pytest.approx(exact.kl, rel=1e-6)  # rank 2: the sparse posterior is the exact one
    with pytest.raises(ValueError, match=r"Kuu|KL"):
        Certificate.issue(X, Y, Sparse(X[:8], 0.3, 0.0, 0.0), at, **declared)
    jittered = Certificate.issue(X, Y, Sparse(X[:8], 0.3, 0.0, 1e-5), at, **declared)
    assert jittered.check(X, Y).confirmed
    assert jittered.kl == pytest.approx(exact.kl, rel=1e-3)


def _checked(record: dict) -> None:
    """Read and check a record that was sealed again; a Q that cannot be evaluated is an error."""
    report = Certificate.from_dict(record).sealed().check(X, Y)
    assert not report.confirmed
    if report.line("posterior").state == "failed":
        raise ValueError(report.line("posterior").text)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("degree", 0, "degree"),
        ("degree", 2.5, "degree"),
        ("degree", True, "structure"),
        ("degree", 10**6, "an overflow"),
        ("offset", -1.0, "offset"),
        ("variance", [0.3, 0.5, 0.1], "variance"),
        ("type", "Linear", "structure"),
    ],
)
def test_forged_polynomials_are_refused(field: str, value: object, message: str) -> None:
    kernel = KERNELS["polynomial"]
    grid = HyperGrid(names=tuple(priors.hyperparameters(kernel)))
    rounded = priors.with_hyperparameters(kernel, grid.round(priors.hyperparameters(kernel)))
    certificate = Certificate.issue(X, Y, Exact(0.3), rounded, grid=grid, loss=Band(0.6), delta=0.05)
    record = json.loads(json.dumps(certificate.to_dict()))
    record["kernel"]["structure"][field] = value
    with pytest.raises(ValueError, match=message):
        _checked(record)


def test_values_that_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="that double precision can hold, got an overflow for inputs as large as 10"):
        value_error(Polynomial(400, 1.0, 1.0), np.array([10.0, 1.0]))
    assert enclose(Exact(0.3), Polynomial(4, 1.0, 1.0), X, Y, Band(0.6)).kl_error < 1e-6
