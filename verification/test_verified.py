"""R_S and KL of a certificate proved: factorisations, laws and losses enclosed, against 100 digits.

A refused enclosure is no error; one that excludes the truth is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.divergences import pairs as laws
from gpbounds.divergences.measured import measured
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Constant, Kernel, RationalQuadratic, matrices
from gpbounds.kernels.matrices import EnclosedKernel
from gpbounds.kernels.pairs import has_pairs, pair_covariances, pair_error, pair_variances
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.linalg.pair_inverse import verified
from gpbounds.losses import Band, Exponential, Interval, Loss, Relative, Sign, Squared
from gpbounds.losses.balls import enclosed_sum
from gpbounds.numerics.pairs import log, reciprocal, row_sums
from gpbounds.pacbayes import Certificate, Exact, Free, HyperGrid, Scaling, Sparse, Whitened
from gpbounds.pacbayes.certificate import rows
from gpbounds.pacbayes.certificate.proof import _sparse, prove
from gpbounds.reference import divergences as reference
from gpbounds.reference import losses as reference_losses
from gpbounds.reference import spectra as reference_kernels
from gpbounds.rigor import at_bits, exact
from gpbounds.whitening import inducing

SEEDS = st.integers(0, 2**32 - 1)
DIGITS = 100
U = 2.0**-53
LOSSES: dict[str, Loss] = {
    "band": Band(0.6),
    "squared": Squared(0.9),
    "exponential": Exponential(0.8),
    "relative": Relative(1.5),
    "interval": Interval(-0.2, 0.5),
    "sign": Sign(),
}


def targets_of(loss: Loss, y: np.ndarray) -> np.ndarray:
    """``y``, or its signs for a loss for labels."""
    return np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, Sign) else y


POSTERIORS = ("exact", "sparse", "free", "whitened")


def number(high: Any, low: Any = 0.0) -> Any:
    """A pair in mpmath."""
    return mp.mpf(float(high)) + mp.mpf(float(low))


def encloses(ball: Any, value: Any) -> bool:
    """Whether a ball holds the number of 100 digits."""
    with at_bits(500):
        low, high = (mp.mpf(str(end.str(90, radius=False))) for end in (ball.lower(), ball.upper()))
        slack = mp.mpf(10) ** -85 * (1 + abs(value))
    return bool(low - slack <= value <= high + slack)


# N-verified


def conditioned(seed: int) -> np.ndarray:
    """A symmetric positive definite matrix of doubles, with condition numbers up to about 1e22."""
    rng = np.random.default_rng(seed)
    n, spread = int(rng.integers(1, 9)), float(rng.uniform(0.0, 11.0))
    B = np.linalg.qr(rng.standard_normal((n, n)))[0] * 10.0 ** (-spread * rng.uniform(0.0, 1.0, n))
    B = np.round(B * 2.0**26) / 2.0**26  # BBᵀ is then exact
    A = B @ B.T * 10.0 ** rng.uniform(-3.0, 3.0)
    return np.tril(A) + np.tril(A, -1).T


@pytest.mark.claim("N-verified")
@given(seed=SEEDS)
def test_a_verified_factor_encloses_determinant_solution_and_inverse(observe: Observer, seed: int) -> None:
    A = conditioned(seed)
    n, rng = len(A), np.random.default_rng(seed)
    with mp.workdps(DIGITS):
        exact_A = mp.matrix(A.tolist())
        try:
            factor = verified((A, np.zeros_like(A)), 0.0, floor=0.0, target=float(rng.choice([1e-7, 1e-15, 1e-24])))
        except NotPositiveDefinite:
            return
        inverse = exact_A**-1
        L = mp.cholesky(exact_A)  # A is positive definite, as was proved
        observe.holds("N-verified", encloses(factor.log_det(), 2 * mp.fsum(mp.log(L[i, i]) for i in range(n))))
        R = mp.matrix([[number(*two) for two in zip(*rows, strict=True)] for rows in zip(*factor.R, strict=True)])
        E = R * exact_A * R.T - mp.eye(n)
        observe.upper("N-verified", mp.mnorm(E - mp.matrix(factor.defect.tolist()), "f"), factor.error)
        observe.upper("N-verified", mp.mnorm(E, "f"), factor.delta)
        observe.upper("N-verified", mp.mnorm(R, "f") if n == 1 else mp.svd_r(R, compute_uv=False)[0], factor.norm)
        turned = (R * L) ** -1 - mp.eye(n)
        observe.upper("N-verified", max(mp.svd_r(turned, compute_uv=False)), factor.turned)
        b = rng.standard_normal(n)
        x, off = factor.solve((b, np.zeros(n)))
        truth = inverse * mp.matrix(b.tolist())
        observe.upper("N-verified", mp.norm(truth - mp.matrix([number(*v) for v in zip(*x, strict=True)])), off)
        S, apart = factor.inverse()
        product = mp.matrix([[number(*two) for two in zip(*rows, strict=True)] for rows in zip(*S, strict=True)])
        observe.upper("N-verified", mp.mnorm(product - inverse, "f"), apart)
        values, errors = factor.inverse_diagonal()
        gaps = [abs(number(*v) - inverse[i, i]) for i, v in enumerate(zip(*values, strict=True))]
        observe.upper("N-verified", gaps, errors)


@pytest.mark.claim("N-verified")
def test_matrices_that_double_precision_cannot_factorise(observe: Observer) -> None:
    """A squared exponential kernel at near inputs, in 30 digits: eigenvalues from 1e-21 on are resolved, no less."""
    for count, proves in ((6, True), (9, True), (16, False)):
        X = np.linspace(0.0, 1.0, count)[:, None]
        K, error = EnclosedKernel.of(SquaredExponential(1.0, 1.0)).gram(X)
        with mp.workdps(DIGITS):
            exact_K = reference_kernels.gram(kernel_to_plain(SquaredExponential(1.0, 1.0)), X.tolist())
            truth = mp.fsum(mp.log(v) for v in mp.eigsy(exact_K, eigvals_only=True))
            if proves:
                factor = verified(K, error, floor=0.0, target=1e-24)
                observe.holds("N-verified", encloses(factor.log_det(), truth))
            else:
                with pytest.raises(NotPositiveDefinite, match="known only to be below"):
                    verified(K, error, floor=0.0, target=1e-24)


@pytest.mark.claim("N-verified")
@pytest.mark.parametrize("n", [1, 511, 700])
def test_blocks_of_a_verified_factor_join(observe: Observer, n: int) -> None:
    """A = I + vvᵀ over several blocks: log|A| = log(1 + |v|²) and A⁻¹v = v/(1 + |v|²)."""
    v = np.random.default_rng(n).integers(-8, 9, n) / 16.0
    A = np.eye(n) + np.outer(v, v)  # exact
    factor = verified((A, np.zeros_like(A)), 0.0, floor=1.0, target=1e-7)
    square = float(v @ v)
    observe.holds("N-verified", (factor.log_det() - (exact(square) + 1).log()).contains(0))
    x, off = factor.solve((v, np.zeros(n)))
    observe.upper("N-verified", float(np.linalg.norm(x[0] + x[1] - v / (1.0 + square))), off + 1e-14)
    values, errors = factor.inverse_diagonal()
    observe.upper("N-verified", np.abs(values[0] - (1.0 - v * v / (1.0 + square))), errors + 1e-14)
    observe.holds("N-verified", bool((errors < 1e-13).all()) and off < 1e-12)


@pytest.mark.claim("N-pairs")
@given(seed=SEEDS)
def test_sums_and_reciprocals_of_pairs(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 70))
    high = rng.standard_normal((3, k)) * 10.0 ** rng.uniform(-20.0, 20.0, (3, k))
    low = high * U * rng.uniform(-1.0, 1.0, (3, k))
    sums = row_sums((high, low))
    inverse = reciprocal((np.abs(high), np.sign(high) * low))
    with mp.workdps(DIGITS):
        for i in range(3):
            terms = [number(*v) for v in zip(high[i], low[i], strict=True)]
            allowed = 7 * int(np.ceil(np.log2(k))) * mp.mpf(U) ** 2 * mp.fsum(map(abs, terms))
            observe.upper("N-pairs", abs(number(sums[0][i], sums[1][i]) - mp.fsum(terms)), allowed)
            for q, rest, t in zip(inverse[0][i], inverse[1][i], terms, strict=True):
                observe.holds("N-pairs", abs(number(q, rest) * abs(t) - 1) < mp.mpf(10) ** -29)


@pytest.mark.claim("N-pairlog")
@given(seed=SEEDS)
def test_logarithms_and_rational_quadratic_kernels_in_pairs(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    high = 1.0 + 10.0 ** np.concatenate([rng.uniform(-18.0, 3.0, 20), rng.uniform(0.0, 290.0, 5)])
    low = np.where(high > 1.0, high * U * rng.uniform(-0.5, 0.5, 25), 0.0)
    value = log((high, low))
    shape, variance = float(10.0 ** rng.uniform(-3.0, 3.0)), float(10.0 ** rng.uniform(-2.0, 2.0))
    kernel = RationalQuadratic(shape, variance, 10.0 ** rng.uniform(-1.0, 1.0, 2))
    X = rng.standard_normal((5, 2)) * 10.0 ** rng.uniform(-3.0, 6.0, (5, 1))
    K = pair_covariances(kernel, X, X)
    with mp.workdps(60):
        for i in range(25):
            truth = mp.log(number(high[i], low[i]))
            allowed = (14 * truth + 52) * mp.mpf(U) ** 2
            observe.upper("N-pairlog", abs(number(value[0][i], value[1][i]) - truth), allowed)
        exact_K = reference_kernels.gram(kernel_to_plain(kernel), X.tolist())
        gaps = [abs(number(K[0][i, j], K[1][i, j]) - exact_K[i, j]) for i in range(5) for j in range(5)]
        observe.upper("N-pairlog", max(gaps), pair_error(kernel, X))
    with pytest.raises(ValueError, match="expected distances below"):
        pair_covariances(kernel, np.array([[0.0, 1e140]]), np.zeros((1, 2)))


# N-proved-risk: the losses


@pytest.mark.claim("N-proved-risk")
@given(seed=SEEDS, name=st.sampled_from(sorted(LOSSES)), relative=st.booleans())
def test_expected_losses_are_enclosed_with_the_change_of_the_law(
    observe: Observer, seed: int, name: str, relative: bool
) -> None:
    """At laws up to the stated errors away, and v = 0; the sum over one row is its mean."""
    rng = np.random.default_rng(seed)
    loss = Interval(-0.3, 0.4, relative=True) if name == "interval" and relative else LOSSES[name]
    y = np.array([rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-2.0, 1.0)])
    v = np.array([0.0 if rng.random() < 0.1 else 10.0 ** rng.uniform(-12.0, 3.0)])
    centre, y = (0.0 if isinstance(loss, Sign) else y), targets_of(loss, y)
    m = centre + rng.standard_normal(1) * 10.0 ** rng.uniform(-6.0, 1.0)
    zero = np.zeros(1)
    in_mean = np.array([rng.choice([0.0, 1e-14, 1e-6, 1e-2]) * rng.random()])
    in_variance = np.array([rng.choice([0.0, 1e-14, 1e-6, 0.5]) * rng.random() * max(v[0], 1e-9)])
    ball, square = (
        enclosed_sum(loss, y, (m, zero), (v, zero), in_mean, in_variance, squared=squared) for squared in (False, True)
    )
    with mp.workdps(60):
        for a, b in ((0.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (0.3, -0.9)):
            mean = number(m[0]) + mp.mpf(a) * number(in_mean[0])
            variance = max(number(v[0]) + mp.mpf(b) * number(in_variance[0]), mp.mpf(0))
            if variance == 0:
                truth = mp.mpf(float(loss.value(y, m)[0])) if a == 0.0 else None
            else:
                truth = expected(loss, number(y[0]), mean, variance)
            if truth is not None:
                slack = mp.mpf(10) ** -25 if variance else mp.mpf(10) ** -15
                for held, value in ((ball, truth), (square, truth**2)):
                    low, high = (mp.mpf(str(end.str(50, radius=False))) for end in (held.lower(), held.upper()))
                    observe.upper("N-proved-risk", value, high + slack)
                    observe.lower("N-proved-risk", value, low - slack)
    observe.holds("N-proved-risk", ball.upper() <= 1 + 1e-8 and square.upper() <= 1 + 1e-8)
    if in_mean[0] == 0.0 and in_variance[0] == 0.0 and v[0] > 0.0 and not relative:
        observe.holds("N-proved-risk", float(ball.rad()) < 1e-12 and float(square.rad()) < 1e-12)


@pytest.mark.claim("N-proved-risk")
@pytest.mark.parametrize("name", ["exponential", "relative", "squared"])
def test_a_mean_moves_by_no_more_than_the_coupling(observe: Observer, name: str) -> None:
    """Near a point mass and at it √v moves by √variance_error, and the mean by the loss's slope times √(2/π) of it."""
    loss, y, zero, error = LOSSES[name], np.ones(1), np.zeros(1), np.full(1, 1e-6)
    farthest = 0.8001e-3 * float(np.max(loss._steepness(y)))
    for v in (0.0, 1e-8):
        ball = enclosed_sum(loss, y, (np.full(1, 0.7), zero), (np.full(1, v), zero), zero, error)
        observe.holds("N-proved-risk", float(ball.rad()) <= farthest)


