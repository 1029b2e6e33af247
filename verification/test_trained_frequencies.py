"""Frequencies as functions of hyperparameters: the mixture of a rational quadratic kernel, lines of a periodic one."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observer import Observer

from fitting.features.spectrum import gamma_scale, log_line

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.claim("N-gamma")
@settings(max_examples=20)
@given(seed=SEEDS, log_shape=st.floats(-3.0, 4.0))
def test_scales_are_quantiles_with_their_derivative(observe: Observer, seed: int, log_shape: float) -> None:
    """P(shape, shape·τ) = u at 40 digits, and d log τ/d log shape at constant P."""
    shape, uniform = 10.0**log_shape, 1.0 - np.random.default_rng(seed).random(2)
    root, slope = gamma_scale(shape, uniform)
    with mpmath.workdps(40):
        a = mpmath.mpf(shape)
        for u, each, along in zip(uniform, root, slope, strict=True):
            if each < 1e-140:  # τ underflows
                continue
            g = a * mpmath.mpf(each) ** 2

            def lower(b, x):
                return mpmath.gammainc(b, 0, x, regularized=True)

            density = g ** (a - 1) * mpmath.exp(-g) / mpmath.gamma(a)
            observe.upper("N-gamma", abs(lower(a, g) - mpmath.mpf(u)), 1e-11 * u + 1e-11 * g * density)
            h = a * mpmath.mpf("1e-12")
            in_shape = (lower(a + h, g) - lower(a - h, g)) / (2 * h)
            truth = -a * in_shape / (g * density)  # d log g/d log shape
            observe.equal("N-gamma", 2.0 * along + 1.0, float(truth), rtol=1e-8, atol=1e-8)


@pytest.mark.claim("N-line")
@settings(max_examples=20)
@given(j=st.integers(0, 300), log_kappa=st.floats(-12.0, 8.0))
def test_weights_of_lines_and_their_derivatives(observe: Observer, j: int, log_kappa: float) -> None:
    kappa = np.exp(log_kappa)
    log, slope = log_line(np.array([[float(j)]]), np.array([kappa]))
    with mpmath.workdps(40):
        x = mpmath.mpf(kappa)
        value = mpmath.exp(-x) * mpmath.besseli(j, x)
        exact = mpmath.log(value), mpmath.besseli(j, x, derivative=1) / mpmath.besseli(j, x) - 1
        loose = 1e-12 if value > mpmath.mpf("1e-280") else 1e-2  # there the leading term of an expansion stands
    observe.equal("N-line", log.item(), float(exact[0]), rtol=loose, atol=1e-12)
    observe.equal("N-line", slope.item(), float(exact[1]), rtol=max(loose, 1e-9), atol=1e-9)
