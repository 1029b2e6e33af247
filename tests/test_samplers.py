"""Laws by example: the draws are those of the model, whatever its random state; bad draws raise errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.neighbors import KernelDensity

import gpbounds
from gpbounds import Empirical, NonFinite, Sampler, SquaredExponential, inducing_points, rate, spectrum
from gpbounds.rates.to_come import simulation

ROWS = np.concatenate(
    [np.random.default_rng(0).normal(-3.0, 0.5, (300, 1)), np.random.default_rng(1).normal(2.0, 1.0, (100, 1))]
)


def mixture(random_state=0):
    return GaussianMixture(2, random_state=random_state).fit(ROWS)


def mixture_cdf(x):
    model = mixture()
    return sum(
        w * stats.norm.cdf(x, m, np.sqrt(v))
        for w, m, v in zip(model.weights_, model.means_.ravel(), model.covariances_.ravel(), strict=True)
    )


@pytest.mark.parametrize(
    ("model", "cdf"),
    [
        (mixture(), mixture_cdf),
        (mixture(np.random.RandomState(3)), mixture_cdf),
        (KernelDensity(bandwidth=0.3).fit(ROWS), lambda x: stats.norm.cdf(x[:, None], ROWS.T, 0.3).mean(axis=1)),
        (
            stats.gaussian_kde(ROWS.T, 0.2),
            lambda x: stats.norm.cdf(x[:, None], ROWS.T, 0.2 * ROWS.std(ddof=1)).mean(axis=1),
        ),
    ],
    ids=["mixture", "its own generator", "kernel density", "SciPy's density"],
)
def test_a_fitted_model_is_drawn_from_its_law(model, cdf):
    law, rng = Sampler.of(model), np.random.default_rng(5)
    X = law.sample(3000, rng)
    assert X.shape == (3000, law.dim) == (3000, 1)
    assert stats.kstest(X.ravel(), cdf).pvalue > 1e-6
    half = X[:1500].ravel()  # the order says nothing: scikit-learn sorts the draws of a mixture by component
    assert stats.ks_2samp(half, X[1500:].ravel()).pvalue > 1e-6
    np.testing.assert_array_equal(law.sample(7, np.random.default_rng(2)), law.sample(7, np.random.default_rng(2)))
    assert (law.sample(7, rng) != law.sample(7, rng)).all()


def test_a_model_keeps_its_random_state():
    model = mixture(4)
    before = model.sample(5)[0]
    Sampler.of(model).sample(5, np.random.default_rng(0))
    np.testing.assert_array_equal(model.sample(5)[0], before)
    assert model.random_state == 4


def test_mixtures_of_two_columns_keep_their_covariance():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 2)) @ [[1.0, 0.9], [0.0, 0.4]]
    law = Sampler.of(BayesianGaussianMixture(n_components=1, random_state=0).fit(rows))
    X = law.sample(4000, rng)
    np.testing.assert_allclose(np.cov(X.T), np.cov(rows.T), rtol=0.2, atol=0.02)


@pytest.mark.slow
def test_plans_by_simulation_take_a_law_by_example():
    """The k-th greatest of the M's of the sets that the law draws, one by one."""
    law, kernel, settings = Sampler.of(mixture()), SquaredExponential(1.0, 0.5), {"noise": 0.1, "draws": 10}
    plan = inducing_points(kernel, 40, 1.0, inputs=law, target=0.5, simulate=39, rng=3, **settings)
    sets = simulation(law, 40, sets=39, delta=0.05, rng=3)
    given = {"target": 0.5, "delta": sets.rest, "law": "tilted", **settings}
    sizes = [inducing_points(kernel, 40, 1.0, inputs=Empirical(X), **given).M for X in sets.samples()]
    assert plan.M == max(sizes)
    assert any("drawn independently from Sampler(GaussianMixture)" in text for text in plan.bound.assumptions)


