"""Several draws with ``rigor="sharp"`` against the theorems for the exact K, to 100 digits (N-antitone)."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Empirical, Matern, SquaredExponential, inducing_points, rate
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.rates.draws import pairs
from gpbounds.rates.draws.pairs import GradedRows
from gpbounds.reference import kdpp as reference_kdpp
from gpbounds.reference import rates as reference
from gpbounds.reference import spectra as reference_kernels

seeds = st.integers(0, 2**32 - 1)
DIGITS = 100


def drawn(seed: int) -> tuple[Kernel, np.ndarray, np.ndarray, float, int]:
    rng = np.random.default_rng(seed)
    N, D = int(rng.integers(3, 9)), int(rng.integers(1, 3))
    X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-1.5, 0.5)
    if seed % 3 == 0:
        X[-1] = X[0]
    scale, v = 10.0 ** rng.uniform(-0.5, 1.0), 10.0 ** rng.choice([0.0, 200.0, -201.0])
    kernels: list[Kernel] = [
        SquaredExponential(v, scale),
        Matern(1.5, v, scale),
        SquaredExponential(v, scale) + Matern(0.5, 1e-9 * v, scale),
    ]
    Y = np.sqrt(v) * (np.sin(X[:, :1]) + 10.0 ** rng.uniform(-9.0, 0.0) * rng.standard_normal((N, 1 + seed % 2)))
    return kernels[int(rng.integers(3))], X, Y, float(v * 10.0 ** rng.uniform(-14.0, 0.0)), int(rng.integers(1, N - 1))


def eigen(kernel: Kernel, X: np.ndarray) -> tuple[list[Any], Any]:
    """Eigenvalues, those below 1e-80 of the variance 0, and eigenvectors of the exact K."""
    top = mp.mpf(kernel.max_variance)
    values, vectors = mp.eigsy(reference_kernels.gram(kernel_to_plain(kernel), X.tolist()) / top)
    return [top * value if value > mp.mpf(10) ** -80 else mp.mpf(0) for value in values], vectors


def squares(vectors: Any, Y: np.ndarray) -> list[Any]:
    """(Vᵀy)_i², summed over the outputs."""
    return [mp.fsum((vectors[:, i].T * mp.matrix(y.tolist()))[0] ** 2 for y in Y.T) for i in range(vectors.cols)]


def form(values: list[Any], parts: list[Any], M: int, noise: Any) -> Any:
    """q̄."""
    missed = reference_kdpp.miss(values, M)
    return mp.fsum(m * v * c / (v + noise) ** 2 for m, v, c in zip(missed, values, parts, strict=True))


@pytest.mark.claim("N-antitone")
@given(seed=seeds, worse=st.sampled_from([0.0, 0.0, 1e-9, 1e-4]))
def test_the_mean_form_given_y_is_bounded(observe: Observer, seed: int, worse: float) -> None:
    """q̄ of K with eigenvalues down to 1e-30, at most by a small factor, or by what 30 digits leave; solutions of
    K_n v = y that are off by a share ``worse`` make the bound larger."""
    kernel, X, Y, noise, M = drawn(seed)
    rng, add = np.random.default_rng(seed), pairs.add

    def off(a: Any, b: Any) -> Any:
        high, low = add(a, b)
        return high * (1.0 + worse * rng.standard_normal(high.shape)), low

    rows = GradedRows(kernel, X, Y)
    M = min(M, rows.largest)
    with pytest.MonkeyPatch.context() as patch:
        if worse:
            patch.setattr(pairs, "add", off)
        bound = rows.quadratic(rows.residual(M, noise))
    with mp.workdps(DIGITS):
        values, vectors = eigen(kernel, X)
        if sum(value > 0 for value in values) < M:
            return
        truth = form(values, squares(vectors, Y), M, mp.mpf(noise))
        observe.upper("N-antitone", truth, mp.mpf(bound))
        if not worse:
            norm2 = mp.fsum(mp.mpf(float(y)) ** 2 for y in Y.flat)
            left = mp.mpf(10) ** -25 * rows.N * mp.mpf(kernel.max_variance) * norm2 / mp.mpf(noise) ** 2
            assert mp.mpf(bound) <= 2 * (M + 1) * truth + left


@pytest.mark.claim("N-antitone", "N-graded")
@given(seed=seeds)
def test_bounds_of_several_draws_are_above_those_of_the_exact_matrix(observe: Observer, seed: int) -> None:
    """Given y, for a norm fixed before, and from the prior by both laws."""
    kernel, X, Y, noise, M = drawn(seed)
    N, R, alpha = len(X), 1 + seed % 5, [1.0, 0.4][seed % 2]
    M = min(M, len(np.unique(X, axis=0)))
    options: dict[str, Any] = {"inputs": Empirical(X), "noise": noise, "draws": R, "rigor": "sharp"}
    norm2 = float((Y * Y).sum())
    given_y = rate(kernel, N, M, alpha, y=Y[:, :1], law="kdpp", **options)
    before = rate(kernel, N, M, alpha, y_norm2=norm2, y_norm2_known="before", **options)
    prior, tilted = (rate(kernel, N, M, alpha, law=law, **options) for law in ("kdpp", "tilted"))
    with mp.workdps(DIGITS):
        values, vectors = eigen(kernel, X)
        if sum(value > 0 for value in values) < M:
            return
        p = mp.mpf(0.05) ** (mp.mpf(1) / R)
        numbers = M, mp.mpf(noise)
        parts = squares(vectors, Y[:, :1])
        observe.upper("N-antitone", reference.best_given(values, parts, *numbers, alpha, p), mp.mpf(float(given_y)))
        fixed = reference.best_fixed(values, mp.mpf(norm2), *numbers, alpha, p)
        observe.upper("N-graded", fixed, mp.mpf(float(before)))
        exact = reference.tilted_prior(values, *numbers, mp.mpf(0.05), R, alpha)
        observe.upper("N-graded", exact, mp.mpf(float(tilted)))
        if np.isfinite(float(prior)):
            # E ((α/2B)(Q_y + b̄) + αΩ_a)^R ≤ δ(1 − αa)^R for the exact means
            a, c = mp.mpf(float(prior.terms["a"])), mp.mpf(alpha) / (2 * mp.mpf(float(prior)))
            missed, shares = reference_kdpp.miss(values, M), [value / (value + mp.mpf(noise)) for value in values]
            theta = [c * m * h for m, h in zip(missed, shares, strict=True)]
            excess = mp.fsum(t * value for t, value in zip(theta, values, strict=True)) / mp.mpf(noise)
            omega = mp.fsum(m * max(h - a, 0) for m, h in zip(missed, shares, strict=True))
            moment = reference.moment(theta, excess + alpha * omega, R)
            observe.upper("N-graded", moment, mp.mpf(0.05) * (1 - alpha * a) ** R)
    for bound in (given_y, before, prior, tilted):
        assert bound.certified == bool(np.isfinite(float(bound)))


@pytest.mark.claim("N-graded")
@pytest.mark.parametrize("law", ["kdpp", "tilted"])
def test_balls_confirm_a_bound_that_doubles_resolve(observe: Observer, law: str) -> None:
    """8 rows whose K + σ²I is well conditioned: the proved bound from the prior is the one in doubles to 9 digits."""
    X = np.linspace(0.0, 3.0, 8)[:, None]
    options: dict[str, Any] = {"inputs": Empirical(X), "noise": 0.1, "draws": 3, "law": law}
    usual, proved = (
        float(rate(SquaredExponential(), 8, 5, 1.0, rigor=rigor, **options)) for rigor in ("float", "sharp")
    )
    observe.equal("N-graded", proved, usual, rtol=1e-9)


def test_plans_no_longer_stop_at_the_rounding_of_double_precision() -> None:
    """200 rows: the target 1e-8 needs about 30 points, given y, from the prior, and for any y fixed before."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(200)
    norm: dict[str, Any] = {"y_norm2": float(y @ y), "y_norm2_known": "before"}
    for about in ({"y": y}, {}, norm):
        options: dict[str, Any] = {"target": 1e-8, "inputs": Empirical(X), "noise": 0.1, "draws": 10, **about}
        usual, proved = (
            inducing_points(SquaredExponential(1.0, 0.7), 200, 1.0, rigor=rigor, **options)
            for rigor in ("float", "sharp")
        )
        assert proved.M is not None
        assert usual.M is not None
        assert proved.M <= 30
        assert proved.M + 10 < usual.M
        assert proved.bound is not None
        assert proved.bound.certified


