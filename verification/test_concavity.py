"""The new results on one data set: concavity in α, the whole range of α, monotonicity in Q, a-priori lower bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import diff, eye, log, mp, mpf, pi, sqrt
from observer import Observer
from renyi_instances import ORDERS, SEEDS, Instance, data, gram, instance, snap

from gpbounds import Empirical, Matern, SquaredExponential, inducing_points
from gpbounds.numerics import scalars as fast
from gpbounds.reference import renyi
from gpbounds.reference.linalg import solve, trace
from gpbounds.renyi import elbo, exact_gap, minimum_gap, needed, needed_from_eigenvalues

TINY = mpf("1e-30")


# --- in α -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("N-conc")
@given(seed=SEEDS, alpha=ORDERS)
def test_concave_in_the_order(observe: Observer, seed: int, alpha: Any) -> None:
    """Midpoints, chord, tangents and secants; L'' ≤ −½ Σ φ_i''."""
    case = instance(seed)
    evidence, variational = (renyi.elbo(*case.all, mpf(a)) for a in (0, 1))
    tol = 1e-28 * float(1 + abs(evidence) + abs(variational))
    value = renyi.elbo(*case.all, alpha)
    end = 1 + mpf("0.9") / max(case.d[0], mpf("0.1"))
    for left, right in ((alpha / 2, alpha), (-3 * alpha, alpha), (alpha, end)):
        a, b, m = (renyi.elbo(*case.all, t) for t in (left, right, (left + right) / 2))
        observe.lower("N-conc", m, (a + b) / 2, tol=tol)
    observe.lower("N-conc", value, (1 - alpha) * evidence + alpha * variational, tol=tol)
    later = renyi.elbo(*case.all, (1 + alpha) / 2)
    observe.upper("N-conc", (evidence - value) / alpha, (evidence - later) * 2 / (1 + alpha), tol=tol / float(alpha))
    observe.upper("N-conc", evidence, variational + renyi.elbo_slope(*case.all), tol=tol)
    secant = value + alpha / ((1 + alpha) / 2 - alpha) * (value - later)
    observe.upper("N-conc", evidence, secant, tol=1e3 * tol)
    # the second derivative, as the ledger writes it
    product = case.xi(alpha) ** -1 * case.residual
    bend = trace(product * product) / 2 - (case.y.T * product * product * solve(case.xi(alpha), case.y))[0]
    bend -= (
        sum(diff(lambda b, d=d: log(1 + b * d) / b, 1 - alpha, 2) + (d / (1 + (1 - alpha) * d)) ** 2 for d in case.d)
        / 2
    )
    cap = -sum(diff(lambda b, d=d: log(1 + b * d) / b, 1 - alpha, 2) for d in case.d) / 2
    observe.upper("N-conc", bend, cap, tol=1e-15 * float(1 + case.d[0] ** 2))
    h = min(mpf("1e-8"), (1 - alpha) / 10) / (1 + case.d[0])
    second = sum(w * renyi.elbo(*case.all, alpha + s * h) for s, w in ((-1, 1), (0, -2), (1, 1))) / h**2
    observe.equal("N-conc", second, bend, rtol=1e-10, atol=1e-10)


@pytest.mark.claim("N-order-error")
@given(seed=SEEDS, alpha=ORDERS, share=ORDERS)
def test_mean_errors_of_the_prior_against_the_order(observe: Observer, seed: int, alpha: Any, share: Any) -> None:
    """At the rows the mean error does not grow with α; at inputs that U alone ties to the rows it does not fall."""
    case = instance(seed)
    rng, M = np.random.default_rng(seed), case.Kuu.rows
    tied = renyi.matrix(rng.standard_normal((2, M)))  # f_* = tied · U + what is independent of the rows
    new = tied * case.Kuu * tied.T + gram(rng, 2), case.Kuu * tied.T

    def errors(order: Any) -> tuple[Any, Any]:
        return tuple(
            mean_error(case, order, own, cross, with_rows)
            for own, cross, with_rows in ((case.Kff, case.Kuf, case.Kff), (*new, tied * case.Kuf))
        )

    orders = sorted((mpf(0), alpha * share, alpha, mpf(1)))
    at_rows, tied_only = zip(*map(errors, orders), strict=True)
    size = float(trace(case.Kff) + trace(new[0])) * float(1 + trace(case.Kff) / case.noise) ** 2
    tol = 1e-30 * size
    observe.upper("N-order-error", at_rows[1:], at_rows[:-1], tol=tol)
    observe.lower("N-order-error", tied_only[1:], tied_only[:-1], tol=tol)
    # the mean is the reference's, and the slopes are those of the proof
    mean, _ = renyi.predict(*case.all[:4], *new, case.noise, alpha)
    inverse = case.xi(alpha) ** -1
    observe.equal("N-order-error", list(tied * case.Kuf * inverse * case.y), list(mean), rtol=1e-25, atol=1e-30)
    G, D = inverse, case.residual
    slopes = (
        -2 * trace((case.noise * eye(case.N) + (1 - alpha) * case.Kff) * case.Q * G * D * G * D * G),
        2 * alpha * trace(tied * case.Kuf * G * D * G * D * G * case.Kuf.T * tied.T),
    )
    h = mpf("1e-18") * min(alpha, 1 - alpha) / (1 + max(case.d[0], mpf(1)))
    for slope, left, right in zip(slopes, errors(alpha - h), errors(alpha + h), strict=True):
        observe.equal("N-order-error", (right - left) / (2 * h), slope, rtol=1e-9, atol=1e-12 * size)


def mean_error(case: Instance, alpha: Any, own: Any, cross: Any, with_rows: Any) -> Any:
    """E|f_* − Q_*f Ξ⁻¹y|² for y, f_* from the prior: ``own`` = K_**, ``cross`` = K_u*, ``with_rows`` = K_*f."""
    B = cross.T * solve(case.Kuu, case.Kuf) * case.xi(alpha) ** -1
    return trace(own - B * with_rows.T - with_rows * B.T + B * case.exact * B.T)


@pytest.mark.claim("N-range", "R-neg")
@given(seed=SEEDS, alpha=ORDERS)
def test_orders_outside_the_unit_interval(observe: Observer, seed: int, alpha: Any) -> None:
    """Upper bounds for α < 0 that decrease to log p as α → 0; lower bounds below L_VI for α in (1, 1 + σ²/λ)."""
    case = instance(seed)
    evidence, variational = (renyi.elbo(*case.all, mpf(a)) for a in (0, 1))
    chain = [renyi.elbo(*case.all, -t * alpha) for t in (50, 5, 1)]
    observe.lower("N-range", [*chain, chain[0], chain[1]], [evidence] * 3 + chain[1:], tol=1e-28)
    observe.equal("N-range", renyi.elbo(*case.all, -mpf("1e-25")), evidence, rtol=1e-15, atol=1e-15)
    beyond = renyi.elbo(*case.all, 1 + alpha / max(case.d[0], mpf("0.1")))
    observe.upper("N-range", beyond, variational, tol=1e-28 * float(1 + abs(variational)))


@pytest.mark.claim("N-range", "R-neg", "R-elbo*")
@given(seed=SEEDS)
def test_limit_of_the_order_to_minus_infinity(observe: Observer, seed: int) -> None:
    case = instance(seed, "subset")  # Z are the first M rows; the residual is non-singular on the others
    M = case.Kuu.rows
    limit = renyi.log_normal(case.y[:M, :], case.Kuu + case.noise * eye(M)) - mpf(case.N - M) / 2 * log(
        2 * pi * case.noise
    )
    far = renyi.elbo(*case.all, -mpf("1e30"))
    observe.equal("N-range", far, limit, rtol=1e-15, atol=1e-15)
    points = data(seed)
    kernel, X, y, _ = points.problem
    noise = points.noise
    exact = Instance(*renyi.blocks(kernel, X, X[:1]), renyi.matrix(y), mpf(noise))
    bound = elbo(kernel, X, y, X[:1], -np.inf, noise=noise)
    truth = renyi.elbo(*exact.all, -mpf("1e30"))
    observe.equal("N-range", float(bound), truth, rtol=1e-9, atol=1e-9)
    order = 1.0 + 0.9 * noise / float(renyi.spectrum(exact.residual)[0])
    truth = renyi.elbo(*exact.all, mpf(order))
    observe.equal("N-range", float(elbo(kernel, X, y, X[:1], order, noise=noise)), truth, rtol=1e-8, atol=1e-8)
    observe.lower("R-neg", float(bound), renyi.log_evidence(exact.Kff, exact.y, exact.noise), tol=1e-9)


# --- in Q -----------------------------------------------------------------------------------------------------------


@pytest.mark.claim("N-monoQ")
@given(seed=SEEDS, alpha=ORDERS)
def test_more_inducing_variables_never_hurt(observe: Observer, seed: int, alpha: Any) -> None:
    """L_α grows with Q in the Loewner order for α in (0, 1] and falls for α < 0; Q' = Q + tΔ is one larger Q."""
    case = instance(seed)
    beta = 1 - alpha

    def value(order: Any, residual: Any) -> Any:
        xi = case.exact - order * residual
        A = eye(case.N) + (1 - order) / case.noise * residual
        return renyi.log_normal(case.y, xi) - order / (2 * (1 - order)) * log(mp.det(A))

    for share in (mpf("0.9"), mpf("0.2")):
        observe.lower("N-monoQ", value(alpha, share * case.residual), value(alpha, case.residual), tol=1e-28)
        observe.upper("N-monoQ", value(-alpha, share * case.residual), value(-alpha, case.residual), tol=1e-28)
    apart = instance(seed, "apart")  # drop the last inducing variable
    if apart.Kuu.rows > 1:
        fewer = (apart.Kff, apart.Kuf[:-1, :], apart.Kuu[:-1, :-1], apart.y, apart.noise)
        observe.lower("N-monoQ", renyi.elbo(*apart.all, alpha), renyi.elbo(*fewer, alpha), tol=1e-28)
        observe.upper("N-monoQ", renyi.elbo(*apart.all, -alpha), renyi.elbo(*fewer, -alpha), tol=1e-28)
    # the derivative in a direction H ⪰ 0
    xi, H = case.xi(alpha), gram(np.random.default_rng(seed), case.N, 1) * case.noise
    h = mpf("1e-18")
    inner = (case.noise * eye(case.N) + beta * case.residual) ** -1 - xi**-1
    slope = alpha / 2 * (trace(inner * H) + (case.y.T * xi**-1 * H * xi**-1 * case.y)[0])
    ends = [value(alpha, case.residual - s * h * H) for s in (-1, 1)]
    size = 1 + abs(slope) * (1 + trace(H) / case.noise) ** 2
    observe.equal("N-monoQ", (ends[1] - ends[0]) / (2 * h), slope, atol=mpf("1e-18") * size)
    observe.lower("N-monoQ", slope, mpf(0), tol=1e-35)


