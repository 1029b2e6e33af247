"""The limits of what a check confirms, to the last double, for records that were changed and sealed again."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Matern, SquaredExponential, divergences
from gpbounds.divergences import Prediction
from gpbounds.losses import Band, Exponential, Relative, Squared
from gpbounds.pacbayes import Certificate, Charge, Exact, Free, HyperGrid, Scaling, Sparse, Whitened, kl_inverse
from gpbounds.pacbayes.certificate import checking, rows, statement
from gpbounds.pacbayes.certificate.rows import enclose, fingerprint
from gpbounds.pacbayes.certificate.statement import Line, conclude
from gpbounds.pacbayes.certificate.values import value_error

GRID = HyperGrid.shared(-3.0, 3.0, 60)
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(40)
Z = np.linspace(-2.0, 2.0, 6)[:, None]
AMPLITUDES = np.array([0.4, -0.3, 0.9, 0.2, -0.8, 0.1])
SPREAD = 0.04 * np.eye(6) + 0.01
POSTERIORS = {
    "exact": Exact(0.3),
    "vfe": Sparse(Z, 0.3, power=0.0),
    "fitc": Sparse(Z, 0.3, power=1.0, jitter=1e-6),
    "free": Free(Z, AMPLITUDES, SPREAD, jitter=0.01),
    "whitened": Whitened(Z, AMPLITUDES, np.linalg.cholesky(SPREAD), jitter=0.01),
}
LOSSES = [Band(0.6), Squared(1.0), Exponential(0.8), Relative(2.0)]
every_posterior = pytest.mark.parametrize("posterior", POSTERIORS.values(), ids=POSTERIORS)


def on_grid(variance=1.3, lengthscale=0.7, nu=None):
    theta = GRID.round([variance, lengthscale]).theta
    values = theta["variance"], theta["lengthscale"]
    return SquaredExponential(*values) if nu is None else Matern(nu, *values)


def issue(posterior, y=Y, **changes):
    given_ = {"grid": GRID, "loss": Band(0.6), "delta": 0.05, **changes}
    return Certificate.issue(X, y, posterior, on_grid(), **given_)


def forged(certificate, **numbers):
    """With other numbers, the bound that follows from them, and a fresh seal."""
    changed = dataclasses.replace(certificate, **numbers)
    N, delta = changed.data.rows, changed.delta
    stated = statement.risk_bound(changed.risk, changed.kl, changed.count, N, delta)
    return dataclasses.replace(changed, bound=stated).sealed()


# Risk and KL: stated and recomputed numbers


@every_posterior
@pytest.mark.parametrize("name", ["risk", "kl"])
def test_a_number_below_its_truth_is_too_small_and_one_above_it_is_confirmed(posterior, name):
    """Between the ends of what doubles know, 30 digits decide: a lowered number fails as it does with rigorous=True."""
    honest = issue(posterior)
    computed = enclose(honest.posterior, honest.kernel, X, Y, honest.loss)
    value, error = getattr(computed, name), getattr(computed, f"{name}_error")
    proof = honest.check(X, Y, rigorous=True).proved
    lower, upper = getattr(proof, f"{name}_below"), getattr(proof, name)
    assert value - error <= lower <= upper <= value + error <= getattr(honest, name)
    for stated in (value - 2.0 * error, lower - 0.5 * error, math.nextafter(lower, 0.0)):
        report = forged(honest, **{name: stated}).check(X, Y)
        assert name in report.failed
        assert "the stated number is too small" in report.line(name).text
    assert "30 digits" in report.line(name).text
    for stated in (upper * (1.0 + 1e-12) + 0.01 * error, math.nextafter(value + error, 0.0), value + error):
        assert forged(honest, **{name: stated}).check(X, Y).confirmed


@every_posterior
def test_the_bound_is_that_of_the_upper_ends_of_risk_and_divergence(posterior):
    """With both numbers less their allowances, and the bound that follows, three lines fail; at the upper ends none."""
    honest = issue(posterior)
    computed = enclose(posterior, honest.kernel, X, Y, honest.loss)
    assert forged(honest, risk=computed.risk, kl=computed.kl).check(X, Y).failed == ("kl", "risk", "bound")
    least = forged(honest, risk=computed.risk + computed.risk_error, kl=computed.kl + computed.kl_error)
    assert least.bound < honest.bound
    assert least.check(X, Y).confirmed
    lower = dataclasses.replace(least, bound=math.nextafter(least.bound, 0.0)).sealed()
    assert lower.check(X, Y).failed == ("bound",)


@pytest.mark.parametrize("name", ["risk", "kl"])
def test_a_number_far_above_the_recomputed_one_is_another_one(name):
    """A number from another machine may differ by up to a hundred allowances plus a relative 1e-6."""
    honest = issue(POSTERIORS["vfe"])
    computed = enclose(honest.posterior, honest.kernel, X, Y, honest.loss)
    value, error = getattr(computed, name), getattr(computed, f"{name}_error")
    most = value * (1.0 + 1e-6) + checking.LOOSE * error
    assert forged(honest, **{name: most}).check(X, Y).confirmed
    assert forged(honest, **{name: math.nextafter(most, math.inf)}).check(X, Y).failed == (name,)


def test_a_risk_of_one_is_confirmed_and_bounded_by_one():
    """Every prediction misses: R_S plus its allowance exceeds 1, which no risk does."""
    certificate = issue(Exact(0.3), y=Y + 1e6, loss=Band(1e-3), outputs=Scaling("fixed in advance", -1e6))
    computed = enclose(certificate.posterior, certificate.kernel, X, Y + 2e6, certificate.loss)
    assert computed.risk + computed.risk_error > 1.0
    assert (certificate.risk, certificate.bound) == (1.0, 1.0)
    assert certificate.check(X, Y + 1e6).confirmed
    below = forged(certificate, risk=math.nextafter(1.0, 0.0))
    assert "risk" in below.check(X, Y + 1e6).failed


@pytest.mark.parametrize("name", ["risk", "kl"])
@pytest.mark.parametrize(("value", "error"), [(math.nan, 0.0), (0.1, math.nan), (0.1, math.inf), (math.inf, 0.0)])
def test_what_is_not_known_confirms_nothing(monkeypatch, name, value, error):
    honest = issue(POSTERIORS["vfe"])
    unknown = dataclasses.replace(
        enclose(honest.posterior, honest.kernel, X, Y, honest.loss), **{name: value, f"{name}_error": error}
    )
    monkeypatch.setattr(rows, "enclose", lambda *_: unknown)
    assert honest.check(X, Y).confirmed  # 30 digits know it
    monkeypatch.setattr(checking, "MOST_INDUCING", 0)
    report = honest.check(X, Y)
    assert name in report.failed
    assert not report.confirmed


# The bound, the penalties, the data


@every_posterior
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_bound_a_thousandth_or_one_double_too_small_is_refused(posterior, loss):
    honest = issue(posterior, loss=loss, charges=[Charge("accuracy goals ε", 5)])
    assert 0.0 < honest.bound < 1.0
    for stated in (0.999 * honest.bound, math.nextafter(honest.bound, 0.0)):
        lower = dataclasses.replace(honest, bound=stated).sealed()
        assert lower.check(X, Y).failed == ("bound",)


@given(counts=st.lists(st.integers(2, 10**6), max_size=3), scalings=st.tuples(*[st.sampled_from([1, 2, 10**4])] * 2))
def test_every_list_is_charged_to_the_last_double(counts, scalings):
    """Θ, the charges and both scalings: the check fails where the bound leaves one out, or is one double less."""
    inputs, outputs = (Scaling("charged", 0.0, 1.0, count=c) if c > 1 else Scaling() for c in scalings)
    charges = [Charge(f"list {i}", c) for i, c in enumerate(counts)]
    honest = issue(POSTERIORS["vfe"], charges=charges, inputs=inputs, outputs=outputs)
    assert honest.count == math.prod([GRID.size, *counts, *scalings])
    assert honest.check(X, Y).confirmed
    for name in ("log_count", "log_xi"):
        for stated in (math.nextafter(getattr(honest, name), end) for end in (0.0, math.inf)):
            failed = dataclasses.replace(honest, **{name: stated}).sealed().check(X, Y).failed
            assert failed == ("choices" if name == "log_count" else "xi",)
    for forgotten in [c for c in (GRID.size, *counts, *scalings) if c > 1]:
        less = statement.risk_bound(honest.risk, honest.kl, honest.count // forgotten, 40, honest.delta)
        assert dataclasses.replace(honest, bound=less).sealed().check(X, Y).failed == ("bound",)
    without_xi = float(kl_inverse(honest.risk, (honest.kl + honest.log_count) / 40.0))
    without_delta = statement.risk_bound(honest.risk, honest.kl, honest.count, 40, 0.999)
    for less in (without_xi, without_delta):
        assert dataclasses.replace(honest, bound=less).sealed().check(X, Y).failed == ("bound",)


@pytest.mark.parametrize("digit", [0, 1, 31, 62, 63])
def test_every_digit_of_the_hash_counts(digit):
    honest = issue(POSTERIORS["vfe"])
    stated = honest.data.sha256
    other = stated[:digit] + ("0" if stated[digit] != "0" else "1") + stated[digit + 1 :]
    changed = dataclasses.replace(honest, data=dataclasses.replace(honest.data, sha256=other)).sealed()
    assert changed.check(X, Y).failed == ("data",)


@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 9), D=st.integers(1, 4))
def test_the_fingerprint_is_the_hash_that_is_documented(seed, N, D):
    """Of the bytes "X (N, D)\\n", X row by row as little-endian doubles, "y (N,)\\n", y likewise."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((N, D)), rng.standard_normal(N)
    text = f"X ({N}, {D})\n".encode() + struct.pack(f"<{N * D}d", *A.ravel())
    text += f"y ({N},)\n".encode() + struct.pack(f"<{N}d", *b)
    hashed = fingerprint(A, b)
    assert (hashed.sha256, hashed.rows, hashed.columns) == (hashlib.sha256(text).hexdigest(), N, D)


