"""Products of kernels on different columns, inputs with independent columns: products of spectra (N-tensor)."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds import Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate, spectrum
from gpbounds.kernels import Constant, Kernel
from gpbounds.reference import spectra as reference
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.composed import TensorSpectrum

seeds = st.integers(0, 2**32 - 1)


class Tails(Spectrum):
    """Stated upper bounds of the tails of a finite spectrum."""

    certified, source, note = True, "", ""

    def __init__(self, tails: np.ndarray) -> None:
        self.trace, self._tails = float(tails[0]), tails

    def eigenvalues(self, count: int) -> np.ndarray:
        return -np.diff(self._tails)[:count]

    def _log_tail(self, M: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._tails[np.minimum(M, self._tails.size - 1).astype(int)])


def discretised(kernel: Kernel, inputs: Uniform, nodes: int) -> np.ndarray:
    """Nyström's eigenvalues on a Gauss grid of the box, all columns together."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    grid = np.stack(np.meshgrid(*[0.5 * (x + 1.0)] * inputs.dim, indexing="ij"), axis=-1).reshape(-1, inputs.dim)
    root = np.sqrt(np.prod(np.meshgrid(*[0.5 * w] * inputs.dim, indexing="ij"), axis=0).ravel())
    return np.linalg.eigvalsh(root[:, None] * kernel(np.asarray(inputs.low) + grid * inputs.widths) * root)[::-1]


@pytest.mark.claim("N-tensor")
@pytest.mark.parametrize("orders", one_in(2, [pytest.param((0, 1)), pytest.param((1, 2)), pytest.param((0, 0))]))
def test_tails_of_matern_products_against_thirty_digits(observe: Observer, orders: tuple[int, int]) -> None:
    """From 41 eigenvalues of each part, among which the 40 largest products are."""
    ells, widths, M = (0.8, 0.3), (1.0, 2.0), [0, 1, 2, 5, 10, 20, 40]
    with mp.workdps(30):
        parts = [
            [reference.half_eigenvalue(1, ell, width, k) for k in range(1, 42)]
            if p == 0
            else reference.uniform_eigenvalues(p, 1, ell, width, 41)
            for p, ell, width in zip(orders, ells, widths, strict=True)
        ]
        truth = [reference.tensor_tail(parts, m) for m in M]
    k1, k2 = (Matern(p + 0.5, 1.0, ell) for p, ell in zip(orders, ells, strict=True))
    law = spectrum(k1.on([0]) * k2.on([1]), inputs=Uniform([0.0, -1.0], [1.0, 1.0]))
    assert law.certified
    bounds = law.tail(M)
    observe.upper("N-tensor", truth, [mp.mpf(float(bound)) for bound in bounds])
    observe.equal("N-tensor", bounds, [float(t) for t in truth], rtol=0.05)
    top = sorted((float(a * b) for a, b in itertools.product(*parts)), reverse=True)[:20]
    observe.equal("N-tensor", law.eigenvalues(20), top, rtol=1e-7)


@pytest.mark.claim("N-tensor")
@pytest.mark.parametrize(
    "kernel",
    [
        Matern(1.5, 2.0, 0.7).on([0]) * SquaredExponential(1.5, 0.4).on([1]),
        Matern(2.5, 1.0, 0.5).on([1]) * Matern(1.5, 1.0, 1.0).on([0]) * Constant(3.0),
        Matern(3.5, 1.0, 3.0).on([0]) * SquaredExponential(1.0, [0.5]).on([1]),
    ],
    ids=["Matern x SE", "two Matern", "smooth"],
)
def test_tails_against_the_discretised_operator(observe: Observer, kernel: Kernel) -> None:
    inputs = Uniform([0.0, 0.0], [1.0, 2.0])
    values, law = discretised(kernel, inputs, 26), spectrum(kernel, inputs=inputs)
    M = np.arange(0, 40)
    truth = kernel.max_variance - np.append(0.0, np.cumsum(values))[M]
    observe.equal("N-tensor", law.trace, kernel.max_variance, rtol=1e-14)
    observe.upper("N-tensor", truth, law.tail(M), tol=2e-5)  # Nyström's own error
    observe.equal("N-tensor", law.tail(M), truth, rtol=0.08, atol=2e-5)


@pytest.mark.claim("N-tensor")
@given(seed=seeds, dim=st.integers(1, 3), M=st.integers(0, 30))
def test_products_of_bounds_bound_products(observe: Observer, seed: int, dim: int, M: int) -> None:
    """Any upper bounds of the tails of any finite spectra; equality for the tails themselves."""
    rng = np.random.default_rng(seed)
    tails, raised = [], []
    for _ in range(dim):
        values = np.sort(np.exp(rng.uniform(-12.0, 1.0, int(rng.integers(1, 9)))))[::-1]
        exact = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        tails.append(exact)
        raised.append(np.append(exact[:1], np.minimum(exact * np.exp(rng.exponential(1.0, exact.size)), exact[0])[1:]))
    with mp.workdps(40):
        parts = [[(mp.mpf(a) - mp.mpf(b)) / mp.mpf(t[0]) for a, b in itertools.pairwise(t.tolist())] for t in tails]
        truth = reference.tensor_tail(parts, M)
        truth = truth if truth > mp.mpf("1e-36") else mp.mpf(0)  # 1 − Σ of all products at 40 digits
    exact_law, raised_law = (TensorSpectrum([Tails(t) for t in kind]) for kind in (tails, raised))
    scale = exact_law.trace
    with np.errstate(divide="ignore"):
        observe.upper("N-tensor", truth, mp.mpf(float(exact_law.tail(M))) / scale * (1 + mp.mpf("1e-14")))
        observe.equal("N-tensor", float(exact_law.tail(M)) / scale, float(truth), rtol=1e-11, atol=1e-15)
        observe.upper("N-tensor", truth, mp.mpf(float(raised_law.tail(M))) / scale * (1 + mp.mpf("1e-14")))


