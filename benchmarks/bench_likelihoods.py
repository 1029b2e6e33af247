"""How long a million means over N(m, v) take: ``python benchmarks/bench_likelihoods.py [--json FILE] [--repeats 7]``.

Triples (y, m, v): "usual", m ~ N(0, 2²), log v ~ N(0, 1) and y drawn from the model; "broad", m ~ U(−50, 50),
v from 1e-6 to 1e4.  For scale: a Gauss–Hermite rule of 32 nodes at (m, v), which is good to a few digits only
where v is large; its worst error in log E p over the usual triples is printed with it.  Processor time of one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save

from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT

N = 1_000_000
GOAL = 2.0
MODELS = (
    Gaussian(0.5),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(4.0, 0.7),
)


def triples(model: Likelihood, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    m, v = 2.0 * rng.standard_normal(N), rng.lognormal(size=N)
    f = m + np.sqrt(v) * rng.standard_normal(N)
    if isinstance(model, Bernoulli):
        y = np.where(rng.random(N) < model.density(1, f), 1.0, 0.0)
    elif isinstance(model, Poisson):
        rate = np.minimum(np.exp(f) if model.link == "exp" else np.log1p(np.exp(f)), 1e9)
        y = rng.poisson(rate).astype(float)
    else:
        y = f + 0.7 * rng.standard_t(4.0, N)
    if kind == "broad":
        m, v = rng.uniform(-50.0, 50.0, N), 10.0 ** rng.uniform(-6.0, 4.0, N)
    return y, m, v


def hermite(model: Likelihood, y: np.ndarray, m: np.ndarray, v: np.ndarray, count: int = 32) -> np.ndarray:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    total = np.zeros(y.shape)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * model.density(y, m + np.sqrt(v) * node)
    return np.log(total)


def evaluate(function: Callable[..., object], *arguments: object) -> float:
    """Seconds of processor time, on one core."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def timings(repeats: int) -> Iterator[Timing]:
    for model in MODELS:
        for kind in ("usual", "broad"):
            y, m, v = triples(model, kind)
            for mean, goal in (("log_expected_density", GOAL), ("expected_log_density", None)):
                for gradient in (False, True) if kind == "usual" else (False,):
                    run = partial(evaluate, getattr(model, mean), y, m, v, gradient)
                    name = f"{model}, {mean}{' and gradient' if gradient else ''}, {kind}"
                    yield measure(Case(name, None if gradient else goal, run), repeats)
    for model in (Bernoulli("logit"), Poisson("exp"), StudentT(4.0, 0.7)):
        y, m, v = triples(model, "usual")
        with np.errstate(divide="ignore"):
            error = np.abs(hermite(model, y, m, v) - model.log_expected_density(y, m, v)).max()
            name = f"Gauss–Hermite, 32 nodes, {model}, usual (worst error {error:.1g})"
            yield measure(Case(name, None, partial(evaluate, hermite, model, y, m, v)), repeats)


def main() -> None:
    options = arguments(__doc__).parse_args()
    about = opening()
    records = []
    for timing in timings(options.repeats):
        records.append(timing)
        print(row(timing), flush=True)
    save(options.json, about, records)


if __name__ == "__main__":
    main()
