"""The divergence of a Gaussian law q and the posterior under a log-concave likelihood, and its upper bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from mpmath import exp, log1p, mp, mpf, ncdf, npdf, quad
from observer import Observer

from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import SquaredExponential
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.numerics.hermite import Series, exponential_series
from gpbounds.reference import fisher
from gpbounds.reference.likelihoods import student_t
from gpbounds.reference.renyi import matrix
from gpbounds.renyi import posterior_gap
from gpbounds.renyi.log_concave import _law
from gpbounds.renyi.log_concave_curvature import _density
from gpbounds.renyi.log_concave_rows import AtRows, latent_at
from gpbounds.renyi.log_concave_sums import every_pair, sampled_rows, total_above
from gpbounds.whitening import inducing

LIKELIHOODS = [Bernoulli("logit"), Bernoulli("probit"), Poisson("exp"), Poisson("softplus"), Gaussian(0.3)]
EACH = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
FEW = pytest.mark.parametrize(
    "likelihood",
    [LIKELIHOODS[0], *(pytest.param(other, marks=pytest.mark.slow) for other in LIKELIHOODS[1:])],
    ids=repr,
)


def functions(likelihood: Likelihood, y: float) -> tuple[Callable[[Any], Any], ...]:
    """ℓ, ℓ' and ℓ'' in mpmath."""
    y = mpf(y)
    if likelihood == Bernoulli("logit"):
        s = mpf(1) if y > 0 else mpf(-1)
        sigma = lambda f: 1 / (1 + exp(f))  # noqa: E731
        return lambda f: -log1p(exp(-s * f)), lambda f: s * sigma(s * f), lambda f: -sigma(s * f) * sigma(-s * f)
    if likelihood == Bernoulli("probit"):
        s = mpf(1) if y > 0 else mpf(-1)
        mills = lambda f: npdf(f) / ncdf(f)  # noqa: E731
        bend = lambda f: -mills(s * f) * (s * f + mills(s * f))  # noqa: E731
        return lambda f: mp.log(ncdf(s * f)), lambda f: s * mills(s * f), bend
    if likelihood == Poisson("exp"):
        return lambda f: y * f - exp(f) - mp.loggamma(y + 1), lambda f: y - exp(f), lambda f: -exp(f)
    if likelihood == Poisson("softplus"):
        rate, up = lambda f: log1p(exp(f)), lambda f: 1 / (1 + exp(-f))
        ratio = lambda f: up(f) / rate(f)  # noqa: E731
        bend = lambda f: y * ratio(f) * (1 - up(f) - ratio(f)) - up(f) * (1 - up(f))  # noqa: E731
        return lambda f: y * mp.log(rate(f)) - rate(f) - mp.loggamma(y + 1), lambda f: y * ratio(f) - up(f), bend
    v = mpf(likelihood.noise)  # type: ignore[attr-defined]
    return lambda f: -mp.log(2 * mp.pi * v) / 2 - (y - f) ** 2 / (2 * v), lambda f: (y - f) / v, lambda f: -1 / v


def target(likelihood: Likelihood, rng: np.random.Generator) -> float:
    if isinstance(likelihood, Bernoulli):
        return float(rng.integers(2))
    return float(rng.integers(5)) if isinstance(likelihood, Poisson) else float(rng.standard_normal())


def covariance(ell: float, variance: float) -> Callable[[Any, Any], Any]:
    """The squared exponential kernel in mpmath."""
    return lambda a, b: mpf(variance) * exp(-((mpf(a) - mpf(b)) ** 2) / (2 * mpf(ell) ** 2))


def small(likelihood: Likelihood, seed: int, N: int, M: int) -> dict[str, Any]:
    """A model with few rows, and a law q that is not far from the prior and the posterior."""
    rng = np.random.default_rng(seed)
    X, Z = rng.uniform(0.0, 2.0, N), rng.uniform(0.0, 2.0, M)
    ell, variance = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.3, 2.0))
    y = np.array([target(likelihood, rng) for _ in range(N)])
    C = np.diag(rng.uniform(0.4, 1.0, M)) + np.tril(rng.uniform(-0.3, 0.3, (M, M)), -1)
    return {"X": X, "Z": Z, "y": y, "w": 0.5 * rng.standard_normal(M), "C": C, "ell": ell, "variance": variance}


