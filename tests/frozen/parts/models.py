"""Models, checkpoints and certificates of the day of freezing: they must still be readable and give the same results.

``--write`` trains and writes the files in ``store/models``; otherwise these are only read.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calls.stored import HALFWAY, certificates, checkpoints, file, models, sayings
from calls.trained import L, P
from language import FIT, call, evaluate, find, then

from parts.traces import trace
from parts.values import attempt, outcome


def write(place: Path) -> None:
    """Train, issue, and store the files anew."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (expression, _) in models().items():
            evaluate(then(expression, "save", path=str(file(place, name))))
        for name, expression in checkpoints().items():
            evaluate(expression(file(place, f"checkpoint {name}"), max_iter=HALFWAY))
        for name, expression in certificates().items():
            evaluate(then(expression, "save", path=str(file(place, f"certificate {name}", "json"))))


def gone_on(path: Path, expression: Callable[..., Any]) -> dict[str, Any]:
    """A trace that goes on from a copy of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkpoint.npz"
        shutil.copy(path, copy)
        return attempt(lambda: trace(expression(copy), L))


def resaved(path: Path, data: Any) -> Any:
    """What a loaded model predicts after it was saved and loaded once more: the same to the last bit."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.npz"
        first = find("fitting.load")(str(path))
        first.save(str(copy))
        left, right = (model.predict(data.new, return_cov=True) for model in (first, find("fitting.load")(str(copy))))
        return [bool((a == b).all()) for a, b in zip(left, right, strict=True)]


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """Every stored file, read and asked."""
    place = store / "models"
    if writing:
        write(place)
    record: dict[str, Any] = {}
    for name, (_, data) in models().items():
        for label, (rule, expression) in sayings(place, name, data).items():
            id = f"model {name}: {label}"
            if select in id:
                record[id] = {"rule": rule, "value": outcome(expression)}
        if select in name:
            record[f"model {name}: saved again"] = {
                "rule": "bits",
                "value": attempt(functools.partial(resaved, file(place, name), data)),
            }
    for name, expression in checkpoints().items():
        if select in name:
            path = file(place, f"checkpoint {name}")
            record[f"checkpoint {name}"] = {"rule": FIT, "value": gone_on(path, expression)}
    for name in certificates():
        read = call("gpbounds.pacbayes.Certificate.load", path=str(file(place, f"certificate {name}", "json")))
        for label, expression in {
            "record": then(read, "to_dict"),
            "check": then(read, "check", X=L.X, y=L.y),
            "check, other data": then(read, "check", X=P.X, y=P.y),
            "check, one target moved": then(read, "check", X=L.X, y=[*L.y[:-1], L.y[-1] + 1e-9]),
        }.items():
            id = f"certificate {name}: {label}"
            if select in id:
                record[id] = {"rule": "bits", "value": outcome(expression)}
    return record
