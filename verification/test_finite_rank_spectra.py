"""Kernels that are polynomials (N-finite), and sums of kernels (N-direct): eigenvalues, tails, and rates from them."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate, spectrum
from gpbounds.kdpp import expected_trace
from gpbounds.kernels import Constant, Kernel, Linear, Polynomial
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.reference import spectra as reference
from gpbounds.spectra.base import Spectrum
from gpbounds.spectra.composed import SumSpectrum
from gpbounds.spectra.finite_rank import FiniteRankSpectrum

seeds = st.integers(0, 2**32 - 1)
DIGITS = 50


def random_kernel(rng: np.random.Generator, dim: int, depth: int = 2) -> Kernel:
    """A constant, linear or polynomial kernel, a sum or a product of such, or one on some columns."""
    kind = rng.integers(0, 6 if depth else 3)
    if kind == 0:
        return Constant(float(rng.lognormal()))
    if kind == 1:
        return Linear(rng.lognormal(size=dim))
    if kind == 2:
        return Polynomial(2, rng.lognormal(size=dim), float(rng.lognormal()))
    if kind == 3:
        chosen = rng.permutation(dim)[: int(rng.integers(1, dim + 1))]
        return random_kernel(rng, len(chosen), depth - 1).on(chosen)
    pair = random_kernel(rng, dim, depth - 1), random_kernel(rng, dim, 0)
    return pair[0] + pair[1] if kind == 4 else pair[0] * pair[1]


def degree(record: dict[str, object]) -> int:
    """Of the kernel as a polynomial in x."""
    kind = record["type"]
    if kind in ("Sum", "Product"):
        first, second = (degree(record[k]) for k in ("k1", "k2"))  # type: ignore[arg-type]
        return max(first, second) if kind == "Sum" else first + second
    if kind == "OnColumns":
        return degree(record["kernel"])  # type: ignore[arg-type]
    return {"Constant": 0, "Linear": 1}.get(str(kind), 2)


def exact(kernel: Kernel, inputs: Gaussian | Uniform) -> list[object]:
    """The eigenvalues to 50 digits."""
    record = kernel_to_plain(kernel)
    p = degree(record)
    if isinstance(inputs, Uniform):
        nodes = reference.uniform_nodes(np.atleast_1d(inputs.low).tolist(), np.atleast_1d(inputs.high).tolist(), p)
    else:
        cov = np.diag(inputs.stds**2) if inputs.cov is None else np.asarray(inputs.cov)
        nodes = reference.gaussian_nodes(inputs.means.tolist(), cov.tolist(), p)
    return reference.polynomial_eigenvalues(record, nodes)


@pytest.mark.claim("N-finite")
@given(seed=seeds, dim=st.integers(1, 2), law=st.sampled_from(["independent", "covariance", "box"]))
def test_eigenvalues_and_tails_against_fifty_digits(observe: Observer, seed: int, dim: int, law: str) -> None:
    """The reference integrates by a Gauss rule with as many points as the degree needs, without monomials."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((dim, dim))
    # stds with few digits, so that their squares are doubles
    stds, mean = rng.integers(1, 9, dim) / 4.0, rng.standard_normal(dim)
    low = rng.standard_normal(dim)
    inputs: Gaussian | Uniform = {
        "independent": Gaussian(stds, mean=mean),
        "covariance": Gaussian(mean=mean, cov=A @ A.T + 0.1 * np.eye(dim)) if dim > 1 else Gaussian(stds),
        "box": Uniform(low, low + rng.lognormal(size=dim)),
    }[law]
    kernel = random_kernel(rng, dim)
    computed = spectrum(kernel, inputs=inputs)
    assert isinstance(computed, FiniteRankSpectrum)
    assert computed.certified
    with mp.workdps(DIGITS):
        values = [v for v in exact(kernel, inputs) if v > mp.mpf("1e-35")]
        assert len(values) <= computed.rank
        values += [mp.mpf(0)] * (computed.rank - len(values))
        tails = [mp.fsum(values[m:]) for m in range(computed.rank + 1)]
        bounds = computed.tail(np.arange(computed.rank + 3))
        observe.upper("N-finite", values, [mp.mpf(float(v)) for v in computed.eigenvalues(computed.rank)])
        observe.upper("N-finite", tails, [mp.mpf(float(v)) for v in bounds[:-2]])
    assert (bounds[computed.rank :] == 0.0).all()
    size = 1e-14 * computed.rank**2 * computed.trace
    observe.equal("N-finite", bounds[:-2], [float(t) for t in tails], rtol=1e-12, atol=size)
    observe.equal("N-finite", computed.trace, float(tails[0]), rtol=1e-14)


