"""PAC-Bayes certificates: issued, saved, read, checked, with every line of the report; damaged and false ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import SquaredExponential, kernels, losses, pacbayes
from gpbounds.pacbayes import HyperGrid

from .data import rows


def posteriors() -> dict[str, Callable[[Any, np.ndarray, np.ndarray], Any]]:
    """The kinds of posterior that a certificate can speak of."""
    Z = np.linspace(0.2, 5.8, 6)[:, None]
    return {
        "exact": lambda kernel, X, y: pacbayes.Exact(0.1),
        "fitc": lambda kernel, X, y: pacbayes.Sparse(Z, 0.1, 1.0),
        "vfe": lambda kernel, X, y: pacbayes.Sparse(Z, 0.1),
        "free": lambda kernel, X, y: pacbayes.Free(Z, np.sin(Z[:, 0]), 0.05 * np.eye(6)),
        "whitened": lambda kernel, X, y: pacbayes.Whitened(Z, np.sin(Z[:, 0]), 0.3 * np.eye(6)),
    }


def calls() -> dict[str, Callable[[], Any]]:
    """All calls about certificates."""
    found: dict[str, Callable[[], Any]] = {}
    for name in posteriors():
        found[f"{name}/issued"] = partial(_saved, name)
        found[f"{name}/check"] = lambda name=name: _report(_issued(name).check(*_rows()))
        found[f"{name}/rigorous check"] = lambda name=name: _report(_issued(name).check(*_rows(), rigorous=True))
        found[f"{name}/other rows"] = lambda name=name: _report(_issued(name).check(*rows(90, seed=9)))
    for name, loss in {
        "squared": losses.Squared(0.5),
        "exponential": losses.Exponential(0.5),
        "relative": losses.Relative(0.4),
        "interval": losses.Interval(-0.3, 0.5),
    }.items():
        found[f"loss/{name}"] = partial(_saved, "fitc", loss=loss)
        found[f"loss/{name}, check"] = lambda loss=loss: _report(_issued("fitc", loss=loss).check(*_rows()))
    matern = kernels.Matern(1.5, 0.73, 0.41)
    ways: dict[str, dict[str, Any]] = {
        "matern": {"kernel": matern},
        "sum": {"kernel": matern + SquaredExponential(0.7, 2.0), "grid": HyperGrid(-3.0, 3.0, 12, _names(matern))},
        "scaled": {
            "inputs": pacbayes.Scaling("disjoint split", 3.0, 2.0),
            "outputs": pacbayes.Scaling("disjoint split", 0.1, 1.5),
        },
        "charged": {"charges": [pacbayes.Charge("accuracies ε", 5), pacbayes.Charge("seeds", 3)]},
        "mean": {"mean": pacbayes.DeclaredMean("grid", 0.5, (-0.5,), edge=2.0, steps=4)},
        "nonrigorous": {"nonrigorous": True},
        "refused delta": {"delta": 1.5},
        "refused loss": {"loss": "band"},
    }
    for name, options in ways.items():
        found[f"way/{name}"] = partial(_saved, "vfe", **options)
        found[f"way/{name}, check"] = lambda options=options: _report(_issued("vfe", **options).check(*_rows()))
    return found | _damaged() | _parts()


def _names(matern: Any) -> tuple[str, ...]:
    return (matern + SquaredExponential()).parameter_names


def _rows() -> tuple[np.ndarray, np.ndarray]:
    return rows(90, seed=2)


def _issued(name: str, **options: Any) -> Any:
    kernel = options.pop("kernel", SquaredExponential(0.73, 0.41))
    settings = {"grid": HyperGrid.shared(-3.0, 3.0, 12), "loss": losses.Band(0.5), "delta": 0.05} | options
    return pacbayes.issue_certificate(*_rows(), kernel, posteriors()[name], **settings)


def _saved(name: str, **options: Any) -> Any:
    """The file of a certificate, its bytes, and whether reading it and writing it again gives the same."""
    certificate = _issued(name, **options)
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.json", Path(folder) / "second.json"
        certificate.save(first)
        pacbayes.Certificate.load(first).save(second)
        same = first.read_bytes() == second.read_bytes()
        return {"file": first.read_text(encoding="utf-8"), "same": same, "bound": certificate.bound}


def _report(report: Any) -> Any:
    lines = [(line.name, line.state, line.text) for line in report.lines]
    return {"confirmed": report.confirmed, "rigorous": report.rigorous, "lines": lines, "text": str(report)}


def _damaged() -> dict[str, Callable[[], Any]]:
    changes = {
        "smaller bound": ('"bound":', '"bound": 0.01, "was":'),
        "no seal": ('"seal"', '"other"'),
        "not JSON": ("{", ""),
        "unknown loss": ('"band"', '"other"'),
        "infinite": ('"kl":', '"kl": Infinity, "was":'),
    }
    return {f"damaged/{name}": partial(_read_changed, *change) for name, change in changes.items()}


def _read_changed(old: str, new: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        _issued("exact").save(path)
        path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
        return _report(pacbayes.Certificate.load(path).check(*_rows()))


def _parts() -> dict[str, Callable[[], Any]]:
    X, y = _rows()
    grid = HyperGrid.ard(2, -3.0, 3.0, 12)
    theta = {"variance": 0.7, "lengthscale[0]": 0.4, "lengthscale[1]": 9e9}
    mean = pacbayes.MeanGrid("linear", edge=2.0, steps=4)
    return {
        "grid/ard": lambda: [grid.T, grid.size, grid.log_size, grid.names, grid.to_dict()],
        "grid/round": lambda: _point(grid.round([0.7, 0.4, 9e9])),
        "grid/round, named": lambda: _point(grid.round(dict(zip(grid.names, theta.values(), strict=True)))),
        "grid/locate, refused": partial(grid.locate, [0.7, 0.4, 1.0]),
        "grid/at": lambda: _point(grid.at([0, 3, 12])),
        "grid/refused": partial(HyperGrid, 3.0, -3.0, 12),
        "mean/nearest": lambda: mean.nearest(X, y),
        "mean/texts": lambda: (lambda m: [m.describe(), m.doubt(X, y), m.to_dict(), m.count])(mean.nearest(X, y)),
        "mean/refused": partial(pacbayes.DeclaredMean, "other", 0.0),
        "scaling": lambda: pacbayes.Scaling("disjoint split", shift=10.0, scale=2.0).apply(X),
        "scaling/refused": partial(pacbayes.Scaling, "other"),
        "posteriors/records": lambda: {
            name: [_issued(name).posterior.describe(), _issued(name).posterior.to_dict()] for name in posteriors()
        },
    }


def _point(point: Any) -> Any:
    return {name: getattr(point, name) for name in ("indices", "clipped", "theta")}
