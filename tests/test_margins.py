"""Documented tolerances, margins and limits, each at its edge: a value 0.1 % beyond it must be noticed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpbounds import Empirical, Gaussian, Matern, SquaredExponential, Uniform
from gpbounds.arrays import EPS
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.residual import expected_residual
from gpbounds.linalg import AUTO_LADDER
from gpbounds.numerics.pairs import two_product
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.rates.draws import errors
from gpbounds.rates.draws.errors import EnclosedRows, certified_share, of_kdpp
from gpbounds.rates.draws.norm import adversary
from gpbounds.rates.draws.pairs import GradedRows
from gpbounds.rates.draws.tilted import tilted_given
from gpbounds.renyi.blocks import Moved
from gpbounds.renyi.residual import nystrom
from gpbounds.renyi.streamed import streamed
from gpbounds.spectra import pairs as graded
from gpbounds.spectra import spectrum
from gpbounds.spectra.balls import laws
from gpbounds.spectra.box import BoxSpectrum
from gpbounds.spectra.gaussian import DominatedSpectrum, tail_roundings
from gpbounds.spectra.matern import MaternUniform
from gpbounds.spectra.pairs import EnclosedSpectrum
from gpbounds.spectra.ritz import WeylLaw
from gpbounds.whitening import require_residual


@given(a=st.integers(0, 2**52), b=st.integers(0, 2**52))
@example(a=2**25 + 1, b=2**24 + 1)
def test_a_product_of_pairs_is_exact_just_above_a_power_of_two(a: int, b: int) -> None:
    """The halves have 26 bits each, also where the leading bits of a number are 1.000…"""
    for shift in (0, 12):
        x, y = 1.0 + (a >> shift) * 2.0**-52, 1.0 + (b >> shift) * 2.0**-52
        high, low = two_product(x, y)
        assert Fraction(high) + Fraction(low) == Fraction(x) * Fraction(y)


def test_the_jitters_that_are_tried_are_those_of_the_glossary() -> None:
    assert AUTO_LADDER == (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


@pytest.mark.parametrize(("M", "share"), [(10, 1e-10), (10_000, 100.0 * 10_000 * EPS)])
def test_a_residual_is_refused_just_beyond_the_rounding_error(M: int, share: float) -> None:
    require_residual(-0.9999 * share * 3.0, 3.0, M)
    with pytest.raises(NotPositiveDefinite, match="rounding error"):
        require_residual(-1.0001 * share * 3.0, 3.0, M)


@pytest.mark.parametrize(
    ("kernel", "dim", "units"),
    [(SquaredExponential(2.0), 1, 2 * 17.6), (SquaredExponential(1.0), 7, 20.0), (Matern(2.5), 2, 0.4 * 5 + 32.0)],
)
def test_the_error_of_a_value_of_the_prior_is_the_one_that_is_derived(kernel, dim, units) -> None:
    """0.4 eps for each of dim + 3 roundings of r² (v/e < 0.4 v), 8 eps for each step and for the product."""
    assert value_error(kernel, np.ones(dim)) == pytest.approx(units * EPS, rel=1e-12)


def test_nothing_is_proved_where_the_total_variation_eats_the_probability() -> None:
    residual = expected_residual([3.0, 1.0], 1, noise=1.0)
    assert float(tilted_given(residual, [1.0, 1.0], delta=0.25, draws=2, tv=0.5)) == math.inf  # p = 0
    assert math.isfinite(float(tilted_given(residual, [1.0, 1.0], delta=0.25, draws=2, tv=0.499)))
    with_errors = [
        float(of_kdpp(residual, 1.0, p, 1.0, 0.25, 1.0, 1, "N-given", ()))
        for p in (certified_share(0.25, 2, 0.5), 0.25)
    ]
    assert with_errors[0] == math.inf > with_errors[1]
    void = adversary(residual, 1.0, delta=0.25, draws=2, tv=0.5)
    assert float(void) == math.inf > float(adversary(residual, 1.0, delta=0.25, draws=2, tv=0.4))
    assert "p = δ^(1/R) − tv = " in void.assumptions[-1]


def test_a_box_counts_the_roundings_that_are_derived() -> None:
    """10 (log of the share) + 8000 + one for each eigenvalue that is kept (N-tail-rounding)."""
    law = BoxSpectrum(SquaredExponential(1.0, 0.5), Uniform(0.0, 1.0))
    assert law.roundings(np.array([5.0, 50.0]), 300.0) == pytest.approx(11_000.0 + law._log_tails.size, rel=1e-12)


@pytest.mark.parametrize("M", [0, 10, 60])
def test_domination_counts_the_roundings_that_are_derived(M: int) -> None:
    """2L + 6800 and, at this M, 29 log C + 13 D + 2|log Cs| + c_G of the Gaussian law (N-tail-rounding)."""
    law, at = DominatedSpectrum(SquaredExponential(1.0, 0.5), Uniform(0.0, 1.0)), np.array([float(M)])
    log_C, log_s = law._parts(law._scale(at), at)
    gaussian = tail_roundings(1, np.zeros(1), np.maximum(np.abs(log_s), 500.0))
    counted = 29.0 * log_C + 13.0 + 2.0 * np.abs(log_C + log_s) + gaussian
    assert (law.roundings(at, 500.0) >= (counted + 7800.0) * (1.0 - 1e-12)).all()


def test_as_many_rows_and_eigenvalues_are_enclosed_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are served, one more is refused: 2^17 eigenvalues in order, and the greatest N with 30 digits."""
    law = laws(SquaredExponential(1.0, [1.0, 2.0]), Gaussian(dim=2))
    assert len(law._degrees(2**17)) == 2**17
    with pytest.raises(ValueError, match="beyond 131072 eigenvalues"):
        law._degrees(2**17 + 1)
    monkeypatch.setattr(graded, "LARGEST", 4)
    assert EnclosedSpectrum(SquaredExponential(), Empirical(np.arange(4.0))).upper_eigenvalues().size == 4
    with pytest.raises(ValueError, match="at most 4 rows"):
        EnclosedSpectrum(SquaredExponential(), Empirical(np.arange(5.0)))


