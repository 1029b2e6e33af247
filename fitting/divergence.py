"""How far a trained low-rank GP is from the exact one with the same hyperparameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fitting.features import Composed, FeatureKernel, FourierMap, HilbertMap, MercerMap, MixedMap
from fitting.features.base import KernelMap
from fitting.features.hilbert_space import EXTENT, Extent
from fitting.features.transform import Projected, kernel_map
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Gaussian
from gpbounds.kernels import Kernel, RationalQuadratic
from gpbounds.lowrank import MercerFeatures, fourier_kl, hilbert_kl, kl_features, mercer_kl, residual_certificate
from gpbounds.rows import Source
from gpbounds.rows.engines import Engine, Memory
from gpbounds.rows.program import Program, Rows, Statistics

LARGEST = 5000
"""Largest number of rows for which the exact divergence is computed."""

LINES = 1e-12
"""Relative error of the weights of lines, e^{−κ}I_j(κ)."""

FITTED = "Kernel, noise and input law are fixed before the data; a fit that has seen these data does not satisfy this."
_TRANSFORMED = "The map z = g(x) was fitted to the data; the bound is one for a z that is given."


@dataclass(frozen=True, eq=False)
class LowRankKL:
    """KL(N(0, K + σ²I)‖N(0, ΞΞᵀ + σ²I)) in nats, bounded and computed; K is the kernel's matrix at the training inputs.

    Both laws have the same hyperparameters and the same projection or network: an exact GP that was trained by itself
    is another law.

    Attributes
    ----------
    prior : Bound or None
        The a-priori bound: `gpbounds.lowrank.fourier_kl` for frequencies from the spectral density (Theorem 2, N-rff,
        L-29), `mercer_kl` for the largest eigenvalues without projection (Theorem 3, L-43), otherwise None.  NOT proved
        once hyperparameters were fitted to these data: its frequencies (or inputs) must be drawn independently of the
        kernel and the noise.  It holds for hyperparameters that were fixed in advance (``optimizer=None``), and for
        Mercer features if also the inputs have the normal law of the features; its mean and variance, which a model
        takes from the inputs, count as fixed.  Among the other kernels of Fourier features, L-29 covers the rational
        quadratic alone.  For Hilbert-space features it is `hilbert_kl` (N-hilbert-kl), which is proved for every
        kernel, noise and projection, fitted or not, if the rows are in the box.
    exact : float or None
        The divergence itself, by `gpbounds.lowrank.kl_features`, up to 5000 rows.  It remains true after any training.
    residual : Bound or None
        `gpbounds.lowrank.residual_certificate` (L-54, L-09), for Mercer features and the lines of periodic kernels
        (N-line): K − ΞΞᵀ is positive semi-definite for every kernel and every projection, so that this bound remains
        true after any training, projection included.
    reason : str
        Why there is no a-priori bound, in one sentence; empty where there is one.
    """

    prior: Bound | None
    exact: float | None
    residual: Bound | None
    reason: str = ""


def low_rank_kl(kernel: FeatureKernel, X: Float | Source, *, noise: float, delta: float = 0.05) -> LowRankKL:
    """The divergence of features of a kernel at the rows X (N, D), bounded and computed.

    Parameters
    ----------
    kernel : FeatureKernel
        Fourier, Mercer or Hilbert-space features, with or without a projection.
    X : array (N, D), or Source
        Of rows that are read by partitions only the inputs count; there is one pass over them for ``residual``,
        or for the box.
    noise : float
        σ².
    delta : float
        Probability with which the a-priori bound may fail.

    >>> from gpbounds import SquaredExponential
    >>> features = MercerMap.chosen(SquaredExponential(), 12, "best", np.zeros(1), np.ones(1))
    >>> X = np.linspace(-2.0, 2.0, 50)[:, None]
    >>> found = low_rank_kl(FeatureKernel(features, features.kernel.log_parameters), X, noise=0.1)
    >>> bool(found.exact < found.residual < found.prior)
    True
    """
    outer, inner = kernel.features, kernel_map(kernel.features)
    approximated = inner.kernel_at(kernel.parameters)
    N, prior, residual, exact = (X.N if isinstance(X, Source) else len(X)), None, None, None
    engine: Engine = X.holder if isinstance(X, Source) else Memory([Rows(X, X[:, :0], 0)])
    if isinstance(inner, FourierMap) and np.ptp(inner.weights) == 0.0:
        m = len(inner.weights)
        prior = fourier_kl(approximated, N, m, noise=noise, delta=delta, features="classical")
    if isinstance(inner, MixedMap):
        if isinstance(approximated, RationalQuadratic):
            prior = fourier_kl(approximated, N, inner.rank // 2, noise=noise, delta=delta, features="classical")
        if inner.line_spectrum:
            k = float(approximated.diag(np.zeros((1, inner.dim)))[0])
            left_out = max(k - math.fsum(inner.at(kernel.parameters).amplitudes ** 2), 0.0)
            residual = residual_certificate(N * left_out, noise=noise, rounding=LINES * N * k)
    if isinstance(inner, MercerMap):
        law = Gaussian(std=inner.stds)
        features = _eigenfunctions(inner, approximated)
        kept = sorted(map(tuple, inner.degrees.tolist()))
        if outer is inner and sorted(map(tuple, features.degrees.tolist())) == kept:
            prior = mercer_kl(approximated, N, inner.rank, inputs=law, noise=noise, delta=delta)
        left = engine.run(_residual_pass(kernel))
        residual = residual_certificate(left.trace, noise=noise, rounding=left.allowance)
    if N <= LARGEST:
        points = X.rows(np.arange(N))[0] if isinstance(X, Source) else X
        K, Xi = approximated(_inputs(kernel, points)), kernel.features(kernel.parameters, points)
        exact = kl_features(K, Xi, noise=noise)
    if isinstance(inner, HilbertMap):
        return _of_box(kernel, inner, engine, LowRankKL(None, exact, None), N, noise)
    if prior is not None:
        more = [FITTED, _TRANSFORMED] if isinstance(outer, Composed) else [FITTED]
        prior = replace(prior, assumptions=(*prior.assumptions, *more))
    return LowRankKL(prior, exact, residual, "" if prior is not None else _reason(inner))


def _of_box(
    kernel: FeatureKernel, inner: HilbertMap, engine: Engine, known: LowRankKL, N: int, noise: float
) -> LowRankKL:
    """``known`` with the bound for any rows in the box, if these are in it."""
    outer = kernel.features
    program = EXTENT.after(Projected(outer.transform, kernel.weights)) if isinstance(outer, Composed) else EXTENT
    if not inner.box.contains(Extent.over(engine, program)):
        return replace(known, reason="N-hilbert-kl is about rows in the box, not for these, of which some are outside.")
    try:
        approximated: Any = inner.kernel_at(kernel.parameters)
        prior = hilbert_kl(approximated, N, inner.m, inner.c, half_width=inner.half_width, noise=noise)
    except ValueError as error:
        return replace(known, reason=f"N-hilbert-kl does not hold here: {error}.")
    return replace(known, prior=prior)


def _reason(inner: KernelMap) -> str:
    """Why no theorem here bounds the divergence before the data are seen."""
    if isinstance(inner, MercerMap):
        return (
            "Theorem 3 is about the largest eigenvalues of the kernel itself, not of a projection or in another order."
        )
    if isinstance(inner, FourierMap):
        return "Theorem 2 is about frequencies that are drawn for this kernel and noise, not for those of the start."
    if isinstance(inner, MixedMap) and inner.line_spectrum:
        return "The lines of a spectrum are not random: `residual` bounds what they leave out."
    return "L-29 is about frequencies with equal weights from the density of one kernel, not of a sum or product."


@dataclass(frozen=True, eq=False)
class Residual(Statistics):
    """Tr(K − ΞΞᵀ) over some rows, and a bound on its rounding error."""

    trace: float
    allowance: float


def _residual_pass(kernel: FeatureKernel) -> Program:
    """The program that sums the diagonal of K − ΞΞᵀ, for Mercer features."""
    return Program.one_pass(partial(_residual, kernel), begin=partial(_kept_eigenfunctions, kernel))


def _kept_eigenfunctions(kernel: FeatureKernel) -> MercerFeatures:
    inner = kernel_map(kernel.features)
    assert isinstance(inner, MercerMap)
    features = _eigenfunctions(inner, inner.kernel_at(kernel.parameters))
    features.degrees = inner.degrees
    return features.fit(np.zeros((1, len(inner.stds))))


def _residual(kernel: FeatureKernel, features: MercerFeatures, rows: Rows) -> Residual:
    """The sums of one partition; each entry is known to a relative 1e-11."""
    left = features.residual_diagonal(_inputs(kernel, rows.points))
    return Residual(float(left.sum()), 1e-11 * float(left.max()) * len(left))


def _eigenfunctions(inner: MercerMap, kernel: Kernel) -> MercerFeatures:
    """The features of the largest eigenvalues at ``kernel``, under the input law of ``inner``."""
    law = Gaussian(std=inner.stds)
    return MercerFeatures(kernel, inner.rank, inputs=law, order="best", mean=inner.mean)  # type: ignore[arg-type]


def _inputs(kernel: FeatureKernel, X: Float) -> Float:
    """X as the approximated kernel takes it: transformed by the model's projection or network, if there is one."""
    outer = kernel.features
    return outer.transform.project(kernel.weights, X) if isinstance(outer, Composed) else X