@pytest.mark.claim("N-proved-risk", "N-sign")
def test_a_point_mass_at_a_jump_is_decided(observe: Observer) -> None:
    """The edges of a band are right, 0 is wrong for both labels, and no rest of a mean is too small to decide."""
    zero = np.zeros(1)
    for loss, y, m, truth in (
        (Sign(), 1.0, (0.0, 0.0), 1),
        (Sign(), -1.0, (0.0, 0.0), 1),
        (Sign(), 1.0, (0.0, 5e-324), 0),
        (Sign(), -1.0, (1e-300, -1e-320), 1),
        (Band(0.5), 1.0, (0.5, 0.0), 0),
        (Band(0.5), 1.0, (0.5, -1e-40), 1),
        (Interval(-0.5, 0.25), 1.0, (1.25, 0.0), 0),
    ):
        pair = np.array([m[0]]), np.array([m[1]])
        for squared in (False, True):
            ball = enclosed_sum(loss, np.array([y]), pair, (zero, zero), zero, zero, squared=squared)
            observe.holds("N-proved-risk", ball.contains(truth) and float(ball.rad()) <= 1e-60)


def expected(loss: Any, y: Any, m: Any, v: Any) -> Any:
    """E ℓ at many digits, from the reference."""
    if isinstance(loss, Interval):
        edges = [number(loss.low), number(loss.high)]
        if loss.relative:
            edges = [edge * abs(y) for edge in edges]
        return reference_losses.interval(y + edges[0], y + edges[1], m, v)
    if isinstance(loss, Sign):
        return reference_losses.sign(y, m, v)
    name = type(loss).__name__.lower()
    return getattr(reference_losses, name)(y, m, v, number(loss.epsilon))