def test_squares_of_enclosed_eigenvalues_allow_for_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """(λ + ε)² + σ²(λ + ε) is at most what the tilted law of enclosed rows is given; equal at λ = σ² (N-enclosed)."""
    rows, given_to = EnclosedRows(SquaredExponential(), np.arange(4.0)[:, None], np.ones((4, 1))), []
    rows.error, usual = 0.3, errors.expected_residual
    monkeypatch.setattr(errors, "expected_residual", lambda values, M: given_to.append(values) or usual(values, M))
    values = rows.eigen.values
    noise = float(values[1])
    rows.tilted_quadratic(2, noise)
    least = (values + 0.3) ** 2 + noise * (values + 0.3)
    assert (given_to[0] >= least * (1.0 - 1e-14)).all()
    assert given_to[0][1] == pytest.approx(least[1], rel=1e-13)


def test_graded_rows_are_drawn_up_to_their_rank() -> None:
    """At most N − 1 of distinct rows, and as many as are distinct where rows are equal."""
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert GradedRows(SquaredExponential(), X, None).largest == 3
    assert GradedRows(SquaredExponential(), X[[0, 1, 0, 1]], None).largest == 2


@pytest.mark.parametrize("N", [3, 40])
def test_sums_over_rows_have_the_allowance_that_is_derived(N: int) -> None:
    """40 (N + 100) eps, in doubles and in 30 digits (N-enclosed); verification/test_certified_draws.py checks it."""
    X = np.arange(float(N))[:, None]
    for rows in (EnclosedRows(SquaredExponential(), X, np.ones((N, 1))), GradedRows(SquaredExponential(), X, None)):
        assert rows.up >= 1.0 + 40.0 * (N + 100) * EPS


def test_the_inverse_of_a_sum_over_rows_pays_for_the_rounding_of_the_sum() -> None:
    """I + VVᵀ/σ² is off by what summing 500 products in VVᵀ loses, and Q by less, both over σ² (N-moment-rounding)."""
    X = np.linspace(0.0, 3.0, 500)[:, None]
    problem = streamed(SquaredExponential(), X, np.sin(X[:, 0]), X[::250], noise=1e-3, jitter=0.0)
    lost = problem.accuracy.gram + problem.accuracy.below
    assert Moved.of(problem, problem.N).inverse >= lost / problem.noise


def test_eigenvalues_allow_for_the_roundings_of_the_sums_they_come_from() -> None:
    """VVᵀ sums N products, K − Q sums M of them: n·eps of the trace, or of the norm, for sums of n terms."""
    rng = np.random.default_rng(0)
    X, kernel = rng.standard_normal((40, 2)), SquaredExponential(2.0)
    y, Z = rng.standard_normal(40), X[:7]
    terms = streamed(kernel, X, y, Z, noise=0.1, jitter="auto")
    assert terms.spectrum.rounding >= 40 * EPS * float(terms.white.gram.trace())
    dense = nystrom(kernel, X, Z)
    assert dense.rounding >= (40 + 7) * EPS * float(np.abs(dense.K).sum(axis=1).max())


def test_an_input_without_effect_changes_no_tail_even_if_its_ratio_underflows() -> None:
    """A lengthscale of 1e200 standard deviations: B = 1e-400; the spectrum is that of the other input."""
    alone = spectrum(SquaredExponential(1.0, 1.0), inputs=Gaussian())
    both = spectrum(SquaredExponential(1.0, [1.0, 1e200]), inputs=Gaussian(1.0, 2))
    M = np.arange(1, 40)
    np.testing.assert_allclose(both.log_tail(M), alone.log_tail(M), rtol=1e-12)


def test_ratios_of_lengthscale_and_width_decide_the_spectrum() -> None:
    """ℓ = (1, 2), s = (2, 1): the products agree, the ratios do not."""
    both = spectrum(SquaredExponential(1.0, [1.0, 2.0]), inputs=Gaussian([2.0, 1.0]))
    parts = [
        spectrum(SquaredExponential(1.0, ell), inputs=Gaussian(s)).eigenvalues(40)
        for ell, s in ((1.0, 2.0), (2.0, 1.0))
    ]
    expected = np.sort(np.outer(*parts).ravel())[::-1][:20]
    np.testing.assert_allclose(both.eigenvalues(20), expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_weyls_law_has_the_whole_trace(dim: int) -> None:
    """∫ N(λ) dλ = k(x, x), up to the error of the table; a volume of the ball off by 10⁻³ shows."""
    law = WeylLaw(Matern(1.5), Uniform([0.0] * dim, [1.0] * dim))
    assert float(law.log_tail(np.array([1e-30]))[0]) == pytest.approx(0.0, abs=2e-4)


def test_beyond_the_ritz_values_is_at_most_what_they_leave_of_the_trace() -> None:
    """ν = 9/2, ℓ = 0.05: the Legendre tail is 2.1e-7, and 1 less the Ritz values 1.75e-7."""
    law = spectrum(Matern(4.5, 1.0, 0.05), inputs=Uniform())
    assert isinstance(law, MaternUniform)
    rest = 1.0 - float(law._ritz.sum())
    assert float(np.exp(law._log_ky_fan[-1])) <= rest + 200.0 * law._ritz.size * EPS