def fast(likelihood: Likelihood, case: dict[str, Any], **options: Any) -> Any:
    kernel = SquaredExponential(lengthscale=case["ell"], variance=case["variance"])
    q = case["w"], case["C"]
    return posterior_gap(kernel, case["X"], case["y"], likelihood, case["Z"], *q, **options)


def factor(case: dict[str, Any], jitter: float) -> Any:
    """L: the exact factor of Kuu, or with jitter the one that is computed, as the claim says."""
    k = covariance(case["ell"], case["variance"])
    if jitter == 0.0:
        return mp.cholesky(mp.matrix([[k(a, b) for b in case["Z"]] for a in case["Z"]]))
    kernel = SquaredExponential(lengthscale=case["ell"], variance=case["variance"])
    return matrix(inducing(kernel, case["Z"], jitter).chol.L)


def reference(likelihood: Likelihood, case: dict[str, Any], jitter: float) -> dict[str, Any]:
    """Everything about q and the posterior, by integrals."""
    k, w, C = covariance(case["ell"], case["variance"]), matrix(case["w"]), matrix(case["C"])
    X, Z = (list(map(mpf, case[name].tolist())) for name in "XZ")
    K, V, Delta, m, S = fisher.at_rows(k, X, Z, factor(case, jitter), w, C)
    logs, slopes, bends = zip(*(functions(likelihood, y) for y in case["y"]), strict=True)
    evidence = fisher.log_evidence(logs, [mpf(0)] * len(X), K) if len(X) < 3 else None
    bound = fisher.half_fisher(V, Delta, w, C, *fisher.moments(slopes, bends, m, S))
    elbo = fisher.elbo(logs, m, S, w, C)
    return {"kl": None if evidence is None else evidence - elbo, "bound": bound, "elbo": elbo,
            "logs": logs, "parts": (V, Delta, m, w, C)}  # fmt: skip


@EACH
@pytest.mark.claim("N-fisher", "N-fisher-rounding", "N-fisher-estimate", "N-fisher-curved")
@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_one_row(observe: Observer, likelihood: Likelihood, seeds: int) -> None:
    """Exact integrals of one and two dimensions: KL is below the bound, which is the Fisher information, rounded up."""
    for seed in range(seeds):
        case = small(likelihood, seed, 1, 1)
        with mp.workdps(20):
            truth = reference(likelihood, case, 0.0)
            variance = fisher.half_variance(truth["logs"], *truth["parts"]) if seed == seeds - 1 else None
            gap = fast(likelihood, case, jitter=0.0)
            observe.holds("N-fisher", truth["kl"] > -mpf("1e-15"))
            observe.upper("N-fisher", truth["kl"], truth["bound"])
            observe.upper("N-fisher-rounding", truth["bound"], mpf(gap.fisher.value))
            observe.upper("N-fisher-curved", truth["kl"], mpf(gap.bound.value))
            observe.equal("N-fisher-rounding", gap.fisher.value, truth["bound"], rtol=1e-9)
            observe.equal("N-fisher", gap.elbo, truth["elbo"], rtol=1e-10)
            observe.equal("N-fisher", sum(gap.fisher.terms.values()), truth["bound"], rtol=1e-9)
            if variance is not None:
                observe.equal("N-fisher-estimate", gap.estimate, variance, rtol=1e-8)


@FEW
@pytest.mark.claim("N-fisher", "N-hermite", "N-fisher-rounding", "N-fisher-curved")
@pytest.mark.parametrize("jitter", [0.0, pytest.param(1e-3, marks=pytest.mark.slow)])
def test_two_rows(observe: Observer, likelihood: Likelihood, jitter: float) -> None:
    """As with one row, with the covariances of two rows by integrals over the plane."""
    for seed in (0,) if jitter == 0.0 else (1, 2):
        case = small(likelihood, 10 + seed, 2, 1 + seed)
        with mp.workdps(18):
            truth = reference(likelihood, case, jitter)
            gap = fast(likelihood, case, jitter=jitter)
            observe.upper("N-fisher", truth["kl"], truth["bound"])
            observe.upper("N-fisher-rounding", truth["bound"], mpf(gap.fisher.value))
            observe.upper("N-fisher-curved", truth["kl"], mpf(gap.bound.value))
            observe.equal("N-hermite", gap.fisher.value, truth["bound"], rtol=1e-8)


