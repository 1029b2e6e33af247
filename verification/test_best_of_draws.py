"""The failure frequency of ``select(method="best")``: the true divergence of the selected points against its bound.

Greedy and randomly pivoted candidates are left out, as they would hide failures of the draws that carry the proof.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from draw_instances import Remembering
from observer import Observer
from thinning import one_in

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.kdpp import best as several_draws
from gpbounds.kdpp.best import DrawingLaw, DrawsProblem, keep_best
from gpbounds.kernels import Kernel
from gpbounds.renyi.attained import evidence_attained

TIMES = 300


def instance(name: str) -> tuple[Kernel, np.ndarray, np.ndarray, int, float]:
    """Kernel, inputs, targets, M, σ²; "two outcomes" makes Markov's inequality nearly an equality: one point is drawn,
    and D_α is large if it lies outside the cluster of four, and about 0 otherwise.
    """
    rng = np.random.default_rng(7)
    if name == "two outcomes":
        X = np.append(0.02 * np.arange(4.0), 100.0 * np.arange(1.0, 5.0))
        return SquaredExponential(1.0, 1.0), X[:, None], np.repeat([50.0, 0.0], 4), 1, 10.0
    X = rng.standard_normal((10, 2))
    kernel: Kernel = Matern(0.5, 1.0, 1.0) if name == "rough" else SquaredExponential(1.0, 1.0)
    y = np.linalg.cholesky(kernel(X) + 0.1 * np.eye(10)) @ rng.standard_normal(10)
    return kernel, X, y, 4 if name == "rough" else 3, 0.1


class Pool:
    """Draws from laws, made once: every statement reads the same independent draws, from the first one on."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[np.random.Generator, list[np.ndarray]]] = {}

    def of(self, source: DrawingLaw) -> DrawingLaw:
        """``source`` with stored draws."""
        rng, made = self.made.setdefault(source.law, (np.random.default_rng(3), []))
        places = itertools.count()

        def draw(_: np.random.Generator) -> np.ndarray:
            place = next(places)
            if place == len(made):
                made.append(source.draw(rng))
            return made[place]

        return replace(source, draw=draw)


def failures(source: DrawingLaw, problem: DrawsProblem, truth: float, rng: np.random.Generator) -> tuple[int, float]:
    """Of TIMES repetitions those in which the points kept are above their bound, and the greatest D over B seen."""
    count, worst = 0, 0.0
    for _ in range(TIMES):
        kept = keep_best(problem, source, rng, 0.0)
        assert kept.bound is not None
        divergence = truth - kept.reached.value
        count += divergence > float(kept.bound)
        worst = max(worst, divergence / float(kept.bound))
    return count, worst


@pytest.mark.broad
@pytest.mark.claim("N-given", "N-tilt-given", "N-order")
@pytest.mark.parametrize("name", one_in(2, ["two outcomes", "rough", "smooth"]))
def test_the_best_of_the_draws_is_above_its_bound_as_rarely_as_promised(
    observe: Observer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(several_draws, "_pivoted", lambda problem, rng: [])
    kernel, X, y, M, noise = instance(name)
    truth, pool = evidence_attained(kernel, X, y, noise=noise).value, Pool()
    for alpha, (draws, delta) in itertools.product((1.0, 0.5), ((1, 0.5), (3, 0.1))):
        problem = Remembering(kernel, X, np.arange(len(X)), M, y[:, None], noise, alpha, draws, delta)
        source = pool.of(several_draws.dense_source(problem))
        claim = "N-tilt-given" if "tilted" in source.law else "N-given"
        count, worst = failures(source, problem, truth, np.random.default_rng(3))
        observe.frequency(claim, count, TIMES, delta)
        assert worst > 0.05
        if name == "two outcomes":
            assert worst > 0.9
            if alpha == 1.0:  # the bound is not idle: it fails nearly as often as it may
                assert count > 0.5 * delta * TIMES
    # of least trace, y unknown
    for draws, delta, rank in ((1, 0.3, None), (3, 0.4, None), (2, 0.3, len(X))):
        problem = Remembering(kernel, X, np.arange(len(X)), M, draws=draws, delta=delta)
        source = pool.of(several_draws.source_of(problem, rank))
        count, _ = failures(source, problem, 0.0, np.random.default_rng(5))
        observe.frequency("N-order", count, TIMES, delta)


def test_select_states_the_bound_of_the_law_it_draws_from() -> None:
    kernel, X, y, M, noise = instance("rough")
    chosen = kdpp.select(kernel, X, M, "best", 0, y=y, noise=noise)
    assert chosen.bound is not None
    assert ("tilted" in chosen.law) == ("N-tilt-given" in chosen.bound.claim)
