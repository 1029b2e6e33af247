"""Ledger P.1: the binary kl, its inverses and their gradient, against 50 digits and against Arb's certificates."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.pacbayes import kl, kl_inverse
from gpbounds.reference import pacbayes as reference

SIDES = ("upper", "lower")
decades = st.floats(-300.0, 0.0).map(lambda e: 10.0**e)
risks = st.one_of(
    decades,
    st.floats(0.0, 1.0),
    st.floats(-18.0, 0.0).map(lambda e: 10.0**e),
    st.floats(-16.0, 0.0).map(lambda e: 1.0 - 10.0**e),
    st.sampled_from([0.0, 1e-300, 0.5, 1.0 - 2**-53, 1.0]),
)
budgets = st.one_of(
    decades,
    st.floats(0.0, 5.0),
    st.floats(0.0, 700.0),
    st.floats(-20.0, 2.8).map(lambda e: 10.0**e),
    st.sampled_from([0.0, 1e-300, 700.0, np.inf]),
)


def ulps(value: Any, truth: Any) -> float:
    """Distance in units of the last place of the truth."""
    return float(abs(mp.mpf(float(value)) - truth) / mp.mpf(float(np.spacing(abs(float(truth))))))


def wide_grid(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (q, ε): q near 0, inside and near 1; ε over all decades, comparable with q, and with 1 − q."""
    rng = np.random.default_rng(11)
    fine = 10.0 ** rng.uniform(-17, 0, count)
    q = np.select(
        [rng.random(count) < 0.25, rng.random(count) < 0.33, rng.random(count) < 0.5],
        [10.0 ** rng.uniform(-300, 0, count), fine, 1.0 - 10.0 ** rng.uniform(-16, 0, count)],
        rng.random(count),
    )
    eps = np.select(
        [rng.random(count) < 0.25, rng.random(count) < 0.33, rng.random(count) < 0.5],
        [10.0 ** rng.uniform(-300, 2.84, count), q * 10.0 ** rng.uniform(-4, 4, count), (1.0 - q) * fine * 1e3],
        rng.uniform(0, 5, count),
    )
    return q, np.clip(eps, 1e-300, 700.0)


@pytest.mark.claim("P-02")
@given(q=risks, p=risks, near=st.floats(-16.0, 1.0).map(lambda e: 10.0**e), sign=st.sampled_from([-1.0, 1.0]))
def test_kl_to_four_ulp(observe: Observer, q: float, p: float, near: float, sign: float) -> None:
    for other in (p, min(1.0, max(0.0, q * (1.0 + sign * near)))):
        value = float(kl(q, other))
        with mp.workdps(700 if min(q, other) < 1e-20 else 120):
            truth = reference.kl(q, other)
        if mp.isinf(truth) or truth == 0:
            observe.holds("P-02", value == float(truth))
        else:
            observe.equal("P-02", mp.mpf(value), truth, rtol=4 * 2.0**-52, atol=5e-323)
            observe.holds("P-02", ulps(value, truth) <= 4.0)


@pytest.mark.claim("P-02")
def test_kl_at_the_ends(observe: Observer) -> None:
    ends = [
        (0, 0, 0),
        (1, 1, 0),
        (0.3, 0, np.inf),
        (0.3, 1, np.inf),
        (0, 1, np.inf),
        (1, 0, np.inf),
        (0, 0.5, np.log(2)),
    ]
    observe.equal("P-02", [float(kl(q, p)) for q, p, _ in ends[:2]], 0.0)
    observe.holds("P-02", all(float(kl(q, p)) == v for q, p, v in ends), len(ends))
    # The textbook expression cancels for p ≈ q; D(q,p) + D(1−q,1−p) does not.
    q, p = 0.3, 0.3 * (1 + 1e-12)
    naive = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    observe.holds("P-02", abs(naive / float(reference.kl(q, p)) - 1) > 0.1)


@pytest.mark.claim("P-03", "P-12")
@given(q=risks, eps=budgets)
@example(q=9.37643442489937e-06, eps=3.4488089941944624e-06)
@example(q=0.9906695005173263, eps=1.6356586045543113)
@example(q=1e-300, eps=1e-300)
@example(q=1.0 - 2**-53, eps=700.0)
def test_inverse_to_four_ulp_and_certified_to_two(observe: Observer, q: float, eps: float) -> None:
    for side in SIDES:
        for complement, truth in zip((False, True), reference.kl_inverse(q, eps, side), strict=True):
            rounded = float(truth)
            value = float(kl_inverse(q, eps, side, complement))
            proved = float(kl_inverse(q, eps, side, complement, rigor="sharp"))
            if truth == rounded:  # at the ends, and where the value underflows
                observe.holds("P-03", ulps(value, truth) <= 1.0)
            observe.holds("P-03", ulps(value, truth) <= 4.0)
            observe.holds("P-12", ulps(proved, truth) <= 2.0)
            if (side == "upper") != complement:
                observe.upper("P-12", truth, mp.mpf(proved))
            else:
                observe.lower("P-12", truth, mp.mpf(proved))