def closed_bound(case: dict[str, Any], jitter: float) -> Any:
    """The bound of Poisson(exp), whose covariances have closed forms, for any number of rows in mpmath."""
    k, w, C = covariance(case["ell"], case["variance"]), matrix(case["w"]), matrix(case["C"])
    X, Z, N = list(map(mpf, case["X"].tolist())), list(map(mpf, case["Z"].tolist())), len(case["X"])
    _, V, Delta, m, S = fisher.at_rows(k, X, Z, factor(case, jitter), w, C)
    rates = [exp(m[i] + S[i, i] / 2) for i in range(N)]
    means = mp.matrix([mpf(y) - rate for y, rate in zip(case["y"].tolist(), rates, strict=True)])
    squares = mp.matrix(N, N)
    for i in range(N):
        for j in range(N):
            squares[i, j] = rates[i] * rates[j] * mp.expm1(S[i, j]) + means[i] * means[j]
    return fisher.half_fisher(V, Delta, w, C, means, mp.matrix([-rate for rate in rates]), squares)


@pytest.mark.claim("N-fisher-rounding")
@pytest.mark.parametrize("size", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_rounding_of_nearly_dependent_points(observe: Observer, size: int) -> None:
    """Inducing points as near as 1e-4, with and without jitter: the bound in doubles is above the exact one."""
    for seed in range(8 * size):
        rng = np.random.default_rng(seed)
        case = small(Poisson("exp"), seed, int(rng.integers(2, 9)), int(rng.integers(2, 5)))
        case["Z"] = rng.uniform() + 10.0 ** rng.uniform(-4.0, 0.0) * rng.uniform(size=len(case["Z"]))
        jitter = [0.0, 1e-9, 1e-6][seed % 3]
        with mp.workdps(50):
            try:
                gap = fast(Poisson("exp"), case, jitter=jitter)
            except NotPositiveDefinite:  # points that are too near for no jitter
                continue
            truth = closed_bound(case, jitter)
            if gap.fisher.certified:
                observe.upper("N-fisher-rounding", truth, mpf(gap.fisher.value))


@EACH
@pytest.mark.claim("N-hermite")
@pytest.mark.parametrize("seeds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_coefficients(observe: Observer, likelihood: Likelihood, seeds: int) -> None:
    """Means, mean slopes, coefficients and the rest against integrals in 30 digits, within the stated errors."""
    rng = np.random.default_rng(3)
    for _ in range(seeds):
        y, m, v = target(likelihood, rng), float(rng.normal(0.0, 2.0)), float(10.0 ** rng.uniform(-2.0, 0.5))
        series = likelihood.slope_series(likelihood.checked_targets(y), np.array([m]), np.array([v]))
        assert series is not None
        with mp.workdps(30):
            _check_series(observe, series, *functions(likelihood, y)[1:], mpf(m), mpf(v))


def _check_series(observe: Observer, series: Series, slope: Any, bend: Any, m: Any, v: Any) -> None:
    s, mean = mp.sqrt(v), partial(fisher.mean, m=m, v=v, reach=18)
    observe.upper("N-hermite", abs(mean(slope) - mpf(series.mean[0])), series.mean_error[0])
    observe.upper("N-hermite", abs(mean(bend) - mpf(series.slope[0])), series.slope_error[0])
    width = series.coefficients.shape[1]
    for k in {2, 3, width + 1} if width else ():
        scale = mp.sqrt(mpf(2) ** k * mp.factorial(k))
        exact = mean(lambda f, k=k, c=scale: slope(f) * mp.hermite(k, (f - m) / s / mp.sqrt(2)) / c)
        observe.upper("N-hermite", abs(exact - mpf(series.coefficients[0, k - 2])), series.error[0])
    square = mean(lambda f: slope(f) ** 2) - mean(slope) ** 2 - (s * mean(bend)) ** 2
    rest = square - sum(mpf(a) ** 2 for a in series.coefficients[0].tolist())
    allowed = mpf(series.rest[0]) ** 2 + 2 * mpf(series.error[0]) * mpf(series.norms[0]) + mpf("1e-26")
    observe.upper("N-hermite", rest, allowed)


@pytest.mark.claim("N-hermite")
def test_closed_coefficients(observe: Observer) -> None:
    """The coefficients of e^f by its closed form and by the quadrature agree."""
    m, v, y = np.array([0.3, -1.0]), np.array([0.5, 2.0]), np.zeros(2)
    closed = exponential_series(y, m, v)
    total = np.exp(2.0 * m + v) * (np.expm1(v) - v)
    observe.equal("N-hermite", (closed.coefficients**2).sum(axis=1), total, rtol=1e-11)


@pytest.mark.claim("N-fisher")
def test_student_t_is_not_log_concave(observe: Observer) -> None:
    """Half the relative Fisher information is far below KL for a Student-t, which the function refuses."""
    with mp.workdps(15):
        ell = student_t(mpf(4), mpf(1) / 20)
        logs, m = (lambda f: ell(mpf(5), f)), mpf(1) / 2
        slope = lambda f: 5 * (5 - f) / (4 * mpf(1) / 400 + (5 - f) ** 2)  # noqa: E731
        points = [-9, -3, 0, 3, mpf("4.8"), 5, mpf("5.2"), 7, 12]
        evidence = mp.log(quad(lambda f: npdf(f) * exp(logs(f)), points))
        elbo = quad(lambda f: npdf(f, m) * logs(f), points) - m * m / 2
        fisher_half = quad(lambda f: npdf(f, m) * (m - slope(f)) ** 2, points) / 2
    observe.fails("N-fisher", fisher_half >= evidence - elbo, "Student-t: half of the Fisher information is below KL")
    case = small(Gaussian(1.0), 0, 3, 2)
    with pytest.raises(ValueError, match="proved concave"):
        fast(StudentT(4.0, 0.05), case)


def fitted(likelihood: Likelihood, case: dict[str, Any], jitter: float) -> tuple[np.ndarray, np.ndarray]:
    """(w, C) of the best Gaussian law, nearly: a fixed point of the natural gradient."""
    kernel = SquaredExponential(lengthscale=case["ell"], variance=case["variance"])
    V = inducing(kernel, case["Z"], jitter).whiten(case["X"][:, None])
    left, y, M = case["variance"] - (V * V).sum(axis=0), likelihood.checked_targets(case["y"]), len(V)
    precision, shift = np.eye(M), np.zeros(M)
    for step in range(30):
        S = np.linalg.inv(precision)
        m = V.T @ (S @ shift)
        series = likelihood.slope_series(y, m, np.maximum(left, 0.0) + ((S @ V) * V).sum(axis=0))
        assert series is not None
        rate = 0.5 if step < 5 else 1.0
        precision = (1.0 - rate) * precision + rate * (np.eye(M) - (V * series.slope) @ V.T)
        shift = (1.0 - rate) * shift + rate * (V @ (series.mean - series.slope * m))
    S = np.linalg.inv(precision)
    return S @ shift, np.linalg.cholesky(0.5 * (S + S.T))


def drawn(likelihood: Likelihood, case: dict[str, Any], jitter: float, rng: np.random.Generator, S: int) -> Any:
    """log p̃/q at S draws from q, and half the squared score there."""
    kernel = SquaredExponential(lengthscale=case["ell"], variance=case["variance"])
    X, C = case["X"][:, None], case["C"]
    V = inducing(kernel, case["Z"], jitter).whiten(X)
    values, vectors = np.linalg.eigh(kernel(X) - V.T @ V)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    z = rng.standard_normal((len(C), S))
    v = case["w"][:, None] + C @ z
    f = V.T @ v + R @ rng.standard_normal((len(X), S))
    logs = likelihood.log_density(case["y"][:, None], f).sum(axis=0) - 0.5 * (v * v).sum(axis=0)
    logs += 0.5 * (z * z).sum(axis=0) + np.log(C.diagonal()).sum()
    g = likelihood.derivatives(case["y"][:, None], f)[0]
    score = np.linalg.solve(C.T, z) - v + V @ g
    return logs, 0.5 * ((score**2).sum(axis=0) + ((R.T @ g) ** 2).sum(axis=0))


@pytest.mark.claim("N-fisher", "N-fisher-estimate", "N-fisher-curved")
@pytest.mark.parametrize("models", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_importance_sampling(observe: Observer, models: int) -> None:
    """log p(y) by importance sampling from the best q, with its effective size: no law is above its bound.

    The score at the draws has the mean that the bound states, and log(p/q) the variance that the estimate states.
    """
    tried, number, draws = 0, 0, 1000 if models < 100 else 10_000
    while tried < models:
        number += 1
        likelihood, rng = LIKELIHOODS[number % 5], np.random.default_rng(1000 + number)
        N, M, jitter = int(rng.integers(3, 40)), int(rng.integers(1, 9)), 1e-6
        case = small(likelihood, number, N, M) | {"ell": float(rng.uniform(0.3, 1.0))}
        case["w"], case["C"] = fitted(likelihood, case, jitter)
        logs, _ = drawn(likelihood, case, jitter, rng, draws)
        weights = np.exp(logs - logs.max())
        size = weights.sum() ** 2 / (weights**2).sum()
        evidence = logs.max() + np.log(weights.mean())
        if size < 0.1 * draws:
            continue
        tried += 1
        for push in (0.0, 0.3):
            case["w"] = case["w"] + push * rng.standard_normal(M)
            gap = fast(likelihood, case, jitter=jitter)
            for claim, bound in (("N-fisher", gap.fisher), ("N-fisher-curved", gap.bound)):
                observe.upper(claim, evidence - gap.elbo, float(bound), tol=5.0 / np.sqrt(size))
            logs, scores = drawn(likelihood, case, jitter, rng, draws)
            error = scores.std() / np.sqrt(len(scores))
            plain = gap.fisher.terms
            if likelihood == Poisson("exp"):  # e^(2f) has a mean that draws do not find; it has closed forms
                continue
            stated = plain["training"] + plain["shape"] + plain["M"]
            observe.equal("N-fisher", scores.mean(), stated, atol=7.0 * error)
            kurtosis = ((logs - logs.mean()) ** 4).mean() / logs.var() ** 2
            spread = 7.0 * logs.var() * np.sqrt(max(kurtosis - 1.0, 1.0) / len(logs))
            observe.equal("N-fisher-estimate", 2.0 * gap.estimate, logs.var(), atol=spread + 1e-9)


@pytest.mark.claim("N-fisher-sampled")
def test_sampled_totals(observe: Observer) -> None:
    """The upper bound on the sum of a positive semi-definite matrix fails with the stated probability at most."""
    delta, failures, trials = 0.2, 0, 400
    rng = np.random.default_rng(7)
    for _ in range(trials):
        A = rng.standard_normal((30, int(rng.integers(1, 4)))) * 10.0 ** rng.uniform(-1.0, 1.0, (30, 1))
        A += rng.uniform(-1.0, 1.0)
        T = A @ A.T
        tops = 1.05 * T.diagonal()
        roots = np.sqrt(tops)
        R = float(roots.sum())
        rows = rng.choice(30, size=200, p=roots / R)
        values = R * T[rows].sum(axis=1) / roots[rows]
        observe.holds("N-fisher-sampled", (np.abs(values) <= R * np.sqrt(T.sum()) * (1.0 + 1e-9)).all())
        failures += bool(total_above(values, R, delta) < T.sum())
    observe.frequency("N-fisher-sampled", failures, trials, delta)


@FEW
@pytest.mark.claim("N-fisher-sampled")
def test_streamed_beside_dense(observe: Observer, likelihood: Likelihood) -> None:
    """With probability 0.99 the streamed bound is above the Fisher information, and it is at most a half above it."""
    case = small(likelihood, 5, 300, 6)
    case["w"], case["C"] = fitted(likelihood, case, 1e-6)
    dense, streamed = (fast(likelihood, case, jitter=1e-6, method=method) for method in ("dense", "streamed"))
    observe.upper("N-fisher-sampled", float(dense.fisher), float(streamed.bound))
    observe.holds("N-fisher-sampled", float(streamed.bound) <= 1.5 * float(dense.fisher) + 1e-6)
    observe.equal("N-fisher-sampled", streamed.estimate, dense.estimate, atol=7.0 * streamed.estimate_error + 1e-9)


@pytest.mark.claim("N-fisher-curved")
@pytest.mark.parametrize("likelihood", [Bernoulli("logit"), Bernoulli("probit"), Poisson("exp"), Poisson("softplus")])
def test_the_least_curvature_is_below_that_of_every_point(observe: Observer, likelihood: Any) -> None:
    """−ℓ'' on an interval, by differences of log p in 50 digits; the least is met, but by the softplus."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        low = float(rng.uniform(-6.0, 4.0))
        high = low + float(rng.uniform(0.1, 3.0))
        y = float(rng.choice([-1.0, 1.0]) if isinstance(likelihood, Bernoulli) else rng.integers(0, 5))
        least = float(likelihood.least_curvature(np.array([y]), np.array([low]), np.array([high]))[0])
        with mp.workdps(50):
            points = [mpf(low) + (mpf(high) - mpf(low)) * k / 20 for k in range(21)]
            curvatures = [-mp.diff(lambda f, y=y: log_density(likelihood, y, f), f, 2) for f in points]
        for curvature in curvatures:
            observe.upper("N-fisher-curved", least, curvature)
        observe.holds("N-fisher-curved", likelihood.link == "softplus" or least >= 0.999 * min(curvatures))


def log_density(likelihood: Any, y: float, f: Any) -> Any:
    """log p(y|f) but for a constant in f."""
    if isinstance(likelihood, Bernoulli):
        return mp.log(mp.ncdf(y * f)) if likelihood.link == "probit" else -mp.log1p(mp.exp(-y * f))
    return y * f - mp.exp(f) if likelihood.link == "exp" else y * mp.log(mp.log1p(mp.exp(f))) - mp.log1p(mp.exp(f))


@pytest.fixture(scope="module")
def counts() -> AtRows:
    """A law far from the posterior of 60 counts, whose total is that of Q Cov r."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2.0, 2.0, (60, 1)), rng.poisson(3.0, 60).astype(float)
    points = inducing(SquaredExponential(4.0), np.linspace(-2.0, 2.0, 8)[:, None], 1e-6)
    return latent_at(points, X, y, Poisson("exp"), _law(np.full(8, 0.1), np.eye(8), 8), np.zeros(60))


@pytest.mark.claim("N-fisher-sampled")
def test_sampled_sums_of_every_kind_are_below_their_bound(observe: Observer, counts: AtRows) -> None:
    """The three sums and what is beyond them are below the truth for at most the stated share of choices of rows."""
    delta, trials = 0.2, 100
    whole = every_pair(counts)
    truth = whole.of_shape + whole.of_spread + whole.of_lines
    sampled = [sampled_rows(counts, delta, np.random.default_rng(seed)) for seed in range(trials)]
    below = sum(s.of_shape + s.of_spread + s.of_lines + s.beyond - s.series_rest < truth for s in sampled)
    observe.frequency("N-fisher-sampled", below, trials, delta)


@pytest.mark.claim("N-fisher-sampled")
def test_the_rest_of_the_series_is_added(observe: Observer, counts: AtRows) -> None:
    series = replace(counts.series, rest=np.full(60, 100.0))
    sums = sampled_rows(replace(counts, series=series), 0.2, np.random.default_rng(0))
    observe.upper("N-fisher-sampled", sums.series_rest, sums.beyond)


@pytest.mark.claim("N-fisher-curved")
def test_the_density_of_the_tails_is_normal(observe: Observer) -> None:
    z = np.linspace(-30.0, 30.0, 121)
    observe.equal("N-fisher-curved", _density(z), [npdf(mpf(float(x))) for x in z], rtol=1e-13)
