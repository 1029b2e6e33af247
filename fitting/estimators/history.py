"""Changes of the estimators' arguments, so that files and checkpoints of earlier versions stay readable."""

from __future__ import annotations

from typing import Any

FORMER = {"posterior": "form", "relaxation": "objective"}
"""Former name of each renamed argument."""

PRESENT = {name: {former: present for present, former in FORMER.items()} for name in ("PACGP", "SparsePACGP")}
"""Present name of each former one, by class."""

FREED = {"tol": 1e-9}
"""Arguments that a continuation could not change once, with the value that the fingerprints of all checkpoints hold."""

ADDED_TO_ALL: dict[str, Any] = {"mean": "zero"}
"""Arguments that were added to every class, with the values that leave training as it was before."""

_DRAWS = {"draws": 10, "delta": 0.05}
ADDED: dict[str, dict[str, Any]] = {
    "LowRankGP": {"batch_size": None},
    "RenyiGP": _DRAWS,
    "SparseGP": {**_DRAWS, "beta": 1.0},
    "SparsePACGP": {"fewer": False},
}
"""Arguments that were added, by class, with the values that leave training as it was before."""

FILLED: dict[str, dict[str, Any]] = {"LowRankGP": {"rank": 100}}
"""Arguments whose default is None now, by class, with the former default, which fingerprints hold."""


def without_ignored(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a file, less those that earlier versions took and ignored and that are an error now.

    >>> without_ignored("LowRankGP", {"features": "fourier", "rank": 4, "order": "best"})
    {'features': 'fourier', 'rank': 4, 'order': 'degree'}
    """
    if kind != "LowRankGP":
        return settings
    features = settings.get("features")
    changed: dict[str, Any] = {}
    if features != "mercer":
        changed["order"] = "degree"
    if not isinstance(features, str) and settings.get("rank") == 100:
        changed["rank"] = None
    return settings | changed
