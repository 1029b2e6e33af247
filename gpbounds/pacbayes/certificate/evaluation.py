"""R_S(Q) and KL(Q‖P) from data, each with a bound on its rounding error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpbounds import divergences
from gpbounds.arrays import EPS, Float
from gpbounds.divergences.collapsed import CollapsedLaw, CollapsedSums
from gpbounds.divergences.measured import measured
from gpbounds.divergences.sparse import free_at, whitened_at
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.losses import Loss
from gpbounds.pacbayes.certificate.posteriors import Exact, Free, Posterior, Sparse, Whitened
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.whitening import Inducing, inducing, with_jitter

LEAST = 1e-300
"""Least variance of f and of the noise."""


@dataclass(frozen=True)
class Enclosed:
    """R_S and KL, each at most its value plus its error, and the jitter of Q.

    In doubles each is also at least its value less its error.  In 30 digits the value is a proved upper end, and the
    error covers what differs on other machines.
    """

    risk: float
    risk_error: float
    kl: float
    kl_error: float
    jitter: float = 0.0
    digits: Literal[16, 30] = 16


def enclose(posterior: Posterior, kernel: Kernel, X: Float, y: Float, loss: Loss) -> Enclosed:
    """R_S(Q) = (1/N) Σ E ℓ(y_i, f_i), f_i ~ Q(f(x_i)) without noise, and KL(Q‖P), P = GP(0, ``kernel``)."""
    with one_blas_thread():
        q, at_data = _build(posterior, kernel, X, y)
        losses, allowances = sums_of_losses(at_data, y, loss)
        return enclosed(q, losses, allowances, y.size)


def sums_of_losses(at_data: divergences.Prediction, y: Float, loss: Loss) -> tuple[float, float]:
    """The sums of the expected losses and of their allowances, each rounded once."""
    expected = loss.expectation(y, at_data.mean, at_data.variance)
    allowed = loss.allowance(y, at_data.mean, at_data.variance, at_data.mean_error, at_data.variance_error)
    return math.fsum(expected), math.fsum(allowed)


def enclosed(q: Any, losses: float, allowances: float, N: int) -> Enclosed:
    """R_S and KL of Q, with ``kl`` and ``kl_rounding``, from the sums over all N rows.

    Each quotient is rounded once, and each sum once, or twice if it is one of sums over partitions.
    """
    kl, kl_error = float(q.kl), float(q.kl_rounding)
    kl_error = math.inf if math.isnan(kl_error) or math.isnan(kl) else kl_error
    return Enclosed(losses / N, allowances / N + 4.0 * EPS, kl, kl_error, float(getattr(q, "jitter", 0.0)))


def _build(posterior: Posterior, kernel: Kernel, X: Float, y: Float) -> tuple[Any, divergences.Prediction]:
    """Q, with ``kl`` and ``kl_rounding``, and its latent predictions at the data."""
    error = entry_error(posterior, kernel, np.abs(X).max(axis=0))
    if isinstance(posterior, Exact):
        full = divergences.full_posterior(kernel, X, y, noise=posterior.noise, entry_error=error)
        return full, full.predict()
    if isinstance(posterior, Sparse):
        law, Z = CollapsedLaw(posterior.noise, posterior.power, error), posterior.Z

        def attempt(amount: float) -> tuple[Inducing, CollapsedSums]:
            whitener = measured(inducing(kernel, Z, amount), error)
            return whitener, law.sums(whitener, X, y)

        q = law.posterior(*with_jitter(attempt, kernel, Z, posterior.jitter))
    else:
        q = from_record(posterior, kernel, error)
    return q, q.predict(X)


def entry_error(posterior: Posterior, kernel: Kernel, reach: Float) -> float:
    """`value_error` in the box that holds the rows, |x_d| ≤ reach_d, and the inducing points; numbers within range.

    Raises
    ------
    ValueError
        for a variance or a noise variance below 1e-300, where doubles lose relative accuracy.
    """
    noise = getattr(posterior, "noise", LEAST)
    for name, size in (
        ("kernel: expected a variance", kernel.max_variance),
        ("noise: expected a noise variance", noise),
    ):
        if not size >= LEAST:
            raise ValueError(
                f"{name} of at least {LEAST:g}, below which doubles have fewer digits, got {size!r}: scale the targets"
            )
    return value_error(kernel, reach_with(posterior, reach))


def reach_with(posterior: Posterior, reach: Float) -> Float:
    """The largest |x_d| among the rows, which is ``reach`` (D,), and the inducing points of ``posterior``."""
    Z = getattr(posterior, "Z", None)
    if Z is None:
        return reach
    if Z.shape[1] != reach.size:
        raise ValueError(f"Z: expected {reach.size} columns, as the inputs have, got {Z.shape[1]}")
    return np.maximum(reach, np.abs(Z).max(axis=0))


def from_record(posterior: Posterior, kernel: Kernel, error: float) -> divergences.SparsePosterior:
    """A Q that does not depend on the data; ``error`` bounds that of the kernel's values."""
    if isinstance(posterior, Free | Whitened):
        points = measured(inducing(kernel, posterior.Z, posterior.jitter), error)
        if isinstance(posterior, Free):
            return free_at(points, posterior.mean, posterior.cov, None, error)
        return whitened_at(points, posterior.mean, posterior.factor, None, error)
    raise ValueError(f"posterior: expected Exact, Sparse, Free or Whitened, got {type(posterior).__name__}")
