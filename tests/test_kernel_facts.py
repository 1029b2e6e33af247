"""What is proved of a kernel belongs to its formula: classes with another formula do not inherit it."""

from dataclasses import dataclass

import numpy as np
import pytest

import gpbounds
from fitting import LowRankGP
from gpbounds import Gaussian, lowrank
from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from gpbounds.kernels.errors import entry_bound, entry_errors
from gpbounds.kernels.facts import FACTS
from gpbounds.kernels.finite import features
from gpbounds.kernels.inner_products import InnerProduct
from gpbounds.kernels.pairs import has_pairs, largest_value, pair_covariances, pair_error
from gpbounds.kernels.white import has_one_variance
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.rates.concentration import interpolation_error
from gpbounds.renyi.blocks import kernel_is_positive
from gpbounds.spectra.finite_rank import expansion

X = np.linspace(0.0, 1.0, 5)[:, None]
LEAVES = [
    *(
        SquaredExponential(1.3, 0.3),
        Matern(1.5, 1.3, 0.3),
        RationalQuadratic(0.7),
        Periodic(),
        Constant(),
        Linear(),
        Polynomial(2),
    ),
]


class Renamed(SquaredExponential):
    """The formula of its parent, and a method of its own."""

    def halved(self):
        return Renamed(self.variance, 0.5 * self.lengthscale)

    def pull_diag(self, X, cotangent):
        return super().pull_diag(X, cotangent)


class Changed(SquaredExponential):
    """Another correlation, which is negative somewhere."""

    def correlation(self, squared):
        return np.exp(-0.5 * squared) * np.cos(3.0 * np.sqrt(squared))


class Rescaled(Matern):
    """Another formula by another way to the lengthscales."""

    def lengthscales(self, dim):
        return 2.0 * super().lengthscales(dim)


class Shifted:
    """A mixin, no kernel itself."""

    def value(self, s):
        return s + 1.0


class Mixed(Shifted, Linear):
    """The formula of the mixin."""


class Own(InnerProduct):
    """An inner product kernel of a user."""

    def value(self, s):
        return np.exp(s)

    def slope(self, s):
        return np.exp(s)


@dataclass(frozen=True, eq=False)
class Cosine(Stationary):
    """A stationary kernel of a user, on a line."""

    def correlation(self, squared):
        return np.cos(np.sqrt(squared))


class Restated(Changed):
    """States again that nothing is negative, which is false; but it is its own statement."""

    @property
    def is_positive(self):
        return True


CHANGED = [Changed(), Rescaled(1.5), Mixed(), Own(), Cosine()]


@pytest.mark.parametrize("kernel", LEAVES, ids=repr)
def test_a_leaf_states_facts_about_its_own_formula(kernel):
    assert kernel.formula_class is type(kernel)
    assert has_pairs(kernel)
    assert entry_bound(kernel, X, X) is not None
    assert value_error(kernel, np.ones(1)) >= 0.0


WIDE = np.random.default_rng(3).uniform(-2.0, 2.0, (60, 1))


@pytest.mark.parametrize("kernel", LEAVES, ids=repr)
def test_the_facts_of_a_leaf_agree(kernel):
    K, (high, low) = kernel(WIDE), pair_covariances(kernel, WIDE, WIDE)
    sharp, reach = pair_error(kernel, WIDE), np.abs(WIDE).max(axis=0)
    off = np.abs((K - high) - low) - sharp
    assert sharp <= 1e-28 * largest_value(kernel, WIDE)
    assert (off <= entry_errors(kernel, WIDE)).all()
    assert off.max() <= entry_bound(kernel, WIDE, WIDE) <= 1e-12 * largest_value(kernel, WIDE)
    assert off.max() <= value_error(kernel, reach)
    assert np.abs(K).max() <= kernel.value_bound(reach)[1]
    assert np.abs(K).max() <= largest_value(kernel, WIDE) * (1.0 + 1e-15)
    doubled = kernel.times_power(3)(WIDE)
    np.testing.assert_allclose(doubled, 8.0 * K, rtol=1e-14, atol=1e-12)
    if kernel.is_positive:
        assert K.min() >= 0.0
    if kernel.falls:
        distances, order = np.abs(WIDE - WIDE.T).ravel(), np.argsort(np.abs(WIDE - WIDE.T).ravel())
        assert (np.diff(K.ravel()[order])[np.diff(distances[order]) > 1e-9] <= 0.0).all()
    if (known := kernel.polynomial(1)) is not None:
        offset, variances, degree = known
        s = 0.0 if not len(variances) else variances[0] * WIDE * WIDE.T
        np.testing.assert_allclose(K, ((offset or 0.0) + s) ** degree * np.ones_like(K), rtol=1e-13, atol=1e-12)
    if (bend := kernel.bend(0.1)) is not None:
        ends = kernel(np.array([[0.0], [0.03], [0.1]]))
        weights = np.array([-0.7, 1.0, -0.3])
        assert np.sqrt(weights @ ends @ weights) <= bend
    if has_one_variance(kernel):
        assert np.ptp(kernel.diag(WIDE)) == 0.0


def test_a_subclass_with_the_same_formula_keeps_what_is_proved_of_the_formula():
    kernel = Renamed(2.0)
    assert kernel.formula_class is SquaredExponential
    assert (entry_errors(kernel, X) == entry_errors(SquaredExponential(2.0), X)).all()
    assert entry_bound(kernel, X, X) == entry_bound(SquaredExponential(2.0), X, X)
    assert interpolation_error(kernel, 0.1) == interpolation_error(SquaredExponential(2.0), 0.1)
    assert kernel_is_positive(kernel)