@pytest.mark.claim("N-low")
@given(seed=SEEDS, alpha=ORDERS)
def test_no_choice_of_inducing_variables_beats_the_spectrum(observe: Observer, seed: int, alpha: Any) -> None:
    """Any M linear functionals of (f, rest): D_α(y) ≥ Σ G(λ_{M+i}/σ²); eigenvectors attain it at y = 0."""
    case = instance(seed, "apart")
    M, values = case.Kuu.rows, renyi.spectrum(case.Kff)
    floor = renyi.minimum_gap(values, M, case.noise, alpha)
    observe.lower("N-low", renyi.exact_gap(*case.all, alpha), floor, tol=1e-35)
    observe.lower("N-low", renyi.exact_gap(*case.prior, 0 * case.y, case.noise, alpha), floor, tol=1e-35)
    mean = renyi.expected_gap(*case.prior, case.noise, alpha)
    observe.lower("N-low", mean, renyi.minimum_gap(values, M, case.noise, alpha, "prior"), tol=1e-35)
    vectors = mp.eigsy(case.Kff)[1]
    leading = vectors[:, case.N - M :].T
    best = leading * case.Kff, leading * case.Kff * leading.T
    attained = snap(renyi.exact_gap(case.Kff, *best, 0 * case.y, case.noise, alpha))
    observe.equal("N-low", floor, attained, rtol=1e-25, atol=1e-35)
    counts = np.arange(case.N + 1)
    ratios = np.array(values, dtype=float)
    for y in ("any", "prior"):
        truth = [renyi.minimum_gap(list(map(mpf, ratios)), int(m), case.noise, alpha, y) for m in counts]
        quick = minimum_gap(ratios, counts, float(alpha), y, noise=float(case.noise))
        observe.equal("N-low", quick, truth, rtol=1e-11, atol=1e-300)