@pytest.mark.parametrize("settings", [{"rigor": "sharp"}, {"rigor": "auto"}])
def test_targets_beside_rows_in_single_precision_are_not_rounded(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((12, 1)).astype(np.float32), 1e6 + rng.standard_normal(12)
    single, double = (
        float(rate(Matern(1.5), 12, 6, 1.0, inputs=Empirical(rows), noise=0.1, draws=10, y=y, **settings))
        for rows in (X, X.astype(np.float64))
    )
    assert single == double


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_norm2": 4.0}, "rigor: expected 'float' for any y of a norm that may depend on the draws"),
        ({"simulate": 39}, "rigor: expected 'float' with simulate"),
        ({"inputs": None}, "rigor: expected 'float' with simulate, and with y or draws for inputs to come"),
        ({"rigor": "exact"}, "rigor: expected one of 'auto', 'float', 'sharp'"),
        ({"noise": 1e-300}, "noise: expected σ² within a factor of"),
        ({"y": np.full(5, 1e80)}, "y: expected entries below"),
        ({"kernel": SquaredExponential(1e308)}, "kernel: expected a largest variance below"),
        (
            {"kernel": Matern(0.7)},
            "kernel: expected squared exponential, periodic, constant, linear or polynomial kernels",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed: dict[str, Any], message: str) -> None:
    X = np.linspace(0.0, 1.0, 5)[:, None]
    arguments = {"kernel": SquaredExponential(), "N": 5, "M": 2, "alpha": 1.0, "inputs": Empirical(X), "draws": 3}
    with pytest.raises(ValueError, match=message):
        rate(**(arguments | {"rigor": "sharp"} | changed))
