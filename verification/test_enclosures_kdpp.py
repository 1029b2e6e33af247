"""k-DPP expectations in balls: they contain the formulas at high precision, and the doubles against them."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import kdpp
from gpbounds.reference import kdpp as reference

SPECTRA = st.builds(
    lambda seed, size, ends, zeros: np.concatenate(
        [10.0 ** np.random.default_rng(seed).uniform(*ends, size), np.zeros(zeros)]
    ),
    st.integers(0, 2**32 - 1),
    st.integers(1, 24),
    st.sampled_from([(0.0, 0.0), (-3.0, 1.0), (-30.0, 5.0), (-250.0, 5.0), (-3.0, 120.0)]),
    st.sampled_from([0, 0, 3]),
)
ONE_ULP = 1 + mp.mpf(2) ** -51
"""The double above a number, and no other, is below so many times the number."""


def rounded_up(observe: Observer, claim: str, truth: Any, value: float) -> None:
    """Not below the truth, and the next double."""
    observe.upper(claim, truth, mp.mpf(value))
    if mp.mpf(10) ** -300 < truth < mp.mpf(10) ** 308:
        observe.upper(claim, mp.mpf(value), truth * ONE_ULP)


@pytest.mark.claim("R-lem3", "N-dpp")
@given(values=SPECTRA, share=st.floats(0.0, 1.0), j=st.integers(0, 4), c=st.floats(-40.0, 40.0).map(lambda e: 10.0**e))
@example(np.ones(5), 1.0, 2, 1.0)
def test_expectations_are_the_doubles_above_them_and_doubles_err_as_stated(
    observe: Observer, values: np.ndarray, share: float, j: int, c: float
) -> None:
    rank = int((values > 0).sum())
    M, N = int(share * rank), values.size + 3
    with mp.workdps(60):
        e = reference.esp(values.tolist(), values.size + 5)
        trace = (M + 1) * e[M + 1] / e[M]
        rounded_up(observe, "R-lem3", trace, kdpp.expected_trace(values, M, rigor="sharp"))
        rounded_up(observe, "N-dpp", (N - M) * trace, kdpp.annealed_trace(values, N, M, rigor="sharp"))
        esp = mp.binomial(M + j, j) * e[M + j] / e[M]
        if esp < mp.mpf(10) ** 308:
            rounded_up(observe, "R-lem3", esp, kdpp.expected_esp(values, M, j, rigor="sharp"))
        terms = [mp.mpf(c) ** k * mp.binomial(M + k, k) * e[M + k] / e[M] for k in range(1, rank - M + 1)]
    with mp.workdps(400):
        determinant = mp.log1p(mp.fsum(terms))
    rounded_up(observe, "R-lem3", determinant, kdpp.log_expected_determinant(values, M, c, rigor="sharp"))
    if trace > mp.mpf(10) ** -290:
        stated = (4 * rank + 16 * M + 40) * mp.mpf(2) ** -53
        observe.equal("R-lem3", mp.mpf(kdpp.expected_trace(values, M)), trace, rtol=stated)


@pytest.mark.claim("N-res")
@given(
    values=SPECTRA,
    share=st.floats(0.0, 1.0),
    noise=st.floats(-12.0, 6.0).map(lambda e: 10.0**e),
    error=st.sampled_from([0.0, 1e-13, 1e-3]),
)
def test_the_mean_residual_is_enclosed(
    observe: Observer, values: np.ndarray, share: float, noise: float, error: float
) -> None:
    """Each number and each function of it is above the one at 80 digits, and as near as one sum of doubles can be."""
    rank = values.size if error else int((values > 0).sum())
    M = int(share * rank)
    proved = kdpp.expected_residual(values, M, noise=noise, rounding=error, rigor="sharp")
    near = kdpp.expected_residual(values, M, noise=noise, rounding=error)
    squares = np.random.default_rng(M).random(values.size)
    with mp.workdps(80):
        some = [bool(error) or v > 0 for v in values]
        high = [mp.mpf(v) + error if s else mp.mpf(0) for v, s in zip(values, some, strict=True)]
        low = [max(mp.mpf(v) - error, mp.mpf(0)) for v in values]
        rho, miss = [], []
        for i in range(values.size):
            e = reference.esp([h for k, h in enumerate(high) if k != i], M)
            whole = e[M] + (high[i] * e[M - 1] if M else 0)
            rho.append(high[i] * e[M] / whole)
            below = e[M] + (low[i] * e[M - 1] if M else 0)
            miss.append(e[M] / below if low[i] > 0 else mp.mpf(1))
        s2 = mp.mpf(noise)
        h = [x / (x + s2) for x in high]
        functions = {
            "trace": mp.fsum(rho),
            "omega": mp.fsum(a * b for a, b in zip(miss, h, strict=True)),
            "excess": mp.fsum(a * b for a, b in zip(rho, h, strict=True)) / s2,
            "greatest_weight": max(a / (b + s2) ** 2 for a, b in zip(rho, low, strict=True)),
        }
        quadratic = mp.fsum(a * mp.mpf(w) / (b + s2) ** 2 for a, b, w in zip(rho, low, squares, strict=True))
        above = mp.fsum(a * max(b - mp.mpf("0.5"), mp.mpf(0)) for a, b in zip(miss, h, strict=True))
    for name, truths in (("rho", rho), ("miss", miss), ("eigenvalues", high)):
        for truth, value in zip(truths, getattr(proved, name), strict=True):
            rounded_up(observe, "N-res", truth, float(value))
    observe.lower("N-res", low, [mp.mpf(float(x)) for x in proved.lowest])
    pairs = [(truth, getattr(proved, name), getattr(near, name)) for name, truth in functions.items()]
    pairs.append((quadratic, proved.quadratic(squares), near.quadratic(squares)))
    observe.upper("N-res", above, mp.mpf(proved.omega_above(0.5)))
    for truth, value, plain in pairs:
        observe.upper("N-res", truth, mp.mpf(float(value)))
        if mp.mpf(10) ** -290 < truth < mp.mpf(10) ** 300:
            observe.upper("N-res", mp.mpf(float(value)), truth * (1 + mp.mpf(2) ** -48))
            if not error:
                observe.upper("N-res", truth, mp.mpf(float(plain)) * (1 + mp.mpf("1e-13")))


@pytest.mark.claim("R-lem3c", "R-lem3c-1")
@given(
    values=SPECTRA,
    share=st.floats(0.0, 1.0),
    alpha=st.one_of(st.floats(1e-9, 1.0), st.sampled_from([0.5, 1.0])),
    noise=st.floats(-12.0, 6.0).map(lambda e: 10.0**e),
    form=st.sampled_from(["sharpest", "sharpest", "printed"]),
)
def test_the_mean_log_determinant_is_bounded_by_doubles_above_its_formulas(
    observe: Observer, values: np.ndarray, share: float, alpha: float, noise: float, form: str
) -> None:
    M = int(share * (values > 0).sum())
    proved = kdpp.expected_logdet_bound(values, M, alpha, form, noise=noise, rigor="sharp")
    near = kdpp.expected_logdet_bound(values, M, alpha, form, noise=noise)
    assert proved.certified
    assert not near.certified
    with mp.workdps(700):
        truth = reference.expected_logdet_bound(values.tolist(), M, mp.mpf(noise), mp.mpf(alpha), rule=form)
    rounded_up(observe, "R-lem3c", truth, float(proved))
    if mp.mpf(10) ** -290 < truth < mp.mpf(10) ** 300:
        observe.equal("R-lem3c-1" if alpha == 1 else "R-lem3c", mp.mpf(float(near)), truth, rtol=mp.mpf("1e-11"))


@pytest.mark.claim("R-lem3", "N-tv", "N-round")
@given(values=SPECTRA, share=st.floats(0.0, 1.0), small=st.floats(-12.0, 0.0).map(lambda e: 10.0**e))
def test_bounds_from_tails_and_on_total_variation_are_rounded_upwards(
    observe: Observer, values: np.ndarray, share: float, small: float
) -> None:
    rank = int((values > 0).sum())
    M = max(1, int(share * rank))
    tails = np.maximum.accumulate(np.append(np.cumsum(np.sort(values))[::-1], 0.0)[::-1])[::-1]
    bound = kdpp.trace_bound(tails, M, rigor="sharp")
    assert bound.certified
    rounded_up(observe, "R-lem3", reference.trace_bound(tails.tolist(), M), float(bound))
    with mp.workdps(700):
        e = reference.esp(values.tolist(), M)
        T = mp.mpf(small)
        rest = mp.fsum(e[M - j] / e[M] * T**j / mp.factorial(j) for j in range(1, M + 1))
        nystrom = kdpp.nystrom_tv(values, small, M, rigor="sharp")
        rounded_up(observe, "N-tv", rest / (1 + rest), float(nystrom))
        rho = small * float(values[values > 0].min())
        low = reference.esp([max(mp.mpf(v) - mp.mpf(rho), mp.mpf(0)) for v in values], M)
        high = reference.esp([mp.mpf(v) + mp.mpf(rho) for v in values], M)
        rounding = kdpp.rounding_tv(values, rho, M, rigor="sharp")
        assert nystrom.certified
        assert rounding.certified
        if (values > rho).sum() >= M:
            kept = reference.esp([mp.mpf(v) if v > rho else mp.mpf(0) for v in values], M)
            truth = min((high[M] - low[M]) / kept[M], mp.mpf(1))
            rounded_up(observe, "N-round", truth, float(rounding))
            observe.upper("N-round", truth, mp.mpf(float(kdpp.rounding_tv(values, rho, M))))