@pytest.mark.claim("N-low", "N-ritz")
@given(seed=SEEDS, alpha=ORDERS)
def test_fewer_than_needed_do_not_reach_the_target(observe: Observer, seed: int, alpha: Any) -> None:
    """At `needed` − 1, Σ G > target at 50 digits; landmarks give at most this number, as λ_i(Q) ≤ λ_i(K)."""
    case = data(seed)
    kernel, X, noise = case.kernel, case.X, case.noise
    values = renyi.spectrum(renyi.matrix(kernel(X)))
    target = float(renyi.minimum_gap(values, 1, mpf(noise), alpha)) * float(np.random.default_rng(seed).uniform(0, 1.2))
    if target < 1e-12:
        return
    M = needed(kernel, X, float(alpha), noise=noise, target=target)
    if M > 1:
        observe.lower("N-low", renyi.minimum_gap(values, M - 1, mpf(noise), alpha), mpf(target), tol=1e-13)
        Z = np.random.default_rng(seed).standard_normal((M - 1, X.shape[1]))
        observe.lower(
            "N-low", exact_gap(kernel, X, case.y, Z, float(alpha), noise=noise, jitter="auto"), target, tol=1e-10
        )
    observe.upper("N-low", renyi.minimum_gap(values, M, mpf(noise), alpha), mpf(target), tol=1e-9)
    for landmarks in range(1, len(X) + 1):
        observe.holds(
            "N-low",
            needed(kernel, X, float(alpha), noise=noise, target=target, landmarks=landmarks) <= min(M, landmarks),
        )
    residual = renyi.nystrom(*renyi.blocks(kernel, X, X[:1])[1:])
    for lower, value in zip(renyi.spectrum((residual + residual.T) / 2), values, strict=True):
        observe.holds("N-low", value >= lower - mpf("1e-40"))
    lowered = [float(v) * 0.9 for v in values]
    observe.holds("N-low", needed_from_eigenvalues(lowered, float(alpha), noise=noise, target=target) <= M)


