"""The fingerprint that ties a checkpoint to data and settings, and the seed of all random numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from fitting.estimators.saving import ADDED, ADDED_TO_ALL, FILLED, FORMER, FREED
from fitting.rows.columns import Columns
from fitting.starts.starts import PIECE, own_kernel
from gpbounds.arrays import Float, host
from gpbounds.errors import shown
from gpbounds.kernels import Kernel, OnColumns
from gpbounds.likelihoods import Likelihood
from gpbounds.losses import Loss
from gpbounds.means import LinearMean
from gpbounds.pacbayes import DeclaredMean, HyperGrid, MeanGrid, Scaling
from gpbounds.records import to_json
from gpbounds.whitening import slices

FREE = ("max_iter", "tol", "progress", "checkpoint", "device")
"""Arguments that may differ between a checkpoint and its continuation."""


def fingerprint(estimator: Any, X: Float | Columns, Y: Float | Columns) -> str:
    """SHA-256 of the data and of every argument that influences training."""
    digest = hashlib.sha256(type(estimator).__name__.encode())
    arguments = {FORMER.get(name, name): value for name, value in estimator.get_params(deep=False).items()}
    filled = FILLED.get(type(estimator).__name__, {})
    arguments["kernel"] = own_kernel(arguments["kernel"])
    arguments |= {name: value for name, value in filled.items() if arguments[name] is None}
    added = {**ADDED_TO_ALL, **ADDED.get(type(estimator).__name__, {})}
    for name, value in sorted({**arguments, **FREED}.items()):
        if name == "start" and not estimator._pilots:  # checkpoints older than this argument keep their fingerprint
            continue
        if name == "solver":  # only the solver that is used counts; older checkpoints used Cholesky
            if estimator._iterates(X.shape[0]):
                digest.update(b"solver=iterative;")
            continue
        if (name not in FREE or name in FREED) and not (name in added and value == added[name]):
            digest.update(f"{name}={_words(name, value)};".encode())
    weights = [estimator.sample_weight_] if hasattr(estimator, "sample_weight_") else []
    for array in (X, Y, *weights):
        if isinstance(array, Columns):
            digest.update(array.identity)
            continue
        digest.update(f"{array.shape}".encode())
        for rows in slices(array.shape[0], PIECE):
            digest.update(np.ascontiguousarray(array[rows]).tobytes())
    return digest.hexdigest()


def _words(name: str, value: Any) -> str:
    if isinstance(value, Kernel):
        shape = [type(value).__name__, list(value.parameter_names), value.log_parameters.tolist(), _orders(value)]
        return to_json(shape, finite=False)
    if name == "random_state" and not isinstance(value, int | np.integer):
        return "drawn"
    if isinstance(value, LinearMean):
        return to_json(value.to_dict())
    if isinstance(value, DeclaredMean | HyperGrid | Likelihood | Loss | MeanGrid | Scaling):
        return repr(value)
    if value is None or isinstance(value, str | bool | int | float | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, dict | list | tuple):
        return repr(sorted(value.items()) if isinstance(value, dict) else list(value))
    if not hasattr(value, "__array__"):
        return f"{type(value).__qualname__} {value!r}"
    return repr(host(value).tolist())


def _orders(kernel: Any) -> list[Any]:
    if hasattr(kernel, "k1"):
        return [type(kernel).__name__, _orders(kernel.k1), _orders(kernel.k2)]
    if isinstance(kernel, OnColumns):
        return [type(kernel).__name__, list(kernel.columns), _orders(kernel.kernel)]
    return [type(kernel).__name__, getattr(kernel, "nu", getattr(kernel, "degree", None))]


def seed_of(random_state: Any) -> int:
    """One whole number, from None (drawn at random), a number, a Generator or a RandomState.

    >>> seed_of(7)
    7
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(2, np.uint64)[0])
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ValueError(
        f"random_state: expected None, a whole number >= 0, a Generator or a RandomState, got {shown(random_state)}"
    )