@pytest.mark.claim("P-03", "P-12")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("complement", [False, True])
def test_inverse_on_a_wide_grid(observe: Observer, side: str, complement: bool) -> None:
    """The certified double is next to the truth; the plain one is within 4 ulp of either neighbour."""
    q, eps = wide_grid(6000)
    fast = kl_inverse(q, eps, side, complement)
    proved = kl_inverse(q, eps, side, complement, rigor="sharp")
    observe.upper("P-03", np.abs(fast - proved) / np.spacing(proved), 4.0)
    outward = (proved - fast) * (1.0 if (side == "upper") != complement else -1.0)
    observe.lower("P-12", outward / np.spacing(proved), -4.0)


@pytest.mark.claim("P-03", "P-12")
def test_seams(observe: Observer) -> None:
    """Where branches meet: p = 3q/2, and around tiny q; monotone in ε across them, but for rounding."""
    for q in (1e-300, 1e-299, 1e-20, 1e-3, 0.3, 0.5, 0.9, 1.0 - 2**-40):
        seam = float(kl(q, q + (1.0 - q) * 0.5 * q))
        eps = np.concatenate([seam * (1.0 + np.linspace(-0.02, 0.02, 801)), np.geomspace(1e-3 * seam, 1e3 * seam, 400)])
        eps = np.sort(eps)
        for side in SIDES:
            proved = kl_inverse(q, eps, side, rigor="sharp")
            observe.upper("P-03", np.abs(kl_inverse(q, eps, side) - proved) / np.spacing(proved), 4.0)
            steps = np.diff(proved)
            observe.holds("P-12", (steps >= 0).all() if side == "upper" else (steps <= 0).all(), eps.size)


@pytest.mark.claim("P-03")
def test_uniqueness_needs_q_below_one(observe: Observer) -> None:
    """At q = 1, ε > 0 the only p in [q, 1] is 1, where kl = 0 ≠ ε; the maximum of the definition is 1."""
    observe.fails(
        "P-03", float(kl(1.0, 1.0)) == 0.5, "q = 1, ε = ½: no p in [1, 1] has kl(1‖p) = ε; kl⁻¹ = 1 is the max"
    )
    observe.equal("P-03", [float(kl_inverse(1.0, eps)) for eps in (0.0, 1e-300, 0.5, np.inf)], 1.0)
    observe.equal("P-03", kl_inverse([0.0, 0.3, 1.0], np.inf), 1.0)


@pytest.mark.claim("P-04")
@given(q=risks, eps=budgets, q2=risks, eps2=budgets)
def test_special_values_monotone_and_concave(observe: Observer, q: float, eps: float, q2: float, eps2: float) -> None:
    observe.equal("P-04", float(kl_inverse(q, 0.0)), q)
    observe.equal("P-04", mp.mpf(float(kl_inverse(0.0, eps))), -mp.expm1(-mp.mpf(eps)), rtol=2.0**-51)
    p, p2 = (float(kl_inverse(a, b, rigor="sharp")) for a, b in ((q, eps), (q2, eps2)))
    high = float(kl_inverse(max(q, q2), max(eps, eps2), rigor="sharp"))
    observe.lower("P-04", high, max(p, p2))
    if np.isfinite(eps + eps2):
        middle = float(kl_inverse(0.5 * q + 0.5 * q2, 0.5 * eps + 0.5 * eps2, rigor="sharp"))
        observe.lower("P-04", middle, 0.5 * p + 0.5 * p2, tol=4e-16)


@pytest.mark.claim("P-05")
@given(q=risks, p=risks, eps=budgets)
def test_pinsker_and_sharper(observe: Observer, q: float, p: float, eps: float) -> None:
    """kl = ∫_q^p (x−q)/(x(1−x)) dx ≥ (p−q)²/(2 max x(1−x)), and x(1−x) ≤ min(¼, p(1−q)) between q and p."""
    with mp.workdps(340):
        d, value = mp.mpf(p) - mp.mpf(q), reference.kl(q, p)
        if not mp.isinf(value):
            observe.lower("P-05", value, 2 * d * d, tol=1e-330)
        if p > q and not mp.isinf(value):
            observe.lower("P-05", value, d * d / (2 * mp.mpf(p) * (1 - mp.mpf(q))), tol=1e-330)
    if eps < np.inf:
        inverse = mp.mpf(float(kl_inverse(q, eps, complement=False)))
        a, e = mp.mpf(q), mp.mpf(eps)
        slack = inverse * mp.mpf(2) ** -50
        tight = e * (1 - a) + mp.sqrt((e * (1 - a)) ** 2 + 2 * e * a * (1 - a))
        for bound in (
            tight,
            mp.sqrt(2 * a * (1 - a) * e) + 2 * (1 - a) * e,
            mp.sqrt(2 * a * e) + 2 * e,
            mp.sqrt(e / 2),
        ):
            observe.upper("P-05", inverse, a + bound, tol=slack)