def test_values_in_30_digits_and_exact_features_are_those_of_the_class_itself():
    class Same(Linear):
        pass

    assert not has_pairs(Renamed())
    assert not has_pairs(Same() + Constant())
    with pytest.raises(ValueError, match="which are computed to 30 digits, got"):
        pair_covariances(Renamed(), X, X)
    assert features(Linear(), X, 5) is not None
    assert features(Same(), X, 5) is None
    assert expansion(Same(), (0,)) == expansion(Linear(), (0,))


@pytest.mark.parametrize("kernel", CHANGED, ids=lambda kernel: type(kernel).__name__)
def test_a_class_with_another_formula_does_not_inherit_a_proof(kernel):
    assert kernel.formula_class is type(kernel)
    assert not has_pairs(kernel)
    assert entry_bound(kernel, X, X) is None
    assert entry_bound(kernel + Constant(), X, X) is None
    assert expansion(kernel, (0,)) is None
    assert not kernel_is_positive(kernel * Constant())
    with pytest.raises(ValueError, match="whose rounding errors are proved, got"):
        entry_errors(Constant() * kernel.on([0]), X)
    with pytest.raises(ValueError, match="whose rounding errors are proved, got"):
        value_error(kernel, np.ones(1))
    for each in (kernel, kernel * Constant()):
        with pytest.raises(ValueError, match="whose correlations fall with the distance, got"):
            interpolation_error(each, 0.1)


def test_every_fact_of_a_class_with_another_formula_is_the_default():
    for fact in FACTS:
        assert getattr(Cosine, fact) is getattr(Kernel, fact)
        assert getattr(Changed, fact) is getattr(Kernel, fact)
        assert getattr(Renamed, fact) is getattr(SquaredExponential, fact)


def test_a_class_may_state_a_fact_itself():
    assert kernel_is_positive(Restated())
    assert Restated.formula_class is Changed  # the formula is the parent's
    assert entry_bound(Restated(), X, X) is None


def test_what_holds_for_all_functions_of_the_distance_is_inherited():
    assert has_one_variance(Cosine() + Constant())
    assert has_one_variance(Changed())
    assert not has_one_variance(Own())


ROWS, TARGETS = np.linspace(0.0, 3.0, 40)[:, None], np.sin(np.linspace(0.0, 3.0, 40))
DOORS = {
    "fourier_rank": lambda k: lowrank.fourier_rank(k, 10**6, noise=10.0, target=5.0, width=[2.0]),
    "fourier_rank, printed": lambda k: lowrank.fourier_rank(
        k, 10**6, noise=10.0, target=5.0, width=[2.0], rule="printed"
    ),
    "fourier_kl": lambda k: lowrank.fourier_kl(k, 1000, 50, noise=0.1, features="classical"),
    "FourierFeatures": lambda k: lowrank.FourierFeatures(k, 10, 0),
    "LeverageFourierFeatures": lambda k: lowrank.LeverageFourierFeatures(k, 10, noise=0.1, N=100, width=3.0, rng=0),
    "MercerFeatures": lambda k: lowrank.MercerFeatures(k, 10, inputs=Gaussian()),
    "mercer_rank": lambda k: lowrank.mercer_rank(k, 1000, target=1.0, inputs=Gaussian(), noise=0.1),
    "rate": lambda k: gpbounds.rate(k, 1000, 20, 1.0, noise=0.1),
    "spectrum": lambda k: gpbounds.spectrum(k, inputs=Gaussian()),
    **{
        f"LowRankGP({name!r})": lambda k, name=name: LowRankGP(name, 10, kernel=k, noise=0.1, optimizer=None).fit(
            ROWS, TARGETS
        )
        for name in ("fourier", "leverage", "mercer")
    },
}
"""What is known of a squared exponential kernel alone: spectra, laws of frequencies, eigenfunctions."""


@pytest.mark.parametrize("door", DOORS)
def test_a_subclass_with_another_formula_is_not_taken_for_its_parent(door):
    if door != "mercer_rank":  # this call has too few eigenvalues for an answer
        DOORS[door](Renamed(1.0, 0.5))
    with pytest.raises(ValueError, match=r"got Changed|for Changed"):
        DOORS[door](Changed())


def test_a_redefined_correlation_is_that_of_all_values_and_no_derivative_is_inherited():
    """Before, k(X) came from the parent's formula, written once more for speed, and so did its CUDA source."""
    kernel, r = Changed(2.0, 0.5), np.abs(ROWS - ROWS.T) / 0.5
    expected = 2.0 * np.exp(-0.5 * r**2) * np.cos(3.0 * r)
    for K in (kernel(ROWS), kernel.fill_products(ROWS, ROWS, np.empty((40, 40)))):
        np.testing.assert_allclose(K, expected, atol=1e-12)
    assert kernel.expression is None
    with pytest.raises(TypeError, match=r"kernel: expected Changed, whose formula is another .* to define slope"):
        kernel.pull(ROWS, ROWS, np.ones((40, 40)))
    parent = SquaredExponential(2.0, 0.5)
    ours, theirs = (k.pull(ROWS, ROWS, np.ones((40, 40))) for k in (Renamed(2.0, 0.5), parent))
    np.testing.assert_array_equal(ours[0], theirs[0])