@pytest.mark.claim("N-low")
@given(seed=SEEDS, alpha=ORDERS)
def test_needed_turns_exactly_where_the_floor_meets_the_target(observe: Observer, seed: int, alpha: Any) -> None:
    """A target slightly above the floor at M is not excluded at M; one slightly below it is."""
    rng = np.random.default_rng(seed)
    values, noise = 10.0 ** rng.uniform(-2, 2, 6), 10.0 ** rng.uniform(-2, 1)
    for order in (float(alpha), 1.0):
        for M in range(1, 6):
            floor = float(renyi.minimum_gap(map(mpf, values), M, mpf(noise), mpf(order)))
            below, above = (
                needed_from_eigenvalues(values, order, noise=noise, target=floor * (1 + t)) for t in (-1e-7, 1e-7)
            )
            observe.holds("N-low", (below, above) == (M + 1, M))
            met = float(minimum_gap(values, M, order, noise=noise))  # a target that is reached is not excluded
            observe.holds("N-low", needed_from_eigenvalues(values, order, noise=noise, target=met) == M)


def exact_kernel(X: Any, lengthscale: float) -> Any:
    """exp(−(x − x')²/(2ℓ²)) at 50 digits, not in float64."""
    points = [mpf(float(x)) for x in X]
    return mp.matrix([[mp.exp(-(((a - b) / mpf(lengthscale)) ** 2) / 2) for b in points] for a in points])


