"""The KL divergence that a spectral approximation implies: κ, its inverse, and the bound Nκ(Δ) (L-25)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, kind_of_caller, namespace
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.psd import finite_matrix
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.sandwich import roots
from gpbounds.validation import choice, non_negative, whole

KL = "KL(N(0, K + σ²I)‖N(0, Sigma + σ²I))"
_BELOW_ONE = 1.0 - 2.0**-53


@kind_of_caller
def kappa(Delta: ArrayLike) -> Float:
    """κ(Δ) = ½[Δ/(1 − Δ) + log(1 − Δ)], the KL divergence per datum of a Δ-spectral approximation, in nats.

    Claim L-25.  κ(Δ) ~ Δ²/4 for small Δ, Δ²/4 ≤ κ(Δ) ≤ 0.6138 Δ² on (0, ½]; accurate to a few ulp for every Δ in
    [0, 1): with e = Δ/(1 − Δ), κ = ½[e − log(1 + e)].

    Parameters
    ----------
    Delta : array
        Δ in [0, 1).

    Raises
    ------
    ValueError
        for Δ outside [0, 1).

    >>> float(kappa(0.5)), float(kappa(1e-9))
    (0.15342640972002736, 2.500000003333333e-19)
    """
    checked = non_negative("Delta", Delta)
    if (checked >= 1.0).any():
        raise ValueError(f"Delta: expected numbers in [0, 1), got {checked.max()}")
    return 0.5 * log1p_residual(checked / (1.0 - checked))


@kind_of_caller
def kappa_inverse(divergence: ArrayLike) -> Float:
    """The Δ in [0, 1) with κ(Δ) = ε: a Δ-spectral approximation then has KL ≤ εN.

    Claim L-25.  Δ ~ 2√ε for small ε; accurate to a few ulp for every ε ≥ 1e-300.  If Δ rounds to 1 (ε > 1e15), the
    result is the largest double below 1, so that κ(Δ) stays finite and at most ε.  With t = 1/(1 − Δ), κ = ½[t − 1 −
    log t]: t is an upper root of Prop. 4, :func:`gpbounds.sandwich.roots`.

    Parameters
    ----------
    divergence : array
        ε ≥ 0, in nats per datum.

    Raises
    ------
    ValueError
        for ε < 0, NaN or infinity.

    >>> float(kappa_inverse(0.01)), float(kappa_inverse(1e-30))
    (0.17597112495123335, 1.9999999999999974e-15)
    """
    above = np.asarray(roots(np.minimum(non_negative("divergence", divergence), 1e30), minus_one=True)[1])
    return np.minimum(above / (1.0 + above), _BELOW_ONE)


def spectral_kl(Delta: ArrayLike, N: ArrayLike, *, form: Literal["sharpest", "printed"] = "sharpest") -> Bound:
    """Upper bound on the KL divergence that a Δ-spectral approximation implies: KL ≤ Nκ(Δ).

    (1 − Δ)(K + σ²I) ⪯ Sigma + σ²I ⪯ (1 + Δ)(K + σ²I),  0 ≤ Δ < 1.  KL is KL(exact‖approximate) (L-11).

    Claim L-25 (Daskalakis et al., proof of Thm 2); equality for Sigma + σ²I = (1 − Δ)(K + σ²I).
    ``form="printed"`` is KL ≤ 2ΔN, for Δ ≤ ½; it is true, and larger by a factor 8/Δ for small Δ.

    Parameters
    ----------
    Delta : array
        In [0, 1); at most ½ for the printed form.
    N : whole number or array, ≥ 1
        Broadcasts with Delta.

    Raises
    ------
    ValueError
        for arguments out of range.

    >>> float(spectral_kl(0.1, 1000)), float(spectral_kl(0.1, 1000, form="printed"))
    (2.875297726642405, 200.0)
    """
    size = whole("N", N)
    per_datum = kappa(Delta)
    assumption = "(1 - Δ)(K + σ²I) ⪯ Sigma + σ²I ⪯ (1 + Δ)(K + σ²I)."
    if choice("form", form, ("sharpest", "printed")) == "printed":
        if (np.asarray(Delta) > 0.5).any():
            raise ValueError(f"Delta: expected at most 1/2 for the printed form, got {np.max(Delta)}")
        per_datum = 2.0 * np.asarray(Delta, dtype=np.float64)
    value = size * per_datum
    return Bound(value[()], "upper", 1.0, "L-25", {"per datum": per_datum}, (assumption,), quantity=KL)


# The law N(0, A + σ²I): argument checks and its Cholesky factor.

LOST = 8.0
"""A pivot has no correct digit if it is below this multiple of eps times the diagonal entry of its row."""


def as_features(features: ArrayLike, N: int) -> Array:
    """Ξ as a finite float64 matrix of N rows."""
    factor = finite_matrix("features", features, "shape (N, r) with r >= 1")
    if factor.shape[0] != N:
        raise ValueError(f"features: expected {N} rows, as K has, got shape {factor.shape}")
    return factor


def shifted(A: Array, amount: float) -> Array:
    """A + amount·I, a new matrix."""
    result = A.copy()
    diagonal(result)[...] += amount
    return result


def diagonal(A: Array) -> Array:
    """The diagonal of a square row-major matrix, as a writable view."""
    return A.reshape(-1)[:: A.shape[0] + 1]


def noisy_factor(name: str, A: Array, noise: float) -> Cholesky:
    """The Cholesky factor of A + σ²I; an error if σ² is below the rounding error of A's entries.

    In exact arithmetic every pivot is at least σ²; its rounding error is about eps times its diagonal entry.

    Raises
    ------
    NotPositiveDefinite
        if A + σ²I does not factorise, or if a pivot has no correct digit.
    """
    xp = namespace(A)
    noisy = shifted(A, noise)
    entries = diagonal(noisy).copy()
    factor = cholesky(noisy, name=f"{name} + noise I")
    pivots = xp.diagonal(factor.L) ** 2
    if bool((pivots < LOST * EPS * entries).any()):
        raise NotPositiveDefinite(
            f"{name}, noise: expected noise well above the rounding error of the entries of {name}, up to "
            f"{float(entries.max()) * EPS:.3g}, got {noise:.3g}: rounding changes every digit of this law"
        )
    return factor
