"""Noise of each row: what is refused, and the sentences that say why; numbers are checked in verification."""

from __future__ import annotations

import numpy as np
import pytest

from gpbounds import at_unit_noise, inducing_points, rate
from gpbounds.audit import subject
from gpbounds.divergences import collapsed_posterior, full_posterior
from gpbounds.inputs import Empirical
from gpbounds.iterative import exact_predictions
from gpbounds.kdpp import select
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank import fourier_kl, log_evidence
from gpbounds.renyi import evidence, gap, minimum_gap, predict
from gpbounds.vecchia import factor, near

KERNEL = SquaredExponential(1.2, 0.8)
X = np.linspace(0.0, 5.0, 12)[:, None]
Y = np.sin(X[:, 0])
NOISE = np.linspace(0.01, 0.5, 12)
Z = X[::4] + 0.1
ROWS = Empirical(X)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: evidence(KERNEL, X, Y, Z, noise=NOISE[:5]), r"noise: .*one number, or shape \(12,\).*got \(5,\)"),
        (lambda: gap(KERNEL, X, Y, Z, 1.0, noise=-NOISE), r"noise: expected a positive finite number, got -0.01 at"),
        (lambda: gap(KERNEL, X, Y, Z, 1.0, noise=[0.1, [0.2]]), "noise: expected positive numbers"),
        (
            lambda: evidence(KERNEL, "rows.npy", None, Z, noise=NOISE),
            "noise: expected one number for rows that are read",
        ),
        (lambda: evidence(KERNEL, X, Y, X[:, [0, 0]], noise=NOISE), r"Z: expected 1 column\(s\), got shape \(12, 2\)"),
        (lambda: evidence(KERNEL, X, Y * 1e150, Z, noise=NOISE * 1e-20), "noise, y: expected numbers whose ratio"),
        (lambda: evidence(KERNEL, X, Y, None, noise=NOISE * 1e-60, rigor="sharp"), "variances that are larger by one"),
        (lambda: predict(KERNEL, X, Y, Z, X, 1.0, noise=NOISE, noisy=True), "noisy: expected False with noise of each"),
        (lambda: rate(KERNEL, 12, 3, 1.0, inputs=ROWS, noise=NOISE, y_norm2=3.0), "y_norm2: .*needs Σ y_i²/noise_i"),
        (lambda: rate(KERNEL, 12, 3, 1.0, inputs=ROWS, noise=NOISE, simulate=39, rng=0), "simulate: .*is not known"),
        (lambda: inducing_points(KERNEL, 12, 1.0, target=0.1, noise=NOISE), r"these rows, inputs=Empirical\(X\)"),
        (lambda: full_posterior(KERNEL, X, Y, noise=NOISE), "collapsed_posterior.* is the exact posterior"),
        (lambda: collapsed_posterior(KERNEL, X, Y, Z, noise=NOISE[1:], power=1.0), r"got \(11,\)"),
        (lambda: select(KERNEL, X, 3, method="best", y=Y, noise=NOISE, rng=0), "the law of the draws depends on it"),
        (lambda: minimum_gap([2.0, 1.0], 1, 1.0, noise=NOISE), "pass the eigenvalues of"),
        (lambda: fourier_kl(KERNEL, 12, 400, noise=NOISE, width=8.0), "the theorem is about a stationary kernel"),
        (lambda: log_evidence(X, Y, noise=NOISE), "where each row has its own, divide y, features"),
        (lambda: subject(KERNEL, X, Y, Z, noise=NOISE), "an audit scores predictions of new rows"),
        (
            lambda: factor(KERNEL, X, noise=NOISE, blocks=near(KERNEL, X, block=4, neighbours=4, rng=0)),
            "factorise rows of unit noise",
        ),
    ],
)
def test_each_refusal_says_why(call, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


def test_several_noises_for_given_rows_are_a_row_of_statements() -> None:
    """An array (N,) is one statement about N noises; an array of another shape is as many statements."""
    assert np.ndim(rate(KERNEL, 12, 3, 1.0, inputs=ROWS, noise=NOISE).value) == 0
    several = rate(KERNEL, 12, 3, 1.0, inputs=ROWS, noise=NOISE[None])
    alone = [float(rate(KERNEL, 12, 3, 1.0, inputs=ROWS, noise=each)) for each in NOISE[:2]]
    np.testing.assert_allclose(several.value[0, :2], alone, rtol=1e-12)


def test_two_outputs_share_the_noise_of_their_row() -> None:
    both = np.column_stack([Y, Y**2])
    for function, arguments in ((evidence, (Z,)), (gap, (Z, 0.5))):
        whole = function(KERNEL, X, both, *arguments, noise=NOISE)
        parts = [function(KERNEL, X, column, *arguments, noise=NOISE) for column in both.T]
        for end in (0, 1):
            assert float(whole[end]) == pytest.approx(sum(float(part[end]) for part in parts), rel=1e-6)


def test_points_are_beside_a_column_of_ones_and_the_change_is_that_of_the_page() -> None:
    unit = at_unit_noise(KERNEL, X, Y, NOISE)
    np.testing.assert_array_equal(unit.points(Z), np.column_stack([Z, np.ones(3)]))
    np.testing.assert_allclose(unit.X[:, 1] ** 2, 1.0 / NOISE, rtol=4.0 * 2.0**-53)
    np.testing.assert_allclose(unit.kernel(unit.X), KERNEL(X) / np.sqrt(NOISE[:, None] * NOISE), rtol=1e-14)
    assert at_unit_noise(KERNEL, X, None, NOISE).y is None


def test_predictions_of_rows_far_apart_in_noise_have_the_asked_width() -> None:
    noise = np.where(np.arange(12) % 2, 1e-8, 1e4)
    made = exact_predictions(KERNEL, X, Y, X[:3] + 0.2, noise=noise)
    assert (made.mean[1] - made.mean[0] < 1e-2).all()


@pytest.mark.gpu
def test_the_gpu_computes_what_the_cpu_does(cupy) -> None:
    arrays = X, Y, Z
    for function, rest, options in (
        (evidence, (), {"members": "cheap"}),
        (gap, (1.0,), {"method": "streamed"}),
    ):
        on_host = function(KERNEL, *arrays, *rest, noise=NOISE, **options)
        for noise in (NOISE, cupy.asarray(NOISE)):
            on_device = function(KERNEL, *map(cupy.asarray, arrays), *rest, noise=noise, **options)
            np.testing.assert_allclose([float(end) for end in on_device], [float(end) for end in on_host], rtol=1e-8)