@pytest.mark.claim("N-low", "N-ritz")
@given(seed=SEEDS, alpha=ORDERS)
def test_rounding_of_the_eigenvalues_makes_nothing_needed(observe: Observer, seed: int, alpha: Any) -> None:
    """Smooth kernels, noise as small as rounding errors: float64 eigenvalues beyond the numerical rank exclude no M.

    Without tolerance against 50 digits: all eigenvalues, landmarks, and the plan for given data.
    """
    rng = np.random.default_rng(seed)
    N, lengthscale = int(rng.integers(9, 13)), float(rng.uniform(0.7, 3.0))
    X, kernel = np.sort(rng.random(N)), SquaredExponential(lengthscale=lengthscale)
    noise, target = 10.0 ** rng.uniform(-17, -14), 10.0 ** rng.uniform(-4, -1)
    values = [max(v, mpf(0)) for v in renyi.spectrum(exact_kernel(X, lengthscale))]
    for order in (float(alpha), 1.0):
        floors = [renyi.minimum_gap(values, m, mpf(noise), mpf(order)) for m in range(1, N)]
        truth = max((m for m, floor in enumerate(floors, 2) if floor > target), default=1)
        observe.upper("N-low", needed(kernel, X, order, noise=noise, target=target), truth)
        for landmarks in (N, N - 2):
            observe.upper("N-ritz", needed(kernel, X, order, noise=noise, target=target, landmarks=landmarks), truth)
        plan = inducing_points(kernel, N, order, target=target, inputs=Empirical(X), noise=noise)
        observe.upper("N-low", plan.needed, truth)


@pytest.mark.claim("N-low", "N-ritz")
@given(seed=SEEDS, alpha=ORDERS)
def test_a_target_met_by_the_last_digit_is_not_excluded(observe: Observer, seed: int, alpha: Any) -> None:
    """The first double at or above the floor of M points at 50 digits excludes no M, however the eigenvalues round."""
    rng = np.random.default_rng(seed)
    N, lengthscale, noise = 6, float(rng.uniform(0.5, 1.0)), 10.0 ** rng.uniform(-2, 0)
    X, kernel = np.arange(N) + 0.3 * rng.random(N), SquaredExponential(lengthscale=lengthscale)
    values = renyi.spectrum(exact_kernel(X, lengthscale))
    for M in range(1, N):
        floor = renyi.minimum_gap(values, M, mpf(noise), alpha)
        target = float(floor) if mpf(float(floor)) >= floor else float(np.nextafter(float(floor), np.inf))
        for claim, landmarks in (("N-low", None), ("N-ritz", N)):  # all rows as landmarks: Q = K
            observe.upper(claim, needed(kernel, X, float(alpha), noise=noise, target=target, landmarks=landmarks), M)


