"""Bounds on Tr(K − Q) that hold before the inputs are seen: N-pop, N-cut, and their numbers against mpmath."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds.inputs import Gaussian, InputLaw, Uniform
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.numerics.scalars import greatest_convex_below
from gpbounds.rates.trace import LAST, PopulationTrace, kept_eigenvalues, log_best_truncation
from gpbounds.reference import kdpp
from gpbounds.reference import rates as reference
from gpbounds.reference.spectra import ratio
from gpbounds.spectra import Spectrum, sharpest_spectrum, spectrum
from gpbounds.spectra.box import BoxSpectrum, _log_legendre_tail

LAWS = [
    (SquaredExponential(), Gaussian()),
    (SquaredExponential(2.0, 0.3), Gaussian(1.0, 3)),
    (SquaredExponential(1.0, [1.0, 2.0, 3.0]), Gaussian(1.0, 3)),
    (SquaredExponential(1.0, 0.2), Uniform()),
    (Matern(0.5), Uniform()),
    (Matern(1.5, 3.0, 0.3), Uniform()),
    (Matern(2.5, 1.0, 0.3), Uniform()),
    (Matern(1.5), Gaussian(1.0, 2)),
]


def trace_of(values: np.ndarray, M: int) -> float:
    """R of eigenvalues, those below rounding left out; 0 where no more than M are left."""
    values = values[values > 1e-13 * values.max()]
    return float(expected_trace(values, M)) if values.size > M else 0.0


def mean_over_inputs(gram: np.ndarray, weights: np.ndarray, N: int, M: int) -> float:
    """E_X of R(K_X), the N inputs iid on the points of ``gram``, by how often each point comes."""
    total, k = 0.0, len(weights)
    for bars in itertools.combinations(range(N + k - 1), k - 1):
        times = np.diff([-1, *bars, N + k - 1]) - 1
        chance = math.factorial(N) * np.prod(weights**times / [math.factorial(t) for t in times])
        total += chance * trace_of(np.linalg.eigvalsh(np.sqrt(np.outer(times, times)) * gram), M)
    return total


@pytest.mark.claim("N-pop")
@given(
    seed=st.integers(0, 10**6),
    points=st.integers(2, 4),
    rank=st.integers(1, 4),
    N=st.integers(1, 6),
    even=st.booleans(),
)
def test_the_mean_over_all_inputs_is_below(
    observe: Observer, seed: int, points: int, rank: int, N: int, even: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((points, rank)) * np.exp(rng.uniform(-4, 2, rank))
    weights = np.full(points, 1.0 / points) if even else rng.dirichlet(np.ones(points))
    gram = features @ features.T
    mu = np.linalg.eigvalsh(np.sqrt(np.outer(weights, weights)) * gram)
    for M in range(min(points, rank)):
        bound = N * trace_of(mu, M)
        observe.upper("N-pop", mean_over_inputs(gram, weights, N, M), bound * (1 + 1e-9) + 1e-12 * gram.trace())


@pytest.mark.claim("N-pop")
def test_the_enumeration_at_fifty_digits_and_the_form_with_N_minus_M(observe: Observer) -> None:
    """Two points of norm 1 and one of norm 100 along another axis, N = 3, M = 1: the ledger's counterexample."""
    gram, weights = mp.diag([1, 1, 10000]), [mp.mpf(3) / 10, mp.mpf(3) / 10, mp.mpf(4) / 10]
    gram[0, 1] = gram[1, 0] = 0
    truth = reference.mean_trace(gram, weights, 3, 1)
    mu = [gram[i, i] * weights[i] for i in range(3)]
    population = kdpp.expected_trace(mu, 1)
    observe.upper("N-pop", truth, 3 * population)
    observe.fails("N-pop", truth <= 2 * population, "N − M in place of N: three points, norms 1, 1, 100, N = 3, M = 1")
    fast = mean_over_inputs(np.diag([1.0, 1.0, 1e4]), np.array([0.3, 0.3, 0.4]), 3, 1)
    observe.equal("N-pop", fast, float(truth), rtol=1e-12)


