"""Conditional variances below the rounding of k(x, x) − q(x, x): N-small, against mpmath."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from fitting import ExactGP, SparseGP
from gpbounds import renyi
from gpbounds.errors import NotPositiveDefinite, RoundingWarning
from gpbounds.exact import Exact, exact
from gpbounds.iterative import solves
from gpbounds.kernels import Constant, Kernel, Linear, Periodic, Polynomial, RationalQuadratic, SquaredExponential

KERNELS: dict[str, tuple[Kernel, Any]] = {
    "se": (SquaredExponential(), lambda a, b: mp.exp(-((a - b) ** 2) / 2)),
    "rq": (RationalQuadratic(1.0, 1.0, 1.0), lambda a, b: 1 / (1 + (a - b) ** 2 / 2)),
    "periodic": (Periodic(1.0, 1.0, 1.0), lambda a, b: mp.exp(-2 * mp.sin(mp.pi * (a - b)) ** 2)),
    "linear": (Linear(2.0) + Constant(0.5), lambda a, b: 2 * a * b + mp.mpf(0.5)),
    "cubic": (Polynomial(3, 1.0, 0.5), lambda a, b: (a * b + mp.mpf(0.5)) ** 3),
}


def _truth(name: str, X: np.ndarray, new: np.ndarray, noise: float) -> list[Any]:
    """k(x, x) − kᵀ(K + σ²I)⁻¹k in 70 digits."""
    k = KERNELS[name][1]
    with mp.workdps(70):
        rows, points = ([mp.mpf(float(x)) for x in part[:, 0]] for part in (X, new))
        A = mp.matrix(
            [[k(a, b) + (mp.mpf(noise) if i == j else 0) for j, b in enumerate(rows)] for i, a in enumerate(rows)]
        )
        inverse, found = A**-1, []
        for x in points:
            cross = mp.matrix([k(x, a) for a in rows])
            found.append(k(x, x) - (cross.T * inverse * cross)[0])
        return found


def _given(name: str, noise: float, seed: int = 0, N: int = 14) -> tuple[Exact, np.ndarray, list[Any]]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (N, 1))
    new = np.concatenate([X[:3], rng.uniform(-2.0, 2.0, (3, 1))])
    return exact(KERNELS[name][0], X, X.copy(), noise=noise), new, _truth(name, X, new, noise)


@pytest.mark.claim("N-small")
@given(name=st.sampled_from(sorted(KERNELS)), exponent=st.floats(-15.0, -1.0), seed=st.integers(0, 10**6))
def test_variances_are_right_or_upper_ends_with_a_warning(
    observe: Observer, name: str, exponent: float, seed: int
) -> None:
    """At any noise that factorises: within 2 %, or not below the truth; the covariance's diagonal, too."""
    try:
        model, new, truth = _given(name, 10.0**exponent, seed)
    except NotPositiveDefinite:
        return
    for full in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            spread = model.predict(new, full_cov=full)[1]
        variance = spread.diagonal() if full else spread
        observe.upper("N-small", [t * mp.mpf(0.98) for t in truth], variance)
        if not caught:
            observe.equal("N-small", variance, truth, rtol=0.02)


@pytest.mark.claim("N-small")
@given(name=st.sampled_from(sorted(KERNELS)), exponent=st.floats(-13.0, 0.0), seed=st.integers(0, 10**6))
def test_the_upper_end_and_its_two_errors(observe: Observer, name: str, exponent: float, seed: int) -> None:
    try:
        model, new, truth = _given(name, 10.0**exponent, seed)
    except NotPositiveDefinite:
        return
    half = model.chol.solve_lower(model.triangle.kernel(model.triangle.X, new))
    upper, rounding, above = model.given.upper_end(new, half, full=False)
    observe.upper("N-small", truth, upper)
    observe.lower("N-small", truth, upper - rounding - above)
    cover = model.given.upper_end(new, half, full=True)[0]
    observe.upper("N-small", truth, cover.diagonal())


@pytest.mark.claim("N-small")
@pytest.mark.parametrize(("name", "noise"), [("linear", 1e-14), ("cubic", 1e-13), ("se", 1e-14), ("rq", 1e-13)])
def test_lost_variances_are_computed_anew(observe: Observer, name: str, noise: float) -> None:
    """To 1e-6 by features or in 30 digits, without a warning, where the plain difference is wrong by more than 1e-4."""
    model, new, truth = _given(name, noise)
    half = model.chol.solve_lower(model.triangle.kernel(model.triangle.X, new))
    plain = model.triangle.kernel.diag(new) - (half * half).sum(axis=0)
    assert max(abs(float(p / t) - 1.0) for p, t in zip(plain, truth, strict=True)) > 1e-4
    variance = model.predict(new)[1]
    observe.equal("N-small", variance, truth, rtol=1e-6)
    observe.equal("N-small", model.predict(new, full_cov=True)[1].diagonal(), truth, rtol=1e-6)


def _renyi(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    return renyi.predict(kernel, X, X[:, 0], X[:2], X, 0.9, noise=1e-13)[1]


def _iterative(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    model = ExactGP(kernel, 1e-12, solver="iterative", optimizer=None, start="scale").fit(X, X[:, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solves, "SOLVES", 0)  # by conjugate gradients: a factor of so few rows is accurate, by features
        return model.predict(X, return_std=True)[1] ** 2


def _sparse(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    model = SparseGP(kernel=kernel, noise=1e-14, n_inducing=5, optimizer=None, start="scale", random_state=0)
    return model.fit(X, X[:, 0]).predict(X, return_std=True)[1] ** 2


@pytest.mark.claim("N-small")
@pytest.mark.parametrize(
    ("predict", "name", "N", "noise"),
    [(_sparse, "se", 5, 1e-14), (_renyi, "linear", 14, 1e-13), (_iterative, "linear", 14, 1e-12)],
)
def test_other_models_return_upper_ends_with_a_warning(
    observe: Observer, predict: Any, name: str, N: int, noise: float
) -> None:
    """At noise near the rounding error of K, with as many inducing points as rows or rank: the law is the exact one."""
    X = np.linspace(-1.5, 1.5, N)[:, None]
    with pytest.warns(RoundingWarning, match="upper ends are returned"):
        variance = predict(KERNELS[name][0], X)
    observe.holds("N-small", (variance > 0.0).all())
    observe.upper("N-small", [t * mp.mpf(0.98) for t in _truth(name, X, X, noise)], variance)