@pytest.mark.claim("N-low", "N-ritz")
@given(seed=SEEDS, alpha=ORDERS)
def test_a_plan_for_given_data_says_what_is_needed(observe: Observer, seed: int, alpha: Any) -> None:
    """``inducing_points(..., inputs=Empirical(X)).needed`` at a target next to the floor at each M, on either side."""
    rng = np.random.default_rng(seed)
    X, kernel, noise = rng.standard_normal(7), Matern(0.5), 10.0 ** rng.uniform(-2, 0)
    values = renyi.spectrum(renyi.matrix(kernel(X)))
    for M in (1, 3, 5):
        floor = float(renyi.minimum_gap(values, M, mpf(noise), alpha))
        targets = [floor * (1 + t) for t in (-1e-7, 1e-7)]
        plans = [inducing_points(kernel, 7, float(alpha), target=t, inputs=Empirical(X), noise=noise) for t in targets]
        observe.holds("N-low", [plan.needed for plan in plans] == [M + 1, M])
        for landmarks in (None, 7):  # all rows as landmarks: Q = K
            needs = [needed(kernel, X, float(alpha), noise=noise, target=t, landmarks=landmarks) for t in targets]
            observe.holds("N-ritz", needs == [M + 1, M])


# --- the scalar functions -------------------------------------------------------------------------------------------

RATIOS = st.floats(-14, 12).map(lambda e: mpf(10) ** mpf(e))


@pytest.mark.claim("N-F", "N-Fhat", "N-G", "N-psi")
@given(x=RATIOS, share=ORDERS, alpha=ORDERS)
def test_scalar_functions(observe: Observer, x: Any, share: Any, alpha: Any) -> None:
    """F̂ ≥ F is concave, touches F and does not rise above any line over F; ψ is concave, increasing, ≤ αx/(1+αx)."""
    F, F_hat, G, psi = (getattr(renyi, name) for name in ("F", "F_hat", "G", "psi"))
    beta, near = 1 - alpha, share * x
    observe.lower("N-G", G(x, alpha), mpf(0), tol=1e-45)
    observe.lower("N-F", F(x, alpha), renyi.trace_term(x, 1, 1, alpha), tol=1e-45)
    observe.upper("N-F", F(x, alpha), renyi.trace_term(x, 1, 1, alpha) + alpha * x / 2)
    observe.lower("N-Fhat", F_hat(x, alpha), F(x, alpha), tol=1e-40 * float(1 + x))
    weight = (x - near) / x  # F̂(near) lies above the chord from 0 to x
    observe.lower("N-Fhat", F_hat(near, alpha), (1 - weight) * F_hat(x, alpha), tol=1e-40 * float(1 + x))
    middle = (x + near) / 2
    chord = (F_hat(x, alpha) + F_hat(near, alpha)) / 2
    observe.lower("N-Fhat", F_hat(middle, alpha), chord, tol=1e-40 * float(1 + x))
    if alpha > mpf(1) / 2:  # least: every point of the line is reached between F(0) = 0 and F(x0)
        x0 = renyi.tangency(alpha)
        observe.equal("N-Fhat", F_hat(share * x0, alpha), share * F(x0, alpha), rtol=1e-25)
    else:
        observe.equal("N-Fhat", F_hat(x, alpha), F(x, alpha))
    observe.upper("N-psi", psi(x, alpha), alpha * x / (1 + alpha * x), tol=1e-45)
    observe.upper("N-psi", psi(near, alpha), psi(x, alpha), tol=1e-45)
    observe.lower("N-psi", psi(middle, alpha), (psi(x, alpha) + psi(near, alpha)) / 2, tol=1e-45)
    observe.upper("N-psi", psi(x, alpha), (1 - sqrt(beta)) / (1 + sqrt(beta)), tol=1e-45)
    observe.lower("N-psi", psi(x, alpha), alpha * near / ((1 + beta * near) * (1 + near)), tol=1e-45)
    a, v = float(alpha), float(x)
    for claim, name in (("N-F", "F"), ("N-Fhat", "F_hat"), ("N-G", "G"), ("N-psi", "psi")):
        truth = getattr(renyi, name)(mpf(v), mpf(a))
        observe.equal(claim, float(getattr(fast, name)(v, a)), truth, rtol=1e-11)