@pytest.mark.parametrize("indices", [(-1, 0), (61, 0), (0, -1), (0, 61), (30, 30, 30), (30,)])
def test_indices_outside_the_grid_are_refused(indices):
    report = dataclasses.replace(issue(POSTERIORS["vfe"]), indices=indices).sealed().check(X, Y)
    assert report.failed == ("grid",)
    assert "indices: expected" in report.line("grid").text


@pytest.mark.parametrize("axis", [0, 1])
def test_a_theta_between_two_members_of_the_grid_is_refused(axis):
    """Stated with the indices of either neighbour, its own KL, risk and bound, and sealed."""
    honest = issue(POSTERIORS["vfe"])
    values = [honest.kernel.variance, honest.kernel.lengthscale]
    values[axis] *= math.exp(0.05)  # half a step of 0.1
    kernel = SquaredExponential(*values)
    computed = enclose(honest.posterior, kernel, X, Y, honest.loss)
    numbers = {"risk": computed.risk + 2.0 * computed.risk_error, "kl": computed.kl + 2.0 * computed.kl_error}
    for step in (0, 1):
        indices = tuple(i + step * (axis == k) for k, i in enumerate(honest.indices))
        between = forged(dataclasses.replace(honest, kernel=kernel, indices=indices), **numbers)
        assert between.check(X, Y).failed == ("grid",)