@pytest.mark.claim("N-pop")
@given(ell=st.floats(0.02, 20.0), std=st.floats(0.1, 10.0), M=st.integers(1, 200), variance=st.floats(1e-3, 1e3))
def test_closed_form_of_the_geometric_law(observe: Observer, ell: float, std: float, M: int, variance: float) -> None:
    law = spectrum(SquaredExponential(variance, ell), inputs=Gaussian(std))
    closed = PopulationTrace(law).log(np.array([float(M)]))[0]
    B = ratio(ell, std)
    truth = mp.log(variance * reference.geometric_trace(B, M))
    observe.equal("N-pop", mp.mpf(float(closed)), truth, rtol=1e-14, atol=1e-12)
    if M <= 12:  # the q-binomial theorem: the sum itself
        with mp.workdps(60):
            terms = 40 + int(mp.ceil(mp.mpf(60) / -mp.log10(B))) if B < 0.8 else 0
            if terms:
                tails = [B**k for k in range(terms + 1)]
                observe.equal(
                    "N-pop", reference.population_trace(tails, M), reference.geometric_trace(B, M), rtol=1e-15
                )


@pytest.mark.claim("N-pop", "N-cut")
@pytest.mark.parametrize(("kernel", "inputs"), one_in(3, LAWS))
def test_never_above_the_other_form_and_falls_with_M(observe: Observer, kernel: Kernel, inputs: InputLaw) -> None:
    law, serving = spectrum(kernel, inputs=inputs), sharpest_spectrum(kernel, inputs)
    M = np.arange(1.0, 300.0)
    ours, other = PopulationTrace(law).log(M), log_best_truncation(law, M)
    some = np.isfinite(ours) & (ours > -600.0)
    best = np.minimum(ours, PopulationTrace(serving).log(M))
    observe.upper("N-pop", np.exp(best[some] - other[some]), 1.0 + 1e-2)
    observe.upper("N-pop", np.exp(ours[some] - other[some]), 1.0 + 1e-2)  # what N-cut leaves over a slow tail
    observe.holds("N-pop", np.all(np.diff(ours[some]) <= 0.0), some.sum())
    far = PopulationTrace(law).log(np.array([float(LAST), 1e5, 1e9]))
    observe.holds("N-pop", np.all(np.diff(far[np.isfinite(far)]) <= 0.0))


class Tails(Spectrum):
    """A spectrum of given tails, each exact."""

    certified, source, note = True, "", ""

    def __init__(self, tails: np.ndarray) -> None:
        self.tails, self.trace = tails, float(tails[0])

    def eigenvalues(self, count: int) -> np.ndarray:
        return -np.diff(self.tails)[:count]

    def _log_tail(self, M: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.tails[np.minimum(M, self.tails.size - 1).astype(int)])