def test_the_bound_fails_no_more_often_than_stated():
    """N-sim for inputs from the law: the mean trace of a new set exceeds the greatest of 39 in one of 40 cases."""
    law, kernel = Sampler.of(mixture()), SquaredExponential(1.0, 0.5)

    def fails(rng):
        sets = law.sample(40 * 10, rng).reshape(40, 10, 1)
        traces = np.linalg.eigvalsh([kernel(X) for X in sets])[:, :-4].sum(axis=1)
        return traces[0] > traces[1:].max()

    rng = np.random.default_rng(11)
    failures = sum(fails(rng) for _ in range(300))
    assert stats.binomtest(failures, 300, 1 / 40, alternative="two-sided").pvalue > 1e-3


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (
            lambda N, rng: rng.standard_normal(N),
            ValueError,
            r"real numbers of shape \(8, dim\) for N = 8, got shape \(8,\)",
        ),
        (lambda N, rng: rng.standard_normal((2, N)), ValueError, r"shape \(8, dim\) for N = 8, got shape \(2, 8\)"),
        (lambda N, rng: rng.standard_normal((N, 0)), ValueError, r"got shape \(8, 0\)"),
        (lambda N, rng: (rng.standard_normal((N, 2)), np.zeros(N)), ValueError, "an array of numbers, got|got tuple"),
        (lambda N, rng: None, ValueError, r"shape \(8, dim\) for N = 8, got NoneType"),
        (lambda N, rng: np.full((N, 2), "a"), ValueError, "expected real numbers"),
        (
            lambda N, rng: rng.standard_normal((N, 2)) + 1j,
            ValueError,
            "expected real numbers, got complex128",
        ),
        (
            lambda N: np.zeros((N, 2)),
            ValueError,
            r"callable \(N, rng\) -> .*, got one with too many positional arguments",
        ),
        (lambda N, rng, more: rng, ValueError, "got one with missing a required argument: 'more'"),
        (lambda N, rng: np.where(np.arange(N) == 3, np.nan, 1.0)[:, None], NonFinite, "NaN or infinity in row 3 of 8"),
        (lambda N, rng: np.full((N, 2), np.inf), NonFinite, "NaN or infinity in row 0 of 8"),
        (lambda N, rng: mixture(0).sample(N)[0], ValueError, "rows that depend on rng, got the same 8 rows"),
        (
            lambda N, rng: rng.standard_normal((N, 2 + int(rng.integers(9)))),
            ValueError,
            "columns, as in the first draw",
        ),
        (np.zeros((8, 2)), ValueError, r"callable \(N, rng\) -> array \(N, dim\), got array"),
    ],
)
def test_what_is_not_a_draw_is_refused(draw, error, message):
    with pytest.raises(error, match=rf"^draw: expected .*{message}|^draw: {message}"):
        Sampler(draw)


def test_a_draw_that_changes_later_is_refused():
    calls = []

    def draw(N, rng):
        calls.append(N)
        return rng.standard_normal((N, 3 if len(calls) > 2 else 2))

    law = Sampler(draw, "two columns, then three")
    with pytest.raises(ValueError, match=r"^draw: expected 2 columns, as in the first draw, got shape \(5, 3\)"):
        law.sample(5, np.random.default_rng(0))


def test_what_has_no_rows_is_refused():
    with pytest.raises(ValueError, match=r"^model: expected a fitted model with sample or resample, got dict"):
        Sampler.of({})


def test_no_spectrum_is_known():
    law = Sampler.of(mixture())
    with pytest.raises(ValueError, match=r"^inputs: expected Gaussian, .*got Sampler\(GaussianMixture\).*simulate=39"):
        spectrum(SquaredExponential(), inputs=law)
    with pytest.raises(ValueError, match="simulate"):
        rate(SquaredExponential(), 50, 5, 1.0, inputs=law, draws=10)
    assert gpbounds.inputs.Sampler is Sampler