@pytest.mark.claim("N-finite")
def test_a_singular_covariance_that_rounding_makes_indefinite(observe: Observer) -> None:
    """x = z·a has one free coordinate: the law is that of `Gaussian.sample`, near the stored matrix, and has rank 3."""
    a = np.array([1.0, 1.0 / 3.0, 0.1])
    inputs, kernel = Gaussian(cov=np.outer(a, a)), Polynomial(2, 1.0, 1.0)
    assert inputs.slack > 0.0
    law = spectrum(kernel, inputs=inputs)
    with mp.workdps(DIGITS):
        line = {"type": "Polynomial", "variance": float((a * a).sum()), "offset": 1.0, "degree": 2}
        truth = reference.polynomial_eigenvalues(line, reference.gaussian_nodes([0], [[1]], 2))
        tails = [mp.fsum(truth[m:]) for m in range(4)]
        # the squares of a are rounded: the line's kernel is one of variance 1.12111 to a relative 1e-16
        observe.upper(
            "N-finite", [t * (1 - mp.mpf("1e-15")) for t in tails], [mp.mpf(float(t)) for t in law.tail(range(4))]
        )
    observe.equal("N-finite", law.tail(range(3)), [float(t) for t in tails[:3]], rtol=1e-10)
    assert law.tail(3) < 1e-11


@pytest.mark.claim("N-finite")
def test_the_mean_tail_of_draws_stays_below(observe: Observer) -> None:
    """E Σ_{m>M} λ_m(K/N) <= Σ_{m>M} λ_m, with equality in the limit, and 0 beyond the rank."""
    rng = np.random.default_rng(11)
    kernel, N, sets = Polynomial(2, 0.3, 1.0) + Linear(0.5), 200, 100
    inputs = Gaussian(mean=[0.5, 0.0], cov=[[1.0, 0.6], [0.6, 2.0]])
    law, features = spectrum(kernel, inputs=inputs), np.arange(7)
    assert law.tail(6) == 0.0
    empirical = np.empty((sets, features.size))
    for i in range(sets):
        values = np.maximum(np.linalg.eigvalsh(kernel(inputs.sample(N, rng)) / N)[::-1], 0.0)
        assert values[6] < 1e-12 * values[0]
        empirical[i] = [values[m:].sum() for m in features]
    mean, error = empirical.mean(axis=0), empirical.std(axis=0) / np.sqrt(sets)
    observe.upper("N-finite", mean[:6] - 6.0 * error[:6], law.tail(features[:6]))
    observe.equal("N-finite", mean[:6] / law.tail(features[:6]), 1.0, atol=0.2)


@pytest.mark.claim("N-finite")
def test_the_mean_trace_over_draws_is_below_the_a_priori_bound(observe: Observer) -> None:
    """t* of the bound against (M+1) e_{M+1}/e_M of simulated rows; 0 from the rank on."""
    rng, kernel, N = np.random.default_rng(3), Constant(2.0) + Linear([1.0, 0.5, 0.1]), 60
    inputs, M = Gaussian([1.0, 2.0, 1.0]), np.array([1, 2, 3])
    sets = [expected_trace(np.linalg.eigvalsh(kernel(inputs.sample(N, rng)))[::-1][:4], M) for _ in range(400)]
    bound = rate(kernel, N, M, 1.0, inputs=inputs)
    mean, error = np.mean(sets, axis=0), np.std(sets, axis=0) / 20.0
    observe.upper("N-finite", mean - 6.0 * error, bound.terms["expected_trace"])
    observe.equal("N-finite", bound.terms["expected_trace"] / mean, 1.1, atol=0.15)
    assert (rate(kernel, N, [4, 5, 20], 1.0, inputs=inputs).value == 0.0).all()
    assert rate(kernel, N, 3, 1.0, inputs=inputs).certified
    assert inducing_points(kernel, 10**6, 1.0, inputs=inputs, target=1e-3).M == 4


def test_a_law_near_a_k_dpp_pays_with_the_mean_of_the_trace() -> None:
    """k(x, x) has no largest value: tv costs tv·N·E k(x, x)."""
    near = rate(Linear(2.0), 100, 3, 1.0, inputs=Gaussian(3.0), tv=0.01)
    assert float(near.terms["expected_trace"]) == pytest.approx(0.01 * 100 * 18.0, rel=1e-12)
    assert np.isfinite(float(near))


def merged(parts: list[list[object]], M: int) -> object:
    """The tail of all eigenvalues together."""
    return mp.fsum(sorted((v for part in parts for v in part), reverse=True)[M:])