@pytest.mark.parametrize("delta", [0.012345649, 0.0123456, 1 / 3, 1e-9])
def test_the_confidence_that_is_stated_is_no_more_than_what_was_paid_for(delta):
    """1 − δ in the sentence, six digits of δ rounded up; the bound to its last digit."""
    certificate = issue(POSTERIORS["vfe"], delta=delta)
    sentence = certificate.statement
    stated = float(re.search("at least 1 − ([0-9.e-]+) over", sentence)[1])
    assert delta <= stated <= delta * (1.0 + 1e-5)
    assert sentence.endswith(f"is at most {certificate.bound!r}.")


def test_a_line_that_was_skipped_confirms_nothing():
    sure, open_ = Line("seal", "confirmed", ""), Line("risk", "skipped", "")
    declared, wrong = Line("draws", "declared", ""), Line("data", "failed", "")
    assert conclude(True, "", [declared, sure]).confirmed
    assert not conclude(True, "", [declared, sure, open_]).confirmed
    assert not conclude(True, "", [declared, sure, wrong]).confirmed


@pytest.mark.parametrize("scaled", ["inputs", "outputs"])
def test_neither_scaling_may_come_from_the_same_data(scaled):
    own = Scaling("same data", 0.1, 1.1)
    with pytest.raises(ValueError, match="got 'same data'"):
        issue(POSTERIORS["vfe"], **{scaled: own})
    loose = issue(POSTERIORS["vfe"], **{scaled: own}, nonrigorous=True)
    assert not loose.rigorous
    assert not loose.check(X, Y).rigorous


# R_S and KL with their rounding errors


class Known(Band):
    """A loss with prescribed expectations, exactly known."""

    def expectation(self, y, m, s2):
        return np.asarray(m)

    def allowance(self, y, m, s2, mean_error=0.0, variance_error=0.0):
        return np.asarray(mean_error)


class Given:
    """A posterior with these numbers."""

    def __init__(self, prediction, kl=1.0, kl_rounding=0.0):
        self.prediction, self.kl, self.kl_rounding = prediction, kl, kl_rounding

    def predict(self):
        return self.prediction


def built(monkeypatch, prediction, **numbers):
    monkeypatch.setattr(rows.divergences, "full_posterior", lambda *_, **__: Given(prediction, **numbers))


