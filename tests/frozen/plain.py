"""Results as plain values: numbers, words, lists and mappings that JSON holds without rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from renamed import ATTRIBUTES, CLASSES

RECORDS: dict[str, tuple[str, ...]] = {
    "Bound": ("value", "side", "confidence", "claim", "terms", "assumptions", "certified", "quantity"),
    "Plan": (*("method", "N", "target", "M", "bound", "bound_before", "needed", "meaning", "cost", "notes"),),
    "Cost": ("flops", "bytes"),
    "Sandwich": (*("kl", "mean", "mean_first", "low", "high", "log_low", "inverse_low", "inverse_high"),),
    "Predictive": ("expected", "kl", "sandwich"),
    "Prediction": ("mean", "variance", "mean_error", "variance_error"),
    "Sample": ("indices", "tv", "method", "steps", "rounding"),
    "Selection": (
        *("method", "indices", "Z", "trace", "log_det", "law", "traces", "requested", "tv", "ridge", "jitter"),
    ),
    "SampleSize": (
        *("L", "threshold", "step", "relative_error", "delta", "zeta", "factors", "c3", "c4", "rule", "claim", "notes"),
    ),
    "Envelope": ("shift", "n", "touch", "width", "log_K", "acceptance"),
    "Gradients": (*("by_mean", "by_variance", "sampled_by_mean", "sampled_by_variance", "curvature", "wrong_sign"),),
    "ProductSample": ("draws", "envelope", "proposals", "accepted", "acceptance"),
    "DerivativeRange": ("density", "first", "second", "form", "claim", "holds", "note"),
    "GridPoint": ("indices", "theta", "clipped"),
    "Report": ("confirmed", "rigorous", "verdict", "failed", "statement", "lines"),
    "Line": ("name", "state", "text"),
    "Terms": ("risk", "kl", "bound", "jitter"),
    "Claim": ("id", "section", "place", "statement", "verdict", "printed", "sharper", "function", "check"),
    "SquaredExponential": ("variance", "lengthscale"),
    "Matern": ("nu", "variance", "lengthscale"),
    "Sum": ("k1", "k2"),
    "Product": ("k1", "k2"),
}
"""What is public of a result, by its class; what is not here must be read attribute by attribute."""

VOLATILE = ("versions", "seal")
"""Fields of certificates that say with which software they were made."""


def plain(value: Any) -> Any:
    """``value`` as JSON holds it; arrays as nested lists, results by their public attributes."""
    match value:
        case None | bool() | int() | float() | str():
            return value.item() if isinstance(value, np.generic) else value
        case np.generic():
            return value.item()
        case np.ndarray():
            return plain(value.tolist())
        case slice():
            return [value.start, value.stop, value.step]
        case Mapping():
            return {str(key): plain(item) for key, item in value.items() if key not in VOLATILE}
        case list() | tuple() | Iterator():
            return [plain(item) for item in value]
    kind = type(value).__name__
    kind = CLASSES.get(kind, kind)
    if kind in RECORDS:
        return {"class": kind} | {name: plain(getattr(value, ATTRIBUTES.get(name, name))) for name in RECORDS[kind]}
    if kind == "Certificate":
        return plain(value.to_dict())
    if kind == "Figure":
        texts = [text.get_text() for legend in value.legends for text in legend.get_texts()]
        return {"axes": [plain(ax) for ax in value.axes], "legend": texts}
    if kind in ("Axes", "AxesSubplot"):
        return _axes(value)
    raise TypeError(f"a result of class {kind}: say in plain.py what is public of it, or read its attributes")


def _axes(ax: Any) -> dict[str, Any]:
    """What is drawn: lines with their colours and styles, edges of bands and bars, scales, limits, words."""
    lines = [
        {
            "x": plain(np.asarray(line.get_xdata(), dtype=np.float64)),
            "y": plain(np.asarray(line.get_ydata(), dtype=np.float64)),
            "look": f"{line.get_label()!r} {line.get_color()!r} {line.get_linestyle()!r}",
        }
        for line in ax.get_lines()
    ]
    bars = [
        [*patch.get_xy(), patch.get_width(), patch.get_height()] for patch in ax.patches if hasattr(patch, "get_width")
    ]
    bands = [path.vertices for collection in ax.collections for path in collection.get_paths()]
    return {
        "lines": lines,
        "bars": plain(bars),
        "bands": plain(bands),
        "scales": [ax.get_xscale(), ax.get_yscale()],
        "limits": plain([*ax.get_xlim(), *ax.get_ylim()]),
        "words": [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)],
    }
