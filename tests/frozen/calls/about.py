"""The ledger, and pictures as the numbers that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import numbers
from language import BITS, Applied, Call, Cases, Drawn, Named, call, part, then

cases = Cases("about", BITS)

for id in ("R-thm1", "L-06", "P-09", "D-12", "N-conc"):
    cases.add(f"claim {id}", call("gpbounds.claims.find", id=id))
cases.add("built", [part(call("gpbounds.claims.find", id=id), "built") for id in ("R-lem3", "L-55")])
listed = Applied(lambda claims: [[c.id, c.verdict, c.section] for c in claims], call("gpbounds.claims.ledger"))
cases.add("ledger", listed)

M = np.array([1.0, 2.0, 5.0, 10.0])


def plot(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.plotting.{name}", **arguments)


CURVES = [
    plot("Curve", label="a", M=M, value=[3.0, 0.0, np.inf, 1e-3]),
    plot("Curve", label="b", M=M, value=10.0 / M, color="k", style="--"),
]
BANDS = [
    plot("Band", label="random", M=M, draws=numbers(5, 4, low=0.01, high=0.1), color="#CC79A7"),
    plot("Band", label="greedy", M=M, draws=0.05 / M, color="k"),
]
BRACKET = {"label": "greedy", "M": M, "elbo": -5.0 - 1e3 / M, "lower": -5.0 - 100.0 / M, "upper": -5.0 + 9.0 / M**2}
options = {"title": "data\nkernel", "ylabel": "KL (nats)"}
cases.add("bound_curves", plot("bound_curves", curves=CURVES, **options, target=0.5))
cases.add(
    "bound_vs_empirical",
    plot(
        "bound_vs_empirical",
        bounds=CURVES,
        subsets=BANDS,
        lower=plot("Curve", label="lower", M=M, value=1e-9 / M),
        **options,
        confidence="Upper bounds",
        target=0.1,
    ),
)
cases.add(
    "bound_vs_empirical, no lower",
    plot("bound_vs_empirical", bounds=CURVES, subsets=BANDS, lower=None, **options, confidence="Upper bounds"),
)
for exact in (None, -5.0):
    bracket = plot("Bracket", **BRACKET, exact=exact)
    cases.add(f"bracket, exact {exact}", part(bracket, "reference"))
    cases.add(
        f"bounds_and_evidence, exact {exact}",
        plot("bounds_and_evidence", curves=CURVES, bracket=bracket, **options, target=0.2),
    )
predictions = plot("Predictions", truth=numbers(12), mean=numbers(12, seed=1), std=0.1, half_width=0.3)
cases.add("predictions", then(predictions, "by_truth"))
terms = {"risk": 0.1, "costs": [("KL", 0.05), ("ln|Θ|", 0.02)], "bound": 0.31}
cases.add("certificate_page", plot("certificate_page", predictions=predictions, **terms, title="t", target="yield"))
cases.add("divergence_symbol", [plot("divergence_symbol", alpha=a) for a in (None, 0.5, 1.0)])
cases.add("divergence_symbol, other direction", plot("divergence_symbol", alpha=0.5, direction="p||q"))
cases.add("positive", plot("positive", value=[1.0, 0.0, -2.0, np.inf, np.nan]))
DRAWN = {
    "plot_curves": {"curves": CURVES},
    "plot_band": {"band": BANDS[0]},
    "plot_predictions": {"predictions": predictions},
    "plot_terms": terms,
}
for name, arguments in DRAWN.items():
    cases.add(name, Drawn(plot(name, **arguments)))
NAMES = ("BLACK", "BLUE", "CYCLE", "FAR", "GREEN", "ORANGE", "PURPLE", "SKY", "STYLES", "TEXT", "VERMILLION")
cases.add("constants", {name: Named(f"gpbounds.plotting.{name}") for name in NAMES})