@pytest.mark.claim("N-pop", "N-cut")
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 400),
    power=st.floats(0.0, 8.0),
    steps=st.booleans(),
    M=st.integers(1, 9),
)
def test_rounded_upwards_whatever_the_tails(
    observe: Observer, seed: int, n: int, power: float, steps: bool, M: int
) -> None:
    """Against mpmath, and without tolerance: spectra with steps, duplicates, slow and fast decay."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.random(n) * np.arange(1.0, n + 1.0) ** -power)[::-1]
    if steps:
        values = np.repeat(values, 3)[: max(n, 2)]
    exact = [mp.mpf(float(v)) for v in values]
    if len(exact) <= M:
        return
    tails = np.array([float(mp.fsum(exact[k:])) for k in range(len(exact) + 1)])
    bound = PopulationTrace(Tails(tails)).log(np.array([float(M)]))[0]
    truth = reference.population_trace([mp.fsum(exact[k:]) for k in range(len(exact) + 1)], M)
    observe.upper("N-cut", truth, mp.exp(mp.mpf(float(bound))) * (1 + mp.mpf(2) ** -50 * (1 + abs(float(bound)))))
    kept = int(kept_eigenvalues(M))
    if len(exact) <= kept and truth > 0:
        observe.equal("N-cut", mp.exp(mp.mpf(float(bound))), truth, rtol=1e-11)


@pytest.mark.claim("N-pop")
@pytest.mark.parametrize("seed", range(6))
def test_many_sums_and_products_are_rounded_upwards(observe: Observer, seed: int) -> None:
    """250 eigenvalues whose tails are exact doubles, near 1, so that no allowance for a logarithm is needed."""
    values = np.sort(np.random.default_rng(seed).integers(2**20, 2**21, 250))[::-1] / 2.0**28
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    sizes = np.array([3.0, 9.0, 60.0])
    for M, bound in zip(sizes, PopulationTrace(Tails(tails)).log(sizes), strict=True):
        truth = reference.population_trace([mp.mpf(float(tail)) for tail in tails], int(M))
        observe.upper("N-pop", truth, mp.exp(mp.mpf(float(bound))))


@pytest.mark.claim("N-cut")
@given(seed=st.integers(0, 10**6), n=st.integers(3, 30), M=st.integers(1, 6))
def test_a_cut_spectrum_and_what_is_cut(observe: Observer, seed: int, n: int, M: int) -> None:
    rng = np.random.default_rng(seed)
    values = [mp.mpf(float(v)) for v in np.sort(np.exp(rng.uniform(-9, 1, n)))[::-1]]
    if n <= M + 1:
        return
    whole = kdpp.expected_trace(values, M)
    for kept in range(M + 1, n + 1):
        tails = [mp.fsum(values[k:]) for k in range(kept + 1)]
        observe.upper("N-cut", whole, reference.population_trace(tails, M) * (1 + mp.mpf(10) ** -12))
    # g_i by the ledger's formula (M+1)·miss_i²(1 − r_i^(M+1)/r_i^(M)), and by the quotient rule.
    slopes = kdpp.slopes(values, M)
    for i, slope in enumerate(slopes):
        rest = kdpp.esp([*values[:i], *values[i + 1 :]], M + 1)
        e = kdpp.esp(values, M)
        miss = rest[M] / e[M]
        formula = (M + 1) * miss**2 * (1 - rest[M + 1] * rest[M - 1] / rest[M] ** 2)
        observe.equal("N-cut", formula, slope, rtol=mp.mpf(10) ** -20)
        observe.holds("N-cut", 0 <= slope <= kdpp.slope_at_zero(values, M))


@pytest.mark.claim("N-pop")
@given(seed=st.integers(0, 10**6), n=st.integers(3, 40))
def test_tails_that_are_only_upper_bounds(observe: Observer, seed: int, n: int) -> None:
    """Each tail raised on its own: the hull has tails at least the true ones, and R rises."""
    rng = np.random.default_rng(seed)
    values = np.sort(np.exp(rng.uniform(-9, 1, n)))[::-1]
    tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    raised = np.minimum.accumulate(tails * np.exp(rng.exponential(1.0, n + 1)))
    hull = greatest_convex_below(raised)
    observe.holds("N-pop", np.all(hull <= raised * (1 + 1e-15)) and np.all(hull >= tails * (1 - 1e-14)))
    observe.holds("N-pop", np.all(np.diff(hull, 2) >= -1e-15 * hull[0]))
    M = np.arange(1.0, n - 1.0)
    plain, more = (PopulationTrace(Tails(t)).log(M) for t in (tails, raised))
    observe.upper("N-pop", np.exp(plain), np.exp(more) * (1 + 1e-12))


@pytest.mark.broad
@pytest.mark.claim("N-box")
@pytest.mark.parametrize("ratio", one_in(3, [2.0, 0.3, 5.0]))
def test_tails_on_an_interval_against_forty_digits(observe: Observer, ratio: float) -> None:
    """Ritz values of the exact Legendre matrix at 40 digits are below the eigenvalues: lower bounds of the tails."""
    law = BoxSpectrum(SquaredExponential(1.0, 1.0 / ratio), Uniform(-1.0, 1.0))
    n = int(4 * ratio + 20)
    with mp.workdps(40):
        lower = reference.interval_tails(ratio, n, n + 20)
    M = np.arange(0, n)
    bounds = law.tail(M)
    for truth, bound in zip(lower[:n], bounds, strict=True):
        observe.upper("N-box", truth, mp.mpf(float(bound)) * (1 + mp.mpf(10) ** -14))
    some = [m for m in range(n) if lower[m] > 1e-9]
    for m in some:
        observe.equal("N-box", float(bounds[m]), float(lower[m]), rtol=1e-3)


@pytest.mark.claim("N-box")
@pytest.mark.parametrize(
    ("lengthscales", "high"), [([0.3], [1.0]), ([0.2, 0.5], [1.0, 1.0]), ([0.5, 0.5, 1.0], [1.0, 2.0, 1.0])]
)
def test_tails_on_a_box(observe: Observer, lengthscales: list[float], high: list[float]) -> None:
    """Against Nyström's eigenvalues on a Gauss grid, and against those dominated by Gaussian laws."""
    inputs = Uniform(np.zeros(len(high)), high)
    kernel = SquaredExponential(2.0, lengthscales)
    values = np.ones(1)
    for ell, width in zip(lengthscales, high, strict=True):
        x, w = np.polynomial.legendre.leggauss(60)
        K = np.exp(-0.5 * ((x[:, None] - x) * 0.5 * width / ell) ** 2) * np.sqrt(np.outer(w, w)) / 2.0
        values = np.outer(values, np.maximum(np.linalg.eigvalsh(K), 0.0)).ravel()
    values = 2.0 * np.sort(values)[::-1]
    truth = np.cumsum(values[::-1])[::-1]
    M = np.arange(0, min(120, truth.size))
    box, other = BoxSpectrum(kernel, inputs), spectrum(kernel, inputs=inputs)
    observe.upper("N-box", truth[M], box.tail(M), tol=1e-13)
    resolved = M[truth[M] > 1e-9]
    observe.upper("N-box", box.tail(resolved), 1.01 * truth[resolved])
    observe.upper("N-box", box.tail(resolved), other.tail(resolved) * (1 + 1e-9))
    observe.upper("N-box", values[M], box.eigenvalues(M.size) * (1 + 1e-12))
    ours, dominated = (PopulationTrace(law).log(np.array([12.0]))[0] for law in (box, other))
    assert ours < dominated


