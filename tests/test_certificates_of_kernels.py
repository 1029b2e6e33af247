"""Certificates whose prior is a sum, a product, a kernel on columns, a rational quadratic or a constant."""

from __future__ import annotations

import json
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting import ExactGP, SparsePACGP, certify
from gpbounds.kernels import Constant, Kernel, Linear, Matern, Periodic, RationalQuadratic, SquaredExponential
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Sparse
from gpbounds.pacbayes.certificate import priors, schema
from gpbounds.reference import kernels as reference

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(60)
KERNELS = {
    "RQ": RationalQuadratic(0.8, 1.3, [0.9, 1.4]),
    "sum": SquaredExponential(1.3, 0.9) + Constant(0.4),
    "product": SquaredExponential(1.3, 0.9).on([0]) * Matern(1.5, 1.0, 2.0).on([1]),
    "nested": (RationalQuadratic(2.0).on([1]) + Constant(0.5)) * Matern(2.5, 1.0, [1.0, 2.0]) + SquaredExponential(0.3),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@each_kernel
@pytest.mark.parametrize("posterior", [Exact(0.3), Sparse(X[:8], 0.3, 1.0)], ids=["exact", "sparse"])
def test_a_certificate_is_issued_kept_and_confirmed(kernel: Kernel, posterior) -> None:
    grid = HyperGrid(names=tuple(priors.hyperparameters(kernel)))
    rounded = priors.with_hyperparameters(kernel, grid.round(priors.hyperparameters(kernel)))
    certificate = Certificate.issue(X, Y, posterior, rounded, grid=grid, loss=Band(0.6), delta=0.05)
    assert certificate.check(X, Y).confirmed
    again = Certificate(**schema.from_dict(json.loads(json.dumps(certificate.to_dict()))))
    assert again == certificate
    assert again.check(X, Y).confirmed
    assert certificate.bound < 1.0
    worse = json.loads(json.dumps(certificate.to_dict()))
    name = next(iter(worse["kernel"]["hyperparameters"]))
    worse["kernel"]["hyperparameters"][name] *= 1.01
    with pytest.raises(ValueError, match="hyperparameters: expected those of the structure"):
        schema.from_dict(worse)
    worse = json.loads(json.dumps(certificate.to_dict()))
    worse["kernel"]["structure"]["other"] = 1.0
    with pytest.raises(ValueError, match="structure: expected"):
        schema.from_dict(worse)


@given(seed=st.integers(0, 2**32 - 1), which=st.sampled_from(sorted(KERNELS)))
def test_the_error_of_values_is_within_its_bound(seed: int, which: str) -> None:
    """At 50 digits, of the scaled inputs as doubles: kernels with lengthscales 1."""
    rng = np.random.default_rng(seed)
    shape, variances = float(10.0 ** rng.uniform(-1.5, 2.0)), rng.uniform(0.2, 3.0, 3)
    kernel = {
        "RQ": RationalQuadratic(shape, variances[0]),
        "sum": SquaredExponential(variances[0]) + Constant(variances[1]),
        "product": SquaredExponential(variances[0]).on([0]) * Matern(1.5, variances[1]).on([1]),
        "nested": (RationalQuadratic(shape).on([1]) + Constant(variances[0])) * Matern(2.5) + SquaredExponential(0.3),
    }[which]
    points = rng.standard_normal((5, 2)) * 10.0 ** rng.uniform(-2.0, 1.5)
    K, allowed = kernel(points), priors.value_error(kernel, 2)
    with mpmath.workdps(50):
        exact = reference.matrix(kernel_to_plain(kernel), points.tolist())
        for i in range(5):
            for j in range(5):
                assert abs(exact[i, j] - mpmath.mpf(float(K[i, j]))) <= allowed
    assert allowed <= 1e-13 * kernel.max_variance


def test_estimators_train_and_certify_them() -> None:
    kernel = SquaredExponential(1.0, 1.0).on([0]) + RationalQuadratic(1.0, 0.5, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pac = SparsePACGP(n_inducing=8, epsilon=0.6, kernel=kernel, max_iter=5, random_state=0).fit(X, Y)
        exact = ExactGP(kernel, noise=0.2, max_iter=3).fit(X, Y)
    assert pac.certificate_.check(X, Y).confirmed
    assert pac.certificate_.grid.names == ("k1.variance", "k1.lengthscale", "k2.variance", "k2.shape", "k2.lengthscale")
    assert certify(exact, X, Y, loss=Band(0.6)).check(X, Y).confirmed


@pytest.mark.parametrize("kernel", [Linear(), Periodic(), SquaredExponential() * Linear(), Periodic().on([0])])
def test_kernels_whose_rounding_depends_on_x_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match=r"rounding of their values does not depend on x, got (Linear|Periodic)"):
        Certificate.issue(X, Y, Exact(0.3), kernel, grid=HyperGrid.shared(), loss=Band(0.6), delta=0.05)
