"""Kernels on a few points: values, gradients, parameters, what a saved model says of them; linear algebra."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import kernels, linalg, renyi

from .rates import kernel_table


def calls() -> dict[str, Callable[[], Any]]:
    """All calls about kernels and matrices."""
    rng = np.random.default_rng(0)
    found: dict[str, Callable[[], Any]] = {}
    for name, make in kernel_table().items():
        dim = 2 if name.endswith("2") and not name.startswith("matern") else 1
        points = rng.standard_normal((6, dim)), rng.standard_normal((4, dim)), rng.standard_normal((6, 4))
        asked: dict[str, Callable[[], Any]] = {
            "values": lambda make=make, points=points: [make()(points[0], points[1]), make()(points[0])],
            "diag": lambda make=make, points=points: [make().diag(points[0]), make().largest_variance(points[0])],
            "max_variance": lambda make=make: make().max_variance,
            "pull": lambda make=make, points=points: make().pull(*points),
            "pull_both": lambda make=make, points=points: make().pull_both(*points, make()(*points[:2])),
            "pull_diag": lambda make=make, points=points: make().pull_diag(points[0], points[2][:, 0]),
            "pull_largest": lambda make=make, points=points: make().pull_largest(points[0], 0.3),
            "parameters": lambda make=make: _parameters(make()),
            "plain": lambda make=make: _plain(make()),
            "wrong columns": lambda make=make: make()(np.zeros((3, 4))),
            "separated": lambda make=make: repr(kernels.separated(make())),
        }
        found |= {f"{name}/{part}": call for part, call in asked.items()}
    return found | _refusals() | _linalg()


def _parameters(kernel: Any) -> Any:
    changed = kernel.with_log_parameters(kernel.log_parameters + 0.1)
    return [kernel.parameter_names, kernel.log_parameters, repr(kernel), str(kernel), repr(changed)]


def _plain(kernel: Any) -> Any:
    """What a file says of the kernel, and the kernel that is read from it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        renyi.Model(kernel, 0.1, None).save(path)
        return [path.read_text(encoding="utf-8"), repr(renyi.Model.load(path).kernel)]


def _refusals() -> dict[str, Callable[[], Any]]:
    se = kernels.SquaredExponential
    return {
        "refused/variance": partial(se, -1.0),
        "refused/lengthscale": partial(se, 1.0, 0.0),
        "refused/nu": partial(kernels.Matern, -0.5),
        "refused/degree": partial(kernels.Polynomial, 0),
        "refused/columns": lambda: se().on([-1]),
        "refused/parameters": lambda: se().with_log_parameters([0.0]),
        "refused/inputs": lambda: se()([[np.nan]]),
        "refused/sum": lambda: se() + 1.0,
    }


def _linalg() -> dict[str, Callable[[], Any]]:
    A = np.random.default_rng(1).standard_normal((5, 5))
    K, low = A @ A.T + 0.1 * np.eye(5), np.outer(A[0], A[0])
    L = np.linalg.cholesky(K)
    return {
        "linalg/cholesky": partial(linalg.cholesky, K),
        "linalg/cholesky, jitter": partial(linalg.cholesky, low, "auto"),
        "linalg/cholesky, refused": partial(linalg.cholesky, low - np.eye(5)),
        "linalg/eigen": partial(linalg.eigen, K, vectors=True),
        "linalg/eigen of low rank": partial(linalg.eigen, low),
        "linalg/eigen, refused": partial(linalg.eigen, A),
        "linalg/solve_triangular": lambda: [linalg.solve_triangular(L, A, transposed=t) for t in (False, True)],
    }