@pytest.mark.claim("N-direct")
@given(seed=seeds, n=st.integers(2, 9))
def test_tails_of_sums_of_matrices(observe: Observer, seed: int, n: int) -> None:
    """tail_M(A + B) <= tail_i(A) + tail_j(B), i + j <= M; equality for orthogonal images."""
    rng = np.random.default_rng(seed)
    A, B = (
        (F := rng.standard_normal((n, int(rng.integers(1, n + 1)))))
        @ np.diag(rng.lognormal(0.0, 3.0, F.shape[1]))
        @ F.T
        for _ in range(2)
    )
    tails = [np.append(np.cumsum(np.maximum(np.linalg.eigvalsh(C), 0.0))[::-1], 0.0) for C in (A, B, A + B)]
    i, j = (int(m) for m in rng.integers(0, n + 1, 2))
    M = min(i + j, n)
    observe.upper("N-direct", tails[2][M], tails[0][i] + tails[1][j] + 1e-12 * tails[2][0])
    a, b = rng.lognormal(0.0, 3.0, (2, n))
    both = np.sort(np.append(a, b))
    together = np.append(np.cumsum(both)[::-1], 0.0)
    m = int(rng.integers(0, 2 * n + 1))
    taken = int((a >= both[::-1][m - 1]).sum()) if m else 0
    apart = [np.append(np.cumsum(np.sort(x))[::-1], 0.0) for x in (a, b)]
    observe.equal("N-direct", apart[0][taken] + apart[1][m - taken], together[m], rtol=1e-12, atol=1e-300)


@pytest.mark.claim("N-direct")
@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(2.0, 0.3) + Linear([0.5, 0.1]) + Constant(1.0),
        SquaredExponential(1.0, 0.4).on([0]) + Matern(1.5, 2.0, 0.5).on([1]),
        (SquaredExponential(1.0, 0.5).on([0]) + Constant(0.5)) * Matern(2.5, 1.0, 0.7).on([1]),
        Linear(2.0).on([0]) * SquaredExponential(1.0, 0.2).on([1]),
    ],
    ids=["linear trend", "additive", "product of a sum", "varying slope"],
)
def test_tails_against_the_discretised_operator(observe: Observer, kernel: Kernel) -> None:
    inputs, nodes = Uniform([0.0, 0.0], [1.0, 2.0]), 26
    x, w = np.polynomial.legendre.leggauss(nodes)
    grid = np.stack(np.meshgrid(0.5 * (x + 1.0), x + 1.0, indexing="ij"), axis=-1).reshape(-1, 2)
    root = np.sqrt(np.outer(0.5 * w, 0.5 * w).ravel())
    matrix = root[:, None] * kernel(grid) * root
    law, M = spectrum(kernel, inputs=inputs), np.arange(0, 40)
    values = np.linalg.eigvalsh(matrix)[::-1]
    truth = np.trace(matrix) - np.append(0.0, np.cumsum(values))[M]
    assert law.certified
    observe.equal("N-direct", law.trace, np.trace(matrix), rtol=1e-12)
    observe.upper("N-direct", truth, law.tail(M), tol=1e-4)  # Nyström's own error
    observe.upper("N-direct", values[:40], law.eigenvalues(40), tol=1e-4)
    assert (law.tail(M[:12]) <= 6.0 * truth[:12]).all()


class Single(Spectrum):
    """One eigenvalue, stated exactly."""

    certified, source, note = True, "", ""

    def __init__(self, value: float) -> None:
        self.trace = value

    def eigenvalues(self, count: int) -> np.ndarray:
        return np.append(self.trace, np.zeros(count - 1))

    def _log_tail(self, M: np.ndarray) -> np.ndarray:
        return np.where(M > 0, -np.inf, np.log(self.trace))


@pytest.mark.claim("N-direct")
@given(values=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=5))
@example([0.1, 0.7])  # the double 0.1 + 0.7 is below the sum
def test_sums_of_eigenvalues_are_rounded_upwards(observe: Observer, values: list[float]) -> None:
    """Weyl's bound on the first eigenvalue of a sum is the sum of the first eigenvalues, as a rational number."""
    law = SumSpectrum([Single(value) for value in values])
    observe.upper("N-direct", sum(map(Fraction, values)), Fraction(float(law.eigenvalues(1)[0])))


@pytest.mark.claim("N-direct")
def test_orthogonal_summands_are_exact(observe: Observer) -> None:
    """Under a centred Gaussian law an even and an odd kernel have orthogonal images: Constant and Linear."""
    parts = [spectrum(k, inputs=Gaussian(dim=3)) for k in (Constant(2.0), Linear([3.0, 1.0, 0.5]))]
    law, whole = SumSpectrum(parts), spectrum(Constant(2.0) + Linear([3.0, 1.0, 0.5]), inputs=Gaussian(dim=3))
    observe.equal("N-direct", law.tail(range(7)), whole.tail(range(7)), rtol=1e-13)
    assert law.tail(4) == 0.0
    far = SumSpectrum([spectrum(SquaredExponential(), inputs=Gaussian()), spectrum(Constant(), inputs=Gaussian())])
    closed = spectrum(SquaredExponential(), inputs=Gaussian())
    M = np.array([1, 10, 100, 500])
    observe.equal("N-direct", far.log_tail(M), closed.log_tail(M - 1), rtol=1e-12, atol=1e-13)
    assert far.tail(5000) < 1e-270  # beyond the range in which differences are formed
    with pytest.raises(ArithmeticError, match="at most 1048576 eigenvalues of a sum"):
        far.tail(2**21)
