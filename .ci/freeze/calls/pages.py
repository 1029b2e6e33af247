"""Figures by what they draw, pages by their text, tables of rows, claims, the records of other libraries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpbounds
from gpbounds import claims as ledger
from gpbounds import pages, plotting, renyi, whitening
from gpbounds.kernels import SquaredExponential
from gpbounds.renyi import from_gpflow, from_gpjax, from_gpytorch

from .data import npy, rows

M = np.array([1.0, 2.0, 5.0, 10.0])
SOURCES: Any = getattr(gpbounds, "rows", None) or gpbounds.sources
"""The readers of rows, which `gpbounds.sources` were."""
PEERS = Path(__file__).resolve().parents[3] / "tests" / "peers"
READERS = {"gpflow": from_gpflow, "gpytorch": from_gpytorch, "gpjax": from_gpjax, "gpjax_0": from_gpjax}


def calls() -> dict[str, Callable[[], Any]]:
    """All calls whose result is read by a person, and the readers of rows and models."""
    return _figures() | _pages() | _rows() | _peers()


def drawn(figure: Any) -> Any:
    """What a figure holds: texts, scales, the data of lines and bands."""
    panels = [
        {
            "texts": [
                axes.get_title(),
                axes.get_xlabel(),
                axes.get_ylabel(),
                *(text.get_text() for text in axes.texts),
            ],
            "scales": [axes.get_xscale(), axes.get_yscale(), axes.get_xlim(), axes.get_ylim()],
            "lines": [np.asarray(line.get_xydata(), dtype=float) for line in axes.get_lines()],
            "bands": [path.vertices for each in axes.collections for path in each.get_paths()],
            "bars": [patch.get_path().vertices for patch in axes.patches],
            "legend": [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else [],
        }
        for axes in figure.axes
    ]
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return {"panels": panels, "legends": legends, "texts": [text.get_text() for text in figure.texts]}


def _figures() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    curves = [plotting.Curve("bound", M, 10.0 / M), plotting.Curve("other", M, 5.0 / M, plotting.GREEN, "--")]
    names: dict[str, Any] = {"title": "data\nkernel", "ylabel": plotting.divergence_symbol(1.0), "target": 0.1}
    bands = [plotting.Band("random", M, 10.0 ** -rng.uniform(1, 2, (5, 4)), plotting.PURPLE)]
    lower = plotting.Curve("lower", M, 1e-9 / M)
    bracket = plotting.Bracket("greedy", M, -9.0 - 1e4 / M, -5.0 - 100.0 / M, -5.0 + 9.0 / M**2, None)
    truth, mean, std = rng.standard_normal((3, 40))
    predictions = plotting.Predictions(truth, mean, np.abs(std), np.full(40, 0.5))
    costs = [("KL", 0.2), ("grid", 0.05)]
    intervals = plotting.Intervals(truth, mean, mean - 1.0, mean + 1.0)
    ranks, share = rng.uniform(size=40), rng.uniform(size=40)
    labels = plotting.Probabilities(rng.uniform(size=40) < share, share, "no", "yes")
    figures: dict[str, Callable[[], Any]] = {
        "bound_curves": partial(plotting.bound_curves, curves, **names),
        "bound_vs_empirical": partial(
            plotting.bound_vs_empirical, curves, bands, lower, confidence="probability 95 %", **names
        ),
        "bounds_and_evidence": partial(plotting.bounds_and_evidence, curves, bracket, **names),
        "certificate_page": partial(plotting.certificate_page, predictions, 0.1, costs, 0.35, title="t"),
        "labels_page": partial(plotting.labels_page, labels, title="t"),
        "targets_page": partial(plotting.targets_page, intervals, ranks, level=0.95, title="t"),
        "training": partial(plotting.training, [3.0, 2.0, 1.5, 1.25], title="t", ylabel="y"),
    }
    found: dict[str, Callable[[], Any]] = {
        f"figures/{name}": lambda make=make: drawn(make()) for name, make in figures.items()
    }
    parts: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
        "plot_band": (plotting.plot_band, (bands[0],)),
        "plot_curves": (plotting.plot_curves, (curves,)),
        "plot_predictions": (plotting.plot_predictions, (predictions,)),
        "plot_terms": (plotting.plot_terms, (0.1, costs, 0.35)),
    }
    found |= {f"figures/{name}": partial(_panel, *part) for name, part in parts.items()}
    found["figures/positive"] = partial(plotting.positive, [3.0, 0.0, np.inf, 1e-3])
    found["figures/divergence_symbol"] = lambda: [
        plotting.divergence_symbol(alpha, way) for alpha in (None, 0.5, 1.0) for way in ("q||p", "p||q")
    ]
    return found


def _panel(plot: Callable[..., None], arguments: tuple[Any, ...]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure()
    plot(figure.add_subplot(), *arguments)
    return drawn(figure)


def _pages() -> dict[str, Callable[[], Any]]:
    marks = [
        pages.Line("bound", M.tolist(), (1.0 / M).tolist(), "#0072B2"),
        pages.Band("range", M.tolist(), (0.5 / M).tolist(), (2.0 / M).tolist(), "#0072B2"),
        pages.Dots("points", M.tolist(), (1.0 / M).tolist(), "#D55E00"),
        pages.Level("target", 0.1, "#000000"),
    ]
    bars = [pages.Bars("bins", [0.0, 0.5, 1.0], [3.0, 4.0], "#0072B2")]
    return {
        "pages/chart": lambda: str(pages.Chart(marks, "M", "nats", log_y=True).svg()),
        "pages/bars": lambda: str(pages.Chart(bars, "PIT", "rows", zero=True).svg()),
        "pages/table": lambda: str(
            pages.table(["a", "<b>"], [[1, "x & y"], [2.5, pages.Markup("<i>z</i>")]], "caption")
        ),
        "pages/document": lambda: pages.document("t <", "<p>body</p>", style="p {}", script="1"),
        "pages/escaped": lambda: str(pages.escaped('a < "b" & c')),
        "pages/claims": lambda: pages.claims_page({"R-thm1": {"cases": 25, "worst_slack": 0.5, "ratios": [1.5, 2.0]}}),
        "claims/ledger": lambda: [str(claim) for claim in ledger.ledger()],
    }


def _rows() -> dict[str, Callable[[], Any]]:
    X, y = rows(30, 2)

    def read() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            paths = npy(folder, X, y)
            found = SOURCES.source(*paths)
            picked = found.rows(np.array([3, 0, 29]))
            return [
                found.N,
                found.D,
                found.P,
                found.single,
                SOURCES.is_elsewhere(paths[0]),
                SOURCES.is_elsewhere(X),
                picked,
            ]

    def shuffled() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return [np.load(path) for path in SOURCES.shuffle_to(folder, X, y, rng=0)]

    def streamed() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            data = npy(folder, X, y)
            se = SquaredExponential(1.0, [1.0, 2.0])
            return {
                "evidence": renyi.evidence(se, *data, X[::5], noise=0.1),
                "gap": renyi.gap(se, *data, X[::5], 0.5, noise=0.1),
                "gap_from_trace": renyi.gap_from_trace(se, *data, X[::5], 0.5, noise=0.1),
            }

    return {
        "rows/read": read,
        "rows/shuffled": shuffled,
        "rows/streamed": streamed,
        "rows/refused": partial(SOURCES.source, "nothing.npy", "nothing.npy"),
        "rows/slices": lambda: [list(whitening.slices(5, 3))],
    }


def _peers() -> dict[str, Callable[[], Any]]:
    """Models of other libraries, from the descriptions in tests/peers."""
    found: dict[str, Callable[[], Any]] = {}
    for library, reader in READERS.items():
        stored = json.loads((PEERS / f"{library}.json").read_text(encoding="utf-8"))["models"]
        for name, record in stored.items():
            found[f"peers/{library}/{name}"] = partial(_peer, reader, record["model"])
    return found


def _peer(reader: Callable[[Any], Any], record: dict[str, Any]) -> Any:
    model = reader(_rebuilt(record))
    return [repr(model.kernel), model.noise, model.Z, None if model.mean is None else repr(model.mean)]


def _rebuilt(record: dict[str, Any]) -> Any:
    """An object with the class name and the attributes of a description."""
    part = type(record["class"], (), {})()
    for name, value in record.items():
        if name == "kernels":
            part.kernels = [_rebuilt(each) for each in value]
        elif isinstance(value, dict):
            setattr(part, name, slice(*value["slice"]) if "slice" in value else _rebuilt(value))
        elif name != "class":
            setattr(part, name, value if isinstance(value, str) else np.asarray(value))
    return part