@pytest.mark.claim("P-06", "P-07")
@given(
    q=risks.filter(lambda q: 0.0 < q < 1.0), eps=budgets.filter(lambda e: 1e-300 <= e <= 700.0), t=st.floats(1e-3, 50)
)
def test_gradient(observe: Observer, q: float, eps: float, t: float) -> None:
    for side in SIDES:
        pairs = zip(
            kl_inverse(q, eps, side, gradient=True)[1:], reference.kl_inverse_gradient(q, eps, side), strict=True
        )
        for claim, (fast, truth) in zip(("P-06", "P-07"), pairs, strict=True):
            observe.equal(claim, mp.mpf(float(fast)), truth, rtol=8 * 2.0**-52, atol=1e-306)
    # Eq. 12 and 13 as printed equal the form without cancellation, for every p.
    with mp.workdps(400):
        a, rest, left = mp.mpf(q), 1 - mp.mpf(q), (1 - mp.mpf(q)) * mp.exp(-mp.mpf(t))
        p = 1 - left
        bottom = rest / left - a / p
        observe.equal("P-07", 1 / bottom, p * left / (p - a), rtol=1e-40)
        printed = (mp.log(rest / left) - mp.log(a / p)) / bottom
        observe.equal("P-06", printed, p * left * (mp.log(p / left) - mp.log(a / rest)) / (p - a), rtol=1e-40)


@pytest.mark.claim("P-06", "P-07")
def test_gradient_is_the_slope_and_its_limits(observe: Observer) -> None:
    with mp.workdps(60):
        for q, eps in ((0.02, 0.05), (0.7, 0.3), (1e-9, 1e-3), (0.999, 2.0)):
            for side in SIDES:
                h = mp.mpf(10) ** -25 * min(mp.mpf(q), mp.mpf(1) - mp.mpf(q), mp.mpf(eps))
                _, in_q, in_eps = kl_inverse(q, eps, side, gradient=True)
                high, low = (reference.kl_inverse(mp.mpf(q) + s * h, eps, side)[0] for s in (1, -1))
                observe.equal("P-06", (high - low) / (2 * h), mp.mpf(float(in_q)), rtol=1e-14, atol=1e-300)
                high, low = (reference.kl_inverse(q, mp.mpf(eps) + s * h, side)[0] for s in (1, -1))
                observe.equal("P-07", (high - low) / (2 * h), mp.mpf(float(in_eps)), rtol=1e-14, atol=1e-300)
    inside = np.array([1e-9, 0.2, 0.5, 0.9])
    observe.equal("P-06", kl_inverse(inside, 1e-40, gradient=True)[1], 1.0, rtol=1e-10)  # ε → 0
    observe.equal(
        "P-07", kl_inverse(inside, 1e-40, gradient=True)[2] / np.sqrt(inside * (1 - inside) / 2e-40), 1.0, rtol=1e-9
    )
    small = kl_inverse(np.array([1e-3, 1e-100, 1e-300, 0.0]), 0.1, gradient=True)[1]
    observe.holds("P-06", (np.diff(small) > 0).all() and small[-1] == np.inf)  # q → 0, like ln(1/q)
    large = kl_inverse(1.0 - np.array([1e-1, 1e-2, 1e-3, 0.0]), 0.1, gradient=True)[1]
    observe.holds("P-06", (np.diff(large) < 0).all() and large[-1] == 0.0)  # q → 1
    for side, start, sign in (("upper", 0, 1.0), ("lower", 2, -1.0)):
        _, in_q, in_eps = kl_inverse([0.0, 0.3, 1.0], 0.0, side, gradient=True)
        observe.equal("P-06", in_q, 1.0)
        observe.holds("P-07", in_eps[start] == sign and in_eps[1] == sign * np.inf and in_eps[2 - start] == 0.0, 3)
        observe.equal("P-06", np.abs(kl_inverse([0.0, 0.3, 1.0], np.inf, side, gradient=True)[1:]), 0.0)