@given(seed=st.integers(0, 2**32 - 1), N=st.integers(1, 60))
def test_the_mean_of_the_losses_is_known_to_its_allowance(seed, N):
    """Sum and quotient are rounded, each once: in rationals, the mean of the given doubles is within risk_error."""
    rng = np.random.default_rng(seed)
    losses = rng.random(N) ** 3
    prediction = Prediction(losses, np.ones(N), np.zeros(N), np.zeros(N))
    with pytest.MonkeyPatch.context() as patch:
        built(patch, prediction)
        computed = enclose(Exact(1.0), on_grid(), np.zeros((N, 1)), np.zeros(N), Known(1.0))
    truth = sum(map(Fraction, losses.tolist())) / N
    assert abs(Fraction(computed.risk) - truth) <= Fraction(computed.risk_error) <= Fraction(1, 2**50)


def test_what_the_losses_may_be_off_by_is_what_their_mean_may_be(monkeypatch):
    """Every loss may be larger by its own allowance, at once."""
    losses, allowed = np.array([0.1, 0.25, 0.7]), np.array([0.05, 0.01, 0.2])
    built(monkeypatch, Prediction(losses, np.ones(3), allowed, np.zeros(3)))
    computed = enclose(Exact(1.0), on_grid(), np.zeros((3, 1)), np.zeros(3), Known(1.0))
    assert allowed.mean() <= computed.risk_error <= allowed.mean() + 1e-14


@pytest.mark.parametrize(("mean_error", "variance_error"), [(0.05, 0.0), (0.0, 0.3), (0.04, 0.2)])
def test_the_risk_of_any_posterior_within_the_errors_is_within_the_error_of_the_risk(
    monkeypatch, mean_error, variance_error
):
    """Means and variances are anywhere in their boxes: the band's allowance is its worst corner, and not more."""
    rng = np.random.default_rng(3)
    mean, variance, loss = rng.standard_normal(30), rng.uniform(0.5, 2.0, 30), Band(10.0)
    y = mean + rng.choice([-1.0, 1.0], 30) * (10.0 + 0.5 * rng.standard_normal(30))  # one edge is near, one far
    built(monkeypatch, Prediction(mean, variance, np.full(30, mean_error), np.full(30, variance_error)))
    computed = enclose(Exact(1.0), on_grid(), np.zeros((30, 1)), y, loss)
    value = loss.expectation(y, mean, variance)
    moved = [
        np.abs(loss.expectation(y, mean + a * mean_error, variance + b * variance_error) - value)
        for a in (-1, 1)
        for b in (-1, 1)
    ]
    worst = float(np.max(moved, axis=0).mean())
    assert worst <= computed.risk_error <= 1.001 * worst


def test_the_rounding_of_the_divergence_is_passed_on_and_unknown_is_infinite(monkeypatch):
    prediction = Prediction(np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2))
    for rounding, expected in ((1e-3, 1e-3), (math.inf, math.inf), (math.nan, math.inf)):
        built(monkeypatch, prediction, kl=2.5, kl_rounding=rounding)
        computed = enclose(Exact(1.0), on_grid(), np.zeros((2, 1)), np.zeros(2), Band(0.6))
        assert (computed.kl, computed.kl_error) == (2.5, expected)


@every_posterior
@pytest.mark.parametrize("nu", [None, 0.5, 2.5])
def test_the_rounding_of_the_kernel_is_counted(posterior, nu):
    """R_S, KL and their errors are those of the posterior whose kernel values are right to `value_error`."""
    kernel, loss = on_grid(nu=nu), Band(0.6)

    def alone(entry_error):
        if isinstance(posterior, Exact):
            q = divergences.full_posterior(kernel, X, Y, noise=posterior.noise, entry_error=entry_error)
            at = q.predict()
        else:
            options = {"jitter": posterior.jitter, "entry_error": entry_error}
            if isinstance(posterior, Sparse):
                q = divergences.collapsed_posterior(
                    kernel, X, Y, Z, noise=posterior.noise, power=posterior.power, **options
                )
            elif isinstance(posterior, Free):
                q = divergences.free_posterior(kernel, Z, posterior.mean, posterior.cov, **options)
            else:
                q = divergences.whitened_posterior(kernel, Z, posterior.mean, posterior.factor, **options)
            at = q.predict(X)
        errors = at.mean_error, at.variance_error
        risk = loss.expectation(Y, at.mean, at.variance).mean()
        return risk, loss.allowance(Y, at.mean, at.variance, *errors).mean(), float(q.kl), float(q.kl_rounding)

    computed = enclose(posterior, kernel, X, Y, loss)
    risk, risk_error, kl, kl_error = alone(value_error(kernel, np.ones(1)))
    assert (computed.kl, computed.kl_error) == (kl, kl_error)
    assert computed.risk == pytest.approx(risk, rel=1e-15)
    assert computed.risk_error == pytest.approx(risk_error + 4.0 * rows.EPS, rel=1e-12)
    assert risk_error > 1.05 * alone(0.0)[1]