# N-proved-kl and N-proved-risk: records


def entry(record: Any, x: np.ndarray, z: np.ndarray) -> Any:
    """k(x, z), an exact function of x and the hyperparameters."""
    kind = record["type"]
    if kind in ("Sum", "Product"):
        first, second = entry(record["k1"], x, z), entry(record["k2"], x, z)
        return first + second if kind == "Sum" else first * second
    if kind == "OnColumns":
        columns = list(record["columns"])
        return entry(record["kernel"], x[columns], z[columns])
    return reference_kernels.covariance(record, x.tolist(), z.tolist())


def gram(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> Any:
    record = kernel_to_plain(kernel)
    return mp.matrix([[entry(record, x, z) for z in Z] for x in X])


def drawn_kernel(rng: np.random.Generator, D: int) -> Kernel:
    scales = 10.0 ** rng.uniform(-0.7, 1.0, D)
    variance = float(10.0 ** rng.uniform(-1.0, 1.0))
    kinds: list[Kernel] = [
        SquaredExponential(variance, scales),
        Matern(float(rng.choice([0.5, 1.5, 2.5])), variance, scales),
        SquaredExponential(variance, scales) + Constant(0.4),
        Matern(1.5, variance, float(scales[0])).on([D - 1]) * SquaredExponential(1.2, scales),
        RationalQuadratic(variance, 1.3, scales),
        Matern(22.5, variance, scales),
    ]
    return kinds[int(rng.integers(len(kinds)))]


def drawn(seed: int, form: str) -> tuple[Kernel, Any, np.ndarray, np.ndarray]:
    """A record of Q with rows and inducing inputs that may repeat or nearly so, and noise from 1e-12 to 10."""
    rng = np.random.default_rng(seed)
    N, D, M = int(rng.integers(1, 7)), int(rng.integers(1, 3)), int(rng.integers(1, 5))
    X, Z = rng.uniform(-3.0, 3.0, (N, D)), rng.uniform(-3.0, 3.0, (M, D))
    if N > 2 and rng.random() < 0.5:
        X[1] = X[0]
    if M > 1 and rng.random() < 0.5:
        Z[1] = Z[0] + 10.0 ** rng.uniform(-9.0, -0.5)
    if rng.random() < 0.3:
        Z[0] = X[0]
    kernel, y = drawn_kernel(rng, D), rng.standard_normal(N)
    noise = float(10.0 ** rng.uniform(*((-12.0, 1.0) if rng.random() < 0.5 else (-2.0, 0.5))))
    jitter = float(rng.choice([0.0, 1e-12, 1e-6, 0.05]))
    mean = rng.standard_normal(M)
    factor = np.tril(0.3 * rng.standard_normal((M, M)), -1) + np.diag(10.0 ** rng.uniform(-2.0, 0.3, M))
    if form == "exact":
        return kernel, Exact(noise), X, y
    if form == "sparse":
        return kernel, Sparse(Z, noise, float(rng.choice([0.0, 0.5, 1.0, 5.0])), jitter), X, y
    if form == "free":
        B = factor @ factor.T
        return kernel, Free(Z, mean, np.tril(B) + np.tril(B, -1).T, jitter), X, y
    return kernel, Whitened(Z, mean, factor, jitter), X, y


def law_of(kernel: Kernel, q: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, Any, Any]:
    """a and B of u (None for the exact posterior), mean and covariance of f, from the ledger's formulas."""
    K, r = gram(kernel, X, X), mp.matrix([number(v) for v in y])
    if isinstance(q, Exact):
        return None, None, *reference.full_law(K, K, K, r, number(q.noise))
    Kuu, Kuf = gram(kernel, q.Z, q.Z) + number(q.jitter) * mp.eye(len(q.Z)), gram(kernel, q.Z, X)
    if isinstance(q, Sparse):
        a, B = reference.collapsed_law(K, Kuf, Kuu, r, number(q.noise), number(q.power))
    elif isinstance(q, Free):
        a, B = mp.matrix(q.mean.tolist()), mp.matrix(q.cov.tolist())
    else:
        L, C = mp.cholesky(Kuu), mp.matrix(q.factor.tolist())
        a, B = L * mp.matrix(q.mean.tolist()), L * C * C.T * L.T
    return a, B, *reference.sparse_law(Kuu, Kuf, K, a, B)


def truth_of(kernel: Kernel, q: Any, X: np.ndarray, y: np.ndarray, loss: Loss) -> tuple[Any, Any]:
    """R_S and KL from the ledger's formulas."""
    a, B, mean, cov = law_of(kernel, q, X, y)
    if isinstance(q, Exact):
        kl = reference.posterior_kl(gram(kernel, X, X), mp.matrix([number(v) for v in y]), number(q.noise))
    else:
        kl = reference.sparse_kl(gram(kernel, q.Z, q.Z) + number(q.jitter) * mp.eye(len(q.Z)), a, B)
    risks = [expected(loss, number(t), mean[i], cov[i, i]) for i, t in enumerate(y)]
    return mp.fsum(risks) / len(risks), kl


def statement(kernel: Kernel, q: Any, loss: Loss, outputs: Scaling | None = None) -> Certificate:
    """A certificate of Q, whatever its numbers are: `proved.prove` reads only what defines Q."""
    X = np.zeros((1, 1))
    start = Certificate.issue(
        X, np.zeros(1), Exact(1.0), SquaredExponential(), grid=HyperGrid(0.0, 0.0, 0), loss=Band(1.0), delta=0.05
    )
    changes = {} if outputs is None else {"outputs": outputs}
    return dataclasses.replace(start, kernel=kernel, posterior=q, loss=loss, **changes)


@pytest.mark.claim("N-proved-kl", "N-proved-risk")
@given(seed=SEEDS, form=st.sampled_from(POSTERIORS), name=st.sampled_from(sorted(LOSSES)), scaled=st.booleans())
def test_the_numbers_of_a_record_are_between_the_proved_ones(
    observe: Observer, seed: int, form: str, name: str, scaled: bool
) -> None:
    kernel, q, X, y = drawn(seed, form)
    outputs = Scaling("fixed in advance", 0.1, 1.7) if scaled and name != "sign" else None
    y = targets_of(LOSSES[name], y)
    try:
        proof = prove(statement(kernel, q, LOSSES[name], outputs), rows.raw(X, y))
    except ValueError as refusal:
        message = str(refusal)
        assert "expected" in message
        assert "\n" not in message
        return
    with mp.workdps(DIGITS):
        risk, kl = truth_of(kernel, q, X, y if outputs is None else outputs.apply(y), LOSSES[name])
        slack = mp.mpf(10) ** -40 * (1 + abs(kl))  # of the truth
        observe.upper("N-proved-kl", kl - slack, proof.kl)
        observe.lower("N-proved-kl", kl + slack, proof.kl_below)
        observe.upper("N-proved-risk", risk - slack, proof.risk)
        observe.lower("N-proved-risk", risk + slack, proof.risk_below)


@pytest.mark.claim("N-proved-kl", "N-proved-risk")
@pytest.mark.parametrize("form", POSTERIORS)
def test_well_conditioned_records_are_proved_to_the_last_digits(observe: Observer, form: str) -> None:
    """Nothing is refused where double precision works, and the ends are next to each other."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (30, 1))
    y, Z = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(30), np.linspace(-3.0, 3.0, 6)[:, None]
    factor = np.tril(0.1 * rng.standard_normal((6, 6)), -1) + 0.3 * np.eye(6)
    B = factor @ factor.T
    q = {
        "exact": Exact(0.01),
        "sparse": Sparse(Z, 0.01, 1.0, 0.0),
        "free": Free(Z, rng.standard_normal(6), np.tril(B) + np.tril(B, -1).T, 0.0),
        "whitened": Whitened(Z, rng.standard_normal(6), factor, 0.0),
    }[form]
    for kernel in (SquaredExponential(1.0, 0.8), Matern(1.5, 2.0, 1.0)):
        proof = prove(statement(kernel, q, Band(0.3)), rows.raw(X, y))
        observe.upper("N-proved-kl", proof.kl - proof.kl_below, 1e-12 * proof.kl)
        observe.upper("N-proved-risk", proof.risk - proof.risk_below, 1e-13)


PLACES = st.sampled_from(["everywhere", "equal rows", "other rows"])
OFF = st.sampled_from([1e-20, 1e-14, 1e-9])
TRUTH = 1e-40
"""Allows for the rounding of numbers of 100 digits."""


def put_off(patch: pytest.MonkeyPatch, seed: int, error: float, where: str) -> None:
    """Entries of kernels that are off by ``error``, and said to be: of equal rows, of others, or all."""

    def off(k: Kernel, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high, low = pair_covariances(k, left, right)
        wrong = error * np.where(np.sin(1e7 * high + seed) > 0.0, 1.0, -1.0)
        equal = (left[:, None] == right[None]).all(axis=2)
        return high, low + np.where(equal, where != "other rows", where != "equal rows") * wrong

    def variances_off(k: Kernel, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high, low = pair_variances(k, X)
        return high, low + (where != "other rows") * error * np.where(np.sin(1e7 * high + seed) > 0.0, 1.0, -1.0)

    patch.setattr(matrices, "pair_covariances", off)
    patch.setattr(matrices, "pair_variances", variances_off)
    patch.setattr(matrices, "pair_error", lambda k, X: error + pair_error(k, X))


def numbers(pair: Any) -> Any:
    """A matrix of pairs, or a column, in mpmath."""
    high, low = (np.atleast_2d(part) for part in pair)
    rows = [[number(*two) for two in zip(*row, strict=True)] for row in zip(high, low, strict=True)]
    return mp.matrix(rows) if np.ndim(pair[0]) == 2 else mp.matrix(rows).T


@pytest.mark.claim("N-proved-kl", "N-proved-risk")
@given(seed=SEEDS, form=st.sampled_from(POSTERIORS), error=OFF, where=PLACES)
def test_each_law_is_within_its_errors(observe: Observer, seed: int, form: str, error: float, where: str) -> None:
    """V, k − |V|², μ, S and the laws of f, each against the exact kernel's."""
    kernel, q, X, y = drawn(seed, form)
    if not has_pairs(kernel):
        kernel = Matern(1.5, 1.3, 0.9)
    known = EnclosedKernel.of(kernel)
    with pytest.MonkeyPatch.context() as patch:
        put_off(patch, seed, error, where)
        try:
            if isinstance(q, Exact):
                _, latent = laws.full_law(known, X, y, q.noise)
            else:
                law = _sparse(q, known, lambda: [(X, y)])
                latent, (V, sizes, errors) = law.latent(X), law.basis.whitened(X)
                left_over, off = law.basis.residual(X, V, sizes, errors)
        except ValueError:
            return
    with mp.workdps(DIGITS):
        a, B, mean, cov = law_of(kernel, q, X, y)
        N = len(y)
        observe.upper(
            "N-proved-risk",
            [abs(m - t) for m, t in zip(numbers(latent.mean), mean, strict=True)],
            latent.mean_error,
            tol=TRUTH,
        )
        gaps = [abs(numbers(latent.variance)[i] - cov[i, i]) for i in range(N)]
        observe.upper("N-proved-risk", gaps, latent.variance_error, tol=TRUTH)
        if isinstance(q, Exact):
            return
        L = mp.cholesky(gram(kernel, q.Z, q.Z) + number(q.jitter) * mp.eye(len(q.Z)))
        white = L**-1
        exact_V = (white * gram(kernel, q.Z, X)).T
        rows = numbers(V) - exact_V
        observe.upper("N-proved-kl", [mp.norm(rows[i, :]) for i in range(N)], errors, tol=TRUTH)
        residuals = [entry(kernel_to_plain(kernel), X[i], X[i]) - mp.norm(exact_V[i, :]) ** 2 for i in range(N)]
        observe.upper(
            "N-proved-kl", [abs(u - v) for u, v in zip(numbers(left_over), residuals, strict=True)], off, tol=TRUTH
        )
        observe.upper("N-proved-kl", mp.norm(numbers(law.mean) - white * a), law.mean_error, tol=TRUTH)
        observe.upper("N-proved-kl", mp.mnorm(numbers(law.cov) - white * B * white.T, "f"), law.cov_error, tol=TRUTH)


@pytest.mark.claim("N-proved-kl", "N-proved-risk")
@given(
    seed=SEEDS,
    form=st.sampled_from(POSTERIORS),
    name=st.sampled_from(sorted(LOSSES)),
    error=OFF,
    where=PLACES,
)
def test_errors_of_entries_are_carried_to_the_end(
    observe: Observer, seed: int, form: str, name: str, error: float, where: str
) -> None:
    """Entries that are off by up to ``error``, and said to be: the proved ends hold the exact kernel's numbers."""
    kernel, q, X, y = drawn(seed, form)
    if not has_pairs(kernel):
        kernel = SquaredExponential(1.3, 0.9)
    y = targets_of(LOSSES[name], y)

    with pytest.MonkeyPatch.context() as patch:
        put_off(patch, seed, error, where)
        try:
            proof = prove(statement(kernel, q, LOSSES[name]), rows.raw(X, y))
        except ValueError:
            return
    with mp.workdps(DIGITS):
        risk, kl = truth_of(kernel, q, X, y, LOSSES[name])
        slack = mp.mpf(10) ** -40 * (1 + abs(kl))
        observe.upper("N-proved-kl", kl - slack, proof.kl)
        observe.lower("N-proved-kl", kl + slack, proof.kl_below)
        observe.upper("N-proved-risk", risk - slack, proof.risk)
        observe.lower("N-proved-risk", risk + slack, proof.risk_below)


@pytest.mark.claim("N-pairs")
@given(seed=SEEDS)
def test_the_defect_of_a_factor_is_the_distance_from_its_matrix(observe: Observer, seed: int) -> None:
    """‖LLᵀ − Kuu − jitter·I‖_F in 60 digits, and at most a tenth above it; low parts of Kuu are half of it."""
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(rng.uniform(0.5, 2.0), rng.uniform(0.5, 2.0))
    points = inducing(kernel, 1e-3 * rng.standard_normal((6, 1)), 1e-9)
    with mp.workdps(60):
        L, K = mp.matrix(points.chol.L.tolist()), reference_kernels.gram(kernel_to_plain(kernel), points.Z.tolist())
        apart = L * L.T - K - mp.mpf(points.chol.jitter) * mp.eye(6)
        truth = mp.sqrt(sum(a**2 for a in apart))
        defect = measured(points, 1e-15).defect
        observe.upper("N-pairs", truth, defect)
        observe.upper("N-pairs", mp.mpf(defect), truth * mp.mpf("1.1"))


@pytest.mark.claim("N-pairs")
def test_errors_of_sums_over_rows_do_not_depend_on_the_unit(observe: Observer) -> None:
    """Σ V_iV_iᵀ/D_i has no unit: with K, jitter and noise times 4^k, y times 2^k, its error is the same."""
    rng = np.random.default_rng(0)
    Z, X, y = rng.standard_normal((4, 1)), rng.standard_normal((9, 1)), rng.standard_normal(9)

    def errors(unit: float) -> tuple[float, float]:
        basis = laws._PairBasis.of(EnclosedKernel.of(SquaredExponential(1.5 * unit**2, 0.8)), Z, 1e-9 * unit**2)
        sums = laws._Sums.empty(4)
        laws._add(sums, basis, X, y * unit, 0.1 * unit**2, 0.5)
        return sums.gram_error, sums.fit_error

    for k in (-20, 20):
        observe.equal("N-pairs", errors(2.0**k), errors(1.0), rtol=1e-9)
