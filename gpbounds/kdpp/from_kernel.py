"""A k-DPP sample of the data for a kernel: exact, or by a Markov chain with a proved distance to the k-DPP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import as_points, is_cupy
from gpbounds.kdpp.approximations import rounding_tv
from gpbounds.kdpp.mcmc import Walk, greedy_start, steps_for, tv_after
from gpbounds.kdpp.projection import Indices
from gpbounds.kdpp.sampling import sample_eigen
from gpbounds.kernels.base import Kernel, as_kernel
from gpbounds.linalg import eigen
from gpbounds.validation import choice, count, open_unit


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample, and bounds on the distance of its law from the k-DPP.

    Attributes
    ----------
    indices : array of int64 (M,)
        Row numbers of the inducing points in the data, distinct, increasing.
    tv : float or None
        Proved upper bound, in exact arithmetic, on the total variation between the law of the sample and the k-DPP, for
        the argument ``tv`` of the theorems.  0 for an exact sample; None if the bound is 1 or more, so that nothing is
        proved: ``rate(..., tv=None)`` raises an error.
    rounding : float
        The amount that rounding may add to ``tv``.  "exact": :func:`~gpbounds.kdpp.rounding_tv` at N·eps·λ_max.
        "mcmc": the number of steps times the largest change of the law of a step at a new factorisation, which is
        measured, not
        proved.
    method : str
        "exact" or "mcmc".
    steps : int
        Steps of the chain; 0 for an exact sample.
    """

    indices: Indices
    tv: float | None
    method: str
    steps: int
    rounding: float


def sample_kernel(
    kernel: Kernel,
    X: ArrayLike,
    M: int,
    rng: np.random.Generator | int,
    method: str = "exact",
    *,
    tv: float = 0.01,
    max_steps: int = 100_000,
) -> Sample:
    """M inducing points among the data, drawn from the k-DPP of the kernel, P(Z) ∝ |K_ZZ|, or from a law close to it.

    exact   computes and decomposes K: O(N³) time, O(N²) memory; tv = 0.
    mcmc    the down-up walk from the greedy set Z₀: drop a uniform point, draw another ∝ its conditional variance;
            tv ≤ √(½ (1 − 1/M)^steps log(1/P(Z₀)))  (Cryan, Guo & Mousa, 2021, and Pinsker), with P(Z₀) bounded below by
            |K_Z₀Z₀| / [C(N, M)(Tr K/N)^M].  About M·log(log(1/P(Z₀))/(2tv²)) steps of O(N M) time; O(N M) memory.

    Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F, and R-cor1 for the cost of tv in the theorems.  If M exceeds the
    numerical rank the k-DPP is undefined and an error is raised.  For "exact" that rank is the number of eigenvalues
    of K above N·eps·λ_max; for "mcmc" it is the number of conditional variances above N·eps·max K_ii, which may be
    slightly larger.  Just below that rank the law depends on the last digits of K: see the result's ``rounding``.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
        The data's inputs; NumPy.
    M : int
        0 ≤ M ≤ numerical rank.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.
    method : "exact" or "mcmc"
    tv : float
        Total variation that the chain should reach, in (0, 1).
    max_steps : int
        Largest number of steps.  If ``tv`` needs more steps, the chain makes ``max_steps`` of them, and the result's
        ``tv`` is the larger bound that these prove, or None.

    Raises
    ------
    ValueError
        if M exceeds the numerical rank, or an argument is out of range.
    NotConverged
        if rounding changes the law of a draw of the chain by more than 1e-6.

    >>> from gpbounds import SquaredExponential
    >>> X = np.linspace(0.0, 1.0, 30)
    >>> drawn = sample_kernel(SquaredExponential(lengthscale=0.1), X, 4, 0, "mcmc", tv=0.01)
    >>> drawn.indices.size, drawn.steps, round(drawn.tv, 4)
    (4, 39, 0.0087)
    """
    as_kernel(kernel)
    choice("method", method, ("exact", "mcmc"))
    if is_cupy(X):
        raise ValueError("X: expected a NumPy array, got a CuPy array: pass X.get()")
    points: Any = as_points(X).astype(np.float64, copy=False)
    M, limit, N = count("M", M, 0), count("max_steps", max_steps, 0), points.shape[0]
    requested = open_unit("tv", tv)
    if requested.ndim:
        raise ValueError(f"tv: expected one number in (0, 1), got shape {requested.shape}")
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    generator = np.random.default_rng(rng)
    if M == 0:
        return Sample(np.empty(0, dtype=np.int64), 0.0, method, 0, 0.0)
    if method == "exact":
        spectrum = eigen(kernel(points), "k(X, X)", vectors=True)
        assert spectrum.vectors is not None
        drawn = sample_eigen(spectrum.values, spectrum.vectors, M, generator)
        return Sample(drawn, 0.0, method, 0, float(rounding_tv(spectrum.values, spectrum.rounding, M)))
    walk = Walk(kernel, points, greedy_start(kernel, points, M))
    rarity = walk.log_rarity()
    steps = min(steps_for(float(requested), M, rarity), limit)
    walk.run(steps, generator)
    proved = tv_after(steps, M, rarity)
    return Sample(np.sort(walk.Z), proved if proved < 1.0 else None, method, steps, min(1.0, steps * walk.drift))
