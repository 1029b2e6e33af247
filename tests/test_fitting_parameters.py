"""Parameters as a vector: conversion both ways, bounds, fixed parameters, a loss for SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize

from fitting.objectives.objective import at_point, objective
from fitting.objectives.packing import packing
from gpbounds.kernels import Matern, SquaredExponential

KERNEL = SquaredExponential(1.3, [0.7, 1.4]) + Matern(1.5, 0.2, 2.0)
Z = np.arange(6.0).reshape(3, 2)


@given(seed=st.integers(0, 2**32 - 1), learn_Z=st.booleans(), held=st.sampled_from([(), ("noise",), ("k2.variance",)]))
def test_a_vector_goes_there_and_back(seed: int, learn_Z: bool, held: tuple[str, ...]) -> None:
    layout = packing(KERNEL, 0.1, Z, learn_Z=learn_Z, fixed=held, scale=[2.0, 5.0])
    vector = np.random.default_rng(seed).standard_normal(len(layout.bounds))
    point = layout.unpack(vector)
    np.testing.assert_allclose(layout.pack(point), vector, atol=1e-13)
    assert len(layout.names) == len(layout.bounds) == 6 - len(held) + 6 * learn_Z
    if not learn_Z:
        np.testing.assert_array_equal(point.Z, Z)
    if "noise" in held:
        assert point.noise == pytest.approx(0.1, rel=1e-15)
    if "k2.variance" in held:
        assert point.kernel.k2.variance == pytest.approx(0.2, rel=1e-15)


@pytest.mark.parametrize("method", ["vfe", "fitc", "exact"])
def test_the_loss_has_the_gradient_it_says_in_the_units_of_the_vector(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    F = objective(X, np.sin(X[:, 0]), method)
    centres = None if method == "exact" else X[:4] + 0.1
    layout = packing(KERNEL, 0.1, centres, fixed=["k1.variance"], scale=[2.0, 0.5])
    loss, start = layout.loss(F), layout.pack(layout.start)
    assert check_grad(lambda v: loss(v)[0], lambda v: loss(v)[1], start) < 1e-4 * np.linalg.norm(loss(start)[1])
    assert loss(start)[0] == pytest.approx(-F.evaluate(KERNEL, 0.1, centres).value, rel=1e-12)
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=layout.bounds, options={"maxiter": 20})
    assert result.fun < loss(start)[0] - 1.0


def test_what_sits_on_a_bound_is_named() -> None:
    layout = packing(KERNEL, 0.1, Z, limits={"noise": (0.1, 10.0), "k1.lengthscale[0]": (0.1, 0.7)})
    assert layout.at_bounds(layout.pack(layout.start)) == ("k1.lengthscale[0]", "noise")
    assert layout.at_lower_and_upper(layout.pack(layout.start)) == (("noise",), ("k1.lengthscale[0]",))
    inside = at_point(SquaredExponential(1.3, [0.6, 1.4]) + Matern(1.5, 0.2, 2.0), 0.2, Z)
    assert layout.at_bounds(layout.pack(inside)) == ()


def test_wrong_arguments_are_told() -> None:
    for options, message in (
        ({"fixed": ["sigma"]}, "fixed: expected names among k1.variance, .*noise, got 'sigma'"),
        ({"limits": {"sigma": (1, 2)}}, "limits: expected names among k1.variance, .*noise, got 'sigma'"),
        (
            {"limits": {"noise": (2.0, 0.05)}},
            r"limits of noise: expected \(low, high\) with low <= high, got \(2, 0.05\)",
        ),
        ({"limits": {"noise": (1.0, 2.0)}}, "limits: expected noise from 1 to 2, got 0.1"),
        ({"limits": {"noise": (-1.0, 2.0)}}, "limits of noise: expected a positive finite number"),
        ({"scale": 0.0}, "scale: expected a positive finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            packing(KERNEL, 0.1, Z, **options)
    layout = packing(KERNEL, 0.1, Z)
    with pytest.raises(ValueError, match=r"vector: expected shape \(12,\), got \(3,\)"):
        layout.unpack(np.zeros(3))
    with pytest.raises(ValueError, match=r"Z: expected shape \(3, 2\), got \(2, 2\)"):
        layout.pack(at_point(KERNEL, 0.1, Z[:2]))
