"""Proved rounding of bounds given rows: no interval excludes the truth, and each charge covers what it is for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from observer import Observer

from gpbounds import kernels
from gpbounds.exact import exact
from gpbounds.kernels.errors import entry_bound
from gpbounds.linalg.residuals import factor_residual, inverse_norms, largest_eigenvalue, least_sound_jitter
from gpbounds.renyi import evidence, gap
from gpbounds.renyi.blocks import absolute_products, moments, two_sided
from gpbounds.renyi.escalation import computed_evidence
from gpbounds.renyi.residual import nystrom
from gpbounds.renyi.streamed import spread_of_block, streamed
from gpbounds.whitening import whiten

SEEDS = st.integers(0, 2**32 - 1)
DIGITS = 60


def exact_kernel(kernel: Any, A: np.ndarray, B: np.ndarray) -> Any:
    """k(A, B) of a squared exponential, of a half-integer Matérn or of either plus a constant, in mpmath."""
    if isinstance(kernel, kernels.Sum):
        return exact_kernel(kernel.k1, A, B) + mpf(kernel.k2.max_variance) * mp.ones(len(A), len(B))
    lengths = [mpf(float(length)) for length in kernel.lengthscales(A.shape[1])]
    out = mp.matrix(len(A), len(B))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            square = mp.fsum(((mpf(float(x)) - mpf(float(z))) / s) ** 2 for x, z, s in zip(a, b, lengths, strict=True))
            if isinstance(kernel, kernels.SquaredExponential):
                out[i, j] = mpf(kernel.variance) * mp.exp(-square / 2)
            else:
                t = mp.sqrt(2 * mpf(kernel.nu) * square)
                steps = {0.5: mpf(1), 1.5: 1 + t, 2.5: 1 + t + t * t / 3}[kernel.nu]
                out[i, j] = mpf(kernel.variance) * steps * mp.exp(-t)
    return out


class Hard:
    """Few rows, clustered or free inducing points, noise from 1e-9 to 100 times the variance; and truths."""

    def __init__(self, seed: int, *, noise: float | None = None, unit: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        N, M, D = int(rng.integers(3, 11)), int(rng.integers(1, 7)), int(rng.integers(1, 3))
        self.X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-1, 1) + rng.choice([0.0, 1e3])
        near = self.X.mean(axis=0) + rng.standard_normal((M, D)) * 10.0 ** rng.uniform(-3, 0)
        self.Z = self.X[: min(M, N)] if rng.random() < 0.25 else near
        v, lengths = float(10.0 ** rng.uniform(-2, 2)) * unit, 10.0 ** rng.uniform(-0.5, 1.5, D)
        one = [kernels.SquaredExponential(v, lengths), *(kernels.Matern(nu, v, lengths) for nu in (0.5, 1.5, 2.5))]
        self.kernel: Any = one[int(rng.integers(4))]
        if rng.random() < 0.3:
            self.kernel = self.kernel + kernels.Constant(10.0 * unit)
        self.noise = v * float(10.0 ** rng.uniform(-9, 2)) if noise is None else v * noise
        self.y = np.sin(3.0 * self.X[:, 0]) * v**0.5 + self.noise**0.5 * rng.standard_normal(N) * rng.choice([0.0, 1.0])
        self.N, self.K = N, exact_kernel(self.kernel, self.X, self.X)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.kernel, self.X, self.y, self.Z

    def log_normal(self, B: Any) -> Any:
        y = mp.matrix([mpf(float(t)) for t in self.y])
        return -((y.T * mp.lu_solve(B, y))[0] + mp.log(mp.det(B)) + self.N * mp.log(2 * mp.pi)) / 2

    @property
    def evidence(self) -> Any:
        return self.log_normal(self.K + mpf(self.noise) * mp.eye(self.N))

    def Q(self, jitter: float) -> Any:
        points = self.Z if jitter else np.unique(self.Z, axis=0)
        Kuu = exact_kernel(self.kernel, points, points) + mpf(jitter) * mp.eye(len(points))
        Kfu = exact_kernel(self.kernel, self.X, points)
        return Kfu * Kuu**-1 * Kfu.T

    def divergence(self, jitter: float) -> Any:
        Q, s2 = self.Q(jitter), mpf(self.noise)
        left = sum(self.K[i, i] - Q[i, i] for i in range(self.N))
        return self.evidence - self.log_normal(Q + s2 * mp.eye(self.N)) + left / (2 * s2)


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(DIGITS):
        yield


@pytest.mark.claim("N-member-rounding", "N-dense")
@given(seed=SEEDS)
def test_no_interval_of_the_evidence_excludes_the_truth(observe: Observer, seed: int) -> None:
    case = Hard(seed)
    truth = case.evidence
    for options in ({}, {"members": "cheap"}, {"members": "all", "alphas": (0.3, 1.0)}, {"rigor": "float"}):
        try:
            lower, upper = evidence(*case.arguments, noise=case.noise, **options)
        except ValueError:  # doubles decide nothing, and 30 digits are not asked for
            continue
        observe.holds("N-member-rounding", mpf(float(lower)) <= truth <= mpf(float(upper)))
        observe.holds("N-member-rounding", lower.certified and upper.certified)


@pytest.mark.claim("N-member-rounding")
@given(seed=SEEDS, jitter=st.sampled_from(["auto", 0.0, 1e-10]))
def test_no_interval_of_the_divergence_excludes_the_truth(observe: Observer, seed: int, jitter: Any) -> None:
    case = Hard(seed)
    try:
        used = float(whiten(case.kernel, case.X, case.Z, jitter=jitter).jitter)
    except ValueError:
        return
    truth = case.divergence(used)
    for method in ("dense", "blocks", "streamed"):
        try:
            lower, upper = gap(*case.arguments, 1.0, noise=case.noise, jitter=used, method=method)
        except ValueError:
            continue
        size = mpf(10) ** (-40) * (1 + abs(case.evidence))  # of the reference itself
        observe.holds("N-member-rounding", mpf(float(lower)) - size <= truth <= mpf(float(upper)) + size)


@pytest.mark.claim("N-computed")
@given(seed=SEEDS)
def test_the_computed_evidence_lies_between_its_ends(observe: Observer, seed: int) -> None:
    case = Hard(seed)
    try:
        lower, upper = computed_evidence(case.kernel, case.X, case.y[:, None], noise=case.noise)
    except ValueError:
        return
    observe.holds("N-computed", mpf(float(lower)) <= case.evidence <= mpf(float(upper)))


@pytest.mark.claim("N-computed")
@pytest.mark.parametrize("off", [0.0, 1e-3, 1.0])
def test_a_solve_that_is_off_costs_the_lower_end_what_it_leaves(observe: Observer, off: float) -> None:
    """Weights off by ``off`` along the least eigenvector, where rᵀK_n⁻¹r is rᵀr/σ²: nothing else makes up for it."""
    X, y, kernel, noise = np.linspace(0.0, 1.0, 8)[:, None], np.ones((8, 1)), kernels.SquaredExponential(), 0.01
    fit = exact(kernel, X, y, noise=noise)
    least = np.linalg.eigh(kernel(X))[1][:, :1]
    inexact: Any = SimpleNamespace(chol=fit.chol, weights=fit.weights + off * least)
    lower, upper = computed_evidence(kernel, X, y, noise=noise, model=inexact)
    K = exact_kernel(kernel, X, X) + mpf(noise) * mp.eye(8)
    with mp.workdps(DIGITS):
        form = (mp.matrix(y.tolist()).T * mp.lu_solve(K, mp.matrix(y.tolist())))[0]
        truth = -(8 * mp.log(2 * mp.pi) + mp.log(mp.det(K)) + form) / 2
    observe.lower("N-computed", truth, mpf(float(lower)))
    observe.upper("N-computed", truth, mpf(float(upper)))
    assert truth - mpf(float(lower)) <= 0.02 * mpf(off) ** 2 * noise + mpf(10) ** -11


@pytest.mark.claim("N-entries")
@given(seed=SEEDS)
def test_no_entry_is_off_by_more_than_is_charged(observe: Observer, seed: int) -> None:
    case = Hard(seed)
    exact = exact_kernel(case.kernel, case.X, case.Z)
    computed = case.kernel(case.X, case.Z)
    off = max(abs(exact[i, j] - mpf(float(computed[i, j]))) for i in range(case.N) for j in range(case.Z.shape[0]))
    bound = entry_bound(case.kernel, case.X, case.Z)
    observe.holds("N-entries", bound is not None and off <= mpf(bound))


@pytest.mark.claim("N-entries")
@given(seed=SEEDS)
def test_one_bound_for_all_entries_is_above_the_proved_ones(observe: Observer, seed: int) -> None:
    from gpbounds.kernels.errors import entry_errors

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2)) * 10.0 ** rng.uniform(-2, 3)
    v, length = 10.0 ** rng.uniform(-2, 2, 2)
    for kernel in (
        kernels.SquaredExponential(v, length),
        kernels.Matern(3.5, v, length),
        kernels.RationalQuadratic(v, length, 0.7),
        kernels.Periodic(v, length, 1.3),
        kernels.Linear(v) * kernels.SquaredExponential(1.0, length),
        kernels.Polynomial(degree=3, variance=v, offset=0.5) + kernels.Constant(2.0),
    ):
        each, bound = entry_errors(kernel, X), entry_bound(kernel, X, X)
        observe.holds("N-entries", bound is not None and bound >= 0.5 * float(each.max()))


@pytest.mark.claim("N-Q", "N-forms")
@given(seed=SEEDS, jitter=st.sampled_from(["auto", 0.0, 1e-12]))
def test_the_exact_Q_is_as_near_as_is_stated(observe: Observer, seed: int, jitter: Any) -> None:
    """Tr K − Tr Q, log|Q + σ²I| and the quadratic forms of the exact Q₋ ⪯ Q lie within what is charged."""
    case = Hard(seed)
    try:
        problem = streamed(*case.arguments, case.noise, jitter)
    except ValueError:
        return
    known, used = problem.accuracy, float(problem.white.jitter)
    L = mp.matrix(problem.white.inducing.chol.L.tolist())
    points = exact_kernel(case.kernel, case.Z, case.Z) + mpf(used) * mp.eye(len(case.Z))
    residual = L * L.T - points
    norm = mp.sqrt(sum(abs(residual[i, j]) ** 2 for i in range(len(case.Z)) for j in range(len(case.Z))))
    observe.holds("N-Q", norm <= mpf(known.factor))
    if not np.isfinite(known.below):
        return
    Kfu = exact_kernel(case.kernel, case.X, case.Z)
    least = Kfu * (L * L.T + mpf(known.factor) * mp.eye(len(case.Z))) ** -1 * Kfu.T
    s2 = mpf(case.noise)
    trace = sum(case.K[i, i] - least[i, i] for i in range(case.N))
    observe.holds("N-Q", abs(trace - mpf(problem.sums.trace)) <= mpf(problem.trace_error[0]))
    B = least + s2 * mp.eye(case.N)
    truth = mp.log(mp.det(B)) + case.N * mp.log(2 * mp.pi)
    observe.holds("N-Q", abs(truth - mpf(problem.log_det)) <= mpf(problem.log_det_error))
    top = max(mp.eigsy((least + least.T) / 2, eigvals_only=True))
    observe.holds("N-Q", top <= mpf(problem.largest))
    y = mp.matrix([mpf(float(t)) for t in case.y])
    shifts = problem.trace_above * np.array([1.0, 0.1, 0.0])
    fits = problem.fits(shifts, spread=True)
    form = (y.T * mp.lu_solve(case.K + s2 * mp.eye(case.N), y))[0]
    for s, shift in enumerate(shifts):
        exact = (y.T * mp.lu_solve(B + (mpf(case.noise + shift) - s2) * mp.eye(case.N), y))[0]
        observe.holds("N-forms", mpf(fits.below[s, 0]) <= exact <= mpf(fits.above[s, 0]))
        observe.holds("N-forms", mpf(fits.weighted[s, 0]) <= form)
    if known.share < 1.0:
        own = case.Q(used) if used or len(np.unique(case.Z, axis=0)) == len(case.Z) else least
        exact = (y.T * mp.lu_solve(own + s2 * mp.eye(case.N), y))[0]
        observe.holds("N-forms", mpf(fits.own[-1, 0]) <= exact)
        trace = sum(case.K[i, i] - own[i, i] for i in range(case.N))
        observe.holds("N-Q", abs(trace - mpf(problem.sums.trace)) <= mpf(problem.trace_error[1]))


@pytest.mark.claim("N-quad", "N-moment-rounding")
@given(seed=SEEDS)
def test_any_vector_gives_a_proved_form_and_moments_a_proved_determinant(observe: Observer, seed: int) -> None:
    case, rng = Hard(seed), np.random.default_rng(seed)
    try:
        problem = streamed(*case.arguments, case.noise, "auto")
    except ValueError:
        return
    A = case.K + mpf(case.noise) * mp.eye(case.N)
    y = mp.matrix([mpf(float(t)) for t in case.y])
    truth = (y.T * mp.lu_solve(A, y))[0] / 2
    best = mp.lu_solve(A, y)
    entry = problem.accuracy.entry
    for v in (rng.standard_normal(case.N), np.array([float(t) for t in best]), 1e6 * rng.standard_normal(case.N)):
        column = v[:, None]
        product, off = absolute_products(case.kernel, case.X, column, entry, noise=case.noise)
        exact = A * mp.matrix([mpf(float(t)) for t in v])
        observe.holds("N-quad", all(abs(exact[i] - mpf(product[i, 0])) <= mpf(off[i, 0]) for i in range(case.N)))
        below, above = two_sided(problem, column, product, off, problem.trace_above)
        observe.holds("N-quad", not truth < mpf(float(below[0])) and not truth > mpf(float(above[0])))
    found = moments(problem, problem.Y)
    known, L = problem.accuracy, mp.matrix(problem.white.inducing.chol.L.tolist())
    Kfu = exact_kernel(case.kernel, case.X, case.Z)
    least = Kfu * (L * L.T + mpf(known.factor) * mp.eye(len(case.Z))) ** -1 * Kfu.T
    gained = mp.log(mp.det(A)) - mp.log(mp.det(least + mpf(case.noise) * mp.eye(case.N)))
    observe.holds("N-moment-rounding", mpf(found.log_det[0]) <= gained <= mpf(found.log_det[1]))
    left = (case.K - least) / mpf(case.noise)
    observe.holds("N-moment-rounding", max(mp.eigsy((left + left.T) / 2, eigvals_only=True)) <= mpf(found.largest))


@pytest.mark.claim("N-member-rounding", "N-sound-jitter")
@given(seed=SEEDS)
def test_residuals_of_factors_are_bounded(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, scale = int(rng.integers(1, 8)), 10.0 ** rng.uniform(-200, 150)
    root = rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-4, 0, n)
    A = scale * (root @ root.T + 1e-6 * np.eye(n))
    A = np.tril(A) + np.tril(A, -1).T
    jitter = scale * 1e-7
    L = np.linalg.cholesky(A + jitter * np.eye(n))
    exact = mp.matrix(L.tolist()) * mp.matrix(L.tolist()).T - mp.matrix(A.tolist()) - mpf(jitter) * mp.eye(n)
    norm = mp.sqrt(sum(exact[i, j] ** 2 for i in range(n) for j in range(n)))
    observe.holds("N-member-rounding", norm <= mpf(factor_residual(L, A, jitter)))
    _, size, off = inverse_norms(L)
    inverse = mp.matrix(L.tolist()) ** -1
    observe.holds("N-member-rounding", mp.norm(inverse, 2) <= mpf(size) / (1 - mpf(off)) * (1 + mpf(10) ** -30))
    top = max(mp.eigsy(mp.matrix(A.tolist()), eigvals_only=True))
    observe.holds("N-member-rounding", top <= mpf(largest_eigenvalue(A, float(np.linalg.eigvalsh(A)[-1]))))
    observe.holds("N-sound-jitter", least_sound_jitter(A) >= 0.0)


@pytest.mark.claim("N-dense")
@given(seed=SEEDS, unit=st.sampled_from([1.0, 2.0**-800]))
def test_eigenvalues_of_the_residual_are_as_near_as_is_stated(observe: Observer, seed: int, unit: float) -> None:
    """In any unit of variance, also where squares of entries underflow: the errors are no more than in units of 1."""
    try:
        usual, record = (nystrom(case.kernel, case.X, case.Z) for case in (Hard(seed), Hard(seed, unit=unit)))
    except ValueError:
        return
    exact = sorted(mp.eigsy(mp.matrix((record.residual / unit).tolist()), eigvals_only=True), reverse=True)
    exact = [unit * value for value in exact]
    each, together = (mpf(error) + unit * mpf(10) ** -50 for error in record.eigenvalue_errors)
    for error, before in zip(record.eigenvalue_errors, usual.eigenvalue_errors, strict=True):
        assert error / unit <= 2.0 * before
    apart = [abs(value - mpf(float(computed))) for value, computed in zip(exact, record.eigenvalues, strict=True)]
    observe.holds("N-dense", max(apart) <= each)
    observe.holds("N-dense", sum(apart) <= together)


@pytest.mark.claim("N-forms")
@given(seed=SEEDS)
def test_the_spread_of_a_block_is_not_too_small(observe: Observer, seed: int) -> None:
    case, rng = Hard(seed), np.random.default_rng(seed)
    try:
        problem = streamed(*case.arguments, case.noise, "auto")
    except ValueError:
        return
    known, whitener = problem.accuracy, problem.white.inducing
    if not np.isfinite(known.below):
        return
    w = rng.standard_normal((case.N, 1))
    cross = case.kernel(case.X, case.Z)
    found = spread_of_block(whitener, case.X, cross, w, known, problem.white.residual, noise=case.noise)
    L, Kfu = mp.matrix(whitener.chol.L.tolist()), exact_kernel(case.kernel, case.X, case.Z)
    left = case.K - Kfu * (L * L.T + mpf(known.factor) * mp.eye(len(case.Z))) ** -1 * Kfu.T
    vector = mp.matrix([mpf(float(t)) for t in w[:, 0]])
    observe.holds("N-forms", mp.sqrt((vector.T * left * vector)[0]) / mpf(case.noise) <= mpf(float(found[0])))
