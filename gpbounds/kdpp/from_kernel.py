"""A k-DPP sample of the data for a kernel: exact, or by a Markov chain whose distance to the k-DPP is proved."""

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
from gpbounds.kernels.base import Kernel
from gpbounds.linalg import eigen
from gpbounds.validation import choice, count, open_unit


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of a k-DPP and how far its law may be from the k-DPP.

    Attributes
    ----------
    indices : array of int64 (M,)
        Row numbers of the inducing points in the data, distinct, increasing.
    tv : float or None
        Proved bound on the total variation between the law it was drawn from and the k-DPP, in exact arithmetic: what
        the theorems take as ``tv``.  0 for an exact sample; None where the bound is 1 or more: nothing is proved, and
        ``rate(..., tv=None)`` refuses.
    rounding : float
        What rounding may add to it.  "exact": :func:`~gpbounds.kdpp.rounding_tv` at N·eps·λ_max.  "mcmc": the steps
        times the largest change that a new factorisation made to the law of a step, seen and not proved.
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
    """M inducing points among the data drawn by the k-DPP of the kernel, P(Z) ∝ |K_ZZ|, or close to it.

    exact   K is formed and decomposed: O(N³) time, O(N²) memory; tv = 0.
    mcmc    the down-up walk from the greedy set Z₀: drop a point uniformly, draw its successor by conditional variance;
            tv ≤ √(½ (1 − 1/M)^steps log(1/P(Z₀)))  (Cryan, Guo & Mousa, 2021, and Pinsker), with P(Z₀) bounded below by
            |K_Z₀Z₀| / [C(N, M)(Tr K/N)^M].  About M·log(log(1/P(Z₀))/(2tv²)) steps of O(N M) time; O(N M) memory.

    Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F and R-cor1, which says what tv costs.  Where M exceeds the
    numerical rank the k-DPP is undefined and nothing is returned.  "exact" counts eigenvalues of K above N·eps·λ_max;
    "mcmc" counts conditional variances above N·eps·max K_ii, so it may go a little further.  Just below that rank the
    law is decided by the last digits of K: the result's ``rounding`` says how much.

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
        Total variation asked of the chain, in (0, 1).
    max_steps : int
        Most steps of the chain.  Where more would be needed for ``tv``, so many are made, and the result's ``tv`` is
        what they prove: more than was asked for, or None.

    Raises
    ------
    ValueError
        where M exceeds the numerical rank, or an argument is out of range.
    NotConverged
        where rounding moves the law of a draw of the chain by more than 1e-6.

    >>> from gpbounds import SquaredExponential
    >>> X = np.linspace(0.0, 1.0, 30)
    >>> drawn = sample_kernel(SquaredExponential(lengthscale=0.1), X, 4, 0, "mcmc", tv=0.01)
    >>> drawn.indices.size, drawn.steps, round(drawn.tv, 4)
    (4, 39, 0.0087)
    """
    choice("method", method, ("exact", "mcmc"))
    if is_cupy(X):
        raise ValueError("X: expected a NumPy array, got a CuPy array: pass X.get()")
    points: Any = as_points(X).astype(np.float64, copy=False)
    M, most, N = count("M", M, 0), count("max_steps", max_steps, 0), points.shape[0]
    wanted = open_unit("tv", tv)
    if wanted.ndim:
        raise ValueError(f"tv: expected one number in (0, 1), got shape {wanted.shape}")
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    generator = np.random.default_rng(rng)
    if M == 0:
        return Sample(np.empty(0, dtype=np.int64), 0.0, method, 0, 0.0)
    if method == "exact":
        found = eigen(kernel(points), "k(X, X)", vectors=True)
        assert found.vectors is not None
        drawn = sample_eigen(found.values, found.vectors, M, generator)
        return Sample(drawn, 0.0, method, 0, float(rounding_tv(found.values, found.rounding, M)))
    walk = Walk(kernel, points, greedy_start(kernel, points, M))
    rarity = walk.log_rarity()
    steps = min(steps_for(float(wanted), M, rarity), most)
    walk.run(steps, generator)
    proved = tv_after(steps, M, rarity)
    return Sample(np.sort(walk.Z), proved if proved < 1.0 else None, method, steps, min(1.0, steps * walk.drift))