def test_what_a_box_spectrum_refuses_is_left_to_the_dominated_one() -> None:
    kernel = SquaredExponential(1.0, 0.01)
    with pytest.raises(ValueError, match="at most 40 lengthscales"):
        BoxSpectrum(kernel, Uniform())
    assert not isinstance(sharpest_spectrum(kernel, Uniform()), BoxSpectrum)


@pytest.mark.claim("N-box")
@given(g=st.floats(0.01, 6.0), M=st.integers(0, 60))
def test_the_tail_of_the_legendre_coefficients_is_its_first_term_and_a_geometric_series(
    observe: Observer, g: float, M: int
) -> None:
    ratio_ = mp.mpf(g) ** 2 / (2 * M + 3)
    log_tail = _log_legendre_tail(g, M)
    if ratio_ >= mp.mpf("0.9"):
        assert log_tail == math.inf
        return
    first = mp.mpf(g) ** (2 * M) / mp.fac2(2 * M + 1)
    truth = mp.nsum(lambda j: mp.mpf(g) ** (2 * j) / mp.fac2(2 * j + 1), [M, mp.inf])
    observe.upper("N-box", truth, mp.exp(mp.mpf(log_tail)) * (1 + mp.mpf("1e-11")))
    observe.equal("N-box", log_tail, mp.log(first / (1 - ratio_)), rtol=1e-13, atol=1e-12)
