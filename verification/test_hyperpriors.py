"""P-40, P-41, P-43: mixtures of priors, and the uniform prior on a grid."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import pacbayes

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.claim("P-40", "P-41")
@given(seed=SEEDS, size=st.integers(2, 6), priors=st.integers(1, 5))
def test_mixture_of_priors(observe: Observer, seed: int, size: int, priors: int) -> None:
    """Laws on a few points: KL(Q‖Σp_θP^θ) below the soft minimum, and that below both bounds of the paper."""
    rng = np.random.default_rng(seed)
    Q, laws, p = (
        rng.dirichlet(np.full(size, 0.5)),
        rng.dirichlet(np.full(size, 0.5), priors),
        rng.dirichlet(np.ones(priors)),
    )
    Q, laws = np.maximum(Q, 1e-12), np.maximum(laws, 1e-12)
    Q, laws = Q / Q.sum(), laws / laws.sum(axis=1, keepdims=True)
    each = (Q * np.log(Q / laws)).sum(axis=1)
    mixed = float((Q * np.log(Q / (p @ laws))).sum())
    soft = float(pacbayes.mixture_kl(np.maximum(each, 0.0), -np.log(p)))
    observe.upper("P-41", mixed, soft, tol=1e-9)
    observe.upper("P-40", mixed, each - np.log(p), tol=1e-9)
    observe.upper("P-41", soft, (each - np.log(p)).min(), tol=1e-9)
    observe.upper("P-41", soft, float(p @ each), tol=1e-9)


@pytest.mark.claim("P-40", "P-41")
def test_mixture_at_the_ends(observe: Observer) -> None:
    half = np.log(2.0)
    observe.equal("P-41", pacbayes.mixture_kl([3.0, 3.0], half), 3.0, rtol=1e-15)  # the same prior twice
    observe.equal("P-41", pacbayes.mixture_kl([3.0, np.inf], half), 3.0 + half, rtol=1e-15)  # P-40 is equality
    observe.holds("P-41", pacbayes.mixture_kl([np.inf, np.inf], half) == np.inf)
    observe.equal("P-41", pacbayes.mixture_kl([1e4, 1e4 + 1], half), 1e4 - np.log((1 + np.exp(-1.0)) / 2), rtol=1e-15)
    # disjoint supports: Q on the first law alone
    observe.equal("P-40", float(np.log(1.0 / (0.5 * 1.0))), pacbayes.mixture_kl([0.0, np.inf], half), rtol=1e-15)


@pytest.mark.claim("P-43")
def test_uniform_grid(observe: Observer) -> None:
    for G1, T in ((1201, 1), (1201, 2), (3, 14), (1, 5)):
        penalty = float(pacbayes.grid_penalty(G1, T))
        observe.equal("P-43", penalty, T * mp.log(G1), rtol=1e-15)
        proved = mp.mpf(float(pacbayes.grid_penalty(G1, T, rigor="sharp")))
        observe.upper("P-43", T * mp.log(G1), proved)
        observe.equal("P-43", proved, T * mp.log(G1), rtol=2.0**-51)
        if T * np.log(G1) < 12:
            weights = np.full(G1**T, np.exp(-penalty))
            observe.equal("P-43", weights.sum(), 1.0, rtol=1e-9)
    observe.equal("P-43", [round(float(pacbayes.grid_penalty(1201, T)), 4) for T in (1, 2)], [7.0909, 14.1818])
    observe.equal("P-43", round(4 * float(pacbayes.grid_penalty(17, 1)), 2), 11.33)
    observe.fails("P-43", np.log(1 / 1201) == np.log(1201), "ln(1/|Θ|) = −ln|Θ|: at |Θ| = 1201 it is −7.09, not 7.09")