@pytest.mark.claim("N-tensor")
def test_a_product_of_squared_exponentials_is_one(observe: Observer) -> None:
    """Under Gaussian inputs the product over columns is the kernel with a lengthscale each."""
    whole = SquaredExponential(2.0, [0.5, 1.0, 3.0])
    product = SquaredExponential(2.0, 0.5).on([0]) * SquaredExponential(1.0, [1.0, 3.0]).on([1, 2])
    M = np.array([0, 1, 2, 10, 100, 1000])
    law, closed = (spectrum(k, inputs=Gaussian(dim=3)) for k in (product, whole))
    observe.upper("N-tensor", closed.tail(M), law.tail(M) * (1 + 1e-12))
    observe.equal("N-tensor", law.log_tail(M), closed.log_tail(M), atol=1e-9)
    observe.equal("N-tensor", law.eigenvalues(200), closed.eigenvalues(200), rtol=1e-11)
    correlated = Gaussian(cov=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.8], [0.0, 0.8, 1.0]])
    law, closed = (spectrum(k, inputs=correlated) for k in (product, whole))  # the second factor's columns only
    observe.equal("N-tensor", law.log_tail(M), closed.log_tail(M), atol=1e-6)


@pytest.mark.claim("N-tensor")
def test_eigenvalues_below_the_least_double_do_not_end_a_product(observe: Observer) -> None:
    """Two factors with eigenvalues B^m, B = 1e-130: the tails from B³ on are 0 in doubles, but the product goes on."""
    part = spectrum(SquaredExponential(1.0, 1e65), inputs=Gaussian())
    law, log_B = TensorSpectrum([part, part]), float(part.log_tail(1))
    assert np.exp(3.0 * log_B) == 0.0
    M = np.array([1, 3, 6, 10])  # what is left begins with m + 1 products B^m, at m = 1 ... 4
    truth = log_B * np.arange(1.0, 5.0) + np.log(np.arange(2.0, 6.0))
    observe.upper("N-tensor", truth, law.log_tail(M), tol=1e-9)
    observe.equal("N-tensor", law.log_tail(M[:2]), truth[:2], atol=1e-9)


def test_a_kernel_on_columns_has_the_spectrum_of_their_law() -> None:
    law = Gaussian(cov=[[1.0, 0.2, 0.0], [0.2, 4.0, 0.5], [0.0, 0.5, 1.0]])
    assert spectrum(SquaredExponential(1.0, 0.7).on([1]), inputs=law).tail(5) == pytest.approx(
        spectrum(SquaredExponential(1.0, 0.7), inputs=Gaussian(2.0)).tail(5), rel=1e-14
    )
    box = Uniform([0.0, 1.0], [1.0, 4.0])
    assert spectrum(Matern(1.5).on([1]), inputs=box).tail(5) == spectrum(Matern(1.5), inputs=Uniform(1.0, 4.0)).tail(5)


def test_what_is_no_product_over_independent_columns_is_refused() -> None:
    box, first, second = Uniform([0.0, 0.0], [1.0, 1.0]), Matern(1.5).on([0]), Matern(0.5).on([1])
    for kernel in (first * Matern(0.5).on([0]), first * SquaredExponential()):
        with pytest.raises(ValueError, match=r"no spectrum is known for Product kernels under Uniform.* same columns"):
            spectrum(kernel, inputs=box)
    with pytest.raises(ValueError, match="no spectrum is known for Product kernels under Gaussian"):
        spectrum(first * second, inputs=Gaussian(cov=[[1.0, 0.5], [0.5, 1.0]]))
    with pytest.raises(ValueError, match=r"columns: expected numbers below 2.*got \[2\]"):
        spectrum(first * Matern(0.5).on([2]), inputs=box)
    with pytest.raises(ValueError, match=r"columns: expected numbers below 2.*got \[2\]"):
        spectrum(Matern(0.5).on([2]), inputs=box)


def test_rates_and_plans_hold_for_products_on_boxes() -> None:
    """The a-priori bound without simulation, which needs a spectrum; data from the law do not contradict it."""
    kernel = Matern(2.5, 1.0, 0.8).on([0]) * Matern(1.5, 1.0, 2.0).on([1])
    box = Uniform([0.0, 0.0], [1.0, 1.0])
    bound = rate(kernel, 300, 60, 1.0, inputs=box, noise=0.1)
    assert not bound.certified  # Ritz values, whose roundings are not counted
    assert rate(Matern(0.5).on([0]) * SquaredExponential().on([1]), 300, 60, 1.0, inputs=box).certified
    assert 0.0 < float(bound) < 100.0
    X = box.sample(300, np.random.default_rng(0))
    tail = np.linalg.eigvalsh(kernel(X))[:-60].sum()
    assert tail <= 300 * spectrum(kernel, inputs=box).tail(60)
    plan = inducing_points(kernel, 10**6, 1.0, inputs=box, target=1.0, noise=0.1)
    assert plan.M is not None
    assert float(plan.bound) <= 1.0 < float(plan.bound_before)
