"""How fast exact draws from q(f)p(y|f) come: ``python benchmarks/bench_ups.py [--json FILE]``.

uPS over 10 000 distinct (m, v, y), 200 draws each, for the paper's widened Gaussian with the best width and constant
and for the best proposal; only triples whose acceptance is at least 0.2.  A second row keeps those between 0.2 and 0.3.
Beside it what people write instead: one triple after the other, with the paper's n = 4 and the constant that is valid
there (2 max p), proposals in vectors of 1000.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Case, arguments, measure, opening, save

from gpbounds.likelihoods import Bernoulli, Likelihood, Poisson
from gpbounds.montecarlo import cover, sample_product

TRIPLES, DRAWS = 10_000, 200
GOAL = 1e6
"""Accepted draws a second on one core."""


def triples(likelihood: Likelihood, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    m, v = 2.0 * rng.standard_normal(count), rng.uniform(0.1, 2.0, count)
    if isinstance(likelihood, Bernoulli):
        return rng.integers(0, 2, count).astype(float), m, v
    return rng.poisson(np.exp(np.clip(m + 0.7 * rng.standard_normal(count), -5, 4))).astype(float), m, v


def chosen(likelihood: Likelihood, proposal: str, low: float, high: float) -> tuple[np.ndarray, ...]:
    """TRIPLES triples with an acceptance in [low, high]."""
    y, m, v = triples(likelihood, 40 * TRIPLES)
    rate = np.asarray(cover(likelihood, y, m, v, proposal).acceptance)
    keep = np.flatnonzero((rate >= low) & (rate <= high))[:TRIPLES]
    return y[keep], m[keep], v[keep]


def one_by_one(likelihood: Likelihood, y: np.ndarray, m: np.ndarray, v: np.ndarray, draws: int) -> int:
    """The loop that one would write: N(m, 4v), constant 2 max p."""
    rng = np.random.default_rng(0)
    tops = likelihood.derivative_range(y).density[1]
    for y_i, m_i, v_i, top in zip(y, m, v, tops, strict=True):
        have = 0
        while have < draws:
            f = m_i + 2.0 * np.sqrt(v_i) * rng.standard_normal(1000)
            ratio = likelihood.density(y_i, f) * np.exp(-0.375 * (f - m_i) ** 2 / v_i) / top
            have += int((rng.random(1000) < ratio).sum())
    return draws * y.size


def main() -> None:
    options = arguments(__doc__).parse_args()
    about = opening(f"{'likelihood':<24} {'proposal':<12} {'acceptance':<12} {'triples':>8} {'draws/s':>12}")
    records: list[dict[str, object]] = []
    for likelihood in (Bernoulli("probit"), Poisson("exp"), Bernoulli("logit"), Poisson("softplus")):
        for proposal, low, high in (("widened", 0.2, 1.0), ("widened", 0.2, 0.3), ("best", 0.2, 1.0)):
            y, m, v = chosen(likelihood, proposal, low, high)
            if y.size < 100:
                continue

            def run(
                proposal: str = proposal,
                likelihood: Likelihood = likelihood,
                y: np.ndarray = y,
                m: np.ndarray = m,
                v: np.ndarray = v,
            ) -> None:
                sample_product(likelihood, y, m, v, DRAWS, np.random.default_rng(0), proposal)

            draws = DRAWS * y.size
            report(records, f"{likelihood}", proposal, (low, high), y.size, draws, run, options.repeats)
        y, m, v = (part[:10] for part in chosen(likelihood, "widened", 0.2, 1.0))

        def loop(likelihood: Likelihood = likelihood, y: np.ndarray = y, m: np.ndarray = m, v: np.ndarray = v) -> None:
            one_by_one(likelihood, y, m, v, DRAWS)

        report(records, f"{likelihood}", "loop, n = 4", (0.2, 1.0), y.size, DRAWS * y.size, loop, options.repeats)
    save(options.json, about, records)


def report(
    records: list[dict[str, object]],
    name: str,
    proposal: str,
    rates: tuple[float, float],
    count: int,
    draws: int,
    run: Callable[[], None],
    repeats: int,
) -> None:
    """Measure, print and keep one row."""
    goal = None if "loop" in proposal else draws / GOAL
    timing = measure(Case(name, goal, run), repeats)
    speed = draws / timing.median
    missed = "  MISSED" if goal is not None and speed < GOAL else ""
    text = f"{rates[0]:g} to {rates[1]:g}"
    print(f"{name:<24} {proposal:<12} {text:<12} {count:>8} {speed:>12,.0f}{missed}", flush=True)
    records.append(
        {"likelihood": name, "proposal": proposal, "acceptance": rates, "triples": count, "draws": draws}
        | {"draws_per_s": speed, **timing.to_dict()}
    )


if __name__ == "__main__":
    main()
